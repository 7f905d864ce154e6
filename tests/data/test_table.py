"""What a column of a table is taken for, and the numbers it becomes."""

from __future__ import annotations

import datetime as dt
import json

import numpy as np
import pytest

from kompakt.data.table import TableError, TableSchema, is_regression, number_of


def schema_of(cells, **options):
    other = [0.5 * (number % 3) for number in range(len(cells))]
    return TableSchema.infer({"a": cells, "b": other}, **options).columns[0]


@pytest.mark.parametrize(
    ("cell", "decimal", "value"),
    [
        ("12", ".", 12.0), (" -1.5e3 ", ".", -1500.0), ("1,234", ".", 1234.0), ("1,234,567.5", ".", 1234567.5),
        ("$5", ".", 5.0), ("-$5.20", ".", -5.2), ("5 %", ".", 5.0), ("€ 7", ".", 7.0), ("7 €", ".", 7.0),
        ("1.234,5", ",", 1234.5), ("0,5", ",", 0.5), ("1 234,5", ",", 1234.5), ("1'234.5", ".", 1234.5),
        ("($1,234.5)", ".", -1234.5), ("12,50-", ",", -12.5), ("(a)", ".", None), ("--", ".", None),
        ("\u22123", ".", -3.0), ("1,23", ".", None), ("12a", ".", None), ("1_0", ".", None),
        ("", ".", None), (3, ".", 3.0),
    ],
)  # fmt: skip
def test_numbers_in_cells(cell, decimal, value):
    assert number_of(cell, decimal) == value


@pytest.mark.parametrize(
    ("cells", "kind", "said"),
    [
        (["1", "2.5", "4", "1"], "number", "number"),
        (["1,5", "2,5", "4", "1,25"], "number", "decimal comma"),
        (["1,234", "2,500", "4", "1"], "number", "number"),
        (["1,234", "", "4", "1"], "number", "number; gaps become 4, with a missing-value indicator"),
        (["1", "NA", "4", "?"], "number", "with a missing-value indicator"),
        (["yes", "no", "no", "yes"], "category", "2 levels (no, yes)"),
        ([True, False, True, False], "category", "2 levels (False, True)"),
        (["a", "a", "b", "c"], "category", "1 levels and other (a)"),
        (["2024-01-31", "2024-02-01", "", "2023-05-05"], "date", "days since 2023-05-05"),
        (["31.01.2024", "01.02.2024", "05.05.2023"], "date", "days since 2023-05-05"),
        (["12/31/2023", "01/15/2024"], "date", "days since 2023-12-31"),
        (["31/12/2023", "15/01/2024"], "date", "days since 2023-12-31"),
        (["2024-01-31 13:00", "2024-02-01 00:30"], "date", "hour"),
        (["2024-01-31T13:00:00Z", "2024-02-01T00:30:00+02:00"], "date", "hour"),
        (["", "NA", "null", "-"], "unused", "every cell is missing"),
        (["7", "7", "7.0"], "unused", "constant"),
        (["x", "x"], "unused", "constant (x)"),
        ([f"u{i}" for i in range(12)], "unused", "identifier"),
        (list(range(3, 20)), "unused", "consecutive"),
    ],
)
def test_what_a_column_is(cells, kind, said):
    column = schema_of(cells)
    assert column.kind == kind
    assert said in column.describe()


ROWS = np.random.default_rng(0)


@pytest.mark.parametrize(
    ("name", "cells", "said"),
    [
        ("id", (1000 + 7 * ROWS.permutation(200)).tolist(), "all values are different"),
        ("id", [f"{7 * number:06d}" for number in range(200)], "all values are different"),
        ("id", [5, *range(0, 398, 2)], "all values are different"),
        ("id", [0, *range(0, 398, 2)], "nearly all values are different"),
        ("id", [None, *range(0, 398, 2)], "all values are different"),
        ("id", [10**18 + number * 7 for number in range(200)], "all values are different"),
        ("id", ["x", *(f"x{number}" for number in range(198)), "x"], "nearly all values are different"),
        ("id", [f"{1_000_000 + 9 * number:,}" for number in range(200)], "all values are different"),
        ("", ROWS.integers(0, 9, 200).tolist(), "it has no name"),
        ("Unnamed: 0", ["a", "b"] * 100, "it has no name"),
        ("__index_level_0__", ROWS.integers(0, 9, 200).tolist(), "it has no name"),
        ("at", [f"2024-05-01 10:{40 + number // 10}" for number in range(199)] + ["2024-05-01 11:00"], "one hour"),
    ],
)  # fmt: skip
def test_identifiers_are_left_out_and_can_be_kept(name, cells, said):
    table = {name: cells, "b": [0.5 * (number % 3) for number in range(200)]}
    column = TableSchema.infer(table).columns[0]
    assert column.kind == "unused"
    assert column.is_identifier
    assert said in column.why
    assert TableSchema.infer(table, keep=[name]).columns[0].kind != "unused"


@pytest.mark.parametrize(
    ("name", "cells"),
    [
        ("price", [f"{number * 1.01:.2f}" for number in range(1, 201)]),
        ("", [number / 4 for number in range(200)]),
        ("age", [20 + number % 60 for number in range(200)]),
        ("views", [0, 0, 0, *range(0, 394, 2)]),
        ("weight", [f"{1 + number / 100:.3f}".replace(".", ",") for number in range(200)]),
        ("age", ROWS.permutation(70)[:45].tolist()),
        ("at", [f"2024-05-{1 + number % 28:02d} 10:00" for number in range(200)]),
        ("Unnamed: 1", ["a", "b"] * 100),
    ],
)  # fmt: skip
def test_measurements_are_no_identifiers(name, cells):
    table = {"b": [0.5 * (number % 3) for number in range(len(cells))], name: cells}
    table = dict(reversed(table.items())) if name == "" else table
    assert {column.name: column.kind for column in TableSchema.infer(table).columns}[name] != "unused"


def test_a_column_to_keep_must_be_there():
    with pytest.raises(TableError, match="no column 'key' to keep; it has 'a'"):
        TableSchema.infer({"a": [0.5, 1.5]}, keep=["key"])


def test_a_series_over_its_own_number_keeps_it():
    schema = TableSchema.infer({"month": list(range(1, 25)), "unit": ["kg"] * 24})
    assert [column.kind for column in schema.columns] == ["number", "unused"]


def test_the_decimal_sign_is_that_of_the_whole_table():
    table = {"price": ["1,5", "12,25", "7", "0,5"], "people": ["1.234", "2.500", "3.100", "9.000"]}
    assert TableSchema.infer(table).encode(table).tolist()[0] == [1.5, 1234.0]
    table["ratio"] = ["0.25", "1.5", "3.75", "2.5"]  # both signs: every column speaks for itself
    assert TableSchema.infer(table).encode(table).tolist()[0] == [1.5, 1.234, 0.25]
    table = {"people": ["1,234", "2,500", "3,100", "9,000"]}
    assert TableSchema.infer(table).encode(table).tolist()[0] == [1234.0]
    assert TableSchema.infer(table, decimal=",").encode(table).tolist()[0] == [1.234]


def test_the_decimal_sign_of_another_table_is_its_own():
    table = {"price": ["1,5", "12,25", "7", "0,5"], "people": ["1.234", "2.500", "3.100", "9.000"], "n": [1, 2, 3, 5]}
    schema = TableSchema.infer(table)
    assert schema.with_decimal_of(table) == schema
    assert schema.with_decimal_of({name: cells[3:] for name, cells in table.items()}) == schema
    other = {"price": ["2.5"], "people": ["1.234"], "n": [4]}
    assert schema.with_decimal_of(other).encode(other).tolist() == [[2.5, 1.234, 4.0]]
    assert schema.with_decimal_of(table, ".").columns[1].decimal == "."
    few = {"price": ["unknown"], "people": ["1.234"], "n": [4]}  # as a word among numbers is a gap
    assert schema.with_decimal_of(few) == schema
    mixed = {**table, "ratio": ["0.25", "1.5", "3.75", "2.125"]}
    both = TableSchema.infer(mixed)
    assert both.with_decimal_of(mixed) == both
    with pytest.raises(TableError, match=r"'price'.*'1 kg'"):
        schema.with_decimal_of({**table, "price": ["1 kg"] * 4})


def test_a_fraction_is_no_group_of_thousands():
    assert number_of("0,123") is None
    assert number_of("0.123", ",") is None
    assert TableSchema.infer({"a": ["0,125", "0,250", "1,500"]}).encode({"a": ["1,250"]}).tolist() == [[1.25]]


def test_a_word_that_stands_for_missing_numbers_counts_for_the_indicator():
    schema = TableSchema.infer({"a": [f"{i % 50}.5" for i in range(200)] + ["unknown"] * 20})
    assert schema.feature_names == ["a", "a is missing"]


def test_words_among_numbers_are_gaps_that_are_counted():
    schema = TableSchema.infer({"a": [str(i * 1.5) for i in range(40)] + ["oops"]})
    values = schema.encode({"a": ["3", "oops"]})
    assert values[:, 0].tolist() == [3.0, schema.columns[0].fill]
    assert schema.counts == {"a: not a number, taken as missing (such as 'oops')": 1}


def test_levels_at_prediction_that_training_did_not_have_are_other_and_counted():
    schema = TableSchema.infer({"a": ["x", "x", "y", "y", "z"]})
    assert schema.feature_names == ["a=x", "a=y", "a=other"]
    assert schema.encode({"a": ["x", "new"]}).tolist() == [[1, 0, 0], [0, 0, 1]]
    assert sum(schema.counts.values()) == 1


def test_thirty_levels_get_a_column_each_and_more_get_a_table():
    few = TableSchema.infer({"a": [f"level {i % 30}" for i in range(400)]})
    assert len(few.feature_names) == 30
    column = schema_of([f"level {min(i % 50, 45)}" for i in range(400)] + [""] * 3 + ["once", "once more"])
    assert (column.kind, column.levels[:2], len(column.levels)) == ("levels", ("", "level 45"), 47)


def test_calendar_parts():
    schema = TableSchema.infer({"a": ["2024-01-01 06:00", "2024-02-29 23:59", "2023-12-31 00:00"]})
    circles = [f"a {part} {name}" for part in ("month", "weekday", "hour") for name in ("sine", "cosine")]
    assert schema.feature_names == ["a days", "a year", *circles]
    moment = dt.datetime(2024, 2, 29, 23, 59)
    days = (moment - dt.datetime(2023, 12, 31)).total_seconds() / 86400
    angles = 2 * np.pi * np.array([2 / 12, moment.weekday() / 7, 23 / 24])
    places = np.column_stack([np.sin(angles), np.cos(angles)]).ravel()
    assert schema.encode({"a": ["2024-02-29 23:59"]})[0] == pytest.approx([days, 2024, *places])


MONTH = "year, month"


@pytest.mark.parametrize(
    ("cells", "first", "parts"),
    [
        (["1988 Q3", "1989 Q1", "1990 Q4"], "1988-07-01", "year, month"),
        (["Q3 1988", "Q1 1989", "q4 1990"], "1988-07-01", "year, month"),
        (["3Q1988", "1Q1989", "4Q1990"], "1988-07-01", "year, month"),
        (["2001-05", "2001-06", "2003-12"], "2001-05-01", "year, month"),
        (["May 2001", "Jun 2001", "Dec 2003"], "2001-05-01", "year, month"),
        (["2001M05", "2001M06", "2003M12"], "2001-05-01", "year, month"),
        (["2020-W05", "2020-W06", "2021-W01"], "2020-01-27", "year, month"),
        (["2024-05-31 18:30 UTC", "2024-06-01 1:00 GMT", "2024-06-01 01:00Z"], "2024-05-31", f"{MONTH}, weekday, hour"),
        (["2024-05-31T18:30:00+02:00", "2024-06-01T01:00:00-05:00"], "2024-05-31", f"{MONTH}, weekday, hour"),
        (["1999-12-31", "2000-12-31", "2001-12-31"], "1999-12-31", "year"),
    ],
)  # fmt: skip
def test_periods_and_zones_are_dates_with_the_parts_that_they_have(cells, first, parts):
    column = schema_of(cells)
    assert column.kind == "date"
    assert column.describe() == f"date: days since {first}, {parts}"
    assert not np.isnan(TableSchema((column,)).encode({"a": cells})).any()
    assert TableSchema((column,)).counts == {}


def test_moments_since_1970_are_dates_where_their_column_says_so():
    seconds = np.array([1_600_000_000, 1_600_090_000, 1_650_000_000])
    texts = [str(cell) for cell in seconds]
    for name, cells in {"timestamp": seconds, "created_at": seconds * 1000, "ts": texts}.items():
        schema = TableSchema.infer({name: cells})
        assert (schema.columns[0].kind, schema.encode({name: cells})[1, 0] > 1) == ("date", True)
    assert TableSchema.infer({"turnover": seconds}).columns[0].kind == "number"


@pytest.mark.parametrize(
    ("cells", "clock", "hours"),
    [
        (["10:10", "00:30", "23:45"], True, 10 + 1 / 6),
        (["10:10:05", "00:30:00", "23:45:00.5"], True, 10 + 605 / 3600),
        (["1:15 PM", "12:00 am", "11:59 p.m."], True, 13.25),
        (["26:10:00", "1:00:00", "0:30:00"], False, 26 + 1 / 6),
        (["2 days 03:00:00", "0 days 01:00:00", "1 day, 2:00:00"], False, 51.0),
        (["PT1H30M", "PT45M", "P1DT2H"], False, 1.5),
        (["90 min", "1h 30m", "2 hours"], False, 1.5),
    ],
)
def test_clock_times_and_durations_are_hours(cells, clock, hours):
    column = schema_of(cells)
    assert (column.kind, column.clock) == ("time", clock)
    features = TableSchema((column,)).encode({"a": [cells[0], "soon"]})
    assert features[:, 0] == pytest.approx([hours, column.fill])
    if column.clock:
        assert features[0, 1:] == pytest.approx([np.sin(np.pi * hours / 12), np.cos(np.pi * hours / 12)])


def shops(n: int = 600, n_shops: int = 80, seed: int = 0):
    """Shops by name and by number, and what each sells."""
    rng = np.random.default_rng(seed)
    shop = rng.integers(0, n_shops, n)
    table = {"shop": [f"shop {k}" for k in shop], "key": (1000 + 3 * shop).tolist(), "size": rng.integers(0, 60, n)}
    return table, shop, rng.normal(size=n_shops)[shop] + 0.1 * rng.normal(size=n)


def test_levels_and_codes_become_what_the_target_is_like_in_them():
    table, shop, y = shops()
    schema = TableSchema.infer(table)
    coded = schema.encode(table)
    learned, means = schema.learn(coded, y, classes=False)
    assert learned.feature_names == ["shop: mean", "shop: frequency", "key", "key: mean", "key: frequency", "size"]
    features = learned.encode(table)
    assert np.array_equal(features, learned.finish(coded))
    truth = np.array([y[shop == k].mean() for k in shop])
    assert np.corrcoef(features[:, 0], truth)[0, 1] > 0.99
    trained = learned.finish(coded, means)
    assert np.corrcoef(trained[:, 0], y)[0, 1] > 0.9
    assert learned.encode({"shop": ["new"], "key": [1], "size": [3]})[0, 0] == pytest.approx(y.mean())
    labelled, _ = schema.learn(coded, np.digitize(y, [-1, 1]), classes=True)
    assert labelled.feature_names[:4] == ["shop: share of 0", "shop: share of 1", "shop: share of 2", "shop: frequency"]


def test_no_row_sees_its_own_target():
    """A target changes features of other rows of its level, never its own; noise makes no features that tell of it."""
    table, _, y = shops(400, 100)
    schema = TableSchema.infer({"shop": table["shop"]})
    coded = schema.encode({"shop": table["shop"]})
    _, means = schema.learn(coded, y, classes=False)
    for row in (0, 7, 399):
        _, moved = schema.learn(coded, y + 100.0 * (np.arange(400) == row), classes=False)
        assert moved["shop"][row] == means["shop"][row]
        assert not np.array_equal(moved["shop"], means["shop"])
    noise = np.random.default_rng(1).normal(size=400)
    _, means = schema.learn(coded, noise, classes=False)
    assert abs(np.corrcoef(means["shop"][:, 0] + 1e-9 * noise, noise)[0, 1]) < 0.15
    own = np.array([noise[coded[:, 0] == code].mean() for code in coded[:, 0]])
    assert np.corrcoef(own, noise)[0, 1] > 0.4  # as means with the own target would


def test_numbers_whose_order_tells_are_no_codes():
    rng = np.random.default_rng(0)
    age = rng.integers(18, 80, 800)
    schema = TableSchema.infer({"age": age})
    for y in (np.sin(age / 9), age**2 + rng.normal(size=800), rng.normal(size=800)):
        assert schema.learn(schema.encode({"age": age}), y, classes=False)[0] == schema


def test_near_unique_words_are_left_out_and_can_be_kept():
    names = [f"name {i}" for i in range(60)] + [f"name {i % 20}" for i in range(60)]
    column = schema_of(names)
    assert (column.kind, column.is_identifier) == ("unused", True)
    assert "more than half of its texts come once" in column.why
    assert schema_of(names, keep=["a"]).kind == "levels"
    assert schema_of([f"town {i % 55}" for i in range(120)]).kind == "levels"


def test_frames_of_every_library_give_one_schema():
    pandas, polars, pyarrow = (pytest.importorskip(name) for name in ("pandas", "polars", "pyarrow"))
    table = {
        "age": [31.0, None, 40.5, 22.0], "city": ["Rome", "Oslo", "Rome", "Oslo"],
        "day": [dt.date(2024, 1, 1), dt.date(2024, 5, 1), None, dt.date(2024, 3, 1)], "ok": [True, False, True, True],
    }  # fmt: skip
    frames = [pandas.DataFrame(table), polars.DataFrame(table), pyarrow.table(table)]
    frames[0]["city"] = frames[0]["city"].astype("category")
    frames[1] = frames[1].with_columns(polars.col("city").cast(polars.Categorical))
    expected = TableSchema.infer(table)
    for frame in frames:
        assert TableSchema.infer(frame).feature_names == expected.feature_names
        assert np.array_equal(TableSchema.infer(frame).encode(frame), expected.encode(table))


def test_json_gives_the_schema_back_and_damage_is_refused():
    table = {
        "n": ["1", "2", "NA"], "w": ["a", "b", "a"], "d": ["2024-01-01", "2024-05-05", ""], "c": ["k"] * 3,
        "t": ["10:10", "", "11:30"],
    }  # fmt: skip
    schema = TableSchema.infer(table, missing=["k."])
    levels, _, y = shops()
    many = TableSchema.infer(levels)
    many, _ = many.learn(many.encode(levels), y, classes=False)
    schema = TableSchema((*schema.columns, *many.columns), schema.missing)
    plain = json.loads(json.dumps(schema.to_json()))
    assert TableSchema.from_json(plain) == schema
    for number, column in enumerate(plain["columns"]):
        for name in column:
            for bad in (None, 7j, [1], {"x": 1}, float("nan")):
                damaged = json.loads(json.dumps(schema.to_json()))
                damaged["columns"][number][name] = bad
                with pytest.raises(TableError, match="damaged"):
                    TableSchema.from_json(damaged)
    for bad in ({"columns": 3, "missing": []}, {"columns": [], "missing": [3]}, [], {**plain, "more": 1}):
        with pytest.raises(TableError, match="damaged"):
            TableSchema.from_json(bad)


def test_a_missing_column_and_a_double_name_are_named():
    schema = TableSchema.infer({"a": [1.5, 2.5], "b": [0.5, 2.0]})
    with pytest.raises(TableError, match="no column 'b'"):
        schema.encode({"a": [1.0]})
    pandas = pytest.importorskip("pandas")
    with pytest.raises(TableError, match="two columns have the name 'a'"):
        TableSchema.infer(pandas.DataFrame([[1, 2]], columns=["a", "a"]))


@pytest.mark.parametrize(
    ("target", "expected"),
    [
        (np.arange(11), True), (np.arange(10), False), (np.array([0.5, 1.0]), True), (np.tile([0, 1], 50), False),
        (np.array(["a", "b"]), False), (np.tile(np.arange(40), 25), False), (np.tile(np.arange(60), 10), True),
    ],
)  # fmt: skip
def test_whether_a_target_is_a_quantity(target, expected):
    assert is_regression(target) is expected


@pytest.mark.parametrize(
    ("first", "frequencies", "expected"),
    [
        (0, [676, 1353, 1353, 902, 451, 180, 60, 17, 4, 1], True),  # visits
        (3, [20, 163, 1457, 2198, 880, 175, 5], True),  # grades of wine
        (17, np.exp(-(((np.arange(74) - 20) / 25.0) ** 2) + np.sin(np.arange(74) * 9.0) / 4) * 900, True),  # ages
        (0, [1553, 1269, 929, 824, 852, 716, 834, 792, 708, 821], False),  # digits of USPS
        (1, [789, 766, 736, 805, 768, 775, 773, 734, 755, 747, 739, 761, 792, 783], False),  # letters
        (1, [211_840, 283_301, 35_754, 2_747, 9_493, 17_367, 20_510], False),  # covertype
        (1, [45_586, 50, 171, 8_903, 3_267, 10, 13], False),  # shuttle
        (1, [41, 20, 5, 13, 4, 8, 10], False),  # animals of a zoo
        (0, [500, 90, 40, 9, 2, 1], False),  # six values are classes whatever their frequencies
    ],
)  # fmt: skip
def test_counts_and_grades_are_quantities_but_digits_and_kinds_are_classes(first, frequencies, expected):
    frequencies = np.asarray(frequencies, dtype=int) + 1
    target = np.repeat(first + np.arange(len(frequencies)), frequencies)
    assert is_regression(target) is expected
    assert is_regression(target.astype(float)) is expected
