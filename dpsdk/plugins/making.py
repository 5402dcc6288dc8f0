"""Mechanisms and queries by their names, as files of configuration have them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from inspect import Parameter, signature
from types import MappingProxyType
from typing import Literal, cast, overload

from dpsdk._checks import shown
from dpsdk._records import frozen
from dpsdk.errors import DpsdkError, InvalidArgument, PluginError, UnknownName
from dpsdk.forms import Form
from dpsdk.mechanisms import (
    MWEM,
    ConvexPMW,
    ExponentialQuantile,
    Gaussian,
    Laplace,
    LocalMarginals,
    Matrix,
    Mechanism,
    NoisyHistogram,
    NumericSparse,
    OfflineConvexPMW,
    OfflinePMW,
    OnlinePMW,
    Parts,
    PrivateMinimizer,
    Projection,
    ResidualPlanner,
    RunningSums,
    SmallDB,
    SquareRoot,
    TextbookConvexPMW,
    Tree,
)
from dpsdk.plugins.discovery import MECHANISMS, QUERIES, Plugin, installed, known, offered
from dpsdk.plugins.loading import class_of, telling
from dpsdk.plugins.names import near
from dpsdk.queries import (
    Above,
    Conjunction,
    ConvexMinimization,
    Count,
    CountDistinct,
    CountPersons,
    DateQuantile,
    GroupTable,
    Interval,
    Linear,
    Marginal,
    Mean,
    Median,
    NumericAbove,
    OneVsRest,
    Quantile,
    Query,
    Rectangles,
    Softmax,
    StdDev,
    Sum,
    Threshold,
    Unmatched,
    Variance,
    Workload,
)
from dpsdk.wire import Catalogue

__all__ = ["mechanism", "query"]

_LONGEST = 80


@frozen
class _Room:
    """A group of entry points, and the base of its classes."""

    what: str
    group: str
    base: type


_MECHANISMS = _Room("mechanism", MECHANISMS, Mechanism)
_QUERIES = _Room("query", QUERIES, Query)


# A name that is not written out is taken to be that of what fits any form, as on a wire.
@overload
def mechanism(  # pyright: ignore[reportOverlappingOverload]
    name: Literal["laplace"], /, **given: object
) -> Laplace: ...
@overload
def mechanism(name: Literal["gaussian"], /, **given: object) -> Gaussian: ...
@overload
def mechanism(name: Literal["exponential-quantile"], /, **given: object) -> ExponentialQuantile: ...
@overload
def mechanism(name: Literal["noisy-histogram"], /, **given: object) -> NoisyHistogram: ...
@overload
def mechanism(name: Literal["projection"], /, **given: object) -> Projection: ...
@overload
def mechanism(name: Literal["parts"], /, **given: object) -> Parts: ...
@overload
def mechanism(name: Literal["numeric-sparse"], /, **given: object) -> NumericSparse: ...
@overload
def mechanism(name: Literal["square-root"], /, **given: object) -> SquareRoot: ...
@overload
def mechanism(name: Literal["tree"], /, **given: object) -> Tree: ...
@overload
def mechanism(name: Literal["matrix"], /, **given: object) -> Matrix: ...
@overload
def mechanism(name: Literal["residual-planner"], /, **given: object) -> ResidualPlanner: ...
@overload
def mechanism(name: Literal["mwem"], /, **given: object) -> MWEM: ...
@overload
def mechanism(name: Literal["offline-pmw"], /, **given: object) -> OfflinePMW: ...
@overload
def mechanism(name: Literal["local-marginals"], /, **given: object) -> LocalMarginals: ...
@overload
def mechanism(name: Literal["running-sums"], /, **given: object) -> RunningSums: ...
@overload
def mechanism(name: Literal["small-db"], /, **given: object) -> SmallDB: ...
@overload
def mechanism(name: Literal["online-pmw"], /, **given: object) -> OnlinePMW: ...
@overload
def mechanism(name: Literal["convex-pmw"], /, **given: object) -> ConvexPMW: ...
@overload
def mechanism(name: Literal["textbook-convex-pmw"], /, **given: object) -> TextbookConvexPMW: ...
@overload
def mechanism(name: Literal["offline-convex-pmw"], /, **given: object) -> OfflineConvexPMW: ...
@overload
def mechanism(name: Literal["private-minimizer"], /, **given: object) -> PrivateMinimizer: ...
@overload
def mechanism(name: str, /, **given: object) -> Mechanism[Form]: ...
def mechanism(name: str, /, **given: object) -> object:
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
    return _made(name, _MECHANISMS, given)


@overload
def query(name: Literal["above"], /, **given: object) -> Above: ...
@overload
def query(name: Literal["numeric-above"], /, **given: object) -> NumericAbove: ...
@overload
def query(name: Literal["conjunction"], /, **given: object) -> Conjunction: ...
@overload
def query(name: Literal["convex-minimization"], /, **given: object) -> ConvexMinimization: ...
@overload
def query(name: Literal["count"], /, **given: object) -> Count[float | GroupTable]: ...
@overload
def query(name: Literal["count-distinct"], /, **given: object) -> CountDistinct: ...
@overload
def query(name: Literal["count-persons"], /, **given: object) -> CountPersons: ...
@overload
def query(name: Literal["interval"], /, **given: object) -> Interval: ...
@overload
def query(name: Literal["linear"], /, **given: object) -> Linear: ...
@overload
def query(name: Literal["marginal"], /, **given: object) -> Marginal: ...
@overload
def query(name: Literal["mean"], /, **given: object) -> Mean[float | GroupTable]: ...
@overload
def query(name: Literal["date-quantile"], /, **given: object) -> DateQuantile: ...
@overload
def query(name: Literal["median"], /, **given: object) -> Median: ...
@overload
def query(name: Literal["one-vs-rest"], /, **given: object) -> OneVsRest: ...
@overload
def query(name: Literal["quantile"], /, **given: object) -> Quantile: ...
@overload
def query(name: Literal["rectangles"], /, **given: object) -> Rectangles: ...
@overload
def query(name: Literal["softmax"], /, **given: object) -> Softmax: ...
@overload
def query(name: Literal["std-dev"], /, **given: object) -> StdDev[float | GroupTable]: ...
@overload
def query(name: Literal["sum"], /, **given: object) -> Sum[float | GroupTable]: ...
@overload
def query(name: Literal["threshold"], /, **given: object) -> Threshold: ...
@overload
def query(name: Literal["unmatched"], /, **given: object) -> Unmatched: ...
@overload
def query(name: Literal["variance"], /, **given: object) -> Variance[float | GroupTable]: ...
@overload
def query(name: Literal["workload"], /, **given: object) -> Workload[object]: ...
@overload
def query(name: str, /, **given: object) -> Query[object, Form]: ...
def query(name: str, /, **given: object) -> object:
    """A query by its name and the arguments of its class. As `mechanism` otherwise.

    >>> import dpsdk
    >>> dpsdk.query("threshold", attribute="age", threshold=40)
    Threshold('age', 40)
    """
    return _made(name, _QUERIES, given)


@cache
def _built_in(room: _Room) -> Mapping[str, Callable[..., object]]:
    shipped = Catalogue.shipped().only(room.what)
    kinds = [shipped.kind_named(name, "$") for name in shipped.kinds]
    return MappingProxyType({k.name.partition(".")[2]: k.take or k.made for k in kinds})


def _made(name: str, room: _Room, given: Mapping[str, object]) -> object:
    if not isinstance(cast("object", name), str):
        raise InvalidArgument("name", f"the name of a {room.what}, a text", shown(name))
    name = str(name)  # of a subclass too
    own = _built_in(room).get(name)
    if own is not None:
        needed, more = _parameters(own)
        _check(name, given, needed, more=more)
        return own(**given)
    plugin = _plugin(name, room)
    if plugin is None:
        sound = [one.name for one in known(room.group) if not one.refused]
        raise UnknownName(room.what, shown(name), near(name, [*_built_in(room), *sound]))
    made = class_of(plugin, room.base)
    with telling(plugin, "does not say what its parameters are"):
        needed, more = _parameters(made)
    _check(plugin.name, given, needed, more=more)
    # Its constructor says by errors of this package what is wrong with an argument.
    with telling(plugin, "cannot be made", DpsdkError):
        value: object = made(**given)
    if room.base not in type(value).__mro__:
        reason = f"makes something else than a {room.what}"
        raise PluginError(plugin.distribution, plugin.name, reason)
    return value


def _plugin(name: str, room: _Room) -> Plugin | None:
    """Return the plugin of a name. Nothing is imported."""
    prefix, colon, _ = name.partition(":")
    distribution = installed(prefix) if colon else None
    offers = [] if distribution is None else offered(distribution)
    return next((one for one in offers if one.group == room.group and one.name == name), None)


def _parameters(made: Callable[..., object]) -> tuple[dict[str, bool], bool]:
    """Return the arguments of a class, each with whether it must be given, and if others may be."""
    parameters = [*signature(made).parameters.values()]
    needed = {
        one.name: one.default is Parameter.empty
        for one in parameters
        if one.kind in (Parameter.POSITIONAL_OR_KEYWORD, Parameter.KEYWORD_ONLY)
        and not one.name.startswith("_")
    }
    return needed, any(one.kind is Parameter.VAR_KEYWORD for one in parameters)


def _check(
    name: str, given: Mapping[str, object], needed: Mapping[str, bool], *, more: bool
) -> None:
    """Refuse arguments that a class does not have, and miss those that it must be given."""
    for key in given:
        if key not in needed and (not more or key.startswith("_")):
            expected = f"a parameter of {name}, which has {', '.join(needed) or 'none'}"
            plain = key.isidentifier() and len(key) <= _LONGEST
            raise InvalidArgument(key if plain else shown(key), expected, "another name")
    for key, must in needed.items():
        if must and key not in given:
            raise InvalidArgument(key, f"given to {name}", "nothing")
