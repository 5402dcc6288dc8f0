"""Accounts: the spending under one cap, as the books of a table keep it."""

from __future__ import annotations

from collections.abc import Mapping
from operator import gt
from typing import NamedTuple

from dpsdk.accounting.filters.composition import STATE, State, is_open
from dpsdk.accounting.ledger.lines import LINE, Line, worst_line
from dpsdk.accounting.ledger.timeline import TIMELINE, Timeline
from dpsdk.codec import (
    FLAG,
    INTEGER,
    JSON,
    NATURAL,
    TEXT,
    Codebook,
    ListOf,
    Member,
    Nested,
    OrNone,
    Plain,
    written,
)
from dpsdk.errors import RecordError

__all__ = ["ACCOUNTS", "ACCOUNT_LIMIT", "Account", "begins", "check_line", "shaped"]

ACCOUNT_LIMIT = 2**12
"""So many scopes can be open at a time, or closed and still held."""

_LIMITS = 1000

_DEEPEST = 64
"""So deep may scopes lie within scopes for books to be written."""


@written(
    "account",
    {
        "name": TEXT,
        "start": STATE,
        "outer": ListOf(NATURAL, most=_DEEPEST),
        "line": LINE,
        "runs": NATURAL,
        "reserve": FLAG,
        "closed": FLAG,
        # Of tables without periods they are not written.
        "timeline": Member(OrNone(TIMELINE), None, quiet=True),
        "since": Member(OrNone(INTEGER), None, quiet=True),
    },
    public=False,
)
class Account(NamedTuple):
    """The spending under one cap.

    Parameters
    ----------
    name
        What refusals call it; public.
    start
        The cap: the filter's state when nothing was charged.
    outer
        The accounts that pay with it.
    line
        The filter's state, begun with the cap.
    runs
        How many were charged.
    reserve
        Whether what the cap still allows is set aside.
    closed
        Whether nothing more may be charged.
    timeline
        The filter's state in each period, instead of a line, where the table has periods.
    since
        The first period that may be charged, and in which the cap is set aside; None without one.
    """

    name: str
    start: State
    outer: tuple[int, ...]
    line: Line
    runs: int = 0
    reserve: bool = False
    closed: bool = False
    timeline: Timeline | None = None
    since: int | None = None

    @property
    def furthest(self) -> Line:
        """A line at least as far spent as those of all periods."""
        return self.line if self.timeline is None else worst_line(self.timeline.lines)


@written(
    "numbered", {"number": NATURAL, "account": Nested[Account]("an account", Account)}, public=False
)
class _Numbered(NamedTuple):
    number: int
    account: Account


class _Accounts:
    """All accounts, each with its number."""

    _items = ListOf(Nested[_Numbered]("an account and its number", _Numbered), most=ACCOUNT_LIMIT)

    def write(self, value: Mapping[int, Account], path: str, codebook: Codebook, /) -> Plain:
        items = [_Numbered(number, account) for number, account in sorted(value.items())]
        return self._items.write(items, path, codebook)

    def read(self, plain: Plain, path: str, codebook: Codebook, /) -> Mapping[int, Account]:
        items = self._items.read(plain, path, codebook)
        accounts = dict(items)
        if len(accounts) != len(items):
            raise RecordError(path, "accounts of different numbers", "one number twice")
        return accounts

    def schema(self, codebook: Codebook, /) -> JSON:
        return self._items.schema(codebook)


ACCOUNTS = _Accounts()
"""All accounts by number, as a member of written forms."""


def shaped(state: State, start: State) -> bool:
    """True if two states have as many axes and members, also within members that are open."""
    if len(state.limit) != len(start.limit) or len(state.parts) != len(start.parts):
        return False
    pairs = zip(state.parts, start.parts, strict=True)
    return all(shaped(a, b) for a, b in pairs if is_open(a) and is_open(b))


def begins(start: State, known: State) -> bool:
    """True if a state may be a beginning: nothing is spent, and limits are not above the known."""
    limits = zip(start.limit, known.limit, strict=False)
    pairs = zip(start.parts, known.parts, strict=False)
    return (
        shaped(start, known)
        and not any(start.spent)
        and all(_LIMITS * mine <= (_LIMITS + 1) * theirs for mine, theirs in limits)
        and all(begins(a, b) if is_open(a) and is_open(b) else a == b for a, b in pairs)
    )


def check_line(line: Line, start: State, where: str) -> None:
    """Refuse a line that charges cannot have led to from the beginning."""
    if min(line.epsilon or 0, line.rho) < 0:
        raise RecordError(where, "of sums that are not negative", "others")
    _check(line.state, start, where)


def _check(state: State, start: State, where: str) -> None:
    """Refuse a state that charges cannot have led to from the beginning."""
    within = len(state.parts) == len(start.parts) and (state.limit, state.reach) == (
        start.limit,
        start.reach,
    )
    spent = len(state.spent) == len(state.limit) and min(state.spent, default=0) >= 0
    if not within or not spent or any(map(gt, state.spent, state.limit)):
        raise RecordError(where, "within the limits of the budget", "others")
    for part, first in zip(state.parts, start.parts, strict=True):
        if is_open(part) and is_open(first):
            _check(part, first, where)
        elif part is not None and part != first:
            raise RecordError(where, "of the members of the composition", "others")
