"""The steps of a flagship fit that come before and after growing: search, size, calibration."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from kompakt.codings import get_coding
from kompakt.estimators.prepare import Array, Training, splits_of
from kompakt.grow.compact import Machine, Recipe, grow, unseen_outputs
from kompakt.grow.path import SizePath, size_path
from kompakt.kernels import RBF, make_kernel
from kompakt.losses import Loss
from kompakt.progress import Deadline
from kompakt.tune.flagship import Tuned, seconds_left, settings_grid, tune_flagship
from kompakt.tune.widths import leave_one_out_widths
from kompakt.validate import holdout

#: the largest size that n_basis="auto" looks at, and the size that a search without a given size uses
_LARGEST_AUTO, _SIZE_TO_TUNE = 256, 64


@dataclass(frozen=True)
class FlagshipPlan:
    """What a fit has decided so far; every step returns a new plan."""

    estimator: Any
    training: Training
    recipe: Recipe
    kernel: Any = None
    n_basis: int = 0
    start: Array | None = None
    history: list[dict[str, Any]] = field(default_factory=list)
    n_kernel_evals: int = 0
    tuning: Tuned | None = None
    path: SizePath | None = None

    def __post_init__(self) -> None:
        if self.kernel is None:
            object.__setattr__(self, "kernel", self.training.kernel)
        if not self.n_basis:
            given = self.estimator.n_basis
            object.__setattr__(self, "n_basis", _SIZE_TO_TUNE if isinstance(given, str) else int(given))

    def _splits(self) -> list[tuple[Array, Array]]:
        """The user's validation splits, or one held-out fifth."""
        rows, labels = self.training.rows, self.training.labels
        target = np.zeros(rows.n_rows) if labels is None else labels
        seed = self.training.key % 2**31
        if self.estimator.cv is None:
            fraction = min(0.2, 20_000 / rows.n_rows)
            return [holdout(target, fraction, classifier=labels is not None, random_state=seed)]
        return splits_of(self.training, self.estimator.cv, classifier=labels is not None, random_state=seed)

    def widened(self) -> FlagshipPlan:
        """The plan with one width per feature, chosen by leave-one-out on a sample of the rows."""
        gamma: Any = self.kernel.gamma
        found = leave_one_out_widths(self.training.rows, float(gamma), self.recipe.C, key=self.training.key)
        note = {"phase": "widths", "error_before": found.error_before, "error": found.error, "C": found.C}
        return replace(
            self,
            kernel=RBF(found.gamma),
            n_kernel_evals=self.n_kernel_evals + found.n_kernel_evals,
            history=[*self.history, note],
        )

    def tuned(self) -> FlagshipPlan:
        """The plan with C, the starting width and epsilon chosen by validation."""
        estimator, recipe = self.estimator, self.recipe
        gamma: Any = getattr(self.kernel, "gamma", None)
        has_width = isinstance(estimator.kernel, str) and gamma is not None and np.ndim(gamma) == 0
        epsilons = None
        if hasattr(recipe.loss, "epsilon") and not recipe.classifier:
            targets = self.training.rows.targets
            spread = 0.0 if targets is None else float(np.std(targets))
            epsilons = [spread * share for share in (0.02, 0.1, 0.5)] if spread > 0 else None

        def kernel_of(width: float | None) -> Any:
            if width is None:
                return self.kernel
            return make_kernel(estimator.kernel, gamma=width, coef0=estimator.coef0, degree=estimator.degree)

        def loss_of(epsilon: float | None) -> Loss:
            return recipe.loss if epsilon is None else replace(recipe.loss, epsilon=epsilon)  # type: ignore[type-var]

        result = tune_flagship(
            self.training.rows,
            kernel_of,
            loss_of,
            settings_grid(float(gamma) if has_width else None, epsilons),
            self.n_basis,
            recipe,
            self._splits(),
            self.training.labels,
            seconds_left(recipe.settings.deadline, 0.5),
        )
        best = result.setting
        return replace(
            self,
            recipe=replace(recipe, C=best.C, loss=loss_of(best.epsilon)),
            kernel=kernel_of(best.gamma),
            tuning=result,
            n_kernel_evals=self.n_kernel_evals + result.n_kernel_evals,
            history=self.history + [{"phase": "tuning", "C": best.C, "gamma": best.gamma, "error": result.error}],
        )

    def sized(self) -> FlagshipPlan:
        """The plan with the number of basis vectors chosen on a path."""
        rows = self.training.rows
        splits = self._splits()
        largest = int(min(_LARGEST_AUTO, max(1, min(len(train) for train, _ in splits) // 2)))
        deadline = self.recipe.settings.deadline
        part = deadline.share(0.6) if isinstance(deadline, Deadline) else deadline
        recipe = replace(self.recipe, settings=replace(self.recipe.settings, deadline=part))
        path = size_path(rows, self.kernel, largest, recipe, splits, self.training.labels, self.estimator.size_tol)
        return replace(
            self,
            n_basis=path.size,
            start=path.basis,
            kernel=path.kernel if path.basis is not None else self.kernel,
            path=path,
            n_kernel_evals=self.n_kernel_evals + path.n_kernel_evals,
            history=self.history + path.history,
        )

    def grown(self, start: Array | None) -> Machine:
        """The machine itself, on all rows."""
        begin = self.start if start is None else start
        recipe = replace(self.recipe, interruptible=True)
        return grow(self.training.rows, self.kernel, self.n_basis, recipe, self.training.labels, begin)

    def calibration(self, machine: Machine) -> dict[str, Array]:
        """Sigmoids fitted to decision values of rows that the weights had not seen (scikit-learn's logistic fit)."""
        from sklearn.linear_model import LogisticRegression

        labels, classes = self.training.labels, self.training.classes
        assert labels is not None
        assert classes is not None
        index, outputs = unseen_outputs(self.training.rows, machine, self.recipe, labels)
        scores = get_coding(self.recipe.coding).scores(outputs, len(classes))
        weights = self.training.rows.weights
        w = None if weights is None else (weights if weights.ndim == 1 else weights.max(axis=1))[index]
        columns = scores[:, None] if scores.ndim == 1 else scores
        a, b = np.empty(columns.shape[1]), np.empty(columns.shape[1])
        for column in range(columns.shape[1]):
            positive = labels[index] == (1 if scores.ndim == 1 else column)
            if positive.all() or not positive.any():
                raise ValueError("calibrate=True needs held-out rows of every class; give more rows per class.")
            fitted = LogisticRegression(C=1e6).fit(columns[:, [column]], positive, sample_weight=w)
            a[column], b[column] = -fitted.coef_[0, 0], -fitted.intercept_[0]
        return {"a": a, "b": b}

    def publish(self) -> None:
        """Fitted attributes of the search and the path."""
        estimator = self.estimator
        estimator.C_ = self.recipe.C
        if hasattr(self.recipe.loss, "epsilon"):
            estimator.epsilon_ = self.recipe.loss.epsilon
        for name, value in (("cv_results_", self.tuning and self.tuning.results), ("size_path_", self.path)):
            if value is not None:
                setattr(estimator, name, value)
            elif hasattr(estimator, name):
                delattr(estimator, name)  # of an earlier fit
