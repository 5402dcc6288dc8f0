import math
import tracemalloc

import numpy as np
import pytest
from reference import GRID, one, random_workload

from dpsdk import Binned, Boolean, Categorical, Domain, Integer, PrivateData, SyntheticData
from dpsdk.errors import InvalidArgument, TooLarge, UnknownAttribute
from dpsdk.forms import Kronecker, LinearForm, Range
from dpsdk.hypothesis import DenseHypothesis
from worlds import PEOPLE, Records, columns, people

WIDE = Domain(*(Integer(f"a{i}", 0, 2**40) for i in range(4)))


def random_data(seed, records=60, outside=7):
    rng = np.random.default_rng(seed)
    codes = np.stack([rng.integers(0, size, records) for size in GRID.shape], axis=1)
    return SyntheticData(GRID, codes, rng.integers(0, 4, records), outside_count=outside)


@pytest.mark.parametrize("outside", [None, 0, 7])
def test_answers_are_shares_of_the_records(outside):
    data, rng = random_data(1, outside=outside), np.random.default_rng(2)
    cells = [row for row, count in zip(data.codes, data.multiplicities, strict=True)
             for _ in range(count)]  # fmt: skip
    assert data.rows == len(cells) + (outside or 0)
    assert data.outside is (outside is not None)
    assert data.outside_mass == (outside or 0) / data.rows
    for _ in range(5):
        form = random_workload(rng, GRID)
        counted = form.evaluate(Records(GRID, cells))
        assert data.answers(form) == pytest.approx(counted / data.rows, abs=1e-12)
        assert form.evaluate(data) == pytest.approx(counted / data.rows, abs=1e-12)
        assert data.answer(form.row(0)) == pytest.approx(counted[0] / data.rows, abs=1e-12)


def test_it_is_the_distribution_that_its_table_is():
    data = random_data(3)
    dense = DenseHypothesis.from_weights(GRID, data.table(GRID.names), data.outside_mass)
    form = random_workload(np.random.default_rng(4), GRID)
    assert data.answers(form) == pytest.approx(dense.answers(form), abs=1e-13)
    assert data.table(("d", "a")) == pytest.approx(dense.table(("d", "a")))
    assert data.table(()) == pytest.approx(1 - data.outside_mass)
    codes, masses = data.records(("d", "b"))
    table = np.zeros((7, 3))
    np.add.at(table, tuple(codes), masses)
    assert table == pytest.approx(dense.table(("d", "b")))
    codes, masses = data.records()
    assert np.array_equal(np.stack(codes, axis=1), data.codes)


def test_shares_of_whole_counts_are_rounded_once():
    data = SyntheticData(GRID, [[0, 0, 0, 0], [1, 0, 0, 0]], [1, 2])
    assert data.answer(one(GRID, a=Range(5, 0, 1))) == 1 / 3
    assert data.answer(one(GRID)) == 1.0


def test_counts_have_one_axis_a_name_in_the_order_asked():
    data = random_data(5, outside=2)
    whole = data.counts(*GRID.names)
    assert whole.dtype == np.int64
    assert int(data.counts()) == whole.sum() == data.rows - 2
    assert np.array_equal(data.counts("d", "a"), whole.sum(axis=(1, 2)).T)
    with pytest.raises(UnknownAttribute):
        data.counts("e")
    assert SyntheticData.from_counts(GRID, whole, outside_count=2) == data
    assert SyntheticData.from_counts(GRID, whole.reshape(-1), outside_count=2) == data


def test_equal_records_however_given_are_equal_data():
    data = random_data(6)
    rows = np.repeat(data.codes, data.multiplicities, axis=0)
    order = np.random.default_rng(7).permutation(len(rows))
    for dtype in (np.int64, np.int16, np.uint8, ">i4", np.uint64):
        same = SyntheticData(GRID, rows[order].astype(dtype), outside_count=7)
        assert same == data
        assert hash(same) == hash(data)
        assert same.codes.dtype == np.int64
    assert SyntheticData(GRID, rows.tolist(), outside_count=7) == data
    assert SyntheticData(GRID, rows, outside_count=8) != data
    assert SyntheticData(GRID, rows[1:], outside_count=7) != data
    other = Domain(*(Integer(name, 1, size) for name, size in zip("abcd", GRID.shape, strict=True)))
    assert SyntheticData(other, rows, outside_count=7) != data
    assert data != "data"


def test_nothing_that_goes_in_or_comes_out_changes_it():
    codes, counts = np.zeros((2, 4), dtype=np.int64), np.array([1, 2])
    codes[1] = 1, 1, 0, 1
    data = SyntheticData(GRID, codes, counts)
    kept, before = SyntheticData(GRID, codes, counts), data.table(("a",)).copy()
    codes[:], counts[:] = 2, 9
    for array in (data.codes, data.multiplicities):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 1
        assert not array.flags.writeable
    data.table(("a",))[:] = 5
    data.counts("a")[:] = 5
    for array in (*data.records()[0], data.records()[1]):
        if array.flags.writeable:
            array[:] = 0
    with pytest.raises(AttributeError):
        data.outside = True
    assert data == kept
    assert np.array_equal(data.table(("a",)), before)


def test_a_universe_of_any_size_costs_what_the_records_cost():
    rng = np.random.default_rng(9)
    codes = rng.integers(0, 2**40, (1000, 4))
    tracemalloc.start()
    data = SyntheticData(WIDE, codes)
    size = 2**40 + 1
    form = LinearForm(
        WIDE,
        [
            Kronecker.of(WIDE, {"a0": Range(size, 0, 2**39), "a2": Range(size, 0, 2**38)}),
            Kronecker.of(WIDE, {"a3": Range(size, 5, 2**37)}),
        ],
    )
    answers = data.answers(form)
    assert len(data.sample(100, 1)["a0"]) == 100
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 2**21
    wanted = ((codes[:, 0] < 2**39) & (codes[:, 2] < 2**38)).mean()
    assert answers[0] == pytest.approx(wanted)
    for tabulate in (data.counts, lambda *names: data.table(names)):
        with pytest.raises(TooLarge, match="table"):
            tabulate("a0", "a1")


def test_one_attribute_may_have_two_to_the_63_cells():
    line = Domain(Integer("x", -(2**62), 2**63 - 1 - 2**62))
    data = SyntheticData(line, np.array([[0], [2**63 - 1]], dtype=np.uint64))
    assert data.to_columns() == {"x": [-(2**62), 2**63 - 1 - 2**62]}
    assert data.answer(one(line, x=Range(2**63, 0, 1))) == 0.5
    longer = Domain(Integer("x", 0, 2**63))
    with pytest.raises(TooLarge, match="attribute 'x'"):
        SyntheticData(longer, [[0]])


MALFORMED = {
    "floats": [[0.0, 0, 0, 0]],
    "truth values": [[True, False, False, False]],
    "texts": [["a", "b", "c", "d"]],
    "objects": [[object()] * 4],
    "ragged": [[0, 0, 0, 0], [0]],
    "one axis": [0, 0, 0, 0],
    "three axes": [[[0, 0, 0, 0]]],
    "too few attributes": [[0, 0, 0]],
    "below zero": [[0, 0, 0, -1]],
    "beyond the attribute": [[0, 0, 0, 7]],
    "beyond 63 bits": np.array([[0, 0, 0, 2**64 - 1]], dtype=np.uint64),
    "beyond 64 bits": [[0, 0, 0, 2**70]],
    "nothing": [],
    "nothing at all": None,
}


@pytest.mark.parametrize("what", MALFORMED)
def test_codes_that_are_none_are_refused(what):
    with pytest.raises(InvalidArgument, match="codes"):
        SyntheticData(GRID, MALFORMED[what])


@pytest.mark.parametrize(
    "counts", [[1.0], [-1], [1, 1], ["1"], [True], 1, [[1]], [2**64], [2**63 - 1], {}], ids=str
)
def test_counts_that_are_none_are_refused(counts):
    with pytest.raises(InvalidArgument, match="counts"):
        SyntheticData(GRID, [[0, 0, 0, 0]], counts)


def test_other_arguments_are_refused_by_name():
    row = [[0, 0, 0, 0]]
    for bad in (-1, 1.0, "1", True, 2**60):
        with pytest.raises(InvalidArgument, match="outside_count"):
            SyntheticData(GRID, row, outside_count=bad)
    with pytest.raises(InvalidArgument, match="domain"):
        SyntheticData("domain", row)
    with pytest.raises(InvalidArgument, match="at least one record"):
        SyntheticData(GRID, row, [0])
    with pytest.raises(InvalidArgument, match="counts"):
        SyntheticData.from_counts(GRID, np.ones(3, dtype=int))
    with pytest.raises(InvalidArgument, match="counts"):
        SyntheticData.from_counts(GRID, [[1], [1, 2]])
    with pytest.raises(TooLarge):
        SyntheticData(GRID, row, [2**53], outside_count=1)
    with pytest.raises(TooLarge):
        SyntheticData.from_counts(WIDE, [1])
    with pytest.raises(InvalidArgument, match="another domain"):
        random_data(1).answers(one(WIDE))


def test_records_outside_alone_make_a_distribution_that_samples_nothing():
    data = SyntheticData(GRID, [], outside_count=4)
    assert data.outside_mass == 1.0
    assert data.answer(one(GRID)) == 0.0
    assert data.to_columns() == {name: [] for name in GRID.names}
    with pytest.raises(InvalidArgument, match="probability"):
        data.sample(1)


def test_long_lists_are_refused_before_they_are_made():
    data = SyntheticData(GRID, [[0, 0, 0, 0]], [2**50])
    with pytest.raises(TooLarge, match="list of all records"):
        data.to_columns()
    with pytest.raises(TooLarge):
        data.to_frame()
    with pytest.raises(TooLarge, match="sample"):
        data.sample(2**40)


# Frames


def as_columns(frame):
    if hasattr(frame, "to_pydict"):
        return frame.to_pydict()
    return frame.to_dict("list") if hasattr(frame, "iloc") else frame.to_dict(as_series=False)


@pytest.mark.parametrize("library", ["pandas", "polars", "pyarrow"])
def test_a_frame_of_each_library_holds_every_record(library):
    domain = Domain(
        Integer("age", 17, 90),
        Categorical("sex", ["Female", "Male"]),
        Categorical("code", [3, 1]),
        Categorical("mixed", ["x", 7]),
        Boolean("member"),
        Binned("hours", [0, 10, 20]),
        Integer("huge", 2**70, 2**70 + 1),
    )
    data = SyntheticData(domain, [[3, 1, 0, 1, 1, 1, 0], [0, 0, 1, 0, 0, 0, 1]], [2, 1])
    frame = data.to_frame(library)
    assert type(frame).__module__.partition(".")[0] == library
    assert as_columns(frame) == {
        "age": [17, 20, 20],
        "sex": ["Female", "Male", "Male"],
        "code": [1, 3, 3],
        "mixed": ["x", "7", "7"],
        "member": [False, True, True],
        "hours": ["[0, 10)", "[10, 20]", "[10, 20]"],
        "huge": [str(2**70 + 1), str(2**70), str(2**70)],
    }
    empty = SyntheticData(domain, [], outside_count=1).to_frame(library)
    assert as_columns(empty) == {name: [] for name in domain.names}


@pytest.mark.parametrize("library", ["pandas", "polars", "pyarrow"])
def test_a_frame_is_read_back_as_the_same_records(library):
    rows = people(50, 1, stray=False)
    domain = Domain(*(PEOPLE[name] for name in ("age", "sex", "member")))
    codes = [[domain[n].index(row[n]) for n in domain.names] for row in rows]
    data = SyntheticData(domain, codes)
    read = PrivateData.from_frame(data.to_frame(library), domain)
    direct = PrivateData.from_columns(columns(rows, domain.names), domain)
    from dpsdk.data.vault import open_histogram

    tables = [open_histogram(each).table(domain.names) for each in (read, direct)]
    assert np.array_equal(tables[0], tables[1])
    assert np.array_equal(tables[0], data.counts(*domain.names))


def test_a_library_that_is_none_or_missing_is_named(monkeypatch):
    from dpsdk.errors import MissingExtra

    data = random_data(12)
    with pytest.raises(InvalidArgument, match="backend"):
        data.to_frame("numpy")
    assert type(data.to_frame()).__module__.startswith("polars")
    import dpsdk.hypothesis.synthetic as frames

    monkeypatch.setattr(frames, "find_spec", lambda name: None if name == "polars" else name)
    assert type(data.to_frame()).__module__.startswith("pandas")
    with pytest.raises(MissingExtra, match="polars"):
        data.to_frame("polars")


# Files


def test_it_prints_how_much_it_holds():
    assert repr(random_data(17)).startswith("SyntheticData(")
    data = SyntheticData(GRID, [[0, 0, 0, 0]] * 1200, outside_count=3)
    assert repr(data) == "SyntheticData(1,203 records, 1 of them different, 3 outside the domain)"


def test_whole_workloads_over_long_attributes_are_answered():
    line = Domain(Integer("x", 0, 2**32 - 1))
    codes = np.random.default_rng(18).integers(0, 2**32, (500, 1))
    data = SyntheticData(line, codes)
    cuts = np.linspace(1, 2**32, 200).astype(int)
    form = LinearForm(line, [Kronecker.of(line, {"x": Range(2**32, 0, int(c))}) for c in cuts])
    assert data.answers(form) == pytest.approx([(codes < c).mean() for c in cuts])
    assert math.isclose(data.answers(form)[-1], 1.0)
