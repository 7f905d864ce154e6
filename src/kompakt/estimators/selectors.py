"""The names that `selection` may have, and the selector object for each."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from kompakt.basis import AllSelector, GivenSelector, ProjectionSelector, RandomSelector, RenyiSelector
from kompakt.basis.forward import GrowthSelector
from kompakt.basis.gram import GramSelector
from kompakt.spec import Selector

#: name -> selector with its own defaults
SELECTORS: dict[str, Callable[[], Selector]] = {
    "all": AllSelector,
    "gram": GramSelector,
    "random": RandomSelector,
    # The plain criterion says nothing in many dimensions; widened bandwidths let it choose there too.
    "renyi": lambda: RenyiSelector(on_blind="widen"),
    "projection": ProjectionSelector,
    **{
        name: partial(GrowthSelector, name)
        for name in ("sp1", "sp2", "hybrid", "cholesky", "gsvc", "bh", "mark", "kmp")
    },
}


def make_selector(selection: Any) -> Selector:
    """A selector object for a name, an array of vectors or a selector."""
    if isinstance(selection, str):
        if selection not in SELECTORS:
            raise ValueError(
                f"selection must be one of {sorted(SELECTORS)}, an array of vectors or a selector object; "
                f"got {selection!r}."
            )
        return SELECTORS[selection]()
    return selection if hasattr(selection, "select") else GivenSelector(selection)


def projection_selector(
    selection: Any, max_error: float, pivot: str, first: str, memory_budget: int | None
) -> Selector:
    """The selector of a projected machine: greedy projection with its options, or another one."""
    if isinstance(selection, str) and selection == "projection":
        return ProjectionSelector(float(max_error), pivot, first, memory_budget=memory_budget)
    return make_selector(selection)
