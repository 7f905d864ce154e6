"""inspect, export, compress, report, scale, bench, demo, and the program itself."""

from __future__ import annotations

import os
import shutil
import statistics
import subprocess
import sys
import time
from dataclasses import replace

import numpy as np
import pytest
from sklearn.datasets import load_svmlight_file
from tests.io.samples import make_model

import kompakt
from kompakt.cli import main
from kompakt.inputs import Inputs


@pytest.fixture
def model(run, svm_file):
    assert run("train", svm_file, "m.kompakt", "-n", 8, "-g", "ard", "--scale", "-q").code == 0
    return "m.kompakt"


def test_inspect_tells_what_is_inside(run, model):
    done = run("inspect", model)
    assert done.code == 0
    for word in ("classifier", "RBF", "8 with 3 features", "-1, 1", "scales", "kompakt train"):
        assert word in done.out
    facts = run("inspect", model, "--json").json
    assert facts["classes"] == [-1, 1]
    assert facts["arrays"]["basis"] == ["float64", [8, 3]]
    kompakt.save(replace(make_model(d=2), n_features=5, inputs=Inputs(map=np.ones((2, 5)))), "mapped")
    assert "RBF(gamma=0.4) after a learned linear map of rank 2 over 5 features\n" in run("inspect", "mapped").out
    done = run("inspect", __file__)
    assert done.code == 3
    assert "neither" in done.err


@pytest.mark.parametrize("to", ["c", "numpy", "libsvm", "onnx"])
def test_export_by_flag_and_by_ending(run, model, svm_file, to, tmp_path):
    if to == "onnx":
        pytest.importorskip("onnxruntime")
    name = {"c": "m.c", "numpy": "m.py", "libsvm": "m.model", "onnx": "m.onnx"}[to]
    done = run("export", model, name, "--check", svm_file, "--json")
    assert done.code == 0, done.err
    assert done.json["format"] == to
    assert done.json["rows_checked"] == 300
    assert done.json["label_agreement"] == 1.0
    assert run("export", model, "again", "--to", to).code == 0
    assert (tmp_path / "again").exists()


def test_compress_a_libsvm_model(run, svm_file, tmp_path):
    from sklearn.svm import SVC

    X, y = load_svmlight_file(str(svm_file))
    X = X.toarray()
    X = (X - X.mean(axis=0)) / X.std(axis=0)
    machine = SVC(gamma=0.5).fit(X, y)
    smaller = kompakt.compress(machine, n_basis=40, X=X, random_state=0)
    kompakt.save(smaller, "big.kompakt")
    kompakt.to_libsvm(smaller, "big.model")
    np.savez("rows.npz", X=X, y=y)
    done = run("compress", "big.model", "small.kompakt", "-n", 10, "--rows", "rows.npz", "--json")
    assert done.code == 0, done.err
    assert (done.json["from"], done.json["n_basis"]) == (40, 10)
    assert done.json["agreement"] > 0.9
    assert done.json["agreement_rows"] == len(X) // 4
    done = run("predict", "rows.npz", "small.kompakt", "--json")
    assert done.json["accuracy"] > 0.85


def test_report_writes_a_page(run, model, svm_file, tmp_path):
    done = run("report", model, svm_file, "-o", "page.html", "--title", "Rows", "--json")
    assert done.code == 0, done.err
    page = (tmp_path / "page.html").read_text()
    assert "kompakt report" in page
    assert done.json["bytes"] == len(page.encode()) < 2_000_000


@pytest.mark.parametrize("limits", [[], ["-l", "0", "-u", "2"]])
def test_scale_does_what_svm_scale_does(run, svm_file, tmp_path, limits):
    done = run("scale", svm_file, "scaled.txt", "-s", "ranges", *limits)
    assert done.code == 0, done.err
    again = run("scale", svm_file, "-r", "ranges", "-q")
    assert again.out == (tmp_path / "scaled.txt").read_text()
    X, _ = load_svmlight_file("scaled.txt", n_features=3)
    low, high = (0.0, 2.0) if limits else (-1.0, 1.0)
    assert X.toarray().min(axis=0) == pytest.approx([low] * 3)
    assert X.toarray().max(axis=0) == pytest.approx([high] * 3)
    if shutil.which("svm-scale") is None:
        pytest.skip("svm-scale (libsvm-tools) is not installed: no second opinion")
    theirs = subprocess.run(
        ["svm-scale", *limits, str(svm_file)], capture_output=True, text=True, check=True
    ).stdout  # fmt: skip
    ours = (tmp_path / "scaled.txt").read_text()
    for one, other in zip(ours.splitlines(), theirs.splitlines(), strict=True):
        mine, his = one.split(), other.split()
        assert float(mine[0]) == float(his[0])
        assert [pair.split(":")[0] for pair in mine[1:]] == [pair.split(":")[0] for pair in his[1:]]
        assert [float(pair.split(":")[1]) for pair in mine[1:]] == pytest.approx(
            [float(pair.split(":")[1]) for pair in his[1:]], rel=1e-5
        )
    restored = subprocess.run(["svm-scale", "-r", "ranges", str(svm_file)], capture_output=True, text=True, check=True)
    assert len(restored.stdout.splitlines()) == 300


def test_scale_of_a_csv_file_keeps_its_header(run, people):
    done = run("scale", people, "--target", "hired", "--ignore", "name,weight", "-q")
    assert done.code == 0, done.err
    assert done.out.splitlines()[0] == "height,age,hired"


def test_bench_compares_with_the_exact_svm(run, svm_file):
    done = run("bench", svm_file, "--sizes", "3,6", "--scale", "--json")
    assert done.code == 0, done.err
    machines = {row["model"]: row for row in done.json["results"]}
    assert list(machines) == ["kompakt 3", "kompakt 6", "exact SVM"]
    assert machines["kompakt 6"]["vectors"] == 6
    assert machines["exact SVM"]["error"] < 0.2
    assert run("bench", svm_file, "--sizes", "3", "--scale").out.startswith("model ")


def test_demo_goes_from_rows_to_an_exported_model(run, tmp_path):
    done = run("demo", "--folder", "d", "-q")
    assert done.code == 0, done.err
    assert {path.name for path in (tmp_path / "d").iterdir()} == {
        "people.csv", "new.csv", "model.kompakt", "predictions.csv", "model.py",
    }  # fmt: skip


# -- the program ------------------------------------------------------------------------------------------


def test_help_names_every_command_and_imports_nothing_heavy():
    code = (
        "import sys; from kompakt.cli import main; assert main(['--help']) == 0; "
        "heavy = {'numpy', 'scipy', 'sklearn', 'pyarrow', 'rich', 'numba'} & set(sys.modules); "
        "sys.exit(f'imported: {heavy}' if heavy else 0)"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
    for command in (
        "train",
        "predict",
        "report",
        "tune",
        "compress",
        "export",
        "inspect",
        "bench",
        "demo",
        "scale",
        "auto",
    ):
        assert f"\n    {command} " in result.stdout


def test_help_is_quick():
    """Under 0.3 s on an idle machine; measured against an empty program, which the same load slows down."""

    def seconds(*words: str) -> float:
        began = time.perf_counter()
        subprocess.run([sys.executable, *words], capture_output=True, check=True)
        return time.perf_counter() - began

    pairs = [(seconds("-c", "pass"), seconds("-m", "kompakt", "--help")) for _ in range(5)]
    empty, ours = (statistics.median(column) for column in zip(*pairs, strict=True))
    assert ours < max(0.3, 8 * empty)


def test_the_program_leaves_with_its_code(tmp_path):
    result = subprocess.run(
        [sys.executable, "-m", "kompakt", "train", "nowhere.csv", "m"], capture_output=True, text=True, cwd=tmp_path
    )  # fmt: skip
    assert result.returncode == 3
    assert "nowhere.csv" in result.stderr
    assert "Traceback" not in result.stderr


def test_a_closed_pipe_is_no_error(tmp_path, svm_file):
    assert main(["train", str(svm_file), str(tmp_path / "m.kompakt"), "-n", "3", "-q"]) == 0
    program = f"{sys.executable} -m kompakt predict {svm_file} {tmp_path / 'm.kompakt'} - | head -1"
    result = subprocess.run(program, shell=True, capture_output=True, text=True, env={**os.environ, "LC_ALL": "C"})
    assert result.stdout.strip() in ("-1", "1")
    assert "Traceback" not in result.stderr
