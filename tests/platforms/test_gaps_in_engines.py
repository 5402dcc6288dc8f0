"""Missing and other values, and numbers on a grid, have the same cells in every engine."""

import sqlite3
import sys
from pathlib import Path

import polars as pl
import pyarrow.parquet
import pytest
from attrs import evolve

from dpsdk import Boolean, Categorical, Domain, Integer, Number, PrivacyUnit, PrivateData
from dpsdk.data.vault import open_histogram

sys.path.insert(0, str(Path(__file__).parents[1] / "unit" / "data"))

from tables_loaded import cells
from test_backends import in_postgres
from test_missing_and_other import PAIR, expected, values

pytestmark = [
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::FutureWarning"),
]

GRID = Domain(
    Number("x", 0, 50, step="0.1"), Number("k", -10, 60, step=5, outside="other"),
    Categorical("s", ["x", "y"]), missing_texts=["?", "-12", "99.5"],
).open()  # fmt: skip
COLUMNS = {
    "x": [0.05, 0.15, 0.25, 49.95, 60.0, -3.0, None, 99.5, -12.0, 7.25] * 4,
    "k": [-10, 2, 3, 60, 61, -12, None, 57, 58, -11] * 4,
    "s": ["x", "y", "?", " ? ", "", None, "z", "x", "y", "-12"] * 4,
    "who": [f"p{place % 9}" if place % 11 else None for place in range(40)],
}


@pytest.fixture(params=["polars", "duckdb", "ibis", "sqlite", "spark", "postgres"])
def loaded(request, tmp_path):
    """A function that loads columns through an engine."""

    def load(columns, domain, **more):
        frame = pl.DataFrame(columns)
        path = str(tmp_path / "t.parquet")
        pyarrow.parquet.write_table(
            frame.to_arrow().cast(
                pyarrow.schema([
                    (name, pyarrow.string() if dtype == pl.String else
                     pyarrow.float64() if dtype == pl.Float64 else pyarrow.int64())
                    for name, dtype in frame.schema.items()
                ])
            ),
            path,
        )  # fmt: skip
        match request.param:
            case "polars":
                return PrivateData.from_frame(pl.scan_parquet(path), domain, **more)
            case "duckdb":
                connection = request.getfixturevalue("duckdb").connect()
                return PrivateData.from_frame(connection.read_parquet(path), domain, **more)
            case "ibis":
                connection = request.getfixturevalue("duckdb").connect()
                backend = request.getfixturevalue("ibis").duckdb.from_connection(connection)
                return PrivateData.from_frame(backend.read_parquet(path), domain, **more)
            case "spark":
                spark = request.getfixturevalue("spark")
                return PrivateData.from_frame(spark.read.parquet(path), domain, **more)
            case "sqlite":
                request.getfixturevalue("ibis")
                lite = sqlite3.connect(":memory:")
                request.addfinalizer(lite.close)
                kinds = {pl.String: "TEXT", pl.Float64: "REAL"}
                names = [f"{n} {kinds.get(t, 'INTEGER')}" for n, t in frame.schema.items()]
                lite.execute(f"CREATE TABLE t ({', '.join(names)})")
                marks = ", ".join("?" * frame.width)
                lite.executemany(f"INSERT INTO t VALUES ({marks})", frame.rows())  # noqa: S608
                return PrivateData.from_sql(lite, "SELECT * FROM t", domain, **more)
        psycopg = pytest.importorskip("psycopg")
        request.getfixturevalue("ibis")
        table = pyarrow.parquet.read_table(path)
        name = f"gaps{next(numbers)}"
        server = in_postgres(psycopg, request.getfixturevalue("postgres"), table, name)
        request.addfinalizer(server.close)
        return PrivateData.from_sql(server, f"SELECT * FROM {name}", domain, **more)  # noqa: S608

    numbers = iter(range(100))
    return load


@pytest.mark.parametrize("flags", [(1, 1, 1, 1), (1, 0, 0, 1), (0, 1, 1, 0)])
def test_every_combination_has_its_cell_in_every_engine(loaded, flags):
    domain = Domain(
        Integer("n", 0, 2, missing=bool(flags[0]), other=bool(flags[1])),
        Categorical("s", ["x", "y"], missing=bool(flags[2]), other=bool(flags[3])),
    )
    for collect in ("histogram", "marginals"):
        assert cells(loaded(values(), domain, collect=collect)) == expected(domain)
    assert cells(loaded(values(), PAIR, outside="apart")) == expected(PAIR.open())


def test_numbers_on_a_grid_have_the_cells_of_lists(loaded):
    small = Domain(*[evolve(one, step=5) if one.name == "x" else one for one in GRID.attributes],
                   missing_texts=GRID.missing_texts)  # fmt: skip
    for domain in (GRID, small):
        names = domain.names
        told = open_histogram(PrivateData.from_columns(COLUMNS, domain)).table(names).tolist()
        for collect in ("histogram", "marginals"):
            data = loaded(COLUMNS, domain, collect=collect)
            assert open_histogram(data).table(names).tolist() == told
            assert not data.facts.outside


def test_rows_of_persons_are_kept_alike_in_extra_cells(loaded):
    for domain in (GRID, Domain(Integer("k", 0, 60), Categorical("s", ["x", "y"])).open()):
        for distinct in (False, True):
            unit = PrivacyUnit("who", max_rows=2, distinct=distinct)
            names = domain.names
            told = PrivateData.from_columns(COLUMNS, domain, unit=unit)
            data = loaded(COLUMNS, domain, unit=unit)
            for name in names:
                assert (
                    open_histogram(data).table((name,)).tolist()
                    == open_histogram(told).table((name,)).tolist()
                )
            assert open_histogram(data).rows == open_histogram(told).rows


def test_texts_among_the_floats_of_sqlite_are_what_they_are(ibis):
    del ibis
    rows = [1.5, "?", "", None, "x", 2.25, b"1", 9e99, "2.25", 3]
    lite = sqlite3.connect(":memory:")
    lite.execute("CREATE TABLE t (f REAL, b BOOLEAN)")
    lite.executemany("INSERT INTO t VALUES (?, ?)", [(row, 1) for row in rows])
    for attribute in (
        Number("f", 0, 10, "0.5"), Integer("f", 0, 3), Number("f", 0, 3, "0.25", outside="other"),
    ):  # fmt: skip
        domain = Domain(attribute, missing_texts=["?"]).open()
        # What a column of numbers keeps of a text that spells one is the number.
        told = cells(PrivateData.from_columns({"f": rows}, domain))
        for collect in ("histogram", "marginals"):
            for outside in ("cell", "clip") if attribute.kind == "number" else ("cell",):
                data = PrivateData.from_sql(
                    lite, "SELECT * FROM t", domain, collect=collect, outside=outside
                )
                assert cells(data) == told
    lite.execute("INSERT INTO t VALUES (0.5, NULL), (0.5, 0), (0.5, 2)")
    truth = Domain(Boolean("b")).open()
    assert cells(PrivateData.from_sql(lite, "SELECT * FROM t", truth))[0] == [1, 10, 1, 1]
    lite.close()
