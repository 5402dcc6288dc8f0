"""The fit of a dense distribution to noisy answers."""

import math
from itertools import combinations, pairwise

import numpy as np
import pytest

from dpsdk import Boolean, Domain, Integer
from dpsdk.errors import InvalidArgument, TooLarge
from dpsdk.forms import Dense, Identity, Kronecker, Prefix, Range
from dpsdk.learning import EntropicFit

DOMAIN = Domain(Integer("a", 0, 3), Boolean("b"), Integer("c", 0, 4))


def marginal(*names):
    return Kronecker(names, tuple(Identity(DOMAIN[name].size) for name in names))


def summed(weights, names):
    """The marginal table of some attributes, in the order of their names."""
    gone = tuple(axis for axis, name in enumerate(DOMAIN.names) if name not in names)
    order = sorted(names, key=DOMAIN.position)
    return weights.sum(axis=gone).transpose([order.index(name) for name in names])


def truth(seed=0):
    weights = np.random.default_rng(seed).random(DOMAIN.shape) ** 3
    return weights / weights.sum()


def test_nothing_released_is_the_uniform_distribution():
    fit = EntropicFit(DOMAIN, outside=True)
    assert fit.run(10) == 0
    assert fit.hypothesis().outside_mass == pytest.approx(1 / 41)
    assert fit.weights().max() == fit.weights().min() == pytest.approx(1 / 41)


@pytest.mark.parametrize("parameter", ["prior", "hold"])
@pytest.mark.parametrize("value", [-1, math.nan, math.inf, "much"])
def test_what_holds_back_is_a_number(parameter, value):
    with pytest.raises(InvalidArgument, match=parameter):
        EntropicFit(DOMAIN, **{parameter: value})


@pytest.mark.parametrize("outside", [True, False])
def test_it_finds_answers_without_noise(outside):
    weights = truth() * (0.9 if outside else 1.0)
    fit = EntropicFit(DOMAIN, outside=outside)
    blocks = [marginal("a", "b"), marginal("c", "a"), Kronecker(("c",), (Prefix(5),))]
    for block in blocks:
        fit.add(block, block.answer(summed(weights, block.names)), 1e-5)
    for _ in range(30):
        fit.run(100)
    for block in blocks:
        table = fit.hypothesis().table(block.names)
        want = summed(weights, block.names)
        assert block.answer(table) == pytest.approx(block.answer(want), abs=2e-5)
    assert fit.hypothesis().outside_mass == pytest.approx(0.1 if outside else 0.0, abs=1e-4)


def test_of_all_that_fit_it_is_the_one_of_most_entropy():
    fit = EntropicFit(DOMAIN)
    one, other = np.array([0.1, 0.2, 0.3, 0.4]), np.array([0.35, 0.65])
    fit.add(marginal("a"), one, 1e-4)
    fit.add(marginal("b"), other, 1e-4)
    for _ in range(30):
        fit.run(100)
    product = one[:, None, None] * other[None, :, None] * np.full(5, 0.2)
    assert fit.weights() == pytest.approx(product, abs=1e-5)


def random_fit():
    rng = np.random.default_rng(3)
    fit = EntropicFit(DOMAIN, outside=True)
    blocks = [marginal("a", "c"), marginal("b"), marginal("a", "b", "c"), marginal("c", "a")]
    blocks.append(Dense(("c", "a"), (5, 4), rng.random((3, 20))))
    blocks.append(Kronecker(("b", "c"), (Range(2, 0, 1), Prefix(5))))
    for block in blocks:
        fit.add(block, rng.normal(0.1, 0.2, block.rows), rng.uniform(0.04, 0.06))
    return fit


def test_residuals_are_the_slope_of_the_dual():
    fit = random_fit()
    rng = np.random.default_rng(4)
    multipliers = rng.normal(0, 0.05, len(fit._here().multipliers))
    point = fit._at(multipliers)
    for place in range(len(multipliers)):
        beside = multipliers.copy()
        beside[place] += 1e-6
        found = (fit._at(beside).free - point.free) / 1e-6
        assert found == pytest.approx(point.residuals[place], rel=1e-3, abs=1e-3)


def least(fit, weights):
    """What is minimised, at any weights of the cells and the one outside."""
    outside = 1 - weights.sum()
    residuals = np.concatenate(
        [one.residuals(weights.sum(axis=gone)) for one, gone in _gone(fit._released)]
    )
    terms = np.append(weights.reshape(-1), outside)
    before = fit._at(fit._begun).weights
    before = np.append(before.reshape(-1), 1 - before.sum())
    return 0.5 * residuals @ residuals + fit._pull() * (terms @ np.log(terms / before))


def _gone(released):
    every = range(len(DOMAIN.shape))
    return [(one, tuple(axis for axis in every if axis not in one.axes)) for one in released]


@pytest.mark.parametrize("passes", [0, 2])
def test_a_pass_ends_no_further_from_its_minimum_than_it_says(passes):
    begun = random_fit()
    for _ in range(passes):
        begun.run(200)
    pull, values, bounds, steps, fit = begun._pull(), [], [], 0, begun
    while not steps or steps == len(values):
        fit = begun.copy()
        steps = fit.run(len(values) + 1)
        values.append(least(fit, fit.weights()))
        bounds.append(values[-1] - fit.excess)
        dual = fit._dual(fit._here(), pull) - fit._at(fit._begun).free
        assert bounds[-1] == pytest.approx(-pull * dual, rel=1e-9)
    assert 1 < len(values) < 200
    assert all(after >= before for before, after in pairwise(bounds))
    assert max(bounds) <= min(values) + 1e-9
    assert fit.excess <= 0.01 * fit.loss
    rng = np.random.default_rng(5)
    for _ in range(50):
        other = fit.weights() * rng.uniform(0.8, 1.25, DOMAIN.shape)
        other /= max(1.0, other.sum() * 1.01)
        assert least(fit, other) >= max(bounds)


def test_each_pass_comes_nearer_to_the_answers():
    fit = random_fit()
    losses = []
    for _ in range(10):
        fit.run(200)
        losses.append(fit.loss)
    # A hundredth is what a pass may be off by.
    assert all(after <= before / 0.99 for before, after in pairwise(losses))
    assert losses[-1] < 0.9 * losses[0]


@pytest.mark.parametrize("deviation", [3.0, 1e3])
def test_where_noise_is_all_there_is_it_is_hardly_worse_than_the_uniform_distribution(deviation):
    domain = Domain(*(Boolean(f"x{place}") for place in range(6)))
    rng = np.random.default_rng(6)
    weights = rng.random(domain.shape) ** 8
    weights /= weights.sum()
    kept = list(combinations(range(6), 3))

    def tables(of):
        gone = [tuple(axis for axis in range(6) if axis not in each) for each in kept]
        return np.array([of.sum(axis=axes).reshape(-1) for axes in gone])

    true, errors = tables(weights), []
    for _ in range(5):
        fit = EntropicFit(domain)
        for place in range(len(kept)):
            names = [domain.names[axis] for axis in kept[place]]
            block = Kronecker(names, (Identity(2),) * 3)
            fit.add(block, true[place] + rng.normal(0, deviation, 8), deviation)
        for _ in range(30):
            fit.run(40)
        errors.append(np.abs(tables(fit.weights()) - true))
    flat = np.abs(tables(np.full(domain.shape, 1 / 64)) - true)
    assert np.mean([each.max() for each in errors]) <= 1.1 * flat.max()
    assert np.mean(errors) <= 1.1 * flat.mean()


def test_passes_end_where_residuals_and_the_divergence_from_uniform_balance():
    fit, rng = EntropicFit(DOMAIN, outside=True), np.random.default_rng(7)
    for names in ("a", "c"), ("b",), ("b", "c"):
        block = marginal(*names)
        fit.add(block, rng.normal(0.1, 1.0, block.rows), 1.0)
    for _ in range(200):
        fit.run(200)
    # At the minimum every residual is what its multiplier pulls: nothing walks away from there.
    point = fit._here()
    off = point.residuals + 2 * point.multipliers
    assert 0.5 * off @ off <= 0.011 * fit.loss
    assert np.linalg.norm(point.residuals) > 1


def test_a_copy_goes_its_own_way():
    fit = EntropicFit(DOMAIN)
    twin = fit.copy()
    twin.add(marginal("b"), np.array([0.1, 0.9]), 0.01)
    twin.run(50)
    assert fit.run(50) == 0
    assert fit.weights().min() == fit.weights().max()
    assert twin.weights().min() < twin.weights().max()


@pytest.mark.parametrize(
    ("shares", "deviation"),
    [([0.5], 0.1), ([0.5, math.nan], 0.1), ([0.5, 0.5], 0.0), ([0.5, 0.5], math.inf)],
)
def test_what_is_no_released_answer_is_refused(shares, deviation):
    with pytest.raises(InvalidArgument):
        EntropicFit(DOMAIN).add(marginal("b"), np.array(shares), deviation)


def test_what_would_not_fit_memory_is_refused():
    with pytest.raises(TooLarge):
        EntropicFit(Domain(Integer("x", 0, 2**24)))
    wide = Kronecker(("x",), (Prefix(2**13),))
    with pytest.raises(TooLarge):
        EntropicFit.check(wide)


@pytest.mark.parametrize("answers", [-1.0, -1e9, 0.0])
@pytest.mark.parametrize("deviation", [1e-9, 1e-3, 1.0])
def test_answers_that_leave_nothing_inside_leave_next_to_nothing(answers, deviation):
    fit = EntropicFit(DOMAIN, outside=True)
    for names in (("a",), ("b", "c")):
        block = marginal(*names)
        fit.add(block, np.full(block.rows, answers), deviation)
        for _ in range(20):
            fit.run(50)
    found = fit.hypothesis()
    assert 0 < found.outside_mass < 1
    assert np.isfinite(found.table(DOMAIN.names)).all()
    # It can still learn that there is something.
    found.blend(0.5)
    assert found.outside_mass < 0.99
