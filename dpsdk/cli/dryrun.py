"""Dry runs: what a release would be, told from public facts; no row is read, nothing is charged."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from importlib.util import find_spec
from math import prod

from attrs import evolve

from dpsdk import Budget, Domain
from dpsdk._checks import shown
from dpsdk.accounting import MemoryLedger, Odometer
from dpsdk.accounting.ledger.base import Decision
from dpsdk.accounting.ledger.binding import Dataset
from dpsdk.cli.about import said_by
from dpsdk.cli.declare import column_names, described
from dpsdk.cli.prices import asked_of, check_left, mechanism_for, one_row, priced
from dpsdk.cli.report import bounded, noted
from dpsdk.cli.request import Request, Wanted, in_bins
from dpsdk.cli.tables import step_of
from dpsdk.cli.words import printable
from dpsdk.data.columns import require_columns
from dpsdk.data.declaration import Declaration
from dpsdk.data.parquet import parquet_files
from dpsdk.data.texts import TextFormat
from dpsdk.errors import BudgetExceeded, DataError, InvalidArgument, MissingExtra
from dpsdk.forms import Facts
from dpsdk.kernel.access import dated
from dpsdk.mechanisms import LocalMarginals
from dpsdk.planner import Planner
from dpsdk.publication import About
from dpsdk.release import ByPeriod, KnownRowsOnly, Note

__all__ = ["outlined"]

_LISTED = 12
"""So many files are named one by one."""

_MANY = 2**40
"""Stands for a number of rows that nobody told; nothing is said that depends on it."""


def outlined(
    request: Request,
    domain: Domain,
    tables: Mapping[str, tuple[str, ...]],
    beside: Sequence[str],
    about: About,
) -> str:
    """Tell what would be released, for what price and how far off, and which files are written.

    `tables` has the attributes of each table by the name of its file, `beside` the names of the
    other files. What the release would refuse, as far as that does not depend on rows, is refused.
    """
    _check_table(request, domain)
    facts = _facts(request, domain)
    # A share is as far off as the count, over a number of rows that is not known yet.
    open_ended = not request.counts and request.rows is None
    if open_ended and isinstance(request.budget, Wanted):
        expected = "given with --error and --dry-run: how far off a share is depends on it"
        raise InvalidArgument("--rows", expected, "none")
    if open_ended:
        request = evolve(request, counts=True)
    asked = asked_of(request, list(tables.values()))
    budget, using = priced(request, facts, asked)
    payer = _payer(request, facts, budget if request.cap is None else request.cap)
    planner = Planner.of(facts, payer)
    check_left(planner)
    alone = planner if request.cap is None else Planner.of(facts, Odometer(budget))
    chosen = mechanism_for(request, budget, alone, asked) if using is None else using
    quote = planner.quote(asked, using=chosen)
    try:
        payer.check_all(quote.at_most.runs)
    except BudgetExceeded as refused:
        raise dated(refused, facts) from None
    bound = quote.bound(float(request.beta))
    # What fits tables is told its price when it has been opened.
    cost = "cost at most" if isinstance(chosen, LocalMarginals) else "cost"
    error = "How far off entries are is known once the tables are made."
    if bound.proven:
        # On which grid a share is written depends on the number of rows.
        digits = "full" if open_ended else request.digits
        step = step_of(bound.error, digits, one_row(request, facts))
        over = "\nAs a share, that is over the number of rows, which --rows tells."
        error = f"{bounded(request, bound, step, verb='would be')}{over if open_ended else ''}"
    shown_as = in_bins(request, domain)
    entries = sum(prod(shown_as[name].size for name in names) for names in tables.values())
    heading = f"{len(tables):,} table{'s' if len(tables) > 1 else ''} with {entries:,} entries"
    lines = [
        "Dry run: no row was read, nothing was charged, and nothing is written.",
        f"{heading} would be in {printable(request.out)}:",
        *(f"  {name}" for name in list(tables)[:_LISTED]),
        *([f"  and {len(tables) - _LISTED:,} more tables"] if len(tables) > _LISTED else []),
        f"  {', '.join(beside)}",
        *([] if request.about is None else [said_by(request.about, about)]),
        error,
        *noted([*_notes(facts, payer.budget), *quote.notes]).splitlines(),
        f"{cost}: {quote.at_most}, by {chosen!r}",
        *_budget(request, budget, payer),
    ]
    return "\n".join(map(printable, lines))


def _notes(facts: Facts, budget: Budget) -> Iterator[Note]:
    """Tell what the release would say of the rows that count, and of whom its budget protects."""
    known = KnownRowsOnly.of(facts)
    if known is not None:
        yield known
    if facts.periods is not None:
        yield ByPeriod(facts.periods.attribute, budget)


def _budget(request: Request, budget: Budget, payer: Odometer) -> list[str]:
    wanted, lines = request.budget, list[str]()
    if isinstance(wanted, Wanted):
        least = f"{budget} is the least budget, to six digits, for an error of {wanted.words}."
        lines.append(least)
    elif request.cap is None:
        lines.append(f"The budget is {budget}.")
    if request.ledger is not None:
        label, spent = request.ledger.label, 100 * payer.spent.fraction
        lines.append(
            f"{spent:.7g}% of {payer.budget} is spent of the table {request.label!r}, as {label} "
            f"has it."
            if request.ledger.there()
            else f"{label} would be made, with {payer.budget} for the table {request.label!r}."
        )
    return lines


def _facts(request: Request, domain: Domain) -> Facts:
    return Declaration(domain, **request.declared).facts(
        _MANY if request.rows is None else request.rows
    )


def _check_table(request: Request, domain: Domain) -> None:
    """Hold the first line of the table against the domain, if it is a text."""
    TextFormat(request.strip, request.decimal, request.thousands, request.dates)
    if request.parquet:
        # No file is opened: its end would tell of rows.
        if find_spec("narwhals") is None:
            raise MissingExtra("narwhals", "frames")
        if not any(map(find_spec, ("polars", "duckdb", "pyarrow"))):
            raise MissingExtra("polars, duckdb or pyarrow")
        parquet_files(str(request.table))
        return
    source, wanted, unit = printable(request.table), request.text_format, request.unit
    if request.header is not None:
        needed = [*domain.names, *([] if unit is None else [unit.column])]
        require_columns(source, request.header or domain.names, needed, " in --columns")
        return
    described(domain, request.table, wanted)
    if unit is not None and unit.column not in column_names(request.table, wanted):
        raise DataError(source, f"no column {shown(unit.column)} in the first line")


def _payer(request: Request, facts: Facts, whole: Budget) -> Odometer:
    """Return an odometer that stands where that of the ledger does, and writes nothing."""
    options = request.ledger
    relation, person, ledger = facts.neighbors.value, facts.person or "", MemoryLedger()
    if options is not None and options.there():
        books = options.open(made=False).dataset(request.label).read()
        if books.binding is not None:
            ledger.transact(lambda _: Decision(books))
    dataset = Dataset(
        request.label, relation, facts.unit_rows, person, facts.strip, facts.period_rule
    )
    return Odometer(whole, ledger=ledger, dataset=dataset, periods=facts.period_range)
