"""How many digits of a number are written: as many as its noise leaves."""

from __future__ import annotations

import math
from decimal import ROUND_CEILING, Context, Decimal
from fractions import Fraction
from typing import Literal, TypeAlias

from attrs import frozen

__all__ = ["Digits", "Step", "step_of"]

Digits: TypeAlias = Literal["noise", "full"]
"""What is written of a number, what the noise leaves of it or all."""

_UP = Context(prec=4, rounding=ROUND_CEILING)
"""Errors are stated in four digits, rounded up."""


_EXACT = 2.0**53

_FINEST = 12
"""So many digits after the point, and any before it, are told apart by floats; more are all."""


@frozen
class Step:
    """The decimal grid on which numbers are written that are off by up to `error`.

    The step of the grid is the largest power of ten that is at most a tenth of the error, so a
    number moves by no more than half of that, a twentieth of the error. What is stated of a number
    as it is written is the error and half a step, rounded up: by the triangle inequality that
    covers the truth wherever the error does.

    Parameters
    ----------
    error
        How far off a number is before it is written.
    places
        How many digits follow the point; below 0 tens, hundreds and so on. None to write all.
    """

    error: float
    places: int | None

    @property
    def size(self) -> Fraction:
        """The step, 0 where all digits are written."""
        return Fraction(0) if self.places is None else Fraction(10) ** -self.places

    @property
    def stated(self) -> float:
        """How far off a number is as it is written."""
        if self.places is None:
            return self.error
        whole = Fraction(self.error) + self.size / 2
        # Rounded up twice, so that both steps are upwards: to 40 digits, and to four of them.
        long = Context(prec=40, rounding=ROUND_CEILING)
        stated = float(_UP.plus(long.divide(Decimal(whole.numerator), Decimal(whole.denominator))))
        return stated if stated >= whole else math.nextafter(stated, math.inf)

    def written(self, value: float) -> float | int:
        """A number on the grid, the nearest one; a whole number where the grid has no other."""
        # Beyond 2^53 the grid may have no number that is a float.
        if self.places is None or not abs(value) < _EXACT:
            return value
        # Python rounds the very number that a float is, and not a product near it.
        rounded = round(value, self.places) + 0.0
        return rounded if self.places > 0 else int(rounded)


def step_of(error: float, digits: Digits) -> Step:
    """The grid for numbers that are off by up to `error`, which may be infinite or 0."""
    if digits == "full" or not 0 < error < math.inf:
        return Step(error, None)
    places = 1 - Decimal(error).adjusted()
    return Step(error, places if places <= _FINEST else None)
