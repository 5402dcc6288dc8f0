"""The books of a session as one value, and what it says to a payer.

A `Ledger` is what holds them; what becomes of them is in `bookkeeping`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import chain, pairwise
from types import MappingProxyType
from typing import NamedTuple, Self

from dpsdk.accounting.filters.composition import (
    State,
    serving,
)
from dpsdk.accounting.ledger.accounts import (
    ACCOUNTS,
    Account,
    begins,
    check_line,
    shaped,
)
from dpsdk.accounting.ledger.binding import Binding, PeriodsDataset
from dpsdk.accounting.ledger.charge import SESSION, Payer
from dpsdk.accounting.ledger.lines import (
    DIVISION,
    LINES,
    Division,
    Lines,
    beyond,
    check_division,
)
from dpsdk.accounting.ledger.timeline import (
    EVER,
    TIMELINE,
    Timeline,
    check_timeline,
)
from dpsdk.codec import JSON, NATURAL, Member, Nested, OrNone, from_record, to_record, written
from dpsdk.errors import InvalidArgument, RecordError

__all__ = [
    "Account",
    "Books",
    "check_books",
    "bundles_of",
    "reserved_states",
    "steps_of",
    "views_of",
    "reserved_by_others",
    "lasting_state",
    "lines_of",
    "find_account",
    "usable_states",
]


class Books(NamedTuple):
    """One moment of what a ledger remembers, replaced as a whole so that readers need no lock.

    Its size does not grow with the charges. `Books()` are the empty books of a new ledger.

    Parameters
    ----------
    binding
        What they are kept for; None in empty books.
    lines
        What the runs on the whole table amount to, while it is not divided and has no periods.
    division
        What they amount to while it is, instead.
    accounts
        The caps within the budget, by number.
    runs
        How many were charged in all.
    sessions
        How many sessions were opened on them.
    timeline
        What the runs amount to in each period of a table that has any, instead of lines.
    """

    binding: Binding | None = None
    lines: Lines = ()
    division: Division | None = None
    accounts: Mapping[int, Account] = MappingProxyType({})
    runs: int = 0
    sessions: int = 0
    timeline: Timeline | None = None

    def to_record(self) -> JSON:
        """The books as plain data, for a ledger to write.

        Raises `RecordError` if a composition in them is none of the package, or a number too long.
        """
        return to_record(self)

    @classmethod
    def from_record(cls, record: object) -> Self:
        """The books of a record; raises `RecordError` if it is none, or says what no books say."""
        return from_record(cls, record)


def steps_of(books: Books, payer: Payer) -> Iterator[tuple[int, int, Books]]:
    """The periods of a payer's desk, in ranges that are told alike, with the books of each.

    Such books have lines, as those of a table without periods, and those accounts alone that pay or
    have something set aside there.
    """
    timeline, accounts = books.timeline, books.accounts
    if timeline is None:
        raise InvalidArgument("books", "those of a table with periods", "others")
    first, last = payer.periods or EVER
    concerned = {
        number: (account, account.timeline)
        for number, account in accounts.items()
        if account.timeline is not None and (account.reserve or number in payer.accounts)
    }
    common = books._replace(timeline=None)
    if not concerned:
        common = common._replace(accounts={})
        for low, high, line in timeline.steps(first, last):
            yield low, high, common._replace(lines=(line,))
        return
    cuts = {first, last + 1, *timeline.cuts(first, last)}
    cuts.update(*(own.cuts(first, last) for _, own in concerned.values()))
    for low, after in pairwise(sorted(cuts)):
        there = {
            number: account._replace(
                line=own.line(low),
                reserve=account.reserve and (account.since is None or low >= account.since),
                timeline=None,
            )
            for number, (account, own) in concerned.items()
        }
        yield low, after - 1, common._replace(lines=(timeline.line(low),), accounts=there)


def views_of(books: Books, payer: Payer) -> list[Books]:
    """The books of a payer's periods, each once; the books themselves where there are none.

    While nothing is set aside, those are left out that another one is further spent than.
    """
    if books.timeline is None:
        return [books]
    distinct = {(view.lines, *view.accounts.values()): view for *_, view in steps_of(books, payer)}
    if any(account.reserve for account in books.accounts.values()):
        return list(distinct.values())
    kept: list[tuple[Lines, Books]] = []
    for view in distinct.values():
        lines = (*view.lines, *(account.line for account in view.accounts.values()))
        if any(all(map(beyond, other, lines)) for other, _ in kept):
            continue
        kept = [one for one in kept if not all(map(beyond, lines, one[0]))]
        kept.append((lines, view))
    return [view for _, view in kept]


def bundles_of(books: Books, payer: Payer) -> tuple[Lines, ...]:
    """The lines that a run by a payer counts on. Of a division that is over: those of all."""
    if books.timeline is not None:
        return (tuple(dict.fromkeys(books.timeline.lines_in(*(payer.periods or EVER)))),)
    division = books.division
    if division is None:
        return (books.lines,)
    part = payer.part if division.generation == payer.generation else None
    return tuple(division.bundles[number] for number in division.concerned(part))


def lines_of(books: Books, payer: Payer) -> Lines:
    """All lines that a run by a payer counts on."""
    bundles = bundles_of(books, payer)
    return bundles[0] if len(bundles) == 1 else tuple(chain.from_iterable(bundles))


def reserved_states(books: Books) -> list[State]:
    """The states of the caps that are set aside."""
    return [account.line.state for account in books.accounts.values() if account.reserve]


def reserved_by_others(books: Books, payer: Payer) -> list[State]:
    """The states of the caps that are set aside for others than a payer."""
    return [
        account.line.state
        for number, account in books.accounts.items()
        if account.reserve and number not in payer.accounts
    ]


def usable_states(books: Books, account: Account) -> tuple[State, ...]:
    """The state of an account; a cap that is set aside in those members that can serve all that is.

    There is one for each line. What all of these accept is accepted: for each line by some member,
    not always the same.
    """
    state = account.line.state
    if not account.reserve:
        return (state,)
    reserves = reserved_states(books)
    lines = lines_of(books, SESSION)
    return tuple(dict.fromkeys(serving(state, [line.state], reserves) for line in lines))


def lasting_state(books: Books, state: State) -> State:
    """A cap that is set aside, in those members alone that could serve it if nobody else's were."""
    return serving(state, [line.state for line in lines_of(books, SESSION)], [state])


def find_account(books: Books, name: str) -> int | None:
    """The number of the open account of a name, within open ones; None if there is none."""
    accounts = books.accounts
    for number, account in accounts.items():
        if account.name == name and not account.closed:
            outer = [accounts.get(other) for other in account.outer]
            if not any(other is None or other.closed for other in outer):
                return number
    return None


def _books(**read: object) -> Books:
    books = Books(**read)  # type: ignore[arg-type]  # of the types that its fields read
    check_books(books)
    return books


def check_books(books: Books, *, known_start: bool = False) -> None:
    """Refuse books that no charges can have led to."""
    binding = books.binding
    if binding is None:
        if books != Books():
            raise RecordError("Books", "empty, or bound to a table", "neither")
        return
    start = binding.start
    if not known_start and not begins(start, binding.composition.begin(binding.budget)):
        raise RecordError("Books.binding.start", "that of budget and composition", "another")
    by_period = isinstance(binding.dataset, PeriodsDataset)
    if books.division is not None:
        check_division(books.division)
        bundles, alone = books.division.bundles, not by_period and books.timeline is None
    elif books.timeline is not None:
        check_timeline(books.timeline)
        bundles, alone = (books.timeline.lines,), by_period
    else:
        bundles, alone = (books.lines,), not by_period
    if not alone or not all(bundles) or bool(books.lines) is not (bundles[0] is books.lines):
        expected = "there, or of a division or a timeline alone"
        raise RecordError("Books.lines", expected, "neither")
    if not books.sessions:
        raise RecordError("Books.sessions", "at least 1", "0")
    for line in chain.from_iterable(bundles):
        check_line(line, start, "Books.lines")
    for account in books.accounts.values():
        if not shaped(account.start, start):
            raise RecordError("Books.accounts", "caps by the composition", "others")
        lines: Lines = (account.line,)
        if account.timeline is not None:
            check_timeline(account.timeline)
            lines += account.timeline.lines
        if (account.timeline is None) is by_period:
            raise RecordError("Books.accounts", "by period, as the books are", "otherwise")
        for line in lines:
            check_line(line, account.start, "Books.accounts")
        if account.runs > books.runs:
            raise RecordError("Books.accounts", f"of {books.runs} charges at most", "of more")


written(
    "books",
    {
        "binding": OrNone(Nested[Binding]("a binding", Binding)),
        "lines": LINES,
        "division": OrNone(DIVISION),
        "accounts": ACCOUNTS,
        "runs": NATURAL,
        "sessions": NATURAL,
        "timeline": Member(OrNone(TIMELINE), None, quiet=True),
    },
    take=_books,
    public=False,
)(Books)
