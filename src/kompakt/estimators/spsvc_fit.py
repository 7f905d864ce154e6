"""Fit of `SpSVC`: words become parts, the basis grows, its size is chosen."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from numbers import Integral
from typing import Any, ClassVar

import numpy as np

from kompakt.checkpoint import current, step
from kompakt.codings import get_coding
from kompakt.design import DEFAULT_BUDGET, choose_block_rows
from kompakt.estimators.base import MachineClassifier, deadline_of
from kompakt.estimators.prepare import Training, prepare, splits_of
from kompakt.estimators.refining import Chosen, Moved, check_movable, moved_vectors
from kompakt.estimators.resuming import NOT_METADATA, checkpoints
from kompakt.estimators.samples import held_rows, solve_on_all_rows
from kompakt.estimators.watch import warn_interrupted, watched
from kompakt.grow.blocks import require_memory
from kompakt.grow.candidates import CandidateStream
from kompakt.grow.columns import ColumnCache, KernelColumns
from kompakt.grow.forward import GrowthPlan, Record, finish, grow, put_back
from kompakt.grow.machine import GrowingMachine
from kompakt.grow.monitor import Monitor
from kompakt.grow.sizes import SizeProblem, Tuned, size_errors, tune_grid
from kompakt.kernels import Kernel, Precomputed, make_kernel
from kompakt.losses import Loss, make_loss
from kompakt.rows import hash_rows
from kompakt.solve import Settings, Solution
from kompakt.threads import block_threads
from kompakt.validate import holdout, pick_size

Array = np.ndarray

#: grid of seed 001, section 4
DEFAULT_GRID = 2.0 ** np.arange(-7, 8)


@dataclass(frozen=True)
class _Resolved:
    """The constructor's words as parts."""

    training: Training
    kernel: Kernel
    loss: Loss
    C: float
    plan: GrowthPlan
    hashes: Array
    stream: CandidateStream
    options: dict[str, Any]
    budget: int


class GreedyFit(MachineClassifier):
    """Everything of `SpSVC` but its constructor."""

    __metadata_request__fit: ClassVar = NOT_METADATA

    @watched
    def fit(self, X: Any, y: Any = None, sample_weight: Any = None, *, checkpoint: Any = None) -> Any:
        """Grow the machine.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features), or rows from `kompakt.open_rows`
        y : array-like of shape (n_samples,)
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
        deadline = deadline_of(self.max_time)
        with block_threads(self.n_jobs), checkpoints(self, checkpoint) as resume:
            everything = resume(prepare(self, X, y, sample_weight, classifier=True))
            parts = self._choose_size(self._resolve(held_rows(self, everything), deadline))
            check_movable(self, parts.kernel)
            machine, records = self._grow(parts)
            solution = machine.solution()
            grown = np.array(machine.indices, dtype=np.intp)
            indices: Array | None = grown
            basis = parts.kernel.take_basis(parts.training.rows, grown)
            stopped = bool(records and records[-1].get("interrupted"))
            moved = None if stopped else self._moved(parts, basis, deadline)
            if moved is not None and moved.kept:
                indices, basis, solution = None, moved.machine.basis, moved.machine.solution
                parts = replace(parts, kernel=moved.machine.kernel)
            training = replace(parts.training, kernel=parts.kernel)
            if not training.whole:
                solution = self._on_all_rows(everything, parts, basis, solution)
            model = self._build_model(training, basis, solution)
        self._publish(model, solution, training, indices)
        self.C_ = parts.C
        gamma = getattr(parts.kernel.parts[0] if self.plus_one else parts.kernel, "gamma", None)  # type: ignore[attr-defined]
        if gamma is not None:
            self.gamma_ = gamma
        self.n_kernel_evals_ = machine.columns_of.n_evals
        self.history_ = records
        if moved is not None:
            moved.publish(self)
        if stopped:
            self.interrupted_ = True
            warn_interrupted(self, f"the machine grown so far, with {self.n_basis_} basis vectors, is kept")
        elif not self.interrupted_:
            self._report(solution, deadline)
        return self

    def _moved(self, parts: _Resolved, basis: Array, deadline: float | None) -> Moved | None:
        words = {name: parts.options[name] for name in ("fit_intercept", "penalize_intercept")}
        chosen = Chosen(parts.training, parts.kernel, basis, parts.loss, parts.C, **words)
        return moved_vectors(self, chosen, deadline)

    def _on_all_rows(self, training: Training, parts: _Resolved, basis: Array, found: Solution) -> Solution:
        """Weights of a machine grown on a sample, by passes over all rows."""
        options = {name: parts.options[name] for name in ("fit_intercept", "penalize_intercept")}
        settings = Settings(tol=parts.plan.tol, max_iter=parts.plan.max_iter)
        return solve_on_all_rows(training, parts.kernel, basis, parts.loss, parts.C, found, settings, **options)

    # -- names into parts ----------------------------------------------------------------------------

    def _resolve(self, training: Training, deadline: float | None) -> _Resolved:
        kernel = training.kernel
        if self.plus_one:
            if isinstance(kernel, Precomputed):
                raise ValueError(
                    "plus_one=True is not possible with kernel='precomputed': add 1 to your kernel matrices."
                )
            kernel = kernel + 1.0
        matching = str(self.selection).startswith("kmp")
        loss = make_loss(
            ("least_squares" if matching else "squared_hinge") if self.loss is None else self.loss,
            classes=True,
            epsilon=self.epsilon,
        )
        if matching and loss.name != "least_squares":
            raise ValueError(
                f"selection={self.selection!r} is matching pursuit on the least-squares loss; got loss={self.loss!r}. "
                "Leave loss=None, or use selection='sp2' ('sp1'), the same methods on other losses."
            )
        rows = training.rows
        self._check(rows.n_rows)
        hashes = hash_rows(rows.X, training.key)
        stream = CandidateStream.of(hashes, training.key, self.pool_size)
        wanted = int(self.max_basis) if self.n_basis == "auto" else int(self.n_basis)
        plan = GrowthPlan(
            n_basis=min(wanted, len(stream.rows)),
            selection=self.selection,
            n_candidates=int(self.n_candidates),
            score_rows=self.score_rows,
            retraining=self.retraining,
            shrinking=bool(self.shrinking),
            tol=float(self.tol),
            max_iter=int(self.max_iter),
            deadline=deadline,
        )
        options = {
            "fit_intercept": bool(self.fit_intercept) and not self.plus_one,
            "penalize_intercept": bool(self.penalize_intercept),
            "memory_budget": self.memory_budget,
        }
        budget = DEFAULT_BUDGET if self.memory_budget is None else int(self.memory_budget)
        return _Resolved(training, kernel, loss, float(self.C), plan, hashes, stream, options, budget)

    def _check(self, n_rows: int) -> None:
        for name in ("max_basis", "n_iter_no_change", "pool_size"):
            value = getattr(self, name)
            if value is None and name == "pool_size":
                continue
            if not isinstance(value, Integral) or isinstance(value, bool) or value < 1:
                raise ValueError(f"{name} must be a whole number of at least 1; got {value!r}.")
        if self.cache not in (True, False, "auto"):
            raise ValueError(f"cache must be True, False or 'auto'; got {self.cache!r}.")
        if self.pool_size is not None:
            require_memory(n_rows, int(self.pool_size), self.memory_budget)

    def _columns(self, parts: _Resolved) -> KernelColumns:
        """Kernel access, with a cache where it is wanted; columns of a pool are computed at once."""
        rows, plan = parts.training.rows, parts.plan
        left = (parts.budget - 8 * rows.n_rows * (plan.n_basis + 1)) // max(1, 8 * rows.n_rows)
        pool = len(parts.stream.rows) if self.pool_size is not None else 0
        slots = min(max(left, pool), len(parts.stream.rows))
        tries = plan.n_basis * (1 if plan.selection in ("random", "cholesky", "gsvc", "bh") else plan.n_candidates)
        enough = slots >= len(parts.stream.rows) and tries >= len(parts.stream.rows)
        wanted = enough if self.cache == "auto" else bool(self.cache)
        # what is in a cache would have to be in the checkpoint too: where a column comes from may change its last bits
        wanted = wanted and current() is None
        cache = ColumnCache(rows.n_rows, slots) if pool or (wanted and slots > 0) else None
        columns = KernelColumns(rows, parts.kernel, choose_block_rows(rows.n_features), cache)
        if pool:
            columns.columns(parts.stream.rows)
        return columns

    # -- size, C and gamma ---------------------------------------------------------------------------

    def _choose_size(self, parts: _Resolved) -> _Resolved:
        """Settle C, gamma and the size by cross-validation, where the constructor asks for it."""
        by_folds = self.n_basis == "auto" and self.validation_fraction is None
        if not (self.tune or by_folds):
            return parts
        training, rows = parts.training, parts.training.rows
        assert training.labels is not None
        splits = splits_of(training, self.cv, classifier=True, random_state=training.key)
        problem = SizeProblem(
            rows=rows,
            labels=training.labels,
            decide=self._decide(training),
            hashes=parts.hashes,
            key=training.key,
            splits=splits,
            loss=parts.loss,
            plan=parts.plan,
            options=parts.options,
        )
        if not self.tune:
            errors = step("sizes", lambda: size_errors(problem, parts.kernel, parts.C))
            chosen = pick_size(np.arange(1, len(errors) + 1), np.round(errors, 12))
            self.cv_errors_ = chosen.mean_errors
            return replace(parts, plan=replace(parts.plan, n_basis=chosen.size))
        C_grid, gammas = grid_values(self.C_grid, "C_grid"), grid_values(self.gamma_grid, "gamma_grid")
        if training.kernel.name not in ("rbf", "laplacian", "poly") or not isinstance(self.kernel, str):
            gammas = gammas[:1]
            kernels = [training.kernel]
        else:
            kernels = [make_kernel(self.kernel, gamma=g, coef0=self.coef0, degree=self.degree) for g in gammas]
        tuned = step(
            "search",
            lambda: tune_grid(problem, kernels, C_grid, plus_one=self.plus_one, memory_budget=parts.budget),
            Tuned,
        )
        self.cv_errors_ = tuned.errors
        kernel = kernels[tuned.kernel] + 1.0 if self.plus_one else kernels[tuned.kernel]
        size = tuned.n_basis if by_folds else parts.plan.n_basis
        return replace(parts, kernel=kernel, C=float(C_grid[tuned.C]), plan=replace(parts.plan, n_basis=size))

    def _decide(self, training: Training) -> Callable[[Array], Array]:
        """Class numbers from raw outputs."""
        assert training.classes is not None
        return partial(get_coding(self.coding).decode, n_classes=len(training.classes))

    # -- growing -------------------------------------------------------------------------------------

    def _grow(self, parts: _Resolved) -> tuple[GrowingMachine, list[Record]]:
        training, rows, stream = parts.training, parts.training.rows, parts.stream
        assert training.labels is not None
        held: Array | None = None
        weights = None
        if self.validation_fraction is not None:
            train, held = holdout(
                training.labels, float(self.validation_fraction), classifier=True, random_state=training.key
            )
            weights = np.ones(rows.n_rows) if rows.weights is None else rows.weights.copy()
            weights[held] = 0.0
            stream = stream.within(parts.hashes, train)
        machine = GrowingMachine(
            self._columns(parts), parts.loss, parts.C, weights, capacity=parts.plan.n_basis, **parts.options
        )
        before = self._continued(machine, training, parts.plan)
        monitor = Monitor(
            labels=training.labels,
            decide=self._decide(training),
            weights=rows.weights if rows.weights is not None and rows.weights.ndim == 1 else None,
            held=held,
            patience=int(self.n_iter_no_change),
        )
        plan = replace(parts.plan, interruptible=True, resumable=True)
        records = grow(machine, stream, plan, monitor, None if held is None else monitor.enough)
        if held is not None and records and not records[-1].get("interrupted"):
            self._keep_best(machine, records, parts)
        return machine, before + records

    def _keep_best(self, machine: GrowingMachine, records: list[Record], parts: _Resolved) -> None:
        """The size with the lowest validation error, its weights fitted to all rows."""
        rows = parts.training.rows
        chosen = pick_size([r["n_basis"] for r in records], [r["validation_error"] for r in records])
        machine.truncate(chosen.size)
        machine.set_weights(np.ones(rows.n_rows) if rows.weights is None else rows.weights)
        finish(machine, parts.plan)

    def _continued(self, machine: GrowingMachine, training: Training, plan: GrowthPlan) -> list[Record]:
        """Put the basis of the last fit back (warm start); returns its history."""
        if not (self.warm_start and hasattr(self, "basis_indices_")):
            return []
        if self.basis_indices_ is None:
            raise ValueError(
                "warm_start=True continues a growth among rows, but refinement moved the vectors of the last fit away "
                "from them. Grow with refine=False first and set refine=True for the last fit, or use warm_start=False."
            )
        indices, known = np.asarray(self.basis_indices_), self.basis_vectors_
        if training.kept is not None:
            indices = np.searchsorted(training.kept, indices)
        X = training.rows.X
        same = bool(len(indices) and indices.max() < X.shape[0])
        if same and known is not None:
            found = X[indices].toarray() if training.rows.is_sparse else X[indices]
            same = found.shape == known.shape and np.array_equal(found, known)
        if not same or len(indices) > plan.n_basis:
            raise ValueError(
                f"warm_start=True continues the last fit: expected the same rows and n_basis >= {len(indices)}; "
                f"got n_basis={plan.n_basis}{'' if same else ' and other rows'}. Use warm_start=False to begin anew."
            )
        put_back(machine, indices)
        return list(self.history_)


def grid_values(values: Any, name: str) -> Array:
    """The user's grid, or the paper's."""
    grid = DEFAULT_GRID if values is None else np.asarray(values, dtype=np.float64)
    if grid.ndim != 1 or not len(grid) or not np.all(np.isfinite(grid)) or np.any(grid <= 0):
        raise ValueError(f"{name} must be a list of positive, finite numbers; got {values!r}.")
    return np.sort(grid)
