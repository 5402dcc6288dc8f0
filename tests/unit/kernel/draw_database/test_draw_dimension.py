"""What a dimension proves of small databases, by enumeration, and twins that claim too much."""

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from attrs import evolve
from test_draw_bounds import covering_radius

from dpsdk import Boolean, Budget, Categorical, Domain, Integer, PrivateData, Session
from dpsdk.errors import InvalidArgument
from dpsdk.kernel import Dimension, DrawDatabase, Terms
from dpsdk.kernel.draw_database.bounds import AnyCoverage, size_for, theorem_alpha, theorem_rows
from dpsdk.kernel.draw_database.dimension import (
    Side,
    by_dimension,
    by_lines,
    by_strips,
    dimension_of,
    log_patterns,
    sides_of,
    strip_variance,
)
from dpsdk.mechanisms import SmallDB
from dpsdk.queries import Count, Interval, Linear, Marginal, Threshold, Workload
from dpsdk.testing import seeded

LINE = Domain(Integer("a", 0, 3))
PLANE = Domain(Integer("a", 0, 2), Integer("b", 0, 2))
BITS = Domain(Boolean("x"), Boolean("y"), Boolean("z"))
LABELS = Domain(Categorical("k", ["p", "q", "r"]), Categorical("l", ["p", "q", "r"]))


def ranges(attribute):
    cells = range(attribute.size)
    return [range(low, high + 1) for low in cells for high in cells if low <= high]


def products(domain, choices):
    """All conjunctions of one of the choices of each attribute, None for any label."""
    pairs = itertools.product(*[choices] * len(domain.attributes))
    named = [dict(zip(domain.names, pair, strict=True)) for pair in pairs]
    return Workload(
        Count({name: own for name, own in one.items() if own is not None} or None) for one in named
    )


BOXES = products(PLANE, ranges(PLANE["a"]))
CORNERS = products(PLANE, [range(high) for high in (1, 2, 3)])

CLASSES = {
    "thresholds": (LINE, Workload(Threshold("a", t) for t in range(4)), 1),
    "intervals": (LINE, Workload(Interval("a", own[0], own[-1]) for own in ranges(LINE["a"])), 2),
    "boxes": (PLANE, BOXES, 4),
    "corners": (PLANE, CORNERS, 2),
    "literals": (BITS, products(BITS, [None, {True}, {False}]), 3),
    "positive literals": (BITS, products(BITS, [None, {True}]), 3),
    "labels": (LABELS, products(LABELS, [None, {"p"}, {"q"}, {"r"}]), 2),
    "sets": (LINE, Workload(Count({"a": own}) for own in ({0, 2}, {1, 2}, {0, 3})), 3),
}


def columns(domain, workload):
    codes = [own.reshape(-1) for own in np.indices(domain.shape)]
    cells = dict(zip(domain.names, codes, strict=True))
    blocks = [
        np.broadcast_to(
            block.columns([cells[name] for name in block.names]), (block.rows, len(codes[0]))
        )
        for block in workload.lower(domain).apart().blocks
    ]
    return np.concatenate(blocks).astype(np.int64)


def shatters(weights, points):
    """True if the functions pick out every part of some so many of these cells."""
    cells = itertools.combinations(range(weights.shape[1]), points)
    return any(len(np.unique(weights[:, own], axis=0)) == 2**points for own in map(list, cells))


def within_dimension(weights, dimension):
    return not shatters(weights, dimension + 1)


@pytest.mark.parametrize("name", CLASSES)
def test_what_is_recognised_is_the_dimension_by_enumeration(name):
    domain, workload, known = CLASSES[name]
    weights, sides = columns(domain, workload), sides_of(workload.lower(domain))
    claimed = dimension_of(sides)
    assert claimed == known
    assert within_dimension(weights, claimed)
    # One less is too few, but for three sets, of which no three records need to be told apart.
    assert within_dimension(weights, claimed - 1) == (name == "sets")


@pytest.mark.parametrize("name", ["intervals", "boxes", "literals"])
def test_functions_of_a_dimension_pick_out_as_few_parts_as_claimed(name):
    domain, workload, known = CLASSES[name]
    weights = columns(domain, workload)
    for points in range(1, 7):
        cells = map(list, itertools.combinations(range(weights.shape[1]), points))
        most = max((len(np.unique(weights[:, own], axis=0)) for own in cells), default=0)
        assert math.log(max(1, most)) <= log_patterns(known, points) + 1e-12
    assert math.log(2**known) > log_patterns(known - 1, known)


def test_the_dimension_of_boxes_is_twice_their_attributes():
    sides = (Side(100, 2, 2),) * 3
    assert dimension_of(sides) == 6
    # The middles of all faces are picked out apart: six points of three attributes.
    points = [np.eye(3)[axis] * sign for axis in range(3) for sign in (-1, 1)]
    for own in itertools.product([False, True], repeat=6):
        inside = [p for p, taken in zip(points, own, strict=True) if taken]
        low, high = (np.min(inside, 0), np.max(inside, 0)) if inside else (np.ones(3), np.zeros(3))
        found = [bool((low <= p).all() and (p <= high).all()) for p in points]
        assert found == list(own)


def test_weights_that_are_no_products_have_no_dimension():
    weighted = Linear(lambda row: row["a"] / 3, ["a"])
    assert sides_of(Workload([weighted, Threshold("a", 1)]).lower(LINE)) is None


@pytest.mark.parametrize(("width", "height"), [(2, 2), (2, 3), (2, 4)])
@pytest.mark.parametrize("size", [1, 2, 3, 4])
def test_some_small_database_is_as_close_as_claimed(width, height, size):
    domain = Domain(Integer("a", 0, width - 1), Integer("b", 0, height - 1))
    every = [ranges(one) for one in domain.attributes]
    workload = Workload(Count({"a": a, "b": b}) for a, b in itertools.product(*every))
    weights, sides = columns(domain, workload), sides_of(workload.lower(domain))
    functions = len(weights)
    exact = max(covering_radius(weights.tolist(), rows, size) for rows in (3, 4))
    assert exact <= by_lines(sides, size) == Fraction(2, size)
    assert float(exact) <= by_strips(sides, functions, size)
    assert float(exact) <= by_dimension(dimension_of(sides), size)
    # What holds for one line is too little for two.
    if size > 1:
        assert exact > by_lines((sides[0], Side(1, 0, 0)), size) / 2 * Fraction(9, 10)


def crossings(rng, size, records, values):
    """The most that the ranges of one box come to, squared, of strips of a random table."""
    strips = math.ceil(size / records)
    table = np.sort(rng.integers(0, values, 600))
    share = [np.unique(part) for part in np.array_split(table, strips)]
    worst = 0
    for low, high in itertools.combinations(range(values + 1), 2):
        inside = [((low <= part) & (part < high)) for part in share]
        partly = sum(bool(own.any() and not own.all()) for own in inside)
        fully = sum(bool(own.all()) for own in inside)
        worst = max(worst, fully + partly * records**2)
    return worst


@pytest.mark.parametrize(("size", "records"), [(24, 3), (40, 4), (60, 5)])
def test_a_box_crosses_as_few_strips_in_part_as_claimed(size, records):
    found = max(crossings(np.random.default_rng(seed), size, records, 12) for seed in range(4))
    sides = (Side(12, 2, 2), Side(12, 2, 2))
    assert found <= strip_variance(sides, size, records)
    # If only one end were counted, it would be too little.
    assert found > strip_variance((Side(12, 1, 1), Side(12, 2, 2)), size, records)


@pytest.mark.parametrize("dimensions", [2, 3])
def test_a_radius_of_boxes_never_grows_with_the_size(dimensions):
    sides = (Side(2**20, 2, 2),) * dimensions
    coverage = AnyCoverage(2 ** (39 * dimensions), 2 ** (20 * dimensions), sides)
    radii = [coverage.radius(size) for size in [*range(1, 200), *range(1000, 1100)]]
    assert radii == sorted(radii, reverse=True)
    declared = [by_dimension(3, size) for size in range(1, 400)]
    assert declared == sorted(declared, reverse=True)


def test_boxes_of_large_attributes_need_fewer_records():
    sides = (Side(2**20, 2, 2),) * 2
    counted = AnyCoverage((2**20 * (2**20 + 1) // 2) ** 2, 2**40)
    known = evolve(counted, sides=sides)
    declared = evolve(counted, declared=Dimension(4, "boxes"))
    sizes = [size_for("0.05", one) for one in (counted, declared, known)]
    assert sizes == sorted(sizes, reverse=True)
    assert sizes[2] < sizes[0] / 7


def test_theorem_4_9_holds_for_functions_of_any_number():
    public = {"universe": 2**60}
    many = theorem_rows("0.1", 0.05, 1, **public, functions=2**200)
    few = theorem_rows("0.1", 0.05, 1, **public, dimension=4)
    assert few < many
    assert theorem_rows("0.1", 0.05, 1, **public, functions=2**200, dimension=4) == few
    assert theorem_alpha(math.ceil(few), 0.05, 1, **public, dimension=4) < Fraction(1001, 10_000)
    coverage = AnyCoverage(2**200, 2**60, None, Dimension(4, "boxes"))
    size = size_for("0.05", coverage)
    assert few == pytest.approx(40 * (size * math.log(2**60) - math.log(0.05) + 0.5), rel=1e-6)
    with pytest.raises(InvalidArgument, match="functions"):
        theorem_rows("0.1", 0.05, 1, universe=9)
    with pytest.raises(InvalidArgument, match="dimension"):
        theorem_rows("0.1", 0.05, 1, universe=9, dimension=-1)
    with pytest.raises(InvalidArgument, match="alpha"):
        theorem_rows("1e-300", 0.05, 1, universe=9, dimension=2)
    # Nothing overflows where neither is of use.
    assert AnyCoverage(9, 9, (Side(2, 1, 2),) * 5000).radius(4) <= 1


def table(**given):
    rng = np.random.default_rng(5)
    own = {name: rng.integers(0, 3, 300).tolist() for name in PLANE.names}
    return PrivateData.from_columns(own, PLANE, **given)


PAIRS = [({0, 2}, {1, 2}), ({0, 1}, {0, 2}), ({1}, {0}), ({2}, {0, 2}), ({0, 2}, {0})]
FEW = Workload(Count({"a": a, "b": b}) for a, b in PAIRS)


def test_a_declared_dimension_is_said_where_the_bound_rests_on_it():
    known = Dimension(0, " all alike ")
    session = Session(table(), Budget(10), noise=seeded(1))
    plain, told = (SmallDB(FEW, epsilon=1, size=3, dimension=d) for d in (None, known))
    quotes = [session.quote(FEW, using=one) for one in (plain, told)]
    assert quotes[0].at_open == quotes[1].at_open
    assert quotes[1].error() < quotes[0].error()
    bound = session.release(FEW, using=told).bound()
    assert bound.kind.endswith("for every table, given dimension 0: all alike")
    # A dimension that proves no more than the number of functions leaves the bound as it is.
    idle = evolve(told, dimension=Dimension(9, "many"))
    release = session.release(FEW, using=idle)
    assert release.bound().kind.endswith("for every table")
    assert release.error() == quotes[0].error()
    assert "dimension=0" in repr(told)


def test_neither_price_nor_draw_depends_on_what_is_declared():
    terms, drawn, prices = Terms(table().facts), [], set()
    for known in (None, Dimension(1, "so it is")):
        prices.add(DrawDatabase(FEW.lower(PLANE), 3, 1, dimension=known).price(terms).guarantee)
        session = Session(table(), Budget(10), noise=seeded(7))
        with session.open(SmallDB(FEW, epsilon=1, size=3, dimension=known)) as channel:
            drawn.append(channel.distribution)
    assert drawn[0] == drawn[1]
    assert len(prices) == 1


def test_fewer_records_are_enough_for_what_is_declared():
    session = Session(table(), Budget(10), noise=seeded(7))
    sizes = []
    for known in (None, Dimension(0, "all alike")):
        mechanism = SmallDB(FEW, epsilon=1, alpha="0.45", dimension=known)
        with session.open(mechanism) as channel:
            sizes.append(channel.distribution.rows)
    assert sizes[1] < sizes[0]


@pytest.mark.parametrize(
    ("value", "reason", "parameter"),
    [(-1, "x", "dimension"), (1.5, "x", "dimension"), (129, "x", "dimension"),
     (2, "", "reason"), (2, "  ", "reason"), (2, None, "reason"), (2, "x" * 201, "reason")],
)  # fmt: skip
def test_a_dimension_needs_a_number_and_a_reason(value, reason, parameter):
    with pytest.raises(InvalidArgument, match=parameter):
        Dimension(value, reason)


def test_a_dimension_is_no_number():
    for given in (3, "3", (3, "half-planes")):
        with pytest.raises(InvalidArgument, match="dimension"):
            SmallDB(Marginal("a"), epsilon=1, dimension=given)
