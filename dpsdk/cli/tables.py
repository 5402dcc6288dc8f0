"""Marginal tables as files, CSV or Parquet, in as many digits as the noise leaves of a number."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from decimal import ROUND_CEILING, Context, Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any, Literal, TypeAlias, cast

from dpsdk._records import frozen
from dpsdk.domain.columns import label_columns
from dpsdk.errors import MissingExtra
from dpsdk.publication import file_names as csv_names
from dpsdk.publication import guarded
from dpsdk.publication.files import label_cells, quoted, spellings
from dpsdk.queries import MarginalTable

__all__ = [
    "Digits",
    "Step",
    "TableFormat",
    "file_names",
    "header_of",
    "require_parquet",
    "step_of",
    "write_csv",
    "write_parquet",
]

TableFormat: TypeAlias = Literal["csv", "parquet"]

Digits: TypeAlias = Literal["noise", "full"]
"""The digits of a number that are written: those that the noise leaves of it, or all."""

_UP = Context(prec=4, rounding=ROUND_CEILING)
"""Errors are stated in four digits, rounded up."""

_ROUNDINGS = Fraction(1, 2**50)
"""A share and its error, each a whole number times 1 / rows in floats, are no farther off."""

_EXACT = 2.0**53

_COARSEST = -15
"""From steps of so many noughts on, numbers may be too large to be told apart as floats."""

_FINEST = 12
"""So many digits after the point, and any before it, are told apart by floats; more are all."""


@frozen
class Step:
    """The decimal grid on which numbers are written that are off by up to `error`.

    The step of the grid is the largest power of ten that is at most a tenth of the error, so a
    number moves by no more than half of that, a twentieth of the error. So a number as it is
    written is off by no more than the error and half a step, by the triangle inequality. Where the
    truth is known to be a multiple of `unit` (a row, or the share of one; 0 where that is not
    known), both it and the number as it is written are multiples of the greatest common divisor of
    unit and step, and so is their distance: it is at most the largest such multiple within that
    sum. Whole counts that are written in steps of one row, or of a part of it, are then off by the
    error alone. `places` digits follow the point; below 0 tens, hundreds and so on; None is all.
    """

    error: float
    places: int | None
    unit: Fraction = Fraction(0)

    @property
    def size(self) -> Fraction:
        """The step, 0 where all digits are written."""
        return Fraction(0) if self.places is None else Fraction(10) ** -self.places

    @property
    def stated(self) -> float:
        """How far off a number is as it is written, rounded up to the decimal that it prints as."""
        if self.places is None:
            return self.error
        far = Fraction(repr(self.error)) + self.size / 2
        if self.unit:
            common = _common(self.size, self.unit)
            far = (far + (1 + far) * _ROUNDINGS) // common * common
        # Rounded up twice, so that both steps are upwards: to 40 digits, and to four of them.
        long = Context(prec=40, rounding=ROUND_CEILING)
        return float(_UP.plus(long.divide(Decimal(far.numerator), Decimal(far.denominator))))

    @property
    def whole(self) -> bool:
        """True if numbers are written as whole ones: where the grid has no other."""
        return self.places is not None and _COARSEST < self.places <= 0

    @property
    def written_error(self) -> float | int:
        """The stated error as it is written beside the numbers: whole if they are, and it is."""
        stated = self.stated
        return int(stated) if self.whole and stated.is_integer() else stated

    def written(self, value: float) -> float | int:
        """Return the nearest number on the grid; a whole number where the grid has no other."""
        # Beyond 2^53 the grid may have no number that is a float.
        if self.places is None or not abs(value) < _EXACT:
            return value
        # Python rounds the very number that a float is, and not a product near it.
        rounded = round(value, self.places) + 0.0
        return int(rounded) if self.whole else rounded


def step_of(error: float, digits: Digits, unit: Fraction = Fraction(0)) -> Step:
    """Return the grid for numbers that are off by up to `error`, which may be infinite or 0."""
    if digits == "full" or not 0 < error < math.inf:
        return Step(error, None, unit)
    places = 1 - Decimal(error).adjusted()
    return Step(error, places if places <= _FINEST else None, unit)


def _common(one: Fraction, other: Fraction) -> Fraction:
    """Return the largest number of which both are multiples."""
    above = math.gcd(one.numerator * other.denominator, other.numerator * one.denominator)
    return Fraction(above, one.denominator * other.denominator)


def file_names(tables: Sequence[Sequence[str]], kind: TableFormat = "csv") -> list[str]:
    """Return a name for each table that any file system takes: numbered, of few characters."""
    return [f"{name.removesuffix('.csv')}.{kind}" for name in csv_names(tables)]


def require_parquet() -> tuple[Any, Any]:
    """Return pyarrow and its part for Parquet, or refuse where it is not installed."""
    try:
        import pyarrow as pa  # noqa: PLC0415
        import pyarrow.parquet as pq  # noqa: PLC0415
    except ImportError:
        raise MissingExtra("pyarrow") from None
    return cast("Any", pa), cast("Any", pq)


def header_of(table: MarginalTable, *, guards: bool) -> list[str]:
    """Return what the columns of a table are called, all differently."""
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
    """Write a table with the same columns, typed; `about` is metadata of the file's schema."""
    pa, pq = require_parquet()
    labels = label_columns(table.attributes)
    values = [float(step.written(value)) for value in table.values.ravel().tolist()]
    columns = [pa.array(column.values) for column in labels.values()]
    columns += [pa.array(values, pa.float64()), pa.array([step.stated] * len(values), pa.float64())]
    made = pa.Table.from_arrays(columns, names=header_of(table, guards=False))
    pq.write_table(made.replace_schema_metadata(dict(about)), path)
