"""Releases of a session: an answer, its cost, and its error."""

from dpsdk.accuracy import (
    Accuracy,
    Bound,
    Constrained,
    ConstrainedAccuracy,
    Constraint,
    HalfWidths,
    Lifting,
    NoAccuracy,
    NoiseAccuracy,
    PromisedAccuracy,
    ScalarAccuracy,
    Standing,
)
from dpsdk.release.cost import Cost
from dpsdk.release.measurement import Measurement, Source
from dpsdk.release.quote import Quote
from dpsdk.release.release import Release

__all__ = [
    "Accuracy",
    "Bound",
    "Constrained",
    "ConstrainedAccuracy",
    "Constraint",
    "Cost",
    "HalfWidths",
    "Lifting",
    "Measurement",
    "NoAccuracy",
    "NoiseAccuracy",
    "PromisedAccuracy",
    "Quote",
    "Release",
    "ScalarAccuracy",
    "Source",
    "Standing",
]
