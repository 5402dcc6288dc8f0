"""Privacy-accounted queries: one private table, one budget, many typed answers."""

from typing import TYPE_CHECKING

from dpsdk.accounting import Budget
from dpsdk.data import Neighbors, PrivacyUnit, PrivateData
from dpsdk.domain import Attribute, Binned, Boolean, Categorical, Date, Domain, Integer
from dpsdk.hypothesis import SyntheticData
from dpsdk.release import Quote, Release
from dpsdk.session import Session
from dpsdk.session.channel import Channel, DistributionChannel, HypothesisChannel, TablesChannel
from dpsdk.session.stopped import Stopped

if TYPE_CHECKING:
    from dpsdk import examples as examples
    from dpsdk.plugins import mechanism, query
else:

    def __getattr__(name):
        """What few programs need: the example table, and the functions that find plugins."""
        if name == "examples":
            import dpsdk.examples as module  # noqa: PLC0415  # so that others load it not at all

            return module
        if name in ("mechanism", "query"):
            from dpsdk import plugins  # noqa: PLC0415  # so that others load it not at all

            return getattr(plugins, name)
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


__all__ = [
    "Attribute",
    "Binned",
    "Boolean",
    "Budget",
    "Categorical",
    "Channel",
    "Date",
    "DistributionChannel",
    "Domain",
    "HypothesisChannel",
    "Integer",
    "Neighbors",
    "PrivacyUnit",
    "PrivateData",
    "Quote",
    "Release",
    "Session",
    "Stopped",
    "SyntheticData",
    "TablesChannel",
    "mechanism",
    "query",
]
