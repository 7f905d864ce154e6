"""The frozen result of every method in kompakt: it decides and predicts, and knows nothing of how it was trained.

f(x) = sum_j weights_j k(x', basis_j) + intercept,   x' = inputs(x)
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np

from kompakt import calibration as calibrations
from kompakt.codings import get_coding
from kompakt.data import ArrayRows
from kompakt.data.checks import RowError, canonical, refuse_non_finite
from kompakt.imports import sparse
from kompakt.inputs import FLOATS, Inputs, in_one_layout
from kompakt.kernels import Kernel, Precomputed
from kompakt.parallel import block_threads
from kompakt.record import TrainingRecord

Array = np.ndarray

KINDS = ("classifier", "regressor", "outlier")
#: what the outputs of a regressor are of its values
LINKS = ("identity", "log")
#: the largest logarithm of a value
_LARGEST_LOG = 709.0
#: types of the small numbers of a rounded model, the smaller one first; the largest of each
STORAGES = ("int8", "float16")
LARGEST_LEVEL, _LARGEST_HALF = 127, 65504.0
#: bits that the levels of a map, of vectors and of weights may have; maps had sixteen in earlier files
BITS = (4, 6, 8)
#: bytes of a number that is not a level: a step, an intercept, a shift or a scale, the square of a vector
_BYTES_BESIDE = 2
#: basis vectors at which outputs are looked at, and the share of their spread above which rounding counts as visible
_LOOKED_AT, _VISIBLE = 1_000, 1e-3
#: multiplications of a product that BLAS never spreads over threads, so that nothing need be set up for it
_FEW = 1 << 13
#: kernel values or outputs that a block of rows has at most, where rows are not much wider than that
_BLOCK_VALUES = 1 << 21
#: how far from the origin float64 can square numbers, twice: kernel values of distances are the same at both
_REACHES = (1e140, 1e150)


@dataclass(frozen=True, eq=False)
class Storage:
    """How a rounded model is kept: its basis and weights are small numbers times a step, which are what is stored.

    Parameters
    ----------
    dtype : {"int8", "float16"}
        Type of the small numbers: whole numbers from -127 to 127, or half precision.
    basis_steps : ndarray of shape (d,), or (r,) with a map
        Step of every column of the basis.
    weight_steps : ndarray of shape (L,)
        Step of the weights of every output.
    map_steps : ndarray of shape (r,), optional
        Step of every row of a map of the inputs, which is whole numbers times it.
    bits : tuple of int
        Of whole numbers: bits of the map, of the basis and of the weights, of which one is the sign.

    Examples
    --------
    >>> import numpy as np
    >>> from kompakt.model import Storage
    >>> storage = Storage("int8", np.array([0.5]), np.array([0.1]))
    >>> small = storage.small(np.array([[1.6], [-2.0]]), storage.basis_steps)
    >>> small.tolist(), storage.values(small, storage.basis_steps).tolist()
    ([[3], [-4]], [[1.5], [-2.0]])
    """

    dtype: str
    basis_steps: Array
    weight_steps: Array
    map_steps: Array | None = None
    bits: tuple[int, int, int] = (8, 8, 8)

    def __post_init__(self) -> None:
        if self.dtype not in STORAGES:
            raise ValueError(f"storage must be one of {STORAGES}; got {self.dtype!r}.")
        if len(self.bits) != 3 or not all(bits in BITS for bits in self.bits[1:]) or self.bits[0] not in (*BITS, 16):
            raise ValueError(f"bits of map, vectors and weights must be of {BITS} each; got {self.bits}.")
        for name in ("basis_steps", "weight_steps", "map_steps"):
            if getattr(self, name) is None:
                continue
            steps = np.asarray(getattr(self, name)).astype(np.float32).astype(np.float64)  # what a file holds
            if steps.ndim != 1 or not np.all(np.isfinite(steps) & (steps > 0)):
                raise ValueError(f"{name} must hold positive numbers of float32, one per column.")
            object.__setattr__(self, name, steps)

    def small(self, values: Array, steps: Array) -> Array:
        """The small numbers whose multiples are nearest to the values."""
        small = np.asarray(values, dtype=np.float64) / steps
        if self.dtype == "float16":
            return np.asarray(np.clip(small, -_LARGEST_HALF, _LARGEST_HALF), dtype=np.float16)
        return np.asarray(np.clip(np.rint(small), -LARGEST_LEVEL, LARGEST_LEVEL), dtype=np.int8)

    def small_map(self, input_map: Array) -> Array:
        """The whole numbers of a map."""
        assert self.map_steps is not None
        levels, largest = np.rint(input_map / self.map_steps[:, None]), largest_level(self.bits[0])
        return np.asarray(np.clip(levels, -largest, largest), dtype=np.int16 if self.bits[0] == 16 else np.int8)

    def values(self, small: Array, steps: Array) -> Array:
        """What small numbers stand for."""
        return np.asarray(small.astype(np.float64) * steps)

    def holds(self, values: Array, steps: Array) -> bool:
        """Whether the values are multiples of the steps by small numbers, up to their last digits."""
        if values.shape[1:] != steps.shape:
            return False
        return bool(np.allclose(self.values(self.small(values, steps), steps), values, rtol=1e-5, atol=0.0))


def largest_level(bits: int) -> int:
    """The largest whole number of so many bits, of which one is the sign; the smallest is its negative."""
    return int((1 << (bits - 1)) - 1)


def stored_bytes(
    n_vectors: int,
    n_features: int,
    n_outputs: int = 1,
    *,
    rank: int | None = None,
    bits: tuple[int, int, int] = (8, 8, 8),
    scaling: int = 2,
    shared_steps: bool = True,
    n_pieces: int = 0,
) -> int:
    """Bytes of all numbers that a model of whole numbers needs to predict, as the integers of `to_c` hold them.

    Levels take their bits; steps, intercepts, shift and scale, and the square of every vector take two bytes each.
    Labels, names, and the code with its table of 66 bytes are not counted.

    Parameters
    ----------
    n_vectors, n_features, n_outputs : int
    rank : int, default=None
        Rows of a map of the inputs; None without one.
    bits : tuple of int
        Of map, vectors and weights.
    scaling : int
        Numbers of every feature: 2 for a shift and a scale, which one width per feature is too, 1 for one of them.
    shared_steps : bool
        Whether the weights of all outputs have one step.
    n_pieces : int
        Of the piecewise-linear transform of each feature, d (2 K - 1) knots and slopes; 0 without.

    Examples
    --------
    >>> from kompakt.model import stored_bytes
    >>> stored_bytes(30, 16, 10)  # vectors and squares, weights and intercepts, shift and scale
    924
    >>> stored_bytes(30, 16, 10, rank=8, bits=(4, 6, 8))
    704
    """
    map_bits, vector_bits, weight_bits = bits
    n_inputs = n_features if rank is None else rank
    levels = 0 if rank is None else -(-rank * n_features * map_bits // 8)
    levels += -(-n_vectors * n_inputs * vector_bits // 8) + -(-n_vectors * n_outputs * weight_bits // 8)
    beside = n_vectors + n_outputs + (0 if rank is None else rank) + (0 if shared_steps else n_outputs)
    beside += n_features * (scaling + (2 * n_pieces - 1 if n_pieces else 0))
    return levels + _BYTES_BESIDE * beside + (n_features if n_pieces else 0)


@dataclass(frozen=True, eq=False)
class Interval:
    """How far from a prediction the value of a new row lies, with a given probability.

    The interval of output l is f_l(x) -+ reach_l s_l(x), where s = 1, or the noise at x: an output of its own on the
    same basis vectors, but at least `floor`.

    Parameters
    ----------
    level : float
        The probability, between 0 and 1.
    reach : ndarray of shape (L,)
    weights : ndarray of shape (m, L), optional
        Weights of the noise; with them `intercept` and `floor`, both (L,).

    Examples
    --------
    >>> import numpy as np
    >>> from kompakt.model import Interval
    >>> Interval(0.9, np.array([2.0])).around(np.array([[5.0]])).tolist()
    [[[3.0, 7.0]]]
    """

    level: float
    reach: Array
    weights: Array | None = None
    intercept: Array | None = None
    floor: Array | None = None

    def __post_init__(self) -> None:
        given = [values is not None for values in (self.weights, self.intercept, self.floor)]
        sound = isinstance(self.level, float) and 0 < self.level < 1 and len(set(given)) == 1
        for name, values in self.arrays().items():
            array = np.ascontiguousarray(values, dtype=np.float64)
            shape = (len(array), len(self.reach)) if name == "weights" else np.shape(self.reach)
            sound &= array.shape == shape and bool(np.isfinite(array).all())
            object.__setattr__(self, name, array)
        if not sound or np.any(self.reach < 0):
            raise ValueError(
                "an interval has a level between 0 and 1, a reach >= 0 for every output, and none or all of weights, "
                f"intercept and floor of the noise; got level {self.level!r} and {sorted(self.arrays())}."
            )

    def arrays(self) -> dict[str, Array]:
        """The arrays that it has, by name."""
        named = {name: getattr(self, name) for name in ("reach", "weights", "intercept", "floor")}
        return {name: values for name, values in named.items() if values is not None}

    def around(self, values: Array, noise: Array | None = None) -> Array:
        """Lower and upper bounds (n, L, 2) of predictions (n, L), with the outputs of the noise where it has some."""
        reach = self.reach if noise is None or self.floor is None else self.reach * np.maximum(noise, self.floor)
        return np.stack([values - reach, values + reach], axis=-1)


@dataclass(frozen=True, eq=False)
class Model:
    """A trained machine with m basis vectors and L outputs.

    Its arrays are kept in C order, as float32 or float64: the layout that files give back, so that a loaded model
    answers with the same bits.

    Parameters
    ----------
    kernel : Kernel
    basis : ndarray of shape (m, d), or (m, r) with a map
        Basis vectors as the kernel sees them, after `inputs`; column numbers for a precomputed kernel.
    weights : ndarray of shape (m, L)
    intercept : ndarray of shape (L,)
    kind : {"classifier", "regressor", "outlier"}
    n_features : int
        Of a row of numbers; the columns of a table become so many.
    classes : ndarray, optional
        Labels in the order of the scores (classifier).
    coding : str, optional
        How L outputs become scores of the classes.
    inputs : Inputs
        What happens to a row before the kernel.  A model that fills gaps takes rows with NaN; one with a schema takes a
        pandas, polars or pyarrow table, or a mapping of names to columns, besides the encoded features as numbers.
    feature_names : ndarray of str, optional
    calibration : dict, optional
        Arrays by which decision values become probabilities; see `kompakt.calibration`.
    squeeze : bool
        Whether a single regression output is returned as (n,).
    link : {"identity", "log"}
        What the outputs of a regressor are: its values, or their logarithms.
    meta : dict
        Plain facts about the training (strings and numbers).
    record : TrainingRecord, optional
        What is known of the training: settings tried and why these, timings, versions, a digest of the data.
    storage : Storage, optional
        Of a model that was rounded by `compress`: how files keep its basis and weights, in 8 or 16 bits.
    interval : Interval, optional
        Of a regressor: how far from its predictions new values lie.
    ordered : bool
        Whether the outputs of a regressor are quantiles of rising levels: every row's are sorted, so that none crosses
        another (Chernozhukov et al. 2010).

    Examples
    --------
    >>> import numpy as np
    >>> from kompakt import Model
    >>> from kompakt.kernels import Linear
    >>> model = Model(Linear(), np.ones((1, 1)), np.array([[2.0]]), np.zeros(1), "regressor", n_features=1)
    >>> model.predict(np.array([[3.0]]))
    array([6.])
    """

    kernel: Kernel
    basis: Array
    weights: Array
    intercept: Array
    kind: str
    n_features: int
    classes: Array | None = None
    coding: str | None = None
    inputs: Inputs = field(default_factory=Inputs)
    feature_names: Array | None = None
    calibration: dict[str, Array] | None = None
    squeeze: bool = True
    link: str = "identity"
    meta: dict[str, Any] = field(default_factory=dict)
    record: TrainingRecord | None = None
    storage: Storage | None = None
    interval: Interval | None = None
    ordered: bool = False

    def __post_init__(self) -> None:
        for name in ("basis", "weights", "intercept"):
            object.__setattr__(self, name, in_one_layout(getattr(self, name)))
        m, L = self.weights.shape
        if self.kind not in KINDS:
            raise ValueError(f"kind must be one of {KINDS}; got {self.kind!r}.")
        if self.link not in LINKS or (self.link != "identity" and self.kind != "regressor"):
            raise ValueError(f"link must be one of {LINKS}, the first unless for a regressor; got {self.link!r}.")
        if len(self.basis) != m or self.intercept.shape != (L,):
            raise ValueError(
                f"basis, weights and intercept do not fit: {len(self.basis)} vectors, weights {self.weights.shape}, "
                f"intercept {self.intercept.shape}; expected (m, d), (m, L), (L,)."
            )
        inputs = self.inputs
        if inputs.bends is not None and (len(inputs.bends.slopes) != self.n_features or inputs.centre is not None):
            raise ValueError(
                f"the bends of the inputs must be those of {self.n_features} features, and go without centre; got "
                f"{len(inputs.bends.slopes)}{'' if inputs.centre is None else ' and a centre'}."
            )
        if inputs.map is not None:
            n_inputs = self.basis.shape[1] if self.basis.ndim == 2 else -1
            if inputs.map.shape != (n_inputs, self.n_features) or inputs.centre is not None:
                raise ValueError(
                    f"the map of the inputs must have shape ({n_inputs}, {self.n_features}), a row for each number of "
                    f"a basis vector and a column for each feature, and goes without centre; got {inputs.map.shape}"
                    f"{'' if inputs.centre is None else ' and a centre'}."
                )
        if (self.kind == "classifier") != (self.classes is not None):
            raise ValueError("a classifier needs classes, and only a classifier has them.")
        if self.storage is not None and not (
            self.storage.holds(self.basis, self.storage.basis_steps)
            and self.storage.holds(self.weights, self.storage.weight_steps)
            and (self.storage.map_steps is None or self._map_is_stored(self.storage, self.storage.map_steps))
        ):
            raise ValueError(
                f"basis, weights or map are not multiples of the steps of their storage as {self.storage.dtype}; a "
                "model with other vectors or weights goes without storage, until compress rounds it."
            )
        if self.interval is not None:
            noise = self.interval.weights
            if self.kind != "regressor" or self.interval.reach.shape != (L,) or (noise is not None and len(noise) != m):
                raise ValueError(
                    f"the interval does not fit a {self.kind} with {m} vectors and {L} outputs: only a regressor has "
                    "one, with a reach for every output and weights of the noise for every vector."
                )
        if inputs.schema is not None and inputs.schema.n_features != self.n_features:
            raise ValueError(
                f"the table schema makes {inputs.schema.n_features} features, but the model has {self.n_features}."
            )

    def _map_is_stored(self, storage: Storage, steps: Array) -> bool:
        input_map = self.inputs.map
        if input_map is None or steps.shape != (len(input_map),):
            return False
        return bool(np.allclose(storage.small_map(input_map) * steps[:, None], input_map, rtol=1e-5, atol=0.0))

    def __repr__(self) -> str:
        """One line without the arrays, whatever their size."""
        facts = [self.kind, str(self.kernel), f"{self.n_basis_:,} vectors", f"{self.n_features:,} features"]
        if self.classes is not None:
            shown = [str(label)[:30] for label in self.classes[:5]]
            labels = [label if label.isprintable() else ascii(label) for label in shown]
            more = ", ..." if len(self.classes) > 5 else ""
            facts.append(f"{len(self.classes):,} classes ({', '.join(labels)}{more})")
        elif self.weights.shape[1] != 1:
            facts.append(f"{self.weights.shape[1]:,} outputs")
        if self.link != "identity":
            facts.append("of logarithms")
        facts += self.inputs.describe()
        if self.calibration is not None:
            facts.append("calibrated")
        if self.interval is not None:
            facts.append(f"{100 * self.interval.level:g} % intervals")
        if self.storage is not None:
            facts.append(f"stored as {self.storage.dtype}")
        return f"<Model: {', '.join(facts)}>"

    # -- what a user asks of it ----------------------------------------------------------------------

    @property
    def classes_(self) -> Array:
        """Labels in the order of the scores."""
        if self.classes is None:
            raise AttributeError(f"a {self.kind} has no classes.")
        return self.classes

    @property
    def n_basis_(self) -> int:
        """Number of basis vectors."""
        return len(self.basis)

    @property
    def n_numbers(self) -> int:
        """Numbers that the machine consists of: vectors, weights, intercepts, and a map and bends of the inputs."""
        inputs = self.inputs
        of_inputs = (0 if inputs.map is None else inputs.map.size) + (inputs.bends.n_numbers if inputs.bends else 0)
        return self.basis.size + self.weights.size + self.intercept.size + of_inputs

    @property
    def basis_vectors_(self) -> Array | None:
        """Basis vectors in the units of the input; None for a precomputed kernel.

        With a map of the inputs they are the shortest vectors that are mapped to those of the model; with bends, those
        that come nearest (`Inputs.inverse`).
        """
        return None if self.kernel.name == "precomputed" else self.inputs.inverse(self.basis)

    @property
    def widths(self) -> Any:
        """The kernel's gamma: a number, or one per feature (with a map A, the diagonal of A'A); NaN without one."""
        gamma = getattr(self.kernel, "gamma", np.nan)
        A = self.inputs.map
        return gamma if A is None else np.einsum("rf,rf,r->f", A, A, np.broadcast_to(gamma, len(A)))

    @property
    def stored_bytes(self) -> int:
        """Bytes of the numbers that a prediction needs: see `stored_bytes`; four for each of a model of floats.

        Examples
        --------
        >>> import numpy as np
        >>> from kompakt import Model
        >>> from kompakt.kernels import RBF
        >>> Model(RBF(1.0), np.ones((5, 3)), np.ones((5, 1)), np.zeros(1), "regressor", n_features=3).stored_bytes
        88
        """
        (m, r), L, inputs, storage = self.basis.shape, self.weights.shape[1], self.inputs, self.storage
        widths = np.size(getattr(self.kernel, "gamma", 1)) > 1 and inputs.map is None
        scaling = (inputs.shift is not None) + (inputs.scale is not None or widths)
        # knots and slopes, and how many of them every feature has
        bent = 0 if inputs.bends is None else _BYTES_BESIDE * inputs.bends.n_numbers + self.n_features
        if storage is not None and storage.dtype == "int8":
            shared = bool(np.all(storage.weight_steps == storage.weight_steps[0]))
            rank = None if inputs.map is None else r
            return bent + stored_bytes(
                m, self.n_features, L, rank=rank, bits=storage.bits, scaling=scaling, shared_steps=shared
            )
        size = 4 if storage is None else 2
        numbers = int(size * (m * (r + L))) + 4 * L + (0 if inputs.map is None else 4 * inputs.map.size)
        return int(2 * bent + numbers + (4 if storage is not None else 1) * 4 + 4 * scaling * self.n_features)

    @cached_property
    def needs_float64(self) -> bool:
        """Whether weights are so large that float32 kernel values would change the outputs visibly.

        Large weights of both signs cancel out: what is left of 1e9 times a value that is rounded to 1e-7 is noise.
        """
        m = len(self.basis)
        if isinstance(self.kernel, Precomputed) or not m:
            return False
        basis = self.basis.astype(np.float64)
        basis = basis if self.inputs.centre is None else basis - self.inputs.centre
        some = basis[:: -(-m // _LOOKED_AT)]
        K = self.kernel.block(some, basis)
        outputs = K @ self.weights
        size = np.ptp(outputs, axis=0) if len(some) > 1 else np.abs(outputs[0])
        rounding = np.finfo(np.float32).eps * (np.abs(K).max(axis=0) @ np.abs(self.weights))
        return bool(np.any(rounding > _VISIBLE * size))

    def outputs(self, X: Any) -> Array:
        """Raw outputs f(x), (n, L)."""
        return self.collect(X, lambda F: F)

    def collect(self, X: Any, finish: Callable[[Array], Array]) -> Array:
        """`finish(F)` of the raw outputs F (rows, L) of all rows, block by block: nothing else is held of all rows.

        `finish` gives one entry per row, and the entry of a row depends on its own outputs only.

        The outputs of finite rows are finite, or an error names the first row where they overflow.
        """
        X = self._checked(X)
        n, (m, L) = X.shape[0], self.weights.shape

        def answers(X: Any, start: int = 0) -> Array:
            with np.errstate(over="ignore", invalid="ignore"):  # `_recomputed` looks after both
                F = self._kernel_outputs(self._transformed(X, start))
                return finish(F if math.isfinite(np.vdot(F, F)) else self._recomputed(F, X, start))

        if n * m * max(self.n_features, L) <= _FEW:
            return answers(X)
        entry = finish(np.zeros((1, L)))
        block_rows = min(1024, max(16, _BLOCK_VALUES // max(m, L, 1)))
        with block_threads():
            return ArrayRows(X).collect(
                lambda block: answers(block.X, block.start),
                block_rows,
                np.empty((n, *entry.shape[1:]), entry.dtype),
            )

    def _kernel_outputs(self, rows: Any) -> Array:
        """Raw outputs of rows as the kernel sees them."""
        Z = self.basis
        if rows.dtype == np.float32 and self.needs_float64:
            rows = rows.astype(np.float64)
        if self.inputs.centre is not None and not sparse.issparse(rows):
            centre = self.inputs.centre.astype(rows.dtype, copy=False)
            rows, Z = rows - centre, Z - centre
        # distances of sparse rows are formed in float64 (see `ArrayRows`)
        K = self.kernel.block(rows.astype(np.float64, copy=False) if sparse.issparse(rows) else rows, Z)
        F: Array = (K @ self.weights.astype(K.dtype, copy=False)).astype(np.float64, copy=False) + self.intercept
        return F

    def _recomputed(self, F: Array, X: Any, start: int) -> Array:
        """F with rows that are not finite computed again; raises `RowError` if they overflow once more.

        What overflowed in float32 has room in float64.  Distances too large to be squared are as good as infinite:
        rows are pulled in to where a kernel of distances no longer changes, if there is such a place.
        """
        bad = np.flatnonzero(~np.isfinite(F).all(axis=1))
        if not len(bad):
            return F
        rows = X[bad].astype(np.float64)
        reaches = _REACHES if self.kernel.shift_invariant else (None, None)
        near, far = (self._kernel_outputs(self._transformed(rows, reach=reach)) for reach in reaches)
        F[bad] = np.where(near == far, far, np.nan)
        for row in bad[~np.isfinite(F[bad]).all(axis=1)][:1]:
            raise RowError(
                f"The outputs of {{}} are not finite: its numbers, up to {abs(X[row]).max():.2g}, are beyond what the "
                f"kernel {str(self.kernel).replace('{', '(')} can be computed for. Check the units of the row.",
                start + int(row),
            )
        return F

    def decision_function(self, X: Any) -> Array:
        """Decision values: (n,) for two classes and outliers, (n, n_classes) in the order of `classes_`."""
        return self.collect(X, self.scores)

    def scores(self, F: Array) -> Array:
        """Decision values from raw outputs."""
        if self.kind == "classifier":
            assert self.classes is not None
            if len(self.classes) == 1:
                return np.zeros(len(F))
            return get_coding(self.coding or "one_vs_rest").scores(F, len(self.classes))
        if self.ordered:
            return np.sort(F, axis=1)
        values = np.exp(np.minimum(F, _LARGEST_LOG)) if self.link == "log" else F
        return values[:, 0] if self.squeeze and F.shape[1] == 1 else values

    def predict(self, X: Any) -> Array:
        """Labels (classifier), values (regressor) or +1 / -1 (outlier detector)."""
        return self.collect(X, lambda F: self.labels(self.scores(F)))

    def predict_interval(self, X: Any) -> Array:
        """Lower and upper bounds of every prediction, (n, 2), or (n, L, 2) where predictions are (n, L)."""
        if self.interval is None:
            raise AttributeError("this machine has no intervals; fit a CompactSVR with interval=0.9, or another level.")
        interval, L = self.interval, self.weights.shape[1]

        def bounds(F: Array) -> Array:
            around = interval.around(F[:, :L], F[:, L:] if interval.weights is not None else None)
            around = np.exp(np.minimum(around, _LARGEST_LOG)) if self.link == "log" else around
            return around[:, 0] if self.squeeze and L == 1 else around

        return self._with_noise.collect(X, bounds)

    @cached_property
    def _with_noise(self) -> Model:
        """The model with the noise as further outputs."""
        if self.interval is None or self.interval.weights is None:
            return self
        assert self.interval.intercept is not None
        weights = np.hstack([self.weights.astype(np.float64), self.interval.weights])
        intercept = np.concatenate([self.intercept, self.interval.intercept])
        return replace(self, weights=weights, intercept=intercept, interval=None, storage=None)

    def labels(self, scores: Array) -> Array:
        """Predictions from decision values: always their argmax for a classifier."""
        if self.kind == "regressor":
            return scores
        if self.kind == "outlier":
            return np.where(scores >= 0, 1, -1)
        assert self.classes is not None
        best = (scores > 0).astype(np.intp) if scores.ndim == 1 else np.argmax(scores, axis=1)
        return np.asarray(self.classes[best])

    def predict_proba(self, X: Any) -> Array:
        """Class probabilities from the stored calibration, (n, n_classes)."""
        return self.collect(X, lambda F: self.probabilities(self.scores(F)))

    def probabilities(self, scores: Array) -> Array:
        """Class probabilities from decision values."""
        return calibrations.probabilities(self._calibrated(), scores)

    def predict_log_proba(self, X: Any) -> Array:
        """Logarithms of the class probabilities, (n, n_classes); finite where a probability rounds to zero."""
        return self.collect(X, lambda F: self._log_probabilities(self.scores(F)))

    def _log_probabilities(self, scores: Array) -> Array:
        return calibrations.log_probabilities(self._calibrated(), scores)

    def _calibrated(self) -> dict[str, Array]:
        if self.calibration is None or self.classes is None:
            raise AttributeError(
                "this machine has no calibration; fit with calibrate=True or use CalibratedClassifierCV."
            )
        return self.calibration

    def with_threshold(self, threshold: float, *, probability: bool = False) -> Model:
        """The model of two classes that predicts the second one from another decision value on, or probability.

        Decision values are lowered by the threshold, so that the sign decides as before, here and in every export.

        Examples
        --------
        >>> import numpy as np
        >>> from kompakt import Model
        >>> from kompakt.kernels import Linear
        >>> fields = {"kind": "classifier", "n_features": 1, "classes": np.array(["no", "yes"])}
        >>> model = Model(Linear(), np.ones((1, 1)), np.array([[2.0]]), np.zeros(1), **fields)
        >>> model.predict([[1.0]]), model.with_threshold(3.0).predict([[1.0]])
        (array(['yes'], dtype='<U3'), array(['no'], dtype='<U3'))
        """
        if self.classes is None or len(self.classes) != 2:
            raise ValueError(f"a threshold is for two classes; this is a {self} model.")
        if probability:
            if self.calibration is None or not 0 < threshold < 1:
                raise ValueError(
                    f"a threshold of probability needs a calibrated model and a number between 0 and 1, got {threshold}"
                )
            threshold = calibrations.score_of(self.calibration, threshold)
        threshold = float(np.nextafter(threshold, -np.inf))  # scikit-learn's thresholds belong to the second class
        calibration = None if self.calibration is None else calibrations.moved(self.calibration, threshold)
        return replace(self, intercept=self.intercept - threshold, calibration=calibration)

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Share of right labels (classifier) or R squared (regressor), as the estimators' `score`.

        Examples
        --------
        >>> import numpy as np
        >>> from kompakt import Model
        >>> from kompakt.kernels import Linear
        >>> model = Model(Linear(), np.ones((1, 1)), np.array([[2.0]]), np.zeros(1), "regressor", n_features=1)
        >>> model.score(np.array([[1.0], [2.0], [3.0]]), [2.0, 4.0, 6.0])
        1.0
        """
        from sklearn.metrics import accuracy_score, r2_score  # slow to import, and prediction goes without

        if self.kind == "outlier":
            raise AttributeError("an outlier detector has no score: rows have no targets to compare with.")
        measure = accuracy_score if self.kind == "classifier" else r2_score
        return float(measure(y, self.predict(X), sample_weight=sample_weight))

    def _checked(self, X: Any) -> Any:
        """X as an array or CSR matrix of the right width; what arrays are refused for by an estimator is refused."""
        if not isinstance(X, np.ndarray):
            X = self.inputs.encoded(X)
            X = canonical(X.tocsr()) if sparse.issparse(X) else np.asarray(X)
        if X.dtype.kind == "c":
            raise ValueError("X holds complex numbers; expected real ones.")
        if X.ndim != 2:
            raise ValueError(f"X must have two dimensions (rows, features); got shape {X.shape}.")
        if X.shape[1] != self.n_features:
            raise ValueError(f"X has {X.shape[1]} features, but this model expects {self.n_features}.")
        return X

    def unmapped(self, X: Any) -> Any:
        """Checked rows before they are mapped."""
        return replace(self.inputs, map=None).transform(self.inputs.filled(np.asarray(X, dtype=np.float64)))

    def _transformed(self, X: Any, first: int = 0, reach: float | None = None) -> Any:
        """Checked rows as the kernel sees them, the first of them being number `first` in messages."""
        dtype = X.dtype if X.dtype in FLOATS else np.dtype(np.float64)
        X = X.astype(dtype, copy=False) if sparse.issparse(X) else np.ascontiguousarray(X, dtype=dtype)
        X = self.inputs.filled(X)
        refuse_non_finite(X, first)
        X = self.inputs.transform(X, reach)
        return X if self.storage is None else X.astype(dtype, copy=False)

