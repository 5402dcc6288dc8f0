"""Keys of groups in an engine, as few as the rules of cells allow.

Cells are decided by a `Matcher`, the same for all doors. A numeric column becomes cell numbers
inside the engine, by comparisons with numbers that its own type holds exactly, so that it does not
matter in which width an engine compares. Any other column is its own key, and its distinct values
are matched when they have come back; of dates and times see `times`. Each expression keeps to what
all engines compute alike:

- NaN is above all numbers to some engines, to others above none, and to those that go by the
  statistics of a file, wherever all other numbers are. So each comparison stands beside the
  question whether there is a number.
- A branch that is not taken may still be computed, so no branch may fail for any value.
- Numbers of more than 64 bits and decimals come back as texts: some roads round them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from decimal import Decimal
from math import ceil
from typing import Any, TypeAlias

import narwhals.stable.v2 as nw
import numpy as np

from dpsdk._records import evolve, frozen
from dpsdk.data.columns import Column, Kind, array_column, kind_of_array
from dpsdk.data.engine.table import Table
from dpsdk.data.engine.times import Moments, chosen, of_moments, steps
from dpsdk.data.frames import kind_of_dtype, series_as_column
from dpsdk.data.matcher import Matcher
from dpsdk.data.matching import DateMatcher
from dpsdk.data.numbers import BinnedMatcher, GridMatcher, IntegerMatcher, first_float_from
from dpsdk.data.texts import Number, TextFormat, printed_decimal
from dpsdk.errors import DataError
from dpsdk.typing import Ints

__all__ = ["Key", "Values", "codes_of", "column_of_values", "group_keys"]

Values: TypeAlias = "Sequence[object] | nw.Series[Any]"


@frozen(eq=False, repr=False)
class Key:
    """A key by which rows are grouped for one attribute. Private where its engine answers."""

    name: str
    """Of the attribute, and of its column."""
    size: int
    """The number of cells."""
    expression: nw.Expr
    codes: Callable[[Values], Ints]
    """The cell numbers of values of the expression that came back; -1 is outside."""
    direct: bool
    """True if the expression is the cell number already, and -1 outside."""
    rest: int = -1
    """The cell of a value that is neither missing nor one of those that were listed."""
    gap: int = -1
    """The cell of what is missing."""
    listed: bool = True
    """True if the values of each cell can be listed in an expression; else all rows are read."""


def group_keys(table: Table, matchers: Sequence[Matcher]) -> list[Key]:
    """Return the key of each matcher's column. No value is read."""
    for matcher in matchers:
        kind = kind_of_dtype(table.schema[matcher.name])
        if isinstance(table.schema[matcher.name], nw.Time) and table.in_engine:
            kind = "times of day"
        if kind is not None and (problem := matcher.mismatch(kind)):
            raise DataError(table.source, problem)
        if kind is Kind.UNTYPED and table.in_engine:
            problem = f"column {matcher.name!r} holds {kind.value}, which no engine groups by"
            raise DataError(table.source, problem)
        if kind is Kind.FLOAT and table.is_loose and matcher.clips and not _reads_all(matcher):
            problem = 'outside="clip" where a column of floats may hold texts; choose another'
            raise DataError(table.source, problem)
    return [_key(table, matcher) for matcher in matchers]


def _key(table: Table, matcher: Matcher) -> Key:
    column, dtype = table.column(matcher.name), table.schema[matcher.name]
    if not table.in_engine:
        return _own(table, matcher, column)
    if isinstance(dtype, nw.Boolean):
        yes, no = matcher.boolean(value=True), matcher.boolean(value=False)
        # SQLite's may be two.
        rest = nw.lit(matcher.odd)
        if matcher.gap != matcher.odd:
            rest = chosen(column.is_null(), matcher.gap, rest)
        rest = chosen(column == nw.lit(value=False), no, rest)
        return _direct(matcher, chosen(column == nw.lit(value=True), yes, rest))
    if isinstance(dtype, nw.Categorical | nw.Enum):
        # As numbered as it is.
        return _own(table, matcher, column)
    if isinstance(matcher, DateMatcher) and isinstance(dtype, nw.Date | nw.Datetime):
        known = of_moments(matcher, column, dtype, table.frame)
        if isinstance(known, Moments):
            return _of_moments(matcher, known)
        return _own(table, matcher, known)
    kind = kind_of_dtype(dtype)
    if table.is_loose and kind in {Kind.DECIMAL, Kind.INTEGER}:
        return _own(table, matcher, column)
    if table.is_loose and kind is Kind.FLOAT and _reads_all(matcher):
        return evolve(_own(table, matcher, column), listed=False)
    if kind is Kind.DECIMAL:
        return _spelt(matcher, column)
    there = table.is_number(column) if kind is Kind.FLOAT else ~column.is_null()
    expression: nw.Expr | None = None
    if kind is Kind.INTEGER:
        limits = _LIMITS.get(type(dtype))
        expression = None if limits is None else _of_integers(matcher, column, *limits)
        expression = _without_absent(matcher, column, expression, dtype)
        if expression is None:
            return _spelt(matcher, column)
    elif isinstance(dtype, nw.Float32 | nw.Float64):
        float_kind = np.float32 if isinstance(dtype, nw.Float32) else np.float64
        expression = _of_floats(matcher, column, float_kind, there)
        expression = _without_absent(matcher, column, expression, dtype)
    if expression is not None:
        if matcher.gap != matcher.rest or matcher.numbers:
            expression = chosen(there, expression, nw.lit(matcher.gap))
        return _direct(matcher, expression)
    if kind is Kind.FLOAT:
        column = nw.when(there).then(column)
    return _own(table, matcher, column)


def _reads_all(matcher: Matcher) -> bool:
    """True if values that stand among floats of a column are told apart here, texts among them."""
    return matcher.size > matcher.known or isinstance(matcher, GridMatcher)


def _without_absent(
    matcher: Matcher, column: nw.Expr, cell: nw.Expr | None, dtype: nw.dtypes.DType
) -> nw.Expr | None:
    """The cell of a number, unless it stands for a missing value."""
    least, most = _LIMITS.get(type(dtype), (0, 0))
    kind = np.float32 if isinstance(dtype, nw.Float32) else np.float64
    for number in map(Decimal, matcher.texts.absent):
        if cell is None:
            return None
        if dtype.is_float():
            with np.errstate(all="ignore"):
                near = kind(number) if number.is_infinite() else first_float_from(number, kind)
            if printed_decimal(near) == number:
                cell = chosen(column == float(near), matcher.gap, cell)
        elif least <= number <= most and number == int(number):
            large = abs(number) > _LITERAL
            cell = None if large else chosen(column == int(number), matcher.gap, cell)
    return cell


_LIMITS: dict[type[nw.dtypes.DType], tuple[int, int]] = {
    nw.Int8: (-(2**7), 2**7 - 1),
    nw.Int16: (-(2**15), 2**15 - 1),
    nw.Int32: (-(2**31), 2**31 - 1),
    nw.Int64: (-(2**63), 2**63 - 1),
    nw.UInt8: (0, 2**8 - 1),
    nw.UInt16: (0, 2**16 - 1),
    nw.UInt32: (0, 2**32 - 1),
    nw.UInt64: (0, 2**64 - 1),
}
_LITERAL = 2**62
"""No number in an expression is larger, nor is a difference of two of them beyond 64 bits."""
_FEW = 64
"""Labels that are numbers are told apart inside the engine up to this many."""


def codes_of(values: Values) -> Ints:
    """Return integers that came back, none of which is null."""
    return np.array(values.to_numpy() if isinstance(values, nw.Series) else values, dtype=np.int64)


def column_of_values(values: Values) -> Column:
    """Return values that came back as a column."""
    if isinstance(values, nw.Series):
        return series_as_column(values)
    array, _ = array_column(values)
    return Column(kind_of_array(array.dtype), array)


def _direct(matcher: Matcher, expression: nw.Expr) -> Key:
    return Key(matcher.name, matcher.size, expression, codes_of, direct=True)


def _own(table: Table, matcher: Matcher, column: nw.Expr) -> Key:
    def codes(values: Values) -> Ints:
        held = column_of_values(values)
        if problem := matcher.mismatch(held.kind):
            raise DataError(table.source, problem)
        return matcher.encode(held)

    return _indirect(matcher, column, codes)


def _indirect(matcher: Matcher, expression: nw.Expr, codes: Callable[[Values], Ints]) -> Key:
    rest, gap = matcher.rest, matcher.gap
    # Of a grid, each row may have a cell of its own.
    listed = not isinstance(matcher, GridMatcher)
    return Key(matcher.name, matcher.size, expression, codes, False, rest, gap, listed)


def _of_moments(matcher: DateMatcher, moments: Moments) -> Key:
    cells_of = moments.codes
    if cells_of is None:
        return _direct(matcher, moments.expression)

    def codes(values: Values) -> Ints:
        parts = values.to_list() if isinstance(values, nw.Series) else list(values)
        missing = np.array([part is None for part in parts], dtype=bool)
        cells = cells_of(np.array([part or 0 for part in parts], dtype=np.int64))
        cells[missing] = matcher.gap
        return cells

    return _indirect(matcher, moments.expression, codes)


def _spelt(matcher: Matcher, column: nw.Expr) -> Key:
    """By numbers that come back as the texts by which their engine spells them."""

    def codes(values: Values) -> Ints:
        texts = values.to_list() if isinstance(values, nw.Series) else values
        return matcher.encode(column_of_values([_number(text) for text in texts]))

    return _indirect(matcher, column.cast(nw.String), codes)


_SPELLING = TextFormat()
_INFINITE = {"Infinity", "-Infinity"}


def _number(text: object) -> Number | str | None:
    """The number that a text spells, or the text, where a column of numbers may hold one."""
    if text is None:
        return None
    written = str(text)
    number = Decimal(written) if written in _INFINITE else _SPELLING.number(written)
    return written if number is None else number


def _of_integers(matcher: Matcher, column: nw.Expr, least: int, most: int) -> nw.Expr | None:
    if isinstance(matcher, IntegerMatcher | BinnedMatcher):
        return _of_ordered(matcher, column, least, most)
    if isinstance(matcher, GridMatcher):
        return _on_grid(matcher, column, least, most)
    numbers = {
        int(number): cell
        for number, cell in matcher.numbers.items()
        if least <= number <= most and number == int(number)
    }
    if len(numbers) > _FEW or any(abs(number) > _LITERAL for number in numbers):
        return None
    return _equals(column, numbers, matcher.rest)


def _of_ordered(
    matcher: IntegerMatcher | BinnedMatcher, column: nw.Expr, least: int, most: int
) -> nw.Expr | None:
    if isinstance(matcher, IntegerMatcher):
        low, high, starts = matcher.low, matcher.high, list[int]()
    else:
        low, *starts, last = [ceil(edge) for edge in matcher.exact]
        high = last if last == matcher.exact[-1] else last - 1
    inner, outer, rest = max(low, least), min(high, most), matcher.rest
    if inner > outer:
        # No number of the type is inside, and most often all are on one side.
        sides = {matcher.number(number) for number in (least, most)}
        many = len(sides) > 1 or matcher.texts.absent
        return None if many else chosen(~column.is_null(), sides.pop(), nw.lit(rest))
    starts = [start for start in starts if inner < start <= outer]
    literals = [*starts, *({inner, outer} - {least, most})]
    if isinstance(matcher, IntegerMatcher):
        literals.append(low)
    if any(abs(number) > _LITERAL for number in literals):
        return None
    inside = _between(column, inner, outer, least, most)
    if isinstance(matcher, IntegerMatcher):
        cell: nw.Expr = (nw.when(inside).then(column).cast(nw.Int64) - nw.lit(low)).fill_null(rest)
    else:
        # Bins between the same two whole numbers hold none, and are passed over.
        cells = [matcher.number(number) for number in (inner, *starts)]
        cell = chosen(inside, steps(column, starts, cells), nw.lit(rest))
    if not matcher.clips:
        return cell
    above = cell if outer == most else chosen(column > outer, matcher.known - 1, cell)
    return above if inner == least else chosen(column < inner, 0, above)


def _on_grid(matcher: GridMatcher, column: nw.Expr, least: int, most: int) -> nw.Expr | None:
    (first, last), terms = matcher.within, matcher.terms
    low, high = max(first, least), min(last, most)
    if terms is None or low > high or max(abs(low), abs(high)) > _LITERAL:
        return None
    times, plus, parts = terms
    inside = nw.when(_between(column, low, high, least, most)).then(column).cast(nw.Int64)
    cell = (inside - nw.lit(low)) * times + (plus + (low - first) * times)
    cell = (cell // parts if parts > 1 else cell).fill_null(matcher.gap)
    above = chosen(column > high, matcher.above, cell) if last < most else cell
    return chosen(column < low, matcher.below, above) if first > least else above


def _between(column: nw.Expr, low: int, high: int, least: int, most: int) -> nw.Expr:
    """True if an integer is between two bounds; a bound of its type needs no test."""
    if low == least:
        return ~column.is_null() if high == most else column <= high
    return column >= low if high == most else (column >= low) & (column <= high)


def _of_floats(
    matcher: Matcher, column: nw.Expr, kind: type[np.float32 | np.float64], there: nw.Expr
) -> nw.Expr | None:
    if isinstance(matcher, IntegerMatcher):
        exact = 2 ** (np.finfo(kind).nmant + 1)
        if max(abs(matcher.low), abs(matcher.high)) >= exact:
            return None
        low, high = float(matcher.low), float(matcher.high)
        within = nw.when(there & (column >= low) & (column <= high)).then(column)
        whole = within.cast(nw.Int64)
        # Whichever way an engine rounds, the result is the same number only where it was whole.
        kept = nw.when(whole.cast(nw.Float64) == within).then(whole)
        cell: nw.Expr = (kept - nw.lit(matcher.low)).fill_null(matcher.rest)
        if not matcher.clips:
            return cell
        above = chosen((column > high) & there, matcher.known - 1, cell)
        return chosen(column < low, 0, above)
    if isinstance(matcher, BinnedMatcher):
        with np.errstate(all="ignore"):
            reached = [first_float_from(edge, kind) for edge in matcher.exact]
        if not np.isfinite(reached).all():
            return None
        starts = [float(number) for number in reached[1:-1]]
        cell = steps(column, starts, range(matcher.known))
        if matcher.clips:
            return chosen(there, cell, nw.lit(matcher.gap))
        end = reached[-1]
        upper = column <= float(end) if printed_decimal(end) == matcher.exact[-1] else (
            column < float(end)
        )  # fmt: skip
        return chosen(there & (column >= float(reached[0])) & upper, cell, nw.lit(matcher.rest))
    if isinstance(matcher, GridMatcher):
        return None
    with np.errstate(all="ignore"):
        floats = [(first_float_from(Decimal(n), kind), n) for n in matcher.numbers]
    found = {
        float(first): matcher.numbers[number]
        for first, number in floats
        if np.isfinite(first) and printed_decimal(first) == number
    }
    if len(found) > _FEW:
        return None
    return _equals(column, found, matcher.rest)


def _equals(column: nw.Expr, cells: dict[int, int] | dict[float, int], rest: int) -> nw.Expr:
    """The cell of the number that a number equals, and otherwise the rest."""
    expression = nw.lit(rest)
    for number, cell in cells.items():
        expression = chosen(column == number, cell, expression)
    return expression
