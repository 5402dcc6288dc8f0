"""What an oracle is: a way to find one model within a total, as a frozen public value."""

from __future__ import annotations

from abc import ABC, abstractmethod
from fractions import Fraction
from typing import TypeAlias

from dpsdk.accounting import Budget
from dpsdk.forms import ConvexForm
from dpsdk.kernel import Kernel, Terms
from dpsdk.release import Measurement, Quote

__all__ = ["Oracle", "Total"]

Total: TypeAlias = Budget | Fraction
"""An (ε, δ), or a ρ, that all runs of an oracle together may cost by the session's composition."""


class Oracle(ABC):
    """A way to find the θ of least average loss, made of public parameters.

    It asks the kernel for linear forms alone, such as gradients at public θ, and never minimises
    anything over private data. All that it checks, and all that may refuse, comes before the first
    charge and follows from public facts.
    """

    __slots__ = ()

    @abstractmethod
    def quote(self, form: ConvexForm, terms: Terms, total: Total, /) -> Quote:
        """What finding a model would cost, and what is known of its excess risk beforehand.

        The cost is `at_most`, and covers every run that `minimise` may make. Accuracies are of one
        number, the excess risk of the answer over the best θ of the set, in the unit of the loss.
        """

    @abstractmethod
    def minimise(self, form: ConvexForm, kernel: Kernel, total: Total, /) -> Measurement:
        """The θ of a model, and after it the certified gap of the solver that found it.

        The gap is infinite where no solver ran. What is charged is what `quote` told, or less.
        """
