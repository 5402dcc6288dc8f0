"""Privacy-accounted queries: one private table, one budget, many typed answers.

Names are loaded when they are first asked for.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dpsdk import examples as examples
    from dpsdk.accounting import Budget, SQLiteLedger
    from dpsdk.data import Neighbors, PrivacyUnit, PrivateData, Undeclared
    from dpsdk.domain import (
        MISSING,
        OTHER,
        Attribute,
        Binned,
        Boolean,
        Categorical,
        Date,
        Domain,
        Integer,
        Number,
        Periods,
    )
    from dpsdk.hypothesis import SyntheticData
    from dpsdk.mechanisms import Gaussian, Laplace
    from dpsdk.planner import Planner
    from dpsdk.plugins import mechanism, query
    from dpsdk.queries import (
        Above,
        Count,
        Interval,
        Marginal,
        Mean,
        Median,
        Quantile,
        Sum,
        Threshold,
        Workload,
    )
    from dpsdk.release import Quote, Release
    from dpsdk.session import Discovery, Session
    from dpsdk.session.channel import (
        Channel,
        DistributionChannel,
        HypothesisChannel,
        TablesChannel,
    )
    from dpsdk.session.opening import Stopped
else:
    from dpsdk._lazy import lazy_names

    __getattr__, __dir__ = lazy_names(
        __name__,
        {
            "accounting": "Budget SQLiteLedger",
            "data": "Neighbors PrivacyUnit PrivateData Undeclared",
            "domain": (
                "MISSING OTHER Attribute Binned Boolean Categorical Date Domain Integer Number "
                "Periods"
            ),
            "examples": "examples",
            "hypothesis": "SyntheticData",
            "mechanisms": "Gaussian Laplace",
            "planner": "Planner",
            "plugins": "mechanism query",
            "queries": "Above Count Interval Marginal Mean Median Quantile Sum Threshold Workload",
            "release": "Quote Release",
            "session": "Discovery Session",
            "session.channel": "Channel DistributionChannel HypothesisChannel TablesChannel",
            "session.opening": "Stopped",
        },
    )


__all__ = [
    "MISSING",
    "OTHER",
    "Above",
    "Attribute",
    "Binned",
    "Boolean",
    "Budget",
    "Categorical",
    "Channel",
    "Count",
    "Date",
    "Discovery",
    "DistributionChannel",
    "Domain",
    "Gaussian",
    "HypothesisChannel",
    "Integer",
    "Interval",
    "Laplace",
    "Marginal",
    "Mean",
    "Median",
    "Neighbors",
    "Number",
    "Periods",
    "Planner",
    "PrivacyUnit",
    "PrivateData",
    "Quantile",
    "Quote",
    "Release",
    "SQLiteLedger",
    "Session",
    "Stopped",
    "Sum",
    "SyntheticData",
    "TablesChannel",
    "Threshold",
    "Undeclared",
    "Workload",
    "mechanism",
    "query",
]
