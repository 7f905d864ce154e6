"""The short record of a training that a model file keeps."""

import json
from dataclasses import replace

import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer, load_diabetes, make_moons
from sklearn.preprocessing import scale

import kompakt
from kompakt.cli.main import main
from kompakt.io import container, read_header
from kompakt.io.schema import encode
from kompakt.record import MOST_TRIED, Candidate, TrainingRecord


@pytest.fixture(scope="module")
def tuned():
    X, y = load_breast_cancer(return_X_y=True)
    return kompakt.CompactSVC(10, tune=True, random_state=0).fit(scale(X), y)


def test_a_model_file_keeps_what_was_tried_and_why(tuned, tmp_path):
    kompakt.save(tuned, tmp_path / "model.kompakt")
    record = kompakt.load(tmp_path / "model.kompakt").record
    assert record == tuned.model_.record
    assert record.estimator == "CompactSVC"
    assert record.settings["C"] == pytest.approx(tuned.C_)
    assert record.n_tried == len(tuned.cv_results_["params"]) > MOST_TRIED == len(record.tried)
    chosen = int(np.argmin(tuned.cv_results_["rank_test_error"]))
    assert record.tried[0].error == pytest.approx(tuned.cv_results_["mean_test_error"][chosen], rel=1e-5)
    errors = [one.error for one in record.tried[1:]]
    assert errors == sorted(errors)
    assert {"plain", "linear", "constant"} <= {one.model for one in record.tried}
    assert "of 66 unrefined models over 5 folds" in record.why or "refined models" in record.why
    assert record.seconds["all"] >= record.seconds["search"] > 0
    assert record.versions["kompakt"] == kompakt.__version__


def test_a_record_is_small(tuned):
    assert len(json.dumps(tuned.model_.record.to_json())) < 4000


def test_the_training_error_is_that_on_the_training_rows():
    X, y = load_breast_cancer(return_X_y=True)
    X = scale(X)
    machine = kompakt.CompactSVC(10, refine=False, random_state=0).fit(X, y)
    assert machine.model_.record.train_error == pytest.approx(1.0 - machine.score(X, y))
    X, y = load_diabetes(return_X_y=True)
    machine = kompakt.CompactSVR(10, refine=False, random_state=0).fit(X, y)
    assert machine.model_.record.train_error == pytest.approx(np.sqrt(np.mean((machine.predict(X) - y) ** 2)))
    assert machine.model_.record.n_train_error == len(y)


def test_the_digest_tells_data_apart():
    X, y = make_moons(200, noise=0.2, random_state=0)
    changed = X.copy()
    changed[7, 1] += 1e-12

    def digest(*rows, **options):
        return kompakt.CompactSVC(5, refine=False, **options).fit(*rows).model_.record.digest

    assert digest(X, y) == digest(X.copy(), y, C=3.0)
    assert len({digest(X, y), digest(changed, y), digest(X, 1 - y), digest(X, y, np.full(200, 2.0))}) == 4


@pytest.mark.parametrize(
    ("estimator", "options"),
    [
        (kompakt.SpSVC, {"tune": kompakt.GridSearch(C=[1.0, 10.0], gamma=[0.5, 1.0, 2.0])}),
        (kompakt.FixedSizeLSSVC, {"tune": kompakt.GridSearch(n_points=4)}),
    ],
)
def test_every_search_is_in_the_record(estimator, options, tmp_path):
    X, y = make_moons(120, noise=0.2, random_state=0)
    machine = estimator(5, random_state=0, **options).fit(X, y)
    record = machine.model_.record
    assert record.n_tried >= len(record.tried) > 1
    assert record.tried[0].setting["C"] == pytest.approx(machine.C_, rel=1e-4)
    kompakt.save(machine, tmp_path / "model.kompakt")
    assert kompakt.load(tmp_path / "model.kompakt").record == record


def test_without_a_search_the_record_says_so():
    X, y = make_moons(100, noise=0.2, random_state=0)
    record = kompakt.CompactSVC(5, refine=False).fit(X, y).model_.record
    assert record.tried == ()
    assert "no search" in record.why


def test_inspect_shows_the_record(tuned, tmp_path, capsys):
    kompakt.save(tuned, tmp_path / "model.kompakt")
    main(["inspect", str(tmp_path / "model.kompakt")])
    shown = capsys.readouterr().out
    for text in (
        "trained by",
        "why",
        "settings tried",
        "  chosen",
        "versions",
        "data digest",
        tuned.model_.record.digest,
    ):
        assert text in shown


@pytest.mark.parametrize(
    "change",
    [
        {"n_tried": -1},
        {"n_tried": 2},
        {"why": "x" * 1000},
        {"why": 3},
        {"tried": "abc"},
        {"tried": [{"setting": {}}]},
        {"settings": []},
        {"settings": {"C": [1.0]}},
        {"seconds": {"all": "fast"}},
        {"versions": {"numpy": 2}},
        {"versions": {str(number): "1" for number in range(100)}},
        {"train_error": "low"},
        {"unknown": 1},
    ],
)
def test_a_damaged_record_is_refused(tuned, tmp_path, change):
    header, arrays = encode(tuned.model_)
    header["record"] = json.loads(json.dumps(header["record"])) | change
    path = tmp_path / "model.kompakt"
    path.write_bytes(b"".join(bytes(part) for part in container.pack(header, arrays)))
    with pytest.raises(container.ModelFileError, match="record"):
        kompakt.load(path)


def test_a_file_without_a_record_loads(tuned, tmp_path):
    kompakt.save(replace(tuned.model_, record=None), tmp_path / "model.kompakt")
    assert "record" not in read_header(tmp_path / "model.kompakt")
    assert kompakt.load(tmp_path / "model.kompakt").record is None


def test_a_compressed_model_forgets_the_training_error(tuned):
    smaller = kompakt.compress(tuned, n_basis=4, random_state=0)
    assert smaller.record.train_error is None
    assert smaller.record.tried == tuned.model_.record.tried


def test_a_record_holds_no_more_than_its_bounds():
    with pytest.raises(ValueError, match="at most 20 settings"):
        TrainingRecord("CompactSVC", n_tried=30, tried=tuple(Candidate({"C": 1.0}, 0.1) for _ in range(21)))
    with pytest.raises(ValueError, match="finite"):
        TrainingRecord("CompactSVC", n_tried=1, tried=(Candidate({"C": 1.0}, np.inf),))
