"""``bench`` and ``demo``."""

from __future__ import annotations

import os
import time
from typing import Any

import numpy as np

from kompakt.cli.console import Console, UsageError
from kompakt.cli.tables import check_rows, check_targets, dense_if_small, prepared, task_in_words, task_of

Array = np.ndarray


def bench(options: Any) -> int | None:
    """``kompakt bench [DATA]``: test error, vectors and times of machines of several sizes and of the exact SVM."""
    console = Console(options)
    try:
        sizes = sorted({int(size) for size in options.sizes.split(",")})
    except ValueError:
        raise UsageError(f"--sizes takes whole numbers like 10,30,100; got {options.sizes!r}.") from None
    X, y, name = _bench_rows(options, console)
    task = task_of(y, options.task)
    train, test = _split(y, task, options.seed)
    preparation = prepared(X[train], impute=options.impute is not None, scale=options.scale)
    X = preparation.apply(X)
    console.remark(
        f"{name}: {len(train):,} rows to train on, {len(test):,} to test on, {X.shape[1]:,} features, "
        + task_in_words(task, y, options.task)
    )
    rows: list[dict[str, Any]] = []
    for label, machine in _machines(task, sizes, len(train), options, console):
        began = time.perf_counter()
        machine.fit(X[train], y[train])
        fitted = time.perf_counter()
        predicted = machine.predict(X[test])
        done = time.perf_counter()
        wrong = predicted != y[test] if task == "classify" else (predicted - y[test]) ** 2
        vectors = machine.n_basis_ if hasattr(machine, "n_basis_") else len(machine.support_)
        rows.append(
            {
                "machine": label,
                "error": float(np.mean(wrong)),
                "vectors": int(vectors),
                "fit_seconds": fitted - began,
                "predict_microseconds": 1e6 * (done - fitted) / len(test),
            }
        )
    what = "test error" if task == "classify" else "mean squared error"
    lines = [f"{'machine':16} {what:>18} {'vectors':>8} {'fit':>9} {'per row':>10}"]
    for row in rows:
        error = f"{100 * row['error']:.2f} %" if task == "classify" else f"{row['error']:.5g}"
        lines.append(
            f"{row['machine']:16} {error:>18} {row['vectors']:>8,} {row['fit_seconds']:>7.2f} s "
            f"{row['predict_microseconds']:>7.2f} us"
        )
    console.result({"data": name, "task": task, "results": rows}, "\n".join(lines))
    return None


def _bench_rows(options: Any, console: Console) -> tuple[Any, Array, str]:
    if options.data is None:
        from kompakt.datasets import make_ringnorm

        X, y = make_ringnorm(8000, random_state=options.seed)
        return X, y, "ringnorm (generated)"
    from kompakt.cli.tables import open_for_training

    opened = open_for_training(options, console)
    raw = opened.read()
    assert raw.y is not None
    check_targets(raw.y, opened)
    check_rows(raw, opened, impute=options.impute is not None)
    return dense_if_small(raw.X), raw.y, options.data


def _split(y: Array, task: str, seed: int) -> tuple[Array, Array]:
    from kompakt.validation import holdout

    codes = np.unique(y, return_inverse=True)[1] if task == "classify" else y
    return holdout(codes, 0.25, classifier=task == "classify", random_state=seed)


def _machines(task: str, sizes: list[int], n_rows: int, options: Any, console: Console) -> list[tuple[str, Any]]:
    from sklearn.svm import SVC, SVR

    from kompakt import CompactSVC, CompactSVR

    compact: Any = CompactSVC if task == "classify" else CompactSVR
    machines = [
        (f"kompakt {size}", compact(n_basis=size, random_state=options.seed)) for size in sizes if size < n_rows
    ]
    if n_rows <= options.exact_rows:
        machines.append(("exact SVM", SVC() if task == "classify" else SVR()))
    else:
        console.remark(f"no exact SVM beyond {options.exact_rows:,} rows (--exact-rows)")
    return machines


def demo(options: Any) -> int | None:
    """``kompakt demo``: every step from a CSV file to an exported model, each as the command that does it."""
    from kompakt.cli.main import main

    console = Console(options)
    os.makedirs(options.folder, exist_ok=True)
    rows, new, model = (os.path.join(options.folder, name) for name in ("people.csv", "new.csv", "model.kompakt"))
    write_people(rows, 1500, seed=0)
    write_people(new, 500, seed=1)
    code_file = os.path.join(options.folder, "model.py")
    commands = [
        ["train", rows, model, "--target", "buys", "--impute", "median", "--scale", "-n", "20"],
        ["predict", new, model, os.path.join(options.folder, "predictions.csv")],
        ["inspect", model],
        ["export", model, code_file, "--to", "numpy"],
    ]
    console.remark(f"{rows} and {new}: generated rows with a header, words as labels, and missing values")
    for command in commands:
        console.remark(f"\n$ kompakt {' '.join(command)}")
        flags = ["--json"] * console.json + ["-q"] * (console.quiet and not console.json)
        code = main([*command, *flags])
        if code:
            return code
    return None


def write_people(path: str, n_rows: int, seed: int) -> None:
    """A table of generated people with a header, words as labels, and some cells left empty."""
    import csv

    from kompakt.cli.predict import text_output

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
