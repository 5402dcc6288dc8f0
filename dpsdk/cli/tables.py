"""Marginal tables as files: CSV that a spreadsheet opens without harm, or Parquet."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, TypeAlias, cast

from dpsdk.cli.digits import Step
from dpsdk.domain.columns import label_columns
from dpsdk.errors import MissingExtra
from dpsdk.publication import file_names as csv_names
from dpsdk.publication import guarded
from dpsdk.publication.cells import label_cells, quoted, spellings
from dpsdk.queries import MarginalTable

__all__ = [
    "TableFormat",
    "file_names",
    "header_of",
    "require_parquet",
    "write_csv",
    "write_parquet",
]

TableFormat: TypeAlias = Literal["csv", "parquet"]


def file_names(tables: Sequence[Sequence[str]], kind: TableFormat = "csv") -> list[str]:
    """A name for each table that any file system takes: numbered, of few characters."""
    return [f"{name.removesuffix('.csv')}.{kind}" for name in csv_names(tables)]


def require_parquet() -> None:
    """Refuse where nothing is installed that writes Parquet files.

    Raises
    ------
    MissingExtra
        If pyarrow is missing.
    """
    _arrow()


def _arrow() -> tuple[Any, Any]:
    """The library pyarrow and its part for Parquet, which only who writes such files needs."""
    try:
        import pyarrow as pa  # noqa: PLC0415
        import pyarrow.parquet as pq  # noqa: PLC0415
    except ImportError:
        raise MissingExtra("pyarrow") from None
    return cast("Any", pa), cast("Any", pq)


def header_of(table: MarginalTable, *, guards: bool) -> list[str]:
    """What the columns of a table are called, all differently."""
    suffix = ""
    while {f"value{suffix}", f"error{suffix}"} & set(table.names):
        suffix += " of the table"
    names = map(guarded, table.names) if guards else table.names
    return [*names, f"value{suffix}", f"error{suffix}"]


def write_csv(path: Path, table: MarginalTable, step: Step) -> None:
    """Write a table: a column of labels for each attribute, then the number and its error bound."""
    numbers = spellings(table.values.reshape(-1), lambda value: repr(step.written(value)))
    rows = zip(label_cells(table.attributes), numbers, strict=True)
    header, stated = ",".join(map(quoted, header_of(table, guards=True))), repr(step.written_error)
    with path.open("w", encoding="utf-8", newline="") as file:
        file.write(f"{header}\n")
        file.writelines(f"{labels},{number},{stated}\n" for labels, number in rows)


def write_parquet(path: Path, table: MarginalTable, step: Step, about: Mapping[str, str]) -> None:
    """Write a table with the same columns: whole numbers, truths and dates as such.

    Parameters
    ----------
    path, table, step
        As for `write_csv`; no label needs a guard.
    about
        What the file says of the table, by name, as metadata of its schema.
    """
    pa, pq = _arrow()
    labels = label_columns(table.attributes)
    values = [float(step.written(value)) for value in table.values.ravel().tolist()]
    columns = [pa.array(column.values) for column in labels.values()]
    columns += [pa.array(values, pa.float64()), pa.array([step.stated] * len(values), pa.float64())]
    made = pa.Table.from_arrays(columns, names=header_of(table, guards=False))
    pq.write_table(made.replace_schema_metadata(dict(about)), path)
