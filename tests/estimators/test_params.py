"""The table of parameters: what every estimator's constructor, docstring and errors are made from."""

import dataclasses
import importlib.util
import inspect
import pickle
import re
import sys
from pathlib import Path

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.datasets import make_moons
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.svm import SVC

import kompakt
from kompakt import AutoSize, GramSelector, GrowthSelector, Refinement, estimators
from kompakt.estimators.params import BASIS, HELD_OUT, OBJECTIVE, OTHER_DEFAULTS, RUN, TABLE, described, parameter

ROOT = Path(__file__).resolve().parents[2]
CLASSES = [getattr(kompakt, name) for name in estimators.__all__]
X, Y = make_moons(160, noise=0.2, random_state=0)
#: parameters whose values differ between methods, and what their texts name
ACCEPTED_BY_METHOD = ("gamma", "kernel", "loss", "selection", "tune")


def parameters_of(cls):
    return cls._parameters


every_class = pytest.mark.parametrize("cls", CLASSES, ids=lambda cls: cls.__name__)


@every_class
def test_the_constructor_has_the_parameters_of_the_table_and_only_stores(cls):
    names = list(inspect.signature(cls).parameters)
    assert names == list(parameters_of(cls))
    assert "__init__" in vars(cls)  # in its own file, where a reader looks for it
    assert len(cls.__mro__) <= 12
    assert len(names) <= 26
    machine = cls()
    assert set(vars(machine)) == set(names) == set(machine.get_params(deep=False))
    for name, one in parameters_of(cls).items():
        assert getattr(machine, name) is one.default
    values = {name: object() for name in names}
    given = cls(**values)
    assert all(getattr(given, name) is value for name, value in values.items())
    keyword_only = [one.name for one in inspect.signature(cls).parameters.values() if one.kind is one.KEYWORD_ONLY]
    assert set(names) - set(keyword_only) <= {"n_basis"}


@every_class
def test_the_docstring_comes_from_the_table(cls):
    text = " ".join(inspect.getdoc(cls).split())
    head = re.search(r"Parameters -{10} (.*?) Attributes -{10} ", text)
    assert head is not None
    assert inspect.getdoc(cls).count("Parameters\n----------\n") == 1
    for name, one in parameters_of(cls).items():
        assert one.type, f"{name} has no type"
        assert one.doc, f"{name} has no meaning"
        assert f" {name} : {one.accepts}, default=" in f" {head[1]}"
        assert " ".join(f"{one.doc} {one.note}".split()) in head[1]


def test_a_name_means_the_same_everywhere():
    known: dict[str, list] = {}
    for cls in CLASSES:
        for name, one in parameters_of(cls).items():
            known.setdefault(name, []).append(one)
    for name, found in known.items():
        if name not in ACCEPTED_BY_METHOD:
            assert len({one.doc for one in found}) == 1, name
            assert name == "n_basis" or len({one.type for one in found}) == 1, name
        same = len({repr(one.default) for one in found}) == 1
        assert same != (name in OTHER_DEFAULTS), f"{name}: {[one.default for one in found]}"


def test_the_table_has_four_groups_and_every_name_once():
    groups = (OBJECTIVE, BASIS, HELD_OUT, RUN)
    assert sum(len(group) for group in groups) == len(TABLE)
    used = {name for cls in CLASSES for name in parameters_of(cls)}
    assert TABLE.keys() <= used


def test_an_estimator_cannot_have_a_parameter_without_a_description_nor_describe_one_that_it_has_not():
    class Machine:
        def __init__(self, nonsense=1):
            self.nonsense = nonsense

    with pytest.raises(KeyError, match="nonsense"):
        described()(Machine)
    with pytest.raises(TypeError, match="Machine has no parameter sense"):
        described(sense=parameter("int", "Nothing."), nonsense=parameter("int", "Nothing."))(Machine)


def test_options_document_their_fields():
    options = {option for cls in CLASSES for one in parameters_of(cls).values() for option in one.options}
    assert options >= {AutoSize, GrowthSelector, Refinement}
    for option in [*options, GramSelector]:
        text = inspect.getdoc(option).partition("Parameters\n----------\n")[2]
        assert option.__name__ in kompakt.__all__
        for field in dataclasses.fields(option):
            documented = re.search(rf"^(\w+, )*{field.name}(, \w+)* : ", text, flags=re.MULTILINE)
            assert documented or (option, field.name) == (GramSelector, "cache"), f"{option.__name__}.{field.name}"


def test_the_page_of_parameters_is_what_the_table_says():
    source = ROOT / "docs" / "parameters.py"
    spec = importlib.util.spec_from_file_location("parameters_page", source)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    assert source.with_suffix(".md").read_text() == module.page(), "run python docs/parameters.py"


@every_class
def test_an_unknown_parameter_is_refused(cls):
    with pytest.raises(TypeError, match="unexpected keyword argument 'nonsense'"):
        cls(nonsense=1)
    with pytest.raises(ValueError, match="Invalid parameter 'nonsense'"):
        cls().set_params(nonsense=1)


def test_machines_with_options_are_cloned_pickled_and_printed():
    machine = kompakt.SpSVC(AutoSize(largest=5), selection=GrowthSelector("sp1"), refine=Refinement(3), random_state=0)
    assert "AutoSize(largest=5" in repr(machine)
    copy = clone(machine)
    assert copy.get_params() == machine.get_params()
    fitted = copy.fit(X, Y)
    again = pickle.loads(pickle.dumps(fitted))
    np.testing.assert_array_equal(again.decision_function(X), fitted.decision_function(X))
    assert machine.set_params(selection="sp2").selection == "sp2"


def test_names_are_objects_with_their_defaults():
    for plain, object_ in (
        (kompakt.SpSVC(6, selection="sp1"), kompakt.SpSVC(6, selection=GrowthSelector("sp1"))),
        (kompakt.CompactSVC(6, refine=True), kompakt.CompactSVC(6, refine=Refinement())),
        (kompakt.CompactSVC(6, selection="gram"), kompakt.CompactSVC(6, selection=GramSelector())),
        (kompakt.FEESVC(9, selection="sgma"), kompakt.FEESVC(9, selection=kompakt.FEESelector("sgma"))),
        (kompakt.FEESVC("auto"), kompakt.FEESVC(AutoSize(100, n_iter_no_change=20))),
        (kompakt.FixedSizeLSSVC("auto"), kompakt.FixedSizeLSSVC(AutoSize(rule="best"))),
    ):
        first, second = (machine.set_params(random_state=0).fit(X, Y) for machine in (plain, object_))
        np.testing.assert_array_equal(first.decision_function(X), second.decision_function(X))


#: fits that together must look at every parameter of an estimator
FITS = {
    "FEESVC": [{"n_basis": 5}, {"n_basis": 5, "refine": Refinement(2)}],
    "FEESVR": [{"n_basis": 5}],
    "FixedSizeLSSVC": [{"n_basis": 5, "coding": "one_vs_one"}, {"n_basis": "auto", "tune": True, "cv": 2}],
    "FixedSizeLSSVR": [{"n_basis": 5}, {"n_basis": "auto", "tune": True, "cv": 2}],
    "LocalSamplingSVC": [{"variant": "paper"}, {"estimator": SVC()}, {"n_basis": 5}],
    "CGLQSVC": [{"delta": 0.3}, {"estimator": SVC()}, {"n_basis": 5}],
    "KernelFisher": [{}, {"tune": True, "cv": 2}],
    "ProjectedKernelFisher": [{"n_basis": 5}, {"n_basis": 5, "tune": True, "cv": 2}],
    "SpSVC": [{"n_basis": 5}, {"n_basis": "auto", "cv": 2}],
    "CompactSVC": [{"n_basis": 5}, {"n_basis": "auto", "cv": 2, "refine": False}],
    "CompactSVR": [{"n_basis": 5}, {"n_basis": "auto", "cv": 2, "refine": False}],
    "ProjectedSVC": [{"n_basis": 5}, {"n_basis": 5, "solver": "libsvm"}],
}


@every_class
def test_no_parameter_is_ignored(cls):
    names, read = set(parameters_of(cls)), set()

    def look(self, name):
        # what reads all parameters, to check or to copy them, makes no use of them
        if name in names and sys._getframe(1).f_code.co_name not in ("get_params", "check_parameters"):
            read.add(name)
        return super(cls, self).__getattribute__(name)

    watched = type(cls.__name__, (cls,), {"__getattribute__": look})
    for values in FITS.get(cls.__name__, [{"n_basis": 5}]):
        watched(**values).fit(X, Y)
    assert names - read == set()


def test_an_estimator_of_ones_own_may_write_its_constructor():
    class Own(kompakt.CompactSVC):
        def __init__(self, n_basis=5, extra=1):
            super().__init__(n_basis, refine=False)
            self.extra = extra

    assert Own().get_params() == {"n_basis": 5, "extra": 1}
    assert clone(Own(7)).fit(X, Y).n_basis_ == 7
    with pytest.raises(ValueError, match="n_basis must be a whole number"):
        Own(0).fit(X, Y)


def test_the_width_auto_is_one_over_the_number_of_features():
    machine = kompakt.CompactSVC(4, gamma="auto", refine=False, random_state=0).fit(np.c_[X, X], Y)
    assert machine.model_.kernel.gamma == 0.5 / X.shape[1]


def named_values(cls, name):
    """The values that the docstring of an estimator names for a parameter: all words in quotation marks."""
    entry = re.search(rf"^{name} : (.*?)(?=^\w|\Z)", inspect.getdoc(cls), flags=re.MULTILINE | re.DOTALL)
    return [] if entry is None else list(dict.fromkeys(re.findall(r'"(\w+)"', entry[1])))


@every_class
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", [name for name in ACCEPTED_BY_METHOD if name != "tune"])
def test_every_value_that_a_docstring_names_is_accepted(cls, name):
    if name not in parameters_of(cls):
        assert f"\n{name} : " not in inspect.getdoc(cls)
        return
    values = named_values(cls, name)
    assert len(values) >= 2
    for value in values:
        machine = cls(random_state=0).set_params(**{name: value})
        if "n_basis" in parameters_of(cls) and machine.n_basis is not None:
            machine.set_params(n_basis=5)
        if "refine" in parameters_of(cls):
            machine.set_params(refine=Refinement(2) if value in ("learn", "ard", "full", "loo") else False)
        machine.fit(rbf_kernel(X) if value == "precomputed" else X, Y)


@every_class
def test_widths_that_cannot_be_learned_are_neither_named_nor_taken_for_others(cls):
    for value in {"learn", "ard", "full", "loo"} - set(named_values(cls, "gamma")):
        with pytest.raises(ValueError, match=rf"gamma must be .*; got '{value}'"):
            cls(gamma=value).fit(X, Y)


@every_class
@pytest.mark.filterwarnings("ignore")
def test_tuned_values_are_set_as_the_docstring_says(cls):
    if "tune" not in parameters_of(cls):
        return
    sets = re.findall(r"`(\w+_)`", re.search(r"^tune : (.*?)(?=^\w|\Z)", inspect.getdoc(cls), re.M | re.S)[1])
    assert "gamma_" in sets
    machine = cls(tune=True, random_state=0)
    if "refine" in parameters_of(cls):
        machine.set_params(refine=False)
    if "n_basis" in parameters_of(cls):
        machine.set_params(n_basis=5)
    machine.fit(X[:60], Y[:60])
    assert [name for name in sets if not hasattr(machine, name)] == []


def test_a_compact_machine_in_place_of_an_svm_takes_a_function_as_kernel():
    assert kompakt.LocalSamplingSVC(kernel=rbf_kernel, n_basis=10, random_state=0).fit(X, Y).score(X, Y) > 0.9


@every_class
def test_no_parameter_takes_nonsense(cls):
    """Also where it would not be looked at, as epsilon by a loss that has none."""
    for name in parameters_of(cls):
        sizes = {} if name == "n_basis" or "n_basis" not in parameters_of(cls) else {"n_basis": 4}
        for value in ("nonsense", object()):
            with pytest.raises((ValueError, TypeError)):
                cls(**{name: value}, **sizes).fit(X, Y)
