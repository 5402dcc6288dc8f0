"""Exact copies of guarantees, and figures that are worked out once for each.

A guarantee, or a number in it, can be of a class that lies about being equal, and can be changed
after it was handed over. So nothing is looked up by it: it is read once, into a tuple of plain
integers, and what is worked out is worked out for a copy made of that tuple.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from functools import lru_cache, wraps
from inspect import signature
from operator import index
from typing import ParamSpec, TypeAlias, TypeVar, cast

from attrs import fields

from dpsdk._checks import shown
from dpsdk.accounting.guarantee import (
    ApproximateGuarantee,
    BoundedRangeGuarantee,
    DiscreteGaussianGuarantee,
    DiscreteLaplaceGuarantee,
    Guarantee,
    PureGuarantee,
)
from dpsdk.errors import InvalidArgument, UnsupportedGuarantee

__all__ = ["Key", "admitted", "key_of", "remembered"]

P = ParamSpec("P")
R = TypeVar("R")
G = TypeVar("G", bound=Guarantee)

Key: TypeAlias = int | str | tuple["Key", ...] | None
"""Plain integers, texts and None, nested. Alike for equal values, and of no foreign class."""

_FIELDS: dict[type, tuple[str, ...]] = {
    kind: tuple(one.name for one in fields(kind))
    for kind in (
        ApproximateGuarantee,
        BoundedRangeGuarantee,
        DiscreteGaussianGuarantee,
        DiscreteLaplaceGuarantee,
        PureGuarantee,
    )
}
_KINDS: dict[str, type] = {kind.__name__: kind for kind in _FIELDS}

_LIMIT = 4096
"""How many figures each function remembers."""


def _ratio(value: object) -> tuple[int, int]:
    kind = type(value)
    if kind is not Fraction and Fraction not in kind.__mro__:
        raise TypeError
    number = cast("Fraction", value)
    return index(number.numerator), index(number.denominator)


def key_of(value: object) -> Key:
    """All that a guarantee, or a number, says, in integers and texts of the plain kind.

    Raises
    ------
    UnsupportedGuarantee
        For a guarantee of none of the known classes.
    """
    kind = type(value)
    if kind is int or value is None:
        return cast("int | None", value)
    if kind is Fraction:
        return _ratio(value)
    names = _FIELDS.get(kind)
    if names is not None:
        return kind.__name__, *[key_of(getattr(value, name)) for name in names]
    if kind is tuple:
        return tuple(map(_ratio, cast("tuple[object, ...]", value)))
    if issubclass(kind, Guarantee):
        # A class of another author could call itself free, or take an honest one's place.
        raise UnsupportedGuarantee(kind.__name__, "accounting", "no theorem speaks of this class")
    return _ratio(value) if issubclass(kind, Fraction) else index(cast("int", value))


def _copy(key: Key) -> object:
    if not isinstance(key, tuple):
        return key
    first = key[0]
    if isinstance(first, str):
        return _KINDS[first](*map(_copy, key[1:]))
    if isinstance(first, int):
        return Fraction(*cast("tuple[int, int]", key))
    return tuple(map(_copy, key))


def admitted(guarantee: G) -> G:
    """A copy that nobody else holds, if the guarantee is of one of the known classes.

    Every number in it is made anew, so that no later change to the guarantee, or to a number that
    it was made of, changes the copy.

    Raises
    ------
    UnsupportedGuarantee
        For any other class, also one below the known ones.
    InvalidArgument
        If what the guarantee holds is no longer what its constructor takes.
    """
    kind = type(guarantee)
    if kind not in _FIELDS:
        raise UnsupportedGuarantee(kind.__name__, "accounting", "no theorem speaks of this class")
    try:
        return cast("G", _copy(key_of(guarantee)))
    except (AttributeError, TypeError, ValueError, ZeroDivisionError):
        expected = "made by its constructor, of exact numbers"
        raise InvalidArgument("guarantee", expected, shown(type(guarantee).__name__)) from None


def remembered(function: Callable[P, R]) -> Callable[P, R]:
    """Work out a figure once for equal guarantees, fractions and integers.

    The function gets copies, and gives a `Fraction`, which is copied again for each caller, or
    something that nobody can change.
    """
    shape = signature(function)

    @lru_cache(_LIMIT)
    def known(*keys: Key) -> R:
        copies = map(_copy, keys)
        return function(*copies)  # type: ignore[arg-type, call-arg]  # of the types that were given

    @wraps(function)
    def looked_up(*args: P.args, **kwargs: P.kwargs) -> R:
        given = shape.bind(*args, **kwargs).args if kwargs else args
        result = known(*map(key_of, given))
        if type(result) is not Fraction:
            return result
        figure = cast("Fraction", result)
        return cast("R", Fraction(figure.numerator, figure.denominator))

    return looked_up
