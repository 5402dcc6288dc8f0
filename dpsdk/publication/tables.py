"""A release as tables: columns of labels, of values, and of what is known of their errors."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from typing import Literal, TypeAlias, cast

import numpy as np

from dpsdk._frames import ColumnKind, Rows, kind_of, rows_of, spelled
from dpsdk._records import evolve, frozen
from dpsdk.accounting.numbers import confidence
from dpsdk.domain import Attribute, Boolean, Date, Integer
from dpsdk.domain.columns import label_kind
from dpsdk.errors import InvalidArgument, NoBound
from dpsdk.forms import Facts
from dpsdk.publication.files import (
    Number,
    TableFile,
    guarded,
    label_cells,
    quoted,
    spellings,
    texts_of,
)
from dpsdk.queries import Answers, Model
from dpsdk.queries.tables import LabelledTable
from dpsdk.release import Release
from dpsdk.wire.answers import Part, in_own_unit, parts_of

__all__ = ["Column", "PublishedTable", "tables_of"]

_OWN_KINDS: dict[Number, ColumnKind] = {
    "beta": "number",
    "joint": "truth",
    "error": "number",
    "moved": "number",
}

Holds: TypeAlias = Literal["label", Number]

_Ends: TypeAlias = tuple[Sequence[object], Sequence[object]]
"""Lower and upper ends of values."""

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
    _values: Sequence[object]
    _bounds: _Ends | None
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


def _cells(values: Sequence[object]) -> list[str]:
    if kind_of(values) == "number" and None not in values:
        return spellings(np.array(values, dtype=np.float64))
    return list(map(spelled, values))


def _guarded(column: Column) -> Column:
    labels = None if column.labels is None else tuple(map(guarded, column.labels))
    return evolve(column, name=guarded(column.name), labels=labels)


@frozen(eq=False)
class _Leaf:
    """One answer of a release, which is no sequence of answers, with its interval if it has one."""

    title: str
    value: object
    rows: Rows
    bounds: _Ends | None

    @property
    def scalar(self) -> bool:
        """True if it is one number, truth or day, or none."""
        return not self.rows.own and not self.rows.labels


def tables_of(release: Release[object], beta: float) -> tuple[PublishedTable, ...]:
    """Return the tables of a release: one of all answers that are no tables, one of each that is.

    In the order of the answers; that of the plain ones is where the first of them is.
    """
    moved = release.moved
    low = high = None
    with suppress(NoBound):
        low, high = release.interval(beta)
    asked = release.asked, release.raw
    leaves = list(_leaves(release.query, release.value, low, high, asked, release.facts))
    scalars = [leaf for leaf in leaves if leaf.scalar]
    found: list[PublishedTable] = []
    for leaf in leaves:
        if not leaf.scalar:
            found.append(_single(leaf, beta, moved))
        elif leaf is scalars[0]:
            found.append(_answers(release.query, scalars, beta, moved))
    return tuple(found)


def _leaves(
    title: str, value: object, low: object, high: object, of: Part, facts: Facts
) -> Iterator[_Leaf]:
    if not isinstance(value, Answers):
        try:
            rows = rows_of(value)
        except InvalidArgument:  # of another author's class, the numbers that it was made of
            yield _Leaf(title, value, rows_of(in_own_unit(*of, facts)), None)
        else:
            yield _Leaf(title, value, rows, _bounds(value, rows, low, high))
        return
    answers = cast("Answers[object]", value)
    asked: Sequence[object] = answers.queries or [None] * len(answers)
    lows, highs = _inner(low, len(answers)), _inner(high, len(answers))
    parts = parts_of(*of, facts, len(answers))
    for one, item, below, above, part in zip(asked, answers.items, lows, highs, parts, strict=True):
        words = "" if one is None else repr(one)[:_LONGEST_TITLE]
        yield from _leaves(words, item, below, above, part, facts)


def _inner(end: object, count: int) -> Sequence[object]:
    if isinstance(end, Answers):
        items = cast("Answers[object]", end).items
        if len(items) == count:
            return items
    return [None] * count


def _bounds(value: object, rows: Rows, low: object, high: object) -> _Ends | None:
    """Return the rows of the ends of an interval, where they are of answers like this one."""
    if low is None or high is None or isinstance(value, Model):
        return None
    try:
        below, above = rows_of(low), rows_of(high)
    except InvalidArgument:  # another author's class
        return None
    for end in (below, above):
        if end.own.keys() != rows.own.keys() or len(end.values) != len(rows.values):
            return None
        if not (rows.own or rows.labels) and kind_of(rows.values, end.values) == "text":
            return None
    return below.values, above.values


def _single(leaf: _Leaf, beta: float, moved: float) -> PublishedTable:
    columns, cells, words = _labelled(leaf)
    title = leaf.title or f"Marginal({', '.join(map(repr, words))})"
    values = leaf.rows.values
    return PublishedTable(
        title, words or (title,), columns, cells, values, leaf.bounds, beta, moved, kind_of(values)
    )


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
    values = tuple([leaf.rows.values[0] for leaf in leaves])
    bounds = None
    if any(leaf.bounds is not None for leaf in leaves):
        ends = [leaf.bounds or ((None,), (None,)) for leaf in leaves]
        bounds = (tuple([low[0] for low, _ in ends]), tuple([high[0] for _, high in ends]))
    kind = kind_of(values, *(bounds or ()))
    texts = partial(iter, list(map(",".join, zip(*cells, strict=True))))
    words = (title,) if len(leaves) == 1 else ("answers",)
    return PublishedTable(title, words, tuple(columns), texts, values, bounds, beta, moved, kind)


_Labelled: TypeAlias = tuple[tuple[Column, ...], Callable[[], Iterator[str]], tuple[str, ...]]


def _labelled(leaf: _Leaf) -> _Labelled:
    """Return the columns of labels of an answer, their cells by row, and names of what it is of."""
    value, rows = leaf.value, leaf.rows
    if isinstance(value, LabelledTable):
        columns = tuple(map(_of_attribute, value.attributes))
        return columns, partial(label_cells, value.attributes), value.names
    if "coefficient" in rows.own:
        names = tuple(map(str, rows.own["coefficient"].values))
        says = "Whose coefficient it is, or that it is the intercept."
        named = Column("coefficient", "label", "text", says, labels=names)
        return (named,), partial(iter, [quoted(guarded(one)) for one in names]), ()
    count = len(rows.values)
    says = "Which entry it is, from 0, in C order."
    entry = Column("entry", "label", "integer", says, 0, max(count - 1, 0))
    return (entry,), partial(map, str, range(count)), ()


def _of_attribute(attribute: Attribute) -> Column:
    kind, says = label_kind(attribute), f"A label of {attribute.name}."
    if kind == "time":
        says = "An hour, by the time at which it begins."
    elif isinstance(attribute, Date):
        says = f"A {attribute.unit}, by the day on which it begins."
    if attribute.extras:
        says = f"{says[:-1]}; or {' or '.join(one.value for one in attribute.extras)}."
    column = Column(attribute.name, "label", kind, says)
    if isinstance(attribute, Date | Boolean) and not attribute.extras:
        return column
    if isinstance(attribute, Integer) and not attribute.extras:
        whole = kind == "integer"
        return evolve(column, least=attribute.low, most=attribute.high) if whole else column
    texts = tuple(texts_of(attribute))
    return evolve(column, labels=texts, empty="" in texts)
