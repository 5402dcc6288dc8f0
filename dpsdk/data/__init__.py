"""Private tables: how they are declared, taken in and kept to themselves."""

from dpsdk.data.private_data import Collect, Outside, PrivateData
from dpsdk.data.undeclared import Undeclared, UndeclaredFacts, UndeclaredOptions
from dpsdk.data.unit import PrivacyUnit
from dpsdk.forms.facts import Neighbors

__all__ = [
    "Collect",
    "Neighbors",
    "Outside",
    "PrivacyUnit",
    "PrivateData",
    "Undeclared",
    "UndeclaredFacts",
    "UndeclaredOptions",
]
