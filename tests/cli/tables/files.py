"""Small tables as people have them, written as programs write them; every case says what is expected of it."""

from __future__ import annotations

import bz2
import csv
import datetime as dt
import gzip
import io
import lzma
import re
import zipfile
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest

N = 40
NUMBER, WORDS, DATE, OUT = "number", "category", "date", "unused"


@dataclass
class Case:
    """A file, what its columns are (None: plain numbers, and no schema), and what is said."""

    name: str
    write: Callable[[Path], None]
    kinds: dict[str, str] | None
    said: tuple[str, ...] = ()
    flags: tuple[str, ...] = ()
    task: str = "classify"
    n_rows: int = N
    fails: bool = False
    export: bool = False


CASES: list[Case] = []


def case(content: Any, kinds: dict[str, str] | None, *said: str, name: str, ending: str = "csv", **more: Any) -> None:
    """Add a case whose content is text, bytes, or a function that writes a file."""

    def write(path: Path) -> None:
        if callable(content):
            content(path)
        elif isinstance(content, bytes):
            path.write_bytes(content)
        else:
            path.write_bytes(content.encode())

    CASES.append(Case(f"{name}.{ending}", write, kinds, said, **more))


def add_gap(path: Path) -> None:
    """Make a gap of one size in a file of people, packed and written as it may be."""
    raw = path.read_bytes()
    if raw.startswith(b"PAR1"):
        frame = pytest.importorskip("pandas").read_parquet(path)
        frame.loc[6, "size"] = None
        frame.to_parquet(path)
    elif raw.startswith(b"PK"):
        with zipfile.ZipFile(path) as archive:
            (name,) = archive.namelist()
            content = archive.read(name)
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
            archive.writestr(name, _with_gap(content))
    elif raw.startswith(b"\x28\xb5\x2f\xfd"):
        arrow = pytest.importorskip("pyarrow")
        with arrow.input_stream(str(path), compression="zstd") as file:
            content = file.read()
        with arrow.output_stream(str(path), compression="zstd") as file:
            file.write(_with_gap(content))
    else:
        packers = ((b"\x1f\x8b", gzip), (b"BZh", bz2), (b"\xfd7zXZ", lzma))
        packer: Any = next((module for magic, module in packers if raw.startswith(magic)), None)
        path.write_bytes(packer.compress(_with_gap(packer.decompress(raw))) if packer else _with_gap(raw))


def _with_gap(raw: bytes) -> bytes:
    encoding = "utf-16-le" if b"\0" in raw else "latin-1"  # every byte is a letter, and is written as it was
    text, size = raw.decode(encoding), re.escape(f"{people()[6].size}").replace(r"\.", "[.,]")
    replaced, count = re.subn(rf"(?<![\d.,]){size}0*(e\+00)?(?!\d)|(?<=,){size}(?=,)", "NA", text, count=1)
    assert count == 1
    return replaced.encode(encoding)


# -- people: size tells the answer ---------------------------------------------------------------------------


@dataclass
class Person:
    number: int
    size: float
    income: float
    city: str
    day: dt.date
    member: bool
    answer: str = field(init=False)

    def __post_init__(self) -> None:
        self.answer = "yes" if self.size > 5 else "no"


def people(n: int = N) -> list[Person]:
    rng = np.random.default_rng(7)
    found = []
    for number in range(n):
        size = round(float(rng.uniform(0, 4.5) if number % 2 else rng.uniform(5.5, 10)), 2)
        day = dt.date(2022, 1, 1) + dt.timedelta(days=int(rng.integers(0, 700)))
        income = round(float(rng.uniform(1_000, 90_000)), 2)
        found.append(Person(number, size, income, ["Rome", "Oslo", "Bern"][number % 3], day, bool(rng.random() < 0.5)))
    return found


def grouped(value: float, thousands: str, decimal: str, digits: int = 2) -> str:
    return f"{value:,.{digits}f}".replace(",", "\0").replace(".", decimal).replace("\0", thousands)


def table(
    *columns: tuple[str, Callable[[Person], Any]], answer: Callable[[Person], Any] = lambda p: p.answer,
    names: bool = True, n: int = N, target: str = "answer", first: bool = False, **style: Any,
) -> str:  # fmt: skip
    """A CSV text of some columns and the answer, by Python's own writer."""
    out = io.StringIO()
    writer = csv.writer(out, **{"lineterminator": "\n", **style})
    together = [(target, answer), *columns] if first else [*columns, (target, answer)]
    if names:
        writer.writerow([name for name, _ in together])
    for person in people(n):
        writer.writerow([of(person) for _, of in together])
    return out.getvalue()


SIZE = ("size", lambda p: p.size)
INCOME = ("income", lambda p: p.income)
CITY = ("city", lambda p: p.city)
PLAIN = table(SIZE, INCOME)
MIXED = table(SIZE, CITY)
MIXED_KINDS = {"size": NUMBER, "city": WORDS}


def with_gaps(of: Callable[[Person], Any], gap: str, every: int = 10) -> Callable[[Person], Any]:
    return lambda p: gap if p.number % every == 3 else of(p)


# -- numbers -------------------------------------------------------------------------------------------------

case(PLAIN, None, "names the columns", "target: column 'answer'", "2 classes", name="plain numbers")
for title, form, kinds in [
    ("thousands", lambda v: grouped(v, ",", "."), NUMBER),
    ("thousands by spaces", lambda v: grouped(v, " ", "."), NUMBER),
    ("thousands by apostrophes", lambda v: grouped(v, "'", "."), NUMBER),
    ("dollars", lambda v: "$" + grouped(v, ",", "."), NUMBER),
    ("per cent", lambda v: f"{v / 1000:.1f} %", NUMBER),
    ("scientific", lambda v: f"{v:.3e}", NUMBER),
    ("minus signs", lambda v: f"\u2212{v:.1f}", NUMBER),
    ("decimal comma", lambda v: f"{v:.1f}".replace(".", ","), NUMBER),
    ("german thousands", lambda v: grouped(v, ".", ","), NUMBER),
    ("euros", lambda v: grouped(v, ".", ",") + " \u20ac", NUMBER),
]:
    text = table(SIZE, ("income", lambda p, form=form: form(p.income)), CITY)
    case(text, {**MIXED_KINDS, "income": kinds}, "income  number", name=title)
case(
    table(("size", lambda p: f"{p.size}".replace(".", ",")), ("income", lambda p: f"{p.income:.0f}"), delimiter=";"),
    {"size": NUMBER, "income": NUMBER}, "size    number, decimal comma", name="decimal comma and semicolons",
)  # fmt: skip
case(
    table(("size", lambda p: f"{p.size:.3f}".replace(".", ",")), CITY, delimiter=";"), MIXED_KINDS, "decimal comma",
    name="the decimal sign is said", flags=("--decimal", ","),
)  # fmt: skip
case(
    table(SIZE, ("income", with_gaps(lambda p: p.income, "unknown"))), {"size": NUMBER, "income": NUMBER},
    "column income: not a number, taken as missing (such as 'unknown'): 4 cell(s)", "with a missing-value indicator",
    name="a word among numbers",
)  # fmt: skip

# -- words ---------------------------------------------------------------------------------------------------

case(MIXED, MIXED_KINDS, "city  3 levels (Bern, Oslo, Rome)", name="words")
for title, yes, no in [("truth values", "True", "False"), ("yes and no", "yes", "no"), ("wahr", "WAHR", "FALSCH")]:
    text = table(SIZE, ("member", lambda p, yes=yes, no=no: yes if p.member else no))
    case(text, {"size": NUMBER, "member": WORDS}, "2 levels", name=title)
case(
    table(SIZE, ("town", lambda p: f"t{p.number % 45}"), n=180), {"size": NUMBER, "town": "levels"},
    "45 levels (t0, t1, t2, ...)", name="many levels", n_rows=180,
)  # fmt: skip
case(
    table(SIZE, ("city", lambda p: "Ulm" if p.number == 4 else p.city)), MIXED_KINDS, "3 levels and other",
    name="a level seen once",
)  # fmt: skip
case(table(SIZE, ("city", lambda p: f"{p.city}, EU")), MIXED_KINDS, "Bern, EU", name="words with commas")
case(table(SIZE, ("city", lambda p: {"Bern": "Zürich"}.get(p.city, p.city))), MIXED_KINDS, "Zürich", name="umlauts")
case(table(SIZE, ("city", lambda p: f"{p.city}\nEurope")), MIXED_KINDS, name="line ends in quotes")

# -- dates ---------------------------------------------------------------------------------------------------

for title, form in [
    ("iso dates", "%Y-%m-%d"), ("german dates", "%d.%m.%Y"), ("american dates", "%m/%d/%Y"),
    ("british dates", "%d/%m/%Y"), ("dates in words", "%d %b %Y"), ("short years", "%d.%m.%y"),
]:  # fmt: skip
    text = table(SIZE, ("day", lambda p, form=form: p.day.strftime(form)))
    case(text, {"size": NUMBER, "day": DATE}, "days since 2022-0", name=title)
for title, form in [("times", "%Y-%m-%d %H:%M"), ("iso times", "%Y-%m-%dT%H:%M:%SZ")]:
    text = table(
        SIZE,
        ("at", lambda p, form=form: dt.datetime.combine(p.day, dt.time(p.number % 24, 30)).strftime(form)),
    )
    case(text, {"size": NUMBER, "at": DATE}, "weekday, hour", name=title)

# -- missing -------------------------------------------------------------------------------------------------

for title, gap in [
    ("empty cells", ""), ("blank cells", "  "), ("NA", "NA"), ("nan", "nan"), ("null", "null"), ("None", "None"),
    ("question marks", "?"), ("dashes", "-"), ("excel errors", "#N/A"),
]:  # fmt: skip
    text = table(SIZE, ("income", with_gaps(lambda p: p.income, gap)), ("city", with_gaps(lambda p: p.city, gap, 9)))
    kinds = {**MIXED_KINDS, "income": NUMBER}
    case(text, kinds, "income  number; gaps", "missing-value indicator", "city    3 levels", name=f"gaps by {title}")
case(
    table(SIZE, ("income", with_gaps(lambda p: p.income, "-999"))), {"size": NUMBER, "income": NUMBER},
    "with a missing-value indicator", name="gaps by a code", flags=("--na", "-999"),
)  # fmt: skip
case(
    table(SIZE, ("income", lambda p: "" if p.number == 3 else p.income), n=150), {"size": NUMBER, "income": NUMBER},
    "income  number", name="a gap in a hundred", n_rows=150,
)  # fmt: skip

# -- columns that nobody can use -----------------------------------------------------------------------------

for title, of, why in [
    ("words that differ", lambda p: f"u{p.number:04d}", "all values are different"),
    ("consecutive numbers", lambda p: 100 + p.number, "consecutive numbers"),
    ("a constant", lambda p: "EU", "constant (EU)"),
    ("nothing", lambda p: "", "every cell is missing"),
]:
    said = f"column 'code' is left out: {why}"
    case(table(("code", of), SIZE, CITY), {"code": OUT, **MIXED_KINDS}, said, name=f"a column of {title}")
case(
    "".join(line + ";\n" for line in table(SIZE, CITY, delimiter=";").splitlines()),
    {**MIXED_KINDS, "Unnamed: 3": OUT}, "'Unnamed: 3' is left out", name="separators at the ends",
)  # fmt: skip

# -- targets -------------------------------------------------------------------------------------------------

case(
    table(SIZE, CITY, answer=lambda p: 2 * p.size + 0.5), MIXED_KINDS,
    "regression (-s classify if the target is a label)", name="fractions to predict", task="regress",
)  # fmt: skip
case(
    table(SIZE, CITY, answer=lambda p: round(100 * p.size)), MIXED_KINDS, "regression", name="prices to predict",
    task="regress",
)  # fmt: skip
case(
    table(SIZE, CITY, answer=lambda p: f"{2 * p.size:.1f}".replace(".", ","), delimiter=";"), MIXED_KINDS,
    "regression", name="a target with commas", task="regress",
)  # fmt: skip
case(
    table(SIZE, CITY, answer=lambda p: int(p.size > 5)), MIXED_KINDS, "2 classes (-s regress if the target is",
    name="classes by number",
)  # fmt: skip
case(table(SIZE, CITY, answer=lambda p: p.size > 5), MIXED_KINDS, "2 classes", name="classes by truth")
case(
    table(SIZE, CITY, target="Label", first=True), MIXED_KINDS, "target: column 'Label'", name="the label comes first",
)  # fmt: skip
case(
    table(SIZE, INCOME, ("height", lambda p: p.size / 7), target="kind", first=True), None,
    "target: column 'kind'", "the first, as it holds labels; --target height", name="labels come first",
)  # fmt: skip
case(table(SIZE, INCOME, first=True, names=False), None, "target: column '0'", name="labels come first without header")
case(
    table(SIZE, CITY, answer=lambda p: "rare" if p.number == 1 else p.answer), MIXED_KINDS,
    "1 classes have fewer than 3 rows, too few to learn: rare (1)", name="a rare class",
)  # fmt: skip
case(
    table(SIZE, CITY, answer=lambda p: 9 if p.number == 1 else int(p.size > 5)), MIXED_KINDS,
    "9 (1)", "-s regress if the target is a quantity", name="a rare number",
)  # fmt: skip
case(
    table(SIZE, CITY, answer=with_gaps(lambda p: p.answer, "")), MIXED_KINDS,
    "column 'answer': the target is missing; 4 such row(s) are left out", name="targets that are missing",
)  # fmt: skip
case(
    table(SIZE, ("bought", lambda p: p.answer), CITY, answer=lambda p: p.member), {**MIXED_KINDS, "answer": WORDS},
    name="a target in the middle", flags=("--target", "bought"),
)  # fmt: skip

# -- headers -------------------------------------------------------------------------------------------------

case(
    table(SIZE, CITY, names=False), {"0": NUMBER, "1": WORDS}, "header: none", "target: column '2'", name="no header"
)  # fmt: skip
case(
    table(("2021", lambda p: p.size), ("2022", lambda p: p.income)), None, "names the columns", name="years above"
)  # fmt: skip
case(table(("the size", lambda p: p.size), CITY), {"the size": NUMBER, "city": WORDS}, name="names with spaces")
case(
    "# " + table(SIZE, INCOME).replace("\n", "\n", 1), None, "target: column 'answer'", name="names in a comment"
)  # fmt: skip
case("Report of 2024;;\n" + table(SIZE, CITY, delimiter=";"), MIXED_KINDS, name="a title above")

# -- files ---------------------------------------------------------------------------------------------------


def zipped(path: Path) -> None:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("people.csv", MIXED)


def zstandard(path: Path) -> None:
    arrow = pytest.importorskip("pyarrow")
    with arrow.output_stream(str(path), compression="zstd") as file:
        file.write(MIXED.encode())


def parquet(path: Path) -> None:
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame([vars(person) for person in people()])[["size", "city", "day", "member", "answer"]]
    frame["city"] = frame["city"].astype("category")
    frame.to_parquet(path)


case(gzip.compress(MIXED.encode()), MIXED_KINDS, name="packed", ending="csv.gz")
case(bz2.compress(MIXED.encode()), MIXED_KINDS, name="packed", ending="csv.bz2")
case(lzma.compress(MIXED.encode()), MIXED_KINDS, name="packed", ending="csv.xz")
case(zstandard, MIXED_KINDS, name="packed", ending="csv.zst")
case(zipped, MIXED_KINDS, name="packed", ending="zip")
case(gzip.compress(PLAIN.encode()), None, name="packed numbers", ending="csv.gz")
case(b"\xef\xbb\xbf" + MIXED.encode(), MIXED_KINDS, name="with a mark of utf-8")
case(MIXED.encode("utf-16"), MIXED_KINDS, name="utf-16")
case(MIXED.encode("utf-16-le"), MIXED_KINDS, name="utf-16 without mark")
case(MIXED.replace("Bern", "Zürich").encode("latin-1"), MIXED_KINDS, "Zürich", name="latin-1")
case(PLAIN.replace("size", "größe").encode("latin-1"), None, name="numbers below a name in latin-1")
case(PLAIN.replace("size", "Größe in €").encode("cp1252"), None, name="numbers below a name in windows' western")
case(PLAIN.encode("utf-16"), None, name="numbers in utf-16")
case(MIXED.replace("\n", "\r\n"), MIXED_KINDS, name="line ends of windows")
case(MIXED.replace("\n", "\r"), MIXED_KINDS, name="line ends of old macintoshes")
case(PLAIN.replace("\n", "\r"), None, name="numbers and line ends of old macintoshes")
case(
    table(("size\nin metres", lambda p: p.size), CITY), {"size\nin metres": NUMBER, "city": WORDS},
    name="a name of two lines",
)  # fmt: skip
case(table(("size\nin metres", lambda p: p.size), INCOME), None, name="numbers below a name of two lines")
wide = [
    (f"a measurement of which the number is {number:04d}, at noon", lambda p, factor=number: f"{factor * p.size:.3f}")
    for number in range(2, 1300)
]
case(table(SIZE, *wide), None, name="lines over 64 KiB")
case("# by hand\n#\n" + MIXED.replace("\n", "\n# half\n", 20), MIXED_KINDS, name="comment lines")
case(MIXED.replace(",", ", "), MIXED_KINDS, name="spaces after commas")
for title, separator in [("semicolons", ";"), ("tabs", "\t"), ("bars", "|"), ("spaces", " ")]:
    case(MIXED.replace(",", separator), MIXED_KINDS, name=f"separated by {title}", ending="txt")
case(MIXED.replace(",", "    "), MIXED_KINDS, name="separated by many spaces", ending="txt")
case(
    parquet, {**MIXED_KINDS, "day": DATE, "member": WORDS}, "city    3 levels", name="words and days", ending="parquet"
)

# -- files that are refused, with a reason -------------------------------------------------------------------

damaged = bytearray(gzip.compress(MIXED.encode()))
damaged[40:60] = bytes(20)
case(bytes(damaged), {}, "cannot be unpacked", name="damaged", ending="csv.gz", fails=True)
case("answer\nyes\nno\nyes\n", {}, "holds no comma", name="one column", fails=True)
case(MIXED.replace("Oslo", "Oslo,x", 1), {}, "4 columns, but the first line has 3", name="a long row", fails=True)
case("a,a,answer\n1,2,yes\n2,4,no\n", {}, "two columns have the name 'a'", name="a name twice", fails=True)
case("a,b,answer\n", {}, "no rows", name="a header alone", fails=True)
case(
    table(("code", lambda p: f"u{p.number}")), {}, "no column beside the target that can be used", name="ids alone",
    fails=True,
)  # fmt: skip


case(
    table(SIZE, CITY, answer=lambda p: f"k{p.number // 2}"), {}, "20 classes have fewer than 3 rows", "k0 (2)",
    name="rare classes alone", fails=True,
)  # fmt: skip
case("INSERT INTO t VALUES (1, 2, 'a');\n" * 9, {}, "Export it as CSV", name="statements", ending="sql", fails=True)
case('[{"a": 1, "b": 2},\n{"a": 2, "b": 3}]\n', {}, "no table of rows", name="objects", ending="json", fails=True)


# -- exports of programs -------------------------------------------------------------------------------------

EXPORT = {"export": True}
CUSTOMER = {"customer": OUT, "size": NUMBER, "income": NUMBER, "city": WORDS, "joined": DATE, "member": WORDS}


def customers(gap: Any = None) -> Any:
    """A pandas frame of all columns, with gaps."""
    pandas = pytest.importorskip("pandas")
    rows = people()
    return pandas.DataFrame(
        {
            "customer": [f"C-{person.number:05d}" for person in rows],
            "size": [person.size for person in rows],
            "income": [gap if person.number % 10 == 3 else person.income for person in rows],
            "city": [person.city for person in rows],
            "joined": pandas.to_datetime([person.day for person in rows]),
            "member": [person.member for person in rows],
            "answer": [person.answer for person in rows],
        }
    )


def customer_rows(
    *, decimal: str = ".", thousands: str = "", day: str = "%Y-%m-%d", true: str = "1", false: str = "0",
    gap: str = "", currency: str = "", n: int = N,
) -> list[list[str]]:  # fmt: skip
    """The cells of the same table as another program prints them, with a header."""
    found = [["customer", "size", "income", "city", "joined", "member", "answer"]]
    for p in people(n):
        income = gap if p.number % 10 == 3 else currency + grouped(p.income, thousands, decimal)
        size = f"{p.size:.2f}".replace(".", decimal)
        member = true if p.member else false
        found.append([f"C-{p.number:05d}", size, income, p.city, p.day.strftime(day), member, p.answer])
    return found


def joined(rows: list[list[str]], separator: str, end: str = "\n", quote: str = "") -> str:
    def cell(text: str) -> str:
        return f"{quote}{text}{quote}" if quote else f'"{text}"' if separator in text else text

    return "".join(separator.join(map(cell, row)) + end for row in rows)


def boxed(rows: list[list[str]]) -> str:
    """As the program mysql draws a table."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    rule = "+" + "+".join("-" * (width + 2) for width in widths) + "+\n"
    lines = ["| " + " | ".join(f"{c:<{w}}" for c, w in zip(row, widths, strict=True)) + " |\n" for row in rows]
    return rule + lines[0] + rule + "".join(lines[1:]) + rule


def aligned(rows: list[list[str]]) -> str:
    """As psql prints a table."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = [" | ".join(f" {c:<{w}}" for c, w in zip(row, widths, strict=True)) + "\n" for row in rows]
    rule = "+".join("-" * (width + 2) for width in widths) + "\n"
    return lines[0] + rule + "".join(lines[1:]) + f"({len(rows) - 1} rows)\n\n"


def columns_by_spaces(rows: list[list[str]]) -> str:
    """As sqlcmd prints a table: dashes below the names, spaces between."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    rows = [rows[0], ["-" * width for width in widths], *rows[1:]]
    lines = [" ".join(f"{c:<{w}}" for c, w in zip(row, widths, strict=True)) + "\n" for row in rows]
    return "".join(lines) + f"\n({len(rows) - 2} rows affected)\n"


numbers_for_member = {**CUSTOMER, "member": NUMBER}
case(
    lambda path: customers().to_csv(path), {"Unnamed: 0": OUT, **CUSTOMER},
    "'Unnamed: 0' is left out: it has no name, as the row names or", name="pandas", **EXPORT,
)  # fmt: skip
case(
    lambda path: customers().to_csv(path, index=False), CUSTOMER, "'customer' is left out", name="pandas bare", **EXPORT
)
case(
    lambda path: customers().to_csv(path, index=False, sep=";", decimal=",", date_format="%d.%m.%Y"), CUSTOMER,
    "decimal comma", name="pandas german", **EXPORT,
)  # fmt: skip
case(lambda path: customers().to_csv(path, sep="\t", na_rep="NaN", index=False), CUSTOMER, name="pandas tabs", **EXPORT)
case(lambda path: customers().to_parquet(path), CUSTOMER, name="pandas", ending="parquet", **EXPORT)
case(
    lambda path: customers().set_index("customer").to_csv(path, compression="gzip"), CUSTOMER, name="pandas packed",
    ending="csv.gz", **EXPORT,
)  # fmt: skip
case(
    lambda path: path.write_text(customers().drop(columns="joined").to_string()),
    {"Unnamed: 0": OUT, **{name: kind for name, kind in CUSTOMER.items() if name != "joined"}},
    name="pandas printed", ending="txt", **EXPORT,
)  # fmt: skip
case(
    lambda path: pytest.importorskip("polars").from_pandas(customers()).write_csv(path), CUSTOMER, name="polars",
    **EXPORT,
)  # fmt: skip


def r_rows(decimal: str, names: bool) -> list[list[str]]:
    rows = customer_rows(decimal=decimal, true="TRUE", false="FALSE", gap="NA")
    quoted = [0, 3, 4, 6]
    head = (['""'] if names else []) + [f'"{cell}"' for cell in rows[0]]
    body = [
        [f'"{number}"', *(f'"{cell}"' if place in quoted else cell for place, cell in enumerate(row))]
        for number, row in enumerate(rows[1:], start=1)
    ]
    return [head, *body]


case("\n".join(map(",".join, r_rows(".", True))), {"Unnamed: 0": OUT, **CUSTOMER}, name="R write.csv", **EXPORT)
case("\n".join(map(";".join, r_rows(",", True))), {"Unnamed: 0": OUT, **CUSTOMER}, name="R write.csv2", **EXPORT)
case(
    "\n".join(map(" ".join, r_rows(".", False))), {"Unnamed: 0": OUT, **CUSTOMER}, name="R write.table", ending="txt",
    **EXPORT,
)  # fmt: skip
german = {"decimal": ",", "thousands": ".", "day": "%d.%m.%Y", "true": "WAHR", "false": "FALSCH"}
case(
    joined(customer_rows(**german), ";", "\r\n").replace("Bern", "Zürich").encode("cp1252"), CUSTOMER,
    "Zürich", "decimal comma", name="Excel german", **EXPORT,
)  # fmt: skip
case(
    b"\xef\xbb\xbfsep=;\r\n" + joined(customer_rows(**german, gap="#NV"), ";", "\r\n").encode(), CUSTOMER,
    name="Excel german with sep", **EXPORT,
)  # fmt: skip
case(
    "Kunden 2024;;;;;;\r\n;;;;;;\r\n" + joined(customer_rows(**german), ";", "\r\n") + ";;;;;;\r\n" * 3, CUSTOMER,
    name="Excel german with a title", **EXPORT,
)  # fmt: skip
case(
    joined(customer_rows(**german), "\t", "\r\n").encode("utf-16"), CUSTOMER, name="Excel unicode text", ending="txt",
    **EXPORT,
)  # fmt: skip
american = {"thousands": ",", "day": "%m/%d/%Y", "true": "TRUE", "false": "FALSE", "currency": "$"}
case(joined(customer_rows(**american), ",", "\r\n"), CUSTOMER, name="Excel american", **EXPORT)
case(joined(customer_rows(**american, gap="#N/A"), ",", "\r\n"), CUSTOMER, name="Google Sheets", **EXPORT)
case(joined(customer_rows(), ",", quote='"'), numbers_for_member, name="LibreOffice all quoted", **EXPORT)
case(joined(customer_rows(gap="NULL"), "\t"), numbers_for_member, name="mysql batch", ending="tsv", **EXPORT)
case(boxed(customer_rows(gap="NULL")), numbers_for_member, name="mysql drawn", ending="txt", **EXPORT)
case(aligned(customer_rows(true="t", false="f")), CUSTOMER, name="psql", ending="txt", **EXPORT)
case(
    joined(customer_rows(true="t", false="f", gap="\\N", day="%Y-%m-%d 00:00:00"), "\t"), CUSTOMER,
    name="PostgreSQL copy", ending="txt", **EXPORT,
)  # fmt: skip
case(columns_by_spaces(customer_rows(gap="NULL")), numbers_for_member, name="sqlcmd", ending="txt", **EXPORT)
case(joined(customer_rows(), "|"), numbers_for_member, name="sqlite list", ending="txt", **EXPORT)
case(joined(customer_rows(gap=".", day="%d%b%Y"), ","), numbers_for_member, name="SAS", **EXPORT)
case(
    joined(customer_rows(gap=" ?", true=" Male", false=" Female")[1:], ", "),
    {str(place): kind for place, kind in enumerate(CUSTOMER.values())}, "target: column '6'",
    name="UCI adult", ending="data", **EXPORT,
)  # fmt: skip
case(
    joined([[row[6], row[1], row[2]] for row in customer_rows()[1:] if row[2]], ","), None, "target: column '0'",
    name="UCI wine", ending="data", n_rows=36, **EXPORT,
)  # fmt: skip
case(
    "# size income answer\n" + "".join(f"{p.size:.6e} {p.income:.6e} {int(p.size > 5)}\n" for p in people()), None,
    name="numpy savetxt", ending="txt", **EXPORT,
)  # fmt: skip
