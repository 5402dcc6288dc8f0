"""Fields: how one member of a written form is written, read and described, without widening."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from fractions import Fraction
from typing import TYPE_CHECKING, Generic, Protocol, TypeVar, cast

import numpy as np

from dpsdk._checks import read_fraction, shown
from dpsdk.codec.text import JSON, LONGEST_TEXT, Plain
from dpsdk.errors import WireError

if TYPE_CHECKING:
    from dpsdk.codec.kinds import Codebook

__all__ = [
    "AMOUNT",
    "CELLS",
    "ENDLESS",
    "FINITE",
    "FLAG",
    "FLOAT",
    "INFINITE",
    "INTEGER",
    "MEASURED",
    "NAME",
    "NATURAL",
    "NUMBER",
    "POSITIVE",
    "TEXT",
    "WHOLE",
    "Field",
    "Pattern",
    "as_number",
    "check_spread",
    "object_schema",
    "refused",
]

T = TypeVar("T")

CELLS = 1 << 20
"""The most numbers of an array, and items of a list."""

FINITE = 2.0**53
"""Whole floats below this are written as integers."""

_CROWDED = 100

_PLACES = r"(?:0|[1-9][0-9]*)"
_DECIMAL = rf"{_PLACES}(?:\.[0-9]+)?(?:[eE][+-]?[0-9]{{1,3}})?|{_PLACES}/[1-9][0-9]*"
_HEX = r"0x[1-9a-f][0-9a-f]*"
_LARGE = rf"{_HEX}(?:/(?:[1-9][0-9]*|{_HEX}))?|[1-9][0-9]*/{_HEX}"
_AMOUNT = re.compile(rf"{_DECIMAL}|{_LARGE}")
_WHOLE = re.compile(rf"0|-?[1-9][0-9]*|-?{_HEX}")
_LONGEST_DIGITS = 1234
"""An integer of 2^4096 in decimal digits."""

_LONGEST_AMOUNT = 2 * (3 + (1 << 14))
"""Two integers of 2^16 bits in hexadecimal digits, which take milliseconds to reduce."""

_PLAIN_BITS = 1 << 12
"""Larger integers are written in hexadecimal digits, which take no time to read."""

_MOST_BITS = 1 << 17


class Field(Protocol[T]):
    """How values of one type are written and read, and what a schema says of their plain form.

    A field of your own has these three methods. `read` makes no use of what it is given but to look
    at it, and raises nothing but `WireError`.
    """

    def write(self, value: T, path: str, codebook: Codebook, /) -> Plain:
        """The plain form of a value; raises `WireError` if it has none."""
        ...

    def read(self, plain: Plain, path: str, codebook: Codebook, /) -> T:
        """The value of a plain form; raises `WireError` if it is not of this type."""
        ...

    def schema(self, codebook: Codebook, /) -> JSON:
        """The JSON Schema 2020-12 of a plain form."""
        ...


def refused(path: str, expected: str, plain: object) -> WireError:
    """The error of a plain form that is another than expected; of containers it names the kind."""
    if isinstance(plain, dict | list):
        kind = "an object" if isinstance(plain, dict) else "a list"
        return WireError(path, expected, kind if plain else f"{kind}, which is empty")
    return WireError(path, expected, "null" if plain is None else shown(plain))


def check_spread(path: str, labels: Iterable[object]) -> None:
    """Refuse labels that were picked to fall on few places of a hash table.

    Numbers hash to their remainder by a prime. Where thousands leave the same one, each is compared
    with all before it, and a short text takes minutes to read. No two integers below 2^60 do.
    """
    places = Counter(map(hash, labels))
    if max(places.values(), default=0) > _CROWDED:
        expected = f"labels of which no {_CROWDED} leave one remainder by 2^61 - 1"
        raise WireError(path, expected, "more that do")


def object_schema(properties: Mapping[str, Plain], required: Sequence[str] | None = None) -> JSON:
    """The schema of an object of these members, all required unless `required` is given."""
    names = list(properties) if required is None else list(required)
    return {
        "type": "object",
        "properties": dict(properties),
        "required": cast("list[Plain]", names),
        "additionalProperties": False,
    }


class _AsIs(Generic[T]):
    """A value that is its own plain form."""

    def write(self, value: T, path: str, codebook: Codebook, /) -> Plain:
        return cast("Plain", self.read(cast("Plain", value), path, codebook))

    def read(self, plain: Plain, path: str, codebook: Codebook, /) -> T:
        raise NotImplementedError


class _Text(_AsIs[str]):
    def __init__(self, least: int, most: int) -> None:
        self._least = least
        self._most = most
        self._expected = f"a {'non-empty ' if least else ''}text of at most {most:,} characters"

    def write(self, value: str, path: str, codebook: Codebook, /) -> Plain:
        text = self.read(value, path, codebook)
        if not text.isascii():
            try:
                text.encode("utf-8")
            except UnicodeEncodeError:
                raise WireError(path, "a text that UTF-8 can hold", shown(text)) from None
        return text

    def read(self, plain: Plain, path: str, _: Codebook, /) -> str:
        if type(plain) is not str or not self._least <= len(plain) <= self._most:
            raise refused(path, self._expected, plain)
        return plain

    def schema(self, _: Codebook, /) -> JSON:
        return {"type": "string", "minLength": self._least, "maxLength": self._most}


TEXT = _Text(0, LONGEST_TEXT)
"""Any text of up to 65,536 characters."""

NAME = _Text(1, 1000)
"""A text of 1 to 1,000 characters, as names of attributes are."""


class Pattern(_AsIs[str]):
    """A text that a regular expression matches whole, which is `expected` in words."""

    def __init__(self, pattern: str, expected: str) -> None:
        self._pattern = re.compile(pattern)
        self._expected = expected

    def read(self, plain: Plain, path: str, _: Codebook, /) -> str:
        if type(plain) is not str or not self._pattern.fullmatch(plain):
            raise refused(path, self._expected, plain)
        return plain

    def schema(self, _: Codebook, /) -> JSON:
        # Not only "$", before which some readers of patterns allow the end of a line.
        return {"type": "string", "pattern": rf"^{self._pattern.pattern}(?![\s\S])"}


class _Flag(_AsIs[bool]):
    def read(self, plain: Plain, path: str, _: Codebook, /) -> bool:
        if type(plain) is not bool:
            raise refused(path, "true or false", plain)
        return plain

    def schema(self, _: Codebook, /) -> JSON:
        return {"type": "boolean"}


FLAG = _Flag()
"""True or false, and no text or number that stands for it."""


class _Integer(_AsIs[int]):
    def __init__(self, least: int | None = None) -> None:
        self._least = least
        at_least = "" if least is None else f", at least {least}"
        self._expected = f"an integer, without a point{at_least}"

    def read(self, plain: Plain, path: str, _: Codebook, /) -> int:
        if type(plain) is not int or (self._least is not None and plain < self._least):
            raise refused(path, self._expected, plain)
        return plain

    def schema(self, _: Codebook, /) -> JSON:
        schema: JSON = {"type": "integer"}
        return schema if self._least is None else {**schema, "minimum": self._least}


INTEGER = _Integer()
"""An integer of any sign, below 2^1023 in size."""

NATURAL = _Integer(0)
"""An integer from 0."""

POSITIVE = _Integer(1)
"""An integer from 1."""


def as_number(value: float) -> int | float:
    """The one way to write a number: equal numbers are written alike.

    Whole ones below 2^53 are written as integers, larger integers that are floats as floats.
    """
    if isinstance(value, float):
        whole = value.is_integer() and abs(value) < FINITE
        return int(value) if whole else float.__add__(value, 0.0)
    if abs(value) < FINITE:
        return value
    near = float(value)
    return near if near == value else value


class _Number:
    def __init__(self, *, endless: bool = False, floating: bool = True) -> None:
        self._endless = endless
        self._floating = floating

    def write(self, value: float, path: str, _: Codebook, /) -> Plain:
        if self._endless and value == math.inf:
            return "infinity"
        plain = float(value) if isinstance(value, np.floating) else value
        if type(plain) not in (int, float) or not math.isfinite(plain):
            raise WireError(path, "a finite number", shown(value))
        return as_number(plain)

    def read(self, plain: Plain, path: str, _: Codebook, /) -> float:
        if type(plain) is int or type(plain) is float:
            return float(plain) if self._floating else plain
        if self._endless and plain == "infinity":
            return math.inf
        endless = ', or "infinity"' if self._endless else ""
        raise refused(path, f"a number{endless}", plain)

    def schema(self, _: Codebook, /) -> JSON:
        number: JSON = {"type": "number"}
        return {"anyOf": [number, {"const": "infinity"}]} if self._endless else number


NUMBER = _Number(floating=False)
"""A finite number, read as an integer where it is written as one."""

FLOAT = _Number()
"""A finite number, read as a float."""

ENDLESS = _Number(endless=True)
"""A finite number, read as a float, or the text "infinity"."""

INFINITE = {"infinity": math.inf, "-infinity": -math.inf}


class _Measured:
    def write(self, value: float, path: str, codebook: Codebook, /) -> Plain:
        if math.isnan(value):
            return None
        if math.isinf(value):
            return "infinity" if value > 0 else "-infinity"
        return NUMBER.write(float(value), path, codebook)

    def read(self, plain: Plain, path: str, _: Codebook, /) -> float:
        if type(plain) is int or type(plain) is float:
            return float(plain)
        if plain is None:
            return math.nan
        if type(plain) is not str or plain not in INFINITE:
            raise refused(path, 'a number, null, "infinity" or "-infinity"', plain)
        return INFINITE[plain]

    def schema(self, codebook: Codebook, /) -> JSON:
        return {"anyOf": [NUMBER.schema(codebook), {"enum": [None, *INFINITE]}]}


MEASURED = _Measured()
"""A float, null for NaN, and a text for an infinite one."""


def _digits(value: int, path: str) -> str:
    bits = value.bit_length()
    if bits > _MOST_BITS:
        raise WireError(path, f"an integer below 2^{_MOST_BITS}", f"one of {bits:,} bits")
    return str(value) if bits <= _PLAIN_BITS else hex(value)


def _integer(digits: str, path: str) -> int:
    if "0x" not in digits and len(digits) > _LONGEST_DIGITS:
        expected = f"integers of at most {_LONGEST_DIGITS:,} digits, or with 0x before them"
        raise WireError(path, expected, f"one of {len(digits):,}")
    return int(digits, 16 if "0x" in digits else 10)


class _Whole:
    def write(self, value: int, path: str, _: Codebook, /) -> Plain:
        return _digits(value, path)

    def read(self, plain: Plain, path: str, _: Codebook, /) -> int:
        text = plain if type(plain) is str and _WHOLE.fullmatch(plain) else ""
        if (
            not text
            or len(text) > LONGEST_TEXT
            or _digits(value := _integer(text, path), path) != text
        ):
            raise refused(path, "an integer in digits", plain)
        return value

    def schema(self, _: Codebook, /) -> JSON:
        return {"type": "string", "pattern": rf"^(?:{_WHOLE.pattern})(?![\s\S])"}


WHOLE = _Whole()
"""An integer of any size as a text: decimal digits, from 2^4096 on hexadecimal ones after 0x."""


class _Amount:
    _expected = 'a decimal or a fraction of 0 or more as a text, such as "0.1", "1e-9" or "1/3"'

    def write(self, value: Fraction, path: str, _: Codebook, /) -> Plain:
        text = _digits(value.numerator, path)
        if value.denominator != 1:
            text = f"{text}/{_digits(value.denominator, path)}"
        if len(text) > _LONGEST_AMOUNT:
            raise WireError(path, "a fraction of fewer digits", "one of very many")
        return text

    def read(self, plain: Plain, path: str, _: Codebook, /) -> Fraction:
        if (
            type(plain) is not str
            or len(plain) > _LONGEST_AMOUNT
            or not _AMOUNT.fullmatch(plain)
            or ("0x" not in plain and len(plain) > 2 * _LONGEST_DIGITS + 1)
        ):
            raise refused(path, self._expected, plain)
        if "0x" in plain or plain.isdigit():
            above, below = plain.partition("/")[::2]
            return Fraction(_integer(above, path), _integer(below or "1", path))
        amount = read_fraction(plain)
        if amount is None:
            raise refused(path, self._expected, plain)
        return amount

    def schema(self, _: Codebook, /) -> JSON:
        pattern = rf"^(?:{_AMOUNT.pattern})(?![\s\S])"
        return {"type": "string", "pattern": pattern, "maxLength": _LONGEST_AMOUNT}


AMOUNT = _Amount()
"""An exact amount from 0, as a text: 0.1, 1e-9 or 1/3. It is written in lowest terms."""
