from fractions import Fraction
from importlib.util import find_spec

import pytest

from dpsdk.accounting import (
    ApproximateGuarantee,
    BoundedRangeGuarantee,
    DiscreteGaussianGuarantee,
    PureGuarantee,
    declare,
    gdp_epsilon,
    optimal_epsilon,
    pld_epsilon,
)
from dpsdk.accounting.prices.envelope import gaussian_envelope
from dpsdk.errors import InvalidArgument, MissingExtra, UnsupportedGuarantee

WIDE = DiscreteGaussianGuarantee(25 * 10**8, 10**8, 10**4)
"""As a continuous Gaussian of standard deviation 5 at sensitivity 1."""

installed = pytest.mark.skipif(find_spec("dp_accounting") is None, reason="needs dp-accounting")


@pytest.mark.skipif(find_spec("dp_accounting") is not None, reason="for where it is missing")
def test_where_it_is_missing_the_command_is_named():
    with pytest.raises(MissingExtra, match=r"own, run pip install dp-accounting$"):
        pld_epsilon(declare([PureGuarantee(1)]), 1e-6)


RESPONSES = [
    ("0.1", 1, "0.0001", 0.099998095),
    ("0.1", 10, "0.0001", 0.99937091),
    ("0.1", 100, "0.0001", 4.7745676),
    ("0.1", 1000, "0.0001", 19.344671),
    ("0.01", 1, "0.00001", 0.0099980099),
    ("0.01", 10, "0.00001", 0.099025344),
    ("0.01", 100, "0.00001", 0.39255743),
    ("0.01", 1000, "0.00001", 1.3697293),
    ("1", 1, "0.001", 0.99999863),
    ("1", 10, "0.001", 9.9999771),
    ("1", 100, "0.001", 83.530702),
    ("1", 1000, "0.001", 591.07965),
]
LEAKING = [(1, 0.099998095), (10, 0.99937154), (100, 4.775891), (1000, 19.401852)]
GAUSSIANS = [(1, 0.83411756), (10, 2.9216007), (100, 10.997151), (1000, 49.319279)]


@installed
@pytest.mark.parametrize(("epsilon", "count", "step", "expected"), RESPONSES)
def test_the_reference_figures_of_randomised_response(epsilon, count, step, expected):
    found = pld_epsilon(declare([PureGuarantee(epsilon)] * count), 1e-6, step=step)
    assert found == pytest.approx(expected, rel=1e-6)
    # Pessimistic: not below what is exact, though in floats.
    assert found >= optimal_epsilon(epsilon, count, 1e-6) * (1 - 1e-9)


@installed
@pytest.mark.parametrize(("count", "expected"), LEAKING)
def test_the_reference_figures_with_leaks(count, expected):
    runs = declare([ApproximateGuarantee("0.1", "1e-10")] * count)
    assert pld_epsilon(runs, 1e-6) == pytest.approx(expected, rel=1e-6)


@installed
@pytest.mark.parametrize(("count", "expected"), GAUSSIANS)
def test_the_reference_figures_of_gaussians(count, expected):
    found = pld_epsilon(declare([WIDE] * count), 1e-6)
    assert found == pytest.approx(expected, rel=1e-4)
    assert found >= gdp_epsilon(Fraction(count**0.5) / 5, 1e-6) * (1 - 1e-6)


@installed
def test_a_mixture_is_close_to_the_reference():
    # The reference takes continuous Laplace noise, which tells a little less.
    runs = declare([PureGuarantee("0.1")] * 10 + [WIDE] * 10)
    assert 3.2732601 <= pld_epsilon(runs, 1e-6) <= 3.2732601 * 1.02


@installed
def test_bounded_range_counts_as_pure():
    runs, pure = declare([BoundedRangeGuarantee("0.2")] * 5), declare([PureGuarantee("0.2")] * 5)
    assert pld_epsilon(runs, 1e-6) == pld_epsilon(pure, 1e-6)


@installed
def test_nothing_costs_nothing_and_bad_arguments_are_named():
    assert pld_epsilon(declare([]), 1e-6) == 0
    assert pld_epsilon(declare([PureGuarantee(0)]), 1e-6) == 0
    with pytest.raises(InvalidArgument, match="delta"):
        pld_epsilon(declare([]), 0)
    with pytest.raises(InvalidArgument, match="step"):
        pld_epsilon(declare([]), 0.1, step=0)
    with pytest.raises(UnsupportedGuarantee, match="too narrow"):
        pld_epsilon(declare([DiscreteGaussianGuarantee("0.01", 1, 1)]), 1e-6)


def test_gaussians_together_are_bounded_by_one():
    assert gaussian_envelope([]) == 0
    exact = 2 * WIDE.rho
    assert exact < gaussian_envelope([(WIDE, 1)]) < exact * Fraction("1.0001")
    narrow = DiscreteGaussianGuarantee(64, 1, 1)
    both = 2 * (3 * WIDE.rho + 7 * narrow.rho)
    assert both < gaussian_envelope([(WIDE, 3), (narrow, 7)]) < both * Fraction("1.021")
    with pytest.raises(UnsupportedGuarantee):
        gaussian_envelope([(DiscreteGaussianGuarantee("0.01", 1, 1), 1)])
