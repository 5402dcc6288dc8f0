"""Recognise workloads whose structure can be counted, from the blocks of their forms."""

from __future__ import annotations

from itertools import pairwise
from typing import TypeAlias, cast

import numpy as np

from dpsdk._records import define, field
from dpsdk.domain import Domain
from dpsdk.forms import Factor, Identity, Kronecker, LinearForm, Prefix
from dpsdk.kernel.draw_database.base import DrawTerms, Sampler
from dpsdk.kernel.draw_database.cells import Cells, Side
from dpsdk.kernel.draw_database.intervals import Intervals
from dpsdk.kernel.draw_database.structured import Part, Structured
from dpsdk.kernel.draw_database.thresholds import Axis, Thresholds

__all__ = ["recognised"]

_READ_LIMIT = 2**22
"""Factors of more weights than this are not read through."""

_Span: TypeAlias = tuple[str, int, tuple[int, int] | None]

_GROUP_LIMIT = 2**18
"""More groups than this are not gone through."""


def recognised(form: LinearForm, terms: DrawTerms) -> Sampler | None:
    """The sampler for a workload of thresholds, intervals, disjoint cells, or one-way marginals.

    Any ranges of one attribute are near in what they ask if all intervals between their ends are;
    so they are drawn as these, unless they are thresholds or disjoint. None stands for any other
    workload.
    """
    asked = _Asked(form.domain)
    for block in form.blocks:
        if not isinstance(block, Kronecker) or not asked.take(block):
            return None
    return asked.sampler(terms)


@define
class _Ranges:
    """The questions about one attribute: every cell, every prefix, and some ranges."""

    size: int
    every_cell: bool = False
    every_prefix: bool = False
    some: set[tuple[int, int]] = field(factory=set[tuple[int, int]])

    def take(self, factor: Factor) -> bool:
        """Add the functions of a factor; False if they are no ranges."""
        if factor == Identity(self.size):
            self.every_cell = True
        elif factor == Prefix(self.size):
            self.every_prefix = True
        elif (ranges := factor.ranges) is None:
            read = _read(factor)
            self.some.update(read or ())
            return read is not None
        elif factor.rows > _GROUP_LIMIT:
            return False
        else:
            self.some.update(zip(*[ends.tolist() for ends in ranges], strict=True))
        return True

    def settle(self) -> bool:
        """Leave out what is empty or everything; whether everything was asked."""
        everything = (0, self.size) in self.some or self.every_prefix
        everything |= self.every_cell and self.size == 1
        self.some = {(a, b) for a, b in self.some if a < b and (a, b) != (0, self.size)}
        if self.every_cell:
            self.some = {(a, b) for a, b in self.some if b > a + 1}
        if self.every_prefix:
            self.some = {(a, b) for a, b in self.some if a > 0}
        if self.size == 1:
            self.every_cell = self.every_prefix = False
        return everything

    @property
    def asks(self) -> bool:
        """True if anything is left."""
        return self.every_cell or self.every_prefix or bool(self.some)

    def axis(self, name: str) -> Axis:
        """The pieces that are told apart."""
        if self.every_cell or self.every_prefix:
            return Axis(name, self.size, None)
        return Axis.cut(name, self.size, [end for pair in self.some for end in pair])

    def part(self, name: str) -> Part | None:
        """The part of these functions, unless they cross."""
        axis = self.axis(name)
        if not self.every_cell and all(start == 0 for start, _ in self.some):
            return Thresholds(axis)
        if self.every_prefix or (self.every_cell and self.some):
            return None
        ordered = sorted(self.some)
        if any(stop > start for (_, stop), (start, _) in pairwise(ordered)):
            return None
        whole = self.every_cell or len(ordered) == axis.pieces
        starts = np.array([start for start, _ in ordered])
        return Cells((Side(axis, None if whole else axis.locate(starts)),))


@define
class _Asked:
    """The questions that the blocks of a form ask."""

    domain: Domain
    whole: bool = False
    table: tuple[_Span, ...] | None = None
    ranges: dict[str, _Ranges] = field(factory=dict[str, _Ranges])

    def take(self, block: Kronecker) -> bool:
        """Add the functions of a block; False if they have no structure that is known here."""
        factors = [factor.simplified() for factor in block.factors]
        pairs = [
            (name, factor)
            for name, factor in zip(block.names, factors, strict=True)
            if factor.span != slice(0, factor.size)
        ]
        if block.scale != 1.0:
            return False
        if not pairs:
            self.whole = True
            return True
        if len(pairs) == 1:
            ((name, factor),) = pairs
            known = self.ranges.setdefault(name, _Ranges(self.domain[name].size))
            return known.take(factor)
        spans = tuple(_span(name, factor) for name, factor in pairs)
        if None in spans or self.table not in (None, spans):
            return False
        self.table = cast("tuple[_Span, ...]", spans)
        return True

    def sampler(self, terms: DrawTerms) -> Sampler | None:
        """The sampler that draws for all of it."""
        names, shape = self.domain.names, self.domain.shape
        for asked in self.ranges.values():
            self.whole |= asked.settle()
        ranges = {name: asked for name, asked in self.ranges.items() if asked.asks}
        known = [asked.part(name) for name, asked in ranges.items()]
        if self.table is not None:
            known = [None] if ranges else [Cells(tuple(_side(*span) for span in self.table))]
        elif len(known) == 1 and known[0] is None:
            ((name, asked),) = ranges.items()
            return Intervals.of(names, shape, terms, asked.axis(name))
        parts = tuple(part for part in known if part is not None)
        if not parts or len(parts) < len(known):
            return None
        kind = "thresholds" if isinstance(parts[0], Thresholds) else "cells"
        kind = "marginals" if len(parts) > 1 else kind
        return Structured(kind, names, shape, terms, parts, self.whole)


def _span(name: str, factor: Factor) -> _Span | None:
    """The side of a table that a factor can be: each cell apart, or those from start to stop."""
    size, span = factor.size, factor.span
    if factor == Identity(size):
        return name, size, None
    return (name, size, (span.start, span.stop)) if span and span.start < span.stop else None


def _side(name: str, size: int, ends: tuple[int, int] | None) -> Side:
    axis = Axis.cut(name, size, ends) if ends else Axis(name, size, None)
    return Side(axis, axis.locate(np.array(ends[:1])) if ends else None)


def _read(factor: Factor) -> list[tuple[int, int]] | None:
    """The ranges that the functions of a factor are indicators of; None if they are not."""
    if factor.rows * factor.size > _READ_LIMIT:
        return None
    weights = factor.matrix()
    if not ((weights == 0) | (weights == 1)).all():
        return None
    starts = weights.argmax(axis=1)
    lengths = weights.sum(axis=1).astype(np.int64)
    cells = np.arange(factor.size)
    inside = (cells >= starts[:, None]) & (cells < (starts + lengths)[:, None])
    if not (inside == (weights == 1)).all():
        return None
    return list(zip(starts.tolist(), (starts + lengths).tolist(), strict=True))
