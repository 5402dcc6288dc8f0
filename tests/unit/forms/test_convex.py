"""Convex forms: their linear forms are derivatives of what they minimise."""

import numpy as np
import pytest

from dpsdk import Binned, Boolean, Categorical, Domain, Integer, Neighbors
from dpsdk.errors import InvalidArgument, QueryError, TooLarge, UnknownAttribute
from dpsdk.forms import Ball, Box, ConvexForm, Coordinates, LinearForm, Simplex, sensitivity
from dpsdk.forms.design import longest
from dpsdk.hypothesis import DenseHypothesis
from dpsdk.losses import GLMLoss, HuberLoss, LogisticLoss, Loss, QuantileLoss, SquaredLoss, SVMLoss
from worlds import facts, weights

DOMAIN = Domain(
    Integer("age", 0, 4),
    Categorical("sex", ["F", "M"]),
    Boolean("rich"),
    Categorical("edu", ["a", "b", "c"]),
)
RNG = np.random.default_rng(5)
# The second and the last but one share an attribute with the first; the middle one does not.
COORDINATES = [
    Coordinates(("age",), np.linspace(-0.5, 0.5, 5)[None]),
    Coordinates(("sex",), np.eye(2) / 2),
    Coordinates(("edu", "age"), RNG.normal(size=(2, 3, 5)) / 4),
    Coordinates((), np.array([0.5])),
]
WEIGHTS = RNG.dirichlet(np.ones(DOMAIN.size))
PUBLIC = DenseHypothesis.from_weights(DOMAIN, WEIGHTS)
THETA = RNG.normal(size=6)


def form(loss, over=None, targets=(-1.0, 1.0), coordinates=COORDINATES):
    return ConvexForm(
        DOMAIN, coordinates, "rich", np.array(targets), loss, Ball(4) if over is None else over
    )


def vectors(coordinates=COORDINATES):
    """The feature vector and the label of each cell, the slow way."""
    rows = []
    for record in DOMAIN.records():
        row = []
        for one in coordinates:
            codes = tuple(DOMAIN[name].index(record[name]) for name in one.names)
            row += one.values[(slice(None), *codes)].tolist()
        rows.append([*row, int(record["rich"])])
    table = np.array(rows)
    return table[:, :-1], table[:, -1].astype(int)


def risk(theta, loss, targets=(-1.0, 1.0), coordinates=COORDINATES):
    x, y = vectors(coordinates)
    return float(WEIGHTS @ loss.value(x @ theta, np.array(targets)[y]))


SMOOTH = {
    "squared": (SquaredLoss(), (-1.0, 1.0)),
    "logistic": (LogisticLoss(), (-1.0, 1.0)),
    "hinge": (SVMLoss(smoothing=0.5), (-1.0, 1.0)),
    "huber": (HuberLoss(0.7), (-1.0, 1.0)),
    "quantile": (QuantileLoss("0.9", smoothing=0.3), (-1.0, 1.0)),
    "counts": (GLMLoss("log"), (0.0, 1.0)),
}


@pytest.mark.parametrize("name", SMOOTH)
def test_gradients_and_hessians_are_derivatives(name):
    loss, targets = SMOOTH[name]
    convex = form(loss, targets=targets)
    step, eye = 1e-6, np.eye(6)
    gradient = convex.gradient(THETA)
    assert isinstance(gradient, LinearForm)
    assert gradient.names == ("age", "sex", "rich", "edu")
    rises = [
        (risk(THETA + step * e, loss, targets) - risk(THETA - step * e, loss, targets)) / (2 * step)
        for e in eye
    ]
    np.testing.assert_allclose(PUBLIC.answers(gradient), rises, atol=1e-8)
    hessian = convex.matrix(PUBLIC.answers(convex.hessian(THETA)))
    bends = [
        PUBLIC.answers(convex.gradient(THETA + step * e))
        - PUBLIC.answers(convex.gradient(THETA - step * e))
        for e in eye
    ]
    np.testing.assert_allclose(hessian, np.array(bends) / (2 * step), atol=1e-7)


def test_a_record_has_the_frobenius_norm_of_its_hessian():
    convex = form(LogisticLoss())
    weights = np.concatenate([block.weights for block in convex.hessian(THETA).blocks])
    x, y = vectors()
    bends = LogisticLoss().curvature(x @ THETA, np.array([-1.0, 1.0])[y])
    np.testing.assert_allclose(np.linalg.norm(weights, axis=0), bends * np.square(x).sum(axis=1))


def test_moments_are_all_that_least_squares_needs():
    convex = form(SquaredLoss())
    numbers = PUBLIC.answers(convex.moments())
    second, first = convex.matrix(numbers[:-6]), numbers[-6:]
    x, y = vectors()
    np.testing.assert_allclose(second, (x.T * WEIGHTS) @ x, atol=1e-12)
    np.testing.assert_allclose(first, (x.T * WEIGHTS) @ np.array([-1.0, 1.0])[y], atol=1e-12)
    np.testing.assert_allclose(
        PUBLIC.answers(convex.gradient(THETA)), second @ THETA - first, atol=1e-12
    )


def test_moments_touch_the_attributes_of_two_coordinates_alone():
    touched = {block.names for block in form(SquaredLoss()).moments().blocks}
    assert ("age", "sex", "rich", "edu") not in touched
    assert {(), ("age",), ("sex",), ("rich",), ("age", "edu"), ("age", "sex", "edu")} <= touched


ONE_HOT = [
    Coordinates(("age",), np.eye(5)[1:] / 2),
    Coordinates(("sex",), np.eye(2)[1:] / 2),
    Coordinates(("age", "sex"), (np.eye(5)[1:, :, None] * np.eye(2)[1]) / 2),
    Coordinates((), np.array([0.5])),
]
MERGED = {
    "one-hot": (ONE_HOT, (-1.0, 1.0)),
    "any": (COORDINATES, (-1.0, 1.0)),
    "a label that is constant": (ONE_HOT, (0.5, 0.5)),
    "repeated": ([COORDINATES[0], COORDINATES[0], COORDINATES[2]], (0.0, 1.0)),
    "with signed zeros": ([Coordinates(("age",), [[0.0, -0.0, 1, 1, 1], [1, 0, 0, 0, 0]])], (0, 1)),
    "several constants": ([Coordinates((), np.array([0.5, 0.5])), *ONE_HOT], (-1.0, 1.0)),
    "zero": ([Coordinates(("age",), np.zeros((2, 5)))], (-1.0, 1.0)),
}


@pytest.mark.parametrize("name", MERGED)
def test_distinct_moments_say_all_that_moments_do(name):
    coordinates, targets = MERGED[name]
    convex = form(SquaredLoss(), targets=targets, coordinates=coordinates)
    full, (merged, places) = convex.moments(), convex.distinct_moments()
    long, short = weights(full), weights(merged)
    assert merged.rows == max(places.max() + 1, 1)
    np.testing.assert_array_equal(places < 0, ~long.any(axis=1))
    plain = short / np.maximum(np.abs(short).max(axis=1, keepdims=True), 1e-300)
    assert len(np.unique(plain, axis=0)) == len(plain)
    for cell in range(0, DOMAIN.size, 7):
        np.testing.assert_allclose(
            convex.moments_from(short[:, cell], places), long[:, cell], atol=1e-15
        )
    # Noise that is as large on each number of the one is so on each direction of the other.
    read = np.array([convex.moments_from(unit, places) for unit in np.eye(merged.rows)])
    alone = np.eye(len(read)) if places.max() >= 0 else 0.0
    np.testing.assert_allclose(read @ read.T, alone, atol=1e-14)


@pytest.mark.parametrize("neighbors", Neighbors)
def test_distinct_moments_cost_no_more_than_moments(neighbors):
    for coordinates in (ONE_HOT, COORDINATES, MERGED["several constants"][0]):
        convex = form(SquaredLoss(), coordinates=coordinates)
        of = facts(DOMAIN, neighbors)
        whole, merged = sensitivity(convex.moments(), of), convex.distinct_moments()[0]
        found = sensitivity(merged, of)
        assert found.l2_squared <= whole.l2_squared * (1 + 2**-40)
        assert found.l1 <= whole.l1 * (1 + 2**-40)
        if coordinates is ONE_HOT:
            assert found.l1 < whole.l1
            assert merged.rows < convex.moments().rows / 2


def test_constant_moments_are_measured_since_records_may_be_outside():
    half = DenseHypothesis.from_weights(DOMAIN, WEIGHTS, outside_mass=0.5)
    convex = form(SquaredLoss(), coordinates=ONE_HOT)
    for asked, read in (
        (convex.moments(), lambda numbers: numbers),
        (
            convex.distinct_moments()[0],
            lambda n: convex.moments_from(n, convex.distinct_moments()[1]),
        ),
    ):
        numbers = read(half.answers(asked))
        second = convex.matrix(numbers[: -convex.dimension])
        # The intercept's own moment is the share of the rows that are inside.
        assert second[-1, -1] == pytest.approx(0.5 * 0.25)
        slopes = half.answers(convex.gradient(np.full(convex.dimension, 0.3)))
        np.testing.assert_allclose(
            second @ np.full(convex.dimension, 0.3) - numbers[-convex.dimension :], slopes
        )
    of = facts(DOMAIN)
    constant = [
        n
        for n, (low, high) in enumerate(zip(*convex.moments().extents(), strict=True))
        if low == high != 0
    ]
    assert sensitivity(convex.moments().row(constant[0]), of).l1 == pytest.approx(0.25)


@pytest.mark.parametrize(
    ("values", "places"),
    [
        ([1.0], [2**62] * 27), ([1.0], [0]), ([1.0], [-2] * 27), ([1.0], [0.5] * 27),
        ([1.0, 2.0], [0] * 27),
    ],
)  # fmt: skip
def test_numbers_are_read_by_places_that_fit(values, places):
    with pytest.raises(InvalidArgument):
        form(SquaredLoss()).moments_from(values, np.array(places))


@pytest.mark.thorough(quick=1)
@pytest.mark.parametrize("name", SMOOTH)
def test_what_is_found_is_least_and_certified(name):
    loss, targets = SMOOTH[name]
    for over in (Ball(3), Ball(0.2), Box(-0.5, 0.4), Simplex()):
        convex = form(loss, over, targets)
        theta, gap = convex.minimise(PUBLIC)
        assert over.contains(theta)
        slope = PUBLIC.answers(convex.gradient(theta))
        # The certificate of Frank and Wolfe, worked out anew from the linear form.
        assert over.gap(theta, slope) <= 1e-6
        assert 0 <= gap <= 1e-6
        for _ in range(20):
            other = over.project(theta + RNG.normal(size=6) * 0.3)
            assert risk(theta, loss, targets) <= risk(other, loss, targets) + gap


@pytest.mark.parametrize("loss", [SVMLoss(), QuantileLoss("0.3")])
def test_losses_with_kinks_are_certified(loss):
    theta, gap = form(loss).minimise(PUBLIC)
    assert 0 <= gap <= 1e-4
    for _ in range(50):
        other = Ball(4).project(theta + RNG.normal(size=6) * 0.3)
        assert risk(theta, loss) <= risk(other, loss) + gap


def test_linear_terms_and_ridges_are_in_the_order_of_the_coordinates():
    convex, linear, ridge = form(SquaredLoss(), Ball(50)), np.arange(6.0) / 10, 0.05
    theta, gap = convex.minimise(PUBLIC, linear=linear, ridge=ridge, tolerance=1e-12)
    numbers = PUBLIC.answers(convex.moments())
    second, first = convex.matrix(numbers[:-6]), numbers[-6:]
    np.testing.assert_allclose(
        theta, np.linalg.solve(second + ridge * np.eye(6), first - linear), atol=1e-5
    )
    assert gap <= 1e-10


def test_a_box_of_many_sides_is_in_the_order_of_the_coordinates():
    low, high = [-1, -2, -3, -4, -5, -6], [-0.9, -1.9, -2.9, -3.9, -4.9, -5.9]
    theta, _ = form(SquaredLoss(), Box(low, high)).minimise(PUBLIC)
    assert (theta >= low).all()
    assert (theta <= high).all()


def test_the_longest_vector_is_that_of_the_universe():
    x, _ = vectors()
    assert longest(COORDINATES) == pytest.approx(np.linalg.norm(x, axis=1).max())


def test_records_outside_cost_nothing():
    half = DenseHypothesis.from_weights(DOMAIN, WEIGHTS, outside_mass=0.5)
    convex = form(LogisticLoss())
    np.testing.assert_allclose(convex.minimise(half)[0], convex.minimise(PUBLIC)[0], atol=1e-3)
    slopes = half.answers(convex.gradient(THETA))
    np.testing.assert_allclose(slopes, PUBLIC.answers(convex.gradient(THETA)) / 2)


def test_constants_hold_for_every_cell():
    x, _ = vectors()
    convex = form(LogisticLoss())
    constants = convex.constants
    margins = 4 * np.linalg.norm(x, axis=1)
    slopes = LogisticLoss().derivative(-margins, np.ones(len(x)))
    assert np.abs(slopes).max() <= constants.lipschitz + 1e-12
    assert constants.lipschitz < 1


class Weighing:
    def __init__(self, table):
        self.given = table

    def table(self, names):
        return self.given


EVEN = np.full((5, 2, 2, 3), 1 / 60)


@pytest.mark.parametrize(
    "table",
    [
        np.zeros((5, 2, 2)), EVEN * np.nan, -EVEN, EVEN.astype(str), EVEN + 0j,
        np.ma.masked_array(EVEN, mask=EVEN > 0), np.full(EVEN.shape, np.datetime64(1, "s")), None,
        3.0,
    ],
)  # fmt: skip
def test_weights_must_be_weights(table):
    with pytest.raises(InvalidArgument):
        form(SquaredLoss()).minimise(Weighing(table))
    with pytest.raises(InvalidArgument, match="tables"):
        form(SquaredLoss()).minimise(table)


@pytest.mark.parametrize("kind", [list, np.float32, np.int8, object, np.longdouble, bool])
def test_weights_may_be_numbers_of_any_kind(kind):
    ones = np.ones(EVEN.shape)
    given = ones.tolist() if kind is list else np.asfortranarray(ones.astype(kind))
    found, expected = (form(SquaredLoss()).minimise(Weighing(t))[0] for t in (given, ones))
    np.testing.assert_array_equal(found, expected)


def test_no_weight_at_all_is_minimised_by_anything():
    theta, gap = form(LogisticLoss()).minimise(Weighing(np.zeros((5, 2, 2, 3))))
    assert Ball(4).contains(theta)
    assert gap <= 1e-6


@pytest.mark.parametrize("theta", [[1.0], [np.nan] * 6, ["a"] * 6, [[0.0] * 6], [np.inf] * 6])
def test_coefficients_must_be_as_many_finite_numbers(theta):
    convex = form(LogisticLoss())
    for ask in (convex.gradient, convex.hessian):
        with pytest.raises(InvalidArgument, match="theta"):
            ask(theta)
    with pytest.raises(InvalidArgument):
        convex.minimise(PUBLIC, linear=theta)
    with pytest.raises(InvalidArgument, match="theta must be coefficients of finite margins"):
        convex.gradient([1e308] * 6)
    with pytest.raises(InvalidArgument):
        convex.minimise(PUBLIC, ridge=-1)
    with pytest.raises(InvalidArgument):
        convex.matrix(theta)


class Concave(Loss):
    def value(self, z, y):
        return -np.square(z - y)

    def derivative(self, z, y):
        return -2 * (z - y)

    def curvature(self, z, y):
        return np.full_like(z - y, -2.0)


class Broken(SquaredLoss):
    def derivative(self, z, y):
        return np.full_like(z - y, np.nan)


class Turning(SquaredLoss):
    """A loss that keeps what it says while it is tried, and not any longer."""

    then = None

    def _turned(self, numbers):
        return numbers if self.then is None else self.then(numbers)

    def value(self, z, y):
        return self._turned(super().value(z, y))

    def derivative(self, z, y):
        return self._turned(super().derivative(z, y))

    def slopes(self, z, y):
        derivative = self.derivative(z, y)
        return derivative, np.ones_like(derivative)


TURNED = {
    "raises": lambda numbers: {}[0],
    "not a number": lambda numbers: numbers * np.nan,
    "infinite": lambda numbers: numbers + np.inf,
    "of another shape": lambda numbers: np.ones(7),
    "no array": lambda numbers: "text",
}


@pytest.mark.parametrize("name", TURNED)
def test_what_a_loss_does_later_is_told_by_typed_errors(name):
    convex = form(Turning())
    object.__setattr__(convex.loss, "then", TURNED[name])
    for ask in (lambda: convex.gradient(THETA), lambda: convex.minimise(PUBLIC)):
        with pytest.raises(QueryError, match="Turning"):
            ask()


class OfMargins(Loss):
    """A loss that does not depend on the label."""

    def value(self, z, y):
        return np.square(z - 0.5) / 2

    def derivative(self, z, y):
        return z - 0.5

    def curvature(self, z, y):
        return np.ones_like(z)

    def smoothness(self, low, high, labels):
        return 1.0


def test_a_loss_may_depend_on_margins_alone():
    convex = form(OfMargins(), targets=(0.0, 1.0))
    theta, gap = convex.minimise(PUBLIC, ridge=0.1, tolerance=1e-12)
    numbers = PUBLIC.answers(form(SquaredLoss(), targets=(0.5, 0.5)).moments())
    second, first = convex.matrix(numbers[:-6]), numbers[-6:]
    np.testing.assert_allclose(theta, np.linalg.solve(second + 0.1 * np.eye(6), first), atol=1e-6)
    assert gap <= 1e-10
    np.testing.assert_allclose(
        PUBLIC.answers(convex.gradient(theta)) + 0.1 * theta, np.zeros(6), atol=1e-6
    )


class Changing(SquaredLoss):
    """A loss that writes into what it is given."""

    def derivative(self, z, y):
        result = z - y
        z[...] = 0
        return result


def test_a_loss_cannot_change_margins():
    with pytest.raises(QueryError, match="raised ValueError"):
        form(Changing())


WRONG = {
    "another domain": (InvalidArgument, {"domain": 3}),
    "no coordinates": (InvalidArgument, {"coordinates": []}),
    "another shape": (InvalidArgument, {"coordinates": [Coordinates(("age",), np.ones((1, 4)))]}),
    "unknown": (UnknownAttribute, {"coordinates": [Coordinates(("agee",), np.ones((1, 4)))]}),
    "the label": (InvalidArgument, {"coordinates": [Coordinates(("rich",), np.ones((1, 2)))]}),
    "unknown label": (UnknownAttribute, {"label": "poor"}),
    "targets": (InvalidArgument, {"targets": np.ones(3)}),
    "no loss": (InvalidArgument, {"loss": "squared"}),
    "concave": (QueryError, {"loss": Concave()}),
    "not a number": (QueryError, {"loss": Broken()}),
    "labels": (QueryError, {"loss": LogisticLoss(), "targets": np.array([0.0, 1.0])}),
    "no set": (InvalidArgument, {"over": 3}),
    "a box of others": (InvalidArgument, {"over": Box([0.0], [1.0])}),
}


@pytest.mark.parametrize("name", WRONG)
def test_what_is_no_convex_form_is_refused(name):
    error, other = WRONG[name]
    given = {
        "domain": DOMAIN,
        "coordinates": COORDINATES,
        "label": "rich",
        "targets": np.array([-1.0, 1.0]),
        "loss": SquaredLoss(),
        "over": Ball(1),
    }
    with pytest.raises(error):
        ConvexForm(**given | other)


@pytest.mark.parametrize(
    ("names", "values"),
    [
        (("age", "age"), np.ones((1, 5, 5))), ("age", np.ones((1, 5))), (("age",), np.ones(5)),
        (("age",), np.full((1, 5), np.nan)), (("age",), np.ones((0, 5))), ((3,), np.ones((1, 5))),
    ],
)  # fmt: skip
def test_what_are_no_coordinates_is_refused(names, values):
    with pytest.raises(InvalidArgument):
        Coordinates(names, values)


def test_too_large_is_told_before_anything_is_made():
    wide = Domain(Integer("a", 0, 999), Integer("b", 0, 1000), Boolean("y"), Integer("c", 0, 99))
    line = [Coordinates((n,), np.ones((1, wide[n].size))) for n in ("a", "b")]
    assert ConvexForm(wide, line, "y", np.array([-1.0, 1.0]), SquaredLoss(), Ball(1)).wide
    many = [Coordinates(("c",), np.ones((1025, 100)))]
    with pytest.raises(TooLarge, match="coordinates"):
        ConvexForm(wide, many, "y", np.array([-1.0, 1.0]), SquaredLoss(), Ball(1))
    joint = [Coordinates(("a",), np.ones((900, 1000))), Coordinates(("c",), np.ones((100, 100)))]
    convex = ConvexForm(wide, joint, "y", np.array([-1.0, 1.0]), SquaredLoss(), Ball(1))
    for ask in (convex.gradient, convex.hessian):
        with pytest.raises(TooLarge, match="weights"):
            ask(np.zeros(1000))
    with pytest.raises(TooLarge, match="weights"):
        convex.moments()


def test_bins_and_labels_of_many_values_are_numbers():
    domain = Domain(Binned("x", [0, 1, 2, 4]), Integer("y", 0, 9))
    line = [Coordinates(("x",), np.eye(3))]
    convex = ConvexForm(domain, line, "y", np.linspace(-1, 1, 10), SquaredLoss(), Ball(10))
    weights = RNG.dirichlet(np.ones(30)).reshape(3, 10)
    theta, _ = convex.minimise(
        DenseHypothesis.from_weights(domain, weights.reshape(-1)), tolerance=1e-12
    )
    means = weights @ np.linspace(-1, 1, 10) / weights.sum(axis=1)
    np.testing.assert_allclose(theta, means, atol=1e-5)
