"""How long a table takes to load, beside the group-by that one would write in the same library.

python tests/bench/bench_loading.py [--rows 5000000]

It prints, for each library that is there, the seconds of `from_frame`, of the group-by by hand that
yields the same cells, and their ratio; each the best of three, in one run. Then the same of text
files and columns of numpy, beside Polars and pandas.
"""

import importlib.util
import os
import tempfile
from itertools import pairwise
from pathlib import Path

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet
from measuring import arguments, medians, timed

from dpsdk import Binned, Categorical, Domain, Integer, Neighbors, PrivateData

REGIONS = [f"region {number}" for number in range(20)]
DOMAIN = Domain(
    Integer("age", 17, 90),
    Binned("income", [0, 10_000, 25_000, 50_000, 100_000, 1_000_000]),
    Categorical("sex", ["F", "M"]),
    Categorical("region", REGIONS),
)
EDGES = list(DOMAIN["income"].edges)


def table(rows):
    """A table in which about one row of fifty is outside the domain."""
    rng = np.random.default_rng(1)
    labels = np.array([*REGIONS, "elsewhere"])
    return pa.table({
        "age": rng.integers(15, 92, rows, dtype=np.int64),
        "income": rng.gamma(2, 20_000, rows).round(2),
        "sex": np.array(["F", "M", "x"])[rng.choice(3, rows, p=[0.5, 0.49, 0.01])],
        "region": labels[rng.choice(21, rows, p=[*[0.0495] * 20, 0.01])],
    })  # fmt: skip


def bins_of_polars():
    """The number of the bin that an income falls into, or null."""
    income, number = pl.col("income"), pl.lit(None, dtype=pl.Int32)
    for place in range(len(EDGES) - 1):
        low, high = EDGES[place], EDGES[place + 1]
        number = pl.when((income >= low) & (income < high)).then(place).otherwise(number)
    return number.alias("income")


def by_polars(frame):
    """The group-by that one would write in Polars."""
    age = pl.when(pl.col("age").is_between(17, 90)).then(pl.col("age")).alias("age")
    chosen = frame.select(age, bins_of_polars(), "sex", "region")
    return chosen.group_by("age", "income", "sex", "region").len().collect()


def by_pandas(frame):
    """The group-by that one would write in pandas."""
    age = frame["age"].where(frame["age"].between(17, 90), -1)
    income = pd.cut(frame["income"], EDGES, right=False, labels=False)
    return frame.groupby([age, income, "sex", "region"], dropna=False, sort=False).size()


def by_arrow(frame):
    """The group-by that one would write in pyarrow."""
    age, income = frame["age"], frame["income"]
    inside = pc.and_(pc.greater_equal(age, 17), pc.less_equal(age, 90))
    number = pa.chunked_array([pa.nulls(len(frame), pa.int32())])
    for place in range(len(EDGES) - 1):
        there = pc.and_(pc.greater_equal(income, EDGES[place]), pc.less(income, EDGES[place + 1]))
        number = pc.if_else(there, pa.scalar(place, pa.int32()), number)
    chosen = pa.table({
        "age": pc.if_else(inside, age, None), "income": number, "sex": frame["sex"],
        "region": frame["region"],
    })  # fmt: skip
    return chosen.group_by(chosen.column_names).aggregate([([], "count_all")])


def sql(source):
    """The group-by that one would write in SQL."""
    steps = " ".join(
        f"WHEN income >= {low} AND income < {high} THEN {place}"
        for place, (low, high) in enumerate(pairwise(EDGES))
    )
    age, income = "CASE WHEN age BETWEEN 17 AND 90 THEN age END", f"CASE {steps} END"
    return f"SELECT {age} a, {income} i, sex, region, count(*) n FROM {source} GROUP BY ALL"  # noqa: S608


def cases(arrow, folder):
    """The frames to load, each with the group-by by hand."""
    coded = arrow
    for name in ("sex", "region"):
        place = coded.column_names.index(name)
        coded = coded.set_column(place, name, coded[name].dictionary_encode())
    for kind, source in (("text", arrow), ("codes", coded)):
        frame = pl.from_arrow(source)
        yield f"polars, {kind}", frame, lambda f=frame: by_polars(f.lazy())
        pandas = source.to_pandas()
        if kind == "codes":
            yield f"pandas, {kind}", pandas, lambda f=pandas: by_pandas(f)
        else:
            yield f"pandas, {kind}", pandas, lambda f=pandas: by_pandas(f)
            objects = pandas.astype({"sex": object, "region": object})
            yield "pandas, objects", objects, lambda f=objects: by_pandas(f)
        yield f"pyarrow, {kind}", source, lambda f=source: by_arrow(f)
    path = folder / "table.parquet"
    pyarrow.parquet.write_table(arrow, path)
    lazy = pl.scan_parquet(path)
    yield "polars, Parquet", lazy, lambda: by_polars(lazy)
    if importlib.util.find_spec("duckdb"):
        import duckdb  # if it is there

        connection = duckdb.connect()
        connection.execute("SET enable_progress_bar = false")
        connection.read_parquet(str(path)).create("held")
        for name, source in (("Parquet", f"'{path}'"), ("table", "held")):
            relation = connection.sql(f"SELECT * FROM {source}")  # noqa: S608
            query = sql(source)
            yield f"duckdb, {name}", relation, lambda q=query: connection.sql(q).fetchall()
    if importlib.util.find_spec("pyspark"):
        from pyspark.sql import SparkSession  # if it is there

        spark = (
            SparkSession.builder.master("local[2]")
            .config("spark.ui.enabled", "false")
            .config("spark.driver.host", "127.0.0.1")
            .config("spark.driver.bindAddress", "127.0.0.1")
            .getOrCreate()
        )
        spark.range(10).groupBy("id").count().collect()  # the first job starts its machinery
        query = sql(f"parquet.`{path}`")
        yield "spark, Parquet", spark.read.parquet(str(path)), lambda: spark.sql(query).collect()


WORK = ["Private", "Self-emp-not-inc", "Local-gov", "State-gov", "Married-civ-spouse"]
TENS = list(range(0, 101, 10))
ROUNDS = 3


def drawn(rows):
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


ATTRIBUTES = {
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


def files_and_columns(rows):
    """Text files and columns of numpy, beside a group-by of their values as they are.

    Medians over interleaved rounds. Polars uses all cores, ours one.
    """
    given = drawn(rows)
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


def frames(rows):
    print(f"{rows:,} rows, 4 columns, {DOMAIN.size:,} cells")
    print(f"{'frame':20} {'from_frame':>10} {'by hand':>10} {'ratio':>6}")
    with tempfile.TemporaryDirectory() as folder:
        for name, frame, by_hand in cases(table(rows), Path(folder)):
            load = lambda frame=frame: PrivateData.from_frame(frame, DOMAIN)  # noqa: E731
            loaded = min(timed(load) for _ in range(3))
            hand = min(timed(by_hand) for _ in range(3))
            print(f"{name:20} {loaded:9.3f}s {hand:9.3f}s {loaded / hand:6.2f}", flush=True)


def main():
    rows = arguments(__doc__, rows=5_000_000).rows
    frames(rows)
    files_and_columns(rows)


if __name__ == "__main__":
    main()
