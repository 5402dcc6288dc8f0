"""Readers of arguments: each makes one exact built-in of what callers write, or names the culprit.

What a reader returns is a plain `int`, `float`, `str` or `Fraction`. Values of classes below these
are read once, as the built-in class that they extend.
"""

from __future__ import annotations

import math
import re
import sys
from collections.abc import Iterable
from contextlib import suppress
from decimal import Decimal
from fractions import Fraction
from typing import cast

import numpy as np

from dpsdk.errors import InvalidArgument, TooLarge
from dpsdk.typing import Floats, Real

__all__ = [
    "cut",
    "described",
    "require",
    "shown",
    "to_amount",
    "to_array",
    "to_beta",
    "to_count",
    "to_delta",
    "to_finite",
    "to_fraction",
    "to_integer",
    "to_name",
    "to_positive",
    "to_probability",
    "to_shaped",
    "to_within",
    "whole_repr",
    "read_decimal",
    "read_fraction",
    "read_whole",
]

_DECIMAL = re.compile(r"[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]{1,4})?")

_RATIO = re.compile(r"[+-]?[0-9]{1,1234}/(?=0*[1-9])[0-9]{1,1234}")

_LONGEST_TEXT = 4_096
_LARGEST_EXPONENT = 2_000
_LEAST_PLACE = 4_096
"""Decimals of a larger exponent, or of more places, would take long to turn into fractions."""

_LARGEST_BITS = 1 << 16
"""Larger integers, above or below the line, would take long to reduce."""

_INTEGER_BITS = 1_023
"""Integers stay below 2^1023, so that a float can hold their size, and a message their digits."""

_AMOUNT = 10**100
_AMOUNT_BITS = 512
_AMOUNTS = "a positive finite number, from 1e-100 to 1e100 and of at most 150 digits"
_LEAST_DELTA = Fraction(1, 10**300)

_MOST_NUMBERS = 1 << 28
"""The most numbers of one array that is handed in: 2 GiB."""

_NUMPY_INTEGERS: set[type] = {np.dtype(code).type for code in "bhilqBHILQ"}

_LONGEST_NAME = 1_000
_LONGEST_SHOWN = 80
_MOST_SHOWN = 6
_AGAIN = ", of another import of dpsdk: restart the program or the notebook"
_DEEPEST_SHOWN = 3


def shown(value: object) -> str:
    """A short description of a public argument, for an error: one line, safe and quick."""
    text = ""
    # Whatever a stranger's class does when asked how it looks, the error that names it is raised.
    with suppress(Exception):
        text = _look(value, _DEEPEST_SHOWN)
    if not text:
        text = "a value that cannot be shown"
        with suppress(Exception):
            text = f"a value of class {str.__str__(type(value).__name__)}"
    return f"{cut(text, _LONGEST_SHOWN)}{_AGAIN if _is_outdated(type(value)) else ''}"


def _is_outdated(kind: type) -> bool:
    """True if a class of the package is of an import before the present one, as after a reload."""
    if kind.__module__.partition(".")[0] != "dpsdk" or "<" in kind.__qualname__:
        return False
    present: object = sys.modules.get(kind.__module__)
    for name in kind.__qualname__.split("."):
        present = getattr(present, name, None)
    return isinstance(present, type) and present is not kind


def whole_repr(value: object) -> str:
    """The `repr` of a public value, shortened where Python refuses to write a number's digits."""
    try:
        return repr(value)
    except ValueError:
        return shown(value)


def require(holds: object, parameter: str, expected: str, value: object) -> None:
    """Refuse the value of a parameter of which something does not hold."""
    if not holds:
        raise InvalidArgument(parameter, expected, shown(value))


def described(value: object) -> str:
    """The name of a public object by itself, as a plain text of at most 1,000 characters.

    Every answer is on record with its query, so that no description may be long.
    """
    return cut(str.__str__(str(value)), _LONGEST_NAME)


def cut(text: str, longest: int) -> str:
    """A text of at most so many characters; one that was longer ends with dots."""
    return text if len(text) <= longest else f"{text[: longest - 3]}..."


def _look(value: object, depth: int) -> str:
    if value is None or isinstance(value, bool):
        return repr(value)
    kind = type(value)
    if issubclass(kind, int):
        return _digits(int.__add__(cast("int", value), 0))
    if issubclass(kind, float):
        # float.__repr__, since the repr of a numpy scalar names its type.
        return float.__repr__(cast("float", value))
    if issubclass(kind, str):
        return repr(str.__getitem__(cast("str", value), slice(_LONGEST_SHOWN)))
    if issubclass(kind, bytes):
        return repr(bytes.__getitem__(cast("bytes", value), slice(_LONGEST_SHOWN)))
    if kind is Fraction:
        fraction = cast("Fraction", value)
        return f"Fraction({_digits(fraction.numerator)}, {_digits(fraction.denominator)})"
    if kind in _BRACKETS:
        return _listed(value, depth)
    # One line, and no half of a surrogate pair, whatever the class writes.
    text = str.__str__(repr(value)).encode("utf-8", "backslashreplace").decode("utf-8")
    return re.sub(r"\s*\n\s*", " ", text)


def _digits(number: int) -> str:
    if number.bit_length() <= _INTEGER_BITS:
        return str(number)
    return f"<an integer of {number.bit_length():,} bits>"


_BRACKETS: dict[type, tuple[str, str]] = {
    list: ("[", "]"),
    tuple: ("(", ")"),
    set: ("{", "}"),
    frozenset: ("frozenset({", "})"),
    dict: ("{", "}"),
}


def _listed(value: object, depth: int) -> str:
    left, right = _BRACKETS[type(value)]
    items: list[str] = []
    if isinstance(value, set | frozenset) and not value:
        return repr(cast("object", value))
    for number, item in enumerate(cast("Iterable[object]", value)):
        if number == _MOST_SHOWN or not depth:
            items.append("...")
            break
        text = _look(item, depth - 1)
        if isinstance(value, dict):
            text = f"{text}: {_look(cast('dict[object, object]', value)[item], depth - 1)}"
        items.append(text)
    comma = "," if isinstance(value, tuple) and len(items) == 1 else ""
    return f"{left}{', '.join(items)}{comma}{right}"


def read_decimal(text: str) -> Decimal | None:
    """The number that a text spells in plain decimals; None where it spells none.

    A sign, digits from 0 to 9 with at most one point among them, and an exponent: nothing else is
    read, neither spaces, nor separators of thousands, nor digits of other scripts, nor "inf".
    Exponents go up to 2,000, and texts to 4,096 characters.
    """
    if len(text) > _LONGEST_TEXT or _DECIMAL.fullmatch(text) is None:
        return None
    return _bounded(Decimal(text))


def read_fraction(text: str) -> Fraction | None:
    """The number that a text spells in plain decimals, or as a fraction such as 1/3, or None."""
    above, slash, below = text.partition("/")
    if slash:
        digits = len(text) <= _LONGEST_TEXT and _RATIO.fullmatch(text)
        return Fraction(int(above), int(below)) if digits else None
    number = read_decimal(text)
    return None if number is None else Fraction(number)


def read_whole(text: str) -> int | None:
    """The whole number that a text spells in plain decimals, as 12, 12.0 and 1.2e1 do, or None."""
    number = read_decimal(text)
    if number is None:
        return None
    exact = Fraction(number)
    return exact.numerator if exact.denominator == 1 else None


def _bounded(number: Decimal) -> Decimal | None:
    if not number:
        return Decimal(0)
    exponent = number.as_tuple().exponent
    if not isinstance(exponent, int) or exponent < -_LEAST_PLACE:
        return None
    return number if abs(number.adjusted()) <= _LARGEST_EXPONENT else None


def _plain(value: object) -> int | None:
    """An integer of any size as a plain one."""
    return int.__add__(cast("int", value), 0) if issubclass(type(value), int) else None


def _whole(value: object) -> int | None:
    """An integer of Python or numpy, other than a truth value, as a plain one."""
    kind = type(value)
    if issubclass(kind, bool | np.timedelta64):
        return None
    if issubclass(kind, np.integer):
        # By the class of numpy itself: its own methods would ask a subclass what it is.
        bases = [base for base in kind.__mro__ if base in _NUMPY_INTEGERS]
        return _plain(cast("type[int]", bases[0]).__index__(cast("int", value)))
    return _plain(value)


def _exact(value: object) -> Fraction | None:
    """The exact value of a number; None where it is none, or takes too long to read."""
    kind = type(value)
    if issubclass(kind, Fraction):
        number = cast("Fraction", value)
        if kind is not Fraction:
            above = below = None
            # A class of another author may raise what it likes while it is read.
            with suppress(Exception):
                above, below = _plain(number.numerator), _plain(number.denominator)
            if above is None or not below:
                return None
            number = Fraction(above, below)
        bits = max(number.numerator.bit_length(), number.denominator.bit_length())
        return number if bits <= _LARGEST_BITS else None
    whole = _whole(value)
    if whole is not None:
        return Fraction(whole) if whole.bit_length() <= _LARGEST_BITS else None
    decimal: Decimal | None = None
    if issubclass(kind, str):
        return read_fraction(str.__str__(cast("str", value)))
    if issubclass(kind, float):
        decimal = read_decimal(float.__repr__(cast("float", value)))
    elif issubclass(kind, np.floating):
        # The shortest decimal that its own width tells from its neighbours.
        decimal = read_decimal(np.format_float_scientific(cast("np.float64", value)))
    elif issubclass(kind, Decimal):
        decimal = Decimal(cast("Decimal", value))
        decimal = _bounded(decimal) if decimal.is_finite() else None
    return None if decimal is None else Fraction(decimal)


def to_fraction(parameter: str, value: Real, expected: str = "a finite number") -> Fraction:
    """The exact value of a number; a float or a text stands for the decimal that it prints as.

    Texts are read as `read_fraction` has it, so that "1/3" is exact. A numpy float is the decimal
    that it prints as in its own width: np.float32(0.1) is 0.1.
    """
    number = _exact(value)
    if number is None:
        raise InvalidArgument(parameter, expected, shown(value))
    return number


def to_positive(parameter: str, value: Real) -> Fraction:
    """A finite number above zero."""
    expected = "a positive finite number"
    number = to_fraction(parameter, value, expected)
    if number.numerator <= 0:
        raise InvalidArgument(parameter, expected, shown(value))
    return number


def to_amount(parameter: str, value: Real) -> Fraction:
    """An ε or ρ that a client asks for: in a range in which all that follows from it is quick."""
    number = to_fraction(parameter, value, _AMOUNTS)
    above, below = number.numerator, number.denominator
    bits = max(above.bit_length(), below.bit_length())
    # In integers, whose comparison takes a tenth of that of fractions.
    if bits > _AMOUNT_BITS or not (below <= _AMOUNT * above and above <= _AMOUNT * below):
        raise InvalidArgument(parameter, _AMOUNTS, shown(value))
    return number


def to_probability(parameter: str, value: Real, *, zero: bool = False) -> Fraction:
    """A number in (0, 1), or in [0, 1) where `zero` is allowed."""
    expected = "a number in [0, 1)" if zero else "a number strictly between 0 and 1"
    number = to_fraction(parameter, value, expected)
    if number >= 1 or number < 0 or (number == 0 and not zero):
        raise InvalidArgument(parameter, expected, shown(value))
    return number


def to_delta(value: Real, *, zero: bool = False) -> Fraction:
    """A δ that a client asks for: a probability that floats can hold."""
    number = to_probability("delta", value, zero=zero)
    if 0 < number < _LEAST_DELTA or number.denominator.bit_length() > 2 * _INTEGER_BITS:
        expected = f"{'0, or ' if zero else ''}at least 1e-300, and of at most 600 digits"
        raise InvalidArgument("delta", expected, shown(value))
    return number


def to_integer(
    parameter: str, value: int, expected: str = "an integer", *, bits: int | None = _INTEGER_BITS
) -> int:
    """An integer, of at most so many bits; floats and texts are refused even where they are whole.

    The bound is 2^1023 where `bits` is left out, and there is none where it is None.
    """
    number = _whole(value)
    if number is None:
        raise InvalidArgument(parameter, expected, shown(value))
    if bits is not None and number.bit_length() > bits:
        raise InvalidArgument(parameter, f"{expected}, and below 2^{bits}", shown(number))
    return number


def to_within(parameter: str, value: int, low: int, high: int, expected: str) -> int:
    """An integer from one to another."""
    number = to_integer(parameter, value, expected)
    if not low <= number <= high:
        raise InvalidArgument(parameter, expected, shown(number))
    return number


def to_count(parameter: str, value: int, *, bits: int | None = 63, most: int | None = None) -> int:
    """An integer of at least 1, below 2^63 where `bits` is left out, and not above `most`."""
    expected = "an integer of at least 1"
    number = to_integer(parameter, value, expected, bits=bits)
    if number < 1:
        raise InvalidArgument(parameter, expected, shown(number))
    if most is not None and number > most:
        raise InvalidArgument(parameter, f"an integer from 1 to {most:,}", shown(value))
    return number


def to_finite(parameter: str, value: float) -> int | float:
    """A number to compare with: an integer as it is, anything else as a float."""
    expected = "a finite number"
    whole = _whole(value)
    if whole is not None and whole.bit_length() <= _INTEGER_BITS:
        # A float could not tell 2**60 from its neighbours.
        return whole
    number = None if whole is not None or issubclass(type(value), str) else _exact(value)
    if number is None or abs(number) > _LARGEST_FLOAT:
        raise InvalidArgument(parameter, expected, shown(value))
    return float(number)


_LARGEST_FLOAT = Fraction(1.7976931348623157e308)


def to_array(parameter: str, values: object, expected: str) -> Floats:
    """A new array of float64, of real numbers of any type; they may be infinite or NaN."""
    # NumPy would read texts and dates as numbers, and forget imaginary parts and masks.
    result: Floats | None = None
    try:
        given = np.asarray(values)
        _check_many(given.size)
        if given.dtype.kind in "biufO" and not np.ma.is_masked(values):
            with np.errstate(over="ignore"):  # of numbers that only wider floats hold
                result = np.array(given, dtype=np.float64, order="C")
    except (TooLarge, MemoryError):
        raise
    except Exception:  # noqa: BLE001  # a stranger's class may raise what it likes while it is read
        result = None
    if result is None:
        raise InvalidArgument(parameter, expected, shown(values))
    return result


def to_shaped(parameter: str, values: object, shape: tuple[int, ...], expected: str = "") -> Floats:
    """A new array of finite float64, of one shape."""
    expected = expected or f"{shape[0]} finite numbers"
    array = to_array(parameter, values, expected)
    if array.shape != shape:
        raise InvalidArgument(parameter, expected, f"shape {array.shape}")
    if not np.isfinite(array).all():
        raise InvalidArgument(parameter, expected, "NaN or infinity among them")
    return array


def _check_many(numbers: int) -> None:
    if numbers > _MOST_NUMBERS:
        raise TooLarge("an array", numbers, _MOST_NUMBERS, "numbers", "hand in less at a time")


def to_flag(parameter: str, value: bool) -> bool:  # noqa: FBT001  # a reader of an argument
    """A truth value, and nothing that merely counts as one, as the text "False" does."""
    if not isinstance(value, bool | np.bool_):
        raise InvalidArgument(parameter, "True or False", shown(value))
    return bool(value)


def to_name(parameter: str, value: str) -> str:
    """A text of up to 1,000 characters, not all of them spaces, that can be written as UTF-8."""
    if not issubclass(type(value), str):
        raise InvalidArgument(parameter, "a non-empty text", shown(value))
    text = str.__str__(value)
    if not text or text.isspace():
        raise InvalidArgument(parameter, "a non-empty text", shown(text))
    if len(text) > _LONGEST_NAME:
        raise InvalidArgument(parameter, "a text of at most 1,000 characters", shown(text))
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        expected = "a text that UTF-8 can hold, without halves of surrogate pairs"
        raise InvalidArgument(parameter, expected, shown(text)) from None
    return text


def to_beta(value: float) -> float:
    """A failure probability, strictly between 0 and 1."""
    number = None if issubclass(type(value), str) else _exact(value)
    beta = math.nan if number is None or not 0 < number < 1 else float(number)
    if not 0.0 < beta < 1.0:
        raise InvalidArgument("beta", "a number strictly between 0 and 1", shown(value))
    return beta
