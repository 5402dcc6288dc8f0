"""Workloads of models: whatever answers one model answers several, within one total."""

import math
from fractions import Fraction

import numpy as np
import pytest

from dpsdk import wire
from dpsdk.accounting import BasicComposition, Budget, EnvelopeComposition, ZCDPComposition
from dpsdk.accuracy import NoAccuracy
from dpsdk.data import PrivateData
from dpsdk.domain import Boolean, Categorical, Domain, Integer
from dpsdk.errors import BudgetExceeded, InvalidArgument, NoBound, QueryError
from dpsdk.forms import ConvexForms, Neighbors
from dpsdk.losses import LogisticLoss, SquaredLoss
from dpsdk.mechanisms import (
    MWEM,
    ConvexPMW,
    HeavyBall,
    Laplace,
    LocalMarginals,
    NoisyDescent,
    NoisyHistogram,
    PerturbedObjective,
    PrivateMinimizer,
)
from dpsdk.mechanisms.convex.correction import PredictedExcess
from dpsdk.mechanisms.convex.several import ExcessOfEach
from dpsdk.queries import Ball, ConvexMinimization, Count, Model, OneVsRest, Workload, marginals
from dpsdk.session import Session
from dpsdk.testing import seeded

DOMAIN = Domain(
    Integer("age", 0, 9),
    Categorical("job", ["a", "b", "c"]),
    Boolean("rich"),
    Integer("hours", 0, 4),
)
DELTA = "1e-7"


def model(*features, label="rich", loss=None):
    return ConvexMinimization(
        loss or LogisticLoss(), features=list(features), label=label, over=Ball(3)
    )


MODELS = (model("age", "job"), model("hours"), model("age", label="hours", loss=SquaredLoss()))
MANY = Workload(MODELS)


def opened(budget=None, rows=3000, **given):
    rng = np.random.default_rng(0)
    age, job = rng.integers(0, 10, rows), rng.integers(0, 3, rows)
    columns = {
        "age": age,
        "job": np.array(["a", "b", "c"])[job],
        "rich": age + 2 * job + rng.normal(0, 2, rows) > 7,
        "hours": rng.integers(0, 5, rows),
    }
    data = PrivateData.from_columns(columns, DOMAIN, **given.pop("data", {}))
    return Session(data, budget or Budget(3, "1e-6"), noise=seeded(1), **given)


PAIRS = marginals(DOMAIN, 2, normalized=False)
USING = {
    "minimizer": PrivateMinimizer(epsilon=1, delta=DELTA),
    "pure": PrivateMinimizer(epsilon=1),
    "wide": PrivateMinimizer(epsilon=1, delta=DELTA, oracle=HeavyBall()),
    "histogram": NoisyHistogram(epsilon=1, delta=DELTA),
    "local": LocalMarginals(PAIRS, epsilon=1, delta=DELTA),
    "mwem": MWEM(PAIRS, epsilon=1, delta=DELTA),
}


@pytest.mark.thorough(quick=2)
@pytest.mark.parametrize("name", USING)
def test_whatever_answers_one_model_answers_several(name):
    using = USING[name]
    release = opened().release(MANY, using=using)
    assert [type(one) for one in release.value] == [Model] * 3
    assert release.value[MODELS[1]] is release.value[1]
    assert [len(one.theta) for one in release.value] == [
        query.lower(DOMAIN).dimension for query in MODELS
    ]
    if isinstance(using, PrivateMinimizer):  # others price a model by its label's table
        assert release.cost.runs == opened().quote(MANY, using=using).at_most.runs
    sources = {opened().release(one, using=using).source for one in MODELS}
    assert release.source == ("fitted" if len(sources) > 1 else sources.pop())


@pytest.mark.parametrize("updates", [1, 4])
def test_a_guard_answers_several_as_one_by_one(updates):
    mechanism = ConvexPMW(epsilon=1, delta=DELTA, updates=updates, threshold=0.05)
    with opened().open(mechanism) as channel:
        together = channel.release(MANY)
    with opened().open(mechanism) as channel:
        apart = [channel.release(one) for one in MODELS]
    for one, other in zip(together.value, apart, strict=True):
        np.testing.assert_array_equal(one.theta, other.value.theta)
    charged = [run for one in apart for run in one.cost.guarantees]
    assert list(together.cost.guarantees) == charged
    quote = opened().quote(MANY, using=mechanism)
    assert len(quote.at_most.guarantees) - len(quote.at_open.guarantees) == 6


@pytest.mark.parametrize(
    ("composition", "given"),
    [
        (BasicComposition(), {}),
        (ZCDPComposition(), {}),
        (EnvelopeComposition(), {"oracle": HeavyBall()}),
    ],
)
def test_several_models_stay_within_their_total(composition, given):
    using = PrivateMinimizer(epsilon=1, delta=DELTA, **given)
    session = opened(Budget(1, DELTA), composition=composition)
    session.answer(MANY, using=using)
    # Parts of ε and δ add up; elsewhere they share a ρ, of which rounding leaves next to nothing.
    assert 0.97 < session.spent.fraction <= 1


def test_all_models_are_paid_before_the_first_is_found():
    using = PrivateMinimizer(epsilon=1, delta=DELTA)
    session = opened(Budget("0.9", DELTA))
    with pytest.raises(BudgetExceeded):
        session.answer(MANY, using=using)
    assert session.spent.charges == 0
    assert session.history == ()


def test_a_private_number_of_rows_is_bought_for_each_model():
    session = opened(data={"neighbors": Neighbors.ADD_REMOVE})
    release = session.release(MANY, using=PrivateMinimizer(epsilon=1, delta=DELTA))
    assert (
        release.cost.runs
        == session.quote(MANY, using=PrivateMinimizer(epsilon=1, delta=DELTA)).at_most.runs
    )


@pytest.mark.thorough
def test_bounds_and_predictions_are_of_each_model():
    certified = NoisyDescent.textbook()
    using = PrivateMinimizer(epsilon=2, delta=DELTA, oracle=certified)
    release = opened(rows=30_000).release(Workload(MODELS[1:]), using=using)
    each = release.errors(0.1)
    assert each.shape == (2,)
    assert release.error(0.1) >= each.max()
    predicted = opened().release(MANY, using=USING["minimizer"])
    assert predicted.bound().predicted > 0
    with pytest.raises(NoBound):
        predicted.errors()
    with pytest.raises(NoBound):
        predicted.error()


def test_the_worst_excess_shares_its_beta_among_what_is_proven():
    class Falling(PredictedExcess):
        def error(self, beta):
            return self.value - math.log(beta)

    proven = [Falling(1.0), Falling(2.0)]
    for one in proven:
        object.__setattr__(one, "standing", "proven")
    joint = ExcessOfEach(tuple(proven))
    assert joint.standing == "proven"
    assert joint.error(0.1) == 2.0 - math.log(0.05)
    assert joint.each(0.1).tolist() == [1.0 - math.log(0.1), 2.0 - math.log(0.1)]
    mixed = ExcessOfEach((proven[0], NoAccuracy("nobody looked")))
    assert (mixed.standing, mixed.kind, mixed.error(0.1)) == ("none", "nobody looked", math.inf)
    assert mixed.each(0.1).tolist() == [1.0 - math.log(0.1), math.inf]


def test_several_models_are_planned_reused_and_told_apart():
    session = opened()
    plans = session.plan(MANY, budget=Budget(1, DELTA))
    assert plans[0].mechanism is not None
    assert {type(one) for one in session.answer(MANY, using=plans[0])} == {Model}
    back = wire.loads("query", wire.dumps(MANY))
    assert back == MANY
    assert isinstance(back.lower(DOMAIN), ConvexForms)
    first = session.release(MANY, using=USING["minimizer"], request_id="r")
    spent = session.spent
    again = session.release(MANY, using=USING["minimizer"], request_id="r")
    assert session.spent == spent
    np.testing.assert_array_equal(first.value.values, again.value.values)
    told = wire.loads("release", wire.dumps(first))
    assert told.answer.stands_for == "several"
    assert [part.stands_for for part in told.answer.parts] == ["equation"] * 3


def test_workloads_of_models_are_refused_where_no_model_is_asked():
    with pytest.raises(QueryError, match="models only"):
        opened().answer(Workload([Count(), MODELS[0]]), using=Laplace(epsilon=1))
    with pytest.raises(QueryError, match="PrivateMinimizer answers"):
        opened().answer(MANY, using=Laplace(epsilon=1))
    with pytest.raises(QueryError, match="ConvexMinimization"):
        opened().answer(Workload([Count()]), using=USING["minimizer"])
    with pytest.raises(InvalidArgument, match="over this domain"):
        ConvexForms(Domain(Boolean("x")), [MODELS[0].lower(DOMAIN)])
    with pytest.raises(InvalidArgument, match="at least one"):
        ConvexForms(DOMAIN, [])


def test_workloads_of_workloads_and_of_classes():
    classes = OneVsRest(model("age", label="job"))
    nested = Workload([Workload(MODELS[:2]), classes])
    inner, found = opened().answer(nested, using=USING["minimizer"])
    assert [type(one) for one in inner] == [Model, Model]
    assert found.theta.shape == (3, 2)
    with opened().open(USING["histogram"]) as channel:
        inner, found = channel.answer(nested)
        np.testing.assert_array_equal(inner[0].theta, channel.answer(MODELS[0]).theta)


def test_perturbed_objectives_are_paid_once_each():
    using = PrivateMinimizer(epsilon="0.5", oracle=PerturbedObjective())
    models = Workload(MODELS[:2])
    session = opened(Budget("0.5"))
    assert session.release(models, using=using).cost == opened().quote(models, using=using).at_most
    assert session.spent.epsilon == Fraction(1, 2)
