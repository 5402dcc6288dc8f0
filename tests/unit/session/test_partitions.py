"""One partition at a time: however closers and openers meet, and whatever interrupts them."""

import gc
import threading
import time
from fractions import Fraction

import pytest

from dpsdk import Budget, Neighbors, Session
from dpsdk.accounting import BasicComposition, Odometer, PureGuarantee
from dpsdk.errors import BudgetExceeded, Closed, InvalidArgument
from dpsdk.mechanisms import Laplace
from dpsdk.queries import Count, Marginal
from dpsdk.testing import seeded
from dpsdk.testing.interrupts import interrupted
from parallel import at_once
from worlds import people, table

pytestmark = pytest.mark.thorough

DATA = table(people(40, 11), Neighbors.ADD_REMOVE)
COUNT = Count(normalized=False)


def opened(epsilon=1):
    return Session(DATA, Budget(epsilon), composition=BasicComposition(), noise=seeded(5))


def opened_at_last(session, name):
    """The partition that can be opened once the one before is closed."""
    deadline = time.monotonic() + 60
    while True:
        try:
            return session.partition(name)
        except InvalidArgument:
            assert time.monotonic() < deadline, "the partition before never ends"


def alone(session, name="age"):
    """Whether no partition can be opened beside the open one."""
    try:
        session.partition(name)
    except InvalidArgument:
        return True
    return False


def test_a_late_closer_of_a_partition_does_not_end_the_next_one(monkeypatch):
    session = opened()
    first = session.partition("sex")
    both, next_is_open = threading.Barrier(2), threading.Event()
    calls, real = [], Odometer.merge

    ended = type(first._context.lifetime).end

    def end(ending):
        if ending is first._context.lifetime and not calls:
            both.wait(timeout=30)  # both closers have passed whatever they test before
        ended(ending)

    def merge(odometer, *given):
        calls.append(threading.get_ident())
        if len(calls) == 2:
            next_is_open.wait(timeout=30)
        return real(odometer, *given)

    monkeypatch.setattr(type(first._context.lifetime), "end", end)
    monkeypatch.setattr(Odometer, "merge", merge)
    closers = [threading.Thread(target=first.close, daemon=True) for _ in range(2)]
    for closer in closers:
        closer.start()
    second = opened_at_last(session, "sex")
    second["Male"].answer(COUNT, using=Laplace("0.9"))
    next_is_open.set()
    for closer in closers:
        closer.join(timeout=30)
    assert len(calls) == 2
    # The second is still open, and what it was charged cannot be charged once more.
    assert alone(session)
    with pytest.raises(BudgetExceeded):
        second["Male"].answer(COUNT, using=Laplace("0.9"))
    second["Female"].answer(COUNT, using=Laplace("0.9"))
    second.close()
    assert session.remaining.epsilon == Fraction(1, 10)


def test_closers_and_an_opener_never_leave_two_partitions():
    session = opened(epsilon=1000)
    for _ in range(30):
        first = session.partition("sex")
        start = threading.Barrier(9)
        found = []

        def close(first=first, start=start):
            start.wait(timeout=30)
            first.close()

        def opening(start=start, found=found):
            start.wait(timeout=30)
            found.append(opened_at_last(session, "age"))

        at_once(lambda work: work(), [*[close] * 8, opening])
        (second,) = found
        assert alone(session, "sex")
        second[17].answer(COUNT, using=Laplace(1))
        second.close()
    assert session.spent.epsilon == 30


def test_a_part_that_was_opened_while_its_partition_closed_charges_nothing():
    session = opened()
    first = session.partition("sex")
    part = first["Male"]
    first.close()
    with session.partition("sex") as second:
        # As if the ending had been looked at before the other thread closed it.
        part._context.lifetime._ended = False
        with pytest.raises(Closed, match="the part"):
            part.answer(COUNT, using=Laplace("0.5"))
        assert session.spent.epsilon == 0
        second["Male"].answer(COUNT, using=Laplace("0.5"))
    assert session.spent.epsilon == Fraction(1, 2)


def test_a_dropped_partition_does_not_block_the_next_one():
    session = opened()
    parts = session.partition("sex")
    parts["Male"].answer(COUNT, using=Laplace("0.5"))
    part = parts["Female"]
    channel = part.open(Laplace("0.1"))
    del parts
    gc.collect()
    # The part can still be asked, so the partition is open.
    assert alone(session)
    del part
    gc.collect()
    channel.answer(COUNT)
    assert alone(session)
    del channel
    gc.collect()
    with session.partition("age") as ages:
        assert session.spent.epsilon == Fraction(1, 2)
        ages[17].answer(COUNT, using=Laplace("0.5"))
    assert session.remaining.epsilon == 0


def test_an_interrupted_close_can_be_closed_again():
    place, more = 0, True
    while more:
        place += 1
        session = opened()
        parts = session.partition("sex")
        parts["Male"].answer(COUNT, using=Laplace("0.5"))
        more = interrupted(parts.close, place)
        parts.close()
        with session.partition("sex") as again:
            again["Male"].answer(COUNT, using=Laplace("0.5"))
        assert session.remaining.epsilon == 0
    assert place > 5


def test_an_interrupted_opening_blocks_no_other():
    place, more = 0, True
    while more:
        place += 1
        session = opened()
        more = interrupted(lambda session=session: session.partition("sex"), place)
        gc.collect(0)
        with session.partition("sex") as parts:
            parts["Male"].answer(COUNT, using=Laplace("0.5"))
        assert session.spent.epsilon == Fraction(1, 2)
    assert place > 20


def test_a_merge_that_names_no_open_division_changes_nothing():
    odometer = Odometer(Budget(1), BasicComposition())
    odometer.merge(99)
    stale, live = odometer.generation(), odometer.generation()
    odometer.divide(live, 3, moves=True)
    odometer.merge(stale)
    with pytest.raises(InvalidArgument, match="one partition"):
        odometer.divide(odometer.generation(), 3, moves=True)
    odometer.charge(PureGuarantee("0.5"), "all")
    odometer.merge(live)
    odometer.merge(live)
    odometer.divide(odometer.generation(), 3, moves=True)
    assert odometer.spent.epsilon == Fraction(1, 2)


@pytest.mark.parametrize("neighbors", Neighbors)
def test_a_table_with_several_rows_a_person_is_not_divided(neighbors):
    data = table(people(40, 11), neighbors, unit_rows=2)
    session = Session(data, Budget(1), noise=seeded(1))
    with pytest.raises(InvalidArgument, match="rows of one person may lie in many parts") as caught:
        session.partition("sex")
    assert (caught.value.parameter, caught.value.got) == ("unit_rows", "2")
    assert not session.history
    # Nothing is left open: the whole table answers, and a scope as well.
    session.answer(Marginal("sex", normalized=False), using=Laplace(epsilon="0.5"))
    with session.scope("half", 0.5) as scope:
        scope.answer(Marginal("sex", normalized=False), using=Laplace(epsilon="0.5"))
    assert session.spent.epsilon == 1
