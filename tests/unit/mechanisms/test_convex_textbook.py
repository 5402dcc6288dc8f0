"""Figure 3 of Ullman (2015): its promise, its plan, and what its print has wrong."""

import math
from fractions import Fraction

import numpy as np
import pytest
from attrs import evolve
from test_convex_pmw import DOMAIN, SHAPE, Truth, excess, shares

from dpsdk import Budget, Categorical, Domain, Neighbors, PrivateData, Session
from dpsdk.accounting import zcdp_start
from dpsdk.accounting.prices.run import zcdp_rho
from dpsdk.errors import InvalidArgument, PublicSizeRequired, QueryError
from dpsdk.forms import Dense, LinearForm, ProximalGapForm
from dpsdk.hypothesis import DenseHypothesis
from dpsdk.kernel import Terms
from dpsdk.losses import LogisticLoss, QuantileLoss, SVMLoss
from dpsdk.mechanisms import ConvexPMW, NoisyDescent, Problem, SketchedProblem
from dpsdk.mechanisms.convex.descent import descend
from dpsdk.mechanisms.convex.pmw import textbook as module
from dpsdk.mechanisms.convex.pmw.theorem import _lost, figure
from dpsdk.mechanisms.convex.sketch import distortion
from dpsdk.mechanisms.theorems import at_rows
from dpsdk.queries import Ball, Box, ConvexMinimization, Count, Simplex
from dpsdk.testing import seeded
from worlds import facts

pytestmark = pytest.mark.thorough

QUERY = ConvexMinimization(LogisticLoss(), features=["age", "sex"], label="income", over=Ball(1))
OTHER = ConvexMinimization(LogisticLoss(), features=["sex"], label="income", over=Ball(1))
PROBLEM = Problem.of(QUERY.lower(DOMAIN))
ORACLE = NoisyDescent.textbook(steps=16)
ROWS = 10**9


def textbook(**given):
    wanted = {"alpha": 0.1, "beta": 0.05, "queries": 20, "problem": PROBLEM, "oracle": ORACLE}
    return ConvexPMW.textbook(1, "1e-6", **(wanted | given))


def terms(rows=ROWS, **given):
    return Terms(facts(DOMAIN, rows=rows, outside=False, **given))


def session(seed=3):
    counts = np.rint(shares() * ROWS).astype(np.int64)
    data = PrivateData.from_counts(counts, DOMAIN)
    return Session(data, Budget(1, "1e-6"), noise=seeded(seed))


def test_every_model_is_within_the_promise_and_some_is_learnt():
    joint, asking = shares(), session()
    with asking.open(textbook(alpha=0.02)) as channel:
        before = channel.hypothesis
        for query in (QUERY, OTHER, QUERY):
            release = channel.release(query)
            assert release.bound(0.05).standing == "promised"
            assert release.error(0.05) == 0.02
            assert release.bound(0.01).standing == "none"
            error, _ = excess(query.lower(DOMAIN), joint, release.value.theta)
            assert error <= 0.02
        assert release.source == "measured"
        after = channel.hypothesis
        cells = [one.table(DOMAIN.names) for one in (before, after)]
        away = [float((joint * np.log(joint / cell)).sum()) for cell in cells]
        assert away[1] < away[0]
        assert channel.release(Count()).cost.nothing
    spent = sum(zcdp_rho(run) for entry in asking.history for run in entry.cost.guarantees)
    assert spent <= zcdp_start(Fraction(1), Fraction(1, 10**6))


def test_close_models_come_from_the_hypothesis_with_the_same_promise():
    joint = shares()
    mechanism = textbook(alpha=0.4)
    with session().open(mechanism) as channel:
        release = channel.release(OTHER)
    assert release.source == "hypothesis"
    assert release.error(0.05) == 0.4
    assert excess(OTHER.lower(DOMAIN), joint, release.value.theta)[0] <= 0.4


def test_the_whole_figure_costs_no_more_than_its_budget():
    plan, mechanism = textbook().figure(terms()), textbook()
    each = zcdp_rho(plan.watching.guarantee) + plan.noise.rho + plan.oracle
    assert plan.updates * each <= zcdp_start(Fraction(1), Fraction(1, 10**6))
    quote = mechanism.quote(QUERY.lower(DOMAIN), terms())
    assert quote.at_open.nothing
    assert quote.bound(0.05).error == 0.1


def test_the_constants_are_those_of_the_figure_with_what_print_leaves_out():
    plan = textbook().figure(terms())
    scale, potential = 2 * PROBLEM.lipschitz * PROBLEM.radius, math.log(20)
    assert plan.updates == math.ceil(64 * scale**2 * potential / 0.1**2)
    # Printed without 1 / S; with it the step is about α / (8 S²).
    assert plan.step == pytest.approx(0.1 / (8 * scale**2), rel=1e-3)
    assert plan.threshold == pytest.approx(0.075)
    # What the proof needs: T updates would use up more than there is.
    gain = plan.step * plan.alpha / 4 - plan.step**2 * scale**2 / 2
    assert plan.updates * gain > potential
    # Doubling the scale of all losses doubles the alpha that is kept, which print without S denies.
    double = evolve(PROBLEM, lipschitz=2 * PROBLEM.lipschitz, summed=None, smoothness=0.5)
    one = textbook(problem=evolve(PROBLEM, summed=None)).alpha_for(terms())
    assert textbook(problem=double).alpha_for(terms()) == pytest.approx(2 * one, rel=0.01)


def test_planning_finds_the_rows_for_an_alpha_and_the_alpha_for_rows():
    mechanism = textbook()
    rows, small = mechanism.rows_for(terms()), terms(10**3)
    assert mechanism.rows_for(small) == rows  # whatever the table has
    assert 0.0999 <= mechanism.alpha_for(at_rows(small, rows)) <= 0.1001
    asked = mechanism._promise(terms())
    assert figure(0.1, asked, at_rows(small, rows)) is not None
    assert figure(0.1, asked, at_rows(small, int(rows * 0.99))) is None
    assert rows < mechanism.printed_rows(small) / 5
    least = textbook(alpha=1e-3).alpha_for(terms())
    with pytest.raises(InvalidArgument, match=r"at least 0\.0\d+, the least that can be promised"):
        textbook(alpha=1e-3).figure(terms())
    textbook(alpha=least * 1.001).figure(terms())
    assert mechanism.alpha_for(small) is None
    with pytest.raises(InvalidArgument, match="nothing can be promised"):
        mechanism.figure(small)
    with pytest.raises(PublicSizeRequired):
        mechanism.figure(terms(neighbors=Neighbors.ADD_REMOVE))


def test_models_beyond_the_constants_are_refused_before_anything_is_paid():
    asking = session()
    kinked = ConvexMinimization(SVMLoss(), features=["age"], label="income", over=Ball(1))
    quantile = ConvexMinimization(QuantileLoss(0.5), features=["sex"], label="age", over=Ball(1))
    wide = ConvexMinimization(LogisticLoss(), features=["age"], label="income", over=Ball(2))
    with asking.open(textbook()) as channel:
        for query, reason in ((kinked, "smooth it"), (quantile, "smooth it"), (wide, "radius")):
            with pytest.raises(QueryError, match=reason):
                channel.answer(query)
    assert asking.spent.charges == 0
    for given in (
        {"alpha": 0}, {"beta": 1}, {"queries": 0}, {"problem": 3}, {"start": "pairs"},
        {"oracle": object()}, {"when_spent": "stop"},
        {"problem": evolve(PROBLEM, smoothness=math.inf)}, {"problem": evolve(PROBLEM, ridge=0.1)},
    ):  # fmt: skip
        with pytest.raises(InvalidArgument):
            textbook(**given)
    with pytest.raises(InvalidArgument, match="delta"):
        ConvexPMW.textbook(1, 0, alpha=0.1, beta=0.1, queries=3, problem=PROBLEM)


def test_no_promise_after_the_queries_it_was_made_for():
    with session().open(textbook(alpha=0.4, queries=1)) as channel:
        assert channel.release(OTHER).bound(0.05).standing == "promised"
        assert channel.release(OTHER).bound(0.05).standing == "none"


def test_the_printed_sign_makes_the_error_rise():
    """Figure 3 without noise: exp(+ηu) as printed, and exp(-ηu) as the proof has it."""
    form, joint = QUERY.lower(DOMAIN), shares()
    ends = {}
    for sign in (1, -1):
        hypothesis = DenseHypothesis.uniform(DOMAIN)
        errors = []
        for _ in range(40):
            theta, _ = form.minimise(hypothesis)
            errors.append(excess(form, joint, theta)[0])
            gradient = form.gradient(theta)
            truth = gradient.blocks[0].weights @ joint.reshape(-1)
            way = form.over.linear_minimiser(truth) - theta
            weights = way @ gradient.blocks[0].weights
            # ⟨u, p − D⟩ is at least the gap less the certificate of θ̂.
            mean = hypothesis.table(DOMAIN.names).reshape(-1)
            progress = float(weights @ (mean - joint.reshape(-1)))
            assert progress >= form.over.gap(theta, truth) - 1e-5
            block = Dense(form.names, SHAPE, weights[None, :])
            hypothesis.shift(LinearForm(DOMAIN, [block]), sign * 0.5)
        ends[sign] = errors
    assert ends[-1][-1] < 0.3 * ends[-1][0]
    assert ends[1][-1] > 1.2 * ends[1][0]


def test_half_the_sensitivity_is_exceeded_by_some_neighbours():
    """Canary: S / n, and what print has, against the gap of two tables that differ in a row."""
    form = QUERY.lower(DOMAIN)
    theta = np.array([0.3, -0.2, 0.5, 0.1])
    gradient = form.gradient(theta).blocks[0].weights
    scale = 2 * PROBLEM.lipschitz * PROBLEM.radius
    moved = 0.0
    rng = np.random.default_rng(0)
    for _ in range(300):
        counts = rng.multinomial(3, np.full(20, 1 / 20)).astype(float)
        gone, come = rng.choice(np.flatnonzero(counts)), rng.integers(20)
        other = counts.copy()
        other[gone] -= 1
        other[come] += 1
        gaps = [form.over.gap(theta, gradient @ table) for table in (counts, other)]
        moved = max(moved, abs(gaps[0] - gaps[1]))
    assert moved <= 2 * scale
    sharp = ProximalGapForm.of(form, theta).sensitivity
    assert moved <= sharp <= 2 * scale * (1 + 1e-6)
    assert moved > sharp / 2


def test_an_oracle_without_a_bound_of_the_plain_loss_is_refused():
    for oracle in (NoisyDescent(), NoisyDescent(steps=16), NoisyDescent.textbook(ridge=0.1)):
        with pytest.raises(InvalidArgument, match="oracle"):
            textbook(oracle=oracle)


@pytest.mark.parametrize("beta", [0.5, 0.05, 1e-9])
def test_the_descent_that_runs_is_the_one_that_was_planned_for_all_models(beta, monkeypatch):
    """Planned for each model and another confidence, it has another bound than was promised."""
    mechanism = textbook(alpha=0.02, oracle=NoisyDescent.textbook(beta=beta, steps=64))
    ran = []

    def recorded(form, descent, runs, *given, **named):
        ran.append((descent, runs))
        return descend(form, descent, runs, *given, **named)

    monkeypatch.setattr(module, "descend", recorded)
    with session().open(mechanism) as channel:
        plan = channel._strategy._plan
        channel.release(OTHER)  # of smaller constants
        channel.release(QUERY)
    assert ran
    for descent, runs in ran:
        assert (descent, runs) == (plan.descent, plan.runs)
        assert descent.problem == PROBLEM
        assert descent.error(0.05 / (3 * plan.updates)) <= 0.02
        assert runs.cost.rho <= plan.oracle


def test_numbers_beyond_all_measure_are_refused_in_words():
    given = DenseHypothesis.product(
        DOMAIN, {one.name: np.eye(one.size)[0] for one in DOMAIN.attributes}, None
    )
    for wild in (
        {"start": given},
        {"alpha": 1e-99},
        {"problem": evolve(PROBLEM, lipschitz=1e200, summed=None)},
    ):
        mechanism = textbook(**wild)
        with pytest.raises(InvalidArgument, match="promised here"):
            mechanism.figure(terms())
        assert mechanism.rows_for(terms()) is None
        assert mechanism.printed_rows(terms()) > 1e9


@pytest.mark.parametrize("interrupted", [True, False])
def test_tops_that_taught_nothing_do_not_count_for_the_promise(interrupted, monkeypatch):
    with session().open(textbook(alpha=0.02)) as channel:
        strategy = channel._strategy
        strategy._plan = evolve(strategy._plan, updates=1)
        if interrupted:

            def stopped(*given):
                raise KeyboardInterrupt

            monkeypatch.setattr(strategy, "_learn", stopped)
            with pytest.raises(KeyboardInterrupt):
                channel.release(QUERY)
        else:
            assert channel.release(QUERY).source == "measured"
        release = channel.release(QUERY)
        assert release.source == "hypothesis"
        assert release.cost.nothing
        assert release.bound(0.05).standing == ("none" if interrupted else "promised")


def test_noise_beyond_the_constants_ends_the_promise(monkeypatch):
    with session().open(textbook(alpha=0.02)) as channel:
        strategy = channel._strategy
        narrow = evolve(strategy._plan.concentration, scale=strategy._plan.concentration.scale / 10)
        descent = evolve(strategy._plan.descent, concentration=narrow)
        strategy._plan = evolve(strategy._plan, concentration=narrow, descent=descent)
        release = channel.release(QUERY)
        assert release.source == "measured"
        assert release.bound(0.05).standing == "none"
        assert strategy._learnt == 0


RIDGE = 0.2
RIDGED = Problem.of(QUERY.lower(DOMAIN), ridge=RIDGE)
STEEP = NoisyDescent.textbook(steps=64, ridge=RIDGE)


def ridged(**given):
    return textbook(**({"problem": RIDGED, "oracle": STEEP} | given))


def with_ridge(form, joint, theta, ridge=RIDGE):
    """By how much the average loss with the ridge exceeds its least value."""
    table = Truth(joint)
    best, gap = form.minimise(table, ridge=ridge, tolerance=1e-9)
    losses = [form.value(table, one) + 0.5 * ridge * float(one @ one) for one in (theta, best)]
    return losses[0] - losses[1] + gap


@pytest.mark.parametrize("outside", [0, ROWS // 4])
def test_with_a_ridge_every_model_is_within_the_promise_for_the_loss_with_it(outside):
    """Rows outside have the ridge alone; no run fails but with probability 1e-6."""
    joint = shares(outside=outside / ROWS)
    counts = np.rint(joint * ROWS).astype(np.int64)
    sources, plain = [], 0.0
    for seed in range(3):
        data = PrivateData.from_counts(counts, DOMAIN, outside_rows=outside)
        asking = Session(data, Budget(1, "1e-6"), noise=seeded(seed))
        with asking.open(ridged(alpha=0.012, beta=1e-6)) as channel:
            for query in (OTHER, QUERY):
                release = channel.release(query)
                sources.append(release.source)
                assert release.bound(1e-6).standing == "promised"
                assert release.error(1e-6) == 0.012
                form, theta = query.lower(DOMAIN), release.value.theta
                assert with_ridge(form, joint, theta) <= 0.012
                plain = max(plain, excess(form, joint, theta)[0])
            after = channel.hypothesis.table(DOMAIN.names)
        beyond = outside / ROWS * np.log(1 - after.sum())
        assert (joint * np.log(after)).sum() + beyond > np.log(1 / 21)
    assert "measured" in sources
    assert plain > 0.012  # of the loss without the ridge nothing of the kind is promised


def test_the_gap_with_a_ridge_bounds_the_excess_of_the_ridged_loss_and_without_its_shift_does_not():
    """Canary: λθ̂ left out of the gradient, the gap is below the excess."""
    form, joint = QUERY.lower(DOMAIN), shares()
    rng = np.random.default_rng(5)
    missed = 0
    for _ in range(30):
        theta = QUERY.over.project(rng.normal(size=form.dimension))
        gap, bare = (
            evolve(ProximalGapForm.of(form, theta, RIDGE), shift=shift).value(Truth(joint))
            for shift in (RIDGE * theta, None)
        )
        true = with_ridge(form, joint, theta)
        assert true <= gap + 1e-8
        missed += bare < true - 1e-3
    assert missed


@pytest.mark.parametrize("over", [Ball(1), Box(-1, 0.5), Simplex()])
def test_an_update_with_a_ridge_gains_what_the_proof_says(over):
    """And half of what noise may take from it is taken by some, for a canary."""
    query = ConvexMinimization(LogisticLoss(), features=["age", "sex"], label="income", over=over)
    form, rng, most = query.lower(DOMAIN), np.random.default_rng(7), 0.0
    for _ in range(60):
        ridge = float(10 ** rng.uniform(-2, 1))
        table, other = rng.dirichlet(np.ones(20), size=2).reshape(2, *SHAPE)
        theta, _ = form.minimise(Truth(other), ridge=ridge, tolerance=1e-3)
        weights = form.gradient(theta).blocks[0].weights
        means = [weights @ cells.reshape(-1) for cells in (table, other)]
        gaps = [form.over.gap(theta, one + ridge * theta, ridge=ridge) for one in means]
        z = rng.normal(size=form.dimension) * 10 ** rng.uniform(-3, 0)
        way = form.over.project(-(means[0] + z) / ridge) - theta
        gained = float(way @ (means[1] - means[0]))
        length = float(np.linalg.norm(z))
        lost = _lost(length, Problem.of(form, ridge))
        assert gained >= gaps[0] - gaps[1] - lost - 1e-9
        most = max(most, (gaps[0] - gaps[1] - gained) / lost)
    assert most > 0.1


def test_noise_takes_no_less_from_an_update_than_its_square_over_twice_the_ridge():
    """Canary: attained at an inner point, so that a smaller constant would be false."""
    theta, table = np.zeros(2), np.array([0.1, 0.0])
    z, ridge, over = np.array([0.3, -0.2]), 2.0, Ball(1)
    way = over.project(-(table + z) / ridge) - theta
    # At θ̂ = 0 the gradient on p is 0, and so is its gap; u has the mean −⟨way, table⟩ off.
    bend = 0.5 * ridge * float(way @ way)
    lost = over.gap(theta, table, ridge=ridge) - (-float(way @ table) - bend)
    assert lost == pytest.approx(float(z @ z) / (2 * ridge))


def test_the_plan_with_a_ridge_has_the_square_of_noise_and_the_same_watch():
    plain, plan = textbook().figure(terms()), ridged().figure(terms())
    assert (plan.unit, plan.watching, plan.updates) == (plain.unit, plain.watching, plain.updates)
    length = plain.learning / PROBLEM.diameter
    assert plan.learning == pytest.approx(min(plain.learning, length**2 / (2 * RIDGE)))
    assert plan.learning < plain.learning
    assert plan.descent.problem == RIDGED
    assert ridged().rows_for(terms()) == textbook().rows_for(terms())  # the watch decides
    # The oracle is the one with the ridge, where none was given.
    assert ConvexPMW.textbook(
        1, "1e-6", alpha=0.1, beta=0.05, queries=20, problem=RIDGED
    ).oracle == NoisyDescent.textbook(ridge=RIDGE)


def test_a_ridge_is_refused_where_the_oracle_has_another_or_it_is_none():
    with pytest.raises(InvalidArgument, match="oracle"):
        ridged(oracle=NoisyDescent.textbook(ridge=2 * RIDGE))
    with pytest.raises(InvalidArgument, match="oracle"):
        ridged(oracle=NoisyDescent.textbook())
    faint = {"problem": evolve(RIDGED, ridge=1e-200), "oracle": evolve(STEEP, ridge=1e-200)}
    with pytest.raises(InvalidArgument, match="ridge"):
        ridged(**faint)


SKETCHED = SketchedProblem.of(QUERY.lower(DOMAIN), 600)


def on_sketches(**given):
    wanted = {"problem": SKETCHED, "oracle": NoisyDescent.textbook(steps=16), "alpha": 0.6}
    return textbook(**(wanted | given))


def test_sketched_models_are_within_the_promise_and_answer_in_all_features():
    joint = shares()
    mechanism = on_sketches(queries=4, beta=0.1)
    assert mechanism.lost == pytest.approx(SKETCHED.slope * mechanism.distortion)
    with session().open(mechanism) as channel:
        for query in (OTHER, QUERY):
            release = channel.release(query)
            form, theta = query.lower(DOMAIN), release.value.theta
            assert theta.shape == (form.dimension,)
            assert release.bound(0.1).standing == "promised"
            assert release.error(0.1) == 0.6
            assert excess(form, joint, theta)[0] <= 0.6


def test_all_of_figure_3_runs_on_one_sketch(monkeypatch):
    """Watch, update and oracle see one form of 600 coordinates, whose loss is that of Φᵀθ."""
    forms, gaps, thetas, learnt = [], [], [], []

    def recorded(form, *given, **named):
        forms.append(form)
        found = descend(form, *given, **named)
        thetas.append(found[0])
        return found

    monkeypatch.setattr(module, "descend", recorded)
    with session().open(on_sketches(queries=4, beta=0.1)) as channel:
        strategy = channel._strategy
        check, learn = strategy._check_gap, strategy._learn
        monkeypatch.setattr(strategy, "_check_gap", lambda gap: (gaps.append(gap), check(gap)))
        monkeypatch.setattr(
            strategy, "_learn", lambda *given: (learnt.append(given[0]), learn(*given))
        )
        strategy._plan = evolve(strategy._plan, threshold=-1.0)  # all are above
        releases = [channel.release(QUERY) for _ in range(2)]
    form, truth = QUERY.lower(DOMAIN), Truth(shares())
    assert [id(one) for one in learnt] == [id(one) for one in forms]
    for release, one, gap, theta in zip(releases, forms, gaps, thetas, strict=True):
        assert release.source == "measured"
        assert one.dimension == gap.gradient.rows == SKETCHED.size
        assert gap.over == one.over == Ball(one.over.radius)
        there, here = one.value(truth, theta), form.value(truth, release.value.theta)
        assert here == pytest.approx(there, rel=1e-9)
    # Each model has a sketch of its own: the data may have a say in what is asked next.
    assert not np.array_equal(forms[0].coordinates[0].values, forms[1].coordinates[0].values)


def test_a_sketch_that_lengthens_a_feature_vector_is_refused_and_costs_nothing(monkeypatch):
    asking = session()
    with asking.open(on_sketches(queries=2, beta=0.1)) as channel:
        strategy = channel._strategy
        longest, strategy._longest = strategy._longest, 0.5
        with pytest.raises(QueryError, match="another one is drawn"):
            channel.release(QUERY)
        assert asking.spent.charges == 0
        strategy._longest = longest
        # Each sketch that was drawn is one that could have failed.
        standings = [channel.release(QUERY).bound(0.1).standing for _ in range(2)]
        assert standings == ["promised", "none"]


def test_constants_of_sketches_are_checked_and_planned_for():
    mechanism = on_sketches(beta=0.1)
    with pytest.raises(InvalidArgument, match="problem"):
        on_sketches(problem=evolve(SKETCHED, size=50))
    with pytest.raises(InvalidArgument, match="oracle"):
        on_sketches(oracle=STEEP)
    wide = ConvexMinimization(LogisticLoss(), features=["age"], label="income", over=Ball(2))
    side = ConvexMinimization(LogisticLoss(), features=["age"], label="income", over=Box(-1, 1))
    with pytest.raises(QueryError, match="slope"):
        mechanism.check(wide.lower(DOMAIN))
    with pytest.raises(InvalidArgument, match="Ball"):
        mechanism.check(side.lower(DOMAIN))
    least = mechanism.alpha_for(terms())
    assert least > mechanism.lost > 0.25
    on_sketches(beta=0.1, alpha=least * 1.001).figure(terms())
    with pytest.raises(InvalidArgument, match="the least that can be promised"):
        on_sketches(beta=0.1, alpha=least * 0.99).figure(terms())
    assert on_sketches(beta=0.1, alpha=0.1).rows_for(terms()) is None
    assert on_sketches(alpha=0.1).printed_rows(terms()) == math.inf
    # A sketch of each model is for β / 2k, and Figure 3 for β / 2.
    assert mechanism.distortion == distortion(600, SKETCHED.vectors, 0.1 / 2 / 20)
    assert mechanism._promise(terms()).beta == 0.05
    quote = mechanism.quote(QUERY.lower(DOMAIN), terms())
    assert quote.bound(0.1).error == 0.6
    for wrong in (
        {"slope": 0}, {"bend": -1}, {"norm": math.inf}, {"radius": -1}, {"size": 0},
        {"range": -1}, {"range": math.nan}, {"range": "2"}, {"bend": math.nan}, {"vectors": 0},
    ):  # fmt: skip
        with pytest.raises(InvalidArgument, match=f"^{next(iter(wrong))}"):
            evolve(SKETCHED, **wrong)


@pytest.mark.audit
def test_models_of_more_features_than_a_sketch_has_are_learnt_on_it():
    """900 values, each with a coefficient, and no run fails but with probability 0.1."""
    domain = Domain(
        Categorical("z", [f"{place}" for place in range(900)]), Categorical("y", ["no", "yes"])
    )
    given = {"features": ["z"], "label": "y", "over": Ball(4)}
    query = ConvexMinimization(LogisticLoss(), **given)
    form = query.lower(domain)
    weights = np.random.default_rng(0).dirichlet(np.ones(900))[:, None] * np.array([0.1, 0.9])
    counts = np.rint(weights * 2e10).astype(np.int64)
    problem = SketchedProblem.of(form, 700)
    assert problem.size < form.dimension

    class Shares:
        def table(self, names):
            assert names == ("z", "y")
            return counts / counts.sum()

    wanted = {"alpha": 1.7, "beta": 0.1, "queries": 3, "problem": problem, "oracle": ORACLE}
    data = PrivateData.from_counts(counts, domain)
    asking = Session(data, Budget(1, "1e-6"), noise=seeded(1))
    with asking.open(ConvexPMW.textbook(1, "1e-6", **wanted)) as channel:
        release = channel.release(query)
    assert release.source == "measured"
    assert release.bound(0.1).standing == "promised"
    best, _ = form.minimise(Shares())
    values = [form.value(Shares(), one) for one in (release.value.theta, best, 0 * best)]
    assert values[0] <= values[1] + 1.7
    # Far closer than that, and than what knows nothing of the table.
    assert values[0] <= values[1] + 0.2 * (values[2] - values[1])
