"""Products of several factors that are no integers: what rounding changes, and what bounds say."""

import itertools
import math

import numpy as np
import pytest

from dpsdk import Budget, Domain, Integer, Neighbors, PrivateData
from dpsdk.accounting import Odometer, default_composition
from dpsdk.errors import InvalidArgument
from dpsdk.forms import Dense, GapForm, Kronecker, LinearForm, Range, Weights, sensitivity
from dpsdk.forms.boxes import Boxes
from dpsdk.kernel import GaussianNoise, Kernel, LaplaceNoise, Measure, Terms, Watching
from dpsdk.mechanisms import NumericSparse, OnlinePMW
from dpsdk.testing import seeded
from worlds import facts, moves, weights

pytestmark = pytest.mark.thorough

LIMIT = "dpsdk.forms.linear._WRITTEN_LIMIT"
CUBE = Domain(*(Integer(name, 0, 2) for name in "abc"))
ROWS = 10**6


def fractional(rng, factors):
    """Factors of weights a little off every lattice, all on the same side."""
    names = CUBE.names[:factors]
    made = {name: Weights(rng.uniform(0.55, 0.95, (1, 3))) for name in names}
    return LinearForm(CUBE, [Kronecker.of(CUBE, made)])


@pytest.mark.parametrize("factors", [2, 3])
@pytest.mark.parametrize("noise", [LaplaceNoise("0.33"), GaussianNoise("0.05")], ids=str)
def test_rounding_costs_next_to_nothing_beside_the_noise(factors, noise):
    form = fractional(np.random.default_rng(factors), factors)
    pricing = Measure(form, noise).price(Terms(facts(CUBE, rows=ROWS)))
    scale = pricing.law.standard_deviation() * 2.0**-pricing.bits
    assert pricing.accuracy.bias <= scale / 100


@pytest.mark.parametrize("limit", [0, 2**22], ids=["shared bits", "joint lattice"])
@pytest.mark.parametrize("factors", [2, 3])
def test_no_weight_changes_by_more_than_is_said(factors, limit, monkeypatch):
    monkeypatch.setattr(LIMIT, limit)
    for seed, bits in itertools.product(range(5), (0, 3, 10, 31)):
        form = fractional(np.random.default_rng(seed), factors)
        lattice, change = form.rounded(bits)
        moved = np.abs(weights(lattice) * 2.0**-bits - weights(form)).max()
        assert moved <= change
        assert lattice.integral
        if limit:
            assert change <= 2.0 ** -(bits + 1) * (1 + 1e-9) + 1e-15


def test_what_does_not_fit_a_joint_lattice_gets_all_bits_that_fit(monkeypatch):
    monkeypatch.setattr(LIMIT, 0)
    form = fractional(np.random.default_rng(1), 2)
    of = facts(CUBE, rows=1000)
    pricing = Measure(form, LaplaceNoise("0.33")).price(Terms(of))
    scale = pricing.law.standard_deviation() * 2.0**-pricing.bits
    assert pricing.bits > 20
    assert pricing.accuracy.bias <= scale / 100


def small_table(counts):
    return PrivateData.from_counts(counts, CUBE)


def kernel_over(data, seed=1):
    odometer = Odometer(Budget(10**9, "0.1"), default_composition())
    return Kernel(data, odometer, seeded(seed), "rounding")


@pytest.mark.parametrize("limit", [0, 2**22], ids=["shared bits", "joint lattice"])
@pytest.mark.parametrize("factors", [2, 3])
def test_a_watch_keeps_its_bounds_over_products(factors, limit, monkeypatch):
    """All rows in one cell, whose weight rounds the same way for each of them."""
    monkeypatch.setattr(LIMIT, limit)
    plan = Watching(20, 20)
    rng, wrong = np.random.default_rng(factors), 0
    for _ in range(20):
        form = fractional(rng, factors)
        counts = np.zeros(27)
        counts[0] = ROWS
        data = small_table(counts)
        true = float(weights(form)[0, 0]) * ROWS
        bound = plan.below(1e-6, data.facts, 1, form)
        above = plan.above(1e-6, data.facts, 1, form)
        gap = GapForm(form, np.zeros(1), np.zeros(1), absolute=False)
        kernel = kernel_over(data)
        # A gap just beyond the bound must not be called "below", nor one before it "above".
        wrong += kernel.watch(plan).first_above(gap, true - bound - 0.01) is None
        wrong += kernel.watch(plan).first_above(gap, true + above + 0.01) is not None
        if limit:
            assert bound == pytest.approx(plan.below(1e-6, data.facts), rel=1e-6)
    assert wrong == 0


def test_accuracies_of_sparse_vectors_carry_what_rounding_leaves(monkeypatch):
    monkeypatch.setattr(LIMIT, 0)
    of = facts(CUBE, rows=ROWS)
    product, plain = fractional(np.random.default_rng(1), 3), LinearForm(CUBE, [Kronecker((), ())])
    errors = {}
    for name, form in (("product", product), ("plain", plain)):
        gap = GapForm(form, np.zeros(1), np.zeros(1), absolute=False)
        errors[name] = [
            NumericSparse(10, tops=2).quote(gap, Terms(of)).error(0.01),
            OnlinePMW(10, updates=2).quote(form, Terms(of)).error(0.01),
        ]
    drift = Watching(1, 1).rounding(of, product) - Watching(1, 1).rounding(of)
    assert drift > 10
    assert all(a > b + 10 for a, b in zip(*errors.values(), strict=True))


def test_a_promise_refuses_what_rounds_by_more_than_it_counts_on(monkeypatch):
    counts = np.full(27, 4 * 10**4)
    mechanism = OnlinePMW(5, "1e-6", alpha=0.2, beta=0.1, queries=100)
    form = fractional(np.random.default_rng(1), 3)
    kernel = kernel_over(small_table(counts))
    assert len(mechanism.open(kernel).answer(form, kernel).values) == 1
    monkeypatch.setattr(LIMIT, 0)
    fresh = LinearForm(CUBE, form.blocks)
    with pytest.raises(InvalidArgument, match="form"):
        mechanism.open(kernel).answer(fresh, kernel)


@pytest.mark.parametrize("neighbors", Neighbors)
@pytest.mark.parametrize("outside", [True, False])
def test_the_sensitivity_of_a_joint_lattice_is_exact(neighbors, outside):
    rng = np.random.default_rng(7)
    of = facts(CUBE, neighbors, rows=50, outside=outside)
    for _ in range(20):
        blocks = [
            Kronecker.of(CUBE, {n: Weights(rng.normal(size=(2, 3))) for n in CUBE.names[:k]})
            for k in rng.integers(1, 4, 2)
        ]
        lattice = LinearForm(CUBE, blocks).rounded(12)[0]
        found = sensitivity(lattice, of)
        exact = moves(weights(lattice), of)
        assert (found.l1, found.l2_squared, found.maximum) == pytest.approx(exact, rel=1e-9)
        assert found.l1 >= exact[0]
        assert found.l2_squared >= exact[1]


def test_norms_of_many_heavy_boxes_are_not_rounded_off_by_each_other():
    """A heavy box beside a light one: what is added at a corner is taken away at another."""
    domain = Domain(Integer("a", 0, 5))
    heavy, light = 2.0**30 + 1, 1.0
    parts = [(0, 3, heavy)] * 3 + [(3, 5, light), (2, 4, 7.0), (1, 1, heavy)]
    blocks = [Kronecker(("a",), (Range(6, low, high),), scale) for low, high, scale in parts]
    boxes = Boxes.stack(blocks)
    form = LinearForm(domain, blocks)
    columns = weights(form)
    for power in (1, 2):
        exact = [sum(abs(int(w)) ** power for w in column) for column in columns.T]
        found = boxes.column_norms(power)
        for have, want in zip(found.tolist(), exact, strict=True):
            assert abs(int(have) - want) <= want * 2**-50
    assert math.isfinite(boxes.reach)


def test_no_more_is_multiplied_out_than_the_limit_says(monkeypatch):
    monkeypatch.setattr(LIMIT, 9 * 3)
    block = Kronecker.of(CUBE, {"a": Weights([[0.3, 0.7, 0.1]]), "b": Weights([[0.2, 0.9, 0.5]])})
    lattice, change = LinearForm(CUBE, [block] * 5).rounded(10)
    assert [type(part) for part in lattice.blocks] == [Dense] * 3 + [Kronecker] * 2
    moved = np.abs(weights(lattice) * 2.0**-10 - weights(LinearForm(CUBE, [block] * 5))).max()
    assert moved <= change
