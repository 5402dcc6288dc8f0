"""Models of many attributes: what they cost, what they refuse, and that they are found."""

import numpy as np
import pytest

from dpsdk import Boolean, Budget, Categorical, Domain, Integer, Neighbors, PrivateData, Session
from dpsdk.errors import BudgetExceeded, InvalidArgument, NoBound, PublicSizeRequired
from dpsdk.losses import LogisticLoss, SquaredLoss, SVMLoss
from dpsdk.mechanisms import Corrected, HeavyBall, NoisyDescent, PrivateMinimizer
from dpsdk.queries import Ball, ConvexMinimization
from dpsdk.testing import seeded

RNG = np.random.default_rng(11)
ROWS = 4000
NAMES = [f"a{place}" for place in range(8)]
DOMAIN = Domain(
    *[Integer(name, 0, 9) for name in NAMES[:6]],
    *[Categorical(name, ["x", "y", "z"]) for name in NAMES[6:]],
    Boolean("rich"),
)
CODES = {name: RNG.integers(0, DOMAIN[name].size, ROWS) for name in NAMES}
SCORE = (CODES["a0"] - 4.5) * 0.8 - (CODES["a1"] - 4.5) * 0.5 + (CODES["a6"] == 1)
RICH = RNG.random(ROWS) < 1 / (1 + np.exp(-SCORE))
COLUMNS = {name: np.array(DOMAIN[name].labels)[code].tolist() for name, code in CODES.items()} | {
    "rich": RICH
}


def query(loss=None):
    return ConvexMinimization(loss or LogisticLoss(), features=NAMES, label="rich", over=Ball(30))


def session(budget=None, **given):
    data = PrivateData.from_columns(COLUMNS, DOMAIN, **given)
    return Session(data, budget or Budget(4, 1e-6), noise=seeded(1))


def right(model):
    return float(((model.predict(COLUMNS) > 0.5) == RICH).mean())


@pytest.mark.thorough(quick=1)
@pytest.mark.parametrize("neighbors", Neighbors)
def test_a_model_of_many_attributes_is_found(neighbors):
    release = session(neighbors=neighbors).release(
        query(), using=PrivateMinimizer(epsilon=4, delta=1e-6)
    )
    assert query().lower(DOMAIN).wide
    assert right(release.value) > 0.8
    assert release.source == "measured"
    assert release.bound().standing == "none"
    with pytest.raises(NoBound, match="momentum"):
        release.error(0.05)


@pytest.mark.thorough
@pytest.mark.parametrize("loss", [SquaredLoss(), SVMLoss()])
def test_other_losses_are_found_too(loss):
    answer = session().answer(query(loss), using=PrivateMinimizer(epsilon=4, delta=1e-6))
    margins = answer.predict(COLUMNS)
    assert np.corrcoef(margins, RICH)[0, 1] > 0.6


@pytest.mark.thorough
def test_all_gradients_are_paid_before_the_first():
    mechanism = PrivateMinimizer(epsilon=4, delta=1e-6)
    one = session()
    quote = one.quote(query(), using=mechanism)
    release = one.release(query(), using=mechanism)
    assert release.cost == quote.at_most
    assert 30 <= len(list(release.cost.guarantees)) <= 300
    with pytest.raises(BudgetExceeded):
        one.release(query(), using=mechanism)
    small = session(Budget(1, 1e-6))
    with pytest.raises(BudgetExceeded):
        small.release(query(), using=mechanism)
    assert not small.spent.charges


def test_at_a_tiny_budget_it_is_the_constant_model_and_says_so():
    mechanism = PrivateMinimizer(epsilon="0.01", delta=1e-6)
    release = session().release(query(), using=mechanism)
    assert len(list(release.cost.guarantees)) == 1
    assert set(release.value.coefficients.values()) == {0.0}
    assert "constant model" in release.bound().kind


def test_what_noise_would_hide_is_refused():
    with pytest.raises(InvalidArgument, match="delta"):
        session().release(query(), using=PrivateMinimizer(epsilon=4))
    with pytest.raises(InvalidArgument, match="delta"):
        session(neighbors=Neighbors.ADD_REMOVE).quote(query(), using=PrivateMinimizer(epsilon=4))


@pytest.mark.parametrize("clip", [0, -1, "x", float("nan"), 2**21])
def test_a_clip_is_a_positive_number(clip):
    with pytest.raises(InvalidArgument, match="clip"):
        HeavyBall(clip=clip)


def test_narrow_models_are_found_as_ever():
    narrow = ConvexMinimization(LogisticLoss(), features=["a0", "a6"], label="rich", over=Ball(9))
    mechanism = PrivateMinimizer(epsilon=1, delta=1e-6)
    assert mechanism.oracle_for(narrow.lower(DOMAIN)) == Corrected()
    assert mechanism.oracle_for(query().lower(DOMAIN)) == HeavyBall()
    plain = session().answer(
        narrow, using=PrivateMinimizer(epsilon=1, delta=1e-6, oracle=HeavyBall())
    )
    assert plain.coefficients["a0"] > 0


@pytest.mark.thorough
@pytest.mark.parametrize("loss", [LogisticLoss(), SquaredLoss()])
def test_the_textbook_bound_holds_for_wide_models(loss):
    oracle = NoisyDescent.textbook(steps=64)
    form = query(loss).lower(DOMAIN)
    start = np.zeros(form.dimension)
    one = session(Budget(1000, 1e-6))
    mechanism = PrivateMinimizer(epsilon=1000, delta=1e-6, oracle=oracle)
    release = one.release(query(loss), using=mechanism)
    bound = release.bound(0.05)
    assert bound.standing == "proven"
    inputs = release.value._inputs
    features = np.stack([inputs.margins(unit, CODES) for unit in np.eye(form.dimension)]).T
    targets = np.where(RICH, 1.0, -1.0) if loss.signed else form.targets[RICH.astype(int)]

    def value(theta):
        return float(loss.value(features @ theta, targets).mean())

    # A long descent without noise comes within a thousandth of the least value.
    theta, bend = start.copy(), 1.0 if loss == SquaredLoss() else 0.25
    for _ in range(3000):
        slopes = loss.derivative(features @ theta, targets)
        theta = form.over.project(theta - features.T @ slopes / (bend * ROWS))
    assert value(release.value.theta) - value(theta) <= bound.error
    assert bound.error < 60 * value(start)


def test_the_textbook_needs_a_public_number_of_rows():
    mechanism = PrivateMinimizer(epsilon=1, delta=1e-6, oracle=NoisyDescent.textbook())
    with pytest.raises(PublicSizeRequired):
        session(neighbors=Neighbors.ADD_REMOVE).quote(query(), using=mechanism)
