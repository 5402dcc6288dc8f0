import math

import numpy as np
import pytest
from worlds_of_learning import function, functions, hardest, line, potential, uniform

from dpsdk.errors import InvalidArgument
from dpsdk.forms import Identity, Kronecker, LinearForm, Prefix
from dpsdk.hypothesis import DenseHypothesis, PiecewiseHypothesis
from dpsdk.learning import QueryMultiplicativeWeights

ALPHA = 0.1


def updates_of(rule, size):
    hypothesis = uniform(size)
    count = 0
    while (form := hardest(hypothesis, rule.alpha)) is not None:
        assert rule.update(hypothesis, form, 1.0)
        count += 1
    return count


def test_the_sharp_step_needs_a_seventh_of_the_updates_of_the_textbook():
    sharp, textbook = (QueryMultiplicativeWeights(ALPHA, textbook=t) for t in (False, True))
    cap = math.log(1024)
    few, many = updates_of(sharp, 1024), updates_of(textbook, 1024)
    assert 195 <= few <= sharp.update_bound(cap) == 346
    assert 1340 <= many <= textbook.update_bound(cap) == 2772
    assert many > 6.5 * few


@pytest.mark.thorough
def test_every_mistake_lowers_the_potential_as_promised():
    for seed in range(30):
        rng = np.random.default_rng(seed)
        size = int(rng.integers(2, 40))
        truth = rng.dirichlet(np.full(size, 0.2))
        for textbook in (False, True):
            rule = QueryMultiplicativeWeights(ALPHA, textbook=textbook)
            promised = ALPHA**2 / 4 if textbook else 2 * ALPHA**2
            hypothesis = uniform(size)
            for _ in range(40):
                values = rng.random(size) if rng.random() < 0.5 else rng.integers(0, 2, size)
                form = function(hypothesis.domain, values)
                answer, exact = hypothesis.answer(form), float(values @ truth)
                if abs(answer - exact) <= ALPHA:
                    continue
                before = potential(truth, hypothesis)
                value = exact + rng.uniform(-1, 1) * ALPHA * 0.999
                rule.update(hypothesis, form, value, answer)
                assert before - potential(truth, hypothesis) >= promised - 1e-12


@pytest.mark.parametrize("textbook", [False, True])
def test_fitting_ends_within_the_bound_and_leaves_no_mistake(textbook):
    rng = np.random.default_rng(5)
    domain = line(64)
    truth = rng.dirichlet(np.full(64, 0.1))
    rule = QueryMultiplicativeWeights(0.05, textbook=textbook)
    dense = functions(domain, rng.integers(0, 2, (300, 64)))
    blocks = [Kronecker.of(domain, {"x": Prefix(64)}), Kronecker.of(domain, {"x": Identity(64)})]
    for form in (dense, LinearForm(domain, [*dense.blocks, *blocks])):
        hypothesis = uniform(64)
        truths = form.evaluate(DenseHypothesis.from_weights(domain, truth))
        updates = rule.fit(hypothesis, form, truths)
        assert 0 < updates <= rule.update_bound(math.log(64))
        assert np.abs(hypothesis.answers(form) - truths).max() <= 0.05


def test_thresholds_are_learnt_by_pieces_alike():
    domain = line(64)
    form = LinearForm(domain, [Kronecker.of(domain, {"x": Prefix(64)})])
    truths = np.minimum(np.arange(1, 65) / 20, 1.0)
    rule = QueryMultiplicativeWeights(0.05)
    dense, pieces = DenseHypothesis.uniform(domain), PiecewiseHypothesis.uniform(domain)
    assert rule.fit(dense, form, truths) == rule.fit(pieces, form, truths)
    assert pieces.answers(form) == pytest.approx(dense.answers(form), abs=1e-12)


def test_contradicting_answers_are_found_out():
    domain = line(4)
    form = functions(domain, np.array([[1, 0, 0, 0], [1, 0, 0, 0]]))
    with pytest.raises(InvalidArgument, match="truths"):
        QueryMultiplicativeWeights(0.1).fit(uniform(4), form, np.array([0.9, 0.1]))


def test_errors_of_any_stream_add_up_to_less_than_the_regret_bound():
    rng = np.random.default_rng(6)
    truth = rng.dirichlet(np.full(32, 0.1))
    rule = QueryMultiplicativeWeights(ALPHA)
    hypothesis, errors = uniform(32), 0.0
    for _ in range(300):
        p = hypothesis.table(("x",))
        values = (truth > p).astype(float) if rng.random() < 0.7 else rng.random(32)
        form = function(hypothesis.domain, values)
        errors += abs(float(values @ (truth - p)))
        rule.update(hypothesis, form, float(values @ truth))
    assert errors <= rule.regret_bound(math.log(32), 300)


def test_a_value_equal_to_the_answer_gives_no_direction():
    hypothesis = uniform(4)
    form = function(hypothesis.domain, [1, 1, 0, 0])
    assert not QueryMultiplicativeWeights(ALPHA).update(hypothesis, form, 0.5)
    assert hypothesis.answer(form) == 0.5


def test_without_a_cap_there_is_no_bound():
    assert QueryMultiplicativeWeights(ALPHA).update_bound(math.inf) == math.inf


def test_bad_arguments_are_named():
    for bad in (0.0, 1.5, math.nan):
        with pytest.raises(InvalidArgument, match="alpha"):
            QueryMultiplicativeWeights(bad)
    with pytest.raises(InvalidArgument, match="truths"):
        QueryMultiplicativeWeights(0.1).fit(
            uniform(4), functions(line(4), np.ones((2, 4))), np.zeros(3)
        )
