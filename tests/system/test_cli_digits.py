"""How many digits the command line writes, and that what it states holds for what it writes."""

import math
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest

from dpsdk import Boolean, Budget, Categorical, Domain, Integer, Neighbors
from dpsdk.accounting import Odometer
from dpsdk.cli.prices import asked_of, priced
from dpsdk.cli.request import Request, Wanted
from dpsdk.cli.tables import Step, step_of
from dpsdk.forms import Facts
from dpsdk.mechanisms import Gaussian, Laplace
from dpsdk.planner import Planner

pytestmark = pytest.mark.thorough


@pytest.mark.parametrize("error", [3e-9, 0.01, 0.0999999, 0.1, 1.0, 9.99, 10.0, 123.4, 2e13])
def test_a_rounded_number_is_off_by_no_more_than_is_stated(error):
    step = step_of(error, "noise")
    size = Fraction(10) ** -step.places
    assert Fraction(error) / 100 < size <= Fraction(error) / 10
    far = Fraction(repr(error)) + size / 2
    assert far <= Fraction(repr(step.stated)) <= far * Fraction(1001, 1000)
    rng = np.random.default_rng(3)
    halves = [float(size * Fraction(k, 2)) for k in (-3, -1, 1, 3, 5)]
    for value in [*(rng.normal(size=40) * 20 * error).tolist(), *halves, 0.0, -0.0, error / 1e9]:
        written = step.written(value)
        decimal = Decimal(repr(written))
        assert abs(Fraction(decimal) - Fraction(value)) <= size / 2
        assert Fraction(decimal) % size == 0
        assert not repr(written).startswith("-0.0") or written < 0


def test_what_cannot_be_rounded_is_written_whole():
    for error in (0.0, math.inf, 1e-13, 5e-324):
        assert step_of(error, "noise") == Step(error, None)
    assert step_of(0.1, "full") == Step(0.1, None)
    assert Step(0.1, None).stated == 0.1
    assert Step(0.1, None).written(0.123456789) == 0.123456789
    far = 2.0**60 + 2.0**20
    assert step_of(1e3, "noise").written(far) == far
    assert math.isnan(step_of(1e3, "noise").written(math.nan))


_TRIED = 80


def decimal(number):
    """A number as it is written, which stands for the decimal that it prints as."""
    return Fraction(repr(number))


def farthest(step, unit, bits, steps):
    """How far numbers as they are written are from the truth, of all that are off by so many steps.

    Truths are multiples of `unit`, and numbers multiples of its part 2**-bits.
    """
    found = Fraction(0)
    # After so many rows the grids meet again, where halves go to the same side.
    rows = min(2 * (step.size / unit).numerator, _TRIED)
    scale = float(unit)
    for truth in range(rows):
        for off in (-steps, 1 - steps, steps - 1, steps):
            # As the kernel and the query make it.
            value = (truth * 2**bits + off) * 2.0**-bits * scale
            found = max(found, abs(decimal(step.written(value)) - truth * unit))
    return found


@pytest.mark.parametrize("rows", [1, 7, 8, 10, 64, 300, 999, 1000, 1024, 4000, 48_842, 10**6])
@pytest.mark.parametrize("bits", [0, 1, 2, 5])
def test_no_number_as_it_is_written_is_farther_off_than_is_stated(rows, bits):
    unit = Fraction(1, rows)
    for steps in [*range(1, 45, 3), 77, 99, 100, 101, 250, 1000, 99_999]:
        error = steps * 2.0**-bits * float(unit)
        for digits in ("noise", "full"):
            step = step_of(error, digits, unit)
            far = farthest(step, unit, bits, steps)
            if step.places is None:
                assert step.stated == error
                # Numbers of all digits are floats, a rounding off at the most.
                assert far <= decimal(error) + Fraction(1, 2**50)
                continue
            stated = decimal(step.stated)
            assert far <= stated
            assert stated <= decimal(step_of(error, digits).stated)


@pytest.mark.parametrize("error", [1, 9, 10, 37, 99, 100, 12_340])
def test_whole_counts_are_moved_by_steps_of_several_rows_alone(error):
    for rows in (1, 10, 1000):
        step = step_of(error / rows, "noise", Fraction(1, rows))
        moved = step.size / 2 if step.size > Fraction(1, rows) else 0
        assert decimal(step.stated) == Fraction(error, rows) + moved
        assert decimal(step_of(error / rows, "noise").stated) > Fraction(error, rows)


DOMAIN = Domain(Integer("age", 0, 9), Categorical("size", ["small", "large"]), Boolean("member"))
PAIRS = [("age", "size"), ("age", "member"), ("size", "member")]


@pytest.mark.parametrize("relation", Neighbors)
@pytest.mark.parametrize("counts", [True, False])
@pytest.mark.parametrize("delta", ["0", "1e-6"])
@pytest.mark.parametrize("beta", [0.01, 0.05])
def test_the_least_budget_is_the_least(tmp_path, relation, counts, delta, beta):
    hidden = relation is Neighbors.ADD_REMOVE
    if hidden and not counts:
        return
    rows = None if hidden else 400
    facts = Facts(DOMAIN, relation, rows, outside=True, row_limit=1000 if hidden else 400)
    unit = Fraction(1, 1 if counts else 400)

    def request(error):
        wanted = Wanted(error, Budget(1000, delta))
        return Request(table=tmp_path, domain=tmp_path, out=tmp_path, budget=wanted, counts=counts,
                       beta=beta)  # fmt: skip

    for whole in (2, 29) if delta == "1e-6" else (2, 29, 100):
        asked = asked_of(request(whole * unit), PAIRS)
        budget, using = priced(request(whole * unit), facts, asked)
        price = using.epsilon if isinstance(using, Laplace) else using.rho
        prices = Planner.of(facts, Odometer(Budget(1, delta)))

        def stated(price, asked=asked, prices=prices, delta=delta):
            noise = Laplace(epsilon=price) if delta == "0" else Gaussian(rho=price)
            return step_of(prices.quote(asked, using=noise).error(beta), "noise", unit).stated

        assert stated(price) <= float(whole * unit)
        # Just below, and near where Gaussian noise goes over to another lattice.
        for part in (99_999, 99_000, 98_000, 97_000, 90_000):
            assert stated(price * part / 100_000) > float(whole * unit)
        assert delta != "0" or budget.epsilon == price


def test_the_least_budget_may_be_that_of_noise_on_a_coarser_lattice(tmp_path):
    """From a ρ of a sixteenth on its steps are half as wide, and its bound is 10.25 at first."""
    facts = Facts(DOMAIN, Neighbors.REPLACE_ONE, 400, outside=True, row_limit=400)
    wanted = Wanted(Fraction(10), Budget(10, "1e-6"))
    request = Request(table=tmp_path, domain=tmp_path, out=tmp_path, budget=wanted, counts=True,
                      beta=0.1, digits="full")  # fmt: skip
    asked = asked_of(request, [("age",)])
    prices = Planner.of(facts, Odometer(Budget(1, "1e-6")))

    def bound(rho):
        return prices.quote(asked, using=Gaussian(rho=rho)).error(0.1)

    assert [bound("0.0622753"), bound("0.0622754"), bound("0.0626")] == [10.5, 10, 10.25]
    _, using = priced(request, facts, asked)
    assert using == Gaussian(rho="0.0622754")
