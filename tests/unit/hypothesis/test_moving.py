"""What every move says of itself, and the search for a step that any hypothesis may use."""

import math

import numpy as np
import pytest
from reference import GRID, Reference, one, pair, random_function, seen, written

from dpsdk import Domain, Integer
from dpsdk.errors import InvalidArgument
from dpsdk.forms import Kronecker, LinearForm, Range, Weights
from dpsdk.hypothesis import DenseHypothesis, Distribution, Hypothesis, PiecewiseHypothesis
from worlds import weights

pytestmark = pytest.mark.thorough

LINE = Domain(Integer("x", 0, 39))


def log_normaliser(reference, form, step):
    """ln of the sum of p·exp(step·f), by the definition and without overflow."""
    terms = reference.logs + np.longdouble(step) * np.append(weights(form)[0], 0.0)
    top = terms.max()
    return float(top + np.log(np.exp(terms - top).sum()))


@pytest.mark.parametrize("outside", [None, 0.0, 0.2])
@pytest.mark.parametrize("given", [True, False])
def test_a_shift_returns_its_log_normaliser(outside, given):
    rng = np.random.default_rng(1)
    hypothesis, reference = pair(1, outside)
    for turn in range(250):
        form = random_function(rng, GRID)
        step = float(rng.normal()) * (0.01, 0.5, 6.0, 300.0, 2000.0)[turn % 5]
        wanted = log_normaliser(reference, form, step)
        said = hypothesis.shift(form, step, hypothesis.answer(form) if given else None)
        reference.shift(form, step)
        assert said == pytest.approx(wanted, rel=1e-9, abs=1e-12)
        if turn % 10 == 9:
            # Not to wander off to where all weight lies on a cell or two.
            hypothesis, reference = pair(turn, outside)


def test_a_shift_from_where_hardly_any_weight_is_left_says_so_precisely():
    for values in (np.arange(GRID.size) % 3 == 0, np.linspace(0.2, 1, GRID.size)):
        form = written(GRID, values)
        for push in (-700.0, -2000.0, 700.0, 2000.0):
            hypothesis, reference = pair(2, 0.2)
            for step in (push, -push, push / 2):
                wanted = log_normaliser(reference, form, step)
                assert hypothesis.shift(form, step) == pytest.approx(wanted, rel=1e-12)
                reference.shift(form, step)


def test_a_shift_of_pieces_returns_its_log_normaliser():
    rng = np.random.default_rng(3)
    cells = np.ones(LINE.size)
    hypothesis = PiecewiseHypothesis.uniform(LINE, outside=True)
    reference = Reference(cells, 1 / (LINE.size + 1))
    for _ in range(100):
        start, stop = sorted(rng.integers(0, LINE.size + 1, 2))
        form = one(LINE, x=Range(LINE.size, int(start), int(stop)))
        step = float(rng.normal()) * 3
        wanted = log_normaliser(reference, form, step)
        assert hypothesis.shift(form, step) == pytest.approx(wanted, abs=1e-12)
        reference.shift(form, step)


@pytest.mark.parametrize("outside", [None, 0.2])
def test_relative_entropy_falls_by_what_the_normaliser_says(outside):
    rng = np.random.default_rng(4)
    truth = rng.random(GRID.size + 1) * np.append(np.ones(GRID.size), outside is not None)
    truth /= truth.sum()
    hypothesis, _ = pair(5, outside)
    kept = truth > 0

    def entropy():
        return float((truth[kept] * np.log(truth[kept] / seen(hypothesis)[kept])).sum())

    for _ in range(40):
        form, step = random_function(rng, GRID), float(rng.normal())
        before = entropy()
        grown = hypothesis.shift(form, step)
        answer = float(np.append(weights(form)[0], 0.0) @ truth)
        assert before - entropy() == pytest.approx(step * answer - grown, abs=1e-11)


def test_a_shift_that_changes_nothing_has_a_normaliser_of_one():
    hypothesis, _ = pair(6, None)
    assert hypothesis.shift(one(GRID, a=Range(5, 0, 2)), 0.0) == 0.0
    assert hypothesis.shift(one(GRID, a=Range(5, 2, 2)), 3.0) == 0.0
    assert hypothesis.shift(one(GRID), 3.0) == pytest.approx(3.0, abs=1e-14)


@pytest.mark.parametrize("kind", [DenseHypothesis, PiecewiseHypothesis])
def test_a_scale_is_part_of_an_answer_and_a_copy_goes_its_own_way(kind):
    form = LinearForm(LINE, [Kronecker(("x",), (Range(LINE.size, 0, 8),), -4.0)])
    hypothesis = kind.uniform(LINE)
    twin = hypothesis.copy()
    assert hypothesis.answer(form) == pytest.approx(-0.8)
    hypothesis.move_to(form, -2.0)
    assert hypothesis.answer(form) == pytest.approx(-2.0, abs=1e-13)
    assert twin.answer(form) == pytest.approx(-0.8)


class Tried(DenseHypothesis):
    """A dense hypothesis that moves by the search that any kind may use."""

    move_to = Hypothesis.move_to


def both(seed, outside):
    cells = np.random.default_rng(seed).random(GRID.size)
    return (kind.from_weights(GRID, cells, outside) for kind in (Tried, DenseHypothesis))


@pytest.mark.parametrize("outside", [None, 0.0, 0.2])
def test_the_search_for_a_step_finds_what_the_closed_forms_say(outside):
    rng = np.random.default_rng(7)
    for seed in range(120):
        tried, closed = both(seed, outside)
        form = random_function(rng, GRID)
        values = np.append(weights(form)[0], [0.0] * bool(outside))
        low, high = values.min(), values.max()
        target = low + (high - low) * rng.uniform(0.02, 0.98)
        answer = tried.answer(form) if seed % 2 else None
        step, wanted = tried.move_to(form, target, answer), closed.move_to(form, target)
        if low == high:
            assert step == wanted == 0.0
            continue
        assert tried.answer(form) == pytest.approx(target, abs=1e-11 * (high - low))
        assert step == pytest.approx(wanted, rel=1e-7, abs=1e-9)


both_kinds = pytest.mark.parametrize("kind", [Tried, DenseHypothesis])


@both_kinds
@pytest.mark.parametrize("real", [False, True])
def test_an_unreachable_target_is_approached_and_never_left(kind, real):
    values = np.linspace(0, 1, GRID.size) if real else np.arange(GRID.size) % 3 == 0
    form = written(GRID, values)
    for target in (1.0, 7.0, 0.0, -3.0):
        hypothesis, _ = pair(8, None, kind)
        step = hypothesis.move_to(form, target)
        reached = hypothesis.answer(form)
        assert 0 < abs(reached - min(max(target, 0.0), 1.0)) < 1e-11
        assert 0.0 < abs(step) < math.inf
        hypothesis.move_to(form, target)
        assert abs(hypothesis.answer(form) - reached) < 1e-13


@both_kinds
def test_a_move_minds_values_that_have_no_weight(kind):
    domain = Domain(Integer("x", 0, 2))
    form = written(domain, [0.0, 0.5, 1.0])
    faint = kind.from_weights(domain, [1.0, 1e-280, 0.0])
    assert faint.move_to(form, 0.25) == pytest.approx(2 * 280 * math.log(10), rel=1e-6)
    assert faint.answer(form) == pytest.approx(0.25, abs=1e-11)
    hypothesis = kind.from_weights(domain, [1.0, 1.0, 0.0])
    assert hypothesis.move_to(form, 0.9) > 0.0
    assert hypothesis.answer(form) == pytest.approx(0.5, abs=1e-9)
    flat = kind.from_weights(domain, [0.0, 1.0, 0.0])
    for target in (0.1, 0.5, 1.0):
        assert flat.move_to(form, target) == 0.0


@both_kinds
@pytest.mark.parametrize("real", [False, True])
def test_a_move_works_from_where_hardly_any_weight_is_left(kind, real):
    values = np.arange(GRID.size) % 3 == 0
    form = written(GRID, values * np.linspace(0.5, 1, GRID.size) if real else values)
    for push in (-40.0, 40.0, -500.0, 500.0, -2000.0, 2000.0):
        hypothesis, _ = pair(9, 0.2, kind)
        hypothesis.shift(form, push)
        hypothesis.move_to(form, 0.3)
        assert hypothesis.answer(form) == pytest.approx(0.3, abs=1e-10)


def test_the_search_refuses_what_every_move_does():
    tried, _ = both(10, None)
    for bad in (math.nan, math.inf):
        with pytest.raises(InvalidArgument, match="target"):
            tried.move_to(one(GRID, a=Range(5, 0, 1)), bad)
    with pytest.raises(InvalidArgument, match="one function"):
        tried.move_to(one(GRID, a=Weights(np.ones((2, 5)))), 0.5)
    before = seen(tried)
    assert tried.move_to(one(GRID), 0.5) == 0.0
    assert np.array_equal(seen(tried), before)


# Kinds


class Bare(Distribution):
    """Everything in one cell, kept in no file."""

    def __init__(self):
        self.domain, self.outside = LINE, False

    outside_mass = 0.0

    def table(self, names):
        table = np.zeros(tuple(self.domain[name].size for name in names))
        table[(0,) * table.ndim] = 1.0
        return table

    def records(self, names):
        return [np.zeros(1, dtype=np.int64) for _ in names], np.ones(1)

    def draw(self, streams):
        return [np.zeros(streams.size, dtype=np.int64)]

    def parts(self):
        return {}, {}

    @classmethod
    def from_parts(cls, domain, flags, arrays):
        return cls()


def test_tables_and_records_are_enough_to_answer():
    bare = Bare()
    assert bare.answer(one(LINE, x=Range(40, 0, 1))) == 1.0
    assert bare.answer(one(LINE, x=Range(40, 1, 9))) == 0.0
    assert bare.sample(3) == {"x": [0, 0, 0]}
    assert bare.accuracy(one(LINE), None).standing == "none"


def test_what_has_no_kind_is_not_saved(tmp_path):
    with pytest.raises(InvalidArgument, match="kind"):
        Bare().save(tmp_path / "kept")
    assert not (tmp_path / "kept").exists()


def test_a_kind_belongs_to_one_class():
    with pytest.raises(InvalidArgument, match="'dense'"):
        type("Other", (Bare,), {"kind": "dense"})
    assert Distribution._kinds["dense"] is DenseHypothesis
    # The same class made anew, as a decorator does, takes the place of the first.
    first, second = (type("Anew", (Bare,), {"kind": "test.anew"}) for _ in range(2))
    assert first is not second
    assert Distribution._kinds.pop("test.anew") is second


FOREIGN = {
    "an own kind": ({"kind": "dense"}, {}),
    "an own domain": ({"domain": "x"}, {}),
    "no plain value": ({"a": [1]}, {}),
    "no number": ({"a": math.nan}, {}),
    "half a float": ({}, {"a": np.zeros(3, dtype=np.float32)}),
    "the other end first": ({}, {"a": np.zeros(3, dtype=">f8")}),
    "a table": ({}, {"a": np.zeros((3, 3))}),
    "objects": ({}, {"a": np.array([object()])}),
}


@pytest.mark.parametrize("what", FOREIGN)
def test_parts_that_no_reader_takes_are_not_written(tmp_path, what):
    odd = type("Odd", (Bare,), {"kind": "test.odd", "parts": lambda self: FOREIGN[what]})
    try:
        with pytest.raises(InvalidArgument, match="parts"):
            odd().save(tmp_path / "kept")
    finally:
        del Distribution._kinds["test.odd"]
    assert not (tmp_path / "kept").exists()
