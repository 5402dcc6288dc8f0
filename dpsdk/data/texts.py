"""How the texts of a table stand for numbers: strict decimals, and what a loader is told."""

from __future__ import annotations

import re
from decimal import Decimal
from typing import TypeAlias

from attrs import field, frozen

from dpsdk._checks import shown
from dpsdk.errors import InvalidArgument

__all__ = ["Number", "TextFormat", "is_canonical", "is_nan", "is_number", "is_text"]

Number: TypeAlias = int | Decimal
"""The exact value of a number in a table; a Decimal may be infinite or none."""

_SEPARATORS = "., '_\u2019\u00a0\u2009\u202f"
_SPECIAL = {
    "inf": Decimal("Infinity"),
    "+inf": Decimal("Infinity"),
    "-inf": Decimal("-Infinity"),
    "nan": Decimal("NaN"),
    "NaN": Decimal("NaN"),
}
"""What writers of tables make of the floats that are no numbers."""

_CANONICAL = re.compile(r"(?!-0$)-?(?:0|[1-9][0-9]*)(?:\.[0-9]*[1-9])?")
_SURROGATE = re.compile("[\ud800-\udfff]")
_QUICK = 18
"""Texts of so many digits are surely short enough for `int`."""


def is_text(text: str) -> bool:
    """Whether a text has no half of a surrogate pair, as bytes have that could not be decoded."""
    return text.isascii() or _SURROGATE.search(text) is None


def is_canonical(text: str) -> bool:
    """Whether a text is the shortest plain decimal of its number: "1" is, "01" and "1.0" not."""
    return _CANONICAL.fullmatch(text) is not None


def is_number(text: str) -> bool:
    """Whether a text is a finite decimal of any spelling that is read without being told more."""
    return text not in _SPECIAL and _PLAIN.number(text) is not None


def is_nan(number: Number) -> bool:
    """Whether a number is none."""
    return isinstance(number, Decimal) and number.is_nan()


def _to_flag(value: bool) -> bool:  # noqa: FBT001  # a converter
    if not isinstance(value, bool):
        raise InvalidArgument("strip", "True or False", shown(value))
    return value


def _to_point(value: str) -> str:
    if not isinstance(value, str) or value not in {".", ","}:
        raise InvalidArgument("decimal", '"." or ","', shown(value))
    return str.__str__(value)


def _to_separator(value: str | None) -> str | None:
    if value is None:
        return None
    if not isinstance(value, str) or len(value) != 1 or value not in _SEPARATORS:
        expected = "None, a point, a comma, an apostrophe, an underscore or a space"
        raise InvalidArgument("thousands", expected, shown(value))
    return str.__str__(value)


@frozen
class TextFormat:
    """What a loader was told of the texts in a table. Nothing of it is ever guessed.

    Parameters
    ----------
    strip
        Whether white space around a text is dropped.
    decimal
        What stands before the decimals: a point or a comma.
    thousands
        What may stand between groups of three digits, if anything.
    """

    strip: bool = field(default=False, converter=_to_flag)
    decimal: str = field(default=".", converter=_to_point)
    thousands: str | None = field(default=None, converter=_to_separator)
    _decimals: re.Pattern[str] = field(init=False, repr=False, eq=False)

    def __attrs_post_init__(self) -> None:
        if self.thousands == self.decimal:
            expected = "another character than decimal"
            raise InvalidArgument("thousands", expected, shown(self.thousands))
        point, whole = re.escape(self.decimal), "[0-9]++"
        if self.thousands is not None:
            whole = f"(?:[0-9]{{1,3}}(?:{re.escape(self.thousands)}[0-9]{{3}})++|[0-9]++)"
        # Exponents of more digits are beyond what a Decimal holds.
        exponent = "(?:[eE][+-]?[0-9]{1,9})?"
        decimals = re.compile(f"[+-]?(?:{whole}(?:{point}[0-9]*+)?|{point}[0-9]++){exponent}")
        # A frozen value sets its derived field once, at birth.
        object.__setattr__(self, "_decimals", decimals)

    def number(self, text: str) -> Number | None:
        """The number that a text spells; None where it spells none.

        A sign, digits from 0 to 9 with at most one decimal sign, and an exponent; also inf, -inf
        and nan. Neither underscores nor digits of other scripts.
        """
        if self.strip:
            text = text.strip()
        if len(text) <= _QUICK and text.isascii() and text.isdigit():
            return int(text)
        if self._decimals.fullmatch(text) is None:
            return _SPECIAL.get(text)
        if self.thousands is not None:
            text = text.replace(self.thousands, "")
        return Decimal(text.replace(",", "."))


_PLAIN = TextFormat()
