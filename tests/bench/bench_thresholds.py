"""All thresholds of one attribute of 4,096 cells: errors beside published figures, and time.

python tests/bench/bench_thresholds.py HISTOGRAMS [--runs 40]

HISTOGRAMS is a folder of arrays of counts, one a file, such as dpbench-1d: ADULT.npy and others.
Errors are the median over runs of the largest and of the root mean square error, as shares of the
rows. The known figures are those of others under add-remove neighbours: one record more moves one
count of each level of a tree by one, and the number of records is not public. A record that is
replaced moves two, so that the same ε buys half as much there: ε = 0.1 under replace-one is
ε = 0.05 under add-remove. Ratios to known figures are therefore printed for add-remove alone.
"""

import platform
import statistics
import time

import numpy as np
from measuring import arguments, histograms

from dpsdk import Budget, Domain, Integer, Neighbors, PrivateData, Session
from dpsdk.mechanisms import NoisyHistogram, SquareRoot, Tree
from dpsdk.queries import Interval, Marginal, Threshold, Workload

KNOWN = {
    "ADULT": (0.030, 0.028, 0.0089),
    "MEDCOST": (0.063, 0.052, 0.026),
    "HEPTH": (0.0015, 0.0014, 0.0023),
    "MDSALARY-FA": (0.0055, 0.0049, 0.0033),
    "PATENT": (1.9e-5, 1.8e-5, 2.7e-5),
}
"""Median largest errors at a pure ε of 0.1: OpenDP's 16-ary tree, DPBench's HB, and its DAWA."""


def session_over(counts, neighbors):
    domain = Domain(Integer("x", 0, len(counts) - 1))
    data = PrivateData.from_counts(counts, domain, neighbors=neighbors, max_rows=2**26)
    return Session(data, Budget(epsilon=10**6, delta="0.1"))


def measure(counts, mechanism, neighbors, runs):
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


def main():
    given = arguments(__doc__, "histograms", runs=40)
    print(f"Python {platform.python_version()}, numpy {np.__version__}, {given.runs} runs")
    print("pure epsilon 0.1: largest error, root mean square, ms to open and answer all")
    for title, counts in histograms(given.histograms):
        print(f"{title}: {counts.sum():,} rows, {len(counts)} cells")
        for mechanism in (
            Tree("x", epsilon="0.1"),
            Tree("x", epsilon="0.1", branching=2),
            NoisyHistogram(epsilon="0.1"),
        ):
            for neighbors in Neighbors:
                largest, square, took = measure(counts, mechanism, neighbors, given.runs)
                name = f"{mechanism}, {neighbors.value}"
                beside = ""
                if neighbors is Neighbors.ADD_REMOVE and title in KNOWN:
                    ratios = zip(("OpenDP", "HB", "DAWA"), KNOWN[title], strict=True)
                    beside = ", ".join(
                        f"{other} x {largest / known:.2f}" for other, known in ratios
                    )
                line = f"  {name:46} {largest:.3g} {square:.3g} {1000 * took:.1f} ms"
                print(f"{line}  {beside}".rstrip())
    compare_roots()
    large_attributes()


def compare_roots():
    """The promise of the square root beside that of a tree."""
    ages = Workload(Threshold("x", t) for t in range(1024))
    asked = session_over(np.full(1024, 100), Neighbors.REPLACE_ONE)
    print("1,024 cells, rho 0.005: promised for all thresholds at once, and standard deviations")
    for mechanism in (Tree("x", rho="0.005"), SquareRoot("x", rho="0.005")):
        quote = asked.quote(ages, using=mechanism)
        deviation = float(np.sqrt(quote.accuracy.variances.max()))
        print(f"  {mechanism!s:44} {quote.error():.3g}, largest deviation {deviation:.3g} rows")


def large_attributes():
    """Time to open, to answer 1,000 thresholds and intervals, and to bound them."""
    for size in (2**16, 2**20):
        asked = session_over(np.ones(size, dtype=np.int64), Neighbors.REPLACE_ONE)
        step = size // 1000
        print(f"{size:,} cells: CPU seconds to open; 1,000 thresholds, intervals, with bounds")
        thresholds = Workload(Threshold("x", step * i) for i in range(1000))
        intervals = Workload(
            Interval("x", step * i, step * i + (7919 * i) % (size - step * i)) for i in range(1000)
        )
        for mechanism in (
            Tree("x", epsilon="0.1"), Tree("x", rho="0.005"), SquareRoot("x", rho="0.005"),
        ):  # fmt: skip
            start = time.process_time()
            channel = asked.open(mechanism)
            times = [time.process_time() - start]
            for workload in (thresholds, intervals):
                start = time.process_time()
                channel.release(workload).error()
                times.append(time.process_time() - start)
            print(f"  {mechanism!s:44} " + ", ".join(f"{took:.3f}" for took in times))


if __name__ == "__main__":
    main()
