"""The noise of these tests: a test draws the same in every run, whatever ran before it."""

import multiprocessing
import os

import pytest

import luck
from dpsdk import Budget, Session
from dpsdk.mechanisms import Laplace
from dpsdk.noise import DiscreteLaplace, SystemNoise
from dpsdk.queries import Threshold
from worlds import people, table

WIDE = DiscreteLaplace(10**12)
SOURCE = SystemNoise()


def drawn(source=None):
    return (source or SystemNoise()).draw(WIDE, 20).tolist()


@pytest.fixture(scope="module")
def shared():
    return drawn()


@pytest.mark.parametrize("again", [False, True])
def test_what_tests_share_does_not_depend_on_which_asks(again, shared):
    first = drawn()
    luck._bytes.begin("tests/unit/test_luck.py shared 0")
    assert shared == drawn() != first


@pytest.mark.parametrize("before", [0, 1, 5])
def test_what_was_drawn_ahead_for_another_test_is_not_given_out(before):
    released = []
    for earlier in (0, before):
        luck._bytes.begin("another")
        for _ in range(earlier):
            drawn(SOURCE)
        luck._bytes.begin("this")
        released.append([drawn(SOURCE) for _ in range(5)])
    assert released[0] == released[1]


def test_each_name_has_a_stream_of_its_own():
    streams = []
    for name in ("one", "other", "one"):
        luck._bytes.begin(name)
        streams.append([drawn() for _ in range(3)])
    assert streams[0] == streams[2] != streams[1]


def test_it_is_what_sessions_draw_from():
    data = table(people(50, 1))

    def released():
        luck._bytes.begin("a session")
        session = Session(data, Budget(3))
        return [session.answer(Threshold("age", 20), using=Laplace("0.1")) for _ in range(12)]

    first = released()
    assert first == released()
    assert len(set(first)) > 1


def test_a_child_does_not_repeat_its_parent():
    context = multiprocessing.get_context("fork")
    receiver, sender = context.Pipe(duplex=False)
    luck._bytes.begin("a family")
    process = context.Process(target=lambda: sender.send(drawn()))
    process.start()
    theirs = receiver.recv()
    process.join()
    assert theirs != drawn()


def test_a_test_may_still_replace_the_function_of_the_system(monkeypatch):
    monkeypatch.setattr(os, "urandom", bytes)
    assert SystemNoise()._bits(3) == bytes(3)
