"""The metadata of a release: all that its written form says, its tables, and its descriptions."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from functools import cached_property
from typing import cast

from dpsdk import wire
from dpsdk._checks import shown, to_beta
from dpsdk._records import field, fields, frozen
from dpsdk.errors import InvalidArgument, WireError
from dpsdk.forms import Facts, Form
from dpsdk.publication.about import About
from dpsdk.publication.described import Described
from dpsdk.publication.descriptors import csvw_of, datapackage_of
from dpsdk.publication.files import TableFile, file_names
from dpsdk.publication.registry import registry_of
from dpsdk.publication.statement import Statement
from dpsdk.publication.tables import PublishedTable, tables_of
from dpsdk.queries import (
    Answers,
    Conjunction,
    Count,
    Interval,
    Marginal,
    Query,
    Rectangles,
    Threshold,
    Workload,
)
from dpsdk.release import Release
from dpsdk.wire import Catalogue, ReleaseRecord

__all__ = ["Metadata"]

_NOTHING = About()
_MOST_NUMBERS = 2**20


@frozen(kw_only=True, repr=False)
class Metadata(ReleaseRecord):
    """The description of a release, for its publisher and its readers.

    It has every field of `wire.ReleaseRecord`, with the same meaning. `Release.metadata` makes it,
    of the release alone: it costs nothing and reads no private data. Two are equal if their fields
    are.
    """

    _release: Release[object] = field(eq=False, alias="release")

    @classmethod
    def of(
        cls,
        release: Release[object],
        *,
        question: Query[object, Form] | None = None,
        beta: float = 0.05,
        allow: Catalogue | None = None,
    ) -> Metadata:
        """The metadata of a release, of arguments as `ReleaseRecord.of` takes them."""
        record = ReleaseRecord.of(release, question=question, beta=to_beta(beta), allow=allow)
        known = {one.name: getattr(record, one.name) for one in fields(ReleaseRecord)}
        return cls(**known, release=release)

    @property
    def record(self) -> ReleaseRecord:
        """The written form alone, as `wire` takes it."""
        return ReleaseRecord(**{one.name: getattr(self, one.name) for one in fields(ReleaseRecord)})

    @property
    def facts(self) -> Facts:
        """The public facts about the table."""
        return self._release.facts

    @cached_property
    def tables(self) -> tuple[PublishedTable, ...]:
        """The release as tables, each of which can be written as CSV.

        One of all its answers that are no tables themselves, and one of each that is.
        """
        return tables_of(self._release, self.joint.beta)

    @property
    def files(self) -> tuple[TableFile, ...]:
        """Files for these tables, of names that any file system takes."""
        return _to_files((), self.tables)

    def to_json(self) -> str:
        """The written form of the release, which `wire.loads` reads as a "release".

        Raises
        ------
        WireError
            If it has none: if it is too large, or has half of a surrogate pair in it.
        """
        return wire.dumps(self.record)

    def to_registry(self, about: About = _NOTHING, *, notes: Iterable[str] = ()) -> Described:
        """A record for the public registry of deployments of differential privacy.

        By its schema of July 2026, https://github.com/opendp/deployments-registry-data. Privacy
        parameters are those that all releases on the budget keep together, rounded up; a release
        that is not private, or does not say who paid, has none.

        Parameters
        ----------
        about
            What you know of it.
        notes
            What was done to the values since, as that they were rounded.

        Raises
        ------
        InvalidArgument
            If `about` has a detail or a sector that the registry does not have.
        """
        return registry_of(self._statement, _to_about(about), _to_notes(notes))

    def to_csvw(
        self,
        *files: str | TableFile,
        about: About = _NOTHING,
        notes: Iterable[str] = (),
    ) -> Described:
        """Describe the tables by CSV on the Web: a table's description, or a group of them.

        By the W3C's "Metadata Vocabulary for Tabular Data" of 2015. It belongs beside the files, as
        "<name of the file>-metadata.json", or "csv-metadata.json" of several.

        Parameters
        ----------
        files
            The file of each table, in their order, or the path of one; `files` if left out.
        about
            What you know of it.
        notes
            What else a reader should be told, as of what was done to the values since.

        Raises
        ------
        InvalidArgument
            If there are not as many files as tables, one of them is no CSV, or an argument is
            another than it should be.
        """
        made, told = self._described(files, notes)
        return csvw_of(self._statement, self.tables, made, _to_about(about), told)

    def to_datapackage(
        self,
        *files: str | TableFile,
        about: About = _NOTHING,
        notes: Iterable[str] = (),
    ) -> Described:
        """The descriptor of a data package with a resource for each table, "datapackage.json".

        By the Data Package standard, in the words that its versions 1 and 2 share. Parameters as
        for `to_csvw`; files may be CSV or Parquet.

        Raises
        ------
        InvalidArgument
            As `to_csvw`, but of files of Parquet.
        """
        made, told = self._described(files, notes)
        return datapackage_of(self._statement, self.tables, made, _to_about(about), told)

    def _described(
        self, files: tuple[str | TableFile, ...], notes: Iterable[str]
    ) -> tuple[tuple[TableFile, ...], tuple[str, ...]]:
        """Check files and notes, and say first what the numbers count, where that is known."""
        made, told = _to_files(files, self.tables), _to_notes(notes)
        unit = _unit_of(self._release.asked)
        if not unit:
            return made, told
        held = {
            number
            for table, file in zip(self.tables, made, strict=True)
            for number in file.numbers or table.numbers
        }
        words = {"error": "errors", "low": "bounds"}
        named = " and ".join(["Values", *(words[one] for one in words if one in held)])
        return made, (f"{named} are {unit}.", *told)

    @cached_property
    def _statement(self) -> Statement:
        digest = None
        # Larger ones have no written form, and are not to be written out to find that out.
        if self._release.raw.size <= _MOST_NUMBERS:
            with suppress(WireError):
                digest = wire.digest(self.record)
        value = self._release.value
        queries = cast("Answers[object]", value).queries if isinstance(value, Answers) else None
        asked = tuple([repr(query)[:300] for query in queries or ()])
        return Statement(self.record, self.facts, digest, asked)

    def __repr__(self) -> str:
        return repr(self._statement)


_COUNTING = Conjunction, Count, Interval, Marginal, Rectangles, Threshold
"""Queries whose answers are shares of the rows, or counts of them."""


def _unit_of(asked: object) -> str:
    """Return what all answers to a query are; empty if not known, or not the same of all."""
    found: set[str] = set()
    left = [asked]
    while left and "" not in found and len(found) < 2:
        one = left.pop()
        if isinstance(one, Workload):
            left += cast("Workload[object]", one).queries
        elif isinstance(one, _COUNTING):
            among = " with a value" if isinstance(one, Interval | Threshold) and one.known else ""
            found.add(f"shares of the rows{among}" if one.normalized else "numbers of rows")
        else:
            found.add("")
    return found.pop() if len(found) == 1 else ""


def _to_files(
    files: tuple[str | TableFile, ...], tables: tuple[PublishedTable, ...]
) -> tuple[TableFile, ...]:
    if not files:
        return tuple([TableFile(name) for name in file_names([table.words for table in tables])])
    made = tuple([one if isinstance(one, TableFile) else TableFile(one) for one in files])
    count = len(tables)
    if len(made) != count:
        raise InvalidArgument("files", f"{count:,}, one for each table", f"{len(made):,}")
    if len({one.path for one in made}) < count:
        raise InvalidArgument("files", "different paths", shown([one.path for one in made]))
    return made


def _to_about(value: About) -> About:
    if not isinstance(value, About):
        raise InvalidArgument("about", "an About", shown(value))
    return value


def _to_notes(value: Iterable[str]) -> tuple[str, ...]:
    listed = isinstance(value, Iterable) and not isinstance(value, str)
    kept: tuple[object, ...] = tuple(value) if listed else (None,)
    for one in kept:
        if type(one) is not str:
            raise InvalidArgument("notes", "a sequence of texts", shown(one if listed else value))
    return cast("tuple[str, ...]", kept)
