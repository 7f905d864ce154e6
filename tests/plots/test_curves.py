"""What the curves draw, in Matplotlib's artists."""

import builtins
from types import SimpleNamespace

import numpy as np
import pytest
from sklearn.datasets import make_moons

from kompakt import FEESVC, CompactSVC, SpSVC
from kompakt.plots import ConvergenceDisplay, ParetoDisplay, SizePathDisplay
from kompakt.plots.curves import front

matplotlib = pytest.importorskip("matplotlib")
matplotlib.use("Agg")

X, y = make_moons(150, noise=0.2, random_state=0)


@pytest.fixture(autouse=True)
def _closed_figures():
    yield
    import matplotlib.pyplot as plt

    plt.close("all")


def _axes():
    import matplotlib.pyplot as plt

    return plt.subplots()[1]


class TestConvergence:
    def test_growth_is_drawn_against_its_size_into_given_axes(self):
        machine, ax = SpSVC(8, random_state=0).fit(X, y), _axes()
        display = ConvergenceDisplay.from_estimator(machine, ax=ax)
        assert display.ax_ is ax
        np.testing.assert_allclose(display.lines_["objective"].get_xdata(), np.arange(1, 9))
        np.testing.assert_allclose(
            display.lines_["objective"].get_ydata(), [record["objective"] for record in machine.history_]
        )

    def test_every_error_is_drawn_where_there_is_no_objective(self):
        display = ConvergenceDisplay.from_estimator(FEESVC(8, validation_fraction=0.2, random_state=0).fit(X, y))
        assert set(display.lines_) == {"validation error", "estimated error"}
        # the first vectors are given, so nothing was estimated for them
        assert len(display.lines_["estimated error"].get_xdata()) < len(display.lines_["validation error"].get_xdata())

    def test_a_refinement_shows_the_held_out_loss(self):
        machine = CompactSVC(6, random_state=0).fit(X, y)
        display = ConvergenceDisplay.from_estimator(machine)
        loss = display.lines_["mean loss, held-out rows"]
        np.testing.assert_allclose(loss.get_ydata(), machine.refinement_["validation_curve"])
        assert display.ax_.get_title() == "Convergence of CompactSVC"
        assert display.ax_.get_ylabel() == "mean loss, held-out rows"

    def test_an_objective_beside_the_held_out_loss_has_an_axis_of_its_own(self):
        record = {"phase": "refinement", "objective_curve": [9.0, 5.0, 4.0], "validation_curve": [0.5, 0.4]}
        display = ConvergenceDisplay.from_estimator(SimpleNamespace(history_=[record]))
        objective, loss = display.lines_["objective, training rows"], display.lines_["mean loss, held-out rows"]
        np.testing.assert_allclose(objective.get_ydata(), record["objective_curve"])
        np.testing.assert_allclose(loss.get_ydata(), record["validation_curve"])
        assert display.ax_.get_ylabel() == "objective, training rows"
        assert display.right_ax_.get_ylabel() == "mean loss, held-out rows"

    def test_fields_that_are_not_there_are_named(self):
        machine = SpSVC(3, random_state=0).fit(X, y)
        with pytest.raises(ValueError, match=r"records no 'loss'; it has .*objective"):
            ConvergenceDisplay.from_estimator(machine, quantity="loss")
        with pytest.raises(ValueError, match="no history_"):
            ConvergenceDisplay.from_estimator(machine.model_)

    def test_the_axis_that_is_asked_for(self):
        machine = SpSVC(4, random_state=0).fit(X, y)
        display = ConvergenceDisplay.from_estimator(machine, against="time")
        assert display.ax_.get_xlabel() == "seconds"
        np.testing.assert_allclose(display.steps, [record["time"] for record in machine.history_])
        assert ConvergenceDisplay.from_estimator(machine, against="step").steps.tolist() == [1, 2, 3, 4]
        with pytest.raises(ValueError, match=r"against must be a field of every record .* got 'n_train'"):
            ConvergenceDisplay.from_estimator(machine, against="n_train")

    def test_given_values(self):
        display = ConvergenceDisplay.from_predictions([1, 2, 3], [100.0, 10.0, 1.0])
        assert display.ax_.get_yscale() == "log"


class TestPareto:
    def test_the_front_is_what_no_point_beats(self):
        rng = np.random.default_rng(0)
        x, cost = rng.integers(0, 12, (2, 60)).astype(float)
        x[7] = np.nan
        naive = {
            (x[i], cost[i])
            for i in range(60)
            if not np.isnan(x[i])
            and not any(x[j] <= x[i] and cost[j] <= cost[i] and (x[j], cost[j]) != (x[i], cost[i]) for j in range(60))
        }
        found = front(x, cost)
        assert {(x[i], cost[i]) for i in found} == naive
        assert len(found) == len(naive)

    def test_points_of_a_table(self):
        points = [
            {"contender": "kompakt(n_basis=20)", "size": 20.0, "fit": 1.0, "error": 6.0},
            {"contender": "SVC()", "size": 700.0, "fit": 2.0, "error": 5.5},
            {"contender": "Trees()", "size": None, "fit": 3.0, "error": 4.0},
        ]
        display = ParetoDisplay.from_points(points, ax=_axes())
        assert display.front_.tolist() == [0, 1]
        assert display.ax_.get_xlabel() == "basis vectors"
        assert len(display.points_["Trees"].get_offsets()) == 0
        with pytest.raises(ValueError, match="has no 'memory'"):
            ParetoDisplay.from_points(points, x="memory")


def test_a_path_of_sizes_names_its_sizes():
    machine = CompactSVC("auto", refine=False, random_state=0).fit(X, y)
    display = SizePathDisplay.from_estimator(machine)
    assert display.chosen == machine.n_basis_
    assert [int(text.get_text()) for text in display.ax_.get_xticklabels()] == machine.size_path_.sizes.tolist()
    growth = ConvergenceDisplay.from_estimator(machine)
    np.testing.assert_allclose(growth.lines_["validation error"].get_xdata(), machine.size_path_.sizes)


def test_without_matplotlib_the_error_names_the_extra(monkeypatch):
    real = builtins.__import__

    def absent(name, *rest, **more):
        if name.startswith("matplotlib"):
            raise ImportError(name)
        return real(name, *rest, **more)

    monkeypatch.setattr(builtins, "__import__", absent)
    with pytest.raises(ImportError, match=r"kompakt\[plot\]"):
        ConvergenceDisplay.from_predictions([1], [1.0])


def test_given_errors_are_drawn_into_given_axes():
    ax = _axes()
    display = SizePathDisplay.from_predictions([5, 10, 20], [[0.3, 0.2], [0.2, 0.1], [0.1, 0.2]], 10, ax=ax)
    assert display.ax_ is ax
    np.testing.assert_allclose(display.line_.get_ydata(), [0.25, 0.15, 0.15])
    assert "chosen: 10" in [text.get_text() for text in ax.get_legend().get_texts()]


def test_a_machine_without_a_path_says_so():
    with pytest.raises(ValueError, match="n_basis='auto'"):
        SizePathDisplay.from_estimator(CompactSVC())
