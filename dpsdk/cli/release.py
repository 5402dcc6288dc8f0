"""What `python -m dpsdk release` does: all k-way tables of a file, written out as files."""

from __future__ import annotations

import json
from fractions import Fraction
from importlib.metadata import PackageNotFoundError, version
from itertools import combinations
from math import comb
from pathlib import Path
from typing import Literal

import numpy as np
from attrs import frozen

from dpsdk import Budget, Domain, Neighbors, PrivacyUnit, PrivateData, Release, Session
from dpsdk._checks import shown, to_beta, to_integer
from dpsdk.accounting.numbers.search import largest
from dpsdk.cli.declare import load
from dpsdk.cli.ledgers import LedgerOptions
from dpsdk.cli.staged import staged
from dpsdk.cli.tables import file_names, write_table
from dpsdk.cli.words import printable
from dpsdk.errors import (
    DomainError,
    InvalidArgument,
    NoBound,
    TooLarge,
    UnsupportedGuarantee,
)
from dpsdk.mechanisms import FittedTable, Gaussian, Laplace, LocalMarginals
from dpsdk.noise import NoiseSource
from dpsdk.queries import Answers, MarginalTable, Workload, marginals
from dpsdk.release import Bound, Cost

__all__ = ["Request", "installed_version", "release_tables"]

FORMAT = "dpsdk.tables"
VERSION = 1

ENTRY_LIMIT = 2**24
"""The tables of one release have no more entries than this together."""

DENSE_LIMIT = 2**21
"""In universes of more cells tables are many or large, and fitting them wins."""

_CERTIFY = Fraction(1, 10)
"""What part of the budget the certificate of fitted tables takes."""

_SUMMARY = "release.json"
_REPORT = "report.txt"


def installed_version() -> str:
    """The version of the installed package."""
    try:
        return version("dpsdk")
    except PackageNotFoundError:
        return "of a source tree"


@frozen(kw_only=True)
class Request:
    """What to release, and where to write it.

    Parameters
    ----------
    table, domain, out
        The private table, the file of its domain, and the directory for what is released.
    marginals
        How many attributes each table has.
    budget
        As much of it is spent as one run can spend: all of it by Laplace noise.
    neighbors, outside, max_rows, unit_rows, unit, encoding, delimiter, strip, decimal, thousands
        As declared for the table; see PrivateData.
    counts
        Counts of rows instead of shares of them.
    beta
        The error bounds hold with probability 1 - beta, for all entries of all tables at once.
    name
        What the table is called in the output, by default the name of its file.
    method
        "local" fits all tables by LocalMarginals, with a certificate; "independent" adds noise to
        each of them; "auto" fits them where δ is above 0 and the universe has more than 2^21 cells.
    force
        Write into a directory that holds other files, over those of the same names.
    ledger
        What remembers the budget, by the name of the table; None if nothing does.
    cap
        What that budget is in all, of which this run spends `budget` or nothing; None where
        `budget` is all of it, and this run spends what is left.
    """

    table: Path
    domain: Path
    out: Path
    marginals: int
    budget: Budget
    neighbors: Neighbors | None = None
    outside: Literal["cell", "clip"] = "cell"
    max_rows: int | None = None
    unit_rows: int = 1
    unit: PrivacyUnit | None = None
    encoding: str = "utf-8"
    delimiter: str = ","
    strip: bool = False
    decimal: str = "."
    thousands: str | None = None
    counts: bool = False
    beta: float | Fraction = 0.05
    name: str | None = None
    force: bool = False
    method: Literal["auto", "local", "independent"] = "auto"
    ledger: LedgerOptions | None = None
    cap: Budget | None = None

    @property
    def label(self) -> str:
        """What the table is called in the output."""
        return printable(self.table.name) if self.name is None else self.name


def release_tables(request: Request, noise: NoiseSource | None = None) -> str:
    """Release all tables for one budget, write them, and return a report for people.

    Every check that can fail, fails before the budget is spent. The files appear together once
    they are complete; if anything fails, nothing is left behind.

    Raises
    ------
    DpsdkError
        If the request, the domain or the table is not as expected. Nothing was released.
    OSError
        If a file cannot be read or written.
    """
    to_beta(float(request.beta))
    hidden = request.neighbors is Neighbors.ADD_REMOVE
    if (hidden or request.unit is not None) and not request.counts:
        option = "--neighbors add-remove" if hidden else "--unit"
        expected = "given with --counts, as shares need the number of rows, which is private then"
        raise InvalidArgument(option, expected, "no --counts")
    if request.ledger is not None and request.name is None:
        expected = "given with --ledger: it is what the ledger knows the table by"
        raise InvalidArgument("--name", expected, "none")
    if request.cap is not None:
        _check_cap(request, request.cap)
    domain = load(request.domain)
    _check_writable(request.domain, domain)
    _check_size(domain, request.marginals)
    workload = marginals(domain, request.marginals, normalized=not request.counts)
    names = file_names(list(combinations(domain.names, request.marginals)))
    _check_place(request.out, [*names, _REPORT, _SUMMARY], force=request.force)
    data = PrivateData.from_csv(
        request.table,
        domain,
        name=request.label,
        neighbors=request.neighbors,
        outside=request.outside,
        max_rows=request.max_rows,
        unit_rows=request.unit_rows,
        unit=request.unit,
        encoding=request.encoding,
        delimiter=request.delimiter,
        strip=request.strip,
        decimal=request.decimal,
        thousands=request.thousands,
    )
    ledger = None if request.ledger is None else request.ledger.open(made=True)
    whole = request.budget if request.cap is None else request.cap
    session = Session(data, whole, noise=noise, ledger=ledger)
    # What one run may spend is what a session with a budget of its own may.
    alone = session if request.cap is None else Session(data, request.budget, noise=noise)
    if not session.remaining.epsilon and not session.remaining.rho:
        expected = "one with some of the budget of the table left"
        raise InvalidArgument("--ledger", expected, "one where all of it is spent")
    with staged(request.out, _SUMMARY) as folder:
        # A disk that cannot be written to is found out before anything is paid.
        (folder / _REPORT).touch()
        made = _made(request, session, alone, workload)
        for name, table, error in zip(names, made.release.value, made.errors, strict=True):
            write_table(folder / name, table, error)
        report = _report(request, session, made)
        (folder / _REPORT).write_text(report, encoding="utf-8")
        summary = _summary(request, session, made, names)
        text = json.dumps(summary, indent=1, ensure_ascii=False)
        (folder / _SUMMARY).write_text(text + "\n", encoding="utf-8")
    return report


@frozen(kw_only=True)
class _Made:
    """All tables, what they cost, and how far off they may be."""

    release: Release[Answers[MarginalTable]]
    mechanism: str
    kind: str
    price: Fraction
    cost: Cost
    bound: Bound
    errors: tuple[float, ...]
    """For each table: how far off an entry may be."""
    listed: tuple[FittedTable, ...] | None = None
    """What each table rests on, where that is not the same for all."""


def _made(
    request: Request, session: Session, alone: Session, workload: Workload[MarginalTable]
) -> _Made:
    large = session.domain.size > DENSE_LIMIT and bool(request.budget.delta)
    if request.method == "local" or (request.method == "auto" and large):
        return _fitted(request, session, workload)
    mechanism = _mechanism(alone, workload)
    release = session.release(workload, using=mechanism)
    bound = release.bound(float(request.beta))
    price = mechanism.rho if isinstance(mechanism, Gaussian) else mechanism.epsilon
    return _Made(
        release=release,
        mechanism=type(mechanism).__name__,
        kind="rho" if isinstance(mechanism, Gaussian) else "epsilon",
        price=price or Fraction(0),
        cost=release.cost,
        bound=bound,
        errors=(release.error(float(request.beta)),) * len(release.value),
    )


def _fitted(request: Request, session: Session, workload: Workload[MarginalTable]) -> _Made:
    """Tables that were fitted one by one, each with its bound from the certificate."""
    budget, beta = request.budget, float(request.beta)
    if not budget.delta:
        expected = "above 0 with --method local, whose noise is Gaussian"
        raise InvalidArgument("--delta", expected, "0")
    mechanism = LocalMarginals(
        workload, epsilon=budget.epsilon, delta=budget.delta, certify=_CERTIFY, beta=beta
    )
    with session.open(mechanism) as channel:
        cost = session.history[-1].cost
        release = channel.release(workload)
        known = {frozenset(one.names): one for one in channel.tables}
    listed = tuple([known[frozenset(table.names)] for table in release.value])
    # No share is off by more than 1, and no count by more than all rows that there may be.
    most = float(session.facts.row_limit) if request.counts else 1.0
    starts = np.cumsum([0, *[table.values.size for table in release.value]])[:-1]
    try:
        each = np.minimum(release.errors(beta), most)[starts]
    except NoBound:
        each = np.full(len(starts), most)
    largest_error = float(each.max())
    kind = "certificate of all tables at once, by their total variation"
    bound = Bound(largest_error, beta, kind, "promised", vacuous=largest_error >= most)
    return _Made(
        release=release,
        mechanism="LocalMarginals",
        kind="rho",
        price=cost.rho,
        cost=cost,
        bound=bound,
        errors=tuple(each.tolist()),
        listed=listed,
    )


def _mechanism(session: Session, workload: Workload[MarginalTable]) -> Gaussian | Laplace:
    """The mechanism whose one run takes as much of the budget as one run can."""
    if not session.budget.delta:
        return Laplace(epsilon=session.remaining.epsilon)

    def fits(rho: Fraction) -> bool:
        try:
            count = session.affords(workload, using=Gaussian(rho=rho))
        except (InvalidArgument, UnsupportedGuarantee):
            return False
        return count is None or count >= 1

    rho = largest(fits, session.remaining.rho)
    if not rho:
        expected = "large enough for one run of Gaussian noise"
        raise InvalidArgument("--epsilon and --delta", expected, str(session.budget))
    return Gaussian(rho=rho)


def _check_cap(request: Request, cap: Budget) -> None:
    if request.ledger is None:
        raise InvalidArgument("--cap", "given with --ledger, which remembers it", "no --ledger")
    budget = request.budget
    if budget.epsilon > cap.epsilon:
        raise InvalidArgument("--epsilon", f"at most --cap, {cap.epsilon}", str(budget.epsilon))
    if budget.delta > cap.delta:
        expected = f"at most --cap-delta, {cap.delta}"
        raise InvalidArgument("--delta", expected, str(budget.delta))


def _check_writable(path: Path, domain: Domain) -> None:
    try:
        json.dumps(json.loads(domain.to_json()), ensure_ascii=False).encode("utf-8")
    except UnicodeEncodeError:
        message = f"{path}: a label holds half of a surrogate pair, which no text file can hold"
        raise DomainError(message) from None


def _check_size(domain: Domain, ways: int) -> None:
    count = len(domain.names)
    if not 1 <= to_integer("--marginals", ways) <= count:
        raise InvalidArgument("--marginals", f"from 1 to {count}, the attributes", shown(ways))
    # Adding one attribute at a time gives the sums of the products of sizes, for every k.
    entries = [1] + [0] * ways
    for size in domain.shape:
        for k in range(ways, 0, -1):
            entries[k] += size * entries[k - 1]
    # Each table is a file of its own, even where it has few entries.
    if max(entries[ways], comb(count, ways)) > ENTRY_LIMIT:
        what = f"{comb(count, ways):,} tables of {ways} attributes"
        advice = "ask for tables of fewer attributes, or declare a coarser domain"
        raise TooLarge(what, entries[ways], ENTRY_LIMIT, "entries", advice)


def _check_place(out: Path, names: list[str], *, force: bool) -> None:
    if out.exists() and any(out.iterdir()):
        if not force:
            expected = "an empty or new directory, or come with --force"
            raise InvalidArgument("--out", expected, printable(out))
        taken = next((name for name in names if (out / name).is_dir()), None)
        if taken is not None:
            expected = f"without a directory {taken!r} in it, where a file should be"
            raise InvalidArgument("--out", expected, printable(out))


def _exact(number: Fraction) -> dict[str, float | str]:
    return {"value": float(number), "exact": str(number)}


def _summary(
    request: Request,
    session: Session,
    made: _Made,
    names: list[str],
) -> dict[str, object]:
    facts, bound, release = session.facts, made.bound, made.release
    return {
        "format": FORMAT,
        "version": VERSION,
        "made_by": f"dpsdk {installed_version()}",
        "private": release.private,
        "data": {
            "name": request.label,
            "neighbors": facts.neighbors.value,
            "rows": facts.rows,
            "unit_rows": facts.unit_rows,
            "protects": facts.unit,
            "outside": request.outside,
            "domain": json.loads(facts.domain.to_json()),
        },
        "budget": {
            "epsilon": _exact(session.budget.epsilon),
            "delta": _exact(session.budget.delta),
            "share_spent": session.spent.fraction,
        },
        "mechanism": made.mechanism,
        "cost": {made.kind: _exact(made.price), "text": str(made.cost)},
        "unit": "rows" if request.counts else "share of the rows",
        "error": {
            "bound": bound.error,
            "beta": bound.beta,
            "covers": "all entries of all tables at once",
            "kind": bound.kind,
            "proven": bound.proven,
            "vacuous": bound.vacuous,
        },
        "tables": [
            {
                "attributes": list(table.names),
                "file": name,
                "shape": list(table.values.shape),
                "values": table.values.ravel().tolist(),
                **_rested(made, place),
            }
            for place, (name, table) in enumerate(zip(names, release.value, strict=True))
        ],
    }


def _rested(made: _Made, place: int) -> dict[str, object]:
    """What one table rests on, where each has bounds of its own."""
    if made.listed is None:
        return {}
    one = made.listed[place]
    return {
        "source": one.source,
        "error": made.errors[place],
        "total_variation": one.total_variation,
    }


def _variation(made: _Made) -> str:
    if made.listed is None:
        return ""
    looser = (
        "Tables were fitted, and are nearer in sum than with independent noise; but the bound of "
        "one\nentry follows from that of its whole table, and may be ten times looser: --method "
        "independent\nbounds each entry by its own noise.\n"
    )
    known = [one.total_variation for one in made.listed if one.total_variation is not None]
    if not known:
        return looser
    mean = sum(known) / len(known)
    return (
        f"Together with that, the total variation of each table is bounded, by {mean:.4g} in the "
        f"mean\nand {max(known):.4g} at the most; {_SUMMARY} has both bounds of each table.\n"
        f"{looser}"
    )


def _report(request: Request, session: Session, made: _Made) -> str:
    release, bound = made.release, made.bound
    tables = len(release.value)
    entries = sum(table.values.size for table in release.value)
    unit = " rows" if request.counts else ", as a share of the rows"
    vacuous = "\n  (vacuous: no more than is known without data)" if bound.vacuous else ""
    seeded = "" if release.private else "\nNOT PRIVATE: made with seeded noise."
    return (
        f"{tables:,} table{'s' if tables > 1 else ''} with {entries:,} entries in "
        f"{printable(request.out)}\n"
        f"With probability {1 - bound.beta:g}, no entry is off by more than {bound.error:.4g}"
        f"{unit}.{vacuous}\n"
        f"{_variation(made)}"
        f"cost: {made.cost}, by {release.mechanism}\n"
        f"{_spent(request, session, made)}\n"
        f"{session!r}{seeded}\n"
        f"{_remembered(request)}\n"
    )


def _remembered(request: Request) -> str:
    if request.ledger is None:
        return (
            "Nothing is remembered between runs: what another run on this table spends comes on "
            "top."
        )
    return f"{request.ledger.label} remembers that, for the table {request.label!r}."


def _spent(request: Request, session: Session, made: _Made) -> str:
    share = session.spent.fraction
    if request.cap is not None:
        return f"{100 * share:.7g}% of {session.budget} is spent, by all runs on the ledger."
    if share >= 1:
        return f"The whole of {session.budget} is spent."
    rest = "" if made.listed is not None else "; no run with less Gaussian noise fits"
    return f"{100 * share:.7g}% of {session.budget} is spent{rest}."
