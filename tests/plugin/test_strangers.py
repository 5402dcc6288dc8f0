"""Third-party queries and mechanisms work like built-in ones, through public names only."""

import ast
import math
import sys
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

from dpsdk import (
    Budget,
    DistributionChannel,
    Domain,
    Integer,
    Neighbors,
    PrivateData,
    Session,
    SyntheticData,
)
from dpsdk.errors import BudgetExceeded, DataError, QueryError
from dpsdk.forms import Kronecker, LinearForm, Range, Weights
from dpsdk.hypothesis import DenseHypothesis, Distribution, Hypothesis
from dpsdk.mechanisms import Gaussian, Laplace, OnlinePMW
from dpsdk.queries import Marginal, Threshold, Workload
from dpsdk.testing import seeded

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))

from acme_dp.independent import Independent  # noqa: E402
from acme_dp.median import Median, MedianAnswer  # noqa: E402
from acme_dp.records import NoisyRecords  # noqa: E402
from acme_dp.repeated import Repeated  # noqa: E402

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
    assert caught.value.asked == "3 runs of epsilon 2 by Laplace noise"
    data = PrivateData.from_columns({"age": AGES}, DOMAIN)
    small = Session(data, Budget(epsilon="0.9"), noise=seeded(1))
    with pytest.raises(BudgetExceeded):
        small.answer(Threshold("age", 40), using=Repeated(Fraction("1.2")))
    assert small.spent.fraction == 0
    small.answer(Threshold("age", 40), using=Repeated(Fraction("0.9")))
    assert small.remaining.epsilon == 0


@pytest.mark.thorough
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


TEN_TO_THE_30 = Domain(*(Integer(f"a{number}", 0, 9) for number in range(30)))


def test_a_strangers_hypothesis_learns_where_no_array_of_cells_would_fit():
    rng = np.random.default_rng(2)
    columns = {name: rng.binomial(9, 0.2, 20_000) for name in TEN_TO_THE_30.names}
    data = PrivateData.from_columns(columns, TEN_TO_THE_30)
    asked = Session(data, Budget(epsilon=20), noise=seeded(1))
    start = Independent.uniform(TEN_TO_THE_30, 1e-4)
    queries = [Threshold(name, 2) for name in TEN_TO_THE_30.names]
    with asked.open(OnlinePMW(20, updates=40, start=start)) as channel:
        assert isinstance(channel.hypothesis, Independent)
        before = channel.hypothesis
        channel.answer(Workload(queries))
        learnt = channel.hypothesis
    truth = [float((columns[name] <= 2).mean()) for name in columns]
    errors = [
        [
            abs(h.answer(query.lower(TEN_TO_THE_30)) - t)
            for query, t in zip(queries, truth, strict=True)
        ]
        for h in (before, learnt)
    ]
    assert max(errors[0]) > 0.4
    assert max(errors[1]) < 0.02
    assert start.answer(queries[0].lower(TEN_TO_THE_30)) == pytest.approx(0.3, abs=1e-4)


def test_a_strangers_hypothesis_moves_samples_and_is_kept_like_any(tmp_path):
    domain = Domain(Integer("a", 0, 4), Integer("b", 0, 2))
    lines = [np.arange(1.0, 6.0), np.array([3.0, 1.0, 1.0])]
    own = Independent(domain, lines, 0.2)
    dense = DenseHypothesis.product(domain, {"a": lines[0], "b": lines[1]}, 0.2)
    weights = np.array([[0.1, 0.9, 0.3, 0.0, 1.0]])
    forms = [
        LinearForm(domain, [Kronecker.of(domain, {"a": Range(5, 1, 3)})]),
        LinearForm(domain, [Kronecker.of(domain, {"b": Range(3, 0, 1)})]),
        LinearForm(domain, [Kronecker.of(domain, {"a": Weights(weights)})]),
        LinearForm(domain, [Kronecker.of(domain, {})]),
    ]
    for form, target in zip(forms * 2, (0.5, 0.1, 0.3, 0.7, 0.2, 0.6, 0.4, 0.9), strict=True):
        assert own.shift(form, 0.7) == pytest.approx(dense.shift(form, 0.7), abs=1e-13)
        steps = own.move_to(form, target), dense.move_to(form, target)
        assert steps[0] == pytest.approx(steps[1], abs=1e-9)
        assert own.answer(form) == pytest.approx(target, abs=1e-12)
        assert own.table(("b", "a")) == pytest.approx(dense.table(("b", "a")), abs=1e-9)
        assert own.kl_cap() == pytest.approx(dense.kl_cap(), abs=1e-9)
    own.save(tmp_path / "kept")
    for kind in (Distribution, Hypothesis, Independent):
        loaded = kind.load(tmp_path / "kept")
        assert isinstance(loaded, Independent)
        assert loaded.table(("a", "b")) == pytest.approx(own.table(("a", "b")), rel=1e-13)
        assert loaded.sample(50, 3) == own.sample(50, 3)
    with pytest.raises(DataError):
        DenseHypothesis.load(tmp_path / "kept")


def test_what_a_strangers_hypothesis_cannot_learn_is_refused_before_it_is_paid():
    columns = {name: [0, 9] for name in TEN_TO_THE_30.names}
    data = PrivateData.from_columns(columns, TEN_TO_THE_30)
    asked = Session(data, Budget(epsilon=20), noise=seeded(1))
    start = Independent.uniform(TEN_TO_THE_30, 1e-4)
    with asked.open(OnlinePMW(20, updates=40, start=start)) as channel:
        spent = asked.spent
        with pytest.raises(QueryError, match="one attribute at a time"):
            channel.answer(Marginal("a1", "a2"))
        assert asked.spent == spent
        channel.answer(Marginal("a1"))


def test_a_strangers_records_answer_everything_once_they_are_paid_for():
    asked = session()
    mechanism = NoisyRecords(Fraction(1))
    quote = asked.quote(Threshold("age", 40), using=mechanism)
    with asked.open(mechanism) as channel:
        assert type(channel) is DistributionChannel
        assert asked.spent.epsilon == quote.at_most.epsilon
        release = channel.release(Threshold("age", 40))
        assert release.value == pytest.approx((AGES <= 40).mean(), abs=0.02)
        assert release.source == "fitted"
        assert release.cost.nothing
        assert not release.bound().proven
        assert release.bound().vacuous
        assert quote.bound().error == math.inf
        assert isinstance(channel.distribution, SyntheticData)
        assert channel.marginal("age").values == pytest.approx(channel.distribution.table(("age",)))
        assert channel.sample(5, seed=1) == channel.distribution.sample(5, seed=1)
    assert asked.spent.charges == 1
    # The records are public, so that another channel may start from them.
    with asked.open(OnlinePMW(1, updates=5, start=channel.distribution)) as later:
        assert later.hypothesis.table(("age",)) == pytest.approx(
            channel.distribution.table(("age",)), abs=2e-3
        )


@pytest.mark.parametrize(
    "name", ["independent.py", "kinds.py", "median.py", "records.py", "repeated.py"]
)
def test_strangers_use_public_modules_only(name):
    tree = ast.parse((HERE / "acme_dp" / name).read_text(encoding="utf-8"))
    imported = [node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
    private = [
        module
        for module in imported
        if module and any(p.startswith("_") for p in module.split(".")[1:])
    ]
    assert not private
    assert not any(module and module.startswith("dpsdk.data") for module in imported)
