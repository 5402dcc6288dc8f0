import math
import tracemalloc

import numpy as np
import pytest
from reference import GRID, Reference, one, pair, random_function, random_workload, seen, written

from dpsdk import Categorical, Domain, Integer
from dpsdk.errors import InvalidArgument, TooLarge, UnknownAttribute
from dpsdk.forms import Identity, LinearForm, Prefix, Range, Weights
from dpsdk.hypothesis import DenseHypothesis
from worlds import weights

pytestmark = pytest.mark.thorough

OUTSIDE = (None, 0.0, 0.2)


@pytest.mark.parametrize("outside", OUTSIDE)
@pytest.mark.parametrize("logs", [False, True])
def test_answers_are_the_expected_weights(outside, logs):
    rng = np.random.default_rng(1)
    for seed in range(5):
        hypothesis, reference = pair(seed, outside)
        if logs:
            for moved in (hypothesis, reference):
                moved.shift(one(GRID, a=Range(5, 0, 2)), -1000.0)
            assert hypothesis._cells.logs
        form = random_workload(rng, GRID)
        wanted = reference.answers(form)
        assert hypothesis.answers(form) == pytest.approx(wanted, abs=1e-13, rel=1e-12)
        assert form.evaluate(hypothesis) == pytest.approx(wanted, abs=1e-13, rel=1e-12)
        for row in (0, form.rows // 2, form.rows - 1):
            single = form.row(row)
            assert weights(single)[0] == pytest.approx(weights(form)[row], abs=0)
            assert hypothesis.answer(single) == pytest.approx(wanted[row], abs=1e-13)


def test_many_like_functions_are_answered_together_or_apart_alike():
    domain = Domain(Integer("a", 0, 99), Integer("b", 0, 39), Integer("c", 0, 1))
    rng = np.random.default_rng(2)
    cells = rng.random(domain.size)
    hypothesis = DenseHypothesis.from_weights(domain, cells)
    narrow = [one(domain, a=Range(100, i, i + 1), b=Range(40, 3, 5)) for i in range(20)]
    wide = [one(domain, a=Range(100, 0, i + 1), b=Range(40, 0, 39)) for i in range(0, 90, 2)]
    for forms in (narrow, wide, narrow + wide):
        form = LinearForm.stack(forms)
        assert hypothesis.answers(form) == pytest.approx(weights(form) @ cells / cells.sum())


def test_tables_are_marginals_in_the_order_asked():
    hypothesis, reference = pair(3, 0.2)
    whole = reference.probabilities[:-1].reshape(GRID.shape)
    assert hypothesis.table(("d", "a")) == pytest.approx(whole.sum(axis=(1, 2)).T)
    assert hypothesis.table(()) == pytest.approx(0.8)
    assert hypothesis.table(GRID.names).shape == GRID.shape
    assert hypothesis.table(GRID.names).sum() == pytest.approx(0.8, abs=1e-14)
    with pytest.raises(UnknownAttribute):
        hypothesis.table(("e",))


def test_chained_marginals_equal_direct_ones_and_are_forgotten_after_a_move():
    domain = Domain(*(Integer(f"a{i}", 0, (1 + i) % 3) for i in range(9)))
    cells = np.random.default_rng(4).random(domain.shape)
    hypothesis = DenseHypothesis.from_weights(domain, cells)
    for _ in range(2):
        for first in range(9):
            for second in range(first):
                axes = tuple(axis for axis in range(9) if axis not in (first, second))
                table = hypothesis.table((domain.names[second], domain.names[first]))
                assert table == pytest.approx(cells.sum(axis=axes) / cells.sum())
        hypothesis.shift(one(domain, a2=Range(domain["a2"].size, 0, 1)), 1.0)
        cells[:, :, 0] *= math.e


@pytest.mark.parametrize("middle", [4096, 4098, 4099, 5])
def test_short_rows_are_summed_as_any(middle):
    domain = Domain(Integer("a", 0, 2), Integer("b", 0, middle - 1), Integer("c", 0, 3))
    cells = np.random.default_rng(4).random(domain.shape)
    hypothesis = DenseHypothesis.from_weights(domain, cells)
    assert hypothesis.table(("a", "c")) == pytest.approx(cells.sum(axis=1) / cells.sum())
    assert hypothesis.table(("c",)) == pytest.approx(cells.sum(axis=(0, 1)) / cells.sum())
    assert hypothesis.table(("b",)) == pytest.approx(cells.sum(axis=(0, 2)) / cells.sum())


@pytest.mark.parametrize("outside", OUTSIDE)
def test_a_shift_multiplies_by_the_exponential_and_normalises(outside):
    rng = np.random.default_rng(5)
    hypothesis, reference = pair(5, outside)
    for turn in range(120):
        form = random_function(rng, GRID)
        step = float(rng.normal()) * (6.0 if turn % 5 == 0 else 0.5)
        answer = hypothesis.answer(form) if turn % 2 else None
        hypothesis.shift(form, step, answer)
        reference.shift(form, step)
        assert seen(hypothesis) == pytest.approx(reference.probabilities, rel=1e-11, abs=0)


@pytest.mark.parametrize("updates", [1500, pytest.param(5000, marks=pytest.mark.audit)])
def test_thousands_of_updates_stay_within_a_trillionth(updates):
    domain = Domain(Integer("a", 0, 15), Integer("b", 0, 15))
    rng = np.random.default_rng(6)
    forms = [random_function(rng, domain) for _ in range(80)]
    hypothesis = DenseHypothesis.uniform(domain, outside=True)
    reference = Reference(np.ones(domain.size), 1 / (domain.size + 1))
    for turn in range(updates):
        form = forms[rng.integers(len(forms))]
        answer = hypothesis.answer(form)
        step = float(np.sign(rng.random() - answer)) * rng.integers(1, 400) / 1024
        hypothesis.shift(form, step, answer if turn % 3 else None)
        reference.shift(form, step)
    assert not hypothesis._cells.logs
    assert seen(hypothesis) == pytest.approx(reference.probabilities, rel=1e-12, abs=0)


@pytest.mark.parametrize("kind", ["slice", "scattered", "written", "real"])
def test_nothing_is_lost_where_floats_underflow(kind):
    function = {
        "slice": one(GRID, a=Range(5, 1, 3)),
        "scattered": one(GRID, a=Weights([[1, 0, 1, 0, 0]]), d=Weights([[1, 0, 0, 1, 0, 1, 0]])),
        "written": written(GRID, np.arange(GRID.size) % 3 == 0),
        "real": written(GRID, np.linspace(0, 1, GRID.size)),
    }[kind]
    hypothesis, reference = pair(7, 0.2)
    before = seen(hypothesis)
    for _ in range(30):
        hypothesis.shift(function, -100.0)
        reference.shift(function, -100.0)
        assert seen(hypothesis) == pytest.approx(reference.probabilities, rel=1e-9, abs=1e-300)
    assert hypothesis._cells.logs
    for _ in range(30):
        hypothesis.shift(function, 100.0)
    hypothesis._cells._count()
    assert not hypothesis._cells.logs
    assert seen(hypothesis) == pytest.approx(before, rel=1e-9)


def test_many_moves_to_and_fro_need_no_logarithms():
    hypothesis, _ = pair(8, None)
    before = seen(hypothesis)
    form = one(GRID, a=Range(5, 1, 3))
    for _ in range(200):
        hypothesis.shift(form, 100.0)
        hypothesis.shift(form, -100.0)
    assert not hypothesis._cells.logs
    assert seen(hypothesis) == pytest.approx(before, rel=1e-12)


def test_a_prior_of_any_scale_will_do():
    for scale in (1e-300, 1.0, 1e300):
        hypothesis = DenseHypothesis.from_weights(GRID, np.full(GRID.size, scale))
        hypothesis.shift(one(GRID, a=Range(5, 0, 1)), 600.0)
        hypothesis.shift(one(GRID, a=Range(5, 0, 1)), -600.0)
        assert seen(hypothesis)[:-1] == pytest.approx(1 / GRID.size, rel=1e-12)


@pytest.mark.parametrize("outside", OUTSIDE)
def test_a_move_reaches_its_target_by_the_step_it_returns(outside):
    rng = np.random.default_rng(9)
    hypothesis, reference = pair(9, outside)
    moved = 0
    for _ in range(150):
        form = random_function(rng, GRID)
        values = weights(form)[0] if not outside else np.append(weights(form)[0], 0.0)
        low, high = values.min(), values.max()
        target = low + (high - low) * rng.uniform(0.02, 0.98)
        step = hypothesis.move_to(form, target, hypothesis.answer(form))
        if low == high:
            assert step == 0.0
            continue
        moved += 1
        reference.shift(form, step)
        assert hypothesis.answer(form) == pytest.approx(target, abs=1e-12)
        visible = reference.probabilities > 1e-290
        wanted = reference.probabilities[visible]
        assert seen(hypothesis)[visible] == pytest.approx(wanted, rel=1e-9)
    assert moved > 60


def test_the_step_of_a_zero_one_function_is_a_difference_of_log_odds():
    hypothesis = DenseHypothesis.uniform(GRID)
    step = hypothesis.move_to(one(GRID, a=Range(5, 0, 1)), 0.7)
    assert step == pytest.approx(math.log(0.7 / 0.3) - math.log(0.2 / 0.8), abs=1e-14)


def test_a_constant_function_cannot_be_moved():
    everything, nothing = one(GRID), one(GRID, a=Range(5, 2, 2))
    hypothesis, _ = pair(12, None)
    before = seen(hypothesis)
    for form in (everything, nothing, written(GRID, np.full(GRID.size, 0.25))):
        assert hypothesis.move_to(form, 0.5) == 0.0
    assert seen(hypothesis) == pytest.approx(before, rel=1e-12)
    with_outside, _ = pair(12, 0.2)
    assert with_outside.move_to(everything, 0.5) < 0.0
    assert with_outside.outside_mass == pytest.approx(0.5, abs=1e-13)


def test_cells_without_weight_stay_without():
    cells = np.ones(GRID.size)
    cells[::2] = 0.0
    hypothesis = DenseHypothesis.from_weights(GRID, cells, 0.0)
    assert hypothesis.kl_cap() == math.inf
    form = written(GRID, np.linspace(0, 1, GRID.size))
    for step in (1.0, -2000.0, 2000.0):
        hypothesis.shift(form, step)
    hypothesis.move_to(form, 0.5)
    probabilities = seen(hypothesis)
    assert not probabilities[:-1:2].any()
    assert probabilities[-1] == 0.0
    assert hypothesis.answer(form) == pytest.approx(0.5)
    empty = written(GRID, cells == 0.0)
    assert hypothesis.move_to(empty, 0.5) == 0.0


def test_the_cap_is_the_largest_surprise():
    assert DenseHypothesis.uniform(GRID).kl_cap() == pytest.approx(math.log(GRID.size))
    uniform = DenseHypothesis.uniform(GRID, outside=True)
    assert uniform.kl_cap() == pytest.approx(math.log(GRID.size + 1))
    hypothesis, reference = pair(14, 0.2)
    hypothesis.shift(one(GRID, a=Range(5, 0, 2)), -2000.0)
    reference.shift(one(GRID, a=Range(5, 0, 2)), -2000.0)
    assert hypothesis.kl_cap() == pytest.approx(float(-reference.logs.min()), rel=1e-12)


def test_blending_caps_the_surprise():
    hypothesis, _ = pair(15, 0.2)
    hypothesis.shift(one(GRID, a=Range(5, 0, 2)), -2000.0)
    before = seen(hypothesis)
    hypothesis.blend(0.0)
    assert hypothesis._cells.logs
    hypothesis.blend(0.1)
    wanted = 0.9 * before + 0.1 / (GRID.size + 1)
    assert seen(hypothesis) == pytest.approx(wanted, rel=1e-12)
    assert hypothesis.kl_cap() <= math.log((GRID.size + 1) / 0.1)
    hypothesis.blend(1.0)
    assert seen(hypothesis) == pytest.approx(1 / (GRID.size + 1), rel=1e-12)


def test_independent_attributes_make_a_product():
    tables = {"a": [1, 2, 3, 4, 0], "d": np.arange(1.0, 8.0)}
    hypothesis = DenseHypothesis.product(GRID, tables, 0.25)
    assert hypothesis.outside_mass == pytest.approx(0.25)
    assert hypothesis.table(("a",)) == pytest.approx(0.75 * np.array([1, 2, 3, 4, 0]) / 10)
    assert hypothesis.table(("b",)) == pytest.approx(0.25)
    joint = np.outer([1, 2, 3, 4, 0], np.arange(1.0, 8.0))
    assert hypothesis.table(("a", "d")) == pytest.approx(0.75 * joint / joint.sum())


def test_samples_carry_labels_of_their_attributes():
    domain = Domain(Categorical("sex", ["F", "M"]), Integer("id", 10**12, 10**12 + 2**20))
    hypothesis = DenseHypothesis.uniform(domain)
    columns = hypothesis.sample(3)
    assert set(columns["sex"]) <= {"F", "M"}
    assert all(10**12 <= value <= 10**12 + 2**20 for value in columns["id"])
    assert hypothesis.sample(0) == {"sex": [], "id": []}


def test_no_second_array_is_made():
    domain = Domain(Integer("a", 0, 2**9 - 1), Integer("b", 0, 2**9 - 1), Integer("c", 0, 0))
    size = 8 * domain.size
    rng = np.random.default_rng(18)
    forms = [
        written(domain, rng.random(domain.size) < 0.5),
        written(domain, rng.random(domain.size)),
        one(domain, a=Range(2**9, 0, 2**8)),
        one(domain, a=Weights(rng.random((1, 2**9)))),
        one(domain, b=Weights(rng.random((1, 2**9)) < 0.5)),
    ]
    hypothesis = DenseHypothesis.uniform(domain, outside=True)
    for form in forms:
        hypothesis.shift(form, 0.1)
    tracemalloc.start()
    for form in forms:
        hypothesis.answer(form)
        hypothesis.shift(form, 0.1)
        hypothesis.shift(form, 100.0)
        hypothesis.shift(form, -3000.0)
        hypothesis.move_to(form, 0.4)
        hypothesis.shift(form, 0.1)
        hypothesis.kl_cap()
        hypothesis.blend(0.5)
        hypothesis.move_to(form, 0.4)
    hypothesis.sample(10)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 0.4 * size


def test_a_universe_too_large_is_refused_before_anything_is_made():
    domain = Domain(Integer("a", 0, 2**28))
    tracemalloc.start()
    for make in (
        DenseHypothesis.uniform,
        lambda d: DenseHypothesis.product(d, {}),
        lambda d: DenseHypothesis.from_weights(d, np.ones(3)),
    ):
        with pytest.raises(TooLarge, match=r"268,435,457 cells.*PiecewiseHypothesis"):
            make(domain)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 2**20


def test_bad_arguments_are_named():
    hypothesis, _ = pair(19, None)
    first, other = one(GRID, a=Range(5, 0, 1)), Domain(Integer("a", 0, 4))
    many = one(GRID, a=Identity(5))
    with pytest.raises(InvalidArgument, match="form of one function"):
        hypothesis.shift(many, 1.0)
    with pytest.raises(InvalidArgument, match="form of one function"):
        hypothesis.move_to(many, 0.5)
    with pytest.raises(InvalidArgument, match="domain"):
        hypothesis.answers(one(other, a=Prefix(5)))
    for bad in (math.nan, math.inf):
        with pytest.raises(InvalidArgument, match="step"):
            hypothesis.shift(first, bad)
        with pytest.raises(InvalidArgument, match="target"):
            hypothesis.move_to(first, bad)
        with pytest.raises(InvalidArgument, match="answer"):
            hypothesis.shift(first, 1.0, bad)
    for bad in (-0.1, 1.1, math.nan):
        with pytest.raises(InvalidArgument, match="weight"):
            hypothesis.blend(bad)
    for bad in (-0.1, 1.0, math.nan):
        with pytest.raises(InvalidArgument, match="outside_mass"):
            DenseHypothesis.from_weights(GRID, np.ones(GRID.size), bad)
    for cells in (np.ones(3), -np.ones(GRID.size), np.zeros(GRID.size), ["x"] * GRID.size):
        with pytest.raises(InvalidArgument, match="weights"):
            DenseHypothesis.from_weights(GRID, cells)
    with pytest.raises(InvalidArgument, match="tables"):
        DenseHypothesis.product(GRID, {"a": [1, 2]})
    with pytest.raises(UnknownAttribute):
        DenseHypothesis.product(GRID, {"z": [1, 2]})
    with pytest.raises(InvalidArgument, match="size"):
        hypothesis.sample(-1)
    with pytest.raises(InvalidArgument, match="number"):
        first.row(1)
