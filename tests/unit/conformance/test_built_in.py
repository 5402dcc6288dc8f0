"""Every built-in mechanism conforms, and so do those of the tests' plugins."""

from __future__ import annotations

import sys
from fractions import Fraction
from pathlib import Path

import pytest

from dpsdk.losses import SquaredLoss
from dpsdk.mechanisms import (
    MWEM,
    ConvexPMW,
    Gaussian,
    Laplace,
    LocalMarginals,
    NoisyDescent,
    NoisyHistogram,
    NumericSparse,
    OfflineConvexPMW,
    OnlinePMW,
    Parts,
    PrivateMinimizer,
    Problem,
    Projection,
    SmallDB,
    SufficientStatistics,
    TextbookConvexPMW,
)
from dpsdk.queries import Ball, ConvexMinimization, Marginal, Workload
from dpsdk.testing import check_mechanism
from dpsdk.testing.conformance import mechanisms
from samples import samples

sys.path.insert(0, str(Path(__file__).parents[2] / "plugin"))

from acme_dp.records import NoisyRecords
from acme_dp.repeated import Repeated

pytestmark = pytest.mark.thorough

FEW = Workload([Marginal("level", normalized=False), Marginal("member", normalized=False)])

MODEL = ConvexMinimization(
    SquaredLoss(), features=["member"], label="level", over=Ball(2), intercept=False
)
"""That of which a mechanism is asked."""

PARTS = Parts([(FEW.queries[0], Laplace(1)), (FEW.queries[1], Gaussian(rho=1))])

SETTINGS = (
    PARTS,
    Gaussian(rho="0.1"),
    Gaussian(epsilon=1, delta="1e-6"),
    NoisyHistogram(rho=1, consistent=True),
    Projection(epsilon=1, delta="1e-6"),
    NumericSparse(1, tops=1),
    NumericSparse(1, "1e-6", tops=3, numbers="gap"),
    MWEM(FEW, rho=1, rounds=3),
    MWEM.textbook(FEW, epsilon=1, rounds=3),
    LocalMarginals(FEW, rho=1, first="0.2", look="0.1", certify="0.1"),
    SmallDB(FEW, epsilon=1, size=3),
    OnlinePMW(1, "1e-6", updates=3, when_spent="raise"),
    ConvexPMW(1, "1e-6", updates=3),
    TextbookConvexPMW(
        # Of so few rows nothing can be promised for less.
        epsilon=10**5, delta="1e-6", alpha=0.9, beta=0.1, queries=10,
        problem=Problem(dimension=3, lipschitz=1, smoothness=2.5, radius=1, summed=2.0),
    ),
    OfflineConvexPMW(MODEL, epsilon=1, delta="1e-6", rounds=2),
    OfflineConvexPMW.textbook(MODEL, epsilon=10**5, alpha=2.5),
    PrivateMinimizer(epsilon=1),
    PrivateMinimizer(epsilon=1, delta="1e-6", oracle=NoisyDescent(steps=9)),
    PrivateMinimizer(epsilon=1, oracle=SufficientStatistics()),
)  # fmt: skip
CHOSEN = {type(one) for one in SETTINGS} - {NoisyHistogram, LocalMarginals, OnlinePMW}
BUILT_IN = (*SETTINGS, *[one for one in samples(FEW, "level") if type(one) not in CHOSEN])
PLUGINS = (Repeated(Fraction(1)), NoisyRecords(Fraction(1)))


@pytest.mark.audit
@pytest.mark.parametrize("mechanism", [*BUILT_IN, *PLUGINS], ids=str)
def test_a_mechanism_conforms(mechanism):
    # Of all others the kit finds questions by itself.
    report = check_mechanism(mechanism, *[FEW] * (mechanism is PARTS))
    assert report.conforms, str(report)


@pytest.mark.audit
@pytest.mark.parametrize("mechanism", [Laplace(1), Repeated(Fraction(1))], ids=str)
def test_a_mechanism_conforms_thoroughly(mechanism):
    report = check_mechanism(mechanism, thorough=True)
    assert report.conforms, str(report)


def test_a_mechanism_of_several_runs_passes_the_quicker_checks(monkeypatch):
    heavy = {"interrupts", "audit", "bounds-cover", "keeps-no-kernel", "public-walls"}
    kept = tuple(check for check in mechanisms.CHECKS if check.name not in heavy)
    monkeypatch.setattr(mechanisms, "CHECKS", kept)
    report = check_mechanism(Repeated(Fraction(1)))
    assert report.conforms, str(report)
