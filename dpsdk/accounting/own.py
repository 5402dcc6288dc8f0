"""Copies that belong to the books: nothing that a caller holds is the object in use."""

from __future__ import annotations

from fractions import Fraction

from dpsdk.accounting.anytime import Anytime
from dpsdk.accounting.budget import Budget
from dpsdk.accounting.composition import Composition
from dpsdk.accounting.guarantee import (
    ApproximateGuarantee,
    BoundedRangeGuarantee,
    DiscreteGaussianGuarantee,
    DiscreteLaplaceGuarantee,
    Guarantee,
    PureGuarantee,
)
from dpsdk.accounting.remembered import admitted as of_a_known_class
from dpsdk.errors import UnsupportedGuarantee

__all__ = ["admitted", "kept", "own_anytime", "own_budget", "own_composition"]


def _plain(number: Fraction) -> Fraction:
    return Fraction(int(number.numerator), int(number.denominator))


def admitted(guarantee: Guarantee) -> Guarantee:
    """A fresh copy of a guarantee of one of the known classes.

    Raises
    ------
    UnsupportedGuarantee
        For any other class.
    """
    guarantee = of_a_known_class(guarantee)
    if isinstance(guarantee, PureGuarantee):
        return PureGuarantee(_plain(guarantee.epsilon))
    if isinstance(guarantee, DiscreteLaplaceGuarantee):
        return DiscreteLaplaceGuarantee(_plain(guarantee.scale), int(guarantee.shift))
    if isinstance(guarantee, DiscreteGaussianGuarantee):
        claim = guarantee.claim
        return DiscreteGaussianGuarantee(
            _plain(guarantee.variance),
            int(guarantee.shift_squared),
            int(guarantee.shift_max),
            None if claim is None else (_plain(claim[0]), _plain(claim[1])),
        )
    if isinstance(guarantee, BoundedRangeGuarantee):
        return BoundedRangeGuarantee(_plain(guarantee.eta))
    if isinstance(guarantee, ApproximateGuarantee):
        return ApproximateGuarantee(_plain(guarantee.epsilon), _plain(guarantee.delta))
    raise UnsupportedGuarantee(str(guarantee), "accounting", "no theorem speaks of this class")


_KEPT = 4096

_kept: dict[tuple[int, ...], Guarantee] = {}


def kept(guarantee: Guarantee) -> Guarantee:
    """A copy that the books keep and never hand out: one and the same for equal guarantees.

    Equal runs then find their prices by identity. It is looked up by plain numbers alone.

    Raises
    ------
    UnsupportedGuarantee
        For a guarantee of none of the known classes.
    """
    key = _numbers(guarantee)
    known = _kept.get(key)
    if known is None:
        if len(_kept) >= _KEPT:
            _kept.clear()
        known = _kept[key] = admitted(guarantee)
    return known


def _numbers(guarantee: Guarantee) -> tuple[int, ...]:
    """All that a guarantee says, in integers of the plain kind."""
    of_a_known_class(guarantee)
    if isinstance(guarantee, DiscreteLaplaceGuarantee):
        return 1, *_ratio(guarantee.scale), int(guarantee.shift)
    if isinstance(guarantee, PureGuarantee):
        return 0, *_ratio(guarantee.epsilon)
    if isinstance(guarantee, DiscreteGaussianGuarantee):
        claim = guarantee.claim
        claimed = () if claim is None else (*_ratio(claim[0]), *_ratio(claim[1]))
        shifts = int(guarantee.shift_squared), int(guarantee.shift_max)
        return 2, *_ratio(guarantee.variance), *shifts, *claimed
    if isinstance(guarantee, BoundedRangeGuarantee):
        return 3, *_ratio(guarantee.eta)
    if isinstance(guarantee, ApproximateGuarantee):
        return 4, *_ratio(guarantee.epsilon), *_ratio(guarantee.delta)
    raise UnsupportedGuarantee(str(guarantee), "accounting", "no theorem speaks of this class")


def _ratio(number: Fraction) -> tuple[int, int]:
    return int(number.numerator), int(number.denominator)


def own_budget(budget: Budget) -> Budget:
    """A fresh copy of a budget."""
    return Budget(_plain(budget.epsilon), _plain(budget.delta))


def own_anytime(anytime: Anytime) -> Anytime:
    """A fresh copy of a bound."""
    return Anytime(_plain(anytime.delta), _plain(anytime.around))


def own_composition(composition: Composition) -> Composition:
    """The composition that an odometer keeps."""
    return composition
