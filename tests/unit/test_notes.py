"""Notes of releases: what a number is of, from public facts and from the number itself."""

import copy
import json
import pickle

import numpy as np
import pytest

from dpsdk import (
    Above,
    Binned,
    Budget,
    Categorical,
    Count,
    Domain,
    Integer,
    Interval,
    Laplace,
    Marginal,
    Mean,
    Median,
    Neighbors,
    Number,
    PrivateData,
    Session,
    Sum,
    Threshold,
    Workload,
    wire,
)
from dpsdk.mechanisms import NoisyHistogram, NumericSparse
from dpsdk.noise import DiscreteLaplace
from dpsdk.notes import value_notes
from dpsdk.plots import marginal as draw_marginal
from dpsdk.queries import Conjunction
from dpsdk.release import AddsUp, Clipped, InBins, KnownRowsOnly, NoiseAccuracy, Note, Rounded
from dpsdk.testing import seeded

rng = np.random.default_rng(5)
ROWS = 10_000
SEX = np.where(rng.random(ROWS) < 0.5, "F", "M").tolist()
AGE = [None if gap else 40 for gap in rng.random(ROWS) < 0.2]
REGION = [None if gap else "n" for gap in rng.random(ROWS) < 0.1]
PEOPLE = Domain(
    Categorical("sex", ["F", "M"]), Integer("age", 0, 99), Categorical("region", ["n", "s"])
)
KNOWN = KnownRowsOnly(("sex", "age", "region"))


def session(columns, domain=PEOPLE, **more):
    data = PrivateData.from_columns(columns, domain, **more)
    return Session(data, Budget(epsilon=1000), noise=seeded(1))


def gaps(**more):
    return session({"sex": SEX, "age": AGE, "region": REGION}, **more)


def closed():
    columns = {"sex": SEX, "age": [40] * ROWS, "region": ["n"] * ROWS}
    return session(columns, outside="raise")


# The three ordinary ways to a wrong number that is called proven.


@pytest.mark.parametrize("normalized", [True, False])
def test_a_table_with_gaps_in_other_columns_says_so(normalized):
    release = gaps().release(Marginal("sex", normalized=normalized), using=Laplace(1))
    short, known = release.notes
    assert isinstance(short, AddsUp)
    assert 0.70 < short.total < 0.74
    assert short.radius < 0.01
    assert known == KNOWN
    assert "look for gaps" in repr(release)


def test_a_mean_in_bins_says_so():
    amounts = {"amount": rng.lognormal(3, 1, ROWS).clip(0, 499)}
    asked = session(amounts, Domain(Binned("amount", [0, 10, 20, 50, 100, 200, 500])))
    for query in (Mean("amount"), Sum("amount"), Workload([Mean("amount"), Sum("amount")])):
        assert asked.release(query, using=Laplace(1)).notes == (InBins("amount", 300),)
    median = asked.release(Median("amount"), using=NoisyHistogram(epsilon=1))
    assert median.notes == (InBins("amount", 300),)
    assert "a Number keeps values" in repr(median)
    # Bins that are asked for as bins hide nothing.
    for query in (Marginal("amount"), Threshold("amount", 50), Count()):
        assert asked.release(query, using=Laplace(1)).notes == ()


@pytest.mark.parametrize(
    "query",
    [
        Threshold("x", 1),
        Interval("x", 0, 1, known=True),
        Workload([Count(), Threshold("x", 1, normalized=False)]),
        Above(Threshold("x", 1), 0.5),
        Marginal("x", bins={"x": [0, 2, 11]}),
        Marginal("sex", where={"x": 1}),
        Count(by="x"),
        Mean("y", by="x"),
        Mean("y", where={"x": 1}),
        Conjunction({"x": 1}),
    ],
)
@pytest.mark.parametrize("exact", [True, False])
def test_cuts_through_rounded_numbers_say_so(query, exact):
    # All of them 1.3, and yet at or below 1: such an answer is not of the values.
    domain = Domain(
        Number("x", 0, 10, other=True, outside="other", exact=exact),
        Categorical("sex", ["F", "M"]),
        Integer("y", 0, 1),
    )
    asked = session({"x": [1.3] * 9, "sex": ["F"] * 9, "y": [1] * 9}, domain, outside="raise")
    if isinstance(query, Above):
        with asked.open(NumericSparse(1, tops=1)) as channel:
            notes = channel.release(query).notes
    else:
        notes = asked.release(query, using=Laplace(1)).notes
    assert notes == (() if exact else (Rounded("x", 1),))


@pytest.mark.parametrize("query", [Marginal("sex"), Workload([Count(), Marginal("age", "sex")])])
def test_a_table_of_which_nothing_matched_says_so(query):
    spaced = session({"sex": [f" {one}" for one in SEX], "age": AGE, "region": REGION})
    release = spaced.release(query, using=Laplace(1))
    short, known = release.notes
    assert isinstance(short, AddsUp)
    assert abs(short.total) < 0.05
    assert known == KNOWN


def test_many_cells_that_add_up_to_little_are_seen_by_their_sum():
    release = gaps().release(Marginal("sex", "age", "region"), using=Laplace(0.3))
    assert 400 * release.error() > 1  # which would explain anything
    assert isinstance(release.notes[0], AddsUp)
    assert release.notes[0].radius < 0.15


def test_means_and_quantiles_say_how_many_rows_they_are_of():
    asked = gaps()
    for query in (Mean("age"), Median("age"), Workload([Threshold("age", 40), Mean("age")])):
        release = asked.release(query, using=Laplace(30))
        assert [type(note) for note in release.notes] == [AddsUp, KnownRowsOnly]
        assert 0.70 < release.notes[0].total < 0.74


@pytest.mark.parametrize(
    "query",
    [
        Marginal("sex", where={"age": 40}),
        Mean("age", where={"sex": "F"}),
        Count(),
        Threshold("age", 10),
    ],
    ids=str,
)
def test_shares_that_need_not_add_up_are_not_added_up(query):
    assert gaps().release(query, using=Laplace(1)).notes == (KNOWN,)


@pytest.mark.parametrize(
    "query", [Marginal("sex"), Mean("age"), Count(), Workload([Marginal("age")])], ids=str
)
def test_a_table_that_has_a_place_for_every_row_says_nothing(query):
    release = closed().release(query, using=Laplace(1))
    assert release.notes == ()
    assert "note" not in repr(release)


def test_an_open_domain_and_a_lone_attribute_say_nothing():
    alone = session({"age": [40, None] * 50}, Domain(Integer("age", 0, 99)))
    assert alone.release(Count(), using=Laplace(1)).notes == ()
    assert KnownRowsOnly.of(closed().facts) is None
    for other in (True, "F"):
        sex = Categorical("sex", ["F"], other=other, missing=True)
        facts = session({"sex": ["F"], "age": [4]}, Domain(sex, Integer("age", 0, 99))).facts
        assert KnownRowsOnly.of(facts) == KnownRowsOnly(("age",))


def test_an_unknown_number_of_rows_has_no_share():
    asked = gaps(neighbors=Neighbors.ADD_REMOVE)
    release = asked.release(Marginal("sex", normalized=False), using=Laplace(1))
    assert release.notes == (KNOWN,)


@pytest.mark.parametrize("whole", [gaps, closed])
def test_a_part_of_a_table_does_not_miss_the_other_parts(whole):
    asked = whole()
    with asked.partition("sex") as parts:
        release = parts["F"].release(Marginal("region"), using=Laplace(1))
    assert release.notes == ((KNOWN,) if whole is gaps else ())


def test_clipped_values_are_told_of_answers_made_of_values():
    asked = gaps(outside="clip")
    clipped = Clipped("age", 0, 99)
    assert clipped in asked.release(Mean("age"), using=Laplace(1)).notes
    assert asked.release(Marginal("sex"), using=Laplace(1)).notes[1:] == (KNOWN,)
    number = Number("income", 0, 1000, step="0.5")
    facts = closed().facts
    assert list(value_notes(number, facts, 1.0)) == [Clipped("income", 0, 1000)]
    assert list(value_notes(number, facts, 0.1)) == [
        Rounded("income", 0.5), Clipped("income", 0, 1000),
    ]  # fmt: skip
    other = Number("income", 0, 1000, step="0.5", outside="other")
    assert list(value_notes(other, facts, 1.0)) == []
    exact = Number("income", 0, 1000, step="0.5", exact=True)
    assert list(value_notes(exact, facts, 0.0)) == [Clipped("income", 0, 1000)]


NOTES = [AddsUp(0.72, 0.001), InBins("a", 300), Rounded("a", 0.01), Clipped("a", 0, 9), KNOWN]


@pytest.mark.parametrize("note", NOTES, ids=lambda note: type(note).__name__)
def test_notes_are_values_in_one_short_line(note):
    assert isinstance(note, Note)
    assert pickle.loads(pickle.dumps(note)) == copy.deepcopy(note) == note  # noqa: S301
    assert hash(note) == hash(copy.copy(note))
    assert 20 < len(str(note)) < 100
    assert "\n" not in str(note)
    assert wire.loads(type(note), wire.dumps(note)) == note


def test_words():
    only = "only rows with declared values of"
    assert list(map(str, NOTES)) == [
        "what counts adds up to 0.72 ± 0.001 of all rows: look for gaps, spaces and spellings",
        "'a' is in bins up to 300 wide; a Number keeps values to a step",
        "'a' is rounded to steps of 0.01",
        "values of 'a' beyond 0 to 9 count as these bounds",
        f'{only} all 3 attributes count; outside="apart" keeps the others',
    ]
    assert "declared values of 'a' and 'b' count" in str(KnownRowsOnly(("a", "b")))


def test_notes_are_where_a_release_is_shown_or_written():
    release = gaps().release(Marginal("sex"), using=Laplace(1))
    texts = list(map(str, release.notes))
    assert repr(release).splitlines()[-2:] == [f"note: {text}" for text in texts]
    page = release._repr_html_()
    assert "look for gaps" in page
    metadata = release.metadata()
    assert metadata.notes == metadata.record.notes == release.notes
    assert wire.loads(wire.ReleaseRecord, wire.dumps(metadata.record)).notes == release.notes
    for text in texts:
        assert f"Note: {text}." in repr(metadata)
        assert text in metadata.to_registry().to_json().replace('\\"', '"')
    assert texts == metadata._statement.to_json()["notes"]
    old = json.loads(wire.dumps(metadata.record))
    del old["notes"]
    assert wire.loads(wire.ReleaseRecord, json.dumps(old)).notes == ()


def test_a_picture_tells_them():
    pytest.importorskip("matplotlib")
    release = gaps().release(Marginal("sex"), using=Laplace(1))
    figure = draw_marginal(release)
    shown = " ".join(
        text.get_text() for text in figure.findobj(lambda one: hasattr(one, "get_text"))
    )
    assert "look for gaps" in " ".join(shown.split())


def test_a_sum_of_many_noises_is_within_chebyshevs_bound_and_one_within_its_tail():
    law = DiscreteLaplace(10)
    accuracy = NoiseAccuracy(law, 400, 0.5, 0.25)
    far = np.sqrt(400 / 0.05) * law.standard_deviation() * 0.5 + 400 * 0.25
    assert accuracy.radius_of_sum(0.05, slice(None)) == pytest.approx(far)
    alone = NoiseAccuracy(law, 1, 0.5, 0.25)
    assert alone.radius_of_sum(0.05, slice(None)) == alone.radius(0.05, joint=True) < far


def test_a_number_says_its_step_where_it_matters_and_its_bounds():
    values = rng.lognormal(3, 1, ROWS)
    clipped = Clipped("amount", 0, 200)
    for step, wide in (("0.001", False), ("5", True)):
        asked = session({"amount": values}, Domain(Number("amount", 0, 200, step=step)))
        for query in (Mean("amount"), Sum("amount"), Sum("amount", normalized=False)):
            release = asked.release(query, using=Laplace(0.1))
            rounded = [Rounded("amount", float(step))] if wide else []
            assert list(release.notes) == [*rounded, clipped]
            truth = values.clip(0, 200).sum() / (1 if "normalized=False" in str(query) else ROWS)
            assert abs(release.value - truth) <= release.error()
