"""Third-party queries and mechanisms work like built-in ones, through public names only."""

from __future__ import annotations

import ast
import sys
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

from dpsdk import Budget, Domain, Integer, Neighbors, PrivateData, Session
from dpsdk.errors import BudgetExceeded
from dpsdk.mechanisms import Gaussian, Laplace
from dpsdk.queries import Threshold, Workload
from dpsdk.testing import seeded

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))

from acme_median import Median, MedianAnswer  # noqa: E402
from acme_repeated import Repeated  # noqa: E402

DOMAIN = Domain(Integer("age", 17, 90))
AGES = np.random.default_rng(1).integers(17, 91, size=5000)


def session(neighbors: Neighbors = Neighbors.REPLACE_ONE) -> Session:
    data = PrivateData.from_columns({"age": AGES}, DOMAIN, neighbors=neighbors)
    return Session(data, Budget(epsilon=3, delta="1e-6"), noise=seeded(1))


@pytest.mark.parametrize("mechanism", [Laplace(epsilon=1), Gaussian(rho="0.05")])
@pytest.mark.parametrize("neighbors", list(Neighbors))
def test_a_strangers_query_is_answered_by_every_mechanism(mechanism, neighbors):
    answer = session(neighbors).answer(Median("age"), using=mechanism)
    assert isinstance(answer, MedianAnswer)
    assert abs(answer.label - np.median(AGES)) <= 3
    assert abs(answer.share - 0.5) < 0.05


def test_a_strangers_mechanism_answers_every_linear_query_and_pays_for_each_draw():
    asked = session()
    release = asked.release(Threshold("age", 40), using=Repeated(Fraction(3, 10)))
    assert release.value == pytest.approx((AGES <= 40).mean(), abs=0.02)
    assert release.cost.epsilon == Fraction(3, 10)
    assert len(release.cost.guarantees) == 3
    assert asked.spent.epsilon == Fraction(3, 10)
    median = asked.answer(Median("age"), using=Repeated(Fraction(3, 10)))
    assert isinstance(median, MedianAnswer)


def test_a_strangers_mechanism_quotes_what_it_then_charges():
    asked = session()
    mechanism = Repeated(Fraction(3, 10))
    quote = asked.quote(Threshold("age", 40), using=mechanism)
    release = asked.release(Threshold("age", 40), using=mechanism)
    assert quote.at_most.epsilon == release.cost.epsilon
    assert quote.error(0.05) == release.error(0.05)


def test_a_stranger_that_runs_three_times_is_refused_whole():
    asked = session()
    # Of three draws at epsilon 2 the first would fit.
    with pytest.raises(BudgetExceeded) as caught:
        asked.answer(Threshold("age", 40), using=Repeated(Fraction(6)))
    assert asked.spent.charges == 0
    assert asked.spent.epsilon == 0
    assert asked.history == ()
    assert caught.value.charges == ()
    assert caught.value.asked == "3 runs of 2-DP, discrete Laplace"
    data = PrivateData.from_columns({"age": AGES}, DOMAIN)
    small = Session(data, Budget(epsilon="0.9"), noise=seeded(1))
    with pytest.raises(BudgetExceeded):
        small.answer(Threshold("age", 40), using=Repeated(Fraction("1.2")))
    assert small.spent.fraction == 0
    small.answer(Threshold("age", 40), using=Repeated(Fraction("0.9")))
    assert small.remaining.epsilon == 0


def test_a_strangers_bound_covers_the_truth():
    noisy = Session(
        PrivateData.from_columns({"age": AGES}, DOMAIN), Budget(epsilon=500), noise=seeded(3)
    )
    truth = float((AGES <= 40).mean())
    releases = [
        noisy.release(Threshold("age", 40), using=Repeated(Fraction(1))) for _ in range(400)
    ]
    misses = sum(abs(release.value - truth) > release.error(0.2) for release in releases)
    assert misses <= 400 * 0.2


def test_strangers_mix_with_built_in_queries_in_a_workload():
    answers = session().answer(Workload([Median("age"), Median("age")]), using=Laplace(epsilon=1))
    assert [type(answer) for answer in answers] == [MedianAnswer, MedianAnswer]
    assert answers.values.shape == (2 * DOMAIN.size,)


@pytest.mark.parametrize("name", ["acme_median.py", "acme_repeated.py"])
def test_strangers_use_public_modules_only(name):
    tree = ast.parse((HERE / name).read_text(encoding="utf-8"))
    imported = [node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
    private = [
        module
        for module in imported
        if module and any(p.startswith("_") for p in module.split(".")[1:])
    ]
    assert not private
    assert not any(module and module.startswith("dpsdk.data") for module in imported)
