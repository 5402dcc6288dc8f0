"""A table whose budget is one of each period: which period a row is in, and which rows stay."""

import itertools
from datetime import date, datetime, timedelta

import numpy as np
import polars as pl
import pytest
from tables_loaded import cells

from dpsdk import (
    Binned,
    Categorical,
    Date,
    Domain,
    Integer,
    Neighbors,
    Number,
    Periods,
    PrivacyUnit,
    PrivateData,
)
from dpsdk.data.part import between
from dpsdk.data.persons import PeriodCells, kept_codes
from dpsdk.data.vault import open_histogram
from dpsdk.errors import InvalidArgument, UnknownAttribute
from dpsdk.forms import GapForm
from dpsdk.kernel import Select, Terms
from dpsdk.kernel.access import dataset_of
from dpsdk.queries import Marginal

MAY = date(2026, 5, 1)


def days(first, count, name="visited"):
    return Date(name, first, first + timedelta(days=count - 1))


def table(columns, *attributes, periods=None, **given):
    domain = Domain(*attributes)
    return PrivateData.from_columns(columns, domain, periods=periods, **given)


def test_a_row_is_in_the_period_of_its_own_value_in_every_domain():
    value = MAY + timedelta(days=12)
    for periods in (Periods("visited", days=7), Periods("visited")):
        numbers = {
            periods.number(one, one.index(value))
            for one in (days(MAY, 31), days(MAY - timedelta(days=500), 700), days(value, 1))
        }
        assert len(numbers) == 1
    # By cells it would not be: the day is another cell in each of these domains.
    assert len({one.index(value) for one in (days(MAY, 31), days(value, 1))}) == 2


@pytest.mark.parametrize(
    ("attribute", "periods"),
    [
        (days(MAY, 40), Periods("visited", days=7)),
        (days(date(1969, 12, 1), 60), Periods("visited", days=30, origin=date(1970, 1, 1))),
        (Date("visited", MAY, date(2027, 5, 1), unit="month"), Periods("visited", width=3)),
        (Date("visited", MAY, date(2026, 7, 1), unit="week"), Periods("visited")),
        (Integer("visited", -25, 31), Periods("visited", width=10, origin=3)),
    ],
    ids=["weeks", "before 1970", "quarters", "weeks as cells", "batches"],
)
def test_cells_starts_and_numbers_say_the_same(attribute, periods):
    periods.check(Domain(attribute))
    numbers = [periods.number(attribute, cell) for cell in range(attribute.size)]
    first, last = periods.range(attribute)
    assert [first, last] == [numbers[0], numbers[-1]]
    assert periods.starts(attribute) == [numbers.index(one) for one in range(first, last + 1)]
    for one in range(first, last + 1):
        low, high = periods.cells(attribute, one, one)
        assert numbers[low : high + 1] == [one] * (high - low + 1)
        assert numbers.count(one) == high - low + 1
        if low:
            assert periods.start(attribute, one) == attribute.label(low)


def test_weeks_begin_on_mondays():
    assert date.fromisoformat(Periods("visited", days=7).text(days(MAY, 9), 2940)).weekday() == 0


REFUSED = {
    "labels": (Categorical("visited", ["a"]), Periods("visited"), "Categorical"),
    "bins": (Binned("visited", [0, 1, 2]), Periods("visited"), "Binned"),
    "numbers": (Number("visited", 0, 1, "0.1"), Periods("visited"), "Number"),
    "missing": (Integer("visited", 0, 9, missing=True), Periods("visited"), "missing="),
    "other": (Integer("visited", 0, 9, other=True), Periods("visited"), "other"),
    "zone": (
        Date("visited", datetime(2026, 5, 1), datetime(2026, 5, 2), unit="hour",
             zone="Europe/Berlin"),
        Periods("visited"), "Berlin",
    ),
    "days of months": (Date("visited", MAY, MAY, unit="month"), Periods("visited", days=1), "days"),
    "days of numbers": (Integer("visited", 0, 9), Periods("visited", days=1), "days"),
    "origin within": (
        Date("visited", MAY, MAY, unit="month"), Periods("visited", origin=date(2026, 5, 2)),
        "origin",
    ),
    "origin of days": (Integer("visited", 0, 9), Periods("visited", origin=MAY), "origin"),
    "large": (Integer("visited", 0, 2**60), Periods("visited"), r"2\*\*53"),
}  # fmt: skip


@pytest.mark.parametrize("case", REFUSED)
def test_what_does_not_say_when_is_refused_by_name(case):
    attribute, periods, named = REFUSED[case]
    with pytest.raises(InvalidArgument, match=named):
        table({"visited": [1]}, attribute, periods=periods)


def test_other_arguments_that_do_not_go_with_periods_are_refused():
    columns, when, periods = {"visited": [MAY]}, days(MAY, 9), Periods("visited")
    for given in ({"neighbors": Neighbors.REPLACE_ONE}, {"unit_rows": 2}, {"periods": "visited"}):
        with pytest.raises(InvalidArgument, match=next(iter(given))):
            table(columns, when, **{"periods": periods} | given)
    with pytest.raises(UnknownAttribute):
        table(columns, when, periods=Periods("batch"))
    for given in ({"days": 0}, {"width": -1}, {"days": 1, "width": 1}, {"origin": "May"}):
        with pytest.raises(InvalidArgument):
            Periods("visited", **given)


def test_a_row_beyond_the_time_is_left_out_whatever_becomes_of_others():
    columns = {"visited": [MAY, MAY + timedelta(days=40), None], "n": [99, 1, 1]}
    for outside in ("cell", "clip", "apart"):
        data = table(
            columns, days(MAY, 9), Integer("n", 0, 9), periods=Periods("visited"), outside=outside
        )
        inside, out = cells(data)
        # A number that is beyond its bounds leaves its row outside, unless it has a cell.
        assert (sum(inside), out) == (0 if outside == "cell" else 1, 0)
        assert not data.facts.outside
        assert data.domain["visited"].extras == ()


def test_a_ledger_knows_the_rule_and_not_the_domain():
    periods = Periods("visited", days=7)
    rules = {
        dataset_of(table({"visited": [MAY]}, one, periods=periods)).periods
        for one in (days(MAY, 9), days(MAY - timedelta(days=3), 90))
    }
    assert len(rules) == 1
    for other in (Periods("visited"), Periods("visited", days=7, origin=MAY)):
        rules.add(dataset_of(table({"visited": [MAY]}, days(MAY, 9), periods=other)).periods)
    assert len(rules) == 3


def visits(rows, seed=0):
    noise = np.random.default_rng(seed)
    when = noise.integers(-3, 33, rows).tolist()
    return {
        "visited": [MAY + timedelta(days=one) for one in when],
        "sex": noise.choice(["F", "M", "?"], rows).tolist(),
        "who": noise.integers(0, 9, rows).astype(str).tolist(),
    }


PEOPLE = Domain(days(MAY, 30), Categorical("sex", ["F", "M"]))


@pytest.mark.parametrize("distinct", [False, True])
@pytest.mark.parametrize("most", [1, 2])
def test_every_door_keeps_the_same_rows_of_persons(most, distinct):
    unit, periods = PrivacyUnit("who", max_rows=most, distinct=distinct), Periods("visited", days=7)
    columns, given = visits(300), {"unit": unit, "periods": periods}
    held = PrivateData.from_columns(columns, PEOPLE, **given)
    frame = pl.DataFrame(columns)
    for source, collect in itertools.product((frame, frame.lazy()), ("histogram", "marginals")):
        data = PrivateData.from_frame(source, PEOPLE, collect=collect, **given)
        assert cells(data) == cells(held)
        whole, part = open_histogram(data), between(data, 3, 9)
        assert part.domain["visited"].size == 7
        own = open_histogram(part)
        assert (own.table(PEOPLE.names) == whole.table(PEOPLE.names)[3:10]).all()
        assert own.rows == whole.table(PEOPLE.names)[3:10].sum()
        inner = own.between("visited", 2, 2).only("sex", 1, keep_rows=False)
        assert inner.rows == whole.table(PEOPLE.names)[5, 1]


def test_who_is_cut_in_one_period_is_not_cut_by_rows_of_another():
    """All tables of up to six rows of one person on two days, by the rule of before and by this."""
    unit, periods = PrivacyUnit("who", max_rows=1), Periods("when", width=1)
    two = Domain(Integer("when", 0, 1), Integer("cell", 0, 2))
    rows = list(itertools.product(range(2), range(3)))
    changed = {True: 0, False: 0}
    tables = 0
    for name, count in itertools.product(("ann", "bob", "eve", "joe"), range(1, 7)):
        for some in itertools.combinations(rows, count):
            first = [row for row in some if row[0] == 0]
            if not first or len(first) == len(some):
                continue
            tables += 1
            for by_period in (True, False):
                given = {"periods": periods} if by_period else {}

                def kept(some, given=given, name=name):
                    columns = {
                        "when": [row[0] for row in some], "cell": [row[1] for row in some],
                        "who": [name] * len(some),
                    }  # fmt: skip
                    data = PrivateData.from_columns(columns, two, unit=unit, **given)
                    return open_histogram(data).table(two.names)[0].tolist()

                changed[by_period] += kept(some) != kept(first)
    assert tables == 196
    assert changed == {True: 0, False: 30}


def test_all_rows_of_a_person_in_a_period_move_as_many_as_are_kept_and_no_other_period():
    unit, most = PrivacyUnit("who", max_rows=2), 2
    two = Domain(Integer("when", 0, 1), Integer("cell", 0, 2))
    rows = list(itertools.product(range(2), range(3)))
    periods = Periods("when")

    def counted(some):
        columns = {
            "when": [row[0] for row in some], "cell": [row[1] for row in some],
            "who": [row[2] for row in some],
        }  # fmt: skip
        data = PrivateData.from_columns(columns, two, unit=unit, periods=periods)
        return open_histogram(data).table(two.names)

    rng = np.random.default_rng(1)
    seen = set()
    for _ in range(150):
        base = [
            (*rows[place], who) for who in "ab" for place in rng.choice(6, rng.integers(4)).tolist()
        ]
        # The person of whom there is nothing in period 0, whatever they have in period 1.
        table_of = [row for row in base if row[::2] != (0, "a")]
        added = [(0, int(cell), "a") for cell in rng.integers(0, 3, rng.integers(1, 5))]
        moved = counted(table_of + added) - counted(table_of)
        assert not moved[1].any()
        assert (moved >= 0).all()
        assert moved.sum() <= most
        seen.add(float(moved.sum()))
    assert max(seen) == most


def test_a_row_that_is_left_out_cannot_push_another_out():
    unit, periods = PrivacyUnit("who", max_rows=1), Periods("visited")
    for sex in ("F", "?"):
        columns = {"visited": [MAY, MAY], "sex": ["M", sex], "who": ["a", "a"]}
        data = PrivateData.from_columns(columns, PEOPLE, unit=unit, periods=periods)
        assert open_histogram(data).rows == 1


def test_rows_are_kept_by_the_rule_of_persons_within_each_period():
    codes = {"when": np.array([0, 0, 1, 1]), "cell": np.array([0, 1, 0, 1])}

    class Named:
        def written(self, persons):
            return ["ann"] * len(persons)

    who, unit = np.zeros(4, dtype=np.int64), PrivacyUnit("who", max_rows=1)
    kept = kept_codes(dict(codes), Named(), who, unit, PeriodCells("when", 0, 1))
    assert kept["when"].tolist() == [0, 1]


def test_a_running_number_would_carry_rows_of_one_period_into_others():
    """What is made of other rows is no fact of a row: so the loaders' pages say."""
    domain = Domain(Integer("when", 0, 1), Integer("nth", 0, 9))

    def counted(times, number):
        columns = {"when": times, "nth": number(times)}
        data = PrivateData.from_columns(columns, domain, periods=Periods("when"))
        return open_histogram(data).table(domain.names)

    for number, carried in ((lambda times: list(range(len(times))), True), (list, False)):
        # One row more, in the first period.
        moved = counted([0, 0, 1, 1], number) - counted([0, 1, 1], number)
        assert moved[1].any() == carried


def test_a_choice_tells_of_a_period_in_which_all_weights_are_nought():
    """A gap has a rate, so that a choice is charged to all of its range."""
    domain = Domain(Integer("when", 0, 1), Integer("a", 0, 1))
    form = Marginal("a", where={"when": 0}, normalized=False).lower(domain)
    gaps = GapForm(form, np.array([0.0, 1.0]), np.zeros(2), absolute=False)

    def law(times):
        columns = {"when": times, "a": [0] * len(times)}
        data = PrivateData.from_columns(columns, domain, periods=Periods("when"), max_rows=9)
        pricing = Select(gaps, 1).price(Terms(data.facts))
        scores = pricing._gaps.scores(pricing._gaps.read(open_histogram(data)))
        weights = np.exp(float(pricing._rate) * (scores - scores.max()))
        return np.log(weights / weights.sum())

    loss = np.abs(law([0, 0, 1]) - law([0, 0])).max()
    assert 0.4 < loss <= 1
