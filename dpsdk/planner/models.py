"""Models of errors and of efforts: decimal logarithms that are weighted sums of features."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Literal, TypeAlias, TypeVar, cast, get_args

from attrs import field, frozen

from dpsdk._checks import shown
from dpsdk.errors import RecordError
from dpsdk.planner.features import FEATURES, Features

__all__ = ["Base", "EffortModel", "ErrorModel", "Line", "to_dict"]

V = TypeVar("V")

Base: TypeAlias = Literal["rows", "bound", "noise", "predicted", "span", "answer"]
"""What an error is compared with.

"rows" is the number of rows; "bound" what half of all answers stay within by theorem; "noise" the
same of the noisy numbers that an answer was made of; "predicted" what the mechanism itself expects;
"span" how far two answers can be apart; and "answer" one in the unit of the answer.
"""

_BASES: tuple[Base, ...] = get_args(Base)
_FULL = ("rows", "span", "answer")
"""Bases that do not change with what is paid."""

_WIDEST = 1.0
_LARGEST = 1e6
_DIGITS = 4
_MOST_RUNS = 10**9

Table: TypeAlias = "tuple[tuple[str, float], ...]"
Ranges: TypeAlias = "tuple[tuple[str, float, float], ...]"


def to_dict(value: Mapping[str, V] | Iterable[tuple[str, V]], where: str) -> dict[str, V]:
    """Named values as a dict of one's own.

    Raises
    ------
    RecordError
        If they are none, or not all names are texts.
    """
    try:
        given = dict(value)
    except (TypeError, ValueError):
        raise RecordError(where, "a mapping of names", shown(value)) from None
    if not all(type(name) is str for name in given):
        raise RecordError(where, "a mapping of names", shown(value))
    return given


def _number(value: float, where: str) -> float:
    if type(value) not in (int, float) or not -_LARGEST <= value <= _LARGEST:
        raise RecordError(where, f"a number from -{_LARGEST:g} to {_LARGEST:g}", shown(value))
    return round(float(value), _DIGITS)


def _feature(name: str, where: str) -> str:
    if name not in FEATURES:
        raise RecordError(where, f"features among {', '.join(FEATURES)}", shown(name))
    return name


def _to_weights(value: Mapping[str, float] | Table) -> Table:
    given = to_dict(value, "weights")
    for name in given:
        _feature(name, "weights")
    return tuple((n, _number(given[n], f"weights.{n}")) for n in FEATURES if n in given)


def _to_ranges(value: Mapping[str, tuple[float, float]] | Ranges) -> Ranges:
    try:
        items = value.items() if isinstance(value, Mapping) else [(n, (a, b)) for n, a, b in value]
        given = {name: (low, high) for name, (low, high) in items}
    except (TypeError, ValueError):
        expected = "a mapping of features to two numbers each"
        raise RecordError("ranges", expected, shown(value)) from None
    ranges: list[tuple[str, float, float]] = []
    for name in given:
        _feature(name, "ranges")
    for name in FEATURES:
        if name in given:
            low, high = (_number(end, f"ranges.{name}") for end in given[name])
            if low > high:
                expected = "two numbers, the lower first"
                raise RecordError(f"ranges.{name}", expected, f"{low}, {high}")
            ranges.append((name, low, high))
    return tuple(ranges)


def _start(value: float) -> float:
    return _number(value, "start")


def _low(value: float) -> float:
    return _number(value, "low")


def _high(value: float) -> float:
    return _number(value, "high")


def _to_line(value: Line) -> Line:
    if type(value) is not Line:
        raise RecordError("line", "a Line", shown(cast("object", value)))
    return value


def _ceiling(value: float | None) -> float | None:
    return None if value is None else _number(value, "ceiling")


@frozen
class Line:
    """A number that features say: its decimal logarithm is a weighted sum of them.

    Parameters
    ----------
    start
        What is added to the sum.
    weights
        The weight of each feature; none for those that say nothing.
    """

    start: float = field(converter=_start)
    weights: Table = field(converter=_to_weights)

    def at(self, features: Features) -> float:
        """The decimal logarithm."""
        return self.start + sum(weight * features[name] for name, weight in self.weights)


def _to_base(value: Base) -> Base:
    if value not in _BASES:
        raise RecordError("base", f"one of {', '.join(_BASES)}", shown(value))
    return value


def _to_runs(value: int) -> int:
    if type(value) is not int or not 1 <= value <= _MOST_RUNS:
        raise RecordError("runs", f"a whole number from 1 to {_MOST_RUNS:,}", shown(value))
    return value


@frozen
class ErrorModel:
    """The largest error of an answer, as a multiple of its base.

    Parameters
    ----------
    base
        What it is a multiple of.
    line
        The median.
    low, high
        What is added to the decimal logarithm of the median for the ends of the 90 % band: at most
        0, and at least 0.
    ceiling
        The decimal logarithm of the error of the uniform distribution, in the unit of the base:
        more is not lost by whatever starts there. None where nothing limits an error.
    ranges
        For each feature, from where to where it was measured.
    runs
        How many answers were measured.
    """

    base: Base = field(converter=_to_base)
    line: Line = field(converter=_to_line)
    low: float = field(converter=_low)
    high: float = field(converter=_high)
    ceiling: float | None = field(converter=_ceiling)
    ranges: Ranges = field(converter=_to_ranges)
    runs: int = field(converter=_to_runs)

    def __attrs_post_init__(self) -> None:
        if not self.low <= 0 <= self.high:
            raise RecordError("low", "at most 0, and high at least 0", f"{self.low}, {self.high}")
        # Over rows an error must not grow with what is paid, over noise no more than that falls.
        most = 0.0 if self.base in _FULL else 1.0
        if dict(self.line.weights).get("strength", 0.0) > most:
            raise RecordError("weights.strength", f"at most {most:g}", "more")

    def extrapolates(self, features: Features) -> bool:
        """Whether a feature lies outside of what was measured."""
        return any(not low <= features[name] <= high for name, low, high in self.ranges)

    def logs(self, features: Features) -> tuple[float, float, float]:
        """The decimal logarithms of the median and of the ends of the band, over the base.

        What lies outside of what was measured is taken to lie at its end, and the band is the wider
        by half of that in decades, up to a factor of ten. But less privacy loss than was measured
        does more harm, and more of it no good.
        """
        taken, up, down = dict(features), 0.0, 0.0
        for name, low, high in self.ranges:
            below, above = max(low - features[name], 0.0), max(features[name] - high, 0.0)
            taken[name] -= above
            if name != "strength":
                taken[name] += below
                up, down = up + below + above, down + below + above
            else:
                up, down = up + below, down + above
                if self.base not in _FULL:
                    taken[name] += below
        middle = self.line.at(taken)
        low = middle + self.low - min(down / 2, _WIDEST)
        high = middle + self.high + min(up / 2, _WIDEST)
        if self.ceiling is not None:
            # The band of the ceiling is that of the rest: other tables lie farther from uniform.
            middle, low = min(middle, self.ceiling), min(low, self.ceiling)
            high = min(high, self.ceiling + self.high)
        return middle, low, high


@frozen
class EffortModel:
    """What an answer took of a machine, such that nineteen in twenty took less.

    Parameters
    ----------
    seconds, bytes
        Of one core, and of memory.
    ranges
        For each feature, from where to where it was measured.
    """

    seconds: Line = field(converter=_to_line)
    bytes: Line = field(converter=_to_line)
    ranges: Ranges = field(converter=_to_ranges)
