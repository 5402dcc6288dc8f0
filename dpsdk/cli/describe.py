"""The command `describe`: find what the columns of a table hold, for a part of its budget."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from dpsdk import Budget, Neighbors
from dpsdk._records import frozen
from dpsdk.cli.files import write_new
from dpsdk.cli.ledgers import LedgerOptions
from dpsdk.cli.words import Remark, printable
from dpsdk.data.declaration import DEFAULT_MAX_ROWS
from dpsdk.data.delimited import FileFormat, column_titles
from dpsdk.data.parquet import parquet_names
from dpsdk.data.undeclared import Undeclared, UndeclaredFacts, UndeclaredOptions
from dpsdk.errors import InvalidArgument
from dpsdk.noise import NoiseSource
from dpsdk.release.description import Description
from dpsdk.session.describing import price_within
from dpsdk.session.discovery import Discovery

__all__ = ["Look", "describe_table"]


@frozen(kw_only=True)
class Look:
    """A first look at a table, as options ask for it; `dpsdk describe --help` explains them."""

    table: Path
    budget: Budget
    unit: str | None
    name: str | None = None
    neighbors: Neighbors | None = None
    max_rows: int | None = None
    columns: tuple[str, ...] | None = None
    steps: Mapping[str, str]
    encoding: str | None = None
    delimiter: str | None = None
    strip: bool = False
    decimal: str = "."
    thousands: str | None = None
    ledger: LedgerOptions | None = None
    cap: Budget | None = None
    write: Path | None = None
    dry: bool = False

    @property
    def parquet(self) -> bool:
        """True if the table is one of Parquet files."""
        return self.table.suffix.lower() == ".parquet" or self.table.is_dir()

    @property
    def lines(self) -> FileFormat:
        """How the text of a table is read that is no Parquet file."""
        delimiter = "," if self.delimiter is None else self.delimiter
        return FileFormat(delimiter, self.encoding or "utf-8", strip=self.strip)

    @property
    def who(self) -> str:
        """Whom the table protects, in words."""
        if self.unit is None:
            return "whoever has a row, where nobody has two"
        return f"persons by {self.unit!r}, whatever rows they have"


def describe_table(look: Look, noise: NoiseSource | None = None) -> str:
    """Look at all columns for one budget, write the domain, and return a report for people.

    What can fail, fails before the budget is spent. A dry run reads the names of the columns alone,
    charges nothing and writes nothing.
    """
    _check(look)
    held = (
        parquet_names(str(look.table))
        if look.parquet
        else column_titles(str(look.table), look.lines)
    )
    names = [one for one in held if one != look.unit]
    if look.unit is not None and look.unit not in held:
        raise InvalidArgument("--unit", "a column of the table", repr(look.unit))
    relation = look.neighbors or (
        Neighbors.REPLACE_ONE if look.unit is None else Neighbors.ADD_REMOVE
    )
    limit = look.max_rows or DEFAULT_MAX_ROWS
    facts = UndeclaredFacts(tuple(names), relation, None, limit, look.unit)
    rho, pricing = price_within(look.columns, facts, look.budget)
    count = len(names if look.columns is None else look.columns)
    each = "rows" if look.unit is None else "persons"
    head = [
        f"table     {printable(look.table)}, {count:,} column{'' if count == 1 else 's'}",
        f"protects  {look.who}, by {relation.value} neighbours",
        f"cost      {' + '.join(map(str, pricing.guarantees))}, within {look.budget}",
        f"shows     labels from about {pricing.passing:,.0f} {each} on",
    ]
    if look.dry:
        return "\n".join([*head, "a dry run: no row was read, nothing was charged or written"])
    raw = _loaded(look)
    ledger = None if look.ledger is None else look.ledger.open(made=True)
    whole = look.budget if look.cap is None else look.cap
    with Discovery(raw, whole, noise=noise, ledger=ledger) as discovery:
        before = discovery.spent.charges
        try:
            found = discovery.describe(
                rho=rho, leak=pricing.request.leak, columns=look.columns, steps=look.steps
            )
        except BaseException as error:
            with suppress(Exception):
                if look.ledger is not None and discovery.spent.charges > before:
                    error.add_note(Remark(f"what {look.ledger.label} was charged stays charged"))
            raise
        left = f"left      {discovery.remaining}"
    tail = [left] if look.ledger is not None else []
    if look.write is not None:
        tail.append(f"domain    {_written(look.write, found)}")
    return "\n".join([*head, *tail, "", str(found)])


def _written(path: Path, found: Description) -> str:
    """Write the domain; what was paid for is not lost if that fails."""
    if len(found.unknown) == len(found.columns):
        return "not written: no column is known"
    try:
        write_new(path, f"{found.domain.to_json()}\n")
    except OSError as error:
        return f"not written: {error.strerror}. It is\n{found.domain.to_json()}"
    return printable(path)


def _check(look: Look) -> None:
    if not look.budget.delta:
        expected = "above 0: the labels of one person may show with a small probability"
        raise InvalidArgument("--delta", expected, "0")
    if look.ledger is not None and look.name is None:
        expected = "given with --ledger: it is what the ledger knows the table by"
        raise InvalidArgument("--name", expected, "none")
    if look.cap is not None and look.ledger is None:
        raise InvalidArgument("--cap", "given with --ledger, which remembers it", "no --ledger")
    write = look.write
    if write is not None and (write.exists() or not write.absolute().parent.is_dir()):
        expected = "a new file in a directory that is there"
        raise InvalidArgument("--write", expected, printable(write))


def _loaded(look: Look) -> Undeclared:
    name = printable(look.table.name) if look.name is None else look.name
    options: UndeclaredOptions = {
        "neighbors": look.neighbors,
        "max_rows": look.max_rows,
        "strip": look.strip,
        "decimal": look.decimal,
        "thousands": look.thousands,
    }
    if look.parquet:
        return Undeclared.from_parquet(look.table, unit=look.unit, name=name, **options)
    form = look.lines
    return Undeclared.from_csv(
        look.table,
        unit=look.unit,
        name=name,
        delimiter=form.delimiter,
        encoding=form.encoding,
        **options,
    )
