"""The command `ledger`: show what a ledger holds, and hold it against its codes."""

from __future__ import annotations

import os
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager, suppress
from fractions import Fraction
from pathlib import Path
from typing import TypeAlias

from dpsdk._records import frozen
from dpsdk.accounting import (
    AnyOf,
    Charge,
    Composition,
    Dataset,
    FileAnchor,
    PostgresLedger,
    SQLiteLedger,
)
from dpsdk.accounting.ledger.books import Account, Books, lines_of
from dpsdk.accounting.ledger.charge import SESSION
from dpsdk.accounting.ledger.file import LedgerFile
from dpsdk.accounting.ledger.lines import worst_line
from dpsdk.accounting.ledger.server import LedgerServer
from dpsdk.accounting.numbers import from_steps
from dpsdk.cli.files import check_no_device, contents
from dpsdk.cli.words import Remark, printable
from dpsdk.domain.periods import period_text
from dpsdk.errors import InvalidArgument

__all__ = ["LedgerOptions", "charges_told", "show", "verify"]

_SERVERS = ("postgresql://", "postgres://")

_SCHEMA = "dpsdk"

_LONGEST_KEY = 2**16

_Kept: TypeAlias = SQLiteLedger | PostgresLedger


@frozen(kw_only=True)
class LedgerOptions:
    """A ledger, and how it is opened: by its key, its anchor, and as the library takes the rest.

    `place` is the file of an `SQLiteLedger`, or the address of the server of a `PostgresLedger`;
    `key` a file whose bytes are the key, `anchor` the file of a `FileAnchor`.
    """

    place: str
    key: Path | None = None
    anchor: Path | None = None
    allow_network: bool = False
    schema: str | None = None

    def open(self, *, made: bool) -> _Kept:
        """Open the ledger. One that is not there yet is made only for who wants to spend."""
        self._check()
        key = None if self.key is None else contents("--key", self.key, most=_LONGEST_KEY)
        anchor = None if self.anchor is None else FileAnchor(self.anchor)
        if self.anchor is not None and self.anchor.exists():
            check_no_device("--anchor", self.anchor)
        store = self._store()
        if not made and not store.there():
            if isinstance(store, LedgerServer):
                got = f"a server without schema {self._schema!r}"
            else:
                found = "nothing in it" if Path(self.place).exists() else "none"
                got = f"{printable(self.place)}: {found}"
            raise InvalidArgument("FILE", "a ledger that is there", got)
        if isinstance(store, LedgerServer):
            return PostgresLedger(self.place, schema=self._schema, key=key, anchor=anchor)
        return SQLiteLedger(self.place, key=key, anchor=anchor, allow_network=self.allow_network)

    def there(self) -> bool:
        """Return whether somebody has made it already, and refuse what cannot be. Makes nothing."""
        self._check()
        store = self._store()
        if store.there():
            return True
        if isinstance(store, LedgerServer):
            return False
        for needed in (Path(self.place).absolute().parent, self.key):
            if needed is not None:
                needed.stat()
        return False

    def _store(self) -> LedgerServer | LedgerFile:
        """Return where it is kept, to look whether it is there."""
        if self.place.startswith(_SERVERS):
            return LedgerServer(self.place, self._schema, b"")
        return LedgerFile(Path(os.path.realpath(self.place)), b"")

    @property
    def _schema(self) -> str:
        return _SCHEMA if self.schema is None else self.schema

    def _check(self) -> None:
        if self.place.startswith(_SERVERS):
            if self.allow_network:
                raise InvalidArgument("--allow-network", "given with the file of a ledger", "none")
        elif self.schema is not None:
            raise InvalidArgument("--schema", "given with the address of a server", "a file")

    @property
    def label(self) -> str:
        """The name of the ledger in the output, never with a password."""
        if not self.place.startswith(_SERVERS):
            return printable(self.place)
        return LedgerServer(self.place, self._schema, b"").name


@contextmanager
def charges_told(ledger: LedgerOptions | None, charges: Callable[[], int]) -> Generator[None]:
    """Add to an error after the ledger was charged that the charge stays."""
    before = charges()
    try:
        yield
    except BaseException as error:
        with suppress(Exception):
            if ledger is not None and charges() > before:
                error.add_note(Remark(f"what {ledger.label} was charged stays charged"))
        raise


def show(options: LedgerOptions) -> str:
    """Tell what was spent of each table's budget, and every charge. All of it is public."""
    ledger = options.open(made=False)
    shown = [_shown(ledger.dataset(name)) for name in ledger.datasets]
    return "\n".join(shown) or "The ledger is empty."


def verify(options: LedgerOptions) -> str:
    """Read all of a ledger, and tell that it is as it was written, and on what that rests."""
    ledger = options.open(made=False)
    count = ledger.verify()
    keyed = "with a key: who does not know it has changed nothing"
    if options.key is None:
        keyed = "without a key: nothing was damaged by accident; edits on purpose cannot be told"
    anchored = "with an anchor: it is no older copy"
    if options.anchor is None:
        anchored = "without an anchor: whether it is an older copy cannot be told"
    tables = len(ledger.datasets)
    plural = "" if tables == 1 else "s"
    return (
        f"{options.label}: {count:,} entries of {tables:,} table{plural}, as they were written\n"
        f"  {keyed}\n  {anchored}"
    )


def _shown(ledger: _Kept) -> str:
    # Charges are appended, so that there are at least those that the books count.
    books = ledger.read()
    charges = ledger.charges()[: books.runs]
    binding = books.binding
    if binding is None:
        return ""
    dataset, composition = binding.dataset, binding.composition
    line = worst_line(lines_of(books, SESSION))
    whose = f"persons by {dataset.person!r}" if dataset.person else "each row a person"
    if isinstance(dataset, Dataset):
        rows = "row" if dataset.unit_rows == 1 else "rows"
        by = f" by {dataset.person!r}" if dataset.person else ""
        whose = f"{dataset.unit_rows} {rows} a person{by}"
    pure = "" if line.epsilon is None else f", epsilon {float(from_steps(line.epsilon)):.7g} in sum"
    lines = [
        f"{printable(dataset.name)} ({dataset.neighbors}, {whose})",
        f"  budget       {binding.budget}",
        f"  composition  {_words(composition)}",
        f"  spent        {100 * composition.fraction(line.state):.7g}%{pure}",
        *_by_period(books, composition),
        f"  sessions     {books.sessions:,}",
        f"  charges      {books.runs:,}",
        *map(_scope, books.accounts.values()),
        *(_charge(charge, getattr(dataset, "periods", "")) for charge in charges),
    ]
    return "\n".join(printable(line) for line in lines)


def _by_period(books: Books, composition: Composition) -> Iterator[str]:
    """Tell what each period has spent and has left, where a table has periods: that is public."""
    if books.timeline is None or books.binding is None:
        return
    rule = getattr(books.binding.dataset, "periods", "")
    yield f"  periods      {rule}; spent is that of the most spent"
    starts, lines = books.timeline
    for place, line in enumerate(lines):
        begun = period_text(rule, starts[place - 1]) if place else ""
        end = period_text(rule, starts[place] - 1) if place < len(starts) else ""
        spent = float(100 * composition.fraction(line.state))
        named = begun if begun == end else f"{begun} to {end}"
        if not begun or not end:
            named = f"until {end}" if end else f"from {begun} on" if begun else "all"
        yield f"    {named}: {spent:.7g}% spent, {100 - spent:.7g}% left"


def _words(composition: Composition) -> str:
    """Tell a composition as people call it."""
    kept = Fraction(getattr(composition, "leak_share", 0))
    leaks = f", {_percent(kept)} of delta kept for leaks" if kept else ""
    if not isinstance(composition, AnyOf):
        title: str = getattr(composition, "title", type(composition).__name__)
        order: Fraction | None = getattr(composition, "order", None)
        return f"{title}{'' if order is None else f' of order {order}'}{leaks}"
    members = [_words(member) for member in composition.members]
    if composition.weights is not None:
        total = sum(composition.weights) or Fraction(1)
        members = [
            f"{words} ({_percent(weight / total)} of delta)" if weight else words
            for words, weight in zip(members, composition.weights, strict=True)
        ]
    return f"whichever fits of {', '.join(members)}{leaks}"


def _percent(share: Fraction) -> str:
    return f"{float(100 * share):.4g}%"


def _scope(account: Account) -> str:
    reserved = ", reserved" if account.reserve else ""
    closed = ", closed" if account.closed else ""
    return f"  scope {account.name!r}: {account.runs:,} charges{reserved}{closed}"


def _charge(charge: Charge, rule: str) -> str:
    request = f", request {charge.request_id!r}" if charge.request_id else ""
    asked = charge.label or "opened"
    scope = f", scope {charge.scope!r}" if charge.scope else ""
    desk = ""
    if charge.payer.periods is not None:
        first, last = (period_text(rule, number) for number in charge.payer.periods)
        desk = f", of {first}" if first == last else f", of {first} to {last}"
    at = "" if charge.at is None else f"{charge.at:%Y-%m-%d %H:%M:%S}Z  "
    return (
        f"  {charge.number:>5,}  {at}session {charge.session:,}{scope}: {asked} "
        f"by {charge.mechanism}, {charge.guarantee}{desk}{request}"
    )
