"""Tables fitted one by one, smallest first, to what was released of them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Protocol

import numpy as np

from dpsdk._identity_map import IdentityMap
from dpsdk._records import evolve, field, frozen
from dpsdk.domain import Domain
from dpsdk.hypothesis import Mixture
from dpsdk.learning.mixture import fit_mixture
from dpsdk.learning.raking import onto_simplex, rake, sums
from dpsdk.learning.shrinkage import Cap, shrink
from dpsdk.mechanisms.local_marginals.sets import Attributes, Lattice, below
from dpsdk.typing import Floats

__all__ = ["Look", "Prior", "Residual", "Tables"]

_LEAST_DISTANCE = 0.5
"""The prior of a table may be so many standard deviations of the look from independence, always."""

_MOST_DISTANCE = 2.0
"""A fitted table may be so many standard deviations farther from it than the look saw."""

_LABELS = 2**13
"""Of more labels than these, of all attributes together, the mixture is one product."""

_ITERATIONS = 150
_LEAST_SHARE = 1e-9

_SLACK = 1e-3
"""The fit is as good as this, as a share of all rows."""

_RAKING = 10
_KEPT = 64
_KEPT_BYTES = 2**23


def _recent() -> IdentityMap[Floats]:
    return IdentityMap(_KEPT, _KEPT_BYTES)


class Prior(Protocol):
    """A public distribution whose marginals tables are drawn towards."""

    def table(self, names: tuple[str, ...], /) -> Floats:
        """The marginal of some attributes, in shares."""
        ...


@frozen(eq=False)
class Residual:
    """The measured part of a table beyond its margins, and its standard deviation in a cell."""

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
    """For each set: the noisy distance from the product of its single attributes, in rows."""
    deviation: float
    single: tuple[Floats, ...] = field(repr=False)
    """The tables of single attributes whose products they are."""

    def away(self, chosen: Attributes, least: float) -> float:
        """The distance of a table, or at least so many standard deviations; infinite if unseen."""
        seen = self.distances.get(chosen)
        return math.inf if seen is None else max(seen, least * self.deviation)


@frozen(eq=False)
class Tables:
    """Tables of all widths, made of released numbers alone.

    Tables of one and two attributes are kept; wider ones are made when they are asked for, and are
    the same each time. They have `total` rows.
    """

    lattice: Lattice = field(repr=False)
    domain: Domain = field(repr=False)
    total: float
    residuals: Mapping[Attributes, Residual] = field(repr=False)
    single: tuple[Floats, ...] = field(repr=False)
    look: Look | None = None
    prior: Prior | None = field(default=None, repr=False)
    _pairs: Mapping[Attributes, Floats] = field(factory=dict[Attributes, Floats], repr=False)
    _made: IdentityMap[Floats] = field(factory=_recent, init=False, repr=False)

    @classmethod
    def of(
        cls, lattice: Lattice, domain: Domain, total: float,
        residuals: Mapping[Attributes, Residual], look: Look | None = None,
    ) -> Tables:  # fmt: skip
        """The tables of single attributes: the nearest possible ones to what was measured."""
        single: list[Floats] = []
        for place, size in enumerate(lattice.sizes):
            known = residuals.get((place,))
            flat = np.full(size, total / size)
            single.append(flat if known is None else onto_simplex(flat + known.values, total))
        return cls(lattice, domain, total, residuals, tuple(single), look)

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the attributes of the domain."""
        return self.domain.names

    def fitted(self, prior: Prior | None = None) -> Tables:
        """The same with all tables of two attributes made, from a prior or from independence."""
        empty = evolve(self, prior=prior, pairs={})
        pairs: dict[Attributes, Floats] = {}
        for stack in self.lattice.stacks:
            if len(stack.sets[0]) == 2:
                pairs.update(zip(stack.sets, empty._stack(stack.sets), strict=True))
        return evolve(empty, pairs=pairs)

    def mixture(
        self, components: int, outside_mass: float | None = None, *, iterations: int = _ITERATIONS
    ) -> Mixture:
        """A mixture of products near to all tables of two attributes, and to those of one."""
        domain, names = self.domain, self.names
        known = self._pairs
        rows = self.total / (1.0 - (outside_mass or 0.0)) or None
        if not known or sum(domain.shape) > _LABELS:
            tables = {
                name: np.maximum(table, _LEAST_SHARE)[None]
                for name, table in zip(names, self.single, strict=True)
            }
            return Mixture(domain, [1.0], tables, outside_mass=outside_mass, rows=rows)
        found = {tuple([names[place] for place in chosen]): known[chosen] for chosen in known}
        for place, table in enumerate(self.single):
            found[(names[place],)] = table
        return fit_mixture(
            domain, found, components=components, iterations=iterations, outside_mass=outside_mass,
            rows=rows,
        )  # fmt: skip

    def table(self, chosen: Attributes) -> Floats:
        """The table of a set, in rows: of one below the workload, or all of whose margins are.

        With one axis an attribute, in the order of the domain. Only to be read.
        """
        if not chosen:
            return np.array(self.total)
        if len(chosen) == 1:
            return self.single[chosen[0]]
        known = self._pairs.get(chosen)
        if known is not None:
            return known
        place = self.lattice.places.get(chosen)
        if place is None:
            table: Floats = self._stack((chosen,))[0]
            return table
        stack, number = place
        tables = self._made.get(stack)
        if tables is None:
            tables = self._stack(stack.sets)
            self._made.keep(stack, tables, tables.nbytes)
        found: Floats = tables[number]
        return found

    def independent(
        self, sets: Sequence[Attributes], single: Sequence[Floats] | None = None
    ) -> Floats:
        """The products of tables of single attributes, its own or others, for sets of one shape."""
        single = self.single if single is None else single
        width = len(sets[0])
        tables = np.full((len(sets), *[1] * width), max(self.total, 0.0))
        for axis in range(width):
            shape = [len(sets), *[1] * width]
            shape[axis + 1] = -1
            shares = np.stack([single[chosen[axis]] for chosen in sets])
            tables = tables * (shares / (self.total or 1.0)).reshape(shape)
        return tables

    def _unraked(self, sets: Sequence[Attributes]) -> Floats:
        prior, look, names = self.prior, self.look, self.names
        if prior is None:
            return self.independent(sets)
        tables: Floats = np.empty((len(sets), *self.lattice.shape(sets[0])))
        for table, chosen in zip(tables, sets, strict=True):
            table[:] = prior.table(tuple([names[place] for place in chosen]))
        tables *= self.total
        if len(sets[0]) > 2 or look is None:
            return tables
        independent = self.independent(sets)
        apart = tables - independent
        far = sums(np.abs(apart))
        seen = np.array([look.away(chosen, _LEAST_DISTANCE) for chosen in sets])
        part = np.minimum(1.0, np.divide(seen, far, out=np.ones_like(far), where=far > 0))
        nearer: Floats = apart * part.reshape(-1, *[1] * len(sets[0]))
        pulled: Floats = np.maximum(independent + nearer, 0.0)
        return pulled

    def _margins(self, sets: Sequence[Attributes]) -> list[Floats]:
        """The margins of the tables of sets of one shape, made before."""
        lower = [below(chosen) for chosen in sets]
        return [
            np.expand_dims(np.stack([self.table(each[axis]) for each in lower]), axis + 1)
            for axis in range(len(sets[0]))
        ]

    def _stack(self, sets: Sequence[Attributes]) -> Floats:
        """The tables of sets of one shape, in rows, shape (sets, ...)."""
        unraked, margins = self._unraked(sets), self._margins(sets)
        known = [self.residuals.get(chosen) for chosen in sets]
        measured = [place for place, one in enumerate(known) if one is not None]
        there = [one for one in known if one is not None]
        if not there:
            return rake(unraked, margins, sweeps=_RAKING)
        tables = np.empty_like(unraked)
        if len(there) < len(sets):
            rest = [place for place, one in enumerate(known) if one is None]
            within = [margin[rest] for margin in margins]
            tables[rest] = rake(unraked[rest], within, sweeps=_RAKING)
        tables[measured] = shrink(
            np.stack([one.values for one in there]),
            np.array([one.deviation for one in there]),
            unraked[measured],
            [margin[measured] for margin in margins],
            self._cap([sets[place] for place in measured]),
        )
        return tables

    def _cap(self, sets: Sequence[Attributes]) -> Cap | None:
        """No table of two attributes goes farther from independence than the look allows."""
        look = self.look
        if len(sets[0]) != 2 or look is None:
            return None
        seen = np.array([look.away(chosen, 0.0) for chosen in sets])
        reach = seen + _MOST_DISTANCE * look.deviation + _SLACK * self.total
        return Cap(self.independent(sets, look.single), reach)
