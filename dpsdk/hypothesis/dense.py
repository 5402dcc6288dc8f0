"""A hypothesis that keeps one number a cell."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence

import numpy as np
from typing_extensions import Self, override

from dpsdk._checks import shown
from dpsdk.domain import Domain
from dpsdk.errors import InvalidArgument, TooLarge
from dpsdk.forms import Dense, LinearForm
from dpsdk.hypothesis.base import Hypothesis, to_outside, to_step, to_weight
from dpsdk.hypothesis.files import Arrays
from dpsdk.hypothesis.layout import CHUNK, Function, function_of, pieces, split
from dpsdk.hypothesis.marginals import Marginals
from dpsdk.hypothesis.tilting import Tilt
from dpsdk.typing import Array, Floats, Ints

__all__ = ["DenseHypothesis"]

CELL_LIMIT = 2**28
"""No dense hypothesis has more cells: 2 GiB."""

_ROOM = 690.0
"""Weights and their sum stay within exp(±_ROOM), well inside what a float64 can tell apart."""

_EPS = 2.0**-52
_DOUBT = 1024 * _EPS
"""The sum of the weights is counted anew before its relative error may exceed this."""


class DenseHypothesis(Hypothesis, kind="dense"):
    """A distribution as one float64 number a cell, up to 2^28 cells, changed in place.

    A function that is zero but on a box of cells moves at the cost of that box; a dense one at
    the cost of a pass or two over the cells. No update takes memory for a second array.

    The numbers are weights: probabilities up to a common factor, whose sum is kept beside them.
    Multiplying rounds a weight by 2^-53 of itself at each update, whatever its size, and bounds
    are kept on how far apart the weights may lie. Before one of them could leave the range of a
    float64, the same array is turned into logarithms in place, slower but without limits, and
    back when the weights have come together again. So nothing is ever lost to underflow.
    """

    __slots__ = (
        "_array", "_beyond", "_doubt", "_high", "_logs", "_low", "_marginals", "_reference",
        "_total", "domain", "outside",
    )  # fmt: skip

    def __init__(self, domain: Domain, weights: Floats, beyond: float | None) -> None:
        """Take over an array of weights; the class methods are what callers want."""
        self.domain = domain
        self.outside = beyond is not None
        self._array = weights
        self._beyond = beyond or 0.0
        self._logs = False
        self._reference = 0.0
        self._marginals = Marginals(domain.names, domain.shape)
        self._count()
        self._low, self._high = self._ends()

    @classmethod
    def uniform(cls, domain: Domain, outside: bool = False) -> Self:  # noqa: FBT001, FBT002 - as the attribute
        """The same probability for every cell, the one outside included.

        Raises
        ------
        TooLarge
            If the domain has more than 2^28 cells.
        """
        _limit(domain)
        return cls(domain, np.ones(domain.shape), 1.0 if outside else None)

    @classmethod
    def product(
        cls, domain: Domain, tables: Mapping[str, Floats], outside_mass: float | None = None
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
        lines = {name: _to_line(domain, name, table) for name, table in tables.items()}
        outside = to_outside(outside_mass)
        array: Floats = np.ones(domain.shape)
        for name, line in lines.items():
            spread = [1] * len(domain.shape)
            spread[domain.position(name)] = len(line)
            array *= line.reshape(spread)
        return cls(domain, array, _beside(float(array.sum()), outside))

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
            A cell of weight zero keeps probability zero whatever is learnt.
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
        array = _to_weights("weights", weights, domain.size).reshape(domain.shape)
        return cls(domain, array, _beside(float(array.sum()), to_outside(outside_mass)))

    @property
    @override
    def outside_mass(self) -> float:
        if not self.outside:
            return 0.0
        return self._weight(self._beyond) / self._total

    @override
    def answers(self, form: LinearForm) -> Floats:
        self._check(form)
        answers = self._marginals.evaluate(form, self._sum, self._flat())
        answers /= self._total
        return answers

    @override
    def table(self, names: tuple[str, ...]) -> Floats:
        result: Floats = self._marginals.table(names, self._sum) / self._total
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
        if step == 0.0 or not function.boxes:
            return
        if answer is not None and not math.isfinite(answer):
            raise InvalidArgument("answer", "a finite number, or None", shown(answer))
        ends = step * function.limits[0], step * function.limits[1], 0.0
        self._make_room(min(ends), max(ends))
        if not function.two_valued:
            before, after = self._multiply_weighted(function, step)
            self._grow((self._total - before + after) / self._total)
        else:
            rise = step * function.height
            known = answer is not None
            share = answer / function.height if known and answer else self._share(function)
            self._multiply(function, rise)
            far = abs(rise) > _ROOM
            growth = math.inf if far else 1.0 + math.expm1(rise) * min(max(share, 0.0), 1.0)
            self._grow(growth)
        self._marginals.forget()

    @override
    def kl_cap(self) -> float:
        low, _ = self._ends()
        return self._log_total() - low if low > -math.inf else math.inf

    @override
    def blend(self, weight: float) -> None:
        share = to_weight(weight)
        if share == 0.0:
            return
        floor = share / self._cells
        kept = (1.0 - share) / self._total
        for _, view in self._chunks():
            view[...] = self._weights(view) * kept + floor
        self._beyond = self._weight(self._beyond) * kept + floor if self.outside else 0.0
        self._logs, self._reference = False, 0.0
        self._refresh()

    @override
    def copy(self) -> Self:
        # Bypassing the constructor spares its passes over the cells.
        twin = object.__new__(type(self))
        for name in type(self).__slots__:
            setattr(twin, name, getattr(self, name))
        twin._array = self._array.copy()
        twin._marginals = Marginals(self.domain.names, self.domain.shape)
        return twin

    @override
    def _draw(self, levels: Floats) -> Sequence[Ints]:
        flat = self._array.reshape(-1)
        starts = range(0, flat.size, CHUNK)
        masses = [float(self._weights(flat[start : start + CHUNK]).sum()) for start in starts]
        ends = np.cumsum(masses)
        if not ends[-1] > 0.0:
            expected = "used only while some cell inside the domain has a probability"
            raise InvalidArgument("sample", expected, "all of it outside")
        wanted = levels * ends[-1]
        chosen = np.searchsorted(ends, wanted, side="right")
        cells = np.empty(len(levels), dtype=np.int64)
        for number in np.unique(chosen):
            rising = np.cumsum(self._weights(flat[number * CHUNK : (number + 1) * CHUNK]))
            mine = chosen == number
            below = wanted[mine] - (ends[number - 1] if number else 0.0)
            last = np.searchsorted(rising, rising[-1])
            found = np.searchsorted(rising, below, side="right")
            cells[mine] = number * CHUNK + np.minimum(found, last)
        return [np.asarray(code) for code in np.unravel_index(cells, self.domain.shape)]

    @override
    def _parts(self) -> tuple[dict[str, bool], dict[str, Floats | Ints]]:
        beyond = [self._beyond] if self.outside else []
        arrays: dict[str, Floats | Ints] = {
            "weights": self._array.reshape(-1), "outside": np.array(beyond, dtype=np.float64),
        }  # fmt: skip
        return {"logarithms": self._logs}, arrays

    @classmethod
    @override
    def _from_parts(cls, domain: Domain, flags: Mapping[str, object], arrays: Arrays) -> Self:
        if set(arrays) != {"weights", "outside"} or set(flags) != {"logarithms"}:
            raise InvalidArgument("the file", "made of weights and an outside", "other parts")
        weights, outside = arrays["weights"], arrays["outside"]
        sizes = weights.dtype == outside.dtype == np.float64 and weights.size == domain.size
        if not sizes or outside.size > 1:
            raise InvalidArgument("weights", "one float64 a cell of the domain", "another array")
        logs = flags["logarithms"] is True
        for start in range(0, weights.size, CHUNK):
            _check_chunk(weights[start : start + CHUNK], logs=logs)
        _check_chunk(outside, logs=logs)
        if not (weights > (-math.inf if logs else 0.0)).any():
            raise InvalidArgument("weights", "not all zero", "zeros only")
        result = cls.__new__(cls)
        result._revive(domain, weights.reshape(domain.shape), outside, logs=logs)
        return result

    def _revive(self, domain: Domain, array: Floats, outside: Floats, *, logs: bool) -> None:
        self.domain, self.outside, self._array = domain, bool(outside.size), array
        self._logs, self._reference = logs, 0.0
        self._beyond = float(outside[0]) if outside.size else (-math.inf if logs else 0.0)
        self._marginals = Marginals(domain.names, domain.shape)
        self._refresh()

    # What the numbers stand for.

    def _weights(self, numbers: Floats) -> Floats:
        """The weights that stored numbers stand for; a copy only of logarithms."""
        return np.exp(numbers - self._reference) if self._logs else numbers

    def _weight(self, number: float) -> float:
        return math.exp(number - self._reference) if self._logs else number

    def _log_total(self) -> float:
        return math.log(self._total) + self._reference

    def _flat(self) -> Floats | None:
        """All weights in a row, if they can be read without a copy."""
        return None if self._logs else self._array.reshape(-1)

    def _chunks(self) -> Iterator[tuple[slice, Floats]]:
        flat = self._array.reshape(-1)
        for start in range(0, flat.size, CHUNK):
            yield slice(start, start + CHUNK), flat[start : start + CHUNK]

    def _sum(self, box: tuple[slice, ...], axes: tuple[int, ...]) -> Floats:
        """Weights of a box summed over the given axes, which keep length 1."""
        view = self._array[box]
        if not self._logs:
            return view.sum(axis=axes, keepdims=True) if axes else view
        result = np.zeros([1 if axis in axes else size for axis, size in enumerate(view.shape)])
        for part in split(view.shape):
            kept = tuple(slice(None) if axis in axes else cut for axis, cut in enumerate(part))
            result[kept] += self._weights(view[part]).sum(axis=axes, keepdims=True)
        return result

    # The sum of all weights, and the bounds.

    def _count(self) -> None:
        """Sum all weights anew; of logarithms the largest becomes the reference."""
        if self._logs:
            self._reference = self._ends()[1]
            inner = math.fsum(float(self._weights(view).sum()) for _, view in self._chunks())
        else:
            inner = float(self._array.sum())
        self._total = inner + (self._weight(self._beyond) if self.outside else 0.0)
        self._doubt = _EPS * 16

    def _ends(self) -> tuple[float, float]:
        """The logarithms of the smallest weight above zero and of the largest."""
        low, high = math.inf, -math.inf
        zero = -math.inf if self._logs else 0.0
        views = [view for _, view in self._chunks()]
        if self.outside:
            views.append(np.array([self._beyond]))
        for view in views:
            high = max(high, float(view.max()))
            least = float(view.min())
            low = min(low, least)
        return self._log_of(low, zero), self._log_of(high, zero)

    def _log_of(self, number: float, zero: float) -> float:
        if number == zero:
            return -math.inf
        return number if self._logs else math.log(number)
