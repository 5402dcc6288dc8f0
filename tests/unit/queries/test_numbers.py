"""Questions about a `Number`: exact to its step, at any cut, priced from its ends."""

import math
import tracemalloc
from fractions import Fraction

import numpy as np
import pytest

from dpsdk import Budget, Domain, Integer, Neighbors, Number, PrivateData, Session
from dpsdk.data.histogram import Histogram
from dpsdk.errors import DpsdkError, QueryError, TooLarge
from dpsdk.forms import LinearForm, sensitivity
from dpsdk.mechanisms import MWEM, Laplace, NoisyHistogram, OnlinePMW, Tree
from dpsdk.queries import (
    Between,
    Count,
    Interval,
    Marginal,
    Mean,
    Not,
    StdDev,
    Sum,
    Threshold,
    Variance,
    Workload,
)
from dpsdk.testing import check_query, seeded
from worlds import facts

CENTS = Number("income", -10, 200_000, "0.01")
DOMAIN = Domain(CENTS, Integer("b", 0, 1), Number("far", 0, 2**60))
ROWS = 4000


@pytest.fixture(scope="module")
def amounts():
    rng = np.random.default_rng(1)
    return rng.integers(0, CENTS.size, ROWS), rng.integers(0, 2, ROWS), rng.integers(0, 2**60, ROWS)


def answer(query, amounts, of=None):
    of = facts(DOMAIN, Neighbors.REPLACE_ONE, rows=ROWS) if of is None else of
    query.check(of)
    codes = dict(zip(DOMAIN.names, amounts, strict=True))
    raw = query.lower(DOMAIN).evaluate(Histogram(DOMAIN, codes, np.ones(ROWS), 0))
    return query.lift(raw, of)


def test_answers_are_those_of_the_numbers(amounts):
    points = np.array([float(CENTS.point(code)) for code in amounts[0]])
    inside, ones = (points >= 0) & (points <= 50_000), amounts[1] == 1
    total = float(sum(CENTS.point(code) for code in amounts[0].tolist()))
    assert answer(Sum("income", normalized=False), amounts) == pytest.approx(total, rel=1e-15)
    assert answer(Sum("income"), amounts) == pytest.approx(total / ROWS, rel=1e-15)
    assert answer(Mean("income"), amounts) == pytest.approx(points.mean(), rel=1e-12)
    assert answer(Mean("income", where={"b": 1}), amounts) == pytest.approx(points[ones].mean())
    within = {"income": Between(0, 50_000)}
    assert answer(Count(within), amounts) == inside.mean()
    assert answer(Count({"income": Not(Between(0, 300_000))}), amounts) == (points < 0).mean()
    assert answer(Mean("income", where=within), amounts) == pytest.approx(points[inside].mean())
    assert answer(Sum("income", where=within), amounts) == pytest.approx(
        points[inside].sum() / ROWS
    )
    for cut in (-10.0, 0.005, 1234.56, 1234.565, 2e5, 1e300, -1e300):
        assert answer(Threshold("income", cut), amounts) == (points <= cut).mean()
        assert (
            answer(Interval("income", cut, 1e5 + abs(cut)), amounts)
            == ((points >= cut) & (points <= 1e5 + abs(cut))).mean()
        )
    assert answer(Threshold("far", 2**59), amounts) == (amounts[2] <= 2**59).mean()


@pytest.mark.parametrize("outside", [True, False])
@pytest.mark.parametrize("neighbors", Neighbors)
def test_prices_are_those_of_the_ends(neighbors, outside):
    of = facts(DOMAIN, neighbors, outside=outside)
    width, most, least = CENTS.size - 1, 20_000_000, -1000
    replaced = neighbors is Neighbors.REPLACE_ONE
    found = sensitivity(Sum("income").lower(DOMAIN), of)
    assert found.l1 == (most - least if replaced else most)
    for where in (None, {"b": 1}, {"income": Between(-10, 200_000)}):
        found = sensitivity(Mean("income", where=where).lower(DOMAIN), of)
        assert found.l1 == pytest.approx(2 * width)
        assert found.l2_squared == pytest.approx((4 if replaced else 2) * width**2)
        assert found.exact
    half = {"income": Between(0, 99_999.99)}
    # The mean of the lower half: weights from -(width - 2000) on, and a count that weighs width.
    found = sensitivity(Mean("income", where=half).lower(DOMAIN), of)
    assert found.l1 == pytest.approx(width - 2000 + width)


def test_what_does_not_fit_is_refused_by_public_numbers():
    of = facts(DOMAIN, Neighbors.REPLACE_ONE, rows=2**28)
    for query in (Sum("income"), Mean("income")):
        query.check(of)
        with pytest.raises(QueryError, match="2\\*\\*53"):
            query.check(facts(DOMAIN, Neighbors.REPLACE_ONE, rows=2**29))
        assert math.isfinite(query.lower(DOMAIN).reach)
    for query in (Sum("far"), Mean("far")):
        with pytest.raises(QueryError, match="a longer step"):
            query.check(of)
        with pytest.raises(QueryError, match="a longer step"):
            query.lower(DOMAIN)
    for query in (Marginal("far"), Marginal("income")):
        with pytest.raises(TooLarge):
            query.lower(DOMAIN)


@pytest.mark.parametrize(
    "wanted", [10.005, "a text", 300_000, {1, "b"}, range(5), range(5, 5), True, (1, 2), math.nan]
)
def test_labels_that_a_number_does_not_have_are_refused_at_once(wanted):
    with pytest.raises(DpsdkError):
        Count({"income": wanted}).lower(DOMAIN)


def test_conditions_on_single_numbers():
    whole = Domain(Number("n", 0, 2**40))
    same = Domain(Integer("n", 0, 2**40))
    for wanted in (7, range(3, 9), {3, 4, 5}, Between(2.5, 7)):
        form = Count({"n": wanted}).lower(whole)
        assert isinstance(form, LinearForm)
        assert form.blocks == Count({"n": wanted}).lower(same).blocks
    assert Fraction(Count({"income": 10.25}).lower(DOMAIN).blocks[0].factors[0].start) == 2025


def test_what_holds_all_cells_refuses_a_number_at_once():
    domain = Domain(Number("pay", 0, 10**6, "0.01", missing=True), Integer("b", 0, 1))
    rng = np.random.default_rng(2)
    rows = {"pay": rng.lognormal(10, 1, 300), "b": rng.integers(0, 2, 300)}
    session = Session(PrivateData.from_columns(rows, domain), Budget(1, 1e-6), noise=seeded(1))
    few = Workload([Count()])
    tracemalloc.start()
    for mechanism in (
        NoisyHistogram(epsilon=1), MWEM(few, epsilon=1, rounds=2), Tree("pay", epsilon=1),
        OnlinePMW(epsilon=1, delta=1e-7, updates=2),
    ):  # fmt: skip
        with pytest.raises(TooLarge):
            session.open(mechanism)
    with pytest.raises(TooLarge, match="bins="):
        session.answer(Marginal("pay", "b"), using=Laplace(epsilon=0.1))
    assert session.spent.charges == 0
    released = session.release(Mean("pay"), using=Laplace(epsilon=1))
    assert tracemalloc.get_traced_memory()[1] < 2**22
    tracemalloc.stop()
    low, high = released.interval(beta=1e-6)
    assert low <= np.clip(rows["pay"], 0, 10**6).mean() <= high


@pytest.mark.parametrize(
    "query",
    [
        Sum("n"), Mean("n", where={"n": Between(1, 5)}), Threshold("n", 2.25), Variance("n"),
        StdDev("n", by="b"), Marginal("b", "n", bins={"n": [0, 2, 9]}),
    ],
    ids=repr,
)  # fmt: skip
def test_they_are_queries_like_all_others(query):
    domain = Domain(Number("n", 0, 9, "0.5", missing=True), Integer("b", 0, 1))
    report = check_query(query, domain=domain)
    assert report.conforms, str(report)
