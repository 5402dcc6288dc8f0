"""What a paid run may stand for: never a dearer one, in any state of any composition."""

import itertools
import random
from fractions import Fraction

import pytest

from dpsdk.accounting import (
    AnyOf,
    ApproximateGuarantee,
    BasicComposition,
    BoundedRangeGuarantee,
    Budget,
    DiscreteGaussianGuarantee,
    DiscreteLaplaceGuarantee,
    EnvelopeComposition,
    PureGuarantee,
)
from dpsdk.accounting.filters.composition import NEVER_OPEN
from dpsdk.accounting.prices.covering import cover_of, covers
from dpsdk.errors import UnsupportedGuarantee
from mixtures import compositions

BUDGET = Budget(3, "1e-4")
FILTERS = [
    *compositions(order=20, leak_share="0.5").values(),
    AnyOf((BasicComposition(), EnvelopeComposition("0.5"))),
]
RUNS = [
    *(PureGuarantee(epsilon) for epsilon in ("0", "0.01", "0.1", "0.5", "1")),
    *(
        ApproximateGuarantee(epsilon, delta)
        for epsilon in ("0.01", "0.1", "0.5")
        for delta in ("1e-9", "1e-6")
    ),
    *(
        DiscreteLaplaceGuarantee(scale, shift)
        for scale in (2, 10, Fraction(21, 2), 100)
        for shift in (1, 5)
    ),
    *(BoundedRangeGuarantee(eta) for eta in ("0.01", "0.2", "1")),
    *(
        DiscreteGaussianGuarantee(variance, shift, 1, claim)
        for variance in (1, 64, 80, 4096, 10**5)
        for shift in (1, 4)
        for claim in (None, ("0.5", "1e-6"), ("0.4", "1e-7"))
    ),
    DiscreteGaussianGuarantee(64 * 4**10, 4**10, 2**10),
]
PAIRS = [
    (paid, run) for paid, run in itertools.product(RUNS, RUNS) if paid != run and covers(paid, run)
]


def states(composition):
    """States from fresh to nearly spent."""
    rng = random.Random(4)
    found = [composition.begin(BUDGET)]
    for _ in range(4):
        state = composition.begin(BUDGET)
        for _ in range(rng.randint(1, 60)):
            after = composition.charge(state, PureGuarantee(Fraction(rng.randint(1, 200), 1000)))
            state = state if after is None else after
        found.append(state)
    return found


def further(one, other):
    """Whether a state is at least as far spent as another, in every count."""
    if any(a < b for a, b in zip(one.spent, other.spent, strict=True)):
        return False
    for mine, theirs in zip(one.parts, other.parts, strict=True):
        if mine is None or mine == NEVER_OPEN:
            continue
        if theirs is None or not further(mine, theirs):
            return False
    return True


@pytest.mark.thorough(quick=3)
@pytest.mark.parametrize("composition", FILTERS, ids=lambda c: type(c).__name__)
def test_charging_the_paid_run_is_never_less_than_charging_the_covered_one(composition):
    assert len(PAIRS) > 100
    seen = 0
    for state in states(composition):
        for paid, run in PAIRS:
            try:
                dear = composition.charge(state, paid)
            except UnsupportedGuarantee:
                continue
            if dear is None:
                continue
            try:
                cheap = composition.charge(state, run)
            except UnsupportedGuarantee:
                # What a claim that is implied pays for needs no claim of its own.
                pytest.fail(f"{paid} pays for {run}, which has no price")
            assert further(dear, cheap)
            seen += 1
    assert seen > 50


def test_covering_is_an_order():
    for one in RUNS:
        # Which of those with a guarantee it will be is chosen later, and that is worth something
        # where no single one is the worst of all.
        family = DiscreteGaussianGuarantee | BoundedRangeGuarantee
        assert covers(one, one) is (not isinstance(one, family))
        assert covers(cover_of(one), one) or one.variance < 64
    covered = [{place for place, run in enumerate(RUNS) if covers(one, run)} for one in RUNS]
    for runs in covered:
        for run in runs:
            assert covered[run] <= runs


@pytest.mark.parametrize(
    ("paid", "run"),
    [
        (PureGuarantee(1), DiscreteGaussianGuarantee(10**6, 1, 1)),
        (PureGuarantee(1), ApproximateGuarantee("0.1", "1e-9")),
        (PureGuarantee("0.1"), PureGuarantee("0.11")),
        # A law says more than its epsilon, and `Declared` uses it.
        (DiscreteLaplaceGuarantee(10, 1), PureGuarantee("0.1")),
        (DiscreteLaplaceGuarantee(10, 1), DiscreteLaplaceGuarantee(20, 2)),
        (BoundedRangeGuarantee(1), PureGuarantee("0.1")),
        # Too narrow in steps of its lattice.
        (DiscreteGaussianGuarantee(1, 4, 2), DiscreteGaussianGuarantee("0.51", 1, 1)),
        (DiscreteGaussianGuarantee(64, 4, 2), DiscreteGaussianGuarantee(65, 4, 2)),
        (BoundedRangeGuarantee(1), BoundedRangeGuarantee("0.5")),
        (DiscreteGaussianGuarantee(64, 1, 1), DiscreteGaussianGuarantee(100, 2, 1)),
        # What was paid by a claim serves no run without one as good.
        (
            DiscreteGaussianGuarantee(64, 1, 1, ("0.5", "1e-6")),
            DiscreteGaussianGuarantee(640, 1, 1),
        ),
        (
            DiscreteGaussianGuarantee(64, 1, 1, ("0.5", "1e-6")),
            DiscreteGaussianGuarantee(640, 1, 1, ("0.4", "1e-5")),
        ),
    ],
    ids=str,
)
def test_some_runs_are_covered_by_no_cheaper_look(paid, run):
    assert not covers(paid, run)


def test_more_laplace_noise_is_noise_on_top():
    # At scales s ≤ t the law at t is that at s or, independently, at t added to it.
    for s, t in ((2.0, 3.0), (1.0, 9.0), (5.0, 5.5)):
        import math

        p, q = math.exp(-1 / s), math.exp(-1 / t)
        reach = 400

        def law(base, reach=reach):
            return [(1 - base) / (1 + base) * base ** abs(z) for z in range(-reach, reach + 1)]

        stay = (p / q) * ((1 - q) / (1 - p)) ** 2
        mixed = [(1 - stay) * weight for weight in law(q)]
        mixed[reach] += stay
        narrow = law(p)
        for z in (0, 1, 2, 7):
            total = sum(
                narrow[i] * mixed[z + 2 * reach - i]
                for i in range(2 * reach + 1)
                if 0 <= z + 2 * reach - i <= 2 * reach
            )
            assert total == pytest.approx(law(q)[reach + z], rel=1e-6)
        assert 0 <= stay <= 1


def test_another_class_is_covered_by_nothing():
    class Gift(PureGuarantee):
        free = property(lambda self: True)

    for paid, run in ((PureGuarantee(1), Gift(0)), (Gift(9), PureGuarantee(1))):
        with pytest.raises(UnsupportedGuarantee):
            covers(paid, run)
