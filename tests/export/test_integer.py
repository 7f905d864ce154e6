"""C in integers: bit for bit the simulation, on every chip, and within the bound of the model."""

import shutil
import subprocess
from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from benchmarks.devices.chips import CHIPS, UNO, measure
from sklearn.datasets import load_breast_cancer, load_digits, load_iris, load_wine
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import OneClassSVM
from tests.io.samples import make_model

import kompakt
from kompakt import CompactSVC, CompactSVR, Refinement, compress
from kompakt.export import ParityError, c_file, integer, to_arduino, to_c
from kompakt.inputs import Inputs
from kompakt.io import UnsupportedModelError
from kompakt.model import stored_bytes

COMPILER = c_file.find_compiler()
needs_compiler = pytest.mark.skipif(COMPILER is None, reason="no C compiler (cc, gcc, clang or $CC) is installed")
LOADERS = {"iris": load_iris, "wine": load_wine, "cancer": load_breast_cancer, "digits": load_digits}
#: compilers of chips, with the options that name one
CROSS = {
    "AVR": "avr-gcc -mmcu=atmega328p",
    "AVR without multiplication": "avr-gcc -mmcu=attiny85",
    "Cortex-M0": "arm-none-eabi-gcc -mcpu=cortex-m0 -mthumb",
    "Cortex-M4F": "arm-none-eabi-gcc -mcpu=cortex-m4 -mthumb -mfloat-abi=hard -mfpu=fpv4-sp-d16",
    "RISC-V": "riscv64-unknown-elf-gcc -march=rv32imac -mabi=ilp32 --specs=picolibc.specs",
}


def _scaled(machine, X, y):
    return make_pipeline(StandardScaler(), machine).fit(X, y)


def _mapped(n_basis, rank, max_iter=100):
    return CompactSVC(n_basis, gamma="full", refine=Refinement(max_iter, rank=rank), random_state=0)


def _with_gaps(X, y):
    machine = _scaled(CompactSVC(8, random_state=0), X, y)
    model = compress(machine, storage="int8", X=X, random_state=0)
    return replace(model, inputs=replace(model.inputs, fill=X.mean(axis=0)))


#: ten models of every kind of task, metric and inputs
FITS = {
    "one width": ("iris", lambda X, y: CompactSVC(10, gamma="learn", random_state=0).fit(X, y)),
    "widths": ("wine", lambda X, y: _scaled(CompactSVC(12, gamma="ard", random_state=0), X, y)),
    "map": ("wine", lambda X, y: _scaled(_mapped(12, 4), X, y)),
    "two classes": ("cancer", lambda X, y: _scaled(CompactSVC(9, gamma="ard", random_state=0), X, y)),
    "counts": ("digits", lambda X, y: CompactSVC(21, gamma="learn", random_state=0).fit(X[:600], y[:600])),
    "mapped counts": ("digits", lambda X, y: _mapped(15, 7, 20).fit(X[:600], y[:600])),
    "regression": ("iris", lambda X, y: CompactSVR(10, random_state=0).fit(X, X @ [0.3, -0.2, 1.0, 0.5])),
    "outliers": ("iris", lambda X, y: OneClassSVM(nu=0.2).fit(X)),
    "gaps": ("iris", _with_gaps),
    "far from the origin": ("iris", lambda X, y: CompactSVC(7, random_state=0).fit(X + 300.0, y)),
}


@cache
def model_and_rows(name):
    data, fit = FITS[name]
    X, y = LOADERS[data](return_X_y=True)
    machine = fit(X, y)
    rows = X + 300.0 if name == "far from the origin" else X
    stored = getattr(machine, "storage", None)
    return machine if stored is not None else compress(machine, storage="int8", X=rows, random_state=0), rows


def usual_and_random_rows(X, n, gaps):
    """Rows, and rows drawn about them, beyond their range too."""
    rng = np.random.default_rng(0)
    noise = X.std(axis=0) * rng.normal(size=(n, X.shape[1])) * rng.choice([0.1, 1, 4], (n, 1))
    made = X[rng.integers(len(X), size=n)] + noise
    if gaps:
        made[rng.random(made.shape) < 0.1] = np.nan
    return np.concatenate([X, made])


@needs_compiler
@pytest.mark.parametrize("name", FITS)
def test_the_program_is_the_simulation_and_decides_as_the_model(name, tmp_path):
    model, X = model_and_rows(name)
    rows = usual_and_random_rows(X, 2000, name == "gaps")
    report = to_c(model, tmp_path / "model.c", check_rows=rows)  # which raises if one bit differs
    assert report.notes == ()
    assert report.n_rows == len(rows)
    assert report.label_agreement is None or report.label_agreement >= 0.997
    assert report.max_difference <= report.score_bound
    assert report.files == (tmp_path / "model.c", tmp_path / "model.h")
    fixed = (tmp_path / "model.c").read_text()
    assert "double" not in fixed.split("MODEL_MAIN")[0], "no double, and no floats but in quantise"
    beside = 66 + (0 if model.classes is None else 4 * len(model.classes))  # the table of powers, and labels
    more = {"gaps": 2, "far from the origin": 3}.get(name, 0)  # what fills them; offsets of 32 bits and shifts
    assert report.data_bytes - beside <= model.stored_bytes + more * X.shape[1]


@pytest.mark.parametrize("name", FITS)
def test_scores_stay_within_the_bound(name):
    model, X = model_and_rows(name)
    form = integer.integer_form(model, X)
    rows = form.rows(usual_and_random_rows(X, 20_000, name == "gaps"))
    rows = rows[form.inside(rows)]
    assert len(rows) > 10_000
    expected = model.outputs(form.values(rows))
    gaps = np.abs(form.outputs(rows) * form.unit - expected)
    assert np.all(gaps <= form.bounds)
    assert np.all(gaps.mean(axis=0) <= 0.01 * expected.std(axis=0)), "integers are near enough to be of use"


def test_a_wrong_bound_is_noticed(tmp_path, monkeypatch):
    model, X = model_and_rows("widths")
    sound = integer.integer_form

    def spoiled(*given):
        form = sound(*given)
        return replace(form, bounds=1e-3 * form.bounds)

    monkeypatch.setattr(c_file, "integer_form", spoiled)
    with pytest.raises(ParityError, match="more than the bound"):
        to_c(model, tmp_path / "model.c", check_rows=X)
    assert not list(tmp_path.iterdir())


@needs_compiler
def test_a_program_that_differs_by_a_bit_is_not_written(tmp_path, monkeypatch):
    model, X = model_and_rows("widths")
    sound = c_file.integer_source

    def spoiled(*given):
        text = sound(*given)
        return replace(text, source=text.source.replace("value + 1) >> 1", "value) >> 1"))

    monkeypatch.setattr(c_file, "integer_source", spoiled)
    with pytest.raises(ParityError, match="differs from the simulation"):
        to_c(model, tmp_path / "model.c", check_rows=X)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("name", FITS)
@pytest.mark.parametrize("chip", CHIPS, ids=lambda chip: chip.name)
def test_chips_compute_the_same_bits(chip, name, tmp_path):
    if chip.missing:
        pytest.skip(f"{chip.missing} is not installed")
    model, X = model_and_rows(name)
    report = to_c(model, tmp_path / "model.c", check_rows=X)
    form = integer.integer_form(model, X)
    n = 200 if name in ("one width", "map") else 40  # the benchmark runs all of them on 200
    rows = form.rows(usual_and_random_rows(X, n, name == "gaps")[-n:]).astype(np.int16)
    n_scores = model.weights.shape[1]
    run = measure(chip, [report.path], "model.h", "model_scores(x, (int32_t *)result)", rows, ("int32_t", n_scores))
    assert np.array_equal(run.results, form.outputs(rows))
    if chip is UNO:
        assert run.ram == rows[0].nbytes + 4 * n_scores, "constants stay in flash"


@pytest.mark.parametrize("compiler", CROSS)
@pytest.mark.parametrize("name", ["map", "counts", "gaps", "regression", "outliers"])
@pytest.mark.parametrize("arithmetic", ["integer", "float"])
def test_no_compiler_warns(compiler, name, arithmetic, tmp_path):
    """`to_c(compiler=...)` takes a compiler whose programs do not run here, and says so."""
    if shutil.which(CROSS[compiler].split()[0]) is None:
        pytest.skip(f"{CROSS[compiler].split()[0]} is not installed")
    model, X = model_and_rows(name)
    report = to_c(model, tmp_path / "model.c", check_rows=X, compiler=CROSS[compiler], arithmetic=arithmetic)
    assert "whose programs do not run here" in report.notes[0]
    assert report.n_rows == (len(X) if COMPILER else 0)


def test_a_compiler_that_is_not_there_is_named(tmp_path):
    with pytest.raises(ValueError, match="'no-such-gcc -O2' was not found"):
        to_c(make_model(), tmp_path / "model.c", compiler="no-such-gcc -O2")


@pytest.mark.skipif(UNO.missing is not None, reason="no simulator of an AVR")
@pytest.mark.parametrize("dtype", ["float", "int8"])
def test_floats_leave_the_memory_of_an_uno_to_others(dtype, tmp_path):
    model, X = model_and_rows("counts")
    report = to_c(model, tmp_path / "model.c", check_rows=X, dtype=dtype)
    rows = X[:2].astype(np.float32)
    run = measure(UNO, [report.path], "model.h", "result[0] = (int16_t)model_predict(x)", rows)
    assert run.ram == rows[0].nbytes + 2
    assert model.classes_[run.results[:, 0]].tolist() == model.predict(X[:2]).tolist()


@needs_compiler
def test_the_header_serves_c_and_cpp_and_the_file_tests_itself(tmp_path):
    model, X = model_and_rows("map")
    to_c(model, tmp_path / "wine.c", check_rows=X, name="Wine2")
    header = (tmp_path / "Wine2.h").read_text()
    assert "#ifndef WINE2_H" in header
    assert "#define WINE2_FLASH_BYTES" in header
    (tmp_path / "main.c").write_text(
        '#include "Wine2.h"\n#include "Wine2.h"\nint main(void) { return Wine2_selftest() + WINE2_RAM_BYTES; }\n'
    )
    shutil.copy(tmp_path / "main.c", tmp_path / "main.cpp")
    program, flags = str(tmp_path / "test"), [*c_file.FLAGS, "-DWINE2_SELFTEST"]
    subprocess.run([COMPILER, *flags, str(tmp_path / "main.c"), str(tmp_path / "wine.c"), "-o", program], check=True)
    assert subprocess.run([program]).returncode == 0
    text = (tmp_path / "wine.c").read_text()
    (tmp_path / "wine.c").write_text(text.replace("#define WINE2_LIMIT ", "#define WINE2_LIMIT 9 * 0 + 99 + 0 * "))
    subprocess.run([COMPILER, *flags, str(tmp_path / "main.c"), str(tmp_path / "wine.c"), "-o", program], check=True)
    assert subprocess.run([program]).returncode > 0, "a wrong constant is found by the file itself"
    if plus := shutil.which("g++"):
        objects = [str(tmp_path / name) for name in ("c.o", "cpp.o")]
        subprocess.run([COMPILER, *flags, "-c", str(tmp_path / "wine.c"), "-o", objects[0]], check=True)
        subprocess.run([plus, "-Wall", "-Werror", "-c", str(tmp_path / "main.cpp"), "-o", objects[1]], check=True)
        subprocess.run([plus, *objects, "-o", program], check=True)


@needs_compiler
def test_inputs_are_counts_or_a_stated_format(tmp_path):
    model, X = model_and_rows("counts")
    to_c(model, tmp_path / "digits.c", check_rows=X)
    assert "Features are int16_t: x is the number itself, rounded" in (tmp_path / "digits.h").read_text()
    to_c(model, tmp_path / "digits.c", input_bits=4, check_rows=X)
    assert "x is the number times 2^4, rounded" in (tmp_path / "digits.h").read_text()
    with pytest.raises(UnsupportedModelError, match="units that are too coarse"):
        to_c(model, tmp_path / "digits.c", arithmetic="integer", input_bits=-12, check_rows=X)


def test_what_has_no_integers_says_why(tmp_path):
    X, y = load_iris(return_X_y=True)
    voting = compress(
        CompactSVC(10, coding="one_vs_one", random_state=0).fit(X, y), storage="int8", X=X, random_state=0
    )
    cases = [
        (CompactSVC(5, random_state=0).fit(X, y), "compress"),
        (voting, "counts votes"),
        (compress(CompactSVC(5, kernel="poly", refine=False).fit(X, y), storage="int8", X=X), "not Gaussian"),
    ]
    for model, message in cases:
        with pytest.raises(UnsupportedModelError, match=message):
            to_c(model, tmp_path / "model.c", arithmetic="integer", check_rows=X)
    assert "in floats: this model has no integer form" in to_c(voting, tmp_path / "v.c", check_rows=X).notes[0]
    with pytest.raises(ValueError, match="arithmetic must be"):
        to_c(voting, tmp_path / "v.c", arithmetic="integer", dtype="float")


@needs_compiler
@pytest.mark.parametrize("name", ["map", "regression", "outliers"])
def test_an_arduino_library_has_a_sketch_that_compiles(name, tmp_path, capsys):
    from kompakt.cli.main import main

    model, X = model_and_rows(name)
    kompakt.save(model, tmp_path / "model.kompakt")
    folder = tmp_path / "my model"
    assert main(["export", str(tmp_path / "model.kompakt"), str(folder), "--to", "arduino"]) == 0
    assert "my_model.h" in capsys.readouterr().out
    properties = dict(line.split("=", 1) for line in (folder / "library.properties").read_text().splitlines())
    assert properties["includes"] == "my_model.h"
    sketch = (folder / "examples" / "predict" / "predict.ino").read_text()
    if plus := shutil.which("g++"):  # with what an Arduino brings
        given = "#include <stdint.h>\nstruct { void begin(int) {} void println(double, int = 0) {} } Serial;\n"
        given += "void delay(int) {}\n"
        (tmp_path / "sketch.cpp").write_text(f"{given}{sketch}\nint main() {{ setup(); loop(); }}\n")
        subprocess.run([COMPILER, "-c", str(folder / "src" / "my_model.c"), "-o", str(tmp_path / "m.o")], check=True)
        files = [str(tmp_path / name) for name in ("sketch.cpp", "m.o")]
        subprocess.run([plus, f"-I{folder / 'src'}", *files, "-o", str(tmp_path / "p")], check=True)
        assert subprocess.run([str(tmp_path / "p")]).returncode == 0
    assert to_arduino(model, folder, check_rows=X).format == "arduino", "an old library is replaced"


def test_stored_bytes_are_those_of_the_integers():
    for name in ("one width", "widths", "map", "counts", "regression"):
        model, X = model_and_rows(name)
        form = integer.integer_form(model, X)
        sizes = {"int8_t": 1, "uint8_t": 1, "int16_t": 2, "uint16_t": 2, "int32_t": 4}
        held = sum(sizes[kind] * values.size for kind, values in form.arrays.values())
        assert held <= model.stored_bytes <= held + 4 * X.shape[1]
    assert stored_bytes(10, 4, bits=(8, 4, 8)) == stored_bytes(10, 4) - 20
    assert stored_bytes(10, 4, scaling=0) == stored_bytes(10, 4) - 16
    assert make_model(inputs=Inputs(shift=np.ones(4))).stored_bytes > make_model().stored_bytes
