"""All small tables of many attributes by ResidualPlanner: errors, CPU seconds and peak memory.

python tests/bench/bench_residuals.py CSV DOMAIN [--ways 2] [--epsilon 1] [--delta 1e-9] [--runs 3]

CSV has a line of names and one row of cell numbers a record; DOMAIN is JSON, the number of cells of
each name, as of the 14 attributes of Adult. The number of rows is private. Errors are shares of the
rows: the mean and the largest total variation of a table, the largest and the mean of a cell.
"""

import argparse
import json
import platform
import resource
import time
from pathlib import Path

import numpy as np

from dpsdk import Budget, Domain, Integer, Neighbors, PrivateData, Session
from dpsdk.mechanisms import ResidualPlanner
from dpsdk.queries import marginals

KINDS = {"sum": {}, "max": {"objective": "max"}, "possible": {"nonnegative": True}}


def table_of(path, sizes):
    with path.open(encoding="utf-8") as lines:
        names = lines.readline().strip().split(",")
        rows = np.loadtxt(lines, delimiter=",", dtype=np.int64, ndmin=2)
    domain = Domain(*(Integer(name, 0, sizes[name] - 1) for name in names))
    columns = {name: rows[:, place] for place, name in enumerate(names)}
    return PrivateData.from_columns(
        columns, domain, neighbors=Neighbors.ADD_REMOVE, max_rows=2**20
    ), columns


def measure(data, queries, mechanism, budget):
    start = time.process_time()
    with Session(data, budget).open(mechanism) as channel:
        tables = [channel.answer(query).values for query in queries]
    return tables, time.process_time() - start


def errors(columns, queries, tables):
    rows = len(next(iter(columns.values())))
    variations, peaks, total, cells = [], [], 0.0, 0
    for query, table in zip(queries, tables, strict=True):
        numbers = np.ravel_multi_index([columns[n] for n in query.attributes], table.shape)
        truth = np.bincount(numbers, minlength=table.size).reshape(table.shape)
        off = np.abs(table - truth) / rows
        variations.append(off.sum() / 2)
        peaks.append(off.max())
        total, cells = total + off.sum(), cells + off.size
    return np.mean(variations), max(variations), max(peaks), total / cells


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("csv", type=Path)
    parser.add_argument("domain", type=Path)
    parser.add_argument("--ways", type=int, default=2)
    parser.add_argument("--epsilon", default="1")
    parser.add_argument("--delta", default="1e-9")
    parser.add_argument("--runs", type=int, default=3)
    given = parser.parse_args()
    data, columns = table_of(given.csv, json.loads(given.domain.read_text(encoding="utf-8")))
    queries = [
        query
        for ways in range(1, given.ways + 1)
        for query in marginals(data.domain, ways, normalized=False).queries
    ]
    budget = Budget(given.epsilon, given.delta)
    print(f"{platform.python_version()}, numpy {np.__version__}; {len(queries)} tables")
    for name, options in KINDS.items():
        mechanism = ResidualPlanner(queries, epsilon=given.epsilon, delta=given.delta, **options)
        found = [measure(data, queries, mechanism, budget) for _ in range(given.runs)]
        figures = np.mean([errors(columns, queries, tables) for tables, _ in found], axis=0)
        seconds = min(second for _, second in found)
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        print(
            f"{name:9} TV mean {figures[0]:.4f} largest {figures[1]:.3f}; cell largest "
            f"{figures[2]:.5f} mean {figures[3]:.2e}; {seconds:.2f} CPU s, {peak:.0f} MB"
        )


if __name__ == "__main__":
    main()
