"""Exports of models that take tables: ONNX with the raw columns, C and NumPy with encoded numbers and their list."""

from __future__ import annotations

import json
import runpy
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import numpy as np
import pytest
from tests.io.samples import make_model

import kompakt
from kompakt.data.table import TableSchema
from kompakt.export import onnx_file
from kompakt.inputs import Inputs


def tables():
    """Ten tables of numbers, words, dates and gaps."""
    rng = np.random.default_rng(0)
    forms = ["%Y-%m-%d", "%d.%m.%Y", "%m/%d/%Y %I:%M %p", "%Y-%m-%dT%H:%M:%S.%f", "%d %b %Y", "%d/%m/%y %H:%M"]
    for number in range(10):
        n = 60
        table: dict[str, list] = {}
        for column in range(1 + number % 3):
            cells = rng.normal(size=n) * 10.0**column
            table[f"n{column}"] = ["" if rng.random() < 0.05 * (number % 2) else f"{cell:.4f}" for cell in cells]
        for column in range(1 + number % 4):
            levels = [f"level {k}" for k in range(2 + column)] + ["NA"] * (number % 2) + [f"once {number}"]
            share = np.array([1.0] * (len(levels) - 1) + [0.02])
            table[f"w{column}"] = rng.choice(levels, n, p=share / share.sum()).tolist()
        for column in range(number % 3):
            form = forms[(number + column) % len(forms)]
            days = [datetime(2019, 1, 1, tzinfo=UTC) + timedelta(days=900 * part) for part in rng.random(n)]
            table[f"d{column}"] = ["NA" if rng.random() < 0.1 * column else day.strftime(form) for day in days]
        table["id"] = [f"u{row}" for row in range(n)]
        if number == 5:
            table["label"] = rng.choice(["a", "b"], n).tolist()  # a name that an output has too
        yield table


@pytest.mark.parametrize("table", list(tables()), ids=[str(number) for number in range(10)])
@pytest.mark.parametrize("standardised", [False, True])
def test_onnx_takes_the_columns(table, standardised, tmp_path):
    onnxruntime = pytest.importorskip("onnxruntime")
    schema = TableSchema.infer(table)
    inputs = Inputs.standardising(schema.encode(table), schema) if standardised else Inputs(schema)
    model = make_model(classes=["no", "yes"], d=schema.n_features, inputs=inputs)
    done = kompakt.to_onnx(model, tmp_path / "m.onnx", check_rows=table)
    assert done.n_rows == 60
    assert kompakt.to_onnx(model, tmp_path / "again.onnx").label_agreement == 1.0  # rows of its own
    session = onnxruntime.InferenceSession((tmp_path / "m.onnx").read_bytes(), providers=["CPUExecutionProvider"])
    feeds = {}
    for column in schema.columns:
        if column.kind == "number":
            values = [float(cell) if cell else np.nan for cell in table[column.name]]
            feeds[column.name] = np.array(values)[:, None]
        elif column.kind != "unused":
            name = "label_" if column.name == "label" else column.name
            feeds[name] = np.array(table[column.name], dtype=object)[:, None]
    assert {one.name for one in session.get_inputs()} == set(feeds)
    labels, scores = session.run(["label", "scores"], feeds)
    assert labels.tolist() == model.predict(table).tolist()
    assert scores == pytest.approx(model.decision_function(table), abs=1e-6)


def values_of(path, feeds):
    """What an ONNX model of a regressor answers to columns of text."""
    onnxruntime = pytest.importorskip("onnxruntime")
    session = onnxruntime.InferenceSession(path.read_bytes(), providers=["CPUExecutionProvider"])
    return session.run(["value"], {name: np.array(cells, dtype=object)[:, None] for name, cells in feeds.items()})[0]


@pytest.mark.parametrize(
    ("form", "more"),
    [
        ("%Y-%m-%d", ["2024-02-29", "2023-02-29", "1900-02-29", "2000-2-9", "0000-00-00", "1969-12-31", "1583-01-01"]),
        ("%Y/%m/%d %H:%M", ["2024/01/01 00:30+02:00", "2024/01/01  9:05", "2024/12/31 23:30 -0130", "2024/01/01"]),
        ("%Y-%m-%dT%H:%M:%S", ["2024-01-01T10:00:00Z", "2024-01-01T24:00:00", "2024-06-30T23:59:60"]),
        ("%d.%m.%Y %H:%M:%S.%f", ["01.01.2024 10:00:00.5", "01.01.2024 10:00:00.000001+00:00"]),
        ("%d/%m/%y", ["01/01/68", "01/01/69", "31/04/20", " 05/06/07 "]),
        ("%m-%d-%Y %I:%M:%S %p", ["12-31-2024 12:00:00 AM", "12-31-2024 12:00:00 pm", "12-31-2024 13:00:00 PM"]),
        ("%B %d, %Y", ["february 28, 2021", "FEBRUARY 29, 2021", "March  3,  2021", "soon"]),
        ("%d-%b-%y", ["03-MAR-21", "3-may-99", "03-Mai-21"]),
    ],
)
def test_onnx_reads_dates_as_predict_does(form, more, tmp_path):
    rng = np.random.default_rng(0)
    days = [datetime(1990, 1, 1, tzinfo=UTC) + timedelta(seconds=int(part)) for part in rng.integers(0, 2e9, 50)]
    texts = ["", "NA", *(day.strftime(form) for day in days), *more]
    table = {"day": texts, "w": ["a", "b"] * (len(texts) // 2) + ["a"] * (len(texts) % 2)}
    schema = TableSchema.infer(table, missing=[texts[5]])  # a date that stands for a gap
    assert (schema.columns[0].kind, schema.columns[0].form) == ("date", form)
    model = make_model("regressor", d=schema.n_features, inputs=Inputs.standardising(schema.encode(table), schema))
    assert kompakt.to_onnx(model, tmp_path / "m.onnx", check_rows=table).n_rows == len(texts)
    assert values_of(tmp_path / "m.onnx", table) == pytest.approx(model.predict(table), abs=1e-9)
    assert len(values_of(tmp_path / "m.onnx", {"day": [], "w": []})) == 0
    kompakt.to_onnx(model, tmp_path / "m.onnx", dtype="float32")  # checks itself, on dates of its own


def test_years_and_large_numbers_are_standardised_before_they_are_float32(tmp_path):
    """Two months around a new year: the mean of the years, 2023.48, is no float32 by 1e-4 of their spread."""
    pytest.importorskip("onnxruntime")
    rng = np.random.default_rng(0)
    days = [datetime(2023, 12, 1, tzinfo=UTC) + timedelta(days=number) for number in range(60)]
    numbers = [f"{1e6 + quarters / 4:.2f}" for quarters in rng.integers(-8, 9, 60)]  # exact in float32
    for table in ({"day": [f"{day:%Y-%m-%d}" for day in days]}, {"n": numbers, "w": ["a", "b"] * 30}):
        schema = TableSchema.infer(table)
        model = make_model("regressor", d=schema.n_features, inputs=Inputs.standardising(schema.encode(table), schema))
        done = kompakt.to_onnx(model, tmp_path / "m.onnx", dtype="float32", check_rows=table)
        assert done.max_difference < 1e-6


@pytest.mark.parametrize("unit", ["day", "second", "microsecond"])
def test_dates_of_a_data_frame_are_texts_in_onnx(unit, tmp_path):
    pandas = pytest.importorskip("pandas")
    rng = np.random.default_rng(0)
    per_day = {"day": 1, "second": 86_400, "microsecond": 86_400_000_000}[unit]
    steps = rng.integers(0, 900 * per_day, 40)
    days = pandas.to_datetime("2021-03-04") + pandas.to_timedelta(steps * (86_400_000_000 // per_day), unit="us")
    frame = pandas.DataFrame({"day": days, "w": rng.choice(["a", "b"], 40)})
    frame.loc[3, "day"] = pandas.NaT
    schema = TableSchema.infer(frame)
    model = replace(make_model("regressor", d=schema.n_features), inputs=Inputs(schema))
    kompakt.to_onnx(model, tmp_path / "m.onnx", check_rows=frame)
    texts = {"day": ["" if day is pandas.NaT else str(day) for day in frame["day"]], "w": frame["w"].tolist()}
    if unit == "day":
        texts["day"] = [text[:10] for text in texts["day"]]
    assert values_of(tmp_path / "m.onnx", texts) == pytest.approx(model.predict(frame), abs=1e-6)
    assert model.predict(texts) == pytest.approx(model.predict(frame))  # a CSV file of the same table


def test_onnx_of_dates_without_separators_needs_encoded_features(tmp_path):
    pytest.importorskip("onnxruntime")
    schema = TableSchema.infer({"day": ["01JAN2024", "03FEB2024", "05MAY2024"], "w": ["a", "b", "a"]})
    model = replace(make_model("regressor", d=schema.n_features), inputs=Inputs(schema))
    with pytest.raises(ValueError, match="dates without separators, such as 01Jan2024 in column 'day'"):
        kompakt.to_onnx(model, tmp_path / "m.onnx")
    done = kompakt.to_onnx(model, tmp_path / "m.onnx", encoded=True)
    assert [path.name for path in done.files] == ["m.onnx", "m.onnx.schema.json"]


@pytest.mark.parametrize("to", ["numpy", "c", "libsvm", "onnx"])
def test_the_report_names_the_columns_that_are_left_out(to, tmp_path):
    pytest.importorskip("onnxruntime" if to == "onnx" else "numpy")
    table = {"n": ["1", "2.5", "4"], "w": ["a", "b", "a"], "\x1b[1m": ["1", "1", "1"], "c": ["x", "x", "x"]}
    schema = TableSchema.infer(table)
    settings = {"encoded": True} if to == "onnx" else {}
    note = r"takes 2 of 4 columns; left out: '\x1b[1m', 'c'"
    model = replace(make_model(classes=["no", "yes"], d=schema.n_features), inputs=Inputs(schema))
    assert str(getattr(kompakt, f"to_{to}")(model, tmp_path / "m", **settings)).endswith(note)
    whole = TableSchema.infer({name: table[name] for name in "nw"})
    model = replace(model, inputs=Inputs(whole))
    assert "columns;" not in str(getattr(kompakt, f"to_{to}")(model, tmp_path / "m", **settings))


@pytest.mark.parametrize("to", ["numpy", "c"])
def test_c_and_numpy_list_features_that_have_names(to, tmp_path):
    names = np.array(["one */", "two ???/", 'three """', "four \\"])
    path = getattr(kompakt, f"to_{to}")(make_model(feature_names=names), tmp_path / "m").path
    path = path.with_suffix(".h") if to == "c" else path
    quotes = '"""' if to == "c" else "'''"
    lines = ["A row holds these features, in this order:", "0: one * /", "1: two ? ? ?/"]
    lines += [f"2: three {quotes}", "3: four /"]
    assert "\n".join(lines) in "\n".join(line.strip().removesuffix(" */") for line in path.read_text().splitlines())


@pytest.mark.parametrize("to", ["numpy", "c"])
def test_c_and_numpy_list_their_features(to, tmp_path):
    table = {
        "n*/": ["1", "2.5", "NA"],
        'w"""': ["a??/", "b\\", "a??/"],
        "d": ["2024-01-01", "2024-05-05", "2023-01-01"],
    }
    schema = TableSchema.infer(table)
    model = replace(make_model(classes=["no", "yes"], d=schema.n_features), inputs=Inputs(schema))
    path = tmp_path / ("m.py" if to == "numpy" else "m.c")
    done = getattr(kompakt, f"to_{to}")(model, path, check_rows=table)
    text = (path if to == "numpy" else path.with_suffix(".h")).read_text()
    assert "0: n* / (number; a gap becomes 1.75)" in text
    assert "1: n* / is missing (1 if so, else 0)" in text
    assert "(1 if so, else 0; a gap counts as a? ?/)" in text
    assert "d days (date: days since 2023-01-01, year, month, weekday; a gap becomes 2024-01-01)" in text
    assert f"{schema.n_features - 1}: d weekday cosine (date)" in text
    files = {path.name, f"{path.name}.schema.json", *(["m.h"] if to == "c" else [])}
    assert {one.name for one in done.files} == files
    beside = json.loads((tmp_path / f"{path.name}.schema.json").read_text())
    assert beside.pop("features") == schema.feature_names
    assert TableSchema.from_json(beside) == schema
    if to == "numpy":
        assert runpy.run_path(str(path))["predict"](schema.encode(table)).tolist() == model.predict(table).tolist()


def test_libsvm_files_have_the_schema_beside_them(tmp_path):
    schema = TableSchema.infer({"n": ["1", "2.5", "4"], "w": ["a", "b", "a"]})
    model = replace(make_model(classes=[0, 1], d=schema.n_features), inputs=Inputs(schema))
    done = kompakt.to_libsvm(model, tmp_path / "m.model")
    assert done.files[-1].name == "m.model.schema.json"
    assert any("encoded columns of m.model.schema.json" in note for note in done.notes)


def test_models_of_numbers_are_exported_as_before(tmp_path):
    done = kompakt.to_numpy(make_model(classes=[0, 1], d=2), tmp_path / "m.py")
    assert len(done.files) == 1
    assert not (tmp_path / "m.py.schema.json").exists()


def test_blanks_around_words_and_dates_do_not_count_in_onnx(tmp_path):
    cities = ["Rome ", " Rome", "Rome\n", "\tRome\r\n", "\u00a0Rome\u3000", "\u2028Rome\x1c", "R.me", "New York"]
    table = {
        "city": ["Rome", "New  York", "New York", "Oslo", "(a|b)*", "\\N"] * 10,
        "day": ["2024-01-05", "2024-02-29", "", "2023-12-31", "2024-06-01", "2024-06-02"] * 10,
    }
    schema = TableSchema.infer(table)
    model = make_model("regressor", d=schema.n_features, inputs=Inputs.standardising(schema.encode(table), schema))
    kompakt.to_onnx(model, tmp_path / "m.onnx")
    asked = {
        "city": [*cities, "New  York", " New York", "NaN ", " nOnE", "-", "new york", "(a|b)*", "aaa", "?\t"],
        "day": [" 2024-01-05", "2024-01-05\n", "\r\n2024-02-29\t", "\u00a02024-06-01 ", "", "\n", "2024-06-02"] * 3,
    }
    asked["day"] = asked["day"][: len(asked["city"])]
    assert values_of(tmp_path / "m.onnx", asked) == pytest.approx(model.predict(asked), abs=1e-9)


def test_the_check_of_onnx_asks_for_blanks_unknown_words_gaps_and_far_numbers(tmp_path, monkeypatch):
    table = {"city": ["Rome", "Oslo", "NA"] * 20, "n": [f"{number / 7:.3f}" for number in range(59)] + [""]}
    schema = TableSchema.infer(table)
    model = replace(make_model("regressor", d=schema.n_features), inputs=Inputs(schema))
    cells = {}

    def watched(raw, feeds, kind):
        cells.update(feeds)
        return run(raw, feeds, kind)

    run = onnx_file._run
    monkeypatch.setattr(onnx_file, "_run", watched)
    for rows in (None, table):
        kompakt.to_onnx(model, tmp_path / "m.onnx", check_rows=rows)
        words, numbers = cells["city"][:, 0], cells["n"][:, 0]
        assert any(word != word.strip() and word.strip() == "Rome" for word in words)
        assert any(word.strip() == "a word of no row" for word in words)
        assert "" in words
        assert np.isnan(numbers).any()
        assert np.nanmax(np.abs(numbers)) >= 1e100


def many_levels(n: int = 1200):
    """Words and codes with many levels, and the schema that has learned them from targets."""
    rng = np.random.default_rng(0)
    town, panel = rng.integers(0, 60, n), rng.integers(100, 140, n)
    table = {
        "town": [["", f"town {k}", f"St.  Paul {k}", f"{k}"][k % 4 if k else 0] for k in town.tolist()],
        "panel": panel.tolist(),
        "size": rng.normal(size=n).round(3).tolist(),
    }
    y = rng.normal(size=60)[town] + rng.normal(size=40)[panel - 100]
    schema = TableSchema.infer(table)
    schema, _ = schema.learn(schema.encode(table), y, classes=False)
    assert [column.kind for column in schema.columns] == ["levels", "levels", "number"]
    return table, schema


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_onnx_looks_levels_up(dtype, tmp_path):
    onnxruntime = pytest.importorskip("onnxruntime")
    table, schema = many_levels()
    inputs = Inputs.standardising(schema.encode(table), schema)
    model = make_model("regressor", d=schema.n_features, inputs=inputs)
    assert kompakt.to_onnx(model, tmp_path / "m.onnx", dtype=dtype, check_rows=table).n_rows == 1200
    new = {
        "town": ["town 1", "  town 1 ", "St.  Paul 2", "St. Paul 2", "nowhere", "town 1 b", "", "NA", "3"],
        "panel": [101.0, 139.0, 99.0, np.nan, 105.5, -3.0, 120.0, 121.0, 122.0], "size": [0.5] * 9,
    }  # fmt: skip
    session = onnxruntime.InferenceSession((tmp_path / "m.onnx").read_bytes(), providers=["CPUExecutionProvider"])
    feeds = {name: np.array(cells, dtype=dtype)[:, None] for name, cells in new.items() if name != "town"}
    feeds["town"] = np.array(new["town"], dtype=object)[:, None]
    expected = model.predict({**new, "town": [*new["town"][:3], "St.  Paul 2", *new["town"][4:]]})
    assert session.run(["value"], feeds)[0] == pytest.approx(expected, abs=1e-4 if dtype == "float32" else 1e-9)


def test_other_exports_write_the_table_of_levels_beside_them(tmp_path):
    table, schema = many_levels()
    model = make_model("regressor", d=schema.n_features, inputs=Inputs(schema))
    done = kompakt.to_numpy(model, tmp_path / "m.py", check_rows=table)
    described = json.loads(done.files[1].read_text())
    assert TableSchema.from_json({name: described[name] for name in ("columns", "missing")}) == schema
    assert "0: town: mean (by the table of levels in the .schema.json file)" in (tmp_path / "m.py").read_text()


@pytest.mark.parametrize("cells", [["10:10", "11:30", "23:59"], ["1988 Q1", "1988 Q4", "1990 Q2"]])
def test_onnx_of_times_and_quarters_needs_encoded_features(cells, tmp_path):
    pytest.importorskip("onnxruntime")
    schema = TableSchema.infer({"at": cells, "w": ["a", "b", "a"]})
    model = replace(make_model("regressor", d=schema.n_features), inputs=Inputs(schema))
    with pytest.raises(ValueError, match=r"clock times, months, quarters and weeks.* in column 'at'.*--encoded"):
        kompakt.to_onnx(model, tmp_path / "m.onnx")
    assert kompakt.to_onnx(model, tmp_path / "m.onnx", encoded=True).files[1].name == "m.onnx.schema.json"
