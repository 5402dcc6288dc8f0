"""What `PrivateMinimizer` predicts of an excess beside the excess, on tables it was not made with.

python tests/bench/bench_predictions.py DATA [--only TABLE ...] [--losses CLASS ...]
    [--epsilon 0.1 1 8] [--seeds 5] [--pure] [--oracle default statistics given]

`statistics` is SufficientStatistics(), and `given` corrects what OnlinePMW fits to all pairs at the
same epsilon. DATA is a folder of public data as public_tables.py reads it. No table here had a part
in a constant of `Corrected`: four are public, eight are drawn from laws that are written below,
each hostile in a way of its own. Excess is that of bench_models.py. A line has the mean excess of
the seeds, the mean of what was predicted, their ratio, and how often nothing was predicted. At the
end: how many cases lay within which factors.
"""

import statistics
from collections import defaultdict
from fractions import Fraction
from itertools import product
from pathlib import Path

import numpy as np
from bench_models import DELTA, Problem, ours
from measuring import arguments
from model_cases import CLASSES, Case, Dropped, evenly, opened
from public_tables import Data

from dpsdk import Boolean, Budget, Integer
from dpsdk.hypothesis import Pairs
from dpsdk.losses import HuberLoss, QuantileLoss, SquaredLoss
from dpsdk.mechanisms import Corrected, OnlinePMW, SufficientStatistics
from dpsdk.queries import Scaled

NUMBERS = (SquaredLoss(), HuberLoss(0.3), QuantileLoss("0.5", 0.1))


def case(name, codes, sizes, radius, hot=()):
    """A case whose last column is the label; columns of `hot` are factors, others numbers."""
    names = tuple([f"x{place}" for place in range(len(sizes))])
    attributes = [Integer(n, 0, s - 1) for n, s in zip(names[:-1], sizes[:-1], strict=True)]
    two = sizes[-1] == 2
    label = Boolean(names[-1]) if two else Integer(names[-1], 0, sizes[-1] - 1)
    features = tuple(
        [Dropped(n) if place in hot else Scaled(n) for place, n in enumerate(names[:-1])]
    )
    table = np.stack(codes, axis=1).astype(np.int64)
    none = np.zeros(len(table), dtype=bool)
    losses = CLASSES if two else NUMBERS
    return Case(name, "", (*attributes, label), table, none, features, radius, losses)


def titanic(data):
    column = survivors(data)
    age = evenly(column["Age"], 0, 91, 8)
    kept = [column["Pclass"], column["Sex"], age, np.minimum(column["SibSp"], 3)]
    return case("titanic", [*kept, column["Survived"]], (3, 2, 8, 4, 2), 20.0, (0,))


def mammographic(data):
    column = columns(data.mammographic())
    kept = [column["shape"], column["margin"], column["density"], evenly(column["age"], 0, 79, 8)]
    return case("mammographic", [*kept, column["severity"]], (4, 5, 4, 8, 2), 20.0, (0, 1))


def pums(data):
    column = columns(data.pums())
    kept = [evenly(column["age"], 0, 100, 10), column["sex"], column["educ"]]
    ours = [*kept, column["latino"], column["married"]]
    return case("pums-married", ours, (10, 2, 16, 2, 2), 20.0)


def income(data):
    column = columns(data.pums())
    kept = [evenly(column["age"], 0, 100, 10), column["sex"], column["educ"], column["married"]]
    return case("pums-income", [*kept, column["income"] // 4], (10, 2, 16, 2, 25), 6.0)


def survivors(data):
    """The columns of titanic, for those of whom it is known whether they survived."""
    ship = columns(data.titanic())
    return {name: codes[ship["Survived"] < 2] for name, codes in ship.items()}


def columns(table):
    """The codes of all rows, by name."""
    codes = np.repeat(table.records.codes, table.records.multiplicities, axis=0)
    return dict(zip(table.domain.names, codes.T, strict=True))


def correlated(rng):
    """Numbers that hardly differ from their neighbours."""
    latent = rng.normal(size=(20_000, 1)) + 0.5 * rng.normal(size=(20_000, 5))
    label = rng.random(20_000) < 1 / (1 + np.exp(-(2 * latent[:, 0] - latent[:, 1])))
    codes = [evenly(one, -3, 3, 8) for one in latent.T]
    return case("correlated", [*codes, label], (8,) * 5 + (2,), 20.0)


def rare(rng):
    """Indicators that one row in a hundred to one in a thousand has."""
    shares = np.geomspace(0.001, 0.01, 8)
    there = rng.random((50_000, 8)) < shares
    label = rng.random(50_000) < 1 / (1 + np.exp(1 - there @ np.linspace(-3, 3, 8)))
    return case("rare", [*there.T, label], (2,) * 9, 40.0)


def separable(rng):
    """Two classes that a plane separates."""
    numbers = rng.integers(0, 8, size=(5_000, 4))
    return case("separable", [*numbers.T, numbers @ [2, 1, 1, -1] > 10], (8,) * 4 + (2,), 20.0)


def constant(rng):
    """Four of five columns never vary, and the last varies little."""
    codes = [np.full(10_000, 3)] * 4 + [rng.integers(0, 8, 10_000)]
    label = np.clip(codes[4] + rng.integers(-1, 2, 10_000), 0, 8)
    return case("constant", [*codes, label], (8,) * 5 + (9,), 6.0)


def tailed(rng):
    """Numbers of which most are in the first cell, and a label as skewed."""
    numbers = rng.pareto(1.2, size=(10_000, 3))
    label = evenly(numbers @ [0.5, 1.0, 0.2] + rng.pareto(1.5, 10_000), 0, 60, 20)
    return case("tailed", [*[evenly(one, 0, 30, 20) for one in numbers.T], label], (20,) * 4, 6.0)


def tiny(rng):
    """Sixty rows."""
    numbers = rng.integers(0, 4, size=(60, 3))
    label = rng.random(60) < numbers[:, 0] / 3
    return case("tiny", [*numbers.T, label], (4, 4, 4, 2), 20.0)


def unrelated(rng):
    """A label that has nothing to do with the features."""
    numbers = rng.integers(0, 5, size=(8_000, 4))
    return case("unrelated", [*numbers.T, rng.integers(0, 9, 8_000)], (5,) * 4 + (9,), 6.0)


def crossed(rng):
    """A label that no pair of attributes tells anything of, and three do."""
    bits = rng.integers(0, 2, size=(10_000, 4))
    label = rng.random(10_000) < np.where(bits[:, 0] ^ bits[:, 1], 0.8, 0.3)
    return case("crossed", [*bits.T, label], (2,) * 5, 20.0)


PUBLIC = (titanic, mammographic, pums, income)
DRAWN = (correlated, rare, separable, constant, tailed, tiny, unrelated, crossed)


def cases(data):
    for read in PUBLIC:
        yield read(data)
    for seed, draw in enumerate(DRAWN):
        yield draw(np.random.default_rng(seed))


def oracles(problem, epsilon, delta, name):
    """The oracle of a name, or None for that of `PrivateMinimizer` itself."""
    if name == "statistics":
        return SufficientStatistics()
    if name == "default":
        return None
    amount = Fraction(str(epsilon))
    session = opened(problem.case.attributes, problem.codes, Budget(amount, delta), 99)
    with session.open(OnlinePMW(amount, delta, updates=1, start=Pairs("0.99"))) as channel:
        return Corrected(channel.distribution, gradients=1)


def main():
    given = arguments(
        __doc__, "data", only=[], losses=[], epsilon=[0.1, 1.0, 8.0], seeds=5, pure=False,
        oracle=("default", "statistics", "given"),
    )  # fmt: skip
    delta, ratios = Fraction(0) if given.pure else DELTA, defaultdict(list)
    for one in cases(Data(Path(given.data))):
        if given.only and one.name not in given.only:
            continue
        for loss, name in product(one.losses, given.oracle):
            kind = type(loss).__name__
            if given.losses and kind not in given.losses:
                continue
            if name == "statistics" and not isinstance(loss, SquaredLoss):
                continue
            problem = Problem.of(one, loss, one.codes, one.codes[:0])
            for epsilon in given.epsilon:
                oracle = oracles(problem, epsilon, delta, name)
                runs = list(ours(problem, epsilon, delta, given.seeds, oracle))
                excess = statistics.mean([problem.excess(theta) for theta, _, _ in runs])
                constant = problem.excess(problem.constant)
                line = f"{one.name:<13}{kind:<13}{name:<11}{epsilon:>4g} constant {constant:.1e}"
                line += f" excess {excess:.1e}"
                told = [predicted for _, predicted, _ in runs if predicted == predicted]
                if told:
                    ratio = statistics.mean(told) / max(excess, 1e-12)
                    ratios[name].append(ratio)
                    line += f" predicted {statistics.mean(told):.1e} ratio {ratio:.2g}"
                print(f"{line} none {len(runs) - len(told)}", flush=True)
    for name, found in ratios.items():
        off = np.exp(np.abs(np.log(found)))
        within = ", ".join([f"{k} in {np.mean(off <= k):.0%}" for k in (3, 6, 10)])
        print(f"{name}: {len(found)} cases, from {min(found):.2g} to {max(found):.2g}; {within}")


if __name__ == "__main__":
    main()
