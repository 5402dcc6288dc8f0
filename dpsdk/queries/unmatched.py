"""How many rows have a missing value, or one that matches no label, attribute by attribute."""

from __future__ import annotations

from typing import cast

from dpsdk._records import field, frozen
from dpsdk.codec import written
from dpsdk.domain import Categorical, Domain
from dpsdk.errors import QueryError
from dpsdk.forms import Facts, Identity, LinearForm, Within
from dpsdk.queries.conjunction import COUNTED, ConditionedCounting, masked
from dpsdk.queries.tables import LabelledTable
from dpsdk.typing import Extra, Floats, Label

__all__ = ["Unmatched", "UnmatchedTable"]


@frozen(repr=False)
class UnmatchedTable(LabelledTable):
    """How many rows, or which share of them, are in each cell for values that are no labels.

    `table["age", MISSING]` is one of the numbers, and `missing` and `other` have them by the names
    of attributes. The single axis has labels such as "age (missing)".
    """

    cells: tuple[tuple[str, Extra], ...] = field(kw_only=True)
    """The attribute and the extra of each number."""

    @property
    def missing(self) -> dict[str, float]:
        """The numbers of rows whose value is missing, by attribute."""
        return self._of(Extra.MISSING)

    @property
    def other(self) -> dict[str, float]:
        """The numbers of rows whose value is there and matches no label, by attribute."""
        return self._of(Extra.OTHER)

    def _of(self, extra: Extra) -> dict[str, float]:
        pairs = zip(self.cells, self.values.tolist(), strict=True)
        return {name: float(number) for (name, own), number in pairs if own is extra}

    def _labels(self, labels: Label | tuple[Label, ...]) -> tuple[Label, ...]:
        if labels in self.cells:
            return (_text(*cast("tuple[str, Extra]", labels)),)
        return super()._labels(labels)


def _text(name: str, extra: Extra) -> str:
    return f"{name} {extra.value}"


@written("query.unmatched", COUNTED)
@frozen(repr=False)
class Unmatched(ConditionedCounting[UnmatchedTable]):
    """The share of rows with a missing value, and with one that matches no label; a table of both.

    Of each attribute that has cells for these, all at once; with `normalized=False` the numbers of
    rows. It says how far other answers are about fewer rows than there are. One row may lack all
    its values: under add-remove neighbours it moves one number of each such attribute, under
    replace-one up to two.

    Raises
    ------
    QueryError
        When the query is asked, before anything is paid: if no attribute has such a cell.

    >>> from dpsdk.queries import Unmatched
    >>> Unmatched(where={"sex": "Female"})
    Unmatched(where=Conjunction({'sex': 'Female'}))
    """

    def lower(self, domain: Domain, /) -> LinearForm:
        blocks = [
            masked(
                {one.name: Within(Identity(len(one.extras)), one.size, one.known)},
                self.where,
                domain,
            )
            for one in domain
            if one.extras
        ]
        if not blocks:
            reason = (
                "no attribute has a cell for missing or for other values; declare some with "
                'missing=True or other=True, or load the table with outside="apart"'
            )
            raise QueryError(str(self), reason)
        return LinearForm(domain, blocks)

    def lift(self, raw: Floats, facts: Facts, /) -> UnmatchedTable:
        cells = tuple([(one.name, extra) for one in facts.domain for extra in one.extras])
        axis = Categorical("unmatched", [_text(*cell) for cell in cells])
        return UnmatchedTable((axis,), raw * self.scale(facts), cells=cells)

    def __repr__(self) -> str:
        return f"Unmatched({self._given.removeprefix(', ')})"
