"""Releases of a session: an answer, its cost, and its error."""

from dpsdk.accuracy import (
    Accuracy,
    Bound,
    Constrained,
    ConstrainedAccuracy,
    Constraint,
    Expectations,
    HalfWidths,
    Lifting,
    NoAccuracy,
    NoiseAccuracy,
    PromisedAccuracy,
    ScalarAccuracy,
    Standing,
)
from dpsdk.notes import (
    AddsUp,
    ByPeriod,
    Clipped,
    FromRecords,
    InBins,
    KnownRowsOnly,
    Note,
    Rounded,
)
from dpsdk.release.cost import Cost
from dpsdk.release.description import ColumnDescription, Description
from dpsdk.release.discoveries import Bounds, Keys, RowsPerPerson
from dpsdk.release.measurement import Measurement, Source
from dpsdk.release.population import PopulationExpectation, PopulationInterval, Transcript
from dpsdk.release.quote import Quote
from dpsdk.release.ranking import Ranked, Ranking
from dpsdk.release.release import Release

__all__ = [
    "Accuracy",
    "AddsUp",
    "Bound",
    "Bounds",
    "Clipped",
    "ColumnDescription",
    "Constrained",
    "ConstrainedAccuracy",
    "Constraint",
    "ByPeriod",
    "Cost",
    "Description",
    "Expectations",
    "FromRecords",
    "HalfWidths",
    "InBins",
    "Keys",
    "KnownRowsOnly",
    "Lifting",
    "Measurement",
    "NoAccuracy",
    "NoiseAccuracy",
    "Note",
    "PopulationExpectation",
    "PopulationInterval",
    "PromisedAccuracy",
    "Quote",
    "Ranked",
    "Ranking",
    "Release",
    "Rounded",
    "RowsPerPerson",
    "ScalarAccuracy",
    "Source",
    "Standing",
    "Transcript",
]
