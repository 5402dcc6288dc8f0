"""Answers from fitted tables, the origin of each, and their errors."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import cached_property

import numpy as np

from dpsdk._arrays import frozen_copy
from dpsdk._checks import to_beta
from dpsdk._records import cmp_using, field, frozen
from dpsdk.accuracy import SIZES, Accuracy, NoAccuracy
from dpsdk.codec import FLOAT, MEASURED, written
from dpsdk.forms import Facts, LinearForm
from dpsdk.hypothesis import Mixture
from dpsdk.kernel import Kernel, Reference
from dpsdk.mechanisms.base import FittedTable
from dpsdk.mechanisms.local_marginals.sets import Attributes, Lattice
from dpsdk.mechanisms.local_marginals.tables import Tables
from dpsdk.mechanisms.refusals import check_linear
from dpsdk.release import HalfWidths, Measurement, Source, Standing
from dpsdk.typing import Floats

__all__ = ["Certified", "CertifiedAccuracy", "LocalStrategy"]

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

        A bound below 1 is (D + min(D, z)) / (2 m) for a table of sum m, whose distance is at most D
        and whose sum is off by z at the most. No sum of its cells is off by more than m times that:
        it is at most half of the distance and half of the gap of the sums (proof note, lemma 3).
        """
        variations = dict(zip(sets, bounds.tolist(), strict=True))
        radii = {
            chosen: bound * mass if bound < 1.0 else math.inf
            for (chosen, bound), mass in zip(variations.items(), masses, strict=True)
        }
        return cls(radii, variations, beta, bits)


@written(
    "accuracy.certified",
    {"errors": SIZES, "beta": FLOAT, "variation": MEASURED},
    public=False,
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


def _bounded(errors: Sequence[Floats], variation: float, beta: float) -> Accuracy:
    joined = np.concatenate(errors)
    if not joined.min() < math.inf:
        return NoAccuracy(*_BESIDE)
    return CertifiedAccuracy(joined, beta, variation)


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
        return tuple(
            [
                FittedTable(
                    self._named(chosen),
                    chosen in wanted,
                    self._source(chosen),
                    residuals[chosen].deviation if chosen in residuals else None,
                    known.get(chosen),
                )
                for chosen in self._lattice.closed
            ]
        )

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
        # A copy in any case, since a block may answer with the very table.
        joined = np.concatenate(values)
        if certified is None:
            return Measurement(joined, NoAccuracy(*_UNPROVEN), _RANK[rank])
        return Measurement(joined, _bounded(errors, variation, certified.beta), _RANK[rank])

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
