"""What the pictures of basis vectors draw, in Matplotlib's artists."""

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import load_digits, load_iris, make_moons

from kompakt import FEESVC, CompactSVC, CompactSVR
from kompakt.plots import BasisVectorsDisplay, CandidateBoundariesDisplay

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


class TestVectors:
    def test_two_features_are_scattered_on_the_boundary(self):
        machine = CompactSVC(8, random_state=0).fit(X, y)
        display = BasisVectorsDisplay.from_estimator(machine, X, y, ax=_axes())
        drawn = np.concatenate([artist.get_offsets() for artist in display.artists_])
        np.testing.assert_allclose(np.sort(drawn, axis=0), np.sort(machine.basis_vectors_, axis=0))
        boundary = display.ax_.collections[1].get_paths()[0].vertices
        assert np.abs(machine.decision_function(boundary)).max() < 0.05 * np.abs(machine.decision_function(X)).max()

    def test_the_side_of_a_vector_is_the_class_it_speaks_for(self):
        iris = load_iris()
        names = iris.target_names[iris.target]
        machine = CompactSVC(6, random_state=0).fit(iris.data[:, 2:], names)
        display = BasisVectorsDisplay.from_estimator(machine, iris.data[:, 2:], names)
        each = machine.model_.scores(machine.model_.weights)
        order = np.argsort(-np.linalg.norm(machine.model_.weights, axis=1), kind="stable")
        assert display.sides.tolist() == np.argmax(each, axis=1)[order].tolist()

    def test_pictures_where_rows_look_like_them(self):
        digits = load_digits()
        machine = CompactSVC(10, refine=False, random_state=0).fit(digits.data, digits.target)
        display = BasisVectorsDisplay.from_estimator(machine, digits.data)
        assert display.kind == "images"
        assert len(display.artists_) == 10
        assert display.artists_[0].get_array().shape == (8, 8)
        inside = BasisVectorsDisplay.from_estimator(machine.model_, image_shape=(4, 16), max_vectors=3, ax=_axes())
        assert [artist.get_array().shape for artist in inside.artists_] == [(4, 16)] * 3
        with pytest.raises(ValueError, match="does not hold 64 features"):
            BasisVectorsDisplay.from_estimator(machine, image_shape=(5, 5))

    def test_a_heat_map_has_the_most_relevant_features_on_top_with_their_whole_names(self):
        rng = np.random.default_rng(0)
        rows = rng.normal(size=(200, 6))
        names = [f"a name of a column that nobody would call short, number {number}" for number in range(6)]
        machine = CompactSVC(7, gamma="ard", random_state=0).fit(pd.DataFrame(rows, columns=names), rows[:, 3] > 0)
        display = BasisVectorsDisplay.from_estimator(machine)
        shown = [label.get_text() for label in display.ax_.get_yticklabels()]
        assert shown == [names[place] for place in np.argsort(-machine.feature_importances_, kind="stable")]
        assert shown[0] == names[3]
        display.figure_.canvas.draw()
        inside = display.figure_.bbox
        for label in display.ax_.get_yticklabels():
            assert inside.x0 <= label.get_window_extent().x0
        # columns of one class stand together, the largest weights first
        place = np.argsort([artist.get_extent()[0] for artist in display.artists_])
        sides = display.sides[place]
        assert np.all(np.diff(sides) >= 0)
        for side in np.unique(sides):
            assert np.all(np.diff(display.strength[place][sides == side]) <= 0)

    def test_lines_across_the_features_otherwise(self):
        rng = np.random.default_rng(0)
        rows = rng.normal(size=(80, 60))
        machine = CompactSVR(5, refine=False, random_state=0).fit(rows, rows[:, 3])
        display = BasisVectorsDisplay.from_estimator(machine, rows)
        assert (display.kind, len(display.artists_)) == ("heatmap", 5)
        display = BasisVectorsDisplay.from_estimator(machine, rows, kind="parallel")
        assert (display.kind, len(display.artists_)) == ("parallel", 5)
        assert len(display.artists_[0].get_xdata()) == 40
        assert "40 of 60 features" in display.ax_.get_title()
        with pytest.raises(ValueError, match="two features"):
            BasisVectorsDisplay.from_estimator(machine, kind="scatter")
        with pytest.raises(ValueError, match="kind must be one of"):
            BasisVectorsDisplay.from_estimator(machine, kind="pie")

    def test_a_constant_has_no_contours(self):
        machine = CompactSVR(3, refine=False, random_state=0).fit(X, np.ones(len(X)))
        display = BasisVectorsDisplay.from_estimator(machine, X)
        assert len(display.ax_.collections) == 1 + len(display.artists_)  # the rows and the vectors

    def test_a_precomputed_kernel_has_nothing_to_draw(self):
        machine = CompactSVC(5, kernel="precomputed", refine=False).fit(X @ X.T, y)
        with pytest.raises(ValueError, match="precomputed"):
            BasisVectorsDisplay.from_estimator(machine)


def test_candidates_and_winner_at_chosen_steps():
    X, y = make_moons(100, noise=0.2, random_state=0)
    machine = FEESVC(12, C=10.0, random_state=0)
    display = CandidateBoundariesDisplay.from_estimator(machine, X, y, steps=(3, 6), resolution=15)
    assert [step.n_basis for step in display.steps] == [3, 6]
    assert display.steps[0].values.shape == (10, 15, 15)
    thin, thick = display.contours_[1]
    assert len(thin) == 10
    assert thick is not None
    assert not hasattr(machine, "model_")


def test_the_winner_is_the_machine_that_least_squares_grows():
    """With constant weights the winner's estimated boundary is the trained machine of that size."""
    X, y = make_moons(100, noise=0.2, random_state=0)
    machine = FEESVC(5, C=10.0, loss="least_squares", validation_fraction=0, random_state=0)
    ((size, values, winner),) = machine.trace_candidates(X, y, X, [5])
    fitted = machine.fit(X, y)
    assert size == fitted.n_basis_ == 5
    np.testing.assert_allclose(values[winner], fitted.decision_function(X), atol=1e-6)


def test_other_shapes_are_refused():
    with pytest.raises(ValueError, match="two features"):
        CandidateBoundariesDisplay.from_estimator(FEESVC(), np.zeros((4, 3)), [0, 1, 0, 1])
    with pytest.raises(ValueError, match="gsvc"):
        CandidateBoundariesDisplay.from_estimator(FEESVC(selection="gsvc"), np.zeros((4, 2)), [0, 1, 0, 1])
