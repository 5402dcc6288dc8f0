"""Refusals speak of the query that was asked and of the parameters that were given."""

from fractions import Fraction

import pytest

from dpsdk import Boolean, Budget, Domain, Integer, Neighbors, PrivateData, Session
from dpsdk.errors import (
    InvalidArgument,
    PublicSizeRequired,
    QueryError,
    TooLarge,
    UnknownAttribute,
)  # fmt: skip
from dpsdk.forms import Kronecker, LinearForm, Prefix
from dpsdk.mechanisms import (
    MWEM,
    Gaussian,
    Laplace,
    Matrix,
    NoisyHistogram,
    NumericSparse,
    OfflinePMW,
    OnlinePMW,
    ResidualPlanner,
    SmallDB,
    SquareRoot,
    Tree,
)  # fmt: skip
from dpsdk.queries import (
    Above,
    Conjunction,
    Count,
    Linear,
    Marginal,
    Mean,
    NumericAbove,
    Sum,
    Threshold,
    Workload,
)
from dpsdk.testing.noise import seeded

DOMAIN = Domain(Integer("age", 0, 99), Integer("x", 0, 1))
LEVEL = Above(Count(), 0.5)


def session():
    columns = {"age": [1, 2, 3] * 30, "x": [0, 1, 1] * 30}
    data = PrivateData.from_columns(columns, DOMAIN)
    return Session(data, Budget(10**9, "1e-6"), noise=seeded(1))


def asked(using, query):
    """Everything that a client can do with a mechanism and a query, on fresh sessions."""
    yield lambda s: s.quote(query, using=using).error()
    yield lambda s: s.affords(query, using=using)
    yield lambda s: s.open(using).answer(query)
    if isinstance(using, Laplace | Gaussian):
        yield lambda s: s.release(query, using=using)


def table(*attributes, **given):
    domain = Domain(*attributes)
    columns = {name: [domain[name].label(0)] * 9 for name in domain.names}
    return PrivateData.from_columns(columns, domain, **given)


class Prefixes:
    def lower(self, domain):
        return LinearForm(domain, [Kronecker.of(domain, {"x": Prefix(2**14)})])


LONG = table(Integer("age", 0, 2**40), Integer("days", 0, 2**20), Boolean("member"))
SQUARE = table(Integer("a", 0, 2**13), Integer("b", 0, 2**13))
WIDE = table(*(Integer(f"x{place}", 0, 99) for place in range(40)))
EVERYTHING = Conjunction(dict.fromkeys(WIDE.domain.names, 1))
LINE = table(Integer("x", 0, 2**14 - 1))
UNKNOWN = table(Integer("x", 0, 4), neighbors=Neighbors.ADD_REMOVE, max_rows=10**6)
STEPS = Workload(Threshold("x", t, normalized=False) for t in range(5))


@pytest.mark.thorough(quick=6)
@pytest.mark.parametrize(
    ("data", "mechanism", "error"),
    [
        (LONG, Matrix(Threshold("age", 7), epsilon="0.1"), TooLarge),
        (LONG, Matrix(Above(Count(), 0.5), epsilon="0.1"), QueryError),
        (LONG, Matrix(Count({"nothing": 1}), epsilon="0.1"), UnknownAttribute),
        (LONG, Tree("age", epsilon="0.1"), TooLarge),
        (LONG, Tree("nothing", epsilon="0.1"), UnknownAttribute),
        (LONG, SquareRoot("days", epsilon="0.1"), TooLarge),
        (LONG, SquareRoot("nothing", epsilon="0.1"), UnknownAttribute),
        (LONG, SmallDB(Above(Count(), 0.5), epsilon=1), QueryError),
        (SQUARE, NoisyHistogram(epsilon=1), TooLarge),
        (SQUARE, MWEM(Sum("a", normalized=False), epsilon=1), QueryError),
        (SQUARE, MWEM(Marginal("nothing"), epsilon=1), UnknownAttribute),
        (table(Integer("x", 0, 2**24)), MWEM(Threshold("x", 5), epsilon=1), TooLarge),
        (WIDE, ResidualPlanner([EVERYTHING], rho=1), TooLarge),
        (WIDE, ResidualPlanner([Marginal("x0")], rho=1, weights=[1, 2]), InvalidArgument),
        (WIDE, ResidualPlanner([Marginal("x0")], rho=Fraction(1, 10**60)), InvalidArgument),
        (WIDE, ResidualPlanner([Marginal("nobody")], rho=1), UnknownAttribute),
        (UNKNOWN, OfflinePMW(STEPS, epsilon=1), PublicSizeRequired),
        (UNKNOWN, MWEM.textbook(STEPS, 1), PublicSizeRequired),
        (UNKNOWN, MWEM.averaged(STEPS, 1), PublicSizeRequired),
    ],
    ids=repr,
)
def test_what_cannot_be_done_for_a_table_is_refused_before_anything_is_paid(data, mechanism, error):
    opened = Session(data, Budget(1, "1e-6"), noise=seeded(1))
    for attempt in (opened.open, lambda one: opened.quote(Count(normalized=False), using=one)):
        with pytest.raises(error):
            attempt(mechanism)
    assert opened.spent.charges == 0
    assert opened.history == ()


def test_functions_that_cannot_all_be_written_out_are_not_learnt():
    opened = Session(LINE, Budget(10), noise=seeded(1))
    with pytest.raises(TooLarge):
        opened.open(MWEM(Prefixes(), epsilon=1))
    assert opened.spent.charges == 0


@pytest.mark.thorough(quick=10)
@pytest.mark.parametrize(
    ("using", "query", "parameter"),
    [
        (Laplace("1e-30"), Count(), "epsilon"),
        (Laplace("1e-30"), Linear(lambda r: 0.3, ["x"]), "epsilon"),
        (Laplace("1e-90"), Workload([Threshold("age", t) for t in range(99)]), "epsilon"),
        (Gaussian(rho="1e-60"), Count(), "rho"),
        (Gaussian(rho="1e-60"), Marginal("age"), "rho"),
        (NumericSparse("1e-30", tops=3), LEVEL, "epsilon"),
        (NumericSparse("1e-30", tops=3), NumericAbove(Count(), 0.5), "epsilon"),
        (Gaussian(epsilon="1e-18", delta="1e-90"), Count(), "epsilon and delta"),
        (NumericSparse("1e-18", "1e-90", tops=3), LEVEL, "epsilon and delta"),
        (OnlinePMW("1e-18", "1e-90", updates=3), Count(), "epsilon and delta"),
        (OnlinePMW("1e-30", updates=3), Count(), "epsilon"),
        (OnlinePMW("1e-15", updates=3), Count(), "epsilon"),
        (OnlinePMW("1e-30", updates=3, start="uniform"), Count(), "epsilon"),
        (OnlinePMW("1e-30", updates=3, prepaid=True), Count(), "epsilon"),
    ],
    ids=str,
)
def test_an_amount_too_small_for_its_noise_is_refused_by_its_own_name(using, query, parameter):
    for ask in asked(using, query):
        opened = session()
        with pytest.raises(InvalidArgument) as caught:
            ask(opened)
        assert caught.value.parameter == parameter
        assert caught.value.got.split(",")[0].removeprefix("epsilon=") in repr(using)
        assert opened.spent.charges == 0


@pytest.mark.parametrize("level", [1e300, -1e300, 1e20])
def test_a_level_out_of_reach_is_refused_by_its_own_name(level):
    opened = session()
    channel = opened.open(NumericSparse(1, tops=5))
    with pytest.raises(InvalidArgument, match="level"):
        channel.answer(Above(Count(normalized=False), level))
    assert opened.spent.charges == 0


@pytest.mark.parametrize(
    ("using", "query", "fits"),
    [
        (OnlinePMW(1, updates=3), Mean("age"), "Laplace or Gaussian"),
        (OnlinePMW(1, updates=3), Sum("age", normalized=False), "Laplace or Gaussian"),
        (OnlinePMW(1, updates=3), Workload([Count(), Mean("age")]), "Threshold"),
        (OnlinePMW(1, updates=3), LEVEL, "open NumericSparse"),
        (NumericSparse(1, tops=3), Count(), "Above(query, level)"),
        (NumericSparse(1, tops=3), Mean("age"), "Above(query, level)"),
        (NumericSparse(1, tops=3), Above(Sum("age"), 0.5), "counts rows"),
        (Laplace(1), LEVEL, "open NumericSparse"),
        (Gaussian(rho=1), NumericAbove(Count(), 0.5), "open NumericSparse"),
    ],
    ids=str,
)
def test_a_query_of_another_kind_is_refused_by_its_own_name(using, query, fits):
    named = query.query if isinstance(query, Above) and fits == "counts rows" else query
    for ask in asked(using, query):
        opened = session()
        channel_first = opened.spent.charges
        with pytest.raises(QueryError) as caught:
            ask(opened)
        assert caught.value.query == str(named)
        assert fits in caught.value.reason
        assert opened.spent.charges - channel_first <= 1  # what opening a channel cost


def test_queries_of_weights_from_none_to_one_fit_whatever_they_are_called():
    opened = session()
    pmw = opened.open(OnlinePMW(1, updates=3))
    assert isinstance(pmw.answer(Sum("x")), float)
    assert opened.open(NumericSparse(1, tops=3)).answer(Above(Sum("x"), 0.1))


def test_a_refused_query_leaves_its_channel_open():
    opened = session()
    pmw = opened.open(OnlinePMW(1, updates=3))
    charges, entries = opened.spent.charges, len(opened.history)
    with pytest.raises(QueryError):
        pmw.answer(Mean("age"))
    assert (opened.spent.charges, len(opened.history)) == (charges, entries)
    assert isinstance(pmw.answer(Count()), float)


def test_sums_too_large_are_refused_by_query_and_attribute_before_any_charge():
    wide = Domain(Integer("pay", 0, 10**12))
    data = PrivateData.from_columns(
        {"pay": [5]}, wide, neighbors=Neighbors.ADD_REMOVE, max_rows=10**6
    )
    opened = Session(data, Budget(1), noise=seeded(1))
    with pytest.raises(QueryError, match=r"Sum\('pay'.*attribute 'pay'.*max_rows"):
        opened.answer(Sum("pay", normalized=False), using=Laplace(1))
    assert opened.spent.charges == 0
