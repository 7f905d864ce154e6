"""The systems compared, and the one way in which each is fitted, timed and measured.

Every contender is a function (parameters, C, gamma, seed) -> estimator.  Exact SVMs of other libraries run in a process
of their own (`python -m benchmarks.peers.worker`), because they bring their own thread pools and patch scikit-learn;
and so does xRFM, which needs an environment of its own: KOMPAKT_PEERS_PYTHON names its interpreter.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.kernel_approximation import Nystroem, RBFSampler
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.svm import SVC, LinearSVC

from benchmarks.harness import ROOT
from benchmarks.tasks import Task
from kompakt import CompactSVC


@dataclass(frozen=True)
class Point:
    """One fitted machine: what it cost and what it does."""

    contender: str
    size: float  # vectors (or random features); NaN where there is no such number
    fit: float  # seconds
    predict: float  # microseconds per row
    error: float  # per cent

    def dominates(self, other: Point) -> bool:
        """No worse in size, fit time and error, and better in one."""
        mine, theirs = (self.size, self.fit, self.error), (other.size, other.fit, other.error)
        return all(a <= b for a, b in zip(mine, theirs, strict=True)) and mine != theirs


def _linear(C: float) -> LinearSVC:
    return LinearSVC(C=C / 2, dual=False, max_iter=2000)  # LinearSVC counts xi^2 without the half


CONTENDERS: dict[str, Callable[[dict[str, Any], float, float, int], Any]] = {
    "kompakt": lambda p, C, gamma, seed: CompactSVC(C=C, gamma=gamma, random_state=seed, **p),
    "kompakt, rows only": lambda p, C, gamma, seed: CompactSVC(C=C, gamma=gamma, random_state=seed, refine=False, **p),
    # one factorisation for all classes
    "kompakt, rows only, least squares": lambda p, C, gamma, seed: CompactSVC(
        C=C, gamma=gamma, random_state=seed, refine=False, loss="least_squares", **p
    ),
    "Nystroem + LinearSVC": lambda p, C, gamma, seed: make_pipeline(
        Nystroem(gamma=gamma, random_state=seed, **p), _linear(C)
    ),
    "RBFSampler + LinearSVC": lambda p, C, gamma, seed: make_pipeline(
        RBFSampler(gamma=gamma, random_state=seed, **p), _linear(C)
    ),
    "SVC": lambda p, C, gamma, seed: SVC(C=C, gamma=gamma, cache_size=1000, **p),
    "HistGradientBoosting": lambda p, C, gamma, seed: HistGradientBoostingClassifier(random_state=seed, **p),
    # of a network C is one over the penalty on its weights; it stops early by a tenth of its rows
    "network": lambda p, C, gamma, seed: MLPClassifier(
        (int(p["units"]),),
        alpha=1.0 / C,
        early_stopping=True,
        max_iter=300,
        learning_rate_init=gamma,
        random_state=seed,
    ),
}

#: contenders whose points kompakt must dominate
APPROXIMATE = ("Nystroem + LinearSVC", "RBFSampler + LinearSVC")


def size_of(machine: Any) -> float:
    """Number of vectors, features or hidden units that a prediction is made of."""
    if hasattr(machine, "n_basis_"):
        return float(machine.n_basis_)
    if hasattr(machine, "support_"):
        return float(len(machine.support_))
    if isinstance(machine, MLPClassifier):
        return float(machine.coefs_[0].shape[1])
    steps = getattr(machine, "steps", None)
    return float(steps[0][1].n_components) if steps else float("nan")


def fitted_point(name: str, params: dict[str, Any], C: float, gamma: float, parts: Task, seed: int) -> Point:
    """Fit and measure one contender."""
    X, y, Xt, yt = parts
    machine = CONTENDERS[name](params, C, gamma, seed)
    began = time.perf_counter()
    machine.fit(X, y)
    fit = time.perf_counter() - began
    began = time.perf_counter()
    wrong = float(np.mean(machine.predict(Xt) != yt))
    predict = time.perf_counter() - began
    label = ", ".join(f"{key}={value}" for key, value in params.items())
    return Point(f"{name}({label})", size_of(machine), fit, 1e6 * predict / len(Xt), 100 * wrong)


def foreign_point(library: str, C: float, gamma: float, parts: Task, timeout: float) -> Point | str:
    """A machine of another library in its own process; a text says why there is no point."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "task.npz"
        np.savez(path, X=parts[0], y=parts[1], Xt=parts[2], yt=parts[3])
        python = os.environ.get("KOMPAKT_PEERS_PYTHON", sys.executable) if library == "xrfm" else sys.executable
        command = [python, "-m", "benchmarks.peers.worker", library, str(path), repr(C), repr(gamma)]
        try:
            done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=timeout, check=False)
        except subprocess.TimeoutExpired:
            return f"{library}: stopped after {timeout:.0f} s"
    if done.returncode:
        last = (done.stderr.strip().splitlines() or ["no message"])[-1]
        return f"{library}: {last}"
    values = json.loads(done.stdout.strip().splitlines()[-1])
    return Point(library if library == "xrfm" else f"{library} SVC", **values)
