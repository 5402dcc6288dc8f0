"""Which families could answer a task, or several at once, by public rules."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from dpsdk.forms import ConvexForm, GapForm, LinearForm
from dpsdk.planner.families.cells import cells
from dpsdk.planner.families.family import Family
from dpsdk.planner.families.levels import levels
from dpsdk.planner.families.line import line
from dpsdk.planner.families.models import learnt, models
from dpsdk.planner.families.noise import noise
from dpsdk.planner.families.shape import Names, Shape
from dpsdk.planner.families.streams import streams
from dpsdk.planner.families.tables import fitted, residuals
from dpsdk.planner.task import Task

__all__ = ["families", "shared"]

_PATIENT_SECONDS = 10.0
"""Whoever allows so much time for a plan has strategies designed for hundreds of cells."""


def families(task: Task[Any, Any]) -> Sequence[Family]:
    """All that could answer a task, by public rules. Whoever cannot refuses when it is quoted.

    They are told by the blocks of the form, whichever class the query is of.
    """
    form: object = task.form
    delta = task.balance.budget.delta
    if isinstance(form, LinearForm):
        return tuple(_linear(form, task))
    if isinstance(form, ConvexForm):
        return tuple(models(form, task.facts, task.balance.budget))
    if isinstance(form, GapForm):
        return tuple(levels(form, delta))
    return ()


def _linear(form: LinearForm, task: Task[Any, Any]) -> Iterator[Family]:
    shape, facts, query = Shape(form), task.facts, task.query
    delta = task.balance.budget.delta
    patient = task.limits is not None and task.limits.seconds >= _PATIENT_SECONDS
    yield from noise(shape, delta=bool(delta))
    yield from line(shape, query, facts, task.limits, task.balance.budget)
    yield from cells(shape, query, delta=bool(delta), patient=patient)
    yield from residuals(shape, query, delta=bool(delta))
    yield from fitted(shape, query, delta=bool(delta))
    if delta:
        yield from streams(shape, facts, delta)


def shared(tasks: Sequence[Task[Any, Any]]) -> Sequence[Family]:
    """What is opened once and answers several tasks of one session for nothing more.

    Where each is linear, ask for the families of their workload instead; these serve where there
    are models among them, or levels alone. `Family.quote` has the cost of the opening for each
    task, which is paid once.
    """
    forms: list[object] = [task.form for task in tasks]
    if not forms:
        return ()
    first = tasks[0]
    delta = first.balance.budget.delta
    gaps = [form for form in forms if isinstance(form, GapForm)]
    if len(gaps) == len(forms):
        return tuple(levels(gaps[0], delta, tops=sum([form.rows for form in gaps])))
    sets: dict[Names, None] = {}
    for form in forms:
        if isinstance(form, ConvexForm):
            sets[form.names] = None
        elif isinstance(form, LinearForm):
            sets |= dict.fromkeys(Shape(form).sets)
        else:
            return ()
    return tuple(learnt(sets, first.facts.domain, first.facts, first.balance.budget, several=True))
