"""A descent that can be resumed: its evaluations are written down, and handed out again in the same order.

SciPy's L-BFGS cannot be stopped and continued, but it is deterministic: started anew and given the values and gradients
it was given before, it takes the same steps to the same point, in next to no time.  So a descent with a checkpoint is
the very descent without one.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from kompakt.checkpoint import CheckpointError, Progress

Array = np.ndarray


class Replay:
    """Evaluations of one descent.

    Parameters
    ----------
    place : Progress
        Where they are written; one without a checkpoint keeps nothing.
    objective : object
        Has `carried` (plain values and arrays): what an evaluation leaves behind for the next.
    """

    def __init__(self, place: Progress, objective: Any) -> None:
        self.place, self.objective = place, objective
        self._evaluations: list[dict[str, Any]] = list(place.last or [])
        self._next = 0

    def recall(self, x: Array) -> tuple[float, Array] | None:
        """Value and gradient at `x`, if this evaluation was made before the fit was killed."""
        if self._next >= len(self._evaluations):
            return None
        known = self._evaluations[self._next]
        self._next += 1
        if not np.array_equal(known["x"], x):
            raise CheckpointError(
                f"evaluation {self._next} of the descent is at another point than in the checkpoint: it was written "
                "on another machine or with other library versions. Delete it to start anew."
            )
        self.objective.carried = known["carried"]
        return known["value"], known["gradient"]

    def add(self, x: Array, value: float, gradient: Array) -> None:
        """Write an evaluation down."""
        if not self.place.active:
            return
        self._evaluations.append(
            {"x": x.copy(), "value": value, "gradient": gradient.copy(), "carried": self.objective.carried}
        )
        self._next += 1
        if self.place.due():
            self.place.save(self._evaluations)
