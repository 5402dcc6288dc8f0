"""How good plans are: what they expect beside what happens, and first choices beside the best one.

python tests/bench/bench_planner.py DATA [--table | --held-out] [--settings 2] [--tables 99]

DATA is a folder of public data as public_tables.py reads it. `--table` measures the tables that
dpsdk/planner/expected.py was made of and prints its ratios anew. `--held-out` asks the same kinds
of questions of other tables, and prints for each family what share of the largest errors lay in the
stated 90 % band, and how far off the first choice for a budget was beside the best of all families.
`--tables` takes the first so many.
Noise is seeded, so that errors repeat.
"""

import math
import time
from collections import defaultdict
from itertools import count, islice

import numpy as np
from attrs import frozen
from measuring import arguments
from planner_questions import Draws, questions
from public_tables import Data

from dpsdk import Budget, Neighbors, Session
from dpsdk.accounting import default_composition
from dpsdk.accounting.balance import Balance
from dpsdk.accuracy import HalfWidths
from dpsdk.errors import DpsdkError
from dpsdk.forms import ConvexForm
from dpsdk.forms.assumptions import Assumptions
from dpsdk.kernel import Terms
from dpsdk.mechanisms.base import OneShot
from dpsdk.mechanisms.projection import ProjectionAccuracy
from dpsdk.planner import Forecast
from dpsdk.planner.expected import NOISE_DECADES, forecast
from dpsdk.planner.families import families
from dpsdk.planner.planning import plans_for_budget
from dpsdk.planner.task import Task
from dpsdk.queries import LinearQuery
from dpsdk.testing import seeded

SETTINGS = [
    (Budget(epsilon, delta), neighbors)
    for epsilon in ("0.03", "0.1", "0.3", "1", "3")
    for delta in ("0", "1e-9")
    for neighbors in Neighbors
]
SLOW = 2.0
"""Families that took so many CPU seconds are asked nothing more of the same table."""


@frozen
class Observation:
    """The largest error of one answer of one family, and what was known of it beforehand."""

    family: str
    table: str
    group: tuple[str, int]
    error: float
    expected: Forecast | None
    by_bound: float | None
    """The error over the bound that holds with probability one half."""
    noise: float | None
    """How far off plain noise would be, over the rows."""
    by_rows: float | None
    """The error over the rows."""
    rank: int
    """The place in the plans for this budget."""


def observe(data, tables, settings):
    seeds = count(1)
    for place, table in enumerate(tables):
        start, draws = time.process_time(), Draws("settings", place)
        private = {neighbors: table.as_if_private(neighbors) for neighbors in Neighbors}
        slowest = defaultdict(float)
        for question in questions(table, 1 + place):
            for index in draws.order(question.name, len(SETTINGS))[:settings]:
                budget, neighbors = SETTINGS[index]
                task = task_of(private[neighbors], question, budget, table.rows)
                yield from measure(table, private[neighbors], task, question, index, slowest, seeds)
        print(f"# {table.name}: {time.process_time() - start:.0f} CPU s", flush=True)


def task_of(data, question, budget, rows):
    composition = default_composition()
    balance = Balance(composition, budget, (composition.begin(budget),))
    believed, form = (
        Assumptions(rows=rows, inside=question.inside),
        question.query.lower(data.domain),
    )
    return Task(question.query, form, Terms(data.facts, composition), balance, 0.05, believed)


def measure(table, data, task, question, setting, slowest, seeds):
    budget = task.balance.budget
    ranks = {str(plan.mechanism): at for at, plan in enumerate(plans_for_budget(task, budget))}
    for family in families(task):
        if family.barred is not None or slowest[family.code] > SLOW:
            continue
        start = time.process_time()
        try:
            mechanism = family.within(budget)
            quote = family.quote(mechanism, task)
            session = Session(data, budget, noise=seeded(next(seeds)))
            if isinstance(mechanism, OneShot):
                raw = session.release(task.query, using=mechanism).raw
            else:
                with session.open(mechanism) as channel:
                    raw = channel.release(task.query).raw
        except DpsdkError:
            continue
        slowest[family.code] = max(slowest[family.code], time.process_time() - start)
        error = error_of(table, task, raw)
        if math.isnan(error):
            continue
        plain = None if task.scales is None else task.plain_noise / table.rows
        strength = math.sqrt(2 * float(quote.at_most.rho))
        yield Observation(
            family.code,
            table.name,
            (question.name, setting),
            error,
            forecast(task, family, quote),
            None if (half := half_bound(task, quote)) is None else error / half,
            None if plain is None or not strength else plain / strength,
            None if task.scales is None else error / float(task.scales.max()) / table.rows,
            ranks.get(str(mechanism), len(ranks)),
        )


def half_bound(task, quote):
    """The bound that holds with probability one half, in the unit of the answer."""
    accuracy = quote.accuracy
    base = accuracy.noise if isinstance(accuracy, ProjectionAccuracy) else accuracy
    if task.scales is None or not isinstance(base, HalfWidths) or base.standing != "proven":
        return None
    return float((base.radii(0.5, joint=True)[: task.form.rows] * task.scales).max()) or None


def error_of(table, task, raw):
    """The largest error of an answer; of a model, what it loses by."""
    form, query = task.form, task.query
    if isinstance(form, ConvexForm):
        theta, best = raw[: form.dimension], form.minimise(table.records, tolerance=1e-9)[0]
        return max(form.value(table.records, theta) - form.value(table.records, best), 0.0)
    if not isinstance(query, LinearQuery):
        return math.nan
    found, true = (np.asarray(query.numbers(numbers, task.facts))
                   for numbers in (raw, table.answers(form)))  # fmt: skip
    errors = np.abs(found - true)[~np.isnan(true)]
    return (
        float(np.nan_to_num(errors, nan=query.span(task.facts)).max()) if len(errors) else math.nan
    )


def print_table(observations):
    """The ratios of dpsdk/planner/expected.py."""
    by_bound = defaultdict(list)
    by_noise = defaultdict(lambda: defaultdict(list))
    for one in observations:
        if one.by_bound is not None:
            by_bound[one.family].append(one.by_bound)
        elif one.noise is not None and one.by_rows is not None:
            place = math.log10(max(one.noise, 1e-300))
            decade = min(max(round(place), NOISE_DECADES[0]), NOISE_DECADES[-1])
            # Within a decade an error goes with the noise.
            scaled = one.by_rows * 10 ** (decade - min(place, 0.0))
            by_noise[one.family][decade].append(scaled)
    for family, ratios in sorted(by_bound.items()):
        print(f"{family:30}{band(ratios)}  of {len(ratios)}")
    for family, decades in sorted(by_noise.items()):
        for decade, shares in sorted(decades.items()):
            print(f"{family:30}1e{decade:<4}{band(shares)}  of {len(shares)}")


def band(values):
    return "  ".join(f"{value:8.2g}" for value in np.quantile(values, (0.05, 0.5, 0.95)))


def print_held_out(observations):
    """Coverage of the bands by family, and how far off first choices were."""
    within = defaultdict(list)
    groups = defaultdict(list)
    for one in observations:
        groups[one.table, one.group].append(one)
        if one.expected is not None:
            low, high = one.expected.low * (1 - 1e-3), one.expected.high * (1 + 1e-3)
            within[f"{one.family} ({one.expected.basis})"].append(low <= one.error <= high)
    for family, inside in sorted(within.items()):
        print(f"{family:46}{len(inside):5} answers {np.mean(inside):5.0%} within the band")
    everything = [one for inside in within.values() for one in inside]
    print(f"{'all':46}{len(everything):5} answers {np.mean(everything):5.0%} within the band")
    ratios = [
        max(min(group, key=lambda one: one.rank).error, 1e-6)
        / max(min(one.error for one in group), 1e-6)
        for group in groups.values()
        if len(group) > 1
    ]
    shares = [float(np.mean(np.array(ratios) <= most)) for most in (1.0001, 1.5, 2.0)]
    print(f"{len(ratios)} questions: first choice the best of all in {shares[0]:.0%}, "
          f"within 1.5 times in {shares[1]:.0%}, within twice in {shares[2]:.0%}")  # fmt: skip


def main():
    given = arguments(__doc__, "data", table=False, held_out=False, settings=2, tables=99)
    data = Data(given.data)
    if given.table:
        print_table(list(observe(data, islice(data.calibrated(), given.tables), given.settings)))
    if given.held_out:
        print_held_out(list(observe(data, islice(data.held_out(), given.tables), given.settings)))


if __name__ == "__main__":
    main()
