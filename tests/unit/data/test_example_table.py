"""A real table by every door: the same counts, and those of plain counting."""

import csv
import functools
import gzip
import io
from collections import Counter
from pathlib import Path

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import pytest

from dpsdk import Domain, PrivateData
from dpsdk.data.vault import open_histogram

pytestmark = pytest.mark.thorough

EXAMPLES = Path(__file__).parents[3] / "docs" / "examples"
ROWS = 6_000


@functools.cache
def rows():
    """The first rows of the example, by the csv module."""
    with gzip.open(EXAMPLES / "adult.csv.gz", "rt", encoding="utf-8", newline="") as file:
        return list(csv.reader(file))[: ROWS + 1]


@functools.cache
def domain():
    return Domain.load(EXAMPLES / "adult-domain.json").project(
        ("age", "sex", "workclass", "income")
    )


def text(**given):
    out = io.StringIO()
    csv.writer(out, **{"lineterminator": "\n", **given}).writerows(rows())
    return out.getvalue()


def frame():
    return pl.read_csv(io.StringIO(text()))


DOORS = {
    "as it is": lambda path: path.write_bytes(text().encode()) and {},
    "quoted": lambda path: path.write_bytes(text(quoting=csv.QUOTE_ALL).encode()) and {},
    "CRLF with a mark": lambda path: path.write_bytes(
        text(lineterminator="\r\n").encode("utf-8-sig")) and {},
    "semicolons in UTF-16": lambda path: path.write_bytes(text(delimiter=";").encode("utf-16"))
        and {"delimiter": ";", "encoding": "utf-16"},
    "padded": lambda path: path.write_bytes(text().replace(",", " , ").encode())
        and {"strip": True},
    "by Polars": lambda path: frame().write_csv(path, quote_style="non_numeric") or {},
    "by pandas": lambda path: frame().to_pandas().to_csv(path) or {},
    "by pyarrow": lambda path: pyarrow.csv.write_csv(frame().to_arrow(), path) or {},
}  # fmt: skip


def parquet(path):
    frame().write_parquet(path)
    return path


FRAMES = {
    "Polars": lambda path: frame(),
    "Polars, small types": lambda path: frame().with_columns(
        pl.col("age").cast(pl.UInt8), pl.col("sex").cast(pl.Categorical),
        pl.col("income").cast(pl.Enum(["<=50K", ">50K"])),
    ),
    "pandas": lambda path: frame().to_pandas(),
    "pandas, categories": lambda path: frame().to_pandas().astype("category"),
    "pandas, objects": lambda path: pd.DataFrame(rows()[1:], columns=rows()[0], dtype=object),
    "pyarrow": lambda path: frame().to_arrow(),
    "pyarrow, dictionaries": lambda path: pa.table(
        {name: frame().to_arrow()[name].dictionary_encode() for name in domain().names}
    ),
    "lazy Parquet": lambda path: pl.scan_parquet(parquet(path)),
    "Parquet by pandas": lambda path: pd.read_parquet(parquet(path)),
    "Parquet by pyarrow": lambda path: pyarrow.parquet.read_table(parquet(path)),
}  # fmt: skip


def check(data):
    names = domain().names
    places = [rows()[0].index(name) for name in names]
    counted = Counter(tuple(row[place] for place in places) for row in rows()[1:])
    expected = np.zeros(domain().shape)
    for (age, *texts), count in counted.items():
        labels = zip(domain().attributes, [int(age), *texts], strict=True)
        expected[tuple(attribute.index(label) for attribute, label in labels)] = count
    histogram = open_histogram(data)
    assert data.facts.rows == histogram.rows == ROWS == expected.sum()
    assert (histogram.table(names) == expected).all()


@pytest.mark.parametrize("door", DOORS)
def test_the_example_has_the_same_counts_from_every_file(door, tmp_path):
    path = tmp_path / "adult.csv"
    given = DOORS[door](path)
    check(PrivateData.from_csv(path, domain(), **given))


@pytest.mark.parametrize("library", FRAMES)
def test_the_example_has_the_same_counts_from_every_frame(library, tmp_path):
    check(PrivateData.from_frame(FRAMES[library](tmp_path / "adult.parquet"), domain()))


def test_the_example_has_the_same_counts_from_columns(tmp_path):
    columns = {name: frame()[name].to_list() for name in domain().names}
    check(PrivateData.from_columns(columns, domain()))
    check(PrivateData.from_columns({n: np.array(v) for n, v in columns.items()}, domain()))
    check(PrivateData.from_columns({n: np.array(v, str) for n, v in columns.items()}, domain()))
    check(PrivateData.from_columns(frame().to_pandas(), domain()))
