"""Every query of the package, and those of strangers, conform."""

import re
import sys
from datetime import date, datetime
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from acme_dp.median import Median

from dpsdk import Binned, Boolean, Categorical, Date, Domain, Integer, queries, wire
from dpsdk.errors import InvalidArgument
from dpsdk.mechanisms import Laplace
from dpsdk.queries import (
    Count,
    CountPersons,
    Linear,
    Marginal,
    Mean,
    OneVsRest,
    Query,
    Rectangles,
    Softmax,
    Sum,
    Threshold,
    Unmatched,
    Variance,
    Workload,
)
from dpsdk.testing import check_query
from dpsdk.testing.conformance.queries import QUERY_CHECKS
from written import CATALOGUE, VALUES

pytestmark = pytest.mark.thorough

PEOPLE = Domain(
    Integer("age", 17, 20),
    Categorical("sex", ["Female", "Male"]),
    Integer("hours", 0, 3),
    Boolean("rich"),
    Categorical("c", ["x", "y", "z"]),
)
DAYS = Domain(Date("day", date(2024, 2, 27), date(2024, 3, 2)), Boolean("member"))
HOURS = Domain(Date("day", datetime(2024, 2, 29, 0), datetime(2024, 2, 29, 5), unit="hour"))
BINS = Domain(Binned("hours", [0.0, 1.5, 40.0]), Integer("age", -2, 1))
GAPS = Domain(Integer("age", 0, 1, missing=True), Boolean("rich", other=True))
UNIVERSES = (PEOPLE, DAYS, HOURS, BINS, GAPS)

MORE = (
    Mean("hours"),
    Mean("hours", where={"age": 0}),
    Sum("age", normalized=False),
    Rectangles("age", lower=[0, 1], upper=[1, 3], normalized=False),
    Linear(lambda row: 0.5 if row["rich"] else 0.0, attributes=["rich"]),
    Workload([Mean("hours"), Count(), Marginal("age")]),
    Unmatched(),
    Variance("hours"),
)
UNTOLD = {CountPersons, OneVsRest, Softmax}
"""Queries about persons, whom the tables of the kit do not tell apart, and what needs a delta."""


def fits(query, domain):
    try:
        query.lower(domain)
    except Exception:
        return False
    return True


def pairs():
    """Each query with the first universe that it can be put to; a quick run has one of a class."""
    known = set()
    for query in [*(one for one in VALUES if isinstance(one, Query)), *MORE]:
        domain = next((one for one in UNIVERSES if fits(query, one)), None)
        if domain is not None and type(query) not in UNTOLD:
            marks = [pytest.mark.audit] if type(query) in known else []
            known.add(type(query))
            yield pytest.param(query, domain, id=str(query)[:60], marks=marks)


PAIRS = list(pairs())


@pytest.mark.parametrize(("query", "domain"), PAIRS)
def test_a_query_of_the_package_conforms(query, domain):
    found = check_query(query, domain=domain, catalogue=CATALOGUE)
    assert found.conforms, str(found)


def test_every_class_of_the_package_is_among_them():
    asked = {type(pair.values[0]) for pair in PAIRS}
    public = {getattr(queries, name) for name in queries.__all__}
    own = {one for one in public if isinstance(one, type) and issubclass(one, Query)}
    assert {one for one in own if not one.__abstractmethods__} <= asked | UNTOLD


def test_a_strangers_query_conforms_with_its_kind_and_without():
    kind = wire.Kind(Median, "acme:median", {"attribute": wire.NAME})
    found = check_query(Median("level"))
    assert found.conforms
    assert found["written-form"].outcome == "not applicable"
    found = check_query(Median("level"), catalogue=wire.Catalogue.shipped().plus(kind))
    assert found.conforms
    assert found["written-form"].outcome == "passed"


def test_people_with_several_rows_are_asked_too_where_that_is_wanted():
    plain, thorough = (
        check_query(Marginal("level", normalized=False), thorough=thorough)
        for thorough in (False, True)
    )
    assert plain.conforms
    assert thorough.conforms
    assert thorough["takes-in"].runs > plain["takes-in"].runs


def test_a_query_that_nobody_can_ask_does_not_conform():
    found = check_query(Threshold("age", 40))
    assert not found.conforms
    assert "no attribute 'age'" in found.nothing
    assert found["lowers-alike"].runs == 0


def test_whatever_a_query_raises_is_reported_in_characters_that_print():
    class Ending(Median):
        def check(self, facts):
            raise SystemExit

        def __str__(self):
            raise ValueError

    found = check_query(Ending("level"))
    assert not found.conforms
    assert "SystemExit" in found.nothing
    assert str(found).startswith("a value of class Ending DOES NOT CONFORM")

    class Loud(Median):
        def __str__(self):
            return "\x1b[2J"

    assert check_query(Loud("level")).subject == "\\x1b[2J"


def test_the_guide_names_every_check():
    page = (Path(__file__).parents[2] / "docs/how-to/check-a-plugin.md").read_text("utf-8")
    section = page.partition("\n## Queries\n")[2].partition("\n## ")[0]
    named = re.findall(r"^\| `([a-z-]+)` \|", section, re.MULTILINE)
    assert named == [check.name for check in QUERY_CHECKS]


def test_a_privacy_check_is_not_waived_and_another_is():
    class Loud(Median):
        def __str__(self):
            return "a\nb"

    assert not check_query(Loud("level")).conforms
    found = check_query(Loud("level"), waived={"described": "an example"})
    assert found.conforms
    assert found["described"].outcome == "waived"
    private = check_query(Threshold("age", 40), waived=dict.fromkeys(
        [one.name for one in QUERY_CHECKS], "I want to"
    ))  # fmt: skip
    assert not private.conforms


@pytest.mark.parametrize(
    ("parameter", "wrong"),
    [
        ("query", Laplace(1)),
        ("domain", "level"),
        ("domain", Domain(Integer("level", 0, 2**20))),
        ("using", Count()),
        ("catalogue", {}),
        ("thorough", 1),
        ("waived", {"nothing": "of the kind"}),
        ("waived", {"described": " "}),
        ("waived", ["described"]),
    ],
)
def test_wrong_arguments_are_named(parameter, wrong):
    given = {"query": Count(normalized=False), parameter: wrong}
    query = given.pop("query")
    with pytest.raises(InvalidArgument) as caught:
        check_query(query, **given)
    assert caught.value.parameter == parameter
