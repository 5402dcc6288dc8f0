"""A measurement of OpenDP in a session: what it is charged, what it answers, and how it is audited.

Its randomness is its own and cannot be enumerated, so that it is sampled, with a false alarm no
likelier than one in a billion.
"""

import importlib
import math
import sys
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

from dpsdk import Budget, Domain, Integer, Neighbors, PrivateData, Session
from dpsdk.accounting import BasicComposition, Odometer, PureGuarantee, Trusted
from dpsdk.errors import BudgetExceeded, DomainError, InvalidArgument, QueryError, Untrusted
from dpsdk.kernel import Kernel, Terms
from dpsdk.noise import DiscreteLaplace
from dpsdk.queries import Count, Marginal, Workload
from dpsdk.testing import seeded
from dpsdk.testing.audit import sample_batches

pytest.importorskip("opendp.prelude")

HOW_TO = Path(__file__).parents[2] / "docs" / "how-to"
NAME = "opendp_laplace.OpenDPCounts"
PROOF = "docs/explanation/proofs/opendp.md"
DOMAIN = Domain(Integer("a", 0, 1), Integer("b", 0, 2))


@pytest.fixture(scope="module")
def wrapped():
    """The module of the how-to."""
    sys.path.insert(0, str(HOW_TO))
    try:
        yield importlib.import_module("opendp_laplace")
    finally:
        sys.path.remove(str(HOW_TO))


def table(rows=((0, 0), (0, 1), (1, 2), (1, 2)), neighbors=Neighbors.ADD_REMOVE, **given):
    columns = {name: [row[place] for row in rows] for place, name in enumerate("ab")}
    return PrivateData.from_columns(columns, DOMAIN, neighbors=neighbors, max_rows=9, **given)


def test_it_answers_marginals_and_is_on_record(wrapped):
    session = Session(table(), Budget(100), trust={NAME: PROOF})
    for names in (("a",), ("b", "a"), ("a", "b")):
        query = Marginal(*names, normalized=False)
        release = session.release(query, using=wrapped.OpenDPLaplace(30))
        # With a chance of less than e^-25 it is off at all.
        expected = np.zeros([DOMAIN[name].size for name in names])
        for row in ((0, 0), (0, 1), (1, 2), (1, 2)):
            expected[tuple(row["ab".index(name)] for name in names)] += 1
        np.testing.assert_array_equal(release.value.values, expected)
        assert release.error(0.05) == 0
        assert release.payment.trusted == (Trusted(NAME, PROOF),)
        assert session.quote(query, using=wrapped.OpenDPLaplace(30)).at_most == release.cost
    assert session.spent.epsilon == 90
    with pytest.raises(BudgetExceeded):
        session.answer(Marginal("a", normalized=False), using=wrapped.OpenDPLaplace("10.1"))
    with pytest.raises(QueryError, match="one whole marginal table"):
        session.answer(Count({"a": 1}, normalized=False), using=wrapped.OpenDPLaplace(1))
    both = Workload([Marginal("a", normalized=False), Marginal("b", normalized=False)])
    with pytest.raises(QueryError, match="one whole marginal table"):
        session.answer(both, using=wrapped.OpenDPLaplace(1))
    with pytest.raises(Untrusted):
        Session(table(), Budget(1)).answer(
            Marginal("a", normalized=False), using=wrapped.OpenDPLaplace(1)
        )


@pytest.mark.parametrize("neighbors", Neighbors)
@pytest.mark.parametrize("unit_rows", [1, 3])
@pytest.mark.parametrize("epsilon", ["0.1", "1/3", "7", "1e-6", "0.30000000000000001"])
def test_what_it_is_charged_is_no_less_than_what_opendp_says(
    wrapped, neighbors, unit_rows, epsilon
):
    terms = Terms(table(neighbors=neighbors, unit_rows=unit_rows).facts)
    asked = Fraction(epsilon)
    priced = wrapped.OpenDPCounts(("a", "b"), asked).price(terms)
    move = unit_rows * (2 if neighbors is Neighbors.REPLACE_ONE else 1)
    said = Fraction(priced.measurement.map(move))
    assert priced.guarantee == PureGuarantee(asked)
    assert asked * (1 - Fraction(1, 10**12)) < said <= asked
    # And that is an upper bound of what its scale makes of such a move.
    scale = priced.accuracy.law.scale
    assert move / scale <= said
    if asked == Fraction("0.1"):
        # A float that is read as a decimal would be too little.
        assert said != Fraction(str(float(said)))


@pytest.mark.parametrize(
    ("names", "epsilon", "error"),
    [
        ((), Fraction(1), InvalidArgument),
        (("b", "a"), Fraction(1), InvalidArgument),
        (("a", "a"), Fraction(1), InvalidArgument),
        (["a"], Fraction(1), InvalidArgument),
        ((1,), Fraction(1), InvalidArgument),
        (("c",), Fraction(1), DomainError),
        (("a",), Fraction(0), InvalidArgument),
        (("a",), Fraction(-1), InvalidArgument),
        (("a",), 0.5, InvalidArgument),
        (("a",), type("Half", (Fraction,), {})(1, 2), InvalidArgument),
        (("a",), Fraction(1, 10**300), InvalidArgument),
    ],
)
def test_its_fields_are_checked_when_it_is_priced(wrapped, names, epsilon, error):
    with pytest.raises(error):
        wrapped.OpenDPCounts(names, epsilon).price(Terms(table().facts))


def test_its_noise_has_the_law_that_its_bounds_rest_on(wrapped):
    scale, drawn = 2.5, 10_000
    noise = np.array(wrapped.laplace(scale)([0] * drawn))
    law = DiscreteLaplace(Fraction(scale))
    for level in (0, 1, 3, 8):
        expected = law.tail(level)  # of being farther away
        slack = math.sqrt(math.log(2 / 1e-9) / (2 * drawn))  # Hoeffding 1963
        assert abs((abs(noise) > level).mean() - expected) < slack


ONE, OTHER = table(((0, 0),)), table(())


def batch(request):
    def run(data, noise, size):
        odometer = Odometer(Budget(10**9), BasicComposition())
        kernel = Kernel(data, odometer, noise, "audited", trust={NAME: PROOF})
        return np.array([kernel.run(request).values[0] for _ in range(size)])

    return run


class Alike:
    """A histogram of so many cells with one count, so that one run gives so many samples."""

    def __init__(self, count, size):
        self.cells = np.full(size, float(count))

    def table(self, names):
        return self.cells


def audited(request):
    """What is found of one cell with one row, or with none, by the very run that is paid for."""
    priced = request.price(Terms(ONE.facts))

    def at_once(data, noise, size):
        return priced.run(noise, lambda: Alike(data is ONE, size)).values

    given = {"noise": seeded(1), "samples": 2000, "alpha": 1e-9}
    return sample_batches(at_once, ONE, OTHER, priced.guarantee, **given)


@pytest.fixture
def halved(wrapped):
    """A twin with half the noise that it is charged for."""

    class Halved(wrapped.OpenDPCounts):
        def price(self, terms, /):
            honest = super().price(terms)
            scale = float(honest.accuracy.law.scale) / 2
            measurement = wrapped.laplace(scale)
            return wrapped.Noising(honest.names, honest.guarantee, honest.accuracy, measurement)

    return Halved


def test_an_audit_by_samples_finds_half_the_noise_and_no_fault_with_all_of_it(wrapped, halved):
    epsilon = Fraction(2)
    assert not audited(wrapped.OpenDPCounts(("a",), epsilon)).violated
    found = audited(halved(("a",), epsilon))
    assert found.violated
    assert found.first > math.exp(2) * found.second


@pytest.mark.audit
@pytest.mark.parametrize("epsilon", [Fraction(1, 2), Fraction(1)])
def test_an_audit_by_many_samples_finds_no_fault(wrapped, epsilon):
    request = wrapped.OpenDPCounts(("a", "b"), epsilon)
    claimed = request.price(Terms(ONE.facts)).guarantee
    report = sample_batches(batch(request), ONE, OTHER, claimed, noise=seeded(1), samples=10_000)
    assert not report.violated
