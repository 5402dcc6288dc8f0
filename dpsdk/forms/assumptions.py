"""Beliefs about a private table that are not known: they change no noise and no charge."""

from __future__ import annotations

import math
from collections.abc import Mapping
from fractions import Fraction
from typing import cast

from dpsdk._checks import shown, to_count, to_fraction
from dpsdk._records import field, frozen
from dpsdk.codec import AMOUNT, INTEGER, Member, OrNone, written
from dpsdk.errors import InvalidArgument
from dpsdk.forms.facts import Facts
from dpsdk.typing import Real

__all__ = ["NOTHING", "Assumptions", "counting"]

_SHARE = "a share above 0 and at most 1"
_DENSE = "a number of rows above 0"
_KNOWN = frozenset({"rows", "inside", "density", "smallest_group"})
_EXPECTED = "a mapping of rows, inside, density and smallest_group"


def _to_rows(value: int | None) -> int | None:
    return None if value is None else to_count("rows", value)


def _to_smallest_group(value: int | None) -> int | None:
    return None if value is None else to_count("smallest_group", value)


def _to_inside(value: Real | None) -> Fraction | None:
    return None if value is None else _above_zero("inside", value, _SHARE, 1)


def _to_density(value: Real | None) -> Fraction | None:
    return None if value is None else _above_zero("density", value, _DENSE, math.inf)


def _above_zero(parameter: str, value: Real, expected: str, most: float) -> Fraction:
    number = to_fraction(parameter, value, expected)
    if not 0 < number <= most:
        raise InvalidArgument(parameter, expected, shown(value))
    return number


@written(
    "assumptions",
    {
        "rows": Member(OrNone(INTEGER), None),
        "inside": Member(OrNone(AMOUNT), None),
        "density": Member(OrNone(AMOUNT), None, quiet=True),
        "smallest_group": Member(OrNone(INTEGER), None, quiet=True),
    },
)
@frozen
class Assumptions:
    """Beliefs about a table that are not known. They change no noise and no charge.

    Bounds that rest on it hold for every table of which it is true, and for no other.

    Parameters
    ----------
    rows
        At least so many rows there are, where their number is private. Where rows were cut to so
        many of each person, those that are left count. Unless `inside` says otherwise, all of them
        are taken to lie in the domain.
    inside
        At least this share of the rows counts in each query: rows that lie in the domain and meet
        its condition.
    density
        At least so many rows count for each unit of the attribute around each quantile that is
        asked for: for each value within the bound, as many times its distance from the quantile lie
        from that value on up to the quantile, whose own rows are left out. A unit is 1 of numbers,
        and a day, week, month or hour of dates.
    smallest_group
        At least so many rows count in each group of a query with `by=`: rows that have its labels,
        lie in the domain and meet the condition.

    >>> from dpsdk.planner import Assumptions
    >>> Assumptions(rows=30_000, inside=0.9)
    Assumptions(rows=30000, inside=Fraction(9, 10), density=None, smallest_group=None)
    """

    rows: int | None = field(default=None, converter=_to_rows)
    inside: Fraction | None = field(default=None, converter=_to_inside)
    density: Fraction | None = field(default=None, converter=_to_density)
    smallest_group: int | None = field(default=None, converter=_to_smallest_group)

    @classmethod
    def of(cls, given: Mapping[str, object] | Assumptions | None) -> Assumptions:
        """The assumptions of an `assume=` argument: a mapping of the names above."""
        if given is None:
            return NOTHING
        if isinstance(given, Assumptions):
            return given
        if not isinstance(given, Mapping) or not set(given) <= _KNOWN:
            raise InvalidArgument("assume", _EXPECTED, shown(given))
        return cls(
            cast("int | None", given.get("rows")),
            cast("Real | None", given.get("inside")),
            cast("Real | None", given.get("density")),
            cast("int | None", given.get("smallest_group")),
        )

    @property
    def nothing(self) -> bool:
        """True if nothing is assumed."""
        return self == NOTHING

    def check(self, facts: Facts) -> None:
        """Refuse what cannot be true of a table with these facts, such as more rows."""
        smallest = self.smallest_group
        if smallest is not None and smallest > facts.row_limit:
            raise InvalidArgument("smallest_group", f"at most {facts.row_limit:,}", f"{smallest:,}")
        if self.rows is None:
            return
        if facts.rows is not None and self.rows != facts.rows:
            raise InvalidArgument(
                "rows", f"left out, or the public {facts.rows:,}", f"{self.rows:,}"
            )
        if self.rows > facts.row_limit:
            raise InvalidArgument("rows", f"at most {facts.row_limit:,}", f"{self.rows:,}")

    def counted(self, facts: Facts, *, conditional: bool) -> int:
        """How many rows count in a query at the least; 0 where that is not said."""
        rows = self.rows if facts.rows is None else facts.rows
        if rows is None:
            return 0
        all_count = not facts.outside or (self.rows is not None and self.inside is None)
        if all_count and not conditional:
            return rows
        return 0 if self.inside is None else math.ceil(self.inside * rows)

    def words(self, facts: Facts) -> tuple[str, ...]:
        """The assumptions beyond what is known, in words."""
        said: list[str] = []
        if self.rows is not None and facts.rows is None:
            said.append(f"there are at least {self.rows:,} rows")
        if self.inside is not None:
            share = (
                "all" if self.inside == 1 else f"at least {float(100 * self.inside):.4g}% of the"
            )
            said.append(f"{share} rows count")
        elif self.rows is not None and facts.outside:
            said.append("all rows lie in the domain")
        if self.density is not None:
            said.append(f"at least {float(self.density):.4g} rows a unit lie around each quantile")
        if self.smallest_group is not None:
            said.append(f"at least {self.smallest_group:,} rows count in each group")
        return tuple(said)


def counting(facts: Facts, *, conditional: bool) -> frozenset[str]:
    """The keys of `assume=` that say how many rows count in a query, where that is not public."""
    keys = {"inside"} if conditional or facts.outside else set[str]()
    return frozenset(keys if facts.rows is not None else {*keys, "rows"})


NOTHING = Assumptions()
"""Nothing at all."""
