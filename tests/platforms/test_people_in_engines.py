"""Every engine keeps the same rows of each person as the package itself does."""

import sys

import numpy as np
import polars as pl
import pytest

from dpsdk import Boolean, Categorical, Domain, Integer, Periods, PrivacyUnit, PrivateData
from dpsdk.data.vault import open_histogram
from dpsdk.errors import DataError

# Some releases of Ibis call what SQLite and DuckDB have renamed since.
pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")

AGES = Domain(Integer("age", 0, 9))
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
    cells = histogram.table(DOMAIN.names).ravel().tolist()
    return cells, histogram.rows, histogram.persons


def expected(**given):
    columns = {name: column.to_list() for name, column in table().to_dict().items()}
    return PrivateData.from_columns(columns, DOMAIN, **given)


def check(frame, units=UNITS):
    for unit, strip in units:
        # Without periods, and of four ages each.
        for periods in (None, Periods("age", width=4, origin=1)):
            given = {"unit": unit, "strip": strip, "periods": periods}
            for collect in ("histogram", "marginals"):
                data = PrivateData.from_frame(frame, DOMAIN, collect=collect, **given)
                assert held(data) == held(expected(**given)), (unit, periods, collect)
        one, other = (
            open_histogram(whole).between("age", 3, 6) for whole in (data, expected(**given))
        )
        np.testing.assert_array_equal(one.table(DOMAIN.names), other.table(DOMAIN.names))
        assert one.rows == other.rows


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


def test_people_with_very_many_attributes(duckdb):
    names = [f"a{place}" for place in range(110)]
    noise = np.random.default_rng(1)
    rows = pl.DataFrame({name: noise.integers(0, 3, 100) for name in names}).with_columns(
        who=pl.Series(noise.integers(0, 20, 100))
    )
    domain = Domain(*(Integer(name, 0, 2) for name in names))
    unit = PrivacyUnit("who", max_rows=2)
    one, other = (
        open_histogram(PrivateData.from_frame(frame, domain, unit=unit))
        for frame in (rows, duckdb.from_arrow(rows.to_arrow()))
    )
    for names in (domain.names[:3], domain.names[-3:]):
        np.testing.assert_array_equal(one.table(names), other.table(names))


def test_ibis(ibis):
    check(ibis.memtable(table().to_arrow()))


def test_ibis_of_sqlite(ibis):
    backend = ibis.sqlite.connect()
    backend.raw_sql(
        "CREATE TABLE visits (number BIGINT, word TEXT, age INT, member BOOLEAN, sex TEXT)"
    )
    backend.con.executemany("INSERT INTO visits VALUES (?, ?, ?, ?, ?)", table().rows())
    check(backend.table("visits"))


def test_ibis_of_postgres(ibis, postgres):
    backend = ibis.connect(postgres)
    backend.raw_sql("DROP TABLE IF EXISTS visits")
    check(backend.create_table("visits", table().to_arrow()), UNITS[1::2])
    unit, strip = UNITS[2]
    query = "SELECT * FROM visits"
    raw = PrivateData.from_sql(backend.con, query, DOMAIN, unit=unit, strip=strip)
    assert held(raw) == held(expected(unit=unit, strip=strip))
    del raw
    backend.disconnect()


def test_what_postgres_calls_no_text_but_ibis_does(ibis, postgres):
    backend = ibis.connect(postgres)
    for run in (
        "DROP TABLE IF EXISTS odd",
        "DROP TYPE IF EXISTS mood CASCADE",
        "CREATE TYPE mood AS ENUM ('sad', 'glad')",
        "CREATE TABLE odd (who mood, whose uuid, padded char(9), age int)",
        (
            "INSERT INTO odd SELECT (CASE WHEN n > 3 THEN 'sad' ELSE 'glad' END)::mood, "
            "md5((n % 2)::text)::uuid, 'x' || n % 3, n % 7 FROM generate_series(0, 9) AS n"
        ),
    ):
        backend.raw_sql(run)
    moods = Domain(Categorical("who", ["sad", "glad"]))
    query = "SELECT * FROM odd"
    told = open_histogram(PrivateData.from_sql(backend.con, query, moods)).table(("who",))
    assert told.tolist() == [6, 4]
    for column, people in (("who", 2), ("whose", 2), ("padded", 3)):
        unit = PrivacyUnit(column, max_rows=1)
        data = PrivateData.from_sql(backend.con, query, AGES, unit=unit)
        assert open_histogram(data).rows == people
    backend.disconnect()


def test_spark_with_several_partitions(spark):
    rows = table()
    frame = spark.createDataFrame(
        rows.rows(), "number long, word string, age long, member boolean, sex string"
    )
    assert frame.rdd.getNumPartitions() > 1
    check(frame, UNITS[3:])


def test_parquet(tmp_path, duckdb, monkeypatch):
    assert duckdb
    place = str(tmp_path / "visits.parquet")
    table().write_parquet(place)
    unit, strip = UNITS[3]
    found, wanted = [], held(expected(unit=unit, strip=strip))
    for without in ([], ["polars"], ["polars", "duckdb"]):
        for collect in ("histogram", "marginals"):
            with monkeypatch.context() as patch:
                for name in without:
                    patch.setitem(sys.modules, name, None)
                given = {"unit": unit, "strip": strip, "collect": collect}
                data = PrivateData.from_parquet(place, DOMAIN, **given)
            found.append(held(data))
    assert found == [wanted] * 6


WORDS = ["A", "a", "a", "A", "b", "b ", "b"]
LABELS = Domain(Categorical("who", ["a", "A", "b"]))
ROWS_OF_WORDS = ", ".join(f"('{word}', {place})" for place, word in enumerate(WORDS))


def collated(request, kind):
    """A table whose engine takes some of these words for one."""
    made, _, collation = kind.partition(", ")
    engine = request.getfixturevalue(made.partition(" ")[0])
    if made == "duckdb":
        connection = engine.connect()
        run, frame = connection.execute, connection.table
    else:
        connection = getattr(engine, made.partition(" ")[2]).connect()
        run, frame = connection.raw_sql, connection.table
    if collation == "default":
        run("SET default_collation = 'nocase'")
    of_column = "" if collation == "default" else f"COLLATE {collation}"
    run(f"CREATE TABLE words (who VARCHAR {of_column}, age INTEGER)")
    run(f"INSERT INTO words VALUES {ROWS_OF_WORDS}")  # noqa: S608
    return frame("words")


@pytest.mark.parametrize("collect", ["histogram", "marginals"])
@pytest.mark.parametrize(
    "kind",
    ["duckdb, nocase", "duckdb, default", "ibis duckdb, nocase", "ibis sqlite, NOCASE",
     "ibis sqlite, RTRIM"],
)  # fmt: skip
def test_texts_are_told_apart_whatever_their_collation(request, kind, collect):
    frame = collated(request, kind)
    columns = {"who": WORDS, "age": list(range(7))}
    unit = PrivacyUnit("who", max_rows=1)
    for domain, given in ((LABELS, {}), (LABELS, {"unit": unit}), (AGES, {"unit": unit})):
        data = PrivateData.from_frame(frame, domain, collect=collect, **given)
        own = PrivateData.from_columns(columns, domain, **given)
        tables = [open_histogram(one).table(domain.names).tolist() for one in (data, own)]
        assert tables[0] == tables[1]


def test_an_engine_that_takes_all_texts_so_is_refused_through_ibis(request):
    with pytest.raises(DataError, match="default_collation"):
        PrivateData.from_frame(collated(request, "ibis duckdb, default"), LABELS)


def test_spark_tells_texts_apart_whatever_their_collation(spark):
    rows = [(word, place) for place, word in enumerate(WORDS)]
    frame = spark.createDataFrame(rows, "who string, age int").selectExpr(
        "who COLLATE UTF8_LCASE AS who", "age"
    )
    assert frame.groupBy("who").count().count() == 3
    data = PrivateData.from_frame(frame, LABELS)
    assert open_histogram(data).table(("who",)).tolist() == [2, 2, 2]
    people = PrivateData.from_frame(frame, AGES, unit=PrivacyUnit("who", max_rows=1))
    assert open_histogram(people).rows == 4


@pytest.mark.parametrize("name", ["mysql", "mssql"])
def test_engines_whose_texts_mostly_have_a_collation_are_refused(ibis, name, monkeypatch):
    backend = ibis.duckdb.connect()
    backend.raw_sql("CREATE TABLE words (who VARCHAR, age INTEGER)")
    frame = backend.table("words")
    monkeypatch.setattr(type(backend), "name", name)
    with pytest.raises(DataError, match=f"texts of {name}.*collected"):
        PrivateData.from_frame(frame, LABELS)
