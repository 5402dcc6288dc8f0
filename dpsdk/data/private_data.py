"""The private table: declared by its owner, read once, and never shown again."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from os import PathLike, fspath
from pathlib import PurePath
from typing import Any, final

from dpsdk._checks import shown
from dpsdk._html import html_of, page, pairs
from dpsdk._records import shows_half_made
from dpsdk.data.counts import Counts
from dpsdk.data.declaration import Collect, Declaration, Outside
from dpsdk.data.delimited import FileFormat
from dpsdk.data.guard import Hidden, attempt, outcome
from dpsdk.data.readers import (
    Parameters,
    read_columns,
    read_counts,
    read_file,
    read_frame,
    read_parquet,
    read_query,
)
from dpsdk.data.texts import DateForms, TextFormat
from dpsdk.data.unit import PrivacyUnit
from dpsdk.data.vault import keep
from dpsdk.domain import Domain, Periods
from dpsdk.errors import DataError, InvalidArgument
from dpsdk.forms.facts import Facts, Neighbors
from dpsdk.progress import Bars, working
from dpsdk.typing import Array

__all__ = ["Collect", "Outside", "PrivateData", "display_name", "table_of", "to_path"]


@shows_half_made
@final
class PrivateData(Hidden):
    """A private table over a declared universe. Opens to a `Session`, and shows itself to nobody.

    Made by `from_columns`, `from_csv`, `from_frame`, `from_parquet`, `from_sql` or `from_counts`.
    Under the default relation, `Neighbors.REPLACE_ONE`, the number of rows is public; under
    `Neighbors.ADD_REMOVE` it is private and only `max_rows` is known of it.

    What is protected is one person, who has one row. Where people may have several and a column
    says whose each row is, `unit=PrivacyUnit(column, max_rows=m)` keeps at most m rows of each.
    Where no column does, `unit_rows` is how many rows a person has at the most. In both cases noise
    grows as many times, and all rows of a person are protected together. But `unit_rows` is your
    promise, never inferred and never checked: limit the rows of each person before loading. Who has
    more rows than that is protected less: a pure ε becomes ⌈m / k⌉ ε for somebody with m rows where
    k were declared.

    Rows outside the domain are kept, in one extra cell where every query is zero: dropping them
    would change the public row count by a private number. With `outside="apart"`, a missing or
    unmatched value has a cell in its own attribute instead, and no row is outside. See `Outside`
    for the choices.

    With `periods=Periods("visited", days=1)` a session's budget is one of each day, and what is
    protected is the row, or are a person's rows, of one day. The relation is then add-remove. A
    row that is outside the domain, in its time above all, which is never clipped, is left out. All
    this holds as long as each value of a row, its time above all, is a fact of that row (and of the
    person's rows of that day): a running number, a rank, a first visit or a bin by quantiles is
    made of other rows, and a load day that is stamped anew moves all rows to another period.

    >>> from dpsdk import Domain, Integer, PrivateData
    >>> domain = Domain(Integer("age", 17, 90))
    >>> PrivateData.from_columns({"age": [39, 50, 38, 53]}, domain, name="four people")
    PrivateData('four people', replace-one, 4 rows, 1 attribute)
    """

    __slots__ = ("__weakref__", "_facts", "_name", "_title")

    _facts: Facts
    _name: str
    _title: str

    def __init__(self) -> None:
        expected = "made by from_columns, from_csv, from_frame and others"
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
        """The name of the table in a ledger."""
        return self._name

    @classmethod
    def from_columns(
        cls,
        columns: Mapping[str, Array | list[object]],
        domain: Domain,
        *,
        name: str = "data",
        neighbors: Neighbors | None = None,
        outside: Outside = "cell",
        max_rows: int | None = None,
        unit_rows: int = 1,
        unit: PrivacyUnit | None = None,
        periods: Periods | None = None,
        strip: bool = False,
        decimal: str = ".",
        thousands: str | None = None,
        dates: DateForms = None,
        progress: bool = False,
    ) -> PrivateData:
        """Take in one array, list or series for each attribute; other columns are not looked at.

        The type of an array or series decides whether it can match its attribute at all; the
        values of a list or an object array are each taken by their own type.

        Parameters
        ----------
        columns
            Values by the name of their attribute, all of one length. Masked values are missing.
        domain, name, neighbors, outside, max_rows, unit_rows
            What is public of the table, as the class and `Outside` say.
        unit
            Whom the table protects, where a column says whose each row is; see `PrivacyUnit`. The
            relation is then add-remove, and `max_rows` bounds the rows that are kept.
        periods
            The periods of time that a session's budget renews by, as the class says.
        strip, decimal, thousands
            How to read values that are texts: without the white space around them, with this
            character before the decimals ("." or ","), and with this one between groups of three
            digits. Texts are otherwise taken as they are.
        dates
            How days and times are written in texts, as for `datetime.strptime`: "%d.%m.%Y", say, or
            a mapping of such forms by the name of an attribute. Without one, they are read in ISO
            8601: 2024-03-31 or 2024-03-31T23:59.
        progress
            Whether a bar on standard error tells for how long it lasts, and of a text file how many
            rows were read, where their number is public. Needs the extra `progress`.

        Raises
        ------
        DataError
            If a column is missing, of another length or of a type that cannot match its attribute,
            if there are more than `max_rows` rows, or no row where the number of rows is public.
            With a unit, also if its column is missing or of a type that tells no persons apart.
        InvalidArgument
            If another argument is not as expected.
        """
        made = cls._made(
            "the columns",
            (domain, name, neighbors, outside, max_rows, unit_rows, unit, periods),
            (strip, decimal, thousands, dates),
            read_columns,
            columns,
            progress=progress,
        )
        # The traceback of an error must not carry the values.
        del columns
        return outcome(made)

    @classmethod
    def from_csv(
        cls,
        path: str | PathLike[str],
        domain: Domain,
        *,
        name: str | None = None,
        neighbors: Neighbors | None = None,
        outside: Outside = "cell",
        max_rows: int | None = None,
        unit_rows: int = 1,
        unit: PrivacyUnit | None = None,
        periods: Periods | None = None,
        header: Sequence[str] | None = None,
        delimiter: str = ",",
        encoding: str = "utf-8",
        strip: bool = False,
        decimal: str = ".",
        thousands: str | None = None,
        dates: DateForms = None,
        progress: bool = False,
    ) -> PrivateData:
        """Read a text file: the first line names the columns, every other line is one row.

        What a line holds decides about its own row only. A quoted field ends within its line, and
        a line is one row outside the domain if its quotes do not close, if it has more fields than
        the first line, or if it is longer than 1 MiB. A blank line is a row of missing values, and
        so is what a line with too few fields lacks. Bytes that cannot be decoded match nothing.
        Where attributes have cells of their own for such values, a line that cannot be cut is in
        the cells for other values, or in those for missing ones where there is no other.

        A path that ends with .gz is read through gzip. A byte order mark is skipped.

        Parameters
        ----------
        path
            The file.
        domain, neighbors, outside, max_rows, unit_rows
            What is public of the table, as the class and `Outside` say.
        name
            What a ledger knows the table by; the path unless given, of which only the end is shown.
        unit, periods
            As for `from_columns`. A line whose form hides its identifier is nobody's.
        header
            The names of the columns, where the file has none. Its first line then is a row.
        delimiter, encoding
            The character between fields, and how the text is encoded: any encoding in which a line
            feed is the byte 10, or UTF-16.
        strip, decimal, thousands, dates, progress
            As for `from_columns`; `strip` holds for the first line and around quotes, too.

        Raises
        ------
        DataError
            As for `from_columns`, and if the file cannot be read or its first line names a column
            twice.
        InvalidArgument
            If another argument is not as expected.
        """
        source = to_path(path)
        called = source if name is None else name
        # The file is read inside, so no frame of this call ever holds a value.
        made = cls._made(
            source,
            (domain, called, neighbors, outside, max_rows, unit_rows, unit, periods),
            (strip, decimal, thousands, dates),
            read_file,
            lines=(delimiter, encoding, header),
            progress=progress,
        )
        return outcome(made)

    @classmethod
    def from_frame(
        cls,
        frame: object,
        domain: Domain,
        *,
        name: str = "data",
        neighbors: Neighbors | None = None,
        outside: Outside = "cell",
        max_rows: int | None = None,
        unit_rows: int = 1,
        unit: PrivacyUnit | None = None,
        periods: Periods | None = None,
        strip: bool = False,
        decimal: str = ".",
        thousands: str | None = None,
        dates: DateForms = None,
        collect: Collect = "histogram",
        progress: bool = False,
    ) -> PrivateData:
        """Count the rows of a frame of any library that narwhals reads.

        A lazy frame, a relation of DuckDB, a table of Ibis or a frame of Spark is counted by its
        engine, in one scan with one group-by, and only the counts of distinct keys come back.
        Nulls are missing values, and every engine gives the same cells. Texts are told
        apart by all their characters, whatever the collation of a column, by DuckDB, PostgreSQL,
        SQLite and Spark. Needs the extra `frames`.

        Parameters
        ----------
        frame
            The table. It must not change while it is read.
        domain, name, neighbors, outside, max_rows, unit_rows, unit, periods, strip, decimal, \
thousands, dates
            As for `from_columns`.
        collect
            What comes back from the engine, as `Collect` says: all cells that are not empty, or
            later each marginal table that a query touches, where there are too many cells for one
            histogram.
        progress
            As for `from_columns`.

        Raises
        ------
        DataError
            As for `from_columns`, and if narwhals does not know the object.
        InvalidArgument
            If another argument is not as expected, or no snapshot is taken of such a frame.
        MissingExtra
            If narwhals is not installed.
        """
        made = cls._made(
            "the frame",
            (domain, name, neighbors, outside, max_rows, unit_rows, unit, periods),
            (strip, decimal, thousands, dates),
            read_frame,
            frame,
            collect=collect,
            progress=progress,
        )
        del frame
        return outcome(made)

    @classmethod
    def from_parquet(
        cls,
        path: str | PathLike[str],
        domain: Domain,
        *,
        name: str | None = None,
        neighbors: Neighbors | None = None,
        outside: Outside = "cell",
        max_rows: int | None = None,
        unit_rows: int = 1,
        unit: PrivacyUnit | None = None,
        periods: Periods | None = None,
        strip: bool = False,
        decimal: str = ".",
        thousands: str | None = None,
        dates: DateForms = None,
        collect: Collect = "histogram",
        progress: bool = False,
    ) -> PrivateData:
        """Read Parquet files, through Polars, or else DuckDB, or else pyarrow.

        Parameters
        ----------
        path
            A file, a directory, of which all files *.parquet are read, or a pattern such as
            "2024/*.parquet". All files have the columns that are read, of one type; integers may
            differ in width. A folder such as "sex=Female" gives its files a column of texts.
        name
            What a ledger knows the table by; the path unless given, of which only the end is shown.
        domain, neighbors, outside, max_rows, unit_rows, unit, periods, strip, decimal, \
thousands, collect, progress
            As for `from_frame`.

        Raises
        ------
        DataError
            As for `from_frame`, and if there is no such file.
        InvalidArgument
            If another argument is not as expected.
        MissingExtra
            If narwhals, or all three of the libraries, are not installed.
        """
        source = to_path(path)
        called = source if name is None else name
        made = cls._made(
            source,
            (domain, called, neighbors, outside, max_rows, unit_rows, unit, periods),
            (strip, decimal, thousands, dates),
            read_parquet,
            collect=collect,
            progress=progress,
        )
        return outcome(made)

    @classmethod
    def from_sql(
        cls,
        connection: object,
        query: str,
        domain: Domain,
        *,
        parameters: Parameters | None = None,
        name: str = "data",
        neighbors: Neighbors | None = None,
        outside: Outside = "cell",
        max_rows: int | None = None,
        unit_rows: int = 1,
        unit: PrivacyUnit | None = None,
        periods: Periods | None = None,
        strip: bool = False,
        decimal: str = ".",
        thousands: str | None = None,
        dates: DateForms = None,
        collect: Collect = "histogram",
        progress: bool = False,
    ) -> PrivateData:
        """Count the rows of a query, inside its database.

        The connection is left as it was lent, with its transaction and settings.

        Parameters
        ----------
        connection
            Of DuckDB, a SparkSession (also of Spark Connect), an Ibis backend, or a connection of
            sqlite3 or psycopg, which need Ibis.
        query
            In the connection's SQL. It is yours and counts as public; never build it from text of
            strangers.
        parameters
            Values for the query's placeholders, for DuckDB and Spark.
        domain, name, neighbors, outside, max_rows, unit_rows, unit, periods, strip, decimal, \
thousands, collect, progress
            As for `from_frame`.

        Raises
        ------
        DataError
            As for `from_frame`.
        InvalidArgument
            If another argument is not as expected.
        MissingExtra
            If narwhals, or Ibis where it is needed, is not installed.
        """
        made = cls._made(
            "the query",
            (domain, name, neighbors, outside, max_rows, unit_rows, unit, periods),
            (strip, decimal, thousands, dates),
            read_query,
            connection,
            query,
            parameters,
            collect=collect,
            progress=progress,
        )
        del connection, parameters
        return outcome(made)

    @classmethod
    def from_counts(
        cls,
        counts: Array | list[int],
        domain: Domain,
        *,
        outside_rows: int = 0,
        name: str = "data",
        neighbors: Neighbors | None = None,
        max_rows: int | None = None,
        unit_rows: int = 1,
        periods: Periods | None = None,
    ) -> PrivateData:
        """Take in a histogram: the number of rows in each cell, flat or shaped like the domain.

        `outside_rows` rows are in the extra cell outside the domain. Counts do not say whose a row
        is, so there is no `unit`: bound the rows of each person before counting, and declare
        `unit_rows`.

        Raises
        ------
        DataError
            If the array does not have one whole number, zero or more, for each cell.
        InvalidArgument
            If another argument is not as expected.
        """
        made = cls._made(
            "the counts",
            (domain, name, neighbors, "cell", max_rows, unit_rows, None, periods),
            (),
            read_counts,
            counts,
            outside_rows,
        )
        del counts, outside_rows
        return outcome(made)

    @classmethod
    def _made(
        cls,
        source: str,
        public: tuple[Any, ...],
        texts: tuple[Any, ...],
        read: Callable[..., Counts],
        *given: object,
        lines: tuple[Any, ...] = (),
        collect: Collect = "histogram",
        progress: bool = False,
    ) -> PrivateData | BaseException:
        """Return a table of what is read, or the error to raise after the caller let go."""

        def load() -> PrivateData:
            text_format = TextFormat(*texts)
            declared = Declaration(
                *public,
                texts=text_format,
                lines=FileFormat(*lines, strip=text_format.strip),
                collect=collect,
                bars=Bars.of(progress),
            )
            with working(declared.bars, f"loading {_titled(declared.name, source)}"):
                return cls._keep(read(declared, source, *given), declared, source)

        return attempt(source, load)

    @classmethod
    def _keep(cls, counts: Counts, declared: Declaration, source: str) -> PrivateData:
        rows = counts.rows
        if declared.limit is not None and rows > declared.limit:
            reason = f"more than max_rows={declared.limit} rows; declare a larger max_rows"
            raise DataError(source, reason)
        if rows == 0 and declared.has_public_rows:
            raise DataError(source, "no rows, where their number is public")
        title = _titled(declared.name, source)
        return cls._of_counts(counts, declared.facts(rows), declared.name, title)

    @classmethod
    def _of_counts(cls, counts: Counts, facts: Facts, name: str, title: str) -> PrivateData:
        self = cls.__new__(cls)
        self._name, self._facts, self._title = name, facts, title
        keep(self, counts, facts)
        return self

    def _repr_html_(self) -> str:
        """Return the HTML that a notebook shows: public facts. Reads nothing."""
        facts = self._facts
        told: list[tuple[str, object]] = [
            ("rows", "private" if facts.rows is None else f"{facts.rows:,}"),
            ("neighbours", self.neighbors.value),
            ("protects", facts.unit),
        ]
        return page(f"PrivateData {self._title!r}", pairs(told), html_of(self.domain))

    def __repr__(self) -> str:
        rows = "private" if self._facts.rows is None else f"{self._facts.rows:,}"
        count, most, person = len(self.domain.names), self._facts.unit_rows, self._facts.person
        unit = f"up to {most:,} rows a person, " if most > 1 else ""
        if person is not None:
            rows = "private people and"
            unit = f"up to {most:,} row{'s' if most > 1 else ''} a person by {person!r}, "
        return (
            f"PrivateData({self._title!r}, {self.neighbors.value}, {unit}{rows} rows, "
            f"{count} attribute{'s' if count > 1 else ''})"
        )


def display_name(data: PrivateData) -> str:
    """The name of a table as it is shown: without the folder of the file that it is called by."""
    return data._title  # pyright: ignore[reportPrivateUsage]  # of this module


def table_of(counts: Counts, facts: Facts, whole: PrivateData, label: str) -> PrivateData:
    """Return some rows of a table as one of its own, whose name ends with a label."""
    name, title = f"{whole.name}{label}", f"{display_name(whole)}{label}"
    return PrivateData._of_counts(counts, facts, name, title)  # pyright: ignore[reportPrivateUsage]


def to_path(path: str | PathLike[str]) -> str:
    """A path as a text."""
    try:
        text = fspath(path)
    except TypeError:
        raise InvalidArgument("path", "a path", shown(path)) from None
    if not isinstance(text, str):
        raise InvalidArgument("path", "a path that is a text", shown(path))
    return str(text)


def _titled(name: str, source: str) -> str:
    """Return what is shown of a table's name: of one that is a path, what the path ends with."""
    return PurePath(name).name or name if name == source else name
