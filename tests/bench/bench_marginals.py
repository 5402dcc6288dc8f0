"""All marginals of large domains: LocalMarginals beside ResidualPlanner and independent noise.

python tests/bench/bench_marginals.py --adult CSV --domain JSON [--pums CSV] [--only NAME ...]
    [--epsilon 1 0.1] [--seeds 1] [--certify SHARE] [--peers COMMAND ...] [--plot FILE]

CSV of Adult holds coded columns, JSON their sizes, as in the synthetic-data benchmarks (48,842
rows, 14 attributes); that of PUMS has ten columns after its first. Neighbours are add-remove, δ is
1e-9 by way of ρ: (1, 1e-9) is 0.01497, (0.1, 1e-9) is 0.0001771. Errors are total variations over
all tables, in shares of the rows; `unbiased` and `possible` are residuals as they are released.
Each run has a process of its own, whose peak memory is told beside what it had before; noise is
seeded, so that errors repeat; times do not.

COMMAND is run once for each world and ε, with a directory of the codes (`codes.npy`, `world.json`
with sizes, sets, rho, epsilon and delta) as its last argument; it prints a line of JSON with the
fields that `report` reads. So peers run in environments of their own, beside these: such as by
`PEER_PYTHON tests/bench/peer_marginals.py METHOD --world`. FILE becomes a picture of error against
time, all runs of one world in it; that needs matplotlib.
"""

import csv
import itertools
import json
import math
import shlex
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import peers
from attrs import field, frozen
from measuring import arguments, coded, integers, peak, pyplot, save

from dpsdk import Budget, Neighbors, PrivateData, Session
from dpsdk.learning.raking import onto_simplex
from dpsdk.mechanisms import Gaussian, LocalMarginals, ResidualPlanner
from dpsdk.queries import Marginal, Workload
from dpsdk.testing import seeded
from dpsdk.typing import Array

RHO = {1.0: "0.01497", 0.1: "0.0001771"}
DELTA = "1e-9"
P17 = ("workclass", "education-num", "marital-status", "relationship", "race", "sex", "income>50K")


def _narrow(codes):
    return codes.astype(np.int16)


@frozen(eq=False)
class World:
    """A coded table, and the sets of attributes whose marginals are asked for."""

    sizes: tuple[int, ...]
    codes: Array = field(converter=_narrow)
    sets: list[tuple[int, ...]]

    @property
    def names(self):
        return tuple(f"x{place}" for place in range(len(self.sizes)))

    @property
    def domain(self):
        return integers(dict(zip(self.names, self.sizes, strict=True)))

    def workload(self):
        names = self.names
        return Workload(
            Marginal(*(names[place] for place in chosen), normalized=False) for chosen in self.sets
        )

    def true(self, chosen):
        shape = [self.sizes[place] for place in chosen]
        cells = np.ravel_multi_index(self.codes[:, chosen].T.astype(np.int64), shape)
        return np.bincount(cells, minlength=math.prod(shape)).reshape(shape)


def of_ways(attributes, *ways):
    return [c for k in ways for c in itertools.combinations(range(attributes), k)]


def adult(path, domain, columns, *ways):
    found = coded(path)
    kept = columns or tuple(found)
    sizes = json.loads(domain.read_text())
    codes = np.stack([found[name] for name in kept], axis=1)
    return World(tuple(sizes[name] for name in kept), codes, of_ways(len(kept), *ways))


def pums(path):
    """Ten columns; the fifth, an income, in bins of 4,000. Sizes are read off the codes."""
    with path.open(newline="") as file:
        rows = [line for line in csv.reader(file) if line]
    columns = []
    for place in range(1, 11):
        values = [row[place] for row in rows]
        if place == 5:
            values = [min(max(int(float(value) // 4000), -1), 48) for value in values]
        columns.append(np.unique(values, return_inverse=True)[1].astype(np.int64))
    sizes = tuple(int(column.max()) + 1 for column in columns)
    return World(sizes, np.stack(columns, axis=1), of_ways(10, 1, 2, 3))


def hundred(rows=100_000, seed=7):
    """100 attributes of 4 to 10 labels, cut from six hidden factors: every pair hangs together."""
    rng = np.random.default_rng(seed)
    sizes = tuple(int(size) for size in rng.integers(4, 11, 100))
    loads = rng.normal(size=(6, 100)) * (rng.random((6, 100)) < 0.4)
    values = rng.normal(size=(rows, 6)) @ loads + rng.normal(size=(rows, 100))
    codes = np.empty(values.shape, dtype=np.int64)
    for place, size in enumerate(sizes):
        ends = np.cumsum(rng.dirichlet(np.full(size, 2.0)))[:-1]
        codes[:, place] = np.searchsorted(np.quantile(values[:, place], ends), values[:, place])
    return World(sizes, codes, of_ways(100, 1, 2))


def opened(world, seed):
    columns = {name: world.codes[:, place] for place, name in enumerate(world.names)}
    data = PrivateData.from_columns(
        columns, world.domain, neighbors=Neighbors.ADD_REMOVE, max_rows=10**6
    )
    return Session(data, Budget(100, "1e-3"), noise=seeded(seed))


def asking(world, channel):
    def answer(chosen):
        query = Marginal(*(world.names[place] for place in chosen), normalized=False)
        return channel.answer(query).values  # type: ignore[attr-defined]

    return answer


def local(world, rho, seed, certify):
    mechanism = LocalMarginals(world.workload(), rho=rho, certify=certify)
    channel = opened(world, seed).open(mechanism)
    bounds = [one.total_variation for one in channel.tables if one.total_variation is not None]
    if bounds:
        print(f"  certified: mean {np.mean(bounds):.4f}, largest {max(bounds):.4f}")
    return asking(world, channel)


def planner(world, rho, seed, certify):
    """Unbiased residuals, each table then brought to the nearest that is possible."""
    del certify
    names = world.names
    parts = [
        Marginal(*(names[place] for place in chosen), normalized=False) for chosen in world.sets
    ]
    weights = [1.0] * len(parts)
    channel = opened(world, seed).open(ResidualPlanner(parts, rho=rho, weights=weights))
    return projected(world, asking(world, channel))


def independent(world, rho, seed, certify):
    """Each table by itself, with noise for the least sum of errors, brought to what is possible."""
    del certify
    session = opened(world, seed)
    cells = {chosen: math.prod(world.sizes[place] for place in chosen) for chosen in world.sets}
    whole = sum(number ** (2 / 3) for number in cells.values())

    def answer(chosen):
        share = float(rho) * cells[chosen] ** (2 / 3) / whole
        query = Marginal(*(world.names[place] for place in chosen), normalized=False)
        return session.answer(query, using=Gaussian(rho=share)).values

    return projected(world, answer)


def projected(world, answer):
    """The nearest tables of at least zero, of as many rows as there are: that is taken as known."""
    rows = float(len(world.codes))

    def nearest(chosen):
        table = answer(chosen)
        return onto_simplex(table.reshape(-1), rows).reshape(table.shape)

    return nearest


def residuals(**options):
    """Residuals as they are: unbiased, or the nearest possible tables that agree."""

    def answer(world, rho, seed, certify):
        del certify
        mechanism = ResidualPlanner(world.workload(), rho=rho, **options)
        return asking(world, opened(world, seed).open(mechanism))

    return answer


METHODS = {
    "LocalMarginals": local, "ResidualPlanner": planner, "independent": independent,
    "unbiased": residuals(), "unbiased-max": residuals(objective="max"),
    "possible": residuals(nonnegative=True),
}  # fmt: skip


def measured(world, method, rho, seed, certify):
    """One run: errors of all tables, CPU seconds of the process, and its memory in MB."""
    before, rows = peak(), len(world.codes)
    started = time.process_time()
    answer = METHODS[method](world, rho, seed, certify)
    opening = time.process_time() - started
    answering, errors, largest, cells = 0.0, [], 0.0, 0
    for chosen in world.sets:
        started = time.process_time()
        table = answer(chosen)
        answering += time.process_time() - started
        apart = table - world.true(chosen)
        np.abs(apart, out=apart)
        errors.append(float(apart.sum()) / 2 / rows)
        largest, cells = max(largest, float(apart.max()) / rows), cells + apart.size
    return {
        "mean_tv": float(np.mean(errors)),
        "max_tv": max(errors),
        "max_cell": largest,
        "mean": 2 * sum(errors) / cells,
        "seconds": opening + answering,
        "opening": opening,
        "peak_mb": peak(),
        "before_mb": before,
    }


def report(name, found):
    print(
        f"  {name:16} mean TV {found['mean_tv']:.4f}, largest {found['max_tv']:.3f}, cell "
        f"{found['max_cell']:.4f}, mean {found['mean']:.2e}; {found['seconds']:.1f} CPU s "
        f"({found.get('opening', 0):.1f} to open), {found['peak_mb']:.0f} MB "
        f"({found.get('before_mb', 0):.0f} before)",
        flush=True,
    )


def worlds(given):
    if given.adult and given.domain:
        csv_file, sizes = Path(given.adult), Path(given.domain)
        yield "adult-2", lambda: adult(csv_file, sizes, None, 1, 2)
        yield "adult-3", lambda: adult(csv_file, sizes, None, 1, 2, 3)
        yield "p17", lambda: adult(csv_file, sizes, P17, 2, 3)
    if given.pums:
        yield "pums", lambda: pums(Path(given.pums))
    yield "hundred", hundred


def draw(points, path):
    """Mean total variation against CPU seconds, a point a run."""
    plt = pyplot()
    figure, axes = plt.subplots(figsize=(6.5, 4))
    for name, seconds, error in points:
        own = name in METHODS
        axes.plot(seconds, error, "o" if own else "s", color="C0" if own else "C7")
        axes.annotate(name, (seconds, error), (5, 4), textcoords="offset points")
    axes.set(xscale="log", yscale="log", xlabel="CPU seconds", ylabel="mean total variation")
    axes.margins(0.2)
    save(figure, path)


def main():
    given = arguments(
        __doc__, adult=str, domain=str, pums=str, only=[], methods=tuple(METHODS),
        epsilon=[1.0, 0.1], seeds=1, certify=str, peers=[], plot=Path, run=[],
    )  # fmt: skip
    points = []
    for name, made in worlds(given):
        if given.only and name not in given.only:
            continue
        if given.run:
            method, epsilon, seed = given.run
            rho = RHO[float(epsilon)]
            print(json.dumps(measured(made(), method, rho, int(seed), given.certify)))
            return
        for epsilon in given.epsilon:
            print(f"{name}, epsilon {epsilon:g}", flush=True)
            for method in given.methods:
                for seed in range(given.seeds):
                    # Of its own, so that its memory is that of this run.
                    command = [sys.executable, __file__, *sys.argv[1:], "--only", name]
                    command += ["--run", method, str(epsilon), str(seed)]
                    ran = subprocess.run(command, check=True, capture_output=True, text=True)
                    *told, last = ran.stdout.strip().splitlines()
                    print(*told, sep="\n", end="\n" if told else "")
                    found = json.loads(last)
                    report(method, found)
                    points.append((method, found["seconds"], found["mean_tv"]))
            for command in given.peers:
                words, world = shlex.split(command), made()
                total = {"rho": float(RHO[epsilon]), "epsilon": epsilon, "delta": float(DELTA)}
                found = peers.run(words, world.codes, world.sizes, world.sets, **total)
                if isinstance(found, str):
                    print(f"  {command} ended: {found}", flush=True)
                    continue
                called = str(found.get("method", words[-1]))
                report(called, found)
                points.append((called, found["seconds"], found["mean_tv"]))
    if given.plot:
        draw(points, given.plot)


if __name__ == "__main__":
    main()
