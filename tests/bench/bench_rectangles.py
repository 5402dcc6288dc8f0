"""A batch of rectangles as two arrays, beside the same as conjunctions.

python tests/bench/bench_rectangles.py [--adult FILE] [--rectangles K ...] [--stream] [--quick]

Random rectangles: each of a table's attributes takes part with probability 1/2, one at least, and
goes from one random cell to another. Tables: the seven coded columns of FILE (120,960 cells), as in
bench_mwem.py, or without it those of docs/examples/adult.csv.gz that bench_pmw.py has; and eight
attributes of ten cells, which are too many for a table of sums, so that records are gone through.
δ is 1e-9. Noise is seeded, so that errors repeat; times do not. All times are of the processor.
"""

import gc
import time
from pathlib import Path
from typing import TypeVar

import numpy as np
from attrs import frozen
from bench_pmw import adult, adult_coded
from measuring import arguments, integers, peak

from dpsdk import Budget, Domain, PrivateData, Session
from dpsdk.accounting import ZCDPComposition
from dpsdk.mechanisms import Gaussian, Laplace, OnlinePMW
from dpsdk.queries import Conjunction, Rectangles, Workload
from dpsdk.testing import seeded
from dpsdk.typing import Ints

DELTA = "1e-9"
T = TypeVar("T")


@frozen(eq=False)
class Batch:
    """The codes of random rectangles."""

    domain: Domain
    lower: Ints
    upper: Ints

    @classmethod
    def drawn(cls, domain, count):
        rng, sizes = np.random.default_rng(1), np.array(domain.shape)
        ends = rng.integers(0, sizes, (2, count, len(sizes)))
        chosen = rng.random((count, len(sizes))) < 0.5
        chosen[~chosen.any(axis=1), 0] = True
        low, high = ends.min(axis=0), ends.max(axis=0)
        return cls(domain, np.where(chosen, low, 0), np.where(chosen, high, sizes - 1))

    def arrays(self, kind="int64"):
        return Rectangles(self.domain.names, self.lower.astype(kind), self.upper.astype(kind))

    def conjunctions(self):
        """One query each, on the attributes that take part."""
        first = [attribute.low for attribute in self.domain.attributes]  # type: ignore[attr-defined]  # integers all
        sizes, names = self.domain.shape, self.domain.names
        made = []
        for low, high in zip(self.lower.tolist(), self.upper.tolist(), strict=True):
            made.append(
                Conjunction(
                    {
                        name: range(start + a, start + b + 1)
                        for name, start, size, a, b in zip(
                            names, first, sizes, low, high, strict=True
                        )
                        if (a, b) != (0, size - 1)
                    }
                    or {names[0]: range(first[0], first[0] + sizes[0])}
                )
            )
        return Workload(made)


def timed(work):
    gc.collect()
    start = time.process_time()
    result = work()
    return time.process_time() - start, result


def line(name, seconds, note=""):
    shown = " ".join(f"{second:8.3f}" for second in seconds)
    print(f"  {name:44}{shown}   {note}  ({peak():.0f} MB at the most so far)", flush=True)


def plain(domain):
    """The same cells as plain integers, so that conjunctions can say ranges."""
    return integers(dict(zip(domain.names, domain.shape, strict=True)))


def seven(path):
    if path is None:
        table = adult()
        return PrivateData.from_counts(table.counts, plain(table.domain))
    domain, counts = adult_coded(path)
    return PrivateData.from_counts(counts, domain)


def eight():
    domain = integers({f"a{place}": 10 for place in range(8)})
    codes = np.random.default_rng(2).binomial(9, 0.4, (8, 48_842))
    return PrivateData.from_columns(
        {name: code.tolist() for name, code in zip(domain.names, codes, strict=True)}, domain
    )


def batches(data, counts, most_objects):
    print(f"\n{data.domain.size:,} cells: seconds to build, answer, and answer again")
    for count in counts:
        batch = Batch.drawn(data.domain, count)
        for epsilon in ("1", "0.1"):
            for mechanism in (Laplace(epsilon), Gaussian(epsilon=epsilon, delta=DELTA)):
                one_batch(data, batch, mechanism, objects=count <= most_objects)


def one_batch(data, batch, mechanism, *, objects):
    count = len(batch.lower)
    for kind in ("int64", "uint8"):
        session = Session(data, Budget(10**6, "1e-3"), noise=seeded(1))
        built, query = timed(lambda kind=kind: batch.arrays(kind))
        first, _ = timed(lambda s=session, q=query: s.answer(q, using=mechanism))
        again, values = timed(lambda s=session, q=query: s.answer(q, using=mechanism))
        off = session.quote(query, using=mechanism).error()
        line(f"{count:,} as {kind}, {mechanism}", (built, first, again), f"error {off:.4f}")
    if objects:
        session = Session(data, Budget(10**6, "1e-3"), noise=seeded(1))
        built, many = timed(batch.conjunctions)
        first, _ = timed(lambda: session.answer(many, using=mechanism))
        again, _ = timed(lambda: session.answer(many, using=mechanism))
        line(f"{count:,} as conjunctions, {mechanism}", (built, first, again))
    del values


def stream(data, count):
    """OnlinePMW in a session of just its budget."""
    print(f"\n{data.domain.size:,} cells: {count:,} through OnlinePMW, seconds to build and answer")
    batch = Batch.drawn(data.domain, count)
    exact = Session(data, Budget(10**12), noise=seeded(1))
    truth = exact.answer(batch.arrays(), using=Laplace(10**11))
    for epsilon, updates in (("1", 100), ("0.1", 20)):
        asked = OnlinePMW(epsilon, DELTA, updates=updates, queries=count)
        for name, build in (("arrays", batch.arrays), ("conjunctions", batch.conjunctions)):
            budget = Budget(epsilon, DELTA)
            session = Session(data, budget, composition=ZCDPComposition(), noise=seeded(7))
            channel = session.open(asked)
            built, query = timed(build)
            taken, found = timed(lambda c=channel, q=query: c.answer(q))
            again, _ = timed(lambda c=channel, q=query: c.answer(q))
            values = np.asarray(getattr(found, "values", found))
            errors = np.abs(values - truth)
            note = f"error {errors.max():.4f} at the most, {errors.mean():.5f} in the mean"
            line(f"{name}, epsilon = {epsilon}", (built, taken, again), note)


def main():
    given = arguments(
        __doc__, adult=Path, rectangles=[1_000, 10_000, 100_000], objects=100_000, stream=False,
        quick=False,
    )  # fmt: skip
    counts = [1_000] if given.quick else given.rectangles
    wide = seven(given.adult)
    batches(wide, counts, given.objects)
    batches(eight(), counts, min(given.objects, 1_000))
    if given.stream or given.quick:
        stream(wide, max(counts))


if __name__ == "__main__":
    main()
