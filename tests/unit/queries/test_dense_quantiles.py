"""Quantiles and means by error: what is assumed of a table bounds them, and refusals name it."""

import random

import numpy as np
import pytest

from dpsdk import Binned, Budget, Domain, Integer, Median, Neighbors, Planner, Quantile
from dpsdk.errors import InvalidArgument, NoMechanism
from dpsdk.planner import Assumptions
from dpsdk.queries import Mean, Workload

DOMAIN = Domain(Integer("x", 0, 99), Binned("b", [0, 1, 5, 6, 10, 30]))
PUBLIC = {"rows": 5000, "outside": "raise"}
PRIVATE = {"neighbors": Neighbors.ADD_REMOVE, "max_rows": 10_000}


def planner(**given):
    return Planner(DOMAIN, Budget(1, "1e-6"), **given)


@pytest.mark.thorough(quick=1)
@pytest.mark.parametrize(
    ("given", "assume"),
    [
        (PUBLIC, {"density": 50}),
        ({"rows": 5000}, {"density": 50, "inside": "0.9"}),
        (PRIVATE, {"density": 50, "inside": "0.9", "rows": 4000}),
    ],
)
def test_quantiles_are_planned_by_error_under_an_assumption(given, assume):
    own = planner(**given)
    for query in (Median("x"), Quantile("x", "0.9"), Workload([Median("x"), Quantile("x", "0.1")])):
        plan = own.plan(query, error=4, assume=assume).best
        assert plan.promised is None or plan.promised.vacuous
        assert plan.assumed is not None
        assert plan.assumed.error <= 4
        assert plan.assumed.standing == "assumed"
        assert any("50 rows a unit" in words for words in plan.assumes)
        assert own.quote(query, using=plan, assume=assume).assumed().error <= 4
        # Each key is needed; a single value that is chosen needs the density alone.
        several = isinstance(query, Workload)
        for key in assume:
            less = {other: assume[other] for other in assume if other != key}
            if key == "density" or (several and (key != "inside" or given is not PRIVATE)):
                with pytest.raises(NoMechanism, match=f'assume={{.*"{key}": ...'):
                    _ = own.plan(query, error=4, assume=less).best


def test_means_are_refused_by_the_keys_that_they_need():
    with pytest.raises(NoMechanism, match=r'assume={"inside": \.\.\.}'):
        _ = planner(rows=5000).plan(Mean("x"), error=1).best
    with pytest.raises(NoMechanism, match=r'assume={"inside": \.\.\., "rows": \.\.\.}'):
        _ = planner(**PRIVATE).plan(Mean("x"), error=1).best
    assume = {"inside": "0.9", "rows": 4000}
    assert planner(**PRIVATE).plan(Mean("x"), error=1, assume=assume).best.assumed.error <= 1


def test_a_density_is_a_number_of_rows():
    assert Assumptions.of({"density": "2.5"}).density == 2.5
    for wrong in (0, -1, "many"):
        with pytest.raises(InvalidArgument, match="density"):
            Assumptions(density=wrong)


def _truth(counts, target):
    return int((np.cumsum(counts) >= target).argmax())


def _density(counts, values, place):
    """The largest density that is true of a table at all distances from a quantile."""
    above = [counts[place + 1 : j + 1].sum() / (values[j] - values[place])
             for j in range(place + 1, len(values))]  # fmt: skip
    below = [counts[j:place].sum() / (values[place] - values[j]) for j in range(place)]
    return min([*above, *below])


@pytest.mark.parametrize("name", ["x", "b"])
@pytest.mark.parametrize("public", [True, False])
def test_no_answer_within_the_noise_is_farther_than_assumed(name, public):
    """Counts are moved by as much as their bounds let them, at random and against the answer."""
    rng, attribute = random.Random(7), DOMAIN[name]
    size = attribute.size
    values = np.arange(100.0) if name == "x" else np.array(attribute.edges[1:])
    tight = 0
    for _ in range(300):
        counts = np.array([rng.randrange(1, 60) for _ in range(size)])
        counts[rng.randrange(size)] += rng.choice([0, 500])
        rows = int(counts.sum())
        query = Quantile(name, f"0.{rng.randrange(1, 10)}")
        private = {"neighbors": Neighbors.ADD_REMOVE, "max_rows": 2 * rows}
        known = {"rows": rows} if public else private
        facts = planner(outside="raise", **known).facts
        target = query.q * rows
        place = _truth(counts, target)
        density = _density(counts, values, place)
        radius = float(rng.choice([0, 1, 5, 20, 60]))
        radii = np.full(size, radius)
        believed = Assumptions(None if public else rows, None, density)
        bound = float(query.presumed(radii, radii.copy, facts, believed)[0])
        for way in range(4):
            noise = np.array([rng.uniform(-radius, radius) for _ in range(size)])
            if way < 2:
                noise = np.full(size, radius if way else -radius)
                noise[-1] = -noise[-1]
            raw = query.settled(np.cumsum(counts) + noise, radii.copy, facts)
            if np.isnan(raw).any():
                assert bound == query.span(facts)
                continue
            off = abs(query.lift(raw, facts) - values[place])
            assert off <= bound
            tight += off > bound / 2 > 0
    assert tight > 5
