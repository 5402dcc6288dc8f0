"""The Gaussian envelope: a filter that keeps the whole session Gaussian differentially private.

What is still to be spent smooths each run, which is why a run costs nearly its variance rather than
its worst case. docs/explanation/proofs/composition-envelope.md proves the filter and each charge.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from typing import ClassVar

from dpsdk._checks import whole_repr
from dpsdk._records import field, frozen
from dpsdk.accounting.filters.additive import (
    LEAKS,
    OneLimitComposition,
    root_down,
    to_leak_share,
)
from dpsdk.accounting.filters.composition import Runs, State, counted
from dpsdk.accounting.guarantee import DiscreteGaussianGuarantee, Guarantee
from dpsdk.accounting.numbers import as_text, from_steps, truncated
from dpsdk.accounting.prices.envelope import (
    TITLE,
    price_of,
    pure_cost,
    round_price,
    steady_price,
    widest_share,
)
from dpsdk.accounting.prices.gdp import HALF_PI_UP, gdp_start
from dpsdk.codec import written

__all__ = ["EnvelopeComposition"]

_REACH = 10**4
_ROOT2 = math.sqrt(2.0)
_CUTS = (13, 12, 11, 10, 9, 4)
"""By ten to minus so much a figure in floats is lowered until it fits."""


@written("composition.envelope", LEAKS)
@frozen
class EnvelopeComposition(OneLimitComposition):
    """Keeps the session √v₀-GDP: the sharpest filter here for many small runs.

    Fully adaptive and concurrent. The limit v₀ is the largest squared shift that gives the budget's
    (ε, δ). Pure runs cost little more than ε², runs of bounded range η little more than η²/4, and
    discrete Gaussians their 2ρ, inflated by what their lattice may add; very narrow discrete
    Gaussians are refused.

    Parameters
    ----------
    leak_share
        The share of the budget's δ, in [0, 1), kept for the leaks of (ε, δ) runs; 0 refuses them.

    Notes
    -----
    docs/explanation/proofs/composition-envelope.md has the proof. How far v has fallen is no
    guarantee for a session that ends early; the budget is.
    """

    title: ClassVar[str] = TITLE

    leak_share: Fraction = field(default=Fraction(0), converter=to_leak_share, repr=whole_repr)

    def limit(self, epsilon: Fraction, delta: Fraction) -> Fraction:
        """The squared shift that is certified for (ε, δ)."""
        return gdp_start(epsilon, delta)

    def charge(self, state: State, guarantee: Guarantee) -> State | None:
        if guarantee.free:
            return state
        spent, leaks = state.spent
        leaks += self._leak(guarantee)
        price = price_of(guarantee, state.limit[0] - spent)
        if price is None or leaks > state.limit[1]:
            return None
        return State((spent + price[0], leaks), state.limit)

    def charge_all(self, state: State, runs: Runs) -> State | None:
        priced = counted(runs)
        spent, leaks = state.spent
        leaks += sum(self._leak(guarantee) * times for guarantee, times in priced)
        price = round_price(priced, state.limit[0] - spent)
        if price is None or leaks > state.limit[1]:
            return None
        return State((spent + price[0], leaks), state.limit)

    def rounds(self, state: State, runs: Runs) -> int | None:
        return self.rounds_keeping(state, runs, 0, 0)

    def rounds_keeping(self, state: State, runs: Runs, shift: int, leak: int) -> int | None:
        """How many times they fit so that a squared shift and a δ are left, in steps."""
        priced = counted(runs)
        if not priced:
            return None
        leaks = sum(self._leak(guarantee) * times for guarantee, times in priced)
        most = max(0, state.left(1) - leak) // leaks if leaks else None
        v, count = state.left(0), 0
        known = None if most == 0 else _bounded_rounds(priced, v, shift)
        if known is not None:
            return known if most is None else min(known, most)
        while (most is None or count < most) and (price := steady_price(priced, v)) is not None:
            cost, floor = price
            if not cost:
                return most
            rounds = min((v - floor) // cost + 1, (v - shift) // cost)
            if rounds <= 0:
                break
            count += rounds
            v -= rounds * cost
        return count if most is None else min(count, most)

    def largest_epsilon(self, state: State) -> Fraction:
        """The largest ε of one pure run that takes all that is left."""
        v, left = state.left(0), self._left(state)
        # Where the corner is at the most 8ε, and (π/2) ε².
        low = max(truncated(left / 8), truncated(root_down(left / HALF_PI_UP)))
        half = math.sqrt(left) / 2.0 if left < _REACH else math.inf
        if 0.0 < half < 34.0:
            guess = Fraction(math.log(math.erfc(-half / _ROOT2) / math.erfc(half / _ROOT2)))
            for power in _CUTS:
                cut = Fraction(1, 10**power)
                epsilon = truncated(guess * (1 - cut))
                if epsilon > low and pure_cost(*epsilon.as_integer_ratio(), v) is not None:
                    return epsilon
        return low

    def largest_rho(self, state: State) -> Fraction:
        """A ρ that one discrete Gaussian run of at least 8 lattice steps fits with; 0 if none does.

        It takes 0.9798 of what is left, from a squared shift of 4 on 0.9498. Nearly the largest: a
        wider run, or one of few entries, may take up to 0.99999. Up to a squared shift of 10^15.
        """
        left = self._left(state)
        return truncated(widest_share(left) * left / 2)

    def describe(self, state: State) -> tuple[str, ...]:
        spent, limit = from_steps(state.spent[0]), from_steps(state.limit[0])
        return (f"{self.title}: squared shift {as_text(spent)} of {as_text(limit)}",)


_FINER, _FINEST = 3, 7


def _bounded_rounds(runs: Sequence[tuple[Guarantee, int]], v: int, kept: int) -> int | None:
    """How often runs fit, where bounds by the prices at few places tell; else None.

    A price does not grow with v: at the price of the place below, runs are used up no later than at
    their own prices, and at that of the place above no sooner.
    """
    if all(type(run) is DiscreteGaussianGuarantee for run, _ in runs):
        return None  # whose prices are few
    for bits in (2, 4, 5, 6):
        least = _count_rounds(runs, v, kept, bits, upper=False)
        if least is None or least == _count_rounds(runs, v, kept, bits, upper=True):
            return least
    return None


def _count_rounds(
    runs: Sequence[tuple[Guarantee, int]], v: int, kept: int, bits: int, *, upper: bool
) -> int | None:
    """How often runs would fit for the price at a place beside v; None where they cost nothing."""
    count = cost = 0
    while True:
        # Where little is left, prices differ most.
        finer = min(bits + _FINER, _FINEST) if v >> _FINEST < cost else bits
        shift = max(0, v.bit_length() - 1 - finer)
        floor = v >> shift << shift
        price = round_price(runs, floor + (1 << shift) if upper else floor)
        if price is None:
            return count
        cost = price[0]
        if not cost:
            return None
        rounds = min((v - floor) // cost + 1, (v - kept) // cost)
        if rounds <= 0:
            return count
        count += rounds
        v -= rounds * cost
