"""JSON as text: read strictly and within limits that are the same under every interpreter."""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from collections.abc import Iterator
from typing import TypeAlias, cast

from dpsdk._checks import shown
from dpsdk.errors import WireError

__all__ = ["DEEPEST", "JSON", "MOST_ITEMS", "Plain", "canonical", "check", "parsed", "step"]

Plain: TypeAlias = "str | int | float | bool | list[Plain] | dict[str, Plain] | None"
"""What JSON holds, in the classes in which Python's reader gives it."""

JSON: TypeAlias = "dict[str, Plain]"
"""An object of JSON."""

MOST_CHARACTERS = 1 << 24
"""The longest text that is read."""

MOST_ITEMS = 1 << 21
"""So many values a text may hold, those inside of others counted too."""

DEEPEST = 100
"""Lists and objects lie no deeper in one another."""

MOST_DIGITS = 400
"""The longest number, in characters. The largest integer that is public has 308 digits."""

LARGEST_BITS = 1023
"""Integers are below 2^1023, so that a float can hold their size."""

LONGEST_TEXT = 1 << 16
"""The longest text inside, in characters."""

_TEXTS = re.compile(r'"(?:[^"\\]+|\\(?:.|\Z))*(?:"|\Z)', re.DOTALL)
_NO_BRACKETS = re.compile(r"[^][{}]+")

_Link: TypeAlias = "tuple[_Link, str | int] | None"


def parsed(text: str | bytes) -> Plain:
    """The value of a text in JSON.

    Raises
    ------
    WireError
        If it is not JSON, names a member twice, or is beyond a limit.
    """
    if not isinstance(text, str | bytes):
        raise WireError("$", "a text in JSON, or its bytes", type(text).__name__)
    if len(text) > MOST_CHARACTERS:
        raise WireError("$", f"at most {MOST_CHARACTERS:,} characters", f"{len(text):,}")
    decoded = _decoded(text)
    _check_shape(decoded)
    try:
        found: Plain = json.loads(
            decoded,
            object_pairs_hook=_once,
            parse_int=_integer,
            parse_float=_number,
            parse_constant=_no_number,
        )
    except json.JSONDecodeError as error:
        at = f"line {error.lineno}, column {error.colno}"
        raise WireError("$", "JSON", f"something else in {at}") from None
    check(found)
    return found


def _decoded(text: str | bytes) -> str:
    if isinstance(text, str):
        return str.__str__(text)
    try:
        return bytes(text).decode("utf-8")
    except UnicodeDecodeError:
        raise WireError("$", "text in UTF-8", "other bytes") from None


def _check_shape(text: str) -> None:
    """Refuse what is too deep or too long before it is parsed: interpreters differ in the limits.

    A text that is no JSON may be counted wrongly, and is refused by the parser.
    """
    rest = _TEXTS.sub("", text)
    items = rest.count(",") + rest.count("[") + rest.count("{") + 1
    if items > MOST_ITEMS:
        raise WireError("$", f"at most {MOST_ITEMS:,} values", "more of them")
    depth = 0
    for bracket in _NO_BRACKETS.sub("", rest):
        depth += 1 if bracket in "[{" else -1
        if depth > DEEPEST:
            raise WireError("$", f"at most {DEEPEST} lists or objects deep", "one that is deeper")


def _once(pairs: list[tuple[str, Plain]]) -> JSON:
    """An object whose names are all different: readers differ in which of two they take."""
    found = dict(pairs)
    if len(found) < len(pairs):
        twice, _ = Counter([name for name, _ in pairs]).most_common(1)[0]
        raise WireError("$", "objects that name each member once", f"{shown(twice)} twice")
    return found


def _integer(digits: str) -> int:
    _check_digits(digits)
    return int(digits)


def _number(digits: str) -> float:
    _check_digits(digits)
    return float(digits)


def _check_digits(digits: str) -> None:
    if len(digits) > MOST_DIGITS:
        got = f"one of {len(digits):,}"
        raise WireError("$", f"numbers of at most {MOST_DIGITS} characters", got)


def _no_number(name: str) -> float:
    raise WireError("$", "JSON, whose numbers are finite", name)


def check(data: object) -> None:
    """Refuse data that are not plain JSON within the limits.

    Raises
    ------
    WireError
        If a value is of another class than Python's reader of JSON gives, if a text is too long or
        has half a surrogate pair, if a number is not finite or too large, or if there is too much.
    """
    count = 0
    waiting: list[tuple[object, _Link, int]] = [(data, None, 0)]
    while waiting:
        value, link, depth = waiting.pop()
        inside: Iterator[tuple[str | int, object]]
        kind = type(value)
        if kind is list:
            inside = iter(enumerate(cast("list[object]", value)))
        elif kind is dict:
            inside = iter(_members(cast("dict[object, object]", value), link))
        else:
            _check_leaf(value, link)
            continue
        if depth == DEEPEST:
            expected = f"at most {DEEPEST} lists or objects deep"
            raise WireError(_path(link), expected, "one that is deeper")
        if kind is list and _are_numbers(cast("list[object]", value)):
            count += len(cast("list[object]", value))
            if count > MOST_ITEMS:
                raise _too_many()
            continue
        for key, one in inside:
            count += 1
            if count > MOST_ITEMS:
                raise _too_many()
            if isinstance(one, dict | list):
                waiting.append((cast("object", one), (link, key), depth + 1))
            elif type(one) is not bool and one is not None:
                _check_leaf(one, (link, key))


def _too_many() -> WireError:
    return WireError("$", f"at most {MOST_ITEMS:,} values", "more of them")


def _are_numbers(values: list[object]) -> bool:
    """Whether they are sound numbers alone, told at once; False also of some that are."""
    if not _NUMBERS.issuperset(map(type, values)):
        return False
    try:
        # No number is above the sum of all sizes, and what is not finite makes that sum not finite.
        return sum(map(abs, cast("list[float]", values))) < 1 << LARGEST_BITS
    except OverflowError:
        return False


_NUMBERS = frozenset({int, float, bool})


def _members(value: dict[object, object], link: _Link) -> Iterator[tuple[str, object]]:
    for name, one in value.items():
        if type(name) is not str:
            raise WireError(_path(link), "an object whose names are texts", type(name).__name__)
        _check_text(name, link)
        yield name, one


def _check_leaf(value: object, link: _Link) -> None:
    kind = type(value)
    if kind is str:
        _check_text(cast("str", value), link)
    elif kind is int:
        if cast("int", value).bit_length() > LARGEST_BITS:
            raise WireError(_path(link), f"an integer below 2^{LARGEST_BITS}", "a larger one")
    elif kind is float:
        if not math.isfinite(cast("float", value)):
            raise WireError(_path(link), "a finite number", "another")
    elif value is not None and kind is not bool:
        raise WireError(_path(link), "plain JSON", f"a value of class {kind.__name__}"[:80])


def _check_text(text: str, link: _Link) -> None:
    if len(text) > LONGEST_TEXT:
        expected = f"a text of at most {LONGEST_TEXT:,} characters"
        raise WireError(_path(link), expected, f"one of {len(text):,}")
    if not text.isascii():
        try:
            text.encode("utf-8")
        except UnicodeEncodeError:
            expected = "a text without halves of surrogate pairs"
            raise WireError(_path(link), expected, shown(text)) from None


def _path(link: _Link) -> str:
    keys: list[str | int] = []
    while link is not None:
        link, key = link
        keys.append(key)
    return "".join(["$", *(step(key) for key in reversed(keys))])


_PLAIN_NAME = re.compile(r"[A-Za-z_][A-Za-z_0-9]{0,39}")


def step(key: str | int) -> str:
    """One step of a path, to an item of a list or to a member of an object."""
    if isinstance(key, int):
        return f"[{key}]"
    return f".{key}" if _PLAIN_NAME.fullmatch(key) else f"[{shown(key)}]"


def canonical(data: Plain) -> bytes:
    """The one text of JSON data: names in order, no spaces, and ASCII alone."""
    text = json.dumps(
        data, sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False
    )
    return text.encode("ascii")
