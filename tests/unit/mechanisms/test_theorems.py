"""How many rows an error takes, and what error so many rows buy."""

import math

import numpy as np
import pytest

from dpsdk import Budget, Domain, Integer, Neighbors, PrivateData, Session
from dpsdk.accounting import BasicComposition
from dpsdk.errors import InvalidArgument, PublicSizeRequired
from dpsdk.forms import Facts
from dpsdk.kernel import Terms
from dpsdk.losses import SquaredLoss
from dpsdk.mechanisms import (
    MWEM,
    Gaussian,
    Laplace,
    NoisyDescent,
    OfflinePMW,
    OnlinePMW,
    PrivateMinimizer,
    SmallDB,
)
from dpsdk.mechanisms.theorems import at_rows
from dpsdk.queries import Ball, ConvexMinimization, Threshold, Workload
from dpsdk.testing import seeded

DOMAIN = Domain(Integer("c", 0, 7))
LINE = Workload(Threshold("c", t) for t in range(8))


def terms(rows=10**6, neighbors=Neighbors.REPLACE_ONE):
    public = rows if neighbors is Neighbors.REPLACE_ONE else None
    return Terms(Facts(DOMAIN, neighbors, public, False, rows))


def online(make=OnlinePMW, **given):
    return make(epsilon=1, alpha=0.1, beta=0.05, queries=8, **given)


MECHANISMS = [
    Laplace(epsilon=1),
    Gaussian(rho=0.01),
    online(),
    online(OnlinePMW.textbook),
    OfflinePMW(LINE, epsilon=1),
    OfflinePMW(LINE, rho=0.02),
    OfflinePMW.textbook(LINE, rho=0.02, alpha=0.04),
    MWEM.textbook(LINE, 1),
    MWEM.averaged(LINE, 1),
    SmallDB(LINE, epsilon=1),
]


@pytest.mark.thorough(quick=5)
@pytest.mark.parametrize("mechanism", MECHANISMS, ids=repr)
def test_so_many_rows_buy_the_error_that_they_are_for(mechanism):
    rows = [mechanism.rows_for(terms(), LINE, alpha=alpha) for alpha in (0.2, 0.1)]
    assert 1 < rows[0] < rows[1]
    assert mechanism.rows_for(terms(100), LINE, alpha=0.2) == rows[0]  # whatever the table has
    enough = mechanism.alpha_for(at_rows(terms(), rows[1]), LINE)
    assert enough <= 0.1 * 1.0011
    fewer = mechanism.alpha_for(at_rows(terms(), rows[1] * 9 // 10), LINE)
    assert fewer is None or fewer > 0.1
    certain = mechanism.rows_for(terms(), LINE, alpha=0.1, beta=0.2)
    assert certain <= rows[1]


@pytest.mark.thorough(quick=1)
@pytest.mark.parametrize("mechanism", MECHANISMS[2:5], ids=repr)
def test_a_mechanism_that_says_what_comes_needs_no_query(mechanism):
    alpha = getattr(mechanism, "alpha", None) or 0.1
    assert mechanism.rows_for(terms(), alpha=alpha) == mechanism.rows_for(
        terms(), LINE, alpha=alpha
    )
    assert mechanism.alpha_for(terms()) == mechanism.alpha_for(terms(), LINE)


def test_what_has_no_theorem_says_none_and_what_is_left_out_is_named():
    assert OnlinePMW(epsilon=1, updates=5).alpha_for(terms(), LINE) is None
    assert OnlinePMW(epsilon=1, updates=5).rows_for(terms(), LINE, alpha=0.1) is None
    assert MWEM(LINE, epsilon=1).rows_for(terms(), alpha=0.1) is None
    assert online().rows_for(terms(), Workload(Threshold("c", t % 8) for t in range(9))) is None
    assert Laplace(epsilon="0.001").alpha_for(terms(10), LINE) is None  # beyond all answers
    with pytest.raises(InvalidArgument, match="query"):
        Laplace(epsilon=1).alpha_for(terms())
    for alpha in (None, 0, -1, math.nan, math.inf, "much"):
        with pytest.raises(InvalidArgument, match="alpha"):
            Laplace(epsilon=1).rows_for(terms(), LINE, alpha=alpha)
    with pytest.raises(PublicSizeRequired):
        Laplace(epsilon=1).alpha_for(terms(10, Neighbors.ADD_REMOVE), LINE)
    with pytest.raises(PublicSizeRequired):
        OfflinePMW(LINE, epsilon=1).rows_for(terms(10, Neighbors.ADD_REMOVE), alpha=0.1)


def test_of_a_private_number_of_rows_it_is_the_least_count_with_a_promise():
    private = terms(10**9, Neighbors.ADD_REMOVE)
    least = online().rows_for(private)
    assert least == online().schedule(private.facts).least
    assert least > online().rows_for(terms())
    assert online().rows_for(terms(10**3, Neighbors.ADD_REMOVE)) is None


def test_the_excess_of_a_model_is_in_the_unit_of_its_loss():
    query = ConvexMinimization(SquaredLoss(), features=["c"], label="y", over=Ball(1))
    domain = Domain(Integer("c", 0, 7), Integer("y", 0, 1))
    public = Terms(Facts(domain, Neighbors.REPLACE_ONE, 10**6, False, 10**6))
    mechanism = PrivateMinimizer(epsilon=1, delta=1e-6, oracle=NoisyDescent.textbook())
    least = mechanism.alpha_for(public, query)
    assert least == mechanism.quote(query.lower(domain), public).error(0.05)
    rows = mechanism.rows_for(public, query, alpha=2 * least)
    assert rows < 10**6
    assert mechanism.alpha_for(at_rows(public, rows), query) <= 2 * least


@pytest.mark.thorough(quick=2)
@pytest.mark.parametrize("mechanism", MECHANISMS[4:7] + MECHANISMS[8:9], ids=repr)
def test_the_error_is_kept_by_a_table_of_so_many_rows(mechanism):
    rows = mechanism.rows_for(terms(), alpha=0.15)
    counts = np.array([rows // 2, 0, 0, rows - rows // 2, 0, 0, 0, 0])
    for seed in range(3):
        data = PrivateData.from_counts(counts, DOMAIN)
        opened = Session(data, Budget(2), composition=BasicComposition(), noise=seeded(seed))
        if "rho" in repr(mechanism):
            opened = Session(data, Budget(2, "1e-6"), noise=seeded(seed))
        answers = opened.open(mechanism).answer(LINE).values
        assert np.abs(answers - np.cumsum(counts) / rows).max() <= 0.15
