"""After a fit that fails, an estimator is as it was: fitted by the fit before, or not at all."""

import numpy as np
import pandas as pd
import pytest
from sklearn.base import is_regressor
from sklearn.datasets import make_moons
from sklearn.exceptions import NotFittedError

import kompakt
from kompakt import estimators, open_rows

X, Y = make_moons(150, noise=0.2, random_state=0)
NUMBERS = pd.DataFrame(X, columns=["a", "b"])
#: with words, so that the estimator makes a schema
WORDS = NUMBERS.assign(town=np.where(Y, "Rome", "Oslo"))
BAD_ROWS = np.full((len(Y), 5), np.inf)
every_class = pytest.mark.parametrize("name", estimators.__all__)
PARTIAL = [name for name in estimators.__all__ if hasattr(getattr(kompakt, name), "partial_fit")]


class Broken(RuntimeError):
    pass


def broken(*_):
    raise Broken


def made(name, **given):
    cls = getattr(kompakt, name)
    values = {"n_basis": 8, "random_state": 0, "refine": False} | given
    return cls(**{key: value for key, value in values.items() if key in cls().get_params()})


def outputs(machine, X):
    if hasattr(machine, "transform"):
        return machine.transform(X)
    return machine.predict(X) if is_regressor(machine) else machine.decision_function(X)


def require_unchanged(machine, fit, error, rows):
    """Call `fit`, which must raise `error`; all attributes are the same objects, and `rows` get the same outputs."""
    before, answers = dict(vars(machine)), outputs(machine, rows)
    with pytest.raises(error):
        fit()
    assert vars(machine).keys() == before.keys()
    assert [key for key in before if vars(machine)[key] is not before[key]] == []
    assert np.array_equal(outputs(machine, rows), answers)


def bad_targets(name):
    """Targets that are refused only after the rows were looked at; projections look at rows alone."""
    return np.full(len(Y), 1e300) if name.endswith("SVR") else np.zeros(len(Y))


@every_class
@pytest.mark.parametrize("rows", [NUMBERS, WORDS], ids=["numbers", "words"])
def test_a_failed_refit_changes_nothing(name, rows):
    machine = made(name).fit(rows, Y)
    turned = rows[rows.columns[::-1]]
    if name != "GreedyProjection":
        require_unchanged(machine, lambda: machine.fit(turned, bad_targets(name)), ValueError, rows)
    require_unchanged(machine, lambda: machine.fit(turned, Y, np.zeros(len(Y))), ValueError, rows)
    require_unchanged(machine, lambda: machine.fit(BAD_ROWS, Y, -np.ones(len(Y))), ValueError, rows)
    require_unchanged(machine, lambda: machine.fit(open_rows([(X[:, :1], bad_targets(name))]), Y), ValueError, rows)
    if rows is NUMBERS:
        with pytest.raises(ValueError, match="same order"):
            outputs(machine, turned)


@every_class
def test_a_fit_that_breaks_in_the_middle_or_at_its_end_changes_nothing(name, monkeypatch):
    machine = made(name).fit(NUMBERS, Y)
    kernel = machine.kernel
    machine.set_params(kernel=broken)
    require_unchanged(machine, lambda: machine.fit(NUMBERS[["b", "a"]], Y), Broken, NUMBERS)
    machine.set_params(kernel=kernel)
    publish = type(machine)._publish
    monkeypatch.setattr(type(machine), "_publish", lambda *given: broken(publish(*given)))
    require_unchanged(machine, lambda: machine.fit(NUMBERS[["b", "a"]], Y), Broken, NUMBERS)


@every_class
def test_an_unfitted_estimator_stays_unfitted(name):
    machine = made(name, kernel=broken)
    before = dict(vars(machine))
    with pytest.raises(Broken):
        machine.fit(NUMBERS, Y)
    with pytest.raises(ValueError):
        machine.fit(NUMBERS, Y, np.zeros(len(Y)))
    assert vars(machine) == before
    with pytest.raises(NotFittedError):
        machine.transform(NUMBERS) if hasattr(machine, "transform") else machine.predict(NUMBERS)


@pytest.mark.parametrize("name", PARTIAL)
def test_a_failed_batch_changes_nothing(name, monkeypatch):
    fresh = made(name)
    classes = {"classes": [0, 1]} if name.endswith("SVC") else {}
    before = dict(vars(fresh))
    with pytest.raises(ValueError):
        fresh.partial_fit(BAD_ROWS, Y)
    if name.endswith("SVC"):
        with pytest.raises(ValueError, match="not among classes"):
            fresh.partial_fit(NUMBERS, Y + 5, classes=[0, 1])
    assert vars(fresh) == before
    machine = fresh.partial_fit(NUMBERS, Y, **classes)
    expected = outputs(made(name).partial_fit(NUMBERS, Y, **classes).partial_fit(NUMBERS[:40], Y[:40]), NUMBERS)
    publish = type(machine)._publish
    monkeypatch.setattr(type(machine), "_publish", lambda *given: broken(publish(*given)))
    require_unchanged(machine, lambda: machine.partial_fit(NUMBERS[50:], Y[50:]), Broken, NUMBERS)
    monkeypatch.undo()
    assert np.array_equal(outputs(machine.partial_fit(NUMBERS[:40], Y[:40]), NUMBERS), expected)


def test_a_refit_leaves_no_attribute_of_the_fit_before():
    projection = made("GreedyProjection").fit(X)
    assert not hasattr(projection.set_params(kernel="linear").fit(X), "gamma_")
    machine = kompakt.LocalSamplingSVC(beta=0.5, random_state=0).fit(X, Y)
    assert hasattr(machine, "radii_")
    assert not hasattr(machine.set_params(beta="auto", max_train=100, variant="margin").fit(X, Y), "radii_")
