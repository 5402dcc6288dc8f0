"""No two processes draw the same noise; a source with state of its own is found out."""

import multiprocessing
import os
import random

import pytest

from dpsdk.noise import DiscreteLaplace, NoiseSource, SystemNoise

pytestmark = pytest.mark.thorough

LAW = DiscreteLaplace(1000)
RUNS, LENGTH = 200, 8


class UserSpaceState(NoiseSource):
    """A canary: a generator whose state a fork copies."""

    def __init__(self):
        self._generator = random.Random(os.urandom(16))

    @property
    def private(self):
        return True

    def _bits(self, count):
        return self._generator.randbytes(count)


def runs_of(source: NoiseSource) -> list[tuple[int, ...]]:
    return [tuple(source.draw(LAW, 1)[0] for _ in range(LENGTH)) for _ in range(RUNS)]


def repeats_after_fork(source: NoiseSource, children: int = 3) -> bool:
    source.draw(LAW, 1)  # fill whatever pool there is before forking
    context = multiprocessing.get_context("fork")
    queue = context.SimpleQueue()

    def child() -> None:
        queue.put(runs_of(source))

    processes = [context.Process(target=child) for _ in range(children)]
    for process in processes:
        process.start()
    drawn = [run for _ in processes for run in queue.get()] + runs_of(source)
    for process in processes:
        process.join()
    return len(set(drawn)) < len(drawn)


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_forked_processes_draw_noise_of_their_own():
    assert not repeats_after_fork(SystemNoise())


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_source_with_a_state_of_its_own_is_caught():
    assert repeats_after_fork(UserSpaceState())
