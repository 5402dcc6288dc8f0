"""Strategies that read answers off a public distribution, and how one is learnt in rounds."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Generic, TypeVar

import numpy as np

from dpsdk._records import frozen
from dpsdk.errors import BudgetExceeded, PublicSizeRequired
from dpsdk.forms import ConvexForm, ConvexForms, LinearForm
from dpsdk.hypothesis import Distribution
from dpsdk.kernel import Kernel
from dpsdk.mechanisms.arguments import check_linear
from dpsdk.mechanisms.base import DistributionStrategy, Unfinished, WhyStopped
from dpsdk.release import Measurement, NoAccuracy

__all__ = ["Fitted", "Learner", "learn", "modelled"]

S = TypeVar("S", bound=DistributionStrategy)

_MODELLED = NoAccuracy(
    "the model was fitted on a public distribution, and never compared with the table",
    "read its excess over that distribution off the answer",
)


@frozen
class Fitted:
    """Answer every linear form from a public distribution that stays as it is. Costs nothing.

    How far off answers may be is what the distribution says of itself.

    Parameters
    ----------
    distribution
        Over the domain of the table.
    rows
        How many rows the shares of the distribution are shares of; the public number of rows of
        the table if left out.
    """

    distribution: Distribution
    rows: float | None = None

    def answer(self, form: LinearForm, kernel: Kernel, /) -> Measurement:
        """Counts of rows, read off the distribution.

        Raises
        ------
        PublicSizeRequired
            If no number of rows is given and that of the table is private.
        """
        check_linear(form, "what was fitted once")
        facts = kernel.facts
        rows = facts.rows if self.rows is None else self.rows
        if rows is None:
            reason = "its distribution knows shares alone, and the number of rows is private"
            raise PublicSizeRequired("", reason)
        values = self.distribution.answers(form) * rows
        accuracy = self.distribution.accuracy(form, facts)
        return Measurement(values, accuracy, "fitted")


def modelled(form: ConvexForm | ConvexForms, distribution: Distribution) -> Measurement:
    """The θ that is best for a distribution, and after it the certified gap. Costs nothing.

    Of several models those of each in turn.
    """
    if isinstance(form, ConvexForms):
        parts = [modelled(part, distribution).values for part in form.parts]
        return Measurement(np.concatenate(parts), _MODELLED, "hypothesis")
    theta, gap = form.fit(distribution)
    return Measurement(np.append(theta, gap), _MODELLED, "hypothesis")


class Learner(ABC, Generic[S]):
    """The method by which a distribution is learnt. A round that fails leaves all as it was."""

    begun = False
    """True if anything was paid for."""

    @property
    @abstractmethod
    def learnt(self) -> bool:
        """True if anything was released to it."""

    @property
    def done(self) -> bool:
        """True if further rounds are not worth their price."""
        return False

    @abstractmethod
    def round(self, kernel: Kernel) -> None:
        """Buy something, and learn it."""

    @abstractmethod
    def strategy(self, *, finished: bool) -> S:
        """The strategy that answers now."""


def learn(kernel: Kernel, rounds: int, learner: Learner[S], unit: str = "rounds") -> S:
    """All rounds, unless somebody stops them; see `Unfinished`."""

    def ended(why: WhyStopped) -> Unfinished:
        return Unfinished(learner.strategy(finished=False), why)

    try:
        for done in range(rounds):
            if kernel.progress(done, rounds, unit):
                raise ended("stop")
            # A refusal that the stop meets with questions of its own is for the caller.
            try:
                learner.round(kernel)
            except BudgetExceeded:
                if not learner.begun:
                    raise
                raise ended("budget") from None
            if learner.done:
                break
        strategy = learner.strategy(finished=True)
        kernel.progress(rounds, rounds, unit)
    except KeyboardInterrupt:
        if not learner.learnt:
            raise
        raise ended("interrupt") from None
    return strategy
