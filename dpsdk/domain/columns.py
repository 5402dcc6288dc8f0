"""Labels of an attribute as a column of a frame."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from dpsdk._frames import Column, ColumnKind
from dpsdk.domain.attributes import Attribute

__all__ = ["label_column", "label_kind"]


def label_kind(attribute: Attribute) -> ColumnKind:
    """Whole numbers, truth values and dates as such, all else as text."""
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


def label_column(attribute: Attribute, codes: Sequence[int]) -> Column:
    """The labels of some cells."""
    kind = label_kind(attribute)
    called = attribute.text if kind == "text" else attribute.label
    known = {code: called(code) for code in set(codes)}
    return Column([known[code] for code in codes], kind)
