"""Generated data sets for examples, demonstrations and tests: small, deterministic, no files."""

from __future__ import annotations

import numpy as np

__all__ = ["make_checkerboard", "make_ringnorm", "make_spirals"]


def make_checkerboard(
    n_samples: int = 1000, *, n_cells: int = 4, flip: float = 0.0, random_state: int = 0
) -> tuple[np.ndarray, np.ndarray]:
    """Return points of the unit square labelled as on a checkerboard.

    Parameters
    ----------
    n_samples : int
        Number of rows.
    n_cells : int
        Cells along each side.
    flip : float
        Probability that a label is turned round, row by row; no classifier has a smaller error.
    random_state : int
        Seed; the same seed gives the same rows.

    Returns
    -------
    X : ndarray of shape (n_samples, 2)
        Uniform on [0, 1) x [0, 1).
    y : ndarray of shape (n_samples,)
        Labels -1 and +1.

    Examples
    --------
    >>> from kompakt.datasets import make_checkerboard
    >>> X, y = make_checkerboard(500, n_cells=2)
    >>> bool((y == 1 - 2 * ((X[:, 0] < 0.5) != (X[:, 1] < 0.5))).all())
    True
    """
    _check_positive("n_samples", n_samples)
    _check_positive("n_cells", n_cells)
    if not 0.0 <= flip <= 0.5:
        raise ValueError(f"flip must lie between 0 and 0.5 (the share of wrong labels), got {flip!r}.")
    rng = np.random.default_rng(random_state)
    X = rng.random((n_samples, 2))
    y = np.where(np.floor(n_cells * X).sum(axis=1) % 2 == 0, 1, -1)
    return X, np.where(rng.random(n_samples) < flip, -y, y)


def make_spirals(
    n_samples: int = 1000, *, turns: float = 1.5, noise: float = 0.05, random_state: int = 0
) -> tuple[np.ndarray, np.ndarray]:
    """Return two spirals wound into each other, one per class.

    Parameters
    ----------
    n_samples : int
        Number of rows; the classes differ by at most one.
    turns : float
        Revolutions of each spiral.
    noise : float
        Standard deviation of the Gaussian noise on both coordinates; the outer radius is 1.
    random_state : int
        Seed; the same seed gives the same rows.

    Returns
    -------
    X : ndarray of shape (n_samples, 2)
        The points, in random order.
    y : ndarray of shape (n_samples,)
        Labels -1 and +1.

    Examples
    --------
    >>> from kompakt.datasets import make_spirals
    >>> X, y = make_spirals(501, noise=0.0)
    >>> X.shape, int(y.sum())
    ((501, 2), 1)
    """
    _check_positive("n_samples", n_samples)
    rng = np.random.default_rng(random_state)
    y = rng.permutation(np.where(np.arange(n_samples) % 2 == 0, 1, -1))
    # Equal density along the curve: the length of an Archimedean spiral grows with the square of its radius.
    radius = np.sqrt(rng.uniform(0.02, 1.0, n_samples))
    angle = 2 * np.pi * turns * radius + np.where(y == 1, 0.0, np.pi)
    X = radius[:, None] * np.column_stack([np.cos(angle), np.sin(angle)])
    return X + noise * rng.standard_normal(X.shape), y


def make_ringnorm(
    n_samples: int = 1000, *, n_features: int = 20, random_state: int = 0
) -> tuple[np.ndarray, np.ndarray]:
    """Return Breiman's ringnorm: one normal cloud lying inside a wider one.

    Class +1 is normal with mean 0 and variance 4 in every feature; class -1 is normal with mean
    ``2 / sqrt(n_features)`` in every feature and variance 1. The best boundary is a sphere. With 20 features
    the best possible error is 1.24 %, and a linear classifier's about 24 %.

    Parameters
    ----------
    n_samples : int
        Number of rows; each class has probability one half.
    n_features : int
        Number of features.
    random_state : int
        Seed; the same seed gives the same rows.

    Returns
    -------
    X : ndarray of shape (n_samples, n_features)
        The rows.
    y : ndarray of shape (n_samples,)
        Labels -1 and +1.

    References
    ----------
    L. Breiman, Bias, variance, and arcing classifiers, technical report 460, University of California,
    Berkeley, 1996.

    Examples
    --------
    >>> from kompakt.datasets import make_ringnorm
    >>> X, y = make_ringnorm(2000)
    >>> bool(X[y == 1].std() > 1.8), bool(X[y == -1].std() < 1.2)
    (True, True)
    """
    _check_positive("n_samples", n_samples)
    _check_positive("n_features", n_features)
    rng = np.random.default_rng(random_state)
    y = rng.choice(np.array([-1, 1]), n_samples)
    X = rng.standard_normal((n_samples, n_features))
    wide = (y == 1)[:, None]
    return np.where(wide, 2.0 * X, X + 2.0 / np.sqrt(n_features)), y


def _check_positive(name: str, value: int) -> None:
    if value < 1:
        raise ValueError(f"{name} must be a positive integer, got {value!r}.")
