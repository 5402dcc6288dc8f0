"""Coefficients in the units of the data, reference labels, and the set that models have."""

from datetime import date, timedelta

import numpy as np
import pytest
from attrs import frozen

from dpsdk import (
    MISSING,
    Binned,
    Boolean,
    Budget,
    Categorical,
    Date,
    Domain,
    Integer,
    Number,
    PrivateData,
    Session,
    SyntheticData,
    wire,
)
from dpsdk.errors import InvalidArgument, NoBound, QueryError, UnknownLabel
from dpsdk.losses import GLMLoss, HuberLoss, LogisticLoss, QuantileLoss, SquaredLoss, SVMLoss
from dpsdk.mechanisms import PrivateMinimizer, SufficientStatistics
from dpsdk.queries import Ball, ConvexMinimization, Cross, Feature, Model, OneHot, Scaled
from dpsdk.testing import seeded

FIRST = date(2026, 1, 1)
DOMAIN = Domain(
    Integer("age", 20, 29),
    Categorical("edu", ["a", "b", "c"]),
    Binned("hours", [0, 10, 20, 40]),
    Number("price", "0.5", "2.5", "0.25"),
    Date("day", FIRST, FIRST + timedelta(9)),
    Boolean("member"),
    Integer("wage", 100, 300),
    Categorical("one", ["only"], missing=True),
    Integer("never", 7, 7),
)
RNG = np.random.default_rng(4)
CODES = np.stack([RNG.integers(0, one.known, 200) for one in DOMAIN.attributes], axis=1)
ROWS = SyntheticData(DOMAIN, CODES)
CODE = dict(zip(DOMAIN.names, CODES.T, strict=True))
COLUMNS = {name: [DOMAIN[name].label(int(code)) for code in codes] for name, codes in CODE.items()}
COLUMNS["hours"] = [(low + high) / 2 for low, high in COLUMNS["hours"]]


@frozen
class Older(Feature):
    """Tens of years above 20, in units of their own."""

    names = ("age",)

    def labels(self, domain):
        return ["decades"]

    def values(self, domain):
        return np.arange(10.0)[None] / 10


def model(features, loss=None, label="wage", seed=0, **more):
    query = ConvexMinimization(loss or SquaredLoss(), features=features, label=label, **more)
    form = query.lower(DOMAIN)
    theta = np.random.default_rng(seed).normal(size=form.dimension)
    return Model(theta, 0.0, *query._read(DOMAIN), query.loss)


AGES = RNG.integers(20, 30, 1000)

NATURAL = {
    "age": np.array(COLUMNS["age"], dtype=float),
    "hours": np.array(COLUMNS["hours"]),
    "price": np.array(COLUMNS["price"], dtype=float),
    "day": CODE["day"].astype(float),
    "decades": CODE["age"] / 10,
    "edu=b": (CODE["edu"] == 1) * 1.0,
    "edu=c": (CODE["edu"] == 2) * 1.0,
    "edu=a": (CODE["edu"] == 0) * 1.0,
    "age * price": (CODE["age"] - 4.5) * (np.array(COLUMNS["price"], dtype=float) - 1.5),
    "one=only": np.ones(200),
    "never": np.full(200, 7.0),
}  # fmt: skip
NATURAL |= {f"{name} * age": NATURAL[name] * (CODE["age"] - 4.5) for name in ("edu=b", "edu=c")}

LOSSES = {
    "squared": SquaredLoss(), "huber": HuberLoss(1), "median": QuantileLoss("0.5"),
    "identity": GLMLoss("identity"),
}  # fmt: skip


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("intercept", [True, False])
@pytest.mark.parametrize(
    "features",
    [
        ["age"], ["hours", "price", "day"], [OneHot("edu", drop="a"), Older()],
        [Cross("age", "price"), "edu"], [Cross(OneHot("edu", drop="first"), "age"), "day"],
        ["one", "never", "age"],
    ],
)  # fmt: skip
def test_predictions_are_the_intercept_and_what_each_unit_adds(features, loss, intercept):
    found = model(features, LOSSES[loss], intercept=intercept)
    total = np.full(200, found.intercept)
    for name, coefficient in found.coefficients.items():
        total += coefficient * NATURAL[name]
    np.testing.assert_allclose(found.predict(COLUMNS), total, rtol=1e-9)


@pytest.mark.parametrize("loss", [LogisticLoss(), SVMLoss(0.5), GLMLoss("logit")])
def test_of_classes_they_add_up_to_the_margin(loss):
    found = model(["age", "hours", "edu"], loss, "member")
    names = ("age", "hours", "edu=a", "edu=b", "edu=c")
    total = found.intercept + sum(found.coefficients[name] * NATURAL[name] for name in names)
    np.testing.assert_allclose(found.predict(COLUMNS), loss.predict(total), rtol=1e-9)


def test_the_slope_of_a_line_is_that_of_the_line():
    domain = Domain(Integer("x", 0, 9), Integer("y", 0, 100))
    line = SyntheticData(domain, np.stack([np.arange(10), 10 * np.arange(10) + 3], axis=1))
    found = ConvexMinimization(SquaredLoss(), features=["x"], label="y").fit(line)
    assert found.coefficients["x"] == pytest.approx(10, abs=1e-2)
    assert found.intercept == pytest.approx(3, abs=1e-1)


def test_what_is_the_same_for_all_has_coefficient_nought():
    found = model(["one", "never", "age"])
    assert found.coefficients["one=only"] == found.coefficients["never"] == 0
    assert found.coefficients["age"] != 0
    assert found.theta[0] != 0


def test_a_reference_label_is_what_the_others_are_compared_with():
    plain = ConvexMinimization(SquaredLoss(), features=["edu"], label="wage").fit(ROWS)
    for drop, left in (("first", "bc"), ("a", "bc"), ("b", "ac")):
        hot = OneHot("edu", drop=drop)
        found = ConvexMinimization(SquaredLoss(), features=[hot], label="wage").fit(ROWS)
        assert list(found.coefficients) == [f"edu={label}" for label in left]
        np.testing.assert_allclose(found.predict(COLUMNS), plain.predict(COLUMNS), atol=0.2)
        base = "a" if drop == "first" else drop
        for label in left:
            apart = plain.coefficients[f"edu={label}"] - plain.coefficients[f"edu={base}"]
            assert found.coefficients[f"edu={label}"] == pytest.approx(apart, abs=0.3)


def test_a_label_called_first_is_that_label():
    domain = Domain(Categorical("c", ["last", "first"]), Categorical("d", ["last", "mid"]))
    assert OneHot("c", drop="first").labels(domain) == ["c=last"]
    assert OneHot("d", drop="first").labels(domain) == ["d=mid"]


def test_labels_to_drop_are_of_any_kind():
    assert OneHot("member", drop=False).labels(DOMAIN) == ["member=True"]
    assert OneHot("hours", drop=(0, 10)).labels(DOMAIN) == ["hours=[10, 20)", "hours=[20, 40]"]
    assert len(OneHot("day", drop=FIRST).labels(DOMAIN)) == 9
    assert OneHot("age", drop=29).values(DOMAIN).shape == (9, 10)
    assert OneHot("age", drop=1) != OneHot("age", drop=True)


def test_a_reference_is_written_where_there_is_one():
    assert "drop" not in wire.dumps(OneHot("edu"))
    for drop in ("first", 3, True, (0, 10), FIRST):
        hot = OneHot("edu", drop=drop)
        assert wire.loads(Feature, wire.dumps(hot)) == hot
    assert repr(OneHot("edu", drop=3)) == "OneHot('edu', drop=3)"


REFUSED = {
    "no label": (UnknownLabel, lambda: OneHot("edu", drop="x").labels(DOMAIN)),
    "missing": (QueryError, lambda: OneHot("one", drop=MISSING).values(DOMAIN)),
    "none left": (QueryError, lambda: OneHot("one", drop="only").labels(DOMAIN)),
    "several": (InvalidArgument, lambda: OneHot("edu", drop=["a"])),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_dropped_is_refused(name):
    error, ask = REFUSED[name]
    with pytest.raises(error) as caught:
        ask()
    assert type(caught.value) is error


@frozen(eq=False)
class Sized(Older):
    given: object

    def units(self, domain):
        return self.given


@pytest.mark.parametrize("units", [[0, 1], [[0, 0]], [[np.nan, 1]], [[0, np.inf]], [[0, -1]], "x"])
def test_units_that_are_none_are_refused(units):
    with pytest.raises((QueryError, InvalidArgument), match="positive half"):
        model([Sized(units)])


def test_units_of_ones_own_are_used():
    plain, in_years = model([Older()]), model([Sized([[20, 10]])])
    assert in_years.coefficients["decades"] == pytest.approx(plain.coefficients["decades"] / 10)
    assert in_years.predict(COLUMNS) == pytest.approx(
        in_years.intercept + in_years.coefficients["decades"] * (20 + CODE["age"])
    )


def test_without_a_set_a_ball_lets_each_feature_move_what_it_may():
    for loss, label, swing in ((LogisticLoss(), "member", 12), (SquaredLoss(), "wage", 4)):
        query = ConvexMinimization(loss, features=["age", "edu"], label=label)
        # Two features and an intercept, each of length 1 at the most.
        assert query.lower(DOMAIN).over == Ball(swing / 2 * 3)
        assert query.over is None
        assert "over" not in repr(query) + wire.dumps(query)
        assert wire.loads(ConvexMinimization, wire.dumps(query)) == query
        assert query != ConvexMinimization(
            loss, features=["age", "edu"], label=label, over=Ball(18)
        )
    alone = ConvexMinimization(
        LogisticLoss(), features=[Scaled("age")], label="member", intercept=False
    )
    # One feature from -1 to 1: its range moves the margin by twelve.
    assert alone.lower(DOMAIN).over == Ball(6)


def fitted(codes, features, **more):
    """A model of ages, wages and educations, and what it was fitted on."""
    domain = Domain(DOMAIN["age"], DOMAIN["edu"], DOMAIN["wage"])
    rows = SyntheticData(domain, np.array(codes))
    query = ConvexMinimization(SquaredLoss(), features=features, label="wage", **more)
    return query.fit(rows), rows, query.lower(domain)


@pytest.mark.parametrize("hot", [OneHot("edu"), OneHot("edu", drop="a"), OneHot("edu", drop="c")])
def test_what_never_varies_in_a_distribution_has_coefficient_nought(hot):
    model, rows, form = fitted([[3, 1, 50], [3, 0, 90], [3, 1, 60]], [Scaled("age"), hot])
    assert model.coefficients["age"] == 0
    assert model.coefficients.get("edu=c", 0) == 0
    assert model.predict({"age": [23] * 2, "edu": ["a", "b"]}) == pytest.approx([190, 155], abs=0.2)
    assert form.value(rows, model.theta) <= form.minimise(rows)[1] + form.value(
        rows, form.minimise(rows)[0]
    )
    assert form.over.contains(model.theta, tolerance=0)


def test_a_set_that_binds_keeps_its_best_model():
    codes, small = [[9, 1, 200], [9, 0, 190]], Ball(0.5)
    model, rows, form = fitted(codes, ["age"], over=small)
    best, gap = form.minimise(rows)
    assert form.value(rows, model.theta) <= form.value(rows, best) + gap
    assert small.contains(model.theta, tolerance=1e-12)
    domain = Domain(DOMAIN["age"], DOMAIN["wage"])
    nobody = SyntheticData(domain, np.zeros((0, 2), dtype=int), outside_count=5)
    found = ConvexMinimization(SquaredLoss(), features=["age"], label="wage").fit(nobody)
    assert found.coefficients == {"age": 0}


def test_without_an_intercept_what_never_varies_stands_for_one():
    model, _, _ = fitted([[9, 1, 200], [9, 0, 190]], ["age"], intercept=False)
    assert model.coefficients["age"] != 0
    assert model.predict({"age": [29]}) == pytest.approx([295], abs=0.5)


@pytest.mark.parametrize("drop", [None, "a", "b", "c"])
@pytest.mark.parametrize("crossed", [False, True])
def test_rows_beyond_all_records_are_told(drop, crossed):
    hot = OneHot("edu", drop=drop)
    features = [Cross(hot, "age")] if crossed else [hot, "age"]
    model, rows, _ = fitted([[2, 0, 50], [6, 0, 90], [2, 1, 60], [6, 1, 0]], features)
    people = {"age": [22, 24, 26, 21, 27, 24, 99], "edu": ["a", "b", "a", "a", "b", "c", "a"]}
    expected = np.array([False, False, False, True, True, True, False])
    if crossed and drop in ("a", "b"):
        # Of whom the slope is nought their age says nothing.
        expected[{"a": 3, "b": 4}[drop]] = False
    np.testing.assert_array_equal(model.extrapolates(people, rows), expected)
    with pytest.raises(InvalidArgument, match="distribution"):
        model.extrapolates(people, people)


def test_a_release_has_intervals_in_the_units_of_the_data():
    age, edu = RNG.integers(20, 30, 5000), RNG.integers(0, 3, 5000)
    wage = np.clip(3 * age + 20 * (edu == 1) + 100, 100, 300)
    domain = Domain(DOMAIN["age"], DOMAIN["edu"], DOMAIN["wage"])
    columns = {"age": age, "edu": np.array(["a", "b", "c"])[edu], "wage": wage}
    data = PrivateData.from_columns(columns, domain)
    using = PrivateMinimizer(epsilon=1, delta="1e-6", oracle=SufficientStatistics())
    with Session(data, Budget(2, "1e-5"), noise=seeded(1)) as session:
        dropped, plain = (
            session.release(
                ConvexMinimization(SquaredLoss(), features=["age", hot], label="wage"), using=using
            )
            for hot in (OneHot("edu", drop="a"), OneHot("edu"))
        )
    bounds = dropped.value.intervals(dropped)
    assert bounds == dropped.value.intervals(dropped.accuracy)
    assert bounds == dropped.value.intervals(dropped.accuracy.coefficients)
    with pytest.raises(InvalidArgument, match="weights"):
        dropped.value.contrast([("age", 1)], dropped)
    assert list(bounds) == ["age", "edu=b", "edu=c", "intercept"]
    for (low, high), true in zip(bounds.values(), [3, 20, 0, 100], strict=True):
        assert low < true < high < low + 200
    low, high = plain.value.contrast({"edu=b": 1, "edu=a": -1}, plain.accuracy)
    assert low < 20 < high < low + 60
    assert plain.value.intervals(plain.accuracy)["edu=b"] == (-np.inf, np.inf)
    model, _, _ = fitted([[3, 1, 50]], ["age"])
    with pytest.raises(NoBound):
        model.intervals(None)


@pytest.mark.parametrize("edges", [[0, 1e-310, 2e-310], [-1e308, 0, 1e308]])
def test_where_floats_have_no_digits_nothing_is_told(edges):
    domain = Domain(Binned("tiny", edges), DOMAIN["age"])
    data = PrivateData.from_columns({"tiny": [edges[0], edges[1]] * 500, "age": AGES}, domain)
    query = ConvexMinimization(SquaredLoss(), features=["tiny"], label="age")
    using = PrivateMinimizer(epsilon=1, delta="1e-6", oracle=SufficientStatistics())
    with Session(data, Budget(2, "1e-5"), noise=seeded(1)) as session:
        release = session.release(query, using=using)
    assert release.value.intervals(release)["tiny"] == (-np.inf, np.inf)
