"""Variances: their prices, their answers, and bounds that no box of raw numbers breaks."""

import itertools
import math

import numpy as np
import pytest

from dpsdk import (
    Binned,
    Budget,
    Categorical,
    Domain,
    Integer,
    Neighbors,
    Number,
    PrivateData,
    Session,
)
from dpsdk.data.histogram import Histogram
from dpsdk.errors import QueryError
from dpsdk.forms import (
    Cuts,
    Identity,
    Kronecker,
    LinearForm,
    Prefix,
    Range,
    Squares,
    Weights,
    Within,
    sensitivity,
)
from dpsdk.forms.assumptions import Assumptions
from dpsdk.forms.squares import squares
from dpsdk.mechanisms import Gaussian, Laplace
from dpsdk.queries import Between, Mean, StdDev, Variance
from dpsdk.queries import variance as module
from dpsdk.release import AddsUp
from dpsdk.testing import seeded
from worlds import QUIET, facts, moves, quiet, weights

RELATIONS = list(itertools.product(Neighbors, [True, False]))
CLOSED = {
    # The sums of absolute moves and of squares, in units of K² and K⁴.
    (Neighbors.REPLACE_ONE, True): (9 / 4, 4.0),
    (Neighbors.REPLACE_ONE, False): (9 / 4, 4.0),
    (Neighbors.ADD_REMOVE, True): (9 / 4, 29 / 16),
    (Neighbors.ADD_REMOVE, False): (9 / 4, 29 / 16),
}


@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize("bound", [2, 4, 32])
def test_the_sensitivities_are_those_of_the_note(relation, bound):
    domain = Domain(Integer("a", 0, 2 * bound))
    form = LinearForm(domain, [Kronecker(("a",), (Squares(2 * bound + 1, bound),))])
    of = facts(domain, relation[0], outside=relation[1])
    found = sensitivity(form, of)
    l1, l2 = CLOSED[relation]
    assert (found.l1, found.l2_squared, found.exact) == (l1 * bound**2, l2 * bound**4, True)
    assert (found.l1, found.l2_squared, found.maximum) == moves(weights(form), of)


@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize("where", [None, {"b": {"x", "y"}}])
@pytest.mark.parametrize("size", [1, 2, 3, 4, 5, 20_000, 40_000, 3 * 10**6, 2**40])
def test_no_variance_costs_more_than_the_note_says(size, relation, where):
    attribute = Number("a", 0, size - 1, missing=True)
    domain = Domain(attribute, Categorical("b", ["x", "y", "z"]))
    of = facts(domain, relation[0], outside=relation[1])
    place = module._Places.of("it", attribute)
    found = sensitivity(Variance("a", where=where).lower(domain), of)
    l1, l2 = CLOSED[relation]
    # What floats round off is added, up to an integer.
    assert found.l1 <= l1 * place.bound**2 + 1
    assert found.l2_squared <= l2 * place.bound**4 * (1 + 2.0**-40)
    assert found.exact or size > 2**11
    # One value may stand for many, but not for more than it has to.
    assert place.bound <= 2**14
    assert place.unit * place.bound <= max(size / 2 * (1 + 2.0**-10), 2)
    assert place.away <= (0.5 + size / 2**16) * (1 + 2.0**-20)


@pytest.mark.parametrize("neighbors", Neighbors)
def test_groups_cost_under_gaussian_noise_what_one_does(neighbors):
    domain = Domain(Categorical("b", ["x", "y", "z"]), Number("a", 0, 10**6), Integer("c", 0, 1))
    of = facts(domain, neighbors)
    alone = sensitivity(Variance("a").lower(domain), of)
    form = Variance("a", by=["c", "b"]).lower(domain)
    assert form.rows == 3 * 6
    found = sensitivity(form, of)
    assert found.l2_squared == pytest.approx(float(alone.l2_squared), rel=1e-12)
    twice = 2 if neighbors is Neighbors.REPLACE_ONE else 1
    assert found.l1 == pytest.approx(twice * float(alone.l1), rel=1e-8)


@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize(
    "factors",
    [
        {"b": Identity(3), "c": Range(4, 1, 3)}, {"b": Range(3, 0, 3)}, {"c": Cuts(4, [0, 2])},
        {"b": Weights([[0.0, 2.0, 1.0]]), "c": Identity(4)}, {"b": Identity(3), "c": Prefix(4)},
        {"b": Weights([[0.0, -2.0, 1.0]])}, {"c": Range(4, 2, 2)}, {"b": Within(Identity(2), 3)},
    ],
    ids=repr,
)  # fmt: skip
@pytest.mark.parametrize(
    "squared",
    [
        Squares(5, 2),
        Squares(3, 4, 4),
        Squares(3, 2),
        Within(Squares(4, 2, 2, 2), 5),
        Squares(2, 2, skip=3),
    ],
)  # fmt: skip
def test_moves_of_variances_of_groups_are_enumerated(squared, factors, relation):
    domain = Domain(Integer("b", 0, 2), Integer("a", 0, squared.size - 1), Integer("c", 0, 3))
    form = LinearForm(domain, [Kronecker.of(domain, {"a": squared, **factors}).times(-3.0)])
    of = facts(domain, relation[0], outside=relation[1])
    found = sensitivity(form, of)
    assert (found.l1, found.l2_squared, found.maximum) == moves(weights(form), of)


def raw_of(domain, query, codes):
    rows = len(next(iter(codes.values())))
    return query.lower(domain).evaluate(Histogram(domain, codes, np.ones(rows), 0))


ATTRIBUTES = [
    Integer("a", 3, 9), Integer("a", 3, 12), Integer("a", 4, 5), Number("a", -1, 1, "0.5"),
    Number("a", 0, 100, "0.001"), Number("a", -5, 10**6, "0.01", missing=True),
    Binned("a", [0, 1, 2, 5, 30]), Integer("a", 7, 7),
]  # fmt: skip


@pytest.mark.parametrize("attribute", ATTRIBUTES, ids=repr)
def test_without_noise_answers_are_those_of_numpy(attribute):
    domain = Domain(Categorical("b", ["x", "y"]), attribute, Integer("c", 0, 2))
    rng = np.random.default_rng(5)
    codes = {
        "b": rng.integers(0, 2, 900), "a": rng.integers(0, attribute.size, 900),
        "c": rng.integers(0, 2, 900),
    }  # fmt: skip
    known = codes["a"] < attribute.known
    of = facts(domain, Neighbors.REPLACE_ONE, rows=900)
    if isinstance(attribute, Binned):
        middles = np.add(attribute.edges[1:], attribute.edges[:-1]) / 2
        values = middles[codes["a"]]
    else:
        values = np.array([float(attribute.label(min(c, attribute.known - 1))) for c in codes["a"]])
    away = module._Places.of("it", attribute).away
    zero = np.zeros(3)
    for query, power in ((Variance("a"), 2), (StdDev("a", where={"b": "x"}), 1)):
        some = values[known & ((codes["b"] == 0) | (power == 2))]
        raw = raw_of(domain, query, codes)
        (low,), (high,) = query.ends(raw, zero, of)
        assert low <= np.std(some) ** power <= high
        assert abs(query.lift(raw, of) ** (1 / power) - np.std(some)) <= away + 1e-7
    by = StdDev("a", by=["c", "b"])
    table = by.lift(raw_of(domain, by, codes), of)
    for c, (n, b) in itertools.product(range(3), enumerate("xy")):
        some = values[known & (codes["b"] == n) & (codes["c"] == c)]
        assert table.counts[c, b] == pytest.approx(len(some))
        if not len(some) and attribute.known > 1:
            assert math.isnan(table[c, b])
        elif len(some):
            assert abs(table[c, b] - np.std(some)) <= away + 1e-7


@pytest.mark.parametrize("seed", range(20))
def test_ends_hold_for_every_box_of_raw_numbers(seed):
    rng = np.random.default_rng(seed)
    domain = Domain(Integer("a", 0, 8))
    of, query = facts(domain, Neighbors.ADD_REMOVE, rows=None), Variance("a")
    for _ in range(20):
        counts = rng.integers(0, 3, 9)
        raw = query.lower(domain).evaluate(Histogram(domain, {"a": np.arange(9)}, counts * 1.0, 0))
        radii = rng.random(3) * rng.choice([1, 10, 40], 3)
        (low,), (high,) = query.ends(raw, radii, of)
        steps = np.linspace(-1, 1, 9)
        grid = raw + radii * np.array(list(itertools.product(steps, repeat=3)))
        inside = np.array([one for one in grid if one[2] > 0]).T.reshape(3, -1)
        found = np.clip(module._variance(*inside) * 16, 0, 16)
        assert low <= found.min()
        assert found.max() <= high
        if raw[2] > radii[2]:
            # Not by much: the ends are attained on finer grids.
            assert high <= found.max() * 1.3 + 0.6


def test_the_largest_variance_may_lie_between_the_ends_of_the_count():
    # s/c - t²/c² is largest at c = 2t²/s, here between 1 and 4.
    parts, radii = np.array([[8.0], [6.0], [20.0]]), np.array([[0.0], [0.0], [14.0]])
    domain = Domain(Integer("a", 0, 4))
    of, query = facts(domain, Neighbors.ADD_REMOVE, rows=None), Variance("a")
    high = query._bounds(parts, radii, of)[1][0]
    at_ends = max(4 * module._variance(8.0, 6.0, c) for c in (6.0, 34.0))
    inside = max(4 * module._variance(8.0, 6.0, c) for c in np.linspace(6, 34, 1000))
    assert at_ends < inside <= high == pytest.approx(inside, rel=1e-4)


@pytest.mark.parametrize("size", [9, 20_001, 10**7])
def test_a_condition_may_be_on_the_attribute_itself(size):
    domain = Domain(Number("a", 0, size - 1, missing=True), Integer("b", 0, 1))
    rng = np.random.default_rng(1)
    codes = {"a": rng.integers(0, size + 1, 800), "b": rng.integers(0, 2, 800)}
    low, high = size // 4, size - size // 3
    some = codes["a"][(codes["a"] >= low) & (codes["a"] <= high)]
    for relation in RELATIONS:
        of = facts(domain, relation[0], rows=800, outside=relation[1])
        query = StdDev("a", where={"a": Between(low, high)})
        found = sensitivity(query.lower(domain), of)
        place = module._Places.of(query, domain["a"])
        assert found.l1 <= 9 * place.bound**2 // 4 + 1
        raw = raw_of(domain, query, codes)
        assert abs(query.lift(raw, of) - np.std(some)) <= place.away + 1e-7
        none = StdDev("a", where={"a": Between(size + 5, size + 9)})
        with pytest.raises(QueryError, match="holds no label"):
            none.lower(domain)


def test_a_count_like_none_says_nothing():
    data = PrivateData.from_counts([[0, 0, 0, 0, 0], [50, 0, 0, 0, 50]], SMALL)
    session = Session(data, Budget(epsilon=1000, delta=1e-6), noise=seeded(1))
    released = session.release(StdDev("a", where={"b": 0}), using=Laplace(epsilon=1))
    assert math.isnan(released.value)
    assert released.error(beta=0.05) == 2.0
    assert released.bound(beta=0.05).vacuous
    table = session.release(StdDev("a", by="b"), using=Gaussian(rho=10))
    assert math.isnan(table.value[0])
    assert table.value[1] == pytest.approx(2, abs=0.1)
    assert table.errors(beta=0.05)[0] == 2.0
    assert table.errors(beta=0.05)[1] < 0.5


SMALL = Domain(Integer("b", 0, 1), Integer("a", 1, 5))


@pytest.mark.parametrize("query", [Variance("a"), StdDev("a", where={"b": 1})])
def test_bounds_hold_as_often_as_they_say(query):
    data = PrivateData.from_counts([[5, 9, 7, 1, 2], [30, 10, 4, 4, 25]], SMALL)
    true = quiet(data).answer(query, using=QUIET)
    misses = stated = 0
    for seed in range(60):
        session = Session(data, Budget(epsilon=10), noise=seeded(seed))
        released = session.release(query, using=Laplace(epsilon=0.7))
        misses += not abs(released.value - true) <= released.error(beta=0.1)
        low, high = released.interval(beta=0.1)
        misses += not low <= true <= high
        stated += released.error(beta=0.1)
    assert misses <= 2 * 12
    assert stated / 60 < 4


@pytest.mark.parametrize("kind", [Variance, StdDev])
@pytest.mark.parametrize("seed", range(10))
def test_what_is_presumed_is_never_exceeded(kind, seed):
    rng = np.random.default_rng(seed)
    domain, query = Domain(Integer("a", 0, 8)), kind("a")
    of = facts(domain, Neighbors.REPLACE_ONE, rows=400, outside=False)
    radii = rng.random(3) * rng.choice([1, 20, 200, 900])
    (presumed,) = query.presumed(radii, lambda: radii, of, Assumptions())
    for _ in range(60):
        counts = rng.multinomial(400, rng.dirichlet(np.full(9, rng.choice([0.05, 1.0]))))
        true = query.lower(domain).evaluate(Histogram(domain, {"a": np.arange(9)}, counts * 1.0, 0))
        raw = true + radii * rng.choice([-1, 1, 0.3], 3)
        settled = query.settled(raw, lambda: radii, of)
        (stated,) = query.spread(settled, radii, of)
        assert stated <= presumed


@pytest.mark.parametrize("by", [None, "b", "c", ["c", "b"]])
def test_rows_that_do_not_count_are_noted(by):
    domain = Domain(Integer("b", 0, 2), Integer("a", 0, 4, missing=True), Integer("c", 0, 1))
    counts = np.zeros((3, 6, 2))
    counts[:, 5], counts[:, 2] = 40, 20
    data = PrivateData.from_counts(counts, domain)
    released = quiet(data).release(StdDev("a", by=by), using=QUIET)
    assert np.max(released.value if by is None else released.value.values) == 0
    notes = [note for note in released.notes if isinstance(note, AddsUp)]
    assert [round(note.total, 6) for note in notes] == ([0.333333] if by != ["c", "b"] else [])


def test_what_cannot_be_added_up_is_refused():
    domain = Domain(Number("a", 0, 10**6), Categorical("b", ["x", "y"]), Integer("c", 0, 3))
    Variance("a").check(facts(domain, Neighbors.REPLACE_ONE, rows=2**25 - 1))
    Variance("c").check(facts(domain, Neighbors.REPLACE_ONE, rows=2**40))
    with pytest.raises(QueryError, match="2\\*\\*53"):
        Variance("a").check(facts(domain, Neighbors.REPLACE_ONE, rows=2**26))
    for query in (Variance("b"), StdDev("b")):
        with pytest.raises(QueryError, match="not numeric"):
            query.lower(domain)


MUTANTS = {
    "an odd K": lambda places, bound: squares(places, bound + 1),
    "plain squares": lambda places, bound: (
        squares(places, bound) + np.array([[0], [bound**2 // 2], [0]])
    ),
    "a whole count": lambda places, bound: squares(places, bound) * [[1], [1], [4 / 3]],
    "squares of twice": lambda places, bound: squares(places, bound) * [[1], [2], [1]],
}


@pytest.mark.parametrize("name", MUTANTS)
def test_other_weights_cost_more_or_are_no_integers(name):
    bound = 4
    wrong = MUTANTS[name](np.arange(-bound, bound + 1), bound)
    domain = Domain(Integer("a", 0, 2 * bound))
    form = LinearForm(domain, [Kronecker(("a",), (Weights(wrong),))])
    found = [
        sensitivity(form, facts(domain, relation[0], outside=relation[1])) for relation in RELATIONS
    ]
    above = [
        one.l1 > CLOSED[relation][0] * bound**2 or one.l2_squared > CLOSED[relation][1] * bound**4
        for one, relation in zip(found, RELATIONS, strict=True)
    ]
    assert any(above) or not form.integral


def test_it_costs_what_a_mean_costs():
    domain = Domain(Integer("a", 0, 2**15))
    of = facts(domain, Neighbors.REPLACE_ONE)
    noise = [sensitivity(kind("a").lower(domain), of) for kind in (Mean, Variance)]
    width, bound = 2**15, 2**14
    assert noise[0].l2_squared == 4 * width**2
    assert noise[1].l2_squared == pytest.approx(4 * bound**4, rel=1e-8)
