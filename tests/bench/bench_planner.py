"""How good plans are: forecasts beside what happens, and first choices beside the best one.

python tests/bench/bench_planner.py DATA [--calibrate FILE] [--held-out] [--shows] [--seeds 3]

DATA is a folder of public data as public_tables.py reads it. `--calibrate` measures its tables and
writes the file that the package ships. `--held-out` asks the questions of a calibration of other
tables, and says what share of answers lay in the stated 90 % band, for each family; and how far off
the first choice was beside the best of all families. `--shows` plans thirteen tasks on public
tables at ε = 0.1 and 1, runs every plan that may be run, and prints a table. δ is 1e-9, or 0. Noise
is seeded, so that errors repeat; seconds do not.
"""

from __future__ import annotations

import argparse
import json
import math
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction
from functools import partial
from itertools import combinations, count
from pathlib import Path
from typing import Any

import numpy as np
from attrs import frozen
from public_tables import Data

from dpsdk import Budget, Neighbors, Session
from dpsdk.calibration import Observation, PublicTable
from dpsdk.calibration.fitting import fitted
from dpsdk.calibration.measuring import Setting, error_of, run, task_for
from dpsdk.calibration.running import observed
from dpsdk.cli.calibrate import described
from dpsdk.errors import DpsdkError
from dpsdk.forms.assumptions import Assumptions
from dpsdk.losses import LogisticLoss
from dpsdk.mechanisms import Mechanism, PrivateMinimizer
from dpsdk.mechanisms.base import OneShot
from dpsdk.planner import Forecast, Plan
from dpsdk.planner.calibration import shipped
from dpsdk.planner.families import shared
from dpsdk.planner.forecasting import forecast
from dpsdk.planner.task import Task
from dpsdk.queries import (
    Ball,
    Conjunction,
    ConvexMinimization,
    Count,
    Marginal,
    Mean,
    Median,
    Query,
    Rectangles,
    Threshold,
    Workload,
    marginals,
)
from dpsdk.release import Cost, Release
from dpsdk.testing import seeded

DELTA = "1e-9"
SLOWEST = 300.0
"""Plans that are expected to take longer, which is said with care, are not run."""

SLOW = 5.0
"""What took so many seconds is run once."""


def calibrated(data: Data, out: Path) -> None:
    """Measure the tables of a calibration, one after the other, and write its file."""
    seeds, tables = count(1), data.calibrated()
    found: list[Observation] = []
    for place, table in enumerate(tables):
        start = time.process_time()
        new = list(
            observed([table], settings=2, variant=1 + place, noise=lambda: seeded(next(seeds)))
        )
        found += new
        spent = time.process_time() - start
        print(f"{table.name}: {len(new)} answers, {spent:.0f} CPU s", flush=True)
    out.write_text(fitted(found, described(tables)).to_json())


def held_out(data: Data) -> None:
    """Coverage and regret on tables that nothing was calibrated on."""
    seeds = count(10**6)
    found: list[Observation] = []
    for place, table in enumerate(data.held_out()):
        new = observed(
            [table],
            settings=2,
            variant=1000 + place,
            noise=lambda: seeded(next(seeds)),
            calibration=shipped(),
        )
        found += new
        print(f"{table.name}: {len(found)} answers in all", flush=True)
    print(coverage(found))
    print(regrets(found))


def coverage(found: Sequence[Observation]) -> str:
    """The share of answers within the stated band, for each family; tables count alike."""
    seen: dict[str, dict[str, list[bool]]] = defaultdict(lambda: defaultdict(list))
    widths: dict[str, list[float]] = defaultdict(list)
    beyond: dict[str, int] = defaultdict(int)
    for one in found:
        told = one.expected
        if told is not None:
            within = told.low * (1 - 1e-3) <= one.error <= told.high * (1 + 1e-3)
            seen[one.family][one.table].append(within)
            beyond[one.family] += told.basis == "extrapolated"
            if told.low > 0:
                widths[one.family].append(told.high / told.low)
    lines = [f"{'family':34}{'answers':>8}{'within':>8}{'width':>7}{'extrapolated':>14}"]
    every = [w for tables in seen.values() for inside in tables.values() for w in inside]
    for family, tables in sorted(seen.items()):
        answers = [w for inside in tables.values() for w in inside]
        width = float(np.median(widths[family])) if widths[family] else math.nan
        lines.append(
            f"{family:34}{len(answers):8}{np.mean(answers):8.0%}{width:7.1f}"
            f"{beyond[family] / len(answers):14.0%}"
        )
    lines.append(f"{'all':34}{len(every):8}{np.mean(every):8.0%}")
    return "\n".join(lines)


def regrets(found: Sequence[Observation]) -> str:
    """How far off first choices were, over the best of all: one run each."""
    groups: dict[object, list[Observation]] = defaultdict(list)
    for one in found:
        groups[one.table, one.question, one.setting].append(one)
    ratios: list[float] = []
    for group in groups.values():
        told = [one for one in group if one.expected is not None]
        if len(told) > 1:
            first = min(told, key=lambda one: (one.expected.median, one.family))  # type: ignore[union-attr]  # all have one
            best = min(one.error for one in group)
            # Errors below a row are as good as none.
            least = 1.0 if first.base != "answer" else 1e-6
            ratios.append(max(first.error, least) / max(best, least))
    shares = [float(np.mean(np.array(ratios) <= most)) for most in (1.0, 1.5, 2.0)]
    return (
        f"{len(ratios)} questions: the first choice was off by {np.median(ratios):.2f} times the "
        f"error of the best of all (median; geometric mean {np.exp(np.log(ratios).mean()):.2f}); "
        f"within 1 in {shares[0]:.0%}, 1.5 in {shares[1]:.0%}, 2 in {shares[2]:.0%}"
    )


@frozen(eq=False)
class Case:
    """A task of the table: what is asked of which table, and about what share of its rows."""

    name: str
    table: PublicTable
    query: Query[Any, Any]
    inside: Fraction | None = None
    others: Sequence[Query[Any, Any]] = ()
    """Of many models, those whose errors are looked at."""


def boxes(table: PublicTable, many: int) -> Rectangles:
    rng, sizes = np.random.default_rng(1), np.array(table.domain.shape)
    ends = rng.integers(0, sizes, (2, many, len(sizes)))
    chosen = rng.random((many, len(sizes))) < 0.5
    chosen[~chosen.any(axis=1), 0] = True
    low, high = ends.min(axis=0), ends.max(axis=0)
    return Rectangles(
        table.domain.names, np.where(chosen, low, 0), np.where(chosen, high, sizes - 1)
    )


def line(table: PublicTable, name: str) -> Rectangles:
    ends = np.arange(table.domain[name].size - 1)
    return Rectangles([name], np.zeros_like(ends), ends)


def models(table: PublicTable, label: str, many: int) -> list[Query[Any, Any]]:
    """Logistic models of one label on up to three of the other attributes."""
    names = [name for name in table.domain.names if name != label]
    chosen = [c for k in (1, 2, 3) for c in combinations(names, k)]
    return [
        ConvexMinimization(LogisticLoss(), features=list(c), label=label, over=Ball(8))
        for c in (chosen * (1 + many // len(chosen)))[:many]
    ]


def cases(data: Data) -> Iterator[Case]:
    """The thirteen tasks."""
    adult, pums, hist = data.adult(), data.pums(), data.line("MEDCOST")
    six = adult.projected("age", "education-num", "marital-status", "race", "sex", "income>50K")
    cube = pums.projected("sex", "educ", "latino", "married")
    yield Case("CDF of age", six, line(six, "age"))
    yield Case("all pairs of 14", adult, marginals(adult.domain, 2))
    yield Case("10^5 rectangles", six, boxes(six, 100_000))
    two = pums.projected("sex", "age", "married", "income")
    share = Fraction(int(two.records.counts("married").min()), two.rows).limit_denominator(1000)
    means = Workload([Mean("income", where={"married": one}) for one in (0, 1)])
    yield Case("mean income by group", two, means, share)
    four = adult.projected("education-num", "sex", "race", "income>50K")
    model = models(four, "income>50K", 7)[6]
    yield Case("one logistic model", four, model)
    yield Case("median age", six, Median("age"))
    many = models(four, "income>50K", 7)
    yield Case("a thousand models", four, many[0], others=many)
    goals = Workload([
        *[Threshold("age", stop) for stop in range(20, 80, 5)],
        *[Marginal("sex", "income>50K"), Marginal("race")],
        Count(where={"sex": 1, "income>50K": 1}),
    ])  # fmt: skip
    yield Case("three goals at once", six, goals)
    yield Case("one count", six, Count(where={"sex": 1, "income>50K": 1}))
    few = [Conjunction({"age": range(low, low + 20), "sex": 1}) for low in range(0, 60, 6)]
    yield Case("10 overlapping counts", six, Workload(few))
    yield Case("CDF of 4,096 bins", hist, line(hist, "x0"))
    wide = pums.projected("age", "educ", "married")
    yield Case("one table of 3,200 cells", wide, Marginal("age", "educ", "married"))
    tables = [Marginal(*c) for k in (1, 2, 3) for c in combinations(cube.domain.names, k)]
    yield Case("small cube", cube, Workload(tables))


@frozen
class Tried:
    """A plan that was run: its errors beside what was expected."""

    plan: Plan[Any]
    errors: Sequence[float]
    seconds: float

    @property
    def error(self) -> float:
        return float(np.mean(self.errors))

    @property
    def within(self) -> Sequence[bool]:
        told = self.plan.expected
        if told is None:
            return ()
        return [told.low * 0.999 <= error <= told.high * 1.001 for error in self.errors]


Known = dict[str, dict[str, list[float]]]
"""Errors, and seconds in the end, by task and by mechanism."""


def tried(
    case: Case, epsilon: str, seeds: int, show: Callable[[str], None], known: Known
) -> list[Tried]:
    """All plans of a case that may be run, in their order."""
    budget = Budget(epsilon, DELTA)
    data = case.table.as_if_private(Neighbors.REPLACE_ONE)
    assume = None if case.inside is None else {"inside": case.inside}
    session = Session(data, budget, noise=seeded(0))
    start = time.process_time()
    if case.others:
        plans: Sequence[Plan[Any]] = planned(case, budget)
    else:
        plans = session.plan(case.query, budget=budget, assume=assume)
    show(f"  planned in {1000 * (time.process_time() - start):.0f} CPU ms")
    assumed = Assumptions(inside=case.inside)
    task = task_for(data, case.query, Setting(budget, Neighbors.REPLACE_ONE), assumed)
    found: list[Tried] = []
    for plan in plans:
        told = plan.expected
        words = "-" if told is None else f"{told.median:.3g} ({told.low:.3g}-{told.high:.3g})"
        if not plan.feasible:
            show(f"  {plan.mechanism}: {'; '.join(one.text for one in plan.because)[:90]}")
            continue
        if plan.seconds is not None and plan.seconds > SLOWEST:
            show(f"  {plan.mechanism}: not run, {plan.seconds:.0f} s expected")
            continue
        key, name = f"{case.name}, {epsilon}", str(plan.mechanism)
        if name not in known.setdefault(key, {}):
            try:
                known[key][name] = [*measured(case, plan, task, budget, seeds)]
            except DpsdkError as refusal:
                show(f"  {plan.mechanism}: {type(refusal).__name__}")
                continue
        *errors, spent = known[key][name]
        found.append(Tried(plan, errors, spent))
        show(
            f"  {str(plan.mechanism)[:70]:70} expected {words:28} "
            f"{'' if told is None else told.basis:12} measured {np.mean(errors):.3g}, {spent:.2f} s"
        )
    return found


def bare(mechanism: Mechanism[Any], cost: Cost, told: Forecast | None) -> Plan[Any]:
    return Plan(mechanism, cost, None, None, None, told, None, None, True, ())


def planned(case: Case, budget: Budget) -> list[Plan[Any]]:
    """What answers a thousand models: one of those that are opened once, or each by itself."""
    data, setting = (
        case.table.as_if_private(Neighbors.REPLACE_ONE),
        Setting(budget, Neighbors.REPLACE_ONE),
    )
    tasks = [task_for(data, query, setting, Assumptions()) for query in case.others]
    found: list[Plan[Any]] = []
    for family in shared(tasks):
        if family.barred is None:
            mechanism = family.within(budget)
            quote = family.quote(mechanism, tasks[0])
            told = forecast(tasks[0], family, quote)
            found.append(
                Plan(mechanism, quote.at_most, None, None, None, told, None, None, True, ())
            )
    each = PrivateMinimizer(epsilon=budget.epsilon / 1000, delta=budget.delta / 1000)
    found.append(Plan(each, Cost(), None, None, None, None, None, None, True, ()))
    return sorted(found, key=lambda p: math.inf if p.expected is None else p.expected.median)


def of_models(case: Case, mechanism: Mechanism[Any], budget: Budget, seed: int) -> float:
    """The largest excess of some models of one channel."""
    data = case.table.as_if_private(Neighbors.REPLACE_ONE)
    session = Session(data, budget, noise=seeded(seed))
    asks: Callable[[Query[Any, Any]], Release[Any]]
    if isinstance(mechanism, OneShot):
        asks = partial(session.release, using=mechanism)
    else:
        asks = session.open(mechanism).release
    excesses: list[float] = []
    for query in case.others:
        task = task_for(data, query, Setting(budget, Neighbors.REPLACE_ONE), Assumptions())
        excesses.append(error_of(case.table, task, asks(query).raw))
    return max(excesses)


def measured(
    case: Case, plan: Plan[Any], task: Task[Any, Any], budget: Budget, seeds: int
) -> Iterator[float]:
    """Errors of some runs, and the CPU seconds of one."""
    data, spent = case.table.as_if_private(Neighbors.REPLACE_ONE), 0.0
    for seed in range(seeds):
        start = time.process_time()
        if case.others:
            error = of_models(case, plan.mechanism, budget, 1 + seed)
        else:
            release = run(data, case.query, plan.mechanism, budget, seeded(1 + seed))
            error = error_of(case.table, task, release.raw)
        spent = time.process_time() - start
        yield error
        if spent > SLOW:
            break
    yield spent


def named(mechanism: Mechanism[Any]) -> str:
    text = str(mechanism)
    return f"{type(mechanism).__name__}{', possible' if 'nonnegative=True' in text else ''}"


def shows(data: Data, seeds: int, only: Sequence[str], kept: Path | None) -> None:
    """The table of the tasks."""
    known: Known = {}
    if kept is not None and kept.exists():
        known = json.loads(kept.read_text())
    lines: list[str] = []
    ratios: list[float] = []
    within: list[bool] = []
    for case in cases(data):
        if only and case.name not in only:
            continue
        for epsilon in ("0.1", "1"):
            print(f"{case.name}, {case.table.name}, ε = {epsilon}", flush=True)
            found = tried(case, epsilon, seeds, partial(print, flush=True), known)
            if kept is not None:
                kept.write_text(json.dumps(known, indent=1))
            if not found:
                continue
            first, best = found[0], min(found, key=lambda one: one.error)
            least = max(best.error, 1e-300)
            ratio = 1.0 if first.error == best.error else first.error / least
            ratios.append(ratio)
            covered = [w for one in found for w in one.within]
            within += covered
            told = first.plan.expected
            words = "-"
            if told is not None:
                words = f"{told.median:.2g} ({told.low:.2g} to {told.high:.2g})"
            names = [named(one.plan.mechanism) for one in (first, best)]
            lines.append(
                f"| {case.name} | {epsilon} | {names[0]} | {words} | {first.error:.2g} | "
                f"{names[1]}: {best.error:.2g} | {'∞' if ratio > 1e6 else f'{ratio:.2f}'} | "
                f"{len(found)} | {sum(covered)}/{len(covered)} |"
            )
    heads = "task | ε | first choice | expected | measured | best, measured | ratio | run | within"
    print(f"\n| {heads} |")
    print("|---|---|---|---|---|---|---|---|---|")
    print("\n".join(lines))
    print(f"\nwithin 1.5 of the best: {np.mean(np.array(ratios) <= 1.5):.0%} of {len(ratios)}")
    print(f"within the band: {np.mean(within):.0%} of {len(within)} answers")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("data", type=Path)
    parser.add_argument("--calibrate", type=Path)
    parser.add_argument("--held-out", action="store_true")
    parser.add_argument("--shows", action="store_true")
    parser.add_argument("--only", nargs="+", default=(), help="tasks by name")
    parser.add_argument("--measured", type=Path, help="where errors are kept, and read if there")
    parser.add_argument("--seeds", type=int, default=3)
    given = parser.parse_args()
    data = Data(given.data)
    if given.calibrate is not None:
        calibrated(data, given.calibrate)
    if given.held_out:
        held_out(data)
    if given.shows:
        shows(data, given.seeds, given.only, given.measured)


if __name__ == "__main__":
    main()
