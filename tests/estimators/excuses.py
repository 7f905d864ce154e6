"""Estimator checks that a machine may fail, with the reason: the one table.

An excuse that is no longer needed fails the suite (`xfail_strict`).
"""

from typing import Any

from sklearn.base import is_outlier_detector

_REFINES = (
    "refinement is a long descent on a non-convex objective, so rounding differences between weights and repeated rows "
    "grow: DESIGN promises the objective to 1e-3 there, and coefficients only with refine=False"
)

_SUBSAMPLES = (
    "the training set is reduced by drawing rows, and a row of weight 2 is drawn as one row; the exact SVM itself "
    "agrees between weights and repeated rows only up to its stopping rule"
)

#: kind of machine -> name of the check -> why
EXCUSES: dict[str, dict[str, str]] = {
    "refines": {
        "check_sample_weight_equivalence_on_dense_data": _REFINES,
        "check_sample_weight_equivalence_on_sparse_data": _REFINES,
    },
    "detector that refines": {"check_sample_weight_equivalence_on_dense_data": _REFINES},
    "subsamples": {
        "check_sample_weight_equivalence_on_dense_data": _SUBSAMPLES,
        "check_sample_weight_equivalence_on_sparse_data": _SUBSAMPLES,
    },
}


def kinds_of(machine: Any) -> list[str]:
    """The rows of the table that apply to a machine: what it does, and its class name."""
    # a detector moves vectors only, and on sparse rows of the checks its descent ends at the same place
    kind = "detector that refines" if is_outlier_detector(machine) else "refines"
    refines = [kind] if machine.get_params().get("refine") else []
    subsamples = ["subsamples"] if hasattr(machine, "overlap_with") else []
    return [*refines, *subsamples, type(machine).__name__]


def excuses_of(machine: Any) -> dict[str, str]:
    """All checks that a machine is excused from."""
    return {check: why for kind in kinds_of(machine) for check, why in EXCUSES.get(kind, {}).items()}
