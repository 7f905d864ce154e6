"""SpSVC: growth of time with the number of rows, kernel evaluations per step, and the exact SVM on ijcnn1.

    python -m benchmarks.spsvc_scaling [--quick] [--fresh] [--only TEXT]

Time is measured at a fixed number of vectors on generated rows (20 features, overlapping classes) in alternating order;
the exponent is the slope of log time on log n.  Evaluations are counted by a kernel that counts.  On ijcnn1 (gamma 4,
lambda 1/16, Keerthi et al. 2006) SpSVC and scikit-learn's SVC are fitted and asked to predict in turn.
"""

from __future__ import annotations

import sys
import time
from functools import partial
from typing import Any

import numpy as np

from benchmarks.harness import Run, Target, alternate, at_least, at_most, load_data
from kompakt import GrowthSelector, SpSVC
from kompakt.datasets import make_ringnorm
from kompakt.kernels import RBF, Kernel


class Counting(Kernel):
    """A Gaussian kernel that counts the values it computes."""

    name = "counting"

    def __init__(self, gamma: float) -> None:
        self.inner, self.count = RBF(gamma), 0

    def pre(self, X: Any, Z: np.ndarray) -> np.ndarray:
        """Squared distances."""
        self.count += X.shape[0] * len(Z)
        return self.inner.pre(X, Z)

    def finish(self, pre: np.ndarray) -> np.ndarray:
        """Values."""
        return self.inner.finish(pre)

    def diag(self, X: Any) -> np.ndarray:
        """Ones."""
        self.count += X.shape[0]
        return self.inner.diag(X)

    def spec(self) -> dict[str, Any]:
        """No file format."""
        raise TypeError("a counting kernel is not saved")


def rows_of(n: int) -> tuple[np.ndarray, np.ndarray]:
    X, y = make_ringnorm(n, random_state=0)
    return np.asarray(X), np.asarray(y)


def exponent(sizes: list[int], n_basis: int, rounds: int) -> dict[str, Any]:
    data = {n: rows_of(n) for n in sizes}

    def fit(n: int) -> SpSVC:
        return SpSVC(n_basis, gamma=0.02, C=1.0, random_state=0).fit(*data[n])

    # processor time: the exponent is about work, and must not depend on who else uses the machine
    timings = alternate({str(n): partial(fit, n) for n in sizes}, rounds=rounds, warmup=1, clock=time.process_time)
    best = [min(timings.seconds[str(n)]) for n in sizes]
    slope = float(np.polyfit(np.log(sizes), np.log(best), 1)[0])
    text = ", ".join(f"{n}: {seconds:.2f} s" for n, seconds in zip(sizes, best, strict=True))
    return {"ours": slope, "seconds": best, "note": f"processor time, best of {rounds}: {text}"}


def evaluations(n: int, n_basis: int, kappa: int) -> dict[str, Any]:
    """Largest share of the bound kappa (n_SV + d) + n + d + 1 that a step uses."""
    X, y = rows_of(n)
    kernel = Counting(0.02)
    selection = GrowthSelector(n_candidates=kappa, retraining="always", cache=False)
    machine = SpSVC(n_basis, kernel=kernel, C=1.0, selection=selection, random_state=0).fit(X, y)
    counts = np.array([0] + [record["n_kernel_evals"] for record in machine.history_])
    active = np.array([n] + [record["n_active"] for record in machine.history_])[:-1]
    d = np.arange(n_basis)
    share = np.diff(counts) / (kappa * (active + d) + n + d + 1)
    ok = "all counted" if kernel.count == machine.n_kernel_evals_ else f"kernel counted {kernel.count}"
    return {"ours": float(share.max()), "note": f"{machine.n_kernel_evals_} evaluations in all, {ok}"}


def against_svc(n_rows: int | None, n_basis: int) -> dict[str, Any]:
    from sklearn.svm import SVC

    data = load_data("ijcnn1")
    X, y = data["X_train"].astype(float)[:n_rows], data["y_train"][:n_rows]
    X_test, y_test = data["X_test"].astype(float), data["y_test"]
    SpSVC(5, gamma=4.0).fit(X[:500], y[:500])  # compile
    machines: dict[str, Any] = {}

    def fit(name: str) -> None:
        greedy, exact = SpSVC(n_basis, gamma=4.0, C=16.0, random_state=0), SVC(gamma=4.0, C=16.0, cache_size=500)
        machines[name] = (greedy if name == "ours" else exact).fit(X, y)

    rounds = 1 if n_rows is None else 2
    fits = alternate({"ours": lambda: fit("ours"), "svc": lambda: fit("svc")}, rounds=rounds, warmup=0)
    part = X_test[:20_000]
    predictions = alternate({name: partial(m.predict, part) for name, m in machines.items()}, rounds=3, warmup=1)
    errors = {name: 100 * float(np.mean(m.predict(X_test) != y_test)) for name, m in machines.items()}
    return {
        "fit": {name: fits.median(name) for name in machines},
        "predict": {name: predictions.median(name) for name in machines},
        "faster": predictions.ratio("svc", "ours"),
        "errors": errors,
        "n_basis": machines["ours"].n_basis_,
        "n_sv": int(machines["svc"].n_support_.sum()),
    }


def main() -> int:
    run = Run("spsvc_scaling", "SpSVC: scaling, evaluations, ijcnn1", quick_minutes=2, full_minutes=10)
    sizes = [5_000, 10_000, 20_000] if run.quick else [12_500, 25_000, 50_000, 100_000]
    m = 50 if run.quick else 100
    params = {"sizes": sizes, "m": m, "clock": "processor"}
    run.row("exponent of time in n", params, lambda: exponent(sizes, m, 2 if run.quick else 3), at_most(1.1))
    for kappa in (10, 59):
        name = f"evaluations / bound, kappa = {kappa}"
        run.row(name, {"m": m}, partial(evaluations, 4_000, m, kappa), at_most(1.0))
    n, size = (8_000, 100) if run.quick else (None, 300)
    found: dict[str, Any] = {}

    def measure() -> dict[str, Any]:
        found.update(against_svc(n, size))
        ratio = found["fit"]["svc"] / found["fit"]["ours"]
        note = f"fit: ours {found['fit']['ours']:.1f} s, SVC {found['fit']['svc']:.1f} s"
        return {"ours": ratio, "note": note, **{f"all_{key}": value for key, value in found.items()}}

    faster_than = Target("> 1", lambda row: row["ours"] > 1)
    stored = run.row("ijcnn1: SVC's fit time / ours", {"n": n, "m": size}, measure, faster_than, "x")
    if stored is not None:
        key = {"n": n, "m": size, "of": stored["all_fit"]}
        times, errors = stored["all_predict"], stored["all_errors"]
        note = f"20,000 rows: ours {times['ours']:.3f} s, SVC {times['svc']:.3f} s"
        faster = {"ours": stored["all_faster"], "note": note}
        run.row("ijcnn1: SVC's predict time / ours", key, lambda: faster, at_least(8), "x")
        note = f"{stored['all_n_basis']} vectors against {stored['all_n_sv']} support vectors"
        both = {"ours": errors["ours"], "peer": errors["svc"], "note": note}
        run.row("ijcnn1: test error", key, lambda: both, unit="%")
    return run.finish()


if __name__ == "__main__":
    sys.exit(main())
