"""The largest distance of two columns, beside all pairs."""

import itertools

import numpy as np
import pytest

from dpsdk import Boolean, Domain, Integer, Neighbors
from dpsdk.forms import (
    Ball,
    ConvexForm,
    Coordinates,
    Dense,
    LinearForm,
    diameter,
    search,
    sensitivity,
)
from dpsdk.losses import LogisticLoss, QuantileLoss, SquaredLoss
from worlds import facts, weights

pytestmark = pytest.mark.thorough


def one_hot(rng, cells, rows):
    """Slopes of both signs times one-hot features and a constant one."""
    columns = np.zeros((rows, cells))
    columns[rng.integers(0, max(rows - 1, 1), (2, cells)), np.arange(cells)] = 1
    columns[-1] = 1
    return columns * rng.choice([-1, 0, 3, 3], cells)


def sphere(rng, cells, rows):
    columns = rng.normal(size=(rows, cells))
    return np.rint(columns / np.linalg.norm(columns, axis=0) * 2**20)


KINDS = {
    "any": lambda rng, cells, rows: rng.integers(-4, 5, (rows, cells)),
    "one-hot": one_hot,
    "on a sphere": sphere,
    "in one corner": lambda rng, cells, rows: rng.integers(0, 3, (rows, cells)),
    "far from zero": lambda rng, cells, rows: 2**40 + rng.integers(0, 3, (rows, cells)),
    "all alike": lambda rng, cells, rows: np.full((rows, cells), 7),
    "one beside the rest": lambda rng, cells, rows: np.eye(rows, cells) * 5,
    "no integers": lambda rng, cells, rows: rng.normal(size=(rows, cells)),
}
LIMITS = {
    "none": {},
    "one at a time": {"_BATCH": 1, "_FIRST": 1, "_SAMPLE": 1, "_ROUNDS": 1, "_CHUNK": 16},
    "few comparisons": {"_FIRST": 1, "_SAMPLE": 1, "_BATCH": 2, "_ROUNDS": 2},
    "few held": {"_FIRST": 1, "_SAMPLE": 1, "KEPT_LIMIT": 40},
}


@pytest.mark.parametrize("limit", LIMITS)
@pytest.mark.parametrize("kind", KINDS)
def test_it_is_that_of_all_pairs_or_above_it(kind, limit, monkeypatch):
    for name, value in LIMITS[limit].items():
        monkeypatch.setattr(diameter, name, value)
    rng, marks = np.random.default_rng(3), set()
    for case in range(8):
        cells, rows = int(rng.integers(1, 80)), int(rng.integers(2, 9))
        table = np.asarray(KINDS[kind](rng, cells, rows), dtype=float)
        block = Dense(("a",), (cells,), table)
        columns = diameter.Columns([block], ("a",), (cells,))
        for squared in (True, False):
            power = 2 if squared else 1
            # Few signs decide alone, so that every other case has to do without them.
            monkeypatch.setattr(diameter, "SIGN_LIMIT", 2**28 * (case % 2))
            for work in (0, 3000) if limit == "few comparisons" else (2**31,):
                monkeypatch.setattr(diameter, "PRODUCT_LIMIT", work * 4)
                monkeypatch.setattr(diameter, "DIFFERENCE_LIMIT", work)
                norms = block.column_norms(power)
                found, exact = diameter.diameter(columns, norms, 0.0, 2**31, squared=squared)
                apart = np.abs(table[:, :, None] - table[:, None, :]) ** power
                true = float(apart.sum(axis=0).max())
                assert found >= true * (1 - 2**-45)
                assert not exact or found <= true * (1 + 2**-45)
                marks.add(exact)
    if limit in ("none", "one at a time"):
        assert marks == {True}


def test_limits_of_work_are_reached():
    """Columns on a sphere, all pairs of which could be the farthest."""
    rng = np.random.default_rng(1)
    block = Dense(("a",), (4000,), sphere(rng, 4000, 30))
    columns = diameter.Columns([block], ("a",), (4000,))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(diameter, "PRODUCT_LIMIT", 2**22)
        patch.setattr(diameter, "DIFFERENCE_LIMIT", 2**18)
        for squared in (True, False):
            norms = block.column_norms(2 if squared else 1)
            assert not diameter.diameter(columns, norms, 0.0, 2**31, squared=squared)[1]


def angled(size):
    """Unit vectors, of which two point apart though their last number is positive."""
    angles = np.linspace(-1, 1, size) * np.arcsin(1.64 / 1.8)
    return np.stack([np.sin(angles), np.cos(angles)])


@pytest.mark.parametrize("size", [2, 1500])
def test_two_slopes_of_one_sign_may_move_farther_than_two_of_both(size):
    domain = Domain(Integer("x", 0, size - 1), Boolean("y"))
    coordinates = [Coordinates(("x",), angled(size))]
    form = ConvexForm(domain, coordinates, "y", np.array([-5.0, 5.0]), QuantileLoss("0.9"), Ball(1))
    gradient = form.gradient([0.0, 0.0])
    found = sensitivity(gradient, facts(domain))
    claimed = np.linalg.norm(weights(gradient), axis=0)
    assert claimed.max() + claimed.min() == pytest.approx(1.0)
    assert found.exact
    assert float(found.l2_squared) ** 0.5 == pytest.approx(1.64, abs=1e-4)


@pytest.mark.parametrize("size", [2, 1500])
def test_a_record_outside_has_the_gradient_zero(size):
    domain = Domain(Integer("x", 0, size - 1), Boolean("y"))
    line = np.stack([np.linspace(0, 1, size), np.ones(size)]) / np.sqrt(2)
    form = ConvexForm(
        domain, [Coordinates(("x",), line)], "y", np.array([5.0, 6.0]), QuantileLoss("0.9"), Ball(1)
    )
    gradient = form.gradient([0.0, 0.0])
    inside = sensitivity(gradient, facts(domain, outside=False))
    assert float(inside.l2_squared) ** 0.5 == pytest.approx(0.9 / np.sqrt(2))
    for neighbors in Neighbors:
        found = sensitivity(gradient, facts(domain, neighbors))
        assert found.exact
        assert float(found.l2_squared) ** 0.5 == pytest.approx(0.9)
        assert float(found.l1) == pytest.approx(0.9 * np.sqrt(2))


def labelled(shape, loss, scale):
    domain = Domain(*(Integer(f"a{i}", 0, size - 1) for i, size in enumerate(shape)), Boolean("y"))
    parts = [Coordinates((f"a{i}",), np.eye(size) / 3) for i, size in enumerate(shape)]
    coordinates = [*parts, Coordinates((), np.array([1 / 3]))]
    form = ConvexForm(domain, coordinates, "y", np.array([-1.0, 1.0]), loss, Ball(9))
    theta = np.random.default_rng(2).normal(size=form.dimension) * scale
    return domain, form.gradient(theta).rounded(16)[0]


@pytest.mark.parametrize("loss", [LogisticLoss(), SquaredLoss(), QuantileLoss("0.9", 0.05)])
def test_gradients_of_thousands_of_cells_have_exact_sensitivities(loss):
    domain, gradient = labelled((5, 6, 4, 3, 3), loss, 0.8)
    table = weights(gradient)
    assert table.shape == (22, 2160)
    alone, apart = [0.0, 0.0], [0.0, 0.0]
    for column in table.T:
        for power in (1, 2):
            moved = np.abs(table - column[:, None]) ** power
            apart[power - 1] = max(apart[power - 1], moved.sum(axis=0).max())
            alone[power - 1] = max(alone[power - 1], (np.abs(column) ** power).sum())
    for neighbors, outside, rows in itertools.product(Neighbors, [True, False], [1, 2]):
        found = sensitivity(gradient, facts(domain, neighbors, outside=outside, unit_rows=rows))
        known = alone if neighbors is Neighbors.ADD_REMOVE else apart
        if outside:
            known = [max(each) for each in zip(known, alone, strict=True)]
        assert (found.l1, found.l2_squared) == (rows * known[0], rows**2 * known[1])
        assert found.exact


def test_what_was_not_exact_is_no_worse_than_by_the_heaviest_columns(monkeypatch):
    domain = Domain(Integer("a", 0, 3999))
    form = LinearForm(domain, [Dense(("a",), (4000,), sphere(np.random.default_rng(4), 4000, 24))])
    of = facts(domain)
    monkeypatch.setattr(diameter, "PRODUCT_LIMIT", 2**24)
    monkeypatch.setattr(diameter, "DIFFERENCE_LIMIT", 2**20)
    found = sensitivity(form, of)
    monkeypatch.setattr(search, "WRITTEN_LIMIT", 0)
    before = sensitivity(form, of)
    assert not before.exact
    assert found.l1 <= before.l1
    assert found.l2_squared <= before.l2_squared
