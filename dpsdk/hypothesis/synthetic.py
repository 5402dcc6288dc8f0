"""Synthetic data: public records that stand for a private table, and stay as they are."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from importlib.util import find_spec
from typing import ClassVar, Literal, Self, TypeAlias

import numpy as np
from typing_extensions import override

from dpsdk._arrays import frozen_integers
from dpsdk._checks import require, shown, to_integer
from dpsdk._frames import Column, ColumnKind, to_frame
from dpsdk._records import cmp_using, field, frozen
from dpsdk.domain import Attribute, Domain, Number
from dpsdk.domain.columns import label_kind
from dpsdk.errors import InvalidArgument, MissingExtra, TooLarge
from dpsdk.forms import LinearForm
from dpsdk.forms.blocks import numbered, tally
from dpsdk.hypothesis.distribution import Distribution, check_domain, labels_of, nowhere
from dpsdk.hypothesis.files import Arrays, Flag
from dpsdk.hypothesis.streams import Streams
from dpsdk.typing import Array, Extra, Floats, Ints, Label

__all__ = ["Backend", "Counted", "SyntheticData", "to_columns"]

Backend: TypeAlias = Literal["polars", "pandas", "pyarrow"]
"""A library of data frames."""

_BACKENDS: tuple[Backend, ...] = ("polars", "pandas", "pyarrow")

_LIMIT = 2**28
"""No synthetic data, list or table has more numbers: 2 GiB."""

_SIZE_LIMIT = 2**63
_EXACT = 2**53


@frozen
class Counted:
    """The counts or shares of records, as a form is evaluated over them."""

    domain: Domain
    codes: Ints | Sequence[Array]
    counts: Ints | Floats

    def table(self, names: tuple[str, ...]) -> Floats:
        """Counts on the cells of the named attributes."""
        shape = tuple([self.domain[name].size for name in names])
        cells = math.prod(shape)
        if cells > _LIMIT:
            raise TooLarge("a table", cells, _LIMIT, "cells", "ask for fewer attributes at a time")
        codes, counts = self.records(names)
        return tally(numbered(codes, shape, len(counts)), counts, shape)

    def records(self, names: tuple[str, ...]) -> tuple[Sequence[Ints], Floats]:
        """Cell numbers along each named attribute, and the count of each such record."""
        codes = [self.codes[self.domain.position(name)] for name in names]
        wide = [code.astype(np.int64, copy=False) for code in codes]
        return wide, self.counts.astype(np.float64, copy=False)

    def pieces(self, names: tuple[str, ...], rows: int) -> Iterator[tuple[Sequence[Ints], Floats]]:
        """The same, so many records at a time."""
        for start in range(0, len(self.counts), rows):
            own = slice(start, start + rows)
            some = [code[own] for code in self.codes]
            yield Counted(self.domain, some, self.counts[own]).records(names)


@frozen(init=False, repr=False)
class SyntheticData(Distribution):
    """Public records, each as often as it counts: a table that anybody may read.

    A distribution that does not move: it answers every linear query, at the cost of its records and
    never of the universe, which may have any number of cells. Equal records are kept once, in the
    order of their cells, so that two are equal if they hold the same records, however these were
    given. Nothing here costs any budget: private rows must have been paid for. Raises
    `InvalidArgument` if codes or counts are not as described, or no record is left, and `TooLarge`
    for more than 2^28 numbers, or an attribute of more than 2^63 cells.

    Parameters
    ----------
    domain
        The universe. No attribute has more than 2^63 cells.
    codes
        Shape (m, d): for each record the number of its cell along each of the d attributes.
    counts
        Shape (m,): how often each record counts, whole numbers of at least 0 and 2^53 in all at
        the most; once each by default.
    outside_count
        How many records more lie outside the domain; None where there is no such cell.

    >>> from dpsdk import Boolean, Domain, Integer, SyntheticData
    >>> domain = Domain(Integer("age", 17, 90), Boolean("member"))
    >>> people = SyntheticData(domain, [[3, 1], [3, 1], [60, 0]])
    >>> people
    SyntheticData(3 records, 2 of them different)
    >>> people.counts("member").tolist()
    [1, 2]
    >>> people.to_columns()
    {'age': [20, 20, 77], 'member': [True, True, False]}
    """

    kind: ClassVar[str] = "synthetic"
    listed: ClassVar[bool] = True
    domain: Domain
    outside: bool = field(eq=False)
    outside_count: int | None
    """How many records lie outside the domain; None where there is no such cell."""
    _codes: Ints = field(eq=cmp_using(eq=np.array_equal), hash=False)
    _counts: Ints = field(eq=cmp_using(eq=np.array_equal), hash=False)

    def __init__(
        self,
        domain: Domain,
        codes: Array | Sequence[Sequence[int]],
        counts: Array | Sequence[int] | None = None,
        *,
        outside_count: int | None = None,
    ) -> None:
        check_domain(domain)
        columns = to_columns(domain, codes)
        numbers = _to_counts(counts, columns.shape[1])
        beyond = None if outside_count is None else _to_outside_count(outside_count)
        columns, numbers = _gathered(columns, numbers)
        total = int(numbers.sum()) + (beyond or 0)
        if total > _EXACT:
            advice = "scale the counts down"
            raise TooLarge("synthetic data", total, _EXACT, "records", advice)
        if not total:
            raise InvalidArgument("codes", "at least one record that counts", "none")
        # The fields of a frozen value are set once, after they were checked together.
        for name, value in {
            "domain": domain,
            "outside": beyond is not None,
            "outside_count": beyond,
            "_codes": frozen_integers(columns),
            "_counts": frozen_integers(numbers),
        }.items():
            object.__setattr__(self, name, value)

    @classmethod
    def from_counts(
        cls, domain: Domain, counts: Array, *, outside_count: int | None = None
    ) -> Self:
        """The records of a whole table of counts.

        `counts` says how many records each of at most 2^28 cells has, shaped like the domain or
        flat in the order of its cells. Raises `InvalidArgument` or `TooLarge` as for the class.
        """
        check_domain(domain)
        if domain.size > _LIMIT:
            advice = "give the records that count"
            raise TooLarge("a table of counts", domain.size, _LIMIT, "cells", advice)
        expected = f"whole numbers of at least 0, one for each of {domain.size} cells"
        numbers = _to_counts(_to_whole("counts", counts, expected).reshape(-1), domain.size)
        cells = np.flatnonzero(numbers)
        codes = np.stack(np.unravel_index(cells, domain.shape), axis=1)
        return cls(domain, codes, numbers[cells], outside_count=outside_count)

    @property
    def rows(self) -> int:
        """How many records there are in all, those outside the domain included."""
        return int(self._counts.sum()) + (self.outside_count or 0)

    @property
    def codes(self) -> Ints:
        """The different records inside the domain, shape (m, d), in the order of their cells."""
        return self._codes.T

    @property
    def multiplicities(self) -> Ints:
        """How often each of the different records counts, shape (m,)."""
        return self._counts

    @property
    @override
    def outside_mass(self) -> float:
        return (self.outside_count or 0) / self.rows

    @override
    def answers(self, form: LinearForm) -> Floats:
        self._check(form)
        # Counts are exact, and are divided once.
        result: Floats = form.evaluate(self._counted) / self.rows
        return result

    @override
    def table(self, names: tuple[str, ...]) -> Floats:
        result: Floats = self._counted.table(names) / self.rows
        return result

    @override
    def records(self, names: tuple[str, ...] | None = None) -> tuple[Sequence[Ints], Floats]:
        codes, counts = self._counted.records(self.domain.names if names is None else names)
        return codes, counts / self.rows

    def counts(self, *names: str) -> Ints:
        """How many records fall into each cell of the named attributes.

        One axis a name, in the order given; the number of all records inside without names. Raises
        `UnknownAttribute` if the domain does not have one of them, and `TooLarge` if the table
        would have more than 2^28 cells.
        """
        return self._counted.table(names).astype(np.int64)

    def to_columns(self) -> dict[str, list[Label]]:
        """The labels of all records inside the domain, each record as often as it counts.

        Raises `TooLarge` if there would be more than 2^28 labels.
        """
        needed = int(self._counts.sum()) * len(self.domain.attributes)
        if needed > _LIMIT:
            raise TooLarge("a list of all records", needed, _LIMIT, "labels", "read the codes")
        return {
            attribute.name: labels_of(attribute, np.repeat(code, self._counts))
            for attribute, code in zip(self.domain.attributes, self._codes, strict=True)
        }

    def to_frame(self, backend: Backend | None = None) -> object:
        """All records inside the domain as a data frame, each as often as it counts.

        A frame of the library `backend`, by default the first of polars, pandas and pyarrow that is
        installed. Truth values and whole numbers of 64 bits are columns of these; all other labels
        are texts, a bin as "[0, 10)". Missing values are null, and values that match no label the
        text "(other)", in a column of texts: the domain reads both as what they are. Raises
        `InvalidArgument` for another library. Raises `MissingExtra` if narwhals, which the extra
        `frames` installs, or the library is missing. Raises `TooLarge` as for `to_columns`.
        """
        return _framed(self.domain, self.to_columns(), backend)

    @override
    def draw(self, streams: Streams) -> Sequence[Ints]:
        ends = np.concatenate([[0], np.cumsum(self._counts)])
        if not ends[-1]:
            raise nowhere()
        # Records are in order, so those that agree in the attributes drawn so far are neighbours.
        size = streams.size
        first, last = np.zeros(size, dtype=np.int64), np.full(size, len(ends) - 1, dtype=np.int64)
        starts = np.zeros(len(self._counts), dtype=bool)
        starts[0] = True
        drawn: list[Ints] = []
        for name, code in zip(self.domain.names, self._codes, strict=True):
            place = ends[first] + streams.below(name, ends[last] - ends[first])
            chosen = np.searchsorted(ends, place, side="right") - 1
            drawn.append(code[chosen])
            starts[1:] |= code[1:] != code[:-1]
            edges = np.append(np.flatnonzero(starts), len(starts))
            group = np.searchsorted(edges, chosen, side="right") - 1
            first, last = edges[group], edges[group + 1]
        return drawn

    @override
    def parts(self) -> tuple[Mapping[str, Flag], Mapping[str, Floats | Ints]]:
        outside = [] if self.outside_count is None else [self.outside_count]
        arrays: dict[str, Floats | Ints] = {
            "codes": self._codes.reshape(-1),
            "counts": self._counts,
            "outside": np.array(outside, dtype=np.int64),
        }
        return {}, arrays

    @classmethod
    @override
    def from_parts(cls, domain: Domain, flags: Mapping[str, object], arrays: Arrays) -> Self:
        if set(arrays) != {"codes", "counts", "outside"} or flags:
            raise InvalidArgument("its parts", "codes, counts and outside", "others")
        codes, counts, outside = arrays["codes"], arrays["counts"], arrays["outside"]
        width = len(domain.attributes)
        if any(array.dtype != np.int64 for array in arrays.values()):
            raise InvalidArgument("its parts", "rows of int64", "others")
        if len(codes) != width * len(counts) or len(outside) > 1:
            raise InvalidArgument("its codes", "one for each record and attribute", "others")
        beyond = int(outside[0]) if len(outside) else None
        return cls(domain, codes.reshape(width, -1).T, counts, outside_count=beyond)

    @property
    def _counted(self) -> Counted:
        return Counted(self.domain, self._codes, self._counts)

    def __reduce__(self) -> tuple[object, ...]:
        # What is read back is checked and made unchangeable again.
        return _made, (type(self), self.domain, self.codes, self._counts, self.outside_count)

    def __repr__(self) -> str:
        different = len(self._counts)
        beside = f", {self.outside_count:,} outside the domain" if self.outside_count else ""
        return f"SyntheticData({self.rows:,} records, {different:,} of them different{beside})"


def _made(
    kind: type[SyntheticData], domain: Domain, codes: Ints, counts: Ints, outside: int | None
) -> SyntheticData:
    return kind(domain, codes, counts, outside_count=outside)


def to_columns(domain: Domain, codes: Array | Sequence[Sequence[int]]) -> Ints:
    """Codes as an array (d, m) of checked int64."""
    width = len(domain.attributes)
    expected = f"integers of shape (records, {width}), each below the size of its attribute"
    for attribute in domain.attributes:
        if attribute.size > _SIZE_LIMIT:
            advice = "declare coarser labels"
            what = f"the attribute {attribute.name!r} of synthetic data"
            raise TooLarge(what, attribute.size, _SIZE_LIMIT, "cells", advice)
    array = _to_whole("codes", codes, expected)
    if array.size == 0 and array.shape in ((0,), (0, width)):
        return np.zeros((width, 0), dtype=np.int64)
    if array.ndim != 2 or array.shape[1] != width:
        raise InvalidArgument("codes", expected, f"shape {array.shape}")
    if array.size > _LIMIT:
        advice = "gather equal records, with counts"
        raise TooLarge("synthetic data", array.size, _LIMIT, "codes", advice)
    for attribute, column in zip(domain.attributes, array.T, strict=True):
        low, high = int(column.min()), int(column.max())
        if low < 0 or high >= attribute.size:
            reach = f"codes from 0 to {attribute.size - 1} for attribute {attribute.name!r}"
            raise InvalidArgument("codes", reach, str(low if low < 0 else high))
    return np.ascontiguousarray(array.T, dtype=np.int64)


def _to_counts(counts: Array | Sequence[int] | None, records: int) -> Ints:
    if counts is None:
        return np.ones(records, dtype=np.int64)
    expected = f"{records} whole numbers of at least 0, 2^53 in all at the most"
    array = _to_whole("counts", counts, expected)
    if array.shape != (records,):
        raise InvalidArgument("counts", expected, f"shape {array.shape}")
    if array.size and (int(array.min()) < 0 or float(array.sum(dtype=np.float64)) > 2.0 * _EXACT):
        raise InvalidArgument("counts", expected, "others")
    return array.astype(np.int64)


def _to_whole(parameter: str, values: object, expected: str) -> Array:
    try:
        array = np.array(values)
    except (TypeError, ValueError, OverflowError):
        raise InvalidArgument(parameter, expected, shown(values)) from None
    if array.dtype.kind not in "iu" and array.size:
        raise InvalidArgument(parameter, expected, f"an array of {array.dtype}")
    return array if array.size else array.astype(np.int64)


def _to_outside_count(count: int) -> int:
    expected = "a whole number of at least 0, or None"
    number = to_integer("outside_count", count, expected)
    require(0 <= number <= _EXACT, "outside_count", expected, number)
    return number


def _gathered(columns: Ints, counts: Ints) -> tuple[Ints, Ints]:
    """Different records in the order of their cells, with the sums of their counts."""
    counting = counts > 0
    columns, counts = columns[:, counting], counts[counting]
    if not len(counts):
        return columns, counts
    order = np.lexsort(columns[::-1])
    columns, counts = columns[:, order], counts[order]
    new = np.append(True, (columns[:, 1:] != columns[:, :-1]).any(axis=0))
    places = np.flatnonzero(new)
    return columns[:, places], np.add.reduceat(counts, places)


def _framed(domain: Domain, columns: Mapping[str, list[Label]], backend: Backend | None) -> object:
    if backend is not None and backend not in _BACKENDS:
        expected = f"{', '.join(map(repr, _BACKENDS))}, or None"
        raise InvalidArgument("backend", expected, shown(backend))
    wanted: tuple[Backend, ...] = _BACKENDS if backend is None else (backend,)
    found: Backend | None = next((name for name in wanted if find_spec(name) is not None), None)
    if found is None:
        raise MissingExtra(wanted[0])
    content = {name: _column(domain[name], labels) for name, labels in columns.items()}
    return to_frame(content, found)


def _column(attribute: Attribute, labels: Sequence[Label]) -> Column:
    """Labels as they stand in a table of records, where missing values are null."""
    kind: ColumnKind = "text"
    if isinstance(attribute, Number) and not attribute.other:
        kind = "number"
    elif Extra.OTHER not in attribute.extras:
        kind = label_kind(attribute.closed())
    entries: dict[Label, object] = {}
    for label in set(labels):
        entries[label] = attribute.text(attribute.index(label)) if kind == "text" else label
    entries[Extra.MISSING] = None
    return Column([entries[label] for label in labels], kind)
