"""Public tables: what calibrations are made of."""

from __future__ import annotations

import csv
import gzip
import io
import zlib
from collections.abc import Mapping
from os import PathLike, fspath
from pathlib import Path
from typing import Self

import numpy as np
from attrs import field, frozen

from dpsdk._checks import shown, to_name
from dpsdk.data import PrivateData
from dpsdk.data.delimited import FileFormat
from dpsdk.data.take import read_codes
from dpsdk.domain import Domain
from dpsdk.errors import DataError, InvalidArgument
from dpsdk.forms import LinearForm, Neighbors
from dpsdk.hypothesis import SyntheticData
from dpsdk.typing import Array, Floats

__all__ = ["PublicTable"]

_WRITTEN = 2**22
"""Up to so many cells a table is handed over as counts, above as columns."""

_EXPECTED = "a table that is public: columns, a frame, or SyntheticData"


def _to_records(value: SyntheticData) -> SyntheticData:
    # Exactly this class: nothing that is private, and no session, may pass for one.
    if type(value) is not SyntheticData:
        raise InvalidArgument("table", _EXPECTED, type(value).__name__)
    return value


def _readable(value: object) -> bool:
    return isinstance(value, Mapping) or hasattr(value, "columns")


def _name(value: str) -> str:
    return to_name("name", value)


@frozen(repr=False)
class PublicTable:
    """A table that everybody may know, whose records are looked at and measured without protection.

    Calibrate on tables that were published before, such as census samples. What is made of one
    depends on its records, and nothing hides them.

    Parameters
    ----------
    records
        The records inside the domain.
    name
        What it is called in the file that is made of it.

    Raises
    ------
    InvalidArgument
        If it is given anything else, a `PrivateData` or a `Session` above all.
    """

    records: SyntheticData = field(converter=_to_records)
    name: str = field(default="table", converter=_name)

    @classmethod
    def from_counts(cls, counts: Array, domain: Domain, *, name: str = "table") -> Self:
        """The number of rows in each cell, flat or shaped like the domain."""
        if not isinstance(counts, np.ndarray | list):
            raise InvalidArgument("counts", "an array of whole numbers", type(counts).__name__)
        return cls(SyntheticData.from_counts(domain, np.asarray(counts)), name)

    @classmethod
    def from_columns(cls, columns: object, domain: Domain, *, name: str = "table") -> Self:
        """A mapping of names to arrays or lists, or a frame. Rows outside the domain are dropped.

        Raises
        ------
        InvalidArgument
            If it is private.
        DataError
            If a column is missing, nothing can be read from it, or no row lies in the domain.
        """
        if not isinstance(domain, Domain):
            raise InvalidArgument("domain", "a domain", shown(domain))
        if not _readable(columns):
            raise InvalidArgument("table", _EXPECTED, type(columns).__name__)
        codes = read_codes(columns, domain.attributes)
        stacked = np.stack([codes[attribute] for attribute in domain.names], axis=1)
        inside = stacked[(stacked >= 0).all(axis=1)]
        if not len(inside):
            raise DataError(name, "no row of it lies inside the domain")
        return cls(SyntheticData(domain, inside), name)

    @classmethod
    def from_csv(
        cls,
        path: str | PathLike[str],
        domain: Domain,
        *,
        delimiter: str = ",",
        encoding: str = "utf-8",
    ) -> Self:
        """A text file, .csv or .csv.gz, whose first line names the columns.

        Raises
        ------
        DataError
            If there is no such file, or it is no such table.
        InvalidArgument
            If the delimiter is not one character, or there is no such encoding.
        """
        place = Path(fspath(path))
        wanted = FileFormat(delimiter, encoding, strip=False, limit=None, complete=False)
        try:
            content = place.read_bytes()
            if place.suffix == ".gz":
                content = gzip.decompress(content)
            text = content.decode(wanted.encoding).removeprefix("\ufeff")
            lines = csv.reader(io.StringIO(text), delimiter=wanted.delimiter)
            header, *rows = [line for line in lines if line]
        except (gzip.BadGzipFile, zlib.error, EOFError):
            raise DataError(str(place), "is not a whole gzip file") from None
        except OSError as error:
            raise DataError(str(place), f"cannot be read: {error.strerror}") from None
        except (csv.Error, ValueError):
            raise DataError(str(place), "no table of text in this encoding") from None
        full = [row for row in rows if len(row) == len(header)]
        columns = {title: [row[at] for row in full] for at, title in enumerate(header)}
        name = place.name.removesuffix(".gz").removesuffix(".csv") or "table"
        return cls.from_columns(columns, domain, name=name)

    @property
    def domain(self) -> Domain:
        """The universe of its records."""
        return self.records.domain

    @property
    def rows(self) -> int:
        """How many records there are."""
        return self.records.rows

    def projected(self, *names: str) -> PublicTable:
        """Some of its columns, in this order."""
        if not names:
            raise InvalidArgument("names", "at least one attribute", "none")
        places = [self.domain.position(name) for name in names]
        codes = self.records.codes[:, places]
        called = f"{self.name}: {', '.join(names)}"
        found = SyntheticData(self.domain.project(names), codes, self.records.multiplicities)
        return PublicTable(found, called)

    def as_if_private(self, neighbors: Neighbors) -> PrivateData:
        """The same records, taken in as a private table would be."""
        name, domain = "public", self.domain
        if domain.size <= _WRITTEN:
            counts = self.records.counts(*domain.names)
            return PrivateData.from_counts(
                counts, domain, name=name, neighbors=neighbors, max_rows=2**30
            )
        columns = {title: list[object](one) for title, one in self.records.to_columns().items()}
        return PrivateData.from_columns(
            columns, domain, name=name, neighbors=neighbors, max_rows=2**30
        )

    def answers(self, form: LinearForm) -> Floats:
        """The true numbers of a form, in rows."""
        return self.records.answers(form) * self.rows

    def __repr__(self) -> str:
        return f"PublicTable({self.name!r}, {self.rows:,} rows, {self.domain!r})"
