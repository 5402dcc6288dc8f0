import copy
import pickle
import sys

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from dpsdk import Binned, Boolean, Categorical, Domain, Integer, PrivateData
from dpsdk.errors import InvalidArgument, MissingExtra, UnknownAttribute, UnknownLabel, UnknownQuery
from dpsdk.queries import (
    Answers,
    Count,
    Linear,
    Marginal,
    MarginalTable,
    Rectangles,
    Threshold,
    Workload,
)
from dpsdk.queries.base import ScalarQuery
from worlds import PEOPLE, QUIET, people, quiet, table

SEX, AGE = Categorical("sex", ["F", "M"]), Integer("age", 0, 2)
HOURS = Binned("hours", [0, 10, 20])
GIVEN = np.arange(12.0).reshape(2, 3, 2)
TABLE = MarginalTable((SEX, AGE, HOURS), GIVEN)


def test_an_entry_is_asked_by_its_labels_and_is_a_float():
    assert TABLE["M", 2, (0.0, 10.0)] == GIVEN[1, 2, 0]
    assert type(TABLE["F", 0, (10, 20)]) is float
    assert TABLE["F", np.int64(1), (10, 20)] == GIVEN[0, 1, 1]


def test_a_table_of_one_attribute_is_asked_by_the_label_itself():
    one = MarginalTable((HOURS,), [3, 4])
    assert one[(10.0, 20.0)] == one[((10.0, 20.0),)] == 4
    assert MarginalTable((SEX,), [3, 4])["M"] == MarginalTable((SEX,), [3, 4])[("M",)] == 4
    assert MarginalTable((AGE,), [3, 4, 5])[2] == 5


@pytest.mark.parametrize(
    ("asked", "error"),
    [
        (("M", 2), InvalidArgument), ("M", InvalidArgument),
        (("M", 2, (0, 10), 1), InvalidArgument),
        (("X", 2, (0, 10)), UnknownLabel), (("M", 3, (0, 10)), UnknownLabel),
        (("M", True, (0, 10)), UnknownLabel), (("M", 2, 5), UnknownLabel),
        (("M", slice(None), (0, 10)), UnknownLabel),
    ],
)  # fmt: skip
def test_an_entry_that_is_not_there_is_refused(asked, error):
    with pytest.raises(error):
        TABLE[asked]


def test_one_attribute_refuses_what_is_no_label():
    one = MarginalTable((HOURS,), [3, 4])
    for asked in (0, (0,), (0, 20), "x", slice(None), [0, 10], ("a", "b")):
        with pytest.raises(UnknownLabel):
            one[asked]


def test_projections_sum_out_the_rest_in_the_order_asked():
    part = TABLE.project("hours", "sex")
    assert part.names == ("hours", "sex")
    np.testing.assert_array_equal(part.values, GIVEN.sum(axis=1).T)
    assert TABLE.project("sex", "age", "hours") == TABLE
    assert part.total() == TABLE.total() == 66.0
    assert type(TABLE.total()) is float
    turned = TABLE.project("age", "hours", "sex")
    assert all(
        turned[age, bin_, sex] == value for (sex, age, bin_), value in TABLE.to_dict().items()
    )
    with pytest.raises(UnknownAttribute):
        TABLE.project("x")
    for names in ((), ("sex", "sex")):
        with pytest.raises(InvalidArgument):
            TABLE.project(*names)


def test_what_is_below_nought_is_lifted_to_it():
    noisy = MarginalTable(
        TABLE.attributes[:1], np.array([-1.5, 2.0, np.nan])[: TABLE.values.shape[0]]
    )
    assert np.array_equal(noisy.nonnegative().values, np.maximum(noisy.values, 0), equal_nan=True)
    assert noisy.nonnegative().names == noisy.names


def test_a_projection_of_a_marginal_is_the_smaller_marginal():
    session = quiet(table(people(50, 2)))
    large = session.answer(Marginal("age", "sex", "hours"), using=QUIET)
    small = session.answer(Marginal("hours", "age"), using=QUIET)
    np.testing.assert_allclose(large.project("hours", "age").values, small.values, atol=1e-12)


def test_dictionaries_and_columns_hold_every_entry():
    as_dict = TABLE.to_dict()
    assert len(as_dict) == 12
    assert as_dict["M", 0, (10.0, 20.0)] == GIVEN[1, 0, 1]
    columns = TABLE.to_columns()
    assert list(columns) == ["sex", "age", "hours", "value"]
    assert columns["sex"] == ["F"] * 6 + ["M"] * 6
    assert columns["age"][:4] == ["0", "0", "1", "1"]
    assert columns["hours"][:2] == ["[0, 10)", "[10, 20]"]
    assert columns["value"] == GIVEN.ravel().tolist()
    assert list(TABLE.to_columns("share"))[-1] == "share"


@pytest.mark.parametrize(
    ("backend", "kind"), [("pandas", pd.DataFrame), ("polars", pl.DataFrame), ("pyarrow", pa.Table)]
)
def test_frames_of_three_libraries_hold_the_columns(backend, kind):
    frame = TABLE.to_frame(backend)
    assert isinstance(frame, kind)
    names = list(frame.columns) if backend != "pyarrow" else frame.column_names
    assert names == ["sex", "age", "hours", "value"]
    for name, values in (TABLE.to_columns() | {"age": [0, 0, 1, 1, 2, 2] * 2}).items():
        given = frame[name].to_pylist() if backend == "pyarrow" else list(frame[name])
        assert given == values


def test_frames_are_of_a_known_library_that_is_installed(monkeypatch):
    for backend in ("excel", None, 3, ["polars"], "Polars"):
        with pytest.raises(InvalidArgument, match="backend"):
            TABLE.to_frame(backend)
    monkeypatch.setitem(sys.modules, "narwhals.stable.v2", None)
    with pytest.raises(MissingExtra, match=r"^narwhals is not installed; install dpsdk\[frames\]$"):
        TABLE.to_frame("polars")


@pytest.mark.parametrize("backend", ["pandas", "polars", "pyarrow"])
def test_a_missing_frame_library_is_the_one_that_is_named(backend, monkeypatch):
    monkeypatch.setitem(sys.modules, backend, None)
    with pytest.raises(MissingExtra, match=f"^{backend} is not installed; install {backend}$"):
        TABLE.to_frame(backend)


def test_an_attribute_named_value_is_not_overwritten():
    clash = MarginalTable((Integer("value", 0, 1),), [3, 4])
    for make in (clash.to_columns, clash.to_frame):
        with pytest.raises(InvalidArgument, match="value"):
            make()
    assert clash.to_columns("share") == {"value": ["0", "1"], "share": [3.0, 4.0]}
    assert clash.to_frame("pandas", "share")["value"].tolist() == [0, 1]
    assert repr(clash).splitlines()[1].split() == ["0", "3"]


def test_a_table_prints_its_first_entries_with_aligned_columns():
    assert repr(MarginalTable((SEX, Boolean("member")), [[1, 2], [3, 0.25]])).splitlines() == [
        "sex  member  value", "F    False   1", "F    True    2", "M    False   3",
        "M    True    0.25",
    ]  # fmt: skip
    long = repr(MarginalTable((Integer("a", 0, 99_999),), np.zeros(100_000)))
    assert long.splitlines()[-1] == "... 99,988 more"
    assert len(long.splitlines()) == 14


def test_a_table_is_a_value():
    given = np.ones(2)
    one = MarginalTable((SEX,), given)
    given[0] = 9
    assert one == MarginalTable((SEX,), np.ones(2))
    assert one != MarginalTable((SEX,), np.zeros(2))
    assert hash(one) == hash(MarginalTable((SEX,), np.ones(2)))
    with pytest.raises(ValueError, match="read-only"):
        one.values[0] = 1
    with pytest.raises(InvalidArgument, match="values"):
        MarginalTable((SEX,), np.ones(3))


def test_answers_are_a_sequence_with_slices_and_one_array_of_numbers():
    session = quiet(table(people(50, 2)))
    workload = Workload([*(Threshold("age", t) for t in range(17, 25)), Marginal("sex", "member")])
    answers = session.answer(workload, using=QUIET)
    assert isinstance(answers, Answers)
    assert len(answers) == 9
    assert answers[0] <= answers[3] <= answers[7]
    assert answers[-1] == answers[8]
    assert isinstance(answers[8], MarginalTable)
    with pytest.raises(ValueError, match="read-only"):
        answers.values[0] = 1
    assert answers[2:5] == (answers[2], answers[3], answers[4])
    assert answers[::-4] == (answers[8], answers[4], answers[0])
    assert list(answers) == [answers[i] for i in range(9)]
    assert next(reversed(answers)) is answers[8]
    assert answers[3] in answers
    assert answers.index(answers[8]) == 8
    with pytest.raises(IndexError):
        answers[9]
    assert answers.values.shape == (8 + 4,)
    assert answers.values.dtype == np.float64
    assert answers.values[:8].tolist() == list(answers[:8])
    assert answers.values[8:].tolist() == answers[8].values.ravel().tolist()
    assert answers.values is answers.values
    assert repr(answers).startswith(f"Answers({answers[0]!r}, ")
    assert repr(answers).endswith("... 5 more)")


def test_a_workload_says_how_many_queries_it_has():
    assert repr(Workload([Count()])) == "Workload of 1 query"
    assert repr(Workload([Count()] * 1234)) == "Workload of 1,234 queries"
    assert Workload([Count()]) == Workload((Count(),))
    assert hash(Workload([Count()])) == hash(Workload((Count(),)))
    assert Workload([Count()]) != Workload([Count(), Count()])
    assert Workload(iter([Count()])).queries == (Count(),)


def test_answers_with_tables_print_each_on_lines_of_its_own():
    table = MarginalTable((SEX,), [1.0, 2.0])
    answers = Answers((0.5, table, table, 1.0, 2.0), lambda: np.zeros(7))
    assert repr(answers).splitlines() == [
        "Answers, 5 in all:", "[0] 0.5", "[1]", "sex  value", "F    1", "M    2", "[2]",
        "sex  value", "F    1", "M    2", "[3] 1.0", "... 1 more",
    ]  # fmt: skip


def test_workloads_are_not_nested_without_end():
    workload = Workload([Count()])
    for _ in range(31):
        workload = Workload([workload])
    assert workload.lower(PEOPLE).rows == 1
    with pytest.raises(InvalidArgument, match="32 deep"):
        Workload([workload])


def test_tables_compare_by_what_they_hold():
    unknown = MarginalTable((SEX,), [np.nan, 1.0])
    assert unknown == MarginalTable((SEX,), [np.nan, 1.0])
    assert unknown != MarginalTable((SEX,), [1.0, np.nan])
    assert not unknown.values.flags.writeable
    for values in (["x", "y"], [[1], [2, 3]], None, "xy"):
        with pytest.raises(InvalidArgument, match="values"):
            MarginalTable((SEX,), values)


def test_linear_queries_compare_by_their_weights_and_by_their_function():
    def rule(record):
        return 0.5

    given = np.array([0.0, 1.0])
    one = Linear(given, ["sex"])
    given[0] = 0.5
    assert one == Linear(np.array([0.0, 1.0]), ["sex"])
    assert hash(one) == hash(Linear([0.0, 1.0], ["sex"]))
    assert one != Linear(given, ["sex"])
    assert one != Linear(rule, ["sex"])
    assert Linear(rule) == Linear(rule)
    assert Linear(rule) != Linear(lambda record: 0.5)


def test_one_workload_serves_several_universes():
    workload = Workload([Marginal("sex", normalized=False), Count(normalized=False)])
    small = Domain(Categorical("sex", ["Female", "Male", "Other"]))
    one = quiet(table(people(20, 1, stray=False)))
    two = quiet(PrivateData.from_columns({"sex": ["Other", "Male"]}, small))
    for _ in range(2):
        assert one.answer(workload, using=QUIET)[1] == 20
        assert two.answer(workload, using=QUIET)[0].values.tolist() == [0, 1, 1]
    assert PEOPLE["sex"].size == 2


class Odd(ScalarQuery):
    """One of another author, which has no hash."""

    def __init__(self, about):
        self.about = about

    normalized = True
    __hash__ = None

    def __eq__(self, other):
        return type(other) is Odd and other.about == self.about

    def lower(self, domain):
        return Count().lower(domain)


def test_answers_know_their_queries():
    session = quiet(table(people(50, 2)))
    inner = Workload([Count(), Threshold("age", 30)])
    queries = (Threshold("age", 20), Marginal("sex"), inner, Odd(1), Threshold("age", 20), Odd(2))
    release = session.release(Workload(queries), using=QUIET)
    for answers in (release.value, *release.interval()):
        assert answers.queries == queries
        assert answers[Threshold("age", 20)] is answers.items[0]
        assert answers[Marginal("sex")] is answers.items[1]
        assert answers[Workload(inner.queries)][Threshold("age", 30)] == answers.items[2][1]
        assert answers[Odd(2)] is answers.items[5]
        for clone in (pickle.loads(pickle.dumps(answers)), copy.deepcopy(answers)):  # noqa: S301
            assert clone[Marginal("sex")] == answers[Marginal("sex")]


@pytest.mark.parametrize("asked", [Threshold("age", 21), Threshold("age", 20, normalized=False),
                                   Count(where={"sex": "Male"}), Odd(3)])  # fmt: skip
def test_answers_name_the_query_that_they_do_not_have(asked):
    queries = (Threshold("age", 20), Count(), Odd(1))
    answers = Answers((0.1, 0.2, 0.3), lambda: np.zeros(3), queries)
    with pytest.raises(UnknownQuery, match="none of the 3 queries") as caught:
        answers[asked]
    assert caught.value.query == str(asked)
    with pytest.raises(KeyError):
        answers[asked]
    with pytest.raises(UnknownQuery, match="did not say"):
        Answers((0.1,), lambda: np.zeros(1))[asked]


def test_answers_compare_what_is_said_and_have_as_many_queries():
    answers = Answers((0.1,), lambda: np.zeros(1), (Count(),))
    assert answers == Answers((0.1,), lambda: np.zeros(1))
    assert Answers((0.1,), lambda: np.zeros(1)).queries is None
    with pytest.raises(InvalidArgument, match="queries must be one for each of 1 answers; got 2"):
        Answers((0.1,), lambda: np.zeros(1), (Count(), Count()))


def test_queries_of_arrays_are_told_apart_by_their_hashes():
    # Those of one hash are compared with one another, of thousands each with all.
    cells = np.eye(300)
    weighed = [Linear(one) for one in cells]
    boxes = [Rectangles("age", lower=[one], upper=[300]) for one in range(300)]
    for queries in (weighed, boxes):
        assert len({hash(query) for query in queries}) == 300
        answers = Answers(tuple(range(300)), lambda: np.arange(300.0), tuple(queries))
        assert [answers[query] for query in queries] == list(range(300))
    assert hash(Linear(np.array([0.0, 1.0]))) == hash(Linear(np.array([-0.0, 1.0])))
    assert Linear(np.array([0.0, 1.0])) == Linear(np.array([-0.0, 1.0]))
    assert hash(boxes[3]) == hash(Rectangles("age", lower=[3], upper=[300]))
