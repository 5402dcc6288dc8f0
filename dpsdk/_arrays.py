"""Arrays in frozen values: they stay as they are, and so do those of every copy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, SupportsIndex, TypeVar, cast, final

import numpy as np
import numpy.typing as npt

from dpsdk.typing import Array, Floats, Ints

__all__ = ["ByNumbers", "Lasting", "kept", "kept_places", "same_numbers"]

N = TypeVar("N", bound=np.generic)


def kept(array: Floats) -> Floats:
    """A copy that stays as it is."""
    return _sealed(array)


def kept_places(array: Ints) -> Ints:
    """As `kept`, of integers."""
    return _sealed(array)


def same_numbers(one: Floats, other: Floats) -> bool:
    """Whether two arrays hold the same, where what is no number is as another that is none."""
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
    """A frozen class of attrs whose arrays stay as they are in copies too.

    Whether by `copy.copy`, `copy.deepcopy` or `pickle`, of every protocol: numpy itself forgets in
    a copy that nobody could write into an array. A subclass sees to it when it is initialised, as
    by `kept`.
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
    """A value with what it held when it was copied, but that nobody can write into its arrays."""
    value = make(*given)
    value.__setstate__(_still(state))
    return value


def _still(state: object) -> object:
    """What a value holds, with arrays that nobody can write into."""
    if type(state) is dict:
        return {name: _still(one) for name, one in cast("dict[str, object]", state).items()}
    if type(state) is tuple:
        return tuple([_still(one) for one in cast("tuple[object, ...]", state)])
    if type(state) is np.ndarray:
        array: Array = state
        return array if array.dtype.hasobject or _stays(array) else _sealed(array)
    return state


def _stays(array: Array) -> bool:
    """Whether nobody can write into an array, nor make it such that one could."""
    part: object = array
    while type(part) is np.ndarray:
        whole: Array = part
        if whole.flags.writeable:
            return False
        part = whole.base
    return type(part) is bytes


def _sealed(array: npt.NDArray[N]) -> npt.NDArray[N]:
    # An array of its own memory could be made writeable again, and one over bytes cannot.
    return np.frombuffer(array.tobytes(), dtype=array.dtype).reshape(array.shape)
