"""The one-dimensional minimisation for hinge losses as a compiled loop.

Scoring candidates is most of the work of growing small machines, and the loop over rows is too short for array
operations.  Numba is optional (extra `fast`); `line.py` does the same with NumPy.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np

from kompakt.kernels._exp import numba_available

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
    options: dict[str, Any] = {"nogil": True, "fastmath": {"contract"}, "error_model": "numpy", "cache": True}
    derivatives = numba.njit(**options)(_derivatives)

    @numba.njit(**options)
    def minimise(y, f, s, columns, group, linear, quadratic, C, limit, tol, t, decrease):  # type: ignore[no-untyped-def]
        n = y.shape[1]
        rows = np.empty(n, dtype=np.int64)
        short = np.empty(n)
        weight = np.empty(n)
        z = np.empty(n)
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
                start, second, base = derivatives(short, weight, z, m, 0.0, limit)
                start = a - start
                second += q
                sign = -1.0 if start > 0.0 else 1.0
                length, low, high = abs(start) / second, 0.0, np.inf
                at, value = 0.0, base
                for _ in range(100):
                    if start == 0.0:
                        break
                    at = sign * length
                    first, second, value = derivatives(short, weight, z, m, at, limit)
                    slope = sign * (a + q * at - first)
                    second += q
                    if abs(slope) <= tol * abs(start) or (high < np.inf and high - low <= 1e-14 * high):
                        break
                    if slope < 0.0:
                        low = length
                    else:
                        high = length
                    length -= slope / second
                    if not (low < length < high):
                        length = 0.5 * (low + high) if high < np.inf else 2.0 * low
                t[b, j] = at
                decrease[b, j] = max(0.0, base - value - at * (a + 0.5 * q * at))

    return minimise  # type: ignore[no-any-return]


def _derivatives(short, weight, z, m, t, limit):  # type: ignore[no-untyped-def]
    """Sums over rows of w z l'(r), w z^2 l''(r) and w l(r) at r = short - t z; four partial sums each."""
    g0 = g1 = h0 = h1 = v0 = v1 = 0.0
    even = m - m % 2
    for i in range(0, even, 2):
        r = short[i] - t * z[i]
        c = min(max(r, 0.0), limit)
        inside = 1.0 if 0.0 < r < limit else 0.0
        wz = weight[i] * z[i]
        g0 += wz * c
        h0 += wz * z[i] * inside
        v0 += weight[i] * c * (max(r, 0.0) - 0.5 * c)
        r = short[i + 1] - t * z[i + 1]
        c = min(max(r, 0.0), limit)
        inside = 1.0 if 0.0 < r < limit else 0.0
        wz = weight[i + 1] * z[i + 1]
        g1 += wz * c
        h1 += wz * z[i + 1] * inside
        v1 += weight[i + 1] * c * (max(r, 0.0) - 0.5 * c)
    for i in range(even, m):
        r = short[i] - t * z[i]
        c = min(max(r, 0.0), limit)
        wz = weight[i] * z[i]
        g0 += wz * c
        if 0.0 < r < limit:
            h0 += wz * z[i]
        v0 += weight[i] * c * (max(r, 0.0) - 0.5 * c)
    return g0 + g1, h0 + h1, v0 + v1
