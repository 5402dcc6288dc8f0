"""Kits that show whether a plugin is as good a citizen as what is built in."""

from dpsdk.testing.conformance.mechanisms import check_mechanism
from dpsdk.testing.conformance.queries import check_query
from dpsdk.testing.conformance.report import Report, Result

__all__ = ["Report", "Result", "check_mechanism", "check_query"]
