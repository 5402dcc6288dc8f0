"""Which sampler draws for a workload: chosen, or refused, by public facts alone."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction
from typing import TypeAlias, cast

from attrs import evolve, frozen

from dpsdk.errors import ExactSamplingInfeasible, TooLarge
from dpsdk.forms import LinearForm
from dpsdk.kernel.draw_database.atoms import Atoms
from dpsdk.kernel.draw_database.base import DrawTerms, Sampler, Work
from dpsdk.kernel.draw_database.bounds import LARGEST_SIZE, Family, to_size
from dpsdk.kernel.draw_database.counting import Counting
from dpsdk.kernel.draw_database.coverage import (
    AnyFunctions,
    Cells,
    Coverage,
    Intervals,
    Marginals,
    Thresholds,
)
from dpsdk.kernel.draw_database.enumeration import Enumeration
from dpsdk.kernel.draw_database.intervals import Intervals as IntervalSampler
from dpsdk.kernel.draw_database.part import Part
from dpsdk.kernel.draw_database.recognition import recognised
from dpsdk.kernel.draw_database.structured import Structured
from dpsdk.kernel.draw_database.thresholds import Thresholds as ThresholdPart

__all__ = ["Chosen", "Limits", "choose", "feasible_size"]

_BETA = 0.05
"""At which confidence samplers are compared."""

_MOST_BITS = 2**18
"""Numbers of small databases are not longer than this."""


@frozen
class Limits:
    """What a draw may take, by the estimate that is made of public facts.

    Parameters
    ----------
    seconds
        Of time, on one core of a few years' age.
    bytes
        Of memory.
    """

    seconds: float = 60.0
    bytes: int = 2**30

    def allow(self, work: Work) -> bool:
        """Whether a draw is within them."""
        return work.seconds <= self.seconds and work.bytes <= self.bytes


@frozen(eq=False)
class Chosen:
    """A sampler, and what is proven of the databases that it draws from."""

    sampler: Sampler
    family: Family
    bias: float = 0.0
    """What rounding of weights may add to the error of each row, in the unit of the form."""

    def work(self) -> Work:
        """What a draw may take; infinite where there are too many databases to be counted."""
        log = self.family.log_candidates(self.sampler.terms.size)
        return self.sampler.work() if log < _MOST_BITS / 2 else Work(math.inf, _MOST_BITS)

    def at(self, size: int) -> Chosen:
        """The same for another size."""
        # Every sampler is a frozen value with the terms of the draw among its fields.
        sampler = cast("Enumeration", self.sampler)
        return evolve(self, sampler=evolve(sampler, terms=evolve(sampler.terms, size=size)))

    def error(self, beta: float) -> Fraction:
        """How far a count may be from its share of the database, scaled to the table, in rows.

        Of all functions of the workload at once, with probability 1 - beta; a function of public
        facts alone. Where the number of rows is private, it is that of the largest table.
        """
        terms = self.sampler.terms
        rows = max(1, terms.setting.row_limit)
        steps = self.family.error(terms.size, self.sampler.rate, rows, beta)
        # Both the table's answer and the database's, scaled, may be off by that.
        return steps * self.sampler.unit + Fraction(2 * rows * self.bias)


def _structured(form: LinearForm, terms: DrawTerms) -> Iterator[Chosen]:
    """The sampler for the structure of a workload, if it has one that is known."""
    sampler = recognised(form, terms)
    if sampler is None:
        return
    yield Chosen(sampler, _family(_coverage(sampler), sampler))


def _family(coverage: Coverage, sampler: Sampler) -> Family:
    return Family(coverage, sampler.atoms, sampler.ordered, sampler.rounding, sampler.grain)


def _coverage(sampler: Sampler) -> Coverage:
    """What is proven of the functions that a sampler scores, which may be more than are asked."""
    if isinstance(sampler, IntervalSampler):
        return Intervals()
    if not isinstance(sampler, Structured):
        raise TypeError(type(sampler).__name__)
    if len(sampler.parts) == 1 and not sampler.whole:
        return _of_part(sampler.parts[0], sampler.atoms)
    parts = tuple(_of_part(part, part.atoms) for part in sampler.parts)
    return Marginals(parts, sampler.outside)


def _of_part(part: Part, atoms: int) -> Thresholds | Cells:
    return Thresholds() if isinstance(part, ThresholdPart) else Cells(atoms)


def _general(form: LinearForm, terms: DrawTerms) -> Iterator[Chosen]:
    """The samplers that need no structure."""
    merged = Atoms.of(form, terms.setting)
    coverage = AnyFunctions(merged.functions, merged.number)
    samplers: list[Sampler] = [Enumeration(terms, merged)]
    if Counting.fits(merged):
        samplers.append(Counting(terms, merged))
    for sampler in samplers:
        yield Chosen(sampler, _family(coverage, sampler), merged.change)


_Kind: TypeAlias = Callable[[LinearForm, DrawTerms], Iterator[Chosen]]

_KINDS: tuple[_Kind, ...] = (_structured, _general)


def choose(form: LinearForm, terms: DrawTerms, limits: Limits | None = None) -> Chosen:
    """The sampler that is proven to err least, and of several such the quickest.

    Parameters
    ----------
    form : LinearForm
        The workload.
    terms : DrawTerms
        The size, the strength, and the public facts of the table.
    limits : Limits, optional
        What the draw may take.

    Raises
    ------
    ExactSamplingInfeasible
        If no sampler is within the limits. It names the largest size for which one is.
    InvalidArgument
        If the weights are too large to be summed exactly.
    """
    to_size(terms.size)
    allowed = limits or Limits()
    found, widest = _applicable(form, terms)
    feasible = [one for one in found if allowed.allow(one.work())]
    if feasible:
        return min(feasible, key=lambda one: (one.error(_BETA), one.work().seconds))
    raise _infeasible(form, terms, allowed, found, widest)


def _applicable(form: LinearForm, terms: DrawTerms) -> tuple[list[Chosen], int]:
    """The samplers that apply, and how many atoms there are at the most if none does."""
    found: list[Chosen] = []
    atoms = 0
    for kind in _KINDS:
        try:
            found += kind(form, terms)
        except TooLarge as error:
            atoms = max(atoms, error.needed)
    return found, atoms


def feasible_size(form: LinearForm, terms: DrawTerms, limits: Limits | None = None) -> int:
    """The largest size for which some sampler is within the limits; 0 where there is none.

    The size in the terms plays no part.
    """
    allowed = limits or Limits()
    found, _ = _applicable(form, evolve(terms, size=1))
    return max((_largest(one, allowed) for one in found), default=0)


def _largest(chosen: Chosen, limits: Limits) -> int:
    def fits(size: int) -> bool:
        return limits.allow(chosen.at(size).work())

    if not fits(1):
        return 0
    low, high = 1, 2
    while high <= LARGEST_SIZE and fits(high):
        low, high = high, 2 * high
    high = min(high, LARGEST_SIZE + 1)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if fits(middle) else (low, middle)
    return low


def _infeasible(
    form: LinearForm, terms: DrawTerms, limits: Limits, found: Sequence[Chosen], atoms: int
) -> ExactSamplingInfeasible:
    best = min(found, key=lambda one: one.work().seconds, default=None)
    seconds = math.inf if best is None else best.work().seconds
    family = Family(AnyFunctions(1, max(atoms, 1)), max(atoms, 1)) if best is None else best.family
    largest = feasible_size(form, terms, limits)
    alternatives = [f"size={largest}, the largest within the limits"] if largest else []
    alternatives += [
        "a larger alpha, for which fewer records are enough",
        "fewer functions, or coarser ones",
        "OnlinePMW, which draws nothing and answers any linear query",
    ]
    log2 = family.log_candidates(terms.size) / math.log(2)
    return ExactSamplingInfeasible(family.atoms, terms.size, log2, seconds, tuple(alternatives))
