"""Ridge regression at many amounts of one penalty, from one eigendecomposition."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.linalg import eigh, lapack

Array = np.ndarray


@dataclass(frozen=True)
class RidgePath:
    """Coordinates in which the normal matrices gram + amount * penalty of all amounts are diagonal.

    Features turned by the rotation B have B' gram B = diag(squares) and B' penalty B = diag(penalties) / unit.

    Examples
    --------
    >>> import numpy as np
    >>> from kompakt.solve.ridge import RidgePath
    >>> Phi, y = np.array([[1.0, 0.0], [1.0, 2.0]]), np.array([1.0, 2.0])
    >>> path = RidgePath.of(Phi.T @ Phi)
    >>> turned = Phi @ path.rotation
    >>> w = path.rotation @ ((turned.T @ y) / path.normal(0.5))
    >>> bool(np.allclose(w, np.linalg.solve(Phi.T @ Phi + 0.5 * np.eye(2), Phi.T @ y)))
    True
    """

    rotation: Array  # (p, p)
    squares: Array  # (p,)
    penalties: Array  # (p,)
    unit: float = 1.0

    @classmethod
    def of(cls, gram: Array) -> RidgePath:
        """The path where every coordinate is penalised alike; overwrites `gram`."""
        squares, rotation = eigh(gram, check_finite=False, overwrite_a=True)
        return cls(rotation, np.maximum(squares, 0.0), np.ones(len(squares)))

    @classmethod
    def around(cls, R: Array, penalty: Array, unit: float) -> RidgePath:
        """The path of another penalty (p,), 0 for free coordinates, from the factor R'R = gram + unit * penalty.

        An amount c away from the unit c0 loses a factor c / c0 (or its inverse) of precision.
        """
        half = lapack.dtrtrs(R, np.diag(unit * penalty), trans=1)[0]
        shares, vectors = eigh(lapack.dtrtrs(R, half.T, trans=1)[0], driver="evd")
        shares = np.clip(shares, 0.0, 1.0)
        return cls(lapack.dtrtrs(R, vectors)[0], 1.0 - shares, shares, unit)

    def penalty(self, amount: float) -> Array:
        """The diagonal (p,) of the penalty of an amount."""
        return np.asarray((amount / self.unit) * self.penalties)

    def normal(self, amount: float) -> Array:
        """The diagonal (p,) of the normal matrix of an amount; its inverse solves the ridge regression."""
        return np.asarray(self.squares + self.penalty(amount))
