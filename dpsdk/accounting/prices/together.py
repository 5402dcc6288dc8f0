"""What several periods of a person have together, of which each keeps a budget of its own."""

from __future__ import annotations

from fractions import Fraction

from dpsdk._checks import shown, to_integer
from dpsdk.accounting.budget import Budget
from dpsdk.accounting.numbers import DOWN, UP, exp_down, exp_up, fraction_down, fraction_up
from dpsdk.errors import InvalidArgument

__all__ = ["most_together", "together"]


def together(budget: Budget, periods: int) -> tuple[Fraction, Fraction]:
    """The (ε, δ) of a person with rows in so many periods; δ is rounded up, and is 1 at the most.

    By group privacy: jε and δ (e^(jε) - 1) / (e^ε - 1), as docs/explanation/proofs/periods.md has
    it. A δ of 1 promises nothing.

    >>> from dpsdk import Budget
    >>> from dpsdk.accounting.prices.together import most_together, together
    >>> epsilon, delta = together(Budget(1, "1e-6"), 7)
    >>> f"({float(epsilon):g}, {float(delta):.2g})", most_together(Budget(1, "1e-6"))
    ('(7, 0.00064)', 14)
    """
    expected = "a positive integer"
    count = to_integer("periods", periods, expected)
    if count < 1:
        raise InvalidArgument("periods", expected, shown(periods))
    epsilon = budget.epsilon * count
    if count == 1 or not budget.delta:
        return epsilon, budget.delta
    grown = UP.subtract(exp_up(fraction_up(epsilon)), 1)
    one = DOWN.subtract(exp_down(fraction_down(budget.epsilon)), 1)
    if one <= 0:  # of an ε that is smaller than the digits
        return epsilon, Fraction(1)
    delta = UP.multiply(fraction_up(budget.delta), UP.divide(grown, one))
    return epsilon, Fraction(delta) if delta < 1 else Fraction(1)


def most_together(budget: Budget) -> int | None:
    """In how many periods a person may have rows with a δ below 1; None without end, at δ = 0."""
    if not budget.delta:
        return None
    most = 1
    while together(budget, 2 * most)[1] < 1:
        most *= 2
    step = most
    while step := step // 2:
        if together(budget, most + step)[1] < 1:
            most += step
    return most
