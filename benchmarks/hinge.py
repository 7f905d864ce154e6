"""What the hinge costs against the squared hinge on the same basis (`python -m benchmarks.hinge`).

    python -m benchmarks.hinge [--quick] [--fresh] [--only TEXT]

Both losses are fitted in turn on the same 100 rows as basis, and every number is a median over rounds; the ratio is the
median of the ratios within rounds.  The optimality of the hinge machine is checked by its multipliers, and where the
basis is small enough to wait for it the reference method (reweighted least squares) is timed beside it.
"""

from __future__ import annotations

import sys
import time
from functools import partial
from typing import Any

import numpy as np

from benchmarks import irwls
from benchmarks.harness import MissingData, Run, alternate, at_most, load_data
from kompakt import CompactSVC
from kompakt.data import ArrayRows
from kompakt.design import Design
from kompakt.kernels import RBF
from kompakt.losses import Hinge
from kompakt.parallel import block_threads
from kompakt.solve import Problem, Settings, solve

GAMMA = 0.05
N_BASIS = 100


def a9a(n_rows: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Rows and labels of a9a and a basis drawn from them; where it is absent, binary rows of the same size."""
    try:
        data = load_data("a9a")
        X, y = data["X_train"][:n_rows].astype(np.float64), data["y_train"][:n_rows].astype(np.float64)
    except MissingData as absent:
        print(f"{absent}; using generated rows of the same size")
        rng = np.random.default_rng(0)
        X = (rng.random((n_rows, 123)) < 14 / 123).astype(np.float64)
        y = np.where(X @ rng.standard_normal(123) + rng.standard_normal(n_rows) > 1.0, 1.0, -1.0)
    chosen = np.random.default_rng(1).choice(len(X), N_BASIS, replace=False)
    return X, y, X[chosen]


def fit_ratio(n_rows: int, C: float, rounds: int) -> dict[str, Any]:
    """Seconds of a hinge fit over those of a squared-hinge fit with the same basis."""
    X, y, basis = a9a(n_rows)
    machines = {
        loss: CompactSVC(selection=basis, refine=False, loss=loss, gamma=GAMMA, C=C)
        for loss in ("squared_hinge", "hinge")
    }
    timings = alternate({loss: partial(machine.fit, X, y) for loss, machine in machines.items()}, rounds)
    if not machines["hinge"].converged_:
        raise AssertionError("the hinge fit did not converge: its time says nothing")
    median = timings.summary()
    return {
        "ours": timings.ratio("hinge", "squared_hinge"),
        "noise": timings.noise(),
        "note": ", ".join(f"{loss} {1e3 * median[loss]:.0f} ms ({machines[loss].n_iter_} steps)" for loss in median),
    }


def solve_ratio(n_rows: int, C: float, rounds: int) -> dict[str, Any]:
    """The same without the kernel values, which both fits share."""
    from kompakt.losses import SquaredHinge

    X, y, basis = a9a(n_rows)
    with block_threads():
        design = Design(ArrayRows(X, y[:, None]), RBF(GAMMA), basis, whiten=True)
    found: dict[str, Any] = {}

    def run(name: str, loss: Any) -> None:
        with block_threads():
            found[name] = solve(Problem(design, loss, C))

    timings = alternate(
        {"squared": partial(run, "squared", SquaredHinge()), "hinge": partial(run, "hinge", Hinge())}, rounds
    )
    median = timings.summary()
    note = f"squared {1e3 * median['squared']:.0f} ms, hinge {1e3 * median['hinge']:.0f} ms"
    return {
        "ours": timings.ratio("hinge", "squared"),
        "noise": timings.noise(),
        "note": f"{note}, exact {found['hinge'].info['exact']}, gradient {found['hinge'].optimality[0]:.0e}",
    }


def against_reweighting(n_rows: int, C: float) -> dict[str, Any]:
    """The reference method after 100 and 400 iterations: its objective above the exact one, and its seconds."""
    X, y, basis = a9a(n_rows)
    with block_threads():
        design = Design(ArrayRows(X, y[:, None]), RBF(GAMMA), basis, whiten=True)
        start = time.perf_counter()
        exact = solve(Problem(design, Hinge(), C))
        seconds = time.perf_counter() - start
        notes = []
        for steps in (100, 400):
            start = time.perf_counter()
            found = irwls.minimise(Problem(design, Hinge(), C), None, Settings(tol=1e-12, max_iter=steps))
            spent = time.perf_counter() - start
            above = float(found.objective[0] / exact.objective[0] - 1.0)
            notes.append(f"{steps} steps: {spent:.1f} s, objective {above:.1e} above")
    return {"ours": spent / seconds, "note": f"exact in {seconds:.2f} s; reweighting {'; '.join(notes)}"}


def main() -> int:
    run = Run("hinge", "What the hinge costs", quick_minutes=0.5, full_minutes=3)
    n = 5_000 if run.quick else 30_000
    rounds = 3 if run.quick else 9
    for C in (1.0, 100.0):
        size = {"n": n, "m": N_BASIS, "C": C, "gamma": GAMMA, "rounds": rounds}
        run.row(
            f"hinge fit over squared-hinge fit, C={C:g}", size, partial(fit_ratio, n, C, rounds), at_most(3), unit="x"
        )
    for C in (1.0, 100.0):
        size = {"n": n, "m": N_BASIS, "C": C, "gamma": GAMMA, "rounds": rounds}
        run.row(f"solving alone, C={C:g}", size, partial(solve_ratio, n, C, rounds), unit="x")
    run.row(
        "reweighting (400 steps) over ours, C=1", {"n": n, "m": N_BASIS}, partial(against_reweighting, n, 1.0), unit="x"
    )
    return run.finish()


if __name__ == "__main__":
    sys.exit(main())
