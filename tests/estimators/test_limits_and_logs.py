"""What a fit tells: warnings at its limits, log records with `verbose`, nothing otherwise."""

from __future__ import annotations

import logging
import warnings

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

from kompakt import CompactSVC, CompactSVR

RNG = np.random.default_rng(0)
X = RNG.standard_normal((400, 3))
Y = X[:, 0] * X[:, 1] + 0.3 * RNG.standard_normal(400) > 0
PLAIN = {"n_basis": 30, "selection": "random", "refine": False, "random_state": 0}


@pytest.mark.parametrize("loss", ["hinge", "squared_hinge", "huber"])
@pytest.mark.parametrize(("limit", "value"), [("max_time", 1e-9), ("max_iter", 1)])
def test_limits_warn_with_cause_and_remedy(loss, limit, value):
    machine = CompactSVC(loss=loss, C=100.0, **PLAIN, **{limit: value})
    with pytest.warns(ConvergenceWarning, match=rf"{limit}=.*tol=.*Raise the limit"):
        machine.fit(X, Y)
    assert not machine.converged_
    assert np.all(np.isfinite(machine.decision_function(X)))


@pytest.mark.parametrize("loss", ["absolute", "epsilon_insensitive", "quantile", "huber"])
def test_enough_iterations_do_not_warn(loss):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        machine = CompactSVR(loss=loss, C=100.0, **PLAIN).fit(X, X[:, 0])
    assert machine.converged_
    assert 1 <= machine.n_iter_ <= machine.max_iter


def test_verbose_speaks_through_logging(capsys):
    logger = logging.getLogger("kompakt")
    before = logger.level, list(logger.handlers)
    CompactSVC(verbose=2, **{**PLAIN, "selection": "gram"}).fit(X, Y)
    shown = capsys.readouterr()
    assert "kompakt" in shown.err
    assert not shown.out
    assert (logger.level, list(logger.handlers)) == before  # the user's configuration is as it was
    CompactSVC(verbose=0, **PLAIN).fit(X, Y)
    shown = capsys.readouterr()
    assert not shown.err
    assert not shown.out


def test_a_singular_basis_is_logged_and_reported(caplog):
    basis = np.repeat(X[:5], 3, axis=0)
    with caplog.at_level(logging.INFO, logger="kompakt"):
        machine = CompactSVC(loss="hinge", **{**PLAIN, "selection": basis}).fit(X, Y)
    assert machine.jitter_ > 0
    assert "jitter" in caplog.text


def test_a_hinge_fit_says_whether_it_is_exact():
    machine = CompactSVC(loss="hinge", **PLAIN).fit(X, Y)
    again = CompactSVC(loss="hinge", tol=1e-12, **PLAIN).fit(X, Y)
    np.testing.assert_allclose(machine.decision_function(X), again.decision_function(X), atol=1e-8)
