"""All small tables of many attributes by ResidualPlanner: errors, CPU seconds and peak memory.

python tests/bench/bench_residuals.py CSV DOMAIN [--ways 2] [--epsilon 1] [--delta 1e-9] [--runs 3]

CSV has a line of names and one row of cell numbers a record; DOMAIN is JSON, the number of cells of
each name, as of the 14 attributes of Adult. The number of rows is private. Errors are shares of the
rows: the mean and the largest total variation of a table, the largest and the mean of a cell.
"""

import json
import platform
import time

import numpy as np
from measuring import arguments, coded, integers, peak

from dpsdk import Budget, Neighbors, PrivateData, Session
from dpsdk.mechanisms import ResidualPlanner
from dpsdk.queries import marginals

KINDS = {"sum": {}, "max": {"objective": "max"}, "possible": {"nonnegative": True}}


def table_of(path, sizes):
    columns = coded(path)
    domain = integers({name: sizes[name] for name in columns})
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
    given = arguments(__doc__, "csv", "domain", ways=2, epsilon="1", delta="1e-9", runs=3)
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
        print(
            f"{name:9} TV mean {figures[0]:.4f} largest {figures[1]:.3f}; cell largest "
            f"{figures[2]:.5f} mean {figures[3]:.2e}; {seconds:.2f} CPU s, {peak():.0f} MB"
        )


if __name__ == "__main__":
    main()
