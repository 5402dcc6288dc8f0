"""SmallDB: what opening costs and publishes, and what its channel answers and promises."""

import math
import pickle
from fractions import Fraction

import numpy as np
import pytest
from attrs import frozen

from dpsdk import (
    Budget,
    Categorical,
    Domain,
    Integer,
    Neighbors,
    PrivateData,
    Session,
    SyntheticData,
)
from dpsdk.accounting.guarantee import BoundedRangeGuarantee
from dpsdk.errors import (
    ExactSamplingInfeasible,
    InvalidArgument,
    NoBound,
    PublicSizeRequired,
    TooLarge,
)
from dpsdk.forms import Kronecker, LinearForm, Prefix
from dpsdk.kernel import DrawDatabase, Limits, Terms
from dpsdk.mechanisms import SmallDB
from dpsdk.observe import Charged, Opened, Progress
from dpsdk.queries import Conjunction, Count, Interval, Marginal, Threshold, Workload
from dpsdk.session.channel import DistributionChannel
from dpsdk.testing import seeded
from worlds import told

pytestmark = pytest.mark.thorough

LINE = Domain(Integer("age", 0, 19), Categorical("sex", ["F", "M"]))
THRESHOLDS = Workload(Threshold("age", t) for t in range(19))


def people(rows=2000, domain=LINE, **given):
    rng = np.random.default_rng(3)
    age = np.minimum(rng.geometric(0.2, rows) - 1, 19).tolist()
    sex = [["F", "M"][i] for i in rng.integers(0, 2, rows)]
    return PrivateData.from_columns({"age": age, "sex": sex}, domain, **given)


def session(data=None, *, observer=None, epsilon=10, seed=1):
    table = people() if data is None else data
    return Session(table, Budget(epsilon), noise=seeded(seed), observer=observer)


def private():
    return people(neighbors=Neighbors.ADD_REMOVE, max_rows=5000)


def test_opening_is_charged_once_and_answers_are_free():
    asked = session()
    mechanism = SmallDB(THRESHOLDS, epsilon="0.5")
    quote = asked.quote(Threshold("age", 3), using=mechanism)
    with asked.open(mechanism) as channel:
        assert isinstance(channel, DistributionChannel)
        for _ in range(3):
            release = channel.release(Threshold("age", 3))
            assert release.cost.nothing
            assert release.source == "fitted"
        channel.answer(Marginal("sex"))
    assert asked.spent.charges == 1
    assert asked.spent.epsilon == Fraction(1, 2)
    assert asked.history[0].cost.guarantees == (BoundedRangeGuarantee(Fraction(1, 2)),)
    assert quote.at_open == quote.at_most == asked.history[0].cost
    assert quote.error() == release.error()
    assert asked.affords(Count(), using=mechanism) == 19


def test_the_database_is_public_records_that_are_kept_in_files(tmp_path):
    channel = session().open(SmallDB(THRESHOLDS, epsilon=1, size=12))
    data = channel.distribution
    assert isinstance(data, SyntheticData)
    assert data.rows == 12
    assert data.counts("age").sum() + data.outside_count == 12
    assert len(data.to_columns()["age"]) + data.outside_count == 12
    data.save(tmp_path / "small")
    assert SyntheticData.load(tmp_path / "small") == data
    assert pickle.loads(pickle.dumps(data)) == data  # noqa: S301  # our own
    share = data.answers(Threshold("age", 4).lower(LINE))[0]
    assert channel.answer(Threshold("age", 4)) == pytest.approx(share)
    assert channel.marginal("sex").values.sum() == pytest.approx(1 - data.outside_mass)


@pytest.mark.parametrize("seed", range(5))
def test_answers_in_the_workload_are_within_their_bound(seed):
    data = people()
    ages = np.minimum(np.random.default_rng(3).geometric(0.2, 2000) - 1, 19)
    channel = session(data, seed=seed).open(SmallDB(THRESHOLDS, epsilon=2))
    release = channel.release(THRESHOLDS)
    truth = np.array([(ages <= t).mean() for t in range(19)])
    bound = release.error(0.01)
    assert np.abs(np.array(release.value) - truth).max() <= bound < 0.5
    assert (release.errors(0.01) == bound).all()
    assert release.bound(0.01).standing == "proven"


def test_a_query_is_in_the_workload_by_what_it_weighs():
    channel = session().open(SmallDB(THRESHOLDS, epsilon=1))
    inside = [
        Threshold("age", 5),
        Count({"age": range(6)}),
        Interval("age", 0, 5),
        Conjunction({"age": {0, 1, 2, 3, 4, 5}, "sex": {"F", "M"}}),
        Workload([Threshold("age", 7), Interval("age", 0, 2)]),
    ]
    errors = {channel.release(query).error() for query in inside}
    assert len(errors) == 1
    for query in [Count({"age": 5}), Marginal("sex"), Interval("age", 1, 5)]:
        release = channel.release(query)
        assert release.bound().standing == "none"
        with pytest.raises(NoBound, match="workload"):
            release.error()
    mixed = channel.release(Workload([Threshold("age", 5), Count({"age": 5})]))
    assert mixed.errors()[0] == errors.pop()
    assert mixed.errors()[1] == math.inf
    with pytest.raises(NoBound, match="1 of 2"):
        mixed.error()


def test_other_strengths_and_weights_are_other_functions():
    class Doubled(Threshold):
        def lower(self, domain):
            (block,) = super().lower(domain).blocks
            return LinearForm(domain, [Kronecker(block.names, block.factors, 2.0)])

    channel = session().open(SmallDB(THRESHOLDS, epsilon=1))
    assert channel.release(Doubled("age", 5)).bound().standing == "none"


@pytest.mark.parametrize(
    ("workload", "kind"),
    [
        (THRESHOLDS, "thresholds"),
        (Marginal("age"), "cells"),
        (Workload(Interval("age", a, a + 4) for a in range(12)), "intervals"),
        (Workload([Marginal("age"), Marginal("sex")]), "marginals"),
        (Workload([Count({"age": {1, 7}}), Count({"age": {3, 5}, "sex": "F"})]), "few functions"),
        (Workload([Count({"age": {i, i + 7}, "sex": "F"}) for i in range(5)]), "any functions"),
    ],
)
def test_every_class_of_workload_is_drawn_for(workload, kind):
    asked = session()
    form = workload.lower(LINE)
    assert DrawDatabase(form, 3, 1).price(Terms(asked.facts)).kind == kind
    channel = asked.open(SmallDB(workload, epsilon=1, size=3))
    assert channel.distribution.rows == 3
    assert channel.release(workload).bound().proven


def test_the_size_follows_from_alpha_and_from_public_rows():
    terms = Terms(people().facts)
    form = THRESHOLDS.lower(LINE)
    assert DrawDatabase.sized(form, 1, terms, alpha="0.01").size == 50
    assert DrawDatabase.sized(form, 1, terms, alpha=1).size == 1
    best = DrawDatabase.sized(form, 1, terms)
    errors = {m: DrawDatabase(form, m, 1).price(terms).bound.error(0.05) for m in range(1, 60)}
    assert errors[best.size] <= min(errors.values()) * Fraction(1002, 1000)
    more = DrawDatabase.sized(form, 100, terms).size
    assert more > best.size


def test_no_size_follows_from_private_rows():
    few = people(20, neighbors=Neighbors.ADD_REMOVE, max_rows=5000)
    many = private()
    for mechanism in (SmallDB(THRESHOLDS, epsilon=1), SmallDB(THRESHOLDS, epsilon=1, beta=0.2)):
        asked = session(many)
        with pytest.raises(PublicSizeRequired, match="size= or alpha="):
            asked.open(mechanism)
        with pytest.raises(PublicSizeRequired, match="size= or alpha="):
            asked.quote(Count(normalized=False), using=mechanism)
        assert asked.spent.charges == 0
    sizes = {
        session(data).open(SmallDB(THRESHOLDS, epsilon=1, alpha="0.05")).distribution.rows
        for data in (few, many)
    }
    assert sizes == {10}


def test_shares_alone_are_known_where_rows_are_private():
    asked = session(private())
    mechanism = SmallDB(THRESHOLDS, epsilon=1, size=10)
    assert asked.quote(Count(normalized=False), using=mechanism).bound().standing == "none"
    with asked.open(mechanism) as channel:
        assert channel.distribution.rows == 10
        with pytest.raises(PublicSizeRequired, match="private"):
            channel.answer(Count(normalized=False))
        assert 0 <= channel.distribution.answer(Threshold("age", 4).lower(LINE)) <= 1
    assert asked.spent.charges == 1


def test_rows_outside_the_domain_are_counted_as_everywhere():
    data = PrivateData.from_columns({"age": [99] * 900 + [3] * 100, "sex": ["F"] * 1000}, LINE)
    workload = Workload(Threshold("age", t) for t in range(20))
    channel = session(data).open(SmallDB(workload, epsilon=5))
    assert channel.distribution.outside
    assert channel.distribution.outside_mass > 0.5
    assert channel.answer(Threshold("age", 19)) < 0.5


def test_all_rows_outside_still_make_a_database():
    data = PrivateData.from_columns({"age": [99] * 5000, "sex": ["F"] * 5000}, LINE)
    data_ = session(data, epsilon=100).open(SmallDB(Count(), epsilon=50, size=3)).distribution
    assert (data_.rows, data_.outside_count) == (3, 3)


def test_no_rows_at_all_are_drawn_for():
    data = PrivateData.from_columns(
        {"age": [], "sex": []}, LINE, neighbors=Neighbors.ADD_REMOVE, max_rows=5000
    )
    channel = session(data).open(SmallDB(THRESHOLDS, epsilon=1, size=5))
    assert channel.distribution.rows == 5


def test_what_cannot_be_drawn_is_refused_before_any_charge():
    asked = session()
    hard = Workload([Count({"age": {i, i + 7}, "sex": "F"}) for i in range(12)])
    for mechanism in (
        SmallDB(hard, epsilon=1, size=200),
        SmallDB(THRESHOLDS, epsilon=1, size=10, limits=Limits(bytes=1)),
        SmallDB(THRESHOLDS, epsilon=1, limits=Limits(bytes=1)),
        SmallDB(hard, epsilon=1, alpha="0.001"),
    ):
        with pytest.raises(ExactSamplingInfeasible) as refused:
            asked.open(mechanism)
        assert refused.value.alternatives
        with pytest.raises(ExactSamplingInfeasible):
            asked.quote(Count(), using=mechanism)
    assert asked.spent.charges == 0
    assert asked.history == ()


@pytest.mark.parametrize(
    ("given", "parameter"),
    [
        ({"epsilon": 1, "size": 0}, "size"),
        ({"epsilon": 1, "size": 2**20 + 1}, "size"),
        ({"epsilon": 1, "size": 2.5}, "size"),
        ({"epsilon": 1, "alpha": 0}, "alpha"),
        ({"epsilon": 1, "alpha": "1.1"}, "alpha"),
        ({"epsilon": 1, "alpha": "0.1", "size": 3}, "size"),
        ({"epsilon": 1, "beta": 1}, "beta"),
        ({"epsilon": 1, "limits": 60}, "limits"),
    ],
)
def test_parameters_are_checked_when_they_are_given(given, parameter):
    with pytest.raises(InvalidArgument) as refused:
        SmallDB(THRESHOLDS, **given)
    assert refused.value.parameter == parameter


@pytest.mark.parametrize("value", [None, 3, "age", Workload, [THRESHOLDS]])
def test_a_workload_is_something_that_lowers(value):
    with pytest.raises(InvalidArgument, match="workload"):
        SmallDB(value, epsilon=1)


@pytest.mark.parametrize(
    "given", [{"seconds": math.inf}, {"seconds": 0}, {"seconds": 1e9}, {"bytes": 0},
              {"bytes": 2**60}, {"bytes": 1.5}, {"seconds": "60"}],
)  # fmt: skip
def test_limits_are_limited(given):
    with pytest.raises(InvalidArgument):
        Limits(**given)


@frozen
class Every:
    """All thresholds of an attribute, without being listed."""

    name: str

    def lower(self, domain, /):
        return LinearForm(
            domain, [Kronecker.of(domain, {self.name: Prefix(domain[self.name].size)})]
        )


def test_many_thresholds_of_a_large_universe_are_told_by_their_factors():
    domain = Domain(Integer("x", 0, 2**22 - 1))
    values = np.random.default_rng(1).integers(0, 2**22, 1000).tolist()
    data = PrivateData.from_columns({"x": values}, domain)
    channel = session(data).open(SmallDB(Every("x"), epsilon=1, size=20))
    assert channel.release(Threshold("x", 12345)).bound().proven
    assert channel.release(Count({"x": range(12346)})).bound().proven
    assert not channel.release(Count({"x": range(5, 99)})).bound().proven
    assert not channel.release(Count({"x": {3, 5}})).bound().proven


def test_thresholds_of_a_universe_of_2_to_the_62_cells():
    domain = Domain(Integer("x", 0, 2**62 - 1))
    values = [int(v) for v in np.random.default_rng(1).integers(0, 2**62, 500)]
    data = PrivateData.from_columns({"x": values}, domain)
    workload = Workload(Threshold("x", t * 2**57) for t in range(1, 32))
    channel = session(data).open(SmallDB(workload, epsilon=1, size=10))
    assert channel.distribution.rows == 10
    assert channel.release(Threshold("x", 2**57)).bound().proven


def test_records_that_synthetic_data_cannot_hold_are_refused_before_the_charge(monkeypatch):
    monkeypatch.setattr("dpsdk.mechanisms.smalldb._CODES", 9)
    asked = session()
    with pytest.raises(TooLarge):
        asked.open(SmallDB(THRESHOLDS, epsilon=1, size=5))
    assert asked.spent.charges == 0
    asked.open(SmallDB(THRESHOLDS, epsilon=1, size=4))


def test_progress_is_told_before_and_after_the_draw():
    events = []
    asked = session(observer=events.append)
    asked.open(SmallDB(THRESHOLDS, epsilon=1, size=5))
    told_ = [event for event in events if isinstance(event, Progress)]
    assert [(event.done, event.total, event.unit) for event in told_] == [
        (0, 1, "draws"),
        (1, 1, "draws"),
    ]
    assert [type(e) for e in events if isinstance(e, Charged | Opened)] == [Charged, Opened]


def test_whoever_stops_before_the_draw_has_paid_nothing():
    def stop(event):
        if isinstance(event, Progress) and not event.done:
            raise KeyboardInterrupt

    asked = session(observer=stop)
    with pytest.raises(KeyboardInterrupt) as stopped:
        asked.open(SmallDB(THRESHOLDS, epsilon=1, size=5))
    assert not getattr(stopped.value, "__notes__", [])
    assert asked.spent.charges == 0


def test_whoever_stops_within_the_draw_has_paid_and_is_told(monkeypatch):
    def stopped_draw(self, histogram, noise):
        raise KeyboardInterrupt

    monkeypatch.setattr("dpsdk.kernel.draw_database.structured.Structured.draw", stopped_draw)
    asked = session()
    with pytest.raises(KeyboardInterrupt) as stopped:
        asked.open(SmallDB(THRESHOLDS, epsilon=1, size=5))
    assert "still charged: 1-DP" in stopped.value.__notes__[0]
    assert asked.spent.charges == 1
    assert asked.history[0].answered is False


def test_nothing_private_is_told_when_a_draw_fails(monkeypatch):
    def failing(self, histogram, noise):
        raise ValueError(f"secret {histogram.rows}")

    monkeypatch.setattr("dpsdk.kernel.draw_database.structured.Structured.draw", failing)
    asked = session()
    error, text = told(lambda: asked.open(SmallDB(THRESHOLDS, epsilon=1, size=5)))
    assert type(error).__name__ == "ReleaseFailed"
    assert "secret" not in text


def test_the_theorem_of_dwork_and_roth_is_at_hand():
    rows = SmallDB.theorem_rows("0.1", 0.05, 1, functions=19, universe=21)
    assert rows > 10_000
    alpha = SmallDB.theorem_alpha(math.ceil(rows), 0.05, 1, functions=19, universe=21)
    assert alpha <= Fraction(101, 1000)
    data = people(math.ceil(rows))
    quote = session(data).quote(Threshold("age", 3), using=SmallDB(THRESHOLDS, epsilon=1))
    assert quote.error(0.05) < 0.1


def test_two_rows_a_person_take_twice_the_range():
    one, two = people(), people(unit_rows=2)
    mechanism = SmallDB(THRESHOLDS, epsilon=1, size=10)
    quotes = [session(d).quote(Threshold("age", 3), using=mechanism) for d in (one, two)]
    assert quotes[0].at_open == quotes[1].at_open
    assert quotes[1].error() > quotes[0].error()
