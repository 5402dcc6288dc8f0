"""Books as texts: one for the binding, one for each account and each distinct set of lines.

A store writes the texts that a decision changed, and no others. States are written by what is spent
of them alone, since the rest of each is that of the beginning, or of the cap.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from hashlib import sha256
from itertools import count
from types import MappingProxyType
from typing import NamedTuple, cast

from dpsdk._checks import shown
from dpsdk.accounting.filters.composition import NEVER_OPEN, State, is_open
from dpsdk.accounting.ledger.binding import Binding
from dpsdk.accounting.ledger.books import Account, Books, check_books
from dpsdk.accounting.ledger.charge import dumped
from dpsdk.accounting.ledger.division import KINDS, PLACES, Division, division_of
from dpsdk.accounting.ledger.lines import MOST_LINES, Line, Lines
from dpsdk.codec import JSON, NATURAL, TEXT, WHOLE, Codebook, Plain, from_plain, parsed, to_plain
from dpsdk.errors import RecordError, WireError

__all__ = [
    "EMPTY",
    "Snapshot",
    "digest_of",
    "digests_of",
    "restored",
    "snapshot_of",
]

_BOOK = Codebook()
_SCALE = 1 << 4
"""Texts of books are longer than those of strangers, by up to so many times."""

_HEX = re.compile(r"0|[1-9a-f][0-9a-f]*")

_DEEPEST = 64
"""So deep may scopes lie within scopes."""

_hexadecimal: Callable[[int], str] = "{:x}".format


class Snapshot(NamedTuple):
    """Books, and the texts that say them."""

    books: Books
    texts: Mapping[str, str]
    digests: Mapping[str, str]


EMPTY = Snapshot(Books(), MappingProxyType({}), MappingProxyType({}))


def snapshot_of(books: Books, before: Snapshot) -> Snapshot:
    """The texts of books, where those of an earlier moment are known."""
    binding, known, old = books.binding, before.books, before.texts
    if binding is None:
        return EMPTY
    texts: dict[str, str] = {}
    same = binding is known.binding
    if same and books.sessions == known.sessions:
        texts["head"] = old["head"]
    else:
        head = to_plain(binding, "Binding")
        texts["head"] = dumped({"binding": head, "sessions": books.sessions})
    division = books.division
    if division is None:
        kept = same and books.lines is known.lines and "lines" in old
        texts["lines"] = old["lines"] if kept else _lines_text(books.lines)
    else:
        _write_division(division, known.division, old, texts)
    for number, account in books.accounts.items():
        name = f"account {number}"
        kept = known.accounts.get(number) is account
        texts[name] = old[name] if kept else _account_text(account)
    return Snapshot(books, texts, digests_of(texts, before))


def digests_of(texts: Mapping[str, str], before: Snapshot) -> Mapping[str, str]:
    """The digest of each text, where those of an earlier moment are known."""
    old, known = before.texts, before.digests
    return {
        name: known[name] if old.get(name) == text else sha256(text.encode("utf-8")).hexdigest()
        for name, text in texts.items()
    }


def digest_of(digests: Mapping[str, str]) -> str:
    """What an entry says of all texts, by the digest of each."""
    listed = [f"{name}={digest}\n" for name, digest in sorted(digests.items())]
    return sha256("".join(listed).encode("utf-8")).hexdigest()


def _spent(state: State) -> list[object]:
    """What is spent on each axis, and of each part; null for one that was closed."""
    parts = [
        None if part is None else _spent(part) if part.limit or part.parts else "never"
        for part in state.parts
    ]
    return [*map(_hexadecimal, state.spent), *parts]


def _line_plain(line: Line) -> list[object]:
    epsilon = None if line.epsilon is None else _hexadecimal(line.epsilon)
    return [epsilon, _hexadecimal(line.rho), _spent(line.state)]


def _lines_text(lines: Lines) -> str:
    if len(lines) > MOST_LINES:
        raise RecordError("Books.lines", f"at most {MOST_LINES:,} lines", f"{len(lines):,}")
    return dumped([_line_plain(line) for line in lines])


def _account_text(account: Account) -> str:
    if len(account.outer) > _DEEPEST:
        raise RecordError("Account.outer", f"at most {_DEEPEST} scopes around", "more")
    return dumped(
        {
            "name": TEXT.write(account.name, "Account.name", _BOOK),
            "start": to_plain(account.start, "Account.start"),
            "outer": account.outer,
            "line": _line_plain(account.line),
            "runs": account.runs,
            "reserve": account.reserve,
            "closed": account.closed,
        }
    )


def _write_division(
    division: Division, known: Division | None, old: Mapping[str, str], texts: dict[str, str]
) -> None:
    bundles = division.bundles
    if known is not None and division.kinds is known.kinds and len(bundles) == len(known.bundles):
        texts["division"] = old["division"]
    else:
        plain = {
            "generation": division.generation,
            "parts": division.parts,
            "moves": division.moves,
            "places": PLACES.write(division.places, "Division.places", _BOOK),
            "kinds": KINDS.write(division.kinds, "Division.kinds", _BOOK),
            "bundles": len(bundles),
        }
        texts["division"] = dumped(plain)
    before = () if known is None else known.bundles
    for number, lines in enumerate(bundles):
        name = f"bundle {number}"
        kept = number < len(before) and before[number] is lines
        texts[name] = old[name] if kept else _lines_text(lines)


def restored(
    texts: Mapping[str, str], digests: Mapping[str, str], runs: int, before: Snapshot
) -> Snapshot:
    """The books of texts and so many charges, where those of an earlier moment are known."""
    if not texts:
        return EMPTY
    old, known = before.texts, before.books
    left = dict(texts)
    head = _taken(left, "head")
    if old.get("head") == head and known.binding is not None:
        binding, sessions = known.binding, known.sessions
    else:
        binding, sessions = _read_head(head)
    same = binding is known.binding
    lines: Lines = ()
    division: Division | None = None
    if "division" in left:
        division = _read_division(left, binding.start)
    else:
        text = _taken(left, "lines")
        kept = same and old.get("lines") == text
        lines = known.lines if kept else _read_lines(text, binding.start, "Books.lines")
    accounts: dict[int, Account] = {}
    for name, text in left.items():
        word, _, digits = name.partition(" ")
        if word != "account":
            raise RecordError("Books", "of the texts of books alone", f"also {shown(name)}")
        number = WHOLE.read(digits, "Books.accounts", _BOOK)
        kept = old.get(name) == text and number in known.accounts
        accounts[number] = known.accounts[number] if kept else _read_account(text)
    # The order in which they were opened, which is that of their numbers in each session.
    ordered = {number: accounts[number] for number in sorted(accounts)}
    books = Books(binding, lines, division, ordered, runs, sessions)
    check_books(books, known_start=same)
    return Snapshot(books, texts, digests)


def _taken(texts: dict[str, str], name: str) -> str:
    text = texts.pop(name, None)
    if text is None:
        raise RecordError("Books", f"with a text of {name}", "without one")
    return text


def _loaded(text: str, where: str) -> Plain:
    try:
        return parsed(text, scale=_SCALE)
    except WireError:
        raise RecordError(where, "JSON", "another text") from None


def _read_object(text: str, where: str, names: tuple[str, ...]) -> JSON:
    plain = _loaded(text, where)
    if type(plain) is not dict or tuple(plain) != names:
        raise RecordError(where, f"an object of {', '.join(names)}", "another")
    return plain


def _natural(plain: object, where: str) -> int:
    if type(plain) is not int or plain < 0:
        raise RecordError(where, "an integer from 0", type(plain).__name__)
    return plain


def _flag(plain: object, where: str) -> bool:
    if type(plain) is not bool:
        raise RecordError(where, "true or false", type(plain).__name__)
    return plain


def _sequence(plain: object, where: str, most: int) -> list[object]:
    if type(plain) is not list or len(cast("list[object]", plain)) > most:
        raise RecordError(where, f"a list of at most {most:,} items", type(plain).__name__)
    return cast("list[object]", plain)


def _amount(plain: object, where: str) -> int:
    if type(plain) is not str or not _HEX.fullmatch(plain):
        raise RecordError(where, "an integer in hexadecimal digits", shown(plain))
    return int(plain, 16)


def _read_head(text: str) -> tuple[Binding, int]:
    plain = _read_object(text, "Books.head", ("binding", "sessions"))
    binding = from_plain(Binding, plain["binding"], "Binding")
    return binding, _natural(plain["sessions"], "Books.sessions")


def _read_state(plain: object, start: State, where: str) -> State:
    """A state that was begun by another, within its limits and of its members."""
    axes = len(start.limit)
    items = _sequence(plain, where, axes + len(start.parts))
    if len(items) != axes + len(start.parts):
        raise RecordError(where, "of the members of the composition", "others")
    spent = tuple([_amount(item, where) for item in items[:axes]])
    if any(amount > limit for amount, limit in zip(spent, start.limit, strict=True)):
        raise RecordError(where, "within the limits of the budget", "more")
    parts: list[State | None] = []
    for item, part in zip(items[axes:], start.parts, strict=True):
        if item is None:
            parts.append(None)
        elif is_open(part):
            parts.append(_read_state(item, part, where))
        elif part == NEVER_OPEN and item == "never":
            parts.append(part)
        else:
            raise RecordError(where, "of the members of the composition", "others")
    return State(spent, start.limit, tuple(parts), start.reach)


def _read_line(plain: object, start: State, where: str) -> Line:
    items = _sequence(plain, where, 3)
    if len(items) != 3:
        raise RecordError(where, "epsilon, rho and a state", f"{len(items)} items")
    epsilon = None if items[0] is None else _amount(items[0], where)
    return Line(_read_state(items[2], start, where), epsilon, _amount(items[1], where))


def _read_lines(text: str, start: State, where: str) -> Lines:
    items = _sequence(_loaded(text, where), where, MOST_LINES)
    return tuple([_read_line(item, start, where) for item in items])


def _read_account(text: str) -> Account:
    names = ("name", "start", "outer", "line", "runs", "reserve", "closed")
    where, plain = "Account", _read_object(text, "Account", names)
    start = from_plain(State, plain["start"], "Account.start")
    outer = _sequence(plain["outer"], "Account.outer", _DEEPEST)
    return Account(
        TEXT.read(plain["name"], "Account.name", _BOOK),
        start,
        tuple([_natural(number, "Account.outer") for number in outer]),
        _read_line(plain["line"], start, "Account.line"),
        _natural(plain["runs"], "Account.runs"),
        _flag(plain["reserve"], where),
        _flag(plain["closed"], where),
    )


def _read_division(left: dict[str, str], start: State) -> Division:
    names = ("generation", "parts", "moves", "places", "kinds", "bundles")
    plain = _read_object(_taken(left, "division"), "Division", names)
    bundles: list[Lines] = []
    for number in count():
        text = left.pop(f"bundle {number}", None)
        if text is None:
            break
        bundles.append(_read_lines(text, start, "Division.bundles"))
    if plain["bundles"] != len(bundles):
        raise RecordError("Division.bundles", f"{shown(plain['bundles'])}", f"{len(bundles)}")
    return division_of(
        {
            "generation": NATURAL.read(plain["generation"], "Division.generation", _BOOK),
            "parts": _natural(plain["parts"], "Division.parts"),
            "moves": _flag(plain["moves"], "Division.moves"),
            "places": PLACES.read(plain["places"], "Division.places", _BOOK),
            "bundles": tuple(bundles),
            "kinds": KINDS.read(plain["kinds"], "Division.kinds", _BOOK),
        }
    )
