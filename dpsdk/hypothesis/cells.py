"""The weights of all cells: one array, of numbers or of their logarithms."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from copy import copy
from typing import Self, cast

import numpy as np

from dpsdk.hypothesis.layout import CHUNK, Box, Bytes, Function, beside, pieces, split
from dpsdk.typing import Floats, Ints

__all__ = ["Cells"]

_ROOM = 690.0
"""Weights and their sum stay within exp(±_ROOM), inside what float64 holds at full precision."""

_EPS = 2.0**-52
_DOUBT = 1024 * _EPS
"""The total is counted anew before its relative error may exceed this."""

_SURE = 1 / 64
"""Once less than this is left of a total, it is counted anew."""

_SMALL_FACTOR = 0.25
_ROW = 512
_FEW = 8


class Cells:
    """Weights of the cells of a universe, probabilities up to a common factor, and their total."""

    __slots__ = ("_doubt", "_high", "_low", "_reference", "array", "beyond", "logs", "total")

    array: Floats
    logs: bool
    total: float

    def __init__(self, array: Floats, beyond: float | None, *, logs: bool = False) -> None:
        self.array = array
        """Weights, or their logarithms where `logs`; shaped like the domain, in C order."""
        self.beyond = beyond
        """The same for the extra cell; None where there is none."""
        self.logs = logs
        self._reference = 0.0
        self._doubt = 0.0
        self.total = 0.0
        """The sum of all weights, in units of exp(reference)."""
        self._count()
        self._low, self._high = (0.0, 0.0) if logs else self.ends()

    @property
    def log_total(self) -> float:
        """The logarithm of the sum of all weights."""
        return math.log(self.total) + self._reference

    @property
    def outside(self) -> float:
        """The weight of the extra cell."""
        if self.beyond is None:
            return 0.0
        return math.exp(self.beyond - self._reference) if self.logs else self.beyond

    def weights(self, numbers: Floats, reference: float | None = None) -> Floats:
        """The weights that stored numbers stand for: these themselves, unless logarithms."""
        if not self.logs:
            return numbers
        return np.exp(numbers - (self._reference if reference is None else reference))

    def chunks(self) -> Iterator[Floats]:
        """The array in flat pieces, each a view."""
        flat = self.array.reshape(-1)
        return (flat[start : start + CHUNK] for start in range(0, flat.size, CHUNK))

    def mass(self, boxes: Sequence[Box]) -> float:
        """The weight of disjoint boxes."""
        if not self.logs:
            return sum(float(np.add.reduce(self.array[box], axis=None)) for box in boxes)
        every = tuple(range(self.array.ndim))
        return math.fsum(float(self.sum(box, every).sum()) for box in boxes)

    def sum(self, box: Box, axes: tuple[int, ...], reference: float | None = None) -> Floats:
        """Weights of a box summed over the given axes, which keep length 1. A view if none."""
        view = self.array[box]
        # An axis of length 1 is summed as it is, without the copy that summing makes.
        axes = tuple(axis for axis in axes if view.shape[axis] != 1)
        if not self.logs:
            return _sum_over(view, axes) if axes else view
        result = np.zeros([1 if axis in axes else size for axis, size in enumerate(view.shape)])
        for part in split(view.shape):
            kept = tuple(slice(None) if axis in axes else cut for axis, cut in enumerate(part))
            result[kept] += self.weights(view[part], reference).sum(axis=axes, keepdims=True)
        return result

    def lines(self, axis: int, before: Ints) -> Iterator[Floats]:
        """Weights along an axis, for given cells of the axes before it, summed over those after.

        Arrays (lines, cells of the axis), one after the other; the given cells are numbered in C
        order.
        """
        shape = self.array.shape
        lead, size = shape[:axis], shape[axis]
        width = math.prod(shape[axis:])
        if width > CHUNK:
            after = tuple(range(axis + 1, len(shape)))
            for given in before.tolist():
                places: list[int] = (
                    np.array(np.unravel_index(int(given), lead)).tolist() if lead else []
                )
                box = tuple(slice(place, place + 1) for place in places)
                yield self.sum((*box, *[slice(None)] * (len(shape) - axis)), after).reshape(1, size)
            return
        rows = self.array.reshape(-1, width)
        for start in range(0, len(before), max(1, CHUNK // width)):
            part = self.weights(rows[before[start : start + max(1, CHUNK // width)]])
            yield part.reshape(len(part), size, -1).sum(axis=2)

    def ends(self) -> tuple[float, float]:
        """The logarithms of the smallest weight above zero and of the largest."""
        lowest, highest = math.inf, -math.inf
        zero = -math.inf if self.logs else 0.0
        beside = [] if self.beyond is None else [np.array([self.beyond])]
        for numbers in (*self.chunks(), *beside):
            highest = max(highest, float(numbers.max()))
            least = float(numbers.min())
            if least == zero:
                least = float(numbers.min(initial=math.inf, where=numbers > zero))
            lowest = min(lowest, least)
        return (lowest, highest) if self.logs else (math.log(lowest), math.log(highest))

    def zeros(self) -> bool:
        """True if some cell has no weight at all."""
        zero = -math.inf if self.logs else 0.0
        return self.beyond == zero or any(float(part.min()) == zero for part in self.chunks())

    def log_share(self, function: Function) -> float:
        """The logarithm of the part of all weight on which a function of two values is not zero."""
        return self._log_mass(function.boxes, function.chosen) - self.log_total

    def log_mass_beside(self, box: Box) -> float:
        """The logarithm of the weight of all cells that are not in a box."""
        mass = self._log_mass(tuple(beside(box, self.array.shape)), None)
        if self.beyond is None:
            return mass
        beyond = self.beyond if self.logs else _log(self.beyond)
        return float(np.logaddexp(mass, beyond))

    def log_sum(self, box: Box, axes: tuple[int, ...]) -> Floats:
        """The logarithms of sums of weights kept as logarithms, however small they are."""
        view = self.array[box]
        axes = tuple(axis for axis in axes if view.shape[axis] != 1)
        if not axes:
            return view
        tops = view.max(axis=axes, keepdims=True)
        tops[tops == -math.inf] = 0.0
        result = np.zeros(tops.shape)
        for part in split(view.shape):
            kept = tuple(slice(None) if axis in axes else cut for axis, cut in enumerate(part))
            result[kept] += np.exp(view[part] - tops[kept]).sum(axis=axes, keepdims=True)
        with np.errstate(divide="ignore"):
            np.log(result, out=result)
        result += tops
        return result

    def _log_mass(self, boxes: Sequence[Box], chosen: Bytes | None) -> float:
        """The logarithm of the weight of boxes, or of what is chosen in the only one."""
        every = tuple(range(self.array.ndim))
        if chosen is not None:
            axes = tuple(axis for axis in every if chosen.shape[axis] == 1)
            (box,) = boxes
            if self.logs:
                return _log_of_chosen(self.log_sum(box, axes), chosen)
            parts = pieces(self.sum(box, axes), chosen)
            return _log(math.fsum(float(np.vdot(q, ones.astype(np.float64))) for q, ones in parts))
        reference = 0.0
        if self.logs:
            views = [self.array[box] for box in boxes]
            reference = max((float(view.max()) for view in views if view.size), default=-math.inf)
            if reference == -math.inf:
                return -math.inf
        masses = (float(self.sum(box, every, reference).sum()) for box in boxes)
        return _log(math.fsum(masses)) + reference

    def multiply(self, function: Function, rise: float, share: float) -> float:
        """Add `rise` to the logarithm of every weight on which a function of two values is not 0.

        `share` is the part of all weight that these have now. Returns the logarithm of the factor
        by which the total grew.
        """
        self._make_room(min(rise, 0.0), max(rise, 0.0))
        before = self.log_total
        if self.logs:
            self._add(function, rise)
        elif function.chosen is None:
            for box in function.boxes:
                self.array[box] *= math.exp(rise)
        else:
            self._multiply_chosen(self.array[function.boxes[0]], function.chosen, math.exp(rise))
        far = abs(rise) > _ROOM
        grown = math.inf if far else math.expm1(rise) * min(max(share, 0.0), 1.0)
        return self._grow(grown, before)

    def _multiply_chosen(self, view: Floats, chosen: Bytes, factor: float) -> None:
        choices = np.array([1.0, factor])
        for part, ones in pieces(view, chosen):
            # Subtracting 1 and adding it again would leave little of a small factor.
            small = factor < _SMALL_FACTOR
            factors = choices[ones] if small else ones * (factor - 1.0) + 1.0
            np.multiply(part, factors, out=part)

    def tilt(self, function: Function, step: float) -> float:
        """Add `step` times a function with real weights to the logarithm of every weight."""
        ends = step * function.limits[0], step * function.limits[1], 0.0
        self._make_room(min(ends), max(ends))
        before = self.log_total
        if self.logs:
            self._add(function, step)
            return self._grow(math.inf, before)
        old = new = 0.0
        for part, weights in self._weighted(function):
            factors = weights * step
            np.exp(factors, out=factors)
            old += float(part.sum())
            np.multiply(part, factors, out=part)
            new += float(part.sum())
        return self._grow((new - old) / self.total, before)

    def _weighted(self, function: Function) -> Iterator[tuple[Floats, Floats]]:
        """Pieces of the array, each with what a function that is not constant there is."""
        inner = function.weights if function.chosen is None else cast("Floats", function.chosen)
        return iter(()) if inner is None else pieces(self.array[function.boxes[0]], inner)

    def _add(self, function: Function, rise: float) -> None:
        if function.chosen is None and function.weights is None:
            for box in function.boxes:
                self.array[box] += rise
        for part, weights in self._weighted(function):
            np.add(part, weights * rise, out=part)

    def blend(self, kept: float, floor: float) -> None:
        """Make each weight `kept` times its share of the total, plus `floor` above zero."""
        factor = kept / self.total
        for view in self.chunks():
            view[...] = self.weights(view) * factor + floor
        if self.beyond is not None:
            self.beyond = self.outside * factor + floor
        self.logs, self._reference = False, 0.0
        self._count()
        self._low, self._high = self.ends()

    def copy(self) -> Self:
        """Another such array with the same weights."""
        twin = copy(self)
        twin.array = self.array.copy()
        return twin

    def _grow(self, grown: float, before: float) -> float:
        """Note that the total grew by this part of itself; count it where that is unsure."""
        growth = 1.0 + grown
        self._doubt = (self._doubt + 4 * _EPS) / min(growth, 1.0) if growth > 0.0 else math.inf
        self.total *= growth
        if self._doubt <= _DOUBT and 1e-200 < self.total < 1e300:
            return math.log1p(grown)
        raised = self._count()
        return math.log1p(grown) if _SURE < growth < math.inf else self.log_total - raised - before

    def _count(self) -> float:
        """Sum all weights anew, and leave logarithms where they are no longer needed."""
        raised = 0.0
        if self.logs:
            low, high = self.ends()
            if abs(high) > _ROOM:
                # Small logarithms are more precise than large ones.
                self._raise(-high)
                raised = -high
                low, high = low - high, 0.0
            self._reference = high
            if high - low <= _ROOM:
                raised += self._to_weights(low, high)
        if self.logs:
            inner = math.fsum(float(self.weights(view).sum()) for view in self.chunks())
        else:
            inner = float(self.array.sum())
        self.total = inner + self.outside
        self._doubt = 16 * _EPS
        return raised

    def _make_room(self, down: float, up: float) -> None:
        """See that logarithms of weights may change by these without leaving the range."""
        if self.logs:
            return
        room = _ROOM - math.log(self.array.size + 1)
        # The factor of a step must be a float too, not only what comes of it.
        far = max(up, -down) > _ROOM
        if far or self._low + down < -_ROOM or self._high + up > room:
            low, high = self.ends()
            if far or (high + up) - (low + down) > _ROOM + room:
                self._to_logs()
                return
            # A power of two moves all weights into the middle without rounding any.
            power = -round(((low + down) + (high + up) + (_ROOM - room)) / (2 * math.log(2.0)))
            self._scale(power)
            self._low, self._high = (end + power * math.log(2.0) for end in (low, high))
        self._low += down
        self._high += up

    def _scale(self, power: int) -> None:
        np.ldexp(self.array, power, out=self.array)
        self.total = math.ldexp(self.total, power)
        if self.beyond is not None:
            self.beyond = math.ldexp(self.beyond, power)

    def _to_logs(self) -> None:
        with np.errstate(divide="ignore"):
            np.log(self.array, out=self.array)
        if self.beyond is not None:
            self.beyond = _log(self.beyond)
        self._reference = math.log(self.total)
        self.logs, self.total = True, 1.0

    def _raise(self, by: float) -> None:
        self.array += by
        if self.beyond is not None:
            self.beyond += by

    def _to_weights(self, low: float, high: float) -> float:
        middle = (low + high) / 2
        self._raise(-middle)
        np.exp(self.array, out=self.array)
        if self.beyond is not None:
            self.beyond = math.exp(self.beyond)
        self.logs, self._reference = False, 0.0
        self._low, self._high = low - middle, high - middle
        return -middle


def _sum_over(view: Floats, axes: tuple[int, ...]) -> Floats:
    """Sum over axes, which keep length 1; neighbouring ones at once where they lie so."""
    if not view.flags.c_contiguous:
        strided: Floats = view.sum(axis=axes, keepdims=True)
        return strided
    merged: list[int] = []
    gone: list[bool] = []
    for axis, size in enumerate(view.shape):
        if size == 1:
            continue
        if gone and gone[-1] == (axis in axes):
            merged[-1] *= size
        else:
            merged.append(size)
            gone.append(axis in axes)
    reduced = tuple(place for place, out in enumerate(gone) if out)
    kept = [1 if axis in axes else size for axis, size in enumerate(view.shape)]
    if len(merged) > 1 and not gone[-1] and merged[-1] < _ROW:
        # Rows too short to be added at full speed: several are added as one, then to each other.
        rows, width = merged[-2:]
        joint = max(part for part in range(1, _ROW // width + 1) if rows % part == 0)
        if joint * _FEW <= rows:
            folded: Floats = view.reshape(*merged[:-2], rows // joint, joint * width)
            view = np.add.reduce(folded, axis=len(merged) - 2)
            merged[-2] = joint
    result: Floats = np.add.reduce(view.reshape(merged), axis=reduced)
    return np.asarray(result).reshape(kept)


def _log_of_chosen(logs: Floats, chosen: Bytes) -> float:
    """The logarithm of the sum of chosen weights, given their logarithms."""
    parts = [(part, ones == 1) for part, ones in pieces(logs, chosen)]
    top = max(float(part.max(initial=-math.inf, where=some)) for part, some in parts)
    if top == -math.inf:
        return top
    return top + math.log(math.fsum(float(np.exp(part[some] - top).sum()) for part, some in parts))


def _log(weight: float) -> float:
    return math.log(weight) if weight > 0.0 else -math.inf
