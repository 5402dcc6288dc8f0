"""Coefficients as bars, in the units of the data."""

import numpy as np
import pytest
from matplotlib.figure import Figure

from dpsdk import Budget, Categorical, Domain, Integer, PrivateData, Session, plots
from dpsdk.errors import InvalidArgument
from dpsdk.losses import LogisticLoss, SquaredLoss
from dpsdk.mechanisms import Laplace, PrivateMinimizer, SufficientStatistics
from dpsdk.queries import ConvexMinimization, Count, OneHot
from dpsdk.testing import seeded
from pictures import artists, drawn, segments, session_of, values

pytestmark = pytest.mark.thorough

DOMAIN = Domain(Integer("age", 20, 39), Categorical("edu", ["a", "b$_"]), Integer("wage", 0, 200))


def release(*features, loss=None, epsilon=2):
    age, edu = np.arange(4000) % 20 + 20, np.arange(4000) % 2
    columns = {"age": age, "edu": np.array(["a", "b$_"])[edu], "wage": 3 * age + 10 * edu}
    data = PrivateData.from_columns(columns, DOMAIN)
    label = "wage" if loss is None else "edu"
    query = ConvexMinimization(loss or SquaredLoss(), features=features, label=label)
    oracle = {"oracle": SufficientStatistics()} if loss is None else {}
    with Session(data, Budget(5, "1e-5"), noise=seeded(1)) as session:
        return session.release(query, using=PrivateMinimizer(epsilon=epsilon, **oracle))


def test_a_model_shows_its_coefficients_and_their_intervals():
    found = release("age", OneHot("edu", drop="a"))
    figure = plots.coefficients(found, beta=0.1)
    bounds = list(found.value.intervals(found.accuracy, 0.1).values())[:2]
    places, low, high = segments(figure)
    assert places.tolist() == [0, 1]
    assert list(zip(low.tolist(), high.tolist(), strict=True)) == bounds
    assert values(figure, "x").tolist() == list(found.value.coefficients.values())
    said = plots.alternative(figure)
    assert f"Intercept {found.value.intercept:.4g}." in said
    assert "Proven: confidence set of the table's least squares." in said
    assert drawn(figure).std() > 0


def test_what_is_not_determined_has_no_end_and_what_has_no_set_no_bar():
    endless = plots.coefficients(release("age", "edu"))
    assert "2 bars have no end: nothing is known there." in plots.alternative(endless)
    none = plots.coefficients(release("age", loss=LogisticLoss()))
    assert artists(none, "interval") == []
    assert "No bars" in plots.alternative(none)


def test_what_is_no_release_of_a_model_is_refused():
    count = session_of().release(Count(), using=Laplace(1))
    for odd in (3, count, count.value):
        with pytest.raises(InvalidArgument, match="a release of a model"):
            plots.coefficients(odd)
    with pytest.raises(InvalidArgument, match="beta"):
        plots.coefficients(release("age"), beta=2)
    axes = Figure().subplots()
    assert plots.coefficients(release("age"), ax=axes) is axes.figure
