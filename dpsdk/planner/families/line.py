"""One ordered attribute: thresholds, intervals and quantiles of it."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from dpsdk.accounting import Budget
from dpsdk.forms import Facts, LinearForm, Lowers
from dpsdk.kernel import Limits
from dpsdk.mechanisms import SmallDB, SquareRoot, Tree
from dpsdk.planner.families.family import Family, concentrated, pure
from dpsdk.planner.families.shape import Shape

__all__ = ["line"]

_TREE_CELLS = 2**22
_ROOT_CELLS = 2**20
_FEW = 8
"""Of so few cells all are measured as well as a tree of them."""

_SEVERAL = 5
"""And so few answers are measured as well each by itself."""

_MANY = 64
"""For fewer answers than this a small database is no better than noise on each."""

_DRAWN = 2**12

_LITTLE = 2**13
"""Rows times ε, over the rows of a person, from which on noise has the smaller bounds."""

_SLOW_CELLS = 2**14
_SLOW_ROWS = 2**12
"""From here on a quote takes some ten milliseconds."""


def line(
    shape: Shape,
    workload: Lowers[LinearForm],
    facts: Facts,
    limits: Limits | None,
    most: Budget,
) -> Iterator[Family]:
    """A tree of counts, the root of all thresholds, and a small database.

    A few answers and a table of the cells are measured as they are at less cost.
    """
    epsilon, delta = most.epsilon, bool(most.delta)
    name = shape.line
    if name is None or shape.form.rows < _SEVERAL or not shape.runs or shape.tables:
        return
    size = shape.sizes[name]
    if size <= _FEW:
        return
    frees = f"thresholds, intervals, quantiles and counts of {name}"
    slow = size > _SLOW_CELLS or shape.form.rows > _SLOW_ROWS
    if size <= _TREE_CELLS:
        yield pure("tree", lambda epsilon: Tree(name, epsilon=epsilon), frees, slow=slow)
        if delta:
            yield concentrated("tree+gaussian", partial(Tree, name), frees, slow=slow)
    if delta and size <= _ROOT_CELLS:
        yield concentrated("square-root", partial(SquareRoot, name), frees, slow=slow)
    few = facts.rows is not None and facts.rows * epsilon <= _LITTLE * facts.unit_rows
    if few and _MANY <= shape.form.rows <= _DRAWN:
        # What it draws by, and how finely, follows from the number of rows.
        records = "every query, off published records; those asked here with a bound"
        yield pure(
            "small-db",
            lambda epsilon: SmallDB(workload, epsilon=epsilon, limits=limits),
            records,
            slow=True,
        )
