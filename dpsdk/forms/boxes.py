"""Many conjunctions on the same attributes: of ranges, by sums over corners; and of any factors."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import TypeAlias

import numpy as np

from dpsdk._records import evolve, field, frozen
from dpsdk.errors import InvalidArgument
from dpsdk.forms.blocks import BLOCK_BYTES, Block, Dense, Kronecker, powered, to_names, to_shape
from dpsdk.forms.canonical import ZERO, Line, head_text, interval_line, line_of, to_number
from dpsdk.forms.corners import CORNER_LIMIT, Corners, counted_within
from dpsdk.forms.factors import Factor, Weights, rounded_half_up, to_weights
from dpsdk.forms.ranges import Range, Ranges, to_ends
from dpsdk.typing import Array, Floats, Ints

__all__ = ["Boxes", "FormBlock", "Products", "worth_boxing"]

_CHUNK = 2**22

_WRITTEN = 2**22
"""So many weights are written out at once where corners do not serve."""


@frozen(eq=False)
class Products(Block):
    """Many one-row Kronecker blocks on the same attributes, evaluated together."""

    names: tuple[str, ...]
    shape: tuple[int, ...]
    matrices: tuple[Floats, ...]

    @classmethod
    def stack(cls, blocks: Sequence[Kronecker]) -> Products:
        """Gather one-row blocks that share their names."""
        matrices: list[Floats] = []
        for axis, size in enumerate(blocks[0].shape):
            factors = [block.factors[axis] for block in blocks]
            spans = [(span.start, span.stop) for f in factors if (span := f.span) is not None]
            if len(spans) == len(factors):
                starts, stops = np.array(spans).T
                cells = np.arange(size)
                inside = (cells >= starts[:, None]) & (cells < stops[:, None])
                matrices.append(inside.astype(np.float64))
            else:
                matrices.append(np.concatenate([factor.matrix() for factor in factors]))
        scales = np.array([block.scale for block in blocks])
        if matrices and not (scales == 1.0).all():
            with np.errstate(over="ignore", invalid="ignore"):  # the reach tells
                matrices[0] = matrices[0] * scales[:, None]
        return cls(blocks[0].names, blocks[0].shape, tuple(matrices))

    @property
    def nbytes(self) -> int:
        return BLOCK_BYTES + sum([matrix.nbytes for matrix in self.matrices])

    @property
    def rows(self) -> int:
        return len(self.matrices[0])

    @property
    def integral(self) -> bool:
        return all(bool((matrix == np.rint(matrix)).all()) for matrix in self.matrices)

    @property
    def reach(self) -> float:
        # As for each of the blocks; a scale is in the first matrix already.
        with np.errstate(over="ignore"):
            most = np.ones(self.rows)
            for matrix in self.matrices:
                most = most * np.maximum(np.abs(matrix).max(axis=1), 1.0)
        return float(most.max())

    def extents(self) -> tuple[Floats, Floats]:
        return self._ends

    @cached_property
    def _ends(self) -> tuple[Floats, Floats]:
        low = high = np.ones(self.rows)
        for matrix in self.matrices:
            ends = matrix.min(axis=1), matrix.max(axis=1)
            corners = [a * b for a in (low, high) for b in ends]
            low, high = np.minimum.reduce(corners), np.maximum.reduce(corners)
        return low, high

    def _chunks(self) -> list[slice]:
        width = max(1, math.prod(self.shape[1:]))
        step = max(1, _CHUNK // width)
        return [slice(start, start + step) for start in range(0, self.rows, step)]

    def answer(self, table: Floats) -> Floats:
        pieces: list[Floats] = []
        for chunk in self._chunks():
            result = self.matrices[0][chunk] @ table.reshape(self.shape[0], -1)
            for matrix, size in zip(self.matrices[1:], self.shape[1:], strict=True):
                rest = result.reshape(len(result), size, -1)
                result = np.einsum("rsm,rs->rm", rest, matrix[chunk])
            pieces.append(result.reshape(-1))
        return np.concatenate(pieces)

    def answer_records(self, codes: Sequence[Ints], counts: Floats) -> Floats:
        answers = np.empty(self.rows)
        for row in range(self.rows):
            weight = counts
            for matrix, code in zip(self.matrices, codes, strict=True):
                weight = weight * matrix[row][code]
            answers[row] = weight.sum()
        return answers

    def columns(self, codes: Sequence[Ints]) -> Floats:
        result = self.matrices[0][:, codes[0]]
        for matrix, code in zip(self.matrices[1:], codes[1:], strict=True):
            result = result * matrix[:, code]
        return result

    def adjoint(self, numbers: Floats) -> Floats:
        total: Floats = np.zeros(self.shape).reshape(self.shape[0], -1)
        first = self.matrices[0] * numbers[:, None]
        for chunk in self._chunks():
            right: Floats = np.ones((len(first[chunk]), 1))
            for matrix in self.matrices[1:]:
                right = (right[:, :, None] * matrix[chunk][:, None, :]).reshape(len(right), -1)
            total += first[chunk].T @ right
        return total.reshape(self.shape)

    def column_norms(self, power: int) -> Floats:
        matrices = tuple([powered(matrix, power) for matrix in self.matrices])
        return Products(self.names, self.shape, matrices).adjoint(np.ones(self.rows))


_Lines: TypeAlias = "tuple[Floats | None, ...]"


def _to_lines(lines: _Lines) -> _Lines:
    return tuple([None if line is None else to_weights(line) for line in lines])


@frozen(eq=False)
class Boxes(Block):
    """Indicators of boxes, each times a scale: one range of cells for each name.

    A box is summed over a table from the running sums at its corners, so its size does not matter,
    and no object stands for a box.
    """

    names: tuple[str, ...] = field(converter=to_names)
    shape: tuple[int, ...] = field(converter=to_shape)
    starts: Ints = field(converter=to_ends)
    """The first cell of each range, shape (names, boxes)."""
    stops: Ints = field(converter=to_ends)
    """The first cell behind each range, which may be empty."""
    scales: Floats = field(converter=to_weights)
    """What each box is worth, shape (boxes,)."""
    lines: _Lines = field(default=(), converter=_to_lines)
    """For each name None, or zeros and ones that say which cells count at all, in every box."""

    def __attrs_post_init__(self) -> None:
        axes = len(self.names)
        boxes = (axes, *self.scales.shape)
        if not axes or len(self.shape) != axes or len(boxes) != 2 or not boxes[1]:
            raise InvalidArgument("boxes", "of one attribute at least, and one box", "none")
        if self.starts.shape != boxes or self.stops.shape != boxes:
            got = f"shapes {self.starts.shape} and {self.stops.shape}"
            raise InvalidArgument("starts and stops", f"of shape {boxes}", got)
        for start, stop, size in zip(self.starts, self.stops, self.shape, strict=True):
            if int(start.min()) < 0 or int(stop.max()) > size or (start > stop).any():
                raise InvalidArgument("starts and stops", f"0 <= start <= stop <= {size}", "others")
        if not self.lines:
            object.__setattr__(self, "lines", (None,) * axes)
        if len(self.lines) != axes:
            raise InvalidArgument("lines", f"{axes}, one a name", str(len(self.lines)))
        for line, size in zip(self.lines, self.shape, strict=True):
            if line is None:
                continue
            if line.shape != (size,) or not ((line == 0) | (line == 1)).all():
                raise InvalidArgument("lines", f"{size} zeros and ones, one a cell", "others")

    @classmethod
    def stack(cls, blocks: Sequence[Kronecker]) -> Boxes:
        """Gather one-row blocks of ranges that share their names."""
        sides = [[(side.start, side.stop) for side in block.span or ()] for block in blocks]
        ends = np.array(sides, dtype=np.int64)
        scales = np.array([block.scale for block in blocks])
        return cls(blocks[0].names, blocks[0].shape, ends[:, :, 0].T, ends[:, :, 1].T, scales)

    @property
    def nbytes(self) -> int:
        arrays = (self.starts, self.stops, self.scales, *self.lines)
        return super().nbytes + sum([array.nbytes for array in arrays if array is not None])

    @property
    def rows(self) -> int:
        return len(self.scales)

    @property
    def whole(self) -> bool:
        """True if every cell of every range counts."""
        return all(line is None for line in self.lines)

    @property
    def counting(self) -> bool:
        return self.whole

    @property
    def ranges(self) -> tuple[Ints, Ints, Floats] | None:
        if len(self.names) > 1 or not self.whole:
            return None
        return self.starts[0], self.stops[0], self.scales

    @property
    def integral(self) -> bool:
        return bool((self.scales == np.rint(self.scales)).all())

    def knots(self, axis: int) -> Ints | None:
        if self.lines[axis] is not None:
            return None
        return Ranges(self.shape[axis], self.starts[axis], self.stops[axis]).knots()

    def at(self, cells: Sequence[Ints | None]) -> Boxes:
        shape, starts, stops = list(self.shape), self.starts.copy(), self.stops.copy()
        for axis, own in enumerate(cells):
            if own is not None:
                shape[axis] = len(own)
                starts[axis] = np.searchsorted(own, starts[axis])
                stops[axis] = np.searchsorted(own, stops[axis])
        return evolve(self, shape=tuple(shape), starts=starts, stops=stops)

    @property
    def reach(self) -> float:
        # Corners are added and subtracted, up to so many whole tables, and the sum is scaled last.
        corners = min(2.0 ** len(self.names), CORNER_LIMIT)
        return max(float(np.abs(self.scales).max()), corners)

    @cached_property
    def counted(self) -> Ints:
        """How many cells count along each name, shape (names, boxes)."""
        counted = self.stops - self.starts
        for axis, line in enumerate(self.lines):
            if line is not None:
                below = np.concatenate([[0], np.cumsum(line)]).astype(np.int64)
                counted[axis] = below[self.stops[axis]] - below[self.starts[axis]]
        counted.flags.writeable = False
        return counted

    @property
    def cells(self) -> Floats:
        """How many cells each box has."""
        return np.asarray(self.counted.astype(np.float64).prod(axis=0))

    def extents(self) -> tuple[Floats, Floats]:
        full = (self.counted == np.array(self.shape)[:, None]).all(axis=0)
        always = np.where(full, self.scales, 0.0)
        somewhere = np.where(self._empty, 0.0, self.scales)
        return np.minimum(always, somewhere), np.maximum(always, somewhere)

    @property
    def _empty(self) -> Array:
        return np.asarray((self.counted == 0).any(axis=0))

    def answer(self, table: Floats) -> Floats:
        for axis, line in enumerate(self.lines):
            if line is not None:
                table = table * _spread(line, axis, table.ndim)
        corners = Corners.best(self.shape, self.rows)
        if corners is None:
            return np.concatenate([part.answer(table) for part in self.products()])
        answers = corners.sums(table, self.starts, self.stops)
        answers *= self.scales
        return answers

    def products(self) -> Iterator[Products]:
        """The boxes as products of lines that are written out, some of them at a time."""
        step = max(1, _WRITTEN // sum(self.shape))
        for start in range(0, self.rows, step):
            (part,) = self.parts(start, start + step)
            matrices: list[Floats] = []
            for axis, size in enumerate(self.shape):
                inside = part._along(axis, np.arange(size)).T
                matrices.append(inside.astype(np.float64, order="C"))
            matrices[0] *= part.scales[:, None]
            yield Products(self.names, self.shape, tuple(matrices))

    def answer_records(self, codes: Sequence[Ints], counts: Floats) -> Floats:
        for line, code in zip(self.lines, codes, strict=True):
            if line is not None:
                counts = counts * line[code]
        answers = counted_within(self.starts, self.stops, codes, counts)
        answers *= self.scales
        return answers

    def _along(self, axis: int, codes: Ints) -> Array:
        """True if cells along one name count, truth values of shape (codes, boxes)."""
        cells = codes[:, None]
        inside: Array = (self.starts[axis] <= cells) & (cells < self.stops[axis])
        line = self.lines[axis]
        if line is not None:
            inside &= line[cells] != 0
        return inside

    def columns(self, codes: Sequence[Ints]) -> Floats:
        inside = self._along(0, codes[0])
        for axis, code in enumerate(codes[1:], start=1):
            inside &= self._along(axis, code)
        return np.asarray((inside * self.scales).T)

    @property
    def steps(self) -> int:
        if Corners.best(self.shape, self.rows) is None:
            return super().steps
        return math.prod(self.shape) * len(self.names) + self.rows * (1 << len(self.names))

    def adjoint(self, numbers: Floats) -> Floats:
        return self._held(numbers * self.scales)

    def column_norms(self, power: int) -> Floats:
        return self._held(self.scales * self.scales if power == 2 else np.abs(self.scales))

    def _held(self, weights: Floats) -> Floats:
        """For each cell the sum of the weights of the boxes in which it counts."""
        corners = Corners.best(self.shape, self.rows)
        if corners is None:
            held = np.zeros(self.shape)
            ones = evolve(self, scales=np.ones(self.rows))
            for products in ones.products():
                held += products.adjoint(weights[: products.rows])
                weights = weights[products.rows :]
            return held
        # Boxes are counted by what changes at their corners, then summed up again. An empty box
        # would add and take away at one corner, which may round off all others.
        kept = ~self._empty
        starts, stops = self.starts, self.stops
        if not kept.all():
            starts, stops, weights = starts[:, kept], stops[:, kept], weights[kept]
        held = np.zeros(self.shape)
        for part in self._parts(weights):
            held += corners.held(part, starts, stops)
        for axis, line in enumerate(self.lines):
            if line is not None:
                held *= _spread(line, axis, held.ndim)
        return held

    def _parts(self, weights: Floats) -> list[Floats]:
        """Weights that add up to these, each small enough for exact sums where all are integers."""
        if not (weights == np.rint(weights)).all():
            return [weights]
        corners = min(2.0 ** len(self.names), CORNER_LIMIT)
        unit = 2.0 ** math.floor(math.log2(2.0**53 / (corners * self.rows)))
        parts: list[Floats] = []
        end = unit
        while weights.any():
            parts.append(np.fmod(weights, end))
            weights, end = weights - parts[-1], end * unit
        return parts

    def rounded(self, bits: int) -> tuple[Boxes, float]:
        scales, change = rounded_half_up(self.scales, bits)
        return evolve(self, scales=scales), change

    def times(self, scale: float) -> Boxes:
        return evolve(self, scales=self.scales * scale)

    def parts(self, start: int, stop: int) -> Iterator[Boxes]:
        some = slice(start, stop)
        ends = self.starts[:, some], self.stops[:, some]
        yield Boxes(self.names, self.shape, *ends, self.scales[some], self.lines)

    def shadow(self, cells: int) -> Boxes | None:
        """The same boxes along some of the names alone, which span at most so many cells.

        Neighbouring cells that no box tells apart are taken for one, and those names are kept that
        then have the fewest. A box that is empty stays so, with a scale of nought. None where even
        one name is too large.
        """
        sides = [self._told_apart(axis) for axis in range(len(self.names))]
        axes, span = list[int](), 1
        for axis in sorted(range(len(sides)), key=lambda axis: sides[axis][0]):
            span *= sides[axis][0]
            if span > cells:
                break
            axes.append(axis)
        if not axes:
            return None
        axes.sort()
        return Boxes(
            tuple([self.names[axis] for axis in axes]),
            tuple([sides[axis][0] for axis in axes]),
            np.stack([sides[axis][1] for axis in axes]),
            np.stack([sides[axis][2] for axis in axes]),
            np.where(self._empty, 0.0, self.scales),
            tuple([self.lines[axis] for axis in axes]),
        )

    def _told_apart(self, axis: int) -> tuple[int, Ints, Ints]:
        """How many runs of cells are told apart along a name, and the ends of boxes in runs."""
        size, starts, stops = self.shape[axis], self.starts[axis], self.stops[axis]
        if self.lines[axis] is not None:
            return size, starts, stops
        ends, runs = np.unique(np.concatenate([starts, stops, [0, size]]), return_inverse=True)
        return len(ends) - 1, runs[: self.rows], runs[self.rows : 2 * self.rows]

    def texts(self, axes: Sequence[int]) -> Iterator[bytes]:
        sides: list[list[Line]] = []
        for place in sorted(range(len(axes)), key=axes.__getitem__):
            # Ranges, each written once, however many boxes share it.
            pairs = np.stack([self.starts[place], self.stops[place]])
            known, chosen = np.unique(pairs, axis=1, return_inverse=True)
            found = [self._side(place, axes[place], *ends) for ends in known.T.tolist()]
            sides.append([found[number] for number in chosen.reshape(-1).tolist()])
        texts = {scale: head_text(to_number(scale)) for scale in set(self.scales.tolist())}
        for scale, *lines in zip(self.scales.tolist(), *sides, strict=True):
            if not scale or any(own == ZERO for own, _ in lines):
                yield head_text(ZERO)
            else:
                yield texts[scale] + b"".join([text for _, text in lines])

    def _side(self, place: int, axis: int, start: int, stop: int) -> Line:
        line, size = self.lines[place], self.shape[place]
        if line is None or start >= stop:
            return interval_line(axis, size, start, stop)
        weights = np.zeros(size)
        weights[start:stop] = line[start:stop]
        return line_of(weights, axis)

    def row(self, number: int) -> Kronecker:
        factors: list[Factor] = []
        for axis, (size, line) in enumerate(zip(self.shape, self.lines, strict=True)):
            start, stop = int(self.starts[axis, number]), int(self.stops[axis, number])
            if line is None:
                factors.append(Range(size, start, stop))
            else:
                weights = np.zeros((1, size))
                weights[0, start:stop] = line[start:stop]
                factors.append(Weights(weights))
        return Kronecker(self.names, tuple(factors), float(self.scales[number]))


FormBlock: TypeAlias = Kronecker | Dense | Boxes
"""The blocks that forms are made of."""


def _spread(line: Floats, axis: int, axes: int) -> Floats:
    return line.reshape([len(line) if place == axis else 1 for place in range(axes)])


def worth_boxing(block: Kronecker) -> bool:
    """True if corners are fewer than cells, and few."""
    corners = 2 ** len(block.names)
    return block.span is not None and corners <= min(CORNER_LIMIT, math.prod(block.shape))
