"""Counts that an engine works out when they are asked for: the same, and told after the charge."""

import gc
import itertools
import os
import threading
import weakref

import narwhals.stable.v2 as nw
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from dpsdk import Boolean, Budget, Categorical, Domain, Integer, Neighbors, PrivateData, Session
from dpsdk._locks import ExclusiveLock
from dpsdk.data import counts as counts_module
from dpsdk.data.engine import pushed
from dpsdk.data.engine.pushed import EngineCounts
from dpsdk.data.engine.snapshot import Snapshot, snapshot_of
from dpsdk.data.vault import keep, open_histogram
from dpsdk.errors import BudgetExceeded, DataError, InvalidArgument, Redacted, ReleaseFailed
from dpsdk.mechanisms import Laplace, NoisyHistogram
from dpsdk.queries import Conjunction, Count, Marginal
from dpsdk.testing import seeded
from parallel import count_closed, in_a_child, needs_fork

pytestmark = pytest.mark.thorough

DOMAIN = Domain(Integer("age", 17, 26), Categorical("sex", ["f", "m"]), Boolean("owns"))
NAMES = DOMAIN.names
SETS = [names for size in range(4) for names in itertools.permutations(NAMES, size)]


def rows(count=500, seed=3):
    generator = np.random.default_rng(seed)
    return {
        "age": generator.integers(15, 29, count),
        "sex": generator.choice(["f", "m", "n"], count, p=[0.5, 0.45, 0.05]),
        "owns": generator.random(count) < 0.3,
    }


COLUMNS = rows()
FRAMES = {
    "polars": pl.DataFrame,
    "polars lazy": lambda columns: pl.LazyFrame(columns),
    "pandas": pd.DataFrame,
    "pyarrow": pa.table,
}


def loaded(frame=None, **given):
    frame = pl.DataFrame(COLUMNS) if frame is None else frame
    return PrivateData.from_frame(frame, given.pop("domain", DOMAIN), collect="marginals", **given)


def both(**given):
    """The same table in memory and in an engine."""
    return PrivateData.from_columns(COLUMNS, DOMAIN, **given), loaded(**given)


def as_table(counts, names, shape):
    table = np.zeros(shape)
    codes, weights = counts.records(names)
    np.add.at(table, tuple(codes), weights if names else weights.sum())
    return table


def same(one, other):
    assert one.rows == other.rows
    for names in SETS:
        table = one.table(names)
        shape = tuple(DOMAIN[name].size for name in names)
        assert other.table(names).dtype == np.float64
        np.testing.assert_array_equal(other.table(names), table)
        np.testing.assert_array_equal(other.counted(names), table)
        np.testing.assert_array_equal(as_table(other, names, shape), table)
        assert all(code.dtype == np.int64 for code in other.records(names)[0])


@pytest.mark.parametrize("kind", FRAMES)
def test_an_engine_counts_what_is_counted_in_memory(kind):
    memory = open_histogram(PrivateData.from_columns(COLUMNS, DOMAIN))
    engine = open_histogram(loaded(FRAMES[kind](COLUMNS)))
    assert type(engine) is EngineCounts
    same(memory, engine)
    assert memory.rows - memory.table(()) == engine.outside > 0


@pytest.mark.parametrize("keep_rows", [True, False])
def test_so_do_the_parts_of_a_table(keep_rows):
    memory, engine = map(open_histogram, both())
    part = memory.only("sex", 1, keep_rows=keep_rows), engine.only("sex", 1, keep_rows=keep_rows)
    same(*part)
    parts = [one.only("age", 4, keep_rows=keep_rows) for one in part]
    same(*parts)
    same(*[one.only("sex", 0, keep_rows=keep_rows) for one in parts])


def test_tables_are_read_only_and_read_once(asked):
    engine = open_histogram(loaded())
    asked.clear()
    table = engine.table(("age", "sex"))
    assert engine.table(("age", "sex")) is table
    assert engine.counted(("age", "sex")) is table
    assert len(asked) == 1
    with pytest.raises(ValueError, match="read-only"):
        table[0, 0] = 1


def test_the_oldest_tables_go_when_they_have_too_many_cells(asked, monkeypatch):
    monkeypatch.setattr(counts_module, "_CELLS", 25)
    engine = open_histogram(loaded())
    asked.clear()
    for names in (("age",), ("age", "sex"), ("age", "sex"), ("age",), ("sex",)):
        engine.table(names)
    assert len(asked) == 4


@pytest.fixture
def asked(monkeypatch):
    """What engines are asked, as they plan to do it."""
    seen, real = [], Snapshot.ask

    def ask(self, plan):
        planned = plan(self._opened())
        seen.append(repr(planned.collect_schema()) + planned.to_native().explain())
        return real(self, plan)

    monkeypatch.setattr(Snapshot, "ask", ask)
    return seen


def put(session):
    """Questions of many kinds, and one that is refused."""
    laplace = Laplace("0.1")
    session.quote(Marginal("age", normalized=False), using=laplace)
    session.answer(Marginal("age", normalized=False), using=laplace)
    session.answer(Marginal("age", "sex", normalized=False), using=laplace)
    session.answer(Count(normalized=False), using=laplace)
    session.answer(Marginal("age", normalized=False), using=laplace)
    with session.partition("owns") as parts:
        for label in (False, True):
            parts[label].answer(Marginal("sex", normalized=False), using=laplace)
    with session.open(NoisyHistogram(epsilon="0.1")) as channel:
        channel.answer(Conjunction({"age": 20, "owns": True}, normalized=False))
    with pytest.raises(BudgetExceeded):
        session.answer(Marginal("owns", normalized=False), using=Laplace(50))


@pytest.mark.parametrize("neighbors", list(Neighbors))
def test_nothing_is_asked_before_the_charge_and_then_once_a_table(asked, neighbors, monkeypatch):
    session = Session(loaded(neighbors=neighbors), Budget(2), noise=seeded(1))
    charges, log = [], Snapshot.ask

    def ask(self, plan):
        charges.append(session.spent.charges)
        return log(self, plan)

    monkeypatch.setattr(Snapshot, "ask", ask)
    asked.clear()
    laplace = Laplace("0.1")
    session.quote(Marginal("age", normalized=False), using=laplace)
    with pytest.raises(BudgetExceeded):
        session.answer(Marginal("owns", normalized=False), using=Laplace(50))
    with session.partition("owns") as parts:
        _ = parts[True], parts[False]
        assert not charges
        session_before = session.spent.charges
        parts[True].answer(Marginal("sex", normalized=False), using=laplace)
        assert len(charges) == 1
    del session_before
    charges.clear()
    for expected in ([2], [2], [2, 4]):
        query = (
            Marginal("age", normalized=False)
            if len(expected) == 1
            else Marginal("age", "sex", normalized=False)
        )
        session.answer(query, using=laplace)
        assert charges == expected


@pytest.mark.parametrize("neighbors", list(Neighbors))
def test_what_an_engine_is_asked_does_not_depend_on_the_rows(asked, neighbors):
    plans = []
    for columns in (COLUMNS, rows(500, 8), rows(1, 9) if neighbors is Neighbors.ADD_REMOVE else
                    {"age": [99] * 500, "sex": ["f"] * 500, "owns": [None] * 500}):  # fmt: skip
        data = loaded(pl.DataFrame(columns), neighbors=neighbors)
        asked.clear()
        put(Session(data, Budget(3), noise=seeded(1)))
        plans.append(tuple(asked))
    assert len(plans[0]) >= 5
    assert plans[0] == plans[1] == plans[2]


def test_only_the_columns_that_are_touched_are_asked_for(asked):
    engine = open_histogram(loaded())
    asked.clear()
    engine.table(("sex",))
    engine.table(())
    assert len(asked) == 1
    assert "dpsdk_1" in asked[0]
    assert "1/3 COLUMNS" in asked[0]


def break_with(monkeypatch, error):
    def ask(self, plan):
        raise error

    monkeypatch.setattr(Snapshot, "ask", ask)


def test_an_engine_that_fails_tells_nothing_and_was_paid(monkeypatch):
    session = Session(loaded(), Budget(1))
    with pytest.MonkeyPatch.context() as patch:
        break_with(patch, RuntimeError("the secret of row 7 is 271828"))
        with pytest.raises(ReleaseFailed) as caught:
            session.answer(Marginal("age"), using=Laplace("0.1"))
    assert caught.value.__cause__ is caught.value.__context__ is None
    assert "271828" not in "".join([str(caught.value), *caught.value.__notes__])
    assert session.spent.charges == 1
    assert session.answer(Marginal("age"), using=Laplace("0.1")).values.shape == (10,)


@pytest.mark.parametrize("stop", [KeyboardInterrupt("271828"), RuntimeError("Query interrupted")])
def test_an_interrupt_passes_and_the_channel_answers_again(stop, monkeypatch):
    session = Session(loaded(), Budget(1))
    channel = session.open(Laplace("0.1"))
    with pytest.MonkeyPatch.context() as patch:

        def collecting(self):
            raise stop

        patch.setattr("narwhals.stable.v2.LazyFrame.collect", collecting)
        with pytest.raises(KeyboardInterrupt) as caught:
            channel.answer(Marginal("age"))
    assert caught.value.__context__ is None
    assert not caught.value.args
    assert session.spent.charges == 1
    assert channel.answer(Marginal("age")).values.shape == (10,)


def test_while_an_engine_works_others_are_answered(monkeypatch):
    began, go = threading.Event(), threading.Event()
    data, real = loaded(), Snapshot.ask

    def ask(self, plan):
        if threading.current_thread().name == "slow":
            began.set()
            assert go.wait(60)
        return real(self, plan)

    monkeypatch.setattr(Snapshot, "ask", ask)
    session, other = Session(data, Budget(1)), Session(data, Budget(1))
    laplace, answers = session.open(Laplace("0.1")), []
    slow = threading.Thread(
        target=lambda: answers.append(laplace.answer(Marginal("age"))), name="slow"
    )
    slow.start()
    try:
        assert began.wait(60)
        assert session.spent.charges == 1
        answers.append(laplace.answer(Marginal("age")))
        answers.append(session.answer(Marginal("sex"), using=Laplace("0.1")))
        answers.append(other.answer(Marginal("age"), using=Laplace("0.1")))
        with session.scope("a", Budget("0.2")) as scope:
            answers.append(scope.answer(Count(), using=Laplace("0.1")))
        assert len(session.history) == 4
    finally:
        go.set()
        slow.join(60)
    assert len(answers) == 5


def test_a_connection_that_all_share_is_waited_for_and_refused_to_who_has_it():
    frame = pl.DataFrame({"dpsdk_0": [0, 1, 1]})
    lock = ExclusiveLock("the connection of a table")
    snapshot = Snapshot(lambda: nw.from_native(frame.lazy()), lock)
    assert snapshot.ask(lambda table: table)["dpsdk_0"].tolist() == [0, 1, 1]
    counts = EngineCounts({"age": 2}, snapshot, (3, 3))

    def within():
        with pytest.raises(Exception, match="connection"):
            counts.table(("age",))

    lock.run(within)
    assert counts.table(("age",)).tolist() == [1, 2]


@needs_fork
def test_a_forked_process_is_refused_before_the_charge():
    data = loaded()
    session, counts = Session(data, Budget(1)), open_histogram(data)
    attempts = (
        lambda: Session(data, Budget(1)),
        lambda: session.partition("sex"),
        lambda: counts.table(("age",)),
    )
    assert in_a_child(lambda: count_closed(*attempts)) == 3
    assert session.answer(Count(), using=Laplace("0.1")) >= 0


def test_a_table_that_nobody_can_ask_is_freed_by_its_own_process_alone(monkeypatch):
    freed, frame = [], nw.from_native(pl.LazyFrame({"dpsdk_0": [0, 1]}))
    domain = Domain(Boolean("b"))
    data = PrivateData.from_columns({"b": [True, False]}, domain)
    keep(
        data,
        EngineCounts({"b": 2}, Snapshot(lambda: frame, None, lambda: freed.append(1))),
        data.facts,
    )
    session = Session(data, Budget(1))
    part = session.partition("b")[True]
    del data, session
    gc.collect()
    assert not freed
    del part
    gc.collect()
    assert freed == [1]
    held = Snapshot(lambda: frame, None, lambda: freed.append(2))
    monkeypatch.setattr(os, "getpid", lambda: -1)
    del held
    gc.collect()
    assert freed == [1]


def test_a_table_that_cannot_be_freed_troubles_nobody():
    def failing():
        raise RuntimeError("closed")

    held = Snapshot(lambda: None, None, failing)
    seen = weakref.ref(held)
    del held
    gc.collect()
    assert seen() is None


@pytest.mark.parametrize("kind", ["pandas", "pyarrow", "polars"])
def test_later_changes_of_a_frame_are_not_seen(kind):
    columns = {name: np.array(values) for name, values in COLUMNS.items()}
    columns["age"] = columns["age"].astype(np.int8)
    domain = Domain(Integer("age", 0, 100), Categorical("sex", ["f", "m"]), Boolean("owns"))
    frame = FRAMES[kind](columns)
    data = loaded(frame, domain=domain)
    before = open_histogram(data).counted(NAMES)
    columns["age"][:] = 20
    if kind == "pandas":
        frame["age"] = np.int8(20)
    np.testing.assert_array_equal(open_histogram(data).table(NAMES), before)


@pytest.mark.parametrize("bits", [60, 126])
def test_a_domain_of_which_no_histogram_fits_memory(bits):
    attributes = [Integer(f"a{place}", 0, 7) for place in range(bits // 3)]
    domain = Domain(*attributes)
    assert domain.size == 2**bits
    generator = np.random.default_rng(5)
    columns = {one.name: generator.integers(0, 8, 3000) for one in attributes}
    data = PrivateData.from_frame(pl.DataFrame(columns), domain, collect="marginals")
    counts = open_histogram(data)
    codes, weights = counts.records(domain.names)
    found = sorted(zip(*[code.tolist() for code in codes], strict=True))
    assert found == sorted(zip(*[column.tolist() for column in columns.values()], strict=True))
    assert weights.tolist() == [1.0] * 3000
    session = Session(data, Budget(10**6), noise=seeded(2))
    answer = session.answer(Marginal("a3", "a17", normalized=False), using=Laplace(10**5))
    expected = np.zeros((8, 8))
    np.add.at(expected, (columns["a3"], columns["a17"]), 1)
    np.testing.assert_allclose(answer.values, expected, atol=0.01)
    everything = dict.fromkeys(domain.names, 0)
    assert session.answer(Conjunction(everything, normalized=False), using=Laplace(10)) < 10


def test_records_come_in_one_order_whatever_an_engine_does():
    frame = pl.DataFrame(COLUMNS)
    one = open_histogram(loaded(frame)).records(("sex", "age"))
    other = open_histogram(loaded(frame.reverse())).records(("sex", "age"))
    np.testing.assert_array_equal(one[0], other[0])
    np.testing.assert_array_equal(one[1], other[1])


@pytest.mark.parametrize("kind", ["polars", "pyarrow"])
def test_codes_that_are_missing_or_beyond_are_outside(kind):
    coded = {"dpsdk_0": [0, None, 5, -1, 1], "dpsdk_1": [1, 1, 1, 1, 0]}
    counts = EngineCounts(
        {"a": 5, "b": 2}, snapshot_of(nw.from_native(FRAMES[kind](coded)).lazy(), [5, 2])
    )
    assert counts.rows == 5
    assert counts.table(("b",)).tolist() == [1, 1]
    assert counts.table(("a", "b"))[0, 1] == counts.table(("a", "b"))[1, 0] == 1


def test_a_mode_that_there_is_not_is_refused():
    for mode in ("rows", None, 1, ["marginals"]):
        with pytest.raises(InvalidArgument, match='"histogram" or "marginals"'):
            PrivateData.from_frame(pl.DataFrame(COLUMNS), DOMAIN, collect=mode)
    data = PrivateData.from_frame(pl.DataFrame(COLUMNS), DOMAIN, collect="marginals")
    assert type(open_histogram(data)) is EngineCounts


def test_an_engine_without_snapshots_is_refused_by_the_other_mode(monkeypatch):
    monkeypatch.setattr(pushed, "snapshot_of", lambda *_: None)
    with pytest.raises(InvalidArgument, match='"histogram" for a frame of polars') as caught:
        loaded()
    assert caught.value.parameter == "collect"


def test_the_rules_of_loading_hold():
    with pytest.raises(DataError, match="a row is outside the domain"):
        loaded(outside="raise")
    inside = pl.DataFrame({"age": [17, 26], "sex": ["f", "m"], "owns": [True, False]})
    assert not loaded(inside, outside="raise").facts.outside
    with pytest.raises(DataError, match="max_rows=499"):
        loaded(max_rows=499)
    with pytest.raises(DataError, match="no rows"):
        loaded(inside.clear())
    empty = loaded(inside.clear(), neighbors=Neighbors.ADD_REMOVE)
    assert open_histogram(empty).table(NAMES).sum() == open_histogram(empty).rows == 0
    assert open_histogram(empty).records(NAMES)[1].size == 0
    with pytest.raises(DataError, match="no column 'owns'"):
        loaded(inside.drop("owns"))
    with pytest.raises(DataError, match="none of which can match"):
        loaded(inside.with_columns(age=pl.col("owns")))
    clipped = open_histogram(loaded(outside="clip")).table(("age",))
    plain = open_histogram(PrivateData.from_columns(COLUMNS, DOMAIN, outside="clip"))
    np.testing.assert_array_equal(clipped, plain.table(("age",)))


def test_a_loading_that_fails_takes_no_value_along(monkeypatch):
    def failing(*_):
        raise RuntimeError("271828")

    monkeypatch.setattr(pushed, "snapshot_of", failing)
    with pytest.raises(DataError) as caught:
        loaded()
    assert "271828" not in str(caught.value)
    assert caught.value.__context__ is caught.value.__cause__ is None


def test_neither_counts_nor_snapshots_are_shown_or_copied():
    import copy
    import pickle

    counts = open_histogram(loaded())
    for held in (counts, counts._snapshot):
        assert "private" in repr(held)
        for take in (copy.copy, copy.deepcopy, pickle.dumps):
            with pytest.raises(Redacted):
                take(held)
