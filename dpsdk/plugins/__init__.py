"""Plugins: mechanisms, queries and their written forms out of other installed distributions.

A distribution offers classes by entry points, in the groups `dpsdk.mechanisms` and `dpsdk.queries`,
and their written forms in the group `dpsdk.kinds`. They are called by the name of the distribution
and their own, as "acme-dp:repeated"; names without a colon are those of dpsdk alone. What is listed
is not imported; what is asked for by name is, and no text that is read over a wire does that.
"""

from dpsdk.errors import PluginError, UnknownName
from dpsdk.plugins.discovery import Plugin, listed
from dpsdk.plugins.kinds import catalogue
from dpsdk.plugins.making import mechanism, query

__all__ = ["Plugin", "PluginError", "UnknownName", "catalogue", "listed", "mechanism", "query"]
