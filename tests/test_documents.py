"""Every Python and console block of the README and of docs/ runs, page by page, as for a reader; so do the examples."""

from __future__ import annotations

import importlib
import inspect
import re
import runpy
import shlex
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from types import ModuleType

import pytest

import kompakt
from kompakt.cli import main

ROOT = Path(__file__).resolve().parents[1]
MADE = {"_build", "gallery", "generated", "backreferences"}  # by `make docs`
PAGES = [
    ROOT / "README.md",
    *(page for page in sorted((ROOT / "docs").rglob("*.md")) if not MADE & set(page.relative_to(ROOT).parts)),
]
EXAMPLES = sorted((ROOT / "examples").glob("plot_*.py"))
METHODS = ("fee", "spsvm", "fixed_size", "local_sampling", "projection")  # pages of docs/papers
REFERENCE = (ROOT / "docs" / "api" / "index.rst").read_text()


def blocks(page: Path) -> list[tuple[str, str]]:
    return re.findall(r"^```(python|console)\n(.*?)^```", page.read_text(), flags=re.DOTALL | re.MULTILINE)


def name_of(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


def run_console(block: str, capsys) -> None:
    """Run the commands of a block; the lines below a command are parts of what it prints, with ... for what may differ.

    A comment with the words "exit code" and a number says how a command ends; otherwise it must end with 0.
    """
    for command, output in re.findall(r"^\$ (.*)\n((?:(?!\$ ).*\n)*)", block, flags=re.MULTILINE):
        if command.startswith(("python -m pip", "pip", "make")):
            continue
        code = re.search(r"# .*exit code (\d+)", command)
        words = shlex.split(command, comments=True)
        capsys.readouterr()
        if words[0] == "kompakt":
            try:
                ended = main(words[1:])
            except SystemExit as stop:
                ended = stop.code
            captured = capsys.readouterr()
            printed = captured.out + captured.err
        else:
            if shutil.which("cc") is None:
                continue
            done = subprocess.run(command, shell=True, capture_output=True, text=True, timeout=60)
            ended, printed = done.returncode, done.stdout + done.stderr
        assert ended == (int(code[1]) if code else 0), f"{command}\n{printed}"
        for line in output.splitlines():
            pattern = ".*".join(map(re.escape, line.split("...")))
            assert re.search(f"^{pattern}$", printed, flags=re.MULTILINE), f"{command} printed no {line!r}:\n{printed}"


@pytest.mark.parametrize("page", [page for page in PAGES if blocks(page)], ids=name_of)
def test_blocks_run(page, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    script = ModuleType("__main__")
    monkeypatch.setitem(sys.modules, "__main__", script)  # where pickle looks for the classes of a script
    for number, (language, block) in enumerate(blocks(page)):
        if language == "console":
            pytest.importorskip("pyarrow", reason="the command line reads tables; needs the extra cli")
            run_console(block, capsys)
        else:
            exec(compile(block, f"{page.name}, block {number}", "exec", dont_inherit=True), script.__dict__)


def test_the_tutorial_goes_from_a_file_to_c_code():
    commands = "".join(block for language, block in blocks(ROOT / "docs" / "tutorial.md") if language == "console")
    for command in ("auto", "predict", "inspect", "report", "export"):
        assert f"$ kompakt {command} " in commands


def test_the_page_of_installation_names_the_extras_and_what_they_bring():
    declared = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    text = (ROOT / "docs" / "installation.md").read_text()
    rows = {
        name: line.split("|")[2]
        for line in text.splitlines()
        if line.startswith("| `")
        for name in re.findall(r"`(\w+)`", line.split("|")[1])
    }
    assert set(rows) == set(declared)
    for name in ("fast", "cli", "plot", "report", "onnx", "dask", "zarr"):
        brought = {re.split(r"[<>=;\[ ]", requirement)[0] for requirement in declared[name]}
        assert {word.strip() for word in rows[name].split(",")} == brought, name
    for page in ("README.md", "docs/installation.md"):
        for extras in re.findall(r"\.\[([\w,]+)\]", (ROOT / page).read_text()):
            assert set(extras.split(",")) <= set(declared)


def test_the_readme_has_something_to_run():
    assert blocks(ROOT / "README.md")


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_links_between_pages_lead_somewhere(page):
    targets = re.findall(r"\]\(([^)#\s]+)[^)]*\)", re.sub(r"```.*?```", "", page.read_text(), flags=re.DOTALL))
    for target in targets:
        if "://" not in target and "gallery/" not in target:
            assert (page.parent / target).exists(), f"{page.name} links to {target}"


@pytest.mark.parametrize("page", [ROOT / "docs" / "papers" / f"{name}.md" for name in METHODS], ids=name_of)
def test_pages_of_papers_map_symbols_and_steps_to_places_that_exist(page):
    text = page.read_text()
    for heading in ("## The paper's symbols\n", "## How the paper's ", "## Misprints of the paper\n"):
        assert heading in text, f"{page.name} has no section {heading!r}"
    packages = "basis|design|estimators|heldout|linalg|losses|methods|reduce|search|solve"
    places = set(re.findall(rf"`((?:{packages})\.[\w.]+)`", text))
    assert len(places) > 10
    for place in sorted(places):
        found: object = kompakt
        for name in place.split("."):
            if not hasattr(found, name):
                assert isinstance(found, ModuleType), f"{page.name} names {place}"
                importlib.import_module(f"{found.__name__}.{name}")
            found = getattr(found, name)


@pytest.mark.slow
@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: example.stem)
def test_examples_run(example, tmp_path, monkeypatch):
    plt = pytest.importorskip("matplotlib.pyplot", reason="the examples draw; needs the extra plot")
    monkeypatch.chdir(tmp_path)
    backend = plt.get_backend()
    plt.switch_backend("agg")
    try:
        runpy.run_path(str(example), run_name="__main__")
        assert plt.get_fignums(), "without a figure its card in the gallery has no picture"
    finally:
        plt.close("all")
        plt.switch_backend(backend)


def test_there_are_examples_of_everything_promised():
    assert len(EXAMPLES) >= 12
    real = ["from sklearn.datasets import load_" in example.read_text() for example in EXAMPLES]
    assert real == sorted(real, reverse=True), "the gallery has real data first"
    for example in EXAMPLES:
        title = (example.read_text().split('"""')[1]).strip().splitlines()
        assert set(title[1]) == {"="}, f"{example.name} needs a title"
        assert len(title[1]) == len(title[0]), f"the line under the title of {example.name} must be as long as it"


@pytest.mark.parametrize("name", sorted(set(kompakt.__all__) - {"__version__"}))
def test_public_names_are_in_the_reference_with_an_example(name):
    listed = re.findall(r"^   (\w+)$", REFERENCE, flags=re.MULTILINE)
    assert name in listed, f"add {name} to docs/api/index.rst"
    text = inspect.getdoc(getattr(kompakt, name)) or ""
    assert "Examples\n--------\n>>> " in text, f"the docstring of {name} has no example"


def test_the_reference_lists_only_what_exists():
    module = "kompakt"
    for line in REFERENCE.splitlines():
        if found := re.match(r"\.\. currentmodule:: (\S+)", line):
            module = found[1]
        elif found := re.match(r"   (\w+)$", line):
            assert hasattr(importlib.import_module(module), found[1]), f"{module}.{found[1]} is in the reference only"
