"""Errors of optimised strategies beside what is not optimised: expected, measured, and time.

python tests/bench/bench_matrix.py [--histogram FILE] [--runs 20] [--cells 4096]

All intervals of 256 cells; all thresholds of 4,096, or of a histogram such as one of dpbench-1d if
FILE is given; all two-way marginals of seven attributes of 120,960 cells; and projected marginals
of a small table. Root mean square errors are in rows.
"""

import platform
import time
from pathlib import Path

import numpy as np
from measuring import arguments, integers

from dpsdk import Budget, Neighbors, PrivateData, Session
from dpsdk.kernel import Terms
from dpsdk.mechanisms import (
    Gaussian,
    Laplace,
    Matrix,
    NoisyHistogram,
    Projection,
    SquareRoot,
    Tree,
)
from dpsdk.queries import Rectangles, Threshold, Workload, marginals

SEVEN = (9, 7, 16, 5, 6, 2, 2)
"""The sizes of the attributes, of the domain of 120,960 cells."""

TOTALS = ({"epsilon": "0.1"}, {"rho": "0.005"})


def truth_of(form, counts):
    names = form.domain.names
    values = []
    for block in form.blocks:
        others = tuple(axis for axis, name in enumerate(names) if name not in block.names)
        values.append(block.answer(counts.sum(axis=others).astype(np.float64)))
    return np.concatenate(values)


def expected(mechanism, form, terms):
    accuracy = mechanism.quote(form, terms).accuracy
    if hasattr(accuracy, "variances"):
        return float(np.sqrt(accuracy.variances.mean()))
    return float(accuracy.law.standard_deviation() * accuracy.step)


def compare(title, workload, counts, runs, one):
    domain = domain_of(counts)
    print(title)
    for neighbors in Neighbors:
        data = PrivateData.from_counts(
            counts, domain, neighbors=neighbors, max_rows=int(counts.sum())
        )
        asked = Session(data, Budget(10**7, "0.1"))
        form = workload.lower(domain)
        truth = truth_of(form, counts)
        for total in TOTALS:
            plain = Gaussian(**total) if "rho" in total else Laplace(**total)
            kinds = [Matrix(workload, **total), plain]
            kinds.append(NoisyHistogram(**total))
            if one is not None:
                kinds.append(Tree(one, **total))
                if "rho" in total and domain.size <= 2**11:
                    kinds.append(SquareRoot(one, **total))
            for kind in kinds:
                squares, start = [], time.perf_counter()
                predicted = expected(kind, form, Terms(asked.facts))
                designed = time.perf_counter() - start
                for _ in range(runs if kind is kinds[0] else 0):
                    with asked.open(kind) as channel:
                        found = channel.release(workload)._measurement.values
                    squares.append(float(np.mean((found - truth) ** 2)))
                measured = f"{np.sqrt(np.mean(squares)):.4g}" if squares else "-"
                name = f"{type(kind).__name__} {total} {neighbors.value}"
                print(f"  {name:52} {predicted:10.4g} {measured:>10} {designed:8.2f} s")


def domain_of(counts):
    return integers({f"x{place}": size for place, size in enumerate(counts.shape)})


def main():
    given = arguments(__doc__, histogram=Path, runs=20, cells=4096)
    print(f"Python {platform.python_version()}, numpy {np.__version__}, {given.runs} runs")
    print("root mean square error: expected, measured; seconds to design and quote")
    rng = np.random.default_rng(0)
    counts = rng.poisson(100, 256)
    first, last = np.triu_indices(256)
    intervals = Rectangles("x0", first, last, normalized=False)
    compare("all intervals of 256 cells", intervals, counts, given.runs, "x0")
    counts = rng.poisson(10, given.cells)
    if given.histogram is not None:
        counts = np.load(given.histogram, allow_pickle=False).astype(np.int64)
    thresholds = Workload(Threshold("x0", t, normalized=False) for t in range(len(counts)))
    compare(f"all thresholds of {len(counts)} cells", thresholds, counts, given.runs, "x0")
    counts = rng.poisson(0.4, SEVEN)
    pairs = marginals(domain_of(counts), 2, normalized=False)
    compare("all two-way marginals of seven attributes", pairs, counts, given.runs, None)
    counts = rng.poisson(0.3, (10, 8, 12))
    pairs = marginals(domain_of(counts), 2)
    data = PrivateData.from_counts(counts, domain_of(counts))
    asked = Session(data, Budget(10**7, "0.1"))
    truth = truth_of(pairs.lower(data.domain), counts)
    print(f"all two-way marginals of {counts.size} cells, {counts.sum()} rows, rho 0.005")
    for kind in (Gaussian(rho="0.005"), Projection(rho="0.005")):
        squares = [
            float(np.mean((asked.release(pairs, using=kind)._measurement.values - truth) ** 2))
            for _ in range(given.runs)
        ]
        print(f"  {kind!s:52} {'-':>10} {np.sqrt(np.mean(squares)):10.4g}")


if __name__ == "__main__":
    main()
