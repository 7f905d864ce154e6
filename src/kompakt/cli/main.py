"""From arguments to an exit code: parse, run the command, turn what went wrong into one line that says what to do."""

from __future__ import annotations

import argparse
import os
import re
import sys
import traceback
import warnings
from collections.abc import Sequence
from importlib import import_module
from typing import Any

from kompakt import __version__
from kompakt.cli.console import BAD_DATA, INTERRUPTED, MISTAKE, OK, USAGE, UsageError, complain

#: LIBSVM's numbers of kernels
KERNELS = {"0": "linear", "1": "poly", "2": "rbf", "linear": "linear", "poly": "poly", "rbf": "rbf"} | {
    "laplacian": "laplacian"
}

_EXAMPLES = """\
examples:
  kompakt auto people.csv --target income            scale, tune, train and evaluate in one line
  kompakt train people.csv model.kompakt --target income --impute median --scale
  kompakt predict new.csv model.kompakt predictions.csv
  kompakt export model.kompakt model.onnx --to onnx

exit codes: 0 done, 2 usage, 3 bad data, 4 done but not converged, 130 interrupted
"""


def parse(argv: Sequence[str]) -> argparse.Namespace:
    """Options of the command in `argv`; leaves with code 2 if they are wrong.

    Examples
    --------
    >>> from kompakt.cli.main import parse
    >>> options = parse(["train", "a.csv", "m.kompakt", "-c", "10", "-w1", "5"])
    >>> options.C, options.class_weight
    (10.0, [('1', 5.0)])
    """
    options = _parser().parse_args(_class_weights(list(argv)))
    options.argv = list(argv)
    return options


def _class_weights(argv: list[str]) -> list[str]:
    """LIBSVM writes the weight of class i as two words, ``-wi weight``; argparse is given one option for all."""
    result: list[str] = []
    words = iter(argv)
    for word in words:
        if re.match(r"-w[^=]", word) and not word.startswith("--"):
            result += ["--class-weight", f"{word[2:]}={next(words, '')}"]
        else:
            result.append(word)
    return result


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="kompakt",
        description="Compact kernel machines: train, evaluate and ship SVM-accurate models with few basis vectors.",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"kompakt {__version__}")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)

    def command(name: str, run: str, help: str) -> argparse.ArgumentParser:
        one = commands.add_parser(name, help=help, description=help, formatter_class=argparse.HelpFormatter)
        one.set_defaults(run=f"kompakt.cli.{run}", command=name)
        one.add_argument("-q", "--quiet", action="store_true", help="no remarks; results only where they are asked for")
        one.add_argument("--json", action="store_true", help="the result as one JSON object")
        return one

    _auto(command("auto", "train:auto", "Scale, tune, train and evaluate in one line, as LIBSVM's easy.py does."))
    _train(command("train", "train:train", "Train a model on a file of rows."))
    _tune(command("tune", "train:tune", "Search C and the kernel's width by validation."))
    _predict(command("predict", "predict:predict", "Predict the rows of a file; evaluate if it has the target."))
    _scale(command("scale", "predict:scale", "Scale every feature to a range, as svm-scale does."))
    _models(command)
    _shows(command)
    return parser


# -- groups of arguments ----------------------------------------------------------------------------------


def _data(parser: argparse.ArgumentParser, *, target: bool = True) -> None:
    group = parser.add_argument_group("data (CSV, Parquet, svmlight, npy or npz, recognised by content)")
    if target:
        group.add_argument(
            "--target", metavar="NAME", help="column with the labels or values: a name, or a number from 0"
        )
    group.add_argument("--ignore", metavar="NAMES", action="append", default=[], help="columns to leave out, a,b,c")
    group.add_argument(
        "--header", action=argparse.BooleanOptionalAction, default=None,
        help="the first line of the CSV file names the columns, or (--no-header) is a row; default: by the lines below",
    )  # fmt: skip
    group.add_argument("--format", choices=["csv", "parquet", "svmlight", "npy", "npz"], help="instead of looking")
    group.add_argument(
        "--memory", metavar="MB", type=_positive, default=512.0, help="larger files are streamed (default: 512)"
    )


def _machine(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("machine (short flags mean what they mean in LIBSVM)")
    group.add_argument("-n", "--n-basis", type=_size, default=None, help="number of basis vectors, or auto (100)")
    _which_task(group)
    group.add_argument("-t", "--kernel", type=_kernel, default="rbf", help="linear (0), poly (1), rbf (2), laplacian")
    group.add_argument("-d", "--degree", type=int, default=3, help="of the polynomial kernel (3)")
    group.add_argument(
        "-g", "--gamma", type=_positive, default=None, help="width: exp(-gamma |u - v|^2); default learned"
    )
    group.add_argument("-r", "--coef0", type=float, default=0.0, help="of the polynomial kernel (0)")
    group.add_argument("-c", "--C", dest="C", type=_positive, default=None, help="cost of the losses (1)")
    group.add_argument("-p", "--epsilon", type=_positive, default=None, help="width of the insensitive zone")
    group.add_argument(
        "-e", "--tol", type=_positive, default=None, help="relative gradient at which training ends (1e-8)"
    )
    group.add_argument(
        "--loss", default=None, help="squared_hinge, hinge, least_squares, huber, epsilon_insensitive, ..."
    )
    group.add_argument(
        "-w", "--class-weight", metavar="LABEL=WEIGHT", type=_weight, action="append", default=[],
        help="weight of a class; LIBSVM's -wi too",
    )  # fmt: skip
    group.add_argument("-b", "--probability", type=int, choices=[0, 1], default=0, help="1: calibrate probabilities")
    group.add_argument("--seed", type=int, default=0, help="random_state (0)")
    group.add_argument("--jobs", type=int, default=None, help="threads")
    group.add_argument("--max-time", type=_positive, default=None, help="seconds after which training stops")
    group.add_argument("--max-iter", type=int, default=None, help="iterations of the solver at most")
    group.add_argument("--verbose", action="count", default=0, help="tell the main steps; twice: all")


def _which_task(group: Any) -> None:
    group.add_argument("-s", "--task", type=_task, default=None, help="classify (0) or regress (3); default: by target")


def _preparation(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("preparation (stored in the model, applied by predict and by every export)")
    group.add_argument("--scale", action="store_true", help="standardise the features")
    group.add_argument("--impute", choices=["median"], help="replace missing values by the column's median")


def _auto(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("data", metavar="TRAIN")
    parser.add_argument("test", metavar="TEST", nargs="?", help="without it, a fifth of the rows is held out")
    parser.add_argument("-o", "--model", metavar="MODEL", help="default: TRAIN with the ending .kompakt")
    parser.add_argument("--predictions", metavar="OUT", help="write the predictions of the test rows")
    _data(parser)
    _machine(parser)


def _train(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("data", metavar="DATA")
    parser.add_argument("model", metavar="MODEL", nargs="?", help="file to write; may be left out with -v")
    _data(parser)
    _machine(parser)
    parser.add_argument("--tune", action="store_true", help="search C and the width first")
    parser.add_argument("-v", "--folds", metavar="N", type=int, help="cross-validate with N folds, and write no model")
    _preparation(parser)


def _tune(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("data", metavar="DATA")
    parser.add_argument("model", metavar="MODEL", nargs="?", help="also train with what was found, and write it here")
    _data(parser)
    _machine(parser)
    _preparation(parser)


def _predict(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("data", metavar="DATA")
    parser.add_argument("model", metavar="MODEL")
    parser.add_argument("out", metavar="OUT", nargs="?", help="predictions; default and '-': standard output")
    _data(parser)
    parser.add_argument("-b", "--probability", type=int, choices=[0, 1], default=0, help="1: probabilities too")
    parser.add_argument("--scores", action="store_true", help="decision values too")
    parser.add_argument("--to", choices=["csv", "libsvm"], help="format of OUT; default: as DATA")


def _scale(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("data", metavar="DATA")
    parser.add_argument("out", metavar="OUT", nargs="?", default="-", help="default: standard output")
    parser.add_argument("-l", "--lower", type=float, default=-1.0, help="lower limit (-1)")
    parser.add_argument("-u", "--upper", type=float, default=1.0, help="upper limit (+1)")
    parser.add_argument("-s", "--save", metavar="RANGE", help="save the ranges here")
    parser.add_argument("-r", "--restore", metavar="RANGE", help="use the ranges of this file")
    _data(parser)


def _models(command: Any) -> None:
    one = command("export", "models:export", "Write a model in another form, and check that it answers alike.")
    one.add_argument("model", metavar="MODEL")
    one.add_argument("out", metavar="OUT")
    one.add_argument("--to", choices=["onnx", "c", "libsvm", "numpy"], help="default: by the ending of OUT")
    one.add_argument("--dtype", help="float32 or float64 (onnx); float, double or int8 (c)")
    one.add_argument("--check", metavar="DATA", help="rows to check on; default: rows made from the basis")
    _data(one)
    one = command("inspect", "models:inspect", "Tell what a model file contains; reading it runs no code.")
    one.add_argument("model", metavar="MODEL")
    one = command("compress", "models:compress", "Fewer vectors for a model of kompakt or LIBSVM.")
    one.add_argument("model", metavar="MODEL")
    one.add_argument("out", metavar="OUT")
    one.add_argument("-n", "--n-basis", type=int, help="number of vectors")
    one.add_argument("--loss", type=float, help="share of the predictions that may change, such as 0.01")
    one.add_argument("--rows", metavar="DATA", help="rows of the kind that will be predicted; labels are not needed")
    one.add_argument("--seed", type=int, default=0)
    _data(one)
    one = command("report", "models:report", "Write a page about a model, measured on a file of rows.")
    one.add_argument("model", metavar="MODEL")
    one.add_argument("data", metavar="DATA")
    one.add_argument("-o", "--out", metavar="PAGE", required=True)
    one.add_argument("--title")
    _data(one)


def _shows(command: Any) -> None:
    one = command("bench", "demo:bench", "Compare machines of several sizes with the exact SVM on a file of rows.")
    one.add_argument("data", metavar="DATA", nargs="?", help="default: a generated set")
    one.add_argument("--sizes", default="10,30,100", help="numbers of basis vectors (10,30,100)")
    _which_task(one)
    one.add_argument("--exact-rows", type=int, default=10_000, help="no exact SVM beyond so many rows (10000)")
    one.add_argument("--seed", type=int, default=0)
    _data(one)
    _preparation(one)
    one = command("demo", "demo:demo", "Train on generated data, from rows to an exported model, in a few seconds.")
    one.add_argument("--folder", default="kompakt-demo", help="where the files go (kompakt-demo)")


# -- types ------------------------------------------------------------------------------------------------


def _positive(text: str) -> float:
    value = float(text)
    if not 0 < value < float("inf"):
        raise argparse.ArgumentTypeError(f"expected a positive number; got {text}")
    return value


def _size(text: str) -> int | str:
    if text == "auto":
        return text
    if not text.isdigit() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"expected a whole number of at least 1, or auto; got {text}")
    return int(text)


def _task(text: str) -> str:
    known = {"0": "classify", "3": "regress", "classify": "classify", "regress": "regress"}
    if text not in known:
        raise argparse.ArgumentTypeError(
            f"expected classify (0) or regress (3); got {text}. LIBSVM's other types (nu, one-class) are not trained "
            "here; `kompakt compress` takes their models"
        )
    return known[text]


def _kernel(text: str) -> str:
    if text not in KERNELS:
        raise argparse.ArgumentTypeError(
            f"expected linear (0), poly (1), rbf (2) or laplacian; got {text}. LIBSVM's sigmoid kernel (3) is no "
            "kernel for every parameter, and precomputed ones (4) are for the Python interface"
        )
    return KERNELS[text]


def _weight(text: str) -> tuple[str, float]:
    label, _, weight = text.rpartition("=")
    try:
        value = float(weight)
    except ValueError:
        value = -1.0
    if not label or not 0 <= value < float("inf"):
        raise argparse.ArgumentTypeError(f"expected LABEL=WEIGHT, or -wLABEL WEIGHT; got {text}")
    return label, value


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
    from kompakt.cli.main import parse

    try:
        options = parse(sys.argv[1:] if argv is None else list(argv))
    except SystemExit as leave:  # argparse has said why
        return leave.code if isinstance(leave.code, int) else USAGE
    module, function = options.run.split(":")
    try:
        with warnings.catch_warnings():
            warnings.showwarning = _told  # in our words instead of Python's
            code = getattr(import_module(module), function)(options)
        sys.stdout.flush()
        return OK if code is None else int(code)
    except UsageError as error:
        complain(str(error))
        return USAGE
    except KeyboardInterrupt as error:
        complain(f"interrupted{f': {error}' if str(error) else ''}; nothing was written.")
        return INTERRUPTED
    except BrokenPipeError:
        # the reader of our output (head, less) has left; there is nobody to tell
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return OK
    except (OSError, ValueError, TypeError, ImportError, MemoryError, RuntimeError) as error:
        if os.environ.get("KOMPAKT_TRACEBACK"):
            traceback.print_exc()
        complain(_in_words(error))
        return BAD_DATA
    except Exception:
        traceback.print_exc()
        complain("this is a mistake in kompakt, not in your data: please report it with the lines above.")
        return MISTAKE


def _in_words(error: Exception) -> str:
    """The message of an error; those of the system say which file they mean, and not their number."""
    if isinstance(error, OSError) and error.strerror and error.filename is not None:
        remedy = " Is the name right, seen from the folder you are in?" if isinstance(error, FileNotFoundError) else ""
        return f"{os.fsdecode(error.filename)}: {error.strerror}.{remedy}"
    return str(error)


def _told(message: Warning | str, category: type[Warning], *place: object, **more: object) -> None:
    if not issubclass(category, DeprecationWarning | PendingDeprecationWarning | FutureWarning):
        print(f"kompakt: warning: {message}", file=sys.stderr)
