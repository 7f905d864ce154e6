"""Sections on the machine: its errors at every size, and its calibration."""

from __future__ import annotations

from typing import Any

import numpy as np

from kompakt.reporting.drawing import Chart
from kompakt.reporting.markup import esc, facts, figure, number, percent, seconds, section, size_in_bytes
from kompakt.reporting.measure import Measured, Reliability, reliability, wilson
from kompakt.reporting.nested import NestedPath
from kompakt.reporting.subject import Sample, Subject
from kompakt.reporting.training import Recorded, recorded_path

Array = np.ndarray

#: classes of a confusion matrix at most
_MOST_CLASSES = 30


def error_text(measured: Measured, s: int, regression: bool) -> str:
    """The error at a size, as people write it."""
    return number(measured.errors[s]) if regression else percent(measured.errors[s])


def path_section(subject: Subject, sample: Sample, path: NestedPath, measured: Measured) -> tuple[str, dict[str, Any]]:
    """The path with its slider, and the numbers that the slider shows."""
    regression, last = not sample.classes, len(measured.sizes) - 1
    name = '<abbr title="root mean squared error">RMSE</abbr>' if regression else "error"
    recorded = recorded_path(subject.estimator)
    overlay = None if regression else recorded  # a regressor's fit measures its own loss, in other units
    errors_chart, places = _errors_chart(measured, overlay, regression)
    cells = [
        (name, "error", error_text(measured, last, regression)),
        ("time per row", "time", seconds(measured.seconds[last])),
        ("memory", "memory", size_in_bytes(measured.n_bytes[last])),
    ]
    if regression:
        assert measured.r2 is not None
        cells.insert(1, ("R²", "r2", f"{measured.r2[last]:.3f}"))
    shown = "".join(f'<div><dt>{a}</dt><dd id="now-{b}">{c}</dd></div>' for a, b, c in cells)
    slider = (
        f'<div class="slider"><label for="size">Number of vectors: <output id="size-output" for="size">'
        f"{number(measured.sizes[last])}</output></label>"
        f'<input type="range" id="size" min="0" max="{last}" step="1" value="{last}" aria-describedby="path-note" '
        f'aria-valuetext="{number(measured.sizes[last])} vectors">'
        f'<dl class="facts now">{shown}</dl><p id="live" class="unseen" role="status" aria-live="polite"></p></div>'
        "<noscript><p>The slider needs scripts; the figures show the whole machine.</p></noscript>"
    )
    data = _slider_data(measured, places, regression)
    if regression:
        second, more = _residuals(sample, measured)
    else:
        second, more = _confusion(sample, measured)
    note = (
        "The last size is the machine itself. Smaller ones use the first of its own vectors, in the order in which "
        "they help most to match its outputs, with weights matched by least squares on "
        f"{path.n_rows:,} rows; no label was used. A machine trained anew at such a size is usually better, with few "
        "vectors by far: this shows what the vectors at hand can do."
        if last
        else "This machine is too small to have smaller ones inside."
    )
    times = "Time per row: the best of a few runs over a batch of rows, with all threads."
    chart = figure(errors_chart, _errors_caption(measured, overlay, regression))
    body = [slider, f'<p id="path-note" class="note">{note} {times}</p>', f'<div class="pair">{chart}{second}</div>']
    if regression and recorded is not None:
        body.append(_recorded_figure(recorded))
    return section("path", "Size, error and time", *body), {**data, **more}


def _errors_chart(measured: Measured, recorded: Recorded | None, regression: bool) -> tuple[str, dict[str, Any]]:
    sizes, factor = np.array(measured.sizes, dtype=float), 1.0 if regression else 100.0
    values = factor * measured.errors
    known = [values[np.isfinite(values)]]
    all_sizes = sizes
    if recorded is not None:
        known.append(factor * recorded.errors[np.isfinite(recorded.errors)])
        all_sizes = np.concatenate([sizes, recorded.sizes])
    top = max(float(np.max(part)) for part in known if len(part))
    label = "root mean squared error" if regression else "error (%)"
    log = all_sizes.max() > 8 * all_sizes.min()
    edge = 1.15 if log else 1.0
    limits = float(all_sizes.min()) / edge, float(all_sizes.max()) * edge
    chart = Chart(limits, (0.0, top * 1.08 or 1.0), "vectors", label, log_x=log)
    if recorded is not None:
        ok = np.isfinite(recorded.errors)
        at, errors = recorded.sizes[ok], factor * recorded.errors[ok]
        if recorded.standard_errors is not None:
            spread = factor * recorded.standard_errors[ok]
            chart.band(at, np.maximum(0.0, errors - spread), np.minimum(top * 1.08, errors + spread), "c1")
        chart.line(at, errors, "c1 dashed")
        if len(at) <= 30:
            chart.dots(at, errors, "c1", 2.6)
    chart.line(sizes, values, "c0")
    chart.dots(
        sizes, values, "c0", 3.4, [f"{number(int(a))} vectors: {number(b)}" for a, b in zip(sizes, values, strict=True)]
    )
    chart.rule(sizes[-1], "marker", "marker-rule")
    x, y = chart.across(sizes), chart.up(values)
    chart.add(f'<circle id="marker-dot" class="chosen" cx="{x[-1]:.1f}" cy="{y[-1]:.1f}" r="8"/>')
    described = f"{label} against the number of vectors, from {number(values[0])} to {number(values[-1])}"
    return chart.render(described), {"x": np.round(x, 1).tolist(), "y": np.round(y, 1).tolist()}


def _recorded_figure(recorded: Recorded) -> str:
    ok = np.isfinite(recorded.errors)
    sizes, errors = recorded.sizes[ok].astype(float), recorded.errors[ok]
    limits = float(sizes.min()) / 1.15, float(sizes.max()) * 1.15
    chart = Chart(limits, (0.0, float(errors.max()) * 1.08 or 1.0), "vectors", "mean loss", log_x=True)
    chart.line(sizes, errors, "c1 dashed")
    chart.dots(sizes, errors, "c1", 3.0)
    text = f"During the fit: the loss of machines trained at each size, on {recorded.what}."
    return figure(chart.render("Loss recorded during the fit against the number of vectors"), text)


def _errors_caption(measured: Measured, recorded: Recorded | None, regression: bool) -> str:
    base = number(measured.baseline) if regression else percent(measured.baseline)
    text = f'<span class="key c0"></span> On the given rows (a constant answer: {base}).'
    if recorded is not None:
        band = ", with one standard error" if recorded.standard_errors is not None else ""
        text += (
            f' <span class="key c1"></span> During the fit, machines trained at each size, on {recorded.what}{band}.'
        )
    return text


def _slider_data(measured: Measured, places: dict[str, Any], regression: bool) -> dict[str, Any]:
    S = range(len(measured.sizes))
    now = {
        "size": [number(size) for size in measured.sizes],
        "error": [error_text(measured, s, regression) for s in S],
        "time": [seconds(value) for value in measured.seconds],
        "memory": [size_in_bytes(value) for value in measured.n_bytes],
    }
    if measured.r2 is not None:
        now["r2"] = [f"{value:.3f}" for value in measured.r2]
    return {"sizes": measured.sizes, "now": now, **places}


# -- confusion and residuals -----------------------------------------------------------------------------------


def _confusion(sample: Sample, measured: Measured) -> tuple[str, dict[str, Any]]:
    """A table of true by predicted labels whose cells the slider fills."""
    counts, names = measured.confusion, sample.classes
    assert counts is not None
    note = ""
    if len(names) > _MOST_CLASSES:
        wrong = counts[-1].sum(axis=0) + counts[-1].sum(axis=1) - 2 * np.diag(counts[-1])
        kept = np.sort(np.argsort(-wrong, kind="stable")[: _MOST_CLASSES - 5])
        note = f" The {len(kept)} classes with most errors; “others” are the remaining {len(names) - len(kept)}."
        group = np.full(len(names), len(kept))
        group[kept] = np.arange(len(kept))
        fold = np.zeros((len(kept) + 1, len(names)))
        fold[group, np.arange(len(names))] = 1.0
        counts = np.einsum("ai,sij,bj->sab", fold, counts, fold).astype(np.int64)
        names = [names[k] for k in kept] + ["others"]
    K, final = len(names), counts[-1]
    totals = np.maximum(1, counts.sum(axis=2, keepdims=True))
    shares = counts / totals
    upright = " upright" if K > 6 and max(len(name) for name in names) > 3 else ""
    head = "".join(f'<th scope="col" title="{esc(name)}"><span>{esc(name, 12)}</span></th>' for name in names)
    rows = []
    for i in range(K):
        cells = "".join(
            f'<td class="{"hit" if i == j else "miss"}" style="--v:{shares[-1, i, j]:.3f}">{_count(final[i, j])}</td>'
            for j in range(K)
        )
        rows.append(f'<tr><th scope="row" title="{esc(names[i])}">{esc(names[i], 16)}</th>{cells}</tr>')
    picture = (
        '<div class="scroll" tabindex="0" role="region" aria-label="confusion matrix">'
        f'<table id="confusion" class="confusion{upright}{" many" if K > 12 else " few" if K < 7 else ""}">'
        f'<thead><tr><th scope="col" class="corner">true ↓ predicted →</th>{head}</tr></thead>'
        f"<tbody>{''.join(rows)}</tbody></table></div>"
    )
    caption = f"Rows by true and predicted class; colour is the share of the true class.{note}"
    data = {
        "cells": [[_count(c) for c in one.ravel()] for one in counts],
        "shares": np.round(shares, 3).reshape(len(counts), -1).tolist(),
    }
    return figure(picture, caption, "wide" if K > 12 else ""), data


def _count(value: Any) -> str:
    value = int(value)
    if value == 0:
        return "·"
    return str(value) if value < 10_000 else f"{value / 1000:.3g}k" if value < 1_000_000 else f"{value / 1e6:.3g}M"


def _residuals(sample: Sample, measured: Measured) -> tuple[str, dict[str, Any]]:
    """Residuals against predictions of the rows drawn, at every size."""
    assert measured.predictions is not None
    truth = sample.y[measured.drawn, 0]
    residuals = truth - measured.predictions
    final = measured.predictions[-1]
    edge = 1.05 * float(np.quantile(np.abs(residuals), 0.995)) or 1.0
    low, high = float(np.quantile(measured.predictions, 0.002)), float(np.quantile(measured.predictions, 0.998))
    pad = 0.04 * (high - low)
    chart = Chart((low - pad, high + pad), (-edge, edge), "predicted", "true minus predicted")
    chart.line([chart.x[0], chart.x[1]], [0.0, 0.0], "zero")
    x = np.clip(chart.across(measured.predictions), chart.left, chart.right)
    y = np.clip(chart.up(residuals), chart.top, chart.base)
    dots = "".join(f'<circle cx="{a:.0f}" cy="{b:.0f}" r="2.4"/>' for a, b in zip(x[-1], y[-1], strict=True))
    chart.add(f'<g id="residuals" class="dots c0">{dots}</g>')
    more = " of the first output" if sample.y.shape[1] > 1 else ""
    caption = f"Residuals{more} of {len(final):,} rows drawn at random; points outside lie on the edge."
    data = {"rx": np.round(x).astype(int).tolist(), "ry": np.round(y).astype(int).tolist()}
    return figure(chart.render("Residuals against predictions"), caption), data


# -- calibration ------------------------------------------------------------------------------------------------


def calibration_section(subject: Subject, sample: Sample, measured: Measured) -> str:
    """The reliability curve of the whole machine."""
    found = reliability(subject.model, sample, measured.outputs)
    if found.kind == "value":
        low = float(min(found.said.min(), found.low.min()))
        high = float(max(found.said.max(), found.high.max()))
        chart = _curve(found, (low, high), (low, high), "mean prediction", "mean target", diagonal=True)
        text = (
            "Rows in ten bins of equal size by prediction; strokes are 95 % intervals. On the diagonal, predictions "
            "are right on average."
        )
        return section("calibration", "Calibration", figure(chart, text))
    binary = measured.confusion is not None and measured.outputs.shape[1] >= 1 and _two(subject)
    what = f"rows of class {esc(sample.classes[1], 24)} (%)" if binary else "right predictions (%)"
    if found.kind == "score":
        axis = "decision value" if binary else "lead of the predicted class"
        limits = float(found.said.min()), float(found.said.max())
        chart = _curve(found, limits, (0.0, 100.0), axis, what, diagonal=False)
        text = (
            "The machine gives decision values, not probabilities (it was not calibrated: <code>calibrate=True</code> "
            "does that). Rows in ten bins of equal size; a curve that rises steadily can be calibrated; strokes are "
            "95 % intervals."
        )
        return section("calibration", "Calibration", figure(chart, text))
    chart = _curve(found, (0.0, 100.0), (0.0, 100.0), "probability said (%)", what, diagonal=True)
    text = (
        "Rows in ten bins of equal size by probability; strokes are 95 % intervals. On the diagonal, probabilities "
        "mean what they say."
    )
    pairs = [("Brier score", number(found.brier)), ("mean gap to the diagonal", percent(found.gap or 0.0))]
    return section("calibration", "Calibration", figure(chart, text), facts(pairs))


def _two(subject: Subject) -> bool:
    return subject.model.classes is None or len(subject.model.classes) == 2


def _curve(
    found: Reliability, x: tuple[float, float], y: tuple[float, float], x_label: str, y_label: str, *, diagonal: bool
) -> str:
    fx = 100.0 if found.kind == "probability" else 1.0
    fy = 1.0 if found.kind == "value" else 100.0
    chart = Chart(x, y, x_label, y_label)
    if diagonal:
        ends = [max(x[0], y[0]), min(x[1], y[1])]
        chart.line(ends, ends, "zero")
    low, high = (np.clip(fy * edge, *chart.y) for edge in (found.low, found.high))
    chart.bars(fx * found.said, low, high, "c0 thin")
    chart.line(fx * found.said, fy * found.came, "c0")
    texts = [f"{number(a)}: {number(b)}" for a, b in zip(fx * found.said, fy * found.came, strict=True)]
    chart.dots(fx * found.said, fy * found.came, "c0", 3.6, texts)
    return chart.render(f"{y_label} against {x_label}")


def interval_text(measured: Measured, n: int) -> str:
    """The interval that the final error of a classifier lies in."""
    low, high = wilson(measured.errors[-1], n)
    return f"95 % interval {percent(max(0.0, float(low)))} to {percent(float(high))}"
