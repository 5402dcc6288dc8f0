"""Goals: what is to be known, and how well; and what a plan may take for granted."""

from __future__ import annotations

from typing import Generic, TypeVar

from attrs import field, frozen

from dpsdk._checks import shown, to_finite
from dpsdk.errors import InvalidArgument
from dpsdk.forms import Form
from dpsdk.forms.assumptions import Assumptions
from dpsdk.queries import Query

__all__ = ["Assumptions", "Goal", "to_alpha"]

A_co = TypeVar("A_co", covariant=True)
F_co = TypeVar("F_co", bound=Form, covariant=True)


def to_alpha(value: float) -> float:
    """A positive, finite error."""
    alpha = float(to_finite("alpha", value))
    if not alpha > 0:
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
