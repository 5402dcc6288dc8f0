"""The primitive `select`: what it may be asked, what it costs, and what comes out."""

import math
from collections import Counter
from fractions import Fraction

import numpy as np
import pytest

from dpsdk import Boolean, Budget, Domain, Integer, Neighbors, PrivateData
from dpsdk.accounting import (
    BasicComposition,
    BoundedRangeGuarantee,
    Odometer,
    PureGuarantee,
    ZCDPComposition,
)
from dpsdk.data.histogram import Histogram
from dpsdk.errors import BudgetExceeded, InvalidArgument
from dpsdk.forms import GapForm, Identity, Kronecker, LinearForm, Prefix, Weights
from dpsdk.kernel import (
    Kernel,
    LaplaceNoise,
    Look,
    Measure,
    Reference,
    Select,
    SelectPricing,
    Terms,
)
from dpsdk.kernel import select as module
from dpsdk.testing import seeded
from worlds import facts

PAIR = Domain(Integer("x", 0, 3), Boolean("b"))
BOTH = LinearForm(
    PAIR, [Kronecker.of(PAIR, {"x": Identity(4)}), Kronecker.of(PAIR, {"b": Identity(2)})]
)
UNIFORM = np.array([0.25] * 4 + [0.5] * 2)
GAPS = GapForm.around(BOTH, UNIFORM)
GROUPS = [slice(0, 4), slice(4, 6)]


def table(neighbors=Neighbors.REPLACE_ONE, **given):
    columns = {"x": [0] * 30 + [1] * 10, "b": [True] * 25 + [False] * 15}
    return PrivateData.from_columns(columns, PAIR, neighbors=neighbors, **given)


def kernel(data=None, budget=10**15, composition=None, delta=0):
    odometer = Odometer(Budget(budget, delta), composition or BasicComposition())
    return Kernel(data or table(), odometer, seeded(3), "test"), odometer


def signed(gaps=GAPS):
    return GapForm(gaps.form, gaps.rates, gaps.offsets, absolute=False)


def terms(neighbors=Neighbors.REPLACE_ONE, **given):
    return Terms(facts(PAIR, neighbors, **given))


def test_the_largest_gap_is_chosen_where_it_can_be_afforded():
    # Gaps: 20, 0, 10, 10; 5, 5.
    asked, _ = kernel()
    assert asked.select(GAPS, 100) == 0
    assert asked.select(signed(), 100) == 0
    assert asked.select(GAPS, 100, groups=GROUPS) == 0
    assert asked.select(GAPS, 100, groups=GROUPS[1:]) == 0
    assert asked.select(GAPS, 100, groups=[slice(1, 2), slice(2, 4), slice(1, 4)]) in {1, 2}


def test_penalties_are_taken_off_scores():
    asked, _ = kernel()
    assert asked.select(GAPS, 100, penalties=[15, 0, 0, -1, 0, 0]) == 3
    assert asked.select(GAPS, 100, groups=GROUPS, penalties=[35, 0]) == 1


def test_opposites_tell_which_way_a_gap_lies():
    asked, _ = kernel()
    found = asked.select(signed(), 100, opposites=True, penalties=[30] + [0] * 11)
    assert found in {6 + 2, 6 + 3}


@pytest.mark.thorough
def test_the_law_is_that_of_the_exponential_mechanism():
    asked, _ = kernel()
    count = 4000
    found = Counter(asked.select(GAPS, Fraction(1, 5)) for _ in range(count))
    weights = np.exp(np.array([20, 0, 10, 10, 5, 5]) / 10)
    expected = count * weights / weights.sum()
    chi = sum((found[i] - e) ** 2 / e for i, e in enumerate(expected))
    assert chi < 20.5  # 5 degrees of freedom, one in a thousand


@pytest.mark.parametrize(
    ("neighbors", "rates", "rows"),
    [
        (Neighbors.REPLACE_ONE, UNIFORM, 2),
        (Neighbors.REPLACE_ONE, UNIFORM * 0, 2),
        (Neighbors.ADD_REMOVE, UNIFORM, 2),
        (Neighbors.ADD_REMOVE, UNIFORM * 0, 1),
        (Neighbors.ADD_REMOVE, UNIFORM / 2, 1.5),
    ],
)
@pytest.mark.parametrize("unit_rows", [1, 3])
def test_a_marginal_moves_by_two_rows_unless_it_is_proven_to_move_less(
    neighbors, rates, rows, unit_rows
):
    asked = Select(GapForm.around(BOTH, rates), 1, groups=GROUPS)
    scale = asked.price(terms(neighbors, unit_rows=unit_rows)).accuracy.scale
    assert scale == 2 * rows * unit_rows


def test_the_sensitivity_of_a_group_is_that_of_the_worst_records_by_brute_force():
    rng = np.random.default_rng(4)
    for _ in range(40):
        blocks = [
            Kronecker.of(PAIR, {"x": Weights(rng.integers(0, 2, (2, 4)))}),
            Kronecker.of(PAIR, {"x": Prefix(4)}),
            Kronecker.of(PAIR, {"x": Weights(rng.random((1, 4))), "b": Identity(2)}),
        ]
        form = LinearForm(PAIR, blocks)
        start = int(rng.integers(form.rows - 1))
        span = slice(start, int(rng.integers(start + 1, form.rows + 1)))
        gaps = GapForm.around(form, rng.random(form.rows))
        for neighbors in Neighbors:
            known = facts(PAIR, neighbors)
            own = Select(gaps, 1, groups=[span]).price(Terms(known))
            columns = [_scores(own._gaps, [cell]) for cell in range(PAIR.size)]
            nobody = _scores(own._gaps, [])
            # A row outside the domain counts as one that has the value nought everywhere.
            ends = [*columns, nobody - own._gaps.rates]
            if neighbors is Neighbors.ADD_REMOVE:
                moves = [np.abs(column - nobody)[span].sum() for column in ends]
            else:
                moves = [np.abs(a - b)[span].sum() for a in ends for b in ends]
            assert own._rate <= Fraction(1, 2 * max(1, int(max(moves))))


def _scores(gaps, cells):
    codes = np.unravel_index(np.array(cells, dtype=np.int64), PAIR.shape)
    named = dict(zip(PAIR.names, codes, strict=True))
    signed = module.LinearGaps(
        gaps.source, gaps.rates, gaps.offsets, False, False, gaps.steps, 0.0, gaps.own
    )
    return signed.scores(signed.read(Histogram(PAIR, named, np.ones(len(cells)), 0)))


def test_it_costs_its_epsilon_with_bounded_range():
    asked, odometer = kernel(composition=ZCDPComposition(), budget=10, delta="1e-6")
    asked.select(GAPS, "0.4", groups=GROUPS)
    assert odometer.spent.rho == pytest.approx(0.4**2 / 8, rel=0.01)
    assert odometer.spent.rho <= Fraction(4, 10) ** 2 / 8
    pricing = Select(GAPS, "0.4").price(asked.terms)
    assert isinstance(pricing, SelectPricing)
    assert pricing.guarantee == BoundedRangeGuarantee("0.4")


def test_how_far_from_the_best_the_choice_may_be_is_proven():
    accuracy = Select(GAPS, "0.5", groups=GROUPS).price(terms()).accuracy
    assert accuracy.standing == "proven"
    assert accuracy.error(0.05) == pytest.approx(8 * math.log(2 / 0.05), abs=0.1)
    asked, _ = kernel()
    scores = np.array([20, 0, 10, 10, 5, 5])
    bound = Select(GAPS, "0.5").price(asked.terms).accuracy.error(0.1)
    short = [20 - scores[asked.select(GAPS, "0.5")] > bound for _ in range(400)]
    assert np.mean(short) <= 0.1


def test_a_refusal_changes_nothing():
    asked, odometer = kernel(budget=1)
    with pytest.raises(BudgetExceeded):
        asked.select(GAPS, 2)
    assert odometer.spent.charges == 0
    allowance = asked.allowance([PureGuarantee(1)])
    asked.select(GAPS, 1, allowance=allowance)
    assert allowance.left == 0
    assert odometer.spent.charges == 1


class Sly(GapForm):
    """Would be asked for its numbers by its own methods."""


MISFITS = {
    "gaps": [BOTH, Sly.around(BOTH, UNIFORM)],
    "epsilon": [0, math.nan, -1],
    "groups": [
        [], 5, [3], [slice(0, 7)], [slice(2, 2)], [slice(-1, 2)], [slice(0, 6, 2)],
        [slice(0, None)],
    ],
    "penalties": [5, [0], [0.5] * 6, [2**80] * 6],
    "opposites": [True],
}  # fmt: skip


@pytest.mark.parametrize(
    ("parameter", "given"),
    [(name, {name: one}) for name, values in MISFITS.items() for one in values]
    + [("gaps", {"gaps": signed(), "groups": GROUPS})]
    + [("offsets", {"gaps": GapForm(BOTH, UNIFORM, np.full(6, 2.0**60))})],
)
def test_what_does_not_fit_is_refused_before_anything_is_paid(parameter, given):
    asked, odometer = kernel()
    given = {"gaps": GAPS, "epsilon": 1, **given}
    with pytest.raises(InvalidArgument) as caught:
        asked.select(given.pop("gaps"), given.pop("epsilon"), **given)
    assert caught.value.parameter == parameter
    assert odometer.spent.charges == 0


def test_groups_of_very_many_rows_of_very_large_tables_are_summed_exactly():
    wide = Domain(Integer("x", 0, 2**16 - 1))
    form = LinearForm(wide, [Kronecker.of(wide, {"x": Identity(2**16)})])
    for rows in (10, 10**9, 2**44):
        known = facts(wide, rows=rows)
        request = Select(GapForm.around(form, np.zeros(2**16)), 1, groups=[slice(0, 2**16)])
        own = request.price(Terms(known))
        assert 2**16 * rows * int(own._gaps.steps) <= 2**60
        assert own.accuracy.scale == 4
    with pytest.raises(InvalidArgument, match="gaps"):
        request.price(Terms(facts(wide, rows=2**52)))


def test_many_requests_are_paid_together():
    asked, odometer = kernel(budget=3)
    look = Look([Reference(["x"], [0.0] * 4)], LaplaceNoise(1))
    which, looked, measured = asked.run_all((Select(GAPS, 1), look, Measure(BOTH, LaplaceNoise(1))))
    assert which in range(6)
    assert (len(looked.values), len(measured.values)) == (1, 6)
    assert odometer.spent.epsilon == odometer.spent.charges == 3
