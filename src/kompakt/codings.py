"""Codings: class indices -> target matrix with L outputs -> one score per class.

Every coding is a code matrix with one row per class and one column per binary output, holding +1 (positive
side), -1 (negative side) or 0 (the class takes no part in that output). Two classes are always one output,
+1 for class index 1, so a binary machine does not depend on the coding.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.intp]


def class_pairs(n_classes: int) -> IntArray:
    """Pairs of classes in the order LIBSVM writes them: (0, 1), (0, 2), ..., (k - 2, k - 1).

    Parameters
    ----------
    n_classes : int
        Number of classes k.

    Returns
    -------
    ndarray of shape (k (k - 1) / 2, 2)
        The two class indices of each pair, the smaller one first.

    Examples
    --------
    >>> from kompakt.codings import class_pairs
    >>> class_pairs(3).tolist()
    [[0, 1], [0, 2], [1, 2]]
    """
    first, second = np.triu_indices(_checked_n_classes(n_classes), k=1)
    return np.column_stack([first, second])


def _checked_n_classes(n_classes: int) -> int:
    if n_classes < 2:
        raise ValueError(f"A coding needs at least 2 classes, got {n_classes}. Check that y holds more than one label.")
    return int(n_classes)


class Coding(ABC):
    """How classes become binary outputs, and outputs scores of the classes."""

    name: ClassVar[str] = ""

    @abstractmethod
    def n_outputs(self, n_classes: int) -> int:
        """Number of binary outputs for this many classes."""

    @abstractmethod
    def _many_codes(self, n_classes: int) -> FloatArray:
        """Code matrix for at least three classes."""

    def first_votes(self, n_classes: int) -> float | None:
        """Votes that a class has before any output is counted; None if outputs are scores and nothing is counted."""
        return None

    def codes(self, n_classes: int) -> FloatArray:
        """Code matrix of shape (n_classes, n_outputs) with entries -1, 0 and +1."""
        if _checked_n_classes(n_classes) == 2:
            return np.array([[-1.0], [1.0]])
        return self._many_codes(int(n_classes))

    def encode(self, class_index: ArrayLike, n_classes: int) -> FloatArray:
        """Targets (n, n_outputs) of rows whose classes are given as indices; 0 marks an unused row."""
        index = np.asarray(class_index)
        if index.ndim != 1:
            raise ValueError(f"class_index must have shape (n,), got {index.shape}.")
        if index.size and not np.issubdtype(index.dtype, np.integer):
            raise TypeError(
                f"class_index must hold integers 0 .. n_classes - 1, got dtype {index.dtype}. "
                "Turn labels into indices first, as numpy.unique(y, return_inverse=True) does."
            )
        codes = self.codes(n_classes)
        if index.size and (index.min() < 0 or index.max() >= len(codes)):
            raise ValueError(
                f"class_index must lie in 0 .. {len(codes) - 1} for {len(codes)} classes, "
                f"got values from {index.min()} to {index.max()}."
            )
        return codes[index.astype(np.intp, copy=False)]

    def scores(self, F: ArrayLike, n_classes: int) -> FloatArray:
        """Decision values per class: (n,) for two classes, else (n, n_classes) whose argmax is the class."""
        values = np.asarray(F, dtype=np.float64)
        expected = self.n_outputs(n_classes)
        if values.ndim == 1 and expected == 1:
            values = values[:, None]
        if values.ndim != 2 or values.shape[1] != expected:
            raise ValueError(
                f"{self.name} with {n_classes} classes has {expected} outputs, so F must have shape "
                f"(n, {expected}), got {values.shape}."
            )
        if n_classes == 2:
            return values[:, 0]
        if (votes := self.first_votes(n_classes)) is None:
            return values
        # A class gains half a vote where an output has its sign and loses one where not (zero counts as negative).
        # Margins are squashed to (-1/3, 1/3), so that they decide only among classes with equal votes.
        codes = self._many_codes(n_classes).T
        margins = np.clip(values, -1e300, 1e300) @ codes  # sums that do not overflow
        return votes + np.where(values > 0, 0.5, -0.5) @ codes + margins / (3.0 * (np.abs(margins) + 1.0))

    def decode(self, F: ArrayLike, n_classes: int) -> IntArray:
        """Class indices (n,) of output values F (n, n_outputs)."""
        scores = self.scores(F, n_classes)
        return (scores > 0).astype(np.intp) if scores.ndim == 1 else np.argmax(scores, axis=1)


class OneVsRest(Coding):
    """One output per class, positive for that class and negative for all others.

    Examples
    --------
    >>> from kompakt.codings import OneVsRest
    >>> OneVsRest().codes(3).astype(int).tolist()
    [[1, -1, -1], [-1, 1, -1], [-1, -1, 1]]
    """

    name: ClassVar[str] = "one_vs_rest"

    def n_outputs(self, n_classes: int) -> int:
        return 1 if _checked_n_classes(n_classes) == 2 else int(n_classes)

    def _many_codes(self, n_classes: int) -> FloatArray:
        return 2.0 * np.eye(n_classes) - 1.0


class OneVsOne(Coding):
    """One output per pair of classes, in the order of `class_pairs`; other rows are unused (target 0).

    The output of the pair (i, j), i < j, is positive for class j, which agrees with the two-class rule
    (+1 for class index 1). LIBSVM counts class i as positive: its values are the negative of these.

    A class scores its votes plus its summed margins squashed to less than a third of a vote either way,
    so margins decide only among classes with equal votes.

    Examples
    --------
    >>> from kompakt.codings import OneVsOne
    >>> OneVsOne().codes(3).astype(int).tolist()
    [[-1, -1, 0], [1, 0, -1], [0, 1, 1]]
    """

    name: ClassVar[str] = "one_vs_one"

    def n_outputs(self, n_classes: int) -> int:
        count = _checked_n_classes(n_classes)
        return count * (count - 1) // 2

    def _many_codes(self, n_classes: int) -> FloatArray:
        pairs = class_pairs(n_classes)
        outputs = np.arange(len(pairs))
        codes = np.zeros((n_classes, len(pairs)))
        codes[pairs[:, 0], outputs] = -1.0
        codes[pairs[:, 1], outputs] = 1.0
        return codes

    def first_votes(self, n_classes: int) -> float:
        return 0.5 * (n_classes - 1)  # half of its outputs


class MinimumOutput(Coding):
    """The fewest outputs that tell the classes apart: ceil(log2(n_classes)), the binary digits of the index.

    Used for several classes by De Brabanter et al. 2010 (Table 6). A class scores minus its Hamming distance to
    the signs of the outputs, plus its summed margins squashed to less than a third; so the nearest code wins
    and margins decide among equally near codes (they exist when n_classes is no power of two).

    Examples
    --------
    >>> from kompakt.codings import MinimumOutput
    >>> MinimumOutput().codes(3).astype(int).tolist()
    [[-1, -1], [-1, 1], [1, -1]]
    """

    name: ClassVar[str] = "minimum_output"

    def n_outputs(self, n_classes: int) -> int:
        return (_checked_n_classes(n_classes) - 1).bit_length()

    def _many_codes(self, n_classes: int) -> FloatArray:
        places = np.arange(self.n_outputs(n_classes))[::-1]
        digits = (np.arange(n_classes)[:, None] >> places) & 1
        return 2.0 * digits.astype(np.float64) - 1.0

    def first_votes(self, n_classes: int) -> float:
        return -0.5 * self.n_outputs(n_classes)  # so that votes are minus the Hamming distance


CODINGS: dict[str, Coding] = {coding.name: coding for coding in (OneVsRest(), OneVsOne(), MinimumOutput())}


def get_coding(name: str | Coding) -> Coding:
    """Coding of this name; a coding object is returned as it is.

    Parameters
    ----------
    name : str or coding object
        One of the keys of `CODINGS`.

    Returns
    -------
    Coding
        The coding.

    Examples
    --------
    >>> from kompakt.codings import get_coding
    >>> get_coding("minimum_output").n_outputs(26)
    5
    """
    if isinstance(name, Coding):
        return name
    names = ", ".join(map(repr, sorted(CODINGS)))
    if not isinstance(name, str):
        raise TypeError(f"A coding is a name ({names}) or a `Coding`, got {type(name).__name__}.")
    if name not in CODINGS:
        raise ValueError(f"Unknown coding {name!r}; choose from {names}.")
    return CODINGS[name]
