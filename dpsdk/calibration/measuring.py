"""Measuring: every family answers one question of a public table, and is held against the truth."""

from __future__ import annotations

import math
import time
import tracemalloc
from collections.abc import Callable, Iterator
from fractions import Fraction
from functools import partial
from typing import Any, TypeVar

import numpy as np
from attrs import frozen

from dpsdk.accounting import Budget
from dpsdk.accounting.balance import Balance
from dpsdk.accounting.filters.any_of import default_composition
from dpsdk.calibration.tables import PublicTable
from dpsdk.data import PrivateData
from dpsdk.errors import DpsdkError
from dpsdk.forms import ConvexForm, LinearForm, Neighbors
from dpsdk.forms.assumptions import Assumptions
from dpsdk.hypothesis import Mixture
from dpsdk.kernel import Terms
from dpsdk.mechanisms.base import Mechanism, OneShot
from dpsdk.noise import NoiseSource
from dpsdk.planner.calibration import Calibration
from dpsdk.planner.families import Family, families
from dpsdk.planner.features import Features
from dpsdk.planner.forecasting import features, forecast, key, over
from dpsdk.planner.models import Base
from dpsdk.planner.plan import Forecast
from dpsdk.planner.task import Task
from dpsdk.queries import LinearQuery, Query
from dpsdk.release import Release
from dpsdk.session import Session
from dpsdk.typing import Floats

__all__ = ["Observation", "Setting", "error_of", "measure", "run", "task_for"]

A = TypeVar("A")

NOTHING = Calibration("nothing", {}, {})


@frozen
class Setting:
    """How a question is asked.

    Parameters
    ----------
    budget
        What is spent on it.
    neighbors
        The neighbour relation.
    """

    budget: Budget
    neighbors: Neighbors


@frozen
class Observation:
    """One answer of one family.

    Parameters
    ----------
    family
        Its code.
    table, rows, question, setting
        What was asked of a table of how many rows, and how.
    base, unit
        What the error is compared with, and how large that is in the unit of the answer; None
        where nothing is known to compare with.
    features
        What was public beforehand.
    error
        The largest error of all entries, in the unit of the answer.
    trivial
        That of the uniform distribution; infinite where it has no answer.
    expected
        What was forecast beforehand.
    seconds, bytes
        What it took of a machine, None where that was not looked at.
    """

    family: str
    table: str
    rows: int
    question: str
    setting: Setting
    base: Base | None
    unit: float
    features: Features
    error: float
    trivial: float
    expected: Forecast | None
    seconds: float | None
    bytes: int | None


def task_for(
    data: PrivateData,
    query: Query[A, Any],
    setting: Setting,
    assumed: Assumptions,
    calibration: Calibration | None = None,
) -> Task[A, Any]:
    """The task of a question that a new session with this budget would plan."""
    composition = default_composition()
    balance = Balance(composition, setting.budget, (composition.begin(setting.budget),))
    form = query.lower(data.domain)
    terms = Terms(data.facts, composition)
    return Task(query, form, terms, balance, 0.05, assumed, calibration=calibration)


def run(
    data: PrivateData,
    query: Query[A, Any],
    mechanism: Mechanism[Any],
    budget: Budget,
    noise: NoiseSource | None,
) -> Release[A]:
    """One answer from a new session."""
    session = Session(data, budget, noise=noise)
    if isinstance(mechanism, OneShot):
        return session.release(query, using=mechanism)
    with session.open(mechanism) as channel:
        return channel.release(query)


def error_of(table: PublicTable, task: Task[Any, Any], raw: Floats) -> float:
    """The largest error of an answer, of a model what it loses by.

    A number that is NaN, which says that nothing was learnt, is off by the range of the answers.
    The result is NaN for a query that does not say what its numbers are.
    """
    form, query = task.form, task.query
    if isinstance(form, ConvexForm):
        theta, best = raw[: form.dimension], form.minimise(table.records, tolerance=1e-9)[0]
        return max(form.value(table.records, theta) - form.value(table.records, best), 0.0)
    if not isinstance(form, LinearForm) or not isinstance(query, LinearQuery):
        return math.nan
    found, true = (query.numbers(one, task.facts) for one in (raw, table.answers(form)))
    errors = np.abs(np.asarray(found) - np.asarray(true))
    told = errors[~np.isnan(np.asarray(true))]
    return float(np.nan_to_num(told, nan=query.span(task.facts)).max()) if len(told) else math.nan


def _trivial(table: PublicTable, task: Task[Any, Any]) -> float:
    """The largest error of the uniform distribution; infinite where it has no answer."""
    if not isinstance(task.form, LinearForm):
        return math.inf
    domain = table.domain
    uniform = Mixture(domain, [1.0], {a.name: [[1.0] * a.size] for a in domain.attributes})
    try:
        error = error_of(table, task, uniform.answers(task.form) * table.rows)
    except DpsdkError:
        return math.inf
    return math.inf if math.isnan(error) else error


def _timed(
    answer: Callable[[], Release[A]], clock: Callable[[], float]
) -> tuple[Release[A], float | None, int | None]:
    start = clock()
    release = answer()
    return release, max(clock() - start, 0.0), None


def _sized(answer: Callable[[], Release[A]]) -> tuple[Release[A], float | None, int | None]:
    tracemalloc.start()
    try:
        release = answer()
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    return release, None, peak


def measure(
    table: PublicTable,
    query: Query[Any, Any],
    setting: Setting,
    *,
    data: PrivateData | None = None,
    calibration: Calibration | None = None,
    question: str = "",
    inside: Fraction | None = None,
    noise: Callable[[], NoiseSource] | None = None,
    clock: Callable[[], float] = time.process_time,
    sized: bool = False,
    only: Callable[[Family], bool] = lambda family: True,  # noqa: ARG005
) -> Iterator[Observation]:
    """Have every family answer that can; those that refuse are left out.

    Parameters
    ----------
    data
        The table as if it were private, if that is there already.
    calibration
        What forecasts are made with; without it those of known noise alone are made.
    question
        What the question is called.
    inside
        What share of the rows it is about, if plans are to assume one.
    noise
        Makes a source of noise for each answer, by default that of the operating system.
    clock
        Seconds of this process.
    sized
        Whether memory is looked at, and not time, which that would lengthen.
    only
        Which families are asked.
    """
    data = data or table.as_if_private(setting.neighbors)
    assumed = Assumptions(rows=table.rows, inside=inside)
    task = task_for(data, query, setting, assumed, calibration or NOTHING)
    trivial = _trivial(table, task)
    for family in families(task):
        if family.barred is not None or not only(family):
            continue
        try:
            mechanism = family.within(setting.budget)
            quote = family.quote(mechanism, task)
            source = None if noise is None else noise()
            answer = partial(run, data, query, mechanism, setting.budget, source)
            release, seconds, size = _sized(answer) if sized else _timed(answer, clock)
        except DpsdkError:
            continue
        error = error_of(table, task, release.raw)
        if math.isnan(error):
            continue
        compared = over(task, quote)
        yield Observation(
            key(task, family, None if compared is None else compared[0]),
            table.name,
            table.rows,
            question or str(query),
            setting,
            None if compared is None else compared[0],
            math.nan if compared is None else compared[1],
            features(task, quote),
            error,
            trivial,
            forecast(task, family, quote),
            seconds,
            size,
        )
