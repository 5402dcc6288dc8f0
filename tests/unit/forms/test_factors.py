"""The factor algebra: every method beside the matrix, and a factor of another author."""

import itertools
import tracemalloc

import numpy as np
import pytest
from attrs import frozen

from dpsdk import Budget, Domain, Integer, Neighbors, PrivateData, Session
from dpsdk.errors import InvalidArgument, TooLarge
from dpsdk.forms import (
    Block,
    Boxes,
    Cuts,
    Dense,
    Factor,
    Groups,
    Identity,
    Kronecker,
    LinearForm,
    Prefix,
    Ramp,
    Range,
    Ranges,
    Residual,
    Squares,
    Toeplitz,
    Weights,
    Within,
    sensitivity,
)
from dpsdk.mechanisms import Gaussian, Laplace, NoisyHistogram, OnlinePMW
from dpsdk.queries import Query
from dpsdk.testing import seeded
from worlds import facts, moves, weights

FACTORS = [
    Identity(1), Identity(4), Prefix(1), Prefix(5), Range(5, 0, 5), Range(5, 1, 3), Range(5, 2, 2),
    Groups(5, 1), Groups(5, 2), Groups(5, 5), Ranges(6, [0, 2, 5], [2, 5, 6]),
    Ranges(6, [1, 4, 3, 0], [3, 4, 6, 6]), Ranges(5, [1], [4]), Residual(1), Residual(4),
    Toeplitz([3.0, 1.0, 0.0]), Toeplitz([1.0, -2.0, 0.5, 4.0]), Weights([[1.0, -2.0], [0.0, 0.5]]),
    Cuts(5, [0]), Cuts(5, [0, 1, 3]), Cuts(2, [0, 1]), Ramp(1, -3, 7), Ramp(5, -4, 2),
    Ramp(4, 3, 0), Ramp(4, 0, 0), Ramp(5, 1, -1), Ramp(5, -3, -2), Ramp(5, -7, 3), Ramp(3, 0, -2),
    Within(Identity(3), 5), Within(Prefix(2), 4, 1), Within(Ramp(3, -1, 2), 5),
    Within(Ramp(3, 0, 2), 5, 2), Within(Ramp(3, -2, 1), 3), Within(Range(3, 1, 2), 4),
    Within(Weights([[1.0, -2.0, 0.0], [0.0, 0.5, 0.5]]), 4), Within(Cuts(3, [0, 2]), 4, 1),
    Within(Within(Ramp(2, 1, 1), 3), 5, 1), Within(Toeplitz([2.0, 1.0]), 4),
    Within(Residual(3), 4), Squares(1, 2), Squares(5, 2), Squares(3, 4, 4), Squares(3, 2, 2),
    Squares(5, 2, 2, width=2), Squares(6, 2, 4, width=3), Within(Squares(7, 2, 1, width=2), 9, 1),
    Squares(4, 4, 2, skip=1), Squares(6, 4, 2, width=3, skip=4), Squares(1, 2, 2, width=2, skip=3),
    Within(Squares(6, 4, 2, width=3, skip=2), 8, 1),
]  # fmt: skip


@pytest.mark.parametrize("factor", FACTORS, ids=repr)
def test_a_factor_says_of_itself_what_its_matrix_says(factor):
    plain, cells = Weights(factor.columns(np.arange(factor.size))), np.arange(factor.size)
    assert (plain.rows, plain.size) == (factor.rows, factor.size)
    assert plain.integral == factor.integral
    assert (factor.limits(), factor.row(factor.rows - 1).limits()) == (
        plain.limits(), plain.row(factor.rows - 1).limits(),
    )  # fmt: skip
    assert factor.reach >= plain.reach
    for one, other in zip(factor.extents(), plain.extents(), strict=True):
        assert one.tolist() == other.tolist()
    for power in (0, 1, 2):
        assert factor.row_norms(power).tolist() == plain.row_norms(power).tolist()
    for power in (1, 2):
        assert factor.column_norms(power).tolist() == plain.column_norms(power).tolist()
    *own, most = factor.deviations()
    *wanted, counts = plain.deviations()
    for one, other in zip(own, wanted, strict=True):
        np.testing.assert_allclose(np.broadcast_to(one, other.shape), other, atol=1e-15)
    assert (most >= counts).all()
    assert factor.largest_norms() == plain.largest_norms()
    assert factor.products() == plain.products()
    assert factor.lines(3) == plain.lines(3)
    for axis, shape in ((0, (factor.size, 3)), (1, (2, factor.size, 3))):
        table = np.random.default_rng(1).integers(-9, 9, shape) * 1.0
        # Exact where weights are integers; the Fourier transform of others rounds off.
        rounds = 0.0 if factor.integral else 1e-12
        there, wanted = factor.apply(table, axis), plain.apply(table, axis)
        np.testing.assert_allclose(there, wanted, rtol=0, atol=rounds)
        back = factor.adjoint(wanted, axis)
        np.testing.assert_allclose(back, plain.adjoint(wanted, axis), rtol=0, atol=rounds)
    if factor.partition:
        assert (plain.matrix().sum(axis=0) == 1).all()
        assert ((plain.matrix() == 0) | (plain.matrix() == 1)).all()
    assert factor.simplified().matrix().tolist() == plain.matrix().tolist()
    smaller, codes = factor.coarsened(cells)
    assert smaller.columns(codes).tolist() == plain.matrix().tolist()
    classes = cells if factor.classes() is None else factor.classes()
    for one, other in itertools.combinations(cells, 2):
        alike = plain.matrix()[:, one].tolist() == plain.matrix()[:, other].tolist()
        assert alike >= (classes[one] == classes[other])
    knots = cells if factor.knots() is None else factor.knots()
    assert [knots[0], knots[-1]] == [0, factor.size - 1]
    assert factor.at(knots).matrix().tolist() == plain.columns(knots).tolist()
    for row in plain.matrix():
        # A straight line from knot to knot.
        np.testing.assert_allclose(np.interp(cells, knots, row[knots]), row, atol=1e-12)
    if factor.counting:
        starts, stops = factor.ranges
        assert Ranges(factor.size, starts, stops).matrix().tolist() == plain.matrix().tolist()


@pytest.mark.parametrize("outside", [True, False])
@pytest.mark.parametrize("neighbors", Neighbors)
@pytest.mark.parametrize("factor", FACTORS, ids=repr)
def test_no_row_moves_a_factor_farther_than_is_said(factor, neighbors, outside):
    domain = Domain(Integer("a", 0, factor.size - 1), Integer("b", 0, 2))
    of = facts(domain, neighbors, outside=outside)
    for other in (None, Range(3, 1, 3), Identity(3), Prefix(3)):
        factors = {"a": factor} if other is None else {"a": factor, "b": other}
        form = LinearForm(domain, [Kronecker.of(domain, factors)])
        found, (l1, l2, top) = sensitivity(form, of), moves(weights(form), of)
        claimed = np.array([found.l1, found.l2_squared, found.maximum], dtype=float)
        assert (claimed >= np.array([l1, l2, top], dtype=float)).all()
        # What floats round off is added where weights are no integers.
        exact = claimed <= np.array([l1, l2, top], dtype=float) * (1 + 1e-12)
        assert found.exact <= exact.all()
        assert found.exact


@pytest.mark.parametrize(
    "block",
    [
        Kronecker(("a", "b"), (Prefix(3), Toeplitz([2.0, 1.0])), -0.5),
        Kronecker((), (), 3.0),
        Boxes(("a", "b"), (3, 2), [[0, 1, 2], [0, 1, 0]], [[3, 3, 2], [2, 2, 1]], [1.0, -2.0, 3.0]),
        Boxes(("a",), (3,), [[0, 1]], [[3, 3]], [1.5, -2.0], [[1.0, 0.0, 1.0]]),
        Dense(("b",), (2,), [[1.0, 2.0], [0.25, -3.0], [0.0, 0.0]]),
    ],
    ids=["product", "count", "boxes", "boxes with a line", "dense"],
)
def test_the_adjoint_of_a_block_is_that_of_its_weights(block):
    numbers = np.random.default_rng(2).integers(-4, 5, block.rows) * 1.0
    wanted = block.written().weights.T @ numbers
    assert block.adjoint(numbers).reshape(-1).tolist() == wanted.tolist()
    assert block.times(4.0).written().weights.tolist() == (4.0 * block.written().weights).tolist()


def test_factors_of_huge_attributes_are_never_written_out():
    size, cells = 2**62, np.array([0, 5, 2**40, 2**52 - 1, 2**62 - 1])
    ramp, cuts = Ramp(2**52, -(2**51), 1), Cuts(size, [0, 5, 2**61])
    inner = Within(ramp, size, 5)
    tracemalloc.start()
    try:
        assert inner.columns(cells).tolist() == [[0, -(2**51), 2**40 - 5 - 2**51, 2**51 - 6, 0]]
        assert inner.limits() == (-(2**51), 2**51 - 1)
        assert ramp.largest_norms() == inner.largest_norms() == (2**51, 2**102)
        assert inner.products() == (-(2**51) * (2**51 - 1), 2**102)
        assert cuts.columns(cells).tolist() == [[1, 0, 0, 0, 0], [0, 1, 1, 1, 0], [0, 0, 0, 0, 1]]
        assert cuts.knots().tolist() == [0, 4, 5, 2**61 - 1, 2**61, size - 1]
        assert inner.knots().tolist() == [0, 4, 5, 2**52 + 4, 2**52 + 5, size - 1]
        small, codes = cuts.coarsened(cells)
        assert (small, codes.tolist()) == (Identity(3), [0, 1, 1, 1, 2])
        for factor in (ramp, cuts, inner):
            with pytest.raises(TooLarge):
                factor.matrix()
        # One function is written in one way, however its zeros are.
        same = Within(Ramp(2**30, 3, 3), size, 8), Within(Ramp(2**30 + 1, 0, 3), size, 7)
        assert same[0].lines(0) == same[1].lines(0)
        assert same[0].times(2.0).lines(0)[0][1] == same[0].lines(0)[0][1]
        others = [
            Within(Ramp(2**30, 3, 3), size, 9), Within(Ramp(2**30 + 1, 3, 3), size, 8),
            Within(Ramp(2**30, 3, 2), size, 8), Within(Ramp(2**30, -3, 3), size, 8),
            Within(Ramp(2**30, 3, 0), size, 8), Within(Ramp(2**30, -3, -3), size, 8),
        ]  # fmt: skip
        assert len({repr(f.lines(0)) for f in (same[0], *others)}) == 7
        assert Ramp(size, 4, 0).lines(0) == Weights([[4.0, 4.0]]).lines(0)
        (number, text), (one, whole) = (
            Within(factor, size).lines(0)[0] for factor in (Ramp(2**30, 4, 0), Cuts(2**30, [0]))
        )
        assert (number, one, text) == ((1, 2), (1, 0), whole)
    finally:
        assert tracemalloc.get_traced_memory()[1] < 2**20
        tracemalloc.stop()


@pytest.mark.parametrize(
    "factor",
    [
        lambda: Ramp(0, 0, 1), lambda: Ramp(2**53 + 1, 0, 1), lambda: Ramp(2, 2**53, -1),
        lambda: Ramp(1, 0, 2**53), lambda: Cuts(5, []), lambda: Cuts(5, [1, 2]),
        lambda: Cuts(5, [0, 2, 2]), lambda: Cuts(5, [0, 5]), lambda: Within(Identity(3), 2),
        lambda: Within(Identity(3), 4, 2), lambda: Within(Identity(3), 4, -1),
        lambda: Within("a factor", 4), lambda: Squares(3, 3), lambda: Squares(3, 0),
        lambda: Squares(6, 2), lambda: Squares(3, 2, -1), lambda: Squares(3, 2, width=0),
        lambda: Squares(3, 2, skip=3), lambda: Squares(3, 2, skip=-1),
        lambda: Squares(2, 2**21),
    ],
)  # fmt: skip
def test_bad_factors_are_refused(factor):
    with pytest.raises(InvalidArgument):
        factor()


@frozen
class Every(Factor):
    """Every so many cells: a factor of another author, who gives no more than this."""

    size: int
    step: int

    @property
    def rows(self):
        return self.step

    def columns(self, codes):
        return (codes % self.step == np.arange(self.step)[:, None]) * 1.0


@frozen
class EveryCell(Query[tuple[float, ...]]):
    """The shares of the rows in every so many cells of an attribute."""

    attribute: str
    step: int

    def lower(self, domain, /):
        factor = Every(domain[self.attribute].size, self.step)
        return LinearForm(domain, [Kronecker.of(domain, {self.attribute: factor})])

    def lift(self, raw, facts, /):
        return tuple((raw / facts.rows).tolist())


def test_a_factor_of_another_author_is_answered_by_every_mechanism():
    domain = Domain(Integer("age", 0, 11), Integer("sex", 0, 1))
    ages = np.random.default_rng(1).integers(0, 12, 5000)
    data = PrivateData.from_columns({"age": ages, "sex": ages % 2}, domain)
    query, true = EveryCell("age", 3), np.bincount(ages % 3) / 5000
    session = Session(data, Budget(epsilon=20, delta=1e-6), noise=seeded(3))
    released = session.release(query, using=Laplace(epsilon=1))
    # Each row counts once: a row that is exchanged moves two of the counts by one.
    assert released.cost.epsilon == 1
    np.testing.assert_allclose(released.value, true, atol=0.01)
    np.testing.assert_allclose(session.answer(query, using=Gaussian(rho=0.5)), true, atol=0.01)
    for mechanism in (NoisyHistogram(epsilon=1), OnlinePMW(epsilon=2, delta=1e-7, updates=10)):
        with session.open(mechanism) as channel:
            np.testing.assert_allclose(channel.answer(query), true, atol=0.05)


@pytest.mark.parametrize("outside", [True, False])
@pytest.mark.parametrize("neighbors", Neighbors)
def test_what_a_row_moves_of_another_authors_factor_is_enumerated(neighbors, outside):
    class Lying(Every):
        """Says that nothing ever moves."""

        def extents(self):
            return np.zeros(self.rows), np.zeros(self.rows)

        def limits(self):
            return 0.0, 0.0

        def column_norms(self, power):
            return np.zeros(self.size)

        def move(self, scale, *, replace, outside):
            raise AssertionError

    class OwnBlock(Block):
        names, shape, rows = ("a",), (7,), 2

        def columns(self, codes):
            return np.array([codes[0] ** 2, 3 - codes[0]]) * 1.0

        def limits(self):
            return 0.0, 0.0

    domain = Domain(Integer("a", 0, 6))
    of = facts(domain, neighbors, outside=outside)
    for block in (Kronecker(("a",), (Lying(7, 3),)), OwnBlock()):
        form = LinearForm(domain, [block])
        found = sensitivity(form, of)
        assert (found.l1, found.l2_squared, found.maximum) == moves(weights(form), of)
        assert found.exact


def test_weights_of_another_author_are_as_many_as_it_says_and_finite():
    class Short(Every):
        def columns(self, codes):
            return super().columns(codes)[:1]

    class Infinite(Every):
        def columns(self, codes):
            return super().columns(codes) / 0.0

    for factor in (Short(6, 2), Infinite(6, 2), "a factor"):
        with pytest.raises(InvalidArgument), np.errstate(all="ignore"):
            Kronecker(("a",), (factor,))
    with pytest.raises(TooLarge):
        Kronecker(("a",), (Every(2**24, 2),))
    with pytest.raises(InvalidArgument):
        LinearForm(Domain(Integer("a", 0, 1)), ["a block"])
