"""Parameters that streams have in common, read from what was given."""

from __future__ import annotations

from fractions import Fraction
from typing import Literal, TypeAlias

from dpsdk._checks import shown, to_amount, to_count, to_flag, to_fraction
from dpsdk.errors import InvalidArgument
from dpsdk.typing import Real

__all__ = [
    "WhenSpent",
    "check_when_spent",
    "count_if_given",
    "share_if_given",
    "to_epsilon",
    "to_prepaid",
    "to_queries",
    "to_threshold",
]

WhenSpent: TypeAlias = Literal["hypothesis", "raise"]
"""What happens where the budget has no room for another round."""

_LEAST_SHARE = Fraction(1, 10**12)


def share_if_given(parameter: str, value: float | None) -> float | None:
    """A number strictly between 0 and 1, if there is one."""
    if value is None:
        return None
    expected = "a number strictly between 0 and 1, and at least 1e-12"
    number = to_fraction(parameter, value, expected)
    if isinstance(value, str) or not _LEAST_SHARE <= number < 1:
        raise InvalidArgument(parameter, expected, shown(value))
    return float(number)


def count_if_given(parameter: str, value: int | None) -> int | None:
    """A positive integer, if there is one."""
    return None if value is None else to_count(parameter, value)


def to_epsilon(value: Real) -> Fraction:
    """Read an `epsilon=`."""
    return to_amount("epsilon", value)


def to_prepaid(value: bool) -> bool:  # noqa: FBT001  # a reader of an argument
    """Read a `prepaid=`."""
    return to_flag("prepaid", value)


def to_queries(value: int | None) -> int | None:
    """Read a `queries=` that may be left out."""
    return count_if_given("queries", value)


def to_threshold(value: float | None) -> float | None:
    """Read a `threshold=` that may be left out."""
    return share_if_given("threshold", value)


def check_when_spent(value: WhenSpent) -> None:
    """Refuse a `when_spent=` of another kind."""
    if not isinstance(value, str) or value not in ("hypothesis", "raise"):
        raise InvalidArgument("when_spent", '"hypothesis" or "raise"', shown(value))
