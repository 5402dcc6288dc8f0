"""Softmax models: gradients as integers, what one row moves by enumeration, and their minima."""

import numpy as np
import pytest
from scipy.special import logsumexp, softmax

from dpsdk import Boolean, Categorical, Domain, Integer, Neighbors
from dpsdk.errors import InvalidArgument, QueryError
from dpsdk.forms import Coordinates, Facts, LinearForm, SoftmaxForm, sensitivity
from dpsdk.forms.move import Move
from dpsdk.forms.slopes import FeatureAxis
from dpsdk.forms.softmax import SoftmaxGradient
from dpsdk.losses import LogisticLoss, SVMLoss
from dpsdk.queries import Ball, Box
from tests.unit.forms.test_slopes import farthest, random_form, records_of, relations


def softmax_form(rng, classes=3, over=None):
    """The form of a random model of several classes, on features of any sign."""
    form = random_form(rng, classes)
    return SoftmaxForm(
        form.domain, form.coordinates, "y", form.targets, LogisticLoss(), over or Ball(6)
    )


def exceeded(seeds, price=lambda block, facts: block.move(facts), classes=3):
    """How often enumeration finds a larger move than is priced."""
    count = 0
    for seed in seeds:
        rng = np.random.default_rng(seed)
        form = softmax_form(rng, classes)
        theta = form.project(rng.normal(size=form.dimension) * rng.choice([0, 0.5, 2, 9]))
        (block,) = form.slopes(theta, clip=rng.choice([0.2, 1.0, np.inf]))[0].blocks
        columns = block.columns(records_of(block)).T
        for facts in relations(form.domain):
            l1, l2, top = farthest(columns, facts)
            priced = price(block, facts)
            count += l1 > priced.l1 or l2 > priced.l2 or top > priced.maximum
    return count


@pytest.mark.parametrize("classes", [3, 4])
def test_no_row_moves_a_gradient_further_than_is_priced(classes):
    assert exceeded(range(30), classes=classes) == 0


def without_what_lies_across(block, facts):
    own, other, total = block._bounds
    full = block.move(facts)
    squared = (2 if facts.replaced else 1) * (own**2 + other * total)
    square = sum(axis.sizes[0] for axis in block.axes)
    return Move(full.l1, squared * square, full.maximum, exact=False)


def as_at_the_centre(block, facts):
    """Take all classes to be equally likely, whatever theta is."""
    centre = SoftmaxGradient(
        block.axes, 0 * block.theta, "y", block.labels, block.order, block.kinds, block.clip
    )
    return centre.move(facts)


def of_the_own_class_alone(block, facts):
    own, _, _ = block._bounds
    times = 2 if facts.replaced else 1
    square, length = (sum(axis.sizes[place] for axis in block.axes) for place in range(2))
    return Move(times * own * length, times**2 * own**2 * square, np.inf, exact=False)


def of_features_of_one_sign(block, facts):
    """Forget that features may point apart while slopes do not."""
    full = block.move(facts)
    own, other, total = block._bounds
    square = sum(axis.sizes[0] for axis in block.axes)
    squared = own**2 + other * total
    across = 2 * squared * square + 4 * own * other * square
    return Move(full.l1, across if facts.replaced else full.l2, full.maximum, exact=False)


@pytest.mark.parametrize(
    "price", [without_what_lies_across, as_at_the_centre, of_the_own_class_alone]
)
def test_shorter_bounds_are_too_small(price):
    assert exceeded(range(30), price) > 0


def test_features_that_point_apart_count():
    axes = [FeatureAxis(("a",), (2,), (2,), np.array([[3], [-3]]))]
    block = SoftmaxGradient(axes, np.zeros((3, 1), dtype=int), "y", 3, np.arange(1), np.arange(3))
    facts = Facts(
        Domain(Boolean("a"), Categorical("y", list("pqr"))), Neighbors.REPLACE_ONE, 9, False, 9
    )
    _, l2, _ = farthest(block.columns(records_of(block)).T, facts)
    assert of_features_of_one_sign(block, facts).l2 < l2 <= block.move(facts).l2


def test_one_row_moves_a_softmax_less_than_one_class_against_the_rest():
    domain = Domain(Categorical("a", ["p", "q"]), Categorical("y", list("stuvw")))
    facts = Facts(domain, Neighbors.REPLACE_ONE, 9, False, 9)
    given = domain, [Coordinates(("a",), np.eye(2))], "y", 2 * np.eye(5) - 1, LogisticLoss()
    form = SoftmaxForm(*given, Ball(90))
    asked, unit = form.slopes(np.outer([0, 0, 0, 60, -60], [1, -1]).reshape(-1))
    squared = float(sensitivity(asked, facts).l2_squared) * unit**2
    assert squared == pytest.approx(8, rel=1e-3)  # where 2 K + 4 is 14
    asked, unit = form.slopes(np.zeros(10))
    squared = float(sensitivity(asked, facts).l2_squared) * unit**2
    assert squared == pytest.approx(2 * 4 / 5 + 4 * 4 / 25, rel=1e-2)  # where (2 K + 4) / 4 is 3.5


def test_gradients_are_those_of_the_loss():
    rng = np.random.default_rng(5)
    for _ in range(10):
        form = softmax_form(rng, 4)
        theta = form.project(rng.normal(size=form.dimension))
        asked, unit = form.slopes(theta)
        codes = records_of(asked.blocks[0])
        columns = asked.blocks[0].columns(codes).T * unit
        named = dict(zip(asked.blocks[0].names, codes, strict=True))
        features = np.concatenate(
            [
                one.values[(slice(None), *[named[name] for name in one.names])].reshape(
                    one.width, -1
                )
                * np.ones(len(codes[0]))
                for one in form.coordinates
            ]
        )
        shares = softmax(theta.reshape(4, -1) @ features, axis=0)
        slopes = shares - (np.arange(4)[:, None] == codes[-1])
        exact = (slopes[:, None] * features[None]).reshape(form.dimension, -1).T
        np.testing.assert_allclose(columns, exact, atol=4e-3)


def test_answers_are_sums_of_columns_however_records_are_cut():
    rng = np.random.default_rng(6)
    form = softmax_form(rng, 3)
    (block,) = form.slopes(rng.normal(size=form.dimension))[0].blocks
    codes = records_of(block)
    counts = rng.integers(0, 9, len(codes[0])).astype(float)
    whole = block.columns(codes) @ counts
    assert (block.answer_records(codes, counts) == whole).all()
    assert (block.answer(counts.reshape(block.shape)) == whole).all()
    halves = [[code[part] for code in codes] for part in (slice(0, 7), slice(7, None))]
    parts = [block.answer_records(half, counts[p]) for half, p in
             zip(halves, (slice(0, 7), slice(7, None)), strict=True)]  # fmt: skip
    assert (sum(parts) == whole).all()
    finer, lost = block.rounded(3)
    assert lost == 0.0
    assert (finer.answer_records(codes, counts) == 8 * whole).all()
    facts = next(relations(form.domain))
    assert finer.move(facts).l2 == 64 * block.move(facts).l2


def test_margins_far_behind_have_no_probability_and_none_is_lost():
    axes = [FeatureAxis((), (), (), np.array([[1 << 14]]))]
    theta = np.array([[0], [-(40 << 16)], [-(8 << 16)]])
    block = SoftmaxGradient(axes, theta, "y", 4, np.arange(1), np.arange(3))
    columns = block.columns([np.arange(4)])[:, 2] / 2.0**26
    np.testing.assert_allclose(columns, [1, 0, -1], atol=1e-3)
    assert not block.columns([np.arange(4)])[:, 3].any()  # a cell that is no label


@pytest.mark.parametrize("over", [Ball(30), Ball(0.4), Box(-1.0, 0.5)])
def test_minima_are_those_of_the_loss(over):
    rng = np.random.default_rng(8)
    domain = Domain(Integer("a", 0, 4), Boolean("b"), Categorical("y", list("pqr")))
    coordinates = [
        Coordinates(("a",), np.linspace(-1, 1, 5)[None]),
        Coordinates(("b",), np.array([[0.0, 1.0]])),
        Coordinates((), np.ones(1)),
    ]
    form = SoftmaxForm(domain, coordinates, "y", 2 * np.eye(3) - 1, LogisticLoss(), over)
    weights = rng.dirichlet(np.ones(30)).reshape(5, 2, 3)

    class Table:
        def table(self, names):
            return weights.transpose([("a", "b", "y").index(name) for name in names])

    theta, gap = form.fit(Table())
    assert 0 <= gap < 1e-5
    assert form.project(theta) == pytest.approx(theta, abs=1e-9)

    def value(theta):
        x = np.stack(np.broadcast_arrays(np.linspace(-1, 1, 5)[:, None], [0.0, 1.0], 1.0))
        margins = np.tensordot(theta.reshape(3, 3), x, 1)
        return float((weights.sum(2) * logsumexp(margins, axis=0)).sum()
                     - (weights * np.moveaxis(margins, 0, 2)).sum())  # fmt: skip

    assert form.value(Table(), theta) == pytest.approx(value(theta))
    others = [form.project(theta + rng.normal(size=9) * size) for size in (1e-3, 1e-2, 0.3)] * 30
    assert value(theta) <= min(map(value, others)) + gap


def test_others_are_refused():
    form = softmax_form(np.random.default_rng(1))
    given = form.domain, form.coordinates, "y"
    with pytest.raises(InvalidArgument, match="LogisticLoss"):
        SoftmaxForm(*given, form.targets, SVMLoss(), Ball(6))
    for targets in (form.targets[0], -form.targets, np.ones((3, 3))):
        with pytest.raises(InvalidArgument, match="targets"):
            SoftmaxForm(*given, targets, LogisticLoss(), Ball(6))
    for asked in (form.gradient, form.hessian):
        with pytest.raises(QueryError, match="several classes"):
            asked(np.zeros(form.dimension))
    axes = [FeatureAxis((), (), (), np.array([[4]]))]
    for changed in ({"clip": 0}, {"clip": 5000}, {"kinds": [3]}, {"theta": [1, 1, 1]}):
        known = {"theta": [[1]] * 3, "kinds": [0, 1, 2], "clip": 1} | changed
        theta, kinds = (np.array(known[name]) for name in ("theta", "kinds"))
        with pytest.raises(InvalidArgument, match=next(iter(changed))):
            SoftmaxGradient(axes, theta, "y", 3, np.arange(1), kinds, known["clip"])
    assert LinearForm(form.domain, form.slopes(np.zeros(form.dimension))[0].blocks)
