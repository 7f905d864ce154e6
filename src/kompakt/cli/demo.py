"""``bench`` and ``demo``: what the package does, shown on the user's rows and on generated ones."""

from __future__ import annotations

import csv
import os
import time
from argparse import Namespace
from typing import Any

import numpy as np
from sklearn.svm import SVC, SVR

from kompakt import CompactSVC, CompactSVR
from kompakt.cli.console import Console, UsageError
from kompakt.cli.main import main
from kompakt.cli.predict import text_output
from kompakt.cli.tables import describe_task, open_table, task_of
from kompakt.cli.train import preparation, split
from kompakt.datasets import make_ringnorm


def bench(options: Namespace, console: Console) -> None:
    """``kompakt bench [DATA]``: test error, vectors and times of models of several sizes and of the exact SVM."""
    try:
        sizes = sorted({int(size) for size in options.sizes.split(",")})
    except ValueError:
        raise UsageError(f"--sizes takes whole numbers like 10,30,100; got {options.sizes!r}.") from None
    name, table = "ringnorm (generated)" if options.data is None else options.data, None
    if options.data is None:
        X, y = make_ringnorm(8000, random_state=options.seed)
    else:
        table = open_table(options, console, options.data)
        X, y = table.training_rows(options, console)
    task = task_of(y, options.task)
    train, test = split(y, task, 0.25, options.seed)
    schema, means = (None, {}) if table is None else table.learn(X[train], y[train], classes=task == "classify")
    if schema is not None:
        coded, X = X, schema.finish(X)
        X[train] = schema.finish(coded[train], means)
    X = preparation(options, X).fit(X[train]).transform(X)
    console.remark(
        f"{name}: {len(train):,} rows to train on, {len(test):,} to test on, {X.shape[1]:,} features, "
        + describe_task(task, y, options.task)
    )
    compact, exact = (CompactSVC, SVC) if task == "classify" else (CompactSVR, SVR)
    models: dict[str, Any] = {
        f"kompakt {size}": compact(n_basis=size, random_state=options.seed) for size in sizes if size < len(train)
    }
    if len(train) <= options.exact_rows:
        models["exact SVM"] = exact()
    else:
        console.remark(f"no exact SVM beyond {options.exact_rows:,} rows (--exact-rows)")
    measure = "test error" if task == "classify" else "mean squared error"
    lines = [f"{'model':16} {measure:>18} {'vectors':>8} {'fit':>9} {'per row':>10}"]
    results = []
    for label, model in models.items():
        began = time.perf_counter()
        model.fit(X[train], y[train])
        fitted = time.perf_counter()
        predicted = model.predict(X[test])
        microseconds = 1e6 * (time.perf_counter() - fitted) / len(test)
        error = float(np.mean(predicted != y[test] if task == "classify" else (predicted - y[test]) ** 2))
        vectors = int(model.n_basis_ if hasattr(model, "n_basis_") else len(model.support_))
        results.append(
            {
                "model": label, "error": error, "vectors": vectors, "fit_seconds": fitted - began,
                "predict_microseconds": microseconds,
            }
        )  # fmt: skip
        text = f"{100 * error:.2f} %" if task == "classify" else f"{error:.5g}"
        lines.append(f"{label:16} {text:>18} {vectors:>8,} {fitted - began:>7.2f} s {microseconds:>7.2f} us")
    console.result({"data": name, "task": task, "results": results}, "\n".join(lines))


def demo(options: Namespace, console: Console) -> int:
    """``kompakt demo``: every step from a CSV file to an exported model, each as the command that does it."""
    os.makedirs(options.folder, exist_ok=True)
    files = ("people.csv", "new.csv", "model.kompakt", "predictions.csv", "model.py")
    rows, new, model, predictions, code_file = (os.path.join(options.folder, name) for name in files)
    _write_people(rows, 1500, seed=0)
    _write_people(new, 500, seed=1)
    console.remark(f"{rows} and {new}: generated rows with a header, words as labels, and missing values")
    flags = ["--json"] if console.json else ["-q"] if console.quiet else []
    for command in (
        ["train", rows, model, "--target", "buys", "--impute", "median", "--scale", "-n", "20"],
        ["predict", new, model, predictions],
        ["inspect", model],
        ["export", model, code_file, "--to", "numpy"],
    ):
        console.remark(f"\n$ kompakt {' '.join(command)}")
        if code := main([*command, *flags]):
            return code
    return 0


def _write_people(path: str, n_rows: int, seed: int) -> None:
    """Write a table of generated people with a header, words as labels, and some cells left empty."""
    rng = np.random.default_rng(seed)
    age, income, visits = rng.uniform(18, 80, n_rows), rng.lognormal(10, 0.5, n_rows), rng.poisson(4, n_rows)
    wish = np.sin(age / 12) + 0.6 * np.log(income / 22_000) + 0.15 * (visits - 4) + 0.3 * rng.normal(size=n_rows)
    labels = np.where(wish > 0, "yes", "no")
    with text_output(path) as file:
        assert file is not None
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(["age", "income", "visits", "buys"])
        for row in range(n_rows):
            cells = [f"{age[row]:.1f}", f"{income[row]:.0f}", str(visits[row]), labels[row]]
            if rng.random() < 0.05:
                cells[rng.integers(3)] = ""
            writer.writerow(cells)
