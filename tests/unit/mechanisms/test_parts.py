"""Several questions, each by a mechanism of its own: paid for together, in whatever order."""

import math
import random
from fractions import Fraction
from itertools import chain, permutations, product

import numpy as np
import pytest

from dpsdk import Boolean, Budget, Domain, Integer, PrivateData, Session
from dpsdk.accounting import BasicComposition, ZCDPComposition
from dpsdk.errors import BudgetExceeded, InvalidArgument, NoBound, QueryError
from dpsdk.mechanisms import (
    MWEM,
    Gaussian,
    JointAccuracy,
    Laplace,
    Matrix,
    NoisyHistogram,
    OneRun,
    Parts,
    Projection,
    ResidualPlanner,
    SquareRoot,
    Tree,
)
from dpsdk.mechanisms.parts import _told_apart
from dpsdk.queries import Count, Marginal, Mean, Threshold, Workload
from dpsdk.release import NoAccuracy, PromisedAccuracy
from dpsdk.testing import seeded

DOMAIN = Domain(Integer("age", 0, 11), Boolean("b"))
DATA = PrivateData.from_columns(
    {"age": [(5 * row) % 12 for row in range(240)], "b": [row % 3 == 0 for row in range(240)]},
    DOMAIN,
)
AGES = Workload([Threshold("age", t) for t in range(12)])
TABLE = Marginal("b", normalized=False)
MEAN = Mean("age")
SURE = Fraction(10**4)

PARTS = Parts([
    (AGES, Tree("age", epsilon=SURE)),
    (TABLE, Laplace(epsilon=2 * SURE)),
    (MEAN, Laplace(epsilon=3 * SURE)),
])  # fmt: skip


def opened(budget=10**6, composition=None):
    return Session(
        DATA, Budget(budget), composition=composition or BasicComposition(), noise=seeded(3)
    )


@pytest.mark.parametrize("order", list(permutations([AGES, TABLE, MEAN])), ids=str)
def test_the_questions_are_answered_in_the_order_that_they_are_asked_in(order):
    own = opened()
    release = own.release(Workload(order), using=PARTS)
    told = dict(zip(order, release.value, strict=True))
    assert told[AGES].values == pytest.approx(np.arange(1, 13) / 12, abs=1e-3)
    assert told[TABLE].values == pytest.approx([160, 80], abs=0.1)
    assert told[MEAN] == pytest.approx(5.5, abs=0.01)
    # Charged in the order of the parts, however they are asked.
    assert [run.epsilon for run in release.cost.guarantees] == [SURE, 2 * SURE, 3 * SURE]
    quote = own.quote(Workload(order), using=PARTS)
    assert quote.at_most == release.cost
    assert quote.at_open.nothing
    assert release.source == "fitted"


def test_workloads_within_workloads_are_the_same_questions():
    asked = Workload([Workload([MEAN]), TABLE, *AGES.queries])
    assert len(opened().answer(asked, using=PARTS)) == 14


@pytest.mark.parametrize(
    "asked",
    [AGES, TABLE, Workload([AGES, TABLE]), Workload([AGES, TABLE, MEAN, MEAN]),
     Workload([AGES, TABLE, Mean("age", where={"b": True})]), Workload([*AGES.queries[::-1]])],
    ids=str,
)  # fmt: skip
def test_nothing_but_all_of_them_is_answered(asked):
    own = opened()
    with pytest.raises(QueryError, match="its own questions"):
        own.answer(asked, using=PARTS)
    with pytest.raises(QueryError, match="its own questions"):
        own.quote(asked, using=PARTS)
    assert own.spent.charges == 0


def test_all_are_paid_or_none():
    parts = Parts([(TABLE, Laplace(epsilon="0.6")), (MEAN, Laplace(epsilon="0.6"))])
    asked = Workload([TABLE, MEAN])
    own = opened(1)
    with pytest.raises(BudgetExceeded):
        own.answer(asked, using=parts)
    assert own.spent.charges == 0
    # As if nothing had been asked: the same noise is next.
    one, other = opened(1), own
    half = Laplace(epsilon="0.5")
    assert one.answer(TABLE, using=half) == other.answer(TABLE, using=half)


def test_a_scope_holds_parts_to_its_cap():
    parts = Parts([(TABLE, Laplace(epsilon="0.3")), (MEAN, Laplace(epsilon="0.3"))])
    own = opened(1)
    with own.scope("small", Budget("0.5")) as scope, pytest.raises(BudgetExceeded):
        scope.answer(Workload([TABLE, MEAN]), using=parts)
    assert own.affords(Workload([TABLE, MEAN]), using=parts) == 1


@pytest.mark.parametrize(
    ("mechanism", "asked"),
    [
        (Laplace(epsilon="0.5"), TABLE),
        (Gaussian(rho="0.1"), AGES),
        (Tree("age", epsilon="0.5"), AGES),
        (Tree("age", rho="0.1"), AGES),
        (SquareRoot("age", rho="0.1"), AGES),
        (NoisyHistogram(epsilon="0.5"), AGES),
        (NoisyHistogram(epsilon="0.5", consistent=True), TABLE),
        (Matrix(AGES, epsilon="0.5"), AGES),
        (Matrix(TABLE, rho="0.1"), TABLE),
        (ResidualPlanner(TABLE, rho="0.1"), TABLE),
        (ResidualPlanner(TABLE, rho="0.1", nonnegative=True), TABLE),
    ],
    ids=str,
)
def test_a_part_is_answered_as_by_itself(mechanism, asked):
    assert isinstance(mechanism, OneRun)
    composition = BasicComposition() if "epsilon" in str(mechanism) else ZCDPComposition()
    one, other = (
        Session(DATA, Budget(9, "1e-6"), composition=composition, noise=seeded(5)) for _ in range(2)
    )
    with one.open(mechanism) as channel:
        expected = channel.release(asked)
    whole = other.release(Workload([asked]), using=Parts([(asked, mechanism)]))
    assert whole.raw.tobytes() == expected.raw.tobytes()
    assert whole.source == expected.source
    assert one.spent == other.spent
    radii = whole.accuracy.radii(0.05, joint=True)
    assert radii.tobytes() == expected.accuracy.radii(0.05, joint=True).tobytes()


def test_bounds_share_beta_and_each_number_has_its_own():
    accuracy = opened().release(Workload([TABLE, MEAN, AGES]), using=PARTS).accuracy
    assert isinstance(accuracy, JointAccuracy)
    for joint, beta in ((True, 0.02), (False, 0.06)):
        each = np.concatenate([part.radii(beta, joint=joint) for part, _ in accuracy.parts])
        assert accuracy.radii(0.06, joint=joint).tobytes() == each.tobytes()
    assert accuracy.proven
    assert accuracy.kind.count(";") == 1


def test_what_is_not_known_of_a_part_is_not_known_of_its_numbers():
    known = opened().release(TABLE, using=Laplace(epsilon=1)).accuracy
    unknown = JointAccuracy(((known, 2), (NoAccuracy("nothing is known"), 3)))
    assert unknown.standing == "none"
    assert np.isinf(unknown.radii(0.05, joint=True)).tolist() == [False] * 2 + [True] * 3
    promised = JointAccuracy(((known, 2), (PromisedAccuracy(1.0, 0.01, 1), 1)))
    assert promised.standing == "promised"
    assert promised.radii(0.02, joint=True)[2] == 1
    assert math.isinf(promised.radii(0.019, joint=True)[2])


def test_parts_without_a_bound_are_released_without_one():
    planner = ResidualPlanner(TABLE, rho="0.1", nonnegative=True)
    own = Session(DATA, Budget(1, "1e-6"), composition=ZCDPComposition(), noise=seeded(5))
    asked = Workload([TABLE, MEAN])
    parts = Parts([(TABLE, planner), (MEAN, Gaussian(rho="0.01"))])
    with pytest.raises(NoBound):
        own.quote(asked, using=parts).error()


@pytest.mark.parametrize(
    "parts",
    [
        [], 3, "ab", [(TABLE,)], [TABLE], [(TABLE, 3)], [("age", Laplace(epsilon=1))],
        [(TABLE, MWEM(TABLE, epsilon=1))], [(TABLE, Projection(rho=1))], [(TABLE, Laplace)],
        [(TABLE, Parts([(TABLE, Laplace(epsilon=1))]))], [(TABLE, Laplace(epsilon=1))] * 65,
    ],
    ids=lambda parts: str(parts)[:30],
)  # fmt: skip
def test_other_parts_are_refused(parts):
    with pytest.raises(InvalidArgument, match=r"parts|workload"):
        Parts(parts)


def test_parts_are_a_value():
    pair = (TABLE, Laplace(epsilon=1))
    assert Parts([pair]) == Parts((pair,)) == Parts(iter([pair]))
    assert hash(Parts([pair])) == hash(Parts([pair]))
    assert Parts([pair]) != PARTS


def test_a_question_that_is_no_linear_one_is_refused():
    class Odd:
        def lower(self, domain, /):
            return 3

    parts = Parts([(Odd(), Laplace(epsilon=1))])
    with pytest.raises(QueryError):
        opened().answer(Count(), using=parts)


def test_a_request_is_answered_once():
    own = opened()
    asked = Workload([TABLE, MEAN])
    parts = Parts([(TABLE, Laplace(epsilon=1)), (MEAN, Laplace(epsilon=1))])
    first = own.release(asked, using=parts, request_id="a")
    again = own.release(asked, using=parts, request_id="a")
    assert again.raw.tobytes() == first.raw.tobytes()
    assert own.spent.charges == 2


def workload(text):
    return Workload([Threshold("age", "abc".index(letter)) for letter in text])


def test_questions_that_begin_alike_are_told_apart():
    # The first two blocks of a, bc, ab are those of ab.
    asked = [workload("a"), workload("bc"), workload("ab")]
    amounts = [SURE, 2 * SURE, 3 * SURE]
    pairs = zip(asked, amounts, strict=True)
    parts = Parts([(query, Laplace(epsilon=amount)) for query, amount in pairs])
    for order in permutations(range(3)):
        release = opened().release(Workload([asked[place] for place in order]), using=parts)
        widths = release.accuracy.radii(0.05, joint=True)
        sizes = [len(asked[place].queries) for place in order]
        ends = np.cumsum([0, *sizes])
        for place, start, stop in zip(order, ends, ends[1:], strict=False):
            alone = opened().quote(asked[place], using=Laplace(epsilon=amounts[place]))
            expected = alone.accuracy.radii(0.05 / 3, joint=True)
            assert widths[start:stop].tolist() == expected.tolist()


@pytest.mark.parametrize(
    "texts", [("a", "b", "ab"), ("ab", "a", "b"), ("a", "ab", "ba"), ("a", "aa")]
)
def test_questions_that_are_made_of_one_another_are_refused(texts):
    own = opened()
    parts = Parts([(workload(text), Laplace(epsilon=SURE)) for text in texts])
    with pytest.raises(QueryError, match="made of one another"):
        own.quote(Workload([workload(text) for text in texts]), using=parts)


def test_texts_are_told_apart_just_where_each_is_read_in_one_way():
    rng = random.Random(1)
    letters = [bytes([letter]) for letter in range(2)]
    answers = set()
    for _ in range(300):
        words = list({
            tuple(rng.choice(letters) for _ in range(rng.randrange(1, 4)))
            for _ in range(rng.randrange(1, 4))
        })  # fmt: skip
        read = {}
        for count in range(1, 7):
            for chosen in product(words, repeat=count):
                text = tuple(chain(*chosen))
                read[text] = read.get(text, 0) + 1
        once = max(read.values()) == 1
        answers.add(once)
        assert _told_apart(words) == once
    assert answers == {True, False}
