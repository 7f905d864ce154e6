"""Thousands of damaged files: each loads or ends in ModelFileError, quickly, and in little memory."""

import contextlib
import time
import tracemalloc
from pathlib import Path

import numpy as np
import pytest
from benchmarks.attack.mutators import mutate_libsvm, mutate_model_file

import kompakt
from kompakt.data.checks import RowError
from kompakt.io import ModelFileError, read_header, read_libsvm, to_model

HERE = Path(__file__).parent
N_CASES = 2000
MAX_BYTES = 32 << 20
MAX_SECONDS = 2.0


def use(model):
    """What was accepted must work: no error but that of outputs that overflow, from weights that were changed."""
    X = np.zeros((2, min(model.n_features, 50)))
    with contextlib.suppress(RowError):
        if model.n_features == X.shape[1]:
            model.predict(X)


def load_own(path):
    read_header(path)
    use(kompakt.load(path))


def load_libsvm(path):
    use(to_model(read_libsvm(path), memory_budget=1 << 20))


@pytest.mark.parametrize(
    ("load", "mutate", "sources", "least_loaded"),
    [
        (load_own, mutate_model_file, sorted(HERE.glob("golden/*.kompakt")), 0.02),
        (load_libsvm, mutate_libsvm, sorted(HERE.glob("libsvm/*.model")), 0.05),
    ],
    ids=["kompakt", "libsvm"],
)
def test_mutated_files_end_in_the_documented_exception(load, mutate, sources, least_loaded, tmp_path):
    assert len(sources) >= 3
    rng = np.random.default_rng(20240607)
    originals = [source.read_bytes() for source in sources]
    path = tmp_path / "mutated"
    loaded, reasons = 0, set()
    for source in sources:
        load(source)  # warm, and sound
    tracemalloc.start()
    try:
        for case in range(N_CASES):
            raw = mutate(originals[case % len(originals)], rng)
            path.write_bytes(raw)
            start = time.perf_counter()
            tracemalloc.reset_peak()
            try:
                load(path)
                loaded += 1
            except ModelFileError as error:
                reasons.add(str(error).removeprefix(f"{path}: ")[:25])
            except Exception as error:
                (tmp_path / "crash").write_bytes(raw)
                raise AssertionError(f"case {case}: {error!r}; the file is {tmp_path / 'crash'}") from error
            assert time.perf_counter() - start < MAX_SECONDS
            assert tracemalloc.get_traced_memory()[1] < MAX_BYTES
    finally:
        tracemalloc.stop()
    # The mutator must reach deep: some files stay loadable, and the refusals come from many different checks.
    assert loaded >= least_loaded * N_CASES
    assert len(reasons) >= 40
