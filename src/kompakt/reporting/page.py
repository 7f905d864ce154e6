"""`report`: a page about a fitted model that needs nothing but itself."""

from __future__ import annotations

import base64
import hashlib
import os
import platform
import time
from datetime import UTC, datetime
from functools import cache
from importlib.resources import files
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import scipy
import sklearn
from scipy import sparse
from sklearn.metrics import mean_absolute_error

import kompakt
from kompakt.estimators.records import seconds_of
from kompakt.export.js_file import runtime
from kompakt.io.files import write_atomically
from kompakt.kernels.base import dense
from kompakt.parallel import block_threads
from kompakt.plots.vectors import sides_of
from kompakt.record import TrainingRecord
from kompakt.reporting import explain, measure, text, training
from kompakt.reporting.measure import MOMENT_ROWS, Subject

Array = np.ndarray

#: bytes that a page may have
MOST_BYTES = 2_000_000
#: features and classes that are listed, features that are ranked, vectors of the table
_MOST_FEATURES, _MOST_CLASSES, _MOST_RANKED, _MOST_VECTORS = 30, 30, 20, 25
#: features shown of a direction of the map
_MOST_LOADINGS = 6


def report(
    estimator: Any,
    X: Any,
    y: Any,
    path: str | os.PathLike[str],
    *,
    title: str | None = None,
    command: str | None = None,
    model_path: str | os.PathLike[str] | None = None,
    image_shape: tuple[int, int] | None = None,
    max_rows: int = 100_000,
    n_jobs: int | None = None,
    random_state: int = 0,
    target: str | None = None,
    curves: bool = True,
) -> Path:
    """Write one self-contained HTML page about a fitted model.

    The page shows which columns matter and how the prediction depends on them, a panel that runs the model in the
    browser on a case of the reader's, a threshold with its costs, errors with a confusion matrix (or residuals) and the
    prediction time at every size under a slider, learning curves, the worst rows, the data, the chosen parameters and
    why, calibration, the basis vectors, the time spent, and how to load and export the model.  It loads nothing from a
    network, stays under 2 MB, and works on a phone, by keyboard, in light and dark.  It needs the extra `report`
    (jinja2 and Matplotlib).

    Parameters
    ----------
    estimator : fitted kompakt estimator, Model, or a pipeline or search that holds one
        Of a `Model` loaded from a file, the training is unknown and left out.  scikit-learn's kernel SVMs are
        understood too.
    X : array-like or sparse matrix of shape (n_samples, n_features), or table
        Rows to measure on: use rows that the model has not seen, or the errors are too low.  Of a table the page shows
        the columns as they are, not the features that they become.
    y : array-like of shape (n_samples,) or (n_samples, n_outputs)
        Their labels or values.
    path : path-like
        The page; it is put in its place only when it is complete.
    title : str, optional
    command : str, optional
        The command that made the page, to be shown on it.
    model_path : path-like, optional
        Where the model was saved, for the lines that show how to load it.
    image_shape : (int, int), optional
        Shape of the pictures that rows are; square pictures are recognised.
    max_rows : int, default=100000
        Rows measured on at most, drawn at random; the page says so.
    n_jobs : int, default=None
    random_state : int, default=0
        For the rows drawn and the columns shuffled.
    target : str, optional
        What the model predicts, to be named on the page; by default the name of `y`, if it has one.
    curves : bool, default=True
        Whether to train about twenty small models on parts of the given rows, for the learning curves.  They take the
        larger part of the time of a page: a few seconds, which the page states.

    Returns
    -------
    pathlib.Path
        The page.

    Examples
    --------
    >>> import tempfile, pathlib, kompakt
    >>> from sklearn.datasets import make_moons
    >>> X, y = make_moons(300, noise=0.2, random_state=0)
    >>> model = kompakt.CompactSVC(n_basis=10, random_state=0).fit(X, y)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     page = kompakt.report(model, X, y, pathlib.Path(folder, "moons.html"))
    ...     page.stat().st_size < 2_000_000
    True
    """
    # both known before any work is done
    try:
        import jinja2  # noqa: F401

        from kompakt.reporting.figures import draw_explanations, draw_figures
    except ImportError as missing:
        raise ImportError(
            f"a report needs {missing.name}: install the extra with `pip install 'kompakt[report]'`."
        ) from missing
    folder = os.path.dirname(os.path.abspath(path))
    if not os.path.isdir(folder):
        raise FileNotFoundError(f"the folder of the page does not exist: {folder}")
    target = target or getattr(y, "name", None)
    target = None if target is None else str(target)
    clock = [("", time.perf_counter())]
    with block_threads(n_jobs):
        subject = measure.subject_of(estimator, X, y, int(max_rows), random_state)
        model, fitted = subject.model, subject.estimator
        clock.append(("reading the rows", time.perf_counter()))
        models, order, n_matched = measure.nested_models(model, subject.X)
        clock.append(("smaller models", time.perf_counter()))
        measured = measure.measure(models, subject)
        reliability = measure.reliability(subject, measured.outputs)
        by_class = measure.class_errors(subject, measured.outputs) if subject.classes else None
        clock.append(("errors and times", time.perf_counter()))
        relevance = measure.relevance_of(subject)
        relevant = measure.features_by_relevance(subject, relevance)
        columns = explain.columns_of_subject(subject, X)
        importance = explain.importance(subject, columns, relevant, random_state)
        ranked = list(range(len(columns))) if importance is None else importance.columns
        dependence = [] if importance is None else explain.dependence(subject, columns, ranked, random_state)
        panel = explain.what_if(subject, measured.outputs, columns, ranked, reliability, random_state)
        clock.append(("columns", time.perf_counter()))
        learning = explain.learning_curves(subject, random_state) if curves else None
        clock.append(("learning curves", time.perf_counter()))
        search, size_errors = training.search_of(fitted, model.record), training.size_errors_of(fitted)
        figures, places = draw_figures(
            subject, measured, order, relevant, reliability, by_class, search, size_errors, image_shape
        )
        figures |= draw_explanations(subject, dependence, learning)
        clock.append(("pictures", time.perf_counter()))
    page = _template().render(
        title=title or (f"{target}, predicted by {subject.name}" if target else f"{subject.name}: report"),
        target=target or "the target",
        subject=subject,
        model=model,
        estimator=fitted,
        search=search,
        size_errors=size_errors,
        measured=measured,
        n_matched=n_matched,
        reliability=reliability,
        figures=figures,
        vectors=_vector_table(subject, order),
        own_seconds=[(name, end - start, text.seconds(end - start)) for (_, start), (name, end) in pairwise(clock)],
        model_path=None if model_path is None else os.fspath(model_path),
        command=command,
        file_name=os.path.basename(path),
        python=platform.python_version(),
        packages={"kompakt": kompakt, "NumPy": np, "SciPy": scipy, "scikit-learn": sklearn},
        date=f"{datetime.now(UTC):%Y-%m-%d %H:%M}",
        **_training_values(subject, measured),
        seen=measure.seems_trained_on(subject, measured.outputs),
        **_data_values(subject, relevance, relevant),
        importance=None if importance is None else _importance_values(subject, columns, importance),
        dependence=dependence,
        learning=learning,
        panel=panel,
        shown_columns=[columns[k].name for k in explain.shown_columns(columns, ranked)],
        worst=explain.worst_with_cells(subject, measured.outputs, columns, ranked),
        **_error_values(subject, measured, by_class, places, panel),
    )
    content = text.printable(page).encode()
    if len(content) > MOST_BYTES:
        raise ValueError(
            f"the page would have {len(content):,} bytes, more than {MOST_BYTES:,}: shorten the title or the command."
        )
    write_atomically(path, [content])
    return Path(path)


def _training_values(subject: Subject, measured: measure.Measurements) -> dict[str, Any]:
    """What the page says of the training: settings, why they were chosen, and the time."""
    model, fitted = subject.model, subject.estimator
    return {
        "gamma": np.asarray(model.widths).tolist(),
        "type_name": type(fitted).__name__,
        "parameters": training.parameters_of(fitted) if hasattr(fitted, "get_params") else [],
        "fit_seconds": [(name, value, text.seconds(value)) for name, value in _fit_seconds(subject).items()],
        "settings_text": _settings_text(model.record),
        "overfitted": _overfitted(subject, measured.errors[-1]),
        "size_choice": getattr(getattr(fitted, "size_path_", None), "choice", None),
    }


def _data_values(subject: Subject, relevance: Array | None, relevant: Array) -> dict[str, Any]:
    """What the page says of the rows and their features."""
    directions = measure.directions_of(subject)
    return {
        "notes": [*subject.notes, *_cautions(subject)],
        "missing": 0.0 if sparse.issparse(subject.X) else float(np.mean(np.isnan(subject.X))),
        "class_counts": _class_counts(subject),
        "features": _features(subject, relevant),
        "relevance": [] if relevance is None or len(relevance) < 2 else _ranking(relevance, subject),
        "directions": [(text.percent(share), _loadings(loadings, subject)) for share, loadings in directions],
        "n_feature_rows": min(MOMENT_ROWS, subject.n_rows),
    }


def _error_values(
    subject: Subject, measured: measure.Measurements, by_class: measure.ClassErrors | None, places: dict[str, Any],
    panel: dict[str, Any] | None,
) -> dict[str, Any]:  # fmt: skip
    """What the page says of errors; `data` is what the slider shows at every size."""
    error_text = text.percent if subject.classes else text.number
    at_size = {
        "size": [text.number(size) for size in measured.sizes],
        "error": [error_text(error) for error in measured.errors],
        "time": [text.seconds(value) for value in measured.seconds],
        "memory": [text.size_in_bytes(value) for value in measured.n_bytes],
    }
    if measured.r2 is not None:
        at_size["r2"] = [f"{value:.3f}" for value in measured.r2]
    data = {"sizes": measured.sizes, "now": at_size, **places}
    confusion = None
    if measured.confusion is not None:
        confusion = _confusion(subject.classes, measured.confusion)
        data |= {"cells": confusion["cells"], "shares": confusion["shares"]}
    data |= {"thresholds": explain.thresholds(subject, measured.outputs), "panel": panel}
    interval = np.clip(measure.wilson(measured.errors[-1], subject.n_rows), 0.0, 1.0) if subject.classes else None
    return {
        "data": data,
        "error_text": error_text,
        "interval": interval,
        "confusion": confusion,
        "by_class": [] if by_class is None else _class_table(subject, by_class),
        "absolute_error": None if subject.classes else mean_absolute_error(subject.y, measured.outputs),
        "baseline_error": None if subject.classes else float(np.mean(np.abs(subject.y - np.median(subject.y, axis=0)))),
    }


@cache
def _template() -> Any:
    """The page without its values, which it escapes."""
    import jinja2
    from markupsafe import Markup

    markup, style, script = (
        files("kompakt.reporting").joinpath(f"page.{kind}").read_text("utf-8") for kind in ("html", "css", "js")
    )
    script = runtime() + script
    environment = jinja2.Environment(autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True)
    environment.policies["json.dumps_kwargs"] = {"allow_nan": False, "separators": (",", ":")}
    environment.filters |= {
        f.__name__: f for f in (text.number, text.measured, text.percent, text.seconds, text.shortened, repr)
    }
    environment.globals |= {
        "style": Markup(style),
        "script": Markup(script),
        # no script but this one may run, even if a name found its way into the markup
        "script_digest": base64.b64encode(hashlib.sha256(script.encode()).digest()).decode(),
    }
    return environment.from_string(markup)


def _importance_values(
    subject: Subject, columns: list[explain.Column], importance: explain.Importance
) -> dict[str, Any]:
    """Bars with whiskers, in shares of the longest whisker, and what was shuffled."""
    longest = max(float(importance.high.max(initial=0.0)), 1e-300)
    bounds = np.clip(np.array([importance.rise, importance.low, importance.high]) / longest, 0.0, 1.0).T
    rises = [
        f"{100 * rise:+.1f} points" if subject.classes else f"{'+' if rise >= 0 else '-'}{text.number(abs(rise))}"
        for rise in importance.rise
    ]
    matters = [columns[k].name for k, low in zip(importance.columns, importance.low, strict=True) if low > 0]
    return {
        "bars": list(zip([columns[k].name for k in importance.columns], bounds.tolist(), rises, strict=True)),
        "matters": matters,
        "n_rows": importance.n_rows,
        "n_shuffles": importance.n_shuffles,
        "n_left_out": importance.n_left_out,
    }


def _confusion(names: list[str], counts: Array) -> dict[str, Any]:
    """Cells of the confusion matrix at every size; of many classes those with most errors, the others in one."""
    n_gathered = 0
    if len(names) > _MOST_CLASSES:
        wrong = counts[-1].sum(axis=0) + counts[-1].sum(axis=1) - 2 * np.diag(counts[-1])
        kept = np.sort(np.argsort(-wrong, kind="stable")[: _MOST_CLASSES - 5])
        n_gathered = len(names) - len(kept)
        group = np.full(len(names), len(kept))
        group[kept] = np.arange(len(kept))
        fold = (group == np.arange(len(kept) + 1)[:, None]).astype(np.int64)
        counts = np.einsum("ai,sij,bj->sab", fold, counts, fold)
        names = [names[k] for k in kept] + ["others"]
    shares = counts / np.maximum(1, counts.sum(axis=2, keepdims=True))
    return {
        "names": names,
        "n_gathered": n_gathered,
        "cells": [[text.count(cell) for cell in matrix.ravel()] for matrix in counts],
        "shares": np.round(shares, 3).reshape(len(counts), -1).tolist(),
    }


def _class_table(subject: Subject, errors: measure.ClassErrors) -> list[list[str]]:
    """Name, rows, precision, recall, F1 and areas of the classes; of many, those that are found worst."""
    hardest = np.argsort(np.where(errors.rows > 0, errors.f1, np.inf), kind="stable")[:_MOST_CLASSES]
    table = []
    for k in np.sort(hardest):
        shares = [text.percent(values[k]) for values in (errors.precision, errors.recall, errors.f1)]
        areas = [
            "?" if np.isnan(values[k]) else f"{values[k]:.3f}" for values in (errors.roc_area, errors.average_precision)
        ]
        table.append([subject.classes[k], text.number(errors.rows[k]), *shares, *areas])
    return table


def _class_counts(subject: Subject) -> list[tuple[str, int, str]]:
    """Rows of the most frequent classes, in the order of the classes."""
    kept = np.sort(np.argsort(-subject.counts, kind="stable")[:_MOST_CLASSES])
    return [(subject.classes[k], int(subject.counts[k]), f"{subject.counts[k]:,} rows") for k in kept]


def _ranking(relevance: Array, subject: Subject) -> list[tuple[str, float, str]]:
    """The features that the kernel looks at most, relative to the first."""
    shares = relevance / max(float(relevance.max()), 1e-300)
    order = np.argsort(-shares, kind="stable")[:_MOST_RANKED]
    written = ["< 0.1 %" if 0 < share < 1e-3 else text.percent(share) for share in shares]
    return [(subject.feature_names[j], float(shares[j]), written[j]) for j in order]


def _loadings(loadings: Array, subject: Subject) -> list[tuple[str, float, str]]:
    """The features with the largest parts in a direction; bars have their sizes, texts their signs."""
    order = np.argsort(-np.abs(loadings), kind="stable")[:_MOST_LOADINGS]
    return [(subject.feature_names[j], abs(float(loadings[j])), f"{loadings[j]:+.2f}") for j in order]


def _features(subject: Subject, relevant: Array) -> list[tuple[str, Array, Array]]:
    """Names, known values and heights of a histogram of the features, or of the most relevant ones of many."""
    d = len(subject.feature_names)
    shown = relevant[:_MOST_FEATURES] if d > _MOST_FEATURES else np.arange(d)
    columns = subject.X[:MOMENT_ROWS][:, shown]
    rows = []
    for j, column in zip(shown, dense(columns).T, strict=True):
        finite = column[np.isfinite(column)]
        counts = np.histogram(finite, bins=16)[0]
        rows.append((subject.feature_names[j], finite, counts / max(1, counts.max())))
    return rows


def _vector_table(subject: Subject, order: Array) -> list[list[Any]]:
    """Order, class and size of weights of the first vectors, and their training rows where they are known."""
    sides, names = sides_of(subject.model)
    indices = getattr(subject.estimator, "basis_indices_", None)
    strength = np.linalg.norm(subject.model.weights, axis=1)
    rows: list[list[Any]] = [[k + 1, names[sides[j]], strength[j]] for k, j in enumerate(order[:_MOST_VECTORS])]
    if indices is not None and len(indices) == len(sides):
        rows = [[*row, int(indices[j])] for row, j in zip(rows, order, strict=False)]
    return rows


def _settings_text(record: TrainingRecord | None) -> str:
    """The settings of a model in one line."""
    if record is None:
        return ""
    numbers = {name: value for name, value in record.settings.items() if name in ("C", "gamma", "epsilon", "reg")}
    settings = [
        f"{name} = {value if isinstance(value, str) else text.number(value)}" for name, value in numbers.items()
    ]
    return ", ".join(settings) or "Settings"


def _overfitted(subject: Subject, error: float) -> bool:
    """Whether the error on the given rows is above that on the training rows by more than chance and a quarter."""
    record = subject.model.record
    if record is None or record.train_error is None:
        return False
    before = record.train_error
    low = measure.wilson(error, subject.n_rows)[0] if subject.classes else error / (1.0 + 2.0 / np.sqrt(subject.n_rows))
    return bool(low > before and error > 1.25 * before)


def _fit_seconds(subject: Subject) -> dict[str, float]:
    """Seconds of the phases of the fit: the estimator's own, else those in the record of the training."""
    record = subject.model.record
    if subject.estimator is None and record is not None:
        return {name: value for name, value in record.seconds.items() if name != "all"}
    return seconds_of(subject.estimator)


def _cautions(subject: Subject) -> list[str]:
    """What a user should know before believing the numbers."""
    cautions = []
    if getattr(subject.estimator, "converged_", True) is False:
        cautions.append("The solver did not converge: raise max_iter or max_time, scale the inputs, or lower C.")
    if subject.model.kernel.name != "precomputed":
        spread = measure.moments_of(subject.X[:MOMENT_ROWS])[1]
        moving = spread[spread > 0]
        if len(moving) < len(spread) and subject.model.inputs.schema is None:  # not of rare words
            cautions.append(f"{len(spread) - len(moving):,} feature(s) are constant on the rows looked at.")
        if subject.model.inputs.scale is None and len(moving) > 1 and moving.max() > 100 * moving.min():
            cautions.append(
                "Features differ in scale by more than 100 times: scale them, or the large ones decide alone."
            )
    if subject.classes and subject.counts.max() > 20 * max(1, subject.counts[subject.counts > 0].min()):
        cautions.append(
            "The classes are very unequal: look at the rows of the confusion matrix, not at the error alone."
        )
    return cautions
