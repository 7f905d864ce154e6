"""How the code base is built: its size, how finely it is cut, and how deep a fit goes before it computes.

    python -m benchmarks.house [--quick] [--json] [--stacks]

Counted in the package that is imported, without running it (`--quick` stops after these):

code lines
    Lines that hold code: no blank lines, no comments, no docstrings.
functions of five lines or fewer
    From `def` to the end, docstring left out; methods and functions inside functions count as functions.
module functions with one caller
    Functions at module level that are named exactly once outside their own definition, by call or otherwise.
    Imports are followed, through the packages that pass a name on; an import or `__all__` is no naming.
modules with one importer
    Modules (packages' own `__init__` left out, as importer too) that exactly one other module takes something from,
    directly or through a package that passes it on.
uses of Any
    `Any` in annotations and elsewhere, imports left out.
functions over 80 lines
    Lines from `def` to the end that hold code.
pronouns as variables
    Per thousand variables of functions (arguments, targets of assignments, loops, `with` and comprehensions; a name
    counts once in a function) those whose name is in `PRONOUNS`.
isinstance of losses
    Calls of `isinstance` whose classes are those of `kompakt.losses`, outside of that module.
getattr for parameters
    Calls of `getattr` with the name of a constructor's parameter and a default, on `self`, `estimator` or `machine`.
classes in the order of CompactSVC
    Of its method resolution order.
functions and files of a small fit
    Functions of the package, and files, that `CompactSVC().fit` of 240 rows goes through.

Frames from fit to arithmetic: the calls on the stack that are functions of kompakt, from the outermost one (`fit`, or
what wraps it) to the first function in the folder `kernels` that is given rows (a matrix), both counted; the deepest
such stack of the whole fit.  Frames of other packages and comprehensions are not counted.  What a thread pool runs
goes on from the stack that submitted it.  Nothing but that folder is known by name.

"before" was measured with this script on commit 2e841ec, before methods became functions.
"""

from __future__ import annotations

import argparse
import ast
import importlib.util
import json
import sys
import threading
import tokenize
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

PACKAGE = "kompakt"

BEFORE: dict[str, int] = {
    "code lines": 22_677,
    "files": 115,
    "classes": 279,
    "functions": 1838,
    "functions of five lines or fewer": 859,
    "module functions": 783,
    "module functions with one caller": 330,
    "modules with one importer": 16,
    "uses of Any": 892,
    "functions over 80 lines": 5,
    "pronouns as variables, per thousand": 63,
    "isinstance of losses": 31,
    "getattr for parameters": 36,
    "frames, CompactSVC, refine=False": 13,
    "frames, CompactSVC": 15,
    "frames, SpSVC": 13,
    "frames, FixedSizeLSSVC, tune=True": 14,
    "frames, CompactSVC on Dask rows": 15,
    "classes in the order of CompactSVC": 31,
    "functions of a small fit": 300,
    "files of a small fit": 34,
}
WANTED: dict[str, int] = {
    "code lines": 20_500,
    "functions over 80 lines": 5,
    "pronouns as variables, per thousand": 10,
    "isinstance of losses": 5,
    "getattr for parameters": 0,
    "classes in the order of CompactSVC": 12,
    "functions of a small fit": 200,
    "files of a small fit": 22,
}
MOST_FRAMES = 10

#: words that say nothing of what a variable holds
PRONOUNS = frozenset(
    {
        "part", "parts", "other", "others", "found", "one", "own", "known", "left", "rest", "some", "it", "this",
        "that", "these", "those", "here", "both", "each", "such", "thing", "things", "what", "who", "whole", "few",
        "many", "most", "more", "given", "wanted", "made", "got", "again", "like",
    }
)  # fmt: skip

FunctionNode = ast.FunctionDef | ast.AsyncFunctionDef


def source_folder() -> Path:
    """The folder of the package, found without importing it."""
    spec = importlib.util.find_spec(PACKAGE)
    assert spec is not None
    assert spec.origin is not None
    return Path(spec.origin).resolve().parent


# -- what can be counted without running it ------------------------------------------------------------------


class Module:
    """One file: its tree, the lines that hold code, and what its names stand for."""

    def __init__(self, path: Path, folder: Path) -> None:
        parts = path.relative_to(folder).with_suffix("").parts
        self.is_package = parts[-1] == "__init__"
        self.name = ".".join([PACKAGE, *(parts[:-1] if self.is_package else parts)])
        tree = ast.parse(path.read_text(encoding="utf-8"))
        self.nodes = list(ast.walk(tree))
        self.code_lines = _code_lines(path, self.nodes)
        self.functions = {node.name: node for node in tree.body if isinstance(node, FunctionNode)}
        self.defined = {
            name
            for node in tree.body
            for name in ([node.name] if isinstance(node, FunctionNode | ast.ClassDef) else _assigned(node))
        }
        #: local name -> (module, name in it, or None for the module itself)
        self.imports: dict[str, tuple[str, str | None]] = {}
        for node in self.nodes:
            if isinstance(node, ast.Import):
                for alias in node.names:
                    if alias.name.split(".")[0] == PACKAGE and alias.asname:
                        self.imports[alias.asname] = (alias.name, None)
            elif isinstance(node, ast.ImportFrom):
                origin = node.module or ""
                if node.level:  # relative to the package that the module is in
                    base = self.name.split(".")
                    base = base[: len(base) - node.level + self.is_package]
                    origin = ".".join([*base, origin]).rstrip(".")
                if origin.split(".")[0] == PACKAGE:
                    for alias in node.names:
                        self.imports[alias.asname or alias.name] = (origin, alias.name)


def _assigned(node: ast.stmt) -> list[str]:
    targets = node.targets if isinstance(node, ast.Assign) else [node.target] if isinstance(node, ast.AnnAssign) else []
    return [target.id for target in targets if isinstance(target, ast.Name)]


def _code_lines(path: Path, nodes: list[ast.AST]) -> set[int]:
    """Numbers of the lines that hold code."""
    empty = {
        tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENCODING,
        tokenize.ENDMARKER,
    }  # fmt: skip
    docstrings = {
        (node.body[0].lineno, node.body[0].col_offset)
        for node in nodes
        if isinstance(node, ast.Module | ast.ClassDef | FunctionNode)
        and ast.get_docstring(node, clean=False) is not None
    }
    lines: set[int] = set()
    with path.open("rb") as file:
        for token in tokenize.tokenize(file.readline):
            if token.type not in empty and not (token.type == tokenize.STRING and token.start in docstrings):
                lines.update(range(token.start[0], token.end[0] + 1))
    return lines


class Modules:
    """All files of the package."""

    def __init__(self, folder: Path) -> None:
        found = [Module(path, folder) for path in sorted(folder.rglob("*.py"))]
        self.by_name = {module.name: module for module in found}

    def origin(self, module: str, name: str | None) -> tuple[str, str | None] | None:
        """Where a name is defined, through the packages that pass it on: (module, name), or None if not here."""
        for _ in range(10):
            if name is not None and f"{module}.{name}" in self.by_name:
                module, name = f"{module}.{name}", None
            here = self.by_name.get(module)
            if here is None:
                return None
            if name is None or name in here.defined or name not in here.imports:
                return module, name
            module, name = here.imports[name]
        return None

    def counts(self) -> dict[str, int]:
        """All that is counted."""
        nodes = [(module, node) for module in self.by_name.values() for node in module.nodes]
        functions = [(module, node) for module, node in nodes if isinstance(node, FunctionNode)]
        sizes = [sum(line in module.code_lines for line in _span(node)) for module, node in functions]
        callers, importers = self._callers(), self._importers()
        return {
            "code lines": sum(len(module.code_lines) for module in self.by_name.values()),
            "files": len(self.by_name),
            "classes": sum(isinstance(node, ast.ClassDef) for _, node in nodes),
            "functions": len(functions),
            "functions of five lines or fewer": sum(size <= 5 for size in sizes),
            "module functions": sum(len(module.functions) for module in self.by_name.values()),
            "module functions with one caller": sum(count == 1 for count in callers.values()),
            "modules with one importer": sum(len(found) == 1 for found in importers.values()),
            "uses of Any": sum(isinstance(node, ast.Name) and node.id == "Any" for _, node in nodes),
            "functions over 80 lines": sum(size > 80 for size in sizes),
            "pronouns as variables, per thousand": self._pronouns([node for _, node in functions]),
            "isinstance of losses": sum(
                _tests_loss(node) for module, node in nodes if module.name != f"{PACKAGE}.losses"
            ),
            "getattr for parameters": self._parameters_by_name([node for _, node in nodes]),
        }

    def _pronouns(self, functions: list[FunctionNode]) -> int:
        """Variables per thousand whose name is a pronoun."""
        variables = [name for node in functions for name in _variables(node)]
        return round(1000 * sum(name in PRONOUNS for name in variables) / len(variables))

    def _parameters_by_name(self, nodes: list[ast.AST]) -> int:
        """Calls of getattr with a default that ask for a parameter which an estimator may not have."""
        import kompakt

        public: list[Any] = [getattr(kompakt, name) for name in kompakt.__all__]
        machines = [value for value in public if isinstance(value, type) and hasattr(value, "get_params")]
        names = {name for machine in machines for name in machine._get_param_names()}  # type: ignore[attr-defined]
        return sum(
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Name)
            and node.func.id == "getattr"
            and len(node.args) == 3
            and isinstance(node.args[0], ast.Name)
            and node.args[0].id in ("self", "estimator", "machine")
            and isinstance(node.args[1], ast.Constant)
            and node.args[1].value in names
            for node in nodes
        )

    def _callers(self) -> dict[tuple[str, str | None], int]:
        """How often every function at module level is named outside its own definition."""
        named: dict[tuple[str, str | None], int] = {
            (module.name, name): 0 for module in self.by_name.values() for name in module.functions
        }
        for module in self.by_name.values():
            inside = {id(part): name for name, node in module.functions.items() for part in ast.walk(node)}
            for node in module.nodes:
                found = None
                if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
                    place = module.imports.get(node.id)
                    if node.id in module.functions:
                        place = (module.name, node.id)
                    found = self.origin(*place) if place else None
                elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
                    place = module.imports.get(node.value.id)
                    owner = self.origin(*place) if place else None
                    if owner is not None and owner[1] is None:
                        found = self.origin(owner[0], node.attr)
                if found in named and not (found[0] == module.name and inside.get(id(node)) == found[1]):
                    named[found] += 1
        return named

    def _importers(self) -> dict[str, set[str]]:
        found: dict[str, set[str]] = {name: set() for name, module in self.by_name.items() if not module.is_package}
        for module in self.by_name.values():
            origins = [self.origin(*place) for place in module.imports.values()]
            for origin in origins:
                if origin is not None and origin[0] in found and not module.is_package and origin[0] != module.name:
                    found[origin[0]].add(module.name)
        return found


def _span(node: FunctionNode) -> range:
    return range(node.lineno, (node.end_lineno or node.lineno) + 1)


def _variables(function: FunctionNode) -> set[str]:
    """Names that a function binds, those of functions inside it left out."""
    names: set[str] = {argument.arg for argument in ast.walk(function.args) if isinstance(argument, ast.arg)}
    pending: list[ast.AST] = list(function.body)
    while pending:
        node = pending.pop()
        if isinstance(node, FunctionNode | ast.ClassDef):
            continue
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            names.add(node.id)
        elif isinstance(node, ast.Lambda):
            names |= {argument.arg for argument in ast.walk(node.args) if isinstance(argument, ast.arg)}
        pending.extend(ast.iter_child_nodes(node))
    return names - {"self", "cls", "_"}


#: classes of `kompakt.losses`
LOSSES = frozenset(
    {
        "SquaredHinge", "Hinge", "LeastSquares", "Huber", "HuberHinge", "Absolute", "EpsilonInsensitive", "Quantile",
        "PiecewiseLinear", "Rounded",
    }
)  # fmt: skip


def _tests_loss(node: ast.AST) -> bool:
    if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "isinstance"):
        return False
    return any(isinstance(name, ast.Name) and name.id in LOSSES for name in ast.walk(node.args[1]))


# -- frames from fit to arithmetic ---------------------------------------------------------------------------


class Depth:
    """The deepest stack of the package's functions on which a function in its folder `kernels` was given rows.

    While it is entered, all threads are watched, and what is submitted to a thread pool remembers who submitted it.
    """

    def __init__(self, folder: Path) -> None:
        self.package, self.kernels = f"{folder}/", f"{folder / 'kernels'}/"
        self.deepest: list[str] = []
        self._known: dict[CodeType, tuple[bool, bool]] = {}
        self._below = threading.local()  # names of the functions below the thread's own stack

    def __enter__(self) -> Depth:
        self._submit = submit = ThreadPoolExecutor.submit

        def remembering(pool: Any, function: Callable[..., Any], /, *args: Any, **named: Any) -> Any:
            below = self._stack(sys._getframe(1))

            def run(*args: Any, **named: Any) -> Any:
                before, self._below.names = getattr(self._below, "names", []), below
                watched = sys.getprofile()
                sys.setprofile(self._watch)  # the pool may be older than this
                try:
                    return function(*args, **named)
                finally:
                    sys.setprofile(watched)
                    self._below.names = before

            return submit(pool, run, *args, **named)

        ThreadPoolExecutor.submit = remembering  # type: ignore[method-assign]
        threading.setprofile(self._watch)
        sys.setprofile(self._watch)
        return self

    def __exit__(self, *_: object) -> None:
        sys.setprofile(None)
        threading.setprofile(None)
        ThreadPoolExecutor.submit = self._submit  # type: ignore[method-assign]

    def _place(self, code: CodeType) -> tuple[bool, bool]:
        """Whether a function is one of the package, and one of its kernels."""
        if code not in self._known:
            ours = code.co_filename.startswith(self.package) and code.co_name not in (
                "<listcomp>", "<dictcomp>", "<setcomp>", "<genexpr>", "<module>",
            )  # fmt: skip
            self._known[code] = (ours, ours and code.co_filename.startswith(self.kernels))
        return self._known[code]

    def _stack(self, frame: FrameType | None) -> list[str]:
        names = []
        while frame is not None:
            code = frame.f_code
            if self._place(code)[0]:
                names.append(f"{code.co_filename.removeprefix(self.package)}:{code.co_qualname}")
            frame = frame.f_back
        return [*getattr(self._below, "names", []), *reversed(names)]

    def _watch(self, frame: FrameType, event: str, _: Any) -> None:
        if event != "call" or not self._place(frame.f_code)[1]:
            return
        caller = frame.f_back
        while caller is not None and not self._place(caller.f_code)[0]:
            caller = caller.f_back
        if caller is not None and self._place(caller.f_code)[1]:
            return  # one kernel function calls another: the arithmetic has begun before
        code, values = frame.f_code, frame.f_locals
        given = [values.get(name) for name in code.co_varnames[: code.co_argcount]]
        if any(len(getattr(value, "shape", ())) == 2 for value in given):
            stack = self._stack(frame)
            if len(stack) > len(self.deepest):
                self.deepest = stack


def fits() -> Iterator[tuple[str, Callable[[], Any]]]:
    """Name and fit of every path that is looked at."""
    import numpy as np

    import kompakt

    rng = np.random.default_rng(0)
    X = rng.normal(size=(20_000, 6))
    y = (np.sin(2 * X[:, 0]) + X[:, 1] * X[:, 2] > 0).astype(int)
    options: dict[str, Any] = {"n_basis": 20, "random_state": 0, "n_jobs": 2}  # two threads: the pool is on the way
    yield "CompactSVC, refine=False", lambda: kompakt.CompactSVC(**options, refine=False).fit(X, y)
    yield "CompactSVC", lambda: kompakt.CompactSVC(**options).fit(X, y)
    yield "SpSVC", lambda: kompakt.SpSVC(**options).fit(X, y)
    yield "FixedSizeLSSVC, tune=True", lambda: kompakt.FixedSizeLSSVC(**options, tune=True).fit(X[:2000], y[:2000])

    def on_dask() -> None:
        import dask
        import dask.array

        rows = dask.array.from_array(X, chunks=(5000, 6)), dask.array.from_array(y, chunks=5000)
        with dask.config.set(scheduler="threads", num_workers=2):
            kompakt.CompactSVC(**options).fit(*rows)

    if importlib.util.find_spec("dask") is not None:
        yield "CompactSVC on Dask rows", on_dask


def frames(folder: Path) -> dict[str, list[str]]:
    """The deepest stack of every path."""
    found = {}
    for name, fit in fits():
        with Depth(folder) as depth:
            fit()
        found[f"frames, {name}"] = depth.deepest
    return found


def visited(folder: Path) -> dict[str, int]:
    """Functions and files of the package that a small fit goes through."""
    import numpy as np

    import kompakt

    rng = np.random.default_rng(0)
    X = rng.normal(size=(240, 6))
    y = (np.sin(2 * X[:, 0]) + X[:, 1] > 0).astype(int)
    kompakt.CompactSVC(random_state=0, n_jobs=1).fit(X, y)  # what is compiled and imported once is done
    codes: set[CodeType] = set()

    def watch(frame: FrameType, event: str, _: Any) -> None:
        if event == "call" and frame.f_code.co_filename.startswith(f"{folder}/"):
            codes.add(frame.f_code)

    sys.setprofile(watch)
    try:
        kompakt.CompactSVC(random_state=0, n_jobs=1).fit(X, y)
    finally:
        sys.setprofile(None)
    functions = {code for code in codes if not code.co_name.startswith("<")}
    return {
        "classes in the order of CompactSVC": len(kompakt.CompactSVC.__mro__),
        "functions of a small fit": len(functions),
        "files of a small fit": len({code.co_filename for code in functions}),
    }


def main(argv: list[str] | None = None) -> int:
    """Print the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--quick", action="store_true", help="count only, run nothing")
    parser.add_argument("--json", action="store_true", help="print numbers as JSON")
    parser.add_argument("--stacks", action="store_true", help="print the deepest stacks too")
    options = parser.parse_args(argv)
    folder = source_folder()
    now = Modules(folder).counts()
    stacks = {} if options.quick else frames(folder)
    now |= {name: len(stack) for name, stack in stacks.items()} | ({} if options.quick else visited(folder))
    wanted = WANTED | dict.fromkeys(stacks, MOST_FRAMES)
    if options.json:
        found: dict[str, Any] = {"before": BEFORE, "now": now, "wanted": wanted}
        print(json.dumps(found | ({"stacks": stacks} if options.stacks else {})))
        return 0
    width = max(map(len, now))
    print(f"{'':{width}}  {'before':>8}  {'now':>8}  {'wanted':>10}")
    for name, value in now.items():
        before = f"{BEFORE[name]:,}" if name in BEFORE else ""
        most = f"<= {wanted[name]:,}" if name in wanted else ""
        print(f"{name:{width}}  {before:>8}  {value:>8,}  {most:>10}")
    if options.stacks:
        for name, stack in stacks.items():
            print(f"\n{name}: {len(stack)}", *stack, sep="\n    ")
    return 0


if __name__ == "__main__":
    sys.exit(main())
