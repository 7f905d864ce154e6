"""Time to fit and to predict, by rows, features, basis vectors and classes: the table of docs/speed.md.

    python -m benchmarks.speed_table [--quick] [--write]

One thread, CPU seconds: so other work on the computer changes the figures less than it changes a clock. From a middle
case one number changes at a time. Rows are scikit-learn's `make_classification`, standardised by construction. `SVC`
is fitted up to 20,000 rows. With `--write` the table in docs/speed.md is replaced.
"""

from __future__ import annotations

import platform
import re
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import sklearn
from sklearn.datasets import make_classification
from sklearn.svm import SVC
from threadpoolctl import threadpool_limits

import kompakt
from kompakt import CompactSVC

PAGE = Path(__file__).resolve().parents[1] / "docs" / "speed.md"
MIDDLE = {"n": 10_000, "d": 20, "m": 50, "classes": 2}
CHANGES: list[dict[str, int]] = [
    {}, {"n": 1_000}, {"n": 100_000}, {"d": 5}, {"d": 100}, {"m": 10}, {"m": 200}, {"classes": 5}, {"classes": 10},
]  # fmt: skip
MOST_SVC_ROWS, TEST_ROWS = 20_000, 2_000
HEAD = (
    "| rows | features | vectors | classes "
    "| fit, s | unrefined, s | `SVC`, s | predict, us | `SVC`, us | its vectors |\n" + "|---" * 10 + "|\n"
)


def cpu_seconds(function: Callable[..., Any], *arguments: Any) -> float:
    start = time.process_time()
    function(*arguments)
    return time.process_time() - start


def per_row(model: Any, X: np.ndarray) -> float:
    """CPU microseconds of a prediction in a batch, the best of five."""
    return 1e6 * min(cpu_seconds(model.predict, X) for _ in range(5)) / len(X)


def rounded(seconds: float) -> str:
    return f"{seconds:.2f}" if seconds < 1 else f"{seconds:.1f}" if seconds < 100 else f"{seconds:.0f}"


def row(n: int, d: int, m: int, classes: int) -> str:
    """One line of the table."""
    informative = min(d, 10)
    X, y = make_classification(
        n + TEST_ROWS, d, n_informative=informative, n_redundant=0, n_classes=classes, n_clusters_per_class=2,
        flip_y=0.02, random_state=0,
    )  # fmt: skip
    X = X / X.std(axis=0)
    Xt = X[n:]
    compact = CompactSVC(m, random_state=0, n_jobs=1)
    plain = CompactSVC(m, refine=False, random_state=0, n_jobs=1)
    cells = [rounded(cpu_seconds(model.fit, X[:n], y[:n])) for model in (compact, plain)]
    exact = ["", "", ""]
    if n <= MOST_SVC_ROWS:
        svc = SVC(cache_size=500)
        seconds = cpu_seconds(svc.fit, X[:n], y[:n])
        exact = [rounded(seconds), f"{per_row(svc, Xt):.0f}", f"{len(svc.support_):,}"]
    numbers = [f"{number:,}" for number in (n, d, m, classes)]
    return "| " + " | ".join([*numbers, *cells, exact[0], f"{per_row(compact, Xt):.1f}", *exact[1:]]) + " |\n"


def main() -> int:
    middle = {**MIDDLE, "n": 500, "m": 20} if "--quick" in sys.argv else MIDDLE
    changes = CHANGES[:1] + [{"classes": 5}] if "--quick" in sys.argv else CHANGES
    CompactSVC(5, random_state=0, n_jobs=1).fit(*make_classification(300, random_state=0))  # compilation is not timed
    lines = []
    with threadpool_limits(1):
        for change in changes:
            lines.append(row(**{**middle, **change}))
            print(lines[-1], end="", flush=True)
    processor = platform.processor() or platform.machine()
    if Path("/proc/cpuinfo").exists():
        named = re.search(r"model name\s*: (.*)", Path("/proc/cpuinfo").read_text())
        processor = named[1] if named else processor
    machine = (
        f"\nMeasured on one core of a shared virtual computer ({processor}), Python {platform.python_version()}, "
        f"NumPy {np.__version__}, scikit-learn {sklearn.__version__}, kompakt {kompakt.__version__} with Numba.\n"
    )
    table = HEAD + "".join(lines) + machine
    print(table)
    if "--write" in sys.argv:
        begin, end = "<!-- table speed: begin -->\n", "<!-- table speed: end -->"
        text = PAGE.read_text()
        head, _, rest = text.partition(begin)
        PAGE.write_text(head + begin + "\n" + table + "\n" + end + rest.partition(end)[2])
    return 0


if __name__ == "__main__":
    sys.exit(main())
