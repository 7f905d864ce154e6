"""The measures of the code base, on a package small enough to count by hand."""

import importlib
import json
import sys

import numpy as np
from benchmarks.house import Depth, Modules, main

FILES = {
    "__init__.py": '"""Docstring."""\nfrom kompakt.parts import add\n',
    "parts/__init__.py": "from kompakt.parts.sums import add\n",
    "parts/sums.py": '''"""Two lines

of docstring."""

from typing import Any  # a comment

TEXT = """kept,
for it is a value"""


def add(a: Any, b: Any) -> Any:
    """Docstring."""
    # a comment
    return once(a) + b


def once(a):
    if a is None:
        return once(0)
    return a


def never(losses):
    found = isinstance(losses, Hinge)
    return [
        found,
        TEXT,
        getattr(self, "n_basis", 3),
    ]
''',
    "machine.py": """from typing import Any

from kompakt import parts
from kompakt.parts import add


class Machine:
    def fit(self):
        me: Any = self
        return parts.add(1, 2) + add(me.x, 2)
""",
}


def test_counts_of_a_small_package(tmp_path):
    for name, text in FILES.items():
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
    assert Modules(tmp_path).counts() == {
        "code lines": 1 + 1 + (3 + 2 + 4 + 7) + (3 + 4),
        "files": 4,
        "classes": 1,
        "functions": 4,
        "functions of five lines or fewer": 3,
        "module functions": 3,
        "module functions with one caller": 1,  # once; add is named twice, never not at all
        "modules with one importer": 1,  # sums, by machine; the packages only pass it on
        "uses of Any": 4,
        "functions over 80 lines": 0,
        "pronouns as variables, per thousand": round(1000 * 1 / 6),  # one of a, b, a, losses, found, me
        "isinstance of losses": 1,
        "getattr for parameters": 1,
    }


DEEP = """
from concurrent.futures import ThreadPoolExecutor
from deep_sample.kernels.one import block, describe

class Machine:
    def fit(self, X):
        describe("not rows")
        return self.solve(X)

    def solve(self, X):
        with ThreadPoolExecutor(1) as pool:
            return pool.submit(self.work, X).result()

    def work(self, X):
        return [block(X) for _ in range(2)]
"""
KERNEL = """
def describe(name):
    return name

def block(X):
    return inner(X)

def inner(X):
    return X @ X.T
"""


def test_frames_go_on_through_a_thread_pool_and_end_at_the_first_kernel_function(tmp_path, monkeypatch):
    folder = tmp_path / "deep_sample"
    (folder / "kernels").mkdir(parents=True)
    (folder / "__init__.py").write_text(DEEP)
    (folder / "kernels" / "one.py").write_text(KERNEL)
    monkeypatch.syspath_prepend(tmp_path)
    machine = importlib.import_module("deep_sample").Machine()
    with Depth(folder) as depth:
        machine.fit(np.eye(2))
    assert [name.split(":")[1] for name in depth.deepest] == ["Machine.fit", "Machine.solve", "Machine.work", "block"]
    assert sys.getprofile() is None
    for name in [name for name in sys.modules if name.startswith("deep_sample")]:
        del sys.modules[name]


def test_the_command_prints_the_counts(capsys):
    assert main(["--quick", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert set(found["now"]) <= set(found["before"])
    assert found["wanted"]["code lines"] < found["before"]["code lines"]
