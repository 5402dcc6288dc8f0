"""What fits where pure and Gaussian runs come mixed, and what the best analyst makes of it."""

import functools
import math
from fractions import Fraction

import numpy as np
import pytest

from dpsdk.accounting import (
    AnyOf,
    ApproximateGuarantee,
    BasicComposition,
    Budget,
    DiscreteGaussianGuarantee,
    MixedComposition,
    Odometer,
    PureGuarantee,
    RenyiComposition,
    ZCDPComposition,
    default_composition,
    renyi_start,
)
from dpsdk.errors import BudgetExceeded, InvalidArgument, UnsupportedGuarantee
from mixtures import BUDGET, COMPOSITIONS, MIXTURES, TINY, laplace, rounds

pytestmark = pytest.mark.thorough

DEFAULT = (558, 10, 5, 556, 9, 4, 3, 556, 9, 4, 4, 4, 279, 3, 7, 2, 26)


@pytest.mark.parametrize(("mixture", "count"), list(zip(MIXTURES, DEFAULT, strict=True)))
def test_the_default_falls_off_no_cliff(mixture, count):
    assert rounds(COMPOSITIONS["default"], mixture) == count
    for name in ("basic", "advanced", "zCDP", "envelope"):
        other = rounds(COMPOSITIONS[name], mixture) or 0
        assert count >= other * 0.998 - 1e-9


@pytest.mark.parametrize("mixture", MIXTURES, ids=lambda mixture: mixture[0])
def test_rounds_are_as_many_as_can_be_charged(mixture):
    composition = default_composition()
    odometer = Odometer(BUDGET, composition)
    for run in mixture[1]:
        odometer.charge(run, "first")
    for _ in range(rounds(composition, mixture) or 0):
        odometer.charge_all(mixture[2], "fits")
    with pytest.raises(BudgetExceeded):
        odometer.charge_all(mixture[2], "does not")


def charged(composition, *runs):
    state = composition.begin(BUDGET)
    for run in runs:
        after = composition.charge(state, run)
        assert after is not None
        state = after
    return state


@pytest.mark.parametrize(
    "runs",
    [
        (),
        (TINY,),
        (laplace("0.01"),) * 200,
        (laplace("0.3"), TINY),
        (TINY, laplace("0.2"), laplace("0.3")),
        (ApproximateGuarantee("0.1", "1e-9"), TINY),
    ],
    ids=len,
)
def test_the_largest_epsilon_can_be_asked_and_no_larger_one(runs):
    composition = default_composition()
    state = charged(composition, *runs)
    size = composition.largest_epsilon(state)
    assert composition.charge(state, PureGuarantee(size)) is not None
    assert composition.charge(state, PureGuarantee(size * Fraction("1.001"))) is None


def test_a_tiny_gaussian_leaves_most_of_the_budget():
    composition = default_composition()
    state = charged(composition, TINY)
    assert composition.fraction(state) < 0.12
    assert composition.largest_epsilon(state) > Fraction("0.88")
    assert composition.largest_rho(state) > Fraction("0.027")


def test_the_order_is_the_least_power_of_two_that_leaves_seven_eighths():
    for budget in (BUDGET, Budget("0.1", 1e-9), Budget(20, 1e-3), Budget("1e-4", 1e-12)):
        composition = MixedComposition(leak_share=0)
        state = composition.begin(budget)
        places = [place for place, part in enumerate(state.parts) if part and part.limit]
        assert len(places) == 1
        order = 2 ** (places[0] + 1)
        kept = budget.epsilon * Fraction(7, 8)
        assert renyi_start(budget.epsilon, budget.delta, order) >= kept
        assert order == 2 or renyi_start(budget.epsilon, budget.delta, Fraction(order, 2)) < kept
        # Within the slack of floats, it is the Rényi filter of that order.
        same = RenyiComposition(order, leak_share=0)
        begun = same.begin(budget)
        for run in (PureGuarantee(budget.epsilon / 7), TINY):
            assert composition.capacity(state, run) == same.capacity(begun, run)


def test_weights_share_out_the_delta():
    members = (BasicComposition(), ZCDPComposition(0), RenyiComposition(40, 0))
    composition = AnyOf(members, weights=(7, 3, 1), leak_share="0.2")
    state = composition.begin(BUDGET)
    kept = BUDGET.delta * Fraction(4, 5)
    expected = (Fraction(0), kept * Fraction(3, 4), kept / 4)
    for member, part, delta in zip(members, state.parts, expected, strict=True):
        assert part == member.begin(Budget(1, delta))
    even = AnyOf(members).begin(BUDGET)
    assert even.parts[1] == ZCDPComposition(0).begin(Budget(1, BUDGET.delta / 2))


@pytest.mark.parametrize("weights", [(1,), (1, 2, 3), (1, 0), (1, -1), (1, "x")])
def test_weights_that_share_out_nothing_are_refused(weights):
    with pytest.raises(InvalidArgument) as caught:
        AnyOf((BasicComposition(), ZCDPComposition()), weights=weights)  # type: ignore[arg-type]
    assert caught.value.parameter == "weights"


def test_leaks_are_paid_once_for_all_members():
    composition = default_composition(leak_share="0.1")
    run = ApproximateGuarantee("0.01", "1e-9")
    state = charged(composition, run, run)
    assert composition.leaked(state) == Fraction("2e-9")
    assert all(part is not None for part in state.parts)
    # Ten times as many leaks as are kept do not fit, whatever the epsilon.
    leaking = ApproximateGuarantee(0, "1e-8")
    assert composition.capacity(composition.begin(BUDGET), leaking) == 10
    assert composition.rounds(state, (leaking, PureGuarantee("0.01"))) == 9
    spent = charged(composition, *[leaking] * 10)
    assert composition.charge(spent, leaking) is None
    assert composition.charge(spent, PureGuarantee(1)) is not None
    assert "leaks: delta 1e-7 of 1e-7" in composition.describe(spent)
    without = default_composition(leak_share=0)
    with pytest.raises(UnsupportedGuarantee):
        without.charge(without.begin(Budget(1)), TINY)
    with pytest.raises(UnsupportedGuarantee, match="leak_share="):
        without.charge(without.begin(BUDGET), run)


def test_a_tiny_leak_closes_nothing():
    composition = default_composition()
    state = charged(composition, ApproximateGuarantee("1e-6", "1e-12"))
    assert composition.charge(state, PureGuarantee("0.99")) is not None


def test_an_order_that_certifies_nothing_is_refused_by_name_with_one_that_does():
    with pytest.raises(InvalidArgument) as caught:
        RenyiComposition(8).begin(BUDGET)
    assert caught.value.parameter == "order"
    order = int(caught.value.expected.rsplit(" ", 1)[1])
    state = RenyiComposition(order).begin(BUDGET)
    assert RenyiComposition(order).fraction(state) == 0.0
    for budget in (Budget("1e-9", 1e-30), Budget(50, 0.5), Budget("0.01", "0.9")):
        try:
            RenyiComposition("1.000001").begin(budget)
        except InvalidArgument as error:
            better = RenyiComposition(int(error.expected.rsplit(" ", 1)[1]))
            assert better.fraction(better.begin(budget)) == 0.0


# The best adaptive analyst with a menu of one randomised response and one discrete Gaussian, whose
# losses lie on one lattice: steps of 1/(2 variance), odd ones for the Gaussian.

UNIT = Fraction(1, 80)
VARIANCE = 1 / (2 * UNIT)
GAUSSIAN = DiscreteGaussianGuarantee(VARIANCE, 1, 1)


def gaussian_law():
    """The probabilities of the losses 1 - 2z of a Gaussian run, z from -60 to 60."""
    points = np.arange(-60, 61)
    weights = np.exp(-(points**2) / (2 * float(VARIANCE)))
    return np.asarray(weights / weights.sum(), dtype=np.float64)


def best_delta(composition, budget, size):
    """The largest δ at the budget's ε, over adaptive choices, of runs that the filter accepts."""
    law, pure = gaussian_law(), PureGuarantee(size * UNIT)
    reach = 3000
    losses = np.arange(-reach, reach + 1) * float(UNIT)
    stop = np.maximum(0.0, -np.expm1(np.minimum(float(budget.epsilon) - losses, 0.0)))
    p = 1.0 / (1.0 + math.exp(-size * float(UNIT)))

    @functools.cache
    def state(first, second):
        # Acceptance does not depend on the order where members add up.
        if first == second == 0:
            return composition.begin(budget)
        before = (first - 1, second)
        run = pure
        if not first:
            before, run = (0, second - 1), GAUSSIAN
        earlier = state(*before)
        return None if earlier is None else composition.charge(earlier, run)

    @functools.cache
    def value(first, second):
        best = stop
        if state(first + 1, second) is not None:
            after = value(first + 1, second)
            best = np.maximum(best, p * np.roll(after, -size) + (1.0 - p) * np.roll(after, size))
        if state(first, second + 1) is not None:
            after = value(first, second + 1)
            moved = sum(
                (
                    weight * np.roll(after, 2 * z - 1)
                    for z, weight in zip(range(-60, 61), law, strict=True)
                ),
                np.zeros_like(after),
            )
            best = np.maximum(best, moved)
        return best

    return float(value(0, 0)[reach])


@pytest.mark.parametrize(
    "composition",
    [
        MixedComposition(0),
        AnyOf((BasicComposition(), MixedComposition(0))),
        AnyOf((BasicComposition(), ZCDPComposition(0), MixedComposition(0)), weights=(0, 3, 1)),
    ],
    ids=["mixed", "basic or mixed", "basic, zCDP or mixed"],
)
@pytest.mark.parametrize(("delta", "size"), [("1e-2", 24), ("1e-4", 48)])
def test_no_adaptive_analyst_gets_past_a_mixture(composition, delta, size):
    budget = Budget(2, delta)
    assert composition.charge(composition.begin(budget), GAUSSIAN) is not None
    value = best_delta(composition, budget, size)
    assert 0.0 < value <= float(budget.delta)


class Unconverted(RenyiComposition):
    """A filter that is wrong: it forgets what the conversion to (ε, δ) takes."""

    def limits(self, budget):
        return budget.epsilon, Fraction(0)


def test_the_game_catches_a_filter_that_is_wrong():
    budget = Budget(2, "1e-2")
    assert best_delta(Unconverted(4), budget, 24) > float(budget.delta)
