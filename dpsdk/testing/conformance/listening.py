"""The visible effects of a run: draws, charges, events, lines of logs, printed text."""

from __future__ import annotations

import hashlib
import io
import logging
import warnings
from collections.abc import Callable, Generator, Hashable, Sequence
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from fractions import Fraction

import numpy as np
from typing_extensions import override

from dpsdk.noise import NoiseLaw, NoiseSource
from dpsdk.testing.logs import logged
from dpsdk.testing.noise import seeded
from dpsdk.typing import Bools, Ints, Real

__all__ = ["Heard", "overheard"]


class Heard(NoiseSource):
    """Seeded noise that calls somebody before each draw, with a name for it."""

    __slots__ = ("_block", "_seed", "heard")

    def __init__(self, seed: int, heard: Callable[[str], None]) -> None:
        self._seed = seed
        self._block = 0
        self.heard: Callable[[str], None] = heard

    @property
    @override
    def private(self) -> bool:
        """Always false."""
        return False

    @override
    def _bits(self, count: int) -> bytes:
        self._block += 1
        return hashlib.shake_256(b"%d\0%d" % (self._seed, self._block)).digest(count)

    @override
    def draw(self, law: NoiseLaw, size: int) -> Ints:
        """Tell, and draw."""
        self.heard(f"{size} of {law}")
        return super().draw(law, size)

    @override
    def uniform_below(self, n: int) -> int:
        """Tell, and draw."""
        self.heard(f"uniform below {n}")
        return super().uniform_below(n)

    @override
    def bernoulli_exp(self, x: Fraction) -> bool:
        """Tell, and toss."""
        self.heard("a coin")
        return super().bernoulli_exp(x)

    @override
    def bernoulli_exp_array(self, numerators: Ints, denominator: int) -> Bools:
        """Tell, and toss."""
        self.heard("coins")
        return super().bernoulli_exp_array(numerators, denominator)

    @override
    def pick(
        self,
        levels: Ints | Sequence[int],
        rate: Real,
        multiplicities: Sequence[int] | None = None,
    ) -> int:
        """Tell, and choose."""
        self.heard(f"one of {len(levels)}")
        return super().pick(levels, rate, multiplicities)

    @override
    def public_generator(self) -> np.random.Generator:
        """The same for the same seed."""
        return seeded(self._seed).public_generator()


@contextmanager
def overheard() -> Generator[list[tuple[Hashable, ...]]]:
    """A list of what is logged, printed and warned of meanwhile; complete at the end."""
    told: list[tuple[Hashable, ...]] = []
    out, warned = io.StringIO(), list[warnings.WarningMessage]()

    def note(line: logging.LogRecord) -> None:
        told.append(("log", line.name, line.levelno, line.getMessage()))

    try:
        with (
            logged(note),
            warnings.catch_warnings(record=True) as caught,
            redirect_stdout(out),
            redirect_stderr(out),
        ):
            warnings.simplefilter("always")
            warned = caught
            yield told
    finally:
        if out.getvalue():
            told.append(("printed", out.getvalue()))
        told += [("warned", str(one.message)) for one in warned]
