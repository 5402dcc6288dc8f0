import math
from collections import Counter
from fractions import Fraction

import numpy as np
import pytest
from scipy.stats import binom

from dpsdk import Budget, Domain, Integer, Neighbors, PrivateData, Session
from dpsdk.errors import DomainError, InvalidArgument, NoBound, PublicSizeRequired, QueryError
from dpsdk.forms import GapForm
from dpsdk.mechanisms import NumericSparse
from dpsdk.queries import (
    Above,
    Conjunction,
    Count,
    Linear,
    Marginal,
    Mean,
    Not,
    NumericAbove,
    Sum,
    Threshold,
    Workload,
)
from dpsdk.testing.noise import seeded
from worlds import PEOPLE, facts

LINE = Domain(Integer("x", 0, 3))
COUNTS = [400, 300, 200, 50]
OUTSIDE = 50
KINDS = [Above, NumericAbove]


def table(neighbors=Neighbors.REPLACE_ONE):
    return PrivateData.from_counts(
        COUNTS, LINE, outside_rows=OUTSIDE, neighbors=neighbors, max_rows=10**6
    )


def session_over(neighbors=Neighbors.REPLACE_ONE):
    return Session(table(neighbors), Budget(10**9, "0.1"), noise=seeded(1))


def channel(epsilon=1, tops=10**4, neighbors=Neighbors.REPLACE_ONE, **given):
    """So much for each of very many tops."""
    mechanism = NumericSparse(Fraction(epsilon) * tops, tops=tops, **given)
    return session_over(neighbors).open(mechanism)


@pytest.mark.parametrize("neighbors", Neighbors)
@pytest.mark.parametrize("normalized", [True, False])
def test_far_from_the_level_the_answer_is_the_true_one(normalized, neighbors):
    unit = 0.001 if normalized else 1.0
    opened = channel(neighbors=neighbors)
    for t, count in enumerate(np.cumsum(COUNTS)):
        query = Threshold("x", t, normalized=normalized)
        for away in (40, 45):
            assert opened.answer(Above(query, (count - away) * unit)) is True
            assert opened.answer(Above(query, (count + away) * unit)) is False


def test_a_share_is_of_all_rows_those_outside_the_domain_included():
    opened = channel(epsilon=10)
    assert opened.answer(Above(Count({"x": 0}), 0.39))
    assert not opened.answer(Above(Count({"x": 0}), 0.41))
    for everybody in (Count(), Threshold("x", 3)):
        assert opened.answer(Above(everybody, 0.94))
        assert not opened.answer(Above(everybody, 0.96))


def test_near_the_level_noise_decides():
    opened = channel()
    answers = [opened.answer(Above(Threshold("x", 0), 0.4)) for _ in range(400)]
    assert 100 < sum(answers) < 300


def test_a_level_far_beyond_all_rows_is_not_met_by_wide_noise():
    wide = channel(epsilon="0.01", tops=1)
    query = Count(normalized=False)
    answers = [wide.answer(Above(query, level)) for level in [10.0**6] * 300]
    assert not any(answers)


@pytest.mark.thorough
@pytest.mark.parametrize("normalized", [True, False])
def test_the_truth_is_on_the_wrong_side_of_the_level_by_no_more_than_the_error(normalized):
    unit, wrong = 0.001 if normalized else 1.0, Counter()
    session, query = session_over(), Threshold("x", 1, normalized=normalized)
    for turn in range(400):
        # Each has a threshold of its own, so that failures are independent.
        opened = session.open(NumericSparse("0.1", tops=1))
        level = (700 + (turn % 21 - 10) * 20) * unit
        release = opened.release(Above(query, level))
        excess = 700 * unit - level
        for beta in (0.9, 0.3, 0.01):
            wrong[beta] += (excess if not release.value else -excess) > release.error(beta)
            assert release.interval(beta) == (False, True)
    for beta, failures in wrong.items():
        assert binom.sf(failures - 1, 400, beta) > 1e-6
    assert wrong[0.9] > 0


def test_errors_are_in_the_unit_of_the_query():
    opened = channel()
    share = opened.release(Above(Threshold("x", 0), 0.9))
    count = opened.release(Above(Threshold("x", 0, normalized=False), 900))
    assert count.error() == pytest.approx(1000 * share.error())
    assert not share.bound().vacuous
    assert share.bound().proven
    assert share.errors().tolist() == [share.error()]


def test_an_error_of_a_whole_share_is_vacuous():
    opened = channel(epsilon="0.001", tops=1)
    share = opened.release(Above(Threshold("x", 0), 0.9))
    assert share.error() > 1
    assert share.bound().vacuous
    other = channel(epsilon="0.001", tops=1)
    assert other.release(Above(Threshold("x", 0, normalized=False), 900)).bound().vacuous


def test_an_error_as_a_share_of_a_private_number_of_rows_is_unknown():
    opened = channel(neighbors=Neighbors.ADD_REMOVE)
    share = opened.release(Above(Threshold("x", 0), 0.9))
    for ask in (share.error, share.errors):
        with pytest.raises(NoBound, match=r"bounded in rows.* normalized=False"):
            ask()
    assert (share.bound().error, share.bound().standing) == (math.inf, "none")
    assert share.bound().vacuous
    assert share.interval() == (False, True)
    count = opened.release(Above(Threshold("x", 0, normalized=False), 900))
    assert 0 < count.error() < 50


def test_numbers_above_the_level_come_with_the_answer():
    for given in ({}, {"numbers": "gap"}):
        opened = channel(epsilon=100, **given)
        assert opened.answer(NumericAbove(Threshold("x", 0), 0.6)) is None
        assert opened.answer(NumericAbove(Threshold("x", 0), 0.2)) == pytest.approx(0.4, abs=1e-3)
        query = NumericAbove(Threshold("x", 1, normalized=False), 100)
        assert opened.answer(query) == pytest.approx(700, abs=1)
        outside = NumericAbove(Count(), 0.3)
        assert opened.answer(outside) == pytest.approx(0.95, abs=1e-3)


@pytest.mark.thorough
def test_a_measured_number_is_unbiased_where_one_read_off_the_gap_is_not():
    means = {}
    for numbers in ("measured", "gap"):
        opened = channel(numbers=numbers)
        query = NumericAbove(Threshold("x", 0, normalized=False), 400)
        found = [opened.answer(query) for _ in range(800)]
        means[numbers] = float(np.mean([number for number in found if number is not None]))
    # A number's noise has a standard deviation of about 6, so a mean of 320 is within 1.7.
    assert means["measured"] == pytest.approx(400, abs=1.7)
    assert means["gap"] > 401


@pytest.mark.thorough
@pytest.mark.parametrize("numbers", ["measured", "gap"])
def test_the_bounds_of_numbers_hold(numbers):
    session, missed, betas = session_over(), Counter(), (0.5, 0.2, 0.02)
    for turn in range(300):
        opened = session.open(NumericSparse("0.5", tops=1, numbers=numbers))
        release = opened.release(NumericAbove(Threshold("x", 1), 0.69 + turn % 3 / 100))
        for beta in betas:
            low, high = release.interval(beta)
            if release.value is None:
                assert (low, high) == (None, None)
            else:
                assert high - low == pytest.approx(2 * release.error(beta))
                missed[beta] += not low <= 0.7 <= high
    for beta in betas:
        assert binom.sf(missed[beta] - 1, 300, beta) > 1e-6
    if numbers == "measured":
        assert missed[0.5] > 25


def test_a_numeric_share_needs_a_public_number_of_rows_and_a_count_does_not():
    opened = channel(neighbors=Neighbors.ADD_REMOVE, epsilon=100)
    with pytest.raises(PublicSizeRequired):
        opened.answer(NumericAbove(Threshold("x", 0), 0.2))
    number = opened.answer(NumericAbove(Threshold("x", 0, normalized=False), 200))
    assert number == pytest.approx(400, abs=1)


@pytest.mark.parametrize("kind", KINDS)
def test_a_question_lowers_to_the_gap_from_its_level(kind):
    share = kind(Threshold("age", 20), 0.25).lower(PEOPLE)
    count = kind(Threshold("age", 20, normalized=False), -3.5).lower(PEOPLE)
    for gap, rate, offset in ((share, 0.25, 0.0), (count, 0.0, -3.5)):
        assert type(gap) is GapForm
        assert (gap.rows, gap.absolute, gap.numeric) == (1, False, kind is NumericAbove)
        assert (gap.rates.tolist(), gap.offsets.tolist()) == ([rate], [offset])
        assert gap.domain is PEOPLE


@pytest.mark.parametrize("kind", KINDS)
def test_the_level_is_a_finite_number_and_of_a_share_a_share(kind):
    for level in (math.nan, math.inf, -math.inf, "0.5", None, True, [0.5]):
        with pytest.raises(InvalidArgument, match="level"):
            kind(Count(), level)
    for level in (-0.01, 1.01, 50):
        with pytest.raises(InvalidArgument, match="level"):
            kind(Count({"age": 20}), level).lower(PEOPLE)


@pytest.mark.parametrize("kind", KINDS)
def test_the_query_has_one_number_for_an_answer_and_weights_from_none_to_one(kind):
    for query in (Marginal("age"), Workload([Count()]), kind(Count(), 0.5), "age", None):
        with pytest.raises(InvalidArgument, match="query"):
            kind(query, 0.5)
    for query in (Sum("age", normalized=False), Sum("hours", normalized=False), Mean("age")):
        with pytest.raises((QueryError, InvalidArgument)):
            kind(query, 0.5).lower(PEOPLE)
    with pytest.raises(DomainError):
        kind(Threshold("height", 3), 0.5).lower(PEOPLE)


def test_any_weights_in_that_range_will_do():
    opened = channel(epsilon=100)
    # 0.1 · 400 + 0.4 · 300 + 0.7 · 200 + 1.0 · 50
    query = Linear(lambda record: 0.1 + 0.3 * record["x"])
    assert opened.answer(Above(query, 0.34))
    assert not opened.answer(Above(query, 0.36))
    assert opened.answer(NumericAbove(query, 0.3)) == pytest.approx(0.35, abs=1e-3)


def test_a_query_of_no_weight_is_never_above():
    opened = channel(epsilon=10)
    assert opened.answer(Above(Threshold("x", -1), 0.05)) is False
    assert opened.answer(Above(Conjunction({"x": Not(range(4))}), 0.05)) is False


@pytest.mark.parametrize("kind", KINDS)
def test_questions_print_as_they_are_written_and_are_values(kind):
    question = kind(Threshold("age", 40), 0.5)
    assert repr(question) == str(question) == f"{kind.__name__}(Threshold('age', 40), 0.5)"
    assert question == kind(Threshold("age", 40), 0.5)
    assert question != kind(Threshold("age", 40), 0.25)
    with pytest.raises(AttributeError):
        question.level = 0.2


def test_answers_lift_from_raw_numbers():
    of = facts(PEOPLE, rows=50)
    above, numeric = Above(Count(), 0.5), NumericAbove(Count(), 0.5)
    assert above.lift(np.array([0.0]), of) is True
    assert above.lift(np.array([np.nan]), of) is False
    assert numeric.lift(np.array([10.0]), of) == pytest.approx(0.7)
    assert numeric.lift(np.array([np.nan]), of) is None
    assert above.span(of) == numeric.span(of) == 1.0
    assert Above(Count(normalized=False), 3).span(of) == 50
