"""Everything that is public of an object, as plain values that can be compared."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping
from enum import Enum
from fractions import Fraction
from hashlib import sha256
from types import BuiltinFunctionType, FunctionType, MethodType, ModuleType
from typing import cast

import attrs
import numpy as np

from dpsdk.accuracy import HalfWidths, ScalarAccuracy
from dpsdk.errors import DpsdkError
from dpsdk.release import Accuracy, Quote, Release
from dpsdk.typing import Array

__all__ = [
    "deep",
    "fields_of",
    "mutable",
    "packaged",
    "parts",
    "printed",
    "printed_accuracy",
    "printed_quote",
    "short",
]

_BETAS = (0.5, 0.05, 1e-6)

_PLAIN = (int, str, bytes, float, bool, complex, type(None), Fraction)


def printed(release: Release[object]) -> Hashable:
    """All that a release tells: its numbers, its bounds, where they come from, its words."""
    return (
        deep(release.value),
        deep(release.raw),
        release.source,
        str(release.cost),
        release.query,
        release.mechanism,
        printed_accuracy(release.accuracy),
        repr(release),
    )


def printed_quote(quote: Quote) -> Hashable:
    """All that a quote tells."""
    costs = tuple(
        (str(run), deep(run), count) for cost in (quote.at_open, quote.at_most)
        for run, count in cost.runs
    )  # fmt: skip
    return costs, printed_accuracy(quote.accuracy), repr(quote)


def printed_accuracy(accuracy: Accuracy) -> Hashable:
    """All bounds at some confidences."""
    said: list[Hashable] = [type(accuracy).__qualname__, accuracy.kind, accuracy.standing]
    for beta in _BETAS:
        try:
            if isinstance(accuracy, HalfWidths):
                said += [deep(accuracy.radii(beta, joint=joint)) for joint in (False, True)]
            elif isinstance(accuracy, ScalarAccuracy):
                said.append(accuracy.error(beta))
        except DpsdkError as error:
            said.append(f"{type(error).__name__}: {error}")
    return tuple(said)


def deep(value: object, depth: int = 12) -> Hashable:
    """A value by all that it holds, and nothing by what it says of itself.

    Functions and classes are what they are called; what is reached a second time, or too deep down,
    by the name of its class.
    """
    return _deep(value, depth, set())


def _deep(value: object, depth: int, above: set[int]) -> Hashable:
    kind = type(value)
    if kind in _PLAIN:
        # Truth values and numbers that equal each other are not the same; nor is -0.0 as 0.0.
        return kind.__name__, repr(value) if kind in (float, complex) else value
    if isinstance(value, np.ndarray):
        array = cast("np.ndarray[tuple[int, ...], np.dtype[np.generic]]", value)
        content = repr(array.tolist()) if array.dtype.hasobject else array.tobytes()
        return "array", str(array.dtype), array.shape, content
    if isinstance(value, np.generic):
        return kind.__name__, value.tobytes()
    if isinstance(value, Enum):
        return kind.__qualname__, value.name
    if isinstance(value, type | FunctionType | BuiltinFunctionType | MethodType | ModuleType):
        return getattr(value, "__qualname__", None) or getattr(value, "__name__", "?")
    if depth == 0 or id(value) in above:
        return kind.__qualname__
    above = above | {id(value)}
    if isinstance(value, tuple | list):
        items = cast("tuple[object, ...]", value)
        return kind.__name__, tuple(_deep(item, depth - 1, above) for item in items)
    if isinstance(value, set | frozenset):
        members = cast("frozenset[object]", value)
        return kind.__name__, frozenset(_deep(item, depth - 1, above) for item in members)
    if isinstance(value, Mapping):
        pairs = cast("Mapping[object, object]", value)
        return kind.__name__, tuple(
            (_deep(key, depth - 1, above), _deep(item, depth - 1, above))
            for key, item in pairs.items()
        )
    return kind.__qualname__, tuple(
        (name, _deep(part, depth - 1, above)) for name, part in parts(value)
    )


def fields_of(value: object) -> dict[str, object]:
    """The parameters of a value by name: its fields, or all that it holds where it has none."""
    kind: type = type(value)
    if not attrs.has(kind):
        return dict(parts(value))
    return {one.name: getattr(value, one.name, None) for one in attrs.fields(kind) if one.init}


def parts(value: object) -> list[tuple[str, object]]:
    """The parts of an object, by name: fields, slots and its dict."""
    kind: type = type(value)
    names: list[str] = []
    if attrs.has(kind):
        if packaged(value):  # which keeps beside its fields what it has worked out once
            return list(fields_of(value).items())
        names += [one.name for one in attrs.fields(kind)]
    for base in kind.__mro__:
        slots = cast("str | tuple[str, ...]", getattr(base, "__slots__", ()))
        names += [slots] if isinstance(slots, str) else slots
    names += cast("dict[str, object]", getattr(value, "__dict__", {}))
    return [
        (name, getattr(value, name))
        for name in dict.fromkeys(names)
        if not name.startswith("__") and hasattr(value, name)
    ]


def packaged(value: object) -> bool:
    """True if a class is of this package, which takes care of its own."""
    return type(value).__module__.partition(".")[0] == "dpsdk"


def mutable(value: object, path: str = "", depth: int = 3) -> Iterator[tuple[str, object]]:
    """The parts of a plugin that others can change, by name."""
    for name, part in parts(value):
        where = f"{path}{name}"
        if isinstance(part, tuple):
            inside = enumerate(cast("tuple[object, ...]", part))
            yield from ((f"{where}[{number}]", one) for number, one in inside if _changes(one))
        elif _changes(part):
            yield where, part
        elif depth and attrs.has(type(part)) and not packaged(part):
            yield from mutable(part, f"{where}.", depth - 1)


def _changes(value: object) -> bool:
    if isinstance(value, np.ndarray):
        return bool(cast("Array", value).flags.writeable)
    return isinstance(value, list | dict | set | bytearray)


def short(value: Hashable) -> str:
    """A few characters that stand for a value."""
    return sha256(repr(value).encode()).hexdigest()[:12]
