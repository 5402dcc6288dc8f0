"""Exact copies of guarantees, and what is worked out once for each.

A guarantee, or a number in it, can be of a class that lies about being equal, and can be changed
after it was handed over. So nothing is looked up by it: it is read once, into a tuple of plain
integers, and what is worked out is worked out for a copy made of that tuple. The copies that the
books keep are known by their identity, since nobody else holds them, and have what was worked out
of them beside them.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from functools import lru_cache, wraps
from inspect import signature
from operator import index
from typing import ParamSpec, Protocol, TypeAlias, TypeVar, cast

from attrs import define, field, fields

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

__all__ = [
    "Key",
    "book_copy",
    "book_own",
    "checked_copy",
    "client_copy",
    "key_of",
    "worked_out_once",
]

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
"""How many results of each function are kept, and how many guarantees."""

_BESIDE = 32
"""How many results are kept beside one of them."""

_NOTHING = object()


@define(eq=False)
class _Kept:
    """A guarantee that nobody outside the accounting holds, and what was worked out of it."""

    guarantee: Guarantee
    key: Key
    results: dict[object, object] = field(factory=dict[object, object])


_by_key: dict[Key, _Kept] = {}
_by_place: dict[int, _Kept] = {}
"""The same by the identity of the guarantee, which is that of nothing else while it is in here."""


def _known(value: object) -> _Kept | None:
    found = _by_place.get(id(value))
    return found if found is not None and found.guarantee is value else None


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
        return value  # type: ignore[return-value]  # of no other class
    if kind is Fraction:
        return _ratio(value)
    names = _FIELDS.get(kind)
    if names is not None:
        known = _known(value)
        if known is not None:
            return known.key
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


def _own(key: Key) -> object:
    """What a key says, as an object that stays in the accounting."""
    known = _by_key.get(key)
    return _copy(key) if known is None else known.guarantee


class _Restored(Protocol):
    def __setstate__(self, state: dict[str, object]) -> None: ...


def _fresh(value: object) -> object:
    if type(value) is Fraction:
        # An operation gives a new fraction, and does not look for common divisors.
        return +value
    if type(value) is tuple:
        return tuple(map(_fresh, cast("tuple[object, ...]", value)))
    return value


def client_copy(guarantee: G) -> G:
    """A copy, to hand out, of a guarantee that was in no other hands since it was made.

    Its numbers were checked then, so that the copy is sooner made than by its constructor.
    """
    kind = type(guarantee)
    copy = object.__new__(kind)
    state = {name: _fresh(getattr(guarantee, name)) for name in _FIELDS[kind]}
    cast("_Restored", copy).__setstate__(state)
    return copy


def book_copy(guarantee: Guarantee) -> Guarantee:
    """A copy that the books keep and never hand out: one and the same for equal guarantees.

    It is looked up by plain numbers alone.

    Raises
    ------
    UnsupportedGuarantee
        For a guarantee of none of the known classes.
    InvalidArgument
        If what the guarantee holds is no longer what its constructor takes.
    """
    given = _read(guarantee)
    known = _by_key.get(given)
    return book_own(_made(guarantee, given)) if known is None else known.guarantee


def book_own(guarantee: Guarantee) -> Guarantee:
    """The same for a guarantee that nobody else holds, so that it needs no copy."""
    key = key_of(guarantee)
    known = _by_key.get(key)
    if known is None:
        if len(_by_key) >= _LIMIT:
            _by_key.clear()
            _by_place.clear()
        known = _by_key.setdefault(key, _Kept(guarantee, key))
        _by_place[id(known.guarantee)] = known
    return known.guarantee


def checked_copy(guarantee: G) -> G:
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
    return _made(guarantee, _read(guarantee))


def _read(guarantee: Guarantee) -> Key:
    kind = type(guarantee)
    if kind not in _FIELDS:
        raise UnsupportedGuarantee(kind.__name__, "accounting", "no theorem speaks of this class")
    try:
        return key_of(guarantee)
    except (AttributeError, TypeError, ValueError):
        raise _unmade(kind) from None


def _made(guarantee: G, key: Key) -> G:
    """The copy, of the class of the guarantee, that the key says."""
    try:
        return cast("G", _copy(key))
    except (AttributeError, TypeError, ValueError, ZeroDivisionError):
        raise _unmade(type(guarantee)) from None


def _unmade(kind: type) -> InvalidArgument:
    expected = "made by its constructor, of exact numbers"
    return InvalidArgument("guarantee", expected, shown(kind.__name__))


def worked_out_once(function: Callable[P, R]) -> Callable[P, R]:
    """Work out a figure once for equal guarantees, fractions and integers.

    The function gets copies, or the guarantee that the books keep, of which it gives nothing back.
    It gives a `Fraction`, which is copied again for each caller, or something that nobody can
    change.
    """
    shape = signature(function)

    @lru_cache(_LIMIT)
    def known(*keys: Key) -> R:
        own = map(_own, keys)
        return function(*own)  # type: ignore[arg-type, call-arg]  # of the types that were given

    @wraps(function)
    def looked_up(*args: P.args, **kwargs: P.kwargs) -> R:
        given = shape.bind(*args, **kwargs).args if kwargs else args
        ours = _by_place.get(id(given[0]))
        if ours is None or ours.guarantee is not given[0]:
            result: object = known(*map(key_of, given))
        else:
            place = function if len(given) == 1 else (function, *map(key_of, given[1:]))
            # Asked once, since another thread may clear them at any time.
            result = ours.results.get(place, _NOTHING)
            if result is _NOTHING:
                if len(ours.results) >= _BESIDE:
                    ours.results.clear()
                result = ours.results[place] = function(*args, **kwargs)
        return cast("R", _fresh(result) if type(result) is Fraction else result)

    return looked_up
