"""Calibrations: what errors and efforts were measured on public tables, as a small file says it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache
from os import PathLike
from pathlib import Path
from typing import Any, TypeVar, cast

from attrs import field, frozen

from dpsdk._checks import shown
from dpsdk.errors import InvalidArgument, RecordError
from dpsdk.planner.models import EffortModel, ErrorModel, Line, to_dict

__all__ = ["Calibration", "shipped", "to_calibration"]

T = TypeVar("T")

FORMAT = "dpsdk.calibration"
VERSION = 1

_LONGEST = 1 << 20
_MOST = 256
_LONGEST_TEXT = 1000
_LONGEST_SHOWN = 60


def _to_models(value: Mapping[str, T], kind: type[T]) -> tuple[tuple[str, T], ...]:
    given = to_dict(value, "$")
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

    def error(self, code: str) -> ErrorModel | None:
        """The model of the errors of a family; None where it has none."""
        return next((model for name, model in self._errors if name == code), None)

    def effort(self, code: str) -> EffortModel | None:
        """The model of the efforts of a family; None where it has none."""
        return next((model for name, model in self._efforts if name == code), None)

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
            name: _error(model, _under("$.errors", name))
            for name, model in _any(whole["errors"], "$.errors").items()
        }
        efforts = {
            name: _effort(model, _under("$.efforts", name))
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
    # Loaded here: whoever plans nothing need not wait for it.
    from importlib import resources  # noqa: PLC0415

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


def _under(where: str, name: str) -> str:
    """The path to a member, in one line whatever a file calls it."""
    plain = name.isprintable() and len(name) <= _LONGEST_SHOWN
    return f"{where}.{name}" if plain else f"{where}[{shown(name)}]"


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
        pair = cast("list[float]", ends) if type(ends) is list else []
        if len(pair) != 2:
            raise RecordError(_under(where, name), "a list of two numbers", shown(pair))
        ranges[name] = pair[0], pair[1]
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
