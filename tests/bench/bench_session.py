"""What a session adds to bare numpy.

python tests/bench/bench_session.py [--queries 10000] [--workload 100000]

Every figure is of this one run, on docs/examples/adult.csv.gz.
"""

import itertools
import platform
import time
from fractions import Fraction

import numpy as np
from measuring import EXAMPLES, arguments, example, title

from dpsdk import Budget, Domain, PrivateData, Session
from dpsdk.accounting import (
    BasicComposition,
    DiscreteGaussianGuarantee,
    DiscreteLaplaceGuarantee,
    Odometer,
    default_composition,
)
from dpsdk.mechanisms import Gaussian, Laplace
from dpsdk.queries import Conjunction, Count, Workload

DOMAIN = Domain.load(EXAMPLES / "adult-domain.json")
DATA = PrivateData.from_csv(EXAMPLES / "adult.csv.gz", DOMAIN, name="adult")
BETA = 0.05


def columns():
    """The columns as cell numbers, read with none of the package's own loading."""
    numbers = {}
    for name, values in example().items():
        cells = {DOMAIN[name].text(i): i for i in range(DOMAIN[name].size)}
        numbers[name] = np.array([cells[value] for value in values])
    return numbers


COLUMNS = columns()


def table_of(names):
    counts = np.zeros([DOMAIN[name].size for name in names])
    np.add.at(counts, tuple(COLUMNS[name] for name in names), 1)
    return counts


def conjunctions(count):
    """Conditions on one to three attributes, each beside the slices that it stands for."""
    rng = np.random.default_rng(20)
    for _ in range(count):
        size = rng.integers(1, 4)
        places = sorted(rng.choice(len(DOMAIN.names), size=size, replace=False))
        names = tuple(DOMAIN.names[place] for place in places)
        wanted = {}
        slices = []
        for name in names:
            attribute = DOMAIN[name]
            if attribute.ordered:
                low, high = sorted(rng.integers(0, attribute.size, size=2).tolist())
                wanted[name] = range(attribute.label(low), attribute.label(high) + 1)
                slices.append(slice(low, high + 1))
            else:
                index = int(rng.integers(attribute.size))
                wanted[name] = attribute.label(index)
                slices.append(slice(index, index + 1))
        yield Conjunction(wanted), names, tuple(slices)


def single_queries(count):
    title(f"{count:,} single counting queries, each its own charge (basic composition)")
    asked = list(conjunctions(count))
    tables = {names: table_of(names) for names in {names for _, names, _ in asked}}
    session = Session(DATA, Budget(epsilon=count), composition=BasicComposition())
    mechanism = Laplace(epsilon="0.1")
    tenths = np.array_split(np.arange(count), 10)

    def through_session(place):
        return session.answer(asked[place][0], using=mechanism)

    rng = np.random.default_rng(1)
    rows_there = len(COLUMNS["age"])

    def bare(place):
        _, names, slices = asked[place]
        return (tables[names][slices].sum() + rng.laplace(scale=10.0)) / rows_there

    def timed(ask):
        each = []
        for tenth in tenths:
            start = time.perf_counter()
            for place in tenth.tolist():
                ask(place)
            each.append((time.perf_counter() - start) / len(tenth) * 1e6)
        return each

    for label, each in (("session", timed(through_session)), ("bare numpy", timed(bare))):
        shown = " ".join(f"{value:6.1f}" for value in each)
        print(
            f"{label:<11} {np.mean(each):6.1f} µs a query on average; by tenths of the run: {shown}"
        )
        if label == "session":
            ours = float(np.median(each))
            growth = each[-1] / float(np.median(each[1:]))
    print(f"ratio of median tenths {ours / np.median(each):.1f};", end=" ")
    print(f"the session's last tenth took {growth:.2f} times its median one")
    assert session.spent.charges == count


def cpu_times(ways, rounds, each):
    """Microseconds of processor a call, the least of some rounds in which the ways take turns."""
    least = [float("inf")] * len(ways)
    for turn in range(rounds):
        for number, way in enumerate(ways):
            start = time.thread_time()
            for place in range(turn * each, (turn + 1) * each):
                way(place)
            spent = (time.thread_time() - start) / each * 1e6
            least[number] = min(least[number], spent)
    return least


def first_versus_repeated(rounds=8, each=500):
    title(f"First versus repeated: one count, {rounds * each:,} scales, µs of processor")
    count = Count(where={"sex": "Female"}, normalized=False)
    table, rng = table_of(("sex",)), np.random.default_rng(1)
    places = [slice(0, 1)] * (rounds * each)
    rows_there = len(COLUMNS["age"])

    def bare(place):
        return (table[places[place]].sum() + rng.laplace(scale=10.0)) / rows_there

    (slice_and_draw,) = cpu_times([bare], rounds, each)
    print(f"numpy slice-and-draw {slice_and_draw:.2f}")
    print(f"{'':<8}{'composition':<13}{'scale':<10}{'first':>8}{'repeated':>10}", end="")
    print(f"{'first/rep.':>12}{'rep./numpy':>12}")
    # Scales that no other line has asked for.
    amount = (Fraction(10**6 + 7919 * number, 10**8) for number in itertools.count())
    for name, composition in (("basic", BasicComposition()), ("default", default_composition())):
        for kind in (Laplace, Gaussian):
            if kind is Gaussian and name == "basic":
                continue  # which does not price a bare ρ
            for what in ("charge", "answer"):
                sizes = [next(amount) for _ in range(rounds * each + 1)]
                made = [
                    Laplace(size) if kind is Laplace else Gaussian(rho=size / 1000)
                    for size in sizes
                ]
                session = Session(DATA, Budget(10**6, "0.1"), composition=composition)
                odometer = Odometer(Budget(10**6, "0.1"), composition)
                runs = [
                    DiscreteLaplaceGuarantee(1 / size, 1)
                    if kind is Laplace
                    else DiscreteGaussianGuarantee(500 / size, 1, 1)
                    for size in sizes
                ]

                def charge(place, odometer=odometer, runs=runs):
                    return odometer.charge(runs[place], "bench")

                def answer(place, session=session, made=made):
                    return session.answer(count, using=made[place])

                way = charge if what == "charge" else answer
                way(rounds * each)
                first, again = cpu_times([way, lambda _, w=way: w(rounds * each)], rounds, each)
                print(f"{what:<8}{name:<13}{kind.__name__:<10}{first:8.1f}{again:10.1f}", end="")
                print(f"{first / again:12.2f}{again / slice_and_draw:12.1f}")


def one_workload(count):
    title(f"{count:,} conjunctions as one workload (Gaussian, rho = 0.01)")
    start = time.perf_counter()
    queries = [query for query, _, _ in conjunctions(count)]
    built = time.perf_counter()
    session = Session(DATA, Budget(epsilon=1, delta=1e-6))
    release = session.release(Workload(queries), using=Gaussian(rho="0.01"))
    first = time.perf_counter()
    values = release.value.values
    done = time.perf_counter()
    print(f"the queries themselves: {built - start:.2f} s to make")
    print(f"lowered, priced, charged, measured and lifted: {first - built:.2f} s,", end=" ")
    print(f"{(first - built) / count * 1e6:.1f} µs a query; as one array {done - first:.2f} s more")
    print(f"error bound for all at once {release.error(BETA):.4f} (a share), {release.cost}")
    assert len(values) == count


def main():
    given = arguments(__doc__, queries=10_000, workload=100_000)
    print(f"Python {platform.python_version()}, numpy {np.__version__}, {DATA!r}")
    single_queries(given.queries)
    first_versus_repeated()
    one_workload(given.workload)


if __name__ == "__main__":
    main()
