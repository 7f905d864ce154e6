"""Which rows are tried at a step: a random set that depends on the step and the seed alone (seed 001, section 4).

Distinct rows are put in the order of a keyed hash of their content; the set of step d is drawn as positions in that
order by a generator seeded with (key, d).  So it depends neither on C or the kernel, nor on the order of the rows, and
cross-validation folds, which filter one common stream, try nearly the same rows.  `Candidates` keeps to the support
vectors of the present machine (seed 000, Table 1, step 2.1).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

Array = np.ndarray

#: up to so many distinct rows a step shuffles all of them; beyond, it draws numbers and drops repetitions
_SHUFFLED = 512


@dataclass(frozen=True)
class CandidateStream:
    """Candidate rows of every step.

    Parameters
    ----------
    rows : ndarray of shape (n_distinct,)
        A row number for every distinct row, in the order of the hash; -1 where no row may be used.
    key : int
        Seed.

    Examples
    --------
    >>> import numpy as np
    >>> from kompakt.basis.candidates import CandidateStream
    >>> stream = CandidateStream.of(np.array([7, 3, 3, 9], dtype=np.uint64), key=1)
    >>> stream.rows.tolist()
    [1, 0, 3]
    >>> sorted(stream.draw(0, 5, set()).tolist())
    [0, 1, 3]
    """

    rows: Array
    key: int

    @classmethod
    def of(cls, hashes: Array, key: int, pool_size: int | None = None) -> CandidateStream:
        """The stream over the distinct rows with these hashes; `pool_size` keeps only the smallest hashes."""
        _, first = np.unique(hashes, return_index=True)
        return cls(first[:pool_size], key)

    def within(self, hashes: Array, allowed: Array) -> CandidateStream:
        """The same stream restricted to some rows: an equal row that is allowed stands in for one that is not."""
        own, first = np.unique(hashes[allowed], return_index=True)
        wanted = hashes[self.rows]
        place = np.minimum(np.searchsorted(own, wanted), len(own) - 1)
        return CandidateStream(np.where(own[place] == wanted, allowed[first[place]], -1), self.key)

    def draw(self, step: int, count: int, taken: set[int]) -> Array:
        """Row numbers to try at a step: the step's `count` rows less those taken.

        When nothing is left of them, the stream goes on to the first row that is still free, so that growth can reach
        the whole training set; empty only when every row is taken.
        """
        found: list[int] = []
        seen = 0
        for position in self._positions(step):
            row = int(self.rows[position])
            if row < 0:
                continue
            seen += 1
            if row not in taken:
                found.append(row)
            if seen >= count and found:
                break
        return np.array(found, dtype=np.intp)

    def _positions(self, step: int) -> Iterator[int]:
        """All positions in the order of this step."""
        rng = np.random.default_rng([self.key, step])
        n = len(self.rows)
        if n <= _SHUFFLED:
            yield from rng.permutation(n).tolist()
            return
        seen: set[int] = set()
        while len(seen) < n // 2:
            for position in rng.integers(0, n, size=64).tolist():
                if position not in seen:
                    seen.add(position)
                    yield position
        rest = np.setdiff1d(np.arange(n), np.fromiter(seen, dtype=np.intp))
        yield from rng.permutation(rest).tolist()


@dataclass
class Candidates:
    """Candidate rows of every step: a random order of the distinct rows that depends on seed and step alone.

    Machines that share a stream (folds, values of C) try the same rows in the same order, as far as these are
    support vectors of theirs.

    Parameters
    ----------
    distinct : ndarray of shape (P,)
        Number of the distinct row that each training row equals.
    place : ndarray of shape (D,)
        Training row that stands for a distinct row; -1 where there is none.
    key : int
        Seed.
    orders : dict
        Orders by step, to be shared between machines of the same stream.
    """

    distinct: Array
    place: Array
    key: int
    orders: dict[int, Array] = field(default_factory=dict)

    @classmethod
    def of(cls, hashes: Array, train: Array, key: int, orders: dict[int, Array] | None = None) -> Candidates:
        """Candidates among the rows `train` of all rows with these hashes."""
        unique, distinct = np.unique(hashes, return_inverse=True)
        stream = CandidateStream(np.unique(hashes, return_index=True)[1], key).within(hashes, train)
        position = np.full(len(hashes), -1, dtype=np.intp)
        position[train] = np.arange(len(train))
        place = np.where(stream.rows >= 0, position[stream.rows], -1)
        assert len(place) == len(unique)
        return cls(distinct[train], place, key, {} if orders is None else orders)

    def draw(self, step: int, count: int, support: Array, taken: set[int]) -> Array:
        """Places of up to `count` training rows among the support vectors (mask over rows) that are not taken."""
        order = self.orders.get(step)
        if order is None:
            order = np.random.default_rng([self.key, step]).permutation(len(self.place))
            self.orders[step] = order
        free = np.zeros(len(self.place), dtype=bool)
        free[self.distinct[support]] = True
        free[list(taken)] = False
        return self.place[order[free[order]][:count]]
