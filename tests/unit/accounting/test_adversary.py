"""The best adaptive analyst, found by exact dynamic programming, against every filter.

The analyst picks each run from a menu of two randomised responses after seeing all earlier losses,
and stops when it likes; the value of the game is the largest δ that it can reach at the budget's ε.
"""

import functools
import math
from collections.abc import Callable

import numpy as np
import pytest

from dpsdk.accounting import (
    AdvancedComposition,
    AnyOf,
    BasicComposition,
    Budget,
    EnvelopeComposition,
    PureGuarantee,
    ZCDPComposition,
)
from mixtures import COMPOSITIONS

Allowed = Callable[[int, int], bool]
"""Whether the filter accepts so many runs of the first and of the second kind."""


def game_value(small, ratio, budget, allowed):
    """The largest δ at the budget's ε over adaptive choices of runs of small and ratio · small."""
    epsilon = float(budget.epsilon)
    firsts = next(n for n in range(1000) if not allowed(n + 1, 0))
    seconds = next(n for n in range(1000) if not allowed(0, n + 1))
    reach = firsts + ratio * (seconds + 1)
    losses = np.arange(-reach, reach + 1) * small
    stop = np.maximum(0.0, -np.expm1(np.minimum(epsilon - losses, 0.0)))

    def step(value, size):
        p = 1.0 / (1.0 + math.exp(-size * small))
        up = np.concatenate((value[size:], np.full(size, value[-1])))
        down = np.concatenate((np.full(size, value[0]), value[:-size]))
        return p * up + (1.0 - p) * down

    @functools.cache
    def value(first, second):
        best = stop
        if allowed(first + 1, second):
            best = np.maximum(best, step(value(first + 1, second), 1))
        if allowed(first, second + 1):
            best = np.maximum(best, step(value(first, second + 1), ratio))
        return best

    return float(value(0, 0)[reach])


def filter_rule(composition, budget, small, large):
    """Acceptance by counts, in the order of runs that leaves most.

    Exact for sums. The envelope charges no more where more is left, so that the state with most
    left allows whatever any other order does.
    """
    runs = PureGuarantee(small), PureGuarantee(large)

    @functools.cache
    def state(first, second):
        if first == second == 0:
            return composition.begin(budget)
        found = []
        for count, run, before in (
            (first, runs[0], (first - 1, second)),
            (second, runs[1], (first, second - 1)),
        ):
            earlier = state(*before) if count else None
            after = composition.charge(earlier, run) if earlier is not None else None
            if after is not None:
                found.append(after)
        return min(found, key=lambda place: place.spent, default=None)

    return lambda first, second: state(first, second) is not None


def exact_delta(epsilon, small, ratio, first, second):
    """The exact δ of so many runs of both kinds when all are fixed beforehand."""
    law = np.ones(1)
    for count, size in ((first, 1), (second, ratio)):
        p = 1.0 / (1.0 + math.exp(-size * small))
        kernel = np.zeros(2 * size + 1)
        kernel[0], kernel[-1] = 1.0 - p, p
        for _ in range(count):
            law = np.convolve(law, kernel)
    reach = first + ratio * second
    losses = np.arange(-reach, reach + 1) * small
    return float(np.sum(law * np.maximum(0.0, -np.expm1(np.minimum(epsilon - losses, 0.0)))))


FILTERS = [
    *COMPOSITIONS.values(),
    AnyOf((ZCDPComposition(), AdvancedComposition(), BasicComposition())),
]


@pytest.mark.thorough(quick=9)
@pytest.mark.parametrize("composition", FILTERS)
@pytest.mark.parametrize(
    ("budget", "small", "large", "ratio"),
    [
        (Budget(1, 1e-6), "0.02", "0.1", 5),
        (Budget(1, 1e-6), "0.02", "0.22", 11),
        (Budget(3, 1e-2), "0.1", "0.9", 9),
    ],
)
def test_no_adaptive_analyst_gets_past_a_filter(composition, budget, small, large, ratio):
    allowed = filter_rule(composition, budget, small, large)
    value = game_value(float(small), ratio, budget, allowed)
    if isinstance(composition, BasicComposition):
        assert value <= 1e-15
    else:
        assert value <= float(budget.delta)


@pytest.mark.parametrize("composition", [ZCDPComposition(), EnvelopeComposition()])
def test_the_game_is_a_real_one(composition):
    budget = Budget(1, 1e-6)
    allowed = filter_rule(composition, budget, "0.02", "0.1")
    assert game_value(0.02, 5, budget, allowed) > 1e-8


def test_stopping_on_realised_privacy_curves_is_no_filter():
    # The game catches what is wrong: composing the curves of the runs so far is not adaptive.
    budget = Budget(3, 1e-6)

    @functools.cache
    def allowed(first, second):
        return exact_delta(3.0, 0.1, 10, first, second) <= 1e-6

    assert game_value(0.1, 10, budget, allowed) == pytest.approx(1.479e-6, rel=1e-3)
