"""An exact choice among weighted options, for weights that no float could hold.

An option of level l and multiplicity m has the weight m·exp(-rate·l). Vectorised floats of proven
error put an integer above every weight; one option is proposed by these integers and kept with the
exact chance that remains, by a uniform that is read as far as it takes. So floats decide how often
a proposal is refused, which is seldom, and never what comes out
(docs/explanation/proofs/noise.md, "Weighted choices").
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from fractions import Fraction
from functools import cache
from itertools import accumulate
from math import isqrt
from numbers import Integral
from typing import cast

import numpy as np

from dpsdk._arrays import frozen_copy
from dpsdk._checks import shown, to_fraction
from dpsdk._records import field, frozen
from dpsdk.errors import InvalidArgument
from dpsdk.noise.bits import Bits, exp_bracket, uniform_below
from dpsdk.typing import Array, Floats, Ints, Real

__all__ = ["Options"]

_MOST = 1 << 26
_SPAN = 1 << 62
_RATE_BITS = 1024
_MULTIPLICITY_BITS = 1 << 24

_BLOCK = 1 << 14
_ENVELOPE_BITS = 62
_MORE = 64

_PARTS = 256
_LN2_PART = 0.6931471805599453 / _PARTS
_PARTS_LN2 = 1.4426950408889634 * _PARTS
_THIRD = 1.0 / 3.0
_FAR = 2.0**36
"""Larger exponents are taken for this: no multiplicity makes up for it."""
_SLACK, _SLOPE = 2.0**-44, 2.0**-49
"""The floats below are a relative _SLACK + x·_SLOPE above the weight, and at most thrice that."""
_NEGLIGIBLE = -64


def _power(part: int) -> float:
    """2^(-part / 256), rounded down from 100 bits."""
    root = 1 << (100 * _PARTS - part)
    for _ in range(_PARTS.bit_length() - 1):
        root = isqrt(root)
    return float(Fraction(root, 1 << 100))


@cache
def _powers() -> Floats:
    """All of them, when they are first needed: this takes as long as loading numpy."""
    return frozen_copy(np.array([_power(part) for part in range(_PARTS)]))


@frozen(eq=False)
class Options:
    """The options, as exact copies of what a caller gave.

    `steps` says how far each level is above the least that can come out; options that cannot, of
    multiplicity 0, may have any.
    """

    steps: Ints = field(repr=False)
    rate: Fraction
    multiplicities: tuple[int, ...] | Ints | None = field(repr=False)

    @classmethod
    def of(
        cls, levels: Ints | Sequence[int], rate: Real, multiplicities: Ints | Sequence[int] | None
    ) -> Options:
        """Read what `NoiseSource.pick` takes."""
        slope = _to_rate(rate)
        steps = _to_steps(levels)
        if multiplicities is None:
            return cls(steps, slope, None)
        counts = _to_multiplicities(multiplicities)
        if len(counts) != len(steps):
            raise InvalidArgument("multiplicities", "as many as there are levels", "another number")
        possible = np.asarray(counts) != 0
        if not possible.any():
            raise InvalidArgument("multiplicities", "above zero for some level", "only zeros")
        steps -= steps[possible].min()
        return cls(np.maximum(steps, 0, out=steps), slope, counts)

    def draw(self, bits: Bits) -> int:
        """An option, with a probability proportional to its weight."""
        envelope = _Envelope(self)
        while True:
            chosen, above = envelope.propose(bits)
            if self._keeps(bits, chosen, above, envelope.shift):
                return chosen

    def multiplicity(self, option: int) -> int:
        """How often an option counts."""
        return 1 if self.multiplicities is None else int(self.multiplicities[option])

    def _keeps(self, bits: Bits, option: int, above: int, shift: int) -> bool:
        """True with probability weight · 2^shift / above."""
        word, length = int.from_bytes(bits(_MORE // 8), "little"), _MORE
        rise = self.rate.numerator * int(self.steps[option])
        loss = 3 * ((1 << 20) + ((rise // self.rate.denominator + 1) << 15))
        if (word + 1) * above <= (above - 1) * ((1 << _MORE) - loss):
            return True
        exponent = Fraction(rise, self.rate.denominator)
        count = self.multiplicity(option)
        while True:
            precision = max(0, length + count.bit_length() + shift) + _MORE
            low, high = exp_bracket(exponent, precision)
            scale = precision - shift - length
            if (word + 1) * above << scale <= count * low:
                return True
            if word * above << scale >= count * high:
                return False
            word = word << _MORE | int.from_bytes(bits(_MORE // 8), "little")
            length += _MORE


class _Envelope:
    """Integers above all weights times 2^shift; their sum is below 2^63.

    They are worked out twice, once to add them up and once for the block of the proposal, so that
    memory does not hold them. All blocks are equally long, to one, and each costs the same.
    """

    __slots__ = ("_ends", "_lengths", "_mantissas", "_slope", "_starts", "_steps", "shift")

    def __init__(self, options: Options) -> None:
        size = len(options.steps)
        blocks = -(-size // _BLOCK)
        self._steps = options.steps
        self._slope = float(min(options.rate, Fraction(_FAR)))
        self._starts = [size * block // blocks for block in range(blocks + 1)]
        self._mantissas: Floats | None = None
        self._lengths: Ints | None = None
        largest = 0
        if options.multiplicities is not None:
            self._mantissas, self._lengths = _split(options.multiplicities)
            largest = max(int(self._exponential(block)[1].max()) for block in range(blocks))
        self.shift = _ENVELOPE_BITS - size.bit_length() - largest
        self._ends = list(accumulate(int(self._block(block).sum()) for block in range(blocks)))

    def propose(self, bits: Bits) -> tuple[int, int]:
        """An option, with a probability proportional to its integer, and that integer."""
        target = uniform_below(bits, self._ends[-1])
        block = bisect_right(self._ends, target)
        integers = self._block(block)
        within = target - (self._ends[block - 1] if block else 0)
        place = int(np.searchsorted(np.cumsum(integers), within, side="right"))
        return self._starts[block] + place, int(integers[place])

    def _block(self, block: int) -> Ints:
        """The integers of a block: 0 for options that cannot come out, else at least 1."""
        value, power = self._exponential(block)
        power += self.shift
        np.maximum(power, _NEGLIGIBLE, out=power)
        power += 1023
        power <<= 52
        integers = np.floor(value * power.view(np.float64)).astype(np.int64)
        integers += value > 0
        return integers

    def _exponential(self, block: int) -> tuple[Floats, Ints]:
        """A float and a power of two for each weight of a block; their product is just above it."""
        part = slice(self._starts[block], self._starts[block + 1])
        x = self._steps[part].astype(np.float64)
        x *= self._slope
        np.minimum(x, _FAR, out=x)
        whole = np.floor(x * _PARTS_LN2)
        rest = x - whole * _LN2_PART
        series = 1.0 - rest * (1.0 - rest * 0.5 * (1.0 - rest * _THIRD * (1.0 - rest * 0.25)))
        parts = whole.astype(np.int64)
        series *= _powers()[parts & (_PARTS - 1)]
        x *= _SLOPE
        x += _SLACK
        x += 1.0
        series *= x
        power = -(parts >> (_PARTS.bit_length() - 1))
        if self._mantissas is not None and self._lengths is not None:
            series *= self._mantissas[part]
            power += self._lengths[part]
        return series, power


def _split(counts: tuple[int, ...] | Ints) -> tuple[Floats, Ints]:
    """Floats in [1/2, 1] and powers of two, whose products are the counts to a relative 2^-52."""
    if not isinstance(counts, tuple):
        mantissas, powers = np.frexp(counts.astype(np.float64))
        return mantissas, powers.astype(np.int64)
    surplus = [max(0, count.bit_length() - 64) for count in counts]
    heads = [float(count >> less) for count, less in zip(counts, surplus, strict=True)]
    mantissas, powers = np.frexp(np.array(heads))
    return mantissas, powers + np.array(surplus, dtype=np.int64)


def _to_rate(rate: Real) -> Fraction:
    expected = f"a number of at least 0, of at most {_RATE_BITS} bits above and below the line"
    number = to_fraction("rate", rate, expected)
    if max(number.numerator.bit_length(), number.denominator.bit_length()) > _RATE_BITS:
        raise InvalidArgument("rate", expected, "a longer one")
    if number < 0:
        raise InvalidArgument("rate", expected, shown(rate))
    return number


# What follows never shows a level or a multiplicity in an error, because both may be private.


def _integers(parameter: str, values: object) -> Array:
    """Integers in an array of their own, of Python's where the caller had no array of numpy's."""
    expected = "integers in a sequence or a one-dimensional array"
    if not isinstance(values, Sequence | np.ndarray) or isinstance(values, str):
        raise InvalidArgument(parameter, expected, f"an object of type {type(values).__name__}")
    known = cast("Array", values) if isinstance(values, np.ndarray) else None
    items = cast("Sequence[object]", values)
    if known is not None and (known.ndim != 1 or known.dtype.kind not in "iuO"):
        got = f"an array of {known.dtype.name} in {known.ndim} dimensions"
        raise InvalidArgument(parameter, expected, got)
    try:
        size = len(items) if known is None else known.size
    except OverflowError:
        size = _MOST + 1
    if not 1 <= size <= _MOST:
        raise InvalidArgument(parameter, "from 1 to 2^26 integers", "more" if size else "none")
    if known is not None and known.dtype.kind != "O":
        return known.astype(np.uint64 if known.dtype.kind == "u" else np.int64)
    own = np.empty(size, dtype=object)
    for place, item in enumerate(items):
        if type(item) is not int and (isinstance(item, bool) or not isinstance(item, Integral)):
            raise InvalidArgument(parameter, expected, f"an item of type {type(item).__name__}")
        own[place] = int(item)
    return own


def _to_steps(levels: Ints | Sequence[int]) -> Ints:
    """How far each level is above the least, in an array of its own."""
    own = _integers("levels", levels)
    least = own.min()
    if int(own.max()) - int(least) > _SPAN:
        raise InvalidArgument("levels", "at most 2^62 apart", "levels further apart")
    own -= least
    return own.astype(np.int64) if own.dtype.kind == "O" else own.view(np.int64)


def _to_multiplicities(multiplicities: Ints | Sequence[int]) -> tuple[int, ...] | Ints:
    """An array of its own where all fit one, for there may be many of them."""
    own = _integers("multiplicities", multiplicities)
    if int(own.min()) < 0:
        raise InvalidArgument("multiplicities", "at least 0", "one below")
    most = int(own.max())
    if most <= _SPAN:
        return own.astype(np.int64)
    if most.bit_length() > _MULTIPLICITY_BITS:
        raise InvalidArgument("multiplicities", "below 2^(2^24)", "a larger one")
    counts: tuple[int, ...] = tuple(own.tolist())
    return counts
