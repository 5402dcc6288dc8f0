"""Choose or refuse the sampler for a workload, by public facts alone."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from itertools import pairwise
from typing import TypeAlias, cast

import numpy as np

from dpsdk._checks import shown, to_finite, to_within
from dpsdk._records import define, evolve, field, frozen
from dpsdk.codec import INTEGER, NUMBER, written
from dpsdk.errors import ExactSamplingInfeasible, InvalidArgument, TooLarge
from dpsdk.forms import Factor, Identity, Kronecker, LinearForm, Prefix
from dpsdk.kernel.draw_database.atoms import Atoms, Counting
from dpsdk.kernel.draw_database.base import DrawTerms, Sampler, Work
from dpsdk.kernel.draw_database.bounds import (
    LARGEST_SIZE,
    AnyCoverage,
    Family,
    size_for,
    to_size,
)
from dpsdk.kernel.draw_database.cells import Cells, Side
from dpsdk.kernel.draw_database.enumeration import Enumeration
from dpsdk.kernel.draw_database.intervals import Intervals
from dpsdk.kernel.draw_database.structured import Part, Structured
from dpsdk.kernel.draw_database.thresholds import Axis, Thresholds
from dpsdk.typing import Ints, Real

__all__ = [
    "Limits",
    "best_size",
    "choose",
    "covering_size",
    "feasible_size",
    "general",
    "recognised",
]

_READ_LIMIT = 2**22
"""Factors of more weights than this are not read through."""

_GROUP_LIMIT = 2**18
"""More groups than this are not gone through."""

_Ends: TypeAlias = tuple[int, int]
_Span: TypeAlias = tuple[str, int, _Ends | None]


def recognised(form: LinearForm, terms: DrawTerms) -> Sampler | None:
    """The sampler for a workload of thresholds, intervals, disjoint cells, or one-way marginals.

    Any ranges of one attribute are near in what they ask if all intervals between their ends are;
    so they are drawn as these, unless they are thresholds or disjoint. None stands for any other
    workload.
    """
    whole, tables, known = False, set[tuple[_Span, ...]](), dict[str, _Ranges]()
    for block in form.blocks:
        if not isinstance(block, Kronecker) or block.scale != 1.0:
            return None
        factors = [factor.simplified() for factor in block.factors]
        pairs = [
            (name, factor)
            for name, factor in zip(block.names, factors, strict=True)
            if factor.span != slice(0, factor.size)
        ]
        if len(pairs) == 1:
            ((name, factor),) = pairs
            if not known.setdefault(name, _Ranges(form.domain[name].size)).take(factor):
                return None
        elif pairs:
            spans = [span for name, factor in pairs if (span := _span(name, factor)) is not None]
            if len(spans) < len(pairs):
                return None
            tables.add(tuple(spans))
        whole |= not pairs
    for asked in known.values():
        whole |= asked.settle()
    names, shape = form.domain.names, form.domain.shape
    axes = {name: asked for name, asked in known.items() if asked.asks}
    if tables and (axes or len(tables) > 1):
        return None
    parts: list[Part | None] = [Cells(tuple(_side(*span) for span in spans)) for spans in tables]
    parts += [asked.part(name) for name, asked in axes.items()]
    if len(parts) == 1 and parts[0] is None:
        ((name, asked),) = axes.items()
        return Intervals.of(names, shape, terms, asked.axis(name))
    found = tuple(part for part in parts if part is not None)
    if not found or len(found) < len(parts):
        return None
    kind = "thresholds" if isinstance(found[0], Thresholds) else "cells"
    kind = "marginals" if len(found) > 1 else kind
    return Structured(kind, names, shape, terms, found, whole)


@define
class _Ranges:
    """The questions about one attribute: every cell, every prefix, and some ranges."""

    size: int
    every_cell: bool = False
    every_prefix: bool = False
    some: set[_Ends] = field(factory=set[_Ends])

    def take(self, factor: Factor) -> bool:
        """Add the functions of a factor; False if they are no ranges, or too many."""
        if factor == Identity(self.size):
            self.every_cell = True
        elif factor == Prefix(self.size):
            self.every_prefix = True
        else:
            found = factor.ranges
            many = found is not None and factor.rows > _GROUP_LIMIT
            ranges = _read(factor) if found is None else found
            if many or ranges is None:
                return False
            self.some.update(zip(*[ends.tolist() for ends in ranges], strict=True))
        return True

    def settle(self) -> bool:
        """Leave out what is empty, everything, or asked already; whether everything was asked."""
        everything = (0, self.size) in self.some or self.every_prefix
        everything |= self.every_cell and self.size == 1
        self.some = {
            (start, stop)
            for start, stop in self.some - {(0, self.size)}
            if stop > start + self.every_cell and (start > 0 or not self.every_prefix)
        }
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
        axis, ordered = self.axis(name), sorted(self.some)
        if not self.every_cell and all(start == 0 for start, _ in ordered):
            return Thresholds(axis)
        if self.every_prefix or (self.every_cell and ordered):
            return None
        if any(stop > start for (_, stop), (start, _) in pairwise(ordered)):
            return None
        whole = self.every_cell or len(ordered) == axis.pieces
        starts = np.array([start for start, _ in ordered])
        return Cells((Side(axis, None if whole else axis.locate(starts)),))


def _span(name: str, factor: Factor) -> _Span | None:
    """The side of a table that a factor can be: each cell apart, or those from start to stop."""
    size, span = factor.size, factor.span
    if factor == Identity(size):
        return name, size, None
    return (name, size, (span.start, span.stop)) if span and span.start < span.stop else None


def _side(name: str, size: int, ends: tuple[int, int] | None) -> Side:
    axis = Axis.cut(name, size, ends) if ends else Axis(name, size, None)
    return Side(axis, axis.locate(np.array(ends[:1])) if ends else None)


def _read(factor: Factor) -> tuple[Ints, Ints] | None:
    """The ranges that the functions of a factor are indicators of; None if they are not."""
    if factor.rows * factor.size > _READ_LIMIT:
        return None
    weights = factor.matrix()
    starts = weights.argmax(axis=1)
    stops = starts + weights.sum(axis=1).astype(np.int64)
    cells = np.arange(factor.size)
    inside = (cells >= starts[:, None]) & (cells < stops[:, None])
    return (starts, stops) if (inside == weights).all() else None


_BETA = 0.05
"""At which confidence samplers are compared."""

_MOST_SECONDS = 1_000_000
_MOST_BYTES = 2**40

_LITTLE = 2**18
"""With more weights than this, a known structure is not compared with none."""


def _to_seconds(value: float) -> float:
    number = to_finite("seconds", value)
    if not 0 < number <= _MOST_SECONDS:
        raise InvalidArgument("seconds", f"above 0, and at most {_MOST_SECONDS:,}", shown(value))
    return float(number)


def _to_bytes(value: int) -> int:
    return to_within("bytes", value, 1, _MOST_BYTES, f"an integer from 1 to {_MOST_BYTES:,}")


@written("limits", {"seconds": NUMBER, "bytes": INTEGER})
@frozen
class Limits:
    """Limits of time and memory for a draw, by an estimate from public facts.

    Parameters
    ----------
    seconds
        Of time, on one core of a few years' age; at most 1,000,000.
    bytes
        Of memory; at most 2^40.

    Raises
    ------
    InvalidArgument
        If one is out of range.
    """

    seconds: float = field(default=60.0, converter=_to_seconds)
    bytes: int = field(default=2**30, converter=_to_bytes)

    def allow(self, work: Work) -> bool:
        """True if a draw is within them."""
        return work.seconds <= self.seconds and work.bytes <= self.bytes


_DEFAULT = Limits()


def general(form: LinearForm, terms: DrawTerms) -> list[Sampler]:
    """The samplers that need no structure."""
    merged = Atoms.of(form, terms.setting)
    counting = Counting(terms, merged)
    return [Enumeration(terms, merged), *([counting] if counting.fits else [])]


def choose(form: LinearForm, terms: DrawTerms, limits: Limits = _DEFAULT) -> Sampler:
    """The sampler that is proven to err least, and of several such the quickest."""
    to_size(terms.size)
    found, widest = _applicable(form, terms)
    feasible = [one for one in found if limits.allow(one.work())]
    if feasible:
        return min(feasible, key=lambda one: (one.bound.error(_BETA), one.work().seconds))
    raise _infeasible(form, terms, limits, found, widest)


def _applicable(form: LinearForm, terms: DrawTerms) -> tuple[list[Sampler], int]:
    """The samplers that apply, and how many atoms there are at the most if none does."""
    known = recognised(form, terms)
    found = [] if known is None else [known]
    # To merge many atoms would take longer than the draw, and all databases over so many can be
    # looked at for two or three records only, which is never the best size.
    if known is None or known.atoms * form.rows <= _LITTLE:
        try:
            found += general(form, terms)
        except TooLarge as error:
            return found, error.needed
    return found, 0


def _at(sampler: Sampler, size: int) -> Sampler:
    """The same sampler for another size."""
    # Every sampler is a frozen value with the terms of the draw among its fields.
    old = cast("Enumeration", sampler)
    return evolve(old, terms=evolve(old.terms, size=size))


def feasible_size(form: LinearForm, terms: DrawTerms, limits: Limits = _DEFAULT) -> int:
    """The largest size for which some sampler is within the limits; 0 where there is none."""
    found, _ = _applicable(form, evolve(terms, size=1))
    return max((_largest(one, limits) for one in found), default=0)


def covering_size(
    form: LinearForm, terms: DrawTerms, alpha: Real, limits: Limits = _DEFAULT
) -> int:
    """The fewest records with which some database is within alpha of every table; see `size_for`.

    By the best sampler that can draw so many within the limits; by any sampler if none can, so that
    `choose` then refuses the size.
    """
    found = _any_size(form, terms, limits)
    sizes = [size_for(alpha, one.coverage) for one in found]
    pairs = zip(found, sizes, strict=True)
    fitting = [size for one, size in pairs if limits.allow(_at(one, size).work())]
    return min(fitting or sizes)


def best_size(form: LinearForm, terms: DrawTerms, beta: float, limits: Limits = _DEFAULT) -> int:
    """The size within the limits whose error is least at a confidence, for public rows."""
    if terms.setting.rows is None:
        expected = "given, or alpha, where the number of rows is private"
        raise InvalidArgument("size", expected, "none")
    rows = max(1, terms.setting.rows)
    planned: list[tuple[Fraction, int]] = []
    for one in _any_size(form, terms, limits):
        if most := _largest(one, limits):
            size = one.family.best_size(one.rate, rows, beta, most)
            planned.append((_at(one, size).bound.error(beta), size))
    if not planned:
        return choose(form, evolve(terms, size=1), limits).terms.size
    return min(planned)[1]


def _any_size(form: LinearForm, terms: DrawTerms, limits: Limits) -> list[Sampler]:
    """All samplers that apply, at a size of one record."""
    single = evolve(terms, size=1)
    found, widest = _applicable(form, single)
    if not found:
        raise _infeasible(form, single, limits, found, widest)
    return found


def _largest(sampler: Sampler, limits: Limits) -> int:
    """The largest size for which a sampler is within the limits; 0 where there is none."""

    def fits(size: int) -> bool:
        return limits.allow(_at(sampler, size).work())

    if not fits(1):
        return 0
    low, high = 1, 2
    while high <= LARGEST_SIZE and fits(high):
        low, high = high, 2 * high
    high = min(high, LARGEST_SIZE + 1)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if fits(middle) else (low, middle)
    return low


def _infeasible(
    form: LinearForm, terms: DrawTerms, limits: Limits, found: Sequence[Sampler], atoms: int
) -> ExactSamplingInfeasible:
    best = min(found, key=lambda one: one.work().seconds, default=None)
    seconds, family = math.inf, Family(AnyCoverage(1, max(atoms, 1)), max(atoms, 1))
    if best is not None:
        seconds, family = best.work().seconds, best.family
    largest = feasible_size(form, terms, limits)
    alternatives = [f"size={largest}, the largest within the limits"] if largest else []
    alternatives += [
        "a larger alpha, for which fewer records are enough",
        "fewer functions, or coarser ones",
        "OnlinePMW, which draws nothing and answers any linear query",
    ]
    log2 = family.log_candidates(terms.size) / math.log(2)
    return ExactSamplingInfeasible(family.atoms, terms.size, log2, seconds, tuple(alternatives))
