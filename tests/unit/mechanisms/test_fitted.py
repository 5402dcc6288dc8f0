"""Answers read off a distribution that stays as it is, and the channel that shows it."""

import math
from threading import Thread

import numpy as np
import pytest
from attrs import frozen

from dpsdk import (
    Boolean,
    Budget,
    DistributionChannel,
    Domain,
    HypothesisChannel,
    Integer,
    Neighbors,
    PrivateData,
    Session,
    SyntheticData,
)
from dpsdk.errors import Closed, InvalidArgument, PublicSizeRequired, TooLarge, UnknownAttribute
from dpsdk.hypothesis import PiecewiseHypothesis
from dpsdk.mechanisms import DistributionMechanism, Fitted, OnlinePMW
from dpsdk.queries import Count, Marginal, MarginalTable, Sum, Threshold, Workload
from dpsdk.release import Cost, HalfWidths, Quote
from dpsdk.testing import seeded

DOMAIN = Domain(Integer("age", 17, 90), Boolean("member"))
RECORDS = SyntheticData(DOMAIN, [[0, 0], [3, 1], [3, 1], [60, 0]], outside_count=1)
COLUMNS = {"age": [20] * 40 + [99] * 10, "member": [True] * 50}


@frozen
class Known(DistributionMechanism):
    """Answer from a given distribution, and pay nothing."""

    distribution: object
    rows: float | None = None

    def quote(self, form, facts, /):
        return Quote(Cost(), Cost(), self.distribution.accuracy(form, facts))

    def open(self, kernel, /):
        return Fitted(self.distribution, self.rows)


def session(neighbors=Neighbors.REPLACE_ONE):
    data = PrivateData.from_columns(COLUMNS, DOMAIN, neighbors=neighbors)
    return Session(data, Budget(epsilon=1), noise=seeded(1))


def test_every_linear_query_is_answered_from_the_distribution_free():
    asked = session()
    channel = asked.open(Known(RECORDS))
    assert type(channel) is DistributionChannel
    assert channel.answer(Threshold("age", 20)) == pytest.approx(0.6)
    assert channel.answer(Count(where={"member": True}, normalized=False)) == pytest.approx(20)
    assert channel.answer(Sum("age", normalized=False)) == pytest.approx(50 / 5 * (17 + 40 + 77))
    table = channel.answer(Marginal("member", "age"))
    assert table.values == pytest.approx(RECORDS.table(("member", "age")))
    workload = Workload(Threshold("age", t) for t in range(17, 91))
    assert channel.answer(workload)[-1] == pytest.approx(0.8)
    assert asked.answer(Threshold("age", 20), using=channel) == pytest.approx(0.6)
    assert asked.spent.charges == 0
    assert {entry.cost.free for entry in asked.history} == {True}


def test_a_release_says_that_it_was_fitted_and_that_nothing_is_known_of_its_error():
    release = session().open(Known(RECORDS)).release(Threshold("age", 20))
    assert release.source == "fitted"
    bound = release.bound()
    assert (bound.error, bound.proven, bound.vacuous) == (math.inf, False, True)
    assert bound.kind == "read off a distribution, and never compared"
    assert "fitted by" in repr(release)
    assert release == session().open(Known(RECORDS)).release(Threshold("age", 20))


@frozen
class Ten(HalfWidths):
    entries: int
    kind = "known"
    standing = "proven"

    def radii(self, beta, *, joint):
        return np.full(self.entries, 10.0)


class Sure(PiecewiseHypothesis):
    """A distribution that knows how far off it is."""

    def accuracy(self, form, facts):
        return Ten(form.rows)


def test_what_a_distribution_knows_of_its_error_is_said():
    domain = Domain(Integer("age", 17, 90))
    data = PrivateData.from_columns({"age": COLUMNS["age"]}, domain)
    asked = Session(data, Budget(epsilon=1), noise=seeded(1))
    mechanism = Known(Sure.uniform(domain, outside=True))
    release = asked.open(mechanism).release(Threshold("age", 20))
    assert release.error(0.05) == 10 / 50
    assert release.bound().proven
    assert asked.quote(Threshold("age", 20), using=mechanism).error(0.05) == 10 / 50


def test_a_private_number_of_rows_must_be_given_another_way():
    asked = session(Neighbors.ADD_REMOVE)
    query = Count(where={"member": True}, normalized=False)
    with pytest.raises(PublicSizeRequired, match="shares"):
        asked.open(Known(RECORDS)).answer(query)
    assert asked.open(Known(RECORDS, RECORDS.rows)).answer(query) == pytest.approx(2)


def test_the_channel_tabulates_and_samples_its_distribution():
    channel = session().open(Known(RECORDS))
    assert channel.distribution is RECORDS
    marginal = channel.marginal("member", "age")
    assert isinstance(marginal, MarginalTable)
    assert marginal.values == pytest.approx(RECORDS.table(("member", "age")))
    assert channel.sample(20, seed=3) == RECORDS.sample(20, seed=3)
    with pytest.raises(UnknownAttribute):
        channel.marginal("sex")
    with pytest.raises(InvalidArgument):
        channel.marginal("age", "age")
    with pytest.raises(TooLarge):
        channel.sample(2**40)
    assert not hasattr(channel, "hypothesis")
    channel.close()
    with pytest.raises(Closed):
        channel.answer(Count())
    # What is public stays readable.
    assert channel.distribution is RECORDS


def test_a_hypothesis_is_the_distribution_of_its_channel():
    channel = session().open(OnlinePMW(1, updates=3, start=RECORDS))
    assert type(channel) is HypothesisChannel
    assert isinstance(channel, DistributionChannel)
    names = DOMAIN.names
    assert np.array_equal(channel.distribution.table(names), channel.hypothesis.table(names))
    assert channel.sample(5, seed=1) == channel.hypothesis.sample(5, seed=1)


def test_threads_may_read_one_distribution():
    form, wanted, got = Threshold("age", 20).lower(DOMAIN), RECORDS.sample(50, 3), []

    def read():
        got.extend(
            (RECORDS.sample(50, 3) == wanted, RECORDS.answer(form), hash(RECORDS))
            for _ in range(50)
        )

    threads = [Thread(target=read) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert set(got) == {(True, 0.6, hash(RECORDS))}
    assert len(got) == 200
