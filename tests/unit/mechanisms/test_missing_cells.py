"""Every strategy on attributes with cells for missing and for other values."""

import numpy as np
import pytest

from dpsdk import (
    MISSING,
    OTHER,
    Budget,
    Categorical,
    Domain,
    Integer,
    PrivateData,
    Session,
    SyntheticData,
)
from dpsdk.mechanisms import (
    MWEM,
    ExponentialQuantile,
    Gaussian,
    Laplace,
    LocalMarginals,
    Matrix,
    NoisyHistogram,
    OnlinePMW,
    ResidualPlanner,
    SmallDB,
    SquareRoot,
    Tree,
)
from dpsdk.queries import Count, Marginal, Median, Not, Threshold, Workload, marginals
from dpsdk.testing import seeded

DOMAIN = Domain(Integer("age", 1, 5), Categorical("sex", ["F", "M"])).open()
COUNTS = np.random.default_rng(6).integers(0, 400, DOMAIN.shape)
ALONG = Workload([Threshold("age", t) for t in range(1, 6)])
ASKED = Workload(
    [
        *ALONG.queries,
        Marginal("sex", "age"),
        Marginal("age", known=True),
        Count({"sex": MISSING, "age": Not(OTHER)}),
        Threshold("age", 2, where={"sex": Not(MISSING)}),
    ]
)
BOTH = {
    "laplace": Laplace(epsilon=50),
    "gaussian": Gaussian(rho=500),
    "histogram": NoisyHistogram(epsilon=50),
    "matrix": Matrix(ASKED, rho=500),
    "residuals": ResidualPlanner(marginals(DOMAIN, 2), rho=500),
    "local": LocalMarginals(ASKED, rho=500),
    "mwem": MWEM(ASKED, epsilon=50),
    "small": SmallDB(ALONG, epsilon=50, size=400),
}
ONE = {
    "tree": Tree("age", epsilon=50),
    "root": SquareRoot("age", rho=500),
    "small": BOTH["small"],
}


def session():
    data = PrivateData.from_counts(COUNTS, DOMAIN, name="open")
    return Session(data, Budget(epsilon=10**4, delta="1e-3"), noise=seeded(2))


def truth(query):
    exact = SyntheticData.from_counts(DOMAIN, COUNTS)
    form = query.lower(DOMAIN)
    return query.numbers(exact.answers(form) * exact.rows, session().facts)


CASES = [(name, using, ASKED) for name, using in BOTH.items() if name != "small"]
CASES += [(name, using, ALONG) for name, using in ONE.items()]


@pytest.mark.parametrize(("name", "using", "query"), CASES)
def test_a_strategy_answers_questions_of_labels_and_of_extra_cells(name, using, query):
    answers = session().answer(query, using=using).values
    assert np.abs(answers - truth(query)).max() < (0.05 if name in ("mwem", "small") else 0.01)


def test_a_stream_learns_extra_cells():
    with session().open(OnlinePMW(epsilon=50, updates=40)) as channel:
        for _ in range(4):
            answers = channel.answer(ASKED).values
        shares = channel.distribution.table(("sex",))
    assert np.abs(answers - truth(ASKED)).max() < 0.05
    assert shares[DOMAIN["sex"].index(MISSING)] == pytest.approx(
        float(truth(Count({"sex": MISSING}))[0]), abs=0.05
    )


@pytest.mark.parametrize("using", [Tree("age", epsilon=50), ExponentialQuantile(epsilon=50)])
def test_a_median_is_of_rows_with_a_label(using):
    ages = COUNTS.sum(axis=1)[:5]
    true = 1 + int(np.searchsorted(np.cumsum(ages), ages.sum() / 2))
    assert session().answer(Median("age"), using=using) == true


def test_a_sample_has_missing_and_other_values():
    with session().open(NoisyHistogram(epsilon=50)) as channel:
        sample = channel.distribution.sample(3000, seed=5)
    assert set(sample["sex"]) == {"F", "M", OTHER, MISSING}
    share = sample["age"].count(MISSING) / 3000
    assert share == pytest.approx(COUNTS[6].sum() / COUNTS.sum(), abs=0.05)
