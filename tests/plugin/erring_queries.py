"""Queries that err: about what they ask, what they look at, and what they say."""

import itertools
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from attrs import field, frozen
from typing_extensions import override

from dpsdk import Boolean, Budget, Domain, PrivateData, Session, wire
from dpsdk.errors import QueryError
from dpsdk.forms import Facts, Kronecker, LinearForm, Weights
from dpsdk.mechanisms import Laplace
from dpsdk.queries import Count, CountingQuery, LinearQuery
from dpsdk.testing import seeded
from dpsdk.typing import Floats
from dpsdk.wire import Kind

_SLOPE = (0.0, 0.5, 1.0)

OTHER = (0.5, 0.25, 1.0)
"""Weights that are none that a query has by itself."""


def _cells(domain: Domain) -> int:
    size = domain["level"].size
    if not len(_SLOPE) <= size <= 2**10:
        raise QueryError("", f"an attribute of {size} levels is none that has a slope")
    return size


def _shape(domain: Domain, weights: Floats) -> LinearForm:
    row = np.zeros((1, _cells(domain)))
    row[0, : len(weights)] = weights
    return LinearForm(domain, [Kronecker.of(domain, {"level": Weights(row)})])


@frozen
class Slope(CountingQuery[float]):
    """Half of the rows at level 1, and all at level 2: a sound query, as the others are not."""

    normalized: bool = False
    weights: tuple[float, ...] = _SLOPE

    @override
    def lower(self, domain: Domain, /) -> LinearForm:
        return _shape(domain, np.array(self.weights))

    @override
    def lift(self, raw: Floats, facts: Facts, /) -> float:
        return float(raw[0]) * self.scale(facts)


@frozen
class Closing(Slope):
    """Closes over a session, and asks that when it makes its answer."""

    more: Callable[[Floats], Floats] = field(default=lambda raw: raw, eq=False)

    @override
    def lift(self, raw: Floats, facts: Facts, /) -> float:
        return float(self.more(raw)[0])


def closing() -> Closing:
    """One with a session on a table of its own."""
    data = PrivateData.from_columns({"a": [0]}, Domain(Boolean("a")))
    session = Session(data, Budget(1), noise=seeded(1))
    return Closing(more=lambda raw: raw + session.answer(Count(), using=Laplace("0.001")))


@frozen
class Wavering(Slope):
    """Asks for something else each time."""

    turns: Iterator[int] = field(factory=itertools.count, eq=False)

    @override
    def lower(self, domain: Domain, /) -> LinearForm:
        return _shape(domain, np.eye(3)[next(self.turns) % 3])


@frozen
class Loose(Slope):
    """Holds the array that it was given, whoever writes into that."""

    array: Floats = field(factory=lambda: np.array(_SLOPE), eq=False)

    @override
    def lower(self, domain: Domain, /) -> LinearForm:
        return _shape(domain, self.array.copy())


@frozen
class Clinging(LinearQuery[Floats]):
    """Gives out the very numbers that it was given to lift."""

    @override
    def lower(self, domain: Domain, /) -> LinearForm:
        return _shape(domain, np.array(_SLOPE))

    @override
    def lift(self, raw: Floats, facts: Facts, /) -> Floats:
        return raw


@frozen
class Scrawling(Slope):
    """Rounds the raw numbers where they stand, on which the bounds of the release rest."""

    @override
    def lift(self, raw: Floats, facts: Facts, /) -> float:
        if raw.flags.writeable:
            raw += 5
        return float(raw[0])


@frozen
class Changeling(CountingQuery["float | int"]):
    """Answers by a float or by an integer, as the numbers have it."""

    normalized: bool = False

    @override
    def lower(self, domain: Domain, /) -> LinearForm:
        return _shape(domain, np.array(_SLOPE))

    @override
    def lift(self, raw: Floats, facts: Facts, /) -> float | int:
        return int(raw[0]) if float(raw[0]).is_integer() else float(raw[0])


@frozen
class Squared(Slope):
    """Squares its number, and says of its error what is true of the number itself."""

    @override
    def numbers(self, raw: Floats, facts: Facts, /) -> Floats:
        return raw**2

    @override
    def lift(self, raw: Floats, facts: Facts, /) -> float:
        return float(raw[0] ** 2)


@frozen
class Rough(Slope):
    """Fails with errors of its own, before it is asked and where nothing is known."""

    @override
    def check(self, facts: Facts, /) -> None:
        if "level" not in facts.domain.names:
            message = "no level"
            raise ValueError(message)
        super().check(facts)


@frozen(repr=False)
class Loud(Slope):
    """Calls itself by a text that wipes the terminal of whoever reads the history."""

    @override
    def __repr__(self) -> str:
        return "Slope()\x1b[2J\nBudget: none spent"


@frozen
class Coarse(Slope):
    """Is written down without its weights."""


@frozen
class Fine(Slope):
    """Is written down with its weights."""


def fine() -> Fine:
    """One with weights of its own."""
    return Fine(weights=OTHER)


def _fine(normalized: bool, weights: list[float]) -> Fine:
    return Fine(normalized, tuple(weights))


KINDS: tuple[Kind[Any], ...] = (
    Kind(Coarse, "erring:coarse", {"normalized": wire.FLAG}),
    Kind(
        Fine,
        "erring:fine",
        {"normalized": wire.FLAG, "weights": wire.ListOf(wire.FLOAT)},
        _fine,
    ),
)
