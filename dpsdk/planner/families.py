"""The families that could answer a task, or several tasks at once, by public rules.

A family applies by the blocks of the form, whichever class the query is of. A mechanism that cannot
answer refuses when it is quoted.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from fractions import Fraction
from functools import partial
from typing import Any

from dpsdk.domain import Domain
from dpsdk.forms import ConvexForm, Facts, GapForm, LinearForm, Lowers
from dpsdk.hypothesis import Pairs
from dpsdk.mechanisms import (
    MWEM,
    ConvexPMW,
    Gaussian,
    Laplace,
    LocalMarginals,
    Matrix,
    NoisyDescent,
    NoisyHistogram,
    NumericSparse,
    OnlinePMW,
    PrivateMinimizer,
    Projection,
    ResidualPlanner,
    SmallDB,
    SquareRoot,
    Tree,
)
from dpsdk.planner.family import Family, concentrated, paired, pure
from dpsdk.planner.shape import Names, Shape, tables_of
from dpsdk.planner.task import Task
from dpsdk.planner.work import affordable

__all__ = ["families", "shared"]

_DENSE_CELLS = 2**24
"""A distribution over more cells is not written out."""

_SLOW_ROWS = 2**12
"""A quote of so many answers takes some ten milliseconds."""

_PATIENT_SECONDS = 10.0
"""A plan that may take so long has strategies designed for hundreds of cells."""


def families(task: Task[Any, Any], parts: int = 1) -> Sequence[Family]:
    """Return all families that could answer a task, one of so many that are planned together."""
    form: object = task.form
    if isinstance(form, LinearForm):
        shape = Shape(form)
        return tuple(affordable(_linear(shape, task), shape, task.limits, parts))
    if isinstance(form, ConvexForm):
        return tuple(_models(form, task))
    if isinstance(form, GapForm):
        return tuple(_levels(form.rows, task.balance.budget.delta))
    return ()


def shared(tasks: Sequence[Task[Any, Any]]) -> Sequence[Family]:
    """Return what is opened once and answers several tasks for nothing more.

    Where each is linear, the families of their workload serve instead; these are for tasks with
    models among them, or levels alone. `Family.quote` has the cost of the opening for each task,
    which is paid once.
    """
    forms: list[object] = [task.form for task in tasks]
    if not forms:
        return ()
    first = tasks[0]
    gaps = [form for form in forms if isinstance(form, GapForm)]
    if len(gaps) == len(forms):
        return tuple(_levels(sum([form.rows for form in gaps]), first.balance.budget.delta))
    sets: dict[Names, None] = {}
    for form in forms:
        if isinstance(form, ConvexForm):
            sets[form.names] = None
        elif isinstance(form, LinearForm):
            sets |= dict.fromkeys(Shape(form).sets)
        else:
            return ()
    return tuple(_learnt(sets, first, several=True))


def _linear(shape: Shape, task: Task[Any, LinearForm]) -> Iterator[Family]:
    yield from _noise(shape, task)
    yield from _line(shape, task)
    yield from _cells(shape, task)
    yield from _tables(shape, task)
    yield from _stream(shape, task)


def _noise(shape: Shape, task: Task[Any, LinearForm]) -> Iterator[Family]:
    """Noise on every answer, and the same moved to the nearest possible answers."""
    delta = bool(task.balance.budget.delta)
    # The sensitivity of many weights that are no integers is searched for anew on each lattice.
    slow = shape.weights > 2**16 and not shape.form.integral
    yield pure("laplace", Laplace, slow=slow)
    if delta:
        yield concentrated("gaussian", Gaussian, slow=slow)
    # A few answers have little to tell of each other.
    if shape.form.rows >= 32 and shape.weights <= 2**20:
        yield (concentrated if delta else pure)("projection", Projection)


def _line(shape: Shape, task: Task[Any, LinearForm]) -> Iterator[Family]:
    """Thresholds and intervals of one attribute: a tree, the square root, a small database."""
    name, rows = shape.line, shape.form.rows
    if name is None or rows < 5 or not shape.runs or shape.tables:
        return
    size, delta = shape.sizes[name], bool(task.balance.budget.delta)
    if size <= 8:
        return
    frees = f"thresholds, intervals, quantiles and counts of {name}"
    slow = size > 2**14 or rows > _SLOW_ROWS
    if size <= 2**22:
        yield pure("tree", partial(Tree, name), frees, slow=slow)
        if delta:
            yield concentrated("tree+gaussian", partial(Tree, name), frees, slow=slow)
    if delta and size <= 2**20:
        yield concentrated("square-root", partial(SquareRoot, name), frees, slow=slow)
    facts = task.facts
    strength = None if facts.rows is None else facts.rows * task.balance.budget.epsilon
    # Noise has the smaller bounds of many rows, and of few answers.
    if strength is not None and strength <= 2**13 * facts.unit_rows and 64 <= rows <= 2**12:
        frees = "every query, off published records; those asked here with a bound"
        draw = partial(SmallDB, task.query, limits=task.limits)
        yield pure("small-db", draw, frees, slow=True)


def _cells(shape: Shape, task: Task[Any, LinearForm]) -> Iterator[Family]:
    """Sums of noisy counts of all cells, and the matrix mechanism."""
    if shape.form.rows < 2:
        return
    delta = bool(task.balance.budget.delta)
    if shape.universe <= _DENSE_CELLS and shape.form.rows <= 2**18:
        frees = "every linear query and every model, off published records"
        slow = shape.form.rows > _SLOW_ROWS
        yield pure("noisy-histogram", NoisyHistogram, frees, slow=slow, passes=8)
        if delta:
            name = "noisy-histogram+gaussian"
            yield concentrated(name, NoisyHistogram, frees, slow=slow, passes=8)
    patient = task.limits is not None and task.limits.seconds >= _PATIENT_SECONDS
    # One query alone is planned within milliseconds, a workload within a second.
    designed = 2**9 if patient else 32 if shape.several else 1
    if 1 < shape.cells <= designed:
        frees = f"every linear query on {', '.join(shape.names)}"
        yield pure("matrix", partial(Matrix, task.query), frees)
        if delta and not shape.tables:  # which the residuals are best for
            yield concentrated("matrix+gaussian", partial(Matrix, task.query), frees)


def _tables(shape: Shape, task: Task[Any, LinearForm]) -> Iterator[Family]:
    """Marginals by residuals, and distributions fitted to the tables that queries lie in."""
    delta, query, domain = bool(task.balance.budget.delta), task.query, shape.form.domain
    if shape.tables:
        some = "the table" if len(shape.sets) == 1 else f"one of {len(shape.sets):,} tables"
        frees = f"every linear query on attributes of {some}"
        plan = partial(ResidualPlanner, query, objective="max")
        unbiased = concentrated("residual-planner", plan, frees)
        yield unbiased if delta else unbiased.without("needs-delta")
        cells = sum([math.prod([shape.sizes[name] for name in names]) for names in shape.sets])
        if delta and cells <= 2**22:
            possible = partial(plan, nonnegative=True)
            yield concentrated("residual-planner+nonnegative", possible, frees)
    # Few queries that are no tables are measured better than tables they lie in are fitted.
    if len(shape.names) < 2 or (shape.form.rows < 256 and not shape.tables):
        return
    frees = "every linear query and every model, as far as the fitted tables tell"
    width = 3 if max(map(len, shape.sets)) <= 8 else 2
    around: Lowers[LinearForm] = query
    if not shape.tables:
        around = tables_of(shape.sets, width, domain)
    local = concentrated("local-marginals", partial(LocalMarginals, around), frees)
    yield local if delta else local.without("needs-delta")
    if shape.universe <= _DENSE_CELLS and shape.shares:
        # Of many parts MWEM learns the tables they lie in, which are chosen from more quickly.
        wanted = query if shape.parts <= 2**10 else tables_of(shape.sets, width, domain)
        yield _mwem(wanted, frees, delta=delta)


def _mwem(wanted: Lowers[LinearForm], frees: str, *, delta: bool) -> Family:
    make = partial(MWEM, wanted)
    if delta:
        return concentrated("mwem", make, frees, slow=True, passes=300)
    return pure("mwem", make, frees, passes=300)


def _stream(shape: Shape, task: Task[Any, LinearForm]) -> Iterator[Family]:
    """Online private multiplicative weights from all pairs of attributes."""
    rows, delta = shape.form.rows, task.balance.budget.delta
    # Fewer answers are measured better each by itself.
    if not delta or rows < 100 or len(shape.names) < 2 or not shape.shares:
        return
    if shape.universe > _DENSE_CELLS:
        return

    def make(epsilon: Fraction, most: Fraction) -> OnlinePMW:
        return OnlinePMW(epsilon, most, updates=10, queries=rows, start=Pairs(), prepaid=True)

    frees = "every linear query and every model, as far as pairs and a few corrections tell"
    family = paired("online-pmw", make, delta, frees, slow=True, passes=100)
    yield family if task.facts.rows is not None else family.without("needs-public-rows")


def _levels(tops: int, delta: Fraction) -> Iterator[Family]:
    """The sparse vector, for `tops` answers "above". Numbers are measured where asked for."""

    def make(epsilon: Fraction, most: Fraction) -> NumericSparse:
        return NumericSparse(epsilon, most, tops=tops)

    frees = "all further questions that are answered no, until the last yes"
    yield pure("numeric-sparse", partial(NumericSparse, tops=tops), frees)
    if delta and tops > 1:
        # Of one top the pure one costs as much, and no δ.
        yield paired("numeric-sparse+concentrated", make, delta, frees)


def _models(form: ConvexForm, task: Task[Any, ConvexForm]) -> Iterator[Family]:
    """One model: by noisy moments or pairs and gradients, by descent, or off a distribution."""
    budget, facts = task.balance.budget, task.facts

    def found(epsilon: Fraction, delta: Fraction) -> PrivateMinimizer:
        return PrivateMinimizer(epsilon=epsilon, delta=delta)

    def descent(epsilon: Fraction, delta: Fraction) -> PrivateMinimizer:
        oracle = NoisyDescent.textbook()
        return PrivateMinimizer(epsilon=epsilon, delta=delta, oracle=oracle)

    yield paired("private-minimizer", found, budget.delta, slow=True, passes=300)
    # The one with a bound beforehand takes a great many rows.
    if facts.rows is not None and budget.epsilon * facts.rows >= 2**12 * facts.unit_rows:
        yield paired("private-minimizer+descent", descent, budget.delta, slow=True, passes=300)
    yield from _learnt([form.names], task, several=False)


def _learnt(sets: Iterable[Names], task: Task[Any, Any], *, several: bool) -> Iterator[Family]:
    """Distributions fitted once to all pairs of attributes that models depend on together."""
    domain: Domain = task.facts.domain
    facts: Facts = task.facts
    epsilon, delta = task.balance.budget.epsilon, task.balance.budget.delta
    pairs: Lowers[LinearForm] = tables_of(sets, 2, domain)
    frees = "every model and every linear query, as far as pairs of attributes tell"
    if delta:
        yield concentrated("local-marginals", partial(LocalMarginals, pairs), frees)
    if domain.size > _DENSE_CELLS:
        return
    yield _mwem(pairs, frees, delta=bool(delta))

    def once(amount: Fraction, most: Fraction) -> OnlinePMW:
        # A stream needs something left to ask with.
        return OnlinePMW(amount, most, updates=1, start=Pairs("0.99"), prepaid=True)

    def guarded(amount: Fraction, most: Fraction) -> ConvexPMW:
        return ConvexPMW(amount, most, updates=10, start=Pairs(), prepaid=True)

    if not delta:
        return
    fit = paired("online-pmw", once, delta, frees, slow=True, passes=100)
    if facts.rows is None:
        yield fit.without("needs-public-rows")
        return
    yield fit
    if several and epsilon * facts.rows >= 10**6 * facts.unit_rows:
        yield paired("convex-pmw", guarded, delta, frees, slow=True, passes=300)
