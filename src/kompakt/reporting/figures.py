"""The figures of a report: drawn by Matplotlib, written as SVG elements that take their colours from the page."""

from __future__ import annotations

import io
import re
import warnings
from collections.abc import Sequence
from typing import Any
from xml.etree import ElementTree

import matplotlib.style
import numpy as np
from markupsafe import Markup
from matplotlib.colors import PowerNorm
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, FuncFormatter, LogLocator, MaxNLocator, NullLocator

from kompakt.kernels.base import dense
from kompakt.plots.curves import ConvergenceDisplay, SizePathDisplay
from kompakt.plots.features import FeatureCurvesDisplay, feature_curves
from kompakt.plots.style import COLOURS, STYLE, colour, marker
from kompakt.plots.vectors import BasisVectorsDisplay, resolve_kind, sides_of
from kompakt.reporting.explain import Dependence, LearningCurves
from kompakt.reporting.measure import MOMENT_ROWS, ClassErrors, Measurements, Reliability, Subject, moments_of
from kompakt.reporting.text import number, printable, shortened
from kompakt.reporting.training import Search, SizeErrors

Array = np.ndarray

#: colours drawn, and the page's names for them, which differ between light and dark
_INK, _SOFT, _PAPER = "#000000", "#808080", "#ffffff"
_PAGE_COLOURS = {shade.lower(): f"var(--c{k})" for k, shade in enumerate(COLOURS)}
_PAGE_COLOURS |= {_INK: "var(--ink)", "#262626": "var(--ink)", _SOFT: "var(--soft)", _PAPER: "var(--paper)"}
#: whatever a user's matplotlibrc says; names are text and never formulas
_STYLE = STYLE | {
    "svg.fonttype": "none",
    "svg.hashsalt": "kompakt",
    "text.parse_math": False,
    "image.composite_image": False,
    "figure.facecolor": "none",
    "axes.facecolor": "none",
    "axes.edgecolor": _SOFT,
    "grid.color": _SOFT,
    "legend.edgecolor": _SOFT,
    "axes.grid": True,
}
#: identities of what the slider moves
MOVING = ("marker-rule", "marker-dot", "residuals")
#: how vectors are drawn: at most how many, how high (images: as their grid; a heat map: without its rows), and what a
#: screen reader says of it
_KINDS = {
    "scatter": (400, 4.2, "on the decision regions"),
    "images": (60, 7.0, "as pictures"),
    "heatmap": (60, 1.0, "by features, as a heat map"),
}
#: features of a heat map, rows behind the points
_MOST_AXES, _MOST_ROWS = 24, 600
#: features that are drawn as the model sees them
_MOST_CURVES = 12


def draw_figures(
    subject: Subject,
    measured: Measurements,
    order: Array,
    relevant: Array,
    reliability: Reliability,
    by_class: ClassErrors | None,
    search: Search | None,
    size_errors: SizeErrors | None,
    image_shape: tuple[int, int] | None,
) -> tuple[dict[str, Any], dict[str, Any]]:
    """All figures by name, and the places on them that the slider moves things to."""
    regression, model = not subject.classes, subject.model
    with matplotlib.style.context(["default", _STYLE]), warnings.catch_warnings():
        # text is drawn by the browser, whose fonts know more letters than Matplotlib's
        warnings.filterwarnings("ignore", "Glyph .* missing from", UserWarning)
        figures: dict[str, Any] = {}
        # a regressor's fit measures its own loss, in other units than the errors here
        figures["errors"], places = _error_curve(measured, None if regression else size_errors, regression)
        if regression:
            figures["residuals"], residual_places = _residual_plot(subject, measured)
            places |= residual_places
            figure, ax = _new_figure()
            ax.hist(subject.y[:, 0], bins=24, color=colour(0), rwidth=0.95)
            ax.set(xlabel="target", ylabel="rows")
            ax.grid(axis="x", visible=False)
            figures["target"] = inline_svg(figure, "target", "Histogram of the target values")
        if regression and size_errors is not None:
            figure, ax = _new_figure()
            SizePathDisplay(size_errors.sizes, size_errors.errors, model.n_basis_).plot(ax=ax)
            ax.set(ylabel="mean loss", ylim=(0.0, None))
            description = "Loss recorded during the fit against the number of vectors"
            figures["losses"] = inline_svg(figure, "losses", description)
        if search is not None:
            figures["search"] = _search_map(search)
        if any("validation_curve" in record for record in getattr(subject.estimator, "history_", None) or ()):
            figure, ax = _new_figure()
            ConvergenceDisplay.from_estimator(subject.estimator, ax=ax)
            ax.set_title("")
            description = "Loss of held-out rows by the steps of the refinement"
            figures["convergence"] = inline_svg(figure, "convergence-figure", description)
        figures["calibration"] = _calibration_plot(reliability, subject)
        if by_class is not None and by_class.roc:
            names = [shortened(class_name, 16) for class_name in subject.classes]
            for name, curves, areas, axes in (
                ("roc", by_class.roc, by_class.roc_area, ("false alarms (% of the other rows)", "recall (%)")),
                ("precision", by_class.precision_recall, by_class.average_precision, ("recall (%)", "precision (%)")),
            ):
                figures[name] = _class_curves(name, curves, areas, names, axes)
        if model.inputs.bends is not None:
            figures["features"] = _feature_curves(subject, relevant[:_MOST_CURVES])
        if model.n_basis_ and model.basis_vectors_ is not None and model.kernel.name != "callable":
            figures["vectors"] = _vector_plot(subject, model.basis_vectors_, order, relevant, image_shape)
    return figures, places


def draw_explanations(
    subject: Subject, dependence: Sequence[Dependence], learning: LearningCurves | None
) -> dict[str, Any]:
    """How predictions depend on columns, and errors on rows and vectors."""
    with matplotlib.style.context(["default", _STYLE]), warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph .* missing from", UserWarning)
        figures: dict[str, Any] = {"dependence": [_dependence_plot(k, curve) for k, curve in enumerate(dependence)]}
        if learning is not None:
            for name, at, errors, label, chosen in (
                ("rows", learning.n_rows, learning.row_errors, "training rows", None),
                ("vectors", learning.n_vectors, learning.vector_errors, "vectors", learning.vectors),
            ):
                figure, ax = _new_figure(3.0)
                factor = 100.0 if subject.classes else 1.0
                means = factor * errors.mean(axis=1)
                spread = factor * errors.std(axis=1, ddof=1) / np.sqrt(errors.shape[1])
                ax.errorbar(at, means, spread, color=colour(0), marker="o", markersize=4, linewidth=1.5, capsize=3)
                if chosen is not None:
                    ax.axvline(chosen, color=_SOFT, linestyle=":", linewidth=1.5)
                _log_axis(ax, "x", at)
                ax.xaxis.set_major_locator(FixedLocator(at.tolist()))
                ax.set(xlabel=label, ylabel="error (%)" if subject.classes else "root mean squared error")
                ax.set_ylim(0.0, 1.1 * float((means + spread).max()) or 1.0)
                description = f"Error against the number of {label}, from {number(means[0])} to {number(means[-1])}"
                figures[f"by_{name}"] = inline_svg(figure, f"by-{name}", description)
    return figures


def _dependence_plot(place: int, curve: Dependence) -> Markup:
    """A curve with its band over numbers and dates, points with their ranges beside words."""
    figure, ax = _small_figure()
    several = len(curve.series) > 1
    unit = curve.unit if several or curve.unit == "prediction" else f"{shortened(curve.series[0], 16)} ({curve.unit})"
    if curve.column.is_words:
        for s, name in enumerate(curve.series):
            if curve.low is not None and curve.high is not None:
                ax.hlines(curve.at, curve.low, curve.high, color=colour(s), alpha=0.35, linewidth=4)
            ax.plot(curve.means[:, s], curve.at, marker(s), color=colour(s), label=shortened(name, 14))
        size = 12 if len(curve.at) < 8 else 9
        ax.set_yticks(curve.at, [shortened(label, 14) for label in curve.labels], fontsize=size)
        ax.set(xlabel=unit, ylim=(len(curve.at) - 0.4, -0.6))
    else:
        for s, name in enumerate(curve.series):
            if curve.low is not None and curve.high is not None:
                ax.fill_between(curve.at, curve.low, curve.high, color=colour(s), alpha=0.15, linewidth=0)
            dashes = ("-", "--", "-.", ":")[s % 4]
            ax.plot(curve.at, curve.means[:, s], dashes, color=colour(s), label=shortened(name, 14))
        (strokes,) = ax.plot(curve.at, np.zeros(len(curve.at)), "|", color=_SOFT, markersize=8, clip_on=False)
        strokes.set_transform(ax.get_xaxis_transform())
        if not curve.column.is_number:
            some = np.unique(np.linspace(0, len(curve.at) - 1, 3).astype(int))
            ax.set_xticks(curve.at[some], [shortened(curve.labels[k], 12) for k in some])
        elif np.abs(curve.at).max() >= 1e5:
            ax.xaxis.set_major_formatter(FuncFormatter(lambda value, _: number(value)))
            ax.xaxis.set_major_locator(MaxNLocator(4))
        ax.set(ylabel=unit)
    if curve.unit != "prediction":
        ax.set(**{"xlim" if curve.column.is_words else "ylim": (-3.0, 103.0)})
    if several:
        ax.legend(fontsize="small")
    description = f"{unit} against {curve.column.name}"
    return inline_svg(figure, f"dependence-{place}", description)


def inline_svg(figure: Figure, name: str, description: str, marks: Sequence[tuple[Any, Any, Any]] = ()) -> Markup:
    """The figure as an SVG element that can stand in a page beside others.

    Parameters
    ----------
    figure : matplotlib Figure
    name : str
        Unique in the page; identities in the drawing start with it.
    description : str
        What a screen reader says.
    marks : sequence of (artist, titles, ranks)
        For every point of an artist the text shown under the pointer, and its number among the vectors, by which the
        slider finds it (or None).
    """
    for k, (artist, _, _) in enumerate(marks):
        artist.set_gid(f"mark-{k}")
    buffer = io.BytesIO()
    figure.savefig(buffer, format="svg", metadata={"Date": None})
    root = ElementTree.fromstring(buffer.getvalue())
    for element in list(root.iter()):
        element.tag = element.tag.partition("}")[2]  # HTML knows no namespaces: xlink:href is href
        element.attrib = {key.rpartition("}")[2]: value for key, value in element.items()}
    for parent in list(root.iter()):
        for child in [child for child in parent if child.tag in ("metadata", "style")]:
            parent.remove(child)
    renamed: dict[str, str] = {}  # identities that the drawing refers to; all others go

    def new_name(match: re.Match[str]) -> str:
        return "#" + renamed.setdefault(match[1], f"{name}-{len(renamed)}")

    for element in root.iter():
        for key, value in element.items():
            if key == "style":
                value = re.sub("font-family: [^;]*;? ?", "", value)  # the page's own
                value = re.sub("#[0-9a-f]{6}", lambda match: _PAGE_COLOURS.get(match[0], match[0]), value)
            elif key in ("href", "clip-path"):
                value = re.sub(r"#([\w.-]+)", new_name, "".join(value.split()))
            elif key in ("d", "x", "y"):
                value = re.sub(r"-?\d+\.\d+", lambda match: f"{round(float(match[0]), 2):g}", value)
            element.set(key, value)
    by_identity = {}
    for element in root.iter():
        identity = element.attrib.pop("id", "")
        by_identity[identity] = element
        if identity in renamed or identity in MOVING:
            element.set("id", renamed.get(identity, identity))
    for artist, titles, ranks in marks:
        group = by_identity[artist.get_gid()]
        defined = {element for definitions in group.iter("defs") for element in definitions.iter()}
        drawn = [e for e in group.iter() if e.tag in ("use", "path", "image", "text") and e not in defined]
        for element, rank in zip(drawn, () if ranks is None else ranks, strict=False):
            element.attrib |= {"class": "vector", "data-rank": str(rank)}
        for element, words in zip(drawn, titles or (), strict=False):
            title = ElementTree.Element("title")
            title.text = words
            element.insert(0, title)
    for size in ("width", "height"):
        root.attrib.pop(size)
    root.attrib |= {"role": "img", "aria-label": description}
    return Markup(ElementTree.tostring(root, encoding="unicode"))


def _new_figure(height: float = 3.5) -> tuple[Figure, Any]:
    """A figure in whose units (points) the places on it are too."""
    figure = Figure(figsize=(5.6, height), dpi=72, layout="constrained")
    return figure, figure.subplots()


def _small_figure() -> tuple[Figure, Any]:
    """A figure of a tile, of which several stand beside each other on a wide page."""
    figure = Figure(figsize=(4.2, 2.8), dpi=72, layout="constrained")
    return figure, figure.subplots()


def _positions(ax: Any, prefix: str, x: Array, y: Array) -> dict[str, Any]:
    """Where points are on a drawing that was written, by the names that the script knows: x and y after a prefix."""
    across, up = ax.transData.transform(np.column_stack([x.ravel(), y.ravel()])).T
    coordinates = {"x": across, "y": ax.figure.get_figheight() * ax.figure.dpi - up}
    return {prefix + name: np.round(values, 1).reshape(x.shape).tolist() for name, values in coordinates.items()}


def _log_axis(ax: Any, which: str, values: Array) -> None:
    """A logarithmic axis with plain numbers."""
    ax.set(**{f"{which}scale": "log"})
    axis = getattr(ax, f"{which}axis")
    axis.set_major_locator(LogLocator(subs=(1, 2, 5) if values.max() < 200 * values.min() else (1,)))
    axis.set_minor_locator(NullLocator())
    axis.set_major_formatter(FuncFormatter(lambda value, _: number(value)))


def _error_curve(
    measured: Measurements, recorded: SizeErrors | None, regression: bool
) -> tuple[Markup, dict[str, Any]]:
    figure, ax = _new_figure()
    factor = 1.0 if regression else 100.0
    sizes, values = np.array(measured.sizes, dtype=float), factor * measured.errors
    label = "root mean squared error" if regression else "error (%)"
    every = sizes
    if recorded is not None:
        at, errors = recorded.sizes, factor * recorded.errors
        every = np.concatenate([sizes, at])
        if recorded.standard_errors is not None:
            spread = factor * recorded.standard_errors
            ax.fill_between(at, np.maximum(0.0, errors - spread), errors + spread, color=colour(1), alpha=0.16, lw=0)
        ax.plot(at, errors, "--", color=colour(1), marker="s" if len(at) <= 30 else "", markersize=3)
    ax.plot(sizes, values, color=colour(0), clip_on=False)
    dots = ax.scatter(sizes, values, s=22, color=colour(0), clip_on=False, zorder=3)
    ax.axvline(sizes[-1], color=_INK, linestyle=":", linewidth=1, gid="marker-rule")
    ring = {"s": 110, "facecolors": "none", "edgecolors": _INK, "linewidths": 1.6, "clip_on": False, "zorder": 4}
    ax.scatter(sizes[-1:], values[-1:], gid="marker-dot", **ring)
    ax.set(xlabel="vectors", ylabel=label)
    if every.max() > 8 * every.min():
        _log_axis(ax, "x", every)
    else:
        ax.xaxis.set_major_locator(MaxNLocator(integer=True))
    ax.set_ylim(bottom=0.0)
    titles = [f"{number(int(size))} vectors: {number(value)}" for size, value in zip(sizes, values, strict=True)]
    description = f"{label} against the number of vectors, from {number(values[0])} to {number(values[-1])}"
    return inline_svg(figure, "errors", description, [(dots, titles, None)]), _positions(ax, "", sizes, values)


def _residual_plot(subject: Subject, measured: Measurements) -> tuple[Markup, dict[str, Any]]:
    """Residuals against predictions of the rows drawn, at every size."""
    assert measured.predictions is not None
    figure, ax = _new_figure()
    residuals = subject.y[measured.drawn, 0] - measured.predictions
    low, high = np.quantile(measured.predictions, [0.002, 0.998])
    edge = float(np.quantile(np.abs(residuals), 0.995)) or 1.0
    x, y = np.clip(measured.predictions, low, high), np.clip(residuals, -edge, edge)
    pad = 0.04 * (high - low) or 0.5
    ax.set(xlabel="predicted", ylabel="true minus predicted")
    ax.set(xlim=(low - pad, high + pad), ylim=(-1.05 * edge, 1.05 * edge))
    ax.axhline(0.0, color=_SOFT, linestyle="--", linewidth=1)
    ax.scatter(x[-1], y[-1], s=10, alpha=0.55, linewidths=0, color=colour(0), gid="residuals")
    return inline_svg(figure, "residuals-figure", "Residuals against predictions"), _positions(ax, "r", x, y)


def _search_map(search: Search) -> Markup:
    figure, ax = _new_figure()
    finite = np.isfinite(search.error)
    low, high = float(search.error[finite].min()), float(search.error[finite].max())
    error = np.where(finite, search.error, high)
    titles = [
        f"C = {number(c)}, gamma = {number(g) if np.isfinite(g) else 'not searched'}: error {number(e)}"
        for c, g, e in zip(search.C, search.gamma, search.error, strict=True)
    ]
    order = np.argsort(-error, kind="stable")  # the best last, so that nothing covers it
    with_widths = bool(np.isfinite(search.gamma).all())
    y = search.gamma if with_widths else error
    size = 40 if not with_widths else 130 if len(order) <= 60 else 60 if len(order) <= 130 else 30
    style: dict[str, Any] = {"color": colour(0)}
    if with_widths:  # errors far above the best differ little to the eye
        norm = PowerNorm(0.5, vmin=low, vmax=high if high > low else low + 1.0)
        style = {"c": error[order], "norm": norm, "cmap": "viridis", "edgecolors": _SOFT, "linewidths": 0.6}
    dots = ax.scatter(search.C[order], y[order], s=size, **style)
    i = search.chosen
    ax.scatter(search.C[[i]], y[[i]], s=2.5 * size, facecolors="none", edgecolors=_INK, linewidths=1.8, zorder=3)
    ax.margins(0.1)
    ax.set(xlabel="C", ylabel="gamma" if with_widths else "error")
    _log_axis(ax, "x", search.C)
    if with_widths:
        _log_axis(ax, "y", search.gamma)
        if high > low:
            figure.colorbar(dots, label="error").ax.collections[0].set_rasterized(True)  # one image, not 256 paths
    description = f"Validation errors of {len(order)} settings; chosen: {titles[i]}"
    return inline_svg(figure, "search-figure", description, [(dots, [titles[k] for k in order], None)])


def _class_curves(
    name: str, curves: dict[int, tuple[Array, Array]], areas: Array, classes: list[str], labels: tuple[str, str]
) -> Markup:
    figure, ax = _new_figure()
    for number_, (k, (x, y)) in enumerate(curves.items()):
        ax.plot(100 * x, 100 * y, color=colour(number_), label=f"{classes[k]}: area {areas[k]:.3f}")
    ax.set(xlabel=labels[0], ylabel=labels[1], xlim=(-2, 102), ylim=(-2, 102))
    ax.legend(loc="lower right" if name == "roc" else "lower left")
    return inline_svg(figure, f"{name}-figure", f"{labels[1]} against {labels[0]}")


def _calibration_plot(reliability: Reliability, subject: Subject) -> Markup:
    figure, ax = _new_figure()
    fx = 100.0 if reliability.kind == "probability" else 1.0
    fy = 1.0 if reliability.kind == "value" else 100.0
    x, y, low, high = fx * reliability.predicted, fy * reliability.observed, fy * reliability.low, fy * reliability.high
    if reliability.kind == "value":
        labels = "mean prediction", "mean target"
        ends = [float(min(x.min(), low.min())), float(max(x.max(), high.max()))]
    else:
        observed = (
            f"rows of class {shortened(subject.classes[1], 24)} (%)" if reliability.binary else "right predictions (%)"
        )
        lead = "decision value" if reliability.binary else "lead of the predicted class"
        labels = ("probability said (%)" if reliability.kind == "probability" else lead), observed
        ends = [0.0, 100.0]
        ax.set_ylim(-2.0, 102.0)
    if reliability.kind != "score":
        ax.plot(ends, ends, "--", color=_SOFT, linewidth=1)
    ax.vlines(x, low, high, color=colour(0), linewidth=1, alpha=0.7)
    ax.plot(x, y, color=colour(0))
    dots = ax.scatter(x, y, s=24, color=colour(0), zorder=3)
    ax.set(xlabel=labels[0], ylabel=labels[1])
    titles = [f"{number(a)}: {number(b)}" for a, b in zip(x, y, strict=True)]
    return inline_svg(figure, "calibration-figure", f"{labels[1]} against {labels[0]}", [(dots, titles, None)])


def _feature_curves(subject: Subject, shown: Array) -> list[tuple[str, Markup]]:
    """How the model sees the features, the most relevant first: their names and figures, all of one height."""
    curves = feature_curves(subject.model, subject.X)
    seen = np.concatenate([curves[number_][1] for number_ in shown])
    low, high = float(seen.min()), float(seen.max())
    pad = 0.05 * (high - low) or 0.5
    drawn = []
    for number_ in shown:
        figure, ax = _small_figure()
        FeatureCurvesDisplay([curves[number_]], [""]).plot([ax])
        ax.set(ylabel="", ylim=(low - pad, high + pad))
        name = subject.feature_names[number_]
        drawn.append((name, inline_svg(figure, f"feature-{number_}", f"How the model sees {name}")))
    return drawn


def _vector_plot(
    subject: Subject, vectors: Array, order: Array, relevant: Array, shape: tuple[int, int] | None
) -> dict[str, Any]:
    """The vectors in the order in which they enter the path; the caption needs what was drawn, and of what."""
    model = subject.model
    kind, shape = resolve_kind("auto", shape, vectors, subject.X)
    limit, height, description = _KINDS[kind]
    shown, axes = order[:limit], relevant[:_MOST_AXES] if kind == "heatmap" else np.arange(model.n_features)
    sides, classes = sides_of(model)
    sides = sides[shown]
    names = [shortened(printable(name), 10 if kind == "images" else 24) for name in classes]
    titles = [f"vector {rank + 1}, for {names[side]}" for rank, side in enumerate(sides)]
    facts: dict[str, Any] = {"kind": kind, "n_shown": len(shown), "n_axes": len(axes)}
    settings: dict[str, Any] = {"strength": np.linalg.norm(model.weights[shown], axis=1), "image_shape": shape}
    if kind == "scatter":
        rows = dense(subject.X[:_MOST_ROWS])
        finite = np.isfinite(rows).all(axis=1)
        labels = subject.y[:_MOST_ROWS][finite] if subject.classes else None
        settings |= {"model": model, "X": rows[finite], "labels": labels}
        facts["n_rows"] = int(finite.sum())
    elif kind == "images":
        columns = np.ceil(np.sqrt(len(shown)))
        height *= np.ceil(len(shown) / columns) / columns
    else:
        settings["moments"] = moments_of(subject.X[:MOMENT_ROWS][:, axes])
        settings["relevance"] = -np.arange(len(axes))  # they are in order
        height += 0.26 * len(axes)
    figure, ax = _new_figure(height)
    settings["feature_names"] = [shortened(subject.feature_names[j], 30) for j in axes]
    display = BasisVectorsDisplay(vectors[shown][:, axes], sides, names, kind, **settings).plot(ax=ax)
    for side in ("left", "center"):
        ax.set_title("", loc=side)
    marks = [
        (a, [titles[k] for k in members], members)
        for a, members in zip(display.artists_, display.members_, strict=True)
    ]
    if kind == "images":
        marks += [(name, [], [k]) for k, name in enumerate(ax.texts)]
    legend = ax.get_legend()
    if legend is not None and (len(names) < 2 or len(np.unique(sides)) > len(COLOURS)):
        legend.remove()
    return {"svg": inline_svg(figure, "vectors-figure", f"Basis vectors {description}", marks), **facts}
