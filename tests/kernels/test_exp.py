"""The exponential of the Gaussian blocks: relative errors as its docstring claims."""

import numpy as np
import pytest

from kompakt.kernels._exp import gaussian_finisher


def finished(x, dtype):
    block = np.array(x, dtype=dtype)[None]
    gaussian_finisher()(block, np.zeros(1, dtype), np.zeros(block.shape[1], dtype), 1.0)
    return block[0]


@pytest.mark.parametrize(("dtype", "lowest", "claim"), [(np.float64, -708.0, 4e-16), (np.float32, -87.0, 2e-7)])
def test_relative_error(engine, dtype, lowest, claim):
    rng = np.random.default_rng(0)
    x = np.concatenate([rng.uniform(lowest, 0, 100_000), -np.logspace(-18, 2, 50_000), -np.arange(600) * np.log(2) / 2])
    x = x[x >= lowest].astype(dtype)
    exact = np.exp(x.astype(np.longdouble))
    error = np.abs(finished(x, dtype) - exact) / exact
    assert error.max() < claim


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_ends_of_the_range(engine, dtype):
    got = finished([0.0, -0.0, 1e-3, 5.0, -1e3, -1e30, -np.inf], dtype)
    assert np.array_equal(got[:4], np.ones(4)), "arguments above 0 are rounding errors of a distance 0"
    assert np.all((got[4:] >= 0) & (got[4:] < 1e-37))


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_terms_and_scale(engine, dtype):
    rng = np.random.default_rng(1)
    block, rows, columns = rng.normal(size=(9, 13)), rng.uniform(3, 5, 9), rng.uniform(3, 5, 13)
    expected = np.exp(np.minimum(0, 0.7 * block - rows[:, None] - columns))
    got = block.astype(dtype)
    gaussian_finisher()(got, rows.astype(dtype), columns.astype(dtype), 0.7)
    np.testing.assert_allclose(got, expected, rtol=1e-14 if dtype == np.float64 else 3e-6)


def test_not_a_number_stays_one(engine):
    for dtype in (np.float64, np.float32):
        assert np.isnan(finished([np.nan, -1.0], dtype)[0]), "a broken distance must not turn into a similarity"
