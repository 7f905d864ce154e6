"""How often a machine is nearly undecided (Barcenas, Gonzalez-Lima, Quiroz, eq. 17)."""

from __future__ import annotations

from typing import Any

import numpy as np


def indecision_probability(model: Any, X: Any, eps: Any) -> Any:
    """Share of the rows whose decision value is nearer to zero than eps (Barcenas et al., eq. 17).

    Parameters
    ----------
    model : fitted two-class machine
        Anything with `decision_function`.
    X : array-like or sparse matrix of shape (n_samples, n_features)
    eps : float or array-like
        Positive.

    Returns
    -------
    float, or ndarray of the shape of `eps`

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.svm import SVC
    >>> from kompakt import indecision_probability
    >>> X = np.array([[-2.0], [-1.0], [0.1], [1.0], [2.0]])
    >>> machine = SVC(kernel="linear", C=100.0).fit(X[[1, 3]], [0, 1])
    >>> indecision_probability(machine, X, 0.5)
    0.2
    """
    bounds = np.asarray(eps, dtype=np.float64)
    if not np.all(np.isfinite(bounds)) or np.any(bounds <= 0):
        raise ValueError(f"eps must be positive and finite; got {eps!r}.")
    values = np.asarray(model.decision_function(X))
    if values.ndim != 1:
        raise ValueError(
            f"the indecision probability is defined for two classes; the decision values have shape {values.shape}. "
            "Ask for each pair of classes on its own."
        )
    if not len(values):
        raise ValueError("X has no rows; expected at least one.")
    near = np.sort(np.abs(values))
    shares = np.searchsorted(near, bounds, side="left") / len(near)  # strictly below eps
    return float(shares) if np.ndim(shares) == 0 else shares
