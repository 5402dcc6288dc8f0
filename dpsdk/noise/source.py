"""Sources of noise: the operating system's generator, and nothing that could be repeated."""

from __future__ import annotations

import os
import time
from abc import ABC, abstractmethod
from collections.abc import Sequence
from fractions import Fraction
from typing import NoReturn, TypeAlias

import numpy as np

from dpsdk._checks import shown, to_count, to_fraction, to_within
from dpsdk._records import define, field
from dpsdk.errors import InvalidArgument, Redacted
from dpsdk.noise import bits as ideal
from dpsdk.noise.bits import Bits
from dpsdk.noise.choice import Options
from dpsdk.noise.laws import KNOWN_LAWS, EuclideanLaplace, NoiseLaw, check_law
from dpsdk.noise.sampler import TABLED, Exponentials, euclidean, sample
from dpsdk.typing import Bools, Ints, Real

__all__ = ["NoiseSource", "Pools", "PublicGenerator", "SystemNoise", "to_size"]

_POOLED = 128
_UNPOOLED = 0
"""Stands for all larger requests, whose draws are only counted."""

_GROWTH = 8
_LARGEST = 4096
_LARGEST_UNTABLED = 1024
"""Few enough that a law has been drawn from thousands of times before it gets a table."""

_KEPT = 64
_NONE = np.empty(0, dtype=np.int64)


@define(eq=False)
class _Pool:
    """Draws of one law, to be given out in parts of one size, each part once."""

    drawn: Ints = field(repr=False)
    parts: list[int]
    """The places in `drawn` of the parts that were not given out yet."""
    born: float
    ahead: int
    """How many parts were made at once."""
    made: int
    """Draws of this law and in this size, those of earlier pools included."""


class Pools:
    """A pool for each law that is asked for again, below 128 draws at a time.

    Requests of up to 1, 2, 4, ..., 128 draws have one each. The first is drawn as it comes. Each
    time that a pool runs out it grows eightfold, up to 1,024 draws, or 4,096 once the law has a
    table; where 64 are kept and another begins, all others are dropped; older ones than `lifetime`
    seconds are dropped, too. Needs no lock: a part is given out by one operation on a list, which
    no other thread, interrupt or finaliser can divide, and a new pool replaces another in one
    assignment.
    """

    __slots__ = ("_bits", "_born", "_exponentials", "_lifetime", "_pools")

    def __init__(self, bits: Bits, lifetime: float) -> None:
        self._bits = bits
        self._lifetime = lifetime
        self._exponentials = Exponentials(bits)
        self._born = 0.0
        self._pools: dict[tuple[NoiseLaw, int], _Pool] = {}

    def draw(self, law: NoiseLaw, size: int, now: float) -> Ints:
        """`size` independent draws of a law, at the time `now`."""
        part = 1 << (size - 1).bit_length() if size < _POOLED else _UNPOOLED
        pool = self._pools.get((law, part))
        if pool is not None and now - pool.born <= self._lifetime:
            try:
                start = pool.parts.pop()
            except IndexError:
                pass
            else:
                # A view would keep the draws still to come within the caller's reach.
                return pool.drawn[start : start + size].copy()
        made, ahead = 0, 1
        if pool is not None:
            made = pool.made
            if part != _UNPOOLED and now - pool.born <= self._lifetime:
                room = _LARGEST if made >= TABLED else _LARGEST_UNTABLED
                ahead = min(_GROWTH * pool.ahead, room // part)
        count = size if ahead == 1 else ahead * part
        drawn = sample(self._source(now), law, count, before=made)
        parts = [place * part for place in range(1, ahead)]
        kept = _Pool(drawn if parts else _NONE, parts, now, ahead, made + count)
        if pool is None and len(self._pools) >= _KEPT:
            self._pools = {(law, part): kept}
        else:
            self._pools[law, part] = kept
        return drawn[:size].copy() if parts else drawn

    def _source(self, now: float) -> Exponentials:
        if now - self._born > self._lifetime:
            self._exponentials = Exponentials(self._bits)
            self._born = now
        return self._exponentials


# A text, since naming the class would load its module with the package.
PublicGenerator: TypeAlias = "np.random.Generator"
"""A generator of public randomness, which hides nothing."""

_LIFETIME = 5.0


class NoiseSource(ABC):
    """A stream of random bits, and exact draws made of them.

    Every draw has exactly the probability that its law says, given that the bits are ideal. A
    subclass supplies the bits.
    """

    __slots__ = ("__weakref__",)

    @property
    @abstractmethod
    def private(self) -> bool:
        """True if the noise hides anything. True only of the operating system's generator."""

    @abstractmethod
    def _bits(self, count: int) -> bytes:
        """`count` bytes never given out before."""

    def draw(self, law: NoiseLaw, size: int) -> Ints:
        """Independent draws of a law, an array of `size` integers in units of the law.

        A draw beyond ±(2^62 - 1), of probability below 2^-183, is set to that bound. Adding it to a
        private number needs clamping of the sum, further in than that number reaches from the
        bound: so clamped, the sum is what the ideal one would be
        (docs/explanation/proofs/measure.md).

        Raises
        ------
        InvalidArgument
            For a size below 0, or a law that is not one of the three classes themselves.
        """
        check_law(law)
        return sample(Exponentials(self._bits), law, to_size(size))

    def vector(self, law: EuclideanLaplace) -> list[int]:
        """One vector of such a law: integers without a bound.

        How long it takes depends on how many proposals were refused, and not on what is kept.
        Raises `InvalidArgument` for a law of another class.
        """
        if type(law) is not EuclideanLaplace:
            raise InvalidArgument("law", "a EuclideanLaplace law", shown(law))
        return euclidean(Exponentials(self._bits), law.scale, law.entries)

    def reaches(self, law: NoiseLaw, levels: Ints) -> Bools:
        """True if independent draws of a law are at or above their levels, one for each draw.

        Code that needs no more of a draw than this comparison should ask this, so that an exact
        enumeration has two branches to follow instead of one for every value.
        """
        return self.draw(law, len(levels)) >= levels

    def uniform_below(self, n: int) -> int:
        """A uniform integer in 0 .. n-1, for any n >= 1 however large, else `InvalidArgument`."""
        number = to_count("n", n, bits=None)
        return ideal.uniform_below(self._bits, number)

    def bernoulli_exp(self, x: Fraction) -> bool:
        """True with probability exp(-x), exactly, for x of at least 0, else `InvalidArgument`.

        Its running time depends on the outcome.
        """
        exponent = to_fraction("x", x)
        if exponent < 0:
            raise InvalidArgument("x", "a number of at least 0", shown(x))
        return ideal.bernoulli_exp(self._bits, exponent)

    def bernoulli_exp_array(self, numerators: Ints, denominator: int) -> Bools:
        """Independent coins, the i-th true with probability exp(-numerators[i] / denominator).

        Numerators are integers of at least 0, in one dimension; the denominator is from 1 to
        2^1000. Raises `InvalidArgument` for others.
        """
        expected = "an integer from 1 to 2^1000"
        below = to_within("denominator", denominator, 1, 1 << 1000, expected)
        above = np.asarray(numerators, dtype=np.int64)
        if above.ndim != 1 or (above.size and above.min() < 0):
            wanted = "a one-dimensional array of integers of at least 0"
            raise InvalidArgument("numerators", wanted, "another array")
        return ideal.bernoulli_exp_array(self._bits, above, below)

    def pick(
        self,
        levels: Ints | Sequence[int],
        rate: Real,
        multiplicities: Ints | Sequence[int] | None = None,
    ) -> int:
        """One of several weighted options, i with probability proportional to exp(-rate·levels[i]).

        Where there are multiplicities, option i stands for so many options of one level, and its
        probability is proportional to multiplicities[i]·exp(-rate·levels[i]). This is the
        exponential mechanism of McSherry and Talwar (2007) where the levels are losses that a
        person changes by at most D each, and the rate is epsilon / (2 D). Nothing is charged here.

        The same is done for every option, whatever the levels; the time still depends on how
        many options there are, on how long the multiplicities are, and, a little, on what comes
        out (docs/explanation/proofs/noise.md, "Weighted choices"). Whoever keeps these private, or
        whether any multiplicity is above zero, must see to it that neither time nor error is
        observed.

        Parameters
        ----------
        levels
            From 1 to 2^26 integers, at most 2^62 apart, in a sequence or an array.
        rate
            At least 0, of at most 1,024 bits above and below the line; text and floats are
            decimals.
        multiplicities
            One for each level, at least 0, not all 0, of at most 2^24 bits; 1 each by default.

        Returns
        -------
        int
            The position of the option in `levels`.

        Raises
        ------
        InvalidArgument
            If an argument is not as described. No level or multiplicity is shown.
        """
        return Options.of(levels, rate, multiplicities).draw(self._bits)

    def public_generator(self) -> PublicGenerator:
        """A new generator for what is public: to post-process, to sample, to break ties.

        It has nothing to do with the noise: it starts from entropy of its own, so that drawing from
        it neither shifts the noise nor tells anything of it. Its draws are neither exact nor
        secret, and must hide nothing.
        """
        return np.random.default_rng(int.from_bytes(os.urandom(32), "little"))

    def __reduce_ex__(self, protocol: object) -> NoReturn:
        raise Redacted("copying or pickling a source of noise")


def to_size(size: int) -> int:
    """A number of draws, at least 0."""
    return to_within("size", size, 0, 1 << 1000, "an integer of at least 0")


class SystemNoise(NoiseSource):
    """Noise from the operating system's generator: the only source that is private.

    Takes no seed and keeps no generator state. Each batch reads fresh bytes from `os.urandom`.
    The first draws of a law take a few microseconds each and need no preparation. Where a law is
    asked for again, small draws come from a pool made ahead, so that one costs about a microsecond
    and the time it takes says nothing of its value; a pool holds 4,096 draws of one law at most, is
    dropped after five seconds, and belongs to one process: a forked child starts without any. Each
    value goes out once, whichever threads ask. Copying and pickling are refused.

    The time of a first draw may depend on the noise: on the number of proposals that were refused,
    which is independent of what is kept, and on the length of its numbers, by nanoseconds. It does
    not depend on data, which no draw sees.
    """

    __slots__ = ("_forks", "_pid", "_pools")

    def __init__(self) -> None:
        self._start_over()

    @property
    def private(self) -> bool:
        """Always true."""
        return True

    def _bits(self, count: int) -> bytes:
        return os.urandom(count)

    def draw(self, law: NoiseLaw, size: int) -> Ints:
        """Independent draws of a law; see NoiseSource."""
        if self._pid != os.getpid() or self._forks != _forks:
            self._start_over()
        if type(law) not in KNOWN_LAWS:
            check_law(law)
        if type(size) is not int or size < 0:
            size = to_size(size)
        return self._pools.draw(law, size, time.monotonic())

    def _start_over(self) -> None:
        self._pools = Pools(os.urandom, _LIFETIME)
        self._pid = os.getpid()
        self._forks = _forks


_forks = 0
"""The number of forks that Python saw between the first process and this one."""


def _count_fork() -> None:
    global _forks
    _forks += 1


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_count_fork)
