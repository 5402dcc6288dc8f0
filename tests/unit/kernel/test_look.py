"""The primitive `look`: what it may be asked, what it costs, and what comes out."""

import itertools
import math
import tracemalloc
from fractions import Fraction

import attrs
import numpy as np
import pytest
from attrs import evolve
from test_select import PAIR, kernel, table

from dpsdk import Domain, Integer, Neighbors
from dpsdk.accounting import ZCDPComposition
from dpsdk.data.histogram import Histogram
from dpsdk.errors import BudgetExceeded, InvalidArgument, TooLarge
from dpsdk.kernel import GaussianNoise, LaplaceNoise, Look, LookPricing, Reference, Terms
from dpsdk.noise import DiscreteGaussian, DiscreteLaplace
from worlds import facts

X = Reference(["x"], [30.25, 0, 5, 0])
B = Reference(["b"], [20, 20])
BOTH = Reference(["b", "x"], np.arange(8).reshape(2, 4))
TOTAL = Reference([], 37)
QUIET = LaplaceNoise(10**12)


def test_distances_are_exact_where_they_can_be_afforded():
    asked, _ = kernel()
    looked = asked.look([X, B, BOTH, TOTAL], QUIET)
    counts = np.array([[5, 10, 0, 0], [25, 0, 0, 0]])
    whole = np.abs(counts - np.arange(8).reshape(2, 4)).sum()
    assert looked.values.tolist() == [0.25 + 10 + 5, 10, whole, 3]
    assert looked.source == "measured"
    assert looked.accuracy.step == 2.0**-12
    assert looked.accuracy.bias == 0.0


def test_they_are_of_the_rounded_table_to_the_last_step():
    rng = np.random.default_rng(5)
    given = rng.random((2, 4)) * 9
    given[0, 0] = 2.0**-4 * 3.5  # a tie
    for bits in (0, 3, 4, 20):
        one = Reference(["b", "x"], given)
        rounded = one.rounded(bits)
        assert np.abs(rounded - given).max() <= 2.0 ** -(bits + 1)
        assert (rounded * 2**bits == np.rint(rounded * 2**bits)).all()
        counts = np.array([[5, 10, 0, 0], [25, 0, 0, 0]])
        asked, _ = kernel()
        assert asked.look([one], QUIET, bits=bits).values == np.abs(counts - rounded).sum()
        again = Reference(["b", "x"], rounded)
        assert asked.look([again], QUIET, bits=bits).values == np.abs(counts - rounded).sum()


@pytest.mark.thorough(quick=1)
@pytest.mark.parametrize("outside", [True, False])
@pytest.mark.parametrize("neighbors", Neighbors)
@pytest.mark.parametrize("unit_rows", [1, 2])
def test_no_neighbours_move_the_distances_farther_than_is_paid_for(neighbors, outside, unit_rows):
    rng = np.random.default_rng(8)
    cells = [*PAIR_CELLS, None] if outside else PAIR_CELLS
    for _ in range(20):
        bits = int(rng.integers(0, 3))
        references = [
            Reference(names, np.floor(rng.random(shape(names)) * 5)) for names in random_names(rng)
        ]
        known = facts(PAIR, neighbors, rows=6, outside=outside, unit_rows=unit_rows)
        own = Look(references, LaplaceNoise(1), bits).price(Terms(known))
        squared = Look(references, GaussianNoise("0.5"), bits).price(Terms(known))
        base = [cells[i] for i in rng.integers(0, len(cells), 4)]
        worst = worst_squared = largest = 0
        for gone, come in itertools.product(cells, repeat=2):
            if neighbors is Neighbors.ADD_REMOVE:
                one, other = base, [*base, *[come] * unit_rows]
            else:
                one, other = [*base, *[gone] * unit_rows], [*base, *[come] * unit_rows]
            moves = np.abs(distances(own, one) - distances(own, other))
            worst = max(worst, int(moves.sum()))
            worst_squared = max(worst_squared, int((moves**2).sum()))
            largest = max(largest, int(moves.max()))
        if own.guarantee.free:
            assert worst == 0
            continue
        assert isinstance(own.law, DiscreteLaplace)
        assert worst <= own.law.scale
        assert isinstance(squared.law, DiscreteGaussian)
        assert worst_squared <= squared.law.variance
        assert largest <= squared.guarantee.shift_max


PAIR_CELLS = list(itertools.product(range(4), range(2)))


def shape(names):
    return tuple(PAIR[name].size for name in names)


def random_names(rng):
    kinds = [(), ("x",), ("b",), ("b", "x"), ("x", "b")]
    return [kinds[i] for i in rng.integers(0, len(kinds), rng.integers(1, 5))]


def distances(own, cells):
    """What the kernel would add noise to, for rows in these cells."""
    inside = [cell for cell in cells if cell is not None]
    codes = {
        name: np.array([cell[place] for cell in inside], dtype=np.int64)
        for place, name in enumerate(PAIR.names)
    }
    histogram = Histogram(PAIR, codes, np.ones(len(inside)), len(cells) - len(inside))
    silent = attrs.evolve(own, rows=None)
    values = silent.run(Silence(), lambda: histogram).values
    return np.rint(values * 2**own.bits).astype(np.int64)


@pytest.mark.parametrize("noise", [2**62 - 1, -(2**62 - 1)])
def test_noise_that_saturates_hides_the_distance_altogether(noise):
    terms = Terms(facts(PAIR, Neighbors.ADD_REMOVE, rows=6))
    references = [Reference(["b"], [0, 2.0**60]), Reference(["b"], [0, 0])]
    own = Look(references, QUIET, 0).price(terms)
    order = []

    class Saturated:
        def draw(self, law, size):
            order.append("noise")
            return np.full(size, noise, dtype=np.int64)

    def opened():
        order.append("table")
        codes = {name: np.zeros(1, dtype=np.int64) for name in PAIR.names}
        return Histogram(PAIR, codes, np.array([6.0]), 0)

    values = own.run(Saturated(), opened).values
    assert values.tolist() == [math.copysign(2.0**61, noise)] * 2
    # How long a draw takes cannot depend on what is read.
    assert order == ["noise", "table"]


class Silence:
    def draw(self, law, size):
        return np.zeros(size, dtype=np.int64)


@pytest.mark.parametrize(
    ("neighbors", "outside", "references", "l1", "squared", "largest"),
    [
        (Neighbors.ADD_REMOVE, True, [X, B, TOTAL], 3, 3, 1),
        (Neighbors.REPLACE_ONE, False, [X, B, TOTAL], 4, 8, 2),
        (Neighbors.REPLACE_ONE, True, [X, B, TOTAL], 4, 8, 2),
        (Neighbors.REPLACE_ONE, True, [TOTAL] * 3 + [X], 4, 4, 2),
        (Neighbors.REPLACE_ONE, True, [TOTAL], 1, 1, 1),
    ],
)
@pytest.mark.parametrize("unit_rows", [1, 3])
def test_the_price_is_that_of_the_joint_sensitivity(
    neighbors, outside, references, l1, squared, largest, unit_rows
):
    terms = Terms(facts(PAIR, neighbors, rows=40, outside=outside, unit_rows=unit_rows))
    step = 2**12 * unit_rows
    pricing = Look(references, LaplaceNoise("0.5")).price(terms)
    assert pricing.law == DiscreteLaplace(2 * l1 * step)
    assert pricing.guarantee.epsilon == Fraction(1, 2)
    pricing = Look(references, GaussianNoise("0.5")).price(terms)
    assert pricing.law == DiscreteGaussian(squared * step**2)
    assert pricing.guarantee.rho == Fraction(1, 2)
    assert pricing.guarantee.shift_squared == squared * step**2
    assert pricing.guarantee.shift_max == largest * step
    assert isinstance(pricing, LookPricing)
    known = Look.guarantee_for([one.names for one in references], GaussianNoise("0.5"), terms)
    assert known == pricing.guarantee


def test_pieces_cost_the_same_together_and_have_the_same_noise():
    terms = Terms(facts(PAIR, Neighbors.ADD_REMOVE))
    whole = Look([X, B, BOTH, TOTAL], GaussianNoise("0.4")).price(terms)
    parts = [
        Look([X, B, BOTH], GaussianNoise("0.3")).price(terms),
        Look([TOTAL], GaussianNoise("0.1")).price(terms),
    ]
    assert all(part.law == whole.law for part in parts)
    assert sum(part.guarantee.rho for part in parts) == whole.guarantee.rho


def test_the_number_of_rows_is_no_secret_where_it_is_public():
    data = table(outside="raise")
    asked, odometer = kernel(data)
    looked = asked.look([TOTAL, Reference([], 41)], GaussianNoise("0.1"))
    assert looked.values.tolist() == [3, 1]
    assert odometer.spent.epsilon == 0
    assert looked.accuracy.radii(0.01, joint=True).tolist() == [0, 0]


def test_noise_has_the_law_that_was_told():
    asked, _ = kernel(composition=ZCDPComposition(), budget=1000, delta="1e-6")
    looked = asked.look([B] * 4000, GaussianNoise(20), bits=2)
    law = looked.accuracy.law
    assert law == DiscreteGaussian(4000 * 4 * 16 / Fraction(40))
    gaps = (looked.values - 10) * 4
    assert abs(gaps.mean()) < 4 * math.sqrt(float(law.variance) / 4000)
    assert gaps.var() == pytest.approx(float(law.variance), rel=0.1)
    beyond = np.abs(looked.values - 10) > looked.accuracy.radii(0.1, joint=False)
    assert beyond.mean() == pytest.approx(0.1, abs=0.02)


def test_it_is_paid_for_before_it_looks():
    asked, odometer = kernel(composition=ZCDPComposition(), budget=1, delta="1e-6")
    with pytest.raises(BudgetExceeded):
        asked.look([X], GaussianNoise(1))
    assert odometer.spent.charges == 0
    asked.look([X, B], GaussianNoise("0.01"))
    assert odometer.spent.rho == Fraction(1, 100)
    allowance = asked.allowance([GaussianNoise("0.005").cover])
    asked.look([X, B], GaussianNoise("0.005"), allowance=allowance)
    assert allowance.left == 0


class Hostile:
    def __float__(self):
        raise RuntimeError("no number")


def huge(names=("x",), value=2.0**60):
    return Reference(names, np.full(shape(names), value))


NO_TABLES = [
    [1, -1e-300, 0, 0], [1, math.nan, 0, 0], [1, math.inf, 0, 0], [1, 10**400, 0, 0],
    ["a", "b", "c", "d"], [1j] * 4, ["1", "2", "3", "4"], np.array([1 + 5j] * 4),
    np.array([1] * 4, dtype="M8[s]"), np.ma.array([1] * 4, mask=[0, 1, 0, 0]), [Hostile()] * 4,
]  # fmt: skip
NO_LOOKS = [
    [], 5, [[1, 2]], [Reference(["y"], [0])], [Reference(["x"], [0] * 5)],
    [Reference(["x", "b"], BOTH.table)],
]  # fmt: skip


@pytest.mark.parametrize(
    ("parameter", "make"),
    [
        *(("table", lambda table=table: Reference(["x"], table)) for table in NO_TABLES),
        ("names", lambda: Reference("x", [0] * 4)),
        ("names", lambda: Reference(["x", "x"], np.zeros((4, 4)))),
        ("names", lambda: Reference(5, [0] * 4)),
        *(("references", lambda given=given: kernel()[0].look(given, QUIET)) for given in NO_LOOKS),
        ("noise", lambda: kernel()[0].look([X], 5)),
        ("attributes", lambda: Look.guarantee_for([], QUIET, kernel()[0].terms)),
        ("attributes", lambda: Look.guarantee_for(5, QUIET, kernel()[0].terms)),
        ("names", lambda: Look.guarantee_for(["x"], QUIET, kernel()[0].terms)),
        ("noise", lambda: Look.guarantee_for([["x"]], 1, kernel()[0].terms)),
        ("bits", lambda: Look.guarantee_for([["x"]], QUIET, kernel()[0].terms, 99)),
        ("terms", lambda: Look.guarantee_for([["x"]], QUIET, 5)),
        ("bits", lambda: kernel()[0].look([X], QUIET, bits=-1)),
        ("bits", lambda: kernel()[0].look([X], QUIET, bits=41)),
        ("bits", lambda: kernel()[0].look([X], QUIET, bits=0.5)),
        ("bits", lambda: kernel()[0].look([huge()], QUIET)),
        ("bits", lambda: kernel()[0].look([huge(value=2.0**59)], QUIET, bits=0)),
        ("table", lambda: kernel()[0].look([huge(value=1e300)], QUIET, bits=40)),
    ],
)
def test_what_does_not_fit_is_refused_by_name(parameter, make):
    with pytest.raises(InvalidArgument) as caught:
        make()
    assert caught.value.parameter == parameter


@pytest.mark.parametrize(("names", "sizes"), [(["y"], (0,)), (["x", "y"], (4, 0)), (["y"], (3,))])
@pytest.mark.parametrize("others", [[], [X, B]])
def test_attributes_that_nobody_declared_are_refused_before_anything_is_paid(names, sizes, others):
    # A table without cells has no size that could be wrong.
    asked, odometer = kernel()
    with pytest.raises(InvalidArgument, match="attributes of the domain"):
        asked.look([*others, Reference(names, np.zeros(sizes))], QUIET)
    assert odometer.spent.charges == 0


def test_the_sum_of_a_table_is_exact_to_the_last_step_and_takes_little_memory():
    given = [2.0**60, 2.0**60 - 2.0**8, 0, 0]  # all rows have 255 steps to go
    for rows, fits in ((255, True), (256, False)):
        terms = Terms(evolve(facts(PAIR, Neighbors.ADD_REMOVE), row_limit=rows))
        request = Look([Reference(["x"], given)], GaussianNoise(1), 0)
        if fits:
            assert request.price(terms).bits == 0
        else:
            with pytest.raises(InvalidArgument, match="bits"):
                request.price(terms)
    wide = Domain(Integer("x", 0, 2**18 - 1))
    one = Reference(["x"], np.concatenate([[2.0**45], 2.0**30 + np.arange(1.0, 2**18)]))
    terms = Terms(facts(wide, Neighbors.ADD_REMOVE))
    tracemalloc.start()
    try:
        Look([one], GaussianNoise(1)).price(terms)
        assert tracemalloc.get_traced_memory()[1] < 5 * one.table.nbytes
    finally:
        tracemalloc.stop()


def test_sums_cannot_leave_the_integers_whatever_the_table_holds():
    for rows, bits, fits in ((2**48, 12, True), (2**49, 12, False), (2**52, 8, True)):
        terms = Terms(evolve(facts(PAIR, Neighbors.ADD_REMOVE), row_limit=rows))
        request = Look([X], GaussianNoise(1), bits)
        if fits:
            assert request.price(terms).bits == bits
        else:
            with pytest.raises(InvalidArgument, match="bits"):
                request.price(terms)


def test_a_table_that_no_memory_holds_is_refused_unread():
    with pytest.raises(TooLarge):
        Reference(["x"], np.broadcast_to(0.0, (2**45,)))


def test_a_subclass_is_not_asked_for_its_numbers():
    class Sly(Reference):
        pass

    with pytest.raises(InvalidArgument):
        Look([Sly(["x"], [0] * 4)], QUIET)


def test_references_are_values():
    assert Reference(["x"], [1, 2, 3, 4]) == Reference(("x",), (1.0, 2.0, 3.0, 4.0))
    assert Reference(["x"], [1, 2, 3, 4]) != Reference(["x"], [1, 2, 3, 5])
