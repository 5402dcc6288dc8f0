"""Marginals first, and weighted records that resemble them: a start for any domain."""

import math
from fractions import Fraction

import numpy as np
import pytest

from dpsdk import Budget, Domain, Integer, Neighbors, PrivateData, Session, wire
from dpsdk.errors import BudgetExceeded, InvalidArgument, PublicSizeRequired, TooLarge
from dpsdk.hypothesis import Distribution, Given, Records
from dpsdk.kernel import Terms
from dpsdk.losses import SquaredLoss
from dpsdk.mechanisms import (
    MWEM,
    ConvexPMW,
    Gaussian,
    OfflineConvexPMW,
    OfflinePMW,
    OnlinePMW,
    Sampled,
)
from dpsdk.queries import Ball, ConvexMinimization, Count, Marginal, Workload
from dpsdk.release import FromRecords
from dpsdk.testing import seeded
from dpsdk.wire import ReleaseRecord

WIDE = Domain(*[Integer(f"a{place}", 0, 19) for place in range(7)])
SMALL = Sampled(records=2000)


def table(rows=5000, domain=WIDE, seed=0):
    rng = np.random.default_rng(seed)
    base = rng.integers(0, 20, rows)
    return {
        name: np.clip(base + rng.integers(-3 * place, 3 * place + 1, rows), 0, 19)
        for place, name in enumerate(domain.names)
    }


def session(columns=None, **given):
    data = PrivateData.from_columns(columns or table(), WIDE, name="wide", **given)
    return Session(data, Budget(epsilon=1, delta="1e-9"), noise=seeded(1))


def test_names_stand_for_it():
    assert OnlinePMW(1, "1e-9", updates=3, start="marginals").start == Sampled()
    assert Sampled() == Sampled("0.9", 2, 2**16) != Sampled(records=5)
    for bad in ({"share": 1}, {"width": 0}, {"records": 0}, {"records": 2**25}, {"width": 1.5}):
        with pytest.raises(InvalidArgument, match=next(iter(bad))):
            Sampled(**bad)


def test_a_stream_on_a_universe_that_nobody_writes_down(tmp_path):
    # By default, as there are 1.28e9 cells; and the last round fits what a session has.
    columns = table()
    wide = session(columns)
    stream = OnlinePMW(1, "1e-9", updates=4, queries=100)
    channel = wide.open(stream)
    assert isinstance(channel.distribution, Records)
    assert channel.distribution.size == 2**16
    answer = channel.answer(Count(where={"a0": range(5), "a5": range(4, 10), "a6": range(12)}))
    inside = (columns["a0"] < 5) & (columns["a6"] < 12)
    inside &= (columns["a5"] >= 4) & (columns["a5"] < 10)
    assert abs(answer - inside.mean()) < 0.05
    channel.distribution.save(tmp_path / "records")
    kept = Distribution.load(tmp_path / "records")
    assert kept.sample(20, 3) == channel.distribution.sample(20, 3)
    # What it ended with is a start for another.
    again = session(columns).open(OnlinePMW(1, "1e-9", updates=4, start=kept))
    assert again.distribution.sample(20, 3) == kept.sample(20, 3)


def test_all_rounds_fit_the_budget_that_the_stream_was_given():
    wide = session()
    stream = OnlinePMW(1, "1e-9", updates=3, threshold=1e-9, start=SMALL, when_spent="raise")
    channel = wide.open(stream)
    channel.answer(Marginal("a0", "a1"))
    assert channel.distribution.size == 2000
    assert wide.spent.charges == 3 + 2 * 3


def test_records_are_a_function_of_what_was_released():
    # The same numbers of noise give the same records, and nothing else is drawn.
    one, two = (session().open(OnlinePMW(1, "1e-9", updates=1, start=SMALL)) for _ in range(2))
    assert one.distribution.sample(9, 1) == two.distribution.sample(9, 1)


def test_the_cell_outside_has_a_record_of_its_own():
    channel = session().open(OnlinePMW(1, "1e-9", updates=1, start=SMALL))
    assert channel.distribution.outside
    assert channel.distribution.outside_mass >= 1 / 2001 - 1e-12


@pytest.mark.parametrize("make", [OnlinePMW, ConvexPMW])
def test_what_cannot_be_is_refused_before_anything_is_paid(make):
    with pytest.raises(InvalidArgument, match="delta"):
        make(1, updates=3, start="marginals")
    with pytest.raises(InvalidArgument, match="prepaid"):
        make(1, "1e-9", updates=3, start="marginals", prepaid=True)
    private = session(neighbors=Neighbors.ADD_REMOVE, max_rows=10_000)
    with pytest.raises(PublicSizeRequired):
        private.open(make(1, "1e-9", updates=3, start=SMALL))
    wide = Domain(Integer("a", 0, 2**20), Integer("b", 0, 2**20))
    data = PrivateData.from_columns({"a": [1, 2], "b": [3, 4]}, wide, name="wide")
    long = Session(data, Budget(epsilon=1, delta="1e-9"), noise=seeded(1))
    with pytest.raises(TooLarge, match="coarser"):
        long.open(make(1, "1e-9", updates=3, start=SMALL))
    poor = session()
    with pytest.raises(BudgetExceeded):
        poor.open(make(9, "1e-9", updates=3, start=SMALL))
    assert not any(one.spent.charges for one in (private, long, poor))


def test_no_promise_rests_on_records():
    with pytest.raises(InvalidArgument, match="start"):
        OnlinePMW(1, "1e-9", alpha=0.3, beta=0.1, queries=10, start="marginals")
    records = Records(WIDE, [[0] * 7], outside_mass=0.5)
    stream = OnlinePMW(1, "1e-9", alpha=0.3, beta=0.1, queries=10, start=records)
    with pytest.raises(InvalidArgument, match="alpha"):
        session().open(stream)
    assert Given(records).kl_cap(None) == math.inf
    learnt = session().open(OnlinePMW(1, "1e-9", updates=3, start=SMALL))
    release = learnt.release(Marginal("a0", "a1"))
    assert release.source == "hypothesis"


def test_a_known_workload_on_a_universe_that_nobody_writes_down():
    columns = table()
    wide = session(columns)
    asked = Workload(
        [
            Marginal("a0", "a1"),
            *[Count(where={"a2": range(low, low + 5), "a6": range(9)}) for low in range(12)],
        ]
    )
    mechanism = MWEM(asked, epsilon=1, delta="1e-9", rounds=3)
    channel = wide.open(mechanism)
    # The last round fits the budget that the mechanism was given.
    assert wide.spent.charges == 3 + 2 * 3
    assert isinstance(channel.distribution, Records)
    assert channel.distribution.effective >= 2**16 / 16
    low = (columns["a2"] < 5) & (columns["a6"] < 9)
    found = channel.answer(Count(where={"a2": range(5), "a6": range(9)}))
    assert abs(found - low.mean()) < 0.05
    assert channel.release(Count(where={"a0": 3})).source == "fitted"


def test_known_workloads_refuse_what_records_cannot_have():
    asked = Marginal("a0", "a1")
    for bad, named in (
        ({"epsilon": 1}, "delta"),
        ({"rho": 1, "average": True}, "start"),
        ({"rho": 1, "start": "pairs"}, "start"),
    ):
        with pytest.raises(InvalidArgument, match=named):
            MWEM(asked, **{"start": "marginals", **bad})
    poor = session()
    with pytest.raises(BudgetExceeded):
        poor.open(MWEM(asked, epsilon=9, delta="1e-9", rounds=2))
    with pytest.raises(TooLarge, match='start="marginals"'):
        poor.open(MWEM(asked, epsilon="0.5"))
    with pytest.raises(TooLarge, match='start="marginals"'):
        poor.open(OnlinePMW("0.5", updates=3))
    assert "start=" in repr(MWEM(asked, rho=1, start=SMALL))


def test_one_function_a_round_where_no_theorem_holds():
    columns = table()
    wide = session(columns)
    boxes = Workload(
        [Count(where={"a2": range(low, low + 5), "a6": range(9)}) for low in range(12)]
    )
    assert OfflinePMW(boxes, epsilon=1, delta="1e-9").plan(Terms(wide.facts)).error == math.inf
    mechanism = OfflinePMW(boxes, epsilon=1, delta="1e-9", rounds=3, start=SMALL)
    plan = mechanism.plan(Terms(wide.facts))
    assert (plan.rounds, plan.gap, plan.error) == (3, -math.inf, math.inf)
    assert mechanism.alpha_for(Terms(wide.facts)) is None
    channel = wide.open(mechanism)
    # Three of the start, and all rounds: no number ends them, and they fit the budget.
    assert wide.spent.charges == 3 + 2 * 3
    found = channel.release(boxes)
    for number, low in zip(found.value, range(12), strict=True):
        inside = (columns["a2"] >= low) & (columns["a2"] < low + 5) & (columns["a6"] < 9)
        assert abs(number - inside.mean()) < 0.05
    assert not found.bound().proven


def test_rounds_may_be_chosen_where_the_theorem_holds():
    data = PrivateData.from_columns({"a": [0, 1] * 50_000}, Domain(Integer("a", 0, 1)), name="two")
    asked = Count(where={"a": 0})
    mechanism = OfflinePMW(asked, rho=1, rounds=2)
    small = Session(data, Budget(epsilon=20, delta="1e-9"), noise=seeded(1))
    plan = mechanism.plan(Terms(small.facts))
    assert plan.rounds == 2
    assert 0 < plan.error < math.inf
    assert small.open(mechanism).release(asked).bound().standing == "promised"


@pytest.mark.parametrize(
    ("given", "named"),
    [
        ({"epsilon": 1, "start": "marginals"}, "delta"),
        ({"rho": 1, "start": "pairs"}, "start"),
        ({"rho": 1, "start": "marginals", "_alpha": 0.1}, "start"),
        ({"rho": 1, "rounds": 3, "_alpha": 0.1}, "rounds"),
        ({"rho": 1, "rounds": 0}, "rounds"),
    ],
)
def test_rounds_and_records_refuse_what_they_cannot_have(given, named):
    with pytest.raises(InvalidArgument, match=named):
        OfflinePMW(Marginal("a0", "a1"), **given)


def test_what_cannot_be_paid_on_records_is_refused_before_anything_is():
    asked, poor = Marginal("a0", "a1"), session()
    with pytest.raises(BudgetExceeded):
        poor.open(OfflinePMW(asked, epsilon=9, delta="1e-9", rounds=2))
    with pytest.raises(InvalidArgument, match="rounds"):
        poor.open(OfflinePMW(asked, epsilon=1, delta="1e-9", rounds=1001))
    with pytest.raises(TooLarge):
        poor.open(OfflinePMW.textbook(asked, epsilon="0.5", delta="1e-9", alpha=0.5))
    private = session(neighbors=Neighbors.ADD_REMOVE, max_rows=10_000, outside="apart")
    with pytest.raises(PublicSizeRequired):
        private.open(OfflinePMW(asked, rho="0.01", start=SMALL))
    assert not poor.spent.charges
    assert not private.spent.charges


MODEL = ConvexMinimization(SquaredLoss(), features=["a1"], label="a0", over=Ball(2))
MAKERS = {
    "online": lambda **given: OnlinePMW(1, "1e-9", updates=1, **given),
    "convex": lambda **given: ConvexPMW(1, "1e-9", updates=1, **given),
    "known": lambda **given: MWEM(Marginal("a0"), epsilon=1, delta="1e-9", **given),
    "offline": lambda **given: OfflinePMW(Marginal("a0"), epsilon=1, delta="1e-9", **given),
    "models": lambda **given: OfflineConvexPMW(MODEL, epsilon=1, delta="1e-9", rounds=1, **given),
}


@pytest.mark.parametrize("make", MAKERS.values(), ids=MAKERS)
def test_quotes_and_releases_say_that_records_answer(make):
    wide, asked = session(), Marginal("a0", "a1")
    note = FromRecords(2000, Fraction(9, 10))
    # By default, where it was refused before.
    (default,) = wide.quote(asked, using=make()).notes
    assert default == FromRecords(2**16, Fraction(9, 10))
    quote = wide.quote(asked, using=make(start=SMALL))
    assert quote.notes == (note,)
    assert str(note) in repr(quote)
    assert str(note) in quote._repr_html_()
    release = wide.open(make(start=SMALL)).release(asked)
    assert note in release.notes
    assert str(note) in repr(release)
    assert note in wire.loads(ReleaseRecord, wire.dumps(ReleaseRecord.of(release))).notes


def test_what_was_measured_or_learnt_on_cells_has_no_such_note():
    wide = session()
    stream = wide.open(OnlinePMW(1, "1e-9", updates=5, threshold=1e-9, start=SMALL))
    answers = (stream.release(Count(where={"a0": cell})) for cell in range(20))
    measured = next(release for release in answers if release.source == "measured")
    assert not any(isinstance(note, FromRecords) for note in measured.notes)
    assert not wide.quote(Marginal("a0"), using=Gaussian(rho=1)).notes
    few = Domain(Integer("a", 0, 3), Integer("b", 0, 3))
    data = PrivateData.from_columns({"a": [0, 1], "b": [3, 3]}, few, name="few")
    small = Session(data, Budget(epsilon=1, delta="1e-9"), noise=seeded(1))
    for mechanism in (OnlinePMW(1, "1e-9", updates=1), MWEM(Marginal("a"), rho=1)):
        assert not small.quote(Marginal("a"), using=mechanism).notes
    # Records that were given have no share.
    given = OnlinePMW(1, "1e-9", updates=1, start=Records(few, [[0, 1], [3, 3]], outside_mass=0))
    assert small.quote(Marginal("a"), using=given).notes == (FromRecords(2, Fraction(0)),)
    assert "budget" not in str(FromRecords(2, Fraction(0)))


@pytest.mark.parametrize("make", [MWEM, OfflinePMW])
def test_what_a_known_workload_ended_with_is_kept_in_a_file(make, tmp_path):
    wide, boxes = session(), Workload([Count(where={"a2": range(3), "a6": range(9)})])
    channel = wide.open(make(boxes, epsilon="0.5", delta="1e-9", rounds=2, start=SMALL))
    channel.distribution.save(tmp_path / "records")
    kept = Distribution.load(tmp_path / "records")
    assert isinstance(kept, Records)
    assert kept.least == channel.distribution.least == 2000 / 16
    assert kept.answers(boxes.lower(WIDE)) == channel.distribution.answers(boxes.lower(WIDE))
    later = wide.open(OnlinePMW("0.1", "1e-10", updates=1, start=kept))
    assert later.release(boxes).notes[-1] == FromRecords(2000, Fraction(0))
