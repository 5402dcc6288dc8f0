"""Books as texts: one for the binding, one for each account and each distinct set of lines.

A store writes the texts that a decision changed, and no others. States are written by what is spent
of them alone, since the rest of each is that of the beginning, or of the cap.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache
from types import MappingProxyType
from typing import Any, NamedTuple, cast

from attrs import evolve

from dpsdk._checks import shown
from dpsdk.accounting.filters.composition import State, is_open
from dpsdk.accounting.ledger.binding import Binding
from dpsdk.accounting.ledger.books import Account, Books, check_books
from dpsdk.accounting.ledger.chain import digest_of
from dpsdk.accounting.ledger.charge import dumped
from dpsdk.accounting.ledger.lines import MOST_LINES, Division, Line, Lines
from dpsdk.accounting.ledger.timeline import Timeline
from dpsdk.codec import INTEGER, NATURAL, Codebook, from_plain, parsed, to_plain
from dpsdk.errors import RecordError

__all__ = ["EMPTY", "Snapshot", "digest_of_all", "restored", "snapshot_of"]

_BOOK = Codebook()

_SCALE = 1 << 4
"""Texts of books are longer than those of strangers, by up to so many times."""


class _Piece(NamedTuple):
    value: Any
    text: str
    digest: str


class Snapshot(NamedTuple):
    """One moment of a table's books, and by name the texts that say them.

    How many charges there were is told by the entry that goes with them.
    """

    books: Books
    pieces: Mapping[str, _Piece]

    @property
    def digest(self) -> str:
        """The digest of all texts in an entry."""
        listed = [f"{name}={piece.digest}\n" for name, piece in sorted(self.pieces.items())]
        return digest_of("".join(listed))


EMPTY = Snapshot(Books(), MappingProxyType({}))


def digest_of_all(texts: Mapping[str, str], before: Snapshot) -> str:
    """The digest of texts in an entry, where those of an earlier moment are known."""
    known = {piece.text: piece for piece in before.pieces.values()}
    pieces = {
        name: known.get(text) or _Piece(None, text, digest_of(text)) for name, text in texts.items()
    }
    return Snapshot(before.books, pieces).digest


# Writing


def snapshot_of(books: Books, before: Snapshot) -> Snapshot:
    """The texts of books, where those of an earlier moment are known."""
    if books.binding is None:
        return EMPTY
    pieces: dict[str, _Piece] = {}
    for name, value in _values(books).items():
        known = before.pieces.get(name)
        if known is None or not _same(known.value, value):
            text = _WRITERS[name.partition(" ")[0]](value)
            known = _Piece(value, text, digest_of(text))
        pieces[name] = known
    return Snapshot(books, pieces)


def _values(books: Books) -> dict[str, object]:
    values: dict[str, object] = {"head": (books.binding, books.sessions)}
    if books.timeline is not None:
        values["timeline"] = books.timeline
    elif books.division is None:
        values["lines"] = books.lines
    else:
        values["division"] = books.division
        for number, lines in enumerate(books.division.bundles):
            values[f"bundle {number}"] = lines
    for number, account in books.accounts.items():
        values[f"account {number}"] = account
    return values


def _same(one: object, other: object) -> bool:
    """True if two values are written alike: of a division, whose bundles stand by themselves."""
    if isinstance(one, Division) and isinstance(other, Division):
        return one.kinds is other.kinds
    return one == other


def _spent(state: State) -> list[object]:
    """The spending on each axis, and of each part; null for one that was closed."""
    parts = [
        None if part is None else _spent(part) if part.limit or part.parts else "never"
        for part in state.parts
    ]
    return [*map("{:x}".format, state.spent), *parts]


def _line(line: Line) -> list[object]:
    epsilon = None if line.epsilon is None else f"{line.epsilon:x}"
    return [epsilon, f"{line.rho:x}", _spent(line.state)]


def _lines_text(lines: Lines) -> str:
    if len(lines) > MOST_LINES:
        raise RecordError("Books.lines", f"at most {MOST_LINES:,} lines", f"{len(lines):,}")
    return dumped([_line(line) for line in lines])


@lru_cache(1 << 14)
def _line_text(line: Line) -> str:
    """The text of a line of a timeline, most of which are those of the charge before."""
    return dumped(_line(line))


def _timeline_text(timeline: Timeline) -> str:
    """The starts of all steps, the place of the line of each, and each different line once."""
    places = {line: place for place, line in enumerate(dict.fromkeys(timeline.lines))}
    steps = dumped([[*timeline.starts], [places[line] for line in timeline.lines]])
    return f"[{steps},[{','.join(map(_line_text, places))}]]"


def _head_text(head: tuple[Binding, int]) -> str:
    return dumped({"binding": to_plain(head[0], "Binding"), "sessions": head[1]})


def _account_text(account: Account) -> str:
    form = _account_form(account._replace(line=Line(account.start), runs=0, timeline=None))
    text = dumped({"account": form, "line": _line(account.line), "runs": account.runs})
    if account.timeline is None:
        return text
    return f'{text[:-1]},"timeline":{_timeline_text(account.timeline)}}}'


_account_form = lru_cache(1024)(to_plain)


def _division_text(division: Division) -> str:
    return dumped(to_plain(evolve(division, bundles=()), "Division"))


_WRITERS: Mapping[str, Callable[[Any], str]] = {
    "head": _head_text,
    "lines": _lines_text,
    "timeline": _timeline_text,
    "division": _division_text,
    "bundle": _lines_text,
    "account": _account_text,
}


# Reading


def restored(texts: Mapping[str, str], runs: int, before: Snapshot) -> Snapshot:
    """The books of texts and so many charges, where those of an earlier moment are known.

    Raises `RecordError` if they are no texts of books, or say what no books say.
    """
    if not texts:
        return EMPTY
    try:
        found = snapshot_of(_books_of(dict(texts), runs, before), before)
    except (TypeError, ValueError, LookupError, AttributeError) as error:
        if isinstance(error, RecordError):
            raise
        found = EMPTY
    # Each is written in one way only.
    if {name: piece.text for name, piece in found.pieces.items()} != texts:
        raise RecordError("Books", "written as books are", "written otherwise")
    return found


def _books_of(left: dict[str, str], runs: int, before: Snapshot) -> Books:
    def take(name: str, make: Callable[[Any], Any]) -> Any:
        text, known = left.pop(name, ""), before.pieces.get(name)
        if known is not None and known.text == text:
            return known.value
        return make(parsed(text, scale=_SCALE))

    def take_lines(name: str) -> Lines:
        return tuple(take(name, lambda plain: [_line_of(line, binding.start) for line in plain]))

    binding, sessions = take("head", _head_of)
    division: Division | None = None
    lines: Lines = ()
    timeline: Timeline | None = None
    if "timeline" in left:
        timeline = take("timeline", lambda plain: _timeline_of(plain, binding.start))
    elif "division" in left:
        division = take("division", lambda plain: from_plain(Division, plain))
        bundles: list[Lines] = []
        while (name := f"bundle {len(bundles)}") in left:
            bundles.append(take_lines(name))
        division = evolve(division, bundles=tuple(bundles))
    else:
        lines = take_lines("lines")
    accounts: dict[int, Account] = {}
    for name in tuple(left):
        word, _, digits = name.partition(" ")
        number = int(digits) if digits.isdecimal() else 0
        if name != f"account {number}":
            raise RecordError("Books", "of the texts of books alone", f"also {shown(word)}")
        accounts[number] = take(name, _account_of)
    # The order in which they were opened, which is that of their numbers in each session.
    ordered = {number: accounts[number] for number in sorted(accounts)}
    books = Books(binding, lines, division, ordered, runs, sessions, timeline)
    check_books(books, known_start=binding is before.books.binding)
    return books


def _head_of(plain: Any) -> tuple[Binding, int]:
    sessions = NATURAL.read(plain["sessions"], "Books.sessions", _BOOK)
    return from_plain(Binding, plain["binding"], "Binding"), sessions


def _state_of(plain: Any, start: State) -> State:
    axes = len(start.limit)
    parts: list[State | None] = []
    for item, part in zip(plain[axes:], start.parts, strict=True):
        closed = item is None
        parts.append(None if closed else _state_of(item, part) if is_open(part) else part)
    spent = tuple([int(amount, 16) for amount in plain[:axes]])
    return State(spent, start.limit, tuple(parts), start.reach)


def _line_of(plain: Any, start: State) -> Line:
    epsilon, rho, spent = plain
    state = _state_of(spent, start)
    return Line(state, None if epsilon is None else int(epsilon, 16), int(rho, 16))


def _timeline_of(plain: Any, start: State) -> Timeline:
    (starts, places), lines = cast("tuple[tuple[list[Any], list[int]], list[Any]]", plain)
    numbers = [INTEGER.read(number, "Timeline.starts", _BOOK) for number in starts]
    known = [_line_of(line, start) for line in lines]
    return Timeline(tuple(numbers), tuple([known[place] for place in places]))


def _account_of(plain: Any) -> Account:
    account = from_plain(Account, plain["account"], "Account")
    runs = NATURAL.read(plain["runs"], "Account.runs", _BOOK)
    line = _line_of(plain["line"], account.start)
    timeline = None
    if "timeline" in plain:
        timeline = _timeline_of(plain["timeline"], account.start)
    return account._replace(line=line, runs=runs, timeline=timeline)
