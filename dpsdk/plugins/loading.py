"""Plugins are imported here, one at a time, and whatever goes wrong becomes a typed error."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from importlib import import_module
from inspect import isabstract
from typing import cast

from dpsdk.errors import PluginError
from dpsdk.plugins.discovery import Plugin
from dpsdk.plugins.names import line

__all__ = ["class_of", "loaded", "telling"]


@contextmanager
def telling(plugin: Plugin, what: str, *but: type[Exception]) -> Generator[None, None, None]:
    """Make a `PluginError` of whatever a plugin raises, even if it would end the program.

    Only an interrupt from the keyboard is no plugin's own, and `but` are errors to let through.
    """
    try:
        yield
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        if isinstance(error, but):
            raise
        kind = line(type.__getattribute__(type(error), "__name__"))[:80]
        reason = f"{what}: it raised a {kind}"
        raise PluginError(plugin.distribution, plugin.name, reason) from error


def loaded(plugin: Plugin) -> object:
    """What a plugin's place holds. Its module is imported, and nothing of it is called.

    Raises
    ------
    PluginError
        If it is refused, or its module raises, or has nothing there.
    """
    if plugin.refused:
        raise PluginError(plugin.distribution, plugin.name, plugin.refused)
    module, _, name = plugin.where.rpartition(".")
    with telling(plugin, "cannot be imported"):
        found: object = getattr(import_module(module), name)
    return found


def class_of(plugin: Plugin, base: type) -> type:
    """The class of a plugin, which must be one of the kind that is asked for.

    Raises
    ------
    PluginError
        If it is none: no class, one that does not extend `base`, one that lacks methods, or one
        of this package.
    """
    found = loaded(plugin)
    with telling(plugin, "cannot be looked at"):
        wrong = _fault_in(found, base)
    if wrong or not isinstance(found, type):
        raise PluginError(plugin.distribution, plugin.name, wrong)
    return found


def _fault_in(found: object, base: type) -> str:
    if not issubclass(type(found), type):
        return "is no class"
    # By what its bases are, and not by what it says of itself where it is asked.
    lineage: tuple[type, ...] = type.__getattribute__(cast("type", found), "__mro__")
    if base not in lineage[1:]:
        return f"is no class that extends {base.__name__}"
    if lineage[0].__module__.partition(".")[0] == "dpsdk":
        return "is a class of dpsdk itself"
    if isabstract(lineage[0]):
        return f"lacks methods of a {base.__name__}"
    return ""
