"""Tables: marginals of several attributes, by residuals or by a distribution fitted to them."""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import partial

from dpsdk.domain import Domain
from dpsdk.forms import LinearForm, Lowers
from dpsdk.mechanisms import MWEM, LocalMarginals, ResidualPlanner
from dpsdk.planner.families.family import Family, concentrated, pure
from dpsdk.planner.families.shape import Shape, tables_of

__all__ = ["fitted", "residuals"]

_FITTED_CELLS = 2**24
_POSSIBLE_CELLS = 2**22
_PARTS = 2**10
"""Of more parts MWEM learns the tables that they lie in, which are chosen from more quickly."""

_WIDTH = 3

_MANY = 256
"""Fewer queries that are no tables are measured better than tables that they lie in are fitted."""


def residuals(shape: Shape, workload: Lowers[LinearForm], *, delta: bool) -> Iterator[Family]:
    """Unbiased tables from residuals, of the least largest variance; and possible ones."""
    if not shape.tables:
        return
    some = "the table" if len(shape.sets) == 1 else f"one of {len(shape.sets):,} tables"
    frees = f"every linear query on attributes of {some}"
    plan = partial(ResidualPlanner, workload, objective="max")
    unbiased = concentrated("residual-planner", plan, frees)
    if not delta:
        yield unbiased.without("needs-delta")
        return
    yield unbiased
    if sum([math.prod([shape.sizes[name] for name in s]) for s in shape.sets]) <= _POSSIBLE_CELLS:
        possible = partial(plan, nonnegative=True)
        yield concentrated("residual-planner+nonnegative", possible, frees)


def fitted(shape: Shape, workload: Lowers[LinearForm], *, delta: bool) -> Iterator[Family]:
    """Distributions that are fitted to what was measured of tables, or of the queries."""
    domain, several = shape.form.domain, len(shape.names) > 1
    if not several or (shape.form.rows < _MANY and not shape.tables):
        return
    frees = "every linear query and every model, as far as the fitted tables tell"
    wanted = workload if shape.tables else _tables(shape, domain)
    local = concentrated("local-marginals", partial(LocalMarginals, wanted), frees)
    yield local if delta else local.without("needs-delta")
    if shape.universe <= _FITTED_CELLS and shape.shares:
        wanted = workload if shape.parts <= _PARTS else _tables(shape, domain)
        if delta:
            yield concentrated("mwem", partial(MWEM, wanted), frees, slow=True)
        else:
            yield pure("mwem", lambda epsilon: MWEM(wanted, epsilon=epsilon), frees)


def _tables(shape: Shape, domain: Domain) -> Lowers[LinearForm]:
    """Those of up to three attributes within what queries depend on, or of pairs where many."""
    most = max(map(len, shape.sets))
    return tables_of(shape.sets, _WIDTH if most <= 8 else 2, domain)
