"""Payments: who was charged for an answer, by which rules, and what that left."""

from __future__ import annotations

from collections.abc import Callable
from itertools import chain
from typing import NamedTuple, TypeAlias

from attrs import frozen

from dpsdk.accounting.budget import Budget
from dpsdk.accounting.figures import spent_of
from dpsdk.accounting.filters.composition import Composition
from dpsdk.accounting.filters.copies import client_composition, own_budget
from dpsdk.accounting.ledger.books import Books, concerned
from dpsdk.accounting.ledger.charge import SESSION
from dpsdk.accounting.ledger.lines import Line
from dpsdk.accounting.spent import Spent

__all__ = ["Around", "Moment", "Payment", "Witness", "moment_of"]

Around: TypeAlias = tuple[Books, Books]
"""Books before and after some charges."""

Witness: TypeAlias = Callable[[Books, Books], object]
"""Told of books before and after some charges."""


class Moment(NamedTuple):
    """What all runs of a session amounted to at one moment.

    Parameters
    ----------
    lines
        For each kind of neighbours.
    charges
        How many runs there were.
    """

    lines: tuple[Line, ...]
    charges: int


def moment_of(books: Books) -> Moment:
    """What the runs in some books amounted to for the whole session."""
    return Moment(tuple(chain.from_iterable(concerned(books, SESSION))), books.runs)


@frozen(eq=False, repr=False)
class Payment:
    """Who was charged for an answer, by which rules, and what that left.

    Public, as what was spent always is. Summed up when somebody asks, and a value of its own: it
    does not change when more is spent.

    Parameters
    ----------
    table
        The name of the table, or of the part of it, that was asked.
    account
        The name of the scope that paid; empty where the session itself did.
    by
        The mechanism that was asked.
    """

    table: str
    account: str
    by: object
    _composition: Composition
    _budget: Budget
    _before: Moment | None = None
    _after: Moment | None = None

    @property
    def composition(self) -> Composition:
        """How costs add up in the session."""
        return client_composition(self._composition)

    @property
    def budget(self) -> Budget:
        """What the session may spend in all."""
        return own_budget(self._budget)

    @property
    def before(self) -> Spent | None:
        """What had been spent of that budget, by all on the ledger, when it was charged first.

        None where nothing was charged this time: for an answer that was free, or is given again.
        """
        return self._spent(self._before)

    @property
    def after(self) -> Spent | None:
        """What had been spent when it was charged last. None as for `before`."""
        return self._spent(self._after)

    def _spent(self, moment: Moment | None) -> Spent | None:
        if moment is None:
            return None
        return spent_of(self._composition, moment.lines, moment.charges, self.budget, "")

    def __repr__(self) -> str:
        account = f"scope {self.account!r}" if self.account else "the session"
        return f"Payment({account}, after it {self.after or 'as before'})"
