"""The one table of parameters: type, meaning, constraint and default of every name that estimators share.

A parameter is declared once: a field of one of the small classes below, whose docstring has its type and meaning. An
estimator inherits those it has, and may give a field another default; what its docstring says of a parameter without
naming a type is a note that follows the meaning. The constructor and the section "Parameters" of the docstring are made
from all that by `estimator`, and `check_parameters` applies the constraints when a fit begins.
"""

from __future__ import annotations

import inspect
import textwrap
from collections.abc import Callable, Iterable
from dataclasses import MISSING, dataclass, field, fields
from numbers import Integral, Real
from typing import Any, ClassVar, TypeVar, dataclass_transform

import numpy as np
from sklearn.base import BaseEstimator

from kompakt.basis.refine import Refinement
from kompakt.heldout import AutoSize
from kompakt.train.task import LARGEST

T = TypeVar("T")
Class = TypeVar("Class", bound="type[Parameters]")


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
OPEN_SHARE = Rule("a number between 0 and 1, both excluded", lambda value: is_number(value) and 0 < float(value) < 1)


def auto_or(rule: Rule) -> Rule:
    """The word "auto", or what the rule says."""
    return Rule(
        f"'auto' or {rule.text}", lambda value: value == "auto" if isinstance(value, str) else rule.holds(value)
    )


LEVEL = Rule("a whole number of at least 0, or True or False", lambda value: SWITCH.holds(value) or is_count(value, 0))
BYTES = or_none(Rule("a whole number of bytes", lambda value: is_count(value, 0)))


# -- declaring parameters ------------------------------------------------------------------------------------

#: classes of options that a parameter may be an object of, with the fields that the estimator uses (None: all)
Options = dict[type, tuple[str, ...] | None]


@dataclass(frozen=True)
class Parameter:
    """What the table knows of a parameter."""

    name: str
    type: str
    text: str
    default: Any
    rule: Rule | None
    options: Options
    note: str  # a sentence of the estimator's own

    @property
    def accepts(self) -> str:
        """The type in words, with the classes of options."""
        return _with_options(self.type, self.options)


def parameter(*, default: T, rule: Rule | None = None, options: Options | None = None, kw_only: bool = True) -> T:
    """A field that is a parameter with a constraint; objects of the classes in `options` may be given instead."""
    metadata = {name: value for name, value in {"rule": rule, "options": options}.items() if value}
    return field(default=default, kw_only=kw_only, metadata=metadata)


def _described(doc: str | None) -> dict[str, tuple[str, str]]:
    """Type and meaning of the parameters that a docstring describes, by name."""
    found: dict[str, tuple[str, str]] = {}
    name = ""
    for line in inspect.cleandoc(doc or "").partition("Parameters\n----------\n")[2].splitlines():
        if not line:
            break
        if line.startswith(" "):
            found[name] = found[name][0], f"{found[name][1]} {line.strip()}".strip()
        else:
            name, _, kind = line.partition(" : ")
            found[name] = kind, ""
    return found


def parameters_of(cls: type) -> dict[str, Parameter]:
    """The parameters of an estimator by name, in the order of its constructor."""
    found = {}
    for own in sorted(fields(cls), key=lambda one: one.kw_only is True):
        known: dict[str, Any] = {}
        kind = text = note = ""
        for base in reversed(cls.__mro__):
            declared = vars(base).get("__dataclass_fields__", {})
            known |= declared[own.name].metadata if own.name in declared else {}
            here, words = vars(base).get("_described", {}).get(own.name, ("", ""))
            if here:  # declared there
                kind, text = here, words or text
            else:
                note = words or note
        default = None if own.default is MISSING else own.default
        found[own.name] = Parameter(own.name, kind, text, default, known.get("rule"), known.get("options", {}), note)
    return found


def _with_options(text: str, options: Options) -> str:
    """The text with the classes of options at the end of its choices."""
    names = [option.__name__ for option in options]
    return " or ".join([", ".join([text.replace(" or ", ", "), *names[:-1]]), names[-1]]) if names else text


def _section(cls: type) -> str:
    """The section "Parameters" of the docstring."""
    lines = ["    Parameters", "    ----------"]
    for one in parameters_of(cls).values():
        default = f'"{one.default}"' if isinstance(one.default, str) else repr(one.default)
        lines.append(f"    {one.name} : {one.accepts}, default={default}")
        text = f"{one.text} {one.note}".strip()
        lines += textwrap.wrap(text, 119, initial_indent=8 * " ", subsequent_indent=8 * " ", break_on_hyphens=False)
    return "\n".join(lines) + "\n\n"


@dataclass_transform(kw_only_default=True, eq_default=False, field_specifiers=(parameter,))
def shared(cls: Class) -> Class:
    """Make a class of parameters that estimators inherit."""
    made: Class = dataclass(eq=False, repr=False, kw_only=True)(cls)  # type: ignore[assignment]
    made._described = _described(vars(made)["__doc__"])
    return made


@dataclass_transform(kw_only_default=True, eq_default=False, field_specifiers=(parameter,))
def estimator(cls: Class) -> Class:
    """Make an estimator of a class with parameters: its constructor, which only stores, and its docstring."""
    cls = shared(cls)
    cls._parameters = parameters_of(cls)
    head, mark, rest = (cls.__doc__ or "").partition("    Attributes\n    ----------\n")
    head = head.partition("    Parameters\n    ----------\n")[0].rstrip()
    cls.__doc__ = f"{head}\n\n{_section(cls)}{mark}{rest}"
    return cls


#: parameters whose default differs between estimators, and why
OTHER_DEFAULTS = {
    "C": "`CompactSVC` has the least C with which refinement pays on most sets",
    "gamma": "`GreedyProjection` does not look at targets",
    "loss": "every method has that of its paper",
    "max_iter": "`ProjectedSVC` hands it to LIBSVM and LIBLINEAR, which count smaller steps",
    "n_basis": "`LocalSamplingSVC` and `CGLQSVC` train an exact SVM unless a number is given; projections are chosen "
    "without regard to what their coordinates are for, and want more vectors",
    "refine": "the flagship refines",
    "selection": "every method has that of its paper, but the fixed-size machines have what wins on most sets",
    "tol": "`ProjectedSVC` hands it to LIBSVM and LIBLINEAR, whose violation is another measure",
}


def check_parameters(machine: Parameters) -> None:
    """Apply the constraints of the table to the parameters of an estimator, unless its constructor is its own."""
    for name, one in getattr(machine, "_parameters", {}).items():
        value, rule, options = getattr(machine, name), one.rule, one.options
        if type(value) in options:
            _refuse_unused(machine, name, value, options[type(value)])
        elif rule is not None and not rule.holds(value):
            raise ValueError(f"{name} must be {_with_options(rule.text, options)}; got {value!r}.{rule.remedy}")


def _refuse_unused(machine: Parameters, name: str, value: Any, used: tuple[str, ...] | None) -> None:
    """Refuse options that an estimator does not look at."""
    for one in fields(value):
        given = getattr(value, one.name)
        if used is not None and one.name not in used and given is not one.default and given != one.default:
            raise ValueError(
                f"{type(machine).__name__} does not use {one.name}={given!r} of {name}={type(value).__name__}; it uses "
                f"{', '.join(used)}."
            )


def auto_size(n_basis: Any) -> AutoSize | None:
    """How the size is chosen; None where it is given."""
    if isinstance(n_basis, AutoSize):
        return n_basis
    return AutoSize() if isinstance(n_basis, str) else None


# -- the table -----------------------------------------------------------------------------------------------
# A class that inherits several of these has the parameters of the last one first.


class Parameters(BaseEstimator):
    """Base of the classes of parameters."""

    _parameters: ClassVar[dict[str, Parameter]]  # by name, set by `estimator`
    _described: ClassVar[dict[str, tuple[str, str]]]  # what the class's own docstring says of parameters


@shared
class SizeParameters(Parameters):
    """How many basis vectors.

    Parameters
    ----------
    n_basis : int
        Number of basis vectors, at most.
    """

    n_basis: Any = parameter(default=100, rule=COUNT, kw_only=False)


@shared
class KernelParameters(Parameters):
    """Which kernel.

    Parameters
    ----------
    kernel : {"rbf", "laplacian", "poly", "linear", "precomputed"}, callable or Kernel
        The kernel k, by name, as a function of two blocks of rows, or as an object of `kompakt.kernels`.
    gamma : {"scale", "auto"}, float or array of shape (n_features,)
        Width of the kernel, one number or one per feature; "scale" is 1 / (n_features * variance of X), "auto" 1 /
        n_features. None takes the width of a Gaussian or Laplacian kernel from the data, by the leave-one-out error of
        kernel ridge regression on a sample.
    degree : int
        Degree of the polynomial kernel.
    coef0 : float
        Constant term of the polynomial kernel.
    """

    kernel: Any = "rbf"
    gamma: Any = None
    degree: int = parameter(default=3, rule=COUNT)
    coef0: float = parameter(default=0.0, rule=FINITE)


@shared
class CostParameters(Parameters):
    """The cost of losses.

    Parameters
    ----------
    C : float
        Cost of the losses: 1/2 beta' K beta + C sum_i s_i loss_i is minimised. None takes it from the data, by the
        leave-one-out error of kernel ridge regression on a sample of at most some thousand rows. `tune` searches for
        it.
    """

    C: Any = parameter(default=None, rule=or_none(COST))


@shared
class LossParameters(Parameters):
    """What is summed over the rows.

    Parameters
    ----------
    loss : str or Loss
        Loss of a row, by name or as an object of `kompakt.losses`.
    epsilon : float
        Width of the insensitive zone of a loss, or where the Huber loss becomes linear.  None is 0.1 and 1.35; in
        regression with C=None these are 0.6 and 1.35 standard deviations of the noise, by the data.
    fit_intercept : bool
        Whether there is an intercept.
    penalize_intercept : bool
        Whether the intercept counts in the penalty; where it does, the result depends on where the targets lie.
    """

    loss: Any = "squared_hinge"
    epsilon: float | None = parameter(
        default=None, rule=or_none(Rule("a finite number >= 0", lambda value: FINITE.holds(value) and value >= 0))
    )
    fit_intercept: bool = parameter(default=True, rule=SWITCH)
    penalize_intercept: bool = parameter(default=False, rule=SWITCH)


@shared
class SelectionParameters(Parameters):
    """How basis vectors are chosen.

    Parameters
    ----------
    selection : {"gram", "random", "renyi", "projection", "all", "sp1", "sp2", "hybrid", "cholesky", "gsvc", "bh", \
"mark", "kmp"}, array of vectors or selector
        How basis vectors are chosen, by name or by an object with options.
    """

    selection: Any = "gram"


@shared
class RefineParameters(Parameters):
    """Whether basis vectors move.

    Parameters
    ----------
    refine : bool
        Move the vectors after they were chosen, to lower the objective further; they are then no rows. It goes as far
        as pays on held-out rows, whose loss is watched along the descent, and `refinement_` tells.
    gamma : {"scale", "auto", "learn", "ard", "full"}, float or array of shape (n_features,)
        Width of the kernel, one number or one per feature; "scale" is 1 / (n_features * variance of X), "auto" 1 /
        n_features. With refine=True, "learn" (one width), "ard" (one per feature) and "full" (a linear map A of the
        inputs, with the kernel exp(-|A (x - c)|^2)) move with the vectors, from "scale" on. None takes the width of a
        Gaussian or Laplacian kernel from the data, by the leave-one-out error of kernel ridge regression on a sample;
        and where a Gaussian kernel is refined, learns a map if there are 20 rows or more for each of its entries, with
        fewer rows one width per feature and then, with at most 200 features, a map if held-out rows say that it pays.
    """

    refine: Any = parameter(default=False, rule=SWITCH, options={Refinement: None})


@shared
class TuneParameters(Parameters):
    """What is searched for, and how errors are measured.

    Parameters
    ----------
    tune : bool
        Whether C and the width of the kernel are chosen by held-out error; sets `C_` and `gamma_`.
    cv : int, splitter or list of splits
        How rows are held out where something is chosen by held-out error: a number of folds, a splitter of
        scikit-learn, or the splits themselves; None is the method's own.
    """

    tune: Any = parameter(default=False, rule=SWITCH)
    cv: Any = parameter(default=None, rule=FOLDS)


@shared
class StoppingParameters(Parameters):
    """When solvers stop.

    Parameters
    ----------
    tol : float
        Norm of the gradient, relative to its parts, at which the weights are found.
    max_iter : int
        Iterations for the weights at most; a fit that needs more warns.
    max_time : float
        Seconds after which search, growth and refinement end with the best found so far.
    """

    tol: float = parameter(default=1e-8, rule=POSITIVE)
    max_iter: int = parameter(default=200, rule=COUNT)
    max_time: float | None = parameter(default=None, rule=SECONDS)


@shared
class WarmStartParameters(Parameters):
    """Where a fit begins.

    Parameters
    ----------
    warm_start : bool
        Go on from the basis of the last fit.
    """

    warm_start: bool = parameter(default=False, rule=SWITCH)


@shared
class ValidationParameters(Parameters):
    """Rows that are held out once.

    Parameters
    ----------
    validation_fraction : float
        Share of the rows held out once, to decide by their error; 0 holds out none, None is the method's own.
    """

    validation_fraction: float | None = parameter(default=None, rule=or_none(SHARE))


@shared
class ClassWeightParameters(Parameters):
    """What a class weighs.

    Parameters
    ----------
    class_weight : dict or "balanced"
        Weights of the classes, by label; "balanced" gives all classes the same sum of weights.
    """

    class_weight: Any = None


@shared
class CodingParameters(Parameters):
    """How classes become outputs.

    Parameters
    ----------
    coding : {"one_vs_rest", "one_vs_one", "minimum_output"}
        How more than two classes become outputs on the shared basis.
    """

    coding: Any = "one_vs_rest"


@shared
class RunParameters(Parameters):
    """How a fit runs; the result does not depend on it, but for `random_state`.

    Parameters
    ----------
    n_jobs : int
        Threads over row blocks; None follows the BLAS limit in force.
    random_state : int, RandomState or None
        Seed of whatever is drawn; the same seed gives the same model.
    verbose : int
        1 shows the main steps of a fit on standard error, 2 all of them.
    """

    n_jobs: int | None = None
    random_state: Any = None
    verbose: int = parameter(default=0, rule=LEVEL)


@shared
class MemoryParameters(Parameters):
    """How much memory a fit may take.

    Parameters
    ----------
    memory_budget : int
        Bytes for stored kernel values and features (None: 1 GiB); what does not fit is computed by blocks.
    """

    memory_budget: int | None = parameter(default=None, rule=BYTES)


@shared
class MachineParameters(
    RunParameters,
    MemoryParameters,
    StoppingParameters,
    TuneParameters,
    RefineParameters,
    SelectionParameters,
    LossParameters,
    CostParameters,
    KernelParameters,
    SizeParameters,
):
    """What the machines with a primal objective share.

    Parameters
    ----------
    n_basis : int, "auto"
    """

    n_basis: Any = parameter(default=100, rule=SIZE, kw_only=False)


@shared
class ProjectionParameters(Parameters):
    """How rows are chosen that others are projected on.

    Parameters
    ----------
    max_error : float
        Stop adding vectors when every row's representation error is below it.
    pivot : {"max", "random"}
        "max" adds the row with the largest error; "random" draws a row with probability proportional to weight times
        error, which gives a smaller mean error because the maximum is drawn to outliers.
    first : {"random", "norm"}
        First vector: random, or the one of largest norm.
    """

    max_error: float = parameter(
        default=0.0, rule=Rule("a finite number >= 0", lambda value: is_number(value) and 0 <= float(value) < np.inf)
    )
    pivot: str = parameter(default="max", rule=one_of("max", "random"))
    first: str = parameter(default="random", rule=one_of("random", "norm"))
