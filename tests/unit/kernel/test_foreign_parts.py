"""A factor or block of another author is priced, and read, by the weights that it gives."""

import numpy as np
import pytest

from dpsdk import Budget, Domain, Integer, Neighbors, PrivateData
from dpsdk.accounting import BasicComposition, Odometer
from dpsdk.errors import InvalidArgument, TooLarge
from dpsdk.forms import Dense, Factor, Kronecker, LinearForm, Weights
from dpsdk.forms.blocks import Block
from dpsdk.kernel import GaussianNoise, Kernel, LaplaceNoise, Measure, Terms
from dpsdk.testing import seeded

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
