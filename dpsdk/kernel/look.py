"""The primitive `look`: how far the table's own marginals are from public ones, in L1, with noise.

Theorem (docs/explanation/proofs/look.md). Each public table is rounded once to whole steps of
2**-bits of a row and is then a fixed integer table m'. With counts c, the distance
Σ |2**bits · c - m'| is an integer. A row that comes or goes moves it by 2**bits at the most, one
that is exchanged by twice that, so independent discrete noise as for `measure` makes all distances
together ε-DP or ρ-zCDP, however large the tables are.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from fractions import Fraction
from typing import TypeAlias

import numpy as np

from dpsdk._arrays import Lasting, frozen_copy
from dpsdk._checks import shown, to_array, to_name, to_within
from dpsdk._records import cmp_using, field, frozen
from dpsdk.accounting import Guarantee
from dpsdk.accuracy import NoiseAccuracy
from dpsdk.data.counts import Counts
from dpsdk.errors import InvalidArgument, TooLarge
from dpsdk.forms import Facts, Sensitivity
from dpsdk.forms.linear import ROW_LIMIT
from dpsdk.kernel.measure import Noise, calibrated, check_noise
from dpsdk.kernel.primitive import Request
from dpsdk.kernel.terms import Terms, facts_of
from dpsdk.noise import NoiseLaw, NoiseSource
from dpsdk.release import Measurement
from dpsdk.typing import Array, Floats, Ints

__all__ = ["Look", "LookPricing", "Reference"]

_MOST_BITS = 40

_FARTHEST = 2**61
"""True distances stay below it, in steps: from public sizes alone, so that no sum ever wraps."""

_SATURATION = 2**61 - 1
"""Released integers are clamped here. The noise saturates at 2**62 - 1 and distances are less than
2**61, so that clamping their sum gives what clamping the ideal sum would: post-processing."""

_CELL_LIMIT = 2**27
"""The most cells that the tables of one request have together."""


Table: TypeAlias = Array | Sequence[float] | Sequence[Sequence[float]] | float


def _to_names(names: Sequence[str]) -> tuple[str, ...]:
    listed = isinstance(names, Iterable) and not isinstance(names, str)
    own = tuple([to_name("names", name) for name in names]) if listed else ()
    if not listed or len(set(own)) != len(own):
        expected = "a sequence of the names of different attributes"
        raise InvalidArgument("names", expected, shown(own or names))
    return own


def _to_table(table: Table) -> Floats:
    own = to_array("table", table, "an array of finite numbers of at least 0")
    _check(own)
    return frozen_copy(own)


def _check(numbers: Floats) -> None:
    """Refuse what is no count: distances from it could jump at an empty cell."""
    # NaN is not at least 0 either.
    if numbers.size and not (float(numbers.min()) >= 0.0 and float(numbers.max()) < math.inf):
        expected = "finite numbers of at least 0, such as counts of rows"
        raise InvalidArgument("table", expected, "a number that is negative or not finite")


def _to_bits(bits: int) -> int:
    return to_within("bits", bits, 0, _MOST_BITS, f"an integer from 0 to {_MOST_BITS}")


def _to_grid(numbers: Floats, bits: int) -> Floats:
    """The nearest whole steps of 2**-bits, halves to even, in place. Nobody else rounds a table."""
    with np.errstate(over="ignore"):  # what leaves the floats is refused
        numbers *= 2.0**bits
    return np.rint(numbers, out=numbers)


@frozen
class Reference(Lasting):
    """A public table to look from: so many rows, as somebody guesses, in each cell of a marginal.

    It must be made of public values and of releases alone: it is not protected.

    Parameters
    ----------
    names
        Attributes of the domain, each once, in any order; none for the number of rows inside it.
    table
        One axis a name: finite numbers of at least 0, in rows. Negative ones are refused; clip what
        is unbiased, and look at that.
    """

    names: tuple[str, ...] = field(converter=_to_names)
    table: Floats = field(converter=_to_table, eq=cmp_using(eq=np.array_equal), hash=False)

    def rounded(self, bits: int = 12) -> Floats:
        """The table that is looked from: rounded to multiples of 2**-bits, in rows.

        What a look says is of this table, cell by cell.
        """
        rounded: Floats = _to_grid(self.table.copy(), _to_bits(bits)) * 2.0**-bits
        return rounded


def _to_references(references: Iterable[Reference]) -> tuple[Reference, ...]:
    expected = "references, as in [Reference(('a', 'b'), table)]"
    try:
        own = tuple(references)
    except TypeError:
        raise InvalidArgument("references", expected, shown(references)) from None
    if not own or any(type(one) is not Reference for one in own):
        raise InvalidArgument("references", expected, shown(own))
    return own


@frozen(eq=False)
class Look(Request[Measurement[NoiseAccuracy]]):
    """How far marginals of the private table are from public tables: noisy L1 distances, in rows.

    The answer has one number for each reference: Σ |count - table| over its cells, plus noise. One
    row that comes or goes moves a distance by one at the most, one that is exchanged by two,
    whatever the sizes of the tables. So C distances together cost what C counts do: with Gaussian
    noise of standard deviation s rows, C / (2 s²) of zCDP, and four times that where rows are
    exchanged. Requests that share out a ρ in proportion to their references, of at least two cells
    each, have the same noise, and cost the same together, as one request.

    Parameters
    ----------
    references
        Public tables, up to 2^27 cells in all.
    noise
        `GaussianNoise(rho)` makes all distances together ρ-zCDP, `LaplaceNoise(epsilon)` ε-DP.
    bits
        Tables are rounded to multiples of 2**-bits rows, and distances are of the rounded tables.

    >>> from dpsdk import Boolean, Domain, PrivateData
    >>> from dpsdk.kernel import GaussianNoise, Look, Reference, Terms
    >>> data = PrivateData.from_columns({"bit": [True, False]}, Domain(Boolean("bit")))
    >>> request = Look([Reference(["bit"], [1.5, 0.5])], GaussianNoise("0.1"))
    >>> print(request.price(Terms(data.facts)).guarantee)
    0.1-zCDP, discrete Gaussian
    """

    references: tuple[Reference, ...] = field(converter=_to_references)
    noise: Noise
    bits: int = field(default=12, converter=_to_bits)

    def price(self, terms: Terms, /) -> LookPricing:
        """Price the look. Public, spends nothing.

        Raises
        ------
        InvalidArgument
            If a reference does not fit the domain, or is so large, or `bits` so many, that
            distances could leave 2^61 steps.
        TooLarge
            For more cells than one request may have.
        """
        check_noise(self.noise)
        setting = facts_of(terms)
        names = tuple([reference.names for reference in self.references])
        tables = _whole_tables(self.references, self.bits, setting)
        move = _move([table.size for table in tables], self.bits, setting)
        law, guarantee = calibrated(self.noise, move)
        rows = setting.rows if guarantee.free else None
        return LookPricing(self.bits, law, guarantee, names, tables, rows)

    @staticmethod
    def guarantee_for(
        attributes: Iterable[Sequence[str]], noise: Noise, terms: Terms, bits: int = 12
    ) -> Guarantee:
        """The charge for a look at tables of these attributes, before there are any tables.

        `attributes` has the names of each table; the others are as for a look in a kernel of these
        terms.

        Raises
        ------
        UnknownAttribute, InvalidArgument
            If the domain does not have one of them, or names, noise or bits are not as for a look.
        """
        facts = facts_of(terms)
        if not isinstance(attributes, Iterable):
            expected = "sequences of names, as in [('a', 'b'), ('c',)]"
            raise InvalidArgument("attributes", expected, shown(attributes))
        sizes = [
            math.prod([facts.domain[name].size for name in _to_names(names)])
            for names in attributes
        ]
        if not sizes:
            raise InvalidArgument("attributes", "those of at least one table", "none")
        check_noise(noise)
        return calibrated(noise, _move(sizes, _to_bits(bits), facts))[1]


@frozen(eq=False)
class LookPricing(Lasting):
    """The look that `look` would take, all public: the grid, the noise, the guarantee.

    `law` is that of the noise of each distance, in steps of 2**-`bits` rows.
    """

    bits: int
    law: NoiseLaw
    guarantee: Guarantee
    _names: tuple[tuple[str, ...], ...] = field(repr=False)
    _tables: tuple[Ints, ...] = field(repr=False)
    """In whole steps, flat."""
    _rows: int | None = field(repr=False)
    """The number of rows, where it is public and all that there is to tell."""

    @property
    def accuracy(self) -> NoiseAccuracy:
        """How far the distances may be off; there is nothing that rounding adds."""
        return NoiseAccuracy(self.law, len(self._tables), 2.0**-self.bits, 0.0)

    def run(
        self, noise: NoiseSource, opened: Callable[[], Counts], /
    ) -> Measurement[NoiseAccuracy]:
        """Draw the noise, read, and compare cell by cell, in integers."""
        if self._rows is not None:
            drawn: Ints = np.zeros(len(self._tables), dtype=np.int64)
            counts = iter([np.array([self._rows])] * len(self._tables))
        else:
            drawn = noise.draw(self.law, len(self._tables))
            histogram = opened()
            counts = (histogram.counted(names).reshape(-1) for names in self._names)
        distances: list[int] = []
        for count, table in zip(counts, self._tables, strict=True):
            gaps = (count.astype(np.int64) << self.bits) - table
            distances.append(int(np.abs(gaps, out=gaps).sum()))
        noisy = np.clip(np.array(distances, dtype=np.int64) + drawn, -_SATURATION, _SATURATION)
        values: Floats = noisy.astype(np.float64) * 2.0**-self.bits
        return Measurement(values, self.accuracy)


def _whole_tables(references: tuple[Reference, ...], bits: int, setting: Facts) -> tuple[Ints, ...]:
    """The tables in whole steps."""
    if len(references) > ROW_LIMIT:
        advice = "look at fewer at once"
        raise TooLarge("a look", len(references), ROW_LIMIT, "references", advice)
    sizes = [_cells_of(reference.names, reference.table, setting) for reference in references]
    cells = sum(sizes)
    if cells > _CELL_LIMIT:
        raise TooLarge("a look", cells, _CELL_LIMIT, "cells", "share the references out")
    flat = np.concatenate([reference.table.reshape(-1) for reference in references])
    steps = _to_grid(flat, bits)
    _check(steps)
    # In floats first, since integers might not hold it.
    if float(steps.max()) < _FARTHEST:
        whole = steps.astype(np.int64)
        whole.flags.writeable = False
        tables = tuple(np.split(whole, np.cumsum(sizes)[:-1]))
        # Upper and lower halves of so many cells fit 64 bits each.
        halves = [(int((table >> 32).sum()), int((table & (2**32 - 1)).sum())) for table in tables]
        total = max([(upper << 32) + lower for upper, lower in halves])
        if (max(setting.row_limit, 1) << bits) + total < _FARTHEST:
            return tables
    expected = "few enough that distances of tables and of all rows stay within 2^61 steps"
    raise InvalidArgument("bits", expected, f"{bits}")


def _cells_of(names: tuple[str, ...], table: Floats, setting: Facts) -> int:
    """How many cells a table of these attributes has, and so this one."""
    if any(name not in setting.domain.sizes for name in names):
        raise InvalidArgument("references", "of attributes of the domain", shown(names))
    sizes = tuple([setting.domain.sizes[name] for name in names])
    if sizes != table.shape:
        expected = f"of shape {sizes}, as the attributes {shown(names)} are"
        raise InvalidArgument("references", expected, f"shape {table.shape}")
    return math.prod(sizes)


def _move(sizes: Sequence[int], bits: int, setting: Facts) -> Sensitivity:
    """How far the rows of one person move all distances together, in steps: lemma 1 of the note."""
    step, rows = 1 << bits, setting.unit_rows
    divided = sum(size > 1 for size in sizes)
    if not setting.replaced:
        l1, squared, largest = len(sizes), len(sizes), 1
    else:
        # A table of one cell does not move unless rows go outside; all others may move twice.
        beyond = len(sizes) if setting.outside else 0
        l1, squared = max(2 * divided, beyond), max(4 * divided, beyond)
        largest = 2 if divided else min(beyond, 1)
    return Sensitivity(
        Fraction(l1 * rows * step),
        Fraction(squared * (rows * step) ** 2),
        Fraction(largest * rows * step),
        exact=False,
    )
