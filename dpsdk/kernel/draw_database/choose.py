"""Choose or refuse the sampler for a workload, by public facts alone."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction
from typing import TypeAlias, cast

from dpsdk._checks import shown, to_count, to_finite
from dpsdk._records import evolve, field, frozen
from dpsdk.codec import INTEGER, NUMBER, written
from dpsdk.errors import ExactSamplingInfeasible, InvalidArgument, TooLarge
from dpsdk.forms import LinearForm
from dpsdk.kernel.draw_database.atoms import Atoms
from dpsdk.kernel.draw_database.base import DrawTerms, Sampler, Work
from dpsdk.kernel.draw_database.bounds import (
    LARGEST_SIZE,
    DrawBound,
    Family,
    Planner,
    size_for,
    to_size,
)
from dpsdk.kernel.draw_database.counting import Counting
from dpsdk.kernel.draw_database.coverage import AnyFunctions
from dpsdk.kernel.draw_database.enumeration import Enumeration
from dpsdk.kernel.draw_database.recognition import recognised
from dpsdk.typing import Real

__all__ = ["Chosen", "Limits", "best_size", "choose", "covering_size", "feasible_size"]

_BETA = 0.05
"""At which confidence samplers are compared."""

_MOST_SECONDS = 1_000_000
_MOST_BYTES = 2**40

_LITTLE = 2**18
"""With more weights than this, a known structure is not compared with none."""

_MOST_BITS = 2**18
"""Numbers of small databases are not longer than this."""


def _to_seconds(value: float) -> float:
    number = to_finite("seconds", value)
    if not 0 < number <= _MOST_SECONDS:
        raise InvalidArgument("seconds", f"above 0, and at most {_MOST_SECONDS:,}", shown(value))
    return float(number)


def _to_bytes(value: int) -> int:
    number = to_count("bytes", value)
    if number > _MOST_BYTES:
        raise InvalidArgument("bytes", f"from 1 to {_MOST_BYTES:,}", shown(number))
    return number


@written("limits", {"seconds": NUMBER, "bytes": INTEGER})
@frozen
class Limits:
    """Limits of time and memory for a draw, by an estimate from public facts.

    Parameters
    ----------
    seconds
        Of time, on one core of a few years' age; at most 1,000,000.
    bytes
        Of memory; at most 2^40.

    Raises
    ------
    InvalidArgument
        If one is out of range.
    """

    seconds: float = field(default=60.0, converter=_to_seconds)
    bytes: int = field(default=2**30, converter=_to_bytes)

    def allow(self, work: Work) -> bool:
        """True if a draw is within them."""
        return work.seconds <= self.seconds and work.bytes <= self.bytes


@frozen(eq=False)
class Chosen:
    """A sampler, and what is proven of the databases that it draws from."""

    sampler: Sampler
    family: Family
    bias: float = 0.0
    """The error that rounding of weights may add to each row, in the unit of the form."""

    def work(self) -> Work:
        """Estimate the work of a draw; infinite where there are too many databases to count."""
        log = self.family.log_candidates(self.sampler.terms.size)
        return self.sampler.work() if log < _MOST_BITS / 2 else Work(math.inf, _MOST_BITS)

    def at(self, size: int) -> Chosen:
        """The same for another size."""
        # Every sampler is a frozen value with the terms of the draw among its fields.
        old = cast("Enumeration", self.sampler)
        sampler = evolve(old, terms=evolve(old.terms, size=size))
        # How finely scores are divided may depend on the size.
        family = evolve(self.family, rounding=sampler.rounding, grain=sampler.grain)
        return evolve(self, sampler=sampler, family=family)

    @property
    def bound(self) -> DrawBound:
        """How far a count may be from its share of the database, scaled to the table.

        Where the number of rows is private, it is that of the largest table.
        """
        terms, rate, unit = self.sampler.terms, self.sampler.rate, self.sampler.unit
        rows = max(1, terms.setting.row_limit)
        return DrawBound(self.family, terms.size, rate, rows, unit, self.bias)

    def error(self, beta: float) -> Fraction:
        """The same in rows, of all functions of the workload at once, with probability 1 - beta."""
        return self.bound.error(beta)


def _structured(form: LinearForm, terms: DrawTerms) -> Iterator[Chosen]:
    """The sampler for the structure of a workload, if it has one that is known."""
    sampler = recognised(form, terms)
    if sampler is None:
        return
    yield Chosen(sampler, sampler.family)


def _general(form: LinearForm, terms: DrawTerms) -> Iterator[Chosen]:
    """The samplers that need no structure."""
    merged = Atoms.of(form, terms.setting)
    samplers: list[Sampler] = [Enumeration(terms, merged)]
    if Counting.fits(merged):
        samplers.append(Counting(terms, merged))
    for sampler in samplers:
        yield Chosen(sampler, sampler.family, merged.change)


_Kind: TypeAlias = Callable[[LinearForm, DrawTerms], Iterator[Chosen]]

_KINDS: tuple[_Kind, ...] = (_structured, _general)


def choose(form: LinearForm, terms: DrawTerms, limits: Limits | None = None) -> Chosen:
    """The sampler that is proven to err least, and of several such the quickest.

    Samplers that need no structure are left out where one is known and there are many atoms.
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
        if any(one.sampler.atoms * form.rows > _LITTLE for one in found):
            # To merge the atoms would take longer than the draw, and all databases over so many
            # can be looked at for two or three records only, which is never the best size.
            break
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


def covering_size(
    form: LinearForm, terms: DrawTerms, alpha: Real, limits: Limits | None = None
) -> int:
    """The fewest records with which some database is within alpha of every table; see `size_for`.

    By the best sampler that can draw so many within the limits; by any sampler if none can, so that
    `choose` then refuses the size. The size in the terms plays no part.
    """
    allowed = limits or Limits()
    found = _any_size(form, terms, allowed)
    sizes = [size_for(alpha, one.family.coverage) for one in found]
    fitting = [
        size for one, size in zip(found, sizes, strict=True) if allowed.allow(one.at(size).work())
    ]
    return min(fitting or sizes)


def best_size(form: LinearForm, terms: DrawTerms, beta: float, limits: Limits | None = None) -> int:
    """The size within the limits whose error is least at a confidence, for a public number of rows.

    The size in the terms plays no part.
    """
    if terms.setting.rows is None:
        raise InvalidArgument(
            "size", "given, or alpha, where the number of rows is private", "none"
        )
    allowed, rows = limits or Limits(), max(1, terms.setting.rows)
    planned: list[tuple[Fraction, int]] = []
    for one in _any_size(form, terms, allowed):
        most = _largest(one, allowed)
        if most:
            size = Planner(one.family, one.sampler.rate, beta, most).size(rows)
            planned.append((one.at(size).error(beta), size))
    if not planned:
        return choose(form, evolve(terms, size=1), allowed).sampler.terms.size
    return min(planned)[1]


def _any_size(form: LinearForm, terms: DrawTerms, limits: Limits) -> list[Chosen]:
    """All samplers that apply, at a size of one record."""
    single = evolve(terms, size=1)
    found, widest = _applicable(form, single)
    if not found:
        raise _infeasible(form, single, limits, found, widest)
    return found


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
