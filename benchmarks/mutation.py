"""Small changes of the source, one at a time: does a test notice?

    python -m benchmarks.mutation --plan TESTS.json --minutes 20    # goes on where the last run stopped
    python -m benchmarks.mutation --again src/kompakt/train/data.py tests/estimators/test_streamed.py
    python -m benchmarks.mutation --survivors

A mutant is one change of one place: a comparison, an arithmetic or boolean operator, a number, what is returned, or a
statement that is left out. A sample is drawn by a seed; each is tried in a copy of the tree, in a forked process that
has NumPy, SciPy and scikit-learn loaded already, with the tests that reach its line (`--plan`: file -> line -> tests,
fastest first) and a limit on processor seconds. A mutant that hangs counts as noticed. Results are added to a file of
JSON lines.

The plan is made from a run of the tests under coverage.py with `dynamic_context = test_function`:

    python -m benchmarks.mutation --make-plan TESTS.json --coverage DATA --junit RUN.xml ...
"""

from __future__ import annotations

import argparse
import ast
import contextlib
import json
import os
import resource
import shutil
import signal
import sys
import tempfile
import time
import xml.etree.ElementTree as ElementTree
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).resolve().parents[1]
FOLDERS = ("solve", "io", "train")
SEED = 21
MOST_TESTS = 40  # per mutant
MOST_PARAMETERS = 8  # of one test function
SECONDS = 60  # of the processor, per mutant

_COMPARED: dict[type[ast.cmpop], list[type[ast.cmpop]]] = {
    ast.Lt: [ast.LtE, ast.GtE], ast.LtE: [ast.Lt, ast.Gt], ast.Gt: [ast.GtE, ast.LtE], ast.GtE: [ast.Gt, ast.Lt],
    ast.Eq: [ast.NotEq], ast.NotEq: [ast.Eq], ast.Is: [ast.IsNot], ast.IsNot: [ast.Is], ast.In: [ast.NotIn],
    ast.NotIn: [ast.In],
}  # fmt: skip
_COMPUTED: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Div, ast.Div: ast.Mult, ast.FloorDiv: ast.Mult, ast.Mod: ast.Mult,
    ast.Pow: ast.Mult, ast.MatMult: ast.Mult, ast.BitAnd: ast.BitOr, ast.BitOr: ast.BitAnd, ast.LShift: ast.RShift,
}  # fmt: skip


def _parents(tree: ast.AST) -> dict[ast.AST, ast.AST]:
    return {child: node for node in ast.walk(tree) for child in ast.iter_child_nodes(node)}


def _in_text(node: ast.AST, parents: dict[ast.AST, ast.AST]) -> bool:
    """Whether a node belongs to an annotation, or to the wording of an error, which no test reads to the letter."""
    while node in parents:
        parent = parents[node]
        if isinstance(node, ast.JoinedStr) or isinstance(parent, ast.arg):
            return True
        if isinstance(parent, ast.AnnAssign) and node is parent.annotation:
            return True
        if isinstance(parent, ast.FunctionDef) and node is parent.returns:
            return True
        node = parent
    return False


def mutants(tree: ast.Module) -> Iterator[tuple[int, str, int, Callable[[Any], None]]]:
    """Line, description, number of the node (in the order of `ast.walk`) and change of every mutant of a module."""
    parents = _parents(tree)
    for number, node in enumerate(ast.walk(tree)):
        if not _in_text(node, parents):
            for what, change in _changes(node, parents):
                yield getattr(node, "lineno", 0), what, number, change


def _changes(node: ast.AST, parents: dict[ast.AST, ast.AST]) -> Iterator[tuple[str, Callable[[Any], None]]]:
    """Descriptions and changes of one node; a change is made to the same node of a copy."""

    def setting(**values: Any) -> Callable[[Any], None]:
        return lambda found: vars(found).update(values)

    if isinstance(node, ast.Compare):
        for place, kind in enumerate(node.ops):
            for new in _COMPARED[type(kind)]:
                ops = [*node.ops[:place], new(), *node.ops[place + 1 :]]
                yield f"{type(kind).__name__} -> {new.__name__}: {ast.unparse(node)}", setting(ops=ops)
    elif isinstance(node, ast.BinOp | ast.AugAssign) and type(node.op) in _COMPUTED:
        other = _COMPUTED[type(node.op)]
        yield f"{type(node.op).__name__} -> {other.__name__}: {ast.unparse(node)}", setting(op=other())
    elif isinstance(node, ast.BoolOp):
        either = ast.Or() if isinstance(node.op, ast.And) else ast.And()
        yield f"{type(node.op).__name__} -> {type(either).__name__}: {ast.unparse(node)}", setting(op=either)
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        yield f"without minus: {ast.unparse(node)}", setting(op=ast.UAdd())
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        yield f"without not: {ast.unparse(node)}", setting(operand=ast.UnaryOp(ast.Not(), node.operand))
    elif isinstance(node, ast.Constant) and isinstance(node.value, bool | int | float):
        value = not node.value if isinstance(node.value, bool) else node.value + 1
        where = ast.unparse(_statement(node, parents))[:80]
        yield f"{node.value!r} -> {value!r} in {where}", setting(value=value)
    elif isinstance(node, ast.Return) and node.value is not None and not _is_none(node.value):
        yield f"returns None: {ast.unparse(node)[:80]}", setting(value=ast.Constant(None))
    elif isinstance(node, ast.Assign | ast.AugAssign | ast.Expr | ast.Raise | ast.Continue | ast.Break):
        text = isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
        if not text and isinstance(_function(node, parents), ast.FunctionDef):
            # a statement that does nothing in its place
            yield f"left out: {ast.unparse(node)[:80]}", lambda found: _blank(found)


def _blank(node: Any) -> None:
    vars(node).update(value=ast.Constant(None), lineno=node.lineno, col_offset=node.col_offset)
    node.__class__ = ast.Expr


def _is_none(node: ast.AST) -> bool:
    return isinstance(node, ast.Constant) and node.value is None


def _statement(node: ast.AST, parents: dict[ast.AST, ast.AST]) -> ast.AST:
    while not isinstance(node, ast.stmt):
        node = parents[node]
    return node


def _function(node: ast.AST, parents: dict[ast.AST, ast.AST]) -> ast.AST | None:
    found: ast.AST | None = node
    while found is not None and not isinstance(found, ast.FunctionDef):
        found = parents.get(found)
    return found


def sample(n: int) -> list[tuple[str, int]]:
    """Files and numbers of n mutants, drawn without repetition."""
    everything: list[tuple[str, int]] = []
    for folder in FOLDERS:
        for path in sorted((ROOT / "src" / "kompakt" / folder).glob("*.py")):
            count = sum(1 for _ in mutants(ast.parse(path.read_text())))
            everything += [(str(path.relative_to(ROOT)), number) for number in range(count)]
    order = np.random.default_rng(SEED).permutation(len(everything))[:n]
    print(f"{len(everything):,} mutants; a sample of {len(order)}")
    return [everything[place] for place in order]


def _in_child(tree: Path, tests: list[str]) -> None:
    """Run tests on a copy of the tree, then leave: 0 if all passed."""
    code = 9
    try:
        os.setsid()
        silent = os.open(os.devnull, os.O_WRONLY)
        os.dup2(silent, 1)
        os.dup2(silent, 2)
        resource.setrlimit(resource.RLIMIT_CPU, (SECONDS, SECONDS + 1))
        resource.setrlimit(resource.RLIMIT_AS, (8 << 30, 8 << 30))
        os.chdir(tree)
        sys.path[:0] = [str(tree / "src"), str(tree)]
        os.environ["PYTHONPATH"] = str(tree / "src")
        import pytest

        code = int(pytest.main(["-x", "-q", "-p", "no:cacheprovider", "-p", "no:xdist", "--no-header", *tests]))
    finally:
        os._exit(code)


def outcome(tree: Path, tests: list[str], patience: float = 900.0) -> str:
    """What became of a mutant: "killed", "survived", "too slow" (killed too), "not run"."""
    child = os.fork()
    if child == 0:
        _in_child(tree, tests)
    until = time.monotonic() + patience
    while time.monotonic() < until:
        pid, status = os.waitpid(child, os.WNOHANG)
        if pid:
            code = os.waitstatus_to_exitcode(status)
            return {0: "survived", 1: "killed", -signal.SIGXCPU: "too slow", -signal.SIGKILL: "too slow"}.get(
                code, "killed" if code in (2, 3) or code < 0 else "not run"
            )
        time.sleep(0.02)
    os.killpg(child, signal.SIGKILL)  # its own group: it called setsid
    os.waitpid(child, 0)
    return "too slow"


def make_plan(data: str, runs: list[str]) -> dict[str, dict[str, list[str]]]:
    """File -> line -> tests that reach it, the fastest first."""
    from coverage import CoverageData  # type: ignore[import-not-found]

    seconds: dict[str, float] = {}
    names: dict[str, list[str]] = {}  # test function as coverage.py names it -> tests as pytest does
    for run in runs:
        for case in ElementTree.parse(run).getroot().iter("testcase"):
            if case.find("failure") is not None or case.find("skipped") is not None or case.find("error") is not None:
                continue
            module = case.attrib["classname"]
            test = f"{module.replace('.', '/')}.py::{case.attrib['name']}"
            seconds[test] = float(case.attrib["time"])
            names.setdefault(f"{module}.{case.attrib['name'].split('[')[0]}", []).append(test)
    stored, plan = CoverageData(data), {}
    stored.read()
    for file in stored.measured_files():
        lines: dict[str, list[str]] = {}
        for line, contexts in stored.contexts_by_lineno(file).items():
            found: list[str] = []
            for context in contexts:  # of a function: which of its parameters reach the line is not known
                tests = sorted(names.get(context, []), key=lambda test: seconds[test])
                found += tests[:: max(1, -(-len(tests) // MOST_PARAMETERS))]
            lines[str(line)] = sorted(found, key=lambda test: seconds[test])[:MOST_TESTS]
        # lines of a module's import, and of fixtures, have no test of their own
        every = {test for tests in lines.values() for test in tests}
        lines["any"] = sorted(every, key=lambda test: seconds[test])[:MOST_TESTS]
        plan["src/" + file.split("/src/", 1)[1]] = lines
    return plan


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--plan", type=Path)
    parser.add_argument("--make-plan", type=Path)
    parser.add_argument("--coverage")
    parser.add_argument("--junit", nargs="+", default=[])
    parser.add_argument("--minutes", type=float, default=20.0)
    parser.add_argument("--sample", type=int, default=500)
    parser.add_argument("--survivors", action="store_true")
    parser.add_argument("--again", nargs="+", metavar=("FILE", "TESTS"), help="try survivors of a file on more tests")
    parser.add_argument("--results", type=Path, default=ROOT / "benchmarks" / "results" / "mutation.jsonl")
    options = parser.parse_args()
    if options.make_plan:
        options.make_plan.write_text(json.dumps(make_plan(options.coverage, options.junit)))
        return 0
    done = [json.loads(line) for line in options.results.read_text().splitlines()] if options.results.exists() else []
    latest = {(row["file"], row["number"]): row for row in done}
    if not options.survivors:
        if options.again:
            file, *tests = options.again
            chosen = [one for one, row in latest.items() if one[0] == file and row["outcome"] == "survived"]
            plan, known = {file: {"any": tests}}, set()
        else:
            plan, chosen, known = json.loads(options.plan.read_text()), sample(options.sample), set(latest)
        with tempfile.TemporaryDirectory() as name, options.results.open("a") as log:
            rows = _try(chosen, known, plan, Path(name), log, 60 * options.minutes)
        latest |= {(row["file"], row["number"]): row for row in rows}
    done = list(latest.values())
    for row in done:
        if row["outcome"] not in ("killed", "too slow"):
            print(f"{row['file']}:{row['line']} {row['outcome']} ({row['tests']} tests): {row['what']}")
    noticed = sum(row["outcome"] in ("killed", "too slow") for row in done)
    print(f"{noticed} of {len(done)} noticed: {noticed / max(1, len(done)):.1%}")
    return 0


def _try(
    chosen: list[tuple[str, int]], known: set[tuple[str, int]], plan: dict[str, Any], tree: Path, log: Any, limit: float
) -> list[dict[str, Any]]:
    for folder in ("src", "tests", "benchmarks", "docs", "examples"):
        shutil.copytree(ROOT / folder, tree / folder, ignore=shutil.ignore_patterns("__pycache__", "results"))
    for beside in ROOT.glob("*.*"):
        if beside.is_file():
            shutil.copy(beside, tree)
    os.environ["PYTHONDONTWRITEBYTECODE"] = "1"
    sys.dont_write_bytecode = True
    for module in ("scipy.linalg", "scipy.sparse", "scipy.optimize", "sklearn.svm", "sklearn.utils.estimator_checks",
                   "pytest", "pandas", "numba"):  # fmt: skip
        with contextlib.suppress(ImportError):
            __import__(module)
    assert not any(one.split(".")[0] == "kompakt" for one in sys.modules), "the copy must be what is imported"
    if outcome(tree, sorted({test for lines in plan.values() for test in lines["any"][:2]})) != "survived":
        raise RuntimeError("the tests do not pass on the unchanged tree.")
    until, rows = time.monotonic() + limit, []
    for file, number in chosen:
        if (file, number) in known or time.monotonic() > until:
            continue
        sound = (ROOT / file).read_text()
        parsed = ast.parse(sound)
        line, what, place, change = list(mutants(parsed))[number]
        change(list(ast.walk(parsed))[place])
        tests = plan.get(file, {}).get(str(line), []) or plan.get(file, {}).get("any", [])
        (tree / file).write_text(ast.unparse(ast.fix_missing_locations(parsed)))
        found = outcome(tree, tests) if tests else "not reached"
        (tree / file).write_text(sound)
        row = {"file": file, "number": number, "line": line, "what": what, "outcome": found, "tests": len(tests)}
        rows.append(row)
        print(json.dumps(row), file=log, flush=True)
    return rows


if __name__ == "__main__":
    sys.exit(main())
