"""What becomes of the books: charges, caps and divisions, as pure functions.

Every function takes books and gives books, or says that something does not fit.
docs/explanation/proofs/scopes.md has the proofs.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from itertools import chain
from typing import NamedTuple

from dpsdk.accounting.budget import Budget
from dpsdk.accounting.declared.anytime import Anytime
from dpsdk.accounting.filters.composition import (
    Composition,
    State,
    exhausted,
    pattern,
    serves,
    serving,
)
from dpsdk.accounting.guarantee import Guarantee, GuaranteeByPeriod
from dpsdk.accounting.ledger.accounts import ACCOUNT_LIMIT, Account
from dpsdk.accounting.ledger.binding import Binding, Dataset
from dpsdk.accounting.ledger.books import Books, bundles_of, reserved_states, steps_of
from dpsdk.accounting.ledger.charge import SESSION, Payer
from dpsdk.accounting.ledger.lines import Division, Line, Lines, advance, advance_all, essential
from dpsdk.accounting.ledger.timeline import EVER, Piece, Timeline, merged, shares_of
from dpsdk.errors import InvalidArgument, TooLarge

__all__ = [
    "Refusal",
    "begin_books",
    "charge_books",
    "close_account",
    "divide_books",
    "drop_account",
    "forget_accounts",
    "merge_books",
    "open_account",
]


class Refusal(NamedTuple):
    """Why a request was refused, and by which period first, if the table has any."""

    account: int | None
    reserved: bool = False
    period: int | None = None


def begin_books(
    dataset: Dataset, budget: Budget, composition: Composition, anytime: Anytime | None
) -> Books:
    """The books of a ledger's first session."""
    start = composition.begin(budget)
    binding = Binding(dataset.bound, budget, composition, start, anytime)
    if dataset.periods:
        return Books(binding, sessions=1, timeline=Timeline((), (Line(start),)))
    return Books(binding, (Line(start),), sessions=1)


def charge_books(
    composition: Composition, books: Books, payer: Payer, runs: Sequence[Guarantee]
) -> Books | Refusal:
    """The books after some runs by a payer, all of them or none.

    The payer's accounts must be open, and the division that it names must be the open one.
    """
    if books.timeline is not None:
        return _charge_periods(composition, books, books.timeline, payer, runs)
    if any(isinstance(run, GuaranteeByPeriod) for run in runs):
        raise InvalidArgument("guarantee", "of a table without periods", "one told by period")
    binding, lines, division, accounts, count, sessions, _ = books
    count += len(runs)
    if payer.accounts:
        changed = dict(accounts)
        for number in payer.accounts:
            account = accounts[number]
            line = advance(composition, account.line, runs)
            if line is None:
                return Refusal(number)
            changed[number] = account._replace(line=line, runs=account.runs + len(runs))
        accounts = changed
    reserves: Sequence[State] = ()
    if accounts:
        reserves = [account.line.state for account in accounts.values() if account.reserve]
    if division is None:
        after = advance_all(composition, lines, runs)
        if after is None:
            return Refusal(None)
        if reserves and not _serve(after, reserves):
            return Refusal(None, reserved=True)
        return Books(binding, after, None, accounts, count, sessions)
    if payer.part is not None:
        division = division.asked(payer.part)
    became: dict[int, Lines] = {}
    for number in division.concerned(payer.part):
        after = advance_all(composition, division.bundles[number], runs)
        if after is None:
            return Refusal(None)
        if reserves and not _serve(after, reserves):
            return Refusal(None, reserved=True)
        became[number] = after
    division = division.charged(payer.part, became).narrowed(lambda state: _alike(state, reserves))
    return Books(binding, (), division, accounts, count, sessions)


def _charge_periods(
    composition: Composition,
    books: Books,
    timeline: Timeline,
    payer: Payer,
    runs: Sequence[Guarantee],
) -> Books | Refusal:
    """The books after runs that each period of the desk pays as far as it was touched.

    Each step is charged as the books of a table would be in which nobody tells periods apart.
    """
    if payer.periods is None:
        raise InvalidArgument("payer", "one of a range of periods", "one of none")
    plain = Payer(payer.accounts)
    pieces: list[Piece] = []
    paid: dict[int, list[Piece]] = {number: [] for number in payer.accounts}
    known: dict[Hashable, Books | Refusal] = {}
    for first, last, share in shares_of([(run, 1) for run in runs], payer.periods):
        asked = tuple([run for run, _ in share])
        touched = payer._replace(periods=(first, last))
        for low, high, view in steps_of(books, touched):
            key = view.lines, asked, tuple(view.accounts.values())
            after = known.get(key)
            if after is None:
                after = known[key] = charge_books(composition, view, plain, asked)
            if isinstance(after, Refusal):
                return after._replace(period=low)
            pieces.append((low, high, after.lines[0]))
            for number, own in paid.items():
                own.append((low, high, after.accounts[number].line))
    accounts = books.accounts
    if paid:
        changed = dict(accounts)
        for number, own in paid.items():
            account = accounts[number]
            known_line = account.timeline or Timeline((), (account.line,))
            after_all = merged(known_line.replaced(own))
            runs_then = account.runs + len(runs)
            changed[number] = account._replace(timeline=after_all, runs=runs_then)
        accounts = changed
    after_books = books._replace(accounts=accounts, runs=books.runs + len(runs))

    def serve(first: int, last: int, line: Line) -> bool:
        views = steps_of(after_books, Payer(periods=(first, last)))
        return all(_serve((line,), reserved_states(view)) for *_, view in views)

    return after_books._replace(timeline=merged(timeline.replaced(pieces), serve))


def _serve(lines: Lines, reserves: Sequence[State]) -> bool:
    return all(serves(line.state, reserves) for line in lines)


def _alike(state: State, reserves: Sequence[State]) -> Hashable:
    """The parts that mergeable states share: open members, and those that serve."""
    return pattern(state), pattern(serving(state, [state], reserves)) if reserves else ()


def open_account(books: Books, number: int, account: Account) -> Books | Refusal:
    """The books with a new account; set aside, if that can be held, in the members that can."""
    if len(books.accounts) >= ACCOUNT_LIMIT:
        needed, advice = len(books.accounts) + 1, "close scopes and let go of them"
        raise TooLarge("the books", needed, ACCOUNT_LIMIT, "scopes at a time", advice)
    if books.timeline is not None:
        return _open_by_period(books, number, account)
    if account.reserve:
        state = account.line.state
        reserves = [*reserved_states(books), state]
        bundles = bundles_of(books, SESSION)
        state = serving(state, [line.state for line in chain.from_iterable(bundles)], reserves)
        reserves[-1] = state
        if not all(_serve(lines, reserves) for lines in bundles):
            return Refusal(None, reserved=True)
        account = account._replace(line=Line(state))
    return books._replace(accounts={**books.accounts, number: account})


def _open_by_period(books: Books, number: int, account: Account) -> Books | Refusal:
    """The books with a new account, which in each period from its first on is one of its own.

    Before its first period it is spent, and nothing is set aside.
    """
    pieces: list[Piece] = []
    since = EVER[0] if account.since is None else account.since
    if account.since is not None:
        before = account.line._replace(state=exhausted(account.line.state))
        pieces.append((EVER[0], since - 1, before))
    if not account.reserve:
        pieces.append((since, EVER[1], account.line))
    else:
        for low, high, view in steps_of(books, Payer(periods=(since, EVER[1]))):
            after = open_account(view, number, account)
            if isinstance(after, Refusal):
                return after._replace(period=low)
            pieces.append((low, high, after.accounts[number].line))
    account = account._replace(timeline=Timeline.of(pieces))
    return books._replace(accounts={**books.accounts, number: account})


def forget_accounts(books: Books, name: str) -> Books:
    """The books without closed accounts of a name; without any closed one, if there are too many.

    For books that outlive their readers. What lay within an account that is not
    there any more goes as well.
    """
    full = len(books.accounts) >= ACCOUNT_LIMIT
    kept = {
        number: account
        for number, account in books.accounts.items()
        if not account.closed or not (full or account.name == name)
    }
    kept = {
        number: account
        for number, account in kept.items()
        if all(outer in kept for outer in account.outer)
    }
    return books._replace(accounts=kept) if len(kept) < len(books.accounts) else books


def close_account(books: Books, number: int) -> Books:
    """The books with an account closed, and what it had set aside given back."""
    account = books.accounts.get(number)
    if account is None or account.closed:
        return books
    changed = account._replace(closed=True, reserve=False)
    return books._replace(accounts={**books.accounts, number: changed})


def drop_account(books: Books, number: int) -> Books:
    """The books without an account that nobody can see any more."""
    if number not in books.accounts:
        return books
    kept = {other: account for other, account in books.accounts.items() if other != number}
    return books._replace(accounts=kept)


def divide_books(books: Books, generation: int, parts: int, *, moves: bool) -> Books | None:
    """The books of a table divided into so many parts; None if it is divided already."""
    if books.timeline is not None:
        raise InvalidArgument("odometer", "that of a table without periods", "one with periods")
    if books.division is not None:
        return None
    division = Division.begin(generation, parts, books.lines, moves=moves)
    return books._replace(lines=(), division=division)


def merge_books(books: Books, generation: int) -> Books:
    """The books after the end of a division; unchanged if that is not the open one."""
    division = books.division
    if division is None or division.generation != generation:
        return books
    reserves = reserved_states(books)
    lines = essential(chain.from_iterable(division.bundles), lambda state: _alike(state, reserves))
    return books._replace(lines=lines, division=None)
