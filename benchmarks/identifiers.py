"""Tables with every kind of index and identifier, and with measurements that look like one.

    python -m benchmarks.identifiers [--quick]

Every table is written to a file as its program would write it, and read back twice: as `kompakt train FILE` reads it,
and by pandas, as a data frame that is given to `fit`.  A row fails if an identifier is kept or a measurement left out
by either.  All tables hold fractions, counts and words besides; `fit` takes every column of a frame of numbers alone,
as scikit-learn does.

Whole numbers that are all different are identifiers here, also where they are seconds since 1970 or a price: nothing in
a column tells a key of ten digits from a time in seconds, and a measurement that is left out is said, with the flag
that keeps it, while an identifier that is kept is learned in silence.
"""

from __future__ import annotations

import hashlib
import sys
import tempfile
import uuid
from collections.abc import Callable
from contextlib import redirect_stderr
from dataclasses import dataclass, field
from functools import partial
from io import StringIO
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from benchmarks.harness import Run, at_most
from kompakt.cli.console import Console
from kompakt.cli.main import parse
from kompakt.cli.tables import open_table
from kompakt.data.table import TableSchema, Unused

Array = np.ndarray
Writer = Callable[[pd.DataFrame, Path], None]

CITIES = ["Rome", "Oslo", "Bern", "Paris"]


@dataclass(frozen=True)
class Case:
    """A table: how its columns are made of a number of rows and a generator, and which of them are identifiers."""

    name: str
    columns: Callable[[int, np.random.Generator], dict[str, Any]]
    identifiers: tuple[str, ...]
    write: Writer = field(default=lambda frame, path: frame.to_csv(path, index=False))
    ending: str = ".csv"
    reading: dict[str, Any] = field(default_factory=dict)  # arguments of pandas.read_csv
    most_rows: int = 10**9


def to_parquet(frame: pd.DataFrame, path: Path) -> None:
    frame.to_parquet(path)


def with_index(make: Callable[[pd.DataFrame, np.random.Generator], pd.DataFrame]) -> Writer:
    """Writes a frame with its index, which has no name, after `make` has changed it."""

    def write(frame: pd.DataFrame, path: Path) -> None:
        make(frame, np.random.default_rng(1)).to_csv(path)

    return write


def indexed(index: Callable[[int, np.random.Generator], Any]) -> Writer:
    return with_index(lambda frame, rng: frame.set_index(pd.Index(index(len(frame), rng))))


def split(frame: pd.DataFrame, rng: np.random.Generator) -> pd.DataFrame:
    """Seven tenths of a frame, as `DataFrame.sample` leaves it."""
    return frame.sample(frac=0.7, random_state=1)


def saved_twice(frame: pd.DataFrame, path: Path) -> None:
    split(frame, np.random.default_rng(1)).to_csv(path)
    pd.read_csv(path).to_csv(path)


def two_levels(frame: pd.DataFrame, rng: np.random.Generator) -> pd.DataFrame:
    numbers = np.arange(len(frame))
    return frame.set_index(pd.MultiIndex.from_arrays([numbers // 10, numbers % 10]))


def by_r(names: Callable[[int, np.random.Generator], list[Any]], *, header: bool) -> Writer:
    """R's write.csv, or write.table, whose header has no cell for the row names."""

    def write(frame: pd.DataFrame, path: Path) -> None:
        rows = [[f'"{name}"', *map(str, row)] for name, row in zip(
            names(len(frame), np.random.default_rng(1)), frame.to_numpy().tolist(), strict=True
        )]  # fmt: skip
        head = ['""'] * header + [f'"{name}"' for name in frame.columns]
        separator = "," if header else " "
        path.write_text("\n".join(separator.join(row) for row in [head, *rows]) + "\n")

    return write


def keys(n: int, rng: np.random.Generator, most: int = 10) -> Array:
    """Keys of a database some of whose rows were deleted."""
    return 1000 + np.cumsum(rng.integers(1, most, n))


def repeated(values: list[Any], rng: np.random.Generator) -> list[Any]:
    """The values, of which 1 % came twice."""
    values = list(values)
    for place in rng.choice(np.arange(1, len(values)), len(values) // 100, replace=False):
        values[place] = values[0]
    return values


def hexadecimal(n: int, digits: int) -> list[str]:
    return [hashlib.sha256(f"row {number}".encode()).hexdigest()[:digits] for number in range(n)]


def stamps(n: int, start: str, seconds: Array) -> Array:
    times = pd.Timestamp(start) + pd.to_timedelta(seconds[:n], "s")
    return np.array(times.strftime("%Y-%m-%d %H:%M:%S"))


def column(name: str, make: Callable[[int, np.random.Generator], Any]) -> Callable[..., dict[str, Any]]:
    return lambda n, rng: {name: make(n, rng)}


def nothing(n: int, rng: np.random.Generator) -> dict[str, Any]:
    return {}


INDEX = ("Unnamed: 0",)
IDENTIFIERS = [
    Case("pandas index", nothing, INDEX, with_index(lambda frame, rng: frame)),
    Case("pandas index of a split frame", nothing, INDEX, with_index(split)),
    Case("pandas index of a split frame, sorted", nothing, INDEX,
         with_index(lambda frame, rng: split(frame, rng).sort_index())),
    Case("pandas index of joined frames", nothing, INDEX, with_index(lambda frame, rng: pd.concat([frame, frame]))),
    Case("pandas index of floats", nothing, INDEX, indexed(lambda n, rng: np.arange(n) * 2.0)),
    Case("pandas index of words", nothing, INDEX, indexed(lambda n, rng: rng.choice(CITIES, n))),
    Case("pandas index of dates", nothing, INDEX, indexed(lambda n, rng: pd.date_range("2020-01-01", periods=n))),
    Case("pandas index of two levels", nothing, (*INDEX, "Unnamed: 1"), with_index(two_levels)),
    Case("pandas frame saved twice", nothing, ("Unnamed: 0", "Unnamed: 0.1"), saved_twice),
    Case("pandas reset_index of a split frame", nothing, ("index",),
         lambda frame, path: split(frame, np.random.default_rng(1)).reset_index().to_csv(path, index=False)),
    Case("pandas index in Parquet", nothing, ("__index_level_0__",),
         lambda frame, path: to_parquet(split(frame, np.random.default_rng(1)), path), ".parquet"),
    Case("polars row index", column("index", lambda n, rng: np.arange(n, dtype=np.uint32)), ("index",),
         to_parquet, ".parquet"),
    Case("R row numbers of a subset", nothing, INDEX, by_r(lambda n, rng: (1 + rng.permutation(3 * n)[:n]).tolist(),
                                                           header=True)),
    Case("R row names", nothing, INDEX, by_r(lambda n, rng: [f"Mazda RX{number}" for number in range(n)],
                                             header=True)),
    Case("R row names without a header", nothing, INDEX, by_r(lambda n, rng: list(range(1, n + 1)), header=False),
         reading={"sep": " "}),
    Case("database key", column("id", lambda n, rng: np.arange(1, n + 1)), ("id",)),
    Case("database key, shuffled", column("id", lambda n, rng: rng.permutation(n)), ("id",)),
    Case("database key with deleted rows", column("id", keys), ("id",)),
    Case("database key of several shards",
         column("key", lambda n, rng: rng.choice([10**6, 5 * 10**6, 10**9], n) + rng.permutation(n)), ("key",)),
    Case("random key of 32 bits",
         column("key", lambda n, rng: rng.choice(2**32, n, replace=False)), ("key",)),
    Case("key of 63 bits", column("key", lambda n, rng: [10**18 + 7 * int(number) for number in keys(n, rng)]),
         ("key",)),
    Case("key, 1 % of the rows twice", column("id", lambda n, rng: repeated(keys(n, rng).tolist(), rng)), ("id",)),
    Case("key, missing in some rows",
         column("id", lambda n, rng: np.where(np.arange(n) % 30 == 3, np.nan, keys(n, rng))), ("id",)),
    Case("key with zeros before it", column("id", lambda n, rng: [f"{key:08d}" for key in keys(n, rng)]), ("id",)),
    Case("key with grouped digits", column("id", lambda n, rng: [f"{10**6 + key:,}" for key in keys(n, rng)]),
         ("id",)),
    Case("order numbers and customers",
         lambda n, rng: {"order": [f"ORD-{key:06d}" for key in keys(n, rng)], "customer": rng.permutation(9 * n)[:n]},
         ("order", "customer")),
    Case("order numbers with the year", column("order", lambda n, rng: [f"2024-{key:06d}" for key in keys(n, rng)]),
         ("order",)),
    Case("order numbers, 1 % of the rows twice",
         column("order", lambda n, rng: repeated([f"A{key}" for key in keys(n, rng)], rng)), ("order",)),
    Case("UUIDs", column("uuid", lambda n, rng: [str(uuid.UUID(bytes=rng.bytes(16))) for _ in range(n)]), ("uuid",)),
    Case("hashes of 64 digits", column("hash", lambda n, rng: hexadecimal(n, 64)), ("hash",)),
    Case("hashes of 8 digits", column("hash", lambda n, rng: hexadecimal(n, 8)), ("hash",)),
    Case("mail addresses", column("mail", lambda n, rng: [f"user{key}@example.org" for key in keys(n, rng)]),
         ("mail",)),
    Case("date of export", column("exported", lambda n, rng: ["2024-05-01"] * n), ("exported",)),
    Case("times of export", column("exported", lambda n, rng: stamps(n, "2024-05-01 10:55", np.arange(n) * 0.7)),
         ("exported",), most_rows=5000),
    Case("seconds since 1970", column("written", lambda n, rng: 1_700_000_000 + np.cumsum(rng.integers(1, 900, n))),
         ("written",)),
]  # fmt: skip
MEASUREMENTS = [
    Case("prices with cents, all different",
         column("price", lambda n, rng: (1001 + 3 * rng.permutation(9 * n)[:n]) / 100), ()),
    Case("sorted fractions, all different", column("depth", lambda n, rng: np.arange(n) / 8), ()),
    Case("fractions with a decimal comma",
         column("weight", lambda n, rng: [f"{1 + rng.random() * 8:.3f}".replace(".", ",") for _ in range(n)]), (),
         lambda frame, path: frame.to_csv(path, sep=";", decimal=",", index=False),
         reading={"sep": ";", "decimal": ","}),
    Case("fractions in a column without a name", nothing, (), indexed(lambda n, rng: np.arange(n) / 50 + 0.01)),
    Case("ages, rooms and years",
         lambda n, rng: {"age": rng.integers(18, 90, n), "rooms": rng.integers(1, 9, n),
                         "built": rng.integers(1900, 2024, n)}, (), most_rows=1000),
    Case("incomes in hundreds", column("income", lambda n, rng: np.round(rng.lognormal(8, 0.5, n), -2).astype(int)),
         ()),
    Case("page views, some in the millions", column("views", lambda n, rng: rng.geometric(0.002, n)), ()),
    Case("postal codes and streets",
         lambda n, rng: {"zip": rng.integers(10_000, 10_000 + n, n),
                         "street": [f"{number}th" for number in rng.integers(30, 99, n)]}, ()),
    Case("whole numbers in few rows", column("age", lambda n, rng: 20 + rng.permutation(70)[:n]), (), most_rows=40),
    Case("a date in every row, all different",
         column("day", lambda n, rng: pd.date_range("2000-01-01", periods=n).strftime("%d.%m.%Y")), ()),
    Case("times over days, all different",
         column("time", lambda n, rng: stamps(n, "2024-05-01", np.sort(rng.choice(10**7, n, replace=False)))), ()),
    Case("seconds since 1970 with fractions", column("time", lambda n, rng: 1.7e9 + np.cumsum(rng.random(n))), ()),
]  # fmt: skip


def table_of(case: Case, n_rows: int, seed: int) -> pd.DataFrame:
    """The columns of a case between a fraction, a count and the target, whose labels are sorted."""
    rng = np.random.default_rng(seed)
    columns = {"x": rng.normal(size=n_rows), **case.columns(n_rows, rng), "count": rng.poisson(3.0, n_rows)}
    columns["city"] = rng.choice(CITIES, n_rows)
    return pd.DataFrame({**columns, "y": np.where(np.arange(n_rows) < n_rows // 2, "no", "yes")})


def left_out(schema: TableSchema | None) -> set[str]:
    columns = () if schema is None else schema.columns
    return {column.name for column in columns if isinstance(column, Unused)}


def measure(case: Case, sizes: list[int]) -> dict[str, Any]:
    """The number of columns that are judged wrongly by `kompakt train` or by `fit`, over tables of several sizes."""
    wrong: list[str] = []
    names: list[str] = []
    for n_rows in sorted({min(n_rows, case.most_rows) for n_rows in sizes}):
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, "table" + case.ending)
            case.write(table_of(case, n_rows, seed=n_rows), path)
            options = parse(["train", str(path), "model", "--target", "y"])
            with redirect_stderr(StringIO()):
                table = open_table(options, Console(quiet=True), str(path))
            frame = pd.read_parquet(path) if case.ending == ".parquet" else pd.read_csv(path, **case.reading)
        names = [name for name in table.file.names if name != "y"]
        by_command, by_fit = left_out(table.schema), left_out(TableSchema.infer(frame.drop(columns="y")))
        for who, columns, dropped in (("train", names, by_command), ("fit", list(frame.columns), by_fit)):
            kept = [name for name in case.identifiers if name in columns and name not in dropped]
            wrong += [f"{who} keeps {name!r} of {n_rows} rows" for name in kept]
            wrong += [f"{who} loses {name!r} of {n_rows} rows" for name in dropped - set(case.identifiers)]
    measurements = ", ".join(name for name in names if name not in case.identifiers)
    identifiers = ", ".join(case.identifiers) or "nothing"
    note = "; ".join(wrong) or f"kept {measurements}; left out {identifiers}"
    return {"ours": len(wrong), "note": note, "wrong": wrong}


def main() -> int:
    run = Run("identifiers", "Identifiers are left out of tables, measurements are not", 0.2, 1)
    sizes = [300] if run.quick else [80, 300, 5000]
    wrong: list[str] = []
    for case in [*IDENTIFIERS, *MEASUREMENTS]:
        values = run.row(case.name, {"sizes": sizes}, partial(measure, case, sizes), at_most(0))
        wrong += [] if values is None else values["wrong"]
    n_kept, n_lost = (sum(f" {word} " in text for text in wrong) for word in ("keeps", "loses"))
    kept, lost = (f"{count} times" if count else "none" for count in (n_kept, n_lost))
    n_tables = len(IDENTIFIERS) + len(MEASUREMENTS)
    print(f"{n_tables} tables; an identifier is kept: {kept}; a measurement is lost: {lost}")
    return run.finish()


if __name__ == "__main__":
    sys.exit(main())
