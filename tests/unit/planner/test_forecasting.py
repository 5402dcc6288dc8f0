"""Forecasts: exact laws cover as they say, and calibrated ones are ordered and monotone."""

from fractions import Fraction

import numpy as np
import pytest

from dpsdk import Budget, Domain, Integer, Neighbors, PrivateData, Session
from dpsdk.calibration.measuring import Setting, error_of, task_for
from dpsdk.calibration.tables import PublicTable
from dpsdk.errors import InvalidArgument
from dpsdk.forms.assumptions import Assumptions
from dpsdk.mechanisms import Gaussian, Laplace
from dpsdk.planner.calibration import Calibration
from dpsdk.planner.families import families
from dpsdk.planner.forecasting import effort, features, forecast
from dpsdk.planner.models import ErrorModel, Line
from dpsdk.queries import Interval, Marginal, Mean, Sum, Threshold, Workload, marginals
from dpsdk.testing import seeded

pytestmark = pytest.mark.thorough

DOMAIN = Domain(Integer("age", 0, 19), Integer("sex", 0, 1), Integer("kind", 0, 2))
COUNTS = np.random.default_rng(1).integers(0, 40, DOMAIN.shape)
TABLE = PublicTable.from_counts(COUNTS, DOMAIN)


def task_of(
    query, budget="1", delta="1e-9", neighbors=Neighbors.REPLACE_ONE, calibration=None, rows=None
):
    data = TABLE.as_if_private(neighbors)
    setting, assumed = Setting(Budget(budget, delta), neighbors), Assumptions(rows=rows)
    return task_for(data, query, setting, assumed, calibration)


def family_of(task, code):
    return next(family for family in families(task) if family.code == code)


def forecast_of(query, code, budget="1", delta="1e-9", calibration=None, **more):
    task = task_of(query, budget, delta, calibration=calibration, **more)
    family = family_of(task, code)
    quote = family.quote(family.within(Budget(budget, delta)), task)
    return forecast(task, family, quote)


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
    quote = mechanism.quote(task.form, task.terms)
    found = forecast(task, family_of(task, code), quote)
    assert found.basis == "noise"
    errors = np.array(
        [error_of(TABLE, task, session.release(query, using=mechanism).raw) for _ in range(runs)]
    )
    # Five deviations of a binomial: false alarms below one in a million. Whole numbers of noise
    # fall on the ends themselves, which counts for both sides.
    slack = 5 * np.sqrt(0.25 / runs)
    for end, share in ((found.low, 0.05), (found.median, 0.5), (found.high, 0.95)):
        edge = end * (1 + 1e-3)
        assert np.mean(errors <= edge) >= share - slack
        assert np.mean(errors < end * (1 - 1e-3)) <= share + slack


def test_equal_questions_have_equal_forecasts():
    query = marginals(DOMAIN, 2)
    assert forecast_of(query, "gaussian") == forecast_of(marginals(DOMAIN, 2), "gaussian")
    assert forecast_of(query, "mwem") == forecast_of(marginals(DOMAIN, 2), "mwem")


@pytest.mark.parametrize("neighbors", Neighbors)
@pytest.mark.parametrize("delta", ["0", "1e-9"])
def test_more_budget_is_never_expected_to_be_worse_and_ends_are_in_order(neighbors, delta):
    line = Workload(Threshold("age", t, normalized=False) for t in range(19))
    for asked in (marginals(DOMAIN, 2, normalized=False), line):
        for family in families(task_of(asked, "1", delta, neighbors)):
            before = None
            for budget in ("0.001", "0.1", "10"):
                task = task_of(asked, budget, delta, neighbors, rows=TABLE.rows)
                twin = family_of(task, family.code)
                if twin.barred:
                    continue
                quote = twin.quote(twin.within(Budget(budget, delta)), task)
                found = forecast(task, twin, quote)
                if found is None:
                    continue
                assert 0 <= found.low <= found.median <= found.high
                if before is not None:
                    # MWEM and others plan more rounds of a larger budget, at more cost in all.
                    assert found.median <= before.median * 1.01, family.code
                    assert found.high <= before.high * 1.01, family.code
                before = found


def test_errors_stop_at_the_span_of_answers():
    query = marginals(DOMAIN, 2)
    for code in ("mwem", "local-marginals", "residual-planner", "gaussian"):
        found = forecast_of(query, code, "0.0001", "1e-12")
        if found is not None and found.basis != "noise":
            assert found.high <= 1.0


def test_far_from_what_was_measured_is_said_to_be_extrapolated():
    query = marginals(DOMAIN, 2)
    line = Line(-0.5, {"strength": -0.3})
    near = ErrorModel("rows", line, -0.2, 0.3, None, {"strength": (0, 9), "numbers": (0, 4)}, 20)
    far = ErrorModel("rows", line, -0.2, 0.3, None, {"strength": (0, 9), "numbers": (3, 4)}, 20)
    inside = forecast_of(query, "mwem", calibration=Calibration("", {"mwem": near}, {}))
    beyond = forecast_of(query, "mwem", calibration=Calibration("", {"mwem": far}, {}))
    assert inside.basis == "calibrated"
    assert beyond.basis == "extrapolated"
    assert beyond.median == inside.median
    assert beyond.low < inside.low
    assert beyond.high > inside.high


def test_nothing_is_said_without_a_model_or_of_another_base():
    query = marginals(DOMAIN, 2)
    line = Line(0.0, {})
    wrong = ErrorModel("predicted", line, -0.2, 0.3, None, {}, 20)
    assert forecast_of(query, "mwem", calibration=Calibration("", {}, {})) is None
    assert forecast_of(query, "mwem", calibration=Calibration("", {"mwem": wrong}, {})) is None


def test_without_a_number_of_rows_what_is_compared_with_rows_has_no_forecast():
    query = marginals(DOMAIN, 2, normalized=False)
    found = []
    for rows in (TABLE.rows, None):
        task = task_of(query, neighbors=Neighbors.ADD_REMOVE, rows=rows)
        family = family_of(task, "mwem")
        found.append(forecast(task, family, family.quote(family.within(Budget("1", "1e-9")), task)))
    assert found[0] is not None
    assert found[1] is None


def test_a_mean_is_no_law_of_noise_and_needs_to_know_about_how_many_rows_it_is_of():
    for rows, told in ((None, False), (TABLE.rows, True)):
        found = forecast_of(Mean("age"), "laplace", neighbors=Neighbors.ADD_REMOVE, rows=rows)
        assert (found is not None) == told
        assert found is None or found.basis in ("calibrated", "extrapolated")


def test_features_are_public_and_finite():
    task = task_of(marginals(DOMAIN, 2))
    family = family_of(task, "gaussian")
    found = features(task, family.quote(family.at(Fraction(1, 100)), task))
    assert all(np.isfinite(value) for value in found.values())
    assert found["blocks"] == pytest.approx(np.log10(3))
    assert found["ways"] == 2.0


def test_efforts_are_positive_and_grow_with_the_question():
    small, large = task_of(Threshold("age", 3)), task_of(marginals(DOMAIN, 3))
    efforts = []
    for task in (small, large):
        family = family_of(task, "gaussian")
        efforts.append(effort(task, family, family.quote(family.at(Fraction(1, 100)), task)))
    assert 0 < efforts[0].seconds <= efforts[1].seconds
    assert 0 < efforts[0].bytes <= efforts[1].bytes


def test_a_calibration_changes_what_a_session_expects_and_nothing_that_it_promises():
    data = PrivateData.from_counts(COUNTS, DOMAIN)
    session = Session(data, Budget(1, "1e-9"), noise=seeded(1))
    query, budget = marginals(DOMAIN, 2), Budget("0.5", "1e-10")
    line = Line(-1.0, {})
    none = Calibration("nothing", {}, {})
    flat = ErrorModel("rows", line, -0.2, 0.3, None, {}, 20)
    own = Calibration("flat", {"mwem": flat, "local-marginals": flat}, {})
    told = [
        {str(plan.mechanism): plan for plan in session.plan(query, budget=budget, calibration=one)}
        for one in (none, own, None)
    ]
    assert told[0].keys() == told[1].keys() == told[2].keys()
    for name, plan in told[0].items():
        for other in told[1:]:
            assert plan.cost == other[name].cost
            assert plan.promised == other[name].promised
    learnt = [name for name in told[0] if name.startswith("MWEM")]
    assert learnt
    for name in learnt:
        assert told[0][name].expected is None
        assert told[1][name].expected.median == pytest.approx(0.1)
    with pytest.raises(InvalidArgument, match="calibration"):
        session.plan(query, budget=budget, calibration="mine.json")
