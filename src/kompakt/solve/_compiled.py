"""Compiled loops: the minimiser along one direction, and Newton's method for small problems.

A growth of a small machine is thousands of trainings of some hundred rows and some ten vectors: array operations would
spend their time on being called.  This module needs Numba, the extra `fast`; `line_search.py` and `dense.py` use it
where that is there, and do the same with NumPy where not.  Functions are global, so that compiled code is found on disk
again.

A loss is handed over as its derivative with respect to the residual r, a sum of ramps (see `losses.Ramps`):
base + sum_k rate_k (clip(r, low_k, high_k) - anchor_k).  With `regression`, r = y - f, else r = 1 - y f.
"""

from __future__ import annotations

from typing import Any

import numba
import numpy as np

# Fused multiply-adds only: sums keep their order, so results do not depend on the vector width.
_OPTIONS: dict[str, Any] = {"nogil": True, "fastmath": {"contract"}, "error_model": "numpy", "cache": True}


@numba.njit(**_OPTIONS)
def _minimise(r, z, weight, n, a, q, base, ramps, tol):  # type: ignore[no-untyped-def]
    """Minimiser t >= or <= 0 of a t + q t^2 / 2 + sum_i weight_i loss(r_i - t z_i), and the decrease it brings.

    Newton steps kept inside a shrinking bracket; `tol` is the derivative at the end against that at 0.
    """
    if base != 0.0:
        for i in range(n):
            a -= base * weight[i] * z[i]
    t, length, low, high, sign = 0.0, 0.0, 0.0, np.inf, 1.0
    start, first, value = 0.0, 0.0, 0.0
    for evaluation in range(101):
        slope, curvature, value = a + q * t, q, 0.0
        for k in range(len(ramps)):
            bottom, top, rate, anchor = ramps[k, 0], ramps[k, 1], ramps[k, 2], ramps[k, 3]
            rise, bend, total = 0.0, 0.0, 0.0
            for i in range(n):
                at = r[i] - t * z[i]
                c = min(max(at, bottom), top)
                wz = weight[i] * z[i]
                rise += wz * (c - anchor)
                bend += wz * z[i] * (1.0 if bottom < at < top else 0.0)
                total += weight[i] * (c - anchor) * (at - 0.5 * (c + anchor))
            slope -= rate * rise
            curvature += rate * bend
            value += rate * total
        if evaluation == 0:
            start, first = slope, value
            if start == 0.0:
                return 0.0, 0.0
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
            least = max(low, 1e-16 * high)
            if high == np.inf:
                length = 2.0 * low if low > 0.0 else 1.0
            elif high > 16.0 * least:  # without curvature a step is many orders too long
                length = np.sqrt(least) * np.sqrt(high)
            else:
                length = 0.5 * (low + high)
        t = sign * length
    return t, max(0.0, first - value - t * (a + 0.5 * q * t))


@numba.njit(**_OPTIONS)
def minimise(y, f, s, columns, group, linear, quadratic, regression, base, ramps, tol, t, decrease):  # type: ignore[no-untyped-def]
    """Fill t and decrease (B, k): B machines, k directions each; see `line_search.minimise_along`."""
    n = y.shape[1]
    rows = np.empty(n, dtype=np.int64)
    r, weight, z = np.empty(n), np.empty(n), np.empty(n)
    for b in range(len(y)):
        m = 0
        for i in range(n):  # only rows that count
            if s[b, i] != 0.0:
                rows[m] = i
                r[m] = y[b, i] - f[b, i] if regression else 1.0 - y[b, i] * f[b, i]
                weight[m] = s[b, i]
                m += 1
        for j in range(columns.shape[1]):
            for i in range(m):
                column = columns[group[b], j, rows[i]]
                z[i] = column if regression else y[b, rows[i]] * column
            a, q = linear[b, j], quadratic[b, j]
            t[b, j], decrease[b, j] = _minimise(r, z, weight, m, a, q, base[b, 0], ramps[b], tol)


@numba.njit(**_OPTIONS)
def _evaluate(y, cost, f, change, t, regression, base, ramps, trial, r, slope, curvature):  # type: ignore[no-untyped-def]
    """Sum of the losses at f + t change; fills that, residuals, and slopes and curvatures times the rows' cost."""
    value = 0.0
    for i in range(len(y)):
        trial[i] = f[i] + t * change[i]
        r[i] = y[i] - trial[i] if regression else 1.0 - y[i] * trial[i]
        slope[i], curvature[i] = base[0], 0.0
        value += cost[i] * base[0] * (r[i] - base[1])
    for k in range(len(ramps)):
        bottom, top, rate, anchor = ramps[k, 0], ramps[k, 1], ramps[k, 2], ramps[k, 3]
        total = 0.0
        for i in range(len(y)):
            c = min(max(r[i], bottom), top)
            slope[i] += rate * (c - anchor)
            if bottom < r[i] < top:
                curvature[i] += rate
            total += cost[i] * (c - anchor) * (r[i] - 0.5 * (c + anchor))
        value += rate * total
    for i in range(len(y)):
        slope[i] *= -cost[i] if regression else -cost[i] * y[i]
        curvature[i] *= cost[i]
    return value


#: lines of a product of which only the lower triangle is needed
_PANEL = 32


@numba.njit(**_OPTIONS)
def _change_hessian(A, p, penalty, before, fresh, H):  # type: ignore[no-untyped-def]
    """H after the curvatures of the rows changed from `before`, which is overwritten; returns how many did."""
    n = len(before)
    rows, change = np.empty(n, dtype=np.int64), np.empty(n)
    count, n_active = 0, 0
    for i in range(n):
        if fresh[i] != 0.0:
            n_active += 1
        if fresh[i] != before[i]:
            rows[count], change[count] = i, fresh[i] - before[i]
            before[i] = fresh[i]
            count += 1
    changed = count
    anew = count > 0.7 * n_active
    if anew:
        count = 0
        for i in range(n):
            if fresh[i] != 0.0:
                rows[count], change[count] = i, fresh[i]
                count += 1
    if count:
        columns, scaled = A[:p], np.empty((p, count))
        if count < n:
            columns = np.empty((p, count))
            for j in range(p):
                for k in range(count):
                    columns[j, k] = A[j, rows[k]]
        for j in range(p):
            for k in range(count):
                scaled[j, k] = columns[j, k] * change[k]
        sums = np.empty((p, p))
        for start in range(0, p, _PANEL):  # the lower triangle, by panels
            stop = min(start + _PANEL, p)
            sums[start:stop, :stop] = np.dot(scaled[start:stop], columns[:stop].T)
    else:
        sums = np.zeros((p, p))
    if changed:
        for j in range(p):
            for k in range(j + 1):
                H[j, k] = (0.0 if anew else H[j, k]) + sums[j, k]
                H[k, j] = H[j, k]
            if anew:
                H[j, j] += penalty[j]
    return changed


@numba.njit(**_OPTIONS)
def _solve(matrix, b):  # type: ignore[no-untyped-def]
    """Solve for the leading part of a matrix by Cholesky, in place of b; False where a pivot vanishes."""
    p = len(b)
    try:
        lower = np.linalg.cholesky(np.ascontiguousarray(matrix[:p, :p]))
    except Exception:  # not positive definite; compiled code knows no finer ones
        return False
    for j in range(p):
        if not lower[j, j] ** 2 > 1e-14 * abs(matrix[j, j]):
            return False
        total = b[j]
        for k in range(j):
            total -= lower[j, k] * b[k]
        b[j] = total / lower[j, j]
    for j in range(p - 1, -1, -1):
        b[j] /= lower[j, j]
        for k in range(j):
            b[k] -= lower[j, k] * b[j]
    return True


@numba.njit(**_OPTIONS)
def newton(problem, form, state, p, max_iter, enough, tol, from_outputs):  # type: ignore[no-untyped-def]
    """Minimise from theta (L, p), in place, with predictions f (L, n): one problem after the other.

    A (1 or L, width, n) are whitened features, of which p lines are in use; curvatures (L, n) are those that H
    (L, width, width) was formed with, and both are up to date at the end, as are slopes, settled and objectives.  A
    problem is settled when a full step changed no row's piece (and where curvatures do not tell that, the gradient has
    vanished), when a step gains less than the share `enough` of the objective, or when the relative gradient is below
    `tol`; where the Hessian is singular, or steps have run out, it is not, and the caller must go on.  With
    `from_outputs`, f are outputs of another machine and theta is 0: the first step ends at the minimiser of the
    parabolas that touch the losses there.  Returns the sums of steps and of changes of a row's curvature over the
    problems, and the most steps of one.
    """
    A, y, cost, penalty = problem
    regression, base, ramps = form
    theta, f, slopes, curvatures, H, settled, objectives, optimality = state
    n = y.shape[1]
    all_steps, all_changes, most_steps = 0, 0, 0
    r, fresh, trial, z, step = np.empty(n), np.empty(n), np.empty(n), np.empty(n), np.empty(p)
    for b in range(len(y)):
        features, costs = A[b if len(A) > 1 else 0][:p], cost[b if len(cost) > 1 else 0]
        change = np.zeros(n)
        value = _evaluate(y[b], costs, f[b], change, 0.0, regression, base[b], ramps[b], trial, r, slopes[b], fresh)
        size = 0.0
        for j in range(p):
            size += penalty[j] * theta[b, j] * theta[b, j]
        objective = value + 0.5 * size
        settled[b] = False
        iteration, full, done = 0, False, False
        one_bend = len(ramps[b]) == 1 and ramps[b, 0, 1] == np.inf  # a row's curvature tells its piece
        while True:
            changed = _change_hessian(features, p, penalty, curvatures[b], fresh, H[b])
            all_changes += changed
            same = full and changed == 0
            if done or (same and one_bend):
                settled[b] = True
                break
            if from_outputs and iteration == 0:
                for i in range(n):
                    z[i] = slopes[b, i] - curvatures[b, i] * f[b, i]
                    f[b, i] = 0.0
                objective = _evaluate(
                    y[b], costs, f[b], change, 0.0, regression, base[b], ramps[b], trial, r, slopes[b], fresh
                )
                slopes[b] = z
            gradient = np.dot(features, slopes[b])
            size, linear, quadratic, descent = 0.0, 0.0, 0.0, 0.0
            for j in range(p):
                gradient[j] += penalty[j] * theta[b, j]
                step[j] = -gradient[j]
            if (tol > 0.0 or same) and iteration >= from_outputs:
                scale = np.sqrt(np.sum(theta[b, :p] ** 2))
                for i in range(n):
                    scale += abs(slopes[b, i])
                optimality[b] = np.sqrt(np.sum(gradient**2)) / max(scale, 1e-300)
                if optimality[b] <= max(tol, 1e-6 if same else 0.0):
                    settled[b] = True
                    break
            if not _solve(H[b], step):
                break
            for j in range(p):
                descent += gradient[j] * step[j]
                size += penalty[j] * theta[b, j] * theta[b, j]
                linear += penalty[j] * theta[b, j] * step[j]
                quadratic += penalty[j] * step[j] * step[j]
            if iteration >= from_outputs and not -descent > enough * abs(objective):
                settled[b] = True
                break
            if iteration == max_iter:
                break
            change, t = np.dot(step, features), 1.0
            value = _evaluate(y[b], costs, f[b], change, t, regression, base[b], ramps[b], trial, r, slopes[b], fresh)
            reached = value + 0.5 * (size + 2.0 * linear + quadratic)
            full = reached <= objective + 1e-4 * descent + 1e-14 * abs(objective)
            if not full:
                for i in range(n):
                    r[i] = y[b, i] - f[b, i] if regression else 1.0 - y[b, i] * f[b, i]
                    z[i] = change[i] if regression else y[b, i] * change[i]
                t, _ = _minimise(r, z, costs, n, linear, quadratic, base[b, 0], ramps[b], 1e-6)
                value = _evaluate(
                    y[b], costs, f[b], change, t, regression, base[b], ramps[b], trial, r, slopes[b], fresh
                )
                reached = value + 0.5 * (size + t * (2.0 * linear + t * quadratic))
            iteration += 1
            done = iteration > from_outputs and not (objective - reached > enough * abs(objective))
            if reached <= objective + 1e-14 * abs(objective):
                objective = reached
                for j in range(p):
                    theta[b, j] += t * step[j]
                for i in range(n):
                    f[b, i] = trial[i]
            else:  # nothing can be gained, or what would be reached is not a number
                change[:] = 0.0
                _evaluate(y[b], costs, f[b], change, 0.0, regression, base[b], ramps[b], trial, r, slopes[b], fresh)
        objectives[b] = objective
        all_steps += iteration
        most_steps = max(most_steps, iteration)
    return all_steps, all_changes, most_steps
