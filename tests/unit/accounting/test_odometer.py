import copy
import os
import pickle
import time
from concurrent.futures import ThreadPoolExecutor
from fractions import Fraction

import pytest
from hypothesis import settings

from dpsdk.accounting import (
    Anytime,
    ApproximateGuarantee,
    BasicComposition,
    Budget,
    Charge,
    Composition,
    DiscreteGaussianGuarantee,
    DiscreteLaplaceGuarantee,
    EnvelopeComposition,
    MixedComposition,
    Odometer,
    PureGuarantee,
    State,
    ZCDPComposition,
    default_composition,
    zcdp_rho,
)
from dpsdk.accounting.nested import PartOdometer, ScopeOdometer
from dpsdk.accounting.prices.claims import claim_rho
from dpsdk.accounting.refusals import worded
from dpsdk.errors import BudgetExceeded, Closed, NotCopyable, Shortage, UnsupportedGuarantee
from spending import Spending

TENTH = PureGuarantee(0.1)


class Hesitant(BasicComposition):
    """Lets another thread run between the check and the change."""

    def charge(self, state, guarantee):
        after = super().charge(state, guarantee)
        time.sleep(0)
        return after


def opened(epsilon=1, delta=1e-6):
    return Odometer(Budget(epsilon, delta), default_composition())


def test_charges_are_numbered_from_one_and_remembered():
    odometer = Odometer(Budget(1), clock=lambda: None)
    assert odometer.charge(TENTH, "a") == 1
    assert odometer.charge(PureGuarantee(0.2), "b") == 2
    assert odometer.charges == (Charge(1, "a", TENTH), Charge(2, "b", PureGuarantee(0.2)))


def test_a_tenth_ten_times_fills_one_and_no_more():
    odometer = Odometer(Budget(1), BasicComposition())
    for _ in range(10):
        odometer.charge(TENTH, "a tenth")
    assert odometer.spent.epsilon == 1
    assert odometer.spent.fraction == 1.0
    assert odometer.remaining.epsilon == 0
    with pytest.raises(BudgetExceeded):
        odometer.charge(PureGuarantee("1e-60"), "more")


def test_refusal_changes_nothing_and_says_what_is_left():
    odometer = opened()
    odometer.charge(TENTH, "first")
    before = odometer.state, odometer.charges, odometer.spent
    with pytest.raises(BudgetExceeded) as caught:
        odometer.charge(PureGuarantee(3), "too much")
    assert (odometer.state, odometer.charges, odometer.spent) == before
    assert caught.value.asked == "epsilon 3"
    assert "(1, 1e-6)-DP in 1 charge" in caught.value.spent
    assert "epsilon up to 0.9" in caught.value.remaining
    odometer.charge(PureGuarantee(0.5), "smaller")


def test_several_runs_are_charged_all_or_none():
    odometer = opened()
    assert odometer.charge_all([TENTH, TENTH], "two") == (1, 2)
    before = odometer.state, odometer.charges
    with pytest.raises(BudgetExceeded) as caught:
        odometer.charge_all([TENTH] * 9, "nine")
    assert caught.value.asked == "9 runs of epsilon 0.1"
    with pytest.raises(BudgetExceeded):
        odometer.charge_all([TENTH, PureGuarantee(2)], "mixed")
    assert (odometer.state, odometer.charges) == before
    assert odometer.charge_all([], "none") == ()
    assert odometer.charge_all([TENTH] * 8, "eight") == tuple(range(3, 11))


def test_an_unsupported_run_changes_nothing():
    odometer = Odometer(Budget(1, 1e-6), BasicComposition())
    with pytest.raises(UnsupportedGuarantee):
        odometer.charge_all([TENTH, DiscreteGaussianGuarantee(9, 1, 1)], "mixed")
    assert odometer.charges == ()
    assert odometer.spent.epsilon == 0


def test_spent_sums_what_the_runs_are_proven_to_cost():
    odometer = Odometer(Budget(1, 1e-6), default_composition(leak_share=0.5))
    odometer.charge_all([PureGuarantee(0.02)] * 3, "pure")
    assert odometer.spent.epsilon == Fraction("0.06")
    assert odometer.spent.rho == pytest.approx(3 * zcdp_rho(PureGuarantee(0.02)))
    odometer.charge(DiscreteGaussianGuarantee(100, 1, 1), "gaussian")
    odometer.charge(ApproximateGuarantee("0.01", "1e-9"), "leaking")
    spent = odometer.spent
    assert spent.epsilon is None
    assert spent.delta == Fraction(1, 10**9)
    assert spent.charges == 5
    assert spent.guarantee == odometer.budget


def test_affords_counts_the_runs_that_fit():
    odometer = opened()
    assert odometer.affords(PureGuarantee("0.01")) == 558
    assert odometer.affords(PureGuarantee(0)) is None
    assert odometer.affords(PureGuarantee(2)) == 0


def test_affords_all_counts_how_often_several_runs_fit_together():
    odometer = opened()
    runs = [PureGuarantee("0.01"), PureGuarantee(0), PureGuarantee("0.002")]
    promised = odometer.affords_all(runs)
    assert promised is not None
    for _ in range(promised):
        odometer.charge_all(runs, "together")
    assert odometer.affords_all(runs) == 0
    with pytest.raises(BudgetExceeded):
        odometer.charge_all(runs, "one more")
    assert odometer.affords_all([PureGuarantee(0)]) is None
    assert odometer.affords_all([]) is None


def test_shown_in_one_line_for_a_notebook():
    odometer = opened()
    odometer.charge(PureGuarantee(0.25), "a quarter")
    assert repr(odometer.spent) == (
        "Spent(25% of (1, 1e-6)-DP in 1 charge, epsilon 0.25, rho 0.031088)"
    )
    assert repr(odometer.remaining) == (
        "Remaining(75%, room for one run of epsilon up to 0.75 or of rho up to 0.0050472)"
    )
    assert repr(odometer).startswith("Odometer(25% of ")


def test_it_cannot_be_copied_or_pickled():
    odometer = opened()
    for copied in (copy.copy, copy.deepcopy, pickle.dumps):
        with pytest.raises(NotCopyable):
            copied(odometer)


def test_a_forked_process_cannot_spend(monkeypatch):
    odometer = opened()
    parent = os.getpid()
    monkeypatch.setattr(os, "getpid", lambda: parent + 1)
    with pytest.raises(Closed):
        odometer.charge(TENTH, "in the child")
    monkeypatch.undo()
    assert odometer.charge(TENTH, "in the parent") == 1


def test_sixteen_threads_end_exactly_on_the_budget():
    odometer = Odometer(Budget(1), Hesitant())
    part = PureGuarantee("0.005")

    def spend(_):
        accepted = 0
        for _ in range(100):
            try:
                odometer.charge(part, "thread")
            except BudgetExceeded:
                continue
            accepted += 1
        return accepted

    with ThreadPoolExecutor(16) as pool:
        accepted = sum(pool.map(spend, range(16)))
    assert accepted == 200
    assert odometer.spent.epsilon == 1
    assert [entry.number for entry in odometer.charges] == list(range(1, 201))


Spending.TestCase.settings = settings(max_examples=40, stateful_step_count=25, deadline=None)
TestSpending = pytest.mark.thorough(Spending.TestCase)


# Refusals in words and numbers


def refused(odometer, *runs):
    before = odometer.spent
    with pytest.raises(BudgetExceeded) as caught:
        odometer.charge_all(runs, "refused")
    assert pickle.loads(pickle.dumps(caught.value)) == caught.value  # noqa: S301
    assert odometer.spent == before
    return caught.value


def test_a_refusal_names_the_limit_that_did_not_fit_in_the_callers_words():
    odometer = Odometer(Budget(1, 1e-6), BasicComposition())
    run = DiscreteGaussianGuarantee(100, 1, 1, claim=(0.5, 1e-5))
    error = refused(odometer, run)
    assert error.asked == "epsilon 0.5 and delta 1e-5 by Gaussian noise"
    assert error.why == (
        "100% of (1, 1e-6)-DP is left, enough for one run of epsilon up to 1 and delta up to 1e-6"
    )
    assert str(error) == f"asked for {error.asked}, but {error.why}"
    assert "zCDP" not in str(error)
    assert error.shortages == (
        Shortage(
            "delta", "basic composition", Fraction(1, 10**5), Fraction(1, 10**6), Fraction(1, 10**6)
        ),
    )
    assert error.epsilon == odometer.remaining.epsilon == 1
    assert error.rho == odometer.remaining.rho


def test_a_refusal_of_gaussian_noise_says_that_the_budget_has_no_delta():
    advice = "open the session with a budget that has one, as Budget(1, 1e-6), or use Laplace noise"
    odometer = Odometer(Budget(1), default_composition())
    claimed = DiscreteGaussianGuarantee(10**6, 1, 1, claim=(Fraction(1, 10), Fraction(1, 10**6)))
    assert refused(odometer, claimed).why == f"100% of 1-DP is left, which has no delta: {advice}"
    bare = DiscreteGaussianGuarantee(10**6, 1, 1)
    why = f"needs a delta, and 1-DP has none: {advice}"
    for ask in (odometer.check_all, lambda runs: odometer.charge_all(runs, "refused")):
        with pytest.raises(UnsupportedGuarantee) as caught:
            ask([bare])
        assert caught.value.reason == f"Gaussian noise {why}"
    scope = ScopeOdometer(opened(), "a", Budget("0.5"))
    assert "which has no delta" in refused(scope, claimed).why
    with pytest.raises(UnsupportedGuarantee, match=r"as of Gaussian\(epsilon"):
        Odometer(Budget(1, 1e-6), BasicComposition()).charge(bare, "refused")


@pytest.mark.parametrize(
    ("runs", "asked"),
    [
        (
            [PureGuarantee("0.6"), (DiscreteLaplaceGuarantee(10, 2), 3)],
            "4 runs together of epsilon 1.2 in all, the first of epsilon 0.6",
        ),
        (
            [DiscreteGaussianGuarantee(1, 1, 1), DiscreteGaussianGuarantee(2, 1, 1)],
            "2 runs together of rho 0.75 in all, the first of rho 0.5 by Gaussian noise",
        ),
        (
            [(ApproximateGuarantee(1, "0.1"), 2), PureGuarantee(1)],
            "3 runs together, the first of epsilon 1 and delta 0.1",
        ),
        (
            [PureGuarantee(1), DiscreteGaussianGuarantee(2, 1, 1)],
            "2 runs together, the first of epsilon 1",
        ),
    ],
)
def test_several_runs_of_one_kind_are_told_with_their_sum(runs, asked):
    assert worded(runs) == asked


def test_a_refusal_by_several_counts_names_each_that_is_open():
    odometer = Odometer(Budget(1, 1e-6), default_composition())
    error = refused(odometer, PureGuarantee("0.6"), PureGuarantee("0.5"))
    assert error.asked == "2 runs together of epsilon 1.1 in all, the first of epsilon 0.6"
    assert [(short.limit, short.within) for short in error.shortages] == [
        ("epsilon", "basic composition"),
        ("squared shift", "envelope composition"),
        ("divergence", "mixed composition at order 128"),
    ]
    assert error.shortages[0].asked == Fraction(11, 10)
    assert error.shortages[0].left == error.shortages[0].cap == 1
    assert error.why.startswith(
        "100% of (1, 1e-6)-DP is left, enough for one run of epsilon up to 1 or of rho up to 0.0"
    )
    # Whatever is said to fit does.
    odometer.charge(PureGuarantee(error.epsilon), "fits")
    assert refused(odometer, TENTH).why == "0% of (1, 1e-6)-DP is left, and no run fits"


def test_what_a_refusal_says_would_fit_does_in_the_units_of_the_request():
    def fits(runs, size):
        odometer = opened()
        odometer.charge(PureGuarantee("0.25"), "before")
        start = time.process_time()
        with pytest.raises(BudgetExceeded) as caught:
            odometer.check_all(runs)
        assert time.process_time() - start < 0.1
        assert size in caught.value.why
        return odometer

    def claimed(epsilon, delta):
        claim = Fraction(epsilon), Fraction(delta)
        return DiscreteGaussianGuarantee(10**8 / (2 * claim_rho(*claim)), 10**8, 10**4, claim)

    laplace, large = PureGuarantee("0.3"), claimed("1.5", "1e-5")
    fits([PureGuarantee(1)], "epsilon up to 0.75 or of rho up to 0.0050472").check_all(
        [PureGuarantee("0.75")]
    )
    fits([(laplace, 9)], "enough for 2 of them, or one run of epsilon up to 0.75").check_all(
        [(laplace, 2)]
    )
    fits([large], "of epsilon up to 0.34647 and delta 1e-5 or of epsilon up to 0.75").check_all(
        [claimed("0.34647", "1e-5")]
    )
    leaking = ApproximateGuarantee(2, "1e-6")
    fits([leaking], "of epsilon up to 0.75 and delta up to 2e-9 or of rho").check_all(
        [ApproximateGuarantee("0.75", "2e-9")]
    )


def test_a_refusal_rounds_what_fits_down_and_what_was_asked_up():
    odometer = Odometer(Budget(Fraction(1, 3)), BasicComposition())
    text = str(refused(odometer, PureGuarantee(Fraction(1, 3) + Fraction(1, 10**15))))
    assert "asked for epsilon 0.33334, but" in text
    assert text.endswith("one run of epsilon up to 0.33333")


def test_a_refusal_by_a_leak_or_a_sum_names_its_axis():
    leaking = Odometer(Budget(1, 1e-6), EnvelopeComposition("0.5"))
    error = refused(leaking, ApproximateGuarantee("0.01", "1e-6"))
    assert [short.limit for short in error.shortages] == ["delta"]
    assert error.shortages[0].left == Fraction(1, 2 * 10**6)
    concentrated = Odometer(Budget(1, 1e-6), ZCDPComposition())
    error = refused(concentrated, DiscreteGaussianGuarantee(2, 1, 1))
    assert error.asked == "rho 0.25 by Gaussian noise"
    assert "is left, enough for one run of rho up to 0.0" in error.why


def test_a_refusal_by_the_leaks_of_several_counts_names_their_share():
    odometer = Odometer(Budget(1, 1e-6), default_composition())
    error = refused(odometer, ApproximateGuarantee("0.01", "1e-7"))
    assert [(short.limit, short.within) for short in error.shortages] == [
        ("delta", "the share for leaks")
    ]
    short = error.shortages[0]
    assert (short.asked, short.left) == (Fraction(1, 10**7), Fraction(2, 10**9))
    assert "enough for one run of epsilon up to 1 and delta up to 2e-9 or of rho" in error.why
    odometer.charge(ApproximateGuarantee("0.01", short.left), "all of it")
    assert refused(odometer, ApproximateGuarantee("0.01", "1e-12")).shortages[0].left == 0
    # Where both are too much, both are named; where the leak fits, it is not the reason.
    error = refused(odometer, ApproximateGuarantee(1, "1e-12"))
    assert {short.limit for short in error.shortages} == {
        "delta",
        "epsilon",
        "squared shift",
        "divergence",
    }
    fresh = Odometer(Budget(1, 1e-6), default_composition())
    error = refused(fresh, ApproximateGuarantee(2, "1e-12"))
    assert "delta" not in {short.limit for short in error.shortages}
    scope = ScopeOdometer(fresh, "small", "0.5")
    error = refused(scope, ApproximateGuarantee("0.01", "2e-9"))
    assert error.shortages[0].within.startswith("the share for leaks in scope ")


def test_a_refusal_where_mixed_composition_alone_is_open_names_its_axis():
    odometer = Odometer(Budget(1, 1e-6), default_composition())
    odometer.charge(DiscreteGaussianGuarantee(10**6, 1, 1), "closes basic composition")
    odometer.charge(PureGuarantee("0.5"), "closes the envelope")
    error = refused(odometer, PureGuarantee("0.5"))
    (short,) = error.shortages
    assert (short.limit, short.within) == ("divergence", "mixed composition at order 128")
    assert short.asked is not None
    assert short.asked > short.left > 0
    alone = Odometer(Budget(1, 1e-6), MixedComposition("0.5"))
    error = refused(alone, ApproximateGuarantee("0.01", "6e-7"))
    assert [short.limit for short in error.shortages] == ["delta"]


def test_a_refusal_of_a_composition_that_is_not_known_still_says_what_is_left():
    class Other(Composition):
        def begin(self, budget):
            return State((0,), (1,))

        def charge(self, state, guarantee):
            return None

        def capacity(self, state, guarantee):
            return 0

        def fraction(self, state):
            return 0.0

        def leaked(self, state):
            return Fraction(0)

        def largest_epsilon(self, state):
            return Fraction(1, 3)

        largest_rho = largest_epsilon

        def describe(self, state):
            return ()

    error = refused(Odometer(Budget(1), Other()), TENTH)
    assert error.shortages == ()
    assert error.epsilon == Fraction(1, 3)
    assert str(error).startswith("asked for epsilon 0.1, but 100% of 1-DP is left, enough for one")


# Readings


def test_no_reading_is_above_what_the_session_keeps_in_any_case():
    budget = Budget(1, 1e-6)
    bound = Anytime(1e-6, "0.02")
    odometer = Odometer(budget, default_composition(), bound)
    for _ in range(320):
        odometer.charge(PureGuarantee("0.013"), "many")
    readings = odometer.readings(1e-6)
    assert bound.epsilon(odometer.spent.rho) > 1
    assert readings.level <= 1
    assert readings.declared <= 1
    assert readings.anytime == 1
    # At a smaller delta than the budget's, its epsilon says nothing.
    assert odometer.readings(1e-9).level > 1


def test_a_part_and_a_scope_read_books_that_are_charged():
    odometer = Odometer(Budget(1, 1e-6), default_composition())
    generation = odometer.generation()
    odometer.divide(generation, 2, moves=False)
    parts = [PartOdometer(odometer, "part", generation, number) for number in range(2)]
    scope = ScopeOdometer(odometer, "scope", "0.9")
    parts[0].charge(PureGuarantee("0.3"), "part")
    scope.charge(TENTH, "scope")
    assert parts[0].state != parts[1].state != odometer.composition.begin(odometer.budget)
    assert parts[0].readings(1e-6).level > parts[1].readings(1e-6).level > 0
    assert parts[0].readings(1e-6).declared >= 0.3
    assert scope.readings(1e-6).declared == pytest.approx(0.1, rel=1e-4)
    assert scope.state != odometer.state
    assert [entry.guarantee for entry in scope.charges] == [TENTH]
    assert len(odometer.charges) == len(parts[0].charges) == 2


def refusal_of(work, *given):
    """What a refusal says, None if there is none."""
    try:
        work(*given)
    except BudgetExceeded as error:
        return str(error), error.shortages, error.epsilon, error.rho
    return None


@pytest.mark.parametrize("composition", [None, BasicComposition(), ZCDPComposition()], ids=str)
def test_what_would_not_fit_together_is_refused_alike_and_charges_nothing(composition):
    run = DiscreteGaussianGuarantee(10**6, 1, 1, claim=("0.1", "1e-9"))
    for count in (1, 5, 9, 12, 400):
        asked = Odometer(Budget(1, "1e-6"), composition)
        charged = Odometer(Budget(1, "1e-6"), composition)
        for odometer in (asked, charged):
            odometer.charge(PureGuarantee("0.2"), "before")
        refusals = [
            refusal_of(asked.check_all, [(run, count)]),
            refusal_of(charged.charge_all, [run] * count, "q"),
        ]
        assert refusals[0] == refusals[1]
        assert asked.spent.charges == 1
    for count in (10**5, 10**9):
        with pytest.raises(BudgetExceeded):
            asked.check_all([(PureGuarantee("0.01"), count)])
    asked.check_all([])
    asked.check_all([(PureGuarantee(0), 10**9), PureGuarantee("0.05")])
    assert asked.spent.charges == 1


def test_what_a_reserve_keeps_off_is_refused_and_nothing_else():
    odometer = Odometer(Budget(1), BasicComposition())
    scope = ScopeOdometer(odometer, "s", Fraction(1, 2), reserve=True)
    odometer.check_all([PureGuarantee("0.5")])
    scope.check_all([PureGuarantee("0.25")] * 2)
    for payer in (odometer, scope):
        with pytest.raises(BudgetExceeded):
            payer.check_all([PureGuarantee("0.3")] * 2)
    scope.close()
    with pytest.raises(Closed):
        scope.check_all([PureGuarantee("0.1")])
    odometer.check_all([PureGuarantee(1)])


@pytest.mark.parametrize("count", [5000, 10**6, 10**30])
def test_a_refusal_of_very_many_runs_says_how_many_were_asked_for(count):
    odometer = Odometer(Budget(1), BasicComposition())
    with pytest.raises(BudgetExceeded, match=f"{count:,} runs") as caught:
        odometer.check_all([(PureGuarantee("0.001"), count)])
    assert [short.asked for short in caught.value.shortages] == [Fraction(count, 1000)]
    leaking = Odometer(Budget(1, "0.01"))
    with pytest.raises(BudgetExceeded, match=f"{count + 1:,} runs together") as caught:
        leaking.check_all([PureGuarantee("0.1"), (ApproximateGuarantee("1e-40", "1e-6"), count)])
    assert caught.value.shortages[0].asked == Fraction(count, 10**6)
