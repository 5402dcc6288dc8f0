"""A family: the mechanisms of one kind for one task, from cheap to expensive."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import Any, Literal, Protocol

from dpsdk._records import evolve, frozen
from dpsdk.accounting import Budget
from dpsdk.accuracy import NoAccuracy
from dpsdk.forms import ConvexForm
from dpsdk.mechanisms import DistributionMechanism, Mechanism
from dpsdk.mechanisms.base import priced_by
from dpsdk.planner.reasons import reason
from dpsdk.planner.task import Task
from dpsdk.release import Quote
from dpsdk.release.release import Reason

__all__ = ["Family", "concentrated", "paired", "pure"]

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
        The name in written forms: "laplace". Where one mechanism has several sensible settings,
        with a suffix: "residual-planner+nonnegative".
    unit
        The amount of `at`: a pure ε, a ρ of zCDP, or an ε beside the δ of the task.
    at
        Makes the mechanism for an amount. Dearer ones are more exact.
    within
        Makes the mechanism for a total: of pure ε where δ is 0.
    frees
        What is answered for nothing once it was paid, in words.
    slow
        Whether a quote takes so long that only a few amounts can be tried.
    passes
        How often an answer passes over all cells of the universe, roughly.
    barred
        Why a public rule excludes it; then it need not be quoted.
    """

    code: str
    unit: Literal["epsilon", "rho", "pair"]
    at: Callable[[Fraction], Mechanism[Any]]
    within: Callable[[Budget], Mechanism[Any]]
    frees: str = ""
    slow: bool = False
    passes: int = 0
    barred: Reason | None = None

    def quote(self, mechanism: Mechanism[Any], task: Task[Any, Any]) -> Quote:
        """Quote one of its mechanisms for a task; a model read off a distribution is free."""
        form: object = task.form
        quote = mechanism.quote(priced_by(mechanism, task.form), task.terms)
        if isinstance(form, ConvexForm) and isinstance(mechanism, DistributionMechanism):
            return Quote(quote.at_open, quote.at_most, _OF_MODELS)
        return quote

    def without(self, code: str) -> Family:
        """Return the same family, barred by the reason of a code."""
        return evolve(self, barred=reason(code))


class _Pure(Protocol):
    """Makes a mechanism for an ε."""

    def __call__(self, *, epsilon: Fraction) -> Mechanism[Any]: ...


class _Totalled(Protocol):
    """Makes a mechanism for a total: an ε, an ε and a δ, or a ρ."""

    def __call__(
        self, *, epsilon: Fraction | None = ..., delta: Fraction = ..., rho: Fraction | None = ...
    ) -> Mechanism[Any]: ...


def pure(
    code: str,
    make: _Pure,
    frees: str = "",
    *,
    slow: bool = False,
    passes: int = 0,
) -> Family:
    """Return a family of pure ε."""
    return Family(
        code,
        "epsilon",
        lambda amount: make(epsilon=amount),
        lambda budget: make(epsilon=budget.epsilon),
        frees,
        slow,
        passes,
    )


def concentrated(
    code: str,
    make: _Totalled,
    frees: str = "",
    *,
    slow: bool = False,
    passes: int = 0,
) -> Family:
    """Return a family with Gaussian noise, of a ρ or of an (ε, δ) that a ρ is certified for."""
    return Family(
        code,
        "rho",
        lambda amount: make(rho=amount),
        lambda budget: make(epsilon=budget.epsilon, delta=budget.delta),
        frees,
        slow,
        passes,
    )


def paired(
    code: str,
    make: Callable[[Fraction, Fraction], Mechanism[Any]],
    delta: Fraction,
    frees: str = "",
    *,
    slow: bool = False,
    passes: int = 0,
) -> Family:
    """Return a family that takes an ε and a δ, the second of which is the whole δ of the task."""
    return Family(
        code,
        "pair",
        lambda amount: make(amount, delta),
        lambda budget: make(budget.epsilon, budget.delta),
        frees,
        slow,
        passes,
    )
