"""Every public function of the accounting over budgets from next to nothing to beyond all use."""

import math
from contextlib import suppress
from fractions import Fraction

import pytest

from dpsdk.accounting import (
    AnyOf,
    Anytime,
    ApproximateGuarantee,
    BoundedRangeGuarantee,
    Budget,
    Declared,
    DiscreteGaussianGuarantee,
    DiscreteLaplaceGuarantee,
    EnvelopeComposition,
    Odometer,
    PureGuarantee,
    RenyiComposition,
    State,
    ZCDPComposition,
    advanced_epsilon,
    bun_steinke_epsilon,
    bun_steinke_start,
    gaussian_claim,
    gdp_delta,
    gdp_epsilon,
    gdp_start,
    heterogeneous_epsilon,
    max_epsilon_for,
    optimal_epsilon,
    renyi_divergence,
    renyi_start,
    zcdp_delta,
    zcdp_epsilon,
    zcdp_rho,
    zcdp_start,
)
from dpsdk.accounting.numbers import from_steps
from dpsdk.accounting.prices.claims import claim_rho
from dpsdk.errors import InvalidArgument, UnsupportedGuarantee
from mixtures import compositions
from worlds import thinned

pytestmark = pytest.mark.thorough

EPSILONS = [
    *("1e-300", "1e-30", "1e-4", "1", "10", "100", "220", "700", "1485", "1500", "1e4", "1e12"),
    *("1e100", "1e308"),
]
DELTAS = ["0", "1e-400", "1e-6", "0.5", "0.999999999999999"]
COMPOSITIONS = [
    *compositions().values(),
    AnyOf((ZCDPComposition(), EnvelopeComposition())),
    RenyiComposition("1.0001"),
]
RUNS = [
    PureGuarantee("0.01"),
    PureGuarantee("1e-80"),
    PureGuarantee("1e300"),
    DiscreteLaplaceGuarantee(100, 3),
    DiscreteGaussianGuarantee(1000, 1, 1),
    DiscreteGaussianGuarantee("1e300", 1, 1),
    DiscreteGaussianGuarantee("0.01", 1, 1, claim=(1, "1e-9")),
    BoundedRangeGuarantee("0.001"),
    ApproximateGuarantee("1e-5", "1e-12"),
]


def begun(composition, epsilon, delta):
    """The state at the beginning; None where the budget, or this composition of it, is refused."""
    with suppress(InvalidArgument):
        return composition.begin(Budget(epsilon, delta))
    return None


# Each ε quickly with one δ and every third composition, by turns, and slowly with all of them.
BUDGETS = [
    pytest.param(
        composition,
        epsilon,
        delta,
        id=f"{type(composition).__name__}-{epsilon}-{delta}",
        marks=[] if quick else [pytest.mark.audit],
    )
    for number, composition in enumerate(COMPOSITIONS)
    for turn, epsilon in enumerate(EPSILONS)
    for place, delta in enumerate(DELTAS)
    for quick in [place == turn % len(DELTAS) and (turn + number) % 3 == 0]
]


@pytest.mark.parametrize(("composition", "epsilon", "delta"), BUDGETS)
def test_every_budget_is_shown_and_filled_or_refused_by_name(composition, epsilon, delta):
    state = begun(composition, epsilon, delta)
    if state is None:
        return
    assert composition.fraction(state) == 0.0
    assert composition.leaked(state) == 0
    assert composition.describe(state)
    odometer = Odometer(Budget(epsilon, delta), composition)
    assert "Odometer" in repr(odometer)
    assert "room for one run" in str(odometer.remaining)
    size = composition.largest_epsilon(state)
    assert size > 0
    after = composition.charge(state, PureGuarantee(size))
    assert 0.0 <= composition.fraction(after) <= 1.0
    assert composition.largest_epsilon(after) < size
    assert composition.charge(state, PureGuarantee(size * Fraction("1.02"))) is None
    assert 0 < max_epsilon_for(composition, state, 3) <= size
    rho = composition.largest_rho(state)
    if 0 < rho < 10**12:
        shift = math.isqrt(math.ceil(128 * rho)) + 1
        wide = DiscreteGaussianGuarantee(shift**2 / (2 * rho), shift**2, shift)
        assert composition.charge(state, wide) is not None
    for run in RUNS if size < 10**12 else ():
        try:
            fits = composition.charge(state, run) is not None
        except UnsupportedGuarantee:
            continue
        assert fits == (composition.capacity(state, run) != 0)


def full(state):
    """The same state with nothing left on any axis."""
    return State(
        state.limit, state.limit, tuple(full(part) if part else None for part in state.parts)
    )


@pytest.mark.parametrize("composition", COMPOSITIONS, ids=lambda c: type(c).__name__)
def test_nothing_fits_where_exactly_nothing_is_left(composition):
    state = full(composition.begin(Budget(10**6, 1e-6)))
    for run in RUNS:
        try:
            assert composition.charge(state, run) is None
            assert composition.capacity(state, run) == 0
        except UnsupportedGuarantee:
            continue
    assert composition.largest_epsilon(state) == composition.largest_rho(state) == 0
    assert composition.fraction(state) == 1.0


def test_a_run_that_takes_the_very_last_step_leaves_nothing_to_bounded_range():
    composition = EnvelopeComposition()
    state = composition.begin(Budget("1e4", 1e-6))
    last = composition.charge(state, PureGuarantee(from_steps(state.limit[0]) / 8))
    assert last.spent == last.limit
    assert composition.charge(last, BoundedRangeGuarantee(10**6)) is None
    assert composition.capacity(last, BoundedRangeGuarantee("1e-9")) == 0


@pytest.mark.parametrize("epsilon", thinned(EPSILONS, 3))
def test_every_conversion_answers(epsilon):
    for delta in DELTAS:
        starts = [f(epsilon, delta) for f in (zcdp_start, gdp_start, bun_steinke_start)]
        starts.append(renyi_start(epsilon, delta, 30))
        assert all(start >= 0 for start in starts)
        if Fraction(epsilon) > Fraction(1, 10**6):  # else below a step of the grid
            assert all(starts[:3]) == (delta != "0")
        if delta == "0":
            continue
        rho = Fraction(epsilon)
        figures = [
            *(f(rho, delta) for f in (zcdp_epsilon, bun_steinke_epsilon)),
            gdp_epsilon(rho, delta),
            advanced_epsilon(rho, 10, delta),
            heterogeneous_epsilon([rho, rho], delta),
            optimal_epsilon(rho, 3, delta),
            Anytime(delta, rho).epsilon(1),
            Declared({PureGuarantee(rho): 10**9}).epsilon(delta),
        ]
        assert all(figure >= 0 for figure in figures)
        assert claim_rho(rho, Fraction(delta)) >= starts[0]
        if rho < 10**300:
            assert gaussian_claim(rho, delta)[0] >= 0


@pytest.mark.parametrize("size", EPSILONS)
def test_every_delta_and_divergence_answers(size):
    for epsilon in EPSILONS:
        assert 0.0 <= gdp_delta(size, epsilon) <= 1.0
        assert 0.0 <= zcdp_delta(size, epsilon) <= 1.0
    for run in (
        PureGuarantee(size),
        BoundedRangeGuarantee(size),
        DiscreteLaplaceGuarantee(size, 2),
    ):
        assert zcdp_rho(run) > 0
        for order in ("1.0001", 2, 10**6):
            assert renyi_divergence(run, order) > 0


@pytest.mark.parametrize("mu", [12, 30, 1000, 10**9, 10**50, "1e300"])
def test_the_delta_of_a_distant_gaussian_is_known_at_once(mu):
    assert gdp_delta(mu, 1) == pytest.approx(1.0)
    square = Fraction(mu) ** 2
    if square < 10**300:
        # At ε = μ²/2 one half of the mass lies beyond, but for what the other side takes off.
        middle = gdp_delta(mu, square / 2)
        assert 0.4 < middle <= 0.5 + 1e-9
        assert gdp_epsilon(mu, middle) == pytest.approx(float(square / 2), rel=1e-6)


@pytest.mark.parametrize(
    ("composition", "count"),
    [
        # That with two members has the same rules as the default one, which has more.
        pytest.param(
            composition,
            10**n,
            id=f"{type(composition).__name__}-{place}-{10**n}",
            marks=[] if n == 6 and place != len(COMPOSITIONS) - 2 else [pytest.mark.audit],
        )
        for place, composition in enumerate(COMPOSITIONS)
        for n in (4, 6, 9)
    ],
)
def test_the_epsilon_of_very_many_runs_is_found(composition, count):
    state = begun(composition, "1", "1e-6")
    if state is None:
        return
    epsilon = max_epsilon_for(composition, state, count)
    capacity = composition.capacity(state, PureGuarantee(epsilon))
    assert count <= capacity <= count * 1.0001 + 1
