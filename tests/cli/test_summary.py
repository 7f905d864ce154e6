"""What is printed, the record of the model, `cv_results_` and the fitted model say the same."""

import re

import numpy as np
import pytest
from sklearn import datasets
from sklearn.preprocessing import scale

import kompakt
from kompakt import CompactSVC, CompactSVR
from kompakt.cli.train import _MODELS


def noise(n_rows, seed):
    rng = np.random.default_rng(seed)
    return rng.standard_normal((n_rows, 4)), rng.standard_normal(n_rows)


#: name -> (rows, labels or numbers)
TABLES = {
    "iris": lambda: datasets.load_iris(return_X_y=True),
    "wine": lambda: datasets.load_wine(return_X_y=True),
    "breast cancer": lambda: datasets.load_breast_cancer(return_X_y=True),
    "diabetes": lambda: datasets.load_diabetes(return_X_y=True),
    "classes, few rows": lambda: datasets.make_classification(120, 8, n_informative=4, flip_y=0.1, random_state=1),
    "classes, few rows again": lambda: datasets.make_classification(120, 8, n_informative=4, random_state=2),
    "classes": lambda: datasets.make_classification(300, 8, n_informative=4, flip_y=0.1, random_state=0),
    "moons": lambda: datasets.make_moons(2200, noise=0.3, random_state=0),
    "numbers, few rows": lambda: datasets.make_friedman1(120, random_state=0),
    "numbers, few rows again": lambda: datasets.make_friedman1(120, noise=1.0, random_state=1),
    "numbers": lambda: datasets.make_friedman1(300, noise=1.0, random_state=0),
    "noise": lambda: noise(300, 0),
    "noise again": lambda: noise(120, 1),
    "noise, many rows": lambda: noise(2200, 2),
}
#: what is asked for -> parameters
KINDS = {
    "tuned": {"n_basis": 20, "tune": True},
    "tuned size": {"n_basis": "auto", "tune": True},
    "size": {"n_basis": "auto"},
    "default": {"n_basis": 20},
}


def table(name):
    X, y = TABLES[name]()
    return scale(X), y, len(np.unique(y)) <= 3


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        (name, kind)
        for number, name in enumerate(TABLES)
        for kind in KINDS
        if "tune" in KINDS[kind] or number % 4 == 3  # without a search there is less to contradict
    ],
)
def test_the_record_is_that_of_the_fitted_model(name, kind):
    X, y, is_classes = table(name)
    machine = (CompactSVC if is_classes else CompactSVR)(random_state=0, **KINDS[kind]).fit(X, y)
    record = machine.model_.record
    rows = {row.tobytes() for row in X}
    moved = not all(vector.tobytes() in rows for vector in machine.basis_vectors_)
    assert record.settings["refined"] == ("yes" if moved else "no")
    assert record.settings["C"] == machine.C_
    assert record.settings["basis vectors"] == machine.n_basis_ == len(machine.basis_vectors_)
    assert len(record.why) < 400  # not cut
    if KINDS[kind]["n_basis"] == "auto":
        assert f"{machine.n_basis_} vectors: the smallest of" in record.why
    results, chosen = machine.cv_results_, record.tried[0]
    at = int(np.argmin(results["rank_test_error"]))
    assert np.sum(results["rank_test_error"] == 1) == 1
    assert chosen.model.split(":")[0] == results["model"][at] == ("refined" if moved else "plain")
    assert chosen.setting["C"] == pytest.approx(results["param_C"][at], rel=1e-5)
    assert machine.C_ == pytest.approx(results["param_C"][at])
    assert chosen.error == pytest.approx(results["mean_test_error"][at], rel=1e-5)
    if not moved:
        assert np.all(machine.gamma_ == results["param_gamma"][at])
    remarks = " ".join(remark for note in machine.history_ for remark in note.get("remarks", []))
    reasons = {
        "plain": "race",
        "refined": "race",
        "linear": "a linear model is as good",
        "constant": "a constant is as good",
    }
    for other in record.tried[1:]:
        if other.error < chosen.error and other.model != "larger":  # which is compared with the search's own errors
            kind = other.model.split(":")[0]
            assert re.search(reasons[kind], record.why if kind in ("plain", "refined") else remarks), other


@pytest.mark.parametrize("name", ["iris", "numbers, few rows", "noise", "moons"])
@pytest.mark.parametrize("command", ["tune", "auto", "train"])
def test_the_printed_summary_is_that_of_the_saved_model(run, tmp_path, command, name):
    X, y, _ = table(name)
    header = ",".join([*(f"x{number}" for number in range(X.shape[1])), "y"])
    np.savetxt(tmp_path / "table.csv", np.column_stack([X, y]), delimiter=",", header=header, comments="")
    words = {"auto": ["table.csv", "--model", "model.kompakt"]}.get(command, ["table.csv", "model.kompakt"])
    done = run(command, *words, "--target", "y", "-n", 12, "--seed", 0)
    assert done.code == 0, done.err
    model = kompakt.load(tmp_path / "model.kompakt")
    record, lines = model.record, [line.strip() for line in done.out.splitlines()]
    first = next(line for line in lines if line.startswith("basis vectors"))
    assert re.search(rf"\b{model.n_basis_} for {record.n_rows:,} rows", first)
    assert ("not refined" in first) == (record.settings["refined"] == "no")
    assert f"C {record.settings['C']:.4g}" in first
    assert "gamma" in first
    chosen = record.tried[0]
    assert record.why in " ".join(done.out.split())
    assert any(line.startswith("search") and line.endswith(f"validation error {chosen.error:.4g}") for line in lines)
    ranked = [line for line in lines if re.match(r"\d\. ", line)]
    assert re.match(rf"1\. {_MODELS.get(chosen.model, chosen.model)} +{chosen.error:.4g}\b", ranked[0])
    assert ("not refined" in first) == ("not refined" in ranked[0])
