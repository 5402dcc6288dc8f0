"""Bars on standard error: when they come, what they tell, and that they go in every case."""

import gc
import io
import math
import os
import sys
import threading
from types import SimpleNamespace

import pytest

from dpsdk import (
    Budget,
    Domain,
    Integer,
    Neighbors,
    PrivacyUnit,
    PrivateData,
    Session,
    Stopped,
    progress,
)
from dpsdk.errors import BudgetExceeded, DataError, InvalidArgument, MissingExtra
from dpsdk.mechanisms import MWEM, Laplace
from dpsdk.observe import Progress
from dpsdk.progress import Bars, working
from dpsdk.queries import Count, Threshold, Workload
from dpsdk.testing import seeded

pytestmark = pytest.mark.thorough

forks = pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")


class Terminal(io.StringIO):
    """A terminal that remembers all that was written."""

    encoding = "utf-8"
    alive = True

    def isatty(self):
        return self.alive

    @property
    def seen(self):
        """What each drawing wrote on its line."""
        text = self.getvalue().replace("\n", "\r").replace("\x1b[A", "")
        return [line.strip() for line in text.split("\r") if line.strip()]


class World:
    """A clock and a stream of a test's, and no thread: each drawing is a step of the test."""

    def __init__(self):
        self.stream = Terminal()
        self.now = 100.0
        self.woken = 0
        self.bars = Bars()
        self.shown = []

    def thread(self, target, args, **_):
        """Return what stands for a thread that shows a piece of work."""
        del target
        reference, over = args
        drawings = progress._drawings(reference)
        entry = SimpleNamespace(over=over, drawings=drawings, due=math.inf)

        def start():
            self.woken += 1
            entry.due = self.now + next(drawings)
            self.shown.append(entry)

        def join(_):
            self.after(0)

        return SimpleNamespace(start=start, join=join, is_alive=lambda: True)

    def after(self, seconds):
        self.now += seconds
        before, sys.stderr = sys.stderr, self.stream
        try:
            for entry in list(self.shown):
                if entry.over.is_set():
                    entry.drawings.close()
                    self.shown.remove(entry)
                elif self.now >= entry.due:
                    step = next(entry.drawings, None)
                    entry.due = math.inf if step is None else self.now + step
                    if step is None and entry.drawings.gi_frame is None:
                        self.shown.remove(entry)
        finally:
            sys.stderr = before
        return bool(self.shown)

    @property
    def over(self):
        """Whether nobody is at work, and what was drawn was wiped out."""
        text = self.stream.getvalue()
        wiped = text.rstrip("\r").rpartition("\r")[2].replace("\x1b[A", "").strip()
        return not self.after(0) and not wiped and text[-1:] in {"", "\r"}


@pytest.fixture
def world(monkeypatch):
    pytest.importorskip("tqdm")
    made = World()
    monkeypatch.setattr(progress, "Thread", made.thread)
    return made


# When there is one, and what it tells


def test_what_takes_less_than_a_second_has_no_bar(world):
    with world.bars.working("a question"):
        assert world.after(0.5)
        assert world.after(0.49)
    assert not world.after(10)
    assert world.stream.getvalue() == ""
    assert world.woken == 1


def test_a_bar_tells_of_what_is_known(world):
    with world.bars.working("a question"):
        world.after(5)
        world.bars.told(3, None, "draws")
        world.after(1)
        world.bars.told(4, 8, "rounds")
        world.after(1)
    first, second, third = world.stream.seen
    assert first.startswith("a question [00:0")
    assert second.startswith("a question: 3 draws [00:0")
    assert third.startswith("a question:  50%|")
    assert "| 4/8 rounds [00:0" in third
    assert world.over


def test_it_is_drawn_ten_times_a_second_and_rarely_where_all_of_it_is_kept(world):
    for alive, drawn in ((True, 41), (False, 1)):
        world.stream = Terminal()
        world.stream.alive = alive
        with world.bars.working("a question"):
            for number in range(500):
                world.bars.told(number, None, "steps")
                world.after(0.01)
        assert drawn - 2 <= len(world.stream.seen) <= drawn


def test_work_within_work_has_no_bar_of_its_own(world):
    inner = Bars()
    with world.bars.working("outer"):
        world.after(1)
        with inner.working("inner"), world.bars.working("innermost"):
            world.after(1)
            inner.told(7, None, "steps")  # of another session
            world.after(1)
        world.after(1)
    assert world.woken == 1
    assert {line.partition(" ")[0] for line in world.stream.seen} == {"outer"}
    assert "7" not in world.stream.getvalue().replace("00:07", "")
    assert world.over
    with inner.working("next"):
        world.after(1)
    assert world.stream.seen[-1].startswith("next")


def test_each_thread_has_its_own(world):
    begun, drawn = threading.Barrier(4, timeout=60), threading.Barrier(4, timeout=60)

    def work(name):
        with world.bars.working(name):
            world.bars.told(1, 2, "steps")
            begun.wait()
            drawn.wait()

    threads = [threading.Thread(target=work, args=(f"thread{n}",)) for n in range(3)]
    for one in threads:
        one.start()
    begun.wait()
    world.after(1)
    drawn.wait()
    for one in threads:
        one.join()
    assert sorted(line.partition(":")[0] for line in world.stream.seen) == [
        "thread0",
        "thread1",
        "thread2",
    ]
    assert world.stream.getvalue().count("\n") >= 3  # on lines of their own
    assert world.over


@pytest.mark.parametrize(
    ("what", "shown"),
    [
        ("a\nb\r\x1b[2Jc\0", "a?b??[2Jc?"),
        ("x" * 1000, "x" * 45 + "..."),
        ("{elapsed} {0} %s", "{elapsed} {0} %s"),
        ("Größe", "Größe"),
        ("\ud800", "?"),
        ("", ""),
    ],
)
def test_a_text_of_any_kind_stays_on_its_line(world, what, shown):
    with world.bars.working(what):
        world.after(1)
        world.bars.told(1, 2, what)
        world.after(1)
    first, second = world.stream.seen
    assert first.startswith(f"{shown} [".lstrip())
    assert f"1/2 {shown}" in second
    assert world.over


def test_where_only_ascii_can_be_written_nothing_else_is(world):
    world.stream.encoding = "ascii"
    with world.bars.working("Größe"):
        world.bars.told(1, 3, "Schritte")
        world.after(1)
    assert world.stream.getvalue().isascii()
    assert world.stream.seen[0].startswith("Gr\\xf6\\xdfe:  33%|###")


# How it goes


@pytest.mark.parametrize("kind", [RuntimeError, KeyboardInterrupt, SystemExit, GeneratorExit])
def test_it_goes_whatever_ends_the_work(world, kind):
    def work():
        with world.bars.working("a question"):
            world.after(1)
            raise kind

    with pytest.raises(kind):
        work()
    assert world.stream.seen
    assert world.over


def test_an_interrupt_while_it_ends_leaves_nothing(world, monkeypatch):
    def interrupt(*_):
        raise KeyboardInterrupt

    def work():
        with world.bars.working("a question"):
            world.after(1)

    with monkeypatch.context() as patched:
        patched.setattr(progress._Work, "__exit__", interrupt)
        with pytest.raises(KeyboardInterrupt):
            work()
    gc.collect()
    assert progress._current_work() is None
    world.after(1)
    assert world.over


class Closed(Terminal):
    def write(self, text):
        raise ValueError("I/O operation on closed file")


class Full(Terminal):
    def write(self, text):
        raise OSError(28, "No space left on device")


@pytest.mark.parametrize("stream", [Closed(), Full(), SimpleNamespace(), 7])
def test_a_stream_that_takes_nothing_costs_no_answer(world, stream):
    world.stream = stream
    with world.bars.working("a question"):
        world.after(1)
        world.after(1)
    assert not world.after(1)


def test_a_stream_that_is_closed_meanwhile_costs_no_answer(world):
    with world.bars.working("a question"):
        world.after(1)
        world.stream.close()
    with world.bars.working("another"):
        world.stream = Terminal()
        world.after(1)
        world.stream.close()
        world.after(1)
    assert not world.after(1)


class Halted(Terminal):
    """A terminal that was told to stop, or a pipe that nobody reads: it takes nothing for now."""

    def __init__(self):
        super().__init__()
        self.begun, self.goes_on = threading.Event(), threading.Event()

    def write(self, text):
        self.begun.set()
        assert self.goes_on.wait(60)
        return super().write(text)


@pytest.mark.parametrize("alive", [True, False])
def test_a_stream_that_takes_nothing_for_now_keeps_nobody_from_working(monkeypatch, alive):
    pytest.importorskip("tqdm")
    stream, ends = Halted(), threading.Event()
    stream.alive = alive
    monkeypatch.setattr(sys, "stderr", stream)
    monkeypatch.setattr(progress, "_PATIENCE", 0.01)
    monkeypatch.setattr(progress, "_DELAY", 0.0)

    def work():
        with Bars().working("a question"):
            stream.begun.wait(60)
        for _ in range(20):
            with Bars().working("another"):
                pass
        ends.set()

    worker = threading.Thread(target=work, daemon=True)
    worker.start()
    try:
        assert ends.wait(20)
    finally:
        stream.goes_on.set()
    worker.join()


def test_without_a_stream_there_is_no_bar_until_there_is_one(world):
    there, world.stream = world.stream, None
    with world.bars.working("a question"):
        world.after(1)
        world.stream = there
        world.after(1)
    assert len(there.seen) == 1
    assert world.over


@forks
def test_a_forked_process_draws_nothing_of_its_parents_and_has_its_own(world):
    if not hasattr(os, "fork"):
        pytest.skip("needs a fork")
    with world.bars.working("the parent's") as mine:
        assert world.after(1)
        child = os.fork()
        if child == 0:
            status = 1
            try:
                assert progress._current_work() is None
                assert not progress._bar_classes
                with world.bars.working("the child's") as own:
                    assert own is not mine
                    assert progress._current_work() is own
                status = 0
            finally:
                os._exit(status)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        assert progress._current_work() is mine
    assert world.over


def test_where_no_thread_can_be_made_there_is_no_bar(monkeypatch):
    def refuse(self):
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(progress.Thread, "start", refuse)
    bars = Bars()
    with bars.working("a question"):
        bars.told(1, 2, "steps")
    assert progress._current_work() is None


def test_its_own_thread_draws_it(monkeypatch):
    pytest.importorskip("tqdm")
    drawn = threading.Event()

    class Told(Terminal):
        def write(self, text):
            drawn.set()
            return super().write(text)

    stream = Told()
    monkeypatch.setattr(sys, "stderr", stream)
    monkeypatch.setattr(progress, "_DELAY", 0.0)
    for _ in range(2):
        drawn.clear()
        with Bars().working("a question"):
            assert drawn.wait(60)
    assert stream.seen[0].startswith("a question [00:00]")
    assert not stream.getvalue().rstrip("\r").rpartition("\r")[2].strip()


# Sessions


DOMAIN = Domain(Integer("age", 0, 9))
TABLE = {"age": [1, 2, 3, 4, 4, 4, 5, 6, 7, 8] * 20}
OTHER = {"age": [9, *TABLE["age"][1:]]}
ASKED = Workload([Threshold("age", k) for k in range(10)])
LEARNT = MWEM(ASKED, epsilon="0.5", rounds=4)


class Told(Bars):
    """Bars that keep what they are told."""

    __slots__ = ("all",)

    def __init__(self):
        self.all = []

    def working(self, what):
        self.all.append(what)
        return super().working(what)

    def told(self, done, total, unit):
        self.all.append((done, total, unit))
        super().told(done, total, unit)


def session(table=TABLE, **given):
    data = PrivateData.from_columns(table, DOMAIN)
    return Session(data, Budget(1), noise=seeded(7), progress=True, **given)


def test_a_session_shows_what_lasts(world):
    seen = []

    def observer(event):
        if isinstance(event, Progress):
            seen.append(event.done)
            world.after(1)

    with session(observer=observer).open(LEARNT) as channel:
        assert world.over
        channel.answer(Count())
    assert seen[0] == 0
    assert seen[-1] == 4
    assert any(line.startswith("opening MWEM(") for line in world.stream.seen)
    assert any("| 4/4 rounds [" in line for line in world.stream.seen)
    assert world.over


def test_progress_is_shown_without_an_observer(world, monkeypatch):
    bars = Told()
    monkeypatch.setattr(Bars, "of", classmethod(lambda cls, progress: bars))
    session().open(LEARNT)
    assert "opening MWEM(" in "".join(one for one in bars.all if isinstance(one, str))
    assert [one for one in bars.all if one[-1] == "rounds"][-1] == (4, 4, "rounds")


def test_neighbours_have_the_same_bars(world, monkeypatch):
    told = []
    for table in (TABLE, OTHER):
        bars = Told()
        monkeypatch.setattr(Bars, "of", classmethod(lambda cls, progress, bars=bars: bars))
        own = session(table)
        own.open(LEARNT).answer(Count())
        own.answer(ASKED)
        own.plan(Count(), error=0.1)
        own.quote(Count(), using=Laplace("0.1"))
        told.append(bars.all)
    assert told[0] == told[1]
    assert len(told[0]) > 10


def test_what_is_refused_stopped_or_interrupted_has_no_bar_left(world):
    def late(*_):
        world.after(1)
        return True

    own = session()
    with pytest.raises(Stopped):
        own.open(LEARNT, stop=late)
    assert world.over

    def interrupt(*_):
        world.after(1)
        raise KeyboardInterrupt

    with pytest.raises((KeyboardInterrupt, Stopped)):
        own.open(LEARNT, stop=interrupt)
    assert world.over
    with pytest.raises(BudgetExceeded):
        own.answer(Count(), using=Laplace(2))
    assert world.stream.seen
    assert world.over


def test_a_session_without_it_shows_nothing(world):
    data = PrivateData.from_columns(TABLE, DOMAIN)
    own = Session(data, Budget(1), noise=seeded(7))
    own.open(LEARNT, stop=lambda told: world.after(5)).answer(Count())
    assert world.woken == 0
    assert world.stream.getvalue() == ""


# Loading


def rows_in(path, count):
    path.write_text("age\n" + "".join(f"{k % 12}\n" for k in range(count)))
    return path


def loaded(world, monkeypatch, path, **given):
    bars = Told()
    monkeypatch.setattr(Bars, "of", classmethod(lambda cls, progress: bars))
    try:
        PrivateData.from_csv(path, DOMAIN, name="t", progress=True, **given)
    except DataError:
        bars.all.append("failed")
    assert world.over
    return bars.all


def test_rows_are_told_at_the_same_numbers_however_long_they_are(world, monkeypatch, tmp_path):
    path = rows_in(tmp_path / "t.csv", 150_000)
    step = 1 << 16
    wanted = ["loading t", (step, None, "rows"), (2 * step, None, "rows")]
    assert loaded(world, monkeypatch, path) == wanted
    lines = path.read_text().splitlines()
    lines[1000] = "x" * 900_000
    path.write_text("\n".join(lines))
    assert loaded(world, monkeypatch, path) == wanted


@pytest.mark.parametrize(
    ("given", "ending"),
    [
        ({"neighbors": Neighbors.ADD_REMOVE}, []),
        ({"unit": PrivacyUnit("age", max_rows=100)}, []),
        ({"outside": "raise"}, ["failed"]),
    ],
)
def test_rows_that_are_private_are_not_told(world, monkeypatch, tmp_path, given, ending):
    path = rows_in(tmp_path / "t.csv", 70_000)
    assert loaded(world, monkeypatch, path, **given) == ["loading t", *ending]


def test_every_loader_shows_that_it_lasts(world, monkeypatch, tmp_path):
    polars = pytest.importorskip("polars")
    frame = polars.DataFrame(TABLE)
    frame.write_parquet(tmp_path / "t.parquet")
    loaders = [
        lambda **given: PrivateData.from_columns(TABLE, DOMAIN, **given),
        lambda **given: PrivateData.from_frame(frame, DOMAIN, **given),
        lambda **given: PrivateData.from_parquet(tmp_path / "t.parquet", DOMAIN, **given),
        lambda **given: PrivateData.from_csv(rows_in(tmp_path / "t.csv", 10), DOMAIN, **given),
    ]
    for number, load in enumerate(loaders, 1):
        load(progress=True, name="t")
        assert world.woken == number
        load(name="t")
        assert world.woken == number
        with pytest.raises(InvalidArgument, match="progress must be True or False"):
            load(progress="yes")


# What it needs


@pytest.mark.parametrize("wrong", [None, 0, 1, "True", [], Bars])
def test_it_is_asked_for_by_true_or_false(wrong):
    data = PrivateData.from_columns(TABLE, DOMAIN)
    with pytest.raises(InvalidArgument, match="progress must be True or False"):
        Session(data, Budget(1), progress=wrong)


def test_without_the_library_it_is_refused_and_nothing_else_is(monkeypatch):
    monkeypatch.setitem(sys.modules, "tqdm", None)
    data = PrivateData.from_columns(TABLE, DOMAIN)
    Session(data, Budget(1), progress=False)
    for ask in (
        lambda: Session(data, Budget(1), progress=True),
        lambda: PrivateData.from_columns(TABLE, DOMAIN, progress=True),
    ):
        with pytest.raises(MissingExtra) as told:
            ask()
        assert told.value == MissingExtra("tqdm", "progress")


def test_no_bar_costs_nothing():
    assert working(None, "a question") is working(None, "another")
