"""Programs to audit: functions of a private table and a source of noise."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Hashable, Mapping
from typing import TypeAlias, TypeVar

from dpsdk.accounting import BasicComposition, Budget, Composition, ZCDPComposition
from dpsdk.accounting.filters.any_of import AnyOf
from dpsdk.data import PrivateData
from dpsdk.forms import Form
from dpsdk.mechanisms import Mechanism
from dpsdk.noise import NoiseSource
from dpsdk.observe import Event
from dpsdk.queries import Query
from dpsdk.session import Session

__all__ = ["Program", "WatchingNoise", "program"]

Program: TypeAlias = Callable[[PrivateData, NoiseSource], Hashable]
"""A run of something private. It must take all randomness from the source that it is given."""


class WatchingNoise(NoiseSource):
    """A source that also wants to hear of what a session charges with it."""

    __slots__ = ()

    @abstractmethod
    def observe(self, event: Event, /) -> None:
        """Take note of a session's event."""


A = TypeVar("A")
F = TypeVar("F", bound=Form)

AMPLE = Budget(epsilon=10**6, delta="0.1")
"""Whatever a mechanism asks for."""

ANY: Composition = AnyOf((BasicComposition(), ZCDPComposition()))
"""Takes every guarantee of the package."""


def program(
    mechanism: Mechanism[F],
    *queries: Query[A, F],
    outcome: Callable[[A], Hashable] = repr,
    composition: Composition = ANY,
    trust: Mapping[str, str] | None = None,
) -> Program:
    """The program that opens a mechanism and asks it queries in turn.

    Parameters
    ----------
    mechanism
        What answers.
    queries
        What is asked, in order, over one channel.
    outcome
        What of an answer an adversary sees, as something hashable; by default its text.
    composition
        By what charges add up; by default by one that takes those of every built-in mechanism.
        A simpler one is quicker, since a session is opened for every path.
    trust
        The classes of requests of other authors that it may ask for; see `Session`.
    """

    def run(data: PrivateData, noise: NoiseSource) -> Hashable:
        observer = noise.observe if isinstance(noise, WatchingNoise) else None
        session = Session(
            data, AMPLE, composition=composition, noise=noise, observer=observer, trust=trust
        )
        with session.open(mechanism) as channel:
            return tuple(outcome(channel.answer(query)) for query in queries)

    return run
