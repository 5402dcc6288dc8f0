"""One column of a universe: a name and finitely many labels."""

from __future__ import annotations

import math
import numbers
import unicodedata
from abc import ABC, abstractmethod
from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from typing import ClassVar, Self, TypeAlias, cast

import numpy as np

from dpsdk._checks import shown, to_flag, to_integer, to_name
from dpsdk._records import evolve, field, fields, frozen
from dpsdk.codec import (
    FLAG,
    INTEGER,
    JSON,
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
from dpsdk.typing import Extra, Label

__all__ = [
    "ATTRIBUTE",
    "ATTRIBUTES",
    "EXTRAS",
    "Attribute",
    "Binned",
    "Boolean",
    "Categorical",
    "Declared",
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


EXTRAS = {
    "missing": Member(FLAG, default=False, quiet=True),
    "other": Member(FLAG, default=False, quiet=True),
}
"""The members of the written form of an attribute that say which extra cells it has."""


def _to_missing(value: bool) -> bool:  # noqa: FBT001  # a converter
    return to_flag("missing", value)


def _to_own_cell(value: bool) -> bool:  # noqa: FBT001  # a converter
    return to_flag("other", value)


_LABELS = 2**24
"""So many labels are listed at the most: those of more would fill the memory."""


class Attribute(ABC):
    """One column of the universe: a name and finitely many labels, numbered from zero.

    Behind the labels come the cells of values that are none of these, where `extras` has any.
    """

    __slots__ = ()
    kind: ClassVar[str]
    ordered: ClassVar[bool]
    """True if "at or below" has a meaning along this attribute."""

    name: str

    @property
    @abstractmethod
    def size(self) -> int:
        """The number of cells along this attribute, those of `extras` among them."""

    @property
    def extras(self) -> tuple[Extra, ...]:
        """The cells for values that are no labels, in order; none unless they are declared."""
        return ()

    @property
    def known(self) -> int:
        """The number of labels that are declared, which are the first cells."""
        return self.size - len(self.extras)

    def open(self) -> Attribute:
        """The same attribute with cells of their own for other and for missing values."""
        return self

    def closed(self) -> Attribute:
        """The same labels alone, without cells for other and for missing values."""
        if self.extras:
            raise DomainError(f"attribute {self.name!r} does not say how it is without its extras")
        return self

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


@frozen(repr=False)
class Declared(Attribute):
    """An attribute of this package: labels, and behind them the cells of other values."""

    missing: bool = field(default=False, converter=_to_missing, kw_only=True)
    """True if missing values have a cell of their own."""

    @property
    @abstractmethod
    def known(self) -> int:
        """The number of labels that are declared, which are the first cells."""

    @property
    @abstractmethod
    def _has_other(self) -> bool: ...

    @abstractmethod
    def _index(self, label: Label) -> int: ...

    @abstractmethod
    def _label(self, index: int) -> Label: ...

    def _text(self, index: int) -> str:
        return str(self._label(index))

    @property
    def extras(self) -> tuple[Extra, ...]:
        extras = ((Extra.OTHER, self._has_other), (Extra.MISSING, self.missing))
        return tuple([extra for extra, declared in extras if declared])

    @property
    def size(self) -> int:
        return self.known + self._has_other + self.missing

    def index(self, label: Label) -> int:
        if not isinstance(label, Extra):
            return self._index(label)
        if label not in self.extras:
            keyword = f"{label.name.lower()}=True"
            raise self._unknown(label, f"one of its labels, or declare it with {keyword}")
        return self.known + self.extras.index(label)

    def label(self, index: int) -> Label:
        return self._label(index) if index < self.known else self.extras[index - self.known]

    def text(self, index: int) -> str:
        if index < self.known:
            return self._text(index)
        return self.extras[index - self.known].value

    def __repr__(self) -> str:
        own = sorted(fields(type(self)), key=lambda one: one.name in EXTRAS)
        told = [
            f"{one.name}={one.repr(value) if callable(one.repr) else repr(value)}"
            for one in own
            if one.repr and (value := getattr(self, one.name)) is not False
        ]
        return f"{type(self).__name__}({', '.join(told)})"


@frozen(repr=False)
class Flagged(Declared):
    """An attribute of which a flag says whether values that are no labels have their own cell."""

    other: bool = field(default=False, converter=_to_own_cell, kw_only=True)
    """True if values that are there and match no label have a cell of their own."""

    @property
    def _has_other(self) -> bool:
        return self.other

    def open(self) -> Self:
        return evolve(self, missing=True, other=True)

    def closed(self) -> Self:
        return evolve(self, missing=False, other=False) if self.extras else self


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
        **EXTRAS,
    },
    kinds=ATTRIBUTES,
)
@frozen(repr=False)
class Boolean(Flagged):
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
    missing, other
        True where missing values, and all others, have a cell of their own.

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
    def known(self) -> int:
        return 2

    def _index(self, label: Label) -> int:
        if isinstance(label, bool | np.bool_):
            return 1 if label else 0
        raise self._unknown(label, "True or False")

    def _label(self, index: int) -> bool:
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


def _to_other(label: str | int | Extra | None) -> str | int | Extra | None:
    # True equals 1, but it is no label.
    if label is None or label is False:
        return None
    if label is True or label is Extra.OTHER:
        return Extra.OTHER
    if isinstance(label, str):
        return str.__str__(label)
    return to_integer("other", cast("int", label), "True, or one of the labels")


def _other_repr(label: str | int | Extra | None) -> str:
    return "True" if label is Extra.OTHER else repr(label)


_LABEL = Both(TEXT, INTEGER)


class _Other:
    """True for a cell of its own, or the label that takes in what is no label."""

    def write(self, value: str | int | Extra, path: str, codebook: Codebook, /) -> Plain:
        return (
            True if value is Extra.OTHER else _LABEL.write(cast("str | int", value), path, codebook)
        )

    def read(self, plain: Plain, path: str, codebook: Codebook, /) -> str | int | Extra:
        return Extra.OTHER if plain is True else _LABEL.read(plain, path, codebook)

    def schema(self, codebook: Codebook, /) -> JSON:
        return {"anyOf": [{"const": True}, _LABEL.schema(codebook)]}


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
        "missing": EXTRAS["missing"],
        "other": Member(_Other(), None, quiet=True),
    },
    kinds=ATTRIBUTES,
)
@frozen(repr=False)
class Categorical(Declared):
    """An attribute with unordered labels, each a text or an integer.

    Labels differ in what they look like on a page, not only in how they are coded: neither "é" in
    one code point and in two, nor "a b" with one space and with two, nor 1 and "1" are labels of
    the same attribute. Texts are compared in Unicode's normal form NFC.

    `other` takes in every value that is not a label: one of the labels, or True for a cell of its
    own; without it, a row with such a value is outside the domain. A missing value is outside
    unless `missing=True` gives it a cell; the empty text, nan and NaN are missing values unless
    they are labels.
    """

    kind: ClassVar[str] = "categorical"
    ordered: ClassVar[bool] = False
    name: str = field(converter=to_attribute_name)
    values: tuple[str | int, ...] = field(converter=_to_labels)
    other: str | int | Extra | None = field(default=None, converter=_to_other, repr=_other_repr)
    _numbers: dict[str | int, int] = field(init=False, repr=False, eq=False, hash=False)

    def __attrs_post_init__(self) -> None:
        # A frozen value sets its derived field once, at birth.
        numbered = {
            normal(label) if isinstance(label, str) else label: number
            for number, label in enumerate(self.values)
        }
        object.__setattr__(self, "_numbers", numbered)
        if not (self.other is None or self._has_other or self.other in self.values):
            raise InvalidArgument("other", "True, or one of the labels", shown(self.other))
        if self.extras:
            texts = [*map(str, self.values), *(extra.value for extra in self.extras)]
            require_different("labels", texts)

    @property
    def _has_other(self) -> bool:
        return self.other is Extra.OTHER

    @property
    def known(self) -> int:
        return len(self.values)

    @property
    def labels(self) -> tuple[str | int | Extra, ...]:
        return self.values + self.extras

    def open(self) -> Self:
        return evolve(self, missing=True, other=True if self.other is None else self.other)

    def closed(self) -> Self:
        if not self.extras:
            return self
        return evolve(self, missing=False, other=None if self._has_other else self.other)

    def _index(self, label: Label) -> int:
        if isinstance(label, str | numbers.Integral) and not isinstance(label, bool):
            number = self._numbers.get(cast("str | int", label))
            if number is None and isinstance(label, str):
                number = self._numbers.get(normal(label))
            if number is not None:
                return number
        names = ", ".join(repr(value) for value in self.values[:12])
        more = ", ..." if len(self.values) > 12 else ""
        raise self._unknown(label, f"one of {names}{more}")

    def _label(self, index: int) -> str | int:
        return self.values[index]


def _to_bound(value: int) -> int:
    return to_integer("low and high", value)


@written("integer", {"name": NAME, "low": INTEGER, "high": INTEGER, **EXTRAS}, kinds=ATTRIBUTES)
@frozen(repr=False)
class Integer(Flagged):
    """An attribute whose values are the integers from `low` to `high`, both included.

    With `missing=True` and `other=True`, missing values and all others have a cell of their own.
    """

    kind: ClassVar[str] = "integer"
    ordered: ClassVar[bool] = True
    name: str = field(converter=to_attribute_name)
    low: int = field(converter=_to_bound)
    high: int = field(converter=_to_bound)

    def __attrs_post_init__(self) -> None:
        if self.low > self.high:
            raise InvalidArgument("high", f"at least low, which is {self.low}", shown(self.high))

    @property
    def known(self) -> int:
        return self.high - self.low + 1

    @property
    def bounds(self) -> tuple[float, float]:
        return float(self.low), float(self.high)

    def _index(self, label: Label) -> int:
        # Plain integers first: asking an abstract class costs more than the rest of the look-up.
        if type(label) is int or (
            isinstance(label, numbers.Integral) and not isinstance(label, bool)
        ):
            number = int(label) - self.low
            if 0 <= number <= self.high - self.low:
                return number
        raise self._unknown(label, f"an integer from {self.low} to {self.high}")

    def _label(self, index: int) -> int:
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


@written("binned", {"name": NAME, "edges": _EDGES, **EXTRAS}, kinds=ATTRIBUTES)
@frozen(repr=False)
class Binned(Flagged):
    """A real-valued attribute cut into bins at `edges`.

    Bin i holds the values from edges[i] up to, not including, edges[i + 1]; the last bin includes
    its upper edge. The label of a bin is the pair of its edges. With `missing=True` and
    `other=True`, missing values and all others have a cell of their own.
    """

    kind: ClassVar[str] = "binned"
    ordered: ClassVar[bool] = True
    name: str = field(converter=to_attribute_name)
    edges: tuple[float, ...] = field(converter=_to_edges)

    @property
    def known(self) -> int:
        return len(self.edges) - 1

    @property
    def bounds(self) -> tuple[float, float]:
        return self.edges[0], self.edges[-1]

    def _index(self, label: Label) -> int:
        if isinstance(label, tuple) and len(label) == 2 and isinstance(label[0], numbers.Real):
            number = bisect_right(self.edges, label[0]) - 1
            if 0 <= number < self.known and label == self._label(number):
                return number
        raise self._unknown(label, f"a bin, a pair of neighbouring edges such as {self._label(0)}")

    def _label(self, index: int) -> tuple[float, float]:
        return self.edges[index], self.edges[index + 1]

    def _text(self, index: int) -> str:
        low, high = self._label(index)
        end = "]" if index == self.known - 1 else ")"
        return f"[{_edge(low)}, {_edge(high)}{end}"
