"""The same noise on a neighbour: what a program draws, charges, logs and raises must not change."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from fractions import Fraction
from itertools import zip_longest
from typing import NoReturn

import numpy as np

from dpsdk._records import field, frozen
from dpsdk.data import PrivateData
from dpsdk.noise import EuclideanLaplace, NoiseLaw, NoiseSource
from dpsdk.noise.choice import Options
from dpsdk.observe import Event
from dpsdk.testing.audit.programs import Program, WatchingNoise
from dpsdk.testing.logs import overheard
from dpsdk.testing.noise import seeded
from dpsdk.typing import Ints, Real

__all__ = ["Difference", "Trace", "parted", "record", "replay"]


@frozen
class Trace:
    """The events of one run.

    `events` has, in order, each draw as ("draw", law, size), each coin and choice, each
    event of a session, log line, print and warning as text, and how the run ended; `noise` has the
    values that it drew.
    """

    events: tuple[tuple[Hashable, ...], ...]
    noise: tuple[tuple[int, ...], ...] = field(repr=False)
    outcome: Hashable


@frozen
class Difference:
    """The first difference of two traces: the number of the event, and the event of each run."""

    place: int
    first: tuple[Hashable, ...]
    second: tuple[Hashable, ...]


DRAWS = ("draw", "pick", "coin", "uniform")
"""The first words of those events that are draws."""


class RecordingNoise(WatchingNoise):
    """Tells `note` of each draw; gives out what a source draws, or what a script has of it."""

    __slots__ = ("_note", "_script", "_source", "noise")

    def __init__(
        self,
        source: NoiseSource,
        note: Callable[[tuple[Hashable, ...]], object],
        script: tuple[tuple[int, ...], ...] = (),
    ) -> None:
        self._source = source
        self._note = note
        self._script = script
        self.noise: list[tuple[int, ...]] = []

    @property
    def private(self) -> bool:
        """Always false."""
        return False

    def draw(self, law: NoiseLaw, size: int) -> Ints:
        """Draw, or repeat what was drawn at this place."""
        self._note(("draw", law, size))
        fresh = self._source.draw(law, size)
        return np.array(self._next(tuple(map(int, fresh))), dtype=np.int64)

    def vector(self, law: EuclideanLaplace) -> list[int]:
        """Draw a vector, or repeat the one drawn at this place."""
        self._note(("draw", law, law.entries))
        return list(self._next(tuple(self._source.vector(law))))

    def uniform_below(self, n: int) -> int:
        """Choose, or repeat the choice made at this place."""
        self._note(("uniform", n))
        return self._next((self._source.uniform_below(n),))[0]

    def bernoulli_exp(self, x: Fraction) -> bool:
        """Toss, or repeat the toss made at this place."""
        self._note(("coin", x))
        return bool(self._next((int(self._source.bernoulli_exp(x)),))[0])

    def pick(
        self,
        levels: Ints | Sequence[int],
        rate: Real,
        multiplicities: Ints | Sequence[int] | None = None,
    ) -> int:
        """Choose, or repeat the choice made at this place, if it can be made here too."""
        options = Options.of(levels, rate, multiplicities)
        self._note(("pick", len(options.steps), options.rate))
        fresh = self._source.pick(levels, rate, multiplicities)
        (chosen,) = self._next((fresh,))
        if 0 <= chosen < len(options.steps) and options.multiplicity(chosen):
            return chosen
        self.noise[-1] = (fresh,)
        return fresh

    def public_generator(self) -> np.random.Generator:
        """The same in every run of a seed."""
        return self._source.public_generator()

    def observe(self, event: Event, /) -> None:
        """Write down what the session says."""
        self._note(("session", str(event)))

    def _next(self, fresh: tuple[int, ...]) -> tuple[int, ...]:
        place = len(self.noise)
        scripted = place < len(self._script) and len(self._script[place]) == len(fresh)
        values = self._script[place] if scripted else fresh
        self.noise.append(values)
        return values

    def _bits(self, count: int) -> NoReturn:
        message = f"a request for {count} raw bytes cannot be replayed"
        raise NotImplementedError(message)


def record(
    program: Program, data: PrivateData, *, seed: int = 0, script: tuple[tuple[int, ...], ...] = ()
) -> Trace:
    """Run a program and write down what it does; with a `script`, on the noise of another run."""
    events: list[tuple[Hashable, ...]] = []
    noise = RecordingNoise(seeded(seed), events.append, script)
    outcome: Hashable
    with overheard(events.append):
        try:
            outcome = program(data, noise)
            events.append(("answered",))
        except Exception as error:  # noqa: BLE001  # how it fails is compared as well
            outcome = (type(error).__name__, str(error))
            events.append(("raised", *outcome))
    return Trace(tuple(events), tuple(noise.noise), outcome)


def replay(
    program: Program, data: PrivateData, neighbour: PrivateData, *, seed: int = 0
) -> tuple[Difference | None, Trace, Trace]:
    """Run a program on a table, then with the same noise on a neighbour, and compare.

    Returns the first event in which they differ, None where they do not, and both traces. Their
    outcomes may differ, by what the sensitivity allows: that is for the caller to judge.
    """
    first = record(program, data, seed=seed)
    second = record(program, neighbour, seed=seed, script=first.noise)
    return parted(first, second), first, second


def parted(first: Trace, second: Trace) -> Difference | None:
    """The first event in which two runs differ; None where they do not."""
    end: tuple[Hashable, ...] = ("nothing more",)
    for place, (one, other) in enumerate(zip_longest(first.events, second.events, fillvalue=end)):
        if one != other:
            return Difference(place, one, other)
    return None
