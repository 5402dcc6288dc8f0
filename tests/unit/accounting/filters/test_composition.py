"""Filters, by themselves and several together: what they admit, refuse and close."""

from fractions import Fraction
from itertools import groupby

import mpmath
import pytest
from attrs import field, frozen

from dpsdk.accounting import (
    AdditiveComposition,
    AdvancedComposition,
    AnyOf,
    ApproximateGuarantee,
    BasicComposition,
    BoundedRangeGuarantee,
    Budget,
    Composition,
    DiscreteGaussianGuarantee,
    DiscreteLaplaceGuarantee,
    EnvelopeComposition,
    MixedComposition,
    PureGuarantee,
    RenyiComposition,
    ZCDPComposition,
    default_composition,
    renyi_divergence,
    renyi_start,
    zcdp_start,
)
from dpsdk.accounting.declared.calibration import fits_all
from dpsdk.accounting.filters.composition import NEVER_OPEN
from dpsdk.errors import InvalidArgument, UnsupportedGuarantee

ALL = [BasicComposition(), AdvancedComposition(), ZCDPComposition(), default_composition()]
GAUSSIAN = DiscreteGaussianGuarantee(variance=100, shift_squared=1, shift_max=1)


def wide_gaussian(rho):
    """A run of this rho with noise of 8 lattice steps or more, as the kernel makes them."""
    shift = 1
    while shift**2 < 64 * 2 * rho:
        shift *= 2
    return DiscreteGaussianGuarantee(shift**2 / (2 * rho), shift**2, shift)


def run(composition, state, guarantee):
    """Charge until refused."""
    for count in range(10_000):
        after = composition.charge(state, guarantee)
        if after is None:
            return count, state
        state = after
    pytest.fail("never refused")


@pytest.mark.parametrize(
    ("budget", "epsilon", "admitted"),
    [
        (Budget(1, 1e-6), "0.01", (100, 349, 487, 558)),
        (Budget(3, 1e-6), "0.05", (60, 117, 148, 166)),
        (Budget(8, 1e-6), "0.1", (80, 181, 210, 233)),
        (Budget(0.5, 1e-6), "0.05", (10, 3, 5, 10)),
    ],
)
def test_the_reference_counts_are_admitted(budget, epsilon, admitted):
    guarantee = PureGuarantee(epsilon)
    for composition, count in zip(ALL, admitted, strict=True):
        start = composition.begin(budget)
        assert composition.capacity(start, guarantee) == count
        assert run(composition, start, guarantee)[0] == count


@pytest.mark.parametrize("parts", [3, 7, 11, 97])
def test_equal_parts_fill_the_budget(parts):
    composition = BasicComposition()
    start = composition.begin(Budget(1))
    assert run(composition, start, PureGuarantee(Fraction(1, parts)))[0] == parts


def test_charges_that_miss_the_grid_are_rounded_up():
    composition = BasicComposition()
    start = composition.begin(Budget(1))
    above = PureGuarantee(1 + Fraction(1, 10**200))
    assert composition.charge(start, above) is None
    below = PureGuarantee(1 - Fraction(1, 10**200))
    state = composition.charge(start, below)
    assert composition.charge(state, PureGuarantee(Fraction(1, 10**200))) is None


@pytest.mark.parametrize("composition", ALL)
def test_refusal_leaves_room_for_a_smaller_request(composition):
    start = composition.begin(Budget(1, 1e-6))
    assert composition.charge(start, PureGuarantee(3)) is None
    assert composition.charge(start, PureGuarantee("0.001")) is not None


@pytest.mark.parametrize("composition", ALL)
def test_free_runs_change_nothing_and_have_no_limit(composition):
    start = composition.begin(Budget(1, 1e-6))
    claimed = DiscreteGaussianGuarantee(0, 0, 0, claim=("0.5", "1e-8"))
    for free in (PureGuarantee(0), DiscreteGaussianGuarantee(0, 0, 0), claimed):
        assert composition.charge(start, free) == start
        assert composition.capacity(start, free) is None
        assert composition.rounds(start, (free, free)) is None


def test_a_free_run_has_no_price_by_its_claim():
    claimed = DiscreteGaussianGuarantee(0, 0, 0, claim=("0.5", "1e-8"))
    assert BasicComposition().cost(claimed) == (0, 0)


def test_free_runs_pass_where_nothing_else_does():
    closed = AnyOf((BasicComposition(), ZCDPComposition()))
    start = closed.charge(closed.begin(Budget(1)), PureGuarantee(1))
    assert closed.charge(start, PureGuarantee("1e-9")) is None
    for free in (PureGuarantee(0), DiscreteGaussianGuarantee(0, 0, 0, claim=("0.5", "1e-8"))):
        assert closed.charge(start, free) == start
        assert closed.capacity(start, free) is None


@pytest.mark.parametrize("composition", [*ALL, EnvelopeComposition()])
@pytest.mark.parametrize(
    "budget", [Budget(1, 1e-6), Budget(20, 0.4), Budget("1e-12", "1e-300"), Budget(10**6, 0.5)]
)
def test_the_largest_requests_fit_and_hardly_larger_ones_do_not(composition, budget):
    state = composition.begin(budget)
    additive = isinstance(composition, AdditiveComposition)
    first = composition.charge(state, PureGuarantee(composition.largest_epsilon(state) / 3))
    assert first is not None
    for place in (state, first):
        epsilon = composition.largest_epsilon(place)
        assert composition.charge(place, PureGuarantee(epsilon)) is not None
        assert composition.charge(place, PureGuarantee(epsilon * Fraction("1.001"))) is None
        rho = composition.largest_rho(place)
        if rho:
            assert composition.charge(place, wide_gaussian(rho)) is not None
            # The envelope asks that the last Gaussian leave a little.
            exceeding = rho * Fraction("1.001" if additive else "1.053")
            assert composition.charge(place, wide_gaussian(exceeding)) is None


def test_basic_prices_a_gaussian_only_by_its_claim():
    composition = BasicComposition()
    start = composition.begin(Budget(1, 1e-6))
    with pytest.raises(UnsupportedGuarantee):
        composition.charge(start, GAUSSIAN)
    claimed = DiscreteGaussianGuarantee(100, 1, 1, claim=("0.5", "4e-7"))
    count, state = run(composition, start, claimed)
    assert count == 2
    assert composition.leaked(state) == Fraction("8e-7")


def test_a_concentrated_filter_charges_each_law_by_its_own_rho():
    composition = ZCDPComposition()
    start = composition.begin(Budget(1, 1e-6))
    limit = zcdp_start(Fraction(1), Fraction(1, 10**6))
    assert composition.capacity(start, GAUSSIAN) == limit // Fraction(1, 200)
    pure = composition.capacity(start, PureGuarantee(0.1))
    assert pure == composition.capacity(start, DiscreteLaplaceGuarantee(10, 1)) == 4
    assert composition.capacity(start, BoundedRangeGuarantee(0.1)) == 19


def test_leaks_spend_only_the_share_kept_for_them():
    for composition in (ZCDPComposition(leak_share=0.1), AdvancedComposition(leak_share=0.1)):
        start = composition.begin(Budget(1, 1e-6))
        leaking = ApproximateGuarantee("1e-6", "1e-8")
        assert composition.capacity(start, leaking) == 10
        state = run(composition, start, leaking)[1]
        assert composition.fraction(state) < 1e-6
        assert composition.charge(state, PureGuarantee("1e-6")) is not None


@pytest.mark.parametrize(
    "composition",
    [
        AdvancedComposition(leak_share=0),
        ZCDPComposition(),
        RenyiComposition(30),
        EnvelopeComposition(),
        MixedComposition(),
        AnyOf((ZCDPComposition(), EnvelopeComposition())),
    ],
    ids=lambda composition: type(composition).__name__,
)
def test_without_a_share_for_leaks_a_leaking_run_is_refused_by_that_name(composition):
    leaking = ApproximateGuarantee("0.001", "1e-12")
    start = composition.begin(Budget(1, 1e-6))
    for ask in (composition.charge, composition.capacity):
        with pytest.raises(UnsupportedGuarantee, match="leak_share="):
            ask(start, leaking)
    assert composition.charge(start, PureGuarantee("0.001")) is not None


def test_advanced_composition_takes_the_runs_of_its_theorem():
    composition = AdvancedComposition()
    start = composition.begin(Budget(1, 1e-6))
    assert composition.capacity(start, ApproximateGuarantee("0.01", "1e-12")) == 349


def test_kept_leaks_and_conversion_together_use_no_more_than_delta():
    kept = ZCDPComposition(leak_share="0.25").limits(Budget(1, 1e-6))
    assert kept == (zcdp_start(Fraction(1), Fraction(3, 4 * 10**6)), Fraction(1, 4 * 10**6))


def test_any_of_gives_basic_no_delta():
    composition = AnyOf((BasicComposition(), ZCDPComposition(leak_share=0)))
    start = composition.begin(Budget(1, 1e-6))
    with pytest.raises(UnsupportedGuarantee, match="leak_share="):
        composition.charge(start, ApproximateGuarantee("0.1", "1e-9"))


def test_any_of_shares_delta_between_the_members_that_spend_it():
    composition = AnyOf((BasicComposition(), ZCDPComposition(), AdvancedComposition()))
    start = composition.begin(Budget(1, 1e-6))
    half = ZCDPComposition().begin(Budget(1, Fraction(1, 2 * 10**6)))
    assert start.parts[1] == half


BASIC_OR_ENVELOPE = AnyOf((BasicComposition(), EnvelopeComposition()))


def test_an_accepted_run_closes_the_members_it_overflows():
    composition = BASIC_OR_ENVELOPE
    state = composition.begin(Budget(1, 1e-6))
    # One large run: too much for the envelope (a squared shift of 0.09), within basic.
    state = composition.charge(state, PureGuarantee("0.3"))
    assert state.parts[1] is None
    # The envelope stays closed, though a tiny Gaussian would have fitted it.
    assert composition.charge(state, DiscreteGaussianGuarantee(10**12, 1, 1)) is None
    assert composition.largest_rho(state) == 0
    assert composition.largest_epsilon(state) == Fraction("0.7")


def test_a_run_that_a_member_cannot_price_closes_that_member():
    composition = BASIC_OR_ENVELOPE
    state = composition.charge(composition.begin(Budget(1, 1e-6)), GAUSSIAN)
    assert state.parts[0] is None
    assert composition.charge(state, PureGuarantee("0.25")) is None
    assert composition.charge(state, PureGuarantee("0.01")) is not None


@pytest.mark.parametrize(
    "composition",
    [BASIC_OR_ENVELOPE, AnyOf((BasicComposition(), ZCDPComposition()))],
    ids=["basic or envelope", "basic or zCDP"],
)
def test_a_run_that_only_a_closed_member_prices_does_not_fit(composition):
    state = composition.begin(Budget(1, 1e-6))
    state = composition.charge(state, PureGuarantee("0.5"))
    assert composition.charge(state, GAUSSIAN) is None
    assert composition.capacity(state, GAUSSIAN) == 0
    assert composition.rounds(state, (PureGuarantee("0.1"), GAUSSIAN)) == 0


def test_a_run_that_no_member_ever_prices_is_unsupported():
    narrow = DiscreteGaussianGuarantee("0.1", 1, 1)
    composition = BASIC_OR_ENVELOPE
    start = composition.begin(Budget(1, 1e-6))
    closing = composition.charge(start, PureGuarantee("0.5"))
    assert closing is not None
    for state in (start, closing):
        with pytest.raises(UnsupportedGuarantee):
            composition.charge(state, narrow)
        with pytest.raises(UnsupportedGuarantee):
            composition.rounds(state, (PureGuarantee("0.1"), narrow))


MIXED = [
    (PureGuarantee("0.02"), PureGuarantee("0.005")),
    (PureGuarantee("0.005"), PureGuarantee(0), PureGuarantee("0.05")),
    (DiscreteGaussianGuarantee(10**5, 4, 2), PureGuarantee("0.01"), PureGuarantee("0.01")),
    (BoundedRangeGuarantee("0.03"), DiscreteGaussianGuarantee(64, 1, 1)),
    (ApproximateGuarantee("0.01", "1e-9"), PureGuarantee("0.01")),
    (PureGuarantee("0.6"), PureGuarantee("0.5")),
]


@frozen
class Plain(Composition):
    """Basic composition by the methods alone that a composition must have."""

    inner: BasicComposition = field(factory=BasicComposition)

    def begin(self, budget):
        return self.inner.begin(budget)

    def charge(self, state, guarantee):
        return self.inner.charge(state, guarantee)

    def capacity(self, state, guarantee):
        return self.inner.capacity(state, guarantee)

    def fraction(self, state):
        return self.inner.fraction(state)

    def leaked(self, state):
        return self.inner.leaked(state)

    def largest_epsilon(self, state):
        return self.inner.largest_epsilon(state)

    def largest_rho(self, state):
        return self.inner.largest_rho(state)

    def describe(self, state):
        return self.inner.describe(state)


@pytest.mark.thorough(quick=14)
@pytest.mark.parametrize("runs", MIXED, ids=str)
@pytest.mark.parametrize(
    "composition",
    [
        *ALL,
        ZCDPComposition("0.1"),
        RenyiComposition(20, "0.1"),
        EnvelopeComposition("0.1"),
        AnyOf((BasicComposition(), ZCDPComposition("0.2"), AdvancedComposition())),
        Plain(),
    ],
    ids=str,
)
def test_rounds_is_how_often_all_of_several_runs_fit(composition, runs):
    # Also from a state in which members are about to be closed.
    for before in ((), (PureGuarantee("0.3"),), (DiscreteGaussianGuarantee(1000, 1, 1),)):
        state = composition.begin(Budget(1, 1e-6))
        try:
            for guarantee in before:
                state = composition.charge(state, guarantee) or state
            expected, follows = 0, state
            while fits_all(composition, follows, runs):
                for guarantee in runs:
                    after = composition.charge(follows, guarantee)
                    assert after is not None
                    follows = after
                expected += 1
        except UnsupportedGuarantee:
            continue
        assert composition.rounds(state, runs) == expected
        # The same runs, told by how many equal ones follow each other.
        repeated = [(run, len(list(group))) for run, group in groupby(runs * 3)]
        assert composition.rounds(state, repeated) == composition.rounds(state, runs * 3)


@pytest.mark.parametrize("composition", ALL[1:], ids=str)
def test_a_round_of_very_many_equal_runs_is_counted_without_walking_them(composition):
    start = composition.begin(Budget(1, 1e-6))
    tiny, number = PureGuarantee("1e-12"), DiscreteGaussianGuarantee(10**22, 1, 1)
    count = composition.rounds(start, [(tiny, 10**9), (number, 10**9)])
    assert count >= 10
    thousand = composition.rounds(start, [(tiny, 10**12), (number, 10**12)])
    assert count // 1000 - 1 <= thousand <= count // 1000
    assert composition.rounds(start, [(tiny, 10**40)]) == 0
    small = (PureGuarantee("1e-5"), DiscreteGaussianGuarantee(10**10, 1, 1))
    count = composition.rounds(start, small)
    assert count > 10**8
    assert all(composition.capacity(start, guarantee) > count for guarantee in small)


def test_a_refused_run_closes_no_member():
    composition = default_composition()
    start = composition.begin(Budget(1, 1e-6))
    assert composition.charge(start, PureGuarantee(2)) is None
    assert composition.charge(start, DiscreteGaussianGuarantee(1, 1, 1)) is None
    assert composition.capacity(start, PureGuarantee("0.01")) == 558


def test_without_delta_the_default_is_basic_composition():
    composition = default_composition()
    start = composition.begin(Budget(1))
    assert start.parts[1:] == (NEVER_OPEN, NEVER_OPEN)
    assert composition.capacity(start, PureGuarantee(0.1)) == 10
    with pytest.raises(UnsupportedGuarantee):
        composition.charge(start, GAUSSIAN)


def test_what_is_spent_is_described_for_people():
    composition = default_composition()
    state = composition.charge(composition.begin(Budget(1, 1e-6)), PureGuarantee("0.1"))
    basic, envelope, mixed = composition.describe(state)
    assert basic == "basic composition: epsilon 0.1 of 1"
    assert envelope.startswith("envelope composition: squared shift 0.0103")
    assert mixed.startswith("mixed composition at order 128: divergence 0.09")


def test_bad_parameters_are_named():
    with pytest.raises(InvalidArgument) as caught:
        ZCDPComposition(leak_share=1)
    assert caught.value.parameter == "leak_share"
    with pytest.raises(InvalidArgument) as caught:
        AnyOf(())
    assert caught.value.parameter == "members"


def test_interactive_runs_may_interleave_only_where_every_member_says_so():
    class Sequential(BasicComposition):
        @property
        def concurrent(self):
            return False

    assert all(composition.concurrent for composition in ALL)
    assert not AnyOf((BasicComposition(), Sequential())).concurrent


mpf = mpmath.mpf


def real(value):
    return mpf(value.numerator) / value.denominator


@pytest.mark.thorough(quick=14)
@pytest.mark.parametrize("epsilon", ["1e-20", "0.01", "1", "30", "2000"])
@pytest.mark.parametrize("order", ["1.0001", "2", "7/3", "1000"])
def test_the_divergence_of_randomised_response_is_bounded_tightly(epsilon, order):
    size, a = Fraction(epsilon), Fraction(order)
    with mpmath.workdps(2500):
        e, b = real(size), real(a)
        exact = mpmath.log(mpmath.cosh((b - mpf("0.5")) * e) / mpmath.cosh(e / 2)) / (b - 1)
        bound = real(renyi_divergence(PureGuarantee(size), a))
        assert exact <= bound <= exact * (1 + mpf("1e-15"))


def test_other_laws_take_the_order_times_rho():
    assert renyi_divergence(DiscreteGaussianGuarantee(50, 1, 1), Fraction(3)) == Fraction(3, 100)
    bounded = renyi_divergence(BoundedRangeGuarantee("0.2"), Fraction(2))
    assert bounded == pytest.approx(2 * 0.04 / 8, rel=1e-3)


@pytest.mark.parametrize("order", ["1.5", "7/3", "40"])
def test_the_start_is_certified_and_tight(order):
    a = Fraction(order)
    start = renyi_start(Fraction(1), Fraction("1e-6"), a)
    with mpmath.workdps(60):
        b = real(a)
        exact = 1 + (mpmath.log(mpf("1e-6")) + b * mpmath.log(b / (b - 1)) + mpmath.log(b - 1)) / (
            b - 1
        )
        assert real(start) <= max(exact, 0)
        assert real(start) >= exact - mpf("1e-50")


def test_it_beats_concentrated_composition_for_few_large_bounded_runs():
    budget, run = Budget(20, 1e-6), PureGuarantee(3)
    renyi, concentrated = RenyiComposition(4), ZCDPComposition()
    first = renyi.capacity(renyi.begin(budget), run)
    second = concentrated.capacity(concentrated.begin(budget), run)
    assert first > second > 0


def test_the_largest_requests_fit_one_order():
    composition = RenyiComposition("12.5", leak_share="0.1")
    state = composition.begin(Budget(5, 1e-6))
    epsilon = composition.largest_epsilon(state)
    assert composition.charge(state, PureGuarantee(epsilon)) is not None
    assert composition.charge(state, PureGuarantee(epsilon * Fraction("1.00001"))) is None
    rho = composition.largest_rho(state)
    assert composition.charge(state, DiscreteGaussianGuarantee(1 / (2 * rho), 1, 1)) is not None


@pytest.mark.parametrize("order", [1, 0, -2, float("inf")])
def test_the_order_must_be_above_one(order):
    with pytest.raises(InvalidArgument) as caught:
        RenyiComposition(order)
    assert caught.value.parameter == "order"
