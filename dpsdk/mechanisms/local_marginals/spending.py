"""The price of each step of LocalMarginals, and its first purchases: all of it public."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from fractions import Fraction

import numpy as np

from dpsdk._records import frozen
from dpsdk.accounting import Budget, Guarantee
from dpsdk.accounting.numbers import truncated
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
class Shares:
    """The shares of the total for the steps; the purchases that they plan take the rest."""

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
        """How a total is spent: an (ε, δ) by the composition of the session, or a ρ."""
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

    def check(self, lattice: Lattice, facts: Facts) -> None:
        """Refuse, before anything is paid, what would be refused in the middle.

        What is planned follows from releases. These bounds are for whatever plan comes out.
        """
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
    """The price of the residual of each set in ρ at a standard deviation of one row.

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
