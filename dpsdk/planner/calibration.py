"""Calibrations: what errors and efforts were measured on public tables, as a small file says it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache
from importlib import resources
from os import PathLike
from pathlib import Path
from typing import Any, Literal, TypeAlias, TypeVar, cast, get_args

from attrs import field, frozen

from dpsdk._checks import shown
from dpsdk.errors import InvalidArgument, RecordError
from dpsdk.planner.features import FEATURES, Features

__all__ = [
    "Base",
    "Calibration",
    "EffortModel",
    "ErrorModel",
    "Line",
    "shipped",
    "to_calibration",
]

T = TypeVar("T")

FORMAT = "dpsdk.calibration"
VERSION = 1

Base: TypeAlias = Literal["rows", "bound", "noise", "predicted", "answer"]
"""What an error is compared with.

"rows" is the number of rows; "bound" what half of all answers stay within by theorem; "noise" the
same of the noisy numbers that an answer was made of; "predicted" what the mechanism itself expects;
and "answer" one in the unit of the answer.
"""

_BASES: tuple[Base, ...] = get_args(Base)
_FULL = ("rows", "answer")
"""Bases that do not change with what is paid."""

_LONGEST = 1 << 20
_MOST = 256
_LARGEST = 1e6
_LONGEST_TEXT = 1000
_DIGITS = 4
_MOST_RUNS = 10**9

Table: TypeAlias = "tuple[tuple[str, float], ...]"
Ranges: TypeAlias = "tuple[tuple[str, float, float], ...]"


def _number(value: float, where: str) -> float:
    if type(value) not in (int, float) or not -_LARGEST <= value <= _LARGEST:
        raise RecordError(where, f"a number from -{_LARGEST:g} to {_LARGEST:g}", shown(value))
    return round(float(value), _DIGITS)


def _feature(name: str, where: str) -> str:
    if name not in FEATURES:
        raise RecordError(where, f"features among {', '.join(FEATURES)}", shown(name))
    return name


def _to_weights(value: Mapping[str, float] | Table) -> Table:
    given = dict(value)
    for name in given:
        _feature(name, "weights")
    return tuple((n, _number(given[n], f"weights.{n}")) for n in FEATURES if n in given)


def _to_ranges(value: Mapping[str, tuple[float, float]] | Ranges) -> Ranges:
    items = value.items() if isinstance(value, Mapping) else [(n, (a, b)) for n, a, b in value]
    given = {name: tuple(ends) for name, ends in items}
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
    line: Line
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

        Outside of what was measured the band is the wider by half of that in decades. More privacy
        loss than was measured is taken to help no further, and less of it to hurt.
        """
        taken, up, down = dict(features), 0.0, 0.0
        for name, low, high in self.ranges:
            below, above = max(low - features[name], 0.0), max(features[name] - high, 0.0)
            if name != "strength":
                up, down = up + below + above, down + below + above
            else:
                taken[name] -= above
                up, down = up + below, down + above
                if self.base not in _FULL:
                    taken[name] += below
        middle = self.line.at(taken)
        low, high = middle + self.low - down / 2, middle + self.high + up / 2
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

    seconds: Line
    bytes: Line
    ranges: Ranges = field(converter=_to_ranges)


def _to_models(value: Mapping[str, T], kind: type[T]) -> tuple[tuple[str, T], ...]:
    given = dict(value)
    if len(given) > _MOST:
        raise RecordError("$", f"at most {_MOST} families", f"{len(given):,}")
    for name, model in given.items():
        _text(name, "a family")
        if type(model) is not kind:
            raise RecordError(name, f"an {kind.__name__}", type(model).__name__)
    return tuple((name, given[name]) for name in sorted(given))


def _to_errors(value: Mapping[str, ErrorModel]) -> tuple[tuple[str, ErrorModel], ...]:
    return _to_models(value, ErrorModel)


def _to_efforts(value: Mapping[str, EffortModel]) -> tuple[tuple[str, EffortModel], ...]:
    return _to_models(value, EffortModel)


def _made(value: str) -> str:
    return _text(value, "made")


def _text(value: object, where: str) -> str:
    if type(value) is not str or not value.isprintable() or len(value) > _LONGEST_TEXT:
        expected = f"a printable text of at most {_LONGEST_TEXT:,} characters"
        raise RecordError(where, expected, shown(value))
    return value


@frozen
class Calibration:
    """What was measured of errors and efforts on public tables, a model for each family.

    Make one of tables of your own with ``python -m dpsdk calibrate``, and give it to
    `session.plan(calibration=)`. It changes what plans expect, and nothing that they promise.

    Parameters
    ----------
    made
        On what, and when, in words.
    errors, efforts
        A model for each family, by its code.
    """

    made: str = field(converter=_made)
    _errors: tuple[tuple[str, ErrorModel], ...] = field(converter=_to_errors)
    _efforts: tuple[tuple[str, EffortModel], ...] = field(converter=_to_efforts)

    @property
    def errors(self) -> dict[str, ErrorModel]:
        """The model of the errors of each family, by its code; a dict of one's own."""
        return dict(self._errors)

    @property
    def efforts(self) -> dict[str, EffortModel]:
        """The model of the efforts of each family, by its code."""
        return dict(self._efforts)

    def to_json(self) -> str:
        """The text of a calibration file: equal calibrations have equal ones."""
        errors = {
            name: {
                "base": model.base,
                **_line(model.line),
                "low": model.low,
                "high": model.high,
                "ceiling": model.ceiling,
                "ranges": {name: [low, high] for name, low, high in model.ranges},
                "runs": model.runs,
            }
            for name, model in self.errors.items()
        }
        efforts = {
            name: {
                "seconds": _line(model.seconds),
                "bytes": _line(model.bytes),
                "ranges": {name: [low, high] for name, low, high in model.ranges},
            }
            for name, model in self.efforts.items()
        }
        whole = {
            "format": FORMAT,
            "version": VERSION,
            "made": self.made,
            "errors": errors,
            "efforts": efforts,
        }
        return json.dumps(whole, indent=1, ensure_ascii=True, allow_nan=False) + "\n"

    @classmethod
    def from_json(cls, text: str | bytes) -> Calibration:
        """Read a calibration file.

        Raises
        ------
        RecordError
            If it is none: of another format or version, with a member too few, too many or twice,
            or with what is no number.
        """
        whole = _object(_parsed(text), "$", ("format", "version", "made", "errors", "efforts"))
        if whole["format"] != FORMAT:
            raise RecordError("$.format", f'"{FORMAT}"', shown(whole["format"]))
        if type(whole["version"]) is not int or whole["version"] != VERSION:
            raise RecordError("$.version", f"{VERSION}", shown(whole["version"]))
        errors = {
            name: _error(model, f"$.errors.{name}")
            for name, model in _any(whole["errors"], "$.errors").items()
        }
        efforts = {
            name: _effort(model, f"$.efforts.{name}")
            for name, model in _any(whole["efforts"], "$.efforts").items()
        }
        return cls(_text(whole["made"], "$.made"), errors, efforts)

    @classmethod
    def load(cls, path: str | PathLike[str]) -> Calibration:
        """Read a calibration file from a path.

        Raises
        ------
        RecordError
            As for `from_json`.
        OSError
            If it cannot be read.
        """
        with Path(path).open("rb") as file:
            return cls.from_json(file.read(_LONGEST + 1))

    def __repr__(self) -> str:
        return f"Calibration of {len(self.errors)} families ({self.made})"


@cache
def shipped() -> Calibration:
    """The calibration of the package, read when it is first needed."""
    return Calibration.from_json(
        resources.files("dpsdk.planner").joinpath("calibration.json").read_bytes()
    )


def to_calibration(value: Calibration | None) -> Calibration | None:
    """Read a `calibration=` argument.

    Raises
    ------
    InvalidArgument
        If it is none.
    """
    if value is None or type(value) is Calibration:
        return value
    raise InvalidArgument("calibration", "a Calibration", shown(value))


def _line(line: Line) -> dict[str, object]:
    return {"start": line.start, "weights": dict(line.weights)}


def _parsed(text: str | bytes) -> object:
    if type(text) not in (str, bytes):
        raise RecordError("$", "the text of a calibration file", type(text).__name__)
    if len(text) > _LONGEST:
        raise RecordError("$", f"at most {_LONGEST:,} characters", f"{len(text):,}")
    try:
        decoded = text.decode("utf-8") if isinstance(text, bytes) else text
        found: object = json.loads(
            decoded, object_pairs_hook=_once, parse_int=_integer, parse_constant=_no_number
        )
    except RecordError:
        raise
    except (ValueError, RecursionError):
        raise RecordError("$", "JSON in UTF-8", "something else") from None
    return found


def _once(pairs: list[tuple[str, object]]) -> dict[str, object]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise RecordError("$", "objects that name each member once", "one that does not")
    return found


def _integer(digits: str) -> int:
    if len(digits) > 20:  # none here is as large
        raise RecordError("$", "integers of at most 20 digits", f"one of {len(digits):,}")
    return int(digits)


def _no_number(name: str) -> float:
    raise RecordError("$", "numbers", name)


def _any(value: object, where: str) -> dict[str, object]:
    if type(value) is not dict:
        raise RecordError(where, "an object", type(value).__name__)
    found = cast("dict[str, object]", value)
    if len(found) > _MOST:
        raise RecordError(where, f"at most {_MOST} members", f"{len(found):,}")
    return found


def _object(value: object, where: str, members: tuple[str, ...]) -> dict[str, Any]:
    found = _any(value, where)
    if set(found) != set(members):
        got = ", ".join(shown(name) for name in found)
        raise RecordError(where, f"the members {', '.join(members)}", got or "none")
    return found


def _read_line(value: dict[str, Any], where: str) -> Line:
    weights = _any(value["weights"], f"{where}.weights")
    return Line(value["start"], cast("dict[str, float]", weights))


def _read_ranges(value: object, where: str) -> dict[str, tuple[float, float]]:
    ranges: dict[str, tuple[float, float]] = {}
    for name, ends in _any(value, where).items():
        if type(ends) is not list or len(cast("list[object]", ends)) != 2:
            raise RecordError(f"{where}.{name}", "a list of two numbers", shown(ends))
        low, high = cast("list[float]", ends)
        ranges[name] = low, high
    return ranges


def _error(value: object, where: str) -> ErrorModel:
    members = ("base", "start", "weights", "low", "high", "ceiling", "ranges", "runs")
    found = _object(value, where, members)
    return ErrorModel(
        found["base"],
        _read_line(found, where),
        found["low"],
        found["high"],
        found["ceiling"],
        _read_ranges(found["ranges"], f"{where}.ranges"),
        found["runs"],
    )


def _effort(value: object, where: str) -> EffortModel:
    found = _object(value, where, ("seconds", "bytes", "ranges"))
    lines = [
        _read_line(_object(found[name], f"{where}.{name}", ("start", "weights")), f"{where}.{name}")
        for name in ("seconds", "bytes")
    ]
    return EffortModel(lines[0], lines[1], _read_ranges(found["ranges"], f"{where}.ranges"))
