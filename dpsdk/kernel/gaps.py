"""Gaps on a lattice: one gate for every kind that `watch` compares."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from typing import TypeAlias

import numpy as np

from dpsdk._arrays import Lasting, frozen_integers
from dpsdk._records import evolve, frozen
from dpsdk.data.counts import Counts
from dpsdk.errors import InvalidArgument
from dpsdk.forms import (
    Ball,
    Box,
    Facts,
    Gap,
    GapForm,
    LinearForm,
    ProximalGapForm,
    Simplex,
)
from dpsdk.forms.linear import EXACT
from dpsdk.forms.steps import Steps, written
from dpsdk.kernel.lattice import (
    PreparedForm,
    exact,
    finest,
    on_given_lattice,
    on_lattice,
    prepare_form,
)
from dpsdk.typing import Floats, Ints

__all__ = [
    "FARTHEST",
    "LatticeGaps",
    "LinearGaps",
    "ProximalBatch",
    "ProximalGaps",
    "RoundedForm",
    "bits_of_row",
    "in_rows",
    "prepare_gaps",
    "prepare_linear",
    "prepare_proximal",
    "prepare_proximals",
]

RoundedForm: TypeAlias = LinearForm | GapForm | ProximalGapForm
"""The forms whose weights go onto a lattice; a linear one as gaps that a record moves by a row."""

FARTHEST = 2.0**59
"""No threshold and no offset is more lattice steps away, so that their sums fit an integer."""

_TOP = 2**60
"""Proximal gaps end here, beyond every threshold. What is cut off moves no further for that."""


_LEAST_MOVED = 2.0**-256


def _with_rows(source: LinearForm, histogram: Counts) -> Ints:
    return np.append(exact(source.evaluate(histogram)), histogram.rows)


@frozen(eq=False)
class LinearGaps(Lasting):
    """Linear functions of the rows minus public answers."""

    source: LinearForm
    rates: Ints
    offsets: Ints
    absolute: bool
    numeric: bool
    steps: float
    change: float
    """By how much rounding changed a weight at the most."""
    own: PreparedForm
    """The functions before they were put on the lattice."""

    @property
    def rows(self) -> int:
        """The number of gaps."""
        return len(self.rates)

    def height(self, threshold: float) -> int:
        """Exact, since the steps of a row are a power of two."""
        return round(threshold * self.steps)

    def read(self, histogram: Counts) -> Ints:
        """The answers, and the number of rows after them; private."""
        return _with_rows(self.source, histogram)

    def scores(self, numbers: Ints) -> Ints:
        """Answers minus rates of the rows and offsets, absolute where that was asked for."""
        gaps: Ints = numbers[:-1] - self.rates * numbers[-1] - self.offsets
        return np.abs(gaps) if self.absolute else gaps


def bits_of_row(gap: GapForm, facts: Facts, bits: int) -> int:
    """How fine a row is cut where 2**bits steps are what a record moves a gap by."""
    own = bits - round(math.log2(gap.moved(facts)))
    if own < 0:
        raise InvalidArgument("gap", "smaller weights for so much noise", "larger ones")
    return own


def _check_moved(lattice: LinearForm, rates: Ints, facts: Facts, most: float) -> None:
    """Refuse gaps that a record moves by more than so many steps, of the integers as they are."""
    low, high = lattice.limits
    if facts.outside:
        low, high = min(low, 0.0), max(high, 0.0)
    moved = high - low
    if not facts.replaced:
        moved = max(high - float(rates.min()), float(rates.max()) - low)
    if not moved <= most:
        expected = "weights that a lattice holds without moving further than they do"
        raise InvalidArgument("gap", expected, "others")


def prepare_linear(gap: GapForm, facts: Facts, bits: int) -> LinearGaps:
    """Put gaps of linear functions onto a lattice. Raises as `prepare_gaps` does."""
    own = prepare_form(gap.form, facts)
    own_bits = bits_of_row(gap, facts, bits)
    lattice, change = on_given_lattice(own, own_bits, "gap")
    unit = 2.0**own_bits
    rates = np.floor(gap.rates * unit + 0.5).astype(np.int64)
    _check_moved(lattice, rates, facts, 2.0**bits)
    if float(np.abs(gap.offsets).max()) * unit > FARTHEST:
        raise InvalidArgument("offsets", in_rows(unit), "some beyond that")
    return LinearGaps(
        lattice,
        frozen_integers(rates),
        frozen_integers(np.floor(gap.offsets * unit + 0.5).astype(np.int64)),
        gap.absolute,
        gap.numeric,
        unit,
        change,
        own,
    )


@frozen(eq=False)
class ProximalGaps:
    """The gains of coefficients within a set, by the gradient at them, summed over the rows."""

    source: LinearForm
    """The gradient in integers of 2**-unit."""
    unit: int
    ways: Steps
    moved: float
    """How far one record moves the gap at the most; 1 if none does."""
    change: float
    """By how much rounding changed a weight at the most."""
    scale: Fraction
    """How many lattice steps a unit of the gap is, exactly."""
    shift: tuple[int, ...] = ()
    """The part of every row besides its gradient, in the same integers; none if empty."""
    numeric: bool = False

    @property
    def rows(self) -> int:
        """One gap."""
        return 1

    @property
    def steps(self) -> float:
        """The scale as a float, for public thresholds."""
        return float(self.scale)

    def height(self, threshold: float) -> int:
        """By fractions, as the steps are no power of two and may be very many."""
        return round(Fraction(threshold) * self.scale)

    def rounding(self, row_limit: int, step: float) -> float:
        """How far rounding may move the gap and its threshold, in multiples of `moved`."""
        lost = row_limit * self.change * self.ways.farthest()
        return 2.0 * step + lost / self.moved

    def read(self, histogram: Counts) -> Ints:
        """The summed gradient, and the number of rows after it; private."""
        return _with_rows(self.source, histogram)

    def scores(self, numbers: Ints) -> Ints:
        """The gap, in integers all the way, rounded down once."""
        *sums, rows = numbers.tolist()
        if self.shift:
            sums = [one + rows * added for one, added in zip(sums, self.shift, strict=True)]
        gap = self.ways.most(sums, self.unit, rows, self.scale)
        return np.array([max(-_TOP, min(gap, _TOP))], dtype=np.int64)


def prepare_proximal(gap: ProximalGapForm, facts: Facts, bits: int) -> ProximalGaps:
    """Put a proximal gap onto a lattice. Raises as `prepare_gaps` does.

    The gradient goes onto the finest lattice on which all rows add up exactly; how far a record
    moves the gap follows from what it is there.
    """
    if type(gap.over) not in (Ball, Box, Simplex):
        raise InvalidArgument("gap", "a Ball, Box or Simplex", type(gap.over).__name__)
    own = prepare_form(gap.gradient, facts)
    setting = own.facts
    room = math.log2(EXACT / (max(setting.row_limit, 1) * own.form.reach))
    unit, lattice, change = on_lattice(own, finest(math.floor(room)))
    added, whole = _whole_shift(gap.shift, unit)
    if gap.shift is not None and added is not None:
        change += float(np.abs(np.ldexp(added, -unit) - gap.shift).max())

    def moved() -> float:
        # Of the integers as they are, at a price in the same unit.
        finer = Steps(gap.theta, gap.over, gap.strength * 2.0**unit)
        replaced, outside = setting.replaced, setting.outside
        integers = written(lattice)
        found = finer.moved(integers, replaced=replaced, outside=outside, shift=added) * 2.0**-unit
        # What nothing moves has a unit still, and what hardly does one of so many steps as floats
        # hold.
        return max(found, _LEAST_MOVED) if found else 1.0

    shift = b"" if added is None else added.tobytes()
    key = ("proximal", unit, gap.theta.tobytes(), gap.over, gap.strength, shift)
    most = own.once(key, moved)
    return ProximalGaps(lattice, unit, gap.steps, most, change, 2**bits / Fraction(most), whole)


def _whole_shift(shift: Floats | None, unit: int) -> tuple[Floats | None, tuple[int, ...]]:
    """A shift in whole numbers of 2**-unit, as floats and as integers, which are the same."""
    if shift is None or not shift.any():
        return None, ()
    with np.errstate(over="ignore"):
        whole = np.rint(np.ldexp(shift, unit))
    if not np.isfinite(whole).all():
        raise InvalidArgument("shift", "no larger than a gradient by far", "larger numbers")
    return whole, tuple([int(one) for one in whole.tolist()])


@frozen(eq=False)
class ProximalBatch:
    """Several proximal gaps, all in steps of one size, of which a record moves each by 2**bits."""

    gaps: tuple[ProximalGaps, ...]
    moved: float
    """How far one record moves any of them at the most."""

    def rounding(self, row_limit: int, step: float) -> float:
        """How far rounding may move a gap, in its unit, where a step is so much of `moved`."""
        return max([gap.rounding(row_limit, step) * gap.moved for gap in self.gaps])

    def read(self, histogram: Counts) -> Ints:
        """The numbers of each gap, one after the other; private."""
        return np.concatenate([gap.read(histogram) for gap in self.gaps])

    def scores(self, numbers: Ints) -> Ints:
        """The gaps in their order."""
        ends = np.cumsum([gap.source.rows + 1 for gap in self.gaps])
        pairs = zip(self.gaps, np.split(numbers, ends[:-1]), strict=True)
        return np.concatenate([gap.scores(own) for gap, own in pairs])


def prepare_proximals(gaps: Sequence[ProximalGapForm], facts: Facts, bits: int) -> ProximalBatch:
    """Put proximal gaps onto one lattice, that of the one that a record moves the farthest."""
    each = [prepare_proximal(gap, facts, bits) for gap in gaps]
    moved = max([gap.moved for gap in each])
    scale = 2**bits / Fraction(moved)
    return ProximalBatch(tuple([evolve(gap, moved=moved, scale=scale) for gap in each]), moved)


LatticeGaps: TypeAlias = LinearGaps | ProximalGaps
"""Gaps in whole lattice steps. One record moves each by 2**bits steps at the most.

So the lattice of a kind is as fine as its sensitivity asks, and one law of noise serves all kinds.
A kind is read in two steps, so that the same functions are read once, whatever public answers they
are compared with. `source` is what is read, `steps` how many lattice steps one unit is.
"""


def prepare_gaps(gap: Gap, facts: Facts, bits: int) -> LatticeGaps:
    """Put gaps onto the lattice that a watch uses."""
    # No class below these, or of another author, is measured.
    if type(gap) is GapForm:
        return prepare_linear(gap, facts, bits)
    if type(gap) is ProximalGapForm:
        return prepare_proximal(gap, facts, bits)
    expected = "a GapForm or a ProximalGapForm, of that very class"
    raise InvalidArgument("gap", expected, type(gap).__name__)


def in_rows(unit: float) -> str:
    """How far from nought thresholds and offsets may be, for refusals."""
    return f"finite, at most {FARTHEST / unit:g} rows"
