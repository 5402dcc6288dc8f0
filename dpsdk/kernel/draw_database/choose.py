"""Choose or refuse the sampler for a workload, by public facts alone."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from typing import cast

from dpsdk._checks import shown, to_count, to_finite
from dpsdk._records import evolve, field, frozen
from dpsdk.codec import INTEGER, NUMBER, written
from dpsdk.errors import ExactSamplingInfeasible, InvalidArgument, TooLarge
from dpsdk.forms import LinearForm
from dpsdk.kernel.draw_database.atoms import Atoms
from dpsdk.kernel.draw_database.base import DrawTerms, Sampler, Work
from dpsdk.kernel.draw_database.bounds import (
    LARGEST_SIZE,
    AnyCoverage,
    Family,
    size_for,
    to_size,
)
from dpsdk.kernel.draw_database.counting import Counting
from dpsdk.kernel.draw_database.enumeration import Enumeration
from dpsdk.kernel.draw_database.recognition import recognised
from dpsdk.typing import Real

__all__ = ["Limits", "best_size", "choose", "covering_size", "feasible_size", "general"]

_BETA = 0.05
"""At which confidence samplers are compared."""

_MOST_SECONDS = 1_000_000
_MOST_BYTES = 2**40

_LITTLE = 2**18
"""With more weights than this, a known structure is not compared with none."""


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


_DEFAULT = Limits()


def general(form: LinearForm, terms: DrawTerms) -> list[Sampler]:
    """The samplers that need no structure."""
    merged = Atoms.of(form, terms.setting)
    counting = Counting(terms, merged)
    return [Enumeration(terms, merged), *([counting] if counting.fits else [])]


def choose(form: LinearForm, terms: DrawTerms, limits: Limits = _DEFAULT) -> Sampler:
    """The sampler that is proven to err least, and of several such the quickest.

    Samplers that need no structure are left out where one is known and there are many atoms.
    """
    to_size(terms.size)
    found, widest = _applicable(form, terms)
    feasible = [one for one in found if limits.allow(one.work())]
    if feasible:
        return min(feasible, key=lambda one: (one.bound.error(_BETA), one.work().seconds))
    raise _infeasible(form, terms, limits, found, widest)


def _applicable(form: LinearForm, terms: DrawTerms) -> tuple[list[Sampler], int]:
    """The samplers that apply, and how many atoms there are at the most if none does."""
    known = recognised(form, terms)
    found = [] if known is None else [known]
    # To merge many atoms would take longer than the draw, and all databases over so many can be
    # looked at for two or three records only, which is never the best size.
    if known is None or known.atoms * form.rows <= _LITTLE:
        try:
            found += general(form, terms)
        except TooLarge as error:
            return found, error.needed
    return found, 0


def _at(sampler: Sampler, size: int) -> Sampler:
    """The same sampler for another size."""
    # Every sampler is a frozen value with the terms of the draw among its fields.
    old = cast("Enumeration", sampler)
    return evolve(old, terms=evolve(old.terms, size=size))


def feasible_size(form: LinearForm, terms: DrawTerms, limits: Limits = _DEFAULT) -> int:
    """The largest size for which some sampler is within the limits; 0 where there is none.

    The size in the terms plays no part.
    """
    found, _ = _applicable(form, evolve(terms, size=1))
    return max((_largest(one, limits) for one in found), default=0)


def covering_size(
    form: LinearForm, terms: DrawTerms, alpha: Real, limits: Limits = _DEFAULT
) -> int:
    """The fewest records with which some database is within alpha of every table; see `size_for`.

    By the best sampler that can draw so many within the limits; by any sampler if none can, so that
    `choose` then refuses the size. The size in the terms plays no part.
    """
    found = _any_size(form, terms, limits)
    sizes = [size_for(alpha, one.coverage) for one in found]
    pairs = zip(found, sizes, strict=True)
    fitting = [size for one, size in pairs if limits.allow(_at(one, size).work())]
    return min(fitting or sizes)


def best_size(form: LinearForm, terms: DrawTerms, beta: float, limits: Limits = _DEFAULT) -> int:
    """The size within the limits whose error is least at a confidence, for a public number of rows.

    The size in the terms plays no part.
    """
    if terms.setting.rows is None:
        expected = "given, or alpha, where the number of rows is private"
        raise InvalidArgument("size", expected, "none")
    rows = max(1, terms.setting.rows)
    planned: list[tuple[Fraction, int]] = []
    for one in _any_size(form, terms, limits):
        if most := _largest(one, limits):
            size = one.family.best_size(one.rate, rows, beta, most)
            planned.append((_at(one, size).bound.error(beta), size))
    if not planned:
        return choose(form, evolve(terms, size=1), limits).terms.size
    return min(planned)[1]


def _any_size(form: LinearForm, terms: DrawTerms, limits: Limits) -> list[Sampler]:
    """All samplers that apply, at a size of one record."""
    single = evolve(terms, size=1)
    found, widest = _applicable(form, single)
    if not found:
        raise _infeasible(form, single, limits, found, widest)
    return found


def _largest(sampler: Sampler, limits: Limits) -> int:
    """The largest size for which a sampler is within the limits; 0 where there is none."""

    def fits(size: int) -> bool:
        return limits.allow(_at(sampler, size).work())

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
    form: LinearForm, terms: DrawTerms, limits: Limits, found: Sequence[Sampler], atoms: int
) -> ExactSamplingInfeasible:
    best = min(found, key=lambda one: one.work().seconds, default=None)
    seconds, family = math.inf, Family(AnyCoverage(1, max(atoms, 1)), max(atoms, 1))
    if best is not None:
        seconds, family = best.work().seconds, best.family
    largest = feasible_size(form, terms, limits)
    alternatives = [f"size={largest}, the largest within the limits"] if largest else []
    alternatives += [
        "a larger alpha, for which fewer records are enough",
        "fewer functions, or coarser ones",
        "OnlinePMW, which draws nothing and answers any linear query",
    ]
    log2 = family.log_candidates(terms.size) / math.log(2)
    return ExactSamplingInfeasible(family.atoms, terms.size, log2, seconds, tuple(alternatives))
