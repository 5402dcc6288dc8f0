"""Weights whose products leave the floats tell nothing, cost nothing and are refused by type."""

import sys
import warnings
from fractions import Fraction

import numpy as np
import pytest

from dpsdk import Binned, Budget, Categorical, Domain, Integer, Neighbors, PrivateData, Session
from dpsdk.accounting import Odometer, default_composition
from dpsdk.errors import DpsdkError, InvalidArgument
from dpsdk.forms import Dense, Facts, GapForm, Kronecker, LinearForm, Range, Weights, sensitivity
from dpsdk.kernel import GaussianNoise, Kernel, LaplaceNoise, Measure, Terms, Watching
from dpsdk.mechanisms import Laplace, NumericSparse
from dpsdk.queries import Above, Not, Query, Sum, Threshold, Workload
from dpsdk.testing import seeded

pytestmark = pytest.mark.thorough

LARGEST = sys.float_info.max
DOMAIN = Domain(Integer("age", 0, 3), Categorical("sex", ["F", "M"]), Integer("far", 0, 2**21))
AGES = np.array([0] * 7 + [1] * 40 + [2] * 2 + [3] * 11)


def table(outside="cell", neighbors=Neighbors.REPLACE_ONE):
    columns = {"age": AGES, "sex": ["F"] * len(AGES), "far": AGES}
    return PrivateData.from_columns(columns, DOMAIN, outside=outside, neighbors=neighbors)


def session(data=None, budget=1000):
    return Session(table() if data is None else data, Budget(budget), noise=seeded(1))


class Asked(Query):
    """A stranger's query: any form at all, its raw numbers as they come."""

    def __init__(self, form):
        self.form = form

    def lower(self, domain, /):
        return self.form

    def lift(self, raw, facts, /):
        return [float(number) for number in raw]


def kernel_over(data, epsilon=1):
    """A kernel as a strategy has it, and what it pays from."""
    odometer = Odometer(Budget(epsilon, "1e-6"), default_composition())
    return Kernel(data, odometer, seeded(1), "test"), odometer


def one(weights):
    return Weights(np.reshape(weights, (1, -1)))


def heavy(cell, count, size=4):
    """A weight that so many rows in a cell bring beyond the floats, and one row fewer does not."""
    weights = np.zeros(size)
    weights[cell] = LARGEST / (count - 0.5)
    return one(weights)


NOTHING = one([0.0, 0.0])
TINY = one([5e-324, 5e-324])
FAR = one(np.full(2**21 + 1, 5e-324))


def twice(*blocks):
    return [block for block in blocks for _ in range(2)]


def mixed(cell, count):
    """Every kind of block and order of factors on whose way a product leaves the floats."""
    big = heavy(cell, count)
    spread = np.zeros((1, 8))
    spread[0, 2 * cell] = LARGEST / (count - 0.5)
    return {
        "products": twice(Kronecker(("age", "sex"), (big, NOTHING))),
        "products, other order": twice(Kronecker(("sex", "age"), (NOTHING, big))),
        "one block": [Kronecker(("age", "sex"), (big, NOTHING))],
        "a factor that shrinks": twice(Kronecker(("age", "sex"), (big, TINY))),
        "no scale": twice(Kronecker(("age", "sex"), (big, one([1.0, 1.0])), 0.0)),
        "a small scale": twice(Kronecker(("age",), (big,), 5e-324)),
        "a large scale": twice(
            Kronecker(("age", "sex"), (one([0, 0, 2.0, 0]), NOTHING), LARGEST / (count - 0.5))
        ),
        "a range of a large scale": twice(
            Kronecker(("age", "sex"), (Range(4, cell, cell + 1), Range(2, 1, 2)), LARGEST)
        ),
        "an endless scale": [Kronecker(("age",), (Range(4, 0, 0),), float("inf"))],
        "a scale that is no number": [Kronecker(("age",), (Range(4, 0, 0),), float("nan"))],
        "dense": [Dense(("age", "sex"), (4, 2), spread)],
        "several rows": [
            Kronecker(("age", "sex"), (Weights(np.tile(big.weights, (3, 1))), NOTHING))
        ],
        "records": [Kronecker(("age", "sex", "far"), (big, NOTHING, FAR))],
        "records, scaled": twice(Kronecker(("age", "far"), (big, FAR), 1e-300)),
    }


CASES = list(mixed(1, 40))


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("mechanism", [Laplace("0.01"), Laplace("1e-6")], ids=str)
def test_weights_beyond_the_floats_release_nothing_for_nothing(case, mechanism):
    seen = set()
    for cell, true in enumerate(np.bincount(AGES, minlength=4)):
        for count in (true, true + 1):
            asked = session()
            form = LinearForm(DOMAIN, mixed(cell, count)[case])
            with pytest.raises(InvalidArgument):
                asked.answer(Asked(form), using=mechanism)
            seen.add(asked.spent.charges)
    assert seen == {0}


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("noise", [LaplaceNoise("0.01"), GaussianNoise("0.01")], ids=str)
@pytest.mark.parametrize("neighbors", Neighbors)
def test_their_price_is_a_refusal_and_no_other_error(case, noise, neighbors):
    facts = table(neighbors=neighbors).facts
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(InvalidArgument):
            Measure(LinearForm(DOMAIN, mixed(1, 40)[case]), noise).price(Terms(facts))


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize(
    "asked",
    [
        lambda _, watch, gaps: watch.first_above(gaps, 0.0),
        lambda kernel, _, gaps: kernel.select(gaps, 1),
        lambda kernel, _, gaps: kernel.select(gaps, 1, groups=[slice(0, 1)]),
    ],
    ids=["watch", "choice", "choice of groups"],
)
def test_a_watch_and_a_choice_refuse_them_before_they_are_paid(case, asked):
    kernel, odometer = kernel_over(table(), epsilon=1000)
    watch = kernel.watch(Watching(1, 1))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        form = LinearForm(DOMAIN, mixed(1, 40)[case])
        with pytest.raises(InvalidArgument):
            asked(kernel, watch, GapForm.around(form, np.zeros(form.rows)))
    assert odometer.spent.charges == 0


@pytest.mark.parametrize("neighbors", Neighbors)
@pytest.mark.parametrize("outside", [True, False])
def test_a_sensitivity_that_floats_cannot_hold_is_refused_and_not_made_up(neighbors, outside):
    rows = 60 if neighbors is Neighbors.REPLACE_ONE else None
    facts = Facts(DOMAIN, neighbors, rows, outside, 60)
    refused = 0
    for case, blocks in mixed(1, 40).items():
        form = LinearForm(DOMAIN, blocks)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            try:
                found = sensitivity(form, facts)
            except InvalidArgument:
                refused += 1
                continue
        # What is left has a product that floats hold, and the scale is in it from the beginning.
        (factor,) = [f for f in blocks[0].factors if f.size == 4]
        true = Fraction(float(np.abs(factor.weights).max())) * Fraction(blocks[0].scale)
        assert found.l1 >= true * len(blocks) * (1 - Fraction(1, 2**40)), case
    assert refused >= 10


# ----------------------------------------------------------------------------------------------
# Behind the wall nothing depends on data, not even a warning.


def whole_forms():
    rng = np.random.default_rng(5)
    return [
        LinearForm(DOMAIN, twice(Kronecker(("age", "sex"), (one([3, -2, 0, 1]), one([2.0, 0]))))),
        LinearForm(DOMAIN, [Dense(("age", "sex"), (4, 2), rng.normal(size=(3, 8)))]),
        LinearForm(DOMAIN, twice(Kronecker(("age",), (one([0.3, 0.2, 0, 1]),), 1e-5))),
        LinearForm(
            DOMAIN, [Kronecker(("age", "far"), (one([0.25, 1, 0, 1]), Range(2097153, 0, 2)))]
        ),
    ]  # fmt: skip


@pytest.mark.parametrize("number", range(4))
def test_no_setting_of_numpy_or_of_warnings_makes_a_release_fail(number):
    form = whole_forms()[number]
    with warnings.catch_warnings(), np.errstate(all="raise"):
        warnings.simplefilter("error")
        asked = session()
        assert len(asked.answer(Asked(form), using=Laplace("0.5"))) == form.rows


@pytest.mark.parametrize("setting", ["raise", "warn", "call", "print", "log"])
def test_what_numpy_is_told_to_do_about_errors_is_not_done_behind_the_wall(setting, monkeypatch):
    """A division by a count of zero, say, in code to come: it must stay without a trace."""
    import dpsdk.data.histogram as module

    real = module.Histogram.table

    def dividing(self, names):
        found = real(self, names)
        np.float64(1.0) / np.float64(found.ravel()[0] * 0)
        np.array([np.inf]).astype(np.int64)
        return found

    monkeypatch.setattr(module.Histogram, "table", dividing)
    heard = []
    with warnings.catch_warnings(record=True) as caught, np.errstate(all=setting):
        warnings.simplefilter("always")
        old = np.seterrcall(lambda *given: heard.append(given))
        try:
            session().answer(Threshold("age", 1), using=Laplace("0.5"))
        except ValueError:
            pass
        finally:
            np.seterrcall(old)
    assert not caught
    assert not heard


# ----------------------------------------------------------------------------------------------
# What no row can change is answered from public facts.


def refusing(*_, **__):
    raise AssertionError("the table was opened")


CONSTANT = {
    "all rows": [Kronecker((), ())],
    "all rows by another attribute": [Kronecker(("age",), (one([3.0] * 4),), 0.5)],
    "several": [Kronecker((), (), 2.0), Dense(("sex",), (2,), [[4.0, 4.0], [-1.0, -1.0]])],
    "full ranges": twice(Kronecker(("age", "sex"), (Range(4, 0, 4), Range(2, 0, 2)), 3.0)),
}
NOUGHT = {
    "an empty range": [Kronecker(("age",), (Range(4, 2, 2),))],
    "zeros": twice(Kronecker(("age", "sex"), (one([5.0, 1, 2, 3]), NOTHING))),
    "dense zeros": [Dense(("age", "sex"), (4, 2), np.zeros((3, 8)))],
}


@pytest.mark.parametrize("case", [*CONSTANT, *NOUGHT])
@pytest.mark.parametrize("neighbors", Neighbors)
@pytest.mark.parametrize("outside", ["cell", "raise"])
def test_a_form_that_no_row_changes_is_answered_without_the_table(
    case, neighbors, outside, monkeypatch
):
    monkeypatch.setattr("dpsdk.kernel.access.open_histogram", refusing)
    form = LinearForm(DOMAIN, (CONSTANT | NOUGHT)[case])
    asked = session(table(outside, neighbors))
    public = neighbors is Neighbors.REPLACE_ONE and outside == "raise"
    if case in CONSTANT and not public:
        assert sensitivity(form, asked.facts).l1 > 0
        return
    answers = asked.answer(Asked(form), using=Laplace("0.01"))
    monkeypatch.undo()
    rows = {"several": [2, 4, -1], "all rows": [1], "full ranges": [3, 3]}.get(case, [1.5])
    wanted = [len(AGES) * row for row in rows] if case in CONSTANT else [0.0] * form.rows
    assert answers == wanted
    assert asked.spent.epsilon == 0


NOBODY = Sum("income", where={"sex": Not({"F", "M"})}, normalized=False)


@pytest.mark.parametrize(
    ("mechanism", "query"),
    [
        (Laplace("0.01"), Workload([NOBODY, NOBODY])),
        (NumericSparse(1, tops=1), Above(Sum("income", normalized=False), 3)),
    ],
)
def test_a_query_with_a_far_edge_is_refused_before_it_is_paid(mechanism, query):
    domain = Domain(Binned("income", [0, 1, 1.7e308]), Categorical("sex", ["F", "M"]))
    columns = {"income": [2.0] * 30, "sex": ["F"] * 30}
    asked = session(PrivateData.from_columns(columns, domain, outside="raise"))
    channel = asked.open(mechanism)
    with pytest.raises(DpsdkError):
        channel.answer(query)
    assert asked.spent.charges == 0
