"""What a family is: the mechanisms of one kind with settings chosen, and how dear they may be."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import Any, Literal, Protocol, TypeAlias

from attrs import evolve, frozen

from dpsdk.accounting import Budget
from dpsdk.accuracy import NoAccuracy
from dpsdk.forms import ConvexForm, Form, Identity, Kronecker, LinearForm
from dpsdk.mechanisms import DistributionMechanism, Mechanism
from dpsdk.planner.reasons import reason
from dpsdk.planner.task import Task
from dpsdk.release import Quote
from dpsdk.release.release import Reason

__all__ = ["Family", "Unit", "concentrated", "paired", "priced_by", "pure"]

Unit: TypeAlias = Literal["epsilon", "rho", "pair"]
"""What an amount of a family is. A pure ε, a ρ of zCDP, or an ε beside the δ of the task."""

_OF_MODELS = NoAccuracy(
    "the model is the best one of a distribution that was fitted to noisy numbers",
    "ask PrivateMinimizer, which compares a model with the table",
)


@frozen(eq=False)
class Family:
    """Mechanisms of one kind for one task.

    `at` and `within` raise `InvalidArgument` where there is no such mechanism, as for an ε that no
    ρ is certified for.

    Parameters
    ----------
    code
        What it is called, as in written forms: "laplace". Where one mechanism has several sensible
        settings, with a suffix: "residual-planner+nonnegative".
    unit
        What the amount of `at` is.
    at
        The mechanism for an amount. Dearer ones are more exact.
    within
        The mechanism for a total, by itself: of pure ε where δ is 0.
    frees
        What is answered for nothing once it was paid; empty where nothing is.
    slow
        Whether a quote takes so long that only a few amounts can be tried.
    barred
        Why it cannot be taken here, by a public rule; then it need not be quoted. None where the
        mechanism itself has the last word.
    """

    code: str
    unit: Unit
    at: Callable[[Fraction], Mechanism[Any]]
    within: Callable[[Budget], Mechanism[Any]]
    frees: str = ""
    slow: bool = False
    barred: Reason | None = None

    def quote(self, mechanism: Mechanism[Any], task: Task[Any, Any]) -> Quote:
        """What one of its mechanisms would cost for a task, and how far off it would be.

        Of a model that is read off a distribution too, which costs nothing beyond that.
        """
        form: object = task.form
        quote = mechanism.quote(priced_by(mechanism, task.form), task.terms)
        if isinstance(form, ConvexForm) and isinstance(mechanism, DistributionMechanism):
            return Quote(quote.at_open, quote.at_most, _OF_MODELS)
        return quote

    def without(self, code: str) -> Family:
        """The same, barred by what the code of a reason says is missing."""
        return evolve(self, barred=reason(code))


def priced_by(mechanism: Mechanism[Any], form: Form) -> Form:
    """The form for which a mechanism quotes what a question costs.

    A model is read off a distribution for nothing, so that any form tells what that costs.
    """
    if isinstance(form, ConvexForm) and isinstance(mechanism, DistributionMechanism):
        return _counted(form)
    return form


def _counted(form: ConvexForm) -> LinearForm:
    """The counts of the labels of a model, which every distribution over its universe knows."""
    size = form.domain[form.label].size
    return LinearForm(form.domain, (Kronecker.of(form.domain, {form.label: Identity(size)}),))


class _Totalled(Protocol):
    """What is made for a total: an ε, an ε and a δ, or a ρ."""

    def __call__(
        self, *, epsilon: Fraction | None = ..., delta: Fraction = ..., rho: Fraction | None = ...
    ) -> Mechanism[Any]: ...


def pure(
    code: str, make: Callable[[Fraction], Mechanism[Any]], frees: str = "", *, slow: bool = False
) -> Family:
    """A family with Laplace noise, or another of pure ε."""
    return Family(code, "epsilon", make, lambda budget: make(budget.epsilon), frees, slow)


def concentrated(code: str, make: _Totalled, frees: str = "", *, slow: bool = False) -> Family:
    """A family with Gaussian noise, of a ρ or of an (ε, δ) that one is certified for."""

    def at(amount: Fraction) -> Mechanism[Any]:
        return make(rho=amount)

    def within(budget: Budget) -> Mechanism[Any]:
        return make(epsilon=budget.epsilon, delta=budget.delta)

    return Family(code, "rho", at, within, frees, slow)


def paired(
    code: str,
    make: Callable[[Fraction, Fraction], Mechanism[Any]],
    delta: Fraction,
    frees: str = "",
    *,
    slow: bool = False,
) -> Family:
    """A family that takes an ε and a δ, the second of which is the whole δ of the task."""

    def at(amount: Fraction) -> Mechanism[Any]:
        return make(amount, delta)

    def within(budget: Budget) -> Mechanism[Any]:
        return make(budget.epsilon, budget.delta)

    return Family(code, "pair", at, within, frees, slow)
