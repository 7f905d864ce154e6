"""Where commands write: standard output, devices and pipes, and never over a file that they read."""

from __future__ import annotations

import os
import shlex
import stat
import subprocess
import sys
import threading

import numpy as np
import pytest
from tests.io.samples import make_model
from tests.io.test_files import entry, rewrite
from tests.io.test_writing import make_device

import kompakt
from kompakt.inputs import Inputs

posix = pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs pipes that have a name")


@pytest.fixture
def model(run, svm_file):
    shift, scale = np.array([0.0, 1000.0, 5.0]), np.array([1.0, 100.0, 0.01])
    kompakt.save(make_model(classes=[-1, 1], d=3, inputs=Inputs(shift=shift, scale=scale)), "m.kompakt")
    return "m.kompakt"


class Reader(threading.Thread):
    """Reads a pipe to its end."""

    def __init__(self, path) -> None:
        super().__init__(daemon=True)
        self.path, self.text = path, ""
        self.start()

    def run(self) -> None:
        with open(self.path, encoding="utf-8") as file:
            self.text = file.read()


def test_predict_without_a_file_writes_to_standard_output(run, model, svm_file, tmp_path):
    done = run("predict", svm_file, model, "out")
    assert "accuracy" in done.out
    written = (tmp_path / "out").read_text()
    done = run("predict", svm_file, model)
    assert done.out == written
    assert "accuracy" in done.err
    assert run("predict", svm_file, model, "-q").out == written
    assert run("predict", svm_file, model, "--json").json["predictions"] is None
    assert run("predict", svm_file, model, "-", "--json").code == 2


@posix
def test_predict_streams_to_pipes_and_leaves_them_pipes(run, model, svm_file, tmp_path):
    written = run("predict", svm_file, model).out
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = Reader(pipe)
    done = run("predict", svm_file, model, pipe)
    reader.join(10)
    assert (done.code, "accuracy" in done.out) == (0, True)
    assert reader.text == written
    assert stat.S_ISFIFO(pipe.stat().st_mode)
    reader = Reader(pipe)
    assert run("scale", svm_file, pipe).code == 0
    reader.join(10)
    assert len(reader.text.splitlines()) == 300
    assert sorted(path.name for path in tmp_path.iterdir()) == ["m.kompakt", "pipe", "rows.txt"]


@posix
@pytest.mark.parametrize(
    "words",
    [
        ["train", "rows.txt", "pipe", "-n", 5],
        ["tune", "rows.txt", "pipe", "-n", 5],
        ["auto", "rows.txt", "-o", "pipe"],
        ["compress", "m.kompakt", "pipe", "-n", 2],
        ["export", "m.kompakt", "pipe", "--to", "numpy"],
        ["export", "m.kompakt", "pipe", "--to", "libsvm"],
        ["report", "m.kompakt", "rows.txt", "-o", "pipe"],
        ["scale", "rows.txt", "out.txt", "-s", "pipe"],
    ],
)
def test_other_commands_refuse_pipes_before_they_work(run, model, tmp_path, words):
    os.mkfifo(tmp_path / "pipe")
    done = run(*words)
    assert done.code == 3
    assert "pipe: it is a pipe, not a regular file" in done.err
    assert stat.S_ISFIFO((tmp_path / "pipe").stat().st_mode)
    assert "features" not in done.err  # nothing was read, nor trained
    assert sorted(path.name for path in tmp_path.iterdir()) == ["m.kompakt", "pipe", "rows.txt"]


def test_a_device_stays_a_device(run, model, svm_file, tmp_path):
    make_device(tmp_path / "null", 3)
    make_device(tmp_path / "full", 7)
    (tmp_path / "link").symlink_to("null")
    for path in ("null", "link"):
        assert run("predict", svm_file, model, path).code == 0
        assert run("export", model, path, "--to", "c").code == 3
        assert run("train", svm_file, path, "-n", 3).code == 3
        assert stat.S_ISCHR(os.stat(path).st_mode)
    done = run("predict", svm_file, model, "full")
    assert done.code == 3
    assert "No space left" in done.err


@pytest.mark.parametrize(
    "words",
    [
        ["predict", "rows.txt", "m.kompakt", "rows.txt"],
        ["predict", "rows.txt", "m.kompakt", "./m.kompakt"],
        ["predict", "rows.txt", "m.kompakt", "link"],
        ["train", "rows.txt", "rows.txt"],
        ["train", "rows.txt", "hard"],
        ["tune", "rows.txt", "rows.txt"],
        ["auto", "rows.txt", "-o", "rows.txt"],
        ["auto", "rows.txt", "other.txt", "-o", "other.txt"],
        ["auto", "rows.txt", "-o", "new", "--predictions", "rows.txt"],
        ["auto", "rows.txt", "-o", "new", "--predictions", "new"],
        ["auto", "rows.kompakt"],
        ["compress", "m.kompakt", "m.kompakt", "-n", 2],
        ["compress", "m.kompakt", "rows.txt", "-n", 2, "--rows", "rows.txt"],
        ["export", "m.kompakt", "m.kompakt", "--to", "c"],
        ["export", "m.kompakt", "rows", "--to", "libsvm", "--check", "rows.range"],
        ["report", "m.kompakt", "rows.txt", "-o", "m.kompakt"],
        ["report", "m.kompakt", "rows.txt", "-o", "rows.txt"],
        ["scale", "rows.txt", "rows.txt"],
        ["scale", "rows.txt", "out", "-s", "out"],
        ["scale", "rows.txt", "out", "-s", "rows.txt"],
        ["scale", "rows.txt", "rows.range", "-r", "rows.range"],
        ["train", "x.npy", "labels.npy", "--target", "labels.npy"],
    ],
)
def test_files_of_the_command_are_not_overwritten(run, model, svm_file, tmp_path, words):
    for name in ("other.txt", "rows.kompakt", "rows.range", "labels.npy", "x.npy"):
        (tmp_path / name).write_bytes(svm_file.read_bytes())
    (tmp_path / "link").symlink_to("rows.txt")
    os.link(svm_file, tmp_path / "hard")
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    done = run(*words)
    assert done.code == 2, done.err
    assert "give another name" in done.err
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before


def test_predictions_go_through_a_link_and_nowhere_else(run, model, svm_file, tmp_path):
    (tmp_path / "elsewhere").mkdir()
    victim = tmp_path / "elsewhere" / "victim"
    victim.write_text("mine")
    (tmp_path / "out.part").symlink_to(victim)
    (tmp_path / "link").symlink_to("elsewhere/out")
    assert run("predict", svm_file, model, "out").code == 0
    assert run("predict", svm_file, model, "link").code == 0
    assert victim.read_text() == "mine"
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "elsewhere" / "out").read_text() == (tmp_path / "out").read_text()
    assert not [name for name in os.listdir(tmp_path) if name.endswith(".tmp")]


def test_a_failed_prediction_leaves_what_was_there(run, model, tmp_path):
    (tmp_path / "bad.txt").write_text("1 1:2 2:1 3:4\n1 1:nan\n")
    (tmp_path / "out").write_text("old")
    assert run("predict", "bad.txt", model, "out").code == 3
    assert (tmp_path / "out").read_text() == "old"
    assert not [name for name in os.listdir(tmp_path) if name.startswith(".")]


@posix
@pytest.mark.parametrize(
    "words", [["predict", "pipe", "m.kompakt"], ["predict", "rows.txt", "pipe"], ["train", "pipe", "m"]]
)
def test_pipes_are_not_read(run, model, tmp_path, words):
    """Rows are looked at before they are read: of a pipe, the beginning would be lost."""
    os.mkfifo(tmp_path / "pipe")
    done = run(*words)
    assert (done.code, "write it to a file first" in done.err) == (3, True)


@pytest.mark.parametrize("command", [["train", "rows.txt", "-"], ["export", "m.kompakt", "-", "--to", "c"]])
def test_commands_that_write_files_do_not_take_a_dash(run, model, tmp_path, command):
    done = run(*command)
    assert (done.code, "standard output" in done.err) == (2, True)
    assert not (tmp_path / "-").exists()


def test_an_empty_model_of_endless_width_is_not_exported(run, tmp_path):
    kompakt.save(make_model("regressor", m=0, d=4), "wide.kompakt")

    def widen(header):
        header["n_features"] = 2**31 - 1
        entry(header, "basis")["shape"] = [0, 2**31 - 1]

    rewrite(tmp_path / "wide.kompakt", widen)
    assert (tmp_path / "wide.kompakt").stat().st_size < 1000
    for to in ("c", "numpy", "libsvm"):
        done = run("export", "wide.kompakt", "out", "--to", to)
        assert (done.code, "holds no vector" in done.err) == (3, True)


def test_a_small_file_cannot_ask_for_gigabytes(run, tmp_path):
    """A LIBSVM model of one vector with a very high index: its check must not take 64 rows of that width."""
    import tracemalloc

    text = "svm_type epsilon_svr\nkernel_type linear\nnr_class 2\ntotal_sv 1\nrho 0.3\nSV\n1 1:2 2000000:4\n"
    (tmp_path / "wide.model").write_text(text)
    model = kompakt.io.to_model(kompakt.io.read_libsvm("wide.model"))
    from kompakt.export.common import check_rows_for

    tracemalloc.start()
    rows, n_usual = check_rows_for(model, None)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert (n_usual, rows.shape[1]) == (4, 2_000_000)
    assert peak < 400e6  # 64 rows would take 3 GB


# -- terminals ----------------------------------------------------------------------------------------------


def test_cells_and_names_that_are_formulas_are_quoted(run, tmp_path):
    rng = np.random.default_rng(0)
    cells = [(f"=1+{number},-{number}.5,@a,{a:.3f}", a > 0) for number, a in enumerate(rng.normal(size=120))]
    lines = [f"{text},{'+up' if up else '=down'}" for text, up in cells]
    (tmp_path / "t.csv").write_text("\n".join(["=id,-x,+word,a,way", *lines]))
    assert run("train", "t.csv", "m", "--target", "way", "-n", 3, "-b", 1, "-q").code == 0
    for flags in (["--id", "=id"], ["--keep-columns"]):
        header, first, *_ = run("predict", "t.csv", "m", "--safe-csv", "-b", 1, "-q", *flags).out.splitlines()
        assert header.startswith("'=id,")
        assert first.startswith("'=1+0,")
    cells = first.split(",")
    assert header.split(",")[1:3] == ["'-x", "'+word"]
    assert cells[1:3] == ["-0.5", "'@a"]  # a number is no formula
    assert cells[5] in ("'+up", "'=down")
    assert run("predict", "t.csv", "m", "--keep-columns", "-q").out.startswith("=id,")


@posix
def test_names_of_files_do_not_act_on_the_terminal(run, model, svm_file, tmp_path):
    name = "a\x1b[31mb\x07.txt"
    done = run("predict", name, model)
    assert "a\\x1b[31mb\\x07.txt: No such file" in done.err
    svm_file.rename(tmp_path / name)
    said = [run("train", name, name + ".m", "-n", 3), run("inspect", name + ".m"), run("inspect", name), run(name)]
    said += [run("predict", name, model, name + ".out"), run("train", name, name)]
    said += [run("report", name, model, "-o", name)]
    for done in said:
        assert "\x1b" not in done.out + done.err
        assert "\x07" not in done.out + done.err
    assert "a\\x1b[31mb\\x07.txt.m" in said[0].out


@posix
@pytest.mark.parametrize("command", ["inspect m.kompakt", "predict rows.txt m.kompakt out.csv", "--version"])
@pytest.mark.parametrize("closed", [">&-", "2>&-", "| true"])
def test_a_closed_output_is_no_mistake(run, model, svm_file, tmp_path, command, closed):
    done = shell(f"-m kompakt {command} {closed}", tmp_path)
    assert (done.returncode, "mistake" in done.stderr, "Traceback" in done.stderr) == (0, False, False)


@posix
def test_predictions_need_an_output(run, model, svm_file, tmp_path):
    done = shell("-m kompakt predict rows.txt m.kompakt >&-", tmp_path)
    assert (done.returncode, "standard output is closed" in done.stderr) == (2, True)


@posix
def test_remarks_go_nowhere_if_standard_error_is_closed(run, model, svm_file, tmp_path):
    written = run("predict", svm_file, model).out
    assert shell("-m kompakt predict rows.txt m.kompakt 2>&-", tmp_path).stdout == written


@posix
def test_a_terminal_of_ascii_shows_other_letters_escaped(run, tmp_path):
    kompakt.save(make_model(classes=["\u4e2d", "no"], d=2), "m.kompakt")
    (tmp_path / "\u00e9t\u00e9.csv").write_text("a,b\n1,2\n3,4\n")
    done = shell("-m kompakt inspect m.kompakt", tmp_path, PYTHONIOENCODING="ascii")
    assert (done.returncode, "\\u4e2d, no" in done.stdout) == (0, True)
    done = shell("-m kompakt predict *.csv m.kompakt out", tmp_path, PYTHONIOENCODING="ascii")
    assert (done.returncode, "\\xe9t\\xe9.csv" in done.stderr) == (0, True)
    done = shell("-m kompakt predict *.csv m.kompakt", tmp_path, PYTHONIOENCODING="ascii")
    assert done.returncode == 0


def shell(arguments: str, folder, **environment: str):
    """Python in a shell of its own, which can close its streams."""
    return subprocess.run(
        f"{shlex.quote(sys.executable)} {arguments}", shell=True, cwd=folder, env={**os.environ, **environment},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
