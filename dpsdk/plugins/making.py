"""Mechanisms and queries by their names, as files of configuration have them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from inspect import Parameter, Signature, signature
from types import MappingProxyType
from typing import cast

from attrs import frozen

from dpsdk._checks import shown
from dpsdk.errors import DpsdkError, InvalidArgument, PluginError, UnknownName
from dpsdk.forms import Form
from dpsdk.mechanisms import Mechanism
from dpsdk.plugins.discovery import MECHANISMS, QUERIES, Plugin, installed, listed, offered
from dpsdk.plugins.loading import class_of, telling
from dpsdk.plugins.names import near
from dpsdk.queries import Query
from dpsdk.wire import Catalogue

__all__ = ["found", "mechanism", "query"]

_LONGEST = 80


@frozen
class _Room:
    """One group of entry points, and what its classes are."""

    what: str
    group: str
    base: type

    def __hash__(self) -> int:
        return hash(self.what)


_MECHANISMS = _Room("mechanism", MECHANISMS, Mechanism)
_QUERIES = _Room("query", QUERIES, Query)


def mechanism(name: str, /, **given: object) -> Mechanism[Form]:
    """A mechanism by its name and the arguments of its class, as a file of configuration has them.

    Built-in mechanisms are called as in their written forms: "laplace", "noisy-histogram". Those
    of another installed distribution are called "distribution:name", and such a name, and nothing
    else, imports that one plugin. So names are taken from whom you trust; what comes over a wire
    is read by `dpsdk.wire`, which imports nothing.

    Parameters
    ----------
    name
        What it is called. No other spelling is read.
    given
        The arguments, by name. A workload is a query, as `query` makes one.

    Raises
    ------
    UnknownName
        If nothing has this name; it lists what comes near.
    PluginError
        If it is a plugin that is refused, cannot be imported, or raises.
    InvalidArgument
        If an argument is missing, unknown, or not what is expected; it names the parameter.

    >>> import dpsdk
    >>> dpsdk.mechanism("laplace", epsilon=0.1)
    Laplace(epsilon=0.1)
    """
    return cast("Mechanism[Form]", _made(name, _MECHANISMS, given))


def query(name: str, /, **given: object) -> Query[object, Form]:
    """A query by its name and the arguments of its class. As `mechanism` otherwise.

    >>> import dpsdk
    >>> dpsdk.query("threshold", attribute="age", threshold=40)
    Threshold('age', 40)
    """
    return cast("Query[object, Form]", _made(name, _QUERIES, given))


@cache
def _built_in(room: _Room) -> Mapping[str, Callable[..., object]]:
    shipped = Catalogue.shipped().only(room.what)
    kinds = [shipped.kind_named(name, "$") for name in shipped.kinds]
    return MappingProxyType({k.name.partition(".")[2]: k.take or k.made for k in kinds})


def _made(name: str, room: _Room, given: Mapping[str, object]) -> object:
    if not isinstance(cast("object", name), str):
        raise InvalidArgument("name", f"the name of a {room.what}, a text", shown(name))
    plain = str.__str__(name)
    own = _built_in(room).get(plain)
    if own is not None:
        _check(plain, signature(own), given)
        return own(**given)
    plugin = found(plain, room.group)
    if plugin is None:
        raise UnknownName(room.what, shown(plain), _near(plain, room))
    return _of(plugin, room, given)


def found(name: str, *groups: str) -> Plugin | None:
    """The plugin of a name in one of some groups. Nothing is imported."""
    prefix, colon, _ = name.partition(":")
    distribution = installed(prefix) if colon else None
    if distribution is None:
        return None
    for plugin in offered(distribution):
        if plugin.group in groups and plugin.name == name:
            return plugin
    return None


def _near(name: str, room: _Room) -> tuple[str, ...]:
    known = [plugin for plugin in listed() if plugin.group == room.group and not plugin.refused]
    return near(name, [*_built_in(room), *(plugin.name for plugin in known)])


def _of(plugin: Plugin, room: _Room, given: Mapping[str, object]) -> object:
    made = class_of(plugin, room.base)
    with telling(plugin, "does not say what its parameters are"):
        parameters = signature(made)
    _check(plugin.name, parameters, given)
    # Its constructor says by errors of this package what is wrong with an argument.
    with telling(plugin, "cannot be made", DpsdkError):
        value: object = made(**given)
    if room.base not in type.__getattribute__(type(value), "__mro__"):
        reason = f"makes something else than a {room.what}"
        raise PluginError(plugin.distribution, plugin.name, reason)
    return value


def _check(name: str, parameters: Signature, given: Mapping[str, object]) -> None:
    """Refuse arguments that a class does not have, and miss those that it must be given."""
    known = {
        one.name: one.default is Parameter.empty
        for one in parameters.parameters.values()
        if one.kind in (Parameter.POSITIONAL_OR_KEYWORD, Parameter.KEYWORD_ONLY)
        and not one.name.startswith("_")
    }
    more = any(one.kind is Parameter.VAR_KEYWORD for one in parameters.parameters.values())
    for key in given:
        if key not in known and (not more or key.startswith("_")):
            expected = f"a parameter of {name}, which has {', '.join(known) or 'none'}"
            raise InvalidArgument(_parameter(key), expected, "another name")
    for key, needed in known.items():
        if needed and key not in given:
            raise InvalidArgument(key, f"given to {name}", "nothing")


def _parameter(key: str) -> str:
    return key if key.isidentifier() and len(key) <= _LONGEST else shown(key)
