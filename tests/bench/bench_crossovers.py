"""Which mechanism suits which workload: errors of all of them side by side, on one machine.

python tests/bench/bench_crossovers.py [--only NAME ...] [--seeds 3] [--plot FOLDER]

NAME is counts, line, tables, few, rectangles, linear or stream. FOLDER gets which-tables.svg,
which-line.svg and which-rectangles.svg. Tables: six columns of docs/examples/adult.csv.gz (48,842
rows, 165,760 cells), as bench_pmw.py has them, incomes drawn log-normal from a fixed seed, and
random ones. Errors are shares of the rows: the largest and the mean over all numbers of a workload,
means over seeds. Numbers are moved into [0, 1] first, which is free and helps noise. δ is 1e-9 or,
where it says "pure", 0. Noise is seeded, so that errors repeat; CPU seconds are those of one run
and do not. A mechanism that refuses a case is left out with its reason.
"""

import itertools
import math
import time
from pathlib import Path

import numpy as np
from attrs import field, frozen
from bench_pmw import Asked as Shares
from bench_pmw import Outcome, Table, updates_for
from bench_pmw import adult as example
from bench_rectangles import Batch, plain
from measuring import arguments, draw

from dpsdk import Budget, Domain, Integer, Neighbors, PrivateData, Session
from dpsdk.errors import DpsdkError
from dpsdk.forms import Kronecker, LinearForm, Weights
from dpsdk.hypothesis import DenseHypothesis, Pairs
from dpsdk.mechanisms import (
    MWEM,
    Gaussian,
    Laplace,
    LocalMarginals,
    Matrix,
    NoisyHistogram,
    NumericSparse,
    OfflinePMW,
    OnlinePMW,
    Projection,
    ResidualPlanner,
    SmallDB,
    SquareRoot,
    Tree,
)
from dpsdk.mechanisms.base import OneShot
from dpsdk.queries import Marginal, NumericAbove, Threshold, Workload
from dpsdk.testing import seeded
from dpsdk.typing import Floats, Ints

DELTA = "1e-9"


@frozen(eq=False)
class Asked(Shares):
    """The numbers of a workload, in rows."""

    def lift(self, raw, facts, /):
        return raw


@frozen(eq=False)
class Case:
    """A table under neighbours, a workload with its true shares, and how it is asked."""

    counts: Ints
    domain: Domain
    form: LinearForm
    relation: Neighbors = Neighbors.REPLACE_ONE
    part: int | None = None
    """How many numbers are asked at once, of channels; all where it is None."""
    true: Floats = field(init=False)

    @true.default
    def _true(self):
        weights = self.counts.astype(np.float64)
        return DenseHypothesis.from_weights(self.domain, weights).answers(self.form)

    @property
    def rows(self):
        return int(self.counts.sum())

    def run(self, mechanism, budget, seed):
        """Errors, and CPU seconds."""
        data = PrivateData.from_counts(self.counts, self.domain, neighbors=self.relation)
        session = Session(data, budget, noise=seeded(seed))
        start = time.process_time()
        if isinstance(mechanism, OneShot):
            values = session.answer(Asked(self.form), using=mechanism)
        else:
            parts = [self.form] if self.part is None else self.form.pieces(self.part)
            with session.open(mechanism) as channel:
                if isinstance(mechanism, SmallDB):
                    values = channel.distribution.answers(self.form) * self.rows
                else:
                    values = np.concatenate([channel.answer(Asked(part)) for part in parts])
        seconds = time.process_time() - start
        return np.abs(np.clip(values / self.rows, 0.0, 1.0) - self.true), seconds

    def show(self, title, makers, epsilon, seeds):
        """All mechanisms, means over seeds."""
        print(f"\n{title}, {self.relation.value}, ε = {epsilon}", flush=True)
        found = {}
        for name, make in makers.items():
            delta = "0" if name.endswith("pure") else DELTA
            try:
                mechanism = make()
                runs = [self.run(mechanism, Budget(epsilon, delta), seed) for seed in range(seeds)]
            except DpsdkError as refusal:
                reason = f"{type(refusal).__name__}: {str(refusal).splitlines()[0]}"
                print(f"  {name:24} refused, {reason[:110]}", flush=True)
                continue
            largest = float(np.mean([errors.max() for errors, _ in runs]))
            mean = float(np.mean([errors.mean() for errors, _ in runs]))
            seconds = sum(each for _, each in runs) / seeds
            found[name] = Outcome(largest, math.nan, mean, f"{seconds:.2f} CPU s")
            print(f"  {name:24} {largest:.2e} / {mean:.2e}   {seconds:.2f} CPU s", flush=True)
        best = {
            measure: min(found, key=lambda name, m=measure: getattr(found[name], m))
            for measure in ("largest", "mean")
        }
        print(f"  the least: {best['largest']} / {best['mean']}", flush=True)
        return found


def adult():
    """Six columns, as whole numbers."""
    table = example()
    return Table(table.name, plain(table.domain), table.counts)


def lowered(domain, *asked):
    return Workload(asked).lower(domain)


def counts(seeds):
    """A few overlapping counts: from which number on Gaussian noise, and then a distribution."""
    table = adult()
    for epsilon, relation in itertools.product(("0.1", "1"), Neighbors):
        for many in (1, 3, 10, 30, 100, 300, 1_000):
            form = boxes(table.domain, many).lower(table.domain)
            case = Case(table.counts, table.domain, form, relation)
            both = {"epsilon": epsilon, "delta": DELTA}
            makers = {
                "Laplace, pure": lambda e=epsilon: Laplace(epsilon=e),
                "Gaussian": lambda b=both: Gaussian(**b),
                "Projection": lambda b=both: Projection(**b),
                "MWEM": lambda f=form, b=both: MWEM(Asked(f), **b),
            }
            if many > 100:
                del makers["MWEM"]
            case.show(f"{many:,} random rectangles, {table.rows:,} rows", makers, epsilon, seeds)


def line(seeds):
    """All thresholds of one attribute, by the number of its cells and by n·ε."""
    rows, curves = 10_000, {}
    for cells, epsilon in ((16, "1"), (64, "1"), (256, "1"), (1024, "1"), (4096, "1"), (65536, "1"),
                           (256, "0.1"), (4096, "0.1"), (256, "0.01"), (4096, "0.01")):  # fmt: skip
        values = np.exp(np.random.default_rng(5).normal(math.log(0.03), 0.9, rows)) * cells
        histogram = np.bincount(np.minimum(values.astype(np.int64), cells - 1), minlength=cells)
        domain = Domain(Integer("x", 0, cells - 1))
        many = min(cells - 1, 1000)
        stops = sorted({cells * number // (many + 1) for number in range(1, many + 1)})
        form = lowered(domain, *(Threshold("x", stop - 1, normalized=False) for stop in stops))
        for relation in Neighbors:
            case = Case(histogram, domain, form, relation)
            both = {"epsilon": epsilon, "delta": DELTA}
            makers = {
                "NoisyHistogram, pure": lambda e=epsilon: NoisyHistogram(epsilon=e),
                "Tree, pure": lambda e=epsilon: Tree("x", epsilon=e),
                "Matrix, pure": lambda f=form, e=epsilon: Matrix(Asked(f), epsilon=e),
                "SmallDB, pure": lambda f=form, e=epsilon: SmallDB(Asked(f), epsilon=e),
                "Gaussian": lambda b=both: Gaussian(**b),
                "Tree": lambda b=both: Tree("x", **b),
                "SquareRoot": lambda b=both: SquareRoot("x", **b),
                "Matrix": lambda f=form, b=both: Matrix(Asked(f), **b),
                "Projection": lambda b=both: Projection(**b),
            }
            title = f"{len(stops):,} thresholds of {cells:,} cells, {rows:,} rows"
            found = case.show(title, makers, epsilon, seeds)
            if epsilon == "1" and relation is Neighbors.REPLACE_ONE:
                for name, outcome in found.items():
                    curves.setdefault(name, []).append((cells, outcome))
    return curves


def all_tables(domain, *ways):
    return [
        Marginal(*kept, normalized=False)
        for way in ways
        for kept in itertools.combinations(domain.names, way)
    ]


def on_tables(asked, domain, epsilon):
    both = {"epsilon": epsilon, "delta": DELTA}
    form = lowered(domain, *asked)
    return {
        "Gaussian": lambda: Gaussian(**both),
        "ResidualPlanner": lambda: ResidualPlanner(asked, **both),
        "ResidualPlanner, possible": lambda: ResidualPlanner(asked, **both, nonnegative=True),
        "LocalMarginals": lambda: LocalMarginals(Workload(asked), **both),
        "MWEM": lambda: MWEM(Asked(form), **both),
        "OnlinePMW, pairs": lambda: OnlinePMW(**both, updates=10, start=Pairs("0.75")),
        "NoisyHistogram": lambda: NoisyHistogram(**both),
        "Laplace, pure": lambda: Laplace(epsilon=epsilon),
        "MWEM, pure": lambda: MWEM(Asked(form), epsilon=epsilon),
    }


def tables(seeds):
    """All two- and three-way marginals of six columns, by n·ε."""
    table, curves = adult(), {relation: {} for relation in Neighbors}
    asked = all_tables(table.domain, 2, 3)
    form = lowered(table.domain, *asked)
    for epsilon, relation in itertools.product(("0.01", "0.1", "1", "10"), Neighbors):
        case = Case(table.counts, table.domain, form, relation, part=4096)
        makers = on_tables(asked, table.domain, epsilon)
        title = f"{len(asked)} tables, {form.rows:,} numbers, {table.rows:,} rows"
        for name, outcome in case.show(title, makers, epsilon, seeds).items():
            curves[relation].setdefault(name, []).append((table.rows * float(epsilon), outcome))
    return curves


def few(seeds):
    """Some of these marginals, by their number."""
    table = adult()
    every = all_tables(table.domain, 2, 3)
    order = np.random.default_rng(2).permutation(len(every))
    for epsilon, relation in itertools.product(("0.1", "1"), Neighbors):
        for many in (1, 4, 16):
            asked = [every[place] for place in sorted(order[:many])]
            form = lowered(table.domain, *asked)
            makers = on_tables(asked, table.domain, epsilon)
            case = Case(table.counts, table.domain, form, relation, part=4096)
            case.show(f"{many} tables, {form.rows:,} numbers", makers, epsilon, seeds)


def boxes(domain, many):
    return Batch.drawn(domain, many).arrays()


def learnt(domain, width, epsilon):
    """Marginals are learnt first, and their distribution answers everything else."""
    asked = all_tables(domain, *range(2, width + 1))
    return MWEM(Asked(lowered(domain, *asked)), epsilon=epsilon, delta=DELTA)


def rectangles():
    """Random rectangles of six columns, by their number: all at once, and one after the other."""
    table = adult()
    curves = {}
    for epsilon, relation in itertools.product(("0.1", "1"), Neighbors):
        for many in (100, 1_000, 10_000, 100_000):
            if relation is Neighbors.ADD_REMOVE and many != 10_000:
                continue
            form = boxes(table.domain, many).lower(table.domain)
            case = Case(table.counts, table.domain, form, relation, part=2048)
            both = {"epsilon": epsilon, "delta": DELTA}
            updates = updates_for(table.rows, epsilon)
            makers = {
                "Gaussian": lambda b=both: Gaussian(**b),
                "Projection": lambda b=both: Projection(**b),
                "MWEM of pairs": lambda e=epsilon: learnt(table.domain, 2, e),
                "MWEM of triples": lambda e=epsilon: learnt(table.domain, 3, e),
                "NoisyHistogram": lambda b=both: NoisyHistogram(**b),
                "OnlinePMW, product": lambda b=both, k=many, u=updates: OnlinePMW(
                    **b, updates=u, queries=k
                ),
                "OnlinePMW, pairs": lambda b=both, k=many: OnlinePMW(
                    **b, updates=10, queries=k, start=Pairs("0.75")
                ),
            }
            found = case.show(f"{many:,} random rectangles", makers, epsilon, 1)
            if relation is Neighbors.REPLACE_ONE:
                each = curves.setdefault(epsilon, {})
                for name, outcome in found.items():
                    each.setdefault(name, []).append((many, outcome))
    return curves


def linear(seeds):
    """Random weights in [0, 1] on the cells of a small table, in pure ε, by n·ε."""
    cells, many = 1024, 500
    domain = Domain(Integer("x", 0, cells - 1))
    rng = np.random.default_rng(8)
    form = LinearForm(domain, (Kronecker(("x",), (Weights(rng.random((many, cells))),)),))
    whole, apart = Asked(form), Asked(form.apart())
    shares = rng.random(cells) ** 6
    for rows, relation in itertools.product((50, 200, 1_000, 5_000, 20_000), Neighbors):
        histogram = rng.multinomial(rows, shares / shares.sum())
        case = Case(histogram, domain, form, relation)
        makers = {
            "Laplace, pure": lambda: Laplace(epsilon=1),
            "NoisyHistogram, pure": lambda: NoisyHistogram(epsilon=1),
            "Projection, pure": lambda: Projection(epsilon=1),
            "Matrix, pure": lambda: Matrix(whole, epsilon=1),
            "MWEM, pure": lambda: MWEM(apart, epsilon=1),
            "MWEM.textbook, pure": lambda: MWEM.textbook(apart, 1),
            "OfflinePMW, pure": lambda: OfflinePMW(apart, epsilon=1),
            "OnlinePMW, pure": lambda n=rows: OnlinePMW(
                1, updates=max(2, updates_for(n, "1")), queries=many, start="uniform"
            ),
            "SmallDB, pure": lambda: SmallDB(whole, epsilon=1),
            "Gaussian": lambda: Gaussian(epsilon=1, delta=DELTA),
        }
        title = f"{many} random functions of {cells} cells, {rows:,} rows"
        case.show(title, makers, "1", seeds)
        flat = np.abs(DenseHypothesis.uniform(domain).answers(form) - case.true)
        print(f"  {'the uniform distribution':24} {flat.max():.2e} / {flat.mean():.2e}")


def stream(seeds):
    """Which of 1,000 rectangles exceed three tenths of the rows, until ten did."""
    table = adult()
    domain, level, tops = table.domain, 0.3, 10
    batch = Batch.drawn(domain, 1_000)
    case = Case(table.counts, domain, batch.arrays().lower(domain))
    queries = batch.conjunctions().queries
    for epsilon in ("0.1", "1"):
        errors, wrong, answered = list[float](), 0, 0
        start = time.process_time()
        for seed in range(seeds):
            data = PrivateData.from_counts(table.counts, domain)
            session = Session(data, Budget(epsilon, DELTA), noise=seeded(seed))
            with session.open(NumericSparse(epsilon, DELTA, tops=tops)) as channel:
                for place, query in enumerate(queries):
                    number = channel.answer(NumericAbove(query, level))
                    answered += 1
                    wrong += (number is not None) != (case.true[place] > level)
                    if number is not None:
                        errors.append(abs(number - case.true[place]))
                    if len(errors) == tops * (seed + 1):
                        break
        seconds = (time.process_time() - start) / seeds
        print(
            f"\nNumericSparse, {tops} tops, ε = {epsilon}: {answered / seeds:.0f} asked, "
            f"{wrong / seeds:.1f} on the wrong side, numbers off by {np.mean(errors):.2e}, "
            f"{seconds:.2f} CPU s"
        )
        jointly = {"Gaussian": lambda e=epsilon: Gaussian(epsilon=e, delta=DELTA)}
        case.show("all 1,000 at once", jointly, epsilon, seeds)


COLOURS = {
    "Gaussian": "#e6a23c", "Laplace, pure": "#c0504d", "NoisyHistogram": "#8c564b",
    "NoisyHistogram, pure": "#8c564b", "ResidualPlanner": "#9bbb59",
    "ResidualPlanner, possible": "#4e7a27", "LocalMarginals": "#17868e", "MWEM": "#1f4e79",
    "MWEM, pure": "#1f4e79", "MWEM of pairs": "#4f81bd", "MWEM of triples": "#1f4e79",
    "OnlinePMW, pairs": "#7b52a1", "OnlinePMW, product": "#c39bd3", "Projection": "#d16ba5",
    "Tree": "#9bbb59", "Tree, pure": "#9bbb59", "SquareRoot": "#17868e", "Matrix": "#1f4e79",
    "Matrix, pure": "#1f4e79", "SmallDB, pure": "#7b52a1",
}  # fmt: skip
STYLES = {name: (one, ":" if name.endswith("pure") else "-") for name, one in COLOURS.items()}


def main():
    every = ("counts", "line", "few", "tables", "rectangles", "linear", "stream")
    given = arguments(__doc__, only=every, seeds=3, plot=Path)
    plot = given.plot
    start = time.process_time()
    if "counts" in given.only:
        counts(given.seeds)
    if "line" in given.only:
        found = line(given.seeds)
        if plot:
            draw({"ε = 1": found}, "cells of the attribute", plot / "which-line.svg", STYLES)
    if "few" in given.only:
        few(given.seeds)
    if "tables" in given.only:
        curves = {relation.value: each for relation, each in tables(given.seeds).items()}
        if plot:
            draw(curves, "n·ε", plot / "which-tables.svg", STYLES)
    if "rectangles" in given.only:
        panels = {f"ε = {epsilon}": each for epsilon, each in rectangles().items()}
        if plot:
            draw(panels, "rectangles", plot / "which-rectangles.svg", STYLES)
    if "linear" in given.only:
        linear(given.seeds)
    if "stream" in given.only:
        stream(given.seeds)
    print(f"\n{time.process_time() - start:.0f} CPU s in all")


if __name__ == "__main__":
    main()
