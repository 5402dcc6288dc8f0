"""MWEM on the three contingency tables that Hardt, Ligett and McSherry (2012) tried it on.

python tests/bench/bench_hlm.py FOLDER [--epsilon 0.1 0.2 0.5 1] [--seeds 50]

FOLDER holds czech.txt, mildew.txt and rochdale.txt: matrices of counts over six, six and eight
binary attributes. The workload is all three-way marginals, in pure DP, under add-remove and
replace-one neighbours. Printed: the relative entropy of the table to the fitted distribution
(natural logarithm), and the largest and the mean error of a marginal's cell as a share of the rows,
means over seeds; beside them a noisy histogram and, with no privacy, the distribution of largest
entropy with exactly these marginals, which no method that sees the marginals alone can be expected
to pass.
"""

import itertools
import time

import numpy as np
from measuring import arguments

from dpsdk import Boolean, Budget, Domain, Neighbors, PrivateData, Session
from dpsdk.mechanisms import MWEM, NoisyHistogram
from dpsdk.queries import marginals as every_marginal
from dpsdk.testing import seeded
from dpsdk.typing import Floats

TABLES = ("mildew", "rochdale", "czech")
WAYS = 3


def read(path):
    cells = [line.split() for line in path.read_text("utf-8").splitlines() if line.strip()]
    counts = np.array(cells, dtype=np.float64).astype(np.int64)
    return counts.reshape((2,) * (counts.size.bit_length() - 1))


def entropy(true, made):
    """Of the table relative to what was made of it."""
    there = true > 0
    return float((true[there] * np.log(true[there] / made[there])).sum())


def marginals(table):
    kept = itertools.combinations(range(table.ndim), WAYS)
    every = set(range(table.ndim))
    return np.concatenate([table.sum(axis=tuple(every - set(axes))).ravel() for axes in kept])


def without_privacy(true, sweeps=400):
    """The largest entropy under the true marginals, by proportional fitting."""
    made = np.full(true.shape, 1 / true.size)
    every = set(range(true.ndim))
    for _ in range(sweeps):
        for kept in itertools.combinations(range(true.ndim), WAYS):
            gone = tuple(every - set(kept))
            wanted, had = true.sum(axis=gone, keepdims=True), made.sum(axis=gone, keepdims=True)
            made = made * np.divide(wanted, had, out=np.zeros_like(had), where=had > 0)
    return made


def spread(distribution):
    table = np.maximum(distribution.table(distribution.domain.names), 1e-300)
    return table / table.sum()


def main():
    given = arguments(__doc__, "folder", epsilon=["0.1", "0.2", "0.5", "1"], seeds=50)
    for table, relation in itertools.product(TABLES, Neighbors):
        counts = read(given.folder / f"{table}.txt")
        rows = int(counts.sum())
        true = counts / rows
        domain = Domain(*(Boolean(f"x{place}") for place in range(counts.ndim)))
        data = PrivateData.from_counts(counts, domain, neighbors=relation)
        workload = every_marginal(domain, WAYS, normalized=False)
        print(f"{table}: {counts.size} cells, {rows} rows, {relation.value}")
        fitted = without_privacy(true)
        show("no privacy, exact marginals", [fitted], true, 0.0)
        show("uniform", [np.full(true.shape, 1 / true.size)], true, 0.0)
        for epsilon in given.epsilon:
            kinds = [MWEM(workload, epsilon=epsilon)]
            if relation is Neighbors.REPLACE_ONE:
                kinds.append(MWEM.textbook(workload, epsilon))
            kinds.append(NoisyHistogram(epsilon=epsilon))
            for mechanism in kinds:
                made, start = list[Floats](), time.process_time()
                for seed in range(given.seeds):
                    session = Session(data, Budget(epsilon), noise=seeded(seed))
                    with session.open(mechanism) as channel:
                        made.append(spread(channel.distribution))
                seconds = (time.process_time() - start) / given.seeds
                name = str(mechanism).partition("(")[0]
                show(f"epsilon = {epsilon}: {name}", made, true, seconds)


def show(name, made, true, seconds):
    entropies = [entropy(true, each) for each in made]
    errors = [np.abs(marginals(each) - marginals(true)) for each in made]
    print(
        f"  {name:32} relative entropy {np.mean(entropies):.4f}"
        f" ± {np.std(entropies):.4f}  max {np.mean([e.max() for e in errors]):.4f}"
        f"  mean {np.mean([e.mean() for e in errors]):.4f}  {seconds:.3f} CPU s",
        flush=True,
    )


if __name__ == "__main__":
    main()
