"""For those who add parts: contract suites, naive oracles and a counting kernel."""

from kompakt.testing.contracts import (
    check_kernel,
    check_loss,
    check_rows,
    check_selector,
    check_solver,
    check_source,
)
from kompakt.testing.counting import CountingKernel
from kompakt.testing.oracles import finite_difference, naive_block, naive_objective, stationarity

__all__ = [
    "CountingKernel",
    "check_kernel",
    "check_loss",
    "check_rows",
    "check_selector",
    "check_solver",
    "check_source",
    "finite_difference",
    "naive_block",
    "naive_objective",
    "stationarity",
]
