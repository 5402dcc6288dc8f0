"""Losses are what their formulas say, and whoever says otherwise of their own is found out."""

import numpy as np
import pytest
from attrs import frozen

from dpsdk.errors import InvalidArgument, QueryError
from dpsdk.losses import GLMLoss, HuberLoss, LogisticLoss, Loss, QuantileLoss, SquaredLoss, SVMLoss

SIGNED, SHARES, NUMBERS = [-1.0, 1.0], [0.0, 0.3, 1.0], [-2.0, 0.0, 0.4, 3.0]
SMOOTH = [
    (SquaredLoss(), NUMBERS),
    (HuberLoss(0.5), NUMBERS),
    (LogisticLoss(), SIGNED),
    (SVMLoss(0.5), SIGNED),
    (QuantileLoss("0.9", 0.25), NUMBERS),
    (QuantileLoss(smoothing=2.0), NUMBERS),
    (GLMLoss("identity"), NUMBERS),
    (GLMLoss("logit"), SHARES),
    (GLMLoss("log"), [0.0, 1.0, 7.0]),
    (GLMLoss("probit"), SHARES),
]
KINKED = [(SVMLoss(), SIGNED), (QuantileLoss("0.9"), NUMBERS), (QuantileLoss(), NUMBERS)]
EXACT_RANGE = [one for one in SMOOTH + KINKED if not isinstance(one[0], GLMLoss)]
SPANS = [(-3.0, 4.0), (0.5, 0.5), (-30.0, 2.0), (5.0, 6.0)]


def on_grid(loss, low, high, labels, points=7_001):
    grid = np.linspace(low, high, points)[:, None]
    return grid, loss.value(grid, np.array(labels)), loss.derivative(grid, np.array(labels))


@pytest.mark.parametrize(("loss", "labels"), SMOOTH, ids=str)
def test_derivatives_are_those_of_the_values(loss, labels):
    # Off the margins where a curvature jumps.
    grid = np.linspace(-3.0, 4.0, 701)[:, None] + 1e-3 * np.pi
    y, step = np.array(labels), 1e-5
    rise = (loss.value(grid + step, y) - loss.value(grid - step, y)) / (2 * step)
    assert np.allclose(rise, loss.derivative(grid, y), rtol=1e-6, atol=1e-8)
    bend = (loss.derivative(grid + step, y) - loss.derivative(grid - step, y)) / (2 * step)
    assert np.allclose(bend, loss.curvature(grid, y), rtol=1e-5, atol=1e-6)
    for one, other in zip(
        loss.slopes(grid, y), (loss.derivative(grid, y), loss.curvature(grid, y)), strict=True
    ):
        assert np.allclose(one, other, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize(("loss", "labels"), SMOOTH + KINKED, ids=str)
@pytest.mark.parametrize("span", SPANS)
def test_losses_of_the_package_pass_their_own_check(loss, labels, span):
    loss.check(*span, labels)


@pytest.mark.parametrize(("loss", "labels"), SMOOTH + KINKED, ids=str)
@pytest.mark.parametrize("span", [(-3.0, 4.0), (-1.0, 0.2)])
def test_constants_are_those_of_a_fine_grid(loss, labels, span):
    low, high = span
    constants = loss.constants(low, high, labels)
    grid, values, slopes = on_grid(loss, low, high, labels)
    assert constants.lipschitz == pytest.approx(np.abs(slopes).max(), rel=1e-12)
    scale = (np.abs(slopes) * np.maximum(grid - low, high - grid)).max()
    assert constants.scale == pytest.approx(scale, rel=1e-12)
    widest = np.ptp(values, axis=0).max()
    assert constants.range >= widest - 1e-12
    assert constants.range == pytest.approx(widest, abs=1e-3)
    if (loss, labels) in EXACT_RANGE:
        assert constants.range == pytest.approx(widest, abs=1e-3)
    bends = loss.curvature(grid, np.array(labels)).max()
    assert constants.smoothness >= bends
    assert np.isinf(constants.smoothness) == loss.kinked


@pytest.mark.parametrize(("loss", "labels"), KINKED, ids=str)
@pytest.mark.parametrize("width", [0.01, 0.5, 3.0])
def test_a_smoothed_loss_is_at_most_a_quarter_of_its_width_above(loss, labels, width):
    smooth = loss.smoothed(width)
    _, exact, _ = on_grid(loss, -5.0, 5.0, labels)
    _, near, _ = on_grid(smooth, -5.0, 5.0, labels)
    assert (near - exact).min() >= -1e-15
    assert (near - exact).max() == pytest.approx(width / 4, rel=1e-3)
    assert smooth.smoothed(width) is None
    assert smooth.smoothed(2 * width) == loss.smoothed(2 * width)


@pytest.mark.parametrize(("loss", "labels"), KINKED, ids=str)
def test_slack_is_how_far_a_line_below_stays_away(loss, labels):
    smooth, grid = loss.smoothed(0.7), np.linspace(-3.0, 3.0, 61)
    for label in labels:
        slopes = smooth.derivative(grid, label)
        wide = np.linspace(-40.0, 40.0, 8_001)
        # The highest line of this slope that is nowhere above the loss.
        levels = np.array([(loss.value(wide, label) - slope * wide).min() for slope in slopes])
        wanted = loss.value(grid, label) - slopes * grid - levels
        assert np.allclose(loss.slack(grid, label, slopes), wanted, atol=1e-9)
        assert np.allclose(loss.slack(grid, label, loss.derivative(grid, label)), 0.0, atol=1e-15)


def test_a_range_that_floats_cannot_hold_is_infinite():
    assert GLMLoss("log").constants(0, 1000, [1.0]).range == np.inf
    with pytest.raises(QueryError, match="infinite"):
        GLMLoss("log").check(0, 1000, [1.0])


def test_predictions():
    margins = np.array([-1.0, 0.0, 800.0, -800.0])
    assert LogisticLoss().predict(margins).tolist() == pytest.approx([0.2689414, 0.5, 1.0, 0.0])
    assert GLMLoss("probit").predict(margins)[0] == pytest.approx(0.158655254)
    assert GLMLoss("log").predict(margins)[:2].tolist() == pytest.approx([np.exp(-1), 1.0])
    kinds = [one.predicts for one in (LogisticLoss(), SVMLoss(), QuantileLoss(), SquaredLoss())]
    assert kinds == ["probability", "margin", "quantile", "mean"]
    kept = SVMLoss().predict(margins)
    kept[0] = 9.0
    assert margins[0] == -1.0


@pytest.mark.parametrize(
    "make",
    [
        lambda: HuberLoss(0),
        lambda: HuberLoss(np.nan),
        lambda: HuberLoss(10**200),
        lambda: SVMLoss(-1.0),
        lambda: SVMLoss("wide"),
        lambda: QuantileLoss(0),
        lambda: QuantileLoss(1),
        lambda: QuantileLoss(0.5, 0),
        lambda: GLMLoss("inverse"),
        lambda: GLMLoss(None),
        lambda: SquaredLoss().constants(1, 0, [0]),
        lambda: SquaredLoss().constants(0, np.inf, [0]),
        lambda: SquaredLoss().constants(0, 1, []),
        lambda: SquaredLoss().check(0, 1, [np.nan]),
        lambda: SquaredLoss().check(0, 1, [[0.0]]),
    ],
)
def test_arguments_that_cannot_be(make):
    with pytest.raises(InvalidArgument):
        make()


@pytest.mark.parametrize(
    ("loss", "labels"),
    [
        (LogisticLoss(), [0, 1]),
        (SVMLoss(), [0, 1]),
        (GLMLoss("logit"), [-1, 1]),
        (GLMLoss("log"), [-1]),
    ],
    ids=str,
)
def test_labels_that_cannot_be(loss, labels):
    with pytest.raises(QueryError, match="labels"):
        loss.check(-1, 1, labels)


@frozen
class Own(Loss):
    """log cosh(z − y), with one thing wrong."""

    wrong: str = ""

    @property
    def convex(self):
        return self.wrong != "declared"

    def value(self, z, y):
        if self.wrong == "raises":
            raise KeyError("secret")
        if self.wrong == "writes":
            z += 1.0
        if self.wrong == "nan":
            return np.where(z > 0.5, np.nan, z)
        if self.wrong == "concave":
            return -0.5 * np.square(z - y)
        value = np.logaddexp(z - y, y - z)
        return value.sum(axis=1) if self.wrong == "shape" else value

    def derivative(self, z, y):
        if self.wrong == "random":
            return np.random.default_rng().normal(size=(z + y).shape)
        if self.wrong == "other derivative":
            return 1.1 * np.tanh(z - y)
        return y - z if self.wrong == "concave" else np.tanh(z - y)

    def curvature(self, z, y):
        if self.wrong == "single":
            return np.ones_like(z - y, dtype=np.float32)
        bend = 1.0 - np.square(np.tanh(z - y))
        return -bend if self.wrong == "negative" else bend

    def slopes(self, z, y):
        factor = 2.0 if self.wrong == "slopes" else 1.0
        return factor * self.derivative(z, y), self.curvature(z, y)

    def smoothness(self, low, high, labels):
        return 0.5 if self.wrong == "smoothness" else 1.0

    def self_concordance(self, low, high, labels):
        return 1.9 if self.wrong == "self_concordance" else 2.0

    def lipschitz(self, low, high, labels):
        return 0.5 if self.wrong == "lipschitz" else super().lipschitz(low, high, labels)

    def range(self, low, high, labels):
        return 0.1 if self.wrong == "range" else super().range(low, high, labels)

    def scale(self, low, high, labels):
        bad = {"scale": 0.1, "nan scale": np.nan, "text scale": "1"}
        return bad.get(self.wrong, super().scale(low, high, labels))


def test_a_loss_of_ones_own_passes():
    assert Own().check(-3, 3, NUMBERS) is None
    widest = np.log(np.cosh(3))
    assert Own().constants(-3, 3, [0.0]).range == pytest.approx(widest, abs=1e-4)


@pytest.mark.parametrize(
    "wrong",
    [
        "declared",
        "raises",
        "writes",
        "nan",
        "concave",
        "shape",
        "random",
        "other derivative",
        "single",
        "negative",
        "slopes",
        "smoothness",
        "self_concordance",
        "lipschitz",
        "range",
        "scale",
        "nan scale",
        "text scale",
    ],
)
def test_a_loss_of_ones_own_that_is_not_what_it_says(wrong):
    with pytest.raises(QueryError) as caught:
        Own(wrong).check(-3, 3, NUMBERS)
    assert "secret" not in str(caught.value)
