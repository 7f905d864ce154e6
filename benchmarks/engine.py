"""What the engine costs, against scikit-learn and against bare BLAS (`make bench`).

    python -m benchmarks.engine [--quick] [--fresh] [--only TEXT]

Contenders alternate in one run and every number is a median over 9 rounds (3 with --quick). A ratio is the
median of the ratios within rounds. A BLAS with several threads stalls when other work holds a core, so every
opponent that rests on BLAS also runs with one BLAS thread, and the faster of the two is the one to beat; rows
measured on a busy machine are marked and not counted.
"""

from __future__ import annotations

import statistics
import sys
import warnings
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from benchmarks import memory
from benchmarks.harness import MissingData, Run, Timings, alternate, at_least, at_most, load_data, not_worse
from kompakt.data import ArrayRows, RowBlock
from kompakt.design import Design, choose_block_rows, weighted_gram
from kompakt.kernels import RBF
from kompakt.parallel import block_threads

N_FEATURES = 22
GAMMA = 1.0
C = 100.0
SEEDS = 5


def generated_rows(n_rows: int, n_basis: int, dtype: str) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n_rows, N_FEATURES)).astype(dtype)
    return X, X[rng.choice(n_rows, n_basis, replace=False)].copy()


def rbf_block(n_rows: int, n_basis: int, dtype: str, rounds: int) -> dict[str, Any]:
    """Kernel matrix into a given array, augmentation of the rows included, against `rbf_kernel`."""
    from sklearn.metrics.pairwise import rbf_kernel

    X, Z = generated_rows(n_rows, n_basis, dtype)
    gamma = 1.0 / N_FEATURES
    rows, kernel = ArrayRows(X), RBF(gamma)
    out = np.empty((n_rows, n_basis), dtype=dtype)

    def ours() -> None:
        with block_threads():
            rows.collect(lambda block: kernel.block(block.X, Z), choose_block_rows(n_basis), out)

    peers = on_one_or_all("peer", lambda: rbf_kernel(X, Z, gamma=gamma))
    timings = alternate({"ours": ours, **peers}, rounds)
    error = float(np.abs(out - rbf_kernel(X, Z, gamma=gamma)).max())
    if error > (1e-5 if dtype == "float32" else 1e-12):
        raise AssertionError(f"the kernel matrix differs from rbf_kernel by {error:.1e} in {dtype}")
    return {**speed_up(timings, "peer"), "error": error}


def sandwich(n_rows: int, n_basis: int, dtype: str, weights: str, rounds: int) -> dict[str, Any]:
    """K' D K on a stored design, as a share of the speed of a bare K' K on the same array."""
    X, Z = generated_rows(n_rows, n_basis, dtype)
    rng = np.random.default_rng(1)
    D = np.ones(n_rows) if weights == "ones" else rng.uniform(0.5, 1.5, n_rows)
    with block_threads():
        design = Design(ArrayRows(X), RBF(1.0 / N_FEATURES), Z, store=True)
    K = design.matrix

    def gram(K: np.ndarray, block: RowBlock) -> tuple[np.ndarray, ...]:
        return (weighted_gram(K, D[block.start : block.stop]),)

    def ours() -> np.ndarray:
        with block_threads():
            return design.map_reduce(gram)[0]

    ours()

    timings = alternate({"ours": ours, **on_one_or_all("bare", lambda: K.T @ K)}, rounds)
    K64 = K.astype(np.float64)
    expected = (K64.T * D) @ K64
    error = float(np.abs(ours() - expected).max() / np.abs(expected).max())
    if error > (1e-5 if dtype == "float32" else 1e-12):
        raise AssertionError(f"the sandwich differs from K' D K by {error:.1e} relative in {dtype}")
    values = speed_up(timings, "bare")
    return {**values, "ours": 100 * values["ours"], "error": error}


def ijcnn1(quick: bool) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Return ijcnn1 (49,990 x 22), or where it is absent a generated set of the same size."""
    try:
        data = load_data("ijcnn1")
        parts = data["X_train"], data["y_train"], data["X_test"], data["y_test"]
    except MissingData as absent:
        from kompakt.datasets import make_ringnorm

        print(f"{absent}; using generated rows of the same size")
        X, y = make_ringnorm(70_000, n_features=N_FEATURES)
        parts = X[:50_000] / 5, y[:50_000], X[50_000:] / 5, y[50_000:]
    X, y, X_test, y_test = (part.astype(np.float64) for part in parts)
    if quick:
        # Drawn at random: ijcnn1 has a phase of period 10, so every fifth row would train and test on
        # different phases.
        rng = np.random.default_rng(0)
        few, few_test = (rng.choice(len(part), 10_000, replace=False) for part in (X, X_test))
        X, y, X_test, y_test = X[few], y[few], X_test[few_test], y_test[few_test]
    return X, y, X_test, y_test


def ours_machine(seed: int, n_basis: int = 200) -> Any:
    from kompakt import CompactSVC

    return CompactSVC(n_basis=n_basis, **memory.unrefined(CompactSVC), gamma=GAMMA, C=C, random_state=seed)


def peer_machine(seed: int, n_basis: int = 200) -> Any:
    from sklearn.kernel_approximation import Nystroem
    from sklearn.pipeline import make_pipeline
    from sklearn.svm import LinearSVC

    # LinearSVC's C counts xi^2 without the half, so the same objective has half of our C.
    features = Nystroem(gamma=GAMMA, n_components=n_basis, random_state=seed)
    return make_pipeline(features, LinearSVC(C=C / 2, dual=False, random_state=seed))


def fit_against_nystroem(quick: bool, rounds: int) -> dict[str, Any]:
    """Fits with 200 random vectors; round r uses seed r modulo 5, the first five rounds give the errors."""
    X, y, X_test, y_test = ijcnn1(quick)
    contenders: dict[str, Callable[[int], Any]] = {"ours": ours_machine, "peer": peer_machine}
    turn = {"ours": 0, "peer": 0}
    fitted: dict[str, list[Any]] = {"ours": [], "peer": []}

    def fit(name: str) -> None:
        fitted[name].append(contenders[name](turn[name] % SEEDS).fit(X, y))
        turn[name] += 1

    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Liblinear failed to converge")
        # No warm-up of the peer, which has nothing to compile; ours warms up on a few rows.
        ours_machine(0).fit(X[:2000], y[:2000])
        timings = alternate({name: partial(fit, name) for name in contenders}, rounds, warmup=0)
        while min(turn.values()) < SEEDS:
            for name in contenders:
                fit(name)
    errors = {
        name: [100 * float(np.mean(machine.predict(X_test) != y_test)) for machine in fitted[name][:SEEDS]]
        for name in contenders
    }
    constant = 100 * min(float(np.mean(y_test == label)) for label in np.unique(y_test))
    if statistics.mean(errors["peer"]) >= constant:
        raise AssertionError(
            f"the peer errs on {errors['peer']} % of the test rows, a constant answer on {constant:.1f} %: "
            "it is no opponent, and a comparison with it would prove nothing"
        )
    return {
        "ours": timings.ratio("peer", "ours"),
        "note": _seconds(timings),
        "noise": timings.noise(),
        "error_ours": statistics.mean(errors["ours"]),
        "error_peer": statistics.mean(errors["peer"]),
        "errors": errors,
    }


def prediction(quick: bool, rounds: int, blocked: bool) -> dict[str, Any]:
    """`decision_function` against the bare products and `exp` it cannot do without.

    The bare contender gets augmented rows and basis ready-made and its output preallocated; `blocked` lets it
    work through the rows 1,000 at a time, in cache.
    """
    X, y, X_test, _ = ijcnn1(quick)
    machine = ours_machine(0).fit(X, y)
    Z, weights, bias = machine.basis_vectors_, machine.dual_coef_.ravel(), machine.intercept_
    n, m = len(X_test), len(Z)
    ones = np.ones((n, 1))
    left = np.hstack([X_test, (X_test**2).sum(axis=1, keepdims=True), ones])
    right = np.vstack([2 * GAMMA * Z.T, np.full((1, m), -GAMMA), -GAMMA * (Z**2).sum(axis=1)[None, :]])
    size = 1000 if blocked else n
    buffer = np.empty((size, m))
    result = np.empty(n)

    def bare() -> None:
        for start in range(0, n, size):
            rows = left[start : start + size]
            K = buffer[: len(rows)]
            np.matmul(rows, right, out=K)
            np.exp(K, out=K)
            result[start : start + len(rows)] = K @ weights + bias

    ours = partial(machine.decision_function, X_test)
    timings = alternate({"ours": ours, **on_one_or_all("bare", bare)}, rounds)
    error = float(np.abs(machine.decision_function(X_test) - result).max())
    if error > 1e-5 * np.abs(weights).sum():
        raise AssertionError(f"decision_function differs from the bare formula by {error:.1e}")
    values = speed_up(timings, "bare")
    return {**values, "ours": 1 / values["ours"], "error": error}


def peak_memory(n_rows: int) -> dict[str, Any]:
    found = memory.measure(n_rows, 20, 500)
    note = f"{found['above_start_gb']:.2f} GB above the start of the fit"
    return {"ours": found["above_data_gb"], "note": note, **found}


def on_one_or_all(name: str, function: Callable[[], Any]) -> dict[str, Callable[[], Any]]:
    """Return two contenders: `function` with every BLAS thread, and with one."""
    from threadpoolctl import ThreadpoolController

    controller = ThreadpoolController()  # kept: making one costs milliseconds

    def on_one() -> None:
        with controller.limit(limits=1, user_api="blas"):
            function()

    return {f"{name}, all threads": function, f"{name}, 1 thread": on_one}


def speed_up(timings: Timings, opponent: str) -> dict[str, Any]:
    """Return how many times as fast ours is as the faster variant of the opponent, with the noise of both."""
    every, one = f"{opponent}, all threads", f"{opponent}, 1 thread"
    # A stall in every round leaves the median near the best; more threads being slower than one betrays it.
    noise = max(timings.noise(), timings.ratio(every, one))
    ratio = timings.ratio(timings.fastest(every, one), "ours")
    return {"ours": ratio, "note": _seconds(timings), "noise": noise}


def _seconds(timings: Timings) -> str:
    best = {name: min(seconds) for name, seconds in timings.seconds.items()}
    medians = timings.summary()
    return ", ".join(f"{name} {1e3 * medians[name]:.1f} ms (best {1e3 * best[name]:.1f})" for name in medians)


def main() -> int:
    run = Run("engine", "What the engine costs", quick_minutes=1, full_minutes=10)
    n, m = (10_000, 500) if run.quick else (50_000, 500)
    rounds = 3 if run.quick else 9
    size = {"n": n, "m": m, "d": N_FEATURES, "rounds": rounds, "peer": "1 or all threads"}
    for dtype in ("float32", "float64"):
        run.row(
            f"RBF block against rbf_kernel, {dtype}",
            size,
            partial(rbf_block, n, m, dtype, rounds),
            at_least(2.5),
            unit="x",
        )
    for dtype in ("float32", "float64"):
        for weights in ("ones", "weights"):
            run.row(
                f"sandwich, {weights}, share of K'K, {dtype}",
                size,
                partial(sandwich, n, m, dtype, weights, rounds),
                at_least(70),
                unit="%",
            )
    fit = run.row(
        "fit, 200 vectors, against Nystroem+LinearSVC",
        {"rounds": rounds, "gamma": GAMMA, "C": C},
        lambda: fit_against_nystroem(run.quick, rounds),
        at_least(5),
        unit="x",
    )
    if fit is not None:
        errors = {"ours": fit["error_ours"], "peer": fit["error_peer"]}
        target = not_worse(0.2, "peer")
        run.row("fit: its test error, mean of 5 seeds", {"errors": errors}, lambda: errors, target, unit="%")
    for blocked in (False, True):
        run.row(
            f"prediction, time over bare GEMM+exp{', blocked' if blocked else ''}",
            {"rounds": rounds, "peer": "1 or all threads"},
            partial(prediction, run.quick, rounds, blocked),
            at_most(1.5),
            unit="x",
        )
    n_memory = 100_000 if run.quick else 1_000_000
    run.row(
        "peak memory of a fit above the data",
        {"n": n_memory, "d": 20, "m": 500},
        lambda: peak_memory(n_memory),
        at_most(memory.TARGET_GB),
        unit="GB",
    )
    return run.finish()


if __name__ == "__main__":
    sys.exit(main())
