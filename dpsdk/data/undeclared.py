"""The table that nobody has described: read by its keys, for a `Discovery` to find a domain in."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from os import PathLike
from typing import Any, TypedDict, Unpack, cast, final

from dpsdk._checks import shown, to_name
from dpsdk._records import field, frozen, shows_half_made
from dpsdk.data.columns import Column, Kind, array_column, require_columns
from dpsdk.data.declaration import DEFAULT_MAX_ROWS, to_max_rows, to_table_name
from dpsdk.data.delimited import FileFormat, column_titles, read_delimited
from dpsdk.data.frames import require_narwhals, series_as_column
from dpsdk.data.guard import Hidden, attempt, explained, hidden, outcome
from dpsdk.data.keyed import KeyColumn, KeyedRows, KeyReader, Persons, UndeclaredFacts, identifiers
from dpsdk.data.parquet import parquet_frame, parquet_names
from dpsdk.data.persons import PersonMatcher
from dpsdk.data.private_data import to_path
from dpsdk.data.readers import Parameters, as_column
from dpsdk.data.texts import TextFormat
from dpsdk.data.vault import keep_rows
from dpsdk.domain.product import to_missing_texts
from dpsdk.errors import DataError, InvalidArgument
from dpsdk.forms.facts import Neighbors
from dpsdk.progress import Bars, working
from dpsdk.typing import Array, Ints

__all__ = ["MISSING_TEXTS", "Undeclared", "UndeclaredFacts", "UndeclaredOptions", "can_be_asked"]

MISSING_TEXTS = ("?", "NA", "N/A", "null", "NULL", "None")
"""Texts that many tables have in place of a missing value, beside the empty one, nan and NaN."""


class UndeclaredOptions(TypedDict, total=False):
    """The options that all doors of `Undeclared` have; `Undeclared.from_columns` explains them."""

    neighbors: Neighbors | None
    max_rows: int | None
    strip: bool
    decimal: str
    thousands: str | None
    missing_texts: Sequence[str]
    progress: bool


def _to_unit(value: str | None) -> str | None:
    return None if value is None else to_name("unit", value)


def _to_names(value: Sequence[str] | None) -> tuple[str, ...] | None:
    if value is None:
        return None
    if isinstance(value, str) or not isinstance(value, Sequence) or not value:
        raise InvalidArgument("columns", "names of columns, or None for all", shown(value))
    names = tuple([to_name("columns", name) for name in value])
    if len(set(names)) < len(names):
        raise InvalidArgument("columns", "different names", shown(value))
    return names


def can_be_asked(name: str) -> bool:
    """Return False for a name that no attribute may have, as none at all."""
    try:
        to_name("columns", name)
    except InvalidArgument:
        return False
    return True


@frozen
class _Declared:
    """All that an owner says of such a table, checked before any of it is read."""

    name: str = field(converter=to_table_name)
    unit: str | None = field(converter=_to_unit)
    columns: tuple[str, ...] | None = field(converter=_to_names)
    texts: TextFormat
    lines: FileFormat
    bars: Bars | None
    neighbors: Neighbors | None = None
    max_rows: int | None = field(default=None, converter=to_max_rows)
    missing_texts: tuple[str, ...] = field(default=MISSING_TEXTS, converter=to_missing_texts)

    def __attrs_post_init__(self) -> None:
        if not isinstance(self.neighbors, Neighbors | None):
            raise InvalidArgument("neighbors", "a member of Neighbors", shown(self.neighbors))
        if self.unit is not None and self.neighbors is Neighbors.REPLACE_ONE:
            expected = (
                "Neighbors.ADD_REMOVE or left out, as with unit= the number of rows is private"
            )
            raise InvalidArgument("neighbors", expected, self.neighbors.value)

    @property
    def relation(self) -> Neighbors:
        """The neighbour relation."""
        if self.neighbors is not None:
            return self.neighbors
        return Neighbors.REPLACE_ONE if self.unit is None else Neighbors.ADD_REMOVE

    @property
    def limit(self) -> int | None:
        """The most rows of the table; None where their number is public and no limit declared."""
        public = self.relation is Neighbors.REPLACE_ONE
        return DEFAULT_MAX_ROWS if self.max_rows is None and not public else self.max_rows

    def read(self, held: Sequence[str]) -> list[str]:
        """Return the columns to read of those that the table holds."""
        names = filter(can_be_asked, held) if self.columns is None else self.columns
        return [name for name in names if name != self.unit]

    def readers(self, names: Sequence[str]) -> list[KeyReader]:
        """Return what reads each column."""
        missing = frozenset(self.missing_texts)
        return [KeyReader(name, self.texts, missing) for name in names]

    def person(self) -> PersonMatcher | None:
        """Return what reads the column of identifiers, if there is one."""
        return None if self.unit is None else PersonMatcher(self.unit, self.texts)


def _declared(
    name: str,
    unit: str | None,
    columns: Sequence[str] | None,
    lines: tuple[Any, ...] = (),
    *,
    strip: bool = False,
    decimal: str = ".",
    thousands: str | None = None,
    progress: bool = False,
    **others: Any,
) -> _Declared:
    texts = TextFormat(strip, decimal, thousands)
    own = FileFormat(*lines, strip=texts.strip)
    return _Declared(name, unit, columns, texts, own, Bars.of(progress), **others)


@shows_half_made
@final
class Undeclared(Hidden):
    """A private table whose columns nobody has described. Opens to a `Discovery`.

    Made by `from_columns`, `from_csv`, `from_frame`, `from_parquet` or `from_sql`. Public of it are
    the names of its columns, whom it protects and, where each row is somebody's own under
    `Neighbors.REPLACE_ONE`, the number of rows. Everything else is private: also the types that a
    frame, an array or a file has, since they follow from its rows. So nothing here fails because
    of a value.

    Whom it protects is always said, since nothing else shows whose secret a rare value is:
    ``unit="column"`` a person, told by the column of identifiers, who may have any number of rows;
    ``unit=None`` whoever has a row, where nobody has two.

    A column without a name, as pandas writes an index, is not read.

    Texts and typed values are read by their *keys*: texts in Unicode's form NFC, numbers by their
    digits, so that 39, 39.0 and "39" are one. Texts of more than 256 characters, what is no
    Unicode, typed numbers from 2**53 on, and lists or bytes have none; they are neither found nor
    counted as missing. All rows are held in memory, as a number for each value and a text for each
    different one: for ten million different texts of twenty characters about two gigabytes and a
    minute.

    >>> from dpsdk import Undeclared
    >>> Undeclared.from_columns({"dest": ["ORD", "ATL"]}, unit=None, name="flights")
    Undeclared('flights', replace-one, 2 rows, 1 column)
    """

    __slots__ = ("__weakref__", "_facts", "_name")

    _facts: UndeclaredFacts
    _name: str

    def __init__(self) -> None:
        expected = "made by from_columns, from_csv, from_frame and others"
        raise InvalidArgument("Undeclared", expected, "a direct call")

    @property
    def facts(self) -> UndeclaredFacts:
        """All that is public about the table."""
        return self._facts

    @property
    def name(self) -> str:
        """The name of the table in a ledger."""
        return self._name

    @classmethod
    def from_columns(
        cls,
        columns: Mapping[str, Array | list[object]],
        *,
        unit: str | None,
        name: str = "data",
        **options: Unpack[UndeclaredOptions],
    ) -> Undeclared:
        """Take in one array, list or series for each column.

        Parameters
        ----------
        columns
            Values by the name of their column, all of one length. Masked values are missing.
        unit
            The column that tells persons apart, or None where each row is somebody's own. It has no
            default.
        name
            What a ledger knows the table by: give the sessions that follow the same.
        neighbors
            The relation: replace-one for rows unless told, add-remove for persons always.
        max_rows
            The most rows, or persons, where their number is private; 2**24 unless told.
        strip
            Whether white space around texts is dropped, identifiers included. A ledger is bound to
            it where there is a unit.
        decimal, thousands
            How numbers are written in texts, as for `PrivateData.from_columns`.
        missing_texts
            Texts that are missing values, beside the empty one, nan and NaN. Declare the same for
            the domain.
        progress
            Whether a bar on standard error tells of loading. Needs the extra `progress`.

        Raises
        ------
        DataError
            If a column is no sequence or of another length, the unit is no column, there are more
            rows than `max_rows`, or no row where their number is public.
        InvalidArgument
            If another argument is not as expected.
        """
        made = cls._made("the columns", (name, unit, None), options, _read_columns, columns)
        # The traceback of an error must not carry the values.
        del columns
        return outcome(made)

    @classmethod
    def from_csv(
        cls,
        path: str | PathLike[str],
        *,
        unit: str | None,
        name: str | None = None,
        columns: Sequence[str] | None = None,
        header: Sequence[str] | None = None,
        delimiter: str = ",",
        encoding: str = "utf-8",
        **options: Unpack[UndeclaredOptions],
    ) -> Undeclared:
        """Read a text file: the first line names the columns, every other line is one row.

        The file is cut into lines and fields as `PrivateData.from_csv` does.

        Parameters
        ----------
        path
            The file.
        columns
            The names of those to read; all of them unless given.
        name
            What a ledger knows the table by; the path unless given.
        header, delimiter, encoding
            As for `PrivateData.from_csv`.
        unit, options
            As for `from_columns`, where `options` are those from `neighbors` to `progress`.

        Raises
        ------
        DataError, InvalidArgument
            As for `from_columns`; also if the file cannot be read or its first line names a column
            twice.
        """
        source = to_path(path)
        called, lines = source if name is None else name, (delimiter, encoding, header)
        return outcome(cls._made(source, (called, unit, columns, lines), options, _read_file))

    @classmethod
    def from_frame(
        cls,
        frame: object,
        *,
        unit: str | None,
        name: str = "data",
        columns: Sequence[str] | None = None,
        **options: Unpack[UndeclaredOptions],
    ) -> Undeclared:
        """Read a frame of any library that narwhals reads; one of an engine is collected first.

        The types of its columns are private, since a library took them from the rows. Needs the
        extra `frames`.

        Parameters
        ----------
        frame
            The table.
        unit, name, columns, options
            As for `from_csv`.

        Raises
        ------
        DataError, InvalidArgument
            As for `from_columns`; also if narwhals does not know the object.
        MissingExtra
            If narwhals is not installed.
        """
        made = cls._made("the frame", (name, unit, columns), options, _read_frame, frame)
        del frame
        return outcome(made)

    @classmethod
    def from_parquet(
        cls,
        path: str | PathLike[str],
        *,
        unit: str | None,
        name: str | None = None,
        columns: Sequence[str] | None = None,
        **options: Unpack[UndeclaredOptions],
    ) -> Undeclared:
        """Read Parquet files, found as `PrivateData.from_parquet` finds them.

        The types in their schema are private, too, since most were taken from rows.

        Parameters
        ----------
        path
            A file, a directory or a pattern.
        unit, name, columns, options
            As for `from_csv`.

        Raises
        ------
        DataError, InvalidArgument, MissingExtra
            As for `from_frame`; also if there is no such file, or no library that reads Parquet.
        """
        source = to_path(path)
        called = source if name is None else name
        return outcome(cls._made(source, (called, unit, columns), options, _read_parquet))

    @classmethod
    def from_sql(
        cls,
        connection: object,
        query: str,
        *,
        unit: str | None,
        parameters: Parameters | None = None,
        name: str = "data",
        columns: Sequence[str] | None = None,
        **options: Unpack[UndeclaredOptions],
    ) -> Undeclared:
        """Read the rows of a query, over a connection as `PrivateData.from_sql` takes it.

        Parameters
        ----------
        connection, query, parameters
            As for `PrivateData.from_sql`.
        unit, name, columns, options
            As for `from_csv`.

        Raises
        ------
        DataError, InvalidArgument, MissingExtra
            As for `from_frame`; also if Ibis is needed and not installed.
        """
        public = name, unit, columns
        made = cls._made("the query", public, options, _read_query, connection, query, parameters)
        del connection, parameters
        return outcome(made)

    @classmethod
    def _made(
        cls,
        source: str,
        public: tuple[Any, ...],
        options: UndeclaredOptions,
        read: Callable[..., tuple[KeyedRows, int]],
        *given: object,
    ) -> Undeclared | BaseException:
        """Return a table of what is read, or the error to raise after the caller let go."""
        if unknown := options.keys() - UndeclaredOptions.__annotations__:
            return TypeError(f"got an unexpected keyword argument {min(unknown)!r}")

        def load() -> Undeclared:
            declared = _declared(*public, **options)
            with working(declared.bars, f"loading {declared.name}"):
                rows, count = read(declared, source, *given)
            return cls._keep(declared, source, rows, count)

        return attempt(source, load)

    @classmethod
    def _keep(cls, declared: _Declared, source: str, rows: KeyedRows, count: int) -> Undeclared:
        public, limit = declared.relation is Neighbors.REPLACE_ONE, declared.limit
        most = count if rows.persons is None else len(rows.persons.rows_of_each())
        if limit is not None and most > limit:
            what = "rows" if rows.persons is None else "persons"
            raise DataError(source, f"more than max_rows={limit} {what}; declare a larger max_rows")
        if public and not count:
            raise DataError(source, "no rows, where their number is public")
        self = cls.__new__(cls)
        self._name = declared.name
        self._facts = UndeclaredFacts(
            tuple(rows.columns),
            declared.relation,
            count if public else None,
            count if public or limit is None else limit,
            declared.unit,
            declared.unit is not None and declared.texts.strip,
            declared.missing_texts,
        )
        keep_rows(self, rows, self._facts)
        return self

    def __repr__(self) -> str:
        facts = self._facts
        count, person = len(facts.columns), facts.person
        who = "private rows"
        if facts.rows is not None:
            who = f"{facts.rows:,} row{'' if facts.rows == 1 else 's'}"
        if person is not None:
            who = f"private people by {person!r}"
        columns = f"{count} column{'' if count == 1 else 's'}"
        return f"Undeclared({self._name!r}, {facts.neighbors.value}, {who}, {columns})"


def _read_columns(
    declared: _Declared, source: str, columns: Mapping[str, Array | list[object]]
) -> tuple[KeyedRows, int]:
    try:
        held = [name for name in columns if isinstance(name, str)]
        whole = len(held) == len(columns)
    except Exception:  # noqa: BLE001  # its text may quote values
        whole, held = False, []
    if not whole or not held:
        raise DataError(source, "its columns have no names that can be read")
    return _of_columns(declared, source, held, lambda name: as_column(source, columns, name))


def _read_file(declared: _Declared, source: str) -> tuple[KeyedRows, int]:
    held = column_titles(source, declared.lines)
    names, person = _names(declared, source, held, " in the first line"), declared.person()
    readers = declared.readers(names)
    codes = read_delimited(
        source,
        declared.lines,
        readers if person is None else [*readers, person],
        limit=declared.limit if person is None else None,
    )
    columns = {
        reader.name: reader.column(code) for reader, code in zip(readers, codes, strict=False)
    }
    own = None if person is None else Persons(codes[-1], person.written)
    return KeyedRows(columns, declared.texts, own), len(codes[0])


def _read_parquet(declared: _Declared, source: str) -> tuple[KeyedRows, int]:
    require_narwhals()
    with explained(source):
        held = parquet_names(source)
    names = _names(declared, source, held)
    wanted = names if declared.unit is None else [*names, declared.unit]
    with explained(source):
        frame = parquet_frame(source, wanted)
    return _read_frame(declared, source, frame)


def _read_query(
    declared: _Declared, source: str, connection: object, query: str, given: Parameters | None
) -> tuple[KeyedRows, int]:
    require_narwhals()
    from dpsdk.data.sql import query_frame  # noqa: PLC0415  # loads a driver

    with ExitStack() as stack:
        with explained(source):
            frame = stack.enter_context(query_frame(connection, query, given))
        return _read_frame(declared, source, frame)


def _read_frame(declared: _Declared, source: str, frame: object) -> tuple[KeyedRows, int]:
    require_narwhals()
    from dpsdk.data.engine.table import (  # noqa: PLC0415  # needs narwhals
        columns_read,
        frame_names,
        open_table,
    )

    with explained(source):
        held = frame_names(frame, source)
    names = _names(declared, source, held)
    wanted = names if declared.unit is None else [*names, declared.unit]
    with explained(source):
        table = open_table(frame, wanted, source, whole=True)
    with hidden(source):
        read = columns_read(table.frame)

    def column(name: str) -> Column:
        values = read[name]
        if isinstance(values, list):
            array, _ = array_column(values)
            return Column(Kind.UNTYPED, array)
        return series_as_column(cast("Any", values))

    with hidden(source):
        return _of_columns(declared, source, wanted, column)


def _names(declared: _Declared, source: str, held: Sequence[str], where: str = "") -> list[str]:
    """Return the columns to read, each of which is there once, as the unit is."""
    names = declared.read(held)
    unit = [] if declared.unit is None else [declared.unit]
    require_columns(source, held, [*names, *unit], where)
    if not names:
        raise DataError(source, "no column with a name, beside that of a unit")
    return names


def _of_columns(
    declared: _Declared, source: str, held: Sequence[str], column: Callable[[str], Column]
) -> tuple[KeyedRows, int]:
    """Return the rows of columns, of which one after the other is held."""
    names, person = _names(declared, source, held), declared.person()
    columns: dict[str, KeyColumn] = {}
    numbers: Ints | None = None
    if person is not None:
        numbers = identifiers(person, column(person.name))
    lengths = set[int]() if numbers is None else {len(numbers)}
    for reader in declared.readers(names):
        columns[reader.name] = reader.column(reader.encode(column(reader.name)))
        lengths.add(len(columns[reader.name].codes))
        if len(lengths) > 1:
            raise DataError(source, f"column {reader.name!r} is not as long as the others")
    own = None if person is None or numbers is None else Persons(numbers, person.written)
    return KeyedRows(columns, declared.texts, own), lengths.pop()
