"""Convex minimisation: what a model reads of a record, and what comes back."""

import numpy as np
import pytest
from attrs import frozen

from dpsdk import Binned, Boolean, Categorical, Domain, Integer, SyntheticData
from dpsdk.errors import DataError, InvalidArgument, QueryError, TooLarge, UnknownAttribute
from dpsdk.hypothesis import DenseHypothesis
from dpsdk.losses import GLMLoss, HuberLoss, LogisticLoss, Loss, QuantileLoss, SquaredLoss, SVMLoss
from dpsdk.queries import (
    Ball,
    Box,
    ConvexMinimization,
    Count,
    Cross,
    Feature,
    Model,
    OneHot,
    Scaled,
    Simplex,
    Threshold,
    Workload,
)

DOMAIN = Domain(
    Integer("age", 20, 29),
    Categorical("sex", ["F", "M"]),
    Binned("hours", [0, 10, 20, 40]),
    Boolean("member"),
    Categorical("edu", ["a", "b", "c"]),
)
RNG = np.random.default_rng(11)
CODES = np.stack([RNG.integers(0, size, 500) for size in DOMAIN.shape], axis=1)
CODES[:, 3] = RNG.random(500) < 1 / (1 + np.exp(4 - CODES[:, 0] - CODES[:, 4]))
PEOPLE = SyntheticData(DOMAIN, CODES)
COLUMNS = {
    name: [attribute.label(code) for code in column]
    for name, attribute, column in zip(DOMAIN.names, DOMAIN.attributes, CODES.T, strict=True)
}
COLUMNS["hours"] = [(low + high) / 2 for low, high in COLUMNS["hours"]]


def minimization(**other):
    given = {"features": ["age", "sex"], "label": "member", "over": Ball(30)} | other
    loss = given.pop("loss", LogisticLoss())
    return ConvexMinimization(loss, **given)


def columns():
    """The numbers of age, sex and hours, the slow way."""
    age = (np.array(COLUMNS["age"]) - 24.5) / 4.5
    sex = np.array(COLUMNS["sex"])
    return np.stack([age, sex == "F", sex == "M", np.ones(500)], axis=1).astype(float)


def test_least_squares_is_that_of_linear_algebra():
    query = minimization(loss=SquaredLoss(), features=["age", "sex"], label="hours", over=Ball(500))
    model = query.fit(PEOPLE)
    hours, x = np.array(COLUMNS["hours"]), columns()
    best = x @ np.linalg.lstsq(x, hours, rcond=None)[0]
    np.testing.assert_allclose(model.predict(COLUMNS), best, atol=0.05)
    # In the unit of the loss, hours go from -1 at 0 to 1 at 40.
    excess = np.mean(np.square(model.predict(COLUMNS) - best)) / 2 / 20**2
    assert excess <= model.excess + 1e-12
    assert model.excess <= 1e-6


def test_coefficients_are_in_the_units_of_the_data():
    model = minimization(features=["age", "sex", "edu"]).fit(PEOPLE)
    names = ["age", "sex=F", "sex=M", "edu=a", "edu=b", "edu=c"]
    assert list(model.coefficients) == names
    row = {"age": [29], "sex": ["M"], "edu": ["c"]}
    margin = model.intercept + 29 * model.coefficients["age"]
    margin += model.coefficients["sex=M"] + model.coefficients["edu=c"]
    assert model.predict(row) == pytest.approx(1 / (1 + np.exp(-margin)))
    # Three features and an intercept of length 1 each, and ages from 20 to 29.
    numbers = list(model.coefficients.values())
    np.testing.assert_allclose(model.theta[:-1] / 2, [4.5 * numbers[0], *numbers[1:]])
    assert model.theta[-1] / 2 == pytest.approx(model.intercept + 24.5 * numbers[0])
    assert np.linalg.norm(model.theta) <= 30


def test_feature_vectors_have_length_one_at_the_most():
    for features in (["age", "sex"], [Cross("sex", "age"), "age", "edu"], [OneHot("hours")]):
        for intercept in (True, False):
            form = minimization(features=features, intercept=intercept).lower(DOMAIN)
            squares = [np.square(one.spread(form.names)).sum(axis=0) for one in form.coordinates]
            total = sum(np.broadcast_to(part, form._shape) for part in squares)
            assert total.max() == pytest.approx(1)


def test_a_model_without_an_intercept_has_none():
    model = minimization(intercept=False).fit(PEOPLE)
    assert model.intercept == pytest.approx(-24.5 * model.coefficients["age"])
    assert len(model.theta) == 3
    assert model.predict({"age": [24.0], "sex": ["F"]}).shape == (1,)


def test_a_name_stands_for_the_natural_feature():
    named = minimization(features=["age", "sex", "hours"])
    spelt = minimization(features=[Scaled("age"), OneHot("sex"), Scaled("hours")])
    assert named.fit(PEOPLE).coefficients == spelt.fit(PEOPLE).coefficients
    assert named != spelt
    crossed = minimization(features=[Cross("sex", "age")]).fit(PEOPLE)
    assert list(crossed.coefficients) == ["sex=F * age", "sex=M * age"]
    joint = minimization(features=[Cross("sex", "edu")]).lower(DOMAIN)
    hot = joint.coordinates[0].values * np.sqrt(2)
    np.testing.assert_allclose(hot.reshape(6, 6), np.eye(6), atol=1e-15)


def test_scaled_goes_from_bound_to_bound():
    np.testing.assert_allclose(Scaled("age").values(DOMAIN)[0], np.linspace(-1, 1, 10))
    np.testing.assert_allclose(Scaled("hours").values(DOMAIN)[0], [-0.75, -0.25, 0.5])
    one = Domain(Integer("age", 7, 7), Boolean("y"))
    assert Scaled("age").values(one).tolist() == [[0]]
    huge = Domain(Binned("x", [-1e308, 0, 1e308]), Boolean("y"))
    np.testing.assert_allclose(Scaled("x").values(huge)[0], [-0.5, 0.5])


def test_one_hot_of_narrow_bins_has_names_of_its_own():
    narrow = Domain(Binned("x", [0.1234567, 0.1234568, 0.1234569]), Boolean("y"))
    assert len(set(OneHot("x").labels(narrow))) == 2


@frozen
class Young(Feature):
    limit: int

    @property
    def names(self):
        return ("age",)

    def labels(self, domain):
        return [f"younger than {self.limit}"]

    def values(self, domain):
        return [[float(age < self.limit) for age in domain["age"].labels]]


def test_a_feature_of_ones_own():
    model = minimization(features=[Young(25), "sex"]).fit(PEOPLE)
    assert "younger than 25" in model.coefficients
    old, young = model.predict({"age": [26, 24], "sex": ["F", "F"]})
    rise = model.coefficients["younger than 25"]
    assert np.log(young / (1 - young)) - np.log(old / (1 - old)) == pytest.approx(rise)


UNITS = {
    "mean": (SquaredLoss(), "age", 20, 29),
    "huber": (HuberLoss(5), "age", 20, 29),
    "median": (QuantileLoss("0.5", smoothing=0.01), "age", 20, 29),
    "bins": (SquaredLoss(), "hours", 0, 40),
    "identity": (GLMLoss("identity"), "age", 20, 29),
    "counts": (GLMLoss("log"), "age", 20, 29),
    "share": (SquaredLoss(), "member", 0, 1),
    "probability": (LogisticLoss(), "member", 0, 1),
    "probit": (GLMLoss("probit"), "member", 0, 1),
    "logit of numbers": (GLMLoss("logit"), "age", 0, 1),
}


@pytest.mark.parametrize("name", UNITS)
def test_predictions_are_in_the_unit_of_the_label(name):
    loss, label, low, high = UNITS[name]
    predicted = minimization(loss=loss, features=["edu"], label=label).fit(PEOPLE).predict(COLUMNS)
    assert low <= predicted.min()
    assert predicted.max() <= high
    numbers = np.array(COLUMNS[label], dtype=float)
    if name == "logit of numbers":
        numbers = (numbers - 20) / 9
    edu = np.array(COLUMNS["edu"])
    for value in "abc":
        mean, spread = numbers[edu == value].mean(), np.ptp(numbers)
        assert predicted[edu == value][0] == pytest.approx(mean, abs=0.1 * spread)


def test_margins_are_positive_for_the_second_label():
    model = minimization(loss=SVMLoss(smoothing=0.1), features=["age", "edu"]).fit(PEOPLE)
    right = (model.predict(COLUMNS) > 0) == np.array(COLUMNS["member"])
    assert right.mean() > 0.75


def test_rows_outside_the_domain_have_no_prediction():
    model = minimization().fit(PEOPLE)
    rows = {"age": ["25", 99, None, 25], "sex": ["F", "F", "M", "X"], "other": [object()] * 4}
    np.testing.assert_array_equal(np.isnan(model.predict(rows)), [False, True, True, True])
    assert model.predict({"age": [], "sex": []}).shape == (0,)


@pytest.mark.parametrize(
    "rows", [{"age": [25]}, {"age": [25], "sex": ["F", "M"]}, {"age": [[25]], "sex": 3}]
)
def test_columns_that_cannot_be_read_are_refused(rows):
    with pytest.raises(DataError):
        minimization().fit(PEOPLE).predict(rows)


def test_frames_are_read():
    pandas = pytest.importorskip("pandas")
    model = minimization().fit(PEOPLE)
    frame = pandas.DataFrame({name: COLUMNS[name] for name in ("age", "sex")})
    np.testing.assert_array_equal(model.predict(frame), model.predict(COLUMNS))
    with pytest.raises(DataError):
        model.predict(3)


def test_records_outside_count_for_nothing():
    beyond = SyntheticData(DOMAIN, CODES, outside_count=500)
    near, far = minimization().fit(PEOPLE), minimization().fit(beyond)
    np.testing.assert_allclose(far.predict(COLUMNS), near.predict(COLUMNS), atol=2e-3)
    nobody = SyntheticData(DOMAIN, np.zeros((0, 5), dtype=int), outside_count=5)
    assert minimization().fit(nobody).excess <= 1e-6


def test_every_set_keeps_its_coefficients():
    boxed = minimization(over=Box([-1, -2, 0, 0.5], [1, -1, 0, 0.6])).fit(PEOPLE).theta
    assert -2 <= boxed[1] <= -1
    assert boxed[2] == 0
    assert 0.5 <= boxed[3] <= 0.6
    simplex = minimization(over=Simplex()).fit(PEOPLE).theta
    assert simplex.min() >= 0
    assert simplex.sum() == pytest.approx(1)


def test_models_are_values():
    query = minimization()
    one, other = query.fit(PEOPLE), query.fit(PEOPLE)
    assert one == other
    assert hash(query) == hash(minimization())
    assert one != minimization(over=Ball(1)).fit(PEOPLE)
    assert repr(one).startswith("Model of 'member' (3 coefficients, intercept=")
    with pytest.raises(ValueError, match="read-only"):
        one.theta[0] = 3
    one.coefficients["age"] = 7
    assert one == other
    assert isinstance(one, Model)
    assert one.label == "member"


def test_fit_takes_distributions_alone():
    with pytest.raises(InvalidArgument, match="distribution"):
        minimization().fit(COLUMNS)
    with pytest.raises(UnknownAttribute):
        minimization().fit(DenseHypothesis.uniform(Domain(Boolean("member"))))


class Given(Feature):
    def __init__(self, values=((1.0,),), names=("age",), labels=("mine",)):
        self._values, self._names, self._labels = values, names, labels

    @property
    def names(self):
        return self._names

    def labels(self, domain):
        return self._labels

    def values(self, domain):
        return self._values


class Silent(Given):
    def labels(self, domain):
        raise RuntimeError


class Nameless(Given):
    names = property(lambda self: 1 / 0)


class Undecided(SquaredLoss):
    signed = property(lambda self: 1 / 0)


class Wavy(Loss):
    def value(self, z, y):
        return np.sin(z - y)

    def derivative(self, z, y):
        return np.cos(z - y)

    def curvature(self, z, y):
        return -np.sin(z - y)


LINE = np.arange(10.0)[None]

REFUSED = {
    "loss": (InvalidArgument, {"loss": "logistic"}),
    "a name alone": (InvalidArgument, {"features": "age"}),
    "a set": (InvalidArgument, {"features": {"age", "sex"}}),
    "very many": (TooLarge, {"features": ["age"] * 1025}),
    "no features": (InvalidArgument, {"features": []}),
    "a number": (InvalidArgument, {"features": [3]}),
    "features that are none": (InvalidArgument, {"features": 3}),
    "label": (InvalidArgument, {"label": 3}),
    "set": (InvalidArgument, {"over": 8}),
    "intercept": (InvalidArgument, {"intercept": "yes"}),
    "the label": (InvalidArgument, {"features": ["age", "member"]}),
    "the label in a cross": (InvalidArgument, {"features": [Cross("age", OneHot("member"))]}),
    "unknown attribute": (UnknownAttribute, {"features": ["agee"]}),
    "unknown label": (UnknownAttribute, {"label": "members"}),
    "the same name": (QueryError, {"features": ["age", "age"]}),
    "the same feature": (QueryError, {"features": ["age", Scaled("age")]}),
    "the same cross": (QueryError, {"features": [Cross("age", "sex"), Cross("sex", "age")]}),
    "the same numbers": (QueryError, {"features": ["age", Given((LINE - 4.5) / 4.5)]}),
    "the same title": (QueryError, {"features": [Given(LINE), Given(LINE**2)]}),
    "scaled labels": (QueryError, {"features": [Scaled("sex")]}),
    "raises": (QueryError, {"features": [Silent()]}),
    "nameless": (QueryError, {"features": [Nameless()]}),
    "not a number": (QueryError, {"features": [Given(LINE * np.nan)]}),
    "infinite": (QueryError, {"features": [Given(LINE + np.inf)]}),
    "texts": (InvalidArgument, {"features": [Given("texts")]}),
    "another shape": (QueryError, {"features": [Given(LINE.T)]}),
    "no numbers": (QueryError, {"features": [Given(np.zeros((0, 10)), labels=())]}),
    "labels of a kind": (QueryError, {"features": [Given(LINE, labels=[3])]}),
    "of nothing": (InvalidArgument, {"features": [Given([[1.0]], names=())]}),
    "names of a kind": (InvalidArgument, {"features": [Given(LINE, names=(3,))]}),
    "many labels": (QueryError, {"label": "edu"}),
    "many numbers": (QueryError, {"label": "hours"}),
    "labels for a mean": (QueryError, {"loss": SquaredLoss(), "label": "edu"}),
    "undecided": (QueryError, {"loss": Undecided()}),
    "not convex": (QueryError, {"loss": Wavy()}),
    "another box": (InvalidArgument, {"over": Box([0, 0], [1, 1])}),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_no_convex_minimization_is_refused(name):
    error, other = REFUSED[name]
    with pytest.raises(error) as caught:
        minimization(**other).lower(DOMAIN)
    assert type(caught.value) is error
    assert len(str(caught.value)) < 600


@pytest.mark.parametrize(
    "parts", [(), ("age",), ("age", "age"), ("age", 3), ("age", Scaled("age"))]
)
def test_a_cross_is_of_different_attributes(parts):
    with pytest.raises(InvalidArgument):
        Cross(*parts)


def test_a_cross_is_of_few_attributes():
    deep = Cross("a", "b")
    for place in range(18):
        deep = Cross(deep, f"a{place}")
    with pytest.raises(InvalidArgument, match="20"):
        Cross(deep, "one more")


def test_too_large_a_universe_is_refused_before_anything_is_made():
    wide = Domain(Integer("a", 0, 10**12), Integer("b", 0, 9999), Boolean("y"), Integer("c", 0, 99))
    for features in (
        ["a"], [OneHot("b")], [Cross("b", "c")], [Cross("c", OneHot("b"))],
    ):  # fmt: skip
        with pytest.raises(TooLarge):
            minimization(features=features, label="y").lower(wide)
    with pytest.raises(TooLarge):
        minimization(loss=SquaredLoss(), features=["y"], label="a").lower(wide)


def test_other_queries_do_not_take_models_in():
    with pytest.raises(QueryError, match="linear queries only, or models only"):
        Workload([minimization(), Count()]).lower(DOMAIN)
    with pytest.raises(InvalidArgument):
        Count(where=minimization())
    assert Threshold("age", 3) != minimization()
