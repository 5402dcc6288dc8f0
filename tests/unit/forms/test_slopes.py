"""Gradients of wide models: integers of each record, and what one row moves, by enumeration."""

import itertools

import numpy as np
import pytest

from dpsdk import Binned, Boolean, Categorical, Domain, Integer, Neighbors
from dpsdk.data.histogram import Histogram
from dpsdk.errors import InvalidArgument, QueryError, TooLarge
from dpsdk.forms import ConvexForm, Coordinates, Facts, LinearForm, sensitivity
from dpsdk.forms.move import Move
from dpsdk.forms.slopes import FeatureAxis, InPieces, Slopes
from dpsdk.losses import HuberLoss, LogisticLoss, SquaredLoss, SVMLoss
from dpsdk.queries import Ball, Box

LOSSES = [LogisticLoss(), SVMLoss(), SquaredLoss(), HuberLoss(0.5)]


def random_form(rng, classes=0):
    """A model on two or three small attributes, of features of any sign; or one a class."""
    domain = Domain(
        Integer("a", 0, int(rng.integers(0, 3))),
        Categorical("b", [f"{label}" for label in range(rng.integers(1, 4))]),
        Binned("c", [0, 1, 3]),
        Categorical("y", [f"{label}" for label in range(classes)]) if classes else Boolean("y"),
    )
    names = [("a",), ("b",), ("a", "b"), ("c",), ()]
    chosen = [names[place] for place in rng.permutation(5)[: rng.integers(1, 5)]]
    coordinates = [
        Coordinates(own, rng.normal(size=(rng.integers(1, 3), *[domain[n].size for n in own])))
        for own in chosen
    ]
    loss = LOSSES[rng.integers(len(LOSSES))]
    targets = 2 * np.eye(classes) - 1 if classes else np.array([-1.0, 1.0])
    return ConvexForm(domain, coordinates, "y", targets, loss, Ball(6))


def records_of(block):
    cells = itertools.product(*map(range, block.shape))
    return [np.array(code) for code in zip(*cells, strict=True)]


def farthest(columns, facts):
    """The largest moves of one row, over all pairs of records."""
    if facts.outside:
        columns = np.vstack([columns, np.zeros(columns.shape[1])])
    moves = columns
    if facts.replaced:
        moves = (columns[:, None] - columns[None]).reshape(-1, columns.shape[1])
    return np.abs(moves).sum(1).max(), np.square(moves).sum(1).max(), np.abs(moves).max()


def relations(domain):
    for neighbors, outside in itertools.product(Neighbors, (True, False)):
        rows = 9 if neighbors is Neighbors.REPLACE_ONE else None
        yield Facts(domain, neighbors, rows, outside, 9)


def exceeded(seeds, price=sensitivity, classes=0):
    """How often enumeration finds a larger move than is priced."""
    count = 0
    for seed in seeds:
        rng = np.random.default_rng(seed)
        form = random_form(rng, classes)
        theta = form.project(rng.normal(size=form.dimension) * rng.choice([0, 1, 9]))
        asked, _ = form.slopes(theta)
        codes = records_of(asked.blocks[0])
        columns = np.concatenate([block.columns(codes) for block in asked.blocks]).T
        for facts in relations(form.domain):
            l1, l2, top = farthest(columns, facts)
            priced = price(asked, facts)
            count += l1 > priced.l1 or l2 > priced.l2_squared or top > priced.maximum
    return count


def test_no_row_moves_a_gradient_further_than_is_priced():
    assert exceeded(range(60)) == 0


def test_the_bound_for_slopes_of_two_signs_alone_is_too_small():
    def shorter(form, facts):
        block = form.blocks[0]
        low, high = block.ends
        square = sum(np.square(axis.numbers).sum(axis=1).max() for axis in block.axes)
        full = block.move(facts)
        return Twin(full.l1, (high - low) ** 2 * square, full.maximum)

    assert exceeded(range(60), shorter) > 0


@pytest.mark.parametrize("classes", [3, 4])
def test_no_row_moves_the_gradients_of_several_classes_further_than_is_priced(classes):
    assert exceeded(range(40), classes=classes) == 0


def largest_slopes(block):
    """The largest slope of each label, and R² and R₁ of the features."""
    low, high = block.label_ends
    sizes = [sum(axis.sizes[place] for axis in block.axes) for place in range(2)]
    return np.maximum(-low, high), *sizes


def as_one(form, facts):
    """Price several tables as if they were one."""
    return sensitivity(LinearForm(form.domain, form.blocks[:1]), facts)


def of_the_first_label(form, facts):
    """Forget the maximum over labels: S² and S₁ of the first one alone."""
    times, squared, total = (2 if facts.replaced else 1), 0.0, 0.0
    for block in form.blocks:
        slopes, square, length = largest_slopes(block)
        squared += slopes[0] ** 2 * square
        total += slopes[0] * length
    return Twin(times * total, times**2 * squared, sensitivity(form, facts).maximum)


def of_equal_labels(form, facts):
    """Compare no row with one of another label, whose slopes have other signs."""
    squared = 0.0
    for block in form.blocks:
        slopes, square, _ = largest_slopes(block)
        squared = squared + (2 if facts.replaced else 1) * slopes**2 * square
    full = sensitivity(form, facts)
    return Twin(full.l1, squared.max(), full.maximum)


@pytest.mark.parametrize("price", [as_one, of_the_first_label, of_equal_labels])
def test_shorter_bounds_of_several_classes_are_too_small(price):
    assert exceeded(range(40), price, classes=3) > 0


def test_several_classes_are_bounded_pair_by_pair_of_labels():
    # Of one-hot features, and slopes that reach the whole of the logistic ones.
    domain = Domain(Categorical("a", ["p", "q"]), Categorical("y", list("stuvw")))
    feature = [Coordinates(("a",), np.eye(2))]
    form = ConvexForm(domain, feature, "y", 2 * np.eye(5) - 1, LogisticLoss(), Ball(90))
    theta = np.tile([60.0, -60.0], 5)
    facts = Facts(domain, Neighbors.REPLACE_ONE, 9, False, 9)
    asked, unit = form.slopes(theta)
    squared = float(sensitivity(asked, facts).l2_squared) * unit**2
    # Two classes differ by 2, and three by a slope in two places: less than 4 for each of five.
    assert squared == pytest.approx(2 * 4 + 3 * 2, rel=1e-3)
    alone = Facts(domain, Neighbors.ADD_REMOVE, None, False, 9)
    assert float(sensitivity(asked, alone).l2_squared) * unit**2 == pytest.approx(5, rel=1e-3)


def test_gradients_of_several_classes_are_those_of_each():
    rng = np.random.default_rng(4)
    form = random_form(rng, 3)
    assert form.wide
    theta = form.project(rng.normal(size=form.dimension))
    asked, _ = form.slopes(theta)
    codes = [rng.integers(0, size, 300) for size in asked.blocks[0].shape]
    counts = rng.integers(1, 9, 300).astype(float)
    for one, part, block in zip(form.by_class, np.split(theta, 3), asked.blocks, strict=True):
        (own,) = one.slopes(part)[0].blocks
        assert (own.answer_records(codes, counts) == block.answer_records(codes, counts)).all()
        assert own.extents()[0].tolist() == block.extents()[0].tolist()
    assert len({*asked.row_identities()}) == form.dimension
    other = np.roll(theta, form.width)
    assert form.slopes(other)[0].identity != asked.identity
    for ask in (form.gradient, form.hessian):
        with pytest.raises(QueryError, match="several classes"):
            ask(theta)
    with pytest.raises(QueryError, match="several classes"):
        form.moments()


def test_kinds_are_rows_of_slopes():
    axes = [FeatureAxis((), (), (), np.array([[4]]))]
    for kinds in ([0, 1], [-1, 0], []):
        with pytest.raises(InvalidArgument, match=r"kinds|slopes"):
            Slopes(
                axes, np.array([1]), "y", 3, np.arange(1), np.array([[5]]), 0, 3,
                np.array(kinds, dtype=np.int64),
            )  # fmt: skip


class Twin:
    def __init__(self, l1, l2, maximum):
        self.l1, self.l2_squared, self.maximum = l1, l2, maximum


def test_a_record_that_lacks_a_feature_has_no_slope():
    # One axis with a cell for missing values behind its two labels.
    axes = [
        FeatureAxis(("a",), (3,), (2,), np.array([[1], [2]])),
        FeatureAxis((), (), (), np.array([[4]])),
    ]
    block = Slopes(axes, np.array([1, 1]), "y", 3, np.arange(2), np.array([[5], [-5]]), 5, 3)
    codes = records_of(block)
    columns = block.columns(codes).T
    lacking = (codes[0] == 2) | (codes[1] == 2)
    assert not columns[lacking].any()
    assert columns[~lacking].all()
    assert block.extents()[1].tolist() == [10.0, 20.0]
    facts = Facts(
        Domain(Integer("a", 0, 2), Integer("y", 0, 2)), Neighbors.ADD_REMOVE, None, False, 9
    )
    assert block.move(facts) == Move(5 * 6.0, 25.0 * (4 + 16), 5 * 4.0, exact=False)
    # A twin that kept the slope of a third label would have a larger column.
    assert block.move(facts).l1 < 5 * (3 + 4)


@pytest.mark.parametrize("seed", range(8))
def test_it_is_the_gradient_whose_cells_are_written_out(seed):
    rng = np.random.default_rng(seed)
    form = random_form(rng)
    theta = form.over.project(rng.normal(size=form.dimension))
    asked, unit = form.slopes(theta)
    block, dense = asked.blocks[0], form.gradient(theta).blocks[0]
    codes = records_of(block)
    named = dict(zip(block.names, codes, strict=True))
    plain = dense.columns([named[name] for name in dense.names])
    length, off = form.rounding
    apart = np.linalg.norm(block.columns(codes) * unit - plain, axis=0)
    # The loss with a kink has no bound of it; half a level of a margin turns its slope over.
    assert apart.max() <= off
    if not form.loss.kinked:
        assert off < 0.01
    assert np.linalg.norm(block.columns(codes) * unit, axis=0).max() <= length


@pytest.mark.parametrize("seed", range(4))
def test_the_order_of_records_does_not_matter(seed):
    rng = np.random.default_rng(seed)
    form = random_form(rng)
    asked, _ = form.slopes(rng.normal(size=form.dimension) / 9)
    block = asked.blocks[0]
    codes = [rng.integers(0, size, 500) for size in block.shape]
    counts = rng.integers(1, 9, 500).astype(float)
    answers = block.answer_records(codes, counts)
    order = rng.permutation(500)
    again = block.answer_records([code[order] for code in codes], counts[order])
    table = np.zeros(block.shape)
    np.add.at(table, tuple(codes), counts)
    assert (answers == again).all()
    assert (answers == block.answer(table)).all()
    assert (answers == block.columns(codes) @ counts).all()


def test_a_gradient_has_an_identity_of_its_own():
    rng = np.random.default_rng(3)
    form = random_form(rng)
    one, other = np.zeros(form.dimension), np.full(form.dimension, 0.5)
    identities = {form.slopes(theta)[0].identity for theta in (one, one, other)}
    assert len(identities) == 2
    assert len({*form.slopes(one)[0].row_identities()}) == form.dimension


WIDE = Domain(*[Integer(f"a{place}", 0, 19) for place in range(6)], Boolean("y"))


def wide_form(loss=None, over=None):
    features = [Coordinates((f"a{place}",), np.linspace(-0.3, 0.3, 20)[None]) for place in range(6)]
    targets = np.array([-1.0, 1.0])
    return ConvexForm(WIDE, features, "y", targets, loss or LogisticLoss(), over or Ball(8))


def test_a_wide_model_is_asked_for_gradients_alone():
    form = wide_form()
    assert form.wide
    assert form.cells == 20**6 * 2
    asked, _ = form.slopes(np.zeros(6))
    assert isinstance(asked, LinearForm)
    assert form.nbytes < 10**6
    for ask in (form.gradient, form.hessian):
        with pytest.raises(TooLarge):
            ask(np.zeros(6))


class Odd(LogisticLoss):
    answer = np.nan

    def derivative(self, z, y):
        return np.full(np.broadcast_shapes(z.shape, np.shape(y)), self.answer)


@pytest.mark.parametrize("answer", [np.nan, np.inf, 1e300])
def test_a_slope_that_is_no_number_is_refused(answer, monkeypatch):
    form = wide_form()
    monkeypatch.setattr(LogisticLoss, "derivative", Odd.derivative)
    monkeypatch.setattr(LogisticLoss, "answer", answer, raising=False)
    with pytest.raises(QueryError, match="derivative"):
        form.slopes(np.zeros(6))


def test_a_clip_cuts_slopes():
    form = wide_form(SquaredLoss())
    theta = np.full(6, 3.0)
    _, high = form.slopes(theta)[0].limits
    _, cut = form.slopes(theta, clip=0.5)[0].limits
    assert 0 < cut < high


def test_a_set_too_large_for_integers_is_refused():
    with pytest.raises(InvalidArgument, match="over"):
        wide_form(over=Ball(2.0**21))
    with pytest.raises(InvalidArgument, match="over"):
        wide_form(over=Box(-1e9, 1e9))


def test_an_axis_of_too_many_cells_is_refused():
    with pytest.raises(TooLarge, match="feature"):
        FeatureAxis(("a",), (2**17,), (2**16 + 1,), np.zeros((2**16 + 1, 1), dtype=np.int64))


def test_records_that_lack_a_value_weigh_nothing_as_in_the_written_gradient():
    domain = Domain(
        Integer("a", 0, 2, missing=True),
        Categorical("b", ["p", "q"], other=True),
        Boolean("y", missing=True),
    )
    coordinates = [
        Coordinates(("a",), np.array([[-1.0, 0.5, 2.0]])),
        Coordinates(("b",), np.eye(2)),
        Coordinates((), np.ones(1)),
    ]
    form = ConvexForm(domain, coordinates, "y", np.array([-1.0, 1.0]), LogisticLoss(), Ball(6))
    theta = np.array([0.5, -1.0, 0.25, 0.75])
    asked, unit = form.slopes(theta)
    block, dense = asked.blocks[0], form.gradient(theta).blocks[0]
    codes = records_of(block)
    named = dict(zip(block.names, codes, strict=True))
    plain = dense.columns([named[name] for name in dense.names])
    np.testing.assert_allclose(block.columns(codes) * unit, plain, atol=1e-3)
    assert (plain == 0).all(axis=0).sum() > 20
    for facts in relations(domain):
        l1, l2, top = farthest(block.columns(codes).T, facts)
        priced = sensitivity(asked, facts)
        assert l1 <= priced.l1
        assert l2 <= priced.l2_squared
        assert top <= priced.maximum


def test_records_some_at_a_time_give_the_same_numbers():
    rng = np.random.default_rng(2)
    form = random_form(rng)
    asked, _ = form.slopes(rng.normal(size=form.dimension) / 9)
    (block,) = asked.blocks
    codes = {
        name: rng.integers(0, size, 20_000)
        for name, size in zip(block.names, block.shape, strict=True)
    }
    counts = rng.integers(1, 9, 20_000).astype(float)
    held = Histogram(form.domain, codes, counts, 0)
    whole = block.answer_records(*held.records(block.names))
    assert isinstance(held, InPieces)
    assert (block.evaluate(held) == whole).all()
    assert sum(len(own) for _, own in held.pieces(block.names, 7000)) == 20_000
