"""Wide models on public records, and many models from one opening of tables of pairs."""

import math
from fractions import Fraction

import numpy as np
import pytest

from dpsdk import Budget, Domain, Integer, Neighbors, PrivateData, Session, wire
from dpsdk._records import evolve
from dpsdk.accounting import BasicComposition, EnvelopeComposition, ZCDPComposition, zcdp_rho
from dpsdk.errors import BudgetExceeded, InvalidArgument, TooLarge, UnsupportedGuarantee
from dpsdk.forms import ConvexForms, Coordinates, Facts
from dpsdk.hypothesis import Mixture, Records, SyntheticData
from dpsdk.kernel import Kernel, Terms
from dpsdk.losses import HuberLoss, LogisticLoss, SquaredLoss
from dpsdk.mechanisms import (
    ConvexPMW,
    Gaussian,
    HeavyBall,
    OneShot,
    OnlinePMW,
    PairTables,
    PrivateMinimizer,
    Sampled,
)
from dpsdk.mechanisms.convex.pair_tables import _Pairs, suits_tables
from dpsdk.queries import (
    Ball,
    ConvexMinimization,
    Count,
    Cross,
    OneHot,
    OneVsRest,
    Scaled,
    Softmax,
    Workload,
)
from dpsdk.release import Cost, Quote
from dpsdk.testing import seeded

DELTA = Fraction(1, 10**6)
NAMES = [f"a{place}" for place in range(9)]
WIDE = Domain(*[Integer(name, 0, 5) for name in NAMES], Integer("y", 0, 1))


def columns(rows=20_000, seed=0):
    rng = np.random.default_rng(seed)
    base = rng.integers(0, 6, rows)
    codes = [(base + rng.integers(0, 3, rows) * rng.integers(0, 2, rows)) % 6 for _ in NAMES]
    odds = sum(np.where(code > 2, 1.0, -1.0) for code in codes[:3])
    label = rng.random(rows) < 1 / (1 + np.exp(-odds))
    return dict(zip(NAMES, codes, strict=True)) | {"y": label.astype(np.int64)}


COLUMNS = columns()
TABLE = SyntheticData(WIDE, np.stack([*COLUMNS.values()], axis=1))


def opened(budget=None, known=None, noise=None, composition=None, **given):
    data = PrivateData.from_columns(known or COLUMNS, WIDE, **given)
    source = noise or seeded(1)
    return Session(data, budget or Budget(1, DELTA), noise=source, composition=composition)


def model(leave=None, loss=None, label="y", feature=OneHot):
    features = [feature(name) for name in NAMES if name not in (leave, label)]
    return ConvexMinimization(loss or LogisticLoss(), features=features, label=label)


FIRST, *OTHERS = [model(name) for name in NAMES[5:]]
MODELS = Workload([FIRST, *OTHERS])
ONE = Budget(1, DELTA)
TOGETHER = PrivateMinimizer(epsilon=1, delta=DELTA, oracle=PairTables())


@pytest.fixture(autouse=True)
def few_records(monkeypatch):
    monkeypatch.setattr("dpsdk.mechanisms.convex.pair_tables._RECORDS", 2**12)


def excess(query, theta):
    form = query.lower(WIDE)
    best, gap = form.minimise(TABLE, ridge=1e-9)
    assert gap < 1e-5
    return form.value(TABLE, theta) - form.value(TABLE, best)


NARROW = Domain(
    Integer("a", 0, 4), Integer("b", 0, 2, missing=True), Integer("c", 0, 3), Integer("y", 0, 2)
)


@pytest.mark.parametrize("loss", [SquaredLoss(), HuberLoss(0.3)])
@pytest.mark.parametrize("features", [[OneHot("a"), "b", "c"], [OneHot("a"), Cross("b", "c")]])
def test_records_give_the_model_that_their_cells_give(loss, features, monkeypatch):
    rng = np.random.default_rng(3)
    codes = np.stack([rng.integers(0, size, 300) for size in NARROW.shape], axis=1)
    codes[codes[:, 0] == 4, 0] = 0  # a label that no record has
    records = Records(NARROW, codes, rng.random(300), outside_mass=0.1)
    query = ConvexMinimization(loss, features=features, label="y", over=Ball(5))
    form = query.lower(NARROW)
    theta, gap = form.fit(records)
    at = np.linspace(-1, 1, form.dimension)
    gradient, hessian = form.expand(records, at)
    monkeypatch.setattr("dpsdk.forms.convex.CELL_LIMIT", 10)
    assert form.wide
    again, wide_gap = form.fit(records)
    assert max(gap, wide_gap) < 1e-6
    assert form.value(records, again) == pytest.approx(form.value(records, theta), abs=2e-6)
    assert again[4] == theta[4] == 0.0
    for one, other in zip(form.expand(records, at), (gradient, hessian), strict=True):
        np.testing.assert_allclose(one, other, atol=1e-12)
    # Beyond what two axes may be tabulated on, rows are multiplied out.
    monkeypatch.setattr("dpsdk.forms.of_records._TABLE", 0)
    np.testing.assert_allclose(form.expand(records, at)[1], hessian, atol=1e-12)


def test_wide_models_are_fitted_on_records_alone():
    query = model()
    found = query.fit(TABLE)
    assert found.excess < 1e-5
    assert query.lower(WIDE).wide
    signs = [found.coefficients[f"a0={code}"] for code in range(6)]
    assert min(signs[3:]) > max(signs[:3])
    tables = {
        name: np.full((1, size), 1 / size)
        for name, size in zip(WIDE.names, WIDE.shape, strict=True)
    }
    mixture = Mixture(WIDE, [1.0], tables)
    with pytest.raises(TooLarge, match="synthesize"):
        query.fit(mixture)
    assert query.fit(mixture.synthesize(500, 1)).excess < 1e-5
    # Nobody inside the domain: any model is as good.
    beyond = Records(WIDE, TABLE.codes[:5], outside_mass=1 - 1e-12)
    assert np.isfinite(query.fit(beyond).theta).all()
    with pytest.raises(TooLarge, match="fewer records"):
        model(loss=SquaredLoss(), label="a0").fit(Records(WIDE, np.zeros((200_000, 10), dtype=int)))


def test_one_opening_answers_all_models_at_the_price_of_one():
    session = opened()
    release = session.release(MODELS, using=TOGETHER)
    one = opened().release(FIRST, using=TOGETHER)
    assert release.source == one.source == "hypothesis"
    assert release.cost == one.cost
    assert session.spent.charges == len(release.cost.guarantees) == 3
    quote = opened().quote(MODELS, using=TOGETHER)
    assert quote.at_open.free
    assert "tables of pairs" in quote.bound().kind == release.bound().kind
    for query, found in zip(MODELS.queries, release.value, strict=True):
        assert excess(query, found.theta) < 0.03
        assert math.isinf(found.excess)


def test_what_they_are_is_a_function_of_what_was_released(monkeypatch):
    released = []
    run = Kernel.run

    def recorded(self, request, /, **given):
        released.append(run(self, request, **given))
        return released[-1]

    monkeypatch.setattr(Kernel, "run", recorded)
    first = opened().answer(MODELS, using=TOGETHER)
    # The same numbers, whatever the table: here one that has nothing in common with it.
    left = list(released)
    monkeypatch.setattr(Kernel, "run", lambda *_, **__: left.pop(0))
    other = columns(seed=5)
    other["a3"] = np.zeros_like(other["a3"])
    second = opened(known=other).answer(MODELS, using=TOGETHER)
    assert not left
    for one, again in zip(first, second, strict=True):
        np.testing.assert_array_equal(one.theta, again.theta)


class Forgetful(PairTables):
    """A broken twin, which leaves the first purchase out of its quote."""

    def quote(self, form, terms, total, /):
        whole = super().quote(form, terms, total)
        return Quote(whole.at_open, Cost(whole.at_most.runs[1:]), whole.accuracy)


def covered(oracle, composition, total):
    """True if what is charged is no more than the quote says, by the composition itself."""
    using = PrivateMinimizer(epsilon=total.epsilon, delta=total.delta, oracle=oracle)
    session = opened(total, composition=composition)
    quote = session.quote(MODELS, using=using).at_most
    session.answer(MODELS, using=using)
    state = composition.charge_all(composition.begin(total), quote.runs)
    assert state is not None
    return len(quote.guarantees) >= session.spent.charges and session.spent.fraction <= 1


@pytest.mark.thorough(quick=1)
@pytest.mark.parametrize("composition", [ZCDPComposition(), EnvelopeComposition()])
@pytest.mark.parametrize("total", [Budget(1, DELTA), Budget("0.3", "1e-9")])
def test_no_more_is_charged_than_was_quoted(composition, total):
    assert covered(PairTables(), composition, total)


@pytest.mark.thorough(quick=1)
@pytest.mark.parametrize("rho", ["0.02", "0.5", "40"])
def test_a_total_in_rho_is_kept(rho):
    class AtRho(OneShot):
        def quote(self, form, terms, /):
            return PairTables().quote(form, terms, Fraction(rho))

        def open(self, kernel, /):
            return self

        def answer(self, form, kernel, /):
            return PairTables().minimise(form, kernel, Fraction(rho))

    session = opened(Budget(200, DELTA), composition=ZCDPComposition())
    release = session.release(OTHERS[0], using=AtRho())
    quote = opened(composition=ZCDPComposition()).quote(OTHERS[0], using=AtRho())
    for cost in (release.cost, quote.at_most):
        paid = sum([zcdp_rho(one) for one in cost.guarantees])
        assert 0.9 * Fraction(rho) < paid <= Fraction(rho)


def test_a_quote_without_the_opening_is_noticed():
    assert not covered(Forgetful(), ZCDPComposition(), Budget(1, DELTA))


def terms(rows=20_000):
    kind = Neighbors.ADD_REMOVE if rows is None else Neighbors.REPLACE_ONE
    return Terms(Facts(WIDE, kind, rows, False, rows or 20_000, 1))


def chosen(models, total=ONE, domain=WIDE, **given):
    parts = [query.lower(domain) for query in models]
    return suits_tables(ConvexForms(domain, parts), terms(**given), total)


def test_what_is_forecast_better_is_chosen_by_public_facts():
    four = [model(name) for name in NAMES[:4]]
    assert chosen(four)
    assert not chosen(four[:2])
    # The more privacy loss, the less noise there is to share; and too little is of no use.
    assert not chosen(four, Budget(60, DELTA))
    assert chosen(four * 12, Budget(8, DELTA))
    assert not chosen(four, rows=100)
    assert not chosen(four, Budget(1))
    assert not chosen(four, rows=None)
    assert not chosen(four, rows=10**6)
    # Numbers in fine steps, products and narrow models are found apart.
    narrow = ConvexMinimization(LogisticLoss(), features=[OneHot("a0")], label="y")
    assert not chosen([*four, narrow])
    crossed = [OneHot(name) for name in NAMES[2:]] + [Cross(OneHot("a0"), OneHot("a1"))]
    assert not chosen([*four, ConvexMinimization(LogisticLoss(), features=crossed, label="y")])
    each = OneVsRest(ConvexMinimization(LogisticLoss(), features=NAMES[1:], label="a0"))
    assert not chosen([*four, each])
    steps = [model(name, feature=Scaled) for name in NAMES[:4]]
    assert chosen(steps)
    fine = Domain(*[Integer(name, 0, 8) for name in NAMES], WIDE["y"])
    assert not chosen(steps, domain=fine)


def test_a_workload_takes_them_and_one_model_does_not():
    using = PrivateMinimizer(epsilon=1, delta=DELTA)
    assert opened().quote(MODELS, using=using) == opened().quote(MODELS, using=TOGETHER)
    release = opened().release(MODELS, using=using)
    again = opened().release(MODELS, using=TOGETHER)
    np.testing.assert_array_equal(release.value.values, again.value.values)
    assert "tables of pairs" in release.bound().kind
    assert using.oracle_for(FIRST.lower(WIDE)) == HeavyBall()
    two = Workload([FIRST, OTHERS[0]])
    assert len(opened().quote(two, using=using).at_most.guarantees) > 50


@pytest.mark.thorough
@pytest.mark.parametrize("given", [{}, {"neighbors": Neighbors.ADD_REMOVE}])
def test_other_models_are_found_when_they_are_asked_for(given):
    narrow = ConvexMinimization(LogisticLoss(), features=["a0", OneHot("a1")], label="y")
    classes = OneVsRest(ConvexMinimization(LogisticLoss(), features=["y"], label="a0"))
    number = model(loss=SquaredLoss(), label="a0")
    found = opened(**given).answer(Workload([narrow, classes, number]), using=TOGETHER)
    assert excess(narrow, found[0].theta) < 0.02
    assert found[1].theta.shape == (6, 2)
    assert excess(number, found[2].theta) < 0.05


def test_a_wide_softmax_is_found():
    softmax = Softmax(ConvexMinimization(LogisticLoss(), features=NAMES[1:], label="a0"))
    found = opened().answer(softmax, using=TOGETHER)
    guessed = found.predict({name: COLUMNS[name][:500] for name in NAMES[1:]})
    assert np.mean(np.array(guessed) == COLUMNS["a0"][:500]) > 0.3


def test_missing_values_and_nothing_but_an_intercept():
    domain = Domain(Integer("a", 0, 3, missing=True), Integer("y", 0, 1))
    rows = {"a": [0, 1, 2, 3, None] * 400, "y": [0, 0, 1, 1, 1] * 400}
    data = PrivateData.from_columns(rows, domain)
    query = ConvexMinimization(LogisticLoss(), features=["a"], label="y")
    found = Session(data, Budget(2, DELTA), noise=seeded(1)).answer(query, using=TOGETHER)
    assert found.coefficients["a"] > 0.5
    # A model of nothing but its intercept.
    form = evolve(query.lower(domain), coordinates=[Coordinates((), [1.0])])
    assert _Pairs.of((form,)).sets == (("y",),)


def test_refusals_cost_nothing():
    session = opened()
    fine = Domain(*[WIDE[name] for name in NAMES], Integer("y", 0, 999))
    many = PrivateData.from_columns(COLUMNS, fine)
    with Session(many, ONE, noise=seeded(1)) as other:
        query = model(loss=SquaredLoss())
        with pytest.raises(TooLarge, match="coarser label"):
            other.answer(query, using=TOGETHER)
        with pytest.raises(TooLarge, match="coarser label"):
            other.quote(query, using=TOGETHER)
        assert other.spent.charges == 0
    with pytest.raises(UnsupportedGuarantee):
        opened(composition=BasicComposition()).answer(MODELS, using=TOGETHER)
    # There is no Gaussian noise there, nor gradients with any other.
    using = PrivateMinimizer(epsilon=1, delta=DELTA)
    with pytest.raises(InvalidArgument, match="delta"):
        opened(composition=BasicComposition()).answer(MODELS, using=using)
    for given, error in [
        ({"epsilon": 1}, InvalidArgument),
        ({"epsilon": 2, "delta": DELTA}, BudgetExceeded),
        ({"epsilon": "1e-12", "delta": "1e-30"}, InvalidArgument),
    ]:
        using = PrivateMinimizer(oracle=PairTables(), **given)
        with pytest.raises(error):
            session.answer(MODELS, using=using)
    assert session.spent.charges == 0
    assert session.affords(MODELS, using=TOGETHER)


@pytest.mark.thorough(quick=1)
@pytest.mark.parametrize("piece", [2**20, 100])
def test_all_is_paid_before_the_first_number_is_read(piece, monkeypatch):
    monkeypatch.setattr("dpsdk.mechanisms.local_marginals.mechanism._PIECE", piece)
    session = opened(composition=ZCDPComposition())
    session.answer(MODELS, using=TOGETHER)
    # However many requests it looks by, with shares of what is quoted for all of them.
    quote = opened(composition=ZCDPComposition()).quote(MODELS, using=TOGETHER).at_most
    assert session.spent.fraction == pytest.approx(1, abs=1e-6)
    assert session.spent.fraction <= 1
    assert (session.spent.charges == len(quote.guarantees)) is (piece > 100)
    # Where the first step alone would fit, nothing is paid either.
    poor = opened(composition=ZCDPComposition())
    poor.answer(Count(), using=Gaussian(rho="0.01"))
    with pytest.raises(BudgetExceeded):
        poor.answer(MODELS, using=TOGETHER)
    assert poor.spent.charges == 1


def test_they_are_written_as_others_are():
    back = wire.loads("mechanism", wire.dumps(TOGETHER))
    assert back == TOGETHER
    assert repr(TOGETHER.oracle) == "PairTables()"


def test_a_guard_on_records_answers_models_of_few_attributes():
    guard = ConvexPMW(1, DELTA, updates=3, start=Sampled("0.9", records=2**14))
    few = ConvexMinimization(LogisticLoss(), features=[OneHot("a0"), OneHot("a1")], label="y")
    session = opened(Budget(2, DELTA))
    with session.open(guard) as channel:
        assert isinstance(channel.distribution, Records)
        release = channel.release(few)
        assert release.source == "hypothesis"
        assert release.bound().standing == "proven"
        assert excess(few, release.value.theta) < min(release.error(0.05), 0.02)
        spent = session.spent
        for wide in (FIRST, MODELS):
            with pytest.raises(TooLarge, match="the channel's distribution"):
                channel.release(wide)
            with pytest.raises(TooLarge, match="the channel's distribution"):
                session.quote(wide, using=guard)
        assert session.spent == spent
        assert excess(FIRST, FIRST.fit(channel.distribution).theta) < 0.03


@pytest.mark.thorough
def test_a_guard_on_records_learns_what_pairs_do_not_tell():
    rng = np.random.default_rng(2)
    known = {name: rng.integers(0, 6, 20_000) for name in NAMES}
    known["y"] = ((known["a0"] > 2) ^ (known["a1"] > 2)).astype(np.int64)
    crossed = ConvexMinimization(
        LogisticLoss(), features=[Cross(OneHot("a0"), OneHot("a1"))], label="y", over=Ball(20)
    )
    session = opened(Budget(8, DELTA), known=known)
    guard = ConvexPMW(8, DELTA, updates=3, start=Sampled("0.5", records=2**14), threshold=0.02)
    with session.open(guard) as channel:
        first, second = channel.release(crossed), channel.release(crossed)
        assert first.source == "measured"
        assert second.source == "hypothesis"
        truth = SyntheticData(WIDE, np.stack([*known.values()], axis=1))
        form = crossed.lower(WIDE)
        level = form.value(truth, form.centre())
        assert form.value(truth, second.value.theta) < level / 3


def test_other_streams_answer_wide_models_from_their_records():
    start = Sampled("0.9", records=2**14)
    with opened().open(OnlinePMW(1, DELTA, updates=1, start=start)) as channel:
        release = channel.release(FIRST)
    assert release.cost.free
    assert excess(FIRST, release.value.theta) < 0.03
