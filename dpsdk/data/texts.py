"""Single values of a table: texts that stand for numbers, and Python objects as exact built-ins."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterable, Mapping
from decimal import Decimal
from typing import TypeAlias, cast

import numpy as np

from dpsdk._checks import shown, to_flag
from dpsdk._records import field, frozen
from dpsdk.data.columns import SAFE
from dpsdk.data.moments import Moment, moment_reader, read_moment
from dpsdk.domain.attributes import normal
from dpsdk.errors import InvalidArgument
from dpsdk.typing import Array, Bools, Extra

__all__ = [
    "MISSING",
    "DateForms",
    "Number",
    "TextFormat",
    "is_canonical",
    "is_nan",
    "is_nothing",
    "is_number",
    "is_text",
    "nearest_float",
    "plain",
    "printed_decimal",
]

DateForms: TypeAlias = str | Mapping[str, str] | None
"""How the days and times of a table are written; see `TextFormat`."""

Number: TypeAlias = int | Decimal
"""The exact value of a number in a table; a Decimal may be infinite or none."""

MISSING = {"", "nan", "NaN"}
"""Texts that are missing values, unless they are labels."""

_SEPARATORS = "., '_\u2019\u00a0\u2009\u202f"
_SPECIAL = {
    "inf": Decimal("Infinity"),
    "+inf": Decimal("Infinity"),
    "-inf": Decimal("-Infinity"),
    "nan": Decimal("NaN"),
    "NaN": Decimal("NaN"),
}
_CANONICAL = re.compile(r"(?!-0$)-?(?:0|[1-9][0-9]*)(?:\.[0-9]*[1-9])?")
_SURROGATE = re.compile("[\ud800-\udfff]")
_QUICK = 18
"""Texts of so many digits are surely short enough for `int`."""


def is_text(text: str) -> bool:
    """Return False for texts with a lone surrogate, as undecodable bytes become."""
    return text.isascii() or _SURROGATE.search(text) is None


def is_canonical(text: str) -> bool:
    """Return whether a text is the shortest decimal of its number: "1" is, "01" and "1.0" not."""
    return _CANONICAL.fullmatch(text) is not None


def is_number(text: str) -> bool:
    """Return whether a text is a finite decimal of any spelling that needs no options."""
    return text not in _SPECIAL and _PLAIN.number(text) is not None


def is_nan(number: Number) -> bool:
    """Return whether a number is NaN."""
    return isinstance(number, Decimal) and number.is_nan()


def _to_strip(value: bool) -> bool:  # noqa: FBT001  # a converter
    return to_flag("strip", value)


def _to_point(value: str) -> str:
    if not isinstance(value, str) or value not in {".", ","}:
        raise InvalidArgument("decimal", '"." or ","', shown(value))
    return str(value)


def _to_separator(value: str | None) -> str | None:
    if value is None:
        return None
    if not isinstance(value, str) or len(value) != 1 or value not in _SEPARATORS:
        expected = "None, a point, a comma, an apostrophe, an underscore or a space"
        raise InvalidArgument("thousands", expected, shown(value))
    return str(value)


def _to_missing(texts: Iterable[str]) -> frozenset[str]:
    return frozenset(texts)


def _to_dates(value: DateForms) -> DateForms:
    for form in value.values() if isinstance(value, Mapping) else [value]:
        if form is not None:
            moment_reader(form)
    return dict(value) if isinstance(value, Mapping) else value


@frozen
class TextFormat:
    """How the texts of a table are written; nothing of it is guessed.

    Parameters
    ----------
    strip
        Whether white space around a text is dropped.
    decimal
        The character before the decimals: a point or a comma.
    thousands
        The character that may stand between groups of three digits.
    dates
        How days and times are written, as for `strptime`: one form, or one by the name of each
        attribute. Without one, they are read in ISO 8601.
    missing
        Texts that stand for a missing value, in normal form and without white space around them.
    """

    strip: bool = field(default=False, converter=_to_strip)
    decimal: str = field(default=".", converter=_to_point)
    thousands: str | None = field(default=None, converter=_to_separator)
    dates: DateForms = field(default=None, converter=_to_dates)
    missing: frozenset[str] = field(default=frozenset(), converter=_to_missing, kw_only=True)
    absent: frozenset[Number] = field(init=False, repr=False, eq=False)
    """The numbers that these spell, which stand for a missing value, too."""
    _rounded: frozenset[Number] = field(init=False, repr=False, eq=False)
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
        object.__setattr__(self, "_decimals", decimals)
        spelt = [self.number(text) for text in self.missing]
        spelt += [Decimal(text) for text in self.missing if is_canonical(text)]
        numbers = [number for number in spelt if number is not None and not is_nan(number)]
        object.__setattr__(self, "absent", frozenset(numbers))
        object.__setattr__(self, "_rounded", frozenset(map(nearest_float, numbers)))

    def lists(self, text: str) -> bool:
        """Return whether a text is listed as one that stands for a missing value."""
        return bool(self.missing) and normal(text.strip()) in self.missing

    @property
    def far(self) -> bool:
        """True if a number from 2^53 on stands for a missing value."""
        return any(not -SAFE < number < SAFE for number in self.absent)

    def is_absent(self, number: Number, *, rounded: bool) -> bool:
        """Return whether a number stands for a missing value; or one that was rounded like it."""
        return number in (self._rounded if rounded else self.absent)

    def nearly_absent(self, values: Array) -> Bools:
        """Return which of many numbers may stand for a missing value, all that do among them."""
        wide = values.astype(np.float64)
        kind = values.dtype.type if values.dtype.kind == "f" else np.float64
        slack = 4 * max(float(np.finfo(kind).eps), 2.0**-52)
        near = np.zeros(len(values), dtype=bool)
        for number in map(float, map(Decimal, self.absent)):
            near |= wide == number if np.isinf(number) else (
                np.abs(wide - number) <= slack * abs(number)
            )  # fmt: skip
        return near

    def moments(self, name: str) -> Callable[[str], Moment | None]:
        """Return what reads the days and times of an attribute."""
        form = self.dates.get(name) if isinstance(self.dates, Mapping) else self.dates
        return read_moment if form is None else moment_reader(form)

    def number(self, text: str) -> Number | None:
        """Return the number that a text spells, or None.

        Numbers are strict decimals: a sign, digits from 0 to 9 with at most one decimal sign, and
        an exponent; also inf, -inf and nan. Neither underscores nor digits of other scripts.
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


def nearest_float(value: Number) -> Number:
    """Return a number from 2^53 on as the decimal that the nearest float of 64 bits prints as."""
    if -SAFE < value < SAFE:
        return value
    try:
        number = float(value)
    except OverflowError:
        return value
    return value if np.isinf(number) else Decimal(repr(number))


_PLAIN = TextFormat()


def printed_decimal(value: np.floating) -> Decimal:
    """Return a float as the decimal that it prints as in its own width."""
    if np.isfinite(value):
        return Decimal(np.format_float_scientific(value))
    return Decimal("NaN") if np.isnan(value) else Decimal("Infinity" if value > 0 else "-Infinity")


def is_nothing(value: object) -> bool:
    """Return whether a value that is no number, text, truth value or moment is a missing one."""
    if value is None or value is Extra.MISSING:
        return True
    if issubclass(type(value), float | Decimal | np.floating | np.datetime64):
        return True  # NaN and NaT
    if type(value) is np.timedelta64:
        return bool(np.isnat(value))
    pandas = sys.modules.get("pandas")
    return pandas is not None and any(value is one for one in (pandas.NA, pandas.NaT))


def plain(value: object) -> Number | bool | str | None:
    """Return a value as an exact built-in; None if missing or no number, text or truth value.

    Only methods of the built-in classes are called: a subclass may err, or print what it holds.
    """
    kind = type(value)
    if kind is bool:
        return cast("bool", value)
    if issubclass(kind, int):
        return int.__add__(cast("int", value), 0)
    if issubclass(kind, np.generic):
        return _scalar(cast("np.generic", value))
    if issubclass(kind, str):
        return str.__str__(cast("str", value))
    if issubclass(kind, float):
        number = Decimal(float.__repr__(cast("float", value)))
    elif issubclass(kind, Decimal):
        number = Decimal(cast("Decimal", value))
    else:
        return None
    return None if number.is_nan() else number


_SCALARS = frozenset(np.sctypeDict.values())


def _scalar(value: np.generic) -> Number | bool | str | None:
    if type(value) not in _SCALARS:
        return None
    if issubclass(type(value), np.floating):
        number = printed_decimal(cast("np.floating", value))
        return None if number.is_nan() else number
    if isinstance(value, np.bool_ | np.str_) or (
        isinstance(value, np.integer) and not isinstance(value, np.timedelta64)
    ):
        return cast("int | bool | str", value.item())
    return None
