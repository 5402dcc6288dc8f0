"""Confidence sets of a table's least-squares coefficients: that they cover, and are bounded."""

import copy
import math
import pickle

import numpy as np
import pytest
from attrs import evolve
from shares import Shares

from dpsdk import Budget, Categorical, Domain, Integer, PrivateData, Session
from dpsdk.accounting import Odometer, ZCDPComposition
from dpsdk.accuracy import NoiseAccuracy
from dpsdk.errors import InvalidArgument, NoBound, QueryError, TooLarge
from dpsdk.forms import Ball, ConvexForm, Coordinates
from dpsdk.kernel import GaussianNoise, Kernel, LaplaceNoise
from dpsdk.losses import GLMLoss, HuberLoss, LogisticLoss, SquaredLoss
from dpsdk.mechanisms import CoefficientSet, PrivateMinimizer
from dpsdk.noise import DiscreteGaussian
from dpsdk.queries import ConvexMinimization, OneHot
from dpsdk.release import Measurement
from dpsdk.testing import seeded

pytestmark = pytest.mark.thorough

DOMAIN = Domain(
    Integer("a", 0, 5), Integer("b", 0, 5), Categorical("c", ["x", "y", "z"]), Integer("t", 0, 4)
)


def rows(count, seed=0, *, stray=0.0):
    rng = np.random.default_rng(seed)
    a, b, c = rng.integers(0, 6, count), rng.integers(0, 6, count), rng.integers(0, 3, count)
    t = np.clip((a + b) // 3 + rng.integers(-1, 2, count), 0, 4)
    a = np.where(rng.random(count) < stray, 99, a)
    return {"a": a, "b": b, "c": np.array(["x", "y", "z"])[c], "t": t}


def form(features=("a", "b"), loss=None, radius=9.0):
    query = ConvexMinimization(
        loss or SquaredLoss(), features=features, label="t", over=Ball(radius)
    )
    return query.lower(DOMAIN)


def counted(columns):
    """What a table has in each cell."""
    kept = columns["a"] < 6
    codes = [columns["a"], columns["b"], np.searchsorted(["x", "y", "z"], columns["c"])]
    counts = np.zeros(DOMAIN.shape)
    np.add.at(counts, tuple(code[kept] for code in [*codes, columns["t"]]), 1.0)
    return Shares(DOMAIN, counts)


def own_coefficients(convex, columns):
    """Those of the table, and the shortest of them where there are several."""
    values, several = convex.moments().evaluate(counted(columns)), len(convex.pairs[0])
    matrix = convex.matrix(values[:several])
    return np.linalg.lstsq(matrix, values[several:], rcond=1e-10)[0]


def kernel(columns, seed):
    data = PrivateData.from_columns(columns, DOMAIN)
    return Kernel(data, Odometer(Budget(10**9, "1e-6"), ZCDPComposition()), seeded(seed), "set")


def sets(convex, columns, noise, count):
    asked, own = convex.distinct_moments()[0], kernel(columns, 5)
    return [CoefficientSet.of(convex, own.measure(asked, noise)) for _ in range(count)]


def check_cover(features, stray, noise, runs):
    columns, convex = rows(4000, stray=stray), form(features)
    true = own_coefficients(convex, columns)
    found = sets(convex, columns, noise, runs)
    for beta in (0.5, 0.1):
        missed = sum(not one.contains(true, beta) for one in found)
        assert missed <= runs * beta + 5 * math.sqrt(runs * beta * (1 - beta))
        for one in found[:100]:
            widths = one.half_widths(beta)
            known = np.isfinite(widths)
            if one.contains(true, beta):
                assert (np.abs(one.centre - true)[known] <= widths[known]).all()


@pytest.mark.parametrize("noise", [GaussianNoise("0.05"), LaplaceNoise("0.8")])
@pytest.mark.parametrize("stray", [0.0, 0.5])
@pytest.mark.parametrize("features", [("a", "b"), ("a", OneHot("c"))])
def test_sets_cover(features, stray, noise):
    check_cover(features, stray, noise, runs=25)


@pytest.mark.audit
@pytest.mark.parametrize("noise", [GaussianNoise("0.05"), GaussianNoise("0.001"), LaplaceNoise(2)])
@pytest.mark.parametrize("features", [("a", "b"), ("a", OneHot("c"))])
def test_sets_cover_in_many_runs(features, noise):
    check_cover(features, 0.3, noise, runs=2000)


def test_a_set_can_miss():
    columns, convex = rows(4000), form(("a",))
    true, found = own_coefficients(convex, columns), sets(convex, columns, GaussianNoise(1), 150)
    assert 1 <= sum(not one.contains(true, 0.5) for one in found) < 75


def test_a_set_lies_in_its_box_and_about_its_centre():
    rng = np.random.default_rng(3)
    columns, convex = rows(1500), form()
    for noise in (GaussianNoise("0.05"), GaussianNoise("0.005"), LaplaceNoise(1)):
        (found,) = sets(convex, columns, noise, 1)
        centre, widths = found.centre, found.half_widths(0.1)
        assert found.contains(centre, 0.999)
        assert np.isfinite(widths).all()
        farthest = 0.0
        for _ in range(30):
            way = rng.normal(size=3) * widths
            for step in np.linspace(0, 4, 31):
                theta = centre + step * way
                if found.contains(theta, 0.1):
                    farthest = max(farthest, float((np.abs(theta - centre) / widths).max()))
        assert 0.25 < farthest <= 1.0


def test_where_noise_leaves_a_direction_open_nothing_is_bounded():
    columns, convex = rows(30), form()
    (found,) = sets(convex, columns, GaussianNoise("0.0001"), 1)
    assert np.isinf(found.half_widths(0.05)).all()
    assert found.contains(own_coefficients(convex, columns), 0.05)
    zero = np.zeros(convex.distinct_moments()[0].rows)
    none = CoefficientSet.of(
        convex, Measurement(zero, NoiseAccuracy(DiscreteGaussian(64), len(zero), 1.0, 0.0))
    )
    assert np.isnan(none.centre).all()
    assert np.isinf(none.half_widths(0.05)).all()
    assert none.contains([1e6, 0.0, 0.0], 0.05)


def test_coefficients_that_the_features_do_not_determine_have_no_bound():
    columns, convex = rows(20_000), form(("a", OneHot("c")))
    (found,) = sets(convex, columns, GaussianNoise(1), 1)
    assert np.isfinite(found.half_widths(0.05)).tolist() == [True, False, False, False, False]
    moved = found.centre + 0.7 * np.array([0.0, 1.0, 1.0, 1.0, -1.0])
    assert found.contains(moved, 0.9)


def test_it_is_about_the_unconstrained_optimum():
    # Over a small ball the best coefficients lie on its boundary, and not in the set.
    columns = rows(20_000)
    wide, narrow = form(), form(radius=0.2)
    best, _ = narrow.minimise(counted(columns))
    (found,) = sets(narrow, columns, GaussianNoise(1), 1)
    assert not found.contains(best, 1e-9)
    assert found.contains(own_coefficients(wide, columns), 0.05)


def test_noise_that_is_nought_leaves_a_point():
    columns, convex = rows(500), form()
    own = own_coefficients(convex, columns)
    (found,) = sets(convex, columns, GaussianNoise(10**8), 1)
    assert found.half_widths(1e-6).max() < 1e-3
    assert found.centre == pytest.approx(own, abs=1e-3)
    assert not found.contains(own + 0.01, 1e-6)


def test_what_is_refused():
    convex, columns = form(), rows(100)
    measured = kernel(columns, 1).measure(convex.distinct_moments()[0], GaussianNoise(1))
    for loss in (HuberLoss(0.5), GLMLoss("log")):
        with pytest.raises(QueryError):
            CoefficientSet.of(form(loss=loss), measured)
    same = CoefficientSet.of(form(loss=GLMLoss("identity")), measured)
    assert same == CoefficientSet.of(convex, measured)
    for wrong in (Measurement(measured.values[1:], measured.accuracy), measured.values, None):
        with pytest.raises(InvalidArgument):
            CoefficientSet.of(convex, wrong)
    found = CoefficientSet.of(convex, measured)
    for theta in ([0.0], [np.nan, 0, 0], "abc", [[0, 0, 0]], None):
        with pytest.raises(InvalidArgument):
            found.contains(theta)
    for beta in (0, 1, np.nan, "x"):
        with pytest.raises(InvalidArgument):
            found.half_widths(beta)
        with pytest.raises(InvalidArgument):
            found.contains([0, 0, 0], beta)


def test_a_set_of_too_many_numbers(monkeypatch):
    convex = form()
    measured = kernel(rows(100), 1).measure(convex.distinct_moments()[0], GaussianNoise(1))
    monkeypatch.setattr("dpsdk.mechanisms.convex.moments._LIMIT", 20)
    with pytest.raises(TooLarge):
        CoefficientSet.of(convex, measured)


def test_sets_are_values():
    (found,) = sets(form(), rows(100), LaplaceNoise(1), 1)
    for other in (copy.deepcopy(found), pickle.loads(pickle.dumps(found))):  # noqa: S301
        assert other == found
        assert other.half_widths().tolist() == found.half_widths().tolist()
    assert evolve(found, values=np.zeros(9)) != found
    found.centre[:] = np.nan
    assert np.isfinite(found.centre).all()
    binary = ConvexForm(
        DOMAIN, form().coordinates, "t", np.array([-1.0, 1, 1, 1, 1]), LogisticLoss(), Ball(1)
    )
    with pytest.raises(QueryError):
        CoefficientSet.of(binary, None)


@pytest.mark.parametrize("scale", [1e-3, 1e-6, 3e-7, 1e-9, 1e-12, 1e-16])
def test_features_of_very_different_sizes_are_covered_or_nothing_is_claimed(scale):
    columns = rows(4000)
    parts = [np.linspace(0, 1, 6)[None], scale * np.linspace(0, 1, 6)[None]]
    coordinates = [Coordinates((name,), one) for name, one in zip("ab", parts, strict=True)]
    targets = np.linspace(0, 1, 5)
    convex = ConvexForm(DOMAIN, coordinates, "t", targets, SquaredLoss(), Ball(9 / scale))
    values = convex.moments().evaluate(counted(columns))
    size = np.array([1.0, scale])
    # Solved in units in which the features are alike.
    matrix = convex.matrix(values[:3]) / np.outer(size, size)
    true = np.linalg.solve(matrix, values[3:] / size) / size
    for one in sets(convex, columns, GaussianNoise(1), 40):
        assert one.contains(true, 1e-6)
        assert (np.abs(np.nan_to_num(one.centre) - true) <= one.half_widths(1e-6)).all()


@pytest.mark.parametrize("apart", [1e-3, 1e-5, 1e-7, 1e-9])
def test_features_that_are_nearly_alike_are_covered_or_nothing_is_claimed(apart):
    columns, unit = rows(4000), np.linspace(0, 1, 6)
    parts = [
        Coordinates(("a",), unit[None]),
        Coordinates(("a", "b"), (unit[:, None] + apart * unit)[None]),
    ]
    convex = ConvexForm(DOMAIN, parts, "t", np.linspace(0, 1, 5), SquaredLoss(), Ball(9 / apart))
    # Those of a and b by themselves, in other units.
    apart_form = ConvexForm(
        DOMAIN,
        [Coordinates((name,), unit[None]) for name in "ab"],
        "t",
        np.linspace(0, 1, 5),
        SquaredLoss(),
        Ball(9),
    )
    one, other = own_coefficients(apart_form, columns)
    true = np.array([one - other / apart, other / apart])
    for found in sets(convex, columns, GaussianNoise(1), 40):
        assert found.contains(true, 1e-6)
        assert (np.abs(np.nan_to_num(found.centre) - true) <= found.half_widths(1e-6)).all()


def test_functions_that_the_features_determine_are_bounded():
    columns, convex = rows(20_000), form(("a", OneHot("c")))
    true = own_coefficients(convex, columns)
    asked = np.array(
        [[0.0, 1, -1, 0, 0], [0, 1, 0, 0, 1], [3, 0, 0, 2, 2], [0] * 5, [0, 1, 0, 0, 0]]
    )
    for found in sets(convex, columns, GaussianNoise(1), 20):
        reach = found.reach(asked, 1e-6)
        assert np.isfinite(reach).tolist() == [True, True, True, True, False]
        assert reach[3] == 0
        assert (np.abs(asked[:4] @ (found.centre - true)) <= reach[:4]).all()
        assert found.reach(-7 * asked[:2], 1e-6) == pytest.approx(7 * reach[:2])
        assert found.reach(np.eye(5), 0.1).tolist() == found.half_widths(0.1).tolist()
    for wrong in ([1.0] * 5, [[1.0]], [[np.nan] * 5], "x"):
        with pytest.raises(InvalidArgument):
            found.reach(wrong)


LINES = {
    "plain": ["a", "b"], "reference": ["a", OneHot("c", drop="first")],
    "one-hot": ["a", OneHot("c")], "no intercept": ["a", OneHot("c")],
}  # fmt: skip


@pytest.mark.parametrize("name", LINES)
def test_intervals_are_in_the_units_of_the_data(name):
    columns, intercept = rows(20_000), name != "no intercept"
    query = ConvexMinimization(SquaredLoss(), features=LINES[name], label="t", intercept=intercept)
    data = PrivateData.from_columns(columns, DOMAIN)
    x = {"a": columns["a"], "b": columns["b"], "intercept": np.ones(20_000)}
    x |= {f"c={label}": (columns["c"] == label) * 1.0 for label in "xyz"}
    for seed in range(10):
        with Session(data, Budget(1, "1e-6"), noise=seeded(seed)) as session:
            release = session.release(query, using=PrivateMinimizer(epsilon=1, delta="1e-6"))
        model = release.value
        bounds = model.intervals(release.accuracy, 1e-6)
        names = [*model.coefficients, "intercept"]
        assert list(bounds) == names
        if name == "one-hot":
            open_ends = {key for key, (low, high) in bounds.items() if np.isinf([low, high]).all()}
            assert open_ends == {"c=x", "c=y", "c=z", "intercept"}
            names = ["a", "c=y", "c=z", "intercept"]
            apart = {f"c={one}": {f"c={one}": 1, "c=x": -1} for one in "yz"}
            apart["intercept"] = {"intercept": 1, "c=x": 1}
            told = {key: model.contrast(way, release.accuracy, 1e-6) for key, way in apart.items()}
            bounds = {"a": bounds["a"]} | told
        # Least squares by hand; without an intercept ages count from the middle.
        used = [key for key in names if intercept or key != "intercept"]
        numbers = np.stack([x[key] - 2.5 * (key == "a" and not intercept) for key in used], axis=1)
        shift = 0.0 if intercept else 2.0
        own = np.linalg.lstsq(numbers, columns["t"] - shift, rcond=None)[0]
        for key, value in zip(used, own, strict=True):
            low, high = bounds[key]
            assert low <= value <= high
            assert high - low < 1.5


def test_what_has_no_set_has_no_intervals():
    data = PrivateData.from_columns(rows(2000), DOMAIN)
    query = ConvexMinimization(HuberLoss(1), features=["a"], label="t")
    with Session(data, Budget(1, "1e-6"), noise=seeded(1)) as session:
        release = session.release(query, using=PrivateMinimizer(epsilon=1, delta="1e-6"))
    with pytest.raises(NoBound, match="second moments"):
        release.value.intervals(release.accuracy)
    convex = form()
    (found,) = sets(convex, rows(2000), GaussianNoise(1), 1)
    with pytest.raises(InvalidArgument, match="own release"):
        release.value.intervals(found)
    for weights in ({"nothing": 1}, {"a": np.nan}, {"a": "x"}):
        with pytest.raises(InvalidArgument, match="weights"):
            release.value.contrast(weights, found)
