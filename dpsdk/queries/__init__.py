"""Queries: typed questions about the rows of a table."""

from typing import TYPE_CHECKING

from dpsdk._lazy import lazy_names

if TYPE_CHECKING:
    from dpsdk.forms.sets import Ball, Box, Simplex
    from dpsdk.queries.above import Above, NumericAbove
    from dpsdk.queries.base import CountingQuery, LinearQuery, Query, ScalarQuery
    from dpsdk.queries.classes import Classifier, OneVsRest, Softmax
    from dpsdk.queries.conditions import Condition, Not
    from dpsdk.queries.conjunction import Conjunction, Where
    from dpsdk.queries.features import Cross, Feature, OneHot, Scaled
    from dpsdk.queries.groups import GroupTable
    from dpsdk.queries.linear import Linear
    from dpsdk.queries.marginal import Marginal, MarginalTable, marginals
    from dpsdk.queries.minimization import ConvexMinimization
    from dpsdk.queries.model import Model
    from dpsdk.queries.monotone import isotonic
    from dpsdk.queries.order import Between
    from dpsdk.queries.quantile import DateQuantile, Median, Quantile
    from dpsdk.queries.rectangles import Rectangles
    from dpsdk.queries.tally import CountDistinct, CountPersons
    from dpsdk.queries.threshold import Interval, Threshold
    from dpsdk.queries.totals import Count, Mean, Sum
    from dpsdk.queries.unmatched import Unmatched, UnmatchedTable
    from dpsdk.queries.variance import StdDev, Variance
    from dpsdk.queries.workload import Answers, Workload
else:
    __getattr__, __dir__ = lazy_names(
        __name__,
        {
            "dpsdk.forms.sets": "Ball Box Simplex",
            "above": "Above NumericAbove",
            "base": "CountingQuery LinearQuery Query ScalarQuery",
            "classes": "Classifier OneVsRest Softmax",
            "conditions": "Condition Not",
            "conjunction": "Conjunction Where",
            "features": "Cross Feature OneHot Scaled",
            "groups": "GroupTable",
            "linear": "Linear",
            "marginal": "Marginal MarginalTable marginals",
            "minimization": "ConvexMinimization",
            "model": "Model",
            "monotone": "isotonic",
            "order": "Between",
            "quantile": "DateQuantile Median Quantile",
            "rectangles": "Rectangles",
            "tally": "CountDistinct CountPersons",
            "threshold": "Interval Threshold",
            "totals": "Count Mean Sum",
            "unmatched": "Unmatched UnmatchedTable",
            "variance": "StdDev Variance",
            "workload": "Answers Workload",
        },
    )

__all__ = [
    "Above",
    "Answers",
    "Ball",
    "Between",
    "Box",
    "Classifier",
    "Condition",
    "Conjunction",
    "ConvexMinimization",
    "Count",
    "CountDistinct",
    "CountPersons",
    "CountingQuery",
    "Cross",
    "DateQuantile",
    "Feature",
    "GroupTable",
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
    "OneVsRest",
    "Quantile",
    "Query",
    "Rectangles",
    "Scaled",
    "ScalarQuery",
    "Simplex",
    "Softmax",
    "StdDev",
    "Sum",
    "Threshold",
    "Unmatched",
    "UnmatchedTable",
    "Variance",
    "Where",
    "Workload",
    "isotonic",
    "marginals",
]
