"""Mixtures of products: they answer by definition, and never write the universe out."""

import math
import tracemalloc

import numpy as np
import pytest
from reference import GRID, random_function
from test_hypothesis_files import made

from dpsdk import Boolean, Domain, Integer, SyntheticData
from dpsdk.errors import InvalidArgument, TooLarge, UnknownAttribute
from dpsdk.forms import Dense, Groups, Identity, Kronecker, LinearForm, Prefix, Range, Weights
from dpsdk.hypothesis import Distribution, Mixture
from dpsdk.hypothesis.distribution import reached
from dpsdk.queries import Count, Marginal, Threshold, Workload

WIDE = Domain(*(Integer(f"a{i}", 0, 9) for i in range(100)))


def mixture(domain=GRID, components=3, seed=4, **given):
    rng = np.random.default_rng(seed)
    tables = {a.name: rng.random((components, a.size)) ** 3 + 1e-6 for a in domain.attributes}
    return Mixture(domain, rng.random(components) + 0.1, tables, **given)


def joint(distribution):
    """By the definition, cell by cell."""
    domain = distribution.domain
    total = np.zeros(domain.shape)
    for component, weight in enumerate(distribution.weights):
        product = np.array(weight)
        for name in domain.names:
            product = np.multiply.outer(product, distribution.shares(name)[component])
        total += product
    return total * (1 - distribution.outside_mass)


@pytest.mark.parametrize("mass", [None, 0.0, 0.3])
def test_tables_are_marginals_of_the_definition(mass):
    found = mixture(outside_mass=mass)
    assert found.outside is (mass is not None)
    assert found.outside_mass == (mass or 0)
    whole = joint(found)
    assert whole.sum() == pytest.approx(1 - (mass or 0))
    for names in [(), ("a",), ("d", "b"), ("c", "a", "d"), GRID.names, GRID.names[::-1]]:
        axes = [GRID.position(name) for name in names]
        rest = tuple(axis for axis in range(4) if axis not in axes)
        summed = whole.sum(axis=rest)
        kept = sorted(axes)
        right = summed.transpose([kept.index(axis) for axis in axes])
        np.testing.assert_allclose(found.table(names), right, rtol=1e-12)
        codes, weights = found.records(names)
        again = np.zeros(right.shape)
        np.add.at(again, tuple(codes), weights) if names else again.__iadd__(weights[0])
        np.testing.assert_allclose(again, right, rtol=1e-12)


@pytest.mark.parametrize("seed", range(6))
def test_every_kind_of_form_is_answered_as_cell_by_cell(seed):
    rng = np.random.default_rng(seed)
    found = mixture(seed=seed, outside_mass=0.2)
    whole = joint(found)

    class Cells:
        def table(self, names):
            axes = [GRID.position(name) for name in names]
            rest = tuple(axis for axis in range(4) if axis not in axes)
            kept = sorted(axes)
            return whole.sum(axis=rest).transpose([kept.index(axis) for axis in axes])

        def records(self, names):
            raise AssertionError

    blocks = [block for _ in range(12) for block in random_function(rng, GRID).blocks]
    blocks += [
        Kronecker.of(GRID, {"d": Identity(7), "a": Prefix(5)}),
        Kronecker.of(GRID, {"a": Groups(5, 2), "b": Weights(rng.normal(size=(4, 3)))}),
        Kronecker(("a",), (Identity(5),), -2.5),
        Kronecker.of(GRID, {}),
        Dense(("d", "b"), (7, 3), rng.normal(size=(3, 21))),
    ]
    # Boxes and one-row products, which a form gathers.
    for _ in range(40):
        ends = [sorted(rng.integers(0, size + 1, 2).tolist()) for size in (5, 7)]
        blocks.append(Kronecker(("a", "d"), (Range(5, *ends[0]), Range(7, *ends[1])), 1.5))
        line = Weights(rng.normal(size=(1, 3)))
        blocks.append(Kronecker(("a", "b"), (Range(5, *ends[0]), line), -0.5))
    form = LinearForm(GRID, blocks)
    np.testing.assert_allclose(found.answers(form), form.evaluate(Cells()), rtol=1e-9, atol=1e-14)
    for number in range(0, form.rows, 7):
        one = form.row(number)
        assert found.answer(one) == pytest.approx(form.evaluate(Cells())[number], abs=1e-14)


def test_what_is_given_is_normalised_and_read_back():
    found = Mixture(
        Domain(Boolean("a"), Integer("x", 0, 2)),
        [1e300, 3e300],
        {"a": [[1, 1], [0, 5]], "x": [[5e-324, 0, 0], [1, 1, 2]]},
        rows=40,
    )
    assert found.weights.tolist() == [0.25, 0.75]
    assert found.shares("a").tolist() == [[0.5, 0.5], [0, 1]]
    assert found.shares("x").tolist() == [[1, 0, 0], [0.25, 0.25, 0.5]]
    assert found.components == 2
    assert found.counts("a").tolist() == [5, 35]
    assert found.counts().tolist() == 40
    assert repr(found) == "Mixture(2 products, 2 attributes, 40 records)"
    with pytest.raises(ValueError):
        found.weights[0] = 1
    assert not found.shares("x").flags.writeable
    with pytest.raises(UnknownAttribute):
        found.shares("y")
    with pytest.raises(UnknownAttribute):
        found.table(("y",))


def test_a_universe_that_nobody_could_write_down():
    assert WIDE.size == 10**100
    found = mixture(WIDE, 8, rows=1e5)
    tracemalloc.start()
    try:
        pair = found.table(("a3", "a77"))
        assert pair.shape == (10, 10)
        assert found.table(("a3",)) == pytest.approx(pair.sum(axis=1))
        workload = Workload([Marginal("a1", "a2", "a99"), Count({"a5": 3}), Threshold("a0", 4)])
        answers = found.answers(workload.lower(WIDE))
        assert answers.shape == (1002,)
        names = WIDE.names
        box = Kronecker.of(WIDE, {name: Range(10, 0, 9) for name in names})
        weights = np.prod([found.shares(n)[:, :9].sum(axis=1) for n in names], axis=0)
        assert found.answer(LinearForm(WIDE, [box])) == pytest.approx(weights @ found.weights)
        assert len(found.sample(50, 1)["a99"]) == 50
        data = found.synthesize(2000, 1)
        assert tracemalloc.get_traced_memory()[1] < 2**25
    finally:
        tracemalloc.stop()
    assert data.rows == 2000
    assert data.table(("a3",)) == pytest.approx(found.table(("a3",)), abs=0.06)
    with pytest.raises(TooLarge, match="table"):
        found.table(WIDE.names[:9])
    large = Domain(
        *(Integer(f"x{i}", 0, 9_999) for i in range(4)), Integer("y", 0, 99), Integer("z", 0, 99)
    )
    assert large.size == 10**20
    one = mixture(large, 2)
    assert one.answers(Threshold("x3", 5000).lower(large)).shape == (1,)
    assert one.table(("x1", "y")).sum() == pytest.approx(1)


def test_records_are_those_of_a_sample_and_as_many_as_it_stands_for():
    found = mixture(outside_mass=0.25, rows=400)
    data = found.synthesize(seed=3)
    assert isinstance(data, SyntheticData)
    assert (data.rows, data.outside_count) == (400, 100)
    sampled = found.sample(300, 3)
    assert sorted(zip(*sampled.values(), strict=True)) == sorted(
        zip(*data.to_columns().values(), strict=True)
    )
    assert found.synthesize(seed=3) == data
    assert found.synthesize(50, seed=3).outside_count == 17
    assert mixture().synthesize(50).outside_count is None
    frame = data.to_frame("pandas")
    assert list(frame.columns) == list(GRID.names)
    for wrong in (0, -1, 1.5, "a"):
        with pytest.raises(InvalidArgument, match="size"):
            found.synthesize(wrong)
    with pytest.raises(InvalidArgument, match="got 0"):
        found.synthesize(0)
    with pytest.raises(InvalidArgument, match="rows"):
        mixture().synthesize()
    with pytest.raises(InvalidArgument, match="rows"):
        mixture().counts("a")
    with pytest.raises(TooLarge):
        found.synthesize(2**40)


def test_cells_without_a_share_are_never_drawn():
    levels = np.array([0.0, 0.25, np.nextafter(0.5, 0), 0.5, 1 - 2**-53])
    shares = np.array([0.0, 0.5, 0.0, 0.5, 0.0])
    assert reached(shares, levels).tolist() == [1, 1, 1, 3, 3]
    thirds = np.array([1.0, 1.0, 1.0, 0.0]) / 3
    assert reached(thirds, np.array([1 - 2**-53])).tolist() == [2]


def test_mixtures_compare_by_what_they_hold():
    assert mixture() == mixture() != mixture(seed=5)
    assert mixture() != mixture(outside_mass=0.9)


def test_the_format_of_version_one_stays_readable(tmp_path):
    header = {
        "format": "dpsdk.hypothesis",
        "version": 1,
        "kind": "mixture",
        "domain": {
            "format": "dpsdk.domain",
            "version": 1,
            "attributes": [
                {"kind": "integer", "name": "x", "low": 0, "high": 2},
                {"kind": "integer", "name": "y", "low": 0, "high": 1},
            ],
        },
    }
    arrays = {
        "weights": np.array([0.25, 0.75]),
        "tables": np.array([1.0, 0, 0, 0.5, 0.5, 0.25, 0.25, 0.5, 0, 1]),
        "outside": np.array([0.2]),
        "rows": np.array([100.0]),
    }
    made(tmp_path / "old", header, arrays)
    loaded = Distribution.load(tmp_path / "old")
    assert loaded.counts("x", "y") == pytest.approx(
        np.array([[10, 25], [0, 15], [0, 30.0]]), abs=1e-12
    )


TABLES = {"a": [[1, 1], [1, 0]], "b": [[1, 2], [3, 4]]}
SMALL = Domain(Boolean("a"), Boolean("b"))


@pytest.mark.parametrize(
    ("parameter", "make"),
    [
        ("domain", lambda: Mixture("a", [1], {})),
        ("weights", lambda: Mixture(SMALL, [], TABLES)),
        ("weights", lambda: Mixture(SMALL, 1, TABLES)),
        ("weights", lambda: Mixture(SMALL, [1, -1], TABLES)),
        ("weights", lambda: Mixture(SMALL, [0, 0], TABLES)),
        ("weights", lambda: Mixture(SMALL, [1, math.nan], TABLES)),
        ("weights", lambda: Mixture(SMALL, ["x", 1], TABLES)),
        ("tables", lambda: Mixture(SMALL, [1, 1], {"a": TABLES["a"]})),
        ("tables", lambda: Mixture(SMALL, [1, 1], [1])),
        ("tables", lambda: Mixture(SMALL, [1, 1], TABLES | {"c": [[1], [1]]})),
        ("tables", lambda: Mixture(SMALL, [1, 1], TABLES | {"b": [[1, 2, 3]] * 2})),
        ("tables", lambda: Mixture(SMALL, [1, 1], TABLES | {"b": [[1, 2], [0, 0]]})),
        ("tables", lambda: Mixture(SMALL, [1, 1], TABLES | {"b": [[1, 2], [0, math.inf]]})),
        ("weights", lambda: Mixture(SMALL, ["1", "1"], TABLES)),
        ("weights", lambda: Mixture(SMALL, np.ma.array([1, 1], mask=[0, 1]), TABLES)),
        ("tables", lambda: Mixture(SMALL, [1, 1], TABLES | {"b": np.full((2, 2), 1 + 1j)})),
        ("names", lambda: mixture(rows=5).counts("a", "a")),
        ("names", lambda: mixture().records(("a", "b", "a"))),
        ("outside_mass", lambda: Mixture(SMALL, [1, 1], TABLES, outside_mass=1)),
        ("outside_mass", lambda: Mixture(SMALL, [1, 1], TABLES, outside_mass="x")),
        ("rows", lambda: Mixture(SMALL, [1, 1], TABLES, rows=0)),
        ("rows", lambda: Mixture(SMALL, [1, 1], TABLES, rows=math.inf)),
        ("form", lambda: mixture().answers(Count().lower(SMALL))),
        ("form", lambda: mixture().answer(Marginal("a").lower(GRID))),
    ],
)
def test_what_does_not_fit_is_refused_by_name(parameter, make):
    with pytest.raises(InvalidArgument) as caught:
        make()
    assert caught.value.parameter == parameter


def test_too_many_shares_are_refused_before_they_are_written_down():
    huge = Domain(Integer("x", 0, 2**40))
    with pytest.raises(TooLarge, match="mixture"):
        Mixture(huge, [1.0], {"x": np.ones((1, 1))})
