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

_ROUNDINGS = Fraction(1, 2**50)
"""A share and its error, each a whole number times 1 / rows in floats, are no farther off."""

_EXACT = 2.0**53

_COARSEST = -15
"""From steps of so many noughts on, numbers may be too large to be told apart as floats."""

_FINEST = 12
"""So many digits after the point, and any before it, are told apart by floats; more are all."""


@frozen
class Step:
    """The decimal grid on which numbers are written that are off by up to `error`.

    The step of the grid is the largest power of ten that is at most a tenth of the error, so a
    number moves by no more than half of that, a twentieth of the error. So a number as it is
    written is off by no more than the error and half a step, by the triangle inequality. Where the
    truth is known to be a multiple of `unit`, both it and the number as it is written are multiples
    of the greatest common divisor of unit and step, and so is what they are apart: the largest such
    multiple within that sum is as far as it goes. Whole counts that are written in steps of one
    row, or of a part of it, are then off by the error alone. What is stated is rounded up, and
    meant as the decimal that it prints as.

    Parameters
    ----------
    error
        How far off a number is before it is written.
    places
        How many digits follow the point; below 0 tens, hundreds and so on. None to write all.
    unit
        What the truth is a multiple of: a row, or the share of one row; 0 where that is not known.
    """

    error: float
    places: int | None
    unit: Fraction = Fraction(0)

    @property
    def size(self) -> Fraction:
        """The step, 0 where all digits are written."""
        return Fraction(0) if self.places is None else Fraction(10) ** -self.places

    @property
    def stated(self) -> float:
        """How far off a number is as it is written."""
        if self.places is None:
            return self.error
        far = Fraction(repr(self.error)) + self.size / 2
        if self.unit:
            common = _common(self.size, self.unit)
            far = (far + (1 + far) * _ROUNDINGS) // common * common
        # Rounded up twice, so that both steps are upwards: to 40 digits, and to four of them.
        long = Context(prec=40, rounding=ROUND_CEILING)
        return float(_UP.plus(long.divide(Decimal(far.numerator), Decimal(far.denominator))))

    @property
    def whole(self) -> bool:
        """Whether numbers are written as whole ones: where the grid has no other."""
        return self.places is not None and _COARSEST < self.places <= 0

    @property
    def written_error(self) -> float | int:
        """What is stated, as it is written beside the numbers: whole if they are, and it is."""
        stated = self.stated
        return int(stated) if self.whole and stated.is_integer() else stated

    def written(self, value: float) -> float | int:
        """A number on the grid, the nearest one; a whole number where the grid has no other."""
        # Beyond 2^53 the grid may have no number that is a float.
        if self.places is None or not abs(value) < _EXACT:
            return value
        # Python rounds the very number that a float is, and not a product near it.
        rounded = round(value, self.places) + 0.0
        return int(rounded) if self.whole else rounded


def step_of(error: float, digits: Digits, unit: Fraction = Fraction(0)) -> Step:
    """The grid for numbers that are off by up to `error`, which may be infinite or 0.

    Their truth is a multiple of `unit`, as `Step` has it.
    """
    if digits == "full" or not 0 < error < math.inf:
        return Step(error, None, unit)
    places = 1 - Decimal(error).adjusted()
    return Step(error, places if places <= _FINEST else None, unit)


def _common(one: Fraction, other: Fraction) -> Fraction:
    """The largest number of which both are multiples."""
    above = math.gcd(one.numerator * other.denominator, other.numerator * one.denominator)
    return Fraction(above, one.denominator * other.denominator)
