"""Small databases through a session: their laws over all neighbours, and draws that are wrong."""

import math
from collections.abc import Hashable
from fractions import Fraction

import numpy as np
import pytest
from registry import ALL, APART, PAIR, THREE, ranged, small, told

from dpsdk import Budget, Domain, Integer, Neighbors, Session
from dpsdk.data.vault import open_histogram
from dpsdk.kernel.draw_database import choose, structured
from dpsdk.kernel.draw_database.atoms import Scorer
from dpsdk.kernel.draw_database.base import Sampler
from dpsdk.kernel.draw_database.bounds import DrawBound
from dpsdk.kernel.draw_database.request import DrawPricing, SmallDatabase
from dpsdk.kernel.draw_database.structured import attempt, segmented
from dpsdk.mechanisms import SmallDB
from dpsdk.queries import Count, Interval, Marginal, Threshold, Workload
from dpsdk.testing.audit import BranchingNoise, audit, enumerate_law, neighbours, tables
from worlds import thinned

pytestmark = pytest.mark.thorough

RELATIONS = list(Neighbors)
EPSILON = Fraction(2)


class Rejected(Exception):  # what a try came to, and no error
    """A try of a draw that was not kept, and is not repeated here."""


def one_try(near, rate, noise):
    """What `draw` repeats until something is kept, once."""
    found = attempt(near, segmented(near, float(rate)), rate, noise)
    if found is None:
        raise Rejected
    return found


TWO = Domain(Integer("level", 0, 1))
STRUCTURED = {
    "thresholds": (TWO, 2, [Threshold("level", 0, normalized=False)], 2),
    "cells": (TWO, 2, [Marginal("level", normalized=False)], 2),
    "intervals": (
        THREE,
        2,
        [Interval("level", a, b, normalized=False) for a, b in ((0, 0), (0, 1), (1, 2), (1, 1))],
        2,
    ),
    "marginals": (
        PAIR,
        2,
        [Marginal("a", normalized=False), Count({"b": True}, normalized=False)],
        1,
    ),
}
QUICK = {
    ("thresholds", 1, Neighbors.ADD_REMOVE),
    ("cells", 2, Neighbors.REPLACE_ONE),
}


def only_structured(monkeypatch):
    """Leave out the samplers for any functions, which are as good over so few cells."""
    monkeypatch.setattr(choose, "general", lambda *_: [])


def laws(program, pairs):
    """The law of each table of some pairs, given that a try is kept."""
    known: dict[int, dict[Hashable, float]] = {}

    def law(data):
        if id(data) not in known:
            masses = dict(enumerate_law(program, data).masses)
            masses = {
                outcome: mass
                for outcome, mass in masses.items()
                if not (isinstance(outcome[0], str) and outcome[0] == "ReleaseFailed")
            }
            assert not any(isinstance(outcome[0], str) for outcome in masses), masses
            total = math.fsum(masses.values())
            known[id(data)] = {outcome: mass / total for outcome, mass in masses.items()}
        return known[id(data)]

    for one, other in pairs:
        yield law(one), law(other)


@pytest.mark.parametrize(
    ("name", "unit_rows", "relation"),
    [
        pytest.param(
            name,
            unit_rows,
            relation,
            id=f"{name}-{unit_rows}-{relation.value}",
            marks=[] if (name, unit_rows, relation) in QUICK else [pytest.mark.audit],
        )
        for name in STRUCTURED
        for unit_rows in (1, 2)
        for relation in RELATIONS
    ],
)
def test_structured_draws_have_the_range_that_they_are_charged_for(
    name, unit_rows, relation, monkeypatch
):
    domain, rows, queries, size = STRUCTURED[name]
    only_structured(monkeypatch)
    monkeypatch.setattr(structured, "draw", one_try)
    program = small(*queries, size=size)(EPSILON)
    pairs = list(neighbours(domain, rows, relation, unit_rows=unit_rows))
    widest = largest = 0.0
    for one, other in laws(program, pairs):
        assert one.keys() == other.keys()
        losses = [math.log(one[outcome] / other[outcome]) for outcome in one]
        widest = max(widest, max(losses) - min(losses))
        largest = max(largest, *map(abs, losses))
    assert widest <= float(EPSILON) + 1e-9
    assert largest <= float(EPSILON) + 1e-9
    assert widest > float(EPSILON) / 4


def twice_as_strong(self):
    return self.terms.epsilon / self.terms.setting.unit_rows


def half_even(self, function, sums):
    gaps = np.abs(sums * -self.rows + self.size * self.answers[function])
    return np.rint(gaps / (self.size * self.widest)).astype(self.kind)


def of_its_own_rows(self, noise, opened):
    """A bound that knows how good the best database is for this very table."""
    records = self._sampler.draw(opened(), noise)
    bound = self._sampler.bound
    filled = int((opened().table(("level",)) > 0).sum())
    known = DrawBound(bound.family, bound.size, bound.rate, bound.rows, Fraction(1 + filled))
    return SmallDatabase(records, known)


def picked_alike(self, kept, rate, multiplicities=None):
    """A level is picked as if each held as many databases."""
    del multiplicities
    return PICK(self, kept, rate)


PICK = BranchingNoise.pick

BROKEN = {
    "sensitivity off by two": (Sampler, "rate", property(twice_as_strong), ALL),
    "score rounded": (Scorer, "__call__", half_even, ALL),
    "bound of its own rows": (DrawPricing, "run", of_its_own_rows, ALL),
    "databases of a level not counted": (BranchingNoise, "pick", picked_alike, ALL),
    "sensitivity off by two, few queries": (Sampler, "rate", property(twice_as_strong), APART),
}


@pytest.mark.parametrize("queries", [ALL, APART], ids=["any queries", "few queries"])
def test_a_draw_that_is_not_broken_passes(queries):
    assert audit(small(*queries)(EPSILON), neighbours(THREE, 3), ranged(EPSILON)).passed


@pytest.mark.parametrize("name", thinned(BROKEN, 2))
def test_a_broken_draw_is_caught(name, monkeypatch):
    owner, attribute, wrong, queries = BROKEN[name]
    monkeypatch.setattr(owner, attribute, wrong)
    report = audit(small(*queries)(EPSILON), neighbours(THREE, 3), ranged(EPSILON))
    assert not report.passed, report


def test_a_size_that_follows_from_private_rows_is_caught():
    pairs = list(neighbours(THREE, 2, Neighbors.ADD_REMOVE))

    def by_rows(data, noise):
        return small(*ALL, size=open_histogram(data).rows)(EPSILON)(data, noise)

    assert audit(small(*ALL, size=2)(EPSILON), pairs, ranged(EPSILON)).passed
    assert not audit(by_rows, pairs, ranged(EPSILON)).passed


def twice(data, noise):
    """Two small databases, each for half."""
    session = Session(data, Budget(100), noise=noise)
    mechanism = SmallDB(Workload(APART), epsilon=EPSILON / 2, size=1)
    return tuple(told(session.open(mechanism).distribution) for _ in range(2))


def test_a_level_that_is_used_again_is_caught(monkeypatch):
    pairs = list(neighbours(THREE, 2))
    assert audit(twice, pairs, ranged(EPSILON)).passed
    kept = {}

    def again(self, *given):
        if not self._depth:
            kept["picked"] = PICK(self, *given)
        return kept["picked"]

    monkeypatch.setattr(BranchingNoise, "pick", again)
    assert not audit(twice, pairs, ranged(EPSILON)).passed


LINE = Domain(Integer("level", 0, 2), Integer("other", 0, 1))


def test_no_bound_and_no_size_differs_between_neighbours():
    mechanism = SmallDB(Workload([Marginal("level"), Marginal("other")]), epsilon=1)
    seen = set()
    for data in tables(LINE, 2):
        session = Session(data, Budget(100))
        quote = session.quote(Marginal("level"), using=mechanism)
        channel = session.open(mechanism)
        release = channel.release(Marginal("level"))
        rows = channel.distribution.rows
        seen.add((quote.error(0.1), release.error(0.1), release.error(0.3), rows))
    assert len(seen) == 1
