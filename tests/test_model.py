"""The frozen model: it decides from its parts alone."""

import decimal
import math
import tracemalloc
from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import sparse

import kompakt
from kompakt import FEESVC, CompactSVC, CompactSVR, Model, Refinement
from kompakt.codings import get_coding
from kompakt.inputs import Inputs
from kompakt.kernels import RBF, Laplacian, Linear, Polynomial, Product, Sum

RNG = np.random.default_rng(0)
X = RNG.normal(size=(50, 3))
BASIS = RNG.normal(size=(4, 3))


def model_of(L=1, kind="regressor", **more):
    weights = np.random.default_rng(1).normal(size=(4, L))
    return Model(RBF(0.5), BASIS, weights, np.arange(L, dtype=float), kind, n_features=3, **more)


def naive(model, X):
    K = np.exp(-0.5 * np.sum((X[:, None] - BASIS) ** 2, axis=2))
    return K @ model.weights + model.intercept


def test_outputs_with_and_without_a_numerical_centre():
    plain, centred = model_of(L=2), model_of(L=2, inputs=Inputs(centre=np.array([0.3, -1.0, 2.0])))
    for model in (plain, centred):
        assert_allclose(model.outputs(X), naive(model, X), rtol=1e-11, atol=1e-13)
        assert_allclose(model.outputs(sparse.csr_matrix(X)), naive(model, X), rtol=1e-11, atol=1e-13)
        assert_allclose(model.outputs(X.astype(np.float32)), naive(model, X), atol=1e-5)
        assert model.outputs(X[:0]).shape == (0, 2)
    many = np.tile(X, (400, 1))
    assert_allclose(plain.predict(many), naive(plain, many), rtol=1e-11, atol=1e-13, err_msg="several blocks")
    whole = model_of(L=2).predict((10 * X).astype(int))
    assert_allclose(whole, naive(plain, (10 * X).astype(int).astype(float)), rtol=1e-10, atol=1e-13)


def test_input_shift_scale_and_fill():
    shift, scale, fill = np.array([1.0, 2.0, 3.0]), np.array([2.0, 0.5, 1.0]), np.array([1.0, 2.0, 3.0])
    model = model_of(inputs=Inputs(shift=shift, scale=scale, fill=fill))
    raw = X * scale + shift
    assert_allclose(model.predict(raw), naive(model, X)[:, 0], rtol=1e-10, atol=1e-12)
    assert_allclose(model.basis_vectors_, BASIS * scale + shift)
    holes, filled = raw.copy(), X.copy()
    holes[::7, 1], filled[::7, 1] = np.nan, 0.0
    assert_allclose(model.predict(holes), naive(model, filled)[:, 0], rtol=1e-10, atol=1e-12)
    assert np.isnan(holes[0, 1]), "the input is left alone"
    stored = sparse.csr_matrix(holes)
    assert_allclose(model.predict(stored), naive(model, filled)[:, 0], rtol=1e-10, atol=1e-12, err_msg="stored NaN")
    assert np.isnan(stored.data).any(), "the sparse input is left alone"
    only_scale = model_of(inputs=Inputs(scale=scale))
    assert_allclose(only_scale.predict(sparse.csr_matrix(X * scale)), naive(model, X)[:, 0], rtol=1e-10, atol=1e-12)


def test_labels():
    two = model_of(kind="classifier", classes=np.array(["no", "yes"]))
    values = two.decision_function(X)
    assert values.shape == (50,)
    assert np.array_equal(two.predict(X), np.where(values > 0, "yes", "no"))
    three = model_of(L=3, kind="classifier", classes=np.array([3, 5, 9]), coding="one_vs_rest")
    assert np.array_equal(three.predict(X), np.array([3, 5, 9])[np.argmax(three.decision_function(X), axis=1)])
    outlier = model_of(kind="outlier")
    assert set(np.unique(outlier.predict(X))) <= {-1, 1}
    assert outlier.decision_function(X).shape == (50,)


def test_probabilities():
    calibration = {"a": np.array([-2.0]), "b": np.array([0.5])}
    two = model_of(kind="classifier", classes=np.array([0, 1]), calibration=calibration)
    expected = 1.0 / (1.0 + np.exp(-2.0 * two.decision_function(X) + 0.5))
    assert_allclose(two.predict_proba(X)[:, 1], expected, rtol=1e-10)
    each = {"a": -np.ones(3), "b": np.zeros(3)}
    three = model_of(L=3, kind="classifier", classes=np.arange(3), coding="one_vs_rest", calibration=each)
    assert_allclose(three.predict_proba(X).sum(axis=1), 1.0)
    for model in (two, three):
        assert_allclose(model.predict_log_proba(X), np.log(model.predict_proba(X)), rtol=1e-10, atol=1e-14)
    for method in ("predict_proba", "predict_log_proba"):
        with pytest.raises(AttributeError, match="no calibration"):
            getattr(model_of(), method)(X)


def test_logarithms_of_probabilities_that_vanish_are_finite():
    steep = {"a": np.array([-1e4]), "b": np.zeros(1)}
    two = model_of(kind="classifier", classes=np.array([0, 1]), calibration=steep)
    logs, scores = two.predict_log_proba(X), two.decision_function(X)
    assert np.min(two.predict_proba(X)) == 0.0
    assert np.isfinite(logs).all()
    assert_allclose(logs.min(axis=1), -1e4 * np.abs(scores), rtol=1e-10)
    each = {"a": -1e4 * np.ones(3), "b": np.zeros(3)}
    three = model_of(L=3, kind="classifier", classes=np.arange(3), coding="one_vs_rest", calibration=each)
    assert np.isfinite(three.predict_log_proba(X)).all()
    assert_allclose(np.exp(three.predict_log_proba(X)), three.predict_proba(X), atol=1e-12)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"kind": "ranker"}, "kind must be one of"),
        ({"basis": BASIS[:3]}, "do not fit"),
        ({"intercept": np.zeros(2)}, "do not fit"),
        ({"classes": np.arange(2)}, "only a classifier"),
        ({"kind": "classifier"}, "needs classes"),
    ],
)
def test_parts_that_do_not_fit(change, message):
    parts = {"kernel": Linear(), "basis": BASIS, "weights": np.ones((4, 1)), "intercept": np.zeros(1)}
    parts |= {"kind": "regressor", "n_features": 3}
    with pytest.raises(ValueError, match=message):
        Model(**{**parts, **change})


def test_rows_that_do_not_fit():
    for model in (model_of(), model_of(inputs=Inputs(shift=np.zeros(3))), model_of(inputs=Inputs(scale=np.ones(3)))):
        for given in (X[:, :2], sparse.csr_matrix(X[:, :2])):
            with pytest.raises(ValueError, match=r"2 features.* expects 3"):
                model.predict(given)
    with pytest.raises(ValueError, match="two dimensions"):
        model_of().predict(X[0])
    with pytest.raises(AttributeError, match="no classes"):
        model_of().classes_


def test_the_text_of_a_model_is_one_short_line():
    d = 2000
    large = Model(
        1 + RBF(np.linspace(0.1, 3.0, d)), np.zeros((300, d)), np.zeros((300, 30)), np.zeros(30), "classifier",
        n_features=d, classes=np.array([f"class {number} {'x' * 100}" for number in range(30)]),
        inputs=Inputs(shift=np.ones(d), scale=np.ones(d), fill=np.zeros(d)),
        calibration={"a": np.ones(30), "b": np.zeros(30)},
    )  # fmt: skip
    text = repr(large)
    assert len(text) < 500
    assert "\n" not in text
    for fact in (
        "classifier", "RBF(gamma=[2,000 numbers from 0.1 to 3])", "300 vectors", "2,000 features",
        "30 classes (class 0", "scales its inputs", "fills missing values", "calibrated",
    ):  # fmt: skip
        assert fact in text
    assert repr(model_of(L=2)) == "<Model: regressor, RBF(gamma=0.5), 4 vectors, 3 features, 2 outputs>"


def test_what_a_fit_leaves_behind_prints_shortly():
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(60, 20))
    labels = rows[:, 0] > 0
    sized = CompactSVC("auto", max_iter=5, random_state=0).fit(rows, labels)
    searched = FEESVC(2, tune=True, cv=2, random_state=0).fit(rows, labels)
    for record in (sized.model_, sized.size_path_, searched.search_):
        assert len(repr(record)) < 300
        assert "array(" not in repr(record)


def test_few_rows_and_many_give_the_same_outputs_and_errors():
    """Few rows take a short way: the same numbers, and the same refusals."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(3000, 5))
    model = CompactSVC(30, random_state=0, refine=Refinement(2)).fit(X, X[:, 0] * X[:, 1] > 0).model_
    for dtype, tolerance in ((np.float64, 1e-12), (np.float32, 1e-4)):
        many = model.decision_function(X.astype(dtype))
        few = [model.decision_function(X[[i]].astype(dtype))[0] for i in range(20)]
        assert_allclose(few, many[:20], atol=tolerance * np.abs(many).max())
    assert model.predict(X[:1].tolist()) == model.predict(X)[:1]
    assert model.predict(X[:0]).shape == (0,)
    for rows, message in (
        (X[:1, :3], "features"),
        (X[0], "two dimensions"),
        (np.full((1, 5), np.nan), "NaN"),
        (X[:1] + 1j, "complex"),
    ):
        with pytest.raises(ValueError, match=message):
            model.predict(rows)


@pytest.mark.parametrize("coding", ["one_vs_rest", "one_vs_one"])
@pytest.mark.parametrize("dtype", [np.float32, np.int16])
def test_prediction_takes_little_memory_beside_rows_and_result(coding, dtype):
    rng = np.random.default_rng(0)
    d, k, n = 20, 10, 150_000
    L = get_coding(coding).n_outputs(k)
    more = {"inputs": Inputs(shift=np.ones(d), scale=np.full(d, 2.0), fill=np.zeros(d))}
    arrays = rng.normal(size=(5, d)), rng.normal(size=(5, L)), rng.normal(size=L)
    model = Model(RBF(0.1), *arrays, "classifier", d, np.arange(k), coding, **more)
    X = rng.integers(-5, 6, size=(n, d)).astype(dtype)
    expected = model.decision_function(X[:3000])
    tracemalloc.start()
    try:
        for method in (model.predict, model.decision_function):
            tracemalloc.reset_peak()
            before = tracemalloc.get_traced_memory()[0]
            result = method(X)
            assert tracemalloc.get_traced_memory()[1] - before < result.nbytes + 20e6
    finally:
        tracemalloc.stop()
    np.testing.assert_allclose(result[:3000], expected, rtol=1e-12)


def test_the_first_bad_row_is_named_wherever_it_is():
    model = Model(RBF(0.1), np.ones((40, 2)), np.ones((40, 1)), np.zeros(1), "regressor", 2)
    X = np.zeros((5000, 2))
    X[[4001, 4500], 1] = np.nan
    with pytest.raises(ValueError, match="first in row 4001"):
        model.predict(X)


def test_score_is_that_of_the_estimators(tmp_path):
    rng = np.random.default_rng(0)
    weight = rng.integers(0, 4, len(X))
    signs = np.where(X[:, 0] + rng.normal(size=len(X)) > 0, "yes", "no")
    several = np.c_[X[:, 0] ** 2, np.sin(X[:, 1])]
    for machine, y in ((CompactSVC, signs), (CompactSVR, several), (CompactSVR, several[:, 0])):
        fitted = machine(4, refine=False, random_state=0).fit(X, y)
        kompakt.save(fitted, tmp_path / "m.kompakt")
        model = kompakt.load(tmp_path / "m.kompakt")
        assert model.score(X, y) == pytest.approx(fitted.score(X, y))
        assert 0.0 < model.score(X, y) < 1.0
        assert model.score(X, y, weight) == pytest.approx(fitted.score(X, y, weight))
    with pytest.raises(AttributeError, match="no score"):
        model_of(kind="outlier").score(X, np.ones(len(X)))


@pytest.mark.parametrize("task", ["outputs", "classes"])
def test_a_loaded_model_gives_the_same_bits_for_every_row(task, tmp_path):
    rng = np.random.default_rng(3)
    rows = rng.normal(size=(200, 4))
    if task == "outputs":
        machine = CompactSVR(15, refine=False, random_state=0).fit(rows, rows @ rng.normal(size=(4, 5)))
    else:
        machine = CompactSVC(15, refine=False, random_state=0).fit(rows, rng.integers(0, 5, 200))
    kompakt.save(machine, tmp_path / "m.kompakt")
    back = kompakt.load(tmp_path / "m.kompakt")
    for name in ("basis", "weights", "intercept"):
        for model in (machine.model_, back):
            assert getattr(model, name).flags.c_contiguous
    for number in range(200):
        one = rows[number : number + 1]
        assert np.array_equal(machine.model_.outputs(one), back.outputs(one))


def test_rows_in_fortran_order_give_the_same_bits():
    rng = np.random.default_rng(4)
    rows, targets = rng.normal(size=(150, 5)), rng.normal(size=150)
    machines = [CompactSVR(8, random_state=0).fit(given, targets) for given in (rows, np.asfortranarray(rows))]
    assert np.array_equal(machines[0].basis_vectors_, machines[1].basis_vectors_)
    assert np.array_equal(machines[0].predict(rows), machines[1].predict(np.asfortranarray(rows)))
    assert np.array_equal(machines[0].predict(rows), machines[0].predict(np.repeat(rows, 2, axis=1)[:, ::2]))


FAR = [
    (Polynomial(0.1, 1.0, 3), np.float64, 1e104),
    (Polynomial(0.1, 1.0, 3), np.float32, 1e14),
    (Polynomial(0.1, 1.0, 9), np.float32, 1e6),
    (RBF(0.5), np.float64, 1e308),
    (RBF(0.5), np.float32, 1e38),
    (RBF(1e-300), np.float64, 1e308),
    (RBF(np.array([0.5, 0.0, 2.0])), np.float64, 1e308),
    (Linear() + RBF(0.5), np.float64, 1e308),
    (RBF(0.5) * Polynomial(0.1, 1.0, 3), np.float32, 1e13),
    (Laplacian(0.5), np.float64, 1e308),
]


@pytest.mark.parametrize("change", [{}, {"scale": np.full(3, 1e-4)}, {"map": np.array([[1.0, -1, 1]] * 3)}])
@pytest.mark.parametrize(("kernel", "dtype", "number"), FAR, ids=lambda value: getattr(value, "__name__", str(value)))
def test_finite_rows_give_finite_outputs_or_an_error_that_names_the_row(kernel, dtype, number, change):
    model = Model(kernel, BASIS, np.ones((4, 3)), np.ones(3), "regressor", 3, inputs=Inputs(**change), squeeze=False)
    rows = np.tile(X, (60, 1)).astype(dtype)
    rows[2500, 1] = number
    exact = mp_outputs(model, rows[2500])
    for given in (rows, sparse.csr_matrix(rows), np.asfortranarray(rows)):
        try:
            assert_allclose(model.outputs(given)[2500], exact, rtol=1e-4)
            continue
        except ValueError as error:
            refusal = str(error)
        assert "The outputs of row 2500 are not finite" in refusal
        # a sum with a linear kernel, and a width for numbers of 1e150, are not computed as far as float64 goes
        assert abs(exact) > 1e290 or kernel.name == "sum" or np.min(kernel.gamma) == 1e-300


def mp_outputs(model, row):
    """An output in decimal numbers without bounds."""
    exact = decimal.Context(prec=60, Emax=decimal.MAX_EMAX, Emin=decimal.MIN_EMIN)
    with decimal.localcontext(exact):
        number = decimal.Decimal
        x = [number(float(value)) for value in row]
        if model.inputs.scale is not None:
            x = [value / number(float(scale)) for value, scale in zip(x, model.inputs.scale, strict=True)]
        if model.inputs.map is not None:
            x = [sum(number(float(a)) * value for a, value in zip(line, x, strict=True)) for line in model.inputs.map]

        def value(kernel, z):
            pairs = list(zip(x, z, strict=True))
            if isinstance(kernel, Sum):
                return sum(value(part, z) for part in kernel.parts)
            if isinstance(kernel, Product):
                return math.prod(value(part, z) for part in kernel.parts)
            product = sum(a * b for a, b in pairs)
            if isinstance(kernel, Linear):
                return product
            if isinstance(kernel, Polynomial):
                return (number(kernel.gamma) * product + number(kernel.coef0)) ** kernel.degree
            if isinstance(kernel, Laplacian):
                return (-number(kernel.gamma) * sum(abs(a - b) for a, b in pairs)).exp()
            gammas = np.broadcast_to(kernel.gamma, 3)
            return (-sum(number(float(g)) * (a - b) ** 2 for g, (a, b) in zip(gammas, pairs, strict=True))).exp()

        total = number(1) + sum(value(model.kernel, [number(float(one)) for one in z]) for z in model.basis)
    return float(total)


def test_one_row_among_streamed_and_dask_rows_is_named(tmp_path):
    machine = CompactSVC(5, kernel="poly", degree=3, gamma=1.0, refine=False, random_state=0).fit(X, X[:, 0] > 0)
    rows = np.tile(X, (2000, 1))
    rows[70_001, 2] = 1e120
    np.save(tmp_path / "rows.npy", rows)
    with pytest.raises(ValueError, match=r"outputs of row 70001 of .*rows\.npy are not finite"):
        machine.predict(kompakt.open_rows(tmp_path / "rows.npy"))
    array = pytest.importorskip("dask.array")
    with pytest.raises(ValueError, match="outputs of row 1 of a partition are not finite"):
        machine.predict(array.from_array(rows, chunks=(10_000, 3))).compute()
    projection = kompakt.GreedyProjection(5, kernel="poly", gamma=1.0).fit(X)
    with pytest.raises(ValueError, match="outputs of row 70001 are not finite"):
        projection.transform(rows)


def test_values_of_logarithms(tmp_path):
    model = Model(Linear(), np.eye(2), np.array([[1.0], [-1.0]]), np.array([0.5]), "regressor", 2, link="log")
    X = np.array([[1.0, 0.0], [0.0, 2.0], [1e4, 0.0]])
    assert model.predict(X)[:2] == pytest.approx(np.exp([1.5, -1.5]))
    assert np.isfinite(model.predict(X)).all()
    kompakt.save(model, tmp_path / "m")
    loaded = kompakt.load(tmp_path / "m")
    assert (loaded.link, loaded.predict(X).tolist()) == ("log", model.predict(X).tolist())
    with pytest.raises(ValueError, match="link must be one of"):
        replace(model, link="logit")
    with pytest.raises(ValueError, match="the first unless for a regressor"):
        replace(model, kind="outlier")
