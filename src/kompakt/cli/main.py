"""The arguments of every command, and the way from them to an exit code; what a command needs is imported by it."""

from __future__ import annotations

import argparse
import os
import re
import shlex
import sys
import traceback
import warnings
from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Any

from kompakt import __version__
from kompakt.cli.console import BAD_DATA, INTERRUPTED, MISTAKE, OK, USAGE, Console, UsageError, escaping, say

_EXAMPLES = """\
examples:
  kompakt auto people.csv --target income            scale, tune, train and evaluate in one line
  kompakt train people.csv model.kompakt --target income
  kompakt predict new.csv model.kompakt predictions.csv
  kompakt export model.kompakt model.onnx --to onnx

exit codes: 0 done, 2 usage, 3 bad data, 4 done but not converged, 130 interrupted
"""


# -- types of arguments ------------------------------------------------------------------------------------


def _positive(text: str) -> float:
    value = float(text)
    if not 0 < value < float("inf"):
        raise argparse.ArgumentTypeError(f"expected a positive number; got {text}")
    return value


def _width(text: str) -> float | str:
    return text if text in ("scale", "auto", "learn", "ard", "full") else _positive(text)


def _size(text: str) -> int | str:
    if text == "auto":
        return text
    if not text.isdigit() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"expected a whole number of at least 1, or auto; got {text}")
    return int(text)


def _weight(text: str) -> tuple[str, float] | str:
    if text == "balanced":
        return text
    label, _, weight = text.rpartition("=")
    try:
        value = float(weight)
    except ValueError:
        value = -1.0
    if not label or not 0 <= value < float("inf"):
        raise argparse.ArgumentTypeError(f"expected balanced, LABEL=WEIGHT, or -wLABEL WEIGHT; got {text}")
    return label, value


def _one_of(numbers: dict[str, str], expected: str, remedy: str) -> Callable[[str], str]:
    """A type whose values are names, or LIBSVM's numbers of them."""

    def convert(text: str) -> str:
        value = numbers.get(text, text)
        if value not in numbers.values():
            raise argparse.ArgumentTypeError(f"expected {expected}; got {text}. {remedy}")
        return value

    return convert


_task = _one_of(
    {"0": "classify", "2": "novelty", "3": "regress"},
    "classify (0), novelty (2) or regress (3)",
    "LIBSVM's nu types (1, 4) are not trained here; `kompakt compress` takes their models",
)
_kernel = _one_of(
    {"0": "linear", "1": "poly", "2": "rbf", "laplacian": "laplacian"},
    "linear (0), poly (1), rbf (2) or laplacian",
    "LIBSVM's sigmoid kernel (3) is no kernel for every parameter, and precomputed ones (4) are for the Python "
    "interface",
)


# -- arguments ---------------------------------------------------------------------------------------------


class _Parser(argparse.ArgumentParser):
    """A parser whose messages, which repeat arguments, do not act on the terminal."""

    def _print_message(self, message: str, file: Any = None) -> None:
        say(message.removesuffix("\n"), file or sys.stderr)


def parse(argv: Sequence[str]) -> argparse.Namespace:
    """Options of the command in `argv`; leaves with code 2 if they are wrong.

    Examples
    --------
    >>> from kompakt.cli.main import parse
    >>> options = parse(["train", "a.csv", "m.kompakt", "-c", "10", "-w1", "5"])
    >>> options.C, options.class_weight
    (10.0, [('1', 5.0)])
    """
    arguments: list[str] = []
    words = iter(argv)
    for argument in words:
        if re.match(r"-w[^=]", argument):  # LIBSVM writes the weight of class i as two arguments: -wi weight
            arguments += ["--class-weight", f"{argument[2:]}={next(words, '')}"]
        else:
            arguments.append(argument)
    parser, commands = _parser()
    if arguments and arguments[0] in commands and "--" not in arguments:  # intermixed parsing does not know --
        options = commands[arguments[0]].parse_intermixed_args(arguments[1:])  # files before, between and after flags
    else:
        options = parser.parse_args(arguments)
    options.command_line = "kompakt " + shlex.join(argv)
    return options


def _parser() -> tuple[_Parser, dict[str, _Parser]]:
    """The parser of the program, and those of its commands."""
    parser = _Parser(
        prog="kompakt",
        description="Compact kernel machines: train, evaluate and ship SVM-accurate models with few basis vectors.",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"kompakt {__version__}")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    output, data, task, seed, model, scaling, preparation = _shared_options()

    def command(
        name: str, run: str, help: str, *files: str, options: Sequence[_Parser] = (), **defaults: Any
    ) -> Callable[..., argparse.Action]:
        """Add a command, and return what adds an argument to it."""
        subparser = commands.add_parser(name, help=help, description=help, parents=[output, *options])
        subparser.set_defaults(run=run, command=name, **defaults)
        for file in files:
            subparser.add_argument(file, metavar=file.upper())
        return subparser.add_argument

    about = "Scale, tune, train and evaluate in one line, as LIBSVM's easy.py does."
    add = command("auto", "train:auto", about, options=[data, model, scaling], tune=True)
    add("data", metavar="TRAIN")
    add("test", metavar="TEST", nargs="?", help="without it, a fifth of the rows is held out")
    add("-o", "--model", metavar="MODEL", help="default: TRAIN with the ending .kompakt")
    add("--predictions", metavar="OUT", help="write the predictions of the test rows")

    about = "Train a model on a file of rows."
    add = command("train", "train:train", about, "data", options=[data, model, preparation])
    add("model", metavar="MODEL", nargs="?", help="file to write; may be left out with -v")
    add("--tune", action="store_true", help="search C and the width first")
    add("-v", "--folds", metavar="N", type=int, help="cross-validate with N folds, and write no model")

    about = "Search C and the kernel's width by validation."
    add = command("tune", "train:train", about, "data", options=[data, model, preparation], tune=True, folds=None)
    add("model", metavar="MODEL", nargs="?", help="also train with what was found, and write it here")

    about = "Predict the rows of a file; evaluate if it has the target."
    add = command("predict", "predict:predict", about, "data", "model", options=[data])
    add("out", metavar="OUT", nargs="?", help="predictions; default and '-': standard output")
    add("-b", "--probability", type=int, choices=[0, 1], default=0, help="1: probabilities too")
    add("--proba", dest="probability", action="store_const", const=1, help="the same as -b 1")
    add("--id", metavar="COLUMN", help="write this column of DATA before the predictions")
    add("--keep-columns", action="store_true", help="write all columns of DATA before the predictions")
    add("--scores", action="store_true", help="decision values too")
    add("--to", choices=["csv", "libsvm"], help="format of OUT; default: as DATA")
    safe = "put a ' before cells that a spreadsheet would take for a formula (those that begin with = + - @)"
    add("--safe-csv", action="store_true", help=safe)

    about = "Scale every feature to a range, as svm-scale does."
    add = command("scale", "predict:scale", about, "data", options=[data])
    add("out", metavar="OUT", nargs="?", default="-", help="default: standard output")
    add("-l", "--lower", type=float, default=-1.0, help="lower limit (-1)")
    add("-u", "--upper", type=float, default=1.0, help="upper limit (+1)")
    add("-s", "--save", metavar="RANGE", help="save the ranges here")
    add("-r", "--restore", metavar="RANGE", help="use the ranges of this file")

    about = "Export a model to another format, and check that its predictions agree."
    add = command("export", "models:export", about, "model", "out", options=[data])
    add("--to", choices=["onnx", "c", "arduino", "js", "libsvm", "numpy"], help="default: by the ending of OUT")
    add("--dtype", help="float32 or float64 (onnx); float, double or int8 (c, arduino)")
    add("--encoded", action="store_true", help="onnx: one input of encoded features, not the columns")
    add("--check", metavar="DATA", help="rows to check on; default: rows made from the basis")

    command("inspect", "models:inspect", "Show what a model file contains; reading it runs no code.", "model")

    about = "Reduce a model of kompakt or LIBSVM to fewer vectors, or round its numbers to fewer bits."
    add = command("compress", "models:compress", about, "model", "out", options=[data, seed])
    add("-n", "--n-basis", type=int, help="number of vectors")
    add("--loss", type=float, help="share of the predictions that may change, such as 0.01")
    add("--storage", choices=["int8", "float16", "auto"], help="round vectors and weights to this type")
    add("--rows", metavar="DATA", help="rows of the kind that will be predicted; labels are not needed")

    about = "Write a page about a model, measured on a file of rows."
    add = command("report", "models:report", about, "data", "model", options=[data])
    add("-o", "--out", metavar="PAGE", required=True)
    add("--title", help="default: target and file")
    add("--no-curves", action="store_true", help="without learning curves, which take most of the time")

    about = "Compare models of several sizes with the exact SVM on a file of rows."
    add = command("bench", "demo:bench", about, options=[data, task, seed, preparation])
    add("data", metavar="DATA", nargs="?", help="default: a generated set")
    add("--sizes", default="10,30,100", help="numbers of basis vectors (10,30,100)")
    add("--exact-rows", type=int, default=10_000, help="largest number of rows to train the exact SVM on (10000)")

    add = command("demo", "demo:demo", "Train on generated data, from rows to an exported model, in a few seconds.")
    add("--folder", default="kompakt-demo", help="where the files go (kompakt-demo)")
    return parser, commands.choices


def _shared_options() -> list[_Parser]:
    """Options that several commands have: of output, data, task, seed, model (with the former two) and preparation."""
    output, data, task, seed = (_Parser(add_help=False) for _ in range(4))
    output.add_argument("-q", "--quiet", action="store_true", help="print no remarks, and no result unless requested")
    output.add_argument("--json", action="store_true", help="the result as one JSON object")
    task.add_argument("-s", "--task", type=_task, help="classify (0), novelty (2), regress (3); default: by the target")
    keep = "columns to use even if they look like identifiers, a,b,c"
    task.add_argument("--keep", metavar="COLUMN", action="append", default=[], help=keep)
    order = "words of a column, or of the target, in their order: they become their ranks; repeatable"
    task.add_argument("--order", metavar="COLUMN=LOW,MEDIUM,HIGH", action="append", default=[], help=order)
    seed.add_argument("--seed", type=int, default=0, help="random_state (0)")

    add = data.add_argument_group("data (CSV, Parquet, svmlight, npy or npz, recognised by content)").add_argument
    data.set_defaults(impute=None, keep=[], order=[])  # of commands without these flags
    add("--target", metavar="NAME", help="column with the labels or values: a name, or a number from 0")
    add("--ignore", metavar="NAMES", action="append", default=[], help="columns to leave out, a,b,c")
    header = "the first line of the CSV file names the columns, or (--no-header) is a row; default: by the lines below"
    add("--header", action=argparse.BooleanOptionalAction, default=None, help=header)
    add("--format", choices=["csv", "parquet", "svmlight", "npy", "npz"], help="format of the file; default: detected")
    add("--na", metavar="TEXT", action="append", default=[], help="another text for a missing value; repeatable")
    add("--decimal", choices=[".", ","], help="the decimal sign; default: detected")
    add(
        "--strict", action="store_true", help="refuse columns and cells that cannot be used instead of leaving them out"
    )
    add("--memory", metavar="MB", type=_positive, default=512.0, help="larger files are streamed (default: 512)")

    model = _Parser(add_help=False, parents=[task, seed])
    add = model.add_argument_group("model (short flags mean what they mean in LIBSVM)").add_argument
    add("-n", "--n-basis", type=_size, help="number of basis vectors, or auto (100)")
    add("-t", "--kernel", type=_kernel, default="rbf", help="linear (0), poly (1), rbf (2), laplacian")
    add("-d", "--degree", type=int, default=3, help="of the polynomial kernel (3)")
    widths = "exp(-gamma |u - v|^2), or scale, auto, learn, ard, full"
    add("-g", "--gamma", type=_width, help=f"width: {widths}; default learned")
    add("-r", "--coef0", type=float, default=0.0, help="of the polynomial kernel (0)")
    add("-c", "--C", dest="C", type=_positive, help="cost of the losses (1)")
    add("--nu", type=_positive, help="novelty: share of false alarms (0.05)")
    add("--interval", type=_positive, help="regression: intervals that hold this share of new values, such as 0.9")
    add("-p", "--epsilon", type=_positive, help="width of the insensitive zone")
    add("-e", "--tol", type=_positive, help="relative gradient norm at which the solver stops (1e-8)")
    add("--loss", help="squared_hinge, hinge, least_squares, huber, epsilon_insensitive, ...")
    weight = "weight of a class, LIBSVM's -wi too; balanced: all classes have the same sum of weights"
    add("-w", "--class-weight", metavar="LABEL=WEIGHT", type=_weight, action="append", default=[], help=weight)
    logs = "model logarithms of the target; default: where it is positive and skewed, and held-out error says so"
    add("--log-target", action=argparse.BooleanOptionalAction, default=None, help=logs)
    add("-b", "--probability", type=int, choices=[0, 1], default=0, help="1: calibrate probabilities")
    add("--proba", dest="probability", action="store_const", const=1, help="the same as -b 1")
    add("--jobs", type=int, help="threads")
    add("--max-time", type=_positive, help="seconds after which training stops")
    add("--max-iter", type=int, help="maximum number of solver iterations")
    add("--verbose", action="count", default=0, help="log the main steps; given twice: all steps")

    scaling = _Parser(add_help=False)
    about = "preparation (stored in the model, applied by predict and by every export)"
    add = scaling.add_argument_group(about).add_argument
    add("--scale", action=argparse.BooleanOptionalAction, default=True, help="standardise the features (default)")
    preparation = _Parser(add_help=False, parents=[scaling])
    add = preparation.add_argument_group("gaps").add_argument
    add(
        "--impute",
        choices=["median"],
        help="replace missing values by medians, without indicators; also for npy and npz",
    )
    return [output, data, task, seed, model, scaling, preparation]


# -- the program -------------------------------------------------------------------------------------------


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command and return its exit code.

    Parameters
    ----------
    argv : sequence of str, optional
        Arguments without the program's name; None takes those of the process.

    Returns
    -------
    int
        0 done, 2 usage, 3 bad data, 4 done but not converged, 130 interrupted; 1 is a mistake in kompakt itself.

    Examples
    --------
    >>> from kompakt.cli import main
    >>> main(["--version"])
    kompakt ...
    0
    """
    with escaping():
        code = _run(sys.argv[1:] if argv is None else list(argv))
        try:
            if sys.stdout is not None:
                sys.stdout.flush()
        except OSError as error:
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # else it would be tried again at exit
            if code == OK and not isinstance(error, BrokenPipeError):
                code = _fail(BAD_DATA, f"standard output: {error.strerror}.")
        return code


def _run(argv: list[str]) -> int:
    """Run a command; every way in which it can end has its exit code."""
    try:
        options = parse(argv)
        module, function = options.run.split(":")
        with warnings.catch_warnings():
            warnings.showwarning = _show_warning
            run = getattr(import_module(f"kompakt.cli.{module}"), function)
            code = run(options, Console(quiet=options.quiet, json=options.json))
        return OK if code is None else int(code)
    except SystemExit as leave:  # argparse has said why
        return leave.code if isinstance(leave.code, int) else USAGE
    except UsageError as error:
        return _fail(USAGE, str(error))
    except KeyboardInterrupt as error:
        return _fail(INTERRUPTED, f"interrupted{f': {error}' if str(error) else ''}; nothing was written.")
    except BrokenPipeError:
        return OK  # the reader of our output (head, less) has left; there is nobody to tell
    except (OSError, ValueError, TypeError, ImportError, MemoryError, RuntimeError) as error:
        if os.environ.get("KOMPAKT_TRACEBACK"):
            say(traceback.format_exc(), sys.stderr)
        text = str(error)
        if isinstance(error, OSError) and error.strerror and error.filename is not None:  # without its number
            text = f"{os.fsdecode(error.filename)}: {error.strerror}."
            if isinstance(error, FileNotFoundError):
                text += " Is the name right, seen from the folder you are in?"
        return _fail(BAD_DATA, text)
    except Exception:
        say(traceback.format_exc(), sys.stderr)
        return _fail(MISTAKE, "this is a mistake in kompakt, not in your data: please report it with the lines above.")


def _fail(code: int, text: str) -> int:
    say(f"kompakt: error: {text}", sys.stderr)
    return code


def _show_warning(message: Warning | str, category: type[Warning], *place: object, **keywords: object) -> None:
    """Show a warning as a line of the command's own, without Python's file and line."""
    if not issubclass(category, DeprecationWarning | PendingDeprecationWarning | FutureWarning):
        Console().warn(str(message))
