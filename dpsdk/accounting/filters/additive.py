"""Filters that add up one number a run: basic, advanced and zCDP composition."""

from __future__ import annotations

import math
from abc import abstractmethod
from fractions import Fraction
from functools import lru_cache
from typing import ClassVar, NoReturn

from dpsdk._checks import to_probability, whole_repr
from dpsdk._records import field, frozen
from dpsdk.accounting.budget import Budget
from dpsdk.accounting.filters.composition import Composition, Runs, State, counted
from dpsdk.accounting.guarantee import (
    BoundedRangeGuarantee,
    DiscreteGaussianGuarantee,
    Guarantee,
)
from dpsdk.accounting.numbers import (
    LEAK_STEPS,
    as_text,
    ceil_steps,
    floor_steps,
    fraction_down,
    from_steps,
    sqrt_down,
    truncated,
)
from dpsdk.accounting.prices.conversion import bun_steinke_start, zcdp_start
from dpsdk.accounting.prices.run import prices_of, pure_rho
from dpsdk.codec import AMOUNT, Member, written
from dpsdk.errors import InvalidArgument, UnsupportedGuarantee
from dpsdk.typing import Real

__all__ = [
    "LEAKS",
    "LEAK_SHARE",
    "AdditiveComposition",
    "AdvancedComposition",
    "BasicComposition",
    "OneLimitComposition",
    "ZCDPComposition",
    "begun",
    "refuse_leaks",
    "root_down",
    "to_leak_share",
]


LEAK_SHARE = Fraction(1, 500)
"""The share of δ that is kept for leaks unless told, so little that it hardly costs a run."""

LEAKS = {"leak_share": Member(AMOUNT, Fraction(0))}
"""The member of the written form of every composition with such a share."""


def to_leak_share(value: Real) -> Fraction:
    """A share of δ, in [0, 1)."""
    return to_probability("leak_share", value, zero=True)


def refuse_leaks(title: str, guarantee: Guarantee) -> NoReturn:
    """Say that a composition has no price for leaks, since it was told to keep no δ for them."""
    reason = "of delta nothing is kept for the leaks of (ε, δ) runs; leak_share= would keep a share"
    raise UnsupportedGuarantee(str(guarantee), title, reason)


def begun(title: str, budget: Budget, limit: Fraction, leaks: Fraction) -> State:
    """The state in which nothing was charged, of a filter whose theorem spends δ."""
    state = State((0, 0), (floor_steps(limit), floor_steps(leaks, LEAK_STEPS)))
    if not state.limit[0]:
        expected = f"one under which {title} can answer something: of a larger delta or epsilon"
        raise InvalidArgument("budget", expected, str(budget))
    return state


@lru_cache(4096)
def _claim_cost(guarantee: DiscreteGaussianGuarantee) -> tuple[int, int]:
    if guarantee.claim is None:
        reason = "it needs a proven (ε, δ), as of Gaussian(epsilon=..., delta=...)"
        raise UnsupportedGuarantee(str(guarantee), "basic composition", reason)
    epsilon, delta = guarantee.claim
    return ceil_steps(epsilon), ceil_steps(delta, LEAK_STEPS)


@lru_cache(4096)
def _squares(guarantee: Guarantee) -> int:
    """Half of ε² in steps, or a quarter of that of a bounded range; ρ where there is no ε."""
    priced = prices_of(guarantee)
    if priced.epsilon is None:
        return priced.rho_steps
    square = Fraction(*priced.epsilon) ** 2
    return ceil_steps(square / 8 if isinstance(guarantee, BoundedRangeGuarantee) else square / 2)


def root_down(value: Fraction) -> Fraction:
    """A lower bound of a square root."""
    return Fraction(sqrt_down(fraction_down(value)))


def _pure_epsilon_of(rho: Fraction) -> Fraction:
    """The largest ε, to 15 digits and rounded down, whose pure runs are charged at most `rho`."""
    # ε tanh(ε/2) is at most ε²/2 and at most ε.
    low = max(truncated(root_down(2 * rho)), truncated(rho))
    target = float(rho)
    guess = float(low)
    for _ in range(60):
        if not 0.0 < guess < math.inf:
            return low
        tanh = math.tanh(guess / 2.0)
        slope = tanh + guess * (1.0 - tanh * tanh) / 2.0
        guess -= (guess * tanh - target) / slope
    for cut in (1e-13, 1e-9):
        epsilon = truncated(Fraction(guess * (1.0 - cut)))
        if epsilon > low and pure_rho(epsilon) <= rho:
            return epsilon
    return low


class OneLimitComposition(Composition):
    """Accepts while one number of charges stays within a limit, and leaks within another."""

    __slots__ = ()

    title: ClassVar[str]
    leak_share: Fraction

    @property
    def concurrent(self) -> bool:
        """True, for reasons that the proof of each filter gives."""
        return True

    def limit(self, epsilon: Fraction, delta: Fraction) -> Fraction:
        """The largest sum of charges that keeps (ε, δ), from which `limits` follow."""
        raise NotImplementedError

    def limits(self, budget: Budget) -> tuple[Fraction, Fraction]:
        """The largest sum of charges, and the largest sum of leaks: the share of δ for them."""
        leaks = budget.delta * self.leak_share
        return self.limit(budget.epsilon, budget.delta - leaks), leaks

    def begin(self, budget: Budget) -> State:
        """The state in which nothing was charged.

        Raises `InvalidArgument` if the budget leaves nothing to charge, as at δ = 0 where the
        theorem spends δ.
        """
        return begun(self.title, budget, *self.limits(budget))

    def capacity(self, state: State, guarantee: Guarantee) -> int | None:
        return self.rounds(state, (guarantee,))

    def fraction(self, state: State) -> float:
        """The share of the charges that is spent; 1 where nothing may be charged."""
        return state.spent[0] / state.limit[0] if state.limit[0] else 1.0

    def leaked(self, state: State) -> Fraction:
        return from_steps(state.spent[1], LEAK_STEPS)

    def _left(self, state: State) -> Fraction:
        return from_steps(state.left(0))

    def _leak(self, guarantee: Guarantee) -> int:
        """The leak of a run, in steps, where δ is kept for leaks."""
        leak = prices_of(guarantee).leak_steps
        if leak and not self.leak_share:
            refuse_leaks(self.title, guarantee)
        return leak


class AdditiveComposition(OneLimitComposition):
    """Accepts while the sum of a charge stays within a limit, and so does the sum of leaks."""

    __slots__ = ()

    axis: ClassVar[str]

    @abstractmethod
    def cost(self, guarantee: Guarantee) -> tuple[int, int]:
        """The charge and the leak of one run, in steps of their grids, rounded up.

        Raises `UnsupportedGuarantee` if no theorem prices the guarantee here.
        """

    def charge(self, state: State, guarantee: Guarantee) -> State | None:
        if guarantee.free:
            return state
        cost, leaked = self.cost(guarantee)
        spent, leaks = state.spent[0] + cost, state.spent[1] + leaked
        if spent > state.limit[0] or leaks > state.limit[1]:
            return None
        return State((spent, leaks), state.limit)

    def charge_all(self, state: State, runs: Runs) -> State | None:
        spent, leaks = state.spent
        for guarantee, times in counted(runs):
            cost, leaked = self.cost(guarantee)
            spent += cost * times
            leaks += leaked * times
        if spent > state.limit[0] or leaks > state.limit[1]:
            return None
        return State((spent, leaks), state.limit)

    def rounds(self, state: State, runs: Runs) -> int | None:
        costs = [(self.cost(guarantee), times) for guarantee, times in counted(runs)]
        sums = [sum(cost[axis] * times for cost, times in costs) for axis in (0, 1)]
        fits = [state.left(axis) // total for axis, total in enumerate(sums) if total]
        return min(fits, default=None)

    def largest_rho(self, state: State) -> Fraction:
        """The rest of ρ, exactly."""
        return self._left(state)

    def describe(self, state: State) -> tuple[str, ...]:
        spent, limit = from_steps(state.spent[0]), from_steps(state.limit[0])
        text = f"{self.title}: {self.axis} {as_text(spent)} of {as_text(limit)}"
        if state.spent[1]:
            leak_limit = from_steps(state.limit[1], LEAK_STEPS)
            text += f", delta {as_text(self.leaked(state))} of {as_text(leak_limit)}"
        return (text,)


@written("composition.basic", {})
@frozen
class BasicComposition(AdditiveComposition):
    """ε and δ add up. Pure runs hold their sum on every path, with no δ at all.

    A discrete Gaussian run is priced only through its `claim`, a proven pair (ε, δ). Where
    Gaussians come between large pure runs, `MixedComposition` prices them by their ρ.

    Source: Dwork, McSherry, Nissim and Smith (2006); fully adaptive and concurrent.
    """

    title: ClassVar[str] = "basic composition"
    axis: ClassVar[str] = "epsilon"
    uses_delta: ClassVar[bool] = False

    def limits(self, budget: Budget) -> tuple[Fraction, Fraction]:
        """The budget's ε, and all of its δ for leaks."""
        return budget.epsilon, budget.delta

    def cost(self, guarantee: Guarantee) -> tuple[int, int]:
        """The ε and the δ of one run, in steps of their grids, rounded up."""
        priced = prices_of(guarantee)
        if priced.epsilon_steps is not None:  # also of a free run, whatever its claim
            return priced.epsilon_steps, priced.leak_steps
        if type(guarantee) is DiscreteGaussianGuarantee:
            return _claim_cost(guarantee)
        reason = "no theorem gives its epsilon"
        raise UnsupportedGuarantee(str(guarantee), self.title, reason)

    def largest_epsilon(self, state: State) -> Fraction:
        """The rest of ε, exactly."""
        return self._left(state)

    def largest_rho(self, state: State) -> Fraction:
        """Zero: a Gaussian run without a claim has no price here."""
        del state
        return Fraction(0)


@written("composition.advanced", LEAKS)
@frozen
class AdvancedComposition(AdditiveComposition):
    """The constants of Dwork, Rothblum and Vadhan (2010), under full adaptivity.

    With W the sum of ε² over pure runs, W/2 + √(2 W ln(1/δ)) stays at or below the budget's ε. A
    run of ρ-zCDP counts as ε² = 2ρ.

    Parameters
    ----------
    leak_share
        The share of the budget's δ, in [0, 1), kept for the leaks of (ε, δ) runs; 0 refuses them.

    Notes
    -----
    Whitehouse, Ramdas, Rogers and Wu (2023); docs/explanation/proofs/composition-advanced.md has
    the proof. `ZCDPComposition` admits more.
    """

    title: ClassVar[str] = "advanced composition"
    axis: ClassVar[str] = "rho"

    leak_share: Fraction = field(default=LEAK_SHARE, converter=to_leak_share, repr=whole_repr)

    def limit(self, epsilon: Fraction, delta: Fraction) -> Fraction:
        """The ρ of the closed form."""
        return bun_steinke_start(epsilon, delta)

    def cost(self, guarantee: Guarantee) -> tuple[int, int]:
        """ε²/2 and the leak of one run, in steps of their grids, rounded up."""
        return _squares(guarantee), self._leak(guarantee)

    def largest_epsilon(self, state: State) -> Fraction:
        """The largest ε with ε²/2 at most what is left."""
        return truncated(root_down(2 * self._left(state)))


@written("composition.zcdp", LEAKS)
@frozen
class ZCDPComposition(AdditiveComposition):
    """Zero-concentrated differential privacy with the smallest ρ of each run.

    ρ adds up under full adaptivity and for concurrent interactive runs; the limit is the largest ρ
    that gives the budget's (ε, δ).

    Parameters
    ----------
    leak_share
        The share of the budget's δ, in [0, 1), kept for the leaks of (ε, δ) runs; 0 refuses them.

    Notes
    -----
    Bun and Steinke (2016) for the sum, Canonne, Kamath and Steinke (2020) for the conversion;
    docs/explanation/proofs/composition-zcdp.md has the proof. δ must be positive.
    """

    title: ClassVar[str] = "zCDP composition"
    axis: ClassVar[str] = "rho"

    leak_share: Fraction = field(default=Fraction(0), converter=to_leak_share, repr=whole_repr)

    def limit(self, epsilon: Fraction, delta: Fraction) -> Fraction:
        """The ρ that is certified for (ε, δ)."""
        return zcdp_start(epsilon, delta)

    def cost(self, guarantee: Guarantee) -> tuple[int, int]:
        """The ρ and the leak of one run, in steps of their grids, rounded up."""
        return prices_of(guarantee).rho_steps, self._leak(guarantee)

    def largest_epsilon(self, state: State) -> Fraction:
        """The largest ε whose ε tanh(ε/2) is at most what is left."""
        return _pure_epsilon_of(self._left(state))
