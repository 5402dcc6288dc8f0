"""Single values of a table as exact built-ins.

No method of a value's own class is called, so that a value cannot answer, raise or keep what it
likes.
"""

from __future__ import annotations

from decimal import Decimal
from typing import cast

import numpy as np

from dpsdk.data.texts import Number

__all__ = ["plain", "printed_decimal"]


def printed_decimal(value: np.floating) -> Decimal:
    """A float as the decimal that it prints as in its own width."""
    if np.isfinite(value):
        return Decimal(np.format_float_scientific(value))
    return Decimal("NaN") if np.isnan(value) else Decimal("Infinity" if value > 0 else "-Infinity")


def plain(value: object) -> Number | bool | str | None:
    """A value as an exact built-in; None where it is missing, or no number, text or truth value.

    Asks `type` only, and calls methods of the built-in classes only.
    """
    kind = type(value)
    if kind is bool:
        return cast("bool", value)
    if issubclass(kind, int):
        return int.__add__(cast("int", value), 0)
    if issubclass(kind, np.generic):
        return _scalar(cast("np.generic", value))
    if issubclass(kind, str):
        return str.__str__(cast("str", value))
    if issubclass(kind, float):
        number = Decimal(float.__repr__(cast("float", value)))
    elif issubclass(kind, Decimal):
        number = Decimal(cast("Decimal", value))
    else:
        return None
    return None if number.is_nan() else number


_SCALARS = tuple(set(np.sctypeDict.values()))


def _scalar(value: np.generic) -> Number | bool | str | None:
    # The classes of numpy itself only: those derived from them may do what they like.
    kind = type(value)
    if not any(kind is known for known in _SCALARS):
        return None
    if issubclass(kind, np.floating):
        number = printed_decimal(cast("np.floating", value))
        return None if number.is_nan() else number
    if isinstance(value, np.bool_ | np.str_) or (
        isinstance(value, np.integer) and not isinstance(value, np.timedelta64)
    ):
        return cast("int | bool | str", value.item())
    return None
