"""Payments: who was charged for an answer, by which rules, and what that left."""

from __future__ import annotations

from collections.abc import Callable
from itertools import chain
from typing import NamedTuple, TypeAlias

from dpsdk._checks import shown, to_name
from dpsdk._records import field, frozen
from dpsdk.accounting.budget import Budget
from dpsdk.accounting.figures import spent_of
from dpsdk.accounting.filters.composition import Composition
from dpsdk.accounting.ledger.books import Books, concerned
from dpsdk.accounting.ledger.charge import SESSION
from dpsdk.accounting.ledger.lines import Line
from dpsdk.accounting.spent import Spent
from dpsdk.codec import TEXT, written
from dpsdk.errors import InvalidArgument

__all__ = ["Around", "Moment", "Payment", "Trusted", "Witness", "moment_of"]

Around: TypeAlias = tuple[Books, Books]
"""Books before and after some charges."""

Witness: TypeAlias = Callable[[Books, Books], object]
"""Told of books before and after some charges."""


class Moment(NamedTuple):
    """The sum of all runs of a session at one moment."""

    lines: tuple[Line, ...]
    charges: int


def moment_of(books: Books) -> Moment:
    """The sum of the runs in some books for the whole session."""
    return Moment(tuple(chain.from_iterable(concerned(books, SESSION))), books.runs)


def _dotted(value: str) -> str:
    name = to_name("trust", value)
    parts = name.split(".")
    if len(parts) == 1 or not all(map(str.isidentifier, parts)):
        raise InvalidArgument("trust", "dotted names of classes, as 'acme.Peek'", shown(name))
    return name


def _argued(value: str) -> str:
    return to_name("proof", value) if value != "" else ""


@written("trusted", {"name": TEXT, "proof": TEXT})
@frozen
class Trusted:
    """A class of requests of another author, taken at its word since somebody vouches for it.

    Parameters
    ----------
    name
        The dotted name of the class.
    proof
        Where it is argued that its runs have the guarantee they are charged for: an address, a
        path, or the argument itself, in at most 1,000 characters. Empty where whoever tells of it
        did not vouch for the class, as for a stored answer of another session.
    """

    name: str = field(converter=_dotted)
    proof: str = field(default="", converter=_argued)


@frozen(eq=False, repr=False)
class Payment:
    """The payer of an answer, the rules, and the rest of the budget.

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
    trusted
        Whose word the answer rests on, beside the theorems of the package: the trusted classes of
        other authors that ran for it, or for what its channel had learnt before.
    """

    table: str
    account: str
    by: object
    _composition: Composition
    _budget: Budget
    _before: Moment | None = None
    _after: Moment | None = None
    trusted: tuple[Trusted, ...] = ()

    @property
    def composition(self) -> Composition:
        """How costs add up in the session."""
        return self._composition

    @property
    def budget(self) -> Budget:
        """The whole budget of the session."""
        return self._budget

    @property
    def before(self) -> Spent | None:
        """The spending of that budget, by all on the ledger, when it was charged first.

        None where nothing was charged this time: for an answer that was free, or is given again.
        """
        return self._spent(self._before)

    @property
    def after(self) -> Spent | None:
        """The spending when it was charged last. None as for `before`."""
        return self._spent(self._after)

    def _spent(self, moment: Moment | None) -> Spent | None:
        if moment is None:
            return None
        return spent_of(self._composition, moment.lines, moment.charges, self.budget, "")

    def __repr__(self) -> str:
        account = f"scope {self.account!r}" if self.account else "the session"
        names = ", ".join(one.name for one in self.trusted)
        trust = f", trusting {names}" if names else ""
        return f"Payment({account}, after it {self.after or 'as before'}{trust})"
