"""How all tables of a release are made: by which noise, at which price, and how far off."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from math import prod
from typing import TypeAlias

import numpy as np
from attrs import frozen

from dpsdk import Budget, Release, Session
from dpsdk.accounting.numbers.search import largest
from dpsdk.cli.request import Request
from dpsdk.errors import InvalidArgument, NoBound, UnsupportedGuarantee
from dpsdk.forms import Facts
from dpsdk.mechanisms import FittedTable, Gaussian, Laplace, LocalMarginals
from dpsdk.planner import Planner
from dpsdk.queries import Answers, Marginal, MarginalTable, Workload
from dpsdk.release import Bound, Cost

__all__ = [
    "Asked",
    "Made",
    "Noise",
    "asked_of",
    "check_left",
    "made_of",
    "mechanism_for",
    "one_row",
]

DENSE_LIMIT = 2**21
"""Where the attributes asked for have more cells, tables are many or large, and fitting wins."""

_CERTIFY = Fraction(1, 10)
"""What part of the budget the certificate of fitted tables takes."""

Asked: TypeAlias = Workload[MarginalTable]
Noise: TypeAlias = Gaussian | Laplace


@frozen(kw_only=True)
class Made:
    """All tables, what they cost, and how far off they may be."""

    release: Release[Answers[MarginalTable]]
    mechanism: str
    kind: str
    price: Fraction
    cost: Cost
    bound: Bound
    errors: tuple[float, ...]
    """How far off an entry of each table may be."""
    unit: Fraction = Fraction(0)
    """What every true entry is a multiple of; 0 where the bounds do not rest on exact sums."""
    listed: tuple[FittedTable, ...] | None = None
    """What each table rests on, where that is not the same for all."""


def check_left(desk: Session | Planner) -> None:
    """Refuse where nothing is left of a budget.

    Raises
    ------
    InvalidArgument
        Then.
    """
    if not desk.remaining.epsilon and not desk.remaining.rho:
        expected = "one with some of the budget of the table left"
        raise InvalidArgument("--ledger", expected, "one where all of it is spent")


def mechanism_for(
    request: Request, budget: Budget, desk: Session | Planner, asked: Asked
) -> Noise | LocalMarginals:
    """What makes the tables for a budget: the noise that takes all it can, or what fits them.

    Raises
    ------
    InvalidArgument
        If there is no δ for what is asked for by name, or the budget is too small for any noise.
    """
    large = _cells(desk.facts, asked) > DENSE_LIMIT and bool(budget.delta)
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


def asked_of(request: Request, tables: Sequence[Sequence[str]]) -> Asked:
    """The question for tables of these attributes."""
    return Workload(Marginal(*names, normalized=not request.counts) for names in tables)


def made_of(
    request: Request, session: Session, using: Noise | LocalMarginals, asked: Asked
) -> Made:
    """The tables, for which the session is charged."""
    beta = float(request.beta)
    if isinstance(using, LocalMarginals):
        return _fitted(request, session, using, asked)
    release, noise = session.release(asked, using=using), using
    price = noise.rho if isinstance(noise, Gaussian) else noise.epsilon
    return Made(
        release=release,
        mechanism=type(noise).__name__,
        kind="rho" if isinstance(noise, Gaussian) else "epsilon",
        price=price or Fraction(0),
        cost=release.cost,
        bound=release.bound(beta),
        errors=(release.error(beta),) * len(release.value),
        unit=one_row(request, session.facts),
    )


def one_row(request: Request, facts: Facts) -> Fraction:
    """What one row adds to an entry."""
    return Fraction(1, 1 if request.counts or not facts.rows else facts.rows)


def _fitted(request: Request, session: Session, using: LocalMarginals, asked: Asked) -> Made:
    """Tables that were fitted one by one, each with its bound from the certificate."""
    beta = float(request.beta)
    with session.open(using) as channel:
        cost = session.history[-1].cost
        release = channel.release(asked)
        known = {frozenset(one.names): one for one in channel.tables}
    listed = tuple([known[frozenset(table.names)] for table in release.value])
    # No share is off by more than 1, and no count by more than all rows that there may be.
    most = float(session.facts.row_limit) if request.counts else 1.0
    starts = np.cumsum([0, *[table.values.size for table in release.value]])[:-1]
    try:
        each = np.minimum(release.errors(beta), most)[starts]
    except NoBound:
        each = np.full(len(starts), most)
    largest_error = float(each.max())
    kind = "certificate of all tables at once, by their total variation"
    bound = Bound(largest_error, beta, kind, "promised", vacuous=largest_error >= most)
    return Made(
        release=release,
        mechanism="LocalMarginals",
        kind="rho",
        price=cost.rho,
        cost=cost,
        bound=bound,
        errors=tuple(each.tolist()),
        listed=listed,
    )


def _cells(facts: Facts, asked: Asked) -> int:
    """How many cells the universe of the attributes has that are asked for."""
    names = {
        name for query in asked.queries if isinstance(query, Marginal) for name in query.attributes
    }
    return prod(facts.domain[name].size for name in names)


def _most_noise(desk: Session | Planner, asked: Asked) -> Noise:
    """The noise whose one run takes as much of the budget as one run can."""
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
