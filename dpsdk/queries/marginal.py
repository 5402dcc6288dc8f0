"""Marginal tables: the histogram of a few attributes."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from typing import ClassVar

import numpy as np

from dpsdk._arrays import Lasting, frozen_copy, same_numbers
from dpsdk._checks import shown, to_integer
from dpsdk._frames import Column, FrameLibrary, Rows, rows_of, to_frame
from dpsdk._html import brief_of, html_of, number_text, page, said
from dpsdk._html import table as html_table
from dpsdk._records import cmp_using, field, frozen
from dpsdk.accuracy import Constrained, Constraint
from dpsdk.codec import NAME, ListOf, written
from dpsdk.domain import Attribute, Domain
from dpsdk.domain.columns import label_columns
from dpsdk.errors import InvalidArgument, UnknownAttribute
from dpsdk.forms import Factor, Facts, Identity, LinearForm
from dpsdk.queries.base import to_flag, to_normalized
from dpsdk.queries.conditions import index_of, listed
from dpsdk.queries.conjunction import COUNTED, ConditionedCounting, Where, masked, to_where
from dpsdk.queries.linear import to_names
from dpsdk.queries.order import on_labels
from dpsdk.queries.workload import Workload
from dpsdk.queries.written import KNOWN
from dpsdk.typing import Array, Floats, Label

__all__ = ["Marginal", "MarginalTable", "marginals"]


_OTHER_NAME = "another name than the attributes have"


def _to_values(values: Array) -> Floats:
    try:
        result = np.array(values, dtype=np.float64)
    except (TypeError, ValueError):
        raise InvalidArgument("values", "an array of numbers", shown(values)) from None
    return frozen_copy(result)


def _to_moved(value: float) -> float:
    # Not a number is at least nought neither.
    if not isinstance(value, int | float) or not value >= 0:
        raise InvalidArgument("moved", "a number of at least 0", shown(value))
    return float(value)


@frozen(repr=False)
class MarginalTable(Lasting):
    """Numbers for every combination of the labels of a few attributes.

    `values` has one axis an attribute. `table[label, ...]` is one number, as a float. `moved` says
    by how much the most moved number was moved by `nonnegative`, and is nought otherwise.
    """

    attributes: tuple[Attribute, ...]
    values: Floats = field(converter=_to_values, eq=cmp_using(eq=same_numbers), hash=False)
    moved: float = field(default=0.0, converter=_to_moved, eq=False, kw_only=True)

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

    def total(self) -> float:
        """The sum of all numbers."""
        return float(self.values.sum())

    def nonnegative(self) -> MarginalTable:
        """The same table with nought in place of what is below it.

        Free. If the numbers are counts or shares of rows, none is farther from the truth than it
        was, so all error bounds of its release hold for it. `moved` says how far it was moved.
        """
        below = -float(np.fmin.reduce(self.values, axis=None, initial=0.0))
        moved = max(self.moved, below)
        return MarginalTable(self.attributes, np.maximum(self.values, 0.0), moved=moved)

    def project(self, *names: str) -> MarginalTable:
        """The table of some of the attributes, in the order given: the others are summed out.

        That of one that was `moved` was moved by so much times the numbers in a sum, at the most.
        """
        wanted = to_names(names)
        for name in wanted:
            if name not in self.names:
                raise UnknownAttribute(name, self.names)
        axes = [self.names.index(name) for name in wanted]
        rest = tuple(axis for axis in range(len(self.names)) if axis not in axes)
        kept = sorted(axes)
        summed = self.values.sum(axis=rest).transpose([kept.index(axis) for axis in axes])
        moved = self.moved * (self.values.size // max(summed.size, 1))
        return MarginalTable(tuple(self.attributes[axis] for axis in axes), summed, moved=moved)

    def to_dict(self) -> dict[tuple[Label, ...], float]:
        """Every combination of labels with its number."""
        labels = itertools.product(*(attribute.labels for attribute in self.attributes))
        return dict(zip(labels, self.values.ravel().tolist(), strict=True))

    def to_columns(self, value: str = "value") -> dict[str, list[str] | list[float]]:
        """One column of labels as text for each attribute, and one, named `value`, of numbers."""
        if value in self.names:
            raise InvalidArgument("value", _OTHER_NAME, shown(value))
        texts = [
            [attribute.text(index) for index in range(attribute.size)]
            for attribute in self.attributes
        ]
        rows = list(itertools.product(*texts))
        columns: dict[str, list[str] | list[float]] = {
            name: [row[axis] for row in rows] for axis, name in enumerate(self.names)
        }
        columns[value] = self.values.ravel().tolist()
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
        rows = rows_of(self)
        if value in self.names:
            raise InvalidArgument("value", _OTHER_NAME, shown(value))
        return to_frame({**rows.labels, value: Column(rows.values, "number")}, backend)

    def _repr_html_(self) -> str:
        """Return the HTML that a notebook shows."""
        return page(f"Table of {listed(self.names, len(self.names))}", html_of(self))

    def _shown(self) -> Iterator[list[str]]:
        """The labels and the number of each entry, as texts."""
        for cell in np.ndindex(self.values.shape):
            labels = [a.text(index) for a, index in zip(self.attributes, cell, strict=True)]
            yield [*labels, number_text(float(self.values[cell]))]

    @property
    def _was_moved(self) -> str:
        return f"moved by up to {self.moved:.4g}, for none to be negative" if self.moved else ""

    def __repr__(self) -> str:
        header = [*self.names, "value"]
        rows = list(itertools.islice(self._shown(), 12))
        widths = [max(len(line[i]) for line in [header, *rows]) for i in range(len(header))]
        lines = [
            "  ".join(text.ljust(width) for text, width in zip(line, widths, strict=True)).rstrip()
            for line in [header, *rows]
        ]
        more = self.values.size - len(rows)
        rest = [f"... {more:,} more"] if more else []
        return "\n".join([*lines, *rest, *([self._was_moved] if self.moved else [])])


@brief_of.register
def _brief_of_table(table: MarginalTable, /) -> str:
    return f"table of {listed(table.names, len(table.names))}, {table.values.size:,} numbers"


@html_of.register
def _html_of_table(table: MarginalTable, /) -> str:
    header = [*table.names, "value"]
    moved = f"<p>{said(table._was_moved)}</p>" if table.moved else ""  # pyright: ignore[reportPrivateUsage]  # of this module
    rows = table._shown()  # pyright: ignore[reportPrivateUsage]  # of this module
    return f"{html_table(header, rows, table.values.size, numbers=1)}{moved}"


@rows_of.register
def _rows_of_table(table: MarginalTable, /) -> Rows:
    return Rows(table.values.ravel().tolist(), labels=label_columns(table.attributes))


def _marginal(
    attributes: Sequence[str],
    *,
    where: Where = None,
    normalized: bool = True,
    known: bool = False,
) -> Marginal:
    return Marginal(*to_names(attributes), where=where, normalized=normalized, known=known)


@written(
    "query.marginal", {"attributes": ListOf(NAME, least=1), **COUNTED, **KNOWN}, take=_marginal
)
@frozen(init=False, repr=False)
class Marginal(ConditionedCounting[MarginalTable]):
    """The share of rows at every combination of labels of a few attributes; a `MarginalTable`.

    Its entries are disjoint, so one row moves two of them under replace-one neighbours and one
    under add-remove, however many there are.

    The attributes may also come as one list. Where they have cells for missing values and for
    others, the table has rows of these, too, so that its shares are of all rows; `known=True`
    leaves these out, and shares stay those of all rows.

    >>> from dpsdk.queries import Marginal
    >>> Marginal("sex", "income", where={"age": range(17, 30)})
    Marginal('sex', 'income', where=Conjunction({'age': range(17, 30)}))
    """

    attributes: tuple[str, ...]
    known: bool = False

    def __init__(
        self,
        *attributes: str | Sequence[str],
        where: Where = None,
        normalized: bool = True,
        known: bool = False,
    ) -> None:
        first = attributes[0] if attributes else ()
        names = first if len(attributes) == 1 and isinstance(first, list | tuple) else attributes
        object.__setattr__(self, "attributes", to_names(names))
        object.__setattr__(self, "where", to_where(where))
        object.__setattr__(self, "normalized", to_normalized(normalized))
        object.__setattr__(self, "known", to_flag("known", known))

    def lower(self, domain: Domain, /) -> LinearForm:
        factors: dict[str, Factor] = {}
        for name in self.attributes:
            attribute = domain[name]
            if self.known:
                factors[name] = on_labels(attribute, Identity(attribute.known))
            else:
                factors[name] = Identity(attribute.size)
        return LinearForm(domain, (masked(factors, self.where, domain),))

    def _domain(self, facts: Facts) -> Domain:
        """The universe whose cells the table has."""
        return facts.domain.closed() if self.known else facts.domain

    def lift(self, raw: Floats, facts: Facts, /) -> MarginalTable:
        domain = self._domain(facts)
        axes = tuple(domain[name] for name in self.attributes)
        return MarginalTable(axes, self._ordered(raw, facts) * self.scale(facts))

    def numbers(self, raw: Floats, facts: Facts, /) -> Floats:
        return self._ordered(raw, facts).reshape(-1) * self.scale(facts)

    def constrained(
        self, constraint: Constraint, raw: Floats, facts: Facts, /
    ) -> Constrained[MarginalTable]:
        found = super().constrained(constraint, raw, facts)
        return Constrained(self.lift(raw, facts).nonnegative(), found.raw)

    def totals(self, facts: Facts, /) -> Sequence[tuple[slice, float]]:
        del facts
        return [(slice(None), 1.0)] if self.where is None else ()

    def spread(self, raw: Floats, radii: Floats, facts: Facts, /) -> Floats:
        del raw
        return self._ordered(radii, facts).reshape(-1) * self.scale(facts)

    def _ordered(self, raw: Floats, facts: Facts) -> Floats:
        """Raw numbers, which follow the domain, with one axis an attribute as asked."""
        sorted_names = sorted(self.attributes, key=facts.domain.position)
        domain = self._domain(facts)
        shaped = raw.reshape([domain[name].size for name in sorted_names])
        return shaped.transpose([sorted_names.index(name) for name in self.attributes])

    def __repr__(self) -> str:
        names = listed(self.attributes, len(self.attributes))
        return f"Marginal({names}{self._given}{', known=True' if self.known else ''})"


def marginals(domain: Domain, k: int, *, normalized: bool = True) -> Workload[MarginalTable]:
    """All marginal tables of `k` attributes of a domain, as one workload."""
    count = len(domain.names)
    ways = to_integer("k", k, f"an integer from 1 to {count}")
    if not 1 <= ways <= count:
        raise InvalidArgument("k", f"an integer from 1 to {count}", shown(k))
    chosen = itertools.combinations(domain.names, ways)
    return Workload(Marginal(*names, normalized=normalized) for names in chosen)
