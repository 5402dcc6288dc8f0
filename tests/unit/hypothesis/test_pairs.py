"""The fit of noisy marginals that a stream may start from."""

import math
from itertools import combinations

import numpy as np
import pytest
from reference import one

from dpsdk import Boolean, Budget, Domain, Integer, Neighbors, PrivateData, Session
from dpsdk.accounting import Odometer, ZCDPComposition, default_composition
from dpsdk.errors import BudgetExceeded, InvalidArgument, PublicSizeRequired, TooLarge
from dpsdk.forms import Identity, Kronecker, LinearForm, Range, sensitivity
from dpsdk.hypothesis import DenseHypothesis, Pairs, Product
from dpsdk.kernel import GaussianNoise, Kernel, LaplaceNoise, Measure, Terms
from dpsdk.mechanisms import OnlinePMW
from dpsdk.queries import Conjunction, Marginal, Threshold, Workload
from dpsdk.testing import seeded

pytestmark = pytest.mark.thorough

DOMAIN = Domain(Integer("a", 0, 4), Boolean("b"), Integer("c", 0, 3))
ROWS = 20_000


def linked(outside=1000):
    """Rows in which a says much of b, and b of c."""
    rng = np.random.default_rng(1)
    a = rng.integers(0, 5, ROWS)
    b = rng.random(ROWS) < np.array([0.05, 0.9, 0.2, 0.8, 0.5])[a]
    c = np.where(b, rng.integers(0, 2, ROWS), rng.integers(1, 4, ROWS))
    counts = np.zeros(DOMAIN.shape, dtype=np.int64)
    np.add.at(counts, (a, b.astype(int), c), 1)
    return counts, PrivateData.from_counts(counts, DOMAIN, outside_rows=outside)


def kernel_over(data, epsilon=100):
    odometer = Odometer(Budget(epsilon, "1e-6"), default_composition())
    return Kernel(data, odometer, seeded(1), "test")


def marginals(width):
    names = [n for k in range(1, width + 1) for n in combinations(DOMAIN.names, k)]
    blocks = [Kronecker.of(DOMAIN, {n: Identity(DOMAIN[n].size) for n in few}) for few in names]
    return LinearForm(DOMAIN, blocks)


@pytest.mark.parametrize("noise", [LaplaceNoise(20), GaussianNoise(20)])
@pytest.mark.parametrize("outside", [0, 1000])
def test_its_pairs_are_those_of_the_table_and_those_of_a_product_are_not(noise, outside):
    counts, data = linked(outside)
    shares = counts / (ROWS + outside)
    found = Pairs().open(kernel_over(data), noise)
    product = Product().open(kernel_over(data), noise)
    for names in combinations(DOMAIN.names, 2):
        (gone,) = (axis for axis, name in enumerate(DOMAIN.names) if name not in names)
        true = shares.sum(axis=gone)
        assert np.abs(found.table(names) - true).max() < 2e-3
        if names != ("a", "c"):
            assert np.abs(product.table(names) - true).max() > 0.02
    assert found.outside_mass == pytest.approx(outside / (ROWS + outside), abs=5e-3)
    assert found.kl_cap() <= Pairs().kl_cap(data.facts) < math.inf


@pytest.mark.parametrize("width", [1, 2, 3, 9])
@pytest.mark.parametrize("noise", [LaplaceNoise(1), GaussianNoise("0.1")])
def test_all_marginals_are_one_run_with_the_noise_of_their_joint_sensitivity(width, noise):
    _, data = linked()
    form = marginals(min(width, 3))
    terms = Terms(data.facts)
    assert Pairs(width=width).price(noise, terms) == (Measure(form, noise).price(terms).guarantee,)
    moves = sensitivity(form, data.facts)
    tables = len(form.blocks)
    assert (moves.l1, moves.l2_squared) == (2 * tables, 2 * tables)
    kernel = kernel_over(data)
    before = kernel_over(data).measure(form, noise).values
    hypothesis = Pairs(width=width).open(kernel, noise)
    # Of the same noise, what is fitted is near what was measured.
    found = hypothesis.answers(form) * data.facts.rows
    deviation = Measure(form, noise).price(terms).accuracy.law.standard_deviation()
    assert np.abs(found - before).max() < 12 * deviation + 100


def test_what_it_cannot_start_from_is_refused_before_anything_is_paid():
    counts, _ = linked()
    private = PrivateData.from_counts(counts, DOMAIN, neighbors=Neighbors.ADD_REMOVE)
    with pytest.raises(PublicSizeRequired):
        Pairs().open(kernel_over(private), LaplaceNoise(1))
    wide = Domain(*(Integer(f"x{i}", 0, 3) for i in range(13)))
    many = Domain(*(Boolean(f"x{i}") for i in range(24)))
    for domain, start in ((wide, Pairs()), (many, Pairs(width=12))):
        facts = PrivateData.from_columns({n: [0, 1] for n in domain.names}, domain).facts
        with pytest.raises(TooLarge):
            start.check(facts)
    for width in (0, -1, 1.5, True, "2", None):
        with pytest.raises(InvalidArgument, match="width"):
            Pairs(width=width)
    _, data = linked()
    with pytest.raises(InvalidArgument, match="noise"):
        Pairs().open(kernel_over(data))
    with pytest.raises(BudgetExceeded):
        Pairs().open(kernel_over(data, epsilon=1), LaplaceNoise(2))


@pytest.mark.parametrize("prepaid", [True, False])
@pytest.mark.parametrize("delta", [0, "1e-6"])
@pytest.mark.parametrize("updates", [2, 40])
def test_a_stream_from_pairs_fits_a_session_of_just_its_budget(prepaid, delta, updates):
    _, data = linked()
    mechanism = OnlinePMW(1, delta, updates=updates, start="pairs", prepaid=prepaid)
    composition = ZCDPComposition() if delta and not prepaid else None
    session = Session(data, Budget(1, delta), composition=composition, noise=seeded(3))
    questions = Workload(
        Conjunction({"a": {x}, "b": y, "c": {z}})
        for x in range(5)
        for y in (False, True)
        for z in range(4)
    )
    quote = session.quote(questions, using=mechanism)
    with session.open(mechanism) as channel:
        (entry, *_) = session.history
        assert entry.cost == quote.at_open
        answers = np.array(channel.answer(questions))
    assert session.spent.charges > 1
    counts, _ = linked()
    assert np.abs(answers - counts.reshape(-1) / (ROWS + 1000)).max() < 0.05


def test_the_bound_of_an_answer_counts_on_what_the_start_leaves():
    _, data = linked()
    widths = []
    for share in ("0.1", "0.5", "0.9"):
        mechanism = OnlinePMW(1, "1e-6", updates=3, start=Pairs(share))
        quote = Session(data, Budget(2, "1e-5")).quote(Threshold("a", 2), using=mechanism)
        widths.append(float(quote.accuracy.radii(0.05, joint=True)[0]))
    assert widths[0] < widths[1] < widths[2]
    assert widths[2] / widths[0] == pytest.approx(3, rel=0.5)


def test_what_the_pairs_miss_is_learnt_by_the_stream():
    """The parity of three bits, which no pair tells anything of."""
    bits = Domain(Boolean("x"), Boolean("y"), Boolean("z"))
    counts = np.array([[[1, 0], [0, 1]], [[0, 1], [1, 0]]]) * 5000
    data = PrivateData.from_counts(counts, bits)
    session = Session(data, Budget(4, "1e-5"), noise=seeded(2))
    with session.open(OnlinePMW(2, "1e-6", updates=20, queries=10, start="pairs")) as channel:
        begun = channel.hypothesis
        corner = one(bits, x=Range(2, 1, 2), y=Range(2, 1, 2), z=Range(2, 1, 2))
        assert isinstance(begun, DenseHypothesis)
        assert begun.answer(corner) == pytest.approx(1 / 8, abs=0.02)
        found = channel.answer(Marginal("x", "y", "z")).values
    assert found == pytest.approx(counts / 20_000, abs=0.04)
