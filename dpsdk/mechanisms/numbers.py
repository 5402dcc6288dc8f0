"""How far off one number may be while it is not known which function it will be measured of."""

from __future__ import annotations

import math

import numpy as np
from attrs import frozen

from dpsdk.accounting import Guarantee
from dpsdk.accuracy import NoiseAccuracy
from dpsdk.forms import Facts, LinearForm
from dpsdk.kernel import LaplaceNoise, Measure, Noise, Terms
from dpsdk.kernel.lattice import allowed_bits, finest
from dpsdk.noise import DiscreteGaussian, DiscreteLaplace, NoiseLaw
from dpsdk.release import HalfWidths

__all__ = [
    "NumberPricing",
    "fine",
    "law_of_count",
    "moving_row",
    "on_any_lattice",
    "price_any",
]

_PRICED = 64
"""Of so many functions each is priced by itself; more are bounded together where that is proven."""


def law_of_count(noise: Noise, facts: Facts) -> NoiseLaw:
    """The law of a number that each row of a person moves by 1 at the most."""
    if isinstance(noise, LaplaceNoise):
        return DiscreteLaplace(facts.unit_rows / noise.epsilon)
    return DiscreteGaussian(facts.unit_rows**2 / (2 * noise.rho))


def on_any_lattice(noise: Noise, facts: Facts) -> float:
    """By how much more than a count a number may be off on a lattice of its own, in rows.

    Of functions with `fine` weights. On a finer lattice noise reaches up to a row further. Rounded
    weights add half a step a row: a thousandth of the deviation, where the lattice can be so fine.
    """
    most = facts.row_limit * 2.0 ** -min(finest(math.inf) + 1, allowed_bits(facts.row_limit))
    return 1 + max(law_of_count(noise, facts).standard_deviation() / 1000, most)


def fine(form: LinearForm) -> bool:
    """Whether the lattice of each of these functions is as fine as sums of shares allow."""
    return form.integral or (form.reach <= 1 and form.uneven == 1)


def moving_row(form: LinearForm, facts: Facts) -> int:
    """The function that a row changes most: what no row changes is measured for nothing."""
    low, high = form.extents()
    if facts.outside or facts.rows is None:
        low, high = np.minimum(low, 0.0), np.maximum(high, 0.0)
    return int((high - low).argmax())


@frozen
class NumberPricing:
    """What measuring one of several functions costs at the most, and how far off it may be."""

    guarantee: Guarantee
    accuracies: tuple[HalfWidths, ...]
    """Those that the number may have; the widest of them bounds it."""


def price_any(form: LinearForm, noise: Noise, terms: Terms) -> NumberPricing:
    """What measuring one function of a form with weights from 0 to 1 would do. Spends nothing."""
    facts = terms.facts
    most = Measure(form.row(moving_row(form, facts)), noise).price(terms)
    if form.integral or form.rows == 1:
        return NumberPricing(most.guarantee, (most.accuracy,))
    if form.rows > _PRICED and fine(form):
        slack = on_any_lattice(noise, facts)
        bound = NoiseAccuracy(law_of_count(noise, facts), 1, 1.0, slack)
        return NumberPricing(most.guarantee, (bound,))
    rows = [form.row(number) for number in range(form.rows)]
    parts = dict.fromkeys([Measure(row, noise).price(terms).accuracy for row in rows])
    return NumberPricing(most.guarantee, tuple(parts))
