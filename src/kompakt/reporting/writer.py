"""`report`: a page about a trained machine that needs nothing but itself."""

from __future__ import annotations

import os
import platform
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np

from kompakt.io.files import write_atomically
from kompakt.parallel import block_threads
from kompakt.reporting.about_data import data_section, relevance_of, settings_section, spread_of, timings_section
from kompakt.reporting.about_machine import (
    calibration_section,
    error_text,
    interval_text,
    path_section,
)
from kompakt.reporting.about_vectors import vectors_section
from kompakt.reporting.markup import code, esc, facts, number, percent, seconds, section
from kompakt.reporting.measure import Measured, measure
from kompakt.reporting.nested import nested_path
from kompakt.reporting.page import page
from kompakt.reporting.subject import Sample, Subject, sample_of, seems_trained_on, subject_of

Array = np.ndarray

#: bytes that a page may have
MOST_BYTES = 2_000_000


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
) -> Path:
    """Write one self-contained HTML page about a trained machine.

    The page shows the data, the chosen parameters and why, errors with a confusion matrix (or residuals) and the
    prediction time at every size under a slider, calibration, the basis vectors, the time spent, and how to load and
    export the machine.  It loads nothing from a network, stays under 2 MB, and works on a phone, by keyboard, in light
    and dark.

    Parameters
    ----------
    estimator : fitted kompakt estimator, Model, or a pipeline or search that holds one
        Of a `Model` loaded from a file, the training is unknown and left out.  scikit-learn's kernel SVMs are
        understood too.
    X : array-like or sparse matrix of shape (n_samples, n_features)
        Rows to measure on: rows that the machine has not seen tell the truth.
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
        For the rows drawn.

    Returns
    -------
    pathlib.Path
        The page.

    Examples
    --------
    >>> import tempfile, pathlib, kompakt
    >>> from sklearn.datasets import make_moons
    >>> X, y = make_moons(300, noise=0.2, random_state=0)
    >>> machine = kompakt.CompactSVC(n_basis=10, random_state=0).fit(X, y)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     page = kompakt.report(machine, X, y, pathlib.Path(folder, "moons.html"))
    ...     page.stat().st_size < 2_000_000
    True
    """
    folder = os.path.dirname(os.path.abspath(path))
    if not os.path.isdir(folder):  # known before any work is done
        raise FileNotFoundError(f"the folder of the page does not exist: {folder}")
    clock = _Clock()
    with block_threads(n_jobs):
        with clock.phase("reading the rows"):
            subject, rows = subject_of(estimator, X)
            sample = sample_of(subject, rows, y, int(max_rows), random_state)
            seen = sample.n_rows == sample.n_given and seems_trained_on(subject, sample.X)
        with clock.phase("smaller machines"):
            nested = nested_path(subject.model, sample.X)
        with clock.phase("errors and times"):
            measured = measure(nested, sample)
        with clock.phase("pictures"):
            relevant = _relevant_features(subject, sample)
            sizes, data = path_section(subject, sample, nested, measured)
            parts = [
                ("path", "Size and error", sizes),
                ("data", "Data", data_section(subject, sample, relevant)),
                ("settings", "Parameters", settings_section(subject, sample)),
                ("calibration", "Calibration", calibration_section(subject, sample, measured)),
                ("vectors", "Vectors", vectors_section(subject, sample, nested, relevant, image_shape)),
            ]
    parts.append(("timings", "Timings", timings_section(subject, clock.phases)))
    parts.append(("use", "Use it", _use_section(subject, sample, model_path)))
    parts.append(("origin", "Origin", _origin_section(subject, path, command)))
    name = title or f"{subject.name}: report"
    header = _header(name, subject, sample, measured, seen)
    text = page(name, header, parts, data, _footer()).encode("utf-8", errors="replace")
    if len(text) > MOST_BYTES:
        raise ValueError(
            f"the page would have {len(text):,} bytes, more than {MOST_BYTES:,}: shorten the title or the command."
        )
    write_atomically(path, [text])
    return Path(path)


class _Clock:
    """Seconds of the phases of a report."""

    def __init__(self) -> None:
        self.phases: list[tuple[str, float]] = []

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        began = time.perf_counter()
        yield
        self.phases.append((name, time.perf_counter() - began))


def _relevant_features(subject: Subject, sample: Sample) -> Array:
    """Features in the order of what they do for the kernel, or for the vectors where all widths are one."""
    d = subject.model.n_features
    gamma = getattr(subject.model.kernel, "gamma", None)
    if gamma is not None and np.ndim(gamma):
        return np.argsort(-relevance_of(subject.model, sample), kind="stable")
    vectors = subject.model.basis_vectors_
    if vectors is None or len(vectors) < 2:
        return np.arange(d)
    spread = spread_of(sample)
    return np.argsort(
        -np.where(spread > 0, np.std(vectors, axis=0) / np.where(spread > 0, spread, 1.0), 0.0), kind="stable"
    )


def _header(name: str, subject: Subject, sample: Sample, measured: Measured, seen: bool) -> str:
    regression = not sample.classes
    cards = [
        ("root mean squared error" if regression else "error", error_text(measured, -1, regression)),
        ("vectors", number(subject.model.n_basis_)),
        ("prediction", f"{seconds(measured.seconds[-1])} per row"),
        ("rows measured", number(sample.n_rows)),
    ]
    if regression:
        assert measured.r2 is not None
        cards.insert(1, ("R²", f"{measured.r2[-1]:.3f}"))
    else:
        cards.insert(1, ("most frequent class alone", f"{percent(measured.baseline)} error"))
    origin = (
        "The given rows are the training rows (the basis vectors are found among them), so errors are flattering."
        if seen
        else "Errors are those on the given rows; if the machine was trained on them, they are flattering."
    )
    interval = "" if regression else f" {interval_text(measured, sample.n_rows)}."
    notes = [*subject.notes, *sample.notes, *_cautions(subject, sample)]
    listing = f'<ul class="notes">{"".join(f"<li>{esc(note, 400)}</li>" for note in notes)}</ul>' if notes else ""
    return f"<h1>{esc(name)}</h1>{facts(cards)}<p class='soft'>{origin}{interval}</p>{listing}"


def _cautions(subject: Subject, sample: Sample) -> list[str]:
    """What a user should know before believing the numbers."""
    found = []
    if getattr(subject.estimator, "converged_", True) is False:
        found.append("The solver did not converge: raise max_iter or max_time, scale the inputs, or lower C.")
    model = subject.model
    spread = spread_of(sample)
    moving = spread[spread > 0]
    if model.kernel.name != "precomputed":
        if (spread == 0).any():
            found.append(f"{int((spread == 0).sum()):,} feature(s) are constant on the rows looked at.")
        scaled = model.input_scale is not None
        if not scaled and len(moving) > 1 and moving.max() > 100 * moving.min():
            found.append("Features differ in scale by more than 100 times: scale them, or the large ones decide alone.")
    if sample.classes and sample.counts.max() > 20 * max(1, sample.counts[sample.counts > 0].min()):
        found.append("The classes are very unequal: look at the rows of the confusion matrix, not at the error alone.")
    return found


def _use_section(subject: Subject, sample: Sample, model_path: Any) -> str:
    model = subject.model
    if model.kernel.name in ("precomputed", "callable"):
        text = "cannot be saved or exported: what makes its kernel values is not in the machine."
        kernel = f"A machine with a {esc(model.kernel.name)} kernel"
        return section("use", "Use this machine", f"<p>{kernel} {text}</p>")
    name = "model.kompakt" if model_path is None else os.fspath(model_path)
    saved = "" if model_path is not None else f"kompakt.save(machine, {name!r})  # once, from the fitted machine\n"
    python = f"import kompakt\n\n{saved}model = kompakt.load({name!r})\n"
    python += f"model.predict(X)  # X has {model.n_features:,} features\n"
    if sample.classes:
        python += "model.decision_function(X)\n"
    export = (
        'kompakt.to_onnx(model, "model.onnx")\nkompakt.to_c(model, "model.c")\n'
        'kompakt.to_libsvm(model, "model.libsvm")\nkompakt.to_numpy(model, "model_numpy.py")\n'
    )
    shell = f"kompakt predict rows.csv {name}\nkompakt export {name} model.onnx --to onnx\n"
    return section(
        "use",
        "Use this machine",
        "<p>Load it:</p>",
        code(python),
        "<p>Export it, to ONNX, C, the text format of LIBSVM, or a file that needs NumPy only:</p>",
        code(export),
        "<p>Or in a terminal:</p>",
        code(shell),
    )


def _origin_section(subject: Subject, path: Any, command: str | None) -> str:
    shown = command
    if shown is None:
        given = "model" if subject.estimator is None else "machine"
        made = "" if subject.estimator is None else f"machine = {subject.estimator!r}\n"
        shown = f"{made}kompakt.report({given}, X, y, {os.path.basename(os.fspath(path))!r})"
    return section("origin", "How this page was made", code(shown), facts(_versions()))


def _versions() -> list[tuple[str, str]]:
    import scipy
    import sklearn

    import kompakt

    found = [("kompakt", kompakt.__version__), ("Python", platform.python_version()), ("NumPy", np.__version__)]
    return found + [("SciPy", scipy.__version__), ("scikit-learn", sklearn.__version__)]


def _footer() -> str:
    return (
        f"<p>Written by kompakt, {datetime.now(UTC):%Y-%m-%d %H:%M} UTC. This file is complete: it loads nothing.</p>"
    )
