"""What drawing a small database takes, and how far off it is, beside noise at the same epsilon.

python tests/bench/bench_smalldb.py [--quick] [--costs] [--errors] [--boxes]
    [--plot docs/explanation/small-database.svg] [--adult DIR] [--dpbench DIR]

Costs: each table in a process of its own, which reports the CPU time of the first draw and the
median of later ones, from opening the channel to its records; by how much the first draw raised the
peak of its resident memory; and the time of a quote, the public part of a draw. Of the tables of
one public shape the first has a form that one meets, and the others were tried to find the slowest.

Errors: thresholds of one attribute, 1,000 evenly spaced ones or all; the largest error of all and
the mean one, as means over seeds. DIR of --adult has the text files of the UCI data set, DIR of
--dpbench histograms as .npy arrays of counts. Rivals know the same k thresholds beforehand, under
replace-one. Their noise is drawn in floats by its law, and their answers are made to rise by least
squares and moved into [0, 1], which is free and helps them:

- Laplace, jointly: one row exchanged moves each threshold by 1, so that the scale is k / epsilon;
- Gaussian, jointly: sigma = sqrt(k) / mu, for the largest mu that (epsilon, 1e-9) allows;
- Laplace, cells: scale 2 / epsilon on each of the cells between thresholds, and sums of these;
- Laplace, tree: scale 2 h / epsilon on each node of a binary tree over these cells, of h levels;
- OnlinePMW at (epsilon, 1e-9), from the uniform distribution, all thresholds asked at once.

Boxes: all ranges of two attributes, or of three, by their number alone and by what is known of
boxes. Where they are drawn for, the best size, the error that is proven at 95 % and the largest one
of all boxes, as a mean over seeds; over larger domains the size for which some database is near.
"""

import csv
import itertools
import json
import math
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path

import numpy as np
from attrs import evolve, frozen
from measuring import arguments, example, histograms, pyplot, save, title
from scipy.optimize import isotonic_regression

from dpsdk import Budget, Domain, Integer, PrivateData, Session
from dpsdk.accounting import gdp_start
from dpsdk.forms import Dense, Identity, Kronecker, LinearForm, Prefix, Range
from dpsdk.kernel import Dimension, DrawDatabase, Limits, Terms
from dpsdk.kernel.draw_database.base import DrawTerms
from dpsdk.kernel.draw_database.bounds import AnyCoverage, size_for
from dpsdk.kernel.draw_database.choose import feasible_size
from dpsdk.kernel.draw_database.dimension import Side
from dpsdk.mechanisms import Laplace, OnlinePMW, SmallDB
from dpsdk.queries import Rectangles, Threshold, Workload
from dpsdk.testing import seeded
from dpsdk.typing import Ints

STATUS = Path("/proc/self/status")
DELTA = "1e-9"
MOST = 1_000
"""Thresholds of one attribute, unless all are asked."""


# Costs


@frozen(eq=False)
class Case:
    """One public shape: a workload, a size, and tables by name, the first of which is the named."""

    name: str
    domain: Domain
    form: LinearForm
    rows: int
    size: int | None
    tables: dict[str, Callable[[np.random.Generator], dict[str, Ints]]]

    def lower(self, domain, /):
        """The workload: whatever has this method may be one."""
        del domain
        return self.form

    def mechanism(self):
        return SmallDB(self, epsilon=1, size=self.size, limits=Limits(seconds=300))


def thresholds_of(domain, stops):
    (one,) = domain.attributes
    ranges = (Range(one.size, 0, stop) for stop in stops)
    return LinearForm(domain, [Kronecker.of(domain, {one.name: cut}) for cut in ranges])


def over(draw):
    return lambda rng: {"x": draw(rng)}


def line_tables(size, rows):
    """Tables of one attribute: all alike, at both ends, everywhere, or half and half."""
    alternate = np.arange(rows) % 2 == 0
    return {
        "uniform": over(lambda rng: rng.integers(0, size, rows)),
        "even": over(lambda rng: np.arange(rows) * size // rows),
        "one cell": over(lambda rng: np.full(rows, size // 2)),
        "both ends": over(lambda rng: np.where(alternate, 0, size - 1)),
        "half in one": over(
            lambda rng: np.where(alternate, size // 2, rng.integers(0, size, rows))
        ),
        "first cell": over(lambda rng: np.zeros(rows, dtype=np.int64)),
    }


def incomes(rng, rows, size):
    """Log-normal, with a median of 30,000.00."""
    return np.minimum(np.exp(rng.normal(math.log(3e6), 0.9, rows)), size - 1).astype(np.int64)


def thresholds_case(size):
    cells, rows = 2**32, 10_000
    domain = Domain(Integer("x", 0, cells - 1))
    stops = [cells * number // 1_001 for number in range(1, 1_001)]
    tables = {"incomes in cents": over(lambda rng: incomes(rng, rows, cells))}
    name = f"1,000 thresholds over 2^32 cells, m = {size or 'best'}"
    form = thresholds_of(domain, stops)
    return Case(name, domain, form, rows, size, tables | line_tables(cells, rows))


def intervals_case(size):
    cells, rows = 256, 10_000
    domain = Domain(Integer("x", 0, cells - 1))
    pairs = [(low, high) for low in range(cells) for high in range(low + 1, cells + 1)]
    form = LinearForm(domain, [Kronecker.of(domain, {"x": Range(cells, *pair)}) for pair in pairs])
    tables = {"geometric": over(lambda rng: np.minimum(rng.geometric(0.03, rows), cells - 1))}
    name = f"all {len(pairs):,} intervals of 256 cells, m = {size or 'best'}"
    return Case(name, domain, form, rows, size, tables | line_tables(cells, rows))


def marginals_case(size):
    names, rows = [f"a{number}" for number in range(20)], 10_000
    domain = Domain(*(Integer(name, 0, 9) for name in names))
    form = LinearForm(domain, [Kronecker.of(domain, {name: Identity(10)}) for name in names])

    def skewed(rng, number):
        return np.minimum(9, (rng.random(rows) ** (1 + 0.3 * number) * 10).astype(np.int64))

    tables = {
        "binomial": lambda rng: {name: rng.binomial(9, 0.3, rows) for name in names},
        "uniform": lambda rng: {name: rng.integers(0, 10, rows) for name in names},
        "skewed": lambda rng: {name: skewed(rng, at) for at, name in enumerate(names)},
        "one cell": lambda rng: {name: np.full(rows, 3) for name in names},
        "square roots": lambda rng: {name: np.repeat(np.arange(10), rows // 10) for name in names},
    }
    name = f"20 one-way marginals of 10^20 cells, m = {size or 'best'}"
    return Case(name, domain, form, rows, size, tables)


def general_case(cells, size):
    rows, functions = 10_000, 20
    domain = Domain(Integer("x", 0, cells - 1))
    weights = np.random.default_rng(3).integers(0, 2, (functions, cells)).astype(np.float64)
    form = LinearForm(domain, [Dense(("x",), (cells,), weights)])
    number = math.comb(cells + size - 1, size)
    tables = {"geometric": over(lambda rng: np.minimum(rng.geometric(0.1, rows), cells - 1))}
    whole = line_tables(cells, rows)
    tables |= {name: whole[name] for name in ("uniform", "one cell")}
    name = f"{functions} random functions of {cells} cells, |R| = {number:.2g}, m = {size}"
    return Case(name, domain, form, rows, size, tables)


CASES = {
    "thresholds": lambda: thresholds_case(None),
    "thresholds-50": lambda: thresholds_case(50),
    "thresholds-200": lambda: thresholds_case(200),
    "intervals": lambda: intervals_case(None),
    "marginals": lambda: marginals_case(None),
    "marginals-50": lambda: marginals_case(50),
    "general": lambda: general_case(64, 7),
    "general-small": lambda: general_case(64, 5),
}


def peak():
    """The peak of resident memory of this process, in MB."""
    # The one of getrusage knows the parent's, too.
    (line,) = (line for line in STATUS.read_text().splitlines() if line.startswith("VmHWM"))
    return int(line.split()[1]) / 2**10


def measure(case, table, draws):
    """In this process: CPU seconds of draws through a session, and the memory of the first."""
    columns = case.tables[table](np.random.default_rng(1))
    data = PrivateData.from_columns(columns, case.domain)
    session = Session(data, Budget(draws), noise=seeded(2))
    mechanism, terms = case.mechanism(), Terms(data.facts)
    start = time.process_time()
    mechanism.quote(LinearForm(case.domain, case.form.blocks[:1]), terms)
    planned, before = time.process_time() - start, peak()
    seconds = []
    for _ in range(draws):
        start = time.process_time()
        with session.open(mechanism) as channel:
            drawn = channel.distribution
        seconds.append(time.process_time() - start)
        if len(seconds) == 1:
            memory = peak() - before
    return {
        "size": drawn.rows,
        "planned": planned,
        "first": seconds[0],
        "later": statistics.median(seconds[1:] or seconds),
        "memory": memory,
        "peak": peak(),
    }


def costs(names, draws):
    """Each table in a child process."""
    for name in names:
        case = CASES[name]()
        title(f"{case.name}, n = {case.rows:,}, epsilon = 1")
        for table in case.tables:
            command = [sys.executable, __file__, "--child", name, table, str(draws)]
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            if done.returncode:
                print(f"  {table:18} failed: {done.stderr.strip().splitlines()[-1]}", flush=True)
                continue
            found = json.loads(done.stdout)
            print(
                f"  {table:18} m = {found['size']:<4} first {found['first']:7.3f} s, later"
                f" {found['later']:7.3f} s, {found['memory']:6.1f} MB for the draw,"
                f" {found['peak']:4.0f} MB in all; a quote {found['planned']:.2f} s",
                flush=True,
            )


# Errors


@frozen(eq=False)
class Column:
    """One attribute: which cells are occupied, how many rows are there, and the thresholds asked.

    `stops` has for each threshold the number of cells at or below it.
    """

    name: str
    cells: int
    codes: Ints
    counts: Ints
    stops: Ints

    @property
    def rows(self):
        return int(self.counts.sum())

    @property
    def domain(self):
        return Domain(Integer("x", 0, self.cells - 1))

    def lower(self, domain, /):
        """The workload of all thresholds."""
        if len(self.stops) == self.cells - 1:
            return LinearForm(domain, [Kronecker.of(domain, {"x": Prefix(self.cells)})])
        return thresholds_of(domain, self.stops.tolist())

    def truths(self):
        """The shares at or below each threshold."""
        return self.shares(self.codes, self.counts)

    def shares(self, codes, counts):
        """The same of another table."""
        order = np.argsort(codes)
        running = np.append(0, np.cumsum(counts[order]))
        return running[np.searchsorted(codes[order], self.stops)] / running[-1]

    def data(self):
        return PrivateData.from_columns({"x": np.repeat(self.codes, self.counts)}, self.domain)

    def of_rows(self, rows):
        """A table of so many rows with about the same shares."""
        exact = np.cumsum(self.counts) * rows / self.rows
        counts = np.diff(np.floor(exact + 0.5), prepend=0).astype(np.int64)
        return evolve(self, codes=self.codes[counts > 0], counts=counts[counts > 0])

    @classmethod
    def of(cls, name, cells, values, most=MOST):
        codes, counts = np.unique(values, return_counts=True)
        number = min(most, cells - 1)
        stops = np.array([cells * at // (number + 1) for at in range(1, number + 1)])
        return cls(name, cells, codes, counts.astype(np.int64), stops)


@frozen
class Outcome:
    """Errors as shares of the rows: means over seeds of the largest and of the mean of all."""

    largest: float
    mean: float
    note: str = ""

    @classmethod
    def of(cls, errors, note=""):
        largest = statistics.mean(float(each.max()) for each in errors)
        return cls(largest, statistics.mean(float(each.mean()) for each in errors), note)


def small_database(column, epsilon, seeds):
    """Draws of the best size, through sessions of just that budget."""
    truths, data = column.truths(), column.data()
    mechanism = SmallDB(column, epsilon=epsilon)
    found = []
    for seed in range(seeds):
        session = Session(data, Budget(epsilon), noise=seeded(seed))
        with session.open(mechanism) as channel:
            drawn = channel.distribution
        found.append(np.abs(column.shares(drawn.codes[:, 0], drawn.multiplicities) - truths))
    one = LinearForm(column.domain, column.lower(column.domain).blocks[:1])
    bound = mechanism.quote(one, Terms(data.facts)).error(0.05) / column.rows
    return Outcome.of(found, f"m = {drawn.rows}, bound {bound:.4f}")


def pmw(column, epsilon, seeds):
    """All thresholds, asked at once."""
    # The usual constant of the practical schedule, see bench_pmw.py.
    updates = max(1, min(400, round(math.pow(column.rows * float(epsilon), 2 / 3) / 13)))
    asked = OnlinePMW(epsilon, DELTA, updates=updates, queries=len(column.stops), start="uniform")
    workload = Workload(Threshold("x", stop - 1) for stop in column.stops.tolist())
    found = []
    for seed in range(seeds):
        session = Session(column.data(), Budget(epsilon, DELTA), noise=seeded(seed))
        with session.open(asked) as channel:
            values = np.array(channel.answer(workload), dtype=np.float64)
        found.append(np.abs(values - column.truths()))
    return Outcome.of(found, f"at most {updates} updates")


def noise(column, epsilon, seeds):
    """Rivals that add noise; the lines at the top of this file say how much."""
    truths, strength, queries = column.truths(), float(epsilon), len(column.stops)
    mu = math.sqrt(gdp_start(Fraction(epsilon), Fraction(DELTA)))
    laws = {
        "Laplace, jointly": lambda rng: rng.laplace(scale=queries / strength, size=queries),
        "Gaussian, jointly": lambda rng: rng.normal(scale=math.sqrt(queries) / mu, size=queries),
        "Laplace, cells": lambda rng: np.cumsum(rng.laplace(scale=2 / strength, size=queries)),
        "Laplace, tree": lambda rng: _tree(rng, queries, strength),
    }
    found = {}
    for name, law in laws.items():
        errors = []
        for seed in range(seeds):
            values = truths + law(np.random.default_rng(seed)) / column.rows
            fitted = isotonic_regression(values).x
            errors.append(np.abs(np.clip(fitted, 0, 1) - truths))
        found[name] = Outcome.of(errors)
    return found


def _tree(rng, queries, epsilon):
    """Sums of noise of the nodes that the first 1, 2, ... of the cells consist of."""
    stops = np.arange(1, queries + 1)
    height = max(1, math.ceil(math.log2(queries + 1)))
    sums = np.zeros(queries)
    for bit in range(height):
        noise = rng.laplace(scale=2 * height / epsilon, size=(queries >> bit) + 1)
        sums += np.where(stops >> bit & 1, noise[(stops >> bit) - (stops >> bit & 1)], 0.0)
    return sums


def adult_ages():
    return Column.of("Adult, age", 74, np.array(example()["age"], dtype=np.int64) - 17)


def capital_gains(directory):
    gains = []
    for name in ("adult.data", "adult.test"):
        with (directory / name).open(newline="") as file:
            rows = csv.reader(file, skipinitialspace=True)
            gains += [int(row[10]) for row in rows if len(row) == 15]
    return Column.of("Adult, capital-gain", 100_000, np.array(gains))


def columns_of(folder):
    for name, counts in histograms(folder):
        codes = np.flatnonzero(counts)
        stops = np.arange(1, len(counts))
        yield Column(name, len(counts), codes, counts[codes], stops)


def simulated(rows, cells, most=MOST):
    """Incomes in cents, up to 2^32, or in 2^20 coarser steps."""
    values = incomes(np.random.default_rng(5), rows, 2**24) * cells // 2**24
    return Column.of("incomes", cells, values, most)


def errors(columns, epsilons, seeds, rounds):
    """All mechanisms side by side."""
    for column in columns:
        for epsilon in epsilons:
            stops = len(column.stops)
            title(
                f"{column.name}: {column.cells:,} cells, n = {column.rows:,}, "
                f"{stops:,} thresholds, epsilon = {epsilon}"
            )
            print(f"  {'':20}{'largest':>8} {'mean':>8}")
            found = {"SmallDB": small_database(column, epsilon, seeds)}
            found |= noise(column, epsilon, seeds)
            if stops <= 2**12 and column.cells <= 2**20 and column.rows <= 2**17:
                found["OnlinePMW"] = pmw(column, epsilon, rounds)
            for name, outcome in found.items():
                print(
                    f"  {name:20}{outcome.largest:8.4f} {outcome.mean:8.4f}   {outcome.note}",
                    flush=True,
                )


# Boxes

DRAWN = ((2, 8), (2, 16), (2, 32), (3, 12), (4, 8), (2, 2, 8), (2, 2, 16))
LARGE = ((2, 10), (2, 20), (3, 10), (3, 20), (4, 20))
"""Attributes, and the bits of the cells of each."""


def every_box(sizes):
    """All boxes over cells of so many labels, and a table of them."""
    names = "abc"[: len(sizes)]
    domain = Domain(*(Integer(name, 0, size - 1) for name, size in zip(names, sizes, strict=True)))
    sides = [[(low, high) for low in range(size) for high in range(low, size)] for size in sizes]
    ends = np.array(list(itertools.product(*sides)))
    rng = np.random.default_rng(0)
    columns = {
        name: np.minimum(rng.geometric(min(0.7, 2.5 / size), 10_000) - 1, size - 1).tolist()
        for name, size in zip(names, sizes, strict=True)
    }
    data = PrivateData.from_columns(columns, domain)
    return data, Rectangles(tuple(names), ends[..., 0], ends[..., 1])


def boxes_drawn_for(seeds):
    """What is drawn for: the size and the errors, proven and found."""
    title("All boxes, n = 10,000, epsilon = 1: by their number, and as boxes")
    for sizes in DRAWN:
        data, boxes = every_box(sizes)
        terms, form = Terms(data.facts), boxes.lower(data.facts.domain)
        truth = np.array(Session(data, Budget(10**9)).answer(boxes, using=Laplace(10**8)))
        request = DrawDatabase.sized(form, 1, terms)
        after = request.price(terms).bound
        counted = evolve(after.family, coverage=evolve(after.family.coverage, sides=None))
        best = counted.best_size(after.rate, 10_000, 0.05, feasible_size_of(form, terms))
        before = evolve(after, family=counted, size=best)
        errors = []
        for seed in range(seeds):
            session = Session(data, Budget(10), noise=seeded(seed))
            with session.open(SmallDB(boxes, epsilon=1)) as channel:
                errors.append(np.abs(np.array(channel.answer(boxes)) - truth).max())
        proven = [float(bound.error(0.05)) / 10_000 for bound in (before, after)]
        print(
            f"  {' x '.join(map(str, sizes)):12} {len(truth):5,} boxes: m {before.size:3}, proven "
            f"{proven[0]:.3f}; now m {after.size:3}, proven {proven[1]:.3f}, "
            f"largest {statistics.mean(errors):.3f}",
            flush=True,
        )


def feasible_size_of(form, terms):
    """The most records of a database that is drawn for a form within a minute."""
    return feasible_size(form.apart(), DrawTerms(1, Fraction(1), terms.facts))


def boxes_over_large_domains():
    """How many records some database needs, and the rows of the theorem with so many."""
    title("All boxes over large domains: records for which some database is within alpha")
    for attributes, bits in LARGE:
        cells = 2**bits
        boxes = (cells * (cells + 1) // 2) ** attributes
        counted = AnyCoverage(boxes, cells**attributes)
        declared = evolve(counted, declared=Dimension(2 * attributes, "boxes"))
        known = evolve(counted, sides=(Side(cells, 2, 2),) * attributes)
        for alpha in ("0.2", "0.1", "0.05"):
            sizes = [size_for(alpha, one) for one in (counted, declared, known)]
            print(f"  {attributes} attributes of 2^{bits}, alpha {alpha}:", *sizes, flush=True)


# The picture

STYLES = {
    "SmallDB": ("#1f4e79", "-"),
    "SmallDB, proven": ("#1f4e79", ":"),
    "Laplace, jointly": ("#c0504d", ":"),
    "Gaussian, jointly": ("#c0504d", "-"),
    "Laplace, cells": ("#e6a23c", "-"),
    "Laplace, tree": ("#4f9d69", "-"),
}


def curve(column, epsilon, rows, seeds):
    """The largest error of all mechanisms against the number of rows."""
    curves = {name: [] for name in STYLES}
    for number in rows:
        table = column.of_rows(number)
        ours = small_database(table, epsilon, seeds)
        curves["SmallDB"].append(ours.largest)
        curves["SmallDB, proven"].append(min(1.0, float(ours.note.rsplit(" ", 1)[1])))
        for name, outcome in noise(table, epsilon, seeds).items():
            curves[name].append(outcome.largest)
    return curves


def draw(columns, epsilon, path, seeds, points):
    """The largest error against n, one panel a column."""
    plt = pyplot()
    figure, axes = plt.subplots(1, len(columns), figsize=(8, 3.4), sharey=True)
    rows = [round(10 ** (2 + place / 2)) for place in range(points)]
    title(f"The picture, epsilon = {epsilon}: largest errors for n = {rows}")
    for axis, column in zip(axes, columns, strict=True):
        for name, values in curve(column, epsilon, rows, seeds).items():
            print(f"  {column.name:20} {name:20}", " ".join(f"{v:.4f}" for v in values), flush=True)
            colour, line = STYLES[name]
            axis.loglog(rows, np.maximum(values, 1e-6), color=colour, ls=line, label=name)
        axis.set_title(f"{column.name}, {len(column.stops):,} thresholds", fontsize=9)
        axis.set_xlabel("rows, n")
        axis.grid(alpha=0.3)
    axes[0].set_ylabel("largest error, as a share")
    axes[0].set_ylim(1e-5, 1.3)
    save(figure, path, axes[0], columns=3, room=0.13)


def main():
    if len(sys.argv) == 5 and sys.argv[1] == "--child":
        case, table, draws = sys.argv[2:]
        print(json.dumps(measure(CASES[case](), table, int(draws))))
        return
    given = arguments(
        __doc__, quick=False, costs=False, errors=False, boxes=False, plot=Path, adult=Path,
        dpbench=Path, case=[],
    )  # fmt: skip
    start, cores = time.perf_counter(), os.cpu_count()
    every = not (given.costs or given.errors or given.boxes or given.plot or given.case)
    if every or given.costs or given.case:
        names = given.case or [name for name in CASES if not given.quick or name != "general"]
        costs(names, 2 if given.quick else 5)
    if every or given.errors:
        columns = [adult_ages(), simulated(10_000, 2**32), simulated(10_000, 2**20, 2**20)]
        columns += [capital_gains(given.adult)] if given.adult else []
        columns += list(columns_of(given.dpbench)) if given.dpbench else []
        seeds, rounds = (4, 1) if given.quick else (10, 2)
        errors(columns, ("0.1", "1"), seeds, rounds)
    if every or given.boxes:
        boxes_drawn_for(2 if given.quick else 5)
        boxes_over_large_domains()
    if given.plot is not None:
        points = 5 if given.quick else 7
        columns = [adult_ages(), simulated(100_000, 2**32), simulated(100_000, 2**20, 2**20)]
        draw(columns, "1", given.plot, 3 if given.quick else 6, points)
    print(f"\n{time.perf_counter() - start:.0f} s in all, {cores} cores")


if __name__ == "__main__":
    main()
