"""Named edge cases: each ends in a finite answer, a named error, or a warning."""

from __future__ import annotations

import pickle
import warnings

import numpy as np
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning, DataConversionWarning, NotFittedError

from kompakt import (
    CGLQSVC,
    FEESVC,
    FEESVR,
    CompactSVC,
    CompactSVR,
    FixedSizeLSSVC,
    FixedSizeLSSVR,
    GreedyProjection,
    KernelFisher,
    LocalSamplingSVC,
    ProjectedKernelFisher,
    ProjectedSVC,
    Refinement,
    SpSVC,
)

RNG = np.random.default_rng(0)
X = RNG.standard_normal((60, 3))
Y = np.where(X[:, 0] * X[:, 1] > 0, "yes", "no")
T = np.sin(X[:, 0])
KINDS = {
    "plain": {"refine": False},
    "refined": {"refine": Refinement(5)},
    "auto size": {"n_basis": "auto", "refine": Refinement(3)},
    "tuned": {"tune": True, "refine": False},
}


@pytest.fixture(params=KINDS, ids=list(KINDS))
def words(request):
    """Constructor words of the flagship in its four ways of working."""
    return {"n_basis": 8, "random_state": 0} | KINDS[request.param]


def classify(words, X, y, **fit):
    machine = CompactSVC(**words).fit(X, y, **fit)
    assert np.all(np.isfinite(machine.decision_function(X)))
    assert np.all(np.isfinite(machine.dual_coef_))
    return machine


def regress(words, X, y, **fit):
    machine = CompactSVR(**words).fit(X, y, **fit)
    assert np.all(np.isfinite(machine.predict(X)))
    return machine


FINITE = {
    "constant column": lambda: (np.column_stack([X, np.full(60, 7.0)]), Y),
    "all columns constant": lambda: (np.ones((60, 2)), Y),
    "every row twice": lambda: (np.repeat(X, 2, axis=0), np.repeat(Y, 2)),
    "two distinct rows": lambda: (np.tile([[0.0], [1.0]], (30, 1)), np.tile(["a", "b"], 30)),
    "same rows, other labels": lambda: (np.repeat(X[:30], 2, axis=0), np.tile(["a", "b"], 30)),
    "fewer rows than vectors": lambda: (X[:5], np.array(["a", "b", "a", "b", "a"])),
    "two rows": lambda: (X[:2], np.array([0, 1])),
    "one feature": lambda: (X[:, :1], Y),
    "more features than rows": lambda: (RNG.standard_normal((20, 200)), np.tile([0, 1], 10)),
    "offset 1e10": lambda: (X + 1e10, Y),
    "offset 1e6 in float32": lambda: ((X + 1e6).astype(np.float32), Y),
    "scale 1e-100": lambda: (X * 1e-100, Y),
    "scale 1e100": lambda: (X * 1e100, Y),
    "one outlier at 1e12": lambda: (np.vstack([X, np.full((1, 3), 1e12)]), np.append(Y, "no")),
    "float16": lambda: (X.astype(np.float16), Y),
    "integers": lambda: ((10 * X).astype(int), Y),
    "unsigned bytes": lambda: (np.abs(50 * X).astype(np.uint8), Y),
    "booleans": lambda: (X > 0, Y),
    "object dtype that holds numbers": lambda: (X.astype(object), Y),
    "Fortran order": lambda: (np.asfortranarray(X), Y),
    "not contiguous": lambda: (np.repeat(X, 2, axis=1)[:, ::2], Y),
    "read-only": lambda: (_read_only(X), Y),
    "list of lists": lambda: (X.tolist(), Y.tolist()),
    "boolean labels": lambda: (X, Y == "yes"),
    "float labels": lambda: (X, np.where(Y == "yes", 1.0, -3.0)),
    "object labels": lambda: (X, Y.astype(object)),
    "negative labels": lambda: (X, np.where(Y == "yes", -7, -2)),
    "one row of a class": lambda: (X, np.where(np.arange(60) == 0, "rare", "usual")),
    "ten classes of six rows": lambda: (X, np.repeat(np.arange(10), 6)),
    "CSR": lambda: (sparse.csr_matrix(X), Y),
    "CSC": lambda: (sparse.csc_matrix(X), Y),
    "CSR array": lambda: (sparse.csr_array(X), Y),
    "CSR with stored zeros": lambda: (_stored_zeros(), Y),
    "CSR without an entry": lambda: (sparse.csr_matrix((60, 3)), Y),
    "separable with a wide gap": lambda: (np.where(Y == "yes", 1e3, -1e3)[:, None] + X, Y),
}


def _read_only(A):
    A = A.copy()
    A.flags.writeable = False
    return A


def _stored_zeros():
    A = sparse.csr_matrix(X)
    A.data[::2] = 0.0
    return A


@pytest.mark.parametrize("case", FINITE, ids=list(FINITE))
def test_classifier_gives_a_finite_answer(case, words):
    rows, labels = FINITE[case]()
    single = np.unique(np.asarray(labels), return_counts=True)[1].min() < 2
    if single and (words.get("n_basis") == "auto" or words.get("tune")):
        # its row cannot both be trained on and held out
        with pytest.raises(ValueError, match=r"(?i)class|label"):
            CompactSVC(**words).fit(rows, labels)
        return
    classify(words, rows, labels)


@pytest.mark.parametrize("C", [1e-12, 1e-4, 1e4, 1e10])
def test_tiny_and_huge_costs(C, words):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        classify(words | {"C": C}, X, Y)


@pytest.mark.parametrize(
    "y", [np.zeros(60), np.full(60, 1e12), 1e-200 * T, T * 1e8], ids=["0", "1e12", "tiny", "large"]
)
def test_regression_targets_of_any_size(y, words):
    machine = regress(words, X, y)
    assert np.max(np.abs(machine.predict(X))) <= 3 * np.max(np.abs(y)) + 1e-12


def test_many_zero_weights(words):
    weights = np.where(np.arange(60) < 30, 0.0, 1.0)
    machine = classify(words, X, Y, sample_weight=weights)
    if machine.basis_indices_ is not None:
        assert machine.basis_indices_.min() >= 30


def test_tiny_and_huge_weights(words):
    classify(words, X, Y, sample_weight=np.full(60, 1e-10))
    classify(words, X, Y, sample_weight=np.where(Y == "yes", 1e6, 1e-6))


ERRORS = {
    "NaN": (lambda: (np.where(X > 2, np.nan, X), Y), ValueError, "NaN"),
    "infinity": (lambda: (np.where(X > 1, np.inf, X), Y), ValueError, "infinity"),
    "no row": (lambda: (X[:0], Y[:0]), ValueError, "0 sample"),
    "no feature": (lambda: (X[:, :0], Y), ValueError, "0 feature"),
    "one class": (lambda: (X, np.full(60, "yes")), ValueError, "class"),
    "one row": (lambda: (X[:1], Y[:1]), ValueError, "class|sample"),
    "rows and labels of different number": (lambda: (X, Y[:30]), ValueError, "inconsistent"),
    "strings as rows": (lambda: (np.array([["a", "b"]] * 60), Y), ValueError, "could not convert|dtype|numeric"),
    "continuous labels": (lambda: (X, T), ValueError, "Unknown label type|continuous"),
    "no labels": (lambda: (X, None), ValueError, "requires y"),
    "one dimension": (lambda: (X[:, 0], Y), ValueError, "2D array"),
    "three dimensions": (lambda: (X[:, :, None], Y), ValueError, "dim"),
    "scale 1e160": (lambda: (X * 1e160, Y), ValueError, "StandardScaler"),
    "scale 1e30 in float32": (lambda: ((X * 1e30).astype(np.float32), Y), ValueError, "StandardScaler"),
    "complex numbers": (lambda: (X + 1j, Y), ValueError, "[Cc]omplex"),
}


@pytest.mark.parametrize("case", ERRORS, ids=list(ERRORS))
def test_named_errors(case, words):
    make, error, message = ERRORS[case]
    with pytest.raises(error, match=message):
        CompactSVC(**words).fit(*make())


PARAMETERS = {
    "C of zero": {"C": 0.0},
    "negative C": {"C": -1.0},
    "C that is not a number": {"C": np.nan},
    "C as text": {"C": "1"},
    "no vector": {"n_basis": 0},
    "half a vector": {"n_basis": 1.5},
    "unknown kernel": {"kernel": "gauss"},
    "unknown loss": {"loss": "hinges"},
    "loss of the other kind": {"loss": "absolute"},
    "unknown selection": {"selection": "best"},
    "unknown coding": {"coding": "ovo"},
    "negative width": {"gamma": -1.0},
    "width of the wrong length": {"gamma": [1.0, 2.0]},
    "unknown word for the width": {"gamma": "wide"},
    "degree of zero": {"kernel": "poly", "degree": 0},
    "tolerance of zero": {"tol": 0.0},
    "no iteration": {"max_iter": 0},
    "no time": {"max_time": 0},
    "class weight of an unknown class": {"class_weight": {"maybe": 2.0}},
    "class weight of zero": {"class_weight": {"yes": 0.0}},
    "vectors of the wrong length": {"selection": np.ones((4, 2))},
    "jobs of zero": {"n_jobs": 0},
}


@pytest.mark.parametrize("case", PARAMETERS, ids=list(PARAMETERS))
def test_parameters_out_of_range_are_named(case):
    with pytest.raises(ValueError, match=r"(got|choose|expected|must)"):
        CompactSVC(**({"n_basis": 5, "refine": False} | PARAMETERS[case])).fit(X, Y)


@pytest.mark.parametrize(
    ("machine", "names"),
    [
        (CompactSVC(), "'scale', 'auto', 'learn', 'ard', 'full', 'loo'"),
        (CompactSVR(), "'scale', 'auto', 'learn', 'ard', 'full', 'loo'"),
        (SpSVC(), "'scale', 'auto', 'learn', 'ard', 'full'"),
        (KernelFisher(), "'scale', 'auto'"),
        (GreedyProjection(), "'scale', 'auto'"),
        (LocalSamplingSVC(), "'scale', 'auto'"),
    ],
    ids=lambda value: type(value).__name__ if hasattr(value, "fit") else "",
)
@pytest.mark.parametrize("gamma", ["wide", -1.0])
def test_the_error_of_a_width_names_every_choice(machine, names, gamma):
    with pytest.raises(ValueError, match=rf"gamma must be {names}, a positive number or one per feature; got"):
        clone(machine).set_params(gamma=gamma).fit(X, T if isinstance(machine, CompactSVR) else Y)


SWITCHES = [
    (machine, name)
    for machine in (
        CompactSVC(5), CompactSVR(5), SpSVC(5), FEESVC(5), FEESVR(5), FixedSizeLSSVC(5), FixedSizeLSSVR(5),
        ProjectedSVC(5), LocalSamplingSVC(), CGLQSVC(),
    )
    for name, value in machine.get_params().items()
    if isinstance(value, bool)
]  # fmt: skip


@pytest.mark.parametrize(("machine", "name"), SWITCHES, ids=[f"{type(m).__name__}-{name}" for m, name in SWITCHES])
@pytest.mark.parametrize("value", ["yes", 1, None])
def test_switches_are_true_or_false(machine, name, value):
    with pytest.raises(ValueError, match=rf"{name} must be True(, | or )False[^;]*; got {value!r}"):
        clone(machine).set_params(**{name: value}).fit(X, T if type(machine).__name__.endswith("SVR") else Y)


def test_probabilities_without_calibration_name_the_parameter():
    machine = CompactSVC(5, refine=False).fit(X, Y)
    assert not hasattr(machine, "predict_proba")
    with pytest.raises(AttributeError, match=r"CompactSVC has no predict_proba .*pass calibrate=True"):
        machine.predict_proba(X)
    assert hasattr(CompactSVC(calibrate=True), "predict_proba")
    assert "probabilities" in CompactSVC.predict_proba.__doc__


def test_negative_weights_are_refused():
    with pytest.raises(ValueError, match=r"[Nn]egative"):
        CompactSVC(5).fit(X, Y, sample_weight=-np.ones(60))


def test_all_weights_zero_is_refused():
    with pytest.raises(ValueError, match="zero"):
        CompactSVC(5).fit(X, Y, sample_weight=np.zeros(60))


def test_a_class_of_weight_zero_is_no_class():
    weights = (Y == "yes").astype(float)
    with pytest.raises(ValueError, match="class"):
        CompactSVC(5).fit(X, Y, sample_weight=weights)


def test_a_column_of_labels_is_flattened_with_a_warning():
    with pytest.warns(DataConversionWarning):
        CompactSVC(5, refine=False).fit(X, Y[:, None])


def test_prediction_before_fit():
    with pytest.raises(NotFittedError):
        CompactSVC().predict(X)


def test_prediction_with_another_number_of_features():
    with pytest.raises(ValueError, match="features"):
        CompactSVC(5, refine=False).fit(X, Y).predict(X[:, :2])


def test_a_failed_refit_leaves_the_last_machine():
    machine = CompactSVC(5, refine=False).fit(X, Y)
    before = machine.decision_function(X)
    with pytest.raises(ValueError, match="NaN"):
        machine.fit(np.full_like(X, np.nan), Y)
    np.testing.assert_array_equal(machine.decision_function(X), before)


def test_too_few_iterations_warn():
    with pytest.warns(ConvergenceWarning, match="max_iter"):
        CompactSVC(20, refine=False, max_iter=1, C=100.0).fit(X, Y)


def test_a_class_missing_in_a_subset_is_still_predicted_by_clones():
    machine = CompactSVC(5, refine=False).fit(X, np.repeat(["a", "b", "c"], 20))
    part = clone(machine).fit(X[:40], np.repeat(["a", "b"], 20))
    assert list(part.classes_) == ["a", "b"]
    assert list(machine.classes_) == ["a", "b", "c"]


def test_one_row_and_no_row_at_prediction():
    machine = CompactSVC(5, refine=False).fit(X, Y)
    assert machine.predict(X[:1]).shape == (1,)
    with pytest.raises(ValueError, match="0 sample"):
        machine.predict(X[:0])


def test_far_away_rows_get_the_intercept():
    machine = CompactSVC(5, refine=False, random_state=0).fit(X, Y)
    np.testing.assert_allclose(machine.decision_function(np.full((1, 3), 1e6)), machine.intercept_, atol=1e-12)


def test_pickled_machine_predicts_alike():
    machine = CompactSVC(5, random_state=0, refine=Refinement(3)).fit(X, Y)
    np.testing.assert_array_equal(
        pickle.loads(pickle.dumps(machine)).decision_function(X), machine.decision_function(X)
    )


@pytest.mark.parametrize(
    "machine",
    [CompactSVC(), CompactSVC(loss="hinge"), SpSVC(), ProjectedSVC(), KernelFisher(), ProjectedKernelFisher()],
    ids=repr,
)
def test_a_thousand_classes_are_refused_with_the_coding_that_can_do_them(machine):
    rng = np.random.default_rng(0)
    y = np.repeat(np.arange(1000), 2)
    X = rng.normal(size=(1000, 5))[y] + 0.1 * rng.normal(size=(2000, 5))
    with pytest.raises(ValueError, match=r"coding='minimum_output', which makes 10"):
        machine.fit(X, y)


def test_classes_that_cannot_all_be_held_out_are_fitted_without():
    rng = np.random.default_rng(0)
    y = np.repeat(np.arange(60), 2)
    X = 3.0 * rng.normal(size=(60, 5))[y] + 0.1 * rng.normal(size=(120, 5))
    machine = CompactSVC(60, coding="minimum_output", refine=Refinement(2), random_state=0).fit(X, y)
    assert machine.score(X, y) > 0.9
