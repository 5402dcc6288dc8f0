"""Exact sums in constant space: numbers as big integers on a fixed grid, rounded to one side.

A step of the grid is 10^-50 (of leaks 10^-400) divided by the least common multiple of 1 to 100.
Decimal fractions lie on it, and so do their halves, thirds, ... and hundredths: ten charges of 0.1,
or three of 1/3, fill a budget of 1 exactly. Everything else is rounded against the caller, budgets
down and charges up, by less than a step.
"""

from __future__ import annotations

import math
from fractions import Fraction

__all__ = ["LEAK_STEPS", "STEPS", "ceil_steps", "floor_steps", "from_steps"]

_PARTS = math.lcm(*range(1, 101))

STEPS = 10**50 * _PARTS
"""Steps in one unit of epsilon, rho or a squared Gaussian shift."""

LEAK_STEPS = 10**400 * _PARTS
"""Steps in one unit of delta."""


def floor_steps(value: Fraction, steps: int = STEPS) -> int:
    """The number of whole steps in a value: for what may be spent."""
    return value.numerator * steps // value.denominator


def ceil_steps(value: Fraction, steps: int = STEPS) -> int:
    """The number of steps that cover a value: for what is charged."""
    return -(-value.numerator * steps // value.denominator)


def from_steps(count: int, steps: int = STEPS) -> Fraction:
    """The value of a number of steps, exactly."""
    return Fraction(count, steps)
