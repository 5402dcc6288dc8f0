"""The request for a release, and what of it is checked before the table is read."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from fractions import Fraction
from itertools import combinations
from pathlib import Path
from typing import Any, Literal, TypeAlias

from dpsdk import Budget, Domain, Integer, Neighbors, Number, Periods, PrivacyUnit
from dpsdk._checks import read_whole, shown, to_beta, to_integer
from dpsdk._records import evolve, field, frozen
from dpsdk.accounting.numbers import as_text
from dpsdk.cli.ledgers import LedgerOptions
from dpsdk.cli.tables import Digits, TableFormat, require_parquet
from dpsdk.cli.words import printable
from dpsdk.codec import Codebook
from dpsdk.data import Outside
from dpsdk.data.delimited import FileFormat
from dpsdk.data.parquet import parquet_files
from dpsdk.domain import Attribute
from dpsdk.domain.dates import END
from dpsdk.domain.periods import cells_between
from dpsdk.errors import DomainError, InvalidArgument, TooLarge, UnknownAttribute, WireError
from dpsdk.queries.bins import binned
from dpsdk.typing import Label

__all__ = [
    "USUAL",
    "Method",
    "Request",
    "Source",
    "Wanted",
    "asked_tables",
    "check_request",
    "in_bins",
    "in_time",
    "with_bins",
]

Method: TypeAlias = Literal["auto", "local", "independent"]

ENTRY_LIMIT = 2**24
"""The tables of one release have no more entries than this together."""

_MANY = 100
_PARTS = 10
"""A number of more labels than many is shown in so many bins of one width, unless told else."""

USUAL = 10
"""No error takes a larger ε unless that is allowed."""


@frozen
class Wanted:
    """An error, in the unit of the tables, for the least budget that gives it.

    That budget is `most` at the most, and has its δ: a slip of the keyboard would else publish a
    table as it is. `stated` says whether whoever asks has named that limit.
    """

    error: Fraction
    most: Budget
    stated: bool = True

    @property
    def delta(self) -> Fraction:
        """The δ of that budget."""
        return self.most.delta

    @property
    def limit(self) -> float:
        """The error as a double, which all errors are; infinite if it is none."""
        try:
            return float(self.error)
        except OverflowError:
            return math.inf

    @property
    def words(self) -> str:
        """The error in words."""
        return as_text(self.error)


@frozen(kw_only=True)
class Source:
    """A private table in a file, how its text is read, and the ledger that knows it by a name.

    `header` names columns that have no names in the file. `cap` is the budget of the table in the
    ledger, where one run spends a part of it.
    """

    table: Path
    name: str | None = None
    neighbors: Neighbors | None = None
    max_rows: int | None = None
    encoding: str | None = None
    delimiter: str | None = None
    strip: bool = False
    decimal: str = "."
    thousands: str | None = None
    header: tuple[str, ...] | None = None
    ledger: LedgerOptions | None = None
    cap: Budget | None = None
    dry: bool = False

    @property
    def label(self) -> str:
        """The name of the table in the output."""
        return printable(self.table.name) if self.name is None else self.name

    @property
    def parquet(self) -> bool:
        """True if the table is one of Parquet files."""
        return self.table.suffix.lower() == ".parquet" or self.table.is_dir()

    @property
    def text_format(self) -> FileFormat:
        """How the text of a table is read that is no Parquet file."""
        return FileFormat(
            delimiter="," if self.delimiter is None else self.delimiter,
            encoding=self.encoding or "utf-8",
            strip=self.strip,
        )

    def check_name(self) -> None:
        """Refuse a ledger without a name to know the table by."""
        if self.ledger is not None and self.name is None:
            expected = "given with --ledger: it is what the ledger knows the table by"
            raise InvalidArgument("--name", expected, "none")

    def check_cap(self) -> None:
        """Refuse the budget of a ledger where there is none."""
        if self.cap is not None and self.ledger is None:
            raise InvalidArgument("--cap", "given with --ledger, which remembers it", "no --ledger")


@frozen(kw_only=True)
class Request(Source):
    """A release of tables of a file, as options ask for it; `dpsdk release --help` explains them.

    `budget` is what this run spends, as much of it as one run can, or the error that is wanted for
    as little as it costs. An empty `header` stands for the names of the domain.
    `between` has the first and the last time in words, empty for that of the domain.
    """

    domain: Path
    out: Path
    budget: Budget | Wanted
    marginals: int | None = None
    attributes: tuple[str, ...] = ()
    tables: tuple[tuple[str, ...], ...] = ()
    bins: Mapping[str, tuple[float, ...]] = field(factory=dict[str, tuple[float, ...]], hash=False)
    outside: Outside = "cell"
    unit_rows: int = 1
    unit: PrivacyUnit | None = None
    periods: Periods | None = None
    between: tuple[str, str] | None = None
    dates: str | None = None
    counts: bool = False
    beta: float | Fraction = 0.05
    force: bool = False
    method: Method = "auto"
    kind: TableFormat = "csv"
    digits: Digits = "noise"
    rows: int | None = None
    about: Path | None = None

    @property
    def declared(self) -> dict[str, Any]:
        """What a declaration takes beside the domain, by its names."""
        names = ("neighbors", "outside", "max_rows", "unit_rows", "unit", "periods")
        return {"name": self.label, **{name: getattr(self, name) for name in names}}

    def files(self) -> Iterator[Path]:
        """List the files that are needed still when tables are written."""
        yield self.domain
        yield from map(Path, parquet_files(str(self.table))) if self.parquet else [self.table]
        ledger = self.ledger
        mine = () if ledger is None else (Path(ledger.place), ledger.key, ledger.anchor)
        yield from (file for file in (self.about, *mine) if file is not None)


def check_request(request: Request) -> None:
    """Refuse options that do not go together, and a format that nothing installed writes."""
    to_beta(float(request.beta))
    relation = request.neighbors is Neighbors.ADD_REMOVE
    hidden = relation or request.unit is not None or request.periods is not None
    if hidden and not request.counts:
        option = "--periods" if request.unit is None else "--unit"
        option = "--neighbors add-remove" if relation else option
        expected = "given with --counts, as shares need the number of rows, which is private then"
        raise InvalidArgument(option, expected, "no --counts")
    request.check_name()
    if request.rows is not None:
        if not request.dry:
            raise InvalidArgument("--rows", "given with --dry-run", "no --dry-run")
        if hidden:
            raise InvalidArgument("--rows", "left out where it is private", shown(request.rows))
        if request.rows > (request.max_rows or request.rows):
            expected = f"at most --max-rows, {request.max_rows:,}"
            raise InvalidArgument("--rows", expected, f"{request.rows:,}")
    if request.parquet:
        if request.header is not None:
            raise InvalidArgument("--no-header", "left out for Parquet files", "given")
        for option, given in (("encoding", request.encoding), ("delimiter", request.delimiter)):
            if given is not None:
                raise InvalidArgument(f"--{option}", "left out for Parquet files", shown(given))
    if request.kind == "parquet":
        require_parquet()
    if isinstance(request.budget, Wanted):
        _check_wanted(request, request.budget)
    if request.cap is not None:
        _check_cap(request, request.cap)


def _check_wanted(request: Request, wanted: Wanted) -> None:
    # No share is off by more than 1.
    if not 0 < wanted.limit < (math.inf if request.counts else 1):
        expected = "above 0 and finite" if request.counts else "above 0 and below 1"
        raise InvalidArgument("--error", expected, wanted.words)
    if request.method == "local":
        expected = "left out with --method local, whose errors nobody knows beforehand"
        raise InvalidArgument("--error", expected, wanted.words)
    if request.ledger is not None and request.cap is None:
        expected = "given with --error and --ledger: what the ledger has for the table in all"
        raise InvalidArgument("--cap", expected, "none")


def _check_cap(request: Request, cap: Budget) -> None:
    request.check_cap()
    budget = request.budget
    most = budget.most if isinstance(budget, Wanted) and budget.stated else budget
    if isinstance(most, Budget) and most.epsilon > cap.epsilon:
        expected = f"at most --cap, {as_text(cap.epsilon)}"
        raise InvalidArgument("--epsilon", expected, as_text(most.epsilon))
    if budget.delta > cap.delta:
        expected = f"at most --cap-delta, {as_text(cap.delta)}"
        raise InvalidArgument("--delta", expected, as_text(budget.delta))


def in_time(request: Request, domain: Domain) -> Domain:
    """Return the domain as far as the time goes that is asked for; all of it without periods."""
    periods, between = request.periods, request.between
    if periods is None:
        if between is not None:
            raise InvalidArgument("--between", "given with --periods", "..".join(between))
        return domain
    periods.check(domain)
    if between is None:
        expected = "given with --periods, as in 2026-05-01..2026-05-07, or .. for all of the domain"
        raise InvalidArgument("--between", expected, "none")
    when = domain[periods.attribute]
    first, last = (_time(when, word) if word else None for word in between)
    try:
        return periods.cut(domain, *cells_between(when, first, last))
    except InvalidArgument as error:
        raise InvalidArgument("--between", f"with an end {error.expected}", error.got) from None


def _time(attribute: Attribute, word: str) -> Label:
    """Return the value that a word of the command line stands for."""
    expected = "dates as 2026-05-01, hours as 2026-05-01T23:00, or whole numbers"
    if isinstance(attribute, Integer):
        number = read_whole(word)
        if number is None:
            raise InvalidArgument("--between", expected, shown(word))
        return number
    try:
        return END.read(word, "--between", Codebook())
    except WireError:
        raise InvalidArgument("--between", expected, shown(word)) from None


def with_bins(request: Request, domain: Domain) -> Request:
    """Return the request with bins for each number that has too many labels for a table."""
    for name in request.bins:
        if not isinstance(domain[name], Integer | Number):
            raise InvalidArgument("--bins", "bins of a number of the domain", shown(name))
    even = {one.name: _even_edges(one) for one in domain if isinstance(one, Number)}
    large = {name: edges for name, edges in even.items() if domain[name].known > _MANY}
    return evolve(request, bins={**large, **request.bins})


def _even_edges(number: Number) -> tuple[float, ...]:
    last = number.known - 1
    return tuple([float(number.point(last * part // _PARTS)) for part in range(_PARTS + 1)])


def in_bins(request: Request, domain: Domain) -> Domain:
    """Return the domain as tables show it: numbers in their bins."""
    edges = request.bins
    return Domain(*[binned(one, edges[one.name]) if one.name in edges else one for one in domain])


def asked_tables(request: Request, domain: Domain) -> list[tuple[str, ...]]:
    """Return the attributes of each table, in the order in which they are released."""
    _check_writable(request.domain, domain)
    if request.tables:
        _check_tables(request, domain)
        sizes = [math.prod(domain[name].size for name in names) for names in request.tables]
        _check_size(sum(sizes), len(sizes), f"{len(sizes):,} tables")
        return list(request.tables)
    chosen = _distinct("--attributes", request.attributes, domain) or domain.names
    count = len(chosen)
    ways = min(2, count) if request.marginals is None else request.marginals
    if not 1 <= to_integer("--marginals", ways) <= count:
        raise InvalidArgument("--marginals", f"from 1 to {count}, the attributes", shown(ways))
    # Adding one attribute at a time gives the sums of the products of sizes, for every k.
    entries, tables = [1] + [0] * ways, [1] + [0] * ways
    for name in chosen:
        for k in range(ways, 0, -1):
            entries[k] += domain[name].size * entries[k - 1]
            tables[k] += tables[k - 1]
    _check_size(entries[ways], tables[ways], f"{tables[ways]:,} tables of {ways} attributes")
    return list(combinations(chosen, ways))


def _check_tables(request: Request, domain: Domain) -> None:
    for option, given in (
        ("--marginals", request.marginals is not None),
        ("--attributes", bool(request.attributes)),
    ):
        if given:
            raise InvalidArgument(option, "left out with --tables, which names them", "given")
    seen: set[frozenset[str]] = set()
    for names in request.tables:
        same = frozenset(_distinct("--tables", names, domain))
        if same in seen:
            expected = "different tables, since each costs, whatever the order of its attributes"
            raise InvalidArgument("--tables", expected, f"{shown(', '.join(names))} twice")
        seen.add(same)


def _distinct(option: str, names: tuple[str, ...], domain: Domain) -> tuple[str, ...]:
    for place, name in enumerate(names):
        if name not in domain.names:
            raise UnknownAttribute(name, domain.names)
        if name in names[:place]:
            raise InvalidArgument(option, "of attributes named once", f"{shown(name)} twice")
    return names


def _check_size(entries: int, tables: int, what: str) -> None:
    # Each table is a file of its own, even where it has few entries.
    if max(entries, tables) > ENTRY_LIMIT:
        advice = "ask for tables of fewer attributes, or declare a coarser domain"
        raise TooLarge(what, entries, ENTRY_LIMIT, "entries", advice)


def _check_writable(path: Path, domain: Domain) -> None:
    try:
        json.dumps(json.loads(domain.to_json()), ensure_ascii=False).encode("utf-8")
    except UnicodeEncodeError:
        message = f"{path}: a label holds half of a surrogate pair, which no text file can hold"
        raise DomainError(message) from None
