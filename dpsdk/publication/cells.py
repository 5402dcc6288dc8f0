"""Cells of tables: how labels and numbers are spelled in a file."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import cast

import numpy as np

from dpsdk._checks import read_decimal
from dpsdk._frames import spelled
from dpsdk.domain import Attribute, Integer
from dpsdk.typing import Floats

__all__ = ["guarded", "label_cells", "quoted", "spellings", "texts_of"]

_FORMULAS = ("=", "+", "-", "@", "\t", "\r", "\n", "\uff1d", "\uff0b", "\uff0d", "\uff20")
"""How a text begins that some spreadsheet runs, full-width signs included."""


def guarded(label: str) -> str:
    """Return a label as a spreadsheet may show it, without running it as a formula.

    One that starts like a formula, and is no plain number, gets an apostrophe before it. So does
    one that starts with an apostrophe: who drops one leading apostrophe has the label again.
    """
    if label.startswith(("'", *_FORMULAS)) and read_decimal(label) is None:
        return f"'{label}"
    return label


def spellings(values: Floats, spell: Callable[[float], str] = spelled) -> list[str]:
    """Spell each of many numbers."""
    # Noise is on a lattice: of a million numbers few differ. By bits, as a nought may be -0.0.
    bits, places = np.unique(values.view(np.int64), return_inverse=True)
    texts = np.array(list(map(spell, bits.view(np.float64).tolist())), dtype=object)
    return cast("list[str]", texts[places].tolist())


def quoted(text: str) -> str:
    """Return a text in quotes, in which neither a semicolon nor a line break ends it."""
    return '"' + text.replace('"', '""') + '"'


def label_cells(attributes: Sequence[Attribute]) -> Iterator[str]:
    """Return the labels of all cells in C order, as they are written in a file."""
    return map(",".join, itertools.product(*map(_own_cells, attributes)))


def _own_cells(attribute: Attribute) -> list[str]:
    if isinstance(attribute, Integer) and attribute.low >= 0:
        # There may be very many of them, and none begins like a formula.
        return [f'"{label}"' for label in range(attribute.low, attribute.high + 1)]
    return [quoted(guarded(text)) for text in texts_of(attribute)]


def texts_of(attribute: Attribute) -> list[str]:
    """Return all labels of an attribute as texts."""
    return [attribute.text(index) for index in range(attribute.size)]
