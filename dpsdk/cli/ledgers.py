"""What `python -m dpsdk ledger` does: show what a ledger holds, and hold it against its codes."""

from __future__ import annotations

from itertools import chain
from pathlib import Path

from attrs import frozen

from dpsdk.accounting import Books, Charge, FileAnchor, SQLiteLedger
from dpsdk.accounting.ledger.books import concerned
from dpsdk.accounting.ledger.charge import SESSION
from dpsdk.accounting.ledger.lines import worst_line
from dpsdk.accounting.numbers.steps import from_steps
from dpsdk.cli.words import printable
from dpsdk.errors import InvalidArgument

__all__ = ["LedgerOptions", "show", "verify"]


@frozen(kw_only=True)
class LedgerOptions:
    """Which ledger, and with what it is opened.

    Parameters
    ----------
    path
        The file of an `SQLiteLedger`.
    key
        A file whose bytes are the key; None without one.
    anchor
        The file of a `FileAnchor`; None without one.
    allow_network
        As for `SQLiteLedger`.
    """

    path: Path
    key: Path | None = None
    anchor: Path | None = None
    allow_network: bool = False

    def open(self, *, made: bool) -> SQLiteLedger:
        """The ledger. One that is not there yet is made only for who wants to spend."""
        if not made and not self.path.exists():
            raise InvalidArgument("FILE", "the file of a ledger", f"{printable(self.path)}: none")
        return SQLiteLedger(
            self.path,
            key=None if self.key is None else self.key.read_bytes(),
            anchor=None if self.anchor is None else FileAnchor(self.anchor),
            allow_network=self.allow_network,
        )


def show(options: LedgerOptions) -> str:
    """What was spent of each table's budget, and every charge. All of it is public."""
    ledger = options.open(made=False)
    shown = [_shown(ledger.dataset(name)) for name in ledger.datasets]
    return "\n".join(shown) or "The ledger is empty."


def verify(options: LedgerOptions) -> str:
    """Read all of a ledger, and say that it is as it was written, and on what that rests.

    Raises
    ------
    LedgerDamaged
        If it is not.
    """
    ledger = options.open(made=False)
    count = ledger.verify()
    keyed = (
        "with a key: who does not know it has changed nothing"
        if options.key is not None
        else "without a key: nothing was damaged by accident; edits on purpose cannot be told"
    )
    anchored = (
        "with an anchor: it is no older copy"
        if options.anchor is not None
        else "without an anchor: whether it is an older copy cannot be told"
    )
    tables = len(ledger.datasets)
    return (
        f"{printable(options.path)}: {count:,} entries of {tables:,} table"
        f"{'' if tables == 1 else 's'}, as they were written\n  {keyed}\n  {anchored}"
    )


def _shown(ledger: SQLiteLedger) -> str:
    # Charges are appended, so that there are at least those that the books count.
    books = ledger.read()
    charges = ledger.charges()[: books.runs]
    binding = books.binding
    if binding is None:
        return ""
    dataset, composition = binding.dataset, binding.composition
    line = worst_line(tuple(chain.from_iterable(concerned(books, SESSION))))
    rows = "row" if dataset.unit_rows == 1 else "rows"
    by = f" by {dataset.person!r}" if dataset.person else ""
    pure = "" if line.epsilon is None else f", epsilon {float(from_steps(line.epsilon)):.7g} in sum"
    lines = [
        f"{printable(dataset.name)} ({dataset.neighbors}, {dataset.unit_rows} {rows} a person{by})",
        f"  budget       {binding.budget}",
        f"  composition  {composition}",
        f"  spent        {100 * composition.fraction(line.state):.7g}%{pure}",
        f"  sessions     {books.sessions:,}",
        f"  charges      {books.runs:,}",
        *_scopes(books),
        *map(_charge, charges),
    ]
    return "\n".join(printable(line) for line in lines)


def _scopes(books: Books) -> list[str]:
    return [
        f"  scope {account.name!r}: {account.runs:,} charges"
        f"{', reserved' if account.reserve else ''}{', closed' if account.closed else ''}"
        for account in books.accounts.values()
    ]


def _charge(charge: Charge) -> str:
    request = f", request {charge.request_id!r}" if charge.request_id else ""
    asked = charge.label or "opened"
    return (
        f"  {charge.number:>5,}  session {charge.session:,}: {asked} by {charge.mechanism}, "
        f"{charge.guarantee}{request}"
    )
