"""The file of a calibration, measured on tables that are public."""

from __future__ import annotations

import os
import platform
from collections.abc import Iterator, Sequence
from itertools import repeat
from pathlib import Path

import numpy as np
from attrs import frozen

from dpsdk.calibration import PublicTable, calibrate
from dpsdk.cli.declare import load
from dpsdk.cli.report import installed_version
from dpsdk.cli.staged import write_new
from dpsdk.cli.words import printable
from dpsdk.domain import Domain
from dpsdk.errors import InvalidArgument
from dpsdk.noise import NoiseSource

__all__ = ["Calibrating", "write_calibration"]


@frozen
class Calibrating:
    """What `calibrate` was asked for on the command line."""

    tables: Sequence[Path]
    domains: Sequence[Path]
    out: Path
    settings: int
    delimiter: str
    encoding: str


def write_calibration(wanted: Calibrating, noise: NoiseSource | None) -> str:
    """Measure, write the file, and say what is in it.

    Raises
    ------
    InvalidArgument
        If there are neither as many domains as tables nor one for all.
    DomainError, DataError
        If a file is not what it should be.
    OSError
        If the new file exists, or cannot be written.
    """
    if len(wanted.domains) not in (1, len(wanted.tables)):
        expected = "given once for all tables, or once for each in their order"
        raise InvalidArgument("--domain", expected, f"{len(wanted.domains)} times")
    if os.path.lexists(wanted.out):
        raise InvalidArgument("--out", "a new file", "one that exists")
    # Before minutes of measuring.
    if not wanted.out.parent.is_dir():
        expected = "in a directory that is there"
        raise InvalidArgument("--out", expected, printable(wanted.out))
    tables = [
        PublicTable.from_csv(path, domain, delimiter=wanted.delimiter, encoding=wanted.encoding)
        for path, domain in zip(wanted.tables, _domains(wanted), strict=False)
    ]
    made = described(tables)
    source = None if noise is None else lambda: noise
    found = calibrate(tables, made=made, settings=wanted.settings, noise=source)
    write_new(wanted.out, found.to_json())
    lines = [
        f"{code}: {model.runs:,} answers, {model.base}, median x {10**model.low:.2g} "
        f"to x {10**model.high:.2g}"
        for code, model in found.errors.items()
    ]
    return "\n".join([f"{made}; written to {wanted.out.name}", *lines])


def _domains(wanted: Calibrating) -> Iterator[Domain]:
    loaded = [load(path) for path in wanted.domains]
    return iter(loaded) if len(loaded) > 1 else repeat(loaded[0])


def described(tables: Sequence[PublicTable]) -> str:
    """On what something is measured, in words."""
    names = [f"{table.name} ({table.rows:,} rows)" for table in tables[:8]]
    more = "" if len(tables) <= len(names) else f" and {len(tables) - len(names)} more"
    machine = f"{platform.machine()} of {os.cpu_count()} cores"
    return (
        f"dpsdk {installed_version()} on {', '.join(names)}{more}; {machine}, "
        f"Python {platform.python_version()}, numpy {np.__version__}"
    )
