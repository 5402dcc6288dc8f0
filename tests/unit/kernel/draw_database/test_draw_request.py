"""The primitive: what a draw is priced at, charged, and what of it a client may change."""

from fractions import Fraction

import numpy as np
import pytest

from dpsdk import Budget, Domain, Integer, Neighbors, PrivateData
from dpsdk.accounting import BasicComposition, Odometer, PureGuarantee
from dpsdk.accounting.guarantee import BoundedRangeGuarantee
from dpsdk.data.vault import open_histogram
from dpsdk.errors import BudgetExceeded, ExactSamplingInfeasible, InvalidArgument
from dpsdk.forms import Kronecker, LinearForm, Prefix
from dpsdk.kernel import DrawDatabase, Kernel, LaplaceNoise, Limits, Measure, Terms
from dpsdk.queries import Marginal, Threshold, Workload
from dpsdk.testing import seeded

LINE = Domain(Integer("x", 0, 9))


def table(domain=LINE, **given):
    values = np.random.default_rng(2).integers(0, 10, 300).tolist()
    return PrivateData.from_columns({"x": values}, domain, **given)


def kernel(data=None, epsilon=10):
    odometer = Odometer(Budget(epsilon), BasicComposition())
    return Kernel(data or table(), odometer, seeded(4), "test"), odometer


def prefixes():
    return LinearForm(LINE, [Kronecker(("x",), (Prefix(10),))])


def test_a_draw_is_charged_once_for_its_range():
    one, odometer = kernel()
    drawn = one.draw_database(prefixes(), 7, "0.5")
    assert drawn.records.shape == (7, 1)
    assert [charge.guarantee for charge in odometer.charges] == [
        BoundedRangeGuarantee(Fraction(1, 2))
    ]
    assert drawn.bound == DrawDatabase(prefixes(), 7, "0.5").price(one.terms).bound


def test_a_draw_runs_among_other_requests_all_or_none():
    one, odometer = kernel(epsilon=1)
    request = DrawDatabase(prefixes(), 3, "0.5")
    measured, drawn = one.run_all((Measure(prefixes(), LaplaceNoise("0.5")), request))
    assert len(measured.values) == 10
    assert len(drawn.records) == 3
    with pytest.raises(BudgetExceeded):
        one.run(request)
    assert odometer.count == 2


def test_an_allowance_pays_for_it():
    one, odometer = kernel()
    request = DrawDatabase(prefixes(), 3, "0.5")
    # Of bounded range no single run is the worst, so that pure ε stands for it.
    allowance = one.allowance([PureGuarantee("0.5")])
    one.run(request, allowance=allowance)
    assert odometer.count == 1
    one.draw_database(prefixes(), 3, "0.5", allowance=allowance)
    assert odometer.count == 2


def test_what_cannot_be_drawn_costs_nothing():
    one, odometer = kernel()
    with pytest.raises(ExactSamplingInfeasible):
        one.draw_database(prefixes(), 3, 1, limits=Limits(bytes=1))
    other = Domain(Integer("x", 0, 8))
    with pytest.raises(InvalidArgument):
        one.draw_database(LinearForm(other, [Kronecker(("x",), (Prefix(9),))]), 3, 1)
    assert odometer.count == 0


def test_a_pricing_runs_as_the_kernel_does():
    data = table()
    request = DrawDatabase(prefixes(), 5, 1)
    drawn = request.price(Terms(data.facts)).run(seeded(9), lambda: open_histogram(data))
    assert drawn.records.shape == (5, 1)


def test_private_rows_are_bounded_by_the_largest_table():
    data = table(neighbors=Neighbors.ADD_REMOVE, max_rows=5000)
    price = DrawDatabase(prefixes(), 5, 1).price(Terms(data.facts))
    assert price.bound.rows == 5000
    with pytest.raises(InvalidArgument, match="private"):
        DrawDatabase.sized(prefixes(), 1, Terms(data.facts))
    assert DrawDatabase.sized(prefixes(), 1, Terms(data.facts), alpha="0.1").size == 5


def test_the_accuracy_of_a_workload_is_one_event():
    form = Workload([Threshold("x", 3), Marginal("x")]).lower(LINE)
    accuracy = DrawDatabase(form, 5, 1).price(Terms(table().facts)).accuracy
    joint, single = (accuracy.radii(0.1, joint=each) for each in (True, False))
    assert (joint == single).all()
    assert len(joint) == 11
