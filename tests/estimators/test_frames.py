"""Data frames with words, dates and gaps go through one schema, and frames of numbers are standardised like them."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.compose import ColumnTransformer
from sklearn.impute import SimpleImputer
from sklearn.model_selection import cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler, OneHotEncoder, OrdinalEncoder, PowerTransformer, StandardScaler

import kompakt
from kompakt import CompactSVC, CompactSVR, FixedSizeLSSVC, GreedyProjection, LocalSamplingSVC

pandas = pytest.importorskip("pandas")


def people(n: int = 120, seed: int = 0):
    rng = np.random.default_rng(seed)
    age = rng.normal(scale=3, size=n)
    city = rng.choice(["Rome", "Oslo", "Paris"], n)
    frame = pandas.DataFrame(
        {
            "age": np.where(rng.random(n) < 0.1, np.nan, age),
            "city": city,
            "day": pandas.to_datetime("2024-01-01") + pandas.to_timedelta(rng.integers(0, 3, n), "D"),
            "member": rng.random(n) < 0.5,
        }
    )
    return frame, np.where((age > 0) ^ (city == "Rome"), "yes", "no")


def test_words_dates_and_gaps_are_learned_from(tmp_path):
    frame, y = people()
    machine = CompactSVC(20, random_state=0).fit(frame, y)
    assert machine.n_features_in_ == 4
    assert machine.feature_names_in_.tolist() == list(frame.columns)
    assert machine.schema_.feature_names == machine.model_.feature_names.tolist()
    assert machine.score(frame, y) > 0.8
    assert machine.predict(frame[["member", "day", "city", "age"]]).tolist() == machine.predict(frame).tolist()
    kompakt.save(machine, tmp_path / "m.kompakt")
    model = kompakt.load(tmp_path / "m.kompakt")
    assert np.array_equal(model.decision_function(frame), machine.decision_function(frame))
    with pytest.raises(ValueError, match="expected a data frame with 'age'"):
        machine.predict(frame.to_numpy())
    with pytest.raises(ValueError, match="no column 'city'"):
        machine.predict(frame[["age"]])
    other = frame.assign(city="Bern")
    with pytest.warns(UserWarning, match=r"city: other levels .*'Bern'.* in 120 row"):
        machine.predict(other)
    machine.fit(np.c_[np.arange(120.0), np.arange(120) % 7], y)  # an earlier schema does not stay
    assert not hasattr(machine, "schema_")
    assert machine.model_.inputs.schema is None


@pytest.mark.parametrize("library", ["polars", "pyarrow"])
def test_other_libraries_give_the_same_model(library):
    frame, y = people(60)
    whole = pytest.importorskip("pyarrow").Table.from_pandas(frame)
    table = pytest.importorskip("polars").from_arrow(whole) if library == "polars" else whole
    one, other = (CompactSVC(5, random_state=0, refine=False).fit(X, y) for X in (frame, table))
    assert np.array_equal(one.decision_function(frame), other.decision_function(table))
    assert other.feature_names_in_.tolist() == list(frame.columns)


@pytest.mark.parametrize(
    "machine",
    [
        CompactSVR(5, refine=False), FixedSizeLSSVC(5, C=1.0, gamma=0.1), LocalSamplingSVC(),
        GreedyProjection(5),
    ],
)  # fmt: skip
def test_every_estimator_takes_them(machine, tmp_path):
    frame, y = people()
    y = np.arange(120.0) if isinstance(machine, CompactSVR) else y
    machine = clone(machine).fit(frame, y)
    assert machine.n_features_in_ == 4
    found = machine.transform(frame) if isinstance(machine, GreedyProjection) else machine.predict(frame)
    assert len(found) == 120
    if getattr(machine, "model_", None) is not None:
        kompakt.save(machine, tmp_path / "m")
        assert kompakt.load(tmp_path / "m").predict(frame).tolist() == found.tolist()


def test_cross_validation_and_searches_cut_the_frame():
    frame, y = people()
    assert cross_val_score(CompactSVC(10, refine=False), frame, y, cv=3).mean() > 0.6


def test_columns_that_cannot_be_used_are_named():
    frame, y = people(40)
    frame["code"] = [f"c{number}" for number in range(40)]
    with pytest.warns(UserWarning, match=r"leaves out the column\(s\) 'code' \(all values are different"):
        machine = CompactSVC(5, refine=False).fit(frame, y)
    assert machine.n_features_in_ == 5
    machine.predict(frame)


@pytest.mark.parametrize("library", ["pandas", "polars", "pyarrow"])
def test_frames_of_numbers_are_standardised_as_those_with_words(library, tmp_path):
    rng = np.random.default_rng(0)
    X = np.c_[rng.normal(size=(60, 2)), np.arange(60) / 20] * [1.0, 1e6, 1.0]
    y = X[:, 0] * X[:, 1] > 0
    frame = pytest.importorskip(library).DataFrame(dict(zip("abc", X.T, strict=True))) if library != "pyarrow" else (
        pytest.importorskip(library).table(dict(zip("abc", X.T, strict=True)))
    )
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        machine = CompactSVC(5, random_state=0, refine=False).fit(frame, y)
    assert machine.model_.inputs.schema is None
    assert machine.n_features_in_ == 3
    same = make_pipeline(StandardScaler(), CompactSVC(5, random_state=0, refine=False)).fit(X, y)
    np.testing.assert_allclose(machine.decision_function(frame), same.decision_function(X), rtol=1e-9)
    kompakt.save(machine, tmp_path / "m")
    np.testing.assert_allclose(kompakt.load(tmp_path / "m").decision_function(X), same.decision_function(X), rtol=1e-9)


def test_arrays_are_taken_as_they_are():
    X = np.random.default_rng(0).normal(size=(60, 3)) * [1.0, 9.0, 1.0]
    machine = CompactSVC(5, random_state=0, refine=False).fit(X, X[:, 0] > 0)
    assert machine.model_.inputs.scale is None
    X[3, 1] = np.nan
    with pytest.raises(ValueError, match="SimpleImputer"):
        CompactSVC(5).fit(X, np.arange(60) > 30)


def test_a_frame_of_numbers_leaves_out_identifiers_and_takes_arrays_afterwards():
    rng = np.random.default_rng(0)
    frame = pandas.DataFrame({"key": rng.permutation(90) * 7, "a": rng.normal(size=90), "b": rng.normal(size=90)})
    y = frame["a"] > 0
    with pytest.warns(UserWarning, match=r"leaves out the column\(s\) 'key'"):
        machine = CompactSVC(5, random_state=0, refine=False).fit(frame, y)
    with pytest.warns(UserWarning, match="X does not have valid feature names"):
        assert machine.predict(frame.to_numpy()).tolist() == machine.predict(frame).tolist()


def test_words_with_many_levels_are_learned_from_and_never_from_the_own_target():
    rng = np.random.default_rng(0)
    town, x = rng.integers(0, 150, 900), rng.normal(size=900)
    frame = pandas.DataFrame({"town": [f"town {k}" for k in town], "x": x})
    y = rng.normal(size=150)[town] + np.sin(2 * x) + 0.1 * rng.normal(size=900)
    score = cross_val_score(CompactSVR(20, refine=False, random_state=0), frame, y, cv=3).mean()
    assert score > 0.8
    noise = rng.normal(size=900)
    assert cross_val_score(CompactSVR(20, refine=False, random_state=0), frame[["town"]], noise, cv=3).mean() > -0.1
    machine = CompactSVC(20, refine=False, random_state=0).fit(frame, np.digitize(y, [-0.5, 0.5]))
    assert machine.schema_.feature_names[:2] == ["town: share of 0", "town: share of 1"]


def test_spreads_that_differ_a_thousandfold_are_warned_of():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(80, 2))
    y = X[:, 0] > 0
    far = X * [1.0, 1e6]
    with pytest.warns(UserWarning, match=r"differ in spread by a factor of .*StandardScaler"):
        CompactSVC(5, refine=False).fit(far, y)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        make_pipeline(StandardScaler(), CompactSVC(5, refine=False)).fit(far, y)
        CompactSVC(5, refine=False).fit(X * [1.0, 900.0], y)
        CompactSVC(5, refine=False, gamma=[1.0, 1e-12]).fit(far, y)
        CompactSVC(5, refine=False).fit(np.c_[X, np.full(80, 1e9)], y)  # a constant has no spread


def test_free_text_is_left_out():
    frame, y = people()
    frame["comment"] = [f"text {max(n, 20)}" for n in range(120)]
    with pytest.warns(UserWarning, match=r"'comment' \(more than half of its texts .* keep_columns=\['comment'\]"):
        CompactSVC(5, random_state=0).fit(frame, y)


def noise(n: int = 300):
    """Rows of noise, with a word among them, whose labels are sorted; and the index of a part of them."""
    rng = np.random.default_rng(0)
    frame = pandas.DataFrame(rng.normal(size=(n, 3)), columns=list("abc")).assign(word=rng.choice(["x", "y"], n))
    return frame.assign(y=np.arange(n) < n // 2).sample(frac=0.7, random_state=0).reset_index()


@pytest.mark.parametrize("machine", [CompactSVC(5, refine=False), LocalSamplingSVC(), GreedyProjection(5)])
def test_row_numbers_are_left_out_and_can_be_kept(machine):
    frame = noise()
    X, y = frame.drop(columns="y"), frame["y"]
    with pytest.warns(UserWarning, match=r"'index' \(all values .* keep_columns=\['index'\] keeps") as caught:
        plain = clone(machine).fit(X, y)
    assert sum("leaves out" in str(warning.message) for warning in caught) == 1
    assert plain.schema_.feature_names == ["a", "b", "c", "word=x", "word=y"]
    kept = clone(machine).fit(X, y, keep_columns=["index"])
    assert kept.schema_.feature_names[0] == "index"
    if hasattr(machine, "predict"):
        assert plain.score(X, y) < 0.8
        assert kept.score(X, y) > 0.9
    with pytest.raises(ValueError, match="no column 'key' to keep"):
        clone(machine).fit(X, y, keep_columns=["key"])
    with pytest.raises(ValueError, match="keep_columns is for data frames in memory; got ndarray"):
        clone(machine).fit(X[["a", "b"]].to_numpy(), y, keep_columns=["a"])
    with pytest.raises(ValueError, match=r"open_rows\(columns=\[\.\.\.\]\) names those of a file"):
        clone(machine).fit(kompakt.open_rows(X[["a", "b"]].to_numpy(), target=y.to_numpy()), keep_columns=["a"])
    with pytest.raises(ValueError, match="must be a list of column names; got 'index'"):
        clone(machine).fit(X, y, keep_columns="index")


def test_the_index_of_a_frame_of_numbers_is_left_out(tmp_path):
    frame = noise().drop(columns="word").rename(columns={"index": "Unnamed: 0"})
    X, y = frame.drop(columns="y"), frame["y"]
    with pytest.warns(UserWarning, match=r"'Unnamed: 0' \(it has no name"):
        machine = CompactSVC(5, refine=False).fit(X, y)
    assert machine.schema_.feature_names == ["a", "b", "c"]
    numbers = X.rename(columns={"Unnamed: 0": "key"})
    assert CompactSVC(5, refine=False, gamma=0.1).fit(numbers / [1000, 1, 1, 1], y).model_.inputs.schema is None


def customers(n: int = 160):
    rng = np.random.default_rng(0)
    frame = pandas.DataFrame(
        {
            "age": rng.normal(size=n), "income": np.where(rng.random(n) < 0.1, np.nan, 9 * rng.normal(size=n)),
            "city": rng.choice(["Rome", "Oslo", "?"], n), "size": rng.choice(["low", "mid", "high"], n),
            "key": range(n), "code": rng.integers(1, 4, n),
        }
    )  # fmt: skip
    return frame, ((frame["age"] > 0) ^ (frame["city"] == "Rome")).to_numpy()


NUMBERS = ("numbers", make_pipeline(SimpleImputer(strategy="median"), StandardScaler()), ["age", "income"])


@pytest.mark.parametrize(
    "steps",
    [
        [NUMBERS, ("words", OneHotEncoder(handle_unknown="ignore"), ["city", "size", "code"])],
        [("words", OneHotEncoder(drop="first"), ["city"]), NUMBERS],
        [NUMBERS, ("words", make_pipeline(SimpleImputer(strategy="most_frequent"), OneHotEncoder()), ["size"])],
        [("ranks", make_pipeline(OrdinalEncoder(), MinMaxScaler()), ["size", "city"]), ("is", "passthrough", ["age"])],
    ],
)
def test_a_column_transformer_before_a_machine_is_saved_with_it(steps, tmp_path):
    frame, y = customers()
    pipeline = make_pipeline(ColumnTransformer(steps), CompactSVC(15, random_state=0, refine=False)).fit(frame, y)
    kompakt.save(pipeline, tmp_path / "m")
    model = kompakt.load(tmp_path / "m")
    shuffled = frame.sample(frac=1, random_state=0)[frame.columns[::-1]]
    expected = pipeline.decision_function(shuffled[frame.columns])
    np.testing.assert_allclose(model.decision_function(shuffled), expected, atol=1e-12)
    if steps[-1][1] == "passthrough":  # no imputer: a gap stays one, and is refused
        with pytest.raises(ValueError, match=r"missing|NaN"):
            model.predict(frame.assign(age=np.nan))


@pytest.mark.parametrize(
    ("steps", "said"),
    [
        ([("words", OneHotEncoder(min_frequency=9), ["city"])], "joins rare categories"),
        ([("a", StandardScaler(), ["age"]), ("b", "passthrough", ["age"])], "goes through two steps"),
        ([("a", PowerTransformer(), ["age"])], "PowerTransformer cannot be put into a model"),
    ],
)
def test_a_column_transformer_that_a_model_cannot_hold_is_refused(steps, said, tmp_path):
    frame, y = customers()
    pipeline = make_pipeline(ColumnTransformer(steps), CompactSVC(5, refine=False)).fit(frame, y)
    with pytest.raises(TypeError, match=said):
        kompakt.save(pipeline, tmp_path / "m")
