"""Descents on a sketch: what they promise without regard to the number of features."""

import math

import numpy as np
import pytest

from dpsdk import Budget, Categorical, Domain, Integer, Neighbors, PrivateData, Session
from dpsdk.errors import InvalidArgument, PublicSizeRequired, QueryError
from dpsdk.forms import Facts
from dpsdk.kernel import Terms
from dpsdk.losses import LogisticLoss, SquaredLoss
from dpsdk.mechanisms import NoisyDescent, PrivateMinimizer, Sketch
from dpsdk.mechanisms.convex.sketch import distortion
from dpsdk.queries import Ball, Box, ConvexMinimization, Count, OneHot
from dpsdk.testing import seeded

pytestmark = pytest.mark.thorough

TOWNS = 340
WIDE = Domain(Integer("town", 0, TOWNS - 1), Categorical("sick", [0, 1]))
RNG = np.random.default_rng(3)
TOWN = RNG.integers(0, TOWNS, 4000) ** 2 // TOWNS
SICK = (RNG.random(4000) < 0.2 + 0.6 * (TOWN < 20)).astype(int)
DATA = PrivateData.from_columns({"town": TOWN, "sick": SICK}, WIDE)


BALL = Ball(1)


def query(over=BALL):
    return ConvexMinimization(SquaredLoss(), features=[OneHot("town")], label="sick", over=over)


def test_a_sketch_keeps_inner_products_as_often_as_it_says():
    size, dimension, vectors = 400, 30, 8
    e = distortion(size, vectors, 0.5)
    generator = np.random.default_rng(9)
    points = generator.normal(size=(vectors, dimension))
    points /= np.linalg.norm(points, axis=1)[:, None]
    fixed, failed = points[0] * 0.6 + points[1] * 0.8, 0
    for _ in range(60):
        matrix = generator.standard_normal((size, dimension)) / math.sqrt(size)
        seen, own = points @ matrix.T, matrix @ fixed
        off = np.abs(seen @ own - points @ fixed).max() / np.linalg.norm(fixed)
        longest = max(float((seen**2).sum(axis=1).max()), float(own @ own / (fixed @ fixed)))
        failed += off > e or longest > 1 + e
    # A right bound fails in 50 runs of 60, at a rate of a half, with a chance below 1e-7.
    assert failed < 50
    assert distortion(size, vectors, 1e-9) > e
    assert distortion(20, vectors, 0.5) == math.inf


def test_what_a_sketch_promises_holds_and_its_model_may_leave_the_ball():
    asked = query(Ball(0.2))
    form = asked.lower(WIDE)
    oracle = Sketch.textbook(steps=1, size=280)
    using = PrivateMinimizer(epsilon=3, delta="1e-6", oracle=oracle)
    session = Session(DATA, Budget(9, "1e-5"), noise=seeded(1))
    quote = session.quote(asked, using=using)
    release = session.release(asked, using=using)
    bound = release.bound(0.05)
    assert bound.standing == "proven"
    assert (
        bound.error
        == quote.error(0.05)
        == oracle.alpha0(form, Terms(DATA.facts), Budget(3, "1e-6"), 0.05)
    )
    assert release.cost == quote.at_most
    weights = np.zeros(form._shape)
    np.add.at(weights, (TOWN, SICK), 1 / len(TOWN))

    def risk(theta):
        margins, labels = form._margins(theta)
        return float((weights * form.loss.value(margins, labels)).sum())

    best = np.zeros(form.dimension)
    for _ in range(50):  # a solver would take longer to decompose the Hessian
        best = form.over.project(best - form.gradient(best).blocks[0].weights @ weights.reshape(-1))
    assert risk(release.value.theta) - risk(best) <= bound.error
    assert np.linalg.norm(release.value.theta) > 0.2  # the radius of Θ
    # For less than was planned, nothing follows.
    assert release.bound(0.01).standing == "none"


def test_a_sketched_query_answers_as_the_whole_one():
    form = query().lower(WIDE)
    oracle = Sketch.textbook(size=280)
    small, matrix = oracle.sketched(form, 5)
    theta = np.random.default_rng(1).normal(size=280)
    assert np.allclose(small._margins(theta)[0], form._margins(matrix.T @ theta)[0])
    assert matrix.shape == (280, form.dimension)
    again, other = oracle.sketched(form, 5)
    assert (matrix == other).all()
    assert again.over.radius == small.over.radius > 1.0
    assert not np.allclose(oracle.sketched(form, 6)[1], matrix)


def test_the_bound_does_not_grow_with_the_features():
    wide = Domain(Integer("town", 0, 499), Categorical("sick", [0, 1]))
    wider = Domain(Integer("town", 0, 999), Categorical("sick", [0, 1]))
    bounds = []
    for domain in (wide, wider):
        facts = Facts(domain, Neighbors.REPLACE_ONE, 10**7, outside=True, row_limit=10**7)
        form = query().lower(domain)
        oracle = Sketch.textbook(steps=16, size=400)
        bounds.append(oracle.alpha0(form, Terms(facts), Budget(1, "1e-6"), 0.05))
    assert bounds[1] == pytest.approx(bounds[0], rel=0.1)
    facts = Facts(wider, Neighbors.REPLACE_ONE, 10**7, outside=True, row_limit=10**7)
    assert (
        Sketch.textbook(steps=16).alpha0(
            query().lower(wider), Terms(facts), Budget(1, "1e-6"), 0.05
        )
        < bounds[1]
    )


def test_conditions_come_first():
    total, terms = Budget(1, "1e-6"), Terms(DATA.facts)
    with pytest.raises(InvalidArgument, match="Ball"):
        Sketch.textbook().quote(query(Box(-1, 1)).lower(WIDE), terms, total)
    few = Domain(Integer("town", 0, 30), Categorical("sick", [0, 1]))
    facts = Facts(few, Neighbors.REPLACE_ONE, 100, outside=True, row_limit=100)
    with pytest.raises(InvalidArgument, match="fewer than there are features"):
        Sketch.textbook().quote(query().lower(few), Terms(facts), total)
    with pytest.raises(InvalidArgument, match="coordinates or more"):
        Sketch.textbook(size=30).quote(query().lower(WIDE), terms, total)
    private = Facts(WIDE, Neighbors.ADD_REMOVE, None, outside=True, row_limit=100)
    with pytest.raises(PublicSizeRequired):
        Sketch.textbook().quote(query().lower(WIDE), Terms(private), total)
    with pytest.raises(QueryError):
        Sketch(size=3).quote(Count().lower(WIDE), terms, total)
    for given in ({"size": 0}, {}, {"size": 3, "descent": NoisyDescent(ridge=1)}):
        with pytest.raises(InvalidArgument):
            Sketch(**given)


def test_a_sketch_of_any_size_promises_nothing():
    using = PrivateMinimizer(
        epsilon=1, delta="1e-6", oracle=Sketch(size=8, descent=NoisyDescent(steps=5))
    )
    session = Session(DATA, Budget(9, "1e-5"), noise=seeded(1))
    asked = ConvexMinimization(LogisticLoss(), features=["town"], label="sick", over=Ball(1))
    release = session.release(asked, using=using)
    assert release.bound().standing == "none"
    assert release.cost == session.quote(asked, using=using).at_most
