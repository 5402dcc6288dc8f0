"""What a `Discovery` finds: public declarations, paid for, with what is known of their numbers."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np

from dpsdk._arrays import Lasting, frozen_copy
from dpsdk._checks import read_fraction, shown, to_positive
from dpsdk._frames import Column, Framed
from dpsdk._records import cmp_using, field, frozen
from dpsdk.accuracy import NoiseAccuracy
from dpsdk.data.unit import PrivacyUnit
from dpsdk.domain import Categorical, Number
from dpsdk.domain.attributes import printed
from dpsdk.errors import InvalidArgument, NoBound
from dpsdk.release.cost import Cost
from dpsdk.typing import Extra, Floats, Real

__all__ = ["Bounds", "Keys", "RowsPerPerson", "may_be_label"]


def _to_floats(values: Floats) -> Floats:
    return frozen_copy(np.asarray(values, dtype=np.float64))


_SAME = cmp_using(eq=np.array_equal)


def may_be_label(key: str) -> bool:
    """Whether a key can be a label beside the cells of other and of missing values."""
    return printed(key) not in {"", *(extra.value for extra in Extra)}


@frozen
class Keys(Framed, Lasting):
    """The keys that were found in a column, with their noisy counts.

    A key is here because its noisy count was large, so the counts of found keys lean upwards, the
    more the nearer they are to `passing`: no bound is claimed of them. Those of a closed list have
    exact noise, and `error` says how far off they may be. For counts with bounds, declare the keys
    as a domain and ask `Marginal`.

    Parameters
    ----------
    column
        The name of the column.
    labels
        The keys, in order of their characters.
    counts
        The noisy count of each, in rows or, with a column of persons, in persons; where a person
        may count for several keys, these share that person's weight.
    passing
        A key of about so many is found half of the time; 0 for a closed list.
    covered
        The share of the rows that have one of these keys, by the noisy counts; None where the
        number of rows is private or a person may count for several keys.
    cost
        What was charged.
    accuracy
        The noise of the counts of a closed list; None where keys had to pass.
    """

    column: str
    labels: tuple[str, ...]
    counts: Floats = field(converter=_to_floats, eq=_SAME, hash=False)
    passing: float
    covered: float | None
    cost: Cost
    accuracy: NoiseAccuracy | None = None

    def categorical(self, *, other: bool = True, missing: bool = True) -> Categorical:
        """The column as an attribute of a domain: its keys, and cells for all other values.

        Of keys that look alike on a page the one with the largest count is a label, as an attribute
        refuses labels that a reader cannot tell apart; the others are other values, and so are keys
        that look like the names of the cells of other and of missing values.

        Raises
        ------
        InvalidArgument
            If no key was found.
        """
        largest: dict[str, tuple[float, str]] = {}
        for label, count in zip(self.labels, self.counts.tolist(), strict=True):
            look = printed(label)
            if may_be_label(label) and (look not in largest or largest[look][0] < count):
                largest[look] = count, label
        if not largest:
            raise InvalidArgument("keys", "at least one that was found", f"none of {self.column!r}")
        labels = sorted((label for _, label in largest.values()), key=_order)
        if other:
            return Categorical(self.column, labels, other=True, missing=missing)
        return Categorical(self.column, labels, missing=missing)

    def error(self, beta: float = 0.05) -> float:
        """With probability 1 - beta, no count of a closed list is off by more.

        Raises
        ------
        NoBound
            If the keys were found, and not listed.
        """
        if self.accuracy is None:
            why = "they are shown because they are large"
            raise NoBound("the counts of found keys", why, "ask Marginal over the found domain")
        return self.accuracy.radius(beta, joint=True)

    def _columns(self) -> dict[str, Column]:
        return {
            self.column: Column(list(self.labels), "text"),
            "count": Column(self.counts.tolist(), "number"),
        }

    def __str__(self) -> str:
        count = len(self.labels)
        found = "counted" if self.accuracy is not None else "found"
        return (
            f"{count:,} key{'' if count == 1 else 's'} of {self.column!r} {found} for {self.cost}"
        )


@frozen
class Bounds(Lasting):
    """Bounds of the numbers in a column: the outer edges of the outermost cells that passed.

    The cells are those of a public scale: 0, and from `smallest` on the steps 1, 2 and 5 of each
    power of ten, of both signs. No number is the table's own.

    Parameters
    ----------
    column
        The name of the column.
    low, high
        The bounds.
    covered
        The share of the counted numbers that lie within, by noisy counts; an estimate.
    cells
        The noisy count of each cell that lies within, with its edges.
    passing
        A cell passes with as many rows, or persons.
    cost
        What was charged.
    accuracy
        The noise of the counts of all cells.
    """

    column: str
    low: Fraction
    high: Fraction
    covered: float
    cells: tuple[tuple[Fraction, Fraction, float], ...]
    passing: float
    cost: Cost
    accuracy: NoiseAccuracy

    def number(
        self,
        step: Real = 1,
        *,
        other: bool = False,
        missing: bool = True,
        exact: bool = False,
    ) -> Number:
        """The column as a `Number` with these bounds, moved outwards to whole steps.

        `exact` where all values are multiples of the step: others are no numbers of it then.
        """
        size = to_positive("step", step)
        low, high = math.floor(self.low / size), math.ceil(self.high / size)
        high = max(high, low + 1)
        ends = low * size, high * size
        return Number(self.column, *ends, step=size, other=other, missing=missing, exact=exact)

    def error(self, beta: float = 0.05) -> float:
        """With probability 1 - beta, the count of no cell is off by more."""
        return self.accuracy.radius(beta, joint=True)

    def __str__(self) -> str:
        return (
            f"{self.column!r} from {_decimal(self.low)} to {_decimal(self.high)}, "
            f"{self.covered:.1%} of the numbers, for {self.cost}"
        )


@frozen
class RowsPerPerson(Lasting):
    """The number of rows of which a share of the persons have no more.

    Parameters
    ----------
    column
        The column of persons.
    max_rows
        The least number of a public scale up to which so many persons are whole.
    whole
        The share that was asked for.
    tops, counts
        The scale, and the noisy number of persons with at most so many rows and more than the top
        before.
    cost
        What was charged.
    accuracy
        The noise of these numbers.
    """

    column: str
    max_rows: int
    whole: float
    tops: tuple[int, ...]
    counts: Floats = field(converter=_to_floats, eq=_SAME, hash=False)
    cost: Cost
    accuracy: NoiseAccuracy

    @property
    def unit(self) -> PrivacyUnit:
        """The unit to load the table with."""
        return PrivacyUnit(self.column, max_rows=self.max_rows)

    def error(self, beta: float = 0.05) -> float:
        """With probability 1 - beta, no count is off by more."""
        return self.accuracy.radius(beta, joint=True)

    def __str__(self) -> str:
        return (
            f"{self.whole:.0%} of the persons by {self.column!r} have at most {self.max_rows:,} "
            f"rows, for {self.cost}"
        )


def _order(label: str) -> tuple[bool, Fraction, str]:
    """Numbers first, by their size, and then texts."""
    number = read_fraction(label)
    return number is None, number or Fraction(0), label


def _decimal(number: Fraction) -> str:
    return f"{number.numerator:,}" if number.denominator == 1 else f"{float(number):g}"


def to_share(parameter: str, value: Real) -> float:
    """A share above 0 and at most 1."""
    number = to_positive(parameter, value)
    if number > 1:
        raise InvalidArgument(parameter, "a share, above 0 and at most 1", shown(value))
    return float(number)
