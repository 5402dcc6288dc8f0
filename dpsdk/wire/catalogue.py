"""Catalogues: which kinds of values may be written and read, in closed tables."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cache
from types import MappingProxyType
from typing import TypeVar, cast

from typing_extensions import override

from dpsdk._checks import shown
from dpsdk._lazy import load_all
from dpsdk._records import shows_half_made
from dpsdk.codec import PUBLIC, Kind, Kinds
from dpsdk.errors import InvalidArgument
from dpsdk.hypothesis import Distribution, Hypothesis
from dpsdk.hypothesis.digests import digest_of

__all__ = ["Catalogue"]

T = TypeVar("T")


@shows_half_made
class Catalogue(Kinds):
    """The kinds of values that may be written and read, and the distributions that they may name.

    Nothing is imported by a name in a text: a kind is looked up here, or refused. Catalogues are
    built by the program that reads, and do not change.

    >>> from dpsdk import wire
    >>> catalogue = wire.Catalogue.shipped().only("query.threshold", "query.marginal", "mechanism")
    >>> "query.count" in catalogue.kinds, "mechanism.laplace" in catalogue.kinds
    (False, True)
    """

    __slots__ = ("_distributions",)

    def __init__(self, kinds: Iterable[Kind[object]] = ()) -> None:
        super().__init__(kinds)
        self._distributions: Mapping[str, Distribution] = MappingProxyType({})

    def _with(self, kinds: Iterable[Kind[object]], known: Mapping[str, Distribution]) -> Catalogue:
        result = Catalogue(kinds)
        result._distributions = MappingProxyType(dict(known))
        return result

    @staticmethod
    def shipped() -> Catalogue:
        """All kinds of the package, and none of any other."""
        return _shipped()

    def only(self, *wanted: str | type) -> Catalogue:
        """Some of the kinds: by their names, by what stands before the dot, or by classes.

        Raises
        ------
        InvalidArgument
            If one of these names no kind of the catalogue.
        """
        chosen: set[str] = set()
        for item in wanted:
            names = [name for name in self._by_name if self._is(name, item)]
            if not names:
                expected = "names of kinds, what stands before their dots, or classes"
                raise InvalidArgument("wanted", expected, shown(item))
            chosen.update(names)
        kinds = [kind for name, kind in self._by_name.items() if name in chosen]
        return self._with(kinds, self._distributions)

    def _is(self, name: str, wanted: str | type) -> bool:
        if isinstance(wanted, str):
            return wanted in (name, name.partition(".")[0])
        return isinstance(wanted, type) and issubclass(self._by_name[name].made, wanted)

    def plus(self, *kinds: Kind[T]) -> Catalogue:
        """The same and further kinds, such as those of another package.

        Raises
        ------
        InvalidArgument
            If a name or a class is in the catalogue already.
        """
        more = cast("tuple[Kind[object], ...]", kinds)
        return self._with([*self._by_name.values(), *more], self._distributions)

    def knowing(self, *distributions: Distribution) -> Catalogue:
        """The same, and distributions that written forms may name by their digests.

        Raises
        ------
        InvalidArgument
            If one is no distribution.
        WireError
            If one is of a class that is not kept in files.
        """
        known = dict(self._distributions)
        for distribution in distributions:
            if not isinstance(distribution, Distribution):
                raise InvalidArgument("distributions", "distributions", shown(distribution))
            # What moves is copied, so that a digest stays that of what it names.
            copied = distribution.copy() if isinstance(distribution, Hypothesis) else distribution
            known[digest_of(copied, "$")] = copied
        return self._with(self._by_name.values(), known)

    @override
    def named(self, digest: str, path: str) -> object:
        found = self._distributions.get(digest)
        return super().named(digest, path) if found is None else found

    def distribution(self, digest: str, path: str) -> Distribution:
        """The distribution of a digest; raises `WireError` if none was handed in."""
        return cast("Distribution", self.named(digest, path))

    def __repr__(self) -> str:
        return f"Catalogue of {len(self._by_name)} kinds"


_ROOMS = "accounting domain forms hypothesis learning losses mechanisms planner queries release"
"""The packages whose classes have written forms."""


@cache
def _shipped() -> Catalogue:
    # A class is registered when its module is loaded, and most modules are when they are asked for.
    load_all(_ROOMS.split())
    return Catalogue(sorted(PUBLIC, key=lambda kind: kind.name))
