"""What a report measures: the model behind whatever was given, smaller models inside it, errors, times, calibration."""

from __future__ import annotations

import timeit
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np
from scipy import sparse
from scipy.linalg import lstsq
from sklearn.utils import check_array
from sklearn.utils.validation import check_is_fitted

from kompakt.basis.gram import forward_select
from kompakt.basis.path import sizes_up_to
from kompakt.data import ArrayRows, RowBlock
from kompakt.design import Design
from kompakt.estimators.compression import as_model
from kompakt.model import Model
from kompakt.reporting.text import printable

Array = np.ndarray

#: the largest smaller model, the most vectors looked at, and the most kernel values in the matching
_LARGEST, _MOST_CANDIDATES, _MOST_VALUES = 512, 2000, 20_000_000
#: rows that means and variances of the features are taken from
MOMENT_ROWS = 5000
#: outputs of all sizes in memory at once, rows of a timed batch, points of a scatter
_CHUNK_VALUES, _BATCH, _POINTS = 8_000_000, 2048, 400


# -- the model and the rows ----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Subject:
    """The model, the estimator that trained it (None for a bare `Model`), and what was done to reach it."""

    model: Model
    estimator: Any
    name: str
    notes: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Sample:
    """Rows and targets that everything is measured on."""

    X: Any  # dense or CSR
    y: Array  # class numbers (n,), or values (n, L)
    n_given: int
    classes: list[str]  # names of the class numbers; empty for regression
    counts: Array  # rows of each class, among all given
    feature_names: list[str]
    notes: list[str]

    @property
    def n_rows(self) -> int:
        return int(self.X.shape[0])


def subject_of(given: Any, X: Any) -> tuple[Subject, Any]:
    """The model to report on, and X as that model wants it.

    A pipeline whose steps can be put into a model (scalers) is one model; otherwise its last step is reported on the
    rows that the steps before it make.
    """
    if isinstance(given, Model):
        source = given.meta.get("estimator") or given.meta.get("source")
        return Subject(given, None, str(source) if source else f"kompakt {given.kind}"), X
    if hasattr(given, "fit") and not isinstance(given, type):
        check_is_fitted(given)
    inner = getattr(given, "best_estimator_", given)
    if not hasattr(inner, "steps"):
        return Subject(as_model(inner), inner, type(inner).__name__), X
    last = inner.steps[-1][1]
    last = getattr(last, "best_estimator_", last)
    try:
        return Subject(as_model(inner), last, type(last).__name__), X
    except TypeError:
        model = as_model(last)
        steps = " → ".join(type(step).__name__ for _, step in inner.steps[:-1])
        note = f"The machine is the last step of a pipeline; features are what {steps} makes of the given columns."
        name = f"{type(given).__name__} with {type(last).__name__}"
        return Subject(model, last, name, [note]), inner[:-1].transform(X)


def sample_of(subject: Subject, X: Any, y: Any, max_rows: int, seed: int) -> Sample:
    """Check the rows and targets, and take at most `max_rows` of them at random."""
    model = subject.model
    names = [f"feature {number}" for number in range(model.n_features)]
    known = model.feature_names, getattr(subject.estimator, "feature_names_in_", None), getattr(X, "columns", None)
    for given in known:
        if given is not None and len(given) == model.n_features:
            names = [printable(name) for name in given]
            break
    finite: Any = True if model.input_fill is None else "allow-nan"
    X = check_array(X, accept_sparse="csr", dtype=[np.float64, np.float32], ensure_all_finite=finite)
    if X.shape[1] != model.n_features:
        raise ValueError(f"X has {X.shape[1]} features, but the machine expects {model.n_features}.")
    y = np.asarray(y)
    if len(y) != X.shape[0]:
        raise ValueError(f"X has {X.shape[0]} rows and y {len(y)}; expected one target per row.")
    notes: list[str] = []
    classes: list[str] = []
    if model.kind == "regressor":
        y = np.asarray(y, dtype=np.float64).reshape(len(y), -1)
        if y.shape[1] != model.weights.shape[1]:
            raise ValueError(f"y has {y.shape[1]} outputs, but the machine has {model.weights.shape[1]}.")
        if not np.isfinite(y).all():
            raise ValueError("y holds NaN or infinite values; drop those rows.")
        counts = np.zeros(0, dtype=np.intp)
    else:
        y, classes = _class_numbers(model, y, notes)
        counts = np.bincount(y, minlength=len(classes))
    n = X.shape[0]
    if n > max_rows:
        kept = np.sort(np.random.default_rng(seed).choice(n, max_rows, replace=False))
        X, y = X[kept], y[kept]
        notes.append(f"Measured on {max_rows:,} of the {n:,} given rows, drawn at random.")
    return Sample(X, y, n, classes, counts, names, notes)


def _class_numbers(model: Model, y: Array, notes: list[str]) -> tuple[Array, list[str]]:
    """Class numbers of the labels; labels that the model does not know get numbers after its own."""
    known = np.array([-1, 1]) if model.classes is None else model.classes
    if y.ndim != 1:
        raise ValueError(f"y must have one label per row; got shape {y.shape}.")
    if y.dtype.kind != known.dtype.kind:  # as when a file gave text and the model was trained on numbers
        try:
            y = y.astype(str if known.dtype.kind in "UO" else known.dtype)
        except (TypeError, ValueError) as error:
            raise ValueError(
                f"labels of type {y.dtype} cannot be compared with the machine's ({known.dtype}): {known[:5].tolist()}."
            ) from error
    own = {label: number for number, label in enumerate(known.tolist())}
    labels, inverse = np.unique(y, return_inverse=True)
    strangers = [label for label in labels.tolist() if label not in own]
    if len(strangers) == len(labels):
        raise ValueError(
            f"no label in y is known to the machine: y has {strangers[:5]}, the machine {known[:5].tolist()}."
        )
    if strangers:
        notes.append(f"{len(strangers)} label(s) in y are unknown to the machine; their rows count as errors.")
    numbers = own | {label: len(own) + i for i, label in enumerate(strangers)}
    return np.array([numbers[label] for label in labels.tolist()])[inverse.ravel()], [
        printable(name) for name in numbers
    ]


def moments_of(X: Any) -> tuple[Array, Array]:
    """Mean and variance of every column over its known values; zeros for a column without any."""
    if sparse.issparse(X):
        mean = np.asarray(X.mean(axis=0)).ravel()
        return mean, np.maximum(0.0, np.asarray(X.multiply(X).mean(axis=0)).ravel() - mean**2)
    known = np.isfinite(X)
    count = np.maximum(1, known.sum(axis=0))
    mean = np.where(known, X, 0.0).sum(axis=0) / count
    return mean, np.sum(np.where(known, X - mean, 0.0) ** 2, axis=0) / count


def spread_of(sample: Sample) -> Array:
    """Standard deviation of every feature, in the units of the input."""
    return np.asarray(np.sqrt(moments_of(sample.X[:MOMENT_ROWS])[1]))


def relevance_of(model: Model, gamma: Any, sample: Sample) -> Array:
    """Share of a feature in the kernel's distance: its gamma times its variance, both in the units of the kernel."""
    return np.asarray(np.abs(gamma) * _variance_seen(model, sample))


def _variance_seen(model: Model, sample: Sample) -> Array:
    """Variance of every feature as the model scales it, before it maps the features."""
    # without the shift, which changes no variance and would make sparse rows dense
    unmapped = replace(model, input_shift=None, input_map=None, basis=np.zeros((model.n_basis_, model.n_features)))
    return moments_of(unmapped._transformed(sample.X[:MOMENT_ROWS]))[1]


def directions_of(model: Model, sample: Sample, most: int = 3) -> list[tuple[float, Array]]:
    """The combinations of standardised features that the map of a model weighs most: share, and loadings (d,).

    They are the leading eigenvectors of A'A, where A maps features in units of their deviation; shares are of the sum
    of all eigenvalues.  Of the two signs the one that makes the largest loading positive is given.
    """
    if model.input_map is None:
        return []
    _, singular, loadings = np.linalg.svd(model.input_map * np.sqrt(_variance_seen(model, sample)), full_matrices=False)
    shares = singular**2 / max(float(np.sum(singular**2)), 1e-300)
    signs = np.sign(loadings[np.arange(len(loadings)), np.argmax(np.abs(loadings), axis=1)])
    return [(float(shares[i]), signs[i] * loadings[i]) for i in range(min(most, len(shares)))]


def features_by_relevance(model: Model, sample: Sample) -> Array:
    """Features in the order of what they do for the kernel, or for the vectors where all widths are one."""
    gamma = model.widths
    if np.ndim(gamma):
        return np.argsort(-relevance_of(model, gamma, sample), kind="stable")
    vectors, spread = model.basis_vectors_, spread_of(sample)
    if vectors is None or len(vectors) < 2:
        return np.arange(model.n_features)
    relative = np.divide(np.std(vectors, axis=0), spread, out=np.zeros(len(spread)), where=spread > 0)
    return np.argsort(-relative, kind="stable")


def seems_trained_on(subject: Subject, X: Any) -> bool:
    """Whether the basis rows are found in X where the fit took them: then X holds the training rows."""
    indices = getattr(subject.estimator, "basis_indices_", None)
    vectors = getattr(subject.estimator, "basis_vectors_", None)
    if indices is None or vectors is None or not len(indices) or max(indices) >= X.shape[0]:
        return False
    rows = X[indices]
    rows = rows.toarray() if sparse.issparse(rows) else np.asarray(rows)
    return rows.shape == vectors.shape and bool(np.array_equal(rows, vectors))


# -- smaller models inside the given one -----------------------------------------------------------------------


def nested_models(model: Model, X: Any) -> tuple[list[Model], Array, int]:
    """Smaller models inside `model`: its outputs on rows X, matched by the first k of its own vectors.

    Returns the models (the last is `model`), all vectors in the order in which they enter, and the number of rows that
    were matched on.

    Nothing is known of how the model was trained, and no label is used: the outputs f(X) are matched by least squares,
    and the order of the vectors is the greedy one of that problem (`forward_select` with A = K'K and r = K'f).  So
    errors of the smaller models are as honest as those of the whole one.

    Examples
    --------
    >>> from sklearn.datasets import make_moons
    >>> from kompakt import CompactSVC
    >>> from kompakt.reporting.measure import nested_models
    >>> X, y = make_moons(300, noise=0.2, random_state=0)
    >>> models, _, _ = nested_models(CompactSVC(20, random_state=0).fit(X, y).model_, X)
    >>> [model.n_basis_ for model in models]
    [1, 2, 3, 5, 8, 13, 20]
    """
    m = model.n_basis_
    strongest = np.argsort(-np.linalg.norm(model.weights, axis=1), kind="stable")
    wanted = sorted({size for size in [1, 2, 3, *sizes_up_to(min(_LARGEST, m)).tolist()] if size < m})
    if not wanted:
        return [model], strongest, 0
    candidates = np.sort(strongest[:_MOST_CANDIDATES])
    n_rows = min(X.shape[0], max(2 * len(candidates), _MOST_VALUES // len(candidates)))
    F = model.outputs(X[:n_rows])
    rows = ArrayRows(model._transformed(X[:n_rows]), offset=model.offset)
    basis = model.basis[candidates]
    design = Design(rows, model.kernel, basis if rows.offset is None else basis - rows.offset, store=False)

    def sums(K: Array, block: RowBlock) -> tuple[Array, ...]:
        f = F[block.start : block.stop]
        return K.T @ K, K.T @ f.astype(K.dtype, copy=False), K.sum(axis=0, dtype=np.float64), f.sum(axis=0)

    # the normal equations [K 1]'[K 1] and [K 1]'f: the intercept is the last variable
    G, Kf, total, f_total = design.map_reduce(sums)
    A = np.block([[G, total[:, None]], [total[None], np.full((1, 1), float(n_rows))]])
    r = np.concatenate([Kf, f_total[None]])
    chosen = forward_select(A[None], r.T, max(wanted), first=len(candidates))
    models = []
    for size in wanted:
        if size > len(chosen):
            break  # what is left adds nothing to the chosen ones on these rows
        kept = np.append(chosen[:size], len(candidates))
        weights = lstsq(A[np.ix_(kept, kept)], r[kept], cond=1e-12)[0]
        own = basis[chosen[:size]]
        models.append(replace(model, basis=own, weights=weights[:-1], intercept=weights[-1], calibration=None))
    first = candidates[chosen]
    return [*models, model], np.concatenate([first, strongest[~np.isin(strongest, first)]]), n_rows


# -- errors and times --------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Measurements:
    """What was seen at every size S; the last is the given model."""

    sizes: list[int]
    seconds: Array  # (S,) per row
    n_bytes: Array  # (S,)
    outputs: Array  # (n, L) of the given model
    errors: Array  # (S,) share of wrong labels, or root mean squared error
    baseline: float  # error of the best constant answer
    confusion: Array | None = None  # (S, K, K) true by predicted
    r2: Array | None = None  # (S,)
    drawn: Array | None = None  # numbers of the rows in the residual plot
    predictions: Array | None = None  # (S, len(drawn)) of the first output


def measure(models: list[Model], sample: Sample) -> Measurements:
    """Run models of growing size, each on the first vectors of the next but the last, over the rows in one pass."""
    *smaller, model = models
    n, S, L = sample.n_rows, len(models), model.weights.shape[1]
    if smaller:  # all of them as one model with many outputs, on the vectors that any of them uses
        weights = np.zeros((smaller[-1].n_basis_, len(smaller) * L))
        for s, one in enumerate(smaller):
            weights[: one.n_basis_, s * L : (s + 1) * L] = one.weights
        intercept = np.concatenate([one.intercept for one in smaller])
        stacked = replace(
            smaller[-1], weights=weights, intercept=intercept, kind="regressor", classes=None, squeeze=False
        )
    outputs = np.empty((n, L))
    # per size and row the predicted class, or the first output; for values also the sums of squared errors
    predicted = np.empty((S, n), dtype=np.intp if sample.classes else np.float64)
    squares = np.zeros((S, L))
    chunk = max(1024, _CHUNK_VALUES // (S * L))
    for start in range(0, n, chunk):
        rows = slice(start, min(start + chunk, n))
        outputs[rows] = model.outputs(sample.X[rows])
        others = np.split(stacked.outputs(sample.X[rows]), S - 1, axis=1) if smaller else []
        for s, F in enumerate([*others, outputs[rows]]):
            if sample.classes:
                predicted[s, rows] = predicted_numbers(model, model.scores(F))
            else:
                predicted[s, rows] = F[:, 0]
                squares[s] += np.sum((F - sample.y[rows]) ** 2, axis=0)
    sizes = [one.n_basis_ for one in models]
    batch = sample.X[:_BATCH]
    runs = [timeit.repeat(partial(one.decision_function, batch), number=1, repeat=5) for one in models]
    times = np.min(runs, axis=1) / batch.shape[0]
    maps = 0 if model.input_map is None else model.input_map.size
    n_bytes = np.array([8.0 * (one.basis.size + one.weights.size + one.intercept.size + maps) for one in models])
    if sample.classes:
        K = len(sample.classes)
        counts = np.array([np.bincount(sample.y * K + guess, minlength=K * K).reshape(K, K) for guess in predicted])
        errors = np.mean(predicted != sample.y, axis=1)
        baseline = float(1.0 - np.bincount(sample.y).max() / n)
        return Measurements(sizes, times, n_bytes, outputs, errors, baseline, confusion=counts)
    spread = np.sum((sample.y - sample.y.mean(axis=0)) ** 2, axis=0)
    errors, baseline = np.sqrt(np.mean(squares, axis=1) / n), float(np.sqrt(np.mean(spread) / n))
    r2 = np.where(spread > 0, 1.0 - squares / np.where(spread > 0, spread, 1.0), np.where(squares > 0, 0.0, 1.0))
    drawn = np.sort(np.random.default_rng(0).choice(n, min(n, _POINTS), replace=False))
    values = {"r2": np.mean(r2, axis=1), "drawn": drawn, "predictions": predicted[:, drawn]}
    return Measurements(sizes, times, n_bytes, outputs, errors, baseline, **values)


def predicted_numbers(model: Model, scores: Array) -> Array:
    """Class numbers from decision values."""
    if model.kind == "outlier":
        return (scores >= 0).astype(np.intp)
    return (scores > 0).astype(np.intp) if scores.ndim == 1 else np.argmax(scores, axis=1)


# -- calibration ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Reliability:
    """Bins of equal numbers of rows: what was said (x), what came (y), and a 95 % interval of it."""

    kind: str  # "probability", "score" or "value"
    said: Array
    came: Array
    low: Array
    high: Array
    binary: bool = False  # whether `came` counts the second class; otherwise right predictions
    brier: float | None = None
    gap: float | None = None  # mean distance between said and came, weighted by rows


def reliability(model: Model, sample: Sample, outputs: Array, n_bins: int = 10) -> Reliability:
    """How far the model's own confidence can be trusted.

    Two classes: the probability (or decision value) of the second class against how often it is right.  More: the
    confidence in the predicted class (or its lead over the next one) against how often it is right.  Regression: mean
    prediction against mean target.
    """
    if not sample.classes:
        said, came = outputs[:, 0], sample.y[:, 0]
        bins = _bins(said, n_bins)
        x, y, se = np.array([[said[b].mean(), came[b].mean(), came[b].std() / np.sqrt(len(b))] for b in bins]).T
        return Reliability("value", x, y, y - 1.96 * se, y + 1.96 * se)
    scores = model.scores(outputs)
    single, calibrated = scores.ndim == 1, model.calibration is not None
    binary = single and len(sample.classes) > 1
    brier = gap = None
    if calibrated:
        probabilities = model.probabilities(scores)
        truth = sample.y[:, None] == np.arange(probabilities.shape[1])  # a label that the model does not know: none
        brier = float(np.mean(np.sum((truth - probabilities) ** 2, axis=1)))
        brier *= 0.5 if single else 1.0  # of two classes one is counted, as is usual
        said = probabilities[:, 1] if single else probabilities.max(axis=1)
    elif single:
        said = scores
    else:
        top = np.partition(scores, -2, axis=1)
        said = top[:, -1] - top[:, -2]
    came = sample.y == 1 if binary else predicted_numbers(model, scores) == sample.y
    bins = _bins(said, n_bins)
    counts = np.array([len(b) for b in bins])
    x, share = (np.array([values[b].mean() for b in bins]) for values in (said, came))
    if calibrated:
        gap = float(np.average(np.abs(share - x), weights=counts))
    return Reliability("probability" if calibrated else "score", x, share, *wilson(share, counts), binary, brier, gap)


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
