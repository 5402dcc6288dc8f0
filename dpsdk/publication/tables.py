"""A release as tables: columns of labels, of values, and of what is known of their errors."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from typing import Literal, TypeAlias, cast

import numpy as np

from dpsdk._frames import ColumnKind, kind_of, spelled
from dpsdk._records import evolve, frozen
from dpsdk.accounting.numbers import confidence
from dpsdk.domain import Attribute, Boolean, Date, Integer
from dpsdk.domain.columns import label_kind
from dpsdk.errors import InvalidArgument, NoBound
from dpsdk.publication.cells import guarded, label_cells, quoted, spellings, texts_of
from dpsdk.publication.files import Number, TableFile
from dpsdk.queries import Answers, MarginalTable
from dpsdk.release import Release
from dpsdk.typing import Array, Floats
from dpsdk.wire import ReleasedAnswer

__all__ = ["Column", "PublishedTable", "tables_of"]

_OWN_KINDS: dict[Number, ColumnKind] = {
    "beta": "number",
    "joint": "truth",
    "error": "number",
    "moved": "number",
}

Holds: TypeAlias = Literal["label", Number]

_Numbers: TypeAlias = Floats | tuple[object, ...]

_LONGEST_TITLE = 300
"""Of a thousand weights the first are shown."""


@frozen
class Column:
    """A column of a published table.

    Parameters
    ----------
    name
        What stands in the first line.
    holds
        "label", or which number; `TableFile` says what each of them means.
    kind
        What a cell is a spelling of: a "text", an "integer", a "number", a "truth", a "day", or a
        "time", which has no zone. In a frame of the release the column is of that kind, too.
    says
        What is in it, for readers.
    least, most
        Between which integers all cells are.
    labels
        All that may stand in it, where these are texts, or integers that do not follow one another.
    empty
        Whether a cell may be empty.
    """

    name: str
    holds: Holds
    kind: ColumnKind
    says: str
    least: int | None = None
    most: int | None = None
    labels: tuple[str, ...] | None = None
    empty: bool = False


@frozen(repr=False, eq=False)
class PublishedTable:
    """One table of a release: labels in the first columns, then what was released of them.

    Made of the release alone. A number is a table of one row, the answers of a workload of numbers
    are a table of a row each.

    Parameters
    ----------
    title
        What it is a table of.
    words
        What it is called by, in a name of a file.
    """

    title: str
    words: tuple[str, ...]
    _labels: tuple[Column, ...]
    _rows: Callable[[], Iterator[str]]
    _values: _Numbers
    _bounds: tuple[_Numbers, _Numbers] | None
    _beta: float
    _moved: float
    _of: ColumnKind

    def __len__(self) -> int:
        return len(self._values)

    @property
    def bounded(self) -> bool:
        """True if an interval is known of the values."""
        return self._bounds is not None

    @property
    def keyed(self) -> bool:
        """True if the labels tell the rows apart."""
        return bool(self._labels) and not any(
            column.empty or len(set(column.labels or ())) < len(column.labels or ())
            for column in self._labels
        )

    @property
    def numbers(self) -> tuple[Number, ...]:
        """The numbers that `to_csv` writes after the labels."""
        moved: tuple[Number, ...] = ("moved",) if self._moved else ()
        bounds: tuple[Number, ...] = ("low", "high", "beta", "joint") if self.bounded else ()
        return ("value", *bounds, *moved)

    @property
    def columns(self) -> tuple[Column, ...]:
        """The columns of what `to_csv` writes."""
        return self.described(TableFile("table.csv"))

    def described(self, file: TableFile) -> tuple[Column, ...]:
        """The columns of a file of the table.

        Raises
        ------
        InvalidArgument
            If the file's header has another number of names.
        """
        numbers, header = file.numbers or self.numbers, file.header
        taken = {column.name for column in self._labels}
        suffix = ""
        while any(f"{number}{suffix}" in taken for number in numbers):
            suffix += " of the table"
        columns = [_guarded(column) if file.guards else column for column in self._labels]
        columns += [self._number(number, f"{number}{suffix}", file) for number in numbers]
        if header is None:
            return tuple(columns)
        if len(header) != len(columns):
            expected = f"{len(columns)} names, as there are labels and numbers"
            raise InvalidArgument("header", expected, f"{len(header):,}")
        return tuple([evolve(one, name=name) for one, name in zip(columns, header, strict=True)])

    def _number(self, number: Number, name: str, file: TableFile) -> Column:
        kind = _OWN_KINDS.get(number, self._of)
        chance = confidence(self._beta)
        which = "all true values of the release at once are" if file.joint else "the true value is"
        says = {
            "value": "What was released.",
            "low": f"With probability {chance}, {which} between low and high.",
            "high": "The other end of the interval that begins with low.",
            "beta": "The probability at the most that this is not so.",
            "joint": "Whether the intervals hold for all entries of the release at once.",
            "error": f"With probability {chance}, no value of the table is off by more than this.",
            "moved": "By how much the value moved most was moved, to be possible, at the most.",
        }[number]
        return Column(name, number, kind, says, empty=number in ("value", "low", "high"))

    def to_csv(self) -> str:
        """The table as CSV: UTF-8, texts in quotes, lines that end in a line feed.

        Cells are spelled as `spelled` and `guarded` say.
        """
        columns = map(_cells, [self._values, *(self._bounds or ())])
        more = [] if self._bounds is None else [spelled(self._beta), "true"]
        if self._moved:
            more.append(spelled(self._moved))
        end = "".join([*(f",{cell}" for cell in more), "\n"])
        header = ",".join([quoted(column.name) for column in self.columns])
        rows = zip(self._rows(), *columns, strict=True)
        return "".join([f"{header}\n", *(f"{','.join(row)}{end}" for row in rows)])

    def __repr__(self) -> str:
        names = ", ".join(column.name for column in self.columns)
        return f"PublishedTable({self.title}, {len(self):,} rows: {names})"


def _cells(numbers: _Numbers) -> list[str]:
    return spellings(numbers) if isinstance(numbers, np.ndarray) else list(map(spelled, numbers))


def _guarded(column: Column) -> Column:
    labels = None if column.labels is None else tuple(map(guarded, column.labels))
    return evolve(column, name=guarded(column.name), labels=labels)


@frozen(eq=False)
class _Leaf:
    """One answer of a release, which is no sequence of answers, with its interval if it has one."""

    title: str
    value: object
    plain: ReleasedAnswer
    values: _Numbers
    bounds: tuple[_Numbers, _Numbers] | None

    @property
    def scalar(self) -> bool:
        """True if it is one number, truth or day, or none."""
        return self.plain.stands_for in ("number", "truth", "day", "nothing")


def tables_of(release: Release[object], beta: float) -> tuple[PublishedTable, ...]:
    """Return the tables of a release: one of all answers that are no tables, one of each that is.

    In the order of the answers; that of the plain ones is where the first of them is.
    """
    raw, moved = release.raw, release.moved
    low = high = None
    with suppress(NoBound):
        low, high = release.interval(beta)
    leaves = list(_leaves(release.query, release.value, low, high, raw))
    scalars = [leaf for leaf in leaves if leaf.scalar]
    found: list[PublishedTable] = []
    for leaf in leaves:
        if not leaf.scalar:
            found.append(_single(leaf, beta, moved))
        elif leaf is scalars[0]:
            found.append(_answers(release.query, scalars, beta, moved))
    return tuple(found)


def _leaves(title: str, value: object, low: object, high: object, raw: Floats) -> Iterator[_Leaf]:
    if not isinstance(value, Answers):
        plain = ReleasedAnswer.of(value, raw)
        ends = _end(plain, low, raw), _end(plain, high, raw)
        bounds = None if ends[0] is None or ends[1] is None else (ends[0], ends[1])
        yield _Leaf(title, value, plain, _values(value, plain), bounds)
        return
    answers = cast("Answers[object]", value)
    asked: Sequence[object] = answers.queries or [None] * len(answers)
    lows, highs = _inner(low, len(answers)), _inner(high, len(answers))
    for one, item, below, above in zip(asked, answers.items, lows, highs, strict=True):
        words = "" if one is None else repr(one)[:_LONGEST_TITLE]
        yield from _leaves(words, item, below, above, raw)


def _inner(end: object, count: int) -> Sequence[object]:
    if isinstance(end, Answers):
        items = cast("Answers[object]", end).items
        if len(items) == count:
            return items
    return [None] * count


def _end(plain: ReleasedAnswer, end: object, raw: Floats) -> _Numbers | None:
    """Return the numbers of an end of an interval, if it is one of such an answer."""
    if end is None or plain.stands_for in ("model", "other"):
        return None
    found = ReleasedAnswer.of(end, raw)
    alike = (found.stands_for, found.shape) == (plain.stands_for, plain.shape)
    if plain.stands_for == "nothing":  # of a median that is nowhere it is known where it may be
        alike = found.stands_for in ("number", "truth", "day")
    return _values(end, found) if alike else None


def _values(value: object, plain: ReleasedAnswer) -> _Numbers:
    match plain.stands_for:
        case "nothing":
            return (None,)
        case "day":
            return (value,)
        case "truth":
            return (bool(plain.numbers[0]),)
        case "number":
            return (float(plain.numbers[0]),)
        case "numbers" if cast("Array", value).dtype.kind == "b":
            return tuple(map(bool, plain.numbers.tolist()))
        case "model":  # after the coefficients and the intercept is what is known of its excess
            return plain.numbers[:-1]
        case _:
            return plain.numbers


def _single(leaf: _Leaf, beta: float, moved: float) -> PublishedTable:
    columns, rows, words = _labelled(leaf)
    title = leaf.title or f"Marginal({', '.join(map(repr, words))})"
    names, values = words or (title,), leaf.values
    kind = "number" if isinstance(values, np.ndarray) else kind_of(values)
    return PublishedTable(title, names, columns, rows, values, leaf.bounds, beta, moved, kind)


def _answers(title: str, leaves: list[_Leaf], beta: float, moved: float) -> PublishedTable:
    """Return a table with a row for each answer that is a single one."""
    titles = tuple([leaf.title for leaf in leaves])
    columns: list[Column] = []
    cells: list[list[str]] = []
    if len(set(titles)) < len(titles) or not all(titles):
        columns.append(Column("number", "label", "integer", "Which answer it is.", 1, len(leaves)))
        cells.append([str(place + 1) for place in range(len(leaves))])
    if all(titles):
        listed = tuple(dict.fromkeys(titles))
        columns.append(Column("query", "label", "text", "What was asked.", labels=listed))
        cells.append([quoted(guarded(name)) for name in titles])
    values = tuple([leaf.values[0] for leaf in leaves])
    known = [leaf.bounds for leaf in leaves]
    bounds = None
    if any(one is not None for one in known):
        ends = [((None,), (None,)) if one is None else one for one in known]
        bounds = (tuple([low[0] for low, _ in ends]), tuple([high[0] for _, high in ends]))
    kind = kind_of(values, *(bounds or ()))
    texts = list(map(",".join, zip(*cells, strict=True)))
    rows = partial(iter, texts)
    words = (title,) if len(leaves) == 1 else ("answers",)
    return PublishedTable(title, words, tuple(columns), rows, values, bounds, beta, moved, kind)


_Labelled: TypeAlias = tuple[tuple[Column, ...], Callable[[], Iterator[str]], tuple[str, ...]]


def _labelled(leaf: _Leaf) -> _Labelled:
    """Return the columns of labels of an answer, their cells by row, and names of what it is of."""
    value, plain = leaf.value, leaf.plain
    if isinstance(value, MarginalTable):
        columns = tuple(map(_of_attribute, value.attributes))
        return columns, partial(label_cells, value.attributes), value.names
    if plain.stands_for == "model":
        names = (*plain.names, "intercept")
        says = "Whose coefficient it is, or that it is the intercept."
        named = Column("coefficient", "label", "text", says, labels=names)
        return (named,), partial(iter, [quoted(guarded(one)) for one in names]), ()
    count = len(plain.numbers)
    says = "Which entry it is, from 0, in C order."
    entry = Column("entry", "label", "integer", says, 0, max(count - 1, 0))
    return (entry,), partial(map, str, range(count)), ()


def _of_attribute(attribute: Attribute) -> Column:
    kind, says = label_kind(attribute), f"A label of {attribute.name}."
    if kind == "time":
        says = "An hour, by the time at which it begins."
    elif isinstance(attribute, Date):
        says = f"A {attribute.unit}, by the day on which it begins."
    column = Column(attribute.name, "label", kind, says)
    if isinstance(attribute, Date | Boolean):
        return column
    if isinstance(attribute, Integer):
        whole = kind == "integer"
        return evolve(column, least=attribute.low, most=attribute.high) if whole else column
    texts = tuple(texts_of(attribute))
    return evolve(column, labels=texts, empty="" in texts)
