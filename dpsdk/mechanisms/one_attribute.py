"""Mechanisms that measure one ordered attribute once: what its functions weigh of the numbers.

Most functions on such an attribute count runs of neighbouring cells.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Sequence
from fractions import Fraction
from typing import Protocol, TypeAlias

import numpy as np

from dpsdk._checks import shown, to_name
from dpsdk._records import field, frozen
from dpsdk.forms import Facts, FormBlock, LinearForm
from dpsdk.kernel import Noise, Terms
from dpsdk.kernel.terms import facts_of
from dpsdk.mechanisms.arguments import describe_total, epsilon_if_given, rho_if_given, to_zero_delta
from dpsdk.mechanisms.linear_accuracy import Combination
from dpsdk.mechanisms.measured_once import CellEstimates, LeastSquares, Stack
from dpsdk.mechanisms.strategy_matrix import Cells, StrategyMatrix
from dpsdk.release import NoiseAccuracy
from dpsdk.typing import Floats, Ints

__all__ = ["Line", "OneAttribute", "combined_over"]

_WEIGHTS = 2**21
"""So many weights of functions are written out at a time."""

_RUNS = 2**16
"""So many runs are worked out at a time."""

_Runs: TypeAlias = tuple[Ints, Ints, Floats]


class Line(Protocol):
    """Estimates of the cells of one attribute from measured numbers."""

    def runs(self, starts: Ints, stops: Ints, /) -> Combination:
        """The weights of the measured numbers in the counts of runs of cells, none empty.

        From each start up to, not including, its stop.
        """
        ...

    def adjoint(self, weights: Floats, /) -> Floats:
        """The weights (functions, numbers) of the measured numbers, from (functions, cells)."""
        ...


def combined_over(line: Line, form: LinearForm, size: int) -> Combination:
    """The weights of the measured numbers in the answers to a form on one attribute of such size.

    Functions that count a run take what their line needs for it; the weights of others are written
    out, in time that grows with their number times that of cells.
    """
    squares, peaks, counts = np.zeros((3, form.rows))
    counted: list[tuple[Ints, _Runs]] = []
    others: list[tuple[Ints, FormBlock]] = []
    place = 0
    for block in form.blocks:
        places = np.arange(place, place + block.rows)
        place += block.rows
        if (found := runs_of(block, size)) is None:
            others.append((places, block))
        else:
            counted.append((places, found))
    if counted:
        rows = np.concatenate([places for places, _ in counted])
        starts = np.concatenate([starts for _, (starts, _, _) in counted])
        stops = np.concatenate([stops for _, (_, stops, _) in counted])
        scales = np.concatenate([scales for _, (_, _, scales) in counted])
        there = np.flatnonzero((starts < stops) & (scales != 0))
        for first in range(0, len(there), _RUNS):
            taken = there[first : first + _RUNS]
            part = line.runs(starts[taken], stops[taken])
            squares[rows[taken]] = part.squares * scales[taken] ** 2
            peaks[rows[taken]] = part.peaks * np.abs(scales[taken])
            counts[rows[taken]] = part.counts
    if others:
        rows = np.concatenate([places for places, _ in others])
        parts = [Combination.of(line.adjoint(part)) for part in _parts(others, size)]
        whole = Combination.stack(parts)
        squares[rows], peaks[rows], counts[rows] = whole.squares, whole.peaks, whole.counts
    return Combination(squares, peaks, counts)


def runs_of(block: FormBlock, size: int) -> _Runs | None:
    """Starts and stops of the runs that a block on one attribute counts, and what each is worth.

    None if it is none of the blocks that are known to count runs.
    """
    if not block.names:
        weights = block.columns([])[:, 0]
        return np.zeros(block.rows, dtype=np.int64), np.full(block.rows, size), weights
    return block.ranges


def _parts(blocks: Sequence[tuple[Ints, FormBlock]], size: int) -> Iterator[Floats]:
    """All weights of blocks on one attribute (functions, cells), some functions at a time."""
    most, taken, count = max(1, _WEIGHTS // size), list[Floats](), 0
    for _, block in blocks:
        for rows in _written(block, size, most):
            taken.append(rows)
            count += len(rows)
            if count >= most:
                yield np.concatenate(taken)
                taken, count = [], 0
    if taken:
        yield np.concatenate(taken)


def _written(block: FormBlock, size: int, most: int) -> Iterator[Floats]:
    if not block.names:
        yield np.broadcast_to(block.columns([]), (block.rows, size))
        return
    every = [np.arange(size)]
    if block.rows <= most:
        yield block.columns(every)
        return
    for start in range(0, block.rows, most):
        for part in block.parts(start, min(start + most, block.rows)):
            yield part.columns(every)


def _to_attribute(value: str) -> str:
    return to_name("attribute", value)


@frozen(repr=False, cache_hash=True)
class OneAttribute(LeastSquares[tuple[Cells, ...], NoiseAccuracy, CellEstimates]):
    """A mechanism that measures one attribute when it is opened, for a total."""

    attribute: str = field(converter=_to_attribute)
    epsilon: Fraction | None = field(default=None, converter=epsilon_if_given, kw_only=True)
    delta: Fraction = field(default=Fraction(0), converter=to_zero_delta, kw_only=True)
    rho: Fraction | None = field(default=None, converter=rho_if_given, kw_only=True)

    @abstractmethod
    def _over(self, facts: Facts, noise: Noise) -> StrategyMatrix:
        """The strategy matrix for a table."""

    def _measured(self, terms: Terms, /) -> Stack:
        return Stack.of(self._over(facts_of(terms), self._noise()))

    def _strategy(self, estimates: CellEstimates, /) -> CellEstimates:
        return estimates

    def __repr__(self) -> str:
        total = describe_total(self.epsilon, self.delta, self.rho)
        return f"{type(self).__name__}({shown(self.attribute)}, {total})"
