"""The families that could answer a task, or several tasks at once, by public rules.

A family applies by the blocks of the form, whichever class the query is of. A mechanism that cannot
answer refuses when it is quoted.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from dpsdk import forms, hypothesis, mechanisms
from dpsdk.forms import LinearForm, Lowers
from dpsdk.planner.family import Family
from dpsdk.planner.shape import Names, Shape, tables_of
from dpsdk.planner.task import Task
from dpsdk.planner.work import affordable

if TYPE_CHECKING:
    from dpsdk.forms import ConvexForm
    from dpsdk.mechanisms import Mechanism

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
    if isinstance(form, forms.UnwrittenForm):
        return (_choice(),)
    if isinstance(form, LinearForm):
        shape = Shape(form)
        return tuple(affordable(_linear(shape, task), shape, task.limits, parts))
    if isinstance(form, forms.TallyForm):
        return tuple(_alone(task, slow=False))
    if isinstance(form, forms.ConvexForm):
        return tuple(_models([form], task))
    if isinstance(form, forms.ConvexForms):
        return tuple(_models(form.parts, task))
    if isinstance(form, forms.GapForm):
        return tuple(_levels(form.rows, task))
    return ()


def shared(tasks: Sequence[Task[Any, Any]]) -> Sequence[Family]:
    """Return what is opened once and answers several tasks for nothing more.

    Where each is linear, the families of their workload serve instead. `Family.quote` has the cost
    of the opening for each task, which is paid once.
    """
    lowered: list[object] = [task.form for task in tasks]
    if not lowered:
        return ()
    first = tasks[0]
    gaps = [form for form in lowered if isinstance(form, forms.GapForm)]
    if len(gaps) == len(lowered):
        return tuple(_levels(sum([form.rows for form in gaps]), first))
    sets: dict[Names, None] = {}
    for form in lowered:
        if isinstance(form, forms.UnwrittenForm):
            return ()
        if isinstance(form, forms.ConvexForm):
            sets[form.names] = None
        elif isinstance(form, forms.ConvexForms):
            sets |= dict.fromkeys([part.names for part in form.parts])
        elif isinstance(form, LinearForm):
            sets |= dict.fromkeys(Shape(form).sets)
        else:
            return ()
    return tuple(_learnt(sets, first, several=True))


def _linear(shape: Shape, task: Task[Any, LinearForm]) -> Iterator[Family]:
    yield from _noise(shape, task)
    yield from _line(shape, task)
    if shape.form.crossing is not None:
        yield _choice()
    yield from _cells(shape, task)
    yield from _tables(shape, task)
    yield from _stream(shape, task)


def _noise(shape: Shape, task: Task[Any, LinearForm]) -> Iterator[Family]:
    """Noise on every answer, and the same moved to the nearest possible answers."""
    # The sensitivity of many weights that are no integers is searched for anew on each lattice.
    slow = shape.weights > 2**16 and not shape.form.integral
    yield from _alone(task, slow=slow)
    # A few answers have little to tell of each other.
    if shape.form.rows >= 32 and shape.weights <= 2**20:
        yield Family("projection", "rho" if task.delta else "epsilon", mechanisms.Projection)


def _alone(task: Task[Any, Any], *, slow: bool) -> Iterator[Family]:
    """Noise on every answer."""
    yield Family("laplace", "epsilon", mechanisms.Laplace, slow=slow)
    if task.delta:
        yield Family("gaussian", "rho", mechanisms.Gaussian, slow=slow)


def _line(shape: Shape, task: Task[Any, LinearForm]) -> Iterator[Family]:
    """Thresholds and intervals of one attribute: a tree, the square root, a small database."""
    name, rows = shape.line, shape.form.rows
    if name is None or rows < 5 or not shape.runs or shape.tables:
        return
    size = shape.sizes[name]
    if size <= 8:
        return
    frees = f"thresholds, intervals, quantiles and counts of {name}"
    slow = size > 2**14 or rows > _SLOW_ROWS
    if size <= 2**22:
        yield Family("tree", "epsilon", partial(mechanisms.Tree, name), frees, slow)
        if task.delta:
            yield Family("tree+gaussian", "rho", partial(mechanisms.Tree, name), frees, slow)
    if task.delta and size <= 2**20:
        yield Family("square-root", "rho", partial(mechanisms.SquareRoot, name), frees, slow)
    facts = task.facts
    strength = None if facts.rows is None else facts.rows * task.balance.budget.epsilon
    # Noise has the smaller bounds of many rows, and of few answers.
    if strength is not None and strength <= 2**13 * facts.unit_rows and 64 <= rows <= 2**12:
        frees = "every query, off published records; those asked here with a bound"
        draw = partial(mechanisms.SmallDB, task.query, limits=task.limits)
        yield Family("small-db", "epsilon", draw, frees, slow=True)


def _choice() -> Family:
    """A quantile as a choice among all values."""
    return Family("exponential-quantile", "epsilon", mechanisms.ExponentialQuantile)


def _cells(shape: Shape, task: Task[Any, LinearForm]) -> Iterator[Family]:
    """Sums of noisy counts of all cells, and the matrix mechanism."""
    if shape.form.rows < 2:
        return
    if shape.universe <= _DENSE_CELLS and shape.form.rows <= 2**18:
        frees = "every linear query and every model, off published records"
        slow = shape.form.rows > _SLOW_ROWS
        yield Family("noisy-histogram", "epsilon", mechanisms.NoisyHistogram, frees, slow, passes=8)
        if task.delta:
            yield Family(
                "noisy-histogram+gaussian", "rho", mechanisms.NoisyHistogram, frees, slow, passes=8
            )
    patient = task.limits is not None and task.limits.seconds >= _PATIENT_SECONDS
    # One query alone is planned within milliseconds, a workload within a second.
    designed = 2**9 if patient else 32 if shape.several else 1
    if 1 < shape.cells <= designed:
        frees = f"every linear query on {', '.join(shape.names)}"
        yield Family("matrix", "epsilon", partial(mechanisms.Matrix, task.query), frees)
        if task.delta and not shape.tables:  # which the residuals are best for
            yield Family("matrix+gaussian", "rho", partial(mechanisms.Matrix, task.query), frees)


def _tables(shape: Shape, task: Task[Any, LinearForm]) -> Iterator[Family]:
    """Marginals by residuals, and distributions fitted to the tables that queries lie in."""
    query, domain = task.query, shape.form.domain
    if shape.tables:
        some = "the table" if len(shape.sets) == 1 else f"one of {len(shape.sets):,} tables"
        frees = f"every linear query on attributes of {some}"
        plan = partial(mechanisms.ResidualPlanner, query, objective="max")
        unbiased = Family("residual-planner", "rho", plan, frees)
        yield unbiased if task.delta else unbiased.without("needs-delta")
        cells = sum([math.prod([shape.sizes[name] for name in names]) for names in shape.sets])
        if task.delta and cells <= 2**22:
            possible = partial(plan, nonnegative=True)
            yield Family("residual-planner+nonnegative", "rho", possible, frees)
    # Few queries that are no tables are measured better than tables they lie in are fitted.
    if len(shape.names) < 2 or (shape.form.rows < 256 and not shape.tables):
        return
    frees = "every linear query and every model, as far as the fitted tables tell"
    width = 3 if max(map(len, shape.sets)) <= 8 else 2
    around: Lowers[LinearForm] = query
    if not shape.tables:
        around = tables_of(shape.sets, width, domain)
    local = Family("local-marginals", "rho", partial(mechanisms.LocalMarginals, around), frees)
    yield local if task.delta else local.without("needs-delta")
    if shape.universe <= _DENSE_CELLS and shape.shares:
        # Of many parts MWEM learns the tables they lie in, which are chosen from more quickly.
        wanted = query if shape.parts <= 2**10 else tables_of(shape.sets, width, domain)
        yield _mwem(wanted, frees, task)
    elif shape.shares and not shape.tables:
        # Tables are best fitted as they are; of others so many cells are learnt on records.
        make = partial(mechanisms.MWEM, query)
        yield _on_records(Family("mwem+records", "rho", make, frees, slow=True), task)


def _on_records(family: Family, task: Task[Any, Any]) -> Family:
    """What starts from weighted records, for a universe that is not written out."""
    if not task.delta:
        return family.without("needs-delta")
    return family if task.facts.rows is not None else family.without("needs-public-rows")


def _mwem(wanted: Lowers[LinearForm], frees: str, task: Task[Any, Any]) -> Family:
    delta = bool(task.delta)
    make = partial(mechanisms.MWEM, wanted)
    return Family("mwem", "rho" if delta else "epsilon", make, frees, slow=delta, passes=300)


def _stream(shape: Shape, task: Task[Any, LinearForm]) -> Iterator[Family]:
    """Online private multiplicative weights from all pairs of attributes."""
    rows = shape.form.rows
    # Fewer answers are measured better each by itself.
    if not task.delta or rows < 100 or len(shape.names) < 2 or not shape.shares:
        return
    frees = "every linear query and every model, as far as pairs and a few corrections tell"
    stream = partial(mechanisms.OnlinePMW, updates=10, queries=rows)
    if shape.universe > _DENSE_CELLS:
        if shape.tables:
            return
        make = partial(stream, start="marginals")
        wide = Family("online-pmw+records", "pair", make, frees, slow=True, delta=task.delta)
        yield _on_records(wide, task)
        return
    make = partial(stream, start=hypothesis.Pairs(), prepaid=True)
    family = Family("online-pmw", "pair", make, frees, slow=True, passes=100, delta=task.delta)
    yield family if task.facts.rows is not None else family.without("needs-public-rows")


def _levels(tops: int, task: Task[Any, Any]) -> Iterator[Family]:
    """The sparse vector, for `tops` answers "above". Numbers are measured where asked for."""
    frees = "all further questions that are answered no, until the last yes"
    make = partial(mechanisms.NumericSparse, tops=tops)
    yield Family("numeric-sparse", "epsilon", make, frees)
    if task.delta and tops > 1:
        # Of one top the pure one costs as much, and no δ.
        yield Family("numeric-sparse+concentrated", "pair", make, frees, delta=task.delta)


def _models(models: Sequence[ConvexForm], task: Task[Any, Any]) -> Iterator[Family]:
    """Models: by noisy moments or pairs and gradients, by descent, or off a distribution."""
    budget, facts, descent = task.balance.budget, task.facts, mechanisms.NoisyDescent.textbook()

    def found(code: str, make: Callable[..., Mechanism[Any]]) -> Family:
        return Family(code, "pair", make, slow=True, passes=300, delta=task.delta)

    yield found("private-minimizer", mechanisms.PrivateMinimizer)
    # These have bounds beforehand, the second of any number of features with a great many rows.
    if facts.rows is not None and all(mechanisms.PerturbedObjective.takes(one) for one in models):
        perturbed = partial(mechanisms.PrivateMinimizer, oracle=mechanisms.PerturbedObjective())
        yield found("private-minimizer+perturbed", perturbed)
    if facts.rows is not None and budget.epsilon * facts.rows >= 2**12 * facts.unit_rows:
        yield found(
            "private-minimizer+descent", partial(mechanisms.PrivateMinimizer, oracle=descent)
        )
    sets = dict.fromkeys([form.names for form in models])
    yield from _learnt(sets, task, several=len(models) > 1)


def _learnt(sets: Iterable[Names], task: Task[Any, Any], *, several: bool) -> Iterator[Family]:
    """Distributions fitted once to all pairs of attributes that models depend on together."""
    domain, rows, delta = task.facts.domain, task.facts.rows, task.delta
    pairs: Lowers[LinearForm] = tables_of(sets, 2, domain)
    frees = "every model and every linear query, as far as pairs of attributes tell"
    if delta:
        yield Family("local-marginals", "rho", partial(mechanisms.LocalMarginals, pairs), frees)
    if domain.size > _DENSE_CELLS:
        return
    yield _mwem(pairs, frees, task)
    if not delta:
        return
    # A stream needs something left to ask with.
    once = partial(mechanisms.OnlinePMW, updates=1, start=hypothesis.Pairs("0.99"), prepaid=True)
    fit = Family("online-pmw", "pair", once, frees, slow=True, passes=100, delta=delta)
    if rows is None:
        yield fit.without("needs-public-rows")
        return
    yield fit
    if several and task.balance.budget.epsilon * rows >= 10**6 * task.facts.unit_rows:
        guarded = partial(mechanisms.ConvexPMW, updates=10, start=hypothesis.Pairs(), prepaid=True)
        yield Family("convex-pmw", "pair", guarded, frees, slow=True, passes=300, delta=delta)
