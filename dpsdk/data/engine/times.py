"""Keys of dates and times in an engine, in whole numbers only.

No engine's own zones are asked, since these may be of another edition, or of the session that
happens to be open. A time with a zone is a number of ticks since 1970 in UTC: it is compared with
the instants at which another cell begins in the declared zone, or cut to a part of time that never
lies in two cells. Other dates and times are such a number of ticks too, or the digits of their
year, month, day and hour.

Expressions are short, as engines compute what stands in one twice more than once.

PostgreSQL and DuckDB have times before the year 1, after the year 9999, and at infinity. These have
no parts that can be asked for, and no road brings them here, but they can be compared.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Sequence
from datetime import UTC, date, datetime, timedelta
from math import gcd
from typing import Any

import narwhals.stable.v2 as nw
import numpy as np

from dpsdk._records import frozen
from dpsdk.data.columns import Kind
from dpsdk.data.engine.table import server_of
from dpsdk.data.matching import DateMatcher
from dpsdk.domain.calendar import DAY, HOUR, wall_of
from dpsdk.typing import Ints

__all__ = ["Moments", "chosen", "of_moments", "steps"]

_PER_SECOND = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}
_PIECES = 128
"""Expressions become long beyond so many comparisons."""
_EPOCH = datetime(1970, 1, 1)  # noqa: DTZ001  # the clock on the wall
_LAST = datetime.max  # noqa: DTZ901  # the same
_FAR = 2**60
"""Seconds as far away as this are in no year that a domain has."""


def chosen(condition: nw.Expr, cell: int | nw.Expr, otherwise: nw.Expr) -> nw.Expr:
    """One value where the condition is true, and the other where it is false or unknown."""
    then = nw.lit(cell) if isinstance(cell, int) else cell
    return nw.when(condition).then(then).otherwise(otherwise)


def steps(
    column: nw.Expr,
    starts: Sequence[int] | Sequence[float] | Sequence[nw.Expr],
    cells: Sequence[int],
) -> nw.Expr:
    """The cell of the last start that a value has reached; the first one, if it has none."""
    if not starts:
        return nw.lit(cells[0])
    middle = len(starts) // 2
    above = steps(column, starts[middle + 1 :], cells[middle + 1 :])
    return chosen(column >= starts[middle], above, steps(column, starts[:middle], cells))


@frozen(eq=False, repr=False)
class Moments:
    """The parts of time that rows are grouped by, none of which lies in two cells."""

    expression: nw.Expr
    codes: Callable[[Ints], Ints] | None
    """The cells of parts that came back; None where these are the cells."""


def of_moments(
    matcher: DateMatcher, column: nw.Expr, dtype: nw.dtypes.DType, table: nw.LazyFrame[Any]
) -> Moments | nw.Expr:
    """The keys of a column of dates or times; an expression where they are its own values."""
    found = _keys(matcher, column, dtype, table)
    if matcher.gap == matcher.rest:
        return found
    # Of times that are far from all cells, some engines have no parts: these are there, too.
    if not isinstance(found, Moments):
        zoned = isinstance(dtype, nw.Datetime) and dtype.time_zone is not None
        outer = _outer(matcher, Kind.ZONED_TIME if zoned else Kind.NAIVE_TIME)
        return found if outer is None else chosen(found.is_null() & ~column.is_null(), outer, found)
    far, gap = (matcher.rest, nw.lit(matcher.gap)) if found.codes is None else (-_FAR, nw.lit(None))
    there = found.expression.fill_null(far)
    return Moments(chosen(~column.is_null(), there, gap), found.codes)


def _keys(
    matcher: DateMatcher, column: nw.Expr, dtype: nw.dtypes.DType, table: nw.LazyFrame[Any]
) -> Moments | nw.Expr:
    kind, unit = Kind.DATE, "s"
    if isinstance(dtype, nw.Datetime):
        kind = Kind.NAIVE_TIME if dtype.time_zone is None else Kind.ZONED_TIME
        unit = dtype.time_unit
    engine, server = table.implementation, server_of(table)
    if engine.is_polars():
        days = kind is Kind.DATE
        ticks = column.cast(nw.Int64) * DAY if days else column.cast(nw.Int64)
        return _of_ticks(matcher, ticks, _PER_SECOND[unit], kind)
    # The years of others may be beyond those that nanoseconds have.
    compares = server in {"duckdb", "postgres"} and unit != "ns"
    if compares and (compared := _compared(matcher, column, kind)) is not None:
        return compared
    if compares or (engine.is_duckdb() and matcher.clips and unit != "ns"):
        column = _near(matcher, column, kind)
    # Of times that are coarser or finer than these, engines may fail to read the parts.
    if engine.is_duckdb() and kind is not Kind.DATE and unit == "us":
        # Its function of this name takes times as well as durations.
        return _of_ticks(matcher, column.dt.total_microseconds(), 10**6, kind)
    if server == "postgres" and kind is not Kind.DATE:
        # Of whatever precision; a cast alone would round them to seconds.
        return _of_ticks(matcher, column.dt.truncate("1s").cast(nw.Int64), 1, kind)
    if kind is Kind.ZONED_TIME:
        spark = engine.is_pyspark() or engine.is_pyspark_connect()
        return _of_ticks(matcher, column.cast(nw.Int64), 1, kind) if spark else column
    return _of_digits(matcher, column, kind) if kind is Kind.DATE or unit == "us" else column


def _compared(matcher: DateMatcher, column: nw.Expr, kind: Kind) -> Moments | None:
    """By comparisons with the times at which another cell begins; None where they are too many."""
    changes, ahead = _offsets(matcher, kind)
    if matcher.size + len(changes) > _PIECES:
        return None
    (_, *starts), cells = _pieces(matcher, changes, ahead, kind)
    if starts and not wall_of(date.min) <= starts[0] <= starts[-1] <= wall_of(_LAST):
        return None
    cell = steps(column, [nw.lit(_literal(start, kind)) for start in starts], cells)
    return Moments(chosen(~column.is_null(), cell, nw.lit(matcher.rest)), None)


def _near(matcher: DateMatcher, column: nw.Expr, kind: Kind) -> nw.Expr:
    """A column without the times that are far from all cells: these have moved, or are null."""
    # Nowhere is a clock farther from UTC than two days.
    around = 2 * DAY if kind is Kind.ZONED_TIME else 0
    start, stop = matcher.walls
    low, high = nw.lit(_literal(start - around, kind)), nw.lit(_literal(stop + around, kind))
    if not matcher.clips:
        return nw.when((column >= low) & (column <= high)).then(column)
    return (
        nw.when(column < low).then(low)
        .otherwise(nw.when(column > high).then(high).otherwise(column))
    )  # fmt: skip


def _outer(matcher: DateMatcher, kind: Kind) -> nw.Expr | None:
    """A time in no cell; None where all years that Python has are in cells."""
    # Nowhere is a clock farther from UTC than two days.
    ends = matcher.walls[0] - 3 * DAY, matcher.walls[1] + 3 * DAY
    for end in ends:
        if wall_of(date.min) <= end <= wall_of(_LAST):
            return nw.lit(_literal(end, kind))
    return None


def _literal(seconds: int, kind: Kind) -> date:
    """A time as an engine is told of it, in the years that Python has."""
    time = _LAST
    if seconds <= wall_of(_LAST):
        time = _EPOCH + timedelta(seconds=max(seconds, wall_of(date.min)))
    if kind is Kind.DATE:
        return time.date()
    return time.replace(tzinfo=UTC) if kind is Kind.ZONED_TIME else time


def _of_ticks(matcher: DateMatcher, ticks: nw.Expr, per: int, kind: Kind) -> Moments:
    changes, ahead = _offsets(matcher, kind)
    if matcher.size + len(changes) <= _PIECES:
        starts, cells = _pieces(matcher, changes, ahead, kind)
        cell = steps(ticks, *_within(starts, cells, per))
        return Moments(chosen(~ticks.is_null(), cell, nw.lit(matcher.rest)), None)
    step = gcd(HOUR if matcher.unit == "hour" else DAY, *changes, *ahead)

    def codes(parts: Ints) -> Ints:
        far = _FAR // step
        return matcher.moments(kind, np.clip(parts, -far, far) * step)

    return Moments(ticks // (step * per), codes)


def _offsets(matcher: DateMatcher, kind: Kind) -> tuple[Sequence[int], Sequence[int]]:
    """How the clock on the wall changes while it may show what is in a cell."""
    if kind is not Kind.ZONED_TIME:
        return (), (0,)
    changes, ahead = matcher.offsets.changes, matcher.offsets.seconds
    first = bisect_left(changes, matcher.walls[0] - 2 * DAY)
    last = bisect_left(changes, matcher.walls[1] + 2 * DAY)
    return changes[first:last], ahead[first : last + 1]


def _pieces(
    matcher: DateMatcher, changes: Sequence[int], ahead: Sequence[int], kind: Kind
) -> tuple[list[int], list[int]]:
    """The instants from which another cell is reached, and these cells."""
    ends = [-_FAR, *changes, _FAR]
    starts = {-_FAR, *changes}
    for place, offset in enumerate(ahead):
        begins = [wall - offset for wall in matcher.boundaries()]
        starts |= {one for one in begins if ends[place] <= one < ends[place + 1]}
    ordered = sorted(starts)
    cells = matcher.moments(kind, np.array(ordered)).tolist()
    kept = [place for place, cell in enumerate(cells) if not place or cell != cells[place - 1]]
    return [ordered[place] for place in kept], [cells[place] for place in kept]


def _within(starts: Sequence[int], cells: Sequence[int], per: int) -> tuple[list[int], list[int]]:
    """The starts in ticks but for the first, as far as a column can hold them; and the cells."""
    first = max(bisect_right(starts, -(2**62) // per) - 1, 0)
    last = bisect_left(starts, 2**62 // per)
    return [start * per for start in starts[first + 1 : last]], list(cells[first:last])


def _of_digits(matcher: DateMatcher, column: nw.Expr, kind: Kind) -> Moments:
    """By the digits of year, month, day and hour, as far as cells tell them apart."""
    expression = column.dt.year().cast(nw.Int64) * 10**6 + column.dt.month() * 10**4
    if matcher.unit != "month":
        expression = expression + column.dt.day() * 100
    if matcher.unit == "hour":
        expression = expression + column.dt.hour()

    def codes(parts: Ints) -> Ints:
        years, rest = np.clip(parts // 10**6, -10_000, 20_000), parts % 10**6
        months = (years - 1970) * 12 + rest // 10**4 - 1
        days = months.astype("datetime64[M]").astype("datetime64[D]").astype(np.int64)
        days += np.maximum(rest // 100 % 100, 1) - 1
        return matcher.moments(kind, days * DAY + rest % 100 * HOUR)

    return Moments(expression, codes)
