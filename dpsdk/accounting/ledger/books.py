"""The books of a session as one value, and the pure functions that say what becomes of them.

Every function takes books and gives books, or says that something does not fit; a `Ledger` is what
holds them. docs/explanation/proofs/scopes.md has the proofs.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from itertools import chain
from typing import NamedTuple

from dpsdk.accounting.filters.comparison import pattern, serves, serving
from dpsdk.accounting.filters.composition import Composition, State
from dpsdk.accounting.guarantee import Guarantee
from dpsdk.accounting.ledger.division import Division
from dpsdk.accounting.ledger.lines import Line, Lines, advanced, all_advanced, essential

__all__ = [
    "SESSION",
    "Account",
    "Books",
    "Misfit",
    "Payer",
    "charged",
    "closed",
    "concerned",
    "divided",
    "dropped",
    "held",
    "held_by_others",
    "lasting",
    "opened",
    "undivided",
    "usable",
]


class Account(NamedTuple):
    """What was spent under one cap.

    Parameters
    ----------
    line
        The filter's state, begun with the cap.
    charges
        The number of runs.
    reserve
        Whether what the cap still allows is set aside.
    closed
        Whether nothing more may be charged.
    """

    line: Line
    charges: int = 0
    reserve: bool = False
    closed: bool = False


class Payer(NamedTuple):
    """On which accounts a run counts, and on which part of a divided table."""

    accounts: tuple[int, ...] = ()
    generation: int = 0
    part: int | None = None


SESSION = Payer()
"""Pays from the whole budget for runs on the whole table."""


class Books(NamedTuple):
    """One moment of a session's accounts, replaced as a whole so that readers need no lock.

    Parameters
    ----------
    lines
        What the runs on the whole table amount to, while it is not divided.
    division
        What they amount to while it is, instead.
    accounts
        The caps within the budget, by number.
    charges
        The number of all runs.
    """

    lines: Lines
    division: Division | None
    accounts: Mapping[int, Account]
    charges: int


class Misfit(NamedTuple):
    """Why a request was refused.

    Parameters
    ----------
    account
        Whose cap it does not fit; None if it does not fit the session.
    reserved
        Whether it would have fitted but for what others have set aside.
    """

    account: int | None
    reserved: bool = False


def concerned(books: Books, payer: Payer) -> tuple[Lines, ...]:
    """The lines that a run by a payer counts on. Of a division that is over: those of all."""
    division = books.division
    if division is None:
        return (books.lines,)
    part = payer.part if division.generation == payer.generation else None
    return tuple(division.bundles[number] for number in division.concerned(part))


def held(books: Books) -> list[State]:
    """The states of the caps that are set aside."""
    return [account.line.state for account in books.accounts.values() if account.reserve]


def held_by_others(books: Books, payer: Payer) -> list[State]:
    """The states of the caps that are set aside for others than a payer."""
    return [
        account.line.state
        for number, account in books.accounts.items()
        if account.reserve and number not in payer.accounts
    ]


def usable(books: Books, state: State) -> tuple[State, ...]:
    """A cap that is set aside, for each line in those members alone that can serve all that is.

    What all of these accept is accepted: for each line by some member, not always the same.
    """
    aside = held(books)
    states = [line.state for line in chain.from_iterable(concerned(books, SESSION))]
    return tuple(dict.fromkeys(serving(state, [one], aside) for one in states))


def lasting(books: Books, state: State) -> State:
    """A cap that is set aside, in those members alone that could serve it if nobody else's were."""
    states = [line.state for line in chain.from_iterable(concerned(books, SESSION))]
    return serving(state, states, [state])


def charged(
    composition: Composition, books: Books, payer: Payer, runs: Sequence[Guarantee]
) -> Books | Misfit:
    """The books after some runs by a payer, all of them or none.

    The payer's accounts must be open, and the division that it names must be the open one.

    Raises
    ------
    UnsupportedGuarantee
        If the composition has no theorem that prices one of the runs.
    """
    accounts = books.accounts
    if payer.accounts:
        changed = dict(accounts)
        for number in payer.accounts:
            account = accounts[number]
            line = advanced(composition, account.line, runs)
            if line is None:
                return Misfit(number)
            changed[number] = account._replace(line=line, charges=account.charges + len(runs))
        accounts = changed
    aside = [account.line.state for account in accounts.values() if account.reserve]
    total = books.charges + len(runs)
    if books.division is None:
        after = all_advanced(composition, books.lines, runs)
        if after is None:
            return Misfit(None)
        if aside and not _serve(after, aside):
            return Misfit(None, reserved=True)
        return Books(after, None, accounts, total)
    division = books.division if payer.part is None else books.division.asked(payer.part)
    became: dict[int, Lines] = {}
    for number in division.concerned(payer.part):
        after = all_advanced(composition, division.bundles[number], runs)
        if after is None:
            return Misfit(None)
        if aside and not _serve(after, aside):
            return Misfit(None, reserved=True)
        became[number] = after
    division = division.charged(payer.part, became).narrowed(lambda state: _alike(state, aside))
    return Books((), division, accounts, total)


def _serve(lines: Lines, aside: Sequence[State]) -> bool:
    return all(serves(line.state, aside) for line in lines)


def _alike(state: State, aside: Sequence[State]) -> Hashable:
    """What must be the same of states that may be merged: open members, and those that serve."""
    return pattern(state), pattern(serving(state, [state], aside)) if aside else ()


def opened(books: Books, number: int, state: State, *, reserve: bool) -> Books | Misfit:
    """The books with a new account; set aside, if that can be held, in the members that can."""
    if reserve:
        aside = [*held(books), state]
        bundles = concerned(books, SESSION)
        state = serving(state, [line.state for line in chain.from_iterable(bundles)], aside)
        aside[-1] = state
        if not all(_serve(lines, aside) for lines in bundles):
            return Misfit(None, reserved=True)
    account = Account(Line(state), reserve=reserve)
    return books._replace(accounts={**books.accounts, number: account})


def closed(books: Books, number: int) -> Books:
    """The books with an account closed, and what it had set aside given back."""
    account = books.accounts.get(number)
    if account is None or account.closed:
        return books
    changed = account._replace(closed=True, reserve=False)
    return books._replace(accounts={**books.accounts, number: changed})


def dropped(books: Books, number: int) -> Books:
    """The books without an account that nobody can see any more."""
    if number not in books.accounts:
        return books
    kept = {other: account for other, account in books.accounts.items() if other != number}
    return books._replace(accounts=kept)


def divided(books: Books, generation: int, parts: int, *, moves: bool) -> Books | None:
    """The books of a table divided into so many parts; None if it is divided already."""
    if books.division is not None:
        return None
    division = Division.begin(generation, parts, books.lines, moves=moves)
    return books._replace(lines=(), division=division)


def undivided(books: Books, generation: int) -> Books:
    """The books after the end of a division; unchanged if that is not the open one."""
    division = books.division
    if division is None or division.generation != generation:
        return books
    aside = held(books)
    lines = essential(chain.from_iterable(division.bundles), lambda state: _alike(state, aside))
    return books._replace(lines=lines, division=None)
