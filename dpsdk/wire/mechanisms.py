"""The written forms of mechanisms, and of what they are made of."""

from __future__ import annotations

from fractions import Fraction

from dpsdk.codec import (
    AMOUNT,
    ENDLESS,
    FLAG,
    INTEGER,
    NUMBER,
    Choice,
    Kind,
    Member,
    Nested,
    OrNone,
)
from dpsdk.hypothesis import Given, Pairs, Start
from dpsdk.mechanisms import (
    ConvexPMW,
    Corrected,
    Moments,
    NoisyDescent,
    Oracle,
    PrivateMinimizer,
    Problem,
    Sketch,
    SketchedProblem,
    SufficientStatistics,
    TextbookConvexPMW,
)

__all__ = ["KINDS"]

_ORACLE = Nested[Oracle]("an oracle", Oracle)
_DESCENT = Nested[NoisyDescent]("a descent", NoisyDescent)
_START = Member(OrNone(Nested[Start]("a start", Start)), None)
_MODEL_START = Nested[object]("a start of a model", Pairs, Moments, Given)
_PROBLEM = Nested[object]("a problem", Problem, SketchedProblem)
_ZERO = Member(AMOUNT, Fraction(0))
_MAYBE = Member(OrNone(AMOUNT), None)
_COUNT = Member(OrNone(INTEGER), None)
_SHARE = Member(OrNone(NUMBER), None)
_NO = Member(FLAG, False)
_WHEN_SPENT = Member(Choice[str]("hypothesis", "raise"), "hypothesis")
_PRIVATE_BETA = Member(OrNone(NUMBER), None, of="_beta", key="_beta")

KINDS: tuple[Kind[object], ...] = (
    Kind(Moments, "start.moments", {"share": AMOUNT}),
    Kind(
        Corrected,
        "oracle.corrected",
        {"start": Member(OrNone(_MODEL_START), None), "gradients": _COUNT, "certify": _MAYBE},
    ),
    Kind(
        NoisyDescent,
        "oracle.noisy-descent",
        {"steps": _COUNT, "ridge": Member(NUMBER, 0.0), "beta": _PRIVATE_BETA},
    ),
    Kind(Sketch, "oracle.sketch", {"size": _COUNT, "descent": _DESCENT, "beta": _PRIVATE_BETA}),
    Kind(SufficientStatistics, "oracle.sufficient-statistics", {"certify": _MAYBE}),
    Kind(
        Problem,
        "problem.whole",
        {
            "dimension": INTEGER,
            "lipschitz": NUMBER,
            "smoothness": ENDLESS,
            "radius": NUMBER,
            "ridge": Member(NUMBER, 0.0),
            "summed": _SHARE,
            "largest": _SHARE,
            "range": ENDLESS,
        },
    ),
    Kind(
        SketchedProblem,
        "problem.sketched",
        {
            "size": INTEGER,
            "vectors": INTEGER,
            "slope": NUMBER,
            "bend": NUMBER,
            "norm": NUMBER,
            "radius": NUMBER,
            "range": ENDLESS,
        },
    ),
    Kind(
        ConvexPMW,
        "mechanism.convex-pmw",
        {
            "epsilon": AMOUNT,
            "delta": _ZERO,
            "updates": INTEGER,
            "queries": _COUNT,
            "threshold": _SHARE,
            "start": _START,
            "prepaid": _NO,
            "when_spent": _WHEN_SPENT,
        },
    ),
    Kind(
        TextbookConvexPMW,
        "mechanism.textbook-convex-pmw",
        {
            "epsilon": AMOUNT,
            "delta": AMOUNT,
            "alpha": NUMBER,
            "beta": NUMBER,
            "queries": INTEGER,
            "problem": _PROBLEM,
            "oracle": _DESCENT,
            "start": Nested[Start]("a start", Start),
            "when_spent": _WHEN_SPENT,
        },
    ),
    Kind(
        PrivateMinimizer,
        "mechanism.private-minimizer",
        {"epsilon": AMOUNT, "delta": _ZERO, "oracle": _ORACLE},
    ),
)
