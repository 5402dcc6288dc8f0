"""The minimum of a perturbed objective: its price, its search, and what is refused."""

import math
from fractions import Fraction

import numpy as np
import pytest

from dpsdk import Boolean, Budget, Domain, Integer, Neighbors, PrivateData
from dpsdk.accounting import BasicComposition, Odometer, PureGuarantee
from dpsdk.errors import BudgetExceeded, InvalidArgument
from dpsdk.forms import SlopeTable
from dpsdk.kernel import Kernel, Perturb, Terms
from dpsdk.kernel.perturb import Minimum
from dpsdk.kernel.walls import bend_of, nearest
from dpsdk.losses import LogisticLoss
from dpsdk.queries import Ball, Box, ConvexMinimization, Simplex
from dpsdk.testing import seeded
from worlds import facts

DOMAIN = Domain(Integer("a", 0, 4), Integer("b", 0, 2), Boolean("rich"))
FORM = ConvexMinimization(LogisticLoss(), features=["a", "b"], label="rich", over=Ball(8)).lower(
    DOMAIN
)
TABLE, PLACES = FORM.slope_table()
RNG = np.random.default_rng(4)
COUNTS = RNG.integers(0, 60, (5, 3, 2))
DATA = PrivateData.from_counts(COUNTS, DOMAIN)


def price(request, neighbors=Neighbors.REPLACE_ONE, **given):
    return request.price(Terms(facts(DOMAIN, neighbors, rows=2_000, **given)))


def kernel(budget=100, seed=1):
    return Kernel(DATA, Odometer(Budget(budget), BasicComposition()), seeded(seed), "it")


def test_a_table_has_the_slopes_and_features_of_the_form():
    assert TABLE.names == ("a", "b", "rich")
    assert TABLE.steepest <= 2**20
    assert float(TABLE.curvature) == pytest.approx(0.25 * TABLE.square / 2**28, rel=1e-3)
    level = (0 - TABLE.low) << TABLE.level_bits
    assert TABLE.slopes[:, level].tolist() == [2**19, -(2**19)]  # at a margin of 0
    rows = TABLE.features[:, np.argsort(PLACES)] * 2.0**-14
    codes = [code.ravel() for code in np.indices((5, 3, 2))]
    gradient = FORM.gradient(np.zeros(FORM.dimension)).blocks[0].columns(codes)
    assert np.allclose(gradient.T.reshape(15, 2, -1)[:, 0], rows / 2, atol=1e-4)


@pytest.mark.parametrize("unit_rows", [1, 3])
def test_what_it_costs_is_split_as_the_theorem_says(unit_rows):
    ridge = TABLE.curvature * 5
    adding = price(Perturb(TABLE, ridge, 2), Neighbors.ADD_REMOVE, unit_rows=unit_rows)
    replacing = price(Perturb(TABLE, ridge, 2), unit_rows=unit_rows)
    assert adding.guarantee == replacing.guarantee == PureGuarantee(2)
    left = 2 * 0.99 - unit_rows * math.log1p(1 / 5)
    length = math.sqrt(TABLE.square) * TABLE.steepest * unit_rows
    assert float(adding.tilt.scale) == pytest.approx(length / left, rel=1e-6)
    assert float(replacing.tilt.scale) == pytest.approx(2 * length / left, rel=1e-6)
    assert adding.tilt.scale >= length / Fraction(left * (1 + 1e-12))


@pytest.mark.parametrize("ridge", ["0.01", 1, 300])
def test_the_point_that_is_found_is_the_minimum(ridge):
    pricing = price(Perturb(TABLE, ridge, 60))
    tilt = [2**36, -(2**37), 2**35]
    sums = COUNTS.reshape(15, 2)
    minimum = Minimum(TABLE, sums, Fraction(ridge), tilt, pricing.bits, pricing.wall)
    found = np.array(minimum.near(pricing.near), dtype=object)
    exact, _ = minimum.gradient(found)
    assert int(exact @ exact) <= (pricing.near * minimum.unit) ** 2
    # In floats the gradient of the loss itself, whose slopes are all but linear in between.
    theta = found.astype(np.float64) * 2.0**-pricing.bits
    margins = TABLE.features @ theta * 2.0**-14
    slopes = sum(
        sums[:, place] * LogisticLoss().derivative(np.clip(margins, *FORM._reach), y)
        for place, y in enumerate((-1.0, 1.0))
    )
    gradient = slopes @ TABLE.features * 2.0**-14 + float(ridge) * theta
    assert gradient == pytest.approx(-np.array(tilt) * 2.0**-34, abs=1e-3)


SETS = [Ball(0.7), Ball(9), Box(-0.3, 0.25), Box((0.1, -5, 2), (0.1, 5, 3)), Simplex()]


@pytest.mark.parametrize("over", SETS, ids=repr)
def test_walls_know_the_nearest_point_and_how_they_bend(over):
    rng = np.random.default_rng(3)
    for size in (0.1, 1, 30):
        point = rng.normal(size=3) * size
        theta = np.array([round(number * 2**40) for number in point], dtype=object)
        near = nearest(over, theta, 40)
        apart = near.astype(np.float64) * 2.0**-40 - over.project(point)
        assert np.linalg.norm(apart) <= 2 * math.sqrt(3) * 2.0**-40 + 1e-14
        steps = 1e-6 * np.eye(3)
        slopes = [[(a - over.project(a)) for a in (point + step, point - step)] for step in steps]
        seen = np.array([(high - low) / 2e-6 for high, low in slopes])
        assert bend_of(over, point) == pytest.approx(seen, abs=1e-4)


@pytest.mark.parametrize("over", SETS, ids=repr)
def test_with_a_wall_the_point_is_the_minimum_over_the_set(over):
    form = ConvexMinimization(LogisticLoss(), features=["a", "b"], label="rich", over=over).lower(
        DOMAIN
    )
    table, places = form.slope_table()
    pricing = price(Perturb(table, "0.01", 60))
    tilt = [2**30, -(2**31), 2**29]
    minimum = Minimum(
        table, COUNTS.reshape(15, 2), Fraction("0.01"), tilt, pricing.bits, pricing.wall
    )
    found = np.array(minimum.near(pricing.near), dtype=np.float64) * 2.0**-pricing.bits
    best, _ = form.minimise(
        FakeTables(), ridge=0.01 / COUNTS.sum(),
        linear=(np.array(tilt) * 2.0**-34 / COUNTS.sum())[np.argsort(places)], tolerance=1e-10,
    )  # fmt: skip
    assert found[np.argsort(places)] == pytest.approx(best, abs=5e-3)
    assert np.linalg.norm(found - table.over.project(found)) < 5e-3


def test_a_far_away_minimum_is_found_and_clamped():
    data = PrivateData.from_counts(COUNTS, DOMAIN)
    weak = Kernel(data, Odometer(Budget(100), BasicComposition()), seeded(2), "it")
    theta = weak.run(Perturb(TABLE, "1e-7", 40))
    assert np.isfinite(theta).all()
    assert np.abs(theta).max() <= 2**20


def test_what_is_released_is_near_the_model_and_repeats():
    best, _ = FORM.minimise(FakeTables())
    theta = kernel().run(Perturb(TABLE, "0.01", 60))[np.argsort(PLACES)]
    assert theta == pytest.approx(best, abs=0.3)
    assert np.array_equal(kernel().run(Perturb(TABLE, 1, 1)), kernel().run(Perturb(TABLE, 1, 1)))
    assert not np.array_equal(kernel(seed=2).run(Perturb(TABLE, 1, 1)), theta)


class FakeTables:
    """The counts, for all names."""

    def table(self, names):
        return COUNTS / COUNTS.sum()


def test_an_empty_table_gives_noise_over_the_ridge():
    data = PrivateData.from_counts(
        np.zeros((5, 3, 2), dtype=int), DOMAIN, neighbors=Neighbors.ADD_REMOVE
    )
    own = Kernel(data, Odometer(Budget(9), BasicComposition()), seeded(1), "it")
    assert own.run(Perturb(TABLE, 1, 1)).shape == (3,)


@pytest.mark.parametrize(
    ("request_", "match"),
    [
        (lambda: Perturb(TABLE, "1e-9", 1), "ridge must be larger"),
        (lambda: Perturb(TABLE, "1e-12", 99), "ridge must be at least"),
        (lambda: Perturb(None, 1, 1), "SlopeTable"),
    ],
)
def test_what_cannot_be_paid_is_refused_by_name(request_, match):
    with pytest.raises(InvalidArgument, match=match):
        price(request_())


@pytest.mark.parametrize("name", ["ridge", "epsilon"])
@pytest.mark.parametrize("value", [0, -1, "nan", None])
def test_amounts_out_of_range_are_refused(name, value):
    with pytest.raises(InvalidArgument, match=name):
        Perturb(TABLE, **({"ridge": 1, "epsilon": 1} | {name: value}))


@pytest.mark.parametrize(
    ("features", "slopes", "match"),
    [
        ([[1], [2]], [[0, 1], [0, 1]], "another number of rows"),
        ([[1]] * 15, [[1, 0], [0, 1]], "do not fall"),
        ([[1]] * 15, [[0], [0]], "at least two"),
        ([[0.5]] * 15, [[0, 1], [0, 1]], "integers"),
        ([[2**41]] * 15, [[0, 1], [0, 1]], "2\\^40"),
    ],
)
def test_tables_of_other_shapes_are_refused(features, slopes, match):
    with pytest.raises(InvalidArgument, match=match):
        SlopeTable(DOMAIN, ["a", "b", "rich"], np.array(features), np.array(slopes), 0, 0)


@pytest.mark.parametrize("over", ["ball", 3, Box((0, 0), (1, 1))])
def test_sets_that_are_none_or_of_other_features_are_refused(over):
    with pytest.raises(InvalidArgument, match="over"):
        SlopeTable(DOMAIN, TABLE.names, TABLE.features, TABLE.slopes, 0, 0, over)


def test_a_budget_without_room_is_not_touched():
    own = kernel(budget=1)
    with pytest.raises(BudgetExceeded):
        own.run(Perturb(TABLE, 1, 2))
    own.run(Perturb(TABLE, 1, 1))
