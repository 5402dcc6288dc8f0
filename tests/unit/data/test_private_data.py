import contextlib
import copy
import logging
import pickle
import warnings
from decimal import Decimal

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from dpsdk import Binned, Boolean, Categorical, Domain, Integer, Neighbors, PrivateData, Session
from dpsdk.accounting import Budget
from dpsdk.data.vault import open_histogram
from dpsdk.errors import DataError, InvalidArgument, MissingExtra, Redacted, TooLarge
from dpsdk.queries import Count, Marginal
from dpsdk.testing.noise import seeded
from worlds import QUIET, told

AGE = Domain(Integer("age", 17, 20))
SEX = Domain(Categorical("sex", ["F", "M"]))
HOURS = Domain(Binned("hours", [0, 10, 20]))
FLAG = Domain(Boolean("flag"))


def counts(data):
    """The number of rows in each cell, and outside all cells."""
    session = Session(data, Budget(10**12), noise=seeded(1))
    table = session.answer(Marginal(*data.domain.names, normalized=False), using=QUIET)
    inside = table.values.ravel().tolist()
    return inside, (data.facts.rows or 0) - sum(inside)


def taken(domain, values, **given):
    return counts(PrivateData.from_columns({domain.names[0]: values}, domain, **given))


@pytest.mark.parametrize(
    "dtype",
    ["int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float32", "float64",
     "object", "str", "longdouble"],
)  # fmt: skip
def test_integers_of_any_type_find_their_cell(dtype):
    assert taken(AGE, np.array([17, 18, 18, 20, 21, 16], dtype=dtype)) == ([1, 2, 0, 1], 2)


@pytest.mark.parametrize("dtype", ["uint8", "uint64", "int8"])
@pytest.mark.parametrize(("low", "high"), [(-5, 300), (300, 400), (-400, -300)])
def test_bounds_beyond_the_type_of_a_column_are_no_trouble(dtype, low, high):
    column = np.array([0, 100], dtype=dtype)
    inside, outside = taken(Domain(Integer("age", low, high)), column)
    assert sum(inside) == (2 if low == -5 else 0)
    assert outside == (0 if low == -5 else 2)
    inside, outside = taken(Domain(Integer("age", low, high)), column, outside="clip")
    assert (sum(inside), outside) == (2, 0)


@pytest.mark.parametrize(
    ("domain", "values", "expected"),
    [
        (
            AGE,
            [17, 17.0, np.float32(17), "17", "+17", "17.0", "1.7e1", np.int8(17), Decimal(17), 1],
            [9, 0, 0, 0],
        ),
        (AGE, [17.5, None, float("nan"), "x", "", b"x", [], {}, 10**400, "9" * 5000], [0] * 4),
        (AGE, [float("inf"), "inf", "nan", Decimal("sNaN"), 1j, pd.NA, pd.NaT, object()], [0] * 4),
        (SEX, ["F", " M", "M ", "f", "", None, 1, float("nan"), pd.NA, ["F"]], [1, 0]),
        (HOURS, [0, 9.999, 10, 19, 20, "3", 20.0001, -1e-9], [3, 3]),
        (HOURS, [None, "x", float("nan"), float("inf"), -float("inf"), [], 10**400], [0, 0]),
        (FLAG, [True, np.True_, 1, 0, 1.0, "true", "False", "yes", "0"], [3, 5]),
        (FLAG, [2, -1, "maybe", None, float("nan"), 0.5, []], [0, 0]),
        (Domain(Categorical("c", [0, 1])), [0, 1, 1.0, "1", np.int64(1), True, 0.5, False], [1, 4]),
    ],
)  # fmt: skip
def test_mixed_values_find_their_cell_or_fall_outside(domain, values, expected):
    assert taken(domain, values) == (expected, len(values) - sum(expected))
    column = np.empty(len(values), dtype=object)
    column[:] = values
    assert taken(domain, column) == (expected, len(values) - sum(expected))


def test_clipping_moves_numbers_to_the_nearest_cell_and_nothing_else():
    assert taken(AGE, [1, 16, 17, 99, "200", None, "x", float("nan")], outside="clip") == (
        [3, 0, 0, 2],
        3,
    )
    assert taken(AGE, np.array([1, 99]), outside="clip") == ([1, 0, 0, 1], 0)
    assert taken(HOURS, [-5, 5, 1e300, float("inf"), None], outside="clip") == ([2, 2], 1)
    assert taken(SEX, ["F", "x"], outside="clip") == ([1, 0], 1)


def test_another_label_takes_in_what_is_no_label_but_not_what_is_missing():
    domain = Domain(Categorical("c", ["a", "rest"], other="rest"))
    values = ["a", "b", "rest", 3, True, None, float("nan"), pd.NA]
    assert taken(domain, values) == ([1, 4], 3)
    frame = pl.DataFrame({"c": ["a", "b", None]})
    assert counts(PrivateData.from_frame(frame, domain)) == ([1, 1], 1)


def test_masked_values_are_outside_whatever_lies_under_the_mask():
    masked = np.ma.array([17, 18, 19], mask=[False, True, False])
    assert taken(AGE, masked) == ([1, 0, 1, 0], 1)
    assert taken(AGE, np.ma.array([17, 18])) == ([1, 1, 0, 0], 0)
    texts = np.ma.array(["F", "M"], mask=[True, False], dtype=object)
    assert taken(SEX, texts, outside="clip") == ([0, 1], 1)


@pytest.mark.parametrize("bad", [[16], [None], ["x"], [float("nan")], np.ma.array([17], mask=[1])])
def test_raising_refuses_what_is_outside_and_the_rest_has_no_outside_cell(bad):
    with pytest.raises(DataError, match="'age' is outside"):
        PrivateData.from_columns({"age": bad}, AGE, outside="raise")
    assert not PrivateData.from_columns({"age": [17]}, AGE, outside="raise").facts.outside
    assert PrivateData.from_columns({"age": [17]}, AGE, outside="clip").facts.outside


def test_rows_outside_never_change_the_public_number_of_rows():
    two = Domain(Integer("age", 17, 20), Categorical("sex", ["F", "M"]))
    public = {
        repr(PrivateData.from_columns({"age": age, "sex": sex}, two).facts)
        for age in ([17, 18], [99, 18], [None, None])
        for sex in (["F", "M"], ["x", "F"], [None, float("nan")])
    }
    assert len(public) == 1
    data = PrivateData.from_columns({"age": [99, 17], "sex": ["F", "x"]}, two)
    assert data.facts.rows == 2
    assert counts(data) == ([0] * 8, 2)


def test_a_private_number_of_rows_is_nowhere_public():
    made = [
        PrivateData.from_columns({"age": [17] * n}, AGE, neighbors=Neighbors.ADD_REMOVE, max_rows=9)
        for n in (0, 1, 9)
    ]
    assert len({data.facts for data in made}) == 1
    assert len({repr(data) for data in made}) == 1
    assert made[0].facts.rows is None
    assert made[0].facts.row_limit == 9


def test_too_many_rows_are_refused_without_saying_how_many():
    for neighbors in Neighbors:
        error, text = told(
            lambda neighbors=neighbors: PrivateData.from_counts(
                [700_001, 0, 0, 76_543], AGE, neighbors=neighbors, max_rows=5
            )
        )
        assert isinstance(error, DataError)
        for secret in ("700001", "700_001", "76543", "776544"):
            assert secret not in text


def test_a_table_without_rows_is_refused_where_their_number_is_public():
    with pytest.raises(DataError, match="no rows"):
        PrivateData.from_columns({"age": []}, AGE)


@pytest.mark.parametrize(
    ("columns", "reason"),
    [
        ({}, "no column 'age'"),
        ([1, 2], "no column 'age'"),
        ({"age": 5}, "cannot be read"),
        ({"age": None}, "cannot be read"),
        ({"age": np.ones((2, 2))}, "one-dimensional"),
        ({"age": np.array(3)}, "one-dimensional"),
        ({"age": np.array(["2020-01-01"], dtype="M8[D]")}, "holds dates"),
        ({"age": np.array([1j])}, "holds complex numbers"),
        ({"age": np.array([b"17"])}, "holds bytes"),
        ({"age": np.zeros(2, dtype=[("a", int)])}, "holds records"),
    ],
)
def test_columns_that_are_none_are_refused(columns, reason):
    with pytest.raises(DataError, match=reason):
        PrivateData.from_columns(columns, AGE)


def test_columns_of_different_lengths_are_refused_and_others_not_looked_at():
    domain = Domain(Integer("a", 0, 1), Integer("b", 0, 1))
    with pytest.raises(DataError, match="'b' is not as long"):
        PrivateData.from_columns({"a": [0, 1], "b": [0]}, domain)
    PrivateData.from_columns({"a": [0], "b": [1], "c": [1, 2, 3]}, domain)


@pytest.mark.parametrize(
    "given",
    [
        {"outside": "drop"}, {"outside": None}, {"outside": []}, {"outside": "RAISE"},
        {"outside": ""}, {"outside": 1}, {"outside": ["raise"]}, {"neighbors": "replace-one"},
        {"neighbors": "add-remove"}, {"neighbors": ""}, {"neighbors": 0},
        {"name": ""}, {"name": 3}, {"max_rows": 0}, {"max_rows": -3}, {"max_rows": 1.5},
        {"max_rows": "9"}, {"unit_rows": 0}, {"unit_rows": -1}, {"unit_rows": 1.5},
        {"unit_rows": "1"}, {"unit_rows": None}, {"unit_rows": 10**9}, {"unit_rows": 10**30},
    ],
)  # fmt: skip
def test_bad_public_arguments_are_named_by_every_door(given, tmp_path):
    (tmp_path / "t.csv").write_text("age\n17\n")
    doors = [
        lambda: PrivateData.from_columns({"age": [17]}, AGE, **given),
        lambda: PrivateData.from_csv(tmp_path / "t.csv", AGE, **given),
        lambda: PrivateData.from_frame(pl.DataFrame({"age": [17]}), AGE, **given),
    ]
    if "outside" not in given:
        doors.append(lambda: PrivateData.from_counts([1, 0, 0, 0], AGE, **given))
    for door in doors:
        with pytest.raises(InvalidArgument) as caught:
            door()
        assert caught.value.parameter == next(iter(given))


def test_an_attribute_too_wide_to_number_is_refused_whatever_the_values():
    wide = Domain(Integer("id", 0, 10**20))
    for values in ([1], [10**19], [None]):
        with pytest.raises(TooLarge, match="'id'"):
            PrivateData.from_columns({"id": values}, wide)


@pytest.mark.parametrize(
    ("load", "column"),
    [
        (PrivateData.from_columns, {"id": [2**60 + 1, 3, str(2**60), None]}),
        (PrivateData.from_columns, {"id": list(np.array([2**60 + 1, 3, 2**60]))}),
        (PrivateData.from_frame, pl.DataFrame({"id": [2**60 + 1, None, 2**60]})),
        (PrivateData.from_frame, pd.DataFrame({"id": pd.array([2**60 + 1, None, 2**60], "Int64")})),
        (PrivateData.from_frame, pa.table({"id": [2**60 + 1, None, 2**60]})),
    ],
)
def test_wide_attributes_keep_their_exact_cell(load, column):
    data = load(column, Domain(Integer("id", 0, 2**61)))
    session = Session(data, Budget(10**12), noise=seeded(1))
    for wanted, expected in ((2**60, 1), (2**60 + 1, 1), (2**60 + 2, 0)):
        assert session.answer(Count({"id": wanted}, normalized=False), using=QUIET) == expected


# Histograms.


def test_counts_are_taken_flat_or_shaped():
    domain = Domain(Integer("a", 0, 1), Integer("b", 0, 2))
    for given in (
        [0, 1, 2, 3, 4, 5],
        [[0, 1, 2], [3, 4, 5]],
        np.arange(6.0).reshape(2, 3),
        np.arange(6, dtype=np.uint8),
    ):
        data = PrivateData.from_counts(given, domain, outside_rows=4)
        assert data.facts.rows == 19
        assert counts(data) == ([0, 1, 2, 3, 4, 5], 4)


@pytest.mark.parametrize(
    ("given", "outside_rows"),
    [
        ([1, 2], 0), ([[1, 2, 3, 4]], 0), ([1, 2, 3, -1], 0), ([1, 2, 3, 0.5], 0),
        ([1, 2, 3, float("nan")], 0), ([1, 2, 3, float("inf")], 0), (["1", "2", "3", "4"], 0),
        ([1, 2, 3, None], 0), ([[1, 2], [3]], 0), (None, 0), ([2**53, 0, 0, 1], 0),
        ([1, 2, 3, 4], -1), ([1, 2, 3, 4], 0.5), ([1, 2, 3, 4], True), ([1, 2, 3, 4], None),
    ],
)  # fmt: skip
def test_counts_that_are_none_are_refused(given, outside_rows):
    with pytest.raises(DataError):
        PrivateData.from_counts(given, AGE, outside_rows=outside_rows)


# Frames.


def test_what_is_no_frame_or_lacks_a_column_is_refused():
    for frame in ({"age": [17]}, [1, 2], None, pl.Series([17])):
        with pytest.raises(DataError, match="expected a data frame"):
            PrivateData.from_frame(frame, AGE)
    for frame in (pl.DataFrame({"AGE": [17]}), pl.LazyFrame({"AGE": [17]})):
        with pytest.raises(DataError, match="no column 'age'"):
            PrivateData.from_frame(frame, AGE)


# Secrets.

WORD, NUMBER = "xylophone-canary", 314159265358


class Sealed:
    """A value that answers every approach by shouting the secret."""

    def __hash__(self):
        raise RuntimeError(WORD)

    def __eq__(self, other):
        raise RuntimeError(WORD)

    def __float__(self):
        raise RuntimeError(WORD)


def secret_frame():
    return pl.DataFrame({"age": [NUMBER, 17], "sex": [WORD, "F"], "hours": [float(NUMBER)] * 2})


BOTH = Domain(Integer("age", 17, 20), Categorical("sex", ["F", "M"]), Binned("hours", [0, 10]))
SECRET = {"age": [NUMBER, 17], "sex": [WORD, "F"], "hours": [float(NUMBER)] * 2}


def test_no_failure_to_read_a_file_tells_a_value(tmp_path):
    text = f"age,sex,hours\n{NUMBER},{WORD},{NUMBER}\n"
    path = tmp_path / "t.csv"
    for content, given in (
        (text.encode(), {"outside": "raise"}),
        (text.encode(), {"outside": "x"}),
        (text.encode(), {"max_rows": 0}),
        (text.encode() + b"\xff\n", {"outside": "raise"}),
        (text.encode() + b"8" * 200_000, {"max_rows": 1}),
        (text.replace("age", "AGE").encode(), {}),
        (text.encode() * 3, {"max_rows": 1}),
    ):
        path.write_bytes(content)
        error, told_text = told(
            lambda given=given: PrivateData.from_csv(path, BOTH, name="t", **given)
        )
        assert isinstance(error, DataError | InvalidArgument)
        assert WORD not in told_text
        assert str(NUMBER) not in told_text


def test_values_that_cannot_be_handled_are_outside_and_say_nothing():
    domain = Domain(*BOTH.attributes, *FLAG.attributes)
    sealed = {name: [Sealed(), None] for name in domain.names}
    data = PrivateData.from_columns(sealed, domain)
    assert counts(data)[1] == 2


def test_a_missing_narwhals_is_said_without_telling_a_value(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "narwhals.stable.v2", None)
    error, text = told(lambda: PrivateData.from_frame(secret_frame(), BOTH))
    assert isinstance(error, MissingExtra)
    assert WORD not in text
    for series in (pl.Series([WORD]), pd.Series([WORD]), pa.array([WORD])):
        error, text = told(lambda series=series: PrivateData.from_columns({"sex": series}, SEX))
        assert isinstance(error, MissingExtra)
        assert WORD not in text
    assert counts(PrivateData.from_columns({"sex": ["F"]}, SEX)) == ([1, 0], 0)


@pytest.mark.parametrize(
    "look",
    [
        len, iter, list, copy.copy, copy.deepcopy, pickle.dumps, np.asarray, np.array,
        lambda data: data[0], lambda data: data["age"], lambda data: WORD in data,
        lambda data: np.asarray(data, dtype=float), lambda data: [*data],
        lambda data: pickle.dumps(data, protocol=0), lambda data: dict(data),
    ],
)  # fmt: skip
def test_private_data_shows_itself_to_nobody(look):
    data = PrivateData.from_columns(SECRET, BOTH, name="shy")
    error, text = told(lambda: look(data))
    assert isinstance(error, Redacted | TypeError)
    assert WORD not in text
    assert str(NUMBER) not in text
    assert data
    with pytest.raises(InvalidArgument, match="from_columns"):
        PrivateData()


def test_nothing_is_logged_warned_or_shown_of_the_values(caplog, recwarn):
    caplog.set_level(logging.DEBUG)
    warnings.simplefilter("always")
    other = Domain(Categorical("sex", ["F", "rest"], other="rest"))
    wide = {"hours": np.array(["1e4000", str(NUMBER)], dtype=np.longdouble)}
    shown = []
    for make in (
        lambda: PrivateData.from_columns(SECRET, BOTH),
        lambda: PrivateData.from_columns(SECRET, BOTH, outside="clip"),
        lambda: PrivateData.from_columns({"sex": [WORD]}, other),
        lambda: PrivateData.from_columns(wide, HOURS),
        lambda: PrivateData.from_frame(secret_frame(), BOTH),
    ):
        data = make()
        shown += [repr(data), str(data), f"{data}", repr(data.facts), data.name, dir(data)]
        session = Session(data, Budget(1))
        shown += [repr(session), repr(session.history), str(session.spent)]
        with contextlib.suppress(TypeError):
            shown.append(vars(data))
    text = repr(shown) + caplog.text + repr([str(w.message) for w in recwarn])
    assert WORD not in text
    assert str(NUMBER) not in text
    assert not recwarn.list


def test_records_are_read_only_and_arrays_of_the_caller_are_not():
    given = np.array([1, 2, 3])
    data = PrivateData.from_columns({"n": given}, Domain(Integer("n", 0, 3)))
    histogram = open_histogram(data)
    codes, counts = histogram.records(("n",))
    for array in (*codes, counts, histogram.table(("n",)), histogram._codes["n"]):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 9
    given[:] = 0
    assert histogram.table(("n",)).tolist() == [0, 1, 1, 1]
