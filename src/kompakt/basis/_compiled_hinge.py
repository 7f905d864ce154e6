"""Newton's method for the hinge with rounded kinks as a compiled loop.

A growth of a small machine is thousands of trainings of some hundred rows and some ten vectors: array operations would
spend their time on being called.  This module needs Numba, the extra `fast`; `semiparametric.py` imports it where that
is there, and does the same with NumPy where not.  Functions are global, so that compiled code is found on disk again.
"""

from __future__ import annotations

from typing import Any

import numba
import numpy as np

# Fused multiply-adds only: sums keep their order, so results do not depend on the vector width.
_OPTIONS: dict[str, Any] = {"nogil": True, "fastmath": {"contract"}, "error_model": "numpy", "cache": True}


@numba.njit(**_OPTIONS)
def _evaluate(y, cost, f, width, slope, rows):  # type: ignore[no-untyped-def]
    """Sum of the losses, and number of the rows inside the rounded part; fills their slopes and numbers."""
    value, count = 0.0, 0
    for i in range(len(y)):
        short = 1.0 - y[i] * f[i]
        u = min(max(short / width + 0.5, 0.0), 1.0)
        value += cost[i] * (0.5 * width * u * u + max(short - 0.5 * width, 0.0))
        slope[i] = -cost[i] * y[i] * u
        if 0.0 < u < 1.0 and cost[i] > 0.0:
            rows[count] = i
            count += 1
    return value, count


@numba.njit(**_OPTIONS)
def _length(y, cost, f, change, width, penalised, descent):  # type: ignore[no-untyped-def]
    """Zero of the derivative along a step on (0, 1), by Newton steps kept inside a shrinking bracket."""
    low, high, t = 0.0, 1.0, 0.5
    start = 0.0
    for i in range(len(y)):
        u = min(max((1.0 - y[i] * f[i]) / width + 0.5, 0.0), 1.0)
        start -= cost[i] * y[i] * change[i] * u
    for _ in range(40):
        first, second = penalised * t, penalised
        for i in range(len(y)):
            rate = -y[i] * change[i]
            raw = (1.0 - y[i] * (f[i] + t * change[i])) / width + 0.5
            u = min(max(raw, 0.0), 1.0)
            first += cost[i] * rate * u
            if 0.0 < raw < 1.0:
                second += cost[i] * rate * rate / width
        # what is left of `descent` is the penalty's slope at 0
        first += descent - start
        if abs(first) <= 1e-3 * abs(descent) or high - low <= 1e-6:
            break
        if first < 0.0:
            low = t
        else:
            high = t
        t -= first / second
        if not low < t < high:
            t = 0.5 * (low + high)
    return min(max(t, 1e-3), 0.999)


@numba.njit(**_OPTIONS)
def _solve(H, b):  # type: ignore[no-untyped-def]
    """H^-1 b in place of b by Cholesky, H overwritten; False where a pivot vanishes."""
    p = len(b)
    for j in range(p):
        pivot = H[j, j]
        for k in range(j):
            pivot -= H[j, k] * H[j, k]
        if not pivot > 1e-14 * abs(H[j, j]):
            return False
        root = np.sqrt(pivot)
        H[j, j] = root
        for i in range(j + 1, p):
            total = H[i, j]
            for k in range(j):
                total -= H[i, k] * H[j, k]
            H[i, j] = total / root
    for j in range(p):
        total = b[j]
        for k in range(j):
            total -= H[j, k] * b[k]
        b[j] = total / H[j, j]
    for j in range(p - 1, -1, -1):
        total = b[j]
        for k in range(j + 1, p):
            total -= H[k, j] * b[k]
        b[j] = total / H[j, j]
    return True


@numba.njit(**_OPTIONS)
def newton(A, y, cost, penalty, theta, f, width, max_iter, tol):  # type: ignore[no-untyped-def]
    """Minimise from theta (p,), in place, with predictions f (P,); A (p, P) are whitened features.

    Returns the steps taken and 1 for settled, 0 for out of steps, -1 where the Hessian is singular and the caller must
    take a step of another kind.
    """
    p, n = A.shape
    slope, trial = np.empty(n), np.empty(n)
    rows = np.empty(n, dtype=np.int64)
    value, count = _evaluate(y, cost, f, width, slope, rows)
    objective = value + 0.5 * np.sum(penalty * theta * theta)
    for iteration in range(max_iter):
        gradient = penalty * theta + np.dot(A, slope)
        active, scaled = np.empty((p, count)), np.empty((p, count))
        for j in range(p):
            for k in range(count):
                active[j, k] = A[j, rows[k]]
                scaled[j, k] = active[j, k] * (cost[rows[k]] / width)
        H = np.dot(scaled, active.T)
        for j in range(p):
            H[j, j] += penalty[j]
        step = -gradient
        if not _solve(H, step):
            return iteration, -1
        descent = np.dot(gradient, step)
        if -descent <= tol * tol * abs(objective):
            return iteration, 1
        change = np.dot(step, A)
        t = 1.0
        while True:
            for i in range(n):
                trial[i] = f[i] + t * change[i]
            value, count = _evaluate(y, cost, trial, width, slope, rows)
            moved = theta + t * step
            reached = value + 0.5 * np.sum(penalty * moved * moved)
            # asked the other way round: what is not a number must end the loop too
            if not reached > objective + 1e-4 * t * descent + 1e-14 * abs(objective) or not t >= 1e-6:
                break
            if t < 1.0:
                t *= 0.4
            else:
                t = _length(y, cost, f, change, width, np.sum(penalty * step * step), descent)
        gain = objective - reached
        objective = reached
        for j in range(p):
            theta[j] = moved[j]
        for i in range(n):
            f[i] = trial[i]
        if gain <= tol * tol * abs(objective):
            return iteration + 1, 1
    return max_iter, 0
