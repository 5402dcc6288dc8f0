"""Parameters that streams have in common, read from what was given."""

from __future__ import annotations

from fractions import Fraction

from dpsdk._checks import shown, to_count, to_fraction
from dpsdk.errors import InvalidArgument

__all__ = ["count_if_given", "share_if_given"]

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
