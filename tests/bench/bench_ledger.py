"""How many charges a second each ledger takes, how they are shared out, and how soon it is open.

python tests/bench/bench_ledger.py [--seconds 3] [--dsn postgresql://...] [--folder .]

Beside them loops of bare transactions that write a row and wait for the disk: with SQLite in its
safest mode, and with PostgreSQL. Every figure is of this one run. Without --dsn a server is started
for it, if pgserver is installed.
"""

import multiprocessing
import os
import platform
import sqlite3
import sys
import tempfile
import time
from contextlib import suppress
from fractions import Fraction
from pathlib import Path

from measuring import arguments

from dpsdk import Budget
from dpsdk.accounting import (
    BasicComposition,
    Dataset,
    MemoryLedger,
    Odometer,
    PostgresLedger,
    PureGuarantee,
    SQLiteLedger,
)

sys.path.insert(0, str(Path(__file__).parents[1]))

from worlds import QUICK

PART = PureGuarantee(Fraction(1, 10**9))
PROCESSES = (1, 4, 16)


def charging(ledger):
    odometer = Odometer(Budget(1), BasicComposition(), ledger=ledger, dataset=Dataset("t"))
    while True:
        odometer.charge(PART, "a question")
        yield


def bare_file(path):
    connection = sqlite3.connect(path, isolation_level=None, timeout=60)
    connection.execute("PRAGMA journal_mode = truncate")
    connection.execute("PRAGMA synchronous = EXTRA")
    connection.execute("CREATE TABLE IF NOT EXISTS row (number INTEGER PRIMARY KEY, text TEXT)")
    while True:
        connection.execute("BEGIN IMMEDIATE")
        connection.execute("INSERT INTO row (text) VALUES (?)", ("x" * 500,))
        connection.execute("COMMIT")
        yield


def bare_server(dsn):
    import psycopg

    with psycopg.connect(dsn, autocommit=True) as connection:
        with suppress(psycopg.Error):
            connection.execute("CREATE TABLE bare (number bigserial PRIMARY KEY, text text)")
        while True:
            connection.execute("BEGIN")
            connection.execute("LOCK TABLE bare IN EXCLUSIVE MODE")
            connection.execute("INSERT INTO bare (text) VALUES (%s)", ("x" * 500,))
            connection.execute("COMMIT")
            yield


def counts(work, processes, seconds):
    """How often each of some processes did the work in so many seconds."""
    context = multiprocessing.get_context("fork")
    ready, found = context.Barrier(processes), context.Queue()

    def run():
        steps, done = work(), 0
        next(steps)
        ready.wait()
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            next(steps)
            done += 1
        found.put(done)

    children = [context.Process(target=run) for _ in range(processes)]
    for child in children:
        child.start()
    counted = [found.get() for _ in children]
    for child in children:
        child.join()
    return counted


def rates(name, work, seconds):
    shown = []
    for processes in PROCESSES:
        each = counts(work, processes, seconds)
        rate = sum(each) / seconds
        shares = "" if processes == 1 else f" (each {min(each)} to {max(each)})"
        shown.append(f"{processes:>2}: {rate:8.1f}/s{shares}")
    print(f"{name:<28}" + "   ".join(shown), flush=True)


def opening(make, charges):
    """How long it takes to open a ledger of so many charges."""
    ledger = make()
    odometer = Odometer(Budget(1), BasicComposition(), ledger=ledger, dataset=Dataset("t"))
    for _ in range(charges):
        odometer.charge(PART, "a question")
    start = time.perf_counter()
    fresh = make()
    opened = time.perf_counter() - start
    start = time.perf_counter()
    assert isinstance(fresh, SQLiteLedger | PostgresLedger)
    fresh.verify()
    print(
        f"{type(fresh).__name__} with {charges:,} charges: open in {1000 * opened:.1f} ms, "
        f"verified in {time.perf_counter() - start:.2f} s",
        flush=True,
    )


def main():
    given = arguments(__doc__, seconds=3.0, dsn="", folder=Path, charges=100_000)
    folder = Path(tempfile.mkdtemp(dir=given.folder))
    quick = Path(tempfile.mkdtemp(dir=QUICK))
    print(platform.platform(), f"{os.cpu_count()} cores, SQLite {sqlite3.sqlite_version}")
    print("charges a second, by the number of processes")
    ends = time.monotonic() + given.seconds
    steps, done = charging(MemoryLedger()), 0
    while time.monotonic() < ends:
        next(steps)
        done += 1
    print(f"{'MemoryLedger':<28} 1: {done / given.seconds:8.1f}/s")
    rates("bare SQLite", lambda: bare_file(folder / "bare.db"), given.seconds)
    path = folder / "spent.db"
    rates("SQLiteLedger", lambda: charging(SQLiteLedger(path)), given.seconds)
    memory = quick / "spent.db"
    rates("SQLiteLedger, no disk", lambda: charging(SQLiteLedger(memory)), given.seconds)
    dsn = given.dsn
    if not dsn:
        with suppress(ImportError):
            import pgserver

            dsn = pgserver.get_server(folder / "server").get_uri()
    if dsn:
        rates("bare PostgreSQL", lambda: bare_server(dsn), given.seconds)
        rates("PostgresLedger", lambda: charging(PostgresLedger(dsn)), given.seconds)
    opening(lambda: SQLiteLedger(quick / "many.db"), given.charges)


if __name__ == "__main__":
    main()
