"""MWEM: what it costs, what it promises, how it learns, and how it is stopped."""

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from attrs import evolve, frozen

from dpsdk import (
    Boolean,
    Budget,
    DistributionChannel,
    Domain,
    Integer,
    Neighbors,
    PrivateData,
    Session,
    Stopped,
)
from dpsdk.accounting import BasicComposition, BoundedRangeGuarantee, ZCDPComposition
from dpsdk.accounting.declared.calibration import fits_all
from dpsdk.errors import (
    BudgetExceeded,
    InvalidArgument,
    NoBound,
    QueryError,
)
from dpsdk.forms import Kronecker, LinearForm, Toeplitz, Weights
from dpsdk.hypothesis import DenseHypothesis
from dpsdk.kernel import LaplaceNoise, Measure, Terms
from dpsdk.learning import EntropicFit
from dpsdk.mechanisms import MWEM, OfflinePMW
from dpsdk.mechanisms.mwem.learners import OneByOne
from dpsdk.mechanisms.mwem.plan import Plan, _bound
from dpsdk.queries import (
    Conjunction,
    Count,
    CountingQuery,
    Linear,
    Marginal,
    Threshold,
    Workload,
    marginals,
)
from dpsdk.testing import seeded
from worlds import facts

pytestmark = pytest.mark.thorough

DOMAIN = Domain(Integer("a", 0, 3), Boolean("b"), Integer("c", 0, 4))
PAIRS = marginals(DOMAIN, 2, normalized=False)
LINE = Workload(Threshold("c", t, normalized=False) for t in range(5))


def counts(rows=20_000, seed=5):
    weights = np.random.default_rng(seed).random(DOMAIN.shape) ** 3
    return np.round(rows * weights / weights.sum()).astype(np.int64)


TABLE = counts()
ROWS = int(TABLE.sum())
TRUE = np.concatenate(
    [
        TABLE.sum(axis=tuple(a for a in range(3) if a not in kept)).reshape(-1)
        for kept in itertools.combinations(range(3), 2)
    ]
)


def session(budget=None, neighbors=Neighbors.REPLACE_ONE, **given):
    data = PrivateData.from_counts(TABLE, DOMAIN, neighbors=neighbors, max_rows=10**6)
    budget = budget or Budget(10, "1e-6")
    return Session(data, budget, noise=seeded(9), **given)


def errors(channel, workload=PAIRS, true=TRUE):
    return np.abs(channel.answer(workload).values - true)


@pytest.mark.parametrize(
    "given",
    [
        {"epsilon": 2},
        {"epsilon": 1, "delta": "1e-6"},
        {"rho": "0.05"},
        {"epsilon": 1, "delta": "1e-6", "average": True},
        {"epsilon": 1, "delta": "1e-6", "rounds": 3},
    ],
)
@pytest.mark.parametrize("neighbors", Neighbors)
def test_it_learns_a_workload_and_costs_no_more_than_it_says(given, neighbors):
    opened = session(neighbors=neighbors)
    channel = opened.open(MWEM(PAIRS, **given))
    assert isinstance(channel, DistributionChannel)
    uniform = np.abs(np.concatenate([np.full(8, 1 / 8), np.full(20, 1 / 20), np.full(10, 0.1)]))
    assert errors(channel).mean() < np.abs(uniform * ROWS - TRUE).mean() / 4
    release = channel.release(PAIRS)
    assert release.source == "fitted"
    assert release.cost.nothing
    with pytest.raises(NoBound):
        release.error(0.05)
    # Beside the workload, too.
    assert channel.answer(Conjunction({"a": 0}, normalized=False)) == pytest.approx(
        TABLE[0].sum(), rel=0.1
    )


@pytest.mark.parametrize("composition", [None, BasicComposition(), ZCDPComposition()])
@pytest.mark.parametrize(
    "make",
    [
        lambda: MWEM(PAIRS, epsilon=1, delta="1e-6"),
        lambda: MWEM(PAIRS, epsilon=1, delta="1e-6", rounds=11),
        lambda: MWEM.averaged(LINE, 1, "1e-6", rounds=30),
        lambda: MWEM(PAIRS, epsilon=1),
        lambda: MWEM.textbook(LINE, 1, rounds=7),
        lambda: MWEM.averaged(LINE, 1, rounds=7),
    ],
)
def test_a_session_of_just_the_total_admits_all_of_it(composition, make):
    mechanism = make()
    if isinstance(composition, BasicComposition) and mechanism.delta:
        return  # Gaussian noise has no pure price
    budget = Budget(1, "1e-6")
    if isinstance(composition, ZCDPComposition) and not mechanism.delta:
        budget = Budget(10, "1e-6")
    opened = session(budget, composition=composition)
    channel = opened.open(mechanism)
    rounds = mechanism.plan(Terms(opened.facts)).rounds
    assert len(channel._strategy.chosen) == rounds
    quote = opened.quote(PAIRS, using=mechanism)
    assert quote.at_open == quote.at_most
    assert opened.spent.charges == len(quote.at_most.guarantees)


def test_pure_runs_add_up_to_epsilon():
    for mechanism in (
        MWEM(PAIRS, epsilon=2, rounds=5),
        MWEM.textbook(LINE, 2, rounds=5),
        MWEM.averaged(LINE, 2, rounds=5),
    ):
        opened = session(Budget(2), composition=BasicComposition())
        opened.open(mechanism)
        assert opened.spent.epsilon == 2
        with pytest.raises(BudgetExceeded):
            opened.open(MWEM(PAIRS, epsilon="1e-6", rounds=1))


def test_what_is_quoted_of_rho_is_what_is_asked_for():
    opened = session(composition=ZCDPComposition())
    mechanism = MWEM(PAIRS, rho="0.02", rounds=6)
    runs = opened.quote(PAIRS, using=mechanism).at_most.guarantees
    total = sum(r.eta**2 / 8 if type(r) is BoundedRangeGuarantee else r.rho for r in runs)
    assert total <= Fraction(2, 100)
    opened.open(mechanism)
    assert opened.spent.rho <= total
    assert float(total) == pytest.approx(float(opened.spent.rho), rel=1e-3)
    assert float(total) == pytest.approx(0.02, rel=1e-3)
    assert sum(type(run) is BoundedRangeGuarantee and not run.free for run in runs) == 6
    mixed = Workload([Marginal("a", normalized=False), Threshold("c", 2, normalized=False)])
    mechanism = MWEM(mixed, rho="0.02", rounds=6)
    before = opened.spent.rho
    quoted = opened.quote(mixed, using=mechanism).at_most.guarantees
    opened.open(mechanism)
    total = sum(r.eta**2 / 8 if type(r) is BoundedRangeGuarantee else r.rho for r in quoted)
    assert opened.spent.rho - before <= total


@pytest.mark.parametrize("workload", [PAIRS, LINE], ids=["tables", "thresholds"])
@pytest.mark.parametrize("delta", ["1e-9", "1e-3"])
def test_a_plan_uses_all_of_a_total(workload, delta):
    opened = session()
    terms, mechanism = Terms(opened.facts), MWEM(workload, epsilon=1, delta=delta, rounds=12)
    plan, quote = mechanism.plan(terms), opened.quote(workload, using=mechanism)
    start = terms.composition.begin(Budget(1, delta))
    assert fits_all(terms.composition, start, quote.at_most.guarantees)
    # What is charged is what was quoted, to the digit, and nothing is set aside for other lattices.
    assert {run.rho for run in quote.at_most.guarantees[2::2]} == {plan.noise.rho}
    more = [
        evolve(run, eta=run.eta * (1 + Fraction(1, 10**6)))
        if isinstance(run, BoundedRangeGuarantee)
        else evolve(run, variance=run.variance * (1 - Fraction(1, 10**6)))
        for run in quote.at_most.guarantees
    ]
    assert not fits_all(terms.composition, start, more)
    opened.open(mechanism)
    paid = [run for receipt in opened.history for run in receipt.cost.guarantees if not run.free]
    assert len(paid) <= len(quote.at_most.guarantees)
    assert set(paid) <= set(quote.at_most.guarantees)


def test_the_same_seed_learns_the_same():
    one, other = (session().open(MWEM(PAIRS, epsilon=1, delta="1e-6")) for _ in "ab")
    assert one.answer(PAIRS).values.tolist() == other.answer(PAIRS).values.tolist()


def test_a_workload_of_single_functions_and_weights_is_learnt():
    workload = Workload(
        [
            *[Threshold("c", t, normalized=False) for t in range(5)],
            Linear(lambda r: r["a"] / 3, normalized=False),
            Count(normalized=False),
        ]
    )
    opened = session()
    channel = opened.open(MWEM(workload, epsilon=2, delta="1e-6"))
    true = [*np.cumsum(TABLE.sum(axis=(0, 1))), float(np.arange(4) @ TABLE.sum(axis=(1, 2))) / 3]
    assert errors(channel, workload, np.array([*true, ROWS])).max() < ROWS / 50


def test_a_table_of_few_rows_is_not_answered_worse_than_by_the_uniform_distribution():
    domain = Domain(*(Boolean(f"x{place}") for place in range(6)))
    table = np.random.default_rng(6).multinomial(70, np.full(64, 1 / 64)).reshape(domain.shape)
    table[0] //= 3
    workload = marginals(domain, 3, normalized=False)
    true = DenseHypothesis.from_weights(domain, table.astype(float)).answers(workload.lower(domain))
    found = []
    for seed in range(6):
        opened = Session(PrivateData.from_counts(table, domain), Budget("0.1"), noise=seeded(seed))
        with opened.open(MWEM(workload, epsilon="0.1")) as channel:
            answers = channel.distribution.answers(workload.lower(domain))
            found.append(np.abs(answers - true))
    assert np.mean([each.max() for each in found]) <= 1.1 * np.abs(1 / 8 - true).max()
    assert np.mean(found) <= 1.1 * np.abs(1 / 8 - true).mean()


def test_thousands_of_single_functions_are_learnt_in_passes_and_not_in_squares(monkeypatch):
    priced = []
    monkeypatch.setattr(
        "dpsdk.mechanisms.mwem.learners.Measure.price",
        lambda asked, terms, price=Measure.price: priced.append(asked) or price(asked, terms),
    )
    workload = Workload(
        Conjunction({"a": a % 4, "c": range(a % 3, 5)}, normalized=False) for a in range(3000)
    )
    opened = session()
    channel = opened.open(MWEM(workload, epsilon=2, delta="1e-6", rounds=2))
    assert len(channel._strategy.chosen) == 2
    # Twice for each step of the search for what fits, and not for each function.
    assert len(priced) < 200


@pytest.mark.parametrize(
    ("parameter", "make"),
    [
        ("epsilon", lambda: MWEM(PAIRS, epsilon="1e-40")),
        ("rho", lambda: MWEM(PAIRS, rho="1e-40")),
        ("epsilon", lambda: MWEM.textbook(LINE, "1e-40")),
        ("epsilon", lambda: MWEM.averaged(LINE, "1e-90")),
        ("epsilon", lambda: OfflinePMW(LINE, epsilon="1e-40")),
    ],
)
def test_a_total_too_small_to_be_shared_is_refused_in_its_words(parameter, make):
    opened = session()
    with pytest.raises(InvalidArgument, match="larger") as caught:
        opened.open(make())
    assert caught.value.parameter == parameter
    assert opened.spent.charges == 0


def test_scores_that_cannot_be_summed_are_refused_before_anything_is_paid():
    line = Domain(Integer("x", 0, 2**18 - 1))
    data = PrivateData.from_columns(
        {"x": [1, 2]}, line, neighbors=Neighbors.ADD_REMOVE, max_rows=2**44
    )
    opened = Session(data, Budget(10), noise=seeded(1))
    with pytest.raises(InvalidArgument, match="gaps"):
        opened.open(MWEM(Marginal("x", normalized=False), epsilon=1, rounds=1))
    assert opened.spent.charges == 0


@pytest.mark.parametrize(
    "make",
    [
        lambda: MWEM(PAIRS, epsilon=1, rounds=0),
        lambda: MWEM(PAIRS, epsilon=1, rounds=10**5),
        lambda: MWEM(PAIRS, epsilon=1, rounds=2.5),
        lambda: MWEM(PAIRS, epsilon=1, steps=0),
        lambda: MWEM("pairs", epsilon=1),
        lambda: MWEM(Marginal, epsilon=1),
        lambda: MWEM.textbook(PAIRS, 1, beta=1),
    ],
)
def test_what_is_no_mechanism_is_refused(make):
    with pytest.raises(InvalidArgument):
        make()


# What is promised.


@pytest.mark.parametrize(
    "make", [lambda e: MWEM.textbook(LINE, e), lambda e: MWEM.averaged(LINE, e, rounds=200)]
)
@pytest.mark.parametrize(
    ("unit_rows", "seeds"),
    [(1, [1]), *(pytest.param(n, [0, 1], marks=pytest.mark.audit) for n in (1, 2))],
)
def test_the_promise_holds_and_is_about_the_workload_alone(make, unit_rows, seeds):
    many = PrivateData.from_counts(TABLE * 50, DOMAIN, unit_rows=unit_rows)
    mechanism = make(2)
    promise = mechanism.plan(Terms(many.facts))
    assert 0 < promise.error < many.facts.rows
    for seed in seeds:
        opened = Session(many, Budget(2), noise=seeded(seed))
        channel = opened.open(mechanism)
        release = channel.release(LINE)
        true = np.cumsum(TABLE.sum(axis=(0, 1))) * 50
        assert np.abs(release.value.values - true).max() <= release.error(0.05)
        assert release.error(0.05) == promise.error
        assert release.bound(0.05).standing == "promised"
        assert channel.release(Threshold("c", 2, normalized=False)).error(0.1) == promise.error
        with pytest.raises(NoBound):
            release.error(0.01)
        with pytest.raises(NoBound):
            channel.release(Marginal("a", normalized=False)).error(0.05)
    assert opened.quote(LINE, using=mechanism).error(0.05) == promise.error


@pytest.mark.parametrize("make", [MWEM.textbook, OfflinePMW])
def test_what_nobody_could_write_down_is_answered_and_not_promised(make):
    """Lines of so many cells that functions cannot be told by their weights."""
    domain = Domain(Integer("x", 0, 2**13 - 1))
    data = PrivateData.from_counts(np.ones(2**13, dtype=np.int64), domain)
    line = Line(2**13)
    for workload, asked in ((Threshold("x", 9), line), (line, line), (line, Threshold("x", 9))):
        opened = Session(data, Budget(10), noise=seeded(1))
        mechanism = make(workload, epsilon=1)
        assert opened.quote(asked, using=mechanism).accuracy.standing == "none"
        with opened.open(mechanism) as channel:
            release = channel.release(asked)
        with pytest.raises(NoBound):
            release.error(0.1)


@frozen
class Line(CountingQuery[np.ndarray]):
    """All thresholds, as weights by distance."""

    size: int
    normalized: bool = True

    def lower(self, domain):
        return LinearForm(domain, [Kronecker(("x",), (Toeplitz(np.ones(self.size)),))])

    def lift(self, raw, facts):
        return raw * self.scale(facts)


def test_the_promise_is_the_sum_of_its_parts():
    known = facts(DOMAIN, rows=10**6)
    terms = Terms(known)
    plan = MWEM.textbook(LINE, 1, rounds=50, beta=0.1).plan(terms)
    assert plan.choice == Fraction(1, 100)
    assert plan.noise == LaplaceNoise("0.01")
    # EM by constant 2 and all k T options, numbers by their tail, and the potential argument.
    choice = 2 * 100 * math.log(2 * 5 * 50 / 0.1)
    number = 100 * math.log(2 * 50 / 0.1)
    exact = choice + math.hypot(1e6 * math.sqrt(4 * math.log(41) / 50), number)
    assert plan.error == pytest.approx(exact, rel=1e-3)
    plan = MWEM.averaged(LINE, rho="0.01", rounds=64, beta=0.1).plan(terms)
    assert float(plan.choice) == pytest.approx(math.sqrt(8 * 0.01 / 64))
    assert plan.noise is None
    choice = 2 / float(plan.choice) * math.log(2 * 5 * 64 / 0.1)
    exact = choice + 1e6 * math.sqrt(math.log(41) / (2 * 64))
    assert plan.error == pytest.approx(exact, rel=1e-3)


def test_rounds_make_the_promise_the_smallest():
    known = facts(DOMAIN, rows=10**6)
    for make in (MWEM.textbook, MWEM.averaged):
        best = make(LINE, 1).plan(Terms(known))
        for factor in (0.5, 0.8, 1.25, 2):
            other = make(LINE, 1, rounds=max(1, round(best.rounds * factor)))
            assert other.plan(Terms(known)).error >= best.error * 0.999


def test_the_formula_for_rounds_has_no_square_root_of_the_rows():
    # m = 2^10, n = 10^5, k = 1000, C = 5: what is printed gives 139 rounds and a bound of .48.
    rho = 1 / (8 * 5**2)
    total = type("Total", (), {"rho": rho, "delta": 0, "epsilon": None})
    potential = 10 * math.log(2)

    def bound(rounds):
        return _bound("averaged", total, rounds, 1000, potential, 1e5, 0.05)

    sharp = min(range(1, 5000), key=bound)
    wanted = sharp
    for _ in range(50):
        wanted = 1e5 * math.sqrt(potential / 2) / (2 * 5 * math.log(2 * 1000 * wanted / 0.05))
    assert sharp == pytest.approx(wanted, rel=0.1)
    assert bound(139) > 1.4 * bound(sharp)


# How single functions are learnt.


class Scripted:
    """Chooses and measures as it is told."""

    def __init__(self, chosen, values):
        self.chosen, self.values, self.asked = iter(chosen), iter(values), []

    def select(self, gaps, epsilon, /, *, opposites=False, **given):
        self.asked.append((gaps, epsilon, opposites))
        return next(self.chosen)

    def measure(self, form, noise, /):
        from dpsdk.kernel.measure import Measurement

        priced = Measure(form, noise).price(Terms(facts(DOMAIN)))
        return Measurement(np.array([next(self.values)]), priced.accuracy)


def test_the_printed_step_uses_the_distribution_before_it_and_a_clamped_number():
    form = Workload([Threshold("c", 1, normalized=False)]).lower(DOMAIN)
    known = facts(DOMAIN, rows=1000, outside=False)
    plan = Plan("textbook", 2, Fraction(1, 4), LaplaceNoise("0.25"))
    learner = OneByOne(form, plan, known)
    kernel = Scripted([0, 0], [5000.0, -50.0])
    learner.round(kernel)
    learner.round(kernel)
    uniform = DenseHypothesis.uniform(DOMAIN)
    assert uniform.answer(form) == pytest.approx(0.4)
    moved = uniform.copy()
    moved.shift(form, (1.0 - 0.4) / 2)
    got = learner._state.hypothesis.copy()
    again = moved.copy()
    again.shift(form, (0.0 - moved.answer(form)) / 2)
    assert got.answer(form) == pytest.approx(again.answer(form), rel=1e-12)
    # The average omits what came last.
    average = learner.strategy(finished=True).distribution
    assert average.answer(form) == pytest.approx((0.4 + moved.answer(form)) / 2, rel=1e-12)
    gaps, epsilon, opposites = kernel.asked[1]
    assert gaps.rates.tolist() == pytest.approx([moved.answer(form)])
    assert (epsilon, opposites, gaps.absolute) == (Fraction(1, 4), False, True)


def test_choices_alone_move_towards_what_was_too_low():
    form = LINE.lower(DOMAIN)
    known = facts(DOMAIN, rows=1000, outside=False)
    plan = Plan("averaged", 8, Fraction(1, 4), None)
    for chosen, place, sign in ((1, 1, 1), (5 + 1, 1, -1)):
        learner = OneByOne(form, plan, known)
        kernel = Scripted([chosen], [])
        learner.round(kernel)
        moved = DenseHypothesis.uniform(DOMAIN)
        moved.shift(form.row(place), sign * math.sqrt(8 * math.log(40) / 8))
        assert learner._state.hypothesis.answers(form) == pytest.approx(moved.answers(form))
        assert kernel.asked[0][2]
        assert learner._state.chosen == (chosen,)


def test_choices_are_by_rows_and_not_by_shares():
    # In shares, whole rows would count as n-ths, and every option be as likely as any other.
    asked = session(Budget(100), composition=BasicComposition())
    plan = MWEM.averaged(LINE, 100, rounds=10).plan(Terms(asked.facts))
    channel = asked.open(MWEM.averaged(LINE, 100, rounds=10))
    assert plan.choice == 10
    gaps = np.abs(np.cumsum(TABLE.sum(axis=(0, 1))) / ROWS - np.arange(1, 6) * 8 / 41)
    assert channel._strategy.chosen[0] % 5 == int(np.argmax(gaps))


def test_functions_of_a_wider_range_than_from_minus_one_to_one_are_refused():
    form = LinearForm(DOMAIN, [Kronecker.of(DOMAIN, {"b": Weights([[-1.5, 1.0]])})])

    class Signed:
        def lower(self, domain):
            return form

    opened = session()
    for mechanism in (MWEM(Signed(), epsilon=1), MWEM.textbook(Signed(), 1)):
        with pytest.raises(QueryError, match="from -1 to 1"):
            opened.open(mechanism)
    assert opened.spent.charges == 0


# Stopping.


def test_a_stop_keeps_what_was_learnt():
    opened = session()
    told = []

    def stop(progress):
        told.append((progress.done, progress.total, progress.unit))
        return progress.done == 3

    with pytest.raises(Stopped) as caught:
        opened.open(MWEM(PAIRS, epsilon=1, delta="1e-6", rounds=9), stop=stop)
    stopped = caught.value
    assert told == [(done, 9, "rounds") for done in range(4)]
    assert stopped.why == "stop"
    assert opened.spent.charges == 1 + 2 * 3 == len(stopped.paid.guarantees)
    assert sum(type(run) is BoundedRangeGuarantee for run in stopped.paid.guarantees) == 3
    assert len(stopped.channel._strategy.chosen) == 3
    assert errors(stopped.channel).mean() < ROWS / 50
    assert opened.spent.charges == 7
    assert opened.history[0].cost == stopped.paid
    stopped.channel.close()


def test_a_stop_before_anything_was_paid_costs_nothing():
    opened = session()
    with pytest.raises(Stopped) as caught:
        opened.open(MWEM.textbook(LINE, 1, rounds=9), stop=lambda progress: True)
    assert caught.value.paid.nothing
    assert opened.history == ()
    assert caught.value.channel.answer(Count(normalized=False)) == pytest.approx(ROWS * 40 / 41)


def test_what_a_stopped_opening_answers_is_not_promised():
    opened = session()
    with pytest.raises(Stopped) as caught:
        opened.open(MWEM.textbook(LINE, 1, rounds=9), stop=lambda progress: progress.done == 8)
    with pytest.raises(NoBound):
        caught.value.channel.release(LINE).error(0.05)


def test_an_interrupt_keeps_what_was_learnt():
    opened = session()

    def stop(progress):
        if progress.done == 2:
            raise KeyboardInterrupt

    with pytest.raises(Stopped) as caught:
        opened.open(MWEM(PAIRS, epsilon=1, delta="1e-6", rounds=9), stop=stop)
    assert caught.value.why == "interrupt"
    assert len(caught.value.channel._strategy.chosen) == 2

    def at_once(progress):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        session().open(MWEM(PAIRS, epsilon=1, rounds=9), stop=at_once)


def test_an_interrupt_while_the_start_is_fitted_keeps_what_was_paid(monkeypatch):
    def interrupted(fit, steps):
        raise KeyboardInterrupt

    monkeypatch.setattr(EntropicFit, "run", interrupted)
    opened = session()
    with pytest.raises(Stopped) as caught:
        opened.open(MWEM(PAIRS, epsilon=1, rounds=9))
    assert caught.value.why == "interrupt"
    assert len(caught.value.paid.guarantees) == opened.spent.charges == 1
    assert errors(caught.value.channel).max() < ROWS


def test_a_budget_that_others_used_up_keeps_what_was_learnt():
    opened = session(Budget(1), composition=BasicComposition())
    with pytest.raises(Stopped) as caught:
        opened.open(MWEM(PAIRS, epsilon=2, rounds=10))
    assert caught.value.why == "budget"
    assert opened.spent.epsilon <= 1
    assert 0 < len(caught.value.channel._strategy.chosen) < 10
    assert errors(caught.value.channel).mean() < ROWS / 50
    with pytest.raises(BudgetExceeded):
        session(Budget("0.1"), composition=BasicComposition()).open(MWEM(PAIRS, epsilon=2))


def test_a_budget_that_a_stop_runs_out_of_is_not_that_of_the_opening():
    opened = session(Budget(1), composition=BasicComposition())

    def stop(progress):
        if progress.done == 2:
            opened.open(MWEM(PAIRS, epsilon=10**3, rounds=1))

    with pytest.raises(BudgetExceeded):
        opened.open(MWEM(PAIRS, epsilon="0.5", rounds=4), stop=stop)
    assert opened.spent.charges == 1 + 2 * 2


def test_what_a_stop_raises_reaches_the_caller():
    def stop(progress):
        raise ValueError("mine")

    with pytest.raises(ValueError, match="mine"):
        session().open(MWEM(PAIRS, epsilon=1), stop=stop)
    with pytest.raises(InvalidArgument, match="stop"):
        session().open(MWEM(PAIRS, epsilon=1), stop=3)


def test_progress_is_told_to_the_observer():
    events = []
    opened = session(observer=events.append)
    opened.open(MWEM(PAIRS, epsilon=1, rounds=4))
    told = [event.done for event in events if type(event).__name__ == "Progress"]
    assert told == [0, 1, 2, 3, 4]
