"""Several threads and processes at once: the same results as one after the other, and no one waits for ever.

Every program runs in a process of its own under a limit of time; one that hangs ends with the stacks of its threads.
"""

import subprocess
import sys
import textwrap

import pytest

LIMIT = 120
PROGRAMS = {
    "threads": """
        from concurrent.futures import ThreadPoolExecutor
        with ThreadPoolExecutor(4) as pool:
            fits = list(pool.map(lambda seed: fit(seed % 2), range(6)))
        alone = fit(0), fit(1)
        for number, machine in enumerate(fits):
            assert same(machine, alone[number % 2]), number
        for model in (alone[0], alone[0].model_):
            expected = model.decision_function(X)
            with ThreadPoolExecutor(16) as pool:
                for found in pool.map(lambda _: model.decision_function(X), range(48)):
                    assert np.array_equal(found, expected)
    """,
    "processes": """
        import joblib, os, threading, warnings
        from sklearn.model_selection import cross_val_score
        warnings.simplefilter("ignore")
        machine, stop = fit(0), threading.Event()
        expected = machine.decision_function(X)

        def forked(check):
            child = os.fork()
            if child == 0:
                os._exit(0 if check() else 1)
            return child

        def same_here():
            return np.array_equal(machine.decision_function(X), expected)

        children = [forked(lambda: same_here() and same(fit(0), machine)) for _ in range(3)]
        assert [os.waitpid(child, 0)[1] for child in children] == [0, 0, 0]
        scores = cross_val_score(MACHINE, X, y, cv=3)
        for backend in ("threading", "multiprocessing", "loky"):
            with joblib.parallel_config(backend=backend, n_jobs=2):
                assert np.array_equal(cross_val_score(MACHINE, X, y, cv=3), scores), backend

        def predict():
            while not stop.is_set():
                machine.decision_function(X)

        threads = [threading.Thread(target=predict) for _ in range(3)]  # a fork while they are inside the pool
        [thread.start() for thread in threads]
        try:
            for _ in range(4):
                assert os.waitpid(forked(same_here), 0)[1] == 0
        finally:
            stop.set()
            [thread.join() for thread in threads]
    """,
    "Dask workers": """
        import warnings
        from distributed import Client
        warnings.simplefilter("ignore")
        alone = fit(0), fit(1)
        with Client(processes=False, n_workers=2, threads_per_worker=2, dashboard_address=None) as client:
            found = client.gather(client.map(fit, [0, 1, 0, 1], pure=False))
            for number, machine in enumerate(found):
                assert same(machine, alone[number % 2]), number
            assert np.array_equal(client.submit(alone[0].predict, X).result(), alone[0].predict(X))
    """,
}
START = f"""
import faulthandler
faulthandler.dump_traceback_later({LIMIT - 10}, exit=True)
import numpy as np
from kompakt import CompactSVC, Refinement
rng = np.random.default_rng(0)
X = rng.normal(size=(3000, 4))
y = (np.sin(2 * X[:, 0]) + X[:, 1] > 0).astype(int)
MACHINE = CompactSVC(n_basis=20, refine=Refinement(2), random_state=0, n_jobs=2)
def fit(seed):
    return CompactSVC(n_basis=20, refine=Refinement(2), random_state=seed, n_jobs=2).fit(X[:1000], y[:1000])
def same(one, other):
    return np.array_equal(one.dual_coef_, other.dual_coef_) and np.array_equal(one.basis_vectors_, other.basis_vectors_)
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="forks")
@pytest.mark.parametrize("name", PROGRAMS)
def test_side_by_side_as_one_after_the_other(name):
    if name == "Dask workers":
        pytest.importorskip("distributed")
    program = START + textwrap.dedent(PROGRAMS[name])
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=LIMIT)
    assert done.returncode == 0, done.stderr
