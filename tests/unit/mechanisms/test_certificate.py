"""Certificates of public tables: what they bound, how tightly, and how often they hold."""

import math

import numpy as np
import pytest

from dpsdk import Budget, Domain, Integer, Neighbors, PrivateData
from dpsdk.accounting import Odometer, ZCDPComposition
from dpsdk.accuracy import HalfWidths, NoAccuracy, NoiseAccuracy, PromisedAccuracy
from dpsdk.errors import InvalidArgument
from dpsdk.forms import Kronecker, LinearForm
from dpsdk.kernel import GaussianNoise, Kernel, Reference
from dpsdk.mechanisms import Certificate
from dpsdk.noise import DiscreteGaussian, DiscreteLaplace
from dpsdk.release import Measurement
from dpsdk.testing import seeded

pytestmark = pytest.mark.thorough

DOMAIN = Domain(Integer("a", 0, 4), Integer("b", 0, 2))
NAMES = [("a",), ("b",), ("a", "b"), ("b", "a")]


def variation(one, other):
    return 0.5 * np.abs(one / one.sum() - other / other.sum()).sum()


def silent(values, law=None):
    """As if the noise had come out as nought."""
    return Measurement(
        np.array(values, dtype=np.float64),
        NoiseAccuracy(law or DiscreteLaplace(1), len(values), 2.0**-12, 0.0),
    )


def one_count(value, radius_law, step=1.0):
    return Measurement(np.array([float(value)]), NoiseAccuracy(radius_law, 1, step, 0.0))


def test_no_table_is_farther_off_than_its_distance_and_its_mass_allow():
    rng = np.random.default_rng(1)
    tight = 0
    for _ in range(3000):
        cells = int(rng.integers(1, 6))
        counts = rng.integers(0, 7, cells) * rng.integers(0, 2, cells)
        counts[0] += 1
        table = rng.random(cells) * rng.choice([0.1, 1, 10]) + 1e-9
        distance, rows, mass = np.abs(counts - table).sum(), counts.sum(), table.sum()
        true = variation(counts.astype(float), table)
        for known in (int(rows), None):
            bound = Certificate(silent([distance]), [mass], known).bounds(0.5)[0]
            assert true <= bound + 1e-12
        # An L1 distance and masses say no more than that.
        tight += true >= (distance + min(distance, abs(rows - mass))) / (2 * mass) * 0.999
    assert tight > 100


def test_a_table_of_the_right_mass_has_half_its_distance():
    looked = silent([30.0, 12.0], DiscreteGaussian(4096**2 * 9))
    certificate = Certificate(looked, [200, 200], 200)
    above = certificate.distances(0.05)
    assert certificate.bounds(0.05) == pytest.approx(above / 400)
    assert Certificate(looked, [200, 200]).bounds(0.05) == pytest.approx(above / 200)


def test_the_slack_is_that_of_the_noise_on_one_side():
    for count in (1, 10, 105, 4950):
        looked = silent([100.0] * count, DiscreteGaussian(4096**2 * 25))
        slack = Certificate(looked, [1000] * count).distances(0.05)[0] - 100
        assert slack <= 5 * math.sqrt(2 * math.log(count / 0.05))
        assert slack >= 0.6 * 5 * math.sqrt(2 * math.log(count / 0.05))


def test_a_measured_count_takes_a_tenth_of_beta():
    looked, counted = silent([30.0], DiscreteLaplace(2**14)), one_count(190, DiscreteGaussian(100))
    known = Certificate(looked, [200], counted)
    above = known.distances(0.045)[0]
    excess = 10 + DiscreteGaussian(100).radius(0.005)
    assert known.bounds(0.05)[0] == pytest.approx((above + min(above, excess)) / 400)


class Guessed(HalfWidths):
    kind, standing = "a guess", "predicted"

    def radii(self, beta, *, joint):
        return np.zeros(1)


def test_a_count_that_is_not_known_says_as_little_as_none():
    looked = silent([30.0])
    nothing = Certificate(looked, [200]).bounds(0.05 * 0.9)
    promised = PromisedAccuracy(1.0, 0.2, 1)  # at a beta of 0.2 and more
    for counted in (one_count(math.nan, DiscreteLaplace(1)), Measurement(np.ones(1), promised)):
        assert Certificate(looked, [200], counted).bounds(0.05) == pytest.approx(nothing)


def test_what_floats_round_off_a_mass_is_no_excuse():
    rows, more = 2**20, 2.0**-34
    table = np.array([rows, more])
    assert table.sum() == rows  # as floats have it
    looked = Measurement(np.array([more]), NoiseAccuracy(DiscreteLaplace(0), 1, 2.0**-40, 0.0))
    for certificate in (
        Certificate(looked, [table.sum()], rows),
        Certificate.of([Reference(["a"], table)], looked, rows),
    ):
        # Of the shares of so many rows in the first cell, so many are in the second one.
        assert certificate.bounds(0.5)[0] >= more / (rows + 1)


def test_nothing_is_said_of_a_table_without_mass_and_never_more_than_all():
    certificate = Certificate(silent([10.0, 500.0, 0.0]), [0, 50, 50])
    assert certificate.bounds(0.05)[:2].tolist() == [1, 1]
    assert certificate.bounds(0.05)[2] < 0.01
    below = Certificate(silent([-40.0]), [50])
    assert below.bounds(0.05)[0] == 0
    assert below.bounds(0.9)[0] == 0


@pytest.mark.parametrize("known", ["public", "measured", "unknown"])
def test_bounds_hold_as_often_as_they_say(known):
    """Of 200 looks at tables of a wrong mass, for all tables at once."""
    beta, seeds = 0.2, 200
    rng = np.random.default_rng(6)
    rows = 300
    neighbors = Neighbors.REPLACE_ONE if known == "public" else Neighbors.ADD_REMOVE
    codes = {"a": rng.integers(0, 5, rows), "b": rng.integers(0, 3, rows)}
    outside = "raise" if known == "public" else "cell"
    data = PrivateData.from_columns(codes, DOMAIN, neighbors=neighbors, outside=outside)
    total = LinearForm(DOMAIN, [Kronecker.of(DOMAIN, {})])
    missed, widths, truths = 0, [], []
    for seed in range(seeds):
        kernel = Kernel(
            data, Odometer(Budget(100, "1e-6"), ZCDPComposition()), seeded(seed), "certificate"
        )
        references, true = [], []
        for names in NAMES:
            shape = tuple(DOMAIN[name].size for name in names)
            counts = np.zeros(shape)
            np.add.at(counts, tuple(codes[name] for name in names), 1)
            reference = Reference(names, np.maximum(counts * 0.9 + rng.normal(0, 4, shape), 0))
            references.append(reference)
            true.append(variation(counts, reference.rounded()))
        looked = kernel.look(references, GaussianNoise("0.02"))
        count = None
        if known == "measured":
            count = kernel.measure(total, GaussianNoise("0.01"))
        bounds = Certificate.of(references, looked, rows if known == "public" else count).bounds(
            beta
        )
        missed += bool((np.array(true) > bounds).any())
        widths.append(bounds.mean())
        truths.append(np.mean(true))
    # A false alarm at a chance of about 1e-4.
    assert missed <= beta * seeds + 3.7 * math.sqrt(seeds * beta * (1 - beta))
    assert np.mean(widths) < 0.6
    assert np.mean(truths) < np.mean(widths)


@pytest.mark.parametrize(
    ("parameter", "make"),
    [
        ("looked", lambda: Certificate(3, [1])),
        ("looked", lambda: Certificate(Measurement(np.zeros(1), NoAccuracy("none")), [1])),
        ("masses", lambda: Certificate(silent([1.0]), [1, 2])),
        ("masses", lambda: Certificate(silent([1.0]), [-1])),
        ("masses", lambda: Certificate(silent([1.0]), [math.nan])),
        ("masses", lambda: Certificate(silent([1.0]), "a")),
        ("looked", lambda: Certificate(silent([]), [])),
        ("looked", lambda: Certificate.of([Reference(["a"], [1])], 3)),
        ("references", lambda: Certificate.of(3, silent([1.0]))),
        ("references", lambda: Certificate.of([3], silent([1.0]))),
        ("masses", lambda: Certificate.of([], silent([1.0]))),
        ("rows", lambda: Certificate(silent([1.0]), [1], 0.5)),
        ("rows", lambda: Certificate(silent([1.0]), [1], -1)),
        ("rows", lambda: Certificate(silent([1.0]), [1], Measurement(np.ones(1), Guessed()))),
        ("rows", lambda: Certificate(silent([1.0]), [1], silent([1.0, 2.0]))),
        ("beta", lambda: Certificate(silent([1.0]), [1]).bounds(0)),
        ("beta", lambda: Certificate(silent([1.0]), [1]).bounds(1.5)),
    ],
)
def test_what_does_not_fit_is_refused_by_name(parameter, make):
    with pytest.raises(InvalidArgument) as caught:
        make()
    assert caught.value.parameter == parameter


def test_laplace_looks_are_certified_by_their_own_tail():
    looked = silent([30.0] * 2, DiscreteLaplace(4096 * 3))
    slack = Certificate(looked, [100] * 2).distances(0.1)[0] - 30
    # One side of two has a chance of exp(-r / 3) / 2.
    assert slack == pytest.approx(3 * math.log(2 / 0.1 / 2), rel=0.01)


def test_certificates_are_values():
    assert Certificate(silent([1.0]), [2]) == Certificate(silent([1.0]), [2.0])
    assert Certificate(silent([1.0]), [2]) != Certificate(silent([1.0]), [3])
