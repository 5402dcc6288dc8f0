"""Levels: whether something is above one, from the sparse vector."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction

from dpsdk.forms import GapForm
from dpsdk.mechanisms import NumericSparse
from dpsdk.planner.families.family import Family, paired, pure

__all__ = ["levels"]


def levels(form: GapForm, delta: Fraction, tops: int | None = None) -> Iterator[Family]:
    """The sparse vector, for as many answers "above" as there are questions, or `tops`.

    Numbers are measured where they are asked for.
    """
    most = tops or form.rows

    def make(epsilon: Fraction, given: Fraction) -> NumericSparse:
        return NumericSparse(epsilon, given, tops=most)

    frees = "all further questions that are answered no, until the last yes"
    yield pure("numeric-sparse", lambda epsilon: make(epsilon, Fraction(0)), frees)
    if delta and most > 1:
        # Of one top the pure one costs as much, and no δ.
        yield paired("numeric-sparse+concentrated", make, delta, frees)
