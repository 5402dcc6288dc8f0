"""One table, one histogram: the same column by every door, in every type that holds it.

What each value should do is worked out here anew, in fractions and from the rules that the
documentation states. A door may refuse a column by its type; otherwise all cells are the same.
"""

import csv
import datetime as dt
import functools
import io
import math
import unicodedata
from contextlib import suppress
from decimal import Decimal
from fractions import Fraction

import narwhals.stable.v2 as nw
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import pytest
from hypothesis import given as drawn
from hypothesis import strategies as st
from tables_loaded import cells, from_bytes

from dpsdk import (
    MISSING,
    OTHER,
    Binned,
    Boolean,
    Categorical,
    Domain,
    Integer,
    Number,
    PrivateData,
)
from dpsdk.data.vault import open_histogram
from dpsdk.errors import DataError
from worlds import crossed, repeatable, thinned

NAN, INF = float("nan"), float("inf")

ATTRIBUTES = {
    "integers": Integer("c", 17, 20),
    "integers about zero": Integer("c", -3, 300),
    "large integers": Integer("c", 2**53 - 2, 2**53 + 5),
    "larger integers": Integer("c", 2**63 - 2, 2**63 + 2),
    "largest integers": Integer("c", 2**64 - 3, 2**64 + 2),
    "integers beyond": Integer("c", 10**20, 10**20 + 3),
    "bins": Binned("c", [0, 0.3, 0.7, 17, 17.5, 20]),
    "fine bins": Binned("c", [-0.1, 0.1, 0.2, 0.3, 0.6, 0.7, 0.9]),
    "large bins": Binned("c", [2**53 - 4, 2**53 + 2, 2**53 + 4, 2**63, 2**64]),
    "booleans": Boolean("c"),
    "Y and N": Boolean("c", true=["Y"], false=["N"]),
    "two and one": Boolean("c", true=["2"], false=["1"]),
    "texts": Categorical("c", ["F", "M", "é", "a b"]),
    "texts and the rest": Categorical("c", ["F", "M", "rest"], other="rest"),
    "texts of truth": Categorical("c", ["True", "False"]),
    "other texts of truth": Categorical("c", ["TRUE", "FALSE"]),
    "numbers": Categorical("c", [0, 1, 17, 18]),
    "texts of numbers": Categorical("c", ["0", "1", "17.5", "0.7", "-3", "rest"], other="rest"),
    "large numbers": Categorical("c", [2**53, 2**53 + 1, 2**64 - 1]),
    "codes": Categorical("c", ["01", "02", "17", "18"]),
    "open integers": Integer("c", -3, 20).open(),
    "open large integers": Integer("c", 2**53 - 2, 2**53 + 5).open(),
    "bins and missing": Binned("c", [0, 0.3, 0.7, 17, 20], missing=True),
    "open bins": Binned("c", [-0.1, 0.1, 17.5]).open(),
    "open booleans": Boolean("c").open(),
    "open texts": Categorical("c", ["F", "M", "é"]).open(),
    "open texts and the rest": Categorical("c", ["F", "M", "rest"], other="rest").open(),
    "open numbers": Categorical("c", [0, 1, 17]).open(),
    "numbers and others": Categorical("c", ["0", "17.5", "True"], other=True),
    "grid": Number("c", "-0.3", "17.7", "0.3", missing=True),
    "grid of halves": Number("c", -3, 18, "0.5", outside="other").open(),
    "grid of fives": Number("c", -100, 300, 5),
    "exact grid": Number("c", -3, 18, exact=True).open(),
    "exact grid of fives": Number("c", -100, 300, 5, exact=True, outside="other"),
    "large grid": Number("c", 2**53 - 2, 2**53 + 6, 2, outside="other").open(),
    "grid of billionths": Number("c", 0, 2, "1e-18", other=True),
}  # fmt: skip


def number_of(value):
    """The exact value of a number, or of a text that spells one; None if there is none."""
    if isinstance(value, bool) or value is None:
        return None
    text = str(value)
    if text in {"inf", "-inf"}:
        return float(text)
    if isinstance(value, str) and not set(text) <= set("0123456789.+-eE"):
        return None
    try:
        return Fraction(text)
    except ValueError:
        return None


def nearest(number):
    """What is left of a number in a column that could become one of floats."""
    if number is None or abs(number) < 2**53 or abs(number) == INF:
        return number
    with suppress(OverflowError):
        return Fraction(repr(float(number))) if abs(float(number)) < INF else number
    return number


def expected_cell(attribute, value, *, guessed=False):
    """Where a value belongs, by the rules; -1 is outside."""
    if value is None or str(value) in {"", "nan", "NaN"}:
        return attribute.index(MISSING) if MISSING in attribute.extras else -1
    cell = label_of(attribute, value, nearest if guessed else lambda number: number)
    return attribute.index(OTHER) if cell < 0 and OTHER in attribute.extras else cell


def label_of(attribute, value, read):
    """The cell of the label that a value is, or -1."""
    number = read(number_of(value))
    if isinstance(attribute, Integer):
        whole = number is not None and abs(number) != INF and number == int(number)
        return (
            int(number) - attribute.low
            if whole and attribute.low <= number <= attribute.high
            else -1
        )
    if isinstance(attribute, Binned):
        if number is None:
            return -1
        edges = [Fraction(repr(edge)) for edge in attribute.edges]
        for cell in range(attribute.known):
            if edges[cell] <= number < edges[cell + 1]:
                return cell
        return attribute.known - 1 if number == edges[-1] else -1
    if isinstance(attribute, Number):
        if number is None or (attribute.outside == "other" and not (
            attribute.low <= number <= attribute.high
        )):  # fmt: skip
            return -1
        near = min(max(number, attribute.low), attribute.high)
        if attribute.exact and ((near - attribute.low) / attribute.step).denominator > 1:
            return -1
        return math.floor((near - attribute.low) / attribute.step + Fraction(1, 2))
    if isinstance(attribute, Boolean):
        if isinstance(value, bool):
            return int(value)
        if value in attribute.readings:
            return int(attribute.readings[value])
        whole = number is not None and abs(number) != INF and number == int(number)
        return int(attribute.readings.get(str(int(number)), -1)) if whole else -1
    other = -1 if attribute.other is None else attribute.index(attribute.other)
    labels = [str(label) for label in attribute.values]
    text = unicodedata.normalize("NFC", str(value))
    if isinstance(value, bool | str) and text in labels:
        return labels.index(text)
    # Other spellings, as "01", are texts that no number prints as.
    numbers = [read(number_of(label)) if plain_number(label) else None for label in labels]
    cells = [] if number is None else [cell for cell, one in enumerate(numbers) if one == number]
    return cells[0] if len(cells) == 1 else other


def plain_number(label):
    return number_of(label) is not None and label == format(Decimal(label).normalize(), "f")


# Columns as their values; what each door makes of them is below.

COLUMNS = {
    "integers": [17, 18, 18, 21, 16, 0, 1],
    "integers and nothing": [17, None, 20, None, 1],
    "negative integers": [-3, -4, 17, 100, -128, 127],
    "unsigned integers": [0, 17, 255, 200],
    "wide integers": [300, -300, 17, 30_000],
    "large integers": [*range(2**53 - 1, 2**53 + 5), -(2**53) - 1, 2**63 - 1],
    "larger integers": [2**63, 2**63 - 1, 2**64 - 1, 2**64 - 2, 17],
    "integers of no type": [10**20, 10**20 + 1, 17, 2**64 + 1, 2**200],
    "floats": [17.0, 17.5, 0.7, 0.3, 20.0, 1.0, 0.0, -0.0, 19.999, 1e300, -1e-300],
    "floats and nothing": [17.0, None, 18.0, 1.0, None],
    "floats that are none": [17.0, NAN, INF, -INF, 1.0, 0.0],
    "whole floats": [17.0, 18.0, 1.0, 2.0, 300.0, 2050.0],
    "large floats": [2.0**53, 2.0**53 + 2, 2.0**60, 1e16, 2.0**63, 2.0**64],
    "tenths": [0.1, 0.2, 0.3, 0.6, 0.7, 0.8, 0.9, -0.1],
    "decimals": [Decimal(17), Decimal("17.50"), Decimal("0.7"), None, Decimal("1.00")],
    "booleans": [True, False, True],
    "booleans and nothing": [True, None, False],
    "texts": ["F", "M", "f", " F", "x"],
    "texts and nothing": ["F", None, "M", "rest", ""],
    "accents": ["é", unicodedata.normalize("NFD", "é"), "a b", "a  b", "a\u00a0b"],
    "texts of truth": ["True", "true", "TRUE", "False", "Y", "N", "yes"],
    "texts of numbers": ["17", "17.0", "+18", "1e0", "01", "0.70", "017", " 17", "1_7", "١٧"],
    "texts of large numbers": [str(2**53 + 1), f"{2**53 + 1}.0", str(2**64 - 1), "9" * 30, "1e400"],
    "nothing": [None, None],
}  # fmt: skip

INTEGERS = ["int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"]
FLOATS = ["float16", "float32", "float64"]


def type_of(values):
    kinds = {type(value) for value in values if value is not None}
    return kinds.pop() if len(kinds) == 1 else type(None)


def fits(values, dtype):
    info = np.iinfo(dtype)
    return all(value is None or info.min <= value <= info.max for value in values)


def rounded(values, dtype):
    """Floats as a narrower type holds them, to be expected as the decimals that it prints."""
    with np.errstate(over="ignore"):
        narrow = [None if value is None else np.dtype(dtype).type(value) for value in values]
    if dtype == "float64":
        return values, narrow
    printed = [
        None if value is None
        else float(value) if not np.isfinite(value)
        else Decimal(np.format_float_positional(value, unique=True))
        for value in narrow
    ]  # fmt: skip
    return printed, narrow


def masked(values, dtype):
    gaps = [value is None for value in values]
    return np.ma.array([0 if value is None else value for value in values], mask=gaps, dtype=dtype)


def written(values):
    """What Python's own writer makes of a column."""
    out = io.StringIO()
    csv.writer(out, lineterminator="\n").writerows([["c", "n"], *([v, 0] for v in values)])
    return out.getvalue().encode()


def frames_of(values):
    """Frames of all libraries with the column, and the values to expect of each."""
    kind = type_of(values)
    plain = {int: "Int64", float: "float64", bool: "boolean", str: "string"}.get(kind)
    result = {}

    def add(name, make, expected=values):
        result[name] = (make, expected)

    def wide(name, dtype, expected=values):
        add(f"pandas {name}", lambda: pd.DataFrame({"c": dtype()}), expected)

    add("pandas object", lambda: pd.DataFrame({"c": pd.Series(values, dtype=object)}))
    if kind is int:
        if all(abs(v) < 2**53 for v in values if v is not None):
            add("pandas inferred", lambda: pd.DataFrame({"c": values}))
        for dtype in INTEGERS:
            if not fits(values, dtype):
                continue
            nullable = dtype.replace("int", "Int").replace("u", "U")
            if None not in values:
                wide(dtype, lambda d=dtype: np.array(values, dtype=d))
            wide(nullable, lambda d=nullable: pd.array(values, dtype=d))
            arrow = getattr(pa, dtype)()
            add(f"pyarrow {dtype}", lambda a=arrow: pa.table({"c": pa.array(values, type=a)}))
            if dtype in {"int64", "uint64", "int8"}:
                wide(
                    f"category of {dtype}",
                    lambda d=nullable: pd.Series(pd.array(values, dtype=d)).astype("category"),
                )
                wide(f"arrow {dtype}", lambda a=arrow: pd.array(values, dtype=pd.ArrowDtype(a)))
                add(
                    f"pyarrow dictionary of {dtype}",
                    lambda a=arrow: pa.table({"c": pa.array(values, type=a).dictionary_encode()}),
                )
            polars = getattr(pl, nullable)
            add(f"polars {dtype}", lambda p=polars: pl.DataFrame({"c": pl.Series(values, dtype=p)}))
            if dtype == "int16":
                add("polars lazy", lambda p=polars: pl.LazyFrame({"c": pl.Series(values, dtype=p)}))
        if hasattr(pl, "Int128") and all(abs(v) < 2**127 for v in values if v is not None):
            add("polars int128", lambda: pl.DataFrame({"c": pl.Series(values, dtype=pl.Int128)}))
    if kind is float:
        for dtype in FLOATS:
            expected, narrow = rounded(values, dtype)
            numpy = [NAN if value is None else value for value in narrow]
            wide(dtype, lambda n=numpy, d=dtype: np.array(n, dtype=d), expected)
            if dtype != "float16":
                wide(
                    f"category of {dtype}",
                    lambda n=numpy, d=dtype: pd.Categorical(np.array(n, dtype=d)),
                    expected,
                )
            arrow = {"float16": pa.float16(), "float32": pa.float32(), "float64": pa.float64()}[
                dtype
            ]
            add(
                f"pyarrow {dtype}",
                lambda n=narrow, a=arrow: pa.table({"c": pa.array(n, type=a)}),
                expected,
            )
            if dtype != "float16":
                nullable = dtype.replace("f", "F")
                wide(nullable, lambda n=narrow, d=nullable: pd.array(n, dtype=d), expected)
                polars = getattr(pl, nullable)
                python = [None if value is None else float(value) for value in narrow]
                add(
                    f"polars {dtype}",
                    lambda n=python, p=polars: pl.DataFrame({"c": pl.Series(n, dtype=p)}),
                    expected,
                )
    if kind is Decimal:
        add(
            "polars decimal",
            lambda: pl.DataFrame({"c": pl.from_arrow(pa.array(values, type=pa.decimal128(20, 4)))}),
        )
        add("pyarrow decimal", lambda: pa.table({"c": pa.array(values, type=pa.decimal128(20, 4))}))
        add(
            "pyarrow decimal256",
            lambda: pa.table({"c": pa.array(values, type=pa.decimal256(50, 4))}),
        )
        wide("arrow decimal", lambda: pd.array(values, dtype=pd.ArrowDtype(pa.decimal128(20, 4))))
    if kind in {bool, str}:
        add("polars", lambda: pl.DataFrame({"c": values}))
        add("polars lazy", lambda: pl.LazyFrame({"c": values}))
        add("pyarrow", lambda: pa.table({"c": values}))
        add("pyarrow dictionary", lambda: pa.table({"c": pa.array(values).dictionary_encode()}))
        add("narwhals", lambda: nw.from_native(pl.DataFrame({"c": values})))
        wide("categories", lambda: pd.Categorical(values))
        arrow = pa.string() if kind is str else pa.bool_()
        wide("arrow", lambda: pd.array(values, dtype=pd.ArrowDtype(arrow)))
    if kind is bool and None not in values:
        wide("bool", lambda: np.array(values))
    if kind is str:
        add("pyarrow large", lambda: pa.table({"c": pa.array(values, type=pa.large_string())}))
        add(
            "polars categories",
            lambda: pl.DataFrame({"c": pl.Series(values, dtype=pl.Categorical)}),
        )
        labels = sorted({value for value in values if value is not None})
        add("polars enum", lambda: pl.DataFrame({"c": pl.Series(values, dtype=pl.Enum(labels))}))
        wide("string of arrow", lambda: pd.array(values, dtype="string[pyarrow]"))
    if plain in {"boolean", "string"}:
        wide("nullable", lambda: pd.array(values, dtype=plain))
    if kind is type(None):
        add("polars null", lambda: pl.DataFrame({"c": values}))
        add("pyarrow null", lambda: pa.table({"c": pa.nulls(len(values))}))
        wide("NaT", lambda: pd.Series([pd.NaT, pd.NA], dtype=object))
    return result


def columns_of(values):
    """Arrays and lists with the column, and the values to expect of each."""
    kind = type_of(values)
    result = {"list": (values, values), "tuple": (tuple(values), values)}
    array = np.empty(len(values), dtype=object)
    array[:] = values
    result["object"] = (array, values)
    dtypes = {int: INTEGERS, float: FLOATS, bool: ["bool"], str: ["str"]}.get(kind, [])
    for dtype in dtypes:
        if kind is int and not fits(values, dtype):
            continue
        expected = values
        given = values
        if kind is float:
            expected, given = rounded(values, dtype)
            if dtype != "float64":
                result[f"list of {dtype}"] = (given, expected)
        if None in values:
            result[f"masked {dtype}"] = (masked(given, dtype), expected)
        else:
            result[dtype] = (np.array(given, dtype=dtype), expected)
            result[f"other ends {dtype}"] = (
                np.array(given, dtype=np.dtype(dtype).newbyteorder()),
                expected,
            )
    if kind is float:
        longs = np.array(
            [str(NAN if value is None else value) for value in values], dtype=np.longdouble
        )
        exact = [None if np.isnan(v) else float(v) if np.isinf(v)
                 else Decimal(np.format_float_scientific(v)) for v in longs]  # fmt: skip
        result["longdouble"] = (longs, exact)
    if kind is str and hasattr(np.dtypes, "StringDType"):
        strings = np.dtypes.StringDType(na_object=None)
        result["StringDType"] = (np.array(values, dtype=strings), values)
    if kind in {int, str, bool}:
        result["pandas series"] = (pd.Series(values, dtype=object), values)
        result["polars series"] = (pl.Series(values, dtype=None if kind is not int else pl.Object)
                                   if kind is not int or not fits(values, "int64")
                                   else pl.Series(values, dtype=pl.Int64), values)  # fmt: skip
    if kind is str or (kind is int and fits(values, "int64")):
        result["pyarrow array"] = (pa.array(values), values)
        result["pyarrow chunks"] = (
            pa.chunked_array([values[:1], values[1:]], type=pa.array(values).type),
            values,
        )
    return result


@functools.cache
def doors_of(column):
    """What to hand to which constructor, and the values to expect of each."""
    values = COLUMNS[column]
    doors = [
        (name, PrivateData.from_columns, {"c": given}, expected, is_guessed(given))
        for name, (given, expected) in columns_of(values).items()
    ]
    for name, (make, expected) in frames_of(values).items():
        frame = make()
        guessed = is_guessed(getattr(frame, "get", lambda _: None)("c"))
        doors.append((f"frame: {name}", PrivateData.from_frame, frame, expected, guessed))
    return doors


def is_guessed(column):
    """Whether numpy or pandas chose the type of a column by its rows."""
    if not isinstance(column, np.ndarray | pd.Series) or isinstance(column, np.ma.MaskedArray):
        return False
    held = getattr(getattr(column.dtype, "categories", None), "dtype", column.dtype)
    return isinstance(held, np.dtype) or repr(held) == "<StringDtype(na_value=nan)>"


def outcome(load):
    """The cells of a table, or None where its type is refused."""
    try:
        data = load()
        if data.domain.size <= 2**16:
            return cells(data)
        (codes,), counts = open_histogram(data).records(data.domain.names)
        found = np.repeat(codes, counts.astype(int)).tolist()
        return sorted(found), open_histogram(data).rows - len(found)
    except DataError as error:
        if "none of which can match; give" in error.reason:
            return None
        if error.reason == "no rows, where their number is public":
            return [], 0
        raise


def expectation(attribute, values, *, guessed=False):
    found = [expected_cell(attribute, value, guessed=guessed) for value in values]
    return counted(attribute, found)


def counted(attribute, found):
    """How often each cell stands, and -1; of attributes of very many, only the cells that do."""
    if attribute.size > 2**16:
        return sorted(cell for cell in found if cell >= 0), found.count(-1)
    return [found.count(cell) for cell in range(attribute.size)], found.count(-1)


# Each column quickly with an eighth of the attributes, by turns, and slowly with all of them.
TURNS = thinned(range(8), 8)


@pytest.mark.thorough(quick=1)
@pytest.mark.parametrize("turn", TURNS)
@pytest.mark.parametrize("column", COLUMNS)
def test_one_column_has_one_histogram_by_every_door(column, turn, tmp_path):
    values = COLUMNS[column]
    first = (turn + list(COLUMNS).index(column)) % len(TURNS)
    for label, attribute in list(ATTRIBUTES.items())[first :: len(TURNS)]:
        domain, wrong = Domain(attribute), {}
        for name, door, given, expected, guessed in doors_of(column):
            found = outcome(functools.partial(door, given, domain))
            # Untyped columns are read value by value, never refused.
            refusable = name not in {"list", "tuple", "object"}
            right = expectation(attribute, expected, guessed=guessed)
            if not (found is None and refusable) and found != right:
                wrong[name] = found, right
        # What a file says of a text is the text, and of a number what it prints as.
        found = outcome(functools.partial(from_bytes, tmp_path, written(values), domain))
        if found != expectation(attribute, values):
            wrong["file"] = found, expectation(attribute, values)
        assert wrong == {}, label


MATCH = {
    # What the type of a column is, and the attributes that it can match.
    "integers": ["integers", "bins", "booleans", "two and one", "numbers", "texts of numbers"],
    "floats": ["integers", "bins", "booleans", "two and one", "numbers", "texts of numbers"],
    "decimals": ["integers", "bins", "booleans", "two and one", "numbers", "texts of numbers"],
    "booleans": ["booleans", "Y and N", "two and one", "texts of truth"],
    "texts": ["integers", "bins", "booleans", "Y and N", "two and one", "numbers", "codes", "texts",
              "texts of numbers", "texts of truth", "other texts of truth", "texts and the rest"],
    "dates": [],
    "durations": [],
    "bytes": [],
    "lists": [],
}  # fmt: skip
TYPED = {
    "integers": [
        np.array([17, 1], dtype="int8"), pd.array([1, None], dtype="UInt16"),
        pl.Series([17, None], dtype=pl.UInt64), pa.array([1, None], type=pa.int32()),
        pd.Series([1, 2], dtype="category"), pa.array([1, 1]).dictionary_encode(),
    ],
    "floats": [
        np.array([17, 1], dtype="float16"), pd.array([1, None], dtype="Float32"),
        pl.Series([17, None], dtype=pl.Float32), pa.array([1.0, None]), np.array([], dtype=float),
        np.array([NAN]), pd.Series([1.5, None], dtype="category"),
    ],
    "decimals": [
        pl.Series([Decimal("1.0")], dtype=pl.Decimal(5, 1)), pa.array([Decimal("1.0")]),
        pa.array([Decimal(1)], type=pa.decimal256(50, 1)),
    ],
    "booleans": [
        np.array([True]), pd.array([True, None], dtype="boolean"),
        pl.Series([None], dtype=pl.Boolean),
        pa.array([True]), pd.Series([True, False], dtype="category"),
        pa.array([True, False]).dictionary_encode(),
    ],
    "texts": [
        np.array(["x"]), pd.array(["x"], dtype="string"), pl.Series(["x"]), pa.array(["x"]),
        pl.Series(["x"], dtype=pl.Categorical), pd.Series(["x"], dtype="category"),
    ],
    "dates": [
        np.array(["2020-01-01"], dtype="M8[D]"), pd.Series(pd.to_datetime(["2020-01-01", None])),
        pl.Series([dt.date(2020, 1, 1)]), pl.Series([dt.time(1)]),
        pa.array([dt.date(2020, 1, 1)]), pa.array([dt.datetime(2020, 1, 1)]),
        pl.Series([None], dtype=pl.Datetime),
        pd.Series(pd.to_datetime(["2020-01-01"]).date).astype(pd.ArrowDtype(pa.date32())),
        pd.Series(pd.to_datetime(["2020-01-01"])).astype("category"),
    ],
    "durations": [
        np.array([1], dtype="m8[s]"), pd.Series(pd.to_timedelta([1])),
        pl.Series([dt.timedelta(1)]), pa.array([dt.timedelta(1)]),
    ],
    "bytes": [np.array([b"17"]), pl.Series([b"17"]), pa.array([b"17"])],
    "lists": [
        pl.Series([[17]]), pa.array([[17]]), pl.Series([{"a": 17}]),
        pd.Series(pd.interval_range(0, 2)), np.array([17j]),
    ],
}  # fmt: skip


@pytest.mark.thorough(quick=16)
@pytest.mark.parametrize(
    ("kind", "attribute"),
    crossed(TYPED, sorted({name for names in MATCH.values() for name in names}), 3),
)
def test_a_column_that_cannot_match_is_refused_by_its_type(kind, attribute):
    domain = Domain(ATTRIBUTES[attribute])
    for given in TYPED[kind]:
        doors = [lambda given=given: PrivateData.from_columns({"c": given}, domain)]
        root = type(given).__module__.partition(".")[0]
        if root == "pandas":
            doors.append(
                lambda given=given: PrivateData.from_frame(pd.DataFrame({"c": given}), domain)
            )
        if root == "polars":
            frames = given.to_frame("c"), given.to_frame("c").lazy()
            doors += [functools.partial(PrivateData.from_frame, frame, domain) for frame in frames]
        if root == "pyarrow":
            doors.append(lambda given=given: PrivateData.from_frame(pa.table({"c": given}), domain))
        for door in doors:
            if attribute in MATCH[kind]:
                assert outcome(door) is not None
            else:
                with pytest.raises(DataError) as caught:
                    door()
                assert "column 'c' holds" in str(caught.value)
                assert "give " in str(caught.value)
                assert caught.value.__context__ is None


def test_a_refusal_names_what_would_match():
    for attribute, given, expected in [
        ("texts", np.array([1]), "holds integers, none of which can match; give texts such as 'F'"),
        ("codes", np.array([1]), "the label '01' is a text that no number prints as"),
        ("other texts of truth", np.array([True]), "or declare a Boolean"),
        ("integers", np.array([True]), "give integers, floats, decimals, or texts that spell numb"),
        ("Y and N", np.array([1]), r"'N'.*or list the numbers in true= and false="),
        ("integers", np.array(["2020"], dtype="M8[Y]"), "holds dates"),
    ]:
        with pytest.raises(DataError, match=expected):
            PrivateData.from_columns({"c": given}, Domain(ATTRIBUTES[attribute]))


def test_all_types_are_checked_before_any_row_is_read():
    two = Domain(Integer("a", 0, 1), Categorical("c", ["x"]))
    read = []

    def spy(frame):
        read.append(1)
        return frame

    lazy = pl.LazyFrame({"a": [1], "c": [1]}).map_batches(
        spy, schema={"a": pl.Int64, "c": pl.Int64}
    )
    with pytest.raises(DataError, match="'c' holds integers"):
        PrivateData.from_frame(lazy, two)
    assert read == []


@pytest.mark.thorough(quick=5)
@pytest.mark.parametrize("outside", ["cell", "clip"])
@pytest.mark.parametrize(
    ("low", "high"), [(17, 20), (-5, 300), (300, 400), (-400, -300), (2**70, 2**70 + 5)]
)
def test_clipping_is_the_same_by_every_door(outside, low, high, tmp_path):
    values = [0, 17, 100, -100, 19, 127]
    attributes = [Integer("c", low, high)]
    if high < 2**60:
        attributes.append(Binned("c", [low, (low + high) // 2, high]))
    for attribute in attributes:
        domain = Domain(attribute)
        found = [cells(from_bytes(tmp_path, written(values), domain, outside=outside))]
        for dtype in ["int8", "int16", "int64", *FLOATS, "object", "str", "longdouble"]:
            column = np.array(values, dtype=dtype)
            found.append(cells(PrivateData.from_columns({"c": column}, domain, outside=outside)))
            if dtype not in {"str", "longdouble"}:
                frame = pd.DataFrame({"c": column})
                found.append(cells(PrivateData.from_frame(frame, domain, outside=outside)))
        assert all(cell == found[0] for cell in found)
        assert found[0][1] == (0 if outside == "clip" else found[0][1])


def test_fractions_and_infinities_clip_alike(tmp_path):
    domain = Domain(Integer("c", 17, 20))
    values = [16.5, 17.5, 20.5, INF, -INF, NAN, 1e300]
    expected = ([2, 0, 0, 3], 2)
    for dtype in ["float64", "float32", "float16", "longdouble", "object", "str"]:
        with np.errstate(over="ignore"):
            column = np.array(values).astype(dtype)
        assert cells(PrivateData.from_columns({"c": column}, domain, outside="clip")) == expected
    assert cells(from_bytes(tmp_path, written(values), domain, outside="clip")) == expected
    texts = ["1e999999", "-1e999999", "9" * 5000, "1e-999999"]
    assert cells(PrivateData.from_columns({"c": texts}, domain, outside="clip")) == (
        [2, 0, 0, 2],
        0,
    )


SPECIAL = [0.1, 0.7, 255.5, 65504.0, 65520.0, 2.0**24 + 1, 2.0**53, 2.0**63, 2.0**64, 1e-45, 6e-8]
EDGES = st.floats(allow_nan=False, allow_infinity=False) | st.sampled_from(SPECIAL)


@pytest.mark.thorough
@repeatable
@drawn(
    st.sampled_from([*INTEGERS, *FLOATS]), st.lists(EDGES, min_size=2, max_size=5, unique=True),
    st.data(),
)  # fmt: skip
def test_a_typed_column_is_read_as_its_values_one_by_one(dtype, edges, data):
    edges = sorted(edge + 0.0 for edge in edges)
    if np.dtype(dtype).kind == "f":
        width = 8 * np.dtype(dtype).itemsize
        values = data.draw(st.lists(st.floats(width=width), min_size=1, max_size=6))
        with np.errstate(over="ignore"):
            values += [float(np.dtype(dtype).type(edge)) for edge in edges]
    else:
        info = np.iinfo(dtype)
        values = data.draw(st.lists(st.integers(info.min, info.max), min_size=1, max_size=6))
        near = [round(edge) + step for edge in edges for step in (-1, 0, 1)]
        values += [value for value in near if info.min <= value <= info.max]
    column = np.array(values, dtype=dtype)
    single = np.empty(len(column), dtype=object)
    single[:] = list(column)
    low = data.draw(st.sampled_from(values).filter(np.isfinite))
    attributes = [Integer("c", int(low) - 3, int(low) + 3)]
    if len(set(edges)) > 1:
        attributes.append(Binned("c", sorted(set(edges))))
    for attribute in attributes:
        for outside in ("cell", "clip"):
            load = functools.partial(
                PrivateData.from_columns, domain=Domain(attribute), outside=outside
            )
            assert cells(load({"c": column})) == cells(load({"c": single}))
            codes = [expected_cell(attribute, item, guessed=True) for item in printed(column)]
            if outside == "cell":
                assert cells(load({"c": column}))[1] == codes.count(-1)


def printed(column):
    """The elements of a column as the numbers that they print as."""
    if column.dtype.kind != "f":
        return column.tolist()
    return [
        Decimal(np.format_float_scientific(item)) if np.isfinite(item) else float(item)
        for item in column
    ]


def test_a_repeated_column_is_refused_by_its_name_and_others_may_repeat():
    domain = Domain(Integer("c", 0, 9))
    twice = pd.DataFrame([[1, 2]], columns=["c", "c"])
    with pytest.raises(DataError, match="has 2 columns 'c'"):
        PrivateData.from_frame(twice, domain)
    arrow = pa.Table.from_arrays([pa.array([1]), pa.array([2])], names=["c", "c"])
    with pytest.raises(DataError, match="has 2 columns 'c'"):
        PrivateData.from_frame(arrow, domain)
    others = pd.DataFrame([[1, 2, 3]], columns=["x", "x", "c"])
    assert cells(PrivateData.from_frame(others, domain))[0][3] == 1
    arrow = pa.Table.from_arrays([pa.array([1])] * 2 + [pa.array([3])], names=["x", "x", "c"])
    assert cells(PrivateData.from_frame(arrow, domain))[0][3] == 1


def test_files_as_the_libraries_write_them_hold_the_same_table(tmp_path):
    domain = Domain(
        Integer("age", 17, 20), Categorical("sex", ["F", "M", "rest"], other="rest"),
        Binned("share", [0, 0.3, 0.7, 1]), Boolean("member"), Categorical("code", [1, 2]),
    )  # fmt: skip
    frame = pl.DataFrame(
        {"age": [17, None, 18, 99], "sex": ["F", "M", None, 'a,"b'], "share": [0.7, 0.3, None, 1.0],
         "member": [True, False, None, True], "code": [1, None, 2, 1]},
    ).with_columns(pl.col("share").cast(pl.Float32))  # fmt: skip
    filled = pl.concat([frame] * 3).with_columns(
        pl.Series("age", [17, 18, 19, 20] * 3), pl.Series("sex", ["F", "M", "x", "F"] * 3),
        pl.Series("share", [0.7, 0.3, 0.1, 1.0] * 3, dtype=pl.Float32),
        pl.Series("member", [True, False] * 6), pl.Series("code", [1, 2] * 6),
    )  # fmt: skip
    for table in (frame, filled, pl.concat([frame, filled])):
        expected = cells(PrivateData.from_frame(table, domain))
        pandas, arrow = table.to_pandas(), table.to_arrow()
        table.write_csv(tmp_path / "polars.csv")
        pandas.to_csv(tmp_path / "pandas.csv")
        pandas.to_csv(tmp_path / "pandas16.csv", encoding="utf-16", sep=";")
        pyarrow.csv.write_csv(arrow, tmp_path / "pyarrow.csv")
        table.write_parquet(tmp_path / "t.parquet")
        assert cells(PrivateData.from_frame(pandas, domain)) == expected
        assert cells(PrivateData.from_frame(arrow, domain)) == expected
        for name in ("polars.csv", "pandas.csv", "pyarrow.csv"):
            assert cells(PrivateData.from_csv(tmp_path / name, domain)) == expected, name
        data = PrivateData.from_csv(
            tmp_path / "pandas16.csv", domain, encoding="utf-16", delimiter=";"
        )
        assert cells(data) == expected
        for parquet in (
            pl.scan_parquet(tmp_path / "t.parquet"),
            pd.read_parquet(tmp_path / "t.parquet"),
            pyarrow.parquet.read_table(tmp_path / "t.parquet"),
        ):
            assert cells(PrivateData.from_frame(parquet, domain)) == expected
        columns = {name: table[name].to_list() for name in domain.names}
        columns["share"] = table["share"]
        assert cells(PrivateData.from_columns(columns, domain)) == expected
