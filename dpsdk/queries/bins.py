"""Bins of a numeric attribute that are made when a question is asked."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TypeAlias

import numpy as np

from dpsdk._checks import shown
from dpsdk.codec import JSON, NUMBER, Codebook, ListOf, MapOf, Member, Plain
from dpsdk.domain import Attribute, Binned, Integer, Number
from dpsdk.errors import InvalidArgument, QueryError
from dpsdk.forms import Cuts, Factor
from dpsdk.queries.order import on_labels
from dpsdk.typing import Extra

__all__ = ["BINS", "Bins", "OwnBins", "binned", "cuts", "to_bins"]

Bins: TypeAlias = Mapping[str, Sequence[float]]
"""The edges of bins, for each attribute that is cut into some."""

OwnBins: TypeAlias = tuple[tuple[str, tuple[float, ...]], ...]


class _BinsField:
    _map = MapOf(ListOf(NUMBER, least=2), least=1)

    def write(self, value: OwnBins, path: str, codebook: Codebook, /) -> Plain:
        return self._map.write(dict(value), path, codebook)

    def read(self, plain: Plain, path: str, codebook: Codebook, /) -> OwnBins:
        return tuple(self._map.read(plain, path, codebook).items())

    def schema(self, codebook: Codebook, /) -> JSON:
        return self._map.schema(codebook)


BINS: Mapping[str, object] = {"bins": Member(_BinsField(), (), quiet=True)}
"""The member of the written forms of queries with this argument."""


def to_bins(bins: Bins | OwnBins | None, attributes: Sequence[str]) -> OwnBins:
    """Read a `bins=` argument of a query of some attributes, in their order."""
    expected = "a mapping of attributes of the table to edges of their bins"
    try:
        # As pairs from a written form.
        given: dict[str, Sequence[float]] = dict(bins or ())
    except (TypeError, ValueError):
        raise InvalidArgument("bins", expected, shown(bins)) from None
    if not all(name in attributes for name in given):
        raise InvalidArgument("bins", expected, shown(bins))
    pairs: list[tuple[str, tuple[float, ...]]] = []
    for name in attributes:
        if name in given:
            try:
                pairs.append((name, Binned(name, given[name]).edges))
            except InvalidArgument as error:
                expected = f"{error.expected} as the edges of {shown(name)}"
                raise InvalidArgument("bins", expected, error.got) from None
    return tuple(pairs)


def binned(attribute: Attribute, edges: Sequence[float]) -> Binned:
    """The attribute whose labels are these bins, with the same cells of other values."""
    extras = attribute.extras
    return Binned(
        attribute.name,
        tuple(edges),
        missing=Extra.MISSING in extras,
        other=Extra.OTHER in extras,
    )


def cuts(attribute: Attribute, edges: Sequence[float], query: object, *, known: bool) -> Factor:
    """The factor that counts the rows in each bin, and in the cells of other values unless `known`.

    Raises `QueryError` if the attribute is not made of numbers, or if a value lies in no bin.
    """
    if not isinstance(attribute, Integer | Number):
        reason = f"attribute {attribute.name!r} has no numbers that could be cut into bins"
        raise QueryError(str(query), reason)
    (low, high), first, last = attribute.bounds, edges[0], edges[-1]
    if not first <= low <= high <= last:
        reason = (
            f"the bins of {attribute.name!r} go from {first:g} to {last:g}, and its values from "
            f"{low:g} to {high:g}: those beyond would count nowhere"
        )
        raise QueryError(str(query), reason)
    starts = np.array([0, *(_below(attribute, edge) for edge in edges[1:-1])], dtype=np.int64)
    stops = np.append(starts[1:], attribute.known)
    if (empty := np.flatnonzero(starts >= stops)).size:
        place = int(empty[0])
        ends = f"{edges[place]:g} to {edges[place + 1]:g}"
        raise QueryError(str(query), f"{attribute.name!r} has no value in the bin from {ends}")
    if known:
        return on_labels(attribute, Cuts(attribute.known, starts))
    extras = np.arange(attribute.known, attribute.size, dtype=np.int64)
    return Cuts(attribute.size, np.concatenate([starts, extras]))


def _below(attribute: Integer | Number, edge: float) -> int:
    """How many labels are below an edge."""
    if isinstance(attribute, Number):
        return attribute.below(edge, closed=False)
    return min(max(math.ceil(edge) - attribute.low, 0), attribute.known)
