"""What all mechanisms keep: totals, texts, and what stands beside the class of each."""

import inspect
import json
import math
from decimal import Decimal
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

import dpsdk
from dpsdk import Budget, Neighbors, Session, wire
from dpsdk.accounting import BasicComposition, gdp_start, pure_epsilon, zcdp_rho, zcdp_start
from dpsdk.errors import BudgetExceeded, InvalidArgument, QueryError
from dpsdk.hypothesis import DenseHypothesis, Pairs
from dpsdk.kernel import Terms
from dpsdk.mechanisms import (
    BUILT_IN,
    ConvexPMW,
    Corrected,
    Gaussian,
    Laplace,
    LocalMarginals,
    MeasuresOnce,
    Mechanism,
    Moments,
    NoisyDescent,
    NumericSparse,
    OneRun,
    OneShot,
    OnlinePMW,
    Parts,
    PrivateMinimizer,
    ResidualPlanner,
    Sketch,
    SmallDB,
    SufficientStatistics,
)  # fmt: skip
from dpsdk.queries import Above, Count, Marginal, Threshold, Workload
from dpsdk.session.identity import BEST, Place, question_of
from dpsdk.testing import seeded
from samples import MODELS, samples
from worlds import PEOPLE, facts, people, table

DOCS = Path(__file__).parents[3] / "docs"
ASKED = Workload(Threshold("age", t) for t in (18, 20))
ALL = samples(ASKED, "age")
ONCE = [one for one in ALL if isinstance(one, MeasuresOnce)]
STREAMS = [one for one in ALL if not isinstance(one, MeasuresOnce | OneShot)]


def session_of():
    return Session(table(people(60, 1)), Budget(10**7, "0.1"), noise=seeded(3))


TAKES = {type(one): inspect.signature(type(one)).parameters for one in ALL}
NO_TOTAL = [
    {}, {"epsilon": 1, "rho": 1}, {"delta": "1e-6"}, {"rho": 1, "delta": "1e-6"},
    {"rho": 1, "epsilon": 1, "delta": "1e-6"},
]  # fmt: skip
NO_NUMBERS = [0, -1, math.nan, math.inf, "x", True, [1]]


def given_to(kind, **total):
    """What a sample of a mechanism is made of, but for its total."""
    known = {
        "workload": ASKED, "attribute": "age", "problem": MODELS, "alpha": 0.9, "beta": 0.1,
        "queries": 10, "tops": 2, "updates": 3,
    }  # fmt: skip
    needed = [name for name, one in TAKES[kind].items() if one.default is one.empty]
    if kind in (OnlinePMW, ConvexPMW):
        needed.append("updates")
    return {name: known[name] for name in needed if name in known and name not in total} | total


@pytest.mark.parametrize("total", NO_TOTAL, ids=str)
@pytest.mark.parametrize("kind", [one for one in TAKES if "rho" in TAKES[one]])
def test_a_total_is_given_in_one_way(kind, total):
    with pytest.raises(InvalidArgument) as caught:
        kind(**given_to(kind, **total))
    assert caught.value.parameter == kind.__name__


@pytest.mark.parametrize("kind", [one for one in TAKES if one is not Parts])
def test_amounts_are_positive_numbers(kind):
    """A δ is below 1, and may be none at all."""
    approximate = {"epsilon": 1} | ({"delta": "1e-6"} if "delta" in TAKES[kind] else {})
    wrong = [approximate | {"epsilon": value} for value in NO_NUMBERS]
    if "rho" in TAKES[kind]:
        wrong += [{"rho": value} for value in NO_NUMBERS]
    if "delta" in TAKES[kind]:
        wrong += [{"epsilon": 1, "delta": value} for value in (-1, 1, 2, math.nan, "x", True, [1])]
    for total in wrong:
        with pytest.raises(InvalidArgument) as caught:
            kind(**given_to(kind, **total))
        assert caught.value.parameter in total, total


@pytest.mark.parametrize("kind", [Gaussian, LocalMarginals, ResidualPlanner])
def test_what_is_gaussian_alone_needs_a_delta(kind):
    for delta in ({}, {"delta": 0}):
        with pytest.raises(InvalidArgument) as caught:
            kind(**given_to(kind, epsilon=1, **delta))
        assert caught.value.parameter in ("delta", kind.__name__)
        assert kind is Gaussian or "Gaussian" in str(caught.value)


@pytest.mark.parametrize(
    "mechanism",
    [
        Laplace("0.1"), Gaussian(rho="0.005"), Gaussian(epsilon=1, delta=1e-6),
        NumericSparse(1, tops=3), NumericSparse("0.5", "1e-6", tops=1),
        NumericSparse(2, tops=2, numbers="gap"), OnlinePMW(1, updates=3),
        OnlinePMW(0.5, 1e-7, updates=50, threshold=0.01),
        OnlinePMW(1, alpha=0.2, beta=0.05, queries=9),
        OnlinePMW.textbook(1, alpha=0.2, beta=0.05, queries=9),
    ],
    ids=repr,
)  # fmt: skip
def test_what_is_written_is_read_back_as_the_same(mechanism):
    again = eval(repr(mechanism))  # noqa: S307
    assert again == mechanism
    assert hash(again) == hash(mechanism)
    assert mechanism.name == repr(mechanism) == str(mechanism)
    assert isinstance(mechanism, Mechanism)
    with pytest.raises(AttributeError):
        mechanism.epsilon = 5


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (SmallDB(ASKED, epsilon=1), "SmallDB(Workload of 2 queries, epsilon=1)"),
        (SmallDB(ASKED, epsilon=1, alpha="0.1"),
         "SmallDB(Workload of 2 queries, epsilon=1, alpha=0.1)"),
        (LocalMarginals(Marginal("a", "b"), epsilon=1, delta="1e-9", certify="0.1"),
         "LocalMarginals(Marginal('a', 'b'), epsilon=1, delta=1e-09, certify=0.1, beta=0.05)"),
        (LocalMarginals(Marginal("a"), rho=1, first="0.2", look="0.1", components=4),
         "LocalMarginals(Marginal('a'), rho=1, first=0.2, look=0.1, components=4)"),
        (ResidualPlanner(Marginal("a"), rho="0.5", objective="max", weights=[2]),
         "ResidualPlanner(Marginal('a'), rho=0.5, objective='max', weights=(2.0,))"),
        (Parts([(Marginal("b", normalized=False), Laplace(epsilon=1))]),
         "Parts(Marginal('b', normalized=False) by Laplace(epsilon=1))"),
        (PrivateMinimizer(epsilon="0.5", delta="1e-9"),
         "PrivateMinimizer(epsilon=0.5, delta=1e-09, oracle=Corrected())"),
        (Corrected(DenseHypothesis.uniform(PEOPLE), gradients=1, certify="0.25"),
         "Corrected(a DenseHypothesis, gradients=1, certify=0.25)"),
        (Corrected(Pairs("0.3")), "Corrected(Pairs(share=0.3))"),
        (Corrected(Pairs("0.3", 3)), "Corrected(Pairs(share=0.3, width=3))"),
        (Corrected(Moments(), gradients=0), "Corrected(Moments(share=0.3), gradients=0)"),
        (SufficientStatistics(certify="0.5"), "SufficientStatistics(certify=0.5)"),
        (SufficientStatistics(), "SufficientStatistics()"),
        (NoisyDescent(), "NoisyDescent()"),
        (NoisyDescent.textbook(ridge=0.5),
         "NoisyDescent.textbook(beta=0.05, steps=512, ridge=0.5)"),
        (Sketch(size=8, descent=NoisyDescent(steps=5)),
         "Sketch(size=8, descent=NoisyDescent(steps=5))"),
    ],
    ids=str,
)  # fmt: skip
def test_values_say_in_few_words_what_they_are(value, text):
    assert repr(value) == text


def test_every_mechanism_has_a_sample():
    assert {type(one) for one in ALL} == BUILT_IN


@pytest.mark.parametrize("mechanism", ALL, ids=lambda one: type(one).__name__)
def test_facts_are_those_of_the_tables(mechanism):
    kind = type(mechanism)
    assert json.loads(wire.dumps(mechanism))["kind"] == f"mechanism.{kind.family}"
    assert f"autoclass:: dpsdk.mechanisms.{kind.__name__}\n" in (
        DOCS / "reference/mechanisms.md"
    ).read_text(encoding="utf-8")
    assert (DOCS / kind.page).is_file()
    assert {"family", "page"} <= vars(kind).keys()
    with pytest.raises(InvalidArgument):
        dpsdk.mechanism(kind.family, nothing_of_the_kind=1)
    question = question_of(Place("people", facts(PEOPLE)), mechanism, Count().lower(PEOPLE))
    assert (question is not None) == kind.reusable
    assert question_of(Place("people", facts(PEOPLE)), BEST, Count().lower(PEOPLE)) is not None


@pytest.mark.parametrize("mechanism", ONCE, ids=lambda one: type(one).__name__)
def test_what_measures_once_is_opened_for_the_one_answer(mechanism):
    one, other = session_of(), session_of()
    query = Marginal("age") if mechanism.family == "local-marginals" else Threshold("age", 18)
    release = one.release(query, using=mechanism)
    with other.open(mechanism) as channel:
        assert release.raw.tolist() == channel.release(query).raw.tolist()
        with pytest.raises(QueryError):
            channel.answer(Above(Count(), 0.5))
    assert one.spent == other.spent
    assert [reason.code for reason in release.because] == ["pays-again"]
    assert "note: opened for this answer alone; a second call pays again" in repr(release)
    (receipt,) = one.history
    assert receipt.cost == release.cost
    one.answer(query, using=mechanism)
    assert len(one.history) == 2


RUNS = [one for one in ONCE if isinstance(one, OneRun)]


@pytest.mark.parametrize("mechanism", RUNS, ids=lambda one: type(one).__name__)
def test_one_run_is_paid_once_as_quoted_and_is_the_same_whatever_is_asked(mechanism):
    session, query = session_of(), Threshold("age", 18)
    quote = session.quote(query, using=mechanism)
    with session.open(mechanism) as channel:
        release = channel.release(query)
        assert release == channel.release(query)
        assert (release.source, release.cost.nothing) == ("fitted", True)
        assert release.error(0.1) == quote.error(0.1)
        assert channel.release(Workload([query])).errors(0.1)[0] == release.error(0.1)
    assert session.spent.charges == 1
    (entry,) = [one for one in session.history if not one.cost.nothing]
    assert entry.cost == quote.at_open == quote.at_most
    small = Session(table(people(60, 1)), Budget("0.5", "1e-7"), noise=seeded(3))
    with pytest.raises(BudgetExceeded):
        small.open(mechanism)
    assert small.spent.charges == 0


def test_a_request_is_opened_once():
    session, mechanism = session_of(), SmallDB(ASKED, epsilon=1, size=3)
    first = session.release(ASKED, using=mechanism, request_id="a")
    assert (
        session.release(ASKED, using=mechanism, request_id="a").raw.tolist() == first.raw.tolist()
    )
    assert session.spent.charges == 1


@pytest.mark.parametrize("mechanism", STREAMS, ids=lambda one: type(one).__name__)
def test_streams_have_to_be_opened(mechanism):
    session = session_of()
    with pytest.raises(InvalidArgument, match="a mechanism that answers at once or measures once"):
        session.answer(Count(), using=mechanism)
    assert session.spent.charges == 0


def test_streams_are_those_that_are_known():
    assert {OnlinePMW, NumericSparse} < {type(one) for one in STREAMS}


@pytest.mark.parametrize(
    "value", [0.1, "0.1", Decimal("0.1"), Fraction(1, 10), np.float64(0.1)], ids=repr
)
def test_parameters_are_the_decimals_that_they_print_as(value):
    assert Laplace(value) == Laplace("0.1")
    assert hash(Laplace(value)) == hash(Laplace("0.1"))
    assert Laplace(value).epsilon == Fraction(1, 10)
    assert Gaussian(rho=value) == Gaussian(rho="0.1") != Laplace(value) != Laplace("0.2")


def test_a_gaussian_of_epsilon_and_delta_runs_at_a_rho_that_implies_them():
    mechanism = Gaussian(epsilon=1, delta="1e-6")
    rho = mechanism.noise.rho
    assert zcdp_start(1, "1e-6") < rho < gdp_start(1, "1e-6") / 2
    assert mechanism.noise.claim == (1, Fraction(1, 10**6))
    session = Session(
        table(people(9, 1)), Budget(1, "1e-6"), composition=BasicComposition(), noise=seeded(1)
    )
    session.answer(Count(), using=mechanism)
    assert session.spent.delta == Fraction(1, 10**6)
    assert session.affords(Count(), using=mechanism) == 0


@pytest.mark.parametrize("neighbors", Neighbors)
def test_a_quote_costs_what_was_asked_whatever_the_batch(neighbors):
    for query in (Count(), Marginal("age", "sex"), Workload(Threshold("age", t) for t in (18, 20))):
        form = query.lower(PEOPLE)
        of = facts(PEOPLE, neighbors)
        laplace, gaussian = (
            m.quote(form, Terms(of)) for m in (Laplace("0.3"), Gaussian(rho="0.02"))
        )
        assert [pure_epsilon(g) for g in laplace.at_most.guarantees] == [Fraction(3, 10)]
        assert [zcdp_rho(g) for g in gaussian.at_most.guarantees] == [Fraction(1, 50)]
        assert laplace.at_open.free
        assert gaussian.at_open.free
        assert len(laplace.accuracy.radii(0.05, joint=True)) == form.rows
        assert repr(laplace).startswith("Quote(at open nothing, at most ")


@pytest.mark.parametrize("mechanism", [Laplace("0.5"), Gaussian(rho="0.015")], ids=str)
def test_the_spread_of_answers_is_that_of_the_law(mechanism):
    session = Session(table(people(60, 4)), Budget(10**9, "1e-6"), noise=seeded(8))
    query = Marginal("age", "sex", "hours", "member", normalized=False)
    release = session.release(query, using=mechanism)
    many = [session.answer(query, using=mechanism).values for _ in range(100)]
    true = np.rint(np.mean(many, axis=0))
    measured = np.sqrt(np.mean((np.array(many) - true) ** 2))
    law = release._measurement.accuracy.law
    assert measured == pytest.approx(law.standard_deviation(), rel=0.08)
    assert law.standard_deviation() > 1
