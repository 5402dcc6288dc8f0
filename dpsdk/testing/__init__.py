"""Tools for testing code that uses or extends dpsdk; nothing here is private."""

from dpsdk.testing.noise import SeededNoise, seeded  # isort: skip  # which the kit stands on
from dpsdk.testing.conformance import Report, Result, check_mechanism, check_query

__all__ = ["Report", "Result", "SeededNoise", "check_mechanism", "check_query", "seeded"]
