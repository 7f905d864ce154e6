"""What the flagship adds: refinement with its guard, sizes, search, calibration, warm start, time."""

from __future__ import annotations

import logging
import time

import numpy as np
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.datasets import make_classification, make_moons
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import log_loss

from kompakt import AutoSize, CompactSVC, CompactSVR, Refinement


@pytest.fixture(scope="module")
def moons():
    return make_moons(900, noise=0.25, random_state=0)


def phase(machine, name):
    return [record for record in machine.history_ if record["phase"] == name]


def test_refinement_lowers_the_objective_and_moves_the_vectors(moons):
    X, y = moons
    plain = CompactSVC(n_basis=6, refine=False, C=1.0, random_state=0).fit(X, y)
    refined = CompactSVC(n_basis=6, C=1.0, random_state=0).fit(X, y)
    assert refined.objective_ < 0.97 * plain.objective_
    assert refined.basis_indices_ is None
    np.testing.assert_array_equal(plain.basis_vectors_, X[plain.basis_indices_])
    assert refined.gamma_.shape == (2,)  # at least one width per feature by default
    assert phase(refined, "refinement")[0]["kept"]


@pytest.mark.parametrize(("gamma", "shape"), [("scale", ()), (0.7, ()), ("learn", ()), ("ard", (2,))])
def test_which_widths_move(moons, gamma, shape):
    X, y = moons
    machine = CompactSVC(n_basis=5, gamma=gamma, random_state=0, refine=Refinement(20)).fit(X, y)
    fixed = CompactSVC(n_basis=5, gamma="scale" if isinstance(gamma, str) else gamma, refine=False).fit(X, y).gamma_
    assert np.shape(machine.gamma_) == shape
    assert np.all(machine.gamma_ == fixed) == (gamma in ("scale", 0.7))


@pytest.mark.parametrize("gamma", ["learn", "ard"])
def test_learned_widths_need_refinement(moons, gamma):
    with pytest.raises(ValueError, match="refine=True"):
        CompactSVC(gamma=gamma, refine=False).fit(*moons)


def test_worse_on_held_out_rows_keeps_the_start(moons, monkeypatch, caplog):
    X, y = moons
    from kompakt.heldout import Scorer

    honest, looks = Scorer.row_losses, []

    def worse_and_worse(self, outputs):
        looks.append(1)
        return honest(self, outputs) + len(looks)

    monkeypatch.setattr(Scorer, "row_losses", worse_and_worse)
    with caplog.at_level(logging.INFO, logger="kompakt"):
        machine = CompactSVC(n_basis=6, random_state=0).fit(X, y)
    plain = CompactSVC(n_basis=6, random_state=0, refine=False).fit(X, y)
    np.testing.assert_array_equal(machine.basis_vectors_, plain.basis_vectors_)
    assert not phase(machine, "refinement")[0]["kept"]
    assert "refinement: undone" in caplog.text


def test_sparse_rows_are_refined(moons):
    X, y = make_classification(400, 30, n_informative=6, random_state=1)
    X[np.abs(X) < 1.0] = 0.0
    straight = Refinement(30, transform="identity")  # sparse rows are not transformed
    machine = CompactSVC(n_basis=5, C=1.0, random_state=0, refine=straight).fit(sparse.csr_matrix(X), y)
    assert isinstance(machine.basis_vectors_, np.ndarray)
    dense = CompactSVC(n_basis=5, C=1.0, random_state=0, refine=straight).fit(X, y)
    assert machine.objective_ == pytest.approx(dense.objective_, rel=0.05)


def test_many_classes_share_one_refined_basis():
    rng = np.random.default_rng(0)
    X = rng.uniform(-2, 2, (1200, 2))
    y = np.array(["a", "b", "c", "d"])[(X[:, 0] > 0) * 2 + (X[:, 1] > 0)]
    machine = CompactSVC(n_basis=8, C=10.0, random_state=0).fit(X, y)
    assert machine.dual_coef_.shape == (4, 8)
    assert machine.score(X, y) > 0.97


def test_automatic_size_is_small_and_reported(moons):
    X, y = moons
    machine = CompactSVC(n_basis="auto", random_state=0, refine=Refinement(30)).fit(X, y)
    path = machine.size_path_
    assert machine.n_basis_ == path.size < 100
    best = path.errors.mean(axis=1).min()
    chosen = path.errors.mean(axis=1)[list(path.sizes).index(path.size)]
    assert chosen <= best + path.standard_errors[int(np.argmin(path.errors.mean(axis=1)))] + 1e-12
    assert [record["n_basis"] for record in phase(machine, "size")] == list(path.sizes)


def test_a_tolerance_replaces_the_standard_error(moons):
    X, y = moons
    loose = CompactSVC(n_basis=AutoSize(tol=0.5), random_state=0, refine=Refinement(10)).fit(X, y)
    assert loose.n_basis_ == loose.size_path_.sizes[0]
    folds = CompactSVC(n_basis="auto", cv=3, random_state=0, refine=False).fit(X, y)
    assert folds.size_path_.errors.shape[1] == 3


def test_search_finds_a_cost_that_matters():
    rng = np.random.default_rng(2)
    X = rng.uniform(-3, 3, (1500, 1))
    y = np.sin(3 * X[:, 0]) + 0.05 * rng.standard_normal(1500)
    poor = CompactSVR(n_basis=12, C=1e-3, random_state=0).fit(X, y).score(X, y)
    tuned = CompactSVR(n_basis=12, C=1e-3, tune=True, random_state=0).fit(X, y)
    assert tuned.score(X, y) > max(0.95, poor)
    assert tuned.C_ > 1e-3
    assert tuned.C == 1e-3  # the parameter itself is untouched
    results = tuned.cv_results_
    assert len(set(map(len, results.values()))) == 1
    assert set(results["model"]) == {"plain", "refined", "larger", "linear", "constant"}


def test_search_chooses_epsilon_too():
    rng = np.random.default_rng(2)
    X = rng.uniform(-3, 3, (600, 1))
    y = 100 * np.sin(X[:, 0]) + rng.standard_normal(600)
    machine = CompactSVR(n_basis=8, loss="epsilon_insensitive", tune=True, refine=False, random_state=0).fit(X, y)
    assert machine.epsilon_ in machine.cv_results_["param_epsilon"]
    assert machine.score(X, y) > 0.95


def test_calibrated_probabilities(moons):
    X, y = moons
    Xt, yt = make_moons(2000, noise=0.25, random_state=5)
    machine = CompactSVC(n_basis=10, calibrate=True, validation_fraction=0.3, random_state=0).fit(X, y)
    proba = machine.predict_proba(Xt)
    np.testing.assert_allclose(proba.sum(axis=1), 1.0)
    assert log_loss(yt, proba) < 0.3
    np.testing.assert_allclose(np.exp(machine.predict_log_proba(Xt)), proba, rtol=1e-10)
    assert not hasattr(CompactSVC(), "predict_proba")
    assert not hasattr(CompactSVC(), "predict_log_proba")
    three = CompactSVC(n_basis=10, calibrate=True, refine=False, random_state=0)
    three.fit(X, y + (X[:, 0] > 1.5).astype(int) * 2)
    assert three.predict_proba(Xt).shape == (2000, len(three.classes_))


def test_few_rows_are_calibrated_by_folds(moons):
    X, y = moons
    machine = CompactSVC(n_basis=3, calibrate=True, random_state=0).fit(X[:40], y[:40])
    assert log_loss(y[40:], machine.predict_proba(X[40:])) < 0.6


def test_warm_start_goes_on_from_the_last_basis(moons):
    X, y = moons
    machine = CompactSVC(n_basis=5, warm_start=True, random_state=0, refine=Refinement(15)).fit(X, y)
    first = machine.objective_
    machine.set_params(n_basis=9).fit(X, y)
    assert machine.n_basis_ == 9
    assert machine.objective_ < first
    with pytest.raises(ValueError, match="warm_start=False"):
        machine.fit(X[:, :1], y)


def test_time_limit_leaves_a_usable_machine():
    X, y = make_classification(4000, 20, n_informative=10, random_state=0)
    began = time.monotonic()
    with pytest.warns(ConvergenceWarning, match="cut short: max_time=1.0 seconds"):
        machine = CompactSVC(n_basis="auto", tune=True, max_time=1.0, random_state=0).fit(X, y)
    assert time.monotonic() - began < 30
    assert not machine.converged_
    assert machine.score(X, y) > 0.7


@pytest.mark.parametrize("loss", ["hinge", "least_squares", "huber", "squared_hinge"])
def test_every_class_loss_is_refined(moons, loss):
    X, y = moons
    assert CompactSVC(n_basis=6, loss=loss, C=5.0, random_state=0).fit(X, y).score(X, y) > 0.9


@pytest.mark.parametrize("loss", ["least_squares", "huber", "epsilon_insensitive", "absolute", "quantile"])
def test_every_regression_loss_is_refined(loss):
    X = np.linspace(-3, 3, 400)[:, None]
    y = np.sin(2 * X).ravel()
    assert CompactSVR(n_basis=8, loss=loss, C=50.0, random_state=0).fit(X, y).score(X, y) > 0.95


def test_same_seed_same_machine_at_any_number_of_threads(moons):
    X, y = moons
    one, two = (CompactSVC(n_basis=6, random_state=3, n_jobs=jobs).fit(X, y) for jobs in (1, 2))
    np.testing.assert_array_equal(one.dual_coef_, two.dual_coef_)
    np.testing.assert_array_equal(one.basis_vectors_, two.basis_vectors_)
    assert clone(one).get_params() == one.get_params()


def test_refined_objective_is_nearly_that_of_permuted_rows():
    X, y = make_moons(600, noise=0.3, random_state=1)
    order = np.random.default_rng(0).permutation(600)
    one = CompactSVC(n_basis=3, random_state=0, validation_fraction=0.0, gamma="scale").fit(X, y)
    two = CompactSVC(n_basis=3, random_state=0, validation_fraction=0.0, gamma="scale").fit(X[order], y[order])
    assert one.objective_ == pytest.approx(two.objective_, rel=1e-3)


def test_splits_by_row_number_count_rows_of_weight_zero(moons):
    X, y = moons
    weights = np.ones(900)
    weights[::3] = 0.0
    splits = [(np.arange(600), np.arange(600, 900)), (np.arange(300, 900), np.arange(300))]
    machine = CompactSVC(n_basis="auto", refine=False, cv=splits, random_state=0).fit(X, y, sample_weight=weights)
    kept = weights > 0
    local = [tuple(np.flatnonzero(np.isin(np.flatnonzero(kept), part)) for part in pair) for pair in splits]
    alone = CompactSVC(n_basis="auto", refine=False, cv=local, random_state=0).fit(X[kept], y[kept])
    np.testing.assert_array_equal(machine.size_path_.errors, alone.size_path_.errors)
