"""How far public tables are from the true shares, all at once, whatever they were made by.

Theorem (docs/explanation/proofs/look.md, "What it says of a public table"). A look with fresh noise
bounds the L1 distance of each table from the counts. Divided by twice the mass of the table, and
with what that mass may differ from the number of rows, it bounds the total variation.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import TypeAlias

import numpy as np

from dpsdk._arrays import Lasting, frozen_copy
from dpsdk._checks import shown, to_array, to_beta, to_integer
from dpsdk._records import cmp_using, field, frozen
from dpsdk.accuracy import HalfWidths, NoiseAccuracy
from dpsdk.errors import InvalidArgument
from dpsdk.kernel import Reference
from dpsdk.release import Measurement
from dpsdk.typing import Array, Floats

__all__ = ["Certificate", "Rows", "to_rows"]

_SHARE_OF_ROWS = 0.1
"""Of beta, where the number of rows was measured: its noise matters less than that of a look."""

_ROUNDED = 2.0**-40
"""The relative rounding of sums of up to 2^27 positive numbers."""

Rows: TypeAlias = Measurement[HalfWidths] | int | None
"""A number of rows that was released with proven half-widths, or is public, or is not known."""


def _to_looked(looked: Measurement[NoiseAccuracy]) -> Measurement[NoiseAccuracy]:
    released = isinstance(looked, Measurement) and type(looked.accuracy) is NoiseAccuracy
    if not released or not len(looked.values):
        expected = "what a look released: distances under noise of one law"
        raise InvalidArgument("looked", expected, shown(looked))
    return looked


def _to_masses(masses: Array | Sequence[float]) -> Floats:
    expected = "one finite number of at least 0 for each distance"
    own = to_array("masses", masses, expected)
    if own.ndim != 1 or not ((own >= 0.0) & (own < math.inf)).all():
        raise InvalidArgument("masses", expected, "others")
    return frozen_copy(own)


def to_rows(rows: Rows) -> Rows:
    """Read a number of rows."""
    if isinstance(rows, Measurement):
        bounded = isinstance(rows.accuracy, HalfWidths) and rows.accuracy.proven
        if len(rows.values) != 1 or not bounded:
            expected = "one measured count, with proven half-widths"
            raise InvalidArgument("rows", expected, shown(rows))
        return rows
    expected = "an integer of at least 0"
    number = None if rows is None else to_integer("rows", rows, expected)
    if number is not None and number < 0:
        raise InvalidArgument("rows", expected, shown(number))
    return number


@frozen
class Certificate(Lasting):
    """Bounds of total variation that hold for all public tables that were looked from at once.

    The total variation of two tables is half the L1 distance of their shares: the most that the
    share of any set of cells differs by. It costs nothing beyond the look.

    Parameters
    ----------
    looked
        What a look at the tables released. Its noise must be fresh: nothing of these distances may
        have gone into the tables.
    masses
        What the entries of each table, rounded as they were looked from, add up to, in rows.
    rows
        The number of rows inside the domain: an integer where that is public, as it is for tables
        of a public number of rows none of which lies outside; one released number with its
        half-width where it was measured; None where nothing is known of it, which makes bounds up
        to twice as large.

    >>> from dpsdk import Boolean, Budget, Domain, PrivateData
    >>> from dpsdk.accounting import BasicComposition, Odometer
    >>> from dpsdk.kernel import Kernel, LaplaceNoise, Reference
    >>> from dpsdk.testing import seeded
    >>> data = PrivateData.from_columns({"bit": [True] * 600 + [False] * 400},
    ...                                 Domain(Boolean("bit")), outside="raise")
    >>> kernel = Kernel(data, Odometer(Budget(1), BasicComposition()), seeded(1), "look")
    >>> guess = Reference(["bit"], [500, 500])
    >>> looked = kernel.look([guess], LaplaceNoise(1))
    >>> Certificate.of([guess], looked, rows=1000).bounds(0.05).round(2).tolist()
    [0.1]
    """

    looked: Measurement[NoiseAccuracy] = field(converter=_to_looked)
    masses: Floats = field(converter=_to_masses, eq=cmp_using(eq=np.array_equal), hash=False)
    rows: Rows = field(default=None, converter=to_rows)

    def __attrs_post_init__(self) -> None:
        if len(self.masses) != len(self.looked.values):
            expected = f"{len(self.looked.values)} of them, one for each distance"
            raise InvalidArgument("masses", expected, f"{len(self.masses)}")

    @classmethod
    def of(
        cls, references: Iterable[Reference], looked: Measurement[NoiseAccuracy], rows: Rows = None
    ) -> Certificate:
        """The certificate of the references of a look, in their order."""
        bits = -round(math.log2(_to_looked(looked).accuracy.step))
        own = list(references) if isinstance(references, Iterable) else [references]
        if not all(isinstance(one, Reference) for one in own):
            raise InvalidArgument("references", "those of the look", shown(references))
        return cls(looked, np.array([one.rounded(bits).sum() for one in own]), rows)

    def distances(self, beta: float) -> Floats:
        """With probability 1 - beta, no table is farther from the true counts, in L1 and in rows.

        By the exact tail of the noise on one side, shared out among the tables.
        """
        accuracy = self.looked.accuracy
        each = 2 * to_beta(beta) / len(self.masses)
        # Of two sides, which are alike; one side alone has half the probability anyway.
        radius = accuracy.law.radius(each) if each < 1.0 else 0
        above: Floats = np.maximum(self.looked.values + radius * accuracy.step + accuracy.bias, 0.0)
        return above

    def bounds(self, beta: float = 0.05) -> Floats:
        """With probability 1 - beta, no table's shares are farther off in total variation.

        Parameters
        ----------
        beta
            Strictly between 0 and 1. Where the number of rows was measured, it has a tenth of it.

        Returns
        -------
        Floats
            One number from 0 to 1 for each table.
        """
        whole, rows, masses = to_beta(beta), self.rows, self.masses
        if isinstance(rows, Measurement):
            own, counted = whole * (1 - _SHARE_OF_ROWS), whole * _SHARE_OF_ROWS
            radius = float(rows.accuracy.radii(counted, joint=True)[0])
            excess: Floats = np.abs(masses - float(rows.values[0])) + radius
        elif rows is None:
            own, excess = whole, np.full(len(masses), math.inf)
        else:
            own, excess = whole, np.abs(masses - float(rows))
        distances = self.distances(own)
        with np.errstate(divide="ignore", invalid="ignore"):
            # What is not known of a count is NaN: then the distance alone bounds it.
            beyond = np.fmin(distances, excess + _ROUNDED * masses)
            bounds = (1 + _ROUNDED) * (distances + beyond) / (2 * masses)
        # Of a table without any mass nothing is known.
        result: Floats = np.where(masses > 0.0, np.minimum(bounds, 1.0), 1.0)
        return result
