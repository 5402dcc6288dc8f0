"""Where private histograms are kept: beside the objects that stand for them, not inside.

With each goes what was public about it when it was made: a `PrivateData` and its facts are in the
hands of clients, and what they are made to say later must not change a price.

A `PrivateData` holds nothing to look at. Only the kernel and the modules of this package may
import this one; an import contract and a test hold that wall. It keeps out accidents and plugins
that play by the rules, not code in the same process that walks the interpreter's memory
(docs/explanation/threat-model.md).
"""

from __future__ import annotations

from weakref import WeakKeyDictionary

from dpsdk.data.histogram import Histogram
from dpsdk.forms.facts import Facts, Setting

__all__ = ["keep", "open_histogram", "setting_of"]

_kept: WeakKeyDictionary[object, tuple[Histogram, Setting]] = WeakKeyDictionary()


def keep(owner: object, histogram: Histogram, facts: Facts | Setting) -> None:
    """Keep a histogram, and what is public about it, as long as its owner lives."""
    _kept[owner] = histogram, facts if isinstance(facts, Setting) else Setting.of(facts)


def open_histogram(owner: object) -> Histogram:
    """The histogram of an owner. Charge first: whoever reads it must have paid."""
    return _kept[owner][0]


def setting_of(owner: object) -> Setting:
    """What is public about the histogram of an owner, as it was when it was kept."""
    return _kept[owner][1]
