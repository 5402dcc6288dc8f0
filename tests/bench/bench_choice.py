"""How long a weighted choice takes, in what memory, and what its time tells.

Run it as ``python tests/bench/bench_choice.py``. Beside each time stands that of the exponentials
and their sums in numpy's floats, which are not private. The AUC says how well the time of a choice
tells two kinds of levels, or two kinds of outcomes, apart: a half is not at all.
"""

import random
import statistics
import time
import tracemalloc
from fractions import Fraction

import numpy as np
from bench_noise import auc
from measuring import arguments, medians

from dpsdk.noise import SystemNoise

RATE = Fraction(1, 20)
SOURCE = SystemNoise()


def peak(call):
    tracemalloc.start()
    call()
    reached = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return reached / 2**20


def sizes(rounds):
    print(f"{'levels':>12}{'array, ms':>12}{'numpy, ms':>12}{'peak, MiB':>12}{'list, ms':>12}")
    for size in (10, 10**3, 10**6, 10**7):
        levels = np.random.default_rng(0).integers(0, 1000, size)
        choose = lambda levels=levels: SOURCE.pick(levels, RATE)  # noqa: E731
        floats = lambda levels=levels: np.exp(levels * -0.05).cumsum()  # noqa: E731
        count = rounds if size > 10**4 else 100 * rounds
        choice, plainly = medians(count, choose, floats)
        print(f"{size:>12,}{choice * 1e3:12.3f}", end="")
        print(f"{plainly * 1e3:12.3f}{peak(choose):12.1f}", end="")
        if size <= 10**6:
            plain = levels.tolist()
            (slow,) = medians(max(3, count // 10), lambda plain=plain: SOURCE.pick(plain, RATE))
            print(f"{slow * 1e3:12.3f}", end="")
        print()
    print()
    print(f"{'levels':>12}{'bits':>12}{'ms':>12}")
    for size, bits in ((10**3, 60), (10**6, 60), (10**4, 1000), (10**4, 10_000), (10**3, 10**5)):
        counts = [random.getrandbits(bits) | 1 for _ in range(size)]
        levels = np.arange(size)
        pick = lambda levels=levels, counts=counts: SOURCE.pick(levels, RATE, counts)  # noqa: E731
        (took,) = medians(rounds, pick)
        print(f"{size:>12,}{bits:>12,}{took * 1e3:12.3f}")


def timed(levels, rate):
    start = time.perf_counter_ns()
    chosen = SOURCE.pick(levels, rate)
    return chosen, time.perf_counter_ns() - start


def silence(calls):
    print()
    size = 20_000
    rng = np.random.default_rng(1)
    kinds = {
        "all level": np.zeros(size, dtype=np.int64),
        "near": rng.integers(0, 50, size),
        "far": rng.integers(0, 2**40, size),
        "one far below": np.where(np.arange(size) == 7, 0, 2**60),
    }
    times: dict[str, list[int]] = {name: [] for name in kinds}
    for _ in range(calls):
        for name, levels in kinds.items():
            times[name].append(timed(levels, RATE)[1])
    base = np.array(times["all level"], dtype=float)
    print(f"{'levels':>16}{'us':>10}{'AUC':>8}")
    for name, taken in times.items():
        told = auc(base, np.array(taken, dtype=float))
        print(f"{name:>16}{statistics.median(taken) / 1e3:10.1f}{told:8.3f}")
    drawn = [timed(kinds["near"], RATE) for _ in range(8 * calls)]
    low = np.array([t for chosen, t in drawn if chosen < size // 4], dtype=float)
    high = np.array([t for chosen, t in drawn if chosen >= 3 * size // 4], dtype=float)
    print(f"first against last quarter of the options: AUC {auc(low, high):.3f}")


def main():
    given = arguments(__doc__, rounds=7, calls=2000)
    sizes(given.rounds)
    silence(given.calls)


if __name__ == "__main__":
    main()
