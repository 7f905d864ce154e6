"""What every picture shares: Matplotlib imported late, colours that colour-blind readers tell apart, vectors' sides."""

from __future__ import annotations

from typing import Any

import numpy as np

Array = np.ndarray

#: the palette of Okabe and Ito, its yellow left out (too pale for lines) and its black put last
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
#: shapes that go with the colours, so that colour is never the only difference
MARKERS = ("o", "s", "^", "D", "v", "P", "X")


def pyplot() -> Any:
    """Matplotlib's pyplot, or an error that names the extra."""
    try:
        import matplotlib.pyplot as plt
    except ImportError as missing:
        raise ImportError('plots need matplotlib: install the extra with `pip install "kompakt[plot]"`.') from missing
    return plt


def axes_or_new(ax: Any, **figure_options: Any) -> Any:
    """The given Axes, or one of a new figure."""
    return pyplot().subplots(**figure_options)[1] if ax is None else ax


def colour(number: int) -> str:
    """Colour of a class, a family or a line; they repeat after seven."""
    return COLOURS[number % len(COLOURS)]


def marker(number: int) -> str:
    """Shape that goes with the colour; after seven the pairing is another one."""
    return MARKERS[(number + number // len(COLOURS)) % len(MARKERS)]


def sides_of(model: Any) -> tuple[Array, list[str]]:
    """Which class every basis vector speaks for, as numbers (m,), and the names of these numbers.

    Two classes (or one output): the sign of the weight.  More: the class whose score a vector raises most, found by
    giving the coding each vector's weights as if they were outputs.
    """
    weights = np.asarray(model.weights)
    if model.kind == "classifier" and model.classes is not None:
        names = [str(label) for label in model.classes]
        scores = model.scores(weights)
        return ((scores > 0).astype(np.intp) if scores.ndim == 1 else np.argmax(scores, axis=1)), names
    if weights.shape[1] == 1:
        return (weights[:, 0] > 0).astype(np.intp), ["negative weight", "positive weight"]
    return np.zeros(len(weights), dtype=np.intp), ["vectors"]


def image_shape_of(X: Any) -> tuple[int, int] | None:
    """Shape of square pictures if the rows look like them, else None.

    Rows look like pictures when the number of features is a square of at least 64 and neighbouring features, across
    and down, go together far more than features a random distance apart.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer, load_digits
    >>> from kompakt.plots._style import image_shape_of
    >>> image_shape_of(load_digits().data), image_shape_of(load_breast_cancer().data)
    ((8, 8), None)
    """
    X = X[:500]
    X = np.asarray(X.toarray() if hasattr(X, "toarray") else X, dtype=np.float64)
    if X.ndim != 2 or len(X) < 8 or X.shape[1] < 64:
        return None
    side = round(X.shape[1] ** 0.5)
    if side * side != X.shape[1]:
        return None
    centred = np.nan_to_num(X - np.nanmean(X, axis=0))
    centred /= np.maximum(np.linalg.norm(centred, axis=0), 1e-300)
    pixels = centred.reshape(len(X), side, side)
    across = float(np.mean(np.sum(pixels[:, :, 1:] * pixels[:, :, :-1], axis=0)))
    down = float(np.mean(np.sum(pixels[:, 1:] * pixels[:, :-1], axis=0)))
    order = np.random.default_rng(0).permutation(X.shape[1])
    anywhere = float(np.mean(np.abs(np.sum(centred * centred[:, order], axis=0))))
    return (side, side) if min(across, down) > max(0.15, 1.5 * anywhere) else None
