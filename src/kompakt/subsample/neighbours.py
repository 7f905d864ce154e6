"""Neighbours of few centres among many rows: scikit-learn's trees, or brute force where trees are useless.

No function here copies the rows whole: balls are searched block by block, and scikit-learn's searches index the
matrix they are given.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.neighbors import KDTree, NearestNeighbors

from kompakt.threads import ordered_map

Array = np.ndarray

#: from here on a k-d tree looks at nearly every point (scikit-learn's own rule draws the line there as well)
MOST_DIMENSIONS_FOR_TREES = 15
#: distances in a block of the brute-force search of balls
_BLOCK_ENTRIES = 1 << 20
#: pairs (row, centre) of a first pass that are kept for the second; others are found again
_KEPT_PAIRS = 1 << 24


def search_method(X: Any) -> str:
    """Return "kd_tree" for dense rows of few dimensions, else "brute"."""
    return "brute" if sparse.issparse(X) or X.shape[1] > MOST_DIMENSIONS_FOR_TREES else "kd_tree"


def kth_distances(V: Any, k: int) -> Array:
    """Distance of every row of V to its k-th nearest other row (step (iii)), (m,)."""
    index = NearestNeighbors(n_neighbors=k, algorithm=search_method(V)).fit(near_origin(V))
    # called without rows, scikit-learn leaves out each point itself, also among duplicates of it
    return index.kneighbors()[0][:, k - 1]


def near_origin(X: Any) -> Any:
    """X itself, or a centred copy of dense rows so far away that distances would drown in their squares.

    Brute-force searches of scikit-learn form |x|^2 - 2xz + |z|^2 in float64: it loses the digits of |x|^2 / spread^2.

    Examples
    --------
    >>> import numpy as np
    >>> from kompakt.subsample.neighbours import near_origin
    >>> near_origin(np.array([[1e9, 0.0], [1e9 + 1.0, 0.0]])).tolist()
    [[-0.5, 0.0], [0.5, 0.0]]
    """
    if sparse.issparse(X):
        return X
    some = np.asarray(X[:: max(1, X.shape[0] // 1000)], dtype=np.float64)
    centre = some.mean(axis=0)
    if float(centre @ centre) <= 1e6 * float(some.var(axis=0).sum()):
        return X
    return X - centre.astype(X.dtype)


def nearest_index(X: Any, k: int) -> NearestNeighbors:
    """Index of the rows for their k nearest neighbours; it keeps a reference to X, not a copy."""
    method = search_method(X)
    if method == "kd_tree" and not (X.dtype == np.float64 and X.flags.c_contiguous):
        method = "brute"  # the tree would make a float64 copy
    return NearestNeighbors(n_neighbors=k, algorithm=method).fit(X)


@dataclass(frozen=True)
class Pairs:
    """Rows within the radius of centres, of one block of rows: parallel arrays, rows increasing."""

    rows: Array
    centres: Array


class BallSearch:
    """Which rows lie within a radius of which centres, block by block of rows.

    The tree is built on the centres, which are few, and rows are looked up in it: so rows are never copied, and any
    row type that can be sliced will do.

    Examples
    --------
    >>> import numpy as np
    >>> from kompakt.subsample.neighbours import BallSearch
    >>> search = BallSearch(np.array([[0.0], [1.0], [5.0]]), np.array([[0.4], [5.0]]))
    >>> [(pairs.rows.tolist(), pairs.centres.tolist()) for pairs in search.blocks(0.5)]
    [([0, 2], [0, 1])]
    """

    def __init__(self, X: Any, centres: Any, method: str | None = None) -> None:
        self.X, self.centres = X, centres
        self.method = search_method(X) if method is None else method
        n, m = X.shape[0], max(1, centres.shape[0])
        self.block_rows = max(1, min(n, _BLOCK_ENTRIES // m)) if self.method == "brute" else 8192
        self._tree = KDTree(centres) if self.method == "kd_tree" else None
        self._known: tuple[float, list[tuple[Pairs, Array]]] | None = None
        if self.method == "brute":
            # distances near zero must not drown in the squares of a far-away origin
            self._shift = None if sparse.issparse(X) else np.asarray(centres, dtype=np.float64).mean(axis=0)
            self._C = self._near_origin(centres)
            self._squares = _row_squares(self._C)

    def _near_origin(self, rows: Any) -> Any:
        rows = rows.astype(np.float64) if sparse.issparse(rows) else np.asarray(rows, dtype=np.float64)
        return rows if self._shift is None else rows - self._shift

    def blocks(self, radius: float) -> Iterator[Pairs]:
        """Pairs of all blocks, in the order of the rows."""
        starts = range(0, self.X.shape[0], self.block_rows)
        return ordered_map(lambda start: self.pairs(start, radius), starts)

    def remember(self, radius: float) -> None:
        """Search once for all radii up to this one, where the pairs are few enough to be held."""
        n_blocks = -(-self.X.shape[0] // self.block_rows)
        if len(self.pairs(0, radius).rows) * n_blocks <= _KEPT_PAIRS:
            self._known = radius, [(pairs, self._distances(pairs)) for pairs in self.blocks(radius)]

    def _distances(self, pairs: Pairs) -> Array:
        apart = self.X[pairs.rows] - self.centres[pairs.centres]
        return np.sqrt(_row_squares(apart))

    def pairs(self, start: int, radius: float) -> Pairs:
        """Pairs of the block that begins with row `start`."""
        if self._known is not None and radius <= self._known[0]:
            pairs, distances = self._known[1][start // self.block_rows]
            inside = distances <= radius
            return Pairs(pairs.rows[inside], pairs.centres[inside])
        block = self.X[start : start + self.block_rows]
        rows, centres = self._in_tree(block, radius) if self._tree is not None else self._brute(block, radius)
        return Pairs(rows + start, centres)

    def _in_tree(self, block: Any, radius: float) -> tuple[Array, Array]:
        assert self._tree is not None
        found = self._tree.query_radius(block, radius)
        counts = np.fromiter((len(centres) for centres in found), dtype=np.intp, count=len(found))
        centres = np.concatenate(found).astype(np.intp) if len(found) else np.empty(0, dtype=np.intp)
        rows = np.repeat(np.arange(len(found)), counts)
        return rows, centres[np.lexsort((centres, rows))]  # the tree's own order depends on the radius

    def _brute(self, block: Any, radius: float) -> tuple[Array, Array]:
        B = self._near_origin(block)
        squares = _row_squares(B)
        products = B @ self._C.T
        D = products.toarray() if sparse.issparse(products) else products
        D *= -2.0
        D += squares[:, None]
        D += self._squares
        # |x|^2 - 2xz + |z|^2 is wrong by a few roundings of |x|^2 + |z|^2: pairs nearer to the edge are looked at again
        slack = 1e-12 * (float(squares.max(initial=0.0)) + float(self._squares.max(initial=0.0)))
        rows, centres = np.nonzero(D <= radius * radius + slack)
        edge = np.flatnonzero(np.abs(D[rows, centres] - radius * radius) <= slack)
        if len(edge):
            apart = B[rows[edge]] - self._C[centres[edge]]
            inside = np.sqrt(_row_squares(apart)) <= radius
            keep = np.ones(len(rows), dtype=bool)
            keep[edge] = inside
            rows, centres = rows[keep], centres[keep]
        return rows, centres


def _row_squares(A: Any) -> Array:
    if sparse.issparse(A):
        return np.asarray(A.multiply(A).sum(axis=1)).ravel()
    return np.einsum("ij,ij->i", A, A)


def draw_from_balls(
    search: BallSearch, radius: float, share: Any, allowed: Array, rng: np.random.Generator
) -> tuple[Array, Array]:
    """Sample from every ball without replacement; the union of what was drawn.

    Parameters
    ----------
    search : BallSearch
    radius : float
    share : callable
        Takes the number of allowed rows in each ball, (m,), and gives the number wanted, real, (m,).  The part after
        the point is the chance of one row more, so that the expectation is met.
    allowed : ndarray of bool, shape (n,)
        Rows that may be drawn.
    rng : Generator

    Returns
    -------
    (rows, counts)
        Sorted row numbers, each once, and the number of allowed rows in every ball.

    Notes
    -----
    One pass counts, the other draws: of the rows wanted from a ball, the number that falls in a block is
    hypergeometric given what the blocks before it gave.  So memory is bounded by the blocks, not by the balls.
    """
    m = search.centres.shape[0]
    counts = np.zeros(m, dtype=np.int64)
    kept: list[Pairs | None] = []
    n_kept = 0
    for pairs in search.blocks(radius):
        inside = allowed[pairs.rows]
        pairs = Pairs(pairs.rows[inside], pairs.centres[inside])
        counts += np.bincount(pairs.centres, minlength=m)
        n_kept += len(pairs.rows)
        kept.append(pairs if n_kept <= _KEPT_PAIRS else None)
    wanted = np.clip(np.asarray(share(counts), dtype=np.float64), 0.0, counts)
    missing = np.minimum(np.floor(wanted + rng.random(m)).astype(np.int64), counts)
    left = counts.copy()
    drawn = np.zeros(search.X.shape[0], dtype=bool)
    for number, stored in enumerate(kept):
        block = stored
        if block is None:
            block = search.pairs(number * search.block_rows, radius)
            inside = allowed[block.rows]
            block = Pairs(block.rows[inside], block.centres[inside])
        here = np.bincount(block.centres, minlength=m)
        take = rng.hypergeometric(here, left - here, missing)
        left, missing = left - here, missing - take
        drawn[_some_of_each(block, here, take, rng)] = True
    return np.flatnonzero(drawn), counts


def _some_of_each(block: Pairs, here: Array, take: Array, rng: np.random.Generator) -> Array:
    """Rows of a block: `take[j]` of the `here[j]` rows of ball j, at random."""
    if not len(block.rows):
        return block.rows
    whole = (take == here)[block.centres]  # nothing to choose
    some = (take < here) & (take > 0)
    partly = np.flatnonzero(some[block.centres])
    centres = block.centres[partly]
    order = partly[np.lexsort((rng.random(len(partly)), centres))]
    here, take = here[some], take[some]
    rank = np.arange(len(order)) - np.repeat(np.cumsum(here) - here, here)
    return np.concatenate([block.rows[whole], block.rows[order[rank < np.repeat(take, here)]]])
