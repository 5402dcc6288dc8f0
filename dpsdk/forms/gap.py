"""Gaps: how far the rows are from public answers, or coefficients from the best ones.

A proximal gap is what a linear model of the loss at θ, less a quadratic, allows to be gained within
a convex set; theorems and sources are in docs/explanation/proofs/proximal-gap.md.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Sequence
from hashlib import sha256

import numpy as np

from dpsdk._arrays import frozen_copy
from dpsdk._checks import require, to_array, to_finite
from dpsdk._records import field, frozen
from dpsdk.domain import Domain
from dpsdk.errors import InvalidArgument
from dpsdk.forms.base import Form
from dpsdk.forms.convex import ConvexForm, Tables
from dpsdk.forms.facts import Facts
from dpsdk.forms.linear import LinearForm
from dpsdk.forms.sets import Ball, Box, ConvexSet, Simplex
from dpsdk.forms.steps import Steps, written
from dpsdk.typing import Array, Floats

__all__ = ["Gap", "GapForm", "ProximalGapForm", "weight_range"]


class Gap(Form):
    """Numbers that `kernel.watch` compares with a threshold, in order, all of one kind.

    A kind is a class. It says how far one record moves a gap, which all noise of a watch is
    measured by; the kernel knows, for each kind of the package, how its gaps are read on a lattice.
    """

    __slots__ = ()

    numeric: bool
    """True if a gap above its threshold is also asked for its size."""

    @property
    @abstractmethod
    def rows(self) -> int:
        """The number of gaps."""

    @property
    @abstractmethod
    def sensitivity(self) -> float:
        """How far one record moves a gap at the most, in the unit of the gaps."""


_GAPS = b"dpsdk gap form 1\0"

_LARGEST_WEIGHT = 2.0**20


def weight_range(form: LinearForm) -> tuple[float, float]:
    """Between which numbers the weights of a form lie, 0 and 1 among them; so do its shares."""
    low, high = form.limits
    return min(low, 0.0), max(high, 1.0)


def _power_above(distance: float) -> float:
    """The least power of two that is at least so much, and at least one."""
    mantissa, exponent = math.frexp(max(distance, 1.0))
    return math.ldexp(1.0, exponent - (mantissa == 0.5))


def _to_numbers(values: Floats) -> Floats:
    return frozen_copy(np.array(values, dtype=np.float64))


@frozen(eq=False)
class GapForm(Gap):
    """Linear functions of the rows minus public answers to them, in counts of rows.

    Gap i is the sum of function i over the rows, minus `rates[i]` times the number of rows, minus
    `offsets[i]`; its absolute value where `absolute`. Where functions and rates lie between 0 and
    1, one row moves a gap by one at the most, under either neighbour relation and whether or not
    the number of rows is public (docs/explanation/proofs/watch.md). Weights are at most 2^20 in
    size; of wider ones `moved` says how far a row moves a gap. Rates lie where shares can.
    """

    form: LinearForm
    rates: Floats = field(converter=_to_numbers)
    offsets: Floats = field(converter=_to_numbers)
    absolute: bool = True
    numeric: bool = False
    """True if a gap above its threshold is also asked for its size."""

    def __attrs_post_init__(self) -> None:
        low, high = weight_range(self.form)
        if not (low >= -_LARGEST_WEIGHT and high <= _LARGEST_WEIGHT):  # neither is NaN
            raise InvalidArgument("form", "weights from -2**20 to 2**20", "some outside that range")
        for name, values in (("rates", self.rates), ("offsets", self.offsets)):
            if values.shape != (self.form.rows,) or not np.isfinite(values).all():
                expected = f"{self.form.rows} finite numbers"
                raise InvalidArgument(name, expected, f"shape {values.shape}")
        if float(self.rates.min()) < low or float(self.rates.max()) > high:
            expected = f"numbers from {low:g} to {high:g}"
            raise InvalidArgument("rates", expected, "some outside that range")

    @property
    def domain(self) -> Domain:  # type: ignore[override]  # derived here, a field elsewhere
        return self.form.domain

    @property
    def rows(self) -> int:
        return self.form.rows

    @property
    def identity(self) -> bytes:
        """The same for the same gaps in the same order, and for no others; see `LinearForm`."""
        kind = b"%d%d" % (bool(self.absolute), bool(self.numeric))
        digest = sha256(_GAPS + kind + self.form.identity)
        for numbers in (self.rates, self.offsets):
            digest.update((numbers + 0.0).astype("<f8").tobytes())  # a zero has no sign here
        return digest.digest()

    @property
    def sensitivity(self) -> float:
        """How far one record moves a gap at the most, in rows, under either relation."""
        low, high = weight_range(self.form)
        return _power_above(high - low)

    def moved(self, facts: Facts) -> float:
        """How far one record moves a gap at the most between tables of such facts, in rows.

        Rounded up to a power of two, and at least 1, so that a lattice of it is one of rows.
        """
        low, high = self.form.limits
        if facts.outside:
            low, high = min(low, 0.0), max(high, 0.0)
        if facts.replaced:
            return _power_above(high - low)
        rates = float(self.rates.min()), float(self.rates.max())
        return _power_above(max(high - rates[0], rates[1] - low))

    @classmethod
    def around(cls, form: LinearForm, rates: Floats) -> GapForm:
        """Absolute gaps from public shares of the rows."""
        return cls(form, rates, np.zeros(form.rows))


_PROXIMAL = b"dpsdk proximal gap form 1\0"

_LARGEST_STRENGTH = 1e100


def _to_theta(values: Array | Sequence[float], name: str = "theta") -> Floats:
    numbers = to_array(name, values, "finite numbers")
    if numbers.ndim != 1 or not np.isfinite(numbers).all():
        raise InvalidArgument(name, "a row of finite numbers", f"shape {numbers.shape}")
    return frozen_copy(numbers + 0.0)  # a zero has no sign here


def _to_shift(values: Array | Sequence[float] | None) -> Floats | None:
    return None if values is None else _to_theta(values, "shift")


def _to_strength(value: float) -> float:
    number = float(to_finite("strength", value))
    require(0.0 <= number <= _LARGEST_STRENGTH, "strength", "a number from 0 to 1e100", value)
    return number + 0.0


@frozen(eq=False)
class ProximalGapForm(Gap):
    """One gap: by how much coefficients θ may be improved, judged by the gradient at them.

    The gap is the maximum over θ' of the set of Σ_x ⟨g_x, θ - θ'⟩ - ½·strength·‖θ - θ'‖², summed
    over all rows x, with the shift in each g_x: in rows, so that it is the number of rows times
    that of the average. Where g_x is the gradient of a convex loss at θ, the summed loss of θ
    exceeds its minimum over the set by no more; with a strength above 0 this needs an average loss
    that is so strongly convex, on which privacy does not depend. `sensitivity` says how far a row
    moves it: for a watch, which reads it without minimising anything (Frank and Wolfe 1956; as a
    query in place of the excess of Ullman 2015). Raises `InvalidArgument` if an argument is not as
    described, and `TooLarge` if the gradient would be written out with more than 2^24 weights.

    Parameters
    ----------
    gradient
        One function a coefficient: g_x, the gradient at θ of what a row x costs. Rows outside the
        domain cost nothing.
    theta, over
        The coefficients, public, in the set: a `Ball`, `Box` or `Simplex`.
    strength
        From 0, by default, to 1e100.
    shift
        What is added to the gradient of every row, of those outside the domain as well, such as
        that of a ridge; as many public numbers as coefficients, and nothing if left out.
    """

    gradient: LinearForm
    theta: Floats = field(converter=_to_theta)
    over: ConvexSet
    strength: float = field(default=0.0, converter=_to_strength)
    shift: Floats | None = field(default=None, converter=_to_shift)
    numeric: bool = field(init=False, default=False)
    """A proximal gap is never asked for its size."""

    def __attrs_post_init__(self) -> None:
        require(isinstance(self.gradient, LinearForm), "gradient", "a LinearForm", self.gradient)
        require(
            isinstance(self.over, Ball | Box | Simplex), "over", "a Ball, Box or Simplex", self.over
        )
        if self.theta.shape != (self.gradient.rows,):
            expected = f"{self.gradient.rows} numbers, one for each function of the gradient"
            raise InvalidArgument("theta", expected, f"shape {self.theta.shape}")
        if self.shift is not None and self.shift.shape != self.theta.shape:
            expected = f"{len(self.theta)} numbers, one for each coefficient"
            raise InvalidArgument("shift", expected, f"shape {self.shift.shape}")
        self.over.require(len(self.theta))
        if not self.over.contains(self.theta):
            raise InvalidArgument("theta", "coefficients of the set", "others")

    @classmethod
    def of(
        cls, form: ConvexForm, theta: Array | Sequence[float], strength: float = 0.0
    ) -> ProximalGapForm:
        """The gap of a model at θ.

        At the kink of a loss its derivative is one of several slopes: the gap bounds the excess
        still, but need not be small at any θ. Smooth such a loss first.
        """
        return cls(form.gradient(theta), theta, form.over, strength)

    @property
    def domain(self) -> Domain:  # type: ignore[override]  # derived here, a field elsewhere
        return self.gradient.domain

    @property
    def rows(self) -> int:
        return 1

    @property
    def identity(self) -> bytes:
        """The same for the same gap, and for no other; see `LinearForm`."""
        digest = sha256(_PROXIMAL + self.gradient.identity + self.theta.astype("<f8").tobytes())
        digest.update(repr((self.over, self.strength)).encode())
        if self.shift is not None:
            digest.update(b"shift" + self.shift.astype("<f8").tobytes())
        return digest.digest()

    @property
    def steps(self) -> Steps:
        """The ways from coefficients of the set to θ, which the gap is a maximum over."""
        return Steps(self.theta, self.over, self.strength)

    @property
    def sensitivity(self) -> float:
        """How far one record moves the gap at the most, in rows, under either relation."""
        return max(self._moved(replaced=replaced, outside=True) for replaced in (False, True))

    def moved(self, facts: Facts) -> float:
        """How far one record moves the gap at the most between tables of such facts, in rows.

        Up to the roundings of floats, which it allows for; under replace-one neighbours at most
        twice the largest |⟨g_x, θ - θ'⟩|. An upper bound where the pairs of cells that may be the
        farthest apart are too many to be compared.
        """
        return self._moved(replaced=facts.replaced, outside=facts.outside)

    def _moved(self, *, replaced: bool, outside: bool) -> float:
        weights = written(self.gradient)
        return self.steps.moved(weights, replaced=replaced, outside=outside, shift=self.shift)

    def value(self, tables: Tables, rows: float = 1.0) -> float:
        """The gap of public weights of the cells, such as those of a distribution, in floats.

        All weights add up to `rows`, with those of rows outside the domain: 1 for shares, so that
        the gap is that of the average.
        """
        names = self.gradient.names
        weights = np.asarray(tables.table(names), dtype=np.float64).reshape(-1)
        sums = written(self.gradient) @ weights
        if self.shift is not None:
            sums = sums + rows * self.shift
        return self.over.gap(self.theta, sums, ridge=self.strength * rows)
