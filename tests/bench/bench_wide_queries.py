"""Many three-way questions on a universe that nobody can write down, from weighted records.

python tests/bench/bench_wide_queries.py --adult CSV --domain JSON [--queries 100000] [--seeds 5]
    [--table adult binary seven] [--kind rectangles conjunctions] [--method stream known ...]
    [--rounds 10] [--epsilon 1]

CSV has the 14 coded columns of Adult (48,842 rows), JSON the size of each; `seven` are those of its
columns that have few labels, and `binary` is a made table of 100 correlated ones, from a fixed seed
and without a file. A question is on three random attributes: the cells between two random ones of
each; a conjunction has instead the label of a random row where an attribute's labels have no order.

`start` is the fit of marginals alone, whose records are raked to its tables. `stream` asks an
`OnlinePMW` in random order, and `known` learns all questions beforehand by `MWEM`; of seven columns
`dense` and `dense-known` are the same on one number a cell, from pairs and by the mechanism's own
rule. Beside them is Gaussian noise for as many answers. δ is 1e-9, and neighbours replace a row.

Errors are shares of the rows, as means over the seeds, with the smallest and the largest of the
largest ones. Noise is seeded, so that they repeat. Each run is a process of its own, whose CPU
seconds count from when the questions are there, and whose memory is all that it ever took.
"""

import json
import math
import time
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from itertools import product
from multiprocessing import get_context
from pathlib import Path

import numpy as np
from attrs import frozen
from measuring import arguments, coded, integers, peak

from dpsdk import Budget, PrivateData, Session
from dpsdk.accounting import gdp_start
from dpsdk.forms import Boxes, LinearForm
from dpsdk.hypothesis import SyntheticData
from dpsdk.mechanisms import MWEM, OnlinePMW
from dpsdk.queries import Query
from dpsdk.testing import seeded

DELTA = "1e-9"
PART = 2048
ORDERED = {
    "age", "fnlwgt", "education-num", "capital-gain", "capital-loss", "hours-per-week",
}  # fmt: skip
SEVEN = (
    "workclass", "education-num", "marital-status", "relationship", "race", "sex", "income>50K",
)  # fmt: skip


@frozen(eq=False, repr=False)
class Asked(Query):
    form: LinearForm

    def lower(self, domain, /):
        return self.form

    def lift(self, raw, facts, /):
        return raw / facts.rows

    def __str__(self):
        return "numbers"


def questions(kind, count, domain, rows, seed=1):
    """Three attributes of each question, and where its ranges start and stop."""
    rng = np.random.default_rng(seed)
    width = len(domain.shape)
    chosen = np.sort(np.argsort(rng.random((count, width)), axis=1)[:, :3], axis=1)
    sizes = np.array(domain.shape)[chosen]
    ends = np.sort((rng.random((count, 3, 2)) * sizes[:, :, None]).astype(np.int64), axis=2)
    starts, stops = ends[:, :, 0], ends[:, :, 1] + 1
    if kind == "conjunctions":
        seen = np.take_along_axis(rows[rng.integers(0, len(rows), count)], chosen, axis=1)
        ordered = [place for place, name in enumerate(domain.names) if name in ORDERED]
        labels = ~np.isin(chosen, ordered)
        starts, stops = np.where(labels, seen, starts), np.where(labels, seen + 1, stops)
    return chosen, starts, stops


def asked(domain, rows, chosen, starts, stops):
    """One block of boxes for each set of attributes, and the true shares, in its order."""
    order = np.lexsort(chosen.T[::-1])
    new = np.flatnonzero((chosen[order][1:] != chosen[order][:-1]).any(axis=1)) + 1
    blocks = []
    for mine in np.split(order, new):
        places = chosen[mine[0]]
        names = tuple(domain.names[place] for place in places)
        shape = tuple(domain.shape[place] for place in places)
        blocks.append(Boxes(names, shape, starts[mine].T, stops[mine].T, np.ones(len(mine))))
    form = LinearForm(domain, blocks)
    return form, SyntheticData(domain, rows).answers(form)


def binary(rows=48_842, width=100, kinds=8, seed=7):
    """A made table: kinds of rows, and attributes that two earlier ones decide together."""
    rng = np.random.default_rng(seed)
    kind, chances = rng.integers(0, kinds, rows), rng.beta(0.6, 0.6, (kinds, width))
    bits = rng.random((rows, width)) < chances[kind]
    for place in range(2, width, 5):
        one, other = rng.integers(0, place, 2)
        both = bits[:, one] & bits[:, other] if place % 2 else bits[:, one] ^ bits[:, other]
        bits[:, place] = np.where(rng.random(rows) < 0.8, both, bits[:, place])
    return integers(dict.fromkeys([f"b{place}" for place in range(width)], 2)), bits.astype(
        np.int64
    )


def table(options, name):
    """The domain of a table, and the codes of its rows."""
    if name == "binary":
        return binary()
    sizes = json.loads(Path(options.domain).read_text())
    if name == "seven":
        sizes = {key: sizes[key] for key in SEVEN}
    columns = coded(Path(options.adult))
    rows = np.stack([np.clip(columns[key], 0, sizes[key] - 1) for key in sizes], axis=1)
    return integers(sizes), rows


def opened(options, data, mechanism, seed):
    return Session(data, Budget(options.epsilon, DELTA), noise=seeded(seed)).open(mechanism)


def noise(options, data, form, truths, seed):
    """What Gaussian noise for so many answers leaves, brought between 0 and 1."""
    mu = math.sqrt(gdp_start(options.epsilon, DELTA))
    normal = np.random.default_rng(seed).normal(size=form.rows)
    return np.clip(truths + normal * math.sqrt(form.rows) / mu / data.facts.rows, 0, 1)


def online(options, form, start):
    return OnlinePMW(
        options.epsilon, DELTA, updates=options.updates, queries=form.rows, start=start
    )


def fit(options, data, form, truths, seed):
    """The start alone, before any question."""
    return opened(options, data, online(options, form, "marginals"), seed).distribution.answers(
        form
    )


def stream(options, data, form, truths, seed, start="marginals"):
    channel = opened(options, data, online(options, form, start), seed)
    # In random order, as nobody asks attribute by attribute.
    order = np.random.default_rng(seed).permutation(form.rows)
    answers = np.empty(form.rows)
    boxes = form.apart().blocks
    for first in range(0, form.rows, PART):
        places = order[first : first + PART]
        part = LinearForm(form.domain, [boxes[place] for place in places])
        answers[places] = channel.answer(Asked(part))
    return answers


def known(options, data, form, truths, seed, start="marginals"):
    rounds = options.rounds or None
    mechanism = MWEM(Asked(form), epsilon=options.epsilon, delta=DELTA, start=start, rounds=rounds)
    return np.asarray(opened(options, data, mechanism, seed).answer(Asked(form)))


METHODS = {
    "noise": noise,
    "start": fit,
    "stream": stream,
    "known": known,
    "dense": partial(stream, start="pairs"),
    "dense-known": partial(known, start=None),
}


def run(options, name, kind, method, seed):
    """The largest error, the 95 % one and the mean, CPU seconds, and MB, in this process."""
    domain, rows = table(options, name)
    columns = dict(zip(domain.names, rows.T, strict=True))
    data = PrivateData.from_columns(columns, domain, name="wide")
    form, truths = asked(domain, rows, *questions(kind, options.queries, domain, rows))
    start = time.process_time()
    errors = np.abs(METHODS[method](options, data, form, truths, seed) - truths)
    told = errors.max(), np.quantile(errors, 0.95), errors.mean()
    return [*map(float, told), time.process_time() - start, peak()]


def main():
    options = arguments(
        __doc__, adult=str, domain=str, queries=100_000, seeds=1,
        table=("adult", "binary", "seven"), kind=("rectangles", "conjunctions"),
        method=tuple(METHODS), epsilon="1", updates=10, rounds=10,
    )  # fmt: skip
    heads = "largest", "least", "most", "95 %", "mean", "CPU s", "MB"
    print(f"{'':34} " + " ".join(f"{head:>8}" for head in heads))
    workers = ProcessPoolExecutor(1, get_context("spawn"), max_tasks_per_child=1)
    for name, kind in product(options.table, options.kind):
        print(f"{options.queries:,} {kind} of {name}, ε = {options.epsilon}, {options.seeds} seeds")
        for method in options.method:
            if method.startswith("dense") and name != "seven":
                continue
            told = [
                workers.submit(run, options, name, kind, method, seed).result()
                for seed in range(3, 3 + options.seeds)
            ]
            largest, high, mean, seconds, memory = np.array(told).T
            errors = largest.mean(), largest.min(), largest.max(), high.mean()
            shown = " ".join(f"{error:8.4f}" for error in errors)
            costs = f"{mean.mean():8.5f} {seconds.mean():8.0f} {memory.max():8.0f}"
            print(f"{method:34} {shown} {costs}", flush=True)


if __name__ == "__main__":
    main()
