"""``train``, ``tune`` and ``auto``: from a file of rows to a model file."""

from __future__ import annotations

import os
import re
import shlex
import time
import warnings
from argparse import Namespace
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.exceptions import ConvergenceWarning
from sklearn.impute import SimpleImputer
from sklearn.model_selection import KFold, StratifiedKFold
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import StandardScaler

from kompakt import CompactNovelty, CompactSVC, CompactSVR
from kompakt.cli.console import INTERRUPTED, NOT_CONVERGED, OK, Console, DataError, UsageError, two_columns
from kompakt.cli.predict import TASKS, Measures, write_predictions
from kompakt.cli.tables import PART_ROWS, Table, check_output, describe_task, open_table, target_file, task_of
from kompakt.data.streamed import Raw, Source
from kompakt.data.table import TableSchema
from kompakt.heldout import holdout
from kompakt.io import save
from kompakt.io.fitted import model_of
from kompakt.model import Model
from kompakt.record import TrainingRecord
from kompakt.run import Run
from kompakt.train.running import InterruptedWarning

Array = np.ndarray
Compact = CompactSVC | CompactSVR | CompactNovelty
Steps = list[tuple[str, Any]]

#: rows by which the task of a streamed file is decided, and its medians are estimated
_FIRST_ROWS, _MEDIAN_ROWS = 100_000, 200_000
#: rows of a class without which it cannot be split into rows to train on and rows held out
_LEAST_OF_A_CLASS = 2
#: rows without which logarithms of targets are not compared with the targets themselves, and rows for it at most
_LEAST_ROWS_FOR_LINKS, _MOST_ROWS_FOR_LINKS = 60, 3000
#: training rows, at most, whose predictions are compared with a constant
_CHECKED_ROWS = 10_000


@dataclass
class Training:
    """A trained model and how its training went."""

    model: Model
    estimator: Compact
    seconds: float
    code: int

    def features(self, coded: Any) -> Any:
        """Features of rows as their file gives them: what was learned of levels comes from the training rows."""
        schema = self.model.inputs.schema
        return coded if schema is None else schema.finish(coded)


# -- commands ----------------------------------------------------------------------------------------------


def train(options: Namespace, console: Console) -> int:
    """``kompakt train DATA MODEL`` and ``kompakt tune DATA [MODEL]``."""
    if options.command == "train" and options.model is None and options.folds is None:
        raise UsageError("train needs a file for the model: kompakt train DATA MODEL (or -v N to cross-validate only).")
    check_output(options.model, options.data, target_file(options))
    table = open_table(options, console, options.data, scale=options.scale)
    is_large = table.is_larger_than(options.memory)
    if is_large and options.folds is not None:
        raise UsageError(f"{table.path} is larger than --memory; cross-validation needs the rows in memory.")
    if is_large:
        return _save_and_report(options, console, _train_streamed(options, console, table))
    X, y = table.training_rows(options, console)
    task = task_of(y, options.task)
    X, y = without_rare_classes(options, console, task, X, y)
    if options.folds is not None:
        return _cross_validate(options, console, table, task, X, y)
    training = _train(options, console, table, task, X, y)
    if task == "classify":
        measures, sample = Measures(task), slice(None, None, -(-len(y) // _CHECKED_ROWS))
        measures.add(y[sample], training.model.predict(training.features(X[sample])))
        measures.warn_of_a_constant(console, "training rows", weighted=bool(options.class_weight))
    return _save_and_report(options, console, training)


def auto(options: Namespace, console: Console) -> int:
    """``kompakt auto TRAIN [TEST]``: scaling, search, training and evaluation."""
    if options.model is None:
        options.model = os.path.splitext(options.data)[0] + ".kompakt"
    files = (options.data, options.test, target_file(options))
    check_output(options.model, *files)
    check_output(options.predictions, *files, options.model, stream=True)
    table = open_table(options, console, options.data)
    if table.is_larger_than(options.memory):
        raise UsageError(f"{table.path} is larger than --memory; use `kompakt train --tune`, which streams.")
    options.impute = None if table.is_sparse else "median"
    X, y = table.training_rows(options, console)
    if options.impute and np.isnan(X).any():
        console.remark("missing values are replaced by the medians of their columns")
    else:
        options.impute = None
    task = task_of(y, options.task)
    X, y = without_rare_classes(options, console, task, X, y)
    if options.test is None:
        index, test = split(y, task, 0.2, options.seed)
        if options.max_time is not None:
            options.max_time /= 2  # of two fits, each has half of the time
        tested = _train(options, console, table, task, X[index], y[index])
        rows, where = Raw(tested.features(X[test]), y[test]), "a fifth, held out"
        measures = write_predictions(tested.model, [rows], options.predictions)
        training = _train(options, Console(quiet=True), table, task, X, y)  # what is saved has seen every row
        training = replace(training, seconds=tested.seconds + training.seconds, code=training.code or tested.code)
    else:
        training = _train(options, console, table, task, X, y)
        test_table = open_table(options, console, options.test, model=training.model)
        rows, where = test_table.read(), options.test
        test_table.warn_of_unseen_cells(console)
        if rows.y is None and task != "novelty":
            raise DataError(
                f"{options.test} has no target column {table.target!r}; use `kompakt predict` for such files."
            )
        measures = write_predictions(training.model, [rows], options.predictions)
    measures.warn_of_unknown_labels(console)
    measures.warn_of_a_constant(console, "test rows", weighted=bool(options.class_weight))
    return _save_and_report(options, console, training, (where, measures))


# -- training ----------------------------------------------------------------------------------------------


def preparation(options: Namespace, X: Any) -> Pipeline:
    """What ``--impute`` and ``--scale`` ask for; sparse rows are not imputed and not shifted."""
    impute = scale = "passthrough"
    if options.impute and not sparse.issparse(X):
        impute = SimpleImputer(strategy="median", keep_empty_features=True)
    if options.scale:
        scale = StandardScaler(with_mean=not sparse.issparse(X))
    return Pipeline([("impute", impute), ("scale", scale)])


def split(y: Array, task: str, share: float, seed: int) -> tuple[Array, Array]:
    """Rows to train on and rows to test on."""
    codes = y if task == "regress" else np.unique(y, return_inverse=True)[1]
    n_held = int(np.ceil(share * len(y)))
    stratified = task != "regress" and min(n_held, len(y) - n_held) > codes.max()  # each part has a row of each class
    stratified = stratified and (task == "classify" or int(np.bincount(codes).min()) > 1)  # one outlier may be marked
    return holdout(codes, share, stratify=stratified, random_state=seed)


def without_rare_classes(options: Namespace, console: Console, task: str, X: Any, y: Array) -> tuple[Any, Array]:
    """Rows without those of classes that are too few to be split, each of which is named."""
    if task != "classify":
        return X, y
    labels, codes, counts = np.unique(y, return_inverse=True, return_counts=True)
    # `auto` holds out rows of its own before the search does
    least = _LEAST_OF_A_CLASS + (options.command == "auto" and options.test is None)
    rare = counts < least
    if not rare.any():
        return X, y
    names = ", ".join(f"{label!s} ({count})" for label, count in zip(labels[rare][:10], counts[rare][:10], strict=True))
    ellipsis = ", ..." if rare.sum() > 10 else ""
    text = f"{rare.sum()} classes have fewer than {least} rows, too few to learn: {names}{ellipsis}"
    flag = "; -s regress if the target is a quantity" if y.dtype.kind in "iuf" else ""
    if np.sum(~rare) < 2:
        if options.command != "auto" and not options.tune:
            return X, y  # nothing is held out
        raise DataError(f"{text}. Choose another target with --target, or give more rows{flag}.")
    if options.strict:
        raise DataError(f"{text}. Leave them out, or run without --strict{flag}.")
    console.warn(f"{text}. Their rows are left out{flag}")
    kept = ~rare[codes]
    return X[kept], y[kept]


def _train(options: Namespace, console: Console, table: Table, task: str, X: Any, y: Array) -> Training:
    """A model of rows in memory, with their preparation stored inside."""
    target, choice = y.astype(np.float64) if task == "regress" else y, None
    if task == "regress" and options.log_target is None:
        choice = choose_link(options, table, X, target)
    is_log = bool(options.log_target) if choice is None else choice.is_log
    if is_log:
        if task != "regress" or target.min() <= 0:
            raise UsageError("--log-target is for a regression on positive numbers; some targets are none.")
        target = np.log(target)
    schema, means = table.learn(X, target, classes=task == "classify")
    features = X if schema is None else schema.finish(X, means)
    console.remark(f"{X.shape[0]:,} rows, {features.shape[1]:,} features, {describe_task(task, y, options.task)}")
    prepare = preparation(options, features)
    prepared, estimator = prepare.fit_transform(features), _estimator(options, task, y)
    training = _fit(options, console, table, schema, estimator, prepare.steps, X.shape[0], prepared, target)
    if is_log:
        meta = {**training.model.meta, "logarithms": "as asked" if choice is None else choice.why}
        model = replace(of_logarithms(training.model, features, y), meta=meta)
        training = replace(training, model=model)
    return training


@dataclass(frozen=True)
class LinkChoice:
    """Whether a target is modelled in logarithms, and the held-out errors that decided it."""

    is_log: bool
    why: str


def choose_link(options: Namespace, table: Table, X: Any, y: Array) -> LinkChoice | None:
    """Compare models of positive, skewed targets and of their logarithms on held-out rows, in the unit of the targets.

    Small models that are not refined are compared, on the same folds. None where the targets are not skewed.
    """
    if len(y) < _LEAST_ROWS_FOR_LINKS or y.min() <= 0 or not abs(_skewness(np.log(y))) < _skewness(y) > 1:
        return None
    rows = np.random.default_rng(options.seed).permutation(len(y))[:_MOST_ROWS_FOR_LINKS]
    errors: dict[bool, list[Array]] = {False: [], True: []}
    for train, held_out in KFold(3).split(rows):
        train, held_out = rows[train], rows[held_out]
        for is_log, fold_errors in errors.items():
            target = np.log(y[train]) if is_log else y[train]
            schema, means = table.learn(X[train], target, classes=False)
            features, new = X[train], X[held_out]
            if schema is not None:
                features, new = schema.finish(features, means), schema.finish(new)
            prepare = preparation(options, features)
            gamma = None if isinstance(options.gamma, str) else options.gamma
            machine = _estimator(options, "regress", target).set_params(
                n_basis=min(50, len(train) // 4), gamma=gamma, refine=False, tune=False, verbose=0
            )
            model = model_of(Pipeline([*prepare.steps, ("estimator", machine)]).fit(features, target))
            model = of_logarithms(model, features, y[train]) if is_log else model
            fold_errors.append((model.predict(new) - y[held_out]) ** 2)
    plain, of_logs = (np.concatenate(errors[is_log]) for is_log in (False, True))
    gain = plain - of_logs
    is_better = bool(gain.mean() > gain.std(ddof=1) / np.sqrt(len(gain)))
    return LinkChoice(is_better, f"held-out squared error {of_logs.mean():.4g}, against {plain.mean():.4g} without")


def of_logarithms(model: Model, features: Any, y: Array) -> Model:
    """The model whose outputs are logarithms of values, with the factor that gives the values the mean of the targets.

    The exponential of a mean of logarithms is too low for a mean of values (Duan 1983).
    """
    model = replace(model, link="log")
    factor = float(np.sum(y) / np.sum(model.predict(features)))
    return replace(model, intercept=model.intercept + np.log(factor))


def _skewness(values: Array) -> float:
    spread = float(values.std())
    return float(np.mean((values - values.mean()) ** 3)) / spread**3 if spread > 0 else 0.0


def _train_streamed(options: Namespace, console: Console, table: Table) -> Training:
    """A model of a file that is read in passes."""
    if table.source is None:
        n_lacking = table.encode_to_file(options.task, options.scale, impute=options.impute is not None)
        if n_lacking:
            console.warn(f"{table.path}: the target is missing in {n_lacking:,} row(s), which are left out")
    source, steps = table.source, []
    assert source is not None
    _, y = table.training_rows(options, console, _FIRST_ROWS)
    if options.impute and not source.is_sparse:
        step = max(1, -(-table.n_rows // _MEDIAN_ROWS))
        blocks = enumerate(table.parts(Run(), impute=True))
        sample = np.concatenate([raw.X[-number * PART_ROWS % step :: step] for number, raw in blocks])
        imputer = SimpleImputer(strategy="median", keep_empty_features=True).fit(sample)
        source, steps = ImputedSource(source, imputer.statistics_), [("impute", imputer)]
    task = task_of(y, options.task)
    console.remark(
        f"{table.n_rows:,} rows, {source.n_features:,} features, {describe_task(task, y, options.task)}; the file is "
        "larger than --memory, so it is streamed"
    )
    return _fit(options, console, table, table.schema, _estimator(options, task, y), steps, table.n_rows, source)


class ImputedSource(Source):
    """A source whose missing values are replaced as they are read."""

    def __init__(self, inner: Source, fill: Array) -> None:
        self.inner, self.fill = inner, fill
        self.n_index_passes = getattr(inner, "n_index_passes", 0)
        for name in Source.__annotations__:
            setattr(self, name, getattr(inner, name))

    def read(self, start: int, stop: int) -> Raw:
        raw = self.inner.read(start, stop)
        return Raw(np.where(np.isnan(raw.X), self.fill, raw.X).astype(self.dtype, copy=False), raw.y, raw.w)

    def where(self, row: int) -> str:
        return self.inner.where(row)


def _estimator(options: Namespace, task: str, y: Array) -> Compact:
    """`CompactSVC`, `CompactSVR` or `CompactNovelty` with the parameters of the command."""
    names = ("n_basis", "kernel", "degree", "gamma", "coef0", "C", "epsilon", "tol", "loss", "max_time", "max_iter")
    parameters: dict[str, Any] = {name: getattr(options, name) for name in (*names, "verbose", "tune")}
    parameters |= {"random_state": options.seed, "n_jobs": options.jobs}
    parameters = {name: value for name, value in parameters.items() if value is not None}
    if task != "novelty" and options.nu is not None:
        raise UsageError("--nu is for novelty detection (-s novelty).")
    if task != "classify" and (options.class_weight or options.probability):
        raise UsageError("-w and -b are for classification; this is none (say -s classify if it is one).")
    if task != "regress" and options.interval is not None:
        raise UsageError("--interval is for regression (-s regress).")
    if task == "regress":
        return CompactSVR(interval=options.interval, **parameters)
    if task == "novelty":
        if options.n_basis == "auto" or options.epsilon is not None:
            raise UsageError("novelty detection takes no -p, and a number of vectors with -n.")
        parameters = {name: value for name, value in parameters.items() if name != "tune"}
        return CompactNovelty(**parameters, **({} if options.nu is None else {"nu": options.nu}))
    if "balanced" in options.class_weight:
        if len(options.class_weight) > 1:
            raise UsageError("-w balanced finds the weights of all classes; give no other -w with it.")
        parameters["class_weight"] = "balanced"
    elif options.class_weight:
        labels = {str(label): label for label in np.unique(y).tolist()}
        labels |= {f"{label:g}": label for label in labels.values() if isinstance(label, float)}
        weights = parameters["class_weight"] = {}
        for name, weight in options.class_weight:
            label = labels.get(name, labels.get(name.lstrip("+")))
            if label is None:
                raise UsageError(f"-w{name}: the target has no label {name!r}; it has {', '.join(list(labels)[:20])}.")
            weights[label] = weight
    return CompactSVC(calibrate=bool(options.probability), **parameters)


def _fit(
    options: Namespace, console: Console, table: Table, schema: TableSchema | None, estimator: Compact, steps: Steps,
    n_rows: int, *rows: Any,
) -> Training:  # fmt: skip
    """Fit to rows that `steps` have prepared, show warnings as remarks, and say in the model how it was made."""
    began, code = time.monotonic(), OK
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            estimator.fit(*rows)
        except ValueError as error:
            if not re.match("A stratified|Holding out", str(error)):
                raise
            raise DataError(
                f"there are too few rows for so many classes, so that none can be held out: {error} Give more rows, "
                "leave rare classes out, or train without a search (kompakt train); -s regress if the target is a "
                "quantity."
            ) from error
    seconds = time.monotonic() - began
    for warning in caught:
        if issubclass(warning.category, InterruptedWarning):
            code = INTERRUPTED
        elif issubclass(warning.category, ConvergenceWarning):
            code = code or NOT_CONVERGED
        if not issubclass(warning.category, DeprecationWarning | FutureWarning):
            console.warn(str(warning.message))
    model = model_of(Pipeline([*steps, ("estimator", estimator)]))
    meta: dict[str, Any] = {**model.meta, "command": options.command_line, "rows": int(n_rows)}
    if table.target:
        meta["target"] = table.target
    if table.order:
        meta["target_order"] = list(table.order)
    if table.file.format == "svmlight":
        meta["zero_based"] = int(table.first_feature == 0)
    names = table.names if schema is None else schema.feature_names
    inputs = replace(model.inputs, schema=schema)
    model = replace(model, meta=meta, feature_names=None if names is None else np.array(names), inputs=inputs)
    return Training(model, estimator, seconds, code)


def _cross_validate(options: Namespace, console: Console, table: Table, task: str, X: Any, y: Array) -> int:
    """LIBSVM's ``-v``: every row is predicted by a model that has not seen it; no model is written."""
    if not 2 <= options.folds <= len(y):
        raise UsageError(f"-v takes from 2 folds to the number of rows; got {options.folds}.")
    console.remark(f"{X.shape[0]:,} rows, {describe_task(task, y, options.task)}")
    splitter: Any = StratifiedKFold if task == "classify" else KFold
    predicted = np.empty(len(y), dtype=y.dtype if task == "classify" else np.float64)
    code = OK
    for index, test in splitter(options.folds, shuffle=True, random_state=options.seed).split(X, y):
        training = _train(options, Console(quiet=True), table, task, X[index], y[index])
        predicted[test] = training.model.predict(training.features(X[test]))
        code = code or training.code
        if code == INTERRUPTED:
            raise KeyboardInterrupt
    measures = Measures(task)
    measures.add(y, predicted)
    measures.warn_of_a_constant(console, "rows", weighted=bool(options.class_weight))
    text = f"cross-validation with {options.folds} folds: {measures}"
    console.result({"folds": options.folds, **measures.facts}, text)
    return code


#: the kinds of models that a search tries
_MODELS = {
    "plain": "not refined", "refined": "refined", "larger": "twice the vectors", "linear": "linear",
    "constant": "constant",
}  # fmt: skip


def _leaderboard(record: TrainingRecord) -> list[dict[str, Any]]:
    """The chosen setting of a search first, then the best of every other kind of model, by held-out error."""
    best = {candidate.model: candidate for candidate in reversed(record.tried[1:])}
    best.pop(record.tried[0].model, None)
    names: dict[str, None] = dict.fromkeys(("C", "gamma", "epsilon"))
    return [
        {"model": tried.model, "error": tried.error, "spread": tried.deviation, **names, **tried.setting}
        for tried in (record.tried[0], *sorted(best.values(), key=lambda candidate: candidate.error))
    ]


def _save_and_report(
    options: Namespace, console: Console, training: Training, test: tuple[str, Measures] | None = None
) -> int:
    """Save the model and tell what it is."""
    model, estimator = training.model, training.estimator
    n_rows = model.meta["rows"]
    facts: dict[str, Any] = {
        "task": TASKS[model.kind], "rows": n_rows, "features": model.n_features,
        "n_basis": model.n_basis_,
        "seconds": round(training.seconds, 3), "converged": bool(estimator.converged_), "C": estimator.C_,
        "interrupted": bool(estimator.interrupted_),
    }  # fmt: skip
    record = model.record
    assert record is not None
    fitted = ["refined" if record.settings["refined"] == "yes" else "not refined"]
    fitted += [f"{name} {_shown(record.settings[name])}" for name in ("C", "gamma") if name in record.settings]
    facts["refined"] = record.settings["refined"] == "yes"
    lines: list[tuple[str, Any]] = [("basis vectors", f"{model.n_basis_} for {n_rows:,} rows, {', '.join(fitted)}")]
    if record.tried:
        board = _leaderboard(record)
        facts |= {"gamma": board[0]["gamma"], "validation_error": board[0]["error"], "leaderboard": board}
        facts["remarks"] = [remark for note in estimator.history_ for remark in note.get("remarks", ())]
        facts["why"] = record.why
        width = "" if board[0]["gamma"] is None else f", gamma {board[0]['gamma']:.4g} to start from"
        lines.append(("search", f"C {board[0]['C']:g}{width}: validation error {board[0]['error']:.4g}"))
        lines.append(("", record.why))
        for number, row in enumerate(board, start=1):
            settings = (f"{name} {row[name]:.4g}" for name in ("C", "gamma", "epsilon") if row[name] is not None)
            spread = "" if row["spread"] is None else f" +- {row['spread']:.2g}"
            kind = _MODELS.get(row["model"], row["model"])
            lines.append((f"  {number}. {kind}", f"{row['error']:.4g}{spread}  {', '.join(settings)}".rstrip()))
        lines += [("", remark) for remark in facts["remarks"]]
    facts["link"] = model.link
    if model.link == "log":
        lines.append(("logarithms", f"of the target are modelled: {model.meta['logarithms']} (--no-log-target)"))
    lines.append(("training", f"{training.seconds:.1f} s" + ("" if estimator.converged_ else ", not converged")))
    if test is not None:
        facts["test"] = test[1].facts
        lines.append((f"test ({test[0]})", str(test[1])))
    if options.model is not None:
        save(model, options.model)
        facts["model"] = options.model
        lines.append(("model", f"{options.model} ({os.path.getsize(options.model):,} bytes)"))
    lines.append(("next", _next_command(options)))
    console.result(facts, two_columns(lines))
    return training.code


def _next_command(options: Namespace) -> str:
    """What a user types after this command."""
    data, model = (None if path is None else shlex.quote(path) for path in (options.data, options.model))
    if model is None:
        return f"kompakt train {data} {shlex.quote(os.path.splitext(options.data)[0] + '.kompakt')} --tune"
    if options.command == "auto":
        return f"kompakt report {data} {model} -o {shlex.quote(os.path.splitext(options.model)[0] + '.html')}"
    return f"kompakt predict NEW.csv {model} predictions.csv"


def _shown(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)
