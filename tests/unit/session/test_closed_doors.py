"""After closing, and in a forked process: nothing would be accepted, and what was spent is told."""

from contextlib import contextmanager
from fractions import Fraction

import pytest

from dpsdk import Budget, Domain, Integer, PrivateData, Session
from dpsdk.accounting import BasicComposition, PureGuarantee, SQLiteLedger
from dpsdk.accounting.ledger.session_ledger import SessionLedger
from dpsdk.errors import Closed
from dpsdk.mechanisms import Laplace
from dpsdk.queries import Count
from parallel import in_a_child, needs_fork

pytestmark = pytest.mark.thorough

DATA = PrivateData.from_columns({"age": [1, 2, 2]}, Domain(Integer("age", 1, 4)), name="ages")
TENTH = Laplace("0.1")


def opened(path=None):
    ledger = None if path is None else SQLiteLedger(path, allow_network=True)
    return Session(DATA, Budget(1), composition=BasicComposition(), ledger=ledger)


def would_be(desk):
    """Every door that says what would be accepted."""
    return [
        lambda: desk.answer(Count(), using=TENTH),
        lambda: desk.affords(Count(), using=TENTH),
        lambda: desk.quote(Count(), using=TENTH),
        lambda: desk.plan(Count(), error=0.1),
        lambda: desk.plan(Count(), budget=Budget("0.1")),
    ]


def refused(desk):
    for ask in would_be(desk):
        with pytest.raises(Closed):
            ask()
    remaining = desk.remaining
    assert (remaining.epsilon, remaining.rho, remaining.kept_epsilon) == (0, 0, None)
    assert str(remaining).endswith("room for no run")


@contextmanager
def asked(session, kind):
    """A desk of a kind that has answered once, and what closes it."""
    if kind == "session":
        desk = session
        close = session.close
    elif kind.startswith("scope"):
        scope = session.scope("s", "0.5", reserve=kind.endswith("reserve"))
        desk, close = scope, session.close if "by session" in kind else scope.close
    else:
        partition = session.partition("age")
        desk, close = partition[2], session.close if "by session" in kind else partition.close
    desk.answer(Count(), using=TENTH)
    yield desk, close


KINDS = ["session", "scope", "scope reserve", "scope by session", "part", "part by session"]


@pytest.mark.parametrize("durable", [False, True])
@pytest.mark.parametrize("kind", KINDS)
def test_what_is_closed_accepts_nothing_and_tells_what_was_spent(kind, durable, tmp_path):
    session = opened(tmp_path / "spent.db" if durable else None)
    with asked(session, kind) as (desk, close):
        assert desk.affords(Count(), using=TENTH) in {4, 9}
        for ask in would_be(desk):
            ask()
        before = desk.spent.epsilon, desk.remaining.fraction
        close()
        refused(desk)
        assert (desk.spent.epsilon, desk.remaining.fraction) == before
        assert len(session.history) == 2
        assert session.spent.charges == 2
        assert "Scope" in repr(desk) or "Part" in repr(desk) or "closed" in repr(desk)


def test_a_scope_that_another_session_closed_accepts_nothing(tmp_path):
    path = tmp_path / "spent.db"
    session, other = opened(path), opened(path)
    mine, theirs = (one.scope("s", "0.5", reserve=True) for one in (session, other))
    inner = mine._context.payer
    mine.answer(Count(), using=TENTH)
    assert mine.affords(Count(), using=TENTH) == 4
    theirs.close()
    refused(mine)
    assert mine.spent.epsilon == Fraction(1, 10)
    for ask in (inner.affords, lambda run: inner.check_all([run])):
        with pytest.raises(Closed):
            ask(PureGuarantee("0.1"))
    (told,) = session.scopes
    assert told.closed
    assert told.remaining == mine.remaining
    assert session.affords(Count(), using=TENTH) == 9
    # Once the name is another scope's, nothing is told of this one any more.
    again = session.scope("s", "0.2")
    for ask in would_be(mine):
        with pytest.raises(Closed):
            ask()
    assert repr(mine) == "Scope(closed)"
    assert again.affords(Count(), using=TENTH) == 2


@needs_fork
@pytest.mark.parametrize("durable", [False, True])
@pytest.mark.parametrize("kind", ["session", "scope", "part"])
def test_a_forked_process_accepts_nothing_and_tells_what_was_spent(kind, durable, tmp_path):
    session = opened(tmp_path / "spent.db" if durable else None)
    with asked(session, kind) as (desk, _):
        before = desk.spent, session.history, session.readings("1e-9"), session.scopes

        def child():
            refused(desk)
            now = desk.spent, session.history, session.readings("1e-9"), session.scopes
            assert now == before
            assert "spent" in repr(desk)

        assert in_a_child(child) == 0
        assert desk.affords(Count(), using=TENTH) in {4, 9}
        desk.answer(Count(), using=TENTH)


def closing_scope(session, scope):
    del session
    scope.close()


def closing_session(session, scope):
    del scope
    session.close()


def renaming(session, scope):
    """Another scope gets the name."""
    scope.close()
    KEPT.append(session.scope("s", "0.2"))


def spending(session, scope):
    scope.answer(Count(), using=TENTH)
    session.answer(Count(), using=TENTH)


def reserving(session, scope):
    del scope
    KEPT.append(session.scope("another", "0.4", reserve=True))


def ending(session, scope):
    """A reserve of somebody else ends."""
    del session, scope
    KEPT.clear()


KEPT = []
EVENTS = [closing_scope, closing_session, renaming, spending, reserving, ending]
DOORS = {
    "affords": lambda desk: desk.affords(Count(), using=TENTH),
    "remaining": lambda desk: desk.remaining,
    "quote": lambda desk: desk.quote(Count(), using=TENTH).at_most,
    "plan": lambda desk: [plan.cost for plan in desk.plan(Count(), error=0.1)],
    "spent": lambda desk: desk.spent,
    "text": repr,
}


def given(door, desk):
    """What a door gives, or that it is closed."""
    try:
        return door(desk)
    except Closed:
        return Closed


@pytest.mark.parametrize("durable", [False, pytest.param(True, marks=pytest.mark.audit)])
@pytest.mark.parametrize("event", EVENTS, ids=lambda event: event.__name__)
@pytest.mark.parametrize("door", DOORS)
def test_whatever_happens_between_two_looks_a_door_tells_of_before_or_after(
    door, event, durable, tmp_path, monkeypatch
):
    real = SessionLedger.read
    for look in range(1, 4):
        for own in (False, True):
            path = tmp_path / f"{look}{own}.db" if durable else None
            KEPT.clear()
            session = opened(path)
            KEPT.append(session.scope("other", "0.1", reserve=True))
            scope = session.scope("s", "0.5", reserve=True)
            desk = scope if own else session
            looks = 0

            def read(keeper, session=session, scope=scope, at=look):
                nonlocal looks
                looks += 1
                if looks == at:
                    # As another thread might, between two looks of this one.
                    event(session, scope)
                return real(keeper)

            before = given(DOORS[door], desk)
            monkeypatch.setattr(SessionLedger, "read", read)
            met = given(DOORS[door], desk)
            monkeypatch.setattr(SessionLedger, "read", real)
            if looks < look:
                event(session, scope)
            after = given(DOORS[door], desk)
            if door == "text":
                assert str(met).startswith(("Scope(", "Session("))
            else:
                assert met in (before, after)
            session.close()
            KEPT.clear()


@needs_fork
def test_what_another_process_spends_is_counted(tmp_path):
    path = tmp_path / "spent.db"
    session = opened(path)
    scope = session.scope("s", "0.5", reserve=True)

    def work():
        own = opened(path)
        told = own.affords(Count(), using=TENTH)
        for _ in range(told):
            own.answer(Count(), using=TENTH)
        same = own.scope("s", "0.5", reserve=True)
        same.answer(Count(), using=TENTH)
        left = [desk.affords(Count(), using=TENTH) for desk in (own, same)]
        assert (told, left) == (5, [0, 4])

    assert in_a_child(work) == 0
    assert session.affords(Count(), using=TENTH) == 0
    assert scope.affords(Count(), using=TENTH) == 4
    assert scope.remaining.epsilon == scope.remaining.kept_epsilon == Fraction(2, 5)
    scope.close()
    assert session.affords(Count(), using=TENTH) == 4
