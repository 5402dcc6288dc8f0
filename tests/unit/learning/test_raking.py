import numpy as np
import pytest
from scipy.optimize import minimize

from dpsdk.learning.raking import margins_of, onto_simplex, rake


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
