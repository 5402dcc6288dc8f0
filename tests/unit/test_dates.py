"""The attribute of dates: its cells, labels and written form."""

from datetime import UTC, date, datetime, timedelta
from itertools import pairwise
from zoneinfo import ZoneInfo

import numpy as np
import pandas as pd
import pytest
from attrs import evolve

import dpsdk.domain.zones as zones
from dpsdk import Date, Domain
from dpsdk.domain.calendar import UNITS, date_of, wall_of
from dpsdk.errors import DomainError, InvalidArgument, MissingExtra, UnknownLabel

LOW, HIGH = date(2024, 2, 15), date(2024, 3, 12)


def test_cells_are_the_units_from_the_one_of_low_to_the_one_of_high():
    for unit, low, high, size in (
        ("day", LOW, HIGH, 27),
        ("week", date(2024, 2, 12), date(2024, 3, 17), 5),
        ("month", date(2024, 2, 1), date(2024, 3, 31), 2),
    ):
        attribute = Date("d", LOW, HIGH, unit=unit)
        assert (attribute.low, attribute.high, attribute.size) == (low, high, size)
        assert attribute == Date("d", low, high, unit=unit) == evolve(attribute)
        assert hash(attribute) == hash(evolve(attribute))
    hours = Date("d", datetime(2024, 2, 28, 22, 59), datetime(2024, 3, 1, 1, 0, 1), unit="hour")
    assert (hours.low, hours.high) == (datetime(2024, 2, 28, 22), datetime(2024, 3, 1, 1))
    assert hours.size == 28
    assert hours != evolve(hours, zone="UTC")


@pytest.mark.parametrize("unit", UNITS)
def test_labels_are_numbered_in_order_and_found_again(unit):
    low, high = (
        (datetime(2023, 12, 30, 5), datetime(2024, 3, 2, 7))
        if unit == "hour"
        else (date(2023, 12, 30), date(2026, 3, 2))
    )
    attribute = Date("d", low, high, unit=unit)
    labels = attribute.labels
    assert len(set(labels)) == len(labels) == attribute.size
    assert all(one < other for one, other in pairwise(labels))
    assert [attribute.index(label) for label in labels] == list(range(attribute.size))
    assert all(type(label) is (datetime if unit == "hour" else date) for label in labels)
    if unit == "week":
        assert {label.weekday() for label in labels} == {0}
    if unit == "month":
        assert {label.day for label in labels} == {1}
    texts = [attribute.text(cell) for cell in range(attribute.size)]
    assert [datetime.fromisoformat(text) for text in texts] == [
        datetime(*label.timetuple()[:5]) for label in labels
    ]


@pytest.mark.parametrize("unit", UNITS)
def test_the_first_and_the_last_year_have_cells(unit):
    ends = (datetime.min, datetime.max) if unit == "hour" else (date.min, date.max)
    attribute = Date("d", *ends, unit=unit)
    for cell in (0, 1, attribute.size - 2, attribute.size - 1):
        assert attribute.index(attribute.label(cell)) == cell
    assert attribute.low == ends[0]
    assert Domain.from_json(Domain(attribute).to_json())["d"] == attribute


@pytest.mark.parametrize("unit", UNITS)
def test_one_time_and_many_are_numbered_alike(unit):
    rng = np.random.default_rng(4)
    ends = wall_of(date.min), wall_of(date.max) + 86_399
    walls = np.concatenate([ends, rng.integers(*ends, size=300), np.arange(-90_000, 90_000, 3599)])
    calendar = UNITS[unit]
    numbers = [calendar.number(wall) for wall in walls.tolist()]
    assert calendar.numbers(walls).tolist() == numbers
    for wall, number in zip(walls.tolist(), numbers, strict=True):
        assert calendar.start(number) <= wall < calendar.start(number + 1)
        day = date_of(wall // 86_400)
        if unit == "month":
            assert number == 12 * (day.year - 1970) + day.month - 1


def test_other_labels_are_refused():
    days = Date("d", LOW, HIGH)
    months = Date("d", LOW, HIGH, unit="month")
    hours = Date("d", datetime(2024, 2, 1), datetime(2024, 2, 2), unit="hour")
    for attribute, label in (
        (days, date(2024, 2, 14)),
        (days, datetime(2024, 2, 15)),
        (days, "2024-02-15"),
        (days, 0),
        (days, np.datetime64("2024-02-15")),
        (days, pd.NaT),
        (months, date(2024, 2, 15)),
        (hours, date(2024, 2, 1)),
        (hours, datetime(2024, 2, 1, 0, 30)),
        (hours, datetime(2024, 2, 1, 1, tzinfo=UTC)),
        (hours, pd.Timestamp("2024-02-01", tz="UTC")),
        (hours, pd.Timestamp(np.datetime64("12024-02-01", "s"))),
        (hours, pd.Timestamp("2024-02-01T05:00:00.000000001")),
    ):
        with pytest.raises(UnknownLabel, match="attribute 'd' has no label"):
            attribute.index(label)
    assert hours.index(pd.Timestamp("2024-02-01 05:00")) == 5
    with pytest.raises(UnknownLabel, match="date on which a month begins, from 2024-02-01 to 2024"):
        months.index(date(2024, 2, 15))


class Lying(datetime):
    """A time that says it is another one."""

    @property
    def hour(self):
        return 7

    def __eq__(self, other):
        return True

    def __hash__(self):
        return 0

    def toordinal(self):
        return 1

    def isoformat(self, *_, **__):
        return "lies"


def test_a_class_of_another_author_is_read_as_the_one_that_it_extends():
    attribute = Date("d", Lying(2024, 2, 1, 3), datetime(2024, 2, 2), unit="hour")
    assert type(attribute.low) is datetime
    assert attribute.low == datetime(2024, 2, 1, 3)
    assert attribute.index(Lying(2024, 2, 1, 5)) == 2


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"low": "2024-02-01"}, "low must be a date, and no datetime; got '2024-02-01'"),
        ({"low": datetime(2024, 2, 1)}, "low must be a date"),
        ({"high": 3}, "high must be a date"),
        ({"high": date(2024, 2, 14)}, "high must be at least low, which is 2024-02-15"),
        ({"unit": "year"}, 'unit must be "day", "week", "month" or "hour"'),
        ({"unit": ["day"]}, "unit must be"),
        ({"unit": "hour"}, "low must be a datetime without a zone"),
        ({"zone": "Mars/Olympus"}, "zone must be the name of a time zone"),
        ({"zone": "../../etc/passwd"}, "zone must be the name"),
        ({"zone": "/etc/localtime"}, "zone must be the name"),
        ({"zone": "right/UTC"}, "zone must be the name"),
        ({"zone": "localtime"}, "zone must be the name"),
        ({"zone": ""}, "zone must be the name"),
        ({"zone": ZoneInfo("UTC")}, "zone must be the name"),
        ({"zone": "A" * 500}, "zone must be the name"),
        ({"name": " "}, "name must be a non-empty text"),
    ],
)
def test_what_is_no_declaration_is_refused_by_name(given, message):
    with pytest.raises(InvalidArgument, match=message):
        Date(**{"name": "d", "low": LOW, "high": HIGH} | given)


def test_a_machine_without_time_zones_is_told_what_to_install(monkeypatch):
    def missing(name):
        raise zones.ZoneInfoNotFoundError(name)

    monkeypatch.setattr(zones, "ZoneInfo", missing)
    monkeypatch.setattr(zones, "available_timezones", set)
    with pytest.raises(MissingExtra, match="tzdata is not installed; install tzdata"):
        Date("d", LOW, HIGH, zone="Europe/Berlin")
    assert Date("d", LOW, HIGH).zone is None


def test_a_date_that_is_none_is_refused_in_a_file():
    text = Domain(Date("d", LOW, HIGH, zone="UTC")).to_json()
    for old, new in (
        ("2024-02-15", "2023-02-29"),
        ("2024-02-15", "2024-02-15T00:00"),
        ("2024-02-15", "20240215"),
        ("2024-02-15", "2024-02-14T24:00"),
        ('"day"', '"hour"'),
        ("UTC", "Nowhere"),
    ):
        assert old in text
        with pytest.raises(DomainError, match=r"attributes\[0\]"):
            Domain.from_json(text.replace(old, new))


SOME = ("America/St_Johns", "Australia/Lord_Howe", "Africa/Casablanca", "Pacific/Apia")
ALL = pytest.param(sorted(zones.available_timezones()), marks=pytest.mark.audit)


@pytest.mark.thorough
@pytest.mark.parametrize("names", [SOME, ALL])
def test_offsets_are_those_of_the_zone_at_any_time(names):
    rng = np.random.default_rng(7)
    epoch = datetime(1970, 1, 1, tzinfo=UTC)
    known = [name for name in names if name not in {"localtime", "Factory", "posixrules"}]
    for name in known:
        zone, start, stop = ZoneInfo(name), -3_200_000_000, 4_300_000_000
        found = zones.offsets(name, start, stop)
        assert all(one < other for one, other in pairwise(found.changes))
        near = [change + step for change in found.changes for step in (-1, 0, 1)]
        others = rng.integers(start, stop, size=2000 // len(known) + 50).tolist()
        for instant in [*near, *others]:
            there = (epoch + timedelta(seconds=instant)).astimezone(zone)
            assert found.at(instant) == there.utcoffset().total_seconds()
