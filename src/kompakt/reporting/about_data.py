"""Sections on the rows and on the training: what came in, what was chosen and why, where the time went."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
from scipy import sparse

from kompakt.model import Model
from kompakt.reporting.drawing import Chart, bar_list, ramp
from kompakt.reporting.markup import esc, facts, figure, number, percent, seconds, section, table
from kompakt.reporting.subject import Sample, Subject, moments_of
from kompakt.reporting.training import Search, parameters, search_of, timings

Array = np.ndarray

_MOST_FEATURES, _MOST_ROWS, _MOST_CLASSES = 30, 5000, 30


def data_section(subject: Subject, sample: Sample, relevant: Array) -> str:
    """Rows, classes or targets, and the features."""
    X, model = sample.X, subject.model
    pairs = [("rows", number(sample.n_given)), ("features", number(model.n_features))]
    if sparse.issparse(X):
        pairs.append(("stored entries", percent(X.nnz / max(1, X.shape[0] * X.shape[1]))))
    elif model.input_fill is not None:
        pairs.append(("missing values", percent(float(np.mean(np.isnan(X)))) + ", filled by the machine"))
    parts = []
    if sample.classes:
        pairs.append(("classes", number(len(sample.classes))))
        order = np.argsort(-sample.counts, kind="stable")[:_MOST_CLASSES]
        rows = [
            (sample.classes[k], float(sample.counts[k]), f"{number(sample.counts[k])} rows") for k in np.sort(order)
        ]
        rest = len(sample.classes) - len(rows)
        parts.append(figure(bar_list(rows, "rows of each class"), "Rows of each class" + _more(rest, "classes") + "."))
    else:
        y = sample.y[:, 0]
        pairs += [("target, mean", number(y.mean())), ("target, standard deviation", number(y.std()))]
        parts.append(figure(_histogram(y), "Values of the target" + _more(sample.y.shape[1] - 1, "outputs") + "."))
    shown = relevant[:_MOST_FEATURES] if model.n_features > _MOST_FEATURES else np.arange(model.n_features)
    part = X[:_MOST_ROWS][:, shown]
    part = part.toarray() if sparse.issparse(part) else part
    lines = [_feature_row(sample.feature_names[j], part[:, i]) for i, j in enumerate(shown)]
    which = f"{len(shown)} of {model.n_features:,} features" if len(shown) < model.n_features else "All features"
    note = f"{which}; numbers from {len(part):,} rows"
    head = ["feature", "least", "mean", "greatest", "standard deviation", "spread"]
    closed = "<details" + (" open" if len(shown) <= 8 else "") + f"><summary>{note}</summary>"
    parts.append(closed + table(head, lines, caption="The features", css="numbers") + "</details>")
    return section("data", "The data", facts(pairs), f'<div class="pair">{"".join(parts)}</div>')


def _feature_row(name: str, values: Array) -> list[str]:
    known = values[np.isfinite(values)]
    if not len(known):
        return [esc(name), *["?"] * 4, "no values"]
    cells = [number(v) for v in (known.min(), known.mean(), known.max(), known.std())]
    return [esc(name), *cells, _spark(known)]


def _spark(values: Array) -> str:
    counts, _ = np.histogram(values, bins=16)
    top = max(1, counts.max())
    bars = "".join(
        f'<rect class="c0" x="{6 * i}" y="{20 - 20 * c / top:.1f}" width="5" height="{20 * c / top:.1f}"/>'
        for i, c in enumerate(counts)
        if c
    )
    return f'<svg class="spark" viewBox="0 0 96 20" role="img" aria-label="histogram">{bars}</svg>'


def _histogram(values: Array) -> str:
    counts, edges = np.histogram(values, bins=24)
    chart = Chart((float(edges[0]), float(edges[-1])), (0.0, float(counts.max()) * 1.05), "target", "rows")
    for count, left, right in zip(counts, edges[:-1], edges[1:], strict=True):
        a, b, top = float(chart.across(left)), float(chart.across(right)), float(chart.up(count))
        chart.add(
            f'<rect class="fill c0" x="{a + 0.5:.1f}" y="{top:.1f}" width="{max(0.5, b - a - 1):.1f}" '
            f'height="{chart.base - top:.1f}"/>'
        )
    return chart.render("Histogram of the target values")


def _more(count: int, what: str) -> str:
    return f" (and {count:,} more {what})" if count > 0 else ""


# -- the settings --------------------------------------------------------------------------------------------


def settings_section(subject: Subject, sample: Sample) -> str:
    """What the machine is, what was given, what was chosen and why."""
    model, estimator = subject.model, subject.estimator
    gamma = getattr(model.kernel, "gamma", None)
    pairs = [("machine", esc(subject.name)), ("kernel", esc(model.kernel.name)), ("vectors", number(model.n_basis_))]
    if gamma is not None:
        width = (
            number(gamma) if np.ndim(gamma) == 0 else f"one per feature, {number(min(gamma))} to {number(max(gamma))}"
        )
        pairs.append(("gamma", width))
    for name, label in (("C_", "C"), ("epsilon_", "epsilon")):
        value = getattr(estimator, name, getattr(estimator, label, None))
        if value is not None and np.ndim(value) == 0 and not isinstance(value, str):
            pairs.append((label, number(value)))
    if sample.classes and model.coding and len(sample.classes) > 2:
        pairs.append(("coding", esc(model.coding.replace("_", " "))))
    if model.input_scale is not None or model.input_shift is not None:
        pairs.append(("inputs", "shifted and scaled by the machine itself"))
    if hasattr(estimator, "converged_"):
        pairs.append(("converged", "yes" if estimator.converged_ else "<strong>no</strong>"))
    error = percent if sample.classes else number
    parts = [facts(pairs), f"<ul>{''.join(f'<li>{reason}</li>' for reason in _reasons(estimator, model, error))}</ul>"]
    pictures = ""
    search = search_of(estimator)
    if search is not None:
        pictures += _search_figure(search)
    if gamma is not None and np.size(gamma) > 1:
        pictures += _relevance_figure(model, sample)
    if pictures:
        parts.append(f'<div class="pair">{pictures}</div>')
    if estimator is not None and hasattr(estimator, "get_params"):
        rows = [
            [f"<code>{esc(name)}</code>", f"<code>{esc(value)}</code>", "set" if changed else "default"]
            for name, value, changed in parameters(estimator)
        ]
        listing = table(["parameter", "value", ""], rows, caption=f"Constructor of {esc(type(estimator).__name__)}")
        parts.append(f"<details><summary>All {len(rows)} parameters</summary>{listing}</details>")
    facts_of_file = [(esc(key), esc(value)) for key, value in sorted(model.meta.items())]
    if facts_of_file:
        parts.append("<h3>Facts stored with the model</h3>" + facts(facts_of_file))
    return section("settings", "Chosen parameters, and why", *parts)


def _reasons(estimator: Any, model: Any, error: Callable[[Any], str]) -> list[str]:
    if estimator is None:
        return [
            "This is a model without its training: a file keeps what prediction needs, not the search or the steps."
        ]
    reasons = []
    search = search_of(estimator)
    if search is not None:
        best = search.error[search.chosen]
        setting = f"C = {number(search.C[search.chosen])}"
        if np.isfinite(search.gamma[search.chosen]):
            setting += f", gamma = {number(search.gamma[search.chosen])}"
        reasons.append(f"{setting}: the best validation error ({error(best)}) of {search.how}.")
        if np.ndim(getattr(model.kernel, "gamma", 0.0)):
            reasons.append("Refinement then moved the widths away from that start, one for every feature.")
    elif hasattr(estimator, "C"):
        reasons.append("C and the kernel's parameters were given or are defaults: no search was made (tune=False).")
    path = getattr(estimator, "size_path_", None)
    choice = getattr(path, "choice", None)
    if choice is not None:
        reasons.append(
            f"{number(choice.size)} vectors: the smallest size with a validation error of at most "
            f"{error(choice.threshold)}: the best one plus its allowance (one standard error, or size_tol)."
        )
    elif getattr(estimator, "n_basis", None) not in (None, "auto"):
        reasons.append(f"At most {esc(estimator.n_basis)} vectors were asked for.")
    return reasons


def _search_figure(search: Search) -> str:
    finite = np.isfinite(search.error)
    low, high = float(search.error[finite].min()), float(search.error[finite].max())
    texts = [
        f"C = {number(c)}, gamma = {number(g) if np.isfinite(g) else 'not searched'}: error {number(e)}"
        for c, g, e in zip(search.C, search.gamma, search.error, strict=True)
    ]
    c_range = (float(search.C.min()) / 1.6, float(search.C.max()) * 1.6)
    alone = not np.isfinite(search.gamma).all()
    if alone:
        chart = Chart(
            c_range, (max(0.0, low - 0.1 * (high - low)), high + 0.1 * (high - low)), "C", "error", log_x=True
        )
        chart.dots(
            search.C[finite], search.error[finite], "c0", 4.5, [t for t, ok in zip(texts, finite, strict=True) if ok]
        )
        at = float(chart.across(search.C[search.chosen])), float(chart.up(search.error[search.chosen]))
    else:
        g_range = (float(search.gamma.min()) / 1.6, float(search.gamma.max()) * 1.6)
        chart = Chart(c_range, g_range, "C", "gamma", log_x=True, log_y=True)
        share = (np.where(finite, search.error, high) - low) / max(high - low, 1e-300)
        radius = 8 if len(search.C) <= 60 else 5 if len(search.C) <= 130 else 3.5
        # the best last, so that nothing covers it; errors far above the best differ little to the eye
        for i in np.argsort(-share, kind="stable"):
            shade = ramp(1.0 - share[i] ** 0.5)[0]
            x, y = float(chart.across(search.C[i])), float(chart.up(search.gamma[i]))
            place = f'cx="{x:.1f}" cy="{y:.1f}" r="{radius}"'
            chart.add(f'<circle class="try" {place} fill="{shade}"><title>{texts[i]}</title></circle>')
        at = float(chart.across(search.C[search.chosen])), float(chart.up(search.gamma[search.chosen]))
    chart.add(f'<circle class="chosen" cx="{at[0]:.1f}" cy="{at[1]:.1f}" r="11"/>')
    said = f"Validation errors of {len(search.C)} settings; chosen: {texts[search.chosen]}"
    scale = "" if alone else _scale(low, high)
    return figure(chart.render(said) + scale, f"Settings tried ({search.how}). The ring is the one chosen.")


def _scale(low: float, high: float) -> str:
    stops = ", ".join(
        f"{shade} {100 * share:.0f}%"
        for share, shade in zip((0, 0.25, 0.5, 0.75, 1), ramp([1.0, 0.5, 0.293, 0.134, 0.0]), strict=True)
    )
    return (
        f'<p class="scale"><span>error {number(low)}</span>'
        f'<span class="ramp" style="background:linear-gradient(90deg,{stops})"></span><span>{number(high)}</span></p>'
    )


def _relevance_figure(model: Model, sample: Sample) -> str:
    relevance = relevance_of(model, sample)
    order = np.argsort(-relevance, kind="stable")[:20]
    top = max(float(relevance.max()), 1e-300)
    rows = [(sample.feature_names[j], float(relevance[j]), _share(relevance[j] / top)) for j in order]
    note = "Which features the kernel looks at: gamma of the feature times its variance, relative to the first"
    if model.input_scale is not None:
        note += ", both after the machine's own scaling"
    rest = _more(len(relevance) - len(order), "features")
    return figure(bar_list(rows, "relevance of the features"), note + rest + ".")


def _share(value: float) -> str:
    return "< 0.1 %" if 0 < value < 1e-3 else percent(value)


def relevance_of(model: Model, sample: Sample) -> Array:
    """Share of a feature in the kernel's distance: its gamma times its variance, both in the units of the kernel."""
    # without the shift, which changes no variance and would make sparse rows dense
    seen = replace(model, input_shift=None)._transformed(sample.X[:_MOST_ROWS])
    return np.abs(np.asarray(model.kernel.gamma)) * moments_of(seen)[1]  # type: ignore[attr-defined]


def spread_of(sample: Sample) -> Array:
    """Standard deviation of every feature in the units of the input."""
    return np.sqrt(moments_of(sample.X[:_MOST_ROWS])[1])


# -- where the time went -------------------------------------------------------------------------------------


def timings_section(subject: Subject, own: list[tuple[str, float]]) -> str:
    """Phases of the fit, as recorded, and of this page."""
    phases = timings(subject.estimator) if subject.estimator is not None else []
    evaluations = getattr(subject.estimator, "n_kernel_evals_", None)
    kernel = "" if evaluations is None else f" Kernel evaluations: {number(evaluations)}."
    if phases:
        rows = [(name, value, seconds(value)) for name, value in phases]
        total = sum(value for _, value in phases)
        fit = figure(
            bar_list(rows, "seconds per phase of the fit"), f"The fit: {seconds(total)} in recorded phases.{kernel}"
        )
    else:
        unknown = "a model file does not keep them" if subject.estimator is None else "it recorded none"
        fit = f"<p>The times of the fit are not known: {unknown}.{kernel}</p>"
    rows = [(name, value, seconds(value)) for name, value in own]
    total = sum(value for _, value in own)
    page = figure(bar_list(rows, "seconds per phase of this report", "c1"), f"This report: {seconds(total)}.")
    return section("timings", "Time per phase", f'<div class="pair">{fit}{page}</div>')
