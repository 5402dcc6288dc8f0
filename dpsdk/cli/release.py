"""What `dpsdk release` does: tables of a file, written out as files."""

from __future__ import annotations

import json
from collections.abc import Generator
from contextlib import contextmanager, suppress

from dpsdk import Domain, PrivateData, Session
from dpsdk.cli.about import about_of
from dpsdk.cli.declare import load
from dpsdk.cli.descriptions import description_names, descriptions_of
from dpsdk.cli.digits import step_of
from dpsdk.cli.made import asked_of, check_left, made_of, mechanism_for
from dpsdk.cli.outline import outlined
from dpsdk.cli.place import check_place
from dpsdk.cli.report import SUMMARY, about_table, report_of, summary_of
from dpsdk.cli.request import Request, asked_tables, check_request
from dpsdk.cli.staged import staged
from dpsdk.cli.tables import file_names, write_csv, write_parquet
from dpsdk.cli.wanted import priced
from dpsdk.cli.words import Remark
from dpsdk.noise import NoiseSource

__all__ = ["release_tables"]

_REPORT = "report.txt"


def release_tables(request: Request, noise: NoiseSource | None = None) -> str:
    """Release all tables for one budget, write them, and return a report for people.

    Every check that can fail, fails before the budget is spent. The files appear together once
    they are complete; if anything fails, nothing is left behind. A dry run reads no row, charges
    and writes nothing, and returns what it would do.

    Raises
    ------
    DpsdkError
        If the request, the domain or the table is not as expected. Nothing was released.
    OSError
        If a file cannot be read or written.
    """
    check_request(request)
    domain = load(request.domain)
    tables = asked_tables(request, domain)
    names = file_names(tables, request.kind)
    beside = (_REPORT, SUMMARY, *description_names(request.kind))
    check_place(request, [*names, *beside])
    about = about_of(request.about, request.name)
    if request.dry:
        return outlined(request, domain, dict(zip(names, tables, strict=True)), beside, about)
    data, workload = _loaded(request, domain), asked_of(request, tables)
    budget, using = priced(request, data.facts, workload)
    ledger = None if request.ledger is None else request.ledger.open(made=True)
    whole = budget if request.cap is None else request.cap
    session = Session(data, whole, noise=noise, ledger=ledger)
    # What one run may spend is what a session with a budget of its own may.
    alone = session if request.cap is None else Session(data, budget, noise=noise)
    check_left(session)
    with (
        _charges_told(request, session),
        staged(request.out, SUMMARY, alone=not request.force) as folder,
    ):
        # A disk that cannot be written to is found out before anything is paid.
        (folder / _REPORT).touch()
        chosen = mechanism_for(request, budget, alone, workload) if using is None else using
        made = made_of(request, session, chosen, workload)
        steps = [step_of(error, request.digits, made.unit) for error in made.errors]
        for name, table, step in zip(names, made.release.value, steps, strict=True):
            if request.kind == "parquet":
                write_parquet(folder / name, table, step, about_table(request, made, step))
            else:
                write_csv(folder / name, table, step)
        described = descriptions_of(request, made, names, steps, about)
        for name, description in described.items():
            (folder / name).write_text(description.to_json(), encoding="utf-8")
        report = report_of(request, session, made, described)
        (folder / _REPORT).write_text(report, encoding="utf-8")
        summary = summary_of(request, session, made, names, steps, described)
        text = json.dumps(summary, indent=1, ensure_ascii=False)
        (folder / SUMMARY).write_text(text + "\n", encoding="utf-8")
    return report


@contextmanager
def _charges_told(request: Request, session: Session) -> Generator[None]:
    """Whoever fails after the ledger was charged says so: a charge stays."""
    before = session.spent.charges
    try:
        yield
    except BaseException as error:
        with suppress(Exception):
            if request.ledger is not None and session.spent.charges > before:
                error.add_note(Remark(f"what {request.ledger.label} was charged stays charged"))
        raise


def _loaded(request: Request, domain: Domain) -> PrivateData:
    if request.parquet:
        return PrivateData.from_parquet(
            request.table,
            domain,
            name=request.label,
            neighbors=request.neighbors,
            outside=request.outside,
            max_rows=request.max_rows,
            unit_rows=request.unit_rows,
            unit=request.unit,
            strip=request.strip,
            decimal=request.decimal,
            thousands=request.thousands,
            dates=request.dates,
        )
    return PrivateData.from_csv(
        request.table,
        domain,
        name=request.label,
        neighbors=request.neighbors,
        outside=request.outside,
        max_rows=request.max_rows,
        unit_rows=request.unit_rows,
        unit=request.unit,
        encoding=request.encoding or "utf-8",
        delimiter="," if request.delimiter is None else request.delimiter,
        strip=request.strip,
        decimal=request.decimal,
        thousands=request.thousands,
        dates=request.dates,
        header=None if request.header is None else request.header or domain.names,
    )
