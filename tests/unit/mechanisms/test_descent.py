"""Noisy gradient descent: what it promises, pays and refuses."""

import math
from fractions import Fraction

import numpy as np
import pytest
from attrs import evolve
from shares import Shares

from dpsdk import Budget, Categorical, Domain, Integer, Neighbors, PrivateData, Session
from dpsdk.accounting import AdvancedComposition, BasicComposition, ZCDPComposition
from dpsdk.accuracy import NoAccuracy
from dpsdk.errors import BudgetExceeded, InvalidArgument, NoBound, PublicSizeRequired, QueryError
from dpsdk.forms import ConvexForm, Coordinates, Facts
from dpsdk.kernel import GaussianNoise, LaplaceNoise, Measure, Terms
from dpsdk.losses import HuberLoss, LogisticLoss, Loss, QuantileLoss, SquaredLoss, SVMLoss
from dpsdk.mechanisms import NoisyDescent, PrivateMinimizer
from dpsdk.mechanisms.convex.descent import noise_within, scale_gradient
from dpsdk.mechanisms.convex.descent_bounds import Descent, Problem, Runs, best_rule, runs_within
from dpsdk.mechanisms.convex.noise import GaussianConcentration, LaplaceConcentration
from dpsdk.noise import DiscreteGaussian, DiscreteLaplace
from dpsdk.queries import Ball, Box, ConvexMinimization, Count, Simplex
from dpsdk.testing import seeded
from worlds import facts

pytestmark = pytest.mark.thorough

DOMAIN = Domain(Integer("age", 0, 5), Categorical("sex", ["F", "M"]), Integer("income", 0, 2))
RNG = np.random.default_rng(7)
ROWS = 20_000
AGE, SEX = RNG.integers(0, 6, ROWS), RNG.integers(0, 2, ROWS)
INCOME = np.clip(np.rint(AGE / 3 + RNG.normal(0, 0.5, ROWS)), 0, 3).astype(int)  # 3 is outside
COLUMNS = {"age": AGE, "sex": np.array(["F", "M"])[SEX], "income": INCOME}
UNIT = Problem(dimension=6, lipschitz=1.0, smoothness=0.25, radius=1.0)


def data_of(**given):
    return PrivateData.from_columns(COLUMNS, DOMAIN, **given)


DATA = data_of()


BALL = Ball(3)


def query(loss, over=BALL):
    domain_label = "sex" if loss.signed else "income"
    features = ["age"] if loss.signed else ["age", "sex"]
    return ConvexMinimization(loss, features=features, label=domain_label, over=over)


INSIDE = INCOME < 3  # a row with a value outside lies outside as a whole
CELLS = np.zeros(DOMAIN.shape)
np.add.at(CELLS, (AGE[INSIDE], SEX[INSIDE], INCOME[INSIDE]), 1 / ROWS)
TRUTH = Shares(DOMAIN, CELLS)


def excess(form, theta, ridge=0.0):
    weights = TRUTH.table(form.names)

    def risk(one):
        margins, labels = form._margins(one)
        plain = float((weights * form.loss.value(margins, labels)).sum())
        return plain + 0.5 * ridge * float(one @ one)

    best, gap = form.minimise(TRUTH, ridge=ridge, tolerance=1e-5)
    return risk(theta) - risk(best) + gap


@pytest.mark.parametrize(
    ("law", "concentration"),
    [
        (DiscreteGaussian(Fraction(9)), GaussianConcentration(3.0)),
        (DiscreteLaplace(Fraction(3)), LaplaceConcentration(3.0)),
    ],
)
def test_sums_of_noise_stay_below_their_bounds(law, concentration):
    # At t = 1 each event may fail in 37 % of the runs, twice as often for two events; so a bound
    # that is met in all but half of 400 runs is none that failed by chance (below 1e-6).
    steps, dimension, runs = 20, 3, 400
    noise = seeded(5).draw(law, steps * dimension * runs).reshape(runs, steps, dimension)
    noise = noise.astype(float)
    along = np.zeros(runs)
    way = np.zeros((runs, dimension))
    for number in range(steps):
        # The way is against all that came before, as a descent's is.
        way = np.sign(way - noise[:, number - 1]) / math.sqrt(dimension) if number else way + 0.5
        length = np.linalg.norm(way, axis=1).max()
        assert length <= 1.0 + 1e-12
        along += (way * noise[:, number]).sum(axis=1)
    squares = (noise**2).sum(axis=(1, 2)) / steps
    assert (along > concentration.linear(1.0, steps, 1.0)).mean() < 0.5
    assert (squares > concentration.mean_square(1.0, steps, dimension)).mean() < 0.5
    # And they are no empty claim: half of the bound is exceeded.
    assert (squares > concentration.mean_square(1.0, steps, dimension) / 4).mean() > 0.5


@pytest.mark.parametrize("pure", [False, True])
@pytest.mark.parametrize(
    ("loss", "over", "ridge"),
    [
        (LogisticLoss(), Ball(3), 0.0),
        (SquaredLoss(), Ball(3), 0.0),
        (SquaredLoss(), Box(-1, [2, 1, 0.5, 2]), 0.0),
        (HuberLoss(0.2), Simplex(), 0.0),
        (QuantileLoss(0.8), Ball(2), 0.0),
        (SVMLoss(), Ball(3), 0.3),
        (SquaredLoss(), Ball(1), 1.0),
    ],
)
def test_what_is_promised_holds(loss, over, ridge, pure):
    asked = query(loss, over)
    form = asked.lower(DOMAIN)
    total = Budget(1) if pure else Budget(1, "1e-6")
    oracle = NoisyDescent.textbook(ridge=ridge, steps=8)
    using = PrivateMinimizer(epsilon=total.epsilon, delta=total.delta, oracle=oracle)
    session = Session(DATA, Budget(30, "1e-4"), noise=seeded(11))
    quote = session.quote(asked, using=using)
    for _ in range(2):
        release = session.release(asked, using=using)
        bound = release.bound(0.05)
        assert bound.standing == "proven"
        assert bound.error == quote.error(0.05)
        found = release.value.theta
        assert over.contains(found)
        assert excess(form, found) + 1e-9 >= 0.0
        assert excess(form, found) <= bound.error
        alpha = oracle.alpha0(form, Terms(DATA.facts), total, 0.05)
        assert excess(form, found, ridge) <= alpha <= bound.error
        assert release.value.excess == math.inf


def test_the_bound_says_something_where_rows_are_many():
    asked = query(LogisticLoss())
    terms = Terms(DATA.facts)
    quote = NoisyDescent.textbook(steps=512).quote(asked.lower(DOMAIN), terms, Budget(1, "1e-6"))
    assert not quote.bound().vacuous
    assert quote.error(0.05) < 0.1 * asked.lower(DOMAIN).constants.range
    assert quote.error(0.001) > quote.error(0.05) > quote.error(0.5)
    few = NoisyDescent.textbook(steps=1).quote(asked.lower(DOMAIN), terms, Budget("1e-4", "1e-6"))
    assert few.bound().vacuous


def test_the_best_length_of_steps_beats_the_printed_ones():
    # Bassily et al. take 1/(2β) for smooth losses and B/√(T(L²+dσ²)) otherwise.
    for steps in (4, 50, 1000):
        for scale in (1e-4, 0.01, 0.3):
            concentration = GaussianConcentration(scale)
            best = Descent(UNIT, "smooth", steps, concentration).error(0.05)
            assert best <= Descent(UNIT, "smooth", steps, concentration, step=2.0).error(0.05)
            printed = 1 / math.sqrt(steps * (1 + 6 * scale**2))
            best = Descent(UNIT, "lipschitz", steps, concentration).error(0.05)
            assert best <= 1.01 * Descent(
                UNIT, "lipschitz", steps, concentration, step=printed
            ).error(0.05)


def test_a_promise_in_probability_is_not_one_in_expectation():
    # The expectation of the excess is at most B√((L²+dσ²)/T) for the printed steps. What holds with
    # probability 1 - β is more, and the more so the smaller β.
    scale, steps = 0.05, 400
    expected = math.sqrt((1 + 6 * scale**2) / steps)
    printed = Descent(UNIT, "lipschitz", steps, GaussianConcentration(scale), step=expected)
    assert expected < printed.error(0.5) < printed.error(0.05) < printed.error(1e-6)
    # A step that counts on a quarter of L², and one four times too long, cost what they cost.
    quarter = 1 / math.sqrt(steps * (0.25 + 6 * scale**2))
    for step in (quarter, 4 * expected):
        other = Descent(UNIT, "lipschitz", steps, GaussianConcentration(scale), step=step)
        assert other.error(0.05) > printed.error(0.05)


def test_the_practical_descent_promises_nothing():
    asked, using = (
        query(LogisticLoss()),
        PrivateMinimizer(epsilon=1, delta="1e-6", oracle=NoisyDescent(steps=8)),
    )
    session = Session(DATA, Budget(3, "1e-5"), noise=seeded(2))
    release = session.release(asked, using=using)
    assert isinstance(release.accuracy, NoAccuracy)
    with pytest.raises(NoBound, match="textbook"):
        release.error()


def test_rows_fall_as_the_root_of_a_strongly_convex_excess():
    # √d / (√(σ α₀) ε₀), and not √d / (√σ α₀ ε₀): twice the rows make a quarter of the excess.
    one = Problem(dimension=10, lipschitz=1.0, smoothness=math.inf, radius=1.0, ridge=1.0)
    steps = 2**20

    def alpha(rows, dimension=10, ridge=1.0):
        concentration = GaussianConcentration(math.sqrt(steps) / rows)
        known = Problem(
            dimension=dimension, lipschitz=1.0, smoothness=math.inf, radius=1.0, ridge=ridge
        )
        return Descent(known, "strong", steps, concentration).error(0.05)

    assert alpha(200) / alpha(100) == pytest.approx(1 / 4, rel=0.1)
    assert alpha(100, ridge=2.0) / alpha(100) == pytest.approx(1 / 2, rel=0.1)
    assert alpha(100, 1000) / alpha(100, 500) == pytest.approx(2, rel=0.1)
    weak = best_rule(one, steps, GaussianConcentration(math.sqrt(steps) / 100), 0.0, 0.05)
    assert weak.rule == "strong"


def test_without_strong_convexity_rows_fall_as_the_excess():
    steps = 2**20

    def alpha(rows, dimension):
        known = Problem(dimension=dimension, lipschitz=1.0, smoothness=0.25, radius=1.0)
        return Descent(
            known, "smooth", steps, GaussianConcentration(math.sqrt(steps) / rows)
        ).error(0.05)

    assert alpha(2000, 400) / alpha(1000, 400) == pytest.approx(1 / 2, rel=0.05)
    assert alpha(1000, 1600) / alpha(1000, 400) == pytest.approx(2, rel=0.25)


SETTINGS = [{}, {"neighbors": Neighbors.ADD_REMOVE, "max_rows": 30_000}, {"unit_rows": 3}]


@pytest.mark.parametrize("given", SETTINGS)
@pytest.mark.parametrize(
    "noise", [GaussianNoise("1e-6"), GaussianNoise(2), LaplaceNoise("1e-5"), LaplaceNoise(3)]
)
def test_noise_is_never_wider_than_the_constants_tell(given, noise):
    facts = data_of(**given).facts
    generator = np.random.default_rng(1)
    for loss in (LogisticLoss(), SquaredLoss(), QuantileLoss(0.9)):
        for scale in (1e-12, 1.0):
            form = query(loss, Ball(3 * scale)).lower(DOMAIN)
            problem = Problem.of(form)
            rows = float(facts.rows or ROWS)
            concentration, bias = Runs(noise, 1).concentration(problem, facts, rows)
            for _ in range(2):
                theta = form.over.project(generator.normal(size=form.dimension) * 9 * scale)
                found = scale_gradient(form.gradient(theta))
                assert found is not None
                accuracy = Measure(found[0], noise).price(Terms(facts)).accuracy
                unit = found[1] / rows
                assert noise_within(accuracy, unit, concentration, bias, form.dimension)
                # A third of it would not do for all, as the constants are not that loose.
                if noise == GaussianNoise(2) and loss == QuantileLoss(0.9):
                    third = GaussianConcentration(concentration.scale / 6)
                    assert not noise_within(accuracy, unit, third, bias, form.dimension)


@pytest.mark.parametrize(
    "composition",
    [None, BasicComposition(), AdvancedComposition(), ZCDPComposition()],
    ids=["default", "basic", "advanced", "zcdp"],
)
@pytest.mark.parametrize("delta", ["0", "1e-6"])
def test_all_steps_are_paid_at_once(composition, delta):
    if delta == "0" and isinstance(composition, AdvancedComposition | ZCDPComposition):
        return  # which measures no total without a delta
    total = Budget("0.5", delta)
    using = PrivateMinimizer(epsilon="0.5", delta=delta, oracle=NoisyDescent(steps=3))
    given = {} if composition is None else {"composition": composition}
    # A budget of the total, and no more: a part that came later would be refused.
    session = Session(DATA, total, noise=seeded(2), **given)
    asked = query(LogisticLoss())
    quote = session.quote(asked, using=using)
    release = session.release(asked, using=using)
    assert release.cost == quote.at_most
    before = session.spent
    with pytest.raises(BudgetExceeded):
        session.answer(asked, using=using)
    assert session.spent == before


def test_rho_totals_are_kept():
    for rho in (Fraction(1, 1000), Fraction(2), Fraction(700)):
        runs = runs_within(Terms(DATA.facts), rho, 7)
        assert Fraction(99, 100) * rho * Fraction(9, 10) < runs.cost.rho <= rho


def test_a_private_number_of_rows_has_no_bound_and_is_counted():
    data = data_of(neighbors=Neighbors.ADD_REMOVE, max_rows=30_000)
    session = Session(data, Budget(2, "1e-5"), noise=seeded(4))
    asked = query(LogisticLoss())
    promised = PrivateMinimizer(epsilon=1, delta="1e-6", oracle=NoisyDescent.textbook())
    with pytest.raises(PublicSizeRequired):
        session.answer(asked, using=promised)
    assert not session.history
    using = PrivateMinimizer(epsilon=1, delta="1e-6", oracle=NoisyDescent(steps=20))
    release = session.release(asked, using=using)
    assert len(release.cost.guarantees) == 21
    assert excess(asked.lower(DOMAIN), release.value.theta) < 0.05


def test_practical_steps_come_close():
    using = PrivateMinimizer(epsilon=1, delta="1e-6", oracle=NoisyDescent(steps=30))
    session = Session(DATA, Budget(9, "1e-5"), noise=seeded(4))
    for loss, most in ((SquaredLoss(), 0.01), (SVMLoss(), 0.05)):
        asked = query(loss)
        assert excess(asked.lower(DOMAIN), session.answer(asked, using=using).theta) < most


class Breaking(Loss):
    """Convex and as declared wherever a grid looks, and not a number in between."""

    def value(self, z, y):
        return 0.5 * np.square(z - y)

    def derivative(self, z, y):
        slope = np.asarray(z - y)
        return np.where((np.abs(z) > 1e-9) & (np.abs(z) < 1e-2), np.nan, slope)

    def curvature(self, z, y):
        return np.ones_like(z - y)

    def smoothness(self, low, high, labels):
        return 1.0


def test_a_loss_that_breaks_half_way_keeps_what_was_paid_for():
    form = query(SquaredLoss()).lower(DOMAIN)
    object.__setattr__(form, "loss", Breaking())  # `check` would find this one
    session = Session(DATA, Budget(3, "1e-5"), noise=seeded(2))
    terms = Terms(DATA.facts)
    oracle = NoisyDescent.textbook(steps=4)
    quote = oracle.quote(form, terms, Budget(1, "1e-6"))
    assert quote.accuracy.standing == "proven"

    class Asked(ConvexMinimization):
        def lower(self, domain, /):
            return form

    asked = Asked(SquaredLoss(), features=["age", "sex"], label="income", over=Ball(3))
    release = session.release(asked, using=PrivateMinimizer(epsilon=1, delta="1e-6", oracle=oracle))
    assert release.bound().standing == "none"
    assert np.isfinite(release.value.theta).all()


@pytest.mark.parametrize(
    "given",
    [
        {"steps": 0},
        {"steps": 2**15},
        {"steps": 1.5},
        {"ridge": -1},
        {"ridge": math.nan},
        {"steps": "3"},
    ],
)
def test_odd_parameters_are_refused(given):
    with pytest.raises(InvalidArgument):
        NoisyDescent(**given)
    with pytest.raises(InvalidArgument):
        NoisyDescent.textbook(**given)


def test_what_does_not_apply_is_refused_by_name():
    with pytest.raises(InvalidArgument, match="kink"):
        Descent(
            Problem(dimension=2, lipschitz=1, smoothness=math.inf, radius=1),
            "smooth",
            3,
            GaussianConcentration(1),
        )
    with pytest.raises(InvalidArgument, match="ridge"):
        Descent(UNIT, "strong", 3, GaussianConcentration(1))
    with pytest.raises(InvalidArgument, match="beta"):
        NoisyDescent.textbook(beta=0)
    with pytest.raises(QueryError, match="ConvexMinimization"):
        NoisyDescent().quote(Count().lower(DOMAIN), Terms(DATA.facts), Budget(1))
    tiny = Budget("1e-30", "0")
    with pytest.raises(InvalidArgument):
        NoisyDescent(steps=3).quote(query(LogisticLoss()).lower(DOMAIN), Terms(DATA.facts), tiny)


@pytest.mark.parametrize("wrong", [-1.0, math.nan, -math.inf, "1", None])
@pytest.mark.parametrize("name", ["lipschitz", "smoothness", "radius", "ridge", "range"])
def test_constants_that_are_none_are_refused_by_name(name, wrong):
    with pytest.raises(InvalidArgument, match=f"^{name}"):
        evolve(UNIT, **{name: wrong})


@pytest.mark.parametrize("step", [1.0, 1.0 + 2**-40, 10.0])
def test_a_step_as_long_as_the_curvature_allows_has_no_smooth_bound(step):
    """The proof divides by 1 - step times smoothness, which a bound below 0 came from."""
    bent = evolve(UNIT, smoothness=1.0)
    for scale in (1e-3, 10.0):
        known = GaussianConcentration(scale)
        assert Descent(bent, "smooth", 8, known, step=step).error(0.05) == math.inf
        assert Descent(bent, "smooth", 8, known, step=0.99).error(0.05) < math.inf


@pytest.mark.parametrize("delta", ["0", "1e-6"])
def test_steps_are_as_many_as_for_one_row_of_each_person(delta):
    form = query(LogisticLoss()).lower(DOMAIN)
    total = Budget("0.02" if delta == "0" else "0.002", delta)
    counts = [
        NoisyDescent()._plan(form, Terms(facts(DOMAIN, rows=rows, unit_rows=each)), total)[0].count
        for rows, each in ((10_000, 1), (50_000, 5), (50_000, 1))
    ]
    assert counts[0] == counts[1] < counts[2]


def test_facts_of_a_family_need_no_query():
    facts = Facts(DOMAIN, Neighbors.REPLACE_ONE, 10**6, outside=True, row_limit=10**6)
    oracle, total = NoisyDescent.textbook(), Budget(1, "1e-6")
    plain = oracle.alpha0(UNIT, Terms(facts), total, 0.05)
    ridged = Problem(dimension=6, lipschitz=1, smoothness=0.25, radius=1, ridge=1)
    assert oracle.alpha0(ridged, Terms(facts), total, 0.05) > 0
    assert plain < oracle.alpha0(UNIT, Terms(facts), Budget("0.1", "1e-6"), 0.05) < 1


def test_empty_tables_and_sets_of_one_point_are_no_trouble():
    nobody = {name: [] for name in COLUMNS}
    empty = PrivateData.from_columns(nobody, DOMAIN, neighbors=Neighbors.ADD_REMOVE, max_rows=10)
    using = PrivateMinimizer(epsilon=1, delta="1e-6", oracle=NoisyDescent(steps=2))
    session = Session(empty, Budget(3, "1e-5"), noise=seeded(1))
    assert np.isfinite(session.answer(query(SquaredLoss()), using=using).theta).all()
    using = PrivateMinimizer(epsilon=1, delta="1e-6", oracle=NoisyDescent.textbook(steps=2))
    session = Session(DATA, Budget(3, "1e-5"), noise=seeded(1))
    release = session.release(query(SquaredLoss(), Box(1, 1)), using=using)
    assert release.value.theta.tolist() == [1.0] * 4
    assert release.error() < 1e-2
    form = ConvexForm(
        DOMAIN,
        [Coordinates(("age",), np.zeros((1, 6)))],
        "income",
        [0, 1, 2],
        SquaredLoss(),
        Ball(1),
    )
    quote = NoisyDescent.textbook(steps=2).quote(form, Terms(DATA.facts), Budget(1, "1e-6"))
    assert quote.error() == pytest.approx(0.0, abs=1e-9)


@pytest.mark.parametrize("rule", ["smooth", "lipschitz", "strong"])
@pytest.mark.parametrize("pure", [False, True])
def test_bounds_are_near_what_noise_does(rule, pure):
    # A linear loss ⟨g, θ⟩ on a ball, with a ridge for "strong": all that a descent does to it is
    # written here once more, for 300 runs side by side.
    runs, steps, dimension, scale, beta = 300, 64, 5, 1.0, 0.05
    slope = np.full(dimension, 0.3 / math.sqrt(dimension))
    ridge = 0.2 if rule == "strong" else 0.0
    problem = Problem(dimension=dimension, lipschitz=0.3, smoothness=0.0, radius=1.0, ridge=ridge)
    law = DiscreteLaplace(Fraction(40)) if pure else DiscreteGaussian(Fraction(1600))
    concentration = LaplaceConcentration(scale) if pure else GaussianConcentration(scale)
    descent = Descent(problem, rule, steps, concentration, beta=beta)  # type: ignore[arg-type]
    noise = seeded(3).draw(law, runs * steps * dimension).reshape(steps, runs, dimension) / 40
    theta, total = np.zeros((runs, dimension)), np.zeros((runs, dimension))
    weights = np.arange(1, steps + 1) if rule == "strong" else np.ones(steps)
    for number in range(1, steps + 1):
        before = theta
        way = slope + ridge * theta + noise[number - 1]
        moved = theta - descent.length(number) * way
        length = np.linalg.norm(moved, axis=1)[:, None]
        theta = moved / np.maximum(length, 1.0)
        total += weights[number - 1] * (theta if rule == "smooth" else before)
    found = total / weights.sum()
    best = -slope / 0.3 * (min(0.3 / ridge, 1.0) if ridge else 1.0)

    def risk(one):
        return one @ slope + 0.5 * ridge * (one**2).sum(axis=-1)

    excesses = risk(found) - risk(best)
    # Failures of a right bound at 5 % are at most 40 of 300 runs, but with a chance below 1e-7.
    assert (excesses > descent.error(beta)).sum() <= 40
    assert descent.error(beta) < 60 * np.quantile(excesses, 0.95)
    at_once = Problem(dimension=1, lipschitz=2.0, smoothness=math.inf, radius=3.0)
    one = Descent(at_once, "lipschitz", 1, GaussianConcentration(0.0))
    assert one.error(beta) == pytest.approx(6.0)  # as |θ - 3| at 0, times 2
