"""The records of a frame: counted at once, or held by its engine for later questions."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol, TypeVar

import narwhals.stable.v2 as nw
from attrs import frozen

from dpsdk.data.engine.bounded import Protected, kept_of_persons
from dpsdk.data.engine.coded import coded
from dpsdk.data.engine.grouped import groups
from dpsdk.data.engine.keys import Key, keys_of
from dpsdk.data.engine.pushed import Pushed, pushed_of_codes
from dpsdk.data.engine.table import opened
from dpsdk.data.frames import UNREADABLE, kind_of_dtype
from dpsdk.data.matching import Matcher
from dpsdk.errors import DpsdkError
from dpsdk.typing import Floats, Ints

__all__ = ["groups_of_frame", "pushed_of_frame"]

T = TypeVar("T")


class _Records(Protocol):
    """Rows as cell numbers along each attribute. Private."""

    def groups(self) -> tuple[Mapping[str, Ints], Floats]:
        """The distinct records, outside ones among them, and how many rows each has."""
        ...

    def table(self) -> nw.LazyFrame[Any]:
        """A table of them, one row each, as `coded` makes it."""
        ...


@frozen(eq=False, repr=False)
class _AllRows:
    """Those of every row of a table."""

    opened: nw.LazyFrame[Any]
    keys: Sequence[Key]

    def groups(self) -> tuple[Mapping[str, Ints], Floats]:
        return groups(self.opened, self.keys)

    def table(self) -> nw.LazyFrame[Any]:
        return coded(self.opened, self.keys)


def groups_of_frame(
    frame: object, matchers: Sequence[Matcher], protected: Protected | None = None
) -> tuple[Mapping[str, Ints], Floats] | str:
    """The cells of the rows, and how many rows each has; or what is wrong with the frame.

    Of errors, only those of this package are raised, since others may quote values.

    Parameters
    ----------
    frame
        Of any library.
    matchers
        What reads its columns.
    protected
        Whose rows are kept, and how many; None where all are.
    """
    return _read(frame, matchers, protected, lambda records: records.groups())


def pushed_of_frame(
    frame: object, matchers: Sequence[Matcher], protected: Protected | None = None
) -> Pushed | str:
    """The same rows in a snapshot, for their engine to count when they are asked for.

    Raises
    ------
    InvalidArgument
        If the engine of the frame can hold no snapshot.
    """
    return _read(
        frame, matchers, protected, lambda records: pushed_of_codes(records.table(), matchers)
    )


def _read(
    frame: object,
    matchers: Sequence[Matcher],
    protected: Protected | None,
    work: Callable[[_Records], T],
) -> T | str:
    try:
        records = _records(frame, matchers, protected)
        return records if isinstance(records, str) else work(records)
    except DpsdkError:
        raise
    except Exception:  # noqa: BLE001  # its text may quote values
        return UNREADABLE


def _records(
    frame: object, matchers: Sequence[Matcher], protected: Protected | None
) -> _Records | str:
    columns = [matcher.name for matcher in matchers]
    person = None if protected is None else protected.person
    if person is not None and person.name not in columns:
        columns.append(person.name)
    table = opened(frame, columns)
    if isinstance(table, str):
        return table
    if person is not None:
        kind = kind_of_dtype(table.collect_schema()[person.name])
        if kind is not None and (problem := person.mismatch(kind)):
            return problem
    keys = keys_of(table, matchers)
    if isinstance(keys, str):
        return keys
    return _AllRows(table, keys) if protected is None else kept_of_persons(table, keys, protected)
