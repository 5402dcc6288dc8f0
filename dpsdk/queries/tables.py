"""Tables of numbers, one for each combination of labels of a few attributes."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from typing import ClassVar

import numpy as np

from dpsdk._arrays import Lasting, frozen_copy, same_numbers
from dpsdk._checks import shown
from dpsdk._frames import Column, FrameLibrary, Rows, rows_of, to_frame
from dpsdk._html import brief_of, html_of, lined_up, number_text, page, said
from dpsdk._html import table as html_table
from dpsdk._records import cmp_using, field, frozen
from dpsdk.domain import Attribute, Domain
from dpsdk.domain.columns import label_columns
from dpsdk.errors import InvalidArgument
from dpsdk.queries.conditions import index_of, listed
from dpsdk.typing import Array, Floats, Label

__all__ = ["LabelledTable", "axes_of", "in_order", "to_values"]

_OTHER_NAME = "another name than the attributes have"


def to_values(values: Array) -> Floats:
    """Read numbers into an array that stays as it is."""
    try:
        result = np.array(values, dtype=np.float64)
    except (TypeError, ValueError):
        raise InvalidArgument("values", "an array of numbers", shown(values)) from None
    return frozen_copy(result)


def axes_of(names: Sequence[str], domain: Domain) -> tuple[Attribute, ...]:
    """The attributes of a table, one an axis."""
    return tuple([domain[name] for name in names])


def in_order(numbers: Floats, names: Sequence[str], domain: Domain) -> Floats:
    """Numbers of all cells, which follow the domain, with one axis an attribute as named."""
    followed = sorted(names, key=domain.position)
    shaped = numbers.reshape([domain[name].size for name in followed])
    return shaped.transpose([followed.index(name) for name in names])


@frozen(repr=False)
class LabelledTable(Lasting):
    """Numbers for every combination of the labels of a few attributes.

    `values` has one axis an attribute. `table[label, ...]` is one number, as a float.
    """

    attributes: tuple[Attribute, ...]
    values: Floats = field(converter=to_values, eq=cmp_using(eq=same_numbers), hash=False)

    def __attrs_post_init__(self) -> None:
        shape = tuple(attribute.size for attribute in self.attributes)
        if self.values.shape != shape:
            raise InvalidArgument("values", f"of shape {shape}", f"shape {self.values.shape}")

    @property
    def names(self) -> tuple[str, ...]:
        """The attributes' names, one an axis."""
        return tuple(attribute.name for attribute in self.attributes)

    # Integer labels would otherwise make a table look like a sequence.
    __iter__: ClassVar[None] = None

    def __getitem__(self, labels: Label | tuple[Label, ...]) -> float:
        wanted = self._labels(labels)
        pairs = zip(self.attributes, wanted, strict=True)
        return float(self.values[tuple(index_of(attribute, label) for attribute, label in pairs)])

    def _labels(self, labels: Label | tuple[Label, ...]) -> tuple[Label, ...]:
        # The label of a bin is itself a pair, so a table of one attribute is asked first.
        if len(self.attributes) == 1 and not (isinstance(labels, tuple) and len(labels) == 1):
            return (labels,)  # type: ignore[return-value]  # anything else is an unknown label
        if not isinstance(labels, tuple) or len(labels) != len(self.attributes):
            expected = f"one for each of {', '.join(self.names)}"
            raise InvalidArgument("labels", expected, shown(labels))
        return labels

    def to_dict(self) -> dict[tuple[Label, ...], float]:
        """Every combination of labels with its number."""
        labels = itertools.product(*(attribute.labels for attribute in self.attributes))
        return dict(zip(labels, self.values.ravel().tolist(), strict=True))

    def to_columns(self, value: str = "value") -> dict[str, list[str] | list[float]]:
        """One column of labels as text for each attribute, and one, named `value`, of numbers."""
        texts = [
            [attribute.text(index) for index in range(attribute.size)]
            for attribute in self.attributes
        ]
        rows = list(itertools.product(*texts))
        columns: dict[str, list[str] | list[float]] = {
            name: [row[axis] for row in rows] for axis, name in enumerate(self.names)
        }
        for name, numbers in self._named(value).items():
            columns[name] = numbers.ravel().tolist()
        return columns

    def to_frame(
        self,
        backend: FrameLibrary = "polars",
        value: str = "value",
    ) -> object:
        """The same columns as a data frame of a library of your choice, through narwhals.

        Labels that are whole numbers, truth values or dates are such in a frame. `MissingExtra` if
        narwhals, which the extra `frames` installs, or that library itself is missing.
        """
        columns: dict[str, Column] = dict(rows_of(self).labels)
        for name, numbers in self._named(value).items():
            columns[name] = Column(numbers.ravel().tolist(), "number")
        return to_frame(columns, backend)

    def _named(self, value: str = "value") -> Mapping[str, Floats]:
        """The numbers of each cell, by what their columns are called."""
        columns = self._columns(value)
        for name in columns:
            if name in self.names:
                raise InvalidArgument("value", _OTHER_NAME, shown(name))
        return columns

    def _columns(self, value: str) -> dict[str, Floats]:
        return {value: self.values}

    def _repr_html_(self) -> str:
        """Return the HTML that a notebook shows."""
        return page(f"Table of {listed(self.names, len(self.names))}", html_of(self))

    def _shown(self, beside: Mapping[str, Floats] | None = None) -> Iterator[list[str]]:
        """The labels and the numbers of each entry, and some beside it, as texts."""
        columns = [*self._columns("value").values(), *(beside or {}).values()]
        for cell in np.ndindex(self.values.shape):
            labels = [a.text(index) for a, index in zip(self.attributes, cell, strict=True)]
            yield [*labels, *[number_text(float(numbers[cell])) for numbers in columns]]

    @property
    def _header(self) -> list[str]:
        return [*self.names, *self._columns("value")]

    @property
    def _remark(self) -> str:
        """What is said below the numbers, empty for nothing."""
        return ""

    def __repr__(self) -> str:
        return self.text()

    def text(self, beside: Mapping[str, Floats] | None = None) -> str:
        """The first entries as lines of text, with other numbers of each beside it."""
        header = [*self._header, *(beside or {})]
        rows = list(itertools.islice(self._shown(beside), 12))
        more = self.values.size - len(rows)
        rest = [f"... {more:,} more"] if more else []
        return "\n".join(
            [*lined_up([header, *rows]), *rest, *([self._remark] if self._remark else [])]
        )


@brief_of.register
def _brief_of_table(table: LabelledTable, /) -> str:
    return f"table of {listed(table.names, len(table.names))}, {table.values.size:,} numbers"


@html_of.register
def _html_of_table(table: LabelledTable, /) -> str:
    remark = table._remark  # pyright: ignore[reportPrivateUsage]  # of this module
    below = f"<p>{said(remark)}</p>" if remark else ""
    rows = table._shown()  # pyright: ignore[reportPrivateUsage]  # of this module
    header = table._header  # pyright: ignore[reportPrivateUsage]  # of this module
    numbers = len(header) - len(table.names)
    return f"{html_table(header, rows, table.values.size, numbers=numbers)}{below}"


@rows_of.register
def _rows_of_table(table: LabelledTable, /) -> Rows:
    return Rows(table.values.ravel().tolist(), labels=label_columns(table.attributes))
