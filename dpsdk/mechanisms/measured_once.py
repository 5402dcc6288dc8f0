"""Mechanisms that measure the rows of a strategy matrix once, and answer by least squares."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from functools import cached_property
from typing import Any, ClassVar, Generic, TypeVar, cast

import numpy as np

from dpsdk._records import frozen
from dpsdk.errors import InvalidArgument, QueryError
from dpsdk.forms import Facts, FormBlock, Kronecker, LinearForm, Range
from dpsdk.forms.blocks import Block
from dpsdk.forms.linear import narrowed
from dpsdk.kernel import Kernel, Measure, Noise, Request, Terms
from dpsdk.kernel.terms import facts_of
from dpsdk.mechanisms.arguments import HasTotal, check_linear
from dpsdk.mechanisms.base import MeasuresOnce, Single
from dpsdk.mechanisms.linear_accuracy import Combination, LinearAccuracy
from dpsdk.mechanisms.strategy_matrix import Cells, StrategyMatrix
from dpsdk.release import Cost, Measurement, NoiseAccuracy, Quote
from dpsdk.typing import Floats

__all__ = ["Estimates", "LeastSquares", "Measured", "Part", "Stack", "narrow_form"]

S = TypeVar("S", bound="Estimates")

_LISTED = 8


def narrow_form(form: LinearForm, mechanism: str, facts: Facts) -> LinearForm:
    """A linear form over the domain of the table, without attributes of one cell."""
    check_linear(form, mechanism)
    if form.domain is not facts.domain and form.domain != facts.domain:
        raise InvalidArgument("form", "over the domain of the table", "another domain")
    return narrowed(form)


class Measured(ABC):
    """A measurement made once, and how answers follow from it."""

    @abstractmethod
    def request(self, noise: Noise, /) -> Request[Measurement[Any]]:
        """The request to the kernel."""

    @abstractmethod
    def answerable(self, form: LinearForm, mechanism: str, facts: Facts, /) -> LinearForm:
        """The form without attributes of one cell, if it follows from what is measured."""

    @abstractmethod
    def estimate(self, values: Floats, /) -> Any:
        """The estimates, from the measured numbers."""

    @abstractmethod
    def answers(self, form: LinearForm, estimate: Any, /) -> Floats:
        """The functions of a form, in rows."""

    @abstractmethod
    def accuracy(self, noise: Any, form: LinearForm, /) -> LinearAccuracy:
        """The accuracy of the answers to a form, from that of the measured numbers."""


@frozen
class Part:
    """A strategy matrix, multiplied by a whole number: measured so many times as finely."""

    measured: StrategyMatrix
    scale: int = 1

    @property
    def blocks(self) -> tuple[FormBlock, ...]:
        """The blocks that it adds to what is measured."""
        blocks = self.measured.strategy.blocks
        return blocks if self.scale == 1 else tuple([block.times(self.scale) for block in blocks])

    def combine(self, form: LinearForm) -> Combination:
        """The weights of the measured numbers in its answers to a form."""
        one = self.measured.combine(form)
        return Combination(one.squares / self.scale**2, one.peaks / self.scale, one.counts)


@frozen
class Stack(Measured):
    """Strategy matrices of several sets of attributes, measured as one batch."""

    parts: tuple[Part, ...]

    @classmethod
    def of(cls, matrix: StrategyMatrix) -> Stack:
        """A stack of one matrix."""
        return cls((Part(matrix),))

    @cached_property
    def strategy(self) -> LinearForm:
        """All functions that are measured."""
        domain = self.parts[0].measured.strategy.domain
        return LinearForm(domain, [block for part in self.parts for block in part.blocks])

    def request(self, noise: Noise, /) -> Measure:
        return Measure(self.strategy, noise)

    def accuracy(self, noise: NoiseAccuracy, form: LinearForm, /) -> LinearAccuracy:
        return LinearAccuracy.of(noise.law, noise.step, self, form)

    def estimate(self, values: Floats, /) -> tuple[Cells, ...]:
        counts = [part.measured.strategy.rows for part in self.parts]
        pieces = np.split(values, np.cumsum(counts)[:-1])
        return tuple(
            [
                Cells(part.measured.names, part.measured.cells(piece / part.scale))
                for part, piece in zip(self.parts, pieces, strict=True)
            ]
        )

    def _covering(self, names: Sequence[str]) -> list[int]:
        """The places of the parts that know all of these attributes."""
        wanted = set(names)
        return [
            place for place, part in enumerate(self.parts) if wanted.issubset(part.measured.names)
        ]

    def answerable(self, form: LinearForm, mechanism: str, facts: Facts, /) -> LinearForm:
        form = narrow_form(form, mechanism, facts)
        for names in dict.fromkeys([block.names for block in form.blocks]):
            if not self._covering(names):
                asked = ", ".join(map(repr, names)) + (" together" if len(names) > 1 else "")
                parts = [", ".join(map(repr, part.measured.names)) for part in self.parts]
                known = "; ".join(parts[:_LISTED]) + (", and more" if len(parts) > _LISTED else "")
                reason = f"{mechanism} answers queries on {known}, and this one depends on {asked}"
                raise QueryError("", reason)
        return form

    def _shares(self, names: Sequence[str]) -> list[tuple[int, float]]:
        """The parts that answer functions of some attributes, each with its weight."""
        places = self._covering(names)
        if len(places) == 1:
            return [(places[0], 1.0)]
        domain = self.parts[0].measured.strategy.domain
        own = [name for name in domain.names if name in names]
        middle = [Range(size, size // 2, size // 2 + 1) for size in (domain[n].size for n in own)]
        cell = LinearForm(domain, (Kronecker(tuple(own), tuple(middle)),))
        known = np.array([float(self.parts[place].combine(cell).squares[0]) for place in places])
        if not known.all():
            # A part that knows it for certain, as the number of all rows may be.
            return [(places[int(known.argmin())], 1.0)]
        shares = 1 / known / float((1 / known).sum())
        return list(zip(places, shares.tolist(), strict=True))

    def answers(self, form: LinearForm, estimate: Sequence[Cells], /) -> Floats:
        values = np.empty(form.rows)
        shares: dict[tuple[str, ...], list[tuple[int, float]]] = {}
        for block, places in form.groups:
            known = shares.setdefault(block.names, []) or self._shares(block.names)
            shares[block.names] = known
            values[places] = _averaged(block, known, estimate)
        return values

    def combine(self, form: LinearForm) -> Combination:
        """The weights that the measured numbers have in the answers to a form."""
        if len(self.parts) == 1:
            return self.parts[0].combine(form)
        kinds: dict[tuple[str, ...], list[tuple[int, FormBlock]]] = {}
        start = 0
        for block in form.blocks:
            kinds.setdefault(block.names, []).append((start, block))
            start += block.rows
        squares, peaks, counts = np.zeros((3, form.rows))
        for names, members in kinds.items():
            asked = LinearForm(form.domain, [block for _, block in members])
            places = np.concatenate([np.arange(at, at + block.rows) for at, block in members])
            for place, share in self._shares(names):
                one = self.parts[place].combine(asked)
                squares[places] += one.squares * share**2
                peaks[places] = np.maximum(peaks[places], one.peaks * share)
                counts[places] += one.counts
        return Combination(squares, peaks, counts)


def _averaged(block: Block, shares: Sequence[tuple[int, float]], tables: Sequence[Cells]) -> Floats:
    if len(shares) == 1:
        return block.answer(tables[shares[0][0]].table(block.names))
    result: Floats = np.zeros(block.rows)
    for place, share in shares:
        result += share * block.answer(tables[place].table(block.names))
    return result


@frozen(eq=False)
class Estimates:
    """Answers to linear forms from what was measured once. They cost nothing."""

    mechanism: Any
    measured: Measured
    estimate: Any
    noise: Any
    facts: Facts

    def answer(self, form: LinearForm, kernel: Kernel, /) -> Measurement:
        """Answer in counts of rows."""
        del kernel
        return self.measurement(form)

    def measurement(self, form: LinearForm) -> Measurement:
        """Answer in counts of rows."""
        return self._unbiased(form)

    def _unbiased(self, form: LinearForm) -> Measurement[LinearAccuracy]:
        form = self.measured.answerable(form, type(self.mechanism).__name__, self.facts)
        values = self.measured.answers(form, self.estimate)
        return Measurement(values, self.measured.accuracy(self.noise, form), "fitted")


class LeastSquares(MeasuresOnce[LinearForm], HasTotal, Generic[S]):
    """A mechanism that measures once for a total, when it is opened; all answers are free then."""

    __slots__ = ()
    _strategy: ClassVar[type[Estimates]] = Estimates
    """The strategy that answers from the estimates, which S is."""

    def __attrs_post_init__(self) -> None:
        super().__attrs_post_init__()
        self._noise()

    @abstractmethod
    def _measured(self, terms: Terms, /) -> Measured:
        """The measurement of a table on such terms."""

    def quote(self, form: LinearForm, terms: Terms, /) -> Quote:
        measured = self._measured(terms)
        form = measured.answerable(form, type(self).__name__, facts_of(terms))
        with self._in_words():
            pricing = measured.request(self._noise()).price(terms)
        cost = Cost((pricing.guarantee,))
        return Quote(cost, cost, measured.accuracy(pricing.accuracy, form))

    def open(self, kernel: Kernel, /) -> S:
        measured = self._measured(kernel.terms)
        with self._in_words():
            found = kernel.run(measured.request(self._noise()))
        return self._started(measured, found, kernel.facts)

    def single(self, form: LinearForm, terms: Terms, /) -> Single[Measurement[Any]]:
        """The one run that an answer takes."""
        measured, facts = self._measured(terms), facts_of(terms)
        measured.answerable(form, type(self).__name__, facts)
        request = measured.request(self._noise())
        return Single(
            request, lambda found: self._started(measured, found, facts).measurement(form)
        )

    def _started(self, measured: Measured, found: Measurement[Any], facts: Facts) -> S:
        estimate = measured.estimate(found.values)
        return cast("S", self._strategy(self, measured, estimate, found.accuracy, facts))
