"""Where online private multiplicative weights pays, beside independent noise for the same budget.

python tests/bench/bench_pmw.py [--quick] [--plot docs/explanation/pmw.svg] [--dpbench DIR] [--tune]
python tests/bench/bench_pmw.py --pairs [--adult FILE] [--quick]

The table is six columns of docs/examples/adult.csv.gz (165,760 cells), or with `--adult` seven
coded ones of FILE, as bench_mwem.py takes them (120,960 cells); DIR holds histograms of one
attribute, as .npy arrays of counts. `--pairs` compares starts on one stream of rectangles. All
noise of the package is seeded, so figures repeat; times do not.

Rivals, for k numbers and one budget (ε, δ):

- Gaussian, jointly: one release, μ-GDP for the largest μ that (ε, δ) allows; σ = Δ2 / μ with the L2
  sensitivity Δ2 of all k numbers together, which must be known beforehand;
- Laplace, jointly: scale Δ1 / ε, with the L1 sensitivity Δ1;
- Gaussian stream: one number after the other at an equal split. Each moves by 1 row at the most, so
  that σ = √k / μ, the noise for Δ2 = √k;
- Laplace stream: pure runs of ε0, by basic composition ε0 = ε / k or, where larger, by zCDP with
  ε0 tanh(ε0 / 2) = ρ / k for the ρ that implies (ε, δ); scale 1 / ε0.

Rivals are drawn in floats by their law, and moved into [0, 1], which is free and helps them.
"""

import math
import statistics
import time
from collections.abc import Sequence
from contextlib import contextmanager
from fractions import Fraction
from pathlib import Path

import numpy as np
from attrs import frozen
from measuring import EXAMPLES, arguments, coded, draw, example, histograms, integers, title

from dpsdk import Budget, Domain, PrivateData, Session
from dpsdk.accounting import ZCDPComposition, gdp_start, zcdp_start
from dpsdk.forms import Kronecker, LinearForm, Range, Weights, sensitivity
from dpsdk.hypothesis import DenseHypothesis, Pairs, Product
from dpsdk.mechanisms import OnlinePMW
from dpsdk.mechanisms.numeric_sparse import split_pure
from dpsdk.mechanisms.pmw import schedule
from dpsdk.queries import Query
from dpsdk.testing import seeded
from dpsdk.typing import Floats, Ints

NAMES = ("age", "education", "marital-status", "race", "sex", "income")
SIZES = {
    "workclass": 9,
    "education-num": 16,
    "marital-status": 7,
    "relationship": 6,
    "race": 5,
    "sex": 2,
    "income>50K": 2,
}
DELTA = "1e-9"
PART = 2048


@frozen(eq=False)
class Asked(Query[Floats]):
    """A form as a question of its own, answered in shares of the rows."""

    form: LinearForm

    def lower(self, domain, /):
        return self.form

    def lift(self, raw, facts, /):
        return raw / (facts.rows or 1)

    def __str__(self):
        return f"{self.form.rows} numbers"


@frozen(eq=False)
class Table:
    """A table, and its histogram for the truth."""

    name: str
    domain: Domain
    counts: Ints

    @property
    def rows(self):
        return int(self.counts.sum())

    def data(self):
        return PrivateData.from_counts(self.counts, self.domain)

    def times(self, factor):
        return Table(f"{self.name} x {factor:,}", self.domain, self.counts * factor)

    def truths(self, form):
        weights = self.counts.astype(np.float64)
        return DenseHypothesis.from_weights(self.domain, weights).answers(form)


@frozen(eq=False)
class Stream:
    """A workload with its true answers, cut into the parts in which it is asked."""

    name: str
    table: Table
    form: LinearForm
    parts: Sequence[Asked]
    truths: Floats

    @classmethod
    def drawn(cls, name, table, draw, queries, seed):
        rng = np.random.default_rng(seed)
        blocks = [draw(rng, table.domain) for _ in range(queries)]
        form = LinearForm(table.domain, blocks)
        parts = [Asked(part) for part in form.pieces(PART)]
        return cls(name, table, form, parts, table.truths(form))

    def first(self, queries):
        """The beginning of the stream."""
        form = LinearForm(self.table.domain, self.form.blocks[:queries])
        parts = [Asked(part) for part in form.pieces(PART)]
        return Stream(self.name, self.table, form, parts, self.truths[:queries])

    def on(self, table):
        """The same questions to a table with the same shares."""
        return Stream(self.name, table, self.form, self.parts, self.truths)


def adult():
    whole = Domain.load(EXAMPLES / "adult-domain.json")
    domain = Domain(*(whole[name] for name in NAMES))
    columns = example()
    codes = []
    for attribute in domain.attributes:
        cells = {attribute.text(cell): cell for cell in range(attribute.size)}
        codes.append([cells[value] for value in columns[attribute.name]])
    counts = np.zeros(domain.shape, dtype=np.int64)
    np.add.at(counts, tuple(np.array(codes)), 1)
    return Table("Adult", domain, counts)


def adult_coded(path, *, wide=False):
    """Seven coded columns of Adult; eight if wide."""
    sizes, columns = SIZES | ({"occupation": 15} if wide else {}), coded(path)
    counts = np.zeros(tuple(sizes.values()), dtype=np.int64)
    np.add.at(counts, tuple(columns[name] for name in sizes), 1)
    return integers(sizes), counts


def thresholds(rng, domain):
    """The share at or below a random label of the first attribute."""
    first = domain.attributes[0]
    stop = int(rng.integers(1, first.size))
    return Kronecker.of(domain, {first.name: Range(first.size, 0, stop)})


def three_way(rng, domain):
    """One random label of each of three random attributes."""
    places = rng.choice(len(domain.names), size=3, replace=False)
    cells = {domain.names[place]: int(rng.integers(domain.shape[place])) for place in places}
    return _ranges(domain, {name: (cell, cell) for name, cell in cells.items()})


def rectangles(rng, domain):
    """Each attribute with probability 1/2, one at least: the cells between two random ones."""
    chosen = rng.random(len(domain.names)) < 0.5
    while not chosen.any():
        chosen = rng.random(len(domain.names)) < 0.5
    places = np.flatnonzero(chosen).tolist()
    ends = {domain.names[i]: sorted(rng.integers(0, domain.shape[i], 2).tolist()) for i in places}
    return _ranges(domain, {name: (low, high) for name, (low, high) in ends.items()})


def linear(rng, domain):
    """The product of random weights in [0, 1], one for each label of two random attributes."""
    places = rng.choice(len(domain.names), size=2, replace=False)
    weights = {domain.names[i]: Weights(rng.random((1, domain.shape[i]))) for i in sorted(places)}
    return Kronecker.of(domain, weights)


def _ranges(domain, ends):
    factors = {name: Range(domain[name].size, low, up + 1) for name, (low, up) in ends.items()}
    return Kronecker.of(domain, factors)


KINDS = {
    "thresholds": thresholds,
    "three-way": three_way,
    "rectangles": rectangles,
    "linear": linear,
}


@frozen
class Outcome:
    """Errors as shares of the rows, and what it took."""

    largest: float
    high: float
    mean: float
    note: str = ""

    @classmethod
    def of(cls, errors, note=""):
        high = float(np.quantile(errors, 0.95))
        return cls(float(errors.max()), high, float(errors.mean()), note)

    def show(self, name):
        figures = f"{self.largest:8.4f} {self.high:8.4f} {self.mean:8.5f}"
        print(f"  {name:24} {figures}   {self.note}", flush=True)


def pmw(stream, asked, epsilon, seed=7):
    """The errors of a channel, in a session of just the budget that the channel may spend."""
    session = Session(
        stream.table.data(),
        Budget(epsilon, DELTA),
        composition=ZCDPComposition(),
        noise=seeded(seed),
    )
    start = time.perf_counter()
    with session.open(asked) as channel:
        values = np.concatenate([channel.answer(part) for part in stream.parts])
    seconds = time.perf_counter() - start
    # A round is a run of the watch and a number; the marginals to start from are one charge more.
    opening = asked.schedule(session.facts).start is not None
    updates = (session.spent.charges - opening) // 2
    share = session.spent.rho / float(zcdp_start(Fraction(epsilon), Fraction(DELTA)))
    note = f"{updates} updates, {share:.0%} of the budget, {seconds:.1f} s"
    return Outcome.of(np.abs(values - stream.truths), note)


def rivals(stream, epsilon, *, jointly):
    """Independent noise for the same budget; the lines at the top of this file say how much."""
    budget, queries = (Fraction(epsilon), Fraction(DELTA)), stream.form.rows
    mu = math.sqrt(gdp_start(*budget))
    pure = max(budget[0] / queries, split_pure(zcdp_start(*budget) / queries))
    scales = {"Laplace stream": 1 / float(pure), "Gaussian stream": math.sqrt(queries) / mu}
    if jointly:
        move = sensitivity(stream.form, stream.table.data().facts)
        scales["Laplace, jointly"] = float(move.l1 / budget[0])
        scales["Gaussian, jointly"] = math.sqrt(move.l2_squared) / mu
    return {name: _independent(stream, name, scale) for name, scale in scales.items()}


def _independent(stream, name, scale):
    rng = np.random.default_rng(11)
    draw = rng.normal if name.startswith("Gaussian") else rng.laplace
    noise = draw(scale=scale / stream.table.rows, size=stream.form.rows)
    values = np.clip(stream.truths + noise, 0.0, 1.0)
    return Outcome.of(np.abs(values - stream.truths), f"scale {scale:,.1f} rows")


def updates_for(rows, epsilon):
    """Updates that suit such a table: 100 at 50,000 rows and ε = 1, about (n ε)^(2/3)."""
    return min(400, round(math.pow(rows * float(epsilon), 2 / 3) / 13))


def mechanism(stream, epsilon, start):
    updates = updates_for(stream.table.rows, epsilon)
    return OnlinePMW(epsilon, DELTA, updates=updates, queries=stream.form.rows, start=start)


def both(stream, epsilon):
    """From the product of noisy one-way marginals, and from the uniform distribution."""
    return {
        "OnlinePMW, product": pmw(stream, mechanism(stream, epsilon, "product"), epsilon),
        "OnlinePMW, uniform": pmw(stream, mechanism(stream, epsilon, "uniform"), epsilon),
    }


def starts(table, queries):
    """A product of marginals and fits of pairs to start from, beside independent noise."""
    stream = Stream.drawn("rectangles", table, rectangles, queries, seed=1)
    cases = [(Product(), updates_for(table.rows, "1"))]
    for share, updates in (("0.5", 30), ("0.75", 30), ("0.75", 10), ("0.9", 10)):
        cases.append((Pairs(share), updates))
    cases.append((Pairs("0.75", width=3), 10))
    for epsilon in ("1", "0.1"):
        title(f"{table.name}, n = {table.rows:,}: {queries:,} rectangles, epsilon = {epsilon}")
        print(f"  {'':24}{'maximum':>8} {'95 %':>8} {'mean':>8}")
        rivals(stream, epsilon, jointly=False)["Gaussian stream"].show("Gaussian stream")
        for start, updates in cases:
            given = {"updates": updates, "queries": queries, "start": start}
            name = type(start).__name__.lower() + f" {float(start.share):g}"
            if isinstance(start, Pairs) and start.width > 2:
                name += f", width {start.width}"
            pmw(stream, OnlinePMW(epsilon, DELTA, **given), epsilon).show(name)


def compare(table, kinds, sizes, epsilons):
    """All mechanisms side by side."""
    for kind in kinds:
        whole = Stream.drawn(kind, table, KINDS[kind], max(sizes), seed=1)
        for queries in sizes:
            stream = whole if queries == max(sizes) else whole.first(queries)
            for epsilon in epsilons:
                title(f"{table.name}, n = {table.rows:,}: {queries:,} {kind}, epsilon = {epsilon}")
                print(f"  {'':24}{'maximum':>8} {'95 %':>8} {'mean':>8}")
                found = rivals(stream, epsilon, jointly=True) | both(stream, epsilon)
                for name, outcome in found.items():
                    outcome.show(name)


def regime(table, cases):
    """From how many rectangles on the stream of Gaussian numbers is the worse of the two."""
    title("Where OnlinePMW wins: random rectangles, errors maximum / mean")
    most = max(max(sizes) for _, _, sizes in cases)
    whole = Stream.drawn("rectangles", table, rectangles, most, seed=2)
    curves = {}
    for epsilon, factor, sizes in cases:
        scaled = table.times(factor)
        strength = scaled.rows * float(epsilon)
        print(f"  n = {scaled.rows:,}, epsilon = {epsilon}, n eps = {strength:,.0f}")
        curve = []
        for queries in sizes:
            stream = whole.first(queries).on(scaled)
            found = rivals(stream, epsilon, jointly=True)
            if factor == 1:
                found |= both(stream, epsilon)
            else:
                asked = mechanism(stream, epsilon, "product")
                found["OnlinePMW, product"] = pmw(stream, asked, epsilon)
            curve.append((queries, found))
            _line(queries, found)
        for measure in ("largest", "mean"):
            won = [
                queries
                for queries, found in curve
                if getattr(found["OnlinePMW, product"], measure)
                < getattr(found["Gaussian stream"], measure)
            ]
            first = f"from k = {won[0]:,} on, {won[0] / strength:.2f} n eps" if won else "nowhere"
            print(f"    the {measure} error is smaller {first}")
        curves[f"n = {scaled.rows:,}, epsilon = {epsilon}"] = curve
    return curves


def _line(queries, found):
    shown = "  ".join(
        f"{name} {found[name].largest:.4f} / {found[name].mean:.5f}"
        for name in ("Gaussian stream", "Gaussian, jointly", "OnlinePMW, product")
        if name in found
    )
    print(f"    k = {queries:>7,}  {shown}  ({found['OnlinePMW, product'].note})", flush=True)


def textbook(table, queries):
    """What the constants of Dwork and Roth (2014) promise, and what they do."""
    title(f"The textbook setting: {queries:,} rectangles, (1, {DELTA}), beta = 0.05")
    whole = Stream.drawn("rectangles", table, rectangles, queries, seed=3)
    for rows in (table.rows, 10**7, 2 * 10**9):
        scaled = _scaled(table, rows)
        stream = Stream(whole.name, scaled, whole.form, whole.parts, scaled.truths(whole.form))
        facts = scaled.data().facts
        # The least alpha whose promise is kept; 0.99 if there is none.
        alphas = [1.05**-power for power in range(1, 120)]
        kept = [a for a in alphas if _textbook(a, queries).schedule(facts).promise is not None]
        alpha = min(kept, default=0.99)
        made = _textbook(alpha, queries).schedule(facts)
        found = pmw(stream, _textbook(alpha, queries), "1")
        promise = f"promises {3 * alpha:.3f}" if kept else "promises nothing"
        print(f"  n = {rows:,}: alpha = {alpha:.4f}, {promise}; threshold", end=" ")
        print(f"{made.threshold / rows:.4f}, {made.updates:,} updates at most")
        found.show("textbook, uniform")
        sharp = _sharp(facts, queries)
        if sharp is None:
            print("  sharpened: no promise below 1")
            continue
        made = sharp.schedule(facts)
        print(
            f"  sharpened: promises {sharp.alpha:.4f}; threshold {made.threshold / rows:.4f},",
            end=" ",
        )
        print(f"{made.updates:,} updates at most")
        pmw(stream, sharp, "1").show("sharpened, uniform")


def _textbook(alpha, queries):
    return OnlinePMW.textbook(1, DELTA, alpha=alpha, beta=0.05, queries=queries)


def _sharp(facts, queries):
    best = schedule.best_promise(
        Fraction(1), Fraction(DELTA), 0.05, queries, facts,
        math.log(facts.domain.size + facts.outside), prepaid=False,
    )  # fmt: skip
    if best is None or best.promise is None:
        return None
    return OnlinePMW(1, DELTA, alpha=best.promise.alpha, beta=0.05, queries=queries, replay=False)


def _scaled(table, rows):
    """A table of so many rows with nearly the same shares."""
    if rows == table.rows:
        return table
    counts = np.floor(table.counts * (rows / table.rows)).astype(np.int64)
    counts.reshape(-1)[int(counts.argmax())] += rows - int(counts.sum())
    return Table(f"{table.name}, scaled", table.domain, counts)


def tune(table, queries, seeds):
    """The public constants of the practical schedule, one at a time, as means over seeds."""
    stream = Stream.drawn("rectangles", table, rectangles, queries, seed=4)
    for epsilon in ("0.1", "1"):
        title(f"Constants of the schedule: {queries:,} rectangles, epsilon = {epsilon}")
        middle = updates_for(table.rows, epsilon)
        for updates in (middle // 4, middle // 2, middle, 2 * middle):
            for share in (0.25, 0.35, 0.5, 0.7, 1.0, 1.4):
                with _constants(_HEIGHT_SHARE=share):
                    _tuned(stream, updates, epsilon, seeds, f"{updates} updates, height {share}")
        for parts in (30, 10, 5, 3):
            start = Product(Fraction(1, parts))
            _tuned(stream, middle, epsilon, seeds, f"share of the start 1/{parts}", start)
        for parts in (30, 10, 5, 3):
            with _constants(_NUMBER_SHARE=Fraction(1, parts)):
                _tuned(stream, middle, epsilon, seeds, f"share of the numbers 1/{parts}")


def _tuned(stream, updates, epsilon, seeds, name, start=None):
    given = {"updates": updates, "queries": stream.form.rows, "start": start}
    asked = OnlinePMW(epsilon, DELTA, **given)
    found = [pmw(stream, asked, epsilon, seed) for seed in seeds]
    largest, high, mean = (
        statistics.mean(getattr(outcome, measure) for outcome in found)
        for measure in ("largest", "high", "mean")
    )
    Outcome(largest, high, mean, found[0].note).show(name)


@contextmanager
def _constants(**values):
    kept = {name: getattr(schedule, name) for name in values}
    for name, value in values.items():
        setattr(schedule, name, value)
    try:
        yield
    finally:
        for name, value in kept.items():
            setattr(schedule, name, value)


STYLES = {
    "Laplace stream": ("#c0504d", ":"),
    "Gaussian stream": ("#c0504d", "-"),
    "Gaussian, jointly": ("#e6a23c", "--"),
    "OnlinePMW, uniform": ("#4f81bd", "--"),
    "OnlinePMW, product": ("#1f4e79", "-"),
}


def main():
    given = arguments(
        __doc__, quick=False, plot=Path, dpbench=Path, tune=False, pairs=False, adult=Path,
    )  # fmt: skip
    table = adult() if given.adult is None else Table("Adult", *adult_coded(given.adult))
    start = time.perf_counter()
    if given.tune:
        tune(table, 3_000 if given.quick else 10_000, (1,) if given.quick else (1, 2, 3))
        return
    if given.pairs:
        starts(table, 10_000 if given.quick else 100_000)
        return
    sizes = (1_000,) if given.quick else (1_000, 100_000)
    compare(table, list(KINDS), sizes, ("1",) if given.quick else ("0.1", "1"))
    if given.dpbench is not None:
        for name, counts in histograms(given.dpbench):
            histogram = Table(name, integers({"cell": len(counts)}), counts)
            compare(histogram, ["thresholds", "rectangles"], sizes, ("0.1", "1"))
    steps = [round(10 ** (2 + place / 2)) for place in range(3 if given.quick else 7)]
    curves = regime(table, [("0.1", 1, steps), ("1", 1, steps)])
    if given.plot is not None:
        panels = {
            name: {rival: [(k, found[rival]) for k, found in curve] for rival in STYLES}
            for name, curve in curves.items()
        }
        draw(panels, "random rectangles asked, k", given.plot, STYLES)
    if not given.quick:
        regime(table, [("1", 10, (10_000, 100_000))])
    textbook(table, 200 if given.quick else 2_000)
    print(f"\n{time.perf_counter() - start:.0f} s in all")


if __name__ == "__main__":
    main()
