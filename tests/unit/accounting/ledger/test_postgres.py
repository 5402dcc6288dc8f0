"""The ledger in a database, where no server is needed to tell."""

import sys

import pytest

from dpsdk.accounting import PostgresLedger
from dpsdk.errors import InvalidArgument, MissingExtra


def test_without_its_library_it_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "psycopg", None)
    with pytest.raises(MissingExtra, match="postgres"):
        PostgresLedger("postgresql://me@host/db")


@pytest.mark.parametrize(
    ("given", "what"),
    [
        ({"key": b"short"}, "key"),
        ({"anchor": "text"}, "anchor"),
        ({"schema": "a b"}, "schema"),
        ({"schema": 7}, "schema"),
    ],
)
def test_arguments_are_checked_before_a_server_is_asked(given, what):
    with pytest.raises(InvalidArgument, match=what):
        PostgresLedger("postgresql://me@127.0.0.1:1/db", **given)
