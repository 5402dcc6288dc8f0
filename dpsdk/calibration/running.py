"""Running: which questions are asked of which tables, at which budgets."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial

from dpsdk._checks import shown, to_count
from dpsdk.accounting import Budget
from dpsdk.calibration.draws import Draws
from dpsdk.calibration.fitting import fitted
from dpsdk.calibration.measuring import Observation, Setting, measure
from dpsdk.calibration.questions import Question, questions
from dpsdk.calibration.tables import PublicTable
from dpsdk.errors import InvalidArgument
from dpsdk.forms import Neighbors
from dpsdk.noise import NoiseSource
from dpsdk.planner.calibration import Calibration, to_calibration
from dpsdk.planner.families import Family

__all__ = ["calibrate", "observed"]

EPSILONS = ("0.03", "0.1", "0.3", "1", "3")
DELTAS = ("0", "1e-9")
_SLOW = 2.0
"""Seconds after which a family is asked nothing more of the same table."""

_SIZED = 4
"""Of one answer in so many, memory is looked at and not time, which takes several times as long."""

_SIZABLE = 0.2
"""Of families that took longer before it is not."""


def calibrate(
    tables: Sequence[PublicTable],
    *,
    made: str,
    settings: int = 4,
    variant: int = 1,
    noise: Callable[[], NoiseSource] | None = None,
    clock: Callable[[], float] = time.process_time,
) -> Calibration:
    """Measure every family on public tables, and fit what a planner expects of others.

    Nothing is protected: give it tables that everybody may know.

    Parameters
    ----------
    tables
        At least one. Bands come from how tables differ, so give it several.
    made
        What the file says of how it was made: on which tables, and on what machine.
    settings
        At how many budgets each question is asked, of ten and two neighbour relations.
    variant
        Which questions and budgets are tried, of very many.
    noise
        Makes a source of noise for each answer, by default that of the operating system. With
        seeded ones, and with a `clock` that repeats, so does the result.
    clock
        Seconds of this process.

    Raises
    ------
    InvalidArgument
        If a table is not a `PublicTable`, as private data is not.
    """
    found = list(observed(tables, settings=settings, variant=variant, noise=noise, clock=clock))
    return fitted(found, made)


def observed(
    tables: Sequence[PublicTable],
    *,
    settings: int = 4,
    variant: int = 1,
    noise: Callable[[], NoiseSource] | None = None,
    clock: Callable[[], float] = time.process_time,
    calibration: Calibration | None = None,
    asked: Callable[[PublicTable, int], Iterator[Question]] = questions,
) -> Iterator[Observation]:
    """What `calibrate` measures, one answer after the other. Arguments as there.

    Parameters
    ----------
    calibration
        What answers are forecast with; without it those of known noise alone are.
    asked
        What is asked of a table, for a variant.
    """
    if isinstance(tables, PublicTable) or not isinstance(tables, Sequence) or not tables:
        raise InvalidArgument("tables", "a list of PublicTable", shown(type(tables).__name__))
    for table in tables:
        if type(table) is not PublicTable:
            raise InvalidArgument("tables", "public: a list of PublicTable", type(table).__name__)
    known = to_calibration(calibration)
    return _observed(tables, to_count("settings", settings), variant, noise, clock, known, asked)


def _observed(
    tables: Sequence[PublicTable],
    settings: int,
    variant: int,
    noise: Callable[[], NoiseSource] | None,
    clock: Callable[[], float],
    calibration: Calibration | None,
    asked: Callable[[PublicTable, int], Iterator[Question]],
) -> Iterator[Observation]:
    every = [
        Setting(Budget(epsilon, delta), neighbors)
        for epsilon in EPSILONS
        for delta in DELTAS
        for neighbors in Neighbors
    ]
    for place, table in enumerate(tables):
        draws = Draws("settings", variant, place)
        taken = {neighbors: table.as_if_private(neighbors) for neighbors in Neighbors}
        took: dict[str, float] = {}
        for number, question in enumerate(asked(table, variant + place)):
            chosen = draws.order(question.name, len(every))[:settings]
            for turn, index in enumerate(chosen):
                sized = (number + turn) % _SIZED == _SIZED - 1
                most = _SIZABLE if sized else _SLOW
                for one in measure(
                    table,
                    question.query,
                    every[index],
                    data=taken[every[index].neighbors],
                    calibration=calibration,
                    question=question.name,
                    inside=question.inside,
                    noise=noise,
                    clock=clock,
                    sized=sized,
                    only=partial(_quick, took, most, known=not sized),
                ):
                    if one.seconds is not None:
                        code = one.family.partition(":")[0]
                        took[code] = max(took.get(code, 0.0), one.seconds)
                    yield one


def _quick(took: dict[str, float], most: float, family: Family, *, known: bool) -> bool:
    """Whether a family took no longer than this before; if never asked, as `known` says."""
    return took.get(family.code, 0.0 if known else math.inf) <= most
