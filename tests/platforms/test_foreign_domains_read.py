"""Enumerations of data bases: PostgreSQL's are declared, those of DuckDB where that is said."""

import pytest

from dpsdk import Boolean, Categorical, Domain, Integer
from dpsdk.errors import DomainError, InvalidArgument

LABELS = ["sad", "o'kay"]


def test_an_enumeration_of_postgresql_is_declared(postgres):
    psycopg = pytest.importorskip("psycopg")
    from psycopg.rows import dict_row

    with psycopg.connect(postgres, row_factory=dict_row) as connection:
        connection.execute("CREATE TYPE declared_mood AS ENUM ('sad', 'o''kay')")
        connection.execute(
            "CREATE TABLE moods (m declared_mood NOT NULL, n declared_mood, a integer, b boolean)"
        )
        moods = [Categorical("m", LABELS), Categorical("n", LABELS, missing=True)]
        read = Domain.from_schema(connection, table="moods", leave_out=["a", "b"])
        assert read == Domain(*moods)
        rest = [Integer("a", 0, 9)]
        more = Domain.from_schema(connection, table="public.moods", declared=["b"], attributes=rest)
        assert more == Domain(*moods, *rest, Boolean("b", missing=True))
        for table in (None, "m", "other.moods"):
            with pytest.raises(InvalidArgument, match="table"):
                Domain.from_schema(connection, table=table)
        connection.rollback()
        # The transaction that was open is the one that was rolled back.
        with pytest.raises(InvalidArgument, match="table"):
            Domain.from_schema(connection, table="moods")
        assert connection.info.transaction_status == psycopg.pq.TransactionStatus.IDLE


def test_an_enum_of_duckdb_may_be_of_a_frame(duckdb):
    connection = duckdb.connect()
    connection.execute("CREATE TABLE t (m ENUM ('sad', 'o''kay'), b BOOLEAN)")
    with pytest.raises(DomainError, match="'m' lacks labels or bounds that somebody declared"):
        Domain.from_schema(connection.table("t"))
    read = Domain.from_schema(connection.table("t"), declared=True)
    assert read == Domain(Categorical("m", LABELS, missing=True), Boolean("b", missing=True))
