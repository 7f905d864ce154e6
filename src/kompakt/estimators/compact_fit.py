"""Fit of the flagship: from the constructor's words to a machine."""

from __future__ import annotations

from typing import Any, ClassVar

from kompakt.estimators.base import Array, deadline_of, solver_settings
from kompakt.estimators.flagship import FlagshipPlan
from kompakt.estimators.partial import forget_batches
from kompakt.estimators.prepare import LEARNED, Training, prepare
from kompakt.estimators.refining import learned_widths
from kompakt.estimators.resuming import NOT_METADATA, checkpoints
from kompakt.estimators.samples import held_rows
from kompakt.estimators.selectors import make_selector
from kompakt.estimators.watch import warn_interrupted, watched
from kompakt.grow.compact import Recipe, on_all_rows, select
from kompakt.losses import Loss, make_loss
from kompakt.select import Selection
from kompakt.threads import block_threads


class FlagshipFit:
    """Fit of both flagship estimators."""

    _classifier: bool
    __metadata_request__fit: ClassVar = NOT_METADATA
    _learned_widths = LEARNED
    _drops_matrix_rows = True  # rows of weight zero may be left out of a precomputed matrix

    @watched
    def fit(self, X: Any, y: Any = None, sample_weight: Any = None, *, checkpoint: Any = None) -> Any:
        """Fit the machine.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features), or rows from `kompakt.open_rows`
        y : array-like of shape (n_samples,), or (n_samples, n_outputs) for regression
            None for rows from `kompakt.open_rows`, which bring their targets and weights.
        sample_weight : array-like of shape (n_samples,), default=None
            Weight 2 equals the row given twice; weight 0 leaves it out.
        checkpoint : path-like, default=None
            File to which the state is written after every round. A fit that is killed goes on from it when it is
            called again with the same data and parameters, and gives the same machine to the last bit; the file is
            removed at the end.

        Returns
        -------
        self
        """
        me: Any = self
        deadline = deadline_of(me.max_time)
        forget_batches(self)
        with block_threads(me.n_jobs), checkpoints(self, checkpoint) as resume:
            learn = learned_widths(me.gamma, me.refine, me.kernel)
            training = resume(prepare(self, X, y, sample_weight, classifier=self._classifier))
            seen = self._seen(training)
            plan = FlagshipPlan(self, seen, self._recipe(seen, learn, deadline))
            start = self._start(training)
            if isinstance(me.gamma, str) and me.gamma == "loo":
                plan = plan.widened()
            if me.tune:
                plan = plan.tuned()
            if isinstance(me.n_basis, str):
                plan = plan.sized()
            machine = plan.grown(start)
            calibrate = getattr(self, "calibrate", False) and not machine.interrupted
            more = {"calibration": plan.calibration(machine)} if calibrate else {}
            if not seen.whole:
                machine = on_all_rows(training.rows, machine, plan.recipe)
            model = me._build_model(seen, machine.basis, machine.solution, kernel=_frozen(machine.kernel), **more)
        me._publish(model, machine.solution, seen, machine.indices)
        plan.publish()
        self.n_kernel_evals_ = machine.n_kernel_evals + plan.n_kernel_evals
        self.history_ = plan.history + machine.history
        if machine.interrupted:
            self.interrupted_ = True
            missing = ", without calibration" if getattr(self, "calibrate", False) else ""
            kept = f"the basis is kept as far as it was refined, with {machine.n_basis} vectors{missing}"
            warn_interrupted(self, kept)
            return self
        me._report(machine.solution, deadline)
        return self

    def _seen(self, training: Training) -> Training:
        """The rows that selection, refinement and searches see: of streamed rows a sample that fits, where need be."""
        me: Any = self
        selector = make_selector(me.selection, me.n_candidates)
        by_passes = getattr(selector, "streams", False) and not me.refine and not me.tune and me.n_basis != "auto"
        by_passes = by_passes and not getattr(self, "calibrate", False)
        return training if by_passes else held_rows(self, training)

    def _start(self, training: Training) -> Array | None:
        """Vectors of the last fit, for `warm_start`."""
        me: Any = self
        if not me.warm_start or getattr(self, "basis_vectors_", None) is None:
            return None
        rows = training.rows
        if me.basis_vectors_.shape[1] != rows.n_features:
            raise ValueError(
                f"warm_start=True goes on from the last fit, which had {me.basis_vectors_.shape[1]} features; X has "
                f"{rows.n_features}. Set warm_start=False to start anew."
            )
        start = rows.as_inputs(me.basis_vectors_).astype(rows.dtype)
        return start if rows.offset is None else start - rows.offset

    def _partial_selection(self, training: Training, loss: Loss) -> Selection:
        me: Any = self
        recipe = self._recipe(training, None, None)
        return select(training.rows, training.kernel, int(me.n_basis), recipe, training.labels)

    def _recipe(self, training: Training, learn: str | None, deadline: float | None) -> Recipe:
        me: Any = self
        return Recipe(
            loss=make_loss(
                me.loss, classes=self._classifier, epsilon=me.epsilon, quantile=getattr(self, "quantile", 0.5)
            ),
            C=float(me.C),
            selector=make_selector(me.selection, me.n_candidates),
            classifier=self._classifier,
            key=training.key,
            fit_intercept=me.fit_intercept,
            penalize_intercept=me.penalize_intercept,
            refine=bool(me.refine),
            learn=learn,
            refine_iter=int(me.refine_iter),
            validation_fraction=float(me.validation_fraction),
            settings=solver_settings(self, deadline),
            memory_budget=me.memory_budget,
            coding=getattr(self, "coding", "one_vs_rest"),
            n_classes=2 if training.classes is None else len(training.classes),
        )


def _frozen(kernel: Any) -> Any:
    return type(kernel)() if kernel.name == "precomputed" else kernel
