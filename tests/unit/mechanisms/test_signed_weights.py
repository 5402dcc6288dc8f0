"""Functions of weights from -1 to 1: what a row moves, what a step gains, and what is promised."""

import itertools
import math

import numpy as np
import pytest

from dpsdk import Budget, Domain, Integer, Neighbors, PrivateData, Session, wire
from dpsdk.accounting import BasicComposition
from dpsdk.errors import InvalidArgument, QueryError
from dpsdk.forms import Dense, Facts, GapForm, LinearForm
from dpsdk.forms.gap import weight_range
from dpsdk.forms.steps import written
from dpsdk.hypothesis import DenseHypothesis
from dpsdk.kernel import Terms
from dpsdk.kernel.gaps import bits_of_row, prepare_linear
from dpsdk.learning import PotentialMeter, Replay, hoeffding_step, step_towards
from dpsdk.mechanisms import MWEM, NumericSparse, OfflinePMW, OnlinePMW
from dpsdk.queries import Above, Linear, NumericAbove, Workload
from dpsdk.testing import seeded

BITS = 12
LINE = Domain(Integer("x", 0, 3))
COUNTS = [400_000, 300_000, 200_000, 100_000]
RELATIONS = list(Neighbors)
SIGNS = [[-1, 1, -1, 1], [1, 0.5, -0.5, -1], [0, -1, 1, 0], [-0.25, -1, 1, 1]]


def signed(weights, **given):
    return Linear(np.array(weights, dtype=float), low=-1, high=1, **given)


def random_gaps(seed, outside):
    """Gaps of random functions of two or three cells, and the facts of a table of three rows."""
    rng = np.random.default_rng(seed)
    domain = Domain(Integer("x", 0, int(rng.integers(1, 3))))
    size, width = domain.size, rng.choice([0.5, 1, 1, 3, 40])
    weights = rng.choice([-1.0, -0.5, 0.0, 0.3, 1.0], (2, size)) * width
    if rng.random() < 0.3:
        weights = rng.uniform(0.2, 1.0, (2, size)) * width * rng.choice([-1, 1])
    form = LinearForm(domain, [Dense(("x",), (size,), weights)])
    low, high = weight_range(form)
    rates = rng.choice([low, high, 0.0, rng.uniform(low, high)], 2)
    relation = RELATIONS[seed % 2]
    public = 3 if relation is Neighbors.REPLACE_ONE else None
    facts = Facts(domain, relation, public, outside, 4, 1)
    gaps = GapForm(form, rates, rng.uniform(-2, 2, 2), absolute=bool(rng.random() < 0.5))
    return gaps, facts


def farthest(gaps, facts):
    """The largest move of a lattice gap between two tables of up to three rows, in steps."""
    ready = prepare_linear(gaps, facts, BITS)
    columns = written(ready.source).astype(np.int64)
    if facts.outside:
        columns = np.hstack([columns, np.zeros((ready.rows, 1), dtype=np.int64)])
    scores = {
        table: ready.scores(np.append(columns[:, list(table)].sum(axis=1), len(table)))
        for size in range(4)
        for table in itertools.combinations_with_replacement(range(columns.shape[1]), size)
    }
    most = 0
    for table, score in scores.items():
        for place in range(len(table)):
            rest = table[:place] + table[place + 1 :]
            beside = [rest]
            if facts.replaced:
                beside = [tuple(sorted((*rest, cell))) for cell in range(columns.shape[1])]
            most = max(most, *[int(np.abs(score - scores[other]).max()) for other in beside])
    return most


@pytest.mark.parametrize(
    "seeds", [range(60), pytest.param(range(60, 360), marks=pytest.mark.thorough)], ids=str
)
def test_no_row_moves_a_gap_by_more_than_its_price(seeds):
    attained = 0
    for seed in seeds:
        gaps, facts = random_gaps(seed, outside=seed % 4 < 2)
        most = farthest(gaps, facts)
        assert most <= 2**BITS, seed
        attained += most > 2 ** (BITS - 1)
    # Powers of two are at most twice what is moved.
    assert attained > len(seeds) / 3


@pytest.mark.parametrize(
    ("weights", "relation", "wrong"),
    [
        # The range is forgotten; so are rows outside, beside which weights of one sign are far.
        ([-1.0, 1.0], Neighbors.REPLACE_ONE, lambda gap, facts: 1.0),
        ([1.5, 2.0], Neighbors.REPLACE_ONE, lambda gap, facts: 1.0),
        # Rates are forgotten where rows come and go.
        ([-1.0, 1.0], Neighbors.ADD_REMOVE, lambda gap, facts: 1.0),
    ],
)
def test_what_forgets_a_part_is_caught(weights, relation, wrong, monkeypatch):
    domain = Domain(Integer("x", 0, 1))
    gaps = GapForm.around(LinearForm(domain, [Dense(("x",), (2,), np.array([weights]))]), [-0.0])
    gaps = GapForm.around(gaps.form, [weights[0] if weights[0] < 0 else 0.0])
    public = 3 if relation is Neighbors.REPLACE_ONE else None
    facts = Facts(domain, relation, public, True, 4, 1)
    assert farthest(gaps, facts) == 2**BITS
    monkeypatch.setattr(GapForm, "moved", wrong)
    with pytest.raises(InvalidArgument, match="lattice"):
        farthest(gaps, facts)
    monkeypatch.setattr("dpsdk.kernel.gaps._check_moved", lambda *given: None)
    assert farthest(gaps, facts) > 2**BITS


def test_a_row_that_comes_moves_a_gap_from_counts_by_the_largest_weight():
    form = signed([-1, 1, 0, 1]).lower(LINE)
    counts = GapForm(form, np.zeros(1), np.array([7.0]))
    private = Facts(LINE, Neighbors.ADD_REMOVE, None, True, 10, 1)
    assert counts.moved(private) == 1
    assert counts.moved(Facts(LINE, Neighbors.REPLACE_ONE, 10, True, 10, 1)) == 2
    assert GapForm.around(form, np.array([-1.0])).moved(private) == 2
    assert bits_of_row(counts, private, 5) == 5
    with pytest.raises(InvalidArgument, match="smaller weights"):
        bits_of_row(GapForm.around(form, np.array([-1.0])), private, 0)


def potential(truth, hypothesis):
    return float(truth @ np.log(truth / hypothesis.table(("x",))))


@pytest.mark.parametrize("seed", range(25))
def test_a_step_of_a_signed_function_gains_what_it_counts(seed):
    rng = np.random.default_rng(seed)
    weights, truth = rng.uniform(-1, 1, 4), rng.dirichlet(np.ones(4))
    weights[:2] = -1, 1
    hypothesis = DenseHypothesis.uniform(LINE, outside=False)
    form, value = signed(weights).lower(LINE), float(weights @ truth)
    before, meter = potential(truth, hypothesis), PotentialMeter(math.log(4))
    gap = abs(value - hypothesis.answer(form))
    step_towards(hypothesis, form, value, gap / 8, gap, meter=meter)
    assert meter.used == pytest.approx(2 * (gap / 2) ** 2)
    assert before - potential(truth, hypothesis) >= meter.used - 1e-12
    replay, used = Replay(), meter.used
    replay.remember(form, value, 0.01)
    now = potential(truth, hypothesis)
    replay.run(hypothesis, meter)
    assert now - potential(truth, hypothesis) >= meter.used - used - 1e-12


def test_a_step_that_forgets_the_range_gains_nothing():
    hypothesis = DenseHypothesis.uniform(LINE, outside=False)
    form, truth = signed([-1, -1, 1, 1]).lower(LINE), np.array([0.24, 0.24, 0.26, 0.26])
    before = potential(truth, hypothesis)
    for step, gains in [(hoeffding_step(0.04, 2.0), True), (hoeffding_step(0.04), False)]:
        moved = hypothesis.copy()
        moved.shift(form, step)
        assert (potential(truth, moved) < before) is gains


def test_the_range_of_linear_weights_is_declared_and_checked():
    query = signed(SIGNS[1])
    assert repr(query) == "Linear(array of shape (4,), low=-1, high=1)"
    assert query.span(Facts(LINE, Neighbors.REPLACE_ONE, 10, False, 10, 1)) == pytest.approx(2)
    for weights, given in [
        ([-1, 0, 0, 0], {}),
        ([2, 0, 0, 0], {"low": -1}),
        ([0, 0, 0, 0], {"low": 1, "high": 1}),
        ([0, 0, 0, 0], {"high": 2.0**21}),
        ([0, 0, 0, 0], {"low": math.nan}),
        ([0, 0, 0, 0], {"low": "-1"}),
    ]:
        with pytest.raises(InvalidArgument):
            Linear(weights, **given)
    with pytest.raises(QueryError, match="from -1 to 1"):
        Linear(lambda record: -2, low=-1).lower(LINE)
    assert Linear(lambda record: -1, low=-1).lower(LINE).limits == (-1, -1)


def opened(mechanism, counts=COUNTS, seed=0):
    data = PrivateData.from_counts(counts, LINE)
    session = Session(data, Budget(10**4, "0.1"), noise=seeded(seed))
    return session.open(mechanism)


def truth(weights):
    return float(np.dot(weights, COUNTS)) / sum(COUNTS)


@pytest.mark.parametrize(
    "mechanism",
    [
        OnlinePMW(1, alpha=0.25, beta=0.05, queries=4, signed=True),
        OnlinePMW.textbook(2, alpha=0.5, beta=0.05, queries=4, signed=True),
        MWEM.textbook(Workload(map(signed, SIGNS)), 20, rounds=20),
        MWEM.averaged(Workload(map(signed, SIGNS)), 20, rounds=20),
        OfflinePMW(Workload(map(signed, SIGNS)), epsilon=4),
        OfflinePMW(Workload(map(signed, SIGNS)), rho=1),
    ],
    ids=repr,
)
def test_signed_queries_are_answered_within_what_is_promised(mechanism):
    query = Workload(map(signed, SIGNS))
    for seed in range(3):
        with opened(mechanism, seed=seed) as channel:
            release = channel.release(query)
        bound = release.error(0.05)
        assert bound < 2
        wanted = np.array([truth(weights) for weights in SIGNS])
        assert np.abs(np.array(list(release.value)) - wanted).max() <= bound


def test_the_same_error_takes_four_times_the_updates_and_twice_the_noise():
    facts = Facts(LINE, Neighbors.REPLACE_ONE, 10**7, False, 10**7, 1)
    given = {"beta": 0.05, "queries": 100}
    plain = OnlinePMW(1, alpha=0.04, **given).schedule(facts)
    wide = OnlinePMW(1, alpha=0.08, signed=True, **given).schedule(facts)
    assert wide.updates == plain.updates
    assert (wide.threshold, wide.gap, wide.unit) == (2 * plain.threshold, 2 * plain.gap, 2)
    assert wide.promise.alpha == 2 * plain.promise.alpha
    textbook = [
        OnlinePMW.textbook(1, alpha=0.1, signed=one, **given).schedule(facts).updates
        for one in (False, True)
    ]
    assert textbook[1] == pytest.approx(4 * textbook[0], abs=4)
    with pytest.raises(InvalidArgument, match="alpha") as plain_refused:
        OnlinePMW(1, alpha=1e-9, **given).schedule(facts)
    with pytest.raises(InvalidArgument, match="alpha") as refused:
        OnlinePMW(1, alpha=1e-9, signed=True, **given).schedule(facts)
    least = [
        float(str(one.value).split("at least ")[1].split(",")[0])
        for one in (refused, plain_refused)
    ]
    assert least[0] == pytest.approx(2 * least[1], rel=2e-3)


def test_a_stream_of_shares_refuses_signed_queries_and_a_signed_one_takes_both():
    plain = opened(OnlinePMW(1, updates=2))
    with pytest.raises(QueryError, match="from 0 to 1"):
        plain.answer(signed(SIGNS[0]))
    wide = opened(OnlinePMW(1, updates=2, signed=True))
    assert repr(OnlinePMW(1, updates=2, signed=True)).endswith("updates=2, signed=True)")
    assert wide.answer(signed(SIGNS[0])) == pytest.approx(truth(SIGNS[0]), abs=0.01)
    assert wide.answer(Linear([0, 1, 1, 0])) == pytest.approx(0.5, abs=0.01)
    with pytest.raises(QueryError, match="from -1 to 1"):
        wide.answer(Linear([3, 0, 0, 0], high=3))


@pytest.mark.parametrize("relation", RELATIONS)
def test_levels_of_signed_queries_are_told_and_numbers_are_near(relation):
    data = PrivateData.from_counts(COUNTS, LINE, neighbors=relation, max_rows=10**7)
    session = Session(data, Budget(10**6), composition=BasicComposition(), noise=seeded(1))
    with session.open(NumericSparse(8, tops=4)) as channel:
        for weights in SIGNS:
            total = float(np.dot(weights, COUNTS))
            query = signed(weights, normalized=False)
            release = channel.release(NumericAbove(query, total - 1000))
            assert abs(release.value - total) <= release.error(0.01) < 400
    with session.open(NumericSparse(8, tops=4)) as channel:
        for weights in SIGNS:
            assert channel.answer(Above(signed(weights), truth(weights) + 0.01)) is False
    with pytest.raises(InvalidArgument, match="share"):
        session.open(NumericSparse(8, tops=4)).answer(Above(signed(SIGNS[0]), -1.5))


def test_offline_learning_of_signed_functions_scales_its_gap_and_radius():
    data = PrivateData.from_counts(COUNTS, LINE)
    terms = Terms(data.facts)
    halves = Workload([Linear(np.array(w) / 2 + 0.5) for w in SIGNS])
    plans = [OfflinePMW(of, rho=1).plan(terms) for of in (Workload(map(signed, SIGNS)), halves)]
    assert plans[0].rounds == plans[1].rounds
    for name in ("gap", "radius", "threshold", "error"):
        assert getattr(plans[0], name) == pytest.approx(2 * getattr(plans[1], name), rel=1e-3)


@pytest.mark.parametrize(
    "value", [signed(SIGNS[1]), OnlinePMW(1, updates=3, signed=True)], ids=repr
)
def test_a_range_is_written_where_it_is_not_the_usual_one(value):
    kind = "query" if isinstance(value, Linear) else "mechanism"
    assert wire.loads(kind, wire.dumps(value)) == value
    for usual in (Linear([0, 1]), OnlinePMW(1, updates=3)):
        assert not {"low", "high", "signed"} & set(wire.dumps(usual).split('"'))
