"""Callbacks of scikit-learn and our own, and what Ctrl-C leaves behind."""

from __future__ import annotations

import os
import signal
import threading
import time
import warnings
from contextlib import nullcontext
from unittest.mock import patch

import numpy as np
import pytest
from sklearn.datasets import make_moons
from sklearn.exceptions import NotFittedError
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from kompakt import FEESVC, AutoSize, CompactSVC, GrowthSelector, SpSVC
from kompakt import run as interrupt
from kompakt.train import _callbacks
from kompakt.train import running as watch

X, y = make_moons(400, noise=0.2, random_state=0)


class Listens:
    """Follows the protocol of both versions."""

    def __init__(self, stop_after: int | None = None) -> None:
        self.events: list[tuple[str, str]] = []
        self.stop_after, self.fitted = stop_after, None

    def setup(self, estimator, context):
        self.events.append(("setup", context.task_name))

    def teardown(self, estimator, context):
        self.events.append(("teardown", context.task_name))

    def on_fit_task_begin(self, estimator, context):
        self.events.append(("begin", context.task_name))

    def on_fit_task_end(self, estimator, context, *, X=None, y=None, fitted_estimator=None):
        self.events.append(("end", context.task_name))
        if hasattr(fitted_estimator, "predict"):
            self.fitted = fitted_estimator.predict(X)
        return self.stop_after is not None and self.count("growth-step") >= self.stop_after

    def count(self, name: str) -> int:
        return sum(event == ("end", name) for event in self.events)


def balanced(events) -> bool:
    begins = [name for kind, name in events if kind == "begin"]
    ends = [name for kind, name in events if kind == "end"]
    return sorted(begins) == sorted(ends)


@pytest.fixture(params=["installed", "own"])
def spsvc(request, monkeypatch):
    """SpSVC with scikit-learn's callbacks, where they are installed, and with the stand-in for older versions."""
    if request.param == "installed":
        pytest.importorskip("sklearn.callback", reason="needs scikit-learn 1.9")
        return SpSVC
    monkeypatch.setattr(watch, "_tear_down", _callbacks.with_callbacks(lambda estimator: None))
    return type("SpSVC", (_callbacks.CallbackSupportMixin, SpSVC), {"__init__": SpSVC.__init__})


def test_callbacks_hear_the_tasks_of_a_fit(spsvc):
    heard = Listens()
    machine = spsvc(n_basis=6, random_state=0).set_callbacks(heard).fit(X, y)
    assert heard.events[0] == ("setup", "fit")
    assert heard.events[-1] == ("teardown", "fit")
    assert balanced(heard.events)
    assert heard.count("growth-step") == 6
    assert np.array_equal(heard.fitted, machine.predict(X))
    quiet = SpSVC(n_basis=6, random_state=0).fit(X, y)
    assert np.array_equal(quiet.dual_coef_, machine.dual_coef_)


def test_a_callback_can_stop_growth(spsvc):
    machine = spsvc(n_basis=20, random_state=0).set_callbacks(Listens(stop_after=5)).fit(X, y)
    assert machine.n_basis_ == 5
    assert machine.score(X, y) > 0.8


def test_callbacks_are_torn_down_after_an_error(spsvc):
    heard = Listens()
    with pytest.raises(ValueError, match="n_basis"):
        spsvc(n_basis=0).set_callbacks(heard).fit(X, y)
    assert heard.events[-1] == ("teardown", "fit")


def test_wrong_callbacks_are_refused(spsvc):
    with pytest.raises(TypeError, match="callbacks"):
        spsvc().set_callbacks(object())
    with pytest.raises(TypeError, match="callbacks"):
        spsvc().set_callbacks(Listens)


def test_a_pipeline_hands_its_callbacks_on():
    callback = pytest.importorskip("sklearn.callback", reason="needs scikit-learn 1.9")
    pytest.importorskip("rich")

    class Everywhere(Listens):
        max_propagation_depth = None

    heard = Everywhere()
    make_pipeline(StandardScaler(), CompactSVC(n_basis=5, random_state=0)).set_callbacks(heard).fit(X, y)
    assert heard.count("refinement-step") > 3
    assert balanced(heard.events)
    bar = callback.ProgressBar(max_propagation_depth=None)
    CompactSVC(n_basis=5, random_state=0).set_callbacks(bar).fit(X, y)  # accepts the real thing
    monitor = callback.ScoringMonitor(scoring="accuracy")
    machine = CompactSVC(n_basis=5, random_state=0).set_callbacks(monitor).fit(X, y)
    log = monitor.get_logs().data
    assert log[-1]["accuracy"] == pytest.approx(machine.score(X, y))


class Contexts:
    """A context of scikit-learn that writes down what is asked of it."""

    def __init__(self, task_name, log):
        self.task_name, self.log = task_name, log

    def subcontext(self, task_name, max_subtasks=0):
        self.log.append(("sub", task_name, max_subtasks))
        return Contexts(task_name, self.log)

    def call_on_fit_task_begin(self, **facts):
        self.log.append(("begin", self.task_name))

    def call_on_fit_task_end(self, **facts):
        self.log.append(("end", self.task_name))
        return self.task_name == "outer-step" and self.log.count(("end", "outer-step")) == 2


def test_an_outer_task_is_reported_step_by_step_and_tasks_inside_are_not():
    log = []
    listener = watch._CallbackListener(None, Contexts("fit", log), X, y)
    listener.begin("trifle", 5, None, True)  # minor: not reported, nor are its steps
    assert listener.advance(1.0) is False
    listener.end(False)
    assert log == []
    listener.begin("outer", 3, None, False)
    listener.begin("inner", 10, None, False)
    assert listener.advance(1.0) is False
    listener.end(False)
    assert [listener.advance(1.0) for _ in range(3)] == [False, True, False]  # the callback stops at the second step
    assert listener.advance(1.0) is False  # more steps than were announced
    listener.end(False)
    steps = [("sub", "outer-step", 0), ("begin", "outer-step"), ("end", "outer-step")]
    assert log == [("sub", "outer", 3), ("begin", "outer"), *(3 * steps), ("end", "outer")]
    del log[:]
    listener.begin("next", None, None, False)  # depths are those of the first task again
    listener.advance(1.0)
    listener.end(False)
    assert log[0] == ("sub", "next", None)
    assert [event for event in log if event[0] == "end"] == [("end", "next-step")] * 2 + [("end", "next")]
    del log[:]
    listener.begin("failing", 2, None, False)
    listener.end(True)
    assert not [event for event in log if event[0] == "end"]  # a task that failed has no end
    listener.begin("again", 2, None, False)
    assert log[-3:] == [("begin", "again"), ("sub", "again-step", 0), ("begin", "again-step")]


# -- Ctrl-C -----------------------------------------------------------------------------------------------


@pytest.fixture(autouse=True)
def _fresh_patience(monkeypatch):
    monkeypatch.setattr(interrupt, "_last_kept", -1e9)
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


class InterruptAt:
    """Sends SIGINT to this process when the n-th step of a task is done."""

    def __init__(self, name: str, step: int) -> None:
        self.name, self.step, self.seen = name, step, 0
        self.open: list[str] = []

    def begin(self, name, n_steps, work, minor):
        self.open.append(name)

    def advance(self, work):
        if self.open[-1] == self.name:
            self.seen += 1
            if self.seen == self.step:
                os.kill(os.getpid(), signal.SIGINT)
        return False

    def end(self, failed):
        self.open.pop()


def interrupting(name: str, step: int):
    """While it lasts, fits show their progress to who interrupts them."""
    return patch.object(watch, "showing", lambda title: nullcontext(InterruptAt(name, step)))


def fit_interrupted(machine, name: str, step: int):
    with interrupting(name, step), pytest.warns(watch.InterruptedWarning, match="interrupted"):
        machine.fit(X, y)
    return machine


@pytest.mark.parametrize(
    ("machine", "name", "step"),
    [
        (CompactSVC(n_basis=10, random_state=0), "refinement", 5),
        (CompactSVC(n_basis=10, loss="hinge", calibrate=True, random_state=0), "refinement", 3),
        (SpSVC(n_basis=30, random_state=0), "growth", 7),
        (FEESVC(n_basis=30, validation_fraction=0.2, random_state=0), "growth", 9),
        (FEESVC(n_basis=30, validation_fraction=0, random_state=0), "growth", 9),
    ],
    ids=["refinement", "hinge", "spsvc", "fee", "fee without validation"],
)
def test_the_machine_found_so_far_is_kept(machine, name, step):
    fit_interrupted(machine, name, step)
    assert machine.interrupted_
    assert not machine.converged_
    assert machine.n_basis_ == len(machine.basis_vectors_)
    assert machine.score(X, y) > 0.8
    machine.set_params(random_state=0).fit(X, y)  # and it can be fitted again
    assert not machine.interrupted_


def test_an_interrupted_spsvc_is_the_machine_of_its_last_step():
    selection = GrowthSelector(retraining="always")
    given = {"C": 1.0, "gamma": "scale", "selection": selection, "random_state": 0}  # None depends on the size
    machine = fit_interrupted(SpSVC(n_basis=30, **given), "growth", 7)
    smaller = SpSVC(n_basis=machine.n_basis_, **given).fit(X, y)
    assert machine.n_basis_ in (7, 8)
    assert np.array_equal(machine.basis_indices_, smaller.basis_indices_)
    assert np.allclose(machine.decision_function(X), smaller.decision_function(X), atol=1e-3)


def test_without_a_machine_the_estimator_is_as_it_was():
    machine = CompactSVC(n_basis=5, random_state=0, tune=True)
    with interrupting("search", 2), pytest.raises(KeyboardInterrupt):
        machine.fit(X, y)
    with pytest.raises(NotFittedError):
        machine.predict(X)
    assert not [name for name in vars(machine) if name.endswith("_")]
    machine.set_params(tune=False).fit(X, y)
    before = machine.set_params(tune=True).decision_function(X)
    with interrupting("search", 2), pytest.raises(KeyboardInterrupt):
        machine.fit(X[:, ::-1], y)
    assert np.array_equal(machine.decision_function(X), before)


def test_inside_another_fit_the_interrupt_passes():
    # a growth that only selects the vectors of another machine has no weights worth keeping
    with interrupting("growth", 3), pytest.raises(KeyboardInterrupt):
        CompactSVC(n_basis=30, selection="sp2", random_state=0).fit(X, y)
    # nor does a fit keep what another one called for
    with interrupting("growth", 3), pytest.raises(KeyboardInterrupt), watch.running(CompactSVC(), X, y):
        SpSVC(n_basis=30, random_state=0).fit(X, y)
    fit_interrupted(SpSVC(n_basis=30, random_state=0), "growth", 7)  # the count is back where it was


def test_a_parallel_search_returns_quickly():
    selection = GrowthSelector(cache=False)
    machine = SpSVC(n_basis=AutoSize(largest=60), selection=selection, tune=True, n_jobs=2, random_state=0)
    rng = np.random.default_rng(0)
    many = rng.normal(size=(3000, 8))
    labels = many[:, 0] * many[:, 1] > 0
    timer = threading.Timer(1.0, lambda: os.kill(os.getpid(), signal.SIGINT))
    timer.start()
    began = time.monotonic()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with pytest.raises(KeyboardInterrupt):
            machine.fit(many, labels)
    assert time.monotonic() - began < 4.0  # one second until the signal, and little after it


def test_an_interrupt_while_it_is_seen_what_to_learn_ends_the_fit():
    rng = np.random.default_rng(0)
    rows = rng.standard_normal((5000, 4))  # many for every entry of a map: two beginnings are compared
    labels = rows[:, 0] * rows[:, 1] > 0
    machine = CompactSVC(10, random_state=0)
    with interrupting("refinement", 3), pytest.warns(watch.InterruptedWarning, match="interrupted"):
        machine.fit(rows, labels)
    assert machine.interrupted_
    assert machine.refinement_["n_iter"] < 10
    assert machine.score(rows, labels) > 0.8
