"""The ledger in a database: turns, kills, lost connections, servers that refuse, and edits."""

import copy
import gzip
import hashlib
import json
import os
import pickle
import random
import signal
import sqlite3
import threading
import time
from fractions import Fraction
from itertools import count
from pathlib import Path

import pytest
from hypothesis import settings

from dpsdk import Domain, Integer
from dpsdk.__main__ import main
from dpsdk.accounting import Charge, Decision, FileAnchor, Odometer, PostgresLedger, PureGuarantee
from dpsdk.accounting.ledger import server, stored
from dpsdk.codec import renewed
from dpsdk.errors import (
    AlreadyCharged,
    InvalidArgument,
    LedgerConflict,
    LedgerDamaged,
    LedgerUnavailable,
    NotCopyable,
)
from durable import KEY, DurableLedgers, spent
from parallel import at_once, ended, forked, needs_fork
from spenders import HUNDREDTH, Worker, interrupted_everywhere, opened, shares
from spending import Spending

schemas = count()


class Place:
    """A schema of its own on the server."""

    def __init__(self, dsn):
        self.dsn = dsn
        self.schema = f"spent_{os.getpid()}_{next(schemas)}"

    def ledger(self, dsn="", **given):
        return PostgresLedger(dsn or self.dsn, schema=self.schema, **given)

    def run(self, *statements, free=True):
        """What somebody with all rights does, past the triggers if he is free to."""
        import psycopg

        found = []
        with psycopg.connect(self.dsn, autocommit=True) as connection:
            if free:
                connection.execute("SET session_replication_role = replica")
            connection.execute(f"SET search_path = {self.schema}")
            for statement in statements:
                cursor = connection.execute(statement)
                found = cursor.fetchall() if cursor.description else []
        return found


class Server:
    """A server of one test, which may be stopped and started."""

    def __init__(self, folder):
        import pgserver

        self.folder = folder
        self.server = pgserver.get_server(folder)
        self.dsn = self.server.get_uri()

    def stop(self):
        from pgserver._commands import pg_ctl

        pg_ctl(["-w", "-m", "fast", "stop"], pgdata=self.folder, user=self.server.system_user)

    def crash(self):
        """End all of its processes at once, with nothing written that was not, and begin again."""
        from pgserver._commands import pg_ctl

        user = self.server.system_user
        pg_ctl(["-w", "-m", "immediate", "stop"], pgdata=self.folder, user=user)
        place = ["-o", '-h ""', "-o", f"-k {self.folder}", "-l", f"{self.folder}/log"]
        pg_ctl(["-w", *place, "start"], pgdata=self.folder, user=user)

    def start(self):
        self.server.ensure_postgres_running()


@pytest.fixture
def place(postgres):
    return Place(postgres)


class TestInADatabase(DurableLedgers):
    pass


def test_names_may_hold_whatever_a_name_may_hold(place):
    names = [
        "a\0b",
        'é"\\x',
        "%s ?",
        "\U0001f600" * 1000,
        "'; DROP TABLE entry; --",
        "\\u0061",
        "a",
    ]
    for name in names:
        odometer = opened(place.ledger(), name)
        odometer.charge(HUNDREDTH, name, request_id=name)
        place.ledger().dataset(name).store(name, name.encode())
    ledger = place.ledger()
    assert ledger.datasets == tuple(sorted(names))
    for name in names:
        assert ledger.dataset(name).stored(name) == name.encode()
        assert [one.label for one in ledger.dataset(name).charges()] == [name]
    assert ledger.verify() == 3 * len(names)


class SpendingInPostgres(Spending):
    """Each request by a process that has just begun, as far as the ledger can tell."""

    dsn = ""

    def ledger(self):
        self.place = Place(self.dsn)
        return self.place.ledger()

    def ask(self, guarantee):
        self.odometer = Odometer(self.budget, ledger=self.place.ledger())
        super().ask(guarantee)

    def teardown(self):
        ledger = self.place.ledger()
        again = Odometer(self.budget, ledger=ledger)
        assert again.spent.epsilon == self.epsilon
        assert again.state == self.odometer.state
        assert ledger.verify() >= again.count


SpendingInPostgres.TestCase.settings = settings(
    max_examples=3, stateful_step_count=8, deadline=None, derandomize=True
)


def test_any_mixture_of_requests(postgres, monkeypatch):
    monkeypatch.setattr(SpendingInPostgres, "dsn", postgres)
    SpendingInPostgres.TestCase().runTest()


@pytest.mark.audit
@needs_fork
@pytest.mark.parametrize("processes", [4, 32])
def test_many_processes_end_on_the_budget_and_nobody_starves(place, processes):
    each = shares(place.ledger, processes, 800)
    assert min(each) >= 200 / processes, each


@needs_fork
def test_whoever_comes_first_makes_the_tables(place):
    told, tell = os.pipe()

    def make():
        os.read(told, 1)
        opened(place.ledger())

    children = [forked(make) for _ in range(4)]
    os.write(tell, b"....")
    assert [ended(child) for child in children] == [0] * 4
    assert place.ledger().dataset("t").read().sessions == 4


# What is shown


def test_a_password_is_never_shown(postgres):
    secret = "hunter-two"  # noqa: S105  # of nobody
    wrong = [
        f"postgresql://me:{secret}@127.0.0.1:1/x",
        f"host=127.0.0.1 port=1 user=me password={secret} dbname=x",
        f"{secret} and no more",
        f"postgresql://me:{secret}@127.0.0.1:1/x?unknown={secret}",
        f"postgresql://me:{secret}\udc80@127.0.0.1/x",
        # With signs that have a meaning, as people forget.
        f"postgresql://me:a/{secret}@127.0.0.1:1/x",
        f"postgresql://me:12/{secret}@127.0.0.1:1/x",
        f"postgresql://me:a@{secret}@127.0.0.1:1/x",
        f"postgresql://127.0.0.1:1/x;password={secret}",
        f"host=127.0.0.1 port=1 user=me:{secret}",
        f"host=me:{secret}@127.0.0.1 port=1",
        f"host=127.0.0.1 port=1 dbname=postgresql://me:{secret}@127.0.0.1:1/x",
    ]
    for dsn in wrong:
        with pytest.raises((LedgerUnavailable, InvalidArgument)) as caught:
            PostgresLedger(dsn)
        error = caught.value
        while error is not None:
            assert secret not in f"{error} {error!r} {error.args}"
            error = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
    ledger = PostgresLedger(f"{postgres}&password={secret}", key=KEY)
    assert secret not in repr(ledger)
    assert "schema dpsdk, " not in repr(ledger)
    for copied in (copy.copy, copy.deepcopy, pickle.dumps):
        with pytest.raises(NotCopyable):
            copied(ledger)
    for bad in (7, None, b"host=x"):
        with pytest.raises(InvalidArgument, match="dsn"):
            PostgresLedger(bad)
    for bad in ("", "a b", 'x"y', "é", "x" * 64, 7, "%s", "pg_mine"):
        with pytest.raises(InvalidArgument, match="schema"):
            PostgresLedger(postgres, schema=bad)
    with pytest.raises(InvalidArgument, match="key"):
        PostgresLedger(postgres, key=b"short")
    with pytest.raises(InvalidArgument, match="anchor"):
        PostgresLedger(postgres, anchor="anchor")


def test_the_command_line_shows_verifies_and_spends(place, quick_disk, capsys):
    domain = Domain(Integer("age", 0, 9))
    domain.save(quick_disk / "domain.json")
    (quick_disk / "table.csv").write_text("age\n1\n2\n")
    dsn, schema = f"{place.dsn}&password=hunter", ("--schema", place.schema)
    for action in ("show", "verify"):
        assert main(["ledger", action, dsn, *schema]) == 2
        assert "without schema" in capsys.readouterr().err
    assert place.run("SELECT to_regnamespace(current_schema())") == [(None,)]
    release = [
        "release",
        str(quick_disk / "table.csv"),
        "--domain",
        str(quick_disk / "domain.json"),
    ]
    release += ["--marginals", "1", "--epsilon", "0.5", "--cap", "1", "--name", "people"]
    for out in ("one", "two"):
        assert main([*release, "--out", str(quick_disk / out), "--ledger", dsn, *schema]) == 0
    assert main([*release, "--out", str(quick_disk / "c"), "--ledger", dsn, *schema]) == 2
    assert main(["ledger", "show", dsn, *schema]) == 0
    assert main(["ledger", "verify", dsn, *schema]) == 0
    said = capsys.readouterr()
    assert "5 entries of 1 table" in said.out
    assert f"schema {place.schema} remembers that" in said.out
    assert "hunter" not in said.out + said.err
    assert main(["ledger", "verify", dsn, "--allow-network"]) == 2


# Connections that are lost


def cut(place):
    """End all connections, as a server does that stops."""
    place.run(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'dpsdk'"
    )


def test_a_connection_that_was_lost_between_two_charges_is_made_anew(place):
    odometer = opened(place.ledger())
    for number in (1, 2, 3):
        cut(place)
        assert odometer.charge(HUNDREDTH, "x") == number
    cut(place)
    assert odometer.count == 3


def test_a_turn_that_lost_its_connection_begins_again(place, monkeypatch):
    monkeypatch.setattr(stored, "_PAUSES", (0.0, 0.0))
    ledger = place.ledger()
    odometer, tries = opened(ledger), 0

    def decide(books):
        nonlocal tries
        tries += 1
        if tries < 3:
            cut(place)
        return Decision(books._replace(sessions=books.sessions + 1))

    assert ledger.transact(decide).books.sessions == ledger.read().sessions == 2
    assert tries == 3
    tries = -9
    with pytest.raises(LedgerUnavailable, match="server"):
        ledger.transact(decide)
    assert odometer.charge(HUNDREDTH, "x") == 1


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="needs timers that raise")
def test_a_turn_that_a_signal_handler_ends_is_over_while_its_error_is_kept(place, monkeypatch):
    class TookTooLong(Exception):
        pass

    def late(*_):
        raise TookTooLong

    monkeypatch.setattr(server, "_PATIENCE", 5.0)
    odometer = opened(place.ledger())
    before = signal.signal(signal.SIGALRM, late)
    kept = []

    def hold(_):
        signal.setitimer(signal.ITIMER_REAL, 0.3)
        with pytest.raises(TookTooLong) as told:
            odometer.charge(HUNDREDTH, "x")
        kept.append(told.value)

    try:
        place.ledger()._store.write(hold)  # so that the server is waited for
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert opened(place.ledger()).charge(HUNDREDTH, "y") == 1
    assert kept


@pytest.mark.parametrize("taken", [True, False])
@pytest.mark.parametrize("anchored", [True, False])
def test_a_commit_whose_outcome_is_open_is_looked_up(place, monkeypatch, tmp_path, taken, anchored):
    """Also where somebody else writes the very same in between."""
    monkeypatch.setattr(stored, "_PAUSES", (0.0, 0.0))
    anchor = FileAnchor(tmp_path / "anchor") if anchored else None
    ledger = place.ledger(anchor=anchor)
    odometer, sure, lost = opened(ledger), server._ServerWork._sure, False
    twin = opened(place.ledger(anchor=anchor))
    twin._session = odometer.session

    def losing(self, *given):
        nonlocal lost
        if lost:
            return sure(self, *given)
        lost = True
        if taken:
            sure(self, *given)
        cut(place)
        if not taken:
            assert twin.charge(HUNDREDTH, "x") == 1
        return sure(self, *given)

    with monkeypatch.context() as patch:
        patch.setattr(server._ServerWork, "_sure", losing)
        assert odometer.charge(HUNDREDTH, "x") == (1 if taken else 2)
    assert odometer.count == (1 if taken else 2)
    assert odometer.charge(HUNDREDTH, "y") == odometer.count
    assert place.ledger(anchor=anchor).verify() == odometer.count + 2


def test_a_commit_that_nobody_can_look_up_releases_nothing(place, monkeypatch):
    monkeypatch.setattr(stored, "_PAUSES", ())
    odometer, sure = opened(place.ledger()), server._ServerWork._sure

    def losing(self, *given):
        sure(self, *given)
        cut(place)
        sure(self, *given)

    with monkeypatch.context() as patch:
        patch.setattr(server._ServerWork, "_sure", losing)
        with pytest.raises(LedgerUnavailable):
            odometer.charge(HUNDREDTH, "x", request_id="a")
    with pytest.raises(AlreadyCharged):
        odometer.charge(HUNDREDTH, "x", request_id="a")


class Statements:
    """Lets something happen before or after the statement of a number, of all that are sent."""

    def __init__(self, monkeypatch):
        import psycopg

        self.count, self.at, self.what = 0, 0, (lambda: None, lambda: None)
        for kind in (psycopg.Cursor, psycopg.ClientCursor):
            monkeypatch.setattr(kind, "execute", self.around(kind.execute))

    def around(self, execute):
        def noted(cursor, *given, **named):
            self.count += 1
            before, after = self.what if self.count == self.at else (lambda: None, lambda: None)
            before()
            done = execute(cursor, *given, **named)
            after()
            return done

        return noted


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("anchored", [True, False])
def test_a_connection_may_be_lost_at_any_statement(place, monkeypatch, tmp_path, when, anchored):
    """Nothing is doubled, nothing that was given is lost, and the next charge goes through."""
    monkeypatch.setattr(stored, "_PAUSES", (0.0, 0.05))
    anchor = FileAnchor(tmp_path / "anchor") if anchored else None
    ledger = place.ledger(anchor=anchor)
    odometer = opened(ledger)

    def ended():
        before, what = statements.at, statements.what
        statements.at = 0
        cut(place)
        statements.at, statements.what = before, what

    charged, reached, at = 0, True, 0
    with monkeypatch.context() as patch:
        statements = Statements(patch)
        statements.what = (ended, lambda: None) if when == "before" else (lambda: None, ended)
        while reached:
            at += 1
            statements.count, statements.at = 0, at
            name = f"at {at}"
            number = odometer.charge(HUNDREDTH, "x", request_id=name)
            reached, statements.at = statements.count >= at, 0
            charged += 1
            assert number == charged == odometer.count
            with pytest.raises(AlreadyCharged):
                odometer.charge(HUNDREDTH, "x", request_id=name)
    assert at > 4
    assert place.ledger(anchor=anchor).verify() == charged + 1


@pytest.mark.audit
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_an_interrupt_at_any_line_of_a_charge_leaves_the_ledger_whole(place):
    interrupted_everywhere(place.ledger(), 1)


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_an_interrupt_at_some_lines_of_a_charge_leaves_the_ledger_whole(place, tmp_path):
    ledger = place.ledger(anchor=FileAnchor(tmp_path / "anchor"))
    interrupted_everywhere(ledger, 131)
    assert len(ledger._store._idle) <= 1


# What servers refuse


def test_who_keeps_a_turn_is_not_waited_for_for_ever(place, monkeypatch):
    import psycopg

    odometer = opened(place.ledger())
    monkeypatch.setattr(server, "_PATIENCE", 0.2)
    with psycopg.connect(place.dsn) as other:
        other.execute(f"LOCK TABLE {place.schema}.ledger IN EXCLUSIVE MODE")
        with pytest.raises(LedgerUnavailable, match="too long"):
            odometer.charge(HUNDREDTH, "x")
        assert odometer.count == 0  # readers wait for nobody
    assert odometer.charge(HUNDREDTH, "x") == 1


def test_a_ledger_that_is_told_so_waits_no_longer_for_others(place):
    import psycopg

    hurried = opened(PostgresLedger(place.dsn, schema=place.schema, patience=0.1))
    with psycopg.connect(place.dsn) as other:
        other.execute(f"LOCK TABLE {place.schema}.ledger IN EXCLUSIVE MODE")
        with pytest.raises(LedgerUnavailable, match="too long"):
            hurried.charge(HUNDREDTH, "x")
    assert hurried.charge(HUNDREDTH, "x") == 1
    with pytest.raises(InvalidArgument, match="patience must be"):
        PostgresLedger(place.dsn, schema=place.schema, patience=0)


@pytest.mark.parametrize(
    ("level", "used"),
    [("off", "on"), ("local", "on"), ("remote_write", "on"), ("remote_apply", "remote_apply")],
)
def test_commits_are_waited_for_also_where_the_user_has_it_otherwise(place, level, used):
    """Also by the standbys, where there are some that must have them."""
    ledger = place.ledger(f"{place.dsn}&options=-csynchronous_commit%3D{level}")
    opened(ledger).charge(HUNDREDTH, "x")
    shown = ledger._store.write(lambda work: work._execute("SHOW synchronous_commit"))
    assert shown == [(used,)]


def test_who_waited_while_the_tables_were_made_finds_them_at_any_level(place):
    import psycopg

    dsn = f"{place.dsn}&options=-cdefault_transaction_isolation%3Dserializable"
    made = []

    def make():
        made.append(place.ledger(dsn).verify())

    waiting = "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted"
    threads = [threading.Thread(target=make) for _ in range(3)]
    with psycopg.connect(place.dsn, autocommit=True) as holder:
        holder.execute("SELECT pg_advisory_lock(%s)", (server._MAKING,))
        for one in threads:
            one.start()
        while place.run(waiting) != [(3,)]:
            time.sleep(0.01)
    for one in threads:
        one.join()
    assert made == [0, 0, 0]


def test_what_is_looked_up_is_of_the_server_whatever_the_user_has_before_it(place):
    other = f"other_{place.schema}"
    place.ledger()
    place.run(
        f"CREATE SCHEMA {other}",
        f"CREATE FUNCTION {other}.current_setting(text) RETURNS text LANGUAGE sql "
        "AS $$ SELECT 'off'::text $$",
        f"CREATE TABLE {other}.pg_class (LIKE pg_catalog.pg_class)",
        f"CREATE AGGREGATE {other}.max(bigint) (sfunc = int8pl, stype = bigint, initcond = '7')",
    )
    ledger = place.ledger(f"{place.dsn}&options=-csearch_path%3D{other},pg_catalog")
    odometer = opened(ledger)
    assert [odometer.charge(HUNDREDTH, "x") for _ in range(3)] == [1, 2, 3]
    assert place.ledger(f"{place.dsn}&options=-csearch_path%3D{other},pg_catalog").verify() == 4


def test_a_user_who_may_only_read_is_told(place):
    odometer = opened(place.ledger())
    odometer.charge(HUNDREDTH, "x")
    reader = place.ledger(f"{place.dsn}&options=-cdefault_transaction_read_only%3Don")
    assert (reader.verify(), reader.read().runs) == (2, 1)
    with pytest.raises(LedgerUnavailable, match="read-only"):
        opened(reader)
    with pytest.raises(LedgerUnavailable, match="read-only"):
        Place(place.dsn).ledger(f"{place.dsn}&options=-cdefault_transaction_read_only%3Don")


def test_a_user_needs_few_rights_and_cannot_change_entries(place):
    import psycopg

    place.ledger()
    role = f"spender_{place.schema}"
    place.run(
        f"CREATE ROLE {role} LOGIN",
        f"GRANT USAGE ON SCHEMA {place.schema} TO {role}",
        f"GRANT SELECT, INSERT ON entry TO {role}",
        f"GRANT SELECT, INSERT, UPDATE, DELETE ON state TO {role}",
        f"GRANT SELECT, UPDATE ON ledger TO {role}",
    )
    dsn = place.dsn.replace("postgres:@", f"{role}@")
    odometer = opened(place.ledger(dsn))
    assert odometer.charge(HUNDREDTH, "x") == 1
    with psycopg.connect(dsn, autocommit=True) as connection:
        for statement in ("DELETE FROM", "TRUNCATE"):
            with pytest.raises(psycopg.Error):
                connection.execute(f"{statement} {place.schema}.entry")
    for statement in ("DELETE FROM entry", "TRUNCATE entry", "UPDATE entry SET runs = 0"):
        with pytest.raises(psycopg.Error, match="entries stay"):
            place.run(statement, free=False)
    place.run(f"REVOKE INSERT ON entry FROM {role}")
    with pytest.raises(LedgerUnavailable, match="allowed"):
        odometer.charge(HUNDREDTH, "x")
    with pytest.raises(LedgerUnavailable, match="reached"):
        PostgresLedger(place.dsn.replace("/postgres?", "/nowhere?"))


def test_a_server_that_goes_away_comes_back_and_does_not_wait_for_its_disk(
    postgres, server_folder, monkeypatch
):
    import psycopg

    monkeypatch.setattr(stored, "_PAUSES", (0.1, 0.3))
    running = Server(server_folder())
    place = Place(running.dsn)
    ledger = place.ledger()
    odometer = opened(ledger)
    odometer.charge(HUNDREDTH, "x")
    running.stop()
    for attempt in (lambda: odometer.charge(HUNDREDTH, "x"), lambda: odometer.spent, place.ledger):
        with pytest.raises(LedgerUnavailable, match="reached"):
            attempt()
    running.start()
    assert odometer.charge(HUNDREDTH, "x") == 2
    # A standby is read, and never written.
    running.stop()
    (running.folder / "standby.signal").touch()
    running.start()
    assert odometer.count == place.ledger().verify() - 1 == 2
    with pytest.raises(LedgerUnavailable, match="read-only"):
        odometer.charge(HUNDREDTH, "x")
    with pytest.raises(LedgerUnavailable, match="read-only"):
        Place(place.dsn).ledger()
    running.stop()
    (running.folder / "standby.signal").unlink()
    running.start()
    assert odometer.charge(HUNDREDTH, "x") == 3
    # Standbys that have to have it and do not answer: it may be charged, and nothing is released.
    with psycopg.connect(place.dsn, autocommit=True) as connection:
        connection.execute("ALTER SYSTEM SET synchronous_standby_names = 'nobody'")
        connection.execute("SELECT pg_reload_conf()")
    monkeypatch.setattr(server, "_PATIENCE", 0.2)
    with pytest.raises(LedgerUnavailable, match="replication"):
        charge_until_refused(odometer)
    with psycopg.connect(place.dsn, autocommit=True) as connection:
        connection.execute("ALTER SYSTEM RESET synchronous_standby_names")
        connection.execute("ALTER SYSTEM SET fsync = off")
        connection.execute("SELECT pg_reload_conf()")
    monkeypatch.undo()
    with pytest.raises(LedgerUnavailable, match="disk"):
        charge_until_refused(odometer)
    running.stop()


@pytest.mark.audit
@needs_fork
def test_a_server_that_crashes_loses_nothing_that_was_released(postgres, server_folder):
    running, rng, told = Server(server_folder()), random.Random(7), []
    place = Place(running.dsn)
    place.ledger()
    workers = [Worker(place.ledger, 10**6, patient=True) for _ in range(3)]
    for one in workers:
        one.ready()
        one.go()
    for _ in range(6):
        time.sleep(rng.uniform(0.2, 1.0))
        running.crash()
    for one in workers:
        told += [one.told.readline() for _ in range(5)]
        os.kill(one.process, signal.SIGKILL)
    for one in workers:
        told += one.end()[0]
    odometer = opened(place.ledger())
    charged = {one.request_id: one.number for one in odometer.charges}
    released = [line.split() for line in told if line.endswith("\n")]
    assert len(released) >= 15
    assert all(charged[name] == int(number) for number, name in released)
    assert odometer.spent.epsilon == Fraction(len(charged), 10**6)
    assert place.ledger().verify() >= len(charged)
    running.stop()


def test_standbys_that_are_asked_for_within_a_decision_are_not_waited_for_forever(
    postgres, server_folder, monkeypatch
):
    """Nor if the first attempt to end the waiting comes before the waiting."""
    import psycopg

    running = Server(server_folder())
    place, commit, execute = Place(running.dsn), server._ServerWork._commit, psycopg.Cursor.execute
    odometer = opened(place.ledger())
    wanted, said = "SELECT pg_reload_conf()", "SHOW synchronous_standby_names"

    def late(work, *given):
        place.run("ALTER SYSTEM SET synchronous_standby_names = 'nobody'", wanted)
        while place.run(said) == [("",)]:
            time.sleep(0.01)
        commit(work, *given)

    def slow(cursor, *given):
        time.sleep(0.1)
        return execute(cursor, *given)

    monkeypatch.setattr(server, "_PATIENCE", 0.001)
    monkeypatch.setattr(server, "_AGAIN", 0.2)
    monkeypatch.setattr(server._ServerWork, "_commit", late)
    monkeypatch.setattr(psycopg.ClientCursor, "execute", slow)

    def charge():
        for _ in range(60):
            place.run("ALTER SYSTEM RESET synchronous_standby_names", wanted)
            while place.run(said) != [("",)]:
                time.sleep(0.01)
            charge_unless_busy(odometer)

    with pytest.raises(LedgerUnavailable, match="replication"):
        charge()
    running.stop()


def charge_unless_busy(odometer):
    """Charge, unless a machine with other work to do needs longer than it may take."""
    try:
        odometer.charge(HUNDREDTH, "x")
    except LedgerUnavailable as error:
        if "busy" not in str(error):
            raise


def charge_until_refused(odometer):
    """A server takes some time to read its settings anew."""
    for _ in range(60):
        charge_unless_busy(odometer)
        time.sleep(0.05)


# What was edited, damaged or put back


EDITS = {
    "cap": 'UPDATE state SET text = replace(text, \'"epsilon":"1"\', \'"epsilon":"9"\')',
    "spent": "UPDATE state SET text = replace(text, '1', '0') WHERE name = 'lines'",
    "no books": "DELETE FROM state WHERE dataset = 'two'",
    "no head": "DELETE FROM state WHERE dataset = 'two' AND name = 'head'",
    "other books": "UPDATE state SET of_dataset = sha256('six') WHERE dataset = 'two'",
    "charge": "UPDATE entry SET body = decode(replace(encode(body, 'escape'), '1/100', '1/900'), "
    "'escape') WHERE seq = 3",
    "request": "UPDATE entry SET request = 'b' WHERE request = 'a'",
    "answer": "UPDATE entry SET body = '8' WHERE kind = 'answer'",
    "left out": "DELETE FROM entry WHERE seq = 3",
    "first left out": "DELETE FROM entry WHERE seq = 1",
    "end cut": "DELETE FROM entry WHERE seq > 6",
    "all of one": "DELETE FROM entry WHERE dataset = 'two'",
    "other order": "UPDATE entry SET seq = -seq",
    "table": "UPDATE entry SET dataset = 'two' WHERE seq = 3",
    "listed": "UPDATE entry SET of_request = sha256('z') WHERE request = 'a'",
    "token": "UPDATE entry SET token = '' WHERE seq = 2",
    "type": "ALTER TABLE entry ALTER body TYPE text USING encode(body, 'escape')",
    "unlogged": "ALTER TABLE entry SET UNLOGGED",
    "hidden": "ALTER TABLE state ENABLE ROW LEVEL SECURITY",
    "trigger": "DROP TRIGGER unchanged ON entry",
    "rule": "CREATE RULE mine AS ON UPDATE TO state DO INSTEAD NOTHING",
    "table gone": "DROP TABLE state",
    "version": "UPDATE ledger SET version = 9",
    "versions": "INSERT INTO ledger VALUES (2)",
}


@pytest.mark.parametrize("statement", EDITS.values(), ids=EDITS)
def test_what_was_edited_is_refused(place, statement):
    spent(place, key=KEY)
    place.run(statement)
    with pytest.raises(LedgerDamaged):
        place.ledger(key=KEY).verify()


def test_an_older_copy_is_told_by_who_has_seen_a_newer_one_and_by_the_anchor(place, tmp_path):
    anchor = FileAnchor(tmp_path / "anchor")
    ledger = spent(place, anchor=anchor)
    place.run("CREATE TABLE public.old AS SELECT * FROM state")
    odometer = opened(ledger, "one")
    place.run("DELETE FROM entry WHERE seq > 8", "DELETE FROM state")
    place.run("INSERT INTO state SELECT * FROM public.old", "DROP TABLE public.old")
    for attempt in (lambda: odometer.charge(HUNDREDTH, "x"), lambda: odometer.spent, ledger.verify):
        with pytest.raises(LedgerDamaged, match="older copy"):
            attempt()
    with pytest.raises(LedgerDamaged, match="anchor"):
        place.ledger(anchor=anchor)
    assert opened(place.ledger(), "one").count == 3


@needs_fork
def test_an_anchor_never_goes_back_though_many_processes_write(place, tmp_path):
    class Checked(FileAnchor):
        def put(self, seq, code):
            known = self.get()
            if known is not None and known[0] >= seq:
                raise OSError(5, "it went back")
            super().put(seq, code)

    def make():
        return place.ledger(anchor=Checked(tmp_path / "anchor"))

    shares(make, 3, 30)
    found = FileAnchor(tmp_path / "anchor").get()
    assert found[0] == make().verify()


def test_many_entries_are_read_in_pages_and_from_a_checkpoint(place, monkeypatch):
    monkeypatch.setattr("dpsdk.accounting.ledger.store.PAGE", 4)
    monkeypatch.setattr("dpsdk.accounting.ledger.store.SPACING", 8)
    odometer = opened(place.ledger())
    for _ in range(30):
        odometer.charge(HUNDREDTH, "x")
    ledger = place.ledger()
    assert len(ledger.charges()) == len(ledger.dataset("t").charges()) == 30
    assert ledger.verify() == 30 + 1 + 4


# What dpsdk 0.1.0 wrote

OLD_TABLES = """
CREATE SCHEMA {0};
CREATE TABLE {0}.ledger (version bigint NOT NULL);
CREATE TABLE {0}.entry (
    seq bigint PRIMARY KEY, dataset text NOT NULL, kind text NOT NULL, runs bigint NOT NULL,
    request text, body bytea NOT NULL, books text NOT NULL, token bytea NOT NULL,
    code bytea NOT NULL, of_dataset bytea NOT NULL, of_request bytea
);
CREATE TABLE {0}.books (
    of_dataset bytea PRIMARY KEY, dataset text NOT NULL, record text NOT NULL
);
CREATE INDEX by_runs ON {0}.entry (of_dataset, kind, runs, seq);
CREATE UNIQUE INDEX by_request ON {0}.entry (of_dataset, kind, of_request)
    WHERE of_request IS NOT NULL;
CREATE FUNCTION {0}.refuse() RETURNS trigger LANGUAGE plpgsql
    AS $$ BEGIN RAISE EXCEPTION 'entries stay'; END $$;
CREATE TRIGGER unchanged BEFORE UPDATE OR DELETE ON {0}.entry
    FOR EACH ROW EXECUTE FUNCTION {0}.refuse();
CREATE TRIGGER untruncated BEFORE TRUNCATE ON {0}.entry
    FOR EACH STATEMENT EXECUTE FUNCTION {0}.refuse();
INSERT INTO {0}.ledger VALUES (1);
"""

GOLDEN = Path(__file__).parents[1] / "golden" / "ledgers"


def restore(place, name, folder):
    """Make the tables as 0.1.0 did, with what it wrote into a file; and give what it read there."""
    import psycopg

    path = folder / f"{name}.db"
    path.write_bytes(gzip.decompress((GOLDEN / f"{name}.db.gz").read_bytes()))

    def spelled(text):
        return None if text is None else json.dumps(text)[1:-1]

    def digest(text):
        return None if text is None else hashlib.sha256(text.encode()).digest()

    with sqlite3.connect(path) as file, psycopg.connect(place.dsn, autocommit=True) as connection:
        connection.execute(OLD_TABLES.format(place.schema))
        connection.execute(f"SET search_path = {place.schema}")
        for row in file.execute("SELECT * FROM entry ORDER BY seq"):
            values = [*row, digest(row[1]), digest(row[4])]
            values[1], values[4] = spelled(row[1]), spelled(row[4])
            connection.execute(
                "INSERT INTO entry VALUES (%s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s)", values
            )
        for table, record in file.execute("SELECT * FROM books"):
            values = [digest(table), spelled(table), record]
            connection.execute("INSERT INTO books VALUES (%s, %s, %s)", values)
    return json.loads(gzip.decompress((GOLDEN / f"{name}.json.gz").read_bytes()))


@pytest.mark.parametrize(("name", "key"), [("sessions", KEY), ("partitions", None), ("long", KEY)])
def test_what_an_older_version_wrote_is_found_as_it_was(place, tmp_path, name, key):
    known = restore(place, name, tmp_path)
    with pytest.raises(LedgerDamaged):
        place.ledger(key=b"another key of many bytes")
    assert place.run("SELECT version FROM ledger") == [(1,)]
    ledger = place.ledger(key=key)
    assert list(ledger.datasets) == sorted(known["tables"])
    for table, expected in known["tables"].items():
        own = ledger.dataset(table)
        assert own.read().to_record() == renewed(expected["books"])
        charges = [Charge.from_record(charge) for charge in expected["charges"]]
        assert list(own.charges()) == charges
    entries = known["entries"] + len(known["tables"])
    assert ledger.verify() == place.ledger(key=key).verify() == entries
    binding = ledger.dataset(next(iter(known["tables"]))).read().binding
    odometer = Odometer(binding.budget, ledger=place.ledger(key=key), dataset=binding.dataset)
    before = odometer.count
    odometer.charge(HUNDREDTH, "x")
    assert odometer.count == before + 1
    assert place.run("SELECT version FROM ledger") == [(2,)]


def test_several_processes_that_upgrade_at_once_do_it_once(place, tmp_path):
    known = restore(place, "partitions", tmp_path)
    found = []
    at_once(lambda _: found.append(place.ledger().verify()), range(4))
    assert found == [known["entries"] + 3] * 4


@pytest.mark.thorough
def test_threads_that_read_and_write_find_no_damage(place):
    ledger, end, failed = place.ledger(), time.monotonic() + 10, list[Exception]()
    odometer, part = opened(ledger), PureGuarantee("0.0001")

    def work(step):
        while time.monotonic() < end and not failed:
            try:
                step()
            except Exception as error:
                failed.append(error)

    steps = [lambda: odometer.charge(part, "x"), lambda: (odometer.spent, odometer.charges)]
    at_once(work, [steps[i % 2] for i in range(8)])
    assert not failed


@needs_fork
def test_a_partition_that_a_live_session_has_open_is_not_ended_by_another(place):
    first, second = opened(place.ledger()), opened(place.ledger())
    owner = threading.Event()
    first.divide(first.generation(), 2, moves=False, owner=owner)
    with pytest.raises(LedgerConflict, match="session 1, which has it open"):
        second.divide(second.generation(), 2, moves=False)
    child = os.fork()
    if child == 0:
        del owner, first  # which would end the connection of the parent
        os._exit(0)
    os.waitpid(child, 0)
    with pytest.raises(LedgerConflict, match="session 1"):
        second.divide(second.generation(), 2, moves=False)
    del owner
    second.divide(second.generation(), 2, moves=False)
    third = opened(place.ledger())
    cut(place)
    third.divide(third.generation(), 2, moves=False)
