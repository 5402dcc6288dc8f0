"""A row's cell and person follow from its own values, not from a type that other rows caused."""

import io
import sys

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.csv
import pytest
from tables_loaded import cells, from_bytes

from dpsdk import (
    Binned,
    Boolean,
    Categorical,
    Domain,
    Integer,
    Number,
    PrivacyUnit,
    PrivateData,
)

LARGE = [2**53, 2**53 + 1, 2**53 + 2, 2**60 + 1, 2**60 + 129, -(2**55) - 3, 2**62 + 2**9 + 1]
ROWS = [1, 0, 17, 17, -5, 2**31, *LARGE, 2**53 - 1]
ADDED = {"nothing": None, "NaN": float("nan"), "text": "x", "fraction": 0.5}
DOMAINS = {
    "integers": Integer("c", 0, 20),
    "large integers": Integer("c", 2**53 - 2, 2**53 + 5),
    "larger integers": Integer("c", 2**60 - 200, 2**60 + 2000),
    "bins": Binned("c", [1, 17, 2.0**53, 2.0**60 + 256, 2.0**62]),
    "booleans": Boolean("c"),
    "labels": Categorical("c", ["1", "17", str(2**53 + 1), str(2**60 + 1)]),
    "near labels": Categorical("c", [2**53, 2**53 + 1, 17, "rest"], other="rest"),
    "grid": Number("c", 0, 20, "0.4").open(),
    "large grid": Number("c", 2**53 - 2, 2**53 + 6, 2, outside="other").open(),
    "open integers": Integer("c", 0, 20).open(),
    "open bins": Binned("c", [1, 17, 2.0**53]).open(),
    "open labels": Categorical("c", ["1", "17", str(2**53 + 1)]).open(),
}


def series(dtype):
    return lambda values: pd.DataFrame({"c": pd.Series(values, dtype=dtype)})


def text(values):
    return "c\n" + "".join(f"{'' if value is None else value}\n" for value in values)


GUESSED = {
    "numpy": lambda values: {
        "c": np.array([np.nan if value is None else value for value in values])
    },
    "numpy of objects": lambda values: {"c": np.array(values, dtype=object)},
    "pandas": lambda values: pd.DataFrame({"c": values}),
    "pandas index": lambda values: {"c": pd.Index(values)},
    "pandas of objects": series(object),
    "pandas categories": series("category"),
}
DECLARED = {
    "list": lambda values: {"c": values},
    "pandas nullable": series("Int64"),
    "pandas of arrow": series(pd.ArrowDtype(pa.int64())),
    "pandas categories of nullable": lambda values: series("Int64")(values).astype("category"),
    "masked": lambda values: {
        "c": np.ma.array(
            [0 if value is None else int(value) for value in values],
            mask=[value is None for value in values],
        )
    },
    "polars": lambda values: pl.DataFrame({"c": pl.Series(values, dtype=pl.Int64)}),
    "polars lazy": lambda values: pl.LazyFrame({"c": pl.Series(values, dtype=pl.Int64)}),
    "pyarrow": lambda values: pa.table({"c": pa.array(values, pa.int64())}),
    "pyarrow dictionary": lambda values: pa.table(
        {"c": pa.array(values, pa.int64()).dictionary_encode()}
    ),
    "pandas reads texts": lambda values: pd.read_csv(
        io.StringIO(text(values)), dtype=str, skip_blank_lines=False
    ),
}
KINDS = {**GUESSED, **DECLARED}


def made(kind, values):
    """A table of the values in their column c and their places in r; None if its library errs."""
    if kind in DECLARED and 0.5 in values and kind != "list" and "texts" not in kind:
        return None  # some raise, and some cut it off
    try:
        table = KINDS[kind](values)
    except (TypeError, ValueError, OverflowError, pa.ArrowInvalid):
        return None
    if isinstance(table, dict):
        return {**table, "r": list(range(len(values)))}
    places = np.arange(len(values))
    if isinstance(table, pa.Table):
        return table.append_column("r", pa.array(places))
    if isinstance(table, pd.DataFrame):
        return table.assign(r=places)
    return table.with_columns(r=pl.Series(places))


def loaded(table, domain, **given):
    load = PrivateData.from_columns if isinstance(table, dict) else PrivateData.from_frame
    return cells(load(table, domain, **given))[0]


def doors(kind, values, tmp_path):
    table = made(kind, values)
    if table is None:
        pytest.skip("its library refuses the row")
    yield lambda *given, **named: loaded(table, *given, **named)
    if kind == "polars":
        path = tmp_path / f"{len(values)}.parquet"
        table.write_parquet(path)
        yield lambda *given, **named: cells(PrivateData.from_parquet(path, *given, **named))[0]


PERSONS = Domain(Integer("r", 0, len(ROWS) - 1))
WHO = PrivacyUnit("c", max_rows=1)


@pytest.mark.parametrize("added", ADDED)
@pytest.mark.parametrize("kind", KINDS)
def test_one_row_moves_no_other(kind, added, tmp_path):
    more = [*ROWS, ADDED[added]]
    pairs = list(zip(doors(kind, ROWS, tmp_path), doors(kind, more, tmp_path), strict=True))
    for before, after in pairs:
        for name, attribute in DOMAINS.items():
            if (name, kind, added) == ("near labels", "numpy", "text"):
                continue  # as texts they can be told apart
            # A large number that is listed has the others of a column rounded, too.
            listed = ["-5"] if "large" in name else ["-5", str(-(2**55) - 3)]
            domain = Domain(attribute, missing_texts=listed)
            alone = loaded({"c": [ADDED[added]]}, domain)
            assert after(domain) == [a + b for a, b in zip(before(domain), alone, strict=True)], (
                name
            )
        if (kind, added) != ("numpy", "text"):  # numpy makes texts of all, which are exact
            assert after(PERSONS, unit=WHO) == before(PERSONS, unit=WHO)


@pytest.mark.parametrize("added", ADDED)
def test_one_line_moves_no_other(added, tmp_path, monkeypatch):
    for without in ([], ["pyarrow"]):
        for name in without:
            monkeypatch.setitem(sys.modules, name, None)
        for domain in map(Domain, DOMAINS.values()):
            before, after, alone = (
                cells(from_bytes(tmp_path, ("c\n" + text(rows)[2:] * 9).encode(), domain))[0]
                for rows in (ROWS, [*ROWS, ADDED[added]], [ADDED[added]])
            )
            assert [a - b for a, b in zip(after, before, strict=True)] == alone


def test_integers_from_two_to_the_53_are_nobody_where_one_null_makes_them_floats():
    for kind in GUESSED:
        told = loaded(made(kind, ROWS), PERSONS, unit=WHO)
        kept = [value for value, count in zip(ROWS, told, strict=True) if count]
        assert set(kept) == {value for value in ROWS if abs(value) < 2**53}, kind
    for kind in DECLARED:
        assert sum(loaded(made(kind, ROWS), PERSONS, unit=WHO)) == len(set(ROWS)), kind


@pytest.mark.parametrize(
    "frame",
    [
        lambda values: {"c": np.array(values)},
        lambda values: {"c": [np.float32(value) if value < 99 else value for value in values]},
        lambda values: pd.DataFrame({"c": values}),
        lambda values: pd.DataFrame({"c": pd.array(values, dtype="Float64")}),
        lambda values: pl.DataFrame({"c": values}),
        lambda values: pa.table({"c": values}),
    ],
)
def test_a_float_is_the_integer_that_it_must_have_been(frame):
    values = [7.0, 0.5, -0.0, 2.0**53 - 1, 2.0**53, 2.0**60, float("inf"), float("nan")]
    for collect in ("histogram", "marginals"):
        table = frame(values)
        places = list(range(len(values)))
        domain = Domain(Integer("r", 0, 7))
        if isinstance(table, dict):
            data = PrivateData.from_columns({**table, "r": places}, domain, unit=WHO)
        else:
            table = (
                table.append_column("r", pa.array(places)) if isinstance(table, pa.Table)
                else table.assign(r=places) if isinstance(table, pd.DataFrame)
                else table.with_columns(r=pl.Series(places))
            )  # fmt: skip
            data = PrivateData.from_frame(table, domain, unit=WHO, collect=collect)
        assert cells(data)[0] == [1, 0, 1, 1, 0, 0, 0, 0]
    mixed = {"c": ["7", 7, 7.0, "7.0", "-0", 0, -0.0], "r": [1] * 7}
    assert loaded(mixed, Domain(Integer("r", 0, 2)), unit=WHO)[1] == 4
