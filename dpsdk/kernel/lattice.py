"""The steps onto the lattice that all primitives share: from weights to integers that add exactly.

A form goes onto a lattice of step 2**-bits before anything is summed. How fine it is follows from
the form, the noise and public facts only; it is never so fine that a sum could leave the integers
that floats hold, and that is proven before anything is charged.
"""

from __future__ import annotations

import math

import numpy as np

from dpsdk.errors import InvalidArgument
from dpsdk.forms import LinearForm
from dpsdk.forms.linear import EXACT
from dpsdk.kernel.copies import OwnForm
from dpsdk.typing import Floats, Ints

__all__ = ["allowed_bits", "exact", "exact_one", "finest", "on_given_lattice", "on_lattice"]

_FINEST = 40
"""The finest lattice has steps of 2**-40."""

_LEFT = "a sum left the integers that floats hold"


def finest(wanted: float, least: int = 0) -> int:
    """So many bits, rounded up, but at least the least and no more than the finest lattice has."""
    return math.ceil(min(max(wanted, least), _FINEST))


def allowed_bits(row_limit: int) -> int:
    """How fine a lattice may be on which all rows add weights from 0 to 1, and a sign is left."""
    return math.floor(math.log2(EXACT / max(row_limit, 1))) - 1


def on_lattice(own: OwnForm, bits: int) -> tuple[int, LinearForm, float]:
    """A form in integer units of 2**-bits, and the largest change of a weight.

    With so many bits, or as many as exact sums allow. Rounding moves a weight by half a step at the
    most, so all rows together move an answer by half a step each; what that is, is part of the
    error bound. Integer weights stay on the integers if no bits are wanted.

    Raises
    ------
    InvalidArgument
        If the counts could not be summed exactly on any lattice.
    """
    form = own.form
    while True:
        lattice, change = own.lattice(bits) if bits or not form.integral else (form, 0.0)
        excess = own.reaches(lattice)
        if excess < 1.0:
            return bits, lattice, change
        if not bits:
            raise _too_large("weights", lattice)
        step = math.ceil(math.log2(excess)) if excess < math.inf else bits
        bits = max(0, bits - max(1, step))


def on_given_lattice(own: OwnForm, bits: int, parameter: str) -> tuple[LinearForm, float]:
    """The same with just so many bits, for what shares a lattice with others.

    Raises
    ------
    InvalidArgument
        If the counts could not be summed exactly there; it names the parameter.
    """
    lattice, change = own.lattice(bits)
    if not own.reaches(lattice) < 1.0:
        raise _too_large(parameter, lattice)
    return lattice, change


def _too_large(parameter: str, lattice: LinearForm) -> InvalidArgument:
    expected = "small enough that rows times weight stay within 2**53"
    return InvalidArgument(parameter, expected, f"up to {lattice.reach:.3g} a row")


def exact(answers: Floats) -> Ints:
    """The integers that exact sums are, for work behind the wall.

    Raises
    ------
    ArithmeticError
        If a sum left the integers that floats hold. No data leads there: that sums stay within
        2**53 was proven before the charge.
    """
    if not (np.abs(answers) < EXACT).all():
        raise ArithmeticError(_LEFT)
    return answers.astype(np.int64)


def exact_one(answer: float) -> int:
    """The same for one number. Raises as `exact` does."""
    if not abs(answer) < EXACT:
        raise ArithmeticError(_LEFT)
    return int(answer)
