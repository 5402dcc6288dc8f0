"""Public randomness for samples: a stream of uniform numbers for each attribute."""

from __future__ import annotations

import hashlib
from typing import Protocol, TypeAlias, cast

import numpy as np
import numpy.typing as npt

from dpsdk._checks import shown, to_integer
from dpsdk.errors import InvalidArgument
from dpsdk.noise import NoiseSource, SystemNoise
from dpsdk.typing import Floats, Ints

__all__ = ["RandomBytes", "Seed", "Streams", "to_key"]

_KEY = 32
_FOREIGN = b"dpsdk sample\0"

_Words: TypeAlias = npt.NDArray[np.uint64]
_Text: TypeAlias = bytes

_system = SystemNoise()


class RandomBytes(Protocol):
    """A generator of random bytes, as numpy's are."""

    def bytes(self, length: int, /) -> _Text:
        """So many random bytes."""
        ...


Seed: TypeAlias = "int | NoiseSource | RandomBytes"
"""A number, a source of noise, or a generator of numpy, from which a sample is drawn."""


def to_key(given: Seed | None) -> bytes:
    """The key of a sample: 32 bytes, fresh ones from the operating system where no seed is given.

    Equal numbers give equal keys; a source or a generator moves on, so that each sample that it
    gives is another one.
    """
    source = _system if given is None else given
    if isinstance(source, NoiseSource):
        return source.uniform_below(1 << (8 * _KEY)).to_bytes(_KEY, "little")
    expected = "an integer, a source of noise, a generator of numpy, or None"
    draw = getattr(source, "bytes", None)
    if callable(draw) and not isinstance(source, type):
        drawn = draw(_KEY)
        if not isinstance(drawn, bytes) or len(drawn) != _KEY:
            raise InvalidArgument("seed", expected, shown(given))
        return drawn
    number = to_integer("seed", cast("int", source), expected)
    return hashlib.shake_256(_FOREIGN + b"%d" % number).digest(_KEY)


class Streams:
    """Uniform numbers for the records of one sample: for each attribute a stream of its own.

    The streams are the output of SHAKE-256 on a key and the name of the attribute. So what one
    attribute draws says nothing of what another does and does not depend on which is drawn first,
    and the first records of a sample are those of any longer one with the same key. All of this is
    public post-processing: nothing private hangs on it.

    There are streams for `size` records, at least 0, from a key of 32 bytes.
    """

    __slots__ = ("_key", "size")

    size: int

    def __init__(self, size: int, key: bytes) -> None:
        if not isinstance(key, bytes) or len(key) != _KEY:
            raise InvalidArgument("key", f"{_KEY} bytes", shown(key))
        expected = "an integer of at least 0"
        self.size = to_integer("size", size, expected)
        if self.size < 0:
            raise InvalidArgument("size", expected, shown(size))
        self._key = key

    def levels(self, name: str) -> Floats:
        """For each record a uniform multiple of 2^-53 in [0, 1).

        The same ones whenever they are asked for, of shape (size,).
        """
        words = self._words(b"\0", name, 1)[:, 0] >> np.uint64(11)
        return words.astype(np.float64) * 2.0**-53

    def below(self, name: str, limits: Ints) -> Ints:
        """For each record a uniform integer from 0 up to, not including, its limit.

        Probabilities are those of a uniform integer of 128 bits times the limit, rounded down:
        they differ from equal ones by less than 2^-64 of their size.

        Limits are from 1 to 2^63 - 1, of shape (size,) or one for all. The numbers of an attribute
        are independent of its `levels`.
        """
        if self.size and int(np.min(limits)) < 1:
            raise InvalidArgument("limits", "integers of at least 1", shown(int(np.min(limits))))
        words = self._words(b"\1", name, 2)
        top, rest = words[:, 0], words[:, 1]
        factors = np.broadcast_to(limits, (self.size,)).astype(np.uint64)
        low = top * factors
        carried = low + _high(rest, factors) < low
        return (_high(top, factors) + carried).astype(np.int64)

    def _words(self, purpose: bytes, name: str, each: int) -> _Words:
        stream = hashlib.shake_256(self._key + purpose + name.encode("utf-8", "surrogatepass"))
        drawn = stream.digest(8 * each * self.size)
        return np.frombuffer(drawn, dtype="<u8").astype(np.uint64).reshape(self.size, each)


def _high(one: _Words, other: _Words) -> _Words:
    """The upper 64 bits of products of 64-bit numbers."""
    half, mask = np.uint64(32), np.uint64(2**32 - 1)
    a, b, c, d = one >> half, one & mask, other >> half, other & mask
    middle = (b * d >> half) + (a * d & mask) + (b * c & mask)
    result: _Words = a * c + (a * d >> half) + (b * c >> half) + (middle >> half)
    return result
