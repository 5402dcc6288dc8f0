"""The written forms of guarantees, compositions and budgets, and of what a session has spent."""

from __future__ import annotations

from fractions import Fraction

from dpsdk.accounting import (
    AdvancedComposition,
    AnyOf,
    Anytime,
    ApproximateGuarantee,
    BasicComposition,
    BoundedRangeGuarantee,
    Budget,
    Composition,
    DiscreteGaussianGuarantee,
    DiscreteLaplaceGuarantee,
    EnvelopeComposition,
    Guarantee,
    MixedComposition,
    PureGuarantee,
    RenyiComposition,
    Spent,
    Trusted,
    ZCDPComposition,
)
from dpsdk.wire.catalogue import Kind, Member, Nested
from dpsdk.wire.fields import AMOUNT, FLOAT, INTEGER, NATURAL, TEXT, ListOf, OrNone

__all__ = ["BUDGET", "COMPOSITION", "GUARANTEE", "KINDS", "SPENT"]

GUARANTEE = Nested[Guarantee]("a guarantee", Guarantee)
COMPOSITION = Nested[Composition]("a composition", Composition)
BUDGET = Nested[Budget]("a budget", Budget)
SPENT = Nested[Spent]("what was spent", Spent)

_MOST_MEMBERS = 100
_ZERO = Member(AMOUNT, Fraction(0))
_LEAKS: dict[str, object] = {"leak_share": _ZERO}

KINDS: tuple[Kind[object], ...] = (
    Kind(Budget, "budget", {"epsilon": AMOUNT, "delta": _ZERO}),
    Kind(Trusted, "trusted", {"name": TEXT, "proof": TEXT}),
    Kind(Anytime, "anytime", {"delta": AMOUNT, "around": AMOUNT}),
    Kind(
        Spent,
        "spent",
        {
            "fraction": FLOAT,
            "epsilon": OrNone(AMOUNT),
            "rho": AMOUNT,
            "delta": AMOUNT,
            "charges": NATURAL,
            "guarantee": BUDGET,
            "of": TEXT,
        },
    ),
    Kind(PureGuarantee, "guarantee.pure", {"epsilon": AMOUNT}),
    Kind(
        DiscreteLaplaceGuarantee,
        "guarantee.discrete-laplace",
        {"scale": AMOUNT, "shift": INTEGER},
    ),
    Kind(
        DiscreteGaussianGuarantee,
        "guarantee.discrete-gaussian",
        {
            "variance": AMOUNT,
            "shift_squared": INTEGER,
            "shift_max": INTEGER,
            "claim": OrNone(ListOf(AMOUNT, least=2, most=2)),
        },
    ),
    Kind(BoundedRangeGuarantee, "guarantee.bounded-range", {"eta": AMOUNT}),
    Kind(ApproximateGuarantee, "guarantee.approximate", {"epsilon": AMOUNT, "delta": AMOUNT}),
    Kind(BasicComposition, "composition.basic", {}),
    Kind(AdvancedComposition, "composition.advanced", _LEAKS),
    Kind(ZCDPComposition, "composition.zcdp", _LEAKS),
    Kind(EnvelopeComposition, "composition.envelope", _LEAKS),
    Kind(MixedComposition, "composition.mixed", _LEAKS),
    Kind(RenyiComposition, "composition.renyi", {"order": AMOUNT, **_LEAKS}),
    Kind(
        AnyOf,
        "composition.any-of",
        {
            "members": ListOf(COMPOSITION, least=1, most=_MOST_MEMBERS),
            "weights": Member(OrNone(ListOf(AMOUNT, most=_MOST_MEMBERS)), None),
            **_LEAKS,
        },
    ),
)
