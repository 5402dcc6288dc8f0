"""Minima are those of other solvers, and no certificate is ever below the true gap."""

import numpy as np
import pytest
from attrs import frozen
from scipy import optimize

from dpsdk.errors import InvalidArgument, QueryError, TooLarge
from dpsdk.forms import Design, Minimum, minimise
from dpsdk.losses import GLMLoss, HuberLoss, LogisticLoss, Loss, QuantileLoss, SquaredLoss, SVMLoss
from dpsdk.queries import Ball, Box, Simplex

pytestmark = pytest.mark.thorough

SIGNED, SHARES = [-1.0, 1.0], [0.0, 0.2, 0.7, 1.0]
SMOOTH = [
    (SquaredLoss(), SHARES), (HuberLoss(0.1), SHARES), (LogisticLoss(), SIGNED),
    (SVMLoss(0.5), SIGNED), (QuantileLoss("0.9", 0.2), SHARES), (GLMLoss("log"), SHARES),
    (GLMLoss("probit"), SHARES),
]  # fmt: skip
KINKED = [(SVMLoss(), SIGNED), (QuantileLoss("0.9"), SHARES), (QuantileLoss(), SHARES)]
SETS = [Ball(2), Box(-1, 1.5), Simplex()]


def table(seed, labels, cells=30, features=4, *, zeros=False):
    rng = np.random.default_rng(seed)
    rows = rng.normal(size=(cells, features))
    rows /= np.linalg.norm(rows, axis=1).max()
    rows[:, -1] = 0.5
    weights = rng.dirichlet(np.full(cells * len(labels), 0.3)).reshape(len(labels), cells)
    if zeros:
        weights *= rng.random(weights.shape) < 0.5
    return Design([rows]), weights, rng


def exact(design, loss, labels, weights, theta, linear=0.0, ridge=0.0):
    z = design.rows() @ theta
    values = sum(line @ loss.value(z, label) for label, line in zip(labels, weights, strict=True))
    return values + np.sum(linear * theta) + 0.5 * ridge * theta @ theta


def by_scipy(design, loss, labels, weights, over, linear, ridge):
    """The least value that a general solver finds in the set."""

    def gradient(theta):
        z = design.rows() @ theta
        slopes = sum(
            line * loss.derivative(z, label) for label, line in zip(labels, weights, strict=True)
        )
        return design.rows().T @ slopes + linear + ridge * theta

    size = design.features
    bounds, constraints = None, ()
    if isinstance(over, Ball):
        constraints = {
            "type": "ineq",
            "fun": lambda t: over.radius**2 - t @ t,
            "jac": lambda t: -2 * t,
        }
    elif isinstance(over, Box):
        bounds = list(zip(*over.sides(size), strict=True))
    else:
        bounds = [(0, None)] * size
        constraints = {"type": "eq", "fun": lambda t: t.sum() - 1, "jac": np.ones_like}
    found = optimize.minimize(
        lambda theta: exact(design, loss, labels, weights, theta, linear, ridge),
        over.centre(size) + 1e-3,
        jac=gradient,
        bounds=bounds,
        constraints=constraints,
        method="SLSQP",
        options={"maxiter": 300, "ftol": 1e-13},
    )
    return exact(design, loss, labels, weights, over.project(found.x), linear, ridge)


@pytest.mark.parametrize(("loss", "labels"), SMOOTH, ids=str)
@pytest.mark.parametrize("over", SETS, ids=str)
@pytest.mark.parametrize("ridge", [0.0, 0.05])
def test_smooth_minima_are_those_of_scipy(loss, labels, over, ridge):
    design, weights, rng = table(1, labels)
    linear = 0.02 * rng.normal(size=design.features)
    found = minimise(design, loss, labels, weights, over, linear=linear, ridge=ridge)
    value = exact(design, loss, labels, weights, found.theta, linear, ridge)
    assert over.contains(found.theta, tolerance=1e-12)
    assert found.value == pytest.approx(value, abs=1e-12)
    assert 0.0 <= found.gap <= 1e-6
    wanted = by_scipy(design, loss, labels, weights, over, linear, ridge)
    assert value - found.gap <= wanted
    assert value <= wanted + 1e-6


def by_linear_program(design, loss, labels, weights, over, linear):
    """The least value of a polyhedral loss over a box or the simplex."""
    rows, size = design.rows(), design.features
    count = weights.size
    above, right, q = [], [], float(getattr(loss, "q", 0))
    for label in labels:
        # The loss is the larger of two lines of the margin, each slope·z + level.
        for slope, level in (
            [(0.0, 0.0), (-label, 1.0)]
            if isinstance(loss, SVMLoss)
            else [(-q, q * label), (1 - q, (q - 1) * label)]
        ):
            above.append((slope, level))
    blocks = []
    for number, (slope, level) in enumerate(above):
        pick = np.zeros((design.cells, count))
        pick[:, (number // 2) * design.cells : (number // 2 + 1) * design.cells] = -np.eye(
            design.cells
        )
        blocks.append(np.hstack([slope * rows, pick]))
        right.append(np.full(design.cells, -level))
    bounds = [(0, None)] * size
    equal = {"A_eq": [[1.0] * size + [0.0] * count], "b_eq": [1.0]}
    if isinstance(over, Box):
        bounds, equal = list(zip(*over.sides(size), strict=True)), {}
    found = optimize.linprog(
        np.concatenate([np.zeros(size) + linear, weights.reshape(-1)]),
        A_ub=np.vstack(blocks),
        b_ub=np.concatenate(right),
        bounds=bounds + [(None, None)] * count,
        **equal,
    )
    return found.fun


@pytest.mark.parametrize(("loss", "labels"), KINKED, ids=str)
@pytest.mark.parametrize("over", SETS[1:], ids=str)
@pytest.mark.parametrize("zeros", [False, True])
def test_minima_of_losses_with_kinks_are_those_of_linear_programs(loss, labels, over, zeros):
    design, weights, rng = table(2, labels, cells=20, zeros=zeros)
    linear = 0.02 * rng.normal(size=design.features)
    wanted = by_linear_program(design, loss, labels, weights, over, linear)
    for limit in (1, 2, 100):
        found = minimise(design, loss, labels, weights, over, linear=linear, limit=limit)
        value = exact(design, loss, labels, weights, found.theta, linear)
        assert found.value == pytest.approx(value, abs=1e-12)
        assert wanted - 1e-9 <= value <= wanted + found.gap + 1e-9
    assert found.gap <= 1e-6


@pytest.mark.parametrize(("loss", "labels"), SMOOTH + KINKED, ids=str)
@pytest.mark.parametrize("over", SETS, ids=str)
def test_a_certificate_is_never_below_the_true_gap(loss, labels, over):
    # Few steps and far starts, so that the gaps are wide: the bound must be a bound all the same.
    design, weights, rng = table(3, labels, zeros=True)
    best = minimise(design, loss, labels, weights, over, tolerance=1e-7)
    for _ in range(3):
        start = over.project(3 * rng.normal(size=design.features))
        early = minimise(design, loss, labels, weights, over, start=start, limit=1, tolerance=1e3)
        assert early.value - (best.value - best.gap) >= -1e-15
        assert early.gap >= early.value - best.value
        assert early.gap >= 0.0


HARD = [
    (QuantileLoss("0.9", 0.01), SHARES), (QuantileLoss("0.5", 0.01), SHARES),
    (SVMLoss(0.01), SIGNED), (SVMLoss(0.5), SIGNED), (HuberLoss(0.01), SHARES),
    (LogisticLoss(), SIGNED), (SquaredLoss(), SHARES), (QuantileLoss("0.9"), SHARES),
    (SVMLoss(), SIGNED),
]  # fmt: skip


@pytest.mark.parametrize(("loss", "labels"), HARD, ids=str)
def test_wide_balls_are_certified_too(loss, labels):
    # Curvature is narrow here and the way long: full Newton steps go to and fro across the ball.
    for seed, (radius, cells) in enumerate([(20, 30), (1000, 30), (1000, 8), (200, 100)]):
        design, weights, rng = table(seed, labels, cells=cells, zeros=seed % 2 == 1)
        found = minimise(design, loss, labels, weights, Ball(radius))
        assert found.gap <= 1e-6, (radius, cells, found)
        for scale in (1e-6, 1e-3, 1.0):
            near = Ball(radius).project(found.theta + scale * rng.normal(size=design.features))
            other = exact(design, loss, labels, weights, near)
            assert other >= found.value - found.gap - 1e-12


@frozen
class Absolute(Loss):
    """|z − y|, without a smooth loss beside it."""

    @property
    def kinked(self):
        return True

    def value(self, z, y):
        return np.abs(z - y)

    def derivative(self, z, y):
        return np.sign(z - y)

    def curvature(self, z, y):
        return np.zeros_like(z - y)


def test_a_kinked_loss_of_ones_own_is_certified_as_far_as_it_goes():
    design, weights, _ = table(4, SHARES)
    found = minimise(design, Absolute(), SHARES, weights, Box(-1, 1))
    best = minimise(design, QuantileLoss(), SHARES, 2 * weights, Box(-1, 1))
    assert best.value - best.gap <= found.value <= best.value - best.gap + found.gap + 1e-6
    assert found.gap < 0.1


@frozen
class Wavering(SquaredLoss):
    """A loss whose curvature is far too small, so that Newton's steps lead nowhere."""

    def curvature(self, z, y):
        return np.full_like(z - y, 1e-3)


def test_accelerated_gradients_go_on_where_newton_stops():
    design, weights, _ = table(5, SHARES)
    for over in SETS:
        found = minimise(design, Wavering(), SHARES, weights, over, limit=1)
        best = minimise(design, SquaredLoss(), SHARES, weights, over)
        assert found.gap <= 1e-6
        assert found.value - found.gap <= best.value
        assert found.value == pytest.approx(best.value, abs=2e-6)


def test_structured_and_written_designs_have_one_minimum():
    rng = np.random.default_rng(6)
    design = Design([np.eye(4)[:, 1:], np.eye(3)[:, 1:], [[0.1, 1.0], [0.7, 1.0]]])
    weights = rng.dirichlet(np.ones(48)).reshape(2, 24)
    one = minimise(design, LogisticLoss(), SIGNED, weights, Ball(3), tolerance=1e-10)
    other = minimise(
        Design([design.rows()]), LogisticLoss(), SIGNED, weights, Ball(3), tolerance=1e-10
    )
    assert one.theta == pytest.approx(other.theta, abs=1e-5)
    again = minimise(design, LogisticLoss(), SIGNED, weights, Ball(3), tolerance=1e-10)
    assert again == one


def test_many_cells_are_worked_on_in_batches():
    rng = np.random.default_rng(8)
    design = Design([np.eye(40)[:, 1:], np.hstack([np.eye(1000)[:, 1:3], np.ones((1000, 1))])])
    weights = rng.random((3, design.cells)) / design.cells
    found = minimise(design, SquaredLoss(), [0.0, 0.5, 2.0], weights, Ball(50), tolerance=1e-8)
    rows, total = design.rows(), weights.sum(axis=0)
    aims = (np.array([[0.0], [0.5], [2.0]]) * weights).sum(axis=0)
    wanted = np.linalg.solve((rows.T * total) @ rows, rows.T @ aims)
    assert found.theta == pytest.approx(wanted, abs=1e-3)
    assert found.gap <= 1e-8


def test_sets_of_one_point_and_weights_of_nothing():
    design, weights, _ = table(7, SIGNED)
    point = minimise(design, SVMLoss(), SIGNED, weights, Box(0.25, 0.25))
    assert point.theta.tolist() == [0.25] * 4
    assert point.gap <= 1e-6
    nothing = minimise(design, LogisticLoss(), SIGNED, 0 * weights, Ball(2))
    assert (nothing.value, nothing.gap) == (0.0, 0.0)
    pulled = minimise(design, LogisticLoss(), SIGNED, 0 * weights, Ball(2), linear=[0, 0, 3, -4])
    assert pulled.theta == pytest.approx([0, 0, -1.2, 1.6])
    assert pulled.value == pytest.approx(-10.0)


@frozen
class Broken(SquaredLoss):
    what: str

    @property
    def convex(self):
        return self.what != "convex"

    def derivative(self, z, y):
        return np.full_like(z - y, np.nan if self.what == "nan" else 1e308)


def test_losses_that_cannot_be_minimised():
    design, weights, _ = table(9, SHARES)
    for what in ("convex", "nan"):
        with pytest.raises(QueryError):
            minimise(design, Broken(what), SHARES, weights, Ball(1))
    with pytest.raises(QueryError, match="labels"):
        minimise(design, LogisticLoss(), SHARES, weights, Ball(1))


@pytest.mark.parametrize(
    "change",
    [
        {"loss": "squared"}, {"design": np.eye(4)}, {"over": 3}, {"over": Box([0, 1], 2)},
        {"labels": [0.0, np.inf, 1.0, 2.0]}, {"labels": [0.0]}, {"weights": np.ones((4, 29))},
        {"weights": -np.ones((4, 30))}, {"weights": np.full((4, 30), np.nan)}, {"linear": [1.0]},
        {"start": [np.nan] * 4}, {"ridge": -1.0}, {"ridge": np.inf}, {"tolerance": 0.0},
        {"limit": 0},
    ],
    ids=str,
)  # fmt: skip
def test_arguments_that_cannot_be(change):
    design, weights, _ = table(10, SHARES)
    arguments = {"loss": SquaredLoss(), "labels": SHARES, "weights": weights, "over": Ball(1)}
    with pytest.raises(InvalidArgument):
        minimise(**({"design": design} | arguments | change))


def test_a_gap_that_floats_cannot_tell_ends_the_search():
    design, weights, _ = table(11, SHARES)
    found = minimise(design, SquaredLoss(), SHARES, weights, Ball(2), tolerance=1e-300)
    assert found.gap < 1e-12
    assert found.steps < 20
    narrow = minimise(design, SVMLoss(), SIGNED, weights[:2], Ball(2), tolerance=1e-300)
    assert narrow.gap < 1e-8


def test_steps_that_overflow_are_cut_short():
    design, weights, _ = table(12, SHARES)
    for over in (Ball(10**4), Box(-(10**4), 10**4)):
        found = minimise(design, GLMLoss("log"), SHARES, weights, over)
        start = over.project(np.full(4, 400.0))
        far = minimise(design, GLMLoss("log"), SHARES, weights, over, start=start)
        assert found.gap <= 1e-6
        assert far.value >= found.value - found.gap
        assert far.gap >= far.value - found.value


def test_labels_count_for_the_limit():
    design = Design([np.eye(10)] * 5)
    with pytest.raises(TooLarge):
        minimise(design, SquaredLoss(), range(11), np.ones((11, 10**5)), Ball(1))


def test_minima_are_values():
    assert Minimum(np.ones(2), 1.0, 0.0, 3) == Minimum(np.ones(2), 1.0, 0.0, 3)
    assert Minimum(np.ones(2), 1.0, 0.0, 3) != Minimum(np.zeros(2), 1.0, 0.0, 3)
