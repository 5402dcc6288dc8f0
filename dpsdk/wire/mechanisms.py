"""The written forms of mechanisms, and of what they are made of."""

from __future__ import annotations

from fractions import Fraction

from dpsdk.codec import (
    AMOUNT,
    ENDLESS,
    FLAG,
    INTEGER,
    NAME,
    NUMBER,
    Choice,
    Entry,
    Kind,
    ListOf,
    Member,
    Nested,
    OrNone,
)
from dpsdk.hypothesis import Given, Pairs, Start
from dpsdk.kernel import Limits
from dpsdk.mechanisms import (
    MWEM,
    ConvexPMW,
    Corrected,
    Gaussian,
    Laplace,
    LocalMarginals,
    Matrix,
    Moments,
    NoisyDescent,
    NoisyHistogram,
    NumericSparse,
    OfflinePMW,
    OnlinePMW,
    Oracle,
    Parts,
    PrivateMinimizer,
    Problem,
    Projection,
    ResidualPlanner,
    Sketch,
    SketchedProblem,
    SmallDB,
    SquareRoot,
    SufficientStatistics,
    TextbookConvexPMW,
    Tree,
)
from dpsdk.mechanisms.base import MECHANISM
from dpsdk.queries.base import QUERY

__all__ = ["KINDS"]

_ORACLE = Nested[Oracle]("an oracle", Oracle)
_DESCENT = Nested[NoisyDescent]("a descent", NoisyDescent)
_START = Member(OrNone(Nested[Start]("a start", Start)), None)
_MODEL_START = Nested[object]("a start of a model", Pairs, Moments, Given)
_PROBLEM = Nested[object]("a problem", Problem, SketchedProblem)
_LIMITS = Nested[Limits]("limits of a draw", Limits)
_ZERO = Member(AMOUNT, Fraction(0))
_MAYBE = Member(OrNone(AMOUNT), None)
_COUNT = Member(OrNone(INTEGER), None)
_SHARE = Member(OrNone(NUMBER), None)
_NO = Member(FLAG, False)
_BETA = Member(NUMBER, 0.05)
_WHEN_SPENT = Member(Choice[str]("hypothesis", "raise"), "hypothesis")
_TOTAL: dict[str, object] = {"epsilon": _MAYBE, "delta": _ZERO, "rho": _MAYBE}
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
    Kind(Laplace, "mechanism.laplace", {"epsilon": AMOUNT}),
    Kind(Gaussian, "mechanism.gaussian", {"rho": _MAYBE, "epsilon": _MAYBE, "delta": _MAYBE}),
    Kind(NoisyHistogram, "mechanism.noisy-histogram", {**_TOTAL, "consistent": _NO}),
    Kind(Projection, "mechanism.projection", _TOTAL),
    Kind(Parts, "mechanism.parts", {"parts": ListOf(Entry(query=QUERY, mechanism=MECHANISM))}),
    Kind(
        NumericSparse,
        "mechanism.numeric-sparse",
        {
            "epsilon": AMOUNT,
            "delta": _ZERO,
            "tops": INTEGER,
            "numbers": Member(Choice[str]("measured", "gap"), "measured"),
        },
    ),
    Kind(SquareRoot, "mechanism.square-root", {"attribute": NAME, **_TOTAL}),
    Kind(Tree, "mechanism.tree", {"attribute": NAME, **_TOTAL, "branching": _COUNT}),
    Kind(Matrix, "mechanism.matrix", {"workload": QUERY, **_TOTAL}),
    Kind(
        ResidualPlanner,
        "mechanism.residual-planner",
        {
            "workload": ListOf(QUERY, least=1),
            **_TOTAL,
            "objective": Member(Choice[str]("sum", "max"), "sum"),
            "weights": Member(OrNone(ListOf(NUMBER)), None),
            "nonnegative": _NO,
        },
    ),
    Kind(
        MWEM,
        "mechanism.mwem",
        {
            "workload": QUERY,
            **_TOTAL,
            "rounds": _COUNT,
            "average": _NO,
            "steps": Member(INTEGER, 40),
            "rule": Member(
                Choice[str]("tuned", "textbook", "averaged"), "tuned", of="_rule", key="_rule"
            ),
            "beta": Member(NUMBER, 0.05, of="_beta", key="_beta"),
        },
    ),
    Kind(OfflinePMW, "mechanism.offline-pmw", {"workload": QUERY, **_TOTAL, "beta": _BETA}),
    Kind(
        LocalMarginals,
        "mechanism.local-marginals",
        {
            "workload": QUERY,
            **_TOTAL,
            "first": AMOUNT,
            "look": AMOUNT,
            "certify": _MAYBE,
            "beta": _BETA,
            "components": INTEGER,
        },
    ),
    Kind(
        SmallDB,
        "mechanism.small-db",
        {
            "workload": QUERY,
            "epsilon": AMOUNT,
            "alpha": _MAYBE,
            "size": _COUNT,
            "beta": _BETA,
            "limits": _LIMITS,
        },
    ),
    Kind(
        OnlinePMW,
        "mechanism.online-pmw",
        {
            "epsilon": AMOUNT,
            "delta": _ZERO,
            "updates": _COUNT,
            "alpha": _SHARE,
            "beta": _SHARE,
            "queries": _COUNT,
            "threshold": _SHARE,
            "start": _START,
            "replay": Member(FLAG, True),
            "prepaid": _NO,
            "when_spent": _WHEN_SPENT,
            "textbook": Member(FLAG, False, of="_textbook", key="_textbook"),
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
