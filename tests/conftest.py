"""Shared fixtures: the benchmark data, where they are."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

DATA = Path(os.environ.get("KOMPAKT_DATA", Path(__file__).resolve().parents[2] / "shared" / "data"))


@pytest.fixture
def shared_data():
    """A function name -> dict of arrays of a benchmark set; skips the test where the set is absent."""

    def load(name: str) -> dict[str, np.ndarray]:
        path = DATA / f"{name}.npz"
        if not path.exists():
            pytest.skip(f"benchmark data {name!r} not found under KOMPAKT_DATA or ../shared/data")
        with np.load(path, allow_pickle=False) as archive:
            return {key: archive[key] for key in archive.files}

    return load


@pytest.fixture(params=["numba", "numpy"], scope="module")
def engine(request):
    """Run a test on the compiled inner loops and again on the NumPy ones, as without the extra `fast`."""
    from kompakt.kernels import _exp
    from kompakt.parallel import without_numba

    if request.param == "numba":
        pytest.importorskip("numba")
        yield request.param
        return
    with without_numba():
        assert _exp.gaussian_finisher() is _exp._finish_numpy
        yield request.param
