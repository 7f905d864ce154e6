"""The growing criteria of seed 001 as selectors: a basis for any estimator, whatever it then does with it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from kompakt.basis import Selection
from kompakt.basis.candidates import CandidateStream
from kompakt.basis.columns import KernelColumns
from kompakt.basis.forward import GrowthPlan, grow
from kompakt.basis.machine import GrowingMachine
from kompakt.data import ArrayRows, hash_rows
from kompakt.design import choose_block_rows
from kompakt.kernels import Kernel
from kompakt.losses import LeastSquares, Loss, SquaredHinge


@dataclass(frozen=True)
class GrowthSelector:
    """Basis vectors chosen one by one as the machine grows.

    Parameters
    ----------
    selection : str
        "sp1", "sp2", "hybrid", "random", "cholesky", "gsvc", "bh", "mark", "kmp" or "kmp_prefit".
    n_candidates : int
        Rows tried at each step.
    retraining : str
        Schedule of retraining.
    memory_budget : int, optional
        Bytes that the features may take.

    Examples
    --------
    >>> import numpy as np
    >>> from kompakt.basis.selector import GrowthSelector
    >>> from kompakt.kernels import RBF
    >>> from kompakt.losses import SquaredHinge
    >>> from kompakt.data import ArrayRows
    >>> X = np.linspace(-1, 1, 40)[:, None]
    >>> rows = ArrayRows(X, targets=np.sign(X))
    >>> GrowthSelector("sp2").select(rows, RBF(1.0), 5, key=0, loss=SquaredHinge(), C=1.0).n_basis
    5
    """

    selection: str = "sp2"
    n_candidates: int = 10
    retraining: str = "quarter_powers"
    memory_budget: int | None = None
    uses_targets: ClassVar[bool] = True

    def select(
        self,
        rows: ArrayRows,
        kernel: Kernel,
        n_basis: int,
        *,
        key: int,
        loss: Loss,
        C: float,
        fit_intercept: bool = True,
        penalize_intercept: bool = False,
    ) -> Selection:
        """The vectors in the order in which they were chosen.

        A loss that is not piecewise quadratic is stood in for by the squared hinge (classes) or least squares.
        """
        if not loss.piecewise_quadratic:
            loss = SquaredHinge() if loss.for_classes else LeastSquares()
        if self.selection.startswith("kmp"):
            loss = LeastSquares()
        stream = CandidateStream.of(hash_rows(rows.X, key), key)
        capacity = min(int(n_basis), len(stream.rows))
        machine = GrowingMachine(
            KernelColumns(rows, kernel, choose_block_rows(rows.n_features)),
            loss,
            C,
            fit_intercept=fit_intercept,
            penalize_intercept=penalize_intercept,
            capacity=capacity,
            memory_budget=self.memory_budget,
        )
        plan = GrowthPlan(capacity, self.selection, self.n_candidates, retraining=self.retraining)
        records = grow(machine, stream, plan)
        indices = np.array(machine.indices, dtype=np.intp)
        return Selection(
            indices=indices,
            vectors=kernel.take_basis(rows, indices),
            scores=np.array([record["objective"] for record in records]),
            factor=machine.factor_R.copy(),
            info={"n_kernel_evals": machine.columns_of.n_evals, "objectives": [r["objective"] for r in records]},
        )
