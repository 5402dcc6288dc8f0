"""A connection that is lent comes back as it was, and says in public what fails before a row."""

import sqlite3
import sys
import threading
from datetime import date

import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet
import pytest

from dpsdk import (
    Binned,
    Boolean,
    Categorical,
    Date,
    Domain,
    Integer,
    Neighbors,
    PrivacyUnit,
    PrivateData,
)
from dpsdk.data.vault import open_histogram
from dpsdk.errors import DataError, MissingExtra

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")

DOMAIN = Domain(Integer("a", 0, 3), Categorical("s", ["x", "y"]))
ROWS = [(1, "x"), (1, "x"), (3, "y"), (9, "x")]
CELLS = [0, 0, 2, 0, 0, 0, 0, 1]
QUERY = "SELECT a, s FROM t"


def cells(data):
    return open_histogram(data).table(data.domain.names).ravel().astype(int).tolist()


def filled(connection):
    connection.execute("CREATE TABLE t (a INTEGER, s TEXT)")
    connection.executemany("INSERT INTO t VALUES (?, ?)", ROWS)
    return connection


def sqlite(**given):
    connection = filled(sqlite3.connect(":memory:", **given))
    connection.commit()
    return connection


def loaded(connection, **given):
    return PrivateData.from_sql(connection, QUERY, DOMAIN, neighbors=Neighbors.ADD_REMOVE, **given)


@pytest.mark.parametrize("through", ["sqlite3", "ibis"])
def test_an_open_transaction_of_sqlite_stays_open(ibis, through):
    connection = sqlite()
    lent = connection if through == "sqlite3" else ibis.sqlite.from_connection(connection)
    connection.execute("INSERT INTO t VALUES (0, 'y')")
    assert connection.in_transaction
    assert cells(loaded(lent)) == [0, 1, *CELLS[2:]]
    with pytest.raises(DataError):
        PrivateData.from_sql(lent, "SELECT a, s FROM nowhere", DOMAIN)
    assert connection.in_transaction
    connection.rollback()
    assert connection.execute("SELECT count(*) FROM t").fetchone() == (4,)
    assert cells(loaded(lent)) == CELLS
    assert not connection.in_transaction


def test_the_settings_of_sqlite_stay(ibis):
    connection = sqlite(isolation_level=None)
    connection.row_factory = lambda cursor, row: {"row": row}
    connection.text_factory = bytes
    connection.create_function("twice", 1, lambda value: 2 * value)
    reading = connection.execute("SELECT a FROM t ORDER BY rowid")
    assert reading.fetchone() == {"row": (1,)}
    asked = (
        "SELECT 'a' LIKE 'A'",
        "SELECT * FROM sqlite_temp_master",
        "SELECT name FROM pragma_function_list ORDER BY name",
    )
    before = [connection.execute(query).fetchall() for query in asked]
    assert cells(loaded(connection)) == CELLS
    assert [connection.execute(query).fetchall() for query in asked] == before
    assert [row["row"] for row in reading.fetchall()] == [(1,), (3,), (9,)]
    assert connection.text_factory is bytes
    assert connection.row_factory(None, 1) == {"row": 1}
    doubled = PrivateData.from_sql(connection, "SELECT twice(a) AS a, s FROM t", DOMAIN)
    assert cells(doubled) == [0, 0, 0, 0, 2, 0, 0, 0]


def test_what_sqlite_says_before_it_reads_is_public(ibis):
    connection = sqlite()
    for query, reason in {
        "SELECT a, s FROM nowhere": "no such table: nowhere",
        "SELEC a, s FROM t": 'near "SELEC": syntax error',
        "SELECT b, s FROM t": "no such column: b",
        'SELECT a AS "A ", s FROM t': "no column 'a'; there is 'A '",
    }.items():
        with pytest.raises(DataError, match=reason):
            PrivateData.from_sql(connection, query, DOMAIN)
    caught = []

    def elsewhere():
        try:
            loaded(connection)
        except DataError as error:
            caught.append(error)

    thread = threading.Thread(target=elsewhere)
    thread.start()
    thread.join()
    assert "thread" in caught[0].reason
    malformed = "SELECT json('secret' || s) AS s, a FROM t"
    with pytest.raises(DataError, match="collect and check it") as told:
        PrivateData.from_sql(connection, malformed, DOMAIN)
    assert "secret" not in str(told.value)


def test_duckdb_is_left_as_it_was(duckdb):
    connection = filled(duckdb.connect())
    connection.execute("SET TimeZone = 'Asia/Tokyo'")
    connection.execute("CREATE TEMP TABLE mine AS SELECT 1 AS a")
    asked = (
        "SELECT name, value FROM duckdb_settings() ORDER BY name",
        "SELECT table_name, temporary FROM duckdb_tables() ORDER BY ALL",
        "SELECT view_name FROM duckdb_views() ORDER BY ALL",
    )
    before = [connection.execute(query).fetchall() for query in asked]
    connection.execute("BEGIN")
    connection.execute("INSERT INTO t VALUES (0, 'y')")
    for collect in ("histogram", "marginals"):
        assert cells(loaded(connection, collect=collect)) == [0, 1, *CELLS[2:]]
    connection.execute("ROLLBACK")
    assert [connection.execute(query).fetchall() for query in asked] == before
    assert cells(loaded(connection)) == CELLS


def test_what_duckdb_says_before_it_reads_is_public(duckdb, tmp_path, monkeypatch):
    connection = filled(duckdb.connect())
    for query, reason in {
        "SELECT a, s FROM nowhere": "nowhere does not exist",
        "SELEC a FROM t": "syntax error",
        "SELECT b, s FROM t": 'column "b" not found',
        'SELECT a AS "A ", s FROM t': "no column 'a'; there is 'A '",
        "SELECT a, s FROM 'none.parquet'": "No files found",
    }.items():
        with pytest.raises(DataError, match=f"(?i){reason}"):
            PrivateData.from_sql(connection, query, DOMAIN)
    with pytest.raises(DataError, match="collect and check it") as told:
        PrivateData.from_sql(connection, "SELECT CAST(s AS INTEGER) AS a, s FROM t", DOMAIN)
    assert "'x'" not in str(told.value)
    (tmp_path / "bad.csv").write_text("a,s\nsecret,x\n")
    typed = f"FROM read_csv('{tmp_path}/bad.csv', columns = {{'a': 'INTEGER', 's': 'VARCHAR'}})"
    with pytest.raises(DataError, match="collect and check it") as told:
        PrivateData.from_sql(connection, f"{typed}", DOMAIN)
    assert "secret" not in str(told.value)
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(MissingExtra, match="pyarrow is not installed"):
        loaded(connection)


def test_postgres_is_left_as_it_was(postgres, ibis):
    psycopg = pytest.importorskip("psycopg")
    rows = pytest.importorskip("psycopg.rows")
    with psycopg.connect(postgres) as connection:
        connection.execute("DROP TABLE IF EXISTS lent")
        connection.execute("CREATE TABLE lent (a integer, s text)")
        connection.cursor().executemany("INSERT INTO lent VALUES (%s, %s)", ROWS)
        connection.execute("SET TIME ZONE 'Asia/Tokyo'")
        connection.commit()
        connection.row_factory = rows.dict_row
        query, given = "SELECT a, s FROM lent", {"neighbors": Neighbors.ADD_REMOVE}
        idle = psycopg.pq.TransactionStatus.IDLE
        held = PrivateData.from_sql(connection, query, DOMAIN, collect="marginals", **given)
        assert connection.info.transaction_status == idle
        connection.execute("INSERT INTO lent VALUES (0, 'y')")
        for wrong, reason in {
            "SELECT a, s FROM nowhere": 'relation "nowhere" does not exist',
            "SELEC a, s FROM lent": "syntax error",
            'SELECT a AS "A ", s FROM lent': "no column 'a'; there is 'A '",
        }.items():
            with pytest.raises(DataError, match=reason):
                PrivateData.from_sql(connection, wrong, DOMAIN)
        with pytest.raises(DataError, match="collect and check it"):
            PrivateData.from_sql(connection, "SELECT s::integer AS a, s FROM lent", DOMAIN)
        assert cells(PrivateData.from_sql(connection, query, DOMAIN, **given))[1] == 1
        assert connection.row_factory is rows.dict_row
        assert connection.execute("SHOW TimeZone").fetchone() == {"TimeZone": "Asia/Tokyo"}
        connection.rollback()
        assert cells(held) == CELLS
        assert cells(PrivateData.from_sql(connection, query, DOMAIN, **given)) == CELLS
        assert connection.info.transaction_status == idle
        assert connection.execute("SHOW TimeZone").fetchone() == {"TimeZone": "Asia/Tokyo"}


def test_a_snapshot_outlives_the_transaction_in_which_it_was_taken(postgres, ibis):
    psycopg = pytest.importorskip("psycopg")
    with psycopg.connect(postgres) as connection:
        for end in (connection.rollback, connection.commit):
            connection.execute("CREATE TEMP TABLE passing (a integer, s text) ON COMMIT DROP")
            connection.cursor().executemany("INSERT INTO passing VALUES (%s, %s)", ROWS)
            held = PrivateData.from_sql(
                connection, "SELECT * FROM passing", DOMAIN, collect="marginals"
            )
            end()
            assert cells(held) == CELLS


def test_converters_of_a_connection_of_sqlite_are_not_called(ibis):
    def converted(value):
        raise ValueError(value)

    kinds = sqlite3.PARSE_DECLTYPES | sqlite3.PARSE_COLNAMES
    for name in ("marked", "smallint", "nvarchar"):
        sqlite3.register_converter(name, converted)
    connection = sqlite3.connect(":memory:", detect_types=kinds)
    connection.execute("CREATE TABLE t (a smallint, s nvarchar)")
    connection.executemany("INSERT INTO t VALUES (?, ?)", ROWS)
    for given in ({}, {"unit": PrivacyUnit("s", max_rows=9)}, {"collect": "marginals"}):
        assert cells(PrivateData.from_sql(connection, QUERY, DOMAIN, **given)) == CELLS
    named = 'SELECT a AS "a [marked]", s AS "s [marked]" FROM t'
    marked = Domain(Integer("a [marked]", 0, 3), Categorical("s [marked]", ["x", "y"]))
    for given in ({}, {"unit": PrivacyUnit("s [marked]", max_rows=9)}):
        assert cells(PrivateData.from_sql(connection, named, marked, **given)) == CELLS


def test_spark_is_left_as_it_was_and_says_what_is_wrong(spark):
    spark.createDataFrame(ROWS, "a int, s string").createOrReplaceTempView("t")
    spark.conf.set("spark.sql.session.timeZone", "Asia/Tokyo")
    before = spark.conf.getAll, [table.name for table in spark.catalog.listTables()]
    for collect in ("histogram", "marginals"):
        assert cells(loaded(spark, collect=collect)) == CELLS
    assert (spark.conf.getAll, [table.name for table in spark.catalog.listTables()]) == before
    for query, reason in {
        "SELECT a, s FROM nowhere": "TABLE_OR_VIEW_NOT_FOUND",
        "SELEC a FROM t": "PARSE_SYNTAX_ERROR",
        "SELECT a AS `A `, s FROM t": "no column 'a'; there is 'A '",
    }.items():
        with pytest.raises(DataError, match=reason):
            PrivateData.from_sql(spark, query, DOMAIN)


FRAMES = {
    "mapping": dict, "pandas": pd.DataFrame, "polars": pl.DataFrame,
    "polars lazy": lambda columns: pl.LazyFrame(columns), "pyarrow": pa.table,
}  # fmt: skip


@pytest.mark.parametrize("library", FRAMES)
def test_a_name_with_spaces_is_told(library):
    frame = FRAMES[library]({"A ": [1], "s": ["x"]})
    load = PrivateData.from_columns if library == "mapping" else PrivateData.from_frame
    with pytest.raises(DataError, match="no column 'a'; there is 'A '"):
        load(frame, DOMAIN)


def test_a_level_of_an_index_is_named_as_one():
    frame = pd.DataFrame({"a": [1], "s": ["x"]}).set_index("a")
    with pytest.raises(DataError, match="'a', which is a level of the index"):
        PrivateData.from_frame(frame, DOMAIN)


@pytest.mark.parametrize("absent", [(), ("polars",), ("polars", "duckdb")], ids=str)
def test_ordinary_folders_of_parquet_are_read(absent, duckdb, tmp_path, monkeypatch):
    def write(name, **columns):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        pyarrow.parquet.write_table(pa.table(columns), tmp_path / name)

    write("t/s=x/1.parquet", a=pa.array([1, 1], pa.int32()), other=pa.array([1, 2]))
    write("t/s=x/2.parquet", a=pa.array([9], pa.uint8()), another=pa.array(["1"]))
    write("t/s=y/1.parquet", a=pa.array([3], pa.int64()), other=pa.array([[1]]))
    write(
        "t/s=__HIVE_DEFAULT_PARTITION__/1.parquet",
        a=pa.array([2], pa.int64()),
        other=pa.array([1.5]),
    )
    write("u/1.parquet", a=pa.array([1]), s=pa.array(["x"]))
    write("u/2.parquet", a=pa.array([1.0]), s=pa.array(["x"]))
    write("v/1.parquet", a=pa.array([1]), s=pa.array(["x"]))
    write("v/2.parquet", a=pa.array([1]))
    for name in absent:
        monkeypatch.setitem(sys.modules, name, None)
    for path in (tmp_path / "t", f"{tmp_path}/t/*/*.parquet"):
        data = PrivateData.from_parquet(path, DOMAIN, name="t")
        assert (cells(data), data.facts.rows) == (CELLS, 5)
    unit = PrivacyUnit("s", max_rows=1)
    whose = PrivateData.from_parquet(tmp_path / "t", Domain(Integer("a", 0, 9)), unit=unit)
    assert open_histogram(whose).rows == 2
    with pytest.raises(DataError, match="column 'a' is Float64 and Int64 in different files"):
        PrivateData.from_parquet(tmp_path / "u", DOMAIN)
    with pytest.raises(DataError, match="no column 's'"):
        PrivateData.from_parquet(tmp_path / "v", DOMAIN)


def test_columns_that_nobody_asked_for_decide_nothing(duckdb):
    odd = pl.DataFrame({
        "a": [1, 1, 3, 9], "s": ["x", "x", "y", "x"],
        "o": pl.Series([{}, 1, "a", None], dtype=pl.Object),
    })  # fmt: skip
    assert cells(PrivateData.from_frame(odd, DOMAIN)) == CELLS
    doubled = pd.DataFrame([[1, "x", 1, 2]], columns=["a", "s", "o", "o"])
    assert sum(cells(PrivateData.from_frame(doubled, DOMAIN))) == 1


def test_the_schema_of_a_wide_table_is_resolved_once(monkeypatch):
    wide = pl.DataFrame({f"c{place}": [0, 1] for place in range(200)}).lazy()
    domain = Domain(*(Integer(f"c{place}", 0, 1) for place in range(40)))
    resolved = []
    real = pl.LazyFrame.collect_schema
    monkeypatch.setattr(
        pl.LazyFrame, "collect_schema", lambda self: resolved.append(1) or real(self)
    )
    PrivateData.from_frame(wide, domain)
    assert len(resolved) < 40


def test_dates_are_read_as_they_are_told_from_every_door(duckdb, ibis, postgres, tmp_path):
    domain = Domain(Date("day", date(2024, 7, 1), date(2024, 7, 5)))
    texts = ["04.07.2024", "5.7.2024", "2024-07-04", "07.04.2024", "31.02.2024", "", None]
    expected = [0, 0, 0, 1, 1]
    told = {"dates": "%d.%m.%Y"}
    (tmp_path / "t.csv").write_text("day\n" + "".join(f"{text or ''}\n" for text in texts))
    frames = [make({"day": texts}) for name, make in FRAMES.items() if name != "mapping"]
    frames.append(duckdb.connect().from_arrow(pa.table({"day": texts})))
    doors = [
        lambda: PrivateData.from_columns({"day": texts}, domain, **told),
        lambda: PrivateData.from_csv(tmp_path / "t.csv", domain, **told),
        *(lambda frame=frame: PrivateData.from_frame(frame, domain, **told) for frame in frames),
    ]
    lite, server = sqlite3.connect(":memory:"), pytest.importorskip("psycopg").connect(postgres)
    for connection, mark in ((lite, "?"), (server, "%s")):
        connection.execute("CREATE TEMP TABLE days (day TEXT)")
        cursor = connection.cursor()
        cursor.executemany(f"INSERT INTO days VALUES ({mark})", [(text,) for text in texts])  # noqa: S608
        doors.append(
            lambda lent=connection: PrivateData.from_sql(lent, "SELECT * FROM days", domain, **told)
        )
    for door in doors:
        assert cells(door()) == expected
        assert door().facts.rows == 7


def stored(connection, kind, values):
    connection.execute(f"CREATE TABLE alone (c {kind}, r INTEGER)")
    connection.executemany(
        "INSERT INTO alone VALUES (?, ?)", [(value, place) for place, value in enumerate(values)]
    )
    return connection


@pytest.mark.parametrize("added", [None, "x", 0.5, b"x", float("inf")])
@pytest.mark.parametrize("kind", ["BIGINT", "NUMERIC", "REAL", "TEXT", "BOOLEAN", ""])
def test_one_row_of_sqlite_moves_no_other(ibis, kind, added):
    large = [2**53, 2**53 + 1, 2**60 + 129, -(2**55) - 3]
    values = [1, 0, 17, 17, "1.5", 1.5, 0.1 + 0.2, "é", *large]
    attributes = [
        Integer("c", 2, 20), Integer("c", 2**53 - 2, 2**53 + 5), Boolean("c"),
        Binned("c", [1, 17, 2.0**53, 2.0**62]),
        Categorical("c", ["1.5", "17", str(2**53 + 1), "é"]),
    ]  # fmt: skip
    before = stored(sqlite3.connect(":memory:"), kind, values)
    after = stored(sqlite3.connect(":memory:"), kind, [*values, added])
    query = "SELECT * FROM alone"
    for attribute in [Boolean("c")] if kind == "BOOLEAN" else attributes:
        domain = Domain(attribute)
        told = [cells(PrivateData.from_sql(one, query, domain)) for one in (before, after)]
        for cell in range(attribute.size):
            own = attribute.size == 2 and added == 0.5
            assert told[0][cell] == told[1][cell] or own, (attribute, cell)
    if kind not in {"NUMERIC", "REAL", "BOOLEAN"}:
        places = Domain(Integer("r", 0, len(values) - 1))
        unit = PrivacyUnit("c", max_rows=1)
        told = [
            cells(PrivateData.from_sql(one, query, places, unit=unit)) for one in (before, after)
        ]
        assert told[0] == told[1]
        assert all(told[0][-len(large) :])
