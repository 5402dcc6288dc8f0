"""Tables fitted one by one, smallest first, to what was released of them."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Protocol

import numpy as np
from attrs import evolve, field, frozen

from dpsdk.learning.raking import onto_simplex, rake, sums
from dpsdk.learning.shrinkage import Cap, shrink
from dpsdk.mechanisms.local_marginals.sets import Attributes, Lattice, below, stacks
from dpsdk.typing import Floats

__all__ = ["Look", "Prior", "Residual", "Tables"]

_LEAST_DISTANCE = 0.5
"""The prior of a table may be so many standard deviations of the look from independence, always."""

_MOST_DISTANCE = 2.0
"""A fitted table may be so many standard deviations farther from it than the look saw."""

_RAKING = 10


class Prior(Protocol):
    """A public distribution whose marginals tables are drawn towards."""

    def table(self, names: tuple[str, ...], /) -> Floats:
        """The marginal of some attributes, in shares."""
        ...


@frozen(eq=False)
class Residual:
    """What was measured of a table beyond its margins, and its standard deviation in a cell."""

    values: Floats = field(repr=False)
    deviation: float

    def joined(self, other: Residual) -> Residual:
        """The mean of both, weighted by their precisions."""
        mine, theirs = self.deviation**-2, other.deviation**-2
        values = (mine * self.values + theirs * other.values) / (mine + theirs)
        return Residual(values, (mine + theirs) ** -0.5)


@frozen(eq=False)
class Look:
    """How far tables are from independence, as far as noise of one standard deviation tells."""

    distances: Mapping[Attributes, float] = field(repr=False)
    deviation: float

    def away(self, chosen: Attributes, least: float) -> float:
        """The distance of a table, or at least so many standard deviations; infinite if unseen."""
        seen = self.distances.get(chosen)
        return math.inf if seen is None else max(seen, least * self.deviation)


@frozen(eq=False)
class Tables:
    """Tables of all widths, made of released numbers alone.

    Tables of one and two attributes are kept; wider ones are made when they are asked for, and are
    the same each time.

    Parameters
    ----------
    lattice
        The sets in question.
    names
        The names of the attributes of the domain.
    total
        How many rows the tables have.
    residuals
        What was measured.
    """

    lattice: Lattice = field(repr=False)
    names: tuple[str, ...] = field(repr=False)
    total: float
    residuals: Mapping[Attributes, Residual] = field(repr=False)
    single: tuple[Floats, ...] = field(repr=False)
    look: Look | None = None
    prior: Prior | None = field(default=None, repr=False)
    pairs: Mapping[Attributes, Floats] = field(factory=dict[Attributes, Floats], repr=False)

    @classmethod
    def of(
        cls,
        lattice: Lattice,
        names: tuple[str, ...],
        total: float,
        residuals: Mapping[Attributes, Residual],
        look: Look | None = None,
    ) -> Tables:
        """The tables of single attributes: the nearest possible ones to what was measured."""
        single: list[Floats] = []
        for place, size in enumerate(lattice.sizes):
            known = residuals.get((place,))
            flat = np.full(size, total / size)
            single.append(flat if known is None else onto_simplex(flat + known.values, total))
        return cls(lattice, names, total, residuals, tuple(single), look)

    def fitted(self, prior: Prior | None = None) -> Tables:
        """The same with tables of two attributes, drawn towards a prior, or independence."""
        empty = evolve(self, prior=prior, pairs={})
        pairs: dict[Attributes, Floats] = {}
        for group in stacks(self.lattice, self.lattice.pairs):
            pairs.update(zip(group, empty.stack(group), strict=True))
        return evolve(empty, pairs=pairs)

    def table(self, chosen: Attributes) -> Floats:
        """The table of a set, in rows, of whatever width."""
        return self.stack([chosen])[0]

    def all(self, sets: Sequence[Attributes]) -> Iterator[tuple[Attributes, Floats]]:
        """Sets with their tables, those of one shape together."""
        for group in stacks(self.lattice, sets):
            yield from zip(group, self.stack(group), strict=True)

    def independent(self, sets: Sequence[Attributes]) -> Floats:
        """The products of the tables of single attributes, for sets of one shape."""
        width = len(sets[0])
        tables = np.full((len(sets), *[1] * width), max(self.total, 0.0))
        for axis in range(width):
            shape = [len(sets), *[1] * width]
            shape[axis + 1] = -1
            shares = np.stack([self.single[chosen[axis]] for chosen in sets])
            tables = tables * (shares / (self.total or 1.0)).reshape(shape)
        return tables

    def priors(self, sets: Sequence[Attributes]) -> Floats:
        """The tables of sets of one shape as they would be if nothing was measured of them."""
        return rake(self._unraked(sets), self._margins(sets), sweeps=_RAKING)

    def _unraked(self, sets: Sequence[Attributes]) -> Floats:
        independent = self.independent(sets)
        prior = self.prior
        if prior is None:
            return independent
        names = self.names
        tables = [prior.table(tuple(names[place] for place in chosen)) for chosen in sets]
        apart = self.total * np.stack(tables) - independent
        if len(sets[0]) > 2 or self.look is None:
            return np.maximum(independent + apart, 0.0)
        far = sums(np.abs(apart))
        seen = np.array([self.look.away(chosen, _LEAST_DISTANCE) for chosen in sets])
        part = np.minimum(1.0, np.divide(seen, far, out=np.ones_like(far), where=far > 0))
        return np.maximum(independent + apart * part.reshape(-1, *[1] * len(sets[0])), 0.0)

    def _margins(self, sets: Sequence[Attributes]) -> list[Floats]:
        """The margins of the tables of sets of one shape, fitted before."""
        if len(sets[0]) == 1:
            return [np.full((len(sets), 1), self.total)]
        lower = [below(chosen) for chosen in sets]
        return [
            np.expand_dims(self.stack([each[axis] for each in lower]), axis + 1)
            for axis in range(len(sets[0]))
        ]

    def stack(self, sets: Sequence[Attributes]) -> Floats:
        """The tables of sets of one shape, in rows, shape (sets, ...)."""
        if len(sets[0]) == 1:
            return np.stack([self.single[chosen[0]] for chosen in sets])
        if all(chosen in self.pairs for chosen in sets):
            return np.stack([self.pairs[chosen] for chosen in sets])
        measured = [place for place, chosen in enumerate(sets) if chosen in self.residuals]
        unraked, margins = self._unraked(sets), self._margins(sets)
        if len(measured) < len(sets):
            tables = rake(unraked, margins, sweeps=_RAKING)
        else:
            tables = np.empty_like(unraked)
        if measured:
            chosen = [sets[place] for place in measured]
            known = [self.residuals[one] for one in chosen]
            cap = None
            if len(chosen[0]) == 2 and self.look is not None:
                sd, seen = self.look.deviation, [self.look.away(one, 0.0) for one in chosen]
                reach = np.array(seen) + _MOST_DISTANCE * sd
                cap = Cap(self.independent(chosen), reach)
            tables[measured] = shrink(
                np.stack([one.values for one in known]),
                np.array([one.deviation for one in known]),
                unraked[measured],
                [margin[measured] for margin in margins],
                cap,
            )
        return tables
