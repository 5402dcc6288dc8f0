"""A memo is found by the very object, goes with it, and stays within its bounds."""

import gc
import os
import sys
import threading

import pytest

from dpsdk._memo import Memo

pytestmark = pytest.mark.thorough


class Thing:
    """Equal to everything."""

    def __eq__(self, other):
        return True

    def __hash__(self):
        return 1


def test_a_value_is_found_by_its_object_alone_and_goes_with_it():
    memo, one, other = Memo(8, 100), Thing(), Thing()
    memo.keep(one, "one", 10)
    assert memo.get(one) == "one"
    assert memo.get(other) is None
    memo.keep(one, "again", 20)
    assert memo.get(one) == "again"
    assert (len(memo), memo.size) == (1, 20)
    del one
    gc.collect()
    assert (len(memo), memo.size) == (0, 0)


def test_the_oldest_go_when_room_is_needed():
    memo = Memo(8, 1000)
    things = [Thing() for _ in range(30)]
    for number, thing in enumerate(things):
        memo.keep(thing, number, 1)
        assert memo.get(thing) == number
        assert len(memo) <= 8
    kept = [memo.get(thing) is not None for thing in things]
    assert kept == sorted(kept)
    assert sum(kept) >= 6


def test_bytes_are_bounded_and_what_is_too_large_is_not_kept():
    memo = Memo(1000, 1000)
    things = [Thing() for _ in range(100)]
    for number, thing in enumerate(things):
        memo.keep(thing, number, 37 * number % 300)
        assert memo.size <= 1000
        assert memo.get(thing) == number
    small = Thing()
    memo.keep(small, "small", 1)
    memo.keep(things[0], "large", 1001)
    assert memo.get(things[0]) != "large"
    assert memo.get(small) == "small"
    memo.keep(things[0], "all of it", 1000)
    assert memo.get(things[0]) == "all of it"
    assert memo.size == 1000


def test_what_is_gone_leaves_room_for_others():
    memo = Memo(1000, 100)
    for _ in range(50):
        thing = Thing()
        memo.keep(thing, "short", 60)
        assert memo.get(thing) == "short"
    lasting = Thing()
    memo.keep(lasting, "lasting", 40)
    del thing
    for _ in range(50):
        passing = Thing()
        memo.keep(passing, "passing", 30)
    assert memo.get(lasting) == "lasting"


def test_objects_that_cannot_be_watched_are_not_kept():
    memo = Memo(8, 100)
    memo.keep(7, "seven", 1)
    memo.keep((), "nothing", 1)
    assert len(memo) == 0


def test_a_finaliser_that_keeps_something_waits_for_nobody():
    memo, last = Memo(2, 100), Thing()

    class Late:
        def __init__(self):
            self.me = self

        def __del__(self):
            memo.keep(last, "late", 1)

    gc.freeze()  # so that each collection looks at these alone
    try:
        for _ in range(50):
            Late()
            memo.keep(Thing(), Late(), 1)
            gc.collect()
    finally:
        gc.unfreeze()
    memo.keep(last, "last", 1)
    assert memo.get(last) == "last"


def test_threads_keep_to_the_bounds_and_find_their_own():
    memo, failed = Memo(16, 160), []
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)

    def work(name):
        for number in range(400):
            thing = Thing()
            memo.keep(thing, (name, number), 10)
            if memo.get(thing) not in {None, (name, number)} or memo.size > 160:
                failed.append((name, number))

    try:
        workers = [threading.Thread(target=work, args=(n,), daemon=True) for n in range(4)]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join(timeout=60)
    finally:
        sys.setswitchinterval(interval)
    assert not failed
    assert len(memo) <= 16
    gc.collect()
    assert memo.size == 0


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore:.*multi-threaded:DeprecationWarning")
def test_a_forked_child_does_not_wait_for_a_thread_that_it_lacks():
    memo, one, other = Memo(8, 100), Thing(), Thing()
    memo.keep(one, "one", 1)
    inside, done = threading.Event(), threading.Event()

    def hold():
        inside.set()
        done.wait(timeout=30)

    holder = threading.Thread(target=memo._turns.take, args=(hold,), daemon=True)
    holder.start()
    inside.wait(timeout=30)
    child = os.fork()
    if not child:
        try:
            memo.keep(other, "other", 1)
            right = memo.get(one) == "one" and memo.get(other) == "other"
        except BaseException:
            right = False
        os._exit(0 if right else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    done.set()
    holder.join(timeout=30)


def test_a_memo_that_nobody_holds_goes_at_once():
    class Value:
        pass

    gc.disable()
    try:
        gone = []
        memo, owner, value = Memo(8, 100), Thing(), Value()
        import weakref

        weakref.finalize(value, gone.append, True)
        memo.keep(owner, value, 1)
        del memo, value
        assert gone == [True]
    finally:
        gc.enable()
