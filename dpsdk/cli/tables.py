"""Marginal tables as CSV files that a spreadsheet opens without harm."""

from __future__ import annotations

import csv
import re
from collections.abc import Sequence
from pathlib import Path

from dpsdk._checks import read_decimal
from dpsdk.queries import MarginalTable

__all__ = ["file_names", "guarded", "write_table"]

_FORMULAS = ("=", "+", "-", "@", "\t", "\r", "\n", "\uff1d", "\uff0b", "\uff0d", "\uff20")
"""How a text begins that some spreadsheet runs, full-width signs included."""


def guarded(label: str) -> str:
    """A label as a spreadsheet may show it, without running it as a formula.

    One that starts like a formula, and is no plain number, gets an apostrophe before it. So does
    one that starts with an apostrophe: who drops one leading apostrophe has the label again.
    """
    if label.startswith(("'", *_FORMULAS)) and read_decimal(label) is None:
        return f"'{label}"
    return label


def file_names(tables: Sequence[Sequence[str]]) -> list[str]:
    """A name for each table that any file system takes: numbered, of few characters."""
    digits = len(str(len(tables)))
    names: list[str] = []
    for number, attributes in enumerate(tables, start=1):
        words = [re.sub(r"[^A-Za-z0-9]+", "-", name).strip("-") for name in attributes]
        label = "_".join(filter(None, words))[:80]
        names.append(f"{number:0{digits}d}_{label}.csv" if label else f"{number:0{digits}d}.csv")
    return names


def write_table(path: Path, table: MarginalTable, error: float) -> None:
    """Write a table: a column of labels for each attribute, then the number and its error bound."""
    # No attribute has an empty name, so its column cannot be taken for that of the numbers.
    *labels, values = table.to_columns("").values()
    suffix = " of the table" if {"value", "error"} & set(table.names) else ""
    header = [*map(guarded, table.names), f"value{suffix}", f"error{suffix}"]
    columns = [[guarded(str(label)) for label in column] for column in labels]
    with path.open("w", encoding="utf-8", newline="") as file:
        # All texts in quotes: a lone carriage return, or a semicolon, would else split a line.
        lines = csv.writer(file, lineterminator="\n", quoting=csv.QUOTE_NONNUMERIC)
        lines.writerow(header)
        lines.writerows([*row, error] for row in zip(*columns, values, strict=True))
