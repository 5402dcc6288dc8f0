"""A mixture of products: a distribution over a universe of any size, by one-way tables alone."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import ClassVar, Self

import numpy as np
from typing_extensions import override

from dpsdk._arrays import frozen_copy
from dpsdk._checks import shown, to_array, to_finite
from dpsdk._records import cmp_using, field, frozen
from dpsdk.domain import Domain
from dpsdk.errors import InvalidArgument, TooLarge
from dpsdk.forms import Block, Kronecker, LinearForm
from dpsdk.forms.boxes import Boxes, Products
from dpsdk.hypothesis.distribution import Distribution, check_domain, reached, to_outside
from dpsdk.hypothesis.files import Arrays, Flag
from dpsdk.hypothesis.streams import Seed, Streams, to_key
from dpsdk.hypothesis.synthetic import SyntheticData
from dpsdk.noise.source import to_size
from dpsdk.typing import Array, Floats, Ints

__all__ = ["Mixture"]

_NUMBERS = 2**27
"""The most shares that the one-way tables of all components have together: 1 GiB."""

_CELLS = 2**28
"""The most cells of a marginal table that is written out: 2 GiB."""

_DRAWN = 2**28
"""The most codes of synthetic data."""

_NORMAL = 1e-9
"""By how much shares that come from a file may miss a sum of 1."""

_LEVELS = 2**53


@frozen(init=False, repr=False)
class Mixture(Distribution):
    """Products of one-way tables, mixed: p(x) = Σ w_c Π p_c(x_i).

    A distribution that does not move. Whatever is asked is worked out from the one-way tables of
    the k components: a marginal table takes k times its cells, and structured functions are summed
    attribute by attribute. The universe is never written out, and may have any size. Raises
    `InvalidArgument` if weights, tables, mass or rows are not as described, and `TooLarge` for more
    than 2^27 shares in all.

    Parameters
    ----------
    domain
        The universe.
    weights
        Shape (k,): how much of the probability each component has, not negative. They are divided
        by their sum.
    tables
        For each attribute an array (k, size): what each component makes of its cells, not negative.
        Each row is divided by its sum.
    outside_mass
        The probability of the extra cell; None for a distribution without it.
    rows
        How many records it stands for, those outside included, where that is known; it is what
        `counts` and `synthesize` go by.

    >>> from dpsdk import Boolean, Domain
    >>> from dpsdk.hypothesis import Mixture
    >>> domain = Domain(Boolean("a"), Boolean("b"))
    >>> alike = Mixture(domain, [1, 1], {"a": [[1, 0], [0, 1]], "b": [[3, 1], [1, 3]]}, rows=80)
    >>> alike.counts("a", "b").tolist()
    [[30.0, 10.0], [10.0, 30.0]]
    """

    kind: ClassVar[str] = "mixture"
    domain: Domain
    outside: bool = field(eq=False)
    rows: float | None
    """How many records it stands for, where that is known."""
    _beyond: float | None
    _weights: Floats = field(eq=cmp_using(eq=np.array_equal), hash=False)
    _tables: Floats = field(eq=cmp_using(eq=np.array_equal), hash=False)

    def __init__(
        self,
        domain: Domain,
        weights: Array | Sequence[float],
        tables: Mapping[str, Array | Sequence[Sequence[float]]],
        *,
        outside_mass: float | None = None,
        rows: float | None = None,
    ) -> None:
        check_domain(domain)
        shares = _shares("weights", weights)
        if shares.ndim != 1 or not len(shares):
            raise InvalidArgument("weights", "one number a component", f"shape {shares.shape}")
        _check_size(domain, len(shares))
        if not isinstance(tables, Mapping) or set(tables) != set(domain.names):
            expected = f"one array for each of {shown(domain.names)}"
            raise InvalidArgument("tables", expected, shown(tables))
        columns: list[Floats] = []
        for name in domain.names:
            table = _shares("tables", tables[name])
            if table.shape != (len(shares), domain[name].size):
                expected = f"of shape {(len(shares), domain[name].size)} for attribute {name!r}"
                raise InvalidArgument("tables", expected, f"shape {table.shape}")
            columns.append(_normal("tables", table))
        whole = np.concatenate(columns, axis=1)
        self._keep(domain, _normal("weights", shares), whole, outside_mass, rows)

    def _keep(
        self,
        domain: Domain,
        weights: Floats,
        tables: Floats,
        outside_mass: float | None,
        rows: float | None,
    ) -> None:
        beyond = to_outside(
            None if outside_mass is None else to_finite("outside_mass", outside_mass)
        )
        if rows is not None and not to_finite("rows", rows) > 0.0:
            raise InvalidArgument("rows", "a positive number, or None", shown(rows))
        # The fields of a frozen value are set once, after they were checked together.
        for name, value in {
            "domain": domain,
            "outside": beyond is not None,
            "rows": None if rows is None else float(rows),
            "_beyond": None if beyond is None else float(beyond),
            "_weights": frozen_copy(weights),
            "_tables": frozen_copy(tables),
        }.items():
            object.__setattr__(self, name, value)

    @property
    def components(self) -> int:
        """How many products are mixed."""
        return len(self._weights)

    @property
    def weights(self) -> Floats:
        """How much of the probability inside the domain each component has, shape (k,)."""
        return self._weights

    def shares(self, name: str) -> Floats:
        """The share of each component in the cells of an attribute: shape (k, size), rows of sum 1.

        Raises `UnknownAttribute` if the domain does not have it.
        """
        place = self.domain.position(name)
        start = sum(self.domain.shape[:place])
        return self._tables[:, start : start + self.domain.shape[place]]

    @property
    @override
    def outside_mass(self) -> float:
        return self._beyond or 0.0

    @override
    def answers(self, form: LinearForm) -> Floats:
        self._check(form)
        answers = np.empty(form.rows)
        for block, places in form.groups:
            answers[places] = self._answer(block)
        return answers

    def _answer(self, block: Block) -> Floats:
        """The expected weight of the functions of a block, each component by itself."""
        parts = [self.shares(name) for name in block.names]
        if isinstance(block, Kronecker):
            pairs = zip(block.factors, parts, strict=True)
            applied = [factor.apply(part, 1) for factor, part in pairs]
            return block.scale * self._mixed(applied)
        if isinstance(block, Products):
            return self._summed(
                block.rows,
                lambda c: [m @ p[c] for m, p in zip(block.matrices, parts, strict=True)],
            )
        if isinstance(block, Boxes):
            below = [np.pad(np.cumsum(part, axis=1), [(0, 0), (1, 0)]) for part in parts]
            ends = list(zip(below, block.starts, block.stops, strict=True))
            inside = self._summed(
                block.rows,
                lambda c: [sums[c][stops] - sums[c][starts] for sums, starts, stops in ends],
            )
            return inside * block.scales
        return block.answer(self.table(block.names))

    def _summed(self, rows: int, parts: Callable[[int], Sequence[Floats]]) -> Floats:
        """Products of what each component has along each attribute, mixed: one a function."""
        total = np.zeros(rows)
        for component, weight in enumerate((self._weights * (1.0 - self.outside_mass)).tolist()):
            product = np.full(rows, weight)
            for part in parts(component):
                product *= part
            total += product
        return total

    def _mixed(self, parts: Sequence[Floats]) -> Floats:
        """Σ w_c of the outer products of rows c of the arrays (k, ·), flat."""
        weights = self._weights * (1.0 - self.outside_mass)
        # One matrix product of two halves, cut where the halves are smallest.
        widths = np.cumprod([1.0, *(part.shape[1] for part in parts)])
        cut = int(np.argmin(widths + widths[-1] / widths))
        left = _outer(weights[:, None], parts[:cut])
        right = _outer(np.ones((len(weights), 1)), parts[cut:])
        result: Floats = left.T @ right
        return result.reshape(-1)

    @override
    def table(self, names: tuple[str, ...]) -> Floats:
        parts = [self.shares(name) for name in names]
        if len(set(names)) < len(names):
            raise InvalidArgument("names", "different attributes", shown(names))
        cells = math.prod(part.shape[1] for part in parts)
        if cells > _CELLS:
            raise TooLarge("a table", cells, _CELLS, "cells", "ask for fewer attributes at a time")
        return self._mixed(parts).reshape([part.shape[1] for part in parts])

    @override
    def records(self, names: tuple[str, ...]) -> tuple[Sequence[Ints], Floats]:
        table = self.table(names)
        if not names:
            return [], table.reshape(-1)
        cells = np.nonzero(table)
        return [code.astype(np.int64, copy=False) for code in cells], table[cells]

    def counts(self, *names: str) -> Floats:
        """How many records each cell of the named attributes stands for.

        Expected counts, no whole numbers, with one axis a name, in the order given; that of all
        records inside the domain without names. Raises `UnknownAttribute` if the domain does not
        have one of them. Raises `InvalidArgument` if an attribute is named twice, or it is not
        known how many records the mixture stands for. Raises `TooLarge` if the table would have
        more than 2^28 cells.
        """
        result: Floats = self.table(names) * self._known_rows()
        return result

    def synthesize(self, size: int | None = None, seed: Seed | None = None) -> SyntheticData:
        """Independent random records, as a public table.

        There are `size` records inside the domain, as many as the mixture stands for by default;
        and outside, where the mixture has that cell, the number that is expected beside so many.
        `sample` draws the same records from a seed. Raises `InvalidArgument` if the size is no
        integer of at least 1 or not known, or the seed none that is known, and `TooLarge` if there
        would be more than 2^28 codes.
        """
        inside = 1.0 - self.outside_mass
        count = round(self._known_rows() * inside) if size is None else to_size(size)
        if count < 1:
            raise InvalidArgument("size", "at least one record", shown(count))
        needed = count * len(self.domain.attributes)
        if needed > _DRAWN:
            raise TooLarge("synthetic data", needed, _DRAWN, "codes", "draw fewer records")
        codes = np.stack(self.draw(Streams(count, to_key(seed))), axis=1)
        beyond = round(count * self.outside_mass / inside) if self.outside else None
        return SyntheticData(self.domain, codes, outside_count=beyond)

    def _known_rows(self) -> float:
        if self.rows is None:
            expected = "told when the mixture is made, for counts of records"
            raise InvalidArgument("rows", expected, "none")
        return self.rows

    @override
    def draw(self, streams: Streams) -> Sequence[Ints]:
        names = self.domain.names
        # Of the first attribute, whose levels are independent of these.
        level = streams.below(names[0], np.array(_LEVELS)).astype(np.float64) / _LEVELS
        chosen = reached(self._weights, level)
        order = np.argsort(chosen, kind="stable")
        ends = np.searchsorted(chosen[order], np.arange(self.components + 1)).tolist()
        drawn: list[Ints] = []
        for name in names:
            levels, shares = streams.levels(name), self.shares(name)
            codes = np.empty(streams.size, dtype=np.int64)
            for component in range(self.components):
                who = order[ends[component] : ends[component + 1]]
                codes[who] = reached(shares[component], levels[who])
            drawn.append(codes)
        return drawn

    @override
    def parts(self) -> tuple[Mapping[str, Flag], Mapping[str, Floats | Ints]]:
        arrays: dict[str, Floats | Ints] = {
            "weights": self._weights,
            "tables": self._tables.reshape(-1),
            "outside": np.array([] if self._beyond is None else [self._beyond]),
            "rows": np.array([] if self.rows is None else [self.rows]),
        }
        return {}, arrays

    @classmethod
    @override
    def from_parts(cls, domain: Domain, flags: Mapping[str, object], arrays: Arrays) -> Self:
        if set(arrays) != {"weights", "tables", "outside", "rows"} or flags:
            raise InvalidArgument("its parts", "weights, tables, outside and rows", "others")
        if any(array.dtype != np.float64 for array in arrays.values()):
            raise InvalidArgument("its parts", "rows of float64", "others")
        weights, tables = arrays["weights"], arrays["tables"]
        outside, rows = arrays["outside"], arrays["rows"]
        if len(outside) > 1 or len(rows) > 1 or not len(weights):
            raise InvalidArgument("its parts", "at most one mass and one number of rows", "others")
        _check_size(domain, len(weights))
        width = sum(domain.shape)
        if len(tables) != len(weights) * width:
            expected = f"{width} shares for each of {len(weights)} components"
            raise InvalidArgument("its tables", expected, f"{len(tables)}")
        whole = tables.reshape(len(weights), width)
        starts = np.concatenate([[0], np.cumsum(domain.shape)[:-1]])
        sums = [weights.sum(), *np.add.reduceat(whole, starts, axis=1).reshape(-1)]
        least = min(float(weights.min()), float(tables.min()))
        if not least >= 0.0 or not float(np.abs(np.array(sums) - 1.0).max()) <= _NORMAL:
            raise InvalidArgument("its shares", "at least 0, with sums of 1", "others")
        mixture = cls.__new__(cls)
        mass, many = (float(array[0]) if len(array) else None for array in (outside, rows))
        mixture._keep(domain, weights, whole, mass, many)
        return mixture

    def __reduce__(self) -> tuple[object, ...]:
        # What is read back is checked and made unchangeable again.
        return type(self).from_parts, (self.domain, *self.parts())

    def __repr__(self) -> str:
        many = f"{len(self.domain.names):,} attributes"
        rows = "" if self.rows is None else f", {self.rows:,.0f} records"
        return f"Mixture({self.components:,} products, {many}{rows})"


def _check_size(domain: Domain, components: int) -> None:
    needed = components * sum(domain.shape)
    if needed > _NUMBERS:
        advice = "declare coarser labels, or mix fewer products"
        raise TooLarge("a mixture", needed, _NUMBERS, "shares", advice)


def _shares(parameter: str, values: object) -> Floats:
    expected = "finite numbers of at least 0"
    own = to_array(parameter, values, expected)
    if own.size and not (float(own.min()) >= 0.0 and float(own.max()) < math.inf):
        raise InvalidArgument(parameter, expected, "others")
    return own


def _normal(parameter: str, shares: Floats) -> Floats:
    # By their largest first, so that no sum leaves the floats.
    top = shares.max(axis=-1, keepdims=True, initial=0.0)
    if not (top > 0.0).all():
        raise InvalidArgument(parameter, "rows that are not all zero", "zeros only")
    scaled = shares / top
    result: Floats = scaled / scaled.sum(axis=-1, keepdims=True)
    return result


def _outer(start: Floats, parts: Sequence[Floats]) -> Floats:
    """For each component the outer product of its rows, flat, times what it starts from."""
    result = start
    for part in parts:
        result = (result[:, :, None] * part[:, None, :]).reshape(len(result), -1)
    return result
