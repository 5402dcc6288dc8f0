"""Families: mechanisms of one kind, from cheap and vague to dear and exact, and when they apply."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any, Literal, TypeAlias

from attrs import frozen

from dpsdk.accounting import Budget
from dpsdk.forms import LinearForm
from dpsdk.mechanisms import Gaussian, Laplace, Mechanism
from dpsdk.planner.task import Task

__all__ = ["Family", "Unit", "families"]

Unit: TypeAlias = Literal["epsilon", "rho", "pair"]
"""What an amount of a family is: a pure ε, a ρ of zCDP, or an ε beside the δ of the task."""


@frozen(eq=False)
class Family:
    """Mechanisms of one kind for one task.

    Parameters
    ----------
    code
        What it is called, as in written forms: "laplace".
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
    """

    code: str
    unit: Unit
    at: Callable[[Fraction], Mechanism[Any]]
    within: Callable[[Budget], Mechanism[Any]]
    frees: str = ""
    slow: bool = False


def families(task: Task[Any, Any]) -> Sequence[Family]:
    """All that could answer a task, by public rules. Whoever cannot refuses when it is quoted."""
    form: object = task.form
    if not isinstance(form, LinearForm):
        return ()
    found = [
        Family(
            "laplace",
            "epsilon",
            lambda amount: Laplace(epsilon=amount),
            lambda budget: Laplace(epsilon=budget.epsilon),
        )
    ]
    if task.balance.budget.delta:
        found.append(
            Family(
                "gaussian",
                "rho",
                lambda amount: Gaussian(rho=amount),
                lambda budget: Gaussian(epsilon=budget.epsilon, delta=budget.delta),
            )
        )
    return found
