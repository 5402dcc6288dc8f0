"""Models that are all known beforehand: privacy by enumeration, bounds, and the theorem."""

import math
from fractions import Fraction
from unittest.mock import patch

import numpy as np
import pytest
from attrs import evolve
from shares import Shares
from test_convex_pmw import DOMAIN, Truth, excess, shares
from test_convex_pmw import data as table

from dpsdk import Boolean, Budget, Domain, Neighbors, PrivateData, Session, Stopped
from dpsdk.accounting import BasicComposition, Odometer
from dpsdk.accounting.guarantee import BoundedRangeGuarantee, PureGuarantee
from dpsdk.accounting.prices.run import pure_epsilon, zcdp_rho
from dpsdk.errors import InvalidArgument, NoBound, PublicSizeRequired, QueryError, TooLarge
from dpsdk.forms import ConvexForm, Coordinates, ProximalGapForm
from dpsdk.forms.steps import Steps
from dpsdk.hypothesis import DenseHypothesis, Pairs, Uniform
from dpsdk.kernel import Kernel, LaplaceNoise, Select, Terms
from dpsdk.losses import LogisticLoss, SquaredLoss, SVMLoss
from dpsdk.mechanisms import OfflineConvexPMW, OfflinePMW
from dpsdk.mechanisms.convex.pmw import learner as module
from dpsdk.mechanisms.convex.pmw.learner import KnownModels, Promised
from dpsdk.mechanisms.convex.pmw.strategy import measured_gradient
from dpsdk.mechanisms.mwem.plan import Plan
from dpsdk.mechanisms.theorems import at_rows
from dpsdk.queries import Ball, ConvexMinimization, Count, Marginal, OneVsRest, Workload
from dpsdk.testing import seeded
from dpsdk.testing.audit import audit, neighbours
from worlds import facts

PAIR = Domain(Boolean("a"), Boolean("b"))


def model(*features, label="income", radius=1, loss=None):
    """One on the domain of the other tests."""
    loss = LogisticLoss() if loss is None else loss
    return ConvexMinimization(loss, features=[*features], label=label, over=Ball(radius))


MODELS = Workload([
    model("age", "sex"), model("sex"), model("age"), model("age", label="sex"),
    model("income", "age", label="sex"),
])  # fmt: skip
FORMS = MODELS.lower(DOMAIN).parts
SCALE = 2 / (1 + math.exp(-1))
"""S: no gradient is longer than the slope of the loss at a margin of 1, and balls are 2 wide."""


def session(rows=100_000, seed=0, **given):
    return Session(table(rows, **given), Budget(50, "1e-3"), noise=seeded(seed))


def excesses(release, joint=None):
    joint = shares() if joint is None else joint
    pairs = zip(FORMS, release.value, strict=True)
    return [excess(form, joint, one.theta)[0] for form, one in pairs]


def opposed():
    """Two models of which each row of one sort improves one and not the other."""
    return [
        ConvexForm(PAIR, [Coordinates((), [1.0])], name, [-3.0, 1.0], SquaredLoss(), Ball(1))
        for name in PAIR.names
    ]


def of_true():
    """A hypothesis that nearly all is true, so that both models are best at 1."""
    weights = np.full((2, 2), 1e-12)
    weights[1, 1] = 1.0 - 3e-12
    return DenseHypothesis.from_weights(PAIR, weights, 0.0)


def kernel_of(data, noise):
    return Kernel(data, Odometer(Budget(10**6), BasicComposition()), noise, "models")


def one_round(epsilon, told, *, noise=None):
    """All that one round of two models tells, where a choice takes half of it."""
    half = Fraction(epsilon, 2)
    plan = Plan("tuned", 1, half, LaplaceNoise(half) if noise is None else noise)

    def run(data, source):
        learner = KnownModels(opposed(), plan, data.facts, Uniform(), None)
        learner._hypothesis = of_true()
        learner.round(kernel_of(data, source))
        return (*told, learner._best.excess.gap, learner._hypothesis.table(PAIR.names).tobytes())

    return run


def choice(epsilon):
    """Which of the two is chosen."""

    def run(data, source):
        gaps = [ProximalGapForm.of(form, [1.0]) for form in opposed()]
        return kernel_of(data, source).select(gaps, epsilon)

    return run


def recorded(told, *, unscaled):
    """Measure, and tell which model's gradient it was and all its numbers."""

    def measured(gradient, noise, kernel):
        if unscaled:  # noise for weights up to 1 on numbers that were not divided
            noise = LaplaceNoise(4 * noise.epsilon)
        with patch("dpsdk.kernel.lattice._FINEST", 0):  # so coarse that it can be enumerated
            result = measured_gradient(gradient, noise, kernel)
        told[:] = [gradient.names, result[0].tobytes()]
        return result

    return measured


@pytest.mark.parametrize("broken", [None, "half the sensitivity"])
def test_a_choice_of_models_keeps_its_claim_over_all_tiny_neighbours(broken, monkeypatch):
    if broken:
        moved = Steps.moved
        monkeypatch.setattr(Steps, "moved", lambda *given, **how: moved(*given, **how) / 2)
    report = audit(choice(2), neighbours(PAIR, 2), BoundedRangeGuarantee(2))
    assert report.passed is (broken is None), report
    assert report.figure > report.allowed * (1.1 if broken else 0.9)


@pytest.mark.parametrize("broken", [None, "choice not paid", "noise unscaled"])
def test_a_round_keeps_its_claim_over_all_tiny_neighbours(broken, monkeypatch):
    noise = LaplaceNoise(12) if broken == "choice not paid" else None
    told = []
    wrong = recorded(told, unscaled=broken == "noise unscaled")
    monkeypatch.setattr(module, "measured_gradient", wrong)
    run = one_round(12, told, noise=noise)
    report = audit(run, neighbours(PAIR, 1), PureGuarantee(12), tail=1e-6)
    assert report.passed is (broken is None), report
    # Of two options a choice of bounded range tells half of its ε by itself.
    assert report.figure > report.allowed * (1.1 if broken else 0.6)


@pytest.mark.thorough(quick=1)
@pytest.mark.parametrize(
    "given",
    [{"epsilon": 2, "delta": "1e-6"}, {"rho": "0.1", "start": "uniform"}, {"epsilon": 8}],
    ids=repr,
)
def test_the_bound_covers_all_models_at_once_and_no_more_is_paid(given):
    mechanism, seen = OfflineConvexPMW(MODELS, rounds=3, **given), []
    for seed in range(3):
        asking = session(20_000, seed)
        quote = asking.quote(MODELS, using=mechanism)
        with asking.open(mechanism) as channel:
            release = channel.release(MODELS)
        assert release.cost.nothing
        assert release.bound(0.05).standing == "promised"
        error = release.error(0.05)
        assert release.errors(0.05).tolist() == [error] * len(FORMS)
        assert release.error(0.01) > error
        seen.append(max(excesses(release)) <= error)
        paid = [run for entry in asking.history for run in entry.cost.guarantees]
        assert len(paid) == len(quote.at_most.guarantees)
        assert sum(map(zcdp_rho, paid)) <= sum(map(zcdp_rho, quote.at_most.guarantees))
    assert all(seen)
    runs = quote.at_most.guarantees
    if mechanism.rho is not None:
        assert sum(map(zcdp_rho, runs)) <= mechanism.rho
    elif not mechanism.delta:
        assert sum(map(pure_epsilon, runs)) <= mechanism.epsilon
    else:
        whole = Session(table(20_000), Budget(mechanism.epsilon, mechanism.delta), noise=seeded(1))
        whole.open(mechanism).close()


def test_the_bound_is_that_of_the_worst_model_and_of_nothing_less():
    """With next to no noise it is the largest gap that any of the models has."""
    asking = Session(table(10**9), Budget(10**6, "1e-3"), noise=seeded(1))
    with asking.open(OfflineConvexPMW(MODELS, rho=10**4, rounds=1, start="uniform")) as channel:
        release = channel.release(MODELS)
        uniform = DenseHypothesis.uniform(DOMAIN, outside=True)
        gaps = [
            ProximalGapForm.of(form, form.minimise(uniform)[0]).value(Truth(shares()))
            for form in FORMS
        ]
        assert release.error(0.05) == pytest.approx(max(gaps), rel=1e-3)
        assert max(gaps) > 1.1 * sorted(gaps)[-2]
        assert max(excesses(release)) <= max(gaps)
        assert channel.hypothesis.table(("sex",)).tolist() == [10 / 21, 10 / 21]


@pytest.mark.parametrize(("epsilon", "error"), [("0.01", 10**9), (10**9, "0.01")])
def test_the_bound_counts_on_a_wrong_choice_and_on_noise(epsilon, error):
    """So vague a choice is mostly wrong, and so much noise may hide what it likes."""
    plan = Plan("tuned", 1, Fraction(epsilon), LaplaceNoise(error))
    uniform = DenseHypothesis.uniform(DOMAIN, outside=True)
    gaps = [ProximalGapForm.of(form, form.minimise(uniform)[0]) for form in FORMS]
    worst = max([gap.value(Truth(shares())) for gap in gaps])
    held, lower = 0, 0
    for seed in range(16):
        known = table(10_000)
        learner = KnownModels(FORMS, plan, known.facts, Uniform(), None)
        learner.round(Kernel(known, Odometer(Budget(10**12), BasicComposition()), seeded(seed), ""))
        found = learner._best.excess
        held += worst <= found.error(0.5)
        lower += found.gap < 0.9 * worst
    assert held >= 12
    assert lower >= 2


def printed(alpha=0.5, **given):
    return OfflineConvexPMW.textbook(MODELS, alpha=alpha, **({"rho": 1} | given))


def terms(rows=10**6, **given):
    return Terms(facts(DOMAIN, rows=rows, outside=True, **given))


BOTH = Workload([
    ConvexMinimization(LogisticLoss(), features=[one], label=other, over=Ball(1))
    for one, other in (("a", "b"), ("b", "a"))
])  # fmt: skip


@pytest.mark.thorough(quick=1)
@pytest.mark.parametrize("seed", range(8))
def test_every_model_is_within_the_promise_after_some_rounds(seed):
    """Of rows that are far from uniform, so that there is something to learn."""
    mechanism = OfflineConvexPMW.textbook(BOTH, rho=1, alpha=0.3)
    rows = mechanism.rows_for(Terms(facts(PAIR, rows=1)))
    joint = np.array([[0.06, 0.01], [0.01, 0.92]])
    counts = np.rint(rows * joint).astype(int)
    asking = Session(PrivateData.from_counts(counts, PAIR), Budget(9, "1e-6"), noise=seeded(seed))
    quote = asking.quote(BOTH, using=mechanism)
    assert quote.bound(0.05).error == 0.3
    assert quote.bound(0.04).standing == "none"
    with asking.open(mechanism) as channel:
        release = channel.release(BOTH)
    forms, truth = BOTH.lower(PAIR).parts, Shares(PAIR, counts / counts.sum())
    for form, found in zip(forms, release.value, strict=True):
        least = form.value(truth, form.minimise(truth, tolerance=1e-9)[0])
        assert form.value(truth, found.theta) - least <= release.error(0.05) <= 0.3
    runs = [run for entry in asking.history for run in entry.cost.guarantees]
    assert 2 * 10 < len(runs) < 2 * mechanism.plan(Terms(facts(PAIR, rows=rows))).rounds
    assert sum(map(zcdp_rho, runs)) < 1


def test_the_plan_is_that_of_the_theorem():
    mechanism, rows = printed(), 10**6
    plan = mechanism.plan(terms(rows))
    potential = math.log(DOMAIN.size + 1)
    assert plan.rounds == math.ceil(64 * SCALE**2 * potential / 0.25)
    assert plan.start is None
    cost = mechanism.quote(MODELS.lower(DOMAIN), terms(rows)).at_open
    assert 0.98 < sum(map(zcdp_rho, cost.guarantees)) <= 1
    assert plan.choice**2 / 8 < Fraction(1, plan.rounds)


def test_rows_for_and_alpha_for_agree_and_a_smaller_alpha_is_refused():
    mechanism = printed()
    rows = mechanism.rows_for(terms())
    assert mechanism.alpha_for(at_rows(terms(), rows)) == pytest.approx(0.5, rel=2e-3)
    assert mechanism.rows_for(terms(), alpha=0.4) > rows
    assert mechanism.rows_for(terms(), beta=0.5) < rows
    known = at_rows(terms(), rows)
    assert mechanism.alpha_for(known, MODELS, beta=0.01) > mechanism.alpha_for(known)
    assert mechanism.alpha_for(known, model("sex")) == mechanism.alpha_for(known)
    assert mechanism.alpha_for(known, model("sex", radius=2)) is None
    assert mechanism.rows_for(terms(), model("sex", radius=2)) is None
    assert OfflineConvexPMW(MODELS, rho=1).alpha_for(terms()) is None
    few = session(rows // 4)
    with pytest.raises(InvalidArgument, match=r"at least .*, the least that can be promised"):
        few.open(mechanism)
    with pytest.raises(InvalidArgument, match="nothing can be promised here"):
        session(100).open(mechanism)
    assert few.spent.charges == 0


@pytest.mark.parametrize("sign", [1, -1])
def test_a_step_lowers_the_distance_to_the_table_as_the_proof_says_and_the_other_sign_raises_it(
    sign,
):
    step, alpha = 0.02, 0.1
    learner = KnownModels(
        FORMS, Plan("tuned", 5, Fraction(10**5), LaplaceNoise(10**5)), facts(DOMAIN, rows=10**9),
        Uniform(), Promised(alpha, 0.05, sign * step, 1e-7),
    )  # fmt: skip
    kernel = kernel_of(table(10**9), seeded(3))
    joint = shares()
    learner.begin(kernel)
    before = (joint * np.log(joint / learner._hypothesis.table(DOMAIN.names))).sum()
    learner.round(kernel)
    after = (joint * np.log(joint / learner._hypothesis.table(DOMAIN.names))).sum()
    gained = step * learner._best.excess.gap - step**2 * SCALE**2 / 2
    assert gained > 0
    if sign > 0:
        assert before - after >= gained
    else:
        assert after > before


def test_what_is_answered_beside_the_workload_has_no_bound():
    asking = session()
    with asking.open(OfflineConvexPMW(MODELS, epsilon=1, delta="1e-6", rounds=1)) as channel:
        other = channel.release(model("sex", radius=2))
        with pytest.raises(NoBound):
            other.error(0.05)
        mixed = channel.release(Workload([model("sex"), model("sex", radius=2)]))
        assert np.isfinite(mixed.errors(0.05)).tolist() == [True, False]
        assert channel.release(model("sex")).error(0.05) < 1
        count = channel.release(Count())
        assert count.value == pytest.approx(1, abs=1e-3)
        assert channel.answer(Marginal("sex")).values.sum() == pytest.approx(1, abs=1e-3)
        assert channel.distribution.table(("sex",)).sum() == pytest.approx(1, abs=1e-3)
        assert all(one.cost.nothing for one in (other, mixed, count))


def test_it_is_opened_for_one_answer_and_may_be_stopped():
    asking = session()
    mechanism = OfflineConvexPMW(MODELS, epsilon=1, delta="1e-6", rounds=4)
    whole = asking.release(MODELS, using=mechanism)
    assert not whole.cost.nothing
    assert whole.error(0.05) < math.inf
    with pytest.raises(Stopped) as caught:
        asking.open(mechanism, stop=lambda done: done.done == 1)
    with caught.value.channel as channel:
        assert channel.release(MODELS).error(0.05) < math.inf
    poor = Session(table(), Budget("0.12"), composition=BasicComposition(), noise=seeded(1))
    with pytest.raises(Stopped) as caught:
        poor.open(OfflineConvexPMW(MODELS, epsilon="0.2", rounds=4))
    with caught.value.channel as channel, pytest.raises(NoBound):
        # The pairs were paid, and no round.
        channel.release(MODELS).error(0.05)


REFUSED = [
    ({"workload": "age"}, InvalidArgument, "workload"),
    ({"workload": OfflinePMW}, InvalidArgument, "workload"),
    ({"rounds": 0}, InvalidArgument, "rounds"),
    ({"rounds": 10**6}, InvalidArgument, "from 1 to 1,000"),
    ({"rho": 1}, InvalidArgument, "rho alone"),
    ({"start": "nothing"}, InvalidArgument, "start"),
]


@pytest.mark.parametrize(("given", "error", "words"), REFUSED)
def test_arguments_are_read(given, error, words):
    with pytest.raises(error, match=words):
        OfflineConvexPMW(**({"workload": MODELS, "epsilon": 1} | given))


def test_textbook_arguments_are_read():
    for given, words in (
        ({"alpha": 0}, "alpha"), ({"alpha": math.nan}, "alpha"), ({"beta": 1}, "beta"),
        ({"start": Pairs()}, "public distribution"), ({"rho": None}, "epsilon"),
    ):  # fmt: skip
        with pytest.raises(InvalidArgument, match=words):
            printed(**given)
    with pytest.raises(InvalidArgument, match="alpha"):
        evolve(printed(), rounds=3)


UNFIT = [
    (Marginal("sex"), InvalidArgument, "models"),
    (OneVsRest(model("sex", label="age")), QueryError, "PrivateMinimizer"),
    (Workload([model("sex"), model("sex", label="nobody")]), Exception, "nobody"),
]


@pytest.mark.parametrize(("workload", "error", "words"), UNFIT)
def test_models_that_cannot_be_learnt_are_refused_before_anything_is_paid(workload, error, words):
    asking = session()
    for mechanism in (
        OfflineConvexPMW(workload, rho=1),
        OfflineConvexPMW.textbook(workload, 1, "1e-6", alpha=0.5),
    ):
        with pytest.raises(error, match=words):
            asking.open(mechanism)
        with pytest.raises(error, match=words):
            mechanism.plan(terms())
    assert asking.spent.charges == 0


def test_models_of_too_many_weights_together_are_refused(monkeypatch):
    monkeypatch.setattr("dpsdk.mechanisms.convex.pmw.offline._MOST_WEIGHTS", 100)
    asking = session()
    with pytest.raises(TooLarge, match="ask fewer"):
        asking.open(OfflineConvexPMW(MODELS, rho=1))
    assert asking.spent.charges == 0
    asking.open(OfflineConvexPMW(MODELS.queries[1], rho=1, rounds=1)).close()


def test_kinks_are_for_rounds_without_a_promise():
    hinge = model("sex", loss=SVMLoss())
    asking = session()
    with pytest.raises(QueryError, match="kink"):
        asking.open(OfflineConvexPMW.textbook(hinge, rho=1, alpha=0.5))
    assert asking.spent.charges == 0
    with asking.open(OfflineConvexPMW(hinge, rho=1, rounds=2)) as channel:
        release = channel.release(hinge)
        assert excess(hinge.lower(DOMAIN), shares(), release.value.theta)[0] <= release.error(0.05)


def test_the_number_of_rows_must_be_public():
    columns = {"age": [0, 1], "sex": ["F", "M"], "income": ["low", "high"]}
    private = PrivateData.from_columns(
        columns, DOMAIN, neighbors=Neighbors.ADD_REMOVE, max_rows=9, outside="raise"
    )
    asking = Session(private, Budget(1, "1e-6"), noise=seeded(1))
    for mechanism in (OfflineConvexPMW(MODELS, rho=1), printed()):
        with pytest.raises(PublicSizeRequired):
            asking.open(mechanism)
        with pytest.raises(PublicSizeRequired):
            mechanism.rows_for(Terms(private.facts))


def test_proximal_gaps_are_chosen_among_by_themselves():
    gaps = [ProximalGapForm.of(form, [1.0]) for form in opposed()]
    known = Terms(facts(PAIR, rows=10, outside=False))
    assert Select(gaps, 1).price(known).accuracy.options == 2
    # Two rows of a person move a score twice as far, and all in one unit.
    twice = Select(gaps, 1).price(Terms(facts(PAIR, rows=10, outside=False, unit_rows=2)))
    assert twice.accuracy.scale == pytest.approx(2 * Select(gaps, 1).price(known).accuracy.scale)
    for wrong in ([], [gaps[0], 3], "gaps"):
        with pytest.raises(InvalidArgument, match="gaps"):
            Select(wrong, 1).price(known)
    for given in ({"penalties": [0, 1]}, {"opposites": True}, {"groups": [slice(0, 1)]}):
        with pytest.raises(InvalidArgument, match="groups"):
            Select(gaps, 1, **given).price(known)
