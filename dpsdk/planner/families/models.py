"""Models: found by themselves, or read off a distribution that knows the pairs they rest on."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from fractions import Fraction
from functools import partial

from dpsdk.accounting import Budget
from dpsdk.domain import Domain
from dpsdk.forms import ConvexForm, Facts, LinearForm, Lowers
from dpsdk.hypothesis import Pairs
from dpsdk.mechanisms import (
    MWEM,
    ConvexPMW,
    LocalMarginals,
    NoisyDescent,
    OnlinePMW,
    PrivateMinimizer,
)
from dpsdk.planner.families.family import Family, concentrated, paired, pure
from dpsdk.planner.families.shape import Names, tables_of

__all__ = ["learnt", "models"]

_CELLS = 2**24

_ALL = "0.99"
"""Of the budget, for pairs alone; a stream needs something left to ask with."""

_GUARDED = 10**6
"""Rows times ε, over the rows of a person, from which on a guard sees what pairs do not tell."""

_PROVEN = 2**12
"""And from which on a descent may have a bound that says something."""

_UPDATES = 10


def models(form: ConvexForm, facts: Facts, most: Budget) -> Iterator[Family]:
    """One model: by noisy moments or pairs and gradients, by descent, or off a distribution."""
    delta = most.delta

    def found(epsilon: Fraction, most: Fraction) -> PrivateMinimizer:
        return PrivateMinimizer(epsilon=epsilon, delta=most)

    def descent(epsilon: Fraction, most: Fraction) -> PrivateMinimizer:
        oracle = NoisyDescent.textbook()
        return PrivateMinimizer(epsilon=epsilon, delta=most, oracle=oracle)

    if delta:
        yield paired("private-minimizer", found, delta, slow=True)
    else:
        yield pure("private-minimizer", lambda epsilon: found(epsilon, Fraction(0)), slow=True)
    if facts.rows is not None and most.epsilon * facts.rows >= _PROVEN * facts.unit_rows:
        # The one with a bound beforehand, which takes a great many rows.
        yield paired("private-minimizer+descent", descent, delta, slow=True)
    yield from learnt([form.names], form.domain, facts, most, several=False)


def learnt(
    sets: Iterable[Names], domain: Domain, facts: Facts, most: Budget, *, several: bool
) -> Iterator[Family]:
    """Distributions fitted once to all pairs of attributes that models depend on together.

    With a guard for several models where rows are so many that it sees what pairs do not tell.
    """
    delta = most.delta
    pairs: Lowers[LinearForm] = tables_of(sets, 2, domain)
    frees = "every model and every linear query, as far as pairs of attributes tell"
    if delta:
        yield concentrated("local-marginals", partial(LocalMarginals, pairs), frees)
    if domain.size > _CELLS:
        return
    if delta:
        yield concentrated("mwem", partial(MWEM, pairs), frees, slow=True)
    else:
        yield pure("mwem", lambda epsilon: MWEM(pairs, epsilon=epsilon), frees)

    def once(epsilon: Fraction, delta: Fraction) -> OnlinePMW:
        return OnlinePMW(epsilon, delta, updates=1, start=Pairs(_ALL), prepaid=True)

    def guarded(epsilon: Fraction, delta: Fraction) -> ConvexPMW:
        return ConvexPMW(epsilon, delta, updates=_UPDATES, start=Pairs(), prepaid=True)

    if not delta:
        return
    fit, rows = paired("online-pmw", once, delta, frees, slow=True), facts.rows
    if rows is None:
        yield fit.without("needs-public-rows")
        return
    yield fit
    if several and most.epsilon * rows >= _GUARDED * facts.unit_rows:
        yield paired("convex-pmw", guarded, delta, frees, slow=True)
