import math
import random
import tracemalloc
from fractions import Fraction

import mpmath as mp
import numpy as np
import pytest
from exact_choice import OnBits, check, law
from scipy.stats import chi2

import dpsdk.noise.choice as choice_module
from dpsdk.noise import SystemNoise
from dpsdk.noise.bits import exp_bracket
from dpsdk.noise.choice import Options, _Envelope
from dpsdk.testing import seeded
from worlds import thinned

HALF = Fraction(1, 2)


def large(bits, seed):
    return random.Random(seed).getrandbits(bits) | 1 << (bits - 1)


CASES = {
    "one option": ([7], HALF, [1]),
    "levels": ([3, 0, 1, 1, 2], HALF, [1] * 5),
    "negative levels": ([-3, -2, -10, -10], Fraction(1, 7), [1] * 4),
    "no rate": ([5, 1, 9], Fraction(0), [2, 1, 3]),
    "multiplicities": ([0, 1, 2, 3], Fraction(1), [1, 2, 5, 17]),
    "some that cannot be": ([0, 4, 5, 1, 6], HALF, [0, 3, 1, 0, 2]),
    "far apart": ([0, 30, 200, 2**62], Fraction(1), [1] * 4),
    "barely possible": ([0, 37, 38, 39, 40, 43, 60], Fraction(1), [1] * 7),
    "binomials": (list(range(12)), Fraction(1, 3), [math.comb(900, 400 + k) for k in range(12)]),
    "sizes that levels make up for": (
        [0, 693, 1386],
        Fraction(1),
        [large(bits, bits) for bits in (1000, 2000, 3001)],
    ),
    "one huge among small": ([0, 0, 0], Fraction(3), [1, large(300, 1), 2**53 + 1]),
    "a steep rate": ([0, 1, 1], Fraction(2**1000), [1, 5, large(2000, 3)]),
    "a tiny rate": ([0, 2**62, 2**61], Fraction(1, 2**70), [1, 1, 3]),
    "a rate below all floats": ([0, 1, 2**62], Fraction(1, 2**1023), [1, 2, 1]),
    "a rate of many digits": ([0, 10**15, 3 * 10**15], Fraction(10**17 + 1, 10**33), [1, 1, 1]),
}


@pytest.mark.thorough(quick=1)
@pytest.mark.parametrize("name", CASES)
def test_the_law_of_the_bits_is_the_law_of_the_weights(name):
    levels, rate, multiplicities = CASES[name]
    check(law(Options.of(levels, rate, multiplicities)), levels, rate, multiplicities)
    if set(multiplicities) == {1}:
        check(law(Options.of(np.array(levels), rate, None)), levels, rate, multiplicities)


@pytest.mark.thorough
def test_the_law_is_right_across_blocks(monkeypatch):
    monkeypatch.setattr(choice_module, "_BLOCK", 3)
    levels, rate, multiplicities = CASES["binomials"]
    for size in (3, 4, 7, 12):
        cut = levels[:size], rate, multiplicities[:size]
        check(law(Options.of(*cut)), *cut)


@pytest.mark.parametrize("seed", range(6))
def test_the_law_is_right_for_random_weights(seed):
    rng = random.Random(seed)
    size = rng.randrange(2, 6)
    levels = [rng.randrange(-(10 ** rng.randrange(1, 6)), 10) for _ in range(size)]
    rate = Fraction(rng.randrange(1, 10**6), 10 ** rng.randrange(4, 9))
    multiplicities = [large(rng.randrange(1, 400), rng.randrange(10**6)) for _ in range(size)]
    check(law(Options.of(levels, rate, multiplicities)), levels, rate, multiplicities)


@pytest.mark.parametrize("name", ["levels", "multiplicities"])
def test_the_law_is_right_for_brackets_no_tighter_than_proven(name, monkeypatch):
    def loose(x, precision):
        low, high = exp_bracket(x, precision)
        # About a quarter of the last of 128 bits of W.
        slack = 1 << 121 if precision > 240 else 0
        return max(0, low - slack), high + slack

    monkeypatch.setattr(choice_module, "exp_bracket", loose)
    levels, rate, multiplicities = CASES[name]
    check(law(Options.of(levels, rate, multiplicities)), levels, rate, multiplicities)


# Broken twins of the sampler, each of which the same check must catch.


class Twin(Options):
    """Correct but for what the subclasses change."""

    __slots__ = ()


class KeepsAll(Twin):
    """Weights that are rounded as the floats say."""

    def _keeps(self, bits, option, above, shift):
        return True


class KeepsByFloats(Twin):
    """The chance of keeping as a float."""

    def _keeps(self, bits, option, above, shift):
        x = float(self.rate * int(self.steps[option]))
        word = int.from_bytes(bits(8), "little")
        return word < 2**64 * math.ldexp(self.multiplicity(option) * math.exp(-x), shift) / above


class NoLoss(Twin):
    """The quick answer without the error of the floats."""

    def _keeps(self, bits, option, above, shift):
        first = bits(8)
        if (int.from_bytes(first, "little") + 1) * above <= above << 64:
            return True
        rest = iter([first])
        return super()._keeps(lambda n: next(rest, None) or bits(n), option, above, shift)


class ForgetsMultiplicities(Twin):
    def multiplicity(self, option):
        return 1


class DoubledRate(Twin):
    @classmethod
    def of(cls, levels, rate, multiplicities):
        return Options.of(levels, 2 * rate, multiplicities)


class LevelOff(Twin):
    @classmethod
    def of(cls, levels, rate, multiplicities):
        return Options.of([levels[0] + 1, *levels[1:]], rate, multiplicities)


class TiesDropped(Twin):
    """Of several options of one level, only the first."""

    @classmethod
    def of(cls, levels, rate, multiplicities):
        firsts = [
            0 if level in levels[:i] else m
            for i, (level, m) in enumerate(zip(levels, multiplicities, strict=True))
        ]
        return Options.of(levels, rate, firsts)


TWINS = [
    KeepsAll, KeepsByFloats, NoLoss, ForgetsMultiplicities, DoubledRate, LevelOff, TiesDropped
]  # fmt: skip
TIED = ([2, 0, 1, 1, 3], HALF, [3, 2, 5, 7, 11])


def test_the_correct_twin_passes():
    check(law(Twin.of(*TIED)), *TIED)


@pytest.mark.parametrize("broken", TWINS)
def test_the_check_catches_a_broken_twin(broken):
    with pytest.raises(AssertionError):
        check(law(broken.of(*TIED)), *TIED)


def test_the_check_catches_integers_below_the_weights(monkeypatch):
    block_of = _Envelope._block
    monkeypatch.setattr(_Envelope, "_block", lambda self, block: block_of(self, block) * 7 // 8)
    with pytest.raises(AssertionError):
        check(law(Options.of(*TIED)), *TIED)


@pytest.mark.thorough
def test_all_strings_of_few_bits_add_up_to_the_law(monkeypatch):
    """Whole draws on every string there is, with a coarse envelope and bytes in place of words."""
    levels, rate, multiplicities = [1, 0, 2], Fraction(2, 3), [2, 1, 0]
    monkeypatch.setattr(choice_module, "_ENVELOPE_BITS", 5)
    monkeypatch.setattr(choice_module, "_MORE", 8)
    options = Options.of(levels, rate, multiplicities)
    total = _Envelope(options)._ends[-1]
    assert 2 <= total <= 32

    class Again(Exception):
        """A proposal was refused, and the next round begins."""

    class Longer(Exception):
        """The string is too short."""

    def outcome(start, string):
        starts, rest = iter([start]), iter(string)

        def below(_, n):
            assert n == total
            for value in starts:
                return value
            raise Again

        def bits(count):
            assert count == 1
            for byte in rest:
                return bytes([byte])
            raise Longer

        monkeypatch.setattr(choice_module, "uniform_below", below)
        return options.draw(bits)

    masses, refused, undecided = [Fraction(0)] * 3, Fraction(0), Fraction(0)
    pending = [(start, bytes([byte])) for start in range(total) for byte in range(256)]
    while pending:
        start, string = pending.pop()
        mass = Fraction(1, total << 8 * len(string))
        try:
            masses[outcome(start, string)] += mass
        except Again:
            refused += mass
        except Longer:
            if len(string) == 2:
                undecided += mass
            else:
                pending += [(start, string + bytes([byte])) for byte in range(256)]
    assert sum(masses) + refused + undecided == 1
    assert undecided < Fraction(1, 2**15)
    weights = [
        m * mp.exp(-mp.mpf(2 * level) / 3) for level, m in zip(levels, multiplicities, strict=True)
    ]
    for mass, true in zip(masses, weights, strict=True):
        # Old versions of mpmath compare with no fraction.
        share = true / mp.fsum(weights) * (1 - refused).numerator / (1 - refused).denominator
        least, most = mass, mass + undecided
        assert least.numerator <= share * least.denominator
        assert share * most.denominator <= most.numerator


# The floats that the envelope is made of.


@pytest.mark.parametrize("rate", [Fraction(1, 10**6), Fraction(1, 7), Fraction(3), Fraction(2**30)])
def test_the_envelope_is_above_the_weights_and_as_close_as_stated(rate):
    rng = np.random.default_rng(3)
    near = rng.integers(0, 60 * rate.denominator // rate.numerator + 2, 500)
    levels = np.concatenate([[0, 1, 2, 2**62], near, rng.integers(0, 2**50, 50)])
    multiplicities = [large(int(b), i) for i, b in enumerate(rng.integers(1, 120, len(levels)))]
    for counts in (None, multiplicities):
        options = Options.of(levels, rate, counts)
        envelope = _Envelope(options)
        integers = envelope._block(0).tolist()
        with mp.workprec(400):
            for i, (level, integer) in enumerate(zip(levels.tolist(), integers, strict=True)):
                x = mp.mpf(level * rate.numerator) / rate.denominator
                true = mp.ldexp(options.multiplicity(i) * mp.exp(-x), envelope.shift)
                loss = 3 * (mp.ldexp(1, -44) + mp.ldexp(x, -49))
                assert (integer - 1) * (1 - loss) <= true <= integer
        assert envelope._ends[-1] == sum(integers) < 2**63


def test_exponents_that_multiplicities_make_up_for_are_bracketed_as_stated():
    levels = list(range(12))
    rate = Fraction(1500)
    multiplicities = [large(2164 * k + 1, k) for k in levels]
    envelope = _Envelope(Options.of(levels, rate, multiplicities))
    with mp.workprec(30_000):
        for level, m, integer in zip(
            levels, multiplicities, envelope._block(0).tolist(), strict=True
        ):
            x = mp.mpf(1500 * level)
            true = mp.ldexp(m * mp.exp(-x), envelope.shift)
            assert (
                (integer - 1) * (1 - 3 * (mp.ldexp(1, -44) + mp.ldexp(x, -49))) <= true <= integer
            )
    assert max(envelope._block(0)) > 2**50


def test_constants_are_the_nearest_floats():
    with mp.workprec(200):
        assert float(mp.ln(2)) == choice_module._LN2_PART * 256
        assert float(1 / mp.ln(2)) == choice_module._PARTS_LN2 / 256
        for part, power in enumerate(choice_module._powers().tolist()):
            assert float(mp.mpf(2) ** (-mp.mpf(part) / 256)) == power


def test_proposals_are_seldom_refused_and_rounds_take_no_more_bits_than_they_need():
    asked = []
    give = seeded(31)._bits

    def bits(count):
        asked.append(count)
        return give(count)

    options = Options.of(list(range(1000)), Fraction(1, 50), None)
    for _ in range(300):
        options.draw(bits)
    # Two words a draw, and a proposal is taken anew where its word is not below the total.
    assert set(asked) == {8}
    assert len(asked) <= 300 * 4


# Draws as a whole.


@pytest.mark.thorough
@pytest.mark.parametrize(
    "name", thinned(["levels", "binomials", "multiplicities", "some that cannot be"], 2)
)
def test_draws_fit_the_law(name):
    levels, rate, multiplicities = CASES[name]
    source, draws = seeded(77), 4000
    seen = np.bincount(
        [source.pick(levels, rate, multiplicities) for _ in range(draws)], minlength=len(levels)
    )
    true = np.array(
        [float(m * mp.exp(-mp.mpf(x) * rate.numerator / rate.denominator)) for x, m in
         zip(levels, multiplicities, strict=True)]
    )  # fmt: skip
    expected = true / true.sum() * draws
    possible = expected > 0
    assert not seen[~possible].any()
    statistic = (((seen - expected) ** 2)[possible] / expected[possible]).sum()
    assert chi2.sf(statistic, possible.sum() - 1) > 1e-4


@pytest.mark.thorough
def test_draws_over_several_blocks_fit_the_law(monkeypatch):
    monkeypatch.setattr(choice_module, "_BLOCK", 999)
    draws = 1500
    levels = np.arange(4000)[::-1] // 100
    source = seeded(78)
    seen = np.bincount(
        [source.pick(levels, Fraction(1, 10)) // 100 for _ in range(draws)], minlength=40
    )
    true = np.exp(-np.arange(40)[::-1] / 10)
    expected = true / true.sum() * draws
    keep = expected >= 10
    statistic = (((seen - expected) ** 2)[keep] / expected[keep]).sum()
    assert chi2.sf(statistic, keep.sum()) > 1e-4


def test_equal_seeds_choose_alike_and_the_system_does_choose():
    levels = [k % 7 for k in range(100)]
    first, second = (
        [source.pick(levels, HALF) for _ in range(20)] for source in (seeded(5), seeded(5))
    )
    assert first == second
    assert len(set(first)) > 5
    system = SystemNoise()
    assert len({system.pick(levels, HALF) for _ in range(50)}) > 5


def test_what_is_certain_is_chosen():
    source = seeded(6)
    for _ in range(20):
        assert source.pick([5, 2, 9], 10**6) == 1
        assert source.pick([5, 2, 9], 1, [0, 0, 4]) == 2
        assert source.pick([4], 0) == 0
        assert source.pick([0, 2**62], 2**1000, [1, 1]) == 0


def test_what_the_caller_writes_meanwhile_changes_nothing():
    give = seeded(8)._bits
    plain, counts = np.arange(50), list(range(1, 51))
    expected = OnBits(seeded(8)._bits).pick(plain.copy(), HALF, list(counts))

    def bits(count):
        plain[:] = 0
        counts.clear()
        return give(count)

    assert OnBits(bits).pick(plain, HALF, counts) == expected


def test_memory_is_one_copy_of_the_levels_and_little_more():
    levels = np.arange(1 << 20) % 1000
    seeded(1).pick(levels[:100], HALF)
    tracemalloc.start()
    seeded(1).pick(levels, HALF)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 8 * len(levels) + (4 << 20)


def test_a_million_small_weights_cannot_crowd_out_the_large_one():
    """Each negligible option is proposed as if it weighed one unit, and then refused."""
    size = 1 << 18
    levels = np.full(size, 10**6)
    levels[12345] = 0
    options = Options.of(levels, 1, None)
    envelope = _Envelope(options)
    integers = np.concatenate([envelope._block(b) for b in range(len(envelope._ends))])
    assert (np.delete(integers, 12345) == 1).all()
    assert integers[12345] > 2**42
    give = seeded(9)._bits
    assert {options.draw(give) for _ in range(5)} == {12345}
    zeros = lambda count: bytes(count)  # noqa: E731
    # Proposed all the same, a negligible option is refused by any W above its chance.
    assert not options._keeps(lambda count: b"\1" * count, 0, 1, envelope.shift)
    assert envelope.propose(zeros) == (0, 1)
