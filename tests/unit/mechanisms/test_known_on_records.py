"""Known questions on weighted records: what rounds learn leaves what the start knew."""

import numpy as np
import pytest

from dpsdk import Budget, Domain, Integer, Neighbors, PrivateData, Session
from dpsdk.kernel import Terms
from dpsdk.mechanisms import MWEM, Sampled
from dpsdk.queries import Marginal, Rectangles
from dpsdk.testing import seeded

DOMAIN = Domain(*[Integer(f"a{place}", 0, 19) for place in range(7)])
NAMES = ("a0", "a3", "a6")
START = Sampled(records=4000)


def session(rows=5000):
    # Three attributes of which no two say anything together, and the others noise.
    rng = np.random.default_rng(0)
    columns = {name: rng.integers(0, 20, rows) for name in DOMAIN.names}
    high = (columns["a0"] >= 10) ^ (columns["a3"] >= 10)
    columns["a6"] = columns["a6"] % 10 + 10 * high
    data = PrivateData.from_columns(columns, DOMAIN, name="wide", neighbors=Neighbors.REPLACE_ONE)
    return Session(data, Budget(100, "1e-9"), noise=seeded(1)), columns


def rectangles(count=40, seed=3):
    rng = np.random.default_rng(seed)
    ends = np.sort(rng.integers(0, 20, (2, count, 3)), axis=0)
    return Rectangles(NAMES, *ends)


def single(channel):
    return np.array([channel.answer(Marginal(name)).values for name in DOMAIN.names])


def test_marginals_of_single_attributes_stay_while_rectangles_are_learnt():
    asked = rectangles()
    found = []
    for rounds in (1, 6):
        wide, columns = session()
        channel = wide.open(MWEM(asked, rho=1, rounds=rounds, start=START))
        codes = np.stack([columns[name] for name in NAMES], axis=1)[:, None]
        truths = ((codes >= asked.low) & (codes <= asked.high)).all(axis=2).mean(axis=0)
        found.append((single(channel), np.abs(channel.answer(asked) - truths).max()))
    (before, first), (after, last) = found
    assert last < 0.8 * first
    assert np.abs(after - before).max() < 1e-4


@pytest.mark.parametrize(("asked", "share"), [(rectangles(), 2), (Marginal("a0", "a3"), 10)])
def test_choices_of_single_functions_take_half_of_a_round(asked, share):
    plan = MWEM(asked, rho=1, rounds=4, start=START).plan(Terms(session()[0].facts))
    assert float(plan.choice) ** 2 / 8 == pytest.approx(0.1 / 4 / share)


def test_rectangles_are_chosen_by_themselves_though_they_come_in_one_block():
    wide, _ = session()
    asked = rectangles(2000)
    mechanism = MWEM(asked, rho=1, start=START)
    terms = Terms(wide.facts)
    assert len(mechanism._lowered(terms).blocks) == 1
    # One block would have four rounds at the most.
    rounds = mechanism.plan(terms).rounds
    assert rounds > 4
    assert (
        wide.quote(asked, using=mechanism).at_open
        == mechanism.quote(asked.lower(DOMAIN), terms).at_open
    )
    wide.open(mechanism)
    assert wide.spent.charges == 3 + 2 * rounds
