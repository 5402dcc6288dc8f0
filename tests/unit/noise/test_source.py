import copy
import multiprocessing
import os
import pickle
import threading
from fractions import Fraction

import numpy as np
import pytest

import dpsdk.noise.source as source_module
from dpsdk.errors import InvalidArgument, Redacted
from dpsdk.noise import DiscreteLaplace, SystemNoise, discrete_gaussian, discrete_laplace
from dpsdk.testing.noise import SeededNoise, seeded
from parallel import at_once, needs_fork

WIDE = DiscreteLaplace(2**50)
"""Equal draws of it do not happen by chance: two agree with probability below 2^-51."""


def repeated(*draws):
    """How many values occur more than once, in one list or in several."""
    everything = [value for part in draws for value in part]
    return len(everything) - len(set(everything))


def singles(source, count):
    return [int(source.draw(WIDE, 1)[0]) for _ in range(count)]


def test_single_draws_never_repeat_across_pools():
    assert repeated(singles(SystemNoise(), 20_000)) == 0


@pytest.mark.thorough(quick=1)
@pytest.mark.parametrize("source", [SystemNoise, lambda: seeded(10)], ids=["system", "seeded"])
def test_no_sizes_share_a_draw(source):
    edges = [n + d for n in (1, 2, 4, 8, 16, 32, 64, 128, 256, 4096) for d in (-1, 0, 1)]
    sizes = np.random.default_rng(6).permutation(edges * 30).tolist()
    shared = source()
    draws = [shared.draw(WIDE, size).tolist() for size in sizes]
    assert [len(part) for part in draws] == sizes
    assert repeated(*draws) == 0


def test_a_pool_serves_sizes_in_turn():
    source = SystemNoise()
    draws = [source.draw(WIDE, size).tolist() for size in (1, 5, 127, 3, 40, 1, 100, 64, 2) * 20]
    assert [len(part) for part in draws[:9]] == [1, 5, 127, 3, 40, 1, 100, 64, 2]
    assert repeated(*draws) == 0


@pytest.mark.parametrize("size", [1, 100, 5000])
def test_draws_are_a_function_of_the_bytes_of_the_system_alone(monkeypatch, size):
    def replay():
        monkeypatch.setattr(source_module.os, "urandom", seeded(9)._bits)
        return SystemNoise().draw(WIDE, size)

    assert np.array_equal(replay(), replay())
    assert repeated(replay().tolist()) == 0


@pytest.mark.parametrize("make", [SystemNoise, lambda: seeded(3)], ids=["system", "seeded"])
def test_threads_never_get_the_same_draw(make):
    source = make()
    results = [[] for _ in range(8)]
    start = threading.Barrier(8)

    def work(mine):
        start.wait()
        mine.extend(singles(source, 3000))

    at_once(work, results)
    assert [len(mine) for mine in results] == [3000] * 8
    assert repeated(*results) == 0


def send_singles(sender, source, parent=None):
    if parent is not None:  # as if the system gave the number of the parent once more
        source_module.os.getpid = lambda: parent
    sender.send(singles(source or SystemNoise(), 500))
    sender.close()


def started(way, *given):
    """A process that draws, and what receives its draws."""
    context = multiprocessing.get_context(way)
    receiver, sender = context.Pipe(duplex=False)
    process = context.Process(target=send_singles, args=(sender, *given))
    process.start()
    return process, receiver


def received(process, receiver):
    assert receiver.poll(20)
    drawn = receiver.recv()
    process.join()
    return drawn


@needs_fork
def test_forked_children_share_no_draw_with_each_other_or_the_parent():
    source = SystemNoise()
    before = singles(source, 500)
    # The last has the number of its parent.
    processes = [started("fork", source, pid) for pid in (None, None, None, os.getpid())]
    after = singles(source, 500)
    assert repeated(before, after, *[received(*one) for one in processes]) == 0


@pytest.mark.thorough
@needs_fork
def test_a_child_forked_while_a_thread_draws_can_draw():
    source = SystemNoise()
    done = threading.Event()
    drawn = []

    def work():
        while not done.is_set():
            drawn.extend(singles(source, 50))

    thread = threading.Thread(target=work)
    thread.start()
    theirs = [received(*started("fork", source)) for _ in range(5)]
    done.set()
    thread.join()
    assert repeated(drawn, *theirs) == 0


def test_a_draw_in_the_middle_of_a_draw_repeats_nothing():
    # As a finaliser or the handler of a signal makes one: it must neither wait for the draw that
    # it came upon nor take what that draw takes.
    class Nested(SeededNoise):
        def __init__(self):
            super().__init__(8)
            self.inner = []
            self.asleep = False

        def _bits(self, count):
            if not getattr(self, "asleep", True):
                self.asleep = True
                self.inner += [int(self.draw(WIDE, 1)[0]) for _ in range(20)]
                self.asleep = False
            return super()._bits(count)

    source = Nested()
    outer = singles(source, 3000)
    assert len(source.inner) >= 40
    assert repeated(outer, source.inner) == 0


@pytest.mark.parametrize("size", [1, 10, 200])
def test_an_interrupted_refill_repeats_nothing(size):
    class Interrupting(SeededNoise):
        left = 0

        def _bits(self, count):
            self.left -= 1
            if self.left == 0:
                raise KeyboardInterrupt
            return super()._bits(count)

    source = Interrupting(9)
    seen = []
    interrupted = 0
    for after in range(1, 30):
        source.left = after % 11 + 1
        try:
            while len(seen) < 1000 * after:
                seen += source.draw(WIDE, size).tolist()
        except KeyboardInterrupt:
            interrupted += 1
    assert interrupted > 10
    assert repeated(seen) == 0


def test_a_pool_of_another_process_is_dropped(monkeypatch):
    source = SystemNoise()
    singles(source, 20)
    (pool,) = source._pools._pools.values()
    inherited = set(pool.drawn.tolist())
    monkeypatch.setattr(source_module.os, "getpid", lambda: -1)
    assert not inherited & set(singles(source, 200))


@pytest.mark.thorough
def test_spawned_children_share_no_draw():
    theirs = received(*started("spawn", None))
    assert repeated(theirs, singles(SystemNoise(), 500)) == 0


def test_old_pools_are_dropped(monkeypatch):
    clock = [100.0]
    monkeypatch.setattr(source_module.time, "monotonic", lambda: clock[0])
    source = SystemNoise()
    singles(source, 20)
    (pool,) = source._pools._pools.values()
    left = {int(pool.drawn[part]) for part in pool.parts} | set(source._pools._exponentials._words)
    clock[0] += 5.1
    assert left
    assert not left & set(singles(source, 200))


def test_pools_are_few_and_bounded():
    source = SystemNoise()
    for scale in range(1, 200):
        source.draw(DiscreteLaplace(scale), 1)
    singles(source, 30_000)
    assert len(source._pools._pools) <= 64
    assert max(len(pool.drawn) for pool in source._pools._pools.values()) <= 4096


@pytest.mark.parametrize("make", [SystemNoise, lambda: seeded(1)], ids=["system", "seeded"])
@pytest.mark.parametrize("attempt", [copy.copy, copy.deepcopy, pickle.dumps])
def test_sources_refuse_to_be_copied(make, attempt):
    with pytest.raises(Redacted, match="copying or pickling"):
        attempt(make())


def test_the_same_seed_repeats_and_another_does_not():
    sizes = (1, 3, 1000, 0, 200, 1)
    same = [np.concatenate([s.draw(WIDE, n) for n in sizes]) for s in (seeded(7), seeded(7))]
    assert np.array_equal(*same)
    assert repeated(same[0].tolist(), seeded(8).draw(WIDE, 1000).tolist()) == 0


def test_seeded_draws_do_not_depend_on_what_ran_before():
    law = DiscreteLaplace("123.456")
    first = seeded(5).draw(law, 10)
    seeded(6).draw(law, 5000)
    assert np.array_equal(first, seeded(5).draw(law, 10))


def test_functions_for_use_alone_take_decimal_text():
    assert discrete_laplace("0.001", 500).tolist() == [0] * 500
    assert discrete_gaussian("0.001", 500).tolist() == [0] * 500
    assert np.abs(discrete_laplace(Fraction(1000), 2000)).mean() == pytest.approx(1000, rel=0.25)
    assert discrete_gaussian(1000, 2000).std() == pytest.approx(1000, rel=0.25)


def test_uniform_below_is_uniform_and_refuses_0():
    source = seeded(4)
    counts = np.bincount([source.uniform_below(5) for _ in range(20_000)], minlength=5)
    assert ((counts - 4000) ** 2 / 4000).sum() < 24  # chi-square of 4, p about 10^-4
    assert source.uniform_below(1) == 0
    assert 0 <= source.uniform_below(10**50) < 10**50


@pytest.mark.parametrize(
    ("call", "named"),
    [
        (lambda source: source.uniform_below(0), "n must be"),
        (lambda source: source.bernoulli_exp(Fraction(-1)), "x must be"),
        (lambda source: source.bernoulli_exp_array(np.array([1, -1]), 2), "numerators"),
        (lambda source: source.bernoulli_exp_array(np.array([1, 1]), 0), "denominator"),
        *((lambda source, n=n: source.draw(WIDE, n), "size") for n in (-1, 1.5, True, "3")),
    ],
)
@pytest.mark.parametrize("source", [SystemNoise(), seeded(1)], ids=["system", "seeded"])
def test_what_is_out_of_range_is_refused_by_name(source, call, named):
    with pytest.raises(InvalidArgument, match=named):
        call(source)


def test_the_seeded_class_is_what_seeded_returns_and_is_not_private():
    assert isinstance(seeded(-3), SeededNoise)
    assert (SystemNoise().private, seeded(1).private) == (True, False)
    with pytest.raises(InvalidArgument, match="seed"):
        seeded(1.5)
