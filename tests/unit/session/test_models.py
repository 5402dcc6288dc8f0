"""Every channel with a distribution answers a convex minimisation from it, and charges nothing."""

from datetime import date, timedelta

import numpy as np
import polars as pl
import pytest

from dpsdk import Budget, Categorical, Date, Domain, Integer, Neighbors, PrivateData, Session
from dpsdk.accuracy import NoAccuracy
from dpsdk.errors import Closed, InvalidArgument, NoBound, QueryError
from dpsdk.forms import ConvexForm
from dpsdk.hypothesis import Distribution, Mixture
from dpsdk.kernel import GaussianNoise, LaplaceNoise
from dpsdk.losses import LogisticLoss, SquaredLoss
from dpsdk.mechanisms import (
    MWEM,
    DistributionMechanism,
    Gaussian,
    Laplace,
    NoisyHistogram,
    NumericSparse,
    OfflinePMW,
    OneShot,
    OnlinePMW,
    PrivateMinimizer,
    SmallDB,
    SquareRoot,
    SufficientStatistics,
    Tree,
)
from dpsdk.queries import (
    Above,
    Ball,
    ConvexMinimization,
    Count,
    Marginal,
    Model,
    OneHot,
    Threshold,
    Workload,
)
from dpsdk.release import Measurement, Quote
from dpsdk.session.history import Receipt
from dpsdk.testing import seeded
from parallel import at_once
from samples import samples

DOMAIN = Domain(
    Integer("age", 0, 9), Categorical("sex", ["F", "M"]), Categorical("income", ["low", "high"])
)

RNG = np.random.default_rng(3)
AGE, SEX = RNG.integers(0, 10, 2000), RNG.integers(0, 2, 2000)
HIGH = RNG.random(2000) < 1 / (1 + np.exp(4.5 - AGE))
COLUMNS = {
    "age": AGE,
    "sex": np.array(["F", "M"])[SEX],
    "income": np.array(["low", "high"])[HIGH.astype(int)],
}
QUERY = ConvexMinimization(LogisticLoss(), features=["age", "sex"], label="income", over=Ball(10))
PAIRS = Workload([Marginal("age", "income"), Marginal("sex", "income")])
AGES = Workload(Threshold("age", t) for t in range(9))
EVEN = {name: np.ones((2, size)) for name, size in zip(DOMAIN.names, DOMAIN.shape, strict=True)}
MIXTURE = Mixture(DOMAIN, [0.5, 0.5], EVEN, outside_mass=0.01)
CHANNELS = {
    "histogram": NoisyHistogram(epsilon=1),
    "nearest histogram": NoisyHistogram(rho="0.1", consistent=True),
    "mwem": MWEM(PAIRS, epsilon=1, delta="1e-6"),
    "offline": OfflinePMW(AGES, epsilon=1),
    "small database": SmallDB(AGES, epsilon=1, size=20),
    "online": OnlinePMW(1, "1e-6", updates=5),
    "online, mixture": OnlinePMW(1, "1e-6", updates=5, start=MIXTURE),
}
DISTRIBUTIONS = {one.family: one for one in samples(PAIRS, "age", base=DistributionMechanism)}
"""One of each, so that a new mechanism is among them."""


def session(neighbors=Neighbors.REPLACE_ONE, **other):
    data = PrivateData.from_columns(COLUMNS, DOMAIN, neighbors=neighbors)
    return Session(data, Budget(5, "1e-5"), noise=seeded(4), **other)


@pytest.mark.thorough(quick=5)
@pytest.mark.parametrize("name", [*CHANNELS, *DISTRIBUTIONS])
def test_a_channel_answers_from_its_distribution_free(name):
    asked = session()
    with asked.open({**DISTRIBUTIONS, **CHANNELS}[name]) as channel:
        channel.answer(Threshold("age", 4))
        spent, before = str(asked.spent), len(asked.history)
        release = channel.release(QUERY)
        assert type(release.value) is Model
        assert release.value == QUERY.fit(channel.distribution)
        assert release.value.excess <= 1e-6
        assert release.source == "hypothesis"
        assert release.cost.nothing
        assert str(asked.spent) == spent
        assert asked.history[before:] == (Receipt(str(QUERY), channel._name, release.cost),)
        assert asked.answer(QUERY, using=channel) == release.value
        # Linear queries are answered as they were.
        assert isinstance(channel.answer(Count({"age": 3})), float)


@pytest.mark.parametrize("name", ["histogram", "mwem"])
def test_a_good_distribution_has_a_good_model(name):
    with session().open(CHANNELS[name]) as channel:
        model = channel.answer(QUERY)
    right = (model.predict(COLUMNS) > 0.5) == HIGH
    assert right.mean() > 0.85
    assert model.coefficients["age"] > 0.2


def test_nothing_is_said_of_the_table():
    with session().open(NoisyHistogram(epsilon=1)) as channel:
        release = channel.release(QUERY)
    for ask in (release.error, release.errors, release.interval):
        with pytest.raises(NoBound, match="never compared"):
            ask()
    bound = release.bound()
    assert (bound.standing, bound.error, bound.predicted) == ("none", np.inf, None)
    assert "never compared with the table" in repr(release)


def test_a_private_number_of_rows_is_not_needed():
    with session(Neighbors.ADD_REMOVE).open(SmallDB(AGES, epsilon=1, size=20)) as channel:
        assert channel.answer(QUERY).excess <= 1e-6
        with pytest.raises(QueryError):
            channel.answer(Count({"age": 3}))


def test_a_closed_channel_has_no_models():
    asked = session()
    channel = asked.open(NoisyHistogram(epsilon=1))
    channel.close()
    with pytest.raises(Closed):
        channel.answer(QUERY)
    with pytest.raises(Closed):
        channel.release(QUERY)


def test_what_learns_later_leaves_models_as_they_are():
    with session().open(CHANNELS["online"]) as channel:
        early, kept = channel.answer(QUERY), channel.distribution
        for age in range(9):
            channel.answer(Marginal("income", where={"age": age}))
        assert QUERY.fit(kept) == early
        assert QUERY.fit(channel.distribution) == channel.answer(QUERY)


def test_several_threads_get_the_same_model():
    found = []
    with session().open(NoisyHistogram(epsilon=1)) as channel:
        at_once(lambda _: found.append(channel.answer(QUERY)), range(4))
    assert len(found) == 4
    assert all(model == found[0] for model in found)


ONE_SHOT = [Laplace(1), Gaussian(rho="0.1"), Gaussian(epsilon=1, delta="1e-6")]


@pytest.mark.parametrize("mechanism", ONE_SHOT)
def test_what_measures_refuses_models_before_it_is_paid(mechanism):
    asked = session()
    for ask in (asked.answer, asked.release, asked.quote, asked.affords):
        with pytest.raises(QueryError, match="asks for a model") as caught:
            ask(QUERY, using=mechanism)
        assert caught.value.query == str(QUERY)
    assert asked.history == ()
    assert asked.spent.epsilon == 0


@pytest.mark.parametrize(
    "mechanism", [NumericSparse(1, tops=2), Tree("age", epsilon=1), SquareRoot("age", rho="0.1")]
)
def test_channels_without_a_distribution_refuse_models(mechanism):
    asked = session()
    with asked.open(mechanism) as channel:
        spent = str(asked.spent)
        with pytest.raises(QueryError) as caught:
            channel.answer(QUERY)
        assert caught.value.query == str(QUERY)
        assert str(asked.spent) == spent
        with pytest.raises(QueryError):
            asked.quote(QUERY, using=mechanism)


def test_a_level_of_a_model_means_nothing():
    with pytest.raises(InvalidArgument):
        Above(QUERY, 0.5)


class Careless(OneShot):
    """Takes whatever form it is given for a linear one."""

    noise = LaplaceNoise("0.1")

    def quote(self, form, terms, /):
        return Quote((), (), NoAccuracy("careless"))

    def open(self, kernel, /):
        return self

    def answer(self, form, kernel, /):
        return kernel.measure(form, self.noise)


class Reckless(Careless):
    noise = GaussianNoise("0.1")

    def answer(self, form, kernel, /):
        # Numbers that nothing was paid for are public, but must be those of a model.
        assert isinstance(form, ConvexForm)
        return Measurement(np.zeros(2), NoAccuracy("reckless"))


def test_the_kernel_knows_no_convex_forms():
    asked = session()
    with pytest.raises(InvalidArgument):
        asked.answer(QUERY, using=Careless())
    assert asked.spent.epsilon == 0
    with pytest.raises(InvalidArgument, match="theta"):
        asked.answer(QUERY, using=Reckless())


def test_gradients_and_moments_can_be_measured():
    """What a mechanism of one's own may ask the kernel for: the linear forms of a convex one."""

    class Moments(OneShot):
        def quote(self, form, terms, /):
            return Quote((), (), NoAccuracy("of a test"))

        def open(self, kernel, /):
            return self

        def answer(self, form, kernel, /):
            rows = kernel.facts.rows
            asked = kernel.measure(form.moments(), LaplaceNoise(10**5)).values / rows
            second, first = form.matrix(asked[: -form.dimension]), asked[-form.dimension :]
            theta = np.linalg.lstsq(second, first, rcond=1e-6)[0]
            slope = kernel.measure(form.gradient(theta), LaplaceNoise(10**5)).values / rows
            gap = form.over.gap(theta, slope)
            return Measurement(np.append(theta, gap), NoAccuracy("of a test"))

    query = ConvexMinimization(SquaredLoss(), features=["age", "sex"], label="income", over=Ball(9))
    data = PrivateData.from_columns(COLUMNS, DOMAIN)
    asked = Session(data, Budget(10**6, "1e-6"), noise=seeded(1))
    model = asked.answer(query, using=Moments())
    x = np.stack([(AGE - 4.5) / 4.5, SEX == 0, SEX == 1, np.ones(2000)], axis=1)
    best = x @ np.linalg.lstsq(x, HIGH.astype(float), rcond=None)[0]
    np.testing.assert_allclose(model.predict(COLUMNS), best, atol=1e-3)
    assert model.excess <= 1e-3


def test_a_distribution_of_ones_own_answers_models():
    class Halves(Distribution):
        domain, outside, outside_mass = DOMAIN, False, 0.0

        def table(self, names):
            shape = tuple(DOMAIN[name].size for name in names)
            return np.full(shape, 1 / np.prod(shape))

        def records(self, names):
            raise NotImplementedError

        draw = parts = records

        @classmethod
        def from_parts(cls, domain, flags, arrays):
            raise NotImplementedError

    model = QUERY.fit(Halves())
    assert model.coefficients == pytest.approx(dict.fromkeys(["age", "sex=F", "sex=M"], 0))
    np.testing.assert_allclose(model.predict({"age": [3], "sex": ["F"]}), [0.5])


def test_a_model_over_dates_is_the_same_however_the_table_is_kept():
    days = [date(2026, 1, 1) + timedelta(int(one)) for one in AGE]
    domain = Domain(Date("day", date(2026, 1, 1), date(2026, 1, 10)), DOMAIN["income"])
    frame = pl.DataFrame({"day": days, "income": COLUMNS["income"]})
    asked = ConvexMinimization(
        SquaredLoss(), features=[OneHot("day")], label="income", over=Ball(10)
    )
    found = []
    for mode in ("histogram", "marginals"):
        data = PrivateData.from_frame(frame, domain, collect=mode)
        with Session(data, Budget(1, "1e-6"), noise=seeded(1)) as session:
            using = PrivateMinimizer(epsilon=1, oracle=SufficientStatistics())
            found.append(session.answer(asked, using=using))
    assert (found[0].theta == found[1].theta).all()
    assert "day=2026-01-10" in found[0].coefficients
    early, late, never = found[0].predict(
        {"day": [days[0].replace(day=1), days[0].replace(day=10), date(1999, 1, 1)]}
    )
    assert early < 0.2 < 0.8 < late
    assert np.isnan(never)
