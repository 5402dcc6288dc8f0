"""Every broken twin is caught and every correct one passes."""

import pytest
from canaries import BIT, TWINS, by_name, canaries, count
from sampled_canaries import SAMPLED

from dpsdk.noise import SystemNoise
from dpsdk.testing import seeded
from dpsdk.testing.audit import neighbours, sample_batches

SLOW = (
    "pairs to start from",
    "a count of another author, who is trusted",
    "two blocks of a strategy",
)


def test_there_are_at_least_thirty_canaries():
    assert sum(len(twin.canaries) for twin in (*TWINS, *SAMPLED)) >= 30


@pytest.mark.thorough
@pytest.mark.parametrize("twin", by_name(TWINS))
def test_the_correct_twin_passes(twin):
    twin.check_correct()


@pytest.mark.parametrize(("twin", "broken"), canaries(TWINS, SLOW))
def test_the_canary_is_caught(twin, broken):
    twin.check_caught(broken)


def pair():
    return next((a, b) for a, b in neighbours(BIT, 1) if (count(a), count(b)) == (0, 1))


@pytest.mark.thorough(quick=1)
@pytest.mark.parametrize("case", SAMPLED, ids=lambda case: case.name)
def test_sampling_passes_the_correct_twin(case):
    one, other = pair()
    report = sample_batches(
        case.batch, one, other, case.claim, noise=seeded(1), samples=case.samples
    )
    assert not report.violated, report


@pytest.mark.thorough(quick=2)
@pytest.mark.parametrize(
    ("case", "broken"),
    [
        pytest.param(case, broken, id=name)
        for case in SAMPLED
        for name, broken in case.canaries.items()
    ],
)
def test_sampling_catches_the_canary(case, broken):
    one, other = pair()
    report = sample_batches(broken, one, other, case.claim, noise=seeded(1), samples=case.samples)
    assert report.violated, report


@pytest.mark.audit
@pytest.mark.parametrize("case", SAMPLED[:4], ids=lambda case: case.name)
def test_sampling_with_real_entropy_passes_the_correct_twin(case):
    one, other = pair()
    report = sample_batches(
        case.batch, one, other, case.claim, noise=SystemNoise(), samples=20_000_000, alpha=1e-6
    )
    assert not report.violated, report
