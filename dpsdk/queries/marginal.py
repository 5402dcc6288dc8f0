"""Marginal tables: the histogram of a few attributes."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np

from dpsdk._checks import shown, to_integer
from dpsdk._records import field, frozen
from dpsdk.accuracy import Constrained, Constraint, Expectations
from dpsdk.codec import NAME, ListOf, written
from dpsdk.domain import Domain, Number
from dpsdk.errors import InvalidArgument, TooLarge, UnknownAttribute
from dpsdk.forms import Factor, Facts, Identity, LinearForm
from dpsdk.forms.linear import ROW_LIMIT
from dpsdk.queries.base import to_flag, to_normalized
from dpsdk.queries.bins import BINS, Bins, OwnBins, binned, cuts, to_bins
from dpsdk.queries.conditions import listed
from dpsdk.queries.conjunction import COUNTED, ConditionedCounting, Where, masked, to_where
from dpsdk.queries.linear import to_names
from dpsdk.queries.order import on_labels
from dpsdk.queries.tables import LabelledTable, axes_of, in_order
from dpsdk.queries.workload import Workload
from dpsdk.queries.written import KNOWN
from dpsdk.typing import Floats

__all__ = ["Marginal", "MarginalTable", "marginals"]


def _to_moved(value: float) -> float:
    # Not a number is at least nought neither.
    if not isinstance(value, int | float) or not value >= 0:
        raise InvalidArgument("moved", "a number of at least 0", shown(value))
    return float(value)


@frozen(repr=False)
class MarginalTable(LabelledTable):
    """Numbers for every combination of the labels of a few attributes.

    `values` has one axis an attribute. `table[label, ...]` is one number, as a float. `moved` says
    by how much the most moved number was moved by `nonnegative`, and is nought otherwise.
    """

    moved: float = field(default=0.0, converter=_to_moved, eq=False, kw_only=True)

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

    @property
    def _remark(self) -> str:
        return f"moved by up to {self.moved:.4g}, for none to be negative" if self.moved else ""


def _marginal(
    attributes: Sequence[str],
    *,
    where: Where = None,
    normalized: bool = True,
    known: bool = False,
    bins: Bins | None = None,
) -> Marginal:
    return Marginal(
        *to_names(attributes), where=where, normalized=normalized, known=known, bins=bins
    )


@written(
    "query.marginal",
    {"attributes": ListOf(NAME, least=1), **COUNTED, **KNOWN, **BINS},
    take=_marginal,
)
@frozen(init=False, repr=False)
class Marginal(ConditionedCounting[MarginalTable]):
    """The share of rows at every combination of labels of a few attributes; a `MarginalTable`.

    Its entries are disjoint, so one row moves two of them under replace-one neighbours and one
    under add-remove, however many there are.

    The attributes may also come as one list. Where they have cells for missing values and for
    others, the table has rows of these, too, so that its shares are of all rows; `known=True`
    leaves these out, and shares stay those of all rows.

    `bins` gives edges for attributes that are a `Number` or an `Integer`: the table then has a row
    for each bin, as if the attribute had been declared `Binned`, at no other price. The bins hold
    all values that the attribute may have.

    >>> from dpsdk.queries import Marginal
    >>> Marginal("sex", "income", where={"age": range(17, 30)})
    Marginal('sex', 'income', where=Conjunction({'age': range(17, 30)}))
    >>> Marginal("sex", "income", bins={"income": [0, 10_000, 50_000]})
    Marginal('sex', 'income', bins={'income': [0.0, 10000.0, 50000.0]})
    """

    attributes: tuple[str, ...]
    known: bool = False
    bins: OwnBins = ()

    def __init__(
        self,
        *attributes: str | Sequence[str],
        where: Where = None,
        normalized: bool = True,
        known: bool = False,
        bins: Bins | None = None,
    ) -> None:
        first = attributes[0] if attributes else ()
        names = first if len(attributes) == 1 and isinstance(first, list | tuple) else attributes
        object.__setattr__(self, "attributes", to_names(names))
        object.__setattr__(self, "where", to_where(where))
        object.__setattr__(self, "normalized", to_normalized(normalized))
        object.__setattr__(self, "known", to_flag("known", known))
        object.__setattr__(self, "bins", to_bins(bins, self.attributes))

    def compared(self) -> frozenset[str]:
        return super().compared() | {*self.attributes}

    def lower(self, domain: Domain, /) -> LinearForm:
        factors: dict[str, Factor] = {}
        bins = dict(self.bins)
        for name in self.attributes:
            attribute = domain[name]
            if isinstance(attribute, Number) and name not in bins and attribute.size > ROW_LIMIT:
                advice = f"cut it into bins={{{name!r}: [...]}}"
                what = f"a row for each number of {name!r}"
                raise TooLarge(what, attribute.size, ROW_LIMIT, "numbers", advice)
            if name in bins:
                factors[name] = cuts(attribute, bins[name], self, known=self.known)
            elif self.known:
                factors[name] = on_labels(attribute, Identity(attribute.known))
            else:
                factors[name] = Identity(attribute.size)
        return LinearForm(domain, (masked(factors, self.where, domain),))

    def _domain(self, facts: Facts) -> Domain:
        """The universe whose cells the table has."""
        domain = facts.domain.closed() if self.known else facts.domain
        if not self.bins:
            return domain
        bins = dict(self.bins)
        return Domain(
            *(binned(one, bins[one.name]) if one.name in bins else one for one in domain.attributes)
        )

    @property
    def of_expectations(self) -> Expectations:
        return "linear"

    def lift(self, raw: Floats, facts: Facts, /) -> MarginalTable:
        domain = self._domain(facts)
        return MarginalTable(
            axes_of(self.attributes, domain), self._ordered(raw, facts) * self.scale(facts)
        )

    def numbers(self, raw: Floats, facts: Facts, /) -> Floats:
        return self._ordered(raw, facts).reshape(-1) * self.scale(facts)

    def constrained(
        self, constraint: Constraint, raw: Floats, facts: Facts, /
    ) -> Constrained[MarginalTable]:
        found = super().constrained(constraint, raw, facts)
        return Constrained(self.lift(raw, facts).nonnegative(), found.raw)

    def totals(self, raw: Floats, facts: Facts, /) -> Sequence[tuple[slice, float]]:
        del raw, facts
        return [(slice(None), 1.0)] if self.where is None else ()

    def spread(self, raw: Floats, radii: Floats, facts: Facts, /) -> Floats:
        del raw
        return self._ordered(radii, facts).reshape(-1) * self.scale(facts)

    def _ordered(self, raw: Floats, facts: Facts) -> Floats:
        return in_order(raw, self.attributes, self._domain(facts))

    def __repr__(self) -> str:
        names = listed(self.attributes, len(self.attributes))
        bins = {name: list(edges) for name, edges in self.bins}
        own = f"{', known=True' if self.known else ''}{f', bins={bins!r}' if bins else ''}"
        return f"Marginal({names}{self._given}{own})"


def marginals(domain: Domain, k: int, *, normalized: bool = True) -> Workload[MarginalTable]:
    """All marginal tables of `k` attributes of a domain, as one workload."""
    count = len(domain.names)
    ways = to_integer("k", k, f"an integer from 1 to {count}")
    if not 1 <= ways <= count:
        raise InvalidArgument("k", f"an integer from 1 to {count}", shown(k))
    chosen = itertools.combinations(domain.names, ways)
    return Workload(Marginal(*names, normalized=normalized) for names in chosen)
