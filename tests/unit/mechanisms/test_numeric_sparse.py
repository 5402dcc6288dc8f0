from fractions import Fraction

import numpy as np
import pytest
from scipy.stats import binom

from dpsdk import Budget, Domain, Integer, Neighbors, PrivateData, Session
from dpsdk.accounting import (
    BasicComposition,
    Odometer,
    ZCDPComposition,
    default_composition,
    zcdp_start,
)
from dpsdk.accounting.prices.run import pure_epsilon, zcdp_rho
from dpsdk.errors import BudgetExceeded, Closed, InvalidArgument, ReleaseFailed
from dpsdk.forms import GapForm, Kronecker, LinearForm, Prefix
from dpsdk.kernel import Kernel, Terms
from dpsdk.mechanisms import Laplace, NumericSparse
from dpsdk.mechanisms.numeric_sparse import equal_share, split_pure, split_watch
from dpsdk.noise import NoiseSource
from dpsdk.queries import Above, NumericAbove, Query, Threshold
from dpsdk.testing.noise import seeded
from worlds import facts

pytestmark = pytest.mark.thorough

LINE = Domain(Integer("x", 0, 3))
COUNTS = [400, 300, 200, 100]
DELTA = Fraction(1, 10**6)
YES, NO = Above(Threshold("x", 0, normalized=False), -(10**9)), Above(Threshold("x", 0), 1.0)
NUMBER = NumericAbove(Threshold("x", 0, normalized=False), -(10**9))

MODES = [
    (epsilon, delta, tops, numbers)
    for epsilon in (Fraction(1, 10), Fraction(1), Fraction(20))
    for delta in (Fraction(0), DELTA)
    for tops in (1, 3, 50)
    for numbers in ("measured", "gap")
]


def opened(mechanism, budget=None, neighbors=Neighbors.REPLACE_ONE, composition=None):
    data = PrivateData.from_counts(COUNTS, LINE, neighbors=neighbors)
    budget = Budget(10**9, "0.1") if budget is None else budget
    session = Session(data, budget, composition=composition, noise=seeded(5))
    return session, session.open(mechanism)


def charged(session):
    return [guarantee for entry in session.history for guarantee in entry.cost.guarantees]


def use_up(channel, query=NUMBER):
    """Ask until the channel is closed; how often it answered."""
    answered = 0
    while True:
        try:
            channel.answer(query)
        except Closed:
            return answered
        answered += 1


@pytest.mark.parametrize(("epsilon", "delta", "tops", "numbers"), MODES, ids=str)
def test_a_stream_used_up_costs_no_more_than_its_total(epsilon, delta, tops, numbers):
    mechanism = NumericSparse(epsilon, delta, tops=tops, numbers=numbers)
    session, channel = opened(mechanism)
    assert use_up(channel) == tops
    costs = charged(session)
    runs = tops if delta else 1
    assert len(costs) == runs + (tops if numbers == "measured" else 0)
    if delta:
        total, limit = sum(map(zcdp_rho, costs)), zcdp_start(epsilon, delta)
        # Next to nothing is wasted either.
        assert Fraction(999, 1000) * limit < total <= limit
    else:
        assert sum(map(pure_epsilon, costs)) == epsilon


@pytest.mark.parametrize("tops", [1, 3, 7, 50])
@pytest.mark.parametrize("numbers", ["measured", "gap"])
@pytest.mark.parametrize("delta", [0, DELTA])
def test_a_session_of_just_the_total_lets_the_whole_stream_through(tops, numbers, delta):
    mechanism = NumericSparse(1, delta, tops=tops, numbers=numbers)
    composition = ZCDPComposition() if delta else BasicComposition()
    _, channel = opened(mechanism, Budget(1, delta), composition=composition)
    assert use_up(channel) == tops


class Unreliable(NoiseSource):
    """Fails now and then."""

    def __init__(self):
        self.source, self.rng = seeded(1), np.random.default_rng(1)

    @property
    def private(self):
        return False

    def _bits(self, count):
        return self.source._bits(count)

    def draw(self, law, size):
        if self.rng.random() < 0.3:
            raise MemoryError
        return self.source.draw(law, size)


@pytest.mark.parametrize("numbers", ["measured", "gap"])
@pytest.mark.parametrize("delta", [0, DELTA])
def test_runs_that_fail_do_not_come_on_top_of_the_total(delta, numbers):
    data = PrivateData.from_counts(COUNTS, LINE)
    for _ in range(10):
        session = Session(data, Budget(10**9, "0.1"), noise=Unreliable())
        channel = session.open(NumericSparse(1, delta, tops=6, numbers=numbers))
        failures = 0
        for query in [NO, NUMBER] * 40:
            try:
                channel.answer(query)
            except ReleaseFailed:
                failures += 1
            except Closed:
                break
        else:
            pytest.fail("never closed")
        assert failures > 0
        costs = charged(session)
        if delta:
            assert sum(map(zcdp_rho, costs)) <= zcdp_start(Fraction(1), DELTA)
        else:
            assert sum(map(pure_epsilon, costs)) <= 1


def test_after_the_last_top_even_a_no_is_refused_and_costs_nothing():
    session, channel = opened(NumericSparse(1, tops=2))
    for query in (NO, YES, NO, YES):
        channel.answer(query)
    spent = session.spent
    for query in (NO, YES, NUMBER):
        with pytest.raises(Closed, match="2 answers above"):
            channel.answer(query)
    assert session.spent == spent


@pytest.mark.parametrize("delta", [0, DELTA])
def test_any_number_of_nos_costs_one_run(delta):
    session, channel = opened(NumericSparse(1, delta, tops=4))
    assert session.spent.charges == 0
    assert not any(channel.answer(NO) for _ in range(300))
    assert session.spent.charges == 1
    (cost,) = charged(session)
    if delta:
        assert zcdp_rho(cost) <= zcdp_start(Fraction(1), DELTA) / 4 * Fraction(7, 9)
    else:
        assert pure_epsilon(cost) == Fraction(7, 9)


@pytest.mark.parametrize(
    ("given", "queries", "charges"),
    [
        ({"tops": 3}, [NO, YES, NO, YES, NO], 1),
        # Each top of an approximate stream ends a run, and another is not open before it is needed.
        ({"tops": 3, "delta": DELTA}, [NO, YES, NO, YES], 2),
        ({"tops": 3, "delta": DELTA}, [NO, YES, NO, YES, NO], 3),
        ({"tops": 2, "epsilon": 9}, [NUMBER, NUMBER], 3),
        ({"tops": 2, "epsilon": 9, "numbers": "gap"}, [NUMBER, NUMBER], 1),
        ({"tops": 2, "epsilon": 9}, [YES], 1),
        ({"tops": 2, "epsilon": 9, "numbers": "gap"}, [YES], 1),
    ],
)
def test_runs_are_charged_and_numbers_that_are_measured(given, queries, charges):
    session, channel = opened(NumericSparse(**{"epsilon": 1} | given))
    answers = [channel.answer(query) for query in queries]
    assert [bool(answer) for answer in answers] == [query is not NO for query in queries]
    assert session.spent.charges == charges


def test_a_measured_number_takes_two_ninths_in_all():
    session, channel = opened(NumericSparse(9, tops=4))
    release = channel.release(NUMBER)
    watch, number = release.cost.guarantees
    assert (pure_epsilon(watch), pure_epsilon(number)) == (7, Fraction(1, 2))
    assert session.spent.epsilon == Fraction(15, 2)


def test_a_refused_run_changes_nothing_and_the_channel_stays_open():
    session, channel = opened(NumericSparse(1, tops=2), Budget("0.5"))
    with pytest.raises(BudgetExceeded):
        channel.answer(NO)
    assert session.spent.charges == 0
    session.answer(Threshold("x", 0), using=Laplace("0.5"))
    assert session.remaining.epsilon == 0


@pytest.mark.parametrize("neighbors", Neighbors)
@pytest.mark.parametrize("delta", [0, DELTA])
def test_a_quote_is_what_the_first_question_costs_at_the_most(neighbors, delta):
    mechanism = NumericSparse(1, delta, tops=3)
    for query in (NO, NUMBER):
        session, channel = opened(mechanism, neighbors=neighbors)
        quote = session.quote(query, using=mechanism)
        assert quote.at_open.free
        release = channel.release(query)
        assert quote.at_most == release.cost
        assert session.spent.charges == len(release.cost.guarantees)
    errors = [session.quote(YES, using=NumericSparse(e, delta, tops=3)).error() for e in (1, "0.1")]
    assert 0 < 5 * errors[0] < errors[1]


class Steps(Query[tuple[bool, ...], GapForm]):
    """Whether each of all thresholds is at or above its level: several gaps in one form."""

    def __init__(self, levels):
        self.levels = levels

    def lower(self, domain):
        form = LinearForm(domain, [Kronecker.of(domain, {"x": Prefix(4)})])
        return GapForm(form, np.zeros(4), np.array(self.levels, float), absolute=False)

    def lift(self, raw, facts):
        return tuple(bool(x) for x in ~np.isnan(raw))


def test_several_gaps_of_one_form_are_answered_in_order_until_the_tops_are_used_up():
    session, channel = opened(NumericSparse(60, tops=3))
    assert channel.answer(Steps([300, 800, 800, 2000])) == (True, False, True, False)
    assert session.spent.charges == 1
    with pytest.raises(Closed):
        channel.answer(Steps([0, 0, 0, 0]))


def test_the_error_of_several_gaps_allows_for_all_their_thresholds_and_gaps():
    mechanism = NumericSparse(60, DELTA, tops=50)
    one = mechanism.quote(YES.lower(LINE), Terms(facts(LINE, rows=1000))).accuracy
    four = mechanism.quote(Steps([0] * 4).lower(LINE), Terms(facts(LINE, rows=1000))).accuracy
    joint = four.radii(0.2, joint=True)
    assert joint.shape == (4,)
    watching, of = mechanism.schedule.watching, facts(LINE, rows=1000)
    mean = 2 / watching.query_epsilon - 1 / watching.threshold_epsilon
    for beta in (0.9, 0.2, 0.001):
        for accuracy, gaps in ((one, 1), (four, 4)):
            below = watching.below_in(gaps, beta / 2, of, 50) + mean
            above = watching.above(beta / 2, of, gaps) - mean
            assert accuracy.radii(beta, joint=True)[0] == pytest.approx(max(below, above))
    single = NumericSparse(60, tops=50)
    shared = single.quote(Steps([0] * 4).lower(LINE), Terms(of)).accuracy.radii(0.9, joint=True)
    watching = single.schedule.watching
    mean = 2 / watching.query_epsilon - 1 / watching.threshold_epsilon
    below = watching.below(0.45, of) + mean
    assert shared[0] == pytest.approx(max(below, watching.above(0.45, of, 4) - mean))
    alone = four.radii(0.2, joint=False)
    assert one.radii(0.2, joint=False)[0] <= alone[0] <= joint[0]


def numeric(levels):
    """Several gaps in one form, whose sizes are asked for as well."""
    form = LinearForm(LINE, [Kronecker.of(LINE, {"x": Prefix(4)})])
    return GapForm(form, np.zeros(4), np.array(levels, float), absolute=False, numeric=True)


@pytest.mark.parametrize("delta", [0, DELTA])
@pytest.mark.parametrize("tops", [1, 2, 3, 50])
def test_a_quote_of_several_numbers_covers_all_their_runs(delta, tops):
    mechanism, levels = NumericSparse(60, delta, tops=tops), np.full(4, -(10.0**6))
    levels[min(tops, 4) :] = 10.0**6
    data = PrivateData.from_counts(COUNTS, LINE)
    odometer = Odometer(Budget(10**9, "0.1"), default_composition())
    told = []
    kernel = Kernel(data, odometer, seeded(1), "quoted", lambda e: told.append(e.guarantee))
    quote = mechanism.quote(numeric(levels), Terms(data.facts))
    try:
        mechanism.open(kernel).answer(numeric(levels), kernel)
    except Closed:
        assert tops < 4
    paid, quoted = sum(map(zcdp_rho, told)), sum(map(zcdp_rho, quote.at_most.guarantees))
    assert len(told) == len(quote.at_most.guarantees)
    assert len(told) == (min(tops, 4) if delta else 1) + min(tops, 4)
    assert paid <= quoted <= paid * Fraction(1001, 1000)


@pytest.mark.parametrize("delta", [0, DELTA])
def test_numbers_of_several_gaps_are_bounded_by_their_own_noise(delta):
    mechanism, beta, trials = NumericSparse(4, delta, tops=4), 0.2, 80
    data, source = PrivateData.from_counts(COUNTS, LINE), seeded(6)
    levels = np.array([-(10.0**4), 10.0**4, -(10.0**4), 10.0**4])
    true = np.cumsum(COUNTS) - levels
    failed = np.zeros(2)
    for _ in range(trials):
        odometer = Odometer(Budget(10**9, "0.1"), default_composition())
        kernel = Kernel(data, odometer, source, "numbers")
        answer = mechanism.open(kernel).answer(numeric(levels), kernel)
        above = ~np.isnan(answer.values)
        assert above.tolist() == [True, False, True, False]
        off = np.abs(answer.values - true)[above]
        joint = answer.accuracy.radii(beta, joint=True)
        alone = answer.accuracy.radii(beta, joint=False)
        failed += (off > joint[above]).any(), (off[0] > alone[0])
        # Numbers are off by their own noise, which is not that of the comparisons.
        assert joint[0] != joint[1]
        assert alone[0] < joint[0]
    # They have half of the failures, and use most of them up where there are two numbers for four.
    assert (binom.sf(failed - 1, trials, beta / 2) > 1e-4).all()
    assert (failed > trials * beta / 10).all()


@pytest.mark.parametrize(
    ("given", "parameter"),
    [({"tops": value}, "tops") for value in (0, -1, 1.0, True, "3", None)]
    + [({"numbers": value}, "numbers") for value in ("none", None, 1, ["gap"])],
    ids=str,
)
def test_each_bad_parameter_is_named(given, parameter):
    with pytest.raises(InvalidArgument) as caught:
        NumericSparse(**{"epsilon": 1, "tops": 3, **given})
    assert caught.value.parameter == parameter


@pytest.mark.parametrize("tops", [None, 1, 2, 10, 1000])
def test_the_split_has_the_least_variance_and_wastes_nothing(tops):
    epsilon = Fraction(7, 10)
    watching = split_watch(epsilon, tops)
    count = tops or 1

    def variance(threshold):
        return 1 / threshold**2 + (2 * count / (float(epsilon) - threshold)) ** 2

    assert watching.threshold_epsilon + count * watching.query_epsilon == epsilon
    best = float(watching.threshold_epsilon)
    assert all(variance(best) < variance(best * factor) for factor in (0.97, 1.03))


@pytest.mark.parametrize("rho", ["1e-12", "0.003", "0.5", 3, 700])
def test_a_pure_run_is_as_large_as_its_rho_allows(rho):
    epsilon = split_pure(Fraction(rho))
    from dpsdk.accounting import PureGuarantee

    assert zcdp_rho(PureGuarantee(epsilon)) <= Fraction(rho)
    assert zcdp_rho(PureGuarantee(epsilon * Fraction(1001, 1000))) > Fraction(rho)


@pytest.mark.parametrize("parts", [1, 3, 7, 10**6])
def test_equal_shares_never_exceed_the_whole(parts):
    for total in (Fraction(1), Fraction(1, 7), Fraction(10**-30)):
        assert total * (1 - Fraction(1, 10**8)) < parts * equal_share(total, parts) <= total
