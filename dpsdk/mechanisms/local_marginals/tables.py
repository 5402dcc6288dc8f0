"""Tables fitted one by one to what was released of them, and the answers and errors from them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import cached_property

import numpy as np

from dpsdk._arrays import frozen_copy
from dpsdk._checks import to_beta
from dpsdk._identity_map import IdentityMap
from dpsdk._records import cmp_using, evolve, field, frozen
from dpsdk.accuracy import SIZES, Accuracy, NoAccuracy
from dpsdk.codec import FLOAT, MEASURED, written
from dpsdk.domain import Domain
from dpsdk.forms import Facts, LinearForm
from dpsdk.hypothesis import Mixture
from dpsdk.kernel import Kernel, Reference
from dpsdk.learning.mixture import fit_mixture
from dpsdk.learning.raking import Cap, onto_simplex, rake, shrink, sums
from dpsdk.mechanisms.arguments import check_linear
from dpsdk.mechanisms.base import FittedTable
from dpsdk.mechanisms.local_marginals.sets import Attributes, Lattice, below
from dpsdk.release import HalfWidths, Measurement, Source, Standing
from dpsdk.typing import Floats

__all__ = ["Certified", "CertifiedAccuracy", "LocalStrategy", "Look", "Residual", "Tables"]

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
    """Tables of all widths, made of released numbers alone."""

    lattice: Lattice = field(repr=False)
    domain: Domain = field(repr=False)
    total: float
    residuals: Mapping[Attributes, Residual] = field(repr=False)
    single: tuple[Floats, ...] = field(repr=False)
    look: Look | None = None
    prior: Mixture | None = field(default=None, repr=False)
    _pairs: Mapping[Attributes, Floats] = field(factory=dict[Attributes, Floats], repr=False)
    _made: IdentityMap[Floats] = field(
        factory=lambda: IdentityMap[Floats](_KEPT, _KEPT_BYTES), init=False, repr=False
    )

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

    def fitted(self, prior: Mixture | None = None) -> Tables:
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
        """The table of a set, in rows: of one below the workload, or all of whose margins are."""
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


_UNPROVEN = (
    "measured with noise and then fitted, so that no bound is left",
    "open LocalMarginals with certify=, which bounds every table, or ResidualPlanner",
)
_BESIDE = (
    "the certificate is about the marginals of the workload, and this asks for others",
    "open a channel for a workload that has them, or use a mechanism that measures",
)
_RANK: tuple[Source, ...] = ("measured", "fitted", "hypothesis")


@frozen(eq=False)
class Certified:
    """Bounds of all tables of a workload at once, with probability 1 - beta."""

    radii: Mapping[Attributes, float] = field(repr=False)
    """For each set: by how many rows any sum of cells of its table may be off."""
    variations: Mapping[Attributes, float] = field(repr=False)
    """For each set: the largest total variation of the table and the true one, both in shares."""
    beta: float
    bits: int
    """The tables are those that were looked at, in whole steps of 2**-bits rows."""

    @classmethod
    def of(
        cls, sets: Sequence[Attributes], bounds: Floats, masses: Sequence[float], beta: float,
        bits: int,
    ) -> Certified:  # fmt: skip
        """The accuracy of tables with such sums, by bounds of total variation.

        No sum of cells of a table of sum m is off by more than m times its bound (proof note,
        lemma 3).
        """
        variations = dict(zip(sets, bounds.tolist(), strict=True))
        radii = {
            chosen: bound * mass if bound < 1.0 else math.inf
            for (chosen, bound), mass in zip(variations.items(), masses, strict=True)
        }
        return cls(radii, variations, beta, bits)


@written(
    "accuracy.certified", {"errors": SIZES, "beta": FLOAT, "variation": MEASURED}, public=False
)
@frozen
class CertifiedAccuracy(HalfWidths):
    """How far off sums of cells of tables may be that were looked at once more."""

    errors: Floats = field(
        converter=frozen_copy, eq=cmp_using(eq=np.array_equal), hash=False, repr=False
    )
    """For each number of the answer, in rows; infinite where it is of another table."""
    beta: float = field(converter=to_beta)
    """The probability, fixed at the opening, that any table of the workload is farther off."""
    variation: float
    """The largest total variation of the tables that this answer is made of."""
    standing: Standing = field(init=False, default="promised")

    @property
    def entries(self) -> int:
        """How many numbers it is of."""
        return len(self.errors)

    @property
    def kind(self) -> str:  # type: ignore[override]  # derived here, a field elsewhere
        """The basis of the bound."""
        return (
            "a certificate of all marginals of the workload at once: total variation at most "
            f"{self.variation:.3g}"
        )

    def radii(self, beta: float, *, joint: bool) -> Floats:
        """Half-widths in rows; infinite for a beta below that of the certificate."""
        del joint  # all tables are within theirs together
        if beta >= self.beta:
            return self.errors.copy()
        return np.full(len(self.errors), math.inf)

    def missing(self, beta: float, /) -> tuple[str, str]:
        """Why there is no bound at this beta, and from which on there is one."""
        return f"{self.kind} says nothing at beta={beta:g}", f"ask at a beta of {self.beta:g}"


@frozen(eq=False)
class LocalStrategy:
    """Answers from tables of its own, and from a distribution where it has none. Costs nothing."""

    tables: Tables = field(repr=False)
    facts: Facts
    components: int
    """How many products the distribution is a mixture of."""
    certified: Certified | None = None
    """The proven bounds of the tables of the workload."""

    @property
    def distribution(self) -> Mixture:
        """A mixture of products, fitted to all tables of two attributes once somebody asks."""
        return self._mixture

    @cached_property
    def _mixture(self) -> Mixture:
        return self.tables.mixture(self.components, self._outside_mass)

    @property
    def _outside_mass(self) -> float | None:
        """The share of the rows outside the domain, as far as that is known."""
        facts = self.facts
        if not facts.outside:
            return None
        if not facts.rows:
            return 0.0
        return min(max(1.0 - self.tables.total / facts.rows, 0.0), 1.0 - 2.0**-40)

    @property
    def _rows(self) -> float:
        """The rows inside and outside, of which shares are shares."""
        return self.tables.total / (1.0 - (self._outside_mass or 0.0))

    @property
    def listing(self) -> tuple[FittedTable, ...]:
        """The origin of each table of the workload, and of each below it."""
        certified = self.certified
        known: Mapping[Attributes, float] = {} if certified is None else certified.variations
        residuals = self.tables.residuals
        wanted = frozenset(self._lattice.wanted)
        rows: list[FittedTable] = []
        for chosen in self._lattice.closed:
            deviation = residuals[chosen].deviation if chosen in residuals else None
            names, source = self._named(chosen), self._source(chosen)
            found = FittedTable(names, chosen in wanted, source, deviation, known.get(chosen))
            rows.append(found)
        return tuple(rows)

    def shares(self, names: tuple[str, ...]) -> Floats:
        """The marginal of attributes in the order of the domain, in shares of the rows."""
        chosen = self._chosen(names)
        if not self._lattice.covers(chosen):
            return self.distribution.table(names)
        table = self._table(chosen)
        rows = self._rows
        return table / rows if rows else np.full(table.shape, 1.0 / table.size)

    def answer(self, form: LinearForm, kernel: Kernel, /) -> Measurement:
        """Counts of rows: of tables where there are any, of the distribution elsewhere."""
        del kernel
        check_linear(form, "LocalMarginals")
        values: list[Floats] = []
        errors: list[Floats] = []
        rank, variation = 0, 0.0
        certified = self.certified
        for block in form.blocks:
            chosen = self._chosen(block.names)
            if not self._lattice.covers(chosen):
                part = LinearForm(form.domain, (block,))
                values.append(self.distribution.answers(part) * self._rows)
                if certified is not None:
                    errors.append(np.full(block.rows, math.inf))
                rank = 2
                continue
            table = self._table(chosen)
            axes = [chosen.index(form.domain.position(name)) for name in block.names]
            values.append(np.asarray(block.answer(table.transpose(axes))).reshape(-1))
            rank = max(rank, _RANK.index(self._source(chosen)))
            if certified is None:
                continue
            variation = max(variation, certified.variations.get(chosen, 0.0))
            # Functions from 0 to 1 are off by no more than the radius, and so are their negatives.
            low, high = block.limits()
            reach = max(high, 0.0) + max(-low, 0.0)
            radius = certified.radii.get(chosen, math.inf)
            errors.append(np.full(block.rows, radius * reach if reach else 0.0))
        accuracy: Accuracy = NoAccuracy(*_UNPROVEN)
        if certified is not None:
            bounds = np.concatenate(errors)
            accuracy = CertifiedAccuracy(bounds, certified.beta, variation)
            if not bounds.min() < math.inf:
                accuracy = NoAccuracy(*_BESIDE)
        # A copy in any case, since a block may answer with the very table.
        return Measurement(np.concatenate(values), accuracy, _RANK[rank])

    @property
    def _lattice(self) -> Lattice:
        return self.tables.lattice

    def _chosen(self, names: tuple[str, ...]) -> Attributes:
        return tuple(sorted(self.facts.domain.position(name) for name in names))

    def _table(self, chosen: Attributes) -> Floats:
        """The table of a set, in rows; that which was looked at, if it was."""
        table = self.tables.table(chosen)
        certified = self.certified
        if certified is None or chosen not in certified.radii:
            return table
        return Reference(self._named(chosen), table).rounded(certified.bits)

    def _named(self, chosen: Attributes) -> tuple[str, ...]:
        return tuple([self.tables.names[place] for place in chosen])

    def _source(self, chosen: Attributes) -> Source:
        return "measured" if not chosen or chosen in self.tables.residuals else "fitted"
