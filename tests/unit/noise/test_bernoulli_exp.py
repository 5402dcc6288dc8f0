from fractions import Fraction

import mpmath as mp
import numpy as np
import pytest
from scripted import Scripted, no_bits, word64

from dpsdk.noise.bits import _exp, below_exp, bernoulli_exp, bernoulli_exp_array, finish_coins
from dpsdk.testing.noise import seeded

pytestmark = pytest.mark.thorough


@pytest.mark.parametrize("x", ["0", "0.01", "0.5", "1", "1.7", "4"])
def test_single_coins_fall_at_their_rate(x):
    bits = seeded(21)._bits
    tosses = 20_000
    heads = sum(bernoulli_exp(bits, Fraction(x)) for _ in range(tosses))
    p = float(np.exp(-float(x)))
    assert abs(heads - tosses * p) <= 4 * (tosses * p * (1 - p)) ** 0.5


@pytest.mark.parametrize("x", ["0", "1/999", "1/2", "1", "5/3", "4", "9"])
def test_arrays_of_coins_fall_at_their_rate(x):
    exponent = Fraction(x)
    tosses = 400_000
    numerators = np.full(tosses, exponent.numerator)
    heads = int(bernoulli_exp_array(seeded(22)._bits, numerators, exponent.denominator).sum())
    p = float(np.exp(-float(exponent)))
    assert abs(heads - tosses * p) <= 4 * (tosses * p * (1 - p)) ** 0.5


def test_arrays_of_coins_keep_each_its_own_exponent():
    numerators = np.array([0, 10**9, 0, 2**62] * 50)
    assert (
        bernoulli_exp_array(seeded(23)._bits, numerators, 1).tolist()
        == [True, False, True, False] * 50
    )
    assert bernoulli_exp_array(seeded(23)._bits, np.array([], dtype=np.int64), 7).tolist() == []
    assert bernoulli_exp_array(seeded(23)._bits, np.array([2**62]), 2**1000).tolist() == [True]


def test_the_float_exponential_is_within_its_stated_error():
    rng = np.random.default_rng(5)
    edges = np.arange(0, 64, 1 / 64)
    x = np.concatenate(
        [rng.uniform(0, 64, 3000), rng.uniform(0, 1, 2000), edges, np.nextafter(edges[1:], 0)]
    )
    value = _exp(x)
    with mp.workprec(200):
        worst = max(
            abs(mp.mpf(v) / mp.exp(-mp.mpf(t)) - 1)
            for t, v in zip(x.tolist(), value.tolist(), strict=True)
        )
    # The note allows 2^-45.4 for the value itself, and the rest of 2^-42 for an x that is off.
    assert worst < 2.0**-45


EXPONENTS = [Fraction(1, 100), Fraction(1, 7), Fraction(1), Fraction(17, 3), Fraction(25)]


def coin(x, word, more):
    """The coin whose W starts with the 40 bits of `word`, and how often the exact x was needed."""
    asked = []

    def exact(i):
        asked.append(i)
        return x

    bits = Scripted([(word & (2**32 - 1)).to_bytes(4, "little"), *map(word64, more)])
    heads = np.array([word >> 32], dtype=np.uint8)
    (outcome,) = finish_coins(bits, heads, np.array([float(x)]), exact)
    assert bits.done
    return bool(outcome), len(asked)


@pytest.mark.parametrize("x", EXPONENTS, ids=str)
def test_coins_that_the_floats_cannot_tell_take_further_bits(x):
    with mp.workprec(300):
        p = mp.exp(-mp.mpf(x.numerator) / x.denominator)
        word = int(mp.floor(mp.ldexp(p, 40)))
        second = int(mp.floor(mp.ldexp(p, 104))) & (2**64 - 1)
        third = int(mp.floor(mp.ldexp(p, 168))) & (2**64 - 1)
    assert coin(x, word, [second - 1]) == (True, 1)
    assert coin(x, word, [second + 1]) == (False, 1)
    assert coin(x, word, [second, third - 1]) == (True, 1)
    assert coin(x, word, [second, third + 1]) == (False, 1)


@pytest.mark.parametrize("x", EXPONENTS, ids=str)
def test_coins_that_the_floats_can_tell_take_none(x):
    with mp.workprec(300):
        word = int(mp.floor(mp.ldexp(mp.exp(-mp.mpf(x.numerator) / x.denominator), 40)))
    if word >= 8:
        assert coin(x, word - 8, []) == (True, 0)
    assert coin(x, word + 8, []) == (False, 0)


def test_huge_exponents_are_decided_by_the_first_word_that_is_not_zero():
    assert coin(Fraction(10**6), 1, []) == (False, 0)
    assert coin(Fraction(10**6), 0, [0, 0, 1]) == (False, 1)
    assert coin(Fraction(64), 0, [0]) == (True, 1)


def test_below_exp_of_zero_is_certain():
    assert below_exp(no_bits, Fraction(0), 2**40 - 1, 40)
