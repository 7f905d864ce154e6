"""Smaller machines inside a given one: its outputs matched on the first k of its own vectors.

Nothing is known of how the machine was trained, and no label is used: the outputs f(X) of the whole machine are matched
by least squares, and the order of the vectors is the greedy one of that problem (`grow.gram.forward_select`, here
with A = K'K and r = K'f).  So errors of the smaller machines are as honest as those of the whole one.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.linalg import lstsq

from kompakt.basis.gram import forward_select
from kompakt.basis.path import sizes_up_to
from kompakt.data import ArrayRows, RowBlock
from kompakt.design import Design
from kompakt.model import Model

Array = np.ndarray

#: the largest smaller machine, the most vectors looked at, and the most kernel values in the matching
_LARGEST, _MOST_CANDIDATES, _MOST_VALUES = 512, 2000, 20_000_000


@dataclass(frozen=True)
class NestedPath:
    """Machines of growing size; the last is the given one."""

    models: list[Model]
    order: Array  # vectors in the order in which they enter, all m of them
    n_rows: int  # rows that were matched on

    @property
    def sizes(self) -> list[int]:
        """Numbers of vectors."""
        return [model.n_basis_ for model in self.models]


def nested_path(model: Model, X: Any) -> NestedPath:
    """The smaller machines of `model`, matched on rows X.

    Examples
    --------
    >>> from sklearn.datasets import make_moons
    >>> from kompakt import CompactSVC
    >>> from kompakt.reporting.nested import nested_path
    >>> X, y = make_moons(300, noise=0.2, random_state=0)
    >>> nested_path(CompactSVC(20, random_state=0).fit(X, y).model_, X).sizes
    [1, 2, 3, 5, 8, 13, 20]
    """
    m = model.n_basis_
    strength = np.linalg.norm(model.weights, axis=1)
    strongest = np.argsort(-strength, kind="stable")
    wanted = [size for size in [1, 2, 3, *sizes_up_to(min(_LARGEST, m)).tolist()] if size < m]
    if not wanted:
        return NestedPath([model], strongest, 0)
    candidates = np.sort(strongest[:_MOST_CANDIDATES])
    n_rows = min(X.shape[0], max(2 * len(candidates), _MOST_VALUES // len(candidates)))
    A, r = _normal_equations(model, X[:n_rows], candidates)
    chosen = forward_select(A[None], r.T, max(wanted), first=len(candidates))
    models = []
    for size in sorted(set(wanted)):
        if size > len(chosen):
            break  # what is left adds nothing to the chosen ones on these rows
        kept = np.append(chosen[:size], len(candidates))
        weights = lstsq(A[np.ix_(kept, kept)], r[kept], cond=1e-12)[0]
        models.append(
            replace(
                model,
                basis=model.basis[candidates[chosen[:size]]],
                weights=weights[:-1],
                intercept=weights[-1],
                calibration=None,
            )
        )
    first = candidates[chosen]
    order = np.concatenate([first, strongest[~np.isin(strongest, first)]])
    return NestedPath([*models, model], order, n_rows)


def _normal_equations(model: Model, X: Any, candidates: Array) -> tuple[Array, Array]:
    """[K 1]'[K 1] and [K 1]'f: the intercept is the last variable."""
    F = model.outputs(X)
    rows = ArrayRows(model._transformed(X), offset=model.offset)
    basis = model.basis[candidates]
    design = Design(rows, model.kernel, basis if rows.offset is None else basis - rows.offset, store=False)

    def sums(K: Array, block: RowBlock) -> tuple[Array, ...]:
        f = F[block.start : block.stop]
        return K.T @ K, K.T @ f.astype(K.dtype, copy=False), K.sum(axis=0, dtype=np.float64), f.sum(axis=0)

    G, Kf, total, f_total = design.map_reduce(sums)
    A = np.block([[G, total[:, None]], [total[None], np.full((1, 1), float(rows.n_rows))]])
    return A, np.concatenate([Kf, f_total[None]])
