"""Copies that belong to the books: nothing that a caller holds is the object in use."""

from __future__ import annotations

from fractions import Fraction

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

__all__ = ["admitted", "own_budget", "own_composition"]


def _plain(number: Fraction) -> Fraction:
    return Fraction(int(number.numerator), int(number.denominator))


def admitted(guarantee: Guarantee) -> Guarantee:
    """A fresh copy of a guarantee of one of the known classes.

    Raises
    ------
    UnsupportedGuarantee
        For any other class.
    """
    match of_a_known_class(guarantee):
        case PureGuarantee(epsilon=epsilon):
            return PureGuarantee(_plain(epsilon))
        case DiscreteLaplaceGuarantee(scale=scale, shift=shift):
            return DiscreteLaplaceGuarantee(_plain(scale), int(shift))
        case DiscreteGaussianGuarantee() as gaussian:
            claim = gaussian.claim
            return DiscreteGaussianGuarantee(
                _plain(gaussian.variance),
                int(gaussian.shift_squared),
                int(gaussian.shift_max),
                None if claim is None else (_plain(claim[0]), _plain(claim[1])),
            )
        case BoundedRangeGuarantee(eta=eta):
            return BoundedRangeGuarantee(_plain(eta))
        case ApproximateGuarantee(epsilon=epsilon, delta=delta):
            return ApproximateGuarantee(_plain(epsilon), _plain(delta))
        case other:
            return other


def own_budget(budget: Budget) -> Budget:
    """A fresh copy of a budget."""
    return Budget(_plain(budget.epsilon), _plain(budget.delta))


def own_composition(composition: Composition) -> Composition:
    """The composition that an odometer keeps."""
    return composition
