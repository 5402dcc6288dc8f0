"""Privacy-accounted queries: one private table, one budget, many typed answers."""

from dpsdk.accounting import Budget
from dpsdk.data import Neighbors, PrivacyUnit, PrivateData
from dpsdk.domain import Attribute, Binned, Boolean, Categorical, Date, Domain, Integer
from dpsdk.hypothesis import SyntheticData
from dpsdk.release import Quote, Release
from dpsdk.session import Session
from dpsdk.session.channel import (
    Channel,
    DistributionChannel,
    HypothesisChannel,
    Stopped,
    TablesChannel,
)

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
]
