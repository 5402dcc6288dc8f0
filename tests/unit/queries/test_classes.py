"""Models of several classes: what they read, what they predict, and how they are found."""

import numpy as np
import pytest
from scipy.special import softmax

from dpsdk import (
    Boolean,
    Budget,
    Categorical,
    Domain,
    Integer,
    Neighbors,
    Number,
    PrivateData,
    Session,
    SyntheticData,
)
from dpsdk.errors import InvalidArgument, NoBound, QueryError, TooLarge, UnknownAttribute
from dpsdk.losses import HuberLoss, LogisticLoss, SquaredLoss, SVMLoss
from dpsdk.mechanisms import (
    MWEM,
    Corrected,
    HeavyBall,
    Laplace,
    NoisyDescent,
    PrivateMinimizer,
    SufficientStatistics,
)
from dpsdk.queries import Ball, Box, ConvexMinimization, OneVsRest, Simplex, Softmax
from dpsdk.queries import marginals as pairs
from dpsdk.testing import seeded

RNG = np.random.default_rng(7)
ROWS = 3000
DOMAIN = Domain(
    Integer("age", 20, 29),
    Categorical("sex", ["F", "M"]),
    Categorical("class", ["low", "middle", "high"], missing=True),
    Boolean("rich"),
)
AGE, SEX = RNG.integers(0, 10, ROWS), RNG.integers(0, 2, ROWS)
SCORES = np.stack([4.5 - AGE, 1.5 * SEX, AGE - 4.5], axis=1) + RNG.gumbel(size=(ROWS, 3))
CLASS = SCORES.argmax(axis=1)
COLUMNS = {
    "age": (AGE + 20).tolist(),
    "sex": np.array(["F", "M"])[SEX].tolist(),
    "class": np.array(["low", "middle", "high"])[CLASS].tolist(),
    "rich": (AGE > 4).tolist(),
}
PEOPLE = SyntheticData(DOMAIN, np.stack([AGE, SEX, CLASS, AGE > 4], axis=1))


KINDS = pytest.mark.parametrize("kind", [OneVsRest, Softmax])


def several(loss=None, kind=OneVsRest, **other):
    given = {"features": ["age", "sex"], "label": "class"} | other
    return kind(ConvexMinimization(loss or LogisticLoss(), **given))


def session(budget=None, **given):
    data = PrivateData.from_columns(COLUMNS, DOMAIN, **given)
    return Session(data, budget or Budget(4, 1e-6), noise=seeded(1))


def right(classifier):
    pairs = zip(classifier.predict(COLUMNS), COLUMNS["class"], strict=True)
    return np.mean([one == other for one, other in pairs])


def test_each_class_is_its_own_model():
    found = several().fit(PEOPLE)
    assert found.classes == ("low", "middle", "high")
    for code, name in enumerate(found.classes):
        codes = np.stack([AGE, SEX, (code == CLASS) * 1, AGE > 4], axis=1)
        domain = Domain(*DOMAIN.attributes[:2], Boolean("class"), DOMAIN["rich"])
        alone = ConvexMinimization(LogisticLoss(), features=["age", "sex"], label="class")
        model = alone.fit(SyntheticData(domain, codes))
        np.testing.assert_allclose(found.models[name].theta, model.theta, atol=1e-3)
        assert found.coefficients[name] == found.models[name].coefficients
        assert found.intercepts[name] == found.models[name].intercept
    assert right(found) > 0.6
    assert found.excess < 1e-5
    assert (
        repr(found)
        == f"Classifier of 'class' (3 classes, 3 coefficients each, excess={found.excess:.2g})"
    )


def test_predictions_are_those_of_the_largest_margin():
    found = several().fit(PEOPLE)
    rows = {"age": [20, 29, None, 24], "sex": ["F", "M", "F", "odd"]}
    margins = found.margins(rows)
    assert margins.shape == (4, 3)
    own = [found.models[name].margins(rows) for name in found.classes]
    np.testing.assert_allclose(margins[:2], np.stack(own, axis=1)[:2])
    assert found.predict(rows) == ["low", "high", None, None]
    shares = found.predict_proba(rows)
    np.testing.assert_allclose(shares[:2].sum(axis=1), 1)
    alone = 1 / (1 + np.exp(-margins[:2]))
    np.testing.assert_allclose(shares[:2], alone / alone.sum(axis=1, keepdims=True))
    assert np.isnan(shares[2:]).all()
    with pytest.raises(QueryError, match="probabilities"):
        several(SVMLoss(0.5)).fit(PEOPLE).predict_proba(rows)


def test_a_softmax_tells_classes_by_all_margins():
    found = several(kind=Softmax).fit(PEOPLE)
    rows = {"age": [20, 29, None, 24], "sex": ["F", "M", "F", "odd"]}
    margins = found.margins(rows)
    assert found.predict(rows) == ["low", "high", None, None]
    shares = found.predict_proba(rows)
    np.testing.assert_allclose(shares[:2], softmax(margins[:2], axis=1))
    assert np.isnan(shares[2:]).all()
    with pytest.raises(QueryError, match="all margins"):
        _ = found.models
    assert found.coefficients["high"]["age"] > 0 > found.coefficients["low"]["age"]
    assert found.excess < 1e-5
    # Rows were drawn from such a model, which tells probabilities better than one by one.
    exact = found.predict_proba(COLUMNS)[np.arange(ROWS), CLASS]
    one_by_one = several().fit(PEOPLE).predict_proba(COLUMNS)[np.arange(ROWS), CLASS]
    assert np.log(exact).mean() > np.log(one_by_one).mean()
    with pytest.raises(InvalidArgument, match="LogisticLoss"):
        several(SVMLoss(), kind=Softmax)
    assert found != several().fit(PEOPLE)
    assert hash(several(kind=Softmax)) != hash(several())


@pytest.mark.parametrize("kind", [OneVsRest, Softmax])
def test_a_value_that_no_row_has_gets_no_coefficient(kind):
    domain = Domain(DOMAIN["age"], Categorical("sex", ["F", "M", "X"]), DOMAIN["class"])
    people = SyntheticData(domain, np.stack([AGE, SEX, CLASS], axis=1))
    found = several(kind=kind).fit(people)
    assert {one["sex=X"] for one in found.coefficients.values()} == {0.0}


def test_margins_of_no_probability_at_all_say_nothing():
    found = several(over=Ball(10**5)).fit(PEOPLE)
    far = type(found)(np.full((3, 4), -9e4), 0.0, found._inputs, found._attribute, LogisticLoss())
    np.testing.assert_allclose(far.predict_proba({"age": [29], "sex": ["M"]}), [[1 / 3] * 3])


def test_equal_ones_are_equal_and_tables_of_coefficients():
    frame = session().release(several(), using=PrivateMinimizer(epsilon=1, delta=1e-6)).to_frame()
    assert frame.columns[:2] == ["class", "coefficient"]
    assert frame["class"].to_list() == ["low"] * 4 + ["middle"] * 4 + ["high"] * 4
    assert frame["coefficient"].to_list()[:4] == ["age", "sex=F", "sex=M", "intercept"]
    found = several().fit(PEOPLE)
    again = several().fit(PEOPLE)
    assert found == again
    assert hash(several()) == hash(several())
    assert not found.theta.flags.writeable
    with pytest.raises(InvalidArgument, match="theta"):
        type(found)(found.theta[:2], 0.0, found._inputs, found._attribute, LogisticLoss())


@pytest.mark.parametrize("loss", [SquaredLoss(), HuberLoss(0.5)])
def test_a_loss_of_numbers_has_no_classes(loss):
    with pytest.raises(InvalidArgument, match="loss of two classes"):
        several(loss)


@KINDS
@pytest.mark.parametrize("value", [None, "x", LogisticLoss()])
def test_it_takes_a_minimization(value, kind):
    with pytest.raises(InvalidArgument, match="minimization"):
        kind(value)


def test_labels_are_three_to_sixty_four():
    with pytest.raises(QueryError, match="ask the ConvexMinimization itself"):
        several(label="rich").lower(DOMAIN)
    with pytest.raises(UnknownAttribute):
        several(label="nobody").lower(DOMAIN)
    wide = Domain(Integer("age", 20, 29), Integer("class", 0, 64))
    with pytest.raises(TooLarge, match="classes"):
        several(features=["age"]).lower(wide)
    huge = Domain(Integer("age", 20, 29), Number("class", 0, 10**9))
    with pytest.raises(TooLarge):
        several(features=["age"]).lower(huge)
    assert (
        several(features=["age"])
        .lower(Domain(Integer("age", 20, 29), Integer("class", 1, 64)))
        .classes
        == 64
    )


@KINDS
@pytest.mark.parametrize("over", [Ball(20), Box(-8, 8), Simplex()])
def test_each_class_lies_in_the_set(over, kind):
    asked = several(over=over, kind=kind)
    release = session().release(asked, using=PrivateMinimizer(epsilon=1, delta=1e-6))
    assert all(over.contains(theta) for theta in release.value.theta)
    form = asked.lower(DOMAIN)
    assert all(over.contains(one) for one in np.split(form.centre(), 3))


@pytest.mark.thorough(quick=2)
@KINDS
@pytest.mark.parametrize(
    "given",
    [
        {"neighbors": Neighbors.REPLACE_ONE},
        {"neighbors": Neighbors.ADD_REMOVE},
        {"unit_rows": 2},
    ],
)
def test_it_is_found_privately(given, kind):
    one, asked = session(**given), several(kind=kind)
    mechanism = PrivateMinimizer(epsilon=2, delta=1e-6)
    quote = one.quote(asked, using=mechanism)
    release = one.release(asked, using=mechanism)
    assert release.cost == quote.at_most
    assert release.source == "measured"
    assert right(release.value) > 0.55
    with pytest.raises(NoBound, match="momentum"):
        release.error(0.05)
    if kind is OneVsRest:
        with pytest.raises(NoBound, match="second moments"):
            release.value.models["low"].intervals(release)


@KINDS
def test_at_a_tiny_budget_each_class_has_its_constant(kind):
    release = session().release(
        several(kind=kind), using=PrivateMinimizer(epsilon="0.02", delta=1e-6)
    )
    assert len(list(release.cost.guarantees)) == 1
    assert "constant model" in release.bound().kind
    assert {*release.value.coefficients["low"].values()} == {0.0}
    shares = release.value.predict_proba({"age": [20], "sex": ["F"]})[0]
    np.testing.assert_allclose(shares, np.bincount(CLASS) / ROWS, atol=0.1)


@KINDS
@pytest.mark.parametrize(
    "oracle", [Corrected(gradients=2), NoisyDescent.textbook(), SufficientStatistics()]
)
def test_oracles_of_one_model_are_refused_before_anything_is_paid(oracle, kind):
    one, asked = session(), several(kind=kind)
    mechanism = PrivateMinimizer(epsilon=1, delta=1e-6, oracle=oracle)
    with pytest.raises(QueryError, match="HeavyBall"):
        one.release(asked, using=mechanism)
    with pytest.raises(QueryError):
        one.release(asked, using=Laplace(epsilon=1))
    with pytest.raises(InvalidArgument, match="delta"):
        one.release(asked, using=PrivateMinimizer(epsilon=1))
    assert not one.spent.charges
    assert PrivateMinimizer(epsilon=1).oracle_for(asked.lower(DOMAIN)) == HeavyBall()


@KINDS
@pytest.mark.thorough
def test_plans_and_channels_answer_it(kind):
    one, asked = session(), several(kind=kind)
    plans = one.plan(asked, budget=Budget(1, 1e-6))
    told = str(plans)
    assert "PrivateMinimizer" in told.split("\n")[2]
    assert "several classes are found by HeavyBall" in told
    channel = one.open(MWEM(pairs(DOMAIN, 2), epsilon=1))
    before = one.spent
    release = channel.release(asked)
    assert release.source == "hypothesis"
    assert one.spent == before
    assert right(release.value) > 0.55
