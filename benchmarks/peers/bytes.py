"""Test error against the bytes of the stored model, at 1, 4 and 16 kB: kompakt, a one-layer network, boosted trees.

    python -m benchmarks.peers.bytes [--quick] [--fresh] [--only TEXT]

Every number that a prediction needs is counted, from standardised inputs on, which all contenders are given. Numbers
of the network take four bytes; a tree six a split and four a leaf (feature, threshold; value). kompakt's are counted by
`stored_bytes` of the model that its fit returned and `compress(storage=...)` rounded: a fit that was asked for a map
and did not return one is counted without, and does not take part if it is too large.

Every contender chooses its parameters by the mean error on three fifths of the training rows (at most 10,000 rows in
all), each held out in turn, and is then fitted to all of them: kompakt its metric, C, number of vectors, `arcsinh` of
the inputs and storage, one after the other; the network its step, penalty, `arcsinh` and number of units; trees their
leaves, step and number. A model may take fewer bytes than it is allowed. The network's figure is the mean of three
seeds. Rows are stored by set, budget and contender, so a run goes on where one ended; what is stored is drawn into
docs/images.
"""

from __future__ import annotations

import sys
import time
import warnings
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass, replace
from functools import partial
from itertools import product
from typing import Any

import numpy as np
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import StratifiedKFold
from sklearn.neural_network import MLPClassifier

from benchmarks.harness import ROOT, Run, Target, at_least
from benchmarks.tasks import Task, subset, task
from kompakt import CompactSVC, Refinement, compress
from kompakt.model import stored_bytes

SETS = (
    "magic", "letter A-M/N-Z", "ijcnn1", "a9a", "spambase", "shuttle 1/rest", "cod_rna", "pendigits", "satimage",
    "optdigits", "letter", "covtype",
)  # fmt: skip
BUDGETS = (1024, 4096, 16384)
MOST_ROWS, MOST_VECTORS = 10_000, 400
PARTS = 3  # fifths of the training rows that are held out, one after the other
Predict = Callable[[np.ndarray], np.ndarray]


def n_outputs(y: np.ndarray) -> int:
    """Columns of weights: one for two classes."""
    classes = len(np.unique(y))
    return 1 if classes == 2 else classes


@dataclass(frozen=True)
class Setting:
    """What kompakt chooses on held-out rows."""

    C: float = 10.0
    metric: str | int = "ard"  # one width, one per feature ("ard"), or the rank of a map
    storage: str = "int8"
    arcsinh: bool = False  # of the inputs: a formula without numbers, for heavy tails
    most: int = MOST_VECTORS // 2  # vectors, where the budget allows more

    def n_basis(self, budget: int, d: int, outputs: int) -> int:
        """Vectors of a model with d features."""
        rank = None if isinstance(self.metric, str) else self.metric
        if self.storage == "float16":
            n_inputs = d if rank is None else rank
            beside = stored_bytes(0, d, outputs, rank=rank, bits=(16, 8, 8), scaling=int(self.metric == "ard"))
            return min(self.most, (budget - beside - 4 * outputs - 16) // (2 * (n_inputs + outputs)))
        sizes = [stored_bytes(m, d, outputs, rank=rank, scaling=0 if self.metric == "learn" else 2) for m in (0, 1)]
        return min(self.most, (budget - sizes[0]) // (sizes[1] - sizes[0]))


def kompakt_fit(parts: Task, budget: int, setting: Setting) -> Predict | None:
    """A model whose numbers fit into the budget."""
    X, y, _, _ = parts

    def seen(X: np.ndarray) -> np.ndarray:
        X = X.astype(np.float32)
        return np.arcsinh(X) if setting.arcsinh else X

    d, outputs = X.shape[1], n_outputs(y)
    rank = None if isinstance(setting.metric, str) else setting.metric
    m = min(setting.n_basis(budget, d, outputs), len(X) // 4)
    if m < 1 or (rank is not None and rank > d):
        return None
    gamma = setting.metric if rank is None else "full"
    refine: Any = True if rank is None else Refinement(rank=rank)
    rows = seen(X)
    machine = CompactSVC(m, C=setting.C, gamma=gamma, refine=refine, random_state=0).fit(rows, y)
    model = compress(machine, storage=setting.storage, X=rows, random_state=0)
    if model.stored_bytes > budget:
        return None
    return lambda X: np.asarray(model.predict(seen(X)))


def kompakt_error(whole: Task, parts: list[Task], budget: int) -> dict[str, Any]:
    """Test error of kompakt; its setting is found one choice after the other."""
    d, outputs = whole[0].shape[1], n_outputs(whole[1])
    errors: dict[Setting, list[float]] = {}

    def best(settings: Iterable[Setting], count: int = 1, parts: list[Task] = parts) -> list[Setting]:
        asked = list(dict.fromkeys(settings))
        for one in asked:
            known = errors.setdefault(one, [])
            known += [wrong(kompakt_fit(part, budget, one), *part[2:]) for part in parts[len(known) :]]
        return sorted(asked, key=lambda one: float(np.mean(errors[one][: len(parts)])))[:count]

    ranks = sorted({rank for rank in (4, 10, d) if rank <= d and 2 * rank * d <= 0.6 * budget})
    first = [Setting(metric=metric, C=C) for metric in ("ard", "learn", *ranks) for C in (10.0, 1.0)]
    (found,) = best(best(first, 3, parts[:1]))
    (found,) = best([found, replace(found, C=100.0 if found.C == 10.0 else 0.1)])
    half = found.n_basis(budget, d, outputs) // 2
    (found,) = best([found, replace(found, most=MOST_VECTORS), replace(found, most=half)])
    (found,) = best([found, replace(found, arcsinh=True)])
    (found,) = best([found, replace(found, storage="float16")])
    ours = wrong(kompakt_fit(whole, budget, found), *whole[2:])
    tried = {str(setting): value for setting, value in errors.items()}
    return {"ours": ours, "setting": asdict(found), "tried": tried, "note": str(found)}


def network_fit(
    parts: Task,
    budget: int,
    step: float = 1e-2,
    penalty: float = 1e-4,
    arcsinh: bool = False,
    share: float = 1.0,
    seed: int = 0,
) -> Predict | None:
    """A network with one hidden layer, of as many units as the budget allows or a share of them."""
    X, y, _, _ = parts
    outputs = n_outputs(y)
    hidden = int(share * ((budget // 4 - outputs) // (X.shape[1] + 1 + outputs)))
    if hidden < 1:
        return None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        network = MLPClassifier((hidden,), alpha=penalty, learning_rate_init=step, max_iter=100, random_state=seed)
        network.fit(np.arcsinh(X) if arcsinh else X, y)
    return lambda X: np.asarray(network.predict(np.arcsinh(X) if arcsinh else X))


def network_error(whole: Task, parts: list[Task], budget: int) -> dict[str, Any]:
    """Mean test error of three networks."""

    def mean_error(**options: Any) -> float:
        return float(np.mean([wrong(network_fit(part, budget, **options), *part[2:]) for part in parts]))

    best: dict[str, Any] = {}
    least = mean_error()
    for other in ({"step": 1e-3}, {"penalty": 1e-2}, {"arcsinh": True}, {"share": 0.5}):
        error = mean_error(**{**best, **other})
        if error < least:
            best, least = {**best, **other}, error
    errors = [wrong(network_fit(whole, budget, **best, seed=seed), *whole[2:]) for seed in range(3)]
    return {"ours": float(np.mean(errors)), "note": str(best or "as usual")}


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


def trees_error(whole: Task, parts: list[Task], budget: int) -> dict[str, Any]:
    """Test error of boosted trees."""
    best, tree = np.inf, (2, 0.1, 1)
    for leaves, step in product((4, 8, 16, 31), (0.1, 0.3)):
        rounds = n_trees(budget, leaves, whole[1])
        if rounds < 1:
            continue
        curves = [
            [
                float(np.mean(labels != part[3]))
                for labels in trees_of(part, leaves, step, rounds).staged_predict(part[2])
            ]
            for part in parts
        ]
        means = np.mean(curves, axis=0)
        if float(np.min(means)) < best:
            best, tree = float(np.min(means)), (leaves, step, int(np.argmin(means)) + 1)
    error = 100.0 if best == np.inf else wrong(trees_of(whole, *tree).predict, *whole[2:])
    return {"ours": error, "note": f"leaves, step, rounds: {tree}"}


CONTENDERS = {"kompakt": kompakt_error, "network": network_error, "trees": trees_error}


def measured(contender: str, name: str, budget: int, quick: bool) -> dict[str, Any]:
    """Test error of a contender whose parameters were chosen on training rows, and its processor time."""
    whole = subset(task(name, 0), 2000 if quick else MOST_ROWS)
    X, y = whole[:2]
    folds = list(StratifiedKFold(5, shuffle=True, random_state=0).split(X, y))[:PARTS]
    start = time.process_time()
    found = CONTENDERS[contender](whole, [(X[a], y[a], X[b], y[b]) for a, b in folds], budget)
    return {**found, "cpu_seconds": time.process_time() - start}


def draw(table: dict[str, dict[int, dict[str, float]]]) -> None:
    """Error against bytes, a panel for each set."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(3, 4, figsize=(12, 8), sharex=True)
    looks = {
        "kompakt": ("o-", "#0b6e99"),
        "network": ("s--", "#b4551d"),
        "trees": ("^:", "#5b7f2b"),
    }
    for axis, (name, by_budget) in zip(axes.flat, table.items(), strict=False):
        for label, (style, colour) in looks.items():
            values = [(budget / 1024, row[label]) for budget, row in by_budget.items() if row[label] < 100]
            if values:
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
    run = Run("peers_bytes", "Test error at 1, 4 and 16 kB", quick_minutes=8, full_minutes=60)
    lowest = Target("lowest", lambda row: row["ours"] <= row["peer"])
    near_best = Target("<= best + 0.3", lambda row: row["ours"] <= row["peer"] + 0.3)
    table: dict[str, dict[int, dict[str, float]]] = {}
    won, sets = dict.fromkeys(BUDGETS, 0), dict.fromkeys(BUDGETS, 0)
    for budget, name in product(BUDGETS, SETS):
        row = f"{name}, {budget // 1024} kB"
        found: dict[str, float] = {}
        for contender in CONTENDERS:
            measure = partial(measured, contender, name, budget, run.quick)
            values = run.row(f"{row}, {contender}", {"budget": budget, "parts": PARTS}, measure, unit="%")
            if values is not None:
                found[contender] = values["ours"]
        if len(found) < len(CONTENDERS):
            continue
        table.setdefault(name, {})[budget] = found
        target = near_best if budget == BUDGETS[-1] else lowest
        total = {"ours": found["kompakt"], "peer": min(found["network"], found["trees"])}
        run.row(row, {"budget": budget, **total}, partial(dict, total), target, unit="%")
        won[budget] += target.holds(total)
        sets[budget] += 1
    run.failed.clear()  # what counts is the number of sets
    for budget, wanted in zip(BUDGETS, (9, 9, 8), strict=True):
        if sets[budget] == len(SETS):
            total = {"ours": float(won[budget])}
            run.row(f"sets won at {budget // 1024} kB", total, partial(dict, total), at_least(wanted))
    if table and not run.quick and not run.options.only:
        draw(table)
    return run.finish()


if __name__ == "__main__":
    sys.exit(main())
