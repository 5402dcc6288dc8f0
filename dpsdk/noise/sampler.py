"""From a law and a stream of bits to exact draws.

A few draws are made without a table; once a law has been drawn from thousands of times a table is
built for it. Which it is depends on numbers of draws and on nothing else, so that a seeded stream
gives the same draws whatever else the process did before. Tables are public and kept for reuse.

Without a table draws come from standard exponentials. With E, E', E'' independent ones, floor(b E)
is geometric of scale b; the difference of two such is discrete Laplace; and a discrete Laplace
proposal z of scale t is kept with probability exp(-x), that is where E'' >= x, to be discrete
Gaussian (Canonne, Kamath and Steinke 2020, Algorithm 3). One at a time this is arithmetic of
integers; arrays take the same words, settle what 62 bits or a float can tell, and leave the rest to
that arithmetic.
"""

from __future__ import annotations

import math
from fractions import Fraction
from functools import cache, lru_cache
from typing import TypeAlias

import numpy as np

from dpsdk.noise.bits import Bits, bernoulli_exp
from dpsdk.noise.laws import DiscreteGaussian, DiscreteLaplace, Geometric, NoiseLaw
from dpsdk.noise.table import LIMIT, Lattice, Table, gaussian_sampler, laplace_sampler
from dpsdk.typing import Bools, Floats, Ints

__all__ = [
    "Exponentials",
    "PRECISION",
    "TABLED",
    "draw_untabled",
    "euclidean",
    "rounded_up_root",
    "sample",
]

PRECISION = 55
"""Bits of E behind the point that a word has."""

_MORE = 64
_UP = 62
_BLOCK = 64
_GROWTH = 8
_MOST = 64
"""Blocks made ahead at the most, after one and then eight."""


@cache
def _of_words() -> Table | Lattice:
    return laplace_sampler(Fraction(1 << PRECISION), two_sided=False)


class Exponentials:
    """A stream of independent standard exponentials, made ahead; each is given out once.

    Needs no lock: words and blocks of them leave their list in the same step in which they are
    taken, whichever thread, interrupt or finaliser comes between. Tests have words of fewer bits.
    """

    __slots__ = ("_ahead", "_blocks", "_words", "bits", "precision")

    def __init__(self, bits: Bits, precision: int = PRECISION) -> None:
        self.bits: Bits = bits
        self.precision: int = precision
        self._words: list[int] = []
        self._blocks: list[Ints] = []
        self._ahead = 1

    def word(self) -> int:
        """The word of an exponential that nothing else has seen."""
        while True:
            try:
                word = self._words.pop()
            except IndexError:
                self._words.extend(self._block().tolist())
            else:
                return word if word < LIMIT else LIMIT + self.word()

    def words(self, count: int) -> Ints:
        """That many words, each set to 2^62 - 1 if it is at or beyond that."""
        if count > _MOST * _BLOCK:
            return _of_words().draw(self.bits, count)
        taken = np.concatenate([self._block() for _ in range(-(-count // _BLOCK))])
        self._words.extend(taken[count:].tolist())
        return taken[:count]

    def unbounded(self, word: int) -> int:
        """The word that one of `words` stands for: beyond the bound the law begins afresh."""
        return word if word < LIMIT else LIMIT + self.word()

    def floor(self, word: int, numerator: int, denominator: int) -> int:
        """The integer below E · numerator / denominator, for the E of an unbounded word."""
        precision = self.precision
        while True:
            unit = denominator << precision
            # Quotients moved up to one length take one time, which so says nothing of them.
            whole, rest = divmod(word * numerator + (unit << _UP), unit)
            if rest + numerator <= unit:
                return whole - (1 << _UP)
            word = self._longer(word, precision)
            precision += _MORE

    def reaches(self, word: int, numerator: int, denominator: int) -> bool:
        """True if E >= numerator / denominator, for the E of an unbounded word."""
        precision = self.precision
        while True:
            level = numerator << precision
            if word * denominator >= level:
                return True
            if (word + 1) * denominator <= level:
                return False
            word = self._longer(word, precision)
            precision += _MORE

    def _longer(self, word: int, precision: int) -> int:
        """The word, with 64 more bits of the same E behind it."""
        while True:
            more = int.from_bytes(self.bits(_MORE // 8), "little")
            # Given the bits before, those behind have a density that falls as exp does.
            if bernoulli_exp(self.bits, Fraction(more, 1 << (precision + _MORE))):
                return word << _MORE | more

    def _block(self) -> Ints:
        while True:
            try:
                return self._blocks.pop()
            except IndexError:
                ahead = self._ahead
                self._ahead = min(_GROWTH * ahead, _MOST)
                made = _of_words().draw(self.bits, ahead * _BLOCK)
                self._blocks.extend(list(made.reshape(ahead, _BLOCK)))


TABLED = 4096
"""From so many draws of a law on, those before included, a table is worth its time."""

_SAMPLERS = 128


def sample(source: Exponentials, law: NoiseLaw, size: int, *, before: int = 0) -> Ints:
    """`size` independent exact draws, each set to ±(2^62 - 1) if it lies beyond."""
    if not law.parameter:
        return np.zeros(size, dtype=np.int64)
    if before + size >= TABLED:
        return _sampler(law).draw(source.bits, size)
    return draw_untabled(source, law, size)


@lru_cache(maxsize=_SAMPLERS)
def _sampler(law: NoiseLaw) -> Table | Lattice:
    if isinstance(law, DiscreteGaussian):
        return gaussian_sampler(law.variance)
    return laplace_sampler(law.parameter, two_sided=isinstance(law, DiscreteLaplace))


_SINGLY = 24
"""Up to so many draws are sooner made one by one."""

_SPARE = 8
_LIMB = 30
_FACTOR_BITS = 62
_STEEPEST = 60
"""Coins of a variance below 2^-61 are told by the exponents of that variance."""

_Sure: TypeAlias = tuple[Ints, Bools]


def draw_untabled(source: Exponentials, law: NoiseLaw, size: int) -> Ints:
    """`size` independent draws, each set to ±(2^62 - 1) if it lies beyond."""
    numerator, denominator = law.parameter.as_integer_ratio()
    if isinstance(law, Geometric):
        one, many = geometric, _geometrics
    elif isinstance(law, DiscreteLaplace):
        one, many = laplace, _laplaces
    else:
        one, many = gaussian, _gaussians
    if size > _SINGLY:
        return many(source, numerator, denominator, size)
    drawn = [_bounded(one(source, numerator, denominator)) for _ in range(size)]
    return np.array(drawn, dtype=np.int64)


def geometric(source: Exponentials, numerator: int, denominator: int) -> int:
    """One draw of P(z) proportional to exp(-z / scale) on 0, 1, 2, ..."""
    return source.floor(source.word(), numerator, denominator)


def laplace(source: Exponentials, numerator: int, denominator: int) -> int:
    """One draw of P(z) proportional to exp(-|z| / scale)."""
    up = source.floor(source.word(), numerator, denominator)
    return up - source.floor(source.word(), numerator, denominator)


def gaussian(source: Exponentials, numerator: int, denominator: int) -> int:
    """One draw of P(z) proportional to exp(-z² / (2 variance))."""
    coin = _Coin(numerator, denominator)
    while True:
        z = laplace(source, coin.scale, 1)
        if coin.keeps(source, source.word(), z):
            return z


_ROOT_BITS = 20


def euclidean(source: Exponentials, scale: Fraction, entries: int) -> list[int]:
    """One vector of P(z) proportional to exp(-ceil(|z|) / scale).

    Independent Laplace draws of a scale larger by a root of the number of entries, rounded up, are
    kept with the ratio of the two laws: |z| is at least the sum of absolute entries over that root.
    """
    if not scale:
        return [0] * entries
    above, below = scale.as_integer_ratio()
    one = 1 << _ROOT_BITS
    root = rounded_up_root(entries << 2 * _ROOT_BITS)
    while True:
        z = [laplace(source, above * root, below * one) for _ in range(entries)]
        length = rounded_up_root(sum([each * each for each in z]))
        exponent = (length * root - one * sum(map(abs, z))) * below
        if source.reaches(source.word(), exponent, above * root):
            return z


def rounded_up_root(square: int) -> int:
    """The least integer whose square is at least so much."""
    return math.isqrt(square - 1) + 1 if square > 0 else 0


class _Coin:
    """Keeps a Laplace proposal z of scale t with probability exp(-x).

    x = (|z| - variance / t)² / (2 variance), and t is an integer just above sigma. Of the proposals
    for wide laws three of four are kept, of others nearly half at least.
    """

    __slots__ = ("_over", "_step", "scale", "variance")

    def __init__(self, numerator: int, denominator: int) -> None:
        self.variance = numerator, denominator
        self.scale = math.isqrt(numerator // denominator) + 1
        self._step = self.scale * denominator
        self._over = 2 * numerator * self._step * self.scale

    @property
    def share(self) -> float:
        """About which share of the proposals is kept, a little less."""
        numerator, denominator = self.variance
        variance = numerator / denominator
        flat = math.tanh(0.5 / self.scale) * max(1.0, math.sqrt(2 * math.pi * variance))
        return 0.95 * flat * math.exp(-variance / (2 * self.scale**2))

    def keeps(self, source: Exponentials, word: int, z: int) -> bool:
        """True if the E of `word` is at least the exponent of z."""
        return source.reaches(word, (abs(z) * self._step - self.variance[0]) ** 2, self._over)

    def exponents(self, z: Ints) -> tuple[Floats, Floats]:
        """The exponents in floats, and by how much these may be off, their comparison included."""
        numerator, denominator = self.variance
        steep = denominator > numerator << (_STEEPEST + 1)
        inverse = 2.0**_STEEPEST if steep else denominator / (2 * numerator)
        distance = np.abs(z).astype(np.float64)
        centre = numerator / self._step
        gap, sum_ = distance - centre, distance + centre
        return gap * gap * inverse, sum_ * sum_ * (inverse * 2.0**-48) + 2.0**-50


def _bounded(z: int) -> int:
    if -LIMIT <= z <= LIMIT:
        return z
    return LIMIT if z > 0 else -LIMIT


def _floors(words: Ints, numerator: int, denominator: int) -> _Sure:
    """The integers below E · numerator / denominator, and which of them 62 bits of it decide."""
    # The factor lies between `factor` and `factor` + 1 in units of 2^-more.
    more = _FACTOR_BITS - (numerator // denominator).bit_length()
    factor = (numerator << more) // denominator
    mask = (1 << _LIMB) - 1
    x = words.view(np.uint64)
    x_high, x_low = x >> np.uint64(_LIMB), x & np.uint64(mask)
    high, low = np.uint64(factor >> _LIMB), np.uint64(factor & mask)
    # The product of 124 bits, as top · 2^60 + bottom.
    middle = x_high * low + x_low * high
    bottom = x_low * low + ((middle & np.uint64(mask)) << np.uint64(_LIMB))
    top = x_high * high + (middle >> np.uint64(_LIMB)) + (bottom >> np.uint64(2 * _LIMB))
    bottom &= np.uint64((1 << 2 * _LIMB) - 1)
    shift = more + PRECISION - 2 * _LIMB
    whole = (top >> np.uint64(shift)).astype(np.int64)
    rest = top & np.uint64((1 << shift) - 1)
    # E and the factor each end before their next unit: by so much is the product below the truth.
    slack = bottom + x + np.uint64(factor + 1)
    sure = rest + (slack >> np.uint64(2 * _LIMB)) < np.uint64(1 << shift)
    return whole, sure & (words < LIMIT)


def _geometrics(source: Exponentials, numerator: int, denominator: int, size: int) -> Ints:
    words = source.words(size)
    drawn, sure = _floors(words, numerator, denominator)
    for i in np.flatnonzero(~sure).tolist():
        word = source.unbounded(int(words[i]))
        drawn[i] = _bounded(source.floor(word, numerator, denominator))
    return drawn


def _laplaces(source: Exponentials, numerator: int, denominator: int, size: int) -> Ints:
    words = source.words(2 * size)
    drawn, sure = _differences(words, numerator, denominator)
    for i in np.flatnonzero(~sure).tolist():
        drawn[i] = _bounded(_difference(source, words, i, numerator, denominator))
    return drawn


def _differences(words: Ints, numerator: int, denominator: int) -> _Sure:
    floors, sure = _floors(words, numerator, denominator)
    size = len(words) // 2
    return floors[:size] - floors[size:], sure[:size] & sure[size:]


def _difference(
    source: Exponentials, words: Ints, place: int, numerator: int, denominator: int
) -> int:
    """One entry of `_differences` exactly, however large."""
    up, down = words[place], words[len(words) // 2 + place]
    return source.floor(source.unbounded(int(up)), numerator, denominator) - source.floor(
        source.unbounded(int(down)), numerator, denominator
    )


def _gaussians(source: Exponentials, numerator: int, denominator: int, size: int) -> Ints:
    coin = _Coin(numerator, denominator)
    drawn: list[Ints] = []
    missing = size
    while missing > 0:
        kept = _proposals(source, coin, int(missing / coin.share) + _SPARE)
        drawn.append(kept)
        missing -= len(kept)
    return np.concatenate(drawn)[:size].copy()


def _proposals(source: Exponentials, coin: _Coin, count: int) -> Ints:
    """The draws that so many proposals leave, in their order."""
    words = source.words(3 * count)
    proposing, tossed = words[: 2 * count], words[2 * count :]
    z, sure = _differences(proposing, coin.scale, 1)
    x, error = coin.exponents(z)
    e = tossed.astype(np.float64) * 2.0**-PRECISION
    kept = e >= x + error
    sure &= (kept | (e + error <= x)) & (tossed < LIMIT)
    for i in np.flatnonzero(~sure).tolist():
        exact = _difference(source, proposing, i, coin.scale, 1)
        kept[i] = coin.keeps(source, source.unbounded(int(tossed[i])), exact)
        z[i] = _bounded(exact)
    return np.clip(z[kept], -LIMIT, LIMIT)
