"""A stream of models under a guard: what it answers, pays, learns, and what its bounds say."""

from fractions import Fraction
from functools import partial

import numpy as np
import pytest
from shares import Shares

from dpsdk import (
    Budget,
    Categorical,
    Domain,
    HypothesisChannel,
    Integer,
    Neighbors,
    PrivateData,
    Session,
)
from dpsdk.accounting import PureGuarantee, zcdp_start
from dpsdk.accounting.prices.run import pure_epsilon, zcdp_rho
from dpsdk.accuracy import NoiseAccuracy
from dpsdk.errors import BudgetExceeded, InvalidArgument, NoBound, PublicSizeRequired, QueryError
from dpsdk.forms import ConvexForm
from dpsdk.forms.design import Coordinates
from dpsdk.hypothesis import DenseHypothesis, Pairs
from dpsdk.hypothesis.seeking import Tilted
from dpsdk.kernel import Kernel
from dpsdk.losses import HuberLoss, LogisticLoss, QuantileLoss, SquaredLoss, SVMLoss
from dpsdk.mechanisms import ConvexPMW
from dpsdk.mechanisms.convex.correction import correct
from dpsdk.mechanisms.convex.pmw import strategy
from dpsdk.mechanisms.convex.pmw.strategy import (
    measured_gradient,
    release_radius,
    watch_gradient,
)
from dpsdk.noise import DiscreteGaussian, DiscreteLaplace
from dpsdk.queries import Above, Ball, Box, ConvexMinimization, Count, Model, Simplex
from dpsdk.testing import seeded
from worlds import facts

pytestmark = pytest.mark.thorough

DOMAIN = Domain(
    Integer("age", 0, 4), Categorical("sex", ["F", "M"]), Categorical("income", ["low", "high"])
)
SHAPE = (5, 2, 2)
QUERY = ConvexMinimization(LogisticLoss(), features=["age", "sex"], label="income", over=Ball(6))


def shares(seed=1, outside=0.0):
    """A table that no product is near to."""
    rng = np.random.default_rng(seed)
    age = np.arange(5)[:, None]
    high = 1 / (1 + np.exp(2.5 - age - 3 * np.arange(2)[None, :] * (age > 2)))
    cells = rng.dirichlet(np.full(10, 3.0)).reshape(5, 2)
    joint = np.stack([cells * (1 - high), cells * high], axis=2)
    return joint * (1 - outside)


Truth = partial(Shares, DOMAIN)


def data(rows=100_000, outside=0.0, **given):
    """A table of these shares, some rows outside the domain."""
    counts = np.rint(shares(outside=outside) * rows).astype(int)
    beyond = int(rows * outside)
    return PrivateData.from_counts(counts, DOMAIN, outside_rows=beyond, **given)


def session(table=None, budget=None, seed=4):
    table = data() if table is None else table
    return Session(table, budget or Budget(10**6, "0.1"), noise=seeded(seed))


def value(form, joint, theta):
    """The average loss, by summing over cells."""
    total = 0.0
    for cell in np.ndindex(*SHAPE):
        codes = dict(zip(DOMAIN.names, cell, strict=True))
        x = np.concatenate(
            [one.values[(..., *(codes[name] for name in one.names))] for one in form.coordinates]
        )
        target = float(form.targets[codes[form.label]])
        total += joint[cell] * float(form.loss.value(np.array([x @ theta]), target)[0])
    return total


def excess(form, joint, theta):
    best, gap = form.minimise(Truth(joint), tolerance=1e-10)
    return value(form, joint, theta) - value(form, joint, best), gap


def runs(release):
    return list(release.cost.guarantees)


def test_a_model_that_the_table_agrees_with_comes_from_the_hypothesis_and_is_free():
    with session().open(ConvexPMW(100, updates=3, start="pairs", threshold=0.2)) as channel:
        assert isinstance(channel, HypothesisChannel)
        first, again = channel.release(QUERY), channel.release(QUERY)
        assert first.source == again.source == "hypothesis"
        assert [type(run) for run in runs(first)] == [PureGuarantee]  # the run that opened
        assert runs(again) == []
        assert first.value == QUERY.fit(channel.hypothesis)
        assert isinstance(first.value, Model)


def test_a_model_that_the_table_contradicts_is_measured_corrected_and_learnt():
    form, joint = QUERY.lower(DOMAIN), shares()
    mechanism = ConvexPMW(1000, updates=5, start="uniform", threshold=0.01)
    with session().open(mechanism) as channel:
        before = channel.hypothesis
        release = channel.release(QUERY)
        assert release.source == "measured"
        assert len(runs(release)) == 2
        wrong, _ = excess(form, joint, QUERY.fit(before).theta)
        right, _ = excess(form, joint, release.value.theta)
        assert right < wrong / 4
        assert relative_entropy(joint, channel.hypothesis) < relative_entropy(joint, before) - 0.01
        after, _ = excess(form, joint, QUERY.fit(channel.hypothesis).theta)
        assert after < wrong / 4
        with pytest.raises(NoBound, match="nothing is proven or predicted"):
            release.error()


def relative_entropy(joint, hypothesis):
    inside = hypothesis.table(DOMAIN.names)
    return float((joint * np.log(joint / inside)).sum())


@pytest.mark.parametrize("outside", [0.0, 0.5])
@pytest.mark.parametrize("loss", [LogisticLoss(), SquaredLoss(), HuberLoss(0.5), SVMLoss(0.5)])
def test_coordinates_bound_the_gradient_wherever_rows_lie(loss, outside):
    form = ConvexMinimization(loss, features=["age", "sex"], label="income", over=Ball(3))
    form = form.lower(DOMAIN)
    joint = shares(outside=outside)
    rows = 1000
    public = facts(DOMAIN, rows=rows, outside=bool(outside))
    hypothesis = DenseHypothesis.uniform(DOMAIN, outside=bool(outside))
    theta, _ = form.minimise(hypothesis)
    found = watch_gradient(form, theta, hypothesis, public)
    gap = found.gap
    assert gap is not None
    low, high = gap.form.limits
    assert (low, high) == (0, 1)  # each coordinate in units of its own range
    weights = gap.form.blocks[0].weights
    gaps = np.abs(weights @ joint.reshape(-1) - gap.rates)
    truth, _ = form.expand(Truth(joint), theta)
    far = np.bincount(found.places, found.ranges * gaps)
    assert float(np.linalg.norm(truth - found.own)) <= float(np.linalg.norm(far)) * (1 + 1e-9)
    # And so is the excess bounded, by a certificate at the very θ̂, minimal for p or not.
    for point in (theta, form.over.project(theta + 1.0)):
        found = watch_gradient(form, point, hypothesis, public)
        weights = found.gap.form.blocks[0].weights
        gaps = np.abs(weights @ joint.reshape(-1) - found.gap.rates)
        length = np.linalg.norm(np.bincount(found.places, found.ranges * gaps)) + found.narrow
        bound = found.certificate + length * form.over.diameter(form.dimension)
        assert excess(form, joint, point)[0] <= bound


@pytest.mark.parametrize("mass", [0.0, 0.5])
def test_a_hypothesis_may_have_a_cell_outside_where_the_table_has_none(mass):
    """As a start of another table has it: one affine map forgets what the hypothesis has there."""
    form, rng = QUERY.lower(DOMAIN), np.random.default_rng(5)
    sides = {one.name: np.full(one.size, 1 / one.size) for one in DOMAIN.attributes}
    hypothesis = DenseHypothesis.product(DOMAIN, sides, mass)
    public = facts(DOMAIN, outside=False)
    for _ in range(20):
        joint = rng.dirichlet(np.full(20, 0.2)).reshape(SHAPE)
        theta = form.over.project(rng.normal(size=4) * 5)
        found = watch_gradient(form, theta, hypothesis, public)
        gaps = np.abs(found.gap.form.blocks[0].weights @ joint.reshape(-1) - found.gap.rates)
        length = float(np.linalg.norm(np.bincount(found.places, found.ranges * gaps)))
        truth, _ = form.expand(Truth(joint), theta)
        assert float(np.linalg.norm(truth - found.own)) <= length * (1 + 1e-9)
    mechanism = ConvexPMW(100, updates=1, start=hypothesis, threshold=0.5)
    with session().open(mechanism) as channel:
        release = channel.release(QUERY)
    assert excess(form, shares(), release.value.theta)[0] <= release.error(0.1)


def test_a_solver_that_is_wrong_is_caught_by_the_certificate():
    """Canary: a bound that trusts θ̂ to be the minimum is broken by one that is not."""
    form = QUERY.lower(DOMAIN)
    hypothesis = DenseHypothesis.uniform(DOMAIN)
    uniform = np.full(SHAPE, 1 / 20)
    bad = form.over.project(np.full(4, 5.0))
    found = watch_gradient(form, bad, hypothesis, facts(DOMAIN, outside=False))
    error, _ = excess(form, uniform, bad)
    assert error > 0.1  # the table is the hypothesis, so all gaps are zero
    assert found.certificate >= error


def test_what_comes_below_has_a_proven_bound_that_holds():
    table, joint, form = data(2_000), shares(), QUERY.lower(DOMAIN)
    for seed in range(8):
        mechanism = ConvexPMW(20, updates=3, start="product", threshold=0.05)
        with session(table, seed=seed).open(mechanism) as channel:
            release = channel.release(QUERY)
            if release.source == "measured":
                continue
            bound = release.bound(0.2)
            assert bound.standing == "proven"
            assert excess(form, joint, release.value.theta)[0] <= bound.error < 6
            assert release.error(0.01) > bound.error


def test_after_the_updates_nobody_looks_and_nothing_is_proven():
    other = ConvexMinimization(SquaredLoss(), features=["age"], label="income", over=Ball(2))
    with session().open(ConvexPMW(100, updates=1, start="uniform", threshold=0.001)) as channel:
        assert channel.release(QUERY).source == "measured"
        release = channel.release(other)
        assert release.source == "hypothesis"
        assert runs(release) == []
        assert release.bound().standing == "none"
        assert release.value == other.fit(channel.hypothesis)


def test_linear_queries_come_from_the_hypothesis():
    with session().open(ConvexPMW(10, updates=2)) as channel:
        release = channel.release(Count({"sex": "M"}))
        assert release.source == "hypothesis"
        assert runs(release) == []
        assert release.value == pytest.approx(float(channel.hypothesis.table(("sex",))[1]))
        with pytest.raises(QueryError, match="Above"):
            channel.answer(Above(Count(), 0.5))


@pytest.mark.parametrize("delta", [0, "1e-6"])
@pytest.mark.parametrize("prepaid", [False, True])
@pytest.mark.parametrize("start", ["uniform", Pairs(Fraction(1, 2))])
def test_a_whole_stream_fits_its_budget_to_the_last_round(delta, prepaid, start):
    mechanism = ConvexPMW(1, delta, updates=3, start=start, threshold=1e-6, prepaid=prepaid)
    asking = session(data(2_000, outside=0.2), Budget(1, delta))
    with asking.open(mechanism) as channel:
        paid = asking.spent.charges
        for _ in range(5):
            channel.release(QUERY)
        sources = [channel.release(QUERY).source]
    assert sources == ["hypothesis"]
    spent = [run for entry in asking.history for run in entry.cost.guarantees]
    assert len(spent) == (start != "uniform") + (6 if delta or not prepaid else 4)
    if delta:
        assert sum(map(zcdp_rho, spent)) <= zcdp_start(Fraction(1), Fraction(delta))
    else:
        assert sum(map(pure_epsilon, spent)) <= 1
    if prepaid:
        assert asking.spent.charges == paid


def test_a_quote_is_at_least_what_is_charged():
    for mechanism in (
        ConvexPMW(1, "1e-6", updates=2, start="uniform", threshold=1e-6),
        ConvexPMW(1, updates=2, start="product", threshold=1e-6, prepaid=True),
    ):
        asking = session()
        quote = asking.quote(QUERY, using=mechanism)
        assert quote.bound().standing == "none"
        with asking.open(mechanism) as channel:
            opened = [run for entry in asking.history for run in entry.cost.guarantees]
            assert opened == list(quote.at_open.guarantees)
            release = channel.release(QUERY)
            assert release.source == "measured"
        charged = [run for entry in asking.history for run in entry.cost.guarantees]
        assert len(charged) == len(quote.at_most.guarantees)
        assert sum(map(zcdp_rho, charged)) <= sum(map(zcdp_rho, quote.at_most.guarantees))
        free = asking.quote(Count(), using=mechanism)
        assert free.at_most.guarantees == free.at_open.guarantees


@pytest.mark.parametrize("raises", [False, True])
def test_without_budget_for_another_round_it_answers_or_raises(raises):
    mechanism = ConvexPMW(
        1, updates=4, start="uniform", threshold=1e-6,
        when_spent="raise" if raises else "hypothesis",
    )  # fmt: skip
    with session(budget=Budget("0.3")).open(mechanism) as channel:
        assert channel.release(QUERY).source == "measured"
        if raises:
            with pytest.raises(BudgetExceeded):
                channel.answer(QUERY)
            return
        release = channel.release(QUERY)
        assert release.source == "hypothesis"
        assert release.bound().standing == "none"


def test_what_cannot_be_asked_is_refused_before_anything_is_paid():
    private = data(neighbors=Neighbors.ADD_REMOVE)
    with pytest.raises(PublicSizeRequired, match="ConvexPMW"):
        session(private).open(ConvexPMW(1, updates=2))
    asking = session()
    elsewhere = Domain(Integer("age", 0, 4), Categorical("income", ["low", "high"]))
    with asking.open(ConvexPMW(1, updates=2, start="uniform")) as channel:
        form = ConvexMinimization(
            LogisticLoss(), features=["age"], label="income", over=Ball(1)
        ).lower(elsewhere)
        kernel = Kernel.over(channel._access)
        with pytest.raises(InvalidArgument, match="another domain"):
            channel._strategy.answer(form, kernel)
        huge = ConvexMinimization(SquaredLoss(), features=["age"], label="income", over=Ball(1e60))
        with pytest.raises(InvalidArgument):
            channel.answer(huge)
    assert asking.spent.charges == 0
    for given in (
        {"updates": 0}, {"updates": 2, "queries": 0}, {"updates": 2, "threshold": 1.5},
        {"updates": 2, "when_spent": "stop"}, {"updates": 2, "start": "best"},
    ):  # fmt: skip
        with pytest.raises(InvalidArgument):
            ConvexPMW(1, **given)


def test_the_noise_of_a_release_is_bounded_though_the_way_follows_from_it():
    """The way of a correction is a function of the noise; σ‖way‖ times a quantile is too little."""
    rng = np.random.default_rng(0)
    dimension, spread = 12, 40.0
    hessian = np.diag(np.geomspace(1.0, 1e-3, dimension))
    law = DiscreteGaussian(Fraction(1600))
    accuracy = NoiseAccuracy(law, dimension, 1.0, 0.0)
    beta, naive, held = 0.05, 0, 0
    for _ in range(400):
        noise = np.rint(rng.normal(0, spread, dimension))
        way = np.linalg.solve(hessian, noise)
        seen = abs(float(way @ noise))
        held += seen <= release_radius(way, hessian, accuracy, beta)
        naive += seen <= spread * float(np.linalg.norm(way)) * np.sqrt(2 * np.log(2 / beta))
    assert held >= 0.95 * 400
    assert naive < 0.95 * 400
    laplace = NoiseAccuracy(DiscreteLaplace(Fraction(30)), dimension, 1.0, 0.0)
    way = np.ones(dimension)
    assert release_radius(way, hessian, laplace, beta) >= 30 * np.log(1 / beta)


def test_a_correction_never_fails_and_stays_in_the_set():
    form, joint = QUERY.lower(DOMAIN), shares()
    hypothesis = DenseHypothesis.uniform(DOMAIN)
    theta, _ = form.minimise(hypothesis)
    exact, _ = form.expand(Truth(joint), theta)
    found = correct(form, hypothesis, theta, exact, 1e-9)
    assert excess(form, joint, found.theta)[0] < excess(form, joint, theta)[0] / 10
    noisy = correct(form, hypothesis, theta, exact, 10.0)
    assert np.array_equal(noisy.theta, theta)
    for wild in (np.full(4, 1e300), np.full(4, np.nan), np.full(4, -1e8)):
        result = correct(form, hypothesis, theta, wild, 1e-3)
        assert form.over.contains(result.theta)


@pytest.mark.parametrize("loss", [SVMLoss(), QuantileLoss(0.5), QuantileLoss(0.3)])
def test_a_loss_with_a_kink_is_corrected_too(loss):
    """A kink has no curvature: corrected by that, every model would stay as it is."""
    label = "income" if isinstance(loss, SVMLoss) else "age"
    features = ["age", "sex"] if label == "income" else ["sex", "income"]
    query = ConvexMinimization(loss, features=features, label=label, over=Ball(6))
    form, joint = query.lower(DOMAIN), shares()
    mechanism = ConvexPMW(10**4, updates=3, start="product", threshold=0.001)
    with session().open(mechanism) as channel:
        wrong, _ = excess(form, joint, query.fit(channel.hypothesis).theta)
        release = channel.release(query)
        assert release.source == "measured"
        right, _ = excess(form, joint, release.value.theta)
        assert right < wrong / 2
        assert release.bound().predicted is None


@pytest.mark.parametrize(
    ("loss", "size"),
    [(LogisticLoss(), size) for size in (1e-200, 1e-9, 1e7)]
    + [(SVMLoss(), size) for size in (1e-200, 1.0)],
)
@pytest.mark.parametrize("given", [(1000, 0), (1, "1e-6"), ("1e-9", 0)])
def test_nothing_fails_after_a_charge_whatever_the_size_of_features(size, given, loss):
    """A gradient is measured with weights up to 1, so its noise fits where that of gaps does."""
    part = np.linspace(-size, size, 5)
    form = ConvexForm(
        DOMAIN,
        [Coordinates((), np.ones((1,)) * size), Coordinates(("age",), part[None, :])],
        "income",
        np.array([-1.0, 1.0]),
        loss,
        Ball(3),
    )
    asking = session(data(1_000))
    try:
        channel = asking.open(ConvexPMW(*given, updates=2, start="uniform", threshold=1e-6))
    except InvalidArgument:
        assert asking.spent.charges == 0
        return
    with channel:
        kernel = Kernel.over(channel._access)
        for _ in range(3):
            before = asking.spent.charges
            try:
                answer = channel._strategy.answer(form, kernel)
            except InvalidArgument:
                assert asking.spent.charges == before
                continue
            assert form.over.contains(answer.values[:-1])


def test_a_hypothesis_without_curvature_learns_from_a_gradient_all_the_same():
    query = ConvexMinimization(SVMLoss(), features=["age", "sex"], label="income", over=Ball(6))
    with session().open(ConvexPMW(1000, updates=3, start="uniform", threshold=0.01)) as channel:
        assert not channel.hypothesis.copy().answers(query.lower(DOMAIN).hessian(np.zeros(4))).any()
        release = channel.release(query)
        assert release.source == "measured"
        assert release.value != query.fit(channel.hypothesis)


def test_flat_and_tiny_curvatures_give_a_radius():
    law = NoiseAccuracy(DiscreteGaussian(Fraction(100)), 3, 1.0, 0.0)
    way = np.array([1.0, -2.0, 0.5])
    whole = release_radius(way, np.diag([1.0, 0.5, 0.1]), law, 0.1)
    for scale in (1e-320, 1e-200, 1e200):
        found = release_radius(way, scale * np.diag([1.0, 0.5, 0.1]), law, 0.1)
        assert found == pytest.approx(whole, rel=0.01)
    assert 0 < release_radius(way, np.zeros((3, 3)), law, 0.1) < 1000


@pytest.mark.parametrize("number", [1e300, -1e300, 1e18, 0.0])
@pytest.mark.parametrize("loss", [LogisticLoss(), SquaredLoss(), SVMLoss()])
@pytest.mark.parametrize("over", [Ball(6), Box(-1, 1), Simplex()])
def test_no_noise_makes_learning_fail(number, loss, over, monkeypatch):
    def wild(*given):
        values, accuracy = measured_gradient(*given)
        return np.full_like(values, number), accuracy

    monkeypatch.setattr(strategy, "measured_gradient", wild)
    query = ConvexMinimization(loss, features=["age", "sex"], label="income", over=over)
    with session().open(ConvexPMW(10, updates=2, start="uniform", threshold=1e-6)) as channel:
        for _ in range(3):
            channel.release(query)
        table = channel.hypothesis.table(DOMAIN.names)
        assert (table >= 0).all()
        assert table.sum() <= 1 + 1e-9


def test_a_mean_is_found_where_logarithms_of_weights_are_huge():
    values, logs = np.array([-1.0, 0.25, 1.0]), np.array([-1e17, -3e17, -1.2e19])
    tilted = Tilted([(values, logs)], True, -2e14)
    for step in (1.2e19, -1.2e19, 1e300):
        mean, variance = tilted._moments(step)
        assert -1 <= mean <= 1
        assert -1e-9 <= variance <= 2
