"""`LocalSamplingSVC` and `CGLQSVC` from outside."""

import warnings
from functools import partial

import numpy as np
import pytest
from scipy import sparse
from sklearn.datasets import load_digits, make_moons
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC, LinearSVC

from kompakt import CGLQSVC, LocalSamplingSVC, SpSVC, load, save
from kompakt.reduce import ReductionWarning

#: both as printed, on rows that they would train on all together by themselves
BOTH = pytest.mark.parametrize(
    "machine",
    [partial(LocalSamplingSVC, variant="paper"), partial(CGLQSVC, delta=0.03)],
    ids=["LocalSamplingSVC", "CGLQSVC"],
)


@pytest.fixture(scope="module")
def moons():
    return make_moons(2000, noise=0.2, random_state=0)


@BOTH
def test_nearly_as_good_as_the_full_svm_on_a_part_of_the_rows(machine, moons):
    X, y = moons
    full = SVC(gamma=1.0).fit(X, y)
    fitted = machine(gamma=1.0, C=1.0, random_state=0).fit(X, y)
    assert fitted.score(X, y) >= full.score(X, y) - 0.01
    assert len(fitted.training_indices_) < 1200
    assert 0.1 < fitted.overlap_with(full) <= 1.0
    shared = set(full.support_) & set(fitted.support_)
    assert fitted.overlap_with(full) == fitted.overlap_with(full.support_) == len(shared) / len(full.support_)
    exact = SVC(gamma=1.0).fit(X[fitted.training_indices_], y[fitted.training_indices_])
    np.testing.assert_allclose(fitted.decision_function(X), exact.decision_function(X), atol=1e-8)
    assert fitted.n_support_final_ == len(exact.support_) == fitted.n_basis_
    assert fitted.n_support_initial_ == len(fitted.initial_support_)
    assert {"fits", "validation"} <= set(fitted.phase_seconds_)


@BOTH
def test_seeds_reproduce_at_any_number_of_jobs(machine, moons):
    X, y = moons
    first, second = (machine(random_state=3, n_jobs=jobs).fit(X, y) for jobs in (1, 2))
    assert np.array_equal(first.training_indices_, second.training_indices_)
    assert np.array_equal(first.decision_function(X), second.decision_function(X))
    other = machine(random_state=4).fit(X, y)
    assert not np.array_equal(first.training_indices_, other.training_indices_)


def test_the_choices_are_reported(moons):
    X, y = moons
    fitted = LocalSamplingSVC(variant="paper", random_state=0).fit(X, y)
    assert (fitted.n_subsamples_, fitted.subsample_size_) == (10, 50)
    assert fitted.delta_ == pytest.approx(500 / 1800)
    assert [len(rows) for rows in fitted.subsample_indices_] == [50] * 10
    assert fitted.beta_ in [step["beta"] for step in fitted.history_]
    assert fitted.radius_ == fitted.beta_ * np.median(fitted.radii_)
    assert fitted.validation_error_ == min(step["error"] for step in fitted.history_)


def test_intensities_order_the_counts(moons):
    X, y = moons
    drawn = {
        word: LocalSamplingSVC(beta=0.5, intensity=word, random_state=0).fit(X, y).history_[0]["n_drawn"]
        for word in ("literal", "relative", "all")
    }
    assert drawn["literal"] < drawn["relative"] < drawn["all"]


@BOTH
@pytest.mark.parametrize(
    "estimator",
    [SVC(kernel="poly", degree=2, coef0=1.0), LinearSVC(), make_pipeline(StandardScaler(), SVC(C=3.0)), SpSVC(10)],
    ids=["poly", "LinearSVC", "pipeline", "kompakt"],
)
def test_any_estimator(machine, estimator, moons):
    X, y = moons
    labels = np.array(["no", "yes"])[y]
    fitted = machine(estimator=estimator, random_state=0).fit(X, labels)
    assert fitted.score(X, labels) > 0.8
    assert np.array_equal(fitted.predict(X), fitted.estimator_.predict(X))
    np.testing.assert_allclose(fitted.decision_function(X), fitted.estimator_.decision_function(X), atol=1e-8)
    assert fitted.model_ is not None


def test_a_kernel_that_has_no_model_is_asked_itself(moons):
    X, y = moons
    fitted = LocalSamplingSVC(kernel=lambda A, B: (A @ B.T + 1) ** 2, random_state=0).fit(X, y)
    assert fitted.model_ is None
    assert np.array_equal(fitted.predict(X), fitted.estimator_.predict(X))


@BOTH
def test_sparse_rows_give_the_same_machine(machine, moons):
    X, y = moons
    dense, other = (machine(random_state=0, stratify=True).fit(rows, y) for rows in (X, sparse.csr_matrix(X)))
    assert np.array_equal(dense.training_indices_, other.training_indices_)
    np.testing.assert_allclose(dense.decision_function(X), other.decision_function(sparse.csr_matrix(X)), atol=1e-4)


def test_many_classes(tmp_path):
    X, y = load_digits(return_X_y=True)
    fitted = LocalSamplingSVC(gamma=0.001, delta=0.4, n_subsamples=4, random_state=0).fit(X, y)
    assert fitted.score(X, y) > 0.95
    assert fitted.decision_function(X).shape == (len(y), 10)
    save(fitted, tmp_path / "machine")
    assert np.array_equal(load(tmp_path / "machine").predict(X), fitted.predict(X))


@BOTH
def test_a_class_that_is_rare_is_not_lost(machine):
    X, y = make_moons(1000, noise=0.1, random_state=0)
    y[[5, 6]] = 2  # one row to train on, one to validate
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ReductionWarning)
        fitted = machine(random_state=0, delta=0.1).fit(X, y)
    assert fitted.estimator_.classes_.tolist() == [0, 1, 2]
    y[6] = 0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ReductionWarning)
        fitted = machine(random_state=0, delta=0.1).fit(X, y)
    assert fitted.estimator_.classes_.tolist() == [0, 1, 2]


@BOTH
def test_a_compact_last_machine(machine, moons):
    X, y = moons
    fitted = machine(gamma=1.0, C=1.0, n_basis=15, random_state=0).fit(X, y)
    assert fitted.n_basis_ == 15
    assert fitted.score(X, y) > 0.95
    scaled = machine(
        estimator=make_pipeline(StandardScaler(), SVC()), n_basis=12, compact_estimator=SpSVC(), random_state=0
    ).fit(X, y)
    assert scaled.n_basis_ == 12
    assert isinstance(scaled.estimator_[-1], SpSVC)
    assert scaled.score(X, y) > 0.9


@BOTH
def test_weights_reach_the_svm(machine, moons):
    X, y = moons
    weights = np.where(y == 1, 10.0, 1.0)
    weights[:100] = 0.0
    fitted = machine(C=1.0, gamma="scale", random_state=0).fit(X, y, sample_weight=weights)
    plain = machine(C=1.0, gamma="scale", random_state=0).fit(X, y)
    assert fitted.predict(X).mean() > plain.predict(X).mean()
    assert fitted.training_indices_.min() >= 100

    class NoWeights(LinearSVC):
        def fit(self, X, y):
            return super().fit(X, y)

    with pytest.raises(TypeError, match="does not take it"):
        machine(estimator=NoWeights()).fit(X, y, sample_weight=weights)


def test_reweighted_rows_count_for_all_rows(moons):
    X, y = moons
    fitted = LocalSamplingSVC(
        gamma=1.0, C=0.01, max_train=0.3, search_train=400, n_iter_no_change=3, random_state=0
    ).fit(X, y)
    rows = fitted.training_indices_
    assert fitted.row_weight_ == 1800 / len(rows)
    assert len(rows) <= 600
    exact = SVC(gamma=1.0, C=0.01 * fitted.row_weight_).fit(X[rows], y[rows])
    np.testing.assert_allclose(fitted.decision_function(X), exact.decision_function(X), atol=1e-8)
    # at so small a C, rows that count once leave the machine without an answer
    plain = LocalSamplingSVC(
        variant="paper", gamma=1.0, C=0.01, max_train=0.3, search_train=400, n_iter_no_change=3, random_state=0
    ).fit(X, y)
    full = SVC(gamma=1.0, C=0.01).fit(X, y)
    assert plain.row_weight_ == 1.0
    difference = [np.abs(m.decision_function(X) - full.decision_function(X)).mean() for m in (fitted, plain)]
    assert difference[0] < 0.5 * difference[1]


@BOTH
def test_tiny_data_is_not_reduced_and_says_so(machine):
    X, y = make_moons(60, random_state=0)
    with pytest.warns(ReductionWarning, match="60 rows are too few to be reduced"):
        fitted = machine(C=1.0, gamma="scale", random_state=0).fit(X, y)
    full = SVC().fit(X, y)
    np.testing.assert_allclose(fitted.decision_function(X), full.decision_function(X), atol=5e-3)
    assert fitted.overlap_with(full) == 1.0


@pytest.mark.parametrize("machine", [LocalSamplingSVC, CGLQSVC])
def test_rows_that_an_svm_takes_in_its_stride_are_all_trained_on(machine, moons):
    X, y = moons
    fitted = machine(C=2.0, gamma=1.0, random_state=0).fit(X, y)
    full = SVC(C=2.0, gamma=1.0).fit(X, y)
    np.testing.assert_allclose(fitted.decision_function(X), full.decision_function(X), atol=5e-3)
    assert np.array_equal(fitted.training_indices_, np.arange(len(y)))
    assert np.array_equal(fitted.support_, np.sort(full.support_))
    assert np.array_equal(fitted.support_, np.sort(fitted.initial_support_))
    weights = np.where(np.arange(len(y)) < 50, 0.0, 1.0)
    part = machine(C=2.0, gamma=1.0, random_state=0).fit(X, y, weights)
    assert np.array_equal(part.training_indices_, np.arange(50, len(y)))
    compact = machine(C=2.0, gamma=1.0, n_basis=20, random_state=0).fit(X, y)
    assert np.array_equal(compact.training_indices_, np.arange(len(y)))
    assert compact.score(X, y) > full.score(X, y) - 0.005


@pytest.mark.parametrize("variant", ["reweighted", "margin"])
def test_reduced_rows_are_few_and_stand_for_all(variant):
    X, y = make_moons(6000, noise=0.25, random_state=0)
    fitted = LocalSamplingSVC(variant=variant, max_train=600, C=1.0, gamma=1.0, random_state=0).fit(X[:4000], y[:4000])
    rows = fitted.training_indices_
    weights = np.broadcast_to(fitted.row_weight_, len(rows))
    assert len(rows) < 700
    assert weights.sum() == pytest.approx(4000, rel=0.2)  # of "reweighted", those that are not held out
    full = SVC(gamma=1.0).fit(X[:4000], y[:4000])
    assert fitted.score(X[4000:], y[4000:]) > full.score(X[4000:], y[4000:]) - 0.01


def test_margins_draw_rows_near_the_boundary():
    X, y = make_moons(4000, noise=0.15, random_state=0)
    fitted = LocalSamplingSVC(variant="margin", max_train=500, C=1.0, gamma=1.0, random_state=0).fit(X, y)
    far = np.abs(SVC(gamma=1.0).fit(X, y).decision_function(X)) > 2.0
    assert far[fitted.training_indices_].mean() < 0.8 * far.mean()
    away = far[fitted.training_indices_]
    assert fitted.row_weight_[away].mean() > 2 * fitted.row_weight_[~away].mean()
    text = LocalSamplingSVC(variant="margin", max_train=500, random_state=0).fit(X, np.array(["no", "yes"])[y])
    assert text.score(X, np.array(["no", "yes"])[y]) > 0.95


def test_margins_are_the_default_and_balls_where_their_parameters_are_given(moons):
    X, y = moons
    fitted = LocalSamplingSVC(max_train=400, C=1.0, gamma=1.0, random_state=0).fit(X, y)
    same = LocalSamplingSVC(variant="margin", max_train=400, C=1.0, gamma=1.0, random_state=0).fit(X, y)
    assert fitted.variant_ == same.variant_ == "margin"
    assert np.array_equal(fitted.training_indices_, same.training_indices_)
    assert set(fitted.initial_support_) <= set(fitted.subsample_indices_[0])
    assert 0 < fitted.n_support_initial_ < len(fitted.subsample_indices_[0])
    for given in ({"beta": 0.3}, {"max_beta": 0.5}, {"intensity": "all"}, {"validation_fraction": 0.2}):
        balls = LocalSamplingSVC(max_train=400, C=1.0, gamma=1.0, random_state=0, **given).fit(X, y)
        assert balls.variant_ == "reweighted"
        assert balls.beta_ > 0

    class NoDecision(SVC):
        decision_function = property()

    assert LocalSamplingSVC(estimator=NoDecision(), max_train=400, random_state=0).fit(X, y).variant_ == "reweighted"


@BOTH
def test_one_class_is_a_named_error(machine):
    with pytest.raises(ValueError, match="number of classes has to be greater than one"):
        machine().fit(np.random.default_rng(0).normal(size=(200, 2)), np.zeros(200))


def test_duplicated_rows_are_reported():
    X = np.repeat(np.array([[0.0], [1.0], [2.0], [3.0]]), 100, axis=0)
    y = np.tile([0, 1, 0, 1, 1], 80)
    with pytest.warns(ReductionWarning, match="copies"):
        fitted = LocalSamplingSVC(variant="paper", random_state=0).fit(X, y)
    assert np.isfinite(fitted.decision_function(X)).all()


def test_rare_classes_in_small_subsamples_are_reported():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(1000, 2))
    y = (np.arange(1000) % 50 == 0).astype(int)
    words = {"delta": 0.2, "n_subsamples": 10, "beta": 0.3, "random_state": 0}
    with pytest.warns(ReductionWarning, match="of 10 subsamples hold one class only"):
        fitted = LocalSamplingSVC(**words).fit(X, y)
    assert fitted.n_one_class_subsamples_ > 0
    even = LocalSamplingSVC(stratify=True, delta=0.5, n_subsamples=2, beta=0.3, random_state=0).fit(X, y)
    assert even.n_one_class_subsamples_ == 0


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ({"beta": 0}, "beta must be"),
        ({"beta": "best"}, "beta must be"),
        ({"beta_step": 2.0}, "beta_step must be"),
        ({"intensity": "some"}, "intensity must be one of"),
        ({"kernel": "precomputed"}, "no rows to look for neighbours"),
        ({"estimator": SVC(), "C": 2.0}, "C belong to the default SVC"),
        ({"n_basis": 0}, "n_basis must be None"),
        ({"compact_estimator": SpSVC()}, "used with n_basis only"),
        ({"validation_fraction": 1.0}, "validation_fraction must"),
        ({"n_iter_no_change": 0}, "n_iter_no_change must"),
        ({"min_improvement": 1.0}, "min_improvement must"),
        ({"C": -1.0}, "C must be"),
        ({"delta": 0.001, "n_subsamples": 10}, "leaves 0 rows"),
        ({"max_train": 1}, "max_train must be"),
        ({"search_train": 1.5}, "search_train must be"),
        ({"max_train": True}, "max_train must be"),
        ({"variant": "printed"}, "variant must be one of"),
    ],
)
def test_wrong_words_are_named(words, message, moons):
    with pytest.raises(ValueError, match=message):
        LocalSamplingSVC(**words).fit(*moons)


@pytest.mark.parametrize(
    ("words", "message"), [({"n_neighbors": 0}, "n_neighbors must"), ({"fresh": 1.0}, "fresh must")]
)
def test_wrong_words_of_cglq_are_named(words, message, moons):
    with pytest.raises(ValueError, match=message):
        CGLQSVC(**words).fit(*moons)


def test_overlap_needs_support_vectors(moons):
    fitted = LocalSamplingSVC(beta=0.1, random_state=0).fit(*moons)
    with pytest.raises(TypeError, match="row numbers"):
        fitted.overlap_with(object())
    with pytest.raises(ValueError, match="no support vectors"):
        fitted.overlap_with(np.array([], dtype=int))
