"""The cost and the error that an answer would have."""

from __future__ import annotations

import math
from functools import partial

from dpsdk._checks import described
from dpsdk._html import page, pairs
from dpsdk._records import field, frozen
from dpsdk.accounting.guarantee import check_guarantee
from dpsdk.accuracy import (
    Accuracy,
    Bound,
    HalfWidths,
    Lifting,
    NoAccuracy,
    ScalarAccuracy,
    bound_of,
    finite,
)
from dpsdk.errors import InvalidArgument
from dpsdk.forms import Facts
from dpsdk.forms.assumptions import NOTHING, Assumptions
from dpsdk.notes import Note
from dpsdk.release.cost import Cost
from dpsdk.typing import Floats

__all__ = ["ACCURACIES", "Quote", "check_quote"]

ACCURACIES = (HalfWidths, ScalarAccuracy, NoAccuracy)
"""The classes below which every accuracy is."""


@frozen(repr=False)
class Quote:
    """The cost and the error that a mechanism states for a form. Spends nothing.

    `at_open` is paid when a channel opens; `at_most` bounds what is paid in all, for the channel
    and this one answer. Errors are in raw counts of rows unless a session gave them a unit.
    """

    at_open: Cost
    at_most: Cost
    accuracy: Accuracy
    _lifting: Lifting[object] | None = None
    _facts: Facts | None = None
    _assumptions: Assumptions = NOTHING
    notes: tuple[Note, ...] = field(default=(), kw_only=True)
    """What readers of the answer have to know beside its bound, where a session tells it."""

    def error(self, beta: float = 0.05) -> float:
        """With probability 1 - beta, no entry of the answer will be off by more than this.

        Raises
        ------
        NoBound
            If nothing is proven or promised beforehand. `bound` says so without raising.
        """
        return finite(self.bound(beta), self.accuracy, "this quote")

    def bound(self, beta: float = 0.05) -> Bound:
        """All that is known of it, on what it rests, and if it says anything. Raises nothing."""
        return self._presumed(beta, NOTHING)

    def assumed(self, beta: float = 0.05) -> Bound | None:
        """The bound that holds if what the quote was told to assume is true.

        With probability 1 - beta, no answer for a table of which it is true will be off by more,
        nor will the release of a mean state more. A release knows of no assumption: of an
        `Above` of a share of privately many rows it states no bound at all. None where nothing was
        assumed, or where that adds nothing to `bound`.
        """
        facts, assumptions = self._facts, self._assumptions
        if facts is None or assumptions.nothing:
            return None
        bound, known = self._presumed(beta, assumptions), self.bound(beta)
        if not bound.proven or (known.proven and known.error <= bound.error):
            return None
        return bound.under(" and ".join(assumptions.words(facts)))

    def _presumed(self, beta: float, assumptions: Assumptions) -> Bound:
        accuracy, lifting, facts = self.accuracy, self._lifting, self._facts
        if facts is None:
            return bound_of(accuracy, lambda radii: radii, math.inf, beta)
        if lifting is None:
            return bound_of(accuracy, None, math.inf, beta)
        return bound_of(
            accuracy,
            lambda radii: lifting.presumed(radii, partial(_apart, accuracy), facts, assumptions),
            lifting.span(facts),
            beta,
            lambda radii: lifting.coarseness(None, radii, facts),
        )

    def for_query(
        self,
        lifting: Lifting[object] | None,
        facts: Facts,
        assumptions: Assumptions = NOTHING,
        notes: tuple[Note, ...] = (),
    ) -> Quote:
        """The quote in the unit of a query's answer, if the query says what that is."""
        costs = self.at_open, self.at_most
        return Quote(*costs, self.accuracy, lifting, facts, assumptions, notes=notes)

    def _repr_html_(self) -> str:
        """Return the HTML that a notebook shows."""
        bound, assumed = self.bound(0.05), self.assumed(0.05)
        told: list[tuple[str, object]] = [
            ("at open", self.at_open),
            ("at most", self.at_most),
            ("error", f"± {bound.words}" if bound.proven else bound.words),
        ]
        if assumed is not None:
            told.append((assumed.kind, f"± {assumed.words}"))
        told += [("note", str(note)) for note in self.notes]
        return page("Quote", pairs(told))

    def __repr__(self) -> str:
        bound, assumed = self.bound(0.05), self.assumed(0.05)
        error = f"error {bound.words}" if bound.proven else bound.words
        if assumed is not None and self._facts is not None:
            believed = " and ".join(self._assumptions.words(self._facts))
            error = f"{error}; {assumed.words}: {believed}"
        told = ", ".join([error, *[f"note: {note}" for note in self.notes]])
        return f"Quote(at open {self.at_open}, at most {self.at_most}, {told})"


def _apart(accuracy: Accuracy) -> Floats:
    """Half-widths each by itself, as queries are shown them to settle what their numbers tell."""
    if not isinstance(accuracy, HalfWidths):
        raise TypeError(type(accuracy).__name__)
    return accuracy.radii(0.05, joint=False)


def check_quote(given: object, mechanism: object) -> Quote:
    """Check the quote of a mechanism, of whichever author: costs and an accuracy."""
    if type(given) is not Quote:
        got = f"{described(mechanism)}, which gave a {described(type(given).__name__[:80])}"
        raise InvalidArgument("using", "a mechanism that quotes by a Quote", got)
    costs: list[object] = [getattr(given, name, None) for name in ("at_open", "at_most")]
    known = isinstance(getattr(given, "accuracy", None), ACCURACIES)
    if not known or any(type(cost) is not Cost for cost in costs):
        expected = "a mechanism whose quote has two costs and an accuracy of dpsdk.release"
        raise InvalidArgument("using", expected, f"{described(mechanism)}, whose quote has others")
    for cost in (given.at_open, given.at_most):
        for run, _ in cost.runs:
            check_guarantee(run)
    return given
