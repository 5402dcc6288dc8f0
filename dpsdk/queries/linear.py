"""Any linear query: a weight for every record, from 0 to 1 unless a wider range is declared."""

from __future__ import annotations

import math
import numbers
from collections.abc import Callable, Iterable, Sequence
from typing import TypeAlias

import numpy as np

from dpsdk._arrays import ByNumbers
from dpsdk._checks import cut, shown, to_finite, to_name
from dpsdk._records import evolve, field, frozen
from dpsdk.codec import NAME, NUMBER, NUMBERS, Codebook, ListOf, Member, OrNone, written
from dpsdk.domain import Domain
from dpsdk.errors import DpsdkError, InvalidArgument, QueryError, TooLarge, WireError
from dpsdk.forms import Dense, Facts, LinearForm, Weights
from dpsdk.forms.factors import to_weights
from dpsdk.queries.conditions import listed
from dpsdk.queries.conjunction import COUNTED, ConditionedScalar, Conjunction, masked
from dpsdk.typing import Array, Floats, Record

__all__ = ["Linear", "to_names"]

CELL_LIMIT = 2**20
"""A function is evaluated on no more cells than this; a condition is spread over no more."""

_LARGEST_WEIGHT = 2.0**20

Weigh: TypeAlias = Callable[[Record], float]


def to_names(names: Iterable[object]) -> tuple[str, ...]:
    """Read a sequence of distinct attribute names."""
    expected = "distinct attribute names, at least one"
    if not isinstance(names, Iterable):
        raise InvalidArgument("attributes", expected, shown(names))
    several = (names,) if isinstance(names, str) else tuple(names)
    plain = tuple([to_name("attributes", name) for name in several if isinstance(name, str)])
    if not plain or len(plain) < len(several):
        raise InvalidArgument("attributes", expected, shown(names))
    if len(set(plain)) != len(plain):
        raise InvalidArgument("attributes", expected, shown(names))
    return plain


def _to_attributes(names: Sequence[str] | None) -> tuple[str, ...] | None:
    return None if names is None else to_names(names)


def _to_table(weights: Array | Weigh) -> Floats | Weigh:
    if callable(weights):
        return weights
    table = to_weights(weights)
    if table.size == 0:
        raise InvalidArgument("weights", "numbers from 0 to 1", "none")
    return table


def _to_end(name: str, value: float) -> float:
    number = float(to_finite(name, value))
    if abs(number) > _LARGEST_WEIGHT:
        raise InvalidArgument(name, "a number from -2**20 to 2**20", shown(value))
    return number + 0.0  # a zero has no sign here


def _to_low(value: float) -> float:
    return _to_end("low", value)


def _to_high(value: float) -> float:
    return _to_end("high", value)


def _key(weights: Floats | Weigh) -> object:
    # A function is none but itself, whatever its class says of equality.
    return id(weights) if callable(weights) else ByNumbers(weights)


def _settled(query: Linear, path: str, codebook: Codebook) -> Linear:
    """A query by a function as one by its table."""
    if not callable(query.weights):
        return query
    if not isinstance(codebook.domain, Domain):
        expected = "an array, or a function with the domain over which it is to be written out"
        raise WireError(f"{path}.weights", expected, "a function alone")
    try:
        return query.tabulated(codebook.domain)
    except DpsdkError as error:
        expected = "a function that can be written out over the domain"
        raise WireError(f"{path}.weights", expected, cut(str(error), 300)) from error


@written(
    "query.linear",
    {
        "weights": NUMBERS,
        "attributes": Member(OrNone(ListOf(NAME, least=1)), None),
        **COUNTED,
        "low": Member(NUMBER, 0.0, quiet=True),
        "high": Member(NUMBER, 1.0, quiet=True),
    },
    settle=_settled,
)
@frozen(repr=False)
class Linear(ConditionedScalar):
    """The mean, over the rows, of a weight that a public rule gives each record.

    A linear query of Dwork and Roth (2014, chapter 4): a float, or with `normalized=False` the sum.

    Parameters
    ----------
    weights
        An array with one weight a cell, flat or shaped like the universe; or a function of a
        record, a mapping from attributes to labels. A function is evaluated on the cells of the
        universe, twice, and never on a row: it must give each cell one number from `low` to `high`.
        Cells of missing and of other values come behind those of the labels, and a function sees
        them as `MISSING` and `OTHER`.
    attributes
        What the weights depend on, if not on every attribute: the array then covers, and the
        function then sees, only these, so that the universe may be large.
    low, high
        Between which numbers all weights lie, at most 2^20 in size; 0 and 1 if left out. Rows
        outside the domain weigh 0 whatever the range. `OnlinePMW(signed=True)`, `MWEM`,
        `OfflinePMW` and `NumericSparse` take weights from -1 to 1.

    Raises
    ------
    InvalidArgument
        If `low` is not below `high`, or a number of an array lies outside.
    QueryError
        When the query is lowered, before anything is paid: if the array has another shape, or the
        function raises, leaves the range, or gives a cell two values.

    >>> from dpsdk.queries import Linear
    >>> Linear(lambda record: float(record["age"] >= 65), attributes=["age"])
    Linear(<lambda>, attributes=('age',))
    """

    weights: Floats | Weigh = field(converter=_to_table, eq=_key)
    attributes: tuple[str, ...] | None = field(default=None, converter=_to_attributes)
    low: float = field(default=0.0, converter=_to_low, kw_only=True)
    high: float = field(default=1.0, converter=_to_high, kw_only=True)

    def __attrs_post_init__(self) -> None:
        if not self.low < self.high:
            raise InvalidArgument("low", f"below high={self.high:g}", shown(self.low))
        weights = self.weights
        if not callable(weights) and (weights.min() < self.low or weights.max() > self.high):
            raise InvalidArgument("weights", self._range, "some outside that range")

    @property
    def _range(self) -> str:
        return f"numbers from {self.low:g} to {self.high:g}"

    def span(self, facts: Facts, /) -> float:
        return super().span(facts) * (max(self.high, 0.0) - min(self.low, 0.0))

    def footprint(self, domain: Domain, /) -> int:
        touched = set(self._touched(domain))
        if self.where is not None:
            touched.update(name for name, _ in self.where.conditions)
        return math.prod(domain[name].size for name in touched)

    def tabulated(self, domain: Domain) -> Linear:
        """The same query with an array in the place of a function: one weight a cell."""
        if not callable(self.weights):
            return self
        return evolve(self, weights=self._table(domain.project(self._touched(domain))))

    def lower(self, domain: Domain, /) -> LinearForm:
        # Blocks number their cells in the order of the domain.
        given = domain.project(self._touched(domain))
        order = sorted(range(len(given.names)), key=lambda axis: domain.position(given.names[axis]))
        table = self._table(given).transpose(order)
        names = tuple(given.names[axis] for axis in order)
        if len(names) == 1:
            factors = {names[0]: Weights(table.reshape(1, -1))}
            return LinearForm(domain, (masked(factors, self.where, domain),))
        if self.where is None:
            return LinearForm(domain, (Dense(names, table.shape, table.reshape(1, -1)),))
        return LinearForm(domain, (self._conditioned(domain, names, table, self.where),))

    def _conditioned(
        self, domain: Domain, names: tuple[str, ...], table: Floats, where: Conjunction
    ) -> Dense:
        cells = self.footprint(domain)
        if cells > CELL_LIMIT:
            advice = "put the condition into the weights, on fewer attributes"
            raise TooLarge(str(self), cells, CELL_LIMIT, "cells", advice)
        factors = where.factors(domain)
        joint = tuple(name for name in domain.names if name in names or name in factors)
        shape = tuple(domain[name].size for name in joint)
        spread = [size if name in names else 1 for name, size in zip(joint, shape, strict=True)]
        weights = np.broadcast_to(table.reshape(spread), shape)
        for axis, name in enumerate(joint):
            if name in factors:
                along = [1] * axis + [shape[axis]] + [1] * (len(shape) - axis - 1)
                weights = weights * factors[name].matrix().reshape(along)
        return Dense(joint, shape, weights.reshape(1, -1))

    def _touched(self, domain: Domain) -> tuple[str, ...]:
        return domain.names if self.attributes is None else self.attributes

    def _table(self, touched: Domain) -> Floats:
        if callable(self.weights):
            return _tabulated(self.weights, touched, self)
        if self.weights.shape not in {touched.shape, (touched.size,)}:
            reason = (
                f"weights of shape {self.weights.shape} for a universe of shape {touched.shape}"
            )
            raise QueryError(str(self), reason)
        return self.weights.reshape(touched.shape)

    def __repr__(self) -> str:
        if callable(self.weights):
            rule = str(getattr(self.weights, "__name__", type(self.weights).__name__))[:80]
        else:
            rule = f"array of shape {self.weights.shape}"
        names = ""
        if self.attributes is not None:
            comma = "," if len(self.attributes) == 1 else ""
            names = f", attributes=({listed(self.attributes, len(self.attributes))}{comma})"
        ends = "" if (self.low, self.high) == (0, 1) else f", low={self.low:g}, high={self.high:g}"
        return f"Linear({rule}{names}{ends}{self._given})"


def _tabulated(function: Weigh, touched: Domain, asked: Linear) -> Floats:
    query = str(asked)
    if touched.size > CELL_LIMIT:
        advice = "name the attributes that the function needs with attributes=[...]"
        raise TooLarge(query, touched.size, CELL_LIMIT, "cells", advice)
    table = np.array([_weight(function, touched, cell, asked) for cell in range(touched.size)])
    # The second look runs backwards, so that a function that counts its calls is found out.
    for cell in reversed(range(touched.size)):
        if _weight(function, touched, cell, asked) != table[cell]:
            reason = f"the function gave two values at {touched.record(cell)}"
            raise QueryError(query, reason)
    return table.reshape(touched.shape)


def _weight(function: Weigh, touched: Domain, cell: int, query: Linear) -> float:
    record = touched.record(cell)
    try:
        value = function(dict(record))
    except Exception as error:
        reason = f"the function raised {type(error).__name__} at {record}"
        raise QueryError(str(query), reason) from error
    low, high = query.low, query.high
    if not isinstance(value, numbers.Real | np.bool_) or not low <= value <= high:
        expected = f"a number from {low:g} to {high:g}"
        reason = f"the function gave {shown(value)} at {record}, expected {expected}"
        raise QueryError(str(query), reason)
    return float(value)
