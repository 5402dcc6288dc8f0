"""The command `release`: tables of a file, written out as files."""

from __future__ import annotations

import json

from dpsdk import Domain, PrivateData, Session
from dpsdk.cli.about import about_of
from dpsdk.cli.declare import load
from dpsdk.cli.dryrun import outlined
from dpsdk.cli.files import check_place, staged
from dpsdk.cli.ledgers import charges_told
from dpsdk.cli.prices import asked_of, check_left, made_of, mechanism_for, priced
from dpsdk.cli.report import (
    SUMMARY,
    about_table,
    description_names,
    descriptions_of,
    report_of,
    summary_of,
)
from dpsdk.cli.request import Request, asked_tables, check_request, in_bins, in_time, with_bins
from dpsdk.cli.tables import file_names, step_of, write_csv, write_parquet
from dpsdk.data.declaration import Declaration
from dpsdk.noise import NoiseSource

__all__ = ["release_tables"]

_REPORT = "report.txt"


def release_tables(request: Request, noise: NoiseSource | None = None) -> str:
    """Release all tables for one budget, write them, and return a report for people.

    Every check that can fail, fails before the budget is spent. The files appear together once
    they are complete; if anything fails, nothing is left behind. A dry run reads no row, charges
    and writes nothing, and returns what it would do.
    """
    check_request(request)
    domain = in_time(request, load(request.domain))
    if request.outside == "apart":
        domain = Declaration(domain, **request.declared).domain
    request = with_bins(request, domain)
    tables = asked_tables(request, in_bins(request, domain))
    names = file_names(tables, request.kind)
    beside = (_REPORT, SUMMARY, *description_names(request.kind))
    out, files = request.out, request.files()
    check_place(out, [*names, *beside], request.table, files, force=request.force)
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
        charges_told(request.ledger, lambda: session.spent.charges),
        staged(out, SUMMARY, alone=not request.force) as folder,
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
        texts = {name: description.to_json() for name, description in described.items()}
        report = texts[_REPORT] = report_of(request, session, made, described)
        summary = summary_of(request, session, made, names, steps, described)
        texts[SUMMARY] = json.dumps(summary, indent=1, ensure_ascii=False) + "\n"
        for name, text in texts.items():
            (folder / name).write_text(text, encoding="utf-8")
    return report


def _loaded(request: Request, domain: Domain) -> PrivateData:
    read = {name: getattr(request, name) for name in ("strip", "decimal", "thousands", "dates")}
    declared = request.declared | read
    if request.parquet:
        return PrivateData.from_parquet(request.table, domain, **declared)
    return PrivateData.from_csv(
        request.table,
        domain,
        encoding=request.text_format.encoding,
        delimiter=request.text_format.delimiter,
        header=None if request.header is None else request.header or domain.names,
        **declared,
    )
