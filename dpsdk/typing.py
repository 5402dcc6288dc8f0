"""Public aliases and type variables, for annotating code that uses or extends dpsdk."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date
from decimal import Decimal
from enum import Enum
from fractions import Fraction
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

__all__ = ["Array", "Bools", "Extra", "Floats", "Ints", "Label", "Real", "Record"]

Floats: TypeAlias = npt.NDArray[np.float64]
"""An array of float64."""

Ints: TypeAlias = npt.NDArray[np.int64]
"""An array of int64."""

Bools: TypeAlias = npt.NDArray[np.bool_]
"""An array of booleans."""

Array: TypeAlias = npt.NDArray[Any]
"""An array of any dtype, as callers hand it in; never the type of an answer."""

Real: TypeAlias = int | float | str | Decimal | Fraction
"""A finite real number. Text and floats are read as the decimal fraction that they print as."""


class Extra(Enum):
    """A cell of an attribute for values that are none of its labels.

    An attribute has such cells where it declares them, by `other=True` and `missing=True`; they
    come after its labels. `dpsdk.OTHER` and `dpsdk.MISSING` are their names in conditions.
    """

    OTHER = "(other)"
    """Values that are there, and match no label."""

    MISSING = "(missing)"
    """Values that are not there: null, NaN, the empty text, and the texts that stand for that."""

    def __repr__(self) -> str:
        return self.name


Label: TypeAlias = str | int | float | bool | tuple[float, float] | date | Extra
"""The public name of one cell along one attribute.

A bin is named by its two edges; a day, week or month by its first day, an hour by the `datetime`
at which it begins, and the cells of other and of missing values by an `Extra`.
"""

Record: TypeAlias = Mapping[str, Label]
"""One element of a universe, as a label for each attribute."""
