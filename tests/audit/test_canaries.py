"""Every broken twin is caught and every correct one passes."""

from __future__ import annotations

import pytest
from canaries import BIT, TWINS, count
from sampled_canaries import SAMPLED

from dpsdk.noise import SystemNoise
from dpsdk.testing import seeded
from dpsdk.testing.audit import audit, neighbours, replay, sample_batches

ENUMERATED = [twin for twin in TWINS if twin.layer == "E"]
REPLAYED = [twin for twin in TWINS if twin.layer == "G"]


SLOW = {
    "pairs to start from",
    "a count of another author, who is trusted",
    "two blocks of a strategy",
}


def canaries(twins):
    """Give all canaries, of which every run looks at the first of each kind."""
    return [
        pytest.param(
            twin,
            broken,
            id=f"{twin.name}: {name}",
            marks=pytest.mark.thorough if turn or twin.name in SLOW else (),
        )
        for twin in twins
        for turn, (name, broken) in enumerate(twin.canaries.items())
    ]


def by_name(twins):
    return [pytest.param(twin, id=twin.name) for twin in twins]


def test_there_are_at_least_thirty_canaries():
    assert sum(len(twin.canaries) for twin in (*TWINS, *SAMPLED)) >= 30


@pytest.mark.thorough
@pytest.mark.parametrize("twin", by_name(ENUMERATED))
def test_enumeration_passes_the_correct_twin(twin):
    report = audit(twin.program, twin.pairs(), twin.claim)
    assert report.passed, report


@pytest.mark.parametrize(("twin", "broken"), canaries(ENUMERATED))
def test_enumeration_catches_the_canary(twin, broken):
    report = audit(broken, twin.pairs(), twin.claim)
    assert not report.passed, report


@pytest.mark.parametrize("twin", by_name(REPLAYED))
def test_replay_passes_the_correct_twin(twin):
    for one, other in twin.pairs():
        assert replay(twin.program, one, other)[0] is None


@pytest.mark.parametrize(("twin", "broken"), canaries(REPLAYED))
def test_replay_catches_the_canary(twin, broken):
    found = [replay(broken, one, other)[0] for one, other in twin.pairs()]
    assert any(difference is not None for difference in found)


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
