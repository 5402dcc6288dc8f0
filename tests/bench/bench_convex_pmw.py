"""Many models: a fit of pairs alone beside guarded streams, and models that are known beforehand.

python tests/bench/bench_convex_pmw.py [--seeds 3] [--queries 60] [--epsilon 0.3 1]

The figures of many-models.md.
"""

import numpy as np
from measuring import arguments
from model_cases import Table

from dpsdk import Budget, Categorical, Domain, PrivateData, Session
from dpsdk.hypothesis import Pairs
from dpsdk.losses import LogisticLoss
from dpsdk.mechanisms import ConvexPMW, OfflineConvexPMW, OnlinePMW
from dpsdk.queries import Ball, ConvexMinimization, Cross, OneHot, Workload
from dpsdk.testing import seeded

SIZES = {"a": 6, "b": 2, "c": 5, "d": 3, "e": 4, "f": 2}
DOMAIN = Domain(*(Categorical(a, [f"{a}{i}" for i in range(k)]) for a, k in SIZES.items()))
DELTA = "1e-9"


def shares():
    """Six latent classes, so that attributes depend on each other in threes and more."""
    rng = np.random.default_rng(0)
    joint = np.zeros(tuple(SIZES.values()))
    for _ in range(6):
        one = np.ones(())
        for size in SIZES.values():
            one = np.multiply.outer(one, rng.dirichlet(np.full(size, 0.6)))
        joint += rng.random() * one
    return joint / joint.sum()


def queries(count, *, cross):
    rng = np.random.default_rng(1)
    for _ in range(count):
        label = ("b", "f")[rng.integers(2)]
        rest = [name for name in SIZES if name != label]
        rng.shuffle(rest)
        features = [OneHot(name) for name in rest[: rng.integers(2, 5)]]
        if cross:
            features.append(Cross(*rest[:3]))
        yield ConvexMinimization(LogisticLoss(), features=features, label=label, over=Ball(8))


def main():
    given = arguments(__doc__, seeds=3, queries=60, epsilon=["0.3", "1"])
    for rows in (5 * 10**4, 5 * 10**6):
        counts = np.random.default_rng(2).multinomial(rows, shares().reshape(-1))
        data = PrivateData.from_counts(counts, DOMAIN)
        table = Table(tuple(SIZES), tuple(SIZES.values()), counts.reshape(tuple(SIZES.values())))
        for cross in (False, True):
            asked = list(queries(given.queries, cross=cross))
            forms = [query.lower(DOMAIN) for query in asked]
            best = [form.value(table, form.minimise(table, tolerance=1e-9)[0]) for form in forms]
            for epsilon in given.epsilon:
                methods = {
                    "fit of pairs alone": OnlinePMW(
                        epsilon, DELTA, updates=1, start=Pairs("0.999")
                    ),
                    "guard, pairs": ConvexPMW(epsilon, DELTA, updates=10, queries=given.queries),
                    "guard, product": ConvexPMW(
                        epsilon, DELTA, updates=10, queries=given.queries, start="product"
                    ),
                    "guard, uniform": ConvexPMW(
                        epsilon, DELTA, updates=10, queries=given.queries, start="uniform"
                    ),
                    "offline": OfflineConvexPMW(Workload(asked), epsilon=epsilon, delta=DELTA),
                }
                for name, mechanism in methods.items():
                    found = []
                    tops = 0
                    for seed in range(given.seeds):
                        session = Session(data, Budget(epsilon, DELTA), noise=seeded(seed))
                        with session.open(mechanism) as channel:
                            for query, form, least in zip(asked, forms, best, strict=True):
                                release = channel.release(query)
                                tops += release.source == "measured"
                                found.append(form.value(table, release.value.theta) - least)
                    kind = "crossed" if cross else "one-hot"
                    print(
                        f"| {rows:,} | {kind} | {epsilon} | {name} | {np.mean(found):.1e} | "
                        f"{np.max(found):.1e} | {tops / given.seeds:g} |",
                        flush=True,
                    )


if __name__ == "__main__":
    main()
