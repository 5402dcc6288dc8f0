"""Workloads that are learnt where the number of rows is private: counted first, then public."""

import itertools
from fractions import Fraction

import numpy as np
import pytest

from dpsdk import Budget, Domain, Integer, Neighbors, PrivateData, Session, Stopped
from dpsdk.accounting import BasicComposition
from dpsdk.accounting.guarantee import PureGuarantee
from dpsdk.accounting.prices.run import pure_epsilon, zcdp_rho
from dpsdk.data.vault import open_histogram
from dpsdk.errors import BudgetExceeded, PublicSizeRequired, TooLarge
from dpsdk.kernel import Terms
from dpsdk.mechanisms import MWEM, OfflinePMW
from dpsdk.mechanisms.mwem import plan as plans
from dpsdk.queries import Conjunction, Linear, Threshold, Workload
from dpsdk.testing import seeded
from dpsdk.testing.audit import audit, program
from worlds import with_private_sizes

LINE = Domain(Integer("x", 0, 7))
COUNTS = np.array([20, 10, 5, 5, 30, 10, 10, 10]) * 10_000
STEPS = Workload(Threshold("x", level, normalized=False) for level in range(8))
SIGNS = Workload(
    Linear(np.where(np.arange(8) < level, -1.0, 1.0), low=-1, high=1, normalized=False)
    for level in range(8)
)  # fmt: skip

SET, UNSET = (Conjunction({"bit": bit}, normalized=False) for bit in (True, False))

MECHANISMS = [
    MWEM.textbook(STEPS, 40, rounds=30),
    MWEM.averaged(STEPS, 4, rounds=20),
    MWEM.averaged(STEPS, rho="0.5", rounds=60),
    MWEM.averaged(SIGNS, 4, "1e-6", rounds=50),
    OfflinePMW(STEPS, epsilon=4),
    OfflinePMW(STEPS, rho="0.002"),
    OfflinePMW(SIGNS, epsilon=4, delta="1e-6"),
    OfflinePMW.textbook(SIGNS, rho=1, alpha=0.2),
]


def table(counts=COUNTS, domain=LINE, outside="raise", most=2 * 10**6):
    rows = {name: np.repeat(np.arange(len(counts)), counts) for name in domain.names}
    return PrivateData.from_columns(
        rows, domain, neighbors=Neighbors.ADD_REMOVE, max_rows=most, outside=outside
    )


def session(data, seed=0):
    return Session(data, Budget(100, "1e-3"), noise=seeded(seed))


TABLE = table()


@pytest.mark.thorough(quick=3)
@pytest.mark.parametrize(
    ("mechanism", "seed"), [*itertools.product(MECHANISMS, range(4))], ids=repr
)
def test_the_promise_holds_and_no_more_is_paid(mechanism, seed):
    opened = session(TABLE, seed)
    quote = opened.quote(mechanism.workload, using=mechanism)
    channel = opened.open(mechanism)
    paid = [run for receipt in opened.history for run in receipt.cost.guarantees]
    for real, quoted in zip(paid, quote.at_most.guarantees, strict=False):
        assert real == quoted or real.free or pure_epsilon(real) <= pure_epsilon(quoted)
    if mechanism.delta == 0 and mechanism.rho is None:
        assert sum(map(pure_epsilon, quote.at_most.guarantees)) <= mechanism.epsilon
    if mechanism.rho is not None:
        assert sum(map(zcdp_rho, quote.at_most.guarantees)) <= mechanism.rho
    release = channel.release(mechanism.workload)
    error = release.error(0.05)
    # Of as many rows as are counted, and not as there may be.
    assert error < quote.bound(0.05).error
    weights = np.array([[1.0] * (level + 1) + [0.0] * (7 - level) for level in range(8)])
    if mechanism.workload is SIGNS:
        weights = np.array([np.where(np.arange(8) < level, -1.0, 1.0) for level in range(8)])
    assert np.abs(release.value.values - weights @ COUNTS).max() <= error < COUNTS.sum()


@pytest.mark.parametrize("mechanism", [MECHANISMS[0], MECHANISMS[1], MECHANISMS[4]], ids=repr)
def test_an_empty_table_is_within_the_promise_as_well(mechanism):
    release = session(table(COUNTS * 0)).open(mechanism).release(STEPS)
    assert np.abs(release.value.values).max() <= release.error(0.05)


def test_what_cannot_be_learnt_is_refused_before_the_count_is_paid():
    wide = Domain(Integer("x", 0, 2**30))
    for mechanism in (MWEM.textbook(STEPS, 1), MWEM.averaged(STEPS, 1), OfflinePMW(STEPS, rho=1)):
        opened = session(table([1, 2], wide))
        with pytest.raises(TooLarge):
            opened.open(mechanism)
        assert opened.spent.charges == 0
    channel = session(TABLE).open(MECHANISMS[0])
    with pytest.raises(PublicSizeRequired):
        channel.answer(Threshold("x", 3))


def test_a_budget_that_ends_after_the_count_keeps_what_was_paid():
    mechanism = OfflinePMW(STEPS, epsilon=1)
    count = mechanism.plan(Terms(TABLE.facts)).cost.guarantees[0]
    assert count == PureGuarantee(Fraction(1, 50))
    opened = Session(TABLE, Budget("0.02"), composition=BasicComposition(), noise=seeded(1))
    with pytest.raises(Stopped) as caught:
        opened.open(mechanism)
    assert caught.value.why == "budget"
    assert pure_epsilon(caught.value.paid.guarantees[0]) == Fraction(1, 50)
    assert opened.spent.charges == 1
    opened = Session(TABLE, Budget("0.01"), composition=BasicComposition(), noise=seeded(1))
    with pytest.raises(BudgetExceeded):
        opened.open(mechanism)


def unpaid(kernel, noise, allowance=None):
    """The true number of rows, which nobody paid for."""
    return max(open_histogram(kernel._access.data).rows, 1)


@pytest.mark.thorough(quick=2)
@pytest.mark.parametrize("broken", [False, True])
@pytest.mark.parametrize("make", ["textbook", "averaged", "offline"])
def test_the_count_and_the_rounds_keep_the_claim_over_all_tiny_neighbours(
    make, broken, monkeypatch
):
    monkeypatch.setattr(plans, "COUNT_SHARE", Fraction(1, 3))
    monkeypatch.setattr("dpsdk.kernel.lattice._FINEST", 0)
    if broken:
        for learnt in ("mechanism", "offline"):
            monkeypatch.setattr(f"dpsdk.mechanisms.mwem.{learnt}.counted_rows", unpaid)
    epsilon, workload = 12, Workload([SET, UNSET])
    mechanism = {
        "textbook": lambda: MWEM.textbook(workload, epsilon, rounds=1),
        "averaged": lambda: MWEM.averaged(workload, epsilon, rounds=2),
        "offline": lambda: OfflinePMW(workload, epsilon=epsilon),
    }[make]()
    run = program(mechanism, SET, composition=BasicComposition())
    report = audit(run, with_private_sizes(), PureGuarantee(epsilon), tail=1e-6)
    assert report.pairs == 12
    assert report.passed is not broken, report
