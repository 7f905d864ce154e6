"""Piecewise-linear transforms of single features: sums of ramps between knots, with a slope for each."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import numpy as np

from kompakt.parallel import numba_available

Array = np.ndarray

#: pieces of a transform: what the benchmarks of the learned transform were made with
PIECES = 8
#: pieces at most: their numbers are bytes in files and on devices
_MOST_PIECES = 255
#: by how much rounding may move a knot or a slope, relative to the largest of its feature
_VISIBLE = 1e-3


@dataclass(frozen=True, eq=False)
class PiecewiseLinear:
    """``phi_f(x) = sum_k slopes[f, k] r_fk(x)`` for every feature f.

    The ramps are ``r_f1 = min(x, t_f1)`` and ``r_fk = clip(x, t_f,k-1, t_fk) - t_f,k-1``: together they are x itself,
    so slopes of one are the identity.

    Parameters
    ----------
    knots : ndarray of shape (d, K - 1)
        Ascending in every row; infinity where a feature has fewer.
    slopes : ndarray of shape (d, K)
        Of the pieces between the knots, free in sign.

    Examples
    --------
    >>> import numpy as np
    >>> from kompakt.piecewise import PiecewiseLinear
    >>> bend = PiecewiseLinear(knots=np.array([[1.0]]), slopes=np.array([[1.0, 0.5]]))
    >>> bend(np.array([[0.0], [1.0], [3.0]])).ravel()
    array([0., 1., 2.])
    """

    knots: Array
    slopes: Array

    def __post_init__(self) -> None:
        knots, slopes = (np.asarray(numbers, dtype=np.float64) for numbers in (self.knots, self.slopes))
        if slopes.ndim != 2 or knots.shape != (len(slopes), slopes.shape[1] - 1) or not np.all(np.isfinite(slopes)):
            raise ValueError(
                "a piecewise-linear transform needs finite slopes of shape (d, K) and knots of shape (d, K - 1); got "
                f"shapes {slopes.shape} and {knots.shape}."
            )
        if np.any(np.isnan(knots)) or np.any(knots[:, 1:] < knots[:, :-1]):
            raise ValueError("the knots of a feature must ascend, with infinity for those that it does not have.")
        if slopes.shape[1] > _MOST_PIECES:
            raise ValueError(f"a feature has at most {_MOST_PIECES} pieces; got {slopes.shape[1]}.")
        object.__setattr__(self, "knots", knots)
        object.__setattr__(self, "slopes", slopes)

    @classmethod
    def identity(cls, X: Array, pieces: int = PIECES) -> PiecewiseLinear:
        """The identity, with knots at quantiles of the rows; between the values where a feature has few of them.

        A feature with two values has no knot: a line through both points does all that a transform could.
        """
        knots = np.full((X.shape[1], pieces - 1), np.inf)
        shares = np.linspace(0, 1, pieces + 1)[1:-1]
        for feature in range(X.shape[1]):
            values = np.unique(X[:, feature])
            if len(values) <= 2:
                continue
            at = np.unique(np.quantile(X[:, feature], shares))
            if len(at) < pieces - 1:  # quantiles meet where one value is frequent
                between = (values[1:] + values[:-1]) / 2
                at = between if len(between) < pieces else np.unique(np.quantile(values, shares))
            knots[feature, : len(at)] = at
        return cls(knots, np.ones((X.shape[1], pieces)))

    @property
    def n_numbers(self) -> int:
        """Numbers that a file or a device stores: knots, and a slope for every piece."""
        return int(2 * np.sum(np.isfinite(self.knots)) + len(self.knots))

    def __call__(self, X: Array) -> Array:
        """The features phi(x), (n, d), in the type of the rows."""
        columns = _columns(X)
        bent = np.empty_like(columns)
        _loops()[0](columns, *self.bounds(bent.dtype), self.slopes.T.astype(bent.dtype), bent)
        return bent.T

    def slope_gradient(self, X: Array, upstream: Array) -> Array:
        """The derivative of ``sum_if upstream_if phi_f(x_if)`` with respect to the slopes, (d, K)."""
        columns = _columns(X)
        sums = np.zeros(self.slopes.T.shape)
        _loops()[1](columns, *self.bounds(columns.dtype), _columns(upstream).astype(columns.dtype, copy=False), sums)
        return sums.T

    def nearest(self, bent: Array) -> Array:
        """Features x, (n, d), whose transform is nearest to `bent`; of several, the one nearest to zero.

        A transform that rises all the way takes every value once.  One that turns takes some values more than once, and
        some never.

        Examples
        --------
        >>> import numpy as np
        >>> from kompakt.piecewise import PiecewiseLinear
        >>> turning = PiecewiseLinear(knots=np.array([[1.0]]), slopes=np.array([[1.0, -0.5]]))
        >>> turning.nearest(np.array([[0.5], [7.0]])).ravel()
        array([0.5, 1. ])
        """
        bent = np.asarray(bent, dtype=np.float64)
        nearest, least = np.zeros(bent.shape), np.full(bent.shape, np.inf)
        begins, ends = self.bounds(np.float64)
        begins = np.concatenate([np.full_like(ends[:1], -np.inf), np.where(np.isfinite(self.knots.T), begins, np.inf)])
        for begin, end, slope in zip(begins, ends, self.slopes.T, strict=True):
            anchor = np.clip(0.0, begin, end)  # a point of the piece: where it is flat, the one nearest to zero
            exists = np.isfinite(anchor) & (begin < end)
            anchor = np.where(exists, anchor, 0.0)
            steps = (bent - self(anchor[None])) / np.where(slope == 0, np.inf, slope)
            x = np.clip(anchor + steps, begin, np.where(exists, end, np.inf))
            error = np.where(exists, np.abs(self(np.where(exists, x, 0.0)) - bent), np.inf)
            margin = 1e-9 * (1.0 + np.abs(bent))
            nearer = (error < least - margin) | ((error < least + margin) & (np.abs(x) < np.abs(nearest)))
            nearest, least = np.where(nearer, x, nearest), np.where(nearer, error, least)
        return nearest

    def of_line(self, factor: Array, shift: Array) -> tuple[PiecewiseLinear, Array]:
        """phi' and c with ``phi(factor x + shift) = phi'(x) + c`` for positive factors (d,) and shifts (d,).

        Examples
        --------
        >>> import numpy as np
        >>> from kompakt.piecewise import PiecewiseLinear
        >>> bend = PiecewiseLinear(knots=np.array([[1.0]]), slopes=np.array([[1.0, 0.5]]))
        >>> of_line, constant = bend.of_line(np.array([2.0]), np.array([3.0]))
        >>> of_line(np.array([[4.0]])) + constant, bend(np.array([[11.0]]))
        (array([[6.]]), array([[6.]]))
        """
        line = PiecewiseLinear((self.knots - shift[:, None]) / factor[:, None], self.slopes * factor[:, None])
        zero = np.zeros((1, len(shift)))
        return line, (self(zero + shift) - line(zero))[0]

    def arrays(self) -> dict[str, Array]:
        """Number of pieces of every feature (d,), and all knots and slopes there are, one feature after the other."""
        there = np.isfinite(self.knots)
        pieces = 1 + there.sum(axis=1)
        sloped = np.arange(self.slopes.shape[1]) < pieces[:, None]
        return {"pieces": pieces.astype(np.uint8), "knots": self.knots[there], "slopes": self.slopes[sloped]}

    @classmethod
    def of_arrays(cls, pieces: Array, knots: Array, slopes: Array) -> PiecewiseLinear:
        """The transform that `arrays` describes.

        Examples
        --------
        >>> import numpy as np
        >>> from kompakt.piecewise import PiecewiseLinear
        >>> bends = PiecewiseLinear.of_arrays(np.array([1, 2]), np.array([0.5]), np.array([2.0, 1.0, 3.0]))
        >>> bends.slopes
        array([[2., 1.],
               [1., 3.]])
        """
        pieces = np.asarray(pieces, dtype=np.int64)
        n_pieces = int(pieces.sum()) if pieces.ndim == 1 and len(pieces) and pieces.min() >= 1 else -1
        if knots.shape != (n_pieces - pieces.size,) or slopes.shape != (n_pieces,) or not np.all(np.isfinite(knots)):
            raise ValueError(
                "a piecewise-linear transform needs at least one piece for every feature, a slope for every piece and "
                f"a finite knot between two of a feature; got {pieces.shape} numbers of pieces that sum to "
                f"{pieces.sum()}, {knots.shape} knots and {slopes.shape} slopes."
            )
        place = np.arange(pieces.max())
        padded_knots, padded_slopes = np.full((len(pieces), len(place) - 1), np.inf), np.ones((len(pieces), len(place)))
        padded_knots[place[:-1] < pieces[:, None] - 1] = knots
        padded_slopes[place < pieces[:, None]] = slopes
        return cls(padded_knots, padded_slopes)

    def rounded(self) -> PiecewiseLinear:
        """With knots and slopes in half precision; in single where that moves one visibly, relative to its feature.

        Examples
        --------
        >>> import numpy as np
        >>> from kompakt.piecewise import PiecewiseLinear
        >>> PiecewiseLinear(knots=np.array([[1e-9]]), slopes=np.array([[0.1, 0.7]])).rounded().slopes
        array([[0.09997559, 0.70019531]])
        """
        return PiecewiseLinear(_in_fewer_bits(self.knots), _in_fewer_bits(self.slopes))

    def with_slopes(self, slopes: Array) -> PiecewiseLinear:
        """The same knots with other slopes."""
        return replace(self, slopes=np.reshape(slopes, self.slopes.shape))

    def bounds(self, dtype: Any) -> tuple[Array, Array]:
        """Where every piece but the first begins, (K - 1, d), and where every piece ends, (K, d).

        The last piece of a feature has no end; those that it does not have begin and end at zero.
        """
        missing = ~np.isfinite(self.knots.T)
        begins = np.where(missing, 0.0, self.knots.T)
        ends = np.concatenate([self.knots.T, np.full((1, len(self.knots)), np.inf)])
        ends[1:][missing] = 0.0
        return np.ascontiguousarray(begins, dtype=dtype), np.ascontiguousarray(ends, dtype=dtype)


def _in_fewer_bits(values: Array) -> Array:
    """Finite numbers (d, k) in the shortest type of float that keeps them to a thousandth of the largest of a row."""
    sizes = np.where(np.isfinite(values), np.abs(values), 0.0).max(axis=1, initial=0.0, keepdims=True)
    for dtype in (np.float16, np.float32):
        with np.errstate(over="ignore", invalid="ignore"):
            short = values.astype(dtype).astype(np.float64)
            near = np.abs(short - values) <= _VISIBLE * sizes
        if np.all(near | (short == values)):
            return short
    return values


def _columns(X: Array) -> Array:
    """The features one after the other, (d, n): a pass over a column is several times as fast as one over rows."""
    return np.ascontiguousarray(X.T, dtype=np.result_type(X.dtype, np.float32))


def _ramps(columns: Array, begins: Array, ends: Array) -> Iterator[Array]:
    """The ramps of all features, one piece after the other."""
    yield np.minimum(columns, ends[0][:, None])
    for begin, end in zip(begins, ends[1:], strict=True):
        yield np.clip(columns, begin[:, None], end[:, None]) - begin[:, None]


def _bend(columns: Array, begins: Array, ends: Array, slopes: Array, bent: Array) -> None:
    bent[:] = 0
    for ramp, slope in zip(_ramps(columns, begins, ends), slopes, strict=True):
        bent += slope[:, None] * ramp


def _slope_sums(columns: Array, begins: Array, ends: Array, upstream: Array, sums: Array) -> None:
    for ramp, total in zip(_ramps(columns, begins, ends), sums, strict=True):
        total += np.einsum("fi,fi->f", ramp, upstream, dtype=np.float64)


def _loops() -> tuple[Callable[..., None], Callable[..., None]]:
    """`_bend` and `_slope_sums`, without arrays of ramps where Numba is installed."""
    return _compiled() if numba_available() else (_bend, _slope_sums)


@cache
def _compiled() -> tuple[Callable[..., None], Callable[..., None]]:
    import numba

    # comparisons are written so that NaN stays NaN
    @numba.njit(nogil=True, error_model="numpy", fastmath={"contract"}, cache=True)
    def bend(columns, begins, ends, slopes, bent):  # type: ignore[no-untyped-def]
        for f in range(columns.shape[0]):
            end, slope = ends[0, f], slopes[0, f]
            for i in range(columns.shape[1]):
                x = columns[f, i]
                bent[f, i] = slope * (end if x > end else x)
            for k in range(len(begins)):
                begin, end, slope = begins[k, f], ends[k + 1, f], slopes[k + 1, f]
                if begin == end:
                    continue
                for i in range(columns.shape[1]):
                    x = columns[f, i]
                    x = begin if x < begin else x
                    bent[f, i] += slope * ((end if x > end else x) - begin)

    @numba.njit(nogil=True, error_model="numpy", fastmath={"contract", "reassoc"}, cache=True)
    def slope_sums(columns, begins, ends, upstream, sums):  # type: ignore[no-untyped-def]
        for f in range(columns.shape[0]):
            end, total = ends[0, f], 0.0
            for i in range(columns.shape[1]):
                x = columns[f, i]
                total += upstream[f, i] * (end if x > end else x)
            sums[0, f] += total
            for k in range(len(begins)):
                begin, end, total = begins[k, f], ends[k + 1, f], 0.0
                if begin == end:
                    continue
                for i in range(columns.shape[1]):
                    x = columns[f, i]
                    x = begin if x < begin else x
                    total += upstream[f, i] * ((end if x > end else x) - begin)
                sums[k + 1, f] += total

    return bend, slope_sums
