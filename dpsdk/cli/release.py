"""What `python -m dpsdk release` does: all k-way tables of a file, written out as files."""

from __future__ import annotations

import json
from fractions import Fraction
from importlib.metadata import PackageNotFoundError, version
from itertools import combinations
from math import comb
from pathlib import Path
from typing import Literal

from attrs import frozen

from dpsdk import Budget, Domain, Neighbors, PrivateData, Release, Session
from dpsdk._checks import shown, to_beta, to_integer
from dpsdk.accounting.numbers.search import largest
from dpsdk.cli.declare import load
from dpsdk.cli.staged import staged
from dpsdk.cli.tables import file_names, write_table
from dpsdk.cli.words import printable
from dpsdk.errors import DomainError, InvalidArgument, TooLarge, UnsupportedGuarantee
from dpsdk.mechanisms import Gaussian, Laplace
from dpsdk.noise import NoiseSource
from dpsdk.queries import Answers, MarginalTable, Workload, marginals

__all__ = ["Request", "installed_version", "release_tables"]

FORMAT = "dpsdk.tables"
VERSION = 1

ENTRY_LIMIT = 2**24
"""The tables of one release have no more entries than this together."""

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
    neighbors, outside, max_rows, unit_rows, encoding, delimiter, strip, decimal, thousands
        As declared for the table; see PrivateData.
    counts
        Counts of rows instead of shares of them.
    beta
        The error bounds hold with probability 1 - beta, for all entries of all tables at once.
    name
        What the table is called in the output, by default the name of its file.
    force
        Write into a directory that holds other files, over those of the same names.
    """

    table: Path
    domain: Path
    out: Path
    marginals: int
    budget: Budget
    neighbors: Neighbors = Neighbors.REPLACE_ONE
    outside: Literal["cell", "clip"] = "cell"
    max_rows: int | None = None
    unit_rows: int = 1
    encoding: str = "utf-8"
    delimiter: str = ","
    strip: bool = False
    decimal: str = "."
    thousands: str | None = None
    counts: bool = False
    beta: float | Fraction = 0.05
    name: str | None = None
    force: bool = False

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
    beta = to_beta(float(request.beta))
    if request.neighbors is not Neighbors.REPLACE_ONE and not request.counts:
        expected = "given with --counts, as shares need the number of rows, which is private then"
        raise InvalidArgument("--neighbors add-remove", expected, "no --counts")
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
        encoding=request.encoding,
        delimiter=request.delimiter,
        strip=request.strip,
        decimal=request.decimal,
        thousands=request.thousands,
    )
    session = Session(data, request.budget, noise=noise)
    with staged(request.out, _SUMMARY) as folder:
        # A disk that cannot be written to is found out before anything is paid.
        (folder / _REPORT).touch()
        mechanism = _mechanism(session, workload)
        release = session.release(workload, using=mechanism)
        for name, table in zip(names, release.value, strict=True):
            write_table(folder / name, table, release.error(beta))
        report = _report(request, session, release)
        (folder / _REPORT).write_text(report, encoding="utf-8")
        summary = _summary(request, session, release, mechanism, names)
        text = json.dumps(summary, indent=1, ensure_ascii=False)
        (folder / _SUMMARY).write_text(text + "\n", encoding="utf-8")
    return report


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
    release: Release[Answers[MarginalTable]],
    mechanism: Gaussian | Laplace,
    names: list[str],
) -> dict[str, object]:
    facts, bound = session.facts, release.bound(float(request.beta))
    price = mechanism.rho if isinstance(mechanism, Gaussian) else mechanism.epsilon
    kind = "rho" if isinstance(mechanism, Gaussian) else "epsilon"
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
            "outside": request.outside,
            "domain": json.loads(facts.domain.to_json()),
        },
        "budget": {
            "epsilon": _exact(session.budget.epsilon),
            "delta": _exact(session.budget.delta),
            "share_spent": session.spent.fraction,
        },
        "mechanism": type(mechanism).__name__,
        "cost": {kind: _exact(price or Fraction(0)), "text": str(release.cost)},
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
            }
            for name, table in zip(names, release.value, strict=True)
        ],
    }


def _report(request: Request, session: Session, release: Release[Answers[MarginalTable]]) -> str:
    bound = release.bound(float(request.beta))
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
        f"cost: {release.cost}, by {release.mechanism}\n"
        f"{_spent(session)}\n"
        f"{session!r}{seeded}\n"
        "Nothing is remembered between runs: what another run on this table spends comes on top.\n"
    )


def _spent(session: Session) -> str:
    share = session.spent.fraction
    if share >= 1:
        return f"The whole of {session.budget} is spent."
    return f"{100 * share:.7g}% of {session.budget} is spent; no run with less Gaussian noise fits."
