"""Models of records that may lack a value: they count nowhere, whichever value it is."""

import numpy as np
import pytest

from dpsdk import (
    MISSING,
    OTHER,
    Binned,
    Boolean,
    Budget,
    Categorical,
    Domain,
    Integer,
    Neighbors,
    Number,
    PrivateData,
    Session,
)
from dpsdk.errors import TooLarge
from dpsdk.forms import Ball, ConvexForm, LinearForm, sensitivity
from dpsdk.hypothesis import DenseHypothesis, Pairs
from dpsdk.losses import LogisticLoss, SquaredLoss
from dpsdk.mechanisms import NoisyHistogram, PrivateMinimizer
from dpsdk.mechanisms.convex import Corrected, SufficientStatistics
from dpsdk.queries import ConvexMinimization, Cross, OneHot
from dpsdk.testing import seeded
from worlds import facts, moves, weights

OPEN = Domain(
    Integer("age", 0, 2, missing=True),
    Categorical("sex", ["F", "M"], missing=True, other=True),
    Boolean("rich", other=True),
)
CLOSED = OPEN.closed()
QUERIES = {
    "logistic": ConvexMinimization(
        LogisticLoss(), features=["age", "sex"], label="rich", over=Ball(2)
    ),
    "squared": ConvexMinimization(
        SquaredLoss(), features=[OneHot("sex"), Cross("age", "sex")], label="rich", over=Ball(2)
    ),
    "no intercept": ConvexMinimization(
        SquaredLoss(), features=["age", "sex"], label="rich", over=Ball(2), intercept=False
    ),
}
THETA = np.linspace(-0.5, 0.9, 9)
RECORDS = list(OPEN.records())
KNOWN = np.array([not {MISSING, OTHER} & set(record.values()) for record in RECORDS])


def forms(name):
    """The linear forms that a model asks of a table, over both domains."""
    for domain in (OPEN, CLOSED):
        form = QUERIES[name].lower(domain)
        theta = THETA[: form.dimension]
        yield {
            "gradient": form.gradient(theta),
            "hessian": form.hessian(theta),
            "moments": form.moments(),
            "distinct": form.distinct_moments()[0],
        }


def holds(opened, closed):
    """Whether the open form is the closed one on records with all values, and 0 on others."""
    table = weights(opened)
    return not table[:, ~KNOWN].any() and np.array_equal(table[:, KNOWN], weights(closed))


@pytest.mark.parametrize("name", QUERIES)
def test_a_record_that_lacks_a_value_weighs_nothing(name):
    opened, closed = forms(name)
    for asked, form in opened.items():
        assert holds(form, closed[asked]), asked


@pytest.mark.thorough(quick=3)
@pytest.mark.parametrize("neighbors", Neighbors)
@pytest.mark.parametrize("name", QUERIES)
def test_such_a_record_is_priced_as_one_outside(name, neighbors):
    opened, closed = forms(name)
    for asked, form in opened.items():
        of = facts(OPEN, neighbors, outside=False)
        found = sensitivity(form, of)
        l1, l2, top = moves(weights(form), of)
        assert found.l1 >= float(l1) * (1 - 1e-12)
        assert found.l2_squared >= float(l2) * (1 - 1e-12)
        assert found.maximum >= top
        beside = sensitivity(closed[asked], facts(CLOSED, neighbors, outside=True))
        assert float(found.l2_squared) == pytest.approx(float(beside.l2_squared)), asked


def test_a_slope_that_is_kept_for_a_missing_feature_is_caught(monkeypatch):
    # The rule without which each product would look at its own attributes alone.
    def own_names(self, names):
        return {name: self.domain[name].size for name in self.names if name in names}

    monkeypatch.setattr(ConvexForm, "_sizes", own_names)
    opened, closed = forms("squared")
    assert not holds(opened["moments"], closed["moments"])
    assert not holds(opened["distinct"], closed["distinct"])


def test_constants_are_those_of_the_labels():
    for query in QUERIES.values():
        opened, closed = query.lower(OPEN), query.lower(CLOSED)
        assert opened.constants == closed.constants
        assert opened.longest == closed.longest
        assert opened.partial
        assert not closed.partial


def test_a_model_of_a_distribution_is_one_of_its_known_records():
    shares = np.random.default_rng(2).dirichlet(np.ones(OPEN.size))
    query = QUERIES["logistic"]
    model = query.fit(DenseHypothesis.from_weights(OPEN, shares))
    known = query.fit(DenseHypothesis.from_weights(CLOSED, shares[KNOWN] / shares[KNOWN].sum()))
    assert model.theta == pytest.approx(known.theta, abs=1e-3)
    form = query.lower(OPEN)
    tables = DenseHypothesis.from_weights(OPEN, shares)
    gradient, hessian = form.expand(tables, model.theta)
    assert gradient == pytest.approx(tables.answers(form.gradient(model.theta)))
    assert hessian == pytest.approx(form.matrix(tables.answers(form.hessian(model.theta))))


def test_a_row_that_lacks_a_value_has_no_prediction():
    model = QUERIES["logistic"].fit(DenseHypothesis.uniform(OPEN, outside=False))
    found = model.predict({"age": [0, None, 9, 2], "sex": ["F", "F", "M", None]})
    assert np.isnan(found).tolist() == [False, True, True, True]


MECHANISMS = {
    "corrected": PrivateMinimizer(epsilon=50),
    "certified": PrivateMinimizer(epsilon=50, oracle=Corrected(certify=0.5)),
    "pairs": PrivateMinimizer(epsilon=50, oracle=Corrected(Pairs(), certify=0.5)),
    "moments": PrivateMinimizer(epsilon=50, oracle=SufficientStatistics(certify=0.5)),
}


@pytest.mark.parametrize("name", MECHANISMS)
def test_a_private_model_is_that_of_the_known_rows(name):
    counts = np.random.default_rng(4).integers(0, 900, OPEN.shape)
    counts[2, :, 1] += 3000
    asked = QUERIES["no intercept"]
    data = PrivateData.from_counts(counts, OPEN, name="open")
    session = Session(data, Budget(epsilon=60), noise=seeded(3))
    found = session.release(asked, using=MECHANISMS[name])
    true = asked.fit(DenseHypothesis.from_weights(OPEN, counts.reshape(-1) / counts.sum()))
    assert found.value.theta == pytest.approx(true.theta, abs=0.05)
    if name != "corrected":
        form = asked.lower(OPEN)
        shares = DenseHypothesis.from_weights(OPEN, counts.reshape(-1) / counts.sum())
        excess = form.value(shares, found.value.theta) - form.value(shares, true.theta)
        assert excess <= found.bound(0.01).error


def test_a_channel_with_a_distribution_answers_models_of_known_rows():
    counts = np.random.default_rng(4).integers(500, 900, OPEN.shape)
    data = PrivateData.from_counts(counts, OPEN, name="open")
    session = Session(data, Budget(epsilon=60), noise=seeded(3))
    with session.open(NoisyHistogram(epsilon=50)) as channel:
        model = channel.answer(QUERIES["logistic"])
    true = QUERIES["logistic"].fit(
        DenseHypothesis.from_weights(OPEN, counts.ravel() / counts.sum())
    )
    assert model.theta == pytest.approx(true.theta, abs=0.1)


def test_moments_of_many_open_attributes_are_refused_before_they_are_made():
    wide = Domain(*[Integer(f"a{n}", 0, 8) for n in range(4)], Boolean("y")).open()
    names = [OneHot(f"a{n}") for n in range(4)]
    query = ConvexMinimization(SquaredLoss(), features=names, label="y", over=Ball(1))
    with pytest.raises(TooLarge, match="cells for missing and other values"):
        query.lower(wide).distinct_moments()
    assert isinstance(query.lower(wide.closed()).distinct_moments()[0], LinearForm)


def test_a_number_is_scaled_by_its_bounds():
    domain = Domain(Number("x", -1, 1, "0.5", missing=True), Binned("y", [0, 1, 3], missing=True))
    query = ConvexMinimization(
        SquaredLoss(), features=["x"], label="y", over=Ball(1), intercept=False
    )
    form = query.lower(domain)
    assert form.coordinates[0].values.tolist() == [[-1.0, -0.5, 0.0, 0.5, 1.0]]
    assert len(form.targets) == 2
