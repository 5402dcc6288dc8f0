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
    heterogeneous_epsilon,
    optimal_epsilon,
    plan,
)
from dpsdk.errors import InvalidArgument


def randomised_response_delta(epsilon: float, each: str, count: int) -> mpmath.mpf:
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
def test_the_optimal_bound_is_exact_and_not_below(each: str, count: int, delta: float):
    epsilon = optimal_epsilon(each, count, delta)
    with mpmath.workdps(50):
        assert randomised_response_delta(epsilon, each, count) <= delta
        if epsilon:
            assert randomised_response_delta(epsilon * (1 - 1e-7), each, count) > delta


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
    pure = plan([PureGuarantee("0.1")] * 100)
    assert set(pure.bounds(1e-6)) == {"basic", "zCDP", "heterogeneous", "optimal"}
    assert pure.epsilon(1e-6) == optimal_epsilon("0.1", 100, 1e-6)
    mixed = plan([PureGuarantee("0.1"), DiscreteGaussianGuarantee(100, 1, 1)])
    assert set(mixed.bounds(1e-6)) == {"zCDP"}
    assert plan([PureGuarantee("0.1")] * 3).bounds(1e-6)["basic"] == pytest.approx(0.3)


def test_a_plan_pays_leaks_out_of_delta():
    leaking = plan([ApproximateGuarantee("0.1", "1e-7")] * 10)
    assert set(leaking.bounds(1e-6)) == {"basic"}
    assert leaking.bounds(5e-7) == {}
    assert leaking.epsilon(5e-7) == math.inf
    assert leaking.epsilon(2e-6) >= plan([PureGuarantee("0.1")] * 10).epsilon(1e-6)


def test_a_plan_is_no_filter():
    assert not isinstance(plan([]), Composition)


@pytest.mark.parametrize(
    ("call", "parameter"),
    [
        (lambda: advanced_epsilon(0, 1, 0.1), "epsilon"),
        (lambda: advanced_epsilon(1, 0, 0.1), "count"),
        (lambda: advanced_epsilon(1, 1, 0), "delta"),
        (lambda: heterogeneous_epsilon([-1], 0.1), "epsilons"),
        (lambda: optimal_epsilon(1, 1, 0.1, leak_each=1), "leak_each"),
        (lambda: plan([PureGuarantee(Fraction(1))]).epsilon(0), "delta"),
    ],
)
def test_bad_parameters_are_named(call, parameter: str):
    with pytest.raises(InvalidArgument) as caught:
        call()
    assert caught.value.parameter == parameter
