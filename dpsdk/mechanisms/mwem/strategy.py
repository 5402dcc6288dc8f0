"""What answers once a batch was learnt, and how far off it may be."""

from __future__ import annotations

from attrs import field, frozen

from dpsdk.accuracy import Accuracy, NoAccuracy, PromisedAccuracy
from dpsdk.errors import TooLarge
from dpsdk.forms import LinearForm
from dpsdk.hypothesis import Distribution
from dpsdk.kernel import Kernel
from dpsdk.mechanisms.refusals import check_linear
from dpsdk.release import Measurement

__all__ = ["MWEMStrategy", "Promised"]

_UNPROVEN = (
    "read off a distribution that was fitted to noisy answers",
    "open MWEM.textbook or MWEM.averaged, which promise an error, or a mechanism that measures",
)
_BESIDE = (
    "the promise is about the functions of the workload, and this asks for others",
    "open a channel for a workload that has them, or use a mechanism that measures",
)


@frozen(eq=False)
class Promised:
    """An error in rows that holds, with probability 1 - beta, for all functions of a workload."""

    workload: LinearForm
    error: float
    beta: float
    _known: list[frozenset[bytes]] = field(factory=list[frozenset[bytes]], repr=False)

    def covers(self, form: LinearForm) -> bool:
        """Whether all functions of a form are known to be in the workload.

        Lines of so many cells that nobody could write them out are not known to be.
        """
        try:
            if not self._known:
                self._known.append(frozenset(self.workload.row_identities()))
            return self._known[0].issuperset(form.row_identities())
        except TooLarge:
            return False


@frozen(eq=False)
class MWEMStrategy:
    """Answers every linear form from the distribution that was learnt. Costs nothing.

    Parameters
    ----------
    distribution
        What was learnt.
    rows
        How many rows its shares are shares of: the public number of rows, or a paid estimate.
    chosen
        Which option each round chose: the number of a block of the workload, or of a function. Of
        n functions, option n + i is the negation of the i-th.
    promise
        What is proven of the answers to the workload, None where nothing is.
    """

    distribution: Distribution
    rows: float
    chosen: tuple[int, ...]
    promise: Promised | None = None

    def answer(self, form: LinearForm, kernel: Kernel, /) -> Measurement:
        """Counts of rows, read off the distribution."""
        del kernel
        check_linear(form, "MWEM")
        return Measurement(self.distribution.answers(form) * self.rows, self._of(form), "fitted")

    def _of(self, form: LinearForm) -> Accuracy:
        promise = self.promise
        if promise is None:
            return NoAccuracy(*_UNPROVEN)
        if not promise.covers(form):
            return NoAccuracy(*_BESIDE)
        return PromisedAccuracy(promise.error, promise.beta, form.rows)
