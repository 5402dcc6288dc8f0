"""MWEM beside independent Gaussian noise: all two- and three-way marginals of seven columns.

python tests/bench/bench_mwem.py [--adult FILE] [--epsilon 1 0.1] [--seeds 3] [--rounds R] [--wide]
    [--peer METHOD=PYTHON ...]

FILE holds coded columns, as in `adult.csv` of the synthetic-data benchmarks (48,842 rows); without
it, the table is docs/examples/adult.csv.gz on its own attributes. With --wide, the occupation is
one more column of FILE (1,814,400 cells). All marginals of a dense hypothesis are timed beside one
sum each. A METHOD of peer_marginals.py is run by a PYTHON that has what it needs, once for each ε,
on the same columns, and shown under add-remove neighbours, which are those of all peers. δ is 1e-9.
Errors are shares of the rows over all cells of all marginals; noise is seeded, so that they repeat;
times do not.
"""

import itertools
import time
from pathlib import Path

import numpy as np
import peers
from bench_pmw import SIZES, adult, adult_coded
from measuring import arguments, coded, peak

from dpsdk import Budget, Neighbors, PrivateData, Session
from dpsdk.hypothesis import DenseHypothesis
from dpsdk.mechanisms import MWEM, Gaussian
from dpsdk.queries import Workload, marginals
from dpsdk.testing import seeded

DELTA = "1e-9"


def truths(counts, names):
    rows = counts.sum()
    tables = []
    for way in (2, 3):
        for kept in itertools.combinations(range(len(names)), way):
            gone = tuple(axis for axis in range(len(names)) if axis not in kept)
            tables.append(counts.sum(axis=gone).reshape(-1) / rows)
    return np.concatenate(tables)


def chained(domain, counts, workload):
    """CPU time of all marginals of a dense hypothesis, beside one sum over axes each."""
    weights, form = counts.astype(np.float64), workload.lower(domain)
    chain = []
    plain = []
    for _ in range(5):
        hypothesis = DenseHypothesis.from_weights(domain, weights)
        start = time.process_time()
        hypothesis.answers(form)
        chain.append(time.process_time() - start)
        start = time.process_time()
        truths(counts, domain.names)
        plain.append(time.process_time() - start)
    print(f"all marginals: {1e3 * min(chain):.1f} ms chained, {1e3 * min(plain):.1f} ms one by one")


def show(name, errors, seconds):
    most = [float(error.max()) for error in errors]
    mean = np.mean([error.mean() for error in errors])
    print(
        f"  {name:34} max {np.mean(most):.4f} ({min(most):.4f}-{max(most):.4f})  mean {mean:.2e}"
        f"  {seconds / len(errors):.2f} CPU s  {peak():.0f} MB at the most so far",
        flush=True,
    )


def beside(methods, table, epsilon):
    """What peers do with the same marginals."""
    columns = coded(table)
    codes = np.stack([columns[name] for name in SIZES], axis=1)
    sets = [kept for way in (2, 3) for kept in itertools.combinations(range(len(SIZES)), way)]
    total = {"epsilon": float(epsilon), "delta": float(DELTA)}
    for each in methods:
        name, _, python = each.partition("=")
        command = [python, str(peers.PROGRAM), name, "--world"]
        found = peers.run(command, codes, list(SIZES.values()), sets, **total)
        if isinstance(found, str):
            print(f"  {name:34} ended: {found}", flush=True)
            continue
        print(
            f"  {name:34} max {found['max']:.4f}  mean {found['mean']:.2e}"
            f"  {found['cpu_s']:.2f} CPU s  {found['peak_mb']:.0f} MB at the most",
            flush=True,
        )


def main():
    given = arguments(
        __doc__, adult=Path, epsilon=["1", "0.1"], seeds=3, rounds=int, steps=40, mwem=False,
        wide=False, peer=[],
    )  # fmt: skip
    if given.peer and (given.adult is None or given.wide):
        raise SystemExit("peers take the seven columns of --adult FILE")
    if given.adult is None:
        table = adult()
        domain, counts = table.domain, table.counts
    else:
        domain, counts = adult_coded(given.adult, wide=given.wide)
    true = truths(counts, domain.names)
    workload = Workload([marginals(domain, way, normalized=False) for way in (2, 3)])
    chained(domain, counts, workload)
    rows = int(counts.sum())
    print(f"{domain.size:,} cells, {rows:,} rows, {len(true):,} numbers")
    for relation, epsilon in itertools.product(Neighbors, given.epsilon):
        data = PrivateData.from_counts(counts, domain, neighbors=relation)
        print(f"{relation.value}, epsilon = {epsilon}, delta = {DELTA}")
        mwem = MWEM(workload, epsilon=epsilon, delta=DELTA, rounds=given.rounds, steps=given.steps)
        gaussian = Gaussian(epsilon=epsilon, delta=DELTA)
        for name, mechanism in (("MWEM", mwem), ("Gaussian, jointly", gaussian)):
            if given.mwem and mechanism is gaussian:
                continue
            errors = []
            start = time.process_time()
            for seed in range(given.seeds):
                session = Session(data, Budget(epsilon, DELTA), noise=seeded(seed))
                with session.open(mechanism) as channel:
                    values = np.clip(channel.answer(workload).values, 0, rows) / rows
                errors.append(np.abs(values - true))
            show(name, errors, time.process_time() - start)
        if relation is Neighbors.ADD_REMOVE:
            beside(given.peer, given.adult, epsilon)


if __name__ == "__main__":
    main()
