"""One peer's synthetic rows for the marginals of a table of codes, measured and printed as JSON.

    PEER_PYTHON tests/bench/peer_marginals.py METHOD --world FOLDER [--seed 0]

It runs in the peer's own environment and needs nothing of this package:

- `mbi-aim`, `mbi-aim-50` (50 rounds, 250 iterations), `mbi-mst`, `mbi-mwem`: a checkout of
  github.com/ryan112358/mbi named by the variable MBI_CHECKOUT, with jax, optax, chex, pandas and
  networkx;
- `smartnoise-mwem` (pure ε), `smartnoise-aim`, `smartnoise-mst`: the package smartnoise-synth.

FOLDER is what peers.py writes: run it by `bench_marginals.py --peers "PEER_PYTHON
tests/bench/peer_marginals.py METHOD --world"` or by `bench_mwem.py --peer METHOD=PEER_PYTHON`. The
peers do not draw from a secure source here, and are seeded.
"""

import argparse
import contextlib
import importlib.util
import itertools
import json
import os
import random
import resource
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

Codes = Any  # an integer array (rows, columns); the peers' environments have no stubs

METHODS = (
    "mbi-aim", "mbi-aim-50", "mbi-mst", "mbi-mwem",
    "smartnoise-mwem", "smartnoise-aim", "smartnoise-mst",
)  # fmt: skip


def world(folder, given):
    """The columns, how many codes each has, and the codes; and what is asked for."""
    facts = json.loads((folder / "world.json").read_text("utf-8"))
    given.epsilon, given.delta = facts["epsilon"], facts["delta"]
    given.ways = sorted({len(kept) for kept in facts["sets"]})
    codes = np.load(folder / "codes.npy").astype(np.int64)
    return [f"x{place}" for place in range(len(facts["sizes"]))], facts["sizes"], codes


def mbi(method, names, sizes, codes, given):
    checkout = Path(os.environ["MBI_CHECKOUT"])
    # Its mechanisms lie outside its wheel, and do not fit the API of the wheel.
    sys.path[:0] = [str(checkout / "mechanisms"), str(checkout / "src")]
    from mbi import Dataset, Domain

    def program(name):
        spec = importlib.util.spec_from_file_location("peer", checkout / "mechanisms" / name)
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        return module

    columns = {name: codes[:, place].astype(np.int32) for place, name in enumerate(names)}
    data = Dataset(columns, Domain(names, sizes))
    widest = list(itertools.combinations(names, max(given.ways)))
    if method == "mbi-mst":
        made = program("mst.py").MST(data, given.epsilon, given.delta)
    elif method == "mbi-mwem":
        made = program("mwem+pgm.py").mwem_pgm(data, given.epsilon, given.delta, workload=widest)
    else:
        quick = {"rounds": 50, "max_iters": 250} if method.endswith("-50") else {}
        aim = program("aim.py").AIM(given.epsilon, given.delta, **quick)
        _, made = aim.run(data, [(kept, 1.0) for kept in widest])
    rows = made.to_dict() if hasattr(made, "to_dict") else made.df
    return np.column_stack([np.asarray(rows[name]) for name in names])


def smartnoise(method, names, sizes, codes, given):
    import pandas as pd
    from snsynth import Synthesizer

    frame = pd.DataFrame({name: codes[:, place] for place, name in enumerate(names)})
    kind = method.removeprefix("smartnoise-")
    if kind == "mwem":
        extra = {"marginal_width": max(given.ways), "split_factor": len(names)}
        made = Synthesizer.create("mwem", epsilon=given.epsilon, **extra)
    else:
        made = Synthesizer.create(kind, epsilon=given.epsilon, delta=given.delta)
    # A record of every code, so that it learns the public sizes: it takes them from the rows.
    longest = max(sizes)
    every = {name: np.arange(longest) % size for name, size in zip(names, sizes, strict=True)}
    frame = pd.concat([frame, pd.DataFrame(every)], ignore_index=True)
    made.fit(frame, categorical_columns=names, preprocessor_eps=0.0)
    rows = made.sample(len(codes))
    return np.asarray(rows)[:, : len(names)].astype(np.int64)


def table(codes, sizes, kept):
    cells = np.zeros(len(codes), dtype=np.int64)
    for place in kept:
        cells = cells * sizes[place] + codes[:, place]
    return np.bincount(cells, minlength=int(np.prod([sizes[place] for place in kept])))


def errors(true, made, sizes, ways):
    """Of all cells of all marginals, as shares of the rows."""
    largest, total, cells, distances = 0.0, 0.0, 0, []
    for way in ways:
        for kept in itertools.combinations(range(len(sizes)), way):
            gap = np.abs(
                table(true, sizes, kept) / len(true) - table(made, sizes, kept) / len(made)
            )
            largest, total, cells = max(largest, gap.max()), total + gap.sum(), cells + gap.size
            distances.append(gap.sum() / 2)
    return {
        "max": float(largest),
        "mean": float(total / cells),
        "mean_tv": float(np.mean(distances)),
        "max_tv": float(np.max(distances)),
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("method", choices=METHODS)
    parser.add_argument("--world", type=Path, required=True)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    names, sizes, codes = world(given.world, given)
    random.seed(given.seed)
    np.random.seed(given.seed)
    run = mbi if given.method.startswith("mbi-") else smartnoise
    start = time.process_time()
    with contextlib.redirect_stdout(sys.stderr):
        made = run(given.method, names, sizes, codes, given)
    seconds = time.process_time() - start
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    found = errors(codes, made, sizes, given.ways)
    told = {"method": given.method, **found, "cpu_s": seconds, "peak_mb": peak}
    # Under the names of bench_marginals.py, too.
    print(json.dumps(told | {"max_cell": found["max"], "seconds": seconds}))


if __name__ == "__main__":
    main()
