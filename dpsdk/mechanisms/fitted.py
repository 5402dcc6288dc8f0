"""Strategies that read answers off a public distribution."""

from __future__ import annotations

import numpy as np

from dpsdk._records import frozen
from dpsdk.errors import PublicSizeRequired
from dpsdk.forms import ConvexForm, LinearForm
from dpsdk.hypothesis import Distribution
from dpsdk.kernel import Kernel
from dpsdk.mechanisms.refusals import check_linear
from dpsdk.release import Measurement, NoAccuracy

__all__ = ["Fitted", "modelled"]

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


def modelled(form: ConvexForm, distribution: Distribution) -> Measurement:
    """The θ that is best for a distribution, and after it the certified gap. Costs nothing."""
    theta, gap = form.minimise(distribution)
    return Measurement(np.append(theta, gap), _MODELLED, "hypothesis")
