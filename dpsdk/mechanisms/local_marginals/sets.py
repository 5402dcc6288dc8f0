"""Sets of attributes: which a workload asks for, and what is bought of them for which price."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Mapping, Sequence
from fractions import Fraction
from functools import cached_property
from typing import TypeAlias

import numpy as np

from dpsdk._records import frozen
from dpsdk.accounting.numbers import truncated
from dpsdk.errors import InvalidArgument, TooLarge
from dpsdk.forms import Facts
from dpsdk.kernel import GaussianNoise, MeasureResiduals
from dpsdk.release import Cost
from dpsdk.typing import Floats

__all__ = [
    "Attributes",
    "Lattice",
    "Spending",
    "Stack",
    "below",
    "counted",
    "first_deviations",
    "prices",
    "request_for",
]

Attributes: TypeAlias = tuple[int, ...]
"""The positions of some attributes in their domain, rising."""

SET_LIMIT = 2**16
"""Beyond so many sets the plan alone would take minutes."""

CELL_LIMIT = 2**24
"""No single table has more cells."""

_STACKED = 2**16
"""Cells of the tables of one shape that are fitted together, unless one table has more."""

_MEASURED = 2**23
_MEASURED_WIDE = 2**15
_EXACT = 2**53

_ROWS = 2**47
"""So many rows fit every look: in steps of 2^-12 rows, and twice over, they stay within 2^61."""


_FEWER_ROWS = "declare a smaller max_rows"


def below(chosen: Attributes) -> list[Attributes]:
    """The sets of one attribute less: the i-th is without the i-th attribute."""
    return [chosen[:place] + chosen[place + 1 :] for place in range(len(chosen))]


@frozen(eq=False)
class Stack:
    """Sets whose tables have one shape, always made together: so each is always the same."""

    sets: tuple[Attributes, ...]


@frozen
class Lattice:
    """The sets of a workload and all sets below them, but for the empty one."""

    sizes: tuple[int, ...]
    """How many cells each attribute of the domain has."""
    wanted: tuple[Attributes, ...]
    """The sets that were asked for, smaller ones first, each once."""
    closed: tuple[Attributes, ...]
    """Those and all sets below them, in the same order."""
    row_limit: int = 1

    @classmethod
    def of(cls, sizes: tuple[int, ...], sets: Iterable[Attributes], row_limit: int = 1) -> Lattice:
        """The lattice of a workload, over tables of no more rows than a public limit."""
        if row_limit > _ROWS:
            raise TooLarge("LocalMarginals", row_limit, _ROWS, "rows", _FEWER_ROWS)
        wanted = {chosen for chosen in sets if chosen}
        closed: set[Attributes] = set()
        for chosen in wanted:
            _check(sizes, chosen)
            if chosen in closed:
                continue
            for width in range(1, len(chosen) + 1):
                closed.update(itertools.combinations(chosen, width))
            if len(closed) > SET_LIMIT:
                raise _too_many(len(closed))
        for place in {place for chosen in wanted for place in chosen}:
            if sizes[place] * row_limit >= _EXACT:
                most = (_EXACT - 1) // sizes[place]
                raise TooLarge("LocalMarginals", row_limit, most, "rows", _FEWER_ROWS)
        asked, known = (tuple(sorted(found, key=_order)) for found in (wanted, closed))
        return cls(sizes, asked, known, max(row_limit, 1))

    @property
    def singles(self) -> tuple[Attributes, ...]:
        """The sets of one attribute."""
        return tuple([chosen for chosen in self.closed if len(chosen) == 1])

    @cached_property
    def measurable(self) -> frozenset[Attributes]:
        """The sets of two attributes or more that are looked at, and may be measured."""
        room, found = _MEASURED, set[Attributes]()
        wide = [chosen for chosen in self.closed if len(chosen) > 1]
        for chosen in sorted(wide, key=lambda one: (len(one), self.cells(one), one)):
            cells = self.cells(chosen)
            if min(self.shape(chosen)) < 2 or (len(chosen) > 2 and cells > _MEASURED_WIDE):
                continue
            if cells * self.row_limit >= _EXACT:
                continue
            room -= cells
            if room < 0:
                break
            found.add(chosen)
        return frozenset(found)

    @cached_property
    def stacks(self) -> tuple[Stack, ...]:
        """All sets of two attributes or more, smaller ones first, by the shapes of their tables."""
        alike: dict[tuple[int, ...], list[Attributes]] = {}
        for chosen in self.closed:
            if len(chosen) > 1:
                alike.setdefault(self.shape(chosen), []).append(chosen)
        found: list[Stack] = []
        for group in alike.values():
            step = max(1, _STACKED // self.cells(group[0]))
            found += [Stack(tuple(group[k : k + step])) for k in range(0, len(group), step)]
        return tuple(found)

    @cached_property
    def places(self) -> dict[Attributes, tuple[Stack, int]]:
        """In which stack each set is, and where there."""
        return {
            chosen: (stack, place)
            for stack in self.stacks
            for place, chosen in enumerate(stack.sets)
        }

    def covers(self, chosen: Attributes) -> bool:
        """True if a set has a table of its own: it is below the workload, or all below it are."""
        known = self._known
        return (
            not chosen
            or chosen in known
            or (
                len(chosen) > 1
                and self.cells(chosen) <= CELL_LIMIT
                and all(lower in known for lower in below(chosen))
            )
        )

    @cached_property
    def _known(self) -> frozenset[Attributes]:
        return frozenset(self.closed)

    def shape(self, chosen: Attributes) -> tuple[int, ...]:
        """The shape of a table."""
        return tuple(self.sizes[place] for place in chosen)

    def cells(self, chosen: Attributes) -> int:
        """How many cells a table has."""
        return _cells(self.sizes, chosen)

    def worths(self, sets: Iterable[Attributes]) -> Floats:
        """By how much errors of sets count: 1 if asked for, a half for each attribute beyond."""
        found: dict[Attributes, float] = dict.fromkeys(self.closed, 0.0)
        for chosen in self.wanted:
            for width in range(1, len(chosen) + 1):
                share = 0.5 ** (len(chosen) - width)
                for lower in itertools.combinations(chosen, width):
                    found[lower] += share
        return np.array([found.get(chosen, 0.0) for chosen in sets])


def _order(chosen: Attributes) -> tuple[int, Attributes]:
    return len(chosen), chosen


def _cells(sizes: tuple[int, ...], chosen: Attributes) -> int:
    return math.prod(sizes[place] for place in chosen)


def _check(sizes: tuple[int, ...], chosen: Attributes) -> None:
    cells = _cells(sizes, chosen)
    if cells > CELL_LIMIT:
        advice = "ask for fewer attributes at a time, or declare coarser ones"
        raise TooLarge("a table of LocalMarginals", cells, CELL_LIMIT, "cells", advice)
    if 2 ** len(chosen) - 1 > SET_LIMIT:
        raise _too_many(2 ** len(chosen) - 1)


def _too_many(count: int) -> TooLarge:
    advice = "ask for fewer marginals, or narrower ones"
    return TooLarge("LocalMarginals", count, SET_LIMIT, "sets of attributes", advice)


_FINE = 2.0**10
"""Scales are whole numbers: the smallest of a request is about this."""

_ROOM = 2.0**60
_WIDEST = 2.0**54
"""In steps of its request, no noise has a larger deviation."""

_LONGEST = 2.0**122
_NOISE_ROOM = 2.0**9
"""The variance of noise is at least 64 steps, and less than four times that where it is not more
anyway: for a ρ, squared lengths of 512 ρ do."""

_LOOK_STEP = 2.0**13
"""By how much a row may move a look that is in steps of 2^-12 rows."""

_DIGITS = 15


@frozen
class Spending:
    """The noise of each step, None for a step that is left out."""

    first: GaussianNoise | None
    look: GaussianNoise | None
    rest: GaussianNoise | None
    certify: GaussianNoise | None

    @classmethod
    def of(
        cls, rho: Fraction, lattice: Lattice, facts: Facts, first: Fraction, look: Fraction,
        certify: Fraction | None,
    ) -> Spending:  # fmt: skip
        """How so much ρ is spent, by the shares of steps; what they plan to buy has the rest."""
        single = any(lattice.sizes[chosen[0]] > 1 for chosen in lattice.singles)
        if not single and counted(facts):
            return cls(None, None, None, None)
        if not single:
            return cls(_noise(rho), None, None, None)
        look = look if lattice.measurable else Fraction(0)
        rest = 1 - first - look - (certify or 0)
        return cls(
            _noise(rho * first),
            _noise(rho * look) if look else None,
            _noise(rho * rest),
            None if certify is None else _noise(rho * certify),
        )

    def check(self, lattice: Lattice, facts: Facts) -> None:
        """Refuse beforehand what would be refused in the middle, whatever plan comes out."""
        bought = [noise for noise in (self.first, self.rest) if noise is not None]
        looked = [noise for noise in (self.look, self.certify) if noise is not None]
        least = min([float(noise.rho) for noise in bought + looked], default=1.0)
        room = _WIDEST * math.sqrt(2 * least)
        sets, rows = [*lattice.singles, *lattice.measurable], max(facts.row_limit, 1)
        longest = _length(len(sets), facts) * max(map(lattice.cells, sets), default=1)
        if looked:
            longest = max(longest, _LOOK_STEP * _length(len(lattice.closed), facts))
        if longest > room:
            expected = "larger, since its noise might not fit 64 bits"
            raise InvalidArgument("rho", expected, f"{least:g} for a step")
        most = max([float(noise.rho) for noise in bought], default=0.0)
        widest = max(map(len, sets), default=0)
        if most * _NOISE_ROOM * 2.0**widest * float(rows) ** 2 >= _LONGEST:
            expected = "smaller, since counts of so many rows might not fit 64 bits"
            raise InvalidArgument("rho", expected, f"{most:g} for a step, and up to {rows:,} rows")

    @property
    def steps(self) -> tuple[GaussianNoise, ...]:
        """The noise of the steps that are taken, in their order."""
        steps = (self.first, self.look, self.rest, self.certify)
        return tuple([noise for noise in steps if noise is not None])

    @property
    def cost(self) -> Cost:
        """The most that the steps cost."""
        return Cost([noise.cover for noise in self.steps])


def _length(count: int, facts: Facts) -> float:
    """How far a person moves so many residuals, of one step each, at the most."""
    return math.sqrt(2 * (count + 1)) * facts.unit_rows


def counted(facts: Facts) -> bool:
    """True if the number of rows inside the domain is public."""
    return facts.rows is not None and not facts.outside


def _noise(rho: Fraction) -> GaussianNoise:
    """Noise of so much ρ, in few digits and rounded down, so that what follows is quick."""
    return GaussianNoise(truncated(rho, _DIGITS))


def prices(sets: Sequence[Attributes], sizes: Sequence[int], *, replaced: bool) -> Floats:
    """The price of the residual of each set in ρ at a standard deviation of one row."""
    found = np.empty(len(sets))
    for place, chosen in enumerate(sets):
        shape = [sizes[one] for one in chosen]
        if replaced and shape:
            least = min(shape)
            shape.remove(least)
            found[place] = 2 * math.prod(1 - 1 / size for size in shape)
        else:
            found[place] = math.prod(1 - 1 / size for size in shape)
    return found / 2


def first_deviations(lattice: Lattice, sets: Sequence[Attributes], *, replaced: bool) -> Floats:
    """The noise of the first purchase, up to a factor, for the least sum of absolute errors."""
    worths = [
        max(1.0, float(len(lattice.wanted))) if not chosen else worth
        for chosen, worth in zip(sets, lattice.worths(sets), strict=True)
    ]
    cells = [lattice.cells(chosen) for chosen in sets]
    price = prices(sets, lattice.sizes, replaced=replaced)
    deviations: Floats = (price / (np.array(worths) * np.array(cells))) ** (1 / 3)
    return deviations


def request_for(
    deviations: Mapping[Attributes, float], lattice: Lattice, facts: Facts, noise: GaussianNoise
) -> MeasureResiduals:
    """Residuals that are bought together, with noise in given proportions."""
    sets = list(deviations)
    wanted = np.array([deviations[chosen] for chosen in sets])
    cells = np.array([float(lattice.cells(chosen)) for chosen in sets])
    # A scale is inverse to the noise of N_T residuals; they are as fine as 64 bits have room, both
    # for all rows and for the noise.
    room = _WIDEST / 2 * math.sqrt(2 * float(noise.rho)) / _length(len(sets), facts)
    unit = min(
        _FINE * float((wanted * cells).max()),
        min(_ROOM / max(facts.row_limit, 1), room) * float(wanted.min()),
    )
    scales = [max(1, round(scale)) for scale in (unit / (wanted * cells)).tolist()]
    names = facts.domain.names
    named = [tuple(names[place] for place in chosen) for chosen in sets]
    return MeasureResiduals(named, scales, noise)
