"""Sets of coefficients: projections, least points, and least quadratic functions."""

import numpy as np
import pytest
from scipy import optimize

from dpsdk.errors import InvalidArgument
from dpsdk.forms.sets import _primal
from dpsdk.queries import Ball, Box, Simplex

SETS = [Ball(1.5), Box(-1, 0.5), Box([-1, 0, 2, -3], [1, 0, 5, -1]), Simplex()]


def inside(over, rng, size, points=400):
    return np.array([over.project(rng.normal(size=size) * 4) for _ in range(points)])


@pytest.mark.parametrize("over", SETS, ids=str)
def test_least_points_and_projections(over):
    rng = np.random.default_rng(3)
    some = inside(over, rng, 4)
    widest = max(np.linalg.norm(one - other) for one in some[:60] for other in some[:60])
    assert widest <= over.diameter(4) * (1 + 1e-12)
    for _ in range(30):
        direction = rng.normal(size=4) * 10.0 ** rng.integers(-3, 4)
        least = over.linear_minimiser(direction)
        assert over.contains(least)
        assert direction @ least <= (some @ direction).min() + 1e-12
        gap = over.gap(some[0], direction)
        assert gap == pytest.approx(direction @ (some[0] - least))
        # The ridge takes off what strong convexity is worth, and never more.
        ways = some[0] - some
        ridged = over.gap(some[0], direction, ridge=0.7)
        assert ridged <= gap
        assert ridged >= (ways @ direction - 0.35 * np.square(ways).sum(axis=1)).max() - 1e-12
        # The nearest point makes an obtuse angle with every other.
        point = direction * 3
        nearest = over.project(point)
        assert over.contains(nearest, tolerance=1e-14)
        assert ((some - nearest) @ (point - nearest)).max() <= 1e-9 * (1 + np.abs(point).max())
    assert not over.contains(np.full(4, 100.0))
    assert not over.contains(np.array([np.nan, 0, 0, 0]))
    assert over.contains(over.centre(4))


@pytest.mark.parametrize("over", SETS, ids=str)
def test_margins_reach_as_far_as_said(over):
    rng = np.random.default_rng(5)
    blocks = [rng.normal(size=(3, 1)), rng.normal(size=(2, 3))]
    rows = np.array([[*one, *other] for one in blocks[0] for other in blocks[1]])
    low, high = over.reach(blocks)
    wanted_high = max(row @ over.linear_minimiser(-row) for row in rows)
    wanted_low = min(row @ over.linear_minimiser(row) for row in rows)
    assert (low, high) == pytest.approx((wanted_low, wanted_high))


@pytest.mark.parametrize("over", SETS, ids=str)
@pytest.mark.parametrize("rank", [4, 2, 0])
def test_least_quadratic_functions(over, rank):
    rng = np.random.default_rng(7)
    for _ in range(25):
        root = rng.normal(size=(4, rank)) * 10.0 ** rng.integers(-2, 3)
        hessian, linear = root @ root.T + 1e-9 * np.eye(4), rng.normal(size=4)
        theta = over.quadratic_minimiser(hessian, linear, over.centre(4))
        assert over.contains(theta, tolerance=1e-12)
        gap = over.gap(theta, hessian @ theta + linear)
        assert gap <= 1e-7 * (1 + np.abs(hessian).max()), (hessian, linear)


def test_the_walk_along_sides_agrees_with_bounded_least_squares():
    rng = np.random.default_rng(11)
    for _ in range(20):
        root, linear = rng.normal(size=(6, 6)), rng.normal(size=6) * 5
        hessian, low, high = root @ root.T + 0.1 * np.eye(6), -np.ones(6), np.full(6, 0.5)
        factor = np.linalg.cholesky(hessian).T
        wanted = optimize.lsq_linear(
            factor, -np.linalg.solve(factor.T, linear), (low, high), method="bvls"
        ).x
        walked = _primal(hessian, linear, low, high, np.zeros(6), None)
        assert np.allclose(walked, wanted, atol=1e-8)
        wide = Box(-1, 0.5).quadratic_minimiser(hessian, linear, np.zeros(6))
        assert np.allclose(wide, wanted, atol=1e-8)
        summed = _primal(hessian, linear, np.zeros(6), np.full(6, np.inf), np.full(6, 1 / 6), 1.0)
        simple = Simplex().quadratic_minimiser(hessian, linear, np.full(6, 1 / 6))
        assert np.allclose(summed, simple, atol=1e-8)
        assert Simplex().gap(summed, hessian @ summed + linear) < 1e-9


def test_a_quadratic_function_on_a_ball_whose_pull_misses_the_flattest_direction():
    # The hard case: the least eigenvalue's own part of the pull is zero.
    hessian, linear = np.diag([0.0, 1.0, 5.0]), np.array([0.0, 0.3, -0.2])
    theta = Ball(2).quadratic_minimiser(hessian, linear, np.zeros(3))
    assert theta == pytest.approx([0.0, -0.3, 0.04])
    assert np.linalg.norm(Ball(0.1).quadratic_minimiser(hessian, linear, theta)) == pytest.approx(
        0.1
    )
    assert Ball(1e-5).quadratic_minimiser(np.zeros((2, 2)), np.zeros(2), np.zeros(2)).tolist() == [
        0,
        0,
    ]


@pytest.mark.parametrize(
    "make",
    [
        lambda: Ball(0), lambda: Ball(-1), lambda: Ball(np.inf), lambda: Ball("wide"),
        lambda: Box(1, 0), lambda: Box(-np.inf, 0), lambda: Box([0, 1], [2]), lambda: Box([], []),
        lambda: Box("ab", 1), lambda: Box([0, np.nan], 1), lambda: Box([0, 0], 1).require(3),
        lambda: Box([0, 0], 1).centre(3),
    ],
)  # fmt: skip
def test_sets_that_cannot_be(make):
    with pytest.raises(InvalidArgument):
        make()


def test_sets_are_values():
    assert Ball(2) == Ball(2.0)
    assert hash(Box([0, 1], 2)) == hash(Box((0.0, 1.0), 2.0))
    assert Box(0, 1) != Box([0, 0], 1)
    assert Simplex() == Simplex()
