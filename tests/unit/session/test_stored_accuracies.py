"""What a ledger keeps of an answer: its bounds and how far it was moved, as they were at first."""

import json
from functools import partial

import numpy as np
import pytest

from dpsdk import Budget, Session
from dpsdk.accounting import MemoryLedger, SQLiteLedger
from dpsdk.accuracy import (
    ConstrainedAccuracy,
    HalfWidths,
    NoAccuracy,
    NoiseAccuracy,
    PromisedAccuracy,
)
from dpsdk.codec import canonical, from_plain, to_plain
from dpsdk.errors import LedgerDamaged, WireError
from dpsdk.mechanisms import (
    Gaussian,
    Laplace,
    LocalMarginals,
    Matrix,
    NoisyHistogram,
    OnlinePMW,
    Parts,
    Projection,
    ResidualPlanner,
    SquareRoot,
    Tree,
)
from dpsdk.mechanisms.convex.pmw.textbook import PromisedExcess
from dpsdk.mechanisms.exponential_quantile import RankAccuracy
from dpsdk.mechanisms.linear_accuracy import Combination, LinearAccuracy
from dpsdk.mechanisms.parts import JointAccuracy
from dpsdk.noise import DiscreteGaussian, DiscreteLaplace
from dpsdk.queries import Count, Mean, Threshold, Workload, marginals
from worlds import PEOPLE, people, table

pytestmark = pytest.mark.thorough

DATA = table(people(60, 4), name="people")
PAIRS = marginals(PEOPLE, 2)
AGES = Workload(Threshold("age", t) for t in range(17, 25))

PARTS = [
    (Count(), Laplace("0.1")), (AGES, Tree("age", epsilon=1)), (Mean("age"), Gaussian(rho=1)),
]  # fmt: skip
AT_ONCE = {
    "laplace": (AGES, Laplace("0.1")),
    "gaussian": (AGES, Gaussian(rho="0.01")),
    "projection": (PAIRS, Projection(epsilon="0.1", delta="1e-7")),
    "parts": (Workload([one for one, _ in PARTS]), Parts(PARTS)),
}
OPENED = {
    "histogram": (PAIRS, NoisyHistogram(epsilon="0.1")),
    "consistent histogram": (PAIRS, NoisyHistogram(epsilon="0.1", consistent=True)),
    "residuals": (PAIRS, ResidualPlanner(PAIRS, rho="0.001")),
    "residuals, not negative": (PAIRS, ResidualPlanner(PAIRS, rho="0.001", nonnegative=True)),
    "tree": (AGES, Tree("age", epsilon=1)),
    "square root": (AGES, SquareRoot("age", epsilon=1)),
    "matrix": (AGES, Matrix(AGES, epsilon=1)),
    "certificate": (PAIRS, LocalMarginals(PAIRS, epsilon=8, delta="1e-7", certify="0.5")),
}
MOVE = ("projection", "consistent histogram", "residuals, not negative")


def same(again, first):
    assert again == first
    assert again.moved == first.moved
    for beta in (0.3, 0.05, 0.001):
        assert again.bound(beta) == first.bound(beta)
        if first.bound(beta).proven:
            np.testing.assert_array_equal(again.errors(beta), first.errors(beta))


@pytest.mark.parametrize("name", [*AT_ONCE, *OPENED])
def test_an_answer_given_again_has_the_bounds_of_the_first(name):
    ledger = MemoryLedger()
    query, using = {**AT_ONCE, **OPENED}[name]

    def session():
        return Session(DATA, Budget(10**3, "0.1"), ledger=ledger)

    asked = session()
    if name in AT_ONCE:
        first = asked.release(query, using=using, request_id="a")
        again = session().release(query, using=using, request_id="a")
    else:
        channel = asked.open(using)
        first, again = [channel.release(query, request_id="a") for _ in range(2)]
        plain = channel.release(query)
        # Nor does a name change what is known of an answer.
        assert (plain.bound(), plain.moved) == (first.bound(), first.moved)
        np.testing.assert_array_equal(plain.errors(), first.errors())
    assert first.bound().proven
    assert (first.moved > 0) == (name in MOVE)
    same(again, first)
    assert again.accuracy.kind == first.accuracy.kind
    if name != "parts":  # a mean may be negative
        same(again.nonnegative(), first.nonnegative())


def test_a_ledger_on_disk_gives_answers_that_were_moved_to_another_session(quick_disk):
    using = Projection(epsilon="0.1", delta="1e-7")
    path = quick_disk / "spent.db"
    for extra in ({"request_id": "a"}, {}):
        releases = []
        for _ in range(2):
            with Session(DATA, Budget(9, "1e-6"), ledger=SQLiteLedger(path), reuse=True) as session:
                releases.append(session.release(PAIRS, using=using, **extra))
        first, again = releases
        assert again.moved == first.moved > 0
        assert again.bound() == first.bound()
        assert again.accuracy == first.accuracy


LAW = DiscreteLaplace(3)
NOISE = NoiseAccuracy(LAW, 3, 0.5, 0.125)
SUMS = LinearAccuracy(LAW, 0.1, Combination(*np.array([[1.0, 0.0, 1.0], [1, 0, 1], [1, 0, 1]])))
MOVES, CHAINS = np.array([0.1, -0.0, -3.0]), np.array([0, -1, 0])
KEPT = [
    NOISE,
    NoiseAccuracy(DiscreteGaussian("2.5"), 1, 1.0, 0.0),
    PromisedAccuracy(3.5, 0.05, 3),
    NoAccuracy("why", "what to do"),
    SUMS,
    LinearAccuracy(LAW, 1.0, Combination(np.zeros(0), np.zeros(0), np.zeros(0))),
    ConstrainedAccuracy(NOISE, "monotone", MOVES, CHAINS),
    ConstrainedAccuracy(
        ConstrainedAccuracy(SUMS, "nonnegative", MOVES, np.full(3, -1)), "monotone", MOVES, CHAINS
    ),
    ConstrainedAccuracy(NoAccuracy("why"), "nonnegative", MOVES, np.full(3, -1)),
    JointAccuracy(((NOISE, 3), (ConstrainedAccuracy(NOISE, "monotone", MOVES, CHAINS), 3))),
    JointAccuracy(((NoAccuracy("why"), 0),)),
    RankAccuracy(20.5, 2**62, 24_421.0, 2),
    PromisedExcess(0.1, 0.05),
    PromisedExcess(0.1, 0.05, 2.5),
]


@pytest.mark.parametrize("accuracy", KEPT, ids=lambda one: type(one).__name__)
def test_what_is_kept_is_read_back_as_it_was(accuracy):
    text = canonical(to_plain(accuracy))
    again = from_plain(type(accuracy), json.loads(text))
    assert again == accuracy
    assert (again.kind, again.standing) == (accuracy.kind, accuracy.standing)
    assert canonical(to_plain(again)) == text
    assert accuracy.computed() == accuracy
    if isinstance(accuracy, HalfWidths) and accuracy.proven:
        for joint in (True, False):
            expected = accuracy.radii(0.05, joint=joint)
            np.testing.assert_array_equal(again.radii(0.05, joint=joint), expected)


def changed(record, path, value):
    """A record with another value at one place."""
    made = json.loads(json.dumps(record))
    *above, last = path
    place = made
    for step in above:
        place = place[step]
    place[last] = value
    return made


def places(*numbers):
    return [np.array(numbers, dtype="<i8").tobytes().hex()]


ONES = np.ones(3).tobytes().hex()
REFUSED = [
    (KEPT[6], ("constraint",), "convex"),
    (KEPT[6], ("constraint",), ["monotone"]),
    (KEPT[6], ("chains",), places(0, 0)),
    (KEPT[6], ("chains",), places(0, -2, 0)),
    (KEPT[6], ("chains",), places(0, 10**15, 0)),
    (KEPT[6], ("moves",), "00"),
    (KEPT[6], ("before",), {"kind": "budget", "epsilon": "1"}),
    (SUMS, ("combination",), []),
    (SUMS, ("combination", "ways", 0), [ONES]),
    (SUMS, ("combination", "places"), places(0, 1, 2)),
    (SUMS, ("combination", "places"), places(0, -1, 0)),
    (SUMS, ("combination", "places"), places(0, 0, 0)),  # of the two ways one is not used
    (SUMS, ("law", "kind"), "law.cauchy"),
    (KEPT[9], ("parts",), []),
    (KEPT[9], ("parts", 0), ["3"]),
    (KEPT[9], ("parts", 0, "rows"), -3),
    (KEPT[9], ("parts",), [None] * 2000),
    (NOISE, ("step",), "nan"),
    (NOISE, ("step",), -1.0),
    (NOISE, ("bias",), "infinity"),
    (SUMS, ("combination", "ways", 0), [np.array([np.nan, 1.0]).tobytes().hex()]),
    # Of other numbers than what it is made of.
    (KEPT[6], ("before", "entries"), 2),
    (KEPT[9], ("parts", 0, "rows"), 2),
]


@pytest.mark.parametrize(("accuracy", "path", "value"), REFUSED)
def test_what_is_no_accuracy_is_refused(accuracy, path, value):
    plain = to_plain(accuracy)
    with pytest.raises(WireError):
        from_plain(type(accuracy), changed(plain, path, value))


def numbers_less(record):
    """The record with each count of numbers and each row of them, one at a time, by one shorter."""
    if type(record) is dict:
        for name, value in record.items():
            if name in {"entries", "cells"}:
                yield {**record, name: 0}
                yield {**record, name: 10**20}
            yield from ({**record, name: other} for other in numbers_less(value))
    elif type(record) is list:
        if record and all(type(one) is str and len(one) >= 16 for one in record):
            yield [record[0][16:], *record[1:]]
            yield [np.full(len(record[0]) // 16, np.nan).tobytes().hex(), *record[1:]]
        for place, value in enumerate(record):
            yield from (
                [*record[:place], other, *record[place + 1 :]] for other in numbers_less(value)
            )


@pytest.mark.parametrize("name", [*AT_ONCE, *OPENED])
def test_what_was_written_into_is_refused_or_has_bounds(name):
    ledger = MemoryLedger()
    query, using = {**AT_ONCE, **OPENED}[name]
    session = Session(DATA, Budget(10**3, "0.1"), ledger=ledger)
    asked = (
        partial(session.release, using=using) if name in AT_ONCE else session.open(using).release
    )
    asked(query, request_id="a")
    stored = json.loads(ledger.stored("a"))
    tried = [{**stored, "accuracy": other} for other in numbers_less(stored["accuracy"])]
    refused = 0
    for place, record in enumerate(tried):
        ledger.store(f"b{place}", json.dumps(record).encode())
        try:
            release = asked(query, request_id=f"b{place}")
        except LedgerDamaged:
            refused += 1
            continue
        release.to_frame()
        assert release.bound(0.3).standing in {"proven", "promised", "none"}
    assert refused > len(tried) / 2


def test_parts_of_an_accuracy_are_of_their_own_class():
    ledger = MemoryLedger()
    session = Session(DATA, Budget(9), ledger=ledger)
    channel = session.open(NoisyHistogram(epsilon="0.1", consistent=True))
    channel.answer(PAIRS, request_id="a")
    stored = json.loads(ledger.stored("a"))
    other = changed(
        stored, ("accuracy", "before"), {"kind": "accuracy.none", "rests_on": "", "advice": ""}
    )
    ledger.store("b", json.dumps(other).encode())
    with pytest.raises(LedgerDamaged, match="no answer"):
        channel.answer(PAIRS, request_id="b")


def test_answers_of_before_are_read_as_they_were():
    # As an earlier version wrote it, which kept no accuracy but those of noise and promises.
    ledger = MemoryLedger()
    session = Session(DATA, Budget(9), ledger=ledger)
    channel = session.open(NoisyHistogram(epsilon="0.1"))
    first = channel.release(Count(), request_id="a")
    kept = json.loads(ledger.stored("a"))
    assert kept.pop("kind") == "stored"
    kept["tag"] = "answer.1"
    kept["accuracy"] = {"tag": "accuracy.none.1", "kind": "not stored", "advice": "keep it"}
    ledger.store("b", json.dumps(kept).encode())
    again = channel.release(Count(), request_id="b")
    assert again.value == first.value
    assert (again.moved, again.bound().kind) == (0.0, "not stored")
    kept["accuracy"] = {
        "tag": "accuracy.noise.1", "law": "laplace 20", "entries": "1",
        "step": "0x1.0000000000000p+0", "bias": "0x0.0p+0",
    }  # fmt: skip
    ledger.store("c", json.dumps(kept).encode())
    assert channel.release(Count(), request_id="c").accuracy == NoiseAccuracy(
        DiscreteLaplace(20), 1, 1.0, 0.0
    )


def test_what_a_channel_remembers_is_not_kept_and_says_so():
    session = Session(DATA, Budget(9), ledger=MemoryLedger())
    channel = session.open(OnlinePMW(epsilon=1, updates=3))
    first, again = [channel.release(Workload([Count()]), request_id="a") for _ in range(2)]
    assert again.value == first.value
    assert "not stored" in again.bound().kind
