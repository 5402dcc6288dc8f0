"""One column of a universe: a name and finitely many labels."""

from __future__ import annotations

import math
import numbers
import unicodedata
from abc import ABC, abstractmethod
from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from typing import ClassVar, TypeAlias, cast

import numpy as np

from dpsdk._checks import shown, to_integer, to_name
from dpsdk._records import field, frozen
from dpsdk.codec import (
    INTEGER,
    NAME,
    NUMBER,
    TEXT,
    Both,
    Codebook,
    Kinds,
    ListOf,
    Member,
    Nested,
    Plain,
    check_spread,
    written,
)
from dpsdk.errors import DomainError, InvalidArgument, TooLarge, UnknownLabel
from dpsdk.typing import Label

__all__ = [
    "ATTRIBUTE",
    "ATTRIBUTES",
    "Attribute",
    "Binned",
    "Boolean",
    "Categorical",
    "Integer",
    "JSONValue",
    "normal",
    "require_different",
    "to_attribute_name",
]

JSONValue: TypeAlias = (
    "str | int | float | bool | Sequence[JSONValue] | Mapping[str, JSONValue] | None"
)


def normal(text: str) -> str:
    """A text in Unicode's normal form NFC, in which texts are compared."""
    return text if text.isascii() else unicodedata.normalize("NFC", text)


def to_text(parameter: str, value: str, expected: str) -> str:
    """A text of no other class; refused where no file could hold it, as half a surrogate pair."""
    text = str.__str__(value)
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        raise InvalidArgument(parameter, expected, ascii(text[:60])) from None
    return text


def printed(text: str) -> str:
    """The text as a reader sees it: texts that agree in this look alike on a page."""
    text = normal(text)
    if not text.isprintable():
        text = normal("".join(filter(_is_seen, text)))
    return " ".join(text.split())


def _is_seen(character: str) -> bool:
    # The two joiners of scripts change how the letters beside them look.
    seen = character.isspace() or character in "\u200c\u200d"
    return seen or unicodedata.category(character) not in {"Cc", "Cf"}


def require_different(parameter: str, texts: Iterable[str]) -> None:
    """Refuse texts of which two look alike."""
    known: dict[str, str] = {}
    for text in texts:
        look = printed(text)
        if look in known:
            both = f"{known[look][:40]!a} and {text[:40]!a}"
            raise InvalidArgument(parameter, "texts that also look different", both)
        known[look] = text


def to_attribute_name(value: str) -> str:
    """The name of an attribute, as a text that a file can hold."""
    return to_text("name", to_name("name", value), "a text that can be written in UTF-8")


_LABELS = 2**24
"""So many labels are listed at the most: those of more would fill the memory."""


class Attribute(ABC):
    """One column of the universe: a name and finitely many labels, numbered from zero."""

    __slots__ = ()
    kind: ClassVar[str]
    ordered: ClassVar[bool]
    """True if "at or below" has a meaning along this attribute."""

    name: str

    @property
    @abstractmethod
    def size(self) -> int:
        """The number of cells along this attribute."""

    @abstractmethod
    def index(self, label: Label) -> int:
        """The number of a label; `UnknownLabel` if the attribute has no such label."""

    @abstractmethod
    def label(self, index: int) -> Label:
        """The label of cell `index`, for 0 <= index < size."""

    def text(self, index: int) -> str:
        """The label of cell `index` as text, for tables and files."""
        return str(self.label(index))

    def to_json(self) -> dict[str, JSONValue]:
        """The declaration as plain JSON values."""
        kind = ATTRIBUTES.nearest(type(self), "$")
        return cast("dict[str, JSONValue]", kind.write(self, "$", Codebook()))

    @property
    def labels(self) -> tuple[Label, ...]:
        """All labels in order, as many as `size`; `TooLarge` for more than 2**24 of them."""
        if self.size > _LABELS:
            advice = "check `size` before you list `labels`"
            what = f"to list the labels of {shown(self.name)}"
            raise TooLarge(what, self.size, _LABELS, "labels", advice)
        return tuple(self.label(index) for index in range(self.size))

    @property
    def bounds(self) -> tuple[float, float]:
        """The smallest and largest number that a value of this attribute stands for.

        `DomainError` if the attribute is not numeric.
        """
        message = f"attribute {self.name!r} is not numeric"
        raise DomainError(message)

    def _unknown(self, label: object, expected: str) -> UnknownLabel:
        return UnknownLabel(self.name, shown(label), expected)


ATTRIBUTES = Kinds()
"""The attributes of the package. Their names are those in files of domains."""

ATTRIBUTE = Nested[Attribute]("an attribute", Attribute, kinds=ATTRIBUTES)


def _to_words(value: Sequence[str]) -> tuple[str, ...]:
    expected = "a sequence of distinct texts, none of them empty"
    if isinstance(value, str) or not isinstance(value, Iterable):
        raise InvalidArgument("true and false", expected, shown(value))
    words: list[str] = []
    for word in value:
        if not isinstance(word, str) or not word:
            raise InvalidArgument("true and false", expected, shown(word))
        words.append(to_text("true and false", word, expected))
    return tuple(words)


_WORDS = ListOf(TEXT)


def _has_usual_words(value: Boolean) -> bool:
    return (value.true, value.false) == (("1",), ("0",))


@written(
    "boolean",
    {
        "name": NAME,
        "true": Member(_WORDS, ("1",), quiet=_has_usual_words),
        "false": Member(_WORDS, ("0",), quiet=_has_usual_words),
    },
    kinds=ATTRIBUTES,
)
@frozen
class Boolean(Attribute):
    """An attribute that is False (cell 0) or True (cell 1).

    Parameters
    ----------
    name
        What the attribute is called.
    true, false
        Texts that stand for True and for False in a table, besides the words True, true, TRUE and
        False, false, FALSE, which always do: "1" and "0" unless others are given. A number is
        read as the text of it, so that 1 stands for True as long as "1" does. Upper and lower
        case differ.

    >>> Boolean("smoker", true=["Y"], false=["N"]).readings
    {'False': False, 'false': False, 'FALSE': False, 'N': False, 'True': True, 'true': True, \
'TRUE': True, 'Y': True}
    """

    kind: ClassVar[str] = "boolean"
    ordered: ClassVar[bool] = False
    name: str = field(converter=to_attribute_name)
    true: tuple[str, ...] = field(default=("1",), converter=_to_words, kw_only=True)
    false: tuple[str, ...] = field(default=("0",), converter=_to_words, kw_only=True)

    def __attrs_post_init__(self) -> None:
        looks = [{printed(word) for word in words} for words in (self._no, self._yes)]
        if looks[0] & looks[1]:
            expected = "texts that look different from those of the other"
            raise InvalidArgument("true and false", expected, repr(min(looks[0] & looks[1])))

    @property
    def readings(self) -> dict[str, bool]:
        """The texts that are read, each with the value that it stands for."""
        return dict.fromkeys(self._no, False) | dict.fromkeys(self._yes, True)

    @property
    def _no(self) -> tuple[str, ...]:
        return ("False", "false", "FALSE", *self.false)

    @property
    def _yes(self) -> tuple[str, ...]:
        return ("True", "true", "TRUE", *self.true)

    @property
    def size(self) -> int:
        return 2

    def index(self, label: Label) -> int:
        if isinstance(label, bool | np.bool_):
            return 1 if label else 0
        raise self._unknown(label, "True or False")

    def label(self, index: int) -> bool:
        return bool(index)


def _to_labels(labels: Sequence[str | int]) -> tuple[str | int, ...]:
    expected = "a non-empty sequence of distinct texts or integers"
    if isinstance(labels, str) or not isinstance(labels, Iterable):
        raise InvalidArgument("labels", expected, shown(labels))
    result: list[str | int] = []
    for label in labels:
        if isinstance(label, str):
            result.append(to_text("labels", label, expected))
        elif isinstance(label, bool) or not isinstance(label, numbers.Integral):
            raise InvalidArgument("labels", expected, shown(label))
        else:
            result.append(int(label))
    if not result or len(set(result)) != len(result):
        raise InvalidArgument("labels", expected, shown(labels))
    # A file spells 1 and "1" alike, too.
    require_different("labels", map(str, result))
    return tuple(result)


def _to_other(label: str | int | None) -> str | int | None:
    # True equals 1, but it is no label.
    if label is None:
        return None
    if isinstance(label, str):
        return str.__str__(label)
    return to_integer("other", label, "one of the labels")


_LABEL = Both(TEXT, INTEGER)


class _Labels(ListOf[str | int]):
    def read(self, plain: Plain, path: str, codebook: Codebook, /) -> tuple[str | int, ...]:
        labels = super().read(plain, path, codebook)
        check_spread(path, [label for label in labels if isinstance(label, int)])
        return labels


@written(
    "categorical",
    {
        "name": NAME,
        "labels": Member(_Labels(_LABEL, least=1, most=1 << 24), of="values", key="values"),
        "other": Member(_LABEL, None, quiet=True),
    },
    kinds=ATTRIBUTES,
)
@frozen
class Categorical(Attribute):
    """An attribute with unordered labels, each a text or an integer.

    Labels differ in what they look like on a page, not only in how they are coded: neither "é" in
    one code point and in two, nor "a b" with one space and with two, nor 1 and "1" are labels of
    the same attribute. Texts are compared in Unicode's normal form NFC.

    `other`, one of the labels, takes in every value that is not a label; without it, a row with
    such a value is outside the domain. A missing value is outside either way; the empty text, nan
    and NaN are missing values unless they are labels.
    """

    kind: ClassVar[str] = "categorical"
    ordered: ClassVar[bool] = False
    name: str = field(converter=to_attribute_name)
    values: tuple[str | int, ...] = field(converter=_to_labels)
    other: str | int | None = field(default=None, converter=_to_other)
    _numbers: dict[str | int, int] = field(init=False, repr=False, eq=False, hash=False)

    def __attrs_post_init__(self) -> None:
        # A frozen value sets its derived field once, at birth.
        numbered = {
            normal(label) if isinstance(label, str) else label: number
            for number, label in enumerate(self.values)
        }
        object.__setattr__(self, "_numbers", numbered)
        if self.other is not None and self.other not in self.values:
            raise InvalidArgument("other", "one of the labels", shown(self.other))

    @property
    def size(self) -> int:
        return len(self.values)

    @property
    def labels(self) -> tuple[str | int, ...]:
        return self.values

    def index(self, label: Label) -> int:
        if isinstance(label, str | numbers.Integral) and not isinstance(label, bool):
            number = self._numbers.get(cast("str | int", label))
            if number is None and isinstance(label, str):
                number = self._numbers.get(normal(label))
            if number is not None:
                return number
        names = ", ".join(repr(value) for value in self.values[:12])
        more = ", ..." if len(self.values) > 12 else ""
        raise self._unknown(label, f"one of {names}{more}")

    def label(self, index: int) -> str | int:
        return self.values[index]


def _to_bound(value: int) -> int:
    return to_integer("low and high", value)


@written("integer", {"name": NAME, "low": INTEGER, "high": INTEGER}, kinds=ATTRIBUTES)
@frozen
class Integer(Attribute):
    """An attribute whose values are the integers from `low` to `high`, both included."""

    kind: ClassVar[str] = "integer"
    ordered: ClassVar[bool] = True
    name: str = field(converter=to_attribute_name)
    low: int = field(converter=_to_bound)
    high: int = field(converter=_to_bound)

    def __attrs_post_init__(self) -> None:
        if self.low > self.high:
            raise InvalidArgument("high", f"at least low, which is {self.low}", shown(self.high))

    @property
    def size(self) -> int:
        return self.high - self.low + 1

    @property
    def bounds(self) -> tuple[float, float]:
        return float(self.low), float(self.high)

    def index(self, label: Label) -> int:
        # Plain integers first: asking an abstract class costs more than the rest of the look-up.
        if type(label) is int or (
            isinstance(label, numbers.Integral) and not isinstance(label, bool)
        ):
            number = int(label) - self.low
            if 0 <= number <= self.high - self.low:
                return number
        raise self._unknown(label, f"an integer from {self.low} to {self.high}")

    def label(self, index: int) -> int:
        return self.low + int(index)


def _to_edges(edges: Sequence[float]) -> tuple[float, ...]:
    expected = "at least two finite, strictly increasing numbers that a float can hold"
    if isinstance(edges, str) or not isinstance(edges, Iterable):
        raise InvalidArgument("edges", expected, shown(edges))
    result: list[float] = []
    for edge in edges:
        number = _to_edge(edge)
        if number is None or not math.isfinite(number) or (result and number <= result[-1]):
            raise InvalidArgument("edges", expected, shown(edges))
        result.append(number)
    if len(result) < 2:
        raise InvalidArgument("edges", expected, shown(edges))
    return tuple(result)


def _to_edge(edge: float) -> float | None:
    if isinstance(edge, bool | str) or not isinstance(edge, numbers.Real):
        return None
    try:
        if isinstance(edge, np.floating):
            # The decimal that it prints as: float32(0.7) is meant to be 0.7.
            number = float(np.format_float_scientific(edge))
        elif isinstance(edge, float):
            number = float.__add__(edge, 0.0)
        else:
            number = float(edge)
    except (OverflowError, ValueError):
        return None
    if isinstance(edge, numbers.Integral) and number != edge:
        return None
    # Zero has one sign only, so that equal edges are also written alike.
    return number + 0.0


def _edge(value: float) -> str:
    """An edge in short, and never as another: of two bins no label is the same."""
    short = f"{value:g}"
    return short if float(short) == value else repr(value).removesuffix(".0")


class _Edges(ListOf[float]):
    """Floats, written with a point also where they are whole."""

    def write(self, value: Sequence[float], _path: str, _codebook: Codebook, /) -> Plain:
        return list(value)


_EDGES = _Edges(NUMBER, least=2, most=1 << 24)


@written("binned", {"name": NAME, "edges": _EDGES}, kinds=ATTRIBUTES)
@frozen
class Binned(Attribute):
    """A real-valued attribute cut into bins at `edges`.

    Bin i holds the values from edges[i] up to, not including, edges[i + 1]; the last bin includes
    its upper edge. The label of a bin is the pair of its edges.
    """

    kind: ClassVar[str] = "binned"
    ordered: ClassVar[bool] = True
    name: str = field(converter=to_attribute_name)
    edges: tuple[float, ...] = field(converter=_to_edges)

    @property
    def size(self) -> int:
        return len(self.edges) - 1

    @property
    def bounds(self) -> tuple[float, float]:
        return self.edges[0], self.edges[-1]

    def index(self, label: Label) -> int:
        if isinstance(label, tuple) and len(label) == 2 and isinstance(label[0], numbers.Real):
            number = bisect_right(self.edges, label[0]) - 1
            if 0 <= number < self.size and label == self.label(number):
                return number
        raise self._unknown(label, f"a bin, a pair of neighbouring edges such as {self.label(0)}")

    def label(self, index: int) -> tuple[float, float]:
        return self.edges[index], self.edges[index + 1]

    def text(self, index: int) -> str:
        low, high = self.label(index)
        end = "]" if index == self.size - 1 else ")"
        return f"[{_edge(low)}, {_edge(high)}{end}"
