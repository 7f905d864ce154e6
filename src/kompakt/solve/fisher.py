"""Kernel Fisher discriminants (Franc and Hlavac 2003, eq. 4-7).

Moments of the classes are summed by blocks; then there is one m x m problem per output.

With k_i = k_r(x_i), the kernel values of a row against the basis (all rows for eq. 5, few for eq. 7),

    N = sum over the two sides of cov(k_i),   m = mean_+(k_i) - mean_-(k_i),

where covariances divide by the number of rows and are added unweighted (eq. 4).  A correction of the paper: the
vector e of eq. 6 is e_+ - e_- (with the printed plus the sum of the means would be constrained, not their distance).
Its C is printed as a factor of alpha'alpha but acts inversely: the penalty, called `reg` here, is 1 / C in its tables.
K_r B = K against the basis, so eq. 7 is eq. 5 with fewer columns.

A row of weight s stands for s equal rows.  Of those, each has its own multiplier in eq. 5, and by symmetry all the
same one; their sum a then costs reg a^2 / s.  Eq. 7 penalises the multipliers of the basis and nothing changes.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from kompakt.data import RowBlock
from kompakt.design import Design
from kompakt.linalg import factorise
from kompakt.solve.problem import Array, Solution

BIASES = ("gaussian", "midpoint", "search")

_PRODUCTS = 1 << 23  # numbers that the products of the classes of one pass may take


@dataclass(frozen=True)
class ClassMoments:
    """Mass, mean and covariance (divided by the mass) of the kernel values of every class."""

    mass: Array  # (k,)
    mean: Array  # (k, m)
    covariance: Array  # (k, m, m)

    def merged(self, which: Array) -> tuple[Array, Array]:
        """Mean and covariance of the union of some classes."""
        share = self.mass[which] / self.mass[which].sum()
        mean = share @ self.mean[which]
        apart = self.mean[which] - mean
        covariance = np.einsum("k,kij->ij", share, self.covariance[which])
        return mean, covariance + (apart.T * share) @ apart


def class_moments(
    design: Design, labels: Array | None, n_classes: int, weights: Array | None, mass: Array | None = None
) -> ClassMoments:
    """Moments of raw kernel values by class, in two passes: means, then centred products.

    Without `labels`, the rows' own targets are the class numbers, and the `mass` of every class is given.

    Examples
    --------
    >>> import numpy as np
    >>> from kompakt.design import Design
    >>> from kompakt.kernels import Linear
    >>> from kompakt.data import ArrayRows
    >>> from kompakt.solve.fisher import class_moments
    >>> X = np.array([[0.0], [2.0], [5.0]])
    >>> design = Design(ArrayRows(X), Linear(), np.ones((1, 1)))
    >>> class_moments(design, np.array([0, 0, 1]), 2, None).mean.ravel()
    array([1., 5.])
    """
    if mass is None:
        mass = _indicator(labels, weights, n_classes).sum(axis=0)
    sums = design.map_reduce(partial(_class_sums, labels, weights, n_classes))[0]
    mean = sums / mass[:, None]
    products = partial(_class_products, labels, weights, mean)

    # several passes where the products of all classes together would fill the memory with partial sums
    together = max(1, _PRODUCTS // max(1, design.n_basis**2))
    groups = [range(c, min(c + together, n_classes)) for c in range(0, n_classes, together)]
    covariance = np.concatenate([design.map_reduce(partial(products, group))[0] for group in groups])
    covariance /= mass[:, None, None]
    return ClassMoments(mass, mean, covariance)


def penalty_scale(moments: ClassMoments, codes: Array, basis_mass: Array | None = None) -> float:
    """Mean diagonal entry of N, over basis vectors and outputs: the unit in which a penalty is large or small.

    Examples
    --------
    >>> import numpy as np
    >>> from kompakt.solve.fisher import ClassMoments, penalty_scale
    >>> moments = ClassMoments(np.ones(2), np.zeros((2, 2)), np.stack([np.eye(2), 3.0 * np.eye(2)]))
    >>> penalty_scale(moments, np.array([[-1.0], [1.0]]))
    4.0
    """
    traces = []
    for code in codes.T:
        diagonal = sum(moments.merged(np.flatnonzero(code == side))[1].diagonal() for side in (-1.0, 1.0))
        traces.append(np.average(diagonal, weights=basis_mass))
    # classes of one point each have no spread: any penalty gives the same direction
    return float(np.mean(traces)) or 1.0


def _of_block(labels: Array | None, weights: Array | None, block: RowBlock) -> tuple[Array, Array | None]:
    """Class numbers and weights of a block."""
    if labels is not None:
        span = slice(block.start, block.stop)
        return labels[span], None if weights is None else weights[span]
    assert block.targets is not None
    return block.targets[:, 0].astype(np.intp), block.weights


def _indicator(labels: Array | None, weights: Array | None, n_classes: int) -> Array:
    assert labels is not None
    indicator = np.zeros((len(labels), n_classes))
    indicator[np.arange(len(labels)), labels] = 1.0 if weights is None else weights
    return indicator


def _class_sums(
    labels: Array | None, weights: Array | None, n_classes: int, K: Array, block: RowBlock
) -> tuple[Array, ...]:
    return (_indicator(*_of_block(labels, weights, block), n_classes).T @ K,)


def _class_products(
    labels: Array | None, weights: Array | None, mean: Array, classes: range, K: Array, block: RowBlock
) -> tuple[Array, ...]:
    block_labels, s = _of_block(labels, weights, block)
    grams = np.zeros((len(classes), K.shape[1], K.shape[1]))
    for place, c in enumerate(classes):
        members = np.flatnonzero(block_labels == c)
        apart = K[members] - mean[c].astype(K.dtype)
        if s is not None:
            apart *= np.sqrt(s[members]).astype(K.dtype)[:, None]
        grams[place] = apart.T @ apart
    return (grams,)


def direction(N: Array, m: Array, penalty: Array) -> tuple[Array, float]:
    """Minimiser of a'N a + sum_j penalty_j a_j^2 subject to a'm = 2 (eq. 7), and the jitter that it needed.

    Examples
    --------
    >>> import numpy as np
    >>> from kompakt.solve.fisher import direction
    >>> direction(np.diag([1.0, 3.0]), np.array([1.0, 1.0]), np.ones(2))[0]
    array([1.33333333, 0.66666667])
    """
    if not np.any(m):
        raise ValueError(
            "the two sides have the same mean in feature space, so no direction separates them; "
            "check the labels, or use a narrower kernel."
        )
    A = N + np.diag(penalty)
    factor = factorise(A, what="within-class matrix of the Fisher discriminant")
    a = factor.solve(m)
    a += factor.solve(m - A @ a)  # one step of refinement: A is as ill-conditioned as the user's reg makes it
    return 2.0 * a / (m @ a), factor.jitter


def distribution_bias(
    means: tuple[float, float], variances: tuple[float, float], priors: tuple[float, float], rule: str
) -> float:
    """Bias from the two projected classes taken as normal; order (-, +), means[0] < means[1].

    "gaussian" puts the threshold where prior times density agree, "midpoint" does so with the mean of the variances.

    Examples
    --------
    >>> from kompakt.solve.fisher import distribution_bias
    >>> distribution_bias((-1.0, 3.0), (1.0, 1.0), (0.5, 0.5), "midpoint")
    -1.0
    """
    low, high = means
    if not high > low:  # they differ by less than the last digit: no rule can tell the sides apart
        return -0.5 * (low + high)
    log_odds = float(np.log(priors[0] / priors[1]))
    midpoint = 0.5 * (low + high) + 0.5 * (variances[0] + variances[1]) * log_odds / (high - low)
    if rule == "midpoint" or min(variances) <= 1e-12 * (high - low) ** 2:
        return -midpoint
    # (t - low)^2 / v0 - (t - high)^2 / v1 + log(v0 / v1) = 2 log(p0 / p1)
    v0, v1 = variances
    a = 1.0 / v0 - 1.0 / v1
    b = -2.0 * (low / v0 - high / v1)
    c = low**2 / v0 - high**2 / v1 + np.log(v0 / v1) - 2.0 * log_odds
    if abs(a) <= 1e-12 * (1.0 / v0 + 1.0 / v1):
        return float(c / b)
    square = b * b - 4.0 * a * c
    if square < 0:  # one class outweighs the other everywhere: the densities do not cross
        return -midpoint
    # of the two crossings, the one where the positive class takes over (the expression rises through zero)
    return -float((-b + np.sqrt(square)) / (2.0 * a))


def search_bias(values: Array, positive: Array, weights: Array) -> float:
    """Bias that minimises the weighted number of errors of sign(values + bias): one sort, all thresholds.

    Examples
    --------
    >>> import numpy as np
    >>> from kompakt.solve.fisher import search_bias
    >>> search_bias(np.array([0.0, 1.0, 4.0]), np.array([False, False, True]), np.ones(3))
    -2.5
    """
    order = np.argsort(values, kind="stable")
    v = values[order]
    wrong_below = np.cumsum(np.where(positive[order], weights[order], 0.0))
    wrong_above = np.cumsum(np.where(positive[order], 0.0, weights[order])[::-1])[::-1]
    errors = np.concatenate([[wrong_above[0]], wrong_below + np.append(wrong_above[1:], 0.0)])
    cuts = np.concatenate([[v[0] - 1.0], 0.5 * (v[1:] + v[:-1]), [v[-1] + 1.0]])
    inside = np.concatenate([[True], v[1:] > v[:-1], [True]])  # no threshold between equal values
    errors = np.where(inside, errors, np.inf)
    best = np.flatnonzero(errors <= errors.min() * (1 + 1e-12))
    return -float(cuts[best[len(best) // 2]])


def minimise(
    design: Design,
    labels: Array | None,
    codes: Array,
    *,
    reg: float,
    weights: Array | None = None,
    bias: str = "gaussian",
    priors: Array | None = None,
    basis_mass: Array | None = None,
    mass: Array | None = None,
    moments: ClassMoments | None = None,
) -> Solution:
    """Fisher discriminants of all outputs of a coding on one design of raw kernel values.

    Parameters
    ----------
    design : Design
        Raw values (no whitening) of the rows against the basis.
    labels : ndarray of shape (n,) or None
        Class indices; None where they are the targets of the rows themselves.
    codes : ndarray of shape (n_classes, L)
        +1, -1, 0: the sides of every output.
    reg : float
        Penalty on the squared multipliers.
    weights : ndarray of shape (n,), optional
    bias : {"gaussian", "midpoint", "search"}
    priors : ndarray of shape (n_classes,), optional
        Prior probabilities of the classes; None gives the two sides of every output equal ones.
    basis_mass : ndarray of shape (m,), optional
        For eq. 5, whose basis is all rows: the weight of the rows that each basis vector stands for.
    mass : ndarray of shape (n_classes,), optional
        Weight of every class, where `labels` is None.
    moments : ClassMoments, optional
        Those of the design, where they are known already.
    """
    if moments is None:
        moments = class_moments(design, labels, len(codes), weights, mass)
    penalty = np.full(design.n_basis, reg) if basis_mass is None else reg / basis_mass
    m, L = design.n_basis, codes.shape[1]
    alphas, intercept, objective, jitter = np.empty((m, L)), np.empty(L), np.empty(L), 0.0
    spread: list[Any] = []
    for output in range(L):
        sides = [np.flatnonzero(codes[:, output] == side) for side in (-1.0, 1.0)]
        (mean0, cov0), (mean1, cov1) = (moments.merged(side) for side in sides)
        N = cov0 + cov1
        alphas[:, output], raised = direction(N, mean1 - mean0, penalty)
        a = alphas[:, output]
        jitter = max(jitter, raised)
        objective[output] = a @ N @ a + penalty @ (a * a)
        odds = np.ones(2) if priors is None else np.array([priors[side].sum() for side in sides])
        spread.append((sides, odds / odds.sum(), (mean0 @ a, mean1 @ a), (a @ cov0 @ a, a @ cov1 @ a)))
    values = None
    if bias == "search":
        values = design.matvec(alphas)
        if labels is None:
            assert design.rows.targets is not None
            labels, weights = design.rows.targets[:, 0].astype(np.intp), design.rows.weights
        shares = np.ones(design.n_rows) if weights is None else weights
    for output, (sides, odds, means, variances) in enumerate(spread):
        if values is None:
            intercept[output] = distribution_bias(means, variances, tuple(odds), bias)
            continue
        assert labels is not None
        positive = np.isin(labels, sides[1])
        taking_part = positive | np.isin(labels, sides[0])
        counts = [shares[taking_part & (positive == side)].sum() for side in (False, True)]
        cost = shares * np.where(positive, odds[1] / counts[1], odds[0] / counts[0])
        intercept[output] = search_bias(values[taking_part, output], positive[taking_part], cost[taking_part])
    return Solution(
        weights=alphas,
        intercept=intercept,
        coordinates=np.concatenate([alphas, intercept[None]]),
        objective=objective,
        n_iter=1,
        converged=True,
        optimality=np.zeros(L),
        jitter=jitter,
    )
