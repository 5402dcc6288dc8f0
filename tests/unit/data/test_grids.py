"""Numbers on a grid: read exactly, moved to the bounds, and rounded half up, by every door."""

import math
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from tables_loaded import from_bytes

from dpsdk import MISSING, OTHER, Domain, Integer, Number, PrivacyUnit, PrivateData
from dpsdk.data.histogram import Histogram
from dpsdk.data.readers import read_codes
from dpsdk.data.vault import open_histogram

INF, NAN = float("inf"), float("nan")


def records(data, name="c"):
    """The cell of each row inside, in order of size, and the number of rows outside."""
    (codes,), counts = open_histogram(data).records((name,))
    found = np.repeat(codes, counts.astype(int)).tolist()
    return sorted(found), open_histogram(data).rows - len(found)


def exact(grid, value):
    """The cell of a number, in fractions."""
    if value in {INF, -INF}:
        return (0 if value < 0 else grid.known - 1) if grid.outside == "clip" else None
    number = Fraction(str(value))
    if grid.outside == "other" and not grid.low <= number <= grid.high:
        return None
    number = min(max(number, grid.low), grid.high)
    if grid.exact and ((number - grid.low) / grid.step).denominator > 1:
        return None
    return math.floor((number - grid.low) / grid.step + Fraction(1, 2))


def expected(grid, values):
    cells = [exact(grid, value) for value in values]
    if OTHER in grid.extras:
        cells = [grid.index(OTHER) if cell is None else cell for cell in cells]
    return sorted(cell for cell in cells if cell is not None), cells.count(None)


GRIDS = [
    Number("c", 0, 200_000, step="0.01"), Number("c", 0, 200_000, step="0.01", outside="other"),
    Number("c", -10, 10, step="0.5", outside="other", other=True),
    Number("c", "-0.3", "0.9", "0.3"),
    Number("c", 0, 10**15, "0.001", outside="other"), Number("c", -(10**6), 10**6, 1000),
    Number("c", "1/3", "7/3", "1/3", outside="other"), Number("c", "1/3", "7/3", "1/3"),
    Number("c", 5, 5), Number("c", 5, 5, "1e-99"),
    Number("c", -(2**61), 2**61 - 1), Number("c", 0, 3, step="1e-18"),
    Number("c", "0.2", "0.8", "0.2"),
    Number("c", 0, 100, exact=True, other=True), Number("c", -1, 5, "1/2", exact=True),
    Number("c", 0, 200_000, "0.01", exact=True, outside="other", missing=True),
    Number("c", -600, 600, 3, exact=True, outside="other"), Number("c", 0, 2**60, exact=True),
]  # fmt: skip
ODD = [
    0.0, -0.0, 1e308, -1e308, 5e-324, INF, -INF, 0.005, 0.015, 1.005, 2.675, 0.25, 0.75, -0.25,
    9.75, 0.3, 0.45, 0.15, 199_999.995, 199_999.99, 200_000.0, 200_000.01, 1e15, 500.0, -500.0,
    1500.0, 1 / 3, 7 / 3, 5.0, 2.0**52 + 0.5, 0.1 + 0.2, 0.7, 0.9,
]  # fmt: skip


@pytest.mark.parametrize("grid", GRIDS, ids=repr)
def test_floats_are_the_decimals_that_they_print_as(grid, tmp_path):
    rng = np.random.default_rng(5)
    low, high = float(grid.low), float(grid.high)
    around = rng.uniform(low - 1, high + 1, 40)
    halves = [float(grid.low + (int(k) + Fraction(1, 2)) * grid.step) for k in
              rng.integers(0, max(grid.known, 2) - 1, 40)]  # fmt: skip
    ends = [np.nextafter(end, side) for end in (low, high) for side in (-INF, INF)] + [low, high]
    values = [*ODD, *around.tolist(), *np.round(around, 3).tolist(), *halves, *map(float, ends)]
    domain, array = Domain(grid), np.array(values)
    told = expected(grid, values)
    text = "c\n" + "".join(f"{value!r}\n" for value in values)
    for name, data in {
        "array": PrivateData.from_columns({"c": array}, domain),
        "list": PrivateData.from_columns({"c": values}, domain),
        "texts": PrivateData.from_columns({"c": [str(value) for value in values]}, domain),
        "decimals": PrivateData.from_columns({"c": [Decimal(str(v)) for v in values]}, domain),
        "pandas": PrivateData.from_frame(pd.DataFrame({"c": values}), domain),
        "polars": PrivateData.from_frame(pl.DataFrame({"c": values}), domain),
        "lazy": PrivateData.from_frame(pl.LazyFrame({"c": values}), domain),
        "stored": PrivateData.from_frame(pl.LazyFrame({"c": values}), domain, collect="marginals"),
        "arrow": PrivateData.from_frame(pa.table({"c": values}), domain),
        "csv": from_bytes(tmp_path, text.encode(), domain),
    }.items():
        assert records(data) == told, name
    for kind in (np.float32, np.float16):
        with np.errstate(over="ignore"):
            narrow = array.astype(kind)
        printed = [
            float(v) if np.isinf(v) else Decimal(np.format_float_scientific(v)) for v in narrow
        ]
        data = PrivateData.from_columns({"c": narrow}, domain)
        assert records(data) == expected(grid, printed), kind


@pytest.mark.parametrize("grid", GRIDS, ids=repr)
def test_integers_of_every_width_have_the_cells_of_their_values(grid):
    for kind in ("int8", "int64", "uint8", "uint64", "int32"):
        info = np.iinfo(kind)
        near = [round(end) + k for end in (grid.low, grid.high) for k in (-1, 0, 1)]
        values = [*near, 0, 1, 3, 499, 500, 501, -500, 2**53 - 1, info.min, info.max, 7]
        if kind.endswith("64") and max(abs(grid.low), abs(grid.high)) > 2**53:
            # These are as floats are, see `tests/unit/data/test_rows_alone.py`.
            values = [value for value in values if abs(value) < 2**53]
        values = [value for value in values if info.min <= value <= info.max]
        told, domain = expected(grid, values), Domain(grid)
        array = np.array(values, kind)
        series = pl.Series("c", values, dtype=getattr(pl, kind.title().replace("Ui", "UI")))
        for data in (
            PrivateData.from_columns({"c": array}, domain),
            PrivateData.from_columns({"c": array.astype(array.dtype.newbyteorder())}, domain),
            PrivateData.from_frame(series.to_frame(), domain),
            PrivateData.from_frame(series.to_frame().lazy(), domain),
            PrivateData.from_frame(series.to_frame().lazy(), domain, collect="marginals"),
            PrivateData.from_columns({"c": [str(value) for value in values]}, domain),
        ):
            assert records(data) == told, kind


def test_texts_are_read_as_they_are_declared_to_be_written(tmp_path):
    grid = Number("c", 0, 200_000, step="0.01", missing=True, other=True)
    texts = {
        "1e5": 10**7, "0.005": 1, "0.004999": 0, "1.0049999999999999999": 100, "+7": 700,
        "-0": 0, "-1": 0, "1e308": grid.known - 1, "inf": grid.known - 1, "-inf": 0,
        "nan": grid.index(MISSING), "": grid.index(MISSING), "0,5": grid.index(OTHER),
        "x": grid.index(OTHER), " 1": grid.index(OTHER), "1_0": grid.index(OTHER),
    }  # fmt: skip
    for data in (
        PrivateData.from_columns({"c": list(texts)}, Domain(grid)),
        from_bytes(
            tmp_path, "\n".join(["c", *(f'"{one}"' for one in texts)]).encode(), Domain(grid)
        ),
    ):
        assert records(data) == (sorted(texts.values()), 0)
    commas = {"0,5": 50, "1.234,5": 123_450, "0.5": grid.index(OTHER)}
    data = PrivateData.from_columns({"c": list(commas)}, Domain(grid), decimal=",", thousands=".")
    assert records(data) == (sorted(commas.values()), 0)
    fine = Number("c", 0, 3, step="1e-18")
    digits = ["0.123456789012345678", "0.1234567890123456785", "2.999999999999999999"]
    data = PrivateData.from_columns({"c": digits}, Domain(fine))
    assert records(data)[0] == [123456789012345678, 123456789012345679, 2999999999999999999]


def test_work_is_bounded_whatever_a_text_says():
    grid = Number("c", 0, 10, step="0.001", other=True)
    texts = ["1e999999999", "-1e999999999", "1e-999999999", "9" * 10**6, "0." + "3" * 10**6,
             "0.0005" + "0" * 10**6 + "1", "4." + "9" * 10**6, "1e" + "9" * 10**5]  # fmt: skip
    data = PrivateData.from_columns({"c": texts}, Domain(grid))
    assert records(data)[0] == sorted([10_000, 0, 0, 10_000, 333, 1, 5000, grid.index(OTHER)])
    numbers = [10**5000, -(10**5000), Decimal("1e-999999"), Decimal("-Infinity")]
    data = PrivateData.from_columns({"c": numbers}, Domain(grid))
    assert records(data)[0] == [0, 0, 0, 10_000]


def test_what_is_no_number_is_missing_or_another_and_beyond_the_bounds_as_declared():
    values = [5, 11, -1, INF, None, NAN, "x", True, [1]]
    for outside, told in (("clip", {10: 2, 0: 1, OTHER: 3}), ("other", {OTHER: 6})):
        grid = Number("c", 0, 10, outside=outside).open()
        wanted = {**told, 5: 1, MISSING: 2}
        for policy in ("cell", "clip", "apart", "raise"):
            data = PrivateData.from_columns({"c": values}, Domain(grid), outside=policy)
            assert not data.facts.outside
            counts = open_histogram(data).table(("c",))
            found = {grid.label(k): int(n) for k, n in enumerate(counts) if n}
            assert found == wanted
    plain = PrivateData.from_columns({"c": values}, Domain(Number("c", 0, 10)))
    assert records(plain) == ([0, 5, 10, 10], 5)
    assert plain.facts.outside


def test_numbers_keep_one_record_a_row_and_few_bytes():
    rows = 300_000
    values = np.arange(rows) / 7
    domain = Domain(Number("c", 0, 2**40, step="0.001"), Number("d", -(2**61), 2**61 - 1))
    data = PrivateData.from_columns({"c": values, "d": np.arange(rows)}, domain)
    kept = open_histogram(data)
    assert isinstance(kept, Histogram)
    assert kept.records(("d",))[0][0].tolist() == [2**61 + k for k in range(rows)]
    held = sum(one.nbytes for one in kept._codes.values())
    assert held == 2 * 8 * rows


def test_rows_of_persons_are_kept_alike_along_a_grid(tmp_path):
    rng = np.random.default_rng(3)
    values = [None if v > 9.5 else round(v, 3) for v in rng.uniform(-1, 10, 400).tolist()]
    who = rng.integers(0, 60, 400).tolist()
    other = rng.integers(0, 4, 400).tolist()
    domain = Domain(Number("c", 0, 9, step="0.25"), Integer("k", 0, 2)).open()
    columns = {"c": values, "who": who, "k": other}
    for distinct in (False, True):
        more = {"unit": PrivacyUnit("who", max_rows=3, distinct=distinct)}
        frame = pl.DataFrame(columns)
        tables = [
            open_histogram(data).table(("c", "k")).tolist()
            for data in (
                PrivateData.from_columns(columns, domain, **more),
                PrivateData.from_frame(frame, domain, **more),
                PrivateData.from_frame(frame.lazy(), domain, **more),
                PrivateData.from_frame(frame.lazy(), domain, collect="marginals", **more),
                from_bytes(tmp_path, frame.write_csv().encode(), domain, **more),
            )
        ]
        assert all(one == tables[0] for one in tables)
        assert np.sum(tables[0]) == sum(min(who.count(p), 3) for p in set(who)) or distinct


def test_public_values_are_read_by_the_same_rules():
    grid = Number("c", 0, 100, "0.5", missing=True)
    for column in ([-1, 5, None, 1e9, "x"], pl.Series([-1.0, 5.0, None, 1e9, -1.0])):
        told = [grid.index(MISSING), 10, grid.index(MISSING), 200, -1]
        told[4] = -1 if isinstance(column, list) else grid.index(MISSING)
        assert read_codes({"c": column}, [grid], ["-1"])["c"].tolist() == told


def test_a_number_without_labels_can_say_that_one_is_missing():
    grid = Number("c", 0, 100, "0.5", missing=True)
    domain = Domain(grid, missing_texts=["-1", "999.9"])
    for column in (
        [-1, 999.9, 3, 1000], np.array([-1, 999.9, 3, 1000]), ["-1.0", "999.90", "3", "1000"],
        np.array([-1, 999.9, 3, 1000], np.float32),
    ):  # fmt: skip
        data = PrivateData.from_columns({"c": column}, domain)
        assert records(data) == ([6, 200, grid.index(MISSING), grid.index(MISSING)], 0)
