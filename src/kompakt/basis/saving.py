"""A growth as plain arrays, and back: what a checkpoint keeps of a machine that grows."""

from __future__ import annotations

from typing import Any

import numpy as np

from kompakt.basis.blocks import RowBlocks
from kompakt.basis.machine import GrowingMachine
from kompakt.design import choose_block_rows
from kompakt.linalg import Factor

#: attributes of a machine that are kept as they are
_PLAIN = ("theta", "f", "slopes", "curvatures", "active", "n_iter", "converged", "optimality")
_PRIVATE = ("_exact", "_value", "_lifted")


def machine_state(machine: GrowingMachine) -> dict[str, Any]:
    """Everything that growth has changed; columns of A, R and H beyond the basis are empty and left out."""
    p, m = machine.width, machine.n_basis
    state = {name: getattr(machine, name) for name in (*_PLAIN, *_PRIVATE)}
    return state | {
        "indices": np.array(machine.indices, dtype=np.int64),
        "taken": np.array(sorted(machine.taken), dtype=np.int64),
        "live": machine.live,
        "A": np.ascontiguousarray(machine.A[:, machine.first : p]),
        "R": np.ascontiguousarray(machine.R[:m, :m]),
        "H": np.ascontiguousarray(machine.H[:, :p, :p]),
        "factors": [(factor.R, factor.jitter) for factor in machine.factors],
        "work": (machine.work.scoring, machine.work.training),
        "n_evals": machine.columns_of.n_evals,
    }


def restore_machine(machine: GrowingMachine, state: dict[str, Any]) -> None:
    """Make a machine that has just been made what it was."""
    for name in (*_PLAIN, *_PRIVATE):
        setattr(machine, name, state[name])
    machine.indices = [int(index) for index in state["indices"]]
    machine.taken = {int(index) for index in state["taken"]}
    p, m = machine.width, machine.n_basis
    if state["live"] is not None:
        live = machine.live = state["live"]
        machine.y, machine.s = machine.y[live], machine.all_s[live]
        machine.A = np.empty((len(live), machine.A.shape[1]))
        machine.A[:, : machine.first] = 1.0
        machine.blocks = RowBlocks(len(live), choose_block_rows(machine.A.shape[1]))
        machine.columns_of.narrow(live)
    machine.A[:, machine.first : p] = state["A"]
    machine.R[:m, :m] = state["R"]
    machine.H[:, :p, :p] = state["H"]
    machine.factors = [Factor(R, jitter) for R, jitter in state["factors"]]
    machine.work.scoring, machine.work.training = state["work"]
    machine.columns_of.n_evals = state["n_evals"]


def growth_state(growth: Any, records: list[dict[str, Any]]) -> dict[str, Any]:
    """The machine, the schedule and what the selection remembers."""
    whole = growth.whole
    return {
        "machine": machine_state(growth.machine),
        "records": records,
        "schedule": {key: value for key, value in vars(growth.schedule).items() if isinstance(value, int | float)},
        "whole": None if whole is None else (whole.diagonal, whole.squares, whole.likeness),
        "method": growth.method,
        "inside": growth.inside,
        "objective": growth.objective,
        "spent": growth.spent,
    }


def restore_growth(growth: Any, state: dict[str, Any]) -> list[dict[str, Any]]:
    """Make a growth that has just begun what it was; returns its records."""
    restore_machine(growth.machine, state["machine"])
    vars(growth.schedule).update(state["schedule"])
    if growth.whole is not None:
        growth.whole.diagonal, growth.whole.squares, growth.whole.likeness = state["whole"]
    for name in ("method", "inside", "objective", "spent"):
        setattr(growth, name, state[name])
    return state["records"]
