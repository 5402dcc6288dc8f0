"""Streams: what answers very many queries from a distribution that it corrects as it goes."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction

from dpsdk.forms import Facts
from dpsdk.hypothesis import Pairs
from dpsdk.mechanisms import OnlinePMW
from dpsdk.planner.families.family import Family, paired
from dpsdk.planner.families.shape import Shape

__all__ = ["streams"]

_CELLS = 2**24
_MANY = 100
"""Fewer answers are measured better each by itself."""

_UPDATES = 10


def streams(shape: Shape, facts: Facts, delta: Fraction) -> Iterator[Family]:
    """Private multiplicative weights from all pairs of attributes."""
    rows = shape.form.rows
    if rows < _MANY or len(shape.names) < 2 or shape.universe > _CELLS or not shape.shares:
        return

    def make(epsilon: Fraction, most: Fraction) -> OnlinePMW:
        return OnlinePMW(epsilon, most, updates=_UPDATES, queries=rows, start=Pairs(), prepaid=True)

    frees = "every linear query and every model, as far as pairs and a few corrections tell"
    family = paired("online-pmw", make, delta, frees, slow=True)
    if facts.rows is None:
        family = family.without("needs-public-rows")
    yield family
