"""From the values of a column to cell numbers along its attribute; -1 is outside.

Encoding never fails because of a value and never says which values it met: a value that is
missing, malformed or beyond the declaration is outside, nothing more.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import cast

import numpy as np

from dpsdk.domain import Attribute, Binned, Boolean, Categorical, Integer
from dpsdk.typing import Array, Ints, Label

__all__ = ["encode"]


def encode(attribute: Attribute, column: Array, *, clip: bool) -> Ints:
    """Cell numbers of a column's values, -1 for those outside.

    `clip` moves numbers beyond the bounds of a numeric attribute to the nearest cell; a value
    that is not a number stays outside.
    """
    if isinstance(attribute, Integer):
        return _integers(attribute, column, clip=clip)
    if isinstance(attribute, Binned):
        return _bins(attribute, column, clip=clip)
    if isinstance(attribute, Boolean):
        return _looked_up(column, _boolean)
    if isinstance(attribute, Categorical):
        return _categories(attribute, column)
    return _looked_up(column, lambda value: _index(attribute, value))


def _index(attribute: Attribute, value: object) -> int:
    try:
        return attribute.index(cast("Label", value))
    except Exception:  # noqa: BLE001  # whatever a value does, it is only outside
        return -1


def _looked_up(column: Array, number: Callable[[object], int]) -> Ints:
    """Number each distinct value once; one that cannot be compared is outside."""
    known: dict[object, int] = {}
    result = np.empty(len(column), dtype=np.int64)
    values = cast("list[object]", column.tolist())
    for place, value in enumerate(values):
        if isinstance(value, np.generic):
            value = cast("object", value.item())  # noqa: PLW2901  # an object column may hold numpy scalars
        try:
            code = known.get((type(value), value))
            if code is None:
                code = known[(type(value), value)] = number(value)
        except Exception:  # noqa: BLE001  # whatever a value does, it is only outside
            code = -1
        result[place] = code
    return result


_BOOLEANS = {"false": 0, "true": 1, "0": 0, "1": 1, "f": 0, "t": 1, "no": 0, "yes": 1}


def _boolean(value: object) -> int:
    if isinstance(value, str):
        return _BOOLEANS.get(value.strip().lower(), -1)
    if isinstance(value, bool | int | float) and value in {0, 1}:
        return int(value)
    return -1


def _categories(attribute: Categorical, column: Array) -> Ints:
    other = -1 if attribute.other is None else attribute.index(attribute.other)
    numbers: dict[object, int] = {label: attribute.index(label) for label in attribute.values}
    texts = {str(label): code for label, code in numbers.items()}

    def number(value: object) -> int:
        if value is None or value != value:  # None, NaN: no value at all
            return -1
        if isinstance(value, str):
            stripped = value.strip()
            return numbers.get(value, numbers.get(stripped, texts.get(stripped, other)))
        if isinstance(value, float) and value.is_integer():
            value = int(value)
        if isinstance(value, bool) or not isinstance(value, int):
            return other
        return numbers.get(value, texts.get(str(value), other))

    return _looked_up(column, number)


def _integers(attribute: Integer, column: Array, *, clip: bool) -> Ints:
    if column.dtype.kind in "biu" and attribute.low > -(2**62) and attribute.high < 2**62:
        below, above = column < attribute.low, column > attribute.high
        codes = np.where(below | above, attribute.low, column).astype(np.int64) - attribute.low
        codes[below] = 0 if clip else -1
        codes[above] = attribute.size - 1 if clip else -1
        return codes

    def number(value: object) -> int:
        exact = _to_int(value)
        if exact is None:
            return _beyond(attribute, value) if clip else -1
        if clip:
            exact = min(max(exact, attribute.low), attribute.high)
        return exact - attribute.low if attribute.low <= exact <= attribute.high else -1

    return _looked_up(column, number)


def _beyond(attribute: Integer, value: object) -> int:
    """The cell at the bound that a number, infinity included, lies beyond; -1 if it does not."""
    try:
        number = float(cast("float", value))
    except (TypeError, ValueError, OverflowError):
        return -1
    if number > attribute.high:
        return attribute.size - 1
    return 0 if number < attribute.low else -1


def _to_int(value: object) -> int | None:
    try:
        if isinstance(value, str):
            value = value.strip()
            number = float(value)
            return int(value) if value.lstrip("+-").isdigit() else _whole(number)
        if isinstance(value, int):
            return int(value)
        return _whole(float(cast("float", value)))
    except (TypeError, ValueError, OverflowError):
        return None


def _whole(number: float) -> int | None:
    return int(number) if number.is_integer() else None


def _bins(attribute: Binned, column: Array, *, clip: bool) -> Ints:
    values = _to_floats(column)
    edges = np.array(attribute.edges)
    codes: Ints = np.searchsorted(edges, values, side="right").astype(np.int64) - 1
    codes[values == edges[-1]] = attribute.size - 1
    if clip:
        codes = np.clip(codes, 0, attribute.size - 1)
    codes[(codes < 0) | (codes >= attribute.size) | np.isnan(values)] = -1
    return codes


def _to_floats(column: Array) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    if column.dtype.kind in "biuf":
        with np.errstate(over="ignore"):
            return column.astype(np.float64)
    result = np.full(len(column), np.nan)
    for place, value in enumerate(cast("list[object]", column.tolist())):
        try:
            result[place] = float(cast("float", value))
        except Exception:  # noqa: BLE001  # whatever a value does, it is only outside
            result[place] = np.nan
    return result
