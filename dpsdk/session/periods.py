"""Some periods of a table whose budget renews by periods of time, as a session within a session."""

from __future__ import annotations

from typing import NamedTuple, final

from dpsdk._checks import shown
from dpsdk._records import shows_half_made
from dpsdk.accounting import Odometer, Remaining, Spent
from dpsdk.data.part import between
from dpsdk.domain.periods import cells_between
from dpsdk.forms.facts import Facts, times_of
from dpsdk.session.context import Context
from dpsdk.session.notebook import session_page
from dpsdk.session.query_interface import QueryInterface
from dpsdk.typing import Label

__all__ = ["PeriodStatement", "Periodic", "TimeRange"]


class PeriodStatement(NamedTuple):
    """The spending of some periods that follow each other and were told the same.

    Parameters
    ----------
    first, last
        The first value of the first and of the last of them, such as the `date` of a day.
    spent
        What one of them has spent.
    remaining
        What one of them has left.
    """

    first: Label
    last: Label
    spent: Spent
    remaining: Remaining

    def __str__(self) -> str:
        return f"{self.first} to {self.last}: {self.spent}; {self.remaining}"


class Periodic(QueryInterface):
    """Typed questions to a table whose budget may be one of each period of time."""

    __slots__ = ()

    def between(self, first: Label | None, last: Label | None) -> TimeRange:
        """The rows of some time of a table with periods, which alone are asked and charged.

        A table that was loaded with `periods=` has a budget for each of them. Its session answers
        only questions that are bounded in time, since one that is not spends every period at once.
        These bounds are of the domain: the time of what is asked here ends there. Parts of
        different periods never add up, and nobody's work ends.

        Parameters
        ----------
        first, last
            The first and the last value of the time, both included, such as the `date` of a day;
            None for the first or the last of the domain. A period that they cut is charged as a
            whole.

        Raises
        ------
        UnknownLabel
            If the domain has no such value.
        InvalidArgument
            If the table has no periods, or `last` lies before `first`.

        >>> from datetime import date
        >>> from dpsdk import Budget, Date, Domain, Periods, PrivateData, Session
        >>> from dpsdk.mechanisms import Laplace
        >>> from dpsdk.queries import Count
        >>> may = [date(2026, 5, day) for day in range(1, 32)]
        >>> visits = PrivateData.from_columns(
        ...     {"visited": may},
        ...     Domain(Date("visited", may[0], may[-1])),
        ...     periods=Periods("visited", days=1),
        ... )
        >>> session = Session(visits, Budget(epsilon=1))
        >>> week = session.between(may[0], may[6])
        >>> count = week.answer(Count(normalized=False), using=Laplace(epsilon=1))
        >>> week.remaining.fraction, session.between(may[7], None).remaining.fraction
        (0.0, 1.0)
        """
        self._context.lifetime.check()
        return _time_range(self._context, first, last)

    def periods(
        self, first: Label | None = None, last: Label | None = None
    ) -> tuple[PeriodStatement, ...]:
        """The spending of each period of a table with periods, in ranges that were told the same.

        Parameters
        ----------
        first, last
            From when to when, as in `between`; all periods of the domain, if left out.

        Raises
        ------
        UnknownLabel
            If the domain has no such value.
        InvalidArgument
            If the table has no periods, or `last` lies before `first`.
        """
        return _statements_of(self._context.facts, self._context.payer, first, last)


@shows_half_made
@final
class TimeRange(Periodic):
    """Typed questions to the rows of some time. Made by `session.between(first, last)`.

    It answers as if there were no other rows, over a domain that ends there, and charges the
    periods that it touches and no others. `spent` and `remaining` are those of its most spent
    period.
    """

    __slots__ = ("_called",)

    def __init__(self, context: Context, called: str) -> None:
        super().__init__(context)
        self._called = called

    def _repr_html_(self) -> str:
        """Return the HTML that a notebook shows. Charges nothing."""
        return session_page(
            self._called,
            self._context,
            lambda: (("spent, at most", self.spent), ("remaining, at least", self.remaining)),
        )

    def __repr__(self) -> str:
        return f"TimeRange({self._context.data!r}, spent {self.spent})"


def _time_range(context: Context, first: Label | None, last: Label | None) -> TimeRange:
    """The rows of some time, and an account of their periods."""
    periods, attribute = times_of(context.facts)
    low, high = cells_between(attribute, first, last)
    data = between(context.data, low, high)
    payer = context.payer.between(periods.number(attribute, low), periods.number(attribute, high))
    called = f"{shown(attribute.name)} from {attribute.text(low)} to {attribute.text(high)}"
    own = Context(
        data, payer, context.noise, context.history, context.lifetime, context.reuse,
        trust=context.trust,
    )  # fmt: skip
    return TimeRange(own, called)


def _statements_of(
    facts: Facts, payer: Odometer, first: Label | None, last: Label | None
) -> tuple[PeriodStatement, ...]:
    """The spending of the periods of some time."""
    periods, attribute = times_of(facts)
    low, high = cells_between(attribute, first, last)
    ends = periods.number(attribute, low), periods.number(attribute, high)
    return tuple(
        PeriodStatement(
            periods.start(attribute, begun), periods.start(attribute, end), spent, remaining
        )
        for begun, end, spent, remaining in payer.periods(*ends)
    )
