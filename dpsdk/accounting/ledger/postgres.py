"""The ledger in a database of PostgreSQL, which many hosts share."""

from __future__ import annotations

from typing import final

from dpsdk.accounting.ledger.anchor import Anchor
from dpsdk.accounting.ledger.server import LedgerServer
from dpsdk.accounting.ledger.stored import StoredLedger, checked_patience

__all__ = ["PostgresLedger"]


@final
class PostgresLedger(StoredLedger):
    """Remembers in a database of PostgreSQL, for sessions in any number of processes and hosts.

    All that `SQLiteLedger` says of tables, codes, keys and anchors holds here as well. A charge is
    committed before anything is read for it, with ``synchronous_commit`` on, so that no process
    that is killed, and no server that stops, makes the ledger forget one; with synchronous standbys
    these have it, too. Decisions of all hosts come one at a time, in the order in which they asked
    for their turn. The clocks of hosts have no say in anything.

    A connection that is lost is made anew. If it was lost in the middle of a commit, the ledger
    looks whether that was taken, which each entry's own random token tells, and decides anew if it
    was not: never is anything charged twice, and nothing is released for what may not be written.

    It may be used in a forked process, which makes connections of its own; a session may not.

    Parameters
    ----------
    dsn
        How the server is reached, as libpq takes it: ``postgresql://user@host/database``. It is
        not shown again. A password is better kept in a password file or ``PGPASSWORD``.
    schema
        Where the tables are; made, with them, by the first that comes. Each schema is a ledger of
        its own, with turns of its own.
    key
        At least 16 random bytes, as for `SQLiteLedger`.
    anchor
        Remembers in another place how far the ledger has come; see `Anchor`. All hosts have to
        reach the same one.
    patience
        So many seconds to wait for a turn that others keep, as for `SQLiteLedger`.

    Raises
    ------
    InvalidArgument
        If an argument is not what it should be.
    MissingExtra
        If psycopg is not installed.
    LedgerUnavailable
        If the server cannot be reached, does not let this user in, is full, read-only or a standby,
        does not wait for its disk, or others keep the ledger for longer than the `patience`: here,
        and whenever it is used.
    LedgerDamaged
        If it is not as it was written, or the key is another: here, and whenever it is used.
    """

    __slots__ = ()

    def __init__(
        self,
        dsn: str,
        *,
        schema: str = "dpsdk",
        key: bytes | None = None,
        anchor: Anchor | None = None,
        patience: float | None = None,
    ) -> None:
        waits = checked_patience(key, anchor, patience)
        self._begin(LedgerServer(dsn, schema, bytes(key or b""), waits), anchor)
