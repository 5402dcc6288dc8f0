"""Private tables: how they are declared, taken in and kept to themselves."""

from dpsdk.data.private_data import Outside, PrivateData
from dpsdk.data.unit import PrivacyUnit
from dpsdk.forms.facts import Neighbors

__all__ = ["Neighbors", "Outside", "PrivacyUnit", "PrivateData"]
