"""The exact law of a program's outcome, by running it once for every path of its draws."""

from __future__ import annotations

import itertools
import math
from collections.abc import Hashable, Sequence
from fractions import Fraction
from functools import lru_cache
from typing import NoReturn

import numpy as np

from dpsdk._checks import to_count
from dpsdk._records import frozen
from dpsdk.data import PrivateData
from dpsdk.errors import DpsdkError
from dpsdk.noise import DiscreteGaussian, EuclideanLaplace, Geometric, NoiseLaw, NoiseSource
from dpsdk.noise.bits import exp_bracket
from dpsdk.noise.choice import Options
from dpsdk.noise.laws import check_law
from dpsdk.noise.sampler import rounded_up_root
from dpsdk.testing.audit.programs import Program
from dpsdk.testing.noise import seeded
from dpsdk.typing import Bools, Ints, Real

__all__ = ["BranchingNoise", "Law", "TooManyPaths", "enumerate_law"]

TAIL = 1e-13
"""The mass that the enumeration of one draw leaves out, at the most."""

PATH_LIMIT = 300_000

_LEAST_CHANCE = 1e-300
_OPTION_BITS = 1200
"""Enough for forty digits of an option's chance, if that is not below 1e-300."""


class TooManyPaths(DpsdkError):
    """The program draws too much to be enumerated: shrink the table or the query, or `sample`."""


@frozen
class Law:
    """The law of an outcome, with what the enumeration left out.

    `masses` bounds each outcome's probability from below; `lost` is the mass of the paths that
    were not taken, which may belong to any outcome. `paths` counts those taken.
    """

    masses: dict[Hashable, float]
    lost: float
    paths: int


@frozen
class _Choice:
    """The outcomes of one draw, likeliest first, and the mass that they leave out."""

    values: tuple[int, ...]
    masses: tuple[float, ...]
    lost: float


class BranchingNoise(NoiseSource):
    """A source that takes one path through the tree of all draws, and can move to the next.

    Every draw of a law is a branching over the values that matter: all but a tail of mass at most
    `tail`, which is carried along as lost. Draws that are coins or uniform branch exactly.
    """

    __slots__ = ("_depth", "_path", "_tail", "lost")

    def __init__(self, tail: float = TAIL) -> None:
        self._tail = tail
        self.lost: float = 0.0
        """The mass of all tails that were met so far."""
        self._path: list[tuple[_Choice, int]] = []
        self._depth = 0

    @property
    def private(self) -> bool:
        """Always false."""
        return False

    def start(self) -> None:
        """Walk the current path from its root."""
        self._depth = 0

    def advance(self) -> bool:
        """Move to the next path; False if all were taken."""
        del self._path[self._depth :]
        while self._path:
            choice, taken = self._path.pop()
            if taken + 1 < len(choice.values):
                self._path.append((choice, taken + 1))
                return True
        return False

    def mass(self) -> float:
        """The probability of the current path."""
        return math.prod(choice.masses[taken] for choice, taken in self._path[: self._depth])

    def public_generator(self) -> np.random.Generator:
        """The same on every path, so that what is public does not branch."""
        return seeded(0).public_generator()

    def draw(self, law: NoiseLaw, size: int) -> Ints:
        """One value an entry, along the current path."""
        choice = _support(law, self._tail)
        return np.array([self._take(choice) for _ in range(size)], dtype=np.int64)

    def vector(self, law: EuclideanLaplace) -> list[int]:
        """Each vector on its own path."""
        vectors, chances = _vectors(law, self._tail)
        return list(vectors[self._take(chances)])

    def reaches(self, law: NoiseLaw, levels: Ints) -> Bools:
        """Both sides of each comparison, each on its own path, with exact probabilities."""
        check_law(law)
        chances = [_reaching(law, int(level)) for level in levels]
        return np.array([self.choose((1 - chance, chance)) == 1 for chance in chances], dtype=bool)

    def uniform_below(self, n: int) -> int:
        """Each of 0 to n - 1 on its own path."""
        return self._take(_uniform(to_count("n", n)))

    def bernoulli_exp(self, x: Fraction) -> bool:
        """Both sides of a coin, each on its own path."""
        heads = math.exp(-x)
        return bool(self._take(_Choice((1, 0), (heads, -math.expm1(-x)), 0.0)))

    def pick(
        self,
        levels: Ints | Sequence[int],
        rate: Real,
        multiplicities: Ints | Sequence[int] | None = None,
    ) -> int:
        """Each option on its own path, with its exact probability.

        Options too unlikely for a float are among what is lost.
        """
        options = Options.of(levels, rate, multiplicities)
        if len(options.steps) > PATH_LIMIT:
            message = f"one choice among {len(options.steps):,}"
            raise TooManyPaths(message)
        steps = tuple(options.steps.tolist())
        many = options.multiplicities
        counts = None if many is None else tuple(map(int, many))
        return self._take(_options(steps, options.rate, counts, self._tail))

    def choose(self, masses: Sequence[float]) -> int:
        """One of several outcomes with the given probabilities, each on its own path."""
        possible = [number for number, mass in enumerate(masses) if mass > 0]
        return self._take(_Choice(tuple(possible), tuple(masses[i] for i in possible), 0.0))

    def _take(self, choice: _Choice) -> int:
        if self._depth == len(self._path):
            if choice.lost:
                self.lost += self.mass() * choice.lost
            self._path.append((choice, 0))
        choice, taken = self._path[self._depth]
        self._depth += 1
        return choice.values[taken]

    def _bits(self, count: int) -> NoReturn:
        message = f"a request for {count} raw bytes, which has no tree to enumerate"
        raise TooManyPaths(message)


@lru_cache(256)
def _support(law: NoiseLaw, tail: float) -> _Choice:
    check_law(law)
    reach = law.radius(tail)
    if reach > PATH_LIMIT:
        message = f"one draw of {law} has more than {PATH_LIMIT:,} values"
        raise TooManyPaths(message)
    values = range(0 if isinstance(law, Geometric) else -reach, reach + 1)
    ordered = tuple(sorted(values, key=abs))
    weights = [_weight(law, value) for value in ordered]
    outside = law.tail(reach)
    total = math.fsum(weights)
    return _Choice(ordered, tuple((1 - outside) * weight / total for weight in weights), outside)


@lru_cache(64)
def _vectors(law: EuclideanLaplace, tail: float) -> tuple[tuple[tuple[int, ...], ...], _Choice]:
    """The vectors whose length is not in the tail, and the choice of one by its number."""
    reach = law.radius(tail)
    if (2 * reach + 1) ** law.entries > PATH_LIMIT:
        message = f"one draw of {law} has more than {PATH_LIMIT:,} values"
        raise TooManyPaths(message)
    values = range(-reach, reach + 1)
    lengths = {
        z: rounded_up_root(sum([each * each for each in z]))
        for z in itertools.product(values, repeat=law.entries)
    }
    near = [z for z, length in lengths.items() if length <= reach]
    vectors = tuple(sorted(near, key=lengths.__getitem__))
    scale, outside = float(law.scale), law.tail(reach)
    weights = [math.exp(-lengths[z] / scale) if scale else float(not any(z)) for z in vectors]
    total = math.fsum(weights)
    masses = tuple([(1 - outside) * weight / total for weight in weights])
    return vectors, _Choice(tuple(range(len(vectors))), masses, outside)


@lru_cache(64)
def _options(
    steps: tuple[int, ...], rate: Fraction, multiplicities: tuple[int, ...] | None, tail: float
) -> _Choice:
    counts = multiplicities or (1,) * len(steps)
    precision = _OPTION_BITS + max(counts).bit_length()
    exponentials = {step: exp_bracket(rate * step, precision)[0] for step in set(steps)}
    weights = [count * exponentials[step] for step, count in zip(steps, counts, strict=True)]
    total = sum(weights)
    chances = [float(Fraction(weight, total)) for weight in weights]
    likely = tuple(i for i, chance in enumerate(chances) if chance >= _LEAST_CHANCE)
    unlikely = any(count and chances[i] < _LEAST_CHANCE for i, count in enumerate(counts))
    # What is left out is far less than the tail, which floats can tell from nothing.
    lost = tail if unlikely else 0.0
    return _Choice(likely, tuple((1 - lost) * chances[i] for i in likely), lost)


@lru_cache(64)
def _uniform(n: int) -> _Choice:
    if n > PATH_LIMIT:
        message = f"one choice among {n:,}"
        raise TooManyPaths(message)
    return _Choice(tuple(range(n)), (1.0 / n,) * n, 0.0)


def _reaching(law: NoiseLaw, level: int) -> float:
    """The probability of a draw at or above a level."""
    if isinstance(law, Geometric):
        return law.tail(level - 1) if level > 0 else 1.0
    return law.tail(level - 1) / 2 if level > 0 else 1.0 - law.tail(-level) / 2


def _weight(law: NoiseLaw, value: int) -> float:
    if isinstance(law, DiscreteGaussian):
        variance = float(law.variance)
        return math.exp(-value * value / (2 * variance)) if variance else float(value == 0)
    scale = float(law.parameter)
    return math.exp(-abs(value) / scale) if scale else float(value == 0)


def enumerate_law(
    program: Program, data: PrivateData, *, tail: float = TAIL, limit: int = PATH_LIMIT
) -> Law:
    """The law of a program's outcome on one table.

    An exception that the program raises is an outcome too: its type and arguments. Probabilities
    are floats, off by a relative 1e-13 or so.

    Raises
    ------
    TooManyPaths
        If there are more than `limit` paths.
    """
    noise = BranchingNoise(tail)
    masses: dict[Hashable, list[float]] = {}
    paths = 0
    more = True
    while more:
        paths += 1
        if paths > limit:
            message = f"more than {limit:,} paths"
            raise TooManyPaths(message)
        noise.start()
        try:
            outcome = program(data, noise)
        except TooManyPaths:
            raise
        except Exception as error:  # noqa: BLE001  # an adversary sees it
            outcome = (type(error).__name__, str(error))
        masses.setdefault(outcome, []).append(noise.mass())
        more = noise.advance()
    exact = {outcome: math.fsum(pieces) for outcome, pieces in masses.items()}
    # Tails may be too small to be seen in the sum of all the rest.
    return Law(exact, max(noise.lost, 1.0 - math.fsum(exact.values())), paths)
