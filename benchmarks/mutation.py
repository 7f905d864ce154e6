"""Small changes of the source, one at a time: does a test notice?

    python -m benchmarks.mutation --plan TESTS.json --minutes 20    # goes on where the last run stopped
    python -m benchmarks.mutation --plan TESTS.json --again --more tests/io/test_files.py   # survivors, on more tests
    python -m benchmarks.mutation --survivors

A mutant is one change of one place: a comparison, an arithmetic or boolean operator, a number, what is returned, or a
statement that is left out. A sample is drawn by a seed. pytest collects the tests once; every mutant is a fork of that
process, in which the functions of the changed file get their new code, and the tests run that reach its line (`--plan`:
file -> line -> tests, fastest first) under a limit of processor seconds. A mutant that hangs counts as noticed. Results
are added to a file of JSON lines; those of code that has changed since are left out. A row of a survivor that nobody
could notice says why in "equal", written by hand.

The plan is made from a run of the tests under coverage.py with `dynamic_context = test_function`:

    python -m benchmarks.mutation --make-plan TESTS.json --coverage DATA --junit RUN.xml ...
"""

from __future__ import annotations

import argparse
import ast
import contextlib
import gc
import json
import os
import resource
import signal
import sys
import time
import types
import xml.etree.ElementTree as ElementTree
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).resolve().parents[1]
FOLDERS = ("solve", "io", "train")
NOT_LOADED = ("src/kompakt/train/_callbacks.py",)  # for scikit-learn before 1.9
SEED = 21
MOST_SECONDS = 40  # of tests per mutant, as they were measured under coverage.py
MOST_PARAMETERS = 3  # of one test function
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


def _mutants_of(file: str) -> list[tuple[int, str, int, Callable[[Any], None]]]:
    return list(mutants(ast.parse((ROOT / file).read_text())))


def sample(n: int) -> list[tuple[str, int]]:
    """Files and numbers of n mutants, drawn without repetition."""
    everything: list[tuple[str, int]] = []
    for folder in FOLDERS:
        for path in sorted((ROOT / "src" / "kompakt" / folder).glob("*.py")):
            count = sum(1 for _ in mutants(ast.parse(path.read_text())))
            everything += [(str(path.relative_to(ROOT)), number) for number in range(count)]
    order = np.random.default_rng(SEED).permutation(len(everything))
    drawn = [everything[place] for place in order if everything[place][0] not in NOT_LOADED][:n]
    print(f"{len(everything):,} mutants; a sample of {len(drawn)}")
    return drawn


def _codes(code: types.CodeType) -> Iterator[types.CodeType]:
    yield code
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _codes(constant)


def _key(code: types.CodeType) -> tuple[str, str, int]:
    return code.co_filename, code.co_qualname, code.co_firstlineno


def apply(file: str, number: int, functions: dict[tuple[str, str, int], list[types.FunctionType]]) -> None:
    """Change the loaded package as a mutant says."""
    path = str(ROOT / file)
    tree = ast.parse(Path(path).read_text())
    _, _, place, change = list(mutants(tree))[number]
    change(list(ast.walk(tree))[place])
    old = {_key(one): one for one in _codes(compile(Path(path).read_text(), path, "exec"))}
    changed = compile(ast.fix_missing_locations(tree), path, "exec")
    for code in _codes(changed):
        if code.co_name != "<module>" and code != old.get(_key(code)):
            for function in functions.get(_key(code), []):
                function.__code__ = code
    # what is computed when the module is loaded: constants, defaults of parameters and of fields
    name = file.removeprefix("src/").removesuffix(".py").replace("/", ".").removesuffix(".__init__")
    module, fresh = sys.modules[name], types.ModuleType(name)
    fresh.__dict__.update(__file__=path, __package__=module.__package__)
    kept, sys.modules[name] = module, fresh  # dataclasses look there
    try:
        exec(changed, vars(fresh))
    finally:
        sys.modules[name] = kept
    for key, value in vars(fresh).items():
        before = vars(module).get(key)
        if isinstance(value, int | float | str | tuple | frozenset | dict) and repr(value) != repr(before):
            for other in list(sys.modules.values()):
                if vars(other).get(key) is before and getattr(other, "__name__", "").startswith("kompakt"):
                    setattr(other, key, value)
        members = [(value, before)]
        if isinstance(value, type) and isinstance(before, type):
            members += [(one, vars(before).get(member)) for member, one in vars(value).items()]
        for new, previous in members:
            if isinstance(new, types.FunctionType) and isinstance(previous, types.FunctionType):
                previous.__defaults__, previous.__kwdefaults__ = new.__defaults__, new.__kwdefaults__


class Server:
    """A plugin that forks for every mutant, where pytest would run the tests it has collected."""

    def __init__(self, act: Callable[[Server], None]) -> None:
        self.act = act
        self.items: dict[str, Any] = {}
        self.functions: dict[tuple[str, str, int], list[types.FunctionType]] = {}
        self.forked = False

    def pytest_runtestloop(self, session: Any) -> bool:
        """Collection is over."""
        self.items = {item.nodeid: item for item in session.items}
        for module in ("solve", "io", "train.pipeline", "estimators", "cli.main", "export", "data.dask"):
            with contextlib.suppress(ImportError):
                __import__(f"kompakt.{module}")
        for one in gc.get_objects():
            if isinstance(one, types.FunctionType) and one.__code__.co_filename.startswith(str(ROOT / "src")):
                self.functions.setdefault(_key(one.__code__), []).append(one)
        self.act(self)
        return True

    def pytest_runtest_logreport(self, report: Any) -> None:
        """A test that fails is what a mutant is there for."""
        if self.forked and report.failed:
            os._exit(1)

    def outcome(
        self, tests: list[str], change: Callable[[], None], seconds: int = SECONDS, patience: float = 1800.0
    ) -> str:
        """What became of a mutant: "killed", "survived", "too slow" (killed too), "not run"."""
        child = os.fork()
        if child == 0:
            code = 1
            try:
                os.setpgid(0, 0)
                silent = os.open(os.devnull, os.O_WRONLY)
                os.dup2(silent, 1)
                os.dup2(silent, 2)
                resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds + 1))
                resource.setrlimit(resource.RLIMIT_AS, (8 << 30, 8 << 30))
                self.forked = True
                try:
                    change()
                except SyntaxError:  # a module that cannot be loaded is noticed by every test
                    os._exit(1)
                except ValueError:  # the code has other free variables: not to be exchanged
                    os._exit(9)
                chosen = [self.items[test] for test in dict.fromkeys(tests) if test in self.items]  # each once
                for item, following in zip(chosen, [*chosen[1:], None], strict=True):
                    item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
                code = 0 if chosen else 9
            finally:
                os._exit(code)
        until = time.monotonic() + patience
        while time.monotonic() < until:
            pid, status = os.waitpid(child, os.WNOHANG)
            if pid:
                code = os.waitstatus_to_exitcode(status)
                return {0: "survived", 9: "not run", -signal.SIGXCPU: "too slow", -signal.SIGKILL: "too slow"}.get(
                    code, "killed"
                )
            time.sleep(0.005)
        os.killpg(child, signal.SIGKILL)  # its own group
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
        # tests of its own folder are about a file, others happen to pass there
        folder = Path(file).parent.name
        own = f"tests/{'estimators' if folder == 'train' else folder}/"

        def chosen(tests: Iterable[str], own: str = own) -> list[str]:
            ordered = sorted(tests, key=lambda test: (not test.startswith(own), seconds[test]))
            total = np.cumsum([seconds[test] for test in ordered])
            return ordered[: max(5, int(np.sum(total <= MOST_SECONDS)))]

        lines: dict[str, list[str]] = {}
        for line, contexts in stored.contexts_by_lineno(file).items():
            found: list[str] = []
            for context in contexts:  # of a function: which of its parameters reach the line is not known
                tests = sorted(names.get(context, []), key=lambda test: seconds[test])
                found += tests[:: max(1, -(-len(tests) // MOST_PARAMETERS))]
            lines[str(line)] = chosen(found)
        # lines of a module's import, and of fixtures, have no test of their own
        lines["any"] = chosen({test for tests in lines.values() for test in tests})
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
    parser.add_argument("--folders", nargs="+", choices=FOLDERS, default=FOLDERS, help="of the package")
    parser.add_argument("--again", action="store_true", help="try survivors again")
    parser.add_argument(
        "--more",
        nargs="+",
        default=[],
        metavar="TESTS",
        help="files of tests, or tests, that run after those of the plan; with --again, they alone",
    )
    parser.add_argument("--results", type=Path, default=ROOT / "benchmarks" / "results" / "mutation.jsonl")
    options = parser.parse_args()
    if options.make_plan:
        options.make_plan.write_text(json.dumps(make_plan(options.coverage, options.junit)))
        return 0
    done = [json.loads(line) for line in options.results.read_text().splitlines()] if options.results.exists() else []
    drawn = sample(options.sample)
    named = {file: [what for _, what, *_ in _mutants_of(file)] for file in {file for file, _ in drawn}}
    latest = {(row["file"], row["number"]): row for row in done}
    latest = {one: latest[one] for one in drawn if one in latest and latest[one]["what"] == named[one[0]][one[1]]}
    if not options.survivors:
        plan = json.loads(options.plan.read_text())
        chosen = [one for one in drawn if one not in latest]
        if options.again:
            tried = [one for one, row in latest.items() if row["outcome"] not in ("killed", "too slow")]
            chosen = [one for one in tried if "equal" not in latest[one]]
        chosen = [one for one in chosen if Path(one[0]).parent.name in options.folders]
        rows = _try(chosen, plan, options.more, options.again, options.results, 60 * options.minutes)
        latest |= {(row["file"], row["number"]): row for row in rows}
    done = list(latest.values())
    for row in done:
        if row["outcome"] not in ("killed", "too slow"):
            equal = f" [{row['equal']}]" if "equal" in row else ""
            print(f"{row['file']}:{row['line']} {row['outcome']} ({row['tests']} tests): {row['what']}{equal}")
    noticed = sum(row["outcome"] in ("killed", "too slow") for row in done)
    n_equal = sum("equal" in row and row["outcome"] not in ("killed", "too slow") for row in done)
    print(
        f"{noticed} of {len(done)} noticed: {noticed / max(1, len(done)):.1%}; without {n_equal} that change nothing "
        f"that could be noticed: {noticed / max(1, len(done) - n_equal):.1%}"
    )
    return 0


def _try(
    chosen: list[tuple[str, int]], plan: dict[str, Any], more: list[str], again: bool, results: Path, limit: float
) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = []

    def act(server: Server) -> None:
        sound = [test for lines in plan.values() for test in lines["any"][:1]]
        added = [
            test
            for test in server.items
            if any(test == one or test.startswith((f"{one}::", f"{one}[")) for one in more)
        ]
        seconds = 4 * SECONDS if added else SECONDS
        if server.outcome([*sound, *added], lambda: None, seconds) != "survived":
            raise RuntimeError("the tests do not pass on the unchanged tree, or not within the limit of time.")
        until = time.monotonic() + limit
        with results.open("a") as log:
            for file, number in chosen:
                if time.monotonic() > until:
                    break
                line, what, *_ = _mutants_of(file)[number]
                tests = plan.get(file, {}).get(str(line), []) or plan.get(file, {}).get("any", [])
                # tests of another folder that mutants are made of have nothing to say
                others = tuple(f"tests/{folder}/" for folder in FOLDERS if folder != Path(file).parent.name)
                new = [test for test in added if not test.startswith(others)]
                if again and added:  # tests of the plan have been tried
                    tests = new
                    if not new:
                        continue
                else:
                    tests = [*tests, *new]
                change = partial(apply, file, number, server.functions)
                found = server.outcome(tests, change, seconds) if tests else "not reached"
                row = {
                    "file": file,
                    "number": number,
                    "line": line,
                    "what": what,
                    "outcome": found,
                    "tests": len(tests),
                }
                rows.append(row)
                print(json.dumps(row), file=log, flush=True)

    import pytest

    results.parent.mkdir(parents=True, exist_ok=True)
    os.chdir(ROOT)
    files = {test.split("::")[0] for lines in plan.values() for tests in lines.values() for test in tests}
    pytest.main(
        ["-q", "-p", "no:cacheprovider", "-p", "no:xdist", *sorted({*files, *(one.split("::")[0] for one in more)})],
        plugins=[Server(act)],
    )
    return rows


if __name__ == "__main__":
    sys.exit(main())
