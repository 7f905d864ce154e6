"""The table of parameters: type, meaning and constraint of every name, each written once.

An estimator lists its parameters with their defaults in its own constructor, which only stores them. `described` looks
up every name, among what the estimator says itself and then in the table, and fills the section "Parameters" of the
docstring. `check_parameters` applies the constraints when a fit begins.
"""

from __future__ import annotations

import inspect
import textwrap
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, fields, replace
from numbers import Integral, Real
from typing import Any, TypeVar

import numpy as np
from sklearn.base import BaseEstimator

from kompakt.basis.refine import Refinement
from kompakt.heldout import AutoSize
from kompakt.train.task import LARGEST

Class = TypeVar("Class", bound=type)


# -- constraints ---------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Rule:
    """A constraint: the text behind "must be", whether a value keeps to it, and what to do where it does not."""

    text: str
    holds: Callable[[Any], bool]
    remedy: str = ""


def is_number(value: Any) -> bool:
    """Whether a value is a number, and no truth value."""
    return isinstance(value, Real) and not isinstance(value, bool | np.bool_)


def is_count(value: Any, least: int = 1) -> bool:
    """Whether a value is a whole number of at least `least`."""
    return isinstance(value, Integral) and not isinstance(value, bool) and int(value) >= least


def one_of(*choices: str) -> Rule:
    """One of some names."""
    return Rule(f"one of {choices}", lambda value: isinstance(value, str) and value in choices)


def or_none(rule: Rule) -> Rule:
    """None, or what the rule says."""
    return Rule(f"None or {rule.text}", lambda value: value is None or rule.holds(value), rule.remedy)


POSITIVE = Rule("a positive, finite number", lambda value: is_number(value) and 0 < float(value) < np.inf)
SWITCH = Rule("True or False", lambda value: isinstance(value, bool | np.bool_))
COUNT = Rule("a whole number of at least 1", is_count)
SHARE = Rule("a number from 0 to below 1", lambda value: is_number(value) and 0 <= float(value) < 1)
COST = Rule(
    f"a positive, finite number between {1.0 / LARGEST:.0e} and {LARGEST:.0e}",
    lambda value: is_number(value) and 1.0 / LARGEST <= float(value) <= LARGEST,
    " Scale inputs and targets, and take a C nearer to 1.",
)
SIZE = Rule(
    "a whole number of at least 1, 'auto'", lambda value: value == "auto" if isinstance(value, str) else is_count(value)
)
SECONDS = Rule(
    "None or a positive number of seconds",
    lambda value: value is None or (isinstance(value, Real) and float(value) > 0),
)
FOLDS = Rule(
    "None, at least 2 folds, a splitter or a list of splits",
    lambda value: (
        value is None
        or is_count(value, 2)
        or (not isinstance(value, str) and (hasattr(value, "split") or isinstance(value, Iterable)))
    ),
)
FINITE = Rule("a finite number", lambda value: is_number(value) and bool(np.isfinite(float(value))))
NOT_NEGATIVE = Rule("a finite number >= 0", lambda value: FINITE.holds(value) and value >= 0)
OPEN_SHARE = Rule("a number between 0 and 1, both excluded", lambda value: is_number(value) and 0 < float(value) < 1)


def auto_or(rule: Rule) -> Rule:
    """The word "auto", or what the rule says."""
    return Rule(
        f"'auto' or {rule.text}", lambda value: value == "auto" if isinstance(value, str) else rule.holds(value)
    )


LEVEL = Rule("a whole number of at least 0, or True or False", lambda value: SWITCH.holds(value) or is_count(value, 0))
BYTES = or_none(Rule("a whole number of bytes", lambda value: is_count(value, 0)))


# -- what is said of a parameter -----------------------------------------------------------------------------

#: classes of options that a parameter may be an object of, with the fields that the estimator uses (None: all)
Options = dict[type, tuple[str, ...] | None]


@dataclass(frozen=True)
class Parameter:
    """What the table knows of a parameter; the default is that of the estimator's constructor."""

    type: str
    doc: str
    rule: Rule | None = None
    options: Options = field(default_factory=dict)
    note: str = ""  # what the estimator adds
    default: Any = None

    @property
    def accepts(self) -> str:
        """The type in words, with the classes of options."""
        return _with_options(self.type, self.options)

    def noted(self, note: str = "", **changes: Any) -> Parameter:
        """The same parameter with what one estimator has to say of it, or accepts besides."""
        return replace(self, note=note, **changes)


def parameter(type: str, doc: str, rule: Rule | None = None, options: Options | None = None) -> Parameter:
    """A parameter; objects of the classes in `options` may be given instead."""
    return Parameter(type, doc, rule, options or {})


def described(**special: Parameter) -> Callable[[Class], Class]:
    """Describe an estimator's parameters: those in `special` as they are there, all others as in the table.

    Sets `_parameters`, by name in the order of the constructor, and puts them where the docstring has ``{parameters}``.

    Examples
    --------
    >>> from sklearn.base import BaseEstimator
    >>> from kompakt.estimators.params import described
    >>> @described()
    ... class Machine(BaseEstimator):
    ...     "A machine.  {parameters}"
    ...
    ...     def __init__(self, *, degree=3):
    ...         self.degree = degree
    >>> print(Machine.__doc__.splitlines()[2])
        degree : int, default=3
    """

    def describe(cls: Class) -> Class:
        arguments = list(inspect.signature(cls).parameters.values())
        unknown = special.keys() - {argument.name for argument in arguments}
        if unknown:
            raise TypeError(f"{cls.__name__} has no parameter {', '.join(sorted(unknown))} to describe.")
        parameters = {
            argument.name: replace(special.get(argument.name) or TABLE[argument.name], default=argument.default)
            for argument in arguments
        }
        cls._parameters = parameters  # type: ignore[attr-defined]
        cls.__doc__ = (cls.__doc__ or "").replace("{parameters}", _section(parameters))
        return cls

    return describe


def _with_options(text: str, options: Options) -> str:
    """The text with the classes of options at the end of its choices."""
    names = [option.__name__ for option in options]
    return " or ".join([", ".join([text.replace(" or ", ", "), *names[:-1]]), names[-1]]) if names else text


def _section(parameters: dict[str, Parameter]) -> str:
    """The section "Parameters" of a docstring, without the indentation of its first line."""
    lines = ["Parameters", "    ----------"]
    for name, entry in parameters.items():
        default = f'"{entry.default}"' if isinstance(entry.default, str) else repr(entry.default)
        lines.append(f"    {name} : {entry.accepts}, default={default}")
        text = f"{entry.doc} {entry.note}".strip()
        lines += textwrap.wrap(text, 119, initial_indent=8 * " ", subsequent_indent=8 * " ", break_on_hyphens=False)
    return "\n".join(lines)


#: parameters whose default differs between estimators, and why
OTHER_DEFAULTS = {
    "gamma": "`GreedyProjection` does not look at targets",
    "loss": "every method has that of its paper",
    "max_iter": "`ProjectedSVC` hands it to LIBSVM and LIBLINEAR, which count smaller steps",
    "n_basis": "`LocalSamplingSVC` and `CGLQSVC` train an exact SVM unless a number is given; projections are chosen "
    "without regard to what their coordinates are for, and want more vectors",
    "refine": "the flagship refines",
    "selection": "every method has that of its paper, but the fixed-size machines have what wins on most sets",
    "tol": "`ProjectedSVC` hands it to LIBSVM and LIBLINEAR, whose violation is another measure",
}


def check_parameters(machine: BaseEstimator) -> None:
    """Apply the constraints of the table to the parameters of an estimator, if it is described by the table."""
    for name, entry in getattr(machine, "_parameters", {}).items():
        value, rule, options = getattr(machine, name), entry.rule, entry.options
        if type(value) in options:
            _refuse_unused(machine, name, value, options[type(value)])
        elif rule is not None and not rule.holds(value):
            raise ValueError(f"{name} must be {_with_options(rule.text, options)}; got {value!r}.{rule.remedy}")


def _refuse_unused(machine: BaseEstimator, name: str, value: Any, used: tuple[str, ...] | None) -> None:
    """Refuse options that an estimator does not look at."""
    for option in fields(value):
        setting = getattr(value, option.name)
        if used is not None and option.name not in used and setting is not option.default and setting != option.default:
            raise ValueError(
                f"{type(machine).__name__} does not use {option.name}={setting!r} of {name}={type(value).__name__}; it "
                f"uses {', '.join(used)}."
            )


def auto_size(n_basis: Any) -> AutoSize | None:
    """How the size is chosen; None where it is given."""
    if isinstance(n_basis, AutoSize):
        return n_basis
    return AutoSize() if isinstance(n_basis, str) else None


# -- the table -----------------------------------------------------------------------------------------------

_WIDTH = (
    'Width of the kernel, one number or one per feature; "scale" is 1 / (n_features * variance of X), "auto" 1 / '
    "n_features."
)
_WIDTH_FROM_DATA = (
    "None takes the width of a Gaussian or Laplacian kernel from the data, by the leave-one-out error of kernel ridge "
    "regression on a sample"
)
_LEARNED = (
    'With refine=True, "learn" (one width), "ard" (one per feature) and "full" (a linear map A of the inputs, with the '
    'kernel exp(-|A (x - c)|^2)) move with the vectors, from "scale" on'
)
_WHICH_METRIC = (
    "learns a map if there are 20 rows or more for each of its entries, with fewer rows one width per feature and "
    "then, with at most 200 features, a map if held-out rows say that it pays."
)
#: widths of estimators that refine vectors, and those of the flagship
LEARNED_GAMMA = parameter(
    '{"scale", "auto", "learn", "ard", "full"}, float or array of shape (n_features,)',
    f"{_WIDTH} {_LEARNED}. {_WIDTH_FROM_DATA}; and where a Gaussian kernel is refined, {_WHICH_METRIC}",
)
ANY_GAMMA = parameter(
    '{"scale", "auto", "learn", "ard", "full", "loo"}, float or array of shape (n_features,)',
    f'{_WIDTH} {_LEARNED}; "loo" takes one width per feature by leave-one-out on a sample before the vectors move, for '
    'sets of a few hundred rows. None means "scale" without refinement. Where a Gaussian kernel is refined, None '
    f"{_WHICH_METRIC}",
)

#: what is minimised
OBJECTIVE = {
    "kernel": parameter(
        '{"rbf", "laplacian", "poly", "linear", "precomputed"}, callable or Kernel',
        "The kernel k, by name, as a function of two blocks of rows, or as an object of `kompakt.kernels`.",
    ),
    "gamma": parameter('{"scale", "auto"}, float or array of shape (n_features,)', f"{_WIDTH} {_WIDTH_FROM_DATA}."),
    "degree": parameter("int", "Degree of the polynomial kernel.", COUNT),
    "coef0": parameter("float", "Constant term of the polynomial kernel.", FINITE),
    "C": parameter(
        "float",
        "Cost of the losses: 1/2 beta' K beta + C sum_i s_i loss_i is minimised. None takes it from the data, by the "
        "leave-one-out error of kernel ridge regression on a sample of at most some thousand rows.",
        or_none(COST),
    ),
    "loss": parameter(
        '{"squared_hinge", "hinge", "least_squares", "huber"} or Loss',
        "Loss of a row, by name or as an object of `kompakt.losses`.",
    ),
    "epsilon": parameter(
        "float",
        "Width of the insensitive zone of a loss, or where the Huber loss becomes linear. None is 0.1 and 1.35; in "
        "regression with C=None these are 0.6 and 1.35 standard deviations of the noise, by the data.",
        or_none(NOT_NEGATIVE),
    ),
    "fit_intercept": parameter("bool", "Whether there is an intercept.", SWITCH),
    "penalize_intercept": parameter(
        "bool",
        "Whether the intercept counts in the penalty; where it does, the result depends on where the targets lie.",
        SWITCH,
    ),
    "coding": parameter(
        '{"one_vs_rest", "one_vs_one", "minimum_output"}',
        "How more than two classes become outputs on the shared basis.",
    ),
    "class_weight": parameter(
        'dict or "balanced"',
        'Weights of the classes, by label; "balanced" gives all classes the same sum of weights.',
    ),
}
#: the loss of regressors
NUMBER_LOSS = replace(
    OBJECTIVE["loss"], type='{"least_squares", "huber", "epsilon_insensitive", "absolute", "quantile"} or Loss'
)

#: which vectors there are
BASIS = {
    "n_basis": parameter('int, "auto"', "Number of basis vectors, at most.", SIZE),
    "selection": parameter(
        '{"gram", "random", "renyi", "projection", "all", "sp1", "sp2", "hybrid", "cholesky", "gsvc", "bh", "mark", '
        '"kmp"}, array of vectors or selector',
        "How basis vectors are chosen, by name or by an object with options.",
    ),
    "refine": parameter(
        "bool",
        "Move the vectors after they were chosen, to lower the objective further; they are then no rows. It goes as "
        "far as pays on held-out rows, whose loss is watched along the descent, and `refinement_` tells.",
        SWITCH,
        {Refinement: None},
    ),
    "warm_start": parameter("bool", "Go on from the basis of the last fit.", SWITCH),
    "max_error": parameter(
        "float",
        "Stop adding vectors when every row's representation error is below it.",
        NOT_NEGATIVE,
    ),
    "pivot": parameter(
        '{"max", "random"}',
        '"max" adds the row with the largest error; "random" draws a row with probability proportional to weight times '
        "error, which gives a smaller mean error because the maximum is drawn to outliers.",
        one_of("max", "random"),
    ),
    "first": parameter(
        '{"random", "norm"}', "First vector: random, or the one of largest norm.", one_of("random", "norm")
    ),
}
#: the number of vectors where nothing chooses it
GIVEN_SIZE = parameter("int", BASIS["n_basis"].doc, COUNT)

#: what is chosen by the error of rows not trained on
HELD_OUT = {
    "tune": parameter(
        "bool",
        "Whether C and the width of the kernel are chosen by held-out error; sets `C_` and `gamma_`.",
        SWITCH,
    ),
    "cv": parameter(
        "int, splitter or list of splits",
        "How rows are held out where something is chosen by held-out error: a number of folds, a splitter of "
        "scikit-learn, or the splits themselves; None is the method's own.",
        FOLDS,
    ),
    "validation_fraction": parameter(
        "float",
        "Share of the rows held out once, to decide by their error; 0 holds out none, None is the method's own.",
        or_none(SHARE),
    ),
}

#: how a fit runs; the result does not depend on it, but for when it stops and `random_state`
RUN = {
    "tol": parameter("float", "Relative gradient norm at which the solver stops.", POSITIVE),
    "max_iter": parameter("int", "Iterations for the weights at most; a fit that needs more warns.", COUNT),
    "max_time": parameter(
        "float", "Seconds after which search, growth and refinement end with the best found so far.", SECONDS
    ),
    "memory_budget": parameter(
        "int",
        "Bytes for stored kernel values and features (None: 1 GiB); what does not fit is computed by blocks.",
        BYTES,
    ),
    "n_jobs": parameter("int", "Threads over row blocks; None follows the BLAS limit in force."),
    "random_state": parameter(
        "int, RandomState or None", "Seed of whatever is drawn; the same seed gives the same model."
    ),
    "verbose": parameter("int", "1 shows the main steps of a fit on standard error, 2 all of them.", LEVEL),
}

TABLE = OBJECTIVE | BASIS | HELD_OUT | RUN
