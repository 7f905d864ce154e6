"""The one table of parameters: type, meaning, constraint and default of every name that estimators share.

A parameter is declared once, as a field of one of the small classes below; an estimator inherits those it has, and may
give a field another default or one more sentence. The constructor and the section "Parameters" of the docstring are
made from the fields by `estimator`, and `check_parameters` applies the constraints when a fit begins.
"""

from __future__ import annotations

import functools
import textwrap
from collections.abc import Callable
from dataclasses import MISSING, dataclass, field, fields
from numbers import Integral, Real
from typing import Any, TypeVar, dataclass_transform

import numpy as np
from sklearn.base import BaseEstimator

from kompakt.basis.refine import Refinement
from kompakt.train.data import LARGEST
from kompakt.validation import AutoSize

T = TypeVar("T")
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
    return Rule(f"None or {rule.text}", lambda value: value is None or rule.holds(value))


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
    "at least 2 folds, a splitter or a list of splits",
    lambda value: not isinstance(value, Integral) or is_count(value, 2),
)
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


def parameter(
    *,
    default: T,
    type: str = "",
    text: str = "",
    rule: Rule | None = None,
    options: Options | None = None,
    note: str = "",
    kw_only: bool = True,
) -> T:
    """A field that is a parameter: its type and meaning in words, its constraint, and a note of the estimator's own.

    Objects of the classes in `options` may be given instead.

    A class that inherits the field repeats it with what is different there: another default, a note.
    """
    known = {"type": type, "text": text, "rule": rule, "options": options, "note": note}
    metadata = {name: value for name, value in known.items() if value}
    return field(default=default, kw_only=kw_only, metadata=metadata)  # type: ignore[no-any-return]


@functools.cache
def parameters_of(cls: type) -> dict[str, Parameter]:
    """The parameters of an estimator by name, in the order of its constructor."""
    found = {}
    declared = [vars(base)["__dataclass_fields__"] for base in cls.__mro__ if "__dataclass_fields__" in vars(base)]
    for own in sorted(fields(cls), key=lambda one: one.kw_only is True):
        known: dict[str, Any] = {}
        for base in reversed(declared):
            if own.name in base:
                known |= base[own.name].metadata
        default = None if own.default is MISSING else own.default
        found[own.name] = Parameter(
            own.name,
            known.get("type", ""),
            known.get("text", ""),
            default,
            known.get("rule"),
            known.get("options", {}),
            known.get("note", ""),
        )
    return found


def _with_options(text: str, options: Options) -> str:
    names = [option.__name__ for option in options]
    return " or ".join([", ".join([text, *names[:-1]]), names[-1]]) if names else text


def _section(cls: type) -> str:
    """The section "Parameters" of the docstring."""
    lines = ["    Parameters", "    ----------"]
    for one in parameters_of(cls).values():
        default = f'"{one.default}"' if isinstance(one.default, str) else repr(one.default)
        lines.append(f"    {one.name} : {_with_options(one.type, one.options)}, default={default}")
        text = f"{one.text} {one.note}".strip()
        lines += textwrap.wrap(text, 119, initial_indent=8 * " ", subsequent_indent=8 * " ", break_on_hyphens=False)
    return "\n".join(lines) + "\n\n"


@dataclass_transform(kw_only_default=True, eq_default=False, field_specifiers=(parameter,))
def shared(cls: Class) -> Class:
    """Make a class of parameters that estimators inherit."""
    made: Class = dataclass(eq=False, repr=False, kw_only=True)(cls)  # type: ignore[assignment]
    return made


@dataclass_transform(kw_only_default=True, eq_default=False, field_specifiers=(parameter,))
def estimator(cls: Class) -> Class:
    """Make an estimator of a class with parameters: its constructor, which only stores, and its docstring."""
    cls = shared(cls)
    store = vars(cls)["__init__"]

    @functools.wraps(store)
    def __init__(self: Any, *args: Any, **values: Any) -> None:
        refuse_old_names(cls, values)
        store(self, *args, **values)

    cls.__init__ = __init__  # type: ignore[misc]
    head, mark, rest = (cls.__doc__ or "").partition("    Attributes\n    ----------\n")
    cls.__doc__ = head + _section(cls) + mark + rest
    return cls


#: parameters whose default differs between estimators, and why
OTHER_DEFAULTS = {
    "gamma": "`CompactSVC` and `CompactSVR` learn their widths while they refine",
    "loss": "every method has that of its paper",
    "max_iter": "`ProjectedSVC` hands it to LIBSVM and LIBLINEAR, which count smaller steps",
    "n_basis": "`LocalSamplingSVC` and `CGLQSVC` train an exact SVM unless a number is given",
    "refine": "the flagship refines",
    "selection": "every method has that of its paper",
    "tol": "`ProjectedSVC` hands it to LIBSVM and LIBLINEAR, whose violation is another measure",
}

#: names that parameters had, and where they are now
OLD_NAMES = {
    "C_exponents": "give tune=TwoGrids(C_exponents=...)",
    "C_grid": "give tune=GridSearch(C=...)",
    "cache": "give selection=GrowthSelector(cache=...)",
    "epsilon": "the error at which a projection stops is max_error",
    "gamma_grid": "give tune=GridSearch(gamma=...)",
    "growth_iter": "give selection=FEESelector(growth_iter=...)",
    "max_basis": "give n_basis=AutoSize(largest=...)",
    "max_iter": "the rounds of CGLQSVC are max_rounds",
    "n_candidates": "give selection=GramSelector(n_candidates=...), GrowthSelector(...) or FEESelector(...)",
    "n_iter_no_change": "give n_basis=AutoSize(n_iter_no_change=...)",
    "patience": "it is n_iter_no_change, for FEESVC and FEESVR in n_basis=AutoSize(n_iter_no_change=...)",
    "pool_size": "give selection=GrowthSelector(pool_size=...)",
    "refine_iter": "give refine=Refinement(max_iter=...)",
    "retraining": "give selection=GrowthSelector(retraining=...)",
    "score_rows": "give selection=GrowthSelector(score_rows=...)",
    "search": "give tune=Annealing(), GridSearch() or RandomSearch(); tune=True profiles the cost",
    "search_options": "give them to tune=Annealing(...), GridSearch(...) or RandomSearch(...)",
    "shrinking": "give selection=GrowthSelector(shrinking=...)",
    "sigma_exponents": "give tune=TwoGrids(sigma_exponents=...)",
    "size_rule": "give n_basis=AutoSize(rule=...)",
    "size_tol": "give n_basis=AutoSize(tol=...)",
    "sizes": "give n_basis=AutoSize(sizes=...)",
    "solver": "give selection=FEESelector(solver=...)",
    "tol": "the share by which an error must fall is min_improvement",
    "tune_rule": "give tune=TwoGrids(rule=...)",
}


def refuse_old_names(cls: type, values: dict[str, Any]) -> None:
    """Say what has become of a parameter that an estimator had under another name."""
    known = getattr(cls, "__dataclass_fields__", {})
    for name in values:
        if name in OLD_NAMES and name not in known:
            raise TypeError(f"{cls.__name__} has no parameter {name!r} any more: {OLD_NAMES[name]}.")


def check_parameters(machine: BaseEstimator) -> None:
    """Apply the constraints of the table to the parameters of an estimator."""
    known = parameters_of(type(machine))  # type: ignore[arg-type]
    for name, value in machine.get_params(deep=False).items():
        rule, options = (known[name].rule, known[name].options) if name in known else (None, {})
        if type(value) in options:
            _refuse_unused(machine, name, value, options[type(value)])
        elif rule is not None and not rule.holds(value):
            raise ValueError(f"{name} must be {_with_options(rule.text, options)}; got {value!r}.{rule.remedy}")


def _refuse_unused(machine: BaseEstimator, name: str, value: Any, used: tuple[str, ...] | None) -> None:
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

    def set_params(self, **params: Any) -> Any:
        """Set parameters by name, as in scikit-learn."""
        refuse_old_names(type(self), params)
        return super().set_params(**params)


@shared
class SizeParameters(Parameters):
    """How many basis vectors."""

    n_basis: Any = parameter(
        default=100,
        kw_only=False,
        type="int",
        text="Number of basis vectors, at most.",
        rule=COUNT,
    )


@shared
class KernelParameters(Parameters):
    """Which kernel."""

    kernel: Any = parameter(
        default="rbf",
        type='{"rbf", "laplacian", "poly", "linear", "precomputed"}, callable or Kernel',
        text="The kernel k, by name, as a function of two blocks of rows, or as an object of `kompakt.kernels`.",
    )
    gamma: Any = parameter(
        default="scale",
        type='{"scale", "auto", "learn", "ard"}, float or array of shape (n_features,)',
        text='Width of the kernel, one number or one per feature; "scale" is 1 / (n_features * variance of X), "auto" '
        '1 / n_features. Where vectors are refined, "learn" (one width) and "ard" (one per feature) move with them, '
        'from "scale" on; they need `refine`. None means "ard" where a Gaussian kernel is refined, else "scale".',
    )
    degree: int = parameter(default=3, type="int", text="Degree of the polynomial kernel.", rule=COUNT)
    coef0: float = parameter(default=0.0, type="float", text="Constant term of the polynomial kernel.")


@shared
class CostParameters(Parameters):
    """The cost of losses."""

    C: float = parameter(
        default=1.0,
        type="float",
        text="Cost of the losses: 1/2 beta' K beta + C sum_i s_i loss_i is minimised. `tune` searches for it.",
        rule=COST,
    )


@shared
class LossParameters(Parameters):
    """What is summed over the rows."""

    loss: Any = parameter(
        default="squared_hinge",
        type="str or Loss",
        text='Loss of a row: for classes "squared_hinge", "hinge", "least_squares" or "huber"; for numbers '
        '"least_squares", "huber", "epsilon_insensitive", "absolute" or "quantile"; or an object of `kompakt.losses`.',
    )
    epsilon: float | None = parameter(
        default=None,
        type="float",
        text="Width of the insensitive zone of a loss, or where the Huber loss becomes linear; None takes the loss's "
        "default.",
    )
    fit_intercept: bool = parameter(default=True, type="bool", text="Whether there is an intercept.", rule=SWITCH)
    penalize_intercept: bool = parameter(
        default=False,
        type="bool",
        text="Whether the intercept counts in the penalty; where it does, the result depends on where the targets lie.",
        rule=SWITCH,
    )


@shared
class SelectionParameters(Parameters):
    """How basis vectors are chosen."""

    selection: Any = parameter(
        default="gram",
        type="str, array of vectors or selector",
        text="How basis vectors are chosen, by name or by an object with options.",
    )


@shared
class RefineParameters(Parameters):
    """Whether basis vectors move."""

    refine: Any = parameter(
        default=False,
        type="bool",
        text="Move the vectors after they were chosen, to lower the objective further; they are then no rows. Held-out "
        "rows check that it pays, and `refinement_` tells.",
        rule=SWITCH,
        options={Refinement: None},
    )


@shared
class TuneParameters(Parameters):
    """What is searched for, and how errors are measured."""

    tune: Any = parameter(
        default=False,
        type="bool",
        text="Whether C and the width of the kernel are chosen by held-out error; sets `C_` and `gamma_`.",
        rule=SWITCH,
    )
    cv: Any = parameter(
        default=None,
        type="int, splitter or list of splits",
        text="How rows are held out where something is chosen by held-out error: a number of folds, a splitter of "
        "scikit-learn, or the splits themselves; None is the method's own.",
        rule=FOLDS,
    )


@shared
class StoppingParameters(Parameters):
    """When solvers stop."""

    tol: float = parameter(
        default=1e-8,
        type="float",
        text="Norm of the gradient, relative to its parts, at which the weights are found.",
        rule=POSITIVE,
    )
    max_iter: int = parameter(
        default=200, type="int", text="Iterations for the weights at most; a fit that needs more warns.", rule=COUNT
    )
    max_time: float | None = parameter(
        default=None,
        type="float",
        text="Seconds after which search, growth and refinement end with the best found so far.",
        rule=SECONDS,
    )


@shared
class WarmStartParameters(Parameters):
    """Where a fit begins."""

    warm_start: bool = parameter(default=False, type="bool", text="Go on from the basis of the last fit.", rule=SWITCH)


@shared
class ValidationParameters(Parameters):
    """Rows that are held out once."""

    validation_fraction: float | None = parameter(
        default=None,
        type="float",
        text="Share of the rows held out once, to decide by their error; 0 holds out none, None is the method's own.",
        rule=or_none(SHARE),
    )


@shared
class ClassWeightParameters(Parameters):
    """What a class weighs."""

    class_weight: Any = parameter(
        default=None,
        type='dict or "balanced"',
        text='Weights of the classes, by label; "balanced" gives all classes the same sum of weights.',
    )


@shared
class CodingParameters(Parameters):
    """How classes become outputs."""

    coding: Any = parameter(
        default="one_vs_rest",
        type='{"one_vs_rest", "one_vs_one", "minimum_output"}',
        text="How more than two classes become outputs on the shared basis.",
    )


@shared
class RunParameters(Parameters):
    """How a fit runs; the result does not depend on it, but for `random_state`."""

    n_jobs: int | None = parameter(
        default=None, type="int", text="Threads over row blocks; None follows the BLAS limit in force."
    )
    random_state: Any = parameter(
        default=None,
        type="int, RandomState or None",
        text="Seed of whatever is drawn; the same seed gives the same model.",
    )
    verbose: int = parameter(
        default=0, type="int", text="1 shows the main steps of a fit on standard error, 2 all of them."
    )


@shared
class MemoryParameters(Parameters):
    """How much memory a fit may take."""

    memory_budget: int | None = parameter(
        default=None,
        type="int",
        text="Bytes for stored kernel values and features (None: 1 GiB); what does not fit is computed by blocks.",
        rule=BYTES,
    )


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
    """What the machines with a primal objective share."""

    n_basis: Any = parameter(default=100, kw_only=False, type='int, "auto"', rule=SIZE)


@shared
class ProjectionParameters(Parameters):
    """How rows are chosen that others are projected on."""

    max_error: float = parameter(
        default=0.0,
        type="float",
        text="Stop adding vectors when every row's representation error is below it.",
        rule=Rule("a finite number >= 0", lambda value: is_number(value) and 0 <= float(value) < np.inf),
    )
    pivot: str = parameter(
        default="max",
        type='{"max", "random"}',
        text='"max" adds the row with the largest error; "random" draws a row with probability proportional to weight '
        "times error, which gives a smaller mean error because the maximum is drawn to outliers.",
        rule=one_of("max", "random"),
    )
    first: str = parameter(
        default="random",
        type='{"random", "norm"}',
        text="First vector: random, or the one of largest norm.",
        rule=one_of("random", "norm"),
    )
