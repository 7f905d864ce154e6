"""Fixed-size machines on twelve data sets (De Brabanter et al. 2010, Tables 8 to 13).

    python -m benchmarks.papers.fslssvm_tables [--quick] [--fresh] [--only TEXT]

Sizes of training set, test set and m are the paper's; the split is random in every randomisation, and inputs and
regression targets are standardised over the whole set, as in the paper. Stated reductions: C and the kernel's width are
searched in every randomisation on pid, bho and ccs, and once, on the first, on all other sets; 10 randomisations up to
8,000 training rows, fewer above (the number is in the note). The search is the package's default ("profile");
intercept, coding and cross-validation are the paper's. adult: rows with missing values dropped, categories as codes (in
the order of its documentation: in alphabetical order both kernels lose some tenths); its majority class holds 75.2 % of
the rows, not 83.4. lan has 6 classes.

Rows that end in "ours" are the same models in the form that does best here, 3 randomisations: prototypes chosen in
Gram space, once more after the search; folds that drop their own prototypes; a free intercept, moved to the threshold
of fewest training errors (with the linear kernel where folds of the first split say so); one-vs-rest in the place of
minimum output, pairs on a shared basis; the squared hinge loss with the linear kernel; the categories of adult as 0/1
columns, not standardised (with the Gaussian kernel cross-validation on training rows says 15.4 % so, and 16.2 %
standardised). Searches are made with at most 400 prototypes, on as many rows as 400 take for 8,750; for pairs of
classes on more than 8,000 rows, with 100 on 8,000. C is then divided by as much as the rows are more. On ftc,
prototypes are random rows, and the search is made on 50,000 rows: there folds say 20.2 %, and 22.8 % of prototypes in
Gram space.

One-vs-one is run twice: on the prototypes of the two classes, and on all of them ("shared basis"; not on let,
where 325 pairs on 1,500 vectors each would take hours).

A row holds if its mean is within one of the paper's standard deviations plus ours, or better. Forest covertype (531,012
rows, 500 vectors) is tuned and fitted in a process of its own, whose time and peak memory are judged.

Tables 9, 11 and 13 are ratios of CPU time on one thread: SVC and NuSVC (SVR and NuSVR) against ours, each tuned by
10-fold cross-validation at the same 12 points on the same subset of at most 700 rows, then fitted.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
import warnings
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from benchmarks.harness import ROOT, Run, Target, load_data
from benchmarks.memory import peak_bytes
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import cross_val_score
from sklearn.svm import SVC, SVR, NuSVC, NuSVR

from kompakt import FixedSizeLSSVC, FixedSizeLSSVR, RandomSearch
from kompakt.codings import MinimumOutput
from kompakt.parallel import block_threads


@dataclass(frozen=True)
class Set:
    """A data set of the paper: where it is stored, its sizes, and the reductions we take."""

    stored: str
    n_train: int
    n_test: int
    m: int
    n_runs: int = 10
    search_always: bool = False
    regression: bool = False


SETS = {
    "pid": Set("pima", 512, 256, 150, search_always=True),
    "bho": Set("boston", 338, 168, 200, search_always=True, regression=True),
    "ccs": Set("concrete", 687, 343, 120, search_always=True, regression=True),
    "spa": Set("spambase", 3068, 1533, 200),
    "opt": Set("optdigits", 3750, 1870, 420),
    "lan": Set("satimage", 4435, 2000, 330),
    "pen": Set("pendigits", 7328, 3664, 250),
    "shu": Set("shuttle", 43_500, 14_500, 175, n_runs=3),
    "adu": Set("adult", 33_000, 12_222, 500, n_runs=3),
    "mgt": Set("magic", 13_000, 6020, 1000, n_runs=3),
    "let": Set("letter", 13_667, 6333, 1500, n_runs=2),
    "ftc": Set("covtype", 531_012, 50_000, 500, n_runs=2),
}


@dataclass(frozen=True)
class SeventhClass(MinimumOutput):
    """The paper counts 7 classes in lan, whose labels are 1 to 5 and 7: the code of the last is that of a seventh."""

    def _many_codes(self, n_classes: int) -> np.ndarray:
        return super()._many_codes(7)[[0, 1, 2, 3, 4, 6]]


MOC: dict[str, Any] = {"coding": "minimum_output"}
LAN_MOC: dict[str, Any] = {"coding": SeventhClass()}
PAIRS: dict[str, Any] = {"coding": "one_vs_one"}
SHARED: dict[str, Any] = PAIRS | {"shared_basis": True}
LINEAR = {"kernel": "linear"}
# row -> (options, mean and standard deviation of the paper): per cent for classes
PAPER: dict[str, dict[str, tuple[dict[str, Any], float, float]]] = {
    "pid": {"RBF": ({}, 76.7, 3.43), "linear": (LINEAR, 77.6, 0.78)},
    "spa": {"RBF": ({}, 92.5, 0.67), "linear": (LINEAR, 90.9, 0.75)},
    "mgt": {"RBF": ({}, 86.6, 0.51), "linear": (LINEAR, 77.8, 0.23)},
    "adu": {"RBF": ({}, 85.21, 0.21), "linear": (LINEAR, 83.9, 0.17)},
    "ftc": {"RBF": ({}, 81.8, 0.52), "linear": (LINEAR, 75.61, 0.35)},
    "opt": {
        "RBF, minimum output": (MOC, 96.87, 0.70), "RBF, pairs": (PAIRS, 98.14, 0.10),
        "RBF, pairs, shared basis": (SHARED, 98.14, 0.10),
        "linear, pairs": (LINEAR | PAIRS, 97.18, 0.35), "linear, minimum output": (LINEAR | MOC, 78.62, 0.32),
    },
    "lan": {
        "RBF, minimum output": (LAN_MOC, 91.83, 0.43), "RBF, pairs": (PAIRS, 91.93, 0.3),
        "RBF, pairs, shared basis": (SHARED, 91.93, 0.3),
        "linear, pairs": (LINEAR | PAIRS, 85.71, 0.77), "linear, minimum output": (LINEAR | LAN_MOC, 74.35, 0.26),
    },
    "pen": {
        "RBF, minimum output": (MOC, 99.44, 0.17), "RBF, pairs": (PAIRS, 99.57, 0.10),
        "RBF, pairs, shared basis": (SHARED, 99.57, 0.10),
        "linear, pairs": (LINEAR | PAIRS, 96.67, 0.35), "linear, minimum output": (LINEAR | MOC, 68.21, 0.36),
    },
    "let": {
        "RBF, minimum output": (MOC, 89.14, 0.22), "RBF, pairs": (PAIRS, 95.65, 0.17),
        "linear, pairs": (LINEAR | PAIRS, 84.87, 0.49), "linear, minimum output": (LINEAR | MOC, 18.20, 0.46),
    },
    "shu": {
        "RBF, minimum output": (MOC, 99.87, 0.03), "RBF, pairs": (PAIRS, 99.84, 0.03),
        "RBF, pairs, shared basis": (SHARED, 99.84, 0.03),
        "linear, pairs": (LINEAR | PAIRS, 96.82, 0.18), "linear, minimum output": (LINEAR | MOC, 84.78, 0.33),
    },
}  # fmt: skip
# regression, RBF: mean and standard deviation of the L2, L1 and L-infinity errors
PAPER_ERRORS = {
    "bho": {"L2": (0.13, 0.02), "L1": (0.24, 0.02), "Linf": (1.90, 0.50)},
    "ccs": {"L2": (0.17, 0.02), "L1": (0.30, 0.03), "Linf": (1.22, 0.42)},
}
# Tables 9, 11, 13: seconds of the RBF machines (ours there, SVM, nu-SVM)
PAPER_SECONDS = {
    "pid": (30.1, 24.8, 30.3), "spa": (249, 1010, 1372), "mgt": (9985, 20603, 35299), "adu": (7344, 139730, 139927),
    "opt": (4892, 11371, 7963), "lan": (2159, 6612, 8229), "pen": (2221, 11215, 16589), "let": (105930, 59102, 79040),
    "shu": (5908, 52724, 50478), "bho": (74, 63, 61), "ccs": (94, 168, 131),
}  # fmt: skip


#: beginning of a row -> why it is missed, as tested; rows of `fslssvm_causes` where nothing else is said
CAUSES = {
    "pen, RBF, minimum output": "with 250 prototypes and this coding no C and width has more than 98.5 %, chosen on "
    "the test rows; 250 per class have 99.45 %, one-vs-rest 99.4",
    "pen, RBF, pairs": "prototypes of the two classes alone; on those of all classes 99.5 %",
    "lan, RBF, minimum output": "with 330 prototypes and this coding no C and width has more than 89.5 %, chosen on "
    "the test rows; 330 per class have 91.2 %, one-vs-rest 91.0",
    "lan, RBF, pairs": "prototypes by entropy; in Gram space, chosen again after the search, 91.3 %",
    "shu, RBF": "thresholds midway between very unequal classes, and prototypes by entropy; thresholds of fewest "
    "errors and Gram space have 99.8 %",
    "shu, linear": "thresholds midway between very unequal classes; pairs on one split: least squares 92.9 %, with "
    "thresholds of fewest errors 97.4, on the squared hinge 97.0, with both 98.0",
    "ftc, RBF": "not found: on the first split least squares on random prototypes has 80.7 %, the squared hinge 80.9, "
    "prototypes in Gram space 78.5, moved prototypes (refine=True, 60,000 rows) 80.4",
    "ftc, rows": "the RBF row, whose cause was not found",
    "let, linear, pairs": "least squares, as is scikit-learn's ridge with the same 81.9 %; the squared hinge has "
    "84.2 %, LinearSVC 84.1",
    "let, RBF, minimum output": "the coding: one-vs-rest has 95.7 %",
    "adu, RBF": "categories as codes; as 0/1 columns, in Gram space, 85.1 %",
    "adu, linear": "least squares on codes, as is scikit-learn's ridge with 81.8 %; the squared hinge has 83.5 % on "
    "codes and 84.7 on 0/1 columns",
}

# The categories of adult in the order in which its documentation lists them: their codes. Others keep the stored order.
ADULT = {
    1: "Private Self-emp-not-inc Self-emp-inc Federal-gov Local-gov State-gov Without-pay Never-worked",
    3: "Bachelors Some-college 11th HS-grad Prof-school Assoc-acdm Assoc-voc 9th 7th-8th 12th Masters 1st-4th 10th "
    "Doctorate 5th-6th Preschool",
    5: "Married-civ-spouse Divorced Never-married Separated Widowed Married-spouse-absent Married-AF-spouse",
    6: "Tech-support Craft-repair Other-service Sales Exec-managerial Prof-specialty Handlers-cleaners "
    "Machine-op-inspct Adm-clerical Farming-fishing Transport-moving Priv-house-serv Protective-serv Armed-Forces",
    7: "Wife Own-child Husband Not-in-family Other-relative Unmarried",
    8: "White Asian-Pac-Islander Amer-Indian-Eskimo Other Black",
}


def adult_codes(X: np.ndarray, data: dict[str, np.ndarray]) -> np.ndarray:
    """Complete rows with the categories coded in the order of the documentation."""
    for column, listed in ADULT.items():
        categories = data["categories_" + str(data["feature_names"][column]).replace("-", "_")]
        codes = np.array([listed.split().index(str(category)) for category in categories])
        X[:, column] = codes[X[:, column].astype(int)]
    return X


def whole_set(name: str, ours: bool = False) -> tuple[np.ndarray, np.ndarray]:
    """All rows, standardised; categories of adult as codes, or (ours) as 0/1 columns, which stay 0 and 1."""
    flags: list[np.ndarray] = []
    data = load_data(SETS[name].stored)
    if "X" in data:
        X, y = data["X"], data["y"]
    else:
        X = np.concatenate([data["X_train"], data["X_test"]])
        y = np.concatenate([data["y_train"], data["y_test"]])
    X = X.astype(np.float32 if name == "ftc" else np.float64)
    if name == "adu":
        complete = ~(X == -1).any(axis=1)  # the code of a missing category
        X, y = adult_codes(X[complete], data), y[complete]
        if ours:
            flags = [X[:, [column]] == np.unique(X[:, column]) for column in (*ADULT, 9, 13)]
            X = np.delete(X, (*ADULT, 9, 13), axis=1)
    spread = X.std(axis=0)
    X = (X - X.mean(axis=0)) / np.where(spread > 0, spread, 1)
    if flags:  # divided by their deviations, the rarest categories would be the farthest apart
        X = np.column_stack([X, *flags])
    if SETS[name].regression:
        y = (y - y.mean()) / y.std()
    return X, y


def split(name: str, n_rows: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    order = np.random.default_rng(seed).permutation(n_rows)
    sizes = SETS[name]
    return order[: sizes.n_train], order[sizes.n_train : sizes.n_train + sizes.n_test]


#: where the package's defaults differ from the paper (minimum output coding is named by the rows that use it)
AS_PRINTED: dict[str, Any] = {
    "penalize_intercept": True,
    "cv_prototypes": "plain",
    "selection": "renyi",
    "gamma": "scale",  # where a search begins
}


#: rows of our own form: how many randomisations at most; prototypes (and rows, for pairs of classes) of a search
OUR_RUNS, OUR_SEARCH, OUR_SEARCH_OF_PAIRS = 3, 400, (100, 8000)


def n_runs(name: str, ours: bool) -> int:
    return min(OUR_RUNS, SETS[name].n_runs) if ours else SETS[name].n_runs


def machine(name: str, *, ours: bool = False, **options: Any) -> Any:
    kind = FixedSizeLSSVR if SETS[name].regression else FixedSizeLSSVC
    if ours and not SETS[name].regression:
        coding = "one_vs_one" if options.get("coding") == "one_vs_one" else "one_vs_rest"
        options = options | {"coding": coding, "shared_basis": True, "fit_intercept": "fewest_errors"}
        options |= {"loss": "squared_hinge"} if "kernel" in options else {}
        options |= {"selection": "random"} if name == "ftc" else {}
    return kind(n_basis=SETS[name].m, random_state=0, **(options if ours else AS_PRINTED | options))


def randomised(
    name: str, options: dict[str, Any], quick: bool, found: dict[str, Any] | None = None, ours: bool = False
) -> dict[str, Any]:
    """Scores of all randomisations; the search is repeated or kept as the set's entry says, or was done (`found`)."""
    chosen = SETS[name]
    X, y = whole_set(name, ours)
    found = found or {}
    threshold: dict[str, Any] = {}
    scores: list[Any] = []
    n_basis = 0
    began = time.perf_counter()
    for seed in range(2 if quick else n_runs(name, ours)):
        train, test = split(name, len(y), seed)
        if ours and not found and "kernel" not in options and not chosen.search_always:
            m = min(chosen.m, OUR_SEARCH)
            most = int(1.4e9 / m**2)
            if options.get("coding") == "one_vs_one" and chosen.m * chosen.n_train > 2e6:
                m, most = OUR_SEARCH_OF_PAIRS
            if name == "ftc":
                m, most = chosen.m, 50_000
            few, some = machine(name, ours=True, **options, tune=True).set_params(n_basis=m), train[:most]
            few.fit(X[some], y[some])
            found = {"C": few.C_ * len(some) / len(train), "gamma": few.gamma_}
        if ours and not found and "kernel" in options:
            both = [
                machine(name, ours=True, **options, tune=True).set_params(fit_intercept=intercept)
                for intercept in ("fewest_errors", True)
            ]
            better = min((one.fit(X[train], y[train]) for one in both), key=lambda one: one.cv_error_)
            found, threshold = {"C": better.C_}, {"fit_intercept": better.fit_intercept}
        fitted = machine(name, ours=ours, **options, **found, tune=not found).set_params(**threshold)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)  # the entropy still rises a little at max_swaps
            fitted.fit(X[train], y[train])
        if not chosen.search_always and not found:
            found = {"C": fitted.C_} | ({} if "kernel" in options else {"gamma": fitted.gamma_})
        n_basis = fitted.n_basis_
        if chosen.regression:
            error = np.abs(fitted.predict(X[test]) - y[test])
            scores.append([float(np.mean(error**2)), float(error.mean()), float(error.max())])
        else:
            scores.append(100 * fitted.score(X[test], y[test]))
    return {
        "scores": scores,
        "C": fitted.C_,
        "gamma": float(getattr(fitted, "gamma_", np.nan)),
        "n_basis": n_basis,
        "minutes": (time.perf_counter() - began) / 60,
    }


def summary(values: dict[str, Any], scores: list[float], paper: tuple[float, float]) -> dict[str, Any]:
    mean, spread = float(np.mean(scores)), float(np.std(scores, ddof=1))
    note = f"sd {spread:.2g} (paper {paper[1]:g}), {len(scores)} runs, C {values['C']:.3g}, gamma {values['gamma']:.3g}"
    return {**values, "ours": mean, "spread": spread, "paper": paper[0], "paper_sd": paper[1], "note": note}


ACCURATE = Target(">= paper - sds", lambda row: row["ours"] >= row["paper"] - row["paper_sd"] - row["spread"])
SMALL = Target("<= paper + sds", lambda row: row["ours"] <= row["paper"] + row["paper_sd"] + row["spread"])


#: titles of the summary: rows of the paper's recipe, rows of our form, and whether a set holds in one of the two
TABLES = ("Tables 8, 10, 12: the paper's recipe", "Tables 8, 10, 12: our form")
SETS_TABLE = "Tables 8, 10, 12: sets in one of the two forms"


def classes_row(run: Run, name: str, row: str, found: dict[str, Any] | None = None, ours: bool = False) -> bool | None:
    options, mean, spread = PAPER[name][row]
    chosen = SETS[name]
    params: dict[str, Any] = {"m": chosen.m, "runs": n_runs(name, ours)}
    params |= {"loss": "squared_hinge", "threshold": "by folds"} if ours and "kernel" in options else {}
    params |= {"categories": "0/1"} if ours and name == "adu" else {}

    def measure() -> dict[str, Any]:
        values = randomised(name, options, run.quick, found, ours)
        return summary(values, values["scores"], (mean, spread))

    form = ", ours" if ours else ""
    values = run.row(f"{name}, {row}{form}", params, measure, ACCURATE, "%", table=TABLES[ours])
    return None if values is None else ACCURATE.holds(values)


def regression_rows(run: Run, name: str, ours: bool = False) -> bool | None:
    chosen = SETS[name]
    params = {"m": chosen.m, "runs": n_runs(name, ours)}
    verdicts = []
    stored: dict[str, Any] | None = None
    for column, (norm, paper) in enumerate(PAPER_ERRORS[name].items()):

        def measure(column: int = column, paper: tuple[float, float] = paper) -> dict[str, Any]:
            nonlocal stored
            stored = randomised(name, {}, run.quick, ours=ours) if stored is None else stored
            return summary(stored, [scores[column] for scores in stored["scores"]], paper)

        form = ", ours" if ours else ""
        values = run.row(f"{name}, RBF, {norm}{form}", params, measure, SMALL, table=TABLES[ours])
        if values is None:
            return None
        if "scores" in values:
            stored = {key: values[key] for key in ("scores", "C", "gamma", "n_basis", "minutes")}
        verdicts.append(SMALL.holds(values))
    return all(verdicts)


# -- time -------------------------------------------------------------------------------------------------


def time_ratio(name: str, quick: bool) -> dict[str, Any]:
    """CPU seconds of the peers over ours: 10-fold cross-validation at the same points, then a fit."""
    chosen = SETS[name]
    X, y = whole_set(name)
    train, _ = split(name, len(y), 0)
    train = train[: 300 if quick else 700]
    X, y = X[train], y[train]
    labels, counts = np.unique(y, return_counts=True)
    if not chosen.regression:  # NuSVC and stratified folds need some rows of every class
        kept = np.isin(y, labels[counts >= 10])
        X, y = X[kept], y[kept]
    rng = np.random.default_rng(0)
    gammas = 10 ** rng.uniform(-2, 1, size=12) / X.shape[1]
    Cs = 10 ** rng.uniform(-1, 3, size=12)
    nus = rng.uniform(0.05, 0.3, size=12)
    m = max(20, round(chosen.m * len(y) / chosen.n_train))  # the paper's share of the rows

    def ours() -> None:
        tuned = machine(name, tune=RandomSearch(n_random=12, n_simplex=0))
        tuned.set_params(n_basis=m).fit(X, y)

    def peer(make: Any, axis: np.ndarray, word: str) -> None:
        points = [{word: value, "gamma": gamma} for value, gamma in zip(axis, gammas, strict=True)]
        scores = np.full(len(points), -np.inf)
        for k, point in enumerate(points):
            with suppress(ValueError):  # some nu are infeasible on unequal classes
                scores[k] = cross_val_score(make(**point), X, y, cv=10, error_score="raise").mean()
        for best in np.argsort(scores)[::-1]:
            with suppress(ValueError):
                make(**points[int(best)]).fit(X, y)
                break

    contenders: dict[str, Any] = {
        "ours": ours,
        "svm": partial(peer, SVR if chosen.regression else SVC, Cs, "C"),
        "nu": partial(peer, NuSVR if chosen.regression else NuSVC, nus, "nu"),
    }
    seconds: dict[str, list[float]] = {word: [] for word in contenders}
    with block_threads(1), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for word in ("ours", "svm", "ours", "nu", "ours"):  # ours three times: it is the short one
            began = time.process_time()
            contenders[word]()
            seconds[word].append(time.process_time() - began)
    best = {word: min(values) for word, values in seconds.items()}
    there = PAPER_SECONDS[name]
    return {
        "ours": best["svm"] / best["ours"],
        "paper": there[1] / there[0],
        "seconds": best,
        "note": f"nu {best['nu'] / best['ours']:.3g}x (paper {there[2] / there[0]:.3g}x), ours {best['ours']:.3g} s, "
        f"{len(y)} rows, {m} vectors",
    }


# -- Forest covertype -------------------------------------------------------------------------------------


def covertype_here() -> dict[str, Any]:
    """Tune and fit in this process; report seconds, peak memory and accuracy."""
    X, y = whole_set("ftc")
    train, test = split("ftc", len(y), 0)
    X_train, y_train, X_test, y_test = X[train], y[train], X[test], y[test]
    del X
    began, cpu = time.perf_counter(), time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        fitted = machine("ftc", tune=True, verbose=1).fit(X_train, y_train)
    seconds, cpu = time.perf_counter() - began, time.process_time() - cpu
    return {
        "minutes": seconds / 60,
        "cpu_minutes": cpu / 60,
        "peak_gb": peak_bytes() / 1e9,
        "accuracy": 100 * fitted.score(X_test, y_test),
        "C": fitted.C_,
        "gamma": float(fitted.gamma_),
        "cv_error": fitted.cv_error_,
    }


def covertype(quick: bool) -> dict[str, Any]:
    command = [sys.executable, "-m", "benchmarks.papers.fslssvm_tables", "--covertype-child"]
    result = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True)
    found = json.loads(result.stdout.splitlines()[-1])
    note = f"peak {found['peak_gb']:.2f} GB, {found['cpu_minutes']:.1f} CPU min, accuracy {found['accuracy']:.2f} %"
    return {**found, "ours": found["minutes"], "note": note}


FOREST = Target("<= 15 min, 4 GB", lambda row: row["ours"] <= 15 and row["peak_gb"] <= 4)


def main() -> int:
    if "--covertype-child" in sys.argv:
        print(json.dumps(covertype_here()))
        return 0
    run = Run("fslssvm_tables", "Fixed-size machines, Tables 8 to 13", quick_minutes=5, full_minutes=120)
    held: dict[str, dict[str, bool | None]] = {}
    best: dict[str, dict[str, bool | None]] = {}  # in the paper's form, pairs on either basis, or in ours
    for name in SETS:
        if run.quick and SETS[name].n_train > 4000:
            continue
        found = None
        if name == "ftc":
            forest = run.row("ftc, tune and fit, minutes", {"m": 500}, lambda: covertype(run.quick), FOREST, "min")
            found = None if forest is None else {"C": forest["C"], "gamma": forest["gamma"]}
        if SETS[name].regression:
            held[name] = {"RBF": regression_rows(run, name)}
            best[name] = {"RBF": regression_rows(run, name, ours=True) or held[name]["RBF"]}
        else:
            held[name] = {
                row: classes_row(run, name, row, found if row == "RBF" else None) for row in PAPER[name]
            }  # fmt: skip
            best[name] = {
                row: classes_row(run, name, row, ours=True) or held[name][row] or held[name].get(f"{row}, shared basis")
                for row in PAPER[name]
                if not row.endswith("shared basis")
            }
        if name in PAPER_SECONDS:
            params = {"rows": 700}
            measure = partial(time_ratio, name, run.quick)
            run.row(f"{name}, time of SVM over ours", params, measure, None, "x", table="Tables 9, 11, 13: time")
    if not run.options.only:
        count(run, held)
        for name, rows in best.items():
            missed = [row for row, verdict in rows.items() if not verdict]
            values = {"ours": len(rows) - len(missed), "of": len(rows), "missed": missed}
            values["note"] = f"of {len(rows)} rows" + (f"; not {'; '.join(missed)}" if missed else "")
            title = f"{name}, rows that hold in one of the two forms"
            run.row(title, {}, partial(dict, values), EVERY, table=SETS_TABLE, derived=True)
        names = [name for name, rows in best.items() if all(rows.values())]
        values = {"ours": len(names), "note": f"of {len(best)}: {', '.join(names)}"}
        title = "sets whose every mean holds in one of the two forms"
        run.row(title, {}, partial(dict, values), at_least_of(len(best)), table="Tables 8, 10, 12", derived=True)
    return run.finish()


EVERY = Target("every row", lambda row: not row["missed"])


def count(run: Run, held: dict[str, dict[str, bool | None]]) -> None:
    """Sets of which every mean holds; the paper's one-vs-one may be met on either basis."""
    rbf = [name for name, rows in held.items() if any(ok for row, ok in rows.items() if row.startswith("RBF"))]
    passed = []
    for name, rows in held.items():
        shared = rows.pop("RBF, pairs, shared basis", None)
        verdicts = [verdict or (shared and row == "RBF, pairs") for row, verdict in rows.items()]
        if verdicts and all(verdicts):
            passed.append(name)
    for title, names in (("sets whose every mean holds", passed), ("sets with an RBF machine that holds", rbf)):
        values = {"ours": len(names), "note": f"of {len(held)}: {', '.join(names)}"}
        run.row(title, {}, partial(dict, values), table=TABLES[0], derived=True)


def at_least_of(n_sets: int) -> Target:
    need = max(1, n_sets - 2)
    return Target(f">= {need}", lambda row: row["ours"] >= need)


if __name__ == "__main__":
    sys.exit(main())
