"""The primitive `measure`: a batch of linear queries with discrete noise, priced in public.

Theorem (docs/explanation/proofs/measure.md). Weights are integers on the lattice of step 2**-bits,
so the true answers of neighbours are integer vectors that differ by at most the form's sensitivity.
Independent discrete Laplace noise of scale L1 / ε makes the batch ε-DP; independent discrete
Gaussian noise of variance L2² / (2ρ) makes it ρ-zCDP (Canonne, Kamath and Steinke 2020).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from functools import lru_cache
from typing import TypeAlias
from weakref import WeakKeyDictionary

import numpy as np
from attrs import field, frozen

from dpsdk._checks import shown, to_fraction, to_positive
from dpsdk.accounting import (
    DiscreteGaussianGuarantee,
    DiscreteLaplaceGuarantee,
    Guarantee,
    zcdp_epsilon,
)
from dpsdk.accounting.claims import claim_holds, claim_rho
from dpsdk.data.histogram import Histogram
from dpsdk.errors import InvalidArgument
from dpsdk.forms import Facts, LinearForm, Sensitivity, sensitivity
from dpsdk.forms.linear import EXACT
from dpsdk.kernel.admission import admit
from dpsdk.noise import DiscreteGaussian, DiscreteLaplace, NoiseLaw, NoiseSource
from dpsdk.release import NoiseAccuracy
from dpsdk.typing import Floats, Ints, Real

__all__ = ["GaussianNoise", "LaplaceNoise", "Noise", "Pricing", "measured", "price"]

_SATURATION = 2**62 - 1 - 2**53
"""Released integers are clamped here. The noise saturates at 2**62 - 1 and true answers stay
within 2**53, so clamping the sum gives what clamping the ideal sum would: post-processing."""

_FINEST = 40
"""The finest lattice has steps of 2**-40."""

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

    epsilon: Fraction = field(converter=_epsilon)

    def scale_for(self, largest_move: float) -> float:
        """At least this much noise goes where one answer moves so far."""
        return largest_move / float(self.epsilon)


@frozen(cache_hash=True)
class GaussianNoise:
    """Discrete Gaussian noise that makes a whole batch `rho`-zCDP.

    `claim` is an (ε, δ) that this rho implies, for compositions that add such pairs.
    """

    rho: Fraction = field(converter=_rho)
    claim: tuple[Fraction, Fraction] | None = field(default=None, converter=_claim)

    def __attrs_post_init__(self) -> None:
        if self.claim is not None and not _certified(self.rho, *self.claim):
            raise InvalidArgument("claim", "an (ε, δ) that this rho implies", shown(self.claim))

    def scale_for(self, largest_move: float) -> float:
        """At least this much noise goes where one answer moves so far."""
        return largest_move / math.sqrt(2 * float(self.rho))


def _certified(rho: Fraction, epsilon: Fraction, delta: Fraction) -> bool:
    if not 0 < delta < 1 or epsilon < 0:
        return False
    return rho <= claim_rho(epsilon, delta) or zcdp_epsilon(rho, delta) <= epsilon


Noise: TypeAlias = LaplaceNoise | GaussianNoise


@frozen(eq=False)
class Pricing:
    """What `measure` will do for a form, all public: the lattice, the noise, what it guarantees."""

    form: LinearForm
    """The form in integer lattice units."""
    bits: int
    law: NoiseLaw
    guarantee: Guarantee
    accuracy: NoiseAccuracy

    def settle(self, answers: Floats, noise: Ints) -> Floats:
        """Add noise to exact lattice answers and give the sum its unit back."""
        if len(answers) == 1:  # one number is sooner added without an array
            one = int(answers[0]) + int(noise[0])
            return np.array([min(max(one, -_SATURATION), _SATURATION) * 2.0**-self.bits])
        noisy = np.clip(answers.astype(np.int64) + noise, -_SATURATION, _SATURATION)
        values: Floats = noisy.astype(np.float64) * 2.0**-self.bits
        return values


def measured(pricing: Pricing, source: NoiseSource, opened: Callable[[], Histogram]) -> Floats:
    """Draw, read and add; in that order, so that no draw's time depends on what is read."""
    noise = source.draw(pricing.law, pricing.form.rows)
    return pricing.settle(pricing.form.evaluate(opened()), noise)


_Known: TypeAlias = dict[tuple[Noise, int], tuple[Facts, Pricing]]

# Facts are kept with what was priced for them, so their identity stays their own; another author's
# facts may call themselves equal to these.
_priced: WeakKeyDictionary[LinearForm, _Known] = WeakKeyDictionary()


def price(form: LinearForm, noise: Noise, facts: Facts) -> Pricing:
    """What measuring a form would do and cost. Public, spends nothing.

    Raises
    ------
    InvalidArgument
        If the form does not fit the domain or is made of foreign classes, if the noise would be
        wider than the lattice can hold, or if the counts could not be summed exactly.
    """
    known = _priced.setdefault(form, {})
    kept = known.get((noise, id(facts)))
    if kept is None or kept[0] is not facts:
        kept = known[noise, id(facts)] = facts, _price(form, noise, facts)
    return kept[1]


def _price(form: LinearForm, noise: Noise, facts: Facts) -> Pricing:
    if type(noise) not in {LaplaceNoise, GaussianNoise}:
        raise InvalidArgument("noise", "a LaplaceNoise or GaussianNoise", shown(noise))
    admit(form, facts)
    bits, lattice, change = _on_lattice(form, noise, facts)
    move = sensitivity(form, facts).times(2**bits) if form.integral else sensitivity(lattice, facts)
    law, guarantee = _calibrated(noise, move)
    accuracy = NoiseAccuracy(law, form.rows, 2.0**-bits, facts.row_limit * change)
    return Pricing(lattice, bits, law, guarantee, accuracy)


@lru_cache(1024)
def _calibrated(noise: Noise, move: Sensitivity) -> tuple[NoiseLaw, Guarantee]:
    """The law that makes moves of this size cost what was asked, and what it then guarantees."""
    if isinstance(noise, LaplaceNoise):
        shift = math.ceil(move.l1)
        scale = shift / noise.epsilon
        return DiscreteLaplace(scale), DiscreteLaplaceGuarantee(scale, shift)
    squared = math.ceil(move.l2_squared)
    variance = squared / (2 * noise.rho)
    largest = min(math.ceil(move.maximum), math.isqrt(squared))
    guarantee = DiscreteGaussianGuarantee(variance, squared, largest, noise.claim)
    if noise.claim is not None and not claim_holds(guarantee):
        expected = "noise that is wide in steps of its lattice, so that its (ε, δ) is proven"
        raise InvalidArgument("epsilon and delta", expected, str(guarantee))
    return DiscreteGaussian(variance), guarantee


def _on_lattice(form: LinearForm, noise: Noise, facts: Facts) -> tuple[int, LinearForm, float]:
    """The form in integer units of 2**-bits, and the largest change of a weight.

    How fine the lattice is follows from the form, the noise and public facts only. Rounding
    moves a weight by half a step at the most, so all rows together move an answer by half a step
    each; that is kept below a thousandth of the noise's scale where exact sums allow it. What
    remains is part of the error bound. Integer weights stay on the integers, unless Gaussian noise
    would be narrow there.
    """
    rows = max(facts.row_limit, 1)
    wanted = _widening_bits if form.integral else _wanted_bits
    bits = wanted(form, noise, facts)
    while True:
        lattice, change = form.rounded(bits) if bits or not form.integral else (form, 0.0)
        excess = lattice.reach * rows / EXACT
        if excess < 1.0:
            # Another form in any case: prices are kept by form, and would keep their key alive.
            other = LinearForm(form.domain, form.blocks) if lattice is form else lattice
            return bits, other, change
        if not bits:
            expected = "small enough that rows times weight stay within 2**53"
            raise InvalidArgument("weights", expected, f"up to {lattice.reach:.3g} a row")
        bits = max(0, bits - max(1, math.ceil(math.log2(excess))))


def _widening_bits(form: LinearForm, noise: Noise, facts: Facts) -> int:
    """The fewest bits with which Gaussian noise on integer weights is wide."""
    if isinstance(noise, LaplaceNoise):
        return 0
    variance = sensitivity(form, facts).l2_squared / (2 * noise.rho)
    bits = 0
    while 0 < variance * 4**bits < _WIDE and bits < _FINEST:
        bits += 1
    return bits


def _wanted_bits(form: LinearForm, noise: Noise, facts: Facts) -> int:
    low, high = form.extents()
    if facts.outside:
        low, high = np.minimum(low, 0.0), np.maximum(high, 0.0)
    move = float((high - low).max())
    if move == 0.0:
        return _FINEST
    wanted = math.ceil(math.log2(max(facts.row_limit, 1) * 512 / noise.scale_for(move)))
    return min(max(wanted, 1), _FINEST)
