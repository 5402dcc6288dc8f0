"""Privacy-accounted queries: one private table, one budget, many typed answers.

Names are loaded when they are first asked for.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dpsdk import examples as examples
    from dpsdk.accounting import Budget, SQLiteLedger
    from dpsdk.data import Neighbors, PrivacyUnit, PrivateData
    from dpsdk.domain import Attribute, Binned, Boolean, Categorical, Date, Domain, Integer
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
    from dpsdk.session import Session
    from dpsdk.session.channel import (
        Channel,
        DistributionChannel,
        HypothesisChannel,
        TablesChannel,
    )
    from dpsdk.session.stopped import Stopped
else:
    _ROOMS = {
        "accounting": "Budget SQLiteLedger",
        "data": "Neighbors PrivacyUnit PrivateData",
        "domain": "Attribute Binned Boolean Categorical Date Domain Integer",
        "hypothesis": "SyntheticData",
        "mechanisms": "Gaussian Laplace",
        "planner": "Planner",
        "plugins": "mechanism query",
        "queries": ("Above Count Interval Marginal Mean Median Quantile Sum Threshold Workload"),
        "release": "Quote Release",
        "session": "Session",
        "session.channel": "Channel DistributionChannel HypothesisChannel TablesChannel",
        "session.stopped": "Stopped",
    }
    _MODULES = {name: room for room, names in _ROOMS.items() for name in names.split()}

    def __getattr__(name):
        """Load the room that has a name."""
        if name == "examples":
            return import_module("dpsdk.examples")
        if name not in _MODULES:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        value = getattr(import_module(f"dpsdk.{_MODULES[name]}"), name)
        globals()[name] = value
        return value

    def __dir__():
        return sorted({*globals(), *__all__, "examples"})


__all__ = [
    "Above",
    "Attribute",
    "Binned",
    "Boolean",
    "Budget",
    "Categorical",
    "Channel",
    "Count",
    "Date",
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
    "Workload",
    "mechanism",
    "query",
]
