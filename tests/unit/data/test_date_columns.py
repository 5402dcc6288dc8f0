"""Dates and times in a table: the same cell by every door, in every type that holds them."""

import functools
from datetime import UTC, date, datetime, timedelta, timezone
from zoneinfo import ZoneInfo

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from tables_loaded import cells, from_bytes

from dpsdk import Boolean, Categorical, Date, Domain, Integer, PrivateData
from dpsdk.data.columns import Kind
from dpsdk.data.matching import make_matcher
from dpsdk.data.moments import moment_of, read_moment
from dpsdk.data.readers import read_codes
from dpsdk.data.texts import TextFormat
from dpsdk.errors import DataError, InvalidArgument
from worlds import repeatable

ZONES = [
    "UTC", "Europe/Berlin", "Asia/Kathmandu", "Australia/Lord_Howe", "America/St_Johns",
    "Africa/Casablanca", "Pacific/Apia", "America/New_York",
]  # fmt: skip
ENDS = {
    "day": (date(2011, 12, 20), date(2012, 1, 10)),
    "week": (date(2006, 10, 20), date(2012, 4, 10)),
    "month": (date(1890, 1, 20), date(2012, 4, 10)),
    "hour": (datetime(2006, 10, 28, 20), datetime(2006, 11, 6, 3)),
}


def expected(attribute, value):
    """Where a value belongs, read slowly off the clock on the wall; -1 is outside."""
    if not isinstance(value, date):
        return -1
    if isinstance(value, datetime):
        if value.tzinfo is not None:
            if attribute.zone is None:
                return -1
            try:
                value = value.astimezone(ZoneInfo(attribute.zone)).replace(tzinfo=None)
            except OverflowError:
                return -1
        day = value.date()
    elif attribute.unit == "hour":
        return -1
    else:
        day = value
    begins = {
        "day": day,
        "week": date.fromordinal(max(day.toordinal() - day.weekday(), 1)),
        "month": day.replace(day=1),
        "hour": datetime(day.year, day.month, day.day, getattr(value, "hour", 0)),
    }[attribute.unit]
    first = attribute.label(0)
    if not first <= begins <= attribute.label(attribute.size - 1):
        return -1
    if attribute.unit == "month":
        return 12 * (begins.year - first.year) + begins.month - first.month
    length = {"day": 86_400, "week": 7 * 86_400, "hour": 3600}[attribute.unit]
    return round((begins - first).total_seconds()) // length


def attributes():
    for place, (unit, ends) in enumerate(ENDS.items()):
        yield Date("c", *ends, unit=unit)
        for zone in ZONES[place % 2 :: 2]:
            yield Date("c", *ends, unit=unit, zone=zone)


DAYS = [
    date(2011, 12, 29), date(2011, 12, 30), None, date(2012, 1, 1), date(1890, 1, 1),
    date(1969, 12, 31), date(2006, 10, 29), date(1800, 1, 1), date(9999, 12, 31), date(1, 1, 1),
]  # fmt: skip
TIMES = [
    datetime(2011, 12, 30, 9, 59, 59, 999_999), datetime(2011, 12, 30, 10), None,
    datetime(2006, 10, 29, 2, 30), datetime(2006, 10, 29, 2, 31, fold=1),
    datetime(1969, 12, 31, 23),
    datetime(2006, 10, 29, 4, 1), datetime(2012, 1, 1), datetime(1890, 1, 1, 0, 0, 1),
    datetime(1, 1, 1), datetime(9999, 12, 31, 23, 59, 59), datetime(2006, 11, 4, 14, 59, 59),
]  # fmt: skip
INSTANTS = [None if time is None else time.replace(tzinfo=UTC) for time in TIMES]


def zoned(zone):
    rules = zone if isinstance(zone, timezone) else ZoneInfo(zone)
    return [None if t is None or t.year in {1, 9999} else t.astimezone(rules) for t in INSTANTS]


def texts(values, sep="T"):
    return ["" if v is None else v.isoformat() if sep == "T" else str(v) for v in values]


def doors():
    """What holds a column, whether its type tells it apart, and the values that it holds."""
    near = [t for t in TIMES if t is None or t.year not in {1, 9999, 1890}]
    utc = [None if t is None else t.replace(tzinfo=UTC) for t in near]
    for name, values, kind in (("days", DAYS, "D"), ("times", TIMES, "us")):
        yield f"list of {name}", values, values
        yield f"texts of {name}", texts(values), values
        yield f"texts of {name} with a space", texts(values, " "), values
        yield f"texts of {name} in Polars", pl.Series(texts(values)), values
        yield f"numpy {name}", np.array(values, dtype=f"M8[{kind}]"), values
        yield (
            f"numpy {name}, other ends",
            np.array(values, f"M8[{kind}]").astype(f">M8[{kind}]"),
            values,
        )
        yield f"Polars {name}", pl.Series(values), values
        yield f"pyarrow {name}", pa.array(values), values
        yield f"chunks of {name}", pa.chunked_array([values[:3], values[3:]]), values
        arrow = pa.date32() if kind == "D" else pa.timestamp("us")
        yield f"pandas of pyarrow {name}", pd.Series(values, dtype=pd.ArrowDtype(arrow)), values
        yield f"pandas objects, {name}", pd.Series(values, dtype=object), values
        yield f"dictionary of {name}", pa.array(values).dictionary_encode(), values
    yield "categories", pd.Series(np.array(TIMES, dtype="M8[us]")).astype("category"), TIMES
    yield "numpy seconds", np.array(TIMES, dtype="M8[s]"), TIMES
    yield "numpy of 7 seconds", np.array([0, 7, -1], dtype="M8[7s]"), [
        datetime(1970, 1, 1), datetime(1970, 1, 1, 0, 0, 49), datetime(1969, 12, 31, 23, 59, 53),
    ]  # fmt: skip
    yield (
        "masked",
        np.ma.array(np.array(DAYS, dtype="M8[D]"), mask=[True] + [False] * 9),
        [None, *DAYS[1:]],
    )
    yield "numpy months", np.array([480, 503, -960], dtype="M8[M]"), [
        date(2010, 1, 1), date(2011, 12, 1), date(1890, 1, 1),
    ]  # fmt: skip
    yield "numpy nanoseconds", np.array(near, dtype="M8[ns]"), near
    yield "pandas nanoseconds", pd.Series(near, dtype="M8[ns]"), near
    yield "Polars nanoseconds", pl.Series(near).cast(pl.Datetime("ns")), near
    yield "Polars milliseconds", pl.Series(near).cast(pl.Datetime("ms")), near
    yield "pyarrow nanoseconds", pa.array(near, type=pa.timestamp("ns")), near
    yield "pyarrow date64", pa.array(DAYS, type=pa.date64()), DAYS
    yield "instants", INSTANTS, INSTANTS
    yield "texts of instants", texts(INSTANTS), INSTANTS
    yield "texts of Z", [text.replace("+00:00", "Z") for text in texts(INSTANTS)], INSTANTS
    yield "Polars instants", pl.Series(INSTANTS, dtype=pl.Datetime("us", "UTC")), INSTANTS
    yield "pyarrow instants", pa.array(INSTANTS, type=pa.timestamp("us", "UTC")), INSTANTS
    for zone in ("Asia/Ho_Chi_Minh", "America/New_York", "Australia/Lord_Howe"):
        there = [None if t is None else t.astimezone(ZoneInfo(zone)) for t in utc]
        yield f"list in {zone}", there, there
        yield f"texts in {zone}", texts(there), there
        yield f"pandas in {zone}", pd.Series(utc, dtype="M8[ns, UTC]").dt.tz_convert(zone), utc
        yield f"pandas objects in {zone}", list(pd.Series(utc).dt.tz_convert(zone)), utc
        yield f"Polars in {zone}", pl.Series(utc).dt.convert_time_zone(zone), utc
        listed = pd.Series(utc, dtype="M8[ns, UTC]").dt.tz_convert(zone).astype("category")
        yield f"categories in {zone}", listed, utc
        listed = pa.array(utc, type=pa.timestamp("us", zone)).dictionary_encode()
        yield f"dictionary in {zone}", listed, utc
        yield (
            f"pandas of a dictionary in {zone}",
            pd.Series(pd.arrays.ArrowExtensionArray(listed)),
            utc,
        )
        yield f"pyarrow in {zone}", pa.array(utc, type=pa.timestamp("ms", zone)), utc
        arrow = pd.ArrowDtype(pa.timestamp("us", zone))
        yield f"pandas of pyarrow in {zone}", pd.Series(utc, dtype=arrow), utc
    odd = zoned(timezone(timedelta(hours=-3, minutes=-30, seconds=-7)))
    yield "list of an odd offset", odd, odd


DOORS = {name: (column, values) for name, column, values in doors()}


@pytest.mark.thorough(quick=12)
@pytest.mark.parametrize("name", DOORS)
def test_a_column_has_the_same_cells_by_every_door(name):
    column, values = DOORS[name]
    for attribute in attributes():
        try:
            found = read_codes({"c": column}, [attribute])["c"].tolist()
        except DataError as error:
            wanted = {"times without a zone, or declare", "times"}
            assert any(f"give {one}" in error.reason for one in wanted)  # noqa: PT017
            # Nothing in a column that is refused could match.
            assert [expected(attribute, value) for value in values] == [-1] * len(values)
            continue
        assert found == [expected(attribute, value) for value in values], attribute


@pytest.mark.parametrize(
    "name", ["texts of times", "texts of instants", "texts in America/New_York"]
)
def test_a_file_has_the_same_cells(name, tmp_path):
    column, values = DOORS[name]
    attribute = Date("c", *ENDS["week"], unit="week", zone="America/St_Johns")
    content = "c,n\n" + "".join(f"{text},0\n" for text in column)
    wanted = [expected(attribute, value) for value in values]
    inside, outside = cells(from_bytes(tmp_path, content.encode(), Domain(attribute)))
    assert inside == [wanted.count(cell) for cell in range(attribute.size)]
    assert outside == wanted.count(-1)


@functools.cache
def _matcher(unit, zone):
    low, high = (datetime(1970, 1, 1), datetime(2013, 1, 1))
    if unit != "hour":
        low, high = low.date(), high.date()
    attribute = Date("c", low, high, unit=unit, zone=zone)
    return attribute, make_matcher(attribute, TextFormat(), clip=False)


@pytest.mark.thorough
@repeatable
@given(
    unit=st.sampled_from(sorted(ENDS)),
    zone=st.sampled_from(ZONES),
    near=st.integers(0, 10**6),
    beside=st.integers(-7300, 7300),
)
@example(unit="day", zone="America/St_Johns", near=0, beside=0)
def test_instants_about_the_changes_of_a_zone(unit, zone, near, beside):
    attribute, matcher = _matcher(unit, zone)
    changes = zones_of(zone)
    instant = (changes[near % len(changes)] if changes else near * 1000) + beside
    value = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(seconds=instant)
    cell = matcher.moment(moment_of(value))
    assert cell == expected(attribute, value)
    assert matcher.moments(Kind.ZONED_TIME, np.array([instant])).tolist() == [cell]
    assert matcher.moment(read_moment(value.isoformat())) == cell


@functools.cache
def zones_of(zone):
    from dpsdk.domain.zones import offsets

    return offsets(zone, 0, 1_350_000_000).changes


def test_the_hour_that_comes_twice_is_one_cell_and_one_that_is_skipped_is_empty():
    attribute = Date(
        "c", datetime(2024, 3, 31), datetime(2024, 10, 27, 23), unit="hour", zone="Europe/Berlin"
    )
    start = datetime(2024, 10, 26, 22, tzinfo=UTC)
    instants = [start + timedelta(minutes=30 * place) for place in range(50)]
    codes = read_codes({"c": instants}, [attribute])["c"].tolist()
    last = attribute.index(datetime(2024, 10, 27))
    assert [codes.count(last + hour) for hour in range(24)] == [2, 2, 4] + [2] * 21
    start = datetime(2024, 3, 30, 23, tzinfo=UTC)
    instants = [start + timedelta(minutes=30 * place) for place in range(46)]
    codes = read_codes({"c": instants}, [attribute])["c"].tolist()
    assert [codes.count(hour) for hour in range(24)] == [2, 2, 0] + [2] * 21
    # What a clock shows that never was is still what it shows.
    assert read_codes({"c": [datetime(2024, 3, 31, 2, 30)]}, [attribute])["c"].tolist() == [2]


READ = {
    "2024-03-31": (Kind.DATE, 1711843200),
    "0001-01-01": (Kind.DATE, -62135596800),
    "9999-12-31": (Kind.DATE, 253402214400),
    "2024-03-31T01:02": (Kind.NAIVE_TIME, 1711846920),
    "2024-03-31 01:02:03": (Kind.NAIVE_TIME, 1711846923),
    "2024-03-31T01:02:03.999999999": (Kind.NAIVE_TIME, 1711846923),
    "1969-12-31T23:59:59,5": (Kind.NAIVE_TIME, -1),
    "2024-03-31T01:02Z": (Kind.ZONED_TIME, 1711846920),
    "2024-03-31T01:02+01:30": (Kind.ZONED_TIME, 1711841520),
    "2024-03-31T01:02:03.5-00:30": (Kind.ZONED_TIME, 1711848723),
}
UNREAD = [
    "", "2024", "2024-03", "20240331", "2024-3-31", "2024-02-30", "0000-01-01", "10000-01-01",
    "2024-03-31T", "2024-03-31T24:00", "2024-03-31T23:59:60", "2024-03-31T10", "2024-03-31T10:60",
    "2024-03-31t10:00", "2024-03-31T10:00z", "2024-03-31T10:00+1:00", "2024-03-31T10:00+0100",
    "2024-03-31T10:00+24:00", "2024-03-31T10:00:00.", "2024-W13-7", "2024-091", " 2024-03-31",
    "2024-03-31\n", "-2024-03-31", "31.03.2024", "03/31/2024", "٢٠٢٤-٠٣-٣١", "2024-03-31  10:00",
    "1711843200", "2024-03-31T10:00:00." + "0" * 19, "NaT", "nan", "2024-03-31Z",
]  # fmt: skip


def test_texts_are_read_in_one_form_of_iso_8601():
    found = {text: read_moment(text) for text in READ}
    assert {text: (one.kind, one.seconds) for text, one in found.items()} == READ
    assert [text for text in UNREAD if read_moment(text) is not None] == []


def test_white_space_is_dropped_only_if_told(tmp_path):
    attribute = Date("c", *ENDS["day"])
    content = b"c\n 2012-01-01 \n2012-01-01\n"
    assert cells(from_bytes(tmp_path, content, Domain(attribute)))[1] == 1
    assert cells(from_bytes(tmp_path, content, Domain(attribute), strip=True))[1] == 0


def test_no_number_and_no_truth_value_is_a_date():
    attribute = Date("c", date(1970, 1, 1), date(1990, 1, 1))
    values = [
        0,
        1.0,
        True,
        "0",
        b"1970-01-01",
        None,
        timedelta(1),
        np.timedelta64(1, "s"),
        object(),
    ]
    assert set(read_codes({"c": values}, [attribute])["c"].tolist()) == {-1}
    for column in (np.arange(3), np.array([0.5]), np.array([True]), np.array([1], dtype="m8[s]"),
                   pl.Series([datetime(1970, 1, 1).time()]), pl.Series([timedelta(1)]),
                   pd.Series(pd.period_range("1970-01", periods=2, freq="M"))):  # fmt: skip
        with pytest.raises(DataError, match="none of which can match; give dates, times, or texts"):
            read_codes({"c": column}, [attribute])


def test_other_attributes_read_no_dates():
    for attribute in (Integer("c", 0, 10**6), Boolean("c"), Categorical("c", ["2024-01-01"])):
        for column in (np.array(DAYS, dtype="M8[D]"), pl.Series(DAYS), pd.Series(TIMES[3:5])):
            with pytest.raises(DataError, match="none of which can match"):
                read_codes({"c": column}, [attribute])
        assert set(read_codes({"c": DAYS}, [attribute])["c"].tolist()) == {-1}


def test_times_beyond_all_years_are_outside_and_may_be_moved():
    far = 2**63 - 1
    units = ["Y", "M", "W", "D", "h", "m", "s", "ms", "us", "3W", "5h", "2000000000Y", "7us"]
    attribute = Date("c", *ENDS["week"], unit="week")
    for unit in units:
        column = np.array([far, -far, 0], dtype=f"M8[{unit}]")
        with np.errstate(all="raise"):
            assert read_codes({"c": column}, [attribute])["c"].tolist() == [-1, -1, -1], unit
        moved = PrivateData.from_columns({"c": column}, Domain(attribute), outside="clip")
        inside, outside = cells(moved)
        assert (inside[0], inside[-1], outside) == (2, 1, 0), unit
    for unit in ("ns", "ps", "fs", "as", "3as"):
        column = np.array([far, -far], dtype=f"M8[{unit}]")
        assert set(read_codes({"c": column}, [attribute])["c"].tolist()) == {-1}
    polars = pl.Series([far, -far]).cast(pl.Datetime("ms"))
    assert read_codes({"c": polars}, [attribute])["c"].tolist() == [-1, -1]
    later = pd.Timestamp(np.datetime64("12006-10-29", "s"))
    assert read_codes({"c": [later, pd.NaT]}, [attribute])["c"].tolist() == [-1, -1]


def test_dates_move_to_the_nearest_bound():
    attribute = Date("c", *ENDS["day"], zone="Europe/Berlin")
    values = [date(1, 1, 1), "2030-01-01T00:00Z", INSTANTS[0], None, "x", 7]
    inside, outside = cells(
        PrivateData.from_columns({"c": values}, Domain(attribute), outside="clip")
    )
    assert (inside[0], inside[10], inside[-1], outside) == (1, 1, 1, 3)


@pytest.mark.parametrize("name", [name for name in DOORS if "Polars" in name])
def test_a_frame_that_groups_by_itself_has_the_same_cells(name):
    column, values = DOORS[name]
    frame = pl.DataFrame({"c": column}).lazy()
    place = list(DOORS).index(name)
    for attribute in list(attributes())[place % 20 :: 20]:
        for outside in ("cell", "clip"):
            domain = Domain(attribute)
            try:
                found = cells(PrivateData.from_frame(frame, domain, outside=outside))
            except DataError as error:
                assert "none of which can match" in error.reason  # noqa: PT017
                continue
            assert found == cells(
                PrivateData.from_columns({"c": values}, domain, outside=outside)
            ), attribute


@pytest.mark.thorough
@pytest.mark.parametrize("unit", ["ns", "us", "ms"])
def test_a_frame_of_times_beyond_all_years_groups_by_itself(unit):
    far = 2**63 - 1
    frame = pl.DataFrame({"c": pl.Series([far, -far, 0, None]).cast(pl.Datetime(unit))}).lazy()
    for ends in ((date(1, 1, 1), date(9999, 12, 31)), (date(1969, 12, 1), date(1970, 2, 1))):
        domain = Domain(Date("c", *ends))
        inside, outside = cells(PrivateData.from_frame(frame, domain))
        held = 3 if unit == "ns" and ends[0].year == 1 else 1
        assert (sum(inside), outside) == (held, 4 - held)
        inside, outside = cells(PrivateData.from_frame(frame, domain, outside="clip"))
        assert (sum(inside), outside) == (3, 1)


FORMS = {
    "%d.%m.%Y": (["04.07.2024", "4.7.2024"], ["2024-07-04", "4.7.24", "31.02.2024", "٠4.07.2024"]),
    "%m/%d/%y": (["07/04/24", "7/4/24"], ["04/07/2024", "07/04/1924"]),
    "%Y%%%m%%%d": (["2024%07%04"], ["2024-07-04"]),
    "%d.%m.%Y %H:%M": (["4.7.2024 9:05", "04.07.2024 23:59"], ["04.07.2024", "4.7.2024 24:00"]),
    "%Y-%m-%dT%H:%M:%S%z": (["2024-07-04T23:30:00-0100", "2024-07-05T00:30:00Z"], ["2024-07-04"]),
}


@pytest.mark.parametrize("form", FORMS)
def test_dates_are_read_in_the_form_that_is_told(form):
    read, outside = FORMS[form]
    domain = Domain(Date("day", date(2024, 7, 4), date(2024, 7, 5), zone="UTC"))
    for dates in (form, {"day": form, "other": "%d.%m.%Y"}):
        data = PrivateData.from_columns({"day": [*read, *outside]}, domain, dates=dates)
        inside, rest = cells(data)
        assert (sum(inside), rest) == (len(read), len(outside))
    iso = ["2024-07-04", "2024-07-05T12:00"]
    data = PrivateData.from_columns({"day": iso}, domain, dates={"other": form})
    assert cells(data) == ([1, 1], 0)


@pytest.mark.parametrize(
    "form",
    ["", "%d.%m", "%d.%m.%Y %d", "%Y-%m-%d %B", "%", "%d.%m.%Y%", 3, b"%d.%m.%Y", {"day": 3}],
)
def test_a_form_of_no_dates_is_refused(form):
    with pytest.raises(InvalidArgument, match="dates"):
        PrivateData.from_columns({"flag": [True]}, Domain(Boolean("flag")), dates=form)
