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

__all__ = ["NOTHING", "Assumptions"]

_SHARE = "a share above 0 and at most 1"
_KNOWN = frozenset({"rows", "inside"})


def _to_rows(value: int | None) -> int | None:
    return None if value is None else to_count("rows", value)


def _to_inside(value: Real | None) -> Fraction | None:
    if value is None:
        return None
    share = to_fraction("inside", value, _SHARE)
    if not 0 < share <= 1:
        raise InvalidArgument("inside", _SHARE, shown(value))
    return share


@written(
    "assumptions", {"rows": Member(OrNone(INTEGER), None), "inside": Member(OrNone(AMOUNT), None)}
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

    >>> from dpsdk.planner import Assumptions
    >>> Assumptions(rows=30_000, inside=0.9)
    Assumptions(rows=30000, inside=Fraction(9, 10))
    """

    rows: int | None = field(default=None, converter=_to_rows)
    inside: Fraction | None = field(default=None, converter=_to_inside)

    @classmethod
    def of(cls, given: Mapping[str, object] | Assumptions | None) -> Assumptions:
        """The assumptions of an `assume=` argument: a mapping of rows and inside.

        Raises
        ------
        InvalidArgument
            If it is none.
        """
        if given is None:
            return NOTHING
        if isinstance(given, Assumptions):
            return Assumptions(given.rows, given.inside)
        if not isinstance(given, Mapping) or not set(given) <= _KNOWN:
            raise InvalidArgument("assume", "a mapping of rows and inside", shown(given))
        return cls(cast("int | None", given.get("rows")), cast("Real | None", given.get("inside")))

    @property
    def nothing(self) -> bool:
        """True if nothing is assumed."""
        return self.rows is None and self.inside is None

    def check(self, facts: Facts) -> None:
        """Refuse what cannot be true of a table with these facts.

        Raises
        ------
        InvalidArgument
            If more rows, or where their number is public another number, are assumed than there
            can be.
        """
        if self.rows is None:
            return
        if facts.rows is not None and self.rows != facts.rows:
            raise InvalidArgument(
                "rows", f"left out, or the public {facts.rows:,}", f"{self.rows:,}"
            )
        if self.rows > facts.row_limit:
            raise InvalidArgument("rows", f"at most {facts.row_limit:,}", f"{self.rows:,}")

    def counted(self, facts: Facts, *, conditional: bool) -> int:
        """How many rows count in a query at the least; 0 where that is not said.

        Parameters
        ----------
        facts
            What is known of the table.
        conditional
            Whether rows must meet a condition to count.
        """
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
        return tuple(said)


NOTHING = Assumptions()
"""Nothing at all."""
