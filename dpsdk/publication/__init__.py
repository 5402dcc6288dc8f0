"""Releases that explain themselves: what a release says, in the formats that others read.

`Release.metadata` gives the `Metadata` of a release: every field of its written form, its tables as
CSV, and its description as a record of the public registry of deployments of differential privacy,
as CSV on the Web and as a data package. Nothing is said that the release does not know: what is
left out is listed, and can be added by an `About`.
"""

from dpsdk._frames import spelled
from dpsdk.publication.about import About
from dpsdk.publication.described import Described
from dpsdk.publication.files import TableFile, file_names, guarded
from dpsdk.publication.metadata import Metadata
from dpsdk.publication.tables import Column, PublishedTable

__all__ = [
    "About",
    "Column",
    "Described",
    "Metadata",
    "PublishedTable",
    "TableFile",
    "file_names",
    "guarded",
    "spelled",
]
