import math
from fractions import Fraction

import mpmath
import pytest

from dpsdk.accounting import (
    ApproximateGuarantee,
    Composition,
    DiscreteGaussianGuarantee,
    PureGuarantee,
    advanced_epsilon,
    declare,
    heterogeneous_epsilon,
    optimal_epsilon,
)
from dpsdk.errors import InvalidArgument


def randomised_response_delta(epsilon, each, count):
    """The exact delta at epsilon of this many randomised responses."""
    e0, bound = mpmath.mpf(each), mpmath.mpf(epsilon)
    p = 1 / (1 + mpmath.exp(-e0))
    total = mpmath.mpf(0)
    for flips in range(count + 1):
        loss = (count - 2 * flips) * e0
        if loss > bound:
            mass = mpmath.binomial(count, flips) * p ** (count - flips) * (1 - p) ** flips
            total += mass * (1 - mpmath.exp(bound - loss))
    return total


@pytest.mark.parametrize(
    ("each", "count", "delta"),
    [("0.1", 1, 1e-6), ("0.1", 100, 1e-6), ("1", 30, 1e-9), ("0.01", 400, 0.3), ("3", 5, 1e-3)],
)
def test_the_optimal_bound_is_exact_and_not_below(each, count, delta):
    epsilon = optimal_epsilon(each, count, delta)
    with mpmath.workdps(50):
        assert randomised_response_delta(epsilon, each, count) <= delta
        if epsilon:
            assert randomised_response_delta(epsilon * (1 - 1e-7), each, count) > delta


def tail_delta(epsilon, each, count):
    """The same for many runs, from the smallest loss above epsilon on, to fifteen digits."""
    e0, bound = mpmath.mpf(each), mpmath.mpf(epsilon)
    flips = int(mpmath.ceil((count - bound / e0) / 2)) - 1
    mass = mpmath.exp(
        mpmath.loggamma(count + 1)
        - mpmath.loggamma(flips + 1)
        - mpmath.loggamma(count - flips + 1)
        - flips * e0
        - count * mpmath.log1p(mpmath.exp(-e0))
    )
    total, ratio, above = mpmath.mpf(0), mpmath.exp(e0), 0
    while flips >= 0 and (above < 10 or mass > total * mpmath.mpf("1e-15")):
        total += mass * -mpmath.expm1(bound - (count - 2 * flips) * e0)
        mass *= ratio * flips / (count - flips + 1)
        flips, above = flips - 1, above + 1
    return total


@pytest.mark.thorough
@pytest.mark.parametrize(("each", "count"), [("0.001", 100_000), ("0.0001", 2_000_000)])
def test_the_optimal_bound_of_many_runs_is_not_below(each, count):
    epsilon = optimal_epsilon(each, count, 1e-6)
    with mpmath.workdps(30):
        found = tail_delta(epsilon, each, count)
        assert found <= mpmath.mpf("1e-6") <= found * (1 + mpmath.mpf("5e-8"))


def test_leaks_that_nearly_fill_delta_leave_what_is_left():
    epsilon = optimal_epsilon("0.1", 50, "1e-9", leak_each="1.9999999999e-11")
    with mpmath.workdps(50):
        kept = (1 - mpmath.mpf("1.9999999999e-11")) ** 50
        for found, sign in ((epsilon, 1), (epsilon * (1 - 1e-8), -1)):
            delta = 1 - kept * (1 - randomised_response_delta(found, "0.1", 50))
            assert sign * delta <= sign * mpmath.mpf("1e-9")
    assert epsilon == pytest.approx(4.999947, abs=1e-6)
    assert optimal_epsilon("0.1", 1, "1e-9", leak_each="1e-9") == pytest.approx(0.1, rel=1e-9)
    few = optimal_epsilon("0.01", 10**4, "1e-9", leak_each="0.99999e-13")
    assert optimal_epsilon("0.01", 10**4, "1e-9") < few < 100
    assert optimal_epsilon("0.01", 10**4, "1e-9", leak_each="1.01e-13") == math.inf


@pytest.mark.parametrize(
    ("each", "count", "delta", "leak_each", "low", "high"),
    [
        ("0.1", 5, "1e-400", 0, 0.5, 0.5),
        ("0.1", 5, Fraction(1, 10**3000), 0, 0.5, 0.5),
        ("1e-400", 5, "1e-6", 0, 0.0, 0.0),
        ("1e-400", 5, "1e-500", 0, 5e-324, 5e-324),
        ("1e-200", 5, "1e-250", 0, 5e-200, 5.1e-200),
        (10**400, 3, 0.1, 0, math.inf, math.inf),
        ("0.1", 5, "0.5", 1 - Fraction(1, 10**30), math.inf, math.inf),
        ("0.1", 10**5, "0.5", 1 - Fraction(1, 10**30), math.inf, math.inf),
        ("0.1", 5, 1 - Fraction(1, 10**20), 0, 0.0, 0.0),
    ],
)
def test_parameters_that_floats_cannot_hold_have_a_figure(each, count, delta, leak_each, low, high):
    assert low <= optimal_epsilon(each, count, delta, leak_each=leak_each) <= high


def test_the_other_theorems_take_any_delta():
    near_one = 1 - Fraction(1, 10**20)
    sizes = ["0.1"] * 5
    mean = 5 * 0.1 * math.tanh(0.05)
    root = math.sqrt(2 * 5 * 0.01)
    for delta, log in (("1e-400", 400 * math.log(10)), (near_one, 1e-20)):
        expected = mean + root * math.sqrt(log)
        assert advanced_epsilon("0.1", 5, delta) == pytest.approx(expected, rel=1e-10)
        assert heterogeneous_epsilon(sizes, delta) == pytest.approx(min(expected, 0.5), rel=1e-10)
    # By 1e-10, which the float of 1 - delta would have lost.
    assert heterogeneous_epsilon(sizes, near_one) > mean + root * 0.99e-10
    assert 0 < heterogeneous_epsilon(["1e-200"], "0.1") <= 1e-199
    assert heterogeneous_epsilon([10**400], "0.1") == math.inf
    assert advanced_epsilon(1000, 2, "0.1", "middle") == math.inf


@pytest.mark.parametrize("delta", ["1e-6", "1e-400", 1 - Fraction(1, 10**20)])
@pytest.mark.parametrize("epsilon", [Fraction(1, 10**400), Fraction(1, 10), Fraction(10**400)])
def test_a_list_of_any_size_has_figures(epsilon, delta):
    runs = declare([PureGuarantee(epsilon)] * 3)
    assert set(runs.bounds(delta)) == {"basic", "zCDP", "heterogeneous", "optimal"}
    assert runs.epsilon(delta) >= 0


def test_leaks_count_within_delta():
    assert optimal_epsilon("0.1", 10, 1e-6, leak_each="1e-6") == math.inf
    assert optimal_epsilon("0.1", 10, 1e-6, leak_each="5e-8") > optimal_epsilon("0.1", 10, 1e-6)


def test_a_large_delta_leaves_nothing_to_pay():
    assert optimal_epsilon("0.01", 1, 0.5) == 0.0


def test_the_loose_form_is_refused_where_it_is_false():
    assert advanced_epsilon("1.2564", 10, 1e-6, "loose") > advanced_epsilon("1.2564", 10, 1e-6)
    with pytest.raises(InvalidArgument) as caught:
        advanced_epsilon("1.2565", 10, 1e-6, "loose")
    assert caught.value.parameter == "epsilon"
    assert advanced_epsilon("1.2565", 10, 1e-6, "middle") > advanced_epsilon("1.2565", 10, 1e-6)


def test_the_heterogeneous_bound_never_exceeds_the_plain_sum():
    assert heterogeneous_epsilon(["0.1", "0.2"], 1e-6) == pytest.approx(0.3, rel=1e-9)
    many = heterogeneous_epsilon(["0.01"] * 500 + ["0.02"] * 100, 1e-6)
    assert many < 500 * 0.01 + 100 * 0.02


def test_a_plan_takes_the_best_theorem_that_applies():
    pure = declare([PureGuarantee("0.1")] * 100)
    assert set(pure.bounds(1e-6)) == {"basic", "zCDP", "heterogeneous", "optimal"}
    assert pure.epsilon(1e-6) == optimal_epsilon("0.1", 100, 1e-6)
    mixed = declare([PureGuarantee("0.1"), DiscreteGaussianGuarantee(100, 1, 1)])
    assert set(mixed.bounds(1e-6)) == {"zCDP"}
    assert declare([PureGuarantee("0.1")] * 3).bounds(1e-6)["basic"] == pytest.approx(0.3)


def test_a_plan_pays_leaks_out_of_delta():
    leaking = declare([ApproximateGuarantee("0.1", "1e-7")] * 10)
    assert set(leaking.bounds(1e-6)) == {"basic"}
    assert leaking.bounds(5e-7) == {}
    assert leaking.epsilon(5e-7) == math.inf
    assert leaking.epsilon(2e-6) >= declare([PureGuarantee("0.1")] * 10).epsilon(1e-6)


def test_a_plan_is_no_filter():
    assert not isinstance(declare([]), Composition)


@pytest.mark.parametrize(
    ("call", "parameter"),
    [
        (lambda: advanced_epsilon(0, 1, 0.1), "epsilon"),
        (lambda: advanced_epsilon(1, 0, 0.1), "count"),
        (lambda: advanced_epsilon(1, 1, 0), "delta"),
        (lambda: heterogeneous_epsilon([-1], 0.1), "epsilons"),
        (lambda: optimal_epsilon(1, 1, 0.1, leak_each=1), "leak_each"),
        (lambda: declare([PureGuarantee(Fraction(1))]).epsilon(0), "delta"),
    ],
)
def test_bad_parameters_are_named(call, parameter):
    with pytest.raises(InvalidArgument) as caught:
        call()
    assert caught.value.parameter == parameter
