"""Figures 1 to 8 of Keerthi et al. 2006: error against number of basis vectors and against time, for every selection.

    python -m benchmarks.papers.spsvm_figures [--quick] [--fresh] [--only TEXT]

Sets, kernels and lambdas of the paper's appendix: adult-8, ijcnn1, shuttle (class 1 against rest, scaled to [-1, 1]),
MNIST 3 against 8 (test rows shifted and rotated: 9 x 1,984) and MNIST 3 against others.  The sixth set, Vehicle, is not
available.  kappa = 59 and retraining at every step, except where a figure is about them.  Curves are stored with the
rows; the figures are written next to the results when matplotlib is there.

Reductions, to keep the full run within an hour on two cores: training rows are the first N_ROWS of a fixed
permutation, the same for all selections (the paper: all rows, and 20,000 for its method 1), test rows at most N_TEST;
one process; kmp_prefit runs once; figures 5 to 8 use a quarter of the rows.  --quick uses two sets and small sizes.

The paper prints no numbers with its figures, so what is judged is what it says of them, with 0.1 points of tolerance:

- Figures 1 and 2: sp1 and sp2 at or below random, cholesky, gsvc and bh in test error at 100 and at 300 vectors, means
  of the seeds measured (3 of them in a full run); wanted on at least 4 of 5 sets.
- Figures 3 and 4: sp2 at or below kmp at 100 and 300 vectors, but on m3v8 kmp at or below sp2 at 300; and adult without
  regularisation (lambda = 1e-5) is worse at 300 vectors than with it.
- Figure 5: at 300 vectors retraining at every step is at or below all schedules, and quarter powers take less time.
- Figure 6: more candidates are at or below fewer at 300 vectors.
- Figures 7 and 8: vectors with which sp2 (kappa = 10, quarter powers) has the error of the exact L2-SVM on the same
  rows, in per cent of that machine's support vectors: at most 10.
"""

from __future__ import annotations

import sys
import time
from dataclasses import fields
from functools import partial
from typing import Any

import numpy as np
from benchmarks.harness import RESULTS, Run, Target, at_least, load_data
from scipy.ndimage import rotate, shift

from kompakt import GrowthSelector, SpSVC
from kompakt.kernels import RBF, Kernel, Polynomial

SELECTIONS = ("sp1", "sp2", "random", "cholesky", "gsvc", "bh", "mark", "kmp", "kmp_prefit")
JUDGED = ("random", "cholesky", "gsvc", "bh")
#: C of the runs without regularisation (section 5)
UNREGULARISED = 1e5
N_ROWS, N_TEST = 20_000, 20_000
SETS = ("adult", "ijcnn1", "shuttle", "m3v8", "m3vothers")

CAUSES = {
    "adult: ordering holds": "a tie: at 300 vectors the six curves lie within 0.3 points, and the standard error of "
    "one on 9,865 test rows is 0.36; at 100 vectors the order holds",
    "adult: sp2, error added": "not seen up to 300 vectors: at 200 it is 0.34 points, within one standard error",
    "adult: kmp, error added": "not seen up to 300 vectors: at 200 it is 0.34 points, within one standard error",
    "m3v8: vectors": "300 vectors have 1.8 % with 10 candidates and rare retraining, 1.2 with 59 candidates and "
    "retraining at every step (on all 11,982 rows)",
    "adult: retraining always": "a tie: all schedules lie within 0.3 points, the standard error of one is 0.36",
    "ijcnn1: vectors": "300 vectors have 5.6 % (4.2 with 100 candidates and retraining at every step): greedy choice "
    "needs more than a quarter of the exact machine's 1,227 here",
    "shuttle: vectors": "a false miss: a tenth is 21, and only 10 vectors (1.4 %) and 30 (0.17 %) were tried; 14 "
    "(6.6 %) have 0.20 % where the exact SVM has 0.29",
}

#: set -> selection -> mean error at every size; the same of seconds
Curves = dict[str, dict[str, np.ndarray]]


def permuted(X: np.ndarray, y: np.ndarray, n: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    order = np.random.default_rng(seed).permutation(len(y))[:n]
    return X[order], y[order]


def unit_rows(X: np.ndarray) -> np.ndarray:
    X = X.reshape(len(X), -1).astype(np.float32)
    return X / np.maximum(np.linalg.norm(X, axis=1, keepdims=True), 1e-12)


def extended(images: np.ndarray) -> np.ndarray:
    """The images with shifts by a pixel in four directions and four small rotations: nine times as many."""
    moved = [images]
    moved += [shift(images, (0, a, b), order=0) for a, b in ((1, 0), (-1, 0), (0, 1), (0, -1))]
    moved += [rotate(images, angle, axes=(1, 2), reshape=False, order=1) for angle in (-10, -5, 5, 10)]
    return np.concatenate(moved)


def dataset(name: str) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, Kernel, float]:
    """Training and test rows with labels -1 and +1, kernel k of 1 + k, and C = 1 / lambda."""
    if name in ("m3v8", "m3vothers"):
        d = load_data("mnist")
        X, y = d["X_train"].reshape(-1, 28, 28).astype(float), d["y_train"]
        T, t = d["X_test"].reshape(-1, 28, 28).astype(float), d["y_test"]
        if name == "m3v8":
            X, y, T, t = X[(y == 3) | (y == 8)], y[(y == 3) | (y == 8)], T[(t == 3) | (t == 8)], t[(t == 3) | (t == 8)]
            T, t = extended(T), np.tile(t, 9)
        labels = np.where(y == 3, 1, -1), np.where(t == 3, 1, -1)
        return unit_rows(X), labels[0], unit_rows(T), labels[1], Polynomial(1.0, 1.0, 9), 10.0
    d = load_data({"adult": "a8a"}.get(name, name))
    X, T = d["X_train"].astype(float), d["X_test"].astype(float)
    y, t = d["y_train"], d["y_test"]
    if name == "shuttle":
        y, t = np.where(y == 1, 1, -1), np.where(t == 1, 1, -1)
        low, high = X.min(axis=0), X.max(axis=0)
        X, T = 2 * (X - low) / (high - low) - 1, 2 * (T - low) / (high - low) - 1
    gamma, C = {"adult": (0.05, 1.0), "ijcnn1": (4.0, 16.0), "shuttle": (16.0, 512.0)}[name]
    return X, y, T, t, RBF(gamma), C


def subset(name: str, n_rows: int) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, Kernel, float]:
    X, y, T, t, kernel, C = dataset(name)
    return *permuted(X, y, n_rows), *permuted(T, t, N_TEST), kernel, C


def path_errors(
    machine: SpSVC, kernel: Kernel, T: np.ndarray, t: np.ndarray, sizes: list[int], X: np.ndarray, y: np.ndarray
) -> list[float | None]:
    """Test error in per cent of the machine's first vectors, for several sizes (weights re-fitted at each)."""
    from kompakt.data import ArrayRows
    from kompakt.design import Design
    from kompakt.losses import make_loss
    from kompakt.parallel import block_threads
    from kompakt.solve import Problem, solve

    loss = make_loss("least_squares" if machine.selection.rule.startswith("kmp") else "squared_hinge", classes=True)
    targets = np.where(y > 0, 1.0, -1.0)[:, None]
    errors: list[float | None] = []
    with block_threads(1):
        vectors = np.asarray(machine.basis_vectors_)
        K_test = kernel.block(T, vectors)
        for size in sizes:
            if size > machine.n_basis_:
                errors.append(None)
                continue
            basis = vectors[:size]
            design = Design(ArrayRows(X, targets), kernel, basis, whiten=True)
            found = solve(Problem(design, loss, machine.C_, fit_intercept=False))
            wrong = np.where(K_test[:, :size] @ found.weights[:, 0] > 0, 1, -1) != t
            errors.append(100 * float(np.mean(wrong)))
    return errors


def curve(name: str, n_rows: int, sizes: list[int], seed: int, **options: Any) -> dict[str, Any]:
    """Grow once to the largest size; error, objective and time at every size."""
    X, y, T, t, kernel, C = subset(name, n_rows)
    growth: dict[str, Any] = {"n_candidates": 59, "retraining": "always", "cache": False}
    growth |= {field.name: options.pop(field.name) for field in fields(GrowthSelector) if field.name in options}
    options = {"C": C, "selection": GrowthSelector(**growth), **options}
    machine = SpSVC(max(sizes), kernel=kernel + 1.0, fit_intercept=False, random_state=seed, n_jobs=1, **options)
    start = time.process_time()
    machine.fit(X, y)
    seconds = time.process_time() - start
    reached = {record["n_basis"]: record for record in machine.history_}
    return {
        "sizes": sizes,
        "errors": path_errors(machine, kernel + 1.0, T, t, sizes, X, y),
        "objectives": [reached[size]["objective"] if size in reached else None for size in sizes],
        "times": [reached[size]["time"] if size in reached else None for size in sizes],
        "seconds": seconds,
        "n_basis": machine.n_basis_,
    }


def tasks_of(quick: bool) -> list[tuple[str, int, dict[str, Any]]]:
    """Label, seed and options of every growth on a set: the first seed of all selections, then the others."""
    tasks: list[tuple[str, int, dict[str, Any]]] = [(name, 0, {"rule": name}) for name in SELECTIONS]
    if not quick:
        for selection in ("sp2", "kmp"):
            tasks.append((f"{selection}, lambda = 1e-5", 0, {"rule": selection, "C": UNREGULARISED}))
        # criteria over all rows depend on the seed through their first row and ties
        tasks += [(name, seed, {"rule": name}) for seed in (1, 2) for name in SELECTIONS if name != "kmp_prefit"]
    return tasks


def shown(sizes: list[int], errors: Any, seconds: float) -> str:
    return "error % at " + ", ".join(f"{d}: {e:.2f}" for d, e in zip(sizes, errors, strict=True)) + f"; {seconds:.0f} s"


def basis_selection(run: Run, names: tuple[str, ...], n_rows: int, sizes: list[int]) -> tuple[Curves, Curves]:
    """Figures 1 to 4: all selections with the paper's lambda; sp2 and kmp also without regularisation."""
    found: Curves = {}
    times: Curves = {}
    for name in names:
        done: dict[str, list[dict[str, Any]]] = {}
        for label, seed, options in tasks_of(run.quick):

            def measure(name: str = name, seed: int = seed, options: dict[str, Any] = options) -> dict[str, Any]:
                result = curve(name, n_rows, sizes, seed, **options)
                errors = last_known(result["errors"])
                return {"ours": float(errors[-1]), "note": shown(sizes, errors, result["seconds"]), **result}

            params = {"rows": n_rows, "test": N_TEST, "sizes": sizes, "candidates": "mixed", **options}
            values = run.row(f"{name}: {label}, seed {seed}", params, measure, unit="%")
            if values is not None:
                done.setdefault(label, []).append(values)
        found[name], times[name] = {}, {}
        for label, own in done.items():
            # growth may end early when all other rows lie in the span of the basis; the machine then stays as it is
            found[name][label] = np.mean([last_known(one["errors"]) for one in own], axis=0)
            times[name][label] = np.mean([last_known(one["times"]) for one in own], axis=0)
    return found, times


def last_known(errors: list[float | None]) -> np.ndarray:
    values = np.array([np.nan if e is None else e for e in errors], dtype=float)
    for at in range(1, len(values)):
        if np.isnan(values[at]):
            values[at] = values[at - 1]
    return values


def ordering(run: Run, found: Curves, sizes: list[int], judged_at: list[int]) -> None:
    """The ordering of figures 1 and 2 in numbers."""
    held = 0
    for name, curves in found.items():
        if any(method not in curves for method in ("sp1", "sp2", *JUDGED)):
            continue
        fine = True
        parts = []
        for size in judged_at:
            at = sizes.index(size)
            others = {method: curves[method][at] for method in JUDGED}
            best = np.nanmin(list(others.values()))
            for method in ("sp1", "sp2"):
                fine &= bool(curves[method][at] <= best + 0.1)
            parts.append(
                f"{size}: sp1 {curves['sp1'][at]:.2f}, sp2 {curves['sp2'][at]:.2f}, "
                + ", ".join(f"{method} {value:.2f}" for method, value in others.items())
            )
        held += fine
        verdict = {"ours": int(fine), "note": "; ".join(parts)}
        title = "Figures 1 and 2"
        run.row(f"{name}: ordering holds", {}, partial(dict, verdict), at_least(1), table=title, derived=True)
    if not run.quick and not run.options.only:
        run.row("sets on which the ordering holds", {}, lambda: {"ours": held}, at_least(4), derived=True)


def matching_pursuit(run: Run, found: Curves, sizes: list[int]) -> None:
    """What the paper says of figures 3 and 4."""
    for name, curves in found.items():
        if "kmp" not in curves or "sp2" not in curves:
            continue
        sp2, kmp = curves["sp2"], curves["kmp"]
        at = [sizes.index(100), sizes.index(300)]
        fine = bool(kmp[at[1]] <= sp2[at[1]] + 0.1) if name == "m3v8" else bool(np.all(sp2[at] <= kmp[at] + 0.1))
        note = f"at 100 and 300: sp2 {sp2[at[0]]:.2f}, {sp2[at[1]]:.2f}, kmp {kmp[at[0]]:.2f}, {kmp[at[1]]:.2f}"
        title = f"{name}: {'kmp not worse than sp2' if name == 'm3v8' else 'sp2 not worse than kmp'}"
        values = {"ours": int(fine), "note": note}
        run.row(title, {}, partial(dict, values), at_least(1), table="Figures 3 and 4", derived=True)
        for rule in ("sp2", "kmp"):
            free = curves.get(f"{rule}, lambda = 1e-5")
            if free is None:
                continue
            worse = free[at[1]] - curves[rule][at[1]]
            note = f"without regularisation {free[at[0]]:.2f}, {free[at[1]]:.2f}"
            target = Target("> 0.1", lambda row: row["ours"] > 0.1) if name == "adult" else None
            values = {"ours": float(worse), "note": note}
            title = f"{name}: {rule}, error added by lambda = 1e-5 at 300 vectors"
            run.row(title, {}, partial(dict, values), target, table="Figures 3 and 4", derived=True)


def schedules_and_kappa(run: Run, names: tuple[str, ...], n_rows: int, sizes: list[int]) -> dict[str, Any]:
    """Figures 5 (kappa = 100) and 6 (the default schedule); the curves of kappa = 10 for figures 7 and 8."""
    ten: dict[str, Any] = {}
    variants: list[tuple[str, dict[str, Any]]] = [
        (f"retraining {word}, kappa 100", {"retraining": word, "n_candidates": 100})
        for word in ("always", "powers", "quarter_powers", "adaptive")
    ]
    variants += [(f"kappa {kappa}", {"retraining": "quarter_powers", "n_candidates": kappa}) for kappa in (1, 10, 100)]
    title = "Figures 5 and 6"
    for name in names:
        found: dict[str, dict[str, Any]] = {}
        for label, options in variants if name in ("adult", "ijcnn1") else variants[-2:-1]:

            def measure(name: str = name, options: dict = options) -> dict[str, Any]:
                result = curve(name, n_rows, sizes, 0, **options)
                note = shown(sizes, last_known(result["errors"]), result["seconds"])
                return {"ours": float(last_known(result["errors"])[-1]), "note": note, **result}

            values = run.row(f"{name}: {label}", {"rows": n_rows, "sizes": sizes}, measure, unit="%")
            if values is not None:
                found[label] = values
        if "kappa 10" in found:
            ten[name] = found["kappa 10"]
        if len(found) < len(variants):
            continue
        errors = {label: values["ours"] for label, values in found.items()}
        always, *others = (label for label in found if label.startswith("retraining"))
        fine = all(errors[always] <= errors[label] + 0.1 for label in others)
        fast = found[others[1]]["seconds"] < found[always]["seconds"]
        shown_of = [f"{label}: {errors[label]:.2f} % in {found[label]['seconds']:.0f} s" for label in (always, *others)]
        values = {"ours": int(fine and fast), "note": "; ".join(shown_of)}
        row = f"{name}: retraining always best, quarter powers faster"
        run.row(row, {}, partial(dict, values), at_least(1), table=title, derived=True)
        by_kappa = [errors[f"kappa {kappa}"] for kappa in (1, 10, 100)]
        values = {"ours": int(all(np.diff(by_kappa) <= 0.1)), "note": f"errors for kappa 1, 10, 100: {by_kappa}"}
        run.row(
            f"{name}: more candidates are better", {}, partial(dict, values), at_least(1), table=title, derived=True
        )
    return ten


def share_of_exact(run: Run, names: tuple[str, ...], found: dict[str, Any], exact: dict[str, Any]) -> None:
    """Figures 7 and 8: vectors with which the error of the exact L2-SVM is reached, in per cent of its own."""
    for name in names:
        if name not in found or name not in exact:
            continue
        sizes, errors = found[name]["sizes"], last_known(found[name]["errors"])
        reached = [size for size, error in zip(sizes, errors, strict=True) if error <= exact[name]["ours"] + 0.1]
        note = f"exact {exact[name]['ours']:.2f} % with {exact[name]['n_sv']} vectors; " + found[name]["note"]
        values = {"ours": 100 * reached[0] / exact[name]["n_sv"] if reached else None, "note": note}
        target = Target("<= 10", lambda row: row["ours"] is not None and row["ours"] <= 10)
        run.row(
            f"{name}: vectors, in per cent of the exact SVM's",
            {},
            partial(dict, values),
            target,
            table="Figures 7 and 8",
            derived=True,
        )


def exact_subsets(run: Run, names: tuple[str, ...], n_rows: int) -> None:
    """Figures 7 and 8: exact SVMs on subsets of the rows, by scikit-learn's SVC (the paper's L1 curve).

    The constant of 1 + k does not matter to SVC: its intercept is free.
    """
    from sklearn.svm import SVC

    for name in names:
        for power in (5, 3, 1, 0):

            def measure(name: str = name, power: int = power) -> dict[str, Any]:
                X, y, T, t, kernel, C = subset(name, n_rows)
                X, y = X[: n_rows >> power], y[: n_rows >> power]
                if isinstance(kernel, RBF):
                    exact = SVC(gamma=kernel.gamma, C=C)
                else:
                    exact = SVC(kernel="poly", gamma=1.0, coef0=1.0, degree=9, C=C)
                start = time.process_time()
                exact.fit(X.astype(float), y)
                seconds = time.process_time() - start
                n_sv = int(exact.n_support_.sum())
                error = 100 * float(np.mean(exact.predict(T.astype(float)) != t))
                note = f"{n_sv} support vectors, {seconds:.1f} s"
                return {"ours": error, "n_sv": n_sv, "seconds": seconds, "note": note}

            run.row(f"{name}: exact SVM on 1/{2**power} of the rows", {"rows": n_rows}, measure, unit="%")


def exact_squared_hinge(run: Run, names: tuple[str, ...], n_rows: int) -> dict[str, Any]:
    """Figures 5 to 8: exact L2-SVMs on subsets, what the greedy machine tends to; Newton on the whole kernel matrix."""
    from benchmarks.papers.spsvm_table1 import exact_path

    whole: dict[str, Any] = {}
    for name in names:
        for power in (5, 3, 1, 0):

            def measure(name: str = name, power: int = power) -> dict[str, Any]:
                X, y, T, t, kernel, C = subset(name, n_rows)
                X, y = X[: n_rows >> power].astype(float), y[: n_rows >> power].astype(float)
                start = time.process_time()
                beta = exact_path(1.0 + kernel.block(X, X), y, np.array([C]))[0]
                seconds = time.process_time() - start
                support = np.flatnonzero(beta)
                values = (1.0 + kernel.block(T.astype(float), X[support])) @ beta[support]
                error = 100 * float(np.mean(np.where(values > 0, 1, -1) != t))
                note = f"{len(support)} support vectors, {seconds:.1f} s"
                return {"ours": error, "n_sv": len(support), "seconds": seconds, "note": note}

            values = run.row(f"{name}: exact L2-SVM on 1/{2**power} of the rows", {"rows": n_rows}, measure, unit="%")
            if values is not None and not power:
                whole[name] = values
    return whole


def draw(found: Curves, times: Curves, sizes: list[int]) -> None:
    """Error against size above, against seconds of growth below."""
    try:
        import matplotlib
    except ImportError:
        print("matplotlib is not installed: no figures are drawn")
        return
    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(2, len(found), figsize=(4.5 * len(found), 8), squeeze=False)
    for column, (name, curves) in enumerate(found.items()):
        above, below = axes[:, column]
        for method, errors in curves.items():
            above.plot(sizes, errors, label=method, marker=".")
            below.plot(times[name][method], errors, label=method, marker=".")
        above.set(title=name, xlabel="basis vectors", ylabel="test error, %", xscale="log")
        below.set(xlabel="seconds", ylabel="test error, %", xscale="log")
    axes[0][0].legend(fontsize=7)
    path = RESULTS / "spsvm_figures.png"
    figure.tight_layout()
    figure.savefig(path, dpi=120)
    print(f"figures in {path}")


def main() -> int:
    run = Run("spsvm_figures", "Figures 1 to 8: basis selection", quick_minutes=3, full_minutes=60)
    print("Vehicle, the sixth set of the paper, is not available and is left out")
    names = ("adult", "ijcnn1") if run.quick else SETS
    n_rows, sizes = (1_500, [10, 30, 60]) if run.quick else (N_ROWS, [10, 30, 100, 200, 300])
    found, times = basis_selection(run, names, n_rows, sizes)
    ordering(run, found, sizes, [60] if run.quick else [100, 300])
    if not run.quick:
        matching_pursuit(run, found, sizes)
        compared = ("adult", "ijcnn1", "shuttle", "m3v8")
        ten = schedules_and_kappa(run, compared, N_ROWS // 4, sizes)
        exact_subsets(run, compared, N_ROWS // 4)
        share_of_exact(run, compared, ten, exact_squared_hinge(run, compared, N_ROWS // 4))
    if all(found.values()):
        draw(found, times, sizes)
    return run.finish()


if __name__ == "__main__":
    sys.exit(main())
