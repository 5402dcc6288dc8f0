"""Goals: what is to be known, and how well; and what a plan may take for granted."""

from __future__ import annotations

from typing import Generic, TypeVar

from attrs import field, frozen

from dpsdk._checks import shown, to_positive
from dpsdk.errors import InvalidArgument
from dpsdk.forms import Form
from dpsdk.forms.assumptions import Assumptions
from dpsdk.queries import Query
from dpsdk.typing import Real

__all__ = ["Assumptions", "Goal", "to_alpha"]

A_co = TypeVar("A_co", covariant=True)
F_co = TypeVar("F_co", bound=Form, covariant=True)


def to_alpha(value: Real) -> float:
    """A positive, finite error."""
    expected = "a positive number that a float holds"
    try:
        alpha = float(to_positive("alpha", value))
    except OverflowError:
        alpha = 0.0
    if not alpha:
        raise InvalidArgument("alpha", expected, shown(value))
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
