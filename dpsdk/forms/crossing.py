"""Crossings: the value that a share of the rows is at or below, asked for as one choice.

A linear form counts the rows up to each value, and the quantile is read off all counts. A crossing
asks for the value alone, over however many: it is what `kernel.select` chooses from.
"""

from __future__ import annotations

import math
from fractions import Fraction
from hashlib import sha256
from typing import NoReturn, final

import numpy as np

from dpsdk._checks import to_probability
from dpsdk._records import field, frozen, shows_half_made
from dpsdk.domain import Domain, Number
from dpsdk.errors import InvalidArgument, TooLarge
from dpsdk.forms.base import Form
from dpsdk.forms.blocks import Kronecker
from dpsdk.forms.linear import ROW_LIMIT, LinearForm
from dpsdk.typing import Floats, Real

__all__ = ["Crossing", "UnwrittenForm", "chosen_place"]

_CROSSING = b"dpsdk crossing 1\0"

_DIGIT = 2**31
"""Two digits to this base are a place below 2^62, and each is exact in float64."""


def _to_q(value: Real) -> Fraction:
    return to_probability("q", value)


@frozen(eq=False)
class Crossing(Form):
    """The value of an ordered attribute at which the rows up to it reach a share q of all.

    Of M rows that count, a cell x is off by max(0, qM - #(rows at or below x), #(rows below x) -
    qM) ranks. Cells are numbered in their order.

    Parameters
    ----------
    domain
        The universe.
    attribute
        The attribute, of up to 2^62 cells.
    q
        The share, strictly between 0 and 1.
    where
        One function with weights 0 and 1: the rows that count.
    """

    domain: Domain
    attribute: str
    q: Fraction = field(converter=_to_q)
    where: Kronecker

    def __attrs_post_init__(self) -> None:
        where, low, high = self.where, 0.0, 1.0
        if type(where) is Kronecker and where.rows == 1 and where.integral:
            low, high = where.limits()
        else:
            low = -math.inf
        if low < 0 or high > 1:
            raise InvalidArgument("where", "one function with weights 0 and 1", "another block")
        self.domain[self.attribute]
        LinearForm(self.domain, (where,))  # which refuses another shape

    @property
    def cells(self) -> int:
        """How many values there are to choose from."""
        return self.domain[self.attribute].known

    @property
    def fine(self) -> bool:
        """True of a grid of numbers, whose values are better chosen than all counted."""
        return isinstance(self.domain[self.attribute], Number)

    @property
    def identity(self) -> bytes:
        """The same for the same question, and for no other; see `LinearForm`."""
        place = self.domain.position(self.attribute)
        counted = LinearForm(self.domain, (self.where,)).identity
        return sha256(_CROSSING + b"%d %s " % (place, str(self.q).encode()) + counted).digest()

    @property
    def width(self) -> int:
        """How many raw numbers a chosen value is told by: never as many as there are cells."""
        return 2 + (self.cells == 2)

    def raw(self, place: int) -> Floats:
        """The raw numbers of a chosen cell: its digits, as float64 does not hold all numbers."""
        return np.array([*divmod(place, _DIGIT), 0.0][: self.width], dtype=np.float64)


def chosen_place(raw: Floats, cells: int) -> int | None:
    """The cell that raw numbers stand for; None of counts of rows, one for each of the cells."""
    return None if len(raw) == cells else int(raw[0]) * _DIGIT + int(raw[1])


@shows_half_made
@final
class UnwrittenForm(LinearForm):
    """Counts of rows up to each of more values than are ever written out.

    Only what chooses a value answers it, by its `crossing`. Whatever asks for the functions
    themselves is refused by `TooLarge`.
    """

    __slots__ = ()
    crossing: Crossing

    def __init__(self, crossing: Crossing) -> None:
        object.__setattr__(self, "domain", crossing.domain)
        object.__setattr__(self, "crossing", crossing)

    @property
    def identity(self) -> bytes:
        """That of its crossing."""
        return self.crossing.identity

    @property
    def nbytes(self) -> int:  # pyright: ignore[reportIncompatibleVariableOverride]  # cached elsewhere
        """Roughly how many bytes it takes."""
        return 1024

    def __repr__(self) -> str:
        return f"UnwrittenForm({self.crossing!r})"

    def __reduce__(self) -> tuple[object, ...]:
        return UnwrittenForm, (self.crossing,)

    @property
    def blocks(self) -> NoReturn:  # pyright: ignore[reportIncompatibleVariableOverride]  # refused
        self.refuse()

    def refuse(self) -> NoReturn:
        """Raise that there are no functions to be had."""
        crossing = self.crossing
        what = f"a count of rows up to each value of {crossing.attribute!r}"
        advice = "ask using=ExponentialQuantile(epsilon=...), or of a coarser attribute"
        raise TooLarge(what, crossing.cells, ROW_LIMIT, "numbers", advice)
