"""Copies that belong to the books, so that who handed something over can change nothing later."""

from __future__ import annotations

from fractions import Fraction
from typing import Protocol, TypeVar, cast

from attrs import fields

from dpsdk.accounting.budget import Budget
from dpsdk.accounting.filters.additive import AdvancedComposition, BasicComposition, ZCDPComposition
from dpsdk.accounting.filters.any_of import AnyOf
from dpsdk.accounting.filters.composition import Composition
from dpsdk.accounting.filters.envelope import EnvelopeComposition
from dpsdk.accounting.filters.mixed import MixedComposition
from dpsdk.accounting.filters.renyi import RenyiComposition

__all__ = ["client_composition", "own_budget", "own_composition"]

C = TypeVar("C", bound=Composition)

_SHIPPED: frozenset[type] = frozenset(
    {
        AdvancedComposition,
        AnyOf,
        BasicComposition,
        EnvelopeComposition,
        MixedComposition,
        RenyiComposition,
        ZCDPComposition,
    }
)


def own_budget(budget: Budget) -> Budget:
    """A copy that nobody else holds, checked as a new one is."""
    return Budget(budget.epsilon, budget.delta)


def own_composition(composition: C) -> C:
    """A copy that nobody else holds, of one of the package; any other as it is.

    A composition of another author decides what fits, so whoever opens a session with one trusts
    its code, whatever it may hold on to.
    """
    if type(composition) not in _SHIPPED:
        return composition
    copied: Composition = composition
    match composition:
        case AnyOf():
            members = tuple(own_composition(member) for member in composition.members)
            copied = AnyOf(members, composition.weights, composition.leak_share)
        case RenyiComposition():
            copied = RenyiComposition(composition.order, composition.leak_share)
        case AdvancedComposition():
            copied = AdvancedComposition(composition.leak_share)
        case ZCDPComposition():
            copied = ZCDPComposition(composition.leak_share)
        case EnvelopeComposition():
            copied = EnvelopeComposition(composition.leak_share)
        case MixedComposition():
            copied = MixedComposition(composition.leak_share)
        case BasicComposition():
            copied = BasicComposition()
        case _:
            raise TypeError(type(composition).__name__)
    return cast("C", copied)


class _Restored(Protocol):
    def __setstate__(self, state: dict[str, object]) -> None: ...


def client_composition(composition: C) -> C:
    """A copy, to hand out, of one that was in no other hands since it was made.

    It was checked then, so that the copy is sooner made than by its constructor. One of another
    author is handed out as it is.
    """
    kind = type(composition)
    if kind not in _SHIPPED:
        return composition
    copy = object.__new__(kind)
    state = {name: _fresh(getattr(composition, name)) for name in _NAMES[kind]}
    cast("_Restored", copy).__setstate__(state)
    return copy


_NAMES = {kind: tuple(one.name for one in fields(kind)) for kind in _SHIPPED}


def _fresh(value: object) -> object:
    if type(value) is Fraction:
        return +value
    if type(value) is tuple:
        return tuple(map(_fresh, cast("tuple[object, ...]", value)))
    return client_composition(value) if isinstance(value, Composition) else value
