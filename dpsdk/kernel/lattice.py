"""Forms and gaps as primitives read them: checked against a table, on a lattice of integers.

A form goes onto a lattice of step 2**-bits before anything is summed. How fine it is follows from
the form, the noise and public facts only; it is never so fine that a sum could leave the integers
that floats hold, and that is proven before anything is charged.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from typing import TypeAlias, TypeVar, cast

import numpy as np

from dpsdk._arrays import Lasting, frozen_integers
from dpsdk._identity_map import IdentityMap
from dpsdk._records import define, field, frozen
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
    Sensitivity,
    Simplex,
)
from dpsdk.forms import sensitivity as sensitivity_of
from dpsdk.forms.linear import EXACT
from dpsdk.forms.steps import Steps, written
from dpsdk.typing import Floats, Ints

__all__ = [
    "FARTHEST",
    "LatticeGaps",
    "LinearGaps",
    "PreparedForm",
    "ProximalGaps",
    "RoundedForm",
    "allowed_bits",
    "exact",
    "finest",
    "in_rows",
    "on_given_lattice",
    "on_lattice",
    "prepare_form",
    "prepare_gaps",
    "prepare_linear",
    "prepare_proximal",
]

V = TypeVar("V")

_FINEST = 40
"""The finest lattice has steps of 2**-40."""

_RESULTS = ((2**14, 64), (2**19, 8), (math.inf, 4))
"""Of forms of up to so many bytes, so many prices and so many lattices are cached."""

_FORMS = 2**12
_FORM_BYTES = 2**29
_SETTINGS = 8


@define(eq=False)
class PreparedForm:
    """A form that fits tables of one facts, and what was worked out of it."""

    form: LinearForm
    facts: Facts
    _most: int
    _prices: dict[object, object] = field(factory=dict[object, object], repr=False)
    _lattices: dict[int, tuple[LinearForm, float]] = field(
        factory=dict[int, tuple[LinearForm, float]], repr=False
    )
    _moves: dict[int, Sensitivity] = field(factory=dict[int, Sensitivity], repr=False)

    def once(self, key: object, work: Callable[[], V]) -> V:
        """Return the result of some work, done once for each key as long as there is room."""
        known = self._prices.get(key)
        if known is None:
            if len(self._prices) >= self._most:
                self._prices.clear()
            known = self._prices[key] = work()
        return cast("V", known)

    def sensitivity(self, power: int) -> Sensitivity:
        """How far the rows of one person can move the answers, before weights are on a lattice.

        In the norm of that power, which alone is searched for.
        """
        known = self._moves.get(power)
        if known is None:
            known = self._moves[power] = sensitivity_of(self.form, self.facts, power=power)
        return known

    def lattice(self, bits: int) -> tuple[LinearForm, float]:
        """The form in integer units of 2**-bits, and the largest change of a weight."""
        known = self._lattices.get(bits)
        if known is None:
            if len(self._lattices) >= self._most:
                self._lattices.clear()
            known = self._lattices[bits] = self.form.rounded(bits)
        return known

    def reaches(self, lattice: LinearForm) -> float:
        """The largest number on the way to an answer over 2**53; at 1, sums may round off.

        Infinite where floats do not hold it.
        """
        share = lattice.reach * max(self.facts.row_limit, 1) / EXACT
        return share if math.isfinite(share) else math.inf


_prepared: IdentityMap[tuple[PreparedForm, ...]] = IdentityMap(_FORMS, _FORM_BYTES)
"""Each form as prepared for several settings, the last one first."""


def prepare_form(form: LinearForm, facts: Facts) -> PreparedForm:
    """Check that a form fits a table, and that its sums are exact there."""
    if type(form) is not LinearForm:
        raise InvalidArgument("form", "a LinearForm, of that very class", type(form).__name__)
    known = _prepared.get(form) or ()
    for one in known:
        if one.facts is facts or one.facts == facts:
            return one
    if form.domain is not facts.domain and form.domain != facts.domain:
        raise InvalidArgument("form", "over the domain of the table", "another domain")
    for reach in {block.reach for block in form.blocks}:
        # On a lattice each weight is at least what it is here, up to half a step.
        if not reach * max(facts.row_limit, 1) < EXACT:
            raise _too_large("weights", reach)
    # Another object with the same blocks, which does not keep the form alive.
    own = LinearForm(form.domain, form.blocks)
    size = own.lattice_nbytes
    most = next(most for limit, most in _RESULTS if size <= limit)
    prepared = PreparedForm(own, facts, most)
    entries = (prepared, *known[: _SETTINGS - 1])
    # Each with its groups and all the lattices that it may come to hold.
    _prepared.keep(form, entries, len(entries) * size * (2 + most))
    return prepared


def finest(wanted: float, least: int = 0) -> int:
    """So many bits, rounded up, but at least the least and no more than the finest lattice has."""
    return math.ceil(min(max(wanted, least), _FINEST))


def allowed_bits(row_limit: int) -> int:
    """How fine a lattice may be on which all rows add weights from 0 to 1, and a sign is left."""
    return math.floor(math.log2(EXACT / max(row_limit, 1))) - 1


def on_lattice(own: PreparedForm, bits: int) -> tuple[int, LinearForm, float]:
    """A form in integer units of 2**-bits, and the largest change of a weight.

    With so many bits, or as many as exact sums allow. Rounding moves a weight by half a step at the
    most, so all rows together move an answer by half a step each; what that is, is part of the
    error bound. Integer weights stay on the integers if no bits are wanted.
    """
    form = own.form
    while True:
        lattice, change = own.lattice(bits) if bits or not form.integral else (form, 0.0)
        excess = own.reaches(lattice)
        if excess < 1.0:
            return bits, lattice, change
        if not bits:
            raise _too_large("weights", lattice.reach)
        step = math.ceil(math.log2(excess)) if excess < math.inf else bits
        bits = max(0, bits - max(1, step))


def on_given_lattice(own: PreparedForm, bits: int, parameter: str) -> tuple[LinearForm, float]:
    """The same with just so many bits, for what shares a lattice with others."""
    lattice, change = own.lattice(bits)
    if not own.reaches(lattice) < 1.0:
        raise _too_large(parameter, lattice.reach)
    return lattice, change


def _too_large(parameter: str, reach: float) -> InvalidArgument:
    expected = "small enough that rows times weight stay within 2**53"
    return InvalidArgument(parameter, expected, f"up to {reach:.3g} a row")


def exact(answers: Floats) -> Ints:
    """The integers that exact sums are, for work behind the wall."""
    if not (np.abs(answers) < EXACT).all():
        message = "a sum left the integers that floats hold"
        raise ArithmeticError(message)
    return answers.astype(np.int64)


RoundedForm: TypeAlias = LinearForm | ProximalGapForm
"""The forms whose weights go onto a lattice."""

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


def prepare_linear(gap: GapForm, facts: Facts, bits: int) -> LinearGaps:
    """Put gaps of linear functions onto a lattice. Raises as `prepare_gaps` does."""
    own = prepare_form(gap.form, facts)
    lattice, change = on_given_lattice(own, bits, "gap")
    low, high = lattice.limits
    unit = 2.0**bits
    if not (low >= 0 and high <= unit):
        raise InvalidArgument("gap", "weights from 0 to 1", "some outside that range")
    if float(np.abs(gap.offsets).max()) * unit > FARTHEST:
        raise InvalidArgument("offsets", in_rows(unit), "some beyond that")
    return LinearGaps(
        lattice,
        frozen_integers(np.floor(gap.rates * unit + 0.5).astype(np.int64)),
        frozen_integers(np.floor(gap.offsets * unit + 0.5).astype(np.int64)),
        gap.absolute,
        gap.numeric,
        unit / gap.sensitivity,
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
