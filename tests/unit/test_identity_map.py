"""A value is found by the very object that it was kept for, goes with it, and within its bounds."""

import gc
import sys
import weakref

import pytest

from dpsdk._identity_map import IdentityMap
from parallel import at_once, ended, forked, needs_fork


class Thing:
    """Equal to everything."""

    def __eq__(self, other):
        return True

    def __hash__(self):
        return 1


@pytest.mark.parametrize("bounds", [(), (8, 100)])
def test_a_value_is_found_by_its_object_alone_and_goes_with_it(bounds):
    known, one, other = IdentityMap(*bounds), Thing(), Thing()
    known.keep(one, "one", 10)
    known.keep(one, "again", 20)
    assert known[one] == known.get(one) == "again"
    assert one in known
    assert list(known) == [one]
    for unknown in (other, 1, None):
        assert known.get(unknown) is None
        assert unknown not in known
        with pytest.raises(KeyError):
            known[unknown]
    assert len(known) == 1
    assert known.size == (20 if bounds else 0)
    del one
    gc.collect()
    assert (len(known), known.size) == (0, 0)


def test_the_oldest_go_when_room_is_needed():
    known = IdentityMap(8, 1000)
    things = [Thing() for _ in range(30)]
    for number, thing in enumerate(things):
        known.keep(thing, number, 1)
        assert known.get(thing) == number
        assert len(known) <= 8
    kept = [known.get(thing) is not None for thing in things]
    assert kept == sorted(kept)
    assert sum(kept) >= 6


def test_bytes_are_bounded_and_what_is_too_large_is_not_kept():
    known = IdentityMap(1000, 1000)
    things = [Thing() for _ in range(100)]
    for number, thing in enumerate(things):
        known.keep(thing, number, 37 * number % 300)
        assert known.size <= 1000
        assert known.get(thing) == number
    known.keep(things[0], "large", 1001)
    assert known.get(things[0]) != "large"
    known.keep(things[0], "all of it", 1000)
    assert known.get(things[0]) == "all of it"
    assert known.size == 1000


def test_what_is_gone_leaves_room_for_others():
    known, lasting = IdentityMap(1000, 100), Thing()
    known.keep(lasting, "lasting", 40)
    for _ in range(50):
        passing = Thing()
        known.keep(passing, "passing", 30)
    assert known.get(lasting) == "lasting"


def test_objects_that_cannot_be_watched_are_not_kept():
    known = IdentityMap(8, 100)
    known.keep(7, "seven", 1)
    assert len(known) == 0
    with pytest.raises(TypeError):
        IdentityMap().keep(7, "seven")


def test_a_finaliser_that_keeps_something_waits_for_nobody():
    known, last = IdentityMap(2, 100), Thing()

    class Late:
        def __init__(self):
            self.me = self

        def __del__(self):
            known.keep(last, "late", 1)

    gc.freeze()  # so that each collection looks at these alone
    try:
        for _ in range(50):
            Late()
            known.keep(Thing(), Late(), 1)
            gc.collect()
    finally:
        gc.unfreeze()
    known.keep(last, "last", 1)
    assert known.get(last) == "last"


def test_threads_keep_to_the_bounds_and_find_their_own():
    known, failed = IdentityMap(16, 160), []
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)

    def work(name):
        for number in range(400):
            thing = Thing()
            known.keep(thing, (name, number), 10)
            if known.get(thing) not in {None, (name, number)} or known.size > 160:
                failed.append((name, number))

    try:
        at_once(work, range(4))
    finally:
        sys.setswitchinterval(interval)
    assert not failed
    assert len(known) <= 16
    gc.collect()
    assert known.size == 0


@needs_fork
def test_a_forked_child_does_not_wait_for_a_thread_that_it_lacks():
    known, one = IdentityMap(8, 100), Thing()
    known.keep(one, "one", 1)
    with known._lock:  # as another thread might at this moment
        child = forked(lambda: known.keep(Thing(), "other", 1) or known.get(one) != "one")
    assert ended(child) == 0


def test_a_map_that_nobody_holds_goes_at_once():
    class Value:
        pass

    gc.disable()
    try:
        gone = []
        known, owner, value = IdentityMap(8, 100), Thing(), Value()
        weakref.finalize(value, gone.append, True)
        known.keep(owner, value, 1)
        del known, value
        assert gone == [True]
    finally:
        gc.enable()
