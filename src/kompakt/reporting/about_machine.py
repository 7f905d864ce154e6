"""Sections on the machine: its errors at every size, its calibration, its vectors."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse

from kompakt.plots._style import image_shape_of, sides_of
from kompakt.reporting.drawing import N_COLOURS, Chart, png, ramp
from kompakt.reporting.markup import esc, facts, figure, number, percent, seconds, section, size_in_bytes, table
from kompakt.reporting.measure import Measured, Reliability, reliability, wilson
from kompakt.reporting.nested import NestedPath
from kompakt.reporting.subject import Sample, Subject
from kompakt.reporting.training import Recorded, recorded_path

Array = np.ndarray

#: classes of a confusion matrix at most, vectors drawn, features of parallel lines
_MOST_CLASSES, _MOST_IMAGES, _MOST_LINES, _MOST_POINTS, _MOST_AXES = 30, 60, 60, 400, 12


def error_text(measured: Measured, s: int, regression: bool) -> str:
    """The error at a size, as people write it."""
    return number(measured.errors[s]) if regression else percent(measured.errors[s])


def path_section(subject: Subject, sample: Sample, path: NestedPath, measured: Measured) -> tuple[str, dict[str, Any]]:
    """The path with its slider, and the numbers that the slider shows."""
    regression, last = not sample.classes, len(measured.sizes) - 1
    name = "root mean squared error" if regression else "error"
    recorded = recorded_path(subject.estimator)
    overlay = None if regression else recorded  # a regressor's fit measures its own loss, in other units
    errors_chart, places = _errors_chart(measured, overlay, regression)
    cells = [
        ("vectors", "size", number(measured.sizes[last])),
        (name, "error", error_text(measured, last, regression)),
        ("time per row", "time", seconds(measured.seconds[last])),
        ("memory", "memory", size_in_bytes(measured.n_bytes[last])),
    ]
    if regression:
        assert measured.r2 is not None
        cells.insert(2, ("R²", "r2", f"{measured.r2[last]:.3f}"))
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
        f"The last size is the machine itself. Smaller ones use the first of its own vectors, in the order in which they "
        f"help most to match its outputs, with weights matched by least squares on {path.n_rows:,} rows; no label was "
        "used. A machine trained anew at such a size is usually better: this shows what the vectors at hand can do."
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
    chart.dots(sizes, values, "c0", 3.4, [f"{number(int(a))} vectors: {number(b)}" for a, b in zip(sizes, values, strict=True)])
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
        text += f' <span class="key c1"></span> During the fit, machines trained at each size, on {recorded.what}{band}.'
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
        f'<table id="confusion" class="confusion{upright}{" many" if K > 12 else ""}">'
        f'<thead><tr><th scope="col" class="corner">true ↓ predicted →</th>{head}</tr></thead>'
        f"<tbody>{''.join(rows)}</tbody></table></div>"
    )
    caption = f"Rows by true and predicted class; colour is the share of the true class.{note}"
    data = {
        "cells": [[_count(c) for c in one.ravel()] for one in counts],
        "shares": np.round(shares, 3).reshape(len(counts), -1).tolist(),
    }
    return figure(picture, caption, "wide" if K > 8 else ""), data


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
    chart = Chart((low - pad, high + pad), (-edge, edge), "predicted", "true − predicted")
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
        text = "Rows in ten bins of equal size by prediction; strokes are 95 % intervals. On the diagonal, predictions are right on average."
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
    text = "Rows in ten bins of equal size by probability; strokes are 95 % intervals. On the diagonal, probabilities mean what they say."
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
        low, high = max(x[0], y[0]), min(x[1], y[1])
        chart.line([low, high], [low, high], "zero")
    inside = [np.clip(fy * edge, *chart.y) for edge in (found.low, found.high)]
    chart.bars(fx * found.said, *inside, "c0 thin")
    chart.line(fx * found.said, fy * found.came, "c0")
    texts = [f"{number(a)}: {number(b)}" for a, b in zip(fx * found.said, fy * found.came, strict=True)]
    chart.dots(fx * found.said, fy * found.came, "c0", 3.6, texts)
    return chart.render(f"{y_label} against {x_label}")


# -- vectors -------------------------------------------------------------------------------------------------------


def vectors_section(subject: Subject, sample: Sample, path: NestedPath, relevant: Array, shape: Any) -> str:
    """The basis vectors in the order in which they enter the path."""
    model = subject.model
    sides, names = sides_of(model)
    vectors = model.basis_vectors_
    order = path.order
    parts = []
    if vectors is None or model.kernel.name == "callable":
        parts.append(f"<p>A {esc(model.kernel.name)} kernel has no vectors that could be drawn.</p>")
    elif model.n_features == 2:
        parts.append(_scatter(subject, sample, vectors, sides, names, order))
    else:
        shape = shape or image_shape_of(sample.X)
        parts.append(
            _images(vectors, sides, names, order, shape)
            if shape is not None
            else _lines(sample, vectors, sides, names, order, relevant)
        )
    parts.append(_vector_table(subject, sides, names, order))
    return section("vectors", "The vectors", *parts)


def _legend(sides: Array, names: list[str], shown: Array) -> str:
    present = np.unique(sides[shown])
    if len(present) > N_COLOURS or len(names) < 2:
        return ""
    return " ".join(f'<span class="key c{side % N_COLOURS}"></span> for {esc(names[side], 30)}' for side in present) + ". "


def _scatter(subject: Subject, sample: Sample, vectors: Array, sides: Array, names: list[str], order: Array) -> str:
    model = subject.model
    rows = sample.X[:600]
    rows = rows.toarray() if sparse.issparse(rows) else np.asarray(rows)
    rows = rows[np.isfinite(rows).all(axis=1)]
    shown = order[:_MOST_POINTS]
    both = np.concatenate([rows, vectors[shown]])
    low, high = both.min(axis=0), both.max(axis=0)
    pad = np.where(high > low, 0.06 * (high - low), 0.5)
    low, high = low - pad, high + pad
    chart = Chart((low[0], high[0]), (low[1], high[1]), *(esc(name, 30) for name in sample.feature_names))
    inside = chart.right - chart.left, chart.base - chart.top
    chart.add(
        f'<image href="{png(_regions(model, low, high))}" x="{chart.left}" y="{chart.top}" width="{inside[0]}" '
        f'height="{inside[1]}" preserveAspectRatio="none"/>'
    )
    if sample.classes:
        y = sample.y[: len(rows)] if len(rows) == min(600, sample.n_rows) else np.zeros(len(rows), dtype=int)
        for k in np.unique(y):
            chart.dots(*rows[y == k].T, f"c{k % N_COLOURS} faint", 1.8)
    else:
        chart.dots(*rows.T, "faint", 1.8)
    for rank, j in enumerate(shown):
        a, b = float(chart.across(vectors[j, 0])), float(chart.up(vectors[j, 1]))
        title = f"<title>vector {rank + 1}, for {esc(names[sides[j]])}</title>"
        css = f'class="vector c{sides[j] % N_COLOURS}" data-rank="{rank}"'
        if sides[j] % 2:
            chart.add(f'<rect {css} x="{a - 4:.1f}" y="{b - 4:.1f}" width="8" height="8">{title}</rect>')
        else:
            chart.add(f'<circle {css} cx="{a:.1f}" cy="{b:.1f}" r="4.6">{title}</circle>')
    count = f"{len(shown):,} of {len(vectors):,} vectors" if len(shown) < len(vectors) else f"All {len(vectors):,} vectors"
    back = "predicted values (dark is high)" if model.kind == "regressor" else "decisions"
    text = f"{_legend(sides, names, shown)}{count} (large) and {len(rows):,} rows (small) on the machine's {back}; the slider above fades what a smaller machine leaves out."
    return figure(chart.render("Basis vectors on the decision regions"), text)


def _regions(model: Any, low: Array, high: Array, n: int = 160) -> Array:
    """Decisions on a grid as a translucent picture, with the boundary drawn in."""
    axes = [np.linspace(a, b, n) for a, b in zip(low, high, strict=True)]
    grid = np.stack(np.meshgrid(*axes), axis=-1).reshape(-1, 2)
    scores = model.decision_function(grid)
    pixels = np.zeros((n, n, 4), dtype=np.uint8)
    if model.kind == "regressor":
        values = (scores if scores.ndim == 1 else scores[:, 0]).reshape(n, n)
        share = (values - values.min()) / max(float(np.ptp(values)), 1e-300)
        colours = np.array([[int(c[i : i + 2], 16) for i in (1, 3, 5)] for c in ramp(np.linspace(0, 1, 64))])
        pixels[..., :3], pixels[..., 3] = colours[np.round(share * 63).astype(int)], 110
        return pixels[::-1]
    best = (scores > 0).astype(int) if scores.ndim == 1 else np.argmax(scores, axis=1)
    best = best.reshape(n, n)
    palette = np.array([[0, 114, 178], [213, 94, 0], [0, 158, 115], [204, 121, 167], [230, 159, 0], [86, 180, 233], [128, 128, 128]])
    pixels[..., :3], pixels[..., 3] = palette[best % len(palette)], 56
    border = np.zeros((n, n), dtype=bool)
    border[:-1] |= best[:-1] != best[1:]
    border[:, :-1] |= best[:, :-1] != best[:, 1:]
    pixels[border] = (128, 128, 128, 255)
    return pixels[::-1]


def _images(vectors: Array, sides: Array, names: list[str], order: Array, shape: tuple[int, int]) -> str:
    shown = order[:_MOST_IMAGES]
    low, high = float(vectors[shown].min()), float(vectors[shown].max())
    grey = 255 - np.round(255 * (vectors[shown] - low) / max(high - low, 1e-300)).astype(np.uint8)
    cells = "".join(
        f'<div class="tile vector" data-rank="{rank}"><img src="{png(grey[rank].reshape(shape))}" '
        f'alt="vector {rank + 1}, for {esc(names[sides[j]], 24)}"><span>{esc(names[sides[j]], 10)}</span></div>'
        for rank, j in enumerate(shown)
    )
    count = f"The first {len(shown)} of {len(vectors):,} vectors" if len(shown) < len(vectors) else f"All {len(vectors)} vectors"
    text = f"{count} as pictures, with the class each speaks for; the slider above fades what a smaller machine leaves out."
    return figure(f'<div class="tiles">{cells}</div>', text, "wide")


def _lines(sample: Sample, vectors: Array, sides: Array, names: list[str], order: Array, relevant: Array) -> str:
    shown, axes = order[:_MOST_LINES], relevant[:_MOST_AXES]
    part = sample.X[:5000][:, axes]
    part = part.toarray() if sparse.issparse(part) else part
    middle, spread = np.nan_to_num(np.nanmean(part, axis=0)), np.nan_to_num(np.nanstd(part, axis=0))
    values = (vectors[shown][:, axes] - middle) / np.where(spread > 0, spread, 1.0)
    edge = max(1.0, float(np.quantile(np.abs(values), 0.99)))
    values = np.clip(values, -edge, edge)
    chart = Chart((0.0, len(axes) - 1.0), (-edge, edge), "", "standard deviations from the mean", size=(420, 340), bottom=104)
    chart.x_ticks = [(float(i), "") for i in range(len(axes))]
    for i, j in enumerate(axes):
        at = float(chart.across(i))
        chart.add(
            f'<text class="tick" transform="translate({at + 4:.1f} {chart.base + 12}) rotate(-55)" text-anchor="end">'
            f"{esc(sample.feature_names[j], 16)}<title>{esc(sample.feature_names[j])}</title></text>"
        )
    for rank, j in enumerate(shown):
        css = f"c{sides[j] % N_COLOURS} vector" + (" dashed" if sides[j] % 2 else "")
        chart.line(np.arange(len(axes)), values[rank], css, f'data-rank="{rank}"')
    count = f"the first {len(shown)} of {len(vectors):,} vectors" if len(shown) < len(vectors) else f"all {len(vectors)} vectors"
    which = f"{len(axes)} of {vectors.shape[1]:,} features" if len(axes) < vectors.shape[1] else "all features"
    text = f"{_legend(sides, names, shown)}Each line is a vector: {count} across {which}; the slider above fades what a smaller machine leaves out."
    return figure(chart.render("Basis vectors as lines across the features"), text)


def _vector_table(subject: Subject, sides: Array, names: list[str], order: Array) -> str:
    indices = getattr(subject.estimator, "basis_indices_", None)
    strength = np.linalg.norm(subject.model.weights, axis=1)
    known = indices is not None and len(indices) == len(sides)
    rows = []
    for rank, j in enumerate(order[:25]):
        cells = [number(rank + 1), esc(names[sides[j]], 30), number(strength[j])]
        rows.append([*cells, number(int(indices[j]))] if known else cells)
    head = ["order", "speaks for", "size of its weights"] + (["training row"] if known else [])
    listing = table(head, rows, caption="Vectors in the order in which they enter the path", css="numbers")
    return f"<details><summary>The first {len(rows)} vectors as a table</summary>{listing}</details>"


def interval_text(measured: Measured, n: int) -> str:
    """The interval that the final error of a classifier lies in."""
    low, high = wilson(measured.errors[-1], n)
    return f"95 % interval {percent(max(0.0, float(low)))} to {percent(float(high))}"
