"""Gaps on a lattice, in the kernel's own values: one gate for every kind that `watch` compares."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol, TypeAlias

import numpy as np
from attrs import frozen

from dpsdk.data.histogram import Histogram
from dpsdk.domain import Domain
from dpsdk.errors import InvalidArgument
from dpsdk.forms import Gap, GapForm, LinearForm
from dpsdk.forms.facts import Setting
from dpsdk.kernel.copies import OwnForm, own_form
from dpsdk.kernel.lattice import exact, on_given_lattice
from dpsdk.typing import Ints

__all__ = ["FARTHEST", "LatticeGaps", "LinearGaps", "in_rows", "own_gaps", "own_linear"]

FARTHEST = 2.0**59
"""No threshold and no offset is more lattice steps away, so that their sums fit an integer."""


class LatticeGaps(Protocol):
    """Gaps in whole lattice steps. One record moves each by 2**bits steps at the most.

    So the lattice of a kind is as fine as its sensitivity asks, and one law of noise serves all
    kinds. A kind is read in two steps, so that the same functions are read once, whatever public
    answers they are compared with.
    """

    @property
    def rows(self) -> int:
        """The number of gaps."""
        ...

    @property
    def numeric(self) -> bool:
        """Whether a gap above its threshold is also asked for its size."""
        ...

    @property
    def steps(self) -> float:
        """How many lattice steps one unit of the gaps is, 2**bits over their sensitivity."""
        ...

    @property
    def source(self) -> object:
        """What is read. Gaps of one class that have the same object here read the same numbers."""
        ...

    def read(self, histogram: Histogram) -> Ints:
        """The exact integers that are read; private."""
        ...

    def scores(self, numbers: Ints) -> Ints:
        """The gaps, from what was read, in lattice steps, within 2**53; private."""
        ...


@frozen(eq=False)
class LinearGaps:
    """Linear functions of the rows minus public answers."""

    source: LinearForm
    rates: Ints
    offsets: Ints
    absolute: bool
    numeric: bool
    steps: float
    change: float
    """By how much rounding changed a weight at the most."""
    own: OwnForm
    """The functions before they were put on the lattice."""

    @property
    def rows(self) -> int:
        """The number of gaps."""
        return len(self.rates)

    def read(self, histogram: Histogram) -> Ints:
        """The answers, and the number of rows after them."""
        numbers = np.empty(len(self.rates) + 1, dtype=np.int64)
        numbers[:-1] = exact(self.source.evaluate(histogram))
        numbers[-1] = histogram.rows
        return numbers

    def scores(self, numbers: Ints) -> Ints:
        """Answers minus rates of the rows and offsets, absolute where that was asked for."""
        gaps: Ints = numbers[:-1] - self.rates * numbers[-1] - self.offsets
        return np.abs(gaps) if self.absolute else gaps


def own_linear(gap: GapForm, setting: Setting, domain: Domain, bits: int) -> LinearGaps:
    """The kernel's own copy of gaps of linear functions. Raises as `own_gaps` does.

    The numbers are copied first, and checked then: they might have changed since the gap did.
    """
    own = own_form(gap.form, setting, domain)
    copy = GapForm(own.form, gap.rates, gap.offsets, bool(gap.absolute), bool(gap.numeric))
    lattice, change = on_given_lattice(own, bits, "gap")
    low, high = lattice.limits
    unit = 2.0**bits
    if not (low >= 0 and high <= unit):
        raise InvalidArgument("gap", "weights from 0 to 1", "some outside that range")
    if float(np.abs(copy.offsets).max()) * unit > FARTHEST:
        raise InvalidArgument("offsets", in_rows(unit), "some beyond that")
    return LinearGaps(
        lattice,
        np.floor(copy.rates * unit + 0.5).astype(np.int64),
        np.floor(copy.offsets * unit + 0.5).astype(np.int64),
        copy.absolute,
        copy.numeric,
        unit / copy.sensitivity,
        change,
        own,
    )


_Reader: TypeAlias = Callable[[Any, Setting, Domain, int], LatticeGaps]

_KINDS: dict[type[Gap], _Reader] = {GapForm: own_linear}
"""How the gaps of each kind go onto the lattice. What is not in here is refused."""


def own_gaps(gap: Gap, setting: Setting, domain: Domain, bits: int) -> LatticeGaps:
    """The kernel's own copy of gaps, on the lattice that a watch uses.

    Raises
    ------
    InvalidArgument
        If the gap is of no kind of the package, does not fit the table, or could not be summed
        exactly.
    """
    given = type(gap)
    for kind, reader in _KINDS.items():
        if kind is given:
            return reader(gap, setting, domain, bits)
    names = " or ".join(f"a {kind.__name__}" for kind in _KINDS)
    raise InvalidArgument("gap", f"{names}, of that very class", given.__name__)


def in_rows(unit: float) -> str:
    """How far from nought thresholds and offsets may be, for refusals."""
    return f"finite, at most {FARTHEST / unit:g} rows"
