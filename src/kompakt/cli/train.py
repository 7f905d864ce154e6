"""``train``, ``tune`` and ``auto``."""

from __future__ import annotations

import os
import shlex
import sys
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from kompakt.cli.console import INTERRUPTED, NOT_CONVERGED, OK, Console, DataError, UsageError, table
from kompakt.cli.predict import Measures, measures, unknown_labels, write_predictions
from kompakt.cli.tables import (
    ImputedSource,
    Preparation,
    Table,
    check_output,
    check_rows,
    check_targets,
    dense_if_small,
    is_large,
    open_for_model,
    open_for_training,
    prepared,
    streamed_medians,
    target_file,
    task_in_words,
    task_of,
)
from kompakt.io import save
from kompakt.model import Model

Array = np.ndarray


@dataclass
class Outcome:
    """A trained machine and how its training went."""

    model: Model
    estimator: Any
    seconds: float
    code: int = OK
    facts: dict[str, Any] = field(default_factory=dict)


# -- commands ---------------------------------------------------------------------------------------------


def train(options: Any) -> int:
    """``kompakt train DATA MODEL``."""
    console = Console(options)
    if options.model is None and options.folds is None:
        raise UsageError("train needs a file for the model: kompakt train DATA MODEL (or -v N to cross-validate only).")
    check_output(options.model, options.data, target_file(options))
    opened = open_for_training(options, console)
    if options.folds is not None:
        return _cross_validate(options, console, opened)
    outcome = _trained(options, console, opened, tuned=options.tune)
    return _written(options, console, opened, outcome)


def tune(options: Any) -> int:
    """``kompakt tune DATA [MODEL]``."""
    console = Console(options)
    check_output(options.model, options.data, target_file(options))
    opened = open_for_training(options, console)
    outcome = _trained(options, console, opened, tuned=True)
    return _written(options, console, opened, outcome)


def auto(options: Any) -> int:
    """``kompakt auto TRAIN [TEST]``: scaling, search, training and evaluation."""
    console = Console(options)
    options.scale, options.impute, options.folds = True, None, None
    if options.model is None:
        options.model = os.path.splitext(options.data)[0] + ".kompakt"
    read = (options.data, options.test, target_file(options))
    check_output(options.model, *read)
    check_output(options.predictions, *read, options.model, stream=True)
    opened = open_for_training(options, console)
    if is_large(opened.path, options):
        raise UsageError(f"{opened.path} is larger than --memory; use `kompakt train --scale --tune`, which streams.")
    raw = opened.read()
    if not opened.source.is_sparse and np.isnan(raw.X).any():
        options.impute = "median"
        console.remark("missing values are replaced by the medians of their columns")
    every = _checked(raw.X, raw.y, opened, options)
    task = task_of(every[1], options.task)
    if options.test is None:
        index, held = _held_out(every[1], task, options.seed)
        rows, truth, where = every[0][held], every[1][held], "a fifth of the rows, held out"
        outcome = _fitted(options, console, (every[0][index], every[1][index]), opened, task, tuned=True)
    else:
        outcome = _fitted(options, console, every, opened, task, tuned=True)
        test = open_for_model(options, console, options.test, outcome.model)
        raw = test.read()
        if raw.y is None:
            raise DataError(
                f"{options.test} has no target column {opened.target!r}; use `kompakt predict` for such files."
            )
        rows, truth, where = raw.X, raw.y, options.test
    found = measures(outcome.model, rows, truth)
    if found.unknown:
        console.warn(unknown_labels(found, outcome.model))
    if options.predictions:
        write_predictions(options.predictions, outcome.model, rows, "csv")
    return _written(options, console, opened, outcome, (where, found))


# -- training ---------------------------------------------------------------------------------------------


def _trained(options: Any, console: Console, opened: Table, *, tuned: bool) -> Outcome:
    if is_large(opened.path, options):
        return _streamed(options, console, tuned=tuned)
    raw = opened.read()
    rows = _checked(raw.X, raw.y, opened, options)
    return _fitted(options, console, rows, opened, task_of(rows[1], options.task), tuned=tuned)


def _checked(X: Any, y: Array | None, opened: Table, options: Any) -> tuple[Any, Array]:
    from kompakt.data.streamed import Raw

    if y is None:
        raise UsageError(f"{opened.path} has no target; name its column with --target.")
    check_targets(y, opened)
    raw = Raw(dense_if_small(X), y)
    check_rows(raw, opened, impute=options.impute is not None)
    return raw.X, y


def _fitted(
    options: Any, console: Console, rows: tuple[Any, Array], opened: Table, task: str, *, tuned: bool
) -> Outcome:
    """A machine on rows in memory, with its preparation stored inside."""
    X, y = rows
    preparation = prepared(X, impute=options.impute is not None, scale=options.scale)
    console.remark(_told(task, X.shape, y, options))
    estimator = make_estimator(options, task, y, tuned=tuned)
    began = time.monotonic()
    with _heard(console) as heard:
        estimator.fit(preparation.apply(X), y.astype(np.float64) if task == "regress" else y)
    seconds = time.monotonic() - began
    model = preparation.stored(estimator.model_, **_labelled(estimator.model_, opened, options, X.shape[0]))
    return Outcome(model, estimator, seconds, heard.code, {"task": task, "rows": X.shape[0]})


def _streamed(options: Any, console: Console, *, tuned: bool) -> Outcome:
    """A machine on a file that is read in passes."""
    opened = open_for_training(options, Console.silent(), scale=options.scale)  # the remarks were made before
    source = opened.source
    first = opened.read(0, min(opened.n_rows, 100_000))
    if first.y is None:
        raise UsageError(f"{opened.path} has no target; name its column with --target.")
    check_targets(first.y, opened)
    check_rows(first, opened, impute=options.impute is not None)
    fill = None
    if options.impute is not None and not source.is_sparse:
        fill = streamed_medians(opened)
        source = ImputedSource(source, fill)
    task = task_of(first.y, options.task)
    console.remark(
        _told(task, (opened.n_rows, source.n_features), first.y, options)
        + "; the file is larger than --memory, so it is streamed"
    )
    estimator = make_estimator(options, task, first.y, tuned=tuned)
    began = time.monotonic()
    with _heard(console) as heard:
        estimator.fit(source)
    model = estimator.model_
    kept = Preparation(fill, model.input_shift, model.input_scale)
    model = kept.stored(model, **_labelled(model, opened, options, opened.n_rows))
    return Outcome(model, estimator, time.monotonic() - began, heard.code, {"task": task, "rows": opened.n_rows})


def make_estimator(options: Any, task: str, y: Array, *, tuned: bool) -> Any:
    """`CompactSVC` or `CompactSVR` with the command's words."""
    from kompakt import CompactSVC, CompactSVR

    words: dict[str, Any] = {
        "n_basis": options.n_basis, "kernel": options.kernel, "degree": options.degree, "gamma": options.gamma,
        "coef0": options.coef0, "C": options.C, "epsilon": options.epsilon, "tol": options.tol, "loss": options.loss,
        "random_state": options.seed, "n_jobs": options.jobs, "max_time": options.max_time,
        "max_iter": options.max_iter, "verbose": options.verbose, "tune": tuned or None,
    }  # fmt: skip
    words = {name: value for name, value in words.items() if value is not None}
    if task == "regress":
        if options.class_weight or options.probability:
            raise UsageError("-w and -b are for classification; this is a regression (say -s classify if it is not).")
        return CompactSVR(**words)
    if options.class_weight:
        words["class_weight"] = _class_weights(options.class_weight, np.unique(y))
    return CompactSVC(calibrate=bool(options.probability), **words)


def _class_weights(given: list[tuple[str, float]], classes: Array) -> dict[Any, float]:
    known = {str(label): label for label in classes.tolist()}
    weights = {}
    for name, weight in given:
        label = known.get(name, known.get(name.lstrip("+")))
        if label is None:
            raise UsageError(f"-w{name}: the target has no label {name!r}; it has {', '.join(list(known)[:20])}.")
        weights[label] = weight
    return weights


@dataclass
class _Heard:
    code: int = OK


@contextmanager
def _heard(console: Console) -> Iterator[_Heard]:
    """Turn the warnings of a fit into words, and into the exit code that they mean."""
    from sklearn.exceptions import ConvergenceWarning

    from kompakt.estimators.base import InterruptedWarning

    heard = _Heard()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        yield heard
    for warning in caught:
        if issubclass(warning.category, InterruptedWarning):
            heard.code = INTERRUPTED
        elif issubclass(warning.category, ConvergenceWarning):
            heard.code = heard.code or NOT_CONVERGED
        if not issubclass(warning.category, DeprecationWarning | FutureWarning):
            console.warn(str(warning.message))


def _labelled(model: Model, opened: Table, options: Any, n_rows: int) -> dict[str, Any]:
    """What a model file says of its making."""
    meta: dict[str, Any] = {**model.meta, "command": command_line(options), "rows": int(n_rows)}
    if opened.target:
        meta["target"] = str(opened.target)
    if opened.kind.format == "svmlight":
        meta["zero_based"] = int(getattr(opened.source, "_first", 1) == 0)
    names = None if opened.names is None else np.array([str(name) for name in opened.names])
    return {"meta": meta, "feature_names": names}


def command_line(options: Any) -> str:
    """The command as it was given."""
    return "kompakt " + shlex.join(getattr(options, "argv", None) or sys.argv[1:])


def _told(task: str, shape: tuple[int, ...], y: Array, options: Any) -> str:
    return f"{shape[0]:,} rows, {shape[1]:,} features, {task_in_words(task, y, options.task)}"


def _held_out(y: Array, task: str, seed: int) -> tuple[Array, Array]:
    from kompakt.validation import holdout

    codes = np.unique(y, return_inverse=True)[1] if task == "classify" else y
    return holdout(codes, 0.2, classifier=task == "classify", random_state=seed)


def _cross_validate(options: Any, console: Console, opened: Table) -> int:
    """LIBSVM's ``-v``: every row is predicted by a machine that has not seen it; no model is written."""
    from sklearn.model_selection import KFold, StratifiedKFold

    if is_large(opened.path, options):
        raise UsageError(f"{opened.path} is larger than --memory; cross-validation needs the rows in memory.")
    raw = opened.read()
    X, y = _checked(raw.X, raw.y, opened, options)
    task = task_of(y, options.task)
    if not 2 <= options.folds <= len(y):
        raise UsageError(f"-v takes from 2 folds to the number of rows; got {options.folds}.")
    console.remark(_told(task, X.shape, y, options))
    splitter: Any = StratifiedKFold if task == "classify" else KFold
    splits = splitter(options.folds, shuffle=True, random_state=options.seed).split(X, y)
    predicted = np.empty(len(y), dtype=y.dtype if task == "classify" else np.float64)
    code = OK
    for index, held in splits:
        outcome = _fitted(options, Console.silent(), (X[index], y[index]), opened, task, tuned=options.tune)
        predicted[held] = outcome.model.predict(X[held])
        code = code or outcome.code
        if code == INTERRUPTED:
            raise KeyboardInterrupt
    found = Measures.of(task, y, predicted)
    console.result({"folds": options.folds, **found.facts}, f"cross-validation with {options.folds} folds: {found}")
    return code


def _written(
    options: Any, console: Console, opened: Table, outcome: Outcome, test: tuple[str, Measures] | None = None
) -> int:
    """Save the model and tell what it is."""
    model, estimator = outcome.model, outcome.estimator
    facts: dict[str, Any] = {
        **outcome.facts, "features": model.n_features, "n_basis": model.n_basis_,
        "seconds": round(outcome.seconds, 3), "converged": bool(estimator.converged_), "C": estimator.C_,
        "interrupted": bool(estimator.interrupted_),
    }  # fmt: skip
    lines: list[tuple[str, Any]] = [("basis vectors", f"{model.n_basis_} for {outcome.facts['rows']:,} rows")]
    search = [record for record in estimator.history_ if record.get("phase") == "tuning"]
    if search:
        facts |= {"gamma": search[-1]["gamma"], "validation_error": search[-1]["error"]}
        width = "" if search[-1]["gamma"] is None else f", gamma {search[-1]['gamma']:.4g} to start from"
        lines.append(("search", f"C {search[-1]['C']:g}{width}: validation error {search[-1]['error']:.4g}"))
    lines.append(("training", f"{outcome.seconds:.1f} s" + ("" if estimator.converged_ else ", not converged")))
    if test is not None:
        facts["test"] = test[1].facts
        lines.append((f"test ({test[0]})", str(test[1])))
    if options.model is not None:
        save(model, options.model)
        facts["model"] = options.model
        lines.append(("model", f"{options.model} ({os.path.getsize(options.model):,} bytes)"))
    console.result(facts, table(lines))
    return outcome.code
