import itertools
import random
from fractions import Fraction

import mpmath
import pytest

from dpsdk.accounting import (
    ApproximateGuarantee,
    BoundedRangeGuarantee,
    Budget,
    DiscreteGaussianGuarantee,
    DiscreteLaplaceGuarantee,
    EnvelopeComposition,
    PureGuarantee,
    State,
)
from dpsdk.accounting.numbers import floor_steps, from_steps
from dpsdk.accounting.prices.envelope import (
    _RESERVES,
    _gaussian_prices,
    discrete_gaussian_excess,
    round_price,
)
from dpsdk.errors import InvalidArgument, UnsupportedGuarantee

pytestmark = pytest.mark.thorough

mpf = mpmath.mpf
Loss = list[tuple[mpmath.mpf, mpmath.mpf]]
"""Atoms of a privacy loss and their probabilities under the first of two neighbours."""

ENVELOPE = EnvelopeComposition(leak_share=0)


def real(value):
    return mpf(value.numerator) / value.denominator


def gaussian_delta(x, v):
    """The hockey-stick divergence at e^x of unit Gaussians, squared shift v, for any real x."""
    if v <= 0:
        return max(mpf(0), 1 - mpmath.exp(x))
    mu = mpmath.sqrt(v)
    return mpmath.ncdf(mu / 2 - x / mu) - mpmath.exp(x) * mpmath.ncdf(-mu / 2 - x / mu)


def two_points(t, width):
    """The loss that is t or t - width."""
    p = mpmath.expm1(width - t) / mpmath.expm1(width) * mpmath.exp(t)
    return [(t, p), (t - width, 1 - p)]


def gaussian_loss(variance, shifts):
    """The loss of discrete Gaussians shifted by these steps, summed over the entries."""
    spread = real(variance)
    reach = int(mpmath.ceil(9 * mpmath.sqrt(spread))) + 1
    masses = {y: mpmath.exp(-mpf(y * y) / (2 * spread)) for y in range(-reach, reach + 1)}
    whole = sum(masses.values())
    atoms = {0: mpf(1)}
    for shift in shifts:
        grown = {}
        for (total, p), (y, mass) in itertools.product(atoms.items(), masses.items()):
            key = total + shift * shift + 2 * shift * y
            grown[key] = grown.get(key, mpf(0)) + p * mass / whole
        atoms = grown
    return [(mpf(total) / (2 * spread), p) for total, p in atoms.items() if p > mpf("1e-18")]


def worst_excess(loss, v, cost):
    """How far f ⊗ G(√(v - cost)) rises above G(√v), relative to what the charge pays for."""
    w = v - cost
    worst = mpf("-inf")
    for step in range(-5, 6):
        x = step * mpmath.sqrt(v) / 2
        left = sum(p * gaussian_delta(x - value, w) for value, p in loss)
        right = gaussian_delta(x, v)
        room = right - gaussian_delta(x, w)
        worst = max(worst, (left - right) / room)
    return worst


def charged(guarantee, v):
    """The v on the grid, and what the filter charges there."""
    state = State((0, 0), (floor_steps(v), 0))
    after = ENVELOPE.charge(state, guarantee)
    if after is None:
        return None
    return real(from_steps(state.limit[0])), real(from_steps(after.spent[0]))


@pytest.mark.parametrize("epsilon", ["0.05", "0.5", "3"])
@pytest.mark.parametrize("ratio", ["1.6", "1.83", "2.5", "7", "60"])
def test_charges_of_pure_runs_cover_randomised_response(epsilon, ratio):
    size = Fraction(epsilon)
    with mpmath.workdps(60):
        found = charged(PureGuarantee(size), Fraction(ratio) * size**2)
        loss = two_points(real(size), 2 * real(size))
        assert worst_excess(loss, *found) <= mpf("1e-12")
        if found[1] < found[0]:
            assert worst_excess(loss, found[0], found[1] * mpf("0.6")) > 0


@pytest.mark.parametrize("split", ["0.5", "0.1", "0.8", "0.999"])
@pytest.mark.parametrize(
    ("eta", "ratio"), [("0.1", "0.5"), ("0.1", "1.1"), ("1", "3"), ("4", "40")]
)
def test_charges_of_bounded_range_cover_every_split(split, eta, ratio):
    size = Fraction(eta)
    with mpmath.workdps(60):
        found = charged(BoundedRangeGuarantee(size), Fraction(ratio) * size**2)
        loss = two_points(real(size) * mpf(split), real(size))
        assert worst_excess(loss, *found) <= mpf("1e-12")


@pytest.mark.parametrize(
    ("variance", "shifts"),
    [("0.5", (1,)), ("1", (1,)), ("1", (1, 1)), ("1", (2,)), ("2", (1, 2)), ("6", (3,))],
)
@pytest.mark.parametrize("ratio", ["1.3", "2.1", "6", "30"])
def test_charges_of_discrete_gaussians_cover_the_lattice(variance, shifts, ratio):
    spread, square = Fraction(variance), sum(shift**2 for shift in shifts)
    guarantee = DiscreteGaussianGuarantee(spread, square, max(shifts))
    with mpmath.workdps(60):
        found = charged(guarantee, Fraction(ratio) * square / spread)
        if found is None:
            assert Fraction(ratio) < 6
            return
        assert worst_excess(gaussian_loss(spread, shifts), *found) <= mpf("1e-12")


def test_a_narrow_discrete_gaussian_costs_more_than_a_continuous_one():
    with mpmath.workdps(60):
        loss = gaussian_loss(Fraction(1, 4), (1,))
        # The charge of a continuous Gaussian, which is false here.
        assert worst_excess(loss, mpf(40), mpf(4)) > mpf("0.01")
        found = charged(DiscreteGaussianGuarantee("0.25", 1, 1), Fraction(120))
        assert found[1] > mpf("4.2")
        assert worst_excess(loss, *found) <= 0


@pytest.mark.parametrize("variance", ["0.25", "0.5", "1", "3"])
@pytest.mark.parametrize("entries", [1, 2])
def test_the_excess_bounds_the_variance_of_shifted_discrete_gaussians(variance, entries):
    spread = Fraction(variance)
    excess = discrete_gaussian_excess(spread, entries)
    assert excess is not None
    with mpmath.workdps(40):
        for center in ("0", "0.3", "0.5"):
            ys = range(-25, 26)
            weight = [mpmath.exp(-((y - mpf(center)) ** 2) / (2 * real(spread))) for y in ys]
            whole = sum(weight)
            mean = sum(y * p for y, p in zip(ys, weight, strict=True)) / whole
            second = sum((y - mean) ** 2 * p for y, p in zip(ys, weight, strict=True)) / whole
            assert second <= real(spread) * (1 + real(excess))


@pytest.mark.parametrize("variance", [Fraction(1, 2), Fraction(64), Fraction(10**62)])
def test_every_price_of_a_gaussian_leaves_the_share_that_it_relies_on(variance):
    prices = _gaussian_prices(DiscreteGaussianGuarantee(variance, 1, 1))
    for share, (cost, floor) in zip(_RESERVES, prices, strict=False):
        assert floor - cost >= share * floor


def test_too_narrow_a_discrete_gaussian_is_refused():
    start = ENVELOPE.begin(Budget(50, 1e-6))
    with pytest.raises(UnsupportedGuarantee):
        ENVELOPE.charge(start, DiscreteGaussianGuarantee("0.1", 1, 1))
    with pytest.raises(UnsupportedGuarantee):
        ENVELOPE.capacity(start, DiscreteGaussianGuarantee("0.5", 10**6, 1))


@pytest.mark.parametrize(
    ("budget", "epsilon", "pure", "bounded"),
    [
        (Budget(1, 1e-6), "0.01", 557, 553),
        (Budget(3, 1e-6), "0.05", 165, 162),
        (Budget(8, 1e-6), "0.1", 232, 228),
        (Budget(0.5, 1e-6), "0.05", 5, 4),
    ],
)
def test_as_many_runs_fit_as_the_reference_says(budget, epsilon, pure, bounded):
    start = ENVELOPE.begin(budget)
    admitted = ENVELOPE.capacity(start, PureGuarantee(epsilon))
    assert pure <= admitted <= pure + 1
    assert ENVELOPE.capacity(start, BoundedRangeGuarantee(2 * Fraction(epsilon))) == bounded


@pytest.mark.parametrize(
    "guarantee",
    [
        PureGuarantee("0.03"),
        PureGuarantee("0.3"),
        DiscreteLaplaceGuarantee(40, 1),
        BoundedRangeGuarantee("0.1"),
        DiscreteGaussianGuarantee(400, 2, 1),
        ApproximateGuarantee("0.05", "1e-8"),
    ],
)
def test_capacity_is_the_number_of_runs_that_follow(guarantee):
    composition = EnvelopeComposition(leak_share="0.1")
    state = composition.begin(Budget(2, 1e-6))
    capacity, count = composition.capacity(state, guarantee), 0
    while (after := composition.charge(state, guarantee)) is not None:
        state, count = after, count + 1
        if count == 3:
            left = composition.capacity(state, guarantee)
            assert capacity == 3 + left
    assert count == capacity
    assert count >= 1


@pytest.mark.parametrize("left", ["1.01", "3.3", "40"])
def test_the_price_of_several_runs_holds_down_to_its_floor(left):
    runs = (PureGuarantee("0.2"), DiscreteGaussianGuarantee(20, 1, 1), PureGuarantee("0.1"))
    price = round_price([(run, 1) for run in runs], floor_steps(Fraction(left)))
    assert price is not None
    cost, floor = price
    for v in (floor, (floor + floor_steps(Fraction(left))) // 2):
        found = round_price([(run, 1) for run in runs], v)
        assert found[0] == cost
        state = State((0, 0), (v, 0))
        for run in runs:
            after = ENVELOPE.charge(state, run)
            assert after is not None
            state = after
        assert state.spent[0] == cost


def test_fine_lattices_use_the_whole_budget():
    # 100 Gaussians of standard deviation 5 are exactly 2-GDP, which is (10.99716, 1e-6)-DP.
    start = ENVELOPE.begin(Budget("10.9975", 1e-6))
    fine = DiscreteGaussianGuarantee(25 * 10**8, 10**8, 10**4)
    assert ENVELOPE.capacity(start, fine) == 100
    coarse = DiscreteGaussianGuarantee(25, 1, 1)
    assert ENVELOPE.capacity(start, coarse) == 99


def test_charges_do_not_grow_as_more_is_left():
    for guarantee in (PureGuarantee("0.1"), DiscreteGaussianGuarantee(2, 1, 1)):
        costs = []
        for v in ("0.02", "0.05", "0.3", "0.6", "0.7", "2", "4", "30"):
            found = charged(guarantee, Fraction(v))
            if found is not None:
                costs.append(found[1])
        assert len(costs) >= 3
        assert costs == sorted(costs, reverse=True)


@pytest.mark.parametrize("left", ["0.2", "3.99", "4", "60", "1e6", "1e15"])
@pytest.mark.parametrize("variance", [64, 1000, 10**9])
def test_the_largest_gaussian_takes_what_it_is_said_to_take(left, variance):
    state = State((0, 0), (floor_steps(Fraction(left)), 0))
    rho = ENVELOPE.largest_rho(state)
    squared = int(2 * rho * variance)
    run = DiscreteGaussianGuarantee(squared / (2 * rho), squared, 1)
    assert ENVELOPE.charge(state, run) is not None
    share = Fraction("0.9798" if Fraction(left) < 4 else "0.9498")
    assert 2 * rho == pytest.approx(share * Fraction(left))


def test_leaks_and_free_runs():
    composition = EnvelopeComposition(leak_share="0.5")
    state = composition.begin(Budget(1, 1e-6))
    assert composition.charge(state, PureGuarantee(0)) == state
    assert composition.capacity(state, PureGuarantee(0)) is None
    assert composition.capacity(state, ApproximateGuarantee(0, "1e-7")) == 5
    after = composition.charge(state, ApproximateGuarantee("0.01", "1e-7"))
    assert composition.leaked(after) == Fraction(1, 10**7)


def test_nothing_is_opened_without_delta():
    with pytest.raises(InvalidArgument) as caught:
        ENVELOPE.begin(Budget(1))
    assert caught.value.parameter == "budget"


def test_no_charge_of_a_gaussian_grows_with_what_is_left():
    rng = random.Random(4)
    for _ in range(200):
        # Around a width of 30, where the larger shares have no lattice to allow for.
        variance = Fraction(rng.randint(30 * 10**6, 45 * 10**6), rng.randint(1, 9) * 10**6)
        run = DiscreteGaussianGuarantee(variance, rng.choice([1, 3, 50]), 1)
        costs = [price[0] for price in _gaussian_prices(run)]
        assert costs == sorted(costs)


@pytest.mark.parametrize("seed", range(3))
def test_runs_that_are_counted_by_bounds_are_as_many_as_one_after_the_other(seed, monkeypatch):
    rng = random.Random(seed)
    for _ in range(8):
        composition = EnvelopeComposition()
        state = composition.begin(Budget(Fraction(rng.randint(1, 400), 100), "1e-6"))
        state = state._replace(spent=(int(state.limit[0] * rng.random() ** 3), 0))
        kinds = (PureGuarantee, BoundedRangeGuarantee)
        runs = [
            (rng.choice(kinds)(Fraction(rng.randint(1, 999), 10**4)), rng.randint(1, 3))
            for _ in range(rng.choice((1, 2)))
        ]
        kept = rng.choice((0, state.limit[0] // 7))
        found = composition.rounds_keeping(state, runs, kept, 0)
        with monkeypatch.context() as patch:
            patch.setattr("dpsdk.accounting.filters.envelope._bounded_rounds", lambda *_: None)
            assert composition.rounds_keeping(state, runs, kept, 0) == found
