"""How the package stands, to see whether a plugin has patched it."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from types import FunctionType, ModuleType

__all__ = ["Walls", "owners"]

_MOVING = frozenset({
    "__dict__", "__weakref__", "__abstractmethods__", "_abc_impl", "__builtins__", "__doc__",
    "__annotations__", "_profile_hook", "_trace_hook",
})  # fmt: skip


_RESTS_ON = frozenset({"os", "builtins", "math", "fractions", "decimal", "hashlib", "threading"})
"""Modules of Python's library on which noise, prices and books rest."""


class Walls:
    """All modules and classes of the package as they stand, to see later if they still do."""

    def __init__(self) -> None:
        self._known: list[tuple[str, object, dict[str, object]]] = [
            (name, owner, dict(vars(owner))) for name, owner in owners()
        ]

    def changed(self) -> str:
        """What is no longer as it stood, empty where all is."""
        for name, owner, before in self._known:
            now: Mapping[str, object] = vars(owner)
            for key in _added(owner, before):
                return f"{name}.{key}"
            for key in before:
                if key in now and now[key] is before[key]:
                    continue
                if key in _MOVING or isinstance(before[key], ModuleType):
                    continue
                return f"{name}.{key}"
        return ""

    def restore(self) -> None:
        """Set everything as it stood."""
        for _, owner, before in self._known:
            now: Mapping[str, object] = vars(owner)
            for key in _added(owner, before):
                delattr(owner, key)
            for key, value in before.items():
                if key not in _MOVING and (key not in now or now[key] is not value):
                    setattr(owner, key, value)


def _added(owner: object, before: Mapping[str, object]) -> list[str]:
    """What was put into a class; modules get names of their own when they are first asked."""
    if not isinstance(owner, type):
        return []
    new = [key for key in vars(owner) if key not in before and key not in _MOVING]
    # Python itself keeps things there, and `abc` and `typing` do.
    return [key for key in new if not _kept(key, vars(owner)[key])]


def _kept(key: str, value: object) -> bool:
    inner: object = getattr(value, "__func__", value)
    return not isinstance(inner, FunctionType | property) and key.startswith("_")


def owners() -> Iterator[tuple[str, object]]:
    """Modules of the package that are loaded and what they rest on, and the classes in them."""
    for name, module in list(sys.modules.items()):
        own = name.partition(".")[0] == "dpsdk"
        if not (own or name in _RESTS_ON) or not isinstance(module, ModuleType):
            continue
        yield name, module
        for key, value in list(vars(module).items()):
            if isinstance(value, type) and value.__module__ == name:
                yield f"{name}.{key}", value
