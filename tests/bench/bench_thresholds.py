"""All thresholds of one attribute of 4,096 cells: errors beside published figures, and time.

python tests/bench/bench_thresholds.py HISTOGRAMS [--runs 40]

HISTOGRAMS is a folder of arrays of counts, one a file, such as dpbench-1d: ADULT.npy and others.
Errors are the median over runs of the largest and of the root mean square error, as shares of the
rows. The known figures are for add-remove neighbours, whose noise is half that of replace-one.
"""

from __future__ import annotations

import argparse
import platform
import statistics
import time
from pathlib import Path

import numpy as np

from dpsdk import Budget, Domain, Integer, Neighbors, PrivateData, Session
from dpsdk.forms import LinearForm
from dpsdk.mechanisms import Mechanism, NoisyHistogram, SquareRoot, Tree
from dpsdk.queries import Marginal, Threshold, Workload

KNOWN = {
    "ADULT": (0.030, 0.028, 0.0089),
    "MEDCOST": (0.063, 0.052, 0.026),
    "HEPTH": (0.0015, 0.0014, 0.0023),
    "MDSALARY-FA": (0.0055, 0.0049, 0.0033),
    "PATENT": (1.9e-5, 1.8e-5, 2.7e-5),
}
"""Median largest errors at a pure ε of 0.1: OpenDP's 16-ary tree, DPBench's HB, and its DAWA."""


def session_over(counts: np.ndarray, neighbors: Neighbors) -> Session:
    domain = Domain(Integer("x", 0, len(counts) - 1))
    data = PrivateData.from_counts(counts, domain, neighbors=neighbors, max_rows=2**26)
    return Session(data, Budget(epsilon=10**6, delta="0.1"))


def measure(
    counts: np.ndarray, mechanism: Mechanism[LinearForm], neighbors: Neighbors, runs: int
) -> tuple[float, float, float]:
    asked = session_over(counts, neighbors)
    truth = counts.cumsum() / counts.sum()
    largest, squares, times = [], [], []
    for _ in range(runs):
        start = time.perf_counter()
        with asked.open(mechanism) as channel:
            table = channel.answer(Marginal("x", normalized=False))
            found = table.values.cumsum() / counts.sum()
        times.append(time.perf_counter() - start)
        largest.append(float(np.abs(found - truth).max()))
        squares.append(float(np.sqrt(np.mean((found - truth) ** 2))))
    return statistics.median(largest), statistics.median(squares), statistics.median(times)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("histograms", type=Path)
    parser.add_argument("--runs", type=int, default=40)
    given = parser.parse_args()
    print(f"Python {platform.python_version()}, numpy {np.__version__}, {given.runs} runs")
    print("pure epsilon 0.1: largest error, root mean square, ms to open and answer all")
    for path in sorted(given.histograms.glob("*.npy")):
        counts = np.load(path, allow_pickle=False).astype(np.int64)
        print(f"{path.stem}: {counts.sum():,} rows, {len(counts)} cells")
        for mechanism in (
            Tree("x", epsilon="0.1"),
            Tree("x", epsilon="0.1", branching=2),
            NoisyHistogram(epsilon="0.1"),
        ):
            for neighbors in Neighbors:
                largest, square, took = measure(counts, mechanism, neighbors, given.runs)
                name = f"{mechanism}, {neighbors.value}"
                print(f"  {name:46} {largest:.3g} {square:.3g} {1000 * took:.1f} ms")
        if path.stem in KNOWN:
            print("  known largest: OpenDP {:g}, HB {:g}, DAWA {:g}".format(*KNOWN[path.stem]))
    ages = Workload(Threshold("x", t) for t in range(1024))
    asked = session_over(np.full(1024, 100), Neighbors.REPLACE_ONE)
    print("1,024 cells, rho 0.005: promised for all thresholds at once, and standard deviations")
    for mechanism in (Tree("x", rho="0.005"), SquareRoot("x", rho="0.005")):
        quote = asked.quote(ages, using=mechanism)
        deviation = float(np.sqrt(quote.accuracy.variances.max()))
        print(f"  {mechanism!s:44} {quote.error():.3g}, largest deviation {deviation:.3g} rows")


if __name__ == "__main__":
    main()
