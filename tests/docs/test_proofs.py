"""What the notes on `measure` and on sensitivity claim, tried by brute force and at the corners.

A random form is priced, its integer answers are computed on all neighbours of a small table, and
the largest moves are compared with those that the guarantee rests on.
"""

import itertools
import sys
from fractions import Fraction

import numpy as np
import pytest
from attrs import frozen

from dpsdk import Binned, Budget, Domain, Integer, Neighbors, PrivateData, Session
from dpsdk.data.histogram import Histogram
from dpsdk.errors import InvalidArgument
from dpsdk.forms import (
    Dense,
    Facts,
    Groups,
    Identity,
    Kronecker,
    LinearForm,
    Prefix,
    Range,
    Residual,
    Toeplitz,
    Weights,
    factors,
    search,
    sensitivity,
)
from dpsdk.kernel import GaussianNoise, LaplaceNoise, Measure, Terms
from dpsdk.mechanisms import Laplace
from dpsdk.queries import Mean, Query, Sum, Threshold, Workload
from worlds import crossed

RELATIONS = list(itertools.product(Neighbors, (True, False)))
SCALES = (1.0, 1.0, 1.0, 2.0, -1.0, 0.3, 1 / 3, -0.7)


def random_factor(rng, size):
    rows = int(rng.integers(1, 4))
    start, stop = sorted(int(end) for end in rng.integers(0, size + 1, 2))
    offset = 10.0 ** rng.integers(0, 4)
    choices = (
        lambda: Identity(size),
        lambda: Prefix(size),
        lambda: Groups(size, min(rows, size)),
        lambda: Toeplitz(np.sort(rng.integers(0, 4, size))[::-1]),
        lambda: Toeplitz(rng.normal(size=size)),
        lambda: Residual(size),
        lambda: Range(size, start, stop),
        lambda: Weights(rng.integers(-3, 4, (rows, size))),
        lambda: Weights(rng.random((rows, size))),
        lambda: Weights(rng.normal(size=(rows, size)) + offset),
    )
    return choices[rng.integers(len(choices))]()


def random_form(rng, domain):
    blocks = []
    for _ in range(rng.integers(1, 5)):
        names = tuple(name for name in domain.names if rng.random() < 0.6)
        if names and rng.random() < 0.25:
            shape = tuple(domain[name].size for name in names)
            weights = rng.normal(size=(int(rng.integers(1, 4)), int(np.prod(shape))))
            blocks.append(Dense(names, shape, weights))
        else:
            factors = tuple(random_factor(rng, domain[name].size) for name in names)
            blocks.append(Kronecker(names, factors, float(rng.choice(SCALES))))
    return LinearForm(domain, blocks)


def facts_of(domain, neighbors, outside, rows, unit_rows=1):
    public = neighbors is Neighbors.REPLACE_ONE
    return Facts(domain, neighbors, rows if public else None, outside, rows, unit_rows)


def answers(form, domain, cells):
    codes = np.unravel_index(np.array(cells, dtype=np.int64), domain.shape)
    named = {n: np.asarray(c) for n, c in zip(domain.names, codes, strict=True)}
    histogram = Histogram(domain, named, np.ones(len(cells)), 0)
    return [int(number) for number in form.evaluate(histogram).astype(np.int64)]


def worst_moves(form, facts, base):
    """The largest L1, squared L2 and single move over all neighbours that extend `base`."""
    domain = facts.domain
    without = answers(form, domain, base)
    with_one = [answers(form, domain, [*base, cell]) for cell in range(domain.size)]
    if facts.neighbors is Neighbors.ADD_REMOVE:
        pairs = [(without, other) for other in with_one]
    else:
        pairs = itertools.combinations([*with_one, *([without] if facts.outside else [])], 2)
    moves = [[abs(a - b) for a, b in zip(x, y, strict=True)] for x, y in pairs]
    return (
        max((sum(move) for move in moves), default=0),
        max((sum(m * m for m in move) for move in moves), default=0),
        max((max(move) for move in moves), default=0),
    )


# Quickly some seeds of each, five apart, as the rows of a person go by threes.
@pytest.mark.thorough(quick=3)
@pytest.mark.parametrize(("seed", "limits"), crossed(range(60), ["wide", "narrow"], 5))
def test_no_neighbour_moves_the_answers_farther_than_was_charged(seed, limits, monkeypatch):
    rng = np.random.default_rng(seed)
    if limits == "narrow":
        # The function of the same name hides the module as an attribute of its package.
        rules = sys.modules["dpsdk.forms.sensitivity"]
        monkeypatch.setattr(rules, "SPAN_LIMIT", int(rng.choice([2, 4, 8])))
        pairs = int(rng.integers(1, 6))
        for one in (search, factors):
            monkeypatch.setattr(one, "PAIR_LIMIT", pairs)
        monkeypatch.setattr("dpsdk.forms.linear._WRITTEN_LIMIT", (0, 8, 64)[seed % 3])
    sizes = rng.integers(1, 5, size=rng.integers(1, 4))
    domain = Domain(*(Integer(n, 1, int(s)) for n, s in zip("abc", sizes, strict=False)))
    form = random_form(rng, domain)
    for neighbors, outside in RELATIONS:
        rows = int(10 ** rng.integers(0, 6))
        many = min(rows, (1, 3, 50)[seed % 3])
        facts = facts_of(domain, neighbors, outside, rows, many)
        base = [int(cell) for cell in rng.integers(0, domain.size, min(facts.row_limit - 1, 20))]
        strength = Fraction(1, 10 ** int(rng.integers(0, 4)))
        for noise in (LaplaceNoise(strength), GaussianNoise(strength)):
            pricing = Measure(form, noise).price(Terms(facts))
            assert pricing._form.integral
            l1, l2_squared, largest = worst_moves(pricing._form, facts, base)
            guarantee = pricing.guarantee
            if isinstance(noise, LaplaceNoise):
                assert guarantee.shift >= many * l1
            else:
                assert guarantee.shift_squared >= many**2 * l2_squared
                assert guarantee.shift_max >= many * largest


def test_columns_that_have_much_in_common_keep_their_distance():
    domain = Domain(Integer("a", 0, 2))
    weights = Weights([[2.0**40] * 3, [0.0, 1.0, 0.0]])
    form = LinearForm(domain, [Kronecker.of(domain, {"a": weights})])
    found = sensitivity(form, facts_of(domain, Neighbors.REPLACE_ONE, outside=False, rows=9))
    assert found.l2_squared >= 1


def test_a_sum_far_from_zero_beside_a_threshold_is_not_underpriced():
    domain = Domain(Integer("t", 1_700_000_000, 1_700_000_400))
    queries = (Sum("t", normalized=False), Threshold("t", 1_700_000_200, normalized=False))
    form = Workload(queries).lower(domain)
    found = sensitivity(form, facts_of(domain, Neighbors.REPLACE_ONE, outside=False, rows=9))
    assert 400**2 + 1 <= found.l2_squared <= 400**2 + 2


def test_signed_weights_whose_squares_fill_a_float_are_rounded_up():
    domain = Domain(Integer("a", 0, 1))
    weights = Weights([[1.0 - 2.0**26, 2.0**26]])
    form = LinearForm(domain, [Kronecker.of(domain, {"a": weights})])
    found = sensitivity(form, facts_of(domain, Neighbors.REPLACE_ONE, outside=False, rows=1))
    assert found.l2_squared >= (2**27 - 1) ** 2


def test_a_scale_that_is_no_integer_goes_on_the_lattice():
    domain = Domain(Binned("x", [0.0, 0.1, 0.3]))
    facts = facts_of(domain, Neighbors.REPLACE_ONE, outside=True, rows=100)
    form = Workload([Mean("x"), Mean("x", where={"x": (0.0, 0.1)})]).lower(domain)
    pricing = Measure(form, LaplaceNoise("0.001")).price(Terms(facts))
    assert pricing._form.integral
    true, lattice = form.extents()[1], pricing._form.extents()[1] * 2.0**-pricing.bits
    assert np.abs(true - lattice).max() <= pricing.accuracy.bias / facts.row_limit + 1e-15


def test_blocks_without_attributes_have_a_sensitivity():
    domain = Domain(Integer("a", 0, 2))
    form = LinearForm(domain, [Kronecker((), (), 2.0), Kronecker((), (), 3.0)])
    found = sensitivity(form, facts_of(domain, Neighbors.REPLACE_ONE, outside=True, rows=9))
    assert (found.l1, found.l2_squared) == (5, 13)


@pytest.mark.parametrize(("start", "stop"), [(0, -1), (-2, 5), (3, 2), (0, 6)])
def test_a_range_has_to_lie_within_its_attribute(start, stop):
    with pytest.raises(InvalidArgument, match="start and stop"):
        Range(5, start, stop)


class Taker(LinearForm):
    """Would be handed the private counts."""

    def evaluate(self, counts):
        raise AssertionError


@frozen(eq=False)
class Asked(Query[float]):
    form: LinearForm

    def lower(self, domain, /):
        return self.form

    def lift(self, raw, facts, /):
        return float(raw[0])


DOMAIN = Domain(Integer("a", 0, 4))
OTHER = Domain(Integer("a", 0, 0))


@pytest.mark.parametrize(
    "form",
    [
        Taker(DOMAIN, [Kronecker.of(DOMAIN, {"a": Range(5, 0, 2)})]),
        LinearForm(OTHER, [Kronecker.of(OTHER, {"a": Identity(1)})]),
    ],
    ids=["form", "domain"],
)
def test_a_form_that_could_read_other_than_it_is_priced_for_is_refused_free_of_charge(form):
    data = PrivateData.from_columns({"a": [0, 1, 1]}, DOMAIN, outside="raise")
    session = Session(data, Budget(epsilon=1))
    with pytest.raises(InvalidArgument):
        session.answer(Asked(form), using=Laplace(epsilon=1))
    assert session.spent.charges == 0


@pytest.mark.parametrize(
    "block",
    [
        Kronecker(("a",), (Identity(1),)),
        Kronecker(("a", "a"), (Identity(5), Identity(5))),
        Dense(("a",), (2,), np.ones((1, 2))),
    ],
    ids=["size", "names", "dense"],
)
def test_a_block_fits_the_domain_of_its_form(block):
    with pytest.raises(InvalidArgument):
        LinearForm(DOMAIN, [block])


def test_lists_and_numbers_of_numpy_are_copied_into_plain_ones():
    terms = Terms(facts_of(DOMAIN, Neighbors.REPLACE_ONE, outside=True, rows=9))
    whole, names = Range(5, 0, 5), ["a"]
    blocks = [
        Kronecker(names, [whole], np.float64(2.0)),
        Kronecker(("a",), (Range(np.int64(5), np.int64(0), 5),), 2),
        Dense(names, [np.int64(5)], np.full((1, 5), 2.0)),
    ]
    names[0] = "b"
    plain = Measure(LinearForm(DOMAIN, [Kronecker(("a",), (whole,), 2.0)]), LaplaceNoise(1))
    for block in blocks:
        own = Measure(LinearForm(DOMAIN, [block]), LaplaceNoise(1)).price(terms)
        assert own.guarantee == plain.price(terms).guarantee


class Underclaimed:
    """Has all that a GaussianNoise has, and a claim that nobody verified."""

    rho, claim = Fraction(100), (Fraction(1, 10**9), Fraction(0))

    def scale_for(self, largest_move):
        return largest_move


def test_noise_of_a_foreign_class_is_refused():
    facts = facts_of(DOMAIN, Neighbors.REPLACE_ONE, outside=False, rows=9)
    with pytest.raises(InvalidArgument, match="noise"):
        Measure(LinearForm(DOMAIN, [Kronecker((), ())]), Underclaimed()).price(Terms(facts))


@pytest.mark.parametrize("claim", [("1e-9", 0), ("0.1", "1e-6"), ("-1", "1e-6"), (1, 1)])
def test_a_claim_that_rho_does_not_imply_is_refused(claim):
    with pytest.raises(InvalidArgument, match="claim"):
        GaussianNoise(1, tuple(map(Fraction, claim)))


def test_sums_that_would_reach_two_to_the_53_are_refused():
    domain = Domain(Integer("a", 0, 1))
    form = LinearForm(domain, [Kronecker.of(domain, {"a": Weights([[3.0, 0.0]])})])
    rows = (2**53 + 1) // 3
    with pytest.raises(InvalidArgument, match="within"):
        Measure(form, LaplaceNoise(1)).price(
            Terms(facts_of(domain, Neighbors.REPLACE_ONE, True, rows))
        )
    Measure(form, LaplaceNoise(1)).price(
        Terms(facts_of(domain, Neighbors.REPLACE_ONE, True, rows - 1))
    )
