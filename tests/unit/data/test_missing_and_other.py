"""Values that are missing or match nothing, in cells of their own: the same by every door."""

import datetime as dt
import itertools
import sys
from decimal import Decimal

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet
import pytest
from attrs import evolve
from tables_loaded import cells, from_bytes

from dpsdk import (
    MISSING,
    OTHER,
    Binned,
    Boolean,
    Categorical,
    Date,
    Domain,
    Integer,
    Neighbors,
    Number,
    PrivacyUnit,
    PrivateData,
)
from dpsdk.data.part import Parts
from dpsdk.data.vault import open_histogram
from dpsdk.errors import DataError, InvalidArgument

PAIR = Domain(Integer("n", 0, 2), Categorical("s", ["x", "y"]))
NUMBERS = {"known": 1, "other": 7, "missing": None}
TEXTS = {"known": "y", "other": "z", "missing": None}
ROWS = [
    (n, s)
    for place, (n, s) in enumerate(itertools.product(NUMBERS, TEXTS))
    for _ in range(place + 1)
]
"""Every combination, each another number of times."""


def values():
    return {"n": [NUMBERS[n] for n, _ in ROWS], "s": [TEXTS[s] for _, s in ROWS]}


def cell_of(attribute, value):
    if value in {"other", "missing"}:
        extra = OTHER if value == "other" else MISSING
        return attribute.index(extra) if extra in attribute.extras else None
    return attribute.index((NUMBERS if attribute.name == "n" else TEXTS)[value])


def expected(domain):
    """Counts by the rules: a value without a cell takes its row out of the domain."""
    counts, outside = np.zeros(domain.shape, int), 0
    for row in ROWS:
        found = [cell_of(one, value) for one, value in zip(domain.attributes, row, strict=True)]
        if None in found:
            outside += 1
        else:
            counts[tuple(found)] += 1
    return counts.ravel().tolist(), outside


def doors(folder):
    """Each way to load the table, as a function of the domain and more."""
    columns = values()
    frame = pl.DataFrame(columns)
    text = "n,s\n" + "".join(
        f"{'' if n is None else n},{'' if s is None else s}\n"
        for n, s in zip(*columns.values(), strict=True)
    )
    frame.write_parquet(folder / "t.parquet")
    gaps = [n is None for n in columns["n"]]
    numbers = [0 if n is None else n for n in columns["n"]]
    frames = {
        "polars": frame, "lazy": frame.lazy(), "pandas": frame.to_pandas(),
        "pandas of objects": pd.DataFrame(columns, dtype=object), "arrow": frame.to_arrow(),
        "categories": frame.with_columns(pl.col("s").cast(pl.Categorical)),
        "scanned": pl.scan_parquet(folder / "t.parquet"),
    }  # fmt: skip
    lists = {
        "lists": columns,
        "floats": {**columns, "n": np.array(columns["n"], float)},
        "objects": {name: np.array(column, object) for name, column in columns.items()},
        "masked": {**columns, "n": np.ma.array(numbers, mask=gaps)},
        "texts": {
            name: [None if v is None else str(v) for v in column]
            for name, column in columns.items()
        },
    }
    yield "csv", lambda d, **more: from_bytes(folder, text.encode(), d, **more)
    yield (
        "long csv",
        lambda d, **more: from_bytes(folder, (text + "1,y\n" * 2**15).encode(), d, **more),
    )
    yield "parquet", lambda d, **more: PrivateData.from_parquet(folder / "t.parquet", d, **more)
    for name, one in frames.items():
        yield name, lambda d, one=one, **more: PrivateData.from_frame(one, d, **more)
    for name, one in lists.items():
        yield name, lambda d, one=one, **more: PrivateData.from_columns(one, d, **more)


FLAGS = [(0, 0, 0, 0), (1, 1, 1, 1), (1, 0, 0, 1), (1, 0, 1, 1), (1, 1, 0, 1), (1, 1, 1, 0)]


@pytest.mark.parametrize("flags", FLAGS)
def test_every_combination_has_its_cell_by_every_door(flags, tmp_path):
    domain = Domain(
        Integer("n", 0, 2, missing=bool(flags[0]), other=bool(flags[1])),
        Categorical("s", ["x", "y"], missing=bool(flags[2]), other=bool(flags[3])),
    )
    counts, outside = expected(domain)
    for name, load in doors(tmp_path):
        data = load(domain)
        found = cells(data)
        if name == "long csv":
            place = domain.index({"n": 1, "s": "y"})
            found[0][place] -= 2**15
        assert found == (counts, outside), name
        assert data.facts.outside == (not all(flags)), name


def test_apart_is_the_open_domain_and_no_row_is_outside(tmp_path):
    counts, outside = expected(PAIR.open())
    assert outside == 0
    for name, load in doors(tmp_path):
        if name == "long csv":
            continue
        data = load(PAIR, outside="apart")
        assert data.domain == PAIR.open()
        assert not data.facts.outside
        assert cells(data) == (counts, 0), name
        histogram = open_histogram(data)
        # One attribute's gaps move no row of another.
        by_text = histogram.table(("s",)).astype(int).tolist()
        assert by_text == [0, 12, 15, 18], name
    for collect in ("histogram", "marginals"):
        for frame in (pl.DataFrame(values()), pl.LazyFrame(values()), pd.DataFrame(values())):
            data = PrivateData.from_frame(frame, PAIR, outside="apart", collect=collect)
            assert cells(data) == (counts, 0)


def test_persons_keep_rows_of_extra_cells_alike_by_every_door(tmp_path):
    who = [place % 7 for place in range(len(ROWS))]
    columns = {**values(), "who": who}
    for distinct in (False, True):
        unit = PrivacyUnit("who", max_rows=2, distinct=distinct)
        given = {"outside": "apart", "unit": unit}
        stored = {**given, "collect": "marginals"}
        found = [
            cells(PrivateData.from_columns(columns, PAIR, **given)),
            cells(PrivateData.from_frame(pl.DataFrame(columns), PAIR, **given)),
            cells(PrivateData.from_frame(pl.LazyFrame(columns), PAIR, **given)),
            cells(PrivateData.from_frame(pd.DataFrame(columns), PAIR, **stored)),
        ]
        text = pl.DataFrame(columns).write_csv().encode()
        found.append(cells(from_bytes(tmp_path, text, PAIR, **given)))
        assert all(one == found[0] for one in found)
        assert found[0][1] == 0
        assert sum(found[0][0]) == 14


def test_a_part_of_a_table_is_known_by_its_extra_label():
    for neighbors in Neighbors:
        data = PrivateData.from_columns(values(), PAIR, outside="apart", neighbors=neighbors)
        parts = Parts.by(data, "s")
        assert parts.size == 4
        part = parts.table(parts.cell(MISSING))
        assert sum(cells(part)[0]) == 18
        assert part.facts.outside == (neighbors is Neighbors.REPLACE_ONE)


def test_rows_of_odd_lines_are_others_and_nobodys(tmp_path, monkeypatch):
    lines = [b'"1,y', b"1,y,p,9", b"1," + b"y" * 2**21, b"1", b"", b"1,\xff,p", b"1,y,p"]
    content = b"n,s,who\n" + b"\n".join(lines) + b"\n"
    opened, gaps = PAIR.open(), Domain(*[
        Integer("n", 0, 2, missing=True), Categorical("s", ["x", "y"], missing=True)
    ])  # fmt: skip
    for without in ([], ["pyarrow"]):
        for name in without:
            monkeypatch.setitem(sys.modules, name, None)
        counts = np.zeros(opened.shape, int)
        # Broken lines are others throughout; a short line lacks what it lacks.
        for n, s, many in ((3, 2, 3), (1, 3, 1), (4, 3, 1), (1, 2, 1), (1, 1, 1)):
            counts[n, s] += many
        assert cells(from_bytes(tmp_path, content, opened)) == (counts.ravel().tolist(), 0)
        counts = np.zeros(gaps.shape, int)
        # Where the cell for the missing is the only one, they are there; a wrong text is outside.
        for n, s, many in ((3, 2, 4), (1, 2, 1), (1, 1, 1)):
            counts[n, s] += many
        assert cells(from_bytes(tmp_path, content, gaps)) == (counts.ravel().tolist(), 1)
        unit = PrivacyUnit("who", max_rows=9)
        known = cells(from_bytes(tmp_path, content, opened, unit=unit))
        assert (sum(known[0]), known[1]) == (2, 0)


def test_whatever_stands_in_a_column_has_a_cell_where_no_row_is_outside():
    class Odd:
        pass

    odd = [Odd(), [1], b"x", "\udcff", 1j, dt.date(2024, 1, 1), np.timedelta64(1, "s"), "?", True]
    none = [
        None, float("nan"), Decimal("NaN"), Decimal("sNaN"), np.float32("nan"), pd.NA, pd.NaT,
        np.datetime64("NaT", "s"), np.timedelta64("NaT", "s"), "", "nan", "NaN",
    ]  # fmt: skip
    first = dt.date(2030, 1, 1)
    for attribute in (
        Integer("c", 5, 6), Binned("c", [5, 6]), Boolean("c", true=["yes"], false=["no"]),
        Date("c", first, first), Categorical("c", ["x"]), Categorical("c", ["x", "r"], other="r"),
    ):  # fmt: skip
        own = [value for value in odd if not (attribute.kind == "boolean" and value is True)]
        data = PrivateData.from_columns({"c": own + none}, Domain(attribute), outside="apart")
        assert not data.facts.outside
        found = dict(zip(data.domain["c"].labels, cells(data)[0], strict=True))
        assert found[MISSING] == len(none)
        assert found["r" if "r" in attribute.labels else OTHER] == len(own)


@pytest.mark.parametrize(
    "attribute",
    [Integer("c", 0, 1), Binned("c", [0, 1]), Boolean("c"), Number("c", 0, 1, outside="other"),
     Date("c", dt.date(2024, 1, 1), dt.date(2024, 1, 1)), Categorical("c", ["x"])],
    ids=lambda one: one.kind,
)  # fmt: skip
def test_rows_may_lie_outside_unless_both_kinds_of_values_have_cells(attribute):
    for missing, other in itertools.product([False, True], repeat=2):
        declared = Domain(evolve(attribute, missing=missing, other=other))
        data = PrivateData.from_columns({"c": ["?", None]}, declared)
        assert data.facts.outside == (not (missing and other))
        assert cells(data)[1] == 2 - missing - other


def test_clipping_comes_before_the_cell_for_others():
    domain = Domain(Integer("c", 0, 2)).open()
    columns = {"c": [-5, 1.5, 9, None, "x", float("inf")]}
    clipped = PrivateData.from_columns(columns, domain, outside="clip")
    assert cells(clipped) == ([1, 0, 2, 2, 1], 0)
    assert not clipped.facts.outside
    assert cells(PrivateData.from_columns(columns, domain))[0] == [0, 0, 0, 5, 1]


def test_only_a_row_without_a_cell_ends_a_load_that_has_none_outside():
    half = Domain(Integer("c", 0, 2, missing=True))
    assert cells(PrivateData.from_columns({"c": [1, None]}, half, outside="raise"))[0][3] == 1
    for value in (9, "x"):
        with pytest.raises(DataError, match="outside the domain"):
            PrivateData.from_columns({"c": [1, value]}, half, outside="raise")


def test_counts_have_a_place_for_each_extra_cell():
    opened = PAIR.open()
    counts = np.arange(opened.size).reshape(opened.shape)
    data = PrivateData.from_counts(counts, opened)
    assert cells(data) == (counts.ravel().tolist(), 0)
    assert not data.facts.outside
    with pytest.raises(DataError, match="outside_rows, though every value has a cell"):
        PrivateData.from_counts(counts, opened, outside_rows=1)
    with pytest.raises(DataError, match="of shape"):
        PrivateData.from_counts(np.zeros(PAIR.shape), opened)


LISTED = ("?", "NA", "-1", "99.50", "e\u0301")


def listed(column):
    """Which of the values are missing, by the rule that the texts of a domain have."""
    told = []
    for value in column:
        text = str(value).strip()
        told.append(text in {"?", "NA", "é", "e\u0301"} or number_is(value, "-1", "99.5"))
    return told


def number_is(value, *numbers):
    try:
        return not isinstance(value, bool) and Decimal(str(value)) in map(Decimal, numbers)
    except ArithmeticError:
        return False


COLUMNS = [
    ["?", " NA ", "-1", "1", "na", "99.5", "99.50", "-1.0", "-1e0", "é", "e\u0301", "??"],
    [-1, 1, 2, 99, -10],
    [-1.0, 1.0, 99.5, 99.25, -1.5, 1e300, float("inf"), -0.0],
]


@pytest.mark.parametrize("outside", ["apart", "clip"])
@pytest.mark.parametrize("column", COLUMNS, ids=lambda column: type(column[0]).__name__)
def test_listed_texts_and_the_numbers_that_they_spell_are_missing(column, outside, tmp_path):
    attributes = [Integer("c", 0, 2), Binned("c", [0, 1, 2]), Categorical("c", ["1", "2"])]
    many = column * 9_000
    for attribute in attributes if outside == "apart" else attributes[:2]:
        domain = Domain(attribute, missing_texts=LISTED).open()
        place = domain["c"].index(MISSING)
        text = "c\n" + "".join(f"{value}\n" for value in many)
        loads = {
            "list": ({"c": column}, 1),
            "csv": (None, 9_000),
            "polars": (pl.DataFrame({"c": column}), 1),
            "lazy": (pl.LazyFrame({"c": column}), 1),
            "pandas": (pd.DataFrame({"c": column}), 1),
            "arrow": (pa.table({"c": column}), 1),
            "array": ({"c": np.array(column)}, 1),
            "objects": ({"c": np.array(column, object)}, 1),
        }
        if type(column[0]) is float:
            loads["lazy float32"] = (pl.LazyFrame({"c": pl.Series(column, dtype=pl.Float32)}), 1)
            with np.errstate(over="ignore"):
                loads["float32"] = ({"c": np.array(column, np.float32)}, 1)
        if type(column[0]) is int:
            loads["int8"] = ({"c": np.array(column, np.int8)}, 1)
            loads["lazy int8"] = (pl.LazyFrame({"c": pl.Series(column, dtype=pl.Int8)}), 1)
        for name, (given, times) in loads.items():
            load = PrivateData.from_columns if isinstance(given, dict) else PrivateData.from_frame
            data = (
                from_bytes(tmp_path, text.encode(), domain, outside=outside)
                if given is None
                else load(given, domain, outside=outside)
            )
            found, beyond = cells(data)
            assert beyond == 0
            assert found[place] == times * sum(listed(column)), (attribute, name)
            if name == "lazy":
                stored = load(given, domain, outside=outside, collect="marginals")
                assert cells(stored)[0] == found


def test_a_number_from_2_to_the_53_that_is_missing_is_so_whatever_the_dtype():
    code = 10**16 - 1
    domain = Domain(Integer("c", 0, 2), missing_texts=[str(code)]).open()
    for column in (
        np.array([code, 1]), np.array([code, np.nan, 1]), np.array([code, "x", 1], object),
        pd.Series([code, None, 1]), [code, 1], np.array([code, 1], np.uint64),
    ):  # fmt: skip
        kept = cells(PrivateData.from_columns({"c": column}, domain, outside="clip"))[0]
        assert kept[1] == 1
        assert kept[4] >= 1, column
        assert kept[2] == 0


def test_a_text_that_an_attribute_reads_as_a_value_is_refused_as_missing():
    day = Date("d", dt.date(2024, 1, 1), dt.date(2024, 12, 31))
    for attribute, text, more in (
        (day, "2024-03-01", {}),
        (day, "1900-01-01", {}),
        (day, "01.02.2024", {"dates": "%d.%m.%Y"}),
        (Integer("d", 1000, 2000), "1.999", {"decimal": ",", "thousands": "."}),
        (Binned("d", [0, 2]), "1,5", {"decimal": ","}),
        (Categorical("d", ["7"]), "007", {}),
    ):
        domain = Domain(attribute, missing_texts=[text])
        with pytest.raises(InvalidArgument, match=r"missing_texts.*no values of 'd'"):
            PrivateData.from_columns({"d": ["x"]}, domain, **more)
    fine = Domain(day, Integer("n", 0, 2), missing_texts=["01.02.2024", "1,5", "9", "inf"])
    PrivateData.from_columns({"d": ["x"], "n": [1]}, fine)


def test_a_missing_text_is_a_text_of_any_attribute_but_never_an_identifier():
    domain = Domain(Integer("n", 0, 2, missing=True), missing_texts=["NA"])
    columns = {"n": [1, "NA", 2], "who": ["NA", "NA", "p"]}
    data = PrivateData.from_columns(columns, domain, unit=PrivacyUnit("who", max_rows=2))
    assert cells(data) == ([0, 1, 1, 1], 0)
