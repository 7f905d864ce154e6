"""The one-dimensional minimisation for hinge losses as a compiled loop.

Scoring candidates is most of the work of growing small machines, and the loop over rows is too short for array
operations.  Numba is optional (extra `fast`); `line.py` does the same with NumPy.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import numpy as np

from kompakt.parallel import numba_available

Array = np.ndarray


@cache
def hinge_minimiser() -> Callable[..., None] | None:
    """`minimise(y, f, s, columns, group, linear, quadratic, C, limit, tol, t, decrease)`, or None without Numba.

    The loss is max(0, r)^2 / 2 for the shortfall r = 1 - y f up to `limit` and linear beyond: squared hinge for an
    infinite limit, else the Huber-type loss of seed 001, section 8.
    """
    if not numba_available():
        return None
    import numba

    # Fused multiply-adds only: sums keep their order, so results do not depend on the vector width.
    compiled = numba.njit(nogil=True, fastmath={"contract"}, error_model="numpy", cache=True)(_minimise)

    def minimise(*arguments: Array | float) -> None:
        # one signature for all callers: contiguous, writable arrays
        arrays = [np.require(a, requirements=["C", "W"]) if isinstance(a, np.ndarray) else float(a) for a in arguments]
        compiled(*arrays)

    return minimise


def _minimise(y, f, s, columns, group, linear, quadratic, C, limit, tol, t, decrease):  # type: ignore[no-untyped-def]
    n = y.shape[1]
    rows = np.empty(n, dtype=np.int64)
    short, weight, z = np.empty(n), np.empty(n), np.empty(n)
    for b in range(y.shape[0]):
        m = 0
        for i in range(n):  # only rows that count
            if s[b, i] != 0.0:
                rows[m] = i
                short[m] = 1.0 - y[b, i] * f[b, i]
                weight[m] = C[b] * s[b, i]
                m += 1
        for j in range(columns.shape[1]):
            for i in range(m):
                z[i] = y[b, rows[i]] * columns[group[b], j, rows[i]]
            a, q = linear[b, j], quadratic[b, j]
            at, length, low, high, sign = 0.0, 0.0, 0.0, np.inf, 1.0
            start, base, value = 0.0, 0.0, 0.0
            for evaluation in range(101):
                slope, curvature, value = 0.0, 0.0, 0.0
                for i in range(m):
                    r = short[i] - at * z[i]
                    positive = max(r, 0.0)
                    clipped = min(positive, limit)
                    wz = weight[i] * z[i]
                    slope += wz * clipped
                    curvature += wz * z[i] * (1.0 if 0.0 < r < limit else 0.0)
                    value += weight[i] * clipped * (positive - 0.5 * clipped)
                slope = a + q * at - slope
                curvature += q
                if evaluation == 0:
                    start, base = slope, value
                    if start == 0.0:
                        break
                    sign = -1.0 if start > 0.0 else 1.0
                slope *= sign  # along the direction of travel
                small = abs(slope) <= tol * abs(start)
                if small or (high < np.inf and high - low <= 1e-14 * high):
                    break
                if slope < 0.0:
                    low = length
                else:
                    high = length
                length -= slope / curvature
                if not (low < length < high):
                    length = 0.5 * (low + high) if high < np.inf else 2.0 * low
                at = sign * length
            t[b, j] = at
            decrease[b, j] = max(0.0, base - value - at * (a + 0.5 * q * at))
