"""The machine that `kompakt.to_numpy` writes into a file of its own; it needs NumPy and nothing else."""

from __future__ import annotations

import base64
import io
import sys
from typing import Any

import numpy as np

#: kind, kernel and such facts, and the arrays as text: `to_numpy` writes them here
_FACTS: dict[str, Any] = {}
_DATA = ""
_ARRAYS: dict[str, np.ndarray] = dict(np.load(io.BytesIO(base64.b64decode(_DATA)), allow_pickle=False)) if _DATA else {}


def _kernel(spec: dict[str, Any], X: np.ndarray, Z: np.ndarray) -> np.ndarray:
    """Kernel values (n, m) of rows X and basis vectors Z."""
    values: np.ndarray
    if spec["name"] in ("sum", "product"):
        values = _kernel(spec["parts"][0], X, Z)
        for part in spec["parts"][1:]:
            values = (np.add if spec["name"] == "sum" else np.multiply)(values, _kernel(part, X, Z))
    elif spec["name"] == "constant":
        values = np.full((len(X), len(Z)), spec["value"])
    elif spec["name"] == "rbf":
        gamma = np.broadcast_to(spec["gamma"], X.shape[1:])
        products, norms = (X * gamma) @ Z.T, ((X * X) @ gamma)[:, None]
        values = np.exp(-np.maximum(norms - 2.0 * products + (Z * Z) @ gamma, 0.0))
        values[np.isinf(norms[:, 0])] = 0.0  # too far for a square
    elif spec["name"] == "laplacian":
        lengths = np.zeros((len(X), len(Z)))
        for f in range(X.shape[1]):
            lengths += np.abs(X[:, f, None] - Z[:, f])
        values = np.exp(-spec["gamma"] * lengths)
    elif spec["name"] == "linear":
        values = X @ Z.T
    else:
        values = (spec["gamma"] * (X @ Z.T) + spec["coef0"]) ** spec["degree"]
    return values


def _bent(X: np.ndarray) -> np.ndarray:
    """Piecewise-linear transforms of the features, each with slopes between its knots."""
    bent, knots, slopes = np.empty_like(X), list(_ARRAYS["knots"]), list(_ARRAYS["slopes"])
    for f, pieces in enumerate(_ARRAYS["pieces"].tolist()):
        ends, knots = [*knots[: pieces - 1], np.inf], knots[pieces - 1 :]
        bent[:, f] = slopes[0] * np.minimum(X[:, f], ends[0])
        for k in range(1, pieces):
            bent[:, f] += slopes[k] * (np.clip(X[:, f], ends[k - 1], ends[k]) - ends[k - 1])
        slopes = slopes[pieces:]
    return bent


def _outputs(X: Any, weights: str = "weights", intercept: str = "intercept") -> np.ndarray:
    X, Z = np.asarray(X, dtype=np.float64), _ARRAYS["basis"]
    n_features = _ARRAYS.get("map", Z).shape[1]
    if X.ndim != 2 or X.shape[1] != n_features:
        raise ValueError(f"X must have shape (n, {n_features}); got {X.shape}.")
    _refuse(np.isinf(X) if "fill" in _ARRAYS else ~np.isfinite(X), "X contains NaN or infinity, first in row {}.")
    result = np.empty((len(X), len(_ARRAYS["intercept"])))
    size = max(1, min(4096, (1 << 22) // len(Z)))
    for start in range(0, len(X), size):  # little memory, whatever the number of rows
        rows = X[start : start + size]
        if "fill" in _ARRAYS:
            rows = np.where(np.isnan(rows), _ARRAYS["fill"], rows)
        with np.errstate(over="ignore", invalid="ignore"):  # looked for below
            rows = (rows - _ARRAYS.get("shift", 0.0)) / _ARRAYS.get("scale", 1.0)
            if "pieces" in _ARRAYS:
                rows = _bent(rows)
            if "map" in _ARRAYS:
                rows = rows @ _ARRAYS["map"].T
            values = _kernel(_FACTS["kernel"], rows, Z)
            result[start : start + size] = values @ _ARRAYS[weights] + _ARRAYS[intercept]
    _refuse(~np.isfinite(result), "the outputs of row {} are not finite: its numbers are too large for this kernel.")
    return result


def _refuse(wrong: np.ndarray, message: str) -> None:
    for row in np.flatnonzero(wrong.any(axis=1))[:1]:
        raise ValueError(message.format(row))


def decision_function(X: Any) -> np.ndarray:
    """Decision values: (n,) for two classes, outliers and one regression output, else a column for each.

    A row with NaN, unless the machine fills it, or infinity, or whose outputs overflow, is named by a ValueError.
    """
    scores = _outputs(X)
    if _FACTS["log"]:
        scores = np.exp(np.minimum(scores, 709.0))
    if "codes" in _ARRAYS:  # each output votes for some classes; margins, less than a third of a vote, break ties
        codes = _ARRAYS["codes"].T
        margins, votes = np.clip(scores, -1e300, 1e300) @ codes, np.where(scores > 0, 0.5, -0.5) @ codes
        scores = _FACTS["votes_base"] + votes + margins / (3.0 * (np.abs(margins) + 1.0))
    if _FACTS["ordered"]:  # quantiles, which do not cross
        scores = np.sort(scores, axis=1)
    return scores[:, 0] if _FACTS["flat"] else scores


def predict(X: Any) -> np.ndarray:
    """Labels of a classifier, values of a regressor, 1 for inliers and -1 for outliers."""
    scores = decision_function(X)
    if _FACTS["kind"] == "regressor":
        return scores
    if _FACTS["kind"] == "outlier":
        return np.where(scores >= 0, 1, -1)
    best = (scores > 0).astype(int) if scores.ndim == 1 else np.argmax(scores, axis=1)
    return np.asarray(_ARRAYS["classes"][best])


if {"slope", "calibration_t", "calibration_x"} & set(_ARRAYS):

    def predict_proba(X: Any) -> np.ndarray:
        """Class probabilities from the calibration of the machine, (n, n_classes)."""
        scores = decision_function(X).reshape(len(X), -1)
        if "calibration_t" in _ARRAYS:  # the softmax of scores by their temperature
            z = scores / _ARRAYS["calibration_t"]
            z = np.hstack([np.zeros_like(z), z]) if z.shape[1] == 1 else z
            powers = np.exp(z - z.max(axis=1, keepdims=True))
            return np.asarray(powers / powers.sum(axis=1, keepdims=True))
        if "calibration_x" in _ARRAYS:  # a line through points for every score
            places = _ARRAYS["calibration_ends"].astype(int)[:-1]
            lines = zip(*(np.split(_ARRAYS[f"calibration_{axis}"], places) for axis in "xy"))  # noqa: B905
            chances = np.column_stack([np.interp(column, x, y) for column, (x, y) in zip(scores.T, lines)])  # noqa: B905
        else:
            z = _ARRAYS["slope"] * scores + _ARRAYS["start"]
            chances = 0.5 * (1.0 + np.tanh(-0.5 * z))
        if scores.shape[1] == 1:
            return np.hstack([1.0 - chances, chances])
        total = chances.sum(axis=1, keepdims=True)
        return np.asarray(np.where(total > 0, chances / np.where(total > 0, total, 1.0), 1.0 / chances.shape[1]))


if "interval_reach" in _ARRAYS:

    def predict_interval(X: Any) -> np.ndarray:
        """Lower and upper bounds of every prediction, (n, 2), or (n, L, 2) of several outputs."""
        values, reach = _outputs(X), _ARRAYS["interval_reach"]
        if "interval_weights" in _ARRAYS:
            noise = _outputs(X, "interval_weights", "interval_intercept")
            reach = reach * np.maximum(noise, _ARRAYS["interval_floor"])
        bounds = np.stack([values - reach, values + reach], axis=-1)
        if _FACTS["log"]:
            bounds = np.exp(np.minimum(bounds, 700.0))
        return bounds[:, 0] if _FACTS["flat"] else bounds


if __name__ == "__main__":
    source = sys.argv[1] if len(sys.argv) > 1 else sys.stdin
    # an empty cell is missing; any other text that is no number is an error, such as a line of names
    settings: dict[str, Any] = {"converters": lambda cell: float(cell.strip() or "nan"), "encoding": "utf-8"}
    rows = np.loadtxt(source, delimiter=",", ndmin=2, comments=None, **settings)
    for value in predict(rows).tolist():
        print(value)
