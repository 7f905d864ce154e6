"""The README, the page of installation and the tutorial in a fresh environment each, with the built wheel.

Only the commands that a page shows are run, its `pip install` among them, so that a page which forgets an extra fails.
They need a package index: `make fresh`, or KOMPAKT_FRESH_INSTALL=1 for pytest, runs them.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import venv
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]

pytestmark = pytest.mark.skipif(
    os.environ.get("KOMPAKT_FRESH_INSTALL") != "1", reason="installs from a package index; set KOMPAKT_FRESH_INSTALL=1"
)

#: what the fresh Python runs: the blocks of a page in their order, Python in one namespace, the rest by the shell
READER = r"""
import re, subprocess, sys
page, wheel, cc = sys.argv[1:]
script = {"__name__": "__main__"}
for language, block in re.findall(r"(?ms)^```(python|console)\n(.*?)^```", open(page).read()):
    if language == "python":
        print(">>>", block.splitlines()[0], "...", flush=True)
        exec(compile(block, page, "exec"), script)
        continue
    for command in re.findall(r"^\$ (.*)", block, flags=re.MULTILINE):
        if not cc and (command.startswith("cc ") or "./model" in command):
            continue
        print("$", command, flush=True)
        # a checkout's folder becomes the wheel that was built from it
        code = subprocess.run(command.replace('".[', f'"{wheel}['), shell=True).returncode
        said = re.search(r"# .*exit code (\d+)", command)
        assert code == (int(said[1]) if said else 0), f"{command}: exit code {code}"
"""


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    folder = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "-w", str(folder), str(ROOT)]
    subprocess.run(command, check=True)
    (built,) = folder.glob("kompakt-*.whl")
    return built


@pytest.mark.parametrize("page", ["README.md", "docs/installation.md", "docs/tutorial.md"])
def test_the_commands_of_a_page_run_in_a_fresh_environment(page, wheel, tmp_path):
    home = tmp_path / "environment"
    venv.create(home, with_pip=True)
    binaries = home / ("Scripts" if os.name == "nt" else "bin")
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "KOMPAKT"))}
    environment |= {
        "PATH": f"{binaries}{os.pathsep}{os.environ['PATH']}", "VIRTUAL_ENV": str(home), "PIP_QUIET": "1",
        "PIP_CONSTRAINT": str(ROOT / "constraints.txt"),
    }  # fmt: skip
    (tmp_path / "work").mkdir()
    # the page's own install line needs a Python to run; afterwards every command is the fresh environment's
    done = subprocess.run(
        [str(binaries / "python"), "-c", READER, str(ROOT / page), str(wheel), shutil.which("cc") or ""],
        cwd=tmp_path / "work", env=environment, timeout=900,
    )  # fmt: skip
    assert done.returncode == 0
