"""Which rows are tried at a step: a random set that depends on the step and the seed alone (seed 001, section 4).

Distinct rows are put in the order of a keyed hash of their content; the set of step d is drawn as positions in that
order by a generator seeded with (key, d).  So it depends neither on C or the kernel, nor on the order of the rows, and
cross-validation folds, which filter one common stream, try nearly the same rows.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

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
    >>> from kompakt.grow.candidates import CandidateStream
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
