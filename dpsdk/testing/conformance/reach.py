"""What can be reached from an object, and written into, by ordinary Python."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterable, Iterator
from types import FrameType, FunctionType, ModuleType
from typing import cast

import numpy as np

from dpsdk.kernel import Kernel
from dpsdk.typing import Array

__all__ = ["arrays", "kernels", "reached", "scribble", "slots", "unsealed"]


def slots(value: object) -> list[str]:
    """All names that instances of the value's class have room for."""
    named: list[str] = []
    for cls in type(value).__mro__:
        own = cast("str | Iterable[str]", getattr(cls, "__slots__", ()))
        named += [own] if isinstance(own, str) else list(own)
    named += list(cast("dict[str, object]", getattr(value, "__dict__", {})))
    return [name for name in named if name != "__weakref__"]


def reached(*values: object) -> Iterator[object]:
    """All objects that can be reached from some, short of modules, classes and frames."""
    seen: set[int] = set()
    ahead: list[object] = list(values)
    while ahead:
        thing = ahead.pop()
        if id(thing) in seen or isinstance(thing, type | ModuleType | FrameType):
            continue
        seen.add(id(thing))
        yield thing
        if isinstance(thing, FunctionType):
            ahead += [cell.cell_contents for cell in thing.__closure__ or () if _filled(cell)]
        else:
            ahead += gc.get_referents(thing)
            ahead += [getattr(thing, name, None) for name in slots(thing)]


def _filled(cell: object) -> bool:
    try:
        cell.cell_contents  # type: ignore[attr-defined]  # noqa: B018  # of a closure
    except ValueError:
        return False
    return True


def arrays(*values: object) -> list[Array]:
    """All arrays that can be reached from some objects."""
    return [one for one in reached(*values) if isinstance(one, np.ndarray)]


def unsealed(array: Array) -> bool:
    """Whether an array, or the one that it is a view of, can be written to."""
    base: object = array.base
    return array.flags.writeable or (isinstance(base, np.ndarray) and unsealed(base))


def scribble(*values: object) -> int:
    """Write over every array that can be reached and written; how many there were."""
    found = 0
    for array in arrays(*values):
        if array.flags.writeable and array.size and array.dtype.kind in "biuf":
            found += 1
            with np.errstate(all="ignore"):
                array[...] = 1 if array.dtype.kind == "b" else 77
    return found


def kernels(before: Callable[[object], bool]) -> list[Kernel]:
    """All kernels that are alive, but those of before."""
    gc.collect()
    return [one for one in gc.get_objects() if type(one) is Kernel and not before(one)]
