import math

import numpy as np
import pytest

from dpsdk.errors import InvalidArgument
from dpsdk.learning import Hedge, RandomizedMultiplicativeWeights
from dpsdk.testing.noise import seeded

pytestmark = pytest.mark.thorough

RULES = (RandomizedMultiplicativeWeights, Hedge)


def worst_losses(p, turn, rng):
    """Loss to who is trusted, gain to who is not."""
    return np.where(p >= np.median(p), 1.0, -1.0)


def random_losses(p, turn, rng):
    return rng.uniform(-1, 1, len(p))


def turning_losses(p, turn, rng):
    losses = np.zeros(len(p))
    losses[turn % 2] = 1.0
    losses[(turn + 1) % 2] = -1.0
    return losses


def luring_losses(p, turn, rng):
    """One expert is best in the end, but each in its turn looks so before."""
    return np.where(
        np.arange(len(p)) == (turn * len(p)) // 400, -1.0, rng.choice([-1.0, 1.0], len(p))
    )


def regret(rule, losses, rounds, seed):
    rng = np.random.default_rng(seed)
    state, own, each = rule.start(), 0.0, np.zeros(rule.experts)
    for turn in range(rounds):
        p = rule.distribution(state)
        loss = losses(p, turn, rng)
        own += float(loss @ p)
        each += loss
        state = rule.update(state, loss)
    return own - each.min()


@pytest.mark.parametrize("losses", [worst_losses, random_losses, turning_losses, luring_losses])
@pytest.mark.parametrize("kind", RULES)
def test_regret_stays_below_its_bound(kind, losses):
    for seed, (experts, rounds) in enumerate([(2, 5), (2, 400), (9, 40), (64, 400), (64, 3)]):
        rule = kind(experts, rounds)
        assert regret(rule, losses, rounds, seed) <= rule.regret_bound() + 1e-9


def test_the_bounds_are_those_of_the_theorems():
    n, t = 100, 1000
    assert RandomizedMultiplicativeWeights(n, t).regret_bound() == pytest.approx(
        2 * math.sqrt(t * math.log(n))
    )
    assert Hedge(n, t).regret_bound() == pytest.approx(math.sqrt(2 * t * math.log(n)))
    assert Hedge(n, t, 0.0, 1.0).regret_bound() == pytest.approx(math.sqrt(t * math.log(n) / 2))


def test_two_fair_coins_come_near_the_bound_of_hedge():
    # Random signs against one expert that knows: the regret is of the order that the bound says.
    rule = Hedge(2, 400)
    regrets = [regret(rule, lambda p, t, rng: np.array([1.0, -1.0]) * rng.choice([-1, 1]), 400, s)
               for s in range(100)]  # fmt: skip
    assert 0.3 * rule.regret_bound() < np.mean(regrets) < rule.regret_bound()


def test_the_printed_rate_makes_weights_negative_in_few_rounds():
    # Without a condition on T the bound fails: with 100 experts and 2 rounds, for one.
    printed = math.sqrt(math.log(100) / 2)
    weights = np.ones(100)
    weights[0] *= 1 - printed * 1.0
    assert weights[0] < -0.5
    assert (weights / weights.sum()).min() < 0
    with pytest.raises(InvalidArgument, match="rate"):
        RandomizedMultiplicativeWeights(100, 2, printed)
    rule = RandomizedMultiplicativeWeights(100, 2)
    state = rule.update(rule.start(), np.array([1.0] + [0.0] * 99))
    assert (rule.distribution(state) > 0).all()
    # Its bound is then not 2·√(T ln N), which needs T >= 4 ln N.
    assert rule.regret_bound() > 2 * math.sqrt(2 * math.log(100))


def test_the_total_weight_shrinks_by_the_rate_times_the_loss():
    # The total shrinks to W(1 - rate ℓ·p): some notes print it without the rate.
    rng = np.random.default_rng(3)
    rule = RandomizedMultiplicativeWeights(5, 100)
    state = rule.start()
    for _ in range(20):
        losses = rng.uniform(-1, 1, 5)
        p, before = rule.distribution(state), np.exp(state).sum()
        state = rule.update(state, losses)
        assert np.exp(state).sum() == pytest.approx(before * (1 - rule.rate * float(losses @ p)))
        assert np.exp(state).sum() != pytest.approx(before * (1 - float(losses @ p)), rel=1e-6)


@pytest.mark.parametrize("kind", RULES)
def test_experts_are_chosen_by_their_weight(kind):
    rule = kind(4, 100)
    state = np.log(np.array([1.0, 2.0, 0.0001, 5.0]))
    noise = seeded(1)
    chosen = np.bincount([rule.choose(state, noise) for _ in range(4000)], minlength=4)
    assert chosen / 4000 == pytest.approx(rule.distribution(state), abs=0.03)
    assert 0 <= rule.choose(rule.start()) < 4


@pytest.mark.parametrize("kind", RULES)
def test_one_expert_has_no_regret(kind):
    rule = kind(1, 5)
    assert rule.regret_bound() == 0.0
    assert rule.distribution(rule.update(rule.start(), np.array([0.5]))).tolist() == [1.0]


def test_bad_arguments_are_named():
    for kind in RULES:
        with pytest.raises(InvalidArgument, match="rounds"):
            kind(2, 0)
        with pytest.raises(InvalidArgument, match="experts"):
            kind(0, 2)
        rule = kind(2, 2)
        for bad in (np.array([0.0, 1.5]), np.array([0.0, math.nan]), np.zeros(3)):
            with pytest.raises(InvalidArgument, match="losses"):
                rule.update(rule.start(), bad)
    for bad in (0.0, 0.51, math.nan):
        with pytest.raises(InvalidArgument, match="rate"):
            RandomizedMultiplicativeWeights(2, 2, bad)
    with pytest.raises(InvalidArgument, match="rate"):
        Hedge(2, 2, rate=-1.0)
    with pytest.raises(InvalidArgument, match="low"):
        Hedge(2, 2, 1.0, 1.0)
