"""Dates and times in engines: the cells of every row are those that Python's own zones give."""

from datetime import UTC, date, datetime, timedelta
from itertools import product
from zoneinfo import ZoneInfo

import numpy as np
import polars as pl
import pytest
from attrs import evolve

from dpsdk import Date, Domain, PrivateData
from dpsdk.data.engine.keys import group_keys
from dpsdk.data.engine.rows import coded
from dpsdk.data.engine.table import open_table
from dpsdk.data.matching import make_matcher
from dpsdk.data.texts import TextFormat
from dpsdk.data.vault import open_histogram
from dpsdk.errors import DataError
from worlds import grouped

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")

ZONES = ["UTC", "Europe/Berlin", "Asia/Kathmandu", "Australia/Lord_Howe", "America/St_Johns",
         "Africa/Casablanca", "Pacific/Apia"]  # fmt: skip
SESSION = "America/St_Johns"
"""The zone of engines that have one, which may decide nothing."""

RNG = np.random.default_rng(8)
START = datetime(2006, 10, 20)
TIMES = [
    *(START + timedelta(seconds=int(s)) for s in RNG.integers(0, 17 * 86_400, 40)),
    *(datetime(2006, 10, 29) + timedelta(minutes=29 * n, microseconds=-1) for n in range(12)),
    *(datetime(2011, 12, 29) + timedelta(hours=3.5 * n) for n in range(20)),
    datetime(1969, 12, 31, 23, 59, 59, 999_999), datetime(1970, 1, 1), datetime(2000, 2, 29, 12),
    datetime(1900, 3, 1), datetime(1890, 1, 20, 1, 2, 3), datetime(2037, 7, 1), None,
]  # fmt: skip
ATTRIBUTES = [
    Date("x", date(2006, 10, 25), date(2012, 1, 4)),
    Date("x", date(2006, 10, 25), date(2012, 1, 4), unit="week"),
    Date("x", date(1899, 1, 1), date(2012, 1, 4), unit="month"),
    Date("x", date(1885, 1, 1), date(2040, 1, 1), unit="month"),
    Date("x", datetime(2006, 10, 28, 22), datetime(2011, 12, 31, 5), unit="hour"),
    Date("x", date(1, 1, 1), date(9999, 12, 31)),
]


SHORT = [
    Date("x", date(2011, 12, 10), date(2012, 1, 4)),
    Date("x", datetime(2006, 10, 28, 22), datetime(2011, 12, 31, 5), unit="hour"),
]


def wall(value, attribute):
    """The time on the wall of a value; None where it is in no cell because of its kind."""
    if value is None or (attribute.unit == "hour" and not isinstance(value, datetime)):
        return None
    if isinstance(value, datetime) and value.tzinfo is not None:
        return value.astimezone(ZoneInfo(attribute.zone)).replace(tzinfo=None)
    return value if isinstance(value, datetime) else datetime(value.year, value.month, value.day)


def cell_of(attribute, value, clip):
    there = wall(value, attribute)
    missing, other = (attribute.known + 1, attribute.known) if attribute.extras else (-1, -1)
    if there is None:
        return missing if value is None else other
    ends = {
        "day": lambda t: t.toordinal(),
        "week": lambda t: (t.toordinal() - 1) // 7,
        "month": lambda t: t.year * 12 + t.month,
        "hour": lambda t: t.toordinal() * 24 + getattr(t, "hour", 0),
    }[attribute.unit]
    cell = ends(there) - ends(attribute.low)
    if clip:
        return min(max(cell, 0), attribute.known - 1)
    return cell if 0 <= cell < attribute.known else other


def found(frame, wanted):
    """The cells of every row of columns, by name, as an engine maps them in one scan."""
    matchers = [make_matcher(attribute, TextFormat(), clip=clip) for attribute, clip in wanted]
    table = open_table(frame, ["row", *(matcher.name for matcher in matchers)])
    keys = group_keys(table, matchers)
    answer = coded(table, keys, keep=["row"]).collect().sort("row")
    codes = [answer.get_column(f"dpsdk_{place}").to_list() for place in range(len(keys))]
    grouped_codes, counts, outside = grouped(table, keys[:1])
    inside = np.bincount(grouped_codes[keys[0].name], counts, minlength=1)
    assert outside == codes[0].count(-1)
    assert inside.sum() == len(codes[0]) - outside
    return codes


def check(frame, columns, kinds, attributes=ATTRIBUTES):
    """Hold all cells of a frame against Python's.

    `columns` says what values each column holds, and `kinds` which are of an instant.
    """
    wanted, values = [], []
    asked = product(columns.items(), enumerate(attributes), (False, True))
    for (name, held), (place, attribute), clip in asked:
        if name in kinds:
            zones = ["Africa/Casablanca"] if clip else ZONES[place % 3 :: 3]
        else:
            zones = [None]
            if attribute.unit == "hour" and not any(isinstance(v, datetime) for v in held):
                continue
        for zone in zones:
            of_zone = evolve(attribute, name=name, zone=zone)
            wanted.append((of_zone.open() if place % 2 else of_zone, clip))
            values.append(held)
    for (attribute, clip), held, codes in zip(wanted, values, found(frame, wanted), strict=True):
        right = [cell_of(attribute, value, clip) for value in held]
        assert codes == right, (attribute, clip)


DAYS = [None if time is None else time.date() for time in TIMES]
INSTANTS = [None if time is None else time.replace(tzinfo=UTC) for time in TIMES]
HELD = {"t": TIMES, "z": INSTANTS, "d": DAYS}


def polars():
    return pl.DataFrame(
        {"row": list(range(len(TIMES))), **HELD},
        schema_overrides={"t": pl.Datetime("us"), "z": pl.Datetime("us", "UTC")},
    )


@pytest.fixture
def connection(duckdb):
    with duckdb.connect() as opened_here:
        opened_here.execute(f"SET TimeZone = '{SESSION}'")
        yield opened_here


def loaded(connection):
    """A table with a column of every type of time that DuckDB has."""
    given = polars().to_arrow()  # noqa: F841  # read by its name
    return connection.sql(
        "SELECT *, t::TIMESTAMP_NS AS n, t::TIMESTAMP_MS AS m, t::TIMESTAMP_S AS s FROM given"
    )


def test_duckdb(connection):
    table = loaded(connection)
    types = dict(zip(table.columns, map(str, table.types), strict=True))
    assert types["z"] == "TIMESTAMP WITH TIME ZONE"
    assert types["n"] == "TIMESTAMP_NS"
    check(table, HELD | {"n": TIMES}, {"z"})
    kept = table.aggregate("row, any_value(d) AS d, any_value(m) AS m, any_value(s) AS s", "row")
    rounded = {name: [row[0] for row in kept.order("row").project(f"{name}::TIMESTAMP").fetchall()]
               for name in ("m", "s")}  # fmt: skip
    check(kept, rounded, set())


ODD = {"infinity": 1, "-infinity": -1, "0044-03-15 (BC) 12:00:00": -1, "290000-01-01 00:00:00": 1}
"""Times that Python does not have, and on which side of all cells they are."""


def check_odd(frame):
    """Hold a frame of `ODD` times, and of nothing, against what should become of them."""
    above = list(ODD.values()).count(1)
    for name, zone in (("t", None), ("d", None), ("z", "Europe/Berlin")):
        for ends, unit in (
            ((date(1, 1, 1), date(9999, 12, 31)), "month"),
            ((date(2011, 12, 1), date(2021, 12, 1)), "day"),
            ((date(2011, 12, 1), date(2011, 12, 31)), "week"),
            ((date(9999, 10, 1), date(9999, 12, 31)), "month"),
            ((date(1, 1, 1), date(1, 2, 1)), "day"),
        ):
            attribute = Date(name, *ends, unit=unit, zone=zone)
            data = PrivateData.from_frame(frame, Domain(attribute))
            assert open_histogram(data).table((name,)).sum() == 0
            assert data.facts.rows == len(ODD) + 1
            data = PrivateData.from_frame(frame, Domain(attribute), outside="clip")
            moved = open_histogram(data).table((name,))
            apart = PrivateData.from_frame(frame, Domain(attribute), outside="apart")
            others, gaps = open_histogram(apart).table((name,))[-2:]
            # Some engines hand values over, and have none that is in no year of a domain.
            all_years = (attribute.low.year, attribute.high.year) == (1, 9999)
            assert (others, gaps) == (len(ODD), 1) or (all_years and others + gaps == 1 + len(ODD))
            assert (moved[0], moved[-1], moved.sum()) == (len(ODD) - above, above, len(ODD))


def test_what_duckdb_alone_has_is_outside(connection, ibis):
    rows = ", ".join(
        f"('{text}'::TIMESTAMP, '{text}'::TIMESTAMP::DATE, '{text}'::TIMESTAMPTZ)" for text in ODD
    )
    table = connection.sql(f"SELECT * FROM (VALUES {rows}, (NULL, NULL, NULL)) AS v(t, d, z)")  # noqa: S608
    check_odd(table)
    table.create("odd")
    check_odd(ibis.duckdb.from_connection(connection).table("odd"))


@pytest.fixture
def server(postgres, ibis):
    """A connection of Ibis to a PostgreSQL, in whose schema tables are new."""
    opened_here = ibis.connect(postgres)
    opened_here.raw_sql(f"SET TIME ZONE '{SESSION}'; CREATE SCHEMA dates; SET search_path = dates")
    yield opened_here
    opened_here.raw_sql("DROP SCHEMA dates CASCADE")
    opened_here.disconnect()


def in_postgres(server, name, rows, types):
    columns = ", ".join(f"{column} {kind}" for column, kind in types.items())
    with server.con.cursor() as cursor:
        cursor.execute(f"CREATE TABLE {name} ({columns})")
        places = ", ".join(["%s"] * len(types))
        cursor.executemany(f"INSERT INTO {name} VALUES ({places})", rows)  # noqa: S608
    server.con.commit()
    return server.table(name, database="dates")


def test_postgres(server):
    rows = zip(range(len(TIMES)), TIMES, INSTANTS, DAYS, TIMES, strict=True)
    types = {"row": "int", "t": "timestamp", "z": "timestamptz", "d": "date", "s": "timestamp(0)"}
    table = in_postgres(server, "held", rows, types)
    check(table, HELD, {"z"})
    # A column of whole seconds has rounded what it was given.
    half = timedelta(microseconds=500_000)
    rounded = [None if t is None else (t + half).replace(microsecond=0) for t in TIMES]
    check(table, {"s": rounded}, set(), ATTRIBUTES[:1])
    domain = Domain(Date("z", date(2006, 10, 25), date(2012, 1, 4), zone="Pacific/Apia"))
    counted = [
        open_histogram(data).table(("z",)).tolist()
        for data in (
            PrivateData.from_columns({"z": INSTANTS}, domain),
            PrivateData.from_frame(table, domain),
            PrivateData.from_sql(server.con, "SELECT z FROM dates.held", domain),
        )
    ]
    assert counted[0] == counted[1] == counted[2]


def test_what_postgres_alone_has_is_outside(server):
    texts = [text.replace(" (BC) 12:00:00", " 12:00:00 BC") for text in ODD]
    rows = [(text, text, text) for text in texts]
    given = in_postgres(server, "given", [*rows, (None,) * 3], dict.fromkeys("tdz", "text"))
    server.raw_sql(
        "CREATE TABLE odd AS "
        "SELECT t::timestamp, d::timestamp::date AS d, z::timestamptz FROM dates.given"
    )
    assert given.count().execute() == len(ODD) + 1
    check_odd(server.table("odd", database="dates"))


def test_a_zone_that_nobody_declared_is_refused_by_type(connection):
    domain = Domain(Date("z", date(2006, 1, 1), date(2012, 1, 1)))
    with pytest.raises(DataError, match="column 'z' holds times with a zone"):
        PrivateData.from_frame(loaded(connection), domain)


def test_ibis(ibis, connection):
    loaded(connection).create("held")
    table = ibis.duckdb.from_connection(connection).table("held")
    check(table, {"t": TIMES, "d": DAYS}, set())
    # There is no way to whole numbers from an instant, so it is grouped by itself.
    wanted = [(Date("z", date(2006, 10, 25), date(2012, 1, 4), zone=zone), False) for zone in ZONES]
    for (attribute, clip), codes in zip(wanted, found(table, wanted), strict=True):
        assert codes == [cell_of(attribute, value, clip) for value in INSTANTS], attribute


def test_spark(spark):
    from pyspark.sql import types

    schema = types.StructType([
        types.StructField("row", types.LongType()),
        types.StructField("t", types.TimestampNTZType()),
        types.StructField("z", types.TimestampType()),
        types.StructField("d", types.DateType()),
    ])  # fmt: skip
    before = spark.conf.get("spark.sql.session.timeZone")
    spark.conf.set("spark.sql.session.timeZone", SESSION)
    try:
        rows = list(zip(range(len(TIMES)), TIMES, INSTANTS, DAYS, strict=True))
        frame = spark.createDataFrame(rows, schema).cache()
        for attribute in SHORT:
            check(frame, HELD, {"z"}, [attribute])
    finally:
        spark.conf.set("spark.sql.session.timeZone", before)
