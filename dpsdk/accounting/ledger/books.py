"""The books of a session as one value, and the pure functions that say what becomes of them.

Every function takes books and gives books, or says that something does not fit; a `Ledger` is what
holds them. docs/explanation/proofs/scopes.md has the proofs.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence
from itertools import chain, pairwise
from types import MappingProxyType
from typing import NamedTuple, Self

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
from dpsdk.accounting.ledger.accounts import (
    ACCOUNT_LIMIT,
    ACCOUNTS,
    Account,
    begins,
    check_line,
    shaped,
)
from dpsdk.accounting.ledger.binding import Binding, Dataset, PeriodsDataset
from dpsdk.accounting.ledger.charge import SESSION, Payer
from dpsdk.accounting.ledger.lines import (
    DIVISION,
    LINES,
    Division,
    Line,
    Lines,
    advance,
    advance_all,
    beyond,
    check_division,
    essential,
)
from dpsdk.accounting.ledger.timeline import (
    EVER,
    TIMELINE,
    Piece,
    Timeline,
    check_timeline,
    merged,
    shares_of,
)
from dpsdk.codec import JSON, NATURAL, Member, Nested, OrNone, from_record, to_record, written
from dpsdk.errors import InvalidArgument, RecordError, TooLarge

__all__ = [
    "Account",
    "Books",
    "Refusal",
    "begin_books",
    "charge_books",
    "check_books",
    "close_account",
    "bundles_of",
    "divide_books",
    "drop_account",
    "forget_accounts",
    "reserved_states",
    "steps_of",
    "views_of",
    "reserved_by_others",
    "lasting_state",
    "lines_of",
    "find_account",
    "open_account",
    "merge_books",
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


class Refusal(NamedTuple):
    """Why a request was refused, and by which period first, if the table has any."""

    account: int | None
    reserved: bool = False
    period: int | None = None


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


def begin_books(
    dataset: Dataset, budget: Budget, composition: Composition, anytime: Anytime | None
) -> Books:
    """The books of a ledger's first session."""
    start = composition.begin(budget)
    binding = Binding(dataset.bound, budget, composition, start, anytime)
    if dataset.periods:
        return Books(binding, sessions=1, timeline=Timeline((), (Line(start),)))
    return Books(binding, (Line(start),), sessions=1)


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


def find_account(books: Books, name: str) -> int | None:
    """The number of the open account of a name, within open ones; None if there is none."""
    accounts = books.accounts
    for number, account in accounts.items():
        if account.name == name and not account.closed:
            outer = [accounts.get(other) for other in account.outer]
            if not any(other is None or other.closed for other in outer):
                return number
    return None


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
