"""How far off a number may be while it is not known which function it will be measured of."""

import numpy as np
import pytest

from dpsdk import Budget, Domain, Integer, Neighbors, PrivateData
from dpsdk.accounting import BasicComposition, Odometer
from dpsdk.errors import InvalidArgument
from dpsdk.forms import GapForm, Kronecker, LinearForm, Weights
from dpsdk.kernel import GaussianNoise, Kernel, LaplaceNoise, Measure, Terms
from dpsdk.mechanisms import NumericSparse, OnlinePMW
from dpsdk.mechanisms.numeric_sparse import fine, on_any_lattice, price_any
from dpsdk.testing import seeded
from worlds import facts

pytestmark = pytest.mark.thorough

LINE = Domain(Integer("x", 0, 7))


def weighted(*rows):
    return LinearForm(LINE, [Kronecker(("x",), (Weights(np.array(rows)),))])


def ramp(top):
    return [top * i / 7 for i in range(8)]


FORMS = {
    "small first": weighted(ramp(0.1), ramp(0.9)),
    "nearly one, and one": weighted(ramp(1 - 1e-7), [0, 0, 1, 1, 0, 0, 0, 1]),
    "one, and nearly one": weighted([0, 0, 1, 1, 0, 0, 0, 1], ramp(1 - 1e-7)),
    "many": weighted(*[ramp(i / 100) for i in range(1, 101)]),
    "constants": weighted([1] * 8, [0] * 8, ramp(0.5)),
}


def rows(form):
    return [form.row(number) for number in range(form.rows)]


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("neighbors", Neighbors)
@pytest.mark.parametrize("unit_rows", [1, 3])
@pytest.mark.parametrize("size", [50, 2**26])
def test_no_function_is_measured_with_a_wider_error_than_any_may_have(
    form, neighbors, unit_rows, size
):
    terms = Terms(facts(LINE, neighbors, rows=size, unit_rows=unit_rows))
    for noise in (LaplaceNoise("0.3"), LaplaceNoise(5), GaussianNoise("0.01"), GaussianNoise(2)):
        known = price_any(FORMS[form], noise, terms).accuracies
        for row in rows(FORMS[form]):
            one = Measure(row, noise).price(terms).accuracy
            for beta in (0.3, 0.05, 1e-6):
                widest = max(may.radii(beta, joint=False)[0] for may in known)
                assert one.radii(beta, joint=True)[0] <= widest


@pytest.mark.parametrize("form", sorted(FORMS))
def test_a_quote_of_the_sparse_vector_covers_whichever_number_is_measured(form):
    functions = FORMS[form]
    count, terms = functions.rows, Terms(facts(LINE, rows=5000))
    gaps = GapForm(functions, np.zeros(count), np.full(count, 1.0), absolute=False, numeric=True)
    mechanism = NumericSparse(1, tops=2)
    quoted = mechanism.quote(gaps, terms).accuracy.radii(0.05, joint=True)
    for row in rows(functions):
        one = Measure(row, mechanism.schedule.noise).price(terms).accuracy
        assert one.radii(0.05 / 2 / 2, joint=True)[0] <= quoted.min()


@pytest.mark.parametrize("power", [12, 26, 30, 34])
@pytest.mark.parametrize("delta", [0, "1e-7"])
def test_a_promise_allows_for_lattices_that_many_rows_make_coarse(power, delta):
    # So many rows leave few bits for a lattice, and half a step for each of them is a lot.
    terms = Terms(facts(LINE, rows=2**power))
    mechanism = OnlinePMW(4, delta, alpha=0.99, beta=0.1, queries=20)
    schedule = mechanism.schedule(terms.facts)
    for row in rows(FORMS["many"])[::9]:
        accuracy = Measure(row, schedule.noise).price(terms).accuracy
        own = accuracy.law.radius(0.1 / 3, schedule.updates) * accuracy.step + accuracy.bias
        assert own <= schedule.radius * 2**power
        assert accuracy.bias <= on_any_lattice(schedule.noise, terms.facts) - 1


def test_a_promise_refuses_numbers_that_round_more_than_it_counts_on(monkeypatch):
    data = PrivateData.from_counts([20_000] * 8, LINE)
    odometer = Odometer(Budget(4), BasicComposition())
    kernel = Kernel(data, odometer, seeded(1), "test")
    strategy = OnlinePMW(4, alpha=0.99, beta=0.1, queries=20).open(kernel)
    # Its weights are shares, but they are made of larger numbers, which leave fewer bits.
    form = LinearForm(LINE, [Kronecker(("x",), (Weights(np.array([ramp(2.0)])),), 0.5)])
    assert not fine(form)
    strategy.answer(form, kernel)
    spent = odometer.count
    monkeypatch.setattr("dpsdk.mechanisms.pmw.strategy.on_any_lattice", lambda *_: 1.0)
    with pytest.raises(InvalidArgument, match="round finely"):
        strategy.answer(form, kernel)
    assert odometer.count == spent
