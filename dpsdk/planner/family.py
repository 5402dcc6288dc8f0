"""A family: the mechanisms of one kind for one task, from cheap to expensive."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import Any, Literal

from dpsdk import forms
from dpsdk._records import evolve, frozen
from dpsdk.accounting import Budget
from dpsdk.accuracy import NoAccuracy
from dpsdk.mechanisms import DistributionMechanism, Mechanism
from dpsdk.mechanisms.base import priced_by
from dpsdk.planner.reasons import reason
from dpsdk.planner.task import Task
from dpsdk.release import Quote
from dpsdk.release.release import Reason

__all__ = ["Family"]

_OF_MODELS = NoAccuracy(
    "the model is the best one of a distribution that was fitted to noisy numbers",
    "ask PrivateMinimizer, which compares a model with the table",
)


@frozen(eq=False)
class Family:
    """Mechanisms of one kind for one task.

    Parameters
    ----------
    code
        The name in written forms: "laplace". Where one mechanism has several sensible settings,
        with a suffix: "residual-planner+nonnegative".
    unit
        The amount of `at`: a pure ε, a ρ of zCDP, or an ε beside `delta`.
    make
        Makes the mechanism, by `epsilon=`, by `epsilon=` and `delta=`, or by `rho=`.
    frees
        What is answered for nothing once it was paid, in words.
    slow
        Whether a quote takes so long that only a few amounts can be tried.
    passes
        How often an answer passes over all cells of the universe, roughly.
    delta
        The whole δ of the task, where amounts are beside it.
    barred
        Why a public rule excludes it; then it need not be quoted.
    """

    code: str
    unit: Literal["epsilon", "rho", "pair"]
    make: Callable[..., Mechanism[Any]]
    frees: str = ""
    slow: bool = False
    passes: int = 0
    delta: Fraction = Fraction(0)
    barred: Reason | None = None

    def at(self, amount: Fraction) -> Mechanism[Any]:
        """Make the mechanism for an amount, of which larger ones are more exact.

        Like `within`, it raises `InvalidArgument` where there is none, as for an ε that no ρ is
        certified for.
        """
        if self.unit == "rho":
            return self.make(rho=amount)
        return self.make(epsilon=amount, **({"delta": self.delta} if self.unit == "pair" else {}))

    def within(self, budget: Budget) -> Mechanism[Any]:
        """Make the mechanism for a total."""
        if self.unit == "epsilon":
            return self.make(epsilon=budget.epsilon)
        return self.make(epsilon=budget.epsilon, delta=budget.delta)

    def quote(self, mechanism: Mechanism[Any], task: Task[Any, Any]) -> Quote:
        """Quote one of its mechanisms for a task; a model read off a distribution is free."""
        form: object = task.form
        quote = mechanism.quote(priced_by(mechanism, task.form), task.terms)
        if isinstance(mechanism, DistributionMechanism) and isinstance(
            form, forms.ConvexForm | forms.ConvexForms
        ):
            return Quote(quote.at_open, quote.at_most, _OF_MODELS)
        return quote

    def without(self, code: str) -> Family:
        """Return the same family, barred by the reason of a code."""
        return evolve(self, barred=reason(code))
