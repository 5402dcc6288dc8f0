"""Nightly tables for ever: errors of days, weeks, months, years and totals, as they come out.

python tests/bench/bench_running_sums.py [--days 365] [--nights 365] [--memory 0.35 0.5] [--seeds 3]

A synthetic table of visits, so many days of 300 rows, is asked by `RunningSums` each night, as a
nightly job would, and then for every window of each length. Errors are root mean squares over all
windows and both cells, in units of the error of one answer that spends what a day is charged in
all, beside what `bound` is made of; and in rows, where that is all of a budget of (1, 1e-6). Beside
them: the whole table anew every night, on one budget for all nights, which is the way where a
budget does not renew, and each day once. Neighbours have a row more. CPU seconds are of all nights.
"""

import math
import time
from datetime import date, timedelta

import numpy as np
from measuring import arguments, title

from dpsdk import Budget, Categorical, Date, Domain, Periods, PrivateData, Session
from dpsdk.mechanisms import RunningSums
from dpsdk.mechanisms.running_sums.series import UNIT, weights
from dpsdk.queries import Between, Marginal
from dpsdk.testing import seeded

FIRST = date(2016, 1, 1)
LENGTHS = (1, 7, 30, 90, 365)
RHO = 0.0274
"""The ρ of a day, where the budget is (1, 1e-6)."""


def table(days):
    """So many days of visits, and how many there were of each cell on each day."""
    counts = np.random.default_rng(0).poisson(150, (days, 2))
    when = Date("visited", FIRST, FIRST + timedelta(days=days - 1))
    domain = Domain(when, Categorical("sex", ["F", "M"]))
    periods = Periods("visited", days=1)
    return PrivateData.from_counts(counts, domain, name="visits", periods=periods), counts


def windows(days, length):
    """Some windows of so many days, all of which end on another day."""
    ends = np.unique(np.linspace(length - 1, days - 1, 60).astype(int))
    return [(int(end) - length + 1, int(end)) for end in ends]


def run(data, counts, nights, memory, seed):
    """The errors of windows by their length, CPU seconds, and the error of one answer in rows."""
    days = len(counts)
    squares = sum((one / UNIT) ** 2 for one in weights(nights, memory))
    rho = RHO / squares
    # What a lost night would cost is left out, so that all of a day's budget is in its nights.
    session = Session(data, Budget(10, "1e-6"), noise=seeded(seed))
    start = time.process_time()
    asked = RunningSums(Marginal("sex", normalized=False), nights=nights, rho=rho, memory=memory)
    channel = session.open(asked)
    channel.advance(FIRST + timedelta(days=days - 1))
    spent = time.process_time() - start
    single = math.sqrt(1 / (2 * RHO))
    found = {}
    for length in (*LENGTHS, days):
        if length > days:
            continue
        errors = []
        for low, high in windows(days, length):
            when = Between(FIRST + timedelta(days=low), FIRST + timedelta(days=high))
            query = Marginal("sex", where={"visited": when}, normalized=False)
            release = channel.release(query)
            errors += (release.value.values - counts[low : high + 1].sum(axis=0)).tolist()
        found[length] = math.sqrt(np.mean(np.square(errors))) / single
    return found, spent, single


def main():
    given = arguments(__doc__, days=365, nights=365, memory=[0.35, 0.5], seeds=3)
    data, counts = table(given.days)
    days = given.days
    lengths = [one for one in dict.fromkeys((*LENGTHS, days)) if one <= days]
    title(f"{days:,} nights, weights on {given.nights} of them, {given.seeds} seeds")
    print(f"  {'':34}" + "".join(f"{f'{one} days':>11}" for one in lengths) + f"{'CPU s':>9}")
    anew = [math.sqrt(days)] * len(lengths)
    once = [math.sqrt(one) for one in lengths]
    for name, errors in (("the whole anew every night", anew), ("each day once", once)):
        print(f"  {name:34}" + "".join(f"{one:11.2f}" for one in errors))
    for memory in given.memory:
        runs = [run(data, counts, given.nights, memory, 1 + seed) for seed in range(given.seeds)]
        single = runs[0][2]
        means = [np.sqrt(np.mean([one[0][k] ** 2 for one in runs])) for k in lengths]
        spent = np.mean([one[1] for one in runs])
        name = f"RunningSums(memory={memory:g})"
        print(f"  {name:34}" + "".join(f"{one:11.2f}" for one in means) + f"{spent:9.1f}")
        name = "  the same in rows at (1, 1e-6)"
        print(f"  {name:34}" + "".join(f"{one * single:11.0f}" for one in means), flush=True)
    print(f"\n  one answer for all of a day's budget is off by {single:.1f} rows")


if __name__ == "__main__":
    main()
