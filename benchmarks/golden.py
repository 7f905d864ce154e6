"""Whether a change of the code kept every fit: stored results of many small fits, compared with those of today.

    python -m benchmarks.golden [--write] [--only TEXT]

Each fit is compared in its selected rows (equal), coefficients (to 1e-9 of the largest), objective and the number of
kernel evaluations (no more than stored); a search in its trials: settings, held-out errors (to 1e-9), the one chosen
and why. The summaries that ``kompakt auto`` prints on two tables are compared line by line. Processor seconds are
printed as a ratio. `--write` stores today's results.
Refined fits are a long descent, in which the last bits grow: their objective is compared to 1e-3.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import os
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.datasets import make_classification, make_moons

import kompakt as k
from kompakt.cli import main as command
from kompakt.kernels import RBF

STORED = Path(__file__).with_name("golden.json")


def binary() -> tuple[np.ndarray, np.ndarray]:
    return make_moons(500, noise=0.25, random_state=0)


def classes() -> tuple[np.ndarray, np.ndarray]:
    return make_classification(600, 6, n_informative=5, n_redundant=0, n_classes=4, random_state=1)


def regression() -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(2)
    X = rng.standard_normal((500, 5))
    return X, np.sin(2 * X[:, 0]) + X[:, 1] * X[:, 2] + 0.1 * rng.standard_normal(500)


Data = Callable[[], tuple[np.ndarray, np.ndarray]]

#: settings of the stored fits that are no defaults
PLAIN: dict[str, Any] = {"C": 1.0, "gamma": "scale"}
HELD: dict[str, Any] = {"validation_fraction": 0.2, "refit": False}

#: name -> (data, estimator)
FITS: dict[str, tuple[Data, Callable[[], Any]]] = {
    "CompactSVC": (binary, lambda: k.CompactSVC(20)),
    "CompactSVC, 4 classes": (classes, lambda: k.CompactSVC(30)),
    "CompactSVC plain": (binary, lambda: k.CompactSVC(20, refine=False)),
    "CompactSVC plain, 4 classes": (classes, lambda: k.CompactSVC(30, refine=False)),
    "CompactSVC random": (classes, lambda: k.CompactSVC(30, selection="random", refine=False)),
    "CompactSVC renyi": (classes, lambda: k.CompactSVC(30, selection="renyi", refine=False)),
    "CompactSVC sp1": (binary, lambda: k.CompactSVC(15, selection="sp1", refine=False)),
    "CompactSVC projection": (binary, lambda: k.CompactSVC(15, selection="projection", refine=False)),
    "CompactSVC hinge": (binary, lambda: k.CompactSVC(20, refine=False, loss="hinge", selection="random")),
    "CompactSVC hinge, pairs": (classes, lambda: k.CompactSVC(20, refine=False, loss="hinge", coding="one_vs_one")),
    "CompactSVC least squares, laplacian": (
        classes,
        lambda: k.CompactSVC(20, refine=False, loss="least_squares", kernel="laplacian"),
    ),
    "CompactSVC huber, pairs": (classes, lambda: k.CompactSVC(20, refine=False, loss="huber", coding="one_vs_one")),
    "CompactSVC linear": (classes, lambda: k.CompactSVC(20, refine=False, kernel="linear", coding="minimum_output")),
    "CompactSVC poly, balanced": (
        classes,
        lambda: k.CompactSVC(20, refine=False, kernel="poly", degree=2, coef0=1.0, class_weight="balanced"),
    ),
    "CompactSVC 1 + rbf": (binary, lambda: k.CompactSVC(20, refine=False, kernel=1 + RBF(0.3), fit_intercept=False)),
    "CompactSVC auto": (binary, lambda: k.CompactSVC("auto", refine=False)),
    "CompactSVC tuned": (binary, lambda: k.CompactSVC(15, refine=False, tune=True)),
    "CompactSVC calibrated": (classes, lambda: k.CompactSVC(20, refine=False, calibrate=True)),
    "CompactSVR": (regression, lambda: k.CompactSVR(30, C=1.0)),
    "CompactSVR plain": (regression, lambda: k.CompactSVR(30, C=1.0, refine=False)),
    "CompactSVR huber": (regression, lambda: k.CompactSVR(20, C=1.0, refine=False, loss="huber")),
    "CompactSVR epsilon": (regression, lambda: k.CompactSVR(20, C=1.0, refine=False, loss="epsilon_insensitive")),
    "CompactSVR absolute": (
        regression,
        lambda: k.CompactSVR(20, C=1.0, refine=False, loss="absolute", selection="random"),
    ),
    "CompactSVR quantile": (regression, lambda: k.CompactSVR(20, C=1.0, refine=False, loss="quantile", quantile=0.8)),
    "CompactSVR tuned": (regression, lambda: k.CompactSVR(15, refine=False, tune=True)),
    "FixedSizeLSSVC": (classes, lambda: k.FixedSizeLSSVC(30, selection="renyi", **PLAIN)),
    "FixedSizeLSSVC pairs": (classes, lambda: k.FixedSizeLSSVC(30, coding="one_vs_one", selection="renyi", **PLAIN)),
    "FixedSizeLSSVC tuned": (binary, lambda: k.FixedSizeLSSVC(20, tune=True, cv=5, selection="renyi", **PLAIN)),
    "FixedSizeLSSVC tuned, 4 classes": (
        classes,
        lambda: k.FixedSizeLSSVC(20, tune=True, cv=5, selection="renyi", **PLAIN),
    ),
    "FixedSizeLSSVR": (regression, lambda: k.FixedSizeLSSVR(30, selection="renyi", **PLAIN)),
    "FixedSizeLSSVR tuned": (regression, lambda: k.FixedSizeLSSVR(20, tune=True, cv=5, selection="renyi", **PLAIN)),
    "FixedSizeLSSVR auto": (regression, lambda: k.FixedSizeLSSVR("auto", tune=True, cv=5, selection="renyi", **PLAIN)),
    "SpSVC": (classes, lambda: k.SpSVC(25, **PLAIN)),
    "SpSVC sp1": (binary, lambda: k.SpSVC(20, selection="sp1", plus_one=True, **PLAIN)),
    "SpSVC hybrid": (binary, lambda: k.SpSVC(20, selection="hybrid", **PLAIN)),
    "SpSVC cholesky": (binary, lambda: k.SpSVC(20, selection="cholesky", **PLAIN)),
    "SpSVC gsvc": (binary, lambda: k.SpSVC(20, selection="gsvc", **PLAIN)),
    "SpSVC bh": (binary, lambda: k.SpSVC(20, selection="bh", plus_one=True, **PLAIN)),
    "SpSVC mark": (binary, lambda: k.SpSVC(20, selection="mark", **PLAIN)),
    "SpSVC kmp": (binary, lambda: k.SpSVC(20, selection="kmp", **PLAIN)),
    "SpSVC huber": (binary, lambda: k.SpSVC(20, loss="huber", **PLAIN)),
    "SpSVC auto": (binary, lambda: k.SpSVC("auto", validation_fraction=0.2, **PLAIN)),
    "ProjectedSVC": (classes, lambda: k.ProjectedSVC(25, two_pass=False, **PLAIN)),
    "ProjectedSVC drawn": (binary, lambda: k.ProjectedSVC(25, pivot="random", two_pass=False, **PLAIN)),
    "ProjectedSVC two passes": (binary, lambda: k.ProjectedSVC(15, two_pass=True, **PLAIN)),
    "KernelFisher": (binary, lambda: k.KernelFisher(reg=0.1, priors=None, gamma="scale")),
    "ProjectedKernelFisher": (
        classes,
        lambda: k.ProjectedKernelFisher(25, selection="projection", reg=0.1, priors=None, gamma="scale"),
    ),
    "LocalSamplingSVC": (binary, lambda: k.LocalSamplingSVC(variant="paper", **PLAIN)),
    "CGLQSVC": (binary, lambda: k.CGLQSVC(delta=1 / 9, **PLAIN)),
    "FEESVC": (binary, lambda: k.FEESVC(20, **HELD, **PLAIN)),
    "FEESVC sgma": (binary, lambda: k.FEESVC(20, selection="sgma", **HELD, **PLAIN)),
    "FEESVC, 4 classes": (classes, lambda: k.FEESVC(20, **HELD, **PLAIN)),
    "FEESVR": (regression, lambda: k.FEESVR(20, **HELD, **PLAIN)),
    # width, cost and the like from the data
    "SpSVC, defaults": (classes, lambda: k.SpSVC(25)),
    "FixedSizeLSSVC, defaults": (classes, lambda: k.FixedSizeLSSVC(30)),
    "FixedSizeLSSVR, defaults": (regression, lambda: k.FixedSizeLSSVR(30)),
    "ProjectedSVC, defaults": (classes, lambda: k.ProjectedSVC(25)),
    "ProjectedKernelFisher, defaults": (classes, lambda: k.ProjectedKernelFisher(25)),
    "LocalSamplingSVC, defaults": (binary, lambda: k.LocalSamplingSVC()),
    "LocalSamplingSVC, margins": (binary, lambda: k.LocalSamplingSVC(variant="margin", max_train=100)),
    "FEESVC, defaults": (binary, lambda: k.FEESVC(20)),
    "FEESVR, defaults": (regression, lambda: k.FEESVR(20)),
    # searches
    "CompactSVC tuned, refined": (binary, lambda: k.CompactSVC(10, tune=True)),
    "CompactSVC tuned, auto": (classes, lambda: k.CompactSVC("auto", refine=False, tune=True)),
    "CompactSVR tuned, huber": (regression, lambda: k.CompactSVR(15, refine=False, tune=True, loss="huber")),
    "FixedSizeLSSVR tuned, huber": (
        regression,
        lambda: k.FixedSizeLSSVR(15, tune=True, selection="renyi", loss="huber"),
    ),
    "FixedSizeLSSVC annealed, pairs": (
        classes,
        lambda: k.FixedSizeLSSVC(15, tune=k.Annealing(20, 10), selection="renyi", coding="one_vs_one"),
    ),
    "SpSVC tuned": (binary, lambda: k.SpSVC("auto", tune=k.GridSearch(C=[0.1, 1.0, 10.0], gamma=[0.1, 1.0, 10.0]))),
    "SpSVC tuned, 4 classes": (classes, lambda: k.SpSVC(12, tune=k.GridSearch(C=[1.0, 10.0], gamma=[0.1, 1.0]))),
    "KernelFisher tuned": (binary, lambda: k.KernelFisher(tune=True)),
    "ProjectedKernelFisher tuned": (classes, lambda: k.ProjectedKernelFisher(20, tune=True)),
    "FEESVC tuned": (binary, lambda: k.FEESVC(12, tune=k.TwoGrids([-3.0, -1.0], [0.0, 1.0], rule="one_se"), cv=3)),
    "FEESVR tuned": (regression, lambda: k.FEESVR(8, tune=k.TwoGrids([-1.0, 0.0], [0.0, 1.0]), cv=2)),
    "SpSVC refined": (binary, lambda: k.SpSVC(8, refine=True, **PLAIN)),
}


#: name -> table of the printed summary
SUMMARIES: dict[str, Data] = {"kompakt auto, classes": binary, "kompakt auto, numbers": regression}


def printed(name: str) -> dict[str, Any]:
    """The summary of ``kompakt auto``, without times, file names and sizes."""
    X, y = SUMMARIES[name]()
    began, text = time.process_time(), io.StringIO()
    with tempfile.TemporaryDirectory() as folder:
        table, model = os.path.join(folder, "table.csv"), os.path.join(folder, "model.kompakt")
        header = ",".join([*(f"x{number}" for number in range(X.shape[1])), "y"])
        np.savetxt(table, np.column_stack([X, y]), delimiter=",", header=header, comments="")
        with contextlib.redirect_stdout(text), contextlib.redirect_stderr(io.StringIO()):
            command(["auto", table, "--model", model, "--target", "y", "-n", "12", "--seed", "0"])
    lines = [line.rstrip() for line in text.getvalue().splitlines()]
    lines = [line for line in lines if not line.startswith(("training", "model"))]
    return {"summary": lines, "seconds": time.process_time() - began}


def trials(estimator: Any) -> dict[str, Any] | None:
    """What a search tried, in its order, and which one was chosen."""
    table = getattr(estimator, "cv_results_", None)
    if table is None:
        return None
    return {
        "settings": [list(params.values()) for params in table["params"]],
        "errors": table["mean_test_error"].tolist(),
        "chosen": int(np.argmin(table["rank_test_error"])),
        "why": estimator.model_.record.why,
    }


def fitted(name: str) -> dict[str, Any]:
    """The facts of one fit."""
    if name in SUMMARIES:
        return printed(name)
    data, make = FITS[name]
    X, y = data()
    estimator = make().set_params(random_state=0)
    began = time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        estimator.fit(X, y)
    seconds = time.process_time() - began
    indices = getattr(estimator, "basis_indices_", getattr(estimator, "support_", None))
    return {
        "indices": None if indices is None else [int(i) for i in indices],
        "coefficients": np.asarray(estimator.dual_coef_).ravel().tolist() + np.ravel(estimator.intercept_).tolist(),
        "objective": float(getattr(estimator, "objective_", np.nan)),
        "kernel_evaluations": int(getattr(estimator, "n_kernel_evals_", 0)),
        "trials": trials(estimator),
        "seconds": seconds,
    }


def differences(old: dict[str, Any], new: dict[str, Any]) -> list[str]:
    """What a fit does otherwise than before, in words."""
    if "summary" in old:
        lines = [f"{b!r} instead of {a!r}" for a, b in zip(old["summary"], new["summary"], strict=False) if a != b]
        return lines[:1] or ["other lines"] * (len(old["summary"]) != len(new["summary"]))
    found = _other_trials(old["trials"], new["trials"]) if old["trials"] and new["trials"] else []
    if bool(old["trials"]) != bool(new["trials"]):
        found.append("trials are missing" if old["trials"] else "trials that were not there")
    if old["indices"] != new["indices"]:
        found.append("other rows are selected")
    a, b = np.array(old["coefficients"]), np.array(new["coefficients"])
    refined = old["indices"] is None
    if a.shape != b.shape:
        found.append(f"{len(b)} coefficients instead of {len(a)}")
    elif not refined and not np.allclose(a, b, rtol=0, atol=1e-9 * max(1.0, float(np.abs(a).max()))):
        found.append(f"coefficients differ by {np.abs(a - b).max():.1e}")
    tolerance = 1e-3 if refined else 1e-9
    if not np.isclose(old["objective"], new["objective"], rtol=tolerance, equal_nan=True):
        found.append(f"objective {new['objective']:.10g} instead of {old['objective']:.10g}")
    if new["kernel_evaluations"] > (1.1 if refined else 1.0) * old["kernel_evaluations"]:
        found.append(f"{new['kernel_evaluations']} kernel evaluations instead of {old['kernel_evaluations']}")
    return found


def _other_trials(old: dict[str, Any], new: dict[str, Any]) -> list[str]:
    """What a search does otherwise than before."""
    a, b = (np.array(trials["settings"], dtype=np.float64) for trials in (old, new))
    if a.shape != b.shape:
        return [f"{len(b)} trials instead of {len(a)}"]
    found = [] if np.allclose(a, b, rtol=1e-9, atol=0, equal_nan=True) else ["other settings are tried"]
    a, b = np.array(old["errors"]), np.array(new["errors"])
    if not np.allclose(a, b, rtol=1e-9, atol=1e-12, equal_nan=True):
        found.append(f"held-out errors differ by {np.nanmax(np.abs(a - b)):.1e}")
    if (old["chosen"], old["why"]) != (new["chosen"], new["why"]):
        found.append(f"trial {new['chosen']} instead of {old['chosen']}: {new['why']}")
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", action="store_true", help="store the results of this code")
    parser.add_argument("--only", default="", help="fits whose name holds this text")
    arguments = parser.parse_args()
    stored = json.loads(STORED.read_text()) if STORED.exists() else {}
    k.CompactSVC(5).fit(*binary())  # compiled functions and imports are loaded before the clock runs
    failed, ratios = 0, []
    for name in (name for name in (*FITS, *SUMMARIES) if arguments.only in name):
        new = fitted(name)
        if arguments.write or name not in stored:
            stored[name] = new
            print(f"{name:40s} {new['seconds']:6.2f} s  stored", flush=True)
            continue
        wrong = differences(stored[name], new)
        failed += bool(wrong)
        ratios.append(new["seconds"] / max(stored[name]["seconds"], 1e-3))
        print(f"{name:40s} {new['seconds']:6.2f} s  {ratios[-1]:5.2f}x  {'; '.join(wrong) or 'same'}", flush=True)
    if arguments.write:
        STORED.write_text(json.dumps(stored, indent=0) + "\n")
    elif ratios:
        mean = float(np.exp(np.mean(np.log(ratios))))
        print(f"{len(ratios) - failed} of {len(ratios)} fits as stored; processor time {mean:.2f}x (geometric mean)")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
