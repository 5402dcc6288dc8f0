"""Proven brackets of exp(-x) in integers, to any precision: what every lazy comparison rests on."""

from __future__ import annotations

from fractions import Fraction
from typing import TypeAlias

__all__ = ["Bracket", "exp_bracket", "round_up"]

Bracket: TypeAlias = tuple[int, int]
"""Integers (low, high) around a real number, in units of 2^-precision."""


def round_up(numerator: int, shift: int) -> int:
    """The least integer not below numerator / 2^shift."""
    return -(-numerator >> shift)


def exp_bracket(x: Fraction, precision: int) -> Bracket:
    """Integers with low <= 2^precision · exp(-x) <= high, a few units apart at most, for x >= 0.

    The alternating Taylor series on x / 2^h <= 1/2, then h squarings rounded outwards.
    """
    if x == 0:
        return 1 << precision, 1 << precision
    if x >= precision:
        return 0, 1
    halvings = max(0, (x.numerator // x.denominator + 1).bit_length() + 1)
    guard = halvings + 16 + precision.bit_length()
    working = precision + guard
    step = (x.numerator << working) // (x.denominator << halvings)
    low, high = _series(step, working)
    for _ in range(halvings):
        low, high = low * low >> working, round_up(high * high, working)
    return low >> guard, min(1 << precision, round_up(high, guard))


def _series(step: int, precision: int) -> Bracket:
    """A bracket of exp(-y) for each y between `step` and `step` + 1 units, and at most a half."""
    # Each term is below its true value by less than two units, since the step is at most a half.
    term = total = 1 << precision
    order = 0
    while term:
        order += 1
        term = term * step // (order << precision)
        total += -term if order % 2 else term
    # Two units a term, two for the terms never summed, one for rounding the step.
    slack = 2 * order + 4
    return max(0, total - slack), total + slack
