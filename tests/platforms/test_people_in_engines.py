"""Every engine keeps the same rows of each person as the package itself does."""

import numpy as np
import polars as pl
import pytest

from dpsdk import Boolean, Categorical, Domain, Integer, PrivacyUnit, PrivateData
from dpsdk.data.vault import open_histogram

DOMAIN = Domain(Integer("age", 0, 9), Boolean("member"), Categorical("sex", ["F", "M"], other="M"))
ROWS = 2_000

UNITS = [
    (PrivacyUnit(column, max_rows=most, distinct=distinct), strip)
    for column, most, distinct, strip in (
        ("number", 1, False, False),
        ("number", 3, True, False),
        ("word", 2, False, False),
        ("word", 2, True, True),
    )
]


def table():
    noise = np.random.default_rng(3)
    words = [None, "", "nan", "NaN", " a", "a", "a\u3000", "A", "é", "e\u0301", "\U0001f600xyz1"]
    words += [f"user{number}@example.org" for number in range(300)]
    numbers = [None, -7, 0, 7, 2**62, -(2**63), *range(100, 400)]
    return pl.DataFrame(
        {
            "number": [numbers[place] for place in noise.integers(0, len(numbers), ROWS)],
            "word": [words[place] for place in noise.integers(0, len(words), ROWS)],
            "age": noise.integers(-2, 12, ROWS),
            "member": noise.integers(0, 2, ROWS).astype(bool),
            "sex": [["F", "M", "x", None][place] for place in noise.integers(0, 4, ROWS)],
        }
    )


def held(data):
    histogram = open_histogram(data)
    return histogram.table(DOMAIN.names).ravel().tolist(), histogram.rows


def expected(unit, strip):
    columns = {name: column.to_list() for name, column in table().to_dict().items()}
    return held(PrivateData.from_columns(columns, DOMAIN, unit=unit, strip=strip))


def check(frame, units=UNITS):
    for unit, strip in units:
        data = PrivateData.from_frame(frame, DOMAIN, unit=unit, strip=strip)
        assert held(data) == expected(unit, strip), unit


def test_polars():
    check(table())
    check(table().lazy())


def test_duckdb(duckdb):
    rows = table()
    check(duckdb.sql("SELECT * FROM rows"))
    assert len(rows)
    wide = duckdb.sql("SELECT * REPLACE (number::HUGEINT AS number) FROM rows")
    check(wide, UNITS[:1])
    for kind in ("DOUBLE", "DECIMAL(38, 2)", "BLOB"):
        other = duckdb.sql(f"SELECT * REPLACE (TRY_CAST(word AS {kind}) AS word) FROM rows")  # noqa: S608
        with pytest.raises(Exception, match="tell nobody apart"):
            PrivateData.from_frame(other, DOMAIN, unit=PrivacyUnit("word", max_rows=1))


def test_ibis(ibis):
    check(ibis.memtable(table().to_arrow()))


def test_spark_with_several_partitions(spark):
    rows = table()
    frame = spark.createDataFrame(
        rows.rows(), "number long, word string, age long, member boolean, sex string"
    )
    assert frame.rdd.getNumPartitions() > 1
    check(frame, UNITS[3:])
