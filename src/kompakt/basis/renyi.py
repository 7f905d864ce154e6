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
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray
from sklearn.exceptions import ConvergenceWarning

from kompakt.basis.bandwidth import bandwidths
from kompakt.data import hash_rows, row_weights
from kompakt.kernels import RBF
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


#: exp(-|z - w|^2)
_gaussian = RBF(1.0).block


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
    bandwidth : {"sheather-jones", "paper"}, float or array of shape (d,), default="sheather-jones"
        Bandwidths of the density estimate, one per dimension; by default algorithm 2 of De Brabanter et al. 2010
        (:func:`kompakt.basis.bandwidth.bandwidths`) with the constants of R's ``bw.SJ``; "paper" has those printed,
        which differ by up to 15 % on skewed columns. Columns that have none are counted in the log.
    stratify : bool, default=True
        With labels, keep the classes' shares of the slots as in the data and swap within a class only;
        the criterion is that of the whole set. Without labels there is one stratum.
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
    >>> from kompakt.data import ArrayRows
    >>> from kompakt.kernels import RBF
    >>> from kompakt.run import Run
    >>> from kompakt.spec import Data, Spec
    >>> rng = np.random.default_rng(0)
    >>> X = np.concatenate([rng.normal(0, 0.1, (900, 2)), rng.normal(0, 2.0, (100, 2))])
    >>> chosen = RenyiSelector(on_blind="widen").select(Data(ArrayRows(X)), Spec(RBF(1.0)), 20, Run(key=0))
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
        """Choose `n_basis` rows, fewer where there are fewer distinct ones of positive weight.

        The entropy is that of the inputs, so the kernel plays no part. ``scores`` is each row's similarity to the
        others (its part of the off-diagonal sum); ``info`` holds ``entropy``, ``history`` (proposals, entropy),
        ``n_proposed``, ``n_accepted``, ``converged``, ``blind``, ``off_diagonal_share``, ``bandwidths``, ``widened``
        and ``n_kernel_evals``.
        """
        if spec.kernel.name == "precomputed":
            raise ValueError(
                "entropy selection needs the inputs, but kernel='precomputed' gives kernel values only; "
                "use selection='random' or pass the inputs."
            )
        if self.on_blind not in ("warn", "widen"):
            raise ValueError(f"on_blind must be 'warn' or 'widen', got {self.on_blind!r}.")
        if n_basis < 1:
            raise ValueError(f"n_basis must be at least 1, got {n_basis}.")
        generator = np.random.default_rng(run.key)
        evaluations = 0
        with block_threads():  # one BLAS thread: the same swaps at any number of cores
            mass = row_weights(data.rows)
            pool, label, counts = self._pool(data, mass, n_basis, int(generator.integers(2**63)))
            h = self._bandwidths(data.in_memory.X, None if data.rows.weights is None else _frequencies(mass, len(pool)))
            state = generator.bit_generator.state
            for doubling in range(_MAX_WIDENINGS):
                generator.bit_generator.state = state  # each width sees the same proposals
                members, scores, info = self._swap(
                    data.in_memory.X, pool, label, counts, h * 2.0**doubling, generator, run
                )
                evaluations += info["n_kernel_evals"]
                info |= {"widened": 2.0**doubling, "n_kernel_evals": evaluations}
                if self.on_blind == "warn" or not info["blind"]:
                    break
        self._report(info, len(members))
        return Basis(members, spec.kernel.take_basis(data.rows, members), scores, info=info)

    def _bandwidths(self, X: Any, weights: Floats | None) -> Floats:
        if isinstance(self.bandwidth, str):
            if self.bandwidth not in ("sheather-jones", "paper"):
                raise ValueError(
                    f"bandwidth must be 'sheather-jones', 'paper', a number or an array, got {self.bandwidth!r}."
                )
            found = bandwidths(X, weights, printed=self.bandwidth == "paper")
            for status in ("constant", "discrete", "no solution"):
                columns = [j for j, column in enumerate(found) if column.status == status]
                if columns:
                    shown = ", ".join(map(str, columns[:10])) + (", ..." if len(columns) > 10 else "")
                    logger.info("no plug-in bandwidth for %d columns (%s): %s", len(columns), status, shown)
            return np.array([column.h for column in found])
        h = np.broadcast_to(np.asarray(self.bandwidth, dtype=float), (X.shape[1],))
        if not (np.all(np.isfinite(h)) and np.all(h > 0)):
            raise ValueError(f"bandwidth must be finite and positive, got {self.bandwidth!r}.")
        return h

    def _pool(self, data: Data, mass: Floats, n_basis: int, key: int) -> tuple[Ints, Ints, Ints]:
        """Distinct rows in the order of their hash, the stratum of each, and the slots of every stratum."""
        label = data.labels if data.labels is not None and self.stratify else np.zeros(len(mass), dtype=np.intp)
        hashes = hash_rows(data.in_memory.X, key)
        used = np.flatnonzero(mass > 0)
        # Equal rows of several classes count for the first of these classes, in whatever order they come.
        order = used[np.lexsort((label[used], hashes[used]))]
        distinct = order[np.append(True, np.diff(hashes[order]) != 0)]
        class_mass = np.bincount(label[used], weights=mass[used]).astype(np.float64)
        available = np.bincount(label[distinct], minlength=len(class_mass))
        return distinct, label[distinct], allot(class_mass, available, n_basis)

    def _swap(
        self, X: Any, pool: Ints, label: Ints, counts: Ints, h: Floats, rng: np.random.Generator, run: Run
    ) -> tuple[Ints, Floats, dict[str, Any]]:
        """Row numbers of the chosen rows, their similarities to the others, and what happened."""
        slot_start = np.cumsum(counts) - counts
        # the first rows by hash of every stratum, in slot order
        members = np.concatenate([np.flatnonzero(label == s)[:count] for s, count in enumerate(counts)])
        m, scale = len(members), 1.0 / (2.0 * h)
        vectors = _dense(X, pool[members])
        centre = vectors.mean(axis=0)  # distances are formed from inner products: keep these small
        working = WorkingSet((vectors - centre) * scale)
        inside = np.zeros(len(pool), dtype=bool)
        inside[members] = True
        open_rows = np.flatnonzero(counts[label] > 0)
        constant = 2 * math.log(m) + len(h) / 2 * math.log(4 * math.pi) + float(np.log(h).sum())
        window = max(2000, 10 * m) if self.window is None else self.window
        history = [(0, constant - math.log(working.total))]
        proposed = accepted = 0
        converged = len(open_rows) == m  # nothing outside to swap in
        with run.task("selection", minor=True) as step:  # how many swaps it takes is known only at the end
            while not converged and proposed < self.max_swaps:
                size = min(_BATCH, self.max_swaps - proposed)
                rows = open_rows[rng.integers(len(open_rows), size=size)]
                stratum = label[rows]
                slots = slot_start[stratum] + (rng.random(size) * counts[stratum]).astype(np.intp)
                Z = (_dense(X, pool[rows]) - centre) * scale
                accepted += working.try_swaps(members, inside, rows, Z, slots)
                proposed += size
                history.append((proposed, constant - math.log(working.total)))
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
        return pool[members], working.crowding, info

    def _report(self, info: dict[str, Any], m: int) -> None:
        if info["widened"] > 1:
            logger.info("the entropy criterion was blind; bandwidths widened %g times.", info["widened"])
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
            warnings.warn(
                f"entropy selection still rose by tol={self.tol} or more when it reached max_swaps="
                f"{self.max_swaps}; raise max_swaps or tol.",
                ConvergenceWarning,
                stacklevel=3,
            )


def _dense(X: Any, index: Ints) -> Floats:
    """Some rows of a dense or CSR matrix as dense float64; no other row is made dense."""
    return np.asarray(X[index].toarray() if sp.issparse(X) else X[index], dtype=np.float64)


def _frequencies(weights: Floats, n_distinct: int) -> Floats:
    """Weights as numbers of rows: at least one per distinct row on average, and at most a million.

    Beyond, nobody gives so many equal rows, and the grid of the plug-in equation would grow without end.
    """
    return np.asarray(weights * np.clip(1.0, n_distinct / weights.sum(), 1e6 * n_distinct / weights.sum()))
