"""The universe that records come from: a product of attributes, declared by the data's owner.

Everything here is public. A domain says what a record may look like; it is never inferred from
the rows of a table.
"""

from dpsdk.domain.attributes import Attribute, Binned, Boolean, Categorical, Integer
from dpsdk.domain.dates import Date
from dpsdk.domain.product import Domain

__all__ = ["Attribute", "Binned", "Boolean", "Categorical", "Date", "Domain", "Integer"]
