"""Labels of an attribute as a column of a frame."""

from __future__ import annotations

import math
from collections.abc import Sequence
from datetime import datetime

import numpy as np

from dpsdk._frames import Column, ColumnKind
from dpsdk.domain.attributes import Attribute

__all__ = ["label_columns", "label_kind"]


def label_kind(attribute: Attribute) -> ColumnKind:
    """Whole numbers, truth values and dates as such, all else as text: so are extra cells."""
    if attribute.extras:
        return "text"
    if attribute.kind == "boolean":
        return "truth"
    if attribute.kind == "date":
        return "time" if isinstance(attribute.label(0), datetime) else "day"
    if attribute.kind == "integer":
        ends = [attribute.label(0), attribute.label(attribute.size - 1)]
    elif attribute.kind == "categorical":
        ends = list(attribute.labels)
    else:
        return "text"
    small = all(isinstance(end, int) and -(2**63) <= end < 2**63 for end in ends)
    return "integer" if small else "text"


def label_columns(attributes: Sequence[Attribute]) -> dict[str, Column]:
    """The labels of all cells of some attributes in C order, a column each, by their names."""
    columns: dict[str, Column] = {}
    before, rest = 1, math.prod([attribute.size for attribute in attributes])
    for attribute in attributes:
        rest //= attribute.size
        kind = label_kind(attribute)
        called = attribute.text if kind == "text" else attribute.label
        labels = np.array([called(code) for code in range(attribute.size)], dtype=object)
        columns[attribute.name] = Column(np.tile(labels.repeat(rest), before).tolist(), kind)
        before *= attribute.size
    return columns
