"""Thresholds, intervals, conditions, quantiles and tables by date."""

import datetime as dt
from datetime import UTC, date, datetime, timedelta

import numpy as np
import pandas as pd
import pytest

from dpsdk import (
    Binned,
    Boolean,
    Budget,
    Date,
    Domain,
    Integer,
    PrivateData,
    Session,
    SyntheticData,
    wire,
)
from dpsdk.data.vault import open_histogram
from dpsdk.errors import InvalidArgument, QueryError, UnknownLabel, WireError
from dpsdk.losses import SquaredLoss
from dpsdk.mechanisms import Laplace, NoisyHistogram
from dpsdk.queries import (
    Ball,
    Between,
    Conjunction,
    ConvexMinimization,
    Count,
    DateQuantile,
    Interval,
    Marginal,
    Mean,
    Median,
    Not,
    OneHot,
    Quantile,
    Scaled,
    Sum,
    Threshold,
    Workload,
)
from dpsdk.testing import seeded

QUIET = Laplace(epsilon=10**7)
DAYS = Date("c", date(2024, 2, 26), date(2024, 4, 2))
WEEKS = Date("c", date(2024, 2, 26), date(2024, 4, 2), unit="week")
MONTHS = Date("c", date(2024, 1, 1), date(2024, 12, 1), unit="month")
HOURS = Date("c", datetime(2024, 2, 27, 20), datetime(2024, 2, 29, 3), unit="hour")
EACH = (DAYS, WEEKS, MONTHS, HOURS)


def picked(query, attribute):
    """The labels of an attribute that a query counts, in order."""
    domain = Domain(attribute)
    (block,) = query.lower(domain).blocks
    line = dict(zip(block.names, block.factors, strict=True))["c"].matrix()[0]
    return [label for label, weight in zip(attribute.labels, line, strict=True) if weight]


def end_of(attribute, label):
    """When the unit of a label is over."""
    if attribute.unit == "month":
        return (label + timedelta(days=31)).replace(day=1)
    lengths = {"day": timedelta(1), "week": timedelta(7), "hour": timedelta(hours=1)}
    return label + lengths[attribute.unit]


def at_midnight(day):
    return day if isinstance(day, datetime) else datetime(day.year, day.month, day.day)


@pytest.mark.parametrize("attribute", EACH, ids=lambda a: a.unit)
def test_a_threshold_counts_the_units_that_end_by_the_end_of_a_day(attribute):
    ends = [at_midnight(end_of(attribute, label)) for label in attribute.labels]
    begin, end = at_midnight(attribute.label(0)), ends[-1]
    day = begin.date() - timedelta(40)
    while day < end.date() + timedelta(40):
        cut = at_midnight(day + timedelta(1))
        query = Threshold("c", day)
        if cut in {begin, *ends} or not begin < cut < end:
            whole = [x for x, stop in zip(attribute.labels, ends, strict=True) if stop <= cut]
            assert picked(query, attribute) == whole
        else:
            with pytest.raises(QueryError, match="cuts through one"):
                query.lower(Domain(attribute))
        day += timedelta(9 if attribute.unit == "month" else 1)


def test_a_time_cuts_hours_where_it_is():
    at = datetime(2024, 2, 28, 5)
    assert picked(Threshold("c", at), HOURS)[-1] == datetime(2024, 2, 28, 4)
    assert picked(Interval("c", at, at + timedelta(hours=3)), HOURS) == [
        at, at + timedelta(hours=1), at + timedelta(hours=2),
    ]  # fmt: skip
    assert picked(Interval("c", date(2024, 2, 28), date(2024, 2, 28)), HOURS) == [
        datetime(2024, 2, 28, hour) for hour in range(24)
    ]
    assert picked(Threshold("c", datetime(2030, 1, 1, 0, 0, 1)), HOURS) == list(HOURS.labels)
    assert picked(Threshold("c", datetime(2020, 1, 1, 0, 0, 1)), HOURS) == []
    low = datetime(2024, 2, 27, 20)
    assert picked(Threshold("c", low), HOURS) == []
    for cut in (low + timedelta(microseconds=1), at.replace(minute=1), at.replace(second=1)):
        with pytest.raises(QueryError, match="is not where an hour of 'c' begins"):
            Threshold("c", cut).lower(Domain(HOURS))


def test_intervals_and_conditions_by_date():
    first, last = date(2024, 3, 4), date(2024, 3, 10)
    week = [first + timedelta(n) for n in range(7)]
    assert picked(Interval("c", first, last), DAYS) == week
    assert picked(Interval("c", first, last), WEEKS) == [first]
    assert picked(Conjunction({"c": Between(first, last)}), DAYS) == week
    assert picked(Count(where={"c": Between(date(1, 1, 1), first)}), DAYS)[-1] == first
    assert picked(Count(where={"c": Not(Between(first, last))}), WEEKS) == [
        label for label in WEEKS.labels if label != first
    ]
    assert picked(Conjunction({"c": {first, last}}), DAYS) == [first, last]
    assert picked(Conjunction({"c": first}), DAYS) == [first]
    quarter = Between(date(2024, 4, 1), date(2024, 6, 30))
    assert picked(Conjunction({"c": quarter}), MONTHS) == [date(2024, m, 1) for m in (4, 5, 6)]
    for attribute in (WEEKS, MONTHS):
        for low, high in ((first + timedelta(1), last), (first, last + timedelta(1))):
            with pytest.raises(QueryError, match="so it cuts through one"):
                Interval("c", low, high).lower(Domain(attribute))


def test_between_holds_numbers_and_bins_too():
    integers, bins = Integer("c", 10, 20), Binned("c", [0, 1, 2, 4])
    assert picked(Conjunction({"c": Between(12, 14.5)}), integers) == [12, 13, 14]
    assert picked(Conjunction({"c": Between(12, 14)}), integers) == picked(
        Interval("c", 12, 14), integers
    )
    assert picked(Conjunction({"c": Between(1, 9)}), bins) == [(1.0, 2.0), (2.0, 4.0)]


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Threshold("c", "2024-03-01"), "threshold must be a finite number"),
        (lambda: Threshold("c", datetime(2024, 3, 1, tzinfo=UTC)), "datetime without a zone"),
        (lambda: Threshold("c", pd.NaT), "threshold must be a date, or a datetime without"),
        (lambda: Threshold("c", np.datetime64("2024-03-01")), "threshold must be a finite number"),
        (lambda: Interval("c", date(2024, 3, 2), date(2024, 3, 1)), "high must be at least low"),
        (lambda: Interval("c", date(2024, 3, 2), 3), "high must be a date, as low is; got 3"),
        (lambda: Interval("c", 3, date(2024, 3, 2)), "high must be a float, as low is"),
        (lambda: Between(date(2024, 3, 2), datetime(2024, 3, 3)), "high must be a date, as low is"),
        (lambda: Between(3, 2), "high must be at least low, which is 3"),
        (lambda: Between("a", "b"), "low must be a finite number"),
        (lambda: Conjunction({"c": datetime(2024, 3, 1, tzinfo=UTC)}), "as a label has no zone"),
    ],
)
def test_what_is_no_place_is_refused_at_once(make, message):
    with pytest.raises(InvalidArgument, match=message):
        make()


@pytest.mark.parametrize(
    ("query", "attribute", "message"),
    [
        (Threshold("c", 5), DAYS, "is of dates, and 5 is a number"),
        (Threshold("c", date(2024, 3, 1)), Integer("c", 1, 5), "is of numbers, and has no dates"),
        (Threshold("c", date(2024, 3, 1)), Boolean("c"), "has no order"),
        (Threshold("c", datetime(2024, 3, 1)), DAYS, "is a time; give a date"),
        (Conjunction({"c": Between(date(2023, 1, 1), date(2023, 2, 1))}), DAYS, "holds no label"),
        (Conjunction({"c": Between(1, 2)}), Boolean("c"), "has no order"),
        (Mean("c"), DAYS, "is of dates, which are not added up; for what lies in the middle"),
        (Sum("c"), HOURS, "is of dates, which are not added up"),
        (Quantile("c", 0.5), DAYS, "attribute 'c' is of dates; ask DateQuantile"),
        (Median("c"), MONTHS, "attribute 'c' is of dates; ask DateQuantile"),
        (DateQuantile("c", 0.5), Integer("c", 1, 5), "attribute 'c' is not of dates; ask Quantile"),
    ],
)
def test_what_has_no_meaning_along_an_attribute_is_refused_by_name(query, attribute, message):
    with pytest.raises(QueryError, match=message):
        query.lower(Domain(attribute))


def test_labels_that_a_condition_does_not_find_are_explained():
    for wanted, message in (
        (date(2025, 1, 1), "a date from 2024-02-26 to 2024-04-02"),
        (range(3), "a date or a set of dates, or Between two of them: 2024-02-26"),
        (
            (date(2024, 3, 1), date(2024, 3, 2)),
            "for all from 2024-03-01 to 2024-03-02 write Between",
        ),
    ):
        with pytest.raises((UnknownLabel, InvalidArgument), match=message):
            Conjunction({"c": wanted}).lower(Domain(DAYS))


def test_a_time_of_any_precision_is_written_and_read_to_the_letter():
    at = datetime(2024, 2, 29)
    for end in (at, at.replace(minute=1), at.replace(second=1), at.replace(microsecond=50)):
        query = Interval("c", at, end)
        assert wire.loads(Interval, wire.dumps(query)) == query
    text = wire.dumps(Threshold("c", at))
    assert "2024-02-29T00:00" in text
    for wrong in ("00:00:00", "24:00", "00:60", "00:00:60", "00:00:01.5", "00:00Z", "00:00+00:00"):
        with pytest.raises(WireError):
            wire.loads(Threshold, text.replace("00:00", wrong))


def test_questions_are_equal_if_they_ask_the_same_and_print_what_makes_them():
    class Today(date):
        pass

    first, last = date(2024, 3, 4), date(2024, 3, 10)
    same = Today(2024, 3, 4)
    for query, other in (
        (Threshold("c", first), Threshold("c", same)),
        (Interval("c", first, last), Interval("c", same, last)),
        (Between(first, last), Between(same, last)),
        (Conjunction({"c": first}), Conjunction({"c": same})),
        (DateQuantile("c", 0.25), DateQuantile("c", "0.25")),
    ):
        assert query == other
        assert hash(query) == hash(other)
        assert repr(query) == repr(other)
        if not isinstance(query, Conjunction):
            assert eval(repr(query), globals() | {"datetime": dt}) == query  # noqa: S307
    assert Quantile("c", 0.25) != DateQuantile("c", 0.25)


@pytest.mark.parametrize("attribute", EACH, ids=lambda a: a.unit)
def test_a_quantile_of_dates_is_the_label_in_which_the_share_is_reached(attribute):
    rng = np.random.default_rng(5)
    codes = np.sort(rng.integers(0, attribute.size, 400))
    labels = [attribute.label(code) for code in codes.tolist()]
    domain = Domain(attribute, Boolean("bit"))
    bits = [place % 3 == 0 for place in range(400)]
    data = PrivateData.from_columns({"c": labels, "bit": bits}, domain, outside="raise")
    session = Session(data, Budget(10**9), noise=seeded(2))
    for q in (0.001, 0.25, 0.5, 0.9):
        release = session.release(DateQuantile("c", q), using=QUIET)
        assert release.value == labels[int(np.ceil(q * 400)) - 1]
        low, high = release.interval()
        assert low <= release.value <= high
        assert 0 <= release.error() < 2
    some = [label for label, bit in zip(labels, bits, strict=True) if bit]
    asked = DateQuantile("c", 0.5, where={"bit": True})
    assert session.answer(asked, using=QUIET) == some[(len(some) + 1) // 2 - 1]
    loud = session.release(asked, using=Laplace(epsilon="0.0001"))
    assert loud.value is None
    assert loud.interval() == (attribute.label(0), attribute.label(attribute.size - 1))
    assert loud.error() == attribute.size - 1


def test_tables_workloads_and_samples_by_date():
    domain = Domain(MONTHS, Boolean("bit"))
    labels = [date(2024, month, 1) for month in (3, 3, 5)]
    data = PrivateData.from_columns({"c": labels, "bit": [True, False, True]}, domain)
    session = Session(data, Budget(10**9), noise=seeded(3))
    table = session.answer(Marginal("c", "bit"), using=QUIET)
    assert table[date(2024, 3, 1), True] == pytest.approx(1 / 3, abs=1e-4)
    assert "2024-03-01  True" in repr(table)
    frame = table.to_frame("pandas")
    assert frame["c"].iloc[4].date() == date(2024, 3, 1)
    ends = [date(2024, 3, 31), date(2024, 5, 31)]
    shares = session.answer(Workload([Threshold("c", end) for end in ends]), using=QUIET)
    assert list(shares) == pytest.approx([2 / 3, 1], abs=1e-4)
    histogram = session.open(NoisyHistogram(epsilon=10**6))
    asked = DateQuantile("c", 0.9)
    assert histogram.answer(asked) == date(2024, 5, 1)
    rows = histogram.distribution.sample(40, seed=1)
    assert set(rows["c"]) == {date(2024, 3, 1), date(2024, 5, 1)}
    for backend, kind in (("polars", "Date"), ("pandas", "datetime64[us]"), ("pyarrow", "date32")):
        frame = SyntheticData(domain, [[2, 0], [4, 1], [4, 1]]).to_frame(backend)
        assert kind in str(getattr(frame, "dtypes", None)) + str(getattr(frame, "schema", None))
        again = PrivateData.from_frame(frame, domain, outside="raise")
        assert open_histogram(again).table(("c",)).tolist() == [0, 0, 1, 0, 2] + [0] * 7


def test_a_date_is_a_feature_that_counts_its_units():
    domain = Domain(MONTHS)
    values = Scaled("c").values(domain)
    assert values.shape == (1, 12)
    assert values[0] == pytest.approx(np.linspace(-1, 1, 12))
    assert Scaled("c").labels(domain) == ["c"]
    assert OneHot("c").labels(domain)[2] == "c=2024-03-01"
    one = Date("c", date(2024, 1, 1), date(2024, 1, 1))
    assert Scaled("c").values(Domain(one)).tolist() == [[0.0]]
    target = Domain(MONTHS, Integer("age", 0, 9))
    ConvexMinimization(SquaredLoss(), features=["c"], label="age", over=Ball(1)).lower(target)
    other = ConvexMinimization(SquaredLoss(), features=["age"], label="c", over=Ball(1))
    with pytest.raises(QueryError, match="12 labels that are no numbers"):
        other.lower(target)
