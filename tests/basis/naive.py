"""Slow, obvious versions of what `kompakt.basis` computes: Keerthi et al. 2006, eq. 4, with a general minimiser."""

import numpy as np
from scipy.optimize import minimize

from kompakt.basis.columns import KernelColumns
from kompakt.basis.forward import CandidateStream, Growth, GrowthPlan
from kompakt.basis.growing import GrowingMachine
from kompakt.data import ArrayRows, hash_rows
from kompakt.spec import Spec


def data(n=60, outputs=1, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 3))
    score = np.column_stack([np.sin(2 * X[:, i % 3]) + X[:, 1] * X[:, 2] for i in range(outputs)])
    y = np.where(score + 0.5 * rng.normal(size=score.shape) > 0, 1.0, -1.0)
    return X, y, rng.uniform(0.2, 2.0, n)


def machine_for(X, y, kernel, loss, C, weights=None, capacity=30, memory_budget=None, **intercept):
    columns = KernelColumns(ArrayRows(X, y), kernel, block_rows=16)  # blocks that do not divide the rows
    return GrowingMachine.on_rows(columns, Spec(kernel, loss, C, **intercept), capacity, weights, memory_budget)


def column(machine, index):
    """The kernel values that a row brings when it joins the basis."""
    return machine.columns.columns(np.array([index]))[0]


def grown(machine, size, selection="sp2", key=1, **options):
    """The machine after growing, trained to the end, and its records."""
    stream = CandidateStream.of(hash_rows(machine.columns.rows.X, key), key)
    plan = GrowthPlan(machine.n_basis + size, selection, retraining="always", **options)
    return machine, Growth(machine, stream, plan).grow()


def objective(K, kernel_of_basis, y, s, loss, C, beta, b, penalised=0.0):
    f = K @ beta + b
    return 0.5 * beta @ kernel_of_basis @ beta + 0.5 * penalised * b * b + C * np.sum(s * loss.value(y, f))


def full_fit(K, kernel_of_basis, y, s, loss, C, intercept=True):
    """Minimum of the primal objective over (beta, b) by BFGS with its exact gradient, from several starts."""
    m = K.shape[1]
    # whitened unknowns: the plain ones are too badly conditioned for BFGS
    values, vectors = np.linalg.eigh(kernel_of_basis)
    keep = values > 1e-12 * values[-1]
    back = vectors[:, keep] / np.sqrt(values[keep])
    features = K @ back

    def both(theta):
        w, b = theta[:-1], theta[-1] * intercept
        f = features @ w + b
        slopes = C * s * loss.gradient(y, f)
        value = 0.5 * w @ w + C * np.sum(s * loss.value(y, f))
        return value, np.append(w + features.T @ slopes, slopes.sum() * intercept)

    result = minimize(both, np.zeros(keep.sum() + 1), jac=True, method="BFGS", options={"gtol": 1e-9, "maxiter": 5000})
    assert m == len(kernel_of_basis)
    return result.fun
