"""What comes out of a session: an answer, what it cost, and how far off it may be."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable
from fractions import Fraction
from typing import Generic, Literal, Protocol, TypeAlias, TypeVar

import numpy as np
from attrs import cmp_using, field, frozen

from dpsdk._checks import to_beta
from dpsdk.accounting import Guarantee
from dpsdk.accounting.filters.composition import Runs
from dpsdk.accounting.prices.run import pure_epsilon, zcdp_rho
from dpsdk.errors import TooLarge
from dpsdk.forms import Facts
from dpsdk.noise import NoiseLaw
from dpsdk.typing import Floats

__all__ = [
    "Accuracy",
    "Bound",
    "Cost",
    "Measurement",
    "NoiseAccuracy",
    "Quote",
    "Release",
    "Source",
]

A_co = TypeVar("A_co", covariant=True)

Source: TypeAlias = Literal["measured", "fitted", "hypothesis"]
"""Whether an answer was measured on the data, or read off a public distribution.

That was "fitted" once and stays as it is, or it is a "hypothesis" that moves.
"""

_LISTED = 2**20


def _to_runs(runs: Runs) -> tuple[tuple[Guarantee, int], ...]:
    merged: list[tuple[Guarantee, int]] = []
    for run in runs:
        guarantee, count = run if isinstance(run, tuple) else (run, 1)
        if merged and merged[-1][0] == guarantee:
            merged[-1] = (guarantee, merged[-1][1] + count)
        elif count:
            merged.append((guarantee, count))
    return tuple(merged)


@frozen(repr=False)
class Cost:
    """What was or would be paid: the guarantee of each run, none where nothing is paid.

    Parameters
    ----------
    runs
        Guarantees, in their order, or pairs of a guarantee and how many such runs follow each
        other. Kept as such pairs.
    """

    runs: tuple[tuple[Guarantee, int], ...] = field(default=(), converter=_to_runs)

    @property
    def guarantees(self) -> tuple[Guarantee, ...]:
        """The guarantee of each run, in their order.

        Raises
        ------
        TooLarge
            If there are more than a million runs; `runs` counts equal ones.
        """
        count = sum(count for _, count in self.runs)
        if count > _LISTED:
            raise TooLarge("a list of all runs", count, _LISTED, "entries", "read runs")
        return tuple(run for run, count in self.runs for _ in range(count))

    @property
    def nothing(self) -> bool:
        """Whether there is no run at all."""
        return not self.guarantees

    @property
    def free(self) -> bool:
        """Whether nothing is paid."""
        return all(run.free for run, _ in self.runs)

    @property
    def epsilon(self) -> Fraction | None:
        """The sum of the pure ε of the runs, None if one of them has none."""
        total = Fraction(0)
        for run, count in self.runs:
            epsilon = pure_epsilon(run)
            if epsilon is None:
                return None
            total += epsilon * count
        return total

    @property
    def rho(self) -> Fraction:
        """The sum of the ρ of zero-concentrated privacy of the runs, leaks aside."""
        return sum((zcdp_rho(run) * count for run, count in self.runs), Fraction(0))

    def __repr__(self) -> str:
        return f"Cost({self})"

    def __str__(self) -> str:
        paid: Counter[str] = Counter()
        for run, count in self.runs:
            if not run.free:
                paid[str(run)] += count
        runs = (text if count == 1 else f"{count:,} x {text}" for text, count in paid.items())
        return " + ".join(runs) or "nothing"


class Accuracy(ABC):
    """How far raw numbers may be off, before a query gives them its unit."""

    __slots__ = ()
    kind: str
    """On what the bound rests, for people."""
    proven: bool
    """Whether it holds with the stated probability, by a theorem."""

    @abstractmethod
    def radii(self, beta: float, *, joint: bool) -> Floats:
        """Half-widths around the raw numbers, each at confidence 1 - beta, or all at once."""


@frozen
class NoiseAccuracy(Accuracy):
    """Independent noise of one law on every number, plus what rounding of weights may add.

    `step` is the lattice step and `bias` the largest effect of rounding, both in raw units. The
    tail of the law is exact, so no smaller multiple of the step would do.
    """

    law: NoiseLaw
    entries: int
    step: float
    bias: float
    kind: str = field(init=False, default="exact tail of the discrete noise")
    proven: bool = field(init=False, default=True)

    def radii(self, beta: float, *, joint: bool) -> Floats:
        radius = self.law.radius(beta, self.entries if joint else 1) * self.step + self.bias
        return np.full(self.entries, radius)


def _same(one: Floats, other: Floats) -> bool:
    return np.array_equal(one, other, equal_nan=True)


@frozen
class Measurement:
    """Raw numbers that a strategy got for a form: counts of rows, with their accuracy."""

    values: Floats = field(eq=cmp_using(eq=_same), hash=False)
    accuracy: Accuracy
    source: Source = "measured"


@frozen
class Bound:
    """An error bound in full: with probability 1 - `beta`, no entry is off by more than `error`.

    `kind` tells what it rests on, `proven` whether that is a theorem. A `vacuous` bound says no
    more than the range of possible answers does.
    """

    error: float
    beta: float
    kind: str
    proven: bool
    vacuous: bool


class Lifting(Protocol[A_co]):
    """How raw numbers become an answer, and their half-widths errors in its unit."""

    def spread(self, raw: Floats, radii: Floats, facts: Facts, /) -> Floats:
        """Half-widths in the unit of the answer."""
        ...

    def bracket(self, raw: Floats, radii: Floats, facts: Facts, /) -> tuple[A_co, A_co]:
        """The answers at both ends of all half-widths."""
        ...

    def span(self, facts: Facts, /) -> float:
        """The largest difference of two possible answers."""
        ...

    @property
    def width(self) -> int:
        """How many raw numbers one number of the answer rests on, at the most."""
        ...


def bound_of(
    spread: Callable[[Floats], Floats], span: float, accuracy: Accuracy, beta: float
) -> Bound:
    """The joint bound of an answer whose half-widths `spread` translates."""
    checked = to_beta(beta)
    error = float(spread(accuracy.radii(checked, joint=True)).max())
    return Bound(error, checked, accuracy.kind, accuracy.proven, error >= span)


@frozen(repr=False)
class Release(Generic[A_co]):
    """One answer with its price and its accuracy.

    `value` is the answer; `query` and `mechanism` say in words what was asked of what; `cost` is
    what was paid for it; `source` tells a measured answer from one read off a hypothesis. A
    release with `private=False` was made with seeded noise and protects nobody.

    Releases are equal if they say the same of the same numbers.
    """

    # The answer follows from the numbers and the query, and might compare as an array does.
    value: A_co = field(eq=False)
    query: str
    mechanism: str
    cost: Cost
    source: Source
    private: bool
    _measurement: Measurement
    _lifting: Lifting[A_co] = field(eq=False)
    _facts: Facts

    def error(self, beta: float = 0.05) -> float:
        """With probability 1 - beta, no entry of the answer is off by more than this.

        In the answer's own unit, for all its entries at once.
        """
        return self.bound(beta).error

    def errors(self, beta: float = 0.05) -> Floats:
        """For each entry of the answer: with probability 1 - beta, it is off by no more."""
        # A number that rests on several raw ones shares its failures between them.
        each = to_beta(beta) / self._lifting.width
        radii = self._measurement.accuracy.radii(each, joint=False)
        return self._lifting.spread(self._measurement.values, radii, self._facts)

    def interval(self, beta: float = 0.05) -> tuple[A_co, A_co]:
        """Two answers between which the truth lies with probability 1 - beta, in every entry."""
        radii = self._measurement.accuracy.radii(to_beta(beta), joint=True)
        return self._lifting.bracket(self._measurement.values, radii, self._facts)

    def bound(self, beta: float = 0.05) -> Bound:
        """The same as `error`, with what it rests on and whether it says anything."""
        raw, facts = self._measurement.values, self._facts
        return bound_of(
            lambda radii: self._lifting.spread(raw, radii, facts),
            self._lifting.span(facts),
            self._measurement.accuracy,
            beta,
        )

    def __repr__(self) -> str:
        mark = "" if self.private else ", NOT PRIVATE: seeded noise"
        bound = self.bound(0.05)
        error = f"± {bound.error:.4g}{' (vacuous)' if bound.vacuous else ''} at 95%"
        source = f"{self.source} by {self.mechanism}, cost {self.cost}{mark}"
        answer = repr(self.value)
        if "\n" in answer:  # a table, whose lines are its own
            return f"Release of {self.query}\n{answer}\n{error}, {source}"
        return f"Release({answer} {error}, {self.query}, {source})"


@frozen(repr=False)
class Quote:
    """What a mechanism would charge for a form and how far off it would be. Spends nothing.

    `at_open` is paid when a channel opens; `at_most` bounds what is paid in all, for the channel
    and this one answer. Errors are in raw counts of rows unless a session gave them a unit.
    """

    at_open: Cost
    at_most: Cost
    accuracy: Accuracy
    _lifting: Lifting[object] | None = None
    _facts: Facts | None = None

    def error(self, beta: float = 0.05) -> float:
        """With probability 1 - beta, no entry of the answer will be off by more than this."""
        return self.bound(beta).error

    def bound(self, beta: float = 0.05) -> Bound:
        """The same, with what it rests on and whether it says anything."""
        lifting, facts = self._lifting, self._facts
        if lifting is None or facts is None:
            return bound_of(lambda radii: radii, math.inf, self.accuracy, beta)
        return bound_of(
            lambda radii: lifting.spread(np.full(len(radii), np.nan), radii, facts),
            lifting.span(facts),
            self.accuracy,
            beta,
        )

    def for_query(self, lifting: Lifting[object], facts: Facts) -> Quote:
        """The quote in the unit of a query's answer."""
        return Quote(self.at_open, self.at_most, self.accuracy, lifting, facts)

    def __repr__(self) -> str:
        bound = self.bound(0.05)
        vacuous = " (vacuous)" if bound.vacuous else ""
        return (
            f"Quote(at open {self.at_open}, at most {self.at_most}, "
            f"error {bound.error:.4g}{vacuous} at 95%)"
        )
