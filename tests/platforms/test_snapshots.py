"""Counts pushed down into engines: the same as in memory, of one moment, and freed again."""

import gc
import os
import signal
import threading
from contextlib import suppress
from types import SimpleNamespace

import narwhals.stable.v2 as nw
import numpy as np
import pyarrow as pa
import pytest

from dpsdk import Boolean, Budget, Categorical, Domain, Integer, Neighbors, PrivateData, Session
from dpsdk.data.engine.snapshot import Snapshot
from dpsdk.data.vault import open_histogram
from dpsdk.errors import InvalidArgument, ReleaseFailed
from dpsdk.mechanisms import MWEM, Gaussian, Laplace, NoisyHistogram, SmallDB
from dpsdk.planner import Goal
from dpsdk.queries import Conjunction, Count, Marginal, Workload
from dpsdk.testing import seeded
from parallel import at_once

# Some releases of Ibis call what DuckDB has renamed since.
pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")

DOMAIN = Domain(Integer("age", 17, 26), Categorical("sex", ["f", "m"]), Boolean("owns"))
ENGINES = ["duckdb", "ibis", "ibis sqlite", "ibis postgres", "spark"]


def columns(count=400):
    generator = np.random.default_rng(3)
    return {
        "age": generator.integers(15, 29, count).tolist(),
        "sex": generator.choice(["f", "m", "n"], count, p=[0.5, 0.45, 0.05]).tolist(),
        "owns": [None if one < 0.02 else bool(one < 0.3) for one in generator.random(count)],
    }


COLUMNS = columns()


def values(given):
    def literal(value):
        if value is None:
            return "NULL"
        return f"'{value}'" if isinstance(value, str) else str(value)

    rows = zip(*given.values(), strict=True)
    return ", ".join(f"({', '.join(map(literal, row))})" for row in rows)


def filled(connection, run):
    """The table in a database, by the SQL that all of these know."""
    run("DROP TABLE IF EXISTS people")
    run("CREATE TABLE people (age INTEGER, sex VARCHAR(9), owns BOOLEAN)")
    run(f"INSERT INTO people VALUES {values(COLUMNS)}")  # noqa: S608
    return SimpleNamespace(frame=connection.table("people"), run=run, connection=connection)


def in_spark(session):
    rows = list(zip(*COLUMNS.values(), strict=True))
    return session.createDataFrame(rows, "age int, sex string, owns boolean")


@pytest.fixture
def place(request):
    """Where the table is: its frame, its connection, and what runs a statement there."""
    if request.param == "spark":
        session = request.getfixturevalue("spark")
        yield SimpleNamespace(frame=in_spark(session), run=None, connection=session)
        return
    if request.param == "duckdb":
        connection = request.getfixturevalue("duckdb").connect()
        yield filled(connection, connection.execute)
        return
    ibis = request.getfixturevalue("ibis")
    if request.param == "ibis postgres":
        connection = ibis.connect(request.getfixturevalue("postgres"))
    else:
        connection = getattr(ibis, request.param.partition(" ")[2] or "duckdb").connect()
    yield filled(connection, connection.raw_sql)
    with suppress(Exception):
        connection.disconnect()


@pytest.fixture
def frame(place):
    return place.frame


every_engine = pytest.mark.parametrize("place", ENGINES, indirect=True)


def both(frame, **given):
    engine = PrivateData.from_frame(frame, DOMAIN, collect="marginals", **given)
    return PrivateData.from_columns(COLUMNS, DOMAIN, **given), engine


@every_engine
def test_an_engine_counts_what_is_counted_in_memory(frame):
    memory, engine = map(open_histogram, both(frame))
    for keep_rows in (True, False):
        pairs = (
            (memory, engine),
            (
                memory.only("sex", 1, keep_rows=keep_rows),
                engine.only("sex", 1, keep_rows=keep_rows),
            ),
        )
        for one, other in pairs:
            assert one.rows == other.rows
            for names in ((), ("age",), ("sex", "age"), DOMAIN.names):
                np.testing.assert_array_equal(one.table(names), other.table(names))
            table = np.zeros((10, 2))
            codes, counts = other.records(("age", "owns"))
            table[tuple(codes)] = counts
            np.testing.assert_array_equal(table, one.table(("age", "owns")))


@every_engine
def test_an_engine_is_asked_nothing_for_a_plan(frame, monkeypatch):
    session = Session(both(frame)[1], Budget(1, "1e-6"))

    def never(self, plan):
        raise AssertionError("planning asked the engine")

    monkeypatch.setattr(Snapshot, "_asked", never)
    tables = [Goal(Marginal("age"), 0.3), Goal(Marginal("age", "sex"), 0.3)]
    plans = session.plan(tables), session.plan(Marginal("age"), budget=Budget("0.5"))
    assert all(plan.because for each in plans for plan in each)
    assert session.spent.charges == 0


def released(data):
    """What mechanisms of several families release, under the same draws."""
    pairs = Workload([Marginal("age", "sex", normalized=False), Marginal("owns", normalized=False)])
    session, told = Session(data, Budget(50, "1e-6"), noise=seeded(4)), []
    ages = Marginal("age", normalized=False)
    told.append(session.answer(ages, using=Laplace("0.5")).values.tolist())
    told.append(session.answer(ages, using=Gaussian(rho="0.5")).values.tolist())
    told.append(session.answer(Count(normalized=False), using=Laplace("0.5")))
    with session.partition("owns") as parts:
        halves = [parts[label].answer(ages, using=Laplace("0.5")) for label in (True, False)]
        told.extend(half.values.tolist() for half in halves)
    for mechanism in (NoisyHistogram(epsilon=1), MWEM(pairs, epsilon=1, rounds=2)):
        with session.open(mechanism) as channel:
            told.append(channel.distribution.table(DOMAIN.names).tolist())
            told.append(channel.answer(Conjunction({"age": 20, "sex": "f"}, normalized=False)))
    few = Workload([Conjunction({"sex": "f"}), Conjunction({"owns": True})])
    with session.open(SmallDB(few, epsilon=1, size=3)) as channel:
        told.append(channel.distribution.table(DOMAIN.names).tolist())
    return told


@every_engine
def test_releases_are_the_same_by_either_mode(frame):
    memory, engine = both(frame)
    assert released(memory) == released(engine)


@pytest.mark.parametrize("place", [name for name in ENGINES if name != "spark"], indirect=True)
def test_later_changes_of_a_table_are_not_seen(place):
    engine = open_histogram(both(place.frame)[1])
    before = engine.table(("age",))
    place.run("DELETE FROM people")
    np.testing.assert_array_equal(engine.table(("age", "sex")).sum(axis=1), before)
    assert before.any()


def test_duckdb_holds_its_own_snapshot(duckdb, tmp_path):
    place = str(tmp_path / "people.db")
    connection = duckdb.connect(place, config={"threads": 1, "memory_limit": "300MB"})
    filled(connection, connection.execute)
    data = both(connection.sql("SELECT * FROM people"))[1]
    engine = open_histogram(data)
    connection.execute("DELETE FROM people")
    connection.close()
    assert engine.table(("age", "sex")).sum() > 0
    [[threads, memory]] = (
        engine._snapshot._opened()
        .to_native()
        .query("t", "SELECT current_setting('threads'), current_setting('memory_limit')")
        .fetchall()
    )
    assert threads == 1
    assert memory.startswith("286.")


def test_duckdb_reads_what_only_its_connection_knows(duckdb):
    people = pa.table(COLUMNS)
    connection = duckdb.connect()
    connection.register("people", people)
    connection.execute("CREATE TEMP VIEW adults AS SELECT * FROM people WHERE age >= 18")
    data = PrivateData.from_frame(connection.sql("FROM adults"), DOMAIN, collect="marginals")
    expected = PrivateData.from_frame(
        people.filter(pa.compute.greater_equal(people["age"], 18)), DOMAIN
    )
    np.testing.assert_array_equal(
        open_histogram(data).table(DOMAIN.names), open_histogram(expected).table(DOMAIN.names)
    )


def test_many_threads_ask_one_duckdb(duckdb):
    connection = duckdb.connect()
    memory, engine = map(open_histogram, both(filled(connection, connection.execute).frame))
    sets = [("age",), ("sex",), ("owns",), ("age", "sex"), ("age", "owns"), ("sex", "owns")] * 3
    wrong = []

    def ask(names):
        if not np.array_equal(engine.counted(names), memory.counted(names)):
            wrong.append(names)

    at_once(ask, sets)
    assert not wrong


@pytest.mark.parametrize("place", ["ibis postgres"], indirect=True)
def test_a_connection_to_a_server_is_shared_by_turns(place, ibis):
    memory, engine = both(place.frame)
    again = ibis.postgres.from_connection(place.connection.con).table("people")
    other = PrivateData.from_frame(again, DOMAIN, collect="marginals")
    one, two = open_histogram(engine)._snapshot, open_histogram(other)._snapshot
    assert one._lock is two._lock is not None
    wrong = []

    def ask(asked):
        counts, names = asked
        expected = open_histogram(memory).counted(names)
        if not np.array_equal(counts.counted(names), expected):
            wrong.append(names)

    sets = (("age",), ("sex", "owns"), ("age", "owns"))
    at_once(ask, [(open_histogram(data), names) for data in (engine, other) for names in sets])
    assert not wrong


def exists(place, name):
    try:
        place.run(f"SELECT 1 FROM {name} LIMIT 1")  # noqa: S608
    except Exception:
        return False
    return True


@pytest.mark.parametrize("place", ["ibis postgres"], indirect=True)
def test_the_table_of_a_server_is_dropped_when_another_is_made_and_nobody_can_ask(place):
    data = both(place.frame)[1]
    name = open_histogram(data)._snapshot._opened().to_native().get_name()
    assert exists(place, name)
    del data
    gc.collect()
    assert exists(place, name)  # whoever let go of it may be at work in the connection
    kept = both(place.frame)[1]
    assert not exists(place, name)
    assert open_histogram(kept).rows


@pytest.mark.parametrize("place", ["ibis", "ibis sqlite"], indirect=True)
def test_an_engine_within_the_process_answers_all_threads_and_when_closed(place):
    memory, engine = both(place.frame)
    place.connection.disconnect()
    found = []
    thread = threading.Thread(target=lambda: found.append(open_histogram(engine).table(("age",))))
    thread.start()
    thread.join()
    np.testing.assert_array_equal(found[0], open_histogram(memory).table(("age",)))


@pytest.mark.parametrize("place", ["ibis postgres"], indirect=True)
def test_who_may_make_no_temporary_table_is_told_of_the_other_mode(place):
    place.run("DROP ROLE IF EXISTS reader")
    place.run("CREATE ROLE reader")
    place.run("GRANT SELECT ON people TO reader")
    place.run("REVOKE TEMP ON DATABASE postgres FROM public")
    place.run("SET ROLE reader")
    try:
        with pytest.raises(InvalidArgument, match='"histogram" for a frame of ibis'):
            both(place.frame)
        assert PrivateData.from_frame(place.frame, DOMAIN).facts.rows == 400
    finally:
        place.run("RESET ROLE")
        place.run("GRANT TEMP ON DATABASE postgres TO public")
        place.run("DROP OWNED BY reader")


@pytest.mark.parametrize("place", ["ibis postgres"], indirect=True)
def test_a_query_of_a_raw_connection(place):
    query = "SELECT * FROM people WHERE age > 18"
    raw = place.connection.con
    given = PrivateData.from_sql(raw, query, DOMAIN, collect="marginals")
    expected = PrivateData.from_sql(raw, query, DOMAIN)
    np.testing.assert_array_equal(
        open_histogram(given).table(DOMAIN.names), open_histogram(expected).table(DOMAIN.names)
    )


@pytest.mark.parametrize("place", ["ibis postgres"], indirect=True)
def test_a_connection_that_was_closed_fails_after_the_charge(frame):
    data = both(frame)[1]
    session = Session(data, Budget(1))
    frame.get_backend().disconnect()
    with pytest.raises(ReleaseFailed) as caught:
        session.answer(Marginal("age"), using=Laplace("0.1"))
    assert caught.value.__context__ is None
    assert session.spent.charges == 1


@pytest.mark.parametrize("place", ["ibis"], indirect=True)
def test_an_engine_whose_temporary_tables_may_be_views_is_refused(place, monkeypatch):
    monkeypatch.setattr(type(place.connection), "name", "flink")
    with pytest.raises(InvalidArgument, match='"histogram" for a frame of ibis'):
        both(place.frame)


@pytest.mark.parametrize("place", ["ibis", "duckdb"], indirect=True)
def test_keys_of_many_attributes_are_no_trouble(place):
    domain = Domain(*[Integer(f"a{place}", 0, 7) for place in range(42)])
    generator = np.random.default_rng(5)
    given = {one.name: generator.integers(0, 8, 50).tolist() for one in domain.attributes}
    place.run(f"CREATE TABLE wide ({', '.join(f'{name} INTEGER' for name in given)})")
    place.run(f"INSERT INTO wide VALUES {values(given)}")  # noqa: S608
    frame = place.connection.table("wide")
    data = PrivateData.from_frame(frame, domain, collect="marginals")
    codes, counts = open_histogram(data).records(domain.names)
    found = sorted(zip(*[code.tolist() for code in codes], strict=True))
    assert found == sorted(zip(*given.values(), strict=True))
    assert counts.tolist() == [1.0] * 50
    session = Session(data, Budget(100))
    everything = dict.fromkeys(domain.names, 0)
    assert session.answer(Conjunction(everything, normalized=False), using=Laplace(50)) < 5


def test_spark_reads_its_source_once(spark, tmp_path):
    place = tmp_path / "people.parquet"
    in_spark(spark).repartition(4).write.parquet(str(place))
    data = PrivateData.from_frame(spark.read.parquet(str(place)), DOMAIN, collect="marginals")
    for part in place.iterdir():
        part.unlink()
    engine, memory = open_histogram(data), open_histogram(PrivateData.from_columns(COLUMNS, DOMAIN))
    for names in (("age",), ("age", "sex"), DOMAIN.names):
        np.testing.assert_array_equal(engine.table(names), memory.table(names))


def test_spark_without_local_checkpoints_is_refused(spark, monkeypatch):
    frame = in_spark(spark)

    def missing(*_, **__):
        raise NotImplementedError("271828")

    monkeypatch.setattr(type(frame), "localCheckpoint", missing)
    with pytest.raises(InvalidArgument, match='"histogram" for a frame of pyspark'):
        PrivateData.from_frame(frame, DOMAIN, collect="marginals")


def test_an_interrupt_of_duckdb_passes(duckdb):
    connection = duckdb.connect()
    data = both(filled(connection, connection.execute).frame)[1]
    session = Session(data, Budget(1))
    real = Snapshot._asked

    def slow(self, plan):
        def endless(table):
            native = plan(table).to_native()
            return nw.from_native(
                native.query("t", "SELECT max(hash(range)) AS n FROM range(100000000)")
            )

        while True:
            real(self, endless)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Snapshot, "_asked", slow)
        timer = threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGINT))
        timer.start()
        with pytest.raises(KeyboardInterrupt) as caught:
            session.answer(Marginal("age"), using=Laplace("0.1"))
    assert caught.value.__context__ is None
    assert session.spent.charges == 1
    assert session.answer(Marginal("age"), using=Laplace("0.1")).values.shape == (10,)


@pytest.mark.parametrize("place", ["duckdb"], indirect=True)
def test_people_whose_number_is_private(frame):
    memory, engine = both(frame, neighbors=Neighbors.ADD_REMOVE, max_rows=1000)
    assert engine.facts.rows is None
    one, other = [open_histogram(data) for data in (memory, engine)]
    assert one.rows == other.rows == 400
