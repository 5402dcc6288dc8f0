"""What stands beside the class of a mechanism, and the tables that are made of it."""

import json
from pathlib import Path

import pytest

import dpsdk
from dpsdk import Budget, Session, wire
from dpsdk.errors import InvalidArgument
from dpsdk.mechanisms import BUILT_IN, MeasuresOnce, NumericSparse, OneShot, OnlinePMW, SmallDB
from dpsdk.queries import Count, Marginal, Threshold, Workload
from dpsdk.session.identity import BEST, Place, question_of
from dpsdk.testing import seeded
from samples import samples
from worlds import PEOPLE, facts, people, table

DOCS = Path(__file__).parents[3] / "docs"
ASKED = Workload(Threshold("age", t) for t in (18, 20))
ALL = samples(ASKED, "age")
ONCE = [one for one in ALL if isinstance(one, MeasuresOnce)]
STREAMS = [one for one in ALL if not isinstance(one, MeasuresOnce | OneShot)]


def session_of():
    return Session(table(people(60, 1)), Budget(10**7, "0.1"), noise=seeded(3))


def test_every_mechanism_has_a_sample():
    assert {type(one) for one in ALL} == BUILT_IN


@pytest.mark.parametrize("mechanism", ALL, ids=lambda one: type(one).__name__)
def test_facts_are_those_of_the_tables(mechanism):
    kind = type(mechanism)
    assert json.loads(wire.dumps(mechanism))["kind"] == f"mechanism.{kind.family}"
    assert f"autoclass:: dpsdk.mechanisms.{kind.__name__}\n" in (
        DOCS / "reference/mechanisms.md"
    ).read_text(encoding="utf-8")
    assert (DOCS / kind.page).is_file()
    assert {"family", "page"} <= vars(kind).keys()
    with pytest.raises(InvalidArgument):
        dpsdk.mechanism(kind.family, nothing_of_the_kind=1)
    question = question_of(Place("people", facts(PEOPLE)), mechanism, Count().lower(PEOPLE))
    assert (question is not None) == kind.reusable
    assert question_of(Place("people", facts(PEOPLE)), BEST, Count().lower(PEOPLE)) is not None


@pytest.mark.parametrize("mechanism", ONCE, ids=lambda one: type(one).__name__)
def test_what_measures_once_is_opened_for_the_one_answer(mechanism):
    one, other = session_of(), session_of()
    query = Marginal("age") if mechanism.family == "local-marginals" else Threshold("age", 18)
    release = one.release(query, using=mechanism)
    with other.open(mechanism) as channel:
        assert release.raw.tolist() == channel.release(query).raw.tolist()
    assert one.spent == other.spent
    assert [reason.code for reason in release.because] == ["pays-again"]
    assert "note: opened for this answer alone; a second call pays again" in repr(release)
    (receipt,) = one.history
    assert receipt.cost == release.cost
    one.answer(query, using=mechanism)
    assert len(one.history) == 2


def test_a_request_is_opened_once():
    session, mechanism = session_of(), SmallDB(ASKED, epsilon=1, size=3)
    first = session.release(ASKED, using=mechanism, request_id="a")
    assert (
        session.release(ASKED, using=mechanism, request_id="a").raw.tolist() == first.raw.tolist()
    )
    assert session.spent.charges == 1


@pytest.mark.parametrize("mechanism", STREAMS, ids=lambda one: type(one).__name__)
def test_streams_have_to_be_opened(mechanism):
    session = session_of()
    with pytest.raises(InvalidArgument, match="a mechanism that answers at once or measures once"):
        session.answer(Count(), using=mechanism)
    assert session.spent.charges == 0


def test_streams_are_those_that_are_known():
    assert {OnlinePMW, NumericSparse} < {type(one) for one in STREAMS}
