"""Cells that engines hold and nobody expects: each is its own row's affair, whatever it is."""

import datetime as dt
import sqlite3

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

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")

ATTRIBUTES = [
    Integer("c", 2, 20), Binned("c", [2, 17.5, 20]), Boolean("c", true=["yes"], false=["17"]),
    Categorical("c", ["17", "é", "x"]), Date("c", dt.date(2024, 7, 1), dt.date(2024, 7, 5)),
]  # fmt: skip
TEXTS = ["17", "é", "x", "yes", "2024-07-04", "3.5", "17.0"]
HOSTILE_TEXTS = [
    "17\0", "\0", "x" * 10**6, "9" * 10**6, "1e999999999", "-1e-999999999", "1e" + "9" * 400, "inf",
    "NaN", "e" + "\u0301" * 10**5, "١٧", "99999-12-31", "-4712-01-01", "\U0010ffff", "\ufeff17",
    "1" + "0" * 400, "--", "'; DROP TABLE t", "\u202e71",
]  # fmt: skip
BITS = [b"\xff\x41", b"\xed\xa0\x80", b"17\x00", b"\xc0\x80"]
FLOATS = [17.0, 3.5, 2.0]
TIMES = ["2024-07-04", "2024-07-01"]
FAR = ["infinity", "-infinity", "0044-03-15 (BC)", "290000-12-31"]
KINDS = {
    "sqlite": ("", [*TEXTS, 17, 3.5], [*HOSTILE_TEXTS, float("inf"), 2**63 - 1, b"\xff\0", b"17"]),
    "sqlite TEXT": ("TEXT", TEXTS, HOSTILE_TEXTS),
    "sqlite INTEGER": ("INTEGER", [17, 3, "x"], [*HOSTILE_TEXTS, 1e300, b"17", 2**63 - 1]),
    "sqlite REAL": ("REAL", FLOATS, [*HOSTILE_TEXTS, float("-inf"), b"17"]),
    "sqlite TIMESTAMP": ("TIMESTAMP", TIMES, [*HOSTILE_TEXTS, 1e300, b"17"]),
    "duckdb VARCHAR": ("VARCHAR", TEXTS, HOSTILE_TEXTS),
    "duckdb DOUBLE": ("DOUBLE", FLOATS, [float("inf"), float("nan"), 1e308, 5e-324]),
    "duckdb HUGEINT": ("HUGEINT", [17, 3], [2**126, -(2**126), 2**63, 2**64 + 17]),
    "duckdb DECIMAL": ("DECIMAL(38, 4)", [17, 3.5], ["9" * 34, "-" + "9" * 34]),
    "duckdb DATE": ("DATE", TIMES, FAR),
    "duckdb TIMESTAMP": ("TIMESTAMP", TIMES, FAR),
    "duckdb TIMESTAMPTZ": ("TIMESTAMPTZ", TIMES, FAR),
    "postgres text": ("text", TEXTS, [one for one in HOSTILE_TEXTS if "\0" not in one]),
    "postgres numeric": ("numeric", [17, 3.5], ["NaN", "Infinity", "1e1000", "1e-1000", "9" * 999]),
    "postgres float8": ("float8", FLOATS, ["Infinity", "NaN", "1e308", "5e-324"]),
    "postgres date": ("date", TIMES, ["infinity", "-infinity", "5000000-01-01", "4713-01-01 BC"]),
    "postgres timestamptz": ("timestamptz", TIMES, ["infinity", "-infinity", "200000-01-01"]),
}  # fmt: skip


class Tables:
    """Tables of one engine, with a column c of some type and the number of each row."""

    def __init__(self, request, kind):
        name = kind.partition(" ")[0]
        request.getfixturevalue("ibis" if name != "duckdb" else name)
        self.mark = "%s" if name == "postgres" else "?"
        if name == "sqlite":
            self.connection = sqlite3.connect(":memory:")
        elif name == "duckdb":
            self.connection = request.getfixturevalue("duckdb").connect()
        else:
            address = request.getfixturevalue("postgres")
            self.connection = pytest.importorskip("psycopg").connect(address)
        self.cursor = self.connection.cursor() if name == "postgres" else self.connection
        self.type = KINDS[kind][0]

    def make(self, name, values):
        self.cursor.execute(f"CREATE TEMP TABLE {name} (c {self.type}, r INTEGER)")
        cast = f"CAST({self.mark} AS {self.type})" if self.mark == "%s" else self.mark
        self.cursor.executemany(
            f"INSERT INTO {name} VALUES ({cast}, {self.mark})",  # noqa: S608
            [(value, place) for place, value in enumerate(values)],
        )

    def told(self, name, attribute, **given):
        query = f"SELECT * FROM {name}"  # noqa: S608
        given = {"neighbors": Neighbors.ADD_REMOVE, **given}
        data = PrivateData.from_sql(self.connection, query, Domain(attribute), **given)
        counts = open_histogram(data)
        return counts.table((attribute.name,)).astype(int).tolist(), counts.rows


def suits(kind, attribute):
    """Whether the type of a column can match an attribute."""
    dates = any(word in kind for word in ("DATE", "TIME", "date", "time"))
    if dates or isinstance(attribute, Date):
        return isinstance(attribute, Date) and (
            dates or KINDS[kind][0].lower() in {"", "text", "varchar"}
        )
    texts = KINDS[kind][0].lower() in {"", "text", "varchar"}
    return texts or isinstance(attribute, Integer | Binned)


@pytest.mark.parametrize("kind", KINDS)
def test_a_hostile_cell_is_its_own_rows_affair(request, kind):
    tables, (_, values, hostile) = Tables(request, kind), KINDS[kind]
    tables.make("before", values)
    tables.make("after", [*values, *hostile])
    places = Integer("r", 0, len(values) - 1)
    loose = kind.startswith("sqlite")
    if loose:
        for place, bits in enumerate(BITS):
            tables.cursor.execute(
                "INSERT INTO after VALUES (CAST(? AS TEXT), ?)", (bits, 100 + place)
            )
    added = len(hostile) + loose * len(BITS)
    zoned = Date("c", dt.date(2024, 7, 1), dt.date(2024, 7, 5), zone="UTC")
    for attribute in [zoned] if "tz" in kind.lower() else ATTRIBUTES:
        if not suits(kind, attribute):
            continue
        for collect in ("histogram", "marginals"):
            (cells, rows), (more, all_rows) = (
                tables.told(name, attribute, collect=collect) for name in ("before", "after")
            )
            assert (more, all_rows) == (cells, rows + added), attribute
    if KINDS[kind][0].lower() in {"", "text", "varchar", "hugeint", "integer"}:
        unit = PrivacyUnit("c", max_rows=1)
        assert (
            tables.told("after", places, unit=unit)[0]
            == tables.told("before", places, unit=unit)[0]
        )


def test_truth_values_beside_integers_are_what_their_column_says(request):
    tables = Tables(request, "sqlite")
    tables.type = "BOOLEAN"
    tables.make("t", [True, 0, 1, 2, "true", None, 1.0, b"1"])
    assert tables.told("t", Boolean("c")) == ([1, 3], 8)
