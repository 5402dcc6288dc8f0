"""What `python -m dpsdk release` does: all k-way tables of a file, written out as files."""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Sequence
from fractions import Fraction
from importlib.metadata import PackageNotFoundError, version
from math import comb
from pathlib import Path
from typing import Literal

from attrs import frozen

from dpsdk import Budget, Domain, Neighbors, PrivateData, Release, Session
from dpsdk._checks import shown, to_beta, to_integer
from dpsdk.errors import DomainError, DpsdkError, InvalidArgument, TooLarge
from dpsdk.mechanisms import Gaussian, Laplace
from dpsdk.noise import NoiseSource
from dpsdk.queries import Answers, MarginalTable, marginals

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
        All of it is spent.
    neighbors, outside, max_rows
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
    counts: bool = False
    beta: float = 0.05
    name: str | None = None
    force: bool = False


def release_tables(request: Request, noise: NoiseSource | None = None) -> str:
    """Release all tables for the whole budget, write them, and return a report for people.

    Every check that can fail, fails before the budget is spent. The summary is written last, so
    a directory that has one is complete.

    Raises
    ------
    DpsdkError
        If the request, the domain or the table is not as expected. Nothing was released.
    OSError
        If a file cannot be read or written.
    """
    beta = to_beta(request.beta)
    if request.neighbors is Neighbors.ADD_REMOVE and not request.counts:
        expected = "given with --neighbors add-remove, which keeps the number of rows private"
        raise InvalidArgument("--counts", expected, "no such option")
    domain = _load(request.domain)
    _check_size(domain, request.marginals)
    _check_empty(request.out, force=request.force)
    data = PrivateData.from_csv(
        request.table,
        domain,
        name=request.table.name if request.name is None else request.name,
        neighbors=request.neighbors,
        outside=request.outside,
        max_rows=request.max_rows,
    )
    _prepare(request.out)
    session = Session(data, request.budget, noise=noise)
    if request.budget.delta:
        mechanism: Gaussian | Laplace = Gaussian(rho=session.remaining.rho)
    else:
        mechanism = Laplace(epsilon=session.remaining.epsilon)
    workload = marginals(domain, request.marginals, normalized=not request.counts)
    release = session.release(workload, using=mechanism)

    names = _file_names(release.value)
    for name, table in zip(names, release.value, strict=True):
        _write_table(request.out / name, table, release.error(beta))
    report = _report(request, session, release)
    (request.out / _REPORT).write_text(report, encoding="utf-8")
    summary = _summary(request, session, release, mechanism, names)
    text = json.dumps(summary, indent=1, ensure_ascii=False)
    (request.out / _SUMMARY).write_text(text + "\n", encoding="utf-8")
    return report


def _load(path: Path) -> Domain:
    try:
        return Domain.load(path)
    except DomainError as error:
        message = f"{path}: {error}"
        raise DomainError(message) from None
    except UnicodeDecodeError:
        message = f"{path}: not text in utf-8"
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
    if entries[ways] > ENTRY_LIMIT:
        what = f"{comb(count, ways):,} tables of {ways} attributes"
        advice = "ask for tables of fewer attributes, or declare a coarser domain"
        raise TooLarge(what, entries[ways], ENTRY_LIMIT, "entries", advice)


def _check_empty(out: Path, *, force: bool) -> None:
    if not force and out.exists() and any(out.iterdir()):
        raise InvalidArgument("--out", "an empty or new directory, or come with --force", str(out))


def _prepare(out: Path) -> None:
    # A disk that cannot be written to is found out before anything is paid.
    out.mkdir(parents=True, exist_ok=True)
    (out / _SUMMARY).unlink(missing_ok=True)
    (out / _REPORT).write_text("The release was begun and has not been finished.\n", "utf-8")


def _file_names(tables: Sequence[MarginalTable]) -> list[str]:
    """A name for each table that any file system takes: numbered, of few characters."""
    digits = len(str(len(tables)))
    names: list[str] = []
    for number, table in enumerate(tables, start=1):
        words = [re.sub(r"[^A-Za-z0-9]+", "-", name).strip("-") for name in table.names]
        label = "_".join(filter(None, words))[:80]
        names.append(f"{number:0{digits}d}_{label}.csv" if label else f"{number:0{digits}d}.csv")
    return names


def _write_table(path: Path, table: MarginalTable, error: float) -> None:
    # No attribute has an empty name, so its column cannot be taken for that of the numbers.
    columns = list(table.to_columns("").values())
    suffix = " of the table" if {"value", "error"} & set(table.names) else ""
    header = [*table.names, f"value{suffix}", f"error{suffix}"]
    with path.open("w", encoding="utf-8", newline="") as file:
        lines = csv.writer(file, lineterminator="\n")
        lines.writerow(header)
        lines.writerows([*row, error] for row in zip(*columns, strict=True))


def _exact(number: Fraction) -> dict[str, float | str]:
    return {"value": float(number), "exact": str(number)}


def _summary(
    request: Request,
    session: Session,
    release: Release[Answers[MarginalTable]],
    mechanism: Gaussian | Laplace,
    names: Sequence[str],
) -> dict[str, object]:
    facts, bound = session.facts, release.bound(request.beta)
    price = mechanism.rho if isinstance(mechanism, Gaussian) else mechanism.epsilon
    kind = "rho" if isinstance(mechanism, Gaussian) else "epsilon"
    return {
        "format": FORMAT,
        "version": VERSION,
        "made_by": f"dpsdk {installed_version()}",
        "private": release.private,
        "data": {
            "name": request.table.name if request.name is None else request.name,
            "neighbors": facts.neighbors.value,
            "rows": facts.rows,
            "outside": request.outside,
            "domain": json.loads(facts.domain.to_json()),
        },
        "budget": {
            "epsilon": _exact(session.budget.epsilon),
            "delta": _exact(session.budget.delta),
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
    bound = release.bound(request.beta)
    tables = len(release.value)
    entries = sum(table.values.size for table in release.value)
    unit = "rows" if request.counts else "of the rows, as a share"
    vacuous = "\n  (vacuous: no more than is known without data)" if bound.vacuous else ""
    seeded = "" if release.private else "\nNOT PRIVATE: made with seeded noise."
    return (
        f"{tables:,} table{'s' if tables > 1 else ''} with {entries:,} entries in {request.out}\n"
        f"With probability {1 - bound.beta:g}, no entry is off by more than {bound.error:.4g} "
        f"{unit}.{vacuous}\n"
        f"cost: {release.cost}, by {release.mechanism}\n"
        f"{session!r}{seeded}\n"
        "Nothing is remembered between runs: what another run on this table spends comes on top.\n"
    )


def problem(error: DpsdkError | OSError) -> str:
    """An error as one line for a terminal."""
    text = str(error)
    if isinstance(error, OSError) and error.filename is not None:
        text = f"{error.filename}: {error.strerror}"
    return " ".join(text.split())
