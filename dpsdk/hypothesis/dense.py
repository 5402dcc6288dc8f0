"""A hypothesis that keeps one number a cell."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import ClassVar, Self

import numpy as np
from typing_extensions import override

from dpsdk._checks import shown
from dpsdk.domain import Domain
from dpsdk.errors import InvalidArgument, TooLarge
from dpsdk.forms import LinearForm
from dpsdk.hypothesis.cells import Cells
from dpsdk.hypothesis.distribution import (
    Distribution,
    Hypothesis,
    nowhere,
    to_finite_float,
    to_outside,
    to_weight,
)
from dpsdk.hypothesis.files import Arrays, Flag
from dpsdk.hypothesis.layout import check_written, function_of, pieces
from dpsdk.hypothesis.marginals import Marginals
from dpsdk.hypothesis.seeking import Tilted, inside, move_share
from dpsdk.hypothesis.streams import Streams
from dpsdk.typing import Array, Floats, Ints

__all__ = ["DenseHypothesis"]

CELL_LIMIT = 2**28
"""No dense hypothesis has more cells: 2 GiB."""


class DenseHypothesis(Hypothesis):
    """A distribution as one float64 number a cell, for up to 2^28 cells, changed in place.

    A function that is zero outside a box of cells, such as a conjunction or a cell of a marginal,
    is answered and moved at the cost of that box; a dense one at the cost of a pass or two over
    all cells. No update takes memory for a second array.

    >>> from dpsdk import Domain, Integer
    >>> from dpsdk.forms import Kronecker, LinearForm, Range
    >>> domain = Domain(Integer("age", 17, 90), Integer("hours", 1, 99))
    >>> young = LinearForm(domain, [Kronecker.of(domain, {"age": Range(74, 0, 13)})])
    >>> hypothesis = DenseHypothesis.uniform(domain)
    >>> step = hypothesis.move_to(young, 0.5)
    >>> round(hypothesis.answer(young), 12)
    0.5
    """

    __slots__ = ("_cells", "_marginals", "domain", "outside")

    kind: ClassVar[str] = "dense"
    domain: Domain
    outside: bool

    def __init__(self, domain: Domain, cells: Cells) -> None:
        """Take over the weights of all cells; callers want the class methods."""
        self.domain = domain
        self.outside = cells.beyond is not None
        self._cells = cells
        self._marginals = Marginals(domain.names, domain.shape)

    @classmethod
    def uniform(cls, domain: Domain, *, outside: bool = False) -> Self:
        """The same probability for every cell, the one outside included.

        Raises `TooLarge` if the domain has more than 2^28 cells.
        """
        _limit(domain)
        return cls(domain, Cells(np.ones(domain.shape), 1.0 if outside else None))

    @classmethod
    def product(
        cls, domain: Domain, tables: Mapping[str, Array], outside_mass: float | None = None
    ) -> Self:
        """Independent attributes.

        Raises `TooLarge` if the domain has more than 2^28 cells, and `InvalidArgument` if a table
        does not fit its attribute, or the mass is not in [0, 1).

        Parameters
        ----------
        tables
            For an attribute the weight of each of its cells, not negative and not all zero;
            attributes left out are uniform.
        outside_mass
            The probability of the extra cell; None for a hypothesis without it.
        """
        _limit(domain)
        outside = to_outside(outside_mass)
        array: Floats = np.ones(domain.shape)
        for name, table in tables.items():
            size = domain[name].size
            expected = f"for {name!r} {size} finite weights, not negative, not all zero"
            line = _to_weights("tables", table, size, expected)
            spread = [1] * len(domain.shape)
            spread[domain.position(name)] = size
            array *= (line / line.sum()).reshape(spread)
        return cls(domain, Cells(array, _beside(array, outside)))

    @classmethod
    def from_weights(
        cls, domain: Domain, weights: Array, outside_mass: float | None = None
    ) -> Self:
        """Any distribution, given by weights that are not negative and not all zero.

        Raises `TooLarge` if the domain has more than 2^28 cells, and `InvalidArgument` if the
        weights do not fit the domain, or the mass is not in [0, 1).

        Parameters
        ----------
        weights
            One number a cell, shaped like the domain or flat in the order of its cells; copied.
            A cell of weight zero keeps probability zero, whatever is learnt.
        outside_mass
            The probability of the extra cell; None for a hypothesis without it.
        """
        _limit(domain)
        outside = to_outside(outside_mass)
        expected = f"weights of {domain.size} cells, finite, not negative, not all zero"
        array = _to_weights("weights", weights, domain.size, expected).reshape(domain.shape)
        return cls(domain, Cells(array, _beside(array, outside)))

    @classmethod
    def suits(cls, domain: Domain, /) -> bool:
        """True if starts choose this class for a universe: one of at most 2^28 cells."""
        return domain.size <= CELL_LIMIT

    @classmethod
    def resembling(cls, distribution: Distribution, *, outside: bool) -> Self:
        """A hypothesis with the probabilities of a distribution.

        With `outside` it has the cell outside the domain. Without, what the distribution has there
        is shared out among the others. Raises `TooLarge` if its domain has more than 2^28 cells,
        and `InvalidArgument` if it has no probability inside.
        """
        domain = distribution.domain
        _limit(domain)
        mass = distribution.outside_mass if outside else None
        return cls.from_weights(domain, distribution.table(domain.names), mass)

    @property
    @override
    def outside_mass(self) -> float:
        return self._cells.outside / self._cells.total

    @override
    def answers(self, form: LinearForm) -> Floats:
        self._check(form)
        answers = self._marginals.evaluate(form, self._cells)
        answers /= self._cells.total
        return answers

    @override
    def check(self, form: LinearForm) -> None:
        self._check(form)
        check_written(form)

    @override
    def table(self, names: tuple[str, ...]) -> Floats:
        for name in names:
            self.domain.position(name)
        return self._marginals.table(names, self._cells) / self._cells.total

    @override
    def records(self, names: tuple[str, ...]) -> tuple[Sequence[Ints], Floats]:
        table = self.table(names)
        codes = np.unravel_index(np.arange(table.size), table.shape) if names else ()
        return [code.astype(np.int64, copy=False) for code in codes], table.reshape(-1)

    @override
    def shift(self, form: LinearForm, step: float, answer: float | None = None) -> float:
        self._check_one(form)
        function, step = function_of(form), to_finite_float("step", step)
        if answer is not None and not math.isfinite(answer):
            raise InvalidArgument("answer", "a finite number, or None", shown(answer))
        if step == 0.0 or not function.boxes:
            return 0.0
        if function.weights is not None:
            grown = self._cells.tilt(function, step)
        else:
            known = None if answer is None else answer / function.height
            share = math.exp(self._cells.log_share(function)) if known is None else known
            grown = self._cells.multiply(function, step * function.height, share)
        self._marginals.forget()
        return grown

    @override
    def move_to(self, form: LinearForm, target: float, answer: float | None = None) -> float:
        self._check_one(form)
        wanted, function = to_finite_float("target", target), function_of(form)
        if function.weights is not None:
            return self._tilt_to(form, function.weights, wanted)
        if function.height == 0.0:
            return 0.0
        return move_share(
            self,
            form,
            function.height,
            wanted,
            lambda: min(self._cells.log_share(function), 0.0),
            answer,
        )

    @override
    def kl_cap(self) -> float:
        if self._cells.zeros():
            return math.inf
        return self._cells.log_total - self._cells.ends()[0]

    @override
    def blend(self, weight: float) -> None:
        share = to_weight(weight)
        if share > 0.0:
            self._cells.blend(1.0 - share, share / self._size)
            self._marginals.forget()

    @override
    def copy(self) -> Self:
        return type(self)(self.domain, self._cells.copy())

    def _tilt_to(self, form: LinearForm, weights: Floats, target: float) -> float:
        """`move_to` for a function with more than two values."""
        cells = self._cells
        axes = tuple(axis for axis, size in enumerate(weights.shape) if size == 1)
        (box,) = function_of(form).boxes
        summed = cells.log_sum(box, axes) if cells.logs else cells.sum(box, axes)
        parts = [(values, masses) for masses, values in pieces(summed, weights)]
        tilted = Tilted(parts, cells.logs, cells.log_mass_beside(box))
        low, high = tilted.reach()
        if not low < high:
            return 0.0
        step = tilted.solve(inside(target, self.answer(form), low, high), high - low)
        self.shift(form, step)
        return step

    @override
    def draw(self, streams: Streams) -> Sequence[Ints]:
        chosen: Ints = np.zeros(streams.size, dtype=np.int64)
        codes: list[Ints] = []
        for axis, name in enumerate(self.domain.names):
            # Each attribute given those before it, whose cells are numbered by `chosen`.
            code = self._draw_along(axis, chosen, streams.levels(name))
            codes.append(code)
            chosen = chosen * self.domain.shape[axis] + code
        return codes

    def _draw_along(self, axis: int, before: Ints, levels: Floats) -> Ints:
        """The cells along an attribute, given the cell of all attributes before it."""
        order = np.argsort(before, kind="stable")
        known, starts = np.unique(before[order], return_index=True)
        ends = np.append(starts, len(before))
        codes: Ints = np.empty(len(before), dtype=np.int64)
        first = 0
        for table in self._cells.lines(axis, known):
            last = first + len(table)
            mine = order[ends[first] : ends[last]]
            codes[mine] = _reached(table, ends[first : last + 1] - ends[first], levels[mine])
            first = last
        return codes

    @override
    def parts(self) -> tuple[Mapping[str, Flag], Mapping[str, Floats | Ints]]:
        beyond = self._cells.beyond
        outside = np.array([] if beyond is None else [beyond], dtype=np.float64)
        arrays: dict[str, Floats | Ints] = {
            "weights": self._cells.array.reshape(-1),
            "outside": outside,
        }
        return {"logarithms": self._cells.logs}, arrays

    @classmethod
    @override
    def from_parts(cls, domain: Domain, flags: Mapping[str, object], arrays: Arrays) -> Self:
        logs = flags.get("logarithms")
        if set(arrays) != {"weights", "outside"} or not isinstance(logs, bool):
            raise InvalidArgument("its parts", "weights, outside and logarithms", "others")
        weights, outside = arrays["weights"], arrays["outside"]
        _limit(domain)
        if weights.shape != (domain.size,) or outside.size > 1:
            raise InvalidArgument("its weights", "one number a cell", "another array")
        for numbers in (weights, outside):
            if numbers.dtype != np.float64 or not _sound(numbers, logs=logs):
                raise InvalidArgument("its weights", "finite float64 numbers", "others")
        if not (weights > (-math.inf if logs else 0.0)).any():
            raise InvalidArgument("its weights", "not all zero", "zeros only")
        with np.errstate(over="ignore"):
            total = 0.0 if logs else float(weights.sum()) + float(outside.sum())
        if not math.isfinite(total):
            raise InvalidArgument("its weights", "of a sum that a float holds", "larger ones")
        beyond = float(outside[0]) if outside.size else None
        return cls(domain, Cells(weights.reshape(domain.shape), beyond, logs=logs))


def _reached(table: Floats, ends: Ints, levels: Floats) -> Ints:
    """The first cell of a line at which the share of its weight so far exceeds a level."""
    # All lines are searched at once, by bisection.
    rising: Floats = np.cumsum(table, axis=1)
    totals = rising[:, -1]
    if not (totals > 0.0).all():
        raise nowhere()
    last: Ints = (rising < totals[:, None]).sum(axis=1).astype(np.int64)
    lines = np.repeat(np.arange(len(table)), np.diff(ends))
    wanted = levels * totals[lines]
    low: Ints = np.zeros(len(lines), dtype=np.int64)
    high = last[lines]
    for _ in range(table.shape[1].bit_length()):
        middle = (low + high) // 2
        above = rising[lines, middle] > wanted
        high = np.where(above, middle, high)
        low = np.where(above, low, np.minimum(middle + 1, high))
    return low


def _sound(numbers: Floats, *, logs: bool) -> bool:
    """True if these are finite weights that are not negative, or logarithms of such."""
    if not numbers.size:
        return True
    low, high = float(numbers.min()), float(numbers.max())
    return high < math.inf and (low < math.inf if logs else low >= 0.0)


def _limit(domain: Domain) -> None:
    if domain.size > CELL_LIMIT:
        advice = (
            "declare coarser attributes, ask about fewer of them at a time, or use a "
            "PiecewiseHypothesis where there is one ordered attribute"
        )
        raise TooLarge("a dense hypothesis", domain.size, CELL_LIMIT, "cells", advice)


def _to_weights(parameter: str, weights: Array, size: int, expected: str) -> Floats:
    try:
        result = np.array(weights, dtype=np.float64, order="C")
    except (TypeError, ValueError):
        raise InvalidArgument(parameter, expected, shown(weights)) from None
    if result.size != size:
        raise InvalidArgument(parameter, expected, f"shape {result.shape}")
    total = float(result.sum())
    if not (result.min() >= 0.0 and 0.0 < total < math.inf):
        raise InvalidArgument(parameter, expected, "others")
    return result


def _beside(array: Floats, outside_mass: float | None) -> float | None:
    """The weight of the extra cell that gives it a wanted probability."""
    if outside_mass is None:
        return None
    return float(array.sum()) * outside_mass / (1.0 - outside_mass)
