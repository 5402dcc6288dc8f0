"""The ledger in memory, wherever an interrupt comes, and whatever becomes of what it shows."""

from collections.abc import Callable, Iterator, Mapping
from fractions import Fraction

import attrs
import pytest

from attacks import attempt, fields, inner_writes, writes
from dpsdk.accounting import (
    Anytime,
    BasicComposition,
    Books,
    Budget,
    Charge,
    Decision,
    MemoryLedger,
    Odometer,
    PureGuarantee,
    ZCDPComposition,
)
from dpsdk.accounting.nested import PartOdometer, ScopeOdometer
from dpsdk.errors import AlreadyCharged
from dpsdk.testing.interrupts import interrupted

TENTH = PureGuarantee("0.1")


def test_an_interrupt_leaves_each_request_charged_whole_or_not_at_all_and_no_reserve():
    place, more = 1, True
    while more:
        ledger = MemoryLedger()
        odometer = Odometer(Budget(1), BasicComposition(), ledger=ledger)

        def work(odometer: Odometer = odometer) -> None:
            scope = ScopeOdometer(odometer, "kept", "0.5", reserve=True)
            scope.charge(TENTH, "x", request_id="one")
            odometer.charge_all([TENTH] * 2, "y", request_id="two")
            scope.close()

        more = interrupted(work, place)
        assert odometer.spent.epsilon == Fraction(odometer.count, 10)
        assert len(odometer.charges) == len(ledger.charges()) == odometer.count
        # Whatever was reserved is given back.
        assert odometer.remaining.epsilon == 1 - Fraction(odometer.count, 10)
        for name, runs in (("one", 1), ("two", 2)):
            numbers = tuple(one.number for one in ledger.charges() if one.request_id == name)
            assert len(numbers) in {0, runs}
            if numbers:
                with pytest.raises(AlreadyCharged) as caught:
                    odometer.charge(TENTH, "again", request_id=name)
                assert caught.value.charges == numbers
            else:
                odometer.charge_all([TENTH] * runs, "again", request_id=name)
        assert odometer.count == 3
        place += 7
    assert place > 300


def divided_ledger(moves: bool) -> tuple[MemoryLedger, Odometer]:
    ledger = MemoryLedger()
    anytime = Anytime("1e-6", around=1)
    odometer = Odometer(Budget(1, "1e-6"), ZCDPComposition(), anytime, ledger=ledger)
    ScopeOdometer(odometer, "kept", "0.5", reserve=True)
    generation = odometer.generation()
    odometer.divide(generation, 3, moves=moves)
    PartOdometer(odometer, "a part", generation, 1).charge(TENTH, "x", request_id="one")
    return ledger, odometer


def all_that_is_shown(ledger: MemoryLedger) -> Iterator[object]:
    """Every value in what a ledger hands out, by each of its doors, down to the last."""
    taken: list[object] = []

    def decide(books: Books) -> Decision:
        taken.append(books)
        return Decision(books)

    taken += [ledger.read(), ledger.charges(), ledger.transact(decide)]
    taken.append(ledger.transact(decide, "one"))
    waiting = taken
    while waiting:
        value = waiting.pop()
        yield value
        if isinstance(value, tuple | list):
            waiting += value
        elif isinstance(value, Mapping):
            waiting += value.values()
        elif attrs.has(type(value)):
            waiting += fields(value).values()


def attacks_on(value: object) -> Iterator[Callable[[], object]]:
    if attrs.has(type(value)):
        yield from (write for _, write in writes(value))
    yield from (write for _, write in inner_writes(value))
    for name in ("clear", "popitem"):
        yield from (getattr(value, way) for way in (name,) if hasattr(value, way))


@pytest.mark.parametrize("moves", [False, True])
def test_writing_into_what_a_ledger_in_memory_shows_changes_nothing(moves):
    ledger, odometer = divided_ledger(moves)
    record, charges = ledger.read().to_record(), ledger.charges()
    written = [charge.to_record() for charge in charges]
    readings = odometer.readings("1e-5")
    for value in all_that_is_shown(ledger):
        for attack in attacks_on(value):
            attempt(attack)
    assert ledger.read().to_record() == record
    assert [charge.to_record() for charge in ledger.charges()] == written
    assert odometer.readings("1e-5") == readings
    # What equal runs cost elsewhere has not changed either.
    other = Odometer(Budget(1), BasicComposition())
    other.charge(PureGuarantee("0.1"), "x")
    assert other.spent.epsilon == Fraction(1, 10)


class Showing:
    """A ledger of another author, which shows what it was given."""

    durable = False

    def __init__(self) -> None:
        self.kept = MemoryLedger()
        self.shown: list[Charge] = []

    def transact(self, decide, request_id=None):
        def seen(books):
            decision = decide(books)
            self.shown += decision.charges
            return decision

        return self.kept.transact(seen, request_id)

    def read(self):
        return self.kept.read()

    def charges(self, since=0):
        return self.kept.charges(since)

    def store(self, request_id, answer):
        raise NotImplementedError

    def stored(self, request_id):
        raise NotImplementedError


def test_another_ledger_is_given_no_guarantee_that_the_books_keep():
    ledger = Showing()
    odometer = Odometer(Budget(1), BasicComposition(), ledger=ledger)
    odometer.charge(TENTH, "x")
    for charge in ledger.shown:
        for attack in attacks_on(charge.guarantee):
            attempt(attack)
    assert odometer.charges[0].guarantee == TENTH
    odometer.charge(TENTH, "y")
    assert odometer.spent.epsilon == Fraction(1, 5)
