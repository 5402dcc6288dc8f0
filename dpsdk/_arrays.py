"""Arrays in frozen values: copied when they are made, and read-only from then on."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, SupportsIndex, cast, final

import numpy as np

from dpsdk.typing import Array, Floats, Ints

__all__ = ["ByNumbers", "Lasting", "frozen_copy", "frozen_integers", "same_numbers"]


def frozen_copy(array: Floats) -> Floats:
    """A read-only copy."""
    copy = np.array(array, order="C")
    copy.flags.writeable = False
    return copy


def frozen_integers(array: Ints) -> Ints:
    """As `frozen_copy`, of integers."""
    copy = np.array(array, order="C")
    copy.flags.writeable = False
    return copy


def same_numbers(one: Floats, other: Floats) -> bool:
    """True if two arrays hold the same, where what is no number is as another that is none."""
    return np.array_equal(one, other, equal_nan=True)


@final
class ByNumbers:
    """An array as a key to compare and to hash by: two are equal if they hold the same numbers."""

    __slots__ = ("_array",)

    def __init__(self, array: Array) -> None:
        self._array = array

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ByNumbers) and np.array_equal(self._array, other._array)

    def __hash__(self) -> int:
        # Of all numbers, as queries may differ in a single one; 0.0 and -0.0 are one of them.
        return hash((self._array.shape, (self._array + 0).tobytes()))


class Lasting:
    """A frozen class of attrs whose arrays stay read-only in copies and pickles too.

    numpy forgets that in a copy. A subclass makes them so at construction, by `frozen_copy`.
    """

    __slots__ = ()

    def __reduce_ex__(self, protocol: SupportsIndex, /) -> str | tuple[object, ...]:
        made: object = super().__reduce_ex__(protocol)
        # A class of another author may have a way of its own.
        if type(made) is not tuple or not hasattr(self, "__setstate__"):
            return cast("str", made)
        parts = cast("tuple[object, ...]", made)
        return parts if len(parts) < 3 or any(parts[3:]) else (_restored, parts[:3])


class _Restorable(Protocol):
    def __setstate__(self, state: object, /) -> None: ...


def _restored(
    make: Callable[..., _Restorable], given: tuple[object, ...], state: object
) -> _Restorable:
    """A value with what it held when it was copied, its arrays read-only."""
    value = make(*given)
    _seal(state)
    value.__setstate__(state)
    return value


def _seal(state: object) -> None:
    if isinstance(state, dict):
        state = tuple(cast("dict[str, object]", state).values())
    if isinstance(state, tuple):
        for part in cast("tuple[object, ...]", state):
            _seal(part)
    elif isinstance(state, np.ndarray):
        state.flags.writeable = False
