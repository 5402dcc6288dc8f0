"""Proximal gaps: what they are, how far a record moves them, and what they bound."""

import itertools
import math
from fractions import Fraction
from functools import cache

import numpy as np
import pytest
from attrs import evolve
from scipy.optimize import minimize

import dpsdk.forms.steps as module
from dpsdk import Boolean, Domain, Integer, Neighbors
from dpsdk.errors import InvalidArgument, TooLarge
from dpsdk.forms import (
    Ball,
    Box,
    ConvexForm,
    Coordinates,
    Dense,
    Identity,
    Kronecker,
    LinearForm,
    ProximalGapForm,
    Range,
    Simplex,
)
from dpsdk.forms.steps import Steps, written
from dpsdk.losses import HuberLoss, LogisticLoss, SquaredLoss
from worlds import facts

pytestmark = pytest.mark.thorough

SETS = [Ball(1.5), Box(-0.75, (1.0, 0.5, 2.0)), Simplex()]
STRENGTHS = [0.0, 0.5, 8.0]
LINE = Domain(Integer("x", 0, 3))
COLUMNS = np.array([[3.0, -2.0, 0.5, 0.0], [1.0, 2.0, -1.5, 4.0], [-1.0, 0.0, 2.5, -3.0]])
SHOWN = [type(one).__name__ for one in SETS]


def gap_of(over, strength=0.0, columns=COLUMNS, theta=None):
    form = LinearForm(LINE, [Dense(("x",), (4,), columns)])
    inside = over.centre(len(columns)) if theta is None else over.project(np.array(theta))
    return ProximalGapForm(form, inside, over, strength)


@cache
def points(over, count=400, seed=1):
    draws = np.random.default_rng(seed).normal(size=(count, 3)) * 3
    return np.array([over.project(draw) for draw in draws])


def gained(gap, sums, rows, theta):
    way = gap.theta - theta
    return sums @ way - 0.5 * gap.strength * rows * way @ way


@pytest.mark.parametrize("strength", STRENGTHS)
@pytest.mark.parametrize("over", SETS, ids=SHOWN)
def test_no_step_gains_more_and_one_gains_as_much(over, strength):
    rng = np.random.default_rng(2)
    for _ in range(20):
        gap = gap_of(over, strength, theta=rng.normal(size=3))
        sums, rows = rng.integers(-99, 99, size=3), int(rng.integers(1, 40))
        scale = Fraction(2) ** 40 / 3
        exact = gap.steps.most(sums.tolist(), 3, rows, scale) / float(scale)
        assert all(gained(gap, sums / 8, rows, one) <= exact + 1e-9 for one in points(over))
        # The set's own maximum, in floats.
        assert exact == pytest.approx(
            over.gap(gap.theta, sums / 8, ridge=strength * rows), 1e-9, 1e-9
        )


def test_it_is_rounded_down_where_floats_would_not_know():
    # A root that is a whole number, and one that falls short of it by 1e-30.
    steps = Steps(np.zeros(2), Ball(1.0), 0.0)
    large = 3 * 10**15
    assert steps.most([3, 4], 0, 1, Fraction(1)) == 5
    assert steps.most([large, 4 * large // 3], 0, 1, Fraction(1)) == 5 * large // 3
    assert steps.most([3, 4], 0, 1, Fraction(10**30 - 1, 10**30)) == 4
    inner = Steps(np.zeros(1), Ball(1.0), 1.0)
    assert inner.most([3], 0, 9, Fraction(2)) == 1  # 9 / 18 times 2
    assert inner.most([3], 0, 9, Fraction(2) - Fraction(1, 10**30)) == 0
    assert Steps(np.array([1.0, 0.0]), Simplex(), 0.0).most([7, 2], 0, 1, Fraction(1, 5)) == 1


def worst(over, theta, columns, *, replaced, outside, strength=0.0):
    """The largest move of one record, by all pairs of columns and many coefficients of the set."""
    all_columns = [*columns.T, np.zeros(3)] if outside else list(columns.T)
    largest = 0.0
    corners = list(points(over, 1500)) if isinstance(over, Ball) else list(np.eye(3))
    if isinstance(over, Box):
        corners = list(itertools.product(*zip(*over.sides(3), strict=True)))
    for one in corners:
        way = theta - np.array(one)
        along = np.array([column @ way for column in all_columns])
        if replaced:
            largest = max(largest, along.max() - along.min())
        else:
            largest = max(largest, np.abs(along - 0.5 * strength * way @ way).max())
    return largest


@pytest.mark.parametrize("neighbors", Neighbors)
@pytest.mark.parametrize("outside", [False, True])
@pytest.mark.parametrize("over", SETS, ids=SHOWN)
def test_the_sensitivity_is_the_largest_move_of_a_record(over, outside, neighbors):
    replaced, rng = neighbors is Neighbors.REPLACE_ONE, np.random.default_rng(3)
    for strength in STRENGTHS:
        gap = gap_of(over, strength, theta=rng.normal(size=3))
        found = gap.moved(facts(LINE, outside=outside, neighbors=neighbors))
        sought = worst(
            over, gap.theta, COLUMNS, replaced=replaced, outside=outside, strength=strength
        )
        assert sought <= found <= gap.sensitivity
        # The ball has no corners that a search could try.
        assert found <= sought * (1.02 if isinstance(over, Ball) else 1 + 1e-8)


def test_rows_outside_count_as_a_column_of_zeros():
    alike = np.repeat(COLUMNS[:, :1], 4, axis=1)
    gap = gap_of(Ball(1.0), columns=alike)
    inside, anywhere = (gap.moved(facts(LINE, outside=outside)) for outside in (False, True))
    length = float(np.linalg.norm(alike[:, 0]))
    assert anywhere == pytest.approx(length, 1e-6)
    assert inside <= length / 1000


@pytest.mark.parametrize("over", [Ball(2.0), Box(-1, 1), Simplex()], ids=["Ball", "Box", "Simplex"])
def test_pairs_that_are_too_many_to_compare_are_bounded(over, monkeypatch):
    rng = np.random.default_rng(4)
    for skew in (0.0, 2.0):
        columns = np.exp(rng.normal(size=(3, 150))) * rng.choice([-1, 1], size=(3, 150)) + skew
        steps = Steps(over.project(rng.normal(size=3)), over, 0.0)
        differences = (columns[:, :, None] - columns[:, None, :]).reshape(3, -1)
        exact = steps.support(differences)[0].max()
        for seeds, limit in [(64, 2**21), (1, 2**21), (1, 0)]:
            monkeypatch.setattr(module, "_SEEDS", seeds)
            monkeypatch.setattr(module, "_PAIR_LIMIT", limit)
            found = steps.moved(columns, replaced=True, outside=False)
            assert exact <= found <= exact * (1 + 1e-8 if limit else 2.0)


WORLD = Domain(Integer("a", 0, 4), Integer("b", 0, 2), Boolean("y"))


def models(loss, over, targets=(-1.0, 1.0)):
    ages = Coordinates(("a",), np.linspace(-1, 1, 5)[None, :])
    other = Coordinates(("b",), np.array([[0.3, -0.5, 0.2]]))
    return ConvexForm(
        WORLD, [ages, other, Coordinates((), np.array([0.5]))], "y", np.array(targets), loss, over
    )


class Shares:
    def __init__(self, seed):
        self.weights = np.random.default_rng(seed).dirichlet(np.full(30, 0.3)).reshape(5, 3, 2)

    def table(self, names):
        assert names == WORLD.names
        return self.weights


def averaged(form, shares, theta):
    grid = np.zeros((5, 3, 2))
    start = 0
    for one in form.coordinates:
        grid = grid + np.tensordot(
            theta[start : start + one.width], one.spread(WORLD.names), axes=1
        )
        start += one.width
    return float((shares.weights * form.loss.value(grid, form.targets.reshape(1, 1, 2))).sum())


@pytest.mark.parametrize("over", [Ball(2.0), Box(-1, 1), Simplex()], ids=["Ball", "Box", "Simplex"])
@pytest.mark.parametrize("loss", [SquaredLoss(), LogisticLoss(), HuberLoss(0.5)], ids=repr)
def test_the_excess_is_no_larger_and_a_wrong_sign_would_tell_otherwise(loss, over):
    form, wrong = models(loss, over), 0
    for seed in range(8):
        shares = Shares(seed)
        theta = over.project(np.random.default_rng(seed).normal(size=3))
        least, certified = form.minimise(shares, tolerance=1e-9)
        excess = averaged(form, shares, theta) - averaged(form, shares, least)
        gap = ProximalGapForm.of(form, theta)
        assert excess <= gap.value(shares) + 1e-9
        assert ProximalGapForm.of(form, least).value(shares) == pytest.approx(certified, abs=1e-7)
        mirrored = ProximalGapForm(
            LinearForm(WORLD, [Dense(WORLD.names, (5, 3, 2), -written(gap.gradient))]), theta, over
        )
        wrong += excess > mirrored.value(shares) + 1e-9
    assert wrong


def test_a_strength_makes_the_bound_sharper_and_keeps_it_true():
    # The average of (θ_j - z_j)² / 2 is as convex as that, whatever the table.
    for seed in range(30):
        rng = np.random.default_rng(seed)
        over = SETS[seed % 3]
        targets, theta = rng.normal(size=3) * 2, over.project(rng.normal(size=3))
        gradient = LinearForm(LINE, [Dense(("x",), (4,), (theta - targets)[:, None].repeat(4, 1))])
        best = over.project(targets)
        excess = 0.5 * ((theta - targets) @ (theta - targets) - (best - targets) @ (best - targets))
        found = [ProximalGapForm(gradient, theta, over, s) for s in (0.0, 0.5, 1.0)]
        one = type("One", (), {"table": staticmethod(lambda _: np.full(4, 0.25))})()
        values = [gap.value(one) for gap in found]
        assert values[0] >= values[1] - 1e-9
        assert values[1] >= values[2] - 1e-9
        assert values[2] == pytest.approx(excess, abs=1e-9)


@pytest.mark.parametrize("loss", [SquaredLoss(), LogisticLoss()], ids=repr)
def test_a_gradient_with_noise_leads_to_a_step_that_tells_tables_apart(loss):
    """Proposition 3: what is gained on the table, less what noise and solver lose."""
    over = Ball(2.0)
    form = models(loss, over)
    for seed in range(20):
        rng = np.random.default_rng(seed)
        truth, guess = Shares(seed), Shares(seed + 100)
        theta, gap_there = form.minimise(guess, tolerance=0.01)
        gap = ProximalGapForm.of(form, theta)
        weights = written(gap.gradient)
        noise = rng.normal(size=3) * rng.choice([0.0, 0.01, 0.3])
        noisy = weights @ truth.weights.ravel() + noise
        step = over.linear_minimiser(noisy)
        function = (step - theta) @ weights
        moved = function @ (guess.weights - truth.weights).ravel()
        lost = 2 * over.radius * np.linalg.norm(noise)
        assert moved >= gap.value(truth) - lost - gap.value(guess) - 1e-9
        assert gap.value(guess) <= gap_there + 1e-6
        assert np.abs(function).max() <= form.constants.scale * (1 + 1e-9)


@pytest.mark.parametrize("strength", STRENGTHS)
@pytest.mark.parametrize("over", SETS, ids=SHOWN)
def test_what_a_noisy_step_gains_for_any_gradients(over, strength):
    rng = np.random.default_rng(8)
    for _ in range(50):
        gap = gap_of(over, strength, theta=rng.normal(size=3))
        truth, guess = rng.dirichlet(np.ones(4), 2)
        noise = rng.normal(size=3) * rng.choice([0.0, 0.1, 2.0])
        noisy, size = COLUMNS @ truth + noise, float(np.linalg.norm(noise))
        if strength:
            step, lost = over.project(gap.theta - noisy / strength), size**2 / strength
        else:
            step, lost = over.linear_minimiser(noisy), over.diameter(3) * size
        moved = (step - gap.theta) @ COLUMNS @ (guess - truth)
        reached = over.gap(gap.theta, COLUMNS @ truth, ridge=strength)
        own = over.gap(gap.theta, COLUMNS @ guess)
        assert moved >= reached - lost - own - 1e-9


@pytest.mark.parametrize("loss", [SquaredLoss(), LogisticLoss(), HuberLoss(0.5)], ids=repr)
def test_it_is_at_most_twice_the_scale_of_the_loss(loss):
    for over in (Ball(2.0), Box(-1, 1), Simplex()):
        form = models(loss, over)
        for seed in range(3):
            theta = over.project(np.random.default_rng(seed).normal(size=3))
            gap = ProximalGapForm.of(form, theta)
            scale = form.constants.scale
            assert gap.moved(facts(WORLD, outside=True)) <= 2 * scale * (1 + 1e-6)
            added = facts(WORLD, outside=True, neighbors=Neighbors.ADD_REMOVE)
            assert gap.moved(added) <= scale * (1 + 1e-6)


def test_the_sum_of_coordinates_bounds_every_step():
    for over in SETS:
        for theta in points(over, 20, seed=5):
            steps = Steps(theta, over, 0.0)
            sums = np.abs(theta - points(over, 500)).sum(axis=1)
            assert sums.max() <= steps.farthest() <= 3 * max(sums.max(), 1.0)


def test_forms_of_any_blocks_are_written_out():
    form = LinearForm(
        WORLD,
        [
            Kronecker.of(WORLD, {"b": Identity(3)}),
            Dense(("y", "b"), (2, 3), np.arange(6.0)[None, :]),
            Kronecker.of(WORLD, {}),
        ],
    )
    table = np.random.default_rng(6).integers(0, 9, size=(3, 2)).astype(float)

    class Counted:
        def table(self, names):
            return table if names == ("b", "y") else table.sum(axis=1) if names else table.sum()

    expected = [*table.sum(axis=1), np.arange(6.0) @ table.T.ravel(), table.sum()]
    assert (written(form) @ table.ravel()).tolist() == pytest.approx(expected)


def test_what_it_tells_of_itself():
    gap = gap_of(Ball(1.5), 0.5, theta=[1.0, -0.0, 0.5])
    same = gap_of(Ball(1.5), 0.5, theta=[1.0, 0.0, 0.5])
    assert gap.identity == same.identity
    others = [
        gap_of(Ball(1.5), 0.5, theta=[1.0, 0.0, 0.25]),
        gap_of(Ball(1.25), 0.5, theta=[1.0, 0.0, 0.5]),
        gap_of(Box(-1.5, 1.5), 0.5, theta=[1.0, 0.0, 0.5]),
        gap_of(Ball(1.5), theta=[1.0, 0.0, 0.5]),
        gap_of(Ball(1.5), 0.5, 2 * COLUMNS, theta=[1.0, 0.0, 0.5]),
        evolve(gap, shift=[0.0, 0.0, 1.0]),
        evolve(gap, shift=[0.0, 1.0, 0.0]),
    ]
    assert len({gap.identity, *[other.identity for other in others]}) == 8
    assert (gap.rows, gap.numeric, gap.domain) == (1, False, LINE)
    assert not gap.theta.flags.writeable


FORM = LinearForm(LINE, [Dense(("x",), (4,), COLUMNS)])
ZERO = np.zeros(3)


@pytest.mark.parametrize(
    ("make", "named"),
    [
        (lambda: ProximalGapForm(COLUMNS, ZERO, Ball(1)), "gradient"),
        (lambda: ProximalGapForm(FORM, np.zeros(2), Ball(1)), "theta"),
        (lambda: ProximalGapForm(FORM, np.zeros((3, 1)), Ball(1)), "theta"),
        (lambda: ProximalGapForm(FORM, [0.0, math.nan, 0.0], Ball(1)), "theta"),
        (lambda: ProximalGapForm(FORM, ["a"], Ball(1)), "theta"),
        (lambda: ProximalGapForm(FORM, [2.0, 0.0, 0.0], Ball(1)), "theta"),
        (lambda: ProximalGapForm(FORM, ZERO, Simplex()), "theta"),
        (lambda: ProximalGapForm(FORM, ZERO, Box(0, (1.0, 1.0))), "over"),
        (lambda: ProximalGapForm(FORM, ZERO, "ball"), "over"),
        (lambda: ProximalGapForm(FORM, ZERO, Ball(1), 1.0, np.zeros(2)), "shift"),
        (lambda: ProximalGapForm(FORM, ZERO, Ball(1), 1.0, [0.0, math.inf, 0.0]), "shift"),
        (lambda: ProximalGapForm(FORM, ZERO, Ball(1), -1.0), "strength"),
        (lambda: ProximalGapForm(FORM, ZERO, Ball(1), math.nan), "strength"),
        (lambda: ProximalGapForm(FORM, ZERO, Ball(1), 1e101), "strength"),
    ],
)
def test_what_does_not_fit_is_refused_by_name(make, named):
    with pytest.raises(InvalidArgument, match=f"^{named}"):
        make()


def test_gradients_that_are_too_large_to_write_out_are_refused():
    domain = Domain(*[Integer(name, 0, 99) for name in "abcd"])
    form = LinearForm(domain, [Kronecker.of(domain, dict.fromkeys("abcd", Range(100, 0, 9)))])
    gap = ProximalGapForm(form, np.zeros(1), Ball(1))
    with pytest.raises(TooLarge):
        gap.moved(facts(domain))


def test_the_exact_maximum_agrees_with_a_solver_of_another_author():
    rng = np.random.default_rng(7)
    for _ in range(5):
        theta = Simplex().project(rng.normal(size=3))
        sums, rows = rng.integers(-30, 30, size=3), 4
        found = minimize(
            lambda t, s=sums, c=theta: -(s @ (c - t) - 2.0 * (c - t) @ (c - t)),
            np.full(3, 1 / 3),
            bounds=[(0, 1)] * 3,
            constraints={"type": "eq", "fun": lambda t: t.sum() - 1},
            tol=1e-13,
        )
        exact = Steps(theta, Simplex(), 1.0).most(sums.tolist(), 0, rows, Fraction(2) ** 30)
        assert exact / 2**30 == pytest.approx(-found.fun, abs=1e-6)


@pytest.mark.parametrize("neighbors", Neighbors)
@pytest.mark.parametrize("over", SETS, ids=SHOWN)
def test_weights_of_any_size_move_a_gap_by_no_more_than_is_told(over, neighbors):
    replaced, theta = neighbors is Neighbors.REPLACE_ONE, over.centre(3)
    for size in (1e-320, 1e-160, 1e-20, 1e140):
        found = gap_of(over, columns=COLUMNS * size).moved(facts(LINE, neighbors=neighbors))
        sought = worst(over, theta, COLUMNS * size, replaced=replaced, outside=True)
        assert sought <= found <= 1.02 * sought + 1e-150


@pytest.mark.parametrize("strength", [0.0, 1e-300, 1.0])
def test_a_gradient_of_noughts_moves_nothing_where_rows_are_exchanged(strength):
    gap = gap_of(Ball(1.5), strength, 0.0 * COLUMNS)
    assert gap.moved(facts(LINE)) == 0.0


def test_what_leaves_the_floats_is_refused_without_a_warning():
    for over in (Box(-1e100, 1e100), Ball(1e100)):
        steps = Steps(np.array([1e100, 0.0, 0.0]), over, 1e112)
        for weights in (COLUMNS, 1e300 * COLUMNS):
            with pytest.raises(InvalidArgument, match=r"^gradient"):
                steps.moved(weights, replaced=False, outside=True)


def test_gradients_of_no_attributes_are_written_out():
    form = LinearForm(WORLD, [Kronecker.of(WORLD, {}), Kronecker.of(WORLD, {})])
    assert written(form).tolist() == [[1.0], [1.0]]
    assert ProximalGapForm(form, np.zeros(2), Ball(3)).moved(facts(WORLD)) == pytest.approx(
        3 * math.sqrt(2)
    )
