"""What a command waits for: `inspect` and `predict` import NumPy, and none of the libraries that training needs."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

import kompakt
import kompakt.cli
from kompakt import CompactSVC

#: forbids the imports, then runs the command
PROGRAM = """\
import sys
for name in ("scipy", "sklearn", "numba", "pandas", "pyarrow"):
    sys.modules[name] = None
from kompakt.cli.main import main
sys.exit(main(sys.argv[1:]))
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A table with words, dates and numbers, and a model of it."""
    folder, rng = tmp_path_factory.mktemp("startup"), np.random.default_rng(0)
    age, day = rng.normal(size=80), rng.integers(1, 29, 80)
    words = zip(age, np.where(age > 1, "Rome", "Oslo"), day, np.where(age > 0, "yes", "no"), strict=True)
    lines = [f"{a:.3f},{city},2024-05-{d:02d},{buys}" for a, city, d, buys in words]
    (folder / "people.csv").write_text("\n".join(["age,city,day,buys", *lines]))
    assert kompakt.cli.main(["train", str(folder / "people.csv"), str(folder / "m.kompakt"), "-n", "5", "-q"]) == 0
    return folder


@pytest.mark.parametrize("words", [["inspect", "m.kompakt"], ["predict", "people.csv", "m.kompakt", "o", "--scores"]])
def test_plain_commands_import_no_library_of_training(folder, words):
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, *words], cwd=folder, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


def test_predictions_without_numba_are_those_of_python(folder):
    model = kompakt.load(folder / "m.kompakt")
    files = [str(folder / name) for name in ("people.csv", "m.kompakt", "o")]
    assert kompakt.cli.main(["predict", *files, "--scores", "-q"]) == 0
    rows = [line.split(",") for line in (folder / "people.csv").read_text().splitlines()]
    table = {name: list(cells) for name, *cells in zip(*rows, strict=True)}
    scores = [float(line.split(",")[1]) for line in (folder / "o").read_text().splitlines()[1:]]
    assert scores == pytest.approx(model.decision_function(table), rel=1e-12)


def test_numba_is_used_again_after_a_small_file(folder):
    pytest.importorskip("numba")
    from kompakt.parallel import numba_available

    kompakt.cli.main(["predict", *(str(folder / name) for name in ("people.csv", "m.kompakt", "o")), "-q"])
    assert numba_available()
    machine = CompactSVC(3, random_state=0).fit(np.random.default_rng(0).normal(size=(40, 2)), np.arange(40) % 2)
    assert machine.n_basis_ == 3
