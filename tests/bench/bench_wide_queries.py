"""Many three-way questions on a universe that nobody can write down, from weighted records.

python tests/bench/bench_wide_queries.py --adult CSV --domain JSON [--queries 100000] [--seeds 1]
    [--kind rectangles conjunctions] [--online] [--known] [--epsilon 1]

CSV has the 14 coded columns of Adult (48,842 rows), JSON the size of each. A question is on three
random attributes: the cells between two random ones of each; a conjunction has instead the label of
a random row where an attribute's labels have no order. `OnlinePMW` answers them as a stream, beside
Gaussian noise for as many answers and the fit alone; `MWEM` learns them beforehand. δ is 1e-9, and
neighbours replace a row. Errors are shares of the rows. Noise is seeded, so that they repeat; CPU
seconds and the most memory so far do not.
"""

import json
import math
import time
from itertools import combinations
from pathlib import Path

import numpy as np
from attrs import frozen
from measuring import arguments, coded, integers, peak

from dpsdk import Budget, PrivateData, Session
from dpsdk.accounting import gdp_start
from dpsdk.forms import Boxes, LinearForm
from dpsdk.mechanisms import MWEM, OnlinePMW
from dpsdk.queries import Query
from dpsdk.testing import seeded

DELTA = "1e-9"
PART = 2048
ORDERED = {
    "age", "fnlwgt", "education-num", "capital-gain", "capital-loss", "hours-per-week",
}  # fmt: skip


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
    blocks, truths = [], []
    for places in combinations(range(len(domain.shape)), 3):
        mine = np.flatnonzero((chosen == places).all(axis=1))
        if len(mine):
            names = tuple(domain.names[place] for place in places)
            shape = tuple(domain.shape[place] for place in places)
            ends = starts[mine].T, stops[mine].T
            block = Boxes(names, shape, *ends, np.ones(len(mine)))
            cells = np.ravel_multi_index(rows[:, places].T, shape)
            counts = np.bincount(cells, minlength=math.prod(shape)).reshape(shape)
            blocks.append(block)
            truths.append(block.answer(counts.astype(np.float64)) / len(rows))
    return LinearForm(domain, blocks), np.concatenate(truths)


def show(name, answers, truths, seconds=0.0):
    errors = np.abs(answers - truths)
    told = f"{errors.max():8.4f} {np.quantile(errors, 0.95):8.4f} {errors.mean():9.5f}"
    print(f"{name:34} {told} {seconds:7.0f} {peak():7.0f}", flush=True)


def main():
    options = arguments(
        __doc__, adult=str, domain=str, queries=100_000, seeds=1, kind=["rectangles"],
        online=False, known=False, epsilon="1", updates=10,
    )  # fmt: skip
    sizes = json.loads(Path(options.domain).read_text())
    columns = coded(Path(options.adult))
    domain = integers(sizes)
    rows = np.stack([np.clip(columns[name], 0, sizes[name] - 1) for name in sizes], axis=1)
    data = PrivateData.from_columns(dict(zip(sizes, rows.T, strict=True)), domain, name="adult")
    print(f"{'':34} {'largest':>8} {'95 %':>8} {'mean':>9} {'CPU s':>7} {'MB':>7}")
    for kind in options.kind:
        form, truths = asked(domain, rows, *questions(kind, options.queries, domain, rows))
        print(f"{form.rows:,} {kind}, ε = {options.epsilon}, {len(rows):,} rows")
        mu = math.sqrt(gdp_start(options.epsilon, DELTA))
        noise = np.random.default_rng(11).normal(size=form.rows)
        noisy = truths + noise * math.sqrt(form.rows) / mu / len(rows)
        show("Gaussian noise", np.clip(noisy, 0, 1), truths)
        for seed in range(3, 3 + options.seeds):
            if options.online or not options.known:
                stream(options, data, form, truths, seed)
            if options.known or not options.online:
                known(options, data, form, truths, seed)


def opened(options, data, mechanism, seed):
    session = Session(data, Budget(options.epsilon, DELTA), noise=seeded(seed))
    return session.open(mechanism)


def stream(options, data, form, truths, seed):
    start = time.process_time()
    mechanism = OnlinePMW(
        options.epsilon, DELTA, updates=options.updates, queries=form.rows, start="marginals"
    )
    channel = opened(options, data, mechanism, seed)
    show(f"the start alone, seed {seed}", channel.distribution.answers(form), truths,
         time.process_time() - start)  # fmt: skip
    # In random order, as nobody asks attribute by attribute.
    order = np.random.default_rng(seed).permutation(form.rows)
    answers = np.empty(form.rows)
    stacked = [form.row(int(place)) for place in order]
    for first in range(0, form.rows, PART):
        part = LinearForm.stack(stacked[first : first + PART])
        answers[order[first : first + PART]] = channel.answer(Asked(part))
    show(f"OnlinePMW, seed {seed}", answers, truths, time.process_time() - start)


def known(options, data, form, truths, seed):
    start = time.process_time()
    mechanism = MWEM(
        Asked(form), epsilon=options.epsilon, delta=DELTA, start="marginals", rounds=10
    )
    channel = opened(options, data, mechanism, seed)
    answers = np.asarray(channel.answer(Asked(form)))
    show(f"MWEM, seed {seed}", answers, truths, time.process_time() - start)


if __name__ == "__main__":
    main()
