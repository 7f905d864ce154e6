"""Every word for `selection` works in the flagship, for classes and for numbers where it can."""

import numpy as np
import pytest
from sklearn.datasets import make_moons

from kompakt import CompactSVC, CompactSVR, Refinement
from kompakt.estimators.selectors import SELECTORS

X, Y = make_moons(300, noise=0.2, random_state=0)


@pytest.mark.parametrize("refine", [False, True])
@pytest.mark.parametrize("word", sorted(SELECTORS))
def test_classifier(word, refine):
    machine = CompactSVC(12, selection=word, refine=Refinement(5) if refine else False, random_state=0).fit(X, Y)
    assert machine.n_basis_ <= (300 if word == "all" else 12)
    assert machine.score(X, Y) > 0.85


@pytest.mark.parametrize("word", ["gram", "random", "renyi", "projection", "all"])
def test_regressor(word):
    machine = CompactSVR(12, selection=word, refine=False, C=10.0, random_state=0).fit(X, np.sin(X[:, 0]))
    assert machine.score(X, np.sin(X[:, 0])) > 0.9
