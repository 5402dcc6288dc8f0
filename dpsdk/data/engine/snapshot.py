"""Cell numbers of all rows at one moment, held by the engine that is asked to count them."""

from __future__ import annotations

import os
import sys
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from functools import partial
from itertools import count
from typing import Any, TypeAlias, final
from weakref import finalize

import narwhals.stable.v2 as nw
import numpy as np

from dpsdk._identity_map import IdentityMap
from dpsdk._locks import ExclusiveLock
from dpsdk.data.engine.rows import code_name
from dpsdk.data.sql import borrowed_postgres, may_roll_back
from dpsdk.errors import Redacted
from dpsdk.typing import Array

__all__ = ["Plan", "Snapshot", "snapshot_of"]

Plan: TypeAlias = Callable[[nw.LazyFrame[Any]], nw.LazyFrame[Any]]
"""A question to the table of codes, as an expression that the engine works out."""

_INSIDE = "dpsdk_inside"


@final
class Snapshot:
    """A table that no later change of its source reaches, one column of cell numbers an attribute.

    A row is outside the domain in all of them, -1, or in none. Codes take as few bytes as they can.

    Parameters
    ----------
    opened
        Gives the table to whoever asks next; a new one where an engine shares none among threads.
    lock
        Where an engine has one connection for all: whoever asks waits for it, holding no
        other lock of this package.
    free
        Gives the table back to the engine, once nobody can ask any more.
    around
        What a question is asked in, where a connection is lent.
    """

    __slots__ = ("__weakref__", "_around", "_lock", "_opened")

    def __init__(
        self,
        opened: Callable[[], nw.LazyFrame[Any]],
        lock: ExclusiveLock | None = None,
        free: Callable[[], object] | None = None,
        around: Callable[[], AbstractContextManager[object]] = nullcontext,
    ) -> None:
        self._opened = opened
        self._lock = lock
        self._around = around
        if free is not None:
            # Engines drop such a table when their process ends.
            finalize(self, _freed, os.getpid(), free).atexit = False

    def ask(self, plan: Plan) -> dict[str, Array]:
        """The columns of what an engine answers. Whatever an engine raises passes."""
        return self._asked(plan) if self._lock is None else self._lock.run(
            partial(self._asked, plan)
        )  # fmt: skip

    def _asked(self, plan: Plan) -> dict[str, Array]:
        try:
            with self._around():
                answer = plan(self._opened()).collect()
        except RuntimeError as error:
            # So DuckDB tells of an interrupt from the keyboard.
            if type(error) is RuntimeError and str(error) == "Query interrupted":
                raise KeyboardInterrupt from None
            raise
        return {name: np.asarray(answer.get_column(name).to_numpy()) for name in answer.columns}

    def __repr__(self) -> str:
        return "Snapshot(private)"

    def __reduce_ex__(self, protocol: object) -> tuple[object, ...]:
        raise Redacted("pickling or copying")


def snapshot_of(
    coded: nw.LazyFrame[Any], sizes: Sequence[int], others: Sequence[str] = ()
) -> Snapshot | None:
    """A snapshot of a frame of cell numbers, and of other columns of numbers up to 127.

    None where its engine can hold none.
    """
    table = _narrowed(coded, sizes, others)
    engine = coded.implementation
    if engine.is_polars() or engine.is_pandas_like() or engine.is_pyarrow():
        held = table.collect().lazy()
        return Snapshot(lambda: held)
    native: Any = table.to_native()
    if engine.is_duckdb():
        return _of_relation(native)
    if engine.is_pyspark() or engine.is_pyspark_connect():
        return _of_spark(native)
    return _of_ibis(table, native) if engine.is_ibis() else None


def _narrowed(
    coded: nw.LazyFrame[Any], sizes: Sequence[int], others: Sequence[str]
) -> nw.LazyFrame[Any]:
    inside = nw.all_horizontal(
        *(
            (nw.col(code_name(k)) >= 0) & (nw.col(code_name(k)) < size)
            for k, size in enumerate(sizes)
        ),
        # No code is null; one that were would be outside.
        ignore_nulls=False,
    )
    kinds = ((127, nw.Int8), (2**15 - 1, nw.Int16), (2**31 - 1, nw.Int32), (2**63 - 1, nw.Int64))
    return coded.with_columns(inside.alias(_INSIDE)).select(
        *(
            nw.when(nw.col(_INSIDE))
            .then(nw.col(code_name(place)))
            # A second literal is too long for some versions where there is no row.
            .fill_null(-1)
            .cast(next(kind for most, kind in kinds if size <= most))
            .alias(code_name(place))
            for place, size in enumerate(sizes)
        ),
        *(nw.col(name).cast(nw.Int8) for name in others),
    )


_SETTINGS = ("memory_limit", "temp_directory", "threads")
_BATCH = 2**17
"""Rows that are copied together."""


def _of_duckdb(ask: Callable[[str], Any], read: Callable[[], Any]) -> Snapshot:
    """In a database of its own in memory, which no other connection changes, sees or closes.

    A connection of DuckDB serves one thread, and its temporary tables are its own: so codes are
    copied once, and each question gets a cursor. What the owner allowed of memory, and where it
    may be swapped to, holds for the copy, too.
    """
    names = ", ".join(map(repr, _SETTINGS))
    found = ask(f"SELECT name, value FROM duckdb_settings() WHERE name IN ({names})")  # noqa: S608
    # It is there, as the connection is.
    duckdb: Any = sys.modules["duckdb"]
    own = duckdb.connect(":memory:", config=dict(found.fetchall()))
    # Last, as whatever else the connection is asked would end it.
    own.from_arrow(read()).create("codes")
    return Snapshot(lambda: nw.from_native(own.cursor().table("codes")), free=own.close)


def _of_relation(relation: Any) -> Snapshot:
    reads = "to_arrow_reader" if hasattr(relation, "to_arrow_reader") else "fetch_arrow_reader"
    ask = partial(relation.query, "dpsdk_source")
    return _of_duckdb(ask, lambda: getattr(relation, reads)(_BATCH))


def _of_spark(frame: Any) -> Snapshot | None:
    """Held by the executors, and cut off from its source: a lost one is an error, not a reread."""
    try:
        held = nw.from_native(frame.localCheckpoint(eager=True))
    except NotImplementedError:
        # Servers before version 4.
        return None
    return Snapshot(lambda: held)


def _of_ibis(table: nw.LazyFrame[Any], native: Any) -> Snapshot | None:
    """Within this process where the engine is; a temporary table on a server of PostgreSQL."""
    backend = native.get_backend()
    match backend.name:
        case "duckdb":
            return _of_duckdb(backend.con.sql, lambda: table.collect("pyarrow").to_native())
        case "postgres" if not may_roll_back(backend.con):
            return _on_server(backend, native)
        case "sqlite" | "postgres":
            # A connection of SQLite serves the thread that opened it; of PostgreSQL, the table
            # would go when its owner's transaction is rolled back.
            held = table.collect().lazy()
            return Snapshot(lambda: held)
        case _:
            return None


class _Connection:
    """The state of a connection that all who ask through it wait for."""

    def __init__(self) -> None:
        self.lock: ExclusiveLock = ExclusiveLock("the connection of a table")
        self.unused: deque[str] = deque()
        """Tables that nobody can ask any more."""


_connections: IdentityMap[_Connection] = IdentityMap()
_numbers = count(1)


def _on_server(backend: Any, native: Any) -> Snapshot | None:
    """A temporary table of the connection. All that are asked through it wait for their turn.

    It is dropped when the next one is made there, or when the connection is closed: whoever lets go
    of it may be at work in that connection, or closing it.
    """
    connection = backend.con
    known = _connections.get(connection)
    if known is None:
        known = _Connection()
        _connections.keep(connection, known)
    name = f"dpsdk_codes_{os.getpid()}_{next(_numbers)}"

    def make(known: _Connection = known) -> Any:
        while known.unused:
            backend.raw_sql(f"DROP TABLE IF EXISTS {known.unused.popleft()}").close()
        return backend.create_table(name, obj=native, temp=True)

    try:
        made = known.lock.run(make)
    except Exception:  # noqa: BLE001  # its text may quote values
        # Not every user may make one, nor can a replica.
        return None
    held = nw.from_native(made)
    lent = partial(borrowed_postgres, connection)
    return Snapshot(lambda: held, known.lock, partial(known.unused.append, name), lent)


def _quietly(work: Callable[[], object]) -> None:
    with suppress(Exception):  # the connection may be closed, and the table gone with it
        work()


def _freed(process: int, free: Callable[[], object]) -> None:
    """Free a table, but not in a forked process, which shares its parent's connection."""
    if os.getpid() == process:
        _quietly(free)
