"""Proximal gaps in the kernel: integers that one record moves by what the noise allows for."""

from fractions import Fraction

import attrs
import numpy as np
import pytest
from test_gaps import Diary

import dpsdk.kernel.gaps as module
from dpsdk import Budget, Domain, Integer, Neighbors, PrivateData
from dpsdk.accounting import BasicComposition, Odometer
from dpsdk.data.vault import open_histogram
from dpsdk.errors import InvalidArgument
from dpsdk.forms import Ball, Box, Dense, GapForm, LinearForm, ProximalGapForm, Simplex
from dpsdk.forms.steps import Steps
from dpsdk.kernel import Kernel, Watching
from dpsdk.kernel.gaps import prepare_gaps, prepare_proximal
from dpsdk.testing import seeded
from dpsdk.testing.audit import neighbours

pytestmark = pytest.mark.thorough

LINE = Domain(Integer("x", 0, 2))
OPPOSED = np.array([[0.6, -0.6, 0.3], [0.8, -0.8, 0.1]])
"""Two records that cancel, so that exchanging a record moves the gap as far as it can."""
SETS = [Ball(2.0), Box(-1.0, 1.0), Simplex()]
SHOWN = ["Ball", "Box", "Simplex"]


def gap_of(over, theta=(0.2, -0.1), strength=0.0, columns=OPPOSED, shift=None):
    form = LinearForm(LINE, [Dense(("x",), (3,), columns)])
    return ProximalGapForm(form, over.project(np.array(theta)), over, strength, shift)


def score(gap, data, bits):
    own = prepare_gaps(gap, data.facts, bits)
    return int(own.scores(own.read(open_histogram(data)))[0])


def kernel(counts, noise=None, neighbors=Neighbors.REPLACE_ONE):
    data = PrivateData.from_counts(counts, LINE, neighbors=neighbors, max_rows=200)
    odometer = Odometer(Budget(10**6), BasicComposition())
    return Kernel(data, odometer, noise or seeded(2), "test"), odometer


def farthest(gap, relation, rows, bits=10, unit_rows=1):
    """The largest move of a score between any two neighbours, in rows of the watch."""
    moves = [
        abs(score(gap, one, bits) - score(gap, other, bits))
        for one, other in neighbours(LINE, rows, relation, unit_rows=unit_rows)
    ]
    return max(moves) / 2**bits


@pytest.mark.parametrize("unit_rows", [1, 2])
@pytest.mark.parametrize("relation", Neighbors)
@pytest.mark.parametrize("over", SETS, ids=SHOWN)
def test_no_record_moves_a_score_by_more_than_a_row(over, relation, unit_rows):
    for strength in (0.0, 0.3, 6.0):
        for theta in [(0.2, -0.1), (5.0, 5.0)]:
            gap = gap_of(over, theta, strength)
            assert farthest(gap, relation, 2, unit_rows=unit_rows) <= unit_rows


@pytest.mark.parametrize("relation", Neighbors)
@pytest.mark.parametrize("over", SETS, ids=SHOWN)
def test_a_shift_is_of_every_row_and_no_record_moves_a_score_by_more(over, relation):
    for strength in (0.0, 0.3):
        for shift in ([0.7, -3.0], [-0.6, -0.8], [100.0, 1.0]):
            gap = gap_of(over, (0.4, 0.3), strength, shift=shift)
            assert farthest(gap, relation, 2) <= 1
            plain = gap_of(over, (0.4, 0.3), strength)
            of = kernel([1, 1, 0], neighbors=relation)[0].facts
            moves = [prepare_proximal(one, of, 10).moved for one in (gap, plain)]
            # Rows that are exchanged have it in common; one that is added has it alone.
            assert (moves[0] == moves[1]) == (relation is Neighbors.REPLACE_ONE)


def test_a_shift_that_is_forgotten_in_the_sensitivity_is_caught(monkeypatch):
    moved = Steps.moved
    monkeypatch.setattr(Steps, "moved", lambda *a, **k: moved(*a, **(k | {"shift": None})))
    gap = gap_of(Ball(2.0), (0.0, 0.0), shift=[3.0, 4.0])
    assert farthest(gap, Neighbors.ADD_REMOVE, 2) > 1.5


def test_a_shift_is_summed_over_the_rows_outside_too():
    data = PrivateData.from_columns({"x": [0, 1, 1, 9, 9]}, LINE)
    gap = gap_of(Ball(2.0), strength=0.2, shift=[0.3, -0.25])
    own = prepare_proximal(gap, data.facts, 20)
    found = int(own.scores(own.read(open_histogram(data)))[0]) / own.steps
    sums = OPPOSED @ [1, 2, 0] + 5 * np.array([0.3, -0.25])
    assert found == pytest.approx(gap.over.gap(gap.theta, sums, ridge=1.0), abs=1e-4)
    with pytest.raises(InvalidArgument, match="shift"):
        prepare_proximal(gap_of(Ball(2.0), columns=OPPOSED * 1e-200, shift=[1e300, 0.0]),
                     data.facts, 20)  # fmt: skip


@pytest.mark.parametrize("relation", Neighbors)
@pytest.mark.parametrize("over", SETS[:2], ids=SHOWN[:2])
def test_some_record_moves_it_as_far(over, relation):
    # From the centre, all that is gained is lost again by the opposite record.
    assert farthest(gap_of(over, (0.0, 0.0)), relation, 2) == pytest.approx(1.0, abs=0.01)


@pytest.mark.parametrize(
    ("name", "wrong"),
    [
        ("half", lambda moved: lambda *a, **k: moved(*a, **k) / 2),
        ("as if added", lambda moved: lambda *a, **k: moved(*a, **(k | {"replaced": False}))),
        ("no row outside", lambda moved: lambda *a, **k: moved(*a, **(k | {"outside": False}))),
    ],
)
def test_a_sensitivity_that_forgets_something_is_caught(name, wrong, monkeypatch):
    alike = np.repeat(OPPOSED[:, :1], 3, axis=1)
    gap = gap_of(Ball(2.0), (0.0, 0.0), columns=alike if name == "no row outside" else OPPOSED)
    assert farthest(gap, Neighbors.REPLACE_ONE, 2) <= 1
    gap = attrs.evolve(gap, gradient=LinearForm(LINE, gap.gradient.blocks))
    monkeypatch.setattr(Steps, "moved", wrong(Steps.moved))
    assert farthest(gap, Neighbors.REPLACE_ONE, 2) > 1.5


@pytest.mark.parametrize("neighbors", Neighbors)
@pytest.mark.parametrize("strength", [0.0, 0.2])
@pytest.mark.parametrize("over", SETS, ids=SHOWN)
def test_a_watch_compares_what_all_rows_add_up_to(over, strength, neighbors):
    counts, watching = np.array([40, 15, 25]), Watching(10**4, 10**4)
    gap = gap_of(over, strength=strength)
    sums = OPPOSED @ counts
    size = over.gap(gap.theta, sums, ridge=strength * 80)
    asked, odometer = kernel(counts, neighbors=neighbors)
    watch = asked.watch(watching)
    for _ in range(3):
        assert watch.first_above(gap, size + 0.1) is None
    assert odometer.spent.charges == 1
    top = watch.first_above(gap, size - 0.1)
    assert (top.place, top.excess) == (0, None)
    assert watch.first_above(gap, size + 0.1) is None
    assert odometer.spent.charges == 2


@pytest.mark.parametrize("neighbors", Neighbors)
def test_its_noise_is_that_of_any_gap(neighbors):
    watching, diary = Watching("0.5", 2), Diary()
    asked, odometer = kernel([5, 11, 2], diary, neighbors)
    assert asked.watch(watching).first_above(gap_of(Ball(2.0)), 7.0) is None
    assert odometer.spent.epsilon == watching.guarantee.epsilon
    row = 2 ** watching.lattice_bits(asked.facts)
    threshold = watching.threshold_noise(asked.facts, row)
    assert diary.laws == [threshold, watching.query_noise(asked.facts, row)]


def test_rounding_moves_a_gap_by_no_more_than_is_told():
    rng = np.random.default_rng(3)
    for trial in range(30):
        columns = rng.normal(size=(2, 3)) * 10.0 ** int(rng.integers(-6, 4))
        over, counts = SETS[trial % 3], rng.integers(0, 60, size=3)
        shift = rng.normal(size=2) * np.abs(columns).max()
        gap = gap_of(over, rng.normal(size=2), [0.0, 0.1][trial % 2], columns, shift)
        asked, _ = kernel(counts)
        watching = Watching("0.3", "0.4")
        own = prepare_proximal(gap, asked.facts, watching.lattice_bits(asked.facts))
        data = PrivateData.from_counts(counts, LINE, max_rows=200)
        lattice = own.scores(own.read(open_histogram(data)))[0] / own.steps
        sums = columns @ counts + counts.sum() * shift
        true = over.gap(gap.theta, sums, ridge=gap.strength * counts.sum())
        unit, lost = watching.unit(asked.facts, gap), watching.rounding(asked.facts, gap)
        assert unit == own.moved == pytest.approx(gap.moved(asked.facts), rel=1e-3)
        assert abs(lattice - true) <= lost * unit * (1 + 1e-6)
        assert lost < 0.05


def test_what_a_shift_is_rounded_by_is_told_of_integral_gradients_too():
    asked, _ = kernel([40, 30, 30])
    columns, watching = np.array([[2.0**40, 0.0, 0.0], [0.0, 2.0**40, 0.0]]), Watching(1, 1)
    gaps = [gap_of(Ball(2.0), columns=columns, shift=shift) for shift in (None, [0.3, 0.1])]
    owns = [prepare_proximal(gap, asked.facts, 10) for gap in gaps]
    assert owns[0].change == 0.0 < owns[1].change
    assert watching.rounding(asked.facts, gaps[0]) < watching.rounding(asked.facts, gaps[1])


def test_figures_take_in_the_rounding_of_a_proximal_gap():
    asked, _ = kernel([40, 30, 30])
    watching, gap, facts = Watching(1, 1), gap_of(Ball(2.0)), asked.facts
    plain = Watching(1, 1).below(0.1, facts) - watching.rounding(facts)
    lost = watching.rounding(facts, gap)
    assert watching.below(0.1, facts, form=gap) == pytest.approx(plain + lost)
    assert watching.below_in(1, 0.1, facts, 1, gap) == pytest.approx(plain + lost)
    assert watching.above(0.1, facts, 3, gap) > lost
    ones = LinearForm(LINE, [Dense(("x",), (3,), np.ones((1, 3)))])
    assert watching.unit(facts, GapForm.around(ones, np.zeros(1))) == 1.0


def test_a_gap_that_no_record_moves_has_a_unit_still():
    # All records alike and none outside: the gap is public, and far above every threshold.
    data = PrivateData.from_columns({"x": [0, 1, 1, 2, 2, 2] * 10}, LINE, outside="raise")
    alike = np.repeat(OPPOSED[:, :1], 3, axis=1)
    gap = gap_of(Ball(2.0), (0.0, 0.0), columns=alike)
    made = Kernel(data, Odometer(Budget(10**6), BasicComposition()), seeded(1), "test")
    watch = made.watch(Watching(10**4, 10**4))
    assert watch.first_above(gap, 119.0) is not None
    assert watch.first_above(gap, 121.0) is None
    still = gap_of(Ball(2.0), (0.0, 0.0), columns=np.zeros((2, 3)))
    assert made.watch(Watching(10**4, 10**4)).first_above(still, 0.5) is None
    assert still.moved(data.facts) == 0.0
    assert Watching(1, 1).unit(data.facts, still) == 1.0


@pytest.mark.parametrize("neighbors", Neighbors)
@pytest.mark.parametrize("strength", [0.0, 1e-300, 1.0])
@pytest.mark.parametrize("over", SETS, ids=SHOWN)
def test_gaps_that_hardly_anything_moves_are_asked_about(over, strength, neighbors):
    gap = gap_of(over, strength=strength, columns=OPPOSED * 1e-20)
    asked, _ = kernel([5, 11, 2], neighbors=neighbors)
    unit = Watching(1, 1).unit(asked.facts, gap)
    if neighbors is Neighbors.REPLACE_ONE or not strength:
        assert unit == 1.0
    assert asked.watch(Watching(10**4, 10**4)).first_above(gap, unit) is None
    assert asked.watch(Watching(10**4, 10**4)).first_above(gap, -unit).place == 0


@pytest.mark.parametrize("bits", [4, 40])
def test_thresholds_are_rounded_to_the_nearest_step(bits):
    own = prepare_proximal(gap_of(Ball(2.0)), kernel([1, 2, 3])[0].facts, bits)
    for threshold in (0.1, -7.3, 123.456, 2.0**18 / 3, -(2.0**18.9)):
        exact = Fraction(threshold) * 2**bits / Fraction(own.moved)
        assert abs(own.height(threshold) - exact) <= Fraction(1, 2)


def test_scores_beyond_every_threshold_end_there():
    gap, data = gap_of(Ball(2.0), (0.0, 0.0)), PrivateData.from_counts([9, 0, 0], LINE)
    own = prepare_proximal(gap, data.facts, 4)
    far = attrs.evolve(own, scale=own.scale * 2**80)
    assert far.scores(far.read(open_histogram(data))).tolist() == [2**60]


def test_prices_are_worked_out_once_for_the_same_gradient_and_again_for_other_steps(monkeypatch):
    calls = []
    moved = Steps.moved
    monkeypatch.setattr(Steps, "moved", lambda s, *a, **k: calls.append(1) or moved(s, *a, **k))
    gap, data = gap_of(Ball(2.0)), PrivateData.from_counts([40, 15, 25], LINE)
    of = data.facts
    others = [attrs.evolve(gap, theta=np.zeros(2)), attrs.evolve(gap, over=Box(-1, 1))]
    others += [attrs.evolve(gap, strength=1.0)]
    units = [prepare_proximal(one, of, 8).moved for one in (gap, gap, *others, gap)]
    assert len(calls) == 4
    assert units[0] == units[1] == units[-1]
    assert module.prepare_proximal(gap, of, 9).steps == pytest.approx(2**9 / units[0])
