"""Estimators with the interface of scikit-learn, where that is not needed."""

import numpy as np
import pytest

from dpsdk import Binned, Boolean, Budget, Categorical, Domain, Integer, PrivateData, Session
from dpsdk.errors import (
    BudgetExceeded,
    DataError,
    DpsdkError,
    InvalidArgument,
    QueryError,
    TooLarge,
)
from dpsdk.mechanisms import HeavyBall, SufficientStatistics
from dpsdk.queries import Ball, OneHot
from dpsdk.sklearn import PrivateLinearRegression, PrivateLinearSVC, PrivateLogisticRegression
from dpsdk.testing import seeded

DOMAIN = Domain(
    Integer("age", 20, 39),
    Categorical("edu", ["a", "b", "c"]),
    Categorical("rich", ["no", "yes"]),
    Integer("wage", 0, 200),
    Binned("hours", [0, 10, 40]),
)
RNG = np.random.default_rng(2)
AGE, EDU = RNG.integers(20, 40, 4000), RNG.integers(0, 3, 4000)
ROWS = {
    "age": AGE,
    "edu": np.array(["a", "b", "c"])[EDU],
    "rich": np.where(AGE + 5 * EDU + RNG.normal(0, 2, 4000) > 34, "yes", "no"),
    "wage": 3 * AGE + 10 * EDU,
    "hours": RNG.integers(0, 40, 4000),
}
CLASSIFIERS = (PrivateLogisticRegression, PrivateLinearSVC)


def session(budget=10):
    data = PrivateData.from_columns(ROWS, DOMAIN)
    return Session(data, Budget(budget, "1e-5"), noise=seeded(1))


@pytest.mark.parametrize("kind", CLASSIFIERS)
def test_classes_are_predicted(kind):
    one = session()
    model = kind(epsilon=2, delta="1e-6")
    assert model.fit(one, label="rich", features=["age", OneHot("edu", drop="a")]) is model
    assert model.classes_.tolist() == ["no", "yes"]
    assert (model.coef_.shape, model.intercept_.shape) == ((1, 3), (1,))
    assert model.coefficient_names_ == ["age", "edu=b", "edu=c"]
    assert list(model.feature_names_in_) == ["age", "edu"]
    assert model.n_features_in_ == 2
    assert model.score(ROWS, ROWS["rich"]) > 0.85
    margins = model.decision_function(ROWS)
    by_hand = model.intercept_ + np.stack([AGE, EDU == 1, EDU == 2], axis=1) @ model.coef_[0]
    np.testing.assert_allclose(margins, by_hand, atol=1e-9)
    assert (model.predict(ROWS) == np.where(margins > 0, "yes", "no")).all()
    assert model.cost_ == one.history[0].cost


@pytest.mark.parametrize("kind", CLASSIFIERS)
def test_several_classes_are_predicted(kind):
    features = ["wage", OneHot("rich", drop="no")]
    model = kind(epsilon=4, delta="1e-6").fit(session(), label="edu", features=features)
    assert model.classes_.tolist() == ["a", "b", "c"]
    assert (model.coef_.shape, model.intercept_.shape) == ((3, 2), (3,))
    assert model.coefficient_names_ == ["wage", "rich=yes"]
    margins = model.decision_function(ROWS)
    read = np.stack([ROWS["wage"], ROWS["rich"] == "yes"], axis=1)
    np.testing.assert_allclose(margins, model.intercept_ + read @ model.coef_.T, atol=1e-9)
    assert (model.predict(ROWS) == model.classes_[margins.argmax(axis=1)]).all()
    assert model.score(ROWS, ROWS["edu"]) == (model.predict(ROWS) == ROWS["edu"]).mean() > 0.45
    assert model.model_.classes == ("a", "b", "c")
    with pytest.raises(DataError, match="no class"):
        model.predict({"wage": [999], "rich": ["no"]})
    if kind is PrivateLogisticRegression:
        shares = model.predict_proba({"wage": [60, 140, 999], "rich": ["no", "yes", "no"]})
        np.testing.assert_allclose(shares[:2].sum(axis=1), 1)
        assert np.isnan(shares[2]).all()


def alone():
    domain = Domain(DOMAIN["age"], Categorical("edu", ["a"]))
    data = PrivateData.from_columns({"age": AGE, "edu": ["a"] * 4000}, domain)
    return Session(data, Budget(9, "1e-5"), noise=seeded(1))


def test_probabilities_add_up():
    model = PrivateLogisticRegression(2, "1e-6").fit(session(), label="rich", features=["age"])
    shares = model.predict_proba({"age": [20, 39, 99]})
    np.testing.assert_allclose(shares[:2].sum(axis=1), 1)
    assert shares[0, 1] < 0.5 < shares[1, 1]
    assert np.isnan(shares[2]).all()
    assert not hasattr(PrivateLinearSVC(1), "predict_proba")


def test_numbers_are_predicted_in_their_unit():
    model = PrivateLinearRegression(5, "1e-6")
    model.fit(session(), label="wage", features=["age", OneHot("edu", drop="a")])
    assert model.coef_ == pytest.approx([3, 10, 20], rel=0.2)
    assert isinstance(model.intercept_, float)
    assert model.score(ROWS, ROWS["wage"]) > 0.95
    assert model.predict({"age": [30], "edu": ["b"]}) == pytest.approx([100], abs=5)
    assert np.isnan(model.predict({"age": [99], "edu": ["b"]})).all()


def test_by_default_all_other_attributes_are_features():
    model = PrivateLinearRegression(1, "1e-6", oracle=SufficientStatistics(), over=Ball(3))
    model.fit(session(), label="wage")
    assert list(model.feature_names_in_) == ["age", "edu", "rich", "hours"]
    wide = PrivateLogisticRegression(1, "1e-6", oracle=HeavyBall(), fit_intercept=False)
    assert len(wide.fit(session(), label="rich", features=["age", "edu"]).coef_[0]) == 4


def test_labels_are_those_of_the_domain():
    domain = Domain(DOMAIN["age"], Boolean("member"))
    data = PrivateData.from_columns({"age": AGE, "member": AGE > 30}, domain)
    with Session(data, Budget(9, "1e-5"), noise=seeded(1)) as one:
        model = PrivateLogisticRegression(5, "1e-6").fit(one, label="member")
    assert model.predict({"age": [20, 39]}).tolist() == [False, True]
    assert model.score({"age": [20, 39]}, [False, True]) == 1


def test_parameters_are_kept_as_they_are():
    ball = Ball(3)
    model = PrivateLinearSVC("0.5", over=ball)
    assert model.get_params() == {
        "epsilon": "0.5", "delta": 0, "over": ball, "oracle": None, "fit_intercept": True,
    }  # fmt: skip
    assert model.set_params(epsilon=2, over=None) is model
    assert repr(model) == "PrivateLinearSVC(epsilon=2)"
    with pytest.raises(InvalidArgument, match="one of epsilon"):
        model.set_params(C=1)


REFUSED = {
    "arrays": (InvalidArgument, "a Session", lambda: ((np.zeros((3, 2)), None), {})),
    "arrays and labels": (InvalidArgument, "X must be", lambda: ((ROWS, [1]), {"label": "rich"})),
    "labels": (InvalidArgument, "y must be", lambda: ((session(), [1]), {"label": "rich"})),
    "no label": (InvalidArgument, "label", lambda: ((session(),), {})),
    "one class": (QueryError, "two", lambda: ((alone(),), {"label": "edu"})),
    "many classes": (TooLarge, "classes", lambda: ((session(),), {"label": "wage"})),
    "little": (BudgetExceeded, "0.1", lambda: ((session("0.1"),), {"label": "rich"})),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_it_is_not_fitted_on_is_refused(name):
    error, words, ask = REFUSED[name]
    given, named = ask()
    model = PrivateLogisticRegression(1, "1e-6")
    with pytest.raises(error, match=words):
        model.fit(*given, **named)
    assert not hasattr(model, "coef_")
    with pytest.raises(QueryError, match="not fitted"):
        model.predict(ROWS)


@pytest.mark.parametrize("parameters", [{"epsilon": -1}, {"oracle": 3}, {"fit_intercept": "no"}])
def test_parameters_are_checked_before_anything_is_paid(parameters):
    one = session()
    with pytest.raises(DpsdkError):
        PrivateLinearRegression(1, "1e-6").set_params(**parameters).fit(one, label="wage")
    assert one.history == ()


def test_rows_without_a_class_are_refused():
    model = PrivateLinearSVC(1, "1e-6").fit(session(), label="rich", features=["age"])
    assert np.isnan(model.decision_function({"age": [None]})).all()
    for ask in (model.predict, lambda rows: model.score(rows, ["no"])):
        with pytest.raises(DataError, match="no class"):
            ask({"age": [99]})
    with pytest.raises(InvalidArgument, match="one a row"):
        model.score({"age": [20]}, ["no", "yes"])
