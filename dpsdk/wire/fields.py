"""How single fields are written and read: one reader for each type of value, none that widens."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from fractions import Fraction
from typing import TYPE_CHECKING, Generic, Protocol, TypeVar, cast

import numpy as np

from dpsdk._arrays import kept
from dpsdk._checks import read_decimal, shown
from dpsdk._records import FRACTION as RECORDED
from dpsdk.errors import RecordError, WireError
from dpsdk.typing import Floats, Ints
from dpsdk.wire.text import JSON, LONGEST_TEXT, Plain, step

if TYPE_CHECKING:
    from dpsdk.wire.catalogue import Codebook

__all__ = [
    "AMOUNT",
    "CELLS",
    "CODES",
    "ENDLESS",
    "FINITE",
    "FLAG",
    "FLOAT",
    "INTEGER",
    "NAME",
    "NATURAL",
    "NUMBER",
    "NUMBERS",
    "POSITIVE",
    "TEXT",
    "Choice",
    "Field",
    "ListOf",
    "OrNone",
    "check_spread",
    "refused",
]

T = TypeVar("T")

CELLS = 1 << 20
"""So many numbers are in an array at the most."""

_CROWDED = 100

FINITE = 2.0**53
"""Whole floats below this are written as integers."""

_PLACES = r"(?:0|[1-9][0-9]*)"
_AMOUNT = rf"{_PLACES}(?:\.[0-9]+)?(?:[eE][+-]?[0-9]{{1,3}})?|{_PLACES}/[1-9][0-9]*"
_HEX = r"0x[1-9a-f][0-9a-f]*"
_LARGE = rf"{_HEX}(?:/(?:[1-9][0-9]*|{_HEX}))?|[1-9][0-9]*/{_HEX}"
_WRITTEN = re.compile(rf"{_AMOUNT}|{_LARGE}")
_LONGEST_DIGITS = 1200
_LONGEST_AMOUNT = 2 * (3 + (1 << 14))
"""Two integers of 2^16 bits in hexadecimal digits, which take milliseconds to reduce."""


class Field(Protocol[T]):
    """How a field of one type is written and read, and what a schema says of it.

    A field of your own has these three methods. `read` makes no use of what it is given but to look
    at it, and raises nothing but `WireError`.
    """

    def write(self, value: T, path: str, codebook: Codebook, /) -> Plain:
        """The plain form of a value.

        Raises
        ------
        WireError
            If it has none.
        """
        ...

    def read(self, plain: Plain, path: str, codebook: Codebook, /) -> T:
        """The value of a plain form.

        Raises
        ------
        WireError
            If the plain form is not of this type.
        """
        ...

    def schema(self, codebook: Codebook, /) -> JSON:
        """What JSON Schema 2020-12 says of a plain form."""
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


class _Text:
    """A text; the constructors of values say which."""

    def __init__(self, least: int, most: int) -> None:
        self._least = least
        self._most = most
        of = "" if least == 0 else "non-empty "
        self._expected = f"a {of}text of at most {most:,} characters"

    def write(self, value: str, path: str, codebook: Codebook, /) -> Plain:
        return self.read(value, path, codebook)

    def read(self, plain: Plain, path: str, codebook: Codebook, /) -> str:
        del codebook
        if type(plain) is not str or not self._least <= len(plain) <= self._most:
            raise refused(path, self._expected, plain)
        return plain

    def schema(self, codebook: Codebook, /) -> JSON:
        del codebook
        return {"type": "string", "minLength": self._least, "maxLength": self._most}


TEXT = _Text(0, LONGEST_TEXT)
"""Any text of up to 65,536 characters."""

NAME = _Text(1, 1000)
"""A text of 1 to 1,000 characters, as names of attributes are."""


class _Flag:
    """True or false, and no text or number that stands for it."""

    def write(self, value: bool, path: str, codebook: Codebook, /) -> Plain:  # noqa: FBT001
        return self.read(value, path, codebook)

    def read(self, plain: Plain, path: str, codebook: Codebook, /) -> bool:
        del codebook
        if type(plain) is not bool:
            raise refused(path, "true or false", plain)
        return plain

    def schema(self, codebook: Codebook, /) -> JSON:
        del codebook
        return {"type": "boolean"}


FLAG = _Flag()
"""A truth value."""


class _Integer:
    """An integer, written without a point or an exponent."""

    def __init__(self, least: int | None = None) -> None:
        self._least = least
        at_least = "" if least is None else f", at least {least}"
        self._expected = f"an integer, without a point{at_least}"

    def write(self, value: int, path: str, codebook: Codebook, /) -> Plain:
        return self.read(value, path, codebook)

    def read(self, plain: Plain, path: str, codebook: Codebook, /) -> int:
        del codebook
        if type(plain) is not int or (self._least is not None and plain < self._least):
            raise refused(path, self._expected, plain)
        return plain

    def schema(self, codebook: Codebook, /) -> JSON:
        del codebook
        if self._least is None:
            return {"type": "integer"}
        return {"type": "integer", "minimum": self._least}


INTEGER = _Integer()
"""An integer of any sign."""

NATURAL = _Integer(0)
"""An integer from 0."""

POSITIVE = _Integer(1)
"""An integer from 1."""


def as_number(value: float) -> int | float:
    """The one way in which a number is written: equal numbers are written alike.

    Whole ones below 2^53 as integers, larger integers that are floats as floats.
    """
    if isinstance(value, float):
        whole = value.is_integer() and abs(value) < FINITE
        return int(value) if whole else float.__add__(value, 0.0)
    if abs(value) < FINITE:
        return value
    near = float(value)
    return near if near == value else value


class _Number:
    """A finite number, or where it may be endless also the text "infinity"."""

    def __init__(self, *, endless: bool = False, floating: bool = True) -> None:
        self._endless = endless
        self._floating = floating

    def write(self, value: float, path: str, codebook: Codebook, /) -> Plain:
        del codebook
        if self._endless and value == math.inf:
            return "infinity"
        plain = float(value) if isinstance(value, np.floating) else value
        if type(plain) not in (int, float) or not math.isfinite(plain):
            raise WireError(path, "a finite number", shown(value))
        return as_number(plain)

    def read(self, plain: Plain, path: str, codebook: Codebook, /) -> float:
        del codebook
        if type(plain) is int or type(plain) is float:
            return float(plain) if self._floating else plain
        if self._endless and type(plain) is str and plain == "infinity":
            return math.inf
        endless = ', or "infinity"' if self._endless else ""
        raise refused(path, f"a number{endless}", plain)

    def schema(self, codebook: Codebook, /) -> JSON:
        del codebook
        if self._endless:
            return {"anyOf": [{"type": "number"}, {"const": "infinity"}]}
        return {"type": "number"}


NUMBER = _Number(floating=False)
"""A finite number, read as an integer where it is written as one."""

FLOAT = _Number()
"""A finite number, read as a float."""

ENDLESS = _Number(endless=True)
"""A finite number, read as a float, or the text "infinity"."""


class _Amount:
    """A fraction from 0, exact, as a text: 0.1, 1e-9 or 1/3. It is written in lowest terms."""

    _expected = 'a decimal or a fraction of 0 or more as a text, such as "0.1", "1e-9" or "1/3"'

    def write(self, value: Fraction, path: str, codebook: Codebook, /) -> Plain:
        del codebook
        try:
            text = RECORDED.write(value, path)
        except RecordError:
            raise WireError(path, "a fraction of fewer digits", "one of very many") from None
        if len(text) > _LONGEST_AMOUNT:
            raise WireError(path, "a fraction of fewer digits", "one of very many")
        return text

    def read(self, plain: Plain, path: str, codebook: Codebook, /) -> Fraction:
        del codebook
        if (
            type(plain) is not str
            or len(plain) > _LONGEST_AMOUNT
            or not _WRITTEN.fullmatch(plain)
            or ("0x" not in plain and len(plain) > 2 * _LONGEST_DIGITS)
        ):
            raise refused(path, self._expected, plain)
        if "/" not in plain and "0x" not in plain:
            decimal = read_decimal(plain)
            if decimal is None:
                raise refused(path, self._expected, plain)
            return Fraction(decimal)
        above, _, below = plain.partition("/")
        return Fraction(_integer(above, path), _integer(below or "1", path))

    def schema(self, codebook: Codebook, /) -> JSON:
        del codebook
        # Not only "$", before which some readers of patterns allow the end of a line.
        pattern = rf"^(?:{_AMOUNT}|{_LARGE})(?![\s\S])"
        return {"type": "string", "pattern": pattern, "maxLength": _LONGEST_AMOUNT}


def _integer(digits: str, path: str) -> int:
    if digits.startswith("0x"):
        return int(digits, 16)
    if len(digits) > _LONGEST_DIGITS:
        expected = f"integers of at most {_LONGEST_DIGITS:,} digits, or with 0x before them"
        raise WireError(path, expected, f"one of {len(digits):,}")
    return int(digits)


AMOUNT = _Amount()
"""An exact amount from 0, such as an ε, a ρ or a share, as a text."""


class Choice(Generic[T]):
    """One of a few texts, each standing for itself."""

    def __init__(self, *texts: str) -> None:
        self._texts = texts
        self._expected = " or ".join(f'"{text}"' for text in texts)

    def write(self, value: T, path: str, codebook: Codebook, /) -> Plain:
        # One of a class below is written as the text that it equals.
        plain = str.__str__(value) if isinstance(value, str) else cast("Plain", value)
        return cast("str", self.read(plain, path, codebook))

    def read(self, plain: Plain, path: str, codebook: Codebook, /) -> T:
        del codebook
        if type(plain) is not str or plain not in self._texts:
            raise refused(path, self._expected, plain)
        return cast("T", plain)

    def schema(self, codebook: Codebook, /) -> JSON:
        del codebook
        return {"enum": list(self._texts)}


class OrNone(Generic[T]):
    """A value, or null for None."""

    def __init__(self, field: Field[T]) -> None:
        self._field = field

    def write(self, value: T | None, path: str, codebook: Codebook, /) -> Plain:
        return None if value is None else self._field.write(value, path, codebook)

    def read(self, plain: Plain, path: str, codebook: Codebook, /) -> T | None:
        return None if plain is None else self._field.read(plain, path, codebook)

    def schema(self, codebook: Codebook, /) -> JSON:
        return {"anyOf": [{"type": "null"}, self._field.schema(codebook)]}


class ListOf(Generic[T]):
    """A list of so many values of one type, which becomes a tuple."""

    def __init__(self, field: Field[T], *, least: int = 0, most: int = CELLS) -> None:
        self._field = field
        self._least = least
        self._most = most

    def write(self, value: Sequence[T], path: str, codebook: Codebook, /) -> Plain:
        self._check(len(value), path)
        return [self._field.write(one, path + step(i), codebook) for i, one in enumerate(value)]

    def read(self, plain: Plain, path: str, codebook: Codebook, /) -> tuple[T, ...]:
        if type(plain) is not list:
            raise refused(path, "a list", plain)
        self._check(len(plain), path)
        # From a list: tuple() of a generator would keep none of the place if it is interrupted.
        return tuple([self._field.read(o, path + step(i), codebook) for i, o in enumerate(plain)])

    def _check(self, count: int, path: str) -> None:
        if not self._least <= count <= self._most:
            expected = f"a list of {self._least:,} to {self._most:,} values"
            raise WireError(path, expected, f"{count:,} values")

    def schema(self, codebook: Codebook, /) -> JSON:
        items = self._field.schema(codebook)
        return {"type": "array", "items": items, "minItems": self._least, "maxItems": self._most}


class _Numbers:
    """An array of floats: its shape, and its numbers in C order."""

    _shape = ListOf(POSITIVE, least=1, most=32)

    def write(self, value: Floats, path: str, codebook: Codebook, /) -> Plain:
        if value.size > CELLS:
            raise WireError(path, f"at most {CELLS:,} numbers", f"{value.size:,} of them")
        if not np.isfinite(value).all():
            raise WireError(path, "finite numbers", "some that are not")
        numbers: list[Plain] = [as_number(one) for one in value.reshape(-1).tolist()]
        return {"shape": self._shape.write(value.shape, path, codebook), "numbers": numbers}

    def read(self, plain: Plain, path: str, codebook: Codebook, /) -> Floats:
        if type(plain) is not dict or plain.keys() != {"shape", "numbers"}:
            raise refused(path, 'an object of "shape" and "numbers"', plain)
        shape = self._shape.read(plain["shape"], f"{path}.shape", codebook)
        numbers = plain["numbers"]
        if type(numbers) is not list or not 1 <= len(numbers) <= CELLS:
            raise refused(f"{path}.numbers", f"a list of 1 to {CELLS:,} numbers", numbers)
        for place, one in enumerate(numbers):
            if type(one) is not float and type(one) is not int:
                raise refused(f"{path}.numbers[{place}]", "a number", one)
        if math.prod(shape) != len(numbers):
            raise WireError(f"{path}.shape", f"the shape of {len(numbers):,} numbers", shown(shape))
        return kept(np.array(numbers, dtype=np.float64).reshape(shape))

    def schema(self, codebook: Codebook, /) -> JSON:
        numbers: JSON = {"type": "array", "items": {"type": "number"}, "minItems": 1}
        return {
            "type": "object",
            "properties": {
                "shape": self._shape.schema(codebook),
                "numbers": {**numbers, "maxItems": CELLS},
            },
            "required": ["shape", "numbers"],
            "additionalProperties": False,
        }


NUMBERS = _Numbers()
"""An array of floats."""


class _Codes:
    """A table of integers: a list of rows, all of one length."""

    _rows = ListOf(ListOf(INTEGER, least=1, most=1000), least=1)

    def write(self, value: Ints, path: str, codebook: Codebook, /) -> Plain:
        del codebook
        if value.size > CELLS:
            raise WireError(path, f"at most {CELLS:,} integers", f"{value.size:,} of them")
        return cast("Plain", value.tolist())

    def read(self, plain: Plain, path: str, codebook: Codebook, /) -> Ints:
        rows = self._rows.read(plain, path, codebook)
        if len({len(row) for row in rows}) > 1:
            raise WireError(path, "rows of one length", "rows of several")
        if max(max(map(abs, row)) for row in rows) >= 1 << 63:
            raise WireError(path, "integers below 2^63", "a larger one")
        return np.array(rows, dtype=np.int64)

    def schema(self, codebook: Codebook, /) -> JSON:
        return self._rows.schema(codebook)


CODES = _Codes()
"""A table of integers, as rectangles have."""


class Both(Generic[T]):
    """A value that two kinds of plain forms can stand for, told apart by what they are."""

    def __init__(self, texts: Field[str], others: Field[T]) -> None:
        self._texts = texts
        self._others = others

    def write(self, value: str | T, path: str, codebook: Codebook, /) -> Plain:
        if isinstance(value, str):
            return self._texts.write(value, path, codebook)
        return self._others.write(value, path, codebook)

    def read(self, plain: Plain, path: str, codebook: Codebook, /) -> str | T:
        if type(plain) is str:
            return self._texts.read(plain, path, codebook)
        return self._others.read(plain, path, codebook)

    def schema(self, codebook: Codebook, /) -> JSON:
        return {"anyOf": [self._texts.schema(codebook), self._others.schema(codebook)]}


class MapOf(Generic[T]):
    """Values by name, in the order in which they are written."""

    def __init__(self, field: Field[T], *, least: int = 0) -> None:
        self._field = field
        self._least = least

    def write(self, value: Mapping[str, T], path: str, codebook: Codebook, /) -> Plain:
        return {
            NAME.read(name, path, codebook): self._field.write(one, path + step(name), codebook)
            for name, one in value.items()
        }

    def read(self, plain: Plain, path: str, codebook: Codebook, /) -> dict[str, T]:
        if type(plain) is not dict or len(plain) < self._least:
            raise refused(path, "an object with members" if self._least else "an object", plain)
        return {
            NAME.read(name, path, codebook): self._field.read(one, path + step(name), codebook)
            for name, one in plain.items()
        }

    def schema(self, codebook: Codebook, /) -> JSON:
        return {
            "type": "object",
            "minProperties": self._least,
            "propertyNames": NAME.schema(codebook),
            "additionalProperties": self._field.schema(codebook),
        }
