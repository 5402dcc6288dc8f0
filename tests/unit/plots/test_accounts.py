"""Pictures of budgets, plans and audits."""

import math
from functools import cache
from statistics import NormalDist

import pytest

from dpsdk import Budget, Domain, Integer, PrivateData, Session, plots
from dpsdk.accounting.numbers import percentage
from dpsdk.errors import InvalidArgument
from dpsdk.mechanisms import Gaussian, Laplace
from dpsdk.noise import DiscreteLaplace
from dpsdk.planner import Plans
from dpsdk.plots.audits import power
from dpsdk.queries import Count, Marginal, marginals
from dpsdk.testing.audit import SamplingReport, WorstCase
from pictures import drawn, session_of, texts

pytestmark = pytest.mark.thorough


words = plots.alternative


def bars(figure, label):
    return [
        [patch.get_width() for patch in container]
        for container in figure.axes[0].containers
        if container.get_label() == label
    ]


def test_scopes_show_what_they_have_spent_of_their_caps():
    session = session_of()
    anna = session.scope("anna", "0.25", reserve=True)
    bob = session.scope("bob", epsilon="0.5", delta="1e-7")
    other = session_of()
    anna.answer(Count(), using=Laplace("0.1"))
    bob.answer(Count(), using=Gaussian(rho="0.001"))
    assert other.scopes == ()
    for statement, scope in zip(session.scopes, (anna, bob), strict=True):
        assert statement.remaining == scope.remaining
        assert statement.spent.fraction == scope.spent.fraction
        assert statement.spent.epsilon == scope.spent.epsilon
        assert statement.spent.charges == 1
    assert [(one.name, one.reserve, one.closed) for one in session.scopes] == [
        ("anna", True, False),
        ("bob", False, False),
    ]
    assert session.scopes[0].cap == "25% of (10, 1e-6)-DP"
    figure = plots.budget(session)
    told = [session.spent, anna.spent, bob.spent]
    assert bars(figure, "_spent") == [[one.fraction] for one in told]
    assert bars(figure, "_left") == [[1 - one.fraction] for one in told]
    for one in told:
        assert any(f"{percentage(one.fraction)} spent" in text for text in texts(figure))
    assert "kept: ε" in words(figure)
    assert "Hatched" in words(figure)
    assert "Budget of (10, 1e-6)-DP on 'people'" in words(figure)
    drawn(figure)
    bob.close()
    assert [one.name for one in session.scopes if not one.closed] == ["anna"]


def test_what_is_left_is_said_in_rows_of_one_count():
    session = session_of()
    figure = plots.budget(session, beta=0.01)
    rows = DiscreteLaplace(1 / session.remaining.epsilon).radius(0.01, 1)
    assert f"off by at most {rows} row" in words(figure)
    assert "β = 0.01" in words(figure)


def test_a_count_is_as_far_off_as_a_person_has_rows():
    domain = Domain(Integer("age", 0, 9))
    data = PrivateData.from_columns({"age": list(range(10))}, domain, unit_rows=5)
    session = Session(data, Budget(1))
    quote = session.quote(Count(normalized=False), using=Laplace(1))
    assert quote.error() == 15
    assert "off by at most 15 rows" in words(plots.budget(session))


def test_what_was_spent_alone_is_drawn():
    session = session_of(private=False)
    session.answer(Count(), using=Laplace("0.5"))
    figure = plots.budget(session.spent)
    assert bars(figure, "_spent") == [[session.spent.fraction]]
    assert words(plots.budget(session)).startswith("NOT PRIVATE")
    for x in (None, 3, session.remaining, [session]):
        with pytest.raises(InvalidArgument, match="a session, or what it has spent"):
            plots.budget(x)


@cache
def some_plans():
    return session_of().plan(Marginal("age", "sex"), error=0.5)


def test_plans_stand_at_their_cost_and_their_error():
    plans = some_plans()
    figure = plots.plan(plans)
    drawn(figure)
    best = plans.best
    assert f"bound {best.promised.error:.4g}" in words(figure)
    assert f"{100 * float(best.share_of_remaining):.4g}% of what is left" in words(figure)
    at = [
        (line.get_xdata()[0], line.get_ydata()[0])
        for line in figure.axes[0].lines
        if line.get_marker() == "o"
    ]
    assert (float(best.share_of_remaining), best.promised.error) in at
    assert any(
        text.startswith("1  ") and str(best.mechanism)[:20] in text for text in texts(figure)
    )


def test_numbers_of_plans_close_by_stand_as_the_plans_do():
    session = session_of()
    figure = plots.plan(session.plan(marginals(session.domain, 2), error=0.5))
    notes = [one for one in figure.axes[0].texts if one.get_text().isdigit()]
    for one in notes:
        for other in notes:
            near = 0.5 < one.xy[0] / other.xy[0] < 2
            if near and one.xy[1] < other.xy[1] < 2 * one.xy[1]:
                assert one.xyann[1] <= other.xyann[1]


def test_bounds_for_a_larger_beta_are_left_out():
    plans = session_of().plan(Count(), error=0.5, beta=0.2)
    assert "bound " in words(plots.plan(plans, beta=0.2))
    figure = plots.plan(plans, beta=0.1)
    assert not [line for line in figure.axes[0].lines if line.get_marker() == "o"]
    assert "planned for a larger β are left out" in words(figure)


def test_one_plan_and_none():
    plans = some_plans()
    drawn(plots.plan(plans.best))
    with pytest.raises(InvalidArgument, match="no plans"):
        plots.plan(Plans(()))
    for x in (None, [plans.best], "plan"):
        with pytest.raises(InvalidArgument, match=r"the plans of session\.plan"):
            plots.plan(x)


def worst(figure=1.0, allowed=1.0, quantity="ε", claimed="1-DP"):
    return WorstCase(claimed, quantity, figure, allowed, figure, "(3,)", 2, 80, 0.1)


def test_audits_show_what_was_found_of_what_is_claimed():
    reports = {"laplace": worst(), "half": worst(1.0, 0.5), "leaks": worst(math.inf)}
    figure = plots.audit(reports)
    drawn(figure)
    assert bars(figure, "_found")[:2] == [[1.0], [2.0]]
    said = words(figure)
    assert said.startswith("3 audits: 2 claims REFUTED.")
    assert "half: REFUTED by outcome (3,): found ε 1 of 0.5 claimed" in said
    assert "found ε infinity of 1" in said
    assert "laplace: Not refuted: found ε 1 of 1 claimed, 1-DP." in said
    assert "One audit: its claim is not refuted" in words(plots.audit(worst()))
    drawn(plots.audit(worst(0.0, 0.0)))


def test_a_claim_bounds_what_an_attacker_finds():
    assert power(worst(), 0.05) == pytest.approx(0.05 * math.e)
    assert power(worst(), 0.9) == pytest.approx(1 - 0.1 / math.e)
    assert power(worst(allowed=1e4), 0.05) == 1.0
    assert power(worst(quantity="δ"), 0.05) is None
    # A Gaussian of this ρ has the power Φ(z + √2ρ), which no bound may undercut.
    for rho in (1e-3, 0.1, 1.0, 30.0):
        normal = NormalDist()
        best = normal.cdf(normal.inv_cdf(0.05) + math.sqrt(2 * rho))
        found = power(worst(allowed=rho, quantity="ρ"), 0.05)
        assert best <= found <= 1.0
    assert power(worst(allowed=1e-3, quantity="ρ"), 0.05) < 0.07
    figure = plots.audit(worst(), beta=0.1)
    assert f"with probability {0.1 * math.e:.4g} at the most" in words(figure)


def test_tests_show_the_event_that_tells_most():
    held = SamplingReport(False, "at most 3", 0.2, 0.1, 1000)
    broken = SamplingReport(True, "at least 8", 0.5, 0.0, 1000)
    figure = plots.audit([held, broken], beta=0.1)
    drawn(figure)
    assert bars(figure, "_found") == [[0.2], [0.1], [0.5], [0.0]]
    assert "REFUTED" in words(figure)
    assert "2,000 samples" in words(figure)
    for x in (None, [], {}, [held, worst()], [3], "audit"):
        with pytest.raises(InvalidArgument, match="a WorstCase or SamplingReport"):
            plots.audit(x)


def test_names_in_a_budget_are_quoted():
    domain = Domain(Integer("age", 0, 9))
    data = PrivateData.from_columns({"age": [1]}, domain, name="a, b")
    session = Session(data, Budget(1))
    scope = session.scope("c, d", "0.5")
    scope.answer(Count(), using=Laplace("0.1"))
    assert "Budget of 1-DP on 'a, b'. session (1-DP): 10% spent" in words(plots.budget(session))
    assert "scope 'c, d' (50% of 1-DP): 20% spent" in words(plots.budget(session))
    assert "In scopes: 'c, d'." in words(plots.stream(session))
