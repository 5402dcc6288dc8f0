"""Written forms of plugins: the kinds of the distributions that a program names, and no others."""

from __future__ import annotations

from collections.abc import Iterable
from typing import cast

from dpsdk._checks import shown
from dpsdk.errors import InvalidArgument, PluginError, UnknownName
from dpsdk.mechanisms import Mechanism
from dpsdk.plugins.discovery import KINDS, MECHANISMS, QUERIES, Plugin, installed, known, offered
from dpsdk.plugins.loading import class_of, loaded, telling
from dpsdk.plugins.names import near, normalised
from dpsdk.queries import Query
from dpsdk.wire import Catalogue, Kind

__all__ = ["catalogue"]

_BASES: dict[str, type] = {MECHANISMS: Mechanism, QUERIES: Query}


def catalogue(*distributions: str) -> Catalogue:
    """The kinds of the package, and those that some installed distributions offer.

    What is named here is imported, and nothing else ever is: a text that names a kind of another
    distribution is refused as any unknown kind.

    Parameters
    ----------
    distributions
        Their names, in any spelling that installers take for the same.

    Raises
    ------
    UnknownName
        If none of that name is installed, or it offers no kinds.
    PluginError
        If a kind is refused or cannot be imported; if it is not called by its distribution and
        the name of its entry point; if it is a kind of a class of this package, or of another
        class than the mechanism or query of that name; or if two are of one class.

    >>> from dpsdk import plugins
    >>> "mechanism.laplace" in plugins.catalogue().kinds
    True
    """
    result = Catalogue.shipped()
    for name in _names(distributions):
        distribution = installed(name)
        offers = [] if distribution is None else offered(distribution)
        # Whatever the folder of a distribution is called, its metadata say what its name is.
        kinds = [one for one in offers if one.group == KINDS and one.distribution == name]
        if not kinds:
            names = near(name, {one.distribution for one in known(KINDS)})
            raise UnknownName("distribution with kinds", shown(name), names)
        for plugin in kinds:
            result = _plus(result, plugin, offers)
    return result


def _names(given: Iterable[object]) -> list[str]:
    names: list[str] = []
    for one in given:
        if not isinstance(one, str):
            raise InvalidArgument("distributions", "names of distributions", shown(one))
        names.append(normalised(one))
    return list(dict.fromkeys(names))


def _plus(catalogue: Catalogue, plugin: Plugin, offers: Iterable[Plugin]) -> Catalogue:
    kind = _kind(plugin)
    reason = "is a kind of a class that has another kind"
    for one in offers:
        if one.group in _BASES and one.name == plugin.name:
            made = class_of(one, _BASES[one.group])
            if made is not kind.made:
                reason = f"is a kind of another class than {one.where}, which has that name"
                raise PluginError(plugin.distribution, plugin.name, reason)
    try:
        return catalogue.plus(kind)
    except InvalidArgument:
        raise PluginError(plugin.distribution, plugin.name, reason) from None


def _kind(plugin: Plugin) -> Kind[object]:
    found, wrong = loaded(plugin), ""
    if type(found) is not Kind:
        raise PluginError(plugin.distribution, plugin.name, "is no dpsdk.wire.Kind")
    kind = cast("Kind[object]", found)
    with telling(plugin, "cannot be looked at"):
        if type(kind.name) is not str or kind.name != plugin.name:
            wrong = f"is a kind that is called {shown(kind.name)}"
        elif kind.made.__module__.partition(".")[0] == "dpsdk":
            wrong = "is a kind of a class of dpsdk itself"
    if wrong:
        raise PluginError(plugin.distribution, plugin.name, wrong)
    return kind
