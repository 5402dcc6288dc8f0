"""What can be reached from an object by ordinary means, and written into."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping
from functools import partial
from types import BuiltinFunctionType, FunctionType, MethodType, ModuleType
from typing import TypeAlias, cast

import numpy as np

from dpsdk.domain import Attribute, Domain
from dpsdk.forms import Facts
from dpsdk.testing.conformance.prints import parts
from dpsdk.typing import Array

__all__ = ["reachable", "writes"]

_MOST = 20_000

_ATOMS = (int, str, bytes, float, bool, complex, type(None), ModuleType, BuiltinFunctionType)

_GIVEN = (*_ATOMS, Domain, Attribute, Facts)
"""What nothing is looked for in: values without parts, and the universe, which the kit gave."""

Write: TypeAlias = Callable[[], Callable[[], None]]
"""Writes into something, and gives what undoes that."""


def reachable(value: object, *, code: bool = True) -> Iterator[tuple[str, object]]:
    """An object and all that it holds, each once, by the path that leads there.

    Parameters
    ----------
    value
        Where to begin.
    code
        Whether to go on into what functions close over and look up, and what classes of other
        authors hold.
    """
    seen: set[int] = set()
    alive: list[object] = []
    waiting: list[tuple[str, object]] = [("it", value)]
    while waiting and len(seen) < _MOST:
        path, one = waiting.pop(0)
        if isinstance(one, _GIVEN) or id(one) in seen:
            continue
        seen.add(id(one))
        alive.append(one)
        yield path, one
        waiting += _inside(path, one, code=code)


def _inside(path: str, one: object, *, code: bool) -> list[tuple[str, object]]:
    if isinstance(one, tuple | list | set | frozenset):
        members = list(cast("tuple[object, ...]", one))
        return [(f"{path}[{place}]", member) for place, member in enumerate(members)]
    if isinstance(one, Mapping):
        pairs = list(cast("Mapping[object, object]", one).items())
        return [(f"{path}[{key!r}]", member) for key, member in pairs]
    if isinstance(one, np.ndarray):
        array = cast("Array", one)
        return [] if array.base is None else [(f"{path}.base", array.base)]
    if isinstance(one, partial):
        made = cast("partial[object]", one)
        return [(f"{path}.func", made.func), (f"{path}.args", (*made.args, made.keywords))]
    if isinstance(one, MethodType):
        return [(f"{path}.__self__", one.__self__), (f"{path}.__func__", one.__func__)]
    if isinstance(one, FunctionType):
        return _of_function(path, one) if code else []
    if isinstance(one, type):
        return _of_class(path, one) if code else []
    kind: type[object] = type(one)
    found = [(f"{path}.{name}", part) for name, part in parts(one)]
    return [*found, (f"type({path})", kind)] if code else found


def _of_function(path: str, one: FunctionType) -> list[tuple[str, object]]:
    found: list[tuple[str, object]] = []
    for name, cell in zip(one.__code__.co_freevars, one.__closure__ or (), strict=False):
        try:
            found.append((f"{path}, which closes over {name}", cell.cell_contents))
        except ValueError:  # not filled yet
            continue
    found += [(f"{path}'s defaults", one.__defaults__), (f"{path}'s defaults", one.__kwdefaults__)]
    for name in one.__code__.co_names:
        if name in one.__globals__ and not isinstance(one.__globals__[name], type):
            found.append((f"{path}, which looks up {name}", one.__globals__[name]))
    return found


def _of_class(path: str, kind: type) -> list[tuple[str, object]]:
    """What a class of another author holds, which all of its objects share."""
    if kind.__module__.partition(".")[0] in _KNOWN:
        return []
    own = [(f"{path}.{name}", part) for name, part in vars(kind).items() if name not in _MADE]
    return [*own, *((f"{path}'s base", base) for base in kind.__bases__)]


_KNOWN = frozenset({"dpsdk", "builtins", "abc", "typing", "enum", "fractions", "numpy", "attr"})

_MADE = frozenset(
    {"__attrs_attrs__", "__attrs_props__", "__dict__", "__weakref__", "__match_args__"}
)


def writes(value: object) -> Iterator[tuple[str, Write]]:
    """Ways to write into what an object holds, by ordinary means: each can be undone."""
    for path, one in reachable(value, code=False):
        if isinstance(one, np.ndarray):
            array = cast("Array", one)
            if array.flags.writeable and array.size:
                yield path, partial(_into_array, array)
        elif isinstance(one, list):
            yield path, partial(_into_list, cast("list[object]", one))
        elif isinstance(one, dict):
            yield path, partial(_into_dict, cast("dict[Hashable, object]", one))
        elif isinstance(one, set):
            yield path, partial(_into_set, cast("set[Hashable]", one))
        elif isinstance(one, bytearray):
            yield path, partial(_into_bytes, one)


def _into_array(array: Array) -> Callable[[], None]:
    before = array.copy()

    def back() -> None:
        array[...] = before

    if array.dtype.kind in "biufc":
        array[...] = ~before if array.dtype.kind == "b" else before * 3 + 1
    return back


def _into_list(values: list[object]) -> Callable[[], None]:
    before = list(values)

    def back() -> None:
        values[:] = before

    values[:] = before[1:] if before else [0]
    return back


def _into_dict(values: dict[Hashable, object]) -> Callable[[], None]:
    before = dict(values)

    def back() -> None:
        values.clear()
        values.update(before)

    values.clear()
    return back


def _into_set(values: set[Hashable]) -> Callable[[], None]:
    before = set(values)

    def back() -> None:
        values.clear()
        values.update(before)

    values.clear()
    return back


def _into_bytes(values: bytearray) -> Callable[[], None]:
    before = bytes(values)

    def back() -> None:
        values[:] = before

    values[:] = bytes(len(before))
    return back
