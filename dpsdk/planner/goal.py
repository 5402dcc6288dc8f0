"""Goals: what is to be known, and how well; and what a plan may take for granted."""

from __future__ import annotations

import math
from collections.abc import Mapping
from fractions import Fraction
from typing import Generic, TypeVar

from attrs import field, frozen

from dpsdk._checks import shown, to_count, to_fraction
from dpsdk.errors import InvalidArgument
from dpsdk.forms import Form
from dpsdk.queries import Query

__all__ = ["Assumptions", "Goal"]

A = TypeVar("A")
F = TypeVar("F", bound=Form)


def _to_alpha(value: float) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float | Fraction):
        raise InvalidArgument("alpha", "a positive number", shown(value))
    alpha = float(value)
    if not 0 < alpha < math.inf:
        raise InvalidArgument("alpha", "a positive number", shown(value))
    return alpha


@frozen
class Goal(Generic[A, F]):
    """A query, and how far off its answer may be.

    Parameters
    ----------
    query
        What is asked.
    alpha
        The largest error of any entry of the answer, in the answer's own unit.
    """

    query: Query[A, F]
    alpha: float = field(converter=_to_alpha)


def _to_rows(value: int | None) -> int | None:
    return None if value is None else to_count("rows", value)


def _to_inside(value: object) -> Fraction | None:
    if value is None:
        return None
    share = to_fraction("inside", value, "a share above 0 and at most 1")  # type: ignore[arg-type]
    if not 0 < share <= 1:
        raise InvalidArgument("inside", "a share above 0 and at most 1", shown(value))
    return share


@frozen
class Assumptions:
    """What is believed of a table and not known. It changes no noise and no charge.

    Parameters
    ----------
    rows
        About how many rows there are, where their number is private.
    inside
        What share of the rows a query counts: those in the domain that meet its condition.
    """

    rows: int | None = field(default=None, converter=_to_rows)
    inside: Fraction | None = field(default=None, converter=_to_inside)

    @classmethod
    def of(cls, given: Mapping[str, object] | Assumptions | None) -> Assumptions:
        """The assumptions of an `assume=` argument."""
        if given is None:
            return cls()
        if isinstance(given, cls):
            return given
        known = {"rows", "inside"}
        if not isinstance(given, Mapping) or not set(given) <= known:
            raise InvalidArgument("assume", "a mapping of rows and inside", shown(given))
        return cls(**given)  # type: ignore[arg-type]  # converters check them

    @property
    def nothing(self) -> bool:
        """Whether nothing is assumed."""
        return self == type(self)()
