import numpy as np
import pytest

from dpsdk.learning.purchases import Candidates, Curves, deviations_for, purchases


def harmonic(scales, deviation):
    noise = 0.8 * deviation
    return (scales * noise / (scales + noise)).sum()


def test_curves_are_sums_over_cells():
    rng = np.random.default_rng(0)
    scales = rng.gamma(0.3, size=(4, 500)) * 100
    scales[1, :400] = 0.0
    deviations = deviations_for(0.01)
    curves = Curves.of(scales, deviations)
    for table in range(4):
        expected = [harmonic(scales[table], deviation) for deviation in deviations]
        np.testing.assert_allclose(curves.errors[table], expected, rtol=0.02)
    np.testing.assert_allclose(curves.idle, scales.sum(axis=1), rtol=1e-9)


def test_what_was_measured_before_makes_less_noise():
    scales = np.full((1, 10), 30.0)
    deviations = deviations_for(0.01)
    curves = Curves.of(scales, deviations, np.array([10.0**-2]))
    together = 1 / np.sqrt(1 / deviations**2 + 1 / 100)
    expected = [harmonic(scales[0], one) for one in together]
    np.testing.assert_allclose(curves.errors[0], expected, rtol=1e-6)
    assert curves.idle[0] == pytest.approx(harmonic(scales[0], 10.0))


def planned(scales, prices, worths, rho):
    deviations = deviations_for(rho)
    parts = [Curves.of(one[None], deviations) for one in scales]
    candidates = Candidates(np.array(prices), np.array(worths), Curves.joined(parts))
    return purchases(candidates, deviations, rho)


def test_all_of_the_budget_is_spent_and_no_other_split_is_much_better():
    rng = np.random.default_rng(1)
    scales = [rng.gamma(0.5, size=size) * scale for size, scale in [(6, 50), (40, 8), (300, 2)]]
    prices, worths, rho = [0.4, 0.35, 0.2], [1.0, 2.0, 1.0], 0.02
    found = planned(scales, prices, worths, rho)
    assert (np.array(prices) / found**2).sum() == pytest.approx(rho)

    def error(deviations):
        kept = [
            scale.sum() if np.isinf(one) else harmonic(scale, one)
            for scale, one in zip(scales, deviations, strict=True)
        ]
        return float(np.dot(worths, kept))

    best = error(found)
    for _ in range(300):
        parts = rng.dirichlet(np.ones(3)) * rho
        assert best <= 1.02 * error(np.sqrt(np.array(prices) / parts))


def test_a_table_that_is_not_worth_it_is_left_out():
    found = planned([np.full(10, 100.0), np.full(10, 1e-6), np.zeros(3)], [0.5] * 3, [1.0] * 3, 0.1)
    assert np.isfinite(found).tolist() == [True, False, False]
    assert 0.5 / found[0] ** 2 == pytest.approx(0.1)


@pytest.mark.parametrize("rho", [1e-15, 1.0, 1e6])
def test_extreme_budgets_are_planned(rho):
    found = planned([np.full(4, 1e5), np.full(9, 10.0)], [0.25, 0.4], [1.0, 1.0], rho)
    assert not np.isnan(found).any()
    bought = np.isfinite(found)
    if bought.any():
        assert (np.array([0.25, 0.4])[bought] / found[bought] ** 2).sum() == pytest.approx(rho)


def test_nothing_is_planned_where_there_is_nothing():
    found = planned([np.zeros(4)], [0.5], [1.0], 0.1)
    assert np.isinf(found).all()
