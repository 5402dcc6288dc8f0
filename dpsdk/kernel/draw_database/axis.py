"""The atoms of one attribute: consecutive cells that no range of a workload tells apart."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from attrs import frozen

from dpsdk.noise import NoiseSource
from dpsdk.typing import Ints

__all__ = ["Axis"]


@frozen(eq=False)
class Axis:
    """Cells 0 to `size` - 1 of an attribute, in `pieces` consecutive pieces.

    `ends` has the end of each piece, not included in it; None stands for one piece a cell, so that
    an attribute of 2**62 cells is as good as a small one.
    """

    name: str
    size: int
    ends: Ints | None

    @classmethod
    def cut(cls, name: str, size: int, cuts: Iterable[int]) -> Axis:
        """Pieces that begin and end at the given cells, at 0 and at `size`."""
        inner = {int(cut) for cut in cuts if 0 < cut < size}
        if len(inner) == size - 1:
            return cls(name, size, None)
        return cls(name, size, np.array([*sorted(inner), size], dtype=np.int64))

    @property
    def pieces(self) -> int:
        """How many there are."""
        return self.size if self.ends is None else len(self.ends)

    def locate(self, codes: Ints) -> Ints:
        """The piece that each cell belongs to."""
        if self.ends is None:
            return codes
        return np.searchsorted(self.ends, codes, side="right").astype(np.int64, copy=False)

    def span(self, piece: int) -> tuple[int, int]:
        """The first cell of a piece, and the one after its last."""
        if self.ends is None:
            return piece, piece + 1
        return int(self.ends[piece - 1]) if piece else 0, int(self.ends[piece])

    def fill(self, piece: int, noise: NoiseSource) -> int:
        """A uniform cell of a piece."""
        start, stop = self.span(piece)
        return start + noise.uniform_below(stop - start)
