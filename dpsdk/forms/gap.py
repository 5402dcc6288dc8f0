"""Gap forms: how far the rows are from public answers."""

from __future__ import annotations

from abc import abstractmethod
from hashlib import sha256

import numpy as np

from dpsdk._arrays import frozen_copy
from dpsdk._records import field, frozen
from dpsdk.domain import Domain
from dpsdk.errors import InvalidArgument
from dpsdk.forms.base import Form
from dpsdk.forms.linear import LinearForm
from dpsdk.typing import Floats

__all__ = ["Gap", "GapForm"]


class Gap(Form):
    """Numbers that `kernel.watch` compares with a threshold, in order, all of one kind.

    A kind is a class. It says how far one record moves a gap, which all noise of a watch is
    measured by; the kernel knows, for each kind of the package, how its gaps are read on a lattice.
    """

    __slots__ = ()

    numeric: bool
    """True if a gap above its threshold is also asked for its size."""

    @property
    @abstractmethod
    def rows(self) -> int:
        """The number of gaps."""

    @property
    @abstractmethod
    def sensitivity(self) -> float:
        """How far one record moves a gap at the most, in the unit of the gaps."""


_GAPS = b"dpsdk gap form 1\0"


def _to_numbers(values: Floats) -> Floats:
    return frozen_copy(np.array(values, dtype=np.float64))


@frozen(eq=False)
class GapForm(Gap):
    """Linear functions of the rows minus public answers to them, in counts of rows.

    Gap i is the sum of function i over the rows, minus `rates[i]` times the number of rows, minus
    `offsets[i]`; its absolute value where `absolute`. Functions and rates lie between 0 and 1, so
    one row moves a gap by one at the most, under either neighbour relation and whether or not
    the number of rows is public (docs/explanation/proofs/watch.md).
    """

    form: LinearForm
    rates: Floats = field(converter=_to_numbers)
    offsets: Floats = field(converter=_to_numbers)
    absolute: bool = True
    numeric: bool = False
    """True if a gap above its threshold is also asked for its size."""

    def __attrs_post_init__(self) -> None:
        low, high = self.form.limits
        if not (low >= 0 and high <= 1):  # neither is NaN
            raise InvalidArgument("form", "weights from 0 to 1", "some outside that range")
        for name, values in (("rates", self.rates), ("offsets", self.offsets)):
            if values.shape != (self.form.rows,) or not np.isfinite(values).all():
                expected = f"{self.form.rows} finite numbers"
                raise InvalidArgument(name, expected, f"shape {values.shape}")
        if float(self.rates.min()) < 0 or float(self.rates.max()) > 1:
            raise InvalidArgument("rates", "numbers from 0 to 1", "some outside that range")

    @property
    def domain(self) -> Domain:  # type: ignore[override]  # derived here, a field elsewhere
        return self.form.domain

    @property
    def rows(self) -> int:
        return self.form.rows

    @property
    def identity(self) -> bytes:
        """The same for the same gaps in the same order, and for no others; see `LinearForm`."""
        kind = b"%d%d" % (bool(self.absolute), bool(self.numeric))
        digest = sha256(_GAPS + kind + self.form.identity)
        for numbers in (self.rates, self.offsets):
            digest.update((numbers + 0.0).astype("<f8").tobytes())  # a zero has no sign here
        return digest.digest()

    @property
    def sensitivity(self) -> float:
        """One row, by the limits of functions and rates."""
        return 1.0

    @classmethod
    def around(cls, form: LinearForm, rates: Floats) -> GapForm:
        """Absolute gaps from public shares of the rows."""
        return cls(form, rates, np.zeros(form.rows))
