"""The written forms of queries, and of what they are made of."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from dpsdk.codec import (
    AMOUNT,
    CODES,
    FLAG,
    JSON,
    NAME,
    NUMBER,
    NUMBERS,
    Both,
    Choice,
    Codebook,
    Kind,
    ListOf,
    Member,
    Nested,
    OrNone,
    Plain,
)
from dpsdk.domain import Domain
from dpsdk.errors import DpsdkError, WireError
from dpsdk.forms import Ball, Box, ConvexSet, Form, Simplex
from dpsdk.losses import (
    GLMLoss,
    HuberLoss,
    LogisticLoss,
    Loss,
    QuantileLoss,
    SquaredLoss,
    SVMLoss,
)
from dpsdk.queries import (
    Above,
    Conjunction,
    ConvexMinimization,
    Count,
    Cross,
    DateQuantile,
    Feature,
    Interval,
    Linear,
    Marginal,
    Mean,
    Median,
    NumericAbove,
    OneHot,
    Quantile,
    Query,
    Rectangles,
    ScalarQuery,
    Scaled,
    Sum,
    Threshold,
    Where,
    Workload,
)
from dpsdk.queries.linear import to_names
from dpsdk.wire.conditions import CONDITIONS, END, WHERE

__all__ = ["KINDS", "QUERY"]

QUERY = Nested[Query[object, Form]]("a query", Query)
"""A query of any kind that the catalogue has."""

_SCALAR = Nested[ScalarQuery]("a query of one number", ScalarQuery)
_LOSS = Nested[Loss]("a loss", Loss)
_SET = Nested[ConvexSet]("a set of coefficients", ConvexSet)
_FEATURE = Both(NAME, Nested[Feature]("a feature", Feature))
_NAMES = ListOf(NAME, least=1)

_WHERE = Member(OrNone(WHERE), None)
_NORMALIZED = Member(FLAG, True)
_RESTRICTED: dict[str, object] = {"where": _WHERE}
_COUNTED: dict[str, object] = {"where": _WHERE, "normalized": _NORMALIZED}


class _Side:
    """One number for all coefficients, or a list of one for each."""

    _many = ListOf(NUMBER, least=1)

    def write(self, value: float | tuple[float, ...], path: str, codebook: Codebook, /) -> Plain:
        if isinstance(value, tuple):
            return self._many.write(value, path, codebook)
        return NUMBER.write(value, path, codebook)

    def read(self, plain: Plain, path: str, codebook: Codebook, /) -> float | tuple[float, ...]:
        if type(plain) is list:
            return self._many.read(plain, path, codebook)
        return NUMBER.read(plain, path, codebook)

    def schema(self, codebook: Codebook, /) -> JSON:
        return {"anyOf": [NUMBER.schema(codebook), self._many.schema(codebook)]}


def _tabulated(query: Linear, path: str, codebook: Codebook) -> Linear:
    """A query by a function as one by its table."""
    if not callable(query.weights):
        return query
    if codebook.domain is None:
        expected = "an array, or a function with the domain over which it is to be written out"
        raise WireError(f"{path}.weights", expected, "a function alone")
    try:
        return query.tabulated(cast("Domain", codebook.domain))
    except DpsdkError as error:
        expected = "a function that can be written out over the domain"
        raise WireError(f"{path}.weights", expected, str(error)[:300]) from error


def _marginal(
    attributes: Sequence[str], *, where: Where = None, normalized: bool = True
) -> Marginal:
    return Marginal(*to_names(attributes), where=where, normalized=normalized)


def _cross(parts: tuple[str | Feature, ...]) -> Cross:
    return Cross(*parts)


_LINEAR = Kind(
    Linear,
    "query.linear",
    {"weights": NUMBERS, "attributes": Member(OrNone(_NAMES), None), **_COUNTED},
    settle=_tabulated,
)

KINDS: tuple[Kind[object], ...] = (
    Kind(Ball, "set.ball", {"radius": NUMBER}),
    Kind(Box, "set.box", {"low": _Side(), "high": _Side()}),
    Kind(Simplex, "set.simplex", {}),
    Kind(OneHot, "feature.one-hot", {"attribute": NAME}),
    Kind(Scaled, "feature.scaled", {"attribute": NAME}),
    Kind(Cross, "feature.cross", {"parts": ListOf(_FEATURE, least=2, most=20)}, _cross),
    Kind(GLMLoss, "loss.glm", {"link": Choice[str]("identity", "logit", "log", "probit")}),
    Kind(HuberLoss, "loss.huber", {"threshold": NUMBER}),
    Kind(LogisticLoss, "loss.logistic", {}),
    Kind(
        QuantileLoss,
        "loss.quantile",
        {"q": Member(AMOUNT), "smoothing": Member(OrNone(NUMBER), None)},
    ),
    Kind(SVMLoss, "loss.svm", {"smoothing": Member(OrNone(NUMBER), None)}),
    Kind(SquaredLoss, "loss.squared", {}),
    Kind(Above, "query.above", {"query": _SCALAR, "level": NUMBER}),
    Kind(NumericAbove, "query.numeric-above", {"query": _SCALAR, "level": NUMBER}),
    Kind(Conjunction, "query.conjunction", {"conditions": CONDITIONS, "normalized": _NORMALIZED}),
    Kind(
        ConvexMinimization,
        "query.convex-minimization",
        {
            "loss": _LOSS,
            "features": ListOf(_FEATURE, least=1),
            "label": NAME,
            "over": _SET,
            "intercept": Member(FLAG, True),
        },
    ),
    Kind(Count, "query.count", _COUNTED),
    Kind(Interval, "query.interval", {"attribute": NAME, "low": END, "high": END, **_COUNTED}),
    cast("Kind[object]", _LINEAR),
    Kind(Marginal, "query.marginal", {"attributes": _NAMES, **_COUNTED}, _marginal),
    Kind(Mean, "query.mean", {"attribute": NAME, **_RESTRICTED}),
    Kind(DateQuantile, "query.date-quantile", {"attribute": NAME, "q": AMOUNT, **_RESTRICTED}),
    Kind(Median, "query.median", {"attribute": NAME, **_RESTRICTED}),
    Kind(Quantile, "query.quantile", {"attribute": NAME, "q": AMOUNT, **_RESTRICTED}),
    Kind(
        Rectangles,
        "query.rectangles",
        {
            "attributes": _NAMES,
            "lower": Member(CODES, of="low"),
            "upper": Member(CODES, of="high"),
            **_COUNTED,
        },
    ),
    Kind(Sum, "query.sum", {"attribute": NAME, **_COUNTED}),
    Kind(Threshold, "query.threshold", {"attribute": NAME, "threshold": END, **_COUNTED}),
    Kind(Workload, "query.workload", {"queries": ListOf(QUERY, least=1)}),
)
