"""Processes that spend from one ledger: what each gets, and what is left when they are killed."""

from __future__ import annotations

import os
import random
import signal
import sqlite3
import time
from collections.abc import Callable
from contextlib import closing
from fractions import Fraction
from pathlib import Path
from typing import TypeAlias

import pytest

from dpsdk import Budget, Domain, Integer, PrivateData, Session
from dpsdk.accounting import (
    BasicComposition,
    Dataset,
    Decision,
    FileAnchor,
    GuaranteeByPeriod,
    Ledger,
    Odometer,
    PostgresLedger,
    PureGuarantee,
    SQLiteLedger,
    pure_epsilon,
)
from dpsdk.accounting.ledger.books import Books
from dpsdk.accounting.spent import told_in
from dpsdk.errors import AlreadyCharged, BudgetExceeded, Closed, LedgerUnavailable
from dpsdk.mechanisms import Laplace
from dpsdk.queries import Count
from dpsdk.testing.interrupts import interrupted

Make: TypeAlias = Callable[[], SQLiteLedger | PostgresLedger]
"""Opens the ledger, in whichever process."""

HUNDREDTH = PureGuarantee("0.01")


def opened(ledger: Ledger, name: str = "t", budget: Budget | None = None) -> Odometer:
    cap = Budget(1) if budget is None else budget
    return Odometer(cap, BasicComposition(), ledger=ledger, dataset=Dataset(name))


class Worker:
    """A forked process that spends hundredths, or smaller parts, until nothing is left.

    One that is patient goes on with other requests when the ledger cannot be used for a while.
    """

    def __init__(
        self, make: Make, parts: int, *, answers: bool = False, patient: bool = False
    ) -> None:
        self.patient = patient
        told, tell = os.pipe()
        wait, go = os.pipe()
        self.process = os.fork()
        if self.process == 0:
            code = 1
            try:
                os.close(go)
                self.work(make, parts, tell, wait, answers)
                code = 0
            finally:
                os._exit(code)
        os.close(tell)
        os.close(wait)
        self.told, self.gate = os.fdopen(told), go

    def work(self, make: Make, parts: int, tell: int, wait: int, answers: bool) -> None:
        ledger, turn = make(), 0
        odometer = opened(ledger)
        part = PureGuarantee(Fraction(1, parts))
        os.write(tell, b"ready\n")
        os.read(wait, 1)
        while True:
            turn += 1
            name = f"{odometer.session}-{turn}"
            try:
                number = odometer.charge(part, name, request_id=name)
            except BudgetExceeded:
                return
            except LedgerUnavailable:
                if not self.patient:
                    raise
                time.sleep(0.05)
                continue
            os.write(tell, f"{number} {name}\n".encode())
            if answers:
                ledger.store(name, str(number).encode())

    def ready(self) -> None:
        assert self.told.readline() == "ready\n"

    def go(self) -> None:
        os.write(self.gate, b"!")
        os.close(self.gate)

    def end(self) -> tuple[list[str], int]:
        """The lines that it has told since, and how it ended."""
        with self.told:
            lines = self.told.readlines()
        return lines, os.waitstatus_to_exitcode(os.waitpid(self.process, 0)[1])


def shares(make: Make, processes: int, runs: int) -> list[int]:
    workers = [Worker(make, runs) for _ in range(processes)]
    for one in workers:
        one.ready()
    for one in workers:
        one.go()
    told = [one.end() for one in workers]
    assert [code for _, code in told] == [0] * processes
    numbers = [[int(line.split()[0]) for line in lines] for lines, _ in told]
    assert sorted(number for one in numbers for number in one) == list(range(1, runs + 1))
    odometer = opened(make())
    assert odometer.spent.epsilon == 1
    assert odometer.count == runs
    return [len(one) for one in numbers]


def killed(make: Make, rng: random.Random, kills: int, busy: int) -> None:
    """Kill one of several spending processes, again and again, and hold the books against it."""
    told: list[str] = []
    parts = 10**6

    def one_more() -> Worker:
        fresh = Worker(make, parts, answers=True)
        fresh.ready()
        fresh.go()
        return fresh

    def end(victim: Worker) -> None:
        os.kill(victim.process, signal.SIGKILL)
        lines, code = victim.end()
        assert code == -signal.SIGKILL
        told.extend(lines)

    workers = [one_more() for _ in range(busy)]
    for _ in range(kills):
        victim = workers.pop(rng.randrange(busy))
        told += [victim.told.readline() for _ in range(rng.randint(0, 6))]
        end(victim)
        workers.append(one_more())
    for one in workers:
        end(one)
    ledger = make()
    odometer = opened(ledger)
    ledger.verify()
    charged = {one.request_id: one.number for one in odometer.charges}
    released = [line.split() for line in told if line.endswith("\n") and "-" in line]
    # Nothing was released that is not charged, and no charge is lost, added or doubled.
    assert all(charged[name] == int(number) for number, name in released)
    assert 0 <= len(charged) - len(released) <= kills + busy
    assert odometer.spent.epsilon == Fraction(len(charged), parts)
    assert sorted(charged.values()) == list(range(1, len(charged) + 1))
    for name, number in charged.items():
        assert ledger.stored(name) in {None, str(number).encode()}
    name = next(iter(charged))
    with pytest.raises(AlreadyCharged):
        odometer.charge(HUNDREDTH, "again", request_id=name)


PERIODS = 30


def opened_by_period(ledger: Ledger) -> Odometer:
    dataset = Dataset("days", "add-remove", periods="visited: date by day")
    desk = 0, PERIODS - 1
    return Odometer(Budget(1), BasicComposition(), ledger=ledger, dataset=dataset, periods=desk)


class PeriodWorker(Worker):
    """A forked process that spends on ranges of periods, until many in a row refuse."""

    def work(self, make: Make, parts: int, tell: int, wait: int, answers: bool) -> None:
        ledger, refused, turn = make(), 0, 0
        odometer = opened_by_period(ledger)
        source = random.Random(odometer.session)
        part = PureGuarantee(Fraction(1, parts))
        os.write(tell, b"ready\n")
        os.read(wait, 1)
        while refused < 50:
            turn += 1
            first, last = sorted(source.choices(range(PERIODS), k=2))
            name = f"{odometer.session}-{turn}"
            ends = {first: (first, first, part), last: (last, last, part)}
            guarantee = part if turn % 3 else GuaranteeByPeriod(part, tuple(ends.values()))
            try:
                desk = odometer.between(first, last)
                number = desk.charge(guarantee, "x", request_id=name)
            except BudgetExceeded:
                refused += 1
                continue
            refused = 0
            os.write(tell, f"{number} {name}\n".encode())
            if answers:
                ledger.store(name, str(number).encode())


def check_periods(make: Make, told: list[str], lost: int) -> Odometer:
    """Hold the timeline against the charges, and these against what was released."""
    ledger = make()
    odometer = opened_by_period(ledger)
    ledger.verify()
    charges = odometer.ledger_charges()
    released = [line.split() for line in told if line.endswith("\n") and "-" in line]
    numbers = {one.request_id: one.number for one in charges}
    assert all(numbers[name] == int(number) for number, name in released)
    assert 0 <= len(charges) - len(released) <= lost
    for first, last, spent, _ in odometer.periods(0, PERIODS):
        for period in range(first, last + 1):
            runs = told_in(charges, period)
            # Each charge is on all of its periods, or on none.
            assert spent.epsilon == sum((pure_epsilon(run) or 0 for run in runs), Fraction(0))
        assert spent.epsilon <= 1
    return odometer


def killed_by_period(make: Make, kills: int) -> None:
    """Kill spenders between charge and answer, whose charges are of many periods at once."""
    told: list[str] = []
    for _ in range(kills):
        workers = [PeriodWorker(make, 10**6, answers=True) for _ in range(2)]
        for one in workers:
            one.ready()
            one.go()
        told += [one.told.readline() for one in workers for _ in range(2)]
        for one in workers:
            os.kill(one.process, signal.SIGKILL)
            told += one.end()[0]
    check_periods(make, told, 2 * kills)


def shared_by_period(make: Make) -> None:
    """Two processes spend on overlapping ranges, as one after the other would."""
    workers = [PeriodWorker(make, 20) for _ in range(2)]
    for one in workers:
        one.ready()
    for one in workers:
        one.go()
    told = [one.end() for one in workers]
    assert [code for _, code in told] == [0, 0]
    assert all(lines for lines, _ in told)
    odometer = check_periods(make, [line for lines, _ in told for line in lines], 0)
    assert odometer.spent.epsilon == 1


def interrupted_everywhere(
    ledger: SQLiteLedger | PostgresLedger, step: int, check: Callable[[], None] = lambda: None
) -> None:
    """Interrupt charges at each so many lines: nothing is lost, nothing doubled, nobody waits."""
    part = PureGuarantee("0.0001")
    odometer = opened(ledger)
    place, charged, reached = 1, 0, True
    while reached:
        done: list[int] = []
        name = f"at {place}"

        def charge(name: str = name, done: list[int] = done) -> None:
            done.append(odometer.charge(part, "x", request_id=name))

        reached = interrupted(charge, place)
        check()
        assert not getattr(ledger._store.busy, "inside", False)
        count = odometer.count
        assert count - charged in ({0, 1} if reached else {1})
        assert not done or done == [count]
        if count > charged:
            # It was taken whole, and nothing more may be drawn for it.
            assert odometer.charges[-1].request_id == name
            with pytest.raises(AlreadyCharged):
                odometer.charge(part, "x", request_id=name)
        charged = count
        place += step
    assert odometer.spent.epsilon == Fraction(charged, 10**4)
    assert ledger.verify() == charged + 1 + (charged + 1) // 256
    assert opened(ledger).charge(part, "x") == charged + 1


class Interleaved(FileAnchor):
    """An anchor that somebody spends before or behind, each time it is asked while that is set."""

    before: Callable[[], None] = staticmethod(lambda: None)
    behind: Callable[[], None] = staticmethod(lambda: None)

    def get(self) -> tuple[int, bytes] | None:
        self.before()
        found = super().get()
        self.behind()
        return found


def written_meanwhile(
    make: Callable[[FileAnchor], SQLiteLedger | PostgresLedger], path: Path
) -> None:
    """A ledger that others write to, while it is opened and verified, is whole to everybody."""
    other = opened(make(FileAnchor(path)))
    anchor = Interleaved(path)
    for moment in ("before", "behind"):
        setattr(anchor, moment, lambda: other.charge(HUNDREDTH, "x"))
        ledger = make(anchor)
        ledger.verify()
        delattr(anchor, moment)
    assert opened(ledger).count == other.count == 4


def spend(ledger: SQLiteLedger | PostgresLedger) -> None:
    """Charge two tables alike, by one and by several runs, and store an answer for each."""
    for name in ("one", "two"):
        odometer = opened(ledger, name)
        odometer.charge(HUNDREDTH, "x", request_id="a")
        odometer.charge_all([HUNDREDTH] * 2, "y")
        ledger.dataset(name).store("a", b"7")


def edit(path: Path, *statements: str) -> None:
    """Change the file of a ledger past its triggers."""
    with closing(sqlite3.connect(path)) as connection:
        triggers = "SELECT name, sql FROM sqlite_master WHERE type = 'trigger'"
        known = connection.execute(triggers).fetchall()
        for name, _ in known:
            connection.execute(f"DROP TRIGGER {name}")
        for statement in (*statements, *[statement for _, statement in known]):
            connection.execute(statement)
        connection.commit()


def serve_forked_workers(ledger: SQLiteLedger | PostgresLedger) -> None:
    """As in a server that forks: the ledger was made before, each worker opens its own session."""
    data = PrivateData.from_columns({"age": [39]}, Domain(Integer("age", 17, 90)), name="adults")
    session = Session(data, Budget(1), ledger=ledger)
    session.answer(Count(), using=Laplace("0.1"))
    children = []
    for _ in range(3):
        child = os.fork()
        if child == 0:
            code = 1
            try:
                try:
                    session.answer(Count(), using=Laplace("0.1"))
                except Closed:
                    own = Session(data, Budget(1), ledger=ledger)
                    own.answer(Count(), using=Laplace("0.1"))
                    code = 0
            finally:
                os._exit(code)
        children.append(child)
    assert all(os.waitstatus_to_exitcode(os.waitpid(one, 0)[1]) == 0 for one in children)
    assert session.spent.epsilon == Fraction(4, 10)
    session.answer(Count(), using=Laplace("0.1"))
    assert ledger.verify() == 1 + 4 + 4


def fork_within_a_decision(ledger: SQLiteLedger | PostgresLedger) -> None:
    """A process that is forked there takes nothing, and its parent goes on."""
    opened(ledger)
    child = 0

    def decide(books: Books) -> Decision:
        nonlocal child
        child = os.fork()
        return Decision(books._replace(sessions=books.sessions + 1))

    parent = os.getpid()
    try:
        ledger.transact(decide)
    except Closed:
        if os.getpid() != parent:
            os._exit(7)
        raise
    finally:
        if os.getpid() != parent:
            os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
    assert ledger.read().sessions == 2
    opened(ledger).charge(HUNDREDTH, "x")
