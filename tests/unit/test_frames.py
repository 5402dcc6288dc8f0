"""Frames of answers, tables, releases, plans and what was asked, in three libraries."""

import math
import sys
from datetime import UTC, date, datetime

import numpy as np
import pytest

from dpsdk import Binned, Boolean, Budget, Categorical, Date, Domain, Integer, PrivateData, Session
from dpsdk.errors import InvalidArgument, MissingExtra
from dpsdk.forms import Ball
from dpsdk.losses import LogisticLoss
from dpsdk.mechanisms import (
    HeavyBall,
    Laplace,
    NoisyHistogram,
    NumericSparse,
    PrivateMinimizer,
    Tree,
)
from dpsdk.planner import Plans
from dpsdk.queries import (
    Above,
    Answers,
    ConvexMinimization,
    Count,
    DateQuantile,
    Marginal,
    MarginalTable,
    Mean,
    NumericAbove,
    Quantile,
    Rectangles,
    Threshold,
    Workload,
)
from dpsdk.testing import seeded
from worlds import people, table

nw = pytest.importorskip("narwhals.stable.v2")
LIBRARIES = ("polars", "pandas", "pyarrow")
BOUNDED = ["value", "low", "high", "beta", "joint"]
DATA = table(people(40, 4))


@pytest.fixture(params=LIBRARIES)
def library(request):
    return request.param


def session(data=DATA, **given):
    return Session(data, Budget(10**6, "1e-6"), noise=seeded(2), **given)


def columns(frame):
    """Columns as lists, with None where an entry is missing, in whichever way."""
    read = nw.from_native(frame, eager_only=True)
    return {name: [_plain(one) for one in read[name].to_list()] for name in read.columns}


def _plain(value):
    if isinstance(value, float) and math.isnan(value):
        return None
    if value is not None and type(value).__name__ == "NaTType":
        return None
    return value


def kinds(frame):
    read = nw.from_native(frame, eager_only=True)
    return {name: str(kind) for name, kind in read.schema.items()}


def test_a_release_of_a_table_has_its_labels_and_bounds(library):
    release = session().release(Marginal("age", "member", "hours"), using=Laplace(1))
    frame = release.to_frame(library)
    got, low, high = columns(frame), *release.interval()
    assert type(frame).__module__.startswith(library)
    assert list(got) == ["age", "member", "hours", *BOUNDED]
    assert got["age"][:7] == [17] * 6 + [18]
    assert got["member"][:4] == [False] * 3 + [True]
    assert got["hours"][:3] == ["[0, 10)", "[10, 20)", "[20, 40]"]
    assert got["value"] == release.value.values.ravel().tolist()
    assert (got["low"], got["high"]) == (low.values.ravel().tolist(), high.values.ravel().tolist())
    assert set(got["beta"]) == {0.05}
    assert set(got["joint"]) == {True}
    each = columns(release.to_frame(library, beta=0.2, joint=False))
    np.testing.assert_allclose(
        np.subtract(each["high"], each["low"]), 2 * release.errors(0.2), rtol=1e-9
    )
    assert (set(each["beta"]), set(each["joint"])) == ({0.2}, {False})
    assert kinds(frame) | {"hours": ""} == {
        "age": "Int64", "member": "Boolean", "hours": "", "value": "Float64", "low": "Float64",
        "high": "Float64", "beta": "Float64", "joint": "Boolean",
    }  # fmt: skip


def test_a_release_of_a_number_is_one_row(library):
    asked = session()
    for query in (Count(), Mean("age"), Quantile("age", 0.5)):
        release = asked.release(query, using=Laplace(1)) if query != Quantile("age", 0.5) else (
            asked.open(Tree("age", epsilon=1)).release(query)
        )  # fmt: skip
        low, high = release.interval()
        got = columns(release.to_frame(library))
        assert got == {
            "query": [str(query)], "value": [release.value], "low": [low], "high": [high],
            "beta": [0.05], "joint": [True],
        }  # fmt: skip


def test_several_answers_say_of_which_query_each_row_is(library):
    inner = Workload([Count(), Marginal("sex")])
    boxes = Rectangles("age", lower=[0, 1], upper=[2, 3])
    workload = Workload([Threshold("age", 20), Marginal("age", "sex"), inner, boxes])
    release = session().release(workload, using=Laplace(1))
    got = columns(release.to_frame(library))
    assert list(got) == ["query", "entry", "age", "sex", *BOUNDED]
    assert got["query"] == [
        "Threshold('age', 20)", *["Marginal('age', 'sex')"] * 16, "Count()",
        *["Marginal('sex')"] * 2, *[str(boxes)] * 2,
    ]  # fmt: skip
    assert got["entry"] == [None] * 20 + [0, 1]
    assert got["age"][:3] == [None, 17, 17]
    assert got["age"][17:] == [None] * 5
    assert got["sex"] == [None, *["Female", "Male"] * 8, None, "Female", "Male", None, None]
    assert got["value"] == release.value.values.tolist()
    answers = columns(release.value.to_frame(library))
    assert list(answers) == ["query", "entry", "age", "sex", "value"]
    assert all(answers[name] == got[name] for name in answers)
    unnamed = Answers((1.0, 2.0), lambda: np.zeros(2))
    assert columns(unnamed.to_frame(library)) == {"query": ["0", "1"], "value": [1.0, 2.0]}


def test_an_answer_that_is_no_number_keeps_its_kind(library):
    with session().open(NumericSparse(10**5, tops=3)) as channel:
        got = columns(channel.release(Above(Count(), 0.01)).to_frame(library))
        assert got["value"] == [True]
        got = columns(
            channel.release(NumericAbove(Count(normalized=False), 1000)).to_frame(library)
        )
        assert got["query"] == [str(NumericAbove(Count(normalized=False), 1000))]
        assert got["value"] == [None]
    days = Date("day", date(2024, 1, 1), date(2024, 1, 31))
    data = PrivateData.from_columns({"day": [date(2024, 1, 9)] * 99}, Domain(days))
    with session(data).open(NoisyHistogram(epsilon=1000)) as channel:
        release = channel.release(DateQuantile("day", 0.5))
        assert release.value == date(2024, 1, 9)
        got = columns(release.to_frame(library))
        assert str(got["value"][0])[:10] == "2024-01-09"
        daily = columns(channel.release(Marginal("day")).to_frame(library))
        assert str(daily["day"][8])[:10] == "2024-01-09"


def test_where_there_is_no_bound_there_are_no_columns_of_one(library):
    query = ConvexMinimization(LogisticLoss(), features=["age"], label="member", over=Ball(3))
    release = session().release(
        query, using=PrivateMinimizer(epsilon=10, delta="1e-9", oracle=HeavyBall())
    )
    assert not release.bound().proven
    got = columns(release.to_frame(library))
    names = [*release.value.coefficients, "intercept"]
    assert got == {
        "coefficient": names,
        "value": [*release.value.coefficients.values(), release.value.intercept],
    }


HOSTILE = ["a\nb", "<b>", "=1+1", "'; --", "é", "\u202e"]


def test_names_and_labels_of_whatever_spelling_go_through(library):
    domain = Domain(*(Categorical(name, [f"{name}?", "\t", "0"]) for name in HOSTILE))
    data = PrivateData.from_columns({name: ["0"] * 9 for name in domain.names}, domain)
    release = session(data).release(Marginal(*domain.names[:3]), using=Laplace(1))
    got = columns(release.to_frame(library))
    assert list(got)[:3] == list(domain.names[:3])
    assert got[domain.names[0]][0] == f"{domain.names[0]}?"
    huge = Domain(Integer("n", 2**70, 2**70 + 1), Categorical("mixed", ["x", 7]))
    wide = MarginalTable(huge.attributes, np.zeros((2, 2)))
    assert columns(wide.to_frame(library))["n"][0] == str(2**70)
    assert columns(wide.to_frame(library))["mixed"][:2] == ["x", "7"]


@pytest.mark.parametrize("name", ["value", "low", "high", "beta", "joint", "moved", "query"])
def test_an_attribute_that_is_called_like_a_column_is_refused_until_there_is_a_prefix(name):
    domain = Domain(Integer(name, 0, 3))
    data = PrivateData.from_columns({name: [0] * 3}, domain)
    asked = session(data).release(Workload([Marginal(name)]), using=Laplace("0.1")).nonnegative()
    assert asked.moved > 0
    with pytest.raises(InvalidArgument, match="prefix must be one by which no column is called"):
        asked.to_frame()
    with pytest.raises(InvalidArgument, match="prefix"):
        asked.to_frame(prefix=3)
    got = columns(asked.to_frame(prefix="dp_"))
    assert list(got) == ["dp_query", name, *(f"dp_{one}" for one in [*BOUNDED, "moved"])]
    assert got[name] == [0, 1, 2, 3]
    assert set(got["dp_moved"]) == {asked.moved}


def test_what_was_asked_is_a_frame(library):
    assert columns(session().history.to_frame(library)) == {
        name: [] for name in ("query", "mechanism", "scope", "request_id", "cost", "epsilon",
                              "rho", "answered", "at")
    }  # fmt: skip
    asked = session()
    asked.answer(Count(), using=Laplace("0.5"), request_id="one")
    with asked.scope("analyst", epsilon=1) as scope:
        scope.answer(Mean("age"), using=Laplace("0.25"))
    assert asked.history == tuple(asked.history)
    got = columns(asked.history.to_frame(library))
    assert got["query"] == ["Count()", "Mean('age')"]
    assert got["scope"] == ["", "analyst"]
    assert got["request_id"] == ["one", ""]
    assert got["epsilon"] == [0.5, 0.25]
    assert got["answered"] == [True, True]
    at = got["at"][0]
    assert abs(datetime.now(UTC) - at).days == 0
    assert kinds(asked.history.to_frame(library))["epsilon"] == "Float64"
    assert columns(asked.history[1:].to_frame(library))["query"] == ["Mean('age')"]
    assert asked.history[1:][0] == asked.history[-1]


@pytest.mark.thorough(quick=1)
def test_plans_have_the_same_kinds_whatever_they_say(library):
    full, empty = session().plan(Marginal("sex", "age"), error=0.1), Plans([])
    assert columns(empty.to_frame(library)) == {name: [] for name in empty.to_columns()}
    got, told = columns(full.to_frame(library)), full.to_columns()
    for name, values in told.items():
        assert got[name] == values, name
    assert kinds(full.to_frame(library))["promised"] == "Float64"


def test_what_has_no_rows_and_what_is_no_argument_is_refused():
    release = session().release(Count(), using=Laplace(1))
    with pytest.raises(InvalidArgument, match="backend"):
        release.to_frame("numpy")
    with pytest.raises(InvalidArgument, match="beta"):
        release.to_frame(beta=1)
    with pytest.raises(InvalidArgument, match="joint"):
        release.to_frame(joint="no")
    with pytest.raises(InvalidArgument, match="value must be a number, an array, a table"):
        Answers((object(),), lambda: np.zeros(1)).to_frame()


def test_a_frame_needs_narwhals_and_names_it(monkeypatch):
    release, plans = session().release(Count(), using=Laplace(1)), Plans([])
    monkeypatch.setitem(sys.modules, "narwhals.stable.v2", None)
    for frame in (release.to_frame, plans.to_frame, session().history.to_frame):
        with pytest.raises(MissingExtra, match="narwhals"):
            frame()


def test_bins_and_truths_with_gaps_stay_what_they_are(library):
    pair = Workload([Marginal("hours"), Marginal("member"), Count()])
    got = columns(session().release(pair, using=Laplace(1)).to_frame(library))
    assert got["hours"] == ["[0, 10)", "[10, 20)", "[20, 40]", None, None, None]
    assert got["member"] == [None, None, None, False, True, None]


def test_a_domain_of_every_kind_is_typed_as_a_distribution_is(library):
    domain = Domain(
        Integer("i", 0, 1), Boolean("b"), Categorical("c", ["x", "y"]), Categorical("k", [3, 1]),
        Binned("n", [0, 1, 2]), Date("d", date(2024, 1, 1), date(2024, 1, 2)),
    )  # fmt: skip
    data = PrivateData.from_columns(
        {"i": [0], "b": [True], "c": ["x"], "k": [1], "n": [0], "d": [date(2024, 1, 1)]}, domain
    )
    with session(data).open(NoisyHistogram(epsilon=1)) as channel:
        drawn = kinds(channel.distribution.to_frame(library))
        frame = channel.answer(Marginal(*domain.names)).to_frame(library)
        assert {name: kinds(frame)[name] for name in domain.names} == drawn
