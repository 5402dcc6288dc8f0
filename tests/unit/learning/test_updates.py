import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from worlds_of_learning import function, line, potential, uniform

from dpsdk.errors import InvalidArgument
from dpsdk.hypothesis import DenseHypothesis
from dpsdk.learning import (
    PotentialMeter,
    Replay,
    hoeffding_drop,
    hoeffding_step,
    kl_bernoulli,
    near_side_target,
    step_towards,
    textbook_step,
)
from worlds import repeatable

shares = st.floats(0, 1)


@st.composite
def released(draw, most=6):
    """A truth, a start, and functions with values within their radius of the truth."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    size = draw(st.integers(2, 12))
    truth = rng.dirichlet(np.full(size, draw(st.sampled_from([0.05, 0.3, 1.0]))))
    prior = rng.dirichlet(np.full(size, 1.0)) + 1e-3
    told = []
    for _ in range(draw(st.integers(1, most))):
        real = draw(st.booleans())
        values = rng.random(size) if real else rng.integers(0, 2, size).astype(float)
        radius = draw(st.sampled_from([1e-6, 0.01, 0.1, 0.3]))
        told.append((values, float(values @ truth) + radius * rng.uniform(-1, 1), radius))
    return truth, prior / prior.sum(), told


def test_steps_and_drops_are_those_of_their_formulas():
    assert textbook_step(0.1) == 0.05
    assert hoeffding_step(0.1) == pytest.approx(0.4)
    assert hoeffding_drop(0.1) == pytest.approx(0.02)
    assert hoeffding_step(1.0, 10.0) == pytest.approx(0.04)
    assert hoeffding_drop(1.0, 10.0) == pytest.approx(0.02)


@repeatable
@given(st.floats(0, 1), st.floats(0, 1))
def test_the_step_of_hoeffding_makes_the_most_of_what_is_known(gap, other):
    def least(step):
        return step * gap - step**2 / 8

    assert least(hoeffding_step(gap)) == pytest.approx(hoeffding_drop(gap))
    assert least(4 * other) <= hoeffding_drop(gap) + 1e-12


@repeatable
@given(shares, shares, shares)
def test_the_near_side_is_within_the_radius_and_on_the_way(answer, value, radius):
    target = near_side_target(answer, value, radius)
    assert abs(target - value) <= max(radius, 0) + 1e-15 or target == answer
    assert min(answer, value) - 1e-15 <= target <= max(answer, value) + 1e-15
    if abs(value - answer) <= radius:
        assert target == answer


@repeatable
@given(shares, shares)
def test_the_relative_entropy_of_coins_obeys_pinsker(a, b):
    assert kl_bernoulli(a, b) >= 2 * (a - b) ** 2 - 1e-12
    assert kl_bernoulli(a, a) == 0.0


def test_impossible_coins_are_infinitely_far():
    assert kl_bernoulli(0.5, 0.0) == kl_bernoulli(0.5, 1.0) == math.inf
    assert kl_bernoulli(0.0, 0.5) == kl_bernoulli(1.0, 0.5) == pytest.approx(math.log(2))
    with pytest.raises(InvalidArgument, match="b must"):
        kl_bernoulli(0.5, 1.1)


@repeatable
@given(released(), st.sampled_from([0.0, 0.01, 0.1]))
def test_a_step_towards_a_value_gains_what_it_counts(case, gap):
    truth, prior, told = case
    hypothesis = DenseHypothesis.from_weights(line(len(truth)), prior)
    for values, value, radius in told:
        form = function(hypothesis.domain, values)
        if abs(float(values @ truth) - hypothesis.answer(form)) < gap or radius > gap:
            known = 0.0
        else:
            known = gap
        meter = PotentialMeter(100.0)
        before = potential(truth, hypothesis)
        step_towards(hypothesis, form, value, radius, known, meter=meter)
        assert before - potential(truth, hypothesis) >= meter.used - 1e-10


def test_a_value_near_the_answer_still_moves_where_a_gap_is_known():
    # A near-side move would be none here: the value is within its radius of the answer.
    hypothesis = uniform(2)
    form = function(hypothesis.domain, [1, 0])
    truth = np.array([0.6, 0.4])
    assert near_side_target(0.5, 0.55, 0.1) == 0.5
    before = potential(truth, hypothesis)
    meter = PotentialMeter(math.log(2))
    step = step_towards(hypothesis, form, 0.55, 0.1, 0.1, meter=meter)
    assert step == pytest.approx(0.4)
    assert before - potential(truth, hypothesis) >= meter.used - 1e-12 == pytest.approx(0.02)


def test_a_step_uses_the_larger_of_two_gaps_and_the_side_of_the_value():
    hypothesis = uniform(4)
    form = function(hypothesis.domain, [1, 1, 0, 0])
    assert step_towards(hypothesis.copy(), form, 0.9, 0.1, 0.05) == pytest.approx(4 * 0.3)
    assert step_towards(hypothesis.copy(), form, 0.1, 0.1, 0.05) == pytest.approx(-4 * 0.3)
    assert step_towards(hypothesis.copy(), form, 7.0, 0.1) == pytest.approx(4 * 0.4)
    assert step_towards(hypothesis.copy(), form, 0.5, 0.1, 0.2) == 0.0
    assert step_towards(hypothesis.copy(), form, 0.55, 0.1) == 0.0


@repeatable
@given(released())
def test_replay_never_raises_the_potential_while_values_are_within_their_radius(case):
    truth, prior, told = case
    hypothesis = DenseHypothesis.from_weights(line(len(truth)), prior)
    replay = Replay(sweeps=1)
    for values, value, radius in told:
        replay.remember(function(hypothesis.domain, values), value, radius)
    meter = PotentialMeter(1000.0)
    start = before = potential(truth, hypothesis)
    for _ in range(6):
        replay.run(hypothesis, meter)
        after = potential(truth, hypothesis)
        assert after <= before + 1e-9
        assert start - after >= meter.used - 1e-9
        before = after


def test_every_single_move_of_a_replay_lowers_the_potential(monkeypatch):
    rng = np.random.default_rng(4)
    truth = rng.dirichlet(np.full(20, 0.3))
    hypothesis = uniform(20)
    replay = Replay(sweeps=20)
    for _ in range(30):
        values = rng.integers(0, 2, 20)
        value = float(values @ truth) + rng.uniform(-0.02, 0.02)
        replay.remember(function(hypothesis.domain, values), value, 0.02)
    potentials = [potential(truth, hypothesis)]
    plain = DenseHypothesis.move_to

    def watched(self, form, target, answer=None):
        step = plain(self, form, target, answer)
        potentials.append(potential(truth, self))
        return step

    monkeypatch.setattr(DenseHypothesis, "move_to", watched)
    moves = replay.run(hypothesis)
    assert moves == len(potentials) - 1 > 30
    assert all(after <= before + 1e-12 for before, after in itertools.pairwise(potentials))


def test_a_replay_ends_when_nothing_is_violated():
    rng = np.random.default_rng(5)
    truth = rng.dirichlet(np.full(10, 0.3))
    hypothesis = uniform(10)
    replay = Replay(sweeps=5000)
    told = []
    for _ in range(8):
        values = rng.integers(0, 2, 10)
        form = function(hypothesis.domain, values)
        told.append((form, float(values @ truth)))
        replay.remember(*told[-1], 0.05)
    assert replay.run(hypothesis) > 0
    assert len(replay) == 8
    assert all(abs(hypothesis.answer(form) - value) <= 0.05 + 1e-11 for form, value in told)
    assert replay.run(hypothesis) == 0


def test_contradicting_values_end_after_the_sweeps():
    hypothesis = uniform(4)
    form = function(hypothesis.domain, [1, 0, 0, 0])
    replay = Replay(sweeps=3)
    replay.remember(form, 0.9, 0.01)
    replay.remember(form, 0.1, 0.01)
    assert replay.run(hypothesis) == 6
    assert Replay(sweeps=0).run(hypothesis) == Replay().run(hypothesis) == 0


def test_the_limit_of_replays_depends_on_their_order():
    # P{1} in [.6, .7] and P{1,2} in [.8, .9]: neither limit is the nearest, (.6, .2, .1, .1).
    told = [([1, 0, 0, 0], 0.65, 0.05), ([1, 1, 0, 0], 0.85, 0.05)]
    limits = []
    for order in (told, told[::-1]):
        hypothesis = uniform(4)
        replay = Replay(sweeps=200)
        for values, value, radius in order:
            replay.remember(function(hypothesis.domain, values), value, radius)
        replay.run(hypothesis)
        limits.append(hypothesis.table(("x",)))
    assert limits[0] == pytest.approx([0.6545, 0.1455, 0.1, 0.1], abs=1e-4)
    assert limits[1] == pytest.approx([0.6, 0.2667, 0.0667, 0.0667], abs=1e-4)


def test_the_meter_says_when_no_update_is_left():
    meter = PotentialMeter(math.log(16))
    assert not meter.exhausted(0.1)
    for _ in range(138):
        assert not meter.exhausted(0.1)
        meter.stepped(0.1)
    assert meter.exhausted(0.1)
    assert meter.used == pytest.approx(2.76)
    assert meter.left == pytest.approx(math.log(16) - 2.76)
    assert not meter.exhausted(0.01)
    assert meter.cap == math.log(16)
    meter.moved(0.5, 0.75)
    assert meter.left == 0.0
    assert PotentialMeter(math.inf).left == math.inf
    assert PotentialMeter(0.0199).exhausted(0.1)
    assert not PotentialMeter(0.0201).exhausted(0.1)
    assert PotentialMeter(0.0201).exhausted(1.1, 10.0)


def test_a_meter_in_the_good_event_never_counts_more_than_there_was():
    rng = np.random.default_rng(6)
    truth = np.eye(32)[3]
    hypothesis = uniform(32)
    meter = PotentialMeter(hypothesis.kl_cap())
    for _ in range(2000):
        values = rng.integers(0, 2, 32)
        form = function(hypothesis.domain, values)
        gap = abs(float(values @ truth) - hypothesis.answer(form))
        if gap >= 0.1:
            assert not meter.exhausted(0.1)
            step_towards(hypothesis, form, float(values @ truth), 0.05, 0.1, meter=meter)
    assert meter.used <= meter.cap


def test_bad_arguments_are_named():
    form = function(line(2), [1, 0])
    for bad in (-0.1, math.nan, math.inf):
        with pytest.raises(InvalidArgument, match="gap"):
            hoeffding_step(bad)
        with pytest.raises(InvalidArgument, match="alpha"):
            textbook_step(bad)
        with pytest.raises(InvalidArgument, match="radius"):
            near_side_target(0.5, 0.5, bad)
        with pytest.raises(InvalidArgument, match="radius"):
            Replay().remember(form, 0.5, bad)
    for bad in (0.0, -1.0, math.inf):
        with pytest.raises(InvalidArgument, match="width"):
            hoeffding_drop(0.1, bad)
    for bad in (0.0, -1.0, math.nan):
        with pytest.raises(InvalidArgument, match="cap"):
            PotentialMeter(bad)
    for bad in (-1, 1.5):
        with pytest.raises(InvalidArgument, match="sweeps"):
            Replay(bad)
    with pytest.raises(InvalidArgument, match="value"):
        Replay().remember(form, math.nan, 0.1)
