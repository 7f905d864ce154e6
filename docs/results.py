"""Tables and figures of docs/papers and the README's picture, from stored measurements.

    python docs/results.py             # the tables and figures whose measurements are in benchmarks/results
    python docs/results.py --picture   # also trains the models of the pictures of the README and of the first page

Tables stand between ``<!-- table NAME: begin -->`` and ``<!-- table NAME: end -->`` and are replaced, so that they say
what was measured.  The measurements come from the scripts that each page
names; a page whose measurements are absent stays.
"""

from __future__ import annotations

import io
import json
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

DOCS = Path(__file__).resolve().parent
RESULTS = DOCS.parent / "benchmarks" / "results"
IMAGES = DOCS / "images"
Records = dict[str, dict[str, Any]]


def stored(script: str) -> Records:
    """The last full measurement of every row of a script, by the row's name."""
    found: Records = {}
    path = RESULTS / f"{script}.jsonl"
    for line in path.read_text().splitlines() if path.exists() else []:
        record = json.loads(line)
        _, row, settings = json.loads(record["key"])
        if not settings.get("quick"):
            found[row] = {**record["values"], "settings": settings}
    return found


def table(header: str, rows: list[list[str]]) -> str:
    head = f"| {header} |\n" + "|---" * (header.count("|") + 1) + "|\n"
    return head + "".join("| " + " | ".join(row) + " |\n" for row in rows)


def spsvm_table1() -> str:
    found = stored("spsvm_table1")
    rows = []
    for name in [row.split(",")[0] for row in found if row.endswith("test error")]:
        error, size = found[f"{name}, test error"], found[f"{name}, basis vectors"]
        exact = found.get(f"{name}, exact SVM")
        verdicts = error["ours"] <= error["paper"] + error["paper_sd"], size["ours"] <= 1.2 * size["paper"]
        rows.append(
            [
                name,
                f"{error['ours']:.2f} ± {error['spread']:.2f} ({error['paper']:.2f} ± {error['paper_sd']:.2f})",
                f"{size['ours']:.1f} ± {size['spread']:.1f} ({size['paper']:.1f} ± {size['paper_sd']:.1f})",
                f"{exact['ours']:.2f}" if exact else "-",
                f"{exact['vectors']:.0f}" if exact else "-",
                ["-", "size", "error", "both"][2 * verdicts[0] + verdicts[1]],
            ]
        )
    return table("set | SpSVC error, % (paper) | vectors (paper) | exact SVM error, % | its vectors | holds", rows)


def spsvm_curves() -> dict[str, dict[str, tuple[list[int], np.ndarray]]]:
    repeats: dict[str, dict[str, list[Any]]] = {}
    for row, values in stored("spsvm_figures").items():
        found = re.fullmatch(r"(\w+): (.+), seed \d+", row)
        if found:
            repeats.setdefault(found[1], {}).setdefault(found[2], []).append(values)
    curves: dict[str, dict[str, tuple[list[int], np.ndarray]]] = {}
    for data, by_name in repeats.items():
        own = curves[data] = {}
        for name, runs in by_name.items():
            errors = np.array([one["errors"] for one in runs], dtype=float)  # nan: it ended before that size
            own[name] = runs[0]["sizes"], errors.mean(axis=0)
    return curves


SELECTIONS = (
    "sp1", "sp2", "sp2, lambda = 1e-5", "mark", "kmp", "kmp, lambda = 1e-5", "kmp_prefit", "random", "cholesky", "gsvc",
    "bh",
)  # fmt: skip


def spsvm_figures() -> str:
    rows: list[list[str]] = []
    found = spsvm_curves()
    if len(found) < 5:  # the table stands until all sets are measured
        return ""
    for name, curves in found.items():
        for selection in SELECTIONS:
            if selection not in curves:
                continue
            sizes, errors = curves[selection]
            values = [errors[sizes.index(m)] for m in (10, 30, 100, 300)]
            shown = ["-" if np.isnan(value) else f"{value:.2f}" for value in values]
            rows.append([name if name not in [row[0] for row in rows] else "", selection, *shown])
    return table("set | selection | 10 vectors | 30 | 100 | 300", rows)


def fee_exact() -> str:
    found = stored("fee_exact")
    rows = []
    for name in [row.split(",")[0] for row in found if row.endswith(", fee") and " search " not in row]:
        exact, fee = found[f"{name}, exact"], found[f"{name}, fee"]
        cells = [f"{exact['ours']:.2f} ({exact['paper']:.2f})", f"{fee['ours']:.2f} ({fee['paper']:.2f})"]
        sizes = [f"{exact['size']:.0f} ({exact['paper_size']})", f"{fee['size']:.0f} ({fee['paper_size']})"]
        sgma, times = found.get(f"{name}, sgma"), found.get(f"{name}, time of SGMA over FEE")
        cells.append(f"{sgma['ours']:.2f} ({sgma['paper']:.2f})" if sgma else "-")
        sizes.append(f"{sgma['size']:.0f} ({sgma['paper_size']})" if sgma else "-")
        ratio = f"{times['ours']:.2f} ({times['paper']:.2f})" if times else "-"
        held = "yes" if fee["ours"] <= exact["ours"] + 0.5 else "no"
        rows.append([f"{name}, {fee['splits']} splits", *cells, *sizes, ratio, held])
    return table(
        "set: here (paper) | exact SVM, error % | FEE | SGMA | size SVM | size FEE | size SGMA | time SGMA / FEE | "
        "FEE within 0.5 of the SVM",
        rows,
    )


def fixed_size_accuracies() -> str:
    """A row per model: the paper's figure, its recipe here and our form, and which of the two reaches it."""
    found = {name: values for name, values in stored("fslssvm_tables").items() if "paper_sd" in values}
    rows = []
    for name in dict.fromkeys(name.removesuffix(", ours") for name in found):
        error = any(norm in name for norm in ("L1", "L2", "Linf"))
        digits, cells, holding = 3 if error else 2, [], []
        known = found.get(name) or found[f"{name}, ours"]
        for form, label in ((name, "recipe"), (f"{name}, ours", "ours")):
            if form not in found:
                cells.append("-")
                continue
            values = found[form]
            away = (values["ours"] - values["paper"]) / values["paper_sd"]
            cells.append(f"{values['ours']:.{digits}f} ± {values['spread']:.{digits}f} ({away:+.1f})")
            room = values["spread"] + values["paper_sd"]
            if values["ours"] <= values["paper"] + room if error else values["ours"] >= values["paper"] - room:
                holding.append(label)
        rows.append(
            [name, f"{known['paper']:.2f} ± {known['paper_sd']:.2f}", *cells, " and ".join(holding) or "neither"]
        )
    order = ["pid", "bho", "ccs", "spa", "opt", "lan", "pen", "shu", "adu", "mgt", "let", "ftc"]
    rows.sort(key=lambda row: order.index(row[0].split(",")[0]))
    return table("set, model | paper | its recipe here | ours | holds", rows)


def fixed_size_cv() -> str:
    found = stored("fslssvm_cv")
    rows = []
    if not found:
        return ""
    for data, m in (("concrete", 400), ("magic", 50), ("magic", 300), ("magic", 700)):
        cells = []
        for folds in (5, 10, 20, 50):
            values = found.get(f"{data}, {m} vectors, {folds} folds", {})
            cells.append(f"{values['ours']:.1f} ({values['paper']:.1f})" if values else "-")
        rows.append([f"{data}, {m} vectors", *cells])
    return table("times as fast as refitting (paper) | 5 folds | 10 | 20 | 50", rows)


def local_ratios() -> str:
    """Error over the full SVM's, and time in per cent of its own, for every way to draw rows."""
    found, rows = stored("local_sampling_ratios"), []
    kinds = ("random", "default", "reweighted", "paper")
    counts = dict.fromkeys(kinds, 0)
    for row in [row for row in found if row.endswith(", default")]:
        pair, cells = row.removesuffix(", default"), []
        for kind in kinds:
            values = found.get(f"{pair}, {kind}")
            cells.append(f"{values['ours']:.2f} ({values['peer']:.1f})" if values else "-")
            if values and values["ours"] <= 1.10 and values["peer"] <= 15.0:
                counts[kind] += 1
                cells[-1] = f"**{cells[-1]}**"
        rows.append([pair, *cells])
    rows.append(["within 1.10 at 15 %", *(f"{counts[kind]} of {len(rows)}" for kind in kinds)])
    return table(
        'ratio (time, %) | random rows, C n / n_reduced | default, `"margin"` | `"reweighted"` | `"paper"`, as printed',
        rows if len(rows) > 1 else [],
    )


def local_others() -> str:
    found, rows = stored("local_sampling_ratios"), []
    for row, values in found.items():
        if row.startswith("other, "):
            margin, balls = (values["means"][kind] for kind in ("margin", "reweighted"))
            cells = [f"{ratio:.2f} ({share:.0f})" for ratio, share in (margin, balls)]
            rows.append([row[7:].removesuffix(": margins, balls"), *cells])
    return table('ratio (time, %) | default, `"margin"` | `"reweighted"`', rows)


def local_cglq() -> str:
    found, rows = stored("local_sampling_tables"), []
    for row, values in found.items():
        if row.endswith(", cglq, error ratio") and not row.startswith("covtype"):
            known = re.search(r"([\d.]+) rounds; time [\d.]+ % \(paper ([\d.]+)\).*vectors (.+?), ", values["note"])
            runs = re.search(r"(\d+) runs", values["note"])
            assert known is not None
            assert runs is not None
            cells = [
                f"{values['ours']:.3f} ({values['paper']:g})",
                f"{values['share']:.1f} ({known[2]})",
                known[1],
                known[3],
            ]
            rows.append([row.removesuffix(", cglq, error ratio"), runs[1], *cells])
    return table("here (paper) | runs | error ratio | time, % of full | rounds | support vectors, first -> last", rows)


def projection_table1() -> str:
    rows = []
    for name, values in stored("projection_tables").items():
        if name.startswith("Table 1,"):
            low, high = values["range"]
            within = abs(values["ours"] - values["paper"]) <= 1.0
            spread = f"{low:.1f} to {high:.1f}" if " m=" in name else "-"
            cells = [f"{values['ours']:.1f}", spread, f"{values['paper']:.1f}", "yes" if within else "no"]
            rows.append([name[9:], *cells])
    return table("model | mean test error, % | of single first vectors | paper | mean within a point", rows)


def projection_table2() -> str:
    found = stored("projection_tables")
    rows = []
    for name in dict.fromkeys(row.split(", ")[1] for row in found if row.startswith("Table 2,")):
        names = [f"Table 2, {name}, {kind}" for kind in ("SVM", "SVM+Approx", "KFLD", "KFLD+Approx")]
        if any(row not in found for row in names):
            return ""  # the table stands until all of it is measured
        cells = [found[row] for row in names]
        rows.append([name, *(f"{c['ours']:.2f} ({c['paper']:.2f}), {c['vectors']:.0f}" for c in cells)])
    return table("set: error % (paper), vectors | SVM | SVM, approximated | Fisher | Fisher, approximated", rows)


def projection_steps() -> str:
    """Values that SMO looks at, and the errors of one and two passes, at the table's C and width."""
    found, rows = stored("projection_tables"), []
    for name in dict.fromkeys(row.split(", ")[1] for row in found if row.endswith("SMO values, 1e3")):
        cells = []
        for kind in ("SVM", "SVM+Approx"):
            values = found[f"Table 2, {name}, {kind}, SMO values, 1e3"]
            cells.append(f"{values['ours']:,.0f} ({values['paper']:,g})")
        two = found.get(f"Table 2, {name}, SVM+Approx, two passes")
        cells += [f"{two['peer']:.2f}, {two['ours']:.2f} (s.e. {two['standard_error']:.2f})" if two else "-"]
        evaluations = re.search(r"kernel values ([\d.]+)e3 and ([\d.]+)e3", two["note"]) if two else None
        cells.append(f"{evaluations[2]}, {evaluations[1]}" if evaluations else "-")
        rows.append([name, *cells])
    return table(
        "set | SVM, thousands of values (paper) | approximated (paper) | error %: one pass, two passes | "
        "thousands of kernel values: one pass, two",
        rows,
    )


def projection_figure1() -> str:
    rows = []
    for name, values in stored("projection_tables").items():
        if name.startswith("Figure 1,"):
            pairs = re.findall(r"m=(\d+): ([\d.]+) \(PCA ([\d.]+)\)", values["note"])
            rows.append([name[10:].removesuffix(", greedy / PCA"), *(f"{ours} ({pca})" for _, ours, pca in pairs)])
    return table("mean error: greedy (PCA) | 10 vectors | 25 | 50 | 75 | 90", rows)


def save(figure: Any, name: str) -> None:
    """As a picture with 64 colours: a third of the bytes, and they are under version control."""
    import matplotlib.pyplot as plt
    from PIL import Image

    IMAGES.mkdir(exist_ok=True)
    buffer = io.BytesIO()
    figure.savefig(buffer, dpi=100)
    plt.close(figure)
    Image.open(buffer).convert("RGB").quantize(64).save(IMAGES / name, optimize=True)


def draw_spsvm() -> None:
    import matplotlib.pyplot as plt

    curves = spsvm_curves()
    if len(curves) < 5:
        return
    figure, panels = plt.subplots(1, len(curves), figsize=(3 * len(curves), 3.2), layout="constrained")
    for panel, (name, by_selection) in zip(np.atleast_1d(panels), curves.items(), strict=True):
        for selection in ("sp1", "sp2", "kmp", "random", "cholesky", "gsvc", "bh"):
            if selection in by_selection:
                sizes, errors = by_selection[selection]
                known = np.isfinite(errors)
                panel.plot(np.array(sizes)[known], errors[known], "o-", markersize=3, label=selection)
        scale = "log" if name == "shuttle" else "linear"
        panel.set(title=name, xscale="log", yscale=scale, xlabel="basis vectors")
    np.atleast_1d(panels)[0].set_ylabel("test error, %")
    np.atleast_1d(panels)[-1].legend(fontsize="x-small")
    save(figure, "spsvm_selections.png")


def draw_fixed_size() -> None:
    import matplotlib.pyplot as plt

    found = stored("fslssvm_cv")
    figure, ax = plt.subplots(figsize=(5.5, 3.6), layout="constrained")
    folds = (5, 10, 20, 30, 40, 50)
    for number, (data, m) in enumerate((("concrete", 400), ("magic", 300), ("magic", 700))):
        rows = [found.get(f"{data}, {m} vectors, {k} folds") for k in folds]
        if not all(rows):
            return
        ax.plot(folds, [row["ours"] for row in rows if row], "o-", color=f"C{number}", label=f"{data}, {m}: here")
        ax.plot(folds, [row["paper"] for row in rows if row], ":", color=f"C{number}", label=f"{data}, {m}: paper")
    ax.set(xlabel="folds", ylabel="refitting every fold / fast")
    ax.legend(fontsize="small")
    save(figure, "fixed_size_cv.png")


def draw_picture() -> None:
    """The picture of the first page: the models of `make demo` on the checkerboard."""
    import matplotlib.pyplot as plt
    from sklearn.svm import SVC

    from kompakt import CompactSVC
    from kompakt.datasets import make_checkerboard

    X, y = make_checkerboard(14_000, n_cells=4, flip=0.05, random_state=0)
    exact = SVC(gamma=30.0, C=10.0, cache_size=500).fit(X[:4000], y[:4000])
    compact = CompactSVC(100, gamma=30.0, C=10.0, random_state=0).fit(X[:4000], y[:4000])
    side = np.linspace(0, 1, 250)
    grid = np.column_stack([axis.ravel() for axis in np.meshgrid(side, side)])
    figure, panels = plt.subplots(1, 2, figsize=(8, 4.25), sharex=True, sharey=True, layout="constrained")
    kept = {"SVC": (exact, exact.support_vectors_), "CompactSVC": (compact, compact.basis_vectors_)}
    for panel, (name, (machine, vectors)) in zip(panels, kept.items(), strict=True):
        error = 100 * np.mean(machine.predict(X[4000:]) != y[4000:])
        values = machine.decision_function(grid).reshape(len(side), len(side))
        panel.contourf(side, side, values, levels=[-np.inf, 0, np.inf], colors=["#d7e3f4", "#f8dfd0"])
        panel.contour(side, side, values, levels=[0], colors="black", linewidths=1.2)
        panel.scatter(*vectors.T, facecolors="none", edgecolors="black", s=14, linewidths=0.7)
        title = f"{name}: {len(vectors):,} vectors, test error {error:.2f} %"
        panel.set(title=title, xlim=(0, 1), ylim=(0, 1), aspect="equal", xticks=[], yticks=[])
    save(figure, "boundaries.png")


def draw_digits() -> None:
    """The README's picture: the figure of the gallery's first example."""
    import runpy

    import matplotlib.pyplot as plt

    plt.rcParams["svg.hashsalt"] = "kompakt"  # the same figure gives the same file
    runpy.run_path(str(DOCS.parent / "examples" / "plot_00_size_and_speed.py"))
    plt.savefig(IMAGES / "digits.svg", metadata={"Date": None})
    plt.close()


def peers_points() -> str:
    """Of every family the point with the lowest error, and how many points of approximate peers are dominated."""
    rows = []
    for name, values in stored("peers_pareto").items():
        if "points" not in values:
            continue
        points = values["points"]

        def best(*families: str, points: list[Any] = points) -> str:
            own = [p for p in points if p["contender"].split("(")[0] in families]
            if not own:
                return "-"
            least = min(own, key=lambda p: (p["error"], p["size"]))
            size = "" if np.isnan(least["size"]) else f"{least['size']:.0f}, "
            return f"{least['error']:.2f} ({size}{least['fit']:.1f} s)"

        kompakt = ("kompakt", "kompakt, rows only", "kompakt, rows only, least squares")
        others = (
            "Nystroem + LinearSVC",
            "RBFSampler + LinearSVC",
            "network",
            "HistGradientBoosting",
        )
        cells = [best(*kompakt), *map(best, others), best("SVC", "intelex SVC")]
        rows.append([name, *cells, f"{values['ours']:.0f} of {values['peer']:.0f}"])
    return table(
        "set: lowest error % (vectors, fit) | kompakt | Nystroem + LinearSVC | RBFSampler + LinearSVC | network | "
        "HistGradientBoosting | exact SVC | dominated",
        rows,
    )


def draw_peers() -> None:
    """Test error against the number of vectors: a panel for each set, the exact SVC and boosted trees as lines."""
    from matplotlib import pyplot as plt

    found = {name: values["points"] for name, values in stored("peers_pareto").items() if "points" in values}
    if not found:
        return
    families = {
        "kompakt": "o-",
        "Nystroem + LinearSVC": "s--",
        "RBFSampler + LinearSVC": "^--",
        "network": "d:",
    }
    figure, axes = plt.subplots(-(-len(found) // 3), 3, figsize=(10, 3 * -(-len(found) // 3)), squeeze=False)
    for panel, (name, points) in zip(axes.flat, found.items(), strict=False):
        for family, style in families.items():
            lowest: dict[float, float] = {}  # of the points of one size, which differ in the length of refinement
            for point in points:
                if point["contender"].split("(")[0] == family:
                    lowest[point["size"]] = min(point["error"], lowest.get(point["size"], np.inf))
            sizes = sorted(lowest)
            panel.plot(sizes, [lowest[size] for size in sizes], style, label=family, markersize=4)
        for family, style in (("SVC", "k-"), ("HistGradientBoosting", "k:")):
            for point in points:
                if point["contender"].split("(")[0] == family:
                    panel.axhline(point["error"], linewidth=1, color=style[0], linestyle=style[1:], label=family)
        panel.set(title=name, xscale="log", ylabel="test error, %", xlabel="vectors, features or units")
    for panel in axes.flat[len(found) :]:
        panel.set_visible(False)
    handles, labels = axes.flat[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="lower center", ncol=6, fontsize=8)
    figure.tight_layout(rect=(0, 0.04, 1, 1))
    save(figure, "peers.png")


def bytes_of_models() -> str:
    """Errors of the three contenders at every budget, the lowest in bold."""
    found: dict[str, dict[str, list[float]]] = {}
    for row, values in stored("peers_bytes").items():
        name, _, rest = row.rpartition(" kB, ")
        if rest in ("kompakt", "network", "trees") and "parts" in values["settings"]:
            name, _, budget = name.rpartition(", ")
            found.setdefault(name, {}).setdefault(budget, [np.nan] * 3)[["kompakt", "network", "trees"].index(rest)] = (
                values["ours"]
            )

    def cell(errors: list[float] | None) -> str:
        if errors is None or np.isnan(errors).any():
            return "-"
        return " / ".join(f"**{error:.2f}**" if error == min(errors) else f"{error:.2f}" for error in errors)

    rows = [[name, *(cell(budgets.get(budget)) for budget in ("1", "4", "16"))] for name, budgets in found.items()]
    return table("error %: kompakt / network / trees | 1 kB | 4 kB | 16 kB", rows)


def flagship_sizes() -> str:
    found, rows = stored("flagship_sizes"), []
    for row, ours in found.items():
        name, _, contender = row.partition(": ")
        if contender != "CompactSVC":
            continue
        compact = ", ".join(f"{ours['by_size'][m]:.2f}" for m in ("10", "20", "50", "100"))
        share = "-" if ours["share"] is None else f"{ours['share']:.1f} %"
        exact = found[f"{name}: exact SVC"]
        at_one = f"{ours['at_share']['1']:.2f}"
        rows.append([name, compact, f"{exact['ours']:.2f} ({exact['n_support']})", at_one, share])
    return table(
        "set: error % | CompactSVC with 10, 20, 50, 100 | exact SVC (vectors) | CompactSVC with 1 % of these | "
        "share that reaches it + 0.3",
        rows,
    )


TABLES: dict[str, tuple[str, Callable[[], str]]] = {
    "peers": ("../peers.md", peers_points),
    "sizes": ("../peers.md", flagship_sizes),
    "bytes": ("../peers.md", bytes_of_models),
    "spsvm 1": ("spsvm.md", spsvm_table1),
    "spsvm figures": ("spsvm.md", spsvm_figures),
    "fee exact": ("fee.md", fee_exact),
    "fixed_size accuracies": ("fixed_size.md", fixed_size_accuracies),
    "fixed_size cv": ("fixed_size.md", fixed_size_cv),
    "local ratios": ("local_sampling.md", local_ratios),
    "local cglq": ("local_sampling.md", local_cglq),
    "local others": ("local_sampling.md", local_others),
    "projection 1": ("projection.md", projection_table1),
    "projection 2": ("projection.md", projection_table2),
    "projection steps": ("projection.md", projection_steps),
    "projection figure": ("projection.md", projection_figure1),
}


def main() -> None:
    import matplotlib

    from kompakt.plots.style import STYLE

    matplotlib.use("Agg")
    matplotlib.rcParams.update(STYLE)
    for name, (page, make) in TABLES.items():
        path = DOCS / "papers" / page
        made = make()
        if made.count("\n") <= 2:
            print(f"{name}: no measurements stored, left as it is")
            continue
        begin, end = f"<!-- table {name}: begin -->\n", f"<!-- table {name}: end -->"
        before, rest = path.read_text().split(begin)
        path.write_text(before + begin + "\n" + made + "\n" + end + rest.split(end)[1])
    draw_peers()
    draw_spsvm()
    draw_fixed_size()
    if "--picture" in sys.argv:
        draw_picture()
        draw_digits()


if __name__ == "__main__":
    main()
