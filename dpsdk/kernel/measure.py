"""The primitive `measure`: a batch of linear queries with discrete noise, priced in public.

Theorem (docs/explanation/proofs/measure.md). Weights are integers on the lattice of step 2**-bits,
so the true answers of neighbours are integer vectors that differ by at most the form's sensitivity.
Independent discrete Laplace noise of scale L1 / ε makes the batch ε-DP; independent discrete
Gaussian noise of variance L2² / (2ρ) makes it ρ-zCDP (Canonne, Kamath and Steinke 2020); Euclidean
Laplace noise of scale ceil(L2) / ε makes it ε-DP (Chaudhuri, Monteleoni and Sarwate 2011).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from contextlib import suppress
from fractions import Fraction
from functools import lru_cache
from typing import TypeAlias

import numpy as np

from dpsdk._arrays import Lasting, frozen_copy
from dpsdk._checks import shown, to_fraction, to_positive, whole_repr
from dpsdk._records import evolve, field, frozen
from dpsdk.accounting import (
    DiscreteGaussianGuarantee,
    DiscreteLaplaceGuarantee,
    Guarantee,
    GuaranteeByPeriod,
    PureGuarantee,
    zcdp_epsilon,
)
from dpsdk.accounting.prices.claims import claim_holds, claim_rho
from dpsdk.accounting.prices.covering import cover_rho
from dpsdk.accuracy import NoiseAccuracy
from dpsdk.data.counts import Counts
from dpsdk.errors import InvalidArgument
from dpsdk.forms import Facts, LinearForm, Sensitivity, sensitivity
from dpsdk.forms.linear import EXACT
from dpsdk.forms.restricted import by_period as moves_by_period
from dpsdk.forms.sensitivity import of_one_function
from dpsdk.kernel.lattice import (
    PreparedForm,
    exact,
    finest,
    on_lattice,
    prepare_form,
)
from dpsdk.kernel.primitive import Request
from dpsdk.kernel.terms import Terms, facts_of
from dpsdk.noise import (
    DiscreteGaussian,
    DiscreteLaplace,
    EuclideanLaplace,
    NoiseLaw,
    NoiseSource,
)
from dpsdk.noise.laws import MOST_ENTRIES
from dpsdk.noise.sampler import rounded_up_root
from dpsdk.noise.table import LIMIT
from dpsdk.release import Measurement
from dpsdk.typing import Floats, Ints, Real

__all__ = [
    "EuclideanNoise",
    "GaussianNoise",
    "LaplaceNoise",
    "Measure",
    "Noise",
    "Pricing",
    "calibrated",
    "check_noise",
    "gaussian_for",
    "widening_bits",
]

_SATURATION = 2**62 - 1 - 2**53
"""Released integers are clamped here. The noise saturates at 2**62 - 1 and true answers stay
within 2**53, so clamping the sum gives what clamping the ideal sum would: post-processing."""

_WIDE = 64
"""Gaussian noise has at least this variance, in squared steps: 8 steps and more behave as the
continuous law does, so that every composition prices it alike."""


def _epsilon(value: Real) -> Fraction:
    return to_positive("epsilon", value)


def _rho(value: Real) -> Fraction:
    return to_positive("rho", value)


def _claim(value: tuple[Real, Real] | None) -> tuple[Fraction, Fraction] | None:
    if value is None:
        return None
    epsilon, delta = value
    return to_fraction("claim", epsilon), to_fraction("claim", delta)


@frozen(cache_hash=True)
class LaplaceNoise:
    """Discrete Laplace noise that makes a whole batch `epsilon`-DP."""

    epsilon: Fraction = field(converter=_epsilon, repr=whole_repr)

    @property
    def cover(self) -> Guarantee:
        """The guarantee that pays, in an allowance, for any batch measured with this noise."""
        return PureGuarantee(self.epsilon)

    def log_scale(self, largest_move: float) -> float:
        """The binary logarithm of the noise that goes at least where one answer moves so far."""
        return math.log2(largest_move) - _log2(self.epsilon)


@frozen(cache_hash=True)
class EuclideanNoise:
    """Noise by the Euclidean length of what neighbours differ by: `epsilon`-DP, a whole batch.

    For a few numbers of which one row moves many, where independent Laplace noise pays for the sum
    of all moves. Of `measure` alone, and of at most 24 numbers.
    """

    epsilon: Fraction = field(converter=_epsilon, repr=whole_repr)

    @property
    def cover(self) -> Guarantee:
        """The guarantee that pays, in an allowance, for any batch measured with this noise."""
        return PureGuarantee(self.epsilon)

    def log_scale(self, largest_move: float) -> float:
        """The binary logarithm of the noise that goes at least where one answer moves so far."""
        return math.log2(largest_move) - _log2(self.epsilon)


@frozen(cache_hash=True)
class GaussianNoise:
    """Discrete Gaussian noise that makes a whole batch `rho`-zCDP.

    `claim` is an (ε, δ) that this rho implies, for compositions that add such pairs.
    """

    rho: Fraction = field(converter=_rho, repr=whole_repr)
    claim: tuple[Fraction, Fraction] | None = field(default=None, converter=_claim, repr=whole_repr)

    def __attrs_post_init__(self) -> None:
        if self.claim is not None and not _certified(self.rho, *self.claim):
            raise InvalidArgument("claim", "an (ε, δ) that this rho implies", shown(self.claim))

    @property
    def cover(self) -> Guarantee:
        """The guarantee that pays, in an allowance, for a batch that is measured with this noise.

        It has a fiftieth of rho more, from a rho of 2 on a nineteenth, since which batch it will be
        may be chosen by answers in between; `covered` has a rho for noise whose cover is given. For
        a rho up to 1/128 all batches are covered. For a larger one all are whose noise has a
        variance of 64 steps or more, as `measure` makes it wherever its lattice has room; not so
        weights that differ by less than about 2**-30.
        """
        rho, bits = cover_rho(self.rho), 0
        while 4**bits < _WIDE * 2 * rho and bits < 2 * finest(math.inf):
            bits += 1
        return DiscreteGaussianGuarantee(4**bits / (2 * rho), 4**bits, 2**bits, self.claim)

    @classmethod
    def covered(cls, rho: Real) -> GaussianNoise:
        """The noise whose cover has this rho, or a little less."""
        whole = _rho(rho)
        return cls(whole * whole / cover_rho(whole))

    def log_scale(self, largest_move: float) -> float:
        """The binary logarithm of the noise that goes at least where one answer moves so far."""
        return math.log2(largest_move) - (1 + _log2(self.rho)) / 2


def _log2(number: Fraction) -> float:
    # Of integers of any size, where a float would be nought or endless.
    return math.log2(number.numerator) - math.log2(number.denominator)


def _certified(rho: Fraction, epsilon: Fraction, delta: Fraction) -> bool:
    if not 0 < delta < 1 or epsilon < 0:
        return False
    return rho <= claim_rho(epsilon, delta) or zcdp_epsilon(rho, delta) <= epsilon


Noise: TypeAlias = LaplaceNoise | GaussianNoise
"""The noise that numbers of any primitive may have."""

_NOISES = frozenset({LaplaceNoise, GaussianNoise})


@frozen(eq=False)
class Pricing(Lasting):
    """The plan of `measure` for a form, all public: the lattice, the noise, the guarantee.

    Weights are in units of 2**-`bits`; `law` is that of the noise of each number, in such units.
    """

    bits: int
    law: NoiseLaw
    guarantee: Guarantee
    accuracy: NoiseAccuracy
    _form: LinearForm = field(repr=False)
    """The form in integer lattice units."""
    _constant: Floats | None = field(repr=False)
    """The answers, in lattice units, where no row changes them."""

    def run(
        self, noise: NoiseSource, opened: Callable[[], Counts], /
    ) -> Measurement[NoiseAccuracy]:
        """Draw, read and add; in that order, so that no draw's time depends on what is read.

        What no row changes is not read, nor is there noise on it.
        """
        answers = self._constant
        if answers is not None:
            drawn = np.zeros(self._form.rows, dtype=np.int64)
        else:
            drawn = _drawn(noise, self.law, self._form.rows)
            answers = self._form.evaluate(opened())
        return Measurement(self._settle(answers, drawn), self.accuracy)

    def by_period(self, setting: Facts) -> Pricing:
        """The same, charged to each period of time at what the same noise proves for it alone."""
        whole = self.guarantee
        if setting.periods is None or whole.free:
            return self
        if isinstance(whole, DiscreteGaussianGuarantee):
            squared = Fraction(whole.shift_squared)
            # Whole numbers are no larger than their squares.
            most = Sensitivity(squared, squared, Fraction(whole.shift_max), exact=False)
        elif isinstance(whole, DiscreteLaplaceGuarantee):
            shift = Fraction(whole.shift)
            most = Sensitivity(shift, shift**2, shift, exact=False)
        else:
            return self
        parts = [
            (first, last, _in_period(whole, move))
            for first, last, move in moves_by_period(self._form, setting, most)
        ]
        return evolve(self, guarantee=GuaranteeByPeriod(whole, parts))

    def _settle(self, answers: Floats, noise: Ints) -> Floats:
        """Add noise to exact lattice answers and give the sum its unit back."""
        if len(answers) == 1:  # one number is sooner added without an array
            answer = float(answers[0])
            if not abs(answer) < EXACT:
                exact(answers)  # which raises
            one = int(answer) + int(noise[0])
            return np.array([min(max(one, -_SATURATION), _SATURATION) * 2.0**-self.bits])
        noisy = np.clip(exact(answers) + noise, -_SATURATION, _SATURATION)
        values: Floats = noisy.astype(np.float64) * 2.0**-self.bits
        return values


def _drawn(noise: NoiseSource, law: NoiseLaw, rows: int) -> Ints:
    """Noise for so many numbers, set to ±(2**62 - 1) beyond that."""
    if isinstance(law, EuclideanLaplace):
        return np.array([min(max(z, -LIMIT), LIMIT) for z in noise.vector(law)], dtype=np.int64)
    return noise.draw(law, rows)


@frozen
class Measure(Request[Measurement[NoiseAccuracy]]):
    """Noisy answers to a batch of linear queries, in counts of rows.

    `LaplaceNoise(epsilon)` and `EuclideanNoise(epsilon)` make the batch ε-DP, `GaussianNoise(rho)`
    ρ-zCDP.

    >>> from dpsdk import Domain, Integer, PrivateData
    >>> from dpsdk.kernel import LaplaceNoise, Measure, Terms
    >>> from dpsdk.queries import Threshold
    >>> data = PrivateData.from_columns({"age": [39, 50]}, Domain(Integer("age", 17, 90)))
    >>> request = Measure(Threshold("age", 40).lower(data.domain), LaplaceNoise("0.1"))
    >>> print(request.price(Terms(data.facts)).guarantee)
    0.1-DP, discrete Laplace
    """

    form: LinearForm
    noise: Noise | EuclideanNoise

    def price(self, terms: Terms, /) -> Pricing:
        """Price the measurement. Public, spends nothing.

        Raises
        ------
        InvalidArgument
            If the form does not fit the domain or is made of foreign classes, if the noise would be
            wider than the lattice can hold, or if the counts could not be summed exactly.
        """
        noise = self.noise
        own = prepare_form(self.form, facts_of(terms))
        if isinstance(noise, EuclideanNoise):
            if own.form.rows > MOST_ENTRIES:
                expected = f"a noise for {own.form.rows:,} numbers; this one is for {MOST_ENTRIES}"
                raise InvalidArgument("noise", expected, shown(noise))
        elif type(noise) not in _NOISES:  # spares a call of each answer
            check_noise(noise)
        return own.once(noise, lambda: _price(own, noise))


def _price(own: PreparedForm, noise: Noise | EuclideanNoise) -> Pricing:
    form, setting = own.form, own.facts
    if form.rows == 1 and not isinstance(noise, EuclideanNoise) and form.integral:
        # What one function costs depends on its ends alone; most questions are of this kind.
        bits, priced = _for_one(noise, setting, *form.limits)
        if priced is not None:
            law, guarantee = priced
            constant = _constant_of(form, setting) if guarantee.free else None
            pricing = _pricing(0, law, guarantee, form, 0.0, constant)
            return pricing.by_period(setting)
    elif form.integral:
        bits = 0
        if isinstance(noise, GaussianNoise):
            bits = widening_bits(noise, own.sensitivity(2).l2_squared)
    else:
        bits = _wanted_bits(own, noise)
        if form.uneven > 1:
            # Factors that share the bits need as many each, as long as the noise fits the lattice.
            with suppress(InvalidArgument):
                pricing = _price_with(own, noise, bits * form.uneven)
                return pricing.by_period(setting)
    return _price_with(own, noise, bits).by_period(setting)


def _in_period(
    whole: DiscreteLaplaceGuarantee | DiscreteGaussianGuarantee, move: Sensitivity
) -> Guarantee:
    """What the noise of a whole proves where neighbours are not moved as far."""
    if isinstance(whole, DiscreteLaplaceGuarantee):
        return evolve(whole, shift=math.ceil(move.l1))
    squared = math.ceil(move.l2_squared)
    largest = min(math.ceil(move.maximum), math.isqrt(squared))
    return evolve(whole, shift_squared=squared, shift_max=largest)


def _price_with(own: PreparedForm, noise: Noise | EuclideanNoise, bits: int) -> Pricing:
    form, setting = own.form, own.facts
    bits, lattice, change = on_lattice(own, bits)
    power = 1 if isinstance(noise, LaplaceNoise) else 2  # what `calibrated` reads
    if form.integral:
        move = own.sensitivity(power).times(2**bits)
    else:
        move = sensitivity(lattice, setting, power=power)
    if isinstance(noise, EuclideanNoise):
        law, guarantee = _euclidean(noise, move, form.rows)
    else:
        law, guarantee = calibrated(noise, move)
    constant = _constant_of(lattice, setting) if guarantee.free else None
    return _pricing(bits, law, guarantee, lattice, setting.row_limit * change, constant)


def _pricing(
    bits: int,
    law: NoiseLaw,
    guarantee: Guarantee,
    form: LinearForm,
    bias: float,
    constant: Floats | None,
) -> Pricing:
    accuracy = NoiseAccuracy(law, form.rows, 2.0**-bits, bias)
    return Pricing(bits, law, guarantee, accuracy, form, constant)


def _constant_of(form: LinearForm, setting: Facts) -> Floats:
    """The answers to functions that no row changes."""
    low, high = form.extents()
    rows = setting.rows
    if rows == 0:
        return frozen_copy(np.zeros(form.rows))
    if not (low == high).all() or (rows is None and low.any()):
        raise ArithmeticError("a sensitivity of zero, and weights that differ")
    return frozen_copy(low * (rows or 0))


def calibrated(noise: Noise, move: Sensitivity) -> tuple[NoiseLaw, Guarantee]:
    """The law that makes moves of this size cost what was asked, and what it then guarantees."""
    if isinstance(noise, LaplaceNoise):
        shift = math.ceil(move.l1)
        scale = shift / noise.epsilon
        return DiscreteLaplace(scale), DiscreteLaplaceGuarantee(scale, shift)
    return gaussian_for(noise, math.ceil(move.l2_squared), math.ceil(move.maximum))


def _euclidean(noise: EuclideanNoise, move: Sensitivity, rows: int) -> tuple[NoiseLaw, Guarantee]:
    """The law and the guarantee where lengths are integers, rounded up."""
    shift = rounded_up_root(math.ceil(move.l2_squared))
    guarantee = PureGuarantee(noise.epsilon if shift else Fraction(0))
    return EuclideanLaplace(shift / noise.epsilon, rows), guarantee


def gaussian_for(
    noise: GaussianNoise, squared: int, most: int
) -> tuple[DiscreteGaussian, Guarantee]:
    """The law that makes moves of this squared length cost what was asked, and its guarantee."""
    variance = squared / (2 * noise.rho)
    largest = min(most, math.isqrt(squared))
    guarantee = DiscreteGaussianGuarantee(variance, squared, largest, noise.claim)
    if noise.claim is not None and not claim_holds(guarantee):
        expected = "noise that is wide in steps of its lattice, so that its (ε, δ) is proven"
        raise InvalidArgument("epsilon and delta", expected, str(guarantee))
    return DiscreteGaussian(variance), guarantee


def check_noise(noise: Noise) -> None:
    """Refuse what is no noise of this module."""
    if type(noise) not in _NOISES:
        raise InvalidArgument("noise", "a LaplaceNoise or GaussianNoise", shown(noise))


@lru_cache(4096)
def _for_one(
    noise: Noise, setting: Facts, low: float, high: float
) -> tuple[int, tuple[NoiseLaw, Guarantee] | None]:
    """The bits that one function with integer weights needs, from its ends; at none, its price."""
    move = of_one_function(low, high, setting)
    bits = widening_bits(noise, move.l2_squared) if isinstance(noise, GaussianNoise) else 0
    return bits, None if bits else calibrated(noise, move)


def widening_bits(noise: GaussianNoise, squared: Fraction) -> int:
    """The fewest bits with which noise on integers of this squared move is wide."""
    variance, bits = squared / (2 * noise.rho), 0
    while 0 < variance * 4**bits < _WIDE and finest(bits + 1) > bits:
        bits += 1
    return bits


def _wanted_bits(own: PreparedForm, noise: Noise | EuclideanNoise) -> int:
    form, setting = own.form, own.facts
    low, high = form.extents()
    if setting.outside or not setting.replaced:  # a row that is not there counts as nought
        low, high = np.minimum(low, 0.0), np.maximum(high, 0.0)
    move = float((high - low).max())
    if move == 0.0:
        return finest(math.inf)
    # All rows together are to move an answer by less than a thousandth of the noise's scale.
    scale = noise.log_scale(move * setting.unit_rows)
    return finest(math.log2(max(setting.row_limit, 1) * 512) - scale, 1)
