"""The public kernel Fisher discriminants."""

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.datasets import make_blobs, make_moons
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.model_selection import StratifiedKFold

from kompakt import KernelFisher, ProjectedKernelFisher


def test_linear_kernel_without_regularisation_is_linear_discriminant_analysis():
    rng = np.random.default_rng(0)
    A = rng.normal(size=(4, 4))
    X = np.concatenate([rng.normal(size=(40, 4)) @ A, rng.normal(size=(40, 4)) @ A + [1.0, 0.5, -1.0, 2.0]])
    y = np.repeat([0, 1], 40)  # equal class sizes: eq. 4 adds the covariances unweighted
    lda = LinearDiscriminantAnalysis().fit(X, y)
    for machine in (
        KernelFisher(kernel="linear", reg=1e-9, bias="midpoint"),
        ProjectedKernelFisher(kernel="linear", reg=1e-9, bias="midpoint", n_basis=80),
    ):
        machine.fit(X, y)
        ratio = machine.coef_ / lda.coef_
        np.testing.assert_allclose(ratio, ratio.mean(), rtol=1e-6)
        np.testing.assert_allclose(machine.intercept_ / ratio.mean(), lda.intercept_, rtol=1e-6)
        np.testing.assert_array_equal(machine.predict(X), lda.predict(X))


def test_full_is_projected_on_all_rows():
    X, y = make_moons(80, noise=0.2, random_state=0)
    full = KernelFisher(gamma=1.0, reg=0.1).fit(X, y)
    given = ProjectedKernelFisher(gamma=1.0, reg=0.1, selection=X).fit(X, y)
    np.testing.assert_allclose(given.decision_function(X), full.decision_function(X), rtol=1e-8)
    assert full.n_basis_ == 80
    assert full.n_kernel_evals_ == 80 * 80


def test_few_vectors_do_nearly_as_well_and_only_they_are_kept():
    X, y = make_moons(600, noise=0.15, random_state=0)
    full = KernelFisher(gamma=2.0, reg=1e-3).fit(X[:300], y[:300])
    few = ProjectedKernelFisher(30, gamma=2.0, reg=1e-3, random_state=0).fit(X[:300], y[:300])
    assert few.basis_vectors_.shape == (30, 2)
    assert few.score(X[300:], y[300:]) > full.score(X[300:], y[300:]) - 0.02
    np.testing.assert_array_equal(X[:300][few.basis_indices_], few.basis_vectors_)


@pytest.mark.parametrize("coding", ["one_vs_rest", "one_vs_one", "minimum_output"])
@pytest.mark.parametrize("machine", [KernelFisher(reg=0.01), ProjectedKernelFisher(20, reg=0.01, random_state=0)])
def test_many_classes(machine, coding):
    X, y = make_blobs(200, centers=4, random_state=1)
    fitted = machine.set_params(coding=coding).fit(X, np.array(list("abcd"))[y])
    assert fitted.score(X, np.array(list("abcd"))[y]) > 0.95
    assert fitted.decision_function(X).shape == (200, 4)


def test_weight_two_is_the_row_twice_in_both_penalties():
    X, y = make_moons(60, noise=0.2, random_state=0)
    weights = np.random.default_rng(0).integers(0, 4, 60)
    for machine in (KernelFisher(gamma=1.0), ProjectedKernelFisher(15, gamma=1.0, random_state=0)):
        weighted = machine.fit(X, y, sample_weight=weights).decision_function(X)
        repeated = machine.fit(np.repeat(X, weights, axis=0), np.repeat(y, weights)).decision_function(X)
        np.testing.assert_allclose(weighted, repeated, rtol=1e-9, atol=1e-10)


def test_equal_rows_share_a_vector_and_change_nothing_of_the_printed_problem():
    X, y = make_moons(40, noise=0.2, random_state=0)
    X, y = np.repeat(X, 2, axis=0), np.repeat(y, 2)
    y[1] = 1 - y[1]  # one pair of equal rows lies in both classes
    K = np.exp(-0.7 * np.square(X[:, None] - X[None]).sum(axis=2))
    N = sum(np.cov(K[:, y == c], ddof=0) for c in (0, 1))
    m = K[:, y == 1].mean(axis=1) - K[:, y == 0].mean(axis=1)
    a = np.linalg.solve(N + 0.1 * np.eye(80), m)
    a *= 2.0 / (a @ m)
    machine = KernelFisher(gamma=0.7, reg=0.1).fit(X, y)
    assert machine.n_basis_ == 40
    np.testing.assert_allclose(machine.decision_function(X) - machine.intercept_, K @ a, rtol=1e-8)


def test_biases_and_priors():
    X, y = make_moons(300, noise=0.35, random_state=0)
    keep = (y == 0) | (np.arange(300) % 5 == 0)
    X, y = X[keep], y[keep]
    share = {}
    for name, options in {
        "equal": {"priors": None},
        "empirical": {},
        "given": {"priors": [0.999, 0.001]},
        "search": {"bias": "search", "priors": "empirical"},
        "midpoint": {"bias": "midpoint", "priors": None},
    }.items():
        machine = ProjectedKernelFisher(20, gamma=1.0, reg=0.1, random_state=0, **options).fit(X, y)
        share[name] = machine.predict(X).mean(), machine.score(X, y)
    assert share["equal"][0] > share["empirical"][0] > share["given"][0]
    assert share["search"][1] == max(score for _, score in share.values())


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"reg": 0.0}, "reg must be .cv., .scale. or a positive"),
        ({"bias": "none"}, "bias must be one of"),
        ({"priors": "equal"}, "priors must be None"),
        ({"priors": [1.0]}, "priors must hold 2"),
    ],
)
def test_wrong_words_are_refused(options, message):
    X, y = make_moons(20, random_state=0)
    with pytest.raises(ValueError, match=message):
        KernelFisher(**options).fit(X, y)
    with pytest.raises(ValueError, match="selection must be one of"):
        ProjectedKernelFisher(selection="fee").fit(X, y)


@pytest.mark.parametrize(
    "machine",
    [KernelFisher(reg="scale"), ProjectedKernelFisher(40, selection="projection", reg="scale", random_state=0)],
    ids=repr,
)
@pytest.mark.parametrize("factor", [1e-3, 1.0, 1e3])
def test_default_penalty_follows_the_scale_of_the_kernel(machine, factor):
    X, y = make_moons(150, noise=0.2, random_state=0)
    plain = clone(machine).set_params(kernel="poly", gamma=1.0, coef0=1.0).fit(X, y)
    # the polynomial of degree 3 has values factor^3 times as large
    scaled = clone(machine).set_params(kernel="poly", gamma=factor, coef0=factor).fit(X, y)
    assert scaled.reg_ == pytest.approx(plain.reg_ * factor**6, rel=1e-6)
    np.testing.assert_allclose(scaled.decision_function(X), plain.decision_function(X), rtol=1e-3, atol=1e-4)
    same = clone(scaled).set_params(reg=scaled.reg_).fit(X, y)
    np.testing.assert_allclose(same.decision_function(X), scaled.decision_function(X), rtol=1e-7)


def test_default_penalty_is_a_hundredth_of_the_mean_diagonal_entry():
    X, y = make_moons(60, noise=0.2, random_state=0)
    machine = KernelFisher(gamma=1.0).fit(X, y)
    K = rbf_kernel(X, gamma=1.0)
    trace = sum(np.cov(K[y == c].T, bias=True).trace() for c in (0, 1))
    assert machine.reg_ == pytest.approx(0.01 * trace / 60)


@pytest.mark.parametrize("machine", [KernelFisher(), ProjectedKernelFisher(random_state=0)], ids=repr)
def test_default_penalty_does_better_than_one(machine):
    X, y = make_moons(700, noise=0.2, random_state=0)
    default = clone(machine).fit(X[:200], y[:200]).score(X[200:], y[200:])
    assert default > clone(machine).set_params(reg=1.0).fit(X[:200], y[:200]).score(X[200:], y[200:]) + 0.03


@pytest.mark.parametrize("machine", [KernelFisher(), ProjectedKernelFisher(30, random_state=0)], ids=repr)
def test_tuning_finds_width_and_penalty(machine):
    X, y = make_moons(700, noise=0.2, random_state=0)
    bad = clone(machine).set_params(gamma=1e-3, reg=10.0)
    tuned = clone(bad).set_params(tune=True).fit(X[:200], y[:200])
    assert tuned.score(X[200:], y[200:]) > max(0.94, bad.fit(X[:200], y[:200]).score(X[200:], y[200:]))
    assert tuned.gamma_ != 1e-3
    assert tuned.cv_error_ == pytest.approx(tuned.cv_results_["mean_test_error"].min())
    assert abs(tuned.cv_error_ - (1.0 - tuned.score(X[200:], y[200:]))) < 0.05
    again = clone(bad).set_params(gamma=tuned.gamma_, reg=tuned.reg_).fit(X[:200], y[:200])
    np.testing.assert_allclose(again.decision_function(X), tuned.decision_function(X), rtol=1e-7, atol=1e-9)
    assert not hasattr(again, "cv_error_")


def test_tuning_takes_weights_codings_rare_classes_and_splits():
    X, y = make_blobs([60, 60, 1], centers=None, random_state=0)
    weight = np.random.default_rng(0).integers(0, 3, size=121)
    weight[y == 2] = 1
    for coding in ("one_vs_rest", "one_vs_one", "minimum_output"):
        machine = ProjectedKernelFisher(15, coding=coding, tune=True, cv=3, random_state=0)
        assert machine.fit(X, y, sample_weight=weight).score(X, y) > 0.9
    K = rbf_kernel(X, gamma=0.1)
    for kind in (KernelFisher, ProjectedKernelFisher):
        assert kind(kernel="precomputed", tune=True, random_state=0).fit(K, y).score(K, y) > 0.9
    rows = np.flatnonzero(y < 2)
    splits = list(StratifiedKFold(3).split(X[rows], y[rows]))
    assert KernelFisher(tune=True, cv=splits).fit(X[rows], y[rows], sample_weight=weight[rows]).cv_error_ < 0.1
    with pytest.raises(ValueError, match="lack a class"):
        KernelFisher(tune=True, cv=[(np.arange(60), np.arange(60, 120))]).fit(X[np.argsort(y)], np.sort(y))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"reg": "auto"}, "reg must be 'cv', 'scale' or"),
        ({"reg": -1.0}, "reg must be"),
        ({"cv": 1}, "cv must be None, at least 2 folds"),
    ],
)
def test_penalty_and_folds_are_checked(options, message):
    X, y = make_moons(30, random_state=0)
    with pytest.raises(ValueError, match=message):
        KernelFisher(**options).fit(X, y)
