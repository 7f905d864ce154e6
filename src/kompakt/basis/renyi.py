"""Prototype rows of high quadratic Renyi entropy (De Brabanter et al. 2010, algorithm 1).

With a Gaussian kernel density estimate of bandwidths h_1..h_d the quadratic Renyi entropy of m rows is

    H = -log( S / (m^2 (4 pi)^(d/2) h_1 ... h_d) ),   S = sum_kl exp(-sum_j (x_kj - x_lj)^2 / (4 h_j^2)),

(De Brabanter et al. 2010, eq. 12, with the factor 1/(m^2 2^(d/2) |D|) of a normalised kernel). Rows are exchanged one
by one whenever that lowers S. Only the kernel matrix of the m rows and its row sums are kept, and a swap
changes one row of them: O(m).
"""

from __future__ import annotations

import logging
import math
import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from kompakt.basis.bandwidth import bandwidths, column_plug_ins
from kompakt.basis.random import dense_rows
from kompakt.data import hash_rows
from kompakt.parallel import block_threads
from kompakt.run import Run
from kompakt.spec import Basis, Data, Spec

Floats = NDArray[np.float64]
Ints = NDArray[np.intp]
_BATCH = 512  # candidates whose kernel rows are computed by one matrix product
_MAX_WIDENINGS = 30
logger = logging.getLogger(__name__)


class BlindCriterionWarning(UserWarning):
    """The entropy criterion no longer tells one set of rows from another.

    Examples
    --------
    >>> from kompakt.basis import BlindCriterionWarning
    >>> issubclass(BlindCriterionWarning, UserWarning)
    True
    """


def _gaussian(Z: Floats, W: Floats) -> Floats:
    """exp(-|z - w|^2) for all pairs of rows."""
    negative = Z @ (2.0 * W.T)
    negative -= np.einsum("ij,ij->i", Z, Z)[:, None]
    negative -= np.einsum("ij,ij->i", W, W)
    np.minimum(negative, 0.0, out=negative)
    return np.exp(negative, out=negative)


class WorkingSet:
    """The m chosen rows (scaled), their kernel matrix and its row sums, updated in O(m) per swap."""

    def __init__(self, Z: Floats) -> None:
        self.Z = Z
        self.K = _gaussian(Z, Z)
        np.fill_diagonal(self.K, 1.0)
        self.crowding = self.K.sum(axis=1) - 1.0  # similarity of each row to all others
        self.total = float(self.K.sum())  # S
        self.n_kernel_evals = self.K.size

    def replace(self, slot: int, z: Floats, kernel_row: Floats) -> None:
        """Put row `z` in `slot`; `kernel_row` (m,) is its kernel with the rows before the swap."""
        row = kernel_row.copy()
        row[slot] = 1.0
        added = float(row.sum()) - 1.0
        self.total += 2.0 * (added - float(self.crowding[slot]))
        self.crowding += row - self.K[slot]
        self.crowding[slot] = added
        self.K[slot] = row
        self.K[:, slot] = row
        self.Z[slot] = z

    def try_swaps(self, members: Ints, inside: NDArray[np.bool_], rows: Ints, Z: Floats, slots: Ints) -> int:
        """Propose rows[b] for slots[b], b = 0, 1, ..., in this order; accept what raises the entropy.

        The same decisions as one proposal after the other, but a run of rejected proposals is decided by
        one vector comparison: only an accepted swap changes the sums, and it changes one column of the
        candidates' kernel. `members` (m,) and `inside` (pool) say which rows are in; both are updated.
        """
        K = _gaussian(Z, self.Z)  # (B, m)
        self.n_kernel_evals += K.size
        sums = K.sum(axis=1)
        among: Floats | None = None
        accepted = 0
        start = 0
        while start < len(rows):
            later = slots[start:]
            own = np.take_along_axis(K[start:], later[:, None], axis=1)[:, 0]
            drop = self.crowding[later] - (sums[start:] - own)  # half the fall of S
            # A fall below the rounding of S does not raise the computed entropy.
            wanted = (drop > np.finfo(float).eps * self.total) & ~inside[rows[start:]]
            first = int(np.argmax(wanted))
            if not wanted[first]:
                break
            b, slot = start + first, int(slots[start + first])
            if among is None:
                among = _gaussian(Z, Z)
                self.n_kernel_evals += among.size
            self.replace(slot, Z[b], K[b])
            inside[members[slot]], inside[rows[b]] = False, True
            members[slot] = rows[b]
            start = b + 1
            sums[start:] += among[start:, b] - K[start:, slot]
            K[start:, slot] = among[start:, b]
            accepted += 1
        return accepted


@dataclass(frozen=True)
class _Pool:
    """Distinct rows in the order of their hash, grouped by stratum, and the slots of each stratum."""

    rows: Ints  # (p,) row numbers in X
    stratum: Ints  # (p,) stratum of each
    slot_start: Ints  # (strata,)
    slot_count: Ints  # (strata,)

    def first_members(self) -> Ints:
        """Positions in the pool of the first rows by hash of every stratum, in slot order."""
        groups = [np.flatnonzero(self.stratum == s)[:count] for s, count in enumerate(self.slot_count)]
        return np.concatenate(groups)


def allot(mass: Floats, available: Ints, n_slots: int) -> Ints:
    """Slots per stratum in proportion to `mass`, at most `available`, at least one where slots suffice."""
    n_slots = min(n_slots, int(available.sum()))
    floor = np.minimum(available, 1) if n_slots >= len(mass) else np.zeros(len(mass), dtype=np.intp)
    counts = floor.astype(np.intp)
    share = mass / mass.sum() * n_slots
    while counts.sum() < n_slots:  # one slot at a time to the stratum that lacks most; ties to the first
        lack = np.where(counts < available, share - counts, -np.inf)
        counts[int(np.argmax(lack.round(9)))] += 1  # rounded: masses summed in another order must not break a tie
    return counts


@dataclass(frozen=True)
class RenyiSelector:
    """Choose rows by swaps that raise the quadratic Renyi entropy (De Brabanter et al. 2010, algorithm 1).

    The selection depends on the rows as a set and on the seed, not on their order: the first working set and
    the order of the candidates follow a keyed hash of the rows' content, equal rows count once, rows of
    weight 0 are left out.

    Parameters
    ----------
    bandwidth : "sheather-jones", float or array of shape (d,), default="sheather-jones"
        Bandwidths of the density estimate, one per dimension; by default algorithm 2 of De Brabanter et al. 2010
        (:func:`kompakt.basis.bandwidths`).
    stratify : bool, default=True
        With labels `y`, keep the classes' shares of the slots as in the data and swap within a class only;
        the criterion is that of the whole set. Without `y` there is one stratum.
    tol : float, default=1e-4
        Stop when the entropy rose by less than this over `window` proposals.
    window : int, optional
        Default: 10 proposals per slot, at least 2000.
    max_swaps : int, default=200000
        Largest number of proposed swaps; reaching it is reported by a ``ConvergenceWarning``.
    on_blind : {"warn", "widen"}, default="warn"
        In many dimensions no row has a neighbour within its bandwidth; the entropy then is within `tol`
        of its largest value and says nothing about further swaps. "warn" reports that
        (:class:`BlindCriterionWarning` and ``info["blind"]``); "widen" doubles all bandwidths and selects
        again until the criterion sees, and says by how much in ``info["widened"]``.

    Examples
    --------
    >>> import numpy as np
    >>> from kompakt.basis import RenyiSelector
    >>> rng = np.random.default_rng(0)
    >>> X = np.concatenate([rng.normal(0, 0.1, (900, 2)), rng.normal(0, 2.0, (100, 2))])
    >>> chosen = RenyiSelector(on_blind="widen").select_rows(X, 20, rng=0)
    >>> chosen.vectors.shape, bool((chosen.indices >= 900).mean() > 0.5)
    ((20, 2), True)
    """

    bandwidth: str | float | ArrayLike = "sheather-jones"
    stratify: bool = True
    tol: float = 1e-4
    window: int | None = None
    max_swaps: int = 200_000
    on_blind: str = "warn"

    def select(self, data: Data, spec: Spec, n_basis: int, run: Run) -> Basis:
        """Choose `n_basis` rows of a source, fewer where there are fewer; the protocol of all selectors.

        The entropy is that of the inputs, so the kernel plays no part. Columns without a plug-in bandwidth, and
        bandwidths that had to be widened, are logged; a blind criterion is warned of as in `select_rows`.
        """
        rows, kernel = data.in_memory, spec.kernel
        if kernel.name == "precomputed":
            raise ValueError(
                "entropy selection needs the inputs, but kernel='precomputed' gives kernel values only; "
                "use selection='random' or pass the inputs."
            )
        self._check_choice(n_basis)
        if rows.n_rows == 1:
            only = np.zeros(1, dtype=np.intp)
            return Basis(only, kernel.take_basis(rows, only), info={"widened": 1.0, "blind": False})
        weights = rows.weights if rows.weights is None or rows.weights.ndim == 1 else rows.weights.max(axis=1)
        with block_threads():
            chosen = self._select(rows.X, n_basis, data.labels, weights, np.random.default_rng(run.key), run)
        if chosen.info["widened"] > 1:
            logger.info("the entropy criterion was blind; bandwidths widened %g times.", chosen.info["widened"])
        self._report(chosen.info, len(chosen.vectors), len(chosen.vectors))
        assert chosen.indices is not None  # prototypes are rows
        return Basis(chosen.indices, kernel.take_basis(rows, chosen.indices), chosen.scores, info=chosen.info)

    def select_rows(
        self,
        X: Any,
        n_basis: int,
        *,
        y: ArrayLike | None = None,
        weights: ArrayLike | None = None,
        rng: int | np.random.Generator | np.random.RandomState | None = None,
    ) -> Basis:
        """Choose `n_basis` rows of a matrix; substitutes and a blind criterion are reported by warnings.

        Parameters
        ----------
        X : ndarray or CSR matrix of shape (n, d)
        n_basis : int
            Number of rows; capped at the number of distinct rows, with a warning.
        y : array-like of shape (n,), optional
            Class labels for stratification.
        weights : array-like of shape (n,), optional
            Frequency weights of the rows.
        rng : int, Generator or RandomState, optional
            Same seed, same rows: same selection.

        Returns
        -------
        Basis
            ``scores`` is each row's similarity to the others (its part of the off-diagonal sum); ``info``
            holds ``entropy``, ``history`` (proposals, entropy), ``n_proposed``, ``n_accepted``,
            ``converged``, ``blind``, ``off_diagonal_share``, ``bandwidths``, ``widened`` and
            ``n_kernel_evals``.
        """
        self._check(X, n_basis)
        with block_threads():  # one BLAS thread: the same swaps at any number of cores
            chosen = self._select(X, n_basis, y, weights, _generator(rng))
        self._report(chosen.info, len(chosen.vectors), n_basis)
        return chosen

    def _select(
        self,
        X: Any,
        n_basis: int,
        y: ArrayLike | None,
        weights: ArrayLike | None,
        generator: np.random.Generator,
        run: Run | None = None,
    ) -> Basis:
        pool = self._pool(X, n_basis, y, weights, generator)
        h = self._bandwidths(X, _frequencies(weights, len(pool.rows)), quiet=run is not None)
        state = generator.bit_generator.state
        evaluations = 0
        for doubling in range(_MAX_WIDENINGS):
            generator.bit_generator.state = state  # each width sees the same proposals
            chosen = self._swap(X, pool, h * 2.0**doubling, generator, run or Run())
            evaluations += chosen.info["n_kernel_evals"]
            chosen.info.update(widened=2.0**doubling, n_kernel_evals=evaluations)
            if self.on_blind == "warn" or not chosen.info["blind"]:
                break
        return chosen

    def _check_choice(self, n_basis: int) -> None:
        if self.on_blind not in ("warn", "widen"):
            raise ValueError(f"on_blind must be 'warn' or 'widen', got {self.on_blind!r}.")
        if n_basis < 1:
            raise ValueError(f"n_basis must be at least 1, got {n_basis}.")

    def _check(self, X: Any, n_basis: int) -> None:
        self._check_choice(n_basis)
        if getattr(X, "ndim", 0) != 2 or X.shape[0] < 2:
            raise ValueError(
                f"X must be a matrix of at least 2 rows, got shape {getattr(X, 'shape', None)};"
                " pass an array or a CSR matrix."
            )

    def _bandwidths(self, X: Any, weights: ArrayLike | None, quiet: bool) -> Floats:
        if isinstance(self.bandwidth, str):
            if self.bandwidth != "sheather-jones":
                raise ValueError(f"bandwidth must be 'sheather-jones', a number or an array, got {self.bandwidth!r}.")
            return _logged_bandwidths(X, weights) if quiet else bandwidths(X, weights)
        h = np.broadcast_to(np.asarray(self.bandwidth, dtype=float), (X.shape[1],))
        if not (np.all(np.isfinite(h)) and np.all(h > 0)):
            raise ValueError(f"bandwidth must be finite and positive, got {self.bandwidth!r}.")
        return h

    def _pool(
        self, X: Any, n_basis: int, y: ArrayLike | None, weights: ArrayLike | None, rng: np.random.Generator
    ) -> _Pool:
        n = X.shape[0]
        mass = np.ones(n) if weights is None else np.asarray(weights, dtype=float)
        label = np.zeros(n, dtype=np.intp)
        if y is not None and self.stratify:
            label = np.unique(np.asarray(y), return_inverse=True)[1].reshape(n)
        hashes = hash_rows(X, int(rng.integers(2**63)))
        used = np.flatnonzero(mass > 0)
        if not used.size:
            raise ValueError("weights must not all be zero; give at least one row a positive weight.")
        # Equal rows of several classes count for the first of these classes, in whatever order they come.
        order = used[np.lexsort((label[used], hashes[used]))]
        distinct = order[np.concatenate([[True], np.diff(hashes[order]) != 0])]
        class_mass = np.bincount(label[used], weights=mass[used]).astype(np.float64)
        available = np.bincount(label[distinct], minlength=len(class_mass))
        counts = allot(class_mass, available, n_basis)
        return _Pool(distinct, label[distinct], np.cumsum(counts) - counts, counts)

    def _swap(self, X: Any, pool: _Pool, h: Floats, rng: np.random.Generator, run: Run) -> Basis:
        members = pool.first_members()
        m, scale = len(members), 1.0 / (2.0 * h)
        vectors = dense_rows(X, pool.rows[members])
        centre = vectors.mean(axis=0)  # distances are formed from inner products: keep these small
        working = WorkingSet((vectors - centre) * scale)
        inside = np.zeros(len(pool.rows), dtype=bool)
        inside[members] = True
        open_rows = np.flatnonzero(pool.slot_count[pool.stratum] > 0)

        def entropy() -> float:
            constant = 2 * math.log(m) + len(h) / 2 * math.log(4 * math.pi) + float(np.log(h).sum())
            return constant - math.log(working.total)

        window = max(2000, 10 * m) if self.window is None else self.window
        history = [(0, entropy())]
        proposed = accepted = 0
        converged = len(open_rows) == m  # nothing outside to swap in
        with run.task("selection", minor=True) as step:  # how many swaps it takes is known only at the end
            while not converged and proposed < self.max_swaps:
                size = min(_BATCH, self.max_swaps - proposed)
                rows = open_rows[rng.integers(len(open_rows), size=size)]
                stratum = pool.stratum[rows]
                slots = pool.slot_start[stratum] + (rng.random(size) * pool.slot_count[stratum]).astype(np.intp)
                Z = (dense_rows(X, pool.rows[rows]) - centre) * scale
                accepted += working.try_swaps(members, inside, rows, Z, slots)
                proposed += size
                history.append((proposed, entropy()))
                before = [e for p, e in history[-window // _BATCH - 2 :] if p <= proposed - window]
                converged = bool(before) and history[-1][1] - before[-1] < self.tol
                step()
        share = max(0.0, 1.0 - m / working.total)
        info = {
            "entropy": history[-1][1],
            "history": np.array(history),
            "n_proposed": proposed,
            "n_accepted": accepted,
            "n_kernel_evals": working.n_kernel_evals,
            "converged": converged,
            "blind": m > 1 and share < self.tol,
            "off_diagonal_share": share,
            "bandwidths": h,
        }
        indices = pool.rows[members]
        return Basis(indices, dense_rows(X, indices), scores=working.crowding.copy(), info=info)

    def _report(self, info: dict[str, Any], m: int, n_basis: int) -> None:
        if m < n_basis:
            warnings.warn(
                f"n_basis={n_basis} rows asked for, but only {m} distinct rows of positive weight exist; {m} are used.",
                UserWarning,
                stacklevel=3,
            )
        if info["blind"]:
            warnings.warn(
                f"the entropy criterion is blind: after selection its off-diagonal part is "
                f"{info['off_diagonal_share']:.1e} of the sum, so no two of the {m} rows are near each other "
                f"on the scale of the {len(info['bandwidths'])} bandwidths and further swaps are arbitrary. "
                "Use on_blind='widen', wider bandwidths or fewer features.",
                BlindCriterionWarning,
                stacklevel=3,
            )
        if not info["converged"]:
            from sklearn.exceptions import ConvergenceWarning

            warnings.warn(
                f"entropy selection still rose by tol={self.tol} or more when it reached max_swaps="
                f"{self.max_swaps}; raise max_swaps or tol.",
                ConvergenceWarning,
                stacklevel=3,
            )


def _logged_bandwidths(X: Any, weights: ArrayLike | None) -> Floats:
    """Bandwidths of all columns; those without a plug-in bandwidth are counted in the log."""
    results = column_plug_ins(X, weights)
    for status in ("constant", "discrete", "no solution"):
        columns = [j for j, result in enumerate(results) if result.status == status]
        if columns:
            shown = ", ".join(map(str, columns[:10])) + (", ..." if len(columns) > 10 else "")
            logger.info("no plug-in bandwidth for %d columns (%s): %s", len(columns), status, shown)
    return np.array([result.h for result in results])


def _frequencies(weights: ArrayLike | None, n_distinct: int) -> Floats | None:
    """Weights as numbers of rows: at least one per distinct row on average, and at most a million.

    Beyond, nobody gives so many equal rows, and the grid of the plug-in equation would grow without end.
    """
    if weights is None:
        return None
    w = np.asarray(weights, dtype=float)
    return w * np.clip(1.0, n_distinct / w.sum(), 1e6 * n_distinct / w.sum())


def _generator(rng: int | np.random.Generator | np.random.RandomState | None) -> np.random.Generator:
    if isinstance(rng, np.random.RandomState):
        return np.random.default_rng(rng.randint(2**31 - 1, size=4))
    return np.random.default_rng(rng)
