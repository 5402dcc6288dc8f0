"""Books as texts: one for the binding, one for each account and each distinct set of lines.

A store writes the texts that a decision changed, and no others. States are written by what is spent
of them alone, since the rest of each is that of the beginning, or of the cap.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache
from hashlib import sha256
from types import MappingProxyType
from typing import Any, NamedTuple, TypeVar

from attrs import evolve

from dpsdk._checks import shown
from dpsdk.accounting.filters.composition import State, is_open
from dpsdk.accounting.ledger.binding import Binding
from dpsdk.accounting.ledger.books import Account, Books, check_books
from dpsdk.accounting.ledger.charge import dumped
from dpsdk.accounting.ledger.division import Division
from dpsdk.accounting.ledger.lines import MOST_LINES, Line, Lines
from dpsdk.codec import NATURAL, Codebook, from_plain, parsed, to_plain
from dpsdk.errors import RecordError

__all__ = ["EMPTY", "Snapshot", "digest_of", "digests_of", "restored", "snapshot_of"]

_BOOK = Codebook()

_SCALE = 1 << 4
"""Texts of books are longer than those of strangers, by up to so many times."""

T = TypeVar("T")

_hexadecimal: Callable[[int], str] = "{:x}".format


class Snapshot(NamedTuple):
    """One moment of a table's books, and by name the texts that say them and their digests.

    How many charges there were is told by the entry that goes with them.
    """

    books: Books
    texts: Mapping[str, str]
    digests: Mapping[str, str]


EMPTY = Snapshot(Books(), MappingProxyType({}), MappingProxyType({}))


def digests_of(texts: Mapping[str, str], before: Snapshot) -> Mapping[str, str]:
    """The digest of each text, where those of an earlier moment are known."""
    old, known = before.texts, before.digests
    return {
        name: known[name] if old.get(name) == text else sha256(text.encode("utf-8")).hexdigest()
        for name, text in texts.items()
    }


def digest_of(digests: Mapping[str, str]) -> str:
    """The digest of all texts in an entry, by the digest of each."""
    listed = [f"{name}={digest}\n" for name, digest in sorted(digests.items())]
    return sha256("".join(listed).encode("utf-8")).hexdigest()


# Writing


def snapshot_of(books: Books, before: Snapshot) -> Snapshot:
    """The texts of books, where those of an earlier moment are known."""
    binding, known, old = books.binding, before.books, before.texts
    if binding is None:
        return EMPTY
    same = binding is known.binding and books.sessions == known.sessions
    texts = {"head": old["head"] if same else _head_text((binding, books.sessions))}
    division = books.division
    if division is None:
        same = books.lines is known.lines and "lines" in old
        texts["lines"] = old["lines"] if same else _lines_text(books.lines)
    else:
        bundles = () if known.division is None else known.division.bundles
        same = bool(bundles) and division.kinds is getattr(known.division, "kinds", None)
        texts["division"] = old["division"] if same else _division_text(division)
        for number, lines in enumerate(division.bundles):
            name = f"bundle {number}"
            same = number < len(bundles) and bundles[number] is lines
            texts[name] = old[name] if same else _lines_text(lines)
    for number, account in books.accounts.items():
        name = f"account {number}"
        same = known.accounts.get(number) is account
        texts[name] = old[name] if same else _account_text(account)
    return Snapshot(books, texts, digests_of(texts, before))


def _spent(state: State) -> list[object]:
    """The spending on each axis, and of each part; null for one that was closed."""
    parts = [
        None if part is None else _spent(part) if part.limit or part.parts else "never"
        for part in state.parts
    ]
    return [*map(_hexadecimal, state.spent), *parts]


def _line(line: Line) -> list[object]:
    epsilon = None if line.epsilon is None else _hexadecimal(line.epsilon)
    return [epsilon, _hexadecimal(line.rho), _spent(line.state)]


def _lines_text(lines: Lines) -> str:
    if len(lines) > MOST_LINES:
        raise RecordError("Books.lines", f"at most {MOST_LINES:,} lines", f"{len(lines):,}")
    return dumped([_line(line) for line in lines])


def _head_text(head: tuple[Binding, int]) -> str:
    return dumped({"binding": to_plain(head[0], "Binding"), "sessions": head[1]})


def _account_text(account: Account) -> str:
    begun = account._replace(line=Line(account.start), runs=0)
    form = _account_form(begun)
    return dumped({"account": form, "line": _line(account.line), "runs": account.runs})


_account_form = lru_cache(1024)(to_plain)


def _division_text(division: Division) -> str:
    return dumped(to_plain(evolve(division, bundles=()), "Division"))


# Reading


def restored(
    texts: Mapping[str, str], digests: Mapping[str, str], runs: int, before: Snapshot
) -> Snapshot:
    """The books of texts and so many charges, where those of an earlier moment are known.

    Raises `RecordError` if they are no texts of books, or say what no books say.
    """
    if not texts:
        return EMPTY
    old, known, left = before.texts, before.books, dict(texts)
    head = left.pop("head", "")
    if old.get("head") == head and known.binding is not None:
        binding, sessions = known.binding, known.sessions
    else:
        binding, sessions = _read(head, _head_of, _head_text)
    start = binding.start

    def lines_of(text: str) -> Lines:
        return _read(text, lambda plain: tuple([_line_of(x, start) for x in plain]), _lines_text)

    division: Division | None = None
    lines: Lines = ()
    if "division" in left:
        bundles: list[Lines] = []
        while (name := f"bundle {len(bundles)}") in left:
            bundles.append(lines_of(left.pop(name)))
        found = _read(left.pop("division"), lambda x: from_plain(Division, x), _division_text)
        division = evolve(found, bundles=tuple(bundles))
    else:
        text = left.pop("lines", "")
        lines = known.lines if old.get("lines") == text else lines_of(text)
    accounts: dict[int, Account] = {}
    for name, text in left.items():
        word, _, digits = name.partition(" ")
        number = int(digits) if digits.isdecimal() else 0
        if name != f"account {number}":
            raise RecordError("Books", "of the texts of books alone", f"also {shown(word)}")
        same = old.get(name) == text and number in known.accounts
        accounts[number] = (
            known.accounts[number] if same else _read(text, _account_of, _account_text)
        )
    # The order in which they were opened, which is that of their numbers in each session.
    ordered = {number: accounts[number] for number in sorted(accounts)}
    books = Books(binding, lines, division, ordered, runs, sessions)
    check_books(books, known_start=binding is known.binding)
    return Snapshot(books, texts, digests)


def _read(text: str, make: Callable[[Any], T], write: Callable[[T], str]) -> T:
    """Read a text that is written in one way only."""
    try:
        found = make(parsed(text, scale=_SCALE))
        if write(found) == text:
            return found
    except (TypeError, ValueError, LookupError, AttributeError):
        pass
    raise RecordError("Books", "written as books are", "written otherwise")


def _head_of(plain: Any) -> tuple[Binding, int]:
    sessions = NATURAL.read(plain["sessions"], "Books.sessions", _BOOK)
    return from_plain(Binding, plain["binding"], "Binding"), sessions


def _state_of(plain: Any, start: State) -> State:
    """A state that was begun by another."""
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


def _account_of(plain: Any) -> Account:
    account = from_plain(Account, plain["account"], "Account")
    runs = NATURAL.read(plain["runs"], "Account.runs", _BOOK)
    return account._replace(line=_line_of(plain["line"], account.start), runs=runs)
