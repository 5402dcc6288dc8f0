"""Conditions on one attribute: what may be wanted of it, how that reads, and its indicator."""

from __future__ import annotations

import heapq
import numbers
import re
from collections.abc import Iterable
from contextlib import suppress
from datetime import date, datetime
from typing import TypeAlias, cast

import numpy as np

from dpsdk._checks import shown
from dpsdk._records import field, frozen
from dpsdk.domain import Attribute, Binned, Boolean, Date, Integer, Number
from dpsdk.domain.dates import own_date
from dpsdk.errors import InvalidArgument, QueryError, TooLarge, UnknownLabel
from dpsdk.errors.given import near
from dpsdk.forms import Factor, Range, Weights
from dpsdk.forms.factors import MATRIX_LIMIT
from dpsdk.queries.order import Between, between
from dpsdk.typing import Extra, Label

__all__ = [
    "Condition",
    "Not",
    "Wanted",
    "described",
    "index_of",
    "indicator",
    "listed",
    "to_condition",
    "to_label",
]

_SHOWN = 8
"""So many labels of a set, names or conditions are written out in a description."""

_TRUTHS = {"true": True, "1": True, "false": False, "0": False}

_DIGITS = re.compile(r"-?[0-9]{1,18}")

_BY_KIND = (Integer, Number, Binned, Date, Boolean)
"""Attributes whose labels are no list of names."""

_LONGEST = 80
"""Longer labels and names are cut in a description."""

LARGEST_BITS = 1000
"""Integers below 2**1000 are read: a float can hold their size, and a message their digits."""


def _to_wanted(value: Condition) -> Condition:
    wanted = to_condition("the condition in Not", value)
    # Not of Not of Not says no more than Not, so that no condition is deep.
    if isinstance(wanted, Not) and isinstance(wanted.value, Not):
        return wanted.value.value
    return wanted


def _names_extras(wanted: Condition) -> bool:
    return isinstance(wanted, Extra) or (
        isinstance(wanted, frozenset) and any(isinstance(label, Extra) for label in wanted)
    )


@frozen(repr=False)
class Not:
    """Labels of an attribute other than these: one, a set or range, or all `Between` two.

    Missing values and others that match no label are not among them, as in SQL; but where these are
    named, as in `Not(MISSING)`, all cells but those named are meant.
    """

    value: Condition = field(converter=_to_wanted)

    def __repr__(self) -> str:
        return f"Not({described(self.value)})"


Wanted: TypeAlias = "Label | range | Between | set[Label] | frozenset[Label] | list[Label]"
Condition: TypeAlias = "Wanted | Not"
"""A label, a set, list or range of labels, all `Between` two, or `Not` of these."""


def to_condition(parameter: str, value: Condition) -> Condition:
    """Read what is wanted of an attribute, as plain values that nobody else holds."""
    if isinstance(value, Not):
        return value if type(value) is Not else Not(value.value)
    if isinstance(value, range):
        if any(n.bit_length() > LARGEST_BITS for n in (value.start, value.stop, value.step)):
            raise _refused(parameter, "a range of integers beyond 2**1000")
        return value
    if isinstance(value, Between):
        return value if type(value) is Between else Between(value.low, value.high)
    if isinstance(value, set | frozenset | list):
        return frozenset([to_label(parameter, label) for label in value])
    return to_label(parameter, value)


def to_label(parameter: str, value: object) -> Label:
    """Read what may be a label; whether it is one is told where the attribute is known."""
    plain = _plain(value)
    if plain is not None:
        return cast("Label", plain)
    if isinstance(value, tuple):
        parts = [_plain(part) for part in cast("tuple[object, ...]", value)[:101]]
        if len(parts) > 100 or None in parts:
            raise _refused(parameter, "a tuple of other than a few texts and numbers")
        return cast("tuple[float, float]", tuple(parts))
    if isinstance(value, numbers.Integral):
        raise _refused(parameter, f"an integer of {int(value).bit_length():,} bits")
    if isinstance(value, date):
        raise _refused(parameter, shown(value), "a datetime as a label has no zone")
    kind = type(value).__name__
    if isinstance(value, Iterable | slice):
        raise _refused(parameter, kind, "for several labels write a set, as {'a', 'b'}")
    try:
        hash(value)
    except Exception:  # noqa: BLE001 - a class of another author may raise what it likes
        raise _refused(parameter, kind) from None
    return cast("Label", value)  # what is no label is refused where the attribute is known


def _plain(value: object) -> object | None:
    """A text, truth value, number or date as a built-in class has it; None for all else."""
    if isinstance(value, str):
        return str.__str__(value)
    if isinstance(value, bool | np.bool_):
        return bool(cast("object", value))
    if isinstance(value, numbers.Integral):
        number = int(value)
        return number if number.bit_length() <= LARGEST_BITS else None
    return float(value) if isinstance(value, float) else own_date(value)


def _refused(parameter: str, got: str, hint: str = "") -> InvalidArgument:
    expected = "a label, a set or range of labels, Between two of them, or Not of these"
    return InvalidArgument(parameter, f"{expected}; {hint}" if hint else expected, got)


def described(value: object) -> str:
    """A condition as it is written, cut where it is long."""
    if isinstance(value, frozenset):
        labels = cast("frozenset[object]", value)
        return f"{{{listed(heapq.nsmallest(_SHOWN, labels, key=_order), len(labels))}}}"
    if isinstance(value, Not | Between):
        return repr(value)
    return _text(value)


def listed(items: Iterable[object], total: int) -> str:
    """The first few of so many items, divided by commas."""
    texts = [_text(item) for item, _ in zip(items, range(_SHOWN), strict=False)]
    if total > len(texts):
        texts.append(f"... {total - len(texts):,} more")
    return ", ".join(texts)


def _text(value: object) -> str:
    if isinstance(value, str) and len(value) > _LONGEST:
        return f"{value[: _LONGEST - 3]!r}..."
    return shown(value)


def _order(label: object) -> tuple[str, object]:
    """By kind, then by size or alphabet."""
    kind = type(label).__name__
    if isinstance(label, tuple):
        parts = cast("tuple[object, ...]", label)
        if all(isinstance(part, int | float) for part in parts):
            return kind, parts
        return f"{kind} in words", shown(parts)
    if isinstance(label, str | int | date):
        return kind, label
    return f"{kind} in words", shown(label)


def indicator(attribute: Attribute, wanted: Condition) -> Factor:
    """The 0/1 factor of a condition on one attribute.

    A range stands for those of the attribute's labels that lie in it, so it may reach beyond them.
    Raises `UnknownLabel` for labels that the attribute does not have and ranges that hold none of
    its labels, and `QueryError` for no label at all.
    """
    if isinstance(wanted, Not):
        among = attribute.size if _names_extras(wanted.value) else attribute.known
        return _complement(attribute, indicator(attribute, wanted.value), among)
    if isinstance(wanted, range):
        return _range(attribute, wanted)
    if isinstance(wanted, Between):
        what = f"a condition on {attribute.name!r}"
        cells = between(attribute, wanted.low, wanted.high, what)
        if cells.start == cells.stop:
            raise QueryError(what, f"{wanted} holds no label")
        return cells
    if isinstance(wanted, set | frozenset | list):
        return _chosen(attribute, (index_of(attribute, label) for label in wanted))
    index = index_of(attribute, wanted)
    return Range(attribute.size, index, index + 1)


def index_of(attribute: Attribute, label: Label) -> int:
    """The cell of a label. An integer stands for the text of its digits where there is no other."""
    try:
        return attribute.index(label)
    except UnknownLabel as error:
        if type(label) is int and not isinstance(attribute, _BY_KIND):
            with suppress(UnknownLabel):
                return attribute.index(str(label))
        expected = error.expected
    hint = _hint(attribute, label)
    raise UnknownLabel(attribute.name, _text(label), f"{expected}; {hint}" if hint else expected)


def _hint(attribute: Attribute, label: object) -> str:
    """A hint at what somebody who wrote this as a label may have meant."""
    if not isinstance(label, tuple):
        return _meant(attribute, label)
    if not label:
        return ""
    parts = cast("tuple[object, ...]", label)
    if isinstance(attribute, Binned):
        if len(parts) == 2 and all(part in attribute.edges for part in parts):
            return f"for several bins write a set of them, or ask Interval({attribute.name!r}, ...)"
        return ""
    if len(parts) == 1:
        return f"for a single label write {_text(parts[0])}"
    these = f"for these labels write {{{listed(parts, len(parts))}}}"
    low, high = parts[0], parts[-1]
    if isinstance(attribute, Date) and isinstance(low, date) and len(parts) == 2:
        return f"for all from {low} to {high} write Between(low, high), {these}"
    if isinstance(attribute, Integer) and isinstance(low, int) and isinstance(high, int):
        return f"for all from {low} to {high} write range({low}, {high + 1}), {these}"
    return these


def _meant(attribute: Attribute, label: object) -> str:
    """The label that is written as this one is but for its type, or else the nearest text."""
    found: Label | None = None
    if label is None or (isinstance(label, str) and label == Extra.MISSING.value):
        return f"for missing values write {Extra.MISSING!r}"
    if isinstance(attribute, Boolean):
        found = _TRUTHS.get(str(label).lower()) if isinstance(label, str | int) else None
    elif isinstance(label, str) and isinstance(attribute, Date):
        with suppress(ValueError):
            found = (datetime if attribute.unit == "hour" else date).fromisoformat(label)
    elif (isinstance(label, float) and label.is_integer()) or (
        isinstance(label, str) and _DIGITS.fullmatch(label)
    ):
        found = int(label)
    if found is not None:
        with suppress(UnknownLabel):
            attribute.index(found)
            if isinstance(found, date):
                return f"did you mean {found!r}?"
            return f"did you mean {found}{', without quotes' if isinstance(label, str) else ''}?"
    if isinstance(attribute, _BY_KIND):
        return ""
    nearest = near(label, map(attribute.label, range(attribute.known)))
    return f"did you mean {_text(nearest)}?" if nearest else ""


def _range(attribute: Attribute, wanted: range) -> Factor:
    if not wanted:
        raise QueryError(f"a condition on {attribute.name!r}", f"{wanted} holds no label")
    if isinstance(attribute, Integer) or (isinstance(attribute, Number) and attribute.step == 1):
        low, high = int(attribute.low), int(attribute.high)
        rising = wanted if wanted.step > 0 else wanted[::-1]
        start = max(0, -((rising.start - low) // rising.step))
        inside = rising[start : max(start, (high - rising.start) // rising.step + 1)]
        if inside:
            first, last = inside[0] - low, inside[-1] - low
            if inside.step == 1:
                return Range(attribute.size, first, last + 1)
            _limit(attribute)
            return _chosen(attribute, range(first, last + 1, inside.step))
    elif not isinstance(attribute, _BY_KIND):
        numbered = enumerate(attribute.labels)
        chosen = [i for i, label in numbered if type(label) is int and label in wanted]
        if chosen:
            return _chosen(attribute, chosen)
    raise UnknownLabel(attribute.name, f"in {wanted}", _labels_of(attribute))


def _labels_of(attribute: Attribute) -> str:
    if isinstance(attribute, Integer):
        return f"integers from {attribute.low} to {attribute.high}"
    if isinstance(attribute, Number):
        return f"numbers from {attribute.text(0)} on, or Between(low, high) for all between two"
    if isinstance(attribute, Date):
        return f"a date or a set of dates, or Between two of them: {attribute.low}, ..."
    if isinstance(attribute, Binned):
        return f"a bin or a set of bins, or ask Interval({attribute.name!r}, ...)"
    kinds = (attribute.text(index) for index in range(attribute.known))
    return f"a label or a set of labels: {listed(kinds, attribute.known)}"


def _chosen(attribute: Attribute, indices: Iterable[int]) -> Factor:
    chosen = sorted(set(indices))
    if not chosen:
        raise QueryError(f"a condition on {attribute.name!r}", "an empty set holds no label")
    if chosen[-1] - chosen[0] == len(chosen) - 1:
        return Range(attribute.size, chosen[0], chosen[-1] + 1)
    _limit(attribute)
    weights = np.zeros((1, attribute.size))
    weights[0, chosen] = 1.0
    return Weights(weights)


def _limit(attribute: Attribute) -> None:
    if attribute.size > MATRIX_LIMIT:
        what, advice = f"a condition on {attribute.name!r}", "use a range of labels without gaps"
        raise TooLarge(what, attribute.size, MATRIX_LIMIT, "weights", advice)


def _complement(attribute: Attribute, factor: Factor, among: int) -> Factor:
    """So many first cells of an attribute but those of a factor."""
    if (span := factor.span) is not None and span.start == 0:
        return Range(factor.size, span.stop, among)
    if span is not None and span.stop == among:
        return Range(factor.size, 0, span.start)
    _limit(attribute)
    weights = 1.0 - factor.matrix()
    weights[:, among:] = 0.0
    return Weights(weights)
