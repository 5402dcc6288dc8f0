import gc
import itertools
import math
import weakref
from fractions import Fraction

import numpy as np
import pytest

from dpsdk import Binned, Budget, Domain, Integer, Neighbors, PrivateData
from dpsdk._identity_map import IdentityMap
from dpsdk.accounting import (
    BasicComposition,
    Odometer,
    PureGuarantee,
    pure_epsilon,
    zcdp_rho,
)
from dpsdk.errors import InvalidArgument, TooLarge
from dpsdk.forms import Dense, Factor, Kronecker, LinearForm, Weights, sensitivity
from dpsdk.forms.blocks import Block
from dpsdk.kernel import EuclideanNoise, GaussianNoise, Kernel, LaplaceNoise, Measure, Terms
from dpsdk.kernel.lattice import PreparedForm
from dpsdk.noise import DiscreteGaussian, DiscreteLaplace, EuclideanLaplace
from dpsdk.queries import Count, Linear, Marginal, Mean, Sum, Threshold, Workload
from dpsdk.testing import seeded
from worlds import PEOPLE, facts, people, table, weights


def prepared(form, noise, of):
    """What the kernel would do, its own form among it."""
    return Measure(form, noise).price(Terms(of))


NOISES = [LaplaceNoise("0.1"), GaussianNoise("0.01")]
FORMS = {
    "count": Count().lower(PEOPLE),
    "marginal": Marginal("age", "sex").lower(PEOPLE),
    "thresholds": Workload(Threshold("age", t) for t in range(17, 25)).lower(PEOPLE),
    "mean": Mean("age").lower(PEOPLE),
    "linear": Linear(lambda r: r["age"] / 24, ["age"]).lower(PEOPLE),
    "mixed": Workload([Count(), Linear(lambda r: r["age"] / 31, ["age"]), Sum("age")]).lower(
        PEOPLE
    ),
    "fractional mean": Mean("x").lower(Domain(Binned("x", [0.1, 0.3, 0.77]))),
}


@pytest.mark.parametrize("name", FORMS)
@pytest.mark.parametrize("noise", NOISES, ids=str)
@pytest.mark.parametrize(
    ("neighbors", "outside"), list(itertools.product(Neighbors, [True, False])), ids=str
)
def test_the_noise_is_calibrated_to_the_sensitivity_of_the_lattice(name, noise, neighbors, outside):
    form = FORMS[name]
    of = facts(form.domain, neighbors, rows=500, outside=outside)
    pricing = prepared(form, noise, of)
    assert pricing._form.integral
    assert np.array_equal(weights(pricing._form), np.rint(weights(pricing._form)))
    move = sensitivity(pricing._form, of)
    (guarantee,) = (pricing.guarantee,)
    if isinstance(noise, LaplaceNoise):
        assert isinstance(pricing.law, DiscreteLaplace)
        assert pricing.law.scale * noise.epsilon >= move.l1
        assert guarantee.scale == pricing.law.scale
        assert guarantee.shift >= move.l1
        assert pure_epsilon(guarantee) in {noise.epsilon, 0 if move.l1 == 0 else None}
    else:
        assert isinstance(pricing.law, DiscreteGaussian)
        assert pricing.law.variance * 2 * noise.rho >= move.l2_squared
        assert guarantee.variance == pricing.law.variance
        assert zcdp_rho(guarantee) in {noise.rho, 0 if move.l2_squared == 0 else None}


@pytest.mark.parametrize("name", FORMS)
@pytest.mark.parametrize("noise", NOISES, ids=str)
def test_rounding_is_small_beside_the_noise_and_part_of_the_bound(name, noise):
    form = FORMS[name]
    of = facts(form.domain, rows=500)
    pricing = prepared(form, noise, of)
    moved = np.abs(weights(pricing._form) * 2.0**-pricing.bits - weights(form)).max() * 500
    assert moved <= pricing.accuracy.bias * (1 + 1e-9)
    scale = pricing.law.standard_deviation() * 2.0**-pricing.bits
    assert pricing.accuracy.bias <= scale / 100
    assert pricing.accuracy.step == 2.0**-pricing.bits


@pytest.mark.parametrize("bits_rows", [1, 10**6, 10**9, 2**40])
def test_sums_stay_within_what_floats_hold_exactly(bits_rows):
    form = Linear(lambda r: r["age"] / 24, ["age"]).lower(PEOPLE)
    pricing = prepared(form, LaplaceNoise(100), facts(PEOPLE, rows=bits_rows))
    assert weights(pricing._form).max() * bits_rows <= 2**53
    assert pricing.bits <= 40


def test_counts_that_could_not_be_summed_exactly_are_refused():
    domain = Domain(Integer("a", 0, 1))
    form = LinearForm(domain, [Dense(("a",), (2,), np.array([[2.0**40, 1.0]]))])
    assert Measure(form, LaplaceNoise(1)).price(Terms(facts(domain, rows=2**12))).bits == 0
    with pytest.raises(InvalidArgument, match="weights"):
        Measure(form, LaplaceNoise(1)).price(Terms(facts(domain, rows=2**14)))


def test_noise_wider_than_its_sampler_is_refused():
    with pytest.raises(InvalidArgument):
        Measure(Count().lower(PEOPLE), LaplaceNoise("1e-30")).price(Terms(facts(PEOPLE)))


@pytest.mark.parametrize("name", [name for name in FORMS if name != "fractional mean"])
@pytest.mark.parametrize("noise", NOISES, ids=str)
@pytest.mark.parametrize("neighbors", Neighbors)
def test_the_price_is_bit_equal_on_neighbouring_tables(name, noise, neighbors):
    rows = people(50, 1)
    other = [{**rows[0], "age": 99 if rows[0]["age"] == 17 else 17}, *rows[1:]]
    if neighbors is Neighbors.ADD_REMOVE:
        other = rows[1:]
    prices = []
    for given in (rows, other):
        form = LinearForm(PEOPLE, FORMS[name].blocks)
        prices.append(prepared(form, noise, table(given, neighbors, max_rows=900).facts))
    one, two = prices
    assert (one.bits, one.law, one.guarantee, one.accuracy) == (
        two.bits,
        two.law,
        two.guarantee,
        two.accuracy,
    )
    assert np.array_equal(weights(one._form), weights(two._form))
    assert math.copysign(1, one.accuracy.bias) == math.copysign(1, two.accuracy.bias)


def test_settling_adds_whole_noise_and_gives_the_unit_back():
    form = Linear(lambda r: r["age"] / 24, ["age"]).lower(PEOPLE)
    pricing = prepared(form, LaplaceNoise(1), facts(PEOPLE))
    step = 2.0**-pricing.bits
    settled = pricing._settle(np.array([5.0]), np.array([-3]))
    assert settled.tolist() == [2 * step]


def test_released_integers_are_clamped_far_out():
    pricing = prepared(Count().lower(PEOPLE), LaplaceNoise(1), facts(PEOPLE))
    far = 2**62 - 1
    low, high = (
        pricing._settle(np.array([x]), np.array([n]))[0]
        for x, n in ((0.0, -far), (2.0**53 - 1, far))
    )
    assert -low == high
    assert high <= 2.0**62


@pytest.mark.thorough
def test_a_price_is_worked_out_once_while_its_form_lives_and_not_longer():
    for query in (Count(), Linear(lambda r: r["age"] / 24, ["age"])):
        form = query.lower(PEOPLE)
        of = facts(PEOPLE)
        assert prepared(form, LaplaceNoise(1), of) is prepared(form, LaplaceNoise("1"), of)
        assert prepared(form, LaplaceNoise(2), of) is not prepared(form, LaplaceNoise(1), of)
        other = prepared(form, LaplaceNoise(1), facts(PEOPLE, rows=7))
        assert other is not prepared(form, LaplaceNoise(1), of)
        gone = weakref.ref(form)
        del form
        gc.collect()
        assert gone() is None


def test_nearly_constant_weights_still_get_noise():
    # Two columns that differ by one step in two functions: lost in the rounding of large squares.
    domain = Domain(Integer("a", 0, 1))
    given = np.array([[1.0, 1.0 - 2.0**-39], [1.0 - 2.0**-39, 1.0]])
    form = LinearForm(domain, [Dense(("a",), (2,), given)])
    of = facts(domain, rows=3, outside=False)
    pricing = prepared(form, GaussianNoise("0.5"), of)
    exact = weights(pricing._form).astype(object)
    squared = sum(Fraction(int(a) - int(b)) ** 2 for a, b in exact)
    assert squared > 0
    assert pricing.law.variance >= squared


@pytest.mark.parametrize("scale", [0.57, 1 / 3])
def test_a_fractional_scale_is_on_the_lattice_like_every_weight(scale):
    domain = Domain(Integer("a", 0, 1))
    form = LinearForm(domain, [Kronecker(("a",), (Weights([[1.0, 0.0]]),), scale)])
    pricing = prepared(form, LaplaceNoise(1), facts(domain))
    assert pricing._form.integral
    assert pricing.accuracy.bias > 0


@pytest.mark.parametrize("make", [LaplaceNoise, GaussianNoise])
@pytest.mark.parametrize("value", [0, -1, float("nan"), float("inf"), "x", None, True])
def test_noise_needs_a_positive_parameter(make, value):
    with pytest.raises(InvalidArgument):
        make(value)


def test_what_is_kept_of_forms_that_are_multiplied_out_is_counted_as_large_as_it_is(monkeypatch):
    memo = IdentityMap[tuple[PreparedForm, ...]](100, 2**24)
    monkeypatch.setattr("dpsdk.kernel.lattice._prepared", memo)
    size = 2**9
    domain = Domain(Integer("a", 0, size - 1), Integer("b", 0, size - 1))
    terms = Terms(facts(domain))
    rng = np.random.default_rng(1)
    forms = []
    for _ in range(4):
        factors = {name: Weights(rng.random((1, size))) for name in domain.names}
        forms.append(LinearForm(domain, [Kronecker.of(domain, factors)]))
        for epsilon in ("0.1", "1", "10", "100"):
            Measure(forms[-1], LaplaceNoise(epsilon)).price(terms)
    kept = [one for form in forms for one in memo.get(form) or ()]
    held = {id(block): block for one in kept for block in lattices(one)}
    assert sum(block.nbytes for block in held.values()) <= memo.size <= 2**24


def lattices(admitted):
    """The blocks of all lattices that an admitted form holds."""
    for bits in range(64):
        known = admitted._lattices.get(bits)
        if known is not None:
            yield from known[0].blocks


@pytest.mark.parametrize("neighbors", Neighbors)
@pytest.mark.parametrize("rows", [0, 5])
def test_what_no_row_changes_has_a_price_and_an_answer_whatever_the_number_of_rows(neighbors, rows):
    form = LinearForm(PEOPLE, [Kronecker((), (), 3.0)])
    of = facts(PEOPLE, neighbors, rows=rows, outside=False)
    pricing = Measure(form, LaplaceNoise(1)).price(Terms(of))
    if neighbors is Neighbors.REPLACE_ONE:
        assert pricing.guarantee.free
        assert pricing.run(seeded(1), lambda: None).values.tolist() == [3.0 * rows]
    else:
        assert not pricing.guarantee.free


# A factor or block of another author is priced, and read, by the weights that it gives.


DOMAIN = Domain(Integer("a", 0, 3), Integer("b", 0, 2))
WEIGHTS = np.array([[0.0, 5.0, -2.0, 1.0], [1.0, 0.5, 0.0, 3.0]])


class Claiming(Factor):
    """Says less of its weights than they are."""

    size = 4
    rows = 2
    integral = True

    def extents(self):
        return np.zeros(2), np.zeros(2)

    reach = 1.0

    def apply(self, table, axis):
        raise AssertionError

    def columns(self, codes):
        return WEIGHTS[:, codes]

    def row(self, number):
        raise AssertionError

    def column_norms(self, power):
        return np.zeros(4)


class ClaimingBlock(Block):
    names, shape, rows, integral, reach = ("a",), (4,), 2, True, 1.0

    def extents(self):
        return np.zeros(2), np.zeros(2)

    def answer(self, table):
        raise AssertionError

    def answer_records(self, codes, counts):
        raise AssertionError

    def columns(self, codes):
        return WEIGHTS[:, codes[0]]

    def column_norms(self, power):
        return np.zeros(4)


FOREIGN = [Kronecker(("a",), (Claiming(),)), ClaimingBlock()]


@pytest.mark.parametrize("block", FOREIGN, ids=["factor", "block"])
@pytest.mark.parametrize("noise", [LaplaceNoise("0.1"), GaussianNoise("0.01")], ids=str)
@pytest.mark.parametrize("neighbors", Neighbors)
def test_what_a_foreign_part_claims_plays_no_part(block, noise, neighbors):
    data = PrivateData.from_counts(np.arange(12).reshape(4, 3), DOMAIN, neighbors=neighbors,
                                   max_rows=100)  # fmt: skip
    own = LinearForm(DOMAIN, [Dense(("a",), (4,), WEIGHTS)])
    foreign = LinearForm(DOMAIN, [block])
    terms = Terms(data.facts)
    assert (
        Measure(foreign, noise).price(terms).guarantee == Measure(own, noise).price(terms).guarantee
    )
    told = []
    for form in (own, foreign):
        kernel = Kernel(data, Odometer(Budget(9, "0.1")), seeded(1), "x")
        told.append(kernel.measure(form, noise).values.tolist())
    assert told[0] == told[1]


def test_a_foreign_part_of_another_shape_or_too_large_is_refused():
    kernel = Kernel(PrivateData.from_counts(np.ones((4, 3), int), DOMAIN),
                    Odometer(Budget(9), BasicComposition()), seeded(1), "x")  # fmt: skip

    class Short(Claiming):
        def columns(self, codes):
            return WEIGHTS[:, :2]

    class Huge(Claiming):
        size, rows = 4, 2**23

    for factor, error in ((Short(), InvalidArgument), (Huge(), TooLarge)):
        with pytest.raises(error):
            kernel.measure(LinearForm(DOMAIN, [Kronecker(("a",), (factor,))]), LaplaceNoise(1))
    assert Weights(WEIGHTS).rows == 2


@pytest.mark.parametrize("name", FORMS)
def test_euclidean_noise_goes_by_the_length_of_the_largest_move(name):
    form, of = FORMS[name], facts(FORMS[name].domain, Neighbors.REPLACE_ONE, rows=500, outside=True)
    pricing = prepared(form, EuclideanNoise("0.1"), of)
    shift = pricing.law.scale / 10
    length = sensitivity(pricing._form, of).l2_squared
    assert isinstance(pricing.law, EuclideanLaplace)
    assert pricing.law.entries == form.rows
    assert (shift - 1) ** 2 < length <= shift**2
    assert pricing.guarantee == PureGuarantee(Fraction(1, 10))
    if form.domain is PEOPLE:
        data = table(people(500, 1))
        kernel = Kernel(data, Odometer(Budget(1), BasicComposition()), seeded(1), "x")
        assert kernel.measure(form, EuclideanNoise("0.1")).values.shape == (form.rows,)


def test_euclidean_noise_is_of_few_numbers():
    form = Workload(Threshold("age", 17 + t % 8) for t in range(25)).lower(PEOPLE)
    with pytest.raises(InvalidArgument, match="noise for 25 numbers; this one is for 24"):
        Measure(form, EuclideanNoise(1)).price(Terms(facts(PEOPLE, rows=9)))


def test_what_no_row_changes_has_no_euclidean_noise():
    everywhere = facts(PEOPLE, Neighbors.REPLACE_ONE, rows=9, outside=False)
    pricing = prepared(FORMS["count"], EuclideanNoise(1), everywhere)
    assert pricing.guarantee.free
    assert pricing._constant.tolist() == [9.0]
