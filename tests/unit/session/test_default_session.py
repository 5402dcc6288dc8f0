import random
from fractions import Fraction

import numpy as np
import pytest

from dpsdk import Budget, Domain, Integer, Neighbors, PrivateData, Session
from dpsdk.accounting import (
    AnyOf,
    BasicComposition,
    DiscreteGaussianGuarantee,
    EnvelopeComposition,
    State,
    ZCDPComposition,
    default_composition,
)
from dpsdk.accounting.numbers import STEPS, from_steps
from dpsdk.errors import BudgetExceeded, UnsupportedGuarantee
from dpsdk.kernel import GaussianNoise, LaplaceNoise, Measure, Terms
from dpsdk.mechanisms import Gaussian, Laplace
from dpsdk.queries import Count, Marginal, Mean, Threshold, Workload
from dpsdk.testing.noise import seeded
from worlds import PEOPLE, facts, people, table

DATA = table(people(200, 3))
QUERIES = [
    Count(),
    Threshold("age", 20),
    Marginal("sex", "age"),
    Mean("hours"),
    Workload(Threshold("age", age) for age in range(17, 25)),
    Workload([Marginal("sex"), Marginal("age", "member"), Marginal("hours")]),
]
RHOS = ["1e-9", "0.005", "0.0156", "0.0157", "0.5", "20", "1e4"]


def opened(budget, **given):
    return Session(DATA, budget, noise=seeded(2), **given)


def test_a_gaussian_and_two_laplace_answers_fit_one_session():
    session = opened(Budget(1, 1e-6))
    session.answer(Marginal("sex", "age"), using=Gaussian(rho=0.005))
    session.answer(Threshold("age", 20), using=Laplace(0.1))
    session.answer(Threshold("age", 21), using=Laplace(0.1))
    assert session.affords(Threshold("age", 22), using=Laplace(0.1)) == 1


@pytest.mark.parametrize("rho", RHOS)
@pytest.mark.parametrize("query", QUERIES, ids=str)
def test_every_gaussian_costs_two_rho_of_the_squared_shift(query, rho):
    guarantee = Measure(query.lower(PEOPLE), GaussianNoise(rho)).price(Terms(DATA.facts)).guarantee
    assert isinstance(guarantee, DiscreteGaussianGuarantee)
    assert guarantee.variance >= 64
    assert guarantee.rho == Fraction(rho)
    after = EnvelopeComposition().charge(State((0, 0), (10**6 * STEPS, 0)), guarantee)
    assert after is not None
    exact = 2 * Fraction(rho)
    assert exact <= from_steps(after.spent[0]) <= exact * (1 + Fraction(1, 10**9))


@pytest.mark.parametrize("query", QUERIES[:3], ids=str)
def test_wide_gaussians_and_laplace_noise_stay_on_the_integers(query):
    form = query.lower(PEOPLE)
    assert form.integral
    assert Measure(form, GaussianNoise("0.0001")).price(Terms(DATA.facts)).bits == 0
    assert Measure(form, LaplaceNoise(100)).price(Terms(DATA.facts)).bits == 0
    narrow = Measure(form, GaussianNoise(2)).price(Terms(DATA.facts))
    assert narrow.bits > 0
    assert Measure(form, GaussianNoise(2)).price(Terms(DATA.facts)).accuracy.bias == 0


@pytest.mark.parametrize("neighbors", list(Neighbors))
def test_a_finer_lattice_moves_as_much_as_the_integers_do(neighbors):
    of = facts(PEOPLE, neighbors)
    for query in (Marginal("sex", "age"), Workload([Marginal("sex"), Marginal("hours")])):
        form = query.lower(PEOPLE)
        wide = Measure(form, GaussianNoise("0.0001")).price(Terms(of))
        fine = Measure(form, GaussianNoise(8)).price(Terms(of))
        assert fine.guarantee.shift_squared == wide.guarantee.shift_squared * 4**fine.bits
        assert fine.guarantee.rho == 8
        assert 64 <= fine.guarantee.variance < 256


def test_answers_on_a_finer_lattice_have_their_unit():
    session = opened(Budget(10**9, "1e-6"))
    query = Marginal("sex", "age", normalized=False)
    release = session.release(query, using=Gaussian(rho=10**6))
    exact = session.answer(query, using=Laplace(10**7))
    assert np.abs(release.value.values - exact.values).max() <= release.error(1e-9) < 0.02
    assert not (release.value.values == np.rint(release.value.values)).all()


@pytest.mark.thorough(quick=8)
@pytest.mark.parametrize(
    "budget", [Budget("0.1", 1e-9), Budget(1, 1e-6), Budget(5, 1e-6), Budget(50, 1e-6)], ids=str
)
@pytest.mark.parametrize("query", QUERIES, ids=str)
def test_the_largest_rho_that_remains_can_be_spent(query, budget):
    for before in ((), (Laplace(budget.epsilon / 20),), (Gaussian(rho="0.0001"),)):
        session = opened(budget)
        for mechanism in before:
            session.answer(Count(normalized=False), using=mechanism)
        rho = session.remaining.rho
        assert rho > 0
        session.answer(query, using=Gaussian(rho=rho))
        with pytest.raises(BudgetExceeded):
            session.answer(query, using=Gaussian(rho=rho / 10))


def test_what_the_envelope_cannot_price_names_the_remedy():
    # So many rows that no finer lattice would add up exactly.
    domain = Domain(Integer("age", 1, 2))
    data = PrivateData.from_counts([1, 1], domain, max_rows=2**52, neighbors=Neighbors.ADD_REMOVE)
    budget = Budget(1000, 1e-6)
    session = Session(data, budget, composition=EnvelopeComposition(), noise=seeded(1))
    with pytest.raises(UnsupportedGuarantee, match=r"ZCDPComposition\(\)"):
        session.answer(Count(normalized=False), using=Gaussian(rho=100))
    assert session.spent.charges == 0
    session.answer(Count(normalized=False), using=Laplace(1))
    for composition in (None, ZCDPComposition()):  # mixed composition prices it by default
        other = Session(data, budget, composition=composition, noise=seeded(1))
        other.answer(Count(normalized=False), using=Gaussian(rho=100))


def test_a_gaussian_leaves_the_envelope_open_and_a_pure_budget_refuses_it():
    session = opened(Budget(1, 1e-6))
    session.answer(Count(), using=Gaussian(rho="0.001"))
    assert session.affords(Count(), using=Laplace("0.01")) > 500
    with pytest.raises(UnsupportedGuarantee, match="Gaussian"):
        opened(Budget(1)).answer(Count(), using=Gaussian(rho="0.001"))


def test_the_filter_is_one_argument_away():
    session = opened(Budget(1, 1e-6), composition=ZCDPComposition())
    session.answer(Count(), using=Gaussian(rho="0.01"))
    assert session.affords(Count(), using=Gaussian(rho="0.01")) == 1
    basic = opened(Budget(1, 1e-6), composition=BasicComposition())
    basic.answer(Count(), using=Gaussian(epsilon="0.5", delta="5e-7"))
    assert basic.remaining.epsilon == Fraction(1, 2)


# `affords` of a session, scope or part is the number of times that the question is answered.


DOMAIN = Domain(Integer("age", 1, 4))
COLUMNS = {"age": [1, 2, 2, 3, 4]}
MECHANISMS = [
    *map(Laplace, ("0.03", "0.08", "0.3")),
    *(Gaussian(rho=rho) for rho in ("0.0005", "0.003", "0.01")),
    Gaussian(epsilon="0.2", delta="1e-8"),
]
ASKED = [Count(normalized=False), Marginal("age", normalized=False)]


def world(composition, rng):
    neighbors = rng.choice(list(Neighbors))
    data = PrivateData.from_columns(COLUMNS, DOMAIN, neighbors=neighbors)
    session = Session(data, Budget(1, 1e-6), composition=composition, noise=seeded(3))
    desks = [session]
    for number, share in enumerate(("0.3", "0.2", "0.4")):
        try:
            desks.append(session.scope(f"s{number}", share, reserve=rng.random() < 0.7))
        except BudgetExceeded:
            continue
        answered(rng.choice(desks), rng, 1)
    if rng.random() < 0.5:
        partition = session.partition("age")
        desks += [partition[1], partition[2]]
    rng.shuffle(desks)
    return desks


def answered(desk, rng, most):
    """How often a question is answered, up to so often."""
    query, mechanism = rng.choice(ASKED), rng.choice(MECHANISMS)
    for count in range(most):
        try:
            desk.answer(query, using=mechanism)
        except (BudgetExceeded, UnsupportedGuarantee):
            return count
    return most


@pytest.mark.thorough(quick=2)
@pytest.mark.parametrize("worlds", [3, pytest.param(40, marks=pytest.mark.audit)])
@pytest.mark.parametrize(
    "composition",
    [
        BasicComposition(),
        ZCDPComposition(),
        EnvelopeComposition(),
        default_composition(),
        AnyOf((BasicComposition(), ZCDPComposition(), EnvelopeComposition())),
    ],
    ids=lambda one: str(one)[:50],
)
def test_a_question_is_answered_as_often_as_it_affords(composition, worlds):
    rng = random.Random(worlds)
    counts = []
    for _ in range(worlds):
        for desk in world(composition, rng):
            query, mechanism = rng.choice(ASKED), rng.choice(MECHANISMS)
            try:
                told = desk.affords(query, using=mechanism)
            except UnsupportedGuarantee:
                with pytest.raises((UnsupportedGuarantee, BudgetExceeded)):
                    desk.answer(query, using=mechanism)
                continue
            assert told is not None
            if told > 25:
                continue
            for left in range(told, 0, -1):
                assert desk.affords(query, using=mechanism) == left
                desk.answer(query, using=mechanism)
            with pytest.raises(BudgetExceeded):
                desk.answer(query, using=mechanism)
            counts.append(told)
    assert any(counts)
