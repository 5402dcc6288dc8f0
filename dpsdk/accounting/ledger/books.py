"""The books of a session as one value, and the pure functions that say what becomes of them.

Every function takes books and gives books, or says that something does not fit; a `Ledger` is what
holds them. docs/explanation/proofs/scopes.md has the proofs.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from itertools import chain
from operator import gt
from types import MappingProxyType
from typing import NamedTuple, Self

from dpsdk.accounting.budget import Budget
from dpsdk.accounting.declared.anytime import Anytime
from dpsdk.accounting.filters.composition import (
    STATE,
    Composition,
    State,
    is_open,
    pattern,
    serves,
    serving,
)
from dpsdk.accounting.guarantee import Guarantee
from dpsdk.accounting.ledger.binding import Binding, Dataset
from dpsdk.accounting.ledger.charge import SESSION, Payer
from dpsdk.accounting.ledger.lines import (
    DIVISION,
    LINE,
    LINES,
    Division,
    Line,
    Lines,
    advance,
    advance_all,
    check_division,
    essential,
)
from dpsdk.codec import (
    FLAG,
    JSON,
    NATURAL,
    TEXT,
    Codebook,
    ListOf,
    Nested,
    OrNone,
    Plain,
    from_record,
    to_record,
    written,
)
from dpsdk.errors import RecordError, TooLarge

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
    "reserved_by_others",
    "lasting_state",
    "lines_of",
    "find_account",
    "open_account",
    "merge_books",
    "usable_states",
]

_ACCOUNT_LIMIT = 2**12
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
    """

    name: str
    start: State
    outer: tuple[int, ...]
    line: Line
    runs: int = 0
    reserve: bool = False
    closed: bool = False


class Books(NamedTuple):
    """One moment of what a ledger remembers, replaced as a whole so that readers need no lock.

    Its size does not grow with the charges. `Books()` are the empty books of a new ledger.

    Parameters
    ----------
    binding
        What they are kept for; None in empty books.
    lines
        What the runs on the whole table amount to, while it is not divided.
    division
        What they amount to while it is, instead.
    accounts
        The caps within the budget, by number.
    runs
        How many were charged in all.
    sessions
        How many sessions were opened on them.
    """

    binding: Binding | None = None
    lines: Lines = ()
    division: Division | None = None
    accounts: Mapping[int, Account] = MappingProxyType({})
    runs: int = 0
    sessions: int = 0

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
    """Why a request was refused."""

    account: int | None
    reserved: bool = False


def bundles_of(books: Books, payer: Payer) -> tuple[Lines, ...]:
    """The lines that a run by a payer counts on. Of a division that is over: those of all."""
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
    binding, lines, division, accounts, count, sessions = books
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
    return Books(binding, (Line(start),), sessions=1)


def open_account(books: Books, number: int, account: Account) -> Books | Refusal:
    """The books with a new account; set aside, if that can be held, in the members that can."""
    if len(books.accounts) >= _ACCOUNT_LIMIT:
        needed, advice = len(books.accounts) + 1, "close scopes and let go of them"
        raise TooLarge("the books", needed, _ACCOUNT_LIMIT, "scopes at a time", advice)
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


def forget_accounts(books: Books, name: str) -> Books:
    """The books without closed accounts of a name; without any closed one, if there are too many.

    For books that outlive their readers. What lay within an account that is not
    there any more goes as well.
    """
    full = len(books.accounts) >= _ACCOUNT_LIMIT
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


@written(
    "numbered", {"number": NATURAL, "account": Nested[Account]("an account", Account)}, public=False
)
class _Numbered(NamedTuple):
    number: int
    account: Account


class _Accounts:
    """All accounts, each with its number."""

    _items = ListOf(Nested[_Numbered]("an account and its number", _Numbered), most=_ACCOUNT_LIMIT)

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
    if not known_start and not _begins(start, binding.composition.begin(binding.budget)):
        raise RecordError("Books.binding.start", "that of budget and composition", "another")
    bundles = (books.lines,) if books.division is None else books.division.bundles
    if books.division is not None:
        check_division(books.division)
    if not all(bundles) or (books.division is not None and books.lines):
        raise RecordError("Books.lines", "there, or of a division alone", "neither")
    if not books.sessions:
        raise RecordError("Books.sessions", "at least 1", "0")
    for line in chain.from_iterable(bundles):
        _check_line(line, start, "Books.lines")
    for account in books.accounts.values():
        if not _shaped(account.start, start):
            raise RecordError("Books.accounts", "caps by the composition", "others")
        _check_line(account.line, account.start, "Books.accounts")
        if account.runs > books.runs:
            raise RecordError("Books.accounts", f"of {books.runs} charges at most", "of more")


def _shaped(state: State, start: State) -> bool:
    """True if two states have as many axes and members, also within members that are open."""
    if len(state.limit) != len(start.limit) or len(state.parts) != len(start.parts):
        return False
    pairs = zip(state.parts, start.parts, strict=True)
    return all(_shaped(a, b) for a, b in pairs if is_open(a) and is_open(b))


def _begins(start: State, known: State) -> bool:
    """True if a state may be a beginning: nothing is spent, and limits are not above the known."""
    limits = zip(start.limit, known.limit, strict=False)
    pairs = zip(start.parts, known.parts, strict=False)
    return (
        _shaped(start, known)
        and not any(start.spent)
        and all(_LIMITS * mine <= (_LIMITS + 1) * theirs for mine, theirs in limits)
        and all(_begins(a, b) if is_open(a) and is_open(b) else a == b for a, b in pairs)
    )


def _check_line(line: Line, start: State, where: str) -> None:
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


written(
    "books",
    {
        "binding": OrNone(Nested[Binding]("a binding", Binding)),
        "lines": LINES,
        "division": OrNone(DIVISION),
        "accounts": _Accounts(),
        "runs": NATURAL,
        "sessions": NATURAL,
    },
    take=_books,
    public=False,
)(Books)
