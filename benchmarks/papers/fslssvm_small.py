"""Why entropy prototypes can flatter on small sets: 69 prototypes among 234 rows (De Brabanter et al. 2010).

    python -m benchmarks.papers.fslssvm_small [--quick] [--fresh] [--only TEXT]

234 random rows are trained on, the others test; three draws. "ours" is the mean cross-validated error of the machine
that the search chose, "peer" its test error, in per cent. Rows "at random's": entropy prototypes with the C and width
that the search found for random ones, to tell prototypes that are bad from a search that is misled.
"""

from __future__ import annotations

import sys
import warnings
from functools import partial
from typing import Any

import numpy as np
from benchmarks.harness import Run, load_data

from kompakt import FixedSizeLSSVC

N_TRAIN, N_BASIS = 234, 69
SETS = ("ida_image", "ida_ringnorm", "ida_twonorm", "spambase", "satimage")
FORMS = [(how, cv) for how in ("renyi", "random", "gram") for cv in ("plain", "drop", "anew")]


def rows_of(name: str, seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    data = load_data(name)
    if "X" in data:
        X, y = data["X"].astype(float), data["y"]
    else:
        X, y = data["X_train"].astype(float), data["y_train"]
    X = (X - X.mean(axis=0)) / np.where(X.std(axis=0) > 0, X.std(axis=0), 1)
    order = np.random.default_rng(seed).permutation(len(y))[: N_TRAIN + 3000]
    train, test = order[:N_TRAIN], order[N_TRAIN:]
    return X[train], y[train], X[test], y[test]


def measured(name: str, how: str, cv: str, n_draws: int) -> dict[str, Any]:
    reported, test, widths = [], [], []
    for seed in range(n_draws):
        X, y, T, t = rows_of(name, seed)
        model = FixedSizeLSSVC(N_BASIS, selection=how, cv_prototypes=cv, tune=True, random_state=seed)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model.fit(X, y)
        reported.append(100 * model.cv_error_)
        test.append(100 * (1 - model.score(T, t)))
        widths.append(float(np.log10(model.gamma_ * X.shape[1])))
    note = (
        f"log10 of gamma times features {np.mean(widths):.2f}; reported / test {np.mean(reported) / np.mean(test):.2f}"
    )
    return {"ours": float(np.mean(reported)), "peer": float(np.mean(test)), "width": widths, "note": note}


def at_randoms(name: str, n_draws: int) -> dict[str, Any]:
    test, on, off = [], [], []
    for seed in range(n_draws):
        X, y, T, t = rows_of(name, seed)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found = FixedSizeLSSVC(N_BASIS, selection="random", tune=True, random_state=seed).fit(X, y)
            options = {"selection": "renyi", "C": found.C_, "gamma": found.gamma_, "random_state": seed}
            model = FixedSizeLSSVC(N_BASIS, **options).fit(X, y)
            own = FixedSizeLSSVC(N_BASIS, selection="renyi", cv_prototypes="drop", tune=True, random_state=seed).fit(
                X, y
            )
        test.append(100 * (1 - model.score(T, t)))
        assert own.basis_indices_ is not None
        chosen = np.isin(np.arange(len(y)), own.basis_indices_)
        outputs = own.out_of_fold_outputs_
        labels = own.classes_[(outputs[:, 0] > 0).astype(int) if outputs.shape[1] == 1 else outputs.argmax(axis=1)]
        on.append(100 * np.mean(labels[chosen] != y[chosen]))
        off.append(100 * np.mean(labels[~chosen] != y[~chosen]))
    note = f"held-out error of rows that are prototypes {np.mean(on):.1f}, of the others {np.mean(off):.1f} (drop)"
    return {"peer": float(np.mean(test)), "ours": None, "note": note}


def main() -> int:
    run = Run("fslssvm_small", "Entropy prototypes on 234 rows", quick_minutes=1, full_minutes=5)
    n_draws = 1 if run.quick else 3
    for name in SETS[:1] if run.quick else SETS:
        for how, cv in FORMS:
            run.row(f"{name}, {how}, {cv}", {"draws": n_draws}, partial(measured, name, how, cv, n_draws), unit="%")
        run.row(f"{name}, renyi at random's", {"draws": n_draws}, partial(at_randoms, name, n_draws), unit="%")
    return run.finish()


if __name__ == "__main__":
    sys.exit(main())
