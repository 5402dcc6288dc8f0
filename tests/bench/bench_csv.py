"""How fast text files and columns of numpy are loaded, beside Polars' and pandas' own group-by.

Run it as ``python tests/bench/bench_csv.py [--rows N]``. Each line is a table: seconds of ours, of
the other library from the same file or the same arrays to the counts of the values as they are, and
their ratio, as medians over interleaved rounds. Polars uses all cores, ours one.
"""

import os
import tempfile
from pathlib import Path

import numpy as np
import pandas as pd
import polars as pl
from measuring import arguments, medians

from dpsdk import Attribute, Binned, Categorical, Domain, Integer, Neighbors, PrivateData

WORK = ["Private", "Self-emp-not-inc", "Local-gov", "State-gov", "Married-civ-spouse"]
TENS = list(range(0, 101, 10))
ROUNDS = 3

Columns = dict[str, np.ndarray]


def columns(rows):
    rng = np.random.default_rng(0)
    return {
        "age": rng.integers(17, 91, rows),
        "work": np.array(WORK)[rng.integers(0, len(WORK), rows)],
        "sex": np.array(["Female", "Male"])[rng.integers(0, 2, rows)],
        "hours": rng.integers(0, 1000, rows) / 10,
        "income": np.round(rng.random(rows) * 100, 4),
        "share": rng.random(rows) * 100,
        "account": rng.integers(0, 10**7, rows),
    }


ATTRIBUTES: dict[str, Attribute] = {
    "age": Integer("age", 17, 90),
    "work": Categorical("work", WORK),
    "sex": Categorical("sex", ["Female", "Male"]),
    "hours": Binned("hours", TENS),
    "income": Binned("income", TENS),
    "share": Binned("share", TENS),
    "account": Integer("account", 0, 10**7),
}
PEOPLE = ("age", "work", "sex", "hours")
TABLES = [PEOPLE, *((name,) for name in ATTRIBUTES)]


def show(door, what, peer, taken):
    ours, theirs = taken
    print(f"{door:8} {what:24} {ours:8.3f} {theirs:8.3f} {peer:7} {ours / theirs:6.2f}", flush=True)


def main():
    rows = arguments(__doc__, rows=5_000_000).rows
    given = columns(rows)
    of = {"neighbors": Neighbors.ADD_REMOVE, "max_rows": rows}
    print(f"{rows:,} rows, {os.cpu_count()} cores\n{'door':8} {'columns':24} {'ours s':>8}"
          f" {'theirs s':>8} {'':7} {'ratio':>6}")  # fmt: skip
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "table.csv"
        for names in TABLES:
            chosen = {name: given[name] for name in names}
            pl.DataFrame(chosen).write_csv(path)
            domain, what = Domain(*(ATTRIBUTES[name] for name in names)), ", ".join(names)
            show("csv", what, "polars", medians(ROUNDS,
                lambda d=domain: PrivateData.from_csv(path, d, **of),
                lambda n=names: pl.read_csv(path).group_by(n).len(),
            ))  # fmt: skip
            path.unlink()
            kinds = {"numpy": chosen}
            if any(values.dtype.kind == "U" for values in chosen.values()):
                kinds["objects"] = {
                    name: values.astype(object) if values.dtype.kind == "U" else values
                    for name, values in chosen.items()
                }
            for door, arrays in kinds.items():
                show(door, what, "pandas", medians(ROUNDS,
                    lambda d=domain, a=arrays: PrivateData.from_columns(a, d, **of),
                    lambda n=names, a=arrays: pd.DataFrame(a).groupby(list(n)).size(),
                ))  # fmt: skip


if __name__ == "__main__":
    main()
