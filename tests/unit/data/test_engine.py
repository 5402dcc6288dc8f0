"""Tables that stay in their engine: one scan, and only distinct keys come back."""

import sys

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet
import pytest
from tables_loaded import cells

from dpsdk import Binned, Boolean, Categorical, Domain, Integer, Neighbors, PrivacyUnit, PrivateData
from dpsdk.data.engine.keys import group_keys
from dpsdk.data.engine.rows import all_rows, coded
from dpsdk.data.engine.table import open_table
from dpsdk.data.matching import make_matcher
from dpsdk.data.readers import read_codes
from dpsdk.data.texts import TextFormat
from dpsdk.data.vault import open_histogram
from dpsdk.errors import DataError, InvalidArgument, MissingExtra
from worlds import grouped

DOMAIN = Domain(
    Integer("age", 17, 20), Binned("pay", [0, 0.7, 2]), Categorical("sex", ["F", "M"]),
    Boolean("in"),
)  # fmt: skip
ROWS = 5_000


def table(rows=ROWS):
    rng = np.random.default_rng(1)
    return pl.DataFrame({
        "age": rng.integers(15, 22, rows), "pay": rng.choice([0.1, 0.7, np.nan, 2.0], rows),
        "sex": rng.choice(["F", "M", "x"], rows), "in": rng.choice([True, False], rows),
    }).with_columns(pl.col("pay").cast(pl.Float32))  # fmt: skip


def keys_over(frame, domain=DOMAIN, *, clip=False):
    names = frame.collect_schema().names() if isinstance(frame, pl.LazyFrame) else frame.columns
    names = getattr(frame, "column_names", names)
    beside = [name for name in ("row", "DPSDK_1") if name in names]
    table = open_table(frame, [*domain.names, *beside])
    matchers = [make_matcher(each, TextFormat(), clip=clip) for each in domain.attributes]
    return table, group_keys(table, matchers)


def test_a_lazy_table_is_scanned_once_and_only_counts_come_back():
    scans = []

    def spy(frame):
        scans.append(len(frame))
        return frame

    lazy = table().lazy().map_batches(spy, schema=table().schema)
    data = PrivateData.from_frame(lazy, DOMAIN)
    assert scans == [ROWS]
    assert cells(data) == cells(PrivateData.from_columns(table().to_dict(), DOMAIN))
    _, counts = open_histogram(data).records(DOMAIN.names)
    assert len(counts) <= DOMAIN.size
    assert counts.sum() + cells(data)[1] == ROWS


@pytest.mark.parametrize("clip", [False, True])
def test_cells_are_known_inside_the_engine_beside_columns_that_are_kept(clip):
    frame = table(200).with_row_index("row")
    known = None
    for made in (frame.lazy(), frame, frame.to_pandas(), frame.to_arrow()):
        lazy, keys = keys_over(made, clip=clip)
        found = all_rows(lazy, keys).table().collect()
        assert found.columns == ["dpsdk_0", "dpsdk_1", "dpsdk_2", "dpsdk_3"]
        if lazy.in_engine:
            found = coded(lazy, keys, ["row"]).collect().sort("row").drop("row")
        rows = [tuple(map(int, row)) for row in found.iter_rows()]
        known = rows if known is None else known
        assert rows == known
        codes, counts, outside = grouped(lazy, keys)
        assert counts.sum() + outside == 200
        assert all((code >= 0).all() for code in codes.values())
    assert {row[0] for row in known} == ({0, 1, 2, 3} if clip else {-1, 0, 1, 2, 3})
    assert -1 in {row[1] for row in known}


def test_a_column_that_is_kept_has_no_name_of_cells():
    lazy, keys = keys_over(table(5).with_columns(DPSDK_1=pl.lit(1)))
    with pytest.raises(DataError, match="DPSDK_1"):
        coded(lazy, keys, ["DPSDK_1"])


def test_many_cells_of_texts_are_found_by_halves():
    labels = [f"label {number}" for number in range(300)]
    domain = Domain(Categorical("c", labels, other="label 7"))
    frame = pl.LazyFrame({"c": [*labels, "else", None, "", "label 7"]})
    lazy, keys = keys_over(frame, domain)
    assert coded(lazy, keys).collect()["dpsdk_0"].to_list() == [*range(300), 7, -1, -1, 7]


OTHERS = Domain(Categorical("c", ["a", "True", "1", "rest"], other="rest"))


@pytest.mark.parametrize(
    "values",
    [
        ["a", None, float("nan"), pd.NA, "zz", ""],
        ["a", True, 1, 1.0, "1", "1.0", False],
        [True, 1, "True"],
        [None, None],
        [],
    ],
)
def test_values_of_pandas_that_python_calls_equal_are_still_told_apart(values):
    given = {"neighbors": Neighbors.ADD_REMOVE}
    frame = pd.DataFrame({"c": pd.Series(values, dtype=object)})
    data = PrivateData.from_frame(frame, OTHERS, **given)
    assert cells(data) == cells(PrivateData.from_columns({"c": values}, OTHERS, **given))


def test_dictionaries_of_arrow_are_read_by_their_codes():
    one, two = pa.array(["a", "1"]).dictionary_encode(), pa.array(["1", "b", None])
    nulls = pa.DictionaryArray.from_arrays(pa.array([0, 1, None], pa.uint8()), [None, "a"])
    for arrays, expected in (
        ([one, two.dictionary_encode()], ([1, 0, 2, 1], 1)),
        ([nulls], ([1, 0, 0, 0], 2)),
        ([pa.array([], pa.string()).dictionary_encode()], ([0, 0, 0, 0], 0)),
    ):
        frame = pa.table({"c": pa.chunked_array(arrays)})
        data = PrivateData.from_frame(frame, OTHERS, neighbors=Neighbors.ADD_REMOVE)
        assert cells(data) == expected


def test_dictionaries_whose_numbers_are_short_are_read_together():
    labels = [str(number) for number in range(300)]
    parts = [
        pa.DictionaryArray.from_arrays(pa.array(range(100), pa.int8()), labels[at : at + 100])
        for at in (0, 100, 200)
    ]
    data = PrivateData.from_frame(
        pa.table({"s": pa.chunked_array(parts)}), Domain(Categorical("s", labels))
    )
    assert cells(data) == ([1] * 300, 0)


@pytest.mark.parametrize("name", ["*", "^x$", "^x.*$", "^$", "$x^", r"^\\d|[x](x){1}?+#- &&~é$"])
def test_no_name_of_a_column_is_a_pattern(name):
    columns = {"x": [1, 1, 1], name: [0, 1, 2], "o": [3, 3, 3]}
    domain = Domain(Integer(name, 0, 3))
    frame = pl.DataFrame(columns)
    objects = frame.with_columns(pl.Series("o", [3, 3, 3], dtype=pl.Object))
    people = PrivacyUnit(name, max_rows=1)
    for one in (frame, frame.lazy(), objects, frame.to_pandas(), frame.to_arrow()):
        assert cells(PrivateData.from_frame(one, domain)) == ([1, 1, 1, 0], 0)
        assert cells(PrivateData.from_frame(one, domain, unit=people)) == ([1, 1, 1, 0], 0)
        assert read_codes(one, domain.attributes)[name].tolist() == [0, 1, 2]


def test_a_text_that_ends_with_zeros_is_another_text():
    texts = ["F", "F\0", "G\0\0", "G\0", "\0F", None]
    domain = Domain(Categorical("s", ["F", "G\0\0"]))
    frame = pl.DataFrame({"s": texts})
    for one in (frame, frame.lazy(), frame.to_pandas(), frame.to_arrow()):
        assert cells(PrivateData.from_frame(one, domain)) == ([1, 1], 4)


def test_objects_in_polars_are_read_one_by_one():
    frame = pl.DataFrame({"c": pl.Series(["a", 1, True, None], dtype=pl.Object)})
    expected = cells(PrivateData.from_columns({"c": ["a", 1, True, None]}, OTHERS))
    assert cells(PrivateData.from_frame(frame, OTHERS)) == expected
    assert cells(PrivateData.from_frame(frame.lazy(), OTHERS)) == expected


def test_parquet_files_are_read_without_polars_and_refused_without_all(tmp_path, monkeypatch):
    frame = table(50)
    for place in range(2):
        pyarrow.parquet.write_table(
            frame[25 * place :][:25].to_arrow(), tmp_path / f"{place}.parquet"
        )
    expected = cells(PrivateData.from_frame(frame, DOMAIN))
    assert cells(PrivateData.from_parquet(tmp_path, DOMAIN)) == expected
    for name in ("polars", "duckdb"):
        monkeypatch.setitem(sys.modules, name, None)
    assert cells(PrivateData.from_parquet(tmp_path, DOMAIN)) == expected
    assert PrivateData.from_parquet(tmp_path / "0.parquet", DOMAIN).facts.rows == 25
    with pytest.raises(DataError, match="no such file"):
        PrivateData.from_parquet(tmp_path / "2.parquet", DOMAIN)
    with pytest.raises(DataError, match="no column 'else'"):
        PrivateData.from_parquet(tmp_path, Domain(Integer("else", 0, 1)))
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(MissingExtra, match="polars, duckdb or pyarrow"):
        PrivateData.from_parquet(tmp_path, DOMAIN)
    with pytest.raises(InvalidArgument, match="path"):
        PrivateData.from_parquet(5, DOMAIN)


@pytest.mark.parametrize("without", [(), ("polars", "duckdb")])
def test_no_name_of_a_file_that_is_there_is_a_pattern(without, tmp_path, monkeypatch):
    for name in without:
        monkeypatch.setitem(sys.modules, name, None)
    domain = Domain(Integer("a", 0, 3))
    for value, name in enumerate(("a1.parquet", "a[1].parquet", "a*.parquet")):
        pyarrow.parquet.write_table(pa.table({"a": [value]}), tmp_path / name)
    for value, name in enumerate(("a1.parquet", "a[1].parquet", "a*.parquet")):
        counts = cells(PrivateData.from_parquet(tmp_path / name, domain))[0]
        assert counts == [int(number == value) for number in range(4)]
    assert cells(PrivateData.from_parquet(tmp_path / "a?.parquet", domain))[0] == [1, 0, 1, 0]


def test_a_query_needs_a_connection_that_is_known(monkeypatch):
    import sqlite3

    for connection, query, given in (
        (object(), "SELECT 1", {}), ("sqlite://", "SELECT 1", {}), (None, "SELECT 1", {}),
        (object(), 5, {}), (sqlite3, "SELECT 1", {"parameters": [1]}),
    ):  # fmt: skip
        with pytest.raises(InvalidArgument):
            PrivateData.from_sql(connection, query, DOMAIN, **given)
    monkeypatch.setitem(sys.modules, "ibis", None)
    connection = sqlite3.connect(":memory:")
    with pytest.raises(MissingExtra, match="ibis"):
        PrivateData.from_sql(connection, "SELECT 1", DOMAIN)
    connection.close()
