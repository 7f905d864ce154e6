"""FEE-SVM and SGMA-SVM against the exact SVM on the same splits: twelve of the fourteen sets of Navia-Vazquez, Table 2.

    python -m benchmarks.papers.fee_exact [--quick] [--fresh] [--only TEXT]

The paper's splits are unknown, so what can be held to is its claim: compact models only slightly worse than the full
SVM. A set is met if the mean test error of FEE is at most half a point above that of the exact SVM on the same
splits.

The two-class tasks made of Landsat, Handdigit and Adult are not defined in the paper. Here: Landsat is satimage,
class 1 against the rest (the exact SVM has the paper's number of support vectors); Handdigit is optdigits, even
digits against odd ones; Adult has its 14 columns as codes, and 6,000 training rows. Kwok and Add are not available.

Everything is chosen on the training rows of the first split. The exact SVM: C and sigma by five folds of up to 1,000
rows, on a grid of factors 10 and 2 and then one of half these steps. FEE and SGMA take this C and sigma, or one of
two wider kernels (2 sigma, with C and with 10 C); three to twenty times (the fewer the rows, the more often) a
quarter of the rows is held out, the model grows on the rest, its vectors chosen by these rows alone, and the held-out
error is followed over the sizes (a mean over seven neighbours). The lowest error of the three kernels decides, of
equal ones the smallest size. FEE tries 59 candidates at a step, SGMA, which judges them by how well they represent
the support vectors, 10. Then every split grows one model on all its training rows to that size. "seconds" are
processor seconds of these growths. A set that is missed is looked at again, to know why: with 200 vectors where growth
ended near the limit of 100, otherwise with a size chosen by ten held-out parts in the place of three.
"""

from __future__ import annotations

import os
import sys
import time
import warnings
from functools import partial
from typing import Any

import numpy as np
from benchmarks.harness import Run, at_least, load_data, not_worse
from benchmarks.papers import fee_tables

FINEST, LARGEST = 1000, 100
N_SPLITS = {"small": 10, "large": 5}
CANDIDATES = {"fee": 59, "sgma": 10}
TIMES = {  # seconds of Table 3: SGMA, FEE
    "Heart": (1695, 719), "Ripley": (730, 397), "Breast": (874, 757), "Pima": (3628, 2264), "Image": (10833, 8972),
    "Spam": (16725, 28969), "Handdigit": (209056, 30555), "Waveform": (60795, 32348), "Landsat": (16811, 10403),
    "Twonorm": (76802, 31092), "Ringnorm": (202261, 57968), "Adult": (173520, 208073),
}  # fmt: skip
SETS = {
    **fee_tables.SETS,
    "Handdigit": ("optdigits", 3823, (1.1, 1.8, 2.0), (676, 84, 73)),
    "Landsat": ("satimage", 4435, (0.8, 0.82, 0.64), (204, 50, 46)),
    "Adult": ("adult", 6000, (24.6, 24.2, 24.1), (15016, 13, 16)),
}
#: the rows that were missed before come first
ORDER = (
    "Waveform", "Image", "Pima", "Landsat", "Handdigit", "Heart", "Ripley", "Breast", "Spam", "Twonorm", "Ringnorm",
    "Adult",
)  # fmt: skip
SMALL = (*fee_tables.SMALL, "Image")
CAUSES = {
    "Handdigit, fee": "growth ended at the limit of 100 vectors, 200 have 1.26 %; the paper's own FEE is 0.9 points "
    "above its SVM",
    "Adult, fee": "three held-out parts of 1,500 rows say 17.5 % and choose 28 vectors with the narrow kernel; ten "
    "parts choose 49 with the wide one, which have 15.55 %",
    "sets as good": "Adult, which holds only when its size is chosen again, and has 6,000 of the paper's 30,162 rows",
}

Point = tuple[float, float]


def split_of(name: str, seed: int) -> fee_tables.Split:
    """Training and test part of one split, standardised by the training rows; classes 0 and 1."""
    if name in fee_tables.SETS:
        return fee_tables.split_of(name, seed)
    file, n_train = SETS[name][:2]
    data = load_data(file)
    X = np.concatenate([data["X_train"], data["X_test"]]).astype(float)
    y = np.concatenate([data["y_train"], data["y_test"]]).astype(int)
    labels = {"Handdigit": y % 2, "Landsat": (y == 1).astype(int), "Adult": (y > 0).astype(int)}[name]
    order = np.random.default_rng(seed).permutation(len(X))
    train, test = order[:n_train], order[n_train:]
    deviation = X[train].std(axis=0)
    X = (X - X[train].mean(axis=0)) / np.where(deviation > 0, deviation, 1.0)
    return X[train], labels[train], X[test], labels[test]


def gamma_of(sigma: float, n_features: int) -> float:
    return 0.5 / (sigma**2 * n_features)


def exact_point(name: str) -> dict[str, Any]:
    """C, and sigma in units of the root of the number of columns, by five folds."""
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.model_selection import StratifiedKFold, cross_val_score
    from sklearn.svm import SVC

    X, labels, _, _ = split_of(name, 0)
    X, labels = X[:FINEST], labels[:FINEST]  # the order of a split is random
    folds = StratifiedKFold(5, shuffle=True, random_state=0)
    errors: dict[Point, float] = {}

    def try_all(costs: np.ndarray, sigmas: np.ndarray) -> None:
        for C in costs.tolist():
            for sigma in sigmas.tolist():
                if (C, sigma) not in errors:
                    model = SVC(C=C, gamma=gamma_of(sigma, X.shape[1]), max_iter=100_000)
                    errors[C, sigma] = round(1 - float(np.mean(cross_val_score(model, X, labels, cv=folds))), 12)

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        try_all(10.0 ** np.arange(-1, 4), 2.0 ** np.arange(-2, 3))
        C, sigma = min(errors, key=lambda at: (errors[at], at[0], -at[1]))
        try_all(C * 10.0 ** np.array([-0.5, 0.0, 0.5]), sigma * 2.0 ** np.array([-0.5, 0.0, 0.5]))
    C, sigma = min(errors, key=lambda at: (errors[at], at[0], -at[1]))
    return {"ours": 100 * errors[C, sigma], "C": C, "sigma": sigma, "note": f"C {C:.3g}, sigma {sigma:.3g} sqrt(d)"}


def compact_point(name: str, method: str, C: float, sigma: float, repeats: int | None = None) -> dict[str, Any]:
    """C, sigma and size of FEE or SGMA: held-out errors over the sizes of three kernels."""
    from kompakt.basis.fee import FeePlan, grow_on
    from kompakt.basis.forward import CandidateStream
    from kompakt.data import ArrayRows, hash_rows
    from kompakt.kernels import RBF
    from kompakt.losses import Hinge
    from kompakt.spec import Data, Spec

    X, labels, _, _ = split_of(name, 0)
    n, start = len(X), time.process_time()
    data = Data(ArrayRows(X, np.where(labels == 1, 1.0, -1.0)[:, None]), labels=labels)
    stream = CandidateStream.of(hash_rows(X, 0), 0)
    found = []
    for c, s in ((C, sigma), (C, 2 * sigma), (10 * C, 2 * sigma)):
        spec = Spec(RBF(gamma_of(s, X.shape[1])), Hinge(), c, n_classes=2)
        repeats = repeats or min(20, max(3, 3000 // (n // 4)))
        errors = np.full((repeats, LARGEST + 1), np.nan)
        for repeat in range(repeats):
            order = np.random.default_rng(1000 + repeat).permutation(n)
            split = np.sort(order[n // 4 :]), np.sort(order[: n // 4])
            plan = FeePlan(LARGEST, method, CANDIDATES[method], patience=None)
            _, growth = grow_on(data, spec, plan, stream, split, confirm=True)
            for record in growth.records:
                errors[repeat, record["n_basis"]] = record["validation_error"]
        mean = errors.mean(axis=0)
        for size in range(2, LARGEST + 1):
            near = mean[max(2, size - 3) : size + 4]
            if np.isfinite(near).all():
                found.append((size, float(near.mean()), c, s))
    size, error, c, s = min(found, key=lambda one: (round(one[1], 12), one[0]))
    note = f"{size} vectors, C {c:.3g}, sigma {s:.3g} sqrt(d)"
    seconds = time.process_time() - start
    return {"ours": 100 * error, "C": c, "sigma": s, "size": size, "seconds": seconds, "note": note}


def tested(name: str, method: str, point: dict[str, Any], n_splits: int) -> dict[str, Any]:
    """Test errors, sizes and processor seconds on the splits."""
    from sklearn.svm import SVC

    from kompakt import FEESVC, FEESelector

    errors, sizes, seconds = [], [], []
    for seed in range(n_splits):
        X, labels, X_test, expected = split_of(name, seed)
        gamma = gamma_of(point["sigma"], X.shape[1])
        start = time.process_time()
        machine: Any
        if method == "exact":
            machine = SVC(C=point["C"], gamma=gamma).fit(X, labels)
            sizes.append(int(machine.n_support_.sum()))
        else:
            selection = FEESelector(method, n_candidates=CANDIDATES[method])
            machine = FEESVC(
                point["size"], C=point["C"], gamma=gamma, selection=selection, validation_fraction=0, random_state=seed,
                n_jobs=1,
            ).fit(X, labels)  # fmt: skip
            sizes.append(machine.n_basis_)
        seconds.append(time.process_time() - start)
        errors.append(100 * float(np.mean(machine.predict(X_test) != expected)))
    which = fee_tables.METHODS.index(method)
    return {
        "ours": float(np.mean(errors)),
        "spread": float(np.std(errors, ddof=1)) if n_splits > 1 else 0.0,
        "paper": SETS[name][2][which],
        "size": float(np.mean(sizes)),
        "paper_size": SETS[name][3][which],
        "seconds": float(np.mean(seconds)),
        "splits": n_splits,
        "note": f"{np.mean(sizes):.0f} vectors (paper {SETS[name][3][which]}), {np.mean(seconds):.2f} s",
    }


def again(name: str, point: dict[str, Any], exact: float, n_splits: int) -> dict[str, Any]:
    """Test errors at another point beside the exact SVM's."""
    return {**tested(name, "fee", point, n_splits), "peer": exact}


def one_set(run: Run, name: str, n_splits: int) -> bool | None:
    """Rows of one set; whether FEE is within half a point of the exact SVM.

    A second look counts where it only lifts the limit of the size, and not where the size is chosen anew: of two
    choices the better one would always be told.
    """
    exact_at = run.row(f"{name}, search exact", {}, partial(exact_point, name), unit="%")
    if exact_at is None:
        return None

    def cell(method: str, point: dict[str, Any], **more: Any) -> dict[str, Any] | None:
        params = {"splits": n_splits, "C": point["C"], "sigma": point["sigma"], "size": point.get("size")}
        target = None if method == "exact" else not_worse(0.5, "peer")

        def measure() -> dict[str, Any]:
            return {**tested(name, method, point, n_splits), **more}

        return run.row(f"{name}, {method}", params, measure, target if method == "fee" else None, "%", table="Table 2")

    exact = cell("exact", exact_at)
    held = None
    for method in ("fee", "sgma"):
        at = {"C": exact_at["C"], "sigma": exact_at["sigma"]}
        point = run.row(f"{name}, search {method}", at, partial(compact_point, name, method, **at), unit="%")
        if point is None or exact is None:
            return None
        found = cell(method, point, peer=exact["ours"], peer_size=exact["size"])
        if method == "fee" and found is not None:
            held = bool(found["ours"] <= exact["ours"] + 0.5)
            fee = found
            if not held and point["size"] > 0.9 * LARGEST:  # it ended at the limit: what twice as many vectors give
                more = {**point, "size": 2 * LARGEST}
                row = f"{name}, fee with {2 * LARGEST} vectors"
                params = {"splits": 3, "C": point["C"], "sigma": point["sigma"]}
                doubled = run.row(
                    row,
                    params,
                    partial(again, name, more, exact["ours"], 3),
                    not_worse(0.5, "peer"),
                    "%",
                    table="Table 2",
                )
                held = doubled is not None and bool(doubled["ours"] <= exact["ours"] + 0.5)
            elif not held:  # three held-out parts may be too few to choose a size by
                row = f"{name}, search fee by ten parts"
                better = run.row(row, at, partial(compact_point, name, "fee", **at, repeats=10), unit="%")
                if better is None:
                    continue
                params = {"C": better["C"], "sigma": better["sigma"], "size": better["size"]}
                measure = partial(again, name, better, exact["ours"], n_splits)
                row, target = f"{name}, fee with the size by ten parts", not_worse(0.5, "peer")
                run.row(row, params, measure, target, "%", table="Table 2")
        elif found is not None:
            times = {
                "ours": found["seconds"] / fee["seconds"],
                "paper": TIMES[name][0] / TIMES[name][1],
                "note": f"SGMA {found['seconds']:.2f} s with {found['size']:.0f} vectors and 10 candidates, "
                f"FEE {fee['seconds']:.2f} s with {fee['size']:.0f} and 59",
            }
            run.row(
                f"{name}, time of SGMA over FEE",
                {"of": times["note"]},
                partial(dict, times),
                unit="x",
                table="Table 3, times",
            )
    return held


def main() -> int:
    for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
        os.environ.setdefault(name, "1")
    run = Run("fee_exact", "FEE against the exact SVM on the same splits", quick_minutes=1, full_minutes=10)
    held = []
    for name in ("Heart", "Ripley") if run.quick else ORDER:
        held.append(one_set(run, name, 2 if run.quick else N_SPLITS["small" if name in SMALL else "large"]))
    if not run.quick and not run.options.only:
        found = [one for one in held if one is not None]
        note = (
            f"of {len(found)} sets measured: error within half a point of the exact SVM's; where growth ended at the "
            "limit of the size, with twice the limit"
        )
        values = {"ours": sum(found), "note": note}
        row = "sets as good as the exact SVM"
        run.row(row, {}, partial(dict, values), at_least(12), table="Table 2: sets", derived=True)
    return run.finish()


if __name__ == "__main__":
    sys.exit(main())
