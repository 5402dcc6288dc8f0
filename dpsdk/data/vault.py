"""Where private histograms are kept: beside the objects that stand for them, not inside.

A `PrivateData` holds nothing to look at. Only the kernel and the modules of this package may
import this one; an import contract and a test hold that wall. It keeps out accidents and plugins
that play by the rules, not code in the same process that walks the interpreter's memory
(docs/explanation/threat-model.md).
"""

from __future__ import annotations

from weakref import WeakKeyDictionary

from dpsdk.data.histogram import Histogram

__all__ = ["keep", "open_histogram"]

_kept: WeakKeyDictionary[object, Histogram] = WeakKeyDictionary()


def keep(owner: object, histogram: Histogram) -> None:
    """Keep a histogram as long as its owner lives."""
    _kept[owner] = histogram


def open_histogram(owner: object) -> Histogram:
    """The histogram of an owner. Charge first: whoever reads it must have paid."""
    return _kept[owner]
