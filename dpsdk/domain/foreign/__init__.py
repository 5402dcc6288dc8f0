"""Domains that others declared: read from their metadata, and from types that list their labels."""

from dpsdk.domain.foreign.columns import domain_of
from dpsdk.domain.foreign.metadata import described_in
from dpsdk.domain.foreign.schemas import columns_of_schema

__all__ = ["columns_of_schema", "described_in", "domain_of"]
