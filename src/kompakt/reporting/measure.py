"""What a report measures: the model behind whatever was given, smaller models inside it, errors, times, calibration."""

from __future__ import annotations

import timeit
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from scipy.linalg import lstsq
from sklearn.metrics import (
    auc,
    average_precision_score,
    mean_squared_error,
    precision_recall_curve,
    precision_recall_fscore_support,
    r2_score,
    roc_curve,
)
from sklearn.preprocessing import StandardScaler
from sklearn.utils import check_array
from sklearn.utils.validation import check_is_fitted

from kompakt.basis.gram import forward_select
from kompakt.basis.path import sizes_up_to
from kompakt.data import ArrayRows, RowBlock
from kompakt.design import Design
from kompakt.io.fitted import model_of
from kompakt.model import Model
from kompakt.reporting.text import printable

Array = np.ndarray

#: the largest smaller model, the most vectors looked at, and the most kernel values in the matching
_LARGEST, _MOST_CANDIDATES, _MOST_VALUES = 512, 2000, 20_000_000
#: rows that means and variances of the features are taken from
MOMENT_ROWS = 5000
#: rows of a timed batch, points of a scatter
_BATCH, _POINTS = 2048, 400


# -- the model and the rows ----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Subject:
    """What the page is about: a model, the estimator that trained it, and the rows that it is measured on."""

    model: Model
    estimator: Any  # None for a bare `Model`
    name: str
    notes: list[str]
    X: Any  # dense or CSR
    y: Array  # class numbers (n,), or values (n, L)
    n_given: int
    classes: list[str]  # names of the class numbers; empty for regression
    counts: Array  # rows of each class, among all given
    feature_names: list[str]
    numbers: Array  # of the rows, among all given

    @property
    def n_rows(self) -> int:
        return int(self.X.shape[0])


def subject_of(source: Any, X: Any, y: Any, max_rows: int, seed: int) -> Subject:
    """The model to report on, and at most `max_rows` of the given rows, checked.

    `source` is a `Model`, a fitted estimator, or a search or pipeline that holds one.
    """
    notes: list[str] = []
    model, estimator, name, X = _model_to_report(source, X, notes)
    names = _feature_names(model, estimator, X)
    X = model.inputs.encoded(X)
    finite: Any = True if model.inputs.fill is None else "allow-nan"
    X = check_array(X, accept_sparse="csr", dtype=[np.float64, np.float32], ensure_all_finite=finite)
    if X.shape[1] != model.n_features:
        raise ValueError(f"X has {X.shape[1]} features, but the model expects {model.n_features}.")
    y = np.asarray(y)
    if len(y) != X.shape[0]:
        raise ValueError(f"X has {X.shape[0]} rows and y {len(y)}; expected one target per row.")
    classes: list[str] = []
    if model.kind == "regressor":
        y = _target_values(model, y)
        counts = np.zeros(0, dtype=np.intp)
    else:
        y, classes = _class_numbers(model, y, notes)
        counts = np.bincount(y, minlength=len(classes))
    n = X.shape[0]
    kept = np.arange(n)
    if n > max_rows:
        kept = np.sort(np.random.default_rng(seed).choice(n, max_rows, replace=False))
        X, y = X[kept], y[kept]
        notes.append(f"Measured on {max_rows:,} of the {n:,} given rows, drawn at random.")
    return Subject(model, estimator, name, notes, X, y, n, classes, counts, names, kept)


def _model_to_report(source: Any, X: Any, notes: list[str]) -> tuple[Model, Any, str, Any]:
    """Model, estimator (None for a bare model), name, and the rows that the model takes.

    A pipeline whose steps can be put into a model (scalers) is one model; otherwise its last step is reported on the
    rows that the steps before it make.
    """
    if isinstance(source, Model):
        trained_by = None if source.record is None else source.record.estimator
        name = trained_by or source.meta.get("estimator") or source.meta.get("source") or f"kompakt {source.kind}"
        return source, None, str(name), X
    if hasattr(source, "fit") and not isinstance(source, type):
        check_is_fitted(source)
    pipeline = getattr(source, "best_estimator_", source)
    estimator = pipeline.steps[-1][1] if hasattr(pipeline, "steps") else pipeline
    estimator = getattr(estimator, "best_estimator_", estimator)
    name = type(estimator).__name__
    try:
        return model_of(pipeline, svm=True), estimator, name, X
    except TypeError:
        if pipeline is estimator:
            raise
    steps = " → ".join(type(step).__name__ for _, step in pipeline.steps[:-1])
    notes.append(f"The model is the last step of a pipeline; features are what {steps} makes of the given columns.")
    name = f"{type(source).__name__} with {name}"
    return model_of(estimator, svm=True), estimator, name, pipeline[:-1].transform(X)


def _feature_names(model: Model, estimator: Any, X: Any) -> list[str]:
    """Names of the features: those of the model, of the estimator, of the columns of X, or numbers."""
    for names in (model.feature_names, getattr(estimator, "feature_names_in_", None), getattr(X, "columns", None)):
        if names is not None and len(names) == model.n_features:
            return [printable(name) for name in names]
    return [f"feature {number}" for number in range(model.n_features)]


def _target_values(model: Model, y: Array) -> Array:
    """Targets of a regressor, one column per output."""
    values = np.asarray(y, dtype=np.float64).reshape(len(y), -1)
    if values.shape[1] != model.weights.shape[1]:
        raise ValueError(f"y has {values.shape[1]} outputs, but the model has {model.weights.shape[1]}.")
    if not np.isfinite(values).all():
        raise ValueError("y holds NaN or infinite values; drop those rows.")
    return values


def _class_numbers(model: Model, y: Array, notes: list[str]) -> tuple[Array, list[str]]:
    """Class numbers of the labels, and their names; labels that the model does not know get numbers after its own."""
    classes = np.array([-1, 1]) if model.classes is None else model.classes
    if y.ndim != 1:
        raise ValueError(f"y must have one label per row; got shape {y.shape}.")
    if y.dtype.kind != classes.dtype.kind:  # as when a file gave text and the model was trained on numbers
        try:
            y = y.astype(str if classes.dtype.kind in "UO" else classes.dtype)
        except (TypeError, ValueError) as error:
            raise ValueError(
                f"labels of type {y.dtype} cannot be compared with the model's ({classes.dtype}), such as "
                f"{classes[:5].tolist()}."
            ) from error
    numbers = {label: number for number, label in enumerate(classes.tolist())}
    labels, inverse = np.unique(y, return_inverse=True)
    strangers = [label for label in labels.tolist() if label not in numbers]
    if len(strangers) == len(labels):
        raise ValueError(
            f"no label in y is known to the model: y has {strangers[:5]}, the model {classes[:5].tolist()}."
        )
    if strangers:
        notes.append(f"{len(strangers)} label(s) in y are unknown to the model; their rows count as errors.")
        numbers |= {label: number for number, label in enumerate(strangers, start=len(numbers))}
    return np.array([numbers[label] for label in labels.tolist()])[inverse.ravel()], [*map(printable, numbers)]


def moments_of(X: Any) -> tuple[Array, Array]:
    """Mean and standard deviation of every column over its known values; zeros for a column without any."""
    with np.errstate(invalid="ignore"):
        scaler = StandardScaler(with_mean=False).fit(X)
    return np.nan_to_num(scaler.mean_), np.sqrt(np.nan_to_num(scaler.var_))


def relevance_of(subject: Subject) -> Array | None:
    """Share of a feature in the kernel's distance: its gamma times its variance, both in the units of the kernel.

    None where the kernel has one gamma for all features.
    """
    gamma = subject.model.widths
    return None if np.ndim(gamma) == 0 else np.asarray(np.abs(gamma) * _scaled_spread(subject) ** 2)


def _scaled_spread(subject: Subject) -> Array:
    """Standard deviation of every feature as the model scales and bends it, before it maps the features."""
    scaling = replace(subject.model.inputs, map=None)
    if scaling.bends is None:  # without the shift, which changes no variance and would make sparse rows dense
        scaling = replace(scaling, shift=None)
    return moments_of(scaling.transform(scaling.filled(subject.X[:MOMENT_ROWS])))[1]


def directions_of(subject: Subject, n_directions: int = 3) -> list[tuple[float, Array]]:
    """The combinations of standardised features that the map of a model weighs most: share, and loadings (d,).

    They are the leading eigenvectors of A'A, where A maps features in units of their deviation; shares are of the sum
    of all eigenvalues.  Of the two signs the one that makes the largest loading positive is given.
    """
    if subject.model.inputs.map is None:
        return []
    _, singular, loadings = np.linalg.svd(subject.model.inputs.map * _scaled_spread(subject), full_matrices=False)
    shares = singular**2 / max(float(np.sum(singular**2)), 1e-300)
    signs = np.sign(loadings[np.arange(len(loadings)), np.argmax(np.abs(loadings), axis=1)])
    return [(float(shares[i]), signs[i] * loadings[i]) for i in range(min(n_directions, len(shares)))]


def features_by_relevance(subject: Subject, relevance: Array | None) -> Array:
    """Features in the order of what they do for the kernel, or for the vectors where all widths are one."""
    vectors = subject.model.basis_vectors_
    if relevance is None:
        if vectors is None or len(vectors) < 2:
            return np.arange(subject.model.n_features)
        spread = moments_of(subject.X[:MOMENT_ROWS])[1]
        relevance = np.divide(np.std(vectors, axis=0), spread, out=np.zeros(len(spread)), where=spread > 0)
    return np.argsort(-relevance, kind="stable")


def seems_trained_on(subject: Subject, outputs: Array) -> bool:
    """Whether there are as many rows as in training, with the very error that the record of the training has."""
    record = subject.model.record
    if record is None or not record.train_error or not subject.n_rows == subject.n_given == record.n_rows:
        return False
    sample = slice(None, None, -(-record.n_rows // record.n_train_error))  # evenly spaced, as in the record
    outputs, y = outputs[sample], subject.y[sample]
    if subject.classes:
        error = np.mean(predicted_numbers(subject.model, subject.model.scores(outputs)) != y)
    else:
        error = np.sqrt(mean_squared_error(y, outputs))
    return len(y) == record.n_train_error and bool(np.isclose(error, record.train_error, rtol=1e-5, atol=0.0))


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
    sizes = sorted({size for size in [1, 2, 3, *sizes_up_to(min(_LARGEST, m)).tolist()] if size < m})
    if not sizes:
        return [model], strongest, 0
    candidates = np.sort(strongest[:_MOST_CANDIDATES])
    n_rows = min(X.shape[0], max(2 * len(candidates), _MOST_VALUES // len(candidates)))
    F = model.outputs(X[:n_rows])
    # float64, because forward selection lives on differences of sums
    rows = ArrayRows(model._transformed(X[:n_rows]), offset=model.inputs.centre, dtype=np.dtype(np.float64))
    basis = model.basis[candidates]
    design = Design(rows, model.kernel, basis if rows.offset is None else basis - rows.offset, store=False)

    def sums(K: Array, block: RowBlock) -> tuple[Array, ...]:
        f = F[block.start : block.stop]
        return K.T @ K, K.T @ f.astype(K.dtype, copy=False), K.sum(axis=0, dtype=np.float64), f.sum(axis=0)

    # the normal equations [K 1]'[K 1] and [K 1]'f: the intercept is the last variable
    G, Kf, total, f_total = design.map_reduce(sums)
    A = np.block([[G, total[:, None]], [total[None], np.full((1, 1), float(n_rows))]])
    r = np.concatenate([Kf, f_total[None]])
    chosen = forward_select(A[None], r.T, max(sizes), first=len(candidates))
    models = []
    for size in sizes:
        if size > len(chosen):
            break  # what is left adds nothing to the chosen ones on these rows
        kept = np.append(chosen[:size], len(candidates))
        weights = lstsq(A[np.ix_(kept, kept)], r[kept], cond=1e-12)[0]
        vectors = basis[chosen[:size]]
        fields = {"weights": weights[:-1], "intercept": weights[-1], "calibration": None, "storage": None}
        models.append(replace(model, basis=vectors, **fields))
    first = candidates[chosen]
    return [*models, model], np.concatenate([first, strongest[~np.isin(strongest, first)]]), n_rows


# -- errors and times --------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Measurements:
    """What was seen at every size S; the last is the given model."""

    sizes: list[int]
    seconds: Array  # (S,) per row
    n_bytes: Array  # (S,)
    outputs: Array  # (n, L) of the given model; of a regressor its predictions
    errors: Array  # (S,) share of wrong labels, or root mean squared error
    baseline: float  # error of the best constant answer
    confusion: Array | None = None  # (S, K, K) true by predicted
    r2: Array | None = None  # (S,)
    drawn: Array | None = None  # numbers of the rows in the residual plot
    predictions: Array | None = None  # (S, len(drawn)) of the first output


def measure(models: list[Model], subject: Subject) -> Measurements:
    """Errors, times and memory of models of growing size."""
    X, y, n, K = subject.X, subject.y, subject.n_rows, len(subject.classes)
    batch = X[:_BATCH]
    runs = [timeit.repeat(partial(model.decision_function, batch), number=1, repeat=5) for model in models]
    times = np.min(runs, axis=1) / batch.shape[0]
    sizes = [model.n_basis_ for model in models]
    n_bytes = np.array([8.0 * model.n_numbers for model in models])
    drawn = np.sort(np.random.default_rng(0).choice(n, min(n, _POINTS), replace=False))
    counts, predictions, errors, r2 = [], [], [], []
    for model in models:
        outputs = model.outputs(X)
        if subject.classes:
            guess = predicted_numbers(model, model.scores(outputs))
            counts.append(np.bincount(y * K + guess, minlength=K * K).reshape(K, K))
            errors.append(np.mean(guess != y))
        else:
            outputs = model.scores(outputs).reshape(n, -1)
            predictions.append(outputs[drawn, 0])
            errors.append(np.sqrt(mean_squared_error(y, outputs)))
            r2.append(r2_score(y, outputs) if n > 1 else 0.0)
    seen = sizes, times, n_bytes, outputs, np.array(errors)
    if subject.classes:
        return Measurements(*seen, float(1.0 - np.bincount(y).max() / n), confusion=np.array(counts))
    baseline = float(np.sqrt(np.mean(np.var(y, axis=0))))
    return Measurements(*seen, baseline, r2=np.array(r2), drawn=drawn, predictions=np.array(predictions))


def predicted_numbers(model: Model, scores: Array) -> Array:
    """Class numbers from decision values."""
    if model.kind == "outlier":
        return (scores >= 0).astype(np.intp)
    return (scores > 0).astype(np.intp) if scores.ndim == 1 else np.argmax(scores, axis=1)


# -- errors in detail ----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class ClassErrors:
    """How well each of the K classes is found; NaN where its rows, or all other rows, are missing."""

    precision: Array  # (K,)
    recall: Array
    f1: Array
    rows: Array
    roc_area: Array  # of the class against the others, by its decision values
    average_precision: Array
    roc: dict[int, tuple[Array, Array]]  # false alarms, recall: of the second of two classes, or of the hardest ones
    precision_recall: dict[int, tuple[Array, Array]]  # recall, precision


def class_errors(subject: Subject, outputs: Array, most_curves: int = 4, most_points: int = 200) -> ClassErrors:
    """Precision, recall, and the areas under the curves of every class against the others.

    Curves are those of the second of two classes, or of the classes with the smallest areas, in at most `most_points`
    points each.
    """
    model, y, K = subject.model, subject.y, len(subject.classes)
    scores = model.scores(outputs)
    guess = predicted_numbers(model, scores)
    precisions, recalls, f1, rows = precision_recall_fscore_support(y, guess, labels=np.arange(K), zero_division=0.0)
    by_class = np.column_stack([-scores, scores]) if scores.ndim == 1 else scores
    area, average = np.full(K, np.nan), np.full(K, np.nan)
    roc, recalled = {}, {}
    for k in range(min(K, by_class.shape[1])):
        in_class = y == k
        if in_class.any() and not in_class.all():
            false_alarms, hits, _ = roc_curve(in_class, by_class[:, k])
            precision, recall, _ = precision_recall_curve(in_class, by_class[:, k])
            area[k], average[k] = auc(false_alarms, hits), average_precision_score(in_class, by_class[:, k])
            roc_points, recall_points = (
                np.unique(np.linspace(0, len(x) - 1, most_points).astype(int)) for x in (hits, recall)
            )
            roc[k], recalled[k] = (
                (false_alarms[roc_points], hits[roc_points]),
                (recall[recall_points], precision[recall_points]),
            )
    drawn = [1] if K == 2 and 1 in roc else sorted(sorted(roc, key=lambda k: area[k])[:most_curves])
    curves = {k: roc[k] for k in drawn}, {k: recalled[k] for k in drawn}
    return ClassErrors(precisions, recalls, f1, rows, area, average, *curves)


def worst_rows(subject: Subject, outputs: Array, n_worst: int = 10) -> list[tuple[int, Any, Any, float]]:
    """The rows that the model gets most wrong: number among the given rows, truth, prediction, and by how much.

    Of a classifier, wrong labels with the largest lead of the predicted class over the true one (of two classes, the
    decision value); of a regressor the largest residuals, each of the output where it is largest.
    """
    y, rows = subject.y, np.arange(subject.n_rows)
    if not subject.classes:
        residuals = y - outputs
        column = np.argmax(np.abs(residuals), axis=1)
        by = np.abs(residuals[rows, column])
        order = np.argsort(-by, kind="stable")[:n_worst]
        return [
            (int(subject.numbers[i]), float(y[i, column[i]]), float(outputs[i, column[i]]), float(by[i])) for i in order
        ]
    scores = subject.model.scores(outputs)
    guess = predicted_numbers(subject.model, scores)
    if scores.ndim == 1:
        lead = np.abs(scores)
    else:
        has_score = y < scores.shape[1]  # a label that the model does not know has no decision value
        lead = scores[rows, guess] - np.where(has_score, scores[rows, np.where(has_score, y, 0)], 0.0)
    wrong = np.flatnonzero(guess != y)
    order = wrong[np.argsort(-lead[wrong], kind="stable")[:n_worst]]
    names = subject.classes
    return [(int(subject.numbers[i]), names[y[i]], names[guess[i]], float(lead[i])) for i in order]


# -- calibration ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Reliability:
    """Bins of equal numbers of rows: what was predicted (x) and observed (y), and a 95 % interval of the latter."""

    kind: str  # "probability", "score" or "value"
    predicted: Array
    observed: Array
    low: Array
    high: Array
    binary: bool = False  # whether `observed` counts the second class; otherwise right predictions
    brier: float | None = None
    gap: float | None = None  # mean distance between predicted and observed, weighted by rows


def reliability(subject: Subject, outputs: Array, n_bins: int = 10) -> Reliability:
    """How far the model's own confidence can be trusted.

    Two classes: the probability (or decision value) of the second class against how often it is right.  More: the
    confidence in the predicted class (or its lead over the next one) against how often it is right.  Regression: mean
    prediction against mean target.
    """
    model, y = subject.model, subject.y
    kind, binary, brier, gap = "value", False, None, None
    if not subject.classes:
        predicted, observed = outputs[:, 0], y[:, 0]
    else:
        scores = model.scores(outputs)
        single = scores.ndim == 1
        kind, binary = "score", single and len(subject.classes) > 1
        if model.calibration is not None:
            kind, probabilities = "probability", model.probabilities(scores)
            truth = y[:, None] == np.arange(probabilities.shape[1])  # a label that the model does not know: none
            brier = float(np.mean(np.sum((truth - probabilities) ** 2, axis=1)))
            brier *= 0.5 if single else 1.0  # of two classes one is counted, as is usual
            predicted = probabilities[:, 1] if single else probabilities.max(axis=1)
        elif single:
            predicted = scores
        else:
            top = np.partition(scores, -2, axis=1)
            predicted = top[:, -1] - top[:, -2]
        observed = y == 1 if binary else predicted_numbers(model, scores) == y
    # bins of equal numbers of rows, in which equal values stay together
    edges = np.unique(np.quantile(predicted, np.linspace(0, 1, n_bins + 1)[1:-1]))
    numbers = np.searchsorted(edges, predicted, side="right")
    bins = [np.flatnonzero(numbers == b) for b in np.unique(numbers)]
    counts = np.array([len(b) for b in bins])
    x, share, spread = np.array([(predicted[b].mean(), observed[b].mean(), observed[b].std()) for b in bins]).T
    if kind == "value":
        reach = 1.96 * spread / np.sqrt(counts)
        return Reliability(kind, x, share, share - reach, share + reach)
    if kind == "probability":
        gap = float(np.average(np.abs(share - x), weights=counts))
    return Reliability(kind, x, share, *wilson(share, counts), binary, brier, gap)


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
