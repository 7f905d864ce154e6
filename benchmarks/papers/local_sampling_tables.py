"""Tables 2-7 and 10-11 of seed 003: local sampling and CGLQ beside the full SVM, and indecision probabilities.

    python -m benchmarks.papers.local_sampling_tables [--quick] [--fresh] [--only TEXT]

COD-RNA: the 59,535 rows of its training file, shuffled and split 44,535 / 15,000.  The SVM scales every training set
to zero mean and unit variance by itself, as the paper's software does unless told otherwise, while neighbours are
looked for among the rows as they are: with this, the counts of the paper come out; with scaled neighbours, balls of
beta = 0.1 are all but empty (see the rows "counts").
IJCNN1: 49,990 rows and 15,000 random rows of the test file (a time series), unscaled.
COVTYPE: columns scaled to [0, 1], shuffled; a subset of the training rows, stated in each row.

The error that ends the search of beta is that of held-out training rows, never of the test rows.  Times are CPU seconds
of the process (the machine may be shared) with one thread, so that a share of time compares like with like.  The full
SVM is trained once per kernel; one that takes more than ten minutes is stopped, and said so.
"""

from __future__ import annotations

import multiprocessing
import sys
import time
import warnings
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from benchmarks.harness import Run, Target, at_least, load_data, near
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

STOP_AFTER = 600.0  # CPU seconds
KERNELS = ("linear", "poly", "rbf")
READINGS = ("literal", "relative", "peak", "count", "all")


@dataclass(frozen=True)
class Published:
    """A kernel's column of the paper's tables."""

    words: dict[str, Any]
    full: tuple[int, float, float]  # support vectors, error, seconds
    local: tuple[float, int, int, float, float, float]  # beta, initial, final, share found, error ratio, share of time
    cglq: tuple[int, int, float, float, float]  # initial, final, share found, error ratio, share of time


@dataclass(frozen=True)
class Problem:
    """A data set and what the paper did with it."""

    name: str
    scale: bool  # whether the SVM scales its training rows
    n_subsamples: int
    size: int
    cglq_delta: float
    columns: dict[str, Published]


def _words(C: float, gamma: float | None = None, degree: int = 3) -> dict[str, Any]:
    return {"C": C} if gamma is None else {"C": C, "gamma": gamma, "degree": degree, "coef0": 0.0}


PROBLEMS = {
    "cod_rna": Problem(
        "cod_rna", True, 12, 50, 0.01,
        {
            "linear": Published(_words(0.1), (22923, 0.206, 178.013), (0.1, 395, 1296, 4.91, 1.02, 0.62),
                                (272, 3417, 14.53, 1.004, 2.85)),
            "poly": Published(_words(1.0, 0.1), (15397, 0.208, 114.115), (0.1, 442, 1293, 4.91, 0.92, 1.2),
                              (320, 2945, 14.3, 0.92, 4.29)),
            "rbf": Published(_words(10.0, 0.1), (8768, 0.242, 117.901), (0.1, 362, 585, 3.85, 1.01, 0.73),
                             (193, 1695, 13.51, 1.01, 4.26)),
        },
    ),
    "ijcnn1": Problem(
        "ijcnn1", False, 20, 50, 0.02,
        {
            "linear": Published(_words(5.0), (8577, 0.078, 63.99), (0.2, 347, 834, 8.29, 0.89, 3.09),
                                (180, 673, 7.07, 0.87, 3.68)),
            "poly": Published(_words(0.1, 0.5), (9377, 0.071, 62.5), (0.2, 503, 407, 3.38, 0.85, 3.48),
                              (263, 295, 2.5, 1.08, 1.23)),
            "rbf": Published(_words(10.0, 0.1), (5731, 0.028, 63.45), (0.2, 395, 1055, 10.64, 1.02, 9.82),
                             (197, 394, 4.09, 1.29, 4.78)),
        },
    ),
    "covtype": Problem(
        "covtype", False, 50, 250, 0.05,
        {
            "linear": Published(_words(10.0), (303036, 0.237, 36688.26), (0.5, 7779, 139747, 44.91, 1.009, 17.8),
                                (15226, 76972, 25.18, 0.99, 31.14)),
            "poly": Published(_words(1.0, 1.0, 2), (216841, 0.169, 39896.5), (0.5, 7208, 96003, 40.53, 1.05, 19.87),
                              (11974, 55204, 18.58, 1.02, 33.44)),
            "rbf": Published(_words(10.0, 5.0), (144271, 0.09, 28746.54), (0.5, 10785, 72188, 43.73, 1.22, 27.59),
                             (10603, 37049, 14.66, 1.22, 30.91)),
        },
    ),
}  # fmt: skip

# eps -> average over the sizes (they hardly differ), and the sizes themselves (Tables 10 and 11)
INDECISION = {
    "cod_rna": {0.1: (0.07758, 0.07726, 0.07773, 0.07754, 0.07759), 0.01: (0.00722, 0.00722, 0.00726, 0.00724, 0.00733),
                0.001: (0.00082, 0.00077, 0.00078, 0.00078, 0.00079)},
    "ijcnn1": {0.1: (0.15623, 0.15611, 0.15675, 0.15673, 0.15655), 0.01: (0.01147, 0.01141, 0.01148, 0.01144, 0.01141),
               0.001: (0.00086, 0.00082, 0.00085, 0.00086, 0.00085)},
}  # fmt: skip
INDECISION_SIZES = (5000, 10000, 20000, 30000, 40000)


def split(name: str, n_train: int | None = None) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Training and test rows; `n_train` keeps the first so many of the shuffled training rows."""
    data = load_data(name)
    if name == "ijcnn1":
        X, y = data["X_train"].astype(float), data["y_train"].astype(int)
        drawn = np.sort(np.random.default_rng(2013).permutation(len(data["y_test"]))[:15_000])
        T, t = data["X_test"][drawn].astype(float), data["y_test"][drawn].astype(int)
    else:
        X, y = data["X"].astype(float), data["y"].astype(int)
        if name == "covtype":
            low, high = X.min(axis=0), X.max(axis=0)
            X = (X - low) / np.where(high > low, high - low, 1.0)
        order = np.random.default_rng(2013).permutation(len(y))
        n_test = 60_000 if name == "covtype" else 15_000
        X, y = X[order], y[order]
        T, t, X, y = X[-n_test:], y[-n_test:], X[:-n_test], y[:-n_test]
    keep = len(y) if n_train is None else n_train
    return X[:keep], y[:keep], T, t


def exact(problem: Problem, kernel: str) -> Any:
    machine = SVC(kernel=kernel, cache_size=500, **problem.columns[kernel].words)
    return make_pipeline(StandardScaler(), machine) if problem.scale else machine


def support_of(machine: Any) -> np.ndarray:
    return machine[-1].support_ if hasattr(machine, "steps") else machine.support_


# -- the full SVM, in a process of its own that can be stopped ------------------------------------------------


def _fit_full(name: str, kernel: str, n_train: int | None, pipe: Any) -> None:
    X, y, T, t = split(name, n_train)
    start = time.process_time()
    machine = exact(PROBLEMS[name], kernel).fit(X, y)
    seconds = time.process_time() - start
    error = float(np.mean(machine.predict(T[:15_000]) != t[:15_000]))
    pipe.send({"seconds": seconds, "error": error, "support": support_of(machine).tolist()})


def full_svm(name: str, kernel: str, n_train: int | None) -> dict[str, Any]:
    """Support vectors, test error and CPU seconds of the SVM on all rows; "stopped" where it took too long."""
    load_data(name)
    here, there = multiprocessing.Pipe(duplex=False)
    worker = multiprocessing.get_context("fork").Process(target=_fit_full, args=(name, kernel, n_train, there))
    worker.start()
    limit = STOP_AFTER * 3  # wall-clock: the cores may be shared
    if not here.poll(limit):
        worker.terminate()
        worker.join()
        return {"ours": None, "stopped": True, "note": f"stopped after {limit:.0f} s"}
    found = here.recv()
    worker.join()
    published = PROBLEMS[name].columns[kernel].full
    return {
        "ours": len(found["support"]),
        "paper": published[0],
        "error": found["error"],
        "cpu_seconds": found["seconds"],
        "support": found["support"],
        "note": f"error {found['error']:.4f} (paper {published[1]}), {found['seconds']:.1f} CPU s",
    }


# -- reduced machines --------------------------------------------------------------------------------------


def reduced(problem: Problem, kernel: str, method: str, n: int, seed: int, **more: Any) -> Any:
    from kompakt import CGLQSVC, LocalSamplingSVC

    estimator = exact(problem, kernel)
    if method == "local":
        share = min(0.5, problem.n_subsamples * problem.size / (0.9 * n))
        n_subsamples = problem.n_subsamples
        return LocalSamplingSVC(
            estimator=estimator, delta=share, n_subsamples=n_subsamples, random_state=seed, n_jobs=1, **more
        )
    return CGLQSVC(
        estimator=estimator, delta=problem.cglq_delta, n_neighbors=5, stratify=True, random_state=seed, n_jobs=1, **more
    )


def one_run(
    name: str, kernel: str, method: str, full: dict[str, Any], n_train: int | None, seed: int
) -> dict[str, Any]:
    """One seed: counts, test error and CPU seconds; "ours" is the error relative to the full SVM's."""
    X, y, T, t = split(name, n_train)
    machine = reduced(PROBLEMS[name], kernel, method, len(y), seed)
    start = time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # one-class subsamples are counted below
        machine.fit(X, y)
    seconds = time.process_time() - start
    error = float(np.mean(machine.predict(T[:15_000]) != t[:15_000]))
    return {
        "ours": error / full["error"],
        "initial": machine.n_support_initial_,
        "final": machine.n_support_final_,
        "train": len(machine.training_indices_),
        "found": 100 * machine.overlap_with(np.array(full["support"])),
        "error": error,
        "seconds": seconds,
        "share": 100 * seconds / full["cpu_seconds"],
        "beta": getattr(machine, "beta_", len(machine.history_) - 1),
        "one_class": getattr(machine, "n_one_class_subsamples_", 0),
        "history": machine.history_,
    }


def summary(name: str, kernel: str, method: str, results: list[dict[str, Any]]) -> dict[str, Any]:
    """Means over the runs, beside the paper's."""
    column = PROBLEMS[name].columns[kernel]
    mean = {key: float(np.mean([r[key] for r in results])) for key in results[0] if key not in ("history", "note")}
    paper = column.local[1:] if method == "local" else column.cglq
    what = f"beta {mean['beta']:.2f} (paper {column.local[0]})" if method == "local" else f"{mean['beta']:.1f} rounds"
    note = (
        f"{what}; time {mean['share']:.1f} % (paper {paper[4]}); vectors {mean['initial']:.0f} -> {mean['final']:.0f} "
        f"(paper {paper[0]} -> {paper[1]}), {mean['found']:.1f} % found (paper {paper[2]}); trained on "
        f"{mean['train']:.0f}; error {mean['error']:.4f} +- {np.std([r['error'] for r in results]):.4f}; "
        f"{len(results)} runs"
    )
    return {"ours": mean["ours"], "paper": paper[3], "share": mean["share"], "note": note}


# -- which reading of eta ----------------------------------------------------------------------------------


def counts(name: str, kernel: str, reading: str, n_runs: int, scaled_rows: bool = False) -> dict[str, Any]:
    """Support vectors at the paper's beta under one reading of "a fraction eta_j"."""
    problem = PROBLEMS[name]
    X, y, *_ = split(name)
    if scaled_rows:
        X = StandardScaler().fit_transform(X)
    beta = problem.columns[kernel].local[0]
    final, drawn, initial = [], [], []
    for seed in range(n_runs):
        machine = reduced(problem, kernel, "local", len(y), seed, beta=beta, intensity=reading)
        machine.set_params(delta=problem.n_subsamples * problem.size / len(y))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            machine.fit(X, y)
        final.append(machine.n_support_final_)
        initial.append(machine.n_support_initial_)
        drawn.append(machine.history_[0]["n_drawn"])
    paper = problem.columns[kernel].local[2]
    note = f"initial {np.mean(initial):.0f} (paper {problem.columns[kernel].local[1]}), drawn {np.mean(drawn):.0f}"
    return {"ours": float(np.mean(final)), "paper": paper, "drawn": drawn, "note": note}


def count_rows(run: Run, n_runs: int) -> None:
    sets = ("cod_rna", "ijcnn1")
    distance: dict[str, list[float]] = {}
    for name in sets:
        for kernel in KERNELS:
            for reading in READINGS:
                values = run.row(
                    f"counts, {name}, {kernel}, {reading}",
                    {"runs": n_runs},
                    partial(counts, name, kernel, reading, n_runs),
                )
                if values is not None:
                    distance.setdefault(reading, []).append(abs(np.log(values["ours"] / values["paper"])))
    for kernel in KERNELS:
        run.row(
            f"counts, cod_rna scaled rows, {kernel}, all",
            {"runs": n_runs},
            partial(counts, "cod_rna", kernel, "all", n_runs, scaled_rows=True),
        )
    for reading, far in distance.items():
        note = f"mean factor between our number of support vectors and the paper's over {len(far)} pairs"
        factor = float(np.exp(np.mean(far)))
        run.row(f"counts, factor, {reading}", {"of": far}, partial(dict, ours=factor, note=note), unit="x")


# -- Tables 10 and 11 --------------------------------------------------------------------------------------


def indecision(name: str, scaling: str, size: int, n_repeats: int) -> dict[str, Any]:
    from kompakt.subsample import indecision_study

    X, y, *_ = split(name)
    if scaling == "[-1, 1]":
        low, high = X.min(axis=0), X.max(axis=0)
        X = 2 * (X - low) / np.where(high > low, high - low, 1.0) - 1
    machine: Any = SVC(kernel="linear", cache_size=500, **PROBLEMS[name].columns["linear"].words)
    if scaling == "standard":
        machine = make_pipeline(StandardScaler(), machine)
    study = indecision_study(machine, X, y, [size], n_repeats=n_repeats, random_state=0, n_jobs=1)
    place = INDECISION_SIZES.index(size)
    values = {str(eps): float(mean) for eps, mean in zip(study.eps, study.mean[:, 0], strict=True)}
    papers = {str(eps): INDECISION[name][float(eps)][place] for eps in study.eps}
    return {"values": values, "papers": papers, "ours": values["0.1"], "paper": papers["0.1"]}


def indecision_rows(run: Run, n_repeats: int) -> None:
    for name, scalings in (("ijcnn1", ("none",)), ("cod_rna", ("standard", "[-1, 1]"))):
        for scaling in scalings:
            for size in INDECISION_SIZES[:1] if run.quick else INDECISION_SIZES[:3]:
                repeats = max(2, n_repeats * 5000 // size)
                base = f"indecision, {name}, scaling {scaling}, n={size}"
                found = run.row(base, {"repeats": repeats}, partial(indecision, name, scaling, size, repeats))
                if found is None:
                    continue
                for eps, ours in found["values"].items():
                    paper = found["papers"][eps]
                    target = Target("paper +- 20 %", near(0.2 * paper).holds)
                    record = {"ours": ours, "paper": paper, "note": f"{repeats} repeats"}
                    run.row(f"{base}, eps={eps}", {"ours": ours}, partial(dict, record), target)


# -- n_basis -----------------------------------------------------------------------------------------------


def compact(seed: int) -> dict[str, Any]:
    """Test errors of local sampling with an exact and with a compact last machine on IJCNN1."""
    X, y, T, t = split("ijcnn1")
    errors = {}
    for n_basis in (None, 100):
        machine = reduced(PROBLEMS["ijcnn1"], "rbf", "local", len(y), seed, n_basis=n_basis).fit(X, y)
        errors[n_basis] = 100 * float(np.mean(machine.predict(T) != t))
        size = machine.n_basis_
    return {"ours": errors[100], "peer": errors[None], "n_basis": size, "note": f"{size} vectors; peer: exact SVM"}


def compact_rows(run: Run) -> None:
    found = [run.row(f"n_basis=100, ijcnn1, seed {s}", {}, partial(compact, s), unit="%") for s in range(3)]
    kept = [values for values in found if values is not None]
    if len(kept) == 3:
        ours, peer = (float(np.mean([values[key] for values in kept])) for key in ("ours", "peer"))
        target = Target("<= peer + 0.5", lambda row: row["ours"] <= row["peer"] + 0.5)
        run.row("n_basis=100, ijcnn1, mean", {"of": [ours, peer]}, lambda: {"ours": ours, "peer": peer}, target, "%")


def table_rows(run: Run, names: dict[str, int | None], n_runs: int) -> None:
    good, fast = 0, 0
    pairs = [(name, kernel) for name in names for kernel in KERNELS]
    for method in ("local", "cglq"):
        for name, kernel in pairs:
            n_train = names[name]
            base = f"{name if n_train is None else f'{name} ({n_train} rows)'}, {kernel}"
            full = run.row(
                f"{base}, full SVM, vectors", {"n": n_train, "version": 2}, partial(full_svm, name, kernel, n_train)
            )
            if full is None or full.get("stopped"):
                continue
            results = []
            for seed in range(n_runs):
                row = partial(one_run, name, kernel, method, full, n_train, seed)
                values = run.row(f"{base}, {method}, run {seed}", {"n": n_train, "version": 2}, row)
                results += [] if values is None else [values]
            if results:
                values = summary(name, kernel, method, results)
                run.row(f"{base}, {method}, error ratio", {"of": values["note"]}, partial(dict, values))
                if method == "local":
                    good += values["ours"] <= 1.10
                    fast += values["share"] <= 12.0
        if method == "local" and not run.options.only and not run.quick and len(names) == 2:
            note = "pairs of set and kernel with an error ratio of at most 1.10"
            run.row("local sampling, as good", {"n": good}, partial(dict, ours=good, note=note), at_least(5))
            note = "pairs with at most 12 % of the full SVM's time"
            run.row("local sampling, as fast", {"n": fast}, partial(dict, ours=fast, note=note), at_least(4))


def main() -> int:
    run = Run("local_sampling_tables", "Tables 2-7, 10, 11: local sampling and CGLQ", quick_minutes=2, full_minutes=90)
    if run.quick:
        table_rows(run, {"cod_rna": 6000, "ijcnn1": 6000}, 2)
        indecision_rows(run, 2)
        return run.finish()
    table_rows(run, {"cod_rna": None, "ijcnn1": None}, 10)
    count_rows(run, 3)
    compact_rows(run)
    indecision_rows(run, 20)
    table_rows(run, {"covtype": 50_000}, 2)
    return run.finish()


if __name__ == "__main__":
    sys.exit(main())
