"""partial_fit: running sums on a fixed basis."""

import pickle

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import sparse
from sklearn.base import clone

from kompakt import CompactSVC, CompactSVR, FixedSizeLSSVC, FixedSizeLSSVR, Refinement, SpSVC


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(3)
    X = rng.normal(size=(900, 3)) + 5.0
    score = np.sin(2 * X[:, 0]) + X[:, 1] - 5.0 + 0.1 * rng.normal(size=900)
    weights = rng.integers(0, 4, size=900).astype(float)
    return X, np.array(["a", "b", "c"])[np.digitize(score, [-0.6, 0.6])], score, weights


def given(X):
    return X[::40].copy()


CLASSIFIERS = {
    "CompactSVC": lambda basis: CompactSVC(selection=basis, refine=False, loss="least_squares", gamma=0.5),
    "CompactSVC pairs": lambda basis: CompactSVC(
        selection=basis, refine=False, loss="least_squares", gamma=0.5, coding="one_vs_one"
    ),
    "CompactSVC no intercept": lambda basis: CompactSVC(
        selection=basis, refine=False, loss="least_squares", kernel="laplacian", gamma=0.5, fit_intercept=False
    ),
    "CompactSVC class weights": lambda basis: CompactSVC(
        selection=basis, refine=False, loss="least_squares", gamma=0.5, class_weight={"a": 3.0}
    ),
    "FixedSizeLSSVC": lambda basis: FixedSizeLSSVC(selection=basis, gamma=0.5, C=1.0),
    "FixedSizeLSSVC linear": lambda basis: FixedSizeLSSVC(kernel="linear", C=1.0),
}


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("name", CLASSIFIERS)
def test_batches_equal_one_fit_for_least_squares(name, weighted, data):
    X, labels, _, weights = data
    s = weights if weighted else None
    whole = CLASSIFIERS[name](given(X)).fit(X, labels, sample_weight=s)
    machine = CLASSIFIERS[name](given(X))
    for part in np.array_split(np.arange(len(X)), 7):
        machine.partial_fit(X[part], labels[part], classes=np.unique(labels), sample_weight=s if s is None else s[part])
    assert_allclose(machine.decision_function(X), whole.decision_function(X), rtol=1e-8, atol=1e-8)
    assert np.array_equal(machine.predict(X), whole.predict(X))
    assert_allclose(machine.objective_, whole.objective_, rtol=1e-8)
    assert machine.n_rows_seen_ == (len(X) if s is None else int(np.sum(s > 0)))
    assert len(machine.history_) == 7
    assert list(machine.classes_) == ["a", "b", "c"]


@pytest.mark.parametrize("columns", [1, 2])
@pytest.mark.parametrize("kind", [CompactSVR, FixedSizeLSSVR])
def test_regression_in_batches(kind, columns, data):
    X, _, score, weights = data
    y = score if columns == 1 else np.stack([score, X[:, 2] ** 2], axis=1)
    more = {"refine": False} if kind is CompactSVR else {}
    machine = kind(selection=given(X), gamma=0.5, C=10.0, **more)
    whole = clone(machine).fit(X, y, sample_weight=weights)
    for part in np.array_split(np.arange(len(X)), 5):
        machine.partial_fit(X[part], y[part], sample_weight=weights[part])
    assert_allclose(machine.predict(X), whole.predict(X), rtol=1e-8, atol=1e-8)


def test_sparse_and_single_precision_batches(data):
    X, _, score, _ = data
    whole = CompactSVR(selection=given(X), refine=False, gamma=0.5, C=1.0).fit(X, score)
    machine = CompactSVR(selection=given(X), refine=False, gamma=0.5, C=1.0)
    machine.partial_fit(sparse.csr_matrix(X[:400]), score[:400]).partial_fit(X[400:], score[400:])
    assert_allclose(machine.predict(X), whole.predict(X), rtol=1e-8, atol=1e-8)
    single = CompactSVR(selection=given(X), refine=False, gamma=0.5, C=1.0)
    single.partial_fit(X[:400].astype(np.float32), score[:400]).partial_fit(X[400:], score[400:])
    assert_allclose(single.predict(X), whole.predict(X), atol=1e-3)


def test_the_squared_hinge_is_close_to_one_fit(data):
    X, labels, _, _ = data
    machine = CompactSVC(selection=given(X), refine=False, gamma=0.5)
    whole = clone(machine).fit(X, labels)
    first = clone(machine).partial_fit(X[:100], labels[:100], classes=["a", "b", "c"])
    for part in np.array_split(np.arange(len(X)), 9):
        machine.partial_fit(X[part], labels[part], classes=["a", "b", "c"])
    assert np.mean(machine.predict(X) == whole.predict(X)) > 0.97
    assert machine.score(X, labels) > first.score(X, labels)
    scores, exact = machine.decision_function(X), whole.decision_function(X)
    assert np.corrcoef(scores.ravel(), exact.ravel())[0, 1] > 0.98
    # one Newton step from zero is least squares on all rows of the batch
    assert_allclose(
        first.decision_function(X),
        CompactSVC(selection=given(X), refine=False, gamma=0.5, loss="least_squares")
        .partial_fit(X[:100], labels[:100], classes=["a", "b", "c"])
        .decision_function(X),
        atol=1e-10,
    )


def test_the_first_batch_chooses_the_basis(data):
    X, labels, _, _ = data
    machine = CompactSVC(n_basis=15, refine=False, loss="least_squares", random_state=0)
    machine.partial_fit(X[:300], labels[:300], classes=["a", "b", "c"])
    known = machine.basis_vectors_.copy()
    chosen = CompactSVC(n_basis=15, refine=False, loss="least_squares", random_state=0).fit(X[:300], labels[:300])
    assert_allclose(known, chosen.basis_vectors_, rtol=1e-12)
    gamma = machine.gamma_
    machine.partial_fit(X[300:], labels[300:])
    assert np.array_equal(machine.basis_vectors_, known)
    assert machine.gamma_ == gamma
    again = pickle.loads(pickle.dumps(machine))
    again.partial_fit(X[:50], labels[:50])
    machine.partial_fit(X[:50], labels[:50])
    assert np.array_equal(again.dual_coef_, machine.dual_coef_)


def test_a_batch_may_lack_classes(data):
    X, labels, _, _ = data
    order = np.argsort(labels, kind="stable")
    whole = FixedSizeLSSVC(selection=given(X), gamma=0.5, C=1.0).fit(X, labels)
    machine = FixedSizeLSSVC(selection=given(X), gamma=0.5, C=1.0)
    for part in np.array_split(order, 6):
        machine.partial_fit(X[part], labels[part], classes=["a", "b", "c"])
    assert_allclose(machine.decision_function(X), whole.decision_function(X), rtol=1e-8, atol=1e-8)


@pytest.mark.parametrize(
    "machine",
    [
        CompactSVC(),
        CompactSVC(refine=False, loss="hinge"),
        CompactSVC(refine=False, tune=True),
        CompactSVC(refine=False, n_basis="auto"),
        CompactSVC(refine=False, kernel="precomputed"),
        CompactSVC(refine=False, calibrate=True),
        CompactSVC(refine=False, class_weight="balanced"),
        CompactSVR(refine=False, loss="huber"),
        FixedSizeLSSVC(tune=True),
        FixedSizeLSSVC(coding="one_vs_one"),
        SpSVC(),
    ],
)
def test_only_where_the_loss_allows_it(machine):
    assert not hasattr(machine, "partial_fit")
    if not isinstance(machine, SpSVC):
        with pytest.raises(AttributeError) as found:
            machine.partial_fit([[0.0]], [1.0])
        assert "has no partial_fit here" in str(found.value)


def test_what_a_batch_must_be(data):
    X, labels, score, _ = data
    machine = CompactSVC(selection=given(X), refine=False)
    with pytest.raises(ValueError, match="first call to partial_fit"):
        machine.partial_fit(X, labels)
    with pytest.raises(ValueError, match="not among classes"):
        machine.partial_fit(X, labels, classes=["a", "b"])
    machine.partial_fit(X, labels, classes=["a", "b", "c"])
    with pytest.raises(ValueError, match="classes="):
        machine.partial_fit(X, labels, classes=["a", "b", "z"])
    with pytest.raises(ValueError, match="features"):
        machine.partial_fit(X[:, :2], labels)
    machine.fit(X, labels)
    assert not hasattr(machine, "n_rows_seen_")
    with pytest.raises(ValueError, match="y has 2 outputs"):
        CompactSVR(selection=given(X), refine=False).partial_fit(X, score).partial_fit(X, np.stack([score] * 2, 1))


def test_rows_of_weight_zero_are_left_out(data):
    X, _, score, _ = data
    machine = CompactSVR(selection=given(X), refine=False, gamma=0.5, random_state=0)
    machine.partial_fit(X[:500], score[:500])
    other = clone(machine).partial_fit(X, score, sample_weight=(np.arange(900) < 500).astype(float))
    assert_allclose(other.predict(X), machine.predict(X), atol=1e-9)
    with pytest.raises(ValueError, match="at least one non-zero"):
        machine.partial_fit(X, score, sample_weight=np.zeros(900))


@pytest.mark.parametrize("loss", ["least_squares", "squared_hinge"])
def test_batches_after_a_fit_use_its_basis_and_count_themselves_alone(loss, data):
    X, labels, _, _ = data
    machine = CompactSVC(n_basis=12, refine=Refinement(5), loss=loss, random_state=0).fit(X, labels)
    refined, before = machine.basis_vectors_.copy(), machine.dual_coef_.copy()
    machine.set_params(refine=False)
    n_batches = 4 if loss == "least_squares" else 1
    for part in np.array_split(np.arange(len(X)), n_batches):
        machine.partial_fit(X[part], labels[part])
    assert_allclose(machine.basis_vectors_, refined, rtol=1e-12, atol=1e-12)
    assert machine.n_rows_seen_ == len(X)
    assert len(machine.history_) == n_batches
    # all rows again: least squares does not mind batches, and a Newton step from the optimum goes nowhere
    assert_allclose(machine.dual_coef_, before, rtol=1e-5, atol=1e-5)


def test_batches_after_a_fit_in_the_input_space(data):
    X, _, score, _ = data
    whole = FixedSizeLSSVR(kernel="linear").fit(X, score)
    expected = whole.predict(X)
    whole.partial_fit(X[:500], score[:500]).partial_fit(X[500:], score[500:])
    assert_allclose(whole.predict(X), expected, rtol=1e-9)
