from fractions import Fraction

import numpy as np
import pytest
from chi_square import fit
from scipy.stats import chi2
from scripted import Scripted, no_bits, word64

from dpsdk.noise import Geometric
from dpsdk.noise.sampler import PRECISION, Exponentials
from dpsdk.noise.table import LIMIT
from dpsdk.testing.noise import seeded

RATIOS = [
    Fraction(1), Fraction(7, 3), Fraction(1, 5), Fraction(8), Fraction(97, 10), Fraction(3, 8),
]  # fmt: skip


class Undecided(Exception):
    pass


def refuse(count):
    raise Undecided


@pytest.mark.parametrize("ratio", RATIOS, ids=str)
@pytest.mark.parametrize("precision", [0, 2, 5])
def test_a_floor_is_told_exactly_where_its_word_decides_it(ratio, precision):
    source = Exponentials(refuse, precision)
    for word in range(60 << precision):
        low, high = Fraction(word, 1 << precision), Fraction(word + 1, 1 << precision)
        # E is below `high`, so that the floor is K everywhere if K + 1 is not below it.
        whole = low * ratio // 1
        try:
            told = source.floor(word, ratio.numerator, ratio.denominator)
        except Undecided:
            assert high * ratio > whole + 1
        else:
            assert told == whole
            assert high * ratio <= whole + 1


@pytest.mark.parametrize("level", RATIOS, ids=str)
@pytest.mark.parametrize("precision", [0, 2, 5])
def test_a_comparison_is_told_exactly_where_its_word_decides_it(level, precision):
    source = Exponentials(refuse, precision)
    for word in range(20 << precision):
        low, high = Fraction(word, 1 << precision), Fraction(word + 1, 1 << precision)
        try:
            told = source.reaches(word, level.numerator, level.denominator)
        except Undecided:
            assert low < level < high
        else:
            assert told == (low >= level)
            assert told or high <= level


def test_a_word_that_does_not_decide_takes_more_bits_of_the_same_number():
    # E begins with 2: the floor of 1.1 E is 2 below E = 2.72727... and 3 above.
    for more, floor in ((0, 2), (int(0.7272 * 2**64) | 1, 2), (int(0.7273 * 2**64) | 1, 3)):
        # Then the coin of the exponent: certain where that is 0, else heads by a word that is high.
        coin = [] if more == 0 else [b"\xff" * 8]
        source = Exponentials(Scripted([word64(more), *coin]), 0)
        assert source.floor(2, 11, 10) == floor
        assert source.bits.done


def test_more_bits_are_refused_as_their_density_falls():
    # At a half of the way, the coin is exp(-1/2): heads if the first toss of 1/2 fails, or if the
    # first succeeds, the second, of 1/4, succeeds, and the third, of 1/6, fails.
    half = word64(1 << 63)
    kept = [[half, b"\xff"], [half, b"\x00", b"\x00", b"\xa0"]]
    for script in kept:
        source = Exponentials(Scripted(script), 0)
        assert source._longer(5, 0) == 5 << 64 | 1 << 63
        assert source.bits.done
    again = Exponentials(Scripted([half, b"\x00", b"\xff", word64(0)]), 0)
    assert again._longer(5, 0) == 5 << 64
    assert again.bits.done


@pytest.mark.thorough
def test_further_bits_have_the_density_of_an_exponential():
    source = Exponentials(seeded(41)._bits, 0)
    parts = np.array([source._longer(0, 0) / 2.0**64 for _ in range(20_000)])
    edges = np.linspace(0, 1, 41)
    expected = np.diff(-np.exp(-edges)) / -np.expm1(-1.0) * len(parts)
    observed = np.histogram(parts, edges)[0]
    assert chi2.sf(((observed - expected) ** 2 / expected).sum(), 39) > 1e-3


def test_words_have_the_law_of_an_exponential_in_steps():
    law = Geometric(1 << PRECISION)
    singles = Exponentials(seeded(42)._bits)
    assert fit(law, np.array([singles.word() for _ in range(20_000)])) > 1e-3
    for size in (20, 700, 5000):
        source = Exponentials(seeded(43)._bits)
        parts = [source.words(size) for _ in range(100_000 // size)]
        assert all(len(part) == size for part in parts)
        assert fit(law, np.concatenate(parts)) > 1e-3


class Given(Exponentials):
    """Gives out the words that it was given."""

    def __init__(self, words):
        super().__init__(no_bits)
        self._given = iter(words)

    def word(self):
        return self.unbounded(next(self._given))


def test_words_at_the_bound_of_the_lattice_begin_afresh():
    assert Given([]).unbounded(LIMIT - 1) == LIMIT - 1
    assert Given([5]).unbounded(LIMIT) == LIMIT + 5
    assert Given([LIMIT, LIMIT, 0]).unbounded(LIMIT) == 3 * LIMIT
