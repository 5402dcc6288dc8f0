"""The command `describe`: find what the columns of a table hold, for a part of its budget."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from dpsdk import Budget, Neighbors
from dpsdk._checks import shown
from dpsdk._records import evolve, frozen
from dpsdk.cli.files import write_new
from dpsdk.cli.ledgers import charges_told
from dpsdk.cli.request import Source
from dpsdk.cli.words import printable, say
from dpsdk.data.columns import require_columns
from dpsdk.data.declaration import DEFAULT_MAX_ROWS
from dpsdk.data.delimited import FileFormat, column_titles
from dpsdk.data.frames import require_narwhals
from dpsdk.data.guard import explained
from dpsdk.data.parquet import parquet_names
from dpsdk.data.undeclared import (
    MISSING_TEXTS,
    Undeclared,
    UndeclaredFacts,
    UndeclaredOptions,
    can_be_asked,
)
from dpsdk.domain.attributes import require_different
from dpsdk.errors import DataError, InvalidArgument
from dpsdk.noise import NoiseSource
from dpsdk.release.description import Description
from dpsdk.session.describing import price_within, to_steps
from dpsdk.session.discovery import Discovery

__all__ = ["Look", "describe_table"]


@frozen(kw_only=True)
class Look(Source):
    """A first look at a table, as options ask for it; `dpsdk describe --help` explains them."""

    budget: Budget
    unit: str | None
    columns: tuple[str, ...] | None = None
    steps: Mapping[str, str]
    missing_texts: tuple[str, ...] = MISSING_TEXTS
    write: Path | None = None

    @property
    def lines(self) -> FileFormat:
        """The same, with the names of columns that the file has not."""
        return evolve(self.text_format, header=self.header)

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
    facts, left = _facts(look)
    to_steps(look.steps, facts)
    rho, pricing = price_within(look.columns, facts, look.budget)
    count = len(facts.columns if look.columns is None else look.columns)
    unread = f"; {left:,} without a name that can be read" if left else ""
    each = "rows" if look.unit is None else "persons"
    head = [
        f"table     {printable(look.table)}, {count:,} column{'' if count == 1 else 's'}{unread}",
        f"protects  {look.who}, by {facts.neighbors.value} neighbours",
        f"cost      {' + '.join(map(str, pricing.guarantees))}, within {look.budget}",
        f"shows     labels from about {pricing.passing:,.0f} {each} on",
    ]
    if look.dry:
        return "\n".join([*head, "a dry run: no row was read, nothing was charged or written"])
    raw = _loaded(look)
    ledger = None if look.ledger is None else look.ledger.open(made=True)
    whole = look.budget if look.cap is None else look.cap
    found: Description | None = None
    with (
        Discovery(raw, whole, noise=noise, ledger=ledger) as discovery,
        charges_told(look.ledger, lambda: discovery.spent.charges),
    ):
        try:
            found = discovery.describe(
                rho=rho, leak=pricing.request.leak, columns=look.columns, steps=look.steps
            )
            tail = [] if look.ledger is None else [f"left      {discovery.remaining}"]
            if look.write is not None:
                tail.append(f"domain    {_written(look.write, found)}")
        except BaseException:
            with suppress(Exception):
                if found is not None:
                    # It was paid for.
                    say(f"{found}\n{_domain(found)}")
            raise
    return "\n".join([*head, *tail, "", str(found)])


def _facts(look: Look) -> tuple[UndeclaredFacts, int]:
    """What is public of the table, and how many columns have no name. No row is read."""
    source = str(look.table)
    if look.parquet:
        require_narwhals()
        with explained(source):
            held: Sequence[str] = parquet_names(source)
    else:
        held = column_titles(source, look.lines)
    if look.unit is not None and look.unit not in held:
        raise InvalidArgument("--unit", "a column of the table", shown(look.unit))
    if len(held) == 1 and look.delimiter is None and (other := _other_delimiter(held[0])):
        expected = f"the character between columns, perhaps {shown(other)}; or ',' if it is that"
        raise InvalidArgument("--delimiter", expected, f"one column called {shown(held[0])}")
    names = [one for one in held if one != look.unit and can_be_asked(one)]
    if not names:
        raise DataError(source, "no column with a name that can be read, beside that of --unit")
    require_columns(source, held, names)
    require_different("--only", names if look.columns is None else look.columns)
    relation = look.neighbors or (
        Neighbors.REPLACE_ONE if look.unit is None else Neighbors.ADD_REMOVE
    )
    limit = look.max_rows or DEFAULT_MAX_ROWS
    left = len(held) - len(names) - (look.unit is not None)
    return UndeclaredFacts(tuple(names), relation, None, limit, look.unit), left


def _other_delimiter(name: str) -> str | None:
    return next((one for one in ";\t|" if one in name), None)


def _domain(found: Description) -> str:
    return "" if len(found.unknown) == len(found.columns) else found.domain.to_json()


def _written(path: Path, found: Description) -> str:
    """Write the domain; what was paid for is not lost if that fails."""
    try:
        domain = _domain(found)
    except InvalidArgument as error:
        # As where a text that stands for a missing value is a number within the bounds.
        return f"not written: {error}"
    if not domain:
        return "not written: no column is known"
    try:
        write_new(path, f"{domain}\n")
    except OSError as error:
        return f"not written: {error.strerror}. It is\n{domain}"
    return printable(path)


def _check(look: Look) -> None:
    if not look.budget.delta:
        expected = "above 0: the labels of one person may show with a small probability"
        raise InvalidArgument("--delta", expected, "0")
    look.check_name()
    look.check_cap()
    if look.unit is not None and look.neighbors is Neighbors.REPLACE_ONE:
        expected = "add-remove or left out: with --unit the number of rows is private"
        raise InvalidArgument("--neighbors", expected, look.neighbors.value)
    if look.header == ():
        raise InvalidArgument("--columns", "given with --no-header: all names", "none")
    write = look.write
    if write is not None and (write.exists() or not write.absolute().parent.is_dir()):
        expected = "a new file in a directory that is there"
        raise InvalidArgument("--write", expected, printable(write))


def _loaded(look: Look) -> Undeclared:
    options: UndeclaredOptions = {
        "neighbors": look.neighbors,
        "max_rows": look.max_rows,
        "strip": look.strip,
        "decimal": look.decimal,
        "thousands": look.thousands,
        "missing_texts": look.missing_texts,
    }
    if look.parquet:
        return Undeclared.from_parquet(look.table, unit=look.unit, name=look.label, **options)
    form = look.lines
    return Undeclared.from_csv(
        look.table,
        unit=look.unit,
        name=look.label,
        header=look.header,
        delimiter=form.delimiter,
        encoding=form.encoding,
        **options,
    )
