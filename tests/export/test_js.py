"""The JavaScript file answers as the machine, in Node.js."""

from __future__ import annotations

import json
import subprocess
from datetime import UTC, datetime, timedelta

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose
from tests import bent
from tests.export.machines import CASES, IDS, data, decisions, fitted
from tests.export.test_bends import unusual_models
from tests.export.test_numpy import MODELS
from tests.export.test_tables import tables
from tests.io.samples import make_model, rows

import kompakt
from kompakt.data.table import TableSchema
from kompakt.export import ParityError, js_file, to_js
from kompakt.inputs import Inputs

NODE = js_file.find_node()
needs_node = pytest.mark.skipif(NODE is None, reason="the check of JavaScript needs Node.js")


def standardising(schema, table):
    features = schema.encode(table)
    spread = features.std(axis=0)
    return Inputs(schema, shift=features.mean(axis=0), scale=np.where(spread > 0, spread, 1.0))


def asked(path, given):
    """Labels, scores and probabilities of rows, by `require` in a process of its own."""
    script = (
        f"const machine = require({json.dumps(str(path))});"
        "const rows = JSON.parse(require('fs').readFileSync(0, 'utf8'));"
        "console.log(JSON.stringify(rows.map((row) =>"
        " [machine.predict(row), machine.scores(row), machine.probabilities(row)])));"
    )
    done = subprocess.run([NODE, "-e", script], input=json.dumps(given), capture_output=True, text=True, check=True)
    return [list(column) for column in zip(*json.loads(done.stdout), strict=True)]


@needs_node
@pytest.mark.parametrize(("kernel", "task", "scaled"), CASES[::3], ids=IDS[::3])
def test_machines_of_all_kernels(kernel, task, scaled, tmp_path):
    machine, (X, _) = fitted(kernel, task, scaled), data(task)
    report = to_js(machine, tmp_path / "machine.js", check_rows=X)
    expected = decisions(machine, X)
    assert report.n_rows == len(X)
    assert report.max_difference <= 1e-12 * np.abs(expected).max()
    labels, scores, _ = asked(tmp_path / "machine.js", X.tolist())
    assert_allclose(np.array(scores).reshape(expected.shape), expected, atol=1e-11 * np.abs(expected).max())
    assert task == "regression" or labels == machine.predict(X).tolist()


@needs_node
@pytest.mark.parametrize("name", MODELS)
def test_codings_labels_and_odd_shapes(name, tmp_path):
    model, X = MODELS[name], rows()
    to_js(model, tmp_path / "model.js")
    given = X.tolist()
    if model.inputs.fill is not None:
        X[::3, 1] = np.nan
        given = [[None if cell != cell else cell for cell in row] for row in X.tolist()]
    labels, scores, probabilities = asked(tmp_path / "model.js", given)
    assert_allclose(np.array(scores).reshape(model.decision_function(X).shape), model.decision_function(X), atol=1e-11)
    if model.kind != "regressor":
        assert labels == model.predict(X).tolist()
    if model.calibration is not None:
        assert_allclose(probabilities, model.predict_proba(X), atol=1e-12)


@needs_node
@pytest.mark.parametrize("name", unusual_models())
def test_features_that_bend(name, tmp_path):
    model, X = unusual_models()[name], np.random.default_rng(0).normal(size=(50, 2))
    assert to_js(model, tmp_path / "m.js", check_rows=X).relative_difference < 1e-12
    assert_allclose(asked(tmp_path / "m.js", X.tolist())[0], model.predict(X), atol=1e-12)


@needs_node
def test_a_fitted_machine_with_bends_and_a_map(tmp_path):
    (X, _), machine = bent.data("two classes"), bent.fitted("map", "two classes")
    assert machine.model_.inputs.bends is not None
    assert machine.model_.inputs.map is not None
    to_js(machine, tmp_path / "m.js", check_rows=X)
    labels, scores, _ = asked(tmp_path / "m.js", X.tolist())
    assert labels == machine.predict(X).tolist()
    assert_allclose(np.ravel(scores), machine.decision_function(X), atol=1e-9)


@needs_node
@pytest.mark.parametrize("table", list(tables()), ids=[str(number) for number in range(10)])
def test_rows_of_tables_are_objects_of_cells(table, tmp_path):
    schema = TableSchema.infer(table)
    model = make_model(classes=["no", "yes"], d=schema.n_features, inputs=standardising(schema, table))
    assert to_js(model, tmp_path / "m.js", check_rows=table).n_rows == 60
    assert to_js(model, tmp_path / "m.js").label_agreement == 1.0  # rows of its own, with blanks and unknown words
    given = [dict(zip(table, row, strict=True)) for row in zip(*table.values(), strict=True)]
    labels, scores, _ = asked(tmp_path / "m.js", given)
    assert labels == model.predict(table).tolist()
    assert_allclose(np.ravel(scores), model.decision_function(table), atol=1e-10)


@needs_node
@pytest.mark.parametrize(
    ("form", "more"),
    [
        ("%Y-%m-%d", ["2024-02-29", "2023-02-29", "2000-2-9", "0000-00-00", "1969-12-31", "1583-01-01"]),
        ("%Y/%m/%d %H:%M", ["2024/01/01 00:30+02:00", "2024/01/01  9:05", "2024/12/31 23:30 -0130", "2024/01/01"]),
        ("%Y-%m-%dT%H:%M:%S", ["2024-01-01T10:00:00Z", "2024-01-01T24:00:00", "2024-06-30T23:59:59"]),
        ("%d.%m.%Y %H:%M:%S.%f", ["01.01.2024 10:00:00.5", "01.01.2024 10:00:00.000001+00:00"]),
        ("%d/%m/%y", ["01/01/68", "01/01/69", "31/04/20", " 05/06/07 "]),
        ("%m-%d-%Y %I:%M:%S %p", ["12-31-2024 12:00:00 AM", "12-31-2024 12:00:00 pm", "12-31-2024 13:00:00 PM"]),
        ("%B %d, %Y", ["february 28, 2021", "FEBRUARY 29, 2021", "March  3,  2021", "soon"]),
        ("%d-%b-%y", ["03-MAR-21", "3-may-99", "03-Mai-21"]),
        ("%d%b%Y", ["03MAR2021", "3may1999"]),
    ],
)
def test_dates_are_read_as_predict_does(form, more, tmp_path):
    rng = np.random.default_rng(0)
    days = [datetime(1990, 1, 1, tzinfo=UTC) + timedelta(seconds=int(part)) for part in rng.integers(0, 2e9, 50)]
    texts = ["", "NA", *(day.strftime(form) for day in days), *more]
    table = {"day": texts, "w": ["a", "b"] * (len(texts) // 2) + ["a"] * (len(texts) % 2)}
    schema = TableSchema.infer(table, missing=[texts[5]])  # a date that stands for a gap
    assert (schema.columns[0].kind, schema.columns[0].form) == ("date", form)
    model = make_model("regressor", d=schema.n_features, inputs=standardising(schema, table))
    assert to_js(model, tmp_path / "m.js", check_rows=table).n_rows == len(texts)


@needs_node
def test_numbers_are_read_as_predict_does(tmp_path):
    points = ["1", "2.5", "$1,234.50", "-3e2", "(12)", "7-", "5 %", "+$ 4", "\u22121.5", "1'000", ".5", "0,123", "five"]
    commas = ["1,5", "2,25", "1.200,5", "-3", "(1,5)", "7,5-", "5 %", "1.234", "\u22121,5", "1 000,5", ",5", "a", "0,2"]
    table = {"point": points * 4, "comma": commas * 4}
    schema = TableSchema(tuple(TableSchema.infer({name: [cell for cell in cells if cell not in ("five", "a", "0,123")]})
                               .columns[0] for name, cells in table.items()))  # fmt: skip
    assert [column.decimal for column in schema.columns] == [".", ","]
    model = make_model("regressor", d=schema.n_features, inputs=standardising(schema, table))
    to_js(model, tmp_path / "m.js")
    values, *_ = asked(tmp_path / "m.js", [{"point": p, "comma": c} for p, c in zip(points, commas, strict=True)])
    assert_allclose(values, model.predict({"point": points, "comma": commas}), atol=1e-12)


@needs_node
def test_rows_that_cannot_be_answered_are_refused_by_name(tmp_path):
    schema = TableSchema.infer({"age": ["1", "2", "4"], "w": ["a", "b", "a"]})
    to_js(make_model("regressor", d=schema.n_features, inputs=Inputs(schema)), tmp_path / "m.js")
    for row, message in (({"w": "a"}, "the row has no column 'age'"), ([1, 2], "a row has 3 features; got 2")):
        with pytest.raises(subprocess.CalledProcessError) as refused:
            asked(tmp_path / "m.js", [row])
        assert message in refused.value.stderr
    to_js(make_model(), tmp_path / "plain.js")
    for row, message in (({"age": 1}, "it knows no columns"), ([1, None, 2, 3], "feature 1 of the row is NaN")):
        with pytest.raises(subprocess.CalledProcessError) as refused:
            asked(tmp_path / "plain.js", [row])
        assert message in refused.value.stderr


@needs_node
def test_a_wrong_file_is_not_written(tmp_path, monkeypatch):
    sound = js_file.runtime()
    monkeypatch.setattr(js_file, "runtime", lambda: sound.replace("Math.exp(-sum)", "Math.exp(-sum) + 1e-6"))
    with pytest.raises(ParityError, match=r"the JavaScript file in Node[.]js differs"):
        to_js(make_model(), tmp_path / "model.js")
    monkeypatch.setattr(js_file, "runtime", lambda: sound + "}")
    with pytest.raises(ParityError, match="does not run"):
        to_js(make_model(), tmp_path / "model.js")
    assert not list(tmp_path.iterdir())


def test_names_and_labels_are_text_in_the_file(tmp_path):
    labels = ["</script><script>alert(1)</script>", '"; process.exit(1); //', "\u2028 \U0001f600"]
    names = np.array(["*/ process.exit(1)", "`${1}`", "c", "\\"])
    model = make_model(classes=labels, feature_names=names)
    path = tmp_path / "1 *x.js"
    if NODE is None:
        with pytest.warns(UserWarning, match=r"Node\.js was not found"):
            to_js(model, path)
    else:
        assert to_js(model, path).label_agreement == 1.0
        assert asked(path, rows().tolist())[0] == model.predict(rows()).tolist()
    text = path.read_text(encoding="ascii")
    assert "</script>" not in text
    assert "globalThis._1__x = machine;" in text


def test_without_node_it_is_written_with_a_warning(tmp_path, monkeypatch):
    monkeypatch.setattr(js_file, "find_node", lambda: None)
    with pytest.warns(UserWarning, match=r"not checked: Node\.js was not found"):
        report = kompakt.to_js(make_model(), tmp_path / "m.js")
    assert report.n_rows == 0
    assert "unchecked" in str(report)
    with pytest.raises(ValueError, match="plain identifier"):
        kompakt.to_js(make_model(), tmp_path / "m.js", name="a-b")


@needs_node
def test_times_and_many_levels_are_read_as_predict_does(tmp_path):
    rng, n = np.random.default_rng(0), 400
    days = [datetime(2001, 1, 1, tzinfo=UTC) + timedelta(days=int(day)) for day in rng.integers(0, 7000, n)]
    codes, times = rng.integers(1000, 1060, n), rng.integers(1, 13, (n, 2))
    table = {
        "quarter": [f"{day.year} Q{(day.month + 2) // 3}" for day in days],
        "month": [f"{day:%b %Y}" for day in days],
        "week": [f"{day:%G-W%V}" for day in days],
        "clock": [f"{hour}:{minute:02d} {'AM' if minute % 2 else 'pm'}" for hour, minute in times],
        "duration": [f"{hours}h {minutes}min" if hours < 9 else f"{minutes} days 06:30:15" for hours, minutes in times],
        "created_at": [str(int(day.timestamp())) for day in days],
        "street": [f"street {code}" if code % 7 else "" for code in codes],
        "shop": [str(code) for code in rng.permutation(60)[codes - 1000]],
    }  # fmt: skip
    target = rng.normal(size=60)[codes - 1000] + rng.normal(0, 0.1, n)
    frame = pd.DataFrame(table)
    machine = kompakt.CompactSVR(20, refine=False, random_state=0).fit(frame, target)
    kinds = {column.name: column.kind for column in machine.model_.inputs.schema.columns}
    assert {kinds[name] for name in ("quarter", "month", "week", "created_at")} == {"date"}
    assert {kinds[name] for name in ("clock", "duration")} == {"time"}
    assert to_js(machine, tmp_path / "m.js").n_rows > 0  # unknown words, gaps and far numbers of its own
    frame.loc[::9] = ["", "Feb 1999", "2009-W53", "25:61", "P1DT2H", "soon", "nowhere", "7"]
    values, *_ = asked(tmp_path / "m.js", frame.to_dict("records"))
    assert_allclose(values, machine.model_.predict(frame), atol=1e-9)


@needs_node
def test_values_of_logarithms(tmp_path):
    model = make_model("regressor", link="log")
    to_js(model, tmp_path / "m.js")
    assert_allclose(asked(tmp_path / "m.js", rows().tolist())[0], model.predict(rows()), rtol=1e-12)
