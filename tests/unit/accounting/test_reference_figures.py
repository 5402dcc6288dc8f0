"""The figures of an independent calculation in floats, to the digits that it gives."""

import csv
from fractions import Fraction
from functools import cache
from pathlib import Path

import pytest

from dpsdk.accounting import (
    AnyOf,
    Anytime,
    BasicComposition,
    BoundedRangeGuarantee,
    Budget,
    DiscreteGaussianGuarantee,
    EnvelopeComposition,
    PureGuarantee,
    advanced_epsilon,
    bun_steinke_epsilon,
    gdp_epsilon,
    heterogeneous_epsilon,
    optimal_epsilon,
    renyi_divergence,
    renyi_start,
    zcdp_epsilon,
    zcdp_rho,
)

pytestmark = pytest.mark.thorough

Row = dict[str, str]


@cache
def rows():
    with (Path(__file__).parent / "reference.csv").open(newline="", encoding="utf-8") as file:
        return tuple(csv.DictReader(file))


def chosen(method, mechanism=""):
    found = [r for r in rows() if r["method"] == method and r["mechanism"].startswith(mechanism)]
    assert found
    return found


def base_epsilon(row):
    """The epsilon (or eta) of one run."""
    return Fraction(row["parameters"].split("=")[1].split()[0])


def runs(row):
    return int(row["k"])


def check(row, epsilon, tolerance=1e-7):
    assert epsilon == pytest.approx(float(row["epsilon"]), rel=tolerance), row


def test_basic_composition():
    for row in chosen("basic composition"):
        guarantee, k = PureGuarantee(base_epsilon(row)), runs(row)
        composition = BasicComposition()
        total = Fraction(row["epsilon"])
        assert composition.capacity(composition.begin(Budget(total)), guarantee) == k, row


@pytest.mark.parametrize(
    ("name", "convert"), [("Bun-Steinke", bun_steinke_epsilon), ("CKS", zcdp_epsilon)]
)
def test_concentrated_composition(name, convert):
    suffix = f" + {name} conversion"
    for row in chosen("zCDP rho=e0 tanh(e0/2)" + suffix):
        rho = zcdp_rho(PureGuarantee(base_epsilon(row))) * runs(row)
        check(row, convert(rho, row["delta"]))
    for row in chosen("zCDP rho=e0^2/2" + suffix):
        check(row, convert(base_epsilon(row) ** 2 / 2 * runs(row), row["delta"]))
    for row in chosen("zCDP rho=1/(2 sigma^2)" + suffix):
        check(row, convert(runs(row) / (2 * base_epsilon(row) ** 2), row["delta"]))
    for row in chosen("zCDP BR rho=x-1-ln x" + suffix):
        rho = zcdp_rho(BoundedRangeGuarantee(base_epsilon(row))) * runs(row)
        check(row, convert(rho, row["delta"]))
    for row in chosen("zCDP BR rho=eta^2/8" + suffix):
        check(row, convert(base_epsilon(row) ** 2 / 8 * runs(row), row["delta"]))


def test_advanced_composition_under_full_adaptivity():
    for row in chosen("WRRW23 filter (fully adaptive)"):
        check(row, bun_steinke_epsilon(base_epsilon(row) ** 2 / 2 * runs(row), row["delta"]))


def test_leaks_beside_concentrated_composition():
    for row in chosen("approx-zCDP + CKS at delta-k delta0"):
        rho = zcdp_rho(PureGuarantee(base_epsilon(row))) * runs(row)
        left = Fraction(row["delta"]) - runs(row) * Fraction("1e-10")
        check(row, zcdp_epsilon(rho, left))


def test_the_three_forms_of_advanced_composition():
    for method, form in (
        ("DRV loose 2k e0^2", "loose"),
        ("DRV k e0 (e^e0-1)", "middle"),
        ("DRV tight k e0 tanh(e0/2)", "tight"),
    ):
        for row in chosen(method):
            check(row, advanced_epsilon(base_epsilon(row), runs(row), row["delta"], form))


def test_the_heterogeneous_theorem():
    for row in chosen("KOV Thm 3.5", "laplace") + chosen("KOV Thm 3.5", "randomized"):
        check(row, heterogeneous_epsilon([base_epsilon(row)] * runs(row), row["delta"]))


def test_the_optimal_theorem():
    for row in chosen("KOV optimal (pure, exact)"):
        check(row, optimal_epsilon(base_epsilon(row), runs(row), row["delta"]))
    for row in chosen("KOV optimal (exact)"):
        bound = optimal_epsilon(base_epsilon(row), runs(row), row["delta"], leak_each="1e-10")
        check(row, bound)


def test_leaks_beside_advanced_composition():
    for row in chosen("DRV tight, slack delta-k delta0"):
        left = Fraction(row["delta"]) - runs(row) * Fraction("1e-10")
        check(row, advanced_epsilon(base_epsilon(row), runs(row), left))


def test_gaussian_runs_that_are_fixed_beforehand():
    for row in chosen("GDP exact"):
        check(row, gdp_epsilon(runs(row) ** 0.5 / float(base_epsilon(row)), row["delta"]))
    for row in chosen("basic on analytic-Gaussian (eps_i,delta/2k)"):
        k = runs(row)
        each = gdp_epsilon(1 / base_epsilon(row), Fraction(row["delta"]) / (2 * k))
        check(row, k * each)


def test_the_renyi_curve_of_randomised_response():
    for row in chosen("RDP exact curve, continuous order, CKS", "randomized"):
        guarantee, delta = PureGuarantee(base_epsilon(row)), Fraction(row["delta"])
        bounds = []
        for step in range(1, 220):
            order = 1 + Fraction(round(1.12**step * 1000), 20000)
            # The certified divergence grows one for one with epsilon.
            spent = renyi_divergence(guarantee, order) * runs(row)
            bounds.append(float(spent - (renyi_start(Fraction(10**4), delta, order) - 10**4)))
        check(row, min(bounds), tolerance=2e-3)


def test_the_anytime_bound():
    bound = Anytime(delta="1e-6", around="0.025")
    for row in chosen("time-uniform mixture odometer gamma=0.05/31"):
        check(row, bound.epsilon(base_epsilon(row) ** 2 / 2 * runs(row)))


def admits(composition, epsilon, groups):
    state = composition.begin(Budget(epsilon, 1e-6))
    for guarantee, count in groups:
        for _ in range(count):
            after = composition.charge(state, guarantee)
            if after is None:
                return False
            state = after
    return True


ENVELOPE = "GDP-envelope filter (fully adaptive)"


@pytest.mark.parametrize(
    ("method", "composition"),
    [
        (ENVELOPE, EnvelopeComposition(leak_share=0)),
        (
            "portfolio basic|GDP-envelope (fully adaptive)",
            AnyOf((BasicComposition(), EnvelopeComposition(leak_share=0))),
        ),
    ],
    ids=["envelope", "basic or envelope"],
)
def test_the_envelope_filter_on_pure_runs(method, composition):
    # The charge proved here is a little below the reference's.
    for row in chosen(method, "randomized"):
        group = [(PureGuarantee(base_epsilon(row)), runs(row))]
        epsilon = float(row["epsilon"])
        assert admits(composition, epsilon * 1.001, group), row
        assert not admits(composition, epsilon * 0.97, group), row


def test_the_envelope_filter_on_gaussian_runs():
    for row in chosen(ENVELOPE, "gaussian"):
        # On a lattice fine enough that it behaves as the continuous law of the reference.
        spread = base_epsilon(row) ** 2 * 10**8

        group = [(DiscreteGaussianGuarantee(spread, 10**8, 10**4), runs(row))]
        epsilon = float(row["epsilon"])
        assert admits(EnvelopeComposition(leak_share=0), epsilon * 1.0001, group), row
        assert not admits(EnvelopeComposition(leak_share=0), epsilon * 0.9999, group), row


def test_the_envelope_filter_on_bounded_range_runs():
    # The substitute that is proved admits a few runs fewer than the reference's formula.
    composition = EnvelopeComposition(leak_share=0)
    for row in chosen(ENVELOPE, "exponential"):
        start = composition.begin(Budget(float(row["epsilon"]) * 1.0001, 1e-6))
        admitted = composition.capacity(start, BoundedRangeGuarantee(base_epsilon(row)))
        assert runs(row) - 5 <= admitted <= runs(row), row
