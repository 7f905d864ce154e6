"""CSR matrices may store an entry in several parts, whose sum it is: nothing may depend on how it is stored."""

from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse

import kompakt
from kompakt import estimators, open_rows

RNG = np.random.default_rng(0)
DENSE = np.round(RNG.normal(size=(120, 3)), 2)
Y = (DENSE[:, 0] + DENSE[:, 1] ** 2 > 0.8).astype(int)
X = sparse.csr_matrix(DENSE)
every_class = pytest.mark.parametrize("name", estimators.__all__)


def in_parts(X):
    """The same matrix with every entry stored as three times itself and minus twice itself, out of order."""
    entries = X.tocoo()
    rows, columns = np.tile(entries.row, 2), np.tile(entries.col, 2)
    order = np.argsort(rows, kind="stable")
    parts = np.concatenate([3.0 * entries.data, -2.0 * entries.data])[order]
    pointers = np.concatenate([[0], np.cumsum(np.bincount(rows, minlength=X.shape[0]))])
    return sparse.csr_matrix((parts, columns[order].astype(np.int32), pointers.astype(np.int32)), shape=X.shape)


def outputs(machine, X):
    return machine.transform(X) if hasattr(machine, "transform") else machine.predict(X)


def made(name):
    cls = getattr(kompakt, name)
    values = {"n_basis": 8, "random_state": 0, "refine": False, "gamma": "scale"}
    return cls(**{key: value for key, value in values.items() if key in cls().get_params()})


@every_class
def test_fits_and_predictions_are_those_of_the_sums(name):
    stored = in_parts(X)
    sums = stored.copy()
    sums.sum_duplicates()
    before = stored.data.copy(), stored.indices.copy()
    whole, parts = made(name).fit(sums, Y), made(name).fit(stored, Y)
    assert_array_equal(parts.gamma_, whole.gamma_)
    assert_array_equal(outputs(parts, stored), outputs(whole, sums))
    assert_array_equal(stored.data, before[0])
    assert_array_equal(stored.indices, before[1])
    if hasattr(whole, "model_"):
        assert_array_equal(whole.model_.predict(stored), whole.predict(sums))


def test_streamed_rows_and_batches_are_those_of_the_sums():
    stored = in_parts(X)
    sums = stored.copy()
    sums.sum_duplicates()
    machine = kompakt.CompactSVR(8, gamma="scale", refine=False, loss="least_squares", random_state=0)
    in_memory = machine.fit(sums, DENSE[:, 0]).gamma_
    assert machine.fit(open_rows([(stored, DENSE[:, 0])])).gamma_ == in_memory
    assert kompakt.CompactSVR(8, gamma="scale", refine=False).partial_fit(stored, DENSE[:, 0]).gamma_ == in_memory


def test_a_filled_gap_is_filled_once():
    """NaN plus a number is NaN: the column's value takes the place of the sum, not of the part."""
    model = kompakt.CompactSVR(5, random_state=0).fit(DENSE, DENSE[:, 0]).model_
    model = replace(model, inputs=replace(model.inputs, fill=np.zeros(3)))
    gap = sparse.csr_matrix((np.array([np.nan, 2.0, 1.0]), [0, 0, 1], [0, 3]), shape=(1, 3))
    assert_allclose(model.predict(gap), model.predict(np.array([[np.nan, 1.0, 0.0]])), rtol=1e-10)
