"""Small universes, random tables over them, and their answers by plain counting."""

from __future__ import annotations

import itertools
import os
import re
import sys
import traceback
from collections.abc import Callable, Iterable, Sequence
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import HealthCheck, settings

from dpsdk import (
    Binned,
    Boolean,
    Budget,
    Categorical,
    Domain,
    Integer,
    Neighbors,
    PrivateData,
    Session,
)
from dpsdk.forms import Boxes, Facts, LinearForm
from dpsdk.mechanisms import Laplace
from dpsdk.testing.noise import seeded

repeatable = settings(
    derandomize=True, deadline=None, max_examples=60, suppress_health_check=list(HealthCheck)
)

QUICK = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None  # noqa: S108
"""Where waiting for the disk takes no time, if there is such a place. A killed process leaves there
what it would leave anywhere."""

PEOPLE = Domain(
    Integer("age", 17, 24),
    Categorical("sex", ["Female", "Male"]),
    Binned("hours", [0, 10, 20, 40]),
    Boolean("member"),
)

QUIET = Laplace(epsilon=10**7)
"""Noise so small that all of it is zero."""

Row = dict[str, object]


def thinned(cases: Iterable[object], every: int, start: int = 0) -> list[object]:
    """Cases to parametrize with: a quick run takes one of every so many, and a slow one the rest.

    A tuple is a case of several arguments.
    """
    return [
        pytest.param(
            *(case if isinstance(case, tuple) else (case,)),
            marks=[] if number % every == start else [pytest.mark.audit],
        )
        for number, case in enumerate(cases)
    ]


def crossed(rows: Iterable[object], columns: Iterable[object], every: int) -> list[object]:
    """All pairs: a quick run takes every so many of each row and of each column."""
    columns = list(columns)
    return [
        pytest.param(row, column, marks=[] if (place + turn) % every == 0 else [pytest.mark.audit])
        for place, row in enumerate(rows)
        for turn, column in enumerate(columns)
    ]


def people(count: int, seed: int, *, stray: bool = True) -> list[Row]:
    """Random rows, some of them outside the universe where `stray`."""
    rng = np.random.default_rng(seed)
    rows: list[Row] = []
    for _ in range(count):
        row: Row = {
            "age": int(rng.integers(17, 25)),
            "sex": ["Female", "Male"][rng.integers(2)],
            "hours": float(rng.choice([0.0, 3.5, 10.0, 19.9, 20.0, 39.0, 40.0])),
            "member": bool(rng.integers(2)),
        }
        if stray and rng.random() < 0.1:
            row["age"] = 99
        if stray and rng.random() < 0.1:
            row["hours"] = None
        rows.append(row)
    return rows


def columns(rows: Sequence[Row], names: Iterable[str] = PEOPLE.names) -> dict[str, list[object]]:
    return {name: [row[name] for row in rows] for name in names}


def inside(row: Row) -> bool:
    return row["age"] != 99 and row["hours"] is not None


def middle(row: Row) -> float:
    """The middle of the bin of hours."""
    hours = row["hours"]
    return 5.0 if hours < 10 else 15.0 if hours < 20 else 30.0


def table(
    rows: Sequence[Row], neighbors: Neighbors = Neighbors.REPLACE_ONE, **given: object
) -> PrivateData:
    return PrivateData.from_columns(columns(rows), PEOPLE, neighbors=neighbors, **given)


def quiet(data: PrivateData) -> Session:
    """A session whose noise is as good as none under QUIET."""
    return Session(data, Budget(epsilon=10**12), noise=seeded(1))


def facts(
    domain: Domain,
    neighbors: Neighbors = Neighbors.REPLACE_ONE,
    *,
    rows: int = 20,
    outside: bool = True,
    unit_rows: int = 1,
) -> Facts:
    public = rows if neighbors is Neighbors.REPLACE_ONE else None
    return Facts(domain, neighbors, public, outside, rows, unit_rows)


class Records:
    """Counts of records for `evaluate`, by brute force; says how it was asked."""

    def __init__(self, domain: Domain, cells: Sequence[Sequence[int]]) -> None:
        self.domain = domain
        self.cells = cells
        self.asked: set[str] = set()

    def table(self, names: tuple[str, ...]) -> np.ndarray:
        self.asked.add("table")
        counts = np.zeros(tuple(self.domain[name].size for name in names))
        for cell in self.cells:
            counts[tuple(cell[self.domain.position(name)] for name in names)] += 1
        return counts

    def records(self, names: tuple[str, ...]) -> tuple[list[np.ndarray], np.ndarray]:
        self.asked.add("records")
        codes = [
            np.array([cell[self.domain.position(name)] for cell in self.cells], dtype=np.int64)
            for name in names
        ]
        return codes, np.ones(len(self.cells))


def weights(form: LinearForm, kind: Callable[[float], object] = float) -> np.ndarray:
    """All weights (functions, cells), worked out cell by cell from the factors themselves.

    Without rounding where `kind` is Fraction.
    """
    domain = form.domain
    cells = list(itertools.product(*(range(size) for size in domain.shape)))
    lines: list[list[float]] = []
    for block in form.blocks:
        places = [domain.position(name) for name in block.names]
        if isinstance(block, Boxes):
            for number, scale in enumerate(block.scales.tolist()):
                line = []
                for cell in cells:
                    weight = kind(scale)
                    for axis, place in enumerate(places):
                        code, own = cell[place], block.lines[axis]
                        ends = block.starts[axis, number], block.stops[axis, number]
                        weight *= ends[0] <= code < ends[1] and (own is None or own[code])
                    line.append(weight)
                lines.append(line)
        elif hasattr(block, "factors"):
            matrices = [np.asarray(factor.matrix()) for factor in block.factors]
            for rows in itertools.product(*(range(len(matrix)) for matrix in matrices)):
                line = []
                for cell in cells:
                    weight = kind(block.scale)
                    for matrix, row, place in zip(matrices, rows, places, strict=True):
                        weight *= kind(matrix[row, cell[place]])
                    line.append(weight)
                lines.append(line)
        else:
            shaped = block.weights.reshape(-1, *block.shape)
            lines.extend(
                [kind(function[tuple(cell[place] for place in places)]) for cell in cells]
                for function in shaped
            )
    return np.array(lines)


def moves(matrix: np.ndarray, of: Facts) -> tuple[Fraction, Fraction, Fraction]:
    """The largest L1, squared L2 and single move between neighbours, in exact arithmetic."""
    small = bool((matrix == np.rint(matrix)).all()) and np.abs(matrix).max() < 2**20
    # Whole numbers of this size are exact as they are; others are exact as fractions.
    exact = matrix.astype(np.int64) if small else np.vectorize(Fraction, otypes=[object])(matrix)
    if of.outside:
        exact = np.concatenate([exact, np.zeros((len(exact), 1), dtype=exact.dtype)], axis=1)
    if of.neighbors is Neighbors.REPLACE_ONE:
        exact = (exact[:, :, None] - exact[:, None, :]).reshape(len(exact), -1)
    moved = np.abs(exact)
    sums = moved.sum(axis=0).max(), (moved * moved).sum(axis=0).max(), moved.max()
    return Fraction(sums[0]), Fraction(sums[1]), Fraction(sums[2])


def told(failing: Callable[[], object]) -> tuple[BaseException, str]:
    """What a failing call raises, and all that its traceback could tell, local values included.

    Frames of the tests themselves are left out, since they know the secrets.
    """
    try:
        failing()
    except BaseException as error:
        here = sys.modules[failing.__module__].__file__, __file__
        parts: list[str] = []
        seen: BaseException | None = error
        while seen is not None:
            summary = traceback.TracebackException.from_exception(seen, capture_locals=True)
            parts += [str(seen), repr(seen), repr(seen.args), repr(getattr(seen, "__notes__", ()))]
            for frame in summary.stack:
                if frame.filename not in here:
                    parts.append(repr(frame.locals))
            seen = seen.__cause__ or seen.__context__
        # Where an object lies in memory may look like any number.
        return error, re.sub(r" at 0x[0-9a-f]+", "", "\n".join(parts))
    raise AssertionError("the call did not fail")


def truth(rows: Sequence[Row], weigh: Callable[[Row], float]) -> float:
    """The sum of a weight over the rows inside the universe."""
    return float(sum(weigh(row) for row in rows if inside(row)))


def grouped(table, keys):
    """The cells inside a domain that are not empty, how many rows each has, and those outside."""
    from dpsdk.data.engine.rows import all_rows

    codes, counts, _ = all_rows(table, keys).groups()
    inside = np.ones(len(counts), dtype=bool)
    for code in codes.values():
        inside &= code >= 0
    kept = {name: code[inside] for name, code in codes.items()}
    return kept, counts[inside], int(counts[~inside].sum())


def with_private_sizes():
    """All neighbours of up to two rows of one bit, none outside, whose number is private."""
    domain = Domain(Boolean("bit"))
    tables = {
        rows: PrivateData.from_columns(
            {"bit": np.array(rows, dtype=bool)}, domain, neighbors=Neighbors.ADD_REMOVE,
            max_rows=3, outside="raise",
        )
        for size in range(3)
        for rows in itertools.combinations_with_replacement((False, True), size)
    }  # fmt: skip
    for rows, more in tables.items():
        for left in {rows[:place] + rows[place + 1 :] for place in range(len(rows))}:
            yield from ((more, tables[left]), (tables[left], more))
