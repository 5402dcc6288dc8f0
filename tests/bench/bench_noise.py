"""How fast, how frugal and how silent the noise is, beside numpy and OpenDP in the same run.

The second table has the first draws of a law, which has no table or pool yet, beside those of a law
that was drawn from before, and their ratio; the third the same for whole answers of a session and
for error radii.

The last tables have weighted choices, with their memory, beside exponentials and their sums in
floats of numpy, and how well the time of a choice tells two kinds of levels, or of outcomes, apart:
an AUC of a half is not at all.

Run it as ``python tests/bench/bench_noise.py``; OpenDP is left out where it is not installed. numpy
draws floats of no privacy; OpenDP adds exact integers to a vector. Rates drift with the machine, so
that the ratios are medians over interleaved rounds.
"""

import os
import random
import statistics
import time
import tracemalloc
from fractions import Fraction
from functools import partial

import numpy as np
from measuring import arguments, medians, timed

from dpsdk import Budget, Domain, Integer, PrivateData, Session
from dpsdk.mechanisms import Gaussian, Laplace
from dpsdk.noise import DiscreteGaussian, DiscreteLaplace, Geometric, SystemNoise
from dpsdk.noise.sampler import TABLED, Exponentials, sample
from dpsdk.queries import Count

SCALES = (10, 10 * 2**20)
WIDTHS = (1, 10, 1000, 10 * 2**20, 10**9, 10**15)
SIZES = (1, 10, 100, 1000)
OURS, FLOATS, OPENDP = "dpsdk", "numpy", "opendp"


def cases():
    chosen = {}
    for scale in SCALES:
        chosen[f"laplace {scale}"] = ("laplace", scale, DiscreteLaplace(scale))
        chosen[f"gaussian {scale}"] = ("gaussian", scale, DiscreteGaussian(scale**2))
    return chosen


def opendp_vector(kind, scale, size):
    try:
        import opendp.prelude as dp
    except ImportError:
        return None
    dp.enable_features("contrib")
    space = dp.vector_domain(dp.atom_domain(T=int))
    if kind == "laplace":
        measurement = dp.m.make_laplace(space, dp.l1_distance(T=int), scale=float(scale))
    else:
        measurement = dp.m.make_gaussian(space, dp.l2_distance(T=float), scale=float(scale))
    zeros = [0] * size
    return lambda: measurement(zeros)


def bytes_a_draw(law, size):
    asked = 0

    def counting(count):
        nonlocal asked
        asked += count
        return os.urandom(count)

    sample(Exponentials(counting), law, size, before=TABLED)
    return asked / size


def throughput(size, rounds):
    source, rng = SystemNoise(), np.random.default_rng()
    few = max(1000, size // 100)
    print(f"{'draws per second':18}{OURS:>10}{FLOATS:>10}{OPENDP:>10}", end="")
    print(f"{'x numpy':>10}{'x opendp':>10}{'bytes a draw':>14}")
    for name, (kind, scale, law) in cases().items():
        theirs = opendp_vector(kind, scale, few)
        draw = rng.laplace if kind == "laplace" else rng.normal
        contenders = {
            OURS: (size, lambda law=law: source.draw(law, size)),
            FLOATS: (size, lambda draw=draw, scale=scale: draw(0.0, scale, size)),
        }
        if theirs is not None:
            contenders[OPENDP] = (few, theirs)
        for _, call in contenders.values():
            call()
        rates = {who: [] for who in contenders}
        for _ in range(rounds):
            for who, (count, call) in contenders.items():
                rates[who].append(count / timed(call))

        def ratio(other, rates=rates):
            if other not in rates:
                return float("nan")
            pairs = zip(rates[OURS], rates[other], strict=True)
            return statistics.median(a / b for a, b in pairs)

        median = {who: statistics.median(values) for who, values in rates.items()}
        print(f"{name:18}{median[OURS] / 1e6:9.1f}M{median[FLOATS] / 1e6:9.1f}M", end="")
        print(f"{median.get(OPENDP, float('nan')) / 1e3:9.0f}k", end="")
        print(f"{ratio(FLOATS):10.2f}{ratio(OPENDP):10.0f}{bytes_a_draw(law, size):14.2f}")


def nearby(kind, scale, k):
    near = scale + Fraction(k + 1, 1_000_003)
    if kind == "gaussian":
        return DiscreteGaussian(near**2)
    return DiscreteLaplace(near) if kind == "laplace" else Geometric(near)


def versus(first, repeated, run):
    """Microseconds of calls made once each, of one made again and again, and the ratio.

    Medians over groups of calls, so that a group has its share of what is made ahead: twenty first
    calls, or a `run` of repeated ones. Counts the time of the processor, which other
    processes do not take away.
    """

    def grouped(calls):
        start = time.thread_time()
        for call in calls:
            call()
        return (time.thread_time() - start) / len(calls) * 1e6

    once = statistics.median(grouped(first[i : i + 20]) for i in range(0, len(first), 20))
    again = statistics.median(grouped([repeated] * run) for _ in range(9))
    return f"{once:9.1f} /{again:6.1f} ={once / again:5.1f}x"


def first_uses(laws):
    print()
    print("microseconds of a draw: first of a law / repeated = ratio; and of a radius of new laws")
    print(f"{'':20}" + "".join(f"{f'{size} at a time':>26}" for size in SIZES) + f"{'radius':>9}")
    for kind in ("laplace", "gaussian", "geometric"):
        for scale in WIDTHS:
            source = SystemNoise()
            print(f"{kind} {scale:<10}"[:20].ljust(20), end="", flush=True)
            for size in SIZES:
                new = [nearby(kind, scale, k) for k in range(laws)]
                old = nearby(kind, scale, laws)
                for _ in range(2 * TABLED // size):
                    source.draw(old, size)
                calls = [partial(source.draw, law, size) for law in new]
                again = versus(calls, partial(source.draw, old, size), TABLED // size + 20)
                print(f"{again:>26}", end="", flush=True)
            radii = statistics.median(timed(lambda law=law: law.radius(0.05)) for law in new)
            print(f"{radii * 1e6:9.1f}", flush=True)


def answers(queries):
    """Counting queries of one session, each at a cost of its own, or all at one."""
    print()
    print("microseconds of an answer: first of a cost / repeated = ratio")
    domain = Domain(Integer("age", 17, 90))
    data = PrivateData.from_counts(np.ones(74, dtype=np.int64), domain)
    query = Count(normalized=False)
    for name, using in (
        ("Laplace", lambda k: Laplace(Fraction(1, 10) + Fraction(k, 1_000_003))),
        ("Gaussian", lambda k: Gaussian(rho=Fraction(1, 1000) + Fraction(k, 10**8))),
    ):
        session = Session(data, Budget(epsilon=10**6, delta="0.1"))
        one = using(queries + 1)
        new = [using(k) for k in range(queries)]
        session.answer(query, using=one)
        calls = [lambda m=m, s=session: s.answer(query, using=m) for m in new]
        again = versus(calls, lambda one=one, s=session: s.answer(query, using=one), 100)
        print(f"{name:20}{again}")


def auc(low, high):
    """P(a random entry of `high` exceeds one of `low`), ties counting a half."""
    both = np.concatenate([low, high])
    _, inverse, counts = np.unique(both, return_inverse=True, return_counts=True)
    ranks = (np.cumsum(counts) - (counts - 1) / 2)[inverse]
    return (ranks[len(low) :].sum() - len(high) * (len(high) + 1) / 2) / (len(low) * len(high))


def decile_auc(magnitudes, nanoseconds):
    """How well latency tells the largest tenth of the noise from the smallest."""
    # Ties in random order: in order of time, a drift of the machine would look like a leak.
    shuffled = np.random.default_rng(0).permutation(len(magnitudes))
    order = shuffled[np.argsort(magnitudes[shuffled], kind="stable")]
    tenth = len(order) // 10
    return auc(nanoseconds[order[:tenth]], nanoseconds[order[-tenth:]])


def observe(draw, calls):
    """The median microseconds of a call, and the AUC that its latency gives away."""
    magnitude = np.empty(calls)
    nanoseconds = np.empty(calls)
    for i in range(calls):
        start = time.perf_counter_ns()
        drawn = draw(i)
        nanoseconds[i] = time.perf_counter_ns() - start
        magnitude[i] = abs(drawn[0])
    return float(np.median(nanoseconds)) / 1e3, decile_auc(magnitude, nanoseconds)


def latency(calls):
    print()
    print(f"{'single draws':18}{'us':>10}{'AUC':>10}{'first of a law, us':>22}{'AUC':>10}")
    source = SystemNoise()
    for name, (kind, scale, law) in cases().items():
        for _ in range(5000):
            source.draw(law, 1)
        pooled = observe(lambda _, law=law: source.draw(law, 1), calls)
        laws = [nearby(kind, scale, i) for i in range(calls // 4)]
        first = observe(lambda i, laws=laws: source.draw(laws[i], 1), len(laws))
        print(f"{name:18}{pooled[0]:10.2f}{pooled[1]:10.3f}{first[0]:22.0f}{first[1]:10.3f}")


RATE = Fraction(1, 20)
SOURCE = SystemNoise()


def peak(call):
    tracemalloc.start()
    call()
    reached = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return reached / 2**20


def choices(rounds):
    print(f"{'levels':>12}{'array, ms':>12}{'numpy, ms':>12}{'peak, MiB':>12}{'list, ms':>12}")
    for size in (10, 10**3, 10**6, 10**7):
        levels = np.random.default_rng(0).integers(0, 1000, size)
        pick = lambda levels=levels: SOURCE.pick(levels, RATE)  # noqa: E731
        floats = lambda levels=levels: np.exp(levels * -0.05).cumsum()  # noqa: E731
        count = rounds if size > 10**4 else 100 * rounds
        choice, plainly = medians(count, pick, floats)
        print(f"{size:>12,}{choice * 1e3:12.3f}", end="")
        print(f"{plainly * 1e3:12.3f}{peak(pick):12.1f}", end="")
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


def choose(levels, rate):
    start = time.perf_counter_ns()
    chosen = SOURCE.pick(levels, rate)
    return chosen, time.perf_counter_ns() - start


def choice_times(calls):
    print()
    size = 20_000
    rng = np.random.default_rng(1)
    kinds = {
        "all level": np.zeros(size, dtype=np.int64),
        "near": rng.integers(0, 50, size),
        "far": rng.integers(0, 2**40, size),
        "one far below": np.where(np.arange(size) == 7, 0, 2**60),
    }
    times = {name: [] for name in kinds}
    for _ in range(calls):
        for name, levels in kinds.items():
            times[name].append(choose(levels, RATE)[1])
    base = np.array(times["all level"], dtype=float)
    print(f"{'levels':>16}{'us':>10}{'AUC':>8}")
    for name, taken in times.items():
        told = auc(base, np.array(taken, dtype=float))
        print(f"{name:>16}{statistics.median(taken) / 1e3:10.1f}{told:8.3f}")
    drawn = [choose(kinds["near"], RATE) for _ in range(8 * calls)]
    low = np.array([t for chosen, t in drawn if chosen < size // 4], dtype=float)
    high = np.array([t for chosen, t in drawn if chosen >= 3 * size // 4], dtype=float)
    print(f"first against last quarter of the options: AUC {auc(low, high):.3f}")


def main():
    given = arguments(__doc__, size=1_000_000, rounds=15, calls=100_000)
    throughput(given.size, given.rounds)
    first_uses(given.calls // 500)
    answers(given.calls // 250)
    latency(given.calls)
    choices(given.rounds // 2)
    choice_times(given.calls // 50)


if __name__ == "__main__":
    main()
