"""What plans expect: the law of noise covers as it says, the table of measured errors is ordered,
and nothing is expected to be further off than its own bound."""

import numpy as np
import pytest

from dpsdk import Budget, Domain, Integer, Neighbors, PrivateData, Session
from dpsdk.accounting import default_composition
from dpsdk.accounting.balance import Balance
from dpsdk.forms.assumptions import Assumptions
from dpsdk.kernel import Terms
from dpsdk.mechanisms import Gaussian, Laplace
from dpsdk.planner.expected import (
    MEASURED_BY_BOUND,
    MEASURED_BY_NOISE,
    NOISE_DECADES,
    effort,
    forecast,
)
from dpsdk.planner.families import families
from dpsdk.planner.task import Task
from dpsdk.queries import Interval, Marginal, Mean, Sum, Threshold, Workload, marginals
from dpsdk.testing import seeded

DOMAIN = Domain(Integer("age", 0, 19), Integer("sex", 0, 1), Integer("kind", 0, 2))
COUNTS = np.random.default_rng(1).integers(0, 40, DOMAIN.shape)
ROWS = int(COUNTS.sum())
PAIRS = marginals(DOMAIN, 2)


def task_of(query, budget="1", delta="1e-9", neighbors=Neighbors.REPLACE_ONE, rows=None):
    data = PrivateData.from_counts(COUNTS, DOMAIN, neighbors=neighbors)
    composition, whole = default_composition(), Budget(budget, delta)
    balance = Balance(composition, whole, (composition.begin(whole),))
    terms = Terms(data.facts, composition)
    return Task(query, query.lower(DOMAIN), terms, balance, 0.05, Assumptions(rows=rows))


def family_of(task, code):
    return next(family for family in families(task) if family.code == code)


def forecast_of(query, code, budget="1", delta="1e-9", **more):
    task = task_of(query, budget, delta, **more)
    family = family_of(task, code)
    return forecast(task, family, family.quote(family.within(Budget(budget, delta)), task))


@pytest.mark.parametrize(
    ("mechanism", "code", "query"),
    [
        (Laplace(epsilon=1), "laplace", Workload(Threshold("age", t) for t in range(19))),
        (Laplace(epsilon="0.01"), "laplace", Marginal("age", "sex", normalized=False)),
        (
            Gaussian(rho="0.0001"),
            "gaussian",
            Workload([Sum("age", normalized=False), Interval("age", 3, 9, normalized=False)]),
        ),
        (Gaussian(rho="0.1"), "gaussian", Marginal("sex", "kind")),
    ],
    ids=["laplace-narrow", "laplace", "units", "gaussian-narrow"],
)
def test_the_law_of_noise_is_the_law_of_the_largest_error(mechanism, code, query):
    runs = 300
    data = PrivateData.from_counts(COUNTS, DOMAIN)
    session = Session(data, Budget(10**6, "0.1"), noise=seeded(7))
    task = task_of(query)
    expected = forecast(task, family_of(task, code), mechanism.quote(task.form, task.terms))
    assert expected.basis == "noise"
    exact = session.release(query, using=Laplace(epsilon=10**5)).raw
    truth = np.asarray(query.numbers(exact, data.facts))
    errors = np.array(
        [
            np.abs(
                query.numbers(session.release(query, using=mechanism).raw, data.facts) - truth
            ).max()
            for _ in range(runs)
        ]
    )
    # Five deviations of a binomial: false alarms below one in a million. Whole numbers of noise
    # fall on the ends themselves, which counts for both sides.
    slack = 5 * np.sqrt(0.25 / runs)
    for end, share in ((expected.low, 0.05), (expected.median, 0.5), (expected.high, 0.95)):
        assert np.mean(errors <= end * (1 + 1e-3)) >= share - slack
        assert np.mean(errors < end * (1 - 1e-3)) <= share + slack


@pytest.mark.parametrize("neighbors", Neighbors)
@pytest.mark.parametrize("delta", ["0", "1e-9"])
def test_more_budget_is_never_worse_and_nothing_is_above_its_bound(neighbors, delta):
    line = Workload(Threshold("age", t, normalized=False) for t in range(19))
    for query in (marginals(DOMAIN, 2, normalized=False), line):
        for family in families(task_of(query, "1", delta, neighbors)):
            before = None
            for budget in ("0.001", "0.1", "10"):
                task = task_of(query, budget, delta, neighbors, rows=ROWS)
                twin = family_of(task, family.code)
                if twin.barred:
                    continue
                quote = twin.quote(twin.within(Budget(budget, delta)), task)
                expected, bound = forecast(task, twin, quote), task.bound(quote)
                assert expected is not None
                assert 0 <= expected.low <= expected.median <= expected.high
                assert expected.high <= task.span or family.code not in MEASURED_BY_NOISE
                assert not bound.proven or expected.high <= bound.error * (1 + 1e-3)
                if before is not None:
                    # MWEM and others plan more rounds of a larger budget, at more cost in all.
                    assert expected.median <= before.median * 1.01, family.code
                    assert expected.high <= before.high * 1.01, family.code
                before = expected


def test_the_published_table_is_ordered_and_names_families_that_there_are():
    for band in MEASURED_BY_BOUND.values():
        assert list(band) == sorted(band)
    for bands in MEASURED_BY_NOISE.values():
        assert len(bands) == len(NOISE_DECADES)
        for place in range(3):
            column = [band[place] for band in bands]
            assert column == sorted(column)
        assert all(list(band) == sorted(band) for band in bands)


def test_outside_of_what_was_measured_is_said_to_be_extrapolated():
    assert forecast_of(PAIRS, "mwem").basis == "calibrated"
    wide, narrow = forecast_of(PAIRS, "mwem", "1e-5"), forecast_of(PAIRS, "mwem", "10000")
    assert wide.basis == narrow.basis == "extrapolated"
    assert narrow.median < 1e-4 < wide.median


def test_without_rows_only_the_law_of_noise_is_known():
    query = marginals(DOMAIN, 2, normalized=False)
    relation = Neighbors.ADD_REMOVE
    assert forecast_of(query, "mwem", neighbors=relation) is None
    assert forecast_of(query, "mwem", neighbors=relation, rows=ROWS).basis == "calibrated"
    assert forecast_of(query, "gaussian", neighbors=relation).basis == "noise"


def test_of_a_mean_nothing_is_expected_since_its_error_is_of_no_plain_number():
    assert forecast_of(Mean("age"), "laplace") is None


def test_efforts_count_passes_over_the_universe():
    task = task_of(PAIRS)
    assert effort(task, family_of(task, "gaussian")) is None
    needs = effort(task, family_of(task, "mwem"))
    assert needs.bytes == 32 * DOMAIN.size
    assert needs.seconds > 0
