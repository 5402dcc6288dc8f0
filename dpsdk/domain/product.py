"""The universe itself: a product of attributes, whose cells are numbered."""

from __future__ import annotations

import codecs
import json
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from fractions import Fraction
from functools import cached_property
from os import PathLike
from pathlib import Path
from typing import cast

from dpsdk._checks import read_fraction, shown, to_integer
from dpsdk._html import html_of, page, table
from dpsdk._records import field, frozen
from dpsdk._whole import write_whole
from dpsdk.codec import (
    ENVELOPE,
    JSON,
    TEXT,
    Codebook,
    Entry,
    ListOf,
    Member,
    Plain,
    digest,
    opened,
    parsed,
    refused,
    to_plain,
    written,
)
from dpsdk.domain.attributes import (
    ATTRIBUTE,
    Attribute,
    Boolean,
    normal,
    require_different,
    to_text,
)
from dpsdk.errors import DomainError, InvalidArgument, UnknownAttribute, WireError
from dpsdk.typing import Label, Real, Record

__all__ = ["Domain", "decoded", "to_missing_texts"]

_ENVELOPE: JSON = {"format": "dpsdk.domain", "version": 1}
_LATER: JSON = {"format": "dpsdk.domain", "version": 2}
"""That of domains with extra cells, numbers without bins, or texts that stand for missing."""

_TEXTS = ListOf(TEXT, most=1000)
_MEMBERS = Entry(attributes=ListOf(ATTRIBUTE, least=1))

_MOST_BITS = 1 << 20
"""The sizes of all attributes of a written domain have fewer bits together: they are multiplied."""

_FEW = 64
_SPELLED = 4
_SPELLING = 24
_READABLE = 10**15


def _domain(attributes: tuple[Attribute, ...], missing_texts: tuple[str, ...] = ()) -> Domain:
    return Domain(*attributes, missing_texts=missing_texts)


def _wrong_size(domain: Domain) -> str:
    bits = sum(attribute.size.bit_length() for attribute in domain.attributes)
    most = f"attributes whose sizes have at most {_MOST_BITS:,} bits together"
    return most if bits > _MOST_BITS else ""


@written(
    "domain",
    {
        "attributes": ListOf(ATTRIBUTE, least=1),
        "missing_texts": Member(_TEXTS, (), quiet=True),
    },
    take=_domain,
    wrong=_wrong_size,
)
@frozen(init=False, repr=False)
class Domain:
    """A finite public universe: the product of its attributes.

    The cells are numbered in C order: the last attribute varies fastest. `size` is a Python int,
    so a universe of 10**20 cells is as good as a small one until something asks to write it out.
    `domain["age"]` is the attribute of that name; `in` takes a name, or an attribute as it is; and
    a domain iterates over its attributes, of which it has `len(domain)`.

    `missing_texts`, such as "?" and "NA", are read as missing values in all attributes. No label
    may be one of them, nor may a number within the bounds of an attribute.

    >>> from dpsdk import Categorical, Domain, Integer
    >>> domain = Domain(Integer("age", 17, 90), Categorical("sex", ["Female", "Male"]))
    >>> domain.size, domain.index({"age": 18, "sex": "Male"}), domain.record(3)
    (148, 3, {'age': 18, 'sex': 'Male'})
    """

    attributes: tuple[Attribute, ...]
    names: tuple[str, ...] = field(eq=False)
    shape: tuple[int, ...] = field(eq=False)
    size: int = field(eq=False)
    missing_texts: tuple[str, ...]
    """Texts that stand for a missing value, besides the empty text, nan and NaN."""
    sizes: dict[str, int] = field(eq=False)
    """How many cells each attribute has, by its name; only to be read."""
    _positions: dict[str, int] = field(eq=False)

    def __init__(self, *attributes: Attribute, missing_texts: Iterable[str] = ()) -> None:
        if not attributes:
            raise InvalidArgument("attributes", "at least one attribute", "none")
        for attribute in attributes:
            if not isinstance(attribute, Attribute):
                raise InvalidArgument("attributes", "attributes of a domain", shown(attribute))
        names = tuple(attribute.name for attribute in attributes)
        positions = {name: position for position, name in enumerate(names)}
        if len(positions) != len(names):
            repeated = next(name for name in names if names.count(name) > 1)
            raise InvalidArgument("attributes", "of distinct names", f"{shown(repeated)} twice")
        require_different("attributes", names)
        shape = tuple(attribute.size for attribute in attributes)
        # The attributes arrive as positional arguments, so the frozen fields are set by hand.
        object.__setattr__(self, "attributes", attributes)
        object.__setattr__(self, "names", names)
        object.__setattr__(self, "shape", shape)
        object.__setattr__(self, "size", _product(shape))
        object.__setattr__(self, "sizes", dict(zip(names, shape, strict=True)))
        object.__setattr__(self, "_positions", positions)
        texts = to_missing_texts(missing_texts)
        for attribute in attributes if texts else ():
            _check_missing_texts(attribute, texts)
        object.__setattr__(self, "missing_texts", texts)

    def __getitem__(self, name: str) -> Attribute:
        try:
            return self.attributes[self._positions[name]]
        except (KeyError, TypeError):
            raise UnknownAttribute(str(name), self.names) from None

    def __contains__(self, name: object) -> bool:
        if isinstance(name, Attribute):
            return name in self.attributes
        return name in self._positions

    def __iter__(self) -> Iterator[Attribute]:
        return iter(self.attributes)

    def __len__(self) -> int:
        return len(self.attributes)

    def __repr__(self) -> str:
        told = [*map(repr, self.attributes)]
        if self.missing_texts:
            told.append(f"missing_texts={self.missing_texts!r}")
        return f"Domain({', '.join(told)})"

    def _repr_html_(self) -> str:
        """Return the HTML that a notebook shows."""
        return html_of(self)

    def position(self, name: str) -> int:
        """The place of an attribute in the order of the domain."""
        try:
            return self._positions[name]
        except (KeyError, TypeError):
            raise UnknownAttribute(str(name), self.names) from None

    def project(self, names: Sequence[str]) -> Domain:
        """The universe of the named attributes only, in the order given."""
        return Domain(*(self[name] for name in names), missing_texts=self.missing_texts)

    def open(self) -> Domain:
        """The universe in which each attribute has cells for other and for missing values.

        So a value that is missing or matches nothing leaves the other attributes of its row alone,
        and no row is outside.
        """
        opened = [attribute.open() for attribute in self.attributes]
        return Domain(*opened, missing_texts=self.missing_texts)

    def closed(self) -> Domain:
        """The universe of the labels alone, without cells for other and for missing values."""
        closed = [attribute.closed() for attribute in self.attributes]
        return Domain(*closed, missing_texts=self.missing_texts)

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
        """The record of cell `index`, from 0 to size - 1."""
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

    @cached_property
    def digest(self) -> str:
        """The SHA-256 of its canonical text, in hexadecimal digits: its identity."""
        return digest({**ENVELOPE, **to_plain(self)})

    def to_json(self) -> str:
        """The declaration as JSON text, versioned."""
        attributes = [cast("Plain", attribute.to_json()) for attribute in self.attributes]
        content: JSON = {**self._envelope, "attributes": attributes}
        if self.missing_texts:
            content["missing_texts"] = [*self.missing_texts]
        return json.dumps(content, indent=2, ensure_ascii=False)

    @property
    def _envelope(self) -> JSON:
        later = any(one.extras or one.kind == "number" for one in self.attributes)
        return _LATER if later or self.missing_texts else _ENVELOPE

    @classmethod
    def from_json(cls, text: str) -> Domain:
        """Read what `to_json` wrote; `DomainError` if it is not, or of a later version."""
        try:
            content = parsed(text.removeprefix("\ufeff"), scale=16)
            later = type(content) is dict and content.get("version") == _LATER["version"]
            envelope = _LATER if later else _ENVELOPE
            members = opened(content, envelope)
            texts = members.pop("missing_texts", []) if later else []
            (attributes,) = _MEMBERS.read(members, "$", Codebook())
            domain = cls(
                *cast("tuple[Attribute, ...]", attributes),
                missing_texts=_TEXTS.read(texts, "$.missing_texts", Codebook()),
            )
            if domain._envelope is not envelope:
                raise refused("$.version", f"{domain._envelope['version']}", envelope["version"])
        except (WireError, InvalidArgument) as error:
            raise DomainError(f"the domain file: {error}") from None
        return domain

    def save(self, path: str | PathLike[str]) -> None:
        """Write the declaration to a file, whole or not at all."""
        write_whole(path, f"{self.to_json()}\n".encode())

    @classmethod
    def load(cls, path: str | PathLike[str]) -> Domain:
        """Read a declaration from a file: text in UTF-8, or in UTF-16 with a byte order mark."""
        return cls.from_json(decoded(Path(path).read_bytes()))

    @classmethod
    def from_metadata(
        cls,
        source: str | PathLike[str] | Mapping[str, object],
        *,
        table: str | None = None,
        attributes: Iterable[Attribute] = (),
        step: Mapping[str, Real] | None = None,
        leave_out: Iterable[str] | bool = False,
    ) -> Domain:
        """Read a domain from metadata that others declared, in a format of theirs.

        These are CSV on the Web, with the terms that CSVW-EO adds; data packages and table schemas
        of Frictionless; and the metadata of SmartNoise and Lomas, in YAML or JSON. What a format is
        shows in the file. No row of a table is read, and nothing is inferred: bounds, labels, and
        whether a column may be empty are those of the file, which its author vouches for. Numbers
        with bounds and without bins become `Integer`, or a `Number` with a step. A column that may
        be empty has a cell for missing values. One that identifies persons is left out.

        Parameters
        ----------
        source
            The path of the file, of at most 16 MiB, or its content as plain values.
        table
            The name, file or address of the table, where there are several.
        attributes
            Attributes in place of what the file says of the columns of these names.
        step
            Steps of numbers, by the names of columns: files give bounds, and hardly ever a step.
        leave_out
            Names of columns that the domain leaves out; True for all of which the file says too
            little.

        Raises
        ------
        DomainError
            If the file is none of these or malformed, which is told by its place in the file, or
            says too little of a column that was neither given nor left out.
        InvalidArgument
            If an argument is not as described.
        MissingExtra
            If it is YAML, and PyYAML is not installed.

        >>> fields = [
        ...     {"name": "age", "type": "integer", "constraints": {"minimum": 17, "maximum": 90}},
        ...     {"name": "paid", "type": "number", "constraints": {"minimum": 0, "maximum": 500}},
        ... ]
        >>> Domain.from_metadata({"fields": fields}, step={"paid": "0.01"})
        Domain(Integer(name='age', low=17, high=90, missing=True), \
Number(name='paid', low=0, high=500, step=0.01, outside='clip', missing=True))
        """
        from dpsdk.domain.foreign import described_in, domain_of  # noqa: PLC0415  # on top of it

        columns = described_in(source, table)
        return domain_of(*columns, attributes, step or {}, leave_out=leave_out)

    @classmethod
    def from_schema(
        cls,
        schema: object,
        *,
        table: str | None = None,
        declared: Iterable[str] | bool = False,
        attributes: Iterable[Attribute] = (),
        leave_out: Iterable[str] | bool = False,
    ) -> Domain:
        """Read a domain from types that list their labels; no row is read.

        The categories of an `Enum` of polars, and of the enumerations of PostgreSQL, are labels.
        Categories of pandas, dictionaries of Arrow, the ENUM of DuckDB and Booleans are read where
        `declared` says that somebody declared them: most were inferred from the rows, and then they
        are private. Types of numbers have no bounds; say them in `attributes`.

        Parameters
        ----------
        schema
            A frame of polars, pandas or Arrow, its schema, a relation of DuckDB, or a mapping of
            names to types; or a connection of psycopg, and `table` names one of its tables.
        declared
            Names of columns whose types were declared; True if all were.
        attributes, leave_out
            As for `from_metadata`.

        Raises
        ------
        DomainError
            If a type says too little, or has labels that an attribute cannot have.
        InvalidArgument
            If an argument is not as described.
        """
        from dpsdk.domain.foreign import columns_of_schema, domain_of  # noqa: PLC0415  # as above

        columns = columns_of_schema(schema, table=table, declared=declared)
        return domain_of("the schema", columns, attributes, leave_out=leave_out)


def to_missing_texts(texts: Iterable[str]) -> tuple[str, ...]:
    """Read texts that stand for missing values."""
    expected = "distinct texts, none of them empty"
    if isinstance(texts, str) or not isinstance(texts, Iterable):
        raise InvalidArgument("missing_texts", expected, shown(texts))
    found: list[str] = []
    for text in texts:
        if not isinstance(text, str) or not text.strip():
            raise InvalidArgument("missing_texts", expected, shown(text))
        found.append(normal(to_text("missing_texts", text, expected).strip()))
    if len(set(found)) != len(found):
        raise InvalidArgument("missing_texts", expected, shown(found))
    return tuple(found)


def _check_missing_texts(attribute: Attribute, texts: Sequence[str]) -> None:
    """Refuse a text that is a label, or a number within the bounds."""
    for text in texts:
        if attribute.kind in {"categorical", "boolean"}:
            taken = any(normal(label.strip()) == text for label in _readings(attribute))
        else:
            number = None if attribute.kind == "date" else read_fraction(text)
            taken = number is not None and _lies_within(attribute, number)
        if taken:
            expected = f"texts that are no values of {shown(attribute.name)}"
            raise InvalidArgument("missing_texts", expected, shown(text))


def _readings(attribute: Attribute) -> Iterable[str]:
    if isinstance(attribute, Boolean):
        return attribute.readings
    return [str(attribute.label(cell)) for cell in range(attribute.known)]


def _lies_within(attribute: Attribute, number: Fraction) -> bool:
    low, high = attribute.bounds
    return low <= number <= high


def decoded(content: bytes) -> str:
    """The text of a domain file: in UTF-8, or in UTF-16 with a byte order mark."""
    wide = content.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))
    try:
        return content.decode("utf-16" if wide else "utf-8-sig")
    except UnicodeDecodeError:
        message = "the domain is not text in UTF-8"
        raise DomainError(message) from None


@html_of.register
def _html_of_domain(domain: Domain, /) -> str:
    rows = ([one.name, one.kind, f"{one.size:,}", _few_labels(one)] for one in domain)
    count = len(domain)
    title = f"Domain of {count:,} attribute{'' if count == 1 else 's'}, {_cells(domain.size)}"
    return page(title, table(["attribute", "kind", "size", "labels"], rows, count))


def _few_labels(attribute: Attribute) -> str:
    size = attribute.known
    places = [*range(size)] if size <= _SPELLED else [*range(_SPELLED - 1), size - 1]
    texts = [attribute.text(place)[:_SPELLING] for place in places]
    if size > _SPELLED:
        texts.insert(-1, "...")
    return ", ".join([*texts, *(extra.value for extra in attribute.extras)])


def _cells(size: int) -> str:
    if size == 1:
        return "1 cell"
    if size < _READABLE:
        return f"{size:,} cells"
    # An integer of many digits has no text, and no float.
    return f"about 10^{round(size.bit_length() * math.log10(2))} cells"


def _product(sizes: Sequence[int]) -> int:
    """Their product, by halves: of many large ones that is much quicker than one by one."""
    if len(sizes) <= _FEW:
        return math.prod(sizes)
    middle = len(sizes) // 2
    return _product(sizes[:middle]) * _product(sizes[middle:])
