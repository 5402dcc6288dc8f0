"""`affords` of a session, scope or part is the number of times that the question is answered."""

import random

import pytest

from dpsdk import Budget, Domain, Integer, Neighbors, PrivateData, Session
from dpsdk.accounting import (
    AnyOf,
    BasicComposition,
    EnvelopeComposition,
    ZCDPComposition,
    default_composition,
)
from dpsdk.errors import BudgetExceeded, UnsupportedGuarantee
from dpsdk.mechanisms import Gaussian, Laplace
from dpsdk.queries import Count, Marginal
from dpsdk.testing.noise import seeded

DOMAIN = Domain(Integer("age", 1, 4))
COLUMNS = {"age": [1, 2, 2, 3, 4]}
MECHANISMS = [
    *map(Laplace, ("0.03", "0.08", "0.3")),
    *(Gaussian(rho=rho) for rho in ("0.0005", "0.003", "0.01")),
    Gaussian(epsilon="0.2", delta="1e-8"),
]
QUERIES = [Count(normalized=False), Marginal("age", normalized=False)]


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
    query, mechanism = rng.choice(QUERIES), rng.choice(MECHANISMS)
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
            query, mechanism = rng.choice(QUERIES), rng.choice(MECHANISMS)
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
