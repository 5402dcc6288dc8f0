"""Proven bounds of the excess of a model: that they hold, and where others would not."""

import copy
import math
import pickle

import numpy as np
import pytest
from attrs import evolve, frozen

from dpsdk import Boolean, Budget, Categorical, Domain, Integer, Neighbors, PrivateData
from dpsdk.accounting import Odometer, ZCDPComposition
from dpsdk.accuracy import NoiseAccuracy, bound_of
from dpsdk.errors import BudgetExceeded, InvalidArgument, QueryError, TooLarge
from dpsdk.forms import Ball, Box, ConvexForm, Coordinates, Simplex
from dpsdk.kernel import GaussianNoise, Kernel, LaplaceNoise
from dpsdk.losses import GLMLoss, HuberLoss, LogisticLoss, Loss, QuantileLoss, SquaredLoss, SVMLoss
from dpsdk.mechanisms import Corrected, Moments
from dpsdk.mechanisms.convex import batches, certified, shares
from dpsdk.mechanisms.convex.excess import frank_wolfe, self_concordant, vectors
from dpsdk.mechanisms.convex.moments import Span
from dpsdk.mechanisms.convex.noise import Tails
from dpsdk.noise import DiscreteGaussian, DiscreteLaplace
from dpsdk.queries import ConvexMinimization, OneHot
from dpsdk.release import Measurement
from dpsdk.testing import seeded

pytestmark = pytest.mark.thorough

DOMAIN = Domain(
    Integer("age", 0, 4), Categorical("sex", ["F", "M"]), Integer("pay", 0, 3), Boolean("rich")
)
SILENT = GaussianNoise(10**8)
OVER = [Ball(3), Box(-2, [1, 2, 0, 2]), Simplex()]
BENT = [SquaredLoss(), LogisticLoss(), GLMLoss("logit"), GLMLoss("log")]
LOSSES = [*BENT, SVMLoss(), SVMLoss(0.2), HuberLoss(0.5), QuantileLoss("0.3"), GLMLoss("probit")]


class Table:
    """Rows that may be anywhere, and the truth about them."""

    def __init__(self, count, seed=0, *, stray=0.1, neighbors=Neighbors.REPLACE_ONE):
        rng = np.random.default_rng(seed)
        age, pay = rng.integers(0, 5, count), rng.integers(0, 4, count)
        rich = rng.random(count) < 1 / (1 + np.exp(2.0 - age))
        outside = rng.random(count) < stray
        self.count, self.inside = count, count - outside.sum()
        sex = rng.integers(0, 2, count)
        columns = {
            "age": np.where(outside, 99, age),
            "sex": np.array(["F", "M"])[sex],
            "pay": pay,
            "rich": rich,
        }
        self.data = PrivateData.from_columns(columns, DOMAIN, neighbors=neighbors)
        self.counts = np.zeros(DOMAIN.shape)
        kept = ~outside
        np.add.at(self.counts, (age[kept], sex[kept], pay[kept], rich[kept].astype(int)), 1.0)
        self.rows = count if neighbors is Neighbors.REPLACE_ONE else self.inside

    def table(self, names):
        others = tuple(i for i, name in enumerate(DOMAIN.names) if name not in names)
        return self.counts.sum(axis=others) / self.rows

    def kernel(self, seed=0):
        odometer = Odometer(Budget(10**9, "1e-6"), ZCDPComposition())
        return Kernel(self.data, odometer, seeded(seed), "certify")

    def risk(self, form, theta):
        names = form.names
        wide = vectors(form.coordinates)
        sizes = dict.fromkeys([name for one in form.coordinates for name in one.names])
        weights = self.table((*sizes, form.label))
        left = [name for name in names if name in (*sizes, form.label)]
        weights = weights.transpose([left.index(name) for name in (*sizes, form.label)])
        z = theta @ wide
        return sum(
            float(weights.reshape(len(z), -1)[:, place] @ form.loss.value(z, label))
            for place, label in enumerate(form.targets)
        )

    def excess(self, form, theta):
        best, _ = form.minimise(self, tolerance=1e-8)
        return self.risk(form, theta) - self.risk(form, best)


TABLE = Table(2000)
# The coordinates of sex and the constant are collinear, as those of a one-hot feature are.
COORDINATES = [
    Coordinates(("age",), np.linspace(-0.5, 0.5, 5)[None]),
    Coordinates(("sex",), np.eye(2) / 2),
    Coordinates((), np.array([0.5])),
]


def form(loss=None, over=None, coordinates=COORDINATES):
    loss = loss or LogisticLoss()
    if loss.signed or isinstance(loss, GLMLoss):
        targets = (-1.0, 1.0) if loss.signed else (0.0, 1.0)
        return ConvexForm(DOMAIN, coordinates, "rich", np.array(targets), loss, over or Ball(3))
    return ConvexForm(DOMAIN, coordinates, "pay", np.linspace(0, 1, 4), loss, over or Ball(3))


def certify(convex, theta, noise=SILENT, table=TABLE, seed=0, **arguments):
    count = batches(convex, moments="moments" in arguments)
    return certified(convex, table.kernel(seed), theta, [noise] * count, **arguments)


def some_theta(convex, rng):
    return convex.over.project(rng.normal(size=convex.dimension))


@pytest.mark.parametrize("loss", LOSSES)
def test_without_noise_a_bound_is_the_gap_or_sharper(loss):
    rng = np.random.default_rng(1)
    for over in OVER:
        convex = form(loss, over)
        theta = some_theta(convex, rng)
        found = certify(convex, theta)
        true = TABLE.excess(convex, theta)
        gap = form(loss, over).over.gap(theta, np.array(found.gradient) / TABLE.count)
        assert true - 1e-6 <= found.error(0.05) <= gap + 0.01
        assert found.standing == "proven"
        assert found.span == convex.constants.range
        if loss in BENT:
            assert found.curvature is not None


@pytest.mark.parametrize("loss", BENT)
def test_curvature_is_sharp_near_the_optimum(loss):
    convex = form(loss, Ball(8))
    best, _ = convex.minimise(TABLE, tolerance=1e-10)
    for size in (0.03, 0.3):
        theta = best + size * np.array([1.0, -0.5, 0.3, 0.2])
        true = TABLE.excess(convex, theta)
        assert true <= certify(convex, theta).error(0.05) < 1.3 * true + 1e-4 * size


def test_features_that_are_collinear_have_curvature_too():
    convex = form(SquaredLoss())
    assert np.linalg.matrix_rank(vectors(COORDINATES)) == 3
    known = Span.of(convex)
    assert known.basis.shape == (4, 3)
    assert known.missed < 1e-14
    best, _ = convex.minimise(TABLE)
    found = certify(convex, best, GaussianNoise(50))
    assert found.error(0.05) < 0.1 * evolve(found, curvature=None).error(0.05)


@pytest.mark.parametrize("seed", range(8))
def test_the_span_is_that_of_all_feature_vectors(seed):
    rng = np.random.default_rng(seed)
    coordinates = []
    for _ in range(rng.integers(1, 5)):
        names = [name for name in ("sex", "age", "rich") if rng.random() < 0.4]
        sizes = [DOMAIN[name].size for name in names]
        values = rng.integers(-1, 2, (rng.integers(1, 4), *sizes)).astype(float)
        coordinates.append(Coordinates(tuple(names), values * rng.choice([1e-3, 1, 50])))
    convex = ConvexForm(DOMAIN, coordinates, "pay", np.ones(4), SquaredLoss(), Ball(1))
    known, columns = Span.of(convex), vectors(coordinates)
    assert known.basis.shape[1] == np.linalg.matrix_rank(columns, tol=1e-6)
    left = columns - known.basis @ (known.basis.T @ columns)
    largest = np.linalg.norm(columns, axis=0).max()
    assert np.linalg.norm(left, axis=0).max() <= known.missed + 1e-15 * largest
    assert known.missed <= 1e-12 * largest


@pytest.mark.parametrize("noise", [GaussianNoise("0.5"), LaplaceNoise(2)])
@pytest.mark.parametrize("loss", [SquaredLoss(), LogisticLoss(), SVMLoss(), HuberLoss(0.5)])
def test_bounds_cover(loss, noise):
    convex, runs = form(loss), 25
    rng, missed = np.random.default_rng(2), 0
    best, _ = convex.minimise(TABLE)
    least = TABLE.risk(convex, best) - 1e-6
    for seed in range(runs):
        theta = convex.over.project(best + 0.3 * rng.normal(size=4))
        found = certify(convex, theta, noise, seed=seed)
        missed += TABLE.risk(convex, theta) - least > found.error(0.5)
    # More would be seen with a probability below 1e-6 if each failed with one half.
    assert missed <= runs * 0.5 + 5 * math.sqrt(runs * 0.25)


@pytest.mark.audit
@pytest.mark.parametrize("noise", [GaussianNoise("0.5"), GaussianNoise("0.01"), LaplaceNoise(2)])
@pytest.mark.parametrize("over", OVER)
@pytest.mark.parametrize("loss", LOSSES)
def test_bounds_cover_in_many_runs(loss, over, noise):
    convex, runs = form(loss, over), 150
    rng = np.random.default_rng(2)
    betas = (0.5, 0.2, 0.05)
    missed = dict.fromkeys(betas, 0)
    best, _ = convex.minimise(TABLE, tolerance=1e-9)
    least = TABLE.risk(convex, best)
    for seed in range(runs):
        theta = convex.over.project(best + rng.choice([0.01, 0.1, 1]) * rng.normal(size=4))
        found = certify(convex, theta, noise, seed=seed)
        true = TABLE.risk(convex, theta) - least
        for beta in betas:
            missed[beta] += true > found.error(beta) + 1e-8
    for beta, count in missed.items():
        assert count <= runs * beta + 5 * math.sqrt(runs * beta * (1 - beta))


def test_a_bound_can_fail():
    # One coordinate, far from the optimum: all that is uncertain is one number of noise.
    convex = form(SquaredLoss(), Ball(30), [Coordinates((), np.ones(1))])
    theta, runs = np.array([20.0]), 150
    true, kernel = TABLE.excess(convex, theta), TABLE.kernel()
    moments = kernel.measure(convex.distinct_moments()[0], SILENT)
    noise, missed = GaussianNoise("0.02"), 0
    for _ in range(runs):
        found = certified(convex, kernel, theta, [noise], moments=moments)
        missed += true > found.error(0.9)
    assert 1 <= missed < 0.5 * runs


def normal_draws(law, step, shape, rng):
    if isinstance(law, DiscreteGaussian):
        return rng.normal(size=shape) * math.sqrt(float(law.variance)) * step
    return rng.laplace(size=shape) * float(law.scale) * step


@pytest.mark.parametrize("law", [DiscreteGaussian(2**20), DiscreteLaplace(2**10)])
@pytest.mark.parametrize("over", [Ball(2), Box(-1, [2, 0.5, 1, 3]), Box(0, 1), Simplex()])
def test_what_noise_adds_to_a_gap_covers(over, law):
    rng, beta, count = np.random.default_rng(4), 0.05, 1000
    z = normal_draws(law, 2.0**-10, (count, 4), rng)
    tails, rounded = Tails(law, 2.0**-10, 0.0), Tails(law, 2.0**-10, 0.5)
    for theta in (over.centre(4), over.linear_minimiser(np.array([1.0, -1, 2, 0.5]))):
        for size in (0.0, 1.0, 100.0):
            slopes = size * rng.normal(size=4)
            true = over.gap(theta, slopes)
            gaps = np.array([over.gap(theta, slopes + one) for one in z])
            found = frank_wolfe(over, theta, slopes, tails, beta)
            missed = int((gaps + found - true < true).sum())
            assert missed <= count * beta + 5 * math.sqrt(count * beta)
            ends = true - over.gap(theta, slopes + 0.5 * np.sign(z[0]))
            assert frank_wolfe(over, theta, slopes, rounded, beta) >= found + ends


@pytest.mark.parametrize("over", OVER)
def test_the_farthest_of_a_set(over):
    rng = np.random.default_rng(5)
    for _ in range(20):
        theta = rng.normal(size=4)
        corners = [over.linear_minimiser(one) for one in rng.normal(size=(400, 4))]
        found = max(float(np.linalg.norm(one - theta)) for one in corners)
        assert 0.8 * over.farthest(theta) < found <= over.farthest(theta) * (1 + 1e-12)


def test_the_excess_of_a_self_concordant_function_is_at_most_the_closed_form():
    for nu in (1e-6, 0.1, 1.0):
        assert self_concordant(nu, 0.0) == pytest.approx(0.5 * nu**2)
        for bend in (1e-5 / nu, 1e-4 / nu, 1.1e-4 / nu, 0.5 / nu, 0.99 / nu):
            way = np.linspace(0.0, 1.0, 1001) * -2.0 * math.log1p(-bend * nu) / bend
            rise = way * nu - (np.expm1(-bend * way) + bend * way) / bend**2
            found = self_concordant(nu, bend)
            assert rise.max() * (1 - 1e-5) <= found <= rise.max() * (1 + 2e-4)
        assert self_concordant(nu, 1.0 / nu) == self_concordant(nu, 2.0 / nu) == math.inf


def test_half_the_newton_decrement_is_no_bound_for_logistic_losses():
    # φ'' = exp(-z) falls along the way to the optimum at just the speed that is declared.
    convex = ConvexForm(
        DOMAIN, [Coordinates((), np.ones(1))], "rich", np.array([0.0, 0.5]), GLMLoss("log"), Ball(9)
    )
    table = Table(500, stray=0.0)
    best, _ = convex.minimise(table, tolerance=1e-12)
    theta = best + 0.5
    true = table.excess(convex, theta)
    slope = table.risk(convex, theta + 1e-6) - table.risk(convex, theta - 1e-6)
    newton = 0.5 * (slope / 2e-6) ** 2 / math.exp(theta[0])
    assert newton < 0.9 * true
    assert true <= certify(convex, theta, table=table).error(0.05) < 1.02 * true


def test_half_the_rows_outside():
    # The moment of the constant is the share of the rows inside, which is private. Taken to be 1,
    # it would halve the bound.
    table = Table(400, stray=0.5)
    table.data = PrivateData.from_columns(
        {"age": [0] * 200 + [9] * 200, "sex": ["F"] * 400, "pay": [0] * 400, "rich": [True] * 400},
        DOMAIN,
    )
    table.counts[:] = 0.0
    table.counts[0, 0, 0, 1] = 200.0
    # A row outside has no features, not even one that is constant over the universe.
    constant = [Coordinates(("age",), np.ones((1, 5)))]
    convex = ConvexForm(DOMAIN, constant, "pay", np.linspace(0, 1, 4), SquaredLoss(), Ball(5))
    theta = np.array([1.0])
    true = table.excess(convex, theta)
    assert true == pytest.approx(0.25)
    found = certify(convex, theta, table=table)
    assert found.error(0.05) == pytest.approx(0.25, abs=0.01)
    moments = table.kernel().measure(convex.distinct_moments()[0], SILENT)
    again = certify(convex, theta, table=table, moments=moments)
    assert again.error(0.05) == pytest.approx(0.25, abs=0.01)


def test_a_constraint_that_is_active():
    # At the exact optimum on the boundary the gradient is not small: bounded, not equal.
    convex = form(SquaredLoss(), Ball(0.3))
    best, _ = convex.minimise(TABLE, tolerance=1e-12)
    assert np.linalg.norm(best) == pytest.approx(0.3)
    found = certify(convex, best)
    far = evolve(found, over=Ball(1e6))  # by curvature alone
    assert far.error(0.05) > 0.01
    assert 0.0 <= found.error(0.05) < 1e-3


@pytest.mark.parametrize("noise", [GaussianNoise(5), LaplaceNoise(5)])
@pytest.mark.parametrize("released", [False, True])
def test_a_private_number_of_rows(noise, released):
    table = Table(2000, neighbors=Neighbors.ADD_REMOVE)
    convex = form(SquaredLoss())
    theta = np.array([1.0, 1, 0, 0.5])
    rows = None
    if released:
        rows = Measurement(
            np.array([table.inside + 30.0]), NoiseAccuracy(DiscreteLaplace(12), 1, 1.0, 0.0)
        )
    found = certify(convex, theta, noise, table, rows=rows)
    true = table.excess(convex, theta)
    assert true <= found.error(0.05) < 3 * true
    assert isinstance(found.rows, Measurement)
    assert abs(found.rows.values[0] - table.inside) < 60
    # Without a row that is surely there nothing follows.
    none = Measurement(np.zeros(1), found.rows.accuracy)
    assert evolve(found, rows=none).error(0.05) == math.inf


def test_moments_that_gave_the_answer_serve_its_bound():
    convex = form(SquaredLoss())
    theta = np.array([1.0, 1, 0, 0.5])
    moments = TABLE.kernel().measure(convex.distinct_moments()[0], SILENT)
    assert batches(convex) == len(shares(convex)) == 2
    assert batches(convex, moments=True) == len(shares(convex, moments=True)) == 1
    assert sum(shares(convex)) == sum(shares(convex, moments=True)) == 1
    one, other = certify(convex, theta), certify(convex, theta, moments=moments)
    assert one.error(0.05) == pytest.approx(other.error(0.05), rel=0.01)
    assert other.coefficients is not None
    # Moments may have led to θ: of them no one direction is fixed beforehand.
    assert one.curvature.measured.fresh
    assert not other.curvature.measured.fresh
    known = other.curvature.measured
    assert known.excess(0.05) > evolve(known, fresh=True).excess(0.05)
    with pytest.raises(QueryError):
        batches(form(LogisticLoss()), moments=True)
    few = Measurement(moments.values[:-1], moments.accuracy)
    with pytest.raises(InvalidArgument):
        certify(convex, theta, moments=few)


@frozen
class Twice(Loss):
    """(z − y)²: quadratic, and not the squared loss of the package."""

    def value(self, z, y):
        return np.square(z - y)

    def derivative(self, z, y):
        return 2.0 * (z - y)

    def curvature(self, z, y):
        return np.full_like(z - y, 2.0)

    def smoothness(self, low, high, labels):
        return 2.0

    def self_concordance(self, low, high, labels):
        return 0.0


def test_a_quadratic_loss_of_ones_own_is_bounded_by_its_own_curvature():
    convex = form(Twice(), Ball(30))
    best, _ = convex.minimise(TABLE, tolerance=1e-10)
    theta = best + np.array([0.3, 0.0, 0.1, 0.0])
    true = TABLE.excess(convex, theta)
    assert true <= certify(convex, theta).error(0.05) < 1.1 * true
    with pytest.raises(QueryError):
        batches(convex, moments=True)


def test_what_is_refused_costs_nothing(monkeypatch):
    odometer = Odometer(Budget(1, "1e-6"), ZCDPComposition())
    convex, kernel = form(), Kernel(TABLE.data, odometer, seeded(0), "certify")
    theta, noises = np.zeros(4), [GaussianNoise("0.018")] * 2
    with pytest.raises(InvalidArgument, match="noises"):
        certified(convex, kernel, theta, noises[:1])
    for wrong in ([0.0], [np.nan] * 4, "abcd"):
        with pytest.raises(InvalidArgument, match="theta"):
            certified(convex, kernel, wrong, noises)
    for wrong in (-1, 0.5, Measurement(np.zeros(2), NoiseAccuracy(DiscreteLaplace(1), 2, 1.0, 0))):
        with pytest.raises(InvalidArgument, match="rows"):
            certified(convex, kernel, theta, noises, rows=wrong)
    with pytest.raises(BudgetExceeded):  # one of the two would fit
        certified(convex, kernel, theta, noises)
    monkeypatch.setattr("dpsdk.mechanisms.convex.excess.WEIGHT_LIMIT", 10 * convex.cells - 1)
    assert batches(convex) == 1  # a Hessian would be too large, and a gradient is not
    monkeypatch.setattr("dpsdk.mechanisms.convex.excess.WEIGHT_LIMIT", 4 * convex.cells - 1)
    with pytest.raises(TooLarge):
        batches(convex)
    with pytest.raises(TooLarge):
        certified(convex, kernel, theta, noises)
    assert odometer.count == 0
    monkeypatch.undo()
    certified(form(SVMLoss()), kernel, theta, noises[:1])
    assert odometer.count == 1


def test_what_a_bound_says_of_itself():
    convex = form()
    theta = np.array([1.0, 1, 0, 0.5])
    found = certify(convex, theta, GaussianNoise("0.1"))
    theta[:] = np.nan  # the caller's own
    errors = [found.error(beta) for beta in (0.9, 0.5, 0.05, 1e-6, 1e-300)]
    assert errors == sorted(errors)
    assert all(0 < error <= found.span for error in errors)
    for wrong in (0, 1, -1, np.nan, "x"):
        with pytest.raises(InvalidArgument):
            found.error(wrong)
    bound = bound_of(found, None, math.inf, 0.05)
    assert bound.proven
    assert bound.standing == "proven"
    assert bound.error == found.error(0.05)
    for other in (copy.copy(found), copy.deepcopy(found), pickle.loads(pickle.dumps(found))):  # noqa: S301
        assert other == found
        assert other.error(0.05) == found.error(0.05)
    vague = certify(convex, found.theta, GaussianNoise("1e-9"))
    assert bound_of(vague, None, math.inf, 0.05).vacuous
    empty = evolve(found, rows=0)
    assert bound_of(empty, None, math.inf, 0.05).standing == "none"


def test_a_universe_of_features_that_are_all_nought():
    convex = form(LogisticLoss(), coordinates=[Coordinates((), np.zeros(2))])
    assert certify(convex, np.array([0.5, 0.5])).error(0.05) <= convex.constants.range
    assert form(SquaredLoss(), coordinates=[Coordinates(("age",), np.zeros((2, 5)))]).dimension == 2
    for loss in (SquaredLoss(), LogisticLoss()):
        convex = form(loss, coordinates=[Coordinates(("age",), np.zeros((2, 5)))])
        assert certify(convex, np.zeros(2)).error(0.05) < 1e-3


def test_one_hot_features_of_a_query():
    query = ConvexMinimization(
        LogisticLoss(), features=["age", OneHot("sex"), OneHot("pay")], label="rich", over=Ball(9)
    )
    convex = query.lower(DOMAIN)
    best, _ = convex.minimise(TABLE)
    theta = best + 0.05
    found = certify(convex, theta, GaussianNoise(20))
    assert TABLE.excess(convex, theta) <= found.error(0.05)
    assert found.error(0.05) < 0.2 * evolve(found, curvature=None).error(0.05)


@frozen
class Breaking(LogisticLoss):
    """Without a finite curvature at a margin that no grid of a check has."""

    broken = False

    def curvature(self, z, y):
        found = super().curvature(z, y)
        return np.full_like(found, np.nan) if Breaking.broken else found


def test_a_loss_that_breaks_after_it_was_paid_for_leaves_a_model_without_a_bound(monkeypatch):
    convex, total = form(Breaking()), Budget(1, "1e-9")
    oracle = Corrected(start=Moments(), gradients=0, certify="0.5")
    own = TABLE.kernel(1)
    oracle.quote(convex, own.terms, total)
    monkeypatch.setattr(Breaking, "broken", True)
    found = oracle.minimise(convex, own, total)
    assert len(found.values) == convex.dimension + 1
    assert not found.accuracy.proven
