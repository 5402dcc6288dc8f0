"""Many wide models of one table: each by its share of a budget, and all from one opening of tables.

python tests/bench/bench_wide_models.py DATA [--only TABLE ...] [--hot] [--squared]
    [--models 1 2 5 20 100] [--epsilon 0.1 1 8] [--seeds 2] [--each 6]

DATA is a folder of public data as public_tables.py reads it; tables are those of bench_heldout.py,
and `adult-raw`, whose six numbers are in no groups, and are numbers where `--hot` is not given.
The first model is of the table's own label by all else. Others are of a random attribute whose
values were split in two, in the middle or, of factors, at random, by all others; on Adult by 9 to
13. `--hot` makes all columns one-hot, `--squared` takes squared losses. δ is 1e-6, neighbours
exchange one row, whose number is public, and costs add up as ρ. Printed are mean excesses over the
first `--each` models and the seeds: of the constant model, which is not private, of `PairTables` at
all of ρ, however many models share it, and of `HeavyBall` at a part of ρ, for so many models; and
from how many on the default of `PrivateMinimizer` takes the tables.
"""

import math
import statistics
import time
from fractions import Fraction
from pathlib import Path

import numpy as np
from attrs import frozen
from bench_heldout import EDGES, Table, losses, newton, tables
from bench_many_models import AtRho
from measuring import arguments
from public_tables import Data

from dpsdk import Budget, Domain, Integer, PrivateData, Session
from dpsdk.accounting import ZCDPComposition, zcdp_start
from dpsdk.forms import ConvexForm, ConvexForms, Coordinates
from dpsdk.kernel import Terms
from dpsdk.losses import LogisticLoss, SquaredLoss
from dpsdk.mechanisms import HeavyBall, PairTables
from dpsdk.mechanisms.convex.pair_tables import suits_tables
from dpsdk.queries import Ball, Query, Workload
from dpsdk.testing import seeded
from dpsdk.typing import Bools, Floats

DELTA = Fraction(1, 10**6)
RADIUS = 60.0


@frozen(eq=False)
class Asked(Query):
    """A model of one attribute, of which some values are to be told from the others."""

    form: ConvexForm
    vectors: Floats
    upper: Bools

    def lower(self, domain, /):
        return self.form

    def lift(self, raw, facts, /):
        return raw[:-1]

    def loss(self, theta):
        margins = self.vectors @ theta
        if isinstance(self.form.loss, SquaredLoss):
            return float(np.square(margins - self.upper * 2 + 1).mean()) / 2
        return float(losses(margins, self.upper).mean())

    def best(self):
        if isinstance(self.form.loss, SquaredLoss):
            return np.linalg.lstsq(self.vectors, self.upper * 2.0 - 1, rcond=None)[0]
        return newton(self.vectors, self.upper)

    def constant(self):
        share = float(self.upper.mean())
        if isinstance(self.form.loss, SquaredLoss):
            return (1 - (2 * share - 1) ** 2) / 2
        return -share * math.log(share) - (1 - share) * math.log(1 - share)


@frozen(eq=False)
class World:
    """A table, whose columns are numbers or one-hot, and models of it."""

    name: str
    codes: np.ndarray
    sizes: tuple[int, ...]
    hot: frozenset[int]
    loss: object

    @property
    def domain(self):
        return Domain(*[Integer(f"x{p}", 0, size - 1) for p, size in enumerate(self.sizes)])

    def session(self, epsilon, seed):
        columns = {f"x{place}": codes for place, codes in enumerate(self.codes.T)}
        data = PrivateData.from_columns(columns, self.domain)
        budget = Budget(Fraction(str(epsilon)), DELTA)
        return Session(data, budget, composition=ZCDPComposition(), noise=seeded(seed))

    def numbers(self, place):
        size = self.sizes[place]
        return np.eye(size) if place in self.hot else np.linspace(-1, 1, size)[:, None]

    def asked(self, number):
        rng, last = np.random.default_rng(700 + number), len(self.sizes) - 1
        label = int(rng.integers(last + 1)) if number else last
        others = [place for place in range(last + 1) if place != label]
        if number and self.name == "adult":
            others = sorted(rng.choice(others, int(rng.integers(9, 14)), replace=False).tolist())
        column, upper = self.codes[:, label], np.arange(self.sizes[label]) > 0
        while number:
            cut = max(np.quantile(column, rng.uniform(0.2, 0.8)), 1)
            upper = np.arange(self.sizes[label]) >= cut
            if label in self.hot:
                upper = rng.random(self.sizes[label]) < 0.5
            if 0.05 < upper[column].mean() < 0.95:
                break
            if self.sizes[label] == 2:
                return self.asked(number + 10_000)
        parts = [self.numbers(place) for place in others]
        scale = 1 / math.sqrt(1 + sum(np.square(part).sum(axis=1).max() for part in parts))
        pairs = list(zip(others, parts, strict=True))
        coordinates = [Coordinates((f"x{p}",), part.T * scale) for p, part in pairs]
        coordinates.append(Coordinates((), [scale]))
        targets = np.where(upper, 1.0, -1.0)
        form = ConvexForm(self.domain, coordinates, f"x{label}", targets, self.loss, Ball(RADIUS))
        rows = [part[self.codes[:, place]] for place, part in pairs]
        vectors = np.hstack([*rows, np.ones((len(self.codes), 1))]) * scale
        return Asked(form, vectors, upper[column])


def raw(data):
    """Adult as it is, in the form of bench_heldout.py."""
    adult = data.adult()
    sizes, names = adult.domain.shape, adult.domain.names
    numbers = {*EDGES, "sex", names[-1]}
    hot = tuple([place for place, name in enumerate(names) if name not in numbers])
    codes = np.repeat(adult.records.codes, adult.records.multiplicities, axis=0)
    return Table("adult-raw", codes, sizes, hot)


def from_how_many(world, models, epsilon):
    """The number of models from which on tables are the default."""
    session = world.session(epsilon, 1)
    terms, forms = Terms(session._context.facts, ZCDPComposition()), [one.form for one in models]
    for count in range(1, 201):
        several = ConvexForms(world.domain, (forms * count)[:count])
        if suits_tables(several, terms, session.budget):
            return str(count)
    return "never"


def measured(world, models, least, epsilon, given):
    rho = Fraction(math.floor(zcdp_start(Fraction(str(epsilon)), DELTA) * 10**12), 10**12)
    seeds = range(1, given.seeds + 1)

    def excess(answers):
        pairs = zip(models, answers, least, strict=True)
        return [one.loss(theta) - low for one, theta, low in pairs]

    found, start = [], time.process_time()
    for seed in seeds:
        using = AtRho(PairTables(), rho)
        found += excess(world.session(epsilon, seed).answer(Workload(models), using=using))
    spent = (time.process_time() - start) / len(found)
    line = f"{epsilon:>4g}  tables {statistics.fmean(found):.1e} ({spent:.1f} s each)  apart"
    for count in given.models:
        using, own = AtRho(HeavyBall(), Fraction(math.floor(rho / count * 10**15), 10**15)), []
        for seed in seeds:
            session = world.session
            own += excess([session(epsilon, seed).answer(one, using=using) for one in models])
        line += f"  {count}: {statistics.fmean(own):.1e}"
    print(f"{line}  default tables from {from_how_many(world, models, epsilon)}", flush=True)


def main():
    given = arguments(
        __doc__, "data", only=[], hot=False, squared=False, models=[1, 2, 5, 20, 100],
        epsilon=[0.1, 1.0, 8.0], seeds=2, each=6,
    )  # fmt: skip
    loss = SquaredLoss() if given.squared else LogisticLoss()
    data = Data(Path(given.data))
    for table in (*tables(data), raw(data)):
        if given.only and table.name not in given.only:
            continue
        hot = range(len(table.sizes)) if given.hot else table.hot
        world = World(table.name, table.codes, table.sizes, frozenset(hot), loss)
        models = [world.asked(number) for number in range(given.each)]
        least = [one.loss(one.best()) for one in models]
        constant = statistics.fmean(
            [one.constant() - low for one, low in zip(models, least, strict=True)]
        )
        size, width = world.codes.shape
        first = f"{table.name}: {size:,} rows, {width} attributes"
        print(f"{first}, {models[0].form.width} coefficients, constant {constant:.2g}", flush=True)
        for epsilon in given.epsilon:
            measured(world, models, least, epsilon, given)


if __name__ == "__main__":
    main()
