"""`compress`: an SVM that is already trained, with fewer vectors."""

from __future__ import annotations

import time
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import replace
from numbers import Integral, Real
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_array

from kompakt.basis.matching import Plan, compress_model, path_sizes
from kompakt.io.fitted import model_of
from kompakt.model import BITS, STORAGES, Model
from kompakt.parallel import block_threads
from kompakt.run import Run
from kompakt.run.bar import showing

_BITS_OF = ("map", "vectors", "weights")


def compress(
    fitted: Any,
    *,
    n_basis: int | Sequence[int] | None = None,
    tol: float | None = None,
    storage: str | Mapping[str, int] | None = None,
    X: Any = None,
    refine: bool = True,
    max_iter: int = 100,
    max_rows: int = 20_000,
    max_time: float | None = None,
    n_jobs: int | None = None,
    random_state: Any = None,
    return_path: bool = False,
) -> Any:
    """A machine with fewer vectors, or numbers of fewer bits, that decides like a trained SVM.

    The SVM's discriminants are projected on few vectors, chosen greedily for what they need and then moved to fit
    better.  With `storage`, vectors and weights are rounded, and the weights found again for the rounded vectors.
    Nothing is trained anew: labels are not needed.

    Parameters
    ----------
    fitted : SVC, NuSVC, SVR, NuSVR, OneClassSVM, path of a LIBSVM model, Model or kompakt estimator
        The trained machine, with any number of classes; also inside a `Pipeline` behind a `StandardScaler` or
        `MinMaxScaler`, or as the best estimator of a search.
    n_basis : int or sequence of int, default=None
        Number of vectors; with `tol`, the largest number.  A sequence is a path of sizes to go through.
        None goes up to half the support vectors; with `storage` alone, the vectors stay those that they are.
    tol : float, default=None
        Stop at the first size that loses no more than this share of agreement with the original (0.01: 99 % of the
        labels are the same; for regression, an rms error of 1 % of the spread of the predictions).  A quarter of the
        rows decides this; the agreement reported is that on another quarter, and may be a little less.
    storage : {"int8", "float16", "auto"} or mapping, default=None
        Round basis vectors and weights to 8 or 16 bits, which is what a saved model then holds of them; predictions are
        computed in floats as before.  A mapping says how many bits the whole numbers have, 4, 6 or 8, of the learned
        map of the inputs, of the vectors and of the weights: ``{"map": 4, "vectors": 6}``; what it does not name has 8,
        as with "int8".  "auto" takes the fewest bits that change no more than `tol` (by default 0.01) of the
        predictions of held-out rows, or else leaves the numbers as they are.
    X : array-like or sparse matrix of shape (n_samples, n_features), default=None
        Unlabeled rows of the kind that will be predicted: what the machine is matched on, all but a quarter that only
        measures the agreement and, with `tol`, another that decides when to stop.  Best are rows that the original was
        not trained on.  Without X, rows are made from the support vectors, and the agreement measured is that on such
        rows: nearer to the boundary than data are.
    refine : bool, default=True
        Move the vectors after they were chosen; otherwise they are rows.
    max_iter : int, default=100
        Iterations of each refinement.
    max_rows : int, default=20000
        Rows used at most.
    max_time : float, default=None
        Seconds after which the path ends.
    n_jobs : int, default=None
    random_state : int, RandomState or None, default=None
    return_path : bool, default=False
        Also return the measurements of every size.

    Returns
    -------
    Model
        With `predict`, `decision_function`, `classes_`, `basis_vectors_`; it can be saved and exported.  Its `meta`
        tells the number of vectors of the original, the agreement and the error measured on held-out rows, and how
        many these were (`agreement_rows`).
    list of dict
        With `return_path`: `n_basis`, `agreement`, `stop_agreement` (on the rows that `tol` is compared on),
        `n_measured` (held-out rows), `error` (rms, relative), `norm_error` (in the kernel's space, relative),
        `seconds` and the `model` of every size.

    Examples
    --------
    >>> from sklearn.datasets import make_moons
    >>> from sklearn.svm import SVC
    >>> from kompakt import compress
    >>> X, y = make_moons(500, noise=0.3, random_state=0)
    >>> machine = SVC().fit(X, y)
    >>> smaller = compress(machine, tol=0.01, X=X, random_state=0)
    >>> bool((smaller.predict(X) == machine.predict(X)).mean() > 0.98), 5 * smaller.n_basis_ < len(machine.support_)
    (True, True)
    >>> compress(smaller, storage="int8", X=X, random_state=0).storage.dtype
    'int8'
    """
    model = model_of(fitted, svm=True)
    given, model = model, model._with_noise  # the noise of an interval is an output like others
    if tol is not None and not (isinstance(tol, Real) and 0 <= float(tol) < 1):
        raise ValueError(f"tol must be None or a number from 0 to below 1 (a share of agreement); got {tol!r}.")
    bits = (8, 8, 8)
    if isinstance(storage, Mapping):
        if not set(storage) <= set(_BITS_OF) or not all(value in BITS for value in storage.values()):
            raise ValueError(
                f"a mapping as storage gives the bits, of {BITS}, of {', '.join(map(repr, _BITS_OF))}; got {storage!r}."
            )
        bits = (storage.get("map", 8), storage.get("vectors", 8), storage.get("weights", 8))
        storage = "int8"
    if storage is not None and storage not in (*STORAGES, "auto"):
        raise ValueError(f"storage must be None, a mapping or one of {(*STORAGES, 'auto')}; got {storage!r}.")
    if n_basis is None and tol is None and storage is None:
        raise ValueError(
            "give n_basis (how many vectors), tol (how much agreement may be lost), or both; or storage, to round."
        )
    if X is not None:
        finite: Any = True if model.inputs.fill is None else "allow-nan"  # a model that imputes may be given NaN
        X = check_array(X, accept_sparse="csr", dtype=[np.float64, np.float32], ensure_all_finite=finite)
    rounded_only = n_basis is None and (tol is None or storage == "auto")
    sizes = None if rounded_only else _sizes(n_basis, model, by_tol=tol is not None)
    with showing("compress") as bar, block_threads(n_jobs):
        run = Run(
            key=int(check_random_state(random_state).randint(2**31 - 1)),
            deadline=None if max_time is None else time.monotonic() + float(max_time),
            listener=bar,
        )
        stop = None if tol is None else float(tol)
        steps = compress_model(model, X, Plan(sizes, stop, refine, int(max_iter), int(max_rows), run, storage, bits))
    if run.cut:
        warnings.warn(
            f"compress was cut short: max_time={max_time} seconds are over. The smaller model found so far is "
            "returned; raise max_time.",
            ConvergenceWarning,
            stacklevel=2,
        )
    kept = {key: value for key, value in model.meta.items() if not key.startswith("libsvm_")}
    path = []
    for step in steps:
        facts = {"agreement": step.agreement, "agreement_rows": step.n_measured, "relative_error": step.error}
        meta = {**kept, **({} if rounded_only else {"compressed_from": int(model.n_basis_)}), **facts}
        # the training error was that of the model before
        record = None if model.record is None else replace(model.record, train_error=None, n_train_error=0)
        smaller = _as_given(replace(step.model, meta=meta, record=record), given)
        path.append({**vars(step), "model": smaller})
    return (path[-1]["model"], path) if return_path else path[-1]["model"]


def _as_given(model: Model, given: Model) -> Model:
    """The smaller model with an interval, whose noise is its last outputs, where the given one has one."""
    interval, L = given.interval, given.weights.shape[1]
    if interval is None or interval.weights is None:
        return replace(model, interval=interval)
    storage = model.storage
    if storage is not None:
        storage = replace(storage, weight_steps=storage.weight_steps[:L])
    weights, intercept = model.weights.astype(np.float64), model.intercept
    interval = replace(interval, weights=weights[:, L:], intercept=intercept[L:])
    return replace(
        model, weights=model.weights[:, :L], intercept=intercept[:L], storage=storage, interval=interval
    )


def _sizes(n_basis: Any, model: Model, *, by_tol: bool) -> list[int]:
    if n_basis is None:
        return path_sizes(max(1, model.n_basis_ // 2))
    if isinstance(n_basis, Integral):
        if n_basis < 1:
            raise ValueError(f"n_basis must be at least 1; got {n_basis}.")
        return path_sizes(int(n_basis)) if by_tol else [int(n_basis)]
    sizes = [int(size) for size in n_basis]
    if not sizes or sizes != sorted(set(sizes)) or sizes[0] < 1:
        raise ValueError(f"a path of sizes must be increasing whole numbers of at least 1; got {n_basis!r}.")
    return sizes
