"""The section on the basis vectors: on the decision regions, as pictures, or as lines across the features."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse

from kompakt.plots._style import image_shape_of, sides_of
from kompakt.reporting.drawing import N_COLOURS, Chart, png, ramp
from kompakt.reporting.markup import esc, figure, number, section, table
from kompakt.reporting.nested import NestedPath
from kompakt.reporting.subject import Sample, Subject, moments_of

Array = np.ndarray

#: what is drawn at most, and what every picture says of the slider
_MOST_IMAGES, _MOST_LINES, _MOST_POINTS, _MOST_AXES = 60, 60, 400, 14
_FADES = "; the slider above fades what a smaller machine leaves out."
#: colours of the classes behind the points, the same in light and dark
_PALETTE = ((0, 114, 178), (213, 94, 0), (0, 158, 115), (204, 121, 167), (230, 159, 0), (86, 180, 233), (128, 128, 128))


def vectors_section(subject: Subject, sample: Sample, path: NestedPath, relevant: Array, shape: Any) -> str:
    """The basis vectors in the order in which they enter the path."""
    model = subject.model
    sides, names = sides_of(model)
    vectors = model.basis_vectors_
    order = path.order
    parts = []
    if not model.n_basis_:
        return section("vectors", "The vectors", "<p>This machine has no vectors: its answer is a constant.</p>")
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
    return (
        " ".join(f'<span class="key c{side % N_COLOURS}"></span> for {esc(names[side], 30)}' for side in present) + ". "
    )


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
            chart.dots(rows[y == k, 0], rows[y == k, 1], f"c{k % N_COLOURS} faint", 1.8)
    else:
        chart.dots(rows[:, 0], rows[:, 1], "faint", 1.8)
    for rank, j in enumerate(shown):
        a, b = float(chart.across(vectors[j, 0])), float(chart.up(vectors[j, 1]))
        title = f"<title>vector {rank + 1}, for {esc(names[sides[j]])}</title>"
        css = f'class="vector c{sides[j] % N_COLOURS}" data-rank="{rank}"'
        if sides[j] % 2:
            chart.add(f'<rect {css} x="{a - 4:.1f}" y="{b - 4:.1f}" width="8" height="8">{title}</rect>')
        else:
            chart.add(f'<circle {css} cx="{a:.1f}" cy="{b:.1f}" r="4.6">{title}</circle>')
    count = (
        f"{len(shown):,} of {len(vectors):,} vectors" if len(shown) < len(vectors) else f"All {len(vectors):,} vectors"
    )
    back = "predicted values (dark is high)" if model.kind == "regressor" else "decisions"
    what = f"{count} (large) and {len(rows):,} rows (small) on the machine's {back}"
    text = f"{_legend(sides, names, shown)}{what}{_FADES}"
    return figure(chart.render("Basis vectors on the decision regions"), text)


def _regions(model: Any, low: Array, high: Array, n: int = 240) -> Array:
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
    palette = np.array(_PALETTE)
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
    count = (
        f"The first {len(shown)} of {len(vectors):,} vectors"
        if len(shown) < len(vectors)
        else f"All {len(vectors)} vectors"
    )
    text = f"{count} as pictures, with the class each speaks for{_FADES}"
    return figure(f'<div class="tiles">{cells}</div>', text, "wide")


def _lines(sample: Sample, vectors: Array, sides: Array, names: list[str], order: Array, relevant: Array) -> str:
    shown, axes = order[:_MOST_LINES], relevant[:_MOST_AXES]
    middle, variance = moments_of(sample.X[:5000][:, axes])
    spread = np.sqrt(variance)
    values = (vectors[shown][:, axes] - middle) / np.where(spread > 0, spread, 1.0)
    edge = float(np.clip(np.quantile(np.abs(values), 0.99), 1.0, 4.0))
    outside = bool(np.any(np.abs(values) > edge))  # refinement may carry a vector far along what the kernel ignores
    values = np.clip(values, -edge, edge)
    labels = [esc(sample.feature_names[j], 14) for j in axes]
    bottom = 32 + round(5.4 * max(len(sample.feature_names[j][:14]) for j in axes))  # labels stand at an angle
    limits = (0.0, len(axes) - 1.0), (-edge, edge)
    chart = Chart(*limits, "", "standard deviations from the mean", size=(420, 238 + bottom), bottom=bottom)
    chart.x_ticks = [(float(i), "") for i in range(len(axes))]
    for i, j in enumerate(axes):
        at = float(chart.across(i))
        chart.add(
            f'<text class="tick" transform="translate({at + 4:.1f} {chart.base + 12}) rotate(-55)" text-anchor="end">'
            f"{labels[i]}<title>{esc(sample.feature_names[j])}</title></text>"
        )
    for rank, j in enumerate(shown):
        css = f"c{sides[j] % N_COLOURS} vector" + (" dashed" if sides[j] % 2 else "")
        chart.line(np.arange(len(axes)), values[rank], css, f'data-rank="{rank}"')
    count = (
        f"the first {len(shown)} of {len(vectors):,} vectors"
        if len(shown) < len(vectors)
        else f"all {len(vectors)} vectors"
    )
    which = f"{len(axes)} of {vectors.shape[1]:,} features" if len(axes) < vectors.shape[1] else "all features"
    cut = f" (cut off at {number(edge)} deviations)" if outside else ""
    text = f"{_legend(sides, names, shown)}Each line is a vector: {count} across {which}{cut}{_FADES}"
    return figure(chart.render("Basis vectors as lines across the features"), text)


def _vector_table(subject: Subject, sides: Array, names: list[str], order: Array) -> str:
    indices = getattr(subject.estimator, "basis_indices_", None)
    strength = np.linalg.norm(subject.model.weights, axis=1)
    known = indices is not None and len(indices) == len(sides)
    rows = []
    for rank, j in enumerate(order[:25]):
        cells = [number(rank + 1), esc(names[sides[j]], 30), number(strength[j])]
        rows.append([*cells, number(int(indices[j]))] if known and indices is not None else cells)
    head = ["order", "speaks for", "size of its weights"] + (["training row"] if known else [])
    listing = table(head, rows, caption="Vectors in the order in which they enter the path", css="numbers")
    return f"<details><summary>The first {len(rows)} vectors as a table</summary>{listing}</details>"
