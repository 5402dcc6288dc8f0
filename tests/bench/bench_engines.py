"""Loading a table from Parquet through its engine, beside that engine's own group-by.

python tests/bench/bench_engines.py [--rows 10000000] [--engines polars,duckdb,spark] [--rounds 3]

Each group-by is written by hand for its engine and ends with the same cells, which is checked. The
two take turns, and each round reads another table, so that nothing is answered from what a round
before has left behind. Spark's first job, which starts its machinery, is timed apart.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from dpsdk import Binned, Categorical, Domain, Integer, Neighbors, PrivateData
from dpsdk.data.vault import open_histogram

LOW, HIGH = 17, 90
EDGES = (0.0, 10.0, 20.0, 40.0, 60.0, 100.0)
REGIONS = tuple(f"region {number:02d}" for number in range(8))
PLANS = ("basic", "family", "office", "none")
DOMAIN = Domain(
    Integer("age", LOW, HIGH),
    Categorical("region", REGIONS),
    Categorical("plan", PLANS),
    Binned("hours", EDGES),
    Integer("children", 0, 5),
)
Cells = dict[tuple[int, ...], int]


def written(folder: Path, rows: int, seed: int) -> str:
    """A table of five columns in Parquet, a hundredth of whose values are outside the domain."""
    draw = np.random.default_rng(seed)
    path = folder / f"table-{seed}.parquet"
    writer = None
    for start in range(0, rows, 1_000_000):
        count = min(1_000_000, rows - start)
        table = pa.table(
            {
                "age": draw.integers(LOW, HIGH + 2, count).astype(np.int32),
                "region": pa.DictionaryArray.from_arrays(
                    pa.array(draw.integers(0, len(REGIONS) + 1, count).astype(np.int32)),
                    pa.array([*REGIONS, "elsewhere"]),
                ).cast(pa.string()),
                "plan": pa.DictionaryArray.from_arrays(
                    pa.array(draw.integers(0, len(PLANS), count).astype(np.int32)), pa.array(PLANS)
                ).cast(pa.string()),
                "hours": draw.uniform(0.0, 101.0, count),
                "children": draw.binomial(6, 0.3, count).astype(np.int64),
            }
        )
        writer = writer or pq.ParquetWriter(path, table.schema)
        writer.write_table(table)
    assert writer is not None
    writer.close()
    return str(path)


SQL = f"""
select cast(age as bigint) - {LOW} as age, region, plan,
       case {" ".join(f"when hours < {edge} then {i}" for i, edge in enumerate(EDGES[1:]))}
            else {len(EDGES) - 2} end as hours,
       children, count(*) as n
from {{table}}
where age between {LOW} and {HIGH} and children between 0 and 5
  and hours >= {EDGES[0]} and hours <= {EDGES[-1]}
  and region in ({", ".join(repr(name) for name in REGIONS)})
  and plan in ({", ".join(repr(name) for name in PLANS)})
group by 1, 2, 3, 4, 5
"""  # noqa: S608  # of constants


def of_rows(found: list[tuple[Any, ...]]) -> Cells:
    return {
        (int(age), REGIONS.index(region), PLANS.index(plan), int(hours), int(children)): int(n)
        for age, region, plan, hours, children, n in found
    }


def by_polars() -> tuple[Callable[[str], object], Callable[[str], list[tuple[Any, ...]]]]:
    import polars as pl

    def by_hand(path: str) -> list[tuple[Any, ...]]:
        hours = pl.lit(len(EDGES) - 2)
        for place in range(len(EDGES) - 3, -1, -1):
            inside = pl.col("hours") < EDGES[place + 1]
            hours = pl.when(inside).then(place).otherwise(hours)
        return (
            pl.scan_parquet(path)
            .filter(
                pl.col("age").is_between(LOW, HIGH)
                & pl.col("children").is_between(0, 5)
                & pl.col("hours").is_between(EDGES[0], EDGES[-1])
                & pl.col("region").is_in(REGIONS)
                & pl.col("plan").is_in(PLANS)
            )
            .group_by(
                pl.col("age").cast(pl.Int64) - LOW,
                "region",
                "plan",
                hours.alias("hours"),
                "children",
            )
            .len()
            .collect()
            .rows()
        )

    return pl.scan_parquet, by_hand


def by_duckdb() -> tuple[Callable[[str], object], Callable[[str], list[tuple[Any, ...]]]]:
    import duckdb

    connection = duckdb.connect()
    connection.execute("set threads to 2")

    def by_hand(path: str) -> list[tuple[Any, ...]]:
        found = connection.execute(SQL.format(table=f"read_parquet('{path}')"))
        return found.fetchall()

    return connection.read_parquet, by_hand


def by_spark() -> tuple[Callable[[str], object], Callable[[str], list[tuple[Any, ...]]]]:
    from pyspark.sql import SparkSession

    spark = (
        SparkSession.builder.master("local[2]")
        .config("spark.ui.enabled", "false")
        .config("spark.sql.shuffle.partitions", "4")
        .config("spark.driver.memory", "4g")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .getOrCreate()
    )
    spark.sparkContext.setLogLevel("ERROR")
    start = time.perf_counter()
    spark.range(10).groupBy("id").count().collect()
    print(f"spark: first job {time.perf_counter() - start:.1f} s")

    def by_hand(path: str) -> list[tuple[Any, ...]]:
        found = spark.sql(SQL.format(table=f"parquet.`{path}`"))
        return [tuple(row) for row in found.collect()]

    return spark.read.parquet, by_hand


ENGINES = {"polars": by_polars, "duckdb": by_duckdb, "spark": by_spark}


def loaded(frame: object) -> PrivateData:
    return PrivateData.from_frame(
        frame, DOMAIN, name="bench", neighbors=Neighbors.ADD_REMOVE, max_rows=2**33
    )


def cells_of(data: PrivateData) -> Cells:
    codes, counts = open_histogram(data).records(DOMAIN.names)
    found: Cells = {}
    for *cell, count in zip(*(code.tolist() for code in codes), counts.tolist(), strict=True):
        found[tuple(cell)] = found.get(tuple(cell), 0) + int(count)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--engines", default="polars,duckdb,spark")
    parser.add_argument("--rounds", type=int, default=3)
    given = parser.parse_args()
    print(f"{given.rows:,} rows x {len(DOMAIN.names)} columns, {DOMAIN.size:,} cells")
    with tempfile.TemporaryDirectory() as name:
        paths = [written(Path(name), given.rows, seed) for seed in range(given.rounds)]
        for engine in given.engines.split(","):
            opened, by_hand = ENGINES[engine]()
            ours: list[float] = []
            theirs: list[float] = []
            for turn, path in enumerate(paths):
                for own in (True, False) if turn % 2 else (False, True):
                    start = time.perf_counter()
                    if own:
                        data = loaded(opened(path))
                        ours.append(time.perf_counter() - start)
                    else:
                        found = by_hand(path)
                        theirs.append(time.perf_counter() - start)
                assert cells_of(data) == of_rows(found), engine
            own, hand = statistics.median(ours), statistics.median(theirs)
            rounds = ", ".join(f"{a / b:.2f}" for a, b in zip(ours, theirs, strict=True))
            print(
                f"{engine:8} dpsdk {own:7.2f} s   by hand {hand:7.2f} s   ratio {own / hand:5.2f}"
                f"   (rounds: {rounds})"
            )


if __name__ == "__main__":
    main()
