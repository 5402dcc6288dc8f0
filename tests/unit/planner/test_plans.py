"""Plans as a value: a sequence, a table, a curve."""

import pickle
import re
import sys
from copy import copy, deepcopy
from itertools import pairwise
from pathlib import Path
from unittest.mock import patch

import pytest
from worlds_of_plans import AGES, ONE, SEXES, session

from dpsdk import Budget
from dpsdk.accounting import BasicComposition
from dpsdk.errors import InvalidArgument, MissingExtra, NoMechanism
from dpsdk.planner import Curve, Goal, Plans
from dpsdk.planner.reasons import SENTENCES

pytestmark = pytest.mark.thorough


def test_plans_are_a_sequence_with_a_best():
    plans = session().plan(SEXES, error=20.0)
    assert plans[0] is plans.best
    assert list(plans) == list(plans[:]) == [plans[place] for place in range(len(plans))]
    assert plans[-1] in plans
    assert plans == Plans(plans.plans, plans.question)
    assert hash(plans) == hash(Plans(plans.plans, plans.question))


def test_plans_are_copied_and_pickled():
    plans = session().plan(SEXES, error=20.0)
    assert copy(plans) is deepcopy(plans) is plans
    again = pickle.loads(pickle.dumps(plans))  # noqa: S301  # made above
    assert again == plans
    assert repr(again) == repr(plans)
    assert again.curve() == Curve(())


def test_no_plans_have_no_best():
    assert len(Plans([])) == 0
    with pytest.raises(NoMechanism, match="a question"):
        _ = Plans([], "a question").best
    assert Plans([]).curve() == Curve(())
    assert repr(Curve(())) == "no points"


def test_plans_read_as_a_table():
    plans = session().plan(ONE, error=3.0)
    lines = repr(plans).splitlines()
    assert lines[0] == f"Plans for {ONE!r}"
    assert lines[1].split() == ["mechanism", "share", "promised", "expected", "because"]
    assert len(lines) == 2 + len(plans)
    for line, plan in zip(lines[2:], plans, strict=True):
        assert line.startswith(str(plan.mechanism))
        assert plan.because[0].text in line
        assert ("  no: " in line) == (not plan.feasible)


@pytest.mark.parametrize("backend", ["polars", "pandas", "pyarrow"])
def test_plans_and_curves_become_frames(backend):
    pytest.importorskip(backend)
    nw = pytest.importorskip("narwhals.stable.v2")
    plans = session().plan(ONE, error=3.0)
    frame = nw.from_native(plans.to_frame(backend=backend))
    assert frame.shape == (len(plans), len(plans.to_columns()))
    assert frame["mechanism"].to_list() == [str(plan.mechanism) for plan in plans]
    assert frame["feasible"].to_list() == [plan.feasible for plan in plans]
    curve = plans.curve()
    assert nw.from_native(curve.to_frame(backend=backend)).shape == (len(curve.points), 5)


def test_other_libraries_are_refused_and_missing_ones_named():
    plans = session().plan(ONE, error=3.0)
    for frame in (plans.to_frame, plans.curve().to_frame):
        with pytest.raises(InvalidArgument, match="backend"):
            frame(backend="numpy")
        with patch.dict(sys.modules, {"narwhals.stable.v2": None}), pytest.raises(MissingExtra):
            frame()


def test_a_curve_falls_with_what_is_taken():
    plans = session(BasicComposition()).plan(AGES, error=80.0)
    curve = plans.curve()
    codes = dict.fromkeys(point.family for point in curve.points)
    assert 1 < len(codes) <= 4
    for code in codes:
        points = [point for point in curve.points if point.family == code]
        for one, other in pairwise(points):
            assert one.share < other.share <= 1
            assert one.error > other.error
    best = [point for point in curve.points if point.family == curve.points[0].family]
    assert best[-1].error == min(point.error for point in curve.points)
    assert curve == plans.curve()
    assert len(repr(curve).splitlines()) > len(codes)


def test_a_plan_for_goals_shows_its_parts():
    own = session(budget=Budget(4, "1e-6"))
    plan = own.plan([Goal(AGES, 60.0), Goal(SEXES, 8.0)]).best
    assert len(plan.parts) == 2
    assert "Parts(" in repr(plan)


def test_the_reference_tells_every_code():
    page = Path(__file__).parents[3] / "docs" / "reference" / "planner.md"
    told = re.findall(r"^\| (`.*?) \|", page.read_text(encoding="utf-8"), re.MULTILINE)
    assert sorted(re.findall(r"`([a-z-]+)`", " ".join(told))) == sorted(SENTENCES)
