"""Solvers run inside a public call, with one BLAS thread; so do their tests."""

import pytest

from kompakt.parallel import block_threads


@pytest.fixture(autouse=True)
def one_blas_thread():
    with block_threads(1):
        yield
