"""The weights of all cells: one array, of numbers or of their logarithms."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Self

import numpy as np

from dpsdk.hypothesis.layout import CHUNK, Box, Function, pieces, split
from dpsdk.typing import Array, Floats

__all__ = ["Cells"]

_ROOM = 690.0
"""Weights and their sum stay within exp(±_ROOM), inside what float64 holds at full precision."""

_EPS = 2.0**-52
_DOUBT = 1024 * _EPS
"""The total is counted anew before its relative error may exceed this."""

_SMALL_FACTOR = 0.25


class Cells:
    """Weights of the cells of a universe, probabilities up to a common factor, and their total.

    Multiplying rounds a weight by 2^-53 of itself, whatever its size, which is finer than adding
    to a logarithm; so weights are kept as they are while they fit. Bounds say how far apart they
    may lie by now. Before one could leave the range of a float64 the same array is turned into
    logarithms, and back once the weights have come together again: nothing is lost to underflow,
    and there is never a second array.
    """

    __slots__ = ("_doubt", "_high", "_low", "_reference", "array", "beyond", "logs", "total")

    def __init__(self, array: Floats, beyond: float | None, *, logs: bool = False) -> None:
        self.array = array
        """Weights, or their logarithms where `logs`; shaped like the domain, in C order."""
        self.beyond = beyond
        """The same for the extra cell; None where there is none."""
        self.logs = logs
        self._reference = 0.0
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

    def sum(self, box: Box, axes: tuple[int, ...], reference: float | None = None) -> Floats:
        """Weights of a box summed over the given axes, which keep length 1. A view if none."""
        view = self.array[box]
        if not self.logs:
            return view.sum(axis=axes, keepdims=True) if axes else view
        result = np.zeros([1 if axis in axes else size for axis, size in enumerate(view.shape)])
        for part in split(view.shape):
            kept = tuple(slice(None) if axis in axes else cut for axis, cut in enumerate(part))
            result[kept] += self.weights(view[part], reference).sum(axis=axes, keepdims=True)
        return result

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
        """Whether some cell has no weight at all."""
        zero = -math.inf if self.logs else 0.0
        return self.beyond == zero or any(float(part.min()) == zero for part in self.chunks())

    def log_share(self, function: Function) -> float:
        """The logarithm of the part of all weight on which a function of two values is not zero."""
        views = [self.array[box] for box in function.boxes]
        reference = max((float(view.max()) for view in views if view.size), default=-math.inf)
        if not self.logs:
            reference = 0.0
        if reference == -math.inf:
            return -math.inf
        mass = self._mass(function, reference)
        return math.log(mass) + reference - self.log_total if mass > 0.0 else -math.inf

    def _mass(self, function: Function, reference: float) -> float:
        every = tuple(range(self.array.ndim))
        inner = function.inner
        if inner is None:
            return math.fsum(float(self.sum(b, every, reference).sum()) for b in function.boxes)
        (box,) = function.boxes
        axes = tuple(axis for axis in every if inner.shape[axis] == 1)
        if math.prod(self.array[box].shape[axis] for axis in axes) > 1:
            parts = pieces(self.sum(box, axes, reference), inner)
        else:
            views = pieces(self.array[box], inner)
            parts = ((self.weights(view, reference), ones) for view, ones in views)
        return math.fsum(float(np.vdot(part, ones.astype(np.float64))) for part, ones in parts)

    def multiply(self, function: Function, rise: float, share: float) -> None:
        """Add `rise` to the logarithm of every weight on which a function of two values is not 0.

        `share` is the part of all weight that these have now.
        """
        self._make_room(min(rise, 0.0), max(rise, 0.0))
        if self.logs:
            self._add(function, rise)
        elif function.inner is None:
            factor = math.exp(rise)
            for box in function.boxes:
                view = self.array[box]
                np.multiply(view, factor, out=view)
        else:
            self._multiply_chosen(self.array[function.boxes[0]], function.inner, math.exp(rise))
        far = abs(rise) > _ROOM
        self._grow(math.inf if far else 1.0 + math.expm1(rise) * min(max(share, 0.0), 1.0))

    def _multiply_chosen(self, view: Floats, inner: Array, factor: float) -> None:
        scratch: Floats = np.empty(min(CHUNK, inner.size))
        choices = np.array([1.0, factor])
        for part, ones in pieces(view, inner):
            factors = scratch[: ones.size].reshape(ones.shape)
            if factor < _SMALL_FACTOR:
                # Subtracting 1 and adding it again would leave little of a small factor.
                np.take(choices, ones, out=factors, mode="clip")
            else:
                np.copyto(factors, ones)
                factors *= factor - 1.0
                factors += 1.0
            part *= factors

    def tilt(self, function: Function, step: float) -> None:
        """Add `step` times the function to the logarithm of every weight."""
        ends = step * function.limits[0], step * function.limits[1], 0.0
        self._make_room(min(ends), max(ends))
        if self.logs:
            self._add(function, step * function.height)
            self._count()
            return
        (box,) = function.boxes
        inner = function.inner
        assert inner is not None  # noqa: S101 - only functions with two values lack it
        scratch: Floats = np.empty(min(CHUNK, inner.size))
        before = after = 0.0
        for part, weights in pieces(self.array[box], inner):
            factors = scratch[: weights.size].reshape(weights.shape)
            np.multiply(weights, step * function.height, out=factors)
            np.exp(factors, out=factors)
            before += float(part.sum())
            part *= factors
            after += float(part.sum())
        self._grow((self.total - before + after) / self.total)

    def _add(self, function: Function, rise: float) -> None:
        for box in function.boxes:
            view = self.array[box]
            if function.inner is None:
                view += rise
            else:
                for part, weights in pieces(view, function.inner):
                    part += weights * rise

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
        twin = object.__new__(type(self))
        for name in self.__slots__:
            setattr(twin, name, getattr(self, name))
        twin.array = self.array.copy()
        return twin

    def _grow(self, growth: float) -> None:
        """Take note that the total was multiplied by this; count it where that is too unsure."""
        self._doubt = (self._doubt + 4 * _EPS) / min(growth, 1.0) if growth > 0.0 else math.inf
        self.total *= growth
        if not (self._doubt <= _DOUBT and 1e-200 < self.total < 1e300):
            self._count()

    def _count(self) -> None:
        """Sum all weights anew, and leave logarithms where they are no longer needed."""
        if self.logs:
            low, high = self.ends()
            self._reference = high
            if high - low <= _ROOM:
                self._to_weights(low, high)
        if self.logs:
            inner = math.fsum(float(self.weights(view).sum()) for view in self.chunks())
        else:
            inner = float(self.array.sum())
        self.total = inner + self.outside
        self._doubt = 16 * _EPS

    def _make_room(self, down: float, up: float) -> None:
        """See that logarithms of weights may change by these without leaving the range."""
        if self.logs:
            return
        room = _ROOM - math.log(self.array.size + 1)
        if self._low + down < -_ROOM or self._high + up > room:
            low, high = self.ends()
            if (high + up) - (low + down) > _ROOM + room:
                self._to_logs()
                return
            # A power of two moves all weights into the middle without rounding any.
            power = -round(((low + down) + (high + up) + (_ROOM - room)) / (2 * math.log(2.0)))
            self._scale(math.ldexp(1.0, power))
            self._low, self._high = (end + power * math.log(2.0) for end in (low, high))
        self._low += down
        self._high += up

    def _scale(self, factor: float) -> None:
        self.array *= factor
        self.total *= factor
        if self.beyond is not None:
            self.beyond *= factor

    def _to_logs(self) -> None:
        with np.errstate(divide="ignore"):
            for view in self.chunks():
                np.log(view, out=view)
        if self.beyond is not None:
            self.beyond = math.log(self.beyond) if self.beyond > 0.0 else -math.inf
        self._reference = math.log(self.total)
        self.logs, self.total = True, 1.0

    def _to_weights(self, low: float, high: float) -> None:
        middle = (low + high) / 2
        for view in self.chunks():
            view -= middle
            np.exp(view, out=view)
        if self.beyond is not None:
            self.beyond = math.exp(self.beyond - middle)
        self.logs, self._reference = False, 0.0
        self._low, self._high = low - middle, high - middle
