"""Refinement of many rows and of wide ones: leading directions, weights of a sample first."""

from unittest.mock import patch

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import sparse

from kompakt import CompactSVC, Refinement, load, save
from kompakt.basis import build, refine


@pytest.fixture(scope="module")
def wide():
    """Three classes that depend on a few leading directions of 130 features."""
    rng = np.random.default_rng(0)
    directions = np.linalg.qr(rng.standard_normal((130, 6)))[0]
    hidden = rng.standard_normal((3600, 6)) * [4.0, 4.0, 3.0, 3.0, 2.0, 2.0]
    X = (hidden @ directions.T + 0.3 * rng.standard_normal((3600, 130))).astype(np.float32)
    y = (np.sin(hidden[:, 0] / 2) + hidden[:, 1] / 4 > 0).astype(int) + (hidden[:, 2] > 1.5)
    return X[:3200], y[:3200], X[3200:], y[3200:]


def machine(**options):
    return CompactSVC(12, C=10.0, refine=Refinement(10), random_state=0, **options)


def test_wide_rows_are_refined_in_their_leading_directions(wide, tmp_path):
    X, y, Xt, yt = wide
    reduced, whole = machine().fit(X, y), machine(gamma="ard").fit(X, y)
    assert reduced.model_.inputs.map.shape[0] < 100 < whole.model_.basis.shape[1] == 130
    assert reduced.model_.basis.shape == (12, reduced.model_.inputs.map.shape[0])
    assert reduced.score(Xt, yt) >= whole.score(Xt, yt) - 0.03
    save(reduced, tmp_path / "wide.kompakt")
    assert_allclose(load(tmp_path / "wide.kompakt").decision_function(Xt), reduced.decision_function(Xt))


def test_wide_rows_however_they_are_stored(wide):
    X, y, Xt, _ = wide
    expected = machine().fit(X, y)
    again = machine(n_jobs=2).fit(X, y)
    assert again.decision_function(Xt).tobytes() == expected.decision_function(Xt).tobytes()
    csr = machine().fit(sparse.csr_matrix(X), y)  # which is not centred
    assert csr.model_.inputs.map.shape == expected.model_.inputs.map.shape
    assert np.mean(csr.predict(Xt) == expected.predict(Xt)) > 0.95


def test_noise_in_all_directions_keeps_all_features():
    rng = np.random.default_rng(1)
    X = rng.standard_normal((3100, 101))
    X[:, 0] *= 0.5  # what matters varies least
    y = X[:, 0] > 0
    fitted = machine().fit(X, y)
    assert fitted.model_.inputs.map is None or fitted.model_.inputs.map.shape[0] > 90


def test_a_resumed_fit_of_wide_rows_is_the_same(wide, tmp_path):
    X, y, Xt, _ = wide
    expected = machine().fit(X, y)

    class Stop(BaseException):
        pass

    def stopping(self, *args):
        stopping.left -= 1
        if stopping.left < 0:
            raise Stop
        return value_and_gradient(self, *args)

    stopping.left = 7
    value_and_gradient = refine.RefinementObjective.value_and_gradient
    place = tmp_path / "checkpoint"
    with patch.object(refine.RefinementObjective, "value_and_gradient", stopping), pytest.raises(Stop):
        machine().fit(X, y, checkpoint=place)
    resumed = machine().fit(X, y, checkpoint=place)
    assert resumed.decision_function(Xt).tobytes() == expected.decision_function(Xt).tobytes()


def test_weights_of_a_sample_first_end_in_the_same_model(wide):
    X, y, Xt, _ = wide
    X, Xt = X[:, :20], Xt[:, :20]
    expected = machine(gamma="ard").fit(X, y)
    with patch.multiple(build, _MANY_ROWS=400, _ROWS_PER_VECTOR=1):
        fitted = machine(gamma="ard").fit(X, y)
        unmoved = machine(gamma=1e-3, validation_fraction=0.0).set_params(refine=Refinement(1)).fit(X, y)
    assert_allclose(fitted.decision_function(Xt), expected.decision_function(Xt), rtol=1e-3, atol=1e-3)
    plain = machine(gamma=1e-3).set_params(refine=False).fit(X, y)
    assert unmoved.history_[-1]["objective"] <= plain.history_[-1]["objective"]
