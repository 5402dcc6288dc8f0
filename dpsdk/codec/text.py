"""JSON as text, read strictly, within limits that are the same under every interpreter."""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from collections.abc import Iterable
from typing import TypeAlias, cast

from dpsdk._checks import shown
from dpsdk.errors import WireError

__all__ = ["JSON", "LONGEST_TEXT", "Plain", "canonical", "check", "parsed", "step"]

Plain: TypeAlias = "str | int | float | bool | list[Plain] | dict[str, Plain] | None"
"""A value of JSON, of the classes that Python's reader makes."""

JSON: TypeAlias = "dict[str, Plain]"
"""An object of JSON."""

MOST_CHARACTERS = 1 << 24
MOST_ITEMS = 1 << 21
"""The most values of a text, those inside of others counted too."""

DEEPEST = 100
"""Lists and objects are nested no deeper."""

MOST_DIGITS = 400
"""The longest number, in characters. The largest public integer has 308 digits."""

LARGEST_BITS = 1023
"""Integers are below 2^1023, so that a float can hold their size."""

LONGEST_TEXT = 1 << 16
"""The longest text inside, in characters."""

_TEXTS = re.compile(r'"(?:[^"\\]+|\\(?:.|\Z))*(?:"|\Z)', re.DOTALL)
_NO_BRACKETS = re.compile(r"[^][{}]+")
_NUMBERS = frozenset({int, float, bool})
_PLAIN_NAME = re.compile(r"[A-Za-z_][A-Za-z_0-9]{0,39}")


def step(key: str | int) -> str:
    """One step of a path, to an item of a list or to a member of an object."""
    if isinstance(key, int):
        return f"[{key}]"
    return f".{key}" if _PLAIN_NAME.fullmatch(key) else f"[{shown(key)}]"


def canonical(data: Plain) -> bytes:
    """The canonical text of JSON data: names in order, no spaces, ASCII alone."""
    text = json.dumps(data, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return text.encode("ascii")


def parsed(text: str | bytes, *, scale: int = 1) -> Plain:
    """The value of a text in JSON, up to `scale` times as long as one from a stranger.

    Raises
    ------
    WireError
        If it is not JSON, names a member twice, or is beyond a limit.
    """
    if not isinstance(text, str | bytes):
        raise WireError("$", "a text in JSON, or its bytes", type(text).__name__)
    if len(text) > scale * MOST_CHARACTERS:
        raise WireError("$", f"at most {scale * MOST_CHARACTERS:,} characters", f"{len(text):,}")
    if isinstance(text, bytes):
        try:
            text = text.decode("utf-8")
        except UnicodeDecodeError:
            raise WireError("$", "text in UTF-8", "other bytes") from None
    _check_shape(text, scale * MOST_ITEMS)
    try:
        found: Plain = _DECODER.decode(text)
    except json.JSONDecodeError as error:
        at = f"line {error.lineno}, column {error.colno}"
        raise WireError("$", "JSON", f"something else in {at}") from None
    check(found, scale=scale)
    return found


def _check_shape(text: str, most: int) -> None:
    """Refuse too deep or too long a text before parsing, since interpreters differ in limits."""
    rest = _TEXTS.sub("", text)
    if rest.count(",") + rest.count("[") + rest.count("{") >= most:
        raise _too_many(most)
    depth = 0
    for bracket in _NO_BRACKETS.sub("", rest):
        depth += 1 if bracket in "[{" else -1
        if depth > DEEPEST:
            raise _too_deep()


def _too_many(most: int) -> WireError:
    return WireError("$", f"at most {most:,} values", "more of them")


def _too_deep() -> WireError:
    return WireError("$", f"at most {DEEPEST} lists or objects deep", "one that is deeper")


def _unique(pairs: list[tuple[str, Plain]]) -> JSON:
    """An object whose names all differ, since readers differ in which of two they take."""
    found = dict(pairs)
    if len(found) < len(pairs):
        twice, _ = Counter([name for name, _ in pairs]).most_common(1)[0]
        raise WireError("$", "objects that name each member once", f"{shown(twice)} twice")
    return found


def _digits(text: str) -> str:
    if len(text) > MOST_DIGITS:
        expected = f"numbers of at most {MOST_DIGITS} characters"
        raise WireError("$", expected, f"one of {len(text):,}")
    return text


def _no_number(name: str) -> float:
    raise WireError("$", "JSON, whose numbers are finite", name)


_DECODER = json.JSONDecoder(
    object_pairs_hook=_unique,
    parse_int=lambda text: int(_digits(text)),
    parse_float=lambda text: float(_digits(text)),
    parse_constant=_no_number,
)


class _Unsound(Exception):
    """A fault of data, and the keys that lead to it, the innermost first."""

    def __init__(self, expected: str, got: str) -> None:
        super().__init__(expected, got)
        self.expected = expected
        self.got = got
        self.keys: list[str | int] = []


def check(data: object, *, scale: int = 1) -> None:
    """Refuse data that are not plain JSON within the limits.

    Raises
    ------
    WireError
        If a value is of another class than Python's reader of JSON gives, if a text is too long or
        has half a surrogate pair, if a number is not finite or too large, or if there is too much.
    """
    try:
        _count(data, 0, 0, scale * MOST_ITEMS)
    except _Unsound as error:
        path = "".join(["$", *map(step, reversed(error.keys))])
        raise WireError(path, error.expected, error.got) from None


def _count(value: object, depth: int, count: int, most: int) -> int:
    """Check a value, and add the number of values inside it to `count`."""
    kind = type(value)
    if kind is not dict and kind is not list:
        _check_leaf(value)
        return count
    if depth == DEEPEST:
        raise _Unsound(f"at most {DEEPEST} lists or objects deep", "one that is deeper")
    items: Iterable[tuple[object, object]]
    if kind is dict:
        members = cast("dict[object, object]", value)
        for name in members:
            if type(name) is not str:
                raise _Unsound("an object whose names are texts", type(name).__name__)
            _check_leaf(name)
        count, items = count + len(members), members.items()
    else:
        listed = cast("list[object]", value)
        count += len(listed)
        items = () if _are_sound_numbers(listed) else enumerate(listed)
    if count > most:
        raise _too_many(most)
    for key, item in items:
        if item is None or item is True or item is False:
            continue
        try:
            if type(item) is dict or type(item) is list:
                count = _count(cast("object", item), depth + 1, count, most)
            else:
                _check_leaf(item)
        except _Unsound as error:
            error.keys.append(cast("str | int", key))
            raise
    return count


def _are_sound_numbers(values: list[object]) -> bool:
    """True if all are numbers within the limits, told at once; False also of some that are."""
    if not _NUMBERS.issuperset(map(type, values)):
        return False
    try:
        # No number exceeds the sum of all sizes, and one that is not finite makes that not finite.
        return sum(map(abs, cast("list[float]", values))) < 1 << LARGEST_BITS
    except OverflowError:
        return False


def _check_leaf(value: object) -> None:
    kind = type(value)
    if kind is str:
        text = cast("str", value)
        if len(text) > LONGEST_TEXT:
            expected = f"a text of at most {LONGEST_TEXT:,} characters"
            raise _Unsound(expected, f"one of {len(text):,}")
        if not text.isascii():
            try:
                text.encode("utf-8")
            except UnicodeEncodeError:
                raise _Unsound("a text without halves of surrogate pairs", shown(text)) from None
    elif kind is int:
        if cast("int", value).bit_length() > LARGEST_BITS:
            raise _Unsound(f"an integer below 2^{LARGEST_BITS}", "a larger one")
    elif kind is float:
        if not math.isfinite(cast("float", value)):
            raise _Unsound("a finite number", "another")
    elif value is not None and kind is not bool:
        raise _Unsound("plain JSON", f"a value of class {kind.__name__}"[:80])
