"""A hypothesis over one ordered attribute of any size: constant between breakpoints."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import ClassVar, Self

import numpy as np
from typing_extensions import override

from dpsdk._checks import shown
from dpsdk.domain import Domain
from dpsdk.errors import InvalidArgument, QueryError, TooLarge
from dpsdk.forms import Block, Identity, Kronecker, LinearForm
from dpsdk.forms.linear import TABLE_LIMIT
from dpsdk.hypothesis.distribution import (
    Distribution,
    Hypothesis,
    reached,
    to_finite_float,
    to_outside,
    to_weight,
)
from dpsdk.hypothesis.files import Arrays, Flag
from dpsdk.hypothesis.seeking import move_share
from dpsdk.hypothesis.streams import Streams
from dpsdk.typing import Array, Floats, Ints

__all__ = ["PiecewiseHypothesis"]

SIZE_LIMIT = 2**62

_PREFERRED_FROM = 2**20

_LEVEL = 2.0**20
"""Logarithms that are all further from nought are read anew from there, since the logarithm of a
length would be lost beside them."""


class PiecewiseHypothesis(Hypothesis):
    """A distribution over one ordered attribute of up to 2^62 cells.

    Ranges and thresholds change a distribution at two places only, so that after T updates it is
    the prior times a step function of at most 2T breakpoints, which is what is kept: an update or
    an answer costs time and memory in proportion to T, whatever the size of the attribute.

    It answers and learns ranges of the attribute. Other functions are answered while the
    attribute has at most 2^22 cells, and never learnt.
    """

    __slots__ = ("_beyond", "_logs", "_masses", "_starts", "_total", "domain", "outside")

    kind: ClassVar[str] = "piecewise"
    domain: Domain
    outside: bool

    def __init__(self, domain: Domain, starts: Ints, logs: Floats, beyond: float | None) -> None:
        """Take over checked pieces; callers want the class methods."""
        self.domain = domain
        self.outside = beyond is not None
        self._starts = starts
        self._logs = logs
        self._beyond = -math.inf if beyond is None else beyond
        self._normalise()

    @classmethod
    def uniform(cls, domain: Domain, *, outside: bool = False) -> Self:
        """The same probability for every cell, the one outside included.

        Raises `InvalidArgument` if the domain is not one ordered attribute, and `TooLarge` if it
        has more than 2^62 cells.
        """
        _check_domain(domain)
        return cls(domain, np.zeros(1, dtype=np.int64), np.zeros(1), 0.0 if outside else None)

    @classmethod
    def from_pieces(
        cls,
        domain: Domain,
        starts: Sequence[int] | Ints,
        masses: Array,
        outside_mass: float | None = None,
    ) -> Self:
        """A prior that is constant between breakpoints.

        Raises `InvalidArgument` if the domain is not one ordered attribute, or the pieces are not
        as described, and `TooLarge` if the attribute has more than 2^62 cells.

        Parameters
        ----------
        starts
            The number of the first cell of each piece: rising integers, the first of them 0.
        masses
            The weight of each piece as a whole, not negative and not all zero.
        outside_mass
            The probability of the extra cell; None for a hypothesis without it.
        """
        _check_domain(domain)
        outside = to_outside(outside_mass)
        first = _to_starts(starts, domain.size)
        weights = np.asarray(masses, dtype=np.float64)
        expected = "one finite weight a piece, not negative and not all zero"
        if weights.shape != first.shape:
            raise InvalidArgument("masses", expected, f"shape {weights.shape}")
        total = float(weights.sum())
        if not (weights.min() >= 0.0 and 0.0 < total < math.inf):
            raise InvalidArgument("masses", expected, "others")
        with np.errstate(divide="ignore"):
            logs = np.log(weights / total) - np.log(_lengths(first, domain.size))
        beyond = None
        if outside is not None:
            beyond = math.log(outside / (1.0 - outside)) if outside > 0.0 else -math.inf
        return cls(domain, first, logs, beyond)

    @classmethod
    def suits(cls, domain: Domain, /) -> bool:
        """True if starts choose this class: for one ordered attribute of more than 2^20 cells."""
        attributes = domain.attributes
        return len(attributes) == 1 and attributes[0].ordered and domain.size > _PREFERRED_FROM

    @classmethod
    def resembling(cls, distribution: Distribution, *, outside: bool) -> Self:
        """A hypothesis with the probabilities of a distribution, a piece for each of its records.

        With `outside` it has the cell outside the domain. Without, what the distribution has there
        is shared out among the others. Raises `InvalidArgument` if its domain is not one ordered
        attribute, or it has no probability inside.
        """
        domain = distribution.domain
        _check_domain(domain)
        (codes,), masses = distribution.records(domain.names)
        cells, places = np.unique(codes, return_inverse=True)
        starts = np.unique(np.concatenate([[0], cells, cells + 1]))
        starts = starts[starts < domain.size]
        weights = np.zeros(len(starts))
        weights[np.searchsorted(starts, cells)] = np.bincount(places, masses, len(cells))
        mass = distribution.outside_mass if outside else None
        return cls.from_pieces(domain, starts, weights, mass)

    @property
    def pieces(self) -> int:
        """How many pieces there are by now."""
        return len(self._starts)

    @property
    @override
    def outside_mass(self) -> float:
        return math.exp(self._beyond - self._total)

    @override
    def answers(self, form: LinearForm) -> Floats:
        self._check(form)
        ranges = [_range_of(block) for block in form.blocks]
        if len(ranges) == 1 and ranges[0] is not None:
            start, stop, scale = ranges[0]
            return np.array([scale * self._between(start, stop)])
        answers = np.empty(form.rows)
        places: list[int] = []
        wanted: list[tuple[int, int, float]] = []
        place = 0
        for block, one in zip(form.blocks, ranges, strict=True):
            if one is not None:
                places.append(place)
                wanted.append(one)
            else:
                answers[place : place + block.rows] = self._answer(block)
            place += block.rows
        if wanted:
            starts, stops, scales = zip(*wanted, strict=True)
            ends = np.array([starts, stops], dtype=np.int64)
            below = self._below(np.minimum(ends, self.domain.size))
            answers[places] = (below[1] - below[0]) * np.array(scales)
        return answers

    def _answer(self, block: Block) -> Floats:
        if isinstance(block, Kronecker) and block.factors == (Identity(self.domain.size),):
            return block.scale * self._at(np.arange(self.domain.size))
        if (ranges := block.ranges) is not None:
            starts, stops, scales = ranges
            below = self._below(np.stack([starts, stops]))
            answers: Floats = (below[1] - below[0]) * scales
            return answers
        if self.domain.size > TABLE_LIMIT:
            raise _unfit(f"other functions over more than {TABLE_LIMIT} cells")
        return block.answer(self.table(block.names))

    @override
    def check(self, form: LinearForm) -> None:
        self._check(form)
        if not all(block.counting for block in form.blocks):
            raise _unfit(_OTHERS)

    @override
    def table(self, names: tuple[str, ...]) -> Floats:
        if not names:
            return np.array(self._masses.sum())
        self.domain.position(names[0])
        if self.domain.size > TABLE_LIMIT:
            advice = "ask for ranges"
            raise TooLarge("a table", self.domain.size, TABLE_LIMIT, "cells", advice)
        return self._at(np.arange(self.domain.size))

    @override
    def records(self, names: tuple[str, ...]) -> tuple[Sequence[Ints], Floats]:
        table = self.table(names)
        return [np.arange(table.size)] if names else [], table.reshape(-1)

    @override
    def shift(self, form: LinearForm, step: float, answer: float | None = None) -> float:
        self._check_one(form)
        start, stop, scale = self._range(form)
        step = to_finite_float("step", step)
        if step == 0.0 or start == stop or scale == 0.0:
            return 0.0
        before = self._total
        self._cut(start)
        self._cut(stop)
        first, last = np.searchsorted(self._starts, [start, stop])
        self._logs[first:last] += step * scale
        self._normalise()
        return self._total - before

    @override
    def move_to(self, form: LinearForm, target: float, answer: float | None = None) -> float:
        self._check_one(form)
        wanted = to_finite_float("target", target)
        start, stop, scale = self._range(form)
        if start >= stop or scale == 0.0:
            return 0.0
        return move_share(self, form, scale, wanted, lambda: self._log_share(start, stop), answer)

    @override
    def kl_cap(self) -> float:
        least = float(self._logs.min())
        if self.outside:
            least = min(least, self._beyond)
        return self._total - least

    @override
    def blend(self, weight: float) -> None:
        share = to_weight(weight)
        if share == 0.0:
            return
        floor = math.log(share) - math.log(self._size)
        kept = (math.log1p(-share) if share < 1.0 else -math.inf) - self._total
        self._logs = np.logaddexp(self._logs + kept, floor)
        if self.outside:
            self._beyond = float(np.logaddexp(self._beyond + kept, floor))
        self._normalise()

    @override
    def copy(self) -> Self:
        beyond = self._beyond if self.outside else None
        return type(self)(self.domain, self._starts.copy(), self._logs.copy(), beyond)

    def _log_share(self, start: int, stop: int) -> float:
        share = self._between(start, stop)
        if share > 0.0:
            return min(math.log(share), 0.0)
        trial = self.copy()
        trial._cut(start)
        trial._cut(stop)
        first, last = np.searchsorted(trial._starts, [start, stop])
        lengths = _lengths(trial._starts, self.domain.size)[first:last]
        return float(np.logaddexp.reduce(trial._logs[first:last] + np.log(lengths))) - self._total

    @override
    def draw(self, streams: Streams) -> Sequence[Ints]:
        name = self.domain.names[0]
        chosen = reached(self._masses, streams.levels(name))
        lengths = _lengths(self._starts, self.domain.size)[chosen]
        return [self._starts[chosen] + streams.below(name, lengths)]

    @override
    def parts(self) -> tuple[Mapping[str, Flag], Mapping[str, Floats | Ints]]:
        outside = np.array([self._beyond] if self.outside else [], dtype=np.float64)
        return {}, {"starts": self._starts, "logarithms": self._logs, "outside": outside}

    @classmethod
    @override
    def from_parts(cls, domain: Domain, flags: Mapping[str, object], arrays: Arrays) -> Self:
        if set(arrays) != {"starts", "logarithms", "outside"} or flags:
            raise InvalidArgument("its parts", "starts, logarithms and outside", "others")
        _check_domain(domain)
        starts = _to_starts(arrays["starts"], domain.size)
        logs, outside = arrays["logarithms"], arrays["outside"]
        right = logs.dtype == np.float64 == outside.dtype and logs.shape == starts.shape
        numbers = np.concatenate([logs, outside])
        if not right or outside.size > 1 or not bool((numbers < math.inf).all()):
            raise InvalidArgument("its pieces", "one logarithm a piece", "others")
        if not (logs > -math.inf).any():
            raise InvalidArgument("its pieces", "not all without weight", "none with any")
        level = float(numbers.max())
        if abs(level) > _LEVEL:
            with np.errstate(over="ignore"):
                logs, outside = logs - level, outside - level
        return cls(domain, starts, logs, float(outside[0]) if outside.size else None)

    def _normalise(self) -> None:
        """Work out the probability of each piece from the logarithms, which are the truth."""
        logs = self._logs + np.log(_lengths(self._starts, self.domain.size))
        top = max(float(logs.max()), self._beyond)
        masses = np.exp(logs - top)
        total = float(masses.sum()) + math.exp(self._beyond - top)
        self._masses: Floats = masses / total
        self._total = top + math.log(total)

    def _cut(self, cell: int) -> None:
        if cell >= self.domain.size:
            return
        place = int(np.searchsorted(self._starts, cell))
        if place == len(self._starts) or self._starts[place] != cell:
            self._starts = np.insert(self._starts, place, cell)
            self._logs = np.insert(self._logs, place, self._logs[place - 1])

    def _range(self, form: LinearForm) -> tuple[int, int, float]:
        self._check_one(form)
        found = _range_of(form.blocks[0])
        if found is None:
            raise _unfit(_OTHERS)
        start, stop, scale = found
        return start, min(stop, self.domain.size), scale

    def _at(self, cells: Ints) -> Floats:
        pieces = np.searchsorted(self._starts, cells, side="right") - 1
        return np.exp(self._logs - self._total)[pieces]

    def _below(self, cells: Ints) -> Floats:
        """The probability of all cells below each of these."""
        ends = np.concatenate([[0.0], np.cumsum(self._masses)])
        pieces = np.searchsorted(self._starts, cells, side="right") - 1
        lengths = _lengths(self._starts, self.domain.size)
        parts = (cells - self._starts[pieces]) / lengths[pieces]
        return ends[pieces] + self._masses[pieces] * parts

    def _between(self, start: int, stop: int) -> float:
        """The probability of a range, as precise where it is small as where it is large."""
        stop = min(stop, self.domain.size)
        if start >= stop:
            return 0.0
        found = self._starts.searchsorted([start, stop - 1], side="right").tolist()
        first, last = (place - 1 for place in found)
        density = math.exp(self._logs[first] - self._total)
        if first == last:
            return density * (stop - start)
        head = density * int(self._starts[first + 1] - start)
        tail = math.exp(self._logs[last] - self._total) * int(stop - self._starts[last])
        return head + float(self._masses[first + 1 : last].sum()) + tail


def _lengths(starts: Ints, size: int) -> Ints:
    return np.diff(starts, append=size)


def _range_of(block: Block) -> tuple[int, int, float] | None:
    """The range and the weight that a block of one function gives it, if it is such."""
    if block.rows != 1:
        return None
    if not block.names:
        return 0, SIZE_LIMIT, float(block.columns([])[0, 0])
    if (ranges := block.ranges) is None:
        return None
    starts, stops, scales = ranges
    return int(starts[0]), int(stops[0]), float(scales[0])


_OTHERS = "functions other than ranges"


def _unfit(what: str) -> QueryError:
    return QueryError("a piecewise hypothesis", f"it cannot take {what}; use a DenseHypothesis")


def _check_domain(domain: Domain) -> None:
    if len(domain.attributes) != 1 or not domain.attributes[0].ordered:
        raise InvalidArgument("domain", "a domain of one ordered attribute", shown(domain))
    if domain.size > SIZE_LIMIT:
        raise TooLarge("a piecewise hypothesis", domain.size, SIZE_LIMIT, "cells", "declare fewer")


def _to_starts(starts: Sequence[int] | Ints, size: int) -> Ints:
    result = np.array(starts)
    expected = f"rising integers below {size}, the first of them 0"
    rising = result.ndim == 1 and result.size and result.dtype.kind in "iu"
    if not rising or result[0] != 0 or (result[1:] <= result[:-1]).any() or result[-1] >= size:
        raise InvalidArgument("starts", expected, shown(starts))
    return result.astype(np.int64)
