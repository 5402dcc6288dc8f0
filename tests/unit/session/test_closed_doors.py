"""After closing, and in a forked process: nothing would be accepted, and what was spent is told."""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from fractions import Fraction
from pathlib import Path

import pytest

from dpsdk import Budget, Domain, Integer, PrivateData, Session
from dpsdk.accounting import BasicComposition, PureGuarantee, SQLiteLedger
from dpsdk.errors import Closed
from dpsdk.mechanisms import Laplace
from dpsdk.queries import Count
from dpsdk.session.desk import Desk

DATA = PrivateData.from_columns({"age": [1, 2, 2]}, Domain(Integer("age", 1, 4)), name="ages")
TENTH = Laplace("0.1")


def opened(path: Path | None = None) -> Session:
    ledger = None if path is None else SQLiteLedger(path, allow_network=True)
    return Session(DATA, Budget(1), composition=BasicComposition(), ledger=ledger)


def would_be(desk: Desk) -> list[Callable[[], object]]:
    """Every door that says what would be accepted."""
    return [
        lambda: desk.answer(Count(), using=TENTH),
        lambda: desk.affords(Count(), using=TENTH),
        lambda: desk.quote(Count(), using=TENTH),
        lambda: desk.plan(Count(), alpha=0.1),
        lambda: desk.plan(Count(), budget=Budget("0.1")),
    ]


def refused(desk: Desk) -> None:
    for ask in would_be(desk):
        with pytest.raises(Closed):
            ask()
    remaining = desk.remaining
    assert (remaining.epsilon, remaining.rho, remaining.kept_epsilon) == (0, 0, None)
    assert str(remaining).endswith("room for no run")


@contextmanager
def asked(session: Session, kind: str) -> Iterator[tuple[Desk, Callable[[], None]]]:
    """A desk of a kind that has answered once, and what closes it."""
    if kind == "session":
        desk: Desk = session
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
def test_what_is_closed_accepts_nothing_and_tells_what_was_spent(
    kind: str, durable: bool, tmp_path: Path
):
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


def test_a_scope_that_another_session_closed_accepts_nothing(tmp_path: Path):
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


def in_a_child(work: Callable[[], None]) -> bool:
    """Whether some work was done in a forked process."""
    child = os.fork()
    if child == 0:
        try:
            work()
        except BaseException:
            os._exit(1)
        os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
@pytest.mark.parametrize("durable", [False, True])
@pytest.mark.parametrize("kind", ["session", "scope", "part"])
def test_a_forked_process_accepts_nothing_and_tells_what_was_spent(
    kind: str, durable: bool, tmp_path: Path
):
    session = opened(tmp_path / "spent.db" if durable else None)
    with asked(session, kind) as (desk, _):
        before = desk.spent, session.history, session.readings("1e-9"), session.scopes

        def child() -> None:
            refused(desk)
            now = desk.spent, session.history, session.readings("1e-9"), session.scopes
            assert now == before
            assert "spent" in repr(desk)

        assert in_a_child(child)
        assert desk.affords(Count(), using=TENTH) in {4, 9}
        desk.answer(Count(), using=TENTH)
