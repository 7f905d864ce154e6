"""Leaving out rows that stay far inside the margin, and checking them at the end (seed 001, section 3.4)."""

from __future__ import annotations

import numpy as np

from kompakt.basis.blocks import RowBlocks
from kompakt.basis.machine import GrowingMachine
from kompakt.design import choose_block_rows

Array = np.ndarray

#: rows per block of the final check
_CHECKED = 65_536


def shrink(machine: GrowingMachine, keep: Array) -> None:
    """Follow only the live rows of the mask `keep`."""
    numbers = np.arange(len(machine.A)) if machine.live is None else machine.live
    machine.live = numbers[keep]
    for name in ("A", "y", "s", "f", "slopes", "curvatures"):
        setattr(machine, name, getattr(machine, name)[keep])
    machine.blocks = RowBlocks(len(machine.A), choose_block_rows(machine.A.shape[1]))
    machine.forget_value()
    machine.columns_of.narrow(machine.live)


def restore(machine: GrowingMachine) -> int:
    """Check the rows that were left out; bring back those whose loss has a slope.  Returns how many."""
    if machine.live is None:
        return 0
    gone = np.setdiff1d(np.arange(machine.rows.n_rows), machine.live)
    s, targets = machine.all_s, np.asarray(machine.rows.targets, dtype=np.float64)
    bias = machine.theta[0] if machine.first else 0.0
    wrong = [np.empty(0, dtype=np.intp)]
    for start in range(0, len(gone), _CHECKED):
        part = gone[start : start + _CHECKED]
        f = machine.features(part) @ machine.theta[machine.first :] + bias
        wrong.append(part[np.any(s[part] * machine.loss.gradient(targets[part], f) != 0, axis=1)])
    back = np.concatenate(wrong)
    if len(back):
        A = np.ones((len(back), machine.A.shape[1]))
        A[:, machine.first : machine.width] = machine.features(back)
        together = np.concatenate([machine.live, back])
        order = np.argsort(together)
        machine.live = together[order]
        machine.A = np.concatenate([machine.A, A])[order]
        machine.y, machine.s = targets[machine.live], s[machine.live]
        machine.columns_of.narrow(machine.live)
        machine.rebuild()
    return len(back)
