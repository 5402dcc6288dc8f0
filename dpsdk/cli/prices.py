"""How all tables of a release are made: by which noise, at which price, and how far off."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Sequence
from fractions import Fraction
from math import prod
from typing import TypeAlias

import numpy as np

from dpsdk import Budget, Release, Session
from dpsdk._records import frozen
from dpsdk.accounting import Odometer
from dpsdk.accounting.numbers import as_text, largest
from dpsdk.accuracy import NoiseAccuracy
from dpsdk.cli.request import Request, Wanted
from dpsdk.cli.tables import step_of
from dpsdk.errors import InvalidArgument, NoBound, UnsupportedGuarantee
from dpsdk.forms import Facts
from dpsdk.mechanisms import FittedTable, Gaussian, Laplace, LocalMarginals
from dpsdk.planner import Planner
from dpsdk.queries import Answers, Marginal, MarginalTable, Workload
from dpsdk.release import Bound, Cost
from dpsdk.session.periods import TimeRange

__all__ = [
    "Asked",
    "Made",
    "Noise",
    "asked_of",
    "check_left",
    "made_of",
    "mechanism_for",
    "one_row",
    "priced",
]

DENSE_LIMIT = 2**21
"""Beyond so many cells of the attributes asked for, tables are many or large, and fitting wins."""

_CERTIFY = Fraction(1, 10)
"""The share of the budget for the certificate of fitted tables."""

_STEPS = 10**6
"""Prices are looked for in so many steps a decade: in six digits."""

_DECADES = range(-30, 7)
"""Powers of ten among which prices are looked for: beyond them nothing is private, or told."""

Asked: TypeAlias = Workload[MarginalTable]
Noise: TypeAlias = Gaussian | Laplace


@frozen(kw_only=True)
class Made:
    """All tables, what they cost, and how far off they may be.

    `errors` says it of the entries of each table, and `listed` what each table rests on, where that
    is not the same for all. Every true entry is a multiple of `unit`; 0 where the bounds do not
    rest on exact sums.
    """

    release: Release[Answers[MarginalTable]]
    mechanism: str
    kind: str
    price: Fraction
    cost: Cost
    bound: Bound
    errors: tuple[float, ...]
    unit: Fraction = Fraction(0)
    listed: tuple[FittedTable, ...] | None = None


def asked_of(request: Request, tables: Sequence[Sequence[str]]) -> Asked:
    """Return the question for tables of these attributes."""
    return Workload(
        Marginal(
            *names,
            normalized=not request.counts,
            bins={name: request.bins[name] for name in names if name in request.bins} or None,
        )
        for names in tables
    )


def one_row(request: Request, facts: Facts) -> Fraction:
    """Return what one row adds to an entry."""
    return Fraction(1, 1 if request.counts or not facts.rows else facts.rows)


def check_left(desk: Session | Planner) -> None:
    """Refuse where nothing is left of a budget."""
    if not desk.remaining.epsilon and not desk.remaining.rho:
        expected = "one with some of the budget of the table left"
        raise InvalidArgument("--ledger", expected, "one where all of it is spent")


def mechanism_for(
    request: Request, budget: Budget, desk: Session | Planner, asked: Asked
) -> Noise | LocalMarginals:
    """Return the mechanism for a budget: noise that takes all it can, or a fit of the tables."""
    cut = any(isinstance(query, Marginal) and query.bins for query in asked.queries)
    if cut and request.method == "local":
        expected = "independent where numbers are shown in bins"
        raise InvalidArgument("--method", expected, "local")
    large = not cut and _cells(desk.facts, asked) > DENSE_LIMIT and bool(budget.delta)
    if request.method == "local" or (request.method == "auto" and large):
        if not budget.delta:
            expected = "above 0 with --method local, whose noise is Gaussian"
            raise InvalidArgument("--delta", expected, "0")
        return LocalMarginals(
            asked,
            epsilon=budget.epsilon,
            delta=budget.delta,
            certify=_CERTIFY,
            beta=float(request.beta),
        )
    return _most_noise(desk, asked)


def _cells(facts: Facts, asked: Asked) -> int:
    """Return how many cells the universe of the attributes has that are asked for."""
    names = {
        name for query in asked.queries if isinstance(query, Marginal) for name in query.attributes
    }
    return prod(facts.domain[name].size for name in names)


def _most_noise(desk: Session | Planner, asked: Asked) -> Noise:
    """Return the noise whose one run takes as much of the budget as one run can."""
    if not desk.budget.delta:
        return Laplace(epsilon=desk.remaining.epsilon)

    def fits(rho: Fraction) -> bool:
        try:
            count = desk.affords(asked, using=Gaussian(rho=rho))
        except (InvalidArgument, UnsupportedGuarantee):
            return False
        return count is None or count >= 1

    rho = largest(fits, desk.remaining.rho)
    if not rho:
        expected = "large enough for one run of Gaussian noise"
        raise InvalidArgument("--epsilon and --delta", expected, str(desk.budget))
    return Gaussian(rho=rho)


def made_of(
    request: Request, session: Session, using: Noise | LocalMarginals, asked: Asked
) -> Made:
    """Release the tables, for which the session is charged."""
    if isinstance(using, LocalMarginals):
        return _fitted(request, session, using, asked)
    beta = float(request.beta)
    release = _desk(session).release(asked, using=using)
    price = using.rho if isinstance(using, Gaussian) else using.epsilon
    return Made(
        release=release,
        mechanism=type(using).__name__,
        kind="rho" if isinstance(using, Gaussian) else "epsilon",
        price=price or Fraction(0),
        cost=release.cost,
        bound=release.bound(beta),
        errors=(release.error(beta),) * len(release.value),
        unit=one_row(request, session.facts),
    )


def _desk(session: Session) -> Session | TimeRange:
    """Return who is asked: of a table with periods all that was loaded, which `--between` says."""
    return session if session.facts.periods is None else session.between(None, None)


def _fitted(request: Request, session: Session, using: LocalMarginals, asked: Asked) -> Made:
    """Release tables that are fitted one by one, each with its bound from the certificate."""
    beta = float(request.beta)
    with _desk(session).open(using) as channel:
        cost = session.history[-1].cost
        release = channel.release(asked)
        known = {frozenset(one.names): one for one in channel.tables}
    # No share is off by more than 1, and no count by more than all rows that there may be.
    most = float(session.facts.row_limit) if request.counts else 1.0
    starts = np.cumsum([0, *[table.values.size for table in release.value]])[:-1]
    try:
        each = np.minimum(release.errors(beta), most)[starts]
    except NoBound:
        each = np.full(len(starts), most)
    largest_error = float(each.max())
    kind = "certificate of all tables at once, by their total variation"
    return Made(
        release=release,
        mechanism="LocalMarginals",
        kind="rho",
        price=cost.rho,
        cost=cost,
        bound=Bound(largest_error, beta, kind, "promised", vacuous=largest_error >= most),
        errors=tuple(each.tolist()),
        listed=tuple([known[frozenset(table.names)] for table in release.value]),
    )


def priced(request: Request, facts: Facts, asked: Asked) -> tuple[Budget, Noise | None]:
    """Return the budget of this run, and the noise where an error is wanted and not a budget."""
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
    """Return the noise that gives an error for the least price, and that price as a budget."""
    error = wanted.words
    most = facts.row_limit if request.counts else 1
    if wanted.error >= most:
        expected = f"below {most:,}, by which no entry is off in any case"
        raise InvalidArgument("--error", expected, error)
    beta, delta = float(request.beta), wanted.delta
    planner = Planner.of(facts, Odometer(Budget(1, delta)))
    # As a float, since errors are: one that is written as 0.05 is no larger than 0.05.
    limit, unit = wanted.limit, one_row(request, facts)

    def noise(price: Fraction) -> Noise:
        return Gaussian(rho=price) if delta else Laplace(epsilon=price)

    def reaches(price: Fraction) -> bool:
        bound = planner.quote(asked, using=noise(price)).bound(beta)
        return bound.proven and step_of(bound.error, request.digits, unit).stated <= limit

    def lattice(price: Fraction) -> float:
        accuracy = planner.quote(asked, using=noise(price)).accuracy
        return accuracy.step if isinstance(accuracy, NoiseAccuracy) else 0.0

    price = _least(reaches)
    if price is not None and lattice(price) < 1:
        price = _coarser(price, reaches, lattice)
    if price is None:
        raise InvalidArgument("--error", "one that some noise gives", error)
    using = noise(price)
    if isinstance(using, Laplace):
        return using, Budget(price, 0)
    runs = planner.quote(asked, using=using).at_most.runs

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
    """Return the least price of six digits that is enough, as all above it are; None for none."""
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
    """Return a lower price on the next coarser lattice that is enough, if there is one.

    Noise that gets narrower goes over to a finer lattice, half as wide. A bound is a whole number
    of its steps, so it may be half a step larger there than it was just before.
    """
    here = lattice(price)
    first = _least(lambda one: lattice(one) <= here)
    if first is None:
        return price
    lower = _least(lambda one: one >= first or reaches(one))
    return price if lower is None or lower >= first else lower
