"""Prices worked out once a guarantee, for the kinds that theorems speak of and no others."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache, wraps
from typing import Concatenate, ParamSpec, TypeVar

from dpsdk.accounting.guarantee import (
    ApproximateGuarantee,
    BoundedRangeGuarantee,
    DiscreteGaussianGuarantee,
    DiscreteLaplaceGuarantee,
    Guarantee,
    PureGuarantee,
)
from dpsdk.errors import UnsupportedGuarantee

__all__ = ["admitted", "remembered"]

P = ParamSpec("P")
R = TypeVar("R")
G = TypeVar("G", bound=Guarantee)

_KINDS: frozenset[type] = frozenset(
    {
        ApproximateGuarantee,
        BoundedRangeGuarantee,
        DiscreteGaussianGuarantee,
        DiscreteLaplaceGuarantee,
        PureGuarantee,
    }
)


def admitted(guarantee: G) -> G:
    """The guarantee itself, if it is of one of the known classes, and not of a class below them.

    A class of another author could call itself free, or equal to an honest guarantee and so leave
    its own price where that one's is looked up.

    Raises
    ------
    UnsupportedGuarantee
        For any other class.
    """
    if type(guarantee) not in _KINDS:
        name = type(guarantee).__name__
        raise UnsupportedGuarantee(name, "accounting", "no theorem speaks of this class")
    return guarantee


def remembered(
    function: Callable[Concatenate[G, P], R],
) -> Callable[Concatenate[G, P], R]:
    """Work out a figure once for equal guarantees of the known classes."""
    known = lru_cache(4096)(function)

    @wraps(function)
    def looked_up(guarantee: G, /, *args: P.args, **kwargs: P.kwargs) -> R:
        return known(admitted(guarantee), *args, **kwargs)  # type: ignore[arg-type]  # hashable

    return looked_up
