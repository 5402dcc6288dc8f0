"""Trees and the square root of thresholds: variances by dense solves, bounds by runs, refusals."""

import math
import tracemalloc

import numpy as np
import pytest
from attrs import evolve
from runs import check_runs

from dpsdk import Binned, Boolean, Budget, Domain, Integer, Neighbors, PrivateData, Session
from dpsdk.errors import InvalidArgument, QueryError, TooLarge
from dpsdk.forms import Groups, Kronecker, LinearForm, Prefix, Range, Toeplitz, Weights
from dpsdk.kernel import GaussianNoise, LaplaceNoise, Measure, Terms
from dpsdk.mechanisms import SquareRoot, Tree
from dpsdk.mechanisms.linear_accuracy import Combination
from dpsdk.mechanisms.one_attribute import Root, _coefficients
from dpsdk.mechanisms.tree import Hierarchy, branching_for
from dpsdk.queries import (
    Count,
    Interval,
    Linear,
    Marginal,
    Mean,
    Rectangles,
    Sum,
    Threshold,
    Workload,
)
from dpsdk.testing import seeded
from worlds import crossed, facts, weights

pytestmark = pytest.mark.thorough

RELATIONS = [(n, o) for n in Neighbors for o in (False, True)]


def line(size):
    return Domain(Integer("age", 0, size - 1))


def asked_of(size):
    """Forms of every kind on one attribute."""
    queries = [
        Workload(Threshold("age", t) for t in range(size)),
        Workload(Interval("age", a, b) for a in range(0, size, 3) for b in range(a, size, 4)),
        Marginal("age"),
        Count(),
        Sum("age"),
        Linear(lambda record: (record["age"] % 3) / 3, ["age"]),
        Rectangles("age", range(size), [size - 1] * size, where={"age": {0, size // 2, size - 1}}),
        Mean("age", where={"age": range(1, size)}) if size > 1 else Count(),
    ]
    return [query.lower(line(size)) for query in queries]


def of_table(size, neighbors, outside):
    return facts(line(size), neighbors, rows=1000, outside=outside)


def reconstructions(size, of):
    for branching in (2, 3, 5, None):
        yield Hierarchy.over(of, "age", branching, LaplaceNoise(1))
    yield Root.over(of, "age")


@pytest.mark.parametrize("size", [1, 2, 3, 7, 16, 21, 40])
@pytest.mark.parametrize(("neighbors", "outside"), RELATIONS)
def test_estimates_and_variances_are_those_of_dense_least_squares(size, neighbors, outside):
    of = of_table(size, neighbors, outside)
    rng = np.random.default_rng(size)
    counts = rng.integers(0, 50, size).astype(float)
    for made in reconstructions(size, of):
        reconstruction = made
        strategy = weights(reconstruction.strategy)
        inverse = np.linalg.pinv(strategy)
        noise = rng.normal(size=len(strategy))
        total = getattr(reconstruction, "total", None)
        if total is not None:
            # Least squares under the condition that the cells sum to the known total.
            spread = np.linalg.inv(strategy.T @ strategy)
            way = spread.sum(axis=1) / spread.sum()
            inverse = inverse - np.outer(way, inverse.sum(axis=0))
            reconstruction = evolve(made, total=int(counts.sum()))
        found = reconstruction.cells(strategy @ counts + noise)
        np.testing.assert_allclose(found, counts + inverse @ noise, atol=1e-9)
        for form in asked_of(size):
            matrix = weights(form) @ inverse
            combination = reconstruction.combine(form)
            np.testing.assert_allclose(
                combination.squares, (matrix**2).sum(axis=1), rtol=1e-12, atol=1e-12
            )
            np.testing.assert_allclose(combination.peaks, np.abs(matrix).max(axis=1), atol=1e-12)


def of_every_kind(size):
    """Runs of every kind, scaled, empty and stacked, among functions that are no runs."""
    factors = [
        Prefix(size), Groups(size, max(1, size // 3)), Range(size, size // 2, size // 2),
        Weights([np.arange(size) % 3 / 2 - 0.5]), Range(size, size // 3, size),
        Toeplitz(np.ones(size)),
    ]  # fmt: skip
    blocks = [
        Kronecker(("age",), (factor,), scale)
        for factor, scale in zip(factors, (1.0, -2.5, 3.0, 1.0, 0.0, 1.0), strict=True)
    ]
    return LinearForm(line(size), [*blocks, Kronecker((), (), -0.5)])


@pytest.mark.parametrize("size", [1, 2, 9, 26, 81])
@pytest.mark.parametrize(("neighbors", "outside"), RELATIONS)
def test_runs_are_combined_as_with_all_their_weights(size, neighbors, outside):
    form = of_every_kind(size)
    for reconstruction in reconstructions(size, of_table(size, neighbors, outside)):
        found = reconstruction.combine(form)
        dense = reconstruction.adjoint(weights(form))
        wanted = Combination.of(dense)
        np.testing.assert_allclose(found.squares, wanted.squares, rtol=1e-12, atol=1e-12)
        np.testing.assert_allclose(found.peaks, wanted.peaks, rtol=1e-12, atol=1e-12)
        # A weight that only floats make different from zero may be counted, and no other is left.
        assert (found.counts >= (np.abs(dense) > 1e-12).sum(axis=1)).all()
        assert (found.counts <= dense.shape[1]).all()


@pytest.mark.parametrize(("neighbors", "outside"), RELATIONS)
def test_what_is_free_is_measured_and_what_is_known_is_not(neighbors, outside):
    of = of_table(64, neighbors, outside)
    tree = Hierarchy.over(of, "age", 8, LaplaceNoise(1))
    levels = 2 if neighbors is Neighbors.REPLACE_ONE else 1
    price = Measure(tree.strategy, LaplaceNoise(1)).price(Terms(of))
    assert price.law.scale == 2 * levels
    known = neighbors is Neighbors.REPLACE_ONE and not outside
    free = neighbors is Neighbors.REPLACE_ONE and outside
    assert tree.whole == ("known" if known else "measured" if free else "unknown")
    assert len(tree.strategy.blocks) == (3 if free else 2)
    # The sum of eight nodes, of variance 8 / 9 each, beside the count of all where it is measured.
    wanted = 0 if known else 64 / 73 if free else 64 / 9
    assert tree.combine(Count().lower(line(64))).squares[0] == pytest.approx(wanted, abs=1e-12)


def test_the_square_root_squared_is_all_thresholds_and_its_table_is_reproduced():
    # Largest standard deviation of a threshold per unit of the noise multiplier.
    for size, add_remove, replace in ((64, 2.389, 2.955), (256, 2.831, 3.585)):
        for neighbors, wanted in (
            (Neighbors.ADD_REMOVE, add_remove), (Neighbors.REPLACE_ONE, replace),
        ):  # fmt: skip
            of = of_table(size, neighbors, outside=False)
            root = Root.over(of, "age")
            steps = weights(root.strategy) * 2.0**-root.bits
            np.testing.assert_allclose(steps @ steps, np.tri(size), atol=size * 2.0**-19)
            form = Workload(Threshold("age", t) for t in range(size)).lower(line(size))
            quote = SquareRoot("age", rho="0.5").quote(form, Terms(of))
            assert math.sqrt(quote.accuracy.variances.max()) == pytest.approx(wanted, abs=2e-3)
    first, inverse = _coefficients(5, 20)
    assert first[:3] * 2.0**-20 == pytest.approx([1, 0.5, 0.375])
    assert inverse[:3] * 2.0**20 == pytest.approx([1, -0.5, -0.125], abs=1e-5)


MECHANISMS = {
    "laplace tree": (lambda **g: Tree("age", **g), {"epsilon": "0.5"}, 21),
    "gaussian tree": (lambda **g: Tree("age", **g), {"rho": "0.01"}, 22),
    "binary tree": (lambda **g: Tree("age", branching=2, **g), {"epsilon": 1, "delta": "1e-6"}, 23),
    "square root": (lambda **g: SquareRoot("age", **g), {"rho": "0.01"}, 24),
    "laplace root": (lambda **g: SquareRoot("age", **g), {"epsilon": 1}, 25),
}


@pytest.mark.parametrize(
    ("name", "relation"), crossed(MECHANISMS, [RELATIONS[0], RELATIONS[1], RELATIONS[3]], 3)
)
def test_bounds_hold_and_variances_are_attained(name, relation):
    neighbors, outside = relation
    make, total, seed = MECHANISMS[name]
    mechanism, rows = make(**total), [age for age in range(37) for _ in range(age % 5 * 4)]
    truth = np.bincount(rows, minlength=37)
    stray = [99] * 3 if outside else []
    data = PrivateData.from_columns(
        {"age": rows + stray}, line(37), neighbors=neighbors, outside="cell" if outside else "raise"
    )
    asked = Session(data, Budget(10**6, "0.1"), noise=seeded(seed))
    thresholds = Workload(Threshold("age", t, normalized=False) for t in range(37))
    one = Interval("age", 5, 20, normalized=False)
    check_runs(asked, mechanism, thresholds, truth.cumsum(), one, truth[5:21].sum())


@pytest.mark.parametrize("make", [lambda: Tree("age", epsilon=1), lambda: SquareRoot("age", rho=1)])
def test_it_answers_its_attribute_alone(make):
    domain = Domain(Integer("age", 0, 9), Boolean("member"), Binned("hours", [0, 10, 20]))
    columns = {"age": [1, 2, 3] * 20, "member": [True] * 60, "hours": [5.0] * 60}
    asked = Session(PrivateData.from_columns(columns, domain), Budget(9, "1e-3"), noise=seeded(1))
    mechanism = make()
    channel = asked.open(mechanism)
    for query in (Count({"member": True}), Marginal("age", "member"), Threshold("hours", 10)):
        with pytest.raises(QueryError, match="answers queries on"):
            channel.answer(query)
        with pytest.raises(QueryError, match="answers queries on"):
            asked.quote(query, using=mechanism)
    thresholds = channel.answer(Workload(Threshold("age", t) for t in range(10))).values
    cells = channel.answer(Marginal("age")).values
    np.testing.assert_allclose(thresholds, cells.cumsum(), atol=1e-9)


@pytest.mark.parametrize("branching", [1, 2.5, True])
def test_a_branching_is_a_whole_number_from_two(branching):
    with pytest.raises(InvalidArgument):
        Tree("age", epsilon=1, branching=branching)


def test_branching_follows_public_sizes_and_the_noise():
    laplace, gaussian = LaplaceNoise(1), GaussianNoise(1)
    sizes = (1, 2, 32, 64, 256, 1024, 4096, 2**15)
    assert [branching_for(n, laplace) for n in sizes] == [2, 2, 32, 8, 16, 32, 16, 32]
    assert [branching_for(n, gaussian) for n in (16, 64, 74, 4096)] == [4, 4, 3, 4]


def test_a_large_attribute_takes_no_matrix():
    size = 2**18
    of = of_table(size, Neighbors.REPLACE_ONE, outside=True)
    tree = Hierarchy.over(of, "age", None, LaplaceNoise(1))
    cells = np.arange(size) % 7.0
    exact = [np.add.reduceat(cells, np.arange(0, size, width)) for width in (*tree.widths, size)]
    np.testing.assert_allclose(tree.cells(np.concatenate(exact)), cells, atol=1e-9)
    form = Threshold("age", 100_000).lower(line(size))
    assert 1 < tree.combine(form).squares[0] < 100


def test_bounds_of_many_answers_of_a_large_tree_follow_two_paths_each():
    size = 2**20
    of = of_table(size, Neighbors.REPLACE_ONE, outside=False)
    thresholds = Workload(Threshold("age", 1000 * t) for t in range(1000)).lower(line(size))
    for noise in (LaplaceNoise(1), GaussianNoise(1)):
        tree = Hierarchy.over(of, "age", None, noise)
        tracemalloc.start()
        try:
            found = tree.combine(thresholds)
            peak = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
        # Not even one array of all cells.
        assert peak < 8 * size / 2
        for place in (1, 567):
            whole = Combination.of(tree.adjoint((np.arange(size) <= 1000 * place)[None, :] * 1.0))
            assert found.squares[place] == pytest.approx(whole.squares[0], rel=1e-11)
            assert found.peaks[place] == pytest.approx(whole.peaks[0], rel=1e-11)


def test_the_square_root_of_a_large_attribute_is_never_written_out():
    size = 2**15
    of = of_table(size, Neighbors.REPLACE_ONE, outside=False)
    counts = np.random.default_rng(1).integers(0, 9, size).astype(float)
    form = Workload(Threshold("age", t) for t in range(0, size, 1000)).lower(line(size))
    tracemalloc.start()
    try:
        root = Root.over(of, "age")
        sums = root.strategy.blocks[0].answer(counts)
        np.testing.assert_allclose(root.cells(sums), counts, atol=1e-6)
        found = root.combine(form)
        price = Measure(root.strategy, GaussianNoise("0.5")).price(Terms(of))
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 2**26
    for place in (0, 20):
        whole = root.adjoint((np.arange(size) <= 1000 * place)[None, :] * 1.0)
        assert found.squares[place] == pytest.approx((whole**2).sum(), rel=1e-9)
    # Nearly the largest norm twice over, in steps, and no more; less by what columns share.
    exact = np.concatenate([[1.0], np.cumprod(1 - 1 / (2 * np.arange(1.0, size)))])
    moved = float(price.law.variance) * 4.0 ** (-root.bits)
    assert 0.8 < moved / (2 * (exact @ exact)) < 1.0


def test_a_table_of_too_many_rows_for_exact_sums_is_refused():
    for size, rows, fine in ((2**14, 2**44, True), (2**14, 2**48, False), (64, 2**45, True)):
        of = facts(line(size), Neighbors.REPLACE_ONE, rows=rows)
        if fine:
            assert Root.over(of, "age").bits < 20
        else:
            with pytest.raises(TooLarge, match="rows") as refused:
                Root.over(of, "age")
            most = refused.value.limit
            assert Root.over(facts(line(size), Neighbors.REPLACE_ONE, rows=most), "age").bits
