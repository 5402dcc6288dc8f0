"""The private table: declared by its owner, taken in once, and never shown again."""

from __future__ import annotations

import csv
import gzip
import numbers
import zlib
from collections.abc import Iterator, Mapping
from itertools import islice
from os import PathLike, fspath
from typing import Literal, NoReturn, TextIO, TypeAlias, final

import numpy as np

from dpsdk._checks import shown, to_integer, to_name
from dpsdk.data.encode import encode
from dpsdk.data.frames import columns_of, require_narwhals
from dpsdk.data.histogram import Histogram
from dpsdk.data.vault import keep
from dpsdk.domain import Attribute, Domain
from dpsdk.errors import DataError, DpsdkError, InvalidArgument, MissingExtra, Redacted, TooLarge
from dpsdk.forms.facts import Facts, Neighbors
from dpsdk.typing import Array, Floats, Ints

__all__ = ["Outside", "PrivateData"]

Outside: TypeAlias = Literal["cell", "clip", "raise"]
"""What becomes of a row with a value outside the domain.

- "cell": it falls into one extra public cell where every query is zero.
- "clip": numbers move to the nearest bound; what is not a number still goes to the extra cell.
- "raise": loading fails. For trusted, offline use, since the failure tells that there is one.
"""

_CHUNK = 2**16
_ATTRIBUTE_LIMIT = 2**62
_SUPPORTED = "booleans, integers, floats or texts"


@final
class PrivateData:
    """A private table over a declared universe. Opens to a `Session`, and shows itself to nobody.

    Made by `from_columns`, `from_csv`, `from_frame` or `from_counts`. Under the default relation,
    `Neighbors.REPLACE_ONE`, the number of rows is public; under `Neighbors.ADD_REMOVE` it is
    private and only `max_rows` is known of it.

    Rows outside the domain are kept, in one extra cell where every query is zero: dropping them
    would change the public row count by a private number. See `Outside` for the choices.

    >>> from dpsdk import Domain, Integer, PrivateData
    >>> domain = Domain(Integer("age", 17, 90))
    >>> PrivateData.from_columns({"age": [39, 50, 38, 53]}, domain, name="four people")
    PrivateData('four people', replace-one, 4 rows, 1 attribute)
    """

    __slots__ = ("__weakref__", "_facts", "_name")

    _facts: Facts
    _name: str

    def __init__(self) -> None:
        expected = "made by from_columns, from_csv, from_frame or from_counts"
        raise InvalidArgument("PrivateData", expected, "a direct call")

    @property
    def facts(self) -> Facts:
        """All that is public about the table."""
        return self._facts

    @property
    def domain(self) -> Domain:
        """The universe of its records."""
        return self._facts.domain

    @property
    def neighbors(self) -> Neighbors:
        """The relation under which it is protected."""
        return self._facts.neighbors

    @property
    def name(self) -> str:
        """What a ledger knows the table by."""
        return self._name

    @classmethod
    def from_columns(
        cls,
        columns: Mapping[str, Array | list[object]],
        domain: Domain,
        *,
        name: str = "data",
        neighbors: Neighbors = Neighbors.REPLACE_ONE,
        outside: Outside = "cell",
        max_rows: int | None = None,
    ) -> PrivateData:
        """Take in one array of values for each attribute; other columns are not looked at.

        Raises
        ------
        DataError
            If a column is missing, of another length or of a type that holds no labels, if there
            are more than `max_rows` rows, or no row where the number of rows is public.
        """
        source = "the columns"
        wrong = _wrong(domain, name, neighbors, outside, max_rows)
        taken, problem = (None, "") if wrong else _take(columns, domain, outside)
        # The traceback of an error must not carry the values.
        del columns
        if wrong:
            raise wrong
        if taken is None:
            raise DataError(source, problem)
        return cls._keep(taken, domain, source, name, neighbors, outside, max_rows)

    @classmethod
    def from_csv(
        cls,
        path: str | PathLike[str],
        domain: Domain,
        *,
        name: str | None = None,
        neighbors: Neighbors = Neighbors.REPLACE_ONE,
        outside: Outside = "cell",
        max_rows: int | None = None,
        delimiter: str = ",",
        encoding: str = "utf-8",
    ) -> PrivateData:
        """Read a text file whose first line names its columns. Spaces around values are dropped.

        A path that ends with .gz is read through gzip. A line with too few fields is a row outside
        the domain. The name defaults to the path.

        Raises
        ------
        DataError
            As for `from_columns`, and if the file is not such a text.
        """
        source = fspath(path)
        label = source if name is None else name
        wrong = _wrong(domain, label, neighbors, outside, max_rows)
        if wrong:
            raise wrong
        if not isinstance(delimiter, str) or len(delimiter) != 1 or delimiter in '\r\n"':
            raise InvalidArgument("delimiter", "one character", shown(delimiter))
        taken, problem = _read(source, domain, outside, delimiter, encoding)
        if taken is None:
            raise DataError(source, problem)
        return cls._keep(taken, domain, source, label, neighbors, outside, max_rows)

    @classmethod
    def from_frame(
        cls,
        frame: object,
        domain: Domain,
        *,
        name: str = "data",
        neighbors: Neighbors = Neighbors.REPLACE_ONE,
        outside: Outside = "cell",
        max_rows: int | None = None,
    ) -> PrivateData:
        """Take in a pandas, Polars or pyarrow table, or a lazy frame that narwhals reads.

        Nulls are outside the domain. Needs the extra `frames`.

        Raises
        ------
        DataError
            As for `from_columns`, and if narwhals does not know the object.
        MissingExtra
            If narwhals is not installed.
        """
        source = "the frame"
        wrong = _wrong(domain, name, neighbors, outside, max_rows) or _lacking()
        columns, problem = (None, "") if wrong else columns_of(frame, domain.names)
        del frame
        taken: Histogram | None = None
        if columns is not None:
            taken, problem = _take(columns, domain, outside)
        del columns
        if wrong:
            raise wrong
        if taken is None:
            raise DataError(source, problem)
        return cls._keep(taken, domain, source, name, neighbors, outside, max_rows)

    @classmethod
    def from_counts(
        cls,
        counts: Array | list[int],
        domain: Domain,
        *,
        outside_rows: int = 0,
        name: str = "data",
        neighbors: Neighbors = Neighbors.REPLACE_ONE,
        max_rows: int | None = None,
    ) -> PrivateData:
        """Take in a histogram: the number of rows in each cell, flat or shaped like the domain.

        `outside_rows` rows are in the extra cell outside the domain.

        Raises
        ------
        DataError
            If the array does not have one whole number, zero or more, for each cell.
        """
        source = "the counts"
        wrong = _wrong(domain, name, neighbors, "cell", max_rows)
        taken, problem = (None, "") if wrong else _tally(counts, domain, outside_rows)
        del counts, outside_rows
        if wrong:
            raise wrong
        if taken is None:
            raise DataError(source, problem)
        return cls._keep(taken, domain, source, name, neighbors, "cell", max_rows)

    @classmethod
    def _keep(
        cls,
        taken: Histogram,
        domain: Domain,
        source: str,
        name: str,
        neighbors: Neighbors,
        outside: Outside,
        max_rows: int | None,
    ) -> PrivateData:
        limit = DEFAULT_MAX_ROWS if max_rows is None else int(max_rows)
        public = neighbors is Neighbors.REPLACE_ONE
        # The number of rows may be private, so no frame that raises has a name for it.
        if taken.rows > limit and not (public and max_rows is None):
            raise DataError(source, f"more than max_rows={limit} rows; declare a larger max_rows")
        if public and taken.rows == 0:
            raise DataError(source, "no rows, where their number is public")
        rows = taken.rows
        self = cls.__new__(cls)
        self._name = name
        self._facts = Facts(
            domain,
            neighbors,
            rows if public else None,
            outside != "raise",
            rows if public else limit,
        )
        keep(self, taken, self._facts)
        return self

    def __repr__(self) -> str:
        rows = "private" if self._facts.rows is None else f"{self._facts.rows:,}"
        count = len(self.domain.names)
        return (
            f"PrivateData({self._name!r}, {self.neighbors.value}, {rows} rows, "
            f"{count} attribute{'s' if count > 1 else ''})"
        )

    def __reduce_ex__(self, protocol: object) -> NoReturn:
        raise Redacted("pickling or copying")

    def __iter__(self) -> Iterator[NoReturn]:
        raise Redacted("iteration")

    def __len__(self) -> int:
        raise Redacted("len()")

    def __getitem__(self, key: object) -> NoReturn:
        raise Redacted("indexing")

    def __array__(self, *_: object, **__: object) -> NoReturn:
        raise Redacted("conversion to an array")

    def __bool__(self) -> bool:
        return True


DEFAULT_MAX_ROWS = 2**24
"""The most rows of a table whose row count is private, unless its owner declares another limit."""


def _wrong(
    domain: Domain, name: str, neighbors: Neighbors, outside: Outside, max_rows: int | None
) -> DpsdkError | None:
    """What is wrong with the public arguments; returned, so that values can be dropped first."""
    try:
        if not isinstance(domain, Domain):
            return InvalidArgument("domain", "a domain", shown(domain))
        to_name("name", name)
        if not isinstance(neighbors, Neighbors):
            return InvalidArgument("neighbors", "a member of Neighbors", shown(neighbors))
        if outside not in ("cell", "clip", "raise"):
            return InvalidArgument("outside", '"cell", "clip" or "raise"', shown(outside))
        if max_rows is not None and to_integer("max_rows", max_rows) < 1:
            return InvalidArgument("max_rows", "an integer of at least 1", shown(max_rows))
    except InvalidArgument as error:
        return error
    for attribute in domain.attributes:
        if attribute.size > _ATTRIBUTE_LIMIT:
            advice = "declare narrower bounds, or split it into several attributes"
            what = f"attribute {attribute.name!r}"
            return TooLarge(what, attribute.size, _ATTRIBUTE_LIMIT, "cells", advice)
    return None


def _lacking() -> MissingExtra | None:
    try:
        require_narwhals()
    except MissingExtra as error:
        return error
    return None


def _take(
    columns: Mapping[str, Array | list[object]], domain: Domain, outside: Outside
) -> tuple[Histogram | None, str]:
    codes: dict[str, Ints] = {}
    for attribute in domain.attributes:
        code, problem = _column(columns, attribute, outside)
        if code is None:
            return None, problem
        codes[attribute.name] = code
        if len(code) != len(next(iter(codes.values()))):
            return None, f"column {attribute.name!r} is not as long as the others"
    return _inside(codes, domain), ""


def _column(
    columns: Mapping[str, Array | list[object]], attribute: Attribute, outside: Outside
) -> tuple[Ints | None, str]:
    name = attribute.name
    try:
        if name not in columns:
            return None, f"no column {name!r}"
        column, missing = _array(columns[name])
        if column.ndim != 1:
            return None, f"column {name!r} is not one-dimensional"
        if column.dtype.kind not in "biufOUT":
            return None, f"column {name!r} is of type {column.dtype}; give {_SUPPORTED}"
        code = encode(attribute, column, clip=outside == "clip")
    except Exception:  # noqa: BLE001  # its text may quote values
        return None, f"column {name!r} cannot be read as a sequence of values"
    if missing is not None:
        code[missing] = -1
    if outside == "raise" and (code < 0).any():
        return None, f"a value of {name!r} is outside the domain"
    return code, ""


def _array(column: Array | list[object]) -> tuple[Array, Array | None]:
    if isinstance(column, np.ma.MaskedArray):
        return np.asarray(column.data), np.ma.getmaskarray(column)
    if isinstance(column, np.ndarray):
        return column, None
    values = list(column)
    array = np.empty(len(values), dtype=object)
    array[:] = values
    return array, None


def _inside(codes: Mapping[str, Ints], domain: Domain) -> Histogram:
    out = np.zeros(len(next(iter(codes.values()))), dtype=bool)
    for code in codes.values():
        out |= code < 0
    kept = {name: code[~out] for name, code in codes.items()}
    return Histogram(domain, kept, np.ones(int((~out).sum())), int(out.sum()))


def _read(
    path: str, domain: Domain, outside: Outside, delimiter: str, encoding: str
) -> tuple[Histogram | None, str]:
    codes: dict[str, list[Ints]] = {name: [] for name in domain.names}
    try:
        with _opened(path, encoding) as file:
            lines = csv.reader(file, delimiter=delimiter, skipinitialspace=True)
            header = [title.strip() for title in next(lines, ())]
            missing = [name for name in domain.names if name not in header]
            if missing:
                return None, f"no column {missing[0]!r} in the first line"
            places = {name: header.index(name) for name in domain.names}
            while chunk := list(islice(lines, _CHUNK)):
                rows = [row for row in chunk if row]
                for attribute in domain.attributes:
                    place = places[attribute.name]
                    column = np.array(
                        [row[place] if place < len(row) else None for row in rows], dtype=object
                    )
                    code = encode(attribute, column, clip=outside == "clip")
                    if outside == "raise" and (code < 0).any():
                        return None, f"a value of {attribute.name!r} is outside the domain"
                    codes[attribute.name].append(code)
    except (gzip.BadGzipFile, zlib.error, EOFError):
        return None, "is not a whole gzip file"
    except OSError as error:
        return None, f"cannot be read: {error.strerror}"
    except (UnicodeError, LookupError):
        return None, f"is not text in {encoding}"
    except csv.Error:
        return None, "is not a table of delimited text"
    except ValueError:
        return None, "cannot be opened"
    empty = np.empty(0, dtype=np.int64)
    return _inside(
        {name: np.concatenate([empty, *code]) for name, code in codes.items()}, domain
    ), ""


def _opened(path: str, encoding: str) -> TextIO:
    if path.endswith(".gz"):
        return gzip.open(path, "rt", encoding=encoding, newline="")
    return open(path, encoding=encoding, newline="")  # noqa: PTH123


def _tally(
    counts: Array | list[int], domain: Domain, outside_rows: int
) -> tuple[Histogram | None, str]:
    try:
        array = np.asarray(counts)
    except Exception:  # noqa: BLE001  # its text may quote values
        return None, "not an array"
    if array.shape not in {domain.shape, (domain.size,)}:
        return None, f"of shape {array.shape}, expected {domain.shape} or ({domain.size},)"
    whole = isinstance(outside_rows, numbers.Integral) and not isinstance(outside_rows, bool)
    if not whole or outside_rows < 0:
        return None, "outside_rows is not a whole number, zero or more"
    if array.dtype.kind not in "biuf":
        return None, "not whole numbers"
    flat: Floats = array.reshape(-1).astype(np.float64)
    if not (np.isfinite(flat).all() and (flat >= 0).all() and (flat == np.rint(flat)).all()):
        return None, "not whole numbers, zero or more"
    if flat.sum() + outside_rows >= 2.0**53:
        return None, "too many rows to count exactly"
    cells = np.flatnonzero(flat)
    codes = np.unravel_index(cells, domain.shape)
    named = {name: code.astype(np.int64) for name, code in zip(domain.names, codes, strict=True)}
    return Histogram(domain, named, flat[cells], outside_rows), ""
