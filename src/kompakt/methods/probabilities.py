"""Probabilities from outputs of held-out rows: the step of a fit that `calibrate` asks for."""

from __future__ import annotations

import numpy as np

from kompakt import calibration as calibrations
from kompakt.basis.build import Array, Machine, Plan
from kompakt.calibration import Calibration
from kompakt.codings import get_coding
from kompakt.data import row_weights
from kompakt.heldout import fold_splits, no_worse, shuffled_folds
from kompakt.methods.steps import held_out_outputs
from kompakt.run import Run
from kompakt.spec import Data, Spec

#: folds over the held-out rows by which a method is chosen
_FOLDS = 5


def calibrate(data: Data, spec: Spec, machine: Machine, plan: Plan, run: Run, method: str) -> Calibration | None:
    """Fit a calibration to decision values of rows that the machine had not seen.

    Parameters
    ----------
    data : Data
        Rows in memory.
    spec : Spec
        What the machine began with.
    machine : Machine
    plan : Plan
    run : Run
    method : {"sigmoid", "isotonic", "temperature", "best"}
        "best" compares them by the log loss of rows that the calibration did not see: sigmoids, unless another is
        better by more than a standard error.
    """
    if machine.interrupted:
        return None
    assert data.labels is not None
    index, outputs = held_out_outputs(data, spec, machine, plan, run)
    scores = get_coding(machine.spec.coding).scores(outputs, data.n_classes)
    labels, weights = data.labels[index], row_weights(data.rows)[index]
    if method == "best":
        method = _best(scores, labels, weights, run)
    return calibrations.fit(method, scores, labels, weights)


def _best(scores: Array, labels: Array, weights: Array, run: Run) -> str:
    """The method with the lowest log loss of rows held out once more."""
    splits = fold_splits(shuffled_folds(len(labels), _FOLDS, labels=labels, random_state=run.key % 2**31))
    n_classes = 2 if scores.ndim == 1 else scores.shape[1]
    if any(len(np.unique(labels[train])) < n_classes for train, _ in splits):
        return "sigmoid"
    losses: dict[str, Array] = {}
    for method in ("sigmoid", "isotonic", "temperature") if n_classes > 2 else ("sigmoid", "isotonic"):
        losses[method] = np.empty(len(labels))
        for train, held in splits:
            fitted = calibrations.fit(method, scores[train], labels[train], weights[train])
            logs = calibrations.log_probabilities(fitted, scores[held])
            losses[method][held] = -logs[np.arange(len(held)), labels[held]]
    means = {method: float(np.average(values, weights=weights)) for method, values in losses.items()}
    best = min(means, key=lambda method: means[method])
    if no_worse(losses["sigmoid"], losses[best], weights):
        best = "sigmoid"
    run.note("calibration", method=best, **{f"log_loss_{method}": value for method, value in means.items()})
    return best
