"""Files of tables: what they are called, and what their columns hold."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Literal, TypeAlias

from dpsdk._checks import shown, to_flag, to_name
from dpsdk._records import field, frozen
from dpsdk.errors import InvalidArgument

__all__ = ["Number", "TableFile", "file_names"]

Number: TypeAlias = Literal["value", "low", "high", "beta", "joint", "error", "moved"]
"""The meaning of a column of numbers; `TableFile` explains each."""

_NUMBERS: tuple[Number, ...] = ("value", "low", "high", "beta", "joint", "error", "moved")


def file_names(tables: Sequence[Sequence[str]]) -> list[str]:
    """A name for each table that any file system takes: numbered, of few characters."""
    digits = len(str(len(tables)))
    names: list[str] = []
    for number, attributes in enumerate(tables, start=1):
        words = [re.sub(r"[^A-Za-z0-9]+", "-", name).strip("-") for name in attributes]
        label = "_".join(filter(None, words))[:80]
        names.append(f"{number:0{digits}d}_{label}.csv" if label else f"{number:0{digits}d}.csv")
    return names


def _to_numbers(value: Iterable[Number] | None) -> tuple[Number, ...] | None:
    if value is None:
        return None
    expected = f"some of {', '.join(_NUMBERS)}, each once"
    kept = tuple(value) if isinstance(value, Iterable) and not isinstance(value, str) else ()
    # Of texts alone, whose hashes and equality nobody else has written.
    if not kept or any(type(one) is not str for one in kept):
        raise InvalidArgument("numbers", expected, shown(value))
    if len(set(kept)) < len(kept) or not set(kept) <= set(_NUMBERS):
        raise InvalidArgument("numbers", expected, shown(value))
    return kept


def _to_header(value: Iterable[str] | None) -> tuple[str, ...] | None:
    if value is None:
        return None
    if isinstance(value, str) or not isinstance(value, Iterable):
        raise InvalidArgument("header", "a sequence of texts", shown(value))
    kept = tuple(value)
    if any(type(one) is not str for one in kept) or len(set(kept)) < len(kept):
        raise InvalidArgument("header", "texts that differ", shown(kept))
    return kept


def _to_path(value: str) -> str:
    path = to_name("path", value)
    # A description that reaches out of its folder is refused by those who read it.
    if path.startswith(("/", "~")) or "\\" in path or ":" in path or ".." in path.split("/"):
        expected = "a relative path with / that stays in its folder"
        raise InvalidArgument("path", expected, shown(path))
    return path


def _to_guards(value: bool) -> bool:  # noqa: FBT001  # a reader of a parameter
    return to_flag("guards", value)


def _to_joint(value: bool) -> bool:  # noqa: FBT001  # a reader of a parameter
    return to_flag("joint", value)


def _to_delimiter(value: str) -> str:
    if type(value) is not str or len(value) != 1 or value in '"\r\n':
        raise InvalidArgument("delimiter", "a single character that is no quote", shown(value))
    return value


@frozen
class TableFile:
    """A file that holds a table of a release, as it is to be described.

    Its first columns are those of the labels.

    Parameters
    ----------
    path
        Where the file is, from where its description is.
    numbers
        What the columns after the labels hold: "value"; "low" and "high", between which the truth
        lies; "beta", the probability that it does not; "joint", whether that is for all entries at
        once; "error", how far off any value of the table may be; "moved", by how much the most
        moved value was. As `PublishedTable.to_csv` writes them, if left out.
    header
        What the columns are called in the first line, if not as `PublishedTable.columns` has it.
    delimiter
        What stands between cells.
    guards
        Whether labels that begin like formulas have an apostrophe before them, as `guarded` says.
    joint
        Whether low and high are of all entries of the release at once, or of each by itself.

    Raises
    ------
    InvalidArgument
        Names the parameter that is not what it should be.
    """

    path: str = field(converter=_to_path)
    numbers: tuple[Number, ...] | None = field(default=None, converter=_to_numbers)
    header: tuple[str, ...] | None = field(default=None, converter=_to_header)
    delimiter: str = field(default=",", converter=_to_delimiter)
    guards: bool = field(default=True, converter=_to_guards)
    joint: bool = field(default=True, converter=_to_joint)

    @property
    def parquet(self) -> bool:
        """True if it is a file of Apache Parquet, by its name. Otherwise it is CSV."""
        return self.path.lower().endswith(".parquet")
