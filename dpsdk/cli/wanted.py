"""The least budget that gives an error."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable
from fractions import Fraction

from dpsdk import Budget
from dpsdk.accounting import Odometer
from dpsdk.accounting.numbers.display import as_text
from dpsdk.accuracy import NoiseAccuracy
from dpsdk.cli.digits import step_of
from dpsdk.cli.made import Asked, Noise, one_row
from dpsdk.cli.request import Request, Wanted
from dpsdk.errors import InvalidArgument, UnsupportedGuarantee
from dpsdk.forms import Facts
from dpsdk.mechanisms import Gaussian, Laplace
from dpsdk.planner import Planner

__all__ = ["priced"]

_STEPS = 10**6
"""Prices are looked for in so many steps a decade: in six digits."""

_DECADES = range(-30, 7)
"""Powers of ten among which prices are looked for: beyond them nothing is private, or told."""


def priced(request: Request, facts: Facts, asked: Asked) -> tuple[Budget, Noise | None]:
    """The budget of this run, and the noise where an error is wanted and not a budget.

    Raises
    ------
    InvalidArgument
        If no noise gives that error, or it costs more than it may.
    """
    wanted = request.budget
    if isinstance(wanted, Budget):
        return wanted, None
    using, budget = _least_for(request, wanted, facts, asked)
    got = f"{wanted.words}, which takes {budget}"
    if request.cap is not None and budget.epsilon > request.cap.epsilon:
        raise InvalidArgument("--error", f"one within --cap, {request.cap}", got)
    if budget.epsilon > wanted.most.epsilon:
        expected = f"one within an epsilon of {as_text(wanted.most.epsilon)}"
        more = "" if wanted.stated else ", unless --epsilon allows more"
        raise InvalidArgument("--error", f"{expected}{more}", got)
    return budget, using


def _least_for(
    request: Request, wanted: Wanted, facts: Facts, asked: Asked
) -> tuple[Noise, Budget]:
    """The noise that gives an error for the least price, and that price as a budget.

    Both are rounded up to six digits. Without δ the noise is Laplace noise, else Gaussian.

    Raises
    ------
    InvalidArgument
        If the error says nothing, or no price gives it.
    """
    error = wanted.words
    most = facts.row_limit if request.counts else 1
    if wanted.error >= most:
        expected = f"below {most:,}, by which no entry is off in any case"
        raise InvalidArgument("--error", expected, error)
    beta, delta = float(request.beta), wanted.delta
    prices = Planner.of(facts, Odometer(Budget(1, delta)))
    # As a float, since errors are: one that is written as 0.05 is no larger than 0.05.
    least, unit = wanted.limit, one_row(request, facts)

    def noise(price: Fraction) -> Noise:
        return Gaussian(rho=price) if delta else Laplace(epsilon=price)

    def reaches(price: Fraction) -> bool:
        bound = prices.quote(asked, using=noise(price)).bound(beta)
        return bound.proven and step_of(bound.error, request.digits, unit).stated <= least

    def lattice(price: Fraction) -> float:
        accuracy = prices.quote(asked, using=noise(price)).accuracy
        return accuracy.step if isinstance(accuracy, NoiseAccuracy) else 0.0

    price = _least(reaches)
    if price is not None and lattice(price) < 1:
        price = _coarser(price, reaches, lattice)
    if price is None:
        raise InvalidArgument("--error", "one that some noise gives", error)
    using = noise(price)
    if isinstance(using, Laplace):
        return using, Budget(price, 0)
    runs = prices.quote(asked, using=using).at_most.runs

    def pays(epsilon: Fraction) -> bool:
        try:
            return Odometer(Budget(epsilon, delta)).affords_all(runs) != 0
        except (InvalidArgument, UnsupportedGuarantee):
            return False

    epsilon = _least(pays)
    if epsilon is None:
        raise InvalidArgument("--delta", "large enough for that error", f"{float(delta):g}")
    return using, Budget(epsilon, delta)


def _least(enough: Callable[[Fraction], bool]) -> Fraction | None:
    """The least price of six digits that is enough; None where none is.

    Every larger price than one that is enough has to be, too.
    """
    decades = [Fraction(10) ** place for place in _DECADES]
    found = bisect_left(decades, 1, key=enough)
    if found == len(decades):
        return None
    # From the decade before on, in steps of the sixth digit.
    unit, first = decades[found] / _STEPS, _STEPS // 10
    steps = bisect_left(range(first, _STEPS), 1, key=lambda one: enough(one * unit))
    return (first + steps) * unit


def _coarser(
    price: Fraction, reaches: Callable[[Fraction], bool], lattice: Callable[[Fraction], float]
) -> Fraction:
    """A lower price that is enough where one is, on the next coarser lattice; else this one.

    Noise that gets narrower goes over to a finer lattice, half as wide. A bound is a whole number
    of its steps, so it may be half a step larger there than it was just before.
    """
    here = lattice(price)
    first = _least(lambda one: lattice(one) <= here)
    if first is None:
        return price
    lower = _least(lambda one: one >= first or reaches(one))
    return price if lower is None or lower >= first else lower
