import math

import numpy as np
import pytest
from reference import one, seen, written

from dpsdk import Binned, Categorical, Domain, Integer
from dpsdk.errors import InvalidArgument, QueryError, TooLarge
from dpsdk.forms import Identity, LinearForm, Prefix, Range, Weights
from dpsdk.hypothesis import DenseHypothesis, PiecewiseHypothesis
from dpsdk.testing.noise import seeded

pytestmark = pytest.mark.thorough

SIZE = 200
LINE = Domain(Integer("x", 0, SIZE - 1))
HUGE = Domain(Integer("x", 0, 2**62 - 1))


def part(start, stop, domain=LINE):
    return one(domain, x=Range(domain.size, start, stop))


def both(outside):
    if outside == "uniform":
        return (
            PiecewiseHypothesis.uniform(LINE, outside=True),
            DenseHypothesis.uniform(LINE, outside=True),
        )
    starts, masses = [0, 30, 31, 120], np.array([1.0, 0.5, 2.0, 3.0])
    lengths = np.diff(starts, append=SIZE)
    cells = np.repeat(masses / lengths, lengths)
    return (
        PiecewiseHypothesis.from_pieces(LINE, starts, masses, outside),
        DenseHypothesis.from_weights(LINE, cells, outside),
    )


@pytest.mark.parametrize("outside", ["uniform", None, 0.0, 0.2])
def test_it_does_what_a_dense_hypothesis_does(outside):
    rng = np.random.default_rng(1)
    piecewise, dense = both(outside)
    for turn in range(300):
        start, stop = sorted(int(cell) for cell in rng.integers(0, SIZE + 1, 2))
        form = part(start, stop)
        assert piecewise.answer(form) == pytest.approx(dense.answer(form), rel=1e-12, abs=1e-15)
        if turn % 3 == 0 and 0 < stop - start < SIZE:
            target = float(rng.uniform(0.1, 0.9))
            steps = piecewise.move_to(form, target), dense.move_to(form, target)
            assert steps[0] == pytest.approx(steps[1], rel=1e-10, abs=1e-12)
        else:
            step = float(rng.normal())
            piecewise.shift(form, step)
            dense.shift(form, step)
        if turn == 200:
            piecewise.blend(0.01)
            dense.blend(0.01)
    assert seen(piecewise) == pytest.approx(seen(dense), rel=1e-10)
    assert piecewise.kl_cap() == pytest.approx(dense.kl_cap(), rel=1e-10)
    assert piecewise.pieces <= SIZE
    forms = [
        part(0, 7),
        one(LINE, x=Prefix(SIZE)),
        one(LINE),
        one(LINE, x=Identity(SIZE)),
        one(LINE, x=Weights(rng.normal(size=(3, SIZE)))),
        written(LINE, rng.random(SIZE)),
        part(50, 50),
    ]
    workload = LinearForm.stack(forms)
    assert piecewise.answers(workload) == pytest.approx(dense.answers(workload), abs=1e-12)
    assert workload.evaluate(piecewise) == pytest.approx(dense.answers(workload), abs=1e-12)


def test_each_update_adds_two_pieces_at_the_most_whatever_the_size():
    rng = np.random.default_rng(2)
    hypothesis = PiecewiseHypothesis.uniform(HUGE, outside=True)
    assert hypothesis.kl_cap() == pytest.approx(62 * math.log(2))
    for turn in range(100):
        start, stop = sorted(int(cell) for cell in rng.integers(0, 2**62, 2))
        hypothesis.move_to(part(start, stop, HUGE), 0.5)
        assert hypothesis.answer(part(start, stop, HUGE)) == pytest.approx(0.5, abs=1e-12)
        assert hypothesis.pieces <= 2 * (turn + 1) + 1
    halves = LinearForm.stack([part(0, 2**61, HUGE), part(2**61, 2**62, HUGE), one(HUGE)])
    first, second, both_halves = hypothesis.answers(halves)
    assert first + second == pytest.approx(both_halves)
    assert both_halves + hypothesis.outside_mass == pytest.approx(1.0, abs=1e-13)


def test_nothing_is_lost_where_floats_underflow():
    hypothesis = PiecewiseHypothesis.uniform(HUGE, outside=True)
    form = part(5, 2**40, HUGE)
    before = hypothesis.answer(form)
    hypothesis.shift(form, -3000.0)
    assert hypothesis.answer(form) == 0.0
    trial = hypothesis.copy()
    trial.move_to(form, 0.25)
    assert trial.answer(form) == pytest.approx(0.25)
    hypothesis.shift(form, 3000.0)
    assert hypothesis.answer(form) == pytest.approx(before, rel=1e-9)


def test_samples_follow_the_distribution():
    hypothesis = PiecewiseHypothesis.from_pieces(LINE, [0, 10, 20], [1.0, 0.0, 3.0], 0.5)
    drawn = np.array(hypothesis.sample(8000, seeded(4))["x"])
    assert not ((drawn >= 10) & (drawn < 20)).any()
    assert (drawn < 10).mean() == pytest.approx(0.25, abs=0.02)
    assert np.bincount(drawn, minlength=SIZE)[:10].min() > 140
    huge = PiecewiseHypothesis.uniform(HUGE).sample(100, seeded(5))["x"]
    assert all(0 <= value < 2**62 for value in huge)
    assert len(set(huge)) == 100


def test_other_functions_are_refused_by_a_typed_error():
    hypothesis = PiecewiseHypothesis.uniform(LINE)
    scattered = one(LINE, x=Weights(np.arange(SIZE)[None, :] % 2))
    with pytest.raises(QueryError, match="ranges"):
        hypothesis.shift(scattered, 1.0)
    with pytest.raises(QueryError, match="ranges"):
        hypothesis.move_to(scattered, 0.5)
    large = Domain(Integer("x", 0, 2**23 - 1))
    with pytest.raises(QueryError, match="cells"):
        PiecewiseHypothesis.uniform(large).answer(one(large, x=Weights(np.ones((1, 2**23)))))
    with pytest.raises(TooLarge, match="ranges"):
        PiecewiseHypothesis.uniform(large).table(("x",))


def test_bad_arguments_are_named():
    for domain in (
        Domain(Categorical("x", ["a", "b"])),
        Domain(Integer("x", 0, 1), Integer("y", 0, 1)),
    ):
        with pytest.raises(InvalidArgument, match="domain"):
            PiecewiseHypothesis.uniform(domain)
    with pytest.raises(TooLarge):
        PiecewiseHypothesis.uniform(Domain(Integer("x", 0, 2**62)))
    PiecewiseHypothesis.uniform(Domain(Binned("x", [0, 1, 5])))
    for starts in ([], [1, 2], [0, 5, 5], [0, SIZE], [0.0, 1.0]):
        with pytest.raises(InvalidArgument, match="starts"):
            PiecewiseHypothesis.from_pieces(LINE, starts, np.ones(len(starts)))
    for masses in ([1.0], [0.0, 0.0], [-1.0, 2.0], [math.nan, 1.0]):
        with pytest.raises(InvalidArgument, match="masses"):
            PiecewiseHypothesis.from_pieces(LINE, [0, 5], masses)
    hypothesis = PiecewiseHypothesis.uniform(LINE)
    with pytest.raises(InvalidArgument, match="step"):
        hypothesis.shift(part(0, 1), math.nan)
    with pytest.raises(InvalidArgument, match="form of one function"):
        hypothesis.shift(one(LINE, x=Prefix(SIZE)), 1.0)
