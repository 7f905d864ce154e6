"""Measurements along the path of sizes: errors, confusion or residuals, prediction time; and calibration."""

from __future__ import annotations

import time
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from kompakt.model import Model
from kompakt.reporting.nested import NestedPath
from kompakt.reporting.subject import Sample

Array = np.ndarray

#: rows whose outputs of all sizes are held at once, rows of a timed batch, points of a scatter
_CHUNK_VALUES, _BATCH, _POINTS = 8_000_000, 2048, 400


@dataclass(frozen=True)
class Measured:
    """What was seen at every size S; the last is the given machine."""

    sizes: list[int]
    errors: Array  # (S,) share of wrong labels, or root mean squared error
    seconds: Array  # (S,) per row
    n_bytes: Array  # (S,)
    confusion: Array | None = None  # (S, K, K) true by predicted
    absolute: Array | None = None  # (S,) mean absolute error
    r2: Array | None = None  # (S,)
    drawn: Array | None = None  # numbers of the rows in the residual plot
    predictions: Array | None = None  # (S, len(drawn)) of the first output
    baseline: float = float("nan")  # error of the best constant answer
    outputs: Array = field(default_factory=lambda: np.zeros((0, 0)))  # (n, L) of the given machine


def measure(path: NestedPath, sample: Sample) -> Measured:
    """Run all sizes over the rows in one pass of kernel values."""
    model, S = path.models[-1], len(path.models)
    stacked = _stacked(path)
    L, n = model.weights.shape[1], sample.n_rows
    chunk = max(1024, _CHUNK_VALUES // (S * L))
    outputs = np.empty((n, L))
    tally = _Labels(sample, S) if sample.classes else _Values(sample, S)
    for start in range(0, n, chunk):
        rows = slice(start, min(start + chunk, n))
        X = sample.X[rows]
        outputs[rows] = model.outputs(X)
        smaller = stacked.outputs(X) if stacked is not None else np.zeros((len(outputs[rows]), 0))
        for s in range(S):
            F = outputs[rows] if s == S - 1 else smaller[:, s * L : (s + 1) * L]
            tally.add(s, model, F, rows)
    times = np.array([seconds_per_row(one, sample.X[:_BATCH]) for one in path.models])
    n_bytes = np.array([8.0 * (one.basis.size + one.weights.size + one.intercept.size) for one in path.models])
    return tally.result(
        Measured(path.sizes, np.zeros(S), times, n_bytes, outputs=outputs),
    )


def _stacked(path: NestedPath) -> Model | None:
    """All smaller machines as one with many outputs, on the vectors that any of them uses."""
    smaller, model = path.models[:-1], path.models[-1]
    if not smaller:
        return None
    widest, L = smaller[-1], model.weights.shape[1]
    weights = np.zeros((widest.n_basis_, len(smaller) * L))
    for s, one in enumerate(smaller):
        weights[: one.n_basis_, s * L : (s + 1) * L] = one.weights
    intercept = np.concatenate([one.intercept for one in smaller])
    return replace(
        widest, weights=weights, intercept=intercept, kind="regressor", classes=None, coding=None, squeeze=False
    )


def seconds_per_row(model: Model, X: Any) -> float:
    """The shortest of a few runs over one batch."""
    best, began, runs = np.inf, time.perf_counter(), 0
    while runs < 3 or (runs < 9 and time.perf_counter() - began < 0.03):
        start = time.perf_counter()
        model.decision_function(X)
        best = min(best, time.perf_counter() - start)
        runs += 1
    return float(best) / X.shape[0]


class _Labels:
    """Counts of true by predicted labels."""

    def __init__(self, sample: Sample, n_sizes: int) -> None:
        K = len(sample.classes)
        self.y, self.counts = sample.y, np.zeros((n_sizes, K, K), dtype=np.int64)

    def add(self, s: int, model: Model, F: Array, rows: slice) -> None:
        K = self.counts.shape[1]
        guess = predicted_numbers(model, model.scores(F))
        self.counts[s] += np.bincount(self.y[rows] * K + guess, minlength=K * K).reshape(K, K)

    def result(self, so_far: Measured) -> Measured:
        n = len(self.y)
        errors = 1.0 - np.einsum("skk->s", self.counts) / n
        baseline = 1.0 - np.bincount(self.y).max() / n
        return replace(so_far, errors=errors, confusion=self.counts, baseline=float(baseline))


def predicted_numbers(model: Model, scores: Array) -> Array:
    """Class numbers from decision values."""
    if model.kind == "outlier":
        return (scores >= 0).astype(np.intp)
    return (scores > 0).astype(np.intp) if scores.ndim == 1 else np.argmax(scores, axis=1)


class _Values:
    """Sums of errors of a regressor, and predictions of the rows that are drawn."""

    def __init__(self, sample: Sample, n_sizes: int) -> None:
        self.y = sample.y
        n = len(self.y)
        self.drawn = np.sort(np.random.default_rng(0).choice(n, min(n, _POINTS), replace=False))
        self.squares, self.absolutes = np.zeros((2, n_sizes, self.y.shape[1]))
        self.predictions = np.zeros((n_sizes, len(self.drawn)))

    def add(self, s: int, model: Model, F: Array, rows: slice) -> None:
        difference = F - self.y[rows]
        self.squares[s] += np.sum(difference**2, axis=0)
        self.absolutes[s] += np.sum(np.abs(difference), axis=0)
        here = (self.drawn >= rows.start) & (self.drawn < rows.stop)
        self.predictions[s, here] = F[self.drawn[here] - rows.start, 0]

    def result(self, so_far: Measured) -> Measured:
        n = len(self.y)
        spread = np.sum((self.y - self.y.mean(axis=0)) ** 2, axis=0)
        share = self.squares / np.where(spread > 0, spread, 1.0)
        r2 = np.mean(np.where(spread > 0, 1.0 - share, np.where(self.squares > 0, 0.0, 1.0)), axis=1)
        return replace(
            so_far,
            errors=np.sqrt(np.mean(self.squares, axis=1) / n),
            absolute=np.mean(self.absolutes, axis=1) / n,
            r2=r2,
            drawn=self.drawn,
            predictions=self.predictions,
            baseline=float(np.sqrt(np.mean(spread) / n)),
        )


# -- calibration ---------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Reliability:
    """Bins of equal numbers of rows: what was said (x), what came (y), and a 95 % interval of it."""

    kind: str  # "probability", "score" or "value"
    said: Array
    came: Array
    low: Array
    high: Array
    brier: float | None = None
    gap: float | None = None  # mean distance between said and came, weighted by rows


def reliability(model: Model, sample: Sample, outputs: Array, n_bins: int = 10) -> Reliability:
    """How far the machine's own confidence can be trusted.

    Two classes: the probability (or decision value) of the second class against how often it is right.  More: the
    confidence in the predicted class (or its lead over the next one) against how often it is right.  Regression: mean
    prediction against mean target.
    """
    if not sample.classes:
        said, came = outputs[:, 0], sample.y[:, 0]
        bins = _bins(said, n_bins)
        means = np.array([[said[b].mean(), came[b].mean(), came[b].std() / np.sqrt(len(b))] for b in bins])
        x, y, se = means.T
        return Reliability("value", x, y, y - 1.96 * se, y + 1.96 * se)
    scores = model.scores(outputs)
    guess = predicted_numbers(model, scores)
    calibrated = model.calibration is not None
    brier = None
    if calibrated:
        probabilities = model.probabilities(scores)
        truth = np.zeros((len(guess), max(len(sample.classes), probabilities.shape[1])))
        truth[np.arange(len(guess)), sample.y] = 1.0
        brier = float(np.mean(np.sum((truth[:, : probabilities.shape[1]] - probabilities) ** 2, axis=1)))
        brier *= 0.5 if scores.ndim == 1 else 1.0  # of two classes one is counted, as is usual
        said = probabilities[:, 1] if scores.ndim == 1 else probabilities.max(axis=1)
    elif scores.ndim == 1:
        said = scores
    else:
        top = np.partition(scores, -2, axis=1)
        said = top[:, -1] - top[:, -2]
    came = sample.y == 1 if scores.ndim == 1 else guess == sample.y
    bins = _bins(said, n_bins)
    x, share = (np.array([values[b].mean() for b in bins]) for values in (said, came))
    low, high = wilson(share, np.array([len(b) for b in bins]))
    weights = np.array([len(b) for b in bins]) / len(said)
    gap = float(np.sum(weights * np.abs(share - x))) if calibrated else None
    return Reliability("probability" if calibrated else "score", x, share, low, high, brier, gap)


def _bins(values: Array, n_bins: int) -> list[Array]:
    """Rows in bins of equal size; equal values stay together."""
    edges = np.unique(np.quantile(values, np.linspace(0, 1, n_bins + 1)[1:-1]))
    numbers = np.searchsorted(edges, values, side="right")
    return [np.flatnonzero(numbers == b) for b in np.unique(numbers)]


def wilson(share: Any, n: Any) -> tuple[Any, Any]:
    """Wilson's 95 % interval of a share seen in n rows.

    Examples
    --------
    >>> from kompakt.reporting.measure import wilson
    >>> low, high = wilson(0.0, 100)
    >>> bool(abs(low) < 1e-12), round(float(high), 4)
    (True, 0.037)
    """
    z2 = 1.959964**2
    middle = (share + z2 / (2 * n)) / (1 + z2 / n)
    half = np.sqrt(z2 * (share * (1 - share) / n + z2 / (4 * n**2))) / (1 + z2 / n)
    return middle - half, middle + half
