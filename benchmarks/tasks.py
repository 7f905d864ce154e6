"""Public tasks in one form, (X_train, y_train, X_test, y_test), made from the shared data.

Inputs are standardised by the training rows, except where a set comes scaled (ijcnn1, a9a).  A seed chooses the split
of sets that have none of their own; the others always have their official split.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np

from benchmarks.harness import load_data

Task = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]


def standardised(train: np.ndarray, test: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Both parts with the training rows' mean and deviation; constant columns stay as they are."""
    mean, deviation = train.mean(axis=0, dtype=np.float64), train.std(axis=0, dtype=np.float64)
    deviation[deviation == 0] = 1.0
    return ((train - mean) / deviation).astype(train.dtype), ((test - mean) / deviation).astype(test.dtype)


def _official(name: str, label: Callable[[np.ndarray], np.ndarray], scale: bool, dtype: Any = np.float64) -> Task:
    data = load_data(name)
    train, test = (data[key].astype(dtype) for key in ("X_train", "X_test"))
    if scale:
        train, test = standardised(train, test)
    return train, label(data["y_train"]), test, label(data["y_test"])


def _split(name: str, seed: int, share: float, target: str = "y", dtype: Any = np.float64) -> Task:
    data = load_data(name)
    X, y = data["X"].astype(dtype), data[target]
    order = np.random.default_rng(seed).permutation(len(X))
    cut = int(share * len(X))
    first, second = order[:cut], order[cut:]
    train, test = standardised(X[first], X[second])
    return train, y[first], test, y[second]


def _same(y: np.ndarray) -> np.ndarray:
    return y


def _half_alphabet(y: np.ndarray) -> np.ndarray:
    return np.where(y <= 13, 1, -1)


def _first_class(y: np.ndarray) -> np.ndarray:
    return np.where(y == 1, 1, -1)


def _mnist() -> Task:
    data = load_data("mnist")
    train, test = (data[key].reshape(len(data[key]), -1).astype(np.float32) / 255 for key in ("X_train", "X_test"))
    return train, data["y_train"], test, data["y_test"]


CLASSIFICATION: dict[str, Callable[[int], Task]] = {
    "magic": lambda seed: _split("magic", seed, 2 / 3),
    "letter A-M/N-Z": lambda seed: _official("letter", _half_alphabet, True),
    "ijcnn1": lambda seed: _official("ijcnn1", _same, False),
    "a9a": lambda seed: _official("a9a", _same, False),
    "spambase": lambda seed: _split("spambase", seed, 2 / 3),
    "shuttle 1/rest": lambda seed: _official("shuttle", _first_class, True),
    "cod_rna": lambda seed: _split("cod_rna", seed, 2 / 3),
    "pendigits": lambda seed: _official("pendigits", _same, True),
    "satimage": lambda seed: _official("satimage", _same, True),
    "optdigits": lambda seed: _official("optdigits", _same, True),
    "letter": lambda seed: _official("letter", _same, True),
    "covtype": lambda seed: _split("covtype", seed, 0.9, dtype=np.float32),
    "mnist": lambda seed: _mnist(),
}

REGRESSION: dict[str, Callable[[int], Task]] = {
    "california": lambda seed: _split("california", seed, 2 / 3),
    "boston": lambda seed: _split("boston", seed, 2 / 3),
    "concrete": lambda seed: _split("concrete", seed, 2 / 3),
    "generated": lambda seed: _generated(seed),
}


def _generated(seed: int, n_rows: int = 100_000) -> Task:
    """Smooth function of five of ten inputs with noise: 100,000 rows to train on and 20,000 to test."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1, 1, (n_rows + 20_000, 10))
    y = np.sin(3 * X[:, 0] * X[:, 1]) + 2 * (X[:, 2] - 0.5) ** 2 + X[:, 3] * np.abs(X[:, 4])
    y = y + 0.1 * rng.standard_normal(len(y))
    return X[:n_rows], y[:n_rows], X[n_rows:], y[n_rows:]


@lru_cache(maxsize=4)
def task(name: str, seed: int = 0) -> Task:
    """A task by name."""
    return (CLASSIFICATION | REGRESSION)[name](seed)


def subset(parts: Task, n_rows: int, seed: int = 0) -> Task:
    """The task with at most `n_rows` training rows, drawn at random."""
    X, y, Xt, yt = parts
    if len(X) <= n_rows:
        return parts
    index = np.random.default_rng(seed).permutation(len(X))[:n_rows]
    return X[index], y[index], Xt, yt


def small_task(name: str, split: int) -> Task:
    """One of a hundred splits of a small set (IDA's, where it has them), inputs standardised by the training rows."""
    data = load_data(name)
    X, y = data["X"].astype(np.float64), data["y"]
    if "train_idx" in data:
        first = data["train_idx"][split % len(data["train_idx"])].astype(np.intp)
    else:
        first = np.random.default_rng(split).permutation(len(X))[: int(2 / 3 * len(X))]
    rest = np.setdiff1d(np.arange(len(X)), first)
    train, test = standardised(X[first], X[rest])
    return train, y[first], test, y[rest]
