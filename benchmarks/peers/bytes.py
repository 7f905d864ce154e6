"""Test error against the bytes of the stored model, at 1, 4 and 16 kB: kompakt, a one-layer network, boosted trees.

    python -m benchmarks.peers.bytes [--quick] [--fresh] [--only TEXT]

Numbers are counted at four bytes; trees at six bytes a split and four a leaf (feature, threshold; value). kompakt may
also keep its basis vectors in eight bits, as `to_c(dtype="int8")` does, with the range of each feature beside them.
Every contender chooses its parameters on a fifth of the training rows (at most 10,000 rows in all) and is then fitted
to all of them: kompakt C, metric (one width, one per feature, a map of rank 4 or 10) and the type of its numbers; the
network its penalty and step; trees their leaves, step and number. The network's figure is the mean of three seeds.
The figures are drawn into docs/images.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable
from functools import partial
from itertools import product
from typing import Any

import numpy as np
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import train_test_split
from sklearn.neural_network import MLPClassifier

from benchmarks.harness import ROOT, Run, Target, at_least
from benchmarks.tasks import Task, subset, task
from kompakt import CompactSVC, Refinement

SETS = (
    "magic", "letter A-M/N-Z", "ijcnn1", "a9a", "spambase", "shuttle 1/rest", "cod_rna", "pendigits", "satimage",
    "optdigits", "letter", "covtype",
)  # fmt: skip
BUDGETS = (1024, 4096, 16384)
MOST_ROWS, MOST_VECTORS = 10_000, 400
Predict = Callable[[np.ndarray], np.ndarray]


def n_outputs(y: np.ndarray) -> int:
    """Columns of weights: one for two classes."""
    classes = len(np.unique(y))
    return 1 if classes == 2 else classes


def kompakt_fits(parts: Task, budget: int, settings: list[tuple[float, Any, str]]) -> list[Predict | None]:
    """A model for each (C, metric, type of number) whose numbers fit into the budget; a number is the rank of a map."""
    X, y, _, _ = parts
    d, outputs = X.shape[1], n_outputs(y)
    found: list[Predict | None] = []
    for C, metric, kind in settings:
        rank = d if isinstance(metric, str) else int(metric)
        metric_size = {"learn": 1, "ard": d}.get(metric, rank * d)
        beside = 4 * (outputs + metric_size) + (8 * rank if kind == "int8" else 0)
        m = min((budget - beside) // ((1 if kind == "int8" else 4) * rank + 4 * outputs), MOST_VECTORS, len(X) // 4)
        if m < 1 or rank > d:
            found.append(None)
            continue
        refine = True if isinstance(metric, str) else Refinement(rank=rank)
        gamma = metric if isinstance(metric, str) else "full"
        model = CompactSVC(int(m), C=C, gamma=gamma, refine=refine, random_state=0).fit(X, y)
        found.append(rounded(model).predict if kind == "int8" else model.predict)
    return found


def rounded(machine: CompactSVC) -> Any:
    """The model with its basis in eight bits per value."""
    from dataclasses import replace

    from kompakt.export.c_file import eight_bits

    levels, zero, step = eight_bits(machine.model_.basis)
    return replace(machine.model_, basis=(zero + step * levels).astype(machine.model_.basis.dtype))


def network_fits(parts: Task, budget: int, settings: list[tuple[float, float]], seed: int = 0) -> list[Predict | None]:
    """A one-layer network for each (penalty, step)."""
    X, y, _, _ = parts
    outputs = n_outputs(y)
    hidden = (budget // 4 - outputs) // (X.shape[1] + 1 + outputs)
    if hidden < 1:
        return [None] * len(settings)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return [
            MLPClassifier((hidden,), alpha=alpha, learning_rate_init=step, max_iter=100, random_state=seed)
            .fit(X, y)
            .predict
            for alpha, step in settings
        ]


def n_trees(budget: int, leaves: int, y: np.ndarray) -> int:
    """Rounds of boosting that fit; a round has a tree per output."""
    return budget // (n_outputs(y) * (6 * (leaves - 1) + 4 * leaves))


def trees_of(parts: Task, leaves: int, step: float, rounds: int) -> HistGradientBoostingClassifier:
    X, y, _, _ = parts
    return HistGradientBoostingClassifier(
        max_iter=rounds, max_leaf_nodes=leaves, learning_rate=step, early_stopping=False, random_state=0
    ).fit(X, y)


def wrong(predict: Predict | None, X: np.ndarray, y: np.ndarray) -> float:
    return 100.0 if predict is None else 100 * float(np.mean(predict(X) != y))


def errors_of(name: str, budget: int, quick: bool) -> dict[str, Any]:
    """Test errors of the contenders, their parameters chosen on training rows."""
    X, y, Xt, yt = subset(task(name, 0), 2000 if quick else MOST_ROWS)
    A, B, ya, yb = train_test_split(X, y, test_size=0.2, random_state=0, stratify=y)
    part: Task = (A, ya, B, yb)
    whole: Task = (X, y, Xt, yt)

    own: list[tuple[float, Any, str]] = list(product((1.0, 10.0, 100.0), ("learn", "ard", 4, 10), ("int8",)))
    errors = [wrong(one, B, yb) for one in kompakt_fits(part, budget, own)]
    chosen = own[int(np.argmin(errors))]
    plain = (*chosen[:2], "float32")
    chosen = plain if wrong(kompakt_fits(part, budget, [plain])[0], B, yb) <= min(errors) else chosen
    ours = wrong(kompakt_fits(whole, budget, [chosen])[0], Xt, yt)

    nets = list(product((1e-4, 1e-2), (1e-3, 1e-2)))
    net = nets[int(np.argmin([wrong(one, B, yb) for one in network_fits(part, budget, nets)]))]
    network = float(np.mean([wrong(network_fits(whole, budget, [net], seed)[0], Xt, yt) for seed in range(3)]))

    best, tree = np.inf, (2, 0.1, 1)
    for leaves, step in product((4, 8, 16, 31), (0.1, 0.3)):
        rounds = n_trees(budget, leaves, y)
        if rounds < 1:
            continue
        for count, labels in enumerate(trees_of(part, leaves, step, rounds).staged_predict(B), start=1):
            error = 100 * float(np.mean(labels != yb))
            if error < best:
                best, tree = error, (leaves, step, count)
    boosted = 100.0 if best == np.inf else wrong(trees_of(whole, *tree).predict, Xt, yt)
    return {
        "ours": ours, "network": network, "trees": boosted, "peer": min(network, boosted), "setting": str(chosen),
        "note": f"network {network:.2f}, trees {boosted:.2f}; C, width, type: {chosen}",
    }  # fmt: skip


def draw(table: dict[str, dict[int, dict[str, float]]]) -> None:
    """Error against bytes, a panel for each set."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(3, 4, figsize=(12, 8), sharex=True)
    looks = {
        "ours": ("kompakt", "o-", "#0b6e99"),
        "network": ("network", "s--", "#b4551d"),
        "trees": ("trees", "^:", "#5b7f2b"),
    }
    for axis, (name, by_budget) in zip(axes.flat, table.items(), strict=False):
        for key, (label, style, colour) in looks.items():
            values = [(budget / 1024, row[key]) for budget, row in by_budget.items() if row[key] < 100]
            axis.plot(*zip(*values, strict=True), style, color=colour, label=label)
        axis.set_title(name, fontsize=10)
        axis.set_xscale("log", base=4)
        axis.set_xticks([1, 4, 16], ["1", "4", "16"])
        axis.grid(alpha=0.3)
    for axis in axes[-1]:
        axis.set_xlabel("kB of the stored model")
    for axis in axes[:, 0]:
        axis.set_ylabel("test error (%)")
    axes[0, 0].legend(fontsize=8)
    figure.tight_layout()
    folder = ROOT / "docs" / "images"
    folder.mkdir(exist_ok=True)
    figure.savefig(folder / "bytes.svg")
    plt.close(figure)


def main() -> int:
    run = Run("peers_bytes", "Test error at 1, 4 and 16 kB", quick_minutes=5, full_minutes=40)
    lowest = Target("lowest", lambda row: row["ours"] <= row["peer"])
    near_best = Target("<= best + 0.3", lambda row: row["ours"] <= row["peer"] + 0.3)
    table: dict[str, dict[int, dict[str, float]]] = {}
    won = dict.fromkeys(BUDGETS, 0)
    for name, budget in product(SETS, BUDGETS):
        target = near_best if budget == BUDGETS[-1] else lowest
        row = f"{name}, {budget // 1024} kB"
        values = run.row(row, {"budget": budget}, partial(errors_of, name, budget, run.quick), target, unit="%")
        if values is not None:
            table.setdefault(name, {})[budget] = values
            won[budget] += target.holds(values)
    run.failed.clear()  # what counts is the number of sets
    if not run.options.only:
        for budget, wanted in zip(BUDGETS, (9, 9, 8), strict=True):
            total = {"ours": float(won[budget])}
            run.row(f"sets won at {budget // 1024} kB", total, partial(dict, total), at_least(wanted))
        draw(table)
    return run.finish()


if __name__ == "__main__":
    sys.exit(main())
