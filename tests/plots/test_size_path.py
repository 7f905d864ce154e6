import numpy as np
import pytest

from kompakt import CompactSVC
from kompakt.plots import SizePathDisplay

matplotlib = pytest.importorskip("matplotlib")
matplotlib.use("Agg")


def test_given_errors_are_drawn_into_given_axes():
    import matplotlib.pyplot as plt

    _, ax = plt.subplots()
    display = SizePathDisplay.from_predictions([5, 10, 20], [[0.3, 0.2], [0.2, 0.1], [0.1, 0.2]], 10, ax=ax)
    assert display.ax_ is ax
    np.testing.assert_allclose(display.line_.get_ydata(), [0.25, 0.15, 0.15])
    assert "chosen: 10" in [text.get_text() for text in ax.get_legend().get_texts()]
    plt.close("all")


def test_a_machine_without_a_path_says_so():
    with pytest.raises(ValueError, match="n_basis='auto'"):
        SizePathDisplay.from_estimator(CompactSVC())
