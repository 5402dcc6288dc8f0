from __future__ import annotations

import threading
from collections.abc import Iterator
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
from parallel import at_once

RATIOS = [
    Fraction(1),
    Fraction(7, 3),
    Fraction(1, 5),
    Fraction(8),
    Fraction(97, 10),
    Fraction(3, 8),
]


class Undecided(Exception):
    pass


def refuse(count: int) -> bytes:
    raise Undecided


@pytest.mark.parametrize("ratio", RATIOS, ids=str)
@pytest.mark.parametrize("precision", [0, 2, 5])
def test_a_floor_is_told_exactly_where_its_word_decides_it(ratio: Fraction, precision: int) -> None:
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
def test_a_comparison_is_told_exactly_where_its_word_decides_it(
    level: Fraction, precision: int
) -> None:
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


def test_a_word_that_does_not_decide_takes_more_bits_of_the_same_number() -> None:
    # E begins with 2: the floor of 1.1 E is 2 below E = 2.72727... and 3 above.
    for more, floor in ((0, 2), (int(0.7272 * 2**64) | 1, 2), (int(0.7273 * 2**64) | 1, 3)):
        # Then the coin of the exponent: certain where that is 0, else heads by a word that is high.
        coin = [] if more == 0 else [b"\xff" * 8]
        source = Exponentials(Scripted([word64(more), *coin]), 0)
        assert source.floor(2, 11, 10) == floor
        assert source.bits.done  # type: ignore[attr-defined]  # it is a script


def test_more_bits_are_refused_as_their_density_falls() -> None:
    # At a half of the way, the coin is exp(-1/2): heads if the first toss of 1/2 fails, or if the
    # first succeeds, the second, of 1/4, succeeds, and the third, of 1/6, fails.
    half = word64(1 << 63)
    kept = [[half, b"\xff"], [half, b"\x00", b"\x00", b"\xa0"]]
    for script in kept:
        source = Exponentials(Scripted(script), 0)
        assert source._longer(5, 0) == 5 << 64 | 1 << 63
        assert source.bits.done  # type: ignore[attr-defined]  # it is a script
    again = Exponentials(Scripted([half, b"\x00", b"\xff", word64(0)]), 0)
    assert again._longer(5, 0) == 5 << 64
    assert again.bits.done  # type: ignore[attr-defined]  # it is a script


@pytest.mark.thorough
def test_further_bits_have_the_density_of_an_exponential() -> None:
    source = Exponentials(seeded(41)._bits, 0)
    parts = np.array([source._longer(0, 0) / 2.0**64 for _ in range(20_000)])
    edges = np.linspace(0, 1, 41)
    expected = np.diff(-np.exp(-edges)) / -np.expm1(-1.0) * len(parts)
    observed = np.histogram(parts, edges)[0]
    assert chi2.sf(((observed - expected) ** 2 / expected).sum(), 39) > 1e-3


def test_words_have_the_law_of_an_exponential_in_steps() -> None:
    law = Geometric(1 << PRECISION)
    singles = Exponentials(seeded(42)._bits)
    assert fit(law, np.array([singles.word() for _ in range(20_000)])) > 1e-3
    for size in (20, 700, 5000):
        source = Exponentials(seeded(43)._bits)
        parts = [source.words(size) for _ in range(100_000 // size)]
        assert all(len(part) == size for part in parts)
        assert fit(law, np.concatenate(parts)) > 1e-3


def test_no_word_is_given_out_twice() -> None:
    source = Exponentials(seeded(44)._bits)
    seen: list[int] = []
    for size in (1, 20, 64, 65, 300, 4096, 4097, 3) * 10:
        seen += [source.word() for _ in range(size)] if size < 4 else source.words(size).tolist()
    assert len(set(seen)) == len(seen)


def test_threads_share_words_without_repetition() -> None:
    source = Exponentials(seeded(45)._bits)
    results: list[list[int]] = [[] for _ in range(8)]
    start = threading.Barrier(8)

    def work(mine: list[int]) -> None:
        start.wait()
        for size in (1, 30, 1, 100) * 40:
            mine += [source.word()] if size == 1 else source.words(size).tolist()

    at_once(work, results)
    everything = [word for mine in results for word in mine]
    assert len(everything) == 8 * 40 * 132
    assert len(set(everything)) == len(everything)


class Given(Exponentials):
    """Gives out the words that it was given."""

    def __init__(self, words: list[int]) -> None:
        super().__init__(no_bits)
        self._given: Iterator[int] = iter(words)

    def word(self) -> int:
        return self.unbounded(next(self._given))


def test_words_at_the_bound_of_the_lattice_begin_afresh() -> None:
    assert Given([]).unbounded(LIMIT - 1) == LIMIT - 1
    assert Given([5]).unbounded(LIMIT) == LIMIT + 5
    assert Given([LIMIT, LIMIT, 0]).unbounded(LIMIT) == 3 * LIMIT


def test_an_interrupt_between_two_steps_repeats_no_word() -> None:
    class Interrupting:
        def __init__(self) -> None:
            self.left = 0
            self.bits = seeded(46)._bits

        def __call__(self, count: int) -> bytes:
            self.left -= 1
            if self.left == 0:
                raise KeyboardInterrupt
            return self.bits(count)

    bits = Interrupting()
    source = Exponentials(bits)
    seen: list[int] = []
    interrupted = 0
    for after in range(1, 40):
        bits.left = after % 13 + 1
        try:
            while len(seen) < 2000 * after:
                seen.append(source.word())
                seen += source.words(30).tolist()
        except KeyboardInterrupt:
            interrupted += 1
    assert interrupted > 20
    assert len(seen) > 20_000
    assert len(set(seen)) == len(seen)
