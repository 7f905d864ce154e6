"""The flagship as a scikit-learn citizen: inputs, cloning, pickling, routing, kernels, limits."""

import pickle

import joblib
import numpy as np
import pytest
import sklearn
from numpy.testing import assert_allclose
from scipy import sparse
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC
from tests.estimators.machines import plain

from kompakt import CompactSVC, CompactSVR
from kompakt.kernels import RBF
from kompakt.train.data import resolve_gamma

pd = pytest.importorskip("pandas")


def svc(**parameters):
    return plain(CompactSVC(**{"n_basis": 20, "selection": "random", "random_state": 0, **parameters}))


def svr(**parameters):
    return plain(CompactSVR(**{"n_basis": 20, "selection": "random", "random_state": 0, **parameters}))


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(400, 4)) * np.array([1.0, 1.0, 0.2, 0.2])
    score = np.sin(2 * X[:, 0]) + X[:, 1]
    return X, np.array(["low", "middle", "high"])[np.digitize(score, [-0.7, 0.7])], score


# -- inputs ------------------------------------------------------------------------------------------


def test_pandas_and_polars(data):
    polars = pytest.importorskip("polars")
    X, labels, score = data
    names = ["a", "b", "c", "d"]
    scaler = StandardScaler().fit(X)  # as a data frame's features are standardised
    expected = svc().fit(scaler.transform(X), labels)
    for frame, column in (
        (pd.DataFrame(X, columns=names), pd.Series(labels)),
        (polars.DataFrame(X, schema=names), polars.Series(labels.tolist())),
    ):
        machine = svc().fit(frame, column)
        assert list(machine.feature_names_in_) == names
        assert list(machine.model_.feature_names) == names
        assert_allclose(scaler.transform(machine.basis_vectors_), expected.basis_vectors_, atol=1e-9)
        assert_allclose(machine.dual_coef_, expected.dual_coef_, rtol=1e-6)
        assert np.array_equal(machine.predict(frame), expected.predict(scaler.transform(X)))
        regressor = svr().fit(frame, score)
        assert_allclose(regressor.predict(frame), svr().fit(scaler.transform(X), score).predict(scaler.transform(X)))


def test_wrong_names_and_numbers_of_features(data):
    X, labels, _ = data
    frame = pd.DataFrame(X, columns=["a", "b", "c", "d"])
    machine = svc().fit(frame, labels)
    with pytest.raises(ValueError, match="feature names"):
        machine.predict(frame[["b", "a", "c", "d"]])
    with pytest.raises(ValueError, match="now missing"):
        machine.predict(frame[["a", "b"]])
    with pytest.raises(ValueError, match="2 features"):
        svc().fit(X, labels).predict(X[:, :2])
    with pytest.raises(NotFittedError):
        svc().predict(X)


@pytest.mark.parametrize("kind", [sparse.csr_matrix, sparse.csr_array, sparse.coo_matrix])
def test_sparse_input(data, kind):
    X, labels, score = data
    X = np.where(np.abs(X) < 0.5, 0.0, X)
    dense, machine = svc().fit(X, labels), svc().fit(kind(X), labels)
    assert isinstance(machine.basis_vectors_, np.ndarray)
    assert_allclose(machine.basis_vectors_, dense.basis_vectors_)
    assert_allclose(machine.decision_function(kind(X)), dense.decision_function(X), atol=1e-8)
    assert_allclose(svr().fit(kind(X), score).predict(kind(X)), svr().fit(X, score).predict(X), atol=1e-8)


@pytest.mark.parametrize("make", [svc, svr])
@pytest.mark.parametrize("kind", [np.array, sparse.csr_matrix])
def test_inputs_and_parameters_are_left_alone(data, make, kind):
    X, _, score = data
    y = (score > 0).astype(float)
    weights = np.random.default_rng(1).integers(0, 3, len(X)).astype(float)
    given = kind(X)
    before = given.copy()
    copies = y.copy(), weights.copy()
    machine = make()
    parameters = machine.get_params()
    machine.fit(given, y, sample_weight=weights).predict(given)
    assert np.array_equal(given, before) if kind is np.array else (given != before).nnz == 0
    assert np.array_equal(y, copies[0])
    assert np.array_equal(weights, copies[1])
    assert machine.get_params() == parameters


def test_float32_stays_float32(data):
    X, labels, score = data
    single, double = svc().fit(X.astype(np.float32), labels), svc().fit(X.astype(np.float32).astype(float), labels)
    assert single.basis_vectors_.dtype == np.float32
    assert np.array_equal(single.basis_indices_, double.basis_indices_)
    assert_allclose(single.decision_function(X), double.decision_function(X), atol=1e-2)
    assert svr().fit(X.astype(np.float32), score).score(X, score) > 0.8


@pytest.mark.parametrize("offset", [1e3, 1e6])
def test_rows_far_from_the_origin(data, offset):
    X, labels, _ = data
    near, far = svc(selection=X[:20]).fit(X, labels), svc(selection=X[:20] + offset).fit(X + offset, labels)
    assert_allclose(far.decision_function(X + offset), near.decision_function(X), atol=1e-6)
    single = svc(selection=X[:20] + offset).fit((X + 1e3).astype(np.float32), labels) if offset == 1e3 else far
    assert np.mean(single.predict(X + offset) == near.predict(X)) > 0.99
    assert np.array_equal(far.model_.predict(X + offset), far.predict(X + offset))


# -- labels and outputs ------------------------------------------------------------------------------


def test_two_classes_with_string_labels(data):
    X, _, score = data
    y = np.where(score > 0, "yes", "no")
    machine = svc().fit(X, y)
    assert list(machine.classes_) == ["no", "yes"]
    values = machine.decision_function(X)
    assert values.shape == (400,)
    assert np.array_equal(machine.predict(X), np.where(values > 0, "yes", "no"))
    assert machine.score(X, y) > 0.9
    assert machine.dual_coef_.shape == (1, 20)


@pytest.mark.parametrize("coding", ["one_vs_rest", "one_vs_one", "minimum_output"])
def test_many_classes(data, coding):
    X, labels, _ = data
    machine = svc(coding=coding).fit(X, labels)
    assert list(machine.classes_) == ["high", "low", "middle"]
    values = machine.decision_function(X)
    assert values.shape == (400, 3)
    assert np.array_equal(machine.predict(X), machine.classes_[np.argmax(values, axis=1)])
    assert machine.score(X, labels) > 0.85
    assert np.array_equal(machine.model_.predict(X), machine.predict(X))


def test_outputs_of_one_vs_rest_are_binary_machines(data):
    X, labels, _ = data
    machine = svc().fit(X, labels)
    for output, label in enumerate(machine.classes_):
        binary = svc().fit(X, labels == label)
        assert_allclose(machine.decision_function(X)[:, output], binary.decision_function(X), atol=1e-7)


def test_several_regression_targets(data):
    X, _, score = data
    Y = np.column_stack([score, -2 * score])
    machine = svr().fit(X, Y)
    assert machine.predict(X).shape == (400, 2)
    assert_allclose(machine.predict(X)[:, 0], svr().fit(X, score).predict(X), atol=1e-8)
    assert svr().fit(X, score).predict(X).shape == (400,)


def test_class_weights(data):
    X, _, score = data
    y = (score > 1.0).astype(int)
    weights = {0: 1.0, 1: 7.5}
    by_class = svc(class_weight=weights).fit(X, y)
    by_row = svc().fit(X, y, sample_weight=np.where(y == 1, 7.5, 1.0))
    # "scale" sees sample weights but not class weights, as in scikit-learn
    fixed = {"gamma": 0.3}
    assert_allclose(
        svc(class_weight=weights, **fixed).fit(X, y).dual_coef_,
        svc(**fixed).fit(X, y, sample_weight=np.where(y == 1, 7.5, 1.0)).dual_coef_,
        rtol=1e-6,
    )
    assert by_class.gamma_ != by_row.gamma_
    balanced = {0: 400 / (2 * np.sum(y == 0)), 1: 400 / (2 * np.sum(y == 1))}
    assert_allclose(
        svc(class_weight="balanced").fit(X, y).dual_coef_, svc(class_weight=balanced).fit(X, y).dual_coef_, rtol=1e-6
    )
    for wrong in ("balance", {2: 1.0}, {0: -1.0}, [1.0, 2.0]):
        with pytest.raises(ValueError, match="class"):
            svc(class_weight=wrong).fit(X, y)


# -- fitted attributes -------------------------------------------------------------------------------


def test_fitted_attributes_make_up_the_decision(data):
    X, labels, _ = data
    machine = svc().fit(X, labels)
    assert np.array_equal(X[machine.basis_indices_], machine.basis_vectors_)
    assert machine.n_basis_ == 20 == len(machine.basis_vectors_)
    assert_allclose(machine.gamma_, 1.0 / (4 * X.var()), rtol=1e-10)
    K = rbf_kernel(X, machine.basis_vectors_, gamma=machine.gamma_)
    assert_allclose(K @ machine.dual_coef_.T + machine.intercept_, machine.decision_function(X), atol=1e-9)
    assert machine.converged_
    assert machine.n_iter_ >= 1
    assert machine.n_kernel_evals_ == 400 * 20 + 20 * 20
    assert machine.history_[-1]["n_basis"] == 20
    assert not hasattr(machine, "coef_")
    linear = svc(kernel="linear", n_basis=4).fit(X, labels)
    assert_allclose(X @ linear.coef_.T + linear.intercept_, linear.decision_function(X), atol=1e-7)


def test_more_vectors_than_rows_and_given_vectors(data):
    X, labels, _ = data
    doubled = np.concatenate([X[:30], X[:30]])
    machine = svc(n_basis=100).fit(doubled, np.concatenate([labels[:30], labels[:30]]))
    assert machine.n_basis_ == 30, "equal rows count once"
    given = np.random.default_rng(1).normal(size=(7, 4))
    own = svc(selection=given).fit(X, labels)
    assert own.basis_indices_ is None
    assert_allclose(own.basis_vectors_, given, rtol=1e-12, atol=1e-14)
    with pytest.raises(ValueError, match=r"shape \(m, 4\)"):
        svc(selection=given[:, :3]).fit(X, labels)


def test_exact_machine_when_every_row_is_a_basis_vector(data):
    """The squared hinge with all rows is the SVM of scikit-learn with 1 / C on the diagonal of the kernel."""
    X, _, score = data
    X, y = X[:120], score[:120] > 0
    C, K = 2.0, rbf_kernel(X, gamma=0.5)
    exact = SVC(kernel="precomputed", C=1e10, tol=1e-10).fit(K + np.eye(120) / C, y)
    machine = svc(n_basis=1000, gamma=0.5, C=C).fit(X, y)
    assert_allclose(
        machine.decision_function(X), K[:, exact.support_] @ exact.dual_coef_[0] + exact.intercept_, atol=1e-5
    )


# -- scikit-learn's machinery ------------------------------------------------------------------------


@pytest.mark.parametrize("make", [svc, svr])
def test_clone_pickle_and_joblib(data, make, tmp_path):
    X, _, score = data
    machine = make(kernel=RBF(0.3)).fit(X, score > 0)
    copy = clone(machine)
    assert not hasattr(copy, "model_")
    assert copy.fit(X, score > 0).dual_coef_.tobytes() == machine.dual_coef_.tobytes()
    path = tmp_path / "machine.joblib"
    joblib.dump(machine, path)
    for again in (pickle.loads(pickle.dumps(machine)), joblib.load(path)):
        assert np.array_equal(again.predict(X), machine.predict(X))


def test_several_processes_and_threads(data):
    X, labels, _ = data
    expected = cross_val_score(svc(), X, labels, cv=3)
    assert np.array_equal(cross_val_score(svc(n_jobs=2), X, labels, cv=3), expected)
    with joblib.parallel_config("threading", n_jobs=3):
        assert np.array_equal(cross_val_score(svc(n_jobs=2), X, labels, cv=3), expected)


def test_metadata_routing(data):
    X, _, score = data
    y = (score > 0).astype(int)
    weights = np.random.default_rng(1).integers(0, 3, len(X)).astype(float)
    with sklearn.config_context(enable_metadata_routing=True):
        machine = svc(gamma=0.3).set_fit_request(sample_weight=True).set_score_request(sample_weight=True)
        pipeline = make_pipeline(StandardScaler().set_fit_request(sample_weight=False), machine)
        routed = pipeline.fit(X, y, sample_weight=weights)[-1]
        alone = svc(gamma=0.3).fit(StandardScaler().fit_transform(X), y, sample_weight=weights)
        assert_allclose(routed.dual_coef_, alone.dual_coef_, rtol=1e-9)
        search = GridSearchCV(pipeline, {"compactsvc__C": [0.1, 10.0]}, cv=2).fit(X, y, sample_weight=weights)
        best = clone(pipeline).set_params(**search.best_params_).fit(X, y, sample_weight=weights)
        assert_allclose(search.best_estimator_[-1].dual_coef_, best[-1].dual_coef_, rtol=1e-9)
        refusing = make_pipeline(StandardScaler().set_fit_request(sample_weight=True), svc())
        with pytest.raises(sklearn.exceptions.UnsetMetadataPassedError, match="sample_weight"):
            refusing.fit(X, y, sample_weight=weights)


def test_html_representation(data):
    X, labels, _ = data
    for machine in (svc(), svc().fit(X, labels), svr()):
        html = machine._repr_html_()
        assert type(machine).__name__ in html
        assert "n_basis" in html


# -- kernels -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [np.asarray, sparse.csr_matrix])
def test_precomputed_kernel(data, kind):
    X, labels, _ = data
    gamma, train, test = 0.3, X[:300], X[300:]
    K = rbf_kernel(train, gamma=gamma)
    machine = svc(kernel="precomputed", n_basis=15).fit(kind(K), labels[:300])
    chosen = machine.basis_indices_
    assert machine.basis_vectors_ is None
    same = svc(selection=train[chosen], gamma=gamma).fit(train, labels[:300])
    cross = rbf_kernel(test, train, gamma=gamma)
    assert_allclose(machine.decision_function(kind(cross)), same.decision_function(test), atol=1e-7)
    with pytest.raises(ValueError, match="square kernel matrix"):
        svc(kernel="precomputed").fit(K[:, :200], labels[:300])
    weights = np.where(np.arange(300) % 3 == 0, 0.0, 1.0)
    some = svc(kernel="precomputed", selection="all", n_basis=300).fit(kind(K), labels[:300], sample_weight=weights)
    kept = weights > 0
    alone = svc(kernel="precomputed", selection="all", n_basis=300).fit(kind(K[kept][:, kept]), labels[:300][kept])
    assert set(some.basis_indices_) == set(np.flatnonzero(kept))
    assert_allclose(some.decision_function(kind(cross)), alone.decision_function(kind(cross[:, kept])), atol=1e-7)
    path = CompactSVC("auto", kernel="precomputed", refine=False, random_state=0).fit(kind(K), labels[:300])
    named = CompactSVC("auto", gamma=gamma, refine=False, random_state=0).fit(train, labels[:300])
    assert abs(path.n_basis_ - named.n_basis_) <= 5, "parts of the rows keep their columns"
    scores = cross_val_score(svc(kernel="precomputed"), K, labels[:300], cv=3)
    assert scores.mean() > 0.8, "scikit-learn's splitters cut rows and columns alike"


def test_callable_kernel(data):
    X, labels, score = data
    own = svc(kernel=lambda A, B: rbf_kernel(A, B, gamma=0.3)).fit(X, labels)
    named = svc(gamma=0.3).fit(X, labels)
    assert np.array_equal(own.basis_indices_, named.basis_indices_)
    assert_allclose(own.decision_function(X), named.decision_function(X), atol=1e-7)
    assert svr(kernel=lambda A, B: rbf_kernel(A, B, gamma=0.3), C=10.0).fit(X, score).score(X, score) > 0.9


def test_a_callable_kernel_that_uses_a_machine_does_not_hang(data):
    X, labels, score = data
    inner = svr(n_jobs=2).fit(X, score)
    X = np.tile(X, (20, 1))

    def kernel(A, B):
        return np.outer(inner.predict(A), inner.predict(B)) + rbf_kernel(A, B, gamma=0.3)

    machine = svc(kernel=kernel, n_jobs=2).fit(X, np.tile(labels, 20))
    assert machine.score(X, np.tile(labels, 20)) > 0.8


@pytest.mark.parametrize(
    "words",
    [
        {"kernel": "laplacian"},
        {"kernel": "poly", "degree": 2, "coef0": 1.0},
        {"kernel": "linear"},
        {"kernel": RBF(np.array([0.5, 0.5, 0.01, 0.01]))},
        {"gamma": np.array([0.5, 0.5, 0.01, 0.01])},
        {"gamma": "auto"},
        {"kernel": 1 + RBF(0.3)},
    ],
)
def test_other_kernels(data, words):
    X, labels, _ = data
    machine = svc(C=10.0, **words).fit(X, labels)
    assert machine.score(X, labels) > 0.7
    K = machine.kernel_.block(X, machine.basis_vectors_)
    assert_allclose(K @ machine.dual_coef_.T + machine.intercept_, machine.decision_function(X), atol=1e-6)


# -- limits and messages -----------------------------------------------------------------------------


def test_limits_warn_with_their_cause(data):
    X, labels, _ = data
    with pytest.warns(ConvergenceWarning, match="max_iter=1 iterations were done"):
        machine = svc(max_iter=1, C=1e6).fit(X, labels)
    assert not machine.converged_
    with pytest.warns(ConvergenceWarning, match="max_time=1e-09 seconds are over"):
        late = svc(max_time=1e-9).fit(X, labels)
    assert late.predict(X).shape == (400,)


def test_a_small_memory_budget_recomputes_and_gives_the_same(data):
    X, labels, score = data
    for make, y in ((svc, labels), (svr, score)):
        stored, recomputed = make().fit(X, y), make(memory_budget=1000).fit(X, y)
        assert recomputed.n_kernel_evals_ > stored.n_kernel_evals_
        assert_allclose(recomputed.dual_coef_, stored.dual_coef_, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ({"C": 0.0}, "C must be None or a positive"),
        ({"C": np.inf}, "C must be None or a positive"),
        ({"tol": -1}, "tol must be"),
        ({"max_iter": 0}, "max_iter must be a whole number"),
        ({"n_basis": 0}, "n_basis must be a whole number"),
        ({"n_basis": True}, "n_basis must be a whole number"),
        ({"n_basis": 2.5}, "n_basis must be a whole number"),
        ({"max_time": -1.0}, "max_time must be"),
        ({"memory_budget": 1.5}, "memory_budget must be"),
        ({"memory_budget": -1}, "memory_budget must be"),
        ({"n_jobs": 0}, "n_jobs must be"),
        ({"n_jobs": "two"}, "n_jobs must be"),
        ({"gamma": -1.0}, "gamma must be .* a positive number"),
        ({"gamma": "scales"}, "gamma must be"),
        ({"gamma": np.ones(3)}, "4 numbers"),
        ({"gamma": np.ones((4, 4))}, "gamma must be .* a positive number or one per feature"),
        ({"gamma": np.array([1.0, 1.0, -1.0, 1.0])}, "gamma must be .* a positive number or one per feature"),
        ({"gamma": np.array([1.0, np.nan, 1.0, 1.0])}, "gamma must be .* a positive number or one per feature"),
        ({"gamma": np.inf}, "gamma must be .* a positive number or one per feature"),
        ({"kernel": "rfb"}, "kernel must be one of"),
        ({"loss": "hing"}, "loss must be one of"),
        ({"coding": "ovr"}, "coding"),
        ({"selection": "randon"}, "selection must be"),
    ],
)
def test_wrong_parameters_are_named_with_what_was_given(data, words, message):
    X, labels, _ = data
    value = next(iter(words.values()))
    with pytest.raises(ValueError, match=message) as caught:
        svc(**words).fit(X, labels)
    assert str(value) in str(caught.value) or repr(value) in str(caught.value) or np.ndim(value)


def test_a_kernel_without_derivatives_is_refused_before_the_work_begins(data):
    class Selects:
        def select(self, data, spec, n_basis, run):
            raise AssertionError("the work has begun")

    X, labels, _ = data
    with pytest.raises(TypeError, match="needs derivatives"):
        CompactSVC(n_basis=5, kernel=lambda A, B: A @ B.T, selection=Selects(), refine=True).fit(X, labels)


def test_widths_that_have_a_name():
    X = np.array([[1.0, 2.0], [3.0, 6.0], [5.0, 4.0]])
    assert resolve_gamma("scale", X, None) == pytest.approx(1.0 / (2 * X.var()), rel=1e-12)
    weights = np.array([1.0, 2.0, 1.0])
    assert resolve_gamma("scale", X, weights) == pytest.approx(1.0 / (2 * np.repeat(X, [1, 2, 1], axis=0).var()))
    assert resolve_gamma("scale", np.ones((3, 2)), None) == 1.0  # nothing to measure a width by
    assert resolve_gamma("auto", X, None) == 0.5
    assert resolve_gamma("scale", X, None, kernel="linear") == 1.0
    np.testing.assert_array_equal(resolve_gamma([1.0, 2.0], X, None), [1.0, 2.0])


def test_rows_of_weight_zero_are_left_out(data):
    X, labels, _ = data
    weights = np.where(np.arange(400) % 3 == 0, 0.0, np.where(np.arange(400) % 2, 0.5, 2.0))
    kept = np.flatnonzero(weights)
    whole = svc(refine=False).fit(X, labels, sample_weight=weights)
    part = svc(refine=False).fit(X[kept], labels[kept], sample_weight=weights[kept])
    np.testing.assert_array_equal(whole.basis_indices_, kept[part.basis_indices_])
    np.testing.assert_array_equal(whole.dual_coef_, part.dual_coef_)
    with pytest.raises(ValueError, match="requires y to be passed, but the target y is None"):
        svc().fit(X, None)


def test_rows_of_weight_zero_are_left_out_of_a_precomputed_matrix(data):
    X, labels, _ = data
    y, K = labels == labels[0], RBF(0.5).gram(X)
    weights = np.where(np.arange(400) % 3 == 0, 0.0, 1.0)
    machine = CompactSVC(n_basis=8, kernel="precomputed", refine=False, random_state=0).fit(K, y, sample_weight=weights)
    assert np.all(weights[machine.basis_indices_] > 0)
    values = K[:, machine.basis_indices_] @ machine.dual_coef_.ravel() + machine.intercept_[0]
    np.testing.assert_allclose(machine.decision_function(K), values, atol=1e-10)


def test_wrong_data_are_refused(data):
    X, labels, _ = data
    with pytest.raises(ValueError, match="greater than one"):
        svc().fit(X, np.zeros(400))
    with pytest.raises(ValueError, match="zero"):
        svc().fit(X, labels, sample_weight=np.zeros(400))
    with pytest.raises(ValueError, match=r"[Nn]egative"):
        svc().fit(X, labels, sample_weight=-np.ones(400))


@pytest.mark.parametrize("make", [svc, svr])
@pytest.mark.parametrize("kernel", ["rbf", "poly", "linear"])
def test_entries_that_cannot_be_squared_are_refused(data, make, kernel):
    X, _, score = data
    machine, y = make(kernel=kernel), score > 0
    for given in (X * 1e200, sparse.csr_matrix(X * 1e200), (X * 1e20).astype(np.float32)):
        with pytest.raises(ValueError, match=r"too large to be squared.* Scale the inputs"):
            machine.fit(given, y)
    for given in (X * 1e-200, (X * 1e-20).astype(np.float32)):
        with pytest.raises(ValueError, match="too small to be squared"):
            machine.fit(given, y)
    if kernel == "rbf":
        for scale, dtype in ((1e-100, float), (1e100, float), (1e-12, np.float32), (1e12, np.float32)):
            given = (X * scale).astype(dtype)
            assert np.mean((machine.fit(given, y).predict(given) > 0.5) == y) > 0.85


def test_the_cost_of_regression_comes_from_the_data():
    """A clean curve wants to be followed closely, pure noise does not; C=1.0 is neither."""
    rng = np.random.default_rng(0)
    X, X_new = rng.uniform(-3, 3, size=(300, 2)), rng.uniform(-3, 3, size=(300, 2))
    clean, expected = (np.sin(2 * inputs[:, 0]) * np.cos(inputs[:, 1]) for inputs in (X, X_new))
    machine = CompactSVR(30, refine=False, random_state=0).fit(X, clean)
    assert machine.C_ > 10
    assert machine.score(X_new, expected) > clone(machine).set_params(C=1.0).fit(X, clean).score(X_new, expected)
    noise = clean + 2.0 * rng.normal(size=300)
    assert clone(machine).fit(X, noise).C_ < machine.C_


def test_refinement_of_regression_does_not_depend_on_the_unit_of_the_targets():
    """Outputs on held-out rows are kept along the descent: large numbers are not cut off."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 3))
    y = np.sin(X[:, 0]) + 0.1 * rng.normal(size=300)
    machine = CompactSVR(20, random_state=0).fit(X, y)
    large = clone(machine).fit(X, 1e49 * y)  # no warning of numbers that overflow
    assert machine.refinement_["kept"]
    assert large.refinement_["kept"]
    assert large.score(X, 1e49 * y) == pytest.approx(machine.score(X, y), abs=0.005)
