"""Tasks: what is to be planned, in public terms."""

from __future__ import annotations

from functools import cached_property
from typing import Generic, TypeVar

import numpy as np
from attrs import define, field

from dpsdk.accounting.balance import Balance
from dpsdk.accuracy import Bound, bound_of
from dpsdk.forms import Facts, Form
from dpsdk.forms.assumptions import Assumptions
from dpsdk.kernel import Limits, Terms
from dpsdk.planner.calibration import Calibration, to_calibration
from dpsdk.queries import Query
from dpsdk.queries.base import lifting
from dpsdk.release import Quote

__all__ = ["Task"]

A = TypeVar("A")
F = TypeVar("F", bound=Form)


@define(eq=False)
class Task(Generic[A, F]):
    """A query over a table of which the facts are known, and what may be spent on it.

    Parameters
    ----------
    query, form
        What is asked.
    terms
        The facts, and how costs add up.
    balance
        What may still be spent.
    beta
        How likely bounds may fail.
    assumptions
        What is believed of the table.
    limits
        What a plan may take of a machine; None where nothing is said.
    calibration
        What forecasts rest on beside the laws of noise; that of the package where it is None.
    """

    query: Query[A, F]
    form: F
    terms: Terms
    balance: Balance
    beta: float
    assumptions: Assumptions = field(factory=Assumptions)
    limits: Limits | None = None
    calibration: Calibration | None = field(default=None, converter=to_calibration)

    @property
    def facts(self) -> Facts:
        """All that is public about the table."""
        return self.terms.facts

    @cached_property
    def rows(self) -> int | None:
        """The number of rows where it is public or assumed."""
        return self.facts.rows if self.facts.rows is not None else self.assumptions.rows

    def bound(self, quote: Quote) -> Bound:
        """What is known of the error of an answer beforehand, in the unit of the answer."""
        lift = lifting(self.query)
        if lift is None:
            return bound_of(quote.accuracy, None, np.inf, self.beta)
        return quote.for_query(lift, self.facts).bound(self.beta)

    def assumed(self, quote: Quote) -> Bound | None:
        """The bound that holds if the assumptions do; None where they add nothing."""
        lift = lifting(self.query)
        return quote.for_query(lift, self.facts, self.assumptions).assumed(self.beta)

    @property
    def assumes(self) -> tuple[str, ...]:
        """What is believed and not known, in words."""
        return self.assumptions.words(self.facts)

    @property
    def span(self) -> float:
        """The largest difference between two possible answers, infinite where none is known."""
        lift = lifting(self.query)
        return np.inf if lift is None else lift.span(self.facts)
