"""`ExponentialQuantile`: what it answers and refuses, what is said of it, and who asks it."""

import math
from datetime import date

import numpy as np
import pytest

from dpsdk import (
    MISSING,
    Binned,
    Boolean,
    Budget,
    Date,
    Domain,
    Integer,
    Neighbors,
    Number,
    PrivateData,
    Session,
)
from dpsdk.accounting import BoundedRangeGuarantee, Odometer
from dpsdk.errors import InvalidArgument, NoBound, QueryError, TooLarge
from dpsdk.forms import Crossing, Facts, GapForm, Kronecker, LinearForm, UnwrittenForm, Weights
from dpsdk.kernel import Select, Terms
from dpsdk.mechanisms import ExponentialQuantile as Exponential
from dpsdk.mechanisms import (
    Gaussian,
    Laplace,
    NoisyHistogram,
    OnlinePMW,
    Projection,
    SquareRoot,
    Tree,
)
from dpsdk.planner.best import best_plan
from dpsdk.queries import Between, Count, DateQuantile, Median, Quantile, Threshold, Workload
from dpsdk.testing import seeded
from worlds import facts

DOMAIN = Domain(
    Integer("age", 10, 49),
    Binned("hours", [0, 10, 20, 40]),
    Boolean("member"),
    Date("day", date(2024, 1, 1), date(2024, 12, 31)),
)
RNG = np.random.default_rng(3)
AGES = RNG.integers(10, 50, 2001)
COLUMNS = {
    "age": AGES.tolist(),
    "hours": RNG.uniform(0, 40, 2001).tolist(),
    "member": (AGES % 3 == 0).tolist(),
    "day": [date(2024, 1 + int(age) % 12, 15) for age in AGES],
}
SHARP = Exponential(epsilon=1000)
ACCOUNT = Odometer(Budget(1)).balance
CENTS = Domain(Number("income", 0, 2**60, step="0.5"), Boolean("member"))


def session(neighbors=Neighbors.REPLACE_ONE, columns=COLUMNS, **given):
    data = PrivateData.from_columns(columns, DOMAIN, neighbors=neighbors)
    return Session(data, Budget(10**9, "0.1"), noise=seeded(5), **given)


@pytest.mark.parametrize("neighbors", Neighbors)
def test_where_little_is_hidden_it_is_the_quantile(neighbors):
    asked, quiet = session(neighbors), Laplace(epsilon=10**6)
    queries = [
        Median("age"),
        Quantile("age", "0.9"),
        Quantile("hours", "0.5"),
        Median("age", where={"member": True}),
        Median("age", where={"age": Between(20, 30)}),
        DateQuantile("day", "0.25"),
    ]
    for query in queries:
        release = asked.release(query, using=SHARP)
        assert release.value == asked.answer(query, using=quiet)
        assert release.source == "measured"
        assert release.cost.guarantees == (BoundedRangeGuarantee(1000),)


def test_many_rows_of_one_value_are_no_error():
    columns = {**COLUMNS, "age": np.where(np.arange(2001) % 10 < 7, 10, AGES).tolist()}
    asked = session(columns=columns)
    using = Exponential(epsilon="0.1")
    assert {asked.answer(Median("age"), using=using) for _ in range(100)} == {10.0}


def test_its_rank_is_bounded_and_its_value_is_not():
    release = session().release(Quantile("age", "0.9"), using=Exponential(epsilon="0.1"))
    bound = release.bound(0.05)
    assert bound.ranks == pytest.approx(2 / 0.1 * math.log(40 / 0.05))
    assert (bound.standing, bound.error, bound.vacuous) == ("none", math.inf, True)
    assert "off by at most 133.7 rows in rank at 95%" in repr(release)
    for ask in (release.error, release.errors, release.interval):
        with pytest.raises(NoBound, match=r"its rank is bounded.*bound\(beta\)\.ranks, in rows"):
            ask()
    assert "low" not in release.to_frame("pandas").columns


def test_a_bound_of_all_rows_says_nothing():
    release = session().release(Median("age"), using=Exponential(epsilon="0.001"))
    assert release.bound().ranks is None
    assert "its rank may be off by as many rows as there are" in repr(release)


@pytest.mark.parametrize("q", ["0.25", "0.5", "0.9"])
@pytest.mark.parametrize("unit_rows", [1, 3])
def test_ranks_are_those_of_what_a_person_moves(q, unit_rows):
    form = Quantile("age", q).lower(DOMAIN)
    for neighbors, share in [
        (Neighbors.REPLACE_ONE, 1.0),
        (Neighbors.ADD_REMOVE, max(float(q), 1 - float(q))),
    ]:
        terms = Terms(facts(DOMAIN, neighbors, unit_rows=unit_rows))
        scale = Exponential(epsilon="0.5").quote(form, terms).accuracy.scale
        assert scale == pytest.approx(2 * share * unit_rows / 0.5)


@pytest.mark.thorough
def test_ranks_are_within_their_bound():
    asked, using = session(), Exponential(epsilon="0.05")
    missed = 0
    for _ in range(200):
        release = asked.release(Median("age"), using=using)
        off = max((release.value > AGES).sum() - 1000.5, 1000.5 - (release.value >= AGES).sum())
        missed += off > release.bound(0.2).ranks
    assert missed <= 40


def test_where_no_row_counts_every_value_comes_out_and_a_public_zero_is_no_number():
    asked = session()
    nobody = Median("age", where={"age": 10, "member": True})  # ages of members are divided by 3
    found = {asked.answer(nobody, using=SHARP) for _ in range(300)}
    assert len(found) == 40
    known = Facts(DOMAIN, Neighbors.REPLACE_ONE, 0, outside=False, row_limit=0)
    assert math.isnan(Median("age").lift(np.array([0.0, 3.0]), known))


def test_an_assumed_density_gives_a_bound_in_units_beforehand():
    asked, using = session(), Exponential(epsilon="0.1")
    quote = asked.quote(Median("age"), using=using, assume={"density": 50})
    ranks = quote.bound().ranks
    assert quote.assumed(0.05).error == math.ceil(ranks / 50)
    assert "rows in rank" in repr(quote)


def test_it_answers_nothing_else():
    asked = session()
    for query in (Count(), Threshold("age", 30), Workload([Median("age")])):
        with pytest.raises(QueryError, match="answers Quantile, Median and DateQuantile"):
            asked.answer(query, using=SHARP)
    with pytest.raises(QueryError, match="no order"):
        asked.answer(Median("member"), using=SHARP)
    assert not asked.spent.epsilon


def test_what_could_overflow_is_refused_by_public_numbers():
    form = Quantile("age", f"0.{'1' * 16}").lower(DOMAIN)
    for limit, refusal in [(2**10, InvalidArgument), (2**5, None)]:
        terms = Terms(facts(DOMAIN, rows=limit))
        if refusal is None:
            assert SHARP.quote(form, terms).accuracy.options == 40
        else:
            with pytest.raises(refusal, match=r"below 2\^60"):
                SHARP.quote(form, terms)
    many = Terms(Facts(CENTS, Neighbors.ADD_REMOVE, None, outside=True, row_limit=2**25))
    with pytest.raises(TooLarge, match=r"a choice among values.*max_rows"):
        SHARP.quote(Median("income").lower(CENTS), many)


def test_a_grid_of_numbers_is_never_written_out():
    form = Median("income", where={"member": True}).lower(CENTS)
    assert isinstance(form, UnwrittenForm)
    terms = Terms(facts(CENTS, rows=1000))
    quote = Exponential(epsilon=1).quote(form, terms)
    assert quote.accuracy.options == 2**61 + 1
    known = terms.facts
    chosen = form.crossing.raw(2**61 - 1)
    assert Median("income").lift(chosen, known) == 2.0**60
    assert form.identity != Median("income").lower(CENTS).identity
    others = [
        Laplace(epsilon=1), Gaussian(rho=1), Tree("income", epsilon=1), Projection(epsilon=1),
        NoisyHistogram(epsilon=1), SquareRoot("income", rho=1), Tree("member", epsilon=1),
        OnlinePMW(1, "1e-6", updates=3),
    ]  # fmt: skip
    for mechanism in others:
        with pytest.raises(TooLarge):
            mechanism.quote(form, terms)
    with pytest.raises(TooLarge, match="ExponentialQuantile"):
        Laplace(epsilon=1).quote(form, terms)
    with pytest.raises(TooLarge, match="ExponentialQuantile"):
        Workload([Median("income"), Quantile("income", "0.1")]).lower(CENTS)


def test_amounts_of_which_some_are_missing_are_answered_on_their_own_grid():
    domain = Domain(Number("pay", 0, 10**9, step="0.01", missing=True, other=True))
    amounts = [*(0.0,) * 20, *(float(x) + 0.25 for x in range(80))]
    columns = {"pay": [*amounts, *(None,) * 200, *("?",) * 200]}
    data = PrivateData.from_columns(columns, domain)
    asked = Session(data, Budget(10**6), noise=seeded(2))
    assert asked.answer(Quantile("pay", "0.195"), using=SHARP) == 0.0
    assert asked.answer(Quantile("pay", "0.905"), using=SHARP) == 70.25
    assert asked.answer(Median("pay", where={"pay": Between(5, 10**6)}), using=SHARP) == 42.25
    assert asked.release(Median("pay")).mechanism.startswith("ExponentialQuantile")
    with pytest.raises(QueryError, match="rows without a value of 'pay' have no quantile"):
        asked.answer(Median("pay", where={"pay": MISSING}), using=SHARP)


def test_a_choice_takes_a_condition_and_nothing_else():
    with pytest.raises(InvalidArgument, match="weights 0 and 1"):
        Crossing(DOMAIN, "age", "0.5", Kronecker.of(DOMAIN, {"member": Weights([[0.5, 1.0]])}))
    with pytest.raises(InvalidArgument, match="weights 0 and 1"):
        Crossing(DOMAIN, "age", "0.5", Kronecker.of(DOMAIN, {"member": Weights([[0, 2.0]])}))
    crossing = Median("age").lower(DOMAIN).crossing
    terms = Terms(facts(DOMAIN, rows=10))
    for given in ({"groups": [slice(0, 1)]}, {"penalties": [0]}, {"opposites": True}):
        with pytest.raises(InvalidArgument, match="Crossing"):
            Select(crossing, 1, **given).price(terms)
    with pytest.raises(InvalidArgument, match="a GapForm, a Crossing"):
        Select(LinearForm(DOMAIN, [Kronecker.of(DOMAIN, {})]), 1).price(terms)
    with pytest.raises(InvalidArgument, match="another domain"):
        Select(crossing, 1).price(Terms(facts(CENTS, rows=10)))
    assert isinstance(crossing.identity, bytes)
    assert not isinstance(crossing, GapForm)


def test_an_answer_is_given_again_to_the_same_share_only():
    asked, using = session(reuse=True), Exponential(epsilon="0.01")
    first = asked.release(Quantile("age", "0.5"), using=using)
    again, other = (
        asked.release(Median("age"), using=using),
        asked.release(Quantile("age", "0.9"), using=using),
    )
    assert again.reused
    assert (again.value, again.bound()) == (first.value, first.bound())
    assert not other.reused
    # Counts up to all values answer every share.
    asked.answer(Median("age"), using=Laplace(1))
    assert asked.release(Quantile("age", "0.9"), using=Laplace(1)).reused


def test_plans_offer_it():
    asked = session()
    plans = asked.plan(Median("age"), budget=Budget("0.1"), assume={"density": 20})
    best = plans.best
    assert isinstance(best.mechanism, Exponential)
    assert best.assumed.error < 10


@pytest.mark.thorough
def test_what_is_asked_by_default():
    asked = session()
    cheap = asked.plan(Median("age"), error=3, assume={"density": 20})
    assert isinstance(cheap.best.mechanism, Exponential)
    # What is read off counts by default goes on to be.
    usual = best_plan(Median("age"), Median("age").lower(DOMAIN), Terms(asked.facts), ACCOUNT)
    assert not isinstance(usual.mechanism, Exponential)


def test_a_grid_of_numbers_is_planned_to_it():
    for domain in (CENTS, Domain(Number("income", 0, 100))):
        form, terms = Median("income").lower(domain), Terms(facts(domain, rows=10**4))
        plan = best_plan(Median("income"), form, terms, ACCOUNT)
        assert plan.mechanism == Exponential(epsilon="0.1")
