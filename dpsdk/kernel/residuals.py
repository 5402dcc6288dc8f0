"""The primitive `measure` for residuals of marginals, priced together by what one row moves.

Theorem (docs/explanation/proofs/residuals.md). Integer multiples of the integer residuals N_T r_T,
with independent discrete Gaussian noise of one variance on all of their cells, are ρ-zCDP for
ρ = S / (2 variance), where S is the largest squared length by which one row moves all of them. Seen
as residuals in rows, that of a set T has noise of scale σ_T = √variance / (scale · N_T), and under
add-remove costs p_T / (2 σ_T²), p_T = Π (1 - 1/n), to the digit.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from fractions import Fraction
from functools import cached_property

import numpy as np

from dpsdk._checks import shown, to_integer
from dpsdk._records import field, frozen
from dpsdk.accounting import Guarantee
from dpsdk.data.counts import Counts
from dpsdk.errors import InvalidArgument, TooLarge
from dpsdk.forms import Facts, Kronecker, Residual
from dpsdk.forms.linear import EXACT
from dpsdk.forms.residuals import Names, moves
from dpsdk.kernel.lattice import exact
from dpsdk.kernel.measure import GaussianNoise, gaussian_for, widening_bits
from dpsdk.kernel.primitive import Request
from dpsdk.kernel.terms import Terms, facts_of
from dpsdk.noise import NoiseLaw, NoiseSource
from dpsdk.release import HalfWidths, Measurement, Standing
from dpsdk.typing import Floats

__all__ = ["MeasureResiduals", "ResidualAccuracy", "ResidualPricing"]

NUMBER_LIMIT = 2**26
"""No request has more numbers, which are half a gigabyte."""

_SET_LIMIT = 2**18
_WHOLE = 2**61
"""True answers stay below this, so that none leaves 64 bits with its noise on it."""

_SATURATION = 2**62 - 1 - _WHOLE
"""Released integers are clamped here: noise saturates at 2**62 - 1, so this is post-processing."""

_TABLED = 2**14
"""Marginals of more cells are counted from the records and not kept for others to read."""


def _items(parameter: str, value: object, expected: str) -> tuple[object, ...]:
    if isinstance(value, str | bytes) or not isinstance(value, Iterable):
        raise InvalidArgument(parameter, expected, shown(value))
    return tuple(value)  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType]


_SETS = "a sequence of sets of attributes, each a tuple of distinct names"


def _to_sets(value: Iterable[Iterable[str]]) -> tuple[Names, ...]:
    sets: list[Names] = []
    for one in _items("sets", value, _SETS):
        names = _items("sets", one, _SETS)
        if not all(isinstance(name, str) for name in names) or len({*names}) != len(names):
            raise InvalidArgument("sets", _SETS, shown(one))
        sets.append(tuple([str(name) for name in names]))
    if not 0 < len(sets) <= _SET_LIMIT:
        expected = f"from one to {_SET_LIMIT:,} sets of attributes"
        raise InvalidArgument("sets", expected, f"{len(sets):,}")
    return tuple(sets)


def _to_scales(value: Iterable[int]) -> tuple[int, ...]:
    expected = "positive integers, one for each set"
    scales = [to_integer("scales", one, expected) for one in _items("scales", value, expected)]  # type: ignore[arg-type]  # it looks
    for scale in scales:
        if not 1 <= scale < _WHOLE:
            raise InvalidArgument("scales", f"{expected}, below 2**61", shown(scale))
    return tuple(scales)


@frozen
class ResidualAccuracy(HalfWidths):
    """Noise of one law, in a step of its own for each residual, on each of its numbers.

    `cells` says how many numbers each residual has, `steps` what one step of the law is in each, in
    rows; 0 where there is no noise.
    """

    law: NoiseLaw
    cells: tuple[int, ...]
    steps: tuple[float, ...]
    kind: str = field(init=False, default="exact tail of the discrete noise")
    standing: Standing = field(init=False, default="proven")

    @property
    def deviations(self) -> tuple[float, ...]:
        """σ of each residual in rows, the root of the law's parameter."""
        scale = math.sqrt(self.law.parameter)
        return tuple([step * scale for step in self.steps])

    def radii(self, beta: float, *, joint: bool) -> Floats:
        """Half-widths in rows."""
        noisy = sum(c for c, step in zip(self.cells, self.steps, strict=True) if step)
        if not noisy:
            return np.zeros(sum(self.cells))
        radius = self.law.radius(beta, noisy if joint else 1)
        return np.repeat(np.array(self.steps) * radius, np.array(self.cells))


@frozen
class MeasureResiduals(Request[Measurement[ResidualAccuracy]]):
    """Noisy residuals of marginals, bought together; see dpsdk.forms.residuals for what they are.

    The answer has the numbers of each set after those of the set before, in C order over its
    attributes as they were given, in rows. They are the residuals with independent noise on each
    cell: project them on what sums to zero along every axis, which is free and leaves less noise.
    Where n is public and no row lies outside the domain the count of all rows, the residual of no
    attributes, is given as it is, and costs nothing; so is the residual of an attribute of one
    cell, which is zero.

    Parameters
    ----------
    sets
        The attributes of each residual; none for the count of all rows.
    scales
        Positive integers, one for each set: its noise has the scale √variance / (scale · N_T), with
        N_T its number of cells. So a scale that is twice as large costs four times as much of ρ.
    noise
        What all of them cost together.

    >>> from dpsdk import Domain, Integer, Neighbors, PrivateData
    >>> from dpsdk.kernel import GaussianNoise, MeasureResiduals, Terms
    >>> domain = Domain(Integer("age", 17, 90), Integer("hours", 1, 99))
    >>> data = PrivateData.from_columns({"age": [39, 50], "hours": [40, 13]}, domain)
    >>> sets = [(), ("age",), ("hours",), ("age", "hours")]
    >>> request = MeasureResiduals(sets, (74 * 99, 99, 74, 1), GaussianNoise("0.1"))
    >>> print(request.price(Terms(data.facts)).guarantee)
    0.1-zCDP, discrete Gaussian
    """

    sets: tuple[Names, ...] = field(converter=_to_sets)
    scales: tuple[int, ...] = field(converter=_to_scales)
    noise: GaussianNoise

    def __attrs_post_init__(self) -> None:
        if len(self.sets) != len(self.scales):
            expected = f"one for each of the {len(self.sets)} sets"
            raise InvalidArgument("scales", expected, str(len(self.scales)))
        if type(self.noise) is not GaussianNoise:
            raise InvalidArgument("noise", "a GaussianNoise", shown(self.noise))

    def price(self, terms: Terms, /) -> ResidualPricing:
        """Price the measurement. Public, spends nothing.

        Raises
        ------
        UnknownAttribute
            If the domain does not have an attribute.
        TooLarge
            If there are more than 2^26 numbers.
        InvalidArgument
            If the noise would be wider than 64-bit integers can hold, or counts could not be summed
            exactly.
        """
        facts = facts_of(terms)
        sets, scales = self.sets, self.scales
        for name in (name for names in sets for name in names):
            facts.domain.position(name)
        shapes = tuple([tuple([facts.domain.sizes[name] for name in names]) for names in sets])
        constants = tuple([_constant(shape, facts) for shape in shapes])
        total = sum([math.prod(shape) for shape in shapes])
        if total > NUMBER_LIMIT:
            raise TooLarge("a request", total, NUMBER_LIMIT, "numbers", "ask for fewer at once")
        live = [place for place, known in enumerate(constants) if known is None]
        _check_exact([shapes[p] for p in live], [scales[p] for p in live], facts)
        found = moves(
            [sets[place] for place in live],
            [scales[place] for place in live],
            facts.domain.sizes,
            replace=facts.replaced,
            outside=facts.outside,
        )
        squared, most = found.squared * facts.unit_rows**2, found.maximum * facts.unit_rows
        bits = widening_bits(self.noise, Fraction(squared))
        scales = tuple([scale << bits for scale in scales])
        _check_exact([shapes[p] for p in live], [scales[p] for p in live], facts)
        law, guarantee = gaussian_for(self.noise, squared << 2 * bits, most << bits)
        return ResidualPricing(scales, law, guarantee, sets, shapes, constants)


@frozen(eq=False)
class ResidualPricing:
    """The plan and price of measuring residuals, all public.

    `scales` are what the integer residuals are multiplied by, as asked for or by a power of two
    more.
    """

    scales: tuple[int, ...]
    law: NoiseLaw
    guarantee: Guarantee
    _sets: tuple[Names, ...] = field(repr=False)
    _shapes: tuple[tuple[int, ...], ...] = field(repr=False)
    _constants: tuple[int | None, ...] = field(repr=False)
    """The values of residuals that no row changes."""

    @cached_property
    def _cells(self) -> tuple[int, ...]:
        """How many numbers each residual has."""
        return tuple([math.prod(shape) for shape in self._shapes])

    @property
    def accuracy(self) -> ResidualAccuracy:
        """How far off it is."""
        steps = [
            1 / (scale * cells) if known is None else 0.0
            for scale, cells, known in zip(self.scales, self._cells, self._constants, strict=True)
        ]
        return ResidualAccuracy(self.law, self._cells, tuple(steps))

    def run(
        self, noise: NoiseSource, opened: Callable[[], Counts], /
    ) -> Measurement[ResidualAccuracy]:
        """Draw, read and add; in that order, so that no draw's time depends on what is read.

        What no row changes is not read, nor is there noise on it.
        """
        values = np.zeros(sum(self._cells))
        parts = list(zip(self._cells, self._constants, strict=True))
        noisy = sum([cells for cells, known in parts if known is None])
        drawn = noise.draw(self.law, noisy) if noisy else np.zeros(0, dtype=np.int64)
        at = 0
        for place, (cells, known) in enumerate(parts):
            part = values[at : at + cells]
            at += cells
            if known is not None:
                part[:] = known
                continue
            sums = exact(self._integers(place, opened())) * self.scales[place]
            sums += drawn[:cells]
            drawn = drawn[cells:]
            np.clip(sums, -_SATURATION, _SATURATION, out=sums)
            np.divide(sums, float(self.scales[place] * cells), out=part)
        return Measurement(values, self.accuracy)

    def _integers(self, place: int, histogram: Counts) -> Floats:
        """N_T r_T, exactly: counts times cells stay within what floats hold."""
        names, shape = self._sets[place], self._shapes[place]
        block = Kronecker(names, tuple([Residual(size) for size in shape]))
        if self._cells[place] <= _TABLED:
            return block.answer(histogram.table(names))
        codes, counts = histogram.records(names)
        return block.answer_records(codes, counts)


def _constant(shape: tuple[int, ...], setting: Facts) -> int | None:
    """The residual where no row changes it, the same for all of its cells."""
    if 1 in shape:
        return 0
    if not shape and setting.replaced and not setting.outside:
        return setting.rows
    return None


def _check_exact(shapes: list[tuple[int, ...]], scales: list[int], setting: Facts) -> None:
    rows = max(setting.row_limit, 1)
    cells = max([math.prod(shape) for shape in shapes], default=1)
    if cells * rows >= EXACT:
        expected = "of so few cells that rows times cells stay within 2**53"
        raise InvalidArgument("sets", expected, f"{cells:,} cells and up to {rows:,} rows")
    products = [scale * math.prod(shape) for scale, shape in zip(scales, shapes, strict=True)]
    if max(products, default=0) * rows >= _WHOLE:
        expected = "small enough that rows times cells times scale stay within 2**61"
        raise InvalidArgument("scales", expected, f"up to {max(products):.3g} a row")
