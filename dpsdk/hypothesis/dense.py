"""A hypothesis that keeps one number a cell."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Self

import numpy as np
from typing_extensions import override

from dpsdk._checks import shown
from dpsdk.domain import Domain
from dpsdk.errors import InvalidArgument, TooLarge
from dpsdk.forms import LinearForm
from dpsdk.hypothesis.base import Hypothesis, inside, to_outside, to_step, to_weight
from dpsdk.hypothesis.cells import Cells
from dpsdk.hypothesis.files import Arrays
from dpsdk.hypothesis.layout import CHUNK, function_of, pieces
from dpsdk.hypothesis.marginals import Marginals
from dpsdk.hypothesis.tilting import Tilted
from dpsdk.typing import Array, Floats, Ints

__all__ = ["DenseHypothesis"]

CELL_LIMIT = 2**28
"""No dense hypothesis has more cells: 2 GiB."""


class DenseHypothesis(Hypothesis, kind="dense"):
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

        Raises
        ------
        TooLarge
            If the domain has more than 2^28 cells.
        """
        _limit(domain)
        return cls(domain, Cells(np.ones(domain.shape), 1.0 if outside else None))

    @classmethod
    def product(
        cls, domain: Domain, tables: Mapping[str, Array], outside_mass: float | None = None
    ) -> Self:
        """Independent attributes.

        Parameters
        ----------
        domain
            The universe.
        tables
            For an attribute the weight of each of its cells, not negative and not all zero;
            attributes left out are uniform.
        outside_mass
            The probability of the extra cell; None for a hypothesis without it.

        Raises
        ------
        TooLarge
            If the domain has more than 2^28 cells.
        InvalidArgument
            If a table does not fit its attribute, or the mass is not in [0, 1).
        """
        _limit(domain)
        outside = to_outside(outside_mass)
        lines = {name: _to_line(domain, name, table) for name, table in tables.items()}
        array: Floats = np.ones(domain.shape)
        for name, line in lines.items():
            spread = [1] * len(domain.shape)
            spread[domain.position(name)] = len(line)
            array *= line.reshape(spread)
        return cls(domain, Cells(array, _beside(array, outside)))

    @classmethod
    def from_weights(
        cls, domain: Domain, weights: Array, outside_mass: float | None = None
    ) -> Self:
        """Any distribution, given by weights that are not negative and not all zero.

        Parameters
        ----------
        domain
            The universe.
        weights
            One number a cell, shaped like the domain or flat in the order of its cells; copied.
            A cell of weight zero keeps probability zero, whatever is learnt.
        outside_mass
            The probability of the extra cell; None for a hypothesis without it.

        Raises
        ------
        TooLarge
            If the domain has more than 2^28 cells.
        InvalidArgument
            If the weights do not fit the domain, or the mass is not in [0, 1).
        """
        _limit(domain)
        outside = to_outside(outside_mass)
        expected = f"weights of {domain.size} cells, finite, not negative, not all zero"
        array = _to_weights("weights", weights, domain.size, expected).reshape(domain.shape)
        return cls(domain, Cells(array, _beside(array, outside)))

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
    def table(self, names: tuple[str, ...]) -> Floats:
        for name in names:
            self.domain.position(name)
        result: Floats = self._marginals.table(names, self._cells) / self._cells.total
        return result

    @override
    def records(self, names: tuple[str, ...]) -> tuple[Sequence[Ints], Floats]:
        table = self.table(names)
        codes = np.unravel_index(np.arange(table.size), table.shape) if names else ()
        return [code.astype(np.int64, copy=False) for code in codes], table.reshape(-1)

    @override
    def shift(self, form: LinearForm, step: float, answer: float | None = None) -> None:
        self._check_one(form)
        function, step = function_of(form), to_step(step)
        if answer is not None and not math.isfinite(answer):
            raise InvalidArgument("answer", "a finite number, or None", shown(answer))
        if step == 0.0 or not function.boxes:
            return
        if function.weights is not None:
            self._cells.tilt(function, step)
        elif answer is None:
            share = math.exp(self._cells.log_share(function))
            self._cells.multiply(function, step * function.height, share)
        else:
            self._cells.multiply(function, step * function.height, answer / function.height)
        self._marginals.forget()

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

    @override
    def _height(self, form: LinearForm) -> float | None:
        function = function_of(form)
        return function.height if function.weights is None else None

    @override
    def _log_share(self, form: LinearForm) -> float:
        return min(self._cells.log_share(function_of(form)), 0.0)

    @override
    def _move_weighted(self, form: LinearForm, target: float) -> float:
        function = function_of(form)
        weights = function.weights
        if weights is None:
            return 0.0
        cells = self._cells
        axes = tuple(axis for axis, size in enumerate(weights.shape) if size == 1)
        (box,) = function.boxes
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
    def _draw(self, levels: Floats) -> Sequence[Ints]:
        masses = [float(self._cells.weights(view).sum()) for view in self._cells.chunks()]
        ends: Floats = np.cumsum(np.array(masses))
        if not ends[-1] > 0.0:
            expected = "used only while some cell inside the domain has a probability"
            raise InvalidArgument("sample", expected, "none")
        wanted: Floats = levels * float(ends[-1])
        chosen: Ints = ends.searchsorted(wanted, side="right")
        cells = np.empty(len(levels), dtype=np.int64)
        for number, view in enumerate(self._cells.chunks()):
            mine = chosen == number
            if mine.any():
                rising: Floats = np.cumsum(self._cells.weights(view))
                below = wanted[mine] - (ends[number - 1] if number else 0.0)
                found: Ints = rising.searchsorted(below, side="right")
                last = int(rising.searchsorted(float(rising[-1])))
                cells[mine] = number * CHUNK + np.minimum(found, last)
        codes = np.unravel_index(cells, self.domain.shape)
        return [code.astype(np.int64, copy=False) for code in codes]

    @override
    def _parts(self) -> tuple[dict[str, bool], dict[str, Floats | Ints]]:
        beyond = self._cells.beyond
        outside = np.array([] if beyond is None else [beyond], dtype=np.float64)
        arrays: dict[str, Floats | Ints] = {
            "weights": self._cells.array.reshape(-1),
            "outside": outside,
        }
        return {"logarithms": self._cells.logs}, arrays

    @classmethod
    @override
    def _from_parts(cls, domain: Domain, flags: Mapping[str, object], arrays: Arrays) -> Self:
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
        beyond = float(outside[0]) if outside.size else None
        return cls(domain, Cells(weights.reshape(domain.shape), beyond, logs=logs))


def _sound(numbers: Floats, *, logs: bool) -> bool:
    """Whether these are finite weights that are not negative, or logarithms of such."""
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


def _to_line(domain: Domain, name: str, table: Array) -> Floats:
    size = domain[name].size
    expected = f"for {name!r} {size} finite weights, not negative, not all zero"
    line = _to_weights("tables", table, size, expected).reshape(-1)
    line /= line.sum()
    return line


def _beside(array: Floats, outside_mass: float | None) -> float | None:
    """The weight of the extra cell that gives it a wanted probability."""
    if outside_mass is None:
        return None
    return float(array.sum()) * outside_mass / (1.0 - outside_mass)
