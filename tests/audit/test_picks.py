"""The audit follows weighted choices: exactly where it enumerates, alike where it replays."""

import logging
import math
from collections.abc import Hashable
from fractions import Fraction
from typing import Literal

import mpmath as mp
import numpy as np
import pytest
from canaries import BIT, ONE, Twin, by_name, canaries, cells, count

from dpsdk import Neighbors, PrivateData
from dpsdk.accounting.guarantee import BoundedRangeGuarantee
from dpsdk.errors import InvalidArgument
from dpsdk.noise import NoiseSource
from dpsdk.testing import seeded
from dpsdk.testing.audit import (
    BranchingNoise,
    Program,
    enumerate_law,
    record,
    sample,
    tables,
    worst_epsilon,
)
from dpsdk.testing.audit.enumeration import TooManyPaths

pytestmark = pytest.mark.thorough

HALF = Fraction(1, 2)

RANGE = BoundedRangeGuarantee(1)
"""What rate 1/2 costs where one row moves levels by one each: log odds move by one at the most."""


def largest(
    rate: Fraction = HALF,
    *,
    off_at: int | None = None,
    ties: Literal["kept", "dropped"] = "kept",
    weights: Literal["exact", "rounded"] = "exact",
) -> Program:
    """Which cell is the largest, by the exponential mechanism."""

    def run(data: PrivateData, noise: NoiseSource) -> int:
        levels = [-cell for cell in cells(data)]
        if off_at is not None:
            levels[1] += levels[1] == -off_at
        multiplicities = [1, 0 if ties == "dropped" and levels[0] == levels[1] else 1]
        if weights == "rounded":
            rounded = [round(1024 * math.exp(-rate * (x - min(levels)))) for x in levels]
            return int(noise.uniform_below(sum(rounded)) >= rounded[0])
        return noise.pick(levels, rate, multiplicities)

    return run


def nearest(*, multiplicities: bool = True, per: int = 1) -> Program:
    """Of the numbers 0 to 3 one near the count: first how far from it, then which one."""

    def run(data: PrivateData, noise: NoiseSource) -> int:
        far = [abs(count(data) - y) // per for y in range(4)]
        levels = sorted(set(far))
        sizes = [far.count(level) for level in levels]
        level = levels[noise.pick(np.array(levels), HALF, sizes if multiplicities else None)]
        return [y for y in range(4) if far[y] == level][noise.uniform_below(far.count(level))]

    return run


def chosen_and_logged(rate: Literal["public", "by the rows"], options: int | None = 2) -> Program:
    """A choice that is told, so that what follows may depend on it."""

    def run(data: PrivateData, noise: NoiseSource) -> Hashable:
        levels = [-cell for cell in cells(data)]
        if options is None and not count(data):
            levels.append(10)
        slope = HALF if rate == "public" or count(data) else Fraction(1, 3)
        which = noise.pick(levels, slope)
        logging.getLogger("canary").debug("cell %d was chosen", which)
        return which

    return run


def worst_gap(
    rate: Fraction = HALF / 2,
    *,
    candidates: Literal["all", "far"] = "all",
    scores: Literal["integers", "floats"] = "integers",
    noisy: bool = True,
) -> Program:
    """Which of two functions with values in [-1, 1] is off the most; each moves by two."""

    def run(data: PrivateData, noise: NoiseSource) -> int:
        zeros, ones = cells(data)
        gaps = [abs(ones - zeros), abs(ones - zeros - 2)]
        if scores == "floats":
            far = 2**26  # from here on floats of 32 bits are eight apart
            gaps = [int(np.float32(gap + far)) - far for gap in gaps]
        if candidates == "far" and min(gaps) == 0:
            gaps = [gap or -(10**6) for gap in gaps]
        return noise.pick([-gap for gap in gaps], rate) if noisy else int(gaps[1] > gaps[0])

    return run


EXACTLY = pytest.approx(1, rel=1e-12)
"""Anything dearer would show."""

TWINS = (
    Twin(
        "worst of signed functions",
        worst_gap(),
        RANGE,
        {
            "sensitivity of one": worst_gap(HALF),
            "only those that are off": worst_gap(candidates="far"),
            "scores in floats": worst_gap(scores="floats"),
            "unpaid": worst_gap(noisy=False),
        },
        rows=3,
        exact=EXACTLY,
    ),
    Twin(
        "largest cell",
        largest(),
        RANGE,
        {
            "rate doubled": largest(Fraction(1)),
            "rate a thousandth too large": largest(HALF * Fraction(1001, 1000)),
            "weights rounded": largest(weights="rounded"),
            "ties dropped": largest(ties="dropped"),
            "one level off by one": largest(off_at=0),
        },
        exact=EXACTLY,
    ),
    Twin(
        "level, then option",
        nearest(),
        RANGE,
        {"multiplicities ignored": nearest(multiplicities=False)},
        relation=Neighbors.ADD_REMOVE,
        exact=EXACTLY,
    ),
    Twin(
        "choices",
        chosen_and_logged("public"),
        ONE,
        {
            "rate by the rows": chosen_and_logged("by the rows"),
            "another number of options": chosen_and_logged("public", None),
        },
        "G",
    ),
)


@pytest.mark.parametrize("twin", by_name(TWINS))
def test_the_correct_twin_passes(twin):
    twin.check_correct()


@pytest.mark.parametrize(("twin", "broken"), canaries(TWINS))
def test_the_canary_is_caught(twin, broken):
    twin.check_caught(broken)


def test_sampling_passes_the_correct_twin_and_catches_the_canary():
    one, other = next(
        (a, b) for a, b in TWINS[0].pairs() if (cells(a), cells(b)) == ((2, 0), (1, 1))
    )
    for program, violated in ((largest(), False), (largest(Fraction(3)), True)):
        report = sample(program, one, other, ONE, noise=seeded(3), samples=1200)
        assert report.violated is violated, report


# The enumeration.


def data() -> PrivateData:
    return next(iter(tables(BIT, 1)))


@pytest.mark.parametrize(
    ("levels", "rate", "multiplicities"),
    [
        ([3, 0, 1], HALF, None),
        ([0, 1, 1, 5], Fraction(1, 3), [2, 0, 7, 1]),
        ([0, 600], Fraction(1), None),
        ([0, 693, 1000], Fraction(1), [1, 1 << 1000, 3 << 1442]),
        (np.array([-5, 4]), "0.1", None),
        ([4], 2, [9]),
    ],
)
def test_options_branch_with_their_exact_chance(levels, rate, multiplicities):
    law = enumerate_law(lambda _, noise: noise.pick(levels, rate, multiplicities), data())
    counts = multiplicities or [1] * len(levels)
    with mp.workprec(4000):
        slope = mp.mpf(Fraction(rate).numerator) / Fraction(rate).denominator
        weights = [m * mp.exp(-slope * int(x)) for x, m in zip(levels, counts, strict=True)]
        true = {i: float(w / mp.fsum(weights)) for i, w in enumerate(weights) if w}
    assert set(law.masses) == set(true)
    for option, chance in true.items():
        assert law.masses[option] == pytest.approx(chance, rel=1e-14)
    assert law.paths == len(true)


def test_what_no_float_can_hold_is_lost_and_raises_no_false_alarm():
    laws = [
        enumerate_law(lambda _, noise, far=far: noise.pick([0, far], 1), data())
        for far in (690, 691)
    ]
    assert [set(law.masses) for law in laws] == [{0, 1}, {0}]
    assert laws[1].lost > 1e-14
    assert max(worst_epsilon(*laws)[0], worst_epsilon(*laws[::-1])[0]) < 1e-9


def test_the_enumeration_refuses_what_the_choice_refuses():
    noise = BranchingNoise()
    with pytest.raises(InvalidArgument):
        noise.pick([], HALF)
    with pytest.raises(InvalidArgument):
        noise.pick([1], HALF, [0])
    with pytest.raises(TooManyPaths):
        noise.pick(range(300_001), HALF)


# Record and replay.


def test_a_choice_is_recorded_without_its_levels_and_repeated():
    trace = record(lambda _, noise: noise.pick([123, 124], HALF, [5, 7]), data())
    assert trace.events[0] == ("pick", 2, HALF)
    assert trace.noise == ((trace.outcome,),)
    for which in (0, 1):
        again = record(lambda _, noise: noise.pick([1, 2], 1), data(), script=((which,),))
        assert again.outcome == which


@pytest.mark.parametrize("which", [0, 7, -1])
def test_what_cannot_be_chosen_is_not_repeated(which):
    trace = record(lambda _, noise: noise.pick([1, 2], 1, [0, 1]), data(), script=((which,),))
    assert trace.outcome == 1
    assert trace.noise == ((1,),)
