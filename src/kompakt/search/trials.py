"""The table of a search: every setting that was tried, its held-out error, and which one is best."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

logger = logging.getLogger(__name__)


@dataclass(frozen=True, eq=False)
class Trial:
    """One row of the table.

    Attributes
    ----------
    params : dict
        The setting.
    error : float
        What the search minimises; infinite where the evaluation gave no finite value.
    fold_errors : ndarray of shape (n_folds,)
        Errors of the folds, empty where only their mean is known.
    seconds : float
        Time of the evaluation.
    more : dict
        Further columns: the phase of the search, the number of rows, ...
    """

    params: dict[str, Any]
    error: float
    fold_errors: NDArray[np.float64]
    seconds: float
    more: dict[str, Any]

    @property
    def mean(self) -> float:
        """Mean error of the folds, as far as they are known; else what the search minimises."""
        known = self.fold_errors[~np.isnan(self.fold_errors)]
        return float(known.mean()) if known.size else self.error

    @property
    def deviation(self) -> float:
        """Standard deviation of the folds' errors; NaN where they are not known."""
        known = self.fold_errors[~np.isnan(self.fold_errors)]
        return float(known.std()) if known.size else float("nan")


@dataclass
class Trials:
    """What a search tried, in order.

    Attributes
    ----------
    stopped : str
        Why the search ended: "budget" (all evaluations used), "finished", "converged" or "deadline".
    chosen : int, optional
        Row of the setting that was taken, where that is not simply the lowest error: errors of other rows may have been
        measured in another way (on fewer rows, with another loss), or the difference may be chance.
    why : str
        Why it was taken.

    Examples
    --------
    >>> from kompakt.search import Trials
    >>> trials = Trials()
    >>> trials.add({"C": 1.0}, 0.2, [0.1, 0.3], phase="coarse")
    >>> trials.add({"C": 10.0}, 0.1, [0.1, 0.1], phase="fine")
    >>> trials.best.params
    {'C': 10.0}
    >>> table = trials.as_dict()
    >>> table["param_C"].tolist(), table["std_test_error"].round(3).tolist(), table["rank_test_error"].tolist()
    ([1.0, 10.0], [0.1, 0.0], [2, 1])
    """

    stopped: str = "finished"
    chosen: int | None = None
    why: str = ""
    rows: list[Trial] = field(default_factory=list, repr=False)

    def add(
        self,
        params: Mapping[str, Any],
        error: float,
        fold_errors: ArrayLike | None = None,
        seconds: float = 0.0,
        **more: Any,
    ) -> None:
        """Append a row; an error that is NaN or infinite counts as a failure, the worst there is."""
        folds = np.asarray([] if fold_errors is None else fold_errors, dtype=np.float64)
        self.rows.append(Trial(dict(params), float(error) if np.isfinite(error) else np.inf, folds, seconds, more))
        setting = ", ".join(f"{name} {one:.4g}" for name, one in params.items() if isinstance(one, int | float))
        # of a table filled at once, a line per point would hide all others
        level = logging.DEBUG if more.get("model") == "plain" else logging.INFO
        logger.log(level, "search: %s: held-out error %.4g", setting or more.get("model", ""), error)
        logger.debug("trial %d: %s", len(self.rows), more)

    def __len__(self) -> int:
        return len(self.rows)

    def __iter__(self) -> Iterator[Trial]:
        return iter(self.rows)

    @property
    def errors(self) -> NDArray[np.float64]:
        """What was minimised, of every row; infinite for a failure."""
        return np.array([row.error for row in self.rows])

    @property
    def n_failed(self) -> int:
        """Evaluations that gave NaN or an infinite value."""
        return int(np.isinf(self.errors).sum())

    def choose(self, trial: Trial, why: str = "") -> None:
        """Take this row, for this reason."""
        self.chosen, self.why = self.rows.index(trial), why

    @property
    def best(self) -> Trial:
        """The row that was chosen; without a choice the lowest error, the first of equal ones."""
        return self.rows[int(np.argmin(self.errors)) if self.chosen is None else self.chosen]

    def as_dict(self) -> dict[str, NDArray[Any]]:
        """Columns in the layout of scikit-learn's `cv_results_`, one entry per row.

        Returns
        -------
        dict of ndarray
            `params` and `param_*`; the further columns given; `split*_test_error` where folds are known;
            `mean_test_error` and `std_test_error` over the folds (the error itself and NaN where folds are not known);
            `objective`, what was minimised; `rank_test_error`, 1 for the row that was chosen, then by the objective;
            and `fit_time` in seconds.
        """
        columns: dict[str, list[Any]] = {"params": [dict(row.params) for row in self.rows]}
        for name in dict.fromkeys(name for row in self.rows for name in row.params):
            columns[f"param_{name}"] = [row.params.get(name) for row in self.rows]
        for name in dict.fromkeys(name for row in self.rows for name in row.more):
            columns[name] = [row.more.get(name) for row in self.rows]
        for fold in range(max((row.fold_errors.size for row in self.rows), default=0)):
            errors = [row.fold_errors[fold] if fold < row.fold_errors.size else np.nan for row in self.rows]
            columns[f"split{fold}_test_error"] = errors
        columns["mean_test_error"] = [row.mean for row in self.rows]
        columns["std_test_error"] = [row.deviation for row in self.rows]
        rank = np.empty(len(self.rows), dtype=np.intp)
        passed_over = np.array([row is not self.best for row in self.rows])
        rank[np.lexsort((self.errors, passed_over))] = np.arange(1, len(self.rows) + 1)
        times = [row.seconds for row in self.rows]
        table = {name: np.array(values) for name, values in columns.items()}
        return table | {"objective": self.errors, "rank_test_error": rank, "fit_time": np.array(times)}
