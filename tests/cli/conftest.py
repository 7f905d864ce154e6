"""Small files of every kind, and a way to run a command in this process."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from kompakt.cli import main


@dataclass
class Ran:
    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


@pytest.fixture
def run(capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    def command(*words: Any) -> Ran:
        code = main([str(word) for word in words])
        captured = capsys.readouterr()
        return Ran(code, captured.out, captured.err)

    return command


def rows(n: int = 300, seed: int = 0, d: int = 3):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d)) * [1.0, 100.0, 0.01][:d] + [0.0, 1000.0, 5.0][:d]
    z = X[:, 0] + (X[:, 1] - 1000) / 100
    return X, z


@pytest.fixture
def people(tmp_path):
    """A CSV file with a header, words as labels, an unused column of words and missing values."""
    X, z = rows()
    lines = ["name,height,weight,age,hired"]
    for number, (row, value) in enumerate(zip(X, z, strict=True)):
        cells = [f"p{number}", *(f"{cell:.4f}" for cell in row), "yes" if value > 0 else "no"]
        if number % 37 == 5:
            cells[2] = ""
        lines.append(",".join(cells))
    path = tmp_path / "people.csv"
    path.write_text("\n".join(lines) + "\n")
    return path


@pytest.fixture
def svm_file(tmp_path):
    X, z = rows()
    path = tmp_path / "rows.txt"
    path.write_text(
        "".join(
            f"{1 if value > 0 else -1} " + " ".join(f"{j + 1}:{cell:.5g}" for j, cell in enumerate(row)) + "\n"
            for row, value in zip(X, z, strict=True)
        )
    )
    return path
