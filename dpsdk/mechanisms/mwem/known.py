"""What mechanisms share that learn a workload which is known beforehand."""

from __future__ import annotations

from abc import abstractmethod

import numpy as np
from typing_extensions import override

from dpsdk._checks import to_count
from dpsdk._records import field, frozen
from dpsdk.accuracy import NoAccuracy
from dpsdk.errors import PublicSizeRequired
from dpsdk.forms import Facts, GapForm, LinearForm, Lowers
from dpsdk.kernel import Terms
from dpsdk.kernel.terms import facts_of
from dpsdk.mechanisms.arguments import (
    HasTotal,
    check_shares,
    to_workload,
)
from dpsdk.mechanisms.base import DistributionMechanism, MeasuresOnce
from dpsdk.mechanisms.numeric_sparse import midway
from dpsdk.mechanisms.sampled import (
    Sampled,
    notes_from,
)
from dpsdk.release import Note

__all__ = ["BESIDE", "LearnsWorkload", "MOST_ROUNDS", "gaps_of", "size_of", "to_rounds"]

MOST_ROUNDS = 10_000

BESIDE = NoAccuracy("the promise is about the functions of the workload alone")


@frozen(repr=False)
class LearnsWorkload(DistributionMechanism, MeasuresOnce[LinearForm], HasTotal):
    """A mechanism that learns a workload while it is opened, for a total."""

    workload: Lowers[LinearForm] = field(converter=to_workload)

    @abstractmethod
    def _begins(self, facts: Facts) -> Sampled | None:
        """The records to start from, by public facts where nothing was given; None for cells."""

    @override
    def notes(self, facts: Facts, /) -> tuple[Note, ...]:
        return notes_from(self._begins(facts))

    def _form(self, terms: Terms) -> LinearForm:
        """The form of the workload, of weights from -1 to 1."""
        form = self.workload.lower(facts_of(terms).domain)
        check_shares(form, type(self).__name__)
        return form

    def _promising(self, terms: Terms) -> LinearForm:
        """The same where an error is promised."""
        form = self._form(terms)
        if not terms.facts.replaced and terms.facts.outside:
            reason = (
                "what it promises is about the rows within the domain, which are counted where the "
                'number of rows is private, so load the table with outside="apart"'
            )
            raise PublicSizeRequired(repr(self), reason)
        return form


def to_rounds(value: int | None) -> int | None:
    """A number of rounds, or None for one that public facts tell."""
    return None if value is None else to_count("rounds", value, most=MOST_ROUNDS)


def size_of(facts: Facts) -> float:
    """The number of rows; as many as there may be, where it is private."""
    return float(max(facts.row_limit if facts.rows is None else facts.rows, 1))


def gaps_of(form: LinearForm, facts: Facts) -> GapForm:
    """Gaps that a choice costs as much as any that a round has."""
    if facts.replaced:
        return midway(form)
    return GapForm(form, np.zeros(form.rows), np.full(form.rows, size_of(facts)))
