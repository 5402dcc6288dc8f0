"""The written forms of mechanisms, and of what they are made of."""

from __future__ import annotations

from fractions import Fraction

from dpsdk.codec import (
    AMOUNT,
    ENDLESS,
    FLAG,
    INTEGER,
    JSON,
    NAME,
    NUMBER,
    Choice,
    Codebook,
    Kind,
    ListOf,
    Member,
    Nested,
    OrNone,
    Plain,
    refused,
)
from dpsdk.forms import Form
from dpsdk.hypothesis import Given, Pairs, Product, Start, Uniform
from dpsdk.kernel import Limits
from dpsdk.mechanisms import (
    MWEM,
    ConvexPMW,
    Corrected,
    Gaussian,
    Laplace,
    LocalMarginals,
    Matrix,
    Mechanism,
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
from dpsdk.queries import Query
from dpsdk.wire.distributions import DISTRIBUTION
from dpsdk.wire.queries import QUERY

__all__ = ["KINDS", "MECHANISM"]

MECHANISM = Nested[Mechanism[Form]]("a mechanism", Mechanism)


class _Pairs:
    """Questions, each with what answers it."""

    _members = ("query", "mechanism")

    def write(
        self, value: tuple[tuple[Query[object, Form], Mechanism[Form]], ...], path: str,
        codebook: Codebook, /,
    ) -> Plain:  # fmt: skip
        return [
            {
                "query": QUERY.write(query, f"{path}[{place}].query", codebook),
                "mechanism": MECHANISM.write(mechanism, f"{path}[{place}].mechanism", codebook),
            }
            for place, (query, mechanism) in enumerate(value)
        ]

    def read(
        self, plain: Plain, path: str, codebook: Codebook, /
    ) -> tuple[tuple[Query[object, Form], Mechanism[Form]], ...]:
        if type(plain) is not list:
            raise refused(path, "a list of questions with mechanisms", plain)
        found: list[tuple[Query[object, Form], Mechanism[Form]]] = []
        for place, one in enumerate(plain):
            where = f"{path}[{place}]"
            if type(one) is not dict or one.keys() != set(self._members):
                raise refused(where, 'an object of "query" and "mechanism"', one)
            query = QUERY.read(one["query"], f"{where}.query", codebook)
            found.append((query, MECHANISM.read(one["mechanism"], f"{where}.mechanism", codebook)))
        return tuple(found)

    def schema(self, codebook: Codebook, /) -> JSON:
        return {
            "type": "array",
            "items": {
                "type": "object",
                "properties": {
                    "query": QUERY.schema(codebook),
                    "mechanism": MECHANISM.schema(codebook),
                },
                "required": list(self._members),
                "additionalProperties": False,
            },
        }


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
    Kind(Uniform, "start.uniform", {}),
    Kind(Product, "start.product", {"share": AMOUNT}),
    Kind(Pairs, "start.pairs", {"share": AMOUNT, "width": Member(INTEGER, 2)}),
    Kind(Given, "start.given", {"distribution": DISTRIBUTION}),
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
    Kind(Limits, "limits", {"seconds": NUMBER, "bytes": INTEGER}),
    Kind(Laplace, "mechanism.laplace", {"epsilon": AMOUNT}),
    Kind(Gaussian, "mechanism.gaussian", {"rho": _MAYBE, "epsilon": _MAYBE, "delta": _MAYBE}),
    Kind(NoisyHistogram, "mechanism.noisy-histogram", {**_TOTAL, "consistent": _NO}),
    Kind(Projection, "mechanism.projection", _TOTAL),
    Kind(Parts, "mechanism.parts", {"parts": _Pairs()}),
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
