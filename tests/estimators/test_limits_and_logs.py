"""What a fit tells: warnings at its limits, log records with `verbose`, nothing otherwise."""

from __future__ import annotations

import logging
import time
import warnings

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.svm import SVC

from kompakt import (
    CGLQSVC,
    FEESVC,
    FEESVR,
    CompactSVC,
    CompactSVR,
    FixedSizeLSSVC,
    FixedSizeLSSVR,
    GreedyProjection,
    GridSearch,
    KernelFisher,
    LocalSamplingSVC,
    ProjectedKernelFisher,
    ProjectedSVC,
    Refinement,
    SpSVC,
    TwoGrids,
    compress,
)
from kompakt.kernels import RBF

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


EVERY = {
    "CompactSVC": (CompactSVC(8, refine=Refinement(5)), ["selection", "refinement"]),
    "CompactSVC, tuned": (CompactSVC(5, refine=False, tune=True), ["search", "selection"]),
    "CompactSVR": (CompactSVR(8, refine=Refinement(5)), ["selection", "refinement"]),
    "SpSVC": (SpSVC(8), ["growth"]),
    "FEESVC": (FEESVC(8), ["growth"]),
    "FEESVR": (FEESVR(8), ["growth"]),
    "FixedSizeLSSVC": (FixedSizeLSSVC(8), ["selection: 8 basis vectors"]),
    "FixedSizeLSSVR": (FixedSizeLSSVR(8), ["selection: 8 basis vectors"]),
    "ProjectedSVC": (ProjectedSVC(8), ["selection"]),
    "KernelFisher": (KernelFisher(), []),
    "ProjectedKernelFisher": (ProjectedKernelFisher(8), ["selection"]),
    "GreedyProjection": (GreedyProjection(8), ["selection"]),
    "LocalSamplingSVC": (LocalSamplingSVC(beta=0.5), ["subsamples", "local sampling"]),
    "LocalSamplingSVC, few rows": (LocalSamplingSVC(), ["all rows"]),
    "CGLQSVC": (CGLQSVC(delta=0.2), ["subsamples", "CGLQ"]),
}
T = np.sin(X[:, 0]) + X[:, 1]


@pytest.mark.parametrize("name", EVERY)
def test_verbose_shows_a_line_per_stage(name, capsys):
    machine, stages = EVERY[name]
    targets = T if name.endswith("SVR") else Y
    clone(machine).set_params(verbose=1, random_state=0).fit(X, targets)
    shown = capsys.readouterr()
    lines = shown.err.splitlines()
    assert not shown.out
    assert 1 <= len(lines) <= 25
    for stage in stages:
        assert any(f": {stage}" in line for line in lines), f"no line of {stage} in {lines}"
    kind = type(machine).__name__
    if kind not in ("LocalSamplingSVC", "CGLQSVC", "GreedyProjection"):  # the machine itself comes last
        assert lines[-1].startswith(f"kompakt: {kind}: ")
    clone(machine).set_params(random_state=0).fit(X, targets)
    assert not capsys.readouterr().err


def test_verbose_says_what_each_stage_found(capsys):
    """One line for selection, refinement (whatever its folds) and weights; a few for a search."""
    model = CompactSVC(8, refine=Refinement(5), random_state=0, verbose=1).fit(X, Y)
    lines = capsys.readouterr().err.splitlines()
    for stage in ("selection: 8 basis vectors", "refinement: ", "weights: 8 basis vectors, objective "):
        assert any(line.startswith(f"kompakt: {stage}") for line in lines), lines
    assert sum("selection" in line for line in lines) == 1
    assert sum("refinement" in line for line in lines) == 1
    assert f"validation before {model.refinement_['validation_before']:.4g}" in "".join(lines)
    model = CompactSVC(5, refine=False, tune=True, random_state=0, verbose=1).fit(X, Y)
    lines = capsys.readouterr().err.splitlines()
    tried = [line for line in lines if ": held-out error" in line]
    assert len(set(model.cv_results_["param_gamma"])) <= len(tried) < 15  # a line per width, not per point of the table
    assert any(f"C {model.C_:.4g}," in line for line in lines), lines


# -- limits of time ------------------------------------------------------------------------------------------

CUT = {
    "search": CompactSVC(5, refine=False, tune=True),
    "path of sizes": CompactSVC("auto", refine=Refinement(5)),
    "refinement": CompactSVC(20, selection="random"),
    "search of a regressor": CompactSVR(5, refine=False, tune=True),
    "refinement of a regressor": CompactSVR(20, selection="random"),
    "growth of SpSVC": SpSVC(100),
    "search of SpSVC": SpSVC(5, tune=GridSearch(C=[1.0], gamma=[1.0])),
    "refinement of SpSVC": SpSVC(1, refine=True),
    "growth of FEESVC": FEESVC(50),
    "search of FEESVC": FEESVC(5, tune=TwoGrids([0], [0]), n_jobs=1),
    "growth of FEESVR": FEESVR(50),
    "search of FixedSizeLSSVC": FixedSizeLSSVC(8, tune=True),
    "other search of FixedSizeLSSVC": FixedSizeLSSVC(8, tune=GridSearch()),
    "search of FixedSizeLSSVR": FixedSizeLSSVR(8, tune=True),
    "refinement of FixedSizeLSSVR": FixedSizeLSSVR(8, refine=True),
    "refinement of ProjectedSVC": ProjectedSVC(8, refine=True, solver="libsvm"),
    "weights of ProjectedSVC": ProjectedSVC(50, C=100.0),
}


@pytest.mark.parametrize("what", CUT)
def test_what_a_limit_of_time_cuts_short_is_said(what):
    machine = clone(CUT[what]).set_params(max_time=1e-9, random_state=0)
    targets = T if type(machine).__name__.endswith("SVR") else Y
    with pytest.warns(ConvergenceWarning, match="max_time=1e-09 seconds are over.*Raise") as caught:
        machine.fit(X, targets)
    assert sum(issubclass(one.category, ConvergenceWarning) for one in caught) == 1
    assert not machine.converged_
    assert np.all(np.isfinite(machine.predict(X[:, :3]).astype(float)))


@pytest.mark.parametrize("what", CUT)
def test_a_limit_of_time_that_is_not_reached_changes_nothing(what):
    small = {"n_basis": 5} if CUT[what].n_basis != "auto" else {"refine": False}
    machine = clone(CUT[what]).set_params(max_time=1000.0, random_state=0, **small)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert machine.fit(X, T if type(machine).__name__.endswith("SVR") else Y).converged_


class SlowKernel(RBF):
    def pre(self, X, Z):
        time.sleep(0.6)
        return super().pre(X, Z)


def test_a_search_that_has_used_its_share_of_the_time():
    """A search may take half of the time: the fit that ends in time was cut short all the same."""
    machine = CompactSVC(5, kernel=SlowKernel(1.0), selection="random", refine=False, tune=True, max_time=4.0)
    with pytest.warns(ConvergenceWarning, match="cut short"):
        machine.fit(X, Y)  # the distances of one fold take more than a second
    table = machine.cv_results_
    folds = [table[name][0] for name in table if name.startswith("split")]
    assert 1 <= np.sum(np.isfinite(folds)) < 5
    assert not machine.converged_


def test_compress_says_that_it_was_cut_short():
    fitted = SVC(gamma=1.0).fit(X, Y)
    with pytest.warns(ConvergenceWarning, match="compress was cut short: max_time"):
        compress(fitted, n_basis=[2, 4, 8], max_time=1e-9, random_state=0)


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


@pytest.mark.parametrize("kind", [list, np.array, lambda y: np.array(y, dtype=object)], ids=["list", "text", "object"])
def test_words_as_targets_of_a_regressor_name_the_remedy(kind):
    with pytest.raises(ValueError, match=r"CompactSVR .* numbers as targets; got words .*'no'.* CompactSVC"):
        CompactSVR().fit(np.eye(4), kind(["no", "yes"] * 2))
    assert CompactSVR().fit(np.eye(4), kind(["1.5", "2"] * 2)).converged_
