import math

import numpy as np
import pytest

from dpsdk.errors import InvalidArgument
from dpsdk.learning import Halving, WeightedMajority


def test_halving_errs_at_most_log_n_times_on_any_stream_with_a_perfect_expert():
    for seed in range(40):
        rng = np.random.default_rng(seed)
        experts = int(rng.integers(1, 70))
        rule, state, mistakes = Halving(experts), Halving(experts).start(), 0
        perfect = int(rng.integers(experts))
        for _ in range(60):
            predictions = rng.random(experts) < rng.random()
            signal = bool(predictions[perfect])
            mistakes += rule.predict(state, predictions) != signal
            state = rule.update(state, predictions, signal)
        assert mistakes <= rule.mistake_bound() == math.floor(math.log2(experts))
        assert state[perfect]


def test_the_bound_of_halving_is_reached():
    rule = Halving(16)
    state, mistakes = rule.start(), 0
    for _ in range(4):
        predictions = np.zeros(16, dtype=bool)
        alive = np.flatnonzero(state)
        predictions[alive[: len(alive) // 2]] = True
        said = rule.predict(state, predictions)
        assert said is False
        state = rule.update(state, predictions, not said)
        mistakes += 1
    assert mistakes == rule.mistake_bound() == 4


def test_without_a_perfect_expert_halving_says_so():
    rule = Halving(3)
    with pytest.raises(InvalidArgument, match="perfect expert"):
        rule.update(rule.start(), np.array([True, True, True]), False)


def adversary(rule, rounds, rng):
    """Half of the weight says one thing, half the other; the signal is what is not predicted."""
    state, mistakes, totals = rule.start(), 0, []
    for _ in range(rounds):
        order = rng.permutation(rule.experts)
        weights = np.exp2(-state[order].astype(float))
        predictions = np.zeros(rule.experts, dtype=bool)
        predictions[order] = np.cumsum(weights) <= weights.sum() / 2
        signal = not rule.predict(state, predictions)
        mistakes += 1
        before = np.exp2(-state.astype(float)).sum()
        state = rule.update(state, predictions, signal)
        totals.append(np.exp2(-state.astype(float)).sum() / before)
    return mistakes, int(state.min()), totals


def test_weighted_majority_keeps_its_bound_against_an_adversary():
    for seed, experts in enumerate((1, 2, 7, 32, 100)):
        rule = WeightedMajority(experts)
        mistakes, best, shrunk = adversary(rule, 150, np.random.default_rng(seed))
        assert mistakes <= rule.mistake_bound(best)
        # Each mistake leaves at most three quarters of the weight, not at least.
        assert max(shrunk) <= 0.75 + 1e-12


def test_weighted_majority_keeps_its_bound_on_random_streams():
    for seed in range(20):
        rng = np.random.default_rng(seed)
        experts = int(rng.integers(1, 40))
        rule = WeightedMajority(experts)
        state, mistakes = rule.start(), 0
        skill = rng.random(experts)
        for _ in range(300):
            signal = bool(rng.random() < 0.5)
            predictions = np.where(rng.random(experts) < skill, signal, not signal)
            mistakes += rule.predict(state, predictions) != signal
            state = rule.update(state, predictions, signal)
        assert mistakes <= rule.mistake_bound(int(state.min()))


def test_the_constant_of_weighted_majority_is_rounded_up():
    # Often printed as 2.4, which is below 1 / log2(4/3) = 2.4094.
    assert WeightedMajority(2).mistake_bound(10**6) > 2.4 * (10**6 + 1)
    assert WeightedMajority(1).mistake_bound(0) == 0


def test_whoever_was_right_keeps_its_weight():
    # Weighted majority says what becomes of those that were wrong, and of nobody else.
    rule = WeightedMajority(3)
    state = rule.update(rule.start(), np.array([True, False, True]), True)
    assert state.tolist() == [0, 1, 0]


def test_weights_never_underflow():
    rule = WeightedMajority(2)
    state = np.array([5000, 5001])
    assert rule.predict(state, np.array([True, False]))
    assert not rule.predict(state, np.array([False, True]))


def test_ties_are_no():
    for rule in (Halving(2), WeightedMajority(2)):
        assert rule.predict(rule.start(), np.array([True, False])) is False


def test_bad_arguments_are_named():
    for kind in (Halving, WeightedMajority):
        for bad in (0, 2.0, True):
            with pytest.raises(InvalidArgument, match="experts"):
                kind(bad)
        rule = kind(3)
        for bad in (np.ones(3), np.ones(2, dtype=bool)):
            with pytest.raises(InvalidArgument, match="predictions"):
                rule.predict(rule.start(), bad)
