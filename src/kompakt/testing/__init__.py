"""Tests for parts of your own: contract suites, naive versions to compare with, and a kernel that counts."""

from kompakt.testing.contracts import check_kernel, check_loss, check_rows, check_selector, check_solver, check_source
from kompakt.testing.oracles import CountingKernel, finite_difference, naive_block, naive_objective, stationarity

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
