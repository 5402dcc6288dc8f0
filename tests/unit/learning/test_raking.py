import numpy as np
import pytest
from scipy.optimize import minimize

from dpsdk.forms.residuals import centred as projected
from dpsdk.learning.raking import (
    _STRENGTHS,
    Cap,
    _penalised,
    margins_of,
    onto_simplex,
    rake,
    shrink,
)


def test_rakes_each_table_to_its_margins():
    rng = np.random.default_rng(1)
    wanted = rng.gamma(1.0, size=(5, 3, 4, 2)) * 100
    margins = margins_of(wanted)
    raked = rake(rng.gamma(1.0, size=wanted.shape), margins, sweeps=200)
    for now, margin in zip(margins_of(raked), margins, strict=True):
        np.testing.assert_allclose(now, margin, atol=1e-3)
    np.testing.assert_allclose(rake(wanted, margins), wanted)


def test_raking_keeps_odds_ratios_and_zeros():
    table = np.array([[[3.0, 1.0, 2.0], [2.0, 5.0, 1.0]]])
    margins = margins_of(np.array([[[10.0, 0.0, 5.0], [1.0, 0.0, 7.0]]]))
    raked = rake(table, margins, sweeps=500)[0]
    assert (raked[:, 1] == 0).all()
    ratio = raked[0, 0] * raked[1, 2] / (raked[0, 2] * raked[1, 0])
    assert ratio == pytest.approx(3.0 * 1.0 / (2.0 * 2.0))


def test_a_line_of_zeros_stays_where_its_margin_is_not_zero():
    table = np.array([[[0.0, 0.0], [1.0, 1.0]]])
    raked = rake(table, [np.array([[[2.0, 2.0]]]), np.array([[[2.0], [2.0]]])])
    assert np.isfinite(raked).all()
    assert (raked[0, 0] == 0).all()


def test_one_table_does_not_change_another():
    rng = np.random.default_rng(2)
    wanted = rng.gamma(1.0, size=(4, 3, 3))
    start = rng.gamma(1.0, size=wanted.shape)
    margins = margins_of(wanted)
    together = rake(start, margins, sweeps=300)
    for place in range(4):
        one = [margin[place : place + 1] for margin in margins]
        np.testing.assert_allclose(
            rake(start[place : place + 1], one, sweeps=300)[0], together[place], atol=1e-5
        )


@pytest.mark.parametrize("total", [0.0, 1.0, 7.5, 1e9])
def test_the_simplex_projection_is_the_nearest(total):
    values = np.array([3.0, -1.0, 0.5, 2.0])
    found = onto_simplex(values, total)
    assert found.min() >= 0
    assert found.sum() == pytest.approx(total)
    solved = minimize(
        lambda x: ((x - values) ** 2).sum() / max(total, 1.0) ** 2,
        np.full(4, total / 4),
        bounds=[(0, None)] * 4,
        constraints={"type": "eq", "fun": lambda x: (x.sum() - total) / max(total, 1.0)},
        tol=1e-14,
    ).x
    np.testing.assert_allclose(found, solved, atol=1e-4 * max(total, 1.0))


@pytest.mark.parametrize("far", [1.0, 1e6, 1e17, 1e30])
def test_a_simplex_is_met_from_however_far_away(far):
    nearest = onto_simplex(np.array([-far, far, 0.0]), 1.0)
    np.testing.assert_allclose(nearest, [0.0, 1.0, 0.0], atol=1e-9)


def centred(tables):
    return projected(tables, tables.ndim - 1)


def _made(count, shape, deviation, seed=0):
    """True tables, their products of margins, noisy residuals and deviations."""
    rng = np.random.default_rng(seed)
    true = rng.gamma(0.4, size=(count, *shape)) * 200
    prior = np.ones_like(true)
    for margin in margins_of(true):
        prior = prior * margin
    margins = margins_of(true)
    prior = rake(prior, margins, sweeps=500)
    residuals = centred(true + rng.normal(0, deviation, true.shape))
    return true, prior, residuals, np.full(count, deviation)


@pytest.mark.parametrize("shape", [(3, 4), (2, 3, 2)])
def test_the_penalised_fit_is_the_minimum(shape):
    true, prior, residuals, deviations = _made(1, shape, 20.0)
    margins = margins_of(true)
    target = prior + residuals - centred(prior)
    potentials = [np.zeros_like(margin) for margin in margins]
    for strength in (0.5, 3.0):
        scales = strength * deviations
        fitted, potentials = _penalised(target, prior, scales, margins, potentials)
        gap = fitted + scales[0] * np.log(fitted / prior) - target
        # The gradient is a sum of functions of the margins.
        assert np.abs(centred(gap)).max() < 2e-3 * np.abs(gap).max() + 0.05

        def loss(x, scale=scales[0]):
            table = np.maximum(x, 1e-12)
            relative = (table * np.log(table / prior) - table + prior).sum()
            return float(((table - target) ** 2).sum() / 2 + scale * relative)

        here = loss(fitted)
        rng = np.random.default_rng(7)
        for size in (0.3, 1.0, 5.0):
            for _ in range(20):
                move = centred(rng.normal(0, size, fitted.shape) * np.minimum(fitted, 1.0))
                moved = fitted + centred(move)
                if (moved >= 0).all():
                    assert loss(moved) >= here - 1e-6 * abs(here)


def test_the_strength_is_chosen_by_the_estimate_of_the_risk():
    true, prior, residuals, deviations = _made(3, (4, 3), 15.0, seed=3)
    margins = margins_of(true)
    found = shrink(residuals, deviations, prior, margins)
    target = prior + residuals - centred(prior)
    for place in range(len(true)):
        one = slice(place, place + 1)
        within = [margin[one] for margin in margins]
        candidates = [(float((centred(prior[one] - target[one]) ** 2).sum()), prior[one])]
        for strength in _STRENGTHS:
            zeros = [np.zeros_like(margin) for margin in within]
            scale = strength * deviations[one]
            fitted, _ = _penalised(target[one], prior[one], scale, within, zeros)
            # The trace of the derivative by finite differences, on the residuals alone.
            step, free = 1e-2, 0.0
            for cell in np.ndindex(fitted.shape[1:]):
                moved = target[one].copy()
                moved[(0, *cell)] += step
                other, _ = _penalised(moved, prior[one], scale, within, zeros)
                free += float((other - fitted)[(0, *cell)]) / step
            risk = float((centred(fitted - target[one]) ** 2).sum())
            risk += 15.0**2 * (2 * free + np.sqrt(2 * max(free, 0.0)))
            candidates.append((risk, fitted))
        least = min(risk for risk, _ in candidates)
        mine = min(candidates, key=lambda pair: float(np.abs(pair[1] - found[one]).sum()))[0]
        # The degrees of freedom are to the first order, so a near tie may go the other way.
        assert mine <= least * 1.25


def test_shrinking_beats_the_noise_and_the_prior():
    errors = np.zeros(3)
    for seed in range(3):
        true, prior, residuals, deviations = _made(20, (6, 7), 12.0, seed)
        found = shrink(residuals, deviations, prior, margins_of(true))
        raw = prior + residuals - centred(prior)
        errors += [np.abs(table - true).sum() for table in (found, raw, prior)]
    assert errors[0] < 0.9 * errors[1]
    assert errors[0] < 0.5 * errors[2]


def test_noise_that_tells_nothing_leaves_the_prior():
    true, prior, residuals, deviations = _made(8, (4, 5), 1e6)
    found = shrink(residuals, deviations, prior, margins_of(true))
    np.testing.assert_allclose(found, prior, rtol=0.2, atol=1.0)


def test_exact_numbers_give_the_table():
    true, prior, residuals, deviations = _made(3, (4, 5), 1e-3)
    found = shrink(residuals, deviations, prior, margins_of(true))
    np.testing.assert_allclose(found, true, atol=0.2)


def test_no_table_passes_its_cap():
    true, prior, residuals, deviations = _made(10, (4, 5), 5.0)
    reach = np.linspace(0.0, 500.0, 10)
    found = shrink(residuals, deviations, prior, margins_of(true), Cap(prior, reach))
    far = np.abs(found - prior).reshape(10, -1).sum(axis=1)
    assert (far <= reach + 1.0).all()
    assert far[-1] > 50


def test_tables_do_not_change_each_other():
    true, prior, residuals, deviations = _made(7, (3, 4), 10.0)
    deviations = deviations * np.linspace(0.2, 5.0, 7)
    margins = margins_of(true)
    together = shrink(residuals, deviations, prior, margins)
    for place in range(7):
        one = slice(place, place + 1)
        alone = shrink(residuals[one], deviations[one], prior[one], [m[one] for m in margins])
        np.testing.assert_allclose(alone[0], together[place], atol=0.02 * true[place].sum() / 12)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("deviation", [1e-9, 1.0, 1e12])
@pytest.mark.parametrize("total", [0.0, 1e-6, 1.0, 1e15])
def test_zero_margins_and_extreme_numbers_stay_finite(deviation, total):
    rng = np.random.default_rng(5)
    true = np.zeros((2, 3, 4, 1))
    true[0, 0, 0, 0] = total
    true[1, :2, 1:] = total / 6
    margins = margins_of(true)
    prior = np.ones_like(true)
    noise = centred(rng.normal(0, deviation, true.shape))
    found = shrink(noise, np.full(2, deviation), prior, margins)
    assert np.isfinite(found).all()
    assert (found >= 0).all()
    np.testing.assert_allclose(found[1, 2], 0.0, atol=1e-9 * max(total, 1.0))
