"""The names that `selection` may have, and the selector object for each."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from kompakt.basis import AllSelector, GivenSelector, ProjectionSelector, RandomSelector, RenyiSelector
from kompakt.basis.forward import GrowthSelector
from kompakt.basis.gram import GramSelector
from kompakt.spec import Selector


def _grown(name: str, n_candidates: int | None) -> GrowthSelector:
    return GrowthSelector(name, n_candidates=n_candidates or 10)


#: name -> selector, given the number of candidates per round (None: the selector's own default)
SELECTORS: dict[str, Callable[[int | None], Any]] = {
    "all": lambda n_candidates: AllSelector(),
    "gram": lambda n_candidates: GramSelector(n_candidates=n_candidates),
    "random": lambda n_candidates: RandomSelector(),
    # The plain criterion says nothing in many dimensions; widened bandwidths let it choose there too.
    "renyi": lambda n_candidates: RenyiSelector(on_blind="widen"),
    "projection": lambda n_candidates: ProjectionSelector(),
    **{name: partial(_grown, name) for name in ("sp1", "sp2", "hybrid", "cholesky", "gsvc", "bh", "mark", "kmp")},
}


def make_selector(selection: Any, n_candidates: int | None = None) -> Any:
    """A selector object for a name, an array of vectors or a selector."""
    if isinstance(selection, str):
        if selection not in SELECTORS:
            raise ValueError(
                f"selection must be one of {sorted(SELECTORS)}, an array of vectors or a selector object; "
                f"got {selection!r}."
            )
        return SELECTORS[selection](n_candidates)
    return selection if hasattr(selection, "select") else GivenSelector(selection)


def projection_selector(selection: Any, epsilon: float, pivot: str, first: str, memory_budget: int | None) -> Selector:
    """The selector of a projected machine: greedy projection, given vectors or an object."""
    if isinstance(selection, str):
        if selection != "projection":
            raise ValueError(
                f"selection must be 'projection', an array of vectors or a selector object; got {selection!r}."
            )
        return ProjectionSelector(float(epsilon), pivot, first, memory_budget=memory_budget)
    return selection if hasattr(selection, "select") else GivenSelector(selection)
