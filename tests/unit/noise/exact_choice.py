"""The law of a weighted choice, read off the sampler itself by bits that say what they are told to.

What is proposed depends on a uniform integer only, and grows with it, so that bisection finds where
it changes. Whether a proposal is kept depends on a uniform W read from its top, and falls with it,
so that bisection over its first 128 bits finds the chance of keeping, to 2^-128.
"""

import mpmath as mp
from attrs import frozen

from dpsdk.noise import NoiseSource
from dpsdk.noise.choice import _Envelope

DEPTH = 128


class OnBits(NoiseSource):
    """A source on bits of one's own."""

    __slots__ = ("_give",)

    def __init__(self, give):
        self._give = give

    @property
    def private(self):
        return False

    def _bits(self, count):
        return self._give(count)


class Undecided(Exception):
    """More bits were asked for than there are."""


def fixed(word, length):
    """So many bits, given out from the top in words of eight bytes."""
    words = [word >> shift & (2**64 - 1) for shift in range(0, length, 64)]

    def bits(count):
        assert count == 8
        if not words:
            raise Undecided
        return words.pop().to_bytes(8, "little")

    return bits


def target(value, total):
    """The bits from which `uniform_below(total)` makes a value."""
    length = (total - 1).bit_length()

    def bits(count):
        return (value << (8 * count - length)).to_bytes(count, "little")

    return bits


def first(true_from, low, high):
    """The least number in low .. high from which a monotone test is true; `high` if it never is."""
    while low < high:
        middle = (low + high) // 2
        if true_from(middle):
            high = middle
        else:
            low = middle + 1
    return low


@frozen
class Law:
    """Brackets of each option's weight: what is proposed times what is kept.

    Integers in units of 2^-(DEPTH + shift), above by a relative 2^-(DEPTH - 1) at most where the
    weight is not far below the others.
    """

    low: list[int]
    high: list[int]
    shift: int


def law(options):
    """The law of one round, whose outcome is an option or another round."""
    envelope = _Envelope(options)
    size = len(options.steps)
    total = envelope._ends[-1]

    def proposed(value):
        return envelope.propose(target(value, total))[0]

    ends = [first(lambda value, i=i: proposed(value) > i, 0, total) for i in range(size)]
    assert ends[-1] == total
    low = []
    high = []
    for option, end in enumerate(ends):
        width = end - (ends[option - 1] if option else 0)
        if width == 0:
            low.append(0)
            high.append(0)
            continue
        above = envelope.propose(target(end - 1, total))
        assert above == (option, width)

        def kept(word, option=option, width=width):
            try:
                return options._keeps(fixed(word, DEPTH), option, width, envelope.shift)
            except Undecided:
                return None

        surely = first(lambda word: kept(word) is not True, 0, 1 << DEPTH)
        possibly = first(lambda word: kept(word) is False, surely, 1 << DEPTH)
        assert possibly <= surely + 4
        low.append(width * surely)
        high.append(width * possibly)
    return Law(low, high, envelope.shift)


def weight(level, rate, multiplicity):
    return multiplicity * mp.exp(-mp.mpf(level * rate.numerator) / rate.denominator)


def check(found, levels, rate, multiplicities):
    """Every true weight lies within its bracket, and all share one unit."""
    longest = max(m.bit_length() for m in multiplicities)
    base = min(level for level, m in zip(levels, multiplicities, strict=True) if m > 0)
    with mp.workprec(1000 + longest):
        for i, (level, m) in enumerate(zip(levels, multiplicities, strict=True)):
            true = mp.ldexp(weight(level - base, rate, m), found.shift + DEPTH) if m else mp.mpf(0)
            assert found.low[i] <= true <= found.high[i], i
