"""Odometers within an odometer: a capped share of a budget, and a part of a partitioned table.

They are views of one session's books: each charge is decided and taken on all that it concerns at
once, so that whatever an inner odometer accepted is also within the budget.
docs/explanation/proofs/scopes.md has the proofs.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from fractions import Fraction
from functools import partial
from typing import Self

from dpsdk._checks import shown, to_fraction
from dpsdk.accounting.budget import Budget
from dpsdk.accounting.filters.composition import Runs, State, is_open, share_of
from dpsdk.accounting.ledger.base import Decision
from dpsdk.accounting.ledger.bookkeeping import (
    Refusal,
    close_account,
    drop_account,
    forget_accounts,
    open_account,
)
from dpsdk.accounting.ledger.books import (
    Account,
    Books,
    find_account,
    lasting_state,
    lines_of,
    usable_states,
    views_of,
)
from dpsdk.accounting.ledger.charge import SESSION, Charge, Payer
from dpsdk.accounting.ledger.lines import Line, worst_line
from dpsdk.accounting.ledger.timeline import EVER, check_range
from dpsdk.accounting.numbers import as_text
from dpsdk.accounting.odometer import Odometer
from dpsdk.accounting.refusals import refusal
from dpsdk.accounting.spent import Remaining, ScopeStatement, Spent, without_runs
from dpsdk.errors import BudgetExceeded, Closed, InvalidArgument, LedgerConflict
from dpsdk.typing import Real

__all__ = ["PartOdometer", "ScopeOdometer"]

_CLOSE = 10**9


class ScopeOdometer(Odometer):
    """A cap within the budget of another odometer: a charge must fit both.

    On a table with periods the cap is one in each, of those from `since` on. Nothing is set aside
    unless `reserve`: then other charges leave to the scope what its cap still
    allows. Of several counts of an `AnyOf`, one in which all reserves can be spent is always left.

    Scopes of one name are one, for all sessions on a ledger: opening one that is open goes on
    with what it has spent and reserved, and `close` is for all of them. In memory it also ends when
    nobody holds it any more; in a durable ledger it stays until `close`, even after crashes. A
    name that was closed is free for another scope, which the numbers of accounts tell apart.
    """

    def __init__(
        self,
        outer: Odometer,
        name: str,
        cap: Budget | Real,
        *,
        reserve: bool = False,
        since: int | None = None,
    ) -> None:
        if reserve and outer._payer._replace(periods=None) != SESSION:
            raise InvalidArgument("reserve", "asked of a session itself", "a scope within a scope")
        self._view(outer, name)
        self._holder: object = None
        fresh = next(self._numbers)
        # A scope that was dropped gives back what it had set aside.
        own = self._ledger.hold(fresh, partial(drop_account, number=fresh))
        if isinstance(cap, Budget):
            self._budget = cap
            self._cap = str(cap)
            self._begun = self._composition.begin(cap)
        else:
            share = _share(cap)
            self._cap = f"{as_text(share * 100)}% of {outer._budget}"
            self._begun = share_of(outer._begun, share)
        paying = outer._payer.accounts
        if since is not None:
            outer._desk()
            since, _ = check_range((since, since))
        own_line = Line(self._begun)
        account = Account(name, self._begun, paying, own_line, reserve=reserve, since=since)
        found, holder = fresh, own

        def decide(books: Books) -> Decision:
            nonlocal found, holder
            found, holder = fresh, own
            if self._ledger.durable:
                books = forget_accounts(books, name)
            known = find_account(books, name)
            if known is not None:
                others = own if self._ledger.durable else self._ledger.holder(known)
                if others is not None:
                    self._check_same(books, books.accounts[known], account)
                    found, holder = known, others
                    return Decision(books)
                # Its holder is gone since this decision began.
                books = drop_account(books, known)
            after = open_account(books, fresh, account)
            if isinstance(after, Refusal):
                asked = f"a reserve of {self._cap} for {self._title}"
                spent, left = str(outer._spent(books)), str(outer._remaining(books))
                raise BudgetExceeded(asked, spent, left, period=after.period)
            return Decision(after)

        self._ledger.transact(decide)
        self._holder = holder
        self._payer = outer._payer._replace(accounts=(found, *paying))

    def _view(self, outer: Odometer, name: str) -> None:
        vars(self).update(vars(outer))
        self._outer = outer
        self._anytime = None
        self.scope = name

    @classmethod
    def within(cls, odometer: Odometer) -> tuple[ScopeStatement, ...]:
        """The spending of every scope within an odometer, by one look at the books.

        Scopes within scopes are among them, and those that other sessions on the ledger have
        opened. Of a scope that is closed nothing is told once it is forgotten.
        """
        books = odometer._ledger.read()
        own = odometer._payer.accounts
        views: dict[int, ScopeOdometer] = {}
        for number in sorted(books.accounts, key=lambda one: (len(books.accounts[one].outer), one)):
            account = books.accounts[number]
            outer = odometer if account.outer == own else views.get(next(iter(account.outer), 0))
            if outer is None:
                continue
            view = views[number] = cls.__new__(cls)
            view._view(outer, account.name)
            view._budget = outer._budget
            view._begun = account.start
            view._cap = _cap_in_words(account.start, outer._begun, outer.budget)
            view._payer = odometer._payer._replace(accounts=(number, *account.outer))
        return tuple(view._statement(books) for _, view in sorted(views.items()))

    @classmethod
    def begun(cls, odometer: Odometer, name: str) -> int | None:
        """The period from which on an open scope of a name holds; None if there is none."""
        books = odometer._ledger.read()
        number = find_account(books, name)
        return None if number is None else books.accounts[number].since

    def _statement(self, books: Books) -> ScopeStatement:
        account = self._account(books)
        first, last = self._payer.periods or EVER
        if account.since is not None and first < account.since <= last:
            return self.between(account.since, last)._statement(books)
        spent, remaining, over = self._spent(books), self._remaining(books), self._over(books)
        left = without_runs(remaining) if over else remaining
        return ScopeStatement(self.scope, self._cap, spent, left, account.reserve, over)

    @property
    def cap(self) -> str:
        """The cap in words: a budget, or a share of the outer one."""
        return self._cap

    @property
    def outer(self) -> Odometer:
        return self._outer

    def between(self, first: int, last: int) -> Self:
        view = super().between(first, last)
        view._outer = self._outer.between(first, last)
        return view

    def close(self) -> None:
        """Charge nothing more, and give back what was reserved and not spent.

        It does not wait where the ledger is in memory.
        """
        self._ledger.later(partial(close_account, number=self._payer.accounts[0]))

    @property
    def _title(self) -> str:
        return f"scope {shown(self.scope)} ({self._cap})"

    def _account(self, books: Books) -> Account:
        account = books.accounts.get(self._payer.accounts[0])
        if account is None:  # closed in a durable ledger, and its name used again
            raise Closed(self._title)
        return account

    def _check(self, books: Books) -> None:
        if self._account(books).closed:
            raise Closed(self._title)
        self._outer._check(books)

    def _over(self, books: Books) -> bool:
        try:
            self._check(books)
        except Closed:
            return True
        return False

    def _check_same(self, books: Books, account: Account, asked: Account) -> None:
        """Refuse to go on with a scope of another cap."""
        what = f"scope {shown(account.name)}"
        if account.outer != asked.outer:
            bound, other = _around(books, account), _around(books, asked)
            raise LedgerConflict(what, bound, f"one of that name {other}")
        if account.reserve != asked.reserve:
            bound, other = ("with", "without") if account.reserve else ("without", "with")
            raise LedgerConflict(what, f"{bound} a reserve", f"one {other} a reserve")
        if account.since != asked.since:
            bound, other = (_since(one.since) for one in (account, asked))
            raise LedgerConflict(what, bound, f"one {other}")
        if not _same_cap(account.start, asked.start):
            bound = _cap_in_words(account.start, self._outer._begun, self._outer.budget)
            known = "another cap" if bound == self._cap else f"the cap {bound}"
            raise LedgerConflict(what, f"with {known}", f"the cap {self._cap}")

    def _accounts(self, books: Books) -> list[Account]:
        return [self._account(books), *self._outer._accounts(books)]

    def _line(self, books: Books) -> Line:
        views = views_of(books, self._payer)
        return worst_line([self._account(view).line for view in views])

    def _charges(self, books: Books) -> Sequence[Charge]:
        number = self._payer.accounts[0]
        return [one for one in super()._charges(books) if number in one.payer.accounts]

    def _spent(self, books: Books) -> Spent:
        lines = [
            self._account(view).line._replace(state=state)
            for view in views_of(books, self._payer)
            for state in self._shown(view)
        ]
        return self._summed(lines, self._account(books).runs, self._title)

    def _shown(self, books: Books) -> list[State]:
        """The cap's state without the counts that the session has closed: those serve nobody."""
        states = [line.state for line in lines_of(books, SESSION)]
        return [_common(state, states) for state in usable_states(books, self._account(books))]

    def _remaining_in(self, books: Books) -> Remaining:
        account, composition = self._account(books), self._composition
        fraction = 1.0 - max(map(composition.fraction, self._shown(books)))
        largest = self._room(books).largest()
        if not account.reserve:
            return Remaining(fraction, *largest)
        kept, none = _alone(lasting_state(books, account.line.state)), Fraction(0)
        return Remaining(
            fraction,
            *largest,
            min(map(composition.largest_epsilon, kept), default=none),
            min(map(composition.largest_rho, kept), default=none),
        )

    def _refusal_in(self, why: Refusal, books: Books, runs: Runs) -> BudgetExceeded:
        refusing: Odometer = self
        while isinstance(refusing, ScopeOdometer) and refusing._payer.accounts[0] != why.account:
            refusing = refusing._outer
        spent, remaining = refusing._spent(books), refusing._remaining(books)
        states, within = self._states(books), ""
        if isinstance(refusing, ScopeOdometer):
            states, within = (refusing._account(books).line.state,), refusing._title
        return refusal(
            self._composition,
            states,
            runs,
            spent,
            remaining,
            within=within,
            reserved=why.reserved,
        )


class PartOdometer(Odometer):
    """Charges that concern some kinds of neighbours alone: those that differ in one part."""

    def __init__(self, outer: Odometer, name: str, generation: int, part: int) -> None:
        vars(self).update(vars(outer))
        self._payer = Payer((), generation, part)
        self._name = name

    def _check(self, books: Books) -> None:
        division = books.division
        if division is None or division.generation != self._payer.generation:
            raise Closed(self._name)

    def _spent(self, books: Books) -> Spent:
        count = sum(one.payer == self._payer for one in self._charges(books))
        return self._summed(lines_of(books, self._payer), count)


def _around(books: Books, account: Account) -> str:
    """Within which scopes one is, the nearest first."""
    known = [books.accounts[one].name for one in account.outer if one in books.accounts]
    return (
        f"within scope {' within scope '.join(map(shown, known))}" if known else "within no other"
    )


def _since(period: int | None) -> str:
    return "from the beginning" if period is None else f"from period {period} on"


def _same_cap(one: State, other: State) -> bool:
    """True if two caps are one but for last digits, which machines may work out differently."""
    if len(one.limit) != len(other.limit) or len(one.parts) != len(other.parts):
        return False
    limits = zip(one.limit, other.limit, strict=True)
    return all(_CLOSE * abs(mine - theirs) <= theirs for mine, theirs in limits) and all(
        _same_cap(mine, theirs) if is_open(mine) and is_open(theirs) else mine == theirs
        for mine, theirs in zip(one.parts, other.parts, strict=True)
    )


def _cap_in_words(start: State, begun: State, budget: Budget) -> str:
    """A cap as a share of what pays, if it is one share of every limit."""
    shares = [Fraction(mine, theirs) for mine, theirs in _limits(start, begun) if theirs]
    if not shares or max(shares) - min(shares) > Fraction(1, _CLOSE):
        return f"a part of {budget}"
    return f"{as_text(round(shares[0] * _CLOSE) * Fraction(100, _CLOSE))}% of {budget}"


def _limits(one: State, other: State) -> Iterator[tuple[int, int]]:
    yield from zip(one.limit, other.limit, strict=True)
    for mine, theirs in zip(one.parts, other.parts, strict=True):
        if is_open(mine) and is_open(theirs):
            yield from _limits(mine, theirs)


def _share(value: Real) -> Fraction:
    expected = "above 0 and at most 1"
    share = to_fraction("share", value, expected)
    if not 0 < share <= 1:
        raise InvalidArgument("share", expected, shown(value))
    return share


def _common(state: State, others: Sequence[State]) -> State:
    """A state without the members that are closed in every other one."""
    parts: list[State | None] = []
    for place, part in enumerate(state.parts):
        theirs = [one for other in others if (one := other.parts[place]) is not None]
        if not is_open(part):
            parts.append(part)
        else:
            parts.append(_common(part, theirs) if theirs else None)
    return state._replace(parts=tuple(parts))


def _alone(state: State) -> list[State]:
    """The state once for each open member, with all others closed."""
    if not state.parts:
        return [state]
    closed_all = (None,) * len(state.parts)
    return [
        state._replace(parts=(*closed_all[:place], one, *closed_all[place + 1 :]))
        for place, part in enumerate(state.parts)
        if is_open(part)
        for one in _alone(part)
    ]
