"""What each step of LocalMarginals may cost, and what it buys first: all of it public."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from fractions import Fraction

import numpy as np
from attrs import frozen

from dpsdk.accounting import Budget, Guarantee
from dpsdk.accounting.numbers.rounding import truncated
from dpsdk.errors import InvalidArgument
from dpsdk.forms import Facts
from dpsdk.kernel import GaussianNoise, MeasureResiduals, Terms
from dpsdk.mechanisms.local_marginals.sets import Attributes, Lattice
from dpsdk.release import Cost
from dpsdk.typing import Floats

__all__ = ["Shares", "Spending", "counted", "first_deviations", "prices", "request_for"]

_FINE = 2.0**10
"""Scales are whole numbers: the smallest of a request is about this."""

_ROOM = 2.0**60
_DIGITS = 15


@frozen
class Shares:
    """What parts of the total the steps take; the purchases that they plan take the rest."""

    first: Fraction
    look: Fraction
    certify: Fraction | None


@frozen
class Spending:
    """The noise of each step, None for a step that is left out."""

    first: GaussianNoise | None
    look: GaussianNoise | None
    rest: GaussianNoise | None
    certify: GaussianNoise | None

    @classmethod
    def of(cls, shares: Shares, rho: Fraction, lattice: Lattice, facts: Facts) -> Spending:
        """How so much ρ is spent. A step that has nothing to do costs nothing."""
        single = any(lattice.sizes[chosen[0]] > 1 for chosen in lattice.singles)
        if not single and counted(facts):
            return cls(None, None, None, None)
        if not single:
            return cls(_noise(rho), None, None, None)
        certify = shares.certify
        look = shares.look if lattice.measurable else Fraction(0)
        rest = 1 - shares.first - look - (certify or 0)
        return cls(
            _noise(rho * shares.first),
            _noise(rho * look) if look else None,
            _noise(rho * rest),
            None if certify is None else _noise(rho * certify),
        )

    @classmethod
    def within(
        cls, shares: Shares, total: Budget | Fraction, lattice: Lattice, terms: Terms
    ) -> Spending:
        """How a total is spent: an (ε, δ) by the composition of the session, or a ρ.

        Raises
        ------
        InvalidArgument
            If nothing can be measured for so little.
        """
        facts = terms.facts
        if isinstance(total, Fraction):
            return cls.of(shares, total, lattice, facts)

        def runs(rho: Fraction) -> Sequence[Guarantee]:
            return cls.of(shares, rho, lattice, facts).cost.guarantees

        rho = terms.calibrate(runs, total)
        if not rho:
            expected = "large enough that the steps fit by the composition of the session"
            raise InvalidArgument("epsilon and delta", expected, str(total))
        return cls.of(shares, rho, lattice, facts)

    @property
    def steps(self) -> tuple[GaussianNoise, ...]:
        """The noise of the steps that are taken, in their order."""
        steps = (self.first, self.look, self.rest, self.certify)
        return tuple([noise for noise in steps if noise is not None])

    @property
    def cost(self) -> Cost:
        """What the steps cost at the most."""
        return Cost([noise.cover for noise in self.steps])


def counted(facts: Facts) -> bool:
    """Whether the number of rows inside the domain is public."""
    return facts.rows is not None and not facts.outside


def _noise(rho: Fraction) -> GaussianNoise:
    """Noise of so much ρ, in few digits and rounded down, so that what follows is quick."""
    return GaussianNoise(truncated(rho, _DIGITS))


def prices(sets: Sequence[Attributes], sizes: Sequence[int], *, replaced: bool) -> Floats:
    """What the residual of each set costs in ρ at a standard deviation of one row.

    Where rows are exchanged this is what it costs alone; several may cost less than their sum.
    """
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
    """The noise of the first purchase, up to one factor: the number of rows and single attributes.

    For the least sum of absolute errors, each as often as it counts; the number of rows counts at
    every table.
    """
    worths = [
        max(1.0, float(len(lattice.wanted))) if not chosen else worth
        for chosen, worth in zip(sets, lattice.worths(sets), strict=True)
    ]
    cells = [lattice.cells(chosen) for chosen in sets]
    price = prices(sets, lattice.sizes, replaced=replaced)
    deviations: Floats = (price / (np.array(worths) * np.array(cells))) ** (1 / 3)
    return deviations


def request_for(
    deviations: Mapping[Attributes, float],
    lattice: Lattice,
    names: Sequence[str],
    row_limit: int,
    noise: GaussianNoise,
) -> MeasureResiduals:
    """Residuals that are bought together, with noise in given proportions.

    Parameters
    ----------
    deviations
        What the noise of each set should be, up to one factor.
    lattice, names
        The sizes and the names of the attributes of the domain.
    row_limit
        No table has more rows.
    noise
        What all of them cost.
    """
    sets = list(deviations)
    wanted = np.array([deviations[chosen] for chosen in sets])
    cells = np.array([float(lattice.cells(chosen)) for chosen in sets])
    # A scale is inverse to the noise of N_T residuals; they are as fine as 64 bits have room.
    unit = min(_FINE * float((wanted * cells).max()), _ROOM / max(row_limit, 1) * wanted.min())
    scales = [max(1, round(scale)) for scale in (unit / (wanted * cells)).tolist()]
    named = [tuple(names[place] for place in chosen) for chosen in sets]
    return MeasureResiduals(named, scales, noise)
