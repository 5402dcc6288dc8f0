"""Queries: typed questions about the rows of a table."""

from dpsdk.forms.sets import Ball, Box, Simplex
from dpsdk.queries.above import Above, NumericAbove
from dpsdk.queries.base import CountingQuery, LinearQuery, Query, ScalarQuery
from dpsdk.queries.conditions import Condition, Not
from dpsdk.queries.conjunction import Conjunction, Where
from dpsdk.queries.features import Cross, Feature, OneHot, Scaled
from dpsdk.queries.linear import Linear
from dpsdk.queries.marginal import Marginal, MarginalTable, marginals
from dpsdk.queries.minimization import ConvexMinimization
from dpsdk.queries.model import Model
from dpsdk.queries.order import Between
from dpsdk.queries.quantile import DateQuantile, Median, Quantile, isotonic
from dpsdk.queries.rectangles import Rectangles
from dpsdk.queries.threshold import Interval, Threshold
from dpsdk.queries.totals import Count, Mean, Sum
from dpsdk.queries.workload import Answers, Workload

__all__ = [
    "Above",
    "Answers",
    "Ball",
    "Between",
    "Box",
    "Condition",
    "Conjunction",
    "ConvexMinimization",
    "Count",
    "CountingQuery",
    "Cross",
    "DateQuantile",
    "Feature",
    "Interval",
    "Linear",
    "LinearQuery",
    "Marginal",
    "MarginalTable",
    "Mean",
    "Median",
    "Model",
    "Not",
    "NumericAbove",
    "OneHot",
    "Quantile",
    "Query",
    "Rectangles",
    "Scaled",
    "ScalarQuery",
    "Simplex",
    "Sum",
    "Threshold",
    "Where",
    "Workload",
    "isotonic",
    "marginals",
]
