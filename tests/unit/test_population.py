"""From a table to its population: what simulated tables say of the three statements."""

import copy
import math
import pickle
from fractions import Fraction

import numpy as np
import pytest

from dpsdk import (
    Binned,
    Budget,
    Categorical,
    Count,
    Discovery,
    Domain,
    Integer,
    Interval,
    Laplace,
    Marginal,
    Mean,
    Median,
    Neighbors,
    PrivacyUnit,
    PrivateData,
    Session,
    Sum,
    Threshold,
    Undeclared,
    Workload,
)
from dpsdk.accounting import (
    AdvancedComposition,
    AnyOf,
    BasicComposition,
    BoundedRangeGuarantee,
    DiscreteGaussianGuarantee,
    EnvelopeComposition,
    MemoryLedger,
    MixedComposition,
    PureGuarantee,
    RenyiComposition,
    ZCDPComposition,
    default_composition,
)
from dpsdk.accounting.filters.divergence import divergence_cap
from dpsdk.accounting.numbers import STEPS
from dpsdk.accounting.prices.envelope import price_of
from dpsdk.errors import InvalidArgument, NoBound
from dpsdk.mechanisms import Gaussian, NoisyHistogram, OnlinePMW, Tree
from dpsdk.queries import CountDistinct, Linear, LinearQuery, Rectangles, StdDev, Variance
from dpsdk.release import PopulationExpectation, PopulationInterval, Transcript
from dpsdk.testing import seeded

ROWS = 500
AGES = np.array([1, 1, 2, 4, 6, 6, 5, 3, 1, 1, 3, 2]) / 35
"""The law of the population: ages 0 to 9, a missing value, and one that is no label."""

PEOPLE = Domain(Integer("age", 0, 9, missing=True))
TEXTS = np.array([*map(str, range(10)), "", "99"])
HOT = {"beta": 0.05, "chosen": "beforehand"}


def session(columns, domain=PEOPLE, budget=None, seed=1, data=None, **more):
    table = PrivateData.from_columns(columns, domain, **(data or {}))
    return Session(table, budget or Budget(1000, "1e-6"), noise=seeded(seed), **more)


def sample(rng, **more):
    columns = {"age": TEXTS[rng.choice(12, ROWS, p=AGES)].tolist()}
    return session(columns, budget=Budget(100), composition=BasicComposition(), **more)


def plain(**more):
    return session({"age": [index % 10 for index in range(ROWS)]}, **more)


KNOWN = AGES[:10] / AGES[:10].sum()
MEAN = float(KNOWN @ np.arange(10))
TRUTHS = {
    Threshold("age", 4): AGES[:5].sum(),
    Interval("age", 3, 5, known=True): KNOWN[3:6].sum(),
    Count(normalized=False): ROWS * AGES[:11].sum(),
    Sum("age"): AGES[:10] @ np.arange(10),
    Mean("age"): MEAN,
    Variance("age"): KNOWN @ (np.arange(10) - MEAN) ** 2,
}


@pytest.mark.thorough(quick=1)
@pytest.mark.parametrize(("tables", "seed"), [(150, 1), (4000, 2)])
def test_an_interval_misses_the_population_no_oftener_than_it_may(tables, seed):
    rng = np.random.default_rng(seed)
    questions = Workload([Threshold("age", 2), Threshold("age", 4), *list(TRUTHS)[1:]])
    truths = np.array([AGES[:3].sum(), *TRUTHS.values()])
    hits, without = 0, 0
    for table in range(tables):
        release = sample(rng, seed=table).release(questions, using=Laplace(50))
        told = release.population(0.3, chosen="beforehand")
        assert (told.low.values <= told.high.values).all()
        hits += bool(np.all((told.low.values <= truths) & (truths <= told.high.values)))
        if table < 50:
            low, high = release.interval(0.3)
            without += bool(np.all((low.values <= truths) & (truths <= high.values)))
    assert hits >= 0.7 * tables
    assert without < 15  # bounds of the table alone are no bounds of the population


def test_one_number_has_the_radius_of_the_theorem():
    release = plain(data={"outside": "raise"}).release(Threshold("age", 4), using=Laplace(1))
    told = release.population(0.05, chosen="beforehand")
    sampling = math.sqrt(math.log(4 / 0.05) / (2 * ROWS))
    assert told.error == pytest.approx(release.error(0.025) + sampling, rel=1e-9)
    assert (told.low, told.high) == pytest.approx(
        (told.value - told.error, told.value + told.error)
    )
    assert told == copy.deepcopy(told) == pickle.loads(pickle.dumps(told))  # noqa: S301  # made here
    assert told.standing.startswith("proven given that the rows are independent draws")
    assert "without sight of this table" in str(told)


def test_a_row_outside_widens_the_range_to_nought():
    domain = Domain(Integer("age", 5, 9))
    radii = []
    for outside in ("raise", "cell"):
        asked = session({"age": [7] * ROWS}, domain, data={"outside": outside})
        release = asked.release(Sum("age"), using=Laplace(1000))
        radii.append(release.population(**HOT).error - release.error(0.025))
    assert radii[1] == pytest.approx(radii[0] * 9 / 4, rel=1e-6)


def test_every_number_of_a_table_shares_the_chance_to_fail():
    release = plain().release(Marginal("age"), using=Laplace(1))
    told = release.population(**HOT)
    sampling = math.sqrt(math.log(4 * 11 / 0.05) / (2 * ROWS))
    assert told.error == pytest.approx(release.error(0.025) + sampling, rel=1e-9)
    assert told.low.attributes == release.value.attributes
    assert release.population(0.3, chosen="beforehand").error < told.error
    assert told == copy.deepcopy(told) != release.population(0.3, chosen="beforehand")
    several = plain().release(Rectangles(["age"], [[0], [2]], [[1], [3]]), using=Laplace(1))
    told = several.population(**HOT)
    assert told == copy.deepcopy(told)


def test_values_in_bins_widen_a_mean_by_what_bins_hide():
    domain = Domain(Binned("age", [0, 4, 8, 10]))
    release = session({"age": [3] * ROWS}, domain).release(Mean("age"), using=Laplace(1000))
    assert release.population(**HOT).error > release.bound(0.05).bins >= 2


CELLS = 400
WIDE = Domain(Integer("cell", 0, CELLS - 1))


def frequent(rng, seed):
    """A question made of the cells that a release shows as frequent: all is sampling error."""
    asked = session(
        {"cell": rng.integers(0, CELLS, ROWS)},
        WIDE,
        Budget(2, "0.01"),
        seed,
        {"outside": "raise"},
        composition=ZCDPComposition(),
    )
    table = asked.answer(Marginal("cell"), using=Gaussian(rho="0.27")).values
    weights = (table > 1 / CELLS).astype(float)
    question = Linear(weights, attributes=["cell"])
    return asked.release(question, using=Gaussian(rho="0.03")), float(weights.mean())


def test_who_chooses_adaptively_keeps_to_the_expectation_and_breaks_the_interval():
    rng = np.random.default_rng(4)
    off, expected, misses = [], [], 0
    for seed in range(40):
        release, truth = frequent(rng, seed)
        told = release.population(chosen="adaptively")
        off.append(abs(release.value - truth))
        expected.append(told.error)
        wrong = release.population(**HOT)  # declared, and not true
        misses += not wrong.low <= truth <= wrong.high
    assert misses > 36
    assert 0.1 < np.mean(off) < np.mean(expected) < 0.45
    assert len(set(expected)) == 1


def test_an_expectation_is_that_of_the_limit_and_not_of_what_was_spent():
    asked = plain(budget=Budget(1, "1e-6"), composition=ZCDPComposition())
    limit = asked.remaining.rho
    release = asked.release(Threshold("age", 3), using=Gaussian(rho="0.0001"))
    told = release.population(chosen="adaptively")
    assert release.payment.divergence == limit
    deviation = 1 / math.sqrt(2 * 0.0001) / ROWS
    sampling = math.sqrt(float(limit) / 2 + math.log(2) / (2 * ROWS))
    assert told.error == pytest.approx(sampling + deviation, rel=1e-3)
    assert not told.vacuous
    assert "in expectation, which is no interval" in str(told)
    assert "for all that the session releases was fixed before" in told.standing
    assert not hasattr(told, "beta")
    assert not hasattr(told, "low")
    again = asked.release(Threshold("age", 3), using=Gaussian(rho="0.0001"))
    assert again.population(chosen="adaptively").error == told.error


def test_a_scope_is_held_to_its_own_cap():
    asked = plain(budget=Budget(1, "1e-6"), composition=ZCDPComposition())
    whole = asked.remaining.rho
    with asked.scope("explore", share="0.1") as scope:
        release = scope.release(Threshold("age", 3), using=Gaussian(rho="0.0001"))
    assert release.payment.divergence == pytest.approx(whole / 10)
    told = release.population(chosen="adaptively")
    assert "all that scope 'explore' releases" in told.standing
    assert told.error < 0.2


def test_limits_bound_what_a_session_tells_by_its_filter():
    budget, pure = Budget(1, "1e-6"), Budget(1)

    def cap(composition, budget=budget):
        return divergence_cap(composition, composition.begin(budget))

    zcdp = cap(ZCDPComposition())
    assert zcdp == ZCDPComposition().largest_rho(ZCDPComposition().begin(budget))
    assert cap(AdvancedComposition(0)) < zcdp
    assert cap(EnvelopeComposition()) > zcdp
    assert cap(BasicComposition(), pure) == Fraction(1, 2)
    assert cap(default_composition(), pure) == Fraction(1, 2)
    assert cap(BasicComposition()) is None  # a claim of (ε, δ) bounds no divergence
    assert cap(RenyiComposition(30)) < 1
    assert cap(MixedComposition()) <= 1
    assert cap(AnyOf((BasicComposition(), ZCDPComposition()))) == zcdp < Fraction(1, 2)

    class Mine(ZCDPComposition):
        pass

    assert cap(Mine()) is None
    # Once a run closed what bounds it best, the next best is left.
    state = default_composition().begin(budget)
    first = divergence_cap(default_composition(), state)
    closed = default_composition().charge(state, PureGuarantee("0.9"))
    assert first < divergence_cap(default_composition(), closed) == Fraction(1, 2)


def test_the_envelope_charges_no_less_than_a_run_tells():
    for epsilon in (0.01, 0.3, 1.0, 2.5, 6.0):
        least = epsilon * math.tanh(epsilon / 2)  # of randomised response, in nats
        for v in (1.01, 2, 8, 100):
            price = price_of(PureGuarantee(epsilon), int(v * 8 * epsilon * epsilon * STEPS))
            assert price[0] / STEPS >= 2 * least * (1 - 1e-12)
        ranged = price_of(BoundedRangeGuarantee(epsilon), int(800 * STEPS))
        assert ranged[0] / STEPS >= epsilon**2 / 4 * (1 - 1e-9)
    gaussian = DiscreteGaussianGuarantee(50, 1, 1)
    assert price_of(gaussian, 10 * STEPS)[0] / STEPS >= 2 * float(gaussian.rho)


HALVES = (np.random.default_rng(7).random((59, 60)) < 0.5).astype(float)


def majority(rng, seed):
    """The vote of half the cells that a stream found too frequent, as its last question."""
    asked = session(
        {"cell": rng.integers(0, 60, ROWS)},
        Domain(Integer("cell", 0, 59)),
        Budget(10_000),
        seed,
        {"outside": "raise"},
    )
    stream = OnlinePMW(9000, updates=25, start="uniform", threshold=0.02, replay=False)
    votes, learnt = np.zeros(60), 0
    with asked.open(stream) as channel:
        for half in HALVES:
            release = channel.release(Linear(half, attributes=["cell"]))
            if release.source == "measured":
                votes += np.sign(release.value - half.mean()) * (half - 0.5)
                learnt += 1
            if learnt == 24:
                break
        last = (votes > 0).astype(float)
        return channel.release(Linear(last, attributes=["cell"])), float(last.mean())


def test_a_majority_of_a_stream_stays_within_the_length_of_its_transcript():
    rng = np.random.default_rng(3)
    stream, misses = Transcript(questions=60, updates=25, answers=ROWS + 1), 0
    for seed in range(5):
        release, truth = majority(rng, seed)
        told = release.population(0.05, chosen=stream)
        assert told.low <= truth <= told.high
        wrong = release.population(**HOT)
        misses += not wrong.low <= truth <= wrong.high
        length = math.log(4 * 60 / 0.05) + stream.length
        expected = release.error(0.025) + math.sqrt(length / (2 * ROWS))
        assert told.error == pytest.approx(expected, rel=1e-9)
    assert misses >= 3
    assert "learnt from at most 25" in told.standing
    with pytest.raises(NoBound, match="may learn 25 times"):
        release.population(chosen=Transcript(60, 24, 501))


@pytest.mark.parametrize("caps", [(1, 1, 1), (7, 3, 5), (12, 12, 2), (40, 5, 501)])
def test_transcripts_are_counted(caps):
    questions, updates, answers = caps
    count = sum(math.comb(questions, done) * answers**done for done in range(updates + 1))
    assert Transcript(*caps).length == pytest.approx(math.log(count), rel=1e-9)
    assert Transcript(*caps).length >= math.log(count)


def test_long_transcripts_take_no_time():
    assert Transcript(1 << 39, 10**5, 10**30).length > 10**6
    for wrong in ((0, 1, 2), (3, 4, 2), (1 << 41, 3, 3), (10, 2, 0), (10, True, 3), (10, 2.5, 3)):
        with pytest.raises(InvalidArgument):
            Transcript(*wrong)
    with pytest.raises(InvalidArgument):
        Transcript(1 << 39, 10**5 + 1, 3)


class Largest(LinearQuery[float]):
    """A question of another author that is no sum."""

    def lower(self, domain):
        return Marginal("age").lower(domain)

    def lift(self, raw, facts):
        return float(raw.max())

    def numbers(self, raw, facts):
        return np.array([raw.max()])

    def spread(self, raw, radii, facts):
        return np.array([radii.max()])


def persons():
    unit = PrivacyUnit("who", max_rows=2)
    columns = {"age": [3, 4, 5, 6], "who": [1, 1, 2, 3]}
    return session(columns, data={"unit": unit, "neighbors": Neighbors.ADD_REMOVE})


COUNTED = Count(normalized=False)
HIDDEN = {"neighbors": Neighbors.ADD_REMOVE, "max_rows": 1000}


@pytest.mark.parametrize(
    ("made", "why"),
    [
        (lambda: plain(data=HIDDEN).release(COUNTED, using=Laplace(1)), "rows is private"),
        (lambda: persons().release(COUNTED, using=Laplace(1)), "one person are not independent"),
        (lambda: plain(data={"unit_rows": 2}).release(COUNTED, using=Laplace(1)), "one person"),
        (lambda: plain().partition("age")[3].release(COUNTED, using=Laplace(1)), "of a part"),
        (lambda: plain().release(Median("age"), using=Tree("age", epsilon=1)), "no sums"),
        (lambda: plain().release(CountDistinct("age"), using=Laplace(1)), "no sums"),
        (lambda: plain().release(Largest(), using=Laplace(1)), "no sums"),
        (lambda: plain().release(Workload([COUNTED, Largest()]), using=Laplace(1)), "no sums"),
    ],
)
@pytest.mark.parametrize("chosen", ["beforehand", "adaptively", Transcript(5, 2, 501)])
def test_what_no_statement_is_about_has_no_bound(made, why, chosen):
    with pytest.raises(NoBound, match=why):
        made().population(chosen=chosen)


def leaked():
    """A session on a ledger on which a discovery has leaked."""
    ledger, budget = MemoryLedger(), Budget(1, "1e-6")
    columns = {"age": [str(index % 10) for index in range(ROWS)]}
    raw = Undeclared.from_columns(columns, unit=None, name="people")
    with Discovery(raw, budget, ledger=ledger, noise=seeded(1)) as discovery:
        discovery.keys("age", rho="0.001")
    return Session(
        PrivateData.from_columns(columns, PEOPLE, name="people"),
        budget,
        ledger=ledger,
        noise=seeded(1),
    )


def reused():
    asked = plain(reuse=True)
    asked.release(COUNTED, using=Laplace(1))
    return asked.release(COUNTED, using=Laplace(1))


NOISY = Laplace("0.01")


@pytest.mark.parametrize(
    ("made", "why"),
    [
        (lambda: leaked().release(COUNTED, using=NOISY), "may have leaked"),
        (reused, "nothing was charged this time"),
        (
            lambda: plain(budget=Budget(1, "1e-6"), composition=BasicComposition()).release(
                COUNTED, using=NOISY
            ),
            "no filter",
        ),
        (lambda: plain().release(Mean("age"), using=NOISY), "not of ratios"),
        (lambda: plain().release(Threshold("age", 3, known=True), using=NOISY), "not of ratios"),
        (lambda: plain().release(StdDev("age"), using=NOISY), "not of ratios"),
        (lambda: plain().release(COUNTED, using=Tree("age", epsilon=1)), "is not known"),
    ],
)
def test_an_expectation_is_refused_with_its_reason(made, why):
    release = made()
    assert isinstance(release.population(chosen="beforehand"), PopulationInterval)
    with pytest.raises(NoBound, match=why):
        release.population(chosen="adaptively")


def test_a_transcript_needs_a_channel_with_a_cap():
    release = plain().release(COUNTED, using=Laplace(1))
    with pytest.raises(NoBound, match="no cap on updates"):
        release.population(chosen=Transcript(5, 2, 501))
    measured = plain().open(OnlinePMW(900, updates=2, threshold=0.9)).release(Threshold("age", 3))
    with pytest.raises(NoBound, match="begun with something that was measured"):
        measured.population(chosen=Transcript(5, 2, 501))
    stream = OnlinePMW(900, updates=10, start="uniform", threshold=0.001)
    table = plain().open(stream).release(Marginal("age"))
    with pytest.raises(NoBound, match="it has 11 numbers, and 10 were declared"):
        table.population(chosen=Transcript(10, 10, 501))


def test_an_unchecked_answer_has_no_bound_here_either():
    channel = plain().open(OnlinePMW(900, updates=1, start="uniform", threshold=0.001))
    channel.answer(Threshold("age", 5))
    release = channel.release(Interval("age", 5, 7))
    with pytest.raises(NoBound, match="unchecked"):
        release.population(chosen=Transcript(5, 1, 501))


def test_arguments_are_read():
    release = plain().release(COUNTED, using=Laplace(1))
    with pytest.raises(InvalidArgument, match="an expectation has none"):
        release.population(0.05, chosen="adaptively")
    for wrong in ("iid", None, 3, Transcript):
        with pytest.raises(InvalidArgument, match="chosen"):
            release.population(chosen=wrong)
    with pytest.raises(InvalidArgument, match="beta"):
        release.population(1.5, chosen="beforehand")
    with pytest.raises(TypeError):
        release.population(0.05)


def test_nothing_is_charged():
    asked = plain(budget=Budget(1))
    release = asked.release(COUNTED, using=Laplace("0.5"))
    spent = asked.spent
    release.population(chosen="beforehand")
    assert isinstance(release.population(chosen="adaptively"), PopulationExpectation)
    assert asked.spent == spent


def test_a_vacuous_statement_is_said_to_be_so():
    release = session({"age": [3, 4]}).release(Threshold("age", 3), using=Laplace(1))
    assert release.population(chosen="beforehand").vacuous
    assert release.population(chosen="adaptively").vacuous
    assert "(vacuous)" in str(release.population(chosen="beforehand"))


def test_a_histogram_that_is_fitted_has_an_interval():
    asked = session({"sex": ["F", "M"] * 250}, Domain(Categorical("sex", ["F", "M"])))
    release = asked.release(Marginal("sex"), using=NoisyHistogram(epsilon=1))
    assert release.population(chosen="beforehand").error > release.error(0.05)
