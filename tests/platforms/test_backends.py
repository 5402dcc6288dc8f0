"""One table, one histogram: the same columns in every engine, in every type that it has.

The rules of cells are tested where tables come in as columns; here each engine's cells are those,
row by row, for each type of column, each kind of attribute and each odd value.
"""

import math
import sqlite3
import sys
from contextlib import suppress
from decimal import Decimal
from pathlib import Path

import narwhals.stable.v2 as nw
import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.parquet
import pytest
from attrs import evolve

from dpsdk import Binned, Boolean, Categorical, Domain, Integer, Neighbors, PrivateData
from dpsdk.data.engine.keys import group_keys
from dpsdk.data.engine.rows import coded
from dpsdk.data.engine.table import open_table
from dpsdk.data.frames import series_as_column
from dpsdk.data.matching import make_matcher
from dpsdk.data.sql import query_frame
from dpsdk.data.texts import TextFormat
from dpsdk.errors import DataError, InvalidArgument

sys.path.insert(0, str(Path(__file__).parents[1] / "unit" / "data"))

from tables_loaded import cells
from test_doors import ATTRIBUTES, COLUMNS, expected_cell, fits, rounded, type_of

from worlds import grouped

# Of what the engines' own libraries think of each other.
pytestmark = [
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::FutureWarning"),
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
]

TEXTS = TextFormat()
INTEGERS = ["int8", "int16", "int32", "int64", "uint8", "uint32", "uint64"]
SIGNED = ["int8", "int64"]
ENGINES = ["polars", "duckdb", "ibis", "spark", "postgres"]
ROWS = max(map(len, COLUMNS.values()))


def padded(values, dtype):
    return pa.array([*values, *[None] * (ROWS - len(values))], type=dtype)


def columns_of_types(integers):
    """Each column in each type that holds it, all of one length, and the values to expect."""
    arrays, expected = {"row": pa.array(range(ROWS))}, {}

    def add(name, values, dtype, meant=None):
        label = f"c{len(arrays)} {name}"
        arrays[label] = padded(values, dtype)
        expected[label] = [*(values if meant is None else meant), *[None] * (ROWS - len(values))]

    for name, values in COLUMNS.items():
        kind = type_of(values)
        if kind is int:
            for dtype in integers:
                if fits(values, dtype):
                    add(f"{name} {dtype}", values, getattr(pa, dtype)())
        elif kind is float:
            for dtype in ("float32", "float64"):
                meant, narrow = rounded(values, dtype)
                add(f"{name} {dtype}", narrow, getattr(pa, dtype)(), meant)
        elif kind is Decimal:
            add(name, values, pa.decimal128(20, 4))
        elif kind is bool:
            add(name, values, pa.bool_())
        elif kind is str:
            add(name, values, pa.string())
    return pa.table(arrays), expected


@pytest.fixture(scope="module")
def everything(tmp_path_factory):
    """The table with all integer types, and that with those that SQL has; each also as a file."""
    folder = tmp_path_factory.mktemp("tables")
    made = {}
    for name, integers in (("all", INTEGERS), ("sql", SIGNED)):
        table, expected = columns_of_types(integers)
        path = str(folder / f"{name}.parquet")
        pyarrow.parquet.write_table(table, path)
        made[name] = table, expected, path
    return made


POSTGRES = {
    pa.int8(): "smallint", pa.int16(): "smallint", pa.int32(): "integer", pa.int64(): "bigint",
    pa.float32(): "real", pa.float64(): "double precision", pa.decimal128(20, 4): "numeric(20, 4)",
    pa.bool_(): "boolean", pa.string(): "text",
}  # fmt: skip


def in_postgres(psycopg, address, table, name):
    """A connection to a server that holds a table."""
    connection = psycopg.connect(address)
    quoted = [field.name.replace('"', '""') for field in table.schema]
    types = [POSTGRES[field.type] for field in table.schema]
    fields = [f'"{name}" {kind}' for name, kind in zip(quoted, types, strict=True)]
    connection.execute(f'CREATE TABLE "{name}" ({", ".join(fields)})')
    marks = ", ".join(["%s"] * table.num_columns)
    rows = [tuple(row.values()) for row in table.to_pylist()]
    with connection.cursor() as cursor:
        cursor.executemany(f'INSERT INTO "{name}" VALUES ({marks})', rows)  # noqa: S608
    return connection


@pytest.fixture(params=ENGINES)
def engine(request, everything):
    """A lazy frame over the table, its expected values, and the table itself."""
    name = request.param
    table, expected, path = everything["all" if name in {"polars", "duckdb", "ibis"} else "sql"]
    if name == "polars":
        return pl.scan_parquet(path), expected, table
    if name == "duckdb":
        connection = request.getfixturevalue("duckdb").connect()
        return connection.read_parquet(path), expected, table
    if name == "ibis":
        connection = request.getfixturevalue("duckdb").connect()
        backend = request.getfixturevalue("ibis").duckdb.from_connection(connection)
        return backend.read_parquet(path), expected, table
    if name == "spark":
        session = request.getfixturevalue("spark")
        return session.read.parquet(path).repartition(3), expected, table
    address = request.getfixturevalue("postgres")
    request.getfixturevalue("ibis")
    connection = in_postgres(pytest.importorskip("psycopg"), address, table, "everything")
    request.addfinalizer(connection.close)  # noqa: PT021  # for this engine only
    return asked(request, connection, "SELECT * FROM everything"), expected, table


def asked(request, connection, query):
    """A frame over a query, whose connection is lent until the test ends."""
    lent = query_frame(connection, query, None)
    frame = lent.__enter__()
    request.addfinalizer(lambda: lent.__exit__(None, None, None))
    return frame


def test_every_engine_gives_the_cells_of_every_other_door(engine):
    frame, expected, arrow = engine
    eager = nw.from_native(arrow)
    opened_table = open_table(frame, arrow.column_names)
    wrong, pairs, tried = {}, [], 0
    for label, attribute in ATTRIBUTES.items():
        for column in expected:
            for clip in (False, True) if attribute.ordered else (False,):
                matcher = make_matcher(evolve(attribute, name=column), TEXTS, clip=clip)
                with suppress(DataError):
                    pairs.append((label, clip, matcher, group_keys(opened_table, [matcher])[0]))
    for start in range(0, len(pairs), 200):
        some = pairs[start : start + 200]
        made = [key.expression.alias(f"k{place}") for place, (*_, key) in enumerate(some)]
        found = opened_table.frame.select("row", *made).collect().sort("row")
        for place, (label, clip, matcher, key) in enumerate(some):
            codes = key.codes(found.get_column(f"k{place}")).tolist()
            column = matcher.name
            door = matcher.encode(series_as_column(eager.get_column(column))).tolist()
            if not clip:
                by_rules = [expected_cell(ATTRIBUTES[label], value) for value in expected[column]]
                assert door == by_rules, (label, column)
            tried += 1
            if codes != door:
                wrong[label, column, clip] = codes, door
    assert wrong == {}
    assert tried > 500


ODD = Domain(
    Integer("a.b", -3, 300), Binned('q"uote', [0, 0.3, 0.7, 1]), Categorical("s`tick", ["F", "é"]),
    Boolean("select"), Categorical("dpsdk_0", ["1.5", "2", "rest"], other="rest"),
)  # fmt: skip
ROWS_OF_ODD = {
    "a.b": pa.array([17, 17, None, -3, 400, 17], pa.int16()),
    'q"uote': pa.array([0.7, 0.7, float("nan"), 0.3, 1.0, -0.0], pa.float32()),
    "s`tick": pa.array(["F", "F", None, "e\u0301", "F", "f"], pa.string()),
    "select": pa.array([True, True, None, False, False, True], pa.bool_()),
    "dpsdk_0": pa.array([1.5, 1.5, None, 2, 7, 9], pa.float64()),
}


@pytest.mark.parametrize("name", ["polars", "duckdb", "ibis", "spark", "connect", "postgres"])
def test_odd_names_and_policies_are_the_same_in_every_engine(name, request, tmp_path):
    table = pa.table(ROWS_OF_ODD)
    empty = table.slice(0, 0)
    frames = []
    for place, some in enumerate((table, empty)):
        path = str(tmp_path / f"{place}.parquet")
        pyarrow.parquet.write_table(some, path)
        if name == "polars":
            frame = pl.scan_parquet(path)
        elif name == "duckdb":
            frame = request.getfixturevalue("duckdb").connect().read_parquet(path)
        elif name == "ibis":
            connection = request.getfixturevalue("duckdb").connect()
            backend = request.getfixturevalue("ibis").duckdb.from_connection(connection)
            frame = backend.read_parquet(path)
        elif name in {"spark", "connect"}:
            frame = request.getfixturevalue(name).read.parquet(path)
        else:
            address = request.getfixturevalue("postgres")
            psycopg = pytest.importorskip("psycopg")
            connection = in_postgres(psycopg, address, some, f"odd{place}")
            request.addfinalizer(connection.close)
            frame = asked(request, connection, f'SELECT * FROM "odd{place}" -- all')  # noqa: S608
        frames.append(frame)
    columns = dict(ROWS_OF_ODD)
    for outside in ("cell", "clip"):
        expected = cells(PrivateData.from_columns(columns, ODD, outside=outside))
        assert cells(PrivateData.from_frame(frames[0], ODD, outside=outside)) == expected
        matchers = [
            make_matcher(attribute, TEXTS, clip=outside == "clip") for attribute in ODD.attributes
        ]
        lazy = open_table(frames[0], list(ODD.names))
        keys = group_keys(lazy, matchers)
        found = coded(lazy, keys).collect()
        counted, counts, out = grouped(lazy, keys)
        assert counts.sum() + out == len(found) == 6
        assert out == expected[1]
        for place, matcher in enumerate(matchers):
            codes = matcher.encode(series_as_column(nw.from_native(table)[matcher.name]))
            assert sorted(found[f"dpsdk_{place}"].to_list()) == sorted(codes.tolist())
            assert set(counted[matcher.name].tolist()) <= set(codes.tolist())
    with pytest.raises(DataError, match="is outside the domain"):
        PrivateData.from_frame(frames[0], ODD, outside="raise")
    with pytest.raises(DataError, match="more than max_rows=5 rows"):
        PrivateData.from_frame(frames[0], ODD, max_rows=5)
    with pytest.raises(DataError, match="no rows"):
        PrivateData.from_frame(frames[1], ODD)
    none = PrivateData.from_frame(frames[1], ODD, neighbors=Neighbors.ADD_REMOVE)
    assert cells(none) == ([0] * ODD.size, 0)
    assert PrivateData.from_frame(frames[0], ODD).facts.rows == 6


def test_names_that_an_engine_takes_for_one_are_refused(duckdb, tmp_path):
    table = pa.table({"Age": [1], "age": [2]})
    assert cells(PrivateData.from_frame(table, Domain(Integer("age", 0, 3))))[0][2] == 1
    pyarrow.parquet.write_table(table, tmp_path / "t.parquet")
    relation = duckdb.connect().sql('SELECT 1 AS "Age", 2 AS "age"')
    with pytest.raises(DataError, match="columns 'Age' and 'age' are one to its engine"):
        PrivateData.from_frame(relation, Domain(Integer("age", 0, 3)))


def test_integers_of_128_bits_are_not_rounded(duckdb):
    large = 2**100
    relation = duckdb.connect().sql(
        f"SELECT unnest([{large}, {large + 1}, {large + 2}, NULL])::HUGEINT AS c"
    )
    domain = Domain(Integer("c", large + 1, large + 2))
    assert cells(PrivateData.from_frame(relation, domain)) == ([1, 1], 2)
    small = duckdb.connect().sql("SELECT sum(v) AS c FROM (VALUES (1), (2)) t(v)")
    assert cells(PrivateData.from_frame(small, Domain(Integer("c", 3, 4)))) == ([1, 0], 0)


def test_enums_of_duckdb_are_texts(duckdb):
    relation = duckdb.connect().sql(
        "SELECT unnest(['x', 'y', 'x', NULL])::ENUM ('y', 'x', 'z') AS c"
    )
    domain = Domain(Categorical("c", ["x", "y"]))
    assert cells(PrivateData.from_frame(relation, domain)) == ([2, 1], 1)
    lazy = open_table(relation, ["c"])
    keys = group_keys(lazy, [make_matcher(domain["c"], TEXTS, clip=False)])
    assert sorted(coded(lazy, keys).collect()["dpsdk_0"].to_list()) == [-1, 0, 0, 1]


def test_an_engine_that_fails_tells_no_value(duckdb):
    relation = duckdb.connect().sql("SELECT CAST(v AS INTEGER) AS c FROM (VALUES ('secret')) t(v)")
    with pytest.raises(DataError, match="cannot be read") as caught:
        PrivateData.from_frame(relation, Domain(Integer("c", 0, 1)))
    assert "secret" not in str(caught.value)
    assert caught.value.__cause__ is caught.value.__context__ is None


SQL_DOMAIN = Domain(Integer("a", 0, 3), Categorical("s", ["x", "y"]))
QUERY = "SELECT 1 AS a, 'x' AS s UNION ALL SELECT 9, 'y' UNION ALL SELECT 1, 'x'"
EXPECTED = [2 if (a, s) == (1, "x") else 0 for a in range(4) for s in "xy"], 1


def test_a_query_is_counted_by_its_database(duckdb, ibis, spark, connect, postgres):
    connection = duckdb.connect()
    lite = sqlite3.connect(":memory:")
    psycopg = pytest.importorskip("psycopg")
    with psycopg.connect(postgres) as server:
        for source in (connection, ibis.sqlite.connect(), spark, connect, server, lite):
            data = PrivateData.from_sql(source, QUERY, SQL_DOMAIN)
            assert cells(data) == EXPECTED
    lite.close()
    chosen = f"SELECT * FROM ({QUERY}) t WHERE a < "  # noqa: S608  # of this file
    for source, query, parameters in (
        (connection, chosen + "?", [5]),
        (connection, chosen + "$most", {"most": 5}),
        (spark, chosen + ":most", {"most": 5}),
        (connect, chosen + ":most", {"most": 5}),
    ):
        data = PrivateData.from_sql(source, query, SQL_DOMAIN, parameters=parameters)
        assert cells(data) == (EXPECTED[0], 0)


def test_types_of_postgres_alone_are_read_as_the_texts_that_it_writes(postgres, ibis):
    psycopg = pytest.importorskip("psycopg")
    some = "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11"
    with psycopg.connect(postgres) as connection:
        connection.execute("CREATE TYPE feeling AS ENUM ('x', 'y', 'z')")
        connection.execute(
            'CREATE TABLE own (mood feeling, "a""b" uuid, sizes int[], bits bit(3), number numeric)'
        )
        connection.execute(
            "INSERT INTO own VALUES (%s, %s, %s, B'101', 'NaN'), ('y', NULL, NULL, NULL, 1.50),"
            " ('z', NULL, '{}', NULL, 'Infinity'), (NULL, NULL, '{}', NULL, 1e-30)",
            ("x", some, [1, 2]),
        )
        connection.commit()
        address = psycopg.conninfo.conninfo_to_dict(postgres)
        names = {"user": "user", "host": "host", "dbname": "database"}
        backend = ibis.postgres.connect(**{names[key]: address[key] for key in names})
        for attribute, expected in (
            (Categorical("mood", ["x", "y"]), ([1, 1], 2)),
            (Categorical('a"b', [some, "x"]), ([1, 0], 3)),
            (Categorical("sizes", ["{1,2}", "{}"]), ([1, 2], 1)),
            (Categorical("bits", ["101", "1"]), ([1, 0], 3)),
            (Binned("number", [0, 1, 2]), ([1, 1], 2)),
        ):
            domain = Domain(attribute)
            for source in (connection, backend):
                assert cells(PrivateData.from_sql(source, "SELECT * FROM own", domain)) == expected
                if attribute.name == "mood":
                    data = PrivateData.from_sql(source, "TABLE own;", domain, collect="marginals")
                    assert cells(data) == expected
        backend.disconnect()


def test_a_query_that_cannot_be_counted_is_refused(duckdb, ibis):
    connection = duckdb.connect()
    for source, query, given, expected in (
        (connection, 5, {}, "query.*a text in SQL"),
        (object(), QUERY, {}, "connection.*an Ibis backend"),
        ("duckdb://", QUERY, {}, "connection.*an Ibis backend"),
        (ibis.duckdb.connect(), QUERY, {"parameters": [1]}, "parameters"),
    ):
        with pytest.raises(InvalidArgument, match=expected):
            PrivateData.from_sql(source, query, SQL_DOMAIN, **given)
    with pytest.raises(DataError, match="the query: cannot be read"):
        PrivateData.from_sql(connection, "SELECT * FROM nowhere", SQL_DOMAIN)


def test_what_sqlite_keeps_in_a_column_of_another_type_is_read_as_what_it_is(ibis):
    del ibis
    lite = sqlite3.connect(":memory:")
    lite.execute("CREATE TABLE t (i INTEGER, f REAL, b BOOLEAN, s TEXT)")
    rows = [
        (17, 0.5, True, "x"), ("many", "many", 2, "x"), (17.5, math.inf, False, b"x"),
        (None, None, None, None), (2**53 + 1, -0.0, 1, 7),
    ]  # fmt: skip
    lite.row_factory = sqlite3.Row
    lite.executemany("INSERT INTO t VALUES (?, ?, ?, ?)", rows)
    for attribute, clipped in (
        (Integer("i", 17, 18), True), (Integer("i", 2**53, 2**53 + 1), True),
        (Binned("f", [0, 0.5, 1]), False), (Boolean("b"), False),
        (Categorical("i", ["17", "many", "rest"], other="rest"), False),
    ):  # fmt: skip
        domain = Domain(attribute)
        values = [row["ifbs".index(attribute.name)] for row in rows]
        if attribute.name == "b":
            # SQLite has no truth values of its own.
            values = [None if value is None else int(value) for value in values]
        for outside in ("cell", "clip") if clipped else ("cell",):
            expected = cells(
                PrivateData.from_columns({attribute.name: values}, domain, outside=outside)
            )
            data = PrivateData.from_sql(lite, "SELECT * FROM t", domain, outside=outside)
            assert cells(data) == expected, (attribute, outside)
    with pytest.raises(DataError, match="may hold texts"):
        PrivateData.from_sql(lite, "SELECT * FROM t", Domain(Binned("f", [0, 1])), outside="clip")
    lite.close()


def test_the_first_row_of_sqlite_decides_about_no_other(ibis):
    """Of a column without a type, the values have none in common."""
    values = ["x", 1, 1.5, None, "1", "1.0", 2.0, math.inf, "", 0.1 + 0.2, 2**53 + 1, "rest"]
    attributes = [
        Categorical("u", ["x", "1", "rest"], other="rest"), Integer("u", 0, 3), Boolean("u"),
        Integer("u", 2**53, 2**53 + 2), Binned("u", [0, 0.3, 0.30000000000000004, 2, 3]),
    ]  # fmt: skip
    for first in ("x", 1, 1.5, None):
        ordered = [first, *values]
        lite = sqlite3.connect(":memory:")
        lite.execute("CREATE TABLE t (u, i INTEGER)")
        lite.executemany("INSERT INTO t VALUES (?, 1)", [(value,) for value in ordered])
        for attribute in attributes:
            domain = Domain(attribute, Integer('i"', 0, 3))
            columns = {"u": ordered, 'i"': [1] * len(ordered)}
            for outside in ("cell", "clip"):
                expected = cells(PrivateData.from_columns(columns, domain, outside=outside))
                for source in (lite, ibis.sqlite.from_connection(lite)):
                    for query in (
                        'SELECT u, i AS "i""" FROM t',
                        'SELECT +u AS u, +i AS "i""" FROM t',
                    ):
                        data = PrivateData.from_sql(source, query, domain, outside=outside)
                        assert cells(data) == expected
        assert lite.execute("SELECT name FROM sqlite_temp_master").fetchall() == []
        lite.execute("DELETE FROM t")
        none = PrivateData.from_sql(
            lite, "SELECT u || u AS u FROM t", Domain(Integer("u", 0, 1)),
            neighbors=Neighbors.ADD_REMOVE,
        )  # fmt: skip
        assert cells(none) == ([0, 0], 0)
        lite.close()


@pytest.mark.parametrize("absent", [(), ("polars",), ("polars", "duckdb")])
def test_parquet_files_are_the_same_by_every_library(absent, duckdb, tmp_path, monkeypatch):
    del duckdb
    for name in absent:
        monkeypatch.setitem(sys.modules, name, None)
    inner = tmp_path / "year=2024" / "x"
    inner.mkdir(parents=True)
    whole = pa.table({"a": pa.array([0, 1, None, 9], pa.int8()), "s": ["x", "x", "y", "y"]})
    for place, path in enumerate((tmp_path / "0.parquet", inner / "1.parquet")):
        pyarrow.parquet.write_table(whole.slice(2 * place, 2), path)
    expected = cells(PrivateData.from_frame(whole, SQL_DOMAIN))
    for path in (tmp_path, str(tmp_path / "**" / "*.parquet")):
        data = PrivateData.from_parquet(path, SQL_DOMAIN)
        assert cells(data) == expected
        assert data.name == str(path)
    assert PrivateData.from_parquet(tmp_path / "0.parquet", SQL_DOMAIN).facts.rows == 2
    for name in ("z[0]", "z*"):
        other = tmp_path / "others" / f"{name}.PARQUET"
        other.parent.mkdir(exist_ok=True)
        pyarrow.parquet.write_table(whole, other)
        pyarrow.parquet.write_table(whole.slice(0, 1), other.with_name("z0.PARQUET"))
        assert cells(PrivateData.from_parquet(other, SQL_DOMAIN)) == expected
    pyarrow.parquet.write_table(pa.table({"a": [1.5], "s": ["x"]}), tmp_path / "2.parquet")
    with pytest.raises(DataError):
        PrivateData.from_parquet(tmp_path, SQL_DOMAIN)
    for nothing in (tmp_path / "none", tmp_path / "none*.parquet"):
        with pytest.raises(DataError, match="no such file"):
            PrivateData.from_parquet(nothing, SQL_DOMAIN)


def test_rows_are_counted_beyond_what_one_batch_holds(duckdb, spark):
    rows = 200_000
    domain = Domain(Integer("a", 0, 9), Categorical("s", [str(n) for n in range(7)]))
    query = "SELECT range % 11 AS a, CAST(range % 8 AS VARCHAR) AS s FROM range({})"
    numbers = np.arange(rows)
    expected = cells(
        PrivateData.from_columns({"a": numbers % 11, "s": (numbers % 8).astype(str)}, domain)
    )
    relation = duckdb.connect().sql(query.format(rows))
    assert cells(PrivateData.from_frame(relation, domain)) == expected
    frame = spark.sql(query.replace("range %", "id %").replace("VARCHAR", "STRING").format(rows))
    frame = frame.repartition(5)
    assert cells(PrivateData.from_frame(frame, domain)) == expected
