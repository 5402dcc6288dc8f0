"""Private estimators among those of scikit-learn."""

import pickle

import numpy as np
import pytest

from dpsdk import Boolean, Budget, Domain, Integer, PrivateData, Session
from dpsdk.queries import Ball
from dpsdk.sklearn import PrivateLinearRegression, PrivateLinearSVC, PrivateLogisticRegression
from dpsdk.testing import seeded

sklearn = pytest.importorskip("sklearn")
base = pytest.importorskip("sklearn.base")
checks = pytest.importorskip("sklearn.utils.estimator_checks")
KINDS = (PrivateLogisticRegression, PrivateLinearSVC, PrivateLinearRegression)
AGE = np.arange(4000) % 20


def session():
    domain = Domain(Integer("age", 0, 19), Boolean("rich"))
    data = PrivateData.from_columns({"age": AGE, "rich": AGE > 9}, domain)
    return Session(data, Budget(9, "1e-5"), noise=seeded(1))


@pytest.mark.parametrize("kind", KINDS)
def test_it_is_cloned_and_known_for_what_it_is(kind):
    model = kind(2, "1e-6", over=Ball(9)).fit(session(), label="rich")
    fresh = base.clone(model)
    assert fresh.get_params() == model.get_params()
    assert fresh.over is not None
    assert not hasattr(fresh, "coef_")
    assert base.is_classifier(model) == (kind is not PrivateLinearRegression)
    assert base.is_regressor(model) == (kind is PrivateLinearRegression)
    check_is_fitted = sklearn.utils.validation.check_is_fitted
    check_is_fitted(model)
    with pytest.raises(sklearn.exceptions.NotFittedError):
        check_is_fitted(fresh)
    again = pickle.loads(pickle.dumps(model))  # noqa: S301
    assert again.predict({"age": [3]}) == model.predict({"age": [3]})


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    "name", ["check_get_params_invariance", "check_set_params", "check_estimator_repr"]
)
def test_checks_that_need_no_rows_pass(kind, name):
    if hasattr(checks, name):
        getattr(checks, name)(kind.__name__, kind(1))


def test_it_ends_a_pipeline_of_public_steps():
    pipeline = sklearn.pipeline.Pipeline([("model", PrivateLogisticRegression(2, "1e-6"))])
    pipeline.set_params(model__epsilon=3)
    pipeline.fit(session(), model__label="rich")
    assert pipeline.predict({"age": [1, 18]}).tolist() == [False, True]
    assert pipeline.score({"age": [1, 18]}, [False, True]) == 1.0
    assert pipeline[-1].cost_ is not None


def test_scores_of_public_frames_are_those_of_scikit_learn():
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"age": [1, 3, 9, 12, 18], "rich": [False, True, False, True, True]})
    model = PrivateLogisticRegression(3, "1e-6").fit(session(), label="rich")
    accuracy = sklearn.metrics.accuracy_score(frame["rich"], model.predict(frame))
    assert model.score(frame, frame["rich"]) == accuracy
    line = PrivateLinearRegression(3, "1e-6").fit(session(), label="rich")
    r2 = sklearn.metrics.r2_score(frame["rich"].astype(float), line.predict(frame))
    assert line.score(frame, frame["rich"]) == pytest.approx(r2)
    assert sklearn.metrics.roc_auc_score(frame["rich"], model.decision_function(frame)) > 0.5
