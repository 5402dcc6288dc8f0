from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest

from dpsdk import Budget, Neighbors, Session
from dpsdk.accounting import BasicComposition, gdp_start, pure_epsilon, zcdp_rho, zcdp_start
from dpsdk.kernel import Terms
from dpsdk.mechanisms import Gaussian, Laplace
from dpsdk.queries import Count, Marginal, Threshold, Workload
from dpsdk.testing.noise import seeded
from worlds import PEOPLE, facts, people, table


@pytest.mark.parametrize(
    "value", [0.1, "0.1", Decimal("0.1"), Fraction(1, 10), np.float64(0.1)], ids=repr
)
def test_parameters_are_the_decimals_that_they_print_as(value):
    assert Laplace(value) == Laplace("0.1")
    assert hash(Laplace(value)) == hash(Laplace("0.1"))
    assert Laplace(value).epsilon == Fraction(1, 10)
    assert Gaussian(rho=value) == Gaussian(rho="0.1") != Laplace(value) != Laplace("0.2")


def test_a_gaussian_of_epsilon_and_delta_runs_at_a_rho_that_implies_them():
    mechanism = Gaussian(epsilon=1, delta="1e-6")
    rho = mechanism.noise.rho
    assert zcdp_start(1, "1e-6") < rho < gdp_start(1, "1e-6") / 2
    assert mechanism.noise.claim == (1, Fraction(1, 10**6))
    session = Session(
        table(people(9, 1)), Budget(1, "1e-6"), composition=BasicComposition(), noise=seeded(1)
    )
    session.answer(Count(), using=mechanism)
    assert session.spent.delta == Fraction(1, 10**6)
    assert session.affords(Count(), using=mechanism) == 0


@pytest.mark.parametrize("neighbors", Neighbors)
def test_a_quote_costs_what_was_asked_whatever_the_batch(neighbors):
    for query in (Count(), Marginal("age", "sex"), Workload(Threshold("age", t) for t in (18, 20))):
        form = query.lower(PEOPLE)
        of = facts(PEOPLE, neighbors)
        laplace, gaussian = (
            m.quote(form, Terms(of)) for m in (Laplace("0.3"), Gaussian(rho="0.02"))
        )
        assert [pure_epsilon(g) for g in laplace.at_most.guarantees] == [Fraction(3, 10)]
        assert [zcdp_rho(g) for g in gaussian.at_most.guarantees] == [Fraction(1, 50)]
        assert laplace.at_open.free
        assert gaussian.at_open.free
        assert len(laplace.accuracy.radii(0.05, joint=True)) == form.rows
        assert repr(laplace).startswith("Quote(at open nothing, at most ")


@pytest.mark.parametrize("mechanism", [Laplace("0.5"), Gaussian(rho="0.015")], ids=str)
def test_the_spread_of_answers_is_that_of_the_law(mechanism):
    session = Session(table(people(60, 4)), Budget(10**9, "1e-6"), noise=seeded(8))
    query = Marginal("age", "sex", "hours", "member", normalized=False)
    release = session.release(query, using=mechanism)
    many = [session.answer(query, using=mechanism).values for _ in range(100)]
    true = np.rint(np.mean(many, axis=0))
    measured = np.sqrt(np.mean((np.array(many) - true) ** 2))
    law = release._measurement.accuracy.law
    assert measured == pytest.approx(law.standard_deviation(), rel=0.08)
    assert law.standard_deviation() > 1
