"""A design whose values are given: features in memory, already whitened."""

from __future__ import annotations

import numpy as np

from kompakt.design.design import Array, Design
from kompakt.kernels import Linear
from kompakt.rows import ArrayRows


class FeatureDesign(Design):
    """Given features Phi (n, m) with targets and weights; the penalty is |w|^2 and weights are w itself.

    Examples
    --------
    >>> import numpy as np
    >>> from kompakt.design import FeatureDesign
    >>> FeatureDesign(np.eye(2), targets=np.ones((2, 1))).sandwich()
    array([[1., 0.],
           [0., 1.]])
    """

    def __init__(
        self, features: Array, targets: Array, weights: Array | None = None, block_rows: int | None = None
    ) -> None:
        rows = ArrayRows(features, targets, weights)
        m = features.shape[1]
        super().__init__(rows, Linear(), np.zeros((0, m), dtype=features.dtype), store=False, block_rows=block_rows)
        self.basis = np.zeros((m, 0))  # the vectors themselves are not known here, only how many they are
        self._values, self.stored = features, True
