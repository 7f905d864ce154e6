"""A kernel that counts how often it is evaluated."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np

from kompakt.kernels import Kernel

Array = np.ndarray


@dataclass(frozen=True, eq=False)
class CountingKernel(Kernel):
    """Wrap a kernel and count its evaluations: what an estimator reports can then be checked.

    Examples
    --------
    >>> import numpy as np
    >>> from kompakt.kernels import RBF
    >>> from kompakt.testing import CountingKernel
    >>> kernel = CountingKernel(RBF(1.0))
    >>> _ = kernel.block(np.zeros((3, 1)), np.zeros((2, 1)))
    >>> kernel.evaluations
    6
    """

    kernel: Kernel
    counts: list[int] = field(default_factory=list)  # appending is safe from several threads
    name: ClassVar[str] = "counting"

    @property
    def evaluations(self) -> int:
        """Values computed so far."""
        return sum(self.counts)

    @property
    def shift_invariant(self) -> bool:  # type: ignore[override]
        return self.kernel.shift_invariant

    @property
    def differentiable(self) -> bool:  # type: ignore[override]
        return self.kernel.differentiable

    def block(self, X: Any, Z: Array) -> Array:
        self.counts.append(X.shape[0] * len(Z))
        return self.kernel.block(X, Z)

    def pre(self, X: Any, Z: Array) -> Array:
        self.counts.append(X.shape[0] * len(Z))
        return self.kernel.pre(X, Z)

    def finish(self, pre: Array) -> Array:
        return self.kernel.finish(pre)

    def diag(self, X: Any) -> Array:
        return self.kernel.diag(X)

    @property
    def theta(self) -> Array:
        return self.kernel.theta

    def with_theta(self, theta: Array) -> Kernel:
        return CountingKernel(self.kernel.with_theta(theta), self.counts)

    def gradients(self, X: Any, Z: Array, K: Array, W: Array) -> tuple[Array, Array]:
        return self.kernel.gradients(X, Z, K, W)

    def spec(self) -> dict[str, Any]:
        return self.kernel.spec()
