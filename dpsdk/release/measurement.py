"""Raw numbers and where they come from, before a query makes an answer of them."""

from __future__ import annotations

from typing import Generic, Literal, TypeAlias

import numpy as np
from typing_extensions import TypeVar as DefaultTypeVar

from dpsdk._arrays import Lasting, frozen_copy, same_numbers
from dpsdk._records import cmp_using, field, frozen
from dpsdk.accuracy import Accuracy
from dpsdk.typing import Floats

__all__ = ["Measurement", "Source"]

_FLOAT = np.dtype(np.float64)

Acc_co = DefaultTypeVar("Acc_co", bound=Accuracy, covariant=True, default=Accuracy)

Source: TypeAlias = Literal["measured", "fitted", "hypothesis"]
"""The origin of an answer.

"measured" on the data; "fitted" to what was measured, once, for this and other questions; or read
off a "hypothesis", a public distribution that moves, or that a model was fitted on.
"""


def _still(values: Floats) -> Floats:
    # Of another author's strategy it may be anything, which is refused later.
    return frozen_copy(values) if type(values) is np.ndarray and values.dtype == _FLOAT else values


@frozen
class Measurement(Lasting, Generic[Acc_co]):
    """Raw numbers that a strategy got for a form, with their accuracy.

    For a linear form they are counts of rows.
    """

    values: Floats = field(converter=_still, eq=cmp_using(eq=same_numbers), hash=False)
    accuracy: Acc_co
    source: Source = "measured"
