"""One number for each group of rows: the tables that queries with `by=` answer."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias, cast

import numpy as np
from typing_extensions import TypeVar

from dpsdk._checks import shown
from dpsdk._html import text_within
from dpsdk._records import field, frozen
from dpsdk.accuracy import Expectations
from dpsdk.codec import NAME, ListOf, Member, OrNone
from dpsdk.domain import Domain
from dpsdk.errors import InvalidArgument
from dpsdk.forms import Factor, Facts, Identity
from dpsdk.forms.assumptions import Assumptions, counting
from dpsdk.queries.base import to_attribute
from dpsdk.queries.conjunction import Conditioned, ConditionedScalar, Where, options, to_where
from dpsdk.queries.linear import to_names
from dpsdk.queries.marginal import MarginalTable
from dpsdk.queries.tables import LabelledTable, axes_of, in_order
from dpsdk.typing import Floats

__all__ = [
    "GROUPED",
    "By",
    "Estimated",
    "Grouped",
    "GroupTable",
    "described_by",
    "groups_of",
    "to_by",
]

By: TypeAlias = str | Sequence[str]
"""The attributes whose labels tell groups of rows apart: the name of one, or several names."""

G_co = TypeVar("G_co", covariant=True, default=float)

GROUPED: Mapping[str, object] = {"by": Member(OrNone(ListOf(NAME, least=1)), None, quiet=True)}
"""The member of the written forms of queries with this argument."""


def to_by(by: By | None, attribute: str = "") -> tuple[str, ...] | None:
    """Read a `by=` argument of a query of an attribute."""
    if by is None:
        return None
    try:
        names = to_names(by)
    except InvalidArgument as error:
        raise InvalidArgument("by", error.expected, error.got) from None
    if attribute in names:
        raise InvalidArgument("by", f"attributes other than {shown(attribute)}", shown(by))
    return names


def described_by(by: tuple[str, ...] | None) -> str:
    """The argument as text; nothing where it is left out."""
    if by is None:
        return ""
    return f", by={shown(by[0]) if len(by) == 1 else shown(list(by))}"


def groups_of(by: tuple[str, ...] | None, domain: Domain) -> dict[str, Factor]:
    """The factors that tell groups apart."""
    return {name: Identity(domain[name].size) for name in by or ()}


@frozen(repr=False)
class GroupTable(LabelledTable):
    """One number for each group of rows, which the labels of a few attributes tell apart.

    `values` has one axis an attribute, and `table[label, ...]` is the number of one group, as a
    float: NaN where nothing was learned of the group. `counts` is the table of the noisy numbers of
    rows in each group where these were measured, too, as they are for a mean; else None.
    """

    counts: MarginalTable | None = field(default=None, kw_only=True)

    def __attrs_post_init__(self) -> None:
        super().__attrs_post_init__()
        counts = self.counts
        if counts is not None and counts.attributes != self.attributes:
            raise InvalidArgument("counts", "a table of the same attributes", shown(counts.names))

    def _columns(self, value: str) -> dict[str, Floats]:
        columns = super()._columns(value)
        if self.counts is None:
            return columns
        return {**columns, "count" if value != "count" else "rows": self.counts.values}


@text_within.register
def _text_of_groups(table: GroupTable, low: object, high: object, /) -> str:
    if not isinstance(low, GroupTable) or not isinstance(high, GroupTable):
        return table.text()
    return table.text({"from": low.values, "to": high.values})


@frozen(repr=False)
class Grouped(ConditionedScalar[G_co]):
    """A share or count of the rows, or of the rows of each group."""

    by: tuple[str, ...] | None = field(default=None, converter=to_by, kw_only=True)

    def compared(self) -> frozenset[str]:
        return super().compared() | {*(self.by or ())}

    @property
    def of_expectations(self) -> Expectations:
        return "linear"

    def lift(self, raw: Floats, facts: Facts, /) -> G_co:
        return self._answer(self.numbers(raw, facts), facts)

    def numbers(self, raw: Floats, facts: Facts, /) -> Floats:
        return self._each(raw, facts)

    def spread(self, raw: Floats, radii: Floats, facts: Facts, /) -> Floats:
        del raw
        return self._each(radii, facts)

    def _each(self, raw: Floats, facts: Facts) -> Floats:
        """Numbers in rows, one a group, in the order and the unit of the answer."""
        return in_order(raw, self.by or (), facts.domain).reshape(-1) * self.scale(facts)

    def _answer(self, numbers: Floats, facts: Facts) -> G_co:
        if self.by is None:
            return cast("G_co", float(numbers[0]))
        axes = axes_of(self.by, facts.domain)
        return cast("G_co", GroupTable(axes, numbers.reshape([axis.size for axis in axes])))


@frozen(repr=False)
class Estimated(Conditioned[G_co]):
    """A number of an attribute within bounds, or one a group, that is not linear in the raw ones.

    Raw numbers are those of several blocks, each with one number a group. A subclass works with
    one row a block, the last of which counts rows, and one column a group.
    """

    attribute: str
    by: tuple[str, ...] | None = field(default=None, converter=to_by, kw_only=True)

    def _read(self, attribute: str, by: By | None, where: Where) -> None:
        """Read the arguments of a query, which is frozen from then on."""
        object.__setattr__(self, "attribute", to_attribute(attribute))
        object.__setattr__(self, "by", to_by(by, self.attribute))
        object.__setattr__(self, "where", to_where(where))

    @property
    def of_expectations(self) -> Expectations:
        return "bounded"

    @property
    @abstractmethod
    def width(self) -> int:
        """The number of blocks, on one number of each of which an answer rests."""

    @abstractmethod
    def _middles(self, parts: Floats, facts: Facts) -> Floats:
        """The answers, NaN where nothing is known."""

    @abstractmethod
    def _bounds(self, parts: Floats, radii: Floats, facts: Facts) -> tuple[Floats, Floats]:
        """The lower and the upper ends of the answers."""

    def _bounds_of_values(
        self, parts: Floats, radii: Floats, facts: Facts
    ) -> tuple[Floats, Floats]:
        """The same, about the values that cells stand for."""
        return self._bounds(parts, radii, facts)

    @abstractmethod
    def _weight(self, facts: Facts) -> float:
        """What a row weighs in the block that counts rows."""

    @property
    def advice(self) -> str:
        if self.by is None:
            return ""
        return (
            "the figure of a group of few rows may be anything, so the bound of all at once says "
            "nothing; errors(beta) of a release bounds each group by itself"
        )

    def values_of(self) -> frozenset[str]:
        return frozenset({self.attribute})

    def compared(self) -> frozenset[str]:
        return super().compared() | {*(self.by or ())}

    def presumes(self, facts: Facts, /) -> frozenset[str]:
        if self.by is not None:
            return frozenset({"smallest_group"})
        return counting(facts, conditional=self._conditional(facts))

    def _conditional(self, facts: Facts) -> bool:
        """True if rows of the domain may not count."""
        return self.where is not None or bool(facts.domain[self.attribute].extras)

    def _counted(self, facts: Facts, assumptions: Assumptions) -> int:
        """How many rows count in each group, at the least, by what is assumed."""
        if self.by is not None:
            return assumptions.smallest_group or 0
        return assumptions.counted(facts, conditional=self._conditional(facts))

    def _counts(self, parts: Floats, facts: Facts) -> Floats:
        """The noisy numbers of rows."""
        counts: Floats = parts[-1] / self._weight(facts)
        return counts

    def _blocks(self, numbers: Floats, facts: Facts) -> Floats:
        """Raw numbers by groups ahead of the block's axis, block, and other groups."""
        del facts
        return numbers.reshape(1, self.width, -1)

    def _parts(self, numbers: Floats, facts: Facts) -> Floats:
        """Raw numbers, one row a block, with groups in the order of the answer."""
        blocks = np.moveaxis(self._blocks(numbers, facts), 1, 0)
        ordered = [in_order(block.ravel(), self.by or (), facts.domain) for block in blocks]
        return np.stack(ordered).reshape(self.width, -1)

    def settled(self, raw: Floats, radii: Callable[[], Floats], facts: Facts, /) -> Floats:
        # A count that noise alone would reach says nothing, nor does what is divided by it.
        if not self.span(facts):
            return raw
        blocks, wide = self._blocks(raw, facts), self._blocks(radii(), facts)
        known = blocks[:, -1:] > wide[:, -1:]
        if known.all():
            return raw
        told = np.where(known, blocks, np.nan)
        if self.by is not None:  # of groups the counts are shown, too
            told[:, -1:] = blocks[:, -1:]
        return told.reshape(-1)

    def totals(self, raw: Floats, facts: Facts, /) -> Sequence[tuple[slice, float]]:
        before, width, after = self._blocks(raw, facts).shape
        if self.where is not None or min(before, after) > 1:
            return ()
        counts = slice((width - 1) * after, None) if before == 1 else slice(width - 1, None, width)
        return [(counts, self._weight(facts))]

    def _answer(self, numbers: Floats, parts: Floats, facts: Facts) -> G_co:
        if self.by is None:
            return cast("G_co", float(numbers[0]))
        axes = axes_of(self.by, facts.domain)
        shape = [axis.size for axis in axes]
        counts = MarginalTable(axes, self._counts(parts, facts).reshape(shape))
        return cast("G_co", GroupTable(axes, numbers.reshape(shape), counts=counts))

    def lift(self, raw: Floats, facts: Facts, /) -> G_co:
        parts = self._parts(raw, facts)
        return self._answer(self._middles(parts, facts), parts, facts)

    def numbers(self, raw: Floats, facts: Facts, /) -> Floats:
        return self._middles(self._parts(raw, facts), facts)

    def ends(self, raw: Floats, radii: Floats, facts: Facts, /) -> tuple[Floats, Floats]:
        return self._bounds_of_values(self._parts(raw, facts), self._parts(radii, facts), facts)

    def bracket(self, raw: Floats, radii: Floats, facts: Facts, /) -> tuple[G_co, G_co]:
        parts, wide = self._parts(raw, facts), self._parts(radii, facts)
        low, high = self._bounds_of_values(parts, wide, facts)
        return self._answer(low, parts - wide, facts), self._answer(high, parts + wide, facts)

    def spread(self, raw: Floats, radii: Floats, facts: Facts, /) -> Floats:
        parts, span = self._parts(raw, facts), self.span(facts)
        middles = self._middles(parts, facts)
        low, high = self._bounds(parts, self._parts(radii, facts), facts)
        # Where nothing was learned it is said in full, so that the bound is marked as vacuous.
        vacuous = np.isnan(parts).any(axis=0) | np.isnan(middles) | (high - low >= span)
        return np.where(vacuous, span, np.maximum(middles - low, high - middles))

    def __repr__(self) -> str:
        given = f"{described_by(self.by)}{options(self.where, normalized=True)}"
        return f"{type(self).__name__}({shown(self.attribute)}{given})"
