"""Files of tables: what they are called, what their columns hold, and how cells are spelled."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Literal, TypeAlias, cast

import numpy as np

from dpsdk._checks import read_decimal, shown, to_flag, to_name
from dpsdk._frames import spelled
from dpsdk._records import Attribute as Field
from dpsdk._records import field, frozen
from dpsdk.domain import Attribute, Integer
from dpsdk.errors import InvalidArgument
from dpsdk.typing import Floats

__all__ = [
    "Number",
    "TableFile",
    "file_names",
    "guarded",
    "label_cells",
    "quoted",
    "spellings",
    "texts_of",
]

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
    kept = tuple(value) if isinstance(value, Iterable) and not isinstance(value, str) else ()
    # Of texts alone, whose equality nobody else has written.
    known = [one for one in kept if type(one) is str and one in _NUMBERS]
    if not kept or len(set(known)) < len(kept):
        expected = f"some of {', '.join(_NUMBERS)}, each once"
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


def _is_flag(_: object, of: Field[bool], value: bool) -> None:  # noqa: FBT001  # read
    to_flag(of.name, value)


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
    guards: bool = field(default=True, validator=_is_flag)
    joint: bool = field(default=True, validator=_is_flag)

    @property
    def parquet(self) -> bool:
        """True if it is a file of Apache Parquet, by its name. Otherwise it is CSV."""
        return self.path.lower().endswith(".parquet")


_FORMULAS = ("=", "+", "-", "@", "\t", "\r", "\n", "\uff1d", "\uff0b", "\uff0d", "\uff20")
"""How a text begins that some spreadsheet runs, full-width signs included."""


def guarded(label: str) -> str:
    """Return a label as a spreadsheet may show it, without running it as a formula.

    One that starts like a formula, and is no plain number, gets an apostrophe before it. So does
    one that starts with an apostrophe: who drops one leading apostrophe has the label again.
    """
    if label.startswith(("'", *_FORMULAS)) and read_decimal(label) is None:
        return f"'{label}"
    return label


def spellings(values: Floats, spell: Callable[[float], str] = spelled) -> list[str]:
    """Spell each of many numbers."""
    # Noise is on a lattice: of a million numbers few differ. By bits, as a nought may be -0.0.
    bits, places = np.unique(values.view(np.int64), return_inverse=True)
    texts = np.array(list(map(spell, bits.view(np.float64).tolist())), dtype=object)
    return cast("list[str]", texts[places].tolist())


def quoted(text: str) -> str:
    """Return a text in quotes, in which neither a semicolon nor a line break ends it."""
    return '"' + text.replace('"', '""') + '"'


def label_cells(attributes: Sequence[Attribute]) -> Iterator[str]:
    """Return the labels of all cells in C order, as they are written in a file."""
    return map(",".join, itertools.product(*map(_own_cells, attributes)))


def _own_cells(attribute: Attribute) -> list[str]:
    if isinstance(attribute, Integer) and attribute.low >= 0 and not attribute.extras:
        # There may be very many of them, and none begins like a formula.
        return [f'"{label}"' for label in range(attribute.low, attribute.high + 1)]
    return [quoted(guarded(text)) for text in texts_of(attribute)]


def texts_of(attribute: Attribute) -> list[str]:
    """Return all labels of an attribute as texts."""
    return [attribute.text(index) for index in range(attribute.size)]
