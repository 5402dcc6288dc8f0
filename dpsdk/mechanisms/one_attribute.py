"""Mechanisms that measure one ordered attribute once: what its functions weigh of the numbers.

Most functions on such an attribute count runs of neighbouring cells.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from functools import lru_cache

import numpy as np

from dpsdk._checks import shown, to_name
from dpsdk._records import field, frozen
from dpsdk.codec import NAME
from dpsdk.domain import Domain
from dpsdk.errors import TooLarge
from dpsdk.forms import Facts, FormBlock, Kronecker, LinearForm, Toeplitz
from dpsdk.forms.convolution import causal
from dpsdk.kernel import Noise, Terms
from dpsdk.kernel.terms import facts_of
from dpsdk.mechanisms.arguments import TOTAL
from dpsdk.mechanisms.base import built_in
from dpsdk.mechanisms.linear_accuracy import Combination
from dpsdk.mechanisms.measured_once import Estimates, LeastSquares, Stack
from dpsdk.mechanisms.strategy_matrix import StrategyMatrix, columns_of, pieces
from dpsdk.typing import Floats, Ints

__all__ = ["Line", "OneAttribute", "Root", "SquareRoot"]

_WEIGHTS = 2**21
"""So many weights of functions are written out at a time."""

_RUNS = 2**16
"""So many runs are worked out at a time."""


@frozen
class Line(ABC):
    """A strategy matrix for the cells of one attribute."""

    domain: Domain
    attribute: str

    @property
    def names(self) -> tuple[str, ...]:
        """The attribute."""
        return (self.attribute,)

    @property
    def size(self) -> int:
        """How many cells it has."""
        return self.domain[self.attribute].size

    @abstractmethod
    def runs(self, starts: Ints, stops: Ints, /) -> Combination:
        """The weights of the measured numbers in the counts of runs of cells, none empty.

        From each start up to, not including, its stop.
        """

    @abstractmethod
    def adjoint(self, weights: Floats, /) -> Floats:
        """The weights (functions, numbers) of the measured numbers, from (functions, cells)."""

    def combine(self, form: LinearForm) -> Combination:
        """The weights of the measured numbers in the answers to a form on the attribute."""
        squares, peaks, counts = np.zeros((3, form.rows))
        counted: list[tuple[Ints, Ints, Ints, Floats]] = []
        others: list[tuple[Ints, FormBlock]] = []
        place = 0
        for block in form.blocks:
            places = np.arange(place, place + block.rows)
            place += block.rows
            if not block.names:
                ends = np.zeros_like(places), np.full_like(places, self.size)
                counted.append((places, *ends, block.columns([])[:, 0]))
            elif (found := block.ranges) is not None:
                counted.append((places, *found))
            else:
                others.append((places, block))
        if counted:
            rows, starts, stops, scales = map(np.concatenate, zip(*counted, strict=True))
            there = np.flatnonzero((starts < stops) & (scales != 0))
            for first in range(0, len(there), _RUNS):
                taken = there[first : first + _RUNS]
                part = self.runs(starts[taken], stops[taken])
                squares[rows[taken]] = part.squares * scales[taken] ** 2
                peaks[rows[taken]] = part.peaks * np.abs(scales[taken])
                counts[rows[taken]] = part.counts
        if others:
            rows = np.concatenate([places for places, _ in others])
            written = self._written([block for _, block in others])
            whole = Combination.stack(Combination.of(self.adjoint(part)) for part in written)
            squares[rows], peaks[rows], counts[rows] = whole.columns
        return Combination(squares, peaks, counts)

    def _written(self, blocks: Sequence[FormBlock]) -> Iterator[Floats]:
        """All weights of some functions (functions, cells), some functions at a time."""
        most, taken, count = max(1, _WEIGHTS // self.size), list[Floats](), 0
        for block in blocks:
            for piece in pieces(block, most):
                taken.append(columns_of(piece, self.domain, self.names))
                count += piece.rows
                if count >= most:
                    yield np.concatenate(taken)
                    taken, count = [], 0
        if taken:
            yield np.concatenate(taken)


def _to_attribute(value: str) -> str:
    return to_name("attribute", value)


@frozen(repr=False, cache_hash=True)
class OneAttribute(LeastSquares[Estimates]):
    """A mechanism that measures one attribute when it is opened, for a total."""

    attribute: str = field(converter=_to_attribute)

    @abstractmethod
    def _over(self, facts: Facts, noise: Noise) -> StrategyMatrix:
        """The strategy matrix for a table."""

    def _measured(self, terms: Terms, /) -> Stack:
        return Stack.of(self._over(facts_of(terms), self._noise()))

    def __repr__(self) -> str:
        return f"{type(self).__name__}({shown(self.attribute)}, {self._total})"


SIZE_LIMIT = 2**20
"""Rows of up to so many cells were tried; a transform of so many takes a second or so."""

_FINEST = 20
_LARGEST = 2**52

_COARSE = 1.1
"""How much more noise than the root in exact numbers its rounded coefficients may bring."""

_SMALL = 2**8
"""Up to so many numbers a series is inverted term by term."""


@lru_cache(4)
def _coefficients(size: int, bits: int) -> tuple[Floats, Floats]:
    """Those of the root in steps of 2^-bits, and of the inverse of what that is."""
    steps: Floats = np.floor(_exact(size) * 2.0**bits + 0.5)
    inverse = _inverted(steps)
    # Kept for all who ask, and so nobody's to change.
    steps.setflags(write=False)
    inverse.setflags(write=False)
    return steps, inverse


def _exact(size: int) -> Floats:
    places = np.arange(1.0, size)
    result: Floats = np.concatenate([[1.0], np.cumprod((2 * places - 1) / (2 * places))])
    return result


def _inverted(line: Floats) -> Floats:
    """The coefficients of the inverse of a power series."""
    size = min(len(line), _SMALL)
    inverse = np.zeros(size)
    inverse[0] = 1 / line[0]
    for place in range(1, size):
        inverse[place] = -float(line[1 : place + 1] @ inverse[place - 1 :: -1]) / line[0]
    while size < len(line):
        # Newton's step doubles how many are right.
        size = min(2 * size, len(line))
        inverse = np.concatenate([inverse, np.zeros(size - len(inverse))])
        wrong = causal(line[:size], inverse)
        wrong[0] -= 1
        inverse = inverse - causal(inverse, wrong)
    return inverse


@lru_cache(4)
def _running(size: int, bits: int) -> Floats:
    """The weights of the sums in the last threshold, last to first."""
    result = np.cumsum(_coefficients(size, bits)[1])
    result.setflags(write=False)
    return result


@frozen
class Root(Line):
    """Weighted sums of the cells up to each one: a lower triangular matrix of equal diagonals."""

    bits: int

    @classmethod
    def over(cls, facts: Facts, attribute: str) -> Root:
        """The root for an attribute of a table."""
        size = facts.domain[attribute].size
        name, advice = f"SquareRoot({attribute!r})", "open a Tree"
        if size > SIZE_LIMIT:
            raise TooLarge(name, size, SIZE_LIMIT, "cells", advice)
        room = math.floor(math.log2(_LARGEST / max(1, facts.row_limit)))
        bits = max(0, min(_FINEST, room))
        if not _fine(size, bits):
            most = next(
                (2**most for most in range(52 - _FINEST, -1, -1) if _fine(size, 52 - most)), 0
            )
            raise TooLarge(name, facts.row_limit, most, "rows", advice)
        return cls(facts.domain, attribute, bits)

    @property
    def strategy(self) -> LinearForm:
        """The rows of the root, in steps."""
        steps, _ = _coefficients(self.size, self.bits)
        return LinearForm(self.domain, (Kronecker((self.attribute,), (Toeplitz(steps),)),))

    @property
    def _inverse(self) -> Floats:
        return _coefficients(self.size, self.bits)[1]

    def cells(self, values: Floats) -> Floats:
        """The estimates of the cells."""
        return causal(self._inverse, values)

    def runs(self, starts: Ints, stops: Ints) -> Combination:
        """The weights of the sums in counts of runs, in time by the number of different lengths.

        A run that begins at the first cell weighs the sums up to its last one by the running sums
        of the inverse, last to first; another is the difference of two such.
        """
        running = _running(self.size, self.bits)
        lengths = stops - starts
        squares = np.cumsum(running**2)[lengths - 1]
        peaks = np.maximum.accumulate(np.abs(running))[lengths - 1]
        counts = np.cumsum(running != 0)[lengths - 1].astype(np.float64)
        later = np.flatnonzero(starts)
        order = later[np.argsort(lengths[later], kind="stable")]
        ends = np.flatnonzero(np.diff(lengths[order], append=0)) + 1
        for taken in np.split(order, ends[:-1]):
            if not len(taken):
                continue
            length, before = int(lengths[taken[0]]), starts[taken] - 1
            reach = int(before.max()) + 1
            weights = running[length : length + reach] - running[:reach]
            squares[taken] += np.cumsum(weights**2)[before]
            peaks[taken] = np.maximum(peaks[taken], np.maximum.accumulate(np.abs(weights))[before])
            counts[taken] += np.cumsum(weights != 0)[before]
        return Combination(squares, peaks, counts)

    def adjoint(self, weights: Floats) -> Floats:
        """Weights of the measured sums, from those of the cells."""
        result: Floats = causal(self._inverse, weights[:, ::-1])[:, ::-1]
        return result


@lru_cache(64)
def _fine(size: int, bits: int) -> bool:
    """True if rounded coefficients bring about as little noise as those of the root itself."""
    running = _running(size, bits) * 2.0**bits
    best = _exact(size)
    return bool(running @ running <= _COARSE * (best @ best))


@built_in("square-root", {"attribute": NAME, **TOTAL})
@frozen(repr=False, cache_hash=True)
class SquareRoot(OneAttribute):
    """Thresholds and intervals of one attribute, by the square root of the matrix of thresholds.

    For Gaussian noise: then thresholds have the least largest error that is known of a matrix in
    closed form, within a few percent of the optimum (Fichtenberger, Henzinger and Upadhyay 2023),
    and less than those of `Tree`. The root is the lower triangular matrix with c[0] = 1 and
    c[i] = c[i - 1] (2i - 1) / (2i) on its diagonals. Its rows are measured when it is opened, on
    a lattice and with discrete noise; every linear query on the attribute alone is then answered
    free, as the sum of estimates of its cells, with its exact variance and a proven bound.

    The matrix is never written out: opening takes transforms of as many numbers as there are cells.

    Parameters
    ----------
    attribute
        In the order of its cells: up to 2^20.
    epsilon, delta, rho
        The total, as for `NoisyHistogram`; with Laplace noise, where delta is 0, `Tree` is better.

    Raises
    ------
    InvalidArgument
        If an argument is not as described.
    UnknownAttribute, TooLarge
        When opened or quoted, before anything is paid: if the domain does not have the attribute,
        if it has more cells, or if the table may have too many rows for exact sums of so many.
    QueryError
        When asked about another attribute.

    >>> from dpsdk.mechanisms import SquareRoot
    >>> SquareRoot("age", rho="0.01")
    SquareRoot('age', rho=0.01)
    """

    page = "explanation/proofs/combined.md"

    def _over(self, facts: Facts, noise: Noise) -> Root:
        del noise  # the same root for all
        return Root.over(facts, self.attribute)
