"""The universe that records come from: a product of attributes, declared by the data's owner.

Everything here is public. A domain says what a record may look like; it is never inferred from
the rows of a table.
"""

from dpsdk.domain.attributes import Attribute, Binned, Boolean, Categorical, Integer
from dpsdk.domain.dates import Date
from dpsdk.domain.number import Number
from dpsdk.domain.periods import Periods
from dpsdk.domain.product import Domain
from dpsdk.typing import Extra

__all__ = [
    "MISSING",
    "OTHER",
    "Attribute",
    "Binned",
    "Boolean",
    "Categorical",
    "Date",
    "Domain",
    "Integer",
    "Number",
    "Periods",
]

OTHER = Extra.OTHER
"""The cell of values that match no label of an attribute, as a label in conditions and tables."""

MISSING = Extra.MISSING
"""The cell of missing values of an attribute, as a label in conditions and tables."""
