import numpy as np
import pytest
from sklearn.datasets import make_moons

from kompakt import FEESVC
from kompakt.plots import CandidateBoundariesDisplay

matplotlib = pytest.importorskip("matplotlib")
matplotlib.use("Agg")


def test_candidates_and_winner_at_chosen_steps():
    import matplotlib.pyplot as plt

    X, y = make_moons(100, noise=0.2, random_state=0)
    machine = FEESVC(12, C=10.0, random_state=0)
    display = CandidateBoundariesDisplay.from_estimator(machine, X, y, steps=(3, 6), resolution=15)
    assert [step.n_basis for step in display.steps] == [3, 6]
    assert display.steps[0].values.shape == (10, 15, 15)
    thin, thick = display.contours_[1]
    assert len(thin) == 10
    assert thick is not None
    assert not hasattr(machine, "model_")
    plt.close("all")


def test_the_winner_is_the_machine_that_least_squares_grows():
    """With constant weights the winner's estimated boundary is the trained machine of that size."""
    X, y = make_moons(100, noise=0.2, random_state=0)
    machine = FEESVC(5, C=10.0, loss="least_squares", validation_fraction=None, random_state=0)
    ((size, values, winner),) = machine.trace_candidates(X, y, X, [5])
    fitted = machine.fit(X, y)
    assert size == fitted.n_basis_ == 5
    np.testing.assert_allclose(values[winner], fitted.decision_function(X), atol=1e-6)


def test_other_shapes_are_refused():
    with pytest.raises(ValueError, match="two features"):
        CandidateBoundariesDisplay.from_estimator(FEESVC(), np.zeros((4, 3)), [0, 1, 0, 1])
    with pytest.raises(ValueError, match="gsvc"):
        CandidateBoundariesDisplay.from_estimator(FEESVC(selection="gsvc"), np.zeros((4, 2)), [0, 1, 0, 1])
