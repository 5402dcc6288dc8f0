"""Where a mechanism that learns begins: values, what they pay, what they refuse."""

import copy
import math
import pickle
from fractions import Fraction

import numpy as np
import pytest
from attrs import frozen
from attrs.exceptions import FrozenInstanceError
from reference import one, seen

from dpsdk import Boolean, Budget, Domain, Integer, PrivateData, Session, SyntheticData
from dpsdk.accounting import BasicComposition, Odometer
from dpsdk.errors import BudgetExceeded, InvalidArgument, TooLarge
from dpsdk.forms import Range
from dpsdk.hypothesis import (
    DenseHypothesis,
    Given,
    Pairs,
    PiecewiseHypothesis,
    Product,
    Start,
    Uniform,
)
from dpsdk.hypothesis.start import kind_for, to_start
from dpsdk.kernel import GaussianNoise, Kernel, LaplaceNoise, Terms
from dpsdk.mechanisms import OnlinePMW
from dpsdk.queries import Threshold
from dpsdk.testing import seeded

SMALL = Domain(Integer("a", 0, 4), Boolean("b"))
LONG = Domain(Integer("x", 0, 2**40 - 1))


def small(rows=1000, outside=100):
    counts = np.random.default_rng(1).multinomial(rows, np.ones(10) / 10).reshape(5, 2)
    return PrivateData.from_counts(counts, SMALL, outside_rows=outside)


def kernel_over(data, epsilon=10):
    return Kernel(data, Odometer(Budget(epsilon), BasicComposition()), seeded(1), "test")


def test_names_and_distributions_stand_for_starts():
    data = SyntheticData(SMALL, [[0, 0]])
    assert to_start("uniform") == Uniform() == OnlinePMW(1, updates=3, start="uniform").start
    assert to_start("product") == Product() == Product("0.1") == Product(Fraction(1, 10))
    assert to_start("pairs") == Pairs() == Pairs("0.75", 2) == Pairs(Fraction(3, 4), width=2)
    assert to_start(data) == Given(data)
    assert to_start(Product("0.2")) == Product(share="0.2")
    assert to_start(None) is None
    assert Product("0.2") != Product("0.3")
    assert Uniform() != Product()
    assert Pairs() != Pairs(width=1) != Pairs("0.1", 1) != Product()


def test_mechanisms_and_what_they_start_from_compare_by_value():
    given, moved = (DenseHypothesis.uniform(SMALL, outside=True) for _ in range(2))
    equal = [OnlinePMW(1, updates=3, start=start) for start in (given, given, given.copy())]
    assert equal[0] == equal[1] == equal[2]
    assert len({hash(mechanism) for mechanism in equal}) == 1
    moved.shift(one(SMALL, a=Range(5, 0, 1)), 0.5)
    narrow = PiecewiseHypothesis.uniform(Domain(Integer("a", 0, 4)), outside=True)
    others = [moved, narrow, DenseHypothesis.uniform(SMALL), SyntheticData(SMALL, [[0, 0]])]
    starts = [Uniform(), Product(), Pairs(), *map(Given, [given, *others])]
    for place, start in enumerate(starts):
        for number, other in enumerate(starts):
            assert (start == other) == (place == number)
    assert OnlinePMW(1, updates=3) != OnlinePMW(1, updates=4)
    assert OnlinePMW(1, updates=3, start="product") == OnlinePMW(1, updates=3, start=Product())


@pytest.mark.parametrize(
    "start", ["best", "", 1, [1], {}, Uniform, Product, Pairs, np.ones(3), object()]
)
def test_what_stands_for_no_start_is_named(start):
    with pytest.raises(InvalidArgument, match="start"):
        OnlinePMW(1, updates=3, start=start)


@pytest.mark.parametrize(
    "share", [0, 1, -0.1, "x", math.nan, None, True, "1e-13", Fraction(1, 3) + Fraction(1, 10**60)]
)
def test_a_share_that_is_none_is_named(share):
    for kind in (Product, Pairs):
        with pytest.raises(InvalidArgument, match="share"):
            kind(share)


@pytest.mark.parametrize(
    "start", [Uniform(), Product("0.25"), Pairs("0.25", 3), Given(SyntheticData(SMALL, [[1, 1]]))]
)
def test_starts_are_frozen_values(start):
    for twin in (copy.copy(start), copy.deepcopy(start), pickle.loads(pickle.dumps(start))):  # noqa: S301
        assert twin == start
        assert hash(twin) == hash(start)
    with pytest.raises((FrozenInstanceError, AttributeError)):
        start.share = 3


def test_the_class_of_a_hypothesis_follows_from_public_facts():
    kinds = {
        SMALL: DenseHypothesis,
        LONG: PiecewiseHypothesis,
        Domain(Integer("x", 0, 2**20 - 1)): DenseHypothesis,
        Domain(Integer("x", 0, 2**20)): PiecewiseHypothesis,
        Domain(Integer("x", 0, 2**20), Boolean("b")): DenseHypothesis,
    }
    for domain, kind in kinds.items():
        assert kind_for(domain) is kind
    huge = Domain(*(Integer(f"a{i}", 0, 9) for i in range(12)))
    with pytest.raises(TooLarge):
        kind_for(huge).uniform(huge)


@pytest.mark.parametrize("delta", [0, "1e-6"])
@pytest.mark.parametrize("share", ["0.05", "0.3"])
@pytest.mark.parametrize("kind", [Product, Pairs])
def test_a_start_that_measures_pays_its_own_share_as_quoted(kind, share, delta):
    session = Session(small(), Budget(2, "1e-5"), noise=seeded(1))
    mechanism = OnlinePMW(1, delta, updates=5, start=kind(share))
    quote = session.quote(Threshold("a", 2), using=mechanism)
    with session.open(mechanism):
        (entry,) = session.history
        assert entry.cost == quote.at_open
    if not delta:
        assert quote.at_open.epsilon == Fraction(share)
        # What the start takes, the rounds do not have; rounding down may leave a little.
        assert Fraction("0.999") <= quote.at_most.epsilon <= 1
    else:
        schedule = mechanism.schedule(session.facts)
        free = OnlinePMW(1, delta, updates=5, start="uniform").schedule(session.facts)
        rounds = schedule.noise.rho / free.noise.rho
        assert float(rounds) == pytest.approx(1 - float(share), rel=1e-3)
        assert float(schedule.start.rho / (5 * free.noise.rho / Fraction(1, 10))) == pytest.approx(
            float(share), rel=1e-3
        )


def test_the_marginals_of_a_product_are_those_that_were_measured():
    kernel = kernel_over(small())
    hypothesis = Product().open(kernel, LaplaceNoise(8))
    assert hypothesis.outside_mass == pytest.approx(100 / 1100, abs=0.01)
    assert hypothesis.kl_cap() <= Product().kl_cap(kernel.facts)
    with pytest.raises(BudgetExceeded):
        Product().open(kernel, LaplaceNoise(8))
    with pytest.raises(InvalidArgument, match="noise"):
        Product().open(kernel)
    facts = kernel.facts
    (price,) = Product().price(GaussianNoise("0.1"), Terms(facts))
    assert price == Product().price(GaussianNoise("0.1"), Terms(facts))[0]
    assert Uniform().price(GaussianNoise("0.1"), Terms(facts)) == ()


def test_a_distribution_is_taken_as_it_was_when_it_was_given():
    given = DenseHypothesis.uniform(SMALL, outside=True)
    mechanism = OnlinePMW(1, updates=3, start=given)
    before = seen(given)
    given.shift(one(SMALL, a=Range(5, 0, 1)), 3.0)
    session = Session(small(), Budget(5), noise=seeded(1))
    first, second = session.open(mechanism), session.open(mechanism)
    for channel in (first, second):
        assert np.array_equal(seen(channel.hypothesis), before)
        channel.hypothesis.shift(one(SMALL, a=Range(5, 0, 1)), 3.0)
    assert np.array_equal(seen(session.open(mechanism).hypothesis), before)


def test_synthetic_data_start_a_hypothesis_near_them():
    data = SyntheticData(SMALL, [[0, 0], [3, 1]], [1, 2], outside_count=1)
    start, kernel = Given(data), kernel_over(small())
    hypothesis = start.open(kernel)
    assert isinstance(hypothesis, DenseHypothesis)
    wanted = np.append(data.table(SMALL.names).ravel(), data.outside_mass)
    assert seen(hypothesis) == pytest.approx(0.999 * wanted + 0.001 / 11, abs=1e-15)
    assert hypothesis.kl_cap() <= start.kl_cap(kernel.facts) < math.inf


def test_records_without_the_cell_outside_get_it_where_the_table_has_it():
    data = SyntheticData(SMALL, [[0, 0]])
    hypothesis = Given(data).open(kernel_over(small()))
    assert hypothesis.outside_mass == pytest.approx(0.001 / 11)
    line = Domain(Integer("a", 0, 4))
    within = Given(SyntheticData(line, [[0]], outside_count=1))
    strict = PrivateData.from_columns({"a": [0]}, line, outside="raise")
    hypothesis = within.open(kernel_over(strict))
    assert not strict.facts.outside
    assert hypothesis.outside_mass == pytest.approx(0.999 * 0.5 + 0.001 / 6)
    assert hypothesis.kl_cap() <= within.kl_cap(strict.facts)


def test_synthetic_data_on_a_long_line_start_pieces():
    rows = PrivateData.from_columns({"x": [5, 7, 2**40 - 1]}, LONG)
    cells = np.array([[0], [5], [5], [6], [2**40 - 1]])
    data = SyntheticData(LONG, cells, outside_count=5)
    hypothesis = Given(data).open(kernel_over(rows))
    assert isinstance(hypothesis, PiecewiseHypothesis)
    assert hypothesis.pieces <= 7
    assert hypothesis.outside_mass == pytest.approx(0.5, abs=1e-3)
    for start, stop, mass in ((0, 1, 0.1), (5, 6, 0.2), (5, 7, 0.3), (1, 5, 0), (7, 2**39, 0)):
        answer = hypothesis.answer(one(LONG, x=Range(2**40, start, stop)))
        assert answer == pytest.approx(mass, abs=1.1e-3)
    last = hypothesis.answer(one(LONG, x=Range(2**40, 2**40 - 1, 2**40)))
    assert last == pytest.approx(0.1, abs=1e-3)


def test_a_promise_counts_the_potential_of_what_is_given():
    facts = small(10**6).facts
    given = {"alpha": 0.9, "beta": 0.1, "queries": 9}
    data = SyntheticData(SMALL, [[0, 0]], outside_count=0)
    schedule = OnlinePMW(1, start=data, **given).schedule(facts)
    assert 2 * schedule.gap**2 * (schedule.updates + 1) == pytest.approx(math.log(11 / 1e-3))
    with pytest.raises(InvalidArgument, match="start"):
        OnlinePMW(1, start=Product("0.5"), **given)
    with pytest.raises(InvalidArgument, match="start"):
        OnlinePMW(1, start="pairs", **given)


@pytest.mark.parametrize(
    "distribution",
    [
        SyntheticData(Domain(Integer("a", 0, 4)), [[0]], outside_count=0),
        DenseHypothesis.uniform(SMALL),
        SyntheticData(SMALL, [], outside_count=3),
    ],
    ids=["another domain", "no cell outside", "nothing inside"],
)
def test_a_distribution_that_does_not_fit_is_refused_before_any_charge(distribution):
    session = Session(small(), Budget(5), noise=seeded(1))
    mechanism = OnlinePMW(1, updates=3, start=distribution, prepaid=True)
    with pytest.raises(InvalidArgument, match="start"):
        session.open(mechanism)
    assert session.spent.charges == 0


@frozen
class Halved(Start):
    """A stranger's start: half of the records have a = 0."""

    def open(self, kernel, noise=None, allowance=None):
        facts = kernel.facts
        hypothesis = DenseHypothesis.uniform(facts.domain, outside=facts.outside)
        hypothesis.move_to(one(facts.domain, a=Range(5, 0, 1)), 0.5)
        return hypothesis


def test_a_strangers_start_needs_one_method():
    session = Session(small(), Budget(5), noise=seeded(1))
    channel = session.open(OnlinePMW(1, updates=3, start=Halved()))
    assert channel.marginal("a").values[0] == pytest.approx(0.5)
    assert session.spent.charges == 0
    # Nothing is known of how far it may be from the truth, so nothing can be promised.
    with pytest.raises(InvalidArgument, match="alpha"):
        OnlinePMW(1, start=Halved(), alpha=0.9, beta=0.1, queries=9).schedule(small(10**6).facts)


class Telling(Start):
    """A stranger's start that says, and opens to, what it was told."""

    def __init__(self, share=0, first=None):
        self.told, self.first = share, first

    @property
    def share(self):
        return self.told

    def price(self, noise, terms):
        return ()

    def open(self, kernel, noise=None, allowance=None):
        return self.first


@pytest.mark.parametrize("share", [None, "x", math.nan, math.inf, -1, 1, 2, Fraction(3, 2), []])
@pytest.mark.parametrize("given", [{"updates": 3}, {"alpha": 0.5, "beta": 0.1, "queries": 9}])
def test_a_share_that_is_none_is_refused_when_the_mechanism_is_made_or_asked(share, given):
    start = Telling(share)
    with pytest.raises(InvalidArgument, match="start must be one whose share"):
        OnlinePMW(1, start=start, **given)
    start.told = 0
    mechanism, session = OnlinePMW(1, start=start, **given), Session(small(), Budget(5))
    start.told = share
    with pytest.raises(InvalidArgument):
        session.open(mechanism)
    assert session.spent.charges == 0


@pytest.mark.parametrize("share", [0, "0.5"])
@pytest.mark.parametrize(
    "first",
    [
        None,
        "uniform",
        DenseHypothesis,
        SyntheticData(small().domain, [[0] * len(small().domain.attributes)]),
        DenseHypothesis.uniform(Domain(Integer("other", 0, 3))),
    ],
)
def test_what_is_no_hypothesis_for_the_table_is_no_first_one(share, first):
    session = Session(small(), Budget(5), noise=seeded(1))
    with pytest.raises(InvalidArgument, match="start must be one that opens to"):
        session.open(OnlinePMW(1, updates=3, start=Telling(share, first)))
    assert session.spent.charges == 0


def test_a_first_hypothesis_has_the_cell_outside_where_the_table_has_it():
    domain = Domain(Integer("x", 0, 3))
    data = PrivateData.from_columns({"x": [0, 1, 9]}, domain, outside="cell")
    session = Session(data, Budget(5), noise=seeded(1))
    with pytest.raises(InvalidArgument, match="cell outside"):
        session.open(OnlinePMW(1, updates=3, start=Telling(0, DenseHypothesis.uniform(domain))))
