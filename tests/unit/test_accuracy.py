"""What may be said of an error: proven, promised, predicted or nothing, and by which questions."""

import copy
import math
import pickle

import numpy as np
import pytest
from attrs import define, field, frozen

from dpsdk import Budget, Neighbors, Session
from dpsdk.errors import DpsdkError, InvalidArgument, NoBound
from dpsdk.forms import Form, Kronecker, LinearForm, Prefix
from dpsdk.kernel import LaplaceNoise, Terms
from dpsdk.mechanisms import Laplace, OneShot, OnlinePMW
from dpsdk.noise import DiscreteGaussian, DiscreteLaplace, Geometric
from dpsdk.queries import (
    Conjunction,
    Count,
    LinearQuery,
    Marginal,
    Mean,
    Query,
    Sum,
    Threshold,
    Workload,
)
from dpsdk.release import (
    Cost,
    HalfWidths,
    Measurement,
    NoAccuracy,
    NoiseAccuracy,
    PromisedAccuracy,
    Quote,
    ScalarAccuracy,
)
from dpsdk.testing.noise import seeded
from worlds import people, table

ROWS = people(200, 11)


def session(neighbors=Neighbors.REPLACE_ONE, budget=10**6):
    return Session(table(ROWS, neighbors), Budget(budget), noise=seeded(1))


@frozen
class Guess(HalfWidths):
    """Half-widths of four rows, which are no theorem."""

    entries: int
    standing: str = "predicted"
    kind: str = "a model of the noise"

    def radii(self, beta, *, joint):
        return np.full(self.entries, 4.0 if joint else 2.0)


@frozen
class Risk(ScalarAccuracy):
    """An excess risk."""

    standing: str = "proven"
    size: float = 0.25
    span: float = 1.0
    kind: str = "a theorem about convex losses"

    def error(self, beta):
        return self.size / beta * 0.05


@frozen
class Told(OneShot[Form]):
    """Gives every form the same number for each row, with an accuracy of one's choice."""

    make: object
    source: str = "measured"

    def quote(self, form, terms, /):
        return Quote(Cost(), Cost(), self.make(getattr(form, "rows", 1)))

    def open(self, kernel, /):
        return self

    def answer(self, form, kernel, /):
        entries = getattr(form, "rows", 1)
        return Measurement(np.full(entries, 50.0), self.make(entries), self.source)


@frozen
class RiskForm(Form):
    """A form that is not linear."""

    domain: object


@frozen
class Model(Query[str, RiskForm]):
    """A query whose answer is no number."""

    def lower(self, domain, /):
        return RiskForm(domain)

    def lift(self, raw, facts, /):
        return "a model"


@frozen
class Bare(Query[float]):
    """A linear query that says nothing about the unit of its answer: here, per mille."""

    def lower(self, domain, /):
        return Count().lower(domain)

    def lift(self, raw, facts, /):
        return 1000 * float(raw[0]) / facts.rows


QUERIES = [
    Count(),
    Sum("hours"),
    Mean("age"),
    Marginal("sex"),
    Workload([Count(), Mean("age"), Marginal("sex")]),
]


def refused(ask, *parts):
    with pytest.raises(NoBound) as caught:
        ask()
    for part in parts:
        assert part in str(caught.value)
    assert isinstance(caught.value, DpsdkError)
    return caught.value


@pytest.mark.parametrize("query", QUERIES, ids=str)
def test_where_nothing_is_known_every_bound_is_refused_and_told_without_raising(query):
    asked = session()
    mechanism = Told(lambda entries: NoAccuracy("nobody looked", "look"), "fitted")
    release, quote = asked.release(query, using=mechanism), asked.quote(query, using=mechanism)
    for ask in (release.error, release.errors, release.interval):
        error = refused(lambda ask=ask: ask(0.1), str(query), "nobody looked", "; look")
        assert (error.answer, error.why, error.advice) == (str(query), "nobody looked", "look")
    refused(quote.error, "this quote", "nobody looked")
    for bound in (release.bound(0.1), quote.bound(0.1)):
        assert (bound.error, bound.beta, bound.kind) == (math.inf, 0.1, "nobody looked")
        assert (bound.standing, bound.proven, bound.vacuous) == ("none", False, True)
        assert bound.predicted is None
    assert release.source == "fitted"
    assert "no bound at 95% (nobody looked), " in repr(release)
    assert "±" not in repr(release)
    assert "no bound at 95% (nobody looked)" in repr(quote)
    # A mean is answered as it is: that its count could be noise is not known either.
    if isinstance(query, Mean):
        assert release.value == query.lift(np.full(2, 50.0), asked.facts)


@pytest.mark.parametrize("query", QUERIES, ids=str)
def test_a_prediction_is_shown_and_is_never_a_bound(query):
    asked = session()
    release, quote = asked.release(query, using=Told(Guess)), asked.quote(query, using=Told(Guess))
    for ask in (release.error, release.errors, release.interval, quote.error):
        refused(ask, "a prediction is no bound: a model of the noise", "bound(beta).predicted")
    bound = release.bound()
    assert (bound.error, bound.standing, bound.proven) == (math.inf, "predicted", False)
    assert bound.vacuous
    radii = np.full(query.lower(asked.domain).rows, 4.0)
    raw = np.full(len(radii), 50.0)
    hidden = query.coarseness(raw, radii, asked.facts)
    noise = query.spread(raw, radii, asked.facts)
    assert bound.predicted == (noise if hidden is None else noise + hidden).max()
    text = f"{bound.predicted:.4g} predicted, not a bound (a model of the noise)"
    assert text in repr(release)
    assert "±" not in repr(release)
    assert "predicted, not a bound" in repr(quote)
    assert quote.bound().predicted is not None


def test_a_promise_holds_for_all_numbers_from_its_own_probability_up():
    asked = session()
    mechanism = Told(lambda entries: PromisedAccuracy(20.0, 0.1, entries, "a theorem of all"))
    for query in (Count(), Marginal("sex"), Workload([Count(), Marginal("sex")])):
        release, quote = asked.release(query, using=mechanism), asked.quote(query, using=mechanism)
        for beta in (0.1, 0.5):
            assert release.error(beta) == quote.error(beta) == pytest.approx(0.1)
            assert release.errors(beta) == pytest.approx(0.1)
            bound = release.bound(beta)
            assert (bound.standing, bound.proven, bound.vacuous) == ("promised", True, False)
            assert bound.kind == "a theorem of all"
        low, high = release.interval(0.1)
        assert low != high
        for ask in (release.error, release.errors, release.interval, quote.error):
            refused(lambda ask=ask: ask(0.05), "beta=0.05", "ask at a beta of at least 0.1")
        bound = release.bound(0.05)
        assert (bound.error, bound.standing, bound.proven) == (math.inf, "none", False)
        assert "no bound at 95%" in repr(release)
    mean = asked.release(Mean("age"), using=Told(lambda n: PromisedAccuracy(4.0, 0.05, n)))
    # Two raw numbers make a mean, and one event bounds both.
    assert mean.errors(0.05).tolist() == [mean.error(0.05)]
    assert not mean.bound(0.05).vacuous
    assert " at 95%, promised, " in repr(mean)
    for beta in (0, 1, None, "x"):
        with pytest.raises(InvalidArgument, match="beta"):
            PromisedAccuracy(1.0, beta, 1)


def test_an_error_of_the_whole_answer_needs_no_half_widths_and_no_unit():
    asked = session()
    release = asked.release(Model(), using=Told(lambda entries: Risk()))
    quote = asked.quote(Model(), using=Told(lambda entries: Risk()))
    assert release.value == "a model"
    assert release.error() == quote.error() == 0.25
    assert release.error(0.5) == pytest.approx(0.025)
    assert (release.bound().standing, release.bound().vacuous) == ("proven", False)
    for ask in (release.errors, release.interval):
        refused(ask, "of the answer as a whole", "ask error(beta)")
    assert repr(release).startswith("Release('a model' ± 0.25 at 95%, ")
    large = asked.release(Model(), using=Told(lambda entries: Risk(size=3.0)))
    assert large.bound().vacuous
    assert "(vacuous)" in repr(large)
    guess = asked.release(Model(), using=Told(lambda entries: Risk("predicted")))
    assert guess.bound().predicted == 0.25
    refused(guess.error, "a prediction is no bound")
    for size in (math.inf, math.nan):
        none = asked.release(Model(), using=Told(lambda entries, size=size: Risk(size=size)))
        refused(none.error, "none follows at beta=0.05 from a theorem about convex losses")
        assert none.bound().standing == "none"
        guess = Risk("predicted", size=size)
        none = asked.release(Model(), using=Told(lambda entries, guess=guess: guess))
        assert (none.bound().standing, none.bound().predicted) == ("none", None)


def test_half_widths_mean_nothing_for_an_answer_that_does_not_say_its_unit():
    asked = session()
    each = NoiseAccuracy(DiscreteLaplace(3), 1, 1.0, 0.0)
    release = asked.release(Model(), using=Told(lambda entries: each))
    for ask in (release.error, release.errors, release.interval):
        refused(ask, "Model()", "bounded in rows", "LinearQuery")
    assert release.bound().standing == "none"
    assert "no bound" in repr(release)


def test_a_query_with_two_methods_is_answered_and_has_no_bound_in_a_unit_nobody_knows():
    asked, exact = session(), Laplace(10**5)
    share = asked.answer(Count(), using=exact)
    assert asked.answer(Bare(), using=exact) == pytest.approx(1000 * share)
    release, quote = asked.release(Bare(), using=exact), asked.quote(Bare(), using=exact)
    assert release.value == pytest.approx(1000 * share)
    for ask in (release.error, release.errors, release.interval, quote.error):
        refused(ask, "bounded in rows", "LinearQuery")
    assert quote.at_most == release.cost
    with asked.open(OnlinePMW(10, updates=1)) as channel:
        assert 0 <= channel.answer(Bare()) <= 1000


def test_a_workload_keeps_the_bounds_of_the_others_beside_a_query_without_a_unit():
    asked = session()
    for query in (
        Workload([Count(), Bare(), Mean("age")]),
        Workload([Count(), Workload([Bare()])]),
    ):
        release = asked.release(query, using=Laplace(50))
        errors = release.errors()
        assert errors[1] == math.inf
        assert np.isfinite(np.delete(errors, 1)).all()
        assert release.bound().standing == "none"
        for ask in (release.error, release.interval):
            refused(ask, "bounded in rows", "LinearQuery")
        assert release.value.values[0] == release.value[0]
        assert release.value.values[1] == pytest.approx(200 * release.value[0], abs=9)
        assert release == release
        assert "no bound" in repr(asked.quote(query, using=Laplace(50)))
    with pytest.raises(NoBound, match=r"Bare\(\)"):
        asked.release(Workload([Bare()]), using=Laplace(50)).interval()


def test_a_query_of_your_own_gets_bounds_in_its_unit_as_a_linear_query():
    @frozen
    class PerMille(LinearQuery[float]):
        def lower(self, domain, /):
            return Count().lower(domain)

        def lift(self, raw, facts, /):
            return float(raw[0]) * self.scale(facts)

        def scale(self, facts, /):
            return 1000 / facts.rows

    asked, one = session(), Laplace("0.5")
    release, known = asked.release(PerMille(), using=one), asked.release(Count(), using=one)
    for beta in (0.01, 0.5):
        assert release.error(beta) == pytest.approx(1000 * known.error(beta))
        assert release.errors(beta) == pytest.approx(1000 * known.errors(beta))
    low, high = release.interval()
    assert (high - low) / 2 == pytest.approx(release.error())
    workload = asked.release(Workload([PerMille(), Count()]), using=one)
    assert workload.errors()[0] == pytest.approx(1000 * workload.errors()[1])


def test_what_only_linear_queries_need_is_theirs():
    gone = {"scale", "span", "numbers", "spread", "bracket", "width", "settled", "ends"}
    assert not gone & set(dir(Query))
    assert gone | {"footprint"} <= set(dir(LinearQuery))
    for query in (*QUERIES, Threshold("age", 20), Conjunction({"sex": "Male"})):
        assert isinstance(query, LinearQuery)


def test_a_strangers_method_of_the_same_name_is_left_alone():
    @frozen
    class Odd(Query[float]):
        def lower(self, domain, /):
            form = Kronecker.of(domain, {"age": Prefix(domain["age"].size)})
            return LinearForm(domain, [form])

        def lift(self, raw, facts, /):
            return float(raw[-1])

        def settled(self):
            raise AssertionError

        def numbers(self):
            raise AssertionError

        spread = bracket = ends = scale = span = footprint = numbers

    asked = session()
    assert asked.answer(Odd(), using=Laplace(9)) == pytest.approx(180, abs=25)
    answers = asked.answer(Workload([Odd(), Count()]), using=Laplace(9))
    assert len(answers.values) == asked.domain["age"].size + 1


@pytest.mark.parametrize(
    "law",
    [DiscreteLaplace("0.3"), DiscreteLaplace(0), DiscreteGaussian("7.25"), DiscreteGaussian(10**9)],
    ids=str,
)
def test_the_accuracy_of_noise_is_a_value(law):
    accuracy = NoiseAccuracy(law, 3, 0.5, 1.0)
    assert accuracy.law == law
    assert accuracy == NoiseAccuracy(accuracy.law, 3, 0.5, 1.0)
    assert hash(accuracy) == hash(NoiseAccuracy(accuracy.law, 3, 0.5, 1.0))
    assert accuracy != NoiseAccuracy(law, 4, 0.5, 1.0)
    assert (accuracy.standing, accuracy.proven) == ("proven", True)
    for clone in (pickle.loads(pickle.dumps(accuracy)), copy.deepcopy(accuracy)):  # noqa: S301
        assert clone == accuracy


def test_laplace_and_gaussian_noise_of_one_number_are_not_the_same():
    one, other = (NoiseAccuracy(law(4), 1, 1.0, 0.0) for law in (DiscreteLaplace, DiscreteGaussian))
    assert one != other


@pytest.mark.parametrize("law", [Geometric(3), LaplaceNoise(1), None, 3])
def test_noise_of_another_law_is_refused(law):
    with pytest.raises(
        InvalidArgument, match="law must be a DiscreteLaplace, DiscreteGaussian or EuclideanLaplace"
    ):
        NoiseAccuracy(law, 1, 1.0, 0.0)


def test_an_accuracy_that_is_nowhere_a_number_bounds_nothing():
    @define
    class Broken(HalfWidths):
        entries: int
        kind: str = "arithmetic"
        standing: str = field(init=False, default="proven")

        def radii(self, beta, *, joint):
            return np.full(self.entries, np.nan)

    release = session().release(Marginal("sex"), using=Told(Broken))
    for ask in (release.error, release.errors, release.interval):
        refused(ask, "none follows at beta=0.05 from arithmetic")
    assert release.bound().standing == "none"


def test_a_quote_straight_from_a_mechanism_is_in_rows():
    data = session()
    form = Count().lower(data.domain)
    quote = Laplace("0.5").quote(form, Terms(data.facts))
    assert quote.error() == 200 * data.quote(Count(), using=Laplace("0.5")).error()
    assert not quote.bound().vacuous
    assert Told(lambda n: Risk()).quote(form, Terms(data.facts)).error() == 0.25
    refused(
        Told(lambda n: NoAccuracy("why")).quote(form, Terms(data.facts)).error, "why", "bound(beta)"
    )
