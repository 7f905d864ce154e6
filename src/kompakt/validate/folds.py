"""Fold numbers for any data, however rare its classes."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils import check_random_state

__all__ = ["shuffled_folds"]


def shuffled_folds(
    n_rows: int, n_folds: int, *, labels: ArrayLike | None = None, random_state: Any = None
) -> NDArray[np.intp]:
    """Random fold of each row; with labels every class is spread as evenly as its rows allow.

    Unlike a stratified splitter it accepts classes of fewer rows than folds: these are then missing from some.

    Parameters
    ----------
    n_rows, n_folds : int
        At most as many folds as rows are used.
    labels : array of shape (n_rows,), optional
        Classes.
    random_state : int, RandomState or None
        Seed.

    Returns
    -------
    ndarray of shape (n_rows,)
        Fold numbers, as `cross_validated_residuals` wants them; sizes differ by at most one.

    Examples
    --------
    >>> import numpy as np
    >>> from kompakt.validate import shuffled_folds
    >>> fold = shuffled_folds(12, 3, labels=np.repeat([0, 1], 6), random_state=0)
    >>> np.bincount(fold[:6]).tolist(), np.bincount(fold).tolist()
    ([2, 2, 2], [4, 4, 4])
    """
    if n_folds < 2 or n_rows < 2:
        raise ValueError(f"cross-validation needs at least 2 folds and 2 rows; got {n_folds} folds, {n_rows} rows.")
    shuffled = check_random_state(random_state).permutation(n_rows)
    if labels is not None:
        shuffled = shuffled[np.argsort(np.asarray(labels)[shuffled], kind="stable")]
    fold = np.empty(n_rows, dtype=np.intp)
    fold[shuffled] = np.arange(n_rows) % min(n_folds, n_rows)
    return fold
