"""What a stranger tries on values that a library takes in or hands out, for tests that it fails.

`hostile` makes subclasses that answer for their equality and hash as they like, `writes` lists the
ways of ordinary Python to write into a value and the fractions and arrays in it, and `caches` finds
what a package remembers, so that a test can look at the keys and values of all of it.
"""

from __future__ import annotations

import enum
import functools
import gc
import importlib
import pkgutil
import weakref
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from fractions import Fraction
from types import FunctionType, ModuleType
from typing import Any

import attrs
import numpy as np

from dpsdk.testing.conformance.reach import arrays, slots, unsealed

__all__ = ["arrays", "unsealed"]

EXACT = (int, str, bytes, float, bool, complex, type(None))
"""Types that nobody can write into, and whose equality no caller decides."""


def hostile(cls: type, prey: object) -> type:
    """A subclass that equals everything and has the hash of `prey`."""
    number = hash(prey)

    class Hostile(cls):  # type: ignore[misc]  # any class will do
        def __eq__(self, other: object) -> bool:
            return True

        def __hash__(self) -> int:
            return number

    return Hostile


def writes(value: object, *others: object) -> Iterator[tuple[str, Callable[[], object]]]:
    """Ways to write into a value, by name: each may fail, and is to be tried one after the other.

    `others` are values of the same class, whose contents are written into it.
    """
    for number, other in enumerate(others):
        contents = fields(other)
        yield f"__init__ as {number}", lambda c=contents: value.__init__(*c.values())  # type: ignore[misc]  # the attack
        if hasattr(other, "__getstate__") and hasattr(value, "__setstate__"):
            yield f"__setstate__ as {number}", lambda o=other: value.__setstate__(o.__getstate__())
        for name, content in contents.items():
            yield (
                f"{name} as {number}",
                lambda n=name, c=content: object.__setattr__(value, n, c),
            )
    for name in slots(value):
        for content in (0, None, Fraction(0), -1):
            yield f"{name} = {content}", lambda n=name, c=content: object.__setattr__(value, n, c)
    for name, content in fields(value).items():
        yield from (
            (f"{name}.{way}", write) for way, write in inner_writes(content) if write is not None
        )


def inner_writes(value: object) -> Iterator[tuple[str, Callable[[], object]]]:
    """Ways to write into a fraction or an array."""
    if isinstance(value, Fraction):
        for part in ("_numerator", "_denominator"):
            for content in (0, 10**9, True, -1):
                yield f"{part} = {content}", lambda p=part, c=content: setattr(value, p, c)
    if isinstance(value, np.ndarray):
        yield "writeable", lambda: value.setflags(write=True)
        yield "fill", lambda: value.fill(0)
        if value.base is not None:
            yield "base.fill", lambda: value.base.fill(0)


def attempt(write: Callable[[], object]) -> None:
    """Try to write; that it fails is all the better."""
    with suppress(Exception):
        write()


def fields(value: object) -> dict[str, Any]:
    """The contents of an attrs value by the names of its slots."""
    if not attrs.has(type(value)):
        return {}
    return {f.name: getattr(value, f.name, None) for f in attrs.fields(type(value))}


def modules(package: ModuleType) -> list[ModuleType]:
    """The package and all modules in it."""
    inside = pkgutil.walk_packages(package.__path__, package.__name__ + ".")
    names = [info.name for info in inside if not info.name.endswith("__main__")]
    return [package, *map(importlib.import_module, names)]


def caches(package: ModuleType) -> dict[str, object]:
    """Everything that a package can remember between calls.

    Functions with a cache, and dicts, sets, lists and arrays in modules and classes.
    """
    kinds = (functools._lru_cache_wrapper, dict, set, list, np.ndarray)
    kinds += (weakref.WeakKeyDictionary, weakref.WeakValueDictionary, weakref.WeakSet)
    found: dict[str, object] = {}
    for module in modules(package):
        for name, thing in vars(module).items():
            here = f"{module.__name__}.{name}"
            if name.startswith("__"):
                continue
            if isinstance(thing, kinds) and here_defined(thing, module):
                found[here] = thing
            own = isinstance(thing, type) and thing.__module__ == module.__name__
            # An Enum keeps its members in dicts and lists of its own.
            if own and not issubclass(thing, enum.Enum):
                for inner, part in vars(thing).items():
                    held = getattr(part, "__func__", part)
                    # Named tuples tell their defaults to readers, and go by others.
                    told = inner.startswith("__") or inner == "_field_defaults"
                    if isinstance(held, kinds) and not told:
                        found[f"{here}.{inner}"] = held
            if isinstance(thing, FunctionType) and thing.__module__ == module.__name__:
                for default in (
                    *(thing.__defaults__ or ()),
                    *(thing.__kwdefaults__ or {}).values(),
                ):
                    if isinstance(default, kinds):
                        found[f"{here}()"] = default
    return found


def here_defined(thing: object, module: ModuleType) -> bool:
    return getattr(thing, "__module__", module.__name__) == module.__name__


def worked_out_once(cache: object) -> Iterator[tuple[object, object]]:
    """Keys and values of one of `caches`; of a set or list, the entries as keys."""
    if isinstance(cache, functools._lru_cache_wrapper):
        for part in gc.get_referents(cache):
            # Attributes set on the function are another dict, whose keys are names.
            if isinstance(part, dict) and part is not cache.__dict__:
                yield from part.items()
    elif isinstance(cache, Mapping):
        yield from cache.items()
    elif isinstance(cache, (set, list, weakref.WeakSet)):
        yield from ((entry, None) for entry in cache)


def forget(package: ModuleType) -> None:
    """Empty all functions with a cache."""
    for cache in caches(package).values():
        if isinstance(cache, functools._lru_cache_wrapper):
            cache.cache_clear()


def foreign(key: object) -> Iterator[object]:
    """The parts of a key that are no exact built-in."""
    if type(key) in (tuple, frozenset):
        for part in key:  # type: ignore[attr-defined]  # one of the two
            yield from foreign(part)
    elif type(key) not in EXACT:
        yield key
