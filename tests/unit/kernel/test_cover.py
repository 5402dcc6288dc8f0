"""What is paid before its lattice is known covers what is then measured."""

import math
from fractions import Fraction
from statistics import NormalDist

import numpy as np
import pytest

from dpsdk import Budget, Domain, Integer, Neighbors, PrivateData, Session
from dpsdk.accounting import EnvelopeComposition, Odometer, default_composition, zcdp_rho
from dpsdk.accounting.numbers import STEPS
from dpsdk.accounting.prices.covering import covers
from dpsdk.accounting.prices.envelope import price_of
from dpsdk.errors import BudgetExceeded
from dpsdk.forms import Kronecker, LinearForm, Range, Weights
from dpsdk.kernel import GaussianNoise, Kernel, LaplaceNoise, Measure, Terms
from dpsdk.mechanisms import Laplace, OnlinePMW
from dpsdk.queries import Count, Linear, Marginal, Mean, Sum, Threshold
from dpsdk.testing import seeded
from worlds import facts

pytestmark = pytest.mark.thorough

DELTA = "1e-7"
LINE = Domain(Integer("x", 0, 7))


def weighted(*weights):
    return LinearForm(LINE, [Kronecker(("x",), (Weights([list(weights)]),))])


FORMS = {
    "a count": LinearForm(LINE, [Kronecker(("x",), (Range(8, 2, 5),))]),
    "a table": Marginal("x", normalized=False).lower(LINE),
    "a sum": Sum("x", normalized=False).lower(LINE),
    "a mean": Mean("x").lower(LINE),
    "thirds": weighted(0, 1 / 3, 2 / 3, 1, 0, 0, 0, 0),
    "nearly one": weighted(*[1 - 2.0**-30 * i for i in range(8)]),
    "small": weighted(*[2.0**-20 * i for i in range(8)]),
    "tiny": weighted(0, 2.0**-38, 0, 0, 0, 0, 0, 0),
    "next to nothing": weighted(0, 2.0**-60, 0, 0, 0, 0, 0, 0),
    "large": weighted(0, 1000, -5, 0, 0, 0, 0, 0.5),
}
SMALL = ["1e-9", "1e-4", "0.001", "0.0078125"]
LARGE = ["0.01", "0.0626", "0.2", "0.5", "1", "3", "17", "1000"]


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("neighbors", Neighbors)
@pytest.mark.parametrize("rows", [1, 30_000, 2**40])
def test_small_noise_of_any_batch_is_covered(form, neighbors, rows):
    terms = Terms(facts(LINE, neighbors, rows=rows))
    for noise in (
        *map(LaplaceNoise, [*SMALL, *LARGE]),
        *map(GaussianNoise, SMALL),
        GaussianNoise("0.001", (Fraction(1), Fraction(1, 10**6))),
    ):
        assert covers(noise.cover, Measure(FORMS[form], noise).price(terms).guarantee), noise


@pytest.mark.parametrize("form", sorted(set(FORMS) - {"tiny", "next to nothing"}))
@pytest.mark.parametrize("rho", LARGE)
def test_large_noise_is_covered_where_its_lattice_has_room(form, rho):
    noise, terms = GaussianNoise(rho), Terms(facts(LINE, rows=1000))
    run = Measure(FORMS[form], noise).price(terms).guarantee
    assert run.variance >= 64
    assert covers(noise.cover, run)


@pytest.mark.parametrize("rho", [*SMALL, *LARGE])
def test_a_cover_costs_about_what_a_run_does(rho):
    noise, terms = GaussianNoise(rho), Terms(facts(LINE, rows=1000))
    run = Measure(FORMS["a count"], noise).price(terms).guarantee
    assert noise.rho == zcdp_rho(run) < zcdp_rho(noise.cover) < noise.rho * Fraction("1.053")
    covered = GaussianNoise.covered(rho)
    assert Fraction("0.94") * Fraction(rho) < zcdp_rho(covered.cover) <= Fraction(rho)
    composition = EnvelopeComposition()
    state = composition.begin(Budget(300 * max(1, noise.rho), "1e-6"))
    assert composition.capacity(state, noise.cover) == pytest.approx(
        composition.capacity(state, run), rel=0.053
    )


def test_a_noise_does_not_pay_for_a_larger_one():
    terms = Terms(facts(LINE, rows=1000))
    for small, large in [
        (LaplaceNoise("0.1"), LaplaceNoise("0.1001")),
        (GaussianNoise("0.01"), GaussianNoise("0.0103")),
        (GaussianNoise("0.01"), LaplaceNoise("0.1")),
        (GaussianNoise("0.001", (Fraction(1), Fraction(1, 10**6))), GaussianNoise("0.001")),
    ]:
        run = Measure(FORMS["a count"], large).price(terms).guarantee
        assert not covers(small.cover, run)


def smoothed(curve, grid, w):
    """Hockey-stick divergences where a Gaussian of squared shift w was seen before the choice."""
    step = grid[1] - grid[0]
    places = np.arange(-400, 401) / 50
    losses = w / 2 + np.sqrt(w) * places
    masses = np.exp(-(places**2) / 2)
    masses /= masses.sum()
    assert step < np.sqrt(w) / 20
    return sum(m * np.interp(grid - z, grid, curve) for m, z in zip(masses, losses, strict=True))


def gaussian_divergence(x, v):
    root = math.sqrt(v)
    below = NormalDist().cdf
    return below(root / 2 - x / root) - math.exp(x) * below(-root / 2 - x / root)


@pytest.mark.parametrize("w", [Fraction(39, 2), Fraction(9, 2), Fraction(3, 2)], ids=float)
def test_choosing_among_lattices_after_answers_in_between_stays_within_the_envelope(w):
    # One count, weighted so that its noise lies on this lattice or that. Divergences of discrete
    # noise swing about those of the continuous one, and each weight does so at other places. Who
    # has seen what others answered takes the best of all for what they then know.
    noise, terms = GaussianNoise("0.5"), Terms(facts(LINE, rows=1000))
    grid = np.linspace(-14, 20, 8501)
    chosen = np.zeros_like(grid)
    for weight in (1, 9, 5, 11, 3, 13, 7, 15):
        form = LinearForm(LINE, [Kronecker(("x",), (Range(8, 2, 5),), float(weight))])
        run = Measure(form, noise).price(terms).guarantee
        assert covers(noise.cover, run)
        variance, shift = float(run.variance), run.shift_max
        places = np.arange(-int(30 * math.sqrt(variance)), int(30 * math.sqrt(variance)) + shift)
        law = np.exp(-(places**2) / (2 * variance))
        moved = np.exp(-((places - shift) ** 2) / (2 * variance))
        excess = np.array([np.maximum(moved - x * law, 0).sum() for x in np.exp(grid)])
        chosen = np.maximum(chosen, excess / law.sum())
    v = int(STEPS * (w + 2))
    for _ in range(5):
        v = int(STEPS * w) + price_of(noise.cover, v)[0]
    assert price_of(noise.cover, v)[0] == v - int(STEPS * w)
    found = smoothed(chosen, grid, float(w))
    for x in (1, 3, 6, 10):
        allowed = gaussian_divergence(x, v / STEPS)
        assert np.interp(x, grid, found) <= allowed, x


def table(rows=2000):
    ages = np.random.default_rng(3).integers(0, 3, size=rows)
    return PrivateData.from_columns({"x": ages}, LINE)


def shares():
    yield from (Threshold("x", t) for t in range(7))
    for power in range(1, 5):
        yield Linear(lambda record, p=power: (record["x"] / 7) ** p)
    yield Linear(lambda record: 2.0**-38 * (record["x"] == 0))
    yield Count(where={"x": 1})


@pytest.mark.parametrize(
    "given",
    [
        {"updates": 3, "threshold": 1e-9, "start": "uniform"},
        {"updates": 3, "threshold": 1e-9},
        {"updates": 6, "threshold": 1e-9},
        {"alpha": 0.6, "beta": 0.1, "queries": 100},
    ],
    ids=str,
)
def test_nothing_is_charged_after_a_prepaid_channel_has_opened(given):
    mechanism = OnlinePMW(2, DELTA, prepaid=True, **given)
    session = Session(table(), Budget(2, DELTA), noise=seeded(5))
    quote = session.quote(Threshold("x", 3), using=mechanism)
    channel = session.open(mechanism)
    opening = session.history[0].cost
    assert quote.at_open == quote.at_most == opening
    # Others take what is left, and no round is missing for it.
    left = session.remaining.epsilon
    session.answer(Count(normalized=False), using=Laplace(left))
    with pytest.raises(BudgetExceeded):
        session.answer(Count(), using=Laplace("0.01"))
    charges = session.spent.charges
    measured = 0
    for query in shares():
        release = channel.release(query)
        assert release.cost.nothing
        measured += release.source == "measured"
    assert session.spent.charges == charges
    if given.get("updates") == 3:
        assert channel._strategy.updates == 3
        assert measured > 0


def test_prepaid_rounds_are_nearly_as_exact_as_those_that_are_paid_one_by_one():
    of = table().facts
    one, other = (
        OnlinePMW(1, DELTA, updates=20, start="uniform", prepaid=prepaid).schedule(of)
        for prepaid in (False, True)
    )
    assert one.watching == other.watching
    assert other.noise.rho < other.noise.cover.rho <= one.noise.rho < other.noise.rho * 52 / 50
    alphas = [
        OnlinePMW(1, DELTA, alpha=0.9, beta=0.1, queries=50, prepaid=prepaid)
        .schedule(facts(LINE, rows=10**5))
        .promise.alpha
        for prepaid in (False, True)
    ]
    assert alphas[0] <= alphas[1] < alphas[0] * 1.001


@pytest.mark.parametrize(("updates", "kind"), [(3, LaplaceNoise), (6, GaussianNoise)])
def test_few_rounds_are_let_through_a_session_of_just_their_total(updates, kind):
    mechanism = OnlinePMW(2, DELTA, updates=updates, prepaid=True)
    session = Session(table(), Budget(2, DELTA), noise=seeded(5))
    assert type(mechanism.schedule(session.facts).noise) is kind
    session.open(mechanism)
    assert session.spent.charges == 2 * updates + 1


def test_an_own_strategy_prepays_a_run_and_a_gaussian_number():
    odometer = Odometer(Budget(1, "1e-6"), default_composition())
    kernel = Kernel(table(), odometer, seeded(1), "Acme")
    noise = GaussianNoise("0.001")
    allowance = kernel.allowance([noise.cover] * 3)
    for form in ("thirds", "a table", "tiny"):
        kernel.run(Measure(FORMS[form], noise), allowance=allowance)
    assert allowance.left == 0
    assert odometer.spent.charges == 3
    kernel.run(Measure(FORMS["a count"], noise), allowance=allowance)
    assert odometer.spent.charges == 4
