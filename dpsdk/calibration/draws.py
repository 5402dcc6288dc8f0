"""Draws: which of many public questions and budgets are tried, the same for the same variant."""

from __future__ import annotations

import hashlib

import numpy as np

from dpsdk.hypothesis import Streams
from dpsdk.typing import Ints

__all__ = ["Draws"]


class Draws:
    """Numbers that look drawn and follow from a name. Public, and nothing is hidden by them.

    Parameters
    ----------
    name
        What they follow from.
    """

    __slots__ = ("_key",)

    def __init__(self, *name: object) -> None:
        self._key = hashlib.sha256(repr(name).encode("utf-8", "backslashreplace")).digest()

    def below(self, name: str, most: int, count: int) -> Ints:
        """So many whole numbers from 0 to below `most`."""
        levels = Streams(count, self._key).levels(name)
        return (levels * most).astype(np.int64)

    def order(self, name: str, count: int) -> list[int]:
        """The numbers below `count` in some order."""
        levels = Streams(count, self._key).levels(name)
        return [int(place) for place in np.argsort(levels, kind="stable")]
