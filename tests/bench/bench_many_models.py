"""Many private models of one table: where to fit a distribution once, and where one model each.

python tests/bench/bench_many_models.py [--adult CSV] [--crossed] [--models 1 3 10 30 100 300 1000]
    [--epsilon 1] [--seeds 1] [--only METHOD ...] [--each 1000] [--copies 1]
    [--save JSON] [--plot SVG]
python tests/bench/bench_many_models.py --draw JSON ... --plot SVG

CSV holds coded columns, as in bench_mwem.py: Adult in nine grouped attributes, 96,000 cells;
without it, the table is the Adult that comes with the package, in eight, 19,200 cells. A query is
logistic, over a ball of radius 8: a random label of which a random part of the values counts as +1
and the others as -1, and 2 to 4 other attributes as factors, with `--crossed` the joint values of
up to three of them as well. Queries are the same for each method, a stream whose first ones are
asked where there are fewer. Excess is over the least loss of the ball on the table's own counts. δ
is 1e-9, neighbours exchange one row, the number of rows is public. `--copies` repeats every row.
Medians are over the seeds.

Methods spend the same (ε, δ):

- fit: all pairs once, by `OnlinePMW(start=Pairs())` with nearly all of its budget; any number of
  models from its distribution. So it is with `triples`, of three attributes each;
- mwem: the same by `MWEM` on the workload of all pairs;
- guard: `ConvexPMW` with 10 updates, from pairs for three quarters of its budget, from a product of
  noisy marginals, or from the uniform distribution, told how many models will come;
- offline: `OfflineConvexPMW` on the first models, which it knows beforehand;
- independent: one `Corrected()` each at ρ/k, of which `--each` are run at the most;
- constant: the best constant model, of the table itself.

SVG is a picture of mean and largest excess against the number of models; it needs matplotlib.
"""

import json
import math
import statistics
import time
from fractions import Fraction
from functools import partial
from pathlib import Path

import numpy as np
from attrs import frozen
from measuring import arguments, integers, pyplot, save
from model_cases import (
    EIGHT,
    EIGHT_SIZES,
    NINE,
    NINE_SIZES,
    Dropped,
    Table,
    adult_example,
    adult_nine,
)

from dpsdk import Budget, Domain, PrivateData, Session
from dpsdk.accounting import ZCDPComposition, zcdp_start
from dpsdk.forms import ConvexForm
from dpsdk.hypothesis import Pairs
from dpsdk.losses import Loss
from dpsdk.mechanisms import MWEM, ConvexPMW, Corrected, OfflineConvexPMW, OnlinePMW, Oracle
from dpsdk.mechanisms.base import OneShot
from dpsdk.queries import Ball, ConvexMinimization, Cross, OneHot, Workload, marginals
from dpsdk.testing import seeded
from dpsdk.typing import Floats, Ints

DELTA = Fraction(1, 10**9)
RADIUS = 8.0


@frozen
class CutLogistic(Loss):
    """log(1 + exp(-s z)), where s is 1 for some values of the label and -1 for the others."""

    upper: tuple[bool, ...]

    @property
    def predicts(self):
        return "margin"

    def _sign(self, y):
        # Labels are evenly spaced from -1 to 1.
        half = (len(self.upper) - 1) / 2
        signs = np.array([1.0 if upper else -1.0 for upper in self.upper])
        return signs[(np.asarray(y) * half + (half + 0.5)).astype(np.intp)]

    def value(self, z, y):
        z = -self._sign(y) * z
        return np.log1p(np.exp(-np.abs(z))) + np.maximum(z, 0.0)

    def derivative(self, z, y):
        return self.slopes(z, y)[0]

    def curvature(self, z, y):
        return self.slopes(z, y)[1]

    def slopes(self, z, y):
        sign = self._sign(y)
        share = 1.0 / (1.0 + np.exp(sign * z))
        return -sign * share, share * (1.0 - share)

    def smoothness(self, low, high, labels):
        del low, high, labels
        return 0.25


@frozen(eq=False)
class Asked:
    """One query of the stream, and its least loss on the table."""

    query: ConvexMinimization
    shares: Floats
    vectors: Floats
    signs: Floats
    least: float
    constant: float

    @classmethod
    def random(cls, rng, table, *, crossed=False):
        names, sizes = table.names, table.sizes
        label = int(rng.integers(len(names)))
        others = [place for place in range(len(names)) if place != label]
        chosen = sorted(rng.choice(others, int(rng.integers(2, 5)), replace=False).tolist())
        while True:
            upper = rng.random(sizes[label]) < 0.5
            if 0 < upper.sum() < len(upper):
                break
        query = ConvexMinimization(
            CutLogistic(tuple(upper.tolist())),
            features=[
                *[Dropped(names[place]) for place in chosen],
                *([Cross(*[OneHot(names[place]) for place in chosen[:3]])] if crossed else []),
            ],
            label=names[label],
            over=Ball(RADIUS),
        )
        places = [*chosen, label]
        cells = np.indices([sizes[place] for place in places]).reshape(len(places), -1)
        blocks = [
            np.eye(sizes[place])[code][:, 1:] for place, code in zip(chosen, cells, strict=False)
        ]
        if crossed:
            joint = tuple([sizes[place] for place in chosen[:3]])
            blocks.append(
                np.eye(math.prod(joint))[np.ravel_multi_index(cells[: len(joint)], joint)]
            )
        whole = np.hstack([*blocks, np.ones((cells.shape[1], 1))])
        vectors = whole / math.sqrt(len(chosen) + 1 + crossed)
        shares = table.table(tuple([names[place] for place in places])).ravel()
        domain = integers(dict(zip(names, sizes, strict=True)))
        theta, gap = query.lower(domain).minimise(table, tolerance=1e-9)
        asked = cls(query, shares, vectors, np.where(upper[cells[-1]], 1.0, -1.0), 0.0, 0.0)
        slopes = asked.gradient(theta)
        if not slopes @ theta + RADIUS * np.linalg.norm(slopes) <= gap + 1e-8:
            raise AssertionError("the least loss is not certified")
        least = asked.loss(theta)
        share = float(shares @ (asked.signs > 0))
        constant = -share * math.log(share) - (1 - share) * math.log(1 - share)
        return cls(query, shares, vectors, asked.signs, least, constant - least)

    def loss(self, theta):
        return float(self.shares @ np.logaddexp(0.0, -self.signs * (self.vectors @ theta)))

    def gradient(self, theta):
        slopes = -self.signs / (1.0 + np.exp(self.signs * (self.vectors @ theta)))
        return self.vectors.T @ (self.shares * slopes)

    def excess(self, theta):
        return self.loss(theta) - self.least


@frozen
class AtRho(OneShot[ConvexForm]):
    """An oracle for a ρ, such as one of many that make up a total."""

    oracle: Oracle
    rho: Fraction

    def quote(self, form, terms, /):
        return self.oracle.quote(form, terms, self.rho)

    def open(self, kernel, /):
        del kernel
        return _Answering(self)


@frozen(eq=False)
class _Answering:
    mechanism: AtRho

    def answer(self, form, kernel, /):
        return self.mechanism.oracle.minimise(form, kernel, self.mechanism.rho)


@frozen(eq=False)
class World:
    """The table and the stream."""

    codes: Ints
    domain: Domain
    stream: tuple[Asked, ...]

    def session(self, epsilon, seed):
        columns = {name: self.codes[:, place] for place, name in enumerate(self.domain.names)}
        data = PrivateData.from_columns(columns, self.domain)
        budget = Budget(Fraction(str(epsilon)), DELTA)
        return Session(data, budget, composition=ZCDPComposition(), noise=seeded(seed))


def by_channel(world, epsilon, models, seed, make):
    """Excesses of models, CPU seconds of the opening and of all models, and a word on it."""
    session = world.session(epsilon, seed)
    start = time.process_time()
    with session.open(make(world, session.budget.epsilon, models)) as channel:
        opened = time.process_time() - start
        start = time.process_time()
        releases = [channel.release(one.query) for one in world.stream[:models]]
        spent = time.process_time() - start
    tops = sum([release.source == "measured" for release in releases])
    made = [release.value.theta for release in releases]
    return _excesses(world, made), opened, spent, f"{tops} measured" if tops else ""


def pairs(width):
    return lambda world, epsilon, _: OnlinePMW(
        epsilon, DELTA, updates=1, start=Pairs("0.99", width=width)
    )


def mwem(world, epsilon, _):
    workload = marginals(world.domain, 2, normalized=False)
    return MWEM(workload, epsilon=epsilon, delta=DELTA)


def guard(start):
    return lambda world, epsilon, models: ConvexPMW(
        epsilon, DELTA, updates=10, queries=models, start=start
    )


def offline(world, epsilon, models):
    known = Workload([one.query for one in world.stream[:models]])
    return OfflineConvexPMW(known, epsilon=epsilon, delta=DELTA)


CHANNELS = {
    "fit": pairs(2), "triples": pairs(3), "mwem": mwem, "guard": guard("pairs"),
    "guard, product": guard("product"), "guard, uniform": guard("uniform"),
    "offline": offline,
}  # fmt: skip


def independent(world, epsilon, models, seed, each):
    session = world.session(epsilon, seed)
    rho = zcdp_start(session.budget.epsilon, DELTA) / models
    using = AtRho(Corrected(), Fraction(math.floor(rho * 10**15), 10**15))
    asked = world.stream[: min(models, each)]
    start = time.process_time()
    made = [session.answer(one.query, using=using).theta for one in asked]
    return _excesses(world, made), 0.0, time.process_time() - start, f"{len(asked)} of them"


def constant(world, epsilon, models, seed):
    del epsilon, seed
    return [one.constant for one in world.stream[:models]], 0.0, 0.0, "not private"


def _excesses(world, made):
    return [one.excess(theta) for one, theta in zip(world.stream, made, strict=False)]


def summed(method, world, epsilon, models, runs):
    each = [1e3 * spent / len(excesses) for excesses, _, spent, _ in runs]
    return {
        "method": method,
        "rows": len(world.codes),
        "epsilon": epsilon,
        "models": models,
        "mean": statistics.median([statistics.fmean(excesses) for excesses, *_ in runs]),
        "largest": statistics.median([max(excesses) for excesses, *_ in runs]),
        "fit_s": statistics.median([opened for _, opened, _, _ in runs]),
        "each_ms": statistics.median(each),
        "note": runs[0][-1],
    }


def told(line):
    return (
        f"{line['rows']:>9,} {line['epsilon']:>4g} {line['models']:>6,} {line['method']:<16}"
        f"mean {line['mean']:.2e}  largest {line['largest']:.2e}  fit {line['fit_s']:>6.2f} s"
        f"  each {line['each_ms']:>7.2f} ms  {line['note']}"
    )


def drawn(lines, path):
    plt = pyplot()
    methods = list(dict.fromkeys(one["method"] for one in lines))
    figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3.8), sharey=True)
    for axes, name in ((left, "mean"), (right, "largest")):
        for method in methods:
            of = [one for one in lines if one["method"] == method]
            numbers = [one[name] for one in of]
            axes.plot([one["models"] for one in of], numbers, marker="o", ms=3.5, label=method)
        axes.set(xscale="log", yscale="log", xlabel="models", title=f"{name} excess")
        axes.grid(visible=True, which="major", alpha=0.3)
    left.set_ylabel("average loss over the least")
    save(figure, path, left, columns=len(methods), room=0.07)


def main():
    given = arguments(
        __doc__, adult=Path, crossed=False, models=[1, 3, 10, 30, 100, 300, 1_000], epsilon=1.0,
        seeds=1, only=[], each=1_000, copies=1, save=Path, draw=[], plot=Path,
    )  # fmt: skip
    if given.draw:
        saved = [line for file in given.draw for line in json.loads(Path(file).read_text("utf-8"))]
        drawn([one for one in saved if not given.only or one["method"] in given.only], given.plot)
        return
    names, sizes, once = EIGHT, EIGHT_SIZES, adult_example
    if given.adult:
        names, sizes, once = NINE, NINE_SIZES, partial(adult_nine, given.adult)
    codes = np.repeat(once(), given.copies, axis=0)
    table = Table.of(names, sizes, codes)
    start = time.process_time()
    stream = [
        Asked.random(np.random.default_rng(5_000 + k), table, crossed=given.crossed)
        for k in range(max(given.models))
    ]
    print(f"least losses: {1e3 * (time.process_time() - start) / len(stream):.1f} ms each")
    world = World(codes, integers(dict(zip(names, sizes, strict=True))), tuple(stream))
    methods = {
        "constant": constant,
        **{name: partial(by_channel, make=make) for name, make in CHANNELS.items()},
        "independent": partial(independent, each=given.each),
    }
    lines = []
    for name, method in methods.items():
        if given.only and name not in given.only:
            continue
        if name in ("fit", "triples", "mwem"):
            # One fit serves any number of models: its figures are of the first ones.
            runs = [method(world, given.epsilon, max(given.models), s) for s in range(given.seeds)]
            every = {
                k: [(r[0][:k], r[1], r[2] * k / len(r[0]), r[3]) for r in runs]
                for k in given.models
            }
        else:
            every = {
                k: [method(world, given.epsilon, k, s) for s in range(given.seeds)]
                for k in given.models
            }
        for k, runs in every.items():
            lines.append(summed(name, world, given.epsilon, k, runs))
            print(told(lines[-1]), flush=True)
    if given.save:
        given.save.write_text(json.dumps(lines, indent=1) + "\n", "utf-8")
    if given.plot:
        drawn(lines, given.plot)


if __name__ == "__main__":
    main()
