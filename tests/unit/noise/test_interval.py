from fractions import Fraction

import mpmath as mp
import pytest

from dpsdk.noise.bits import _series, exp_bracket, round_up

EXPONENTS = [
    Fraction(1, 2**80), Fraction(1, 1000), Fraction(1, 64), Fraction(3, 7), Fraction(1, 2),
    Fraction(1), Fraction(10**30 + 1, 10**30), Fraction(1001, 100), Fraction(63),
    Fraction(12345, 67),
]  # fmt: skip


@pytest.mark.parametrize("precision", [64, 127, 191, 500, 4000])
@pytest.mark.parametrize("x", EXPONENTS, ids=str)
def test_bracket_holds_the_exponential_closely(x, precision):
    low, high = exp_bracket(x, precision)
    with mp.workprec(precision + 100):
        truth = mp.exp(-mp.mpf(x.numerator) / x.denominator) * mp.mpf(2) ** precision
        assert low <= truth <= high
    assert high - low <= 2


@pytest.mark.parametrize("precision", [3, 6, 9])
def test_series_holds_the_exponential_at_every_step(precision):
    with mp.workprec(100):
        for step in range((1 << precision - 1) + 1):
            low, high = _series(step, precision)
            assert low <= mp.ldexp(mp.exp(-mp.ldexp(step + 1, -precision)), precision)
            assert high >= mp.ldexp(mp.exp(-mp.ldexp(step, -precision)), precision)


def test_bracket_of_zero_is_one_exactly():
    assert exp_bracket(Fraction(0), 100) == (2**100, 2**100)


@pytest.mark.parametrize("x", [Fraction(127), Fraction(2**900), Fraction(2**1000, 3)])
def test_bracket_far_out_is_the_last_unit(x):
    assert exp_bracket(x, 127) == (0, 1)


@pytest.mark.parametrize(
    ("numerator", "shift", "expected"), [(0, 3, 0), (1, 3, 1), (8, 3, 1), (9, 3, 2)]
)
def test_round_up(numerator, shift, expected):
    assert round_up(numerator, shift) == expected
