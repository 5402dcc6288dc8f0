"""What the accounting costs in time, and how many queries each filter admits.

python tests/bench/bench_accounting.py [--charges 1000000]

dp-accounting and opendp are compared where they are installed.
"""

import importlib.util
import sys
import time
from fractions import Fraction
from pathlib import Path

import numpy as np
from measuring import arguments

from dpsdk.accounting import (
    AdvancedComposition,
    AnyOf,
    ApproximateGuarantee,
    BasicComposition,
    BoundedRangeGuarantee,
    Budget,
    DiscreteGaussianGuarantee,
    DiscreteLaplaceGuarantee,
    EnvelopeComposition,
    MixedComposition,
    Odometer,
    PureGuarantee,
    ZCDPComposition,
    default_composition,
    optimal_epsilon,
)
from dpsdk.errors import UnsupportedGuarantee

sys.path.insert(0, str(Path(__file__).parents[1]))

from mixtures import table

CASES = [
    (Budget(1, 1e-6), "0.01"),
    (Budget(3, 1e-6), "0.05"),
    (Budget(8, 1e-6), "0.1"),
    (Budget(0.5, 1e-6), "0.05"),
]
COLUMNS = [
    ("basic", BasicComposition()),
    ("advanced", AdvancedComposition()),
    ("zCDP", ZCDPComposition()),
    ("envelope", EnvelopeComposition()),
    ("mixed", MixedComposition()),
    ("default", default_composition()),
    ("basic|envelope", AnyOf((BasicComposition(), EnvelopeComposition()))),
]
KINDS = [
    ("Gaussian", lambda n: DiscreteGaussianGuarantee(10**12 + 7919 * n, 1, 1)),
    ("Laplace", lambda n: DiscreteLaplaceGuarantee(10**7 + Fraction(7919 * n, 1000), 1)),
    ("pure", lambda n: PureGuarantee(Fraction(1000 + n, 10**10))),
    ("bounded range", lambda n: BoundedRangeGuarantee(Fraction(1000 + n, 10**10))),
    ("(ε, δ)", lambda n: ApproximateGuarantee(Fraction(1000 + n, 10**10), Fraction(1, 10**20))),
]
SCALES = 3_000


def first_and_repeated(composition, make):
    """Microseconds a charge: of a scale that was never charged before, and of one that was."""
    times = []
    for runs in ([make(n) for n in range(SCALES)], [make(SCALES) for _ in range(SCALES + 1)]):
        odometer = Odometer(Budget(1, 1e-6), composition)
        if len(runs) > SCALES:
            odometer.charge(runs.pop(), "the first of its scale")
        start = time.thread_time()
        for run in runs:
            odometer.charge(run, "bench")
        times.append((time.thread_time() - start) / SCALES * 1e6)
    return times


def slice_and_draw():
    """Microseconds of a numpy slice and draw, to measure charges by."""
    table, rng = np.arange(2.0), np.random.default_rng(1)
    start = time.thread_time()
    for _ in range(SCALES):
        table[slice(0, 1)].sum() + rng.laplace(scale=10.0)
    return (time.thread_time() - start) / SCALES * 1e6


def charge_times(composition, guarantees, charges):
    """Microseconds a charge, for each tenth of a million charges."""
    odometer = Odometer(Budget(1, 1e-6), composition)
    times = []
    for _ in range(10):
        start = time.perf_counter()
        for place in range(charges // 10):
            odometer.charge(guarantees[place % len(guarantees)], "bench")
        times.append((time.perf_counter() - start) / (charges // 10) * 1e6)
    return times


def largest_count(fits):
    low, high = 0, 1
    while fits(high):
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if fits(middle) else (low, middle)
    return low


def dp_accounting_count(budget, epsilon):
    """Laplace runs admitted by Rényi accounting with the library's default orders."""
    from dp_accounting import LaplaceDpEvent, SelfComposedDpEvent
    from dp_accounting.rdp import RdpAccountant

    def fits(count):
        accountant = RdpAccountant()
        accountant.compose(SelfComposedDpEvent(LaplaceDpEvent(1 / float(epsilon)), count))
        return accountant.get_epsilon(float(budget.delta)) <= float(budget.epsilon)

    return largest_count(fits)


def opendp_count(budget, epsilon):
    """Runs admitted by the library's conversion of a sum of ε²/2."""
    import opendp.prelude as opendp

    opendp.enable_features("contrib")

    def fits(count):
        rho = count * float(epsilon) ** 2 / 2
        space = opendp.vector_domain(opendp.atom_domain(T=int)), opendp.l2_distance(T=int)
        gaussian = opendp.m.make_gaussian(*space, scale=(1 / (2 * rho)) ** 0.5)
        curve = opendp.c.make_zCDP_to_approxDP(gaussian).map(1)
        return curve.epsilon(delta=float(budget.delta)) <= float(budget.epsilon)

    return largest_count(fits)


def main():
    charges = arguments(__doc__, charges=1_000_000).charges
    print(f"time of one charge, over {charges:,} charges (microseconds, by tenths)")
    small = [PureGuarantee(Fraction(1, 10**7))]
    mixed = [PureGuarantee(Fraction(n, 10**9)) for n in range(1, 101)]
    for name, composition in COLUMNS:
        for kind, guarantees in (("one", small), ("100", mixed)):
            times = charge_times(composition, guarantees, charges)
            print(f"  {name:15s} {kind:4s}" + " ".join(f"{value:6.2f}" for value in times))

    print("\nfirst versus repeated: one charge with a new scale, and with one that was charged")
    print("before, in microseconds of processor; a numpy slice-and-draw takes", end=" ")
    print(f"{slice_and_draw():.1f}")
    for name, composition in COLUMNS:
        for kind, make in KINDS:
            try:
                first, repeated = first_and_repeated(composition, make)
            except UnsupportedGuarantee:
                continue
            ratio = first / repeated
            print(f"  {name:15s} {kind:14s}{first:8.1f}{repeated:8.1f}   {ratio:.1f} times")

    print("\nhow often mixtures fit at (1, 1e-6)\n")
    print(table())

    print("\npure queries admitted under full adaptivity")
    print(f"  {'budget':14s} {'each':6s}" + "".join(f"{name:>16s}" for name, _ in COLUMNS))
    for budget, epsilon in CASES:
        counts = [c.capacity(c.begin(budget), PureGuarantee(epsilon)) for _, c in COLUMNS]
        line = "".join(f"{count:16d}" for count in counts if count is not None)
        print(f"  {budget!s:14s} {epsilon:6s}" + line)

    print("\nbeside them, where installed (dp-accounting: Laplace, parameters fixed beforehand)")
    for budget, epsilon in CASES:
        optimum = largest_count(
            lambda count, e=epsilon, b=budget: (
                optimal_epsilon(e, count, b.delta) <= float(b.epsilon)
            )
        )
        texts = [f"optimum if fixed beforehand {optimum}"]
        if importlib.util.find_spec("dp_accounting"):
            texts.append(f"dp-accounting RDP {dp_accounting_count(budget, epsilon)}")
        if importlib.util.find_spec("opendp"):
            texts.append(f"opendp zCDP {opendp_count(budget, epsilon)}")
        print(f"  {budget!s:14s} {epsilon:6s} " + ", ".join(texts))

    print("\ndiscrete Gaussians of variance 25 at (11, 1e-6)")
    for name, composition in COLUMNS:
        if not isinstance(composition, BasicComposition):
            start = composition.begin(Budget(11, 1e-6))
            fits = composition.capacity(start, DiscreteGaussianGuarantee(25, 1, 1))
            print(f"  {name:15s}{fits}")


if __name__ == "__main__":
    main()
