"""Marginal tables as CSV files that a spreadsheet opens without harm."""

from __future__ import annotations

import csv
from pathlib import Path

from dpsdk.publication import file_names, guarded
from dpsdk.queries import MarginalTable

__all__ = ["file_names", "guarded", "write_table"]


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
