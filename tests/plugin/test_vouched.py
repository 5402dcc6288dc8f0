"""A plugin on a vetted primitive conforms where the kit trusts it, and broken ones do not."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1]))

from dpsdk.errors import InvalidArgument
from dpsdk.mechanisms import Laplace
from dpsdk.queries import Count
from dpsdk.testing import check_mechanism, check_query
from dpsdk.testing.conformance import mechanisms
from vouched import (
    TRUST,
    CountDistinct,
    Distinct,
    DistinctLaplace,
    ForOneRow,
    Halved,
    ShortOfNoise,
)

pytestmark = [
    pytest.mark.thorough,
    pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning"),
]

QUERIES = Distinct(("level",)), Distinct(("level", "member"))


def only(monkeypatch, *names):
    kept = tuple(check for check in mechanisms.CHECKS if check.name in names)
    monkeypatch.setattr(mechanisms, "CHECKS", kept)


@pytest.mark.audit
def test_it_conforms():
    report = check_mechanism(DistinctLaplace(1), *QUERIES, trust=TRUST)
    assert report.conforms, str(report)


def test_it_passes_the_quicker_checks(monkeypatch):
    heavy = {"interrupts", "keeps-no-kernel", "public-walls", "refusal-changes-nothing"}
    only(monkeypatch, *({check.name for check in mechanisms.CHECKS} - heavy))
    report = check_mechanism(DistinctLaplace(1), *QUERIES, trust=TRUST)
    assert report.conforms, str(report)
    assert report["audit"].outcome == "passed"


def test_its_query_conforms_too():
    report = check_query(QUERIES[0], using=DistinctLaplace(1), trust=TRUST)
    assert report.conforms, str(report)


@pytest.mark.parametrize("request_", [Halved, ForOneRow])
def test_one_with_less_noise_than_it_is_charged_for_is_found(request_, monkeypatch):
    only(monkeypatch, "audit")
    thorough = request_ is ForOneRow  # which shows where a person has two rows
    mechanism = ShortOfNoise(1, request_)
    report = check_mechanism(mechanism, QUERIES[0], trust=TRUST, thorough=thorough)
    assert report.failed == ("audit",), str(report)
    honest = check_mechanism(ShortOfNoise(1, CountDistinct), QUERIES[0], trust=TRUST)
    assert honest.conforms, str(honest)


def test_without_trust_nothing_can_be_run_and_the_report_says_so_once(monkeypatch):
    only(monkeypatch, "quotes-alike", "quote-covers", "replays")
    report = check_mechanism(DistinctLaplace(1), *QUERIES)
    assert report.failed == ("quotes-alike", "quote-covers", "replays")
    text = str(report)
    assert text.count("trust=") == 1
    assert text.splitlines()[1].startswith("Nothing could be run: ")
    assert "distinct.CountDistinct" in text.splitlines()[1]


@pytest.mark.parametrize(
    ("trust", "message"),
    [
        ({"distinct.Nobody": "x"}, "classes of requests"),
        ({"distinct.CountDistinct": ""}, "proof"),
        ("distinct.CountDistinct", "a mapping"),
        (None, "a mapping"),
        ([("distinct.CountDistinct", "x")], "a mapping"),
        ({5: "x"}, "a non-empty text"),
        ({"distinct.CountDistinct": 5}, "proof"),
    ],
)
def test_whom_no_session_can_trust_no_kit_can(trust, message):
    for call in (
        lambda: check_mechanism(Laplace(1), trust=trust),
        lambda: check_query(Count(normalized=False), trust=trust),
    ):
        with pytest.raises(InvalidArgument, match=message):
            call()
