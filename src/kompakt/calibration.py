"""From decision values to probabilities: sigmoids, isotonic curves, a temperature.

A calibration is a dict of arrays, which files and exports keep as they are; its keys tell the method.

========== ============================= =====================================================================
sigmoid    ``a``, ``b`` (k,)             1 / (1 + exp(a f + b)) of every score (Platt 1999)
isotonic   ``x``, ``y``, ``ends`` (k,)   of every score the line through the points (x, y) up to its end (Zadrozny and
                                         Elkan 2002)
temperature ``t`` (1,)                   the softmax of f / t (Guo et al. 2017)
========== ============================= =====================================================================

With two classes there is one score, that of the second class; with more, sigmoids and curves are divided by their sum.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

Array = np.ndarray
Calibration = dict[str, Array]

METHODS = {"sigmoid": {"a", "b"}, "isotonic": {"x", "y", "ends"}, "temperature": {"t"}}
#: points of a curve that are nearer than this share of their range are one
_NEAR = 1e-6


def method_of(calibration: Calibration) -> str:
    """The name of the method; a ValueError for a dict that is none.

    Examples
    --------
    >>> import numpy as np
    >>> from kompakt.calibration import method_of
    >>> method_of({"t": np.array([1.5])})
    'temperature'
    """
    for name, keys in METHODS.items():
        if set(calibration) == keys:
            return name
    raise ValueError(f"a calibration holds the arrays of one of {METHODS}; got {sorted(calibration)}.")


def check_calibration(calibration: Calibration, n_scores: int) -> None:
    """Refuse arrays that are no calibration of so many scores."""
    name, arrays = method_of(calibration), {key: np.asarray(values) for key, values in calibration.items()}
    sound = all(values.ndim == 1 and bool(np.isfinite(values).all()) for values in arrays.values())
    if sound and name == "sigmoid":
        sound = arrays["a"].shape == arrays["b"].shape == (n_scores,)
    elif sound and name == "temperature":
        sound = arrays["t"].shape == (1,) and bool(arrays["t"][0] > 0)
    elif sound:
        starts, ends = np.concatenate([[0.0], arrays["ends"]]), arrays["ends"]
        sound = ends.shape == (n_scores,) and arrays["x"].shape == arrays["y"].shape == (int(ends[-1]),)
        sound = sound and bool(np.all(ends == np.floor(ends)) and np.all(np.diff(starts) >= 1))
        sound = sound and all(
            np.all(np.diff(x) > 0) and np.all(np.diff(y) >= 0) for x, y in curves_of(calibration)
        ) and bool(np.all((arrays["y"] > 0) & (arrays["y"] < 1)))
    if not sound:
        raise ValueError(f"the arrays of the calibration ({name}) are not those of {n_scores} scores.")


def curves_of(calibration: Calibration) -> list[tuple[Array, Array]]:
    """The points (x, y) of every curve of an isotonic calibration."""
    places = np.asarray(calibration["ends"], dtype=np.intp)[:-1]
    return list(zip(np.split(calibration["x"], places), np.split(calibration["y"], places), strict=True))


def probabilities(calibration: Calibration, scores: Array) -> Array:
    """Class probabilities (n, n_classes) of decision values (n,) or (n, n_classes).

    Examples
    --------
    >>> import numpy as np
    >>> from kompakt.calibration import probabilities
    >>> probabilities({"t": np.array([1.0])}, np.array([0.0])).tolist()
    [[0.5, 0.5]]
    """
    columns, method = _columns(scores), method_of(calibration)
    if method == "temperature":
        return np.asarray(np.exp(log_probabilities(calibration, scores)))
    if method == "sigmoid":
        chances = _sigmoid(calibration["a"] * columns + calibration["b"])
    else:
        curves = curves_of(calibration)
        chances = np.column_stack([np.interp(column, *curve) for column, curve in zip(columns.T, curves, strict=True)])
    if scores.ndim == 1:
        return np.hstack([1.0 - chances, chances])
    total = chances.sum(axis=1, keepdims=True)
    return np.where(total > 0, chances / np.where(total > 0, total, 1.0), 1.0 / chances.shape[1])


def log_probabilities(calibration: Calibration, scores: Array) -> Array:
    """Their logarithms, finite where a probability rounds to zero."""
    columns, method = _columns(scores), method_of(calibration)
    if method == "isotonic":  # no curve reaches zero
        return np.asarray(np.log(probabilities(calibration, scores)))
    if method == "temperature":
        z = columns / calibration["t"][0]
        logs = -np.logaddexp(0.0, np.hstack([z, -z])) if scores.ndim == 1 else z
        return np.asarray(logs if scores.ndim == 1 else logs - np.logaddexp.reduce(logs, axis=1, keepdims=True))
    z = calibration["a"] * columns + calibration["b"]
    logs = -np.logaddexp(0.0, np.hstack([-z, z]) if scores.ndim == 1 else z)
    if scores.ndim > 1:
        logs -= np.logaddexp.reduce(logs, axis=1, keepdims=True)
    # where all sigmoids vanish, the probabilities are equal by convention
    equal = np.ptp(probabilities(calibration, scores), axis=1, keepdims=True) == 0
    return np.asarray(np.where(equal, -np.log(logs.shape[1]), logs))


def score_of(calibration: Calibration, probability: float) -> float:
    """The decision value of two classes at which the second class has this probability."""
    method = method_of(calibration)
    odds = np.log(probability) - np.log1p(-probability)
    if method == "temperature":
        return float(calibration["t"][0] * odds)
    if method == "sigmoid":
        return float(-(odds + calibration["b"][0]) / calibration["a"][0])
    x, y = curves_of(calibration)[0]
    right = int(np.searchsorted(y, probability))  # the first point that is high enough
    if right in (0, len(y)):
        return float(x[min(right, len(y) - 1)])
    share = (probability - y[right - 1]) / (y[right] - y[right - 1])
    return float(x[right - 1] + share * (x[right] - x[right - 1]))


def moved(calibration: Calibration, shift: float) -> Calibration:
    """The calibration of two classes for decision values that were lowered by `shift`."""
    method = method_of(calibration)
    if method == "sigmoid":
        return {"a": calibration["a"], "b": calibration["b"] + calibration["a"] * shift}
    if method == "isotonic":
        return {**calibration, "x": calibration["x"] - shift}
    slope = -1.0 / calibration["t"]
    return {"a": slope, "b": slope * shift}


def fit(method: str, scores: Array, labels: Array, weights: Array | None = None) -> Calibration:
    """The calibration of decision values, (n,) or (n, n_classes), with class numbers (n,).

    Examples
    --------
    >>> import numpy as np
    >>> from kompakt.calibration import fit
    >>> calibration = fit("sigmoid", np.array([-1.0, 1.0, -1.0, 1.0]), np.array([0, 1, 1, 0]))
    >>> [abs(round(float(calibration[key][0]), 6)) for key in "ab"]
    [0.0, 0.0]
    """
    columns = _columns(scores)
    weights = np.ones(len(scores)) if weights is None else weights
    if method == "temperature":
        return _temperature(scores, labels, weights)
    fit_column: Callable[..., Any] = _sigmoid_of if method == "sigmoid" else _curve_of
    parts = []
    for number, column in enumerate(columns.T):
        positive = labels == (1 if scores.ndim == 1 else number)
        if positive.all() or not positive.any():
            raise ValueError("calibrate needs held-out rows of every class; give more rows per class.")
        parts.append(fit_column(column, positive, weights))
    if method == "sigmoid":
        a, b = np.array(parts).T
        return {"a": a, "b": b}
    ends = np.cumsum([len(x) for x, _ in parts]).astype(np.float64)
    return {"x": np.concatenate([x for x, _ in parts]), "y": np.concatenate([y for _, y in parts]), "ends": ends}


def _columns(scores: Array) -> Array:
    return scores[:, None] if scores.ndim == 1 else scores


def _sigmoid(z: Array) -> Array:
    return np.asarray(0.5 * (1.0 + np.tanh(-0.5 * z)))  # 1 / (1 + exp(z)) without overflow


def _sigmoid_of(scores: Array, positive: Array, weights: Array) -> tuple[float, float]:
    from sklearn.linear_model import LogisticRegression

    fitted = LogisticRegression(C=1e6).fit(scores[:, None], positive, sample_weight=weights)
    return -float(fitted.coef_[0, 0]), -float(fitted.intercept_[0])


def _curve_of(scores: Array, positive: Array, weights: Array) -> tuple[Array, Array]:
    """Points of a line that rises; probabilities stay off 0 and 1 by what so many rows can tell (Laplace's rule)."""
    from sklearn.isotonic import IsotonicRegression

    fitted = IsotonicRegression(out_of_bounds="clip").fit(scores, positive.astype(np.float64), sample_weight=weights)
    x, y = np.asarray(fitted.X_thresholds_, dtype=np.float64), np.asarray(fitted.y_thresholds_, dtype=np.float64)
    least = 1.0 / (float(weights.sum()) + 2.0)
    apart = np.concatenate([[True], np.diff(x) > _NEAR * max(float(np.ptp(x)), 1e-300)])
    return x[apart], np.clip(y[apart], least, 1.0 - least)


def _temperature(scores: Array, labels: Array, weights: Array) -> Calibration:
    from scipy.optimize import minimize_scalar

    size = max(float(np.abs(scores).mean()), 1e-300)

    def loss(log_t: float) -> float:
        logs = log_probabilities({"t": np.array([size * np.exp(log_t)])}, scores)
        return -float(np.average(logs[np.arange(len(labels)), labels], weights=weights))

    best = minimize_scalar(loss, bounds=(-8.0, 5.0), method="bounded", options={"xatol": 1e-6})
    return {"t": np.array([size * float(np.exp(best.x))])}
