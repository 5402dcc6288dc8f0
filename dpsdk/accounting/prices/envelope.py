"""The charge of a run to a Gaussian envelope, by how much of it is left.

docs/explanation/proofs/composition-envelope.md proves each charge.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from decimal import Decimal
from fractions import Fraction
from functools import lru_cache

from dpsdk.accounting.guarantee import BoundedRangeGuarantee, DiscreteGaussianGuarantee, Guarantee
from dpsdk.accounting.numbers import (
    DOWN,
    STEPS,
    UP,
    ceil_steps,
    exp_up,
    floor_steps,
    fraction_down,
    from_steps,
)
from dpsdk.accounting.prices.gdp import randomised_response_mu_squared
from dpsdk.accounting.prices.run import prices_of
from dpsdk.errors import UnsupportedGuarantee

__all__ = [
    "TITLE",
    "Price",
    "discrete_gaussian_excess",
    "gaussian_envelope",
    "least_price",
    "price_of",
    "pure_cost",
    "round_price",
    "set_aside_for",
    "steady_price",
    "widest_share",
]

TITLE = "envelope composition"
"""The name of the composition of these prices in refusals."""

_LEAST = Decimal("1e-200")

Price = tuple[int, int]
"""The steps that a run costs, and the smallest v from which on that holds."""

_BITS = 8
"""Charges are worked out for v cut to so many bits: a charge stays valid for every larger v."""

_RESERVES = tuple(
    Fraction(text)
    for text in (
        *("0.95", "0.8", "0.5", "0.2", "0.05", "0.02", "0.01"),
        *("0.005", "0.002", "1e-3", "1e-4", "1e-5"),
    )
)

"""The shares w/v for which the charge of a discrete Gaussian is worked out."""

_WIDE, _MOST, _MOST_STEPS = 30, 10**50, 10**190
"""For noise so wide, in so many entries, the excess is below 1e-195: less than a step of a cost."""


_CORNER_REACH = 2
"""Up to this ε the corner costs at least 4/3 ε²; beyond, at least what it costs here."""


def _corner_cost(epsilon: Fraction, v: int) -> int | None:
    """The μ² of randomised response at ε, where that much is left."""
    reach = min(epsilon, Fraction(_CORNER_REACH))
    if 3 * v < 4 * floor_steps(reach * reach):
        return None
    corner = ceil_steps(randomised_response_mu_squared(epsilon))
    return corner if corner <= v else None


def pure_cost(above: int, below: int, v: int) -> int | None:
    """The steps that an ε-DP run takes from v: randomised response is the worst.

    With w = v - cost it suffices that w + ε² + ε⁴/(6w) ≤ v and ε² ≤ 5w.
    """
    square = -(-above * above * STEPS // (below * below))
    left = v - square
    root = left * left - (2 * square * square + 2) // 3
    general: int | None = None
    if left > 0 and root >= 0:
        w = (left + math.isqrt(root)) // 2
        if 5 * w >= square and 6 * w * (v - w - square) >= square * square:
            general = v - w
            if above <= _CORNER_REACH * below and 3 * general <= 4 * square:
                return general  # which the corner is not below
    corner = _corner_cost(Fraction(above, below), v)
    return min((cost for cost in (general, corner) if cost is not None), default=None)


def _bounded_range_cost(above: int, below: int, v: int) -> int | None:
    """The steps that a run of loss range η takes from v.

    With w = v - cost it suffices that w (v - w) / v ≥ η²/4, the largest variance of such a loss.
    """
    square = -(-above * above * STEPS // (below * below))
    root = v * (v - square)
    general: int | None = None
    if v >= square:
        w = (v + math.isqrt(root)) // 2
        if 4 * w * (v - w) >= v * square:
            general = v - w
            if above <= 2 * _CORNER_REACH * below and 3 * general <= square:
                return general  # which the corner is not below
    corner = _corner_cost(Fraction(above, 2 * below), v)
    return min((cost for cost in (general, corner) if cost is not None), default=None)


@lru_cache(4096)
def _cost(guarantee: Guarantee, v: int) -> int | None:
    """The steps that a run takes from v, of which nothing but its size is known."""
    size = prices_of(guarantee).epsilon
    if size is None:
        reason = "no theorem gives its charge"
        raise UnsupportedGuarantee(str(guarantee), TITLE, reason)
    ranged = type(guarantee) is BoundedRangeGuarantee
    return (_bounded_range_cost if ranged else pure_cost)(*size, v)


def discrete_gaussian_excess(variance: Fraction, entries: int) -> Fraction | None:
    """How much larger than its parameter the variance of shifted discrete Gaussians may be.

    A bound of the relative excess, for every shift of the lattice, of the variance along any
    direction of a vector of `entries` discrete Gaussians, jointly of any covariance form whose
    eigenvalues are at least `variance`. None where nothing is proven.

    By Poisson summation the logarithm of the normalising sum differs from a constant by
    ln(1 + the sum over k ≠ 0 of e^(-2π² k'Σk) cos 2πk'u), whose second derivative bounds the excess
    by the sum over k ≠ 0 of 4π² q e^(-2π² q), q = k'Σk ≥ variance |k|², over 1 minus the sum of
    e^(-2π² q). q e^(-2π² q) falls from q = 1/(2π²) on.
    """
    if variance < Fraction(1, 5):
        return None
    # 19.739 < 2π², and 4π² < 39.479.
    theta = exp_up(UP.multiply(Decimal("-19.739"), fraction_down(variance)))
    # From n² ≥ 3n - 2 and n² ≤ 4^(n-1), n² θ^(n²) adds up over n ≠ 0 to at most 2θ/(1 - 4θ³).
    cube = UP.multiply(UP.multiply(4, theta), UP.multiply(theta, theta))
    squares = UP.divide(UP.multiply(2, theta), DOWN.subtract(1, cube))
    rest = UP.multiply(entries, squares)
    whole = exp_up(min(rest, Decimal(1)))
    if whole > Decimal("1.5"):
        return None
    weight = UP.multiply(UP.multiply(Decimal("39.479"), rest), whole)
    # Kept from vanishing, since a decimal of astronomic exponent has no workable fraction.
    return Fraction(max(_LEAST, UP.divide(weight, DOWN.subtract(2, whole)))) * variance


@lru_cache(4096)
def _gaussian_price(guarantee: DiscreteGaussianGuarantee, place: int) -> Price | None:
    """The charge of a discrete Gaussian where w stays at or above a share t of v.

    Its law given the smoothed loss then has eigenvalues of at least t · variance, and the charge
    μ² (1 + excess) / (1 - excess (1 - t) / t) is enough. None where nothing is proven.
    """
    share = _RESERVES[place]
    square = ceil_steps(2 * guarantee.rho)
    width = share * guarantee.variance
    if width >= _WIDE and guarantee.shift_squared <= _MOST and square <= _MOST_STEPS:
        cost = square + 1
    else:
        # Each entry that differs does so by a whole step, so that many differ at the most.
        excess = discrete_gaussian_excess(width, guarantee.shift_squared)
        if excess is None or excess * (1 - share) >= share:
            return None
        exact = 2 * guarantee.rho * (1 + excess) / (1 - excess * (1 - share) / share)
        # Not below that of a larger share, since a charge must not grow with what is left.
        cost = max(square + 1, ceil_steps(exact))
    # From the cost as charged, since that is what must leave a share t of v.
    return cost, -(-cost * share.denominator // (share.denominator - share.numerator))


def _gaussian_prices(guarantee: DiscreteGaussianGuarantee) -> Iterator[Price]:
    """The charges of a discrete Gaussian, from the largest v down, each when it is asked for."""
    for place in range(len(_RESERVES)):
        price = _gaussian_price(guarantee, place)
        if price is None and not place:
            raise _too_narrow(guarantee)
        if price is None:
            return
        yield price


def least_price(guarantee: DiscreteGaussianGuarantee) -> int:
    """The fewest steps that a discrete Gaussian takes, whatever is left."""
    return ceil_steps(2 * guarantee.rho) + 1


@lru_cache(4096)
def set_aside_for(guarantee: DiscreteGaussianGuarantee) -> int | None:
    """Of how many steps a discrete Gaussian can be paid where nothing else is left.

    The least v that some charge of it holds from. None where nothing is proven.
    """
    try:
        return min(floor for _, floor in _gaussian_prices(guarantee))
    except UnsupportedGuarantee:
        return None


def widest_share(square: Fraction) -> Fraction:
    """The share of a squared shift that a discrete Gaussian of 8 lattice steps or more may take."""
    # At a variance of 64 the share 0.02 serves up to a thousand entries or so, 0.05 always.
    return Fraction("0.9798" if square < 4 else "0.9498")


def _gaussian_price_at(guarantee: DiscreteGaussianGuarantee, v: int) -> Price | None:
    """The first charge of the table that v allows; None where none does."""
    for price in _gaussian_prices(guarantee):
        if price[1] <= v:
            return price
        if price[0] > v:
            return None  # at no share does it cost less than its μ²
    return None


def _too_narrow(guarantee: DiscreteGaussianGuarantee) -> UnsupportedGuarantee:
    reason = (
        "its noise is too narrow in steps of its lattice to be bounded by a Gaussian; a finer "
        "lattice would do, and ZCDPComposition() prices it as it is"
    )
    return UnsupportedGuarantee(str(guarantee), TITLE, reason)


def gaussian_envelope(runs: Iterable[tuple[DiscreteGaussianGuarantee, int]]) -> Fraction:
    """A μ² such that these discrete Gaussians, each so many times, are together μ-GDP.

    Where every w stays at or above a share t of v, the sum of the charges at t over 1 - t is such a
    v: what is left at the end, t v, only adds to what is told.
    """
    tables = [(list(_gaussian_prices(run)), count) for run, count in runs]
    shares = min((len(prices) for prices, _ in tables), default=0)
    sums = [
        sum((from_steps(prices[place][0]) * count for prices, count in tables), Fraction(0))
        / (1 - _RESERVES[place])
        for place in range(shares)
    ]
    return min(sums, default=Fraction(0))


def price_of(guarantee: Guarantee, v: int) -> Price | None:
    """The charge of one run to v; None where it does not fit."""
    prices_of(guarantee)  # which refuses all classes but the known ones
    if type(guarantee) is DiscreteGaussianGuarantee:
        return _gaussian_price_at(guarantee, v)
    # The v, at or below this one, for which the charge is worked out.
    shift = max(0, v.bit_length() - _BITS)
    floor = v >> shift << shift
    steps = _cost(guarantee, floor)
    if steps is None:
        floor, steps = v, _cost(guarantee, v)
    return None if steps is None else (steps, floor)


def round_price(runs: Sequence[tuple[Guarantee, int]], v: int) -> Price | None:
    """The price of several runs, one after the other."""
    total, floor = 0, 0
    fits = True
    for guarantee, times in runs:
        left = times
        while left:
            price = price_of(guarantee, v - total)  # asked of all, since one may be unsupported
            if price is None:
                fits = False
            if price is None or not fits:
                break
            cost, least = price
            # So many runs of this kind have this very price, the last of them just above its floor.
            alike = min(left, (v - total - least) // cost + 1) if cost else left
            # A price holds from its own floor on, which lies behind the runs before it.
            floor = max(floor, least + total + (alike - 1) * cost)
            total += alike * cost
            left -= alike
    return (total, floor) if fits else None


def steady_price(runs: Sequence[tuple[Guarantee, int]], v: int) -> Price | None:
    """The price of several runs as `round_price` has it, from the smallest v that is found."""
    price = round_price(runs, v)
    if price is None:
        return None
    cost, floor = price
    # Prices fall as v grows, so one that is the same further down is the same in between.
    shift = 0
    while cost and (lower := round_price(runs, (floor - 1) >> shift)) and lower[0] == cost:
        floor, shift = lower[1], 2 * shift + 1
    return cost, floor
