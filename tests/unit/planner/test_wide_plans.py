"""Plans over domains that nobody writes down: known questions gain most on weighted records."""

import numpy as np
import pytest

from dpsdk import Budget, Domain, Integer, Planner, PrivateData, Session
from dpsdk.forms import Neighbors
from dpsdk.hypothesis import Records
from dpsdk.mechanisms import MWEM, Gaussian, LocalMarginals, OnlinePMW, Sampled
from dpsdk.planner.families import families
from dpsdk.planner.task import Task
from dpsdk.queries import Marginal, Rectangles, Workload
from dpsdk.release import FromRecords
from dpsdk.testing import seeded

WIDE = Domain(*[Integer(f"x{place}", 0, 9) for place in range(8)])
BUDGET = Budget(1, "1e-9")


def boxes(count=400):
    ends = np.sort(np.random.default_rng(1).integers(0, 10, (count, 3, 2)), axis=2)
    return Rectangles(("x0", "x3", "x7"), ends[..., 0], ends[..., 1])


def test_known_questions_are_best_learnt_on_records():
    planner = Planner(WIDE, BUDGET, rows=2_000)
    plans = planner.plan(boxes(), budget=BUDGET)
    ways = {type(plan.mechanism): plan for plan in plans}
    assert next(iter(ways)) is MWEM
    known, stream = ways[MWEM], ways[OnlinePMW]
    assert known.feasible
    assert known.expected.basis == stream.expected.basis == "extrapolated"
    assert "extrapolated" in {reason.code for reason in known.because}
    assert known.expected.median < stream.expected.median < ways[Gaussian].expected.median
    assert stream.mechanism.start == Sampled()
    for plan in (known, stream):
        assert any(
            isinstance(note, FromRecords) for note in planner.quote(boxes(), using=plan).notes
        )
    assert not planner.quote(boxes(), using=ways[LocalMarginals]).notes


@pytest.mark.thorough
def test_records_are_too_coarse_for_what_noise_answers_well():
    plans = Planner(WIDE, BUDGET, rows=10**8).plan(boxes(), budget=BUDGET)
    ways = {type(plan.mechanism): plan for plan in plans}
    assert list(ways).index(Gaussian) < list(ways).index(MWEM)
    assert ways[MWEM].expected is None
    assert "no-bound" in {reason.code for reason in ways[MWEM].because}


def test_tables_are_fitted_as_they_are():
    pairs = Workload([Marginal("x0", "x3"), Marginal("x3", "x7")])
    plans = Planner(WIDE, BUDGET, rows=200).plan(pairs, budget=BUDGET)
    assert not {MWEM, OnlinePMW} & {type(plan.mechanism) for plan in plans}


@pytest.mark.parametrize(
    ("planner", "code", "listed"),
    [
        (Planner(WIDE, Budget(1), rows=10_000), "needs-delta", {"mwem+records"}),
        (
            Planner(WIDE, BUDGET, neighbors=Neighbors.ADD_REMOVE, max_rows=10_000),
            "needs-public-rows",
            {"mwem+records", "online-pmw+records"},
        ),
    ],
)
def test_what_records_need_is_said(planner, code, listed):
    counts = Rectangles(("x0", "x5"), [[0, 0]] * 300, [[4, 5]] * 300, normalized=False)
    task = Task(counts, planner._form(counts), planner._terms, planner._odometer.balance, 0.05)
    barred = {one.code for one in families(task) if one.barred and one.barred.code == code}
    assert barred >= listed


@pytest.mark.thorough
def test_a_plan_on_records_is_done():
    columns = {name: [0, 3, 5, 9] * 500 for name in WIDE.names}
    data = PrivateData.from_columns(columns, WIDE, name="wide")
    session = Session(data, BUDGET, noise=seeded(1))
    plans = session.plan(boxes(300), budget=BUDGET)
    plan = next(one for one in plans if isinstance(one.mechanism, OnlinePMW))
    with session.open(plan.mechanism) as channel:
        channel.release(boxes(300))
        assert isinstance(channel.distribution, Records)
    assert session.spent.fraction <= 1
