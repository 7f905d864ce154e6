"""C files compile without a warning and answer as the machines do."""

import subprocess
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_allclose
from tests.export.machines import CASES, CONSTANTS, IDS, data, decisions, fitted
from tests.io.samples import full_classifier, make_model, outlier_detector

from kompakt.export import ParityError, c_file, to_c
from kompakt.inputs import Inputs
from kompakt.io import UnsupportedModelError
from kompakt.kernels import RBF, Constant, Laplacian, Polynomial

FLAGS = ["-std=c99", "-Wall", "-Wextra", "-Werror", "-pedantic", "-Wconversion", "-Wdouble-promotion"]
RUNTIME = "\n".join(Path(c_file.__file__).with_name(name).read_text() for name in ("runtime.c", "main.c"))
COMPILER = c_file.find_compiler()
needs_compiler = pytest.mark.skipif(COMPILER is None, reason="no C compiler (cc, gcc, clang or $CC) is installed")

DRIVER = """
#include <stdio.h>
#include <stdlib.h>
{declared}
int main(int n, char **words)
{{
    const int which = n > 1 ? atoi(words[1]) : 0;
    float x[4], scores[8];
    int j;
    while (scanf("%f %f %f %f", x, x + 1, x + 2, x + 3) == 4) {{
        switch (which) {{
{cases}
        default: return 1;
        }}
        printf("\\n");
    }}
    (void)j;
    return 0;
}}
"""


@needs_compiler
def test_forty_two_machines_in_one_program(tmp_path, monkeypatch):
    """Compiled and linked together by one call, with a driver of our own: nothing of the exporter's check is used."""
    monkeypatch.setattr(c_file, "find_compiler", lambda: None)
    declared, cases = [], []
    for number, (kernel, task, scaled) in enumerate(CASES):
        with pytest.warns(UserWarning, match="not checked"):
            report = to_c(fitted(kernel, task, scaled), tmp_path / f"m{number}.c")
        assert (report.n_rows, np.isnan(report.max_difference)) == (0, True)
        kind, k = ("float", 1) if task == "regression" else ("int", 3 if task == "three classes" else 1)
        declared += [
            f"void m{number}_scores(const float *x, float *scores);",
            f"{kind} m{number}_predict(const float *x);",
        ]
        cases.append(
            f'        case {number}: m{number}_scores(x, scores); printf("%.9g", (double)m{number}_predict(x));\n'
            f'            for (j = 0; j < {k}; j++) printf(" %.9g", (double)scores[j]);\n            break;'
        )
    (tmp_path / "driver.c").write_text(DRIVER.format(declared="\n".join(declared), cases="\n".join(cases)))
    sources = sorted(str(path) for path in tmp_path.glob("*.c"))
    subprocess.run([COMPILER, *FLAGS, *sources, "-o", str(tmp_path / "all"), "-lm"], check=True, timeout=120)
    for number, (kernel, task, scaled) in enumerate(CASES):
        machine, X = fitted(kernel, task, scaled), data(task)[0].astype(np.float32).astype(float)
        lines = "\n".join(" ".join(map(repr, row)) for row in X.tolist())
        done = subprocess.run([str(tmp_path / "all"), str(number)], input=lines, capture_output=True, text=True)
        values = np.array([line.split() for line in done.stdout.splitlines()], dtype=float)
        expected = decisions(machine, X)
        difference = np.abs(values[:, 1:].reshape(expected.shape) - expected).max()
        assert difference <= 1e-5 * np.abs(expected).max(), IDS[number]
        if task == "regression":
            assert_allclose(values[:, 0], values[:, 1])
        else:
            assert np.array_equal(machine.classes_[values[:, 0].astype(int)], machine.predict(X)), IDS[number]


MODELS = {
    "every field": full_classifier(),
    "outlier": outlier_detector(),
    "one_vs_one": make_model(classes=["a", "b", "c", "d"], coding="one_vs_one"),
    "constants inside": make_model(kernel=CONSTANTS),
    "minimum_output": make_model(classes=[0.5, 1.5, 2.5, 3.5, 7], coding="minimum_output", kernel=Laplacian(0.3)),
    "one class": make_model(classes=["only"]),
    "constant": make_model(kernel=Constant(2.0), classes=[1, 2**40]),
    "no vectors": make_model("regressor", m=0),
    "several outputs": make_model("regressor", n_outputs=3),
}


@needs_compiler
@pytest.mark.parametrize("name", MODELS)
def test_the_check_of_the_exporter_in_every_precision(name, tmp_path):
    model = MODELS[name]
    sizes = {}
    for dtype, tolerance in (("double", 1e-12), ("float", 1e-5), ("int8", 1e-5)):
        report = to_c(model, tmp_path / "model.c", dtype=dtype)
        sizes[dtype] = report.data_bytes
        assert report.n_rows >= 64
        assert report.relative_difference < tolerance or name == "several outputs"
        text = (tmp_path / "model.c").read_text()
        assert f"Constant data: {report.data_bytes} bytes" in (tmp_path / "model.h").read_text()
        assert text.endswith(RUNTIME.replace("machine_", "model_").replace("MACHINE_", "MODEL_")), "the code is fixed"
        assert report.label_agreement is None or report.label_agreement >= (0.9 if dtype == "int8" else 1.0)
        assert (report.storage_difference > 1e-4) == (
            dtype == "int8" and name not in ("one class", "constant", "no vectors")
        )
    assert sizes["double"] > sizes["float"]


@needs_compiler
def test_bytes_are_those_of_the_compiled_arrays(tmp_path):
    """Counted from the object file: what `size` calls read-only data is what the report says (labels are text)."""
    model = make_model(classes=[4, 5, 6], m=50, inputs=Inputs(shift=np.ones(4)))
    report = to_c(model, tmp_path / "model.c", dtype="int8")
    #   basis      zero, step   weights  intercept  classes  shift
    assert report.data_bytes == 50 * 4 + 2 * 16 + 600 + 12 + 12 + 16
    subprocess.run([COMPILER, "-std=c99", "-c", str(report.path), "-o", str(tmp_path / "m.o")], check=True)
    listed = subprocess.run(["nm", "-S", str(tmp_path / "m.o")], capture_output=True, text=True, check=True).stdout
    arrays = [line.split() for line in listed.splitlines() if line.split()[-2] in "rR"]
    assert sum(int(fields[1], 16) for fields in arrays) == report.data_bytes


@needs_compiler
def test_accuracy_before_and_after(tmp_path):
    X, y = data("three classes")
    report = to_c(
        fitted("rbf", "three classes", False), tmp_path / "iris.c", dtype="int8", check_rows=X, check_targets=y
    )
    machine = fitted("rbf", "three classes", False)
    assert report.accuracy == machine.score(X, y)
    assert abs(report.accuracy - report.accuracy_exported) < 0.05
    X, y = data("regression")
    machine = fitted("rbf", "regression", True)
    report = to_c(machine, tmp_path / "iris.c", check_rows=X, check_targets=y)
    assert report.accuracy == pytest.approx(machine.score(X, y), abs=1e-6)
    assert report.accuracy_exported == pytest.approx(report.accuracy, abs=1e-6)
    with pytest.raises(ValueError, match="check_targets"):
        to_c(machine, tmp_path / "iris.c", check_targets=y)


def test_eight_bits_are_within_half_a_step():
    basis = np.random.default_rng(0).normal(size=(40, 5)) * [1, 10, 0.1, 0, 1000]
    basis[:, 3] = 2.5
    levels, zero, step = c_file.eight_bits(basis)
    stored = zero + step * levels
    assert np.all(np.abs(stored - basis) <= 0.5 * step + 1e-6 * np.abs(zero))
    assert levels.dtype == np.int8
    assert np.array_equal(stored[:, 3], basis[:, 3])


@needs_compiler
def test_labels_with_every_kind_of_character(tmp_path):
    labels = ['a"b\\', "??/x\n", "größe */ 🍐", "12"]
    report = to_c(make_model(classes=labels), tmp_path / "odd name!.c")
    text = report.path.read_text(encoding="ascii")
    assert "odd_name__predict" in text
    (tmp_path / "show.c").write_text(
        '#include <stdio.h>\n#include "odd_name_.h"\n'
        'int main(void) { int i; for (i = 0; i < 4; i++) printf("%s%c", odd_name__classes[i], 0); return 0; }\n'
    )
    program = tmp_path / "show"
    subprocess.run(
        [COMPILER, *FLAGS, str(report.path), str(tmp_path / "show.c"), "-o", str(program), "-lm"], check=True
    )
    assert subprocess.run([str(program)], capture_output=True).stdout.decode().split("\0")[:-1] == labels


@needs_compiler
def test_missing_values_are_filled_inside(tmp_path):
    model = make_model(inputs=Inputs(fill=np.array([0.0, 1.0, 2.0, 3.0])))
    X = np.where(np.arange(80).reshape(20, 4) % 3 == 0, np.nan, 0.5)
    assert to_c(model, tmp_path / "model.c", check_rows=X).n_rows == 20


@pytest.fixture(scope="module")
def program(tmp_path_factory):
    """The program of a model of four features, with sanitizers where the compiler has them."""
    source = to_c(make_model(), tmp_path_factory.mktemp("program") / "model.c").path
    command = [COMPILER, *FLAGS, "-DMODEL_MAIN", str(source), "-o", str(source.with_suffix("")), "-lm"]
    sanitizers = ["-fsanitize=address,undefined", "-fno-sanitize-recover=all"]
    if subprocess.run([*command, *sanitizers], capture_output=True).returncode:
        subprocess.run(command, check=True)
    return source.with_suffix("")


@needs_compiler
@pytest.mark.parametrize(
    "text",
    [
        "1 2 3 4\n5 6 7 8\n",
        "1 2 3 4\n5 6 7 8",
        "\n  1\t2  3 4 \r\n\r\n5 6 7 8\n\n",
        f"+1.{'0' * 1500} .2e1 0x3 4\n5 6 7 8\n",
        "",
    ],
    ids=["lines", "no last end", "blanks", "long", "empty"],
)
def test_the_program_reads_a_row_per_line(program, text):
    done = subprocess.run([str(program)], input=text.encode(), capture_output=True)
    assert (done.returncode, done.stderr) == (0, b"")
    scores = np.array([line.split()[1:] for line in done.stdout.splitlines()], dtype=float).reshape(-1, 3)
    rows = np.arange(1.0, 9).reshape(2, 4) if text else np.empty((0, 4))
    assert_allclose(scores, make_model().decision_function(rows), rtol=1e-5)


@needs_compiler
@pytest.mark.parametrize(
    ("line", "message"),
    [
        (b"1 2 3 4 5", "expected 4 numbers, found 5"),
        (b"1 2 3", "expected 4 numbers, found 3"),
        (b"1 " * 100_000, "expected 4 numbers, found 100000"),
        (b"1 2 x3 4", "value 3 is not a number: x3"),
        (b"1,2,3,4", "value 1 is not a number: 1,2,3,4"),
        (b"1 2.5\x003 3 4", "value 2 is not a number: 2.5?3"),
        (b"\x1b[31m 2 3 4", "value 1 is not a number: ?[31m"),
        (b"1 2 3 " + b"4" * 100_000, "value 4 is not a number: " + "4" * 40),
    ],
    ids=["more", "fewer", "many", "text", "commas", "nul", "escape", "long"],
)
def test_a_line_that_is_no_row_ends_the_program(program, line, message):
    done = subprocess.run([str(program)], input=b"1 2 3 4\n" + line + b"\n1 2 3 4\n", capture_output=True)
    assert done.returncode == 1
    assert done.stderr.decode() == f"line 2: {message}\n"
    assert len(done.stdout.splitlines()) == 1


@needs_compiler
@pytest.mark.parametrize(("dtype", "far"), [("double", 1e104), ("float", 1e13)])
def test_scores_beyond_the_type_have_no_class(dtype, far, tmp_path):
    model = make_model(kernel=Polynomial(0.5, 1.0, 3), classes=[4, 5, 6])
    report = to_c(model, tmp_path / "model.c", dtype=dtype)
    header, program = (tmp_path / "model.h").read_text(), tmp_path / "model"
    assert "the class index is then -1" in header
    subprocess.run([COMPILER, *FLAGS, "-DMODEL_MAIN", str(report.path), "-o", str(program), "-lm"], check=True)
    text = f"1 2 3 4\n{far} 2 3 4\nnan 2 3 4\n"
    lines = subprocess.run([str(program)], input=text, capture_output=True, text=True).stdout.splitlines()
    assert [line.split()[0] for line in lines] == [str(model.predict([[1, 2, 3, 4]])[0] - 4), "-1", "-1"]
    assert not np.isfinite([float(score) for line in lines[1:] for score in line.split()[1:]]).all()


# -- errors ----------------------------------------------------------------------------------------------


@needs_compiler
def test_a_wrong_file_is_not_written(tmp_path, monkeypatch):
    sound = c_file.c_source

    def spoiled(*given):
        text = sound(*given)
        return replace(text, source=text.source.replace("raw[l] += ", "raw[l] -= "))

    monkeypatch.setattr(c_file, "c_source", spoiled)
    with pytest.raises(ParityError, match="differs from the machine by"):
        to_c(make_model(), tmp_path / "model.c")
    monkeypatch.setattr(c_file, "c_source", lambda *given: c_file.CFile("", "int x = ;", 0, 0))
    with pytest.raises(ParityError, match="does not compile"):
        to_c(make_model(), tmp_path / "model.c")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("model", "options", "error", "message"),
    [
        (make_model(), {"dtype": "int4"}, ValueError, "must be one of"),
        (make_model(), {"name": "2x"}, ValueError, "C identifier"),
        (make_model("regressor", kernel=RBF(1e39)), {}, UnsupportedModelError, "beyond float"),
        (make_model(classes=["x" * 5000, "b"]), {}, UnsupportedModelError, "5000 bytes"),
        (make_model(classes=np.array([0, 2**63], dtype=np.uint64)), {}, UnsupportedModelError, "64-bit"),
    ],
    ids=["dtype", "name", "numbers", "long label", "large label"],
)
def test_what_c_cannot_hold_is_named(model, options, error, message, tmp_path):
    with pytest.raises(error, match=message):
        to_c(model, tmp_path / "model.c", **options)
