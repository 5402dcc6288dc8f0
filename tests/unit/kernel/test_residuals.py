"""Residuals bought together: exact integers, one joint price, noise of a scale of its own each."""

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest

from dpsdk import Budget, Domain, Integer, Neighbors, PrivateData
from dpsdk.accounting import DiscreteGaussianGuarantee, Odometer, ZCDPComposition
from dpsdk.errors import InvalidArgument, TooLarge, UnknownAttribute
from dpsdk.forms import Kronecker, LinearForm, Residual
from dpsdk.forms.residuals import centred, closure, moves, subsets
from dpsdk.kernel import GaussianNoise, Kernel, LaplaceNoise, Measure, MeasureResiduals, Terms
from dpsdk.kernel import residuals as module
from dpsdk.testing.noise import seeded
from worlds import facts

CUBE = Domain(Integer("a", 0, 4), Integer("b", 0, 1), Integer("one", 0, 0), Integer("d", 0, 2))
SIZES = dict(zip(CUBE.names, CUBE.shape, strict=True))
SETS = closure([("a", "b"), ("b", "d"), ("a", "one")])
RELATIONS = list(itertools.product(Neighbors, (True, False)))


def table(neighbors=Neighbors.ADD_REMOVE, outside="cell", unit_rows=1, max_rows=80):
    rng = np.random.default_rng(3)
    rows = {name: rng.integers(0, size, 60).tolist() for name, size in SIZES.items()}
    return PrivateData.from_columns(
        rows, CUBE, neighbors=neighbors, outside=outside, unit_rows=unit_rows, max_rows=max_rows
    )


def kernel(data=None, seed=5):
    odometer = Odometer(Budget(10**20, "0.1"), ZCDPComposition("0.1"))
    return Kernel(data or table(), odometer, seeded(seed), "asked")


def true_residual(data, names):
    """(I - J/n) along every axis of the marginal, from counts that were measured with no noise."""
    found = Kernel(data, Odometer(Budget(10**20, "0.1"), ZCDPComposition("0.1")), seeded(1), "x")
    shape = [SIZES[name] for name in names]
    form = LinearForm(CUBE, [Kronecker(names, tuple(Residual(size) for size in shape))])
    values = found.measure(form, GaussianNoise(10**9)).values
    return np.rint(values).reshape(shape) / math.prod(shape)


def split(values, sets):
    cells = [math.prod(SIZES[name] for name in names) for names in sets]
    parts = np.split(values, np.cumsum(cells)[:-1])
    return [
        part.reshape([SIZES[n] for n in names]) for part, names in zip(parts, sets, strict=True)
    ]


@pytest.mark.parametrize(("neighbors", "outside"), RELATIONS)
@pytest.mark.parametrize("tabled", [module._TABLED, 0])
def test_answers_are_the_residuals_of_the_table(neighbors, outside, tabled, monkeypatch):
    monkeypatch.setattr(module, "_TABLED", tabled)
    data = table(neighbors, "cell" if outside else "raise")
    request = MeasureResiduals(SETS, range(1, len(SETS) + 1), GaussianNoise(10**13))
    found = kernel(data).run(request)
    for names, part in zip(SETS, split(found.values, SETS), strict=True):
        if not names:
            assert float(part) == pytest.approx(60, abs=0.01)
        else:
            assert part == pytest.approx(true_residual(data, names), abs=0.01), names


@pytest.mark.parametrize(("neighbors", "outside"), RELATIONS)
@pytest.mark.parametrize("unit_rows", [1, 3])
def test_one_charge_for_the_joint_law(neighbors, outside, unit_rows):
    data = facts(CUBE, neighbors, rows=80, outside=outside, unit_rows=unit_rows)
    scales = [3 + place for place in range(len(SETS))]
    pricing = MeasureResiduals(SETS, scales, GaussianNoise("0.3")).price(Terms(data))
    guarantee = pricing.guarantee
    assert isinstance(guarantee, DiscreteGaussianGuarantee)
    assert guarantee.rho == Fraction(3, 10)
    # The worst pair of rows, by brute force.
    cells = np.indices(CUBE.shape).reshape(len(SIZES), -1)
    columns = []
    for names, scale in zip(SETS, pricing.scales, strict=True):
        if not names and neighbors is Neighbors.REPLACE_ONE and not outside:
            continue
        block = Kronecker(names, tuple(Residual(SIZES[n]) for n in names), float(scale))
        codes = [cells[CUBE.position(name)] for name in names]
        width = cells.shape[1]
        columns.append(np.broadcast_to(block.columns(codes), (block.rows, width)))
    whole = np.concatenate(columns).T
    ends = np.vstack([whole, np.zeros_like(whole[:1])])
    if neighbors is Neighbors.ADD_REMOVE:
        worst = (whole**2).sum(axis=1).max()
        assert (whole**2).sum(axis=1).min() == worst  # every row attains it
        most = np.abs(whole).max()
    else:
        rows = ends if outside else whole
        differences = rows[:, None] - rows[None]
        worst, most = (differences**2).sum(axis=2).max(), np.abs(differences).max()
    assert guarantee.shift_squared == worst * unit_rows**2
    assert guarantee.shift_max == most * unit_rows
    assert guarantee.variance == guarantee.shift_squared / Fraction(6, 10)
    assert guarantee.variance >= 64


@pytest.mark.parametrize("sizes", [(2,), (85,), (2, 2), (85, 100), (85, 100, 99), (7, 16, 2, 42)])
def test_a_residual_costs_what_the_projection_weighs_and_not_a_whole_marginal(sizes):
    domain = Domain(*(Integer(f"x{i}", 0, size - 1) for i, size in enumerate(sizes)))
    share = math.prod(1 - Fraction(1, size) for size in sizes)
    least = min(sizes)
    exchanged = 2 * share / (1 - Fraction(1, least))
    blocks = [Kronecker(domain.names, tuple(Residual(size) for size in sizes))]
    form, cells = LinearForm(domain, blocks), math.prod(sizes)
    for neighbors, price in ((Neighbors.ADD_REMOVE, share), (Neighbors.REPLACE_ONE, exchanged)):
        terms = Terms(facts(domain, neighbors, rows=48842))
        rho = Fraction(1, 100)
        one = Measure(form, GaussianNoise(rho)).price(terms)
        other = MeasureResiduals([domain.names], [1], GaussianNoise(rho)).price(terms)
        assert one.guarantee.rho == other.guarantee.rho == rho
        for variance in (
            one.law.variance / (cells * 2**one.bits) ** 2,
            other.law.variance / (cells * other.scales[0]) ** 2,
        ):
            assert price / (2 * variance) == rho


def length(sets, scales, sizes, other):
    """How far a row moves all residuals that becomes another in some attributes, squared."""
    total = 0
    for names, scale in zip(sets, scales, strict=True):
        own = [sizes[name] * (sizes[name] - 1) for name in names]
        met = [-sizes[n] if n in other else one for n, one in zip(names, own, strict=True)]
        total += 2 * scale**2 * (math.prod(own) - math.prod(met))
    return total


def test_twenty_attributes_are_enumerated_and_more_are_bounded():
    for count in (5, 20, 24):
        sizes = {f"x{i}": 2 + i % 3 for i in range(count)}
        sets = [s for s in closure(itertools.combinations(sizes, 2)) if s]
        scales = [7] * len(sets)
        found = moves(sets, scales, sizes, replace=True, outside=True)
        alone = sum(moves([s], [7], sizes, replace=True, outside=True).squared for s in sets)
        whole = moves(sets, scales, sizes, replace=False, outside=True).squared
        assert found.exact == (count <= 20)
        assert found.squared == alone if count > 20 else whole <= found.squared < alone
        # Two random patterns never exceed it.
        rng = np.random.default_rng(count)
        for _ in range(20):
            other = set(rng.choice(list(sizes), rng.integers(1, count + 1), replace=False))
            assert length(sets, scales, sizes, other) <= found.squared


def test_large_joint_lengths_are_rounded_up():
    sizes = {"a": 1009, "b": 997, "c": 991, "d": 2}
    sets = [s for s in subsets(tuple(sizes)) if s]
    scales = [2**20 + 7 * place for place in range(len(sets))]
    found = moves(sets, scales, sizes, replace=True, outside=False).squared
    patterns = (set(names) for names in subsets(tuple(sizes)) if names)
    best = max(length(sets, scales, sizes, other) for other in patterns)
    assert best <= found <= best * (1 + Fraction(1, 10**12))


@pytest.mark.thorough
def test_noise_has_the_scale_of_each_set():
    sets, scales = [(), ("a",), ("a", "d")], [40, 7, 2]
    request = MeasureResiduals(sets, scales, GaussianNoise("0.05"))
    data = table()
    pricing = request.price(Terms(data.facts))
    exact = [np.array(60.0), true_residual(data, ("a",)), true_residual(data, ("a", "d"))]
    drawn = [split(kernel(data, seed).run(request).values, sets) for seed in range(250)]
    for place, names in enumerate(sets):
        noise = np.array([one[place] - exact[place] for one in drawn])
        deviation = pricing.accuracy.deviations[place]
        own = math.sqrt(pricing.law.variance) / (
            pricing.scales[place] * math.prod(SIZES[n] for n in names)
        )
        assert deviation == pytest.approx(own, rel=1e-12)
        # Five deviations of a sample variance: one seed in a million.
        assert noise.std() == pytest.approx(deviation, rel=5 / math.sqrt(2 * noise.size))
        assert abs(noise.mean()) < 5 * deviation / math.sqrt(noise.size)
    radii = pricing.accuracy.radii(0.05, joint=True)
    assert len(radii) == 1 + 5 + 15
    assert pricing.accuracy.radii(0.05, joint=False).max() < radii.max()


def test_what_no_row_changes_is_free_and_has_no_noise():
    data = table(Neighbors.REPLACE_ONE, "raise")
    asked = kernel(data)
    found = asked.run(MeasureResiduals([(), ("one",)], [1, 1], GaussianNoise(1)))
    assert found.values.tolist() == [60.0, 0.0]
    assert found.accuracy.radii(0.05, joint=True).tolist() == [0.0, 0.0]
    pricing = MeasureResiduals([()], [1], GaussianNoise(1)).price(Terms(data.facts))
    assert pricing.guarantee.free
    for other in (table(Neighbors.REPLACE_ONE, "cell"), table(Neighbors.ADD_REMOVE, "raise")):
        pricing = MeasureResiduals([()], [1], GaussianNoise(1)).price(Terms(other.facts))
        assert pricing.guarantee.rho == 1


@pytest.mark.parametrize(
    ("sets", "scales", "noise"),
    [
        *(
            (sets, [1] * (sets != []), GaussianNoise(1))
            for sets in ([], "a", ["a"], [("a", "a")], [("a", 3)], 3)
        ),
        *(
            ([("a",)], scales, GaussianNoise(1))
            for scales in ([1, 2], [0], [1.5], ["x"], [10**1000], [2**60], 3)
        ),
        ([("a",)], [1], LaplaceNoise(1)),
        ([("a",)], [1], None),
        ([("a",)], [1], GaussianNoise(Fraction(1, 10**60))),
    ],
)
def test_malformed_requests_are_refused_and_cost_nothing(sets, scales, noise):
    asked = kernel()
    with pytest.raises(InvalidArgument):
        asked.run(MeasureResiduals(sets, scales, noise))
    with pytest.raises(UnknownAttribute):
        asked.run(MeasureResiduals([("nobody",)], [1], GaussianNoise(1)))
    assert asked.allowance([]).left == 0


def test_limits_follow_from_public_sizes():
    wide = Domain(Integer("a", 0, 2**13 - 1), Integer("b", 0, 2**14 - 1), Integer("c", 0, 2**12))
    terms = Terms(facts(wide, Neighbors.ADD_REMOVE, rows=1000))
    with pytest.raises(TooLarge):
        MeasureResiduals([("a", "b")], [1], GaussianNoise(1)).price(terms)
    terms = Terms(facts(wide, Neighbors.ADD_REMOVE, rows=2**31))
    with pytest.raises(InvalidArgument, match="rows times cells"):
        MeasureResiduals([("a", "c")], [1], GaussianNoise(1)).price(terms)


def test_the_noise_left_after_centring():
    values = np.random.default_rng(1).normal(size=(3, 4, 5))
    flat = centred(values, 2)
    assert flat.sum(axis=1) == pytest.approx(0, abs=1e-12)
    assert flat.sum(axis=2) == pytest.approx(0, abs=1e-12)
    assert centred(flat, 2) == pytest.approx(flat)
