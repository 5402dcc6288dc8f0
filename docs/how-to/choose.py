"""The tables of choose-a-mechanism.md, from the planner's own output.

``python docs/how-to/choose.py`` prints them, and ``--write`` puts them into the page. Plans read no
table, so that the one that is planned for has as many rows as is said and nothing in them.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Callable, Iterable, Sequence
from fractions import Fraction
from functools import cache
from pathlib import Path
from typing import Any, Literal, TypeAlias

import numpy as np
from attrs import frozen

from dpsdk import Budget, Domain, Integer, Neighbors, PrivateData, Session
from dpsdk.losses import LogisticLoss
from dpsdk.mechanisms import Mechanism
from dpsdk.planner import Plan
from dpsdk.queries import (
    Above,
    Ball,
    Conjunction,
    ConvexMinimization,
    Count,
    Linear,
    Marginal,
    Mean,
    Median,
    Query,
    Rectangles,
    Sum,
    Threshold,
    Workload,
    marginals,
)

FOLDER = Path(__file__).parent
PAGE = FOLDER / "choose-a-mechanism.md"
ADULT = Domain.load(FOLDER.parent / "examples" / "adult-domain.json")
SIX = Domain(*[ADULT[name] for name in ADULT.names if name not in ("workclass", "hours")])
"""Those of the measured tables."""
INCOME = Domain(Integer("income", 0, 4095))
CELLS = Domain(Integer("cell", 0, 255))

ROWS = 48_842
DELTA = Fraction(1, 10**9)
EPSILONS = (Fraction(1, 100), Fraction(1, 10), Fraction(1))
SETTINGS = [(delta, relation) for delta in (Fraction(0), DELTA) for relation in Neighbors]
HEADS = ("pure ε, replace-one", "pure ε, add-remove", "δ = 10⁻⁹, replace-one", "δ, add-remove")

Mode: TypeAlias = Literal["promised", "expected"]
MODES: tuple[Mode, ...] = ("promised", "expected")


def _some(domain: Domain, count: int) -> Rectangles:
    """Rectangles that touch each attribute with probability one half, drawn from a fixed seed."""
    rng = np.random.default_rng(count)
    sizes = np.array(domain.shape)
    ends = np.sort(rng.integers(0, sizes, (2, count, len(sizes))), axis=0)
    whole = rng.random((count, len(sizes))) < 0.5
    lower, upper = np.where(whole, 0, ends[0]), np.where(whole, sizes - 1, ends[1])
    return Rectangles(domain.names, lower=lower, upper=upper, normalized=False)


def _few(count: int) -> Workload[float]:
    """Overlapping counts of two conditions each."""
    attribute = ADULT["education"]
    schools = [str(attribute.label(place)) for place in range(attribute.size)]
    pairs = [(school, sex) for school in schools for sex in ("Female", "Male")]
    return Workload(
        [
            Conjunction({"education": {school, "Masters"}, "sex": sex}, normalized=False)
            for school, sex in pairs[:count]
        ]
    )


def _functions(count: int) -> Workload[float]:
    """Functions of 256 cells, from a fixed seed."""
    weights = np.random.default_rng(5).random((count, CELLS.size))

    def of(row: int) -> Callable[[Any], float]:
        return lambda record: float(weights[row, record["cell"]])

    return Workload(
        [Linear(of(row), attributes=["cell"], normalized=False) for row in range(count)]
    )


QUESTIONS: dict[str, tuple[Domain, Callable[[], Query[Any, Any]]]] = {
    "one count": (ADULT, lambda: Count({"sex": "Female"}, normalized=False)),
    "one sum": (ADULT, lambda: Sum("hours", normalized=False)),
    "one mean": (ADULT, lambda: Mean("hours")),
    "ten counts that overlap": (ADULT, lambda: _few(10)),
    "whether a count is above a level": (
        ADULT,
        lambda: Above(Count({"sex": "Female"}, normalized=False), 20_000),
    ),
    "all thresholds of 74 cells": (
        ADULT,
        lambda: Workload([Threshold("age", t, normalized=False) for t in range(17, 91)]),
    ),
    "1,000 thresholds of 4,096 cells": (
        INCOME,
        lambda: Workload([Threshold("income", 4 * t, normalized=False) for t in range(1, 1001)]),
    ),
    "a median": (ADULT, lambda: Median("age")),
    "one table of 32 cells": (ADULT, lambda: Marginal("education", "sex", normalized=False)),
    "four tables": (
        SIX,
        lambda: Workload(
            [
                Marginal(*names, normalized=False)
                for names in (
                    ("age", "race"),
                    ("education", "income"),
                    ("marital-status", "sex"),
                    ("race", "income"),
                )
            ]
        ),
    ),
    "all pairs of 8 attributes": (ADULT, lambda: marginals(ADULT, 2, normalized=False)),
    "all pairs and triples of 6": (
        SIX,
        lambda: Workload(
            [marginals(SIX, 2, normalized=False), marginals(SIX, 3, normalized=False)]
        ),
    ),
    "100 rectangles": (SIX, lambda: _some(SIX, 100)),
    "10,000 rectangles": (SIX, lambda: _some(SIX, 10_000)),
    "200 functions of 256 cells": (CELLS, lambda: _functions(200)),
    "one logistic model": (
        ADULT,
        lambda: ConvexMinimization(
            LogisticLoss(), features=["age", "education", "sex"], label="income", over=Ball(8)
        ),
    ),
}


@frozen
class Choice:
    """What comes first for a budget, and the error that is told of it, in the answer's unit."""

    words: str
    error: float


@cache
def _asked(name: str) -> Query[Any, Any]:
    return QUESTIONS[name][1]()


@cache
def _table(domain: Domain, relation: Neighbors) -> PrivateData:
    nothing: dict[str, list[object]] = {
        one.name: [one.label(0)] * ROWS for one in domain.attributes
    }
    return PrivateData.from_columns(
        nothing, domain, neighbors=relation, outside="raise", max_rows=ROWS
    )


@cache
def choices(
    name: str, epsilon: Fraction, delta: Fraction, relation: Neighbors
) -> dict[Mode, Choice]:
    """What is promised the least error of all plans, and what is expected to have it."""
    session = Session(_table(QUESTIONS[name][0], relation), Budget(epsilon, delta))
    assume = None if session.facts.rows is not None else {"rows": ROWS}
    plans = session.plan(_asked(name), budget=Budget(epsilon, delta), assume=assume)
    found: dict[Mode, Choice] = {}
    able = [plan for plan in plans if plan.feasible]
    bounded = [(bound.error, plan) for plan in able if (bound := _bound(plan)) is not None]
    if bounded:
        # Of equal ones the first of the plans.
        error, best = min(bounded, key=lambda pair: pair[0])
        found["promised"] = Choice(_words(best.mechanism), error)
    forecasts = [(plan.expected.median, plan) for plan in able if plan.expected is not None]
    if forecasts:
        median, best = min(forecasts, key=lambda pair: pair[0])
        found["expected"] = Choice(_words(best.mechanism), median)
    return found


def _bound(plan: Plan[Any]) -> Any:
    return next(
        (one for one in (plan.promised, plan.assumed) if one is not None and not one.vacuous), None
    )


def _words(mechanism: Mechanism[Any]) -> str:
    """A mechanism by its class, and by what else is not told by the column."""
    name = f"`{type(mechanism).__name__}`"
    if getattr(mechanism, "nonnegative", False):
        return f"{name}, non-negative"
    oracle = type(getattr(mechanism, "oracle", None)).__name__
    return f"{name}, by `{oracle}`" if oracle == "NoisyDescent" else name


def _cell(name: str, delta: Fraction, relation: Neighbors, mode: Mode) -> str:
    """The choices from little to much, each with the first n·ε that it comes first at."""
    runs: list[tuple[str, Fraction]] = []
    told = ""
    for epsilon in EPSILONS:
        choice = choices(name, epsilon, delta, relation).get(mode)
        words = "nothing" if choice is None else choice.words
        if not runs or runs[-1][0] != words:
            runs.append((words, epsilon))
        if choice is not None:
            told = f" ({_number(choice.error)})"
    parts = [
        words if place == 0 else f"from {_strength(epsilon)} on {words}"
        for place, (words, epsilon) in enumerate(runs)
    ]
    return "; ".join(parts) + told


def _number(error: float) -> str:
    """Two digits that count, without an exponent."""
    whole = float(f"{error:.2g}")
    return f"{whole:,.0f}" if whole >= 10 else f"{whole:.2g}"


def _strength(epsilon: Fraction) -> str:
    return f"{round(ROWS * epsilon):,}"


def row(name: str, mode: Mode) -> str:
    """One line of a table."""
    cells = [_cell(name, delta, relation, mode) for delta, relation in SETTINGS]
    return f"| {' | '.join([name, *cells])} |"


def lines(mode: Mode, names: Iterable[str] = QUESTIONS) -> Sequence[str]:
    """A table."""
    heads = f"| {' | '.join(['question', *HEADS])} |"
    return [heads, "|---" * (1 + len(HEADS)) + "|", *[row(name, mode) for name in names]]


def marked(text: str, mode: Mode) -> tuple[str, str, str]:
    """What comes before a table of a page, the table, and what comes after it."""
    begin, end = f"<!-- {mode} -->\n", f"<!-- end of {mode} -->"
    match = re.fullmatch(f"(.*{re.escape(begin)})(.*)({re.escape(end)}.*)", text, flags=re.DOTALL)
    if match is None:
        raise ValueError(f"the page has no place for {mode}")
    before, table, after = match.groups()
    return before, table, after


def written(text: str) -> str:
    """The page with its tables made anew."""
    for mode in MODES:
        before, _, after = marked(text, mode)
        text = f"{before}\n" + "\n".join(lines(mode)) + f"\n\n{after}"
    return text


def main() -> None:
    """Print the tables, or write them into the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", action="store_true", help="put them into the page")
    if parser.parse_args().write:
        PAGE.write_text(written(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
        return
    for mode in MODES:
        print("\n".join(lines(mode)))


if __name__ == "__main__":
    main()
