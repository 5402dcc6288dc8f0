"""The universe that records come from: a product of attributes, declared by the data's owner.

Everything here is public. A domain says what a record may look like; it is never inferred from
the rows of a table.
"""

from __future__ import annotations

import json
import math
import numbers
from abc import ABC, abstractmethod
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from os import PathLike
from pathlib import Path
from typing import ClassVar, TypeAlias, cast

from attrs import field, frozen

from dpsdk._checks import shown, to_integer, to_name
from dpsdk.errors import DomainError, InvalidArgument, UnknownAttribute, UnknownLabel
from dpsdk.typing import Label, Record

__all__ = ["Attribute", "Binned", "Boolean", "Categorical", "Domain", "Integer"]

JSONValue: TypeAlias = (
    "str | int | float | bool | Sequence[JSONValue] | Mapping[str, JSONValue] | None"
)

_FORMAT = "dpsdk.domain"
_VERSION = 1


def _to_attribute_name(value: str) -> str:
    return to_name("name", value)


class Attribute(ABC):
    """One column of the universe: a name and finitely many labels, numbered from zero."""

    __slots__ = ()
    kind: ClassVar[str]
    ordered: ClassVar[bool]
    """Whether "at or below" has a meaning along this attribute."""

    name: str

    @property
    @abstractmethod
    def size(self) -> int:
        """The number of cells along this attribute."""

    @abstractmethod
    def index(self, label: Label) -> int:
        """The number of a label.

        Raises
        ------
        UnknownLabel
            If the attribute has no such label.
        """

    @abstractmethod
    def label(self, index: int) -> Label:
        """The label of cell `index`, for 0 <= index < size."""

    def text(self, index: int) -> str:
        """The label of cell `index` as text, for tables and files."""
        return str(self.label(index))

    @abstractmethod
    def to_json(self) -> dict[str, JSONValue]:
        """The declaration as plain JSON values."""

    @property
    def labels(self) -> tuple[Label, ...]:
        """All labels in order, as many as `size`. Not for huge attributes."""
        return tuple(self.label(index) for index in range(self.size))

    @property
    def bounds(self) -> tuple[float, float]:
        """The smallest and largest number that a value of this attribute stands for.

        Raises
        ------
        DomainError
            If the attribute is not numeric.
        """
        message = f"attribute {self.name!r} is not numeric"
        raise DomainError(message)

    def _unknown(self, label: object, expected: str) -> UnknownLabel:
        return UnknownLabel(self.name, shown(label), expected)


@frozen
class Boolean(Attribute):
    """An attribute that is False (cell 0) or True (cell 1)."""

    kind: ClassVar[str] = "boolean"
    ordered: ClassVar[bool] = False
    name: str = field(converter=_to_attribute_name)

    @property
    def size(self) -> int:
        return 2

    def index(self, label: Label) -> int:
        if type(label).__name__ in {"bool", "bool_"}:
            return int(cast("bool", label))
        raise self._unknown(label, "True or False")

    def label(self, index: int) -> bool:
        return bool(index)

    def to_json(self) -> dict[str, JSONValue]:
        return {"kind": self.kind, "name": self.name}


def _to_labels(labels: Sequence[str | int]) -> tuple[str | int, ...]:
    expected = "a non-empty sequence of distinct texts or integers"
    if isinstance(labels, str) or not isinstance(labels, Iterable):
        raise InvalidArgument("labels", expected, shown(labels))
    result: list[str | int] = []
    for label in labels:
        if isinstance(label, str):
            result.append(label)
        elif isinstance(label, bool) or not isinstance(label, numbers.Integral):
            raise InvalidArgument("labels", expected, shown(label))
        else:
            result.append(int(label))
    if not result or len(set(result)) != len(result):
        raise InvalidArgument("labels", expected, shown(labels))
    return tuple(result)


def _to_other(label: str | int | None) -> str | int | None:
    # True equals 1, but it is no label.
    if label is None or isinstance(label, str):
        return label
    return to_integer("other", label, "one of the labels")


@frozen
class Categorical(Attribute):
    """An attribute with unordered labels, each a text or an integer.

    `other`, one of the labels, takes in every value that is not a label; without it, a row with
    such a value is outside the domain.
    """

    kind: ClassVar[str] = "categorical"
    ordered: ClassVar[bool] = False
    name: str = field(converter=_to_attribute_name)
    values: tuple[str | int, ...] = field(converter=_to_labels)
    other: str | int | None = field(default=None, converter=_to_other)
    _numbers: dict[str | int, int] = field(init=False, repr=False, eq=False, hash=False)

    def __attrs_post_init__(self) -> None:
        # A frozen value sets its derived field once, at birth.
        numbered = {label: number for number, label in enumerate(self.values)}
        object.__setattr__(self, "_numbers", numbered)
        if self.other is not None and self.other not in numbered:
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
            if number is not None:
                return number
        names = ", ".join(repr(value) for value in self.values[:12])
        more = ", ..." if len(self.values) > 12 else ""
        raise self._unknown(label, f"one of {names}{more}")

    def label(self, index: int) -> str | int:
        return self.values[index]

    def to_json(self) -> dict[str, JSONValue]:
        result: dict[str, JSONValue] = {
            "kind": self.kind,
            "name": self.name,
            "labels": list(self.values),
        }
        if self.other is not None:
            result["other"] = self.other
        return result


def _to_bound(value: int) -> int:
    return to_integer("low and high", value)


@frozen
class Integer(Attribute):
    """An attribute whose values are the integers from `low` to `high`, both included."""

    kind: ClassVar[str] = "integer"
    ordered: ClassVar[bool] = True
    name: str = field(converter=_to_attribute_name)
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

    def to_json(self) -> dict[str, JSONValue]:
        return {"kind": self.kind, "name": self.name, "low": self.low, "high": self.high}


def _to_edges(edges: Sequence[float]) -> tuple[float, ...]:
    expected = "at least two finite, strictly increasing numbers"
    result: list[float] = []
    if isinstance(edges, str) or not isinstance(edges, Iterable):
        raise InvalidArgument("edges", expected, shown(edges))
    for edge in edges:
        if isinstance(edge, bool | str) or not isinstance(edge, numbers.Real):
            raise InvalidArgument("edges", expected, shown(edges))
        try:
            result.append(float(edge))
        except OverflowError:
            raise InvalidArgument("edges", expected, shown(edges)) from None
    rising = all(a < b for a, b in pairwise(result))
    if len(result) < 2 or not rising or not all(math.isfinite(edge) for edge in result):
        raise InvalidArgument("edges", expected, shown(edges))
    return tuple(result)


@frozen
class Binned(Attribute):
    """A real-valued attribute cut into bins at `edges`.

    Bin i holds the values from edges[i] up to, not including, edges[i + 1]; the last bin includes
    its upper edge. The label of a bin is the pair of its edges.
    """

    kind: ClassVar[str] = "binned"
    ordered: ClassVar[bool] = True
    name: str = field(converter=_to_attribute_name)
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
        return f"[{low:g}, {high:g}{']' if index == self.size - 1 else ')'}"

    def to_json(self) -> dict[str, JSONValue]:
        return {"kind": self.kind, "name": self.name, "edges": list(self.edges)}


@frozen(init=False, repr=False)
class Domain:
    """A finite public universe: the product of its attributes.

    The cells are numbered in C order: the last attribute varies fastest. `size` is a Python int,
    so a universe of 10**20 cells is as good as a small one until something asks to write it out.

    >>> from dpsdk import Categorical, Domain, Integer
    >>> domain = Domain(Integer("age", 17, 90), Categorical("sex", ["Female", "Male"]))
    >>> domain.size, domain.index({"age": 18, "sex": "Male"}), domain.record(3)
    (148, 3, {'age': 18, 'sex': 'Male'})
    """

    attributes: tuple[Attribute, ...]
    names: tuple[str, ...] = field(eq=False)
    shape: tuple[int, ...] = field(eq=False)
    size: int = field(eq=False)
    _positions: dict[str, int] = field(eq=False)

    def __init__(self, *attributes: Attribute) -> None:
        if not attributes:
            raise InvalidArgument("attributes", "at least one attribute", "none")
        for attribute in attributes:
            if not isinstance(attribute, Attribute):
                raise InvalidArgument("attributes", "attributes of a domain", shown(attribute))
        names = tuple(attribute.name for attribute in attributes)
        positions = {name: position for position, name in enumerate(names)}
        if len(positions) != len(names):
            repeated = next(name for name in names if names.count(name) > 1)
            raise InvalidArgument("attributes", "attributes of distinct names", repr(repeated))
        shape = tuple(attribute.size for attribute in attributes)
        # The attributes arrive as positional arguments, so the frozen fields are set by hand.
        object.__setattr__(self, "attributes", attributes)
        object.__setattr__(self, "names", names)
        object.__setattr__(self, "shape", shape)
        object.__setattr__(self, "size", math.prod(shape))
        object.__setattr__(self, "_positions", positions)

    def __getitem__(self, name: str) -> Attribute:
        return self.attributes[self.position(name)]

    def __contains__(self, name: object) -> bool:
        return name in self._positions

    def __repr__(self) -> str:
        return f"Domain({', '.join(map(repr, self.attributes))})"

    def position(self, name: str) -> int:
        """The place of an attribute in the order of the domain.

        Raises
        ------
        UnknownAttribute
            If the domain has no attribute of this name.
        """
        try:
            return self._positions[name]
        except (KeyError, TypeError):
            raise UnknownAttribute(str(name), self.names) from None

    def project(self, names: Sequence[str]) -> Domain:
        """The universe of the named attributes only, in the order given."""
        return Domain(*(self[name] for name in names))

    def index(self, record: Record) -> int:
        """The number of the cell that a record falls into.

        Raises
        ------
        UnknownAttribute, UnknownLabel
            If the record names something that the domain does not have.
        DomainError
            If the record leaves an attribute out.
        """
        for name in record:
            self.position(name)
        cell = 0
        for attribute in self.attributes:
            if attribute.name not in record:
                message = f"the record has no value for attribute {attribute.name!r}"
                raise DomainError(message)
            cell = cell * attribute.size + attribute.index(record[attribute.name])
        return cell

    def record(self, index: int) -> dict[str, Label]:
        """The record of cell `index`.

        Raises
        ------
        InvalidArgument
            If the index is not from 0 to size - 1.
        """
        cell = to_integer("index", index)
        if not 0 <= cell < self.size:
            raise InvalidArgument("index", f"from 0 to {self.size - 1}", shown(index))
        reversed_labels: list[tuple[str, Label]] = []
        for attribute in reversed(self.attributes):
            cell, number = divmod(cell, attribute.size)
            reversed_labels.append((attribute.name, attribute.label(number)))
        return dict(reversed(reversed_labels))

    def records(self) -> Iterator[dict[str, Label]]:
        """All records in the order of their cells."""
        return (self.record(index) for index in range(self.size))

    def to_json(self) -> str:
        """The declaration as JSON text, versioned."""
        content = {
            "format": _FORMAT,
            "version": _VERSION,
            "attributes": [attribute.to_json() for attribute in self.attributes],
        }
        return json.dumps(content, indent=2, ensure_ascii=False)

    @classmethod
    def from_json(cls, text: str) -> Domain:
        """Read what `to_json` wrote.

        Raises
        ------
        DomainError
            If the text is not such a declaration, or of a version from the future.
        """
        try:
            parsed: object = json.loads(text)
        except json.JSONDecodeError as error:
            message = f"the domain is not JSON: {error.msg} at line {error.lineno}"
            raise DomainError(message) from None
        except (ValueError, RecursionError):
            message = "the domain is JSON with too long numbers or too deep brackets"
            raise DomainError(message) from None
        content = cast("dict[str, object]", parsed) if isinstance(parsed, dict) else {}
        if content.get("format") != _FORMAT:
            message = f'a domain file is an object with "format": "{_FORMAT}"'
            raise DomainError(message)
        version = content.get("version")
        if isinstance(version, bool) or version != _VERSION:
            message = f"this version reads domain files of version {_VERSION} only"
            raise DomainError(message)
        declared = content.get("attributes")
        if not isinstance(declared, list):
            message = 'a domain file lists its "attributes"'
            raise DomainError(message)
        attributes = map(_attribute_from_json, cast("list[object]", declared))
        try:
            return cls(*attributes)
        except InvalidArgument as error:
            raise DomainError(str(error)) from None

    def save(self, path: str | PathLike[str]) -> None:
        """Write the declaration to a file."""
        Path(path).write_text(self.to_json() + "\n", encoding="utf-8")

    @classmethod
    def load(cls, path: str | PathLike[str]) -> Domain:
        """Read a declaration from a file."""
        return cls.from_json(Path(path).read_text(encoding="utf-8"))


_FIELDS: dict[str, tuple[str, ...]] = {
    "boolean": (),
    "categorical": ("labels",),
    "integer": ("low", "high"),
    "binned": ("edges",),
}


def _attribute_from_json(item: object) -> Attribute:
    if not isinstance(item, dict):
        message = "each attribute of a domain file is an object"
        raise DomainError(message)
    declared = cast("dict[str, object]", item)
    kind, name = declared.get("kind"), declared.get("name")
    if not isinstance(kind, str) or kind not in _FIELDS or not isinstance(name, str):
        message = f'each attribute has a "name" and a "kind" among {", ".join(_FIELDS)}'
        raise DomainError(message)
    missing = [key for key in _FIELDS[kind] if key not in declared]
    if missing:
        message = f"attribute {name!r} of kind {kind} lacks {missing[0]!r}"
        raise DomainError(message)
    try:
        if kind == "boolean":
            return Boolean(name)
        if kind == "integer":
            return Integer(name, cast("int", declared["low"]), cast("int", declared["high"]))
        if kind == "binned":
            return Binned(name, cast("list[float]", declared["edges"]))
        other = cast("str | int | None", declared.get("other"))
        return Categorical(name, cast("list[str | int]", declared["labels"]), other)
    except (TypeError, InvalidArgument) as error:
        message = f"attribute {name!r}: {error}"
        raise DomainError(message) from None
