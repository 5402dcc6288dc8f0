"""Goals: what is to be known, and how well; and what a plan may take for granted."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Generic, TypeVar

from attrs import field, frozen

from dpsdk._checks import shown
from dpsdk.errors import InvalidArgument
from dpsdk.forms import Form
from dpsdk.forms.assumptions import Assumptions
from dpsdk.queries import Query

__all__ = ["Assumptions", "Goal", "to_alpha"]

A_co = TypeVar("A_co", covariant=True)
F_co = TypeVar("F_co", bound=Form, covariant=True)


def to_alpha(value: float) -> float:
    """A positive, finite error."""
    if isinstance(value, bool) or not isinstance(value, int | float | Fraction):
        raise InvalidArgument("alpha", "a positive number", shown(value))
    try:
        alpha = float(value)
    except OverflowError:
        alpha = math.inf
    if not 0 < alpha < math.inf:
        raise InvalidArgument("alpha", "a positive number", shown(value))
    return alpha


@frozen
class Goal(Generic[A_co, F_co]):
    """A query, and how far off its answer may be.

    Parameters
    ----------
    query
        What is asked.
    alpha
        The largest error of any entry of the answer, in the answer's own unit.
    """

    query: Query[A_co, F_co]
    alpha: float = field(converter=to_alpha)
