"""Every Python block and every command of the README and of docs/ runs, page by page, as a reader would run it."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]


def blocks(page: Path) -> list[str]:
    return re.findall(r"^```python\n(.*?)^```", page.read_text(), flags=re.DOTALL | re.MULTILINE)


@pytest.mark.parametrize("page", [page for page in PAGES if blocks(page)], ids=lambda page: page.name)
def test_blocks_run(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {"__name__": "__main__"}
    for number, block in enumerate(blocks(page)):
        exec(compile(block, f"{page.name}, block {number}", "exec", dont_inherit=True), names)


def commands(page: Path) -> list[tuple[list[str], int]]:
    """Commands of the console blocks with the exit code they should leave with (``# exit code 3``, else 0)."""
    found = []
    for block in re.findall(r"^```console\n(.*?)^```", page.read_text(), flags=re.DOTALL | re.MULTILINE):
        for line in re.findall(r"^\$ kompakt (.*)$", block, flags=re.MULTILINE):
            code = re.search(r"# exit code (\d+)", line)
            found.append((shlex.split(line, comments=True), int(code[1]) if code else 0))
    return found


@pytest.mark.parametrize("page", [page for page in PAGES if commands(page)], ids=lambda page: page.name)
def test_commands_run(page, tmp_path, monkeypatch):
    from kompakt.cli import main

    monkeypatch.chdir(tmp_path)
    for words, code in commands(page):
        if "onnx" in words:
            pytest.importorskip("onnxruntime")
        assert main(words) == code, words


def test_the_readme_has_something_to_run():
    assert commands(ROOT / "README.md")
    assert blocks(ROOT / "README.md")
