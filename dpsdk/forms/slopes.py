"""Gradients of linear models over any number of attributes, as integers of each record.

A record with the feature vector x and the label y weighs T(y, ⟨θ, x⟩) · x: a slope of a loss, times
its features. All three are integers, so that the sum over a table does not depend on the order of
its rows, and neither the joint cells of the attributes nor the feature vectors are written out.
docs/explanation/proofs/slopes.md has what one row can move.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from hashlib import sha256
from typing import TYPE_CHECKING, Protocol, cast, runtime_checkable

import numpy as np

from dpsdk._arrays import Lasting, frozen_copy
from dpsdk._checks import shown
from dpsdk._records import evolve, field, frozen
from dpsdk.errors import InvalidArgument, TooLarge
from dpsdk.forms.blocks import BLOCK_BYTES, Block, numbered, to_names, to_shape
from dpsdk.forms.facts import Facts
from dpsdk.forms.move import Move
from dpsdk.typing import Array, Bools, Floats, Ints

if TYPE_CHECKING:
    from dpsdk.forms.boxes import FormBlock

__all__ = ["FeatureAxis", "Gradient", "InPieces", "Slopes", "move_of", "split"]

FEATURE_BITS = 14
THETA_BITS = 16
SLOPE_BITS = 12
"""Features, coefficients and slopes are whole numbers of steps of 2 to the minus so many."""

AXIS_LIMIT = 2**16
"""No axis has more cells, nor a slope more levels."""

FARTHEST = 2.0**20
"""No margin or slope is larger."""

LEVEL_BITS = 16
"""Margins have at most 2 to so many levels, and more than half as many where that is too few."""

_PIECE = 2**13
"""So many records are looked at together."""

_PAIRED = 2**10
"""Up to so many cells of an axis, all pairs are compared."""

_LABELS = 2**6
"""Up to so many labels, all pairs are compared."""

_EXACT = 2.0**52
"""Half of what floats hold exactly, since it is compared with a sum that they rounded."""


def _to_integers(values: Array) -> Ints:
    given = np.asarray(values)
    if given.dtype.kind not in "iu":
        raise InvalidArgument("features", "arrays of integers", shown(given.dtype))
    kept: Ints = given.astype(np.int64)
    kept.flags.writeable = False
    return kept


def _to_kinds(values: Array | None) -> Ints | None:
    return None if values is None else _to_integers(values)


@runtime_checkable
class InPieces(Protocol):
    """Counted records that are given some at a time."""

    def pieces(self, names: tuple[str, ...], rows: int) -> Iterator[tuple[Sequence[Ints], Floats]]:
        """Cell numbers along each named attribute, and counts, of so many records at a time."""
        ...


@frozen(eq=False)
class FeatureAxis(Lasting):
    """Features along attributes that they share: for each cell of these a row of integers.

    Parameters
    ----------
    names, shape
        The attributes, and how many cells each has.
    known
        How many of these are labels, at most 2^16 together. A record in any other has no weight.
    features
        An array (labels, features), in steps of the form that it belongs to.
    """

    names: tuple[str, ...] = field(converter=to_names)
    shape: tuple[int, ...] = field(converter=to_shape)
    known: tuple[int, ...] = field(converter=to_shape)
    features: Ints = field(converter=_to_integers, repr=False)

    def __attrs_post_init__(self) -> None:
        cells = math.prod(self.known)
        if cells > AXIS_LIMIT:
            advice = "take coarser labels, or fewer attributes in one feature"
            raise TooLarge("the attributes of a feature", cells, AXIS_LIMIT, "cells", advice)
        if self.features.ndim != 2 or len(self.features) != cells:
            expected = f"an array of shape ({cells}, features)"
            raise InvalidArgument("features", expected, f"shape {self.features.shape}")

    @cached_property
    def numbers(self) -> Floats:
        """The features as floats, whose sums of products are exact while they stay below 2^53."""
        return frozen_copy(self.features.astype(np.float64))

    @cached_property
    def sizes(self) -> tuple[float, float, float, float]:
        """Bounds of the cells, in that order.

        Their largest squared length, their largest sum of absolute features, the least scalar
        product of two of them, or less, and the largest feature.
        """
        numbers = self.numbers
        square = float(np.square(numbers).sum(axis=1).max())
        total = float(np.abs(numbers).sum(axis=1).max())
        return square, total, _least_product(numbers), float(np.abs(numbers).max())

    def margins(self, theta: Ints) -> Ints:
        """⟨θ, x⟩ of each cell, for the θ of these features."""
        return (self.numbers @ theta.astype(np.float64)).astype(np.int64)


@frozen(eq=False)
class Gradient(Block):
    """The gradient of linear models at a public θ, which is answered from records.

    A form has such blocks alone. Weights are integers whatever the loss: those of a record are its
    features times slopes, which follow from its margins and its label.

    Parameters
    ----------
    axes
        The features, which are numbered through the axes.
    theta
        A whole number of steps for each feature.
    label, labels
        The attribute of the label, and how many cells it has.
    order
        For each number of the answer the feature that it belongs to.
    """

    axes: tuple[FeatureAxis, ...]
    theta: Ints = field(converter=_to_integers, repr=False)
    label: str
    labels: int
    order: Ints = field(converter=_to_integers, repr=False)

    @cached_property
    def names(self) -> tuple[str, ...]:  # type: ignore[override]  # derived here, a field elsewhere
        return (*[name for axis in self.axes for name in axis.names], self.label)

    @cached_property
    def shape(self) -> tuple[int, ...]:  # type: ignore[override]  # derived here, a field elsewhere
        return (*[size for axis in self.axes for size in axis.shape], self.labels)

    @property
    def integral(self) -> bool:
        return True

    @property
    @abstractmethod
    def models(self) -> int:
        """How many models there are, one after the other."""

    @property
    @abstractmethod
    def ends(self) -> tuple[float, float]:
        """The smallest and the largest slope, at most and at least 0."""

    @abstractmethod
    def weighed(self, codes: Sequence[Ints]) -> tuple[Ints, list[Ints]]:
        """The slopes of each record, a row for each model, and its cell along each axis."""

    @property
    def rows(self) -> int:
        return len(self.order) * self.models

    @property
    def nbytes(self) -> int:
        arrays = [self.theta, self.order, *[axis.features for axis in self.axes]]
        return BLOCK_BYTES + sum([array.nbytes for array in arrays])

    def extents(self) -> tuple[Floats, Floats]:
        least = np.concatenate([axis.numbers.min(axis=0) for axis in self.axes])
        most = np.concatenate([axis.numbers.max(axis=0) for axis in self.axes])
        corners = np.array([end * slope for end in (least, most) for slope in self.ends])
        low, high = corners.min(axis=0)[self.order], corners.max(axis=0)[self.order]
        return np.tile(low, self.models), np.tile(high, self.models)

    def columns(self, codes: Sequence[Ints]) -> Floats:
        slopes, cells = self.weighed(codes)
        features = [axis.numbers[cell] for axis, cell in zip(self.axes, cells, strict=True)]
        joint = np.concatenate(features, axis=1).T[self.order]
        return np.concatenate([joint * own for own in slopes])

    def answer(self, table: Floats) -> Floats:
        flat = table.reshape(-1)
        there = np.flatnonzero(flat)
        codes = np.unravel_index(there, self.shape)
        return self.answer_records([code.astype(np.int64) for code in codes], flat[there])

    def answer_records(self, codes: Sequence[Ints], counts: Floats) -> Floats:
        slopes, cells = self.weighed(codes)
        answers = np.empty((self.models, len(self.order)))
        for answer, own in zip(answers, slopes, strict=True):
            weights: Floats = own * counts
            # Every partial sum is an integer below 2^53, so that the order does not matter.
            sums = [
                np.bincount(cell, weights=weights, minlength=len(axis.numbers)) @ axis.numbers
                for axis, cell in zip(self.axes, cells, strict=True)
            ]
            answer[:] = np.concatenate(sums)[self.order]
        return answers.reshape(-1)

    def evaluate(self, counts: InPieces) -> Floats:
        """The functions summed over counted records, some at a time, so that they stay in caches.

        All sums are integers, so that it does not matter which are together.
        """
        pieces = counts.pieces(self.names, _PIECE)
        return sum([self.answer_records(*piece) for piece in pieces], np.zeros(self.rows))

    def cells_of(self, codes: Sequence[Ints], known: int) -> tuple[Bools, list[Ints]]:
        """Which records have all values, the label among the first `known`; and their cells."""
        inside = codes[-1] < known
        cells: list[Ints] = []
        start = 0
        for axis in self.axes:
            own = list(codes[start : start + len(axis.names)])
            start += len(axis.names)
            for place, (labels, size) in enumerate(zip(axis.known, axis.shape, strict=True)):
                if labels < size:
                    there = own[place] < labels
                    inside, own[place] = inside & there, np.where(there, own[place], 0)
            cells.append(own[0] if len(own) == 1 else numbered(own, axis.known, len(codes[-1])))
        return inside, cells

    def margins_of(self, theta: Ints) -> list[Ints]:
        """The margins of one model in each cell of each axis."""
        pairs = zip(split(theta, self.axes), self.axes, strict=True)
        return [axis.margins(part) for part, axis in pairs]

    def check_margins(self, theta: Ints) -> None:
        """Refuse coefficients of one model whose margins floats would round."""
        parts = zip(split(theta, self.axes), self.axes, strict=True)
        reach = sum(
            [(np.abs(axis.numbers) @ np.abs(part)).max(initial=0.0) for part, axis in parts]
        )
        if reach >= _EXACT:
            expected = "coefficients and features of margins below 2^52 steps"
            raise InvalidArgument("theta", expected, f"up to {reach:.3g}")

    def digest(
        self, heading: bytes, axes: Sequence[int], ends: object, arrays: Sequence[Ints]
    ) -> bytes:
        """A digest of the whole block, whose functions differ in their places alone."""
        whole = sha256(heading + b"\0")
        known = [(axis.names, axis.shape, axis.known, axis.features.shape) for axis in self.axes]
        whole.update(repr((list(axes), known, ends)).encode())
        features = [axis.features for axis in self.axes]
        for array in (self.theta, arrays[0], *features, *arrays[1:]):
            whole.update(array.astype("<i8").tobytes())
        return whole.digest()


@frozen(eq=False)
class Slopes(Gradient):
    """The gradient of one model, whose slopes were rounded: the level of a margin chooses one.

    Parameters
    ----------
    slopes
        Of each label and level of the margin, an array of integers. Cells of the label beyond its
        rows have no weight, or those beyond the `kinds`.
    low, shift
        The level of a margin z is (z - low) >> shift.
    kinds
        For each label its row of `slopes`; if left out, each has one.
    """

    slopes: Ints = field(converter=_to_integers, repr=False)
    low: int
    shift: int
    kinds: Ints | None = field(default=None, converter=_to_kinds, repr=False)

    @classmethod
    def of(
        cls,
        axes: Sequence[FeatureAxis],
        theta: Ints,
        label: str,
        labels: int,
        slope: Callable[[Floats], Ints],
        order: Ints,
        kinds: Ints | None = None,
    ) -> Slopes:
        """Tabulate a slope, which is asked of at most 2^16 margins, in steps, of each label."""
        low = high = 0
        for part, axis in zip(split(theta, axes), axes, strict=True):
            margins = axis.margins(part)
            low, high = low + int(margins.min()), high + int(margins.max())
        shift = max(0, (high - low).bit_length() - LEVEL_BITS)
        levels = ((high - low) >> shift) + 1
        middles = low + (np.arange(levels, dtype=np.int64) << shift) + ((1 << shift) >> 1)
        table = slope(middles.astype(np.float64))
        return cls(tuple(axes), theta, label, labels, order, table, low, shift, kinds)

    def __attrs_post_init__(self) -> None:
        features = sum([axis.features.shape[1] for axis in self.axes])
        if self.theta.shape != (features,) or sorted(self.order.tolist()) != [*range(features)]:
            raise InvalidArgument("theta", f"{features} integers", f"shape {self.theta.shape}")
        if self.slopes.ndim != 2 or not 0 < len(self._rows) <= self.labels:
            expected = f"an array of at most {self.labels} rows"
            raise InvalidArgument("slopes", expected, f"shape {self.slopes.shape}")
        if self.kinds is not None and not np.isin(self.kinds, np.arange(len(self.slopes))).all():
            raise InvalidArgument("kinds", "rows of slopes", shown(self.kinds))
        self.check_margins(self.theta)

    @property
    def models(self) -> int:
        return 1

    @property
    def nbytes(self) -> int:
        return super().nbytes + self.slopes.nbytes

    @property
    def _rows(self) -> Ints:
        """For each label with weights its row of the slopes."""
        return np.arange(len(self.slopes)) if self.kinds is None else self.kinds

    @cached_property
    def label_ends(self) -> tuple[Floats, Floats]:
        """The smallest and the largest slope of each label, and 0."""
        low, high = self.slopes.min(axis=1)[self._rows], self.slopes.max(axis=1)[self._rows]
        return np.minimum(low, 0).astype(np.float64), np.maximum(high, 0).astype(np.float64)

    @property
    def ends(self) -> tuple[float, float]:
        low, high = self.label_ends
        return float(low.min()), float(high.max())

    def move(self, facts: Facts) -> Move:
        return move_of([self], facts)

    @cached_property
    def _margins(self) -> list[Ints]:
        """The margin of each cell of each axis."""
        return self.margins_of(self.theta)

    def weighed(self, codes: Sequence[Ints]) -> tuple[Ints, list[Ints]]:
        labels, rows = codes[-1], self._rows
        inside, cells = self.cells_of(codes, len(rows))
        margins = np.full(len(labels), -self.low, dtype=np.int64)
        for cell, table in zip(cells, self._margins, strict=True):
            margins += table.take(cell)
        levels = np.clip(margins >> self.shift, 0, self.slopes.shape[1] - 1)
        slopes = self.slopes[rows[np.where(inside, labels, 0)], levels]
        return np.where(inside, slopes, 0)[None, :], cells

    def rounded(self, bits: int) -> tuple[FormBlock, float]:
        return cast("FormBlock", evolve(self, slopes=self.slopes << bits)), 0.0

    def texts(self, axes: Sequence[int]) -> Iterator[bytes]:
        ends = self.label, self.labels, self.slopes.shape, self.low, self.shift
        kinds = [] if self.kinds is None else [self.kinds]
        digest = self.digest(b"dpsdk slopes 1", axes, ends, [self.slopes, *kinds])
        for feature in self.order.tolist():
            yield b"slopes 1;%b;%x" % (digest, feature)


def move_of(blocks: Sequence[Slopes], facts: Facts) -> Move:
    """How far one row moves gradients at once: theorem 1 of docs/explanation/proofs/slopes.md.

    Where several depend on one label, what a row adds to all of them is bounded label by label.
    """
    labels = {(block.label, len(block.label_ends[0])) for block in blocks}
    paired = len(blocks) > 1 and len(labels) == 1 and max(labels)[1] <= _LABELS
    total = squared = np.zeros(1)
    largest = 0.0
    for block in blocks:
        low, high = block.label_ends
        if not paired:
            low, high = low.min(keepdims=True), high.max(keepdims=True)
        slopes = np.maximum(-low, high)
        sizes = [axis.sizes for axis in block.axes]
        square, length, least = [sum([own[place] for own in sizes]) for place in range(3)]
        total = total + slopes * length
        largest = max(largest, float(slopes.max()) * max([own[3] for own in sizes]))
        if not facts.replaced:
            squared = squared + slopes**2 * square
            continue
        opposite = high[:, None] - low
        alike = np.maximum(np.add.outer(high**2, high**2), np.add.outer(low**2, low**2))
        both = alike * (square + max(0.0, -least))
        squared = squared + np.maximum(np.maximum(opposite, opposite.T) ** 2 * square, both)
    times = 2 if facts.replaced else 1
    return Move(times * float(total.max()), float(squared.max()), times * largest, exact=False)


def split(theta: Ints, axes: Sequence[FeatureAxis]) -> list[Ints]:
    """The coefficients of one model, axis by axis."""
    ends = np.cumsum([axis.features.shape[1] for axis in axes])[:-1]
    return np.split(theta, ends)


def _least_product(rows: Floats) -> float:
    """The least scalar product of two rows, or less."""
    if len(rows) <= _PAIRED:
        return float((rows @ rows.T).min())
    return 0.0 if (rows >= 0).all() else -float(np.square(rows).sum(axis=1).max())
