"""Plugins are imported here, one at a time, and whatever goes wrong becomes a typed error."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager, suppress
from importlib import import_module
from inspect import isabstract

from dpsdk.errors import PluginError
from dpsdk.plugins.discovery import Plugin
from dpsdk.plugins.names import line

__all__ = ["class_of", "loaded", "telling"]


@contextmanager
def telling(
    plugin: Plugin, what: str, *but: type[Exception], says: bool = False
) -> Generator[None, None, None]:
    """Make a `PluginError` of whatever a plugin raises, even if it would end the program.

    Only an interrupt from the keyboard is no plugin's own, and `but` are errors to let through.
    With `says`, what the plugin raised is quoted, as nothing was handed to it that it could tell.
    """
    try:
        yield
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        if isinstance(error, but):
            raise
        raised = line(type(error).__name__)[:80]
        article = "an" if raised[:1] in tuple("AEIOUaeiou") else "a"
        reason = f"{what}: it raised {article} {raised}"
        if says:
            with suppress(Exception):  # a text of another author may raise anything
                text = line(error)
                reason = f"{reason}: {text}" if text else reason
        raise PluginError(plugin.distribution, plugin.name, reason) from error


def loaded(plugin: Plugin) -> object:
    """Return what a plugin's place holds. Its module is imported, and nothing of it is called."""
    if plugin.refused:
        raise PluginError(plugin.distribution, plugin.name, plugin.refused)
    module, _, name = plugin.where.rpartition(".")
    with telling(plugin, "cannot be imported", says=True):
        found: object = getattr(import_module(module), name)
    return found


def class_of(plugin: Plugin, base: type) -> type:
    """Return the class of a plugin, which must extend `base`, lack nothing and be no own one."""
    found = loaded(plugin)
    with telling(plugin, "cannot be looked at"):
        wrong = _fault_in(found, base)
    if wrong or not isinstance(found, type):
        raise PluginError(plugin.distribution, plugin.name, wrong)
    return found


def _fault_in(found: object, base: type) -> str:
    if not isinstance(found, type):
        return "is no class"
    if base not in found.__mro__[1:]:
        return f"is no class that extends {base.__name__}"
    if found.__module__.partition(".")[0] == "dpsdk":
        return "is a class of dpsdk itself"
    return f"lacks methods of a {base.__name__}" if isabstract(found) else ""
