"""Range files of ``svm-scale``: their reader, and the scaling they describe."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from kompakt.formats.errors import ModelFileError
from kompakt.formats.files import opened
from kompakt.formats.libsvm_text import _integer, _number, _shown

_MAX_LINE = 1 << 16  # a line holds three numbers; a longer one is no range file and is not read into memory


@dataclass(frozen=True, eq=False)
class RangeFile:
    """What a range file says, unchanged.

    Parameters
    ----------
    lower, upper : float
        Where each feature's minimum and maximum go.
    index : ndarray of int
        Column of each listed feature, from 0 and increasing; ``svm-scale`` lists no feature that was constant.
    minimum, maximum : ndarray
        One value per listed feature.
    target : tuple of 4 floats, optional
        lower, upper, minimum and maximum of the target (``svm-scale -y``).

    Examples
    --------
    >>> import numpy as np
    >>> from kompakt.formats import RangeFile
    >>> ranges = RangeFile(-1.0, 1.0, np.array([1]), np.array([10.0]), np.array([20.0]))
    >>> ranges.apply(np.array([[7.0, 15.0]]))
    array([[0., 0.]])
    """

    lower: float
    upper: float
    index: np.ndarray
    minimum: np.ndarray
    maximum: np.ndarray
    target: tuple[float, float, float, float] | None = None

    def apply(self, X: np.ndarray) -> np.ndarray:
        """Dense rows as ``svm-scale -r`` scales them: features that are not listed, or constant, become 0."""
        X = np.asarray(X, dtype=np.float64)
        width = int(self.index[-1]) + 1 if len(self.index) else 0
        if X.ndim != 2 or X.shape[1] < width:
            raise ValueError(f"X has shape {X.shape}; the range file lists features up to number {width}.")
        varies = self.maximum != self.minimum
        columns, low, high = self.index[varies], self.minimum[varies], self.maximum[varies]
        result = np.zeros(X.shape)
        result[:, columns] = self.lower + (self.upper - self.lower) * ((X[:, columns] - low) / (high - low))
        return result


def read_range(path: str | os.PathLike[str]) -> RangeFile:
    r"""Read a range file that ``svm-scale -s`` or kompakt wrote.

    Parameters
    ----------
    path : path-like

    Returns
    -------
    RangeFile

    Raises
    ------
    ModelFileError
        For anything that is no range file; the message names the line.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> from kompakt.formats import read_range
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder, "iris.range")
    ...     _ = path.write_text("x\n-1 1\n1 4.3 7.9\n2 2 4.4\n")
    ...     read_range(path).maximum
    array([7.9, 4.4])
    """
    with opened(path) as (file, _):
        lines = _numbered(iter(lambda: file.readline(_MAX_LINE), b""))
        number, tokens = _next(lines, "x")
        target = None
        if tokens == [b"y"]:
            limits, extent = _numbers(*_next(lines, "limits of y"), 2), _numbers(*_next(lines, "range of y"), 2)
            target = (limits[0], limits[1], extent[0], extent[1])
            number, tokens = _next(lines, "x")
        if tokens != [b"x"]:
            raise ModelFileError(f"line {number}: expected 'x', got {_shown(b' '.join(tokens))}.")
        lower, upper = _numbers(*_next(lines, "lower and upper limit"), 2)
        if not lower < upper:
            raise ModelFileError(f"the lower limit {lower} is not below the upper limit {upper}.")
        index, minimum, maximum = _read_features(lines)
    return RangeFile(lower, upper, index, minimum, maximum, target)


def _numbered(lines: Iterator[bytes]) -> Iterator[tuple[int, list[bytes]]]:
    for number, line in enumerate(lines, start=1):
        if len(line) == _MAX_LINE:
            raise ModelFileError(f"line {number} has more than {_MAX_LINE} bytes; a range file has short lines.")
        if tokens := line.split():
            yield number, tokens


def _next(lines: Iterator[tuple[int, list[bytes]]], what: str) -> tuple[int, list[bytes]]:
    try:
        return next(lines)
    except StopIteration:
        raise ModelFileError(f"the file ends where {what} should stand; it is no range file of svm-scale.") from None


def _numbers(number: int, tokens: list[bytes], count: int) -> list[float]:
    if len(tokens) != count:
        raise ModelFileError(f"line {number}: {len(tokens)} values; expected {count}.")
    try:
        return [_number(token) for token in tokens]
    except ValueError as error:
        raise ModelFileError(f"line {number}: {_shown(str(error).encode())}.") from None


def _read_features(lines: Iterator[tuple[int, list[bytes]]]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    index: list[int] = []
    extents: list[list[float]] = []
    for number, tokens in lines:
        extent = _numbers(number, tokens, 3)[1:]
        try:
            column = _integer(tokens[0]) - 1
        except ValueError as error:
            raise ModelFileError(f"line {number}: {_shown(str(error).encode())}.") from None
        if column <= (index[-1] if index else -1):
            raise ModelFileError(f"line {number}: feature numbers start at 1 and must increase; got {column + 1}.")
        if extent[0] > extent[1]:
            raise ModelFileError(f"line {number}: the minimum {extent[0]} is above the maximum {extent[1]}.")
        index.append(column)
        extents.append(extent)
    minimum, maximum = np.array(extents, dtype=np.float64).reshape(-1, 2).T
    return np.array(index, dtype=np.int64), minimum, maximum
