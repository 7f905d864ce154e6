"""What a report says of columns and cases is what the model does."""

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import load_iris, make_moons

import kompakt
from kompakt import CompactSVC, CompactSVR
from kompakt.cli.main import main
from kompakt.kernels import Linear
from kompakt.reporting import explain
from kompakt.reporting.measure import features_by_relevance, relevance_of, reliability, subject_of

pytest.importorskip("matplotlib", reason="reports need the extra report")
pytest.importorskip("jinja2", reason="reports need the extra report")


def table_of(n, seed=0):
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame({
        "noise": rng.normal(size=n), "city": rng.choice(["Rome", "Oslo", "Lima"], n), "age": rng.integers(18, 80, n),
        "day": pd.to_datetime("2022-01-01") + pd.to_timedelta(rng.integers(0, 700, n), unit="D"),
    })  # fmt: skip
    return frame, frame["age"] + 30.0 * (frame["city"] == "Oslo") + rng.normal(0, 2, n)


def explained(machine, X, y):
    subject = subject_of(machine, X, y, 10_000, 0)
    columns = explain.columns_of_subject(subject, X)
    relevant = features_by_relevance(subject, relevance_of(subject))
    return subject, columns, explain.importance(subject, columns, relevant, 0)


@pytest.fixture(scope="module")
def fitted():
    frame, price = table_of(300)
    return CompactSVR(30, refine=False, random_state=0).fit(frame, price)


def test_importance_is_of_the_columns_of_the_table(fitted):
    frame, price = table_of(200, seed=1)
    subject, columns, importance = explained(fitted, frame, price)
    assert [columns[k].name for k in importance.columns[:2]] == ["age", "city"]
    assert sorted(place for column in columns for place in column.places) == list(range(subject.model.n_features))
    assert importance.low[0] > 0
    assert importance.low[1] > 0
    noise = [columns[k].name for k in importance.columns].index("noise")
    assert importance.low[noise] < 0.2 < importance.rise[1]
    # by hand: all features of a column move together, and the rise is in the unit of the error
    rng, before = np.random.default_rng(3), np.mean((fitted.predict(frame) - price) ** 2)
    rises = []
    for _ in range(20):
        shuffled = frame.assign(city=frame["city"].to_numpy()[rng.permutation(200)])
        rises.append(np.mean((fitted.predict(shuffled) - price) ** 2) - before)
    assert importance.rise[1] == pytest.approx(np.sqrt(before + np.mean(rises)) - np.sqrt(before), rel=0.15)
    assert importance.low[1] < importance.rise[1] < importance.high[1]


def test_every_model_with_features_has_an_importance():
    X, y = make_moons(200, noise=0.2, random_state=0)
    X = np.column_stack([X, np.random.default_rng(0).normal(size=200)])
    for kernel in ("rbf", "linear", "poly"):
        machine = CompactSVC(12, kernel=kernel, refine=False, random_state=0).fit(X[:100], y[:100])
        _, _, importance = explained(machine, X[100:], y[100:])
        assert importance.columns[-1] == 2, kernel
        assert importance.high[-1] < importance.rise[0]


def test_the_interval_covers_the_rise_on_many_rows(fitted):
    """Of 20 samples of rows, few miss the rise on 20,000 rows."""
    frame, price = table_of(20_000, seed=5)
    subject, columns, _ = explained(fitted, frame[:50], price[:50])
    _, _, large = explained(fitted, frame, price)
    truth = dict(zip(large.columns, large.rise, strict=True))
    misses = 0
    for start in range(0, 4000, 200):
        _, _, small = explained(fitted, frame[start : start + 200], price[start : start + 200])
        k = small.columns.index(next(number for number, column in enumerate(columns) if column.name == "city"))
        misses += not small.low[k] <= truth[small.columns[k]] <= small.high[k]
    assert subject.n_rows == 50
    assert misses <= 3


def test_dependence_is_the_mean_prediction_with_a_column_set(fitted):
    frame, price = table_of(150, seed=1)
    subject, columns, importance = explained(fitted, frame, price)
    curves = {curve.column.name: curve for curve in explain.dependence(subject, columns, importance.columns, 0)}
    assert set(curves) == {"age", "city", "noise", "day"}
    city = curves["city"]
    assert city.labels == ["Lima", "Oslo", "Rome"]
    for label, mean in zip(city.labels, city.means[:, 0], strict=True):
        assert mean == pytest.approx(fitted.predict(frame.assign(city=label)).mean())
    age, day = curves["age"], curves["day"]
    assert age.means[-1, 0] == pytest.approx(fitted.predict(frame.assign(age=age.at[-1])).mean())
    assert (age.low < age.means[:, 0]).all()
    expected = fitted.predict(frame.assign(day=pd.Timestamp(day.labels[3]))).mean()
    assert day.means[3, 0] == pytest.approx(expected)


def test_dependence_of_classes_is_in_percent():
    iris = load_iris()
    for calibrate in (False, True):
        machine = CompactSVC(9, refine=False, calibrate=calibrate, random_state=0).fit(iris.data, iris.target)
        subject, columns, importance = explained(machine, iris.data, iris.target)
        curve = explain.dependence(subject, columns, importance.columns, 0)[0]
        np.testing.assert_allclose(curve.means.sum(axis=1), 100.0)
        rows = iris.data.copy()
        rows[:, importance.columns[0]] = curve.at[0]
        shares = [np.mean(machine.predict(rows) == int(name)) for name in curve.series]
        shares = machine.predict_proba(rows).mean(axis=0)[[int(name) for name in curve.series]] if calibrate else shares
        np.testing.assert_allclose(curve.means[0], 100.0 * np.array(shares))


def test_learning_curves_fall_where_rows_or_vectors_help():
    X, y = make_moons(900, noise=0.2, random_state=0)
    machine = CompactSVC(16, gamma=2.0, refine=False, random_state=0).fit(X[:100], y[:100])
    curves = explain.learning_curves(subject_of(machine, X[100:], y[100:], 10_000, 0), 0)
    assert curves.n_rows.tolist() == [75, 150, 300, 600]
    assert curves.n_vectors.tolist() == [2, 4, 8, 16, 32]
    assert curves.vector_errors[0].mean() > 2 * curves.vector_errors[-1].mean()
    assert curves.row_errors[-1] == pytest.approx(curves.vector_errors[3])  # the same models
    again = explain.learning_curves(subject_of(machine, X[100:], y[100:], 10_000, 0), 0)
    np.testing.assert_array_equal(again.row_errors, curves.row_errors)
    frame, price = table_of(400)
    machine = CompactSVR(20, refine=False, random_state=0).fit(frame, price)
    curves = explain.learning_curves(subject_of(machine, frame, price, 10_000, 0), 0)
    assert curves.row_errors[0].mean() > curves.row_errors[-1].mean()
    assert curves.row_errors[-1].mean() < 0.5 * price.std()
    assert explain.learning_curves(subject_of(machine, frame[:50], price[:50], 10_000, 0), 0) is None  # too few


def test_a_model_without_vectors_has_a_panel_without_cases():
    constant = kompakt.Model(Linear(), np.zeros((0, 3)), np.zeros((0, 1)), np.ones(1), "regressor", n_features=3)
    subject, columns, importance = explained(constant, np.eye(3)[[0, 1, 2] * 10], np.ones(30))
    assert importance.rise.tolist() == [0.0, 0.0, 0.0]
    outputs = np.ones((30, 1))
    panel = explain.what_if(subject, outputs, columns, importance.columns, reliability(subject, outputs), 0)
    assert panel["cases"] is None


def test_large_models_stay_out_of_the_page(tmp_path):
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(900, 200)), rng.integers(0, 2, 900)
    machine = CompactSVC(400, selection="random", refine=False, random_state=0).fit(X, y)
    page = kompakt.report(machine, X, y, tmp_path / "page.html", curves=False)
    assert 'id="what-if"' not in page.read_text()
    assert page.stat().st_size < 500_000


def test_training_errors_of_tables_are_those_of_the_model():
    """Rows of tables are standardised before training: the record must not standardise them twice."""
    frame, price = table_of(200)
    machine = CompactSVR(20, refine=False, random_state=0).fit(frame, price)
    expected = np.sqrt(np.mean((machine.predict(frame) - price) ** 2))
    assert machine.model_.record.train_error == pytest.approx(expected)


def test_a_csv_file_becomes_a_page_of_its_columns(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    frame, price = table_of(260)
    frame = frame.assign(price=price.round(2), age=frame["age"].map("{},5".format))  # a decimal comma
    frame.loc[::9, "city"] = "n/a"
    frame[:160].to_csv("train.csv", index=False, sep=";")
    frame[160:].to_csv("test.csv", index=False, sep=";")
    assert main(["train", "train.csv", "m.kompakt", "--target", "price", "-q"]) == 0
    assert main(["report", "test.csv", "m.kompakt", "-o", "page.html", "-q"]) == 0
    page = (tmp_path / "page.html").read_text()
    assert "<title>price in test.csv</title>" in page
    assert "What matters most: age, city" in page
    assert "city=Oslo" not in page[: page.index('id="data"')]  # columns, not features
    assert "learning curves" in page
    assert main(["report", "test.csv", "m.kompakt", "-o", "page.html", "-q", "--no-curves"]) == 0
    assert "Would more rows" not in (tmp_path / "page.html").read_text()
